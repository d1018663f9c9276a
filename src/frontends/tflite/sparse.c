// sparse.c -- sparse constants made dense.
//
// A sparse tensor is a tree: one level a dimension, in traversal order, the dimensions of blocks
// last.  A dense level has all its indices; a compressed (CSR) one those that its segments list.
// Every index and length is checked: leaves must be exactly the stored values.
#include "frontends/tflite/import.h"

typedef struct Level {
  bool csr;
  int64_t size;  // of a dense one
  int64_t nsegments, nindices;
  const int64_t *segment, *index;
  int64_t next;  // where the next segment must begin: each index is used once
} Level;
typedef struct Sparse {
  const TflTensor *t;
  int nlevels, nblocks;
  int order[2 * MAX_RANK], block_of[MAX_RANK];
  Level level[2 * MAX_RANK];
  int64_t extent[2 * MAX_RANK];  // of each dimension; a blocked one: its number of blocks
  int64_t at[2 * MAX_RANK], leaf, count;
  void *out;
} Sparse;

static tenon_status bad(TflImport *im, const TflTensor *t, const char *why) {
  return fail(im->g->diag, TENON_EFORMAT, (Where){.node = t->name}, "its sparsity: %s", why);
}

// A vector of 32, 16 or 8 bits an element, in a union; NULL: there is none.
static const int64_t *read_vector(TflImport *im, const FbTable *t, int field, int64_t *n) {
  int64_t kind = fb_u8(t, field, 0);
  FbTable v = fb_table(t, field + 1);
  static const int bytes[] = {0, 4, 2, 1};
  *n = 0;
  if (kind < 1 || kind > 3 || !fb_has(&v)) return NULL;
  FbVector values = fb_vector(&v, 0, bytes[kind]);
  int64_t *out = arena_array(&im->g->arena, int64_t, values.n + 1);
  for (int64_t i = 0; i < values.n; i++)
    out[i] = kind == 1   ? fb_i32_at(&values, i)
             : kind == 2 ? fb_u16_at(&values, i)
                         : fb_u8_at(&values, i);
  *n = values.n;
  return out;
}

static tenon_status read_order(TflImport *im, Sparse *s, const FbTable *p) {
  const TflTensor *t = s->t;
  FbVector order = fb_vector(p, 0, 4), blocks = fb_vector(p, 1, 4), levels = fb_vector(p, 2, 4);
  bool seen[2 * MAX_RANK] = {false};
  TRY(im->m.fb.status);
  s->nblocks = (int)MIN(blocks.n, MAX_RANK);
  s->nlevels = t->rank + s->nblocks;
  if (blocks.n > t->rank || order.n != s->nlevels || levels.n != s->nlevels)
    return bad(im, t, "the lengths of its parts do not fit the rank");
  for (int i = 0; i < s->nlevels; i++) {
    int64_t d = fb_i32_at(&order, i);
    if (d < 0 || d >= s->nlevels || seen[d] || (d >= t->rank) != (i >= t->rank))
      return bad(im, t, "the traversal order is no order");
    seen[d] = true;
    s->order[i] = (int)d;
    FbTable level = fb_table_at(&levels, i);
    Level *l = &s->level[i];
    l->csr = fb_i8(&level, 0, 0) != 0;
    l->size = fb_i32(&level, 1, 0);
    l->segment = read_vector(im, &level, 2, &l->nsegments);
    l->index = read_vector(im, &level, 4, &l->nindices);
    TRY(im->m.fb.status);
  }
  for (int i = 0; i < s->nblocks; i++) {
    int64_t d = fb_i32_at(&blocks, i);
    if (d < 0 || d >= t->rank) return bad(im, t, "the block map names no dimension");
    s->block_of[i] = (int)d;
  }
  return TENON_OK;
}

