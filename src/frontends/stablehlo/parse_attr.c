// parse_attr.c -- attributes in MLIR text, and locations.
//
// StableHLO's structured attributes (#stablehlo.gather<...>) become dictionaries, its enumerations
// words.  Attributes of dialects that are not known are kept as text: whoever needs one refuses it.
#include "frontends/stablehlo/text.h"

#include <math.h>

static MlirAttr *new_attr(Parser *p, MlirAttrKind kind) {
  MlirAttr *a = arena_new(p->arena, MlirAttr);
  a->kind = kind;
  return a;
}

const MlirAttr *mt_int_attr(Parser *p, int64_t v) {
  MlirAttr *a = new_attr(p, MA_INT);
  a->i = v;
  a->type = mt_scalar_type(p, ME_I64);
  return a;
}

const MlirAttr *mt_ints_attr(Parser *p, const int64_t *v, int64_t n) {
  MlirAttr *a = new_attr(p, MA_INTS);
  a->ints = v;
  a->n = n;
  return a;
}

const MlirAttr *mt_text_attr(Parser *p, MlirAttrKind kind, const char *text, int64_t n) {
  MlirAttr *a = new_attr(p, kind);
  a->text = text;
  a->ntext = n;
  return a;
}

const MlirAttr *mt_type_attr(Parser *p, const MlirType *t) {
  MlirAttr *a = new_attr(p, MA_TYPE);
  a->type = t;
  return a;
}

const MlirAttr *mt_dict_attr(Parser *p, const MlirField *f, int64_t n) {
  MlirAttr *a = new_attr(p, MA_DICT);
  a->fields = f;
  a->n = n;
  return a;
}

void mt_add_field(Parser *p, Fields *f, const char *name, const MlirAttr *value) {
  MlirField one = {name, mlir_plain_attr(p->arena, name, value)};
  vec_push(p->arena, f, one);
}

static const MlirAttr *slice_attr(Parser *p, MlirAttrKind kind, Str s) {
  return mt_text_attr(p, kind, str_copy(p->arena, s), s.n);
}

// ---- numbers ----

static bool is_float_text(Str s) {
  return !(s.n > 1 && s.p[1] == 'x') && memchr(s.p, '.', (size_t)s.n);
}

// 5, -1.5e0, 3 : i32, 0x7FC0 : bf16 (short forms give no type, theirs is known); the type decides
// how the digits are meant, so they are read behind it.
static tenon_status number_attr(Parser *p, bool bare, const MlirAttr **out) {
  Parser before = *p;
  mt_take_punct(p, '-');
  if (p->tok.kind != T_NUMBER) return mt_expected(p, "a number");
  MlirAttr *a = new_attr(p, is_float_text(p->tok.text) ? MA_FLOAT : MA_INT);
  a->type = mt_scalar_type(p, a->kind == MA_FLOAT ? ME_F64 : ME_I64);
  mt_lex_next(p);
  if (!bare && mt_take_punct(p, ':')) TRY(mt_type(p, &a->type));
  if (a->type->kind != MT_SCALAR || a->type->elem == ME_OTHER || a->type->elem == ME_QUANT) {
    *out = slice_attr(p, MA_OTHER, (Str){before.tok.start, p->tok.start - before.tok.start});
    return TENON_OK;
  }
  Parser behind = *p;
  MlirElem e = a->type->elem;
  uint64_t bits = 0;
  *p = before;
  TRY(mt_number(p, e, &bits));
  if (mlir_elem_is_float(e)) {
    a->kind = MA_FLOAT;
    DType t = mlir_elem_dtype(e);
    if (!t) return mt_expected(p, "a number of another float type before this");
    a->f = get_f64(t, &bits, 0);
  } else {
    int width = mlir_elem_bits(e);
    a->kind = e == ME_BOOL ? MA_BOOL : MA_INT;
    a->i = (int64_t)bits;
    if (width < 64 && width > 1 && !mlir_elem_is_unsigned(e) && bits >> (width - 1))
      a->i = (int64_t)(bits | ~(((uint64_t)1 << width) - 1));
  }
  behind.nvalues = p->nvalues;
  *p = behind;
  *out = a;
  return TENON_OK;
}

