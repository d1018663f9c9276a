// tool_values.c -- arguments of tool calls: where JSON ends, and other notations (tool_calls.h).
//
// Python's literals (LFM2, Llama), Gemma's braces, and texts between markers, of which the tool's
// schema says what they are.  All of it is what a model wrote: nesting is bounded, and what is no
// value is refused.
#include "text/tool_calls.h"

#include <math.h>

enum { VALUE_DEPTH = 32 };

// ---- the end of a value ----
static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

int64_t tool_scan(ToolScan *v, Str s) {
  for (int64_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (v->text) {
      if (v->escaped)
        v->escaped = false;
      else if (c == '\\')
        v->escaped = true;
      else if (c == '"')
        v->text = false;
      if (!v->text && !v->depth) return i + 1;
      continue;
    }
    if (!v->begun) v->scalar = c != '"' && c != '{' && c != '[';
    v->begun = true;
    if (v->scalar) {
      if (is_space(c) || c == ',' || c == '}' || c == ']') return i;
      continue;
    }
    if (c == '"') v->text = true;
    v->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (!v->text && !v->depth) return i + 1;
  }
  return -1;
}

typedef struct Reader {
  Str s;
  int64_t at;
  bool braces;  // Gemma's notation; else Python's
  StrBuf *out;
  int depth;
} Reader;

static int peek(const Reader *r) { return r->at < r->s.n ? (unsigned char)r->s.p[r->at] : -1; }
static void space(Reader *r) {
  while (r->at < r->s.n && strchr(" \n\r\t", r->s.p[r->at]) && r->s.p[r->at]) r->at++;
}
static bool eat(Reader *r, const char *z) {
  int64_t n = (int64_t)strlen(z);
  if (r->s.n - r->at < n || memcmp(r->s.p + r->at, z, (size_t)n) != 0) return false;
  r->at += n;
  return true;
}
static bool is_word(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c >= 0x80;
}
static Str word(Reader *r) {
  int64_t from = r->at;
  while (is_word(peek(r))) r->at++;
  return (Str){r->s.p + from, r->at - from};
}

static void put_text(StrBuf *out, Str s) {
  JsonWriter w;
  json_init(&w, out, true);
  json_str(&w, s);
}

static bool is_json(Str s, Arena *a, Json *out) {
  Diag d;
  diag_init(&d);
  return !json_parse(a, s, &d, out);
}

// ---- texts ----
static bool hex(Reader *r, int digits, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < digits; i++, r->at++) {
    int c = peek(r), v = c >= '0' && c <= '9'   ? c - '0'
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                : -1;
    if (v < 0) return false;
    *out = *out << 4 | (uint32_t)v;
  }
  return true;
}

static void put_code(StrBuf *b, uint32_t c) {
  if (c < 0x80) {
    strbuf_putc(b, (char)c);
  } else if (c < 0x800) {
    strbuf_putc(b, (char)(0xC0 | c >> 6));
    strbuf_putc(b, (char)(0x80 | (c & 63)));
  } else {
    strbuf_putc(b, (char)(0xE0 | c >> 12));
    strbuf_putc(b, (char)(0x80 | (c >> 6 & 63)));
    strbuf_putc(b, (char)(0x80 | (c & 63)));
  }
}

// Behind the backslash.  What Python does not know stays as it is written.
static bool escape(Reader *r, StrBuf *b) {
  static const char from[] = "ntrbf\\'\"0", to[] = "\n\t\r\b\f\\'\"\0";
  int c = peek(r);
  const char *at = c > 0 ? strchr(from, c) : NULL;
  uint32_t code;
  if (c < 0) return false;
  r->at++;
  if (at) {
    strbuf_putc(b, to[at - from]);
    return true;
  }
  if (c == 'u' || c == 'x') {
    if (!hex(r, c == 'u' ? 4 : 2, &code)) return false;
    put_code(b, code);
    return true;
  }
  strbuf_putc(b, '\\');
  strbuf_putc(b, (char)c);
  return true;
}

static bool quoted(Reader *r) {
  StrBuf b;
  int quote = peek(r);
  r->at++;
  strbuf_init(&b, r->out->arena);
  strbuf_puts(&b, "");
  while (peek(r) >= 0 && peek(r) != quote) {
    char c = r->s.p[r->at++];
    if (c != '\\')
      strbuf_putc(&b, c);
    else if (!escape(r, &b))
      return false;
  }
  if (peek(r) != quote) return false;
  r->at++;
  put_text(r->out, strbuf_str(&b));
  return true;
}

static bool marked(Reader *r) {
  int64_t from = r->at;
  for (; r->at < r->s.n; r->at++) {
    Str text = {r->s.p + from, r->at - from};
    if (!eat(r, "<|\"|>")) continue;
    put_text(r->out, text);
    return true;
  }
  return false;
}

