// parse_type.c -- types in MLIR text.
//
// Parses the types of StableHLO programs: tensors, element types, quantised types, tuples,
// functions, tokens.  Every other type is kept as its text, and refused by whoever needs more.
#include "frontends/stablehlo/text.h"

#include "ir/textnum.h"

const MlirType *mt_scalar_type(Parser *p, MlirElem e) {
  MlirType *t = arena_new(p->arena, MlirType);
  t->kind = MT_SCALAR;
  t->elem = e;
  return t;
}

const MlirType *mt_tensor_of(Parser *p, MlirElem e, int64_t rank, const int64_t *dims) {
  MlirType *t = arena_new(p->arena, MlirType);
  t->kind = MT_TENSOR;
  t->elem = e;
  t->rank = rank;
  t->dims = dims;
  return t;
}

const MlirType *mt_function_type(Parser *p, const MlirType *const *in, int64_t nin,
                                 const MlirType *const *out, int64_t nout) {
  MlirType *t = arena_new(p->arena, MlirType);
  const MlirType **parts = arena_array(p->arena, const MlirType *, MAX(nin + nout, 1));
  for (int64_t i = 0; i < nin; i++) parts[i] = in[i];
  for (int64_t i = 0; i < nout; i++) parts[nin + i] = out[i];
  *t = (MlirType){.kind = MT_FUNCTION, .parts = parts, .nparts = nin + nout, .nresults = nout};
  return t;
}

static tenon_status other_type(Parser *p, const char *from, const MlirType **out) {
  if (mt_is_punct(p, '<')) {
    Str inside;
    TRY(mt_take_balanced(p, &inside));
    MlirType *t = arena_new(p->arena, MlirType);
    t->kind = MT_OTHER;
    t->text = str_copy(p->arena, (Str){from, inside.p + inside.n - from});
    *out = t;
    return TENON_OK;
  }
  MlirType *t = arena_new(p->arena, MlirType);
  t->kind = MT_OTHER;
  const char *to = p->tok.start;
  while (to > from && strchr(" \t\r\n", to[-1])) to--;
  const char *end = from;  // the name alone: a comment may stand between it and the next token
  while (end < to && !strchr(" \t\r\n/", *end)) end++;
  t->text = str_copy(p->arena, (Str){from, end - from});
  *out = t;
  return TENON_OK;
}

// ---- quantised ----

static tenon_status quant_elem(Parser *p, MlirElem *out) {
  if (p->tok.kind != T_WORD) return mt_expected(p, "an element type");
  *out = mlir_elem_of(p->tok.text);
  if (*out == ME_NONE) return mt_expected(p, "an element type");
  mt_lex_next(p);
  return TENON_OK;
}

typedef struct Scales {
  VEC(double) scale;
  VEC(int64_t) zero;
} Scales;

static tenon_status one_scale(Parser *p, Scales *s) {
  uint64_t bits;
  double v;
  int64_t zero = 0;
  TRY(mt_number(p, ME_F64, &bits));
  memcpy(&v, &bits, sizeof v);
  if (mt_take_punct(p, ':')) TRY(mt_take_int(p, &zero));
  vec_push(p->arena, &s->scale, v);
  vec_push(p->arena, &s->zero, zero);
  return TENON_OK;
}

// Nested braces of sub-channel scales are read in order.
static tenon_status all_scales(Parser *p, Scales *s) {
  if (!mt_is_punct(p, '{')) return one_scale(p, s);
  TRY(mt_enter(p));
  mt_lex_next(p);
  do TRY(all_scales(p, s));
  while (mt_take_punct(p, ','));
  p->depth--;
  return mt_need_punct(p, '}');
}

static tenon_status quant_axes(Parser *p, MlirQuant *q) {
  if (!mt_take_punct(p, '{')) {
    TRY(mt_take_int(p, &q->axis));
    return q->axis >= 0 ? TENON_OK : mt_expected(p, "an axis that is not negative before this");
  }
  VEC(int64_t) axes = {0};
  VEC(int64_t) blocks = {0};
  do {
    int64_t axis, block;
    TRY(mt_take_int(p, &axis));
    TRY(mt_need_punct(p, ':'));
    TRY(mt_take_int(p, &block));
    vec_push(p->arena, &axes, axis);
    vec_push(p->arena, &blocks, block);
  } while (mt_take_punct(p, ','));
  q->axes = axes.v;
  q->blocks = blocks.v;
  q->naxes = axes.n;
  return mt_need_punct(p, '}');
}

