// import_attention.c -- attention whose scores and probabilities pass through sub-graphs of the
// model.
//
// The sub-graphs are taken into the body that the node is in: they run once, on whole tensors, so
// there is nothing to call.
#include "eval/attention.h"
#include "eval/norm.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/import_build.h"

#include <math.h>

static tenon_status inline_nodes(ImportNode *n, const OnnxGraph *og, Node *x, Node **out) {
  Import *im = n->im;
  TRY(scope_define(im, og->inputs.v[0].name, x, n->at));
  TRY(import_initializers(im, og));
  TRY(import_nodes(im, og->nodes.v, og->nodes.n));
  *out = scope_find(im, im->scope, og->outputs.v[0].name);
  if (*out) return TENON_OK;
  return import_fail(n, TENON_EINVAL, "the sub-graph does not compute its output '%.*s'",
                     STR_ARG(og->outputs.v[0].name));
}

// x as the sub-graph changes it; x itself when there is none.
static tenon_status inline_graph(ImportNode *n, const char *attr, Node *x, Node **out) {
  Import *im = n->im;
  *out = x;
  const OnnxAttr *a = import_attr(n, attr);
  TRY(graph_status(n->g));
  if (!a) return TENON_OK;
  if (a->type != OA_GRAPH || !a->g || a->g->inputs.n != 1 || a->g->outputs.n != 1)
    return import_fail(n, TENON_EINVAL, "'%s' must be a sub-graph of one input and one output",
                       attr);
  Scope scope = {.outer = im->scope, .inlined = true};
  strmap_init(&scope.value, im->arena);
  im->scope = &scope;
  tenon_status s = inline_nodes(n, a->g, x, out);
  im->scope = scope.outer;
  TRY(s);
  TRY(graph_status(n->g));
  if (type_of(*out)->kind != TK_TENSOR || type_of(*out)->dtype != type_of(x)->dtype)
    return import_fail(n, TENON_EINVAL, "'%s' must keep the type of what it is given", attr);
  return TENON_OK;
}

// Keys or values with each head repeated for the heads of the query that share it.
static tenon_status repeat_heads(ImportNode *n, Dim hq, Node **x) {
  Graph *g = n->g;
  const Type *t = type_of(*x);
  Dim h = t->dims[1], d = t->dims[3];
  if (hq == h) return TENON_OK;
  if (!ie_is_const(hq) || !ie_is_const(h) || !ie_is_const(d))
    return import_fail(n, TENON_EUNSUPPORTED, "heads are shared and their number is not known");
  if (h->value < 1 || hq->value % h->value)
    return import_fail(n, TENON_EINVAL, "%lld heads of the query cannot share %lld",
                       (long long)hq->value, (long long)h->value);
  int64_t times[] = {1, 1, hq->value / h->value, 1, 1}, dims[] = {0, hq->value, -1, d->value};
  Node *wide = N(g, expand, build_unsqueeze(g, *x, 2), node_i64s(g, 5, times));
  *x = build_reshape(g, wide, 4, dims);
  return graph_status(g);
}

static tenon_status flex_scale(ImportNode *n, double *scale) {
  Dim d = type_of(n->in[0])->dims[3];
  if (import_attr(n, "scale")) {
    *scale = import_f64(n, "scale", 1);
    return TENON_OK;
  }
  if (!ie_is_const(d))
    return import_fail(n, TENON_EUNSUPPORTED, "the head size is not known, and no scale is given");
  *scale = 1 / sqrt((double)d->value);
  return TENON_OK;
}

static tenon_status flex_attention(ImportNode *n) {
  TRY(build_need(n, 3, 3));
  Graph *g = n->g;
  for (int i = 0; i < 3; i++)
    if (type_of(n->in[i])->rank != 4)
      return import_fail(n, TENON_EINVAL, "input %d must have rank 4", i);
  DType t = type_of(n->in[0])->dtype;
  int64_t precision = import_i64(n, "softmax_precision", t == DT_F64 ? DT_F64 : DT_F32);
  if (!dtype_valid(precision) || !dtype_is_float((DType)precision))
    return import_fail(n, TENON_EINVAL, "softmax_precision is %lld", (long long)precision);
  double scale;
  TRY(flex_scale(n, &scale));
  Node *k = n->in[1], *v = n->in[2];
  TRY(repeat_heads(n, type_of(n->in[0])->dims[1], &k));
  TRY(repeat_heads(n, type_of(n->in[0])->dims[1], &v));
  Node *q = build_cast(g, n->in[0], (DType)precision);
  k = build_swap_last(g, build_cast(g, k, (DType)precision), 4);
  Node *scores = build_scaled(g, N(g, mat_mul, q, k), scale), *p;
  TRY(inline_graph(n, "score_mod", scores, &scores));
  p = NA(g, softmax, &(softmax_attrs){.axis = -1}, scores);
  TRY(inline_graph(n, "prob_mod", p, &p));
  Node *y = N(g, mat_mul, p, build_cast(g, v, (DType)precision));
  build_give(n, 0, build_cast(g, y, t));
  return build_done(n);
}

static const ImportRow rows[] = {
    {"ai.onnx.preview", "FlexAttention", 0, 0, flex_attention, NULL},
};
const ImportTable onnx_rows_attention = {rows, ARRAY_LEN(rows)};
