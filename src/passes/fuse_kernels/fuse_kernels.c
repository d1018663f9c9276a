// fuse_kernels.c -- the pass fuse-kernels: groups nodes into kernels.
//
// A kernel is what one launch computes without a synchronisation of all threads: at most one anchor
// (a contraction, window, reduction, ...), with a prologue that computes its operands and an
// epilogue on each of its results.  One walk over the body, operands first:
//   - an index map (transpose, slice, concat, ...) is no member of a group: it is put into each
//     kernel that reads through it, since reading through it costs no more than reading a copy;
//   - an element-wise node joins the group of an operand that has one element for each of its own,
//     in the same order (the epilogue; a value that others need too is then another result);
//   - a node that reads all there is of an element-wise group, alone or with others of its group,
//     takes it in (the prologue); one that reads each element once (a norm, a reduction) does so
//     also where others read the group;
//   - element-wise groups that are left, of one shape and reading one value, share one kernel
//     (horizontal fusion).
// Every join keeps a value from being written and read, or from being read: bytes moved go down.
//
// Convexity: no path may leave a group and come back.  All groups stand in a list, each after those
// that it reads.  A node joins a group if its other operands stand before the group, or can be
// moved there: then no cycle can come about.  The search for what has to move sees only groups
// between the two, and is cut off.
//
// Below -O2 nothing is joined: every node is a kernel of its own, so that all levels have kernels
// to compile.
//
// Needs:      all rewriting is done: rules look through nodes, not through kernels.
// Guarantees: every node of the body that does not run on the host is in a kernel; the same
//             results; time linear in the edges.
#include "passes/fuse_kernels/fuse_kernels.h"
#include "rules/shape.h"

#include "eval/contract.h"
#include "ir/internal.h"
#include "ops/order.h"
#include "plan/plan.h"

enum { FUSE_LEVEL = 2 };  // of optimisation, from which nodes share kernels
static const uint64_t LABEL_GAP = 1ull << 32;

int32_t fuse_find(Fuser *f, int32_t i) {
  while (f->n[i].parent != i) {
    f->n[i].parent = f->n[f->n[i].parent].parent;
    i = f->n[i].parent;
  }
  return i;
}

static int32_t group_of(Fuser *f, int32_t value) { return fuse_group_of(f, value); }

Dim fuse_numel(Fuser *f, const Node *n) {
  FuseNode *x = fuse_at(f, n);
  if (!x->numel) x->numel = type_numel(f->g, type_of(n));
  return x->numel;
}

// ---- classes ----

static bool has_new_symbol(Fuser *f, Dim d, bool *seen) {
  bool is_new = false;
  if (d->kind == IE_SYM) {
    if (d->slot >= f->nsyms) return true;
    is_new = !seen[d->slot];
    seen[d->slot] = true;
    return is_new;
  }
  for (int i = 0; d->kind == IE_SUM && i < d->nterms; i++)
    for (int k = 0; k < d->term[i].natoms; k++)
      is_new |= has_new_symbol(f, d->term[i].atom[k], seen);
  if (d->a) is_new |= has_new_symbol(f, d->a, seen);
  if (d->b) is_new |= has_new_symbol(f, d->b, seen);
  return is_new;
}

// Sizes that only the run will show are the host's to find.
static bool brings_symbols(Fuser *f, const Node *n, bool *seen) {
  bool is_new = false;
  for (int i = 0; i < n->nres; i++)
    for (int k = 0; n->type[i]->kind == TK_TENSOR && k < n->type[i]->rank; k++)
      is_new |= has_new_symbol(f, n->type[i]->dims[k], seen);
  return is_new;
}

static bool plain_tensor(const Type *t) {
  return t->kind == TK_TENSOR && t->rank >= 0 && t->dtype && t->dtype != DT_STRING;
}

static bool fits_kernel(Fuser *f, const Node *n) {
  for (int i = 0; i < n->nres; i++)
    if (!plain_tensor(n->type[i])) return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i] != f->g->none && !plain_tensor(type_of(n->src[i]))) return false;
  return true;
}

// On GPUs every reader of many parts would ask each thread which one it reads: parts that can be
// written into one buffer are.
static bool is_joined_early(const Fuser *f, const Node *n, int64_t leaves) {
  enum { PARTS_MOST = 8 };
  return f->g->traits->gpu && leaves > PARTS_MOST && n->op == OP_concat && plan_can_join(f->g, n);
}

