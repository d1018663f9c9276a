// parse_dense.c -- numbers of MLIR text: single ones, dense<...> lists of them, and the bytes at
// the end of a file.
//
// Memory follows what is written, never what a type says: elements are collected as they come, and
// their count is compared with the type's afterwards.
#include "frontends/stablehlo/text.h"

#include "ir/textnum.h"

enum { LIST_RANK_MAX = 64 };

// ---- one number ----

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Decimal digits, or 0x and hex digits of either case.
static bool unsigned_number(Str s, uint64_t *out) {
  bool hex = s.n > 2 && s.p[1] == 'x';
  *out = 0;
  for (int64_t i = hex ? 2 : 0; i < s.n; i++) {
    int digit = hex_digit(s.p[i]);
    if (digit < 0 || (!hex && digit > 9) || __builtin_mul_overflow(*out, hex ? 16u : 10u, out) ||
        __builtin_add_overflow(*out, (uint64_t)digit, out))
      return false;
  }
  return s.n > 0;
}

static tenon_status float_number(Parser *p, MlirElem e, bool minus, uint64_t *bits) {
  Str s = p->tok.text;
  double v;
  uint64_t raw;
  int width = mlir_elem_bits(e);
  if (s.n > 2 && s.p[1] == 'x') {  // the bits themselves
    if (minus || !unsigned_number(s, &raw) || (width < 64 && raw >> width))
      return mt_expected(p, "as many bits as the float type has");
    *bits = raw;
    return TENON_OK;
  }
  if (!text_decimal(s, &v)) return mt_expected(p, "a number");
  *bits = mlir_float_bits(e, minus ? -v : v);
  return TENON_OK;
}

static tenon_status int_number(Parser *p, MlirElem e, bool minus, uint64_t *bits) {
  uint64_t v;
  int width = mlir_elem_bits(e);
  if (!unsigned_number(p->tok.text, &v)) return mt_expected(p, "an integer");
  uint64_t half = (uint64_t)1 << (width - 1);
  bool fits = minus ? v <= half && !mlir_elem_is_unsigned(e) : width == 64 || v >> width == 0;
  if (!fits)
    return mt_expected(p, str_printf(p->arena, "a number that fits %s", mlir_elem_name(e)));
  v = minus ? 0 - v : v;
  *bits = width == 64 ? v : v & (((uint64_t)1 << width) - 1);
  return TENON_OK;
}

tenon_status mt_number(Parser *p, MlirElem e, uint64_t *bits) {
  bool minus = mt_take_punct(p, '-');
  if (p->tok.kind == T_WORD && !minus && e == ME_BOOL) {
    *bits = mt_is_word(p, "true");
    if (!*bits && !mt_is_word(p, "false")) return mt_expected(p, "true or false");
  } else if (p->tok.kind != T_NUMBER) {
    return mt_expected(p, "a number");
  } else if (mlir_elem_is_float(e)) {
    TRY(float_number(p, e, minus, bits));
  } else if (mlir_elem_is_int(e)) {
    TRY(int_number(p, e, minus, bits));
  } else {
    return mt_expected(p, "an element type with numbers before this");
  }
  mt_lex_next(p);
  return TENON_OK;
}

// ---- lists ----

// The literal comes before its type, so that it is walked over first and read when the type is
// known.
typedef struct List {
  MlirElem elem;
  uint8_t *data;
  int64_t n, cap;  // elements
  int64_t shape[LIST_RANK_MAX];
  int rank;  // of the lists; -1: not known yet
} List;

static void push_element(Parser *p, List *l, const uint64_t *bits, int parts) {
  MlirElem part = l->elem == ME_C64 ? ME_F32 : l->elem == ME_C128 ? ME_F64 : l->elem;
  int64_t bytes = 0;
  if (l->n == l->cap) {
    int64_t cap = MAX(l->cap * 2, 16), used = 0;
    CHECK(mlir_dense_bytes(l->elem, cap, &bytes) && mlir_dense_bytes(l->elem, l->n, &used),
          "elements of the text");
    uint8_t *grown = arena_alloc(p->arena, bytes);
    if (used) memcpy(grown, l->data, (size_t)used);
    l->data = grown;
    l->cap = cap;
  }
  for (int i = 0; i < parts; i++) mlir_dense_put(part, l->data, l->n * parts + i, bits[i]);
  l->n++;
}

