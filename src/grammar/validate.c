// validate.c -- JSON Schema (2020-12) as a judge of finished answers.
//
// Walks the answer and the schema together.  Shares nothing with the automaton: regular expressions
// are matched by sets of places in a syntax tree (validate_regex.c), numbers are compared as they
// are read.  What this does not know, and an answer depends on, is TENON_EUNSUPPORTED.
#include "grammar/validate.h"
#include "grammar/validate_regex.h"

#include <math.h>

typedef struct Judge {
  Arena *a;
  Diag *d;
  const Json *root;
  int depth;
  int64_t fuel;
  Str at;          // JSON pointer into the answer
  bool unknown;    // a keyword that is not known here decides
  StrBuf message;  // why the last value did not fit
} Judge;

enum { DEPTH = 400, FUEL = 20000000 };

static bool fits(Judge *j, const Json *schema, const Json *v);

static bool no(Judge *j, const char *key) {
  j->message.n = 0;
  strbuf_printf(&j->message, "at '%.*s' the answer does not fit `%s`", STR_ARG(j->at), key);
  return false;
}

static bool is_number(const Json *v) { return v->kind == JSON_INT || v->kind == JSON_FLOAT; }
static bool is_whole(const Json *v) {
  return v->kind == JSON_INT || (v->kind == JSON_FLOAT && floor(v->f) == v->f);
}

static bool equal(const Json *x, const Json *y) {
  if (is_number(x) && is_number(y))
    return x->kind == JSON_INT && y->kind == JSON_INT ? x->i == y->i : x->f == y->f;
  if (x->kind != y->kind || x->n != y->n) return false;
  if (x->kind == JSON_BOOL) return x->b == y->b;
  if (x->kind == JSON_STRING) return str_eq(x->s, y->s);
  for (int64_t i = 0; i < x->n; i++) {
    const Json *other = &y->item[i];
    if (x->kind == JSON_OBJECT) {
      other = NULL;
      for (int64_t k = 0; k < y->n; k++)
        if (str_eq(x->key[i], y->key[k])) other = &y->item[k];
    }
    if (!other || !equal(&x->item[i], other)) return false;
  }
  return true;
}

static bool is_type(const Json *v, Str name) {
  if (str_is(name, "integer")) return is_whole(v);
  if (str_is(name, "number")) return is_number(v);
  static const char *const names[] = {"null", "boolean", "", "", "string", "array", "object"};
  return str_is(name, names[v->kind]) && name.n;
}

static bool types_fit(const Json *t, const Json *v) {
  if (t->kind == JSON_STRING) return is_type(v, t->s);
  for (int64_t i = 0; i < t->n; i++)
    if (is_type(v, t->item[i].s)) return true;
  return false;
}

static bool pattern_fits(Judge *j, Str pattern, Str text) {
  int found = validate_search(j->a, pattern, text, &j->fuel);
  if (found < 0) j->unknown = true;
  return found != 0;
}

// Whether a value is that of `key`, by a comparison of numbers.
static bool number_fits(Judge *j, const Json *s, const Json *v) {
  const Json *k;
  if ((k = json_get(s, "minimum")) && v->f < k->f) return no(j, "minimum");
  if ((k = json_get(s, "maximum")) && v->f > k->f) return no(j, "maximum");
  if ((k = json_get(s, "exclusiveMinimum")) && v->f <= k->f) return no(j, "exclusiveMinimum");
  if ((k = json_get(s, "exclusiveMaximum")) && v->f >= k->f) return no(j, "exclusiveMaximum");
  if ((k = json_get(s, "multipleOf"))) {
    bool whole = v->kind == JSON_INT && k->kind == JSON_INT && k->i;
    if (whole ? v->i % k->i != 0 : floor(v->f / k->f) != v->f / k->f) return no(j, "multipleOf");
  }
  return true;
}

static bool string_fits(Judge *j, const Json *s, const Json *v) {
  const Json *k;
  int64_t n = 0;
  for (int64_t i = 0; i < v->s.n; i++) n += ((uint8_t)v->s.p[i] & 0xc0) != 0x80;
  if ((k = json_get(s, "minLength")) && (double)n < k->f) return no(j, "minLength");
  if ((k = json_get(s, "maxLength")) && (double)n > k->f) return no(j, "maxLength");
  if ((k = json_get(s, "pattern")) && !pattern_fits(j, k->s, v->s)) return no(j, "pattern");
  return true;
}

// Goes into a member or item, with the pointer of messages.
static bool inner_fits(Judge *j, const Json *schema, const Json *v, Str key, int64_t index) {
  Str before = j->at;
  char *p = key.p ? str_printf(j->a, "%.*s/%.*s", STR_ARG(before), STR_ARG(key))
                  : str_printf(j->a, "%.*s/%lld", STR_ARG(before), (long long)index);
  j->at = str_of(p);
  bool yes = fits(j, schema, v);
  j->at = before;
  return yes;
}

