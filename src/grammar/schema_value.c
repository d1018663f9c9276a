// schema_value.c -- what flat goals say of types, listed values and strings; goals that exclude
// each other.
#include "grammar/schema.h"

#include <math.h>

static unsigned type_bit(Str name) {
  static const struct {
    const char *name;
    unsigned bits;
  } types[] = {{"null", TYPE_NULL},       {"boolean", TYPE_BOOL},
               {"integer", TYPE_INTEGER}, {"number", TYPE_INTEGER | TYPE_FRACTION},
               {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
               {"object", TYPE_OBJECT}};
  for (int64_t i = 0; i < ARRAY_LEN(types); i++)
    if (str_is(name, types[i].name)) return types[i].bits;
  return 0;
}

unsigned flat_types(const Goal *g) {
  unsigned all = TYPE_ALL;
  for (int64_t i = 0; i < g->n; i++) {
    const Json *t = json_get(g->v[i], "type");
    unsigned bits = 0;
    if (!t) continue;
    if (t->kind == JSON_STRING) bits = type_bit(t->s);
    for (int64_t k = 0; t->kind == JSON_ARRAY && k < t->n; k++) bits |= type_bit(t->item[k].s);
    all &= bits;
  }
  return all;
}

bool flat_has(const Goal *g, const char *key) {
  for (int64_t i = 0; i < g->n; i++)
    if (json_get(g->v[i], key)) return true;
  return false;
}

int64_t flat_count(const Goal *g, const char *key, bool smallest) {
  int64_t best = -1;
  for (int64_t i = 0; i < g->n; i++) {
    const Json *v = json_get(g->v[i], key);
    if (!v) continue;
    int64_t n = (int64_t)MIN(v->f, 1e9);
    best = best < 0 ? n : smallest ? MIN(best, n) : MAX(best, n);
  }
  return best;
}

bool json_same(const Json *x, const Json *y) {
  bool number = x->kind == JSON_INT || x->kind == JSON_FLOAT;
  if (number && (y->kind == JSON_INT || y->kind == JSON_FLOAT))
    return x->kind == JSON_INT && y->kind == JSON_INT ? x->i == y->i : x->f == y->f;
  if (x->kind != y->kind) return false;
  switch (x->kind) {
  case JSON_BOOL: return x->b == y->b;
  case JSON_STRING: return str_eq(x->s, y->s);
  case JSON_ARRAY:
    for (int64_t i = 0; i < x->n && x->n == y->n; i++)
      if (!json_same(&x->item[i], &y->item[i])) return false;
    return x->n == y->n;
  case JSON_OBJECT:
    for (int64_t i = 0; i < x->n && x->n == y->n; i++) {
      const Json *other = NULL;
      for (int64_t k = 0; k < y->n && !other; k++)
        if (str_eq(x->key[i], y->key[k])) other = &y->item[k];
      if (!other || !json_same(&x->item[i], other)) return false;
    }
    return x->n == y->n;
  default: return true;
  }
}

static unsigned type_of(const Json *v) {
  switch (v->kind) {
  case JSON_NULL: return TYPE_NULL;
  case JSON_BOOL: return TYPE_BOOL;
  case JSON_INT: return TYPE_INTEGER;
  case JSON_FLOAT: return v->f == floor(v->f) ? TYPE_INTEGER : TYPE_FRACTION;
  case JSON_STRING: return TYPE_STRING;
  case JSON_ARRAY: return TYPE_ARRAY;
  case JSON_OBJECT: return TYPE_OBJECT;
  }
  return 0;
}

static bool is_listed(const Json *schema, const Json *v) {
  const Json *list = json_get(schema, "enum"), *one = json_get(schema, "const");
  if (one && !json_same(one, v)) return false;
  if (!list) return true;
  for (int64_t i = 0; i < list->n; i++)
    if (json_same(&list->item[i], v)) return true;
  return false;
}

static bool number_fits(const Goal *g, const Json *v) {
  NumberRange r = flat_range(g);
  if (v->f < r.lo || v->f > r.hi || (r.over && v->f == r.lo) || (r.under && v->f == r.hi))
    return false;
  for (int64_t i = 0; i < g->n; i++) {
    const Json *m = json_get(g->v[i], "multipleOf");
    if (m && fmod(v->f, m->f) != 0) return false;
  }
  return true;
}

// Whether a listed value fits the other keywords.  Those of arrays and objects are not read here.
static tenon_status value_fits(Schema *s, const Goal *g, const Json *v, bool *out) {
  static const char *const others[] = {"properties",
                                       "patternProperties",
                                       "additionalProperties",
                                       "propertyNames",
                                       "required",
                                       "minProperties",
                                       "maxProperties",
                                       "items",
                                       "prefixItems",
                                       "contains",
                                       "minItems",
                                       "maxItems",
                                       "uniqueItems"};
  unsigned type = type_of(v);
  *out = (flat_types(g) & type) != 0;
  for (int64_t i = 0; i < g->n && *out; i++) *out = is_listed(g->v[i], v);
  if (!*out) return TENON_OK;
  if (type & (TYPE_INTEGER | TYPE_FRACTION)) *out = number_fits(g, v);
  if (type & TYPE_STRING) {
    const Expr *inside;
    Dfa d;
    StrBuf text;
    JsonWriter w;
    TRY(flat_inside(s, g, &inside));
    if (!inside) return TENON_OK;
    strbuf_init(&text, s->b->a);
    json_init(&w, &text, true);
    json_str(&w, v->s);
    dfa_of_expr(s->b, inside, &d);
    *out = dfa_takes(&d, (Str){text.p + 1, text.n - 2});
  }
  if (type & (TYPE_ARRAY | TYPE_OBJECT))
    for (int64_t i = 0; i < ARRAY_LEN(others); i++)
      for (int64_t k = 0; k < g->n; k++)
        if (json_get(g->v[k], others[i]))
          return schema_fail(s, TENON_EUNSUPPORTED, g->v[k], others[i],
                             "beside listed arrays or objects this keyword is not supported");
  return TENON_OK;
}

tenon_status flat_values(Schema *s, const Goal *g, const Json ***out, int64_t *out_n,
                         bool *out_any) {
  const Json *list = NULL;
  *out_n = 0;
  *out_any = false;
  for (int64_t i = 0; i < g->n && !*out_any; i++) {
    const Json *one = json_get(g->v[i], "const");
    list = json_get(g->v[i], "enum");
    *out_any = one || list;
    if (one) list = one;
    if (!*out_any) continue;
    bool single = one != NULL;
    int64_t n = single ? 1 : list->n;
    *out = arena_array(s->b->a, const Json *, n + 1);
    for (int64_t k = 0; k < n; k++) {
      const Json *v = single ? list : &list->item[k];
      bool fits;
      TRY(value_fits(s, g, v, &fits));
      if (fits) (*out)[(*out_n)++] = v;
    }
  }
  return TENON_OK;
}

// ---- strings ----
static const struct {
  const char *name, *pattern;
} formats[] = {
    {"date",
     "(19|20)\\d\\d-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)"
     "|02-(0[1-9]|1\\d|2[0-8]))"},
    {"time", "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"date-time",
     "(19|20)\\d\\d-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)"
     "|02-(0[1-9]|1\\d|2[0-8]))T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?"
     "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"duration", "P(\\d{1,4}W|(\\d{1,4}Y)?(\\d{1,2}M)?\\d{1,3}D|T\\d{1,4}[HMS])"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"ipv4", "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"},
    {"ipv6", "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"},
    {"hostname", "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?(\\.[a-z]([a-z0-9-]{0,30}[a-z0-9])?){0,4}"},
    {"email",
     "[a-zA-Z0-9_+-]+(\\.[a-zA-Z0-9_+-]+)*@[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+)*\\.[a-z]{2,8}"},
    {"uri", "(https?|ftp)://[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+)*(:\\d{1,4})?(/[a-zA-Z0-9._~-]*)*"
            "(\\?[a-zA-Z0-9._~=&-]*)?(#[a-zA-Z0-9._~-]*)?"},
    {"json-pointer", "(/[a-zA-Z0-9_.-]*)*"},
};

static tenon_status add_pattern(Schema *s, const Json *schema, const char *key, Str pattern,
                                int flags, const Expr **io) {
  const Expr *x;
  Diag why;
  diag_init(&why);
  Diag *d = s->b->d;
  s->b->d = &why;
  tenon_status status = regex_read(s->b, pattern, flags | REGEX_JSON | REGEX_NARROW, &x);
  s->b->d = d;
  if (status) return schema_fail(s, status, schema, key, why.text);
  *io = *io ? expr_pair(s->b, E_AND, *io, x) : x;
  return TENON_OK;
}

static tenon_status add_format(Schema *s, const Json *schema, const Expr **io) {
  const Json *v = json_get(schema, "format");
  for (int64_t i = 0; v && i < ARRAY_LEN(formats); i++)
    if (str_is(v->s, formats[i].name))
      return add_pattern(s, schema, "format", str_of(formats[i].pattern), 0, io);
  return TENON_OK;
}

static bool lengths(const Goal *g, int64_t *least, int64_t *most) {
  *least = MAX(flat_count(g, "minLength", false), 0);
  *most = flat_count(g, "maxLength", true);
  if (*most > LIMIT_GRAMMAR_LENGTH) *most = MAX(LIMIT_GRAMMAR_LENGTH, *least);
  return *least > 0 || *most >= 0;
}

static const Expr *run_of(Schema *s, const Expr *one, int64_t least, int64_t most) {
  if (most >= 0 && most < least) return expr_new(s->b, E_NEVER);
  return expr_repeat(s->b, one, least, most);
}

tenon_status flat_inside(Schema *s, const Goal *g, const Expr **out) {
  const Expr *x = NULL;
  int64_t least, most;
  *out = NULL;
  for (int64_t i = 0; i < g->n; i++) {
    const Json *p = json_get(g->v[i], "pattern");
    if (p) TRY(add_pattern(s, g->v[i], "pattern", p->s, REGEX_SEARCH, &x));
    TRY(add_format(s, g->v[i], &x));
  }
  if (lengths(g, &least, &most)) {
    if (MAX(least, most) > LIMIT_GRAMMAR_STATES)
      return schema_fail(s, TENON_EUNSUPPORTED, NULL, "minLength", "the string is too long");
    const Expr *run = run_of(s, expr_any(s->b, true), least, most);
    x = x ? expr_pair(s->b, E_AND, x, run) : run;
  }
  *out = x;
  return TENON_OK;
}

tenon_status flat_string(Schema *s, const Goal *g, const Expr **out) {
  const Expr *x;
  int64_t least, most;
  bool any = !lengths(g, &least, &most);
  if (MAX(least, most) > LIMIT_GRAMMAR_STATES)
    return schema_fail(s, TENON_EUNSUPPORTED, NULL, "minLength", "the string is too long");
  if (!flat_has(g, "pattern") && !flat_has(g, "format")) {
    *out =
        any ? form_string(s->b) : form_quoted(s->b, run_of(s, form_character(s->b), least, most));
    return TENON_OK;
  }
  TRY(flat_inside(s, g, &x));
  *out = x ? form_quoted(s->b, x) : form_string(s->b);
  return TENON_OK;
}

// ---- goals that exclude each other ----
static bool ranges_disjoint(const Goal *x, const Goal *y) {
  NumberRange a = flat_range(x), b = flat_range(y);
  return a.hi < b.lo || b.hi < a.lo || (a.hi == b.lo && (a.under || b.over)) ||
         (b.hi == a.lo && (b.under || a.over));
}

static tenon_status objects_disjoint(Schema *s, const Goal *x, const Goal *y, int depth,
                                     bool *out) {
  for (int64_t i = 0; i < x->n + y->n && !*out; i++) {
    const Json *list = json_get(i < x->n ? x->v[i] : y->v[i - x->n], "required");
    for (int64_t k = 0; list && k < list->n && !*out; k++) {
      Goal a = {0}, b = {0};
      TRY(member_goal(s, x, list->item[k].s, &a));
      TRY(member_goal(s, y, list->item[k].s, &b));
      *out = a.never || b.never;
      if (!*out) TRY(goals_disjoint(s, &a, &b, depth + 1, out));
    }
  }
  return TENON_OK;
}

static tenon_status flats_disjoint(Schema *s, const Goal *x, const Goal *y, int depth, bool *out) {
  const Json **v, **w;
  int64_t n, m;
  bool listed, other;
  unsigned both = flat_types(x) & flat_types(y);
  *out = !both;
  if (*out) return TENON_OK;
  TRY(flat_values(s, x, &v, &n, &listed));
  TRY(flat_values(s, y, &w, &m, &other));
  if (listed || other) {
    *out = true;
    for (int64_t i = 0; listed && other && i < n; i++)
      for (int64_t k = 0; k < m; k++) *out = *out && !json_same(v[i], w[k]);
    for (int64_t i = 0; i < (listed ? n : m) && listed != other && *out; i++) {
      bool fits;
      const Json *one = listed ? v[i] : w[i];
      if (one->kind == JSON_ARRAY || one->kind == JSON_OBJECT)
        return *out = !(both & type_of(one)), TENON_OK;
      TRY(value_fits(s, listed ? y : x, one, &fits));
      *out = !fits;
    }
    return TENON_OK;
  }
  if (both & ~(unsigned)(TYPE_INTEGER | TYPE_FRACTION | TYPE_OBJECT)) return TENON_OK;
  if (both & (TYPE_INTEGER | TYPE_FRACTION) && !ranges_disjoint(x, y)) return TENON_OK;
  if (both & TYPE_OBJECT) return objects_disjoint(s, x, y, depth, out);
  *out = true;
  return TENON_OK;
}

tenon_status goals_disjoint(Schema *s, const Goal *x, const Goal *y, int depth, bool *out) {
  Goals a = {0}, b = {0};
  *out = x->never || y->never;
  if (*out || depth > 4) return TENON_OK;
  TRY(goal_expand(s, x, &a));
  TRY(goal_expand(s, y, &b));
  build_fuel(s->b, a.n * b.n);
  *out = true;
  for (int64_t i = 0; i < a.n; i++)
    for (int64_t k = 0; k < b.n && *out; k++) TRY(flats_disjoint(s, &a.v[i], &b.v[k], depth, out));
  return TENON_OK;
}
