// place.c -- places in the automaton: sets of threads, each once, and steps from one to the next.
//
// A place is made when it is first come to, and its steps when they are first taken.  Two equal
// sets of threads are one place, so what is known of a place is known wherever it recurs.
#include "grammar/impl.h"

#include <stdlib.h>

static int by_thread(const void *x, const void *y) {
  const Thread *a = x, *b = y;
  if (a->state != b->state) return a->state < b->state ? -1 : 1;
  return (a->stack > b->stack) - (a->stack < b->stack);
}

// Threads that are to be looked at, each once.  Few are compared one by one, many found by hash.
enum { FEW = 16 };
typedef struct Closure {
  Grammar *g;
  int64_t n;
  bool exit;
  int32_t deep;
} Closure;

static uint64_t hash_thread(Thread t) {
  return hash_u64((uint64_t)(uint32_t)t.state << 32 | (uint32_t)t.stack);
}

// The hash table holds indices + 1 of all threads once there are more than FEW.
static void fill_slots(Grammar *g, int64_t n) {
  memset(g->work_slot, 0, (size_t)(4 * g->work_cap) * sizeof(int32_t));
  for (int64_t i = 0; i < n; i++) {
    uint64_t h = hash_thread(g->work[i]);
    while (g->work_slot[h & (uint64_t)(4 * g->work_cap - 1)]) h++;
    g->work_slot[h & (uint64_t)(4 * g->work_cap - 1)] = (int32_t)i + 1;
  }
}

static void grow(Closure *c) {
  Grammar *g = c->g;
  int64_t cap = g->work_cap ? 2 * g->work_cap : 4 * FEW;
  Thread *v = arena_array(&g->cache, Thread, cap);
  int32_t *base = arena_array(&g->cache, int32_t, cap);
  int32_t *slot = arena_array(&g->cache, int32_t, 4 * cap);
  if (c->n) memcpy(v, g->work, (size_t)c->n * sizeof *v);
  if (c->n) memcpy(base, g->work_base, (size_t)c->n * sizeof *base);
  g->work = v;
  g->work_base = base;
  g->work_cap = cap;
  g->work_slot = slot;
  if (c->n > FEW) fill_slots(g, c->n);
}

// `base` as in Grammar.work_base.
static void add(Closure *c, int32_t state, int32_t stack, int32_t base) {
  Grammar *g = c->g;
  int64_t at = 0;
  c->deep = MAX(c->deep, g->stack.v[stack].depth + g->state[state].height);
  if (g->stack.v[stack].depth + g->state[state].height > g->depth_most) return;
  if (c->n == g->work_cap) grow(c);
  if (c->n < FEW) {
    while (at < c->n && (g->work[at].state != state || g->work[at].stack != stack)) at++;
  } else {
    if (c->n == FEW) fill_slots(g, c->n);
    uint64_t mask = (uint64_t)(4 * g->work_cap - 1), h = hash_thread((Thread){state, stack});
    at = c->n;
    for (int32_t i; (i = g->work_slot[h & mask]) != 0; h++)
      if (g->work[i - 1].state == state && g->work[i - 1].stack == stack) {
        at = i - 1;
        break;
      }
    if (at == c->n) g->work_slot[h & mask] = (int32_t)c->n + 1;
  }
  if (at < c->n) {
    if (base < 0) g->work_base[at] = -1;
    return;
  }
  g->work[at] = (Thread){state, stack};
  g->work_base[at] = base;
  c->n++;
}

// Behind a rule's end: what was called from there goes on under its kernel, else a kernel begins.
static void pop(Closure *c, int32_t stack, int32_t base) {
  Grammar *g = c->g;
  const Stack *s = &g->stack.v[stack];
  if (!stack)
    c->exit = true;
  else
    add(c, s->ret, s->below, base >= 0 && s->depth > base ? base : -1);
}

// All that can be come to from the threads without a byte.
static void close_all(Closure *c) {
  Grammar *g = c->g;
  for (int64_t i = 0; i < c->n; i++) {
    Thread t = g->work[i];
    int32_t base = g->work_base[i] < 0 ? g->stack.v[t.stack].depth : g->work_base[i];
    const State *s = &g->state[t.state];
    if (s->final) pop(c, t.stack, base);
    for (int32_t k = s->call; k < s->call + s->ncall; k++) {
      const Call *call = &g->call[k];
      if (call->rule == RULE_EMPTY) {
        if (call->ret >= 0)
          add(c, call->ret, t.stack, base);
        else
          pop(c, t.stack, base);
        continue;
      }
      int32_t stack = call->ret < 0 ? t.stack : stack_push(g, call->ret, t.stack);
      add(c, g->start[call->rule], stack, base);
    }
  }
}

