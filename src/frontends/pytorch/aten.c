// aten.c -- the ATen table: schemas, binding, and the arguments of rows (aten.h).
#include "frontends/pytorch/aten.h"

#include "frontends/pytorch/pytorch.h"
#include "ir/opinfo.h"

#include <stdio.h>
#include <stdlib.h>

const AtenTable *const aten_tables[] = {&aten_elementwise, &aten_reduce, &aten_shape,  &aten_index,
                                        &aten_make,        &aten_nn,     &aten_pool,   &aten_rnn,
                                        &aten_pad,         &aten_norm,   &aten_window, &aten_search,
                                        &aten_complex,     &aten_fft,    &aten_quant,  NULL};

// ---- schemas ----

typedef struct Text {
  const char *p, *end;
} Text;

static void spaces(Text *t) {
  while (t->p < t->end && *t->p == ' ') t->p++;
}

static bool take(Text *t, char c) {
  spaces(t);
  if (t->p == t->end || *t->p != c) return false;
  t->p++;
  return true;
}

static Str word(Text *t) {
  spaces(t);
  const char *from = t->p;
  while (t->p < t->end && (*t->p == '_' || *t->p == '.' || (*t->p >= '0' && *t->p <= '9') ||
                           (*t->p >= 'a' && *t->p <= 'z') || (*t->p >= 'A' && *t->p <= 'Z')))
    t->p++;
  return (Str){from, t->p - from};
}

static AtenTypeKind type_kind(Str s) {
  if (str_is(s, "Tensor")) return AT_TENSOR;
  if (str_is(s, "Scalar")) return AT_SCALAR;
  if (str_is(s, "int") || str_is(s, "SymInt") || str_is(s, "ScalarType")) return AT_INT;
  if (str_is(s, "float")) return AT_FLOAT;
  if (str_is(s, "bool")) return AT_BOOL;
  if (str_is(s, "str")) return AT_STR;
  return AT_OTHER;
}

// Tensor(a!)?[] and the like; true where the alias is one.
static bool parse_type(Text *t, AtenArg *out) {
  bool alias = false;
  out->type = type_kind(word(t));
  if (t->p < t->end && *t->p == '(') {
    alias = true;
    while (t->p < t->end && *t->p != ')') t->p++;
    take(t, ')');
  }
  while (t->p < t->end && (*t->p == '?' || *t->p == '[')) {
    if (*t->p == '?') {
      out->optional = true;
      t->p++;
    } else {
      out->optional_items = out->optional;
      out->optional = false;
      out->list = true;
      while (t->p < t->end && *t->p != ']') t->p++;
      take(t, ']');
    }
  }
  return alias;
}

static Str parse_default(Text *t) {
  const char *from = t->p;
  int depth = 0;
  for (; t->p < t->end; t->p++) {
    if (*t->p == '[') depth++;
    if (*t->p == ']') depth--;
    if (!depth && (*t->p == ',' || *t->p == ')')) break;
  }
  return (Str){from, t->p - from};
}

enum { MOST_ARGS = 32 };

static AtenSchema *parse_schema(Arena *a, const AtenRow *row) {
  AtenSchema *s = arena_new(a, AtenSchema);
  Text t = {row->schema, row->schema + strlen(row->schema)};
  Str full = word(&t);
  const char *dot = memchr(full.p, '.', (size_t)full.n);
  s->row = row;
  s->name = dot ? (Str){full.p, dot - full.p} : full;
  s->overload = dot ? (Str){dot + 1, full.p + full.n - dot - 1} : (Str){"", 0};
  s->arg = arena_array(a, AtenArg, MOST_ARGS);
  bool keyword = false;
  take(&t, '(');
  while (!take(&t, ')')) {
    take(&t, ',');
    if (take(&t, '*')) {
      keyword = true;
      continue;
    }
    CHECK(s->nargs < MOST_ARGS && t.p < t.end, "a schema of ours: %s", row->schema);
    AtenArg *arg = &s->arg[s->nargs++];
    parse_type(&t, arg);
    arg->name = word(&t);
    arg->keyword = keyword;
    if (take(&t, '=')) {
      arg->has_default = true;
      arg->dflt = parse_default(&t);
    }
  }
  const char *arrow = strstr(t.p, "->");
  s->view = arrow && strstr(arrow, "(a)") != NULL;
  s->in_place = s->name.n > 1 && s->name.p[s->name.n - 1] == '_' && s->name.p[s->name.n - 2] != '_';
  return s;
}

