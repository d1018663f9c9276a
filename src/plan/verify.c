// verify.c -- proves a plan: the order is topological, and no two lives overlap in memory.
//
// Lives are found anew here, from the graph, the order and the sharing alone, by walking backwards;
// nothing of plan.c's own bookkeeping is trusted but which buffer uses whose memory.
#include "plan/impl.h"

#include <stdlib.h>

typedef struct Live {
  int32_t first, last;
} Live;

static tenon_status check_order(const MemPlan *p, Arena *a, Diag *d) {
  uint8_t *done = arena_array(a, uint8_t, p->g->node.n);
  for (int64_t i = 0; i < p->order.n; i++) {
    const Node *n = p->order.v[i];
    for (uint32_t k = 0; k < n->nsrc; k++)
      if (!done[n->src[k]->id] && n->src[k] != p->g->none)
        return fail(d, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)},
                    "the plan runs this node before its operand %u", k);
    done[n->id] = 1;
  }
  NodeList all = body_order(p->g, p->g->main, a);
  for (int64_t i = 0; i < all.n; i++)
    if (!done[all.v[i]->id])
      return fail(d, TENON_EINTERNAL, (Where){.node = all.v[i]->name, .op = op_name(all.v[i])},
                  "the plan leaves this node out");
  return TENON_OK;
}

// What one node of a step makes: no other of the same step reads it, nor anything that lies where
// it does, nor writes there.
static tenon_status check_pair(const MemPlan *p, const Node *n, const Node *o, Diag *d) {
  for (uint32_t k = 0; k < o->nsrc; k++) {
    int result;
    const Node *s = plan_source(o->src[k], &result);
    int32_t read = plan_find(p, s, result);
    if (s == n)
      return fail(d, TENON_EINTERNAL, (Where){.node = o->name, .op = op_name(o)},
                  "the plan runs this node concurrently with its operand %u", k);
    for (int r = 0; r < n->nres && read >= 0; r++)
      if (plan_find(p, n, r) >= 0 && plan_meets(p, plan_find(p, n, r), read))
        return fail(d, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)},
                    "the plan writes this value over one that a concurrent kernel reads");
  }
  for (int r = 0; r < n->nres; r++)
    for (int t = 0; t < o->nres; t++) {
      int32_t x = plan_find(p, n, r), y = plan_find(p, o, t);
      if (x >= 0 && y >= 0 && plan_meets(p, x, y))
        return fail(d, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)},
                    "the plan gives two values of concurrent kernels the same memory");
    }
  return TENON_OK;
}

// Steps of several nodes: kernels, neighbours in the order, and none meets another.
static tenon_status check_concurrent(const MemPlan *p, Diag *d) {
  for (int64_t i = 0, begin = 0; i < p->order.n && p->concurrent; i++) {
    const Node *n = p->order.v[i];
    if (!plan_is_concurrent(p, i)) {
      begin = i;
      continue;
    }
    if (!i || i - begin >= PLAN_CONCURRENT_MAX || !plan_is_kernel(n) ||
        !plan_is_kernel(p->order.v[i - 1]))
      return fail(d, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)},
                  "the plan runs this node concurrently with one that it conflicts with");
    for (int64_t k = begin; k < i; k++) {
      TRY(check_pair(p, n, p->order.v[k], d));
      TRY(check_pair(p, p->order.v[k], n, d));
    }
  }
  return TENON_OK;
}

// States are written in the order of their versions, each after its readers, in steps of one node,
// and have no buffer.
static tenon_status check_states(const MemPlan *p, Arena *a, Diag *d) {
  TRY(state_check_order(p->g, p->order, a, d));
  const Node **state = state_versions(p->g, p->order, a);
  for (int64_t i = 0; state && i < p->order.n; i++) {
    const Node *n = p->order.v[i];
    if (!state[n->id] || n->op == OP_param) continue;
    Where at = {.node = n->name, .op = op_name(n)};
    if (plan_find(p, n, 0) >= 0 || plan_state(p, n) != state[n->id])
      return fail(d, TENON_EINTERNAL, at, "the plan puts a version of a state into its memory");
    if (plan_is_concurrent(p, i) || (i + 1 < p->order.n && plan_is_concurrent(p, i + 1)))
      return fail(d, TENON_EINTERNAL, at, "the plan writes a state beside another kernel");
  }
  return TENON_OK;
}

