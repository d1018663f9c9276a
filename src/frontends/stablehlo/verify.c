// verify.c -- what the importer may rely on, beyond what reading a module has shown: how many
// operands, results and regions the ops have, which attributes, bodies that return what is asked of
// them, calls that fit.
#include "frontends/stablehlo/verify.h"

tenon_status vf_fail(Verify *v, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(v->diag, TENON_EINVAL, mlir_where(v->op), fmt, ap);
  va_end(ap);
  return s;
}

const MlirType *vf_in(const Verify *v, int64_t i) { return v->op->operands[i]->type; }
const MlirType *vf_out(const Verify *v, int64_t i) { return v->op->results[i]->type; }
bool vf_ranked(const MlirType *t) { return t->kind == MT_TENSOR && !t->unranked; }
bool vf_dims_agree(int64_t a, int64_t b) {
  return a == b || a == MLIR_DYNAMIC || b == MLIR_DYNAMIC;
}

bool vf_shapes_agree(const MlirType *a, const MlirType *b) {
  if (!vf_ranked(a) || !vf_ranked(b)) return true;
  if (a->rank != b->rank) return false;
  for (int64_t i = 0; i < a->rank; i++)
    if (!vf_dims_agree(a->dims[i], b->dims[i])) return false;
  return true;
}

// ---- the table ----

enum { ANY = -1 };
// Attributes that must be there, by kind: i: a list of integers, n: a number, w: a word, d: a
// dictionary, v: a constant.
typedef struct OpRow {
  const char *name;
  int8_t in, out, regions;  // ANY: one or more, or as the rule says
  const char *attrs;
} OpRow;

