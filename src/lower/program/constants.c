// constants.c -- size expressions and the constants section of a program.
//
// A size becomes postfix code.  A constant is copied, or packed in the order in which a kernel
// reads it.  Equal uses of one weight share one constant.  A large unpacked constant is mapped from
// its file in place, so pages that no run reads take no memory.
//
// Needs:      all kernels are lowered before fill_constants: it lays the whole section out at once.
// Guarantees: each constant begins at a multiple of CONST_ALIGN bytes; one that lies in its file's
//             pages where it does there, at a multiple of its elements (prog_const_align).  Sizes
//             are checked for overflow; ENOMEM where they do not fit.  Program.unload frees the
//             section. build_expr gives -1 for a size that cannot be encoded.
#include "lower/program/builder.h"
#include "lower/contract/pack.h"

// ---- sizes ----

typedef struct Code {
  VEC(int64_t) v;
  Arena *a;
  int depth, deepest;
  bool bad;
} Code;

static void put(Code *c, int64_t x) { vec_push(c->a, &c->v, x); }

static void push(Code *c, ProgOp op, int64_t x) {
  put(c, op);
  put(c, x);
  c->depth++;
  c->deepest = MAX(c->deepest, c->depth);
}

static void join(Code *c, ProgOp op) {
  put(c, op);
  c->depth--;
}

static void encode(Code *c, Dim d);

static void encode_atom(Code *c, Dim d) {
  static const uint8_t op[] = {[IE_DIV] = PX_DIV,
                               [IE_MOD] = PX_MOD,
                               [IE_MIN] = PX_MIN,
                               [IE_MAX] = PX_MAX,
                               [IE_BCAST] = PX_BCAST};
  switch ((IntExprKind)d->kind) {
  case IE_SYM: push(c, PX_SYM, d->slot); return;
  case IE_DIV:
  case IE_MOD:
  case IE_MIN:
  case IE_MAX:
  case IE_BCAST:
    encode(c, d->a);
    encode(c, d->b);
    join(c, op[d->kind]);
    return;
  case IE_CONST:
  case IE_SUM: encode(c, d); return;
  case IE_POISON: c->bad = true; return;
  }
}

static void encode(Code *c, Dim d) {
  if (d->kind == IE_CONST) {
    push(c, PX_CONST, d->value);
    return;
  }
  if (d->kind != IE_SUM) {
    encode_atom(c, d);
    return;
  }
  for (int i = 0; i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    bool one = t->coef == 1 && t->natoms > 0;
    if (!one) push(c, PX_CONST, t->coef);
    for (int k = 0; k < t->natoms; k++) {
      encode_atom(c, t->atom[k]);
      if (k || !one) join(c, PX_MUL);
    }
    if (i) join(c, PX_ADD);
  }
}

int32_t build_expr(ProgBuilder *b, Dim d) {
  uint64_t have;
  if (intmap_get(&b->exprs, (uint64_t)(uintptr_t)d, &have)) return (int32_t)have;
  Code c = {.a = &b->p->arena};
  encode(&c, d);
  if (c.bad || c.deepest > PX_STACK) return -1;
  ProgExpr e = {.n = (int32_t)c.v.n, .code = c.v.v};
  intmap_put(&b->exprs, (uint64_t)(uintptr_t)d, (uint64_t)b->expr.n);
  vec_push(&b->p->arena, &b->expr, e);
  return (int32_t)(b->expr.n - 1);
}

// ---- constants ----

static int32_t add_const(ProgBuilder *b, ProgConst k, ConstItem item) {
  vec_push(&b->p->arena, &b->constant, k);
  vec_push(b->a, &b->item, item);
  return (int32_t)(b->constant.n - 1);
}

int32_t build_const(ProgBuilder *b, const Node *n) {
  uint64_t have;
  if (intmap_get(&b->plain, n->id, &have)) return (int32_t)have;
  const Type *t = type_of(n);
  int64_t *dims = arena_array(&b->p->arena, int64_t, MAX(t->rank, 1));
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  int32_t k = add_const(b, (ProgConst){.dtype = t->dtype, .rank = t->rank, .dims = dims},
                        (ConstItem){.node = n});
  intmap_put(&b->plain, n->id, (uint64_t)k);
  return k;
}

int32_t build_packed(ProgBuilder *b, const Node *n, const PackSpec *pack) {
  for (int64_t i = 0; i < b->item.n; i++)
    if (b->item.v[i].packed && b->item.v[i].node == n &&
        !memcmp(&b->item.v[i].pack, pack, sizeof *pack))
      return (int32_t)i;
  int rank = pack->nloops - pack->words;
  int64_t *dims = arena_array(&b->p->arena, int64_t, rank);
  memcpy(dims, pack->extent, (size_t)rank * sizeof *dims);
  DType t = pack->words ? DT_U32 : type_of(n)->dtype;
  return add_const(b, (ProgConst){.dtype = t, .rank = rank, .dims = dims},
                   (ConstItem){.node = n, .packed = true, .pack = *pack});
}

