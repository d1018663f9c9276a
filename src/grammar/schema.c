// schema.c -- JSON Schemas (2020-12) as expressions: keywords, references, alternatives.
//
// Every keyword is known, and read, ignored as an annotation, or refused by its name.  What no
// vocabulary of JSON Schema has is an annotation, as the standard says.
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>

// ---- keywords ----
typedef enum { NOTE, READ, REFUSED } KeywordUse;
enum {
  IS_SCHEMA = 1,
  IS_LIST = 2,
  IS_MAP = 4,
  IS_TEXT = 8,
  IS_COUNT = 16,
  IS_NUMBER = 32,
  IS_ANY = 64,
  IS_FLAG = 128
};
static const struct {
  const char *name;
  KeywordUse use;
  int form;
} keywords[] = {
    // clang-format off
    {"type", READ, IS_ANY}, {"enum", READ, IS_LIST}, {"const", READ, IS_ANY},
    {"$ref", READ, IS_TEXT}, {"allOf", READ, IS_LIST}, {"anyOf", READ, IS_LIST}, {"oneOf", READ, IS_LIST},
    {"properties", READ, IS_MAP}, {"patternProperties", READ, IS_MAP}, {"additionalProperties", READ, IS_SCHEMA},
    {"propertyNames", READ, IS_SCHEMA}, {"required", READ, IS_LIST}, {"dependentRequired", READ, IS_MAP},
    {"minProperties", READ, IS_COUNT}, {"maxProperties", READ, IS_COUNT},
    {"items", READ, IS_SCHEMA}, {"prefixItems", READ, IS_LIST}, {"contains", READ, IS_SCHEMA},
    {"minContains", READ, IS_COUNT}, {"maxContains", REFUSED, IS_COUNT},
    {"minItems", READ, IS_COUNT}, {"maxItems", READ, IS_COUNT}, {"uniqueItems", READ, IS_FLAG},
    {"minLength", READ, IS_COUNT}, {"maxLength", READ, IS_COUNT}, {"pattern", READ, IS_TEXT}, {"format", READ, IS_TEXT},
    {"minimum", READ, IS_NUMBER}, {"maximum", READ, IS_NUMBER}, {"exclusiveMinimum", READ, IS_NUMBER},
    {"exclusiveMaximum", READ, IS_NUMBER}, {"multipleOf", READ, IS_NUMBER},
    {"not", REFUSED, IS_ANY}, {"if", REFUSED, IS_ANY}, {"dependentSchemas", REFUSED, IS_ANY},
    {"unevaluatedProperties", REFUSED, IS_SCHEMA}, {"unevaluatedItems", REFUSED, IS_SCHEMA},
    {"$dynamicRef", REFUSED, IS_ANY}, {"$recursiveRef", REFUSED, IS_ANY}, {"dependencies", REFUSED, IS_ANY},
    {"additionalItems", REFUSED, IS_ANY}, {"contentSchema", NOTE, IS_ANY},
    // clang-format on
};

// The JSON pointer of a node, as far as it is found.
static bool find_path(const Json *at, const Json *node, StrBuf *out) {
  int64_t n = out->n;
  if (at == node) return true;
  if (at->kind != JSON_OBJECT && at->kind != JSON_ARRAY) return false;
  for (int64_t i = 0; i < at->n; i++) {
    out->n = n;
    if (at->kind == JSON_OBJECT)
      strbuf_printf(out, "/%.*s", STR_ARG(at->key[i]));
    else
      strbuf_printf(out, "/%lld", (long long)i);
    if (find_path(&at->item[i], node, out)) return true;
  }
  out->n = n;
  return false;
}

tenon_status schema_fail(Schema *s, tenon_status code, const Json *at, const char *key,
                         const char *what) {
  StrBuf path;
  strbuf_init(&path, s->b->a);
  if (at) find_path(s->root, at, &path);
  return fail(s->b->d, code, NOWHERE, "JSON Schema, '#%.*s%s%s': %s", STR_ARG(strbuf_str(&path)),
              *key ? "/" : "", key, what);
}

