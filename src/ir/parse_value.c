// parse_value.c -- types, attributes and constants of the text form.
//
// The text is not trusted: every size is held against what is left of the text before memory is
// asked for, and every number against the range of what it is for.
//
// Fresh dimensions: a type is read into a pool of the parser's own, where ?n_3 is just a name.  In
// a parameter's type such a name stands for a new fresh symbol; in the type of a result it is tied
// to the symbol that inference has just made, and from then on the two must go together.
#include "ir/text.h"

#include <math.h>
#include <stdlib.h>

// ---- types ----

static tenon_status parse_expr(TextParser *p, Dim *out) {
  const char *at = p->lex.tok.start;
  Token start = p->lex.tok;
  *out = ie_parse(&p->dims, &at, p->lex.end);
  if (!*out) {
    Token bad = start;
    bad.column = (int)MIN(start.column + (at - start.start), INT32_MAX);
    return text_fail_at(p, &bad, "expected a dimension: a number, a name or an expression");
  }
  lex_seek(&p->lex, at);
  if (ie_is_poison(*out)) return text_fail_at(p, &start, "the dimension does not fit in 64 bits");
  return TENON_OK;
}

static tenon_status parse_dim(TextParser *p, Dim *out) {
  Token start = p->lex.tok;
  TRY(parse_expr(p, out));
  if ((*out)->hi < 0) return text_fail_at(p, &start, "the dimension is negative");
  return TENON_OK;
}

static tenon_status parse_dims(TextParser *p, Type *t) {
  if (text_take(p, '*')) {
    t->rank = -1;
    return text_need(p, ']');
  }
  Dim dims[MAX_RANK];
  while (!text_is(p, ']')) {
    if (t->rank == MAX_RANK) return text_fail(p, "a tensor has at most %d dimensions", MAX_RANK);
    if (t->rank > 0) TRY(text_need(p, ','));
    TRY(parse_dim(p, &dims[t->rank++]));
  }
  t->dims = arena_dup(&p->arena, dims, t->rank * (int64_t)sizeof(Dim));
  int64_t size[MAX_RANK], n;
  for (int i = 0; i < t->rank; i++) size[i] = ie_is_const(dims[i]) ? dims[i]->value : 1;
  if (!shape_count(t->rank, size, &n)) return text_fail(p, "more elements than 64 bits can count");
  return text_need(p, ']');
}