static tenon_status find_extents(TflImport *im, Sparse *s) {
  const TflTensor *t = s->t;
  for (int i = 0; i < t->rank; i++) s->extent[i] = t->dims[i];
  for (int i = t->rank; i < s->nlevels; i++) {
    const Level *l = &s->level[i];
    int d = s->order[i], of = s->block_of[d - t->rank];
    if (l->csr || l->size < 1 || s->extent[of] % l->size || s->extent[of] != t->dims[of])
      return bad(im, t, "a block does not divide its dimension");
    s->extent[d] = l->size;
    s->extent[of] /= l->size;
  }
  for (int i = 0; i < s->nlevels; i++)
    if (!s->level[i].csr && s->level[i].size != s->extent[s->order[i]])
      return bad(im, t, "a dense dimension has another size than the tensor");
  return TENON_OK;
}

static tenon_status put_leaf(TflImport *im, Sparse *s) {
  const TflTensor *t = s->t;
  if (s->leaf >= s->count) return bad(im, t, "more elements than values");
  int64_t at = 0;
  for (int i = 0; i < t->rank; i++) {
    int64_t index = s->at[i];
    for (int b = 0; b < s->nblocks; b++)
      if (s->block_of[b] == i) index = index * s->extent[t->rank + b] + s->at[t->rank + b];
    at = at * t->dims[i] + index;
  }
  copy_elems(t->dtype, s->out, at, t->data.p, s->leaf++, 1);
  return TENON_OK;
}

static tenon_status walk(TflImport *im, Sparse *s, int depth, int64_t position) {
  if (depth == s->nlevels) return put_leaf(im, s);
  Level *l = &s->level[depth];
  int d = s->order[depth];
  if (!l->csr) {
    for (int64_t i = 0; i < l->size; i++) {
      s->at[d] = i;
      TRY(walk(im, s, depth + 1, position * l->size + i));
    }
    return TENON_OK;
  }
  if (position + 1 >= l->nsegments) return bad(im, s->t, "too few segments");
  int64_t from = l->segment[position], to = l->segment[position + 1];
  if (from != l->next || to < from || to > l->nindices)
    return bad(im, s->t, "a segment that does not follow the one before it");
  l->next = to;
  for (int64_t i = from; i < to; i++) {
    s->at[d] = l->index[i];
    if (l->index[i] < 0 || l->index[i] >= s->extent[d])
      return bad(im, s->t, "an index outside of its dimension");
    TRY(walk(im, s, depth + 1, i));
  }
  return TENON_OK;
}

// Work is bounded by the values that are stored, and by the sizes of the dense levels above them.
static bool is_bounded(const Sparse *s) {
  int64_t nodes = 1;
  for (int i = 0; i < s->nlevels; i++)
    if (!s->level[i].csr && !ck_mul(nodes, s->level[i].size, &nodes)) return false;
  return nodes <= INT64_C(1) << 32;
}

static tenon_status densify(TflImport *im, const TflTensor *t, void *out) {
  Sparse *s = arena_new(&im->g->arena, Sparse);
  *s = (Sparse){.t = t, .out = out};
  int bits = dtype_bits(t->dtype);
  if (t->dtype == DT_STRING || !t->dtype) return bad(im, t, "of a type without plain elements");
  s->count = bits < 8 ? t->data.n * (8 / bits) : t->data.n / (bits / 8);
  TRY(read_order(im, s, &t->sparsity));
  TRY(find_extents(im, s));
  if (!is_bounded(s)) return bad(im, t, "too large");
  TRY(walk(im, s, 0, 0));
  bool rest = bits < 8 ? s->leaf + 8 / bits <= s->count : s->leaf != s->count;
  return rest ? bad(im, t, "fewer elements than values") : TENON_OK;
}

tenon_status tfl_densify(TflImport *im, const TflTensor *t, void *out, int64_t bytes) {
  memset(out, 0, (size_t)bytes);
  tenon_status s = densify(im, t, out);
  if (s && !im->g->status) im->g->status = s;
  return s;
}