static tenon_status parse_quant(Parser *p, const MlirQuant **out) {
  MlirQuant *q = arena_new(p->arena, MlirQuant);
  Scales s = {0};
  q->axis = -1;
  TRY(mt_need_punct(p, '<'));
  TRY(quant_elem(p, &q->storage));
  int bits = mlir_elem_bits(q->storage);
  if (!mlir_elem_is_int(q->storage) || bits > 32 || bits < 2)
    return mt_expected(p, "a storage type of 2 to 32 bits before this");
  bool is_unsigned = mlir_elem_is_unsigned(q->storage);
  q->min = is_unsigned ? 0 : -((int64_t)1 << (bits - 1));
  q->max = is_unsigned ? ((int64_t)1 << bits) - 1 : ((int64_t)1 << (bits - 1)) - 1;
  if (mt_take_punct(p, '<')) {
    TRY(mt_take_int(p, &q->min));
    TRY(mt_need_punct(p, ':'));
    TRY(mt_take_int(p, &q->max));
    TRY(mt_need_punct(p, '>'));
  }
  TRY(mt_need_punct(p, ':'));
  TRY(quant_elem(p, &q->expressed));
  if (!mlir_elem_is_float(q->expressed))
    return mt_expected(p, "an expressed float type before this");
  if (mt_take_punct(p, ':')) TRY(quant_axes(p, q));
  TRY(mt_need_punct(p, ','));
  TRY(all_scales(p, &s));
  q->scales = s.scale.v;
  q->zero_points = s.zero.v;
  q->nscales = s.scale.n;
  if (q->axis < 0 && !q->naxes && q->nscales != 1)
    return mt_expected(p, "one scale, without an axis, before this");
  *out = q;
  return mt_need_punct(p, '>');
}

// ---- tensors ----

// 2x?x3x, character by character: the lexer would read 0x3 as a number.
static tenon_status parse_dims(Parser *p, MlirType *t) {
  VEC(int64_t) dims = {0};
  const char *at = p->tok.start;
  if (p->end - at > 1 && at[0] == '*' && at[1] == 'x') {
    t->unranked = true;
    mt_lex_back_to(p, at + 2);
    return TENON_OK;
  }
  for (;;) {
    const char *from = at;
    int64_t size = MLIR_DYNAMIC;
    if (at < p->end && *at == '?')
      at++;
    else
      while (at < p->end && *at >= '0' && *at <= '9') at++;
    if (at == from) break;
    if (*from != '?' && !str_to_i64((Str){from, at - from}, &size))
      return mt_expected(p, "dimensions of 64 bits");
    if (at == p->end || *at != 'x') return mt_expected(p, "dimensions, an 'x' behind each");
    at++;
    vec_push(p->arena, &dims, size);
  }
  t->dims = dims.v;
  t->rank = dims.n;
  mt_lex_back_to(p, at);
  return TENON_OK;
}

// The encoding of a tensor: bounds of dynamic dimensions, or what is passed over.
static tenon_status parse_encoding(Parser *p, MlirType *t) {
  const MlirAttr *a;
  TRY(mt_attr(p, false, &a));
  const MlirAttr *b = mlir_field(a, "bounds");
  if (!b) return TENON_OK;
  const int64_t *v;
  int64_t n;
  if (!mlir_ints(p->arena, b, &v, &n) || n != t->rank)
    return mt_expected(p, "as many bounds as dimensions before this");
  t->bounds = v;
  return TENON_OK;
}

static tenon_status elem_of_tensor(Parser *p, MlirType *t) {
  const MlirType *e;
  TRY(mt_type(p, &e));
  t->elem = e->kind == MT_SCALAR ? e->elem : ME_OTHER;
  t->quant = e->quant;
  if (t->elem == ME_OTHER) t->text = e->text ? e->text : mlir_type_text(p->arena, e);
  return TENON_OK;
}

static tenon_status parse_tensor(Parser *p, const MlirType **out) {
  MlirType *t = arena_new(p->arena, MlirType);
  t->kind = MT_TENSOR;
  if (!mt_is_punct(p, '<')) return mt_expected(p, "'<'");
  mt_lex_next(p);
  TRY(parse_dims(p, t));
  TRY(elem_of_tensor(p, t));
  if (mt_take_punct(p, ',')) TRY(parse_encoding(p, t));
  *out = t;
  return mt_need_punct(p, '>');
}

// ---- others ----

tenon_status mt_type_list(Parser *p, const MlirType *const **out, int64_t *n) {
  VEC(const MlirType *) v = {0};
  do {
    const MlirType *t;
    TRY(mt_type(p, &t));
    vec_push(p->arena, &v, t);
  } while (mt_take_punct(p, ','));
  *out = v.v;
  *n = v.n;
  return TENON_OK;
}

static tenon_status types_in_brackets(Parser *p, char open, char close, const MlirType *const **out,
                                      int64_t *n) {
  *n = 0;
  *out = NULL;
  TRY(mt_need_punct(p, open));
  if (mt_take_punct(p, close)) return TENON_OK;
  TRY(mt_type_list(p, out, n));
  return mt_need_punct(p, close);
}

