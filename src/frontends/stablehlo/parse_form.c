// parse_form.c -- the short forms of ops, as a table.
//
// A form is a row of words: what stands between an op's name and the colon, and a rule that says
// how the types behind the colon are meant.  Words:
//   %   an operand        %*  operands between commas; a comma before something else is taken
//   {}  attributes, if there        {attributes}  the same behind the word `attributes`
//   $x  the value of attribute x    @x  a symbol as attribute x
//   "x  a symbol as string attribute x
//   ?   the words up to ; are there if the first of them is
//   &x  a form of its own (table `special`)
// Any other word stands for itself.  An op without a row has the form of elementwise ops.
#include "frontends/stablehlo/text.h"

typedef enum {
  R_ANY,       // one type: of the one result; types -> types; or a function type
  R_RESULTS,   // types of the results
  R_PAIR,      // types of operands and results alike
  R_OPERANDS,  // types of the operands, of which nothing is made; absent where there are none
  R_NONE,      // no types at all
  R_VALUE,     // none: the result has the type of attribute `value`
  R_TUPLE,     // one tuple type
  R_SELECT,    // the predicate's type, and that of all others
  R_DONE       // the special form has read them
} Rule;

typedef struct Form {
  const char *name, *words;
  Rule rule;
} Form;

static const Form forms[] = {
    {"chlo.constant", "&constant", R_DONE},
    {"chlo.scan", "&scan", R_DONE},
    {"chlo.top_k", "( % , k = $k ? , is_stable = $is_stable ; ) {}", R_ANY},
    {"check.expect_almost_eq", "% , % ? , tolerance = $tolerance ; {}", R_OPERANDS},
    {"check.expect_almost_eq_const", "% , $value ? , tolerance = $tolerance ; {}", R_NONE},
    {"check.expect_close",
     "% , % , max_ulp_difference = $max_ulp_difference ? , min_ulp_difference = "
     "$min_ulp_difference "
     "; {}",
     R_OPERANDS},
    {"check.expect_eq", "% , % {}", R_OPERANDS},
    {"check.expect_eq_const", "% , $value {}", R_NONE},
    {"check.expect_serialized_eq", "% , probe_id = $probe_id ? , iter = $iteration ; {}",
     R_OPERANDS},
    {"func.call", "@callee ( %* ) {}", R_ANY},
    {"func.return", "%* {}", R_OPERANDS},
    {"interpreter.print", "% {}", R_OPERANDS},
    {"interpreter.probe", "% , probe_id = $probe_id {}", R_ANY},
    {"sdy.mesh", "\"sym_name = $mesh {}", R_NONE},
    {"sdy.return", "%* {}", R_OPERANDS},
    {"sdy.sharding_constraint", "% $sharding {}", R_ANY},
    {"stablehlo.broadcast", "% , sizes = $broadcast_sizes {}", R_ANY},
    {"stablehlo.broadcast_in_dim", "% , dims = $broadcast_dimensions {}", R_ANY},
    {"stablehlo.cholesky", "% ? , lower = $lower ; {}", R_ANY},
    {"stablehlo.compare", "$comparison_direction , % , % ? , $compare_type ; {}", R_ANY},
    {"stablehlo.complex", "%* {} &complex", R_DONE},
    {"stablehlo.composite", "$name %* {}", R_ANY},
    {"stablehlo.concatenate", "%* dim = $dimension {}", R_ANY},
    {"stablehlo.constant", "&constant", R_DONE},
    {"stablehlo.convolution", "( %* ) dim_numbers = &conv , window = &window {}", R_ANY},
    {"stablehlo.create_token", "{}", R_RESULTS},
    {"stablehlo.custom_call", "\"call_target_name ( %* ) {}", R_ANY},
    {"stablehlo.dot", "% , % ? , precision = $precision_config ; {}", R_ANY},
    {"stablehlo.dot_general",
     "% , % , &dot ? , precision = $precision_config ; ? , algorithm = &algorithm ; {}", R_ANY},
    {"stablehlo.dynamic_broadcast_in_dim", "%* dims = $broadcast_dimensions {}", R_ANY},
    {"stablehlo.dynamic_iota", "% , dim = $iota_dimension {}", R_ANY},
    {"stablehlo.dynamic_slice", "%* sizes = $slice_sizes {}", R_ANY},
    {"stablehlo.einsum", "% , % , config = $einsum_config {}", R_ANY},
    {"stablehlo.fft", "% , type = $fft_type , length = $fft_length {}", R_ANY},
    {"stablehlo.get_dimension_size", "% , dim = $dimension {}", R_ANY},
    {"stablehlo.get_tuple_element", "% [ $index ] {}", R_ANY},
    {"stablehlo.iota", "dim = $iota_dimension {}", R_RESULTS},
    {"stablehlo.optimization_barrier", "{} %* ? ( ) ;", R_PAIR},
    {"stablehlo.pad",
     "% , % , low = $edge_padding_low , high = $edge_padding_high , interior = $interior_padding "
     "{}",
     R_ANY},
    {"stablehlo.partition_id", "{}", R_RESULTS},
    {"stablehlo.reduce", "&reduce", R_DONE},
    {"stablehlo.reduce_precision", "% , format = &precision {}", R_ANY},
    {"stablehlo.replica_id", "{}", R_RESULTS},
    {"stablehlo.return", "%* {}", R_OPERANDS},
    {"stablehlo.reverse", "% , dims = $dimensions {}", R_ANY},
    {"stablehlo.rng", "%* distribution = $rng_distribution {}", R_ANY},
    {"stablehlo.rng_bit_generator", "% , algorithm = $rng_algorithm {}", R_ANY},
    {"stablehlo.select", "%* {}", R_SELECT},
    {"stablehlo.set_dimension_size", "%* dim = $dimension {}", R_ANY},
    {"stablehlo.slice", "% &slice {}", R_ANY},
    {"stablehlo.transpose", "% , dims = $permutation {}", R_ANY},
    {"stablehlo.tuple", "%* {}", R_TUPLE},
    {"stablehlo.unary_einsum", "% , config = $einsum_config {}", R_ANY},
    {"stablehlo.while", "&while", R_DONE},
    {"util.global", "&visibility \"sym_name ? = $initial_value ; {}", R_NONE},
    {"util.global.address", "\"global {}", R_RESULTS},
    {"util.global.load", "\"global {}", R_RESULTS},
};
static const Form elementwise = {NULL, "%* {}", R_ANY};