static tenon_status parse_dtype(TextParser *p, const char *none, DType *out) {
  *out = TENON_DTYPE_NONE;
  if (p->lex.tok.kind != TOK_WORD) return text_expected(p, "an element type such as f32");
  if (!str_is(p->lex.tok.text, none) && !dtype_parse(p->lex.tok.text, out))
    return text_fail(p, "'%.*s' is no element type", STR_ARG(p->lex.tok.text));
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status parse_type_within(TextParser *p, int depth, const Type **out) {
  Type *t = arena_new(&p->arena, Type);
  *out = t;
  if (depth > TEXT_DEPTH_MAX)
    return text_fail(p, "types are nested more than %d deep", TEXT_DEPTH_MAX);
  if (p->lex.tok.kind != TOK_WORD) return text_expected(p, "a type such as f32[2, n]");
  Str word = p->lex.tok.text;
  if (str_is(word, "none")) {
    lex_next(&p->lex);
    return TENON_OK;
  }
  bool map = str_is(word, "map");
  if (map || str_is(word, "seq") || str_is(word, "opt")) {
    t->kind = map ? TK_MAP : str_is(word, "seq") ? TK_SEQUENCE : TK_OPTIONAL;
    lex_next(&p->lex);
    TRY(text_need(p, '('));
    if (map) {
      TRY(parse_dtype(p, "", &t->dtype));
      TRY(text_need(p, ','));
    }
    TRY(parse_type_within(p, depth + 1, &t->elem));
    return text_need(p, ')');
  }
  t->kind = TK_TENSOR;
  TRY(parse_dtype(p, "any", &t->dtype));
  TRY(text_need(p, '['));
  return parse_dims(p, t);
}

tenon_status parse_type(TextParser *p, const Type **out) { return parse_type_within(p, 1, out); }

// Over a type without reading it: a word, and what stands in brackets behind it.
tenon_status skip_type(TextParser *p) {
  if (p->lex.tok.kind != TOK_WORD) return text_expected(p, "a type such as f32[2, n]");
  lex_next(&p->lex);
  int64_t depth = 0;
  if (!text_is(p, '[') && !text_is(p, '(')) return TENON_OK;
  do {
    if (p->lex.tok.kind == TOK_END || p->lex.tok.kind == TOK_BAD) return text_expected(p, "a type");
    depth += text_is(p, '[') || text_is(p, '(');
    depth -= text_is(p, ']') || text_is(p, ')');
    lex_next(&p->lex);
  } while (depth > 0);
  return TENON_OK;
}

static void bind(TextParser *p, Dim written, Dim made) {
  dimmap_bind(&p->to_graph, written, made);
  dimmap_bind(&p->to_text, made, written);
}

static DimVec unbound(TextParser *p, const DimMap *m, Dim d) {
  IntMap seen;
  DimVec all = {0}, out = {0};
  if (!ie_has_fresh(d)) return out;
  intmap_init(&seen, &p->arena);
  dim_symbols(d, &seen, &p->arena, &all);
  for (int64_t i = 0; i < all.n; i++)
    if (all.v[i]->fresh && !dimmap_has(m, all.v[i])) vec_push(&p->arena, &out, all.v[i]);
  return out;
}

static Dim dim_to_graph(TextParser *p, Dim written) {
  DimVec fresh = unbound(p, &p->to_graph, written);
  for (int64_t i = 0; i < fresh.n; i++) {
    Str hint = fresh_hint(fresh.v[i]);
    bind(p, fresh.v[i], ie_fresh(&p->g->dims, str_copy(&p->arena, hint)));
  }
  return dimmap_apply(&p->to_graph, written);
}

const Type *type_to_graph(TextParser *p, const Type *t) {
  Type own = *t;
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = dim_to_graph(p, t->dims[i]);
  own.dims = dims;
  if (t->elem) own.elem = type_to_graph(p, t->elem);
  return type_intern(p->g, own);
}

// Names by the number at their end, so that the printer's order of making is the order here.
static int by_number(const void *a, const void *b) {
  Dim x = *(const Dim *)a, y = *(const Dim *)b;
  Str s = {x->name, x->value}, t = {y->name, y->value};
  s.n -= fresh_hint(x).n;
  t.n -= fresh_hint(y).n;
  if (s.n != t.n) return s.n < t.n ? -1 : 1;
  return str_cmp((Str){x->name + x->value - s.n, s.n}, (Str){y->name + y->value - t.n, t.n});
}

static bool dim_matches(TextParser *p, Dim written, Dim inferred) {
  DimVec mine = unbound(p, &p->to_graph, written), theirs = unbound(p, &p->to_text, inferred);
  if (mine.n != theirs.n) return false;
  if (mine.n > 1) qsort(mine.v, (size_t)mine.n, sizeof(Dim), by_number);
  for (int64_t i = 0; i < mine.n; i++) bind(p, mine.v[i], theirs.v[i]);
  return dimmap_apply(&p->to_text, inferred) == written;
}

bool type_matches(TextParser *p, const Type *w, const Type *t) {
  if (w->kind != t->kind || w->dtype != t->dtype || w->rank != t->rank) return false;
  if (!w->elem != !t->elem) return false;
  for (int i = 0; i < w->rank; i++)
    if (!dim_matches(p, w->dims[i], t->dims[i])) return false;
  return !w->elem || type_matches(p, w->elem, t->elem);
}

// ---- numbers ----

// nan, inf, 0x bits or a decimal; the bits of an element of type t.
static tenon_status parse_float(TextParser *p, DType t, uint64_t *out) {
  bool negative = text_take(p, '-');
  Token tok = p->lex.tok;
  double x = 0;
  int bits = dtype_bits(t);
  if (tok.kind == TOK_NUMBER && !negative && tok.text.n > 2 && tok.text.p[1] == 'x') {
    if (!text_unsigned(tok.text, out) || (bits < 64 && *out >> bits))
      return text_fail(p, "'%.*s' does not fit in %d bits", STR_ARG(tok.text), bits);
    lex_next(&p->lex);
    return TENON_OK;
  }
  if (tok.kind == TOK_WORD && str_is(tok.text, "nan"))
    x = (double)NAN;
  else if (tok.kind == TOK_WORD && str_is(tok.text, "inf"))
    x = (double)INFINITY;
  else if (tok.kind != TOK_NUMBER || !text_decimal(tok.text, &x))
    return text_expected(p, "a number");
  lex_next(&p->lex);
  uint64_t word[2] = {0};
  put_f64(t, word, 0, negative ? -x : x);
  *out = text_get_bits(t, word, 0);
  return TENON_OK;
}

static tenon_status parse_int(TextParser *p, DType t, uint64_t *out) {
  int bits = dtype_bits(t);
  bool negative = text_take(p, '-'), is_signed = dtype_class(t) == DC_INT;
  uint64_t v, top = UINT64_MAX >> (64 - bits + is_signed);
  if (p->lex.tok.kind != TOK_NUMBER) return text_expected(p, "an integer");
  if (!text_unsigned(p->lex.tok.text, &v) || v > top + (negative && is_signed) ||
      (negative && !is_signed && v))
    return text_fail(p, "'%s%.*s' is no value of type %s", negative ? "-" : "",
                     STR_ARG(p->lex.tok.text), dtype_name(t));
  lex_next(&p->lex);
  *out = (negative ? 0 - v : v) & UINT64_MAX >> (64 - bits);
  return TENON_OK;
}

tenon_status text_i64(TextParser *p, int64_t *out) {
  uint64_t v = 0;
  *out = 0;
  TRY(parse_int(p, DT_I64, &v));
  *out = (int64_t)v;
  return TENON_OK;
}

static tenon_status parse_bool(TextParser *p, bool *out) {
  *out = text_is_word(p, "true");
  if (!*out && !text_is_word(p, "false")) return text_expected(p, "true or false");
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status parse_f64(TextParser *p, double *out) {
  uint64_t bits = 0;
  *out = 0;
  TRY(parse_float(p, DT_F64, &bits));
  memcpy(out, &bits, sizeof bits);
  return TENON_OK;
}

// ---- constants ----

static tenon_status parse_element(TextParser *p, DType t, void *base, int64_t i) {
  uint64_t bits = 0;
  bool b;
  switch (dtype_class(t)) {
  case DC_STRING: return text_string(p, (Str *)base + i);
  case DC_FLOAT: TRY(parse_float(p, t, &bits)); break;
  case DC_INT:
  case DC_UINT: TRY(parse_int(p, t, &bits)); break;
  case DC_BOOL:
    TRY(parse_bool(p, &b));
    bits = b;
    break;
  case DC_COMPLEX: {
    DType part = t == DT_C64 ? DT_F32 : DT_F64;
    TRY(text_need(p, '('));
    TRY(parse_float(p, part, &bits));
    text_put_bits(part, base, 2 * i, bits);
    TRY(text_need(p, ','));
    TRY(parse_float(p, part, &bits));
    text_put_bits(part, base, 2 * i + 1, bits);
    return text_need(p, ')');
  }
  case DC_NONE: return text_fail(p, "a constant's element type must be known");
  }
  text_put_bits(t, base, i, bits);
  return TENON_OK;
}

static tenon_status parse_elements(TextParser *p, DType t, int64_t n, int64_t nbytes, void **out) {
  if (n > p->lex.end - p->lex.at)  // each takes a character at least
    return text_fail(p, "%lld elements are more than the text has", (long long)n);
  *out = arena_alloc(&p->arena, nbytes + 1);
  TRY(text_need(p, '{'));
  for (int64_t i = 0; i < n; i++) {
    if (i > 0) TRY(text_need(p, ','));
    TRY(parse_element(p, t, *out, i));
  }
  if (!text_is(p, '}'))
    return text_fail(p, "expected '}': the type says %lld elements", (long long)n);
  lex_next(&p->lex);
  return TENON_OK;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// hex"..."; the bytes of a string token that is there already.
static tenon_status parse_hex(TextParser *p, int64_t nbytes, void **out) {
  Str s = p->lex.tok.text;
  if (p->lex.tok.kind != TOK_STRING) return text_expected(p, "a string of hex digits");
  if (nbytes < 0) nbytes = s.n / 2;
  if (s.n % 2 || s.n / 2 != nbytes)
    return text_fail(p, "%lld hex digits, must be %lld bytes of two", (long long)s.n,
                     (long long)nbytes);
  uint8_t *to = *out = arena_alloc(&p->arena, nbytes + 1);
  for (int64_t i = 0; i < nbytes; i++) {
    int high = hex_digit(s.p[2 * i]), low = hex_digit(s.p[2 * i + 1]);
    if (high < 0 || low < 0) return text_fail(p, "not a hex digit among the bytes");
    to[i] = (uint8_t)(high << 4 | low);
  }
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status parse_contents(TextParser *p, DType t, int64_t n, int64_t nbytes, void **out) {
  if (text_is_word(p, "hex") && t != DT_STRING) {
    lex_next(&p->lex);
    return parse_hex(p, nbytes, out);
  }
  if (text_is(p, '{')) return parse_elements(p, t, n, nbytes, out);
  return text_expected(p, "the elements: {...} or hex\"...\"");
}

static tenon_status parse_reference(TextParser *p, Source **out_source, int64_t *out_offset) {
  int64_t number;
  Token at = p->lex.tok;
  TRY(text_i64(p, &number));
  if (number < 0 || number >= p->source.n)
    return text_fail_at(p, &at, "there is no source @%lld", (long long)number);
  TRY(text_need(p, '+'));
  at = p->lex.tok;
  TRY(text_i64(p, out_offset));
  if (*out_offset < 0) return text_fail_at(p, &at, "a negative offset");
  *out_source = p->source.v[number];
  return TENON_OK;
}

static tenon_status parse_const_type(TextParser *p, DType *t, int *rank, int64_t *dims, int64_t *n,
                                     int64_t *nbytes) {
  Token at = p->lex.tok;
  const Type *type;
  TRY(parse_type(p, &type));
  if (type->kind != TK_TENSOR || !type->dtype || type->rank < 0)
    return text_fail_at(p, &at, "a constant must be a tensor of known type and shape");
  *t = type->dtype;
  *rank = type->rank;
  for (int i = 0; i < *rank; i++) {
    if (!ie_is_const(type->dims[i]))
      return text_fail_at(p, &at, "a constant's dimensions must be numbers");
    dims[i] = type->dims[i]->value;
  }
  if (!shape_count(*rank, dims, n) || !dtype_bytes(*t, *n, nbytes))
    return text_fail_at(p, &at, "the constant's size does not fit in 64 bits");
  return TENON_OK;
}

tenon_status parse_const(TextParser *p, Node **out) {
  DType t;
  int rank;
  int64_t dims[MAX_RANK], n, nbytes, end;
  Token at = p->lex.tok;
  TRY(parse_const_type(p, &t, &rank, dims, &n, &nbytes));
  void *bytes = NULL;
  if (text_take(p, '@')) {
    Source *s;
    int64_t offset;
    TRY(parse_reference(p, &s, &offset));
    if (t == DT_STRING) return text_fail_at(p, &at, "strings cannot lie in a file");
    if (!ck_add(offset, nbytes, &end)) return text_fail_at(p, &at, "the offset is too large");
    text_locate(p, &at);
    *out = node_const_source(p->g, t, rank, dims, s, offset, nbytes, NULL);
    return graph_status(p->g);
  }
  TRY(parse_contents(p, t, n, nbytes, &bytes));
  text_locate(p, &at);
  *out = node_const(p->g, t, rank, dims, bytes, NULL);
  return graph_status(p->g);
}

static tenon_status parse_known_dims(TextParser *p, Node *n, int64_t count) {
  Dim *sym = arena_array(&p->g->arena, Dim, MAX(count, 1));
  for (int64_t i = 0; i < count; i++) {
    Dim written;
    if (i > 0) TRY(text_need(p, ','));
    TRY(parse_expr(p, &written));
    sym[i] = dim_to_graph(p, written);
  }
  n->sym = sym;
  n->nsym = count;
  return text_need(p, ']');
}

tenon_status parse_known(TextParser *p, Node *n) {
  const Type *t = type_of(n);
  int64_t dims[MAX_RANK], count, nbytes;
  if (t->kind != TK_TENSOR || !t->dtype || t->dtype == DT_STRING || !type_is_static(t))
    return text_fail(p, "only a tensor of known type and shape has known contents");
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  if (!shape_count(t->rank, dims, &count) || count > KNOWN_MAX ||
      !dtype_bytes(t->dtype, count, &nbytes))
    return text_fail(p, "contents are known up to %d elements", KNOWN_MAX);
  if (text_is(p, '[')) {
    if (!dtype_is_int(t->dtype) && t->dtype != DT_BOOL)
      return text_fail(p, "only integers are known as expressions");
    lex_next(&p->lex);
    return parse_known_dims(p, n, count);
  }
  void *bytes;
  TRY(parse_contents(p, t->dtype, count, nbytes, &bytes));
  n->known = known_value(p->g, t, arena_dup(&p->g->arena, bytes, nbytes + 1));
  return TENON_OK;
}

static tenon_status file_source(TextParser *p, const Token *at, const char *label, Source *s) {
  if (!p->folder)
    return text_fail_at(p, at, "the text does not come from a file, so there is no folder for '%s'",
                        label);
  if (!*label || *label == '/')
    return text_fail_at(p, at, "a source is a file below the text's folder, not '%s'", label);
  *s = (Source){.path = str_printf(&p->g->arena, "%s/%s", p->folder, label),
                .label = label,
                .folder = p->folder,
                .real_folder = p->real_folder};
  return TENON_OK;
}

tenon_status parse_source(TextParser *p) {
  int64_t number;
  TRY(text_need(p, '@'));
  Token at = p->lex.tok;
  TRY(text_i64(p, &number));
  if (number != p->source.n)
    return text_fail_at(p, &at, "sources are numbered in order: this one is @%lld",
                        (long long)p->source.n);
  Source *s = arena_new(&p->g->arena, Source);
  at = p->lex.tok;
  if (text_is_word(p, "hex")) {
    lex_next(&p->lex);
    void *bytes;
    int64_t n = p->lex.tok.text.n / 2;
    TRY(parse_hex(p, -1, &bytes));
    s->file = (File){.bytes = arena_dup(&p->g->arena, bytes, n), .size = n};
    s->opened = true;
  } else {
    const char *label;
    bool external = text_is_word(p, "external");
    if (external) lex_next(&p->lex);
    TRY(text_name(p, &label));
    TRY(file_source(p, &at, label, s));
    s->own = !external;
  }
  vec_push(&p->g->arena, &p->g->source, s);
  vec_push(&p->arena, &p->source, s);
  return TENON_OK;
}

// ---- attributes ----

static tenon_status parse_list(TextParser *p, const AttrDesc *d, void *field) {
  VEC(int64_t) ints = {0};
  VEC(double) floats = {0};
  VEC(Str) strs = {0};
  TRY(text_need(p, '['));
  for (int64_t n = 0; !text_is(p, ']'); n++) {
    int64_t i;
    double f;
    Str s;
    if (n > 0) TRY(text_need(p, ','));
    if (d->kind == ATTR_i64s) {
      TRY(text_i64(p, &i));
      vec_push(&p->arena, &ints, i);
    } else if (d->kind == ATTR_f64s) {
      TRY(parse_f64(p, &f));
      vec_push(&p->arena, &floats, f);
    } else {
      TRY(text_string(p, &s));
      vec_push(&p->arena, &strs, s);
    }
  }
  if (d->kind == ATTR_i64s) *(Ints *)field = (Ints){ints.n, ints.v};
  if (d->kind == ATTR_f64s) *(Floats *)field = (Floats){floats.n, floats.v};
  if (d->kind == ATTR_strs) *(Strs *)field = (Strs){strs.n, strs.v};
  return text_need(p, ']');
}

static tenon_status parse_choice(TextParser *p, const AttrDesc *d, int *out) {
  Token at = p->lex.tok;
  Str word = at.text;
  if (at.kind == TOK_WORD)
    lex_next(&p->lex);
  else if (at.kind == TOK_STRING)
    TRY(text_string(p, &word));
  else
    return text_fail(p, "expected one of %s", d->choices);
  *out = attr_choice_find(d->choices, word);
  if (*out < 0) return text_fail_at(p, &at, "'%.*s' is none of %s", STR_ARG(word), d->choices);
  return TENON_OK;
}

static tenon_status parse_attr(TextParser *p, const AttrDesc *d, void *field) {
  switch (d->kind) {
  case ATTR_i64: return text_i64(p, field);
  case ATTR_opt_i64:
    *(OptInt *)field = (OptInt){.given = true};
    return text_i64(p, &((OptInt *)field)->v);
  case ATTR_bool: return parse_bool(p, field);
  case ATTR_f64: return parse_f64(p, field);
  case ATTR_dtype: return parse_dtype(p, "none", field);
  case ATTR_str: return text_string(p, field);
  case ATTR_choice: return parse_choice(p, d, field);
  case ATTR_body: return parse_body(p, field);
  case ATTR_i64s:
  case ATTR_f64s:
  case ATTR_strs: return parse_list(p, d, field);
  }
  return TENON_OK;
}

tenon_status parse_attrs(TextParser *p, const OpInfo *op, void *attrs) {
  bool *given = arena_array(&p->arena, bool, op->nattrs + 1);
  while (p->lex.tok.kind == TOK_WORD && !text_is_word(p, "return")) {
    int i = 0;
    Str name = p->lex.tok.text;
    while (i < op->nattrs && !str_is(name, op->attrs[i].name)) i++;
    if (i == op->nattrs) return text_fail(p, "%s has no attribute '%.*s'", op->name, STR_ARG(name));
    if (given[i]) return text_fail(p, "attribute '%.*s' is given twice", STR_ARG(name));
    given[i] = true;
    lex_next(&p->lex);
    TRY(text_need(p, '='));
    TRY(parse_attr(p, &op->attrs[i], (char *)attrs + op->attrs[i].offset));
  }
  return TENON_OK;
}