// array<i64: 1, 2>
static tenon_status array_attr(Parser *p, const MlirAttr **out) {
  VEC(int64_t) ints = {0};
  VEC(double) floats = {0};
  const MlirType *t;
  TRY(mt_need_punct(p, '<'));
  TRY(mt_type(p, &t));
  if (t->kind != MT_SCALAR ||
      (!mlir_elem_is_int(t->elem) && t->elem != ME_F32 && t->elem != ME_F64))
    return mt_expected(p, "an array of integers, f32 or f64 before this");
  if (mt_take_punct(p, ':')) {
    do {
      uint64_t bits;
      TRY(mt_number(p, t->elem, &bits));
      double f = mlir_elem_is_float(t->elem) ? get_f64(mlir_elem_dtype(t->elem), &bits, 0) : 0;
      int64_t v = mlir_elem_is_float(t->elem) ? 0 : get_i64(mlir_elem_dtype(t->elem), &bits, 0);
      vec_push(p->arena, &ints, v);
      vec_push(p->arena, &floats, f);
    } while (mt_take_punct(p, ','));
  }
  MlirAttr *a = new_attr(p, mlir_elem_is_float(t->elem) ? MA_FLOATS : MA_INTS);
  a->type = t;
  a->ints = ints.v;
  a->floats = floats.v;
  a->n = ints.n;
  *out = a;
  return mt_need_punct(p, '>');
}

// ---- lists and dictionaries ----

static tenon_status list_attr(Parser *p, bool bare, const MlirAttr **out) {
  VEC(const MlirAttr *) v = {0};
  bool ints = bare;  // a pretty form's list of integers
  TRY(mt_need_punct(p, '['));
  if (!mt_is_punct(p, ']')) do {
      const MlirAttr *one;
      if (bare && mt_is_punct(p, '?')) {  // a bound, or a size, that is not known
        mt_lex_next(p);
        one = mt_int_attr(p, MLIR_DYNAMIC);
      } else {
        TRY(mt_attr(p, bare, &one));
      }
      ints = ints && (one->kind == MA_INT || one->kind == MA_BOOL);
      vec_push(p->arena, &v, one);
    } while (mt_take_punct(p, ','));
  TRY(mt_need_punct(p, ']'));
  MlirAttr *a = new_attr(p, MA_ARRAY);
  a->items = v.v;
  a->n = v.n;
  *out = a;
  if (!ints) return TENON_OK;
  int64_t *list = arena_array(p->arena, int64_t, MAX(v.n, 1));
  for (int64_t i = 0; i < v.n; i++) list[i] = v.v[i]->i;
  *out = mt_ints_attr(p, list, v.n);
  return TENON_OK;
}

tenon_status mt_dict(Parser *p, Fields *out) {
  TRY(mt_need_punct(p, '{'));
  if (mt_take_punct(p, '}')) return TENON_OK;
  do {
    const char *name;
    int64_t n;
    const MlirAttr *value;
    if (p->tok.kind != T_WORD && p->tok.kind != T_STRING)
      return mt_expected(p, "an attribute's name");
    TRY(mt_take_text(p, &name, &n));
    if (mt_take_punct(p, '='))
      TRY(mt_attr(p, false, &value));
    else
      value = new_attr(p, MA_UNIT);
    for (int64_t i = 0; i < out->n; i++)
      if (!strcmp(out->v[i].name, name))
        return mt_expected(p, str_printf(p->arena, "'%s' once only", name));
    mt_add_field(p, out, name, value);
  } while (mt_take_punct(p, ','));
  return mt_need_punct(p, '}');
}

// ---- #stablehlo ----

