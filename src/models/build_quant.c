// build_quant.c -- products with matrices that a quantiser packed.
//
// Elements of 8 bits are read as the file has them, with the scales of their tiles.  Words of small
// integers are repacked into rows of as many bits, once, while the graph is built; x is taken in
// the order of a row's groups.  The products of each group are summed in f32 (mat_mul_n_bits).
#include "models/quant.h"

#include "base/platform.h"
#include "eval/blocks.h"
#include "eval/contrib.h"
#include "eval/index.h"

enum { WORD = 4, TILE = 64 };

// n elements of some bytes each, which are 0.
static void *new_block(int64_t n, int64_t each) {
  void *p = mem_alloc(MAX(n * each, 1));
  if (!p) trap_raise(TENON_ENOMEM, "out of memory");
  return p;
}

static Node *taken(Build *b, DType t, int rank, const int64_t *dims, void *block,
                   const char *name) {
  int64_t bytes = elem_bytes(t);
  for (int i = 0; i < rank; i++) bytes *= dims[i];
  return node_const_take(b->g, t, rank, dims, block, MAX(bytes, 1), name);
}

// ---- words ----

// [n, groups, bytes of a group].  Rows are filled TILE at a time: files have them interleaved.
static Node *codes_of(Build *b, const LlmPacked *p, const char *name) {
  int64_t bits = p->how.bits, row = p->k * bits / 8, per = 8 / bits;
  int64_t dims[] = {p->n, p->groups, row / p->groups};
  uint8_t *q = new_block(p->n, row);
  for (int64_t n0 = 0; n0 < p->n; n0 += TILE)
    for (int64_t k = 0; k < p->k; k++)
      for (int64_t n = n0; n < MIN(n0 + TILE, p->n); n++)
        q[n * row + k / per] |= (uint8_t)(llm_packed_code(p, n, k) << k % per * bits);
  return taken(b, DT_U8, 3, dims, q, name);
}

// Scales by row and group.
static Node *group_scales(Build *b, const LlmPacked *p) {
  int64_t dims[] = {p->n, p->groups};
  float *s = new_block(p->n * p->groups, 4);
  for (int64_t n = 0; n < p->n; n++)
    for (int64_t g = 0; g < p->groups; g++) {
      int64_t at = p->how.form == LLM_QUANT_PACKED ? n * p->groups + g : g * p->n + n;
      s[n * p->groups + g] = (float)get_f64(p->scale.dtype, p->scale.data, at);
    }
  return taken(b, DT_F32, 2, dims, s, NULL);
}

// Zeros likewise; NULL: each is half of the range, which is the op's default.
static Node *zeros_of(Build *b, const LlmPacked *p) {
  int64_t dims[] = {p->n, p->groups}, half = (int64_t)1 << (p->how.bits - 1);
  bool all = true;
  for (int64_t i = 0; all && i < p->n * p->groups; i++)
    all = llm_packed_zero(p, i / p->groups, i % p->groups) == half;
  if (all) return NULL;
  float *z = new_block(p->n * p->groups, 4);
  for (int64_t i = 0; i < p->n * p->groups; i++)
    z[i] = (float)llm_packed_zero(p, i / p->groups, i % p->groups);
  return taken(b, DT_F32, 2, dims, z, NULL);
}

static Node *word_product(Build *b, Node *x, const LlmPacked *p, const char *name) {
  if (p->order) {
    Node *order = node_const(b->g, DT_I64, 1, &p->k, p->order, NULL);
    x = NA(b->g, gather, (&(gather_attrs){.axis = 1}), x, order);
  }
  mat_mul_n_bits_attrs at = {.bits = p->how.bits};
  Node *src[] = {x, codes_of(b, p, name), group_scales(b, p), zeros_of(b, p)};
  return node_new(b->g, OP_mat_mul_n_bits, src[3] ? 4 : 3, src, &at, 1, NULL);
}

// ---- bytes ----

static Node *tile_scales(Build *b, const LlmPacked *p) {
  int64_t dims[] = {(p->n + p->tile_rows - 1) / p->tile_rows, p->groups}, n = dims[0] * dims[1];
  float *s = new_block(n, 4);
  for (int64_t i = 0; i < n; i++) s[i] = (float)get_f64(p->scale.dtype, p->scale.data, i);
  return taken(b, DT_F32, 2, dims, s, NULL);
}

static Node *byte_product(Build *b, Node *x, const LlmPacked *p, const Weight *w) {
  bool ints = p->how.form == LLM_QUANT_INT8;
  if (!b->o->in_place || p->k % WORD || (p->groups > 1 && p->tile_k % WORD)) return NULL;
  mat_mul_blocks_attrs at = {.k = p->k,
                             .groups = 1,
                             .type =
                                 attr_choice_find(BLOCK_TYPES, ints ? STR("i8") : STR("f8e4m3")),
                             .scale_rows = p->tile_rows,
                             .scale_k = p->tile_k};
  Weight codes = p->codes;
  codes.name = w->name;
  return NA(b->g, mat_mul_blocks, &at, x, lm_bytes(b, &codes), tile_scales(b, p));
}

Node *lm_packed_product(Build *b, Node *x, const Weight *w) {
  const LlmPacked *p = w->parts;
  if (!p || b->g->status) return NULL;
  if (p->how.form >= LLM_QUANT_FP8) return byte_product(b, x, p, w);
  return word_product(b, x, p, w->name);
}
