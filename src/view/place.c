// place.c -- horizontal coordinates of a layered graph, after Brandes and Koepf.
//
// Four times, once for each combination of up/down and left/right, items are aligned into vertical
// blocks with the median of their neighbours, and the blocks are packed; the result is the mean of
// the two middle ones of the four.  Chains of dummies win over other segments, so long edges are
// straight.  Packing is a longest path over the graph of neighbouring blocks, and a second pass
// that closes gaps (as dagre does), which is free of the overlaps that the paper's own packing can
// give.
//
// Needs:      segments sorted by the position of the other end; total order within layers.
// Guarantees: neighbours in a layer are at least the mean of their widths apart; linear time.
#include "view/view.h"

#include <math.h>
#include <stdlib.h>

enum { PULL_WORK = 8000000, PULLS_MAX = 24 };  // sweeps times items; sweeps

typedef struct Placing {
  const Layered *l;
  Arena *a;
  bool *conflict;  // [nsegs] crosses a segment between two dummies
  bool down, mirror;
  int32_t *root, *align;  // [n]
  double *x;              // [n] of roots, then of all
  // The blocks' graph: each pair of neighbours is an edge between their blocks.
  int64_t *out_start;  // [n + 2]
  int32_t *out_to, *indegree, *topo;
  double *out_gap;
} Placing;

static int64_t layer_size(const Layered *l, int64_t k) {
  return l->layer_start[k + 1] - l->layer_start[k];
}

// Item p of a layer, counted from the side where this run starts.
static int32_t item_at(const Placing *s, int64_t layer, int64_t p) {
  const Layered *l = s->l;
  int64_t n = layer_size(l, layer);
  return l->order[l->layer_start[layer] + (s->mirror ? n - 1 - p : p)];
}

// ---- conflicts ----

// The upper end of i's segment between dummies, or -1.
static int32_t inner_above(const Layered *l, int32_t i) {
  if (!l->dummy[i]) return -1;
  for (int64_t k = l->up_start[i]; k < l->up_start[i + 1]; k++)
    if (l->dummy[l->up[k]]) return l->up[k];
  return -1;
}

static void mark_layer(Placing *s, int64_t layer) {
  const Layered *l = s->l;
  int64_t n = layer_size(l, layer), scanned = 0, left = 0;
  const int32_t *item = l->order + l->layer_start[layer];
  for (int64_t p = 0; p < n; p++) {
    int32_t above = inner_above(l, item[p]);
    if (above < 0 && p < n - 1) continue;
    int64_t right = above >= 0 ? l->pos[above] : layer_size(l, layer - 1);
    for (; scanned <= p; scanned++) {
      int32_t i = item[scanned];
      for (int64_t k = l->up_start[i]; k < l->up_start[i + 1]; k++) {
        int64_t at = l->pos[l->up[k]];
        bool inner = l->dummy[i] && l->dummy[l->up[k]];
        if (!inner && (at < left || at > right)) s->conflict[l->up_seg[k]] = true;
      }
    }
    left = right;
  }
}

// ---- alignment ----

static void align_item(Placing *s, int32_t v, int64_t *reached, int64_t neighbour_layer) {
  const Layered *l = s->l;
  const int64_t *start = s->down ? l->up_start : l->down_start;
  const int32_t *end = s->down ? l->up : l->down;
  const int64_t *seg = s->down ? l->up_seg : l->down_seg;
  int64_t n = start[v + 1] - start[v], size = layer_size(l, neighbour_layer);
  int64_t first = (n - 1) / 2, last = n / 2;
  // A value that other users leave here goes straight on.
  for (int64_t m = 0; l->dummy[v] && m < n; m++)
    if (l->dummy[end[start[v] + m]]) first = last = s->mirror ? n - 1 - m : m;
  for (int64_t m = first; n && m <= last && s->align[v] == v; m++) {
    int64_t k = start[v] + (s->mirror ? n - 1 - m : m);
    int32_t u = end[k];
    int64_t at = s->mirror ? size - 1 - l->pos[u] : l->pos[u];
    if (s->conflict[seg[k]] || *reached >= at) continue;
    s->align[u] = v;
    s->root[v] = s->root[u];
    s->align[v] = s->root[v];
    *reached = at;
  }
}

static void align_all(Placing *s) {
  const Layered *l = s->l;
  for (int64_t i = 0; i < l->n; i++) s->root[i] = s->align[i] = (int32_t)i;
  for (int64_t k = 1; k < l->nlayers; k++) {
    int64_t layer = s->down ? k : l->nlayers - 1 - k;
    int64_t reached = -1;
    for (int64_t p = 0; p < layer_size(l, layer); p++)
      align_item(s, item_at(s, layer, p), &reached, s->down ? layer - 1 : layer + 1);
  }
}