static bool text(Reader *r) {
  int c = peek(r);
  if (r->braces) return eat(r, "<|\"|>") && marked(r);
  return (c == '\'' || c == '"') && quoted(r);
}

// ---- values ----
static bool value(Reader *r);

static bool scalar(Reader *r) {
  static const char *const known[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                         {"true", "true"}, {"false", "false"}, {"null", "null"}};
  int64_t from = r->at;
  Json j;
  if (peek(r) == '+') from++, r->at++;
  Str w = word(r);
  if (peek(r) == '+') {  // of an exponent
    r->at++;
    (void)word(r);
    w.n = r->at - from;
  }
  for (int i = 0; i < ARRAY_LEN(known); i++)
    if (str_is(w, known[i][0])) {
      strbuf_puts(r->out, known[i][1]);
      return true;
    }
  if (!w.n || !is_json(w, r->out->arena, &j) || (j.kind != JSON_INT && j.kind != JSON_FLOAT))
    return false;
  strbuf_put(r->out, w);
  return true;
}

static bool items(Reader *r, char end) {
  strbuf_putc(r->out, '[');
  for (bool first = true;; first = false) {
    space(r);
    if (peek(r) == end) break;
    if (!first) strbuf_puts(r->out, ", ");
    if (!value(r)) return false;
    space(r);
    if (!eat(r, ",") && peek(r) != end) return false;
  }
  r->at++;
  strbuf_putc(r->out, ']');
  return true;
}

static bool key(Reader *r) {
  int c = peek(r);
  if (c == '\'' || c == '"' || (r->braces && c == '<')) return text(r);
  Str w = word(r);
  if (!w.n || !r->braces) return false;
  put_text(r->out, w);
  return true;
}

static bool members(Reader *r) {
  strbuf_putc(r->out, '{');
  for (bool first = true;; first = false) {
    space(r);
    if (peek(r) == '}') break;
    if (!first) strbuf_puts(r->out, ", ");
    if (!key(r)) return false;
    space(r);
    if (!eat(r, ":")) return false;
    strbuf_puts(r->out, ": ");
    if (!value(r)) return false;
    space(r);
    if (!eat(r, ",") && peek(r) != '}') return false;
  }
  r->at++;
  strbuf_putc(r->out, '}');
  return true;
}

static bool value(Reader *r) {
  space(r);
  int c = peek(r);
  if (c == '\'' || c == '"' || c == '<') return text(r);
  if (c != '{' && c != '[' && c != '(') return scalar(r);
  if (++r->depth > VALUE_DEPTH) return false;
  r->at++;
  bool ok = c == '{' ? members(r) : items(r, c == '[' ? ']' : ')');
  r->depth--;
  return ok;
}

bool tool_braces(Str s, Arena *a, Str *args) {
  StrBuf b;
  Reader r = {.s = s, .braces = true, .out = &b};
  strbuf_init(&b, a);
  if (!value(&r)) return false;
  space(&r);
  *args = strbuf_str(&b);
  return r.at == s.n && args->n && args->p[0] == '{';
}

// ---- calls ----
static bool one_call(Reader *r, Str *name) {
  space(r);
  *name = word(r);
  space(r);
  if (!name->n || !eat(r, "(")) return false;
  strbuf_putc(r->out, '{');
  for (bool first = true;; first = false) {
    space(r);
    if (peek(r) == ')') break;
    Str k = word(r);
    space(r);
    if (!k.n || !eat(r, "=")) return false;
    if (!first) strbuf_puts(r->out, ", ");
    put_text(r->out, k);
    strbuf_puts(r->out, ": ");
    if (!value(r)) return false;
    space(r);
    if (!eat(r, ",") && peek(r) != ')') return false;
  }
  r->at++;
  strbuf_putc(r->out, '}');
  return true;
}

bool tool_python_calls(Str s, Arena *a, Str **name, Str **args, int64_t *n) {
  VEC(Str) names = {0}, all = {0};
  Reader r = {.s = s};
  space(&r);
  bool list = eat(&r, "[");
  for (;;) {
    StrBuf b;
    Str called;
    strbuf_init(&b, a);
    r.out = &b;
    if (!one_call(&r, &called)) return false;
    vec_push(a, &names, called);
    Str text = strbuf_str(&b);
    vec_push(a, &all, text);
    space(&r);
    if (!eat(&r, ",")) break;
  }
  if (list && !eat(&r, "]")) return false;
  space(&r);
  *name = names.v;
  *args = all.v;
  *n = names.n;
  return r.at == s.n;
}

// ---- arguments between markers ----
const Json *tool_find(const Json *tools, Str name) {
  for (int64_t i = 0; tools && tools->kind == JSON_ARRAY && i < tools->n; i++) {
    const Json *function = json_get(&tools->item[i], "function");
    const Json *named = json_get(function ? function : &tools->item[i], "name");
    if (named && named->kind == JSON_STRING && str_eq(named->s, name))
      return function ? function : &tools->item[i];
  }
  return NULL;
}

