// min_cut.c -- minimum cuts (min_cut.h) by Dinic's algorithm.
//
// Variables that are 1 are on the source's side.  Each phase finds every node's distance to the
// sink, by a search backwards from it, and then sends what it can along shortest paths; no
// recursion, since paths are as long as a network is deep.
//
// A graph in which thousands of phases would be needed gets what PHASES of them show: a node is 1
// when nothing that could still flow reaches the sink from it.  That is an assignment which pays no
// CUT_NEVER, if not the cheapest.
#include "base/min_cut.h"

enum { SOURCE, SINK, ENDS, PHASES = 512 };

void cut_init(Cut *c, Arena *a) {
  *c = (Cut){.arena = a};
  for (int i = 0; i < ENDS; i++) vec_push(a, &c->first, -1);
}

int32_t cut_var(Cut *c) {
  vec_push(c->arena, &c->first, -1);
  return c->n++;
}

static void add_arc(Cut *c, int32_t from, int32_t to, int64_t room) {
  if (room <= 0) return;
  CutArc there = {to, c->first.v[from], MIN(room, CUT_NEVER)}, back = {from, c->first.v[to], 0};
  c->first.v[from] = (int32_t)c->arc.n;
  vec_push(c->arena, &c->arc, there);
  c->first.v[to] = (int32_t)c->arc.n;
  vec_push(c->arena, &c->arc, back);
}

void cut_cost(Cut *c, int32_t v, int64_t if0, int64_t if1) {
  add_arc(c, SOURCE, ENDS + v, if0);
  add_arc(c, ENDS + v, SINK, if1);
}

void cut_pair(Cut *c, int32_t a, int32_t b, int64_t cost) { add_arc(c, ENDS + a, ENDS + b, cost); }

// Paid when own is not `one` and any user is; a further variable says whether any is.
static void want(Cut *c, int32_t own, const int32_t *user, int64_t n, bool one, int64_t cost) {
  int32_t only = -1, any = -1;
  for (int64_t i = 0; i < n; i++) {
    if (user[i] == (one ? CUT_ONE : CUT_ZERO)) {  // wanted whatever is chosen
      if (own >= 0) cut_cost(c, own, one ? cost : 0, one ? 0 : cost);
      return;
    }
    if (user[i] < 0) continue;
    if (only >= 0 && only != user[i]) any = any < 0 ? cut_var(c) : any;
    only = user[i];
  }
  if (only < 0) return;
  for (int64_t i = 0; any >= 0 && i < n; i++)
    if (user[i] >= 0) cut_pair(c, one ? user[i] : any, one ? any : user[i], CUT_NEVER);
  if (any < 0) any = only;
  if (own >= 0)
    cut_pair(c, one ? any : own, one ? own : any, cost);
  else
    cut_cost(c, any, one ? 0 : cost, one ? cost : 0);
}

void cut_shared(Cut *c, int32_t own, const int32_t *user, int64_t n, int64_t cost) {
  if (own != CUT_ONE) want(c, own, user, n, true, cost);
  if (own != CUT_ZERO) want(c, own, user, n, false, cost);
}

typedef struct Flow {
  Cut *c;
  int32_t n;
  int32_t *level;  // distance to the sink; -1: nothing flows there
  int32_t *at;     // the next arc to try
  int32_t *queue;
  int32_t *path;  // arcs
} Flow;

// Distances to the sink along arcs with room; whether the source reaches it.
static bool find_levels(Flow *f) {
  Cut *c = f->c;
  int32_t head = 0, tail = 0;
  for (int32_t i = 0; i < f->n; i++) f->level[i] = -1;
  f->level[SINK] = 0;
  f->queue[tail++] = SINK;
  while (head < tail) {
    int32_t v = f->queue[head++];
    for (int32_t i = c->first.v[v]; i >= 0; i = c->arc.v[i].next) {
      int32_t u = c->arc.v[i].to;
      c->work++;
      if (f->level[u] >= 0 || !c->arc.v[i ^ 1].room) continue;
      f->level[u] = f->level[v] + 1;
      f->queue[tail++] = u;
    }
  }
  return f->level[SOURCE] >= 0;
}

// Sends what fits along the path and goes back to where it is full.
static int32_t send(Flow *f, int32_t depth) {
  CutArc *arc = f->c->arc.v;
  int64_t room = CUT_NEVER;
  int32_t full = 0;
  for (int32_t i = 0; i < depth; i++) room = MIN(room, arc[f->path[i]].room);
  for (int32_t i = depth - 1; i >= 0; i--) {
    arc[f->path[i]].room -= room;
    // What never fills stays so.
    if (arc[f->path[i] ^ 1].room < CUT_NEVER) arc[f->path[i] ^ 1].room += room;
    if (!arc[f->path[i]].room) full = i;
  }
  return full;
}

static void fill_paths(Flow *f) {
  Cut *c = f->c;
  int32_t depth = 0, v = SOURCE;
  for (int32_t i = 0; i < f->n; i++) f->at[i] = c->first.v[i];
  for (;;) {
    if (v == SINK) {
      depth = send(f, depth);
      v = c->arc.v[f->path[depth] ^ 1].to;
      continue;
    }
    int32_t i = f->at[v];
    while (i >= 0 && (!c->arc.v[i].room || f->level[c->arc.v[i].to] != f->level[v] - 1)) {
      i = c->arc.v[i].next;
      c->work++;
    }
    f->at[v] = i;
    if (i >= 0) {
      f->path[depth++] = i;
      v = c->arc.v[i].to;
      continue;
    }
    if (!depth) return;
    f->level[v] = -1;  // a dead end
    v = c->arc.v[f->path[--depth] ^ 1].to;
  }
}

static void mark_from_source(Flow *f, bool *out) {
  Cut *c = f->c;
  bool *seen = arena_array(c->arena, bool, f->n);
  int32_t head = 0, tail = 0;
  seen[SOURCE] = true;
  f->queue[tail++] = SOURCE;
  while (head < tail)
    for (int32_t i = c->first.v[f->queue[head++]]; i >= 0; i = c->arc.v[i].next) {
      int32_t u = c->arc.v[i].to;
      if (seen[u] || !c->arc.v[i].room) continue;
      seen[u] = true;
      f->queue[tail++] = u;
    }
  for (int32_t i = 0; i < c->n; i++) out[i] = seen[ENDS + i];
}

void cut_solve(Cut *c, bool *out) {
  Flow f = {.c = c, .n = c->n + ENDS};
  f.level = arena_array(c->arena, int32_t, f.n);
  f.at = arena_array(c->arena, int32_t, f.n);
  f.queue = arena_array(c->arena, int32_t, f.n);
  f.path = arena_array(c->arena, int32_t, f.n);
  for (int phase = 0; phase < PHASES; phase++) {
    if (!find_levels(&f)) {
      mark_from_source(&f, out);
      return;
    }
    fill_paths(&f);
  }
  find_levels(&f);
  for (int32_t i = 0; i < c->n; i++) out[i] = f.level[ENDS + i] < 0;
}