// ---- special forms ----

static tenon_status form_constant(Parser *p, OpBuild *b) {
  const MlirAttr *v;
  if (mt_is_punct(p, '(')) return mt_generic_rest(p, b);
  if (mt_is_punct(p, '{')) TRY(mt_dict(p, &b->attrs));
  TRY(mt_attr(p, false, &v));
  if (v->kind != MA_DENSE) return mt_expected(p, "a dense<> constant before this");
  mt_add_field(p, &b->attrs, "value", v);
  vec_push(p->arena, &b->results, v->type);
  return TENON_OK;
}

// [0:4, 2:8:2]
static tenon_status form_slice(Parser *p, OpBuild *b) {
  static const char *const names[3] = {"start_indices", "limit_indices", "strides"};
  struct {
    VEC(int64_t) v;
  } part[3] = {{{0}}, {{0}}, {{0}}};
  TRY(mt_need_punct(p, '['));
  if (!mt_is_punct(p, ']')) do {
      int64_t v[3] = {0, 0, 1};
      TRY(mt_take_int(p, &v[0]));
      TRY(mt_need_punct(p, ':'));
      TRY(mt_take_int(p, &v[1]));
      if (mt_take_punct(p, ':')) TRY(mt_take_int(p, &v[2]));
      for (int i = 0; i < 3; i++) vec_push(p->arena, &part[i].v, v[i]);
    } while (mt_take_punct(p, ','));
  for (int i = 0; i < 3; i++)
    mt_add_field(p, &b->attrs, names[i], mt_ints_attr(p, part[i].v.v, part[i].v.n));
  return mt_need_punct(p, ']');
}

static tenon_status two_lists(Parser *p, const char *word, const char *lhs, const char *rhs,
                              Fields *f) {
  const MlirAttr *l, *r;
  TRY(mt_need_word(p, word));
  TRY(mt_need_punct(p, '='));
  TRY(mt_attr(p, true, &l));
  TRY(mt_need_word(p, "x"));
  TRY(mt_attr(p, true, &r));
  if (l->kind != MA_INTS || r->kind != MA_INTS)
    return mt_expected(p, "lists of dimensions before this");
  mt_add_field(p, f, lhs, l);
  mt_add_field(p, f, rhs, r);
  return TENON_OK;
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1]
static tenon_status form_dot(Parser *p, OpBuild *b) {
  Fields f = {0};
  if (mt_is_word(p, "batching_dims")) {
    TRY(two_lists(p, "batching_dims", "lhs_batching_dimensions", "rhs_batching_dimensions", &f));
    TRY(mt_need_punct(p, ','));
  }
  TRY(two_lists(p, "contracting_dims", "lhs_contracting_dimensions", "rhs_contracting_dimensions",
                &f));
  mt_add_field(p, &b->attrs, "dot_dimension_numbers",
               mlir_struct_defaults(p->arena, STR("dot"), mt_dict_attr(p, f.v, f.n)));
  return TENON_OK;
}