// What follows has tables by step.
static tenon_status check_count(const MemPlan *p, Diag *d) {
  int32_t nsteps = 0;
  for (int64_t i = 0; i < p->order.n; i++)
    nsteps += plan_is_step(p->g, p->order.v[i]) && !plan_is_concurrent(p, i);
  if (nsteps == p->nsteps) return TENON_OK;
  return fail(d, TENON_EINTERNAL, NOWHERE, "the plan says that it has %d steps, not %d",
              (int)p->nsteps, (int)nsteps);
}

static void read_by(const MemPlan *p, Live *live, const Node *operand, int32_t step) {
  int result;
  const Node *s = plan_source(operand, &result);
  int32_t b = plan_find(p, s, result);
  if (b >= 0) live[b].last = MAX(live[b].last, step);
}

// Made at, read last at: of every value by itself.
static Live *find_live(const MemPlan *p, Arena *a) {
  Live *live = arena_array(a, Live, MAX(p->n, 1));
  int32_t step = -1;
  for (int64_t i = 0; i < p->order.n; i++) {
    const Node *n = p->order.v[i];
    if (!plan_is_step(p->g, n)) continue;
    step += !plan_is_concurrent(p, i);
    for (uint32_t k = 0; k < n->nsrc; k++) read_by(p, live, n->src[k], step);
    for (int r = 0; r < n->nres; r++) {
      int32_t b = plan_find(p, n, r);
      if (b >= 0) live[b] = (Live){step, step};
    }
  }
  for (int64_t i = 0; i < p->g->main->nresults; i++)
    read_by(p, live, p->g->main->result[i], step + 1);
  return live;
}

// Buffers sorted by the step that makes them; those that nothing makes come first.
static int32_t *in_order_of_making(const MemPlan *p, const Live *live, Arena *a) {
  int32_t *at = arena_array(a, int32_t, p->nsteps + 2),
          *sorted = arena_array(a, int32_t, MAX(p->n, 1));
  for (int32_t b = 0; b < p->n; b++) at[live[b].first + 1]++;
  for (int32_t s = 1; s < p->nsteps + 2; s++) at[s] += at[s - 1];
  for (int32_t b = 0; b < p->n; b++) sorted[at[live[b].first]++] = b;
  return sorted;
}

static tenon_status not_so(const MemPlan *p, int32_t b, Diag *d, const char *what) {
  const Node *n = p->buffer[b].node;
  return fail(d, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)}, "the plan %s", what);
}

static tenon_status check_roots(const MemPlan *p, Diag *d) {
  for (int32_t b = 0; b < p->n; b++) {
    int32_t r = p->buffer[b].root;
    if (r < 0 || r >= p->n || p->buffer[r].root != r || p->buffer[b].bytes != p->buffer[r].bytes)
      return not_so(p, b, d, "puts this value into memory of another size");
  }
  return TENON_OK;
}

// The parts of a joined value lie where its elements are, all of them or none; `nparts` counts
// those found.
static tenon_status check_parts(const MemPlan *p, int32_t b, int32_t *nparts, Diag *d) {
  const Body *body;
  const Node *n = p->buffer[b].node, *concat = plan_joined(n, &body);
  IntPool *dims = &p->g->dims;
  Dim at = dims->zero;
  uint32_t here = 0;
  for (uint32_t k = 0; concat && k < concat->nsrc; k++) {
    int operand = plan_part_operand(body, concat, k), result;
    const Node *part = operand >= 0 ? plan_source(n->src[operand], &result) : NULL;
    int32_t o = part ? plan_find(p, part, result) : -1, r = o >= 0 ? p->buffer[o].root : -1;
    here += r >= 0 && p->buffer[r].within == b && p->buffer[r].at == at;
    const Type *t = type_of(concat->src[k]);
    at = ie_add(dims, at, ie_mulc(dims, type_numel(p->g, t), dtype_bits(t->dtype) / 8));
  }
  *nparts += (int32_t)here;
  return !concat || !here || here == concat->nsrc
             ? TENON_OK
             : not_so(p, b, d, "makes some parts of this value elsewhere");
}