// ---- packing ----

static void link_blocks(Placing *s) {
  const Layered *l = s->l;
  memset(s->out_start, 0, (size_t)(l->n + 2) * sizeof *s->out_start);
  memset(s->indegree, 0, (size_t)l->n * sizeof *s->indegree);
  for (int64_t k = 0; k < l->nlayers; k++)
    for (int64_t p = 0; p + 1 < layer_size(l, k); p++) {
      s->out_start[s->root[item_at(s, k, p)] + 2]++;
      s->indegree[s->root[item_at(s, k, p + 1)]]++;
    }
  for (int64_t i = 0; i < l->n; i++) s->out_start[i + 2] += s->out_start[i + 1];
  for (int64_t k = 0; k < l->nlayers; k++)
    for (int64_t p = 0; p + 1 < layer_size(l, k); p++) {
      int32_t u = item_at(s, k, p), v = item_at(s, k, p + 1);
      int64_t at = s->out_start[s->root[u] + 1]++;
      s->out_to[at] = s->root[v];
      s->out_gap[at] = (l->width[u] + l->width[v]) / 2;
    }
}

static void pack(Placing *s) {
  const Layered *l = s->l;
  link_blocks(s);
  int64_t n = 0;
  for (int64_t i = 0; i < l->n; i++) {
    s->x[i] = 0;
    if (s->root[i] == i && !s->indegree[i]) s->topo[n++] = (int32_t)i;
  }
  for (int64_t at = 0; at < n; at++) {
    int32_t u = s->topo[at];
    for (int64_t k = s->out_start[u]; k < s->out_start[u + 1]; k++) {
      int32_t v = s->out_to[k];
      s->x[v] = fmax(s->x[v], s->x[u] + s->out_gap[k]);
      if (--s->indegree[v] == 0) s->topo[n++] = v;
    }
  }
  for (int64_t at = n - 1; at >= 0; at--) {
    int32_t u = s->topo[at];
    double room = INFINITY;
    for (int64_t k = s->out_start[u]; k < s->out_start[u + 1]; k++)
      room = fmin(room, s->x[s->out_to[k]] - s->out_gap[k]);
    if (room < INFINITY) s->x[u] = fmax(s->x[u], room);
  }
}

static void run_once(Placing *s, bool down, bool mirror, double *out) {
  s->down = down;
  s->mirror = mirror;
  align_all(s);
  pack(s);
  for (int64_t i = 0; i < s->l->n; i++) out[i] = mirror ? -s->x[s->root[i]] : s->x[s->root[i]];
}

// ---- the four together ----

typedef struct Extent {
  double left, right;
} Extent;

static Extent extent_of(const Layered *l, const double *x) {
  Extent e = {INFINITY, -INFINITY};
  for (int64_t i = 0; i < l->n; i++) {
    e.left = fmin(e.left, x[i] - l->width[i] / 2);
    e.right = fmax(e.right, x[i] + l->width[i] / 2);
  }
  return e;
}

static double middle(double a, double b, double c, double d) {
  double least = fmin(fmin(a, b), fmin(c, d)), most = fmax(fmax(a, b), fmax(c, d));
  return (a + b + c + d - least - most) / 2;
}

static void combine(const Layered *l, double *const x[4], double *out) {
  Extent e[4];
  int narrow = 0;
  for (int r = 0; r < 4; r++) {
    e[r] = extent_of(l, x[r]);
    if (e[r].right - e[r].left < e[narrow].right - e[narrow].left) narrow = r;
  }
  double shift[4];
  for (int r = 0; r < 4; r++)
    shift[r] = r & 1 ? e[narrow].right - e[r].right : e[narrow].left - e[r].left;
  for (int64_t i = 0; i < l->n; i++)
    out[i] = middle(x[0][i] + shift[0], x[1][i] + shift[1], x[2][i] + shift[2], x[3][i] + shift[3]);
}

// ---- pulling together ----