// A long chain of index maps, or one that reads very many values, is copied into no kernel: it is
// its own.
static void weigh(Fuser *f, FuseNode *x) {
  int64_t weight = 1, leaves = 0;
  for (uint32_t k = 0; k < x->node->nsrc; k++) {
    const FuseNode *s = &f->n[fuse_work(f, f->pos[x->node->src[k]->id])];
    if (s->op.cls == FC_INDEX_MAP) {
      weight += s->weight;
      leaves += s->leaves;
    } else {
      leaves += s->op.cls != FC_FREE;
    }
  }
  x->weight = (uint16_t)MIN(weight, UINT16_MAX);
  x->leaves = (uint16_t)MIN(leaves, UINT16_MAX);
  bool joined = is_joined_early(f, x->node, leaves);
  if (joined) x->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, FF_STORED};
  if (!joined && (weight > FUSE_WEIGHT || leaves > FUSE_LEAVES))
    x->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
}

static void classify(Fuser *f) {
  bool *seen = arena_array(f->arena, bool, f->nsyms);
  for (int64_t i = 0; i < f->order.n; i++) {
    FuseNode *x = &f->n[i];
    Node *n = f->order.v[i];
    *x = (FuseNode){.node = n, .parent = NO_GROUP, .next = NO_GROUP, .stamp = -1};
    x->order = hash_u64((uint64_t)i + 1);
    bool fresh = n->op != OP_proj && n->op != OP_none && brings_symbols(f, n, seen);
    if (n->op == OP_const || n == f->g->none)
      x->op.cls = FC_FREE;
    else if (n->op == OP_param)
      x->op.cls = FC_INPUT;
    else if (n->op == OP_proj)
      x->op.cls = FC_PROJ;
    else if (n->nres == 1 && (n->known || fuse_is_shape(f, n)))
      x->op.cls = FC_FREE;
    else if (fresh || !fits_kernel(f, n))
      x->op.cls = FC_HOST;
    else
      x->op = fuse_op(n);
    if (x->op.cls == FC_INDEX_MAP && f->alone && !(x->op.flags & FF_VIEW))
      x->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
    if (x->op.cls == FC_INDEX_MAP) weigh(f, x);
    fuse_lay_out(f, n);
  }
}

// Values that are known need nothing of what they were computed from.
static void mark_needed(Fuser *f) {
  for (int64_t i = 0; i < f->body->nresults; i++) fuse_at(f, f->body->result[i])->needed = true;
  for (int64_t i = f->order.n - 1; i >= 0; i--) {
    const FuseNode *x = &f->n[i];
    if (!x->needed || x->op.cls == FC_FREE || x->op.cls == FC_INPUT) continue;
    for (uint32_t k = 0; k < x->node->nsrc; k++) fuse_at(f, x->node->src[k])->needed = true;
  }
}

// ---- uses ----

static void count_leaves(Fuser *f, const Node *o) {
  f->leaf.n = 0;
  fuse_leaves(f, o);
  for (int64_t k = 0; k < f->leaf.n; k++) f->n[fuse_work(f, f->leaf.v[k])].uses++;
}

static bool is_worker(const FuseNode *x) {
  if (!x->needed) return false;
  return x->op.cls == FC_HOST || x->op.cls == FC_POINT || x->op.cls == FC_MAP ||
         x->op.cls == FC_ANCHOR;
}

static void count_uses(Fuser *f) {
  for (int64_t i = 0; i < f->order.n; i++)
    for (uint32_t k = 0; is_worker(&f->n[i]) && k < f->n[i].node->nsrc; k++)
      count_leaves(f, f->n[i].node->src[k]);
  for (int64_t i = 0; i < f->body->nresults; i++) count_leaves(f, f->body->result[i]);
}

// ---- groups ----

static void add_dep(Fuser *f, FuseGroup *g, int32_t value) {
  FuseDep d = {value, g->deps};
  if (g->deps < 0) g->deps_tail = (int32_t)f->dep.n;
  g->deps = (int32_t)f->dep.n;
  vec_push(f->arena, &f->dep, d);
}