static tenon_status conv_side(Parser *p, const char letters[2], int64_t *where,
                              const MlirAttr **spatial) {
  enum { CONV_RANK_MAX = 64 };
  int64_t found[CONV_RANK_MAX], index = 0, n = 0;
  for (int i = 0; i < CONV_RANK_MAX; i++) found[i] = -1;
  where[0] = where[1] = -1;
  TRY(mt_need_punct(p, '['));
  do {
    int64_t dim;
    if (p->tok.kind == T_WORD && p->tok.text.n == 1 && strchr("bfio", p->tok.text.p[0])) {
      int k = p->tok.text.p[0] == letters[0] ? 0 : 1;
      if (p->tok.text.p[0] != letters[k] || where[k] >= 0)
        return mt_expected(p, "each letter of the convolution once");
      where[k] = index;
      mt_lex_next(p);
    } else if (mt_is_punct(p, '?')) {  // a dimension that means nothing
      mt_lex_next(p);
    } else {
      TRY(mt_take_int(p, &dim));
      if (dim < 0 || dim >= CONV_RANK_MAX || found[dim] >= 0)
        return mt_expected(p, "each spatial dimension once before this");
      found[dim] = index;
      n++;
    }
    index++;
  } while (mt_take_punct(p, ','));
  int64_t *list = arena_array(p->arena, int64_t, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    if (found[i] < 0) return mt_expected(p, "all spatial dimensions, from 0, before this");
    list[i] = found[i];
  }
  if (where[0] < 0 || where[1] < 0)
    return mt_expected(p,
                       str_printf(p->arena, "'%c' and '%c' before this", letters[0], letters[1]));
  *spatial = mt_ints_attr(p, list, n);
  return mt_need_punct(p, ']');
}

tenon_status mt_conv_dims(Parser *p, const MlirAttr **out) {
  static const char *const names[9] = {
      "input_batch_dimension",           "input_feature_dimension",
      "input_spatial_dimensions",        "kernel_input_feature_dimension",
      "kernel_output_feature_dimension", "kernel_spatial_dimensions",
      "output_batch_dimension",          "output_feature_dimension",
      "output_spatial_dimensions"};
  Fields f = {0};
  for (int side = 0; side < 3; side++) {
    int64_t where[2];
    const MlirAttr *spatial;
    if (side == 1) TRY(mt_need_word(p, "x"));
    if (side == 2 && p->tok.kind != T_ARROW) return mt_expected(p, "'->'");
    if (side == 2) mt_lex_next(p);
    TRY(conv_side(p, side == 1 ? "io" : "bf", where, &spatial));
    mt_add_field(p, &f, names[side * 3], mt_int_attr(p, where[0]));
    mt_add_field(p, &f, names[side * 3 + 1], mt_int_attr(p, where[1]));
    mt_add_field(p, &f, names[side * 3 + 2], spatial);
  }
  *out = mt_dict_attr(p, f.v, f.n);
  return TENON_OK;
}

// <a = 1, b = [2, 3]>: from behind the < to behind the >
static tenon_status struct_attr(Parser *p, Str mnemonic, const MlirAttr **out) {
  Fields f = {0};
  while (!mt_is_punct(p, '>')) {
    const MlirAttr *v;
    const char *name;
    int64_t n;
    if (p->tok.kind != T_WORD) return mt_expected(p, "a field's name");
    TRY(mt_take_text(p, &name, &n));
    TRY(mt_need_punct(p, '='));
    TRY(mt_attr(p, true, &v));
    mt_add_field(p, &f, name, v);
    if (!mt_take_punct(p, ',') && !mt_is_punct(p, '>')) return mt_expected(p, "',' or '>'");
  }
  *out = mlir_struct_defaults(p->arena, mnemonic, mt_dict_attr(p, f.v, f.n));
  return mt_need_punct(p, '>');
}

static tenon_status bounds_attr(Parser *p, const MlirAttr **out) {
  VEC(int64_t) v = {0};
  do {
    int64_t size = MLIR_DYNAMIC;
    if (!mt_take_punct(p, '?')) TRY(mt_take_int(p, &size));
    vec_push(p->arena, &v, size);
  } while (mt_take_punct(p, ','));
  Fields f = {0};
  mt_add_field(p, &f, "bounds", mt_ints_attr(p, v.v, v.n));
  *out = mt_dict_attr(p, f.v, f.n);
  return mt_need_punct(p, '>');
}

// What stands between < and > of an attribute of ours: fields, a word, or one of the special forms.
static tenon_status dialect_body(Parser *p, Str mnemonic, const MlirAttr **out) {
  if (str_is(mnemonic, "bounds")) return bounds_attr(p, out);
  if (str_is(mnemonic, "conv") && !mt_is_word(p, "raw")) {
    TRY(mt_conv_dims(p, out));
    return mt_need_punct(p, '>');
  }
  if (str_is(mnemonic, "conv")) {
    mt_lex_next(p);
    TRY(mt_need_punct(p, '<'));
    TRY(struct_attr(p, mnemonic, out));
    return mt_need_punct(p, '>');
  }
  if (p->tok.kind == T_WORD) {
    Parser before = *p;
    Str word = p->tok.text;
    mt_lex_next(p);
    if (mt_take_punct(p, '>')) {
      *out = slice_attr(p, MA_ENUM, word);
      return TENON_OK;
    }
    *p = before;
  }
  return struct_attr(p, mnemonic, out);
}

