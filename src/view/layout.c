// layout.c -- places for the nodes of a drawing and paths for its edges.
//
// The layered method of Sugiyama: layers by longest path, then nodes with slack move down to their
// users; a value that passes a layer takes a place in it (a dummy), one for all users further down;
// the order within layers is found by barycentre sweeps, the best of which is kept; place.c gives
// coordinates.
//
// Time and memory are bounded whatever the graph: values that would need too many dummies are left
// out of the layers and drawn straight, and the number of sweeps shrinks as the graph grows.
//
// Needs:      nodes in topological order, with their sizes (build.c).
// Guarantees: boxes and labels do not overlap; an edge goes from a higher to a lower layer; the
// same drawing
//             always gets the same layout.
#include "view/view.h"

#include <stdlib.h>

enum {
  MARGIN = 24,
  GAP_NODE = 26,   // between boxes of a layer
  GAP_DUMMY = 14,  // around a passing edge
  GAP_LAYER = 40,
  GAP_LAYER_MORE = 60,  // at most this much more, where edges go far to the side
  DUMMY_BUDGET = 300000,
  SWEEP_WORK = 6000000,  // sweeps times segments
  SWEEPS_MAX = 16,
  SWEEPS_MIN = 2
};

// A value: one result of one node, with its edges.
typedef struct DrawValue {
  int32_t from, deepest;  // node; layer of the last user that is not drawn straight
  int64_t first, n;       // edges, in `by_value`, ascending by the user's layer
  int64_t dummy;          // item of the first dummy; those of further layers follow
} DrawValue;

typedef struct Layout {
  Drawing *d;
  Arena *a, *out;  // of the layout while it is made; of the paths that are kept
  int64_t nnodes, nvalues, nedges;
  int32_t *layer;       // [nnodes]
  bool *adrift;         // [nnodes] depends on no input, as chains of operations on constants do
  DrawValue *value;     // by node, then result
  int64_t *by_value;    // [nedges] edges
  int64_t *value_of;    // [nedges]
  int64_t *node_value;  // [nnodes + 1] first value of each node
  int64_t span_max;     // longer edges are drawn straight
  Layered l;
  bool *dummy;
  int32_t *item_layer;
  double *x;             // [items] centres
  double *top, *bottom;  // [nlayers]
  double *port;          // [nvalues] where it leaves its node
} Layout;

// ---- values and layers ----

typedef struct EdgeKey {
  int64_t from, result, to, edge;
} EdgeKey;

static int by_source(const void *a, const void *b) {
  const EdgeKey *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->result != y->result) return x->result < y->result ? -1 : 1;
  return (x->edge > y->edge) - (x->edge < y->edge);
}

static void find_values(Layout *t) {
  EdgeKey *key = arena_array(t->a, EdgeKey, t->nedges);
  for (int64_t i = 0; i < t->nedges; i++) {
    const DrawEdge *e = &t->d->edge.v[i];
    key[i] = (EdgeKey){e->from, e->result, e->to, i};
  }
  if (t->nedges > 1) qsort(key, (size_t)t->nedges, sizeof *key, by_source);
  t->value = arena_array(t->a, DrawValue, t->nedges);
  t->by_value = arena_array(t->a, int64_t, t->nedges);
  t->value_of = arena_array(t->a, int64_t, t->nedges);
  t->node_value = arena_array(t->a, int64_t, t->nnodes + 1);
  for (int64_t i = 0; i < t->nedges; i++) {
    bool same = i && key[i].from == key[i - 1].from && key[i].result == key[i - 1].result;
    if (!same) {
      t->value[t->nvalues++] = (DrawValue){.from = (int32_t)key[i].from, .first = i};
      t->node_value[key[i].from + 1]++;
    }
    t->value[t->nvalues - 1].n++;
    t->by_value[i] = key[i].edge;
    t->value_of[key[i].edge] = t->nvalues - 1;
  }
  for (int64_t i = 0; i < t->nnodes; i++) t->node_value[i + 1] += t->node_value[i];
}

static int32_t deepest_user(const Layout *t, const DrawValue *v) {
  int32_t deepest = t->layer[v->from] + 1;
  for (int64_t i = v->first; i < v->first + v->n; i++)
    deepest = MAX(deepest, t->layer[t->d->edge.v[t->by_value[i]].to]);
  return deepest;
}