// <lhs_precision_type = tf32, ...>
static tenon_status form_algorithm(Parser *p, OpBuild *b) {
  Fields f = {0};
  TRY(mt_need_punct(p, '<'));
  do {
    const MlirAttr *v;
    const char *name;
    int64_t n;
    if (p->tok.kind != T_WORD) return mt_expected(p, "a field's name");
    TRY(mt_take_text(p, &name, &n));
    TRY(mt_need_punct(p, '='));
    TRY(mt_attr(p, true, &v));
    mt_add_field(p, &f, name, v);
  } while (mt_take_punct(p, ','));
  mt_add_field(p, &b->attrs, "algorithm", mt_dict_attr(p, f.v, f.n));
  return mt_need_punct(p, '>');
}

static tenon_status form_conv(Parser *p, OpBuild *b) {
  const MlirAttr *v;
  TRY(mt_conv_dims(p, &v));
  mt_add_field(p, &b->attrs, "dimension_numbers", v);
  return TENON_OK;
}

// pad = [[1, 1], [0, 2]] as the dense<> that the generic form has
static tenon_status window_pad(Parser *p, const MlirAttr *rows, const MlirAttr **out) {
  int64_t n = rows->kind == MA_ARRAY || rows->kind == MA_INTS ? rows->n : -1;
  if (n < 0 || (rows->kind == MA_INTS && n)) return mt_expected(p, "pairs of numbers before this");
  int64_t *data = arena_array(p->arena, int64_t, MAX(n * 2, 1));
  for (int64_t i = 0; i < n; i++) {
    const MlirAttr *pair = rows->items[i];
    if (pair->kind != MA_INTS || pair->n != 2)
      return mt_expected(p, "pairs of numbers before this");
    data[i * 2] = pair->ints[0];
    data[i * 2 + 1] = pair->ints[1];
  }
  int64_t *dims = arena_array(p->arena, int64_t, 2);
  dims[0] = n;
  dims[1] = 2;
  MlirAttr *a = arena_new(p->arena, MlirAttr);
  *a = (MlirAttr){.kind = MA_DENSE,
                  .type = mt_tensor_of(p, ME_I64, 2, dims),
                  .data = (const uint8_t *)data,
                  .ndata = n * 16};
  *out = a;
  return TENON_OK;
}

// {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = ..., rhs_dilate = ..., reverse = [...]}
static tenon_status form_window(Parser *p, OpBuild *b) {
  static const struct {
    const char *word, *name;
  } rows[] = {{"stride", "window_strides"},
              {"pad", "padding"},
              {"lhs_dilate", "lhs_dilation"},
              {"rhs_dilate", "rhs_dilation"},
              {"reverse", "window_reversal"}};
  TRY(mt_need_punct(p, '{'));
  while (!mt_take_punct(p, '}')) {
    int i = 0;
    while (i < ARRAY_LEN(rows) && !mt_is_word(p, rows[i].word)) i++;
    if (i == ARRAY_LEN(rows))
      return mt_expected(p, "stride, pad, lhs_dilate, rhs_dilate or reverse");
    mt_lex_next(p);
    const MlirAttr *v;
    TRY(mt_need_punct(p, '='));
    TRY(mt_attr(p, true, &v));
    if (!strcmp(rows[i].word, "pad"))
      TRY(window_pad(p, v, &v));
    else if (v->kind != MA_INTS)
      return mt_expected(p, "a list of numbers before this");
    mt_add_field(p, &b->attrs, rows[i].name, v);
    if (!mt_take_punct(p, ',') && !mt_is_punct(p, '}')) return mt_expected(p, "',' or '}'");
  }
  return TENON_OK;
}