void aten_init(Aten *a, Imported *in) {
  *a = (Aten){.g = in->graph, .arena = &in->graph->arena, .in = in};
  strmap_init(&a->by_name, a->arena);
  for (int t = 0; aten_tables[t]; t++)
    for (int64_t i = 0; i < aten_tables[t]->n; i++) {
      AtenSchema *s = parse_schema(a->arena, &aten_tables[t]->row[i]);
      AtenSchema *first = strmap_get(&a->by_name, s->name);
      if (!first) {
        strmap_put(&a->by_name, s->name, s);
        continue;
      }
      while (first->next) first = first->next;
      first->next = s;
    }
}

const AtenSchema *aten_overloads(const Aten *a, Str name) { return strmap_get(&a->by_name, name); }

const AtenSchema *aten_find(const Aten *a, Str name, Str overload) {
  if (str_is(overload, "default")) overload = (Str){"", 0};
  for (const AtenSchema *s = aten_overloads(a, name); s; s = s->next)
    if (str_eq(s->overload, overload)) return s;
  return NULL;
}

const AtenSchema *aten_find_changing(const Aten *a, Str name, Str overload) {
  bool changes = name.n > 1 && name.p[name.n - 1] == '_' && name.p[name.n - 2] != '_';
  return changes ? aten_find(a, (Str){name.p, name.n - 1}, overload) : NULL;
}

void aten_list(FrontendOpFn *fn, void *ctx) {
  for (int t = 0; aten_tables[t]; t++)
    for (int64_t i = 0; i < aten_tables[t]->n; i++) {
      const AtenRow *r = &aten_tables[t]->row[i];
      char name[128];
      int64_t n = (int64_t)strcspn(r->schema, "(");
      snprintf(name, sizeof name, "aten::%.*s", (int)MIN(n, 100), r->schema);
      fn(ctx,
         &(FrontendOp){
             .op = name, .form = "", .notes = r->fn ? r->schema + n : r->why, .refused = !r->fn});
    }
}

// ---- what was not computed ----

static int unknown_marker;
AtenValue av_unknown(void) { return (AtenValue){.kind = AV_NONE, .object = &unknown_marker}; }
bool av_is_unknown(const AtenValue *v) {
  return v->kind == AV_NONE && v->object == &unknown_marker;
}

// ---- binding ----

static AtenValue default_of(Arena *a, const AtenArg *arg) {
  Str s = arg->dflt;
  if (!arg->has_default || str_is(s, "None")) return (AtenValue){0};
  if (str_is(s, "True") || str_is(s, "False")) return av_bool(s.p[0] == 'T');
  if (s.p[0] == '"') return av_str((Str){s.p + 1, s.n - 2});
  if (s.p[0] == '[') {
    AtenValue list = av_list(a, AV_LIST);
    const char *p = s.p + 1;
    while (*p && *p != ']') {
      char *end;
      av_push(a, &list, av_int(strtoll(p, &end, 10)));
      p = *end == ',' ? end + 1 : end;
      while (*p == ' ') p++;
      if (end == p) break;
    }
    return list;
  }
  int64_t i;
  if (str_to_i64(s, &i)) return arg->type == AT_FLOAT ? av_float((double)i) : av_int(i);
  if ((s.p[0] >= '0' && s.p[0] <= '9') || s.p[0] == '-') return av_float(strtod(s.p, NULL));
  return (AtenValue){0};  // a word: contiguous_format and the like
}

static bool fits_one(AtenTypeKind t, const AtenValue *v, bool strict) {
  switch (t) {
  case AT_TENSOR: return v->kind == AV_TENSOR || (!strict && av_is_number(v));
  case AT_SCALAR:
    return v->kind == AV_INT || v->kind == AV_FLOAT || (v->kind == AV_BOOL && !strict);
  case AT_INT: return v->kind == AV_INT || (!strict && v->kind == AV_BOOL);
  case AT_FLOAT: return v->kind == AV_FLOAT || (!strict && v->kind == AV_INT);
  case AT_BOOL: return v->kind == AV_BOOL;
  case AT_STR: return v->kind == AV_STR;
  case AT_OTHER: return true;
  }
  return false;
}

static bool fits(const AtenArg *arg, const AtenValue *v, bool strict) {
  if (v->kind == AV_NONE) return arg->optional || arg->type == AT_OTHER;
  if (arg->type == AT_OTHER && !arg->list) return v->kind != AV_TENSOR && v->kind != AV_LIST;
  if (!arg->list) return fits_one(arg->type, v, strict);
  if (v->kind != AV_LIST && v->kind != AV_TUPLE)
    return arg->type == AT_INT && v->kind == AV_INT;  // int[2] from one number
  for (int64_t i = 0; i < v->list->v.n; i++) {
    const AtenValue *item = &v->list->v.v[i];
    if (item->kind == AV_NONE && arg->optional_items) continue;
    if (!fits_one(arg->type, item, strict)) return false;
  }
  return true;
}