static bool members_fit(Judge *j, const Json *s, const Json *v) {
  const Json *named = json_get(s, "properties"), *pattern = json_get(s, "patternProperties");
  const Json *other = json_get(s, "additionalProperties"), *names = json_get(s, "propertyNames");
  for (int64_t i = 0; i < v->n; i++) {
    bool met = false;
    for (int64_t k = 0; named && k < named->n; k++) {
      if (!str_eq(named->key[k], v->key[i])) continue;
      met = true;
      if (!inner_fits(j, &named->item[k], &v->item[i], v->key[i], 0)) return false;
    }
    for (int64_t k = 0; pattern && k < pattern->n; k++) {
      if (!pattern_fits(j, pattern->key[k], v->key[i])) continue;
      met = true;
      if (!inner_fits(j, &pattern->item[k], &v->item[i], v->key[i], 0)) return false;
    }
    if (!met && other && !inner_fits(j, other, &v->item[i], v->key[i], 0))
      return no(j, "additionalProperties");
    Json name = {.kind = JSON_STRING, .s = v->key[i]};
    if (names && !fits(j, names, &name)) return no(j, "propertyNames");
  }
  return true;
}

static bool has_key(const Json *v, Str key) {
  for (int64_t i = 0; i < v->n; i++)
    if (str_eq(v->key[i], key)) return true;
  return false;
}

static bool object_fits(Judge *j, const Json *s, const Json *v) {
  const Json *k;
  if ((k = json_get(s, "minProperties")) && (double)v->n < k->f) return no(j, "minProperties");
  if ((k = json_get(s, "maxProperties")) && (double)v->n > k->f) return no(j, "maxProperties");
  k = json_get(s, "required");
  for (int64_t i = 0; k && i < k->n; i++)
    if (!has_key(v, k->item[i].s)) return no(j, "required");
  k = json_get(s, "dependentRequired");
  for (int64_t i = 0; k && i < k->n; i++)
    for (int64_t m = 0; has_key(v, k->key[i]) && m < k->item[i].n; m++)
      if (!has_key(v, k->item[i].item[m].s)) return no(j, "dependentRequired");
  return members_fit(j, s, v);
}

static bool array_fits(Judge *j, const Json *s, const Json *v) {
  const Json *k, *prefix = json_get(s, "prefixItems"), *items = json_get(s, "items");
  if ((k = json_get(s, "minItems")) && (double)v->n < k->f) return no(j, "minItems");
  if ((k = json_get(s, "maxItems")) && (double)v->n > k->f) return no(j, "maxItems");
  for (int64_t i = 0; i < v->n; i++) {
    const Json *inner = prefix && i < prefix->n ? &prefix->item[i] : items;
    if (inner && !inner_fits(j, inner, &v->item[i], (Str){0}, i)) return false;
  }
  if ((k = json_get(s, "uniqueItems")) && k->b)
    for (int64_t i = 0; i < v->n; i++)
      for (int64_t m = 0; m < i; m++)
        if (equal(&v->item[i], &v->item[m])) return no(j, "uniqueItems");
  if ((k = json_get(s, "contains"))) {
    const Json *least = json_get(s, "minContains"), *most = json_get(s, "maxContains");
    double n = 0;
    for (int64_t i = 0; i < v->n; i++) n += inner_fits(j, k, &v->item[i], (Str){0}, i);
    if (n < (least ? least->f : 1) || (most && n > most->f)) return no(j, "contains");
  }
  return true;
}

// ---- references ----
static const Json *anchor(const Json *at, Str name) {
  const Json *a = json_get(at, "$anchor");
  if (a && a->kind == JSON_STRING && str_eq(a->s, name)) return at;
  const Json *found = NULL;
  if (at->kind == JSON_OBJECT || at->kind == JSON_ARRAY)
    for (int64_t i = 0; i < at->n && !found; i++) found = anchor(&at->item[i], name);
  return found;
}

static Str unescape(Judge *j, Str s) {
  char *p = arena_alloc(j->a, s.n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) {
    unsigned c = (uint8_t)s.p[i];
    if (c == '%' && i + 2 < s.n) {
      const char *hex = "0123456789abcdef", *h = strchr(hex, s.p[i + 1] | 32);
      const char *l = strchr(hex, s.p[i + 2] | 32);
      if (h && l) c = (unsigned)((h - hex) * 16 + (l - hex)), i += 2;
    }
    p[n++] = (char)c;
  }
  int64_t out = 0;
  for (int64_t i = 0; i < n; i++, out++) {
    p[out] = p[i];
    if (p[i] == '~' && i + 1 < n && (p[i + 1] == '0' || p[i + 1] == '1'))
      p[out] = p[++i] == '0' ? '~' : '/';
  }
  return (Str){p, out};
}