static const char *bad_form(const Json *v, int form) {
  bool schema = v->kind == JSON_OBJECT || v->kind == JSON_BOOL;
  bool number = v->kind == JSON_INT || v->kind == JSON_FLOAT;
  if (form & IS_SCHEMA && !schema) return "it is no schema";
  if (form & IS_LIST && v->kind != JSON_ARRAY) return "it is no array";
  if (form & IS_MAP && v->kind != JSON_OBJECT) return "it is no object";
  if (form & IS_TEXT && v->kind != JSON_STRING) return "it is no string";
  if (form & IS_FLAG && v->kind != JSON_BOOL) return "it is no boolean";
  if (form & IS_NUMBER && !number) return "it is no number";
  if (form & IS_COUNT && (!number || v->f < 0 || v->f != (double)(int64_t)MIN(v->f, 9e15)))
    return "it is no count";
  return NULL;
}

static tenon_status check_keyword(Schema *s, const Json *schema, Str key, const Json *v) {
  char name[64];
  for (int64_t i = 0; i < ARRAY_LEN(keywords); i++) {
    if (!str_is(key, keywords[i].name)) continue;
    snprintf(name, sizeof name, "%s", keywords[i].name);
    const char *bad = bad_form(v, keywords[i].form);
    if (bad) return schema_fail(s, TENON_EINVAL, schema, name, bad);
    bool plain = !json_get(schema, "then") && !json_get(schema, "else");
    if (keywords[i].use != REFUSED || (str_is(key, "if") && plain)) return TENON_OK;
    if (keywords[i].form == IS_SCHEMA && (v->kind == JSON_BOOL ? v->b : !v->n)) return TENON_OK;
    return schema_fail(s, TENON_EUNSUPPORTED, schema, name, "this keyword is not supported");
  }
  return TENON_OK;
}

static tenon_status check_schema(Schema *s, const Json *v) {
  if (v->kind == JSON_BOOL) return TENON_OK;
  if (v->kind != JSON_OBJECT) return schema_fail(s, TENON_EINVAL, v, "", "it is no schema");
  build_fuel(s->b, v->n);
  for (int64_t i = 0; i < v->n; i++) TRY(check_keyword(s, v, v->key[i], &v->item[i]));
  const Json *id = json_get(v, "$id");
  if (id && v != s->root)
    return schema_fail(s, TENON_EUNSUPPORTED, v, "$id", "schemas within schemas are not supported");
  return TENON_OK;
}

// ---- references ----
static const Json *find_anchor(const Json *at, Str name) {
  if (at->kind != JSON_OBJECT && at->kind != JSON_ARRAY) return NULL;
  const Json *a = json_get(at, "$anchor");
  if (a && a->kind == JSON_STRING && str_eq(a->s, name)) return at;
  for (int64_t i = 0; i < at->n; i++) {
    const Json *found = find_anchor(&at->item[i], name);
    if (found) return found;
  }
  return NULL;
}

// A part of a JSON pointer, with %XX, ~0 and ~1 read.
static Str pointer_part(Schema *s, Str raw) {
  char *out = arena_alloc(s->b->a, raw.n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < raw.n; i++) {
    char c = raw.p[i];
    if (c == '%' && i + 2 < raw.n) {
      char two[3] = {raw.p[i + 1], raw.p[i + 2], 0}, *end;
      long v = strtol(two, &end, 16);
      if (end == two + 2) c = (char)v, i += 2;
    }
    out[n++] = c;
  }
  int64_t m = 0;
  for (int64_t i = 0; i < n; i++) {
    bool tilde = out[i] == '~' && i + 1 < n && (out[i + 1] == '0' || out[i + 1] == '1');
    out[m++] = tilde ? (out[i + 1] == '0' ? '~' : '/') : out[i];
    i += tilde;
  }
  return (Str){out, m};
}

static tenon_status resolve(Schema *s, const Json *schema, Str ref, const Json **out) {
  const Json *id = json_get(s->root, "$id"), *at = s->root;
  if (id && id->kind == JSON_STRING && ref.n >= id->s.n &&
      !memcmp(ref.p, id->s.p, (size_t)id->s.n) && (ref.n == id->s.n || ref.p[id->s.n] == '#'))
    ref = (Str){ref.p + id->s.n, ref.n - id->s.n};
  if (ref.n && ref.p[0] != '#')
    return schema_fail(s, TENON_EUNSUPPORTED, schema, "$ref",
                       "only references into the schema are supported");
  if (ref.n > 1 && ref.p[1] != '/') {
    at = find_anchor(s->root, (Str){ref.p + 1, ref.n - 1});
    if (!at) return schema_fail(s, TENON_EINVAL, schema, "$ref", "there is no such anchor");
  }
  for (int64_t i = 1; i < ref.n && ref.p[1] == '/';) {
    int64_t from = ++i;
    while (i < ref.n && ref.p[i] != '/') i++;
    Str part = pointer_part(s, (Str){ref.p + from, i - from});
    const Json *next = NULL;
    int64_t index;
    if (at->kind == JSON_OBJECT) {
      for (int64_t k = 0; k < at->n; k++)
        if (str_eq(at->key[k], part)) next = &at->item[k];
    } else if (at->kind == JSON_ARRAY && str_to_i64(part, &index) && index >= 0 && index < at->n) {
      next = &at->item[index];
    }
    if (!next) return schema_fail(s, TENON_EINVAL, schema, "$ref", "it points to nothing");
    at = next;
  }
  *out = at;
  return TENON_OK;
}