int32_t stack_push(Grammar *g, int32_t ret, int32_t below) {
  uint64_t h = hash_thread((Thread){ret, below});
  for (;; h++) {
    int32_t at = g->stack_slot[h & (uint64_t)(g->stack_cap - 1)];
    if (!at) break;
    if (g->stack.v[at].ret == ret && g->stack.v[at].below == below) return at;
  }
  if (2 * g->stack.n >= g->stack_cap) {
    int64_t cap = 2 * g->stack_cap;
    int32_t *slot = arena_array(&g->cache, int32_t, cap);
    for (int32_t i = 1; i < g->stack.n; i++) {
      uint64_t k = hash_thread((Thread){g->stack.v[i].ret, g->stack.v[i].below});
      while (slot[k & (uint64_t)(cap - 1)]) k++;
      slot[k & (uint64_t)(cap - 1)] = i;
    }
    g->stack_slot = slot;
    g->stack_cap = cap;
    h = hash_thread((Thread){ret, below});
    while (slot[h & (uint64_t)(cap - 1)]) h++;
  }
  const Stack *b = &g->stack.v[below];
  int64_t cost = (int64_t)b->cost + g->state[ret].cost;
  Stack s = {ret, below, (int32_t)MIN(cost, COST_NEVER), b->depth + 1};
  vec_push(&g->cache, &g->stack, s);
  g->stack_slot[h & (uint64_t)(g->stack_cap - 1)] = (int32_t)g->stack.n - 1;
  return (int32_t)g->stack.n - 1;
}

static uint64_t hash_place(const Thread *t, int64_t n, bool exit) {
  return hash_bytes(t, n * (int64_t)sizeof *t, exit ? 7 : 3);
}

static int64_t thread_cost(const Grammar *g, Thread t) {
  return (int64_t)g->state[t.state].cost + g->stack.v[t.stack].cost;
}

static void grow_places(Grammar *g) {
  int64_t cap = 2 * g->place_cap;
  int32_t *slot = arena_array(&g->cache, int32_t, cap);
  for (int32_t i = 1; i < g->place.n; i++) {
    const Place *p = g->place.v[i];
    uint64_t k = hash_place(p->thread, p->n, p->exit);
    while (slot[k & (uint64_t)(cap - 1)]) k++;
    slot[k & (uint64_t)(cap - 1)] = i;
  }
  g->place_slot = slot;
  g->place_cap = cap;
}

// *out_new: it was not there before.
static int32_t make_sorted(Grammar *g, const Thread *t, int64_t n, bool exit, bool *out_new) {
  *out_new = false;
  uint64_t h = hash_place(t, n, exit);
  for (;; h++) {
    int32_t at = g->place_slot[h & (uint64_t)(g->place_cap - 1)];
    if (!at) break;
    const Place *p = g->place.v[at];
    if (p->n == n && p->exit == exit && !memcmp(p->thread, t, (size_t)n * sizeof *t)) return at;
  }
  if (2 * g->place.n >= g->place_cap) {
    grow_places(g);
    h = hash_place(t, n, exit);
    while (g->place_slot[h & (uint64_t)(g->place_cap - 1)]) h++;
  }
  Place *p = arena_new(&g->cache, Place);
  p->n = (int32_t)n;
  p->exit = exit;
  p->thread = arena_dup(&g->cache, t, n * (int64_t)sizeof *t);
  int64_t cost = exit ? 0 : COST_NEVER;
  for (int64_t i = 0; i < n; i++) cost = MIN(cost, thread_cost(g, t[i]));
  p->cost = (int32_t)cost;
  p->next = g->unknown;
  vec_push(&g->cache, &g->place, p);
  *out_new = true;
  g->place_slot[h & (uint64_t)(g->place_cap - 1)] = (int32_t)g->place.n - 1;
  return (int32_t)g->place.n - 1;
}

