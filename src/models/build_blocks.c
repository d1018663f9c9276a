// build_blocks.c -- products with matrices in the layout of their file: ggml's block types, f16 and
// bf16, and experts' matrices in f32 as well.
#include "models/build.h"

#include "eval/blocks.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/scalar.h"

enum { WORD = 4 };  // bytes that kernels read at a time

static bool holds(const File *f, const Weight *w) {
  return w->data >= f->bytes && w->data - f->bytes < f->size;
}

// Whether the tensor is in a file that is mapped: the model's one, or a part of it.
static bool is_mapped(const Build *b, const Weight *w) {
  const LlmFiles *f = b->m->files;
  if (holds(&f->file, w)) return f->file.mapped;
  for (int64_t i = 0; i < f->in.graph->source.n; i++)
    if (holds(&f->in.graph->source.v[i]->file, w)) return f->in.graph->source.v[i]->file.mapped;
  return false;
}

// A source that shows one tensor of a mapped file.
static Source *shown(Build *b, const Weight *w) {
  Source *s = arena_new(&b->g->arena, Source);
  *s = (Source){.label = "<weights>",
                .file = {.bytes = w->data, .size = w->bytes, .mapped = is_mapped(b, w)},
                .opened = true};  // by the model, which outlives the graph and closes the file
  vec_push(&b->g->arena, &b->g->source, s);
  return s;
}

Node *lm_bytes(Build *b, const Weight *w) {
  int64_t dims[] = {w->dims[0], w->bytes / w->dims[0]};
  return node_const_source(b->g, DT_U8, 2, dims, shown(b, w), 0, w->bytes, w->name);
}

// Elements of 16 bits that stand in the file one by one.
static bool is_half(const Weight *w) {
  bool plain = !w->unpack && !w->strides && w->rank == 2 && w->n;
  return plain && (w->dtype == DT_F16 || w->dtype == DT_BF16);
}

// The op's word for the type; -1: it takes the tensor in no form.
static int choice_of(const Weight *w) {
  bool blocks = w->unpack && w->rank == 2 && w->n && !w->strides;
  return blocks ? block_choice(w->packing) : -1;
}

// The same of a product, which also takes rows of whole words of 16-bit elements.
static int product_choice(const Build *b, const Weight *w) {
  if (!b->o->in_place || !is_half(w) || w->dims[1] * elem_bytes(w->dtype) % WORD)
    return choice_of(w);
  return attr_choice_find(BLOCK_TYPES, w->dtype == DT_F16 ? STR("f16") : STR("bf16"));
}

// ---- experts ----

// Experts' matrices [experts, out, in] of one tensor, or one expert's [out, in].
static int expert_choice(const Weight *w, int rank) {
  if (w->rank != rank || !w->n || w->strides) return -1;
  if (w->unpack) return block_choice(w->packing);
  if (w->dims[rank - 1] * elem_bytes(w->dtype) % WORD) return -1;
  switch ((int)w->dtype) {
  case DT_F32: return attr_choice_find(BLOCK_TYPES, STR("f32"));
  case DT_F16: return attr_choice_find(BLOCK_TYPES, STR("f16"));
  case DT_BF16: return attr_choice_find(BLOCK_TYPES, STR("bf16"));
  }
  return -1;
}

// Rows of all matrices as bytes; *type is the op's word, or -1: there is none for all of them.
static Node *expert_bytes(Build *b, const LlmSlot *s, int *type) {
  if (s->w) {
    *type = expert_choice(s->w, 3);
    int64_t rows = s->w->dims[0] * s->w->dims[1];
    if (*type < 0) return NULL;
    int64_t dims[] = {rows, s->w->bytes / rows};
    return node_const_source(b->g, DT_U8, 2, dims, shown(b, s->w), 0, s->w->bytes, s->w->name);
  }
  Node **part = arena_array(&b->g->scratch, Node *, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    int one = expert_choice(s->by[i], 2);
    if (!i) *type = one;
    if (one < 0 || one != *type) {
      *type = -1;
      return NULL;
    }
    part[i] = lm_bytes(b, s->by[i]);
  }
  return node_new(b->g, OP_concat, (int)s->n, part, &(concat_attrs){.axis = 0}, 1, NULL);
}

Node *lm_expert_product(Build *b, Node *x, const LlmSlot *s, Node *which) {
  const LlmMoe *m = &b->s->moe;
  int type = -1;
  if (m->in_out || !b->o->in_place) return NULL;
  Node *w = expert_bytes(b, s, &type);
  if (!w) return NULL;
  const Weight *one = s->w ? s->w : s->by[0];
  bool int8 = b->o->activations == LLM_ACTIVATIONS_INT8 && block_type(type)->x_block;
  mat_mul_blocks_attrs at = {.type = type,
                             .k = one->dims[one->rank - 1],
                             .groups = m->experts,
                             .activations = int8 ? BLOCKS_INT8 : BLOCKS_F32};
  Node *src[] = {x, w, b->g->none, which};
  return node_new(b->g, OP_mat_mul_blocks, 4, src, &at, 1, NULL);
}

Node *lm_block_product(Build *b, Node *x, const Weight *w) {
  int type = product_choice(b, w);
  if (type < 0) return NULL;
  bool int8 = b->o->activations == LLM_ACTIVATIONS_INT8 && block_type(type)->x_block;
  mat_mul_blocks_attrs at = {
      .type = type, .k = w->dims[1], .groups = 1, .activations = int8 ? BLOCKS_INT8 : BLOCKS_F32};
  return NA(b->g, mat_mul_blocks, &at, x, lm_bytes(b, w));
}

// Rows of 16-bit elements are taken out and then made f32.
static Node *half_rows(Build *b, const Weight *w, Node *ids) {
  Node *all = node_const_source(b->g, w->dtype, 2, w->dims, shown(b, w), 0, w->bytes, w->name);
  Node *rows = NA(b->g, gather, (&(gather_attrs){.axis = 0}), all, ids);
  return NA(b->g, cast, (&(cast_attrs){.to = DT_F32}), rows);
}

Node *lm_block_rows(Build *b, const Weight *w, Node *ids) {
  if (b->o->in_place && is_half(w)) return half_rows(b, w, ids);
  int type = choice_of(w);
  if (type < 0) return NULL;
  gather_blocks_attrs at = {.type = type, .k = w->dims[1]};
  return NA(b->g, gather_blocks, &at, lm_bytes(b, w), ids);
}