// ---- goals ----
tenon_status goal_add(Schema *s, Goal *g, const Json *schema) {
  if (!schema) return TENON_OK;
  TRY(check_schema(s, schema));
  if (schema->kind == JSON_BOOL) {
    g->never |= !schema->b;
    return TENON_OK;
  }
  int64_t at = 0;
  while (at < g->n && (uintptr_t)g->v[at] < (uintptr_t)schema) at++;
  if (at < g->n && g->v[at] == schema) return TENON_OK;
  const Json **v = arena_array(s->b->a, const Json *, g->n + 1);
  build_fuel(s->b, g->n + 1);
  if (at) memcpy(v, g->v, (size_t)at * sizeof *v);
  v[at] = schema;
  if (g->n > at) memcpy(v + at + 1, g->v + at, (size_t)(g->n - at) * sizeof *v);
  g->v = v;
  g->n++;
  return TENON_OK;
}

// Schemas to look at, and lists of which one is to be chosen.
typedef struct Expand {
  Goal todo, done;
  const Json *const *choice;
  int64_t nchoice;
} Expand;

// `if name is there, these are there too`, as two schemas of which one fits.
static const Json *dependent(Schema *s, Str name, const Json *others) {
  Arena *a = s->b->a;
  uint64_t have;
  if (intmap_get(&s->dependent, (uint64_t)(uintptr_t)others, &have))
    return (const Json *)(uintptr_t)have;
  Json *two = arena_array(a, Json, 2), *props = arena_new(a, Json), *list = arena_new(a, Json);
  Str *key = arena_array(a, Str, 3);
  key[0] = STR("properties"), key[1] = name, key[2] = STR("required");
  Json *never = arena_new(a, Json), *names = arena_array(a, Json, others->n + 1);
  *never = (Json){.kind = JSON_BOOL};
  *props = (Json){.kind = JSON_OBJECT, .n = 1, .key = &key[1], .item = never};
  for (int64_t i = 0; i < others->n; i++) names[i] = others->item[i];
  names[others->n] = (Json){.kind = JSON_STRING, .s = name};
  *list = (Json){.kind = JSON_ARRAY, .n = others->n + 1, .item = names};
  two[0] = (Json){.kind = JSON_OBJECT, .n = 1, .key = &key[0], .item = props};
  two[1] = (Json){.kind = JSON_OBJECT, .n = 1, .key = &key[2], .item = list};
  Json *any = arena_new(a, Json);
  *any = (Json){.kind = JSON_ARRAY, .n = 2, .item = two};
  intmap_put(&s->dependent, (uint64_t)(uintptr_t)others, (uint64_t)(uintptr_t)any);
  return any;
}

static tenon_status check_one_of(Schema *s, const Json *schema, const Json *list) {
  for (int64_t i = 0; i < list->n; i++)
    for (int64_t k = 0; k < i; k++) {
      Goal x = {0}, y = {0};
      bool disjoint = false;
      TRY(goal_add(s, &x, &list->item[i]));
      TRY(goal_add(s, &y, &list->item[k]));
      TRY(goals_disjoint(s, &x, &y, 0, &disjoint));
      if (!disjoint)
        return schema_fail(s, TENON_EUNSUPPORTED, schema, "oneOf",
                           "two of its schemas may fit one value; anyOf takes either");
    }
  return TENON_OK;
}

static tenon_status add_choice(Schema *s, Expand *e, const Json *list) {
  const Json **v = arena_array(s->b->a, const Json *, e->nchoice + 1);
  if (e->nchoice) memcpy(v, e->choice, (size_t)e->nchoice * sizeof *v);
  v[e->nchoice++] = list;
  e->choice = v;
  return TENON_OK;
}

