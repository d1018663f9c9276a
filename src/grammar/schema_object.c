// schema_object.c -- objects and arrays: members in the order in which the schema names them, each
// at most once, then others; items by their place.
//
// An answer's members are in one order, so that none can come twice and every required one comes.
// Both are a list of parts (List): a graph over (how many parts are behind, how many of them were
// written), in which each part is a call, so that a part is one piece of the automaton however
// many places it can stand at.
#include "grammar/schema.h"

enum { PATTERNS = 4 };

typedef struct Part {
  const Expr *by;
  bool required;
} Part;
typedef struct List {
  const char *brackets;
  const Part *part;
  int64_t n;
  const Expr *rest;     // any number behind the parts; NULL: none
  int64_t least, most;  // of all; most -1: no bound
  bool in_order;        // no part may be left out, but all from one on
} List;

typedef VEC(GraphArc) Arcs;
typedef struct Grid {
  Build *b;
  Arcs arcs;
  int32_t nodes;
  int64_t counts;  // 0 ... counts - 1; the last one is "so many or more" where there is no bound
} Grid;

// Node (i, c): i parts are behind, c were written.  `ready`: behind a comma, before a part.
static int32_t grid_node(const Grid *g, int64_t i, int64_t c, bool ready) {
  return (int32_t)(2 + 2 * (i * g->counts + c) + ready);
}
static void join(Grid *g, int32_t from, int32_t to, const Expr *by) {
  GraphArc a = {from, to, by};
  build_fuel(g->b, 2);
  vec_push(g->b->a, &g->arcs, a);
}

static const Expr *list_expr(Build *b, const List *l) {
  Str open = {l->brackets, 1}, close = {l->brackets + 1, 1};
  int64_t bound = MAX(l->least, l->most), last_required = -1;
  Grid g = {.b = b, .counts = MAX(bound, 1) + 1};
  const Expr *space = form_space(b), *skip = expr_rule(b, RULE_EMPTY);
  const Expr *comma = expr_seq(b, expr_z(b, ","), space);
  const Expr *end = expr_seq(b, space, expr_bytes(b, close));
  for (int64_t i = 0; i < l->n; i++)
    if (l->part[i].required) last_required = i;
  if (l->most >= 0 && l->most < l->least) return expr_new(b, E_NEVER);
  build_fuel(b, (l->n + 1) * g.counts);
  for (int64_t i = 0; i <= l->n; i++)
    for (int64_t c = l->in_order ? MIN(i, g.counts - 1) : 0; c < g.counts; c++) {
      int32_t node = grid_node(&g, i, c, false), ready = grid_node(&g, i, c, true);
      int64_t next = l->most < 0 ? MIN(c + 1, g.counts - 1) : c + 1;
      bool more = l->most < 0 || next <= l->most;
      if (c) join(&g, node, ready, comma);
      if (i > last_required && c >= l->least && c) join(&g, node, 1, end);
      if (i == l->n) {
        if (more && l->rest) join(&g, ready, grid_node(&g, i, next, false), l->rest);
        continue;
      }
      if (l->in_order && c > i) break;
      if (more) join(&g, ready, grid_node(&g, i + 1, next, false), l->part[i].by);
      if (!l->part[i].required && !l->in_order)
        join(&g, ready, grid_node(&g, i + 1, c, true), skip);
    }
  join(&g, 0, grid_node(&g, 0, 0, true), expr_seq(b, expr_bytes(b, open), space));
  if (last_required < 0 && l->least <= 0) join(&g, 0, 1, expr_seq(b, expr_bytes(b, open), end));
  Expr *x = expr_new(b, E_GRAPH);
  x->arc = g.arcs.v;
  x->n = g.arcs.n;
  x->nodes = grid_node(&g, l->n, g.counts - 1, true) + 1;
  return x;
}

// A part as a rule that is never written into its callers.
static const Expr *alone(Build *b, const Expr *x) {
  int32_t rule = build_rule(b, STR("a member or item"));
  build_body(b, rule, x);
  b->rule.v[rule].alone = true;
  return expr_rule(b, rule);
}

// ---- objects ----
bool flat_requires(const Goal *g, Str name) {
  for (int64_t i = 0; i < g->n; i++) {
    const Json *list = json_get(g->v[i], "required");
    for (int64_t k = 0; list && k < list->n; k++)
      if (str_eq(list->item[k].s, name)) return true;
  }
  return false;
}