bool aten_bind(const AtenSchema *s, Arena *arena, const AtenValue *pos, int npos,
               const AtenKeyword *kw, int nkw, bool strict, AtenValue *out) {
  bool set[MOST_ARGS] = {false};
  if (npos > s->nargs) return false;
  for (int i = 0; i < npos; i++) {
    if (s->arg[i].keyword && strict) return false;
    out[i] = pos[i];
    set[i] = true;
  }
  for (int k = 0; k < nkw; k++) {
    int i = 0;
    while (i < s->nargs && !str_eq(s->arg[i].name, kw[k].name)) i++;
    if (i == s->nargs || set[i]) return false;
    out[i] = kw[k].value;
    set[i] = true;
  }
  for (int i = 0; i < s->nargs; i++) {
    if (!set[i]) {
      if (!s->arg[i].has_default && !s->arg[i].optional) return false;
      out[i] = default_of(arena, &s->arg[i]);
    } else if (!fits(&s->arg[i], &out[i], strict)) {
      return false;
    }
  }
  return true;
}

void aten_build(Aten *a, const AtenSchema *s, AtenValue *args, Where at, AtenValue *out) {
  AtenCall c = {.a = a, .g = a->g, .schema = s, .arg = args, .at = at};
  *out = (AtenValue){0};
  if (a->g->status) return;
  if (!s->row->fn) {
    at_fail(&c, "%s", s->row->why);
    return;
  }
  AtenFn *fn = s->row->fn;
  for (int i = 0; i < s->nargs; i++)
    if (av_is_complex(&args[i])) fn = aten_complex_fn(s);
  if (!fn) {
    at_fail(&c, "of complex numbers");
    return;
  }
  Where base = a->g->diag->base;
  if (at.node) a->g->diag->base.node = at.node;
  if (at.op) a->g->diag->base.op = at.op;
  if (at.file) a->g->diag->base.file = at.file;
  if (at.line) a->g->diag->base.line = at.line;
  fn(&c);
  a->g->diag->base = base;
  *out = c.out;
  if (s->view) aten_link(a, s, args, out);
}

// ---- arguments of rows ----

void at_fail(AtenCall *c, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  graph_fail(c->g, TENON_EUNSUPPORTED, c->at, "aten::%.*s: %s", STR_ARG(c->schema->name), text);
}

static void wrong(AtenCall *c, int i, const char *what) {
  at_fail(c, "argument '%.*s' must be %s", STR_ARG(c->schema->arg[i].name), what);
}

Node *at_tensor_opt(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  if (v->kind == AV_NONE) return NULL;
  if (v->kind != AV_TENSOR && !av_is_number(v)) {
    wrong(c, i, "a tensor");
    return c->g->poison;
  }
  return av_node(c->g, v, 0);
}

Node *at_tensor(AtenCall *c, int i) {
  Node *n = at_tensor_opt(c, i);
  if (n) return n;
  wrong(c, i, "a tensor");
  return c->g->poison;
}

int64_t at_int(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  if (av_is_known(v)) return v->kind == AV_FLOAT ? (int64_t)v->f : v->i;
  wrong(c, i, "an integer that is known while the model is read");
  return 0;
}

double at_f64(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  if (av_is_known(v)) return av_f64(v);
  wrong(c, i, "a number that is known while the model is read");
  return 0;
}

bool at_bool(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  if (v->kind == AV_NONE) return false;
  if (av_is_known(v)) return v->i != 0;
  wrong(c, i, "a bool that is known while the model is read");
  return false;
}

Ints at_ints(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  if (v->kind == AV_NONE) return (Ints){0};
  int64_t n = v->list ? v->list->v.n : 1;
  int64_t *out = arena_array(&c->g->arena, int64_t, n + 1);
  for (int64_t k = 0; k < n; k++) {
    const AtenValue *x = v->list ? &v->list->v.v[k] : v;
    if (!av_is_known(x)) {
      wrong(c, i, "integers that are known while the model is read");
      return (Ints){0};
    }
    out[k] = x->i;
  }
  return (Ints){n, out};
}

