// weights.c -- lists of tensors by name (weights.h).
#include "frontends/common/weights.h"

#include "eval/contrib.h"
#include "eval/scalar.h"

void weights_init(Weights *w, Arena *a) {
  *w = (Weights){0};
  strmap_init(&w->index, a);
}

bool weights_add(Weights *w, Arena *a, const Weight *one) {
  Str name = str_of(one->name);
  if (strmap_has(&w->index, name)) return false;
  vec_push(a, &w->v, *one);
  strmap_put(&w->index, name, (void *)(uintptr_t)w->v.n);
  return true;
}

const Weight *weights_find(const Weights *w, Str name) {
  uintptr_t at = w->v.n ? (uintptr_t)strmap_get(&w->index, name) : 0;
  return at ? &w->v.v[at - 1] : NULL;
}

// A walk over the elements in row-major order; strides and sizes were checked against the bytes.
static void gather(const Weight *w, void *out) {
  int64_t index[MAX_RANK] = {0}, at = 0;
  for (int64_t k = 0; k < w->n; k++) {
    copy_elems(w->dtype, out, k, w->data, at, 1);
    for (int i = w->rank - 1; i >= 0; i--) {
      at += w->strides[i];
      if (++index[i] < w->dims[i]) break;
      at -= w->strides[i] * w->dims[i];
      index[i] = 0;
    }
  }
}

static bool is_aligned(const Weight *w) {
  int64_t each = MIN(MAX(dtype_bits(w->dtype) / 8, 1), 8);
  return (uintptr_t)w->data % (uintptr_t)each == 0;
}

const void *weight_elements(const Weight *w, Arena *a) {
  if (!w->unpack && !w->strides && is_aligned(w)) return w->data;
  int64_t bytes = 0;
  CHECK(dtype_bytes(w->dtype, w->n, &bytes), "the reader checks sizes");
  void *out = arena_alloc(a, MAX(bytes, 1));
  if (w->unpack)
    w->unpack(w, out);
  else if (w->strides)
    gather(w, out);
  else if (bytes)
    memcpy(out, w->data, (size_t)bytes);
  return out;
}

Node *weight_const(Graph *g, const Weight *w, Source *file, const char *name) {
  if (g->status) return g->poison;
  const uint8_t *from = file ? file->file.bytes : NULL;
  bool inside = from && w->data >= from && w->data - from <= file->file.size - w->bytes;
  if (inside && !w->unpack && !w->strides && w->n)
    return node_const_source(g, w->dtype, w->rank, w->dims, file, w->data - from, w->bytes, name);
  int64_t bytes = 0;
  CHECK(dtype_bytes(w->dtype, w->n, &bytes), "the reader checks sizes");
  if (g->memory_limit && bytes > g->memory_limit)
    return graph_fail(g, TENON_EUNSUPPORTED, (Where){.node = name}, "%lld bytes when unpacked",
                      (long long)bytes);
  if (!w->unpack && !w->strides)
    return node_const(g, w->dtype, w->rank, w->dims, w->data ? (const void *)w->data : "", name);
  void *block = mem_alloc(MAX(bytes, 1));
  if (!block) trap_raise(TENON_ENOMEM, "out of memory");
  if (w->unpack)
    w->unpack(w, block);
  else
    gather(w, block);
  return node_const_take(g, w->dtype, w->rank, w->dims, block, MAX(bytes, 1), name);
}

static Source *borrowed(Graph *g, const Weight *w) {
  Source *s = arena_new(&g->arena, Source);
  s->label = "<weights>";
  s->file = (File){.bytes = w->data, .size = w->bytes};
  s->opened = true;  // by the owner of the weights, who outlives the graph
  vec_push(&g->arena, &g->source, s);
  return s;
}

static void *new_block(int64_t n, int64_t each) {
  void *p = mem_alloc(MAX(n * each, 1));
  if (!p) trap_raise(TENON_ENOMEM, "out of memory");
  return p;
}
// Takes the block over: n elements of what `dims` says.
static Node *const_of(Graph *g, DType t, int rank, const int64_t *dims, void *block) {
  int64_t bytes = t == DT_U8 ? 1 : (int64_t)sizeof(float);
  for (int i = 0; i < rank; i++) bytes *= dims[i];
  return node_const_take(g, t, rank, dims, block, MAX(bytes, 1), NULL);
}

// Rows of blocks; the name is the whole's.  All of it is smaller than the unpacked elements, whose
// bytes the reader has counted.
static Node *weight_packed(Graph *g, const Weight *w, const char *name) {
  const WeightBits *f = w->packed;
  int64_t inner = w->dims[w->rank - 1], each = (int64_t)sizeof(float);
  int64_t dims[] = {w->n / inner, inner / f->block, f->block * f->bits / 8};
  int64_t blocks = dims[0] * dims[1];
  void *q = new_block(blocks, dims[2]), *scale = new_block(blocks, each);
  void *less = f->has_less ? new_block(blocks, each) : NULL;
  f->pack(w, q, scale, less);
  Node *src[] = {const_of(g, DT_U8, 3, dims, q), const_of(g, DT_F32, 2, dims, scale),
                 less ? const_of(g, DT_F32, 2, dims, less) : NULL};
  unpack_n_bits_attrs at = {.bits = f->bits, .zero = f->zero};
  Node *y = node_new(g, OP_unpack_n_bits, less ? 3 : 2, src, &at, 1, name);
  if (w->rank == 2) return y;
  Node *shape = node_const(g, DT_I64, 1, (int64_t[]){w->rank}, w->dims, NULL);
  return node_new(g, OP_reshape, 2, (Node *[]){y, shape}, NULL, 1, NULL);
}

Node *weights_attach(Graph *g, Weights *from, Str name, DType t, int rank, const int64_t *dims,
                     Where at) {
  const Weight *w = from && name.n ? weights_find(from, name) : NULL;
  if (!w || g->status) return NULL;
  bool same = (w->dtype == t || (dtype_is_float(w->dtype) && dtype_is_float(t))) && w->rank == rank;
  for (int i = 0; same && i < rank; i++) same = w->dims[i] == dims[i];
  if (!same)
    return graph_fail(g, TENON_EINVAL, at, "the weights have %s%s for '%.*s', the graph needs %s%s",
                      dtype_name(w->dtype), shape_text(w->rank, w->dims).s, STR_ARG(name),
                      dtype_name(t), shape_text(rank, dims).s);
  from->used++;
  const char *shown = intern(&g->names, name);
  bool plain = !w->unpack && !w->strides && w->n;
  Node *n = w->packed && w->n ? weight_packed(g, w, shown)
                              : weight_const(g, w, plain ? borrowed(g, w) : NULL, shown);
  // Files often have floats of 16 bits for graphs of 32.
  return w->dtype == t ? n : NA(g, cast, (&(cast_attrs){.to = t}), n);
}
