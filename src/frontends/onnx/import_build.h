// import_build.h -- small constructions that rows for composed operators share.
//
// All take and give nodes and follow the graph's sticky error: a row builds what it needs and
// returns build_done, which reports the first failure.
#ifndef TENON_FRONTENDS_ONNX_IMPORT_BUILD_H
#define TENON_FRONTENDS_ONNX_IMPORT_BUILD_H

#include "frontends/onnx/onnx.h"

// The first lo inputs present and at most hi; all that are there tensors of known type.
MUST_USE tenon_status build_need(ImportNode *n, int lo, int hi);
// At most hi inputs, and those whose bits are set present: for operators with optional inputs in
// between.
MUST_USE tenon_status build_need_these(ImportNode *n, unsigned bits, int hi);
// Fills result i when the node has it.
void build_give(ImportNode *n, int i, Node *v);
// Every named output must have been given: one that was not is unsupported.
MUST_USE tenon_status build_done(ImportNode *n);
MUST_USE tenon_status build_refuse_attr(ImportNode *n, const char *name, int64_t allowed);

static inline Node *build_in(const ImportNode *n, int i) {  // NULL when absent
  return i < n->nin && n->in[i] != n->g->none ? n->in[i] : NULL;
}
static inline Node *or_none(Graph *g, Node *x) { return x ? x : g->none; }

Node *build_num(Graph *g, const Node *like, double v);  // a scalar of that node's type
Node *build_cast(Graph *g, Node *x, DType t);           // x itself when it has the type
Node *build_reshape(Graph *g, Node *x, int n, const int64_t *dims);  // 0 copies, -1 is the rest
Node *build_transpose(Graph *g, Node *x, int n, const int64_t *perm);
Node *build_slice(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end);
Node *build_concat(Graph *g, int64_t axis, int n, Node *const *x);
Node *build_dim(Graph *g, Node *x, int i);  // i64[1]
Node *build_unsqueeze(Graph *g, Node *x, int64_t axis);
Node *build_squeeze(Graph *g, Node *x, int64_t axis);
Node *build_scaled(Graph *g, Node *x, double factor);  // x itself for 1
Node *build_add_opt(Graph *g, Node *x, Node *y);       // y may be NULL
// Channels to the end or back to axis 1.
Node *build_channels(Graph *g, Node *x, int rank, bool to_last);
// Transposed last two axes.
Node *build_swap_last(Graph *g, Node *x, int rank);
// 0 .. x's size along axis - 1, i64.
Node *build_positions(Graph *g, Node *x, int axis);

// The activation that fused operators name, with its parameters in order.
MUST_USE tenon_status build_activation(ImportNode *n, Str name, Floats params, Node *x, Node **out);

MUST_USE tenon_status build_known_rank(ImportNode *n, const Node *x);

#endif