static tenon_status check_joins(const MemPlan *p, const Live *live, Diag *d) {
  int32_t claimed = 0, found = 0;
  for (int32_t b = 0; b < p->n; b++) {
    int32_t in = p->buffer[b].within;
    claimed += in >= 0;
    if (in >= 0 && (in >= p->n || p->buffer[b].root != b || p->buffer[in].root != in))
      return not_so(p, b, d, "puts this value into a part of no value");
    TRY(check_parts(p, b, &found, d));
    in = p->buffer[p->buffer[b].root].within;
    if (in >= 0 && plan_view_operand(p->buffer[b].node) < 0 && live[b].first >= live[in].first)
      return not_so(p, b, d, "writes this value over what was joined before");
  }
  return claimed == found
             ? TENON_OK
             : fail(d, TENON_EINTERNAL, NOWHERE, "the plan puts a part where it is none");
}

// Values that use one memory on purpose: what is written over is no longer read.  `whole` gets the
// life of each root's memory.
static tenon_status check_sharing(const MemPlan *p, const Live *live, Live *whole, Arena *a,
                                  Diag *d) {
  int32_t *by_step = in_order_of_making(p, live, a),
          *parts_last = arena_array(a, int32_t, MAX(p->n, 1));
  for (int32_t b = 0; b < p->n; b++) whole[b] = (Live){p->nsteps, -1};
  for (int32_t i = 0; i < p->n; i++) {
    int32_t b = by_step[i], r = p->buffer[b].root;
    bool writes = plan_view_operand(p->buffer[b].node) < 0;
    if (writes && (whole[r].last > live[b].first || (b != r && parts_last[r] > live[b].first)))
      return not_so(p, b, d, "writes this value over one that is still read");
    whole[r].first = MIN(whole[r].first, live[b].first);
    whole[r].last = MAX(whole[r].last, live[b].last);
    for (int32_t in = p->buffer[r].within; in >= 0; in = p->buffer[in].within)
      parts_last[in] = MAX(parts_last[in], live[b].last);
  }
  for (int32_t b = 0; b < p->n; b++) {  // a part comes before what it is joined into
    int32_t in = p->buffer[b].within;
    if (in < 0) continue;
    whole[in].first = MIN(whole[in].first, whole[b].first);
    whole[in].last = MAX(whole[in].last, whole[b].last);
  }
  return TENON_OK;
}

typedef struct Place {
  int64_t offset, size;
  int32_t b;
} Place;
static int by_place(const void *x, const void *y) {
  const Place *a = x, *b = y;
  int c = (a->offset > b->offset) - (a->offset < b->offset);
  if (!c) c = (a->size > b->size) - (a->size < b->size);
  return c ? c : (a->b > b->b) - (a->b < b->b);
}

// Everything that is alive, by address: when no two neighbours overlap, no two do.
typedef struct Sweep {
  const MemPlan *p;
  Place *place;
  int32_t *rank, *dies, *next;  // roots by address; lists of roots by their last step
  RankSet live;
} Sweep;

