// dims.c -- the record of `dims`: what is left of an exporter's shape arithmetic.
#include "eval/dims.h"
#include "ir/text.h"
#include "ops/sym.h"

static tenon_status infer_dims(Infer *in) {
  const dims_attrs *at = in->attrs;
  Arena *a = &in->g->scratch;
  ArenaMark mark = arena_mark(a);
  IntPool *p = arena_new(a, IntPool);
  Dim *size = arena_array(a, Dim, DIMS_MAX);
  intpool_init(p, a);
  int64_t n = dims_parse(p, at->sizes, size);
  if (n < 0 || (at->scalar && n != 1))
    return infer_fail(in, TENON_EINVAL, "malformed sizes '%.*s'", STR_ARG(at->sizes));
  DimMap map;
  dimmap_init(&map, &in->g->dims, a);
  for (int32_t i = 0; i < p->nsyms; i++) {
    int64_t k, axis;
    Dim s = p->sym.v[i];
    const Type *t = dims_symbol(s, &k, &axis) && k < in->nsrc ? infer_type(in, (int)k) : NULL;
    if (!t || t->kind != TK_TENSOR || axis >= t->rank)
      return infer_fail(in, TENON_EINVAL, "there is no size '%.*s'", (int)s->value, s->name);
    dimmap_bind(&map, s, t->dims[axis]);
  }
  Dim *sym = arena_array(&in->g->arena, Dim, MAX(n, 1));
  bool sound = true;
  for (int64_t i = 0; i < n; i++) {
    sym[i] = dimmap_apply(&map, size[i]);
    sound &= !ie_is_poison(sym[i]);
  }
  arena_reset(a, mark);
  Dim count = ie_const(&in->g->dims, n);
  TRY(infer_set(in, 0, DT_I64, at->scalar ? 0 : 1, &count));
  if (!sound) return TENON_OK;
  in->sym = sym;
  in->nsym = n;
  return TENON_OK;
}

ATTR_TABLE(dims, DIMS_ATTRS);
const OpInfo op_dims = {
    .name = "dims",
    .doc = "Numbers computed from the operands' sizes alone.",
    .operands = "x*",
    .results = "y",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .range = RANGE_sizes,
    .flags = OPF_HOST,
    OP_ATTRS(dims),
    .infer = infer_dims,
    .eval = eval_dims,
    SAMPLES("(f32[2,3], i8[4]) sizes=\"x0_1, 2*x0_0 + x1_0, 7\"",
            "(f32[b,t]) sizes=\"max(x0_1 - 1, 0)\" scalar=true", "(f32[b]) sizes=\"\""),
};