static const Json *member(const Json *object, Str name) {
  for (int64_t i = 0; object && object->kind == JSON_OBJECT && i < object->n; i++)
    if (str_eq(object->key[i], name)) return &object->item[i];
  return NULL;
}

const Json *tool_param_schema(const Json *tools, Str tool, Str name) {
  const Json *parameters = json_get(tool_find(tools, tool), "parameters");
  return member(json_get(parameters, "properties"), name);
}

// ---- types: a bit for each ----
enum {
  IS_NULL = 1,
  IS_BOOL = 2,
  IS_WHOLE = 4,
  IS_FRACTION = 8,
  IS_TEXT = 16,
  IS_ARRAY = 32,
  IS_OBJECT = 64,
  IS_ANY = 127
};

// A number without a fraction is an integer however it is written.
static unsigned type_of(const Json *v) {
  static const unsigned bit[] = {
      [JSON_NULL] = IS_NULL,      [JSON_BOOL] = IS_BOOL,   [JSON_INT] = IS_WHOLE,
      [JSON_FLOAT] = IS_FRACTION, [JSON_STRING] = IS_TEXT, [JSON_ARRAY] = IS_ARRAY,
      [JSON_OBJECT] = IS_OBJECT};
  bool whole = v->kind == JSON_FLOAT && v->f == floor(v->f);
  return whole ? IS_WHOLE | IS_FRACTION : bit[v->kind];
}

static unsigned type_named(Str type) {
  static const struct {
    const char *name;
    unsigned bits;
  } row[] = {{"null", IS_NULL},     {"boolean", IS_BOOL},
             {"integer", IS_WHOLE}, {"number", IS_WHOLE | IS_FRACTION},
             {"string", IS_TEXT},   {"array", IS_ARRAY},
             {"object", IS_OBJECT}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (str_is(type, row[i].name)) return row[i].bits;
  return IS_ANY;
}

// The types that a schema may allow, and never fewer: each keyword only takes some away.
static unsigned types_of(const Json *schema, int depth) {
  static const char *const any[] = {"anyOf", "oneOf"};
  const Json *type = json_get(schema, "type"), *values = json_get(schema, "enum"),
             *one = json_get(schema, "const");
  unsigned all = IS_ANY, some = 0;
  if (depth > VALUE_DEPTH) return all;
  if (type && type->kind == JSON_STRING) all &= type_named(type->s);
  if (type && type->kind == JSON_ARRAY) {
    for (int64_t i = 0; i < type->n; i++)
      some |= type->item[i].kind == JSON_STRING ? type_named(type->item[i].s) : IS_ANY;
    all &= some;
  }
  for (int k = 0; k < ARRAY_LEN(any); k++) {
    const Json *of = json_get(schema, any[k]);
    if (!of || of->kind != JSON_ARRAY) continue;
    some = 0;
    for (int64_t i = 0; i < of->n; i++) some |= types_of(&of->item[i], depth + 1);
    all &= some;
  }
  if (values && values->kind == JSON_ARRAY) {
    some = 0;
    for (int64_t i = 0; i < values->n; i++) some |= type_of(&values->item[i]);
    all &= some;
  }
  return one ? all & type_of(one) : all;
}

bool tool_param_is_text(const Json *schema) { return types_of(schema, 0) == IS_TEXT; }

static bool holds(Str s, const char *z) {
  int64_t n = (int64_t)strlen(z);
  for (int64_t i = 0; i + n <= s.n; i++)
    if (!memcmp(s.p + i, z, (size_t)n)) return true;
  return false;
}

void tool_param_put(StrBuf *out, Str s, Str attributes, const Json *schema) {
  unsigned types = types_of(schema, 0);
  Str t = s;
  Json j;
  StrBuf python;
  if (holds(attributes, "string=\"true\"") || holds(attributes, "type=\"string\"")) types = IS_TEXT;
  while (t.n && strchr(" \n\r\t", t.p[0]) && t.p[0]) t.p++, t.n--;
  while (t.n && strchr(" \n\r\t", t.p[t.n - 1]) && t.p[t.n - 1]) t.n--;
  if (types == IS_TEXT) {
    put_text(out, s);
    return;
  }
  if (is_json(t, out->arena, &j) && types & type_of(&j)) {
    strbuf_put(out, t);
    return;
  }
  // Templates that print a Python object do not print JSON.
  strbuf_init(&python, out->arena);
  Reader r = {.s = t, .out = &python};
  if (t.n && value(&r) && r.at == t.n && is_json(strbuf_str(&python), out->arena, &j) &&
      types & type_of(&j)) {
    strbuf_put(out, strbuf_str(&python));
    return;
  }
  put_text(out, s);
}
