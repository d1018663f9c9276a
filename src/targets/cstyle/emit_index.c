// emit_index.c -- index expressions as C-family text, by how they vary over the lanes.
//
// An index is kept as text + constant + stride * lane, with constants folded, so unrolled loops
// have constant indices.  Division and remainder keep that form where the lanes of one vector
// cannot straddle a multiple of the divisor.  The alignment of the first lane decides it: each
// chunk begins at a multiple of the lanes.
//
// Needs:      every symbol of the index is bound in CEmit.sym.
// Guarantees: an index without that form sets not_vector, and the loop is emitted as a plain one.
//             cs_small is true only where 31 bits hold every index and intermediate value.
#include "targets/cstyle/emit.h"

#include <math.h>

static int64_t magnitude(int64_t v) { return v == INT64_MIN ? 1 : v < 0 ? -v : v; }

static CLin lin_const(int64_t v) { return (CLin){.c = v, .align = magnitude(v)}; }
static CLin lin_text(const char *text, bool sum) {
  return (CLin){.text = text, .sum = sum, .align = 1};
}
static bool is_number(CLin x) { return !x.text && !x.stride; }

const char *cs_lin_text(CEmit *e, CLin x) {
  if (!x.text) return str_printf(e->arena, "%lld", (long long)x.c);
  if (!x.c) return x.text;
  return str_printf(e->arena, "%s %c %lld", x.text, x.c < 0 ? '-' : '+', (long long)magnitude(x.c));
}

const char *cs_operand(CEmit *e, CLin x) {
  const char *s = cs_lin_text(e, x);
  return x.sum || (x.text && x.c) || *s == '-' ? str_printf(e->arena, "(%s)", s) : s;
}

// Where the lanes have no common form; the number is of no use.
static CLin lanes_diverge(CEmit *e) {
  e->not_vector = true;
  return lin_const(0);
}

static CLin lin_add(CEmit *e, CLin a, CLin b) {
  CLin r = {.align = gcd_i64(a.align, b.align), .sum = true};
  if (!ck_add(a.c, b.c, &r.c) || !ck_add(a.stride, b.stride, &r.stride)) return lanes_diverge(e);
  if (!a.text || !b.text) {
    r.text = a.text ? a.text : b.text;
    r.sum = a.text ? a.sum : b.sum;
  } else if (*b.text == '-') {
    r.text = str_printf(e->arena, "%s - %s", a.text, b.text + 1);
  } else if (*a.text == '-') {
    r.text = str_printf(e->arena, "%s - %s", b.text, a.text + 1);
  } else {
    r.text = str_printf(e->arena, "%s + %s", a.text, b.text);
  }
  return r;
}

static int64_t align_mul(int64_t a, int64_t b) {
  int64_t r;
  return ck_mul(a, b, &r) ? r : MAX(a, b);
}

static CLin lin_scale(CEmit *e, CLin a, int64_t by) {
  CLin r = {.align = align_mul(a.align, magnitude(by)), .sum = true};
  if (by == 1) return a;
  if (!ck_mul(a.c, by, &r.c) || !ck_mul(a.stride, by, &r.stride)) return lanes_diverge(e);
  if (!a.text || !by) return r;
  const char *text = a.sum ? str_printf(e->arena, "(%s)", a.text) : a.text;
  r.text = by == -1 ? str_printf(e->arena, "-%s", text)
                    : str_printf(e->arena, "%lld * %s", (long long)by, text);
  return r;
}

static CLin lin_mul(CEmit *e, CLin a, CLin b) {
  if (is_number(a)) return lin_scale(e, b, a.c);
  if (is_number(b)) return lin_scale(e, a, b.c);
  if (a.stride || b.stride) return lanes_diverge(e);
  CLin r = lin_text(str_printf(e->arena, "%s * %s", cs_operand(e, a), cs_operand(e, b)), true);
  r.align = align_mul(a.align, b.align);
  return r;
}

