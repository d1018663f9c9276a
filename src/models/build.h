// build.h -- what the parts of the graph builder share.
//
// Rows are tokens: every tensor of a layer is [T, ...].  Constructors report errors in the graph,
// so nothing here returns a status.
#ifndef TENON_MODELS_BUILD_H
#define TENON_MODELS_BUILD_H

#include "models/arch.h"

typedef struct Build {
  Graph *g;
  const LlmModel *m;
  const LlmSpec *s;
  const LlmBuildOptions *o;
  bool paged;
  int64_t layer;                                  // -1: outside of layers
  Node *ids, *pos, *seq, *slot, *table, *out;     // inputs; those behind ids of paged graphs alone
  Node *from, *to;                                // ... with recurrent layers
  Node *last, *type, *pick;                       // ... of encoders, and with embeddings
  Node *adapter;                                  // ... with adapters
  Node *begin, *count;                            // i64[S]: a sequence's first row, and its rows
  Node *position;                                 // f32[T]
  Node *cos[LLM_ROPES_MAX], *sin[LLM_ROPES_MAX];  // f32[1, T, dim / 2], made on first use
  Node *slopes;                                   // of ALiBi, f32[heads]
  VEC(Node *) param;                              // inputs, then states
  VEC(Node *) result;
  VEC(const char *) name;  // of results
  VEC(Node *) next;        // what recurrent layers leave in their states
} Build;

// ---- weights and small pieces (build.c) ----
// A tensor as f32, of the shape that the role asks for where it was stored with further axes of 1.
Node *lm_weight(Build *b, LlmRole role, LlmPart part);
bool lm_has(const Build *b, LlmRole role, LlmPart part);
Node *lm_number(Build *b, double v);
Node *lm_reshape(Build *b, Node *x, int rank, const int64_t *dims);  // one may be -1
#define RESHAPE(b, x, ...)                                                                         \
  lm_reshape((b), (x), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                  \
             (int64_t[]){__VA_ARGS__})
Node *lm_transpose(Build *b, Node *x, int64_t n, const int64_t *perm);
#define TRANSPOSE(b, x, ...)                                                                       \
  lm_transpose((b), (x), (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),            \
               (int64_t[]){__VA_ARGS__})
Node *lm_scale(Build *b, Node *x, double by);  // x itself for 1
// x cut along an axis into parts of these sizes.
void lm_split(Build *b, Node *x, int64_t axis, int n, const int64_t *size, Node **out);
// x [T, K] times the role's matrix [N, K] (or [K, N], where the model stores it so), plus its bias.
Node *lm_linear(Build *b, Node *x, LlmRole role);
// x [T, K] times the transpose of the model's matrix [N, K], in the layout of the file.
Node *lm_product(Build *b, Node *x, LlmRole role);
Node *lm_rows(Build *b, LlmRole role, Node *ids);  // rows of a matrix of the model
// The same where the tensor is in a block type that ops take in its own layout (build_blocks.c);
// NULL: it is not.
Node *lm_block_product(Build *b, Node *x, const Weight *w);
Node *lm_block_rows(Build *b, const Weight *w, Node *ids);
// Row t of x, or row (t, i), times the matrix of expert which[t, i], [T, top_k, out]; NULL
// likewise.
Node *lm_expert_product(Build *b, Node *x, const LlmSlot *s, Node *which);
const LlmSlot *lm_slot(const Build *b, LlmRole role, LlmPart part);
Node *lm_bytes(Build *b, const Weight *w);  // a matrix as u8[rows, bytes], where it is mapped
// y, the product of x and the role's matrix, with what the rows' adapters add (build_adapter.c).
Node *lm_adapted(Build *b, Node *x, Node *y, LlmRole role);
Node *lm_norm(Build *b, Node *x, LlmRole role);
Node *lm_act(Build *b, Node *x);
Node *lm_cap(Build *b, Node *x, double cap);  // cap tanh(x / cap)
// x repeated n times behind its second axis: [T, H, D] becomes [T, H n, D].
Node *lm_repeat(Build *b, Node *x, int64_t heads, int64_t n, int64_t size);

// ---- parts of a layer ----
Node *lm_attention(Build *b, Node *x);  // LLM_ATTENTION and LLM_MLA (build_attention.c)
Node *lm_ffn(Build *b, Node *x);        // LLM_DENSE and LLM_MOE (build_ffn.c)
Node *lm_recurrent(Build *b, Node *x);  // LLM_MAMBA2 and LLM_GATED_DELTA (build_recurrent.c)
// ---- states of recurrent layers in paged graphs (build_states.c) ----
// The sequences' states of `heads` parts of `size` elements, f32[S, heads * size]; zeros for those
// that begin.
typedef struct LmState {
  Node *state;  // the slots, as they were
  int64_t heads, size;
} LmState;
Node *lm_state_read(Build *b, const char *letter, int64_t heads, int64_t size, LmState *out);
void lm_state_write(Build *b, const LmState *s, Node *next);  // the same of after this step
// x [T, channels] through a convolution of `taps` with w [channels, taps] over each sequence's rows
// and those before.
Node *lm_conv_rows(Build *b, Node *x, Node *w, int64_t channels, int64_t taps);
// Slots of a state are padded to a multiple of this many elements for each head.
int64_t lm_state_padded(int64_t size);
// Attention of rows to their sequence; q [T, heads, D], k and v [T, KV heads, D] (build_attend.c).
Node *lm_attend(Build *b, Node *q, Node *k, Node *v);

#endif