static tenon_status list_element(Parser *p, List *l) {
  uint64_t bits[2] = {0, 0};
  if (!mlir_elem_is_complex(l->elem)) {
    TRY(mt_number(p, l->elem, bits));
    push_element(p, l, bits, 1);
    return TENON_OK;
  }
  MlirElem part = l->elem == ME_C64 ? ME_F32 : ME_F64;
  TRY(mt_need_punct(p, '('));
  TRY(mt_number(p, part, &bits[0]));
  TRY(mt_need_punct(p, ','));
  TRY(mt_number(p, part, &bits[1]));
  TRY(mt_need_punct(p, ')'));
  push_element(p, l, bits, 2);
  return TENON_OK;
}

static tenon_status list_level(Parser *p, List *l, int level) {
  if (!mt_is_punct(p, '[')) {
    if (l->rank < 0) l->rank = level;
    if (l->rank != level) return mt_expected(p, "lists of one depth");
    return list_element(p, l);
  }
  if (level == LIST_RANK_MAX || (l->rank >= 0 && level >= l->rank))
    return mt_expected(p, "lists of one depth");
  mt_lex_next(p);
  int64_t n = 0;
  if (!mt_is_punct(p, ']')) do {
      TRY(list_level(p, l, level + 1));
      n++;
    } while (mt_take_punct(p, ','));
  if (n == 0 && l->rank < 0) l->rank = level + 1;
  if (l->shape[level] >= 0 && l->shape[level] != n) return mt_expected(p, "lists of one length");
  l->shape[level] = n;
  return mt_need_punct(p, ']');
}

static tenon_status elements(Parser *p, const MlirType *type, MlirAttr *out) {
  List l = {.elem = type->elem, .rank = -1};
  int64_t count;
  for (int i = 0; i < LIST_RANK_MAX; i++) l.shape[i] = -1;
  TRY(list_level(p, &l, 0));
  if (!mlir_type_count(type, &count)) return mt_expected(p, "a static shape behind this");
  out->splat = l.rank == 0;
  bool fits = out->splat || l.rank == type->rank;
  for (int i = 0; i < l.rank && fits; i++)
    // behind an empty list nothing shows the further sizes
    fits = l.shape[i] == type->dims[i] || (l.n == 0 && l.shape[i] <= 0 && count == 0);
  if (l.n == 0 && count == 0 && l.rank >= 1) fits = true;
  if (!fits || (!out->splat && l.n != count))
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "%lld elements are no constant of type %s",
                (long long)l.n, mlir_type_text(p->arena, type));
  out->data = l.data ? l.data : arena_alloc(p->arena, 1);
  return mlir_dense_bytes(type->elem, l.n, &out->ndata) ? TENON_OK
                                                        : mt_expected(p, "fewer elements");
}

// ---- bytes ----

static tenon_status hex_bytes(Parser *p, Str *out) {
  Str s = p->tok.text;
  if (!str_starts(s, "0x") || s.n % 2) return mt_expected(p, "a string of hex digits, \"0x...\"");
  uint8_t *v = arena_alloc(p->arena, MAX(s.n / 2 - 1, 1));
  for (int64_t i = 2; i < s.n; i += 2) {
    int a = hex_digit(s.p[i]), b = hex_digit(s.p[i + 1]);
    if (a < 0 || b < 0) return mt_expected(p, "a string of hex digits, \"0x...\"");
    v[i / 2 - 1] = (uint8_t)(a * 16 + b);
  }
  *out = (Str){(const char *)v, s.n / 2 - 1};
  return TENON_OK;
}

// Walks over the literal and gives the lexer's state before it, to read it once more.
static tenon_status skip_literal(Parser *p, Parser *before) {
  int64_t depth = 0;
  *before = *p;
  while (depth > 0 || !mt_is_punct(p, '>')) {
    if (p->tok.kind == T_END || p->tok.kind == T_BAD) return mt_expected(p, "'>'");
    depth += mt_is_punct(p, '[') - mt_is_punct(p, ']');
    if (depth < 0) return mt_expected(p, "'>'");
    mt_lex_next(p);
  }
  return TENON_OK;
}

