// import_quant.c -- quantised values: storage integers with a scale and a zero point, for all or by
// axis.
#include "frontends/stablehlo/import.h"

// Scales or zero points as a node that broadcasts over a tensor of that rank.
static Node *factors(HloCall *c, const MlirQuant *q, int rank, DType t, bool zeros) {
  Graph *g = c->g;
  int64_t n = q->axis >= 0 ? q->nscales : 1, dims[MAX_RANK], bytes;
  if (q->naxes || q->axis >= rank || !dtype_bytes(t, n, &bytes)) {
    hlo_refuse(c, "scales by blocks");
    return g->poison;
  }
  void *p = arena_alloc(c->h->arena, MAX(bytes, 8));
  for (int64_t i = 0; i < n; i++)
    put_f64(t, p, i, zeros ? (double)q->zero_points[i] : q->scales[i]);
  for (int i = 0; i < rank; i++) dims[i] = i == q->axis ? n : 1;
  return node_const(g, t, q->axis >= 0 ? rank : 0, dims, p, NULL);
}

Node *hq_dequantize(HloCall *c, const HloValue *v) {
  Graph *g = c->g;
  const MlirQuant *q = v->type->quant;
  DType t = mlir_elem_dtype(q->expressed);
  int rank = hlo_rank(v);
  Node *scale = factors(c, q, rank, t, false), *zero = factors(c, q, rank, DT_I32, true);
  if (g->status) return g->poison;
  Node *x = N(g, sub, hb_cast(g, v->re, DT_I32), zero);
  return N(g, mul, hb_cast(g, x, t), scale);
}

Node *hq_quantize(HloCall *c, Node *x, const MlirType *type) {
  Graph *g = c->g;
  const MlirQuant *q = type->quant;
  DType t = mlir_elem_dtype(q->expressed), to = mlir_elem_dtype(q->storage);
  if (g->status || !t || !to) return g->poison;
  int rank = type_of(x)->rank;
  x = hb_cast(g, x, t);
  Node *scale = factors(c, q, rank, t, false), *zero = factors(c, q, rank, t, true);
  if (g->status) return g->poison;
  Node *y = N(g, round, N(g, add, N(g, div, x, scale), zero));
  y = N(g, min, N(g, max, hb_cast(g, y, DT_F64), node_scalar(g, DT_F64, (double)q->min)),
        node_scalar(g, DT_F64, (double)q->max));
  return hb_cast(g, y, to);
}

static void uniform_quantize(HloCall *c) {
  const HloValue *v = &c->in[0];
  if (!v->re || !c->nout || c->type[0]->elem != ME_QUANT) {
    hlo_fail(c, "the result is not quantised");
    return;
  }
  hlo_give(c, hq_quantize(c, v->type->elem == ME_QUANT ? hq_dequantize(c, v) : v->re, c->type[0]));
}
static void uniform_dequantize(HloCall *c) {
  const HloValue *v = &c->in[0];
  if (!v->re || !c->nout || v->type->elem != ME_QUANT)
    hlo_fail(c, "the operand is not quantised");
  else
    hlo_give(c, hq_dequantize(c, v));
}

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.uniform_dequantize", uniform_dequantize, 0, HLO_OWN, NULL},
    {"stablehlo.uniform_quantize",   uniform_quantize,   0, HLO_OWN, NULL},
};
// clang-format on
HLO_TABLE(hlo_quant);