Ints at_spread(AtenCall *c, int i, int n, int64_t dflt) {
  Ints v = at_ints(c, i);
  if (v.n == n) return v;
  int64_t *out = arena_array(&c->g->arena, int64_t, n + 1);
  if (v.n > 1) wrong(c, i, "one number, or one for each axis");
  for (int k = 0; k < n; k++) out[k] = v.n ? v.v[0] : dflt;
  return (Ints){n, out};
}

Node *at_shape(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  Graph *g = c->g;
  int64_t n = v->list ? v->list->v.n : 1;
  const AtenValue *item = v->list ? v->list->v.v : v;
  bool known = true;
  if (n > MAX_RANK) {
    wrong(c, i, "a shape");
    return g->poison;
  }
  for (int64_t k = 0; k < n; k++) {
    if (item[k].kind != AV_INT && item[k].kind != AV_TENSOR) wrong(c, i, "sizes");
    known = known && av_is_known(&item[k]);
  }
  if (g->status) return g->poison;
  if (known) {
    int64_t dims[MAX_RANK];
    for (int64_t k = 0; k < n; k++) dims[k] = item[k].i;
    return node_i64s(g, n, dims);
  }
  Node *part[MAX_RANK];
  int64_t one = 1;
  for (int64_t k = 0; k < n; k++)
    part[k] = N(g, reshape, av_node(g, &item[k], DT_I64), node_i64s(g, 1, &one));
  return bt_concat(g, 0, (int)n, part);
}

DType at_dtype(AtenCall *c, int i, DType dflt) {
  DType t;
  const AtenValue *v = at_arg(c, i);
  if (v->kind == AV_NONE) return dflt;
  if (av_is_known(v) && torch_scalar_type(v->i, &t)) return t;
  wrong(c, i, "a dtype that Tenon has");
  return dflt;
}

int at_rank(AtenCall *c, const Node *x) {
  if (c->g->status) return 0;
  if (type_of(x)->kind == TK_TENSOR && type_of(x)->rank >= 0) return type_of(x)->rank;
  at_fail(c, "the rank of an operand is not known");
  return 0;
}

int64_t at_axis(AtenCall *c, int i, int rank) {
  int64_t axis = at_int(c, i), n = MAX(rank, 1);
  if (c->g->status) return 0;
  if (axis >= -n && axis < n) return axis < 0 ? axis + n : axis;
  at_fail(c, "axis %lld of a tensor of rank %d", (long long)axis, rank);
  return 0;
}

Ints at_axes(AtenCall *c, int i, int rank) {
  Ints v = at_ints(c, i);
  int64_t *out = arena_array(&c->g->arena, int64_t, MAX(rank, v.n) + 1);
  if (!v.n) {
    for (int k = 0; k < rank; k++) out[k] = k;
    return (Ints){rank, out};
  }
  for (int64_t k = 0; k < v.n; k++) {
    int64_t n = MAX(rank, 1), axis = v.v[k];
    if (axis < -n || axis >= n)
      at_fail(c, "axis %lld of a tensor of rank %d", (long long)axis, rank);
    out[k] = axis < 0 ? axis + n : axis;
  }
  return (Ints){rank ? v.n : 0, out};
}

int64_t at_known_dim(AtenCall *c, const Node *x, int axis) {
  if (c->g->status) return -1;
  const Type *t = type_of(x);
  if (t->rank > axis && ie_is_const(t->dims[axis])) return t->dims[axis]->value;
  at_fail(c, "the size of axis %d must be known while the model is read", axis);
  return -1;
}

void at_give(AtenCall *c, Node *n) { c->out = av_tensor(c->a->arena, n); }

static void give_many(AtenCall *c, AvKind kind, int n, Node *const *v) {
  c->out = av_list(c->a->arena, kind);
  for (int i = 0; i < n; i++)
    av_push(c->a->arena, &c->out, v[i] ? av_tensor(c->a->arena, v[i]) : av_unknown());
}
void at_give_all(AtenCall *c, int n, Node *const *v) { give_many(c, AV_TUPLE, n, v); }
void at_give_list(AtenCall *c, int n, Node *const *v) { give_many(c, AV_LIST, n, v); }

int at_choice(int op, const char *attr, const char *wanted) {
  const OpInfo *info = op_info(op);
  for (int i = 0; i < info->nattrs; i++)
    if (!strcmp(info->attrs[i].name, attr)) {
      int at = attr_choice_find(info->attrs[i].choices, str_of(wanted));
      CHECK(at >= 0, "no word '%s' of %s", wanted, attr);
      return at;
    }
  CHECK(false, "no attribute '%s'", attr);
  return 0;
}
