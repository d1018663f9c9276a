// json.c -- writes and reads JSON.
//
// Reading is recursive descent with a depth limit.  Items of arrays and objects that are still open
// are on one stack, from which each is copied when it ends, so memory is a fixed multiple of the
// text.  Numbers go through the C library with the locale's decimal point put in, so that a process
// with another locale reads and writes the same.
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- writing ----
void json_init(JsonWriter *w, StrBuf *out, bool compact) {
  *w = (JsonWriter){.out = out, .compact = compact};
}

static void newline(JsonWriter *w) {
  if (w->compact) return;
  strbuf_putc(w->out, '\n');
  for (int i = 0; i < w->depth; i++) strbuf_puts(w->out, "  ");
}

static void before_item(JsonWriter *w) {
  if (w->after_key) {
    w->after_key = false;
    return;
  }
  if (w->filled[w->depth]) strbuf_putc(w->out, ',');
  if (w->depth && !w->flat[w->depth])
    newline(w);
  else if (w->filled[w->depth] && !w->compact)
    strbuf_putc(w->out, ' ');
  w->filled[w->depth] = 1;
}

static void begin(JsonWriter *w, char c, bool flat) {
  before_item(w);
  CHECK(w->depth < JSON_DEPTH, "JSON nested deeper than %d", JSON_DEPTH);
  strbuf_putc(w->out, c);
  w->depth++;
  w->filled[w->depth] = 0;
  w->flat[w->depth] = flat;
}
static void end(JsonWriter *w, char c) {
  CHECK(w->depth > 0, "JSON level closed twice");
  bool break_line = w->filled[w->depth] && !w->flat[w->depth];
  w->depth--;
  if (break_line) newline(w);
  strbuf_putc(w->out, c);
}

void json_begin_object(JsonWriter *w) { begin(w, '{', false); }
void json_begin_flat_object(JsonWriter *w) { begin(w, '{', true); }
void json_begin_array(JsonWriter *w) { begin(w, '[', false); }
void json_begin_flat_array(JsonWriter *w) { begin(w, '[', true); }
void json_end_object(JsonWriter *w) { end(w, '}'); }
void json_end_array(JsonWriter *w) { end(w, ']'); }

// Length of the well-formed UTF-8 sequence at p, or 0.
static int utf8_length(const char *p, int64_t n) {
  for (int len = 1; len <= 4 && len <= n; len++)
    if (str_is_utf8((Str){p, len})) return len;
  return 0;
}

static void put_string(StrBuf *out, Str s) {
  strbuf_putc(out, '"');
  for (int64_t i = 0; i < s.n;) {
    uint8_t c = (uint8_t)s.p[i];
    if (c == '"' || c == '\\') {
      strbuf_putc(out, '\\');
      strbuf_putc(out, (char)c);
      i++;
    } else if (c == '\n' || c == '\t') {
      strbuf_puts(out, c == '\n' ? "\\n" : "\\t");
      i++;
    } else if (c < 0x20 || c == 0x7f) {
      strbuf_printf(out, "\\u%04x", c);
      i++;
    } else {
      int len = utf8_length(s.p + i, s.n - i);
      strbuf_put(out, len ? (Str){s.p + i, len} : STR("\xef\xbf\xbd"));
      i += len ? len : 1;
    }
  }
  strbuf_putc(out, '"');
}

void json_key_str(JsonWriter *w, Str key) {
  before_item(w);
  put_string(w->out, key);
  strbuf_puts(w->out, w->compact ? ":" : ": ");
  w->after_key = true;
}
void json_key(JsonWriter *w, const char *key) { json_key_str(w, str_of(key)); }

void json_str(JsonWriter *w, Str s) {
  before_item(w);
  put_string(w->out, s);
}
void json_cstr(JsonWriter *w, const char *z) {
  if (z)
    json_str(w, str_of(z));
  else
    json_null(w);
}
void json_i64(JsonWriter *w, int64_t v) {
  before_item(w);
  strbuf_printf(w->out, "%lld", (long long)v);
}

void json_u64(JsonWriter *w, uint64_t v) {
  before_item(w);
  strbuf_printf(w->out, "%llu", (unsigned long long)v);
}