static int64_t floor_number(int64_t a, int64_t b, bool mod) {
  if (b == 0) b = 1;  // divides nothing that is used
  if (b == -1) return mod ? 0 : (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b, r = a % b;
  bool past = r != 0 && (r < 0) != (b < 0);
  return mod ? r + (past ? b : 0) : q - past;
}

// Of the first lanes.
static CLin floor_text(CEmit *e, Dim d, CLin a, CLin b) {
  bool mod = d->kind == IE_MOD;
  if (!a.text && !b.text) return lin_const(floor_number(a.c, b.c, mod));
  if (d->a->lo >= 0 && d->b->lo >= 1)
    return lin_text(
        str_printf(e->arena, "%s %c %s", cs_operand(e, a), mod ? '%' : '/', cs_operand(e, b)),
        true);
  const char *name = mod ? "floor_mod" : "floor_div";
  helper_need(e->c, name, DT_I64, 0);
  return lin_text(str_printf(e->arena, "tn_%s(%s, %s)", name, cs_lin_text(e, a), cs_lin_text(e, b)),
                  false);
}

static CLin lin_divide(CEmit *e, Dim d) {
  CLin a = cs_lin(e, d->a), b = cs_lin(e, d->b), first = a;
  bool mod = d->kind == IE_MOD;
  int64_t reach;
  if (!a.stride && !b.stride) return floor_text(e, d, a, b);
  if (!is_number(b) || b.c <= 0 || a.stride <= 0 || !ck_mul(a.stride, e->lanes - 1, &reach))
    return lanes_diverge(e);
  int64_t g = gcd_i64(a.align, b.c);
  if (reach >= g) return lanes_diverge(e);
  first.stride = 0;  // its remainder is a multiple of g, and at most the divisor - g
  CLin r = floor_text(e, d, first, b);
  r.align = mod ? g : 1;
  r.stride = mod ? a.stride : 0;
  return r;
}

static CLin lin_choose(CEmit *e, Dim d) {
  CLin a = cs_lin(e, d->a), b = cs_lin(e, d->b);
  if (a.stride || b.stride) return lanes_diverge(e);
  if (d->kind == IE_BCAST) {
    if (!a.text) return a.c == 1 ? b : a;
    return lin_text(str_printf(e->arena, "(%s == 1 ? %s : %s)", cs_operand(e, a), cs_lin_text(e, b),
                               cs_operand(e, a)),
                    false);
  }
  bool least = d->kind == IE_MIN;
  if (!a.text && !b.text) return lin_const(least ? MIN(a.c, b.c) : MAX(a.c, b.c));
  helper_need(e->c, least ? "least" : "most", DT_I64, 0);
  return lin_text(str_printf(e->arena, "tn_%s(%s, %s)", least ? "least" : "most", cs_lin_text(e, a),
                             cs_lin_text(e, b)),
                  false);
}

static CLin lin_sym(CEmit *e, Dim d) {
  const CSym *s = &e->sym[d->slot];
  CLin r;
  switch ((CSymKind)s->kind) {
  case CSYM_DIM: return cs_lin(e, s->dim);
  case CSYM_NUMBER: r = lin_const(s->value); break;
  case CSYM_TEXT:
    r = lin_text(s->text, false);
    if (s->varies) r.align = e->lanes;
    r.c = s->value;
    r.align = gcd_i64(r.align, magnitude(r.c));
    break;
  default: cs_fail(e, "the symbol '%s' has no value here", d->name); return lin_const(0);
  }
  r.stride = s->varies;
  return r;
}

static CLin lin_sum(CEmit *e, Dim d) {
  CLin r = lin_const(0);
  for (int i = d->nterms - 1; i >= 0; i--) {  // the constant comes last
    const IntTerm *t = &d->term[i];
    CLin m = lin_const(1);
    for (int j = 0; j < t->natoms; j++) m = lin_mul(e, m, cs_lin(e, t->atom[j]));
    m = lin_scale(e, m, t->coef);
    r = i == d->nterms - 1 ? m : lin_add(e, r, m);
  }
  return r;
}

CLin cs_lin(CEmit *e, Dim d) {
  uint64_t name;
  if (intmap_get(&e->quotient, d->id, &name)) return lin_text((const char *)(uintptr_t)name, false);
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return lin_const(d->value);
  case IE_SYM: return lin_sym(e, d);
  case IE_SUM: return lin_sum(e, d);
  case IE_DIV:
  case IE_MOD: return lin_divide(e, d);
  case IE_MIN:
  case IE_MAX:
  case IE_BCAST: return lin_choose(e, d);
  case IE_POISON: break;
  }
  cs_fail(e, "an index has no value");
  return lin_const(0);
}

