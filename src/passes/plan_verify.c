// plan_verify.c -- proves a plan: the order is topological, and no two lives overlap in memory.
//
// Lives are found anew here, from the graph, the order and the sharing alone, by walking backwards; nothing
// of plan.c's own bookkeeping is trusted but which buffer uses whose memory.
#include "passes/plan_impl.h"

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

// When each root's memory is in use: from the first making to the last reading of anything in it.
static Live *find_live(const MemPlan *p, Arena *a) {
  Live *live = arena_array(a, Live, MAX(p->n, 1));
  for (int32_t b = 0; b < p->n; b++) live[b] = (Live){INT32_MAX, -1};
  int32_t step = 0;
  for (int64_t i = 0; i < p->order.n; i++) {
    const Node *n = p->order.v[i];
    if (!plan_is_step(p->g, n)) continue;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      int result;
      const Node *s = plan_source(n->src[k], &result);
      int32_t b = plan_find(p, s, result);
      if (b >= 0) live[p->buffer[b].root].last = step;
    }
    for (int r = 0; r < n->nres; r++) {
      int32_t b = plan_find(p, n, r);
      if (b < 0) continue;
      Live *l = &live[p->buffer[b].root];
      l->first = MIN(l->first, step);
      l->last = MAX(l->last, step);
    }
    step++;
  }
  for (int64_t i = 0; i < p->g->main->nresults; i++) {
    int result;
    const Node *s = plan_source(p->g->main->result[i], &result);
    int32_t b = plan_find(p, s, result);
    if (b >= 0) live[p->buffer[b].root].last = step;
  }
  return live;
}

// A buffer that writes over another's memory must come when that is no longer read.
static tenon_status check_sharing(const MemPlan *p, Diag *d) {
  for (int32_t b = 0; b < p->n; b++) {
    const PlanBuffer *x = &p->buffer[b], *root = &p->buffer[x->root];
    if (x->root < 0 || x->root >= p->n || root->root != x->root || x->bytes != root->bytes)
      return fail(d, TENON_EINTERNAL, (Where){.node = x->node->name, .op = op_name(x->node)},
                  "the plan puts this value into memory of another size");
  }
  return TENON_OK;
}

static tenon_status check_overlap(const MemPlan *p, const Live *live, const int64_t *offset,
                                  const int64_t *size, int64_t total, Arena *a, Diag *d) {
  int32_t *now = arena_array(a, int32_t, MAX(p->nroots, 1)), nnow = 0;
  for (int32_t b = 0; b < p->n; b++) {  // buffers are numbered in order of making
    if (p->buffer[b].root != b) continue;
    if (offset[b] < 0 || offset[b] % PLAN_ALIGN || offset[b] > total - size[b])
      return fail(d, TENON_EINTERNAL, (Where){.node = p->buffer[b].node->name},
                  "offset %lld does not lie in the arena", (long long)offset[b]);
    int32_t kept = 0;
    for (int32_t j = 0; j < nnow; j++) {
      int32_t o = now[j];
      if (live[o].last < live[b].first) continue;
      now[kept++] = o;
      if (offset[o] < offset[b] + size[b] && offset[b] < offset[o] + size[o])
        return fail(d, TENON_EINTERNAL,
                    (Where){.node = p->buffer[b].node->name, .op = op_name(p->buffer[b].node)},
                    "the plan puts this value over '%s', which is still needed",
                    p->buffer[o].node->name ? p->buffer[o].node->name : "?");
    }
    nnow = kept;
    now[nnow++] = b;
  }
  return TENON_OK;
}

tenon_status plan_verify(const MemPlan *p, Diag *d) {
  Arena a;
  arena_init(&a);
  tenon_status s = check_order(p, &a, d);
  if (!s) s = check_sharing(p, d);
  Live *live = s ? NULL : find_live(p, &a);
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
