// emit_pack.c -- vector accesses of a GPU thread: contiguous elements loaded and stored at once.
//
// An unrolled loop of a thread over 2 to 16 contiguous elements becomes accesses of up to 16 bytes.
// Loads go before the loop into an array that stays in registers; stores go after it.
//
// Needs:      Spelling.packs; the first index is a multiple of the number of elements; arguments
//             are aligned to 16 bytes, which the runtime ensures.
// Guarantees: the same values as element by element.  A loaded buffer is not written in the loop.
//             An argument over another one is written only where the same thread has read it.
//             Stores to one buffer are packed all or none.
#include "loop/prove.h"
#include "targets/cstyle/emit.h"

enum { MOST_PACKS = 16, MOST_ELEMENTS = 16, LARGE = 1000 };

// Where the first element lies; NULL: they are not contiguous, or the first not where it must.
static Dim first_of(const CPacks *p, Dim index) {
  IntPool *pool = p->e->k->pool;
  Dim one, rest;
  if (!dim_split(pool, index, p->loop->sym, &one, &rest) || !ie_is(one, 1) ||
      dim_has(rest, p->loop->sym) || !dim_divides(pool, ie_const(pool, p->n), rest))
    return NULL;
  return rest;
}

static bool is_stored(const CPacks *p, int32_t buffer) {
  for (int64_t i = 0; i < p->loop->body.n; i++)
    if (p->loop->body.v[i]->kind == LS_STORE && p->loop->body.v[i]->buffer == buffer) return true;
  return false;
}

static bool is_found(const CPacks *p, const LoopExpr *x) {
  for (int64_t i = 0; i < p->load.n; i++)
    if (p->load.v[i] == x) return true;
  return false;
}

// Whether the guards of a load are the same for all elements, and 0, another number or another such
// load stands where they do not hold.
static bool same_guards(const CPacks *p, const LoopExpr *x) {
  const LoopExpr *other = x->src[0];
  for (int i = 0; i < x->nguards; i++)
    if (dim_has(x->guard[i].value, p->loop->sym) || dim_has(x->guard[i].extent, p->loop->sym))
      return false;
  return !x->nguards || !other || other->kind == LX_CONST ||
         (other->dtype == x->dtype && is_found(p, other));
}

static bool in_memory(const LoopBuffer *b) {
  return (b->space == LOOP_ARG || b->space == LOOP_SHARED) && b->dtype != DT_BOOL;
}