// ---- quotients of an item ----

// Whether nothing but the item's number and sizes stands in it.
static bool is_of_item(const CEmit *e, Dim d, Dim item) {
  if (d->kind == IE_CONST || d == item) return true;
  if (d->kind == IE_POISON) return false;
  for (int32_t i = 0; i < e->k->ndims && d->kind == IE_SYM; i++)
    if (e->k->dim[i] == d) return true;
  if (d->kind == IE_SYM) return false;
  if (d->kind != IE_SUM) return is_of_item(e, d->a, item) && is_of_item(e, d->b, item);
  for (int i = 0; i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++)
      if (!is_of_item(e, d->term[i].atom[j], item)) return false;
  return true;
}

// Those inside another one first.
static void name_quotients_in(CEmit *e, Dim item, Dim d) {
  uint64_t name;
  if (!d || d->kind == IE_CONST || d->kind == IE_SYM || d->kind == IE_POISON) return;
  for (int i = 0; i < d->nterms && d->kind == IE_SUM; i++)
    for (int j = 0; j < d->term[i].natoms; j++) name_quotients_in(e, item, d->term[i].atom[j]);
  if (d->kind == IE_SUM) return;
  name_quotients_in(e, item, d->a);
  name_quotients_in(e, item, d->b);
  if ((d->kind != IE_DIV && d->kind != IE_MOD) || intmap_get(&e->quotient, d->id, &name) ||
      !is_of_item(e, d, item))
    return;
  const char *v = cs_name(e, d->kind == IE_DIV ? "quotient" : "remainder");
  cs_line(e, "const %s %s = %s;", e->index, v, cs_dim(e, d));
  intmap_put(&e->quotient, d->id, (uint64_t)(uintptr_t)v);
}

static void name_quotients_of(CEmit *e, Dim item, IntMap *seen, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(seen, (uint64_t)(uintptr_t)x, 1);
  name_quotients_in(e, item, x->index);
  for (int i = 0; i < x->nguards; i++) name_quotients_in(e, item, x->guard[i].value);
  for (int i = 0; i < 3; i++) name_quotients_of(e, item, seen, x->src[i]);
}

static void name_quotients_at(CEmit *e, Dim item, IntMap *seen, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    name_quotients_in(e, item, s->index);
    for (int k = 0; k < s->nguards; k++) name_quotients_in(e, item, s->guard[k].value);
    name_quotients_of(e, item, seen, s->value);
    name_quotients_at(e, item, seen, &s->body);
  }
}

void cs_name_quotients(CEmit *e, Dim item, const LoopBlock *b) {
  IntMap seen;
  intmap_init(&seen, e->arena);
  intmap_init(&e->quotient, e->arena);  // of the item at hand
  if (e->k->ndims) name_quotients_at(e, item, &seen, b);
}

// A thread's registers are an array of its own, without the parts of other threads.
CLin cs_place(CEmit *e, int32_t buffer, Dim d) {
  bool own = e->k->buffer[buffer].space == LOOP_REGISTER || (e->shuffled && e->shuffled[buffer]);
  if (!e->threads || !e->thread || !own) return cs_lin(e, d);
  CSym *s = &e->sym[e->thread->slot], was = *s;
  *s = (CSym){.kind = CSYM_NUMBER};
  CLin at = cs_lin(e, d);
  e->sym[e->thread->slot] = was;
  return at;
}

const char *cs_dim(CEmit *e, Dim d) {
  CLin x = cs_lin(e, d);
  if (x.stride) e->not_vector = true;
  return cs_lin_text(e, x);
}

// ---- guards ----