static void unlink_group(Fuser *f, int32_t i) {
  FuseGroup *g = &f->group[i];
  if (g->before >= 0) f->group[g->before].after = g->after;
  if (g->after >= 0) f->group[g->after].before = g->before;
  if (f->last == i) f->last = g->before;
}

static int32_t new_group(Fuser *f, int32_t i) {
  FuseGroup *g = &f->group[i];
  f->n[i].parent = i;
  *g = (FuseGroup){.head = i,
                   .tail = i,
                   .size = 1,
                   .before = f->last,
                   .after = NO_GROUP,
                   .label = f->last >= 0 ? f->group[f->last].label + LABEL_GAP : LABEL_GAP,
                   .deps = -1,
                   .anchor = f->n[i].op.cls == FC_ANCHOR ? i : NO_GROUP,
                   .uses = f->n[i].uses,
                   .host = f->n[i].op.cls == FC_HOST,
                   .stored = f->n[i].op.flags & FF_STORED,
                   .stamp = -1};
  if (f->last >= 0) f->group[f->last].after = i;
  f->last = i;
  for (int64_t k = 0; k < f->leaf.n; k++) add_dep(f, g, f->leaf.v[k]);
  return i;
}

// Puts group `from` into group `to`, which keeps its place; `edges` counts the reads between them.
static void merge(Fuser *f, int32_t to, int32_t from, int64_t edges) {
  FuseGroup *a = &f->group[to], *b = &f->group[from];
  unlink_group(f, from);
  f->n[from].parent = to;
  f->n[a->tail].next = b->head;
  a->tail = b->tail;
  a->size += b->size;
  a->uses += b->uses - edges;
  if (a->anchor < 0) a->anchor = b->anchor;
  a->stored |= b->stored;
  if (b->deps >= 0) {
    f->dep.v[b->deps_tail].next = a->deps;
    if (a->deps < 0) a->deps_tail = b->deps_tail;
    a->deps = b->deps;
  }
}

// What group `from` needs of those from `target` on in the list: into f->found.  False when
// `target` itself is among them, or when the search is cut off after FUSE_LOOK edges.
static bool find_needed(Fuser *f, int32_t from, int32_t target) {
  uint64_t floor = f->group[target].label;
  int32_t mark = ++f->stamp;
  int look = 0;
  f->stack.n = f->found.n = 0;
  vec_push(f->arena, &f->stack, from);
  while (f->stack.n) {
    int32_t at = f->stack.v[--f->stack.n];
    FuseGroup *g = &f->group[at];
    if (at == target) return false;
    if (g->stamp == mark || g->label < floor) continue;
    g->stamp = mark;
    vec_push(f->arena, &f->found, at);
    for (int32_t d = g->deps; d >= 0; d = f->dep.v[d].next) {
      if (++look > FUSE_LOOK) return false;
      int32_t next = group_of(f, f->dep.v[d].value);
      if (next != at) vec_push(f->arena, &f->stack, next);
    }
  }
  return true;
}

// Whether group `h` can stand before `target`, which then may read it: it does already, or it and
// all that it needs are moved there.
static bool stands_before(Fuser *f, int32_t h, int32_t target) {
  FuseGroup *t = &f->group[target];
  if (f->group[h].label < t->label) return true;
  if (!find_needed(f, h, target) || f->found.n > FUSE_MOVED) return false;
  uint64_t low = t->before >= 0 ? f->group[t->before].label : 0;
  uint64_t step = (t->label - low) / ((uint64_t)f->found.n + 1);
  if (!step) return false;
  // Few, so the least label is looked for each time.
  for (int64_t k = 0; k < f->found.n; k++) {
    int64_t least = k;
    for (int64_t j = k; j < f->found.n; j++)
      if (f->group[f->found.v[j]].label < f->group[f->found.v[least]].label) least = j;
    int32_t i = f->found.v[least];
    f->found.v[least] = f->found.v[k];
    FuseGroup *g = &f->group[i];
    unlink_group(f, i);
    g->before = t->before;
    g->after = target;
    g->label = low + step * (uint64_t)(k + 1);
    if (t->before >= 0) f->group[t->before].after = i;
    t->before = i;
  }
  return true;
}