static void find_loads(CPacks *p, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(&p->seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(&p->seen, (uint64_t)(uintptr_t)x, 1);
  for (int i = 0; i < 3; i++) find_loads(p, x->src[i]);
  if (x->kind != LX_LOAD || !same_guards(p, x)) return;
  const LoopBuffer *b = &p->e->k->buffer[x->buffer];
  bool fixed = b->space == LOOP_ARG ? !b->written : !is_stored(p, x->buffer);
  if (in_memory(b) && fixed && b->dtype == x->dtype && p->load.n < MOST_PACKS &&
      first_of(p, x->index))
    vec_push(p->e->arena, &p->load, x);
}

static bool is_read(const LoopExpr *x, int32_t buffer) {
  if (!x) return false;
  if (x->size > LARGE || (x->kind == LX_LOAD && x->buffer == buffer)) return true;
  return is_read(x->src[0], buffer) || is_read(x->src[1], buffer) || is_read(x->src[2], buffer);
}

// Stores to one buffer are packed all or none: runs that begin at multiples of their number are the
// same or lie apart, so that the last one that stores to an element stays the last.
static bool can_store(const CPacks *p, const LoopStmt *s) {
  const LoopBuffer *b = &p->e->k->buffer[s->buffer];
  return !s->nguards && in_memory(b) && s->value->dtype == b->dtype && first_of(p, s->index);
}

static void find_store(CPacks *p, const LoopStmt *s) {
  int64_t stores = 0;
  for (int64_t i = 0; i < p->loop->body.n; i++) {
    const LoopStmt *o = p->loop->body.v[i];
    stores += o->kind == LS_STORE && in_memory(&p->e->k->buffer[o->buffer]);
    if (is_read(o->value, s->buffer)) return;
    if (o->kind == LS_STORE && o->buffer == s->buffer && !can_store(p, o)) return;
  }
  if (stores > MOST_PACKS) return;
  vec_push(p->e->arena, &p->store, s);
}

const char *cs_pack_type(CEmit *e, DType t, int64_t n) {
  return str_printf(e->arena, "tn_run<%s, %d>", cs_type(e, t, 0), (int)n);
}

const char *cs_pack_place(const CPacks *p, int32_t buffer, Dim index) {
  p->e->buffer_used[buffer] = true;
  return str_printf(p->e->arena, "%s + (%s)", p->e->buffer[buffer],
                    cs_lin_text(p->e, cs_place(p->e, buffer, first_of(p, index))));
}

static void note(CEmit *e, const void *what, const char *name) {
  intmap_put(&e->pack, (uint64_t)(uintptr_t)what, (uint64_t)(uintptr_t)name);
}

// What stands for the elements of a load where its guards do not hold.
static const char *filling(CPacks *p, const LoopExpr *x) {
  Arena *a = p->e->arena;
  uint64_t other = 0;
  if (x->src[0] && intmap_get(&p->e->pack, (uint64_t)(uintptr_t)x->src[0], &other))
    return (const char *)(uintptr_t)other;
  const char *one = x->src[0] ? cs_expr(p->e, x->src[0]).text : "";
  StrBuf all;
  strbuf_init(&all, a);
  for (int64_t i = 0; *one && i < p->n; i++) strbuf_printf(&all, "%s%s", i ? ", " : "", one);
  return str_printf(a, "%s{%s}", cs_pack_type(p->e, x->dtype, p->n), strbuf_text(&all));
}

static void open_packs(CPacks *p) {
  CEmit *e = p->e;
  for (int64_t i = 0; i < p->load.n; i++) {
    const LoopExpr *x = p->load.v[i];
    const char *type = cs_pack_type(e, x->dtype, p->n);
    const char *there = e->sp->extension ? e->sp->extension->prefetched(e, x) : NULL;
    const char *name = cs_name(e, "pack");
    note(e, x, name);
    if (there) {
      cs_line(e, "%s %s;", type, name);
      cs_line(e, "memcpy(&%s, &%s, sizeof %s);", name, there, name);
      continue;
    }
    const char *guard = cs_guards(e, x->nguards, x->guard);
    const char *from = cs_pack_place(p, x->buffer, x->index);
    if (*guard)
      cs_line(e, "const %s %s = %s ? *(const %s *)(%s) : %s;", type, name, guard, type, from,
              filling(p, x));
    else
      cs_line(e, "const %s %s = *(const %s *)(%s);", type, name, type, from);
    cs_drop_guards(e, x->nguards, x->guard);
  }
  for (int64_t i = 0; i < p->store.n; i++) {
    const char *name = cs_name(e, "pack");
    cs_line(e, "%s %s;", cs_pack_type(e, p->store.v[i]->value->dtype, p->n), name);
    note(e, p->store.v[i], name);
  }
}

static void close_packs(CPacks *p) {
  CEmit *e = p->e;
  for (int64_t i = 0; i < p->store.n; i++) {
    const LoopStmt *s = p->store.v[i];
    uint64_t name = 0;
    if (intmap_get(&e->pack, (uint64_t)(uintptr_t)s, &name))
      cs_line(e, "*(%s *)(%s) = %s;", cs_pack_type(e, s->value->dtype, p->n),
              cs_pack_place(p, s->buffer, s->index), (const char *)(uintptr_t)name);
  }
}

const char *cs_packed(CEmit *e, const void *what) {
  uint64_t name = 0;
  if (!e->in_pack || !intmap_get(&e->pack, (uint64_t)(uintptr_t)what, &name)) return NULL;
  return str_printf(e->arena, "%s.v[%s]", (const char *)(uintptr_t)name, e->in_pack);
}

// Of two in a word the upper one needs no shift, and the compiler sees that only where they are
// read as a word.
const char *cs_packed_bf16(CEmit *e, const LoopExpr *load) {
  uint64_t name = 0;
  if (!e->in_pack || !intmap_get(&e->pack, (uint64_t)(uintptr_t)load, &name)) return NULL;
  return str_printf(e->arena, "tn_bf16_in(%s, %s)", (const char *)(uintptr_t)name, e->in_pack);
}

bool cs_packs(CEmit *e, const LoopStmt *s, CPacks *p) {
  *p = (CPacks){.e = e, .loop = s};
  if (!e->sp->packs || !e->thread || e->in_pack || !ie_is_const(s->extent)) return false;
  p->n = s->extent->value;
  if (p->n < 2 || p->n > MOST_ELEMENTS || (p->n & (p->n - 1))) return false;
  for (int64_t i = 0; i < s->body.n; i++)
    if (s->body.v[i]->kind != LS_LET && s->body.v[i]->kind != LS_STORE) return false;
  intmap_init(&p->seen, e->arena);
  for (int64_t i = 0; i < s->body.n; i++) {
    find_loads(p, s->body.v[i]->value);
    if (s->body.v[i]->kind == LS_STORE) find_store(p, s->body.v[i]);
  }
  return p->load.n || p->store.n;
}

bool cs_pack_loop(CEmit *e, const LoopStmt *s) {
  CPacks p;
  if (!cs_packs(e, s, &p)) return false;
  intmap_init(&e->pack, e->arena);
  cs_open(e, "{");
  open_packs(&p);
  const char *v = cs_name(e, s->sym->name);
  cs_line(e, "%s", e->sp->unroll);
  cs_open(e, "for (int %s = 0; %s < %d; %s++) {", v, v, (int)p.n, v);
  e->sym[s->sym->slot] = (CSym){.kind = CSYM_TEXT, .text = v};
  e->in_pack = v;
  cs_block(e, &s->body);
  e->in_pack = NULL;
  cs_close(e);
  close_packs(&p);
  cs_close(e);
  return true;
}