// How far node i may go down, and whether edges get shorter in sum: each of its own values does,
// while a value that it reads gets longer only if no other user is as deep.  What depends on no
// input follows it down, so its values do not count.
static void sink(Layout *t, int64_t i, const int64_t *in_start, const int64_t *in_edge) {
  int32_t limit = INT32_MAX;
  for (int64_t v = t->node_value[i]; v < t->node_value[i + 1]; v++)
    for (int64_t k = 0; k < t->value[v].n; k++) {
      int64_t e = t->by_value[t->value[v].first + k];
      limit = MIN(limit, t->layer[t->d->edge.v[e].to] - 1);
    }
  if (limit == INT32_MAX || limit <= t->layer[i]) return;
  int64_t gain = t->node_value[i + 1] - t->node_value[i], loss = 0;
  for (int64_t k = in_start[i]; k < in_start[i + 1]; k++)
    loss += t->value[t->value_of[in_edge[k]]].deepest < limit &&
            !t->adrift[t->d->edge.v[in_edge[k]].from];
  if (gain <= loss) return;
  t->layer[i] = limit;
  for (int64_t k = in_start[i]; k < in_start[i + 1]; k++) {
    DrawValue *v = &t->value[t->value_of[in_edge[k]]];
    v->deepest = MAX(v->deepest, limit);
  }
}

static void find_layers(Layout *t) {
  t->layer = arena_array(t->a, int32_t, t->nnodes);
  int64_t *in_start = arena_array(t->a, int64_t, t->nnodes + 2);
  int64_t *in_edge = arena_array(t->a, int64_t, t->nedges);
  const DrawEdge *edge = t->d->edge.v;
  for (int64_t i = 0; i < t->nedges; i++) in_start[edge[i].to + 2]++;
  for (int64_t i = 0; i < t->nnodes; i++) in_start[i + 2] += in_start[i + 1];
  for (int64_t i = 0; i < t->nedges; i++) in_edge[in_start[edge[i].to + 1]++] = i;
  t->adrift = arena_array(t->a, bool, t->nnodes);
  for (int64_t i = 0; i < t->nnodes; i++) {
    t->adrift[i] = t->d->node.v[i].kind == DRAW_OP || t->d->node.v[i].kind == DRAW_MODULE;
    for (int64_t k = in_start[i]; k < in_start[i + 1]; k++) {
      t->layer[i] = MAX(t->layer[i], t->layer[edge[in_edge[k]].from] + 1);
      t->adrift[i] = t->adrift[i] && t->adrift[edge[in_edge[k]].from];
    }
  }
  for (int64_t v = 0; v < t->nvalues; v++) t->value[v].deepest = deepest_user(t, &t->value[v]);
  for (int64_t i = t->nnodes - 1; i >= 0; i--) sink(t, i, in_start, in_edge);
  for (int64_t i = 0; i < t->nnodes; i++) t->l.nlayers = MAX(t->l.nlayers, t->layer[i] + 1);
}

// ---- items and segments ----

static int32_t span(const Layout *t, int64_t edge) {
  const DrawEdge *e = &t->d->edge.v[edge];
  return t->layer[e->to] - t->layer[e->from];
}

// Sets each value's deepest user among edges not longer than span_max; the number of dummies for
// all.
static int64_t count_dummies(Layout *t) {
  int64_t sum = 0;
  for (int64_t i = 0; i < t->nvalues; i++) {
    DrawValue *v = &t->value[i];
    v->deepest = t->layer[v->from] + 1;
    for (int64_t k = v->first; k < v->first + v->n; k++) {
      int32_t s = span(t, t->by_value[k]);
      if (s <= t->span_max) v->deepest = MAX(v->deepest, t->layer[v->from] + s);
    }
    sum += v->deepest - t->layer[v->from] - 1;
  }
  return sum;
}