static int64_t edges_to(Fuser *f, int32_t group) {
  int64_t n = 0;
  for (int64_t k = 0; k < f->leaf.n; k++) n += group_of(f, f->leaf.v[k]) == group;
  return n;
}

// No other value that the node at hand reads may need the group that it is to join.
static bool others_stand_before(Fuser *f, int32_t group) {
  for (int64_t k = 0; k < f->leaf.n; k++) {
    int32_t h = group_of(f, f->leaf.v[k]);
    if (h != group && !stands_before(f, h, group)) return false;
  }
  return true;
}

static bool has_room(Fuser *f, int32_t group, int32_t more) {
  return f->group[group].size + more <= FUSE_MEMBERS;
}

// Every read of the group goes to the same element as the result's, in one order.
static bool aligned(Fuser *f, const Node *n, int32_t group, uint64_t order) {
  for (uint32_t k = 0; k < n->nsrc; k++) {
    int64_t before = f->leaf.n;
    bool inside = false;
    fuse_leaves(f, n->src[k]);
    for (int64_t j = before; j < f->leaf.n; j++) inside |= group_of(f, f->leaf.v[j]) == group;
    f->leaf.n = before;
    if (!inside) continue;
    uint64_t layout;
    int32_t v = fuse_rearranged(f, n->src[k], &layout);
    if (v < 0 || layout != order || fuse_numel(f, n->src[k]) != fuse_numel(f, n)) return false;
  }
  return true;
}

// No node joins behind what the group computes.
static bool is_complete(Fuser *f, int32_t group) {
  const FuseGroup *g = &f->group[group];
  return g->host || g->stored || (g->anchor >= 0 && f->n[g->anchor].op.flags & FF_CLOSED);
}

static bool may_join(Fuser *f, int32_t i, int32_t group, uint64_t order) {
  if (is_complete(f, group) || !has_room(f, group, 1)) return false;
  return aligned(f, f->n[i].node, group, order) && others_stand_before(f, group);
}

static void join(Fuser *f, int32_t i, int32_t group, uint64_t order) {
  int64_t edges = edges_to(f, group);
  new_group(f, i);
  merge(f, group, i, edges);
  f->n[i].order = order;
}

// Would every other group that the node at hand reads go into the one that it joins?
static bool leaves_none(Fuser *f, int32_t group) {
  for (int64_t k = 0; k < f->leaf.n; k++) {
    int32_t h = group_of(f, f->leaf.v[k]);
    const FuseGroup *g = &f->group[h];
    if (h != group && (g->host || g->stored || g->anchor >= 0 || g->uses != edges_to(f, h)))
      return false;
  }
  return true;
}

// The group that an element-wise node joins: of several, the last in the list; `whole`: that leaves
// no other.
static bool join_operand(Fuser *f, int32_t i, bool whole) {
  enum { TRIES = 4 };
  const Node *n = f->n[i].node;
  uint64_t limit = UINT64_MAX;
  for (int t = 0; t < TRIES; t++) {
    int32_t best = NO_GROUP;
    uint64_t order = 0;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      uint64_t layout = 0;
      int32_t v = fuse_rearranged(f, n->src[k], &layout);
      if (v < 0 || fuse_numel(f, n->src[k]) != fuse_numel(f, n)) continue;
      int32_t g = group_of(f, v);
      if (f->group[g].label >= limit || (best >= 0 && f->group[g].label <= f->group[best].label))
        continue;
      best = g;
      order = layout;
    }
    if (best < 0) return false;
    if ((!whole || leaves_none(f, best)) && may_join(f, i, best, order)) {
      join(f, i, best, order);
      return true;
    }
    limit = f->group[best].label;
  }
  return false;
}

// ---- prologues ----

// Reads of a group by all members of another.
static int64_t edges_between(Fuser *f, int32_t own, int32_t group) {
  int64_t n = 0;
  int look = 0;
  for (int32_t d = f->group[own].deps; d >= 0 && look < FUSE_LOOK; d = f->dep.v[d].next, look++)
    n += group_of(f, f->dep.v[d].value) == group;
  return n;
}