// e5m10
static tenon_status form_precision(Parser *p, OpBuild *b) {
  Str s = p->tok.text;
  int64_t e, m;
  const char *split = p->tok.kind == T_WORD && s.n > 3 ? memchr(s.p, 'm', (size_t)s.n) : NULL;
  if (!split || s.p[0] != 'e' || !str_to_i64((Str){s.p + 1, split - s.p - 1}, &e) ||
      !str_to_i64((Str){split + 1, s.p + s.n - split - 1}, &m))
    return mt_expected(p, "a format such as e5m10");
  mt_add_field(p, &b->attrs, "exponent_bits", mt_int_attr(p, e));
  mt_add_field(p, &b->attrs, "mantissa_bits", mt_int_attr(p, m));
  mt_lex_next(p);
  return TENON_OK;
}

static tenon_status form_complex(Parser *p, OpBuild *b) {
  const MlirType *t;
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &t));
  if (t->kind == MT_FUNCTION) return mt_signature(p, b, t);
  vec_push(p->arena, &b->results, t);
  return TENON_OK;
}

static tenon_status form_visibility(Parser *p, OpBuild *b) {
  (void)b;
  while (p->tok.kind == T_WORD) mt_lex_next(p);  // private, mutable
  return TENON_OK;
}

// ---- ops with regions of their own ----

static MlirValue *const *new_args(Parser *p, const Str *names, const MlirType *const *types,
                                  int64_t n) {
  MlirValue **v = arena_array(p->arena, MlirValue *, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    v[i] = mt_new_value(p, names[i], types[i]);
    v[i]->index = i;
  }
  return v;
}

// (%i = %a, %j = %b) : types attributes {...} cond {...} do {...}
static tenon_status form_while(Parser *p, OpBuild *b) {
  VEC(Str) names = {0};
  TRY(mt_need_punct(p, '('));
  if (!mt_is_punct(p, ')')) do {
      MlirValue *v;
      if (p->tok.kind != T_VALUE) return mt_expected(p, "a value");
      vec_push(p->arena, &names, p->tok.text);
      mt_lex_next(p);
      TRY(mt_need_punct(p, '='));
      TRY(mt_operand(p, &v));
      vec_push(p->arena, &b->operands, v);
    } while (mt_take_punct(p, ','));
  TRY(mt_need_punct(p, ')'));
  if (names.n) {
    const MlirType *const *types;
    int64_t n;
    TRY(mt_need_punct(p, ':'));
    TRY(mt_type_list(p, &types, &n));
    const MlirType **both = arena_array(p->arena, const MlirType *, 2 * n);
    for (int64_t i = 0; i < 2 * n; i++) both[i] = types[i % n];
    TRY(mt_signature(p, b, mt_function_type(p, both, n, both, n)));
  }
  if (mt_take_word(p, "attributes")) TRY(mt_dict(p, &b->attrs));
  for (int i = 0; i < 2; i++) {
    MlirRegion *r;
    TRY(mt_need_word(p, i ? "do" : "cond"));
    TRY(mt_region(p, new_args(p, names.v, b->results.v, names.n), names.n, &r));
    vec_push(p->arena, &b->regions, r);
  }
  return TENON_OK;
}

static tenon_status bracketed_operands(Parser *p, OpBuild *b, int64_t *n) {
  int64_t before = b->operands.n;
  TRY(mt_need_punct(p, '('));
  TRY(mt_operands(p, &b->operands));
  *n = b->operands.n - before;
  return mt_need_punct(p, ')');
}

// (%inputs) inits(%inits) dimension=0 attributes {...} {body} : function type
static tenon_status form_scan(Parser *p, OpBuild *b) {
  int64_t *in = arena_array(p->arena, int64_t, 2), *out = arena_array(p->arena, int64_t, 2), dim;
  const MlirType *t;
  MlirRegion *r;
  TRY(bracketed_operands(p, b, &in[0]));
  TRY(mt_need_word(p, "inits"));
  TRY(bracketed_operands(p, b, &in[1]));
  TRY(mt_need_word(p, "dimension"));
  TRY(mt_need_punct(p, '='));
  TRY(mt_take_int(p, &dim));
  mt_add_field(p, &b->attrs, "dimension", mt_int_attr(p, dim));
  if (mt_take_word(p, "attributes")) TRY(mt_dict(p, &b->attrs));
  TRY(mt_region(p, NULL, 0, &r));
  vec_push(p->arena, &b->regions, r);
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &t));
  if (t->kind != MT_FUNCTION || t->nresults < in[1])
    return mt_expected(p, "a function type with a result for every init before this");
  out[0] = t->nresults - in[1];
  out[1] = in[1];
  mt_add_field(p, &b->attrs, "operandSegmentSizes", mt_ints_attr(p, in, 2));
  mt_add_field(p, &b->attrs, "resultSegmentSizes", mt_ints_attr(p, out, 2));
  return mt_signature(p, b, t);
}