int32_t place_make(Grammar *g, const Thread *t, int64_t n, bool exit) {
  Thread *copy = arena_dup(&g->cache, t, n * (int64_t)sizeof *t);
  bool new;
  if (n) qsort(copy, (size_t)n, sizeof *copy, by_thread);
  int32_t to = make_sorted(g, copy, n, exit, &new);
  if (new) {
    g->place.v[to]->kernel = copy;
    g->place.v[to]->nkernel = (int32_t)n;
  }
  return to;
}

// The place of a closure's threads that take a symbol.  Beyond LIMIT_GRAMMAR_THREADS those that end
// soonest stay: fewer answers are allowed then, and each of them is one still.
static int32_t place_of(Closure *c) {
  Grammar *g = c->g;
  int64_t n = 0, kernels = 0;
  Thread *v = g->work;
  for (int64_t i = 0; i < c->n; i++) kernels += g->work_base[i] < 0;
  if (g->kernel_cap < kernels) {
    g->kernel_cap = 2 * kernels;
    g->kernel = arena_array(&g->cache, Thread, g->kernel_cap);
  }
  kernels = 0;
  for (int64_t i = 0; i < c->n; i++) {
    if (g->work_base[i] < 0) g->kernel[kernels++] = v[i];
    if (g->state[v[i].state].nedge) v[n++] = v[i];
  }
  for (; n > LIMIT_GRAMMAR_THREADS; n--) {
    int64_t worst = 0;
    g->cut = true;
    for (int64_t i = 1; i < n; i++)
      if (thread_cost(g, v[i]) >= thread_cost(g, v[worst])) worst = i;
    v[worst] = v[n - 1];
  }
  if (!n && !c->exit) return 0;
  bool new;
  if (n > 1) qsort(v, (size_t)n, sizeof *v, by_thread);
  int32_t to = make_sorted(g, v, n, c->exit, &new);
  Place *p = g->place.v[to];
  p->deep = MAX(p->deep, c->deep);
  if (new) {
    p->kernel = arena_dup(&g->cache, g->kernel, kernels * (int64_t)sizeof *p->kernel);
    p->nkernel = (int32_t)kernels;
  }
  return to;
}

int32_t place_of_state(Grammar *g, int32_t state, int32_t stack) {
  Closure c = {.g = g};
  add(&c, state, stack, -1);
  close_all(&c);
  return place_of(&c);
}

int32_t place_step(Grammar *g, int32_t place, int cls) {
  Place *p = g->place.v[place];
  int symbol = g->class_symbol[cls];
  Closure c = {.g = g};
  for (int32_t i = 0; i < p->n; i++) {
    const State *s = &g->state[p->thread[i].state];
    int32_t lo = s->edge, hi = s->edge + s->nedge;
    while (lo < hi) {
      int32_t mid = (lo + hi) / 2;
      if (g->edge[mid].hi < symbol)
        lo = mid + 1;
      else
        hi = mid;
    }
    if (lo < s->edge + s->nedge && g->edge[lo].lo <= symbol)
      add(&c, g->edge[lo].to, p->thread[i].stack, -1);
  }
  if (c.n) close_all(&c);
  int32_t to = c.n ? place_of(&c) : 0;
  if (p->next == g->unknown)
    p->next = arena_dup(&g->cache, g->unknown, g->classes * (int64_t)sizeof(int32_t));
  return p->next[cls] = to;
}

void place_begin(Grammar *g) {
  arena_deinit(&g->cache);
  arena_init(&g->cache);
  g->place.v = NULL;
  g->place.n = g->place.cap = 0;
  g->stack.v = NULL;
  g->stack.n = g->stack.cap = 0;
  g->scratch = NULL;
  g->work = NULL;
  g->work_slot = NULL;
  g->work_cap = 0;
  g->kernel_cap = 0;
  g->place_cap = g->stack_cap = 256;
  g->place_slot = arena_array(&g->cache, int32_t, g->place_cap);
  g->stack_slot = arena_array(&g->cache, int32_t, g->stack_cap);
  g->local = arena_array(&g->cache, Local *, g->nstate);
  Stack bottom = {-1, -1, 0, 0};
  vec_push(&g->cache, &g->stack, bottom);
  g->unknown = arena_array(&g->cache, int32_t, g->classes);
  memset(g->unknown, 0xff, (size_t)g->classes * sizeof(int32_t));
  Place *nowhere = arena_new(&g->cache, Place);
  nowhere->next = arena_array(&g->cache, int32_t, g->classes);
  vec_push(&g->cache, &g->place, nowhere);
}