static const Json *of_name(const Json *map, Str name) {
  for (int64_t i = 0; map && i < map->n; i++)
    if (str_eq(map->key[i], name)) return &map->item[i];
  return NULL;
}

static tenon_status pattern_dfa(Schema *s, const Json *schema, Str pattern, Dfa *out) {
  const Expr *x;
  Diag why, *d = s->b->d;
  diag_init(&why);
  s->b->d = &why;
  tenon_status status = regex_read(s->b, pattern, REGEX_SEARCH | REGEX_NARROW, &x);
  s->b->d = d;
  if (status) return schema_fail(s, status, schema, "patternProperties", why.text);
  dfa_of_expr(s->b, x, out);
  return TENON_OK;
}

tenon_status member_goal(Schema *s, const Goal *g, Str name, Goal *out) {
  for (int64_t i = 0; i < g->n; i++) {
    const Json *v = of_name(json_get(g->v[i], "properties"), name);
    const Json *patterns = json_get(g->v[i], "patternProperties");
    bool met = v != NULL;
    TRY(goal_add(s, out, v));
    for (int64_t k = 0; patterns && k < patterns->n; k++) {
      Dfa d;
      TRY(pattern_dfa(s, g->v[i], patterns->key[k], &d));
      if (!dfa_takes(&d, name)) continue;
      met = true;
      TRY(goal_add(s, out, &patterns->item[k]));
    }
    if (!met) TRY(goal_add(s, out, json_get(g->v[i], "additionalProperties")));
  }
  return TENON_OK;
}

typedef struct Members {
  Schema *s;
  const Goal *g;
  VEC(Str) name;
  VEC(Part) part;
  const Expr *inside;  // of `propertyNames`, for the inside of a key's quotes; NULL: any
  Dfa inside_dfa;
} Members;

static const Expr *key_text(Build *b, Str name) {
  StrBuf text;
  JsonWriter w;
  strbuf_init(&text, b->a);
  json_init(&w, &text, true);
  json_str(&w, name);
  return expr_bytes(b, strbuf_str(&text));
}

static tenon_status add_member(Members *m, Str name) {
  Build *b = m->s->b;
  Goal goal = {0};
  for (int64_t i = 0; i < m->name.n; i++)
    if (str_eq(m->name.v[i], name)) return TENON_OK;
  build_fuel(b, m->name.n + 1);
  vec_push(b->a, &m->name, name);
  TRY(member_goal(m->s, m->g, name, &goal));
  const Expr *key = key_text(b, name);
  Str inside = {key->bytes.p + 1, key->bytes.n - 2};
  if (m->inside && !dfa_takes(&m->inside_dfa, inside)) goal.never = true;
  Part p = {.required = flat_requires(m->g, name)};
  p.by = alone(b, form_member(b, key, goal_expr(m->s, &goal)));
  if (!goal.never || p.required) vec_push(b->a, &m->part, p);
  return TENON_OK;
}

// The names that a schema allows by `propertyNames`.
static tenon_status read_names(Members *m) {
  Schema *s = m->s;
  Goal names = {0};
  Goals flat = {0};
  if (!flat_has(m->g, "propertyNames")) return TENON_OK;
  for (int64_t i = 0; i < m->g->n; i++)
    TRY(goal_add(s, &names, json_get(m->g->v[i], "propertyNames")));
  if (!names.n && !names.never) return TENON_OK;
  TRY(goal_expand(s, &names, &flat));
  m->inside = expr_new(s->b, E_NEVER);
  for (int64_t i = 0; i < flat.n; i++) {
    const Json **value;
    int64_t n;
    bool listed;
    const Expr *x;
    if (!(flat_types(&flat.v[i]) & TYPE_STRING)) continue;
    TRY(flat_values(s, &flat.v[i], &value, &n, &listed));
    for (int64_t k = 0; k < n; k++) {
      if (value[k]->kind != JSON_STRING) continue;
      const Expr *key = key_text(s->b, value[k]->s);
      m->inside =
          expr_alt(s->b, m->inside, expr_bytes(s->b, (Str){key->bytes.p + 1, key->bytes.n - 2}));
    }
    if (listed) continue;
    TRY(flat_inside(s, &flat.v[i], &x));
    if (!x) x = expr_repeat(s->b, expr_any(s->b, true), 0, -1);
    m->inside = expr_alt(s->b, m->inside, x);
  }
  dfa_of_expr(s->b, m->inside, &m->inside_dfa);
  return TENON_OK;
}

