// finish.c -- the whole automaton: recursion to the left, costs of ending, what cannot end.
//
// Costs are found as Knuth generalises Dijkstra: the state with the least cost is settled next, and
// a call costs what the rule's beginning and what follows cost together.  A token is a step within
// one rule; tokens that reach over a rule's end only make answers shorter than their cost.
#include "grammar/impl.h"

#include <stdlib.h>

// Bytes that an edge may span for the trie to be walked behind it, nodes that a walk looks at.
enum { NARROW = 16, WALK = 400 };

typedef struct Step {
  int32_t from, to;
} Step;
typedef struct Heap {
  int32_t cost, state;
} Heap;
typedef struct Finish {
  Build *b;
  Dfa *m;
  VEC(Step) step;           // by one token
  int32_t *into, *by_from;  // [nstate + 1] offsets of steps by their `to`
  VEC(Heap) heap;
  int32_t *ret_first, *rule_first;  // calls by `ret` and by rule: heads of lists
  int32_t *ret_next, *rule_next;    // [ncall]
  int32_t *caller;                  // [ncall]
  bool *settled;
} Finish;

// ---- steps by tokens ----
static void add_step(Finish *f, int32_t from, int32_t to, int64_t first) {
  for (int64_t i = first; i < f->step.n; i++)
    if (f->step.v[i].to == to) return;
  Step s = {from, to};
  vec_push(f->b->a, &f->step, s);
}

static bool any_single(const GrammarVocab *v, Edge e) {
  if (e.lo >= SYMBOL_TOKEN) return true;
  for (int c = e.lo; c <= MIN(e.hi, 255); c++)
    if (v->single[c]) return true;
  return e.hi >= SYMBOL_TOKEN;
}

static int32_t to_of(const Dfa *m, int32_t state, int symbol) {
  const State *s = &m->state.v[state];
  for (int32_t i = s->edge; i < s->edge + s->nedge; i++)
    if (m->edge.v[i].lo <= symbol && symbol <= m->edge.v[i].hi) return m->edge.v[i].to;
  return -1;
}

static bool is_narrow(const Dfa *m, int32_t state) {
  const State *s = &m->state.v[state];
  int width = 0;
  for (int32_t i = s->edge; i < s->edge + s->nedge; i++)
    width += m->edge.v[i].hi - m->edge.v[i].lo + 1;
  return width <= NARROW;
}

// Walks the vocabulary from a state, where few bytes go on; `whole`: wherever bytes go on.
static void walk(Finish *f, int32_t state, bool whole) {
  const Trie *t = &f->b->vocab->all;
  int32_t at[TOKEN_BYTES + 1];
  int64_t first = f->step.n, looked = 0;
  at[0] = state;
  for (int64_t n = 0; n < t->n && (whole || looked < WALK); looked++) {
    int32_t from = at[t->depth[n] - 1];
    int32_t to = whole || is_narrow(f->m, from) ? to_of(f->m, from, t->byte[n]) : -1;
    if (to < 0) {
      n = t->skip[n];
      continue;
    }
    if (t->token[n] >= 0) add_step(f, state, to, first);
    at[t->depth[n]] = to;
    n++;
  }
  build_fuel(f->b, looked / 4);
  const State *s = &f->m->state.v[state];
  for (int32_t i = s->edge; i < s->edge + s->nedge; i++)
    if (any_single(f->b->vocab, f->m->edge.v[i])) add_step(f, state, f->m->edge.v[i].to, first);
}

static void find_steps(Finish *f, bool whole) {
  f->step.n = 0;
  for (int32_t i = 0; i < f->m->state.n; i++)
    if ((whole && f->m->state.v[i].cost >= COST_NEVER) || is_narrow(f->m, i)) {
      walk(f, i, whole && f->m->state.v[i].cost >= COST_NEVER);
    } else {
      const State *s = &f->m->state.v[i];
      int64_t first = f->step.n;
      for (int32_t k = s->edge; k < s->edge + s->nedge; k++)
        if (any_single(f->b->vocab, f->m->edge.v[k])) add_step(f, i, f->m->edge.v[k].to, first);
    }
  Build *b = f->b;
  f->into = arena_array(b->a, int32_t, f->m->state.n + 2);
  f->by_from = arena_array(b->a, int32_t, f->step.n + 1);
  for (int64_t i = 0; i < f->step.n; i++) f->into[f->step.v[i].to + 2]++;
  for (int64_t i = 2; i < f->m->state.n + 2; i++) f->into[i] += f->into[i - 1];
  for (int64_t i = 0; i < f->step.n; i++)
    f->by_from[f->into[f->step.v[i].to + 1]++] = f->step.v[i].from;
}