// The mean of four packings can leave wide gaps.  Items that stand in one vertical line on a common
// edge move as one, each time to the median of what their other edges lead to, as far as their
// neighbours let them.
typedef struct Lines {
  const Layered *l;
  double *x;
  int32_t *line;   // [n] the first item of the line that this one is in
  int64_t *start;  // [n + 2] items of each line, in `item`
  int32_t *item;   // [n]
  int32_t *layer;  // [n]
  double *wish;    // [nsegs * 2]
} Lines;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void find_lines(Lines *s) {
  const Layered *l = s->l;
  for (int64_t k = 0; k < l->nlayers; k++)
    for (int64_t p = l->layer_start[k]; p < l->layer_start[k + 1]; p++) {
      int32_t i = l->order[p];
      s->layer[i] = (int32_t)k;
      s->line[i] = i;
      for (int64_t u = l->up_start[i]; u < l->up_start[i + 1]; u++)
        if (fabs(s->x[l->up[u]] - s->x[i]) < 0.01) s->line[i] = s->line[l->up[u]];
      s->start[s->line[i] + 2]++;
    }
  for (int64_t i = 0; i < l->n; i++) s->start[i + 2] += s->start[i + 1];
  for (int64_t k = 0; k < l->n; k++) {
    int32_t i = l->order[k];
    s->item[s->start[s->line[i] + 1]++] = i;
  }
}

// Adds where the segments of item i that leave its line lead to.
static int64_t add_wishes(Lines *s, int32_t i, int64_t n) {
  const Layered *l = s->l;
  for (int64_t k = l->up_start[i]; k < l->up_start[i + 1]; k++)
    if (s->line[l->up[k]] != s->line[i]) s->wish[n++] = s->x[l->up[k]];
  for (int64_t k = l->down_start[i]; k < l->down_start[i + 1]; k++)
    if (s->line[l->down[k]] != s->line[i]) s->wish[n++] = s->x[l->down[k]];
  return n;
}

static void move_line(Lines *s, int32_t line) {
  const Layered *l = s->l;
  double left = -INFINITY, right = INFINITY;
  int64_t n = 0;
  for (int64_t k = s->start[line]; k < s->start[line + 1]; k++) {
    int32_t i = s->item[k];
    int64_t at = l->layer_start[s->layer[i]] + l->pos[i];
    if (l->pos[i] > 0) {
      int32_t u = l->order[at - 1];
      left = fmax(left, s->x[u] + (l->width[u] + l->width[i]) / 2);
    }
    if (at + 1 < l->layer_start[s->layer[i] + 1]) {
      int32_t v = l->order[at + 1];
      right = fmin(right, s->x[v] - (l->width[v] + l->width[i]) / 2);
    }
    n = add_wishes(s, i, n);
  }
  if (!n || left > right) return;
  qsort(s->wish, (size_t)n, sizeof *s->wish, by_value);
  double to = fmin(fmax((s->wish[(n - 1) / 2] + s->wish[n / 2]) / 2, left), right);
  for (int64_t k = s->start[line]; k < s->start[line + 1]; k++) s->x[s->item[k]] = to;
}

static void pull_together(const Layered *l, Arena *a, double *x) {
  Lines s = {.l = l, .x = x};
  s.line = arena_array(a, int32_t, l->n);
  s.start = arena_array(a, int64_t, l->n + 2);
  s.item = arena_array(a, int32_t, l->n);
  s.layer = arena_array(a, int32_t, l->n);
  s.wish = arena_array(a, double, 2 * l->nsegs);
  find_lines(&s);
  int64_t sweeps = MIN(MAX(PULL_WORK / (l->n + l->nsegs + 1), 2), PULLS_MAX);
  for (int64_t r = 0; r < sweeps; r++)
    for (int64_t k = 0; k < l->n; k++) {
      int32_t i = l->order[r & 1 ? l->n - 1 - k : k];
      if (s.line[i] == i) move_line(&s, i);
    }
}

void layout_place(const Layered *l, Arena *a, double *out_x) {
  Placing s = {.l = l, .a = a};
  s.conflict = arena_array(a, bool, l->nsegs);
  s.root = arena_array(a, int32_t, l->n);
  s.align = arena_array(a, int32_t, l->n);
  s.indegree = arena_array(a, int32_t, l->n);
  s.topo = arena_array(a, int32_t, l->n);
  s.x = arena_array(a, double, l->n);
  s.out_start = arena_array(a, int64_t, l->n + 2);
  s.out_to = arena_array(a, int32_t, l->n);
  s.out_gap = arena_array(a, double, l->n);
  for (int64_t k = 1; k < l->nlayers; k++) mark_layer(&s, k);
  double *x[4];
  for (int r = 0; r < 4; r++) {
    x[r] = arena_array(a, double, l->n);
    run_once(&s, r < 2, r & 1, x[r]);
  }
  combine(l, x, out_x);
  pull_together(l, a, out_x);
}