typedef struct KeyPattern {
  const Json *schema;  // that has it
  Str text;
  const Json *goal;
} KeyPattern;

static tenon_status list_patterns(Members *m, KeyPattern *out, int *out_n) {
  *out_n = 0;
  for (int64_t i = 0; i < m->g->n; i++) {
    const Json *p = json_get(m->g->v[i], "patternProperties");
    for (int64_t k = 0; p && k < p->n; k++) {
      if (*out_n == PATTERNS)
        return schema_fail(m->s, TENON_EUNSUPPORTED, m->g->v[i], "patternProperties",
                           "more than 4 patterns are not supported");
      out[(*out_n)++] = (KeyPattern){m->g->v[i], p->key[k], &p->item[k]};
    }
  }
  return TENON_OK;
}

// What a member must fit whose key meets the patterns in `set` and no others.
static tenon_status rest_goal(Members *m, const KeyPattern *p, int n, unsigned set, Goal *out) {
  for (int64_t i = 0; i < m->g->n; i++) {
    bool met = false;
    for (int k = 0; k < n; k++) {
      if (!(set >> k & 1) || p[k].schema != m->g->v[i]) continue;
      met = true;
      TRY(goal_add(m->s, out, p[k].goal));
    }
    if (!met) TRY(goal_add(m->s, out, json_get(m->g->v[i], "additionalProperties")));
  }
  return TENON_OK;
}

// Members that no schema names: NULL where there can be none.
static tenon_status rest_members(Members *m, const Expr **out) {
  Build *b = m->s->b;
  KeyPattern p[PATTERNS];
  const Expr *pattern[PATTERNS], *names = expr_new(b, E_NEVER);
  VEC(const Expr *) any = {0};
  int n;
  *out = NULL;
  TRY(list_patterns(m, p, &n));
  for (int k = 0; k < n; k++)
    TRY(regex_read(b, p[k].text, REGEX_SEARCH | REGEX_JSON | REGEX_NARROW, &pattern[k]));
  for (int64_t i = 0; i < m->name.n; i++) {
    const Expr *key = key_text(b, m->name.v[i]);
    names = expr_alt(b, names, expr_bytes(b, (Str){key->bytes.p + 1, key->bytes.n - 2}));
  }
  for (unsigned set = 0; set < 1u << n; set++) {
    Goal goal = {0};
    TRY(rest_goal(m, p, n, set, &goal));
    if (goal.never) continue;
    const Expr *key = m->inside ? m->inside : expr_repeat(b, expr_any(b, true), 0, -1);
    for (int k = 0; k < n; k++)
      key = expr_pair(b, E_AND, key,
                      set >> k & 1 ? pattern[k] : expr_pair(b, E_NOT, pattern[k], NULL));
    if (m->name.n) key = expr_pair(b, E_AND, key, expr_pair(b, E_NOT, names, NULL));
    bool plain = !n && !m->name.n && !m->inside;
    const Expr *x =
        form_member(b, plain ? form_string(b) : form_quoted(b, key), goal_expr(m->s, &goal));
    vec_push(b->a, &any, x);
  }
  if (any.n) *out = alone(b, expr_list(b, E_ALT, any.v, any.n));
  return TENON_OK;
}

tenon_status flat_object(Schema *s, const Goal *g, const Expr **out) {
  Members m = {.s = s, .g = g};
  TRY(read_names(&m));
  for (int64_t i = 0; i < g->n; i++) {
    const Json *p = json_get(g->v[i], "properties");
    for (int64_t k = 0; p && k < p->n; k++) TRY(add_member(&m, p->key[k]));
  }
  for (int64_t i = 0; i < g->n; i++) {
    const Json *r = json_get(g->v[i], "required");
    for (int64_t k = 0; r && k < r->n; k++) {
      if (r->item[k].kind != JSON_STRING)
        return schema_fail(s, TENON_EINVAL, g->v[i], "required", "it is no array of strings");
      TRY(add_member(&m, r->item[k].s));
    }
  }
  List l = {.brackets = "{}", .part = m.part.v, .n = m.part.n, .least = 0, .most = -1};
  TRY(rest_members(&m, &l.rest));
  int64_t required = 0;
  for (int64_t i = 0; i < l.n; i++) required += l.part[i].required;
  l.least = flat_count(g, "minProperties", false);
  l.most = flat_count(g, "maxProperties", true);
  if (l.least <= required) l.least = 0;
  if (l.most >= l.n && !l.rest) l.most = -1;
  if (MAX(l.least, l.most) > LIMIT_GRAMMAR_LENGTH)
    return schema_fail(s, TENON_EUNSUPPORTED, NULL, "minProperties", "too many members");
  *out = list_expr(s->b, &l);
  return TENON_OK;
}

