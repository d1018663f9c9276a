// nfa.c -- the expression of a rule as a deterministic part of the automaton.
//
// Expressions become nodes and arcs after Thompson, then sets of nodes become states.  A call is a
// symbol of its own: two calls of one rule out of one state are one call.  A rule that neither
// calls itself nor is large is written into its callers, so that what it begins with is told apart
// from their other ways by states rather than by threads.
#include "grammar/impl.h"

#include <stdlib.h>

enum { INLINE_SIZE = 300, DEPTH_MOST = 400 };

typedef struct Arc {
  int16_t lo, hi;  // lo -1: takes nothing
  int32_t call;    // -1: none
  int32_t to, next;
} Arc;
typedef struct Nfa {
  Build *b;
  VEC(Arc) arc;
  VEC(int32_t) first;  // of each node; -1: none
} Nfa;

static int32_t node(Nfa *f) {
  build_fuel(f->b, 1);
  vec_push(f->b->a, &f->first, -1);
  return (int32_t)(f->first.n - 1);
}
static void arc(Nfa *f, int32_t from, int lo, int hi, int32_t call, int32_t to) {
  build_fuel(f->b, 1);
  Arc a = {(int16_t)lo, (int16_t)hi, call, to, f->first.v[from]};
  vec_push(f->b->a, &f->arc, a);
  f->first.v[from] = (int32_t)(f->arc.n - 1);
}
static void skip(Nfa *f, int32_t from, int32_t to) { arc(f, from, -1, -1, -1, to); }
static int32_t bytes(Nfa *f, int32_t from, Str s, int32_t to) {
  for (int64_t i = 0; i < s.n; i++) {
    int32_t next = i + 1 == s.n ? to : node(f);
    arc(f, from, (uint8_t)s.p[i], (uint8_t)s.p[i], -1, next);
    from = next;
  }
  return to;
}

// ---- sets of characters ----
// The characters lo to hi, whose encodings have n bytes each.
static void utf8_same_length(Nfa *f, int32_t from, const uint8_t *lo, const uint8_t *hi, int n,
                             int32_t to) {
  static const uint8_t zeros[4] = {0x80, 0x80, 0x80, 0x80}, ones[4] = {0xbf, 0xbf, 0xbf, 0xbf};
  if (n == 1) {
    arc(f, from, lo[0], hi[0], -1, to);
    return;
  }
  if (lo[0] == hi[0]) {
    int32_t next = node(f);
    arc(f, from, lo[0], lo[0], -1, next);
    utf8_same_length(f, next, lo + 1, hi + 1, n - 1, to);
    return;
  }
  int first = lo[0], last = hi[0];
  if (memcmp(lo + 1, zeros, (size_t)(n - 1)) != 0) {
    int32_t next = node(f);
    arc(f, from, first, first, -1, next);
    utf8_same_length(f, next, lo + 1, ones, n - 1, to);
    first++;
  }
  if (memcmp(hi + 1, ones, (size_t)(n - 1)) != 0) {
    int32_t next = node(f);
    arc(f, from, last, last, -1, next);
    utf8_same_length(f, next, zeros, hi + 1, n - 1, to);
    last--;
  }
  if (first > last) return;
  int32_t next = node(f);
  arc(f, from, first, last, -1, next);
  utf8_same_length(f, next, zeros, ones, n - 1, to);
}

