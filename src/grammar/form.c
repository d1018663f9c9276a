// form.c -- JSON itself: white space, strings, numbers, any value.
//
// White space between tokens is bounded, so that an answer cannot be filled with it: a space, or a
// line end and at most 20 spaces or tabs.  Numbers are bounded in their digits, so that every
// reader takes them as they are written.
#include "base/json.h"
#include "grammar/impl.h"

enum { INDENT = 20, INTEGER_DIGITS = 18, NUMBER_DIGITS = 16, EXPONENT_DIGITS = 2 };

static const UnicodeRange digits[] = {{'0', '9'}}, digits_not_0[] = {{'1', '9'}},
                          hexes[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

void form_begin(Build *b) {
  b->space = b->character = b->string = b->number = b->integer = b->value = b->object = b->array =
      -1;
}

// The rule in *io, made alone and without a body when it is -1: then true.
static bool make(Build *b, int32_t *io, Str name) {
  if (*io >= 0) return false;
  *io = build_rule(b, name);
  b->rule.v[*io].alone = true;
  return true;
}
static const Expr *digit_run(Build *b, int64_t least, int64_t most) {
  return expr_repeat(b, expr_set(b, digits, 1, false), least, most);
}
static const Expr *maybe(Build *b, const Expr *x) { return expr_repeat(b, x, 0, 1); }

const Expr *form_space(Build *b) {
  static const UnicodeRange blank[] = {{'\t', '\t'}, {' ', ' '}};
  if (b->spec->compact) return expr_bytes(b, STR(""));
  if (make(b, &b->space, STR("space")))
    build_body(b, b->space,
               expr_alt(b, expr_z(b, ""), expr_z(b, " "),
                        expr_seq(b, expr_z(b, "\n"),
                                 expr_repeat(b, expr_set(b, blank, 2, false), 0, INDENT))));
  return expr_rule(b, b->space);
}

// \u and four digits that are no surrogate, or a pair of surrogates.
static const Expr *unicode_escape(Build *b) {
  static const UnicodeRange not_d[] = {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}},
                            d[] = {{'D', 'D'}, {'d', 'd'}}, below_8[] = {{'0', '7'}},
                            high[] = {{'8', '9'}, {'A', 'B'}, {'a', 'b'}},
                            low[] = {{'C', 'F'}, {'c', 'f'}};
  const Expr *hex = expr_set(b, hexes, 3, false), *dd = expr_set(b, d, 2, false);
  const Expr *two = expr_repeat(b, hex, 2, 2);
  return expr_alt(b, expr_seq(b, expr_set(b, not_d, 5, false), expr_repeat(b, hex, 3, 3)),
                  expr_seq(b, dd, expr_set(b, below_8, 1, false), two),
                  expr_seq(b, dd, expr_set(b, high, 3, false), two, expr_z(b, "\\u"), dd,
                           expr_set(b, low, 2, false), two));
}

// A character of a string.  What is not plain ASCII is a rule of its own, so that bounded strings
// have one state for each character.
const Expr *form_character(Build *b) {
  static const UnicodeRange plain[] = {{' ', '!'}, {'#', '['}, {']', 0x7f}},
                            more[] = {{0x80, UNICODE_END - 1}},
                            escaped[] = {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'},
                                         {'f', 'f'}, {'n', 'n'}, {'r', 'r'},   {'t', 't'}};
  if (make(b, &b->character, STR("character"))) {
    const Expr *u = expr_seq(b, expr_z(b, "u"), unicode_escape(b));
    const Expr *named = expr_set(b, escaped, ARRAY_LEN(escaped), false);
    const Expr *body = expr_alt(b, expr_set(b, more, 1, false),
                                expr_seq(b, expr_z(b, "\\"), expr_alt(b, named, u)));
    build_body(b, b->character, body);
  }
  return expr_alt(b, expr_set(b, plain, 3, false), expr_rule(b, b->character));
}

const Expr *form_string(Build *b) {
  if (make(b, &b->string, STR("string"))) {
    const Expr *body = form_quoted(b, expr_repeat(b, form_character(b), 0, -1));
    build_body(b, b->string, body);
  }
  return expr_rule(b, b->string);
}