// `applies stablehlo.add`: the body is that op on its two arguments
static tenon_status applied_body(Parser *p, OpBuild *b, const char *name) {
  const MlirType *in = b->operands.n ? b->operands.v[0]->type : NULL;
  if (b->operands.n != 2 || in->kind != MT_TENSOR)
    return mt_expected(p, "one operand and its init before this");
  MlirType *t = arena_new(p->arena, MlirType);
  *t = (MlirType){.kind = MT_TENSOR, .elem = in->elem, .quant = in->quant, .text = in->text};
  const MlirType *types[2] = {t, t};
  const Str names[2] = {STR("lhs"), STR("rhs")};
  MlirValue *const *args = new_args(p, names, types, 2);
  OpBuild inner = {.name = name, .line = b->line, .column = b->column};
  OpBuild done = {.name = "stablehlo.return", .line = b->line, .column = b->column};
  vec_push(p->arena, &inner.operands, args[0]);
  vec_push(p->arena, &inner.operands, args[1]);
  vec_push(p->arena, &inner.results, (const MlirType *)t);
  MlirOp **ops = arena_array(p->arena, MlirOp *, 2);
  ops[0] = mt_make_op(p, &inner);
  vec_push(p->arena, &done.operands, ops[0]->results[0]);
  ops[1] = mt_make_op(p, &done);
  MlirBlock *block = arena_new(p->arena, MlirBlock),
            **blocks = arena_array(p->arena, MlirBlock *, 1);
  *block = (MlirBlock){.args = args, .nargs = 2, .ops = ops, .nops = 2};
  blocks[0] = block;
  MlirRegion *r = arena_new(p->arena, MlirRegion);
  *r = (MlirRegion){blocks, 1};
  vec_push(p->arena, &b->regions, r);
  return TENON_OK;
}

// reducer(%a: t, %b: t) (%c: t, %d: t) {...}: the first of each pair are the first arguments
static tenon_status reducer_body(Parser *p, OpBuild *b) {
  VEC(Str) names = {0};
  VEC(const MlirType *) types = {0};
  TRY(mt_need_word(p, "reducer"));
  while (mt_take_punct(p, '(')) {
    for (int i = 0; i < 2; i++) {
      const MlirType *t;
      const char *loc;
      if (i) TRY(mt_need_punct(p, ','));
      if (p->tok.kind != T_VALUE) return mt_expected(p, "an argument");
      vec_push(p->arena, &names, p->tok.text);
      mt_lex_next(p);
      TRY(mt_need_punct(p, ':'));
      TRY(mt_type(p, &t));
      vec_push(p->arena, &types, t);
      if (mt_take_word(p, "loc")) TRY(mt_loc(p, &loc));
    }
    TRY(mt_need_punct(p, ')'));
  }
  int64_t n = names.n;
  Str *sorted = arena_array(p->arena, Str, MAX(n, 1));
  const MlirType **stypes = arena_array(p->arena, const MlirType *, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    sorted[i % 2 * (n / 2) + i / 2] = names.v[i];
    stypes[i % 2 * (n / 2) + i / 2] = types.v[i];
  }
  MlirRegion *r;
  TRY(mt_region(p, new_args(p, sorted, stypes, n), n, &r));
  vec_push(p->arena, &b->regions, r);
  return TENON_OK;
}