static tenon_status parse_function(Parser *p, const MlirType **out) {
  const MlirType *const *in, *const *res, *one;
  int64_t nin, nres;
  TRY(types_in_brackets(p, '(', ')', &in, &nin));
  if (p->tok.kind != T_ARROW) return mt_expected(p, "'->'");
  mt_lex_next(p);
  if (mt_is_punct(p, '(')) {
    TRY(types_in_brackets(p, '(', ')', &res, &nres));
  } else {
    TRY(mt_type(p, &one));
    const MlirType **v = arena_array(p->arena, const MlirType *, 1);
    v[0] = one;
    res = v;
    nres = 1;
  }
  *out = mt_function_type(p, in, nin, res, nres);
  return TENON_OK;
}

static tenon_status parse_complex(Parser *p, const MlirType **out) {
  TRY(mt_need_punct(p, '<'));
  MlirElem e = mt_is_word(p, "f32") ? ME_C64 : mt_is_word(p, "f64") ? ME_C128 : ME_NONE;
  if (e == ME_NONE) return mt_expected(p, "f32 or f64");
  mt_lex_next(p);
  *out = mt_scalar_type(p, e);
  return mt_need_punct(p, '>');
}

static tenon_status parse_named(Parser *p, const MlirType **out) {
  Str name = p->tok.text;
  const char *from = p->tok.start;
  mt_lex_next(p);
  if (str_is(name, "quant.uniform")) {
    MlirType *t = arena_new(p->arena, MlirType);
    t->kind = MT_SCALAR;
    t->elem = ME_QUANT;
    *out = t;
    return parse_quant(p, &t->quant);
  }
  if (str_is(name, "stablehlo.token") || str_is(name, "mhlo.token")) {
    MlirType *t = arena_new(p->arena, MlirType);
    t->kind = MT_TOKEN;
    *out = t;
    return TENON_OK;
  }
  if (!memchr(name.p, '.', (size_t)name.n) && !mt_is_punct(p, '<')) {
    *out = strmap_get(&p->type_alias, name);
    if (*out) return TENON_OK;
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "the type !%.*s is not defined",
                STR_ARG(name));
  }
  return other_type(p, from, out);
}

// iN of any width is a type; widths that StableHLO has not got are known by their text.
static bool is_int_word(Str s) {
  int64_t i = s.n > 1 && (s.p[0] == 'u' || s.p[0] == 's') ? 1 : 0, from = i + 1;
  if (s.n <= from || s.p[i] != 'i') return false;
  for (i = from; i < s.n; i++)
    if (s.p[i] < '0' || s.p[i] > '9') return false;
  return true;
}

bool mt_starts_type(const Parser *p) {
  static const char *const words[] = {"tensor", "tuple", "complex", "none", "vector", "memref"};
  if (p->tok.kind == T_BANG || mt_is_punct(p, '(')) return true;
  if (p->tok.kind != T_WORD) return false;
  for (int i = 0; i < ARRAY_LEN(words); i++)
    if (str_is(p->tok.text, words[i])) return true;
  return mlir_elem_of(p->tok.text) != ME_NONE || is_int_word(p->tok.text);
}

static tenon_status parse_word(Parser *p, const MlirType **out) {
  Str name = p->tok.text;
  const char *from = p->tok.start;
  MlirElem e = mlir_elem_of(name);
  if (!mt_starts_type(p)) return mt_expected(p, "a type");
  mt_lex_next(p);
  if (e != ME_NONE) {
    *out = mt_scalar_type(p, e);
    return TENON_OK;
  }
  if (str_is(name, "tensor")) return parse_tensor(p, out);
  if (str_is(name, "complex")) return parse_complex(p, out);
  MlirType *t = arena_new(p->arena, MlirType);
  *out = t;
  if (str_is(name, "tuple")) {
    t->kind = MT_TUPLE;
    return types_in_brackets(p, '<', '>', &t->parts, &t->nparts);
  }
  if (is_int_word(name)) {
    t->kind = MT_SCALAR;
    t->elem = ME_OTHER;
    t->text = str_copy(p->arena, name);
    return TENON_OK;
  }
  return str_is(name, "none") ? TENON_OK : other_type(p, from, out);
}

tenon_status mt_type(Parser *p, const MlirType **out) {
  TRY(mt_enter(p));
  if (mt_is_punct(p, '('))
    TRY(parse_function(p, out));
  else if (p->tok.kind == T_BANG)
    TRY(parse_named(p, out));
  else
    TRY(parse_word(p, out));
  p->depth--;
  return TENON_OK;
}