int json_number(double v, bool single, char *out, int cap) {
  // "-0" reads as the integer 0 elsewhere.
  if (v == 0 && signbit(v)) return snprintf(out, (size_t)cap, "-0.0");
  // %.15g (%.6g) drops trailing zeros, so the first precision that reads back is the shortest.
  int n = 0;
  for (int digits = single ? 6 : 15; digits <= (single ? 9 : 17); digits++) {
    n = snprintf(out, (size_t)cap, "%.*g", digits, v);
    if (single ? strtof(out, NULL) == (float)v : strtod(out, NULL) == v) break;
  }
  for (char *p = out; *p; p++)
    if (!isdigit((unsigned char)*p) && !strchr("+-einfa", *p)) *p = '.';
  return n;
}

static void put_number(JsonWriter *w, double v, bool single) {
  if (!isfinite(v)) {
    json_null(w);
    return;
  }
  before_item(w);
  char text[32];
  json_number(v, single, text, sizeof text);
  strbuf_puts(w->out, text);
}
void json_f64(JsonWriter *w, double v) { put_number(w, v, false); }
void json_f32(JsonWriter *w, float v) { put_number(w, (double)v, true); }
void json_key_f64(JsonWriter *w, const char *key, double v) {
  json_key(w, key);
  json_f64(w, v);
}

void json_bool(JsonWriter *w, bool v) {
  before_item(w);
  strbuf_puts(w->out, v ? "true" : "false");
}
void json_null(JsonWriter *w) {
  before_item(w);
  strbuf_puts(w->out, "null");
}

tenon_status json_put(JsonWriter *w, const Json *v, Diag *d) {
  bool object = v->kind == JSON_OBJECT;
  switch (v->kind) {
  case JSON_NULL: json_null(w); break;
  case JSON_BOOL: json_bool(w, v->b); break;
  case JSON_INT: json_i64(w, v->i); break;
  case JSON_FLOAT: json_f64(w, v->f); break;
  case JSON_STRING: json_str(w, v->s); break;
  case JSON_ARRAY:
  case JSON_OBJECT:
    if (w->depth == JSON_DEPTH)
      return fail(d, TENON_EINVAL, NOWHERE, "JSON nested deeper than %d levels", JSON_DEPTH);
    begin(w, object ? '{' : '[', false);
    for (int64_t i = 0; i < v->n; i++) {
      if (object) json_key_str(w, v->key[i]);
      TRY(json_put(w, &v->item[i], d));
    }
    end(w, object ? '}' : ']');
  }
  return TENON_OK;
}

// ---- reading ----
enum { FEW_KEYS = 16 };

typedef struct Reader {
  Arena *arena;
  const char *start, *p, *end;
  Diag *diag;
  int depth;
  VEC(Json) items;  // of what is open, the innermost at the end
  VEC(Str) keys;
} Reader;

static tenon_status bad(Reader *r, const char *at, const char *what) {
  return fail(r->diag, TENON_EFORMAT, (Where){.offset = at - r->start, .has_offset = true},
              "JSON: %s", what);
}

static void skip_space(Reader *r) {
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r')) r->p++;
}
static bool take(Reader *r, char c) {
  if (r->p == r->end || *r->p != c) return false;
  r->p++;
  return true;
}

static tenon_status parse_value(Reader *r, Json *out);

static bool hex4(Reader *r, uint32_t *out) {
  if (r->end - r->p < 4) return false;
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) {
    char c = r->p[i];
    if (!isxdigit((unsigned char)c)) return false;
    v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  r->p += 4;
  *out = v;
  return true;
}

static int put_utf8(char *p, uint32_t c) {
  if (c < 0x80) {
    p[0] = (char)c;
    return 1;
  }
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) p[i] = (char)(0x80 | (c & 0x3f));
  p[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
  return n;
}