static void make_items(Layout *t) {
  t->span_max = MAX(t->l.nlayers, 2);
  int64_t ndummies = count_dummies(t);
  while (ndummies > DUMMY_BUDGET && t->span_max > 1) {
    t->span_max /= 2;
    ndummies = count_dummies(t);
  }
  t->l.n = t->nnodes + ndummies;
  t->dummy = arena_array(t->a, bool, t->l.n);
  t->item_layer = arena_array(t->a, int32_t, t->l.n);
  t->l.width = arena_array(t->a, double, t->l.n);
  t->l.dummy = t->dummy;
  for (int64_t i = 0; i < t->nnodes; i++) {
    t->item_layer[i] = t->layer[i];
    t->l.width[i] = MAX(t->d->node.v[i].w, t->d->node.v[i].label_w) + GAP_NODE;
  }
  int64_t next = t->nnodes;
  for (int64_t i = 0; i < t->nvalues; i++) {
    DrawValue *v = &t->value[i];
    v->dummy = next;
    for (int32_t k = t->layer[v->from] + 1; k < v->deepest; k++, next++) {
      t->dummy[next] = true;
      t->item_layer[next] = k;
      t->l.width[next] = GAP_DUMMY;
    }
  }
}

// The item through which value v leaves this layer: its node or a dummy.
static int64_t value_item(const Layout *t, const DrawValue *v, int32_t layer) {
  int32_t below = layer - t->layer[v->from];
  return below == 0 ? v->from : v->dummy + below - 1;
}

typedef struct Seg {
  int32_t upper, lower;
} Seg;

static Seg *list_segments(Layout *t) {
  Seg *seg = arena_array(t->a, Seg, t->nedges + t->l.n);
  int64_t n = 0;
  for (int64_t i = 0; i < t->nvalues; i++) {
    const DrawValue *v = &t->value[i];
    for (int32_t k = t->layer[v->from]; k + 1 < v->deepest; k++)
      seg[n++] = (Seg){(int32_t)value_item(t, v, k), (int32_t)value_item(t, v, k + 1)};
    for (int64_t k = v->first; k < v->first + v->n; k++) {
      int64_t to = t->d->edge.v[t->by_value[k]].to;
      if (span(t, t->by_value[k]) > t->span_max) continue;
      seg[n++] = (Seg){(int32_t)value_item(t, v, t->layer[to] - 1), (int32_t)to};
    }
  }
  t->l.nsegs = n;
  return seg;
}

static void make_segments(Layout *t) {
  Layered *l = &t->l;
  const Seg *seg = list_segments(t);
  l->up_start = arena_array(t->a, int64_t, l->n + 2);
  l->down_start = arena_array(t->a, int64_t, l->n + 2);
  l->up = arena_array(t->a, int32_t, l->nsegs);
  l->down = arena_array(t->a, int32_t, l->nsegs);
  l->up_seg = arena_array(t->a, int64_t, l->nsegs);
  l->down_seg = arena_array(t->a, int64_t, l->nsegs);
  for (int64_t i = 0; i < l->nsegs; i++) {
    l->up_start[seg[i].lower + 2]++;
    l->down_start[seg[i].upper + 2]++;
  }
  for (int64_t i = 0; i < l->n; i++) {
    l->up_start[i + 2] += l->up_start[i + 1];
    l->down_start[i + 2] += l->down_start[i + 1];
  }
  for (int64_t i = 0; i < l->nsegs; i++) {
    int64_t u = l->up_start[seg[i].lower + 1]++, w = l->down_start[seg[i].upper + 1]++;
    l->up[u] = seg[i].upper;
    l->down[w] = seg[i].lower;
    l->up_seg[u] = l->down_seg[w] = i;
  }
}

// ---- order within layers ----

static void number_order(Layered *l) {
  for (int64_t k = 0; k < l->nlayers; k++)
    for (int64_t p = l->layer_start[k]; p < l->layer_start[k + 1]; p++)
      l->pos[l->order[p]] = (int32_t)(p - l->layer_start[k]);
}

// The first order: depth first from the top, so that what belongs together starts together.
static void first_order(Layout *t) {
  Layered *l = &t->l;
  l->order = arena_array(t->a, int32_t, l->n);
  l->pos = arena_array(t->a, int32_t, l->n);
  l->layer_start = arena_array(t->a, int64_t, l->nlayers + 2);
  for (int64_t i = 0; i < l->n; i++) l->layer_start[t->item_layer[i] + 2]++;
  for (int64_t i = 0; i < l->nlayers; i++) l->layer_start[i + 2] += l->layer_start[i + 1];
  bool *seen = arena_array(t->a, bool, l->n);
  int32_t *stack = arena_array(t->a, int32_t, l->n + l->nsegs);
  for (int64_t root = 0; root < l->n; root++) {
    int64_t n = 0;
    if (!seen[root] && l->up_start[root] == l->up_start[root + 1]) stack[n++] = (int32_t)root;
    while (n) {
      int32_t i = stack[--n];
      if (seen[i]) continue;
      seen[i] = true;
      l->order[l->layer_start[t->item_layer[i] + 1]++] = i;
      for (int64_t k = l->down_start[i + 1] - 1; k >= l->down_start[i]; k--)
        if (!seen[l->down[k]]) stack[n++] = l->down[k];
    }
  }
  number_order(l);
}