static Sweep sweep_init(const MemPlan *p, const Live *live, const int64_t *offset,
                        const int64_t *size, Arena *a) {
  Sweep s = {.p = p,
             .place = arena_array(a, Place, p->n + 1),
             .rank = arena_array(a, int32_t, p->n + 1),
             .dies = arena_array(a, int32_t, p->nsteps + 1),
             .next = arena_array(a, int32_t, p->n + 1)};
  int32_t n = 0;
  for (int32_t i = 0; i <= p->nsteps; i++) s.dies[i] = -1;
  for (int32_t b = 0; b < p->n; b++) {
    if (!plan_has_place(p, b)) continue;
    s.place[n++] = (Place){offset[b], size[b], b};
    s.next[b] = s.dies[live[b].last];
    s.dies[live[b].last] = b;
  }
  qsort(s.place, (size_t)n, sizeof *s.place, by_place);
  for (int32_t i = 0; i < n; i++) s.rank[s.place[i].b] = i;
  rankset_init(&s.live, a, n);
  return s;
}

// The one of its neighbours that b lies upon; -1 when there is none.
static int32_t met_by(const Sweep *s, int32_t b) {
  const Place *x = &s->place[s->rank[b]];
  int32_t low = rankset_below(&s->live, s->rank[b]), high = rankset_above(&s->live, s->rank[b]);
  if (low >= 0 && s->place[low].offset + s->place[low].size > x->offset) return s->place[low].b;
  if (high >= 0 && x->offset + x->size > s->place[high].offset) return s->place[high].b;
  return -1;
}

static tenon_status check_overlap(const MemPlan *p, const Live *live, const int64_t *offset,
                                  const int64_t *size, int64_t total, Arena *a, Diag *d) {
  int32_t *sorted = in_order_of_making(p, live, a), step = 0;
  Sweep s = sweep_init(p, live, offset, size, a);
  for (int32_t i = 0; i < p->n; i++) {
    int32_t b = sorted[i];
    if (!plan_has_place(p, b)) continue;
    if (offset[b] < 0 || offset[b] % PLAN_ALIGN || offset[b] > total - size[b])
      return fail(d, TENON_EINTERNAL, (Where){.node = p->buffer[b].node->name},
                  "offset %lld is outside the arena", (long long)offset[b]);
    for (; step < live[b].first; step++)
      for (int32_t o = s.dies[step]; o >= 0; o = s.next[o]) rankset_remove(&s.live, s.rank[o]);
    int32_t o = met_by(&s, b);
    if (o >= 0)
      return fail(d, TENON_EINTERNAL,
                  (Where){.node = p->buffer[b].node->name, .op = op_name(p->buffer[b].node)},
                  "the plan puts this value over '%s', which is still needed",
                  p->buffer[o].node->name ? p->buffer[o].node->name : "?");
    rankset_add(&s.live, s.rank[b]);
  }
  return TENON_OK;
}

tenon_status plan_verify(const MemPlan *p, Diag *d) {
  Arena a;
  arena_init_scoped(&a);
  tenon_status s = check_order(p, &a, d);
  if (!s) s = check_concurrent(p, d);
  if (!s) s = check_states(p, &a, d);
  if (!s) s = check_count(p, d);
  Live *live = arena_array(&a, Live, MAX(p->n, 1));
  Live *by_value = find_live(p, &a);
  if (!s) s = check_roots(p, d);
  if (!s) s = check_joins(p, by_value, d);
  if (!s) s = check_sharing(p, by_value, live, &a, d);
  int64_t *offset = arena_array(&a, int64_t, MAX(p->n, 1)),
          *size = arena_array(&a, int64_t, MAX(p->n, 1)), total;
  DimBinding bind;
  static const int64_t sizes[] = {16, 1, 2, 7, 33, 128};
  for (int64_t i = 0; !s && i < ARRAY_LEN(sizes); i++) {
    binding_init(&bind, &a, p->g);
    binding_default(&bind, p->g, sizes[i]);
    if (!plan_layout(p, bind.value, bind.known, bind.n, offset, size, &total)) continue;
    s = check_overlap(p, live, offset, size, total, &a, d);
  }
  // The stated offsets, as they were packed.
  for (int32_t b = 0; !s && b < p->n; b++) {
    offset[b] = p->buffer[b].offset;
    size[b] = p->buffer[b].size;
  }
  if (!s) s = check_overlap(p, live, offset, size, p->arena_bytes, &a, d);
  arena_deinit(&a);
  return s;
}