// ---- costs ----
static void heap_push(Finish *f, int64_t cost, int32_t state, int32_t height) {
  State *s = &f->m->state.v[state];
  if (f->settled[state] || cost >= s->cost || cost >= COST_NEVER) return;
  s->cost = (int32_t)cost;
  s->height = height;
  Heap item = {(int32_t)cost, state};
  vec_push(f->b->a, &f->heap, item);
  int64_t i = f->heap.n - 1;
  for (; i > 0 && f->heap.v[(i - 1) / 2].cost > item.cost; i = (i - 1) / 2)
    f->heap.v[i] = f->heap.v[(i - 1) / 2];
  f->heap.v[i] = item;
}

static Heap heap_pop(Finish *f) {
  Heap top = f->heap.v[0], last = f->heap.v[--f->heap.n];
  int64_t i = 0, n = f->heap.n;
  for (;;) {
    int64_t k = 2 * i + 1;
    if (k >= n) break;
    if (k + 1 < n && f->heap.v[k + 1].cost < f->heap.v[k].cost) k++;
    if (f->heap.v[k].cost >= last.cost) break;
    f->heap.v[i] = f->heap.v[k];
    i = k;
  }
  if (n) f->heap.v[i] = last;
  return top;
}

// A call whose rule and whose return are both settled.
static void relax_call(Finish *f, int32_t call) {
  const Call *c = &f->m->call.v[call];
  int32_t start = f->b->rule.v[c->rule].start;
  if (!f->settled[start] || (c->ret >= 0 && !f->settled[c->ret])) return;
  const State *in = &f->m->state.v[start];
  int64_t cost = in->cost;
  int32_t height = in->height;
  if (c->ret >= 0) {
    const State *ret = &f->m->state.v[c->ret];
    cost += ret->cost;
    height = MAX(c->rule == RULE_EMPTY ? 0 : height + 1, ret->height);
  }
  heap_push(f, cost, f->caller[call], height);
}

static void find_costs(Finish *f) {
  Dfa *m = f->m;
  memset(f->settled, 0, (size_t)m->state.n);
  f->heap.n = 0;
  for (int32_t i = 0; i < m->state.n; i++) m->state.v[i].cost = COST_NEVER;
  for (int32_t i = 0; i < m->state.n; i++)
    if (m->state.v[i].final) heap_push(f, 0, i, 0);
  while (f->heap.n) {
    Heap top = heap_pop(f);
    int32_t s = top.state;
    if (f->settled[s]) continue;
    f->settled[s] = true;
    for (int32_t i = f->into[s]; i < f->into[s + 1]; i++)
      heap_push(f, (int64_t)top.cost + 1, f->by_from[i], m->state.v[s].height);
    for (int32_t c = f->ret_first[s]; c >= 0; c = f->ret_next[c]) relax_call(f, c);
    for (int32_t c = f->rule_first[s]; c >= 0; c = f->rule_next[c]) relax_call(f, c);
  }
}

static void list_calls(Finish *f) {
  Dfa *m = f->m;
  Build *b = f->b;
  f->ret_first = arena_array(b->a, int32_t, m->state.n);
  f->rule_first = arena_array(b->a, int32_t, m->state.n);
  f->ret_next = arena_array(b->a, int32_t, m->call.n + 1);
  f->rule_next = arena_array(b->a, int32_t, m->call.n + 1);
  f->caller = arena_array(b->a, int32_t, m->call.n + 1);
  f->settled = arena_array(b->a, bool, m->state.n);
  for (int64_t i = 0; i < m->state.n; i++) f->ret_first[i] = f->rule_first[i] = -1;
  for (int32_t i = 0; i < m->state.n; i++)
    for (int32_t c = m->state.v[i].call; c < m->state.v[i].call + m->state.v[i].ncall; c++) {
      int32_t start = b->rule.v[m->call.v[c].rule].start, ret = m->call.v[c].ret;
      f->caller[c] = i;
      f->rule_next[c] = f->rule_first[start];
      f->rule_first[start] = c;
      if (ret < 0) continue;
      f->ret_next[c] = f->ret_first[ret];
      f->ret_first[ret] = c;
    }
}

// What leads to no end is cut off.
static void cut(Dfa *m, Build *b) {
  for (int64_t i = 0; i < m->state.n; i++) {
    State *s = &m->state.v[i];
    int32_t n = 0;
    for (int32_t e = s->edge; e < s->edge + s->nedge; e++)
      if (m->state.v[m->edge.v[e].to].cost < COST_NEVER) m->edge.v[s->edge + n++] = m->edge.v[e];
    s->nedge = n;
    n = 0;
    for (int32_t c = s->call; c < s->call + s->ncall; c++) {
      Call call = m->call.v[c];
      if (m->state.v[b->rule.v[call.rule].start].cost < COST_NEVER &&
          (call.ret < 0 || m->state.v[call.ret].cost < COST_NEVER))
        m->call.v[s->call + n++] = call;
    }
    s->ncall = n;
  }
}

// ---- recursion to the left ----
// Ways that take no byte: into a called rule, and over one that may be empty.  A circle of them in
// which something is pushed has no end.
typedef struct Left {
  Finish *f;
  bool *empty;  // [nstate] the rule's end can be reached without a byte
  int32_t *index, *low, *component;
  bool *on;
  VEC(int32_t) path, at, edge;
  int32_t count, components;
} Left;