static bool reads_group(Fuser *f, const Node *o, int32_t group) {
  int32_t i = f->pos[o->id];
  const FuseNode *x = &f->n[fuse_work(f, i)];
  bool found = false;
  if (x->op.cls == FC_FREE || x->op.cls == FC_INPUT) return false;
  if (x->op.cls != FC_INDEX_MAP) return group_of(f, i) == group;
  for (uint32_t k = 0; k < x->node->nsrc && !found; k++)
    found = reads_group(f, x->node->src[k], group);
  return found;
}

// Whether queries, keys or values of an attention that MMA tiles fetch are made in the group; a
// mask may be part of the prologue.
static bool fetches_heads(Fuser *f, const Node *n, int32_t group) {
  return f->g->traits->mma && n->op == OP_attention &&
         (reads_group(f, n->src[0], group) || reads_group(f, n->src[1], group) ||
          reads_group(f, n->src[2], group));
}

static bool is_prologue(Fuser *f, int32_t i, int32_t own, int32_t group) {
  const FuseGroup *g = &f->group[group];
  if (group == own || g->host || g->stored || g->anchor >= 0 || !has_room(f, own, g->size))
    return false;
  // Written once, read many times.
  if (fuse_is_packed_dot(f->n[i].node) || fuse_reads_packed(f->n[i].node) || f->n[i].head)
    return false;
  if (fuse_fetches_pixels(f, f->n[i].node) || fetches_heads(f, f->n[i].node, group)) return false;
  if (fuse_repeats(f, i, group)) return false;
  if (g->uses != edges_to(f, group) && g->uses != edges_between(f, own, group)) return false;
  return true;
}

// The result has the layout of operand 0, and so they may meet in the epilogue.
static void inherit_order(Fuser *f, int32_t i, int32_t group) {
  const FuseNode *x = &f->n[i];
  uint64_t order;
  if (!(x->op.flags & FF_SAME) || x->node->nres != 1) return;
  int32_t v = fuse_rearranged(f, x->node->src[0], &order);
  if (v >= 0 && group_of(f, v) == group) f->n[i].order = order;
}

// A norm or reduction reads each element once, so it may sit where the element is made, whoever
// else reads it.
static void join_as_row(Fuser *f, int32_t i) {
  const FuseNode *x = &f->n[i];
  uint64_t order;
  if (x->op.cls != FC_ANCHOR || !(x->op.flags & FF_ROW) || !x->node->nsrc) return;
  int32_t v = fuse_rearranged(f, x->node->src[0], &order);
  int32_t group = v >= 0 ? group_of(f, v) : NO_GROUP;
  if (group < 0 || is_complete(f, group) || f->group[group].anchor >= 0 || !has_room(f, group, 1) ||
      edges_to(f, group) != 1 || !others_stand_before(f, group))
    return;
  inherit_order(f, i, group);
  merge(f, group, i, 1);
}

static void take_prologues(Fuser *f, int32_t i) {
  join_as_row(f, i);
  for (int64_t k = 0; k < f->leaf.n; k++) {
    int32_t own = fuse_find(f, i), group = group_of(f, f->leaf.v[k]);
    if (!is_prologue(f, i, own, group)) continue;
    int64_t edges = f->group[group].uses;
    inherit_order(f, i, group);
    merge(f, own, group, edges);
  }
}

static void place(Fuser *f, int32_t i) {
  f->leaf.n = 0;
  for (uint32_t k = 0; k < f->n[i].node->nsrc; k++) fuse_leaves(f, f->n[i].node->src[k]);
  const Node *from = f->leaf.n == 1 ? f->n[f->leaf.v[0]].node : NULL;
  bool planes = from && is_gemm(from) && f->g->traits->mma && is_materialized(f->n[i].node);
  bool heads = from && traits_attention_materializes(f->g->traits) && f->n[i].op.cls == FC_MAP &&
               (planes || from->op == OP_attention);
  bool joined = !f->alone && (f->n[i].op.cls == FC_POINT || heads) &&
                (join_operand(f, i, true) || join_operand(f, i, false));
  if (!joined) new_group(f, i);
  if (f->alone || f->n[i].op.cls == FC_HOST) return;
  take_prologues(f, i);
  int32_t before = f->n[i].op.cls == FC_ANCHOR ? fuse_conv_chain(f, i) : NO_GROUP;
  if (before >= 0) merge(f, fuse_find(f, i), before, 1);
}

// ---- horizontal fusion ----

