// import_build.c -- small constructions that rows for composed operators share.
#include "frontends/onnx/import_build.h"
#include "eval/activation.h"
#include "eval/movement.h"
#include "eval/scalar.h"

tenon_status build_need_these(ImportNode *n, unsigned bits, int hi) {
  if (n->nin > hi) return import_fail(n, TENON_EINVAL, "%d inputs, must be at most %d", n->nin, hi);
  for (int i = 0; i < hi && i < 32; i++) {
    Node *x = build_in(n, i);
    if (!x && (bits >> i & 1))
      return import_fail(n, TENON_EINVAL, "input %d is required and absent", i);
    if (!x) continue;
    const Type *t = type_of(x);
    if (t->kind != TK_TENSOR) return import_fail(n, TENON_EINVAL, "input %d must be a tensor", i);
    if (!t->dtype)
      return import_fail(n, TENON_EUNSUPPORTED,
                         "the type of input %d is not known, since an operator before it is not",
                         i);
  }
  return TENON_OK;
}

tenon_status build_need(ImportNode *n, int lo, int hi) {
  return build_need_these(n, lo < 32 ? (1u << lo) - 1 : ~0u, hi);
}

void build_give(ImportNode *n, int i, Node *v) {
  if (i < n->nout) n->out[i] = v;
}

tenon_status build_done(ImportNode *n) {
  TRY(graph_status(n->g));
  for (int i = 0; i < n->nout; i++)
    if (!n->out[i] && n->node->outputs.v[i].n)
      return import_fail(n, TENON_EUNSUPPORTED, "output %d ('%.*s') is not computed", i,
                         STR_ARG(n->node->outputs.v[i]));
  return TENON_OK;
}

tenon_status build_refuse_attr(ImportNode *n, const char *name, int64_t allowed) {
  int64_t v = import_i64(n, name, allowed);
  if (v == allowed) return TENON_OK;
  return import_fail(n, TENON_EUNSUPPORTED, "attribute '%s' is %lld; only %lld is supported", name,
                     (long long)v, (long long)allowed);
}

tenon_status build_known_rank(ImportNode *n, const Node *x) {
  if (n->g->status) return n->g->status;
  if (type_of(x)->rank >= 0) return TENON_OK;
  return import_fail(n, TENON_EUNSUPPORTED, "the rank of an input is not known");
}

Node *build_num(Graph *g, const Node *like, double v) {
  if (g->status) return g->poison;
  return node_scalar(g, type_of(like)->dtype, v);
}
Node *build_cast(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}
Node *build_reshape(Graph *g, Node *x, int n, const int64_t *dims) {
  return N(g, reshape, x, node_i64s(g, n, dims));
}
Node *build_transpose(Graph *g, Node *x, int n, const int64_t *perm) {
  return NA(g, transpose, (&(transpose_attrs){.perm = {n, perm}}), x);
}
Node *build_slice(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end) {
  return N(g, slice, x, node_i64s(g, 1, &begin), node_i64s(g, 1, &end), node_i64s(g, 1, &axis));
}
Node *build_concat(Graph *g, int64_t axis, int n, Node *const *x) {
  return node_new(g, OP_concat, n, x, &(concat_attrs){.axis = axis}, 1, NULL);
}
Node *build_dim(Graph *g, Node *x, int i) {
  return NA(g, shape, (&(shape_attrs){.start = i, .end = i + 1}), x);
}
Node *build_unsqueeze(Graph *g, Node *x, int64_t axis) {
  return N(g, unsqueeze, x, node_i64s(g, 1, &axis));
}
Node *build_squeeze(Graph *g, Node *x, int64_t axis) {
  return N(g, squeeze, x, node_i64s(g, 1, &axis));
}
Node *build_scaled(Graph *g, Node *x, double factor) {
  return factor == 1 ? x : N(g, mul, x, build_num(g, x, factor));
}
Node *build_add_opt(Graph *g, Node *x, Node *y) { return y ? N(g, add, x, y) : x; }

Node *build_channels(Graph *g, Node *x, int rank, bool to_last) {
  int64_t perm[MAX_RANK] = {0};
  if (rank < 3) return x;
  for (int i = 1; i < rank; i++)
    perm[i] = to_last ? (i + 1 < rank ? i + 1 : 1) : i == 1 ? rank - 1 : i - 1;
  return build_transpose(g, x, rank, perm);
}

Node *build_swap_last(Graph *g, Node *x, int rank) {
  int64_t perm[MAX_RANK];
  if (rank < 2) return x;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  return build_transpose(g, x, rank, perm);
}

Node *build_positions(Graph *g, Node *x, int axis) {
  Node *size = N(g, reshape, build_dim(g, x, axis), node_i64s(g, 0, NULL));
  return N(g, range, node_i64(g, 0), size, node_i64(g, 1));
}

static double param(Floats p, int i, double dflt) { return i < p.n ? p.v[i] : dflt; }

tenon_status build_activation(ImportNode *n, Str name, Floats p, Node *x, Node **out) {
  Graph *g = n->g;
  *out = x;
  if (!name.n) return TENON_OK;
  if (str_is(name, "Relu"))
    *out = N(g, relu, x);
  else if (str_is(name, "Sigmoid"))
    *out = N(g, sigmoid, x);
  else if (str_is(name, "Tanh"))
    *out = N(g, tanh, x);
  else if (str_is(name, "Softplus"))
    *out = N(g, softplus, x);
  else if (str_is(name, "HardSwish"))
    *out = N(g, hard_swish, x);
  else if (str_is(name, "Gelu"))
    *out = N(g, gelu, x);
  else if (str_is(name, "LeakyRelu"))
    *out = NA(g, leaky_relu, (&(leaky_relu_attrs){param(p, 0, (double)0.01f)}), x);
  else if (str_is(name, "ThresholdedRelu"))
    *out = NA(g, thresholded_relu, (&(thresholded_relu_attrs){param(p, 0, 1)}), x);
  else if (str_is(name, "Elu"))
    *out = NA(g, elu, (&(elu_attrs){param(p, 0, 1)}), x);
  else if (str_is(name, "HardSigmoid"))
    *out = NA(g, hard_sigmoid, (&(hard_sigmoid_attrs){param(p, 0, (double)0.2f), param(p, 1, 0.5)}),
              x);
  else if (str_is(name, "Clip"))
    *out = N(g, clip, x, build_num(g, x, param(p, 0, -3.4028234663852886e38)),
             build_num(g, x, param(p, 1, 3.4028234663852886e38)));
  else
    return import_fail(n, TENON_EUNSUPPORTED, "the fused activation '%.*s' is not known",
                       STR_ARG(name));
  return graph_status(g);
}