static const Json *target(Judge *j, Str ref) {
  const Json *id = json_get(j->root, "$id"), *at = j->root;
  if (id && id->kind == JSON_STRING && ref.n >= id->s.n && str_eq((Str){ref.p, id->s.n}, id->s))
    ref = (Str){ref.p + id->s.n, ref.n - id->s.n};
  if (!ref.n) return at;
  if (ref.p[0] != '#') return NULL;
  if (ref.n > 1 && ref.p[1] != '/') return anchor(at, (Str){ref.p + 1, ref.n - 1});
  int64_t i = 1;
  while (i < ref.n && at) {
    int64_t from = ++i, index;
    while (i < ref.n && ref.p[i] != '/') i++;
    Str part = unescape(j, (Str){ref.p + from, i - from});
    const Json *next = NULL;
    for (int64_t k = 0; at->kind == JSON_OBJECT && k < at->n; k++)
      if (str_eq(at->key[k], part)) next = &at->item[k];
    if (at->kind == JSON_ARRAY && str_to_i64(part, &index) && index >= 0 && index < at->n)
      next = &at->item[index];
    at = next;
  }
  return at;
}

// ---- what is about the whole value ----
static bool combined_fit(Judge *j, const Json *s, const Json *v) {
  const Json *k;
  if ((k = json_get(s, "$ref"))) {
    const Json *to = target(j, k->s);
    if (!to) return j->unknown = true, no(j, "$ref");
    if (!fits(j, to, v)) return false;
  }
  k = json_get(s, "allOf");
  for (int64_t i = 0; k && i < k->n; i++)
    if (!fits(j, &k->item[i], v)) return false;
  bool any = false;
  k = json_get(s, "anyOf");
  for (int64_t i = 0; k && i < k->n && !any; i++) any = fits(j, &k->item[i], v);
  if (k && !any) return no(j, "anyOf");
  int64_t one = 0;
  k = json_get(s, "oneOf");
  for (int64_t i = 0; k && i < k->n; i++) one += fits(j, &k->item[i], v);
  if (k && one != 1) return no(j, "oneOf");
  if ((k = json_get(s, "not")) && fits(j, k, v)) return no(j, "not");
  if ((k = json_get(s, "if"))) {
    const Json *then = json_get(s, fits(j, k, v) ? "then" : "else");
    if (then && !fits(j, then, v)) return no(j, "if");
  }
  k = json_get(s, "dependentSchemas");
  for (int64_t i = 0; k && v->kind == JSON_OBJECT && i < k->n; i++)
    if (has_key(v, k->key[i]) && !fits(j, &k->item[i], v)) return no(j, "dependentSchemas");
  return true;
}

static void find_unknown(Judge *j, const Json *s) {
  static const char *const keys[] = {"unevaluatedProperties", "unevaluatedItems", "$dynamicRef"};
  for (int i = 0; i < 3; i++) {
    const Json *k = json_get(s, keys[i]);
    if (k && !(k->kind == JSON_BOOL && k->b)) j->unknown = true;
  }
}

static bool schema_fits(Judge *j, const Json *s, const Json *v) {
  const Json *k;
  find_unknown(j, s);
  if ((k = json_get(s, "type")) && !types_fit(k, v)) return no(j, "type");
  if ((k = json_get(s, "const")) && !equal(k, v)) return no(j, "const");
  if ((k = json_get(s, "enum"))) {
    bool any = false;
    for (int64_t i = 0; i < k->n; i++) any |= equal(&k->item[i], v);
    if (!any) return no(j, "enum");
  }
  if (!combined_fit(j, s, v)) return false;
  switch (v->kind) {
  case JSON_INT:
  case JSON_FLOAT: return number_fits(j, s, v);
  case JSON_STRING: return string_fits(j, s, v);
  case JSON_ARRAY: return array_fits(j, s, v);
  case JSON_OBJECT: return object_fits(j, s, v);
  case JSON_NULL:
  case JSON_BOOL: break;
  }
  return true;
}

static bool fits(Judge *j, const Json *schema, const Json *v) {
  if (j->depth >= DEPTH || --j->fuel < 0) return j->unknown = true;
  if (schema->kind == JSON_BOOL) return schema->b || no(j, "false");
  if (schema->kind != JSON_OBJECT) return j->unknown = true;
  j->depth++;
  bool yes = schema_fits(j, schema, v);
  j->depth--;
  return yes;
}

static tenon_status judge(Arena *a, Str schema, Str text, Diag *d) {
  Json s, v;
  Judge j = {.a = a, .d = d, .root = &s, .fuel = FUEL, .at = {"", 0}};
  TRY(json_parse(a, schema, d, &s));
  strbuf_init(&j.message, a);
  Diag why;
  diag_init(&why);
  if (json_parse(a, text, &why, &v))
    return fail(d, TENON_EINVAL, NOWHERE, "the answer is no JSON: %s", why.text);
  bool yes = fits(&j, &s, &v);
  if (j.unknown)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "the schema has a keyword or regular expression that the validator does not know");
  return yes ? TENON_OK : fail(d, TENON_EINVAL, NOWHERE, "%s", strbuf_text(&j.message));
}

tenon_status schema_validate(Str schema, Str text, Diag *d) {
  Arena a;
  Trap t;
  arena_init(&a);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = judge(&a, schema, text, d);
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}