static bool is_ours(Str dialect) {
  return str_is(dialect, "stablehlo") || str_is(dialect, "mhlo") || str_is(dialect, "chlo");
}

// #stablehlo.dot<...>, #stablehlo<comparison_direction EQ>, #alias, #sdy.sharding<...>
static tenon_status hash_attr(Parser *p, const MlirAttr **out) {
  Str name = p->tok.text;
  const char *from = p->tok.start, *dot = memchr(name.p, '.', (size_t)name.n);
  Str dialect = dot ? (Str){name.p, dot - name.p} : name;
  Str mnemonic = dot ? (Str){dot + 1, name.p + name.n - dot - 1} : (Str){0};
  mt_lex_next(p);
  if (!dot && !mt_is_punct(p, '<')) {
    *out = strmap_get(&p->attr_alias, name);
    if (*out) return TENON_OK;
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "the attribute #%.*s is not defined",
                STR_ARG(name));
  }
  if (is_ours(dialect) && mt_is_punct(p, '<')) {
    mt_lex_next(p);
    if (!dot) {
      mnemonic = p->tok.text;
      if (p->tok.kind != T_WORD) return mt_expected(p, "an attribute's name");
      mt_lex_next(p);
      if (mt_is_punct(p, '<')) {
        mt_lex_next(p);
        TRY(dialect_body(p, mnemonic, out));
        return mt_need_punct(p, '>');
      }
    }
    return dialect_body(p, mnemonic, out);
  }
  Str inside = {from, 0};
  const char *to = name.p + name.n;
  if (mt_is_punct(p, '<')) {
    TRY(mt_take_balanced(p, &inside));
    to = inside.p + inside.n;
  }
  *out = slice_attr(p, MA_OTHER, (Str){from, to - from});
  return TENON_OK;
}

// ---- locations ----

// What a location is called, for messages: its name, or file:line:column; the first of several.
tenon_status mt_loc(Parser *p, const char **out) {
  Str inside;
  *out = NULL;
  if (!mt_is_punct(p, '(')) return mt_expected(p, "'('");
  Parser before = *p;
  TRY(mt_take_balanced(p, &inside));
  Parser behind = *p;
  p->at = before.at;
  p->line = before.line;
  p->line_start = before.line_start;
  do mt_lex_next(p);
  while (p->at < inside.p + inside.n && p->tok.kind != T_STRING && p->tok.kind != T_HASH);
  if (p->tok.kind == T_HASH && p->tok.start < inside.p + inside.n) {
    *out = str_printf(p->arena, "#%.*s", STR_ARG(p->tok.text));
  } else if (p->tok.kind == T_STRING && p->tok.start < inside.p + inside.n) {
    Str name = p->tok.text;
    int64_t line, column;
    mt_lex_next(p);
    *out = str_copy(p->arena, name);
    if (mt_take_punct(p, ':') && mt_take_int(p, &line) == TENON_OK && mt_take_punct(p, ':') &&
        mt_take_int(p, &column) == TENON_OK)
      *out =
          str_printf(p->arena, "%.*s:%lld:%lld", STR_ARG(name), (long long)line, (long long)column);
  }
  *p = behind;
  return TENON_OK;
}

// ---- all ----

static tenon_status symbol_attr(Parser *p, const MlirAttr **out) {
  StrBuf b;
  strbuf_init(&b, p->arena);
  for (;;) {
    const char *s;
    int64_t n;
    if (p->tok.kind != T_SYMBOL) return mt_expected(p, "a symbol");
    TRY(mt_take_text(p, &s, &n));
    strbuf_put(&b, (Str){s, n});
    if (p->tok.kind != T_COLONS) break;
    mt_lex_next(p);
    strbuf_puts(&b, "::");
  }
  *out = slice_attr(p, MA_SYMBOL, strbuf_str(&b));
  return TENON_OK;
}