static bool const_size(const ProgConst *k, const ConstItem *item, int64_t *out) {
  int64_t n;
  if (k->dtype == DT_STRING) {
    *out = 0;
    for (int64_t i = 0; i < item->node->data->n; i++)
      if (!ck_add(*out, 8 + ((const Str *)item->node->data->mem)[i].n, out)) return false;
    return true;
  }
  return shape_count(k->rank, k->dims, &n) && dtype_bytes(k->dtype, n, out);
}

// Strings one after another, each after its length.
static void fill_strings(ProgBuilder *b, ProgConst *k, const Node *n, char *to) {
  const Str *s = n->data->mem;
  Str *copy = arena_array(&b->p->arena, Str, MAX(n->data->n, 1));
  for (int64_t i = 0; i < n->data->n; i++) {
    memcpy(to, &s[i].n, 8);
    if (s[i].n) memcpy(to + 8, s[i].p, (size_t)s[i].n);
    copy[i] = (Str){to + 8, s[i].n};
    to += 8 + s[i].n;
  }
  k->data = copy;
}

// Of a constant that is mapped in place: all but the parts of its first and last page are the
// file's.
static int64_t whole_pages(const ProgConst *k) {
  int64_t begin = (k->offset + PAGE - 1) / PAGE * PAGE, end = (k->offset + k->bytes) / PAGE * PAGE;
  return MAX(end - begin, 0);
}

static tenon_status fill_all(ProgBuilder *b, Pool *pool) {
  PackList list = {0};
  bool pages = b->p->constants_bytes >= platform->pages_from;
  for (int64_t i = 0; i < b->constant.n; i++) {
    ProgConst *k = &b->constant.v[i];
    const ConstItem *item = &b->item.v[i];
    char *to = (char *)(uintptr_t)b->p->constants + k->offset;
    k->data = to;
    if (k->dtype == DT_STRING)
      fill_strings(b, k, item->node, to);
    else if (k->bytes && pages && item->in_place && pack_in_place(b->g, item->node, to, b->diag))
      b->p->mapped_bytes += whole_pages(k);
    else if (k->bytes)
      TRY(pack_add(&list, b->g, item->node, item->packed ? &item->pack : NULL, to, b->a, b->diag));
  }
  pack_run(&list, pool);
  return TENON_OK;
}

static void free_constants(Program *p) {
  mem_free((void *)(uintptr_t)p->constants, p->constants_bytes);
}

tenon_status fill_constants(ProgBuilder *b) {
  int64_t total = 0, largest = -1;
  at_work_part("constants", NULL, -1);
  for (int64_t i = 0; i < b->constant.n; i++) {
    ProgConst *k = &b->constant.v[i];
    ConstItem *item = &b->item.v[i];
    int64_t align = prog_const_align(b->o->ndevices, k->dtype);
    int64_t phase = item->packed ? -1 : pack_phase(b->g, item->node, align, b->diag);
    item->in_place = phase >= 0;
    // What lies before may be in place, and end anywhere.
    int64_t whole = item->in_place ? PAGE : CONST_ALIGN;
    total = (total + whole - 1) / whole * whole + (item->in_place ? phase : 0);
    k->offset = total;
    if (!const_size(k, item, &k->bytes) ||
        !ck_add(total, (k->bytes + CONST_ALIGN - 1) / CONST_ALIGN * CONST_ALIGN, &total))
      return fail(b->diag, TENON_ENOMEM, (Where){.node = item->node->name},
                  "the constants do not fit in 64 bits");
    if (k->bytes > largest) largest = k->bytes, at_work_node(item->node->name);
  }
  b->p->constants_bytes = MAX((total + CONST_ALIGN - 1) / CONST_ALIGN * CONST_ALIGN, CONST_ALIGN);
  b->p->constants = mem_alloc(b->p->constants_bytes);
  if (!b->p->constants)
    return fail(b->diag, TENON_ENOMEM, NOWHERE, "out of memory for %lld bytes of constants",
                (long long)total);
  b->p->unload = free_constants;
  enum { ALONE = 4 << 20 };  // bytes that are moved before other threads have begun
  Pool *pool = total > ALONE ? pool_create(0) : NULL;
  Trap t;
  trap_enter(&t, b->diag);
  if (setjmp(t.env) == 0) t.status = fill_all(b, pool);
  trap_leave(&t);
  pool_release(pool);
  return t.status;
}
