// dense.c -- constants of a module: elements as the graph's dtypes lie, out of numbers or of the
// bytes that MLIR keeps; and the plain forms of attributes.
//
// The float types that the graph has not got are encoded here, from their widths: they are
// constants of a module like any others, and the importer decides what to make of them.
#include "frontends/stablehlo/internal.h"

#include "ir/textnum.h"

#include <math.h>

// Floats without a dtype: widths, bias, and what the patterns at the top mean.
typedef enum { TOP_INF, TOP_FINITE, TOP_UNSIGNED_ZERO } MiniTop;
static const struct Mini {
  MlirElem elem;
  int exponent, mantissa, bias;
  MiniTop top;
} minis[] = {
    {ME_F6E2M3, 2, 3, 1, TOP_FINITE},
    {ME_F6E3M2, 3, 2, 3, TOP_FINITE},
    {ME_F8E3M4, 3, 4, 3, TOP_INF},
    {ME_F8E4M3, 4, 3, 7, TOP_INF},
    {ME_F8E4M3B11, 4, 3, 11, TOP_UNSIGNED_ZERO},
};

static const struct Mini *mini_of(MlirElem e) {
  for (int i = 0; i < ARRAY_LEN(minis); i++)
    if (minis[i].elem == e) return &minis[i];
  return NULL;
}

// What is not finite, or too large to be.
static uint64_t mini_top(const struct Mini *m, bool nan, uint64_t sign) {
  uint64_t all = ((uint64_t)1 << (m->exponent + m->mantissa)) - 1;
  if (m->top == TOP_UNSIGNED_ZERO)
    return (uint64_t)1 << (m->exponent + m->mantissa);  // its one NaN
  if (m->top == TOP_FINITE) return sign | all;
  uint64_t inf = all - (((uint64_t)1 << m->mantissa) - 1);
  return nan ? sign | inf | (uint64_t)1 << (m->mantissa - 1) : sign | inf;
}

static uint64_t mini_bits(const struct Mini *m, double x) {
  uint64_t sign = signbit(x) ? (uint64_t)1 << (m->exponent + m->mantissa) : 0;
  if (isnan(x) || isinf(x)) return mini_top(m, isnan(x), sign);
  int e;
  double a = fabs(x);
  frexp(a, &e);
  int lowest = 1 - m->bias;  // exponent of the smallest normal number, a in [1, 2)
  int unit = MAX(e - 1, lowest) - m->mantissa;  // of the last bit
  double steps = nearbyint(ldexp(a, -unit));
  uint64_t code = 0;
  if (steps >= ldexp(1, m->mantissa)) {  // normal; a carry into the next exponent comes by itself
    uint64_t field = (uint64_t)(MAX(e - 1, lowest) + m->bias);
    code = (field << m->mantissa) + ((uint64_t)steps - ((uint64_t)1 << m->mantissa));
  } else {
    code = (uint64_t)steps;
  }
  uint64_t end = (uint64_t)1 << (m->exponent + m->mantissa);
  if (m->top == TOP_INF) end -= (uint64_t)1 << m->mantissa;
  if (code >= end) return mini_top(m, false, sign);
  if (code == 0 && m->top == TOP_UNSIGNED_ZERO) return 0;
  return sign | code;
}

uint64_t mlir_float_bits(MlirElem e, double x) {
  const struct Mini *m = mini_of(e);
  if (m) return mini_bits(m, x);
  uint64_t bits = 0;
  if (e == ME_TF32) {
    float f = (float)x;
    memcpy(&bits, &f, sizeof f);
    return bits;
  }
  DType t = mlir_elem_dtype(e);
  put_f64(t, &bits, 0, x);
  return bits;
}

static int stored_bits(MlirElem e) {
  if (mlir_elem_dtype(e)) return dtype_bits(mlir_elem_dtype(e));
  int bits = mlir_elem_bits(e);
  return bits < 8 && bits > 0 ? 8 : bits;
}

bool mlir_dense_bytes(MlirElem e, int64_t n, int64_t *out) {
  int64_t bits;
  if (!stored_bits(e) || n < 0 || !ck_mul(n, stored_bits(e), &bits) || !ck_add(bits, 7, &bits))
    return false;
  *out = bits / 8;
  return true;
}

void mlir_dense_put(MlirElem e, uint8_t *data, int64_t i, uint64_t bits) {
  int width = stored_bits(e);
  if (width >= 8) {
    memcpy(data + i * (width / 8), &bits, (size_t)(width / 8));
    return;
  }
  int per = 8 / width, at = (int)(i % per) * width;
  unsigned mask = ((1u << width) - 1) << at;
  data[i / per] = (uint8_t)((data[i / per] & ~mask) | ((unsigned)bits << at & mask));
}

// ---- from raw bytes ----

static const uint8_t *unpack_bools(Arena *a, Str raw, int64_t n, bool packed) {
  uint8_t *out = arena_alloc(a, MAX(n, 1));
  const uint8_t *p = (const uint8_t *)raw.p;
  for (int64_t i = 0; i < n; i++) out[i] = packed ? p[i / 8] >> (i % 8) & 1 : p[i] != 0;
  return out;
}