static tenon_status string_attr(Parser *p, bool bare, const MlirAttr **out) {
  const char *s;
  int64_t n;
  const MlirType *t;
  TRY(mt_take_text(p, &s, &n));
  *out = mt_text_attr(p, MA_STRING, s, n);
  return !bare && mt_take_punct(p, ':') ? mt_type(p, &t) : TENON_OK;
}

static tenon_status resource_attr(Parser *p, const MlirAttr **out) {
  MlirAttr *a = new_attr(p, MA_DENSE);
  TRY(mt_need_punct(p, '<'));
  if (p->tok.kind != T_WORD && p->tok.kind != T_STRING) return mt_expected(p, "a resource's name");
  Resource r = {a, p->tok.text, p->tok.line, p->tok.column};
  mt_lex_next(p);
  TRY(mt_need_punct(p, '>'));
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &a->type));
  if (a->type->kind != MT_TENSOR) return mt_expected(p, "a tensor type before this");
  vec_push(p->arena, &p->resources, r);
  *out = a;
  return TENON_OK;
}

static tenon_status word_attr(Parser *p, bool bare, const MlirAttr **out) {
  Str word = p->tok.text;
  const char *from = p->tok.start;
  if (!str_is(word, "dense") && !str_is(word, "array") && mt_starts_type(p)) {
    const MlirType *t;
    TRY(mt_type(p, &t));
    *out = mt_type_attr(p, t);
    return TENON_OK;
  }
  mt_lex_next(p);
  if (str_is(word, "true") || str_is(word, "false")) {
    MlirAttr *a = new_attr(p, MA_BOOL);
    a->i = word.p[0] == 't';
    *out = a;
    return TENON_OK;
  }
  if (str_is(word, "dense") && mt_is_punct(p, '<')) return mt_dense(p, out);
  if (str_is(word, "array") && mt_is_punct(p, '<')) return array_attr(p, out);
  if (str_is(word, "dense_resource") && mt_is_punct(p, '<')) return resource_attr(p, out);
  if (str_is(word, "unit")) {
    *out = new_attr(p, MA_UNIT);
    return TENON_OK;
  }
  if (mt_is_punct(p, '<') || str_is(word, "loc") || str_is(word, "distinct")) {
    Str inside;  // affine_map<...>, loc(...), distinct[0]<...>
    TRY(mt_take_balanced(p, &inside));
    if (str_is(word, "distinct") && mt_is_punct(p, '<')) TRY(mt_take_balanced(p, &inside));
    *out = slice_attr(p, MA_OTHER, (Str){from, inside.p + inside.n - from});
    return TENON_OK;
  }
  if (!bare)
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "'%.*s' before this is no attribute",
                STR_ARG(word));
  *out = slice_attr(p, MA_ENUM, word);
  return TENON_OK;
}

static tenon_status any_attr(Parser *p, bool bare, const MlirAttr **out) {
  switch (p->tok.kind) {
  case T_WORD: return word_attr(p, bare, out);
  case T_NUMBER: return number_attr(p, bare, out);
  case T_STRING: return string_attr(p, bare, out);
  case T_SYMBOL: return symbol_attr(p, out);
  case T_HASH: return hash_attr(p, out);
  default: break;
  }
  if (mt_is_punct(p, '-')) return number_attr(p, bare, out);
  if (mt_is_punct(p, '[')) return list_attr(p, bare, out);
  if (mt_is_punct(p, '{')) {
    Fields f = {0};
    TRY(mt_dict(p, &f));
    *out = mt_dict_attr(p, f.v, f.n);
    return TENON_OK;
  }
  if (mt_is_punct(p, '<') && bare) {
    Str inside;
    TRY(mt_take_balanced(p, &inside));
    *out = slice_attr(p, MA_OTHER, inside);
    return TENON_OK;
  }
  if (!mt_starts_type(p)) return mt_expected(p, "an attribute");
  const MlirType *t;
  TRY(mt_type(p, &t));
  *out = mt_type_attr(p, t);
  return TENON_OK;
}

tenon_status mt_attr(Parser *p, bool bare, const MlirAttr **out) {
  TRY(mt_enter(p));
  TRY(any_attr(p, bare, out));
  p->depth--;
  return TENON_OK;
}