#define DOT  "d:dot_dimension_numbers"
#define CONV "d:dimension_numbers n:feature_group_count n:batch_group_count"
static const OpRow table[] = {
    {"func.call", ANY, ANY, 0, "w:callee"},
    {"stablehlo.abs", 1, 1, 0, ""},
    {"stablehlo.add", 2, 1, 0, ""},
    {"stablehlo.after_all", ANY, 1, 0, ""},
    {"stablehlo.and", 2, 1, 0, ""},
    {"stablehlo.atan2", 2, 1, 0, ""},
    {"stablehlo.batch_norm_grad", 5, 3, 0, "n:epsilon n:feature_index"},
    {"stablehlo.batch_norm_inference", 5, 1, 0, "n:epsilon n:feature_index"},
    {"stablehlo.batch_norm_training", 3, 3, 0, "n:epsilon n:feature_index"},
    {"stablehlo.bitcast_convert", 1, 1, 0, ""},
    {"stablehlo.broadcast", 1, 1, 0, "i:broadcast_sizes"},
    {"stablehlo.broadcast_in_dim", 1, 1, 0, "i:broadcast_dimensions"},
    {"stablehlo.case", 1, ANY, ANY, ""},
    {"stablehlo.cbrt", 1, 1, 0, ""},
    {"stablehlo.ceil", 1, 1, 0, ""},
    {"stablehlo.cholesky", 1, 1, 0, ""},
    {"stablehlo.clamp", 3, 1, 0, ""},
    {"stablehlo.compare", 2, 1, 0, "w:comparison_direction"},
    {"stablehlo.complex", 2, 1, 0, ""},
    {"stablehlo.composite", ANY, ANY, ANY, "w:name w:decomposition"},
    {"stablehlo.concatenate", ANY, 1, 0, "n:dimension"},
    {"stablehlo.constant", 0, 1, 0, "v:value"},
    {"stablehlo.convert", 1, 1, 0, ""},
    {"stablehlo.convolution", 2, 1, 0, CONV},
    {"stablehlo.cosine", 1, 1, 0, ""},
    {"stablehlo.count_leading_zeros", 1, 1, 0, ""},
    {"stablehlo.create_token", 0, 1, 0, ""},
    {"stablehlo.custom_call", ANY, ANY, 0, "w:call_target_name"},
    {"stablehlo.divide", 2, 1, 0, ""},
    {"stablehlo.dot", 2, 1, 0, ""},
    {"stablehlo.dot_general", 2, 1, 0, DOT},
    {"stablehlo.dynamic_broadcast_in_dim", 2, 1, 0, "i:broadcast_dimensions"},
    {"stablehlo.dynamic_conv", 3, 1, 0, CONV},
    {"stablehlo.dynamic_gather", 3, 1, 0, "d:dimension_numbers"},
    {"stablehlo.dynamic_iota", 1, 1, 0, "n:iota_dimension"},
    {"stablehlo.dynamic_pad", 5, 1, 0, ""},
    {"stablehlo.dynamic_reshape", 2, 1, 0, ""},
    {"stablehlo.dynamic_slice", ANY, 1, 0, "i:slice_sizes"},
    {"stablehlo.dynamic_update_slice", ANY, 1, 0, ""},
    {"stablehlo.einsum", 2, 1, 0, "w:einsum_config"},
    {"stablehlo.exponential", 1, 1, 0, ""},
    {"stablehlo.exponential_minus_one", 1, 1, 0, ""},
    {"stablehlo.fft", 1, 1, 0, "w:fft_type i:fft_length"},
    {"stablehlo.floor", 1, 1, 0, ""},
    {"stablehlo.gather", 2, 1, 0, "d:dimension_numbers i:slice_sizes"},
    {"stablehlo.get_dimension_size", 1, 1, 0, "n:dimension"},
    {"stablehlo.get_tuple_element", 1, 1, 0, "n:index"},
    {"stablehlo.if", 1, ANY, 2, ""},
    {"stablehlo.imag", 1, 1, 0, ""},
    {"stablehlo.iota", 0, 1, 0, "n:iota_dimension"},
    {"stablehlo.is_finite", 1, 1, 0, ""},
    {"stablehlo.log", 1, 1, 0, ""},
    {"stablehlo.log_plus_one", 1, 1, 0, ""},
    {"stablehlo.logistic", 1, 1, 0, ""},
    {"stablehlo.map", ANY, 1, 1, "i:dimensions"},
    {"stablehlo.maximum", 2, 1, 0, ""},
    {"stablehlo.minimum", 2, 1, 0, ""},
    {"stablehlo.multiply", 2, 1, 0, ""},
    {"stablehlo.negate", 1, 1, 0, ""},
    {"stablehlo.not", 1, 1, 0, ""},
    {"stablehlo.optimization_barrier", ANY, ANY, 0, ""},
    {"stablehlo.or", 2, 1, 0, ""},
    {"stablehlo.pad", 2, 1, 0, "i:edge_padding_low i:edge_padding_high i:interior_padding"},
    {"stablehlo.partition_id", 0, 1, 0, ""},
    {"stablehlo.popcnt", 1, 1, 0, ""},
    {"stablehlo.power", 2, 1, 0, ""},
    {"stablehlo.real", 1, 1, 0, ""},
    {"stablehlo.real_dynamic_slice", 4, 1, 0, ""},
    {"stablehlo.reduce", ANY, ANY, 1, "i:dimensions"},
    {"stablehlo.reduce_precision", 1, 1, 0, "n:exponent_bits n:mantissa_bits"},
    {"stablehlo.reduce_window", ANY, ANY, 1, "i:window_dimensions"},
    {"stablehlo.remainder", 2, 1, 0, ""},
    {"stablehlo.replica_id", 0, 1, 0, ""},
    {"stablehlo.reshape", 1, 1, 0, ""},
    {"stablehlo.reverse", 1, 1, 0, "i:dimensions"},
    {"stablehlo.rng", 3, 1, 0, "w:rng_distribution"},
    {"stablehlo.rng_bit_generator", 1, 2, 0, "w:rng_algorithm"},
    {"stablehlo.round_nearest_afz", 1, 1, 0, ""},
    {"stablehlo.round_nearest_even", 1, 1, 0, ""},
    {"stablehlo.rsqrt", 1, 1, 0, ""},
    {"stablehlo.scatter", ANY, ANY, 1, "d:scatter_dimension_numbers"},
    {"stablehlo.select", 3, 1, 0, ""},
    {"stablehlo.select_and_scatter", 3, 1, 2, ""},
    {"stablehlo.set_dimension_size", 2, 1, 0, "n:dimension"},
    {"stablehlo.shift_left", 2, 1, 0, ""},
    {"stablehlo.shift_right_arithmetic", 2, 1, 0, ""},
    {"stablehlo.shift_right_logical", 2, 1, 0, ""},
    {"stablehlo.sign", 1, 1, 0, ""},
    {"stablehlo.sine", 1, 1, 0, ""},
    {"stablehlo.slice", 1, 1, 0, "i:start_indices i:limit_indices i:strides"},
    {"stablehlo.sort", ANY, ANY, 1, ""},
    {"stablehlo.sqrt", 1, 1, 0, ""},
    {"stablehlo.subtract", 2, 1, 0, ""},
    {"stablehlo.tan", 1, 1, 0, ""},
    {"stablehlo.tanh", 1, 1, 0, ""},
    {"stablehlo.transpose", 1, 1, 0, "i:permutation"},
    {"stablehlo.triangular_solve", 2, 1, 0, "n:left_side n:lower w:transpose_a"},
    {"stablehlo.tuple", ANY, 1, 0, ""},
    {"stablehlo.uniform_dequantize", 1, 1, 0, ""},
    {"stablehlo.uniform_quantize", 1, 1, 0, ""},
    {"stablehlo.while", ANY, ANY, 2, ""},
    {"stablehlo.xor", 2, 1, 0, ""},
    {"chlo.top_k", 1, 2, 0, "n:k"},
    {"chlo.scan", ANY, ANY, 1, "n:dimension"},
};