static const uint8_t *pack_small(Arena *a, MlirElem e, Str raw, int64_t n, int64_t bytes) {
  uint8_t *out = arena_alloc(a, MAX(bytes, 1));
  for (int64_t i = 0; i < n; i++) mlir_dense_put(e, out, i, (uint8_t)raw.p[i]);
  return out;
}

static MlirAttr *raw_bools(Arena *a, MlirAttr *v, Str raw, int64_t n) {
  int64_t packed = n / 8 + (n % 8 != 0);
  if (raw.n == 1 && n != 0 && (n == 1 || n > 8 || (uint8_t)raw.p[0] == 0xFF || !raw.p[0])) {
    uint8_t *one = arena_alloc(a, 1);
    *one = raw.p[0] != 0;
    v->data = one;
    v->ndata = 1;
    v->splat = true;
    return v;
  }
  if (raw.n != packed && raw.n != n) return NULL;
  v->data = unpack_bools(a, raw, n, raw.n == packed);
  v->ndata = n;
  return v;
}

MlirAttr *mlir_dense_raw(Arena *a, const MlirType *type, Str raw, const char **why) {
  MlirAttr *v = arena_new(a, MlirAttr);
  *v = (MlirAttr){.kind = MA_DENSE, .type = type};
  MlirElem e = type->elem;
  int64_t n, each, whole;
  *why = "the type of a constant has a static shape and elements of a known type";
  if (type->kind != MT_TENSOR || !mlir_type_count(type, &n) || !stored_bits(e)) return NULL;
  *why = "the constant's bytes are neither those of its type nor one element's";
  if (e == ME_BOOL) return raw_bools(a, v, raw, n);
  each = MAX(stored_bits(e) / 8, 1);
  if (!ck_mul(n, each, &whole)) return NULL;
  v->splat = n > 0 && raw.n == each && (n != 1 || type->rank == 0);
  if (!v->splat && raw.n != whole) return NULL;
  if (stored_bits(e) >= 8) {
    // elements are read as numbers: a file gives no alignment, an arena does
    bool aligned = (uintptr_t)raw.p % 16 == 0;
    v->data = aligned ? (const uint8_t *)raw.p : arena_dup(a, raw.p, raw.n);
    v->ndata = raw.n;
    return v;
  }
  int64_t kept = v->splat ? 1 : n;
  if (!mlir_dense_bytes(e, kept, &v->ndata)) return NULL;
  v->data = pack_small(a, e, raw, kept, v->ndata);
  return v;
}

// ---- plain forms ----

const MlirAttr *mlir_plain_attr(Arena *a, const char *name, const MlirAttr *attr) {
  bool list = attr->kind == MA_DENSE && attr->type->rank == 1 && mlir_elem_is_int(attr->type->elem);
  if (!list || !strcmp(name, "value")) return attr;
  MlirAttr *out = arena_new(a, MlirAttr);
  out->kind = MA_INTS;
  out->type = attr->type;
  return mlir_ints(a, attr, &out->ints, &out->n) ? out : attr;
}

// Structured attributes: the fields that are lists, then after a bar those that are numbers.
static const struct {
  const char *mnemonic;
  const char *lists[6], *numbers[6];
} structs[] = {
    {"gather",
     {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
      "start_index_map"},
     {"index_vector_dim"}},
    {"scatter",
     {"update_window_dims", "inserted_window_dims", "input_batching_dims",
      "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"},
     {"index_vector_dim"}},
    {"dot",
     {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
      "rhs_contracting_dimensions"},
     {0}},
    {"ragged_dot",
     {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
      "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions"},
     {0}},
    {"conv",
     {"input_spatial_dimensions", "kernel_spatial_dimensions", "output_spatial_dimensions"},
     {"input_batch_dimension", "input_feature_dimension", "kernel_input_feature_dimension",
      "kernel_output_feature_dimension", "output_batch_dimension", "output_feature_dimension"}},
    {"output_operand_alias", {"output_tuple_indices", "operand_tuple_indices"}, {"operand_index"}},
    {"channel_handle", {0}, {"handle", "type"}},
};

const MlirAttr *mlir_struct_defaults(Arena *a, Str mnemonic, const MlirAttr *dict) {
  static const MlirAttr empty = {.kind = MA_INTS}, zero = {.kind = MA_INT};
  for (int i = 0; i < ARRAY_LEN(structs); i++) {
    if (!str_is(mnemonic, structs[i].mnemonic)) continue;
    VEC(MlirField) f = {0};
    for (int64_t k = 0; k < dict->n; k++) vec_push(a, &f, dict->fields[k]);
    for (int k = 0; k < 12; k++) {
      const char *name = k < 6 ? structs[i].lists[k] : structs[i].numbers[k - 6];
      MlirField missing = {name, k < 6 ? &empty : &zero};
      if (name && !mlir_field(dict, name)) vec_push(a, &f, missing);
    }
    MlirAttr *out = arena_new(a, MlirAttr);
    *out = *dict;
    out->fields = f.v;
    out->n = f.n;
    return out;
  }
  return dict;
}