// (%a init: %b), (%c init: %d) [applies op] across dimensions = [...] {...} : function type [loc]
// [reducer ...]
static tenon_status form_reduce(Parser *p, OpBuild *b) {
  Values inits = {0};
  const char *applied = NULL, *loc;
  int64_t n;
  const MlirAttr *dims;
  const MlirType *t;
  do {
    MlirValue *v;
    TRY(mt_need_punct(p, '('));
    TRY(mt_operand(p, &v));
    vec_push(p->arena, &b->operands, v);
    TRY(mt_need_word(p, "init"));
    TRY(mt_need_punct(p, ':'));
    TRY(mt_operand(p, &v));
    vec_push(p->arena, &inits, v);
    TRY(mt_need_punct(p, ')'));
  } while (mt_take_punct(p, ','));
  for (int64_t i = 0; i < inits.n; i++) vec_push(p->arena, &b->operands, inits.v[i]);
  if (mt_take_word(p, "applies")) {
    if (p->tok.kind != T_WORD && p->tok.kind != T_STRING)
      return mt_expected(p, "an operation's name");
    TRY(mt_take_text(p, &applied, &n));
    if (str_starts(str_of(applied), "mhlo."))
      applied = str_printf(p->arena, "stablehlo.%s", applied + 5);
  }
  TRY(mt_need_word(p, "across"));
  TRY(mt_need_word(p, "dimensions"));
  TRY(mt_need_punct(p, '='));
  TRY(mt_attr(p, true, &dims));
  if (dims->kind != MA_INTS) return mt_expected(p, "a list of dimensions before this");
  mt_add_field(p, &b->attrs, "dimensions", dims);
  if (mt_is_punct(p, '{')) TRY(mt_dict(p, &b->attrs));
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &t));
  if (t->kind != MT_FUNCTION) return mt_expected(p, "a function type before this");
  TRY(mt_signature(p, b, t));
  if (applied) return applied_body(p, b, applied);
  if (mt_take_word(p, "loc")) TRY(mt_loc(p, &loc));
  return reducer_body(p, b);
}

static const struct {
  const char *word;
  tenon_status (*parse)(Parser *p, OpBuild *b);
} special[] = {
    {"algorithm", form_algorithm},
    {"complex", form_complex},
    {"constant", form_constant},
    {"conv", form_conv},
    {"dot", form_dot},
    {"precision", form_precision},
    {"reduce", form_reduce},
    {"scan", form_scan},
    {"slice", form_slice},
    {"visibility", form_visibility},
    {"while", form_while},
    {"window", form_window},
};

// ---- the table's words ----

static bool next_word(const char **at, Str *out) {
  while (**at == ' ') ++*at;
  const char *from = *at;
  while (**at && **at != ' ') ++*at;
  *out = (Str){from, *at - from};
  return out->n > 0;
}

static bool word_is_next(const Parser *p, Str w) {
  if (p->tok.kind == T_WORD) return str_eq(p->tok.text, w);
  return p->tok.kind == T_PUNCT && w.n == 1 && p->tok.text.p[0] == w.p[0];
}

static tenon_status symbol_word(Parser *p, OpBuild *b, Str name, MlirAttrKind kind) {
  const char *s;
  int64_t n;
  if (p->tok.kind != T_SYMBOL) return mt_expected(p, "a symbol, @...");
  TRY(mt_take_text(p, &s, &n));
  mt_add_field(p, &b->attrs, str_copy(p->arena, name), mt_text_attr(p, kind, s, n));
  return TENON_OK;
}

static tenon_status one_word(Parser *p, OpBuild *b, Str w) {
  Str rest = {w.p + 1, w.n - 1};
  const MlirAttr *a;
  MlirValue *v;
  if (str_is(w, "%*")) return mt_operands(p, &b->operands);
  if (str_is(w, "{}")) return mt_is_punct(p, '{') ? mt_dict(p, &b->attrs) : TENON_OK;
  switch (w.p[0]) {
  case '%':
    TRY(mt_operand(p, &v));
    vec_push(p->arena, &b->operands, v);
    return TENON_OK;
  case '$':
    TRY(mt_attr(p, true, &a));
    mt_add_field(p, &b->attrs, str_copy(p->arena, rest), a);
    return TENON_OK;
  case '@': return symbol_word(p, b, rest, MA_SYMBOL);
  case '"': return symbol_word(p, b, rest, MA_STRING);
  case '&':
    for (int i = 0; i < ARRAY_LEN(special); i++)
      if (str_is(rest, special[i].word)) return special[i].parse(p, b);
    CHECK(false, "no special form of this name");
  default: break;
  }
  if (!word_is_next(p, w)) return mt_expected(p, str_printf(p->arena, "'%.*s'", STR_ARG(w)));
  mt_lex_next(p);
  return TENON_OK;
}