// Whether a schema says anything of a value itself.
static bool is_flat(const Json *schema) {
  static const char *const others[] = {"$ref", "allOf", "anyOf", "oneOf", "dependentRequired",
                                       "if"};
  for (int64_t i = 0; i < schema->n; i++) {
    bool other = false, known = false;
    for (int64_t k = 0; k < ARRAY_LEN(others); k++) other |= str_is(schema->key[i], others[k]);
    for (int64_t k = 0; k < ARRAY_LEN(keywords); k++)
      known |= keywords[k].use == READ && str_is(schema->key[i], keywords[k].name);
    if (known && !other) return true;
  }
  return false;
}

static tenon_status expand_one(Schema *s, Expand *e, const Json *schema) {
  const Json *ref = json_get(schema, "$ref"), *all = json_get(schema, "allOf"), *to = NULL;
  const Json *needs = json_get(schema, "dependentRequired");
  if (ref) {
    TRY(resolve(s, schema, ref->s, &to));
    TRY(goal_add(s, &e->todo, to));
  }
  for (int64_t i = 0; all && i < all->n; i++) TRY(goal_add(s, &e->todo, &all->item[i]));
  const Json *any = json_get(schema, "anyOf"), *one = json_get(schema, "oneOf");
  if (any) TRY(add_choice(s, e, any));
  if (one) {
    TRY(check_one_of(s, schema, one));
    TRY(add_choice(s, e, one));
  }
  for (int64_t i = 0; needs && i < needs->n; i++) {
    if (needs->item[i].kind != JSON_ARRAY)
      return schema_fail(s, TENON_EINVAL, schema, "dependentRequired", "it is no object of arrays");
    if (needs->item[i].n) TRY(add_choice(s, e, dependent(s, needs->key[i], &needs->item[i])));
  }
  return TENON_OK;
}

static bool has(const Goal *g, const Json *schema) {
  for (int64_t i = 0; i < g->n; i++)
    if (g->v[i] == schema) return true;
  return false;
}

// Whether references and alternatives lead from `at` to `schema` and nowhere into a value.
static tenon_status leads_back(Schema *s, const Json *at, const Json *schema, Goal *met,
                               bool *out) {
  static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
  const Json *ref = json_get(at, "$ref"), *to = NULL;
  int64_t before = met->n;
  TRY(goal_add(s, met, at));
  if (met->n == before) return TENON_OK;
  if (ref) {
    TRY(resolve(s, at, ref->s, &to));
    *out |= to == schema;
    if (!*out && met->n <= LIMIT_GRAMMAR_NESTING) TRY(leads_back(s, to, schema, met, out));
  }
  for (int k = 0; k < 3; k++) {
    const Json *list = json_get(at, lists[k]);
    for (int64_t i = 0; list && i < list->n && !*out; i++) {
      *out |= &list->item[i] == schema;
      if (!*out && met->n <= LIMIT_GRAMMAR_NESTING)
        TRY(leads_back(s, &list->item[i], schema, met, out));
    }
  }
  return TENON_OK;
}

// `seen` has all that was looked at, `done` those of them that are flat.
static tenon_status expand(Schema *s, Expand e, Goal seen, Goals *out) {
  while (e.todo.n && !e.todo.never) {
    const Json *schema = e.todo.v[0];
    e.todo.v++;
    e.todo.n--;
    if (has(&seen, schema)) {
      Goal met = {0};
      bool back = false;
      TRY(leads_back(s, schema, schema, &met, &back));
      if (back) return schema_fail(s, TENON_EINVAL, schema, "", "it is defined by itself");
      continue;
    }
    TRY(goal_add(s, &seen, schema));
    if (is_flat(schema)) TRY(goal_add(s, &e.done, schema));
    TRY(expand_one(s, &e, schema));
  }
  if (e.todo.never) return TENON_OK;
  if (!e.nchoice) {
    if (out->n >= LIMIT_GRAMMAR_CHOICES)
      return schema_fail(s, TENON_EUNSUPPORTED, NULL, "", "too many alternatives");
    vec_push(s->b->a, out, e.done);
    return TENON_OK;
  }
  const Json *list = e.choice[--e.nchoice];
  for (int64_t i = 0; i < list->n; i++) {
    Expand branch = e;
    TRY(goal_add(s, &branch.todo, &list->item[i]));
    TRY(expand(s, branch, seen, out));
  }
  return TENON_OK;
}