// The last node of an element-wise group: its shape is the kernel's.  NO_GROUP when the group is of
// another kind.
static int32_t last_member(Fuser *f, int32_t group) {
  const FuseGroup *g = &f->group[group];
  int32_t last = NO_GROUP;
  if (g->host || g->anchor >= 0) return NO_GROUP;
  for (int32_t i = g->head; i >= 0; i = f->n[i].next) last = MAX(last, i);
  return f->n[last].op.cls == FC_POINT ? last : NO_GROUP;
}

static bool same_shape(const Node *x, const Node *y) {
  const Type *a = type_of(x), *b = type_of(y);
  return a->rank == b->rank &&
         (!a->rank || !memcmp(a->dims, b->dims, sizeof(Dim) * (size_t)a->rank));
}

static bool can_fuse_horizontally(Fuser *f, int32_t group, int32_t to) {
  int32_t x = last_member(f, group), y = last_member(f, to);
  int look = 0;
  if (y < 0 || group == to || !same_shape(f->n[x].node, f->n[y].node) ||
      !has_room(f, to, f->group[group].size))
    return false;
  for (int32_t d = f->group[group].deps; d >= 0; d = f->dep.v[d].next) {
    int32_t h = group_of(f, f->dep.v[d].value);
    if (h == group) continue;
    if (h == to || ++look > FUSE_LOOK || !stands_before(f, h, to)) return false;
  }
  return true;
}

// Element-wise groups of one shape that read the same value: it is read once, and there is one
// launch.  What could become part of another kernel has by now.
static void fuse_horizontally(Fuser *f) {
  enum { TRIES = 8 };
  IntMap reader;  // of a value: an element-wise group
  intmap_init(&reader, f->arena);
  int32_t at = f->last;
  while (at >= 0 && f->group[at].before >= 0) at = f->group[at].before;
  for (int32_t next; at >= 0; at = next) {
    next = f->group[at].after;
    if (last_member(f, at) < 0) continue;
    int tries = 0;
    bool joined = false;
    uint64_t have;
    for (int32_t d = f->group[at].deps; d >= 0 && !joined && tries < TRIES;
         d = f->dep.v[d].next, tries++) {
      if (!intmap_get(&reader, (uint64_t)f->dep.v[d].value, &have)) continue;
      int32_t to = fuse_find(f, (int32_t)have);
      joined = can_fuse_horizontally(f, at, to);
      if (joined) merge(f, to, at, 0);
    }
    tries = 0;
    for (int32_t d = f->group[at].deps; d >= 0 && !joined && tries < TRIES;
         d = f->dep.v[d].next, tries++)
      intmap_put(&reader, (uint64_t)f->dep.v[d].value, (uint64_t)at);
  }
}

// ---- index maps that must be written out ----

// Can the operands of a concatenation be written into their parts of one buffer?  Then there is
// nothing to launch.  Only where memory is planned; and a value has one place.
static bool join_in_place(Fuser *f, int32_t i) {
  FuseNode *x = &f->n[i];
  if (x->node->op != OP_concat || f->body != f->g->main || !fuse_is_sized(f, type_of(x->node)) ||
      !plan_can_join(f->g, x->node))
    return false;
  uint32_t k;
  for (k = 0; k < x->node->nsrc; k++) {
    FuseNode *part = fuse_at(f, x->node->src[k]), *by = &f->n[fuse_work(f, f->pos[part->node->id])];
    bool made = by->op.cls == FC_POINT || by->op.cls == FC_MAP || by->op.cls == FC_ANCHOR;
    if (!made || part->part) break;
    part->part = true;
  }
  x->joined = k == x->node->nsrc;
  while (k-- > 0) fuse_at(f, x->node->src[k])->part = x->joined;
  return x->joined;
}

// For the body's results and for the host: by the kernel that computes what is rearranged, else
// alone.
static void write_out(Fuser *f, Node *value) {
  int32_t i = fuse_work(f, f->pos[value->id]);
  if (f->n[i].op.cls != FC_INDEX_MAP) return;
  f->n[f->pos[value->id]].out = true;
  if (f->n[i].parent >= 0) return;
  uint64_t order;
  int32_t v = f->n[i].node->nres == 1 ? fuse_rearranged(f, value, &order) : NO_GROUP;
  int32_t g = v >= 0 ? group_of(f, v) : NO_GROUP;
  bool open = g >= 0 && !is_complete(f, g) && has_room(f, g, 1);
  bool only = open && f->n[fuse_work(f, v)].uses == 1;
  f->leaf.n = 0;
  fuse_leaves(f, value);
  new_group(f, i);
  // A view of a value that is written anyway costs nothing by itself.
  if (!join_in_place(f, i) && open && (only || !fuse_is_view(f, value)) &&
      others_stand_before(f, g))
    merge(f, g, i, f->leaf.n);
}