static const OpRow *row_of(const char *name) {
  for (int i = 0; i < ARRAY_LEN(table); i++)
    if (!strcmp(table[i].name, name)) return &table[i];
  return NULL;
}

static bool kind_fits(Arena *a, char kind, const MlirAttr *attr) {
  const int64_t *list;
  int64_t n;
  switch (kind) {
  case 'i': return mlir_ints(a, attr, &list, &n);
  case 'n': return attr->kind == MA_INT || attr->kind == MA_BOOL || attr->kind == MA_FLOAT;
  case 'w': return mlir_word(attr, NULL) != NULL;
  case 'd': return attr->kind == MA_DICT;
  default: return attr->kind == MA_DENSE;
  }
}

static tenon_status check_attrs(Verify *v, const char *words) {
  while (*words) {
    const char *end = strchr(words, ' ') ? strchr(words, ' ') : words + strlen(words);
    const char *name = str_copy(v->arena, (Str){words + 2, end - words - 2});
    const MlirAttr *attr = mlir_attr(v->op, name);
    if (!attr) return vf_fail(v, "has no attribute %s", name);
    if (!kind_fits(v->arena, words[0], attr))
      return vf_fail(v, "attribute %s is of another kind", name);
    words = *end ? end + 1 : end;
  }
  return TENON_OK;
}

static tenon_status check_counts(Verify *v, const OpRow *row) {
  const MlirOp *op = v->op;
  const struct {
    const char *what;
    int want;
    int64_t has;
  } part[] = {{"operands", row->in, op->noperands},
              {"results", row->out, op->nresults},
              {"regions", row->regions, op->nregions}};
  for (int i = 0; i < 3; i++)
    if (part[i].want != ANY && part[i].has != part[i].want)
      return vf_fail(v, "has %lld %s, not %d", (long long)part[i].has, part[i].what, part[i].want);
  return TENON_OK;
}

// ---- regions ----

static bool is_return(const MlirOp *op) {
  return !strcmp(op->name, "stablehlo.return") || !strcmp(op->name, "func.return");
}

// Every body of a known op is one block that ends by returning.
static tenon_status check_region(Verify *v, const MlirRegion *r) {
  if (r->nblocks != 1)
    return vf_fail(v, "a region of %lld blocks, not of one", (long long)r->nblocks);
  const MlirBlock *b = r->blocks[0];
  if (!b->nops || !is_return(b->ops[b->nops - 1]))
    return vf_fail(v, "a region that does not end by returning");
  for (int64_t i = 0; i + 1 < b->nops; i++)
    if (is_return(b->ops[i])) return vf_fail(v, "a region that returns before its end");
  return TENON_OK;
}

static tenon_status check_value_type(Verify *v, const MlirType *t) {
  const MlirQuant *q = t->quant;
  if (t->kind != MT_TENSOR || !q || q->axis < 0 || t->unranked) return TENON_OK;
  if (q->axis >= t->rank || !vf_dims_agree(t->dims[q->axis], q->nscales))
    return vf_fail(v, "%s has %lld scales along axis %lld", mlir_type_text(v->arena, t),
                   (long long)q->nscales, (long long)q->axis);
  return TENON_OK;
}