// ---- arrays ----
static tenon_status item_goal(Schema *s, const Goal *g, int64_t at, int64_t contained, Goal *out) {
  for (int64_t i = 0; i < g->n; i++) {
    const Json *prefix = json_get(g->v[i], "prefixItems"), *items = json_get(g->v[i], "items");
    const Json *v = prefix && at < prefix->n ? &prefix->item[at] : items;
    TRY(goal_add(s, out, v));
    const Json *holds = json_get(g->v[i], "contains"), *n = json_get(g->v[i], "minContains");
    int64_t need = !holds ? 0 : n ? (int64_t)MIN(n->f, 1e9) : 1;
    if (at < MIN(need, contained)) TRY(goal_add(s, out, holds));
  }
  return TENON_OK;
}

// Items that must differ: known values, each at most once, in their order.
static tenon_status unique_items(Schema *s, const Goal *g, List *l) {
  Goal goal = {0};
  Goals flat = {0};
  VEC(Part) part = {0};
  TRY(item_goal(s, g, 0, 0, &goal));
  if (goal.n || goal.never) TRY(goal_expand(s, &goal, &flat));
  bool known = goal.n > 0 && !flat_has(g, "prefixItems") && !flat_has(g, "contains");
  VEC(const Json *) values = {0};
  for (int64_t i = 0; i < flat.n && known; i++) {
    const Json **v;
    int64_t n;
    TRY(flat_values(s, &flat.v[i], &v, &n, &known));
    for (int64_t k = 0; k < n && known; k++) {
      bool twice = false;
      for (int64_t j = 0; j < values.n; j++) twice |= json_same(values.v[j], v[k]);
      build_fuel(s->b, values.n + 1);
      if (twice) continue;
      vec_push(s->b->a, &values, v[k]);
      Part p = {alone(s->b, form_literal(s->b, v[k])), false};
      vec_push(s->b->a, &part, p);
    }
  }
  if (!known)
    return schema_fail(s, TENON_EUNSUPPORTED, g->v[0], "uniqueItems",
                       "it is supported for items of listed values");
  l->part = part.v;
  l->n = part.n;
  l->rest = NULL;
  l->in_order = false;
  return TENON_OK;
}

tenon_status flat_array(Schema *s, const Goal *g, const Expr **out) {
  List l = {.brackets = "[]", .in_order = true};
  int64_t prefix = 0, contained = 0;
  bool unique = false;
  for (int64_t i = 0; i < g->n; i++) {
    const Json *p = json_get(g->v[i], "prefixItems"), *u = json_get(g->v[i], "uniqueItems");
    const Json *n = json_get(g->v[i], "minContains");
    if (p) prefix = MAX(prefix, p->n);
    if (json_get(g->v[i], "contains")) contained = MAX(contained, n ? (int64_t)MIN(n->f, 1e9) : 1);
    unique |= u && u->b;
  }
  l.least = MAX(MAX(flat_count(g, "minItems", false), 0), contained);
  l.most = flat_count(g, "maxItems", true);
  if (l.most > LIMIT_GRAMMAR_LENGTH) l.most = MAX(LIMIT_GRAMMAR_LENGTH, l.least);
  if (MAX(l.least, contained) > LIMIT_GRAMMAR_LENGTH)
    return schema_fail(s, TENON_EUNSUPPORTED, NULL, "minItems", "too many items");
  int64_t places = MAX(prefix, contained);
  if (l.most >= 0) places = MIN(places, l.most);
  Part *part = arena_array(s->b->a, Part, places + 1);
  for (int64_t i = 0; i <= places; i++) {
    Goal goal = {0};
    TRY(item_goal(s, g, i, contained, &goal));
    // Items that cannot be end the array there.
    if (goal.never) {
      l.most = l.most < 0 ? i : MIN(l.most, i);
      break;
    }
    const Expr *x = alone(s->b, goal_expr(s, &goal));
    if (i == places) {
      l.rest = x;
      break;
    }
    part[l.n++] = (Part){x, false};
  }
  l.part = part;
  if (unique && (l.most < 0 || l.most > 1)) TRY(unique_items(s, g, &l));
  *out = list_expr(s->b, &l);
  return TENON_OK;
}