// After "\u"; appends the character to *to.
static tenon_status parse_unicode(Reader *r, char **to) {
  const char *at = r->p - 2;
  uint32_t c, low;
  if (!hex4(r, &c)) return bad(r, at, "\\u needs four hexadecimal digits");
  if (c >= 0xdc00 && c <= 0xdfff) return bad(r, at, "a lone surrogate");
  if (c >= 0xd800 && c <= 0xdbff) {
    if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u')
      return bad(r, at, "a lone surrogate");
    r->p += 2;
    if (!hex4(r, &low) || low < 0xdc00 || low > 0xdfff) return bad(r, at, "a lone surrogate");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  *to += put_utf8(*to, c);
  return TENON_OK;
}

static tenon_status parse_escapes(Reader *r, const char *first, Str *out) {
  // The decoded form is never longer than the text up to the closing quote.
  const char *close = r->p;
  while (close < r->end && *close != '"') close += *close == '\\' && r->end - close > 1 ? 2 : 1;
  if (close == r->end) return bad(r, first - 1, "a string without an end");
  char *buf = arena_alloc(r->arena, close - first + 1), *to = buf + (r->p - first);
  memcpy(buf, first, (size_t)(r->p - first));
  while (*r->p != '"') {
    char c = *r->p++;
    if ((uint8_t)c < 0x20) return bad(r, r->p - 1, "a control character in a string");
    if (c != '\\') {
      *to++ = c;
      continue;
    }
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    c = *r->p++;
    const char *e = c ? strchr(from, c) : NULL;
    if (e)
      *to++ = into[e - from];
    else if (c == 'u')
      TRY(parse_unicode(r, &to));
    else
      return bad(r, r->p - 2, "an unknown escape");
  }
  r->p++;
  *out = (Str){buf, to - buf};
  return TENON_OK;
}

static tenon_status parse_string(Reader *r, Str *out) {
  if (!take(r, '"')) return bad(r, r->p, "expected a string");
  const char *first = r->p;
  while (r->p < r->end && *r->p != '"' && *r->p != '\\' && (uint8_t)*r->p >= 0x20) r->p++;
  if (r->p == r->end) return bad(r, first - 1, "a string without an end");
  if (*r->p == '"') {
    *out = (Str){first, r->p - first};
    r->p++;
    return TENON_OK;
  }
  return parse_escapes(r, first, out);
}

static bool skip_digits(Reader *r) {
  const char *from = r->p;
  while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
  return r->p > from;
}

static tenon_status parse_number(Reader *r, Json *out) {
  const char *first = r->p;
  bool whole = true;
  take(r, '-');
  if (!take(r, '0') && !skip_digits(r)) return bad(r, first, "expected a value");
  if (r->p < r->end && *r->p >= '0' && *r->p <= '9')
    return bad(r, first, "a number with leading zeros");
  if (take(r, '.')) {
    whole = false;
    if (!skip_digits(r)) return bad(r, first, "a number without digits after its point");
  }
  if (take(r, 'e') || take(r, 'E')) {
    whole = false;
    if (!take(r, '+')) take(r, '-');
    if (!skip_digits(r)) return bad(r, first, "a number without digits in its exponent");
  }
  Str text = {first, r->p - first};
  if (whole && str_to_i64(text, &out->i)) {
    out->kind = JSON_INT;
    out->f = (double)out->i;
    return TENON_OK;
  }
  if (text.n > 400) return bad(r, first, "a number of over 400 characters");
  char copy[512];
  int64_t n = 0;
  const char *point = localeconv()->decimal_point;
  for (int64_t i = 0; i < text.n; i++) {
    if (text.p[i] != '.') {
      copy[n++] = text.p[i];
      continue;
    }
    for (const char *q = point; *q && n < 500; q++) copy[n++] = *q;
  }
  copy[n] = 0;
  out->kind = JSON_FLOAT;
  out->f = strtod(copy, NULL);
  if (!isfinite(out->f)) return bad(r, first, "a number out of range");
  return TENON_OK;
}

// What an array or object gets of the stack, above `from`.
static const Json *take_items(Reader *r, int64_t from) {
  int64_t n = r->items.n - from;
  r->items.n = from;
  return n ? arena_dup(r->arena, r->items.v + from, n * (int64_t)sizeof *r->items.v) : NULL;
}

static tenon_status parse_array(Reader *r, Json *out) {
  int64_t from = r->items.n, n;
  skip_space(r);
  if (!take(r, ']')) {
    do {
      Json item;
      TRY(parse_value(r, &item));
      vec_push(r->arena, &r->items, item);
      skip_space(r);
    } while (take(r, ','));
    if (!take(r, ']')) return bad(r, r->p, "expected ',' or ']'");
  }
  n = r->items.n - from;
  *out = (Json){.kind = JSON_ARRAY, .n = n, .item = take_items(r, from)};
  return TENON_OK;
}

// A few keys are compared one by one; more of them are looked up.
static bool is_new(Reader *r, StrMap *seen, int64_t from, Str key) {
  int64_t n = r->keys.n - from;
  if (n < FEW_KEYS) {
    for (int64_t i = from; i < r->keys.n; i++)
      if (str_eq(r->keys.v[i], key)) return false;
    return true;
  }
  for (int64_t i = 0; n == FEW_KEYS && i < n; i++) strmap_put(seen, r->keys.v[from + i], NULL);
  if (strmap_has(seen, key)) return false;
  strmap_put(seen, key, NULL);
  return true;
}

static tenon_status parse_member(Reader *r, StrMap *seen, int64_t from) {
  Json item;
  Str key;
  skip_space(r);
  const char *at = r->p;
  TRY(parse_string(r, &key));
  if (!is_new(r, seen, from, key))
    return fail(r->diag, TENON_EFORMAT, (Where){.offset = at - r->start, .has_offset = true},
                "JSON: the key '%.*s' is there twice", STR_ARG(key));
  vec_push(r->arena, &r->keys, key);
  skip_space(r);
  if (!take(r, ':')) return bad(r, r->p, "expected ':'");
  TRY(parse_value(r, &item));
  vec_push(r->arena, &r->items, item);
  skip_space(r);
  return TENON_OK;
}

static tenon_status parse_object(Reader *r, Json *out) {
  int64_t from = r->items.n, keys = r->keys.n, n;
  StrMap seen;
  strmap_init(&seen, r->arena);
  skip_space(r);
  if (!take(r, '}')) {
    do TRY(parse_member(r, &seen, keys));
    while (take(r, ','));
    if (!take(r, '}')) return bad(r, r->p, "expected ',' or '}'");
  }
  n = r->items.n - from;
  *out = (Json){.kind = JSON_OBJECT, .n = n, .item = take_items(r, from)};
  if (n) out->key = arena_dup(r->arena, r->keys.v + keys, n * (int64_t)sizeof *r->keys.v);
  r->keys.n = keys;
  return TENON_OK;
}

static bool take_word(Reader *r, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n)) return false;
  r->p += n;
  return true;
}