static tenon_status check_call(Verify *v, const MlirModule *m) {
  const char *attr = !strcmp(v->op->name, "func.call")             ? "callee"
                     : !strcmp(v->op->name, "stablehlo.composite") ? "decomposition"
                                                                   : NULL;
  if (!attr) return TENON_OK;
  const char *name = mlir_word(mlir_attr(v->op, attr), "");
  const MlirFunc *f = mlir_func(m, str_of(name));
  if (!f) return vf_fail(v, "there is no function @%s", name);
  if (f->nargs != v->op->noperands || f->nresults != v->op->nresults)
    return vf_fail(v, "@%s has %lld arguments and %lld results", name, (long long)f->nargs,
                   (long long)f->nresults);
  for (int64_t i = 0; i < f->nargs; i++)
    if (!mlir_type_eq(f->args[i], vf_in(v, i)))
      return vf_fail(v, "argument %lld of @%s is %s, not %s", (long long)i, name,
                     mlir_type_text(v->arena, f->args[i]), mlir_type_text(v->arena, vf_in(v, i)));
  for (int64_t i = 0; i < f->nresults; i++)
    if (!mlir_type_eq(f->results[i], vf_out(v, i)))
      return vf_fail(v, "result %lld of @%s is %s, not %s", (long long)i, name,
                     mlir_type_text(v->arena, f->results[i]),
                     mlir_type_text(v->arena, vf_out(v, i)));
  return TENON_OK;
}

static tenon_status check_block(Verify *v, const MlirModule *m, const MlirBlock *b);

static tenon_status check_op(Verify *v, const MlirModule *m) {
  const MlirOp *op = v->op;
  const OpRow *row = row_of(op->name);
  for (int64_t i = 0; i < op->nresults; i++) TRY(check_value_type(v, vf_out(v, i)));
  if (row) {
    TRY(check_counts(v, row));
    TRY(check_attrs(v, row->attrs));
    for (int64_t i = 0; i < op->nregions; i++) TRY(check_region(v, op->regions[i]));
    TRY(check_call(v, m));
    VerifyFn *rule = vf_rule(op->name);
    if (rule) TRY(rule(v));
  }
  for (int64_t i = 0; i < op->nregions; i++)
    for (int64_t k = 0; k < op->regions[i]->nblocks; k++)
      TRY(check_block(v, m, op->regions[i]->blocks[k]));
  return TENON_OK;
}

static tenon_status check_block(Verify *v, const MlirModule *m, const MlirBlock *b) {
  const MlirOp *outer = v->op;
  for (int64_t i = 0; i < b->nops; i++) {
    v->op = b->ops[i];
    TRY(check_op(v, m));
  }
  v->op = outer;
  return TENON_OK;
}

// ---- functions ----

static tenon_status check_function(Verify *v, const MlirModule *m, const MlirFunc *f) {
  v->op = f->op;
  if (!f->body) return TENON_OK;
  if (f->body->nargs != f->nargs)
    return vf_fail(v, "@%s takes %lld arguments, its body %lld", f->name, (long long)f->nargs,
                   (long long)f->body->nargs);
  for (int64_t i = 0; i < f->nargs; i++) {
    if (!mlir_type_eq(f->args[i], f->body->args[i]->type))
      return vf_fail(v, "argument %lld of @%s has two types", (long long)i, f->name);
    TRY(check_value_type(v, f->args[i]));
  }
  TRY(check_region(v, f->op->regions[0]));
  TRY(check_block(v, m, f->body));
  v->op = f->body->ops[f->body->nops - 1];
  if (v->op->noperands != f->nresults)
    return vf_fail(v, "returns %lld values, @%s has %lld results", (long long)v->op->noperands,
                   f->name, (long long)f->nresults);
  for (int64_t i = 0; i < f->nresults; i++)
    if (!mlir_type_eq(f->results[i], vf_in(v, i)))
      return vf_fail(v, "returns %s as result %lld of @%s, which is %s",
                     mlir_type_text(v->arena, vf_in(v, i)), (long long)i, f->name,
                     mlir_type_text(v->arena, f->results[i]));
  return TENON_OK;
}

static tenon_status check_module(Verify *v, const MlirModule *m) {
  for (int64_t i = 0; i < m->nfuncs; i++) TRY(check_function(v, m, m->funcs[i]));
  for (int64_t i = 0; i < m->nmodules; i++) TRY(check_module(v, m->modules[i]));
  return TENON_OK;
}

tenon_status mlir_verify(Arena *a, const MlirFile *f, Diag *d) {
  Verify v = {.arena = a, .diag = d};
  for (int64_t i = 0; i < f->nmodules; i++) TRY(check_module(&v, f->modules[i]));
  return TENON_OK;
}