static void find_outputs(Fuser *f, const Node *user, int32_t group) {
  for (uint32_t k = 0; k < user->nsrc; k++) {
    f->leaf.n = 0;
    fuse_leaves(f, user->src[k]);
    for (int64_t j = 0; j < f->leaf.n; j++)
      if (group_of(f, f->leaf.v[j]) != group) f->n[f->leaf.v[j]].out = true;
  }
}

// What the host reads must be written out before it.
static void write_for_host(Fuser *f, int32_t host) {
  const Node *n = f->n[host].node;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    write_out(f, n->src[k]);
    if (f->n[fuse_work(f, f->pos[n->src[k]->id])].op.cls == FC_INDEX_MAP)
      add_dep(f, &f->group[fuse_find(f, host)], f->pos[n->src[k]->id]);
  }
}

static void mark_outputs(Fuser *f) {
  for (int64_t i = 0; i < f->order.n; i++)
    if (f->n[i].needed && f->n[i].op.cls == FC_HOST) write_for_host(f, (int32_t)i);
  for (int64_t i = 0; i < f->body->nresults; i++) {
    Node *r = f->body->result[i];
    write_out(f, r);
    f->n[f->pos[r->id]].out = true;
  }
  // One that joins too many values to be read through, and is a kernel by itself.
  for (int64_t i = 0; i < f->order.n; i++)
    if (f->n[i].op.cls == FC_MAP && f->n[i].parent == i && f->group[i].size == 1)
      join_in_place(f, (int32_t)i);
  for (int64_t i = 0; i < f->order.n; i++)
    if (f->n[i].parent >= 0) find_outputs(f, f->n[i].node, fuse_find(f, (int32_t)i));
}

// ---- the pass ----

tenon_status fuse_body(PassCtx *c, IntMap *bodies, const Body *b, Body **out) {
  uint64_t have;
  if (intmap_get(bodies, (uint64_t)(uintptr_t)b, &have)) {
    *out = (Body *)(uintptr_t)have;
    return TENON_OK;
  }
  Fuser *f = arena_new(c->scratch, Fuser);
  *f = (Fuser){.g = c->g,
               .arena = c->scratch,
               .body = b,
               .bodies = bodies,
               .alone = c->o->level < FUSE_LEVEL,
               .c = c,
               .last = NO_GROUP};
  f->order = body_order(c->g, b, f->arena);
  f->pos = arena_array(f->arena, int32_t, c->g->node.n);
  f->n = arena_array(f->arena, FuseNode, f->order.n);
  f->group = arena_array(f->arena, FuseGroup, f->order.n);
  for (int64_t i = 0; i < f->order.n; i++) f->pos[f->order.v[i]->id] = (int32_t)i;
  fuse_find_symbols(f);
  classify(f);
  mark_needed(f);
  count_uses(f);
  fuse_mark_heads(f);
  for (int64_t i = 0; i < f->order.n; i++)
    if (is_worker(&f->n[i])) place(f, (int32_t)i);
  if (!f->alone) fuse_horizontally(f);
  mark_outputs(f);
  TRY(fuse_build(f, out));
  intmap_put(bodies, (uint64_t)(uintptr_t)b, (uint64_t)(uintptr_t)*out);
  return graph_status(c->g);
}

tenon_status pass_fuse_kernels(PassCtx *c, bool *out_changed) {
  IntMap bodies;
  intmap_init(&bodies, c->scratch);
  Body *main = NULL;
  TRY(fuse_body(c, &bodies, c->g->main, &main));
  *out_changed = main != c->g->main;
  if (!*out_changed) return TENON_OK;
  c->g->body.n--;  // made last; the list holds every body but main
  c->g->main = main;
  return TENON_OK;
}