static void find_empty(Left *l) {
  Dfa *m = l->f->m;
  bool more = true;
  while (more) {
    more = false;
    build_fuel(l->f->b, m->state.n);
    for (int32_t i = (int32_t)m->state.n - 1; i >= 0; i--) {
      const State *s = &m->state.v[i];
      bool empty = s->final;
      for (int32_t c = s->call; c < s->call + s->ncall && !empty; c++) {
        const Call *call = &m->call.v[c];
        empty =
            l->empty[l->f->b->rule.v[call->rule].start] && (call->ret < 0 || l->empty[call->ret]);
      }
      if (empty && !l->empty[i]) l->empty[i] = more = true;
    }
  }
}

// The k-th way out of a state without a byte: even ones into rules, odd ones over them.
static int32_t way(Left *l, int32_t state, int32_t k, bool *out_any, bool *out_push) {
  const State *s = &l->f->m->state.v[state];
  *out_any = k < 2 * s->ncall;
  *out_push = false;
  if (!*out_any) return -1;
  const Call *c = &l->f->m->call.v[s->call + k / 2];
  int32_t start = l->f->b->rule.v[c->rule].start;
  if (k % 2) return c->ret >= 0 && l->empty[start] ? c->ret : -1;
  *out_push = c->ret >= 0;
  return c->rule == RULE_EMPTY ? -1 : start;
}

static void strong(Left *l, int32_t root) {
  Arena *a = l->f->b->a;
  vec_push(a, &l->at, root);
  vec_push(a, &l->edge, 0);
  while (l->at.n) {
    int32_t v = l->at.v[l->at.n - 1], *k = &l->edge.v[l->at.n - 1];
    if (*k == 0) {
      l->index[v] = l->low[v] = ++l->count;
      vec_push(a, &l->path, v);
      l->on[v] = true;
    }
    bool any, push;
    int32_t to = way(l, v, (*k)++, &any, &push);
    if (any) {
      if (to < 0) continue;
      if (!l->index[to]) {
        vec_push(a, &l->at, to);
        vec_push(a, &l->edge, 0);
      } else if (l->on[to]) {
        l->low[v] = MIN(l->low[v], l->index[to]);
      }
      continue;
    }
    l->at.n--;
    l->edge.n--;
    if (l->at.n) {
      int32_t up = l->at.v[l->at.n - 1];
      l->low[up] = MIN(l->low[up], l->low[v]);
    }
    if (l->low[v] != l->index[v]) continue;
    l->components++;
    for (int32_t w = -1; w != v;) {
      w = l->path.v[--l->path.n];
      l->on[w] = false;
      l->component[w] = l->components;
    }
  }
}

static tenon_status refuse_left(Finish *f) {
  Build *b = f->b;
  int64_t n = f->m->state.n;
  Left l = {.f = f,
            .empty = arena_array(b->a, bool, n),
            .index = arena_array(b->a, int32_t, n),
            .low = arena_array(b->a, int32_t, n),
            .component = arena_array(b->a, int32_t, n),
            .on = arena_array(b->a, bool, n)};
  find_empty(&l);
  for (int32_t i = 0; i < n; i++)
    if (f->m->state.v[i].ncall && !l.index[i]) strong(&l, i);
  for (int32_t i = 0; i < n; i++) {
    bool any = true, push;
    for (int32_t k = 0; any; k++) {
      int32_t to = way(&l, i, k, &any, &push);
      if (to < 0 || !push || l.component[to] != l.component[i]) continue;
      const Rule *r = &b->rule.v[f->m->call.v[f->m->state.v[i].call + k / 2].rule];
      return fail(b->d, TENON_EUNSUPPORTED, NOWHERE,
                  "rule '%.*s' begins with itself: recursion to the left is not supported",
                  STR_ARG(r->name));
    }
  }
  return TENON_OK;
}

// Whether a byte is in any UTF-8 text.
static bool utf8_has(int c) { return c < 0xc0 || (c > 0xc1 && c < 0xf5); }

tenon_status finish_automaton(Build *b, Dfa *m) {
  Finish f = {.b = b, .m = m};
  list_calls(&f);
  for (int whole = 0; whole < 2; whole++) {
    find_steps(&f, whole);
    find_costs(&f);
    // Where a byte has no token of its own, longer tokens may lead on though many bytes can come.
    bool all = true;
    for (int c = 0; c < 256; c++) all = all && (b->vocab->single[c] || !utf8_has(c));
    if (all) break;
  }
  cut(m, b);
  const State *root = &m->state.v[b->rule.v[b->root].start];
  if (root->cost >= COST_NEVER)
    return fail(b->d, TENON_EINVAL, NOWHERE,
                "no answer has this form, or none can be written with the model's tokens");
  if (root->height > b->depth_most)
    return fail(b->d, TENON_EUNSUPPORTED, NOWHERE,
                "the shortest answer nests deeper than %d levels", b->depth_most);
  return refuse_left(&f);
}