tenon_status goal_expand(Schema *s, const Goal *g, Goals *out) {
  Expand e = {.todo = *g};
  Goal seen = {0};
  return expand(s, e, seen, out);
}

const Expr *goal_expr(Schema *s, const Goal *g) {
  if (g->never) return expr_new(s->b, E_NEVER);
  if (!g->n) return form_value(s->b);
  Str key = {(const char *)g->v, g->n * (int64_t)sizeof *g->v};
  uintptr_t have = (uintptr_t)strmap_get(&s->rule, key);
  if (!have) {
    int32_t rule = build_rule(s->b, STR("a schema"));
    have = (uintptr_t)rule + 1;
    strmap_put(&s->rule, key, (void *)have);
    vec_push(s->b->a, &s->todo, *g);
    vec_push(s->b->a, &s->todo_rule, rule);
  }
  return expr_rule(s->b, (int32_t)have - 1);
}

// ---- the rule of a goal ----
static tenon_status flat_expr(Schema *s, const Goal *g, const Expr **out) {
  Build *b = s->b;
  VEC(const Expr *) any = {0};
  const Json **value;
  int64_t n;
  bool listed;
  if (!g->n) return *out = form_value(b), TENON_OK;
  TRY(flat_values(s, g, &value, &n, &listed));
  if (listed) {
    for (int64_t i = 0; i < n; i++) {
      const Expr *x = form_literal(b, value[i]);
      vec_push(b->a, &any, x);
    }
    *out = expr_list(b, E_ALT, any.v, any.n);
    return TENON_OK;
  }
  unsigned types = flat_types(g);
  const Expr *x;
#define PUSH_IF(type, make)                                                                        \
  if (types & (type)) {                                                                            \
    make;                                                                                          \
    vec_push(b->a, &any, x);                                                                       \
  }
  PUSH_IF(TYPE_OBJECT, TRY(flat_object(s, g, &x)))
  PUSH_IF(TYPE_ARRAY, TRY(flat_array(s, g, &x)))
  PUSH_IF(TYPE_STRING, TRY(flat_string(s, g, &x)))
  PUSH_IF(TYPE_INTEGER, TRY(flat_number(s, g, !(types & TYPE_FRACTION), &x)))
  PUSH_IF(TYPE_BOOL, x = expr_alt(b, expr_z(b, "true"), expr_z(b, "false")))
  PUSH_IF(TYPE_NULL, x = expr_z(b, "null"))
#undef PUSH_IF
  *out = expr_list(b, E_ALT, any.v, any.n);
  return TENON_OK;
}

static tenon_status make_rule(Schema *s, const Goal *g, int32_t rule) {
  Goals flat = {0};
  VEC(const Expr *) any = {0};
  TRY(goal_expand(s, g, &flat));
  for (int64_t i = 0; i < flat.n; i++) {
    const Expr *x;
    bool same = flat.v[i].n == g->n && !memcmp(flat.v[i].v, g->v, (size_t)g->n * sizeof *g->v);
    // Each alternative is a rule of its own, so that equal ones are one.
    if (flat.n == 1 || same)
      TRY(flat_expr(s, &flat.v[i], &x));
    else
      x = goal_expr(s, &flat.v[i]);
    vec_push(s->b->a, &any, x);
  }
  build_body(s->b, rule, expr_list(s->b, E_ALT, any.v, any.n));
  return TENON_OK;
}

tenon_status schema_read(Build *b, Str text, int32_t *out_rule) {
  Schema s = {.b = b};
  Json *root = arena_new(b->a, Json);
  Goal g = {0};
  TRY(json_parse(b->a, text, b->d, root));
  s.root = root;
  strmap_init(&s.rule, b->a);
  intmap_init(&s.dependent, b->a);
  TRY(goal_add(&s, &g, root));
  const Expr *x = goal_expr(&s, &g);
  *out_rule = build_rule(b, STR("the schema"));
  build_body(b, *out_rule, x);
  for (int64_t i = 0; i < s.todo.n; i++) {
    Goal next = s.todo.v[i];
    TRY(make_rule(&s, &next, s.todo_rule.v[i]));
  }
  return TENON_OK;
}