static const char *guard_text(CEmit *e, const LoopBound *g, CLin v, CLin ext) {
  if (!v.text && v.c >= 0)
    return str_printf(e->arena, "%s > %lld", cs_operand(e, ext), (long long)v.c);
  if (g->value->lo >= 0)
    return str_printf(e->arena, "%s < %s", cs_lin_text(e, v), cs_operand(e, ext));
  helper_need(e->c, "inside", DT_I64, 0);
  return str_printf(e->arena, "tn_inside(%s, %s)", cs_lin_text(e, v), cs_lin_text(e, ext));
}

static bool holds_inside(const CEmit *e, const LoopBound *g) {
  const LoopTile *t = e->tile;
  return (e->inside & CS_ROWS_INSIDE && g->value == t->a.row && g->extent == t->a.rows) ||
         (e->inside & CS_COLS_INSIDE && g->value == t->b.row && g->extent == t->b.rows);
}

const char *cs_guards(CEmit *e, int n, const LoopBound *g) {
  StrBuf b;
  strbuf_init(&b, e->arena);
  for (int i = 0; i < n; i++) {
    CLin v = cs_lin(e, g[i].value), ext = cs_lin(e, g[i].extent);
    if (v.stride || ext.stride) e->not_vector = true;
    e->sym[g[i].sym->slot] = (CSym){.kind = CSYM_DIM, .dim = g[i].value};
    if (!v.text && !ext.text && v.c >= 0 && v.c < ext.c) continue;
    if (e->inside && holds_inside(e, &g[i])) continue;
    strbuf_printf(&b, "%s%s", b.n ? " && " : "", guard_text(e, &g[i], v, ext));
  }
  return strbuf_text(&b);
}

void cs_drop_guards(CEmit *e, int n, const LoopBound *g) {
  for (int i = 0; i < n; i++) e->sym[g[i].sym->slot] = (CSym){0};
}

// ---- how large indices get ----

// The largest magnitude of the value, as a sum of its terms'; *inner grows to that of what is
// divided on the way.  Infinite: no bound.
static double reach(Dim d, double *inner) {
  double most = MAX(fabs((double)d->lo), fabs((double)d->hi)), sum = 0;
  if (d->kind == IE_CONST || d->kind == IE_SYM) return most;
  if (d->kind == IE_POISON) return (double)INFINITY;
  if (d->kind != IE_SUM) {
    double a = reach(d->a, inner), b = reach(d->b, inner), both = MAX(a, b);
    *inner = MAX(*inner, both);
    return MIN(most, both);
  }
  for (int i = 0; i < d->nterms; i++) {
    double term = fabs((double)d->term[i].coef);
    for (int j = 0; j < d->term[i].natoms; j++) {
      double atom = reach(d->term[i].atom[j], inner);
      term *= MAX(atom, 1);
    }
    sum += term;
  }
  return sum;
}

static bool is_small_dim(Dim d) {
  double inner = 0;
  return !d || (reach(d, &inner) < 0x1p31 && inner < 0x1p31);
}

static bool small_guards(int n, const LoopBound *g) {
  for (int i = 0; i < n; i++)
    if (!is_small_dim(g[i].value) || !is_small_dim(g[i].extent)) return false;
  return true;
}

static bool small_expr(IntMap *seen, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(seen, (uint64_t)(uintptr_t)x, &known)) return true;
  intmap_put(seen, (uint64_t)(uintptr_t)x, 1);
  if (!is_small_dim(x->index) || !small_guards(x->nguards, x->guard)) return false;
  return small_expr(seen, x->src[0]) && small_expr(seen, x->src[1]) && small_expr(seen, x->src[2]);
}

static bool small_block(IntMap *seen, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    if (!is_small_dim(s->extent) || !is_small_dim(s->index) || !small_guards(s->nguards, s->guard))
      return false;
    if (!small_expr(seen, s->value) || !small_block(seen, &s->body) ||
        !small_block(seen, &s->orelse))
      return false;
  }
  return true;
}

bool cs_small(const LoopKernel *k) {
  IntMap seen;
  intmap_init(&seen, k->arena);
  for (int32_t i = 0; i < k->nbuffers; i++)
    if (!is_small_dim(k->buffer[i].size)) return false;
  return small_block(&seen, &k->body);
}