static tenon_status parse_value(Reader *r, Json *out) {
  *out = (Json){0};
  skip_space(r);
  if (r->p == r->end) return bad(r, r->p, "expected a value");
  char c = *r->p;
  if (c == '{' || c == '[') {
    if (r->depth == JSON_DEPTH) return bad(r, r->p, "nested deeper than 64 levels");
    r->p++;
    r->depth++;
    TRY(c == '{' ? parse_object(r, out) : parse_array(r, out));
    r->depth--;
    return TENON_OK;
  }
  if (c == '"') {
    out->kind = JSON_STRING;
    return parse_string(r, &out->s);
  }
  if (take_word(r, "null")) return TENON_OK;
  if (take_word(r, "true") || take_word(r, "false")) {
    *out = (Json){.kind = JSON_BOOL, .b = c == 't'};
    return TENON_OK;
  }
  return parse_number(r, out);
}

tenon_status json_parse(Arena *a, Str text, Diag *d, Json *out) {
  *out = (Json){0};
  if (!text.n) text.p = "";
  Reader r = {.arena = a, .start = text.p, .p = text.p, .end = text.p + text.n, .diag = d};
  if (!str_is_utf8(text)) return bad(&r, text.p, "not valid UTF-8");
  TRY(parse_value(&r, out));
  skip_space(&r);
  if (r.p != r.end) return bad(&r, r.p, "text after the value");
  return TENON_OK;
}

bool json_is_nothing(const Json *v) {
  switch (v->kind) {
  case JSON_NULL: return true;
  case JSON_BOOL: return !v->b;
  case JSON_INT: return v->i == 0;
  case JSON_FLOAT: return v->f == 0;
  case JSON_STRING: return v->s.n == 0;
  case JSON_ARRAY:
  case JSON_OBJECT: return v->n == 0;
  }
  return false;
}

const Json *json_get(const Json *object, const char *key) {
  if (!object || object->kind != JSON_OBJECT) return NULL;
  for (int64_t i = 0; i < object->n; i++)
    if (str_is(object->key[i], key)) return &object->item[i];
  return NULL;
}
