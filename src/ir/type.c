// type.c -- types, interned in their graph.
//
// Guarantees: within one graph two types are equal exactly when they are the same pointer.
#include "ir/internal.h"

// Of no dimension there is an address too, so that lists of them can be compared and copied.
static const Dim no_dims[1];

static uint64_t type_hash(const Type *t) {
  uint64_t h = hash_u64((uint64_t)t->kind * 131 + (uint64_t)t->dtype);
  h = hash_u64(h ^ (uint64_t)(t->rank + 1) ^ (uint64_t)(uintptr_t)t->elem);
  for (int i = 0; i < t->rank; i++) h = hash_u64(h ^ (uint64_t)(uintptr_t)t->dims[i]);
  return h;
}

static bool type_same(const Type *a, const Type *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank || a->elem != b->elem)
    return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

static void grow_types(Graph *g) {
  GraphTable *t = g->table;
  int64_t cap = t->type_cap ? 2 * t->type_cap : 256;
  const Type **slot = arena_array(&g->arena, const Type *, cap);
  for (int64_t i = 0; i < t->type_cap; i++) {
    if (!t->type[i]) continue;
    uint64_t h = type_hash(t->type[i]) & (uint64_t)(cap - 1);
    while (slot[h]) h = (h + 1) & (uint64_t)(cap - 1);
    slot[h] = t->type[i];
  }
  t->type = slot;
  t->type_cap = cap;
}

const Type *type_intern(Graph *g, Type key) {
  GraphTable *t = g->table;
  if (2 * (t->ntypes + 1) > t->type_cap) grow_types(g);
  uint64_t h = type_hash(&key) & (uint64_t)(t->type_cap - 1);
  for (; t->type[h]; h = (h + 1) & (uint64_t)(t->type_cap - 1))
    if (type_same(t->type[h], &key)) return t->type[h];
  Type *n = arena_new(&g->arena, Type);
  *n = key;
  if (key.rank > 0)
    n->dims = arena_dup(&g->arena, key.dims, key.rank * (int64_t)sizeof(Dim));
  else
    n->dims = no_dims;
  t->ntypes++;
  return t->type[h] = n;
}

const Type *type_tensor(Graph *g, DType t, int rank, const Dim *dims) {
  CHECK(rank >= 0 && rank <= MAX_RANK, "rank %d", rank);
  return type_intern(g, (Type){.kind = TK_TENSOR, .dtype = t, .rank = rank, .dims = dims});
}
const Type *type_unranked(Graph *g, DType t) {
  return type_intern(g, (Type){.kind = TK_TENSOR, .dtype = t, .rank = -1});
}
const Type *type_scalar(Graph *g, DType t) { return type_tensor(g, t, 0, NULL); }
const Type *type_sequence(Graph *g, const Type *elem) {
  return type_intern(g, (Type){.kind = TK_SEQUENCE, .elem = elem});
}
const Type *type_optional(Graph *g, const Type *elem) {
  return type_intern(g, (Type){.kind = TK_OPTIONAL, .elem = elem});
}
const Type *type_map(Graph *g, DType key, const Type *value) {
  return type_intern(g, (Type){.kind = TK_MAP, .dtype = key, .elem = value});
}
const Type *type_none(Graph *g) { return type_intern(g, (Type){.kind = TK_NONE}); }

const Type *type_with_dtype(Graph *g, const Type *t, DType d) {
  Type k = *t;
  k.dtype = d;
  return type_intern(g, k);
}

Dim type_numel(Graph *g, const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 0) return NULL;
  Dim n = g->dims.one;
  for (int i = 0; i < t->rank; i++) n = ie_mul(&g->dims, n, t->dims[i]);
  return n;
}

bool type_same_dims(const Type *a, const Type *b) {
  return a->rank >= 0 && a->rank == b->rank &&
         !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

bool type_is_static(const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 0) return false;
  for (int i = 0; i < t->rank; i++)
    if (!ie_is_const(t->dims[i])) return false;
  return true;
}

const Type *type_join(Graph *g, const Type *a, const Type *b) {
  if (a == b) return a;
  // A value where an optional may stand counts as a full one.
  if (a->kind == TK_OPTIONAL && b->kind != TK_OPTIONAL) b = type_optional(g, b);
  if (b->kind == TK_OPTIONAL && a->kind != TK_OPTIONAL) a = type_optional(g, a);
  if (a->kind != b->kind) return NULL;
  if (a->kind == TK_TENSOR && !a->dtype) return b;  // below an unsupported op nothing is known
  if (b->kind == TK_TENSOR && !b->dtype) return a;
  if (a->dtype != b->dtype) return NULL;
  if (a->kind == TK_SEQUENCE || a->kind == TK_OPTIONAL || a->kind == TK_MAP) {
    const Type *e = type_join(g, a->elem, b->elem);
    if (!e) return NULL;
    return type_intern(g, (Type){.kind = a->kind, .dtype = a->dtype, .elem = e});
  }
  if (a->kind == TK_NONE) return a;
  if (a->rank != b->rank || a->rank < 0) return type_unranked(g, a->dtype);
  Dim dims[MAX_RANK];
  for (int i = 0; i < a->rank; i++)
    dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : ie_fresh(&g->dims, "d");
  return type_tensor(g, a->dtype, a->rank, dims);
}

void type_print(StrBuf *b, const Type *t) {
  switch ((TypeKind)t->kind) {
  case TK_NONE: strbuf_puts(b, "none"); return;
  case TK_SEQUENCE:
  case TK_OPTIONAL:
    strbuf_puts(b, t->kind == TK_SEQUENCE ? "seq(" : "opt(");
    type_print(b, t->elem);
    strbuf_putc(b, ')');
    return;
  case TK_MAP:
    strbuf_printf(b, "map(%s, ", dtype_name(t->dtype));
    type_print(b, t->elem);
    strbuf_putc(b, ')');
    return;
  case TK_TENSOR: break;
  }
  strbuf_puts(b, t->dtype ? dtype_name(t->dtype) : "any");
  if (t->rank < 0) {
    strbuf_puts(b, "[*]");
    return;
  }
  strbuf_putc(b, '[');
  for (int i = 0; i < t->rank; i++) {
    if (i) strbuf_puts(b, ", ");
    ie_print(b, t->dims[i]);
  }
  strbuf_putc(b, ']');
}