static void utf8_range(Nfa *f, int32_t from, uint32_t first, uint32_t last, int32_t to) {
  static const UnicodeRange part[] = {
      {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
  for (int i = 0; i < ARRAY_LEN(part); i++) {
    uint32_t lo = MAX(first, part[i].first), hi = MIN(last, part[i].last);
    if (lo > hi) continue;
    uint8_t a[4], z[4];
    int n = utf8_write(a, lo);
    utf8_write(z, hi);
    utf8_same_length(f, from, a, z, n, to);
  }
}

// Inside a JSON string each character has one spelling.  Those that begin with a backslash share
// nodes: behind it, behind \u00, and behind \u000 and \u001.
typedef struct Escapes {
  int32_t slash, zeros, high[2];  // -1: not made yet
} Escapes;

static void json_char(Nfa *f, int32_t from, uint32_t c, int32_t to, Escapes *e) {
  static const char named[][2] = {{'\b', 'b'}, {'\t', 't'}, {'\n', 'n'}, {'\f', 'f'},
                                  {'\r', 'r'}, {'"', '"'},  {'\\', '\\'}};
  if (e->slash < 0) {
    e->slash = node(f);
    arc(f, from, '\\', '\\', -1, e->slash);
  }
  for (int i = 0; i < ARRAY_LEN(named); i++)
    if (named[i][0] == (char)c) {
      arc(f, e->slash, named[i][1], named[i][1], -1, to);
      return;
    }
  if (e->zeros < 0) {
    e->zeros = node(f);
    bytes(f, e->slash, STR("u00"), e->zeros);
  }
  int32_t *high = &e->high[c >> 4];
  if (*high < 0) {
    *high = node(f);
    arc(f, e->zeros, '0' + (int)(c >> 4), '0' + (int)(c >> 4), -1, *high);
  }
  int low = "0123456789abcdef"[c & 15];
  arc(f, *high, low, low, -1, to);
}

static void set(Nfa *f, const Expr *x, int32_t from, int32_t to) {
  static const UnicodeRange plain[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, UNICODE_END - 1}};
  Escapes e = {-1, -1, {-1, -1}};
  for (int64_t i = 0; i < x->n; i++) {
    UnicodeRange r = x->range[i];
    if (!x->json) {
      utf8_range(f, from, r.first, r.last, to);
      continue;
    }
    for (int k = 0; k < ARRAY_LEN(plain); k++) {
      uint32_t lo = MAX(r.first, plain[k].first), hi = MIN(r.last, plain[k].last);
      if (lo <= hi) utf8_range(f, from, lo, hi, to);
    }
    for (uint32_t c = r.first; c <= r.last && c < 0x20; c++) json_char(f, from, c, to, &e);
    if (r.first <= '"' && r.last >= '"') json_char(f, from, '"', to, &e);
    if (r.first <= '\\' && r.last >= '\\') json_char(f, from, '\\', to, &e);
  }
}

// ---- expressions ----
static void add(Nfa *f, const Expr *x, int32_t from, int32_t to, int depth);

static void add_repeat(Nfa *f, const Expr *x, int32_t from, int32_t to, int depth) {
  int32_t at = from;
  for (int32_t i = 0; i < x->least; i++) {
    int32_t next = node(f);
    add(f, x->of[0], at, next, depth);
    at = next;
  }
  if (x->most < 0) {
    int32_t begin = node(f), end = node(f);
    skip(f, at, begin);
    add(f, x->of[0], begin, end, depth);
    skip(f, end, begin);
    skip(f, begin, to);
    return;
  }
  for (int32_t i = x->least; i < x->most; i++) {
    int32_t begin = node(f), next = node(f);
    skip(f, at, begin);
    skip(f, at, to);
    add(f, x->of[0], begin, next, depth);
    at = next;
  }
  skip(f, at, to);
}

static void add_dfa(Nfa *f, const Dfa *d, int32_t from, int32_t to) {
  int32_t base = (int32_t)f->first.n;
  for (int64_t i = 0; i < d->state.n; i++) node(f);
  skip(f, from, base);
  for (int64_t i = 0; i < d->state.n; i++) {
    const State *s = &d->state.v[i];
    for (int32_t e = s->edge; e < s->edge + s->nedge; e++)
      arc(f, base + (int32_t)i, d->edge.v[e].lo, d->edge.v[e].hi, -1, base + d->edge.v[e].to);
    if (s->final) skip(f, base + (int32_t)i, to);
  }
}

static void add_product(Nfa *f, const Expr *x, int32_t from, int32_t to) {
  Dfa p, q, r;
  dfa_of_expr(f->b, x->of[0], &p);
  if (x->kind == E_AND) {
    dfa_of_expr(f->b, x->of[1], &q);
    dfa_and(f->b, &p, &q, &r);
  } else if (x->kind == E_NOT) {
    dfa_not(f->b, &p, &r);
  } else {
    dfa_bound(f->b, &p, &r);
  }
  add_dfa(f, &r, from, to);
}

static void add_graph(Nfa *f, const Expr *x, int32_t from, int32_t to, int depth) {
  int32_t base = (int32_t)f->first.n - 2;
  for (int32_t i = 2; i < x->nodes; i++) node(f);
  // Node 0 may be come back to, and node 1 may be left again: they are nodes of their own.
  int32_t begin = node(f), end = node(f);
  skip(f, from, begin);
  skip(f, end, to);
  for (int64_t i = 0; i < x->n; i++) {
    int32_t a = x->arc[i].from, z = x->arc[i].to;
    add(f, x->arc[i].by,
        a == 0   ? begin
        : a == 1 ? end
                 : base + a,
        z == 0   ? begin
        : z == 1 ? end
                 : base + z,
        depth);
  }
}

// Nodes that an expression takes, about; at least `most` where it is too much, calls itself or is
// not whole.
static int64_t measure(Build *b, const Expr *x, int64_t most, int depth) {
  int64_t n = 0;
  if (depth > DEPTH_MOST) return most;
  build_fuel(b, 1);
  switch (x->kind) {
  case E_EMPTY:
  case E_NEVER:
  case E_SYMBOL: return 1;
  case E_BYTES: return x->bytes.n;
  case E_SET: return 1 + MIN(x->n, 100) * 2;
  case E_AND:
  case E_NOT:
  case E_BOUND: return 50;
  case E_REPEAT:
    n = measure(b, x->of[0], most, depth + 1);
    return MIN(n * MAX(1, MAX(x->least, x->most)), most);
  case E_GRAPH:
    for (int64_t i = 0; i < x->n && n < most; i++)
      n += 1 + measure(b, x->arc[i].by, most, depth + 1);
    return n;
  case E_SEQ:
  case E_ALT:
    for (int64_t i = 0; i < x->n && n < most; i++) n += 1 + measure(b, x->of[i], most, depth + 1);
    return n;
  case E_RULE: {
    Rule *r = &b->rule.v[x->rule];
    if (r->mark == 1) return r->recursive = true, most;
    if (r->mark == 2) return r->size < INLINE_SIZE ? r->size : 1;
    r->mark = 1;
    r->size = r->body ? measure(b, r->body, INLINE_SIZE, depth + 1) : INLINE_SIZE;
    r = &b->rule.v[x->rule];
    if (r->recursive || r->alone) r->size = INLINE_SIZE;
    r->mark = 2;
    return r->size < INLINE_SIZE ? r->size : 1;
  }
  }
  return most;
}

static void add_rule(Nfa *f, const Expr *x, int32_t from, int32_t to, int depth) {
  Rule *r = &f->b->rule.v[x->rule];
  if (r->mark == 0) measure(f->b, x, INLINE_SIZE, 0);
  r = &f->b->rule.v[x->rule];
  if (r->size < INLINE_SIZE && !r->alone && depth < DEPTH_MOST / 2)
    add(f, r->body, from, to, depth);
  else
    arc(f, from, -1, -1, x->rule, to);
}

static void add(Nfa *f, const Expr *x, int32_t from, int32_t to, int depth) {
  if (++depth > DEPTH_MOST)
    trap_raise(TENON_EUNSUPPORTED, "the form is nested too deeply: the limit is %d levels",
               DEPTH_MOST);
  switch (x->kind) {
  case E_EMPTY: skip(f, from, to); break;
  case E_NEVER: break;
  case E_BYTES: bytes(f, from, x->bytes, to); break;
  case E_SET: set(f, x, from, to); break;
  case E_SYMBOL: arc(f, from, x->symbol, x->symbol, -1, to); break;
  case E_SEQ:
    for (int64_t i = 0; i < x->n; i++) {
      int32_t next = i + 1 == x->n ? to : node(f);
      add(f, x->of[i], from, next, depth);
      from = next;
    }
    break;
  case E_ALT:
    for (int64_t i = 0; i < x->n; i++) add(f, x->of[i], from, to, depth);
    break;
  case E_REPEAT: add_repeat(f, x, from, to, depth); break;
  case E_RULE: add_rule(f, x, from, to, depth); break;
  case E_AND:
  case E_NOT:
  case E_BOUND: add_product(f, x, from, to); break;
  case E_GRAPH: add_graph(f, x, from, to, depth); break;
  }
}

// ---- sets of nodes ----
typedef struct Subset {
  Nfa *f;
  Dfa *out;
  StrMap state_of;  // bytes of a sorted set -> state + 1
  VEC(Str) set;     // of each state
  int32_t *mark;    // [nodes] the round in which a node was met
  int32_t round;
  VEC(int32_t) todo, found;
} Subset;

static int by_int(const void *x, const void *y) {
  int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
  return (a > b) - (a < b);
}

// The state of the nodes in `found`; -1 where there are none.
static int32_t state_of_found(Subset *u, int32_t accept) {
  Build *b = u->f->b;
  u->round++;
  u->todo.n = 0;
  for (int64_t i = 0; i < u->found.n; i++) vec_push(b->a, &u->todo, u->found.v[i]);
  u->found.n = 0;
  bool final = false;
  while (u->todo.n) {
    int32_t at = u->todo.v[--u->todo.n];
    if (u->mark[at] == u->round) continue;
    u->mark[at] = u->round;
    build_fuel(b, 1);
    bool holds = at == accept;
    final |= holds;
    for (int32_t i = u->f->first.v[at]; i >= 0; i = u->f->arc.v[i].next) {
      const Arc *a = &u->f->arc.v[i];
      if (a->lo < 0 && a->call < 0)
        vec_push(b->a, &u->todo, a->to);
      else
        holds = true;
    }
    if (holds) vec_push(b->a, &u->found, at);
  }
  if (!u->found.n) return -1;
  qsort(u->found.v, (size_t)u->found.n, sizeof(int32_t), by_int);
  Str key = {(const char *)u->found.v, u->found.n * (int64_t)sizeof(int32_t)};
  uintptr_t have = (uintptr_t)strmap_get(&u->state_of, key);
  if (have) return (int32_t)have - 1;
  if (u->out->state.n >= LIMIT_GRAMMAR_STATES)
    trap_raise(TENON_EUNSUPPORTED, "the form is too large: its automaton has more than %d states",
               LIMIT_GRAMMAR_STATES);
  key.p = arena_dup(b->a, key.p, key.n);
  State s = {.final = final};
  vec_push(b->a, &u->out->state, s);
  vec_push(b->a, &u->set, key);
  strmap_put(&u->state_of, key, (void *)(uintptr_t)u->out->state.n);
  return (int32_t)u->out->state.n - 1;
}

static void add_edges(Subset *u, int32_t at, const Arc *arcs, int64_t n, int32_t accept) {
  Build *b = u->f->b;
  uint8_t cut[SYMBOL_MOST + 1] = {0};
  int lowest = SYMBOL_MOST, highest = -1;
  for (int64_t i = 0; i < n; i++) {
    if (arcs[i].lo < 0) continue;
    cut[arcs[i].lo] = cut[arcs[i].hi + 1] = 1;
    lowest = MIN(lowest, arcs[i].lo);
    highest = MAX(highest, arcs[i].hi);
  }
  int32_t first = (int32_t)u->out->edge.n;
  for (int lo = lowest; lo <= highest;) {
    int hi = lo;
    while (!cut[hi + 1]) hi++;
    u->found.n = 0;
    for (int64_t i = 0; i < n; i++)
      if (arcs[i].lo >= 0 && arcs[i].lo <= lo && arcs[i].hi >= hi)
        vec_push(b->a, &u->found, arcs[i].to);
    build_fuel(b, n / 8 + 1);
    int32_t to = u->found.n ? state_of_found(u, accept) : -1;
    if (to >= 0) {
      Edge *last = u->out->edge.n > first ? &u->out->edge.v[u->out->edge.n - 1] : NULL;
      if (last && last->to == to && last->hi + 1 == lo && lo != SYMBOL_TOKEN) {
        last->hi = (int16_t)hi;
      } else {
        Edge e = {(int16_t)lo, (int16_t)hi, to};
        vec_push(b->a, &u->out->edge, e);
      }
    }
    lo = hi + 1;
  }
  u->out->state.v[at].edge = first;
  u->out->state.v[at].nedge = (int32_t)u->out->edge.n - first;
}

static int by_call(const void *x, const void *y) {
  return (((const Arc *)x)->call > ((const Arc *)y)->call) -
         (((const Arc *)x)->call < ((const Arc *)y)->call);
}

// Ways on that take nothing are not put together: each leads to what it was written for.
static void add_calls(Subset *u, int32_t at, Arc *arcs, int64_t n, int32_t accept) {
  Build *b = u->f->b;
  int32_t first = (int32_t)u->out->call.n;
  if (n) qsort(arcs, (size_t)n, sizeof *arcs, by_call);
  for (int64_t i = 0; i < n;) {
    int32_t rule = arcs[i].call;
    u->found.n = 0;
    for (; i < n && arcs[i].call == rule; i++) {
      vec_push(b->a, &u->found, arcs[i].to);
    }
    int32_t to = rule < 0 ? -1 : state_of_found(u, accept);
    if (to < 0) continue;
    Call c = {rule, to};
    vec_push(b->a, &u->out->call, c);
  }
  u->out->state.v[at].call = first;
  u->out->state.v[at].ncall = (int32_t)u->out->call.n - first;
}

void dfa_of_expr(Build *b, const Expr *x, Dfa *out) {
  *out = (Dfa){0};
  Nfa f = {.b = b};
  int32_t begin = node(&f), accept = node(&f);
  add(&f, x, begin, accept, 0);
  Subset u = {.f = &f, .out = out};
  strmap_init(&u.state_of, b->a);
  u.mark = arena_array(b->a, int32_t, f.first.n);
  VEC(Arc) arcs = {0};
  vec_push(b->a, &u.found, begin);
  if (state_of_found(&u, accept) < 0) {  // no way leads anywhere
    State s = {0};
    vec_push(b->a, &out->state, s);
    return;
  }
  for (int32_t at = 0; at < out->state.n; at++) {
    arcs.n = 0;
    const int32_t *set = (const int32_t *)u.set.v[at].p;
    for (int64_t i = 0; i < u.set.v[at].n / (int64_t)sizeof(int32_t); i++)
      for (int32_t k = f.first.v[set[i]]; k >= 0; k = f.arc.v[k].next)
        if (f.arc.v[k].lo >= 0 || f.arc.v[k].call >= 0) vec_push(b->a, &arcs, f.arc.v[k]);
    add_edges(&u, at, arcs.v, arcs.n, accept);
    add_calls(&u, at, arcs.v, arcs.n, accept);
  }
}

// ---- all rules ----
void build_automaton(Build *b, Dfa *out) {
  *out = (Dfa){0};
  VEC(int32_t) todo = {0};
  State empty = {.final = true};
  vec_push(b->a, &out->state, empty);
  b->rule.v[RULE_EMPTY].start = 0;
  vec_push(b->a, &todo, b->root);
  b->rule.v[b->root].start = -2;
  for (int64_t i = 0; i < todo.n; i++) {
    Rule *r = &b->rule.v[todo.v[i]];
    Dfa d;
    CHECK(r->body, "rule %.*s has no body", STR_ARG(r->name));
    dfa_of_expr(b, r->body, &d);
    r = &b->rule.v[todo.v[i]];
    int32_t base = (int32_t)out->state.n, edge = (int32_t)out->edge.n;
    int32_t call = (int32_t)out->call.n;
    r->start = base;
    if (base + d.state.n > LIMIT_GRAMMAR_STATES)
      trap_raise(TENON_EUNSUPPORTED, "the form is too large: its automaton has more than %d states",
                 LIMIT_GRAMMAR_STATES);
    for (int64_t k = 0; k < d.state.n; k++) {
      State s = d.state.v[k];
      s.edge += edge;
      s.call += call;
      vec_push(b->a, &out->state, s);
    }
    for (int64_t k = 0; k < d.edge.n; k++) {
      Edge e = d.edge.v[k];
      e.to += base;
      vec_push(b->a, &out->edge, e);
    }
    for (int64_t k = 0; k < d.call.n; k++) {
      Call c = d.call.v[k];
      const State *ret = &d.state.v[c.ret];
      c.ret = ret->final && !ret->nedge && !ret->ncall ? -1 : c.ret + base;
      vec_push(b->a, &out->call, c);
      if (b->rule.v[c.rule].start == -1) {
        b->rule.v[c.rule].start = -2;
        vec_push(b->a, &todo, c.rule);
      }
    }
  }
}