typedef struct SortItem {
  double key;
  int32_t pos, item;
} SortItem;

static int by_key(const void *a, const void *b) {
  const SortItem *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->pos > y->pos) - (x->pos < y->pos);
}

// Reorders one layer by the mean place of each item's neighbours above (or below).
static void sort_layer(Layered *l, int64_t layer, bool above, SortItem *tmp) {
  int64_t first = l->layer_start[layer], n = l->layer_start[layer + 1] - first;
  const int64_t *start = above ? l->up_start : l->down_start;
  const int32_t *end = above ? l->up : l->down;
  for (int64_t p = 0; p < n; p++) {
    int32_t i = l->order[first + p];
    double sum = 0;
    for (int64_t k = start[i]; k < start[i + 1]; k++) sum += l->pos[end[k]];
    int64_t count = start[i + 1] - start[i];
    tmp[p] = (SortItem){count ? sum / (double)count : (double)p, (int32_t)p, i};
  }
  if (n > 1) qsort(tmp, (size_t)n, sizeof *tmp, by_key);
  for (int64_t p = 0; p < n; p++) {
    l->order[first + p] = tmp[p].item;
    l->pos[tmp[p].item] = (int32_t)p;
  }
}

static int by_i32(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

// Crossings between a layer and the next: inversions among the lower ends, counted with a Fenwick
// tree.
static int64_t layer_crossings(const Layered *l, int64_t layer, int32_t *tree, int32_t *ends) {
  int64_t first = l->layer_start[layer], last = l->layer_start[layer + 1];
  int64_t width = l->layer_start[layer + 2] - last, total = 0, sum = 0;
  memset(tree, 0, (size_t)(width + 1) * sizeof *tree);
  for (int64_t p = first; p < last; p++) {
    int32_t i = l->order[p];
    int64_t n = 0;
    for (int64_t k = l->down_start[i]; k < l->down_start[i + 1]; k++)
      ends[n++] = l->pos[l->down[k]];
    if (n > 1) qsort(ends, (size_t)n, sizeof *ends, by_i32);
    for (int64_t k = 0; k < n; k++) {
      int64_t before = 0;
      for (int64_t at = ends[k] + 1; at > 0; at -= at & -at) before += tree[at];
      sum += total - before;
    }
    for (int64_t k = 0; k < n; k++, total++)
      for (int64_t at = ends[k] + 1; at <= width; at += at & -at) tree[at]++;
  }
  return sum;
}

static void find_order(Layout *t) {
  Layered *l = &t->l;
  first_order(t);
  SortItem *tmp = arena_array(t->a, SortItem, l->n);
  int32_t *tree = arena_array(t->a, int32_t, l->n + 1),
          *ends = arena_array(t->a, int32_t, l->nsegs);
  int32_t *best = arena_dup(t->a, l->order, l->n * (int64_t)sizeof *l->order);
  int64_t least = INT64_MAX;
  int64_t sweeps = MIN(MAX(SWEEP_WORK / (l->nsegs + l->n + 1), SWEEPS_MIN), SWEEPS_MAX);
  for (int64_t s = 0; s <= sweeps && least > 0; s++) {
    for (int64_t k = 1; s && k < l->nlayers; k++)
      sort_layer(l, s & 1 ? k : l->nlayers - 1 - k, s & 1, tmp);
    int64_t crossings = 0;
    for (int64_t k = 0; k + 1 < l->nlayers; k++) crossings += layer_crossings(l, k, tree, ends);
    if (crossings >= least) continue;
    least = crossings;
    memcpy(best, l->order, (size_t)l->n * sizeof *best);
  }
  memcpy(l->order, best, (size_t)l->n * sizeof *best);
  number_order(l);
}

typedef struct SortSeg {
  int32_t pos, end;
  int64_t seg;
} SortSeg;

static int by_pos(const void *a, const void *b) {
  const SortSeg *x = a, *y = b;
  if (x->pos != y->pos) return x->pos < y->pos ? -1 : 1;
  return (x->seg > y->seg) - (x->seg < y->seg);
}

static void sort_ends(const Layered *l, const int64_t *start, int32_t *end, int64_t *seg,
                      SortSeg *tmp) {
  for (int64_t i = 0; i < l->n; i++) {
    int64_t n = start[i + 1] - start[i];
    for (int64_t k = 0; k < n; k++) {
      int64_t at = start[i] + k;
      tmp[k] = (SortSeg){l->pos[end[at]], end[at], seg[at]};
    }
    if (n > 1) qsort(tmp, (size_t)n, sizeof *tmp, by_pos);
    for (int64_t k = 0; k < n; k++) {
      end[start[i] + k] = tmp[k].end;
      seg[start[i] + k] = tmp[k].seg;
    }
  }
}

// ---- coordinates ----

static void place_x(Layout *t) {
  Layered *l = &t->l;
  SortSeg *tmp = arena_array(t->a, SortSeg, l->nsegs);
  sort_ends(l, l->up_start, l->up, l->up_seg, tmp);
  sort_ends(l, l->down_start, l->down, l->down_seg, tmp);
  t->x = arena_array(t->a, double, l->n);
  layout_place(l, t->a, t->x);
  double left = 0, right = 0;
  for (int64_t i = 0; i < l->n; i++) {
    double half = (l->width[i] - (t->dummy[i] ? 0 : GAP_NODE)) / 2;
    left = i ? MIN(left, t->x[i] - half) : t->x[i] - half;
    right = i ? MAX(right, t->x[i] + half) : t->x[i] + half;
  }
  for (int64_t i = 0; i < l->n; i++) t->x[i] += MARGIN - left;
  t->d->w = right - left + 2 * MARGIN;
}

static void place_y(Layout *t) {
  Layered *l = &t->l;
  t->top = arena_array(t->a, double, l->nlayers + 1);
  t->bottom = arena_array(t->a, double, l->nlayers + 1);
  double y = MARGIN;
  for (int64_t k = 0; k < l->nlayers; k++) {
    double height = 0, sideways = 0;
    for (int64_t p = l->layer_start[k]; p < l->layer_start[k + 1]; p++) {
      int32_t i = l->order[p];
      if (!t->dummy[i]) height = MAX(height, t->d->node.v[i].h);
      for (int64_t s = l->down_start[i]; s < l->down_start[i + 1]; s++) {
        double dx = t->x[l->down[s]] - t->x[i];
        sideways = MAX(sideways, dx < 0 ? -dx : dx);
      }
    }
    t->top[k] = y;
    t->bottom[k] = y + height;
    y += height + GAP_LAYER + MIN(sideways / 16, GAP_LAYER_MORE);
  }
  t->d->h = (l->nlayers ? t->bottom[l->nlayers - 1] : y) + MARGIN;
  for (int64_t i = 0; i < t->nnodes; i++) {
    DrawNode *n = &t->d->node.v[i];
    n->x = t->x[i] - n->w / 2;
    n->y = (t->top[t->layer[i]] + t->bottom[t->layer[i]] - n->h) / 2;
  }
}

// ---- paths ----

// Where each value leaves its node: above its label, whose room is a part of the node's width; what
// is left is shared out evenly.
static void place_ports(Layout *t) {
  double *room = arena_array(t->a, double, t->nvalues);
  t->port = arena_array(t->a, double, t->nvalues);
  for (int64_t i = 0; i < t->nedges; i++) {
    const char *label = t->d->edge.v[i].label;
    if (label) room[t->value_of[i]] = view_label_width(label);
  }
  for (int64_t i = 0; i < t->nnodes; i++) {
    int64_t first = t->node_value[i], n = t->node_value[i + 1] - first;
    double used = 0, left = t->x[i] - t->d->node.v[i].w / 2;
    for (int64_t v = first; v < first + n; v++) used += room[v];
    double more = n ? (t->d->node.v[i].w - used) / (double)n : 0;
    for (int64_t v = first; v < first + n; v++) {
      t->port[v] = n > 1 ? left + (room[v] + more) / 2 : t->x[i];
      left += room[v] + more;
    }
  }
}

static void put_to(StrBuf *b, double x0, double y0, double x1, double y1) {
  double bend = (y1 - y0) / 2;
  if (x1 - x0 < 0.5 && x0 - x1 < 0.5)
    strbuf_printf(b, "V%.0f", y1);
  else
    strbuf_printf(b, "C%.0f %.0f %.0f %.0f %.0f %.0f", x0, y0 + bend, x1, y1 - bend, x1, y1);
}

static void put_head(StrBuf *b, double x, double y) {
  strbuf_printf(b, "M%.0f %.0fL%.0f %.0fL%.0f %.0f", x - 3.5, y - 6, x, y, x + 3.5, y - 6);
}

// From the item in layer `at` down to the user, along the value's dummies.
static void put_path(Layout *t, StrBuf *b, int64_t value, DrawEdge *e, int32_t at) {
  const DrawValue *v = &t->value[value];
  int32_t last = t->layer[e->to];
  bool from_node = at == t->layer[v->from];
  double px = from_node ? t->port[value] : t->x[value_item(t, v, at)];
  const DrawNode *from = &t->d->node.v[v->from], *to = &t->d->node.v[e->to];
  strbuf_printf(b, "M%.0f %.0f", px, from_node ? from->y + from->h : t->bottom[at]);
  bool straight = last - t->layer[v->from] > t->span_max;
  if (from_node && !straight) strbuf_printf(b, "V%.0f", t->bottom[at]);
  double y = t->bottom[at];
  for (int32_t k = at + 1; k < last && !straight; k++) {
    double x = t->x[value_item(t, v, k)];
    put_to(b, px, y, x, t->top[k]);
    if (t->bottom[k] > t->top[k]) strbuf_printf(b, "V%.0f", t->bottom[k]);
    px = x;
    y = t->bottom[k];
  }
  put_to(b, px, y, t->x[e->to], t->top[last]);
  if (to->y > t->top[last]) strbuf_printf(b, "V%.0f", to->y);
  put_head(b, t->x[e->to], to->y);
}

typedef struct EdgeDepth {
  int64_t edge;
  int32_t layer;
} EdgeDepth;

static int by_depth(const void *a, const void *b) {
  const EdgeDepth *x = a, *y = b;
  if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
  return (x->edge > y->edge) - (x->edge < y->edge);
}

// The nearest user's path is drawn whole; each further one begins where its forerunner turned off.
static void draw_value(Layout *t, int64_t value, EdgeDepth *tmp) {
  const DrawValue *v = &t->value[value];
  for (int64_t k = 0; k < v->n; k++) {
    int64_t e = t->by_value[v->first + k];
    tmp[k] = (EdgeDepth){e, t->layer[t->d->edge.v[e].to]};
  }
  if (v->n > 1) qsort(tmp, (size_t)v->n, sizeof *tmp, by_depth);
  int32_t at = t->layer[v->from];
  int64_t parent = -1;
  for (int64_t k = 0; k < v->n; k++) {
    DrawEdge *e = &t->d->edge.v[tmp[k].edge];
    StrBuf b;
    strbuf_init(&b, t->out);
    bool straight = span(t, tmp[k].edge) > t->span_max;
    put_path(t, &b, value, e, straight ? t->layer[v->from] : at);
    e->path = strbuf_text(&b);
    e->parent = straight ? -1 : parent;
    if (!straight && tmp[k].layer - 1 > at) {
      at = tmp[k].layer - 1;
      parent = tmp[k].edge;
    }
    if (!e->label) continue;
    const DrawNode *from = &t->d->node.v[v->from];
    e->label_x = t->port[value];
    e->label_y = MAX(from->y + from->h, t->bottom[t->layer[v->from]]) + 14;
  }
}

void drawing_layout(Drawing *d, Arena *a, Arena *scratch) {
  Layout t = {.d = d, .nnodes = d->node.n, .nedges = d->edge.n, .a = scratch, .out = a};
  ArenaMark mark = arena_mark(scratch);
  find_values(&t);
  find_layers(&t);
  make_items(&t);
  make_segments(&t);
  find_order(&t);
  place_x(&t);
  place_y(&t);
  place_ports(&t);
  EdgeDepth *tmp = arena_array(scratch, EdgeDepth, t.nedges);
  for (int64_t i = 0; i < t.nvalues; i++) draw_value(&t, i, tmp);
  arena_reset(scratch, mark);
}
