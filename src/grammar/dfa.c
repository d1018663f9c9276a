// dfa.c -- products and complements of automata that call no rules.
#include "grammar/impl.h"

typedef struct Pairs {
  Build *b;
  Dfa *out;
  IntMap state_of;  // of a pair
  VEC(uint64_t) todo;
} Pairs;

static int32_t state_of_pair(Pairs *p, int32_t x, int32_t y, bool final) {
  uint64_t key = (uint64_t)(uint32_t)x << 32 | (uint32_t)y, have;
  if (intmap_get(&p->state_of, key, &have)) return (int32_t)have;
  if (p->out->state.n >= LIMIT_GRAMMAR_STATES)
    trap_raise(TENON_EUNSUPPORTED, "the form is too large: its automaton has more than %d states",
               LIMIT_GRAMMAR_STATES);
  build_fuel(p->b, 1);
  State s = {.final = final};
  intmap_put(&p->state_of, key, (uint64_t)p->out->state.n);
  vec_push(p->b->a, &p->out->state, s);
  vec_push(p->b->a, &p->todo, key);
  return (int32_t)p->out->state.n - 1;
}

void dfa_and(Build *b, const Dfa *x, const Dfa *y, Dfa *out) {
  *out = (Dfa){0};
  Pairs p = {.b = b, .out = out};
  intmap_init(&p.state_of, b->a);
  state_of_pair(&p, 0, 0, x->state.v[0].final && y->state.v[0].final);
  for (int64_t at = 0; at < p.todo.n; at++) {
    const State *s = &x->state.v[p.todo.v[at] >> 32];
    const State *t = &y->state.v[p.todo.v[at] & 0xffffffff];
    int32_t i = s->edge, k = t->edge, first = (int32_t)out->edge.n;
    while (i < s->edge + s->nedge && k < t->edge + t->nedge) {
      Edge e = x->edge.v[i], h = y->edge.v[k];
      int lo = MAX(e.lo, h.lo), hi = MIN(e.hi, h.hi);
      build_fuel(b, 1);
      if (lo <= hi) {
        bool final = x->state.v[e.to].final && y->state.v[h.to].final;
        Edge both = {(int16_t)lo, (int16_t)hi, state_of_pair(&p, e.to, h.to, final)};
        vec_push(b->a, &out->edge, both);
      }
      if (e.hi < h.hi)
        i++;
      else
        k++;
    }
    out->state.v[at].edge = first;
    out->state.v[at].nedge = (int32_t)out->edge.n - first;
  }
}

void dfa_not(Build *b, const Dfa *x, Dfa *out) {
  *out = (Dfa){0};
  int32_t sink = (int32_t)x->state.n;
  for (int32_t at = 0; at <= sink; at++) {
    State s = {.final = at == sink || !x->state.v[at].final, .edge = (int32_t)out->edge.n};
    int lo = 0;
    if (at < sink)
      for (int32_t i = 0; i < x->state.v[at].nedge; i++) {
        Edge e = x->edge.v[x->state.v[at].edge + i], gap = {(int16_t)lo, (int16_t)(e.lo - 1), sink};
        if (lo < e.lo) vec_push(b->a, &out->edge, gap);
        vec_push(b->a, &out->edge, e);
        lo = e.hi + 1;
      }
    Edge rest = {(int16_t)lo, 255, sink};
    if (lo <= 255) vec_push(b->a, &out->edge, rest);
    s.nedge = (int32_t)out->edge.n - s.edge;
    build_fuel(b, 1);
    vec_push(b->a, &out->state, s);
  }
}

static int32_t step(const Dfa *x, int32_t at, int symbol) {
  const State *s = &x->state.v[at];
  for (int32_t i = s->edge; i < s->edge + s->nedge; i++)
    if (x->edge.v[i].lo <= symbol && symbol <= x->edge.v[i].hi) return x->edge.v[i].to;
  return -1;
}

// State 0 of the result is what the text's beginning leads to.
void dfa_bound(Build *b, const Dfa *x, Dfa *out) {
  *out = (Dfa){0};
  int32_t begin = step(x, 0, SYMBOL_BEGIN);
  State none = {0};
  if (begin < 0) {
    vec_push(b->a, &out->state, none);
    return;
  }
  for (int32_t at = 0; at < x->state.n; at++) {
    State s = {.edge = (int32_t)out->edge.n};
    int32_t old = at == 0 ? begin : at == begin ? 0 : at, end = step(x, old, SYMBOL_END);
    s.final = end >= 0 && x->state.v[end].final;
    for (int32_t i = 0; i < x->state.v[old].nedge; i++) {
      Edge e = x->edge.v[x->state.v[old].edge + i];
      if (e.lo > 255) continue;
      e.hi = MIN(e.hi, 255);
      e.to = e.to == 0 ? begin : e.to == begin ? 0 : e.to;
      vec_push(b->a, &out->edge, e);
    }
    s.nedge = (int32_t)out->edge.n - s.edge;
    build_fuel(b, 1);
    vec_push(b->a, &out->state, s);
  }
}

bool dfa_takes(const Dfa *x, Str text) {
  int32_t at = 0;
  for (int64_t i = 0; i < text.n && at >= 0; i++) at = step(x, at, (uint8_t)text.p[i]);
  return at >= 0 && x->state.v[at].final;
}

bool dfa_is_empty(Build *b, const Dfa *x) {
  bool *met = arena_array(b->a, bool, x->state.n);
  VEC(int32_t) todo = {0};
  vec_push(b->a, &todo, 0);
  met[0] = true;
  while (todo.n) {
    const State *s = &x->state.v[todo.v[--todo.n]];
    if (s->final) return false;
    for (int32_t i = s->edge; i < s->edge + s->nedge; i++)
      if (!met[x->edge.v[i].to]) {
        met[x->edge.v[i].to] = true;
        vec_push(b->a, &todo, x->edge.v[i].to);
      }
  }
  return true;
}