static tenon_status all_words(Parser *p, OpBuild *b, const char *at) {
  Str w;
  while (next_word(&at, &w)) {
    if (str_is(w, ";")) continue;
    if (!str_is(w, "?")) {
      TRY(one_word(p, b, w));
      continue;
    }
    const char *first = at;
    Str second;
    CHECK(next_word(&first, &w), "an optional group has words");
    bool there = word_is_next(p, w);
    // `, word`: of two groups that begin with a comma it is the word that tells
    if (there && w.p[0] == ',' && next_word(&first, &second) && second.p[0] != '$') {
      Parser lookahead = *p;
      mt_lex_next(&lookahead);
      there = word_is_next(&lookahead, second);
    }
    while (!there && next_word(&at, &w) && !str_is(w, ";")) {}
  }
  return TENON_OK;
}

// ---- types ----

static tenon_status operand_types(Parser *p, OpBuild *b, const MlirType *const *t, int64_t n,
                                  bool first_for_all) {
  for (int64_t i = 0; i < b->operands.n; i++) {
    const MlirType *want = first_for_all ? t[0] : i < n ? t[i] : NULL;
    if (!want || (!first_for_all && n != b->operands.n) ||
        !mlir_type_eq(want, b->operands.v[i]->type))
      return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "operand %s of %s is %s, not %s",
                  b->operands.v[i]->name, b->name, mlir_type_text(p->arena, b->operands.v[i]->type),
                  want ? mlir_type_text(p->arena, want) : "without a type");
  }
  return TENON_OK;
}

static void push_results(Parser *p, OpBuild *b, const MlirType *const *t, int64_t n) {
  for (int64_t i = 0; i < n; i++) vec_push(p->arena, &b->results, t[i]);
}

// types -> types
static tenon_status arrow_types(Parser *p, OpBuild *b, const MlirType *const *t, int64_t n) {
  bool several = false;
  TRY(operand_types(p, b, t, n, false));
  mt_lex_next(p);
  several = mt_take_punct(p, '(');
  if (several && mt_take_punct(p, ')')) return TENON_OK;
  TRY(mt_type_list(p, &t, &n));
  push_results(p, b, t, n);
  return several ? mt_need_punct(p, ')') : TENON_OK;
}

static tenon_status apply_rule(Parser *p, OpBuild *b, Rule rule, const MlirType *const *t,
                               int64_t n) {
  switch (rule) {
  case R_RESULTS: push_results(p, b, t, n); return TENON_OK;
  case R_PAIR: push_results(p, b, t, n); return operand_types(p, b, t, n, false);
  case R_OPERANDS: return operand_types(p, b, t, n, n == 1);
  case R_SELECT:
    if (n != 2 || b->operands.n != 3)
      return mt_expected(p, "two types, and three operands, before this");
    push_results(p, b, t + 1, 1);
    return operand_types(p, b, (const MlirType *const[]){t[0], t[1], t[1]}, 3, false);
  case R_TUPLE:
    if (n != 1 || t[0]->kind != MT_TUPLE) return mt_expected(p, "a tuple type before this");
    push_results(p, b, t, 1);
    return operand_types(p, b, t[0]->parts, t[0]->nparts, false);
  default: break;
  }
  if (n != 1) return mt_expected(p, "'->'");
  push_results(p, b, t, 1);
  return operand_types(p, b, t, 1, true);
}

static tenon_status form_types(Parser *p, OpBuild *b, Rule rule) {
  const MlirType *const *t;
  int64_t n;
  if (rule == R_DONE || rule == R_NONE) return TENON_OK;
  if ((rule == R_OPERANDS || rule == R_PAIR) && !b->operands.n && !mt_is_punct(p, ':'))
    return TENON_OK;
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type_list(p, &t, &n));
  if (p->tok.kind == T_ARROW) return arrow_types(p, b, t, n);
  if (n == 1 && t[0]->kind == MT_FUNCTION && rule != R_OPERANDS) return mt_signature(p, b, t[0]);
  return apply_rule(p, b, rule, t, n);
}

tenon_status mt_form(Parser *p, OpBuild *b) {
  const Form *f = &elementwise;
  for (int i = 0; i < ARRAY_LEN(forms); i++)
    if (!strcmp(forms[i].name, b->name)) f = &forms[i];
  // the generic form may stand behind a name without quotes, where the short one cannot say all
  tenon_status s = all_words(p, b, f->words);
  if (s == TENON_OK) s = form_types(p, b, f->rule);
  if (s != TENON_OK)
    diag_note(p->diag, "in %s at line %d%s", b->name, b->line,
              f == &elementwise ? ", read in the form `op %a, %b {attributes} : type`: write the "
                                  "generic form of an op that has another"
                                : "");
  return s;
}
