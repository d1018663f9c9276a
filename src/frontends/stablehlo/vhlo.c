// vhlo.c -- the VHLO dialect: StableHLO's stable copy, which portable bytecode is written in.
//
// Its ops have versions in their names (add_v1) and flat attributes; here they get their plain
// names, and attributes as the text's generic form has them, so that the importer knows nothing of
// VHLO.
#include "frontends/stablehlo/bytecode.h"

// Attributes of the ops that have any, in the order of their properties: by name.
typedef struct VhloRow {
  const char *op, *attrs;
} VhloRow;
static const VhloRow rows[] = {
    {"all_gather_v1", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"all_gather_v2", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"all_reduce_v1", "channel_id replica_groups use_global_device_ids"},
    {"all_reduce_v2", "channel_id replica_groups use_global_device_ids"},
    {"all_to_all_v1", "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"all_to_all_v2", "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"batch_norm_grad_v1", "epsilon feature_index"},
    {"batch_norm_inference_v1", "epsilon feature_index"},
    {"batch_norm_training_v1", "epsilon feature_index"},
    {"broadcast_in_dim_v1", "broadcast_dimensions"},
    {"broadcast_v1", "broadcast_sizes"},
    {"call_v1", "callee"},
    {"cbrt_v2", "result_accuracy"},
    {"cholesky_v1", "lower"},
    {"collective_broadcast_v1", "channel_id replica_groups"},
    {"collective_broadcast_v2", "channel_id has_dynamic_root replica_groups"},
    {"collective_permute_v1", "channel_id source_target_pairs"},
    {"collective_reduce_v1", "channel_id has_dynamic_root replica_groups use_global_device_ids"},
    {"compare_v1", "compare_type comparison_direction"},
    {"composite_v1", "composite_attributes decomposition name version"},
    {"composite_v2", "composite_attributes decomposition name version"},
    {"concatenate_v1", "dimension"},
    {"constant_v1", "value"},
    {"convolution_v1",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension "
     "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions padding "
     "precision_config rhs_dilation window_reversal window_strides"},
    {"cosine_v2", "result_accuracy"},
    {"cross-replica-sum_v1", "replica_groups"},
    {"custom_call_v1",
     "api_version backend_config call_target_name called_computations has_side_effect "
     "operand_layouts output_operand_aliases result_layouts"},
    {"custom_call_v2",
     "api_version backend_config call_target_name called_computations has_side_effect "
     "operand_layouts output_operand_aliases result_layouts result_tilings"},
    {"dot_general_v1", "lhs_batching_dimensions lhs_contracting_dimensions precision_config "
                       "rhs_batching_dimensions rhs_contracting_dimensions"},
    {"dot_general_v2",
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions "
     "lhs_component_count lhs_contracting_dimensions lhs_precision_type "
     "num_primitive_operations precision_config rhs_batching_dimensions rhs_component_count "
     "rhs_contracting_dimensions rhs_precision_type"},
    {"dynamic_broadcast_in_dim_v1",
     "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"dynamic_conv_v1",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension "
     "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions padding "
     "precision_config rhs_dilation window_reversal window_strides"},
    {"dynamic_conv_v2",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension "
     "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions "
     "precision_config rhs_dilation window_reversal window_strides"},
    {"dynamic_gather_v1",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map"},
    {"dynamic_gather_v2", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
                          "operand_batching_dims start_index_map start_indices_batching_dims"},
    {"dynamic_iota_v1", "iota_dimension"},
    {"dynamic_slice_v1", "slice_sizes"},
    {"einsum_v1", "einsum_config"},
    {"exponential_minus_one_v2", "result_accuracy"},
    {"exponential_v2", "result_accuracy"},
    {"fft_v1", "fft_length fft_type"},
    {"func_v1", "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"gather_v1",
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes "
     "start_index_map"},
    {"gather_v2", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
                  "operand_batching_dims slice_sizes start_index_map start_indices_batching_dims"},
    {"get_dimension_size_v1", "dimension"},
    {"get_tuple_element_v1", "index"},
    {"infeed_v1", "infeed_config layout"},
    {"iota_v1", "iota_dimension"},
    {"log_plus_one_v2", "result_accuracy"},
    {"log_v2", "result_accuracy"},
    {"logistic_v2", "result_accuracy"},
    {"map_v1", "dimensions"},
    {"outfeed_v1", "outfeed_config"},
    {"pad_v1", "edge_padding_high edge_padding_low interior_padding"},
    {"recv_v1", "channel_id channel_type is_host_transfer"},
    {"recv_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"reduce_precision_v1", "exponent_bits mantissa_bits"},
    {"reduce_scatter_v1", "channel_id replica_groups scatter_dimension use_global_device_ids"},
    {"reduce_v1", "dimensions"},
    {"reduce_window_v1",
     "base_dilations padding window_dilations window_dimensions window_strides"},
    {"reverse_v1", "dimensions"},
    {"rng_bit_generator_v1", "rng_algorithm"},
    {"rng_v1", "rng_distribution"},
    {"rsqrt_v2", "result_accuracy"},
    {"scatter_v1",
     "index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims "
     "unique_indices update_window_dims"},
    {"scatter_v2", "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims "
                   "scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices "
                   "update_window_dims"},
    {"select_and_scatter_v1", "padding window_dimensions window_strides"},
    {"send_v1", "channel_id channel_type is_host_transfer"},
    {"send_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"set_dimension_size_v1", "dimension"},
    {"sine_v2", "result_accuracy"},
    {"slice_v1", "limit_indices start_indices strides"},
    {"sort_v1", "dimension is_stable"},
    {"sqrt_v2", "result_accuracy"},
    {"tan_v2", "result_accuracy"},
    {"tanh_v2", "result_accuracy"},
    {"torch_index_select_v1", "batch_dims dim"},
    {"transpose_v1", "permutation"},
    {"triangular_solve_v1", "left_side lower transpose_a unit_diagonal"},
    {"unary_einsum_v1", "einsum_config"},
};

const char *vhlo_attrs(const char *op) {
  for (int i = 0; i < ARRAY_LEN(rows); i++)
    if (!strcmp(rows[i].op, op)) return rows[i].attrs;
  return NULL;
}

// ---- types ----

static const struct {
  uint8_t code;
  MlirElem elem;
} scalars[] = {
    {0, ME_BOOL},       {2, ME_BF16},    {3, ME_F16},     {4, ME_F32},      {5, ME_F64},
    {6, ME_F8E4M3FN},   {7, ME_F8E5M2},  {9, ME_INDEX},   {10, ME_I4},      {11, ME_I8},
    {12, ME_I16},       {13, ME_I32},    {14, ME_I64},    {15, ME_U4},      {16, ME_U8},
    {17, ME_U16},       {18, ME_U32},    {19, ME_U64},    {27, ME_F8E4M3Z}, {28, ME_F8E5M2Z},
    {29, ME_F8E4M3B11}, {31, ME_I2},     {32, ME_U2},     {34, ME_TF32},    {35, ME_F8E4M3},
    {36, ME_F8E3M4},    {37, ME_F4E2M1}, {38, ME_F6E2M3}, {39, ME_F6E3M2},  {40, ME_F8E8M0},
};
enum {
  TYPE_COMPLEX = 1,
  TYPE_FUNCTION = 8,
  TYPE_TENSOR = 20,
  TYPE_TENSOR_ENCODED = 21,
  TYPE_TOKEN = 22,
  TYPE_TUPLE = 23,
  TYPE_QUANT = 24,
  TYPE_UNRANKED = 25,
  TYPE_QUANT_AXIS = 30,
  TYPE_NONE = 33
};

static void element(Bytes *b, MlirType *t) {
  const MlirType *e = bc_type(b);
  if (e->kind != MT_SCALAR) bc_fail(b, "a tensor of what is no element type");
  t->elem = e->elem;
  t->quant = e->quant;
}

static const MlirType *tensor_type(Bytes *b, bool encoded) {
  MlirType *t = bc_new_type(b, MT_TENSOR);
  const MlirAttr *bounds = encoded ? mlir_field(bc_attr(b), "bounds") : NULL;
  int64_t n;
  const int64_t *dims = bc_signed_list(b, &n);
  int64_t *own = arena_dup(b->file->arena, dims, MAX(n, 1) * (int64_t)sizeof *own);
  for (int64_t i = 0; i < n; i++)
    if (own[i] < 0) own[i] = MLIR_DYNAMIC;
  t->dims = own;
  t->rank = n;
  element(b, t);
  if (bounds && bounds->n != n)
    bc_fail(b, "%lld bounds of %lld dimensions", (long long)bounds->n, (long long)n);
  if (bounds) t->bounds = bounds->ints;
  return t;
}

static double read_f64(Bytes *b) {
  uint64_t bits = (uint64_t)bc_signed(b);
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static const MlirType *quant_type(Bytes *b, bool per_axis) {
  MlirType *t = bc_new_type(b, MT_SCALAR);
  MlirQuant *q = arena_new(b->file->arena, MlirQuant);
  t->elem = ME_QUANT;
  t->quant = q;
  bc_varint(b);  // whether the storage is signed: its type says it
  q->storage = bc_type(b)->elem;
  q->expressed = bc_type(b)->elem;
  q->axis = -1;
  if (!mlir_elem_is_int(q->storage) || !mlir_elem_is_float(q->expressed))
    bc_fail(b, "a quantised type of what is no integer or no float");
  double *scales;
  int64_t *zeros, n = 1;
  if (!per_axis) {
    scales = arena_array(b->file->arena, double, 1);
    zeros = arena_array(b->file->arena, int64_t, 1);
    scales[0] = read_f64(b);
    zeros[0] = bc_signed(b);
    q->min = bc_signed(b);
    q->max = bc_signed(b);
  } else {
    q->axis = (int64_t)MIN(bc_varint(b), (uint64_t)INT32_MAX);
    q->min = bc_signed(b);
    q->max = bc_signed(b);
    n = bc_count(b);
    scales = arena_array(b->file->arena, double, MAX(n, 1));
    for (int64_t i = 0; i < n; i++) scales[i] = read_f64(b);
    if (bc_count(b) != n) bc_fail(b, "as many zero points as scales are needed");
    zeros = arena_array(b->file->arena, int64_t, MAX(n, 1));
    for (int64_t i = 0; i < n; i++) zeros[i] = bc_signed(b);
  }
  q->scales = scales;
  q->zero_points = zeros;
  q->nscales = n;
  return t;
}

static const MlirType *scalar_type(Bytes *b, MlirElem e) {
  MlirType *t = bc_new_type(b, MT_SCALAR);
  t->elem = e;
  return t;
}

const MlirType *vhlo_type(Bytes *b) {
  uint64_t code = bc_varint(b);
  for (int i = 0; i < ARRAY_LEN(scalars); i++)
    if (scalars[i].code == code) return scalar_type(b, scalars[i].elem);
  MlirType *t = bc_new_type(b, MT_NONE);
  switch (code) {
  case TYPE_COMPLEX: {
    MlirElem part = bc_type(b)->elem;
    if (part != ME_F32 && part != ME_F64) bc_fail(b, "complex of another type");
    return scalar_type(b, part == ME_F32 ? ME_C64 : ME_C128);
  }
  case TYPE_FUNCTION:
    t->kind = MT_FUNCTION;
    bc_types(b, t, false);
    bc_types(b, t, true);
    return t;
  case TYPE_TENSOR:
  case TYPE_TENSOR_ENCODED: return tensor_type(b, code == TYPE_TENSOR_ENCODED);
  case TYPE_TOKEN: t->kind = MT_TOKEN; return t;
  case TYPE_TUPLE:
    t->kind = MT_TUPLE;
    bc_types(b, t, false);
    return t;
  case TYPE_QUANT:
  case TYPE_QUANT_AXIS: return quant_type(b, code == TYPE_QUANT_AXIS);
  case TYPE_UNRANKED:
    t->kind = MT_TENSOR;
    t->unranked = true;
    element(b, t);
    return t;
  case TYPE_NONE: return t;
  default: break;
  }
  bc_unsupported(b, "type %llu of VHLO", (unsigned long long)code);
  return t;
}

// ---- attributes ----

static const struct {
  uint8_t code;
  const char *words[5];
} enums[] = {
    {3, {"EQ", "NE", "GE", "GT", "LE"}},  // and LT, below
    {4, {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"}},
    {5,
     {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
      "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"}},
    {7, {"FFT", "IFFT", "RFFT", "IRFFT"}},
    {11, {"DEFAULT", "HIGH", "HIGHEST"}},
    {12, {"DEFAULT", "THREE_FRY", "PHILOX"}},
    {13, {NULL, "UNIFORM", "NORMAL"}},
    {16, {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}},
    {19, {"DEFAULT", "HIGHEST", "TOLERANCE"}},
};
enum {
  ATTR_ARRAY = 1,
  ATTR_BOOL = 2,
  ATTR_DIRECTION = 3,
  ATTR_DICT = 6,
  ATTR_FLOAT = 8,
  ATTR_INT = 9,
  ATTR_ALIAS = 10,
  ATTR_STRING = 14,
  ATTR_TENSOR = 15,
  ATTR_TYPE = 17,
  ATTR_EXTENSIONS = 18,
  ATTR_ACCURACY = 20,
  ATTR_MESHES = 21,  // and those behind it: of programs for several devices
  ATTR_LAST = 25
};

static const MlirAttr *enum_attr(Bytes *b, int row) {
  uint64_t v = bc_varint(b);
  const char *word = v < 5 ? enums[row].words[v] : NULL;
  if (enums[row].code == ATTR_DIRECTION && v == 5) word = "LT";
  if (!word) bc_fail(b, "value %llu of an enumeration", (unsigned long long)v);
  return bc_text_attr(b, MA_ENUM, str_of(word ? word : ""));
}

static const MlirAttr *number_attr(Bytes *b, bool is_float) {
  MlirAttr *a = bc_new_attr(b, is_float ? MA_FLOAT : MA_INT);
  a->type = bc_type(b);
  MlirElem e = a->type->elem;
  bool known = is_float ? mlir_elem_is_float(e) && mlir_elem_dtype(e) : mlir_elem_is_int(e);
  if (!known) {
    bc_fail(b, "a number of type %s", mlir_type_text(b->file->arena, a->type));
    return a;
  }
  uint64_t bits = bc_apint(b, mlir_elem_bits(e));
  if (is_float)
    a->f = get_f64(mlir_elem_dtype(e), &bits, 0);
  else
    a->i = mlir_elem_bits(e) <= 8 && !mlir_elem_is_unsigned(e) ? (int8_t)bits : (int64_t)bits;
  return a;
}

static const MlirAttr *tensor_attr(Bytes *b) {
  const MlirType *t = bc_type(b);
  Str raw = bc_blob(b);
  const char *why;
  MlirAttr *a = bc_bad(b) ? NULL : mlir_dense_raw(b->file->arena, t, raw, &why);
  if (a) return a;
  if (!bc_bad(b))
    bc_fail(b, "%s: %lld bytes for %s", why, (long long)raw.n, mlir_type_text(b->file->arena, t));
  return bc_new_attr(b, MA_UNIT);
}

static const MlirAttr *dict_attr(Bytes *b) {
  MlirAttr *a = bc_new_attr(b, MA_DICT);
  int64_t n = bc_count(b);
  MlirField *f = arena_array(b->file->arena, MlirField, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    const MlirAttr *name = bc_attr(b);
    f[i].name = name->text ? name->text : "";
    f[i].value = mlir_plain_attr(b->file->arena, f[i].name, bc_attr(b));
  }
  a->fields = f;
  a->n = n;
  return a;
}

static const MlirAttr *fields_attr(Bytes *b, const MlirField *f, int64_t n) {
  MlirAttr *a = bc_new_attr(b, MA_DICT);
  a->fields = arena_dup(b->file->arena, f, n * (int64_t)sizeof *f);
  a->n = n;
  return a;
}

static const MlirAttr *list_attr(Bytes *b) {
  MlirAttr *a = bc_new_attr(b, MA_INTS);
  a->ints = bc_signed_list(b, &a->n);
  return a;
}

static const MlirAttr *alias_attr(Bytes *b) {
  MlirAttr *index = bc_new_attr(b, MA_INT);
  MlirField f[3] = {{"output_tuple_indices", list_attr(b)},
                    {"operand_index", index},
                    {"operand_tuple_indices", NULL}};
  index->i = bc_signed(b);
  f[2].value = list_attr(b);
  return fields_attr(b, f, 3);
}

static const MlirAttr *accuracy_attr(Bytes *b) {
  MlirAttr *atol = bc_new_attr(b, MA_FLOAT), *rtol = bc_new_attr(b, MA_FLOAT),
           *ulps = bc_new_attr(b, MA_INT);
  atol->f = read_f64(b);
  rtol->f = read_f64(b);
  ulps->i = bc_signed(b);
  MlirField f[4] = {{"atol", atol}, {"rtol", rtol}, {"ulps", ulps}, {"mode", bc_attr(b)}};
  return fields_attr(b, f, 4);
}

const MlirAttr *vhlo_attr(Bytes *b) {
  uint64_t code = bc_varint(b);
  for (int i = 0; i < ARRAY_LEN(enums); i++)
    if (enums[i].code == code) return enum_attr(b, i);
  MlirAttr *a = bc_new_attr(b, MA_UNIT);
  if (code >= ATTR_MESHES && code <= ATTR_LAST) return bc_text_attr(b, MA_OTHER, STR("#vhlo.mesh"));
  switch (code) {
  case ATTR_ARRAY: return bc_attrs(b);
  case ATTR_BOOL:
    a->kind = MA_BOOL;
    a->i = bc_varint(b) != 0;
    return a;
  case ATTR_DICT: return dict_attr(b);
  case ATTR_FLOAT: return number_attr(b, true);
  case ATTR_INT: return number_attr(b, false);
  case ATTR_ALIAS: return alias_attr(b);
  case ATTR_STRING: return bc_text_attr(b, MA_STRING, bc_string(b));
  case ATTR_TENSOR: return tensor_attr(b);
  case ATTR_TYPE:
    a->kind = MA_TYPE;
    a->type = bc_type(b);
    return a;
  case ATTR_EXTENSIONS: {
    MlirField f = {"bounds", list_attr(b)};
    return fields_attr(b, &f, 1);
  }
  case ATTR_ACCURACY: return accuracy_attr(b);
  default: break;
  }
  bc_unsupported(b, "attribute %llu of VHLO", (unsigned long long)code);
  return a;
}

// ---- plain ops ----

// Flat attributes that are one structured attribute of the plain op.
static const struct {
  const char *op, *attr, *mnemonic, *fields;
} groups[] = {
    {"gather", "dimension_numbers", "gather",
     "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims "
     "start_index_map index_vector_dim "},
    {"dynamic_gather", "dimension_numbers", "gather",
     "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims "
     "start_index_map index_vector_dim "},
    {"scatter", "scatter_dimension_numbers", "scatter",
     "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims "
     "scatter_dims_to_operand_dims index_vector_dim "},
    {"dot_general", "dot_dimension_numbers", "dot",
     "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
     "rhs_contracting_dimensions "},
    {"dot_general", "algorithm", "dot_algorithm",
     "lhs_precision_type rhs_precision_type accumulation_type lhs_component_count "
     "rhs_component_count num_primitive_operations allow_imprecise_accumulation "},
    {"convolution", "dimension_numbers", "conv",
     "input_batch_dimension input_feature_dimension input_spatial_dimensions "
     "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions "},
    {"dynamic_conv", "dimension_numbers", "conv",
     "input_batch_dimension input_feature_dimension input_spatial_dimensions "
     "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions "
     "output_batch_dimension output_feature_dimension output_spatial_dimensions "},
};

static bool is_one_of(const char *words, const char *name) {
  size_t n = strlen(name);
  for (const char *at = words; *at; at = strchr(at, ' ') + 1)
    if (!strncmp(at, name, n) && at[n] == ' ') return true;
  return false;
}

static void group(Bytecode *f, MlirOp *op, const char *attr, const char *mnemonic,
                  const char *words) {
  VEC(MlirField) kept = {0};
  VEC(MlirField) inner = {0};
  bool none = false;
  for (int64_t i = 0; i < op->nattrs; i++) {
    MlirField one = op->attrs[i];
    if (!is_one_of(words, one.name)) {
      vec_push(f->arena, &kept, one);
      continue;
    }
    if (one.value->kind == MA_TYPE && one.value->type->kind == MT_NONE) none = true;
    vec_push(f->arena, &inner, one);
  }
  if (!inner.n) return;
  MlirAttr *dict = arena_new(f->arena, MlirAttr);
  *dict = (MlirAttr){.kind = MA_DICT, .fields = inner.v, .n = inner.n};
  MlirField whole = {attr, mlir_struct_defaults(f->arena, str_of(mnemonic), dict)};
  if (!none) vec_push(f->arena, &kept, whole);  // an algorithm of no types is none
  op->attrs = kept.v;
  op->nattrs = kept.n;
}

// Strings that are symbols, and channels, which are structured.
static void plain_attrs(Bytecode *f, MlirOp *op) {
  MlirField *v = arena_array(f->arena, MlirField, MAX(op->nattrs, 1));
  int64_t n = 0;
  for (int64_t i = 0; i < op->nattrs; i++) {
    MlirField one = op->attrs[i];
    bool symbol = !strcmp(one.name, "callee") || !strcmp(one.name, "decomposition");
    if (!strcmp(one.name, "sym_visibility") && one.value->kind == MA_STRING && !one.value->ntext)
      continue;
    if (symbol || !strcmp(one.name, "channel_id")) {
      MlirAttr *a = arena_dup(f->arena, one.value, (int64_t)sizeof *a);
      if (symbol && a->kind == MA_STRING) a->kind = MA_SYMBOL;
      one.value = a;
      if (!symbol) {
        MlirField *handle = arena_new(f->arena, MlirField);
        *handle = (MlirField){"handle", arena_dup(f->arena, a, (int64_t)sizeof *a)};
        *a = (MlirAttr){.kind = MA_DICT, .fields = handle, .n = 1};
        one =
            (MlirField){"channel_handle", mlir_struct_defaults(f->arena, STR("channel_handle"), a)};
      }
    }
    v[n++] = one;
  }
  op->attrs = v;
  op->nattrs = n;
}

void vhlo_plain(Bytecode *f, MlirOp *op, bool in_function) {
  if (!str_starts(str_of(op->name), "vhlo.")) return;
  const char *name = op->name + 5, *version = strrchr(name, '_');
  if (!version || version[1] != 'v') return;
  const char *base = str_copy(f->arena, (Str){name, version - name});
  static const char *const functions[] = {"func", "call"};
  op->name = str_printf(f->arena, "stablehlo.%s", base);
  for (int i = 0; i < ARRAY_LEN(functions); i++)
    if (!strcmp(base, functions[i])) op->name = str_printf(f->arena, "func.%s", base);
  if (!strcmp(base, "return") && in_function) op->name = "func.return";
  plain_attrs(f, op);
  for (int i = 0; i < ARRAY_LEN(groups); i++)
    if (!strcmp(groups[i].op, base))
      group(f, op, groups[i].attr, groups[i].mnemonic, groups[i].fields);
}
