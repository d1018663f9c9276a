// build_blocks.c -- products with matrices in ggml's block types, in the layout of the file.
#include "models/build.h"

#include "eval/blocks.h"

// A source that shows one tensor of the mapped file.
static Node *bytes_of(Build *b, const Weight *w) {
  Source *s = arena_new(&b->g->arena, Source);
  *s = (Source){.label = "<weights>",
                .file = {.bytes = w->data, .size = w->bytes, .mapped = b->m->files->file.mapped},
                .opened = true};  // by the model, which outlives the graph and closes the file
  vec_push(&b->g->arena, &b->g->source, s);
  int64_t dims[] = {w->dims[0], w->bytes / w->dims[0]};
  return node_const_source(b->g, DT_U8, 2, dims, s, 0, w->bytes, w->name);
}

// The op's word for the type; -1: it takes the tensor in no form.
static int choice_of(const Weight *w) {
  bool blocks = w->unpack && w->rank == 2 && w->n && !w->strides;
  return blocks ? block_choice(w->packing) : -1;
}

Node *lm_block_product(Build *b, Node *x, const Weight *w) {
  int type = choice_of(w);
  if (type < 0) return NULL;
  bool int8 = b->o->activations == LLM_ACTIVATIONS_INT8 && block_type(type)->x_block;
  mat_mul_blocks_attrs at = {
      .type = type, .k = w->dims[1], .activations = int8 ? BLOCKS_INT8 : BLOCKS_F32};
  return NA(b->g, mat_mul_blocks, &at, x, bytes_of(b, w));
}

Node *lm_block_rows(Build *b, const Weight *w, Node *ids) {
  int type = choice_of(w);
  if (type < 0) return NULL;
  gather_blocks_attrs at = {.type = type, .k = w->dims[1]};
  return NA(b->g, gather_blocks, &at, bytes_of(b, w), ids);
}