static const Expr *whole_number(Build *b, int64_t most) {
  return expr_seq(
      b, maybe(b, expr_z(b, "-")),
      expr_alt(b, expr_z(b, "0"),
               expr_seq(b, expr_set(b, digits_not_0, 1, false), digit_run(b, 0, most - 1))));
}

const Expr *form_integer(Build *b) {
  if (make(b, &b->integer, STR("integer")))
    build_body(b, b->integer, whole_number(b, INTEGER_DIGITS));
  return expr_rule(b, b->integer);
}

const Expr *form_number(Build *b) {
  static const UnicodeRange e[] = {{'E', 'E'}, {'e', 'e'}}, sign[] = {{'+', '+'}, {'-', '-'}};
  if (make(b, &b->number, STR("number")))
    build_body(b, b->number,
               expr_seq(b, whole_number(b, NUMBER_DIGITS),
                        maybe(b, expr_seq(b, expr_z(b, "."), digit_run(b, 1, NUMBER_DIGITS))),
                        maybe(b, expr_seq(b, expr_set(b, e, 2, false),
                                          maybe(b, expr_set(b, sign, 2, false)),
                                          digit_run(b, 1, EXPONENT_DIGITS)))));
  return expr_rule(b, b->number);
}

const Expr *form_quoted(Build *b, const Expr *inside) {
  return expr_seq(b, expr_z(b, "\""), inside, expr_z(b, "\""));
}

const Expr *form_member(Build *b, const Expr *key, const Expr *value) {
  return expr_seq(b, key, expr_z(b, ":"), form_space(b), value);
}

const Expr *form_list(Build *b, const char *brackets, const Expr *item) {
  Str open = {brackets, 1}, close = {brackets + 1, 1};
  const Expr *space = form_space(b);
  const Expr *more = expr_repeat(b, expr_seq(b, expr_z(b, ","), space, item), 0, -1);
  return expr_seq(
      b, expr_bytes(b, open), space,
      expr_alt(b, expr_bytes(b, close), expr_seq(b, item, more, space, expr_bytes(b, close))));
}

const Expr *form_object(Build *b) {
  if (make(b, &b->object, STR("object"))) {
    const Expr *body = form_list(b, "{}", form_member(b, form_string(b), form_value(b)));
    build_body(b, b->object, body);
  }
  return expr_rule(b, b->object);
}

const Expr *form_array(Build *b) {
  if (make(b, &b->array, STR("array"))) {
    const Expr *body = form_list(b, "[]", form_value(b));
    build_body(b, b->array, body);
  }
  return expr_rule(b, b->array);
}

const Expr *form_value(Build *b) {
  if (make(b, &b->value, STR("value"))) {
    const Expr *body = expr_alt(b, form_object(b), form_array(b), form_string(b), form_number(b),
                                expr_z(b, "true"), expr_z(b, "false"), expr_z(b, "null"));
    build_body(b, b->value, body);
  }
  return expr_rule(b, b->value);
}

static const Expr *text_of(Build *b, const Json *v) {
  StrBuf out;
  JsonWriter w;
  strbuf_init(&out, b->a);
  json_init(&w, &out, true);
  switch (v->kind) {
  case JSON_NULL: json_null(&w); break;
  case JSON_BOOL: json_bool(&w, v->b); break;
  case JSON_INT: json_i64(&w, v->i); break;
  case JSON_FLOAT: json_f64(&w, v->f); break;
  case JSON_STRING: json_str(&w, v->s); break;
  case JSON_ARRAY:
  case JSON_OBJECT: CHECK(false, "no scalar");
  }
  return expr_bytes(b, strbuf_str(&out));
}

const Expr *form_literal(Build *b, const Json *v) {
  if (v->kind != JSON_ARRAY && v->kind != JSON_OBJECT) return text_of(b, v);
  bool object = v->kind == JSON_OBJECT;
  const Expr *space = form_space(b), *x = expr_bytes(b, object ? STR("{") : STR("["));
  for (int64_t i = 0; i < v->n; i++) {
    const Expr *item = form_literal(b, &v->item[i]);
    if (object) {
      Json key = {.kind = JSON_STRING, .s = v->key[i]};
      item = form_member(b, text_of(b, &key), item);
    }
    if (i) x = expr_seq(b, x, expr_z(b, ","));
    x = expr_seq(b, x, space, item);
  }
  return expr_seq(b, x, space, expr_bytes(b, object ? STR("}") : STR("]")));
}