static void go_to(Parser *p, const Parser *there) {
  p->at = there->at;
  p->line = there->line;
  p->line_start = there->line_start;
  p->tok = there->tok;
}

tenon_status mt_dense(Parser *p, const MlirAttr **out) {
  Parser before, behind;
  const MlirType *type;
  TRY(mt_need_punct(p, '<'));
  TRY(skip_literal(p, &before));
  mt_lex_next(p);
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &type));
  if (type->kind != MT_TENSOR) return mt_expected(p, "a tensor type before this");
  behind = *p;
  go_to(p, &before);
  if (p->tok.kind == T_STRING) {
    Str raw;
    const char *why;
    TRY(hex_bytes(p, &raw));
    MlirAttr *a = mlir_dense_raw(p->arena, type, raw, &why);
    if (!a) return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "%s", why);
    *out = a;
    mt_lex_next(p);
  } else {
    MlirAttr *a = arena_new(p->arena, MlirAttr);
    a->kind = MA_DENSE;
    a->type = type;
    *out = a;
    if (mt_is_punct(p, '>')) {  // dense<>: no elements
      int64_t count;
      if (!mlir_type_count(type, &count) || count) return mt_expected(p, "elements");
      a->data = arena_alloc(p->arena, 1);
    } else {
      TRY(elements(p, type, a));
    }
  }
  if (!mt_is_punct(p, '>')) return mt_expected(p, "'>'");
  go_to(p, &behind);
  return TENON_OK;
}

// ---- {-# dialect_resources: { builtin: { key: "0x...", ... } } #-} ----

static tenon_status fill_resources(Parser *p, Str key, Str bytes) {
  enum { ALIGNMENT = 4 };  // a number in front of the bytes
  for (int64_t i = 0; i < p->resources.n; i++) {
    Resource *r = &p->resources.v[i];
    const char *why = "the bytes of a resource begin with their alignment, 4 bytes";
    if (!str_eq(r->key, key) || r->attr->data) continue;
    MlirAttr *a = bytes.n < ALIGNMENT
                      ? NULL
                      : mlir_dense_raw(p->arena, r->attr->type,
                                       (Str){bytes.p + ALIGNMENT, bytes.n - ALIGNMENT}, &why);
    if (!a)
      return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "resource %.*s: %s", STR_ARG(key), why);
    *r->attr = *a;
  }
  return TENON_OK;
}

static tenon_status resource_entries(Parser *p) {
  TRY(mt_need_punct(p, '{'));
  while (!mt_take_punct(p, '}')) {
    Str key = p->tok.text, bytes;
    if (p->tok.kind != T_WORD && p->tok.kind != T_STRING)
      return mt_expected(p, "a resource's name");
    mt_lex_next(p);
    TRY(mt_need_punct(p, ':'));
    if (p->tok.kind != T_STRING) return mt_expected(p, "a string of hex digits, \"0x...\"");
    TRY(hex_bytes(p, &bytes));
    TRY(fill_resources(p, key, bytes));
    mt_lex_next(p);
    if (!mt_take_punct(p, ',') && !mt_is_punct(p, '}')) return mt_expected(p, "',' or '}'");
  }
  return TENON_OK;
}

tenon_status mt_resources(Parser *p) {
  mt_lex_next(p);
  while (p->tok.kind != T_META_END) {
    bool ours = mt_is_word(p, "dialect_resources");
    if (p->tok.kind != T_WORD) return mt_expected(p, "a section of resources");
    mt_lex_next(p);
    TRY(mt_need_punct(p, ':'));
    if (!ours) {
      Str skipped;
      if (!mt_is_punct(p, '{')) return mt_expected(p, "'{'");
      TRY(mt_take_balanced(p, &skipped));
    } else {
      TRY(mt_need_punct(p, '{'));
      while (!mt_take_punct(p, '}')) {
        if (p->tok.kind != T_WORD) return mt_expected(p, "a dialect's name");
        mt_lex_next(p);
        TRY(mt_need_punct(p, ':'));
        TRY(resource_entries(p));
        if (!mt_take_punct(p, ',') && !mt_is_punct(p, '}')) return mt_expected(p, "',' or '}'");
      }
    }
    if (!mt_take_punct(p, ',') && p->tok.kind != T_META_END) return mt_expected(p, "'#-}'");
  }
  mt_lex_next(p);
  return TENON_OK;
}
