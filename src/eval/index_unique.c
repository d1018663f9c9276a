// index_unique.c -- reference evaluation of unique and non_max_suppression.
//
// unique compares slices element by element in row-major order; a heap sort on positions with the
// position as the last criterion groups equal slices, each group led by its first occurrence.
#include "eval/index.h"
#include "eval/move.h"

#include <math.h>

// ---- unique ----

typedef struct Slices {
  const Value *x;
  int64_t n, outer, inner;  // slices; element (o, i) of slice s lies at (o x n + s) x inner + i
} Slices;

static int compare_elems(const Value *x, int64_t a, int64_t b) {
  if (x->dtype == DT_STRING) return str_cmp(val_str(x, a), val_str(x, b));
  if (dtype_class(x->dtype) == DC_COMPLEX) {  // by real part, then imaginary part
    DType part = x->dtype == DT_C64 ? DT_F32 : DT_F64;
    for (int k = 0; k < 2; k++) {
      uint64_t ka = order_key(part, x->data, 2 * a + k), kb = order_key(part, x->data, 2 * b + k);
      if (ka != kb) return ka < kb ? -1 : 1;
    }
    return 0;
  }
  uint64_t ka = order_key(x->dtype, x->data, a), kb = order_key(x->dtype, x->data, b);
  return ka < kb ? -1 : ka > kb;
}

static int compare_slices(const Slices *s, int64_t a, int64_t b) {
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      int c = compare_elems(s->x, (o * s->n + a) * s->inner + i, (o * s->n + b) * s->inner + i);
      if (c) return c;
    }
  return 0;
}

static bool slice_before(const Slices *s, int64_t a, int64_t b) {
  int c = compare_slices(s, a, b);
  return c ? c < 0 : a < b;
}

static void sift_slices(const Slices *s, int64_t *v, int64_t i, int64_t n) {
  int64_t x = v[i];
  for (int64_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && slice_before(s, v[c], v[c + 1])) c++;
    if (!slice_before(s, x, v[c])) break;
    v[i] = v[c];
  }
  v[i] = x;
}

static void sort_slices(const Slices *s, int64_t *v) {
  for (int64_t i = 0; i < s->n; i++) v[i] = i;
  for (int64_t i = s->n / 2 - 1; i >= 0; i--) sift_slices(s, v, i, s->n);
  for (int64_t i = s->n - 1; i > 0; i--) {
    int64_t last = v[0];
    v[0] = v[i];
    v[i] = last;
    sift_slices(s, v, 0, i);
  }
}

typedef struct Groups {
  int64_t n;
  int64_t *first, *count;  // of each group: first occurrence, size
  int64_t *of;             // group of each slice
} Groups;

// Groups in ascending order, or renumbered in order of first occurrence.
static void group_slices(Run *r, const Slices *s, bool sorted, Groups *g) {
  int64_t *v = arena_array(&r->scratch, int64_t, s->n);
  g->first = arena_array(&r->scratch, int64_t, s->n);
  g->count = arena_array(&r->scratch, int64_t, s->n);
  g->of = arena_array(&r->scratch, int64_t, s->n);
  g->n = 0;
  sort_slices(s, v);
  for (int64_t i = 0; i < s->n; i++) {
    if (i == 0 || compare_slices(s, v[i - 1], v[i])) g->first[g->n++] = v[i];
    g->of[v[i]] = g->n - 1;
    g->count[g->n - 1]++;
  }
  if (sorted) return;
  int64_t *number = arena_array(&r->scratch, int64_t, g->n),
          *first = arena_array(&r->scratch, int64_t, g->n);
  int64_t *count = arena_array(&r->scratch, int64_t, g->n), next = 0;
  for (int64_t i = 0; i < s->n; i++) {
    int64_t old = g->of[i];
    if (g->first[old] == i) {
      number[old] = next;
      first[next] = i;
      count[next++] = g->count[old];
    }
    g->of[i] = number[old];
  }
  g->first = first;
  g->count = count;
}

static tenon_status put_list(Eval *e, int i, int64_t n, const int64_t *v) {
  if (!eval_wants(e, i)) return TENON_OK;
  Value *y;
  TRY(eval_out(e, i, DT_I64, 1, &n, &y));
  if (n) memcpy(y->data, v, (size_t)n * sizeof *v);
  return TENON_OK;
}

tenon_status eval_unique(Eval *e) {
  const unique_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "X", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  int axis = 0, rank = 1;
  int64_t dims[MAX_RANK] = {x->n};
  Slices s = {.x = x, .n = x->n, .outer = 1, .inner = 1};
  if (at->axis.given) {
    TRY(eval_axis(e, at->axis.v, x->rank, &axis));
    rank = x->rank;
    memcpy(dims, x->dims, sizeof dims);
    s.n = dims[axis];
    if (x->n == 0 && s.n > 0)
      return eval_fail(e, TENON_EINVAL, "slices of no elements along axis %d", axis);
    if (s.n) {
      s.outer = dims_product(dims, 0, axis);
      s.inner = dims_product(dims, axis + 1, rank);
    }
  }
  Groups g;
  TRY(eval_work(e, 4 * (double)x->n * log2((double)s.n + 2)));  // a sort
  group_slices(e->run, &s, at->sorted, &g);
  dims[axis] = g.n;
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  for (int64_t o = 0; o < s.outer && y->n; o++)
    for (int64_t i = 0; i < g.n; i++)
      copy_elems(x->dtype, y->data, (o * g.n + i) * s.inner, x->data,
                 (o * s.n + g.first[i]) * s.inner, s.inner);
  TRY(put_list(e, 1, g.n, g.first));
  TRY(put_list(e, 2, s.n, g.of));
  return put_list(e, 3, g.n, g.count);
}

// ---- non_max_suppression ----

typedef struct Box {
  double y1, x1, y2, x2;
} Box;

static Box box_at(const Value *boxes, int64_t i, bool center) {
  double v[4];
  load_f64(boxes->dtype, boxes->data, 4 * i, 4, v);
  if (center) return (Box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return (Box){MIN(v[0], v[2]), MIN(v[1], v[3]), MAX(v[0], v[2]), MAX(v[1], v[3])};
}

// Whether the overlap of two boxes is above the limit; the ratio as f32, as the limit is.
static bool overlap(Box a, Box b, double limit) {
  double h = MIN(a.y2, b.y2) - MAX(a.y1, b.y1), w = MIN(a.x2, b.x2) - MAX(a.x1, b.x1);
  if (!(h > 0) || !(w > 0)) return false;
  double area_a = (a.y2 - a.y1) * (a.x2 - a.x1), area_b = (b.y2 - b.y1) * (b.x2 - b.x1);
  double both = area_a + area_b - h * w;
  if (!(area_a > 0) || !(area_b > 0) || !(both > 0)) return false;
  return round_to(DT_F32, h * w / both) > limit;
}

typedef struct Suppress {
  const Value *boxes, *scores;
  bool center, has_score_limit;
  int64_t max_boxes;
  double iou_limit, score_limit;
  int64_t *order, *kept;  // of one class
  VEC(int64_t) out;       // batch, class, box, ...
} Suppress;

static bool score_before(const Value *scores, int64_t base, int64_t a, int64_t b) {
  uint64_t ka = order_key(scores->dtype, scores->data, base + a);
  uint64_t kb = order_key(scores->dtype, scores->data, base + b);
  return ka != kb ? ka > kb : a < b;  // highest first, then lowest index
}

static void sift_scores(const Suppress *s, int64_t base, int64_t i, int64_t n) {
  int64_t *v = s->order, x = v[i];
  for (int64_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && score_before(s->scores, base, v[c + 1], v[c])) c++;
    if (!score_before(s->scores, base, v[c], x)) break;
    v[i] = v[c];
  }
  v[i] = x;
}

static void suppress_class(Arena *arena, Suppress *s, int64_t batch, int64_t cls) {
  int64_t n = 0, nkept = 0, nboxes = s->boxes->dims[1];
  int64_t base = (batch * s->scores->dims[1] + cls) * nboxes;
  for (int64_t i = 0; i < nboxes; i++)
    if (!s->has_score_limit || val_f64(s->scores, base + i) > s->score_limit) s->order[n++] = i;
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift_scores(s, base, i, n);
  while (n > 0 && nkept < s->max_boxes) {
    int64_t top = s->order[0];
    s->order[0] = s->order[--n];
    if (n) sift_scores(s, base, 0, n);
    Box box = box_at(s->boxes, batch * nboxes + top, s->center);
    bool keep = true;
    for (int64_t k = 0; k < nkept && keep; k++)
      keep = !overlap(box, box_at(s->boxes, batch * nboxes + s->kept[k], s->center), s->iou_limit);
    if (!keep) continue;
    s->kept[nkept++] = top;
    vec_push(arena, &s->out, batch);
    vec_push(arena, &s->out, cls);
    vec_push(arena, &s->out, top);
  }
}

// An optional operand of one number; an empty one counts as absent.
static tenon_status number_in(Eval *e, int i, const char *name, double dflt, double *out,
                              bool *out_given) {
  const Value *v = eval_in(e, i);
  *out = dflt;
  *out_given = v && v->n > 0;
  if (!*out_given) return TENON_OK;
  Floats f;
  TRY(eval_doubles(e, i, &f));
  if (f.n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must be 1", name, (long long)f.n);
  *out = f.v[0];
  return TENON_OK;
}

tenon_status eval_non_max_suppression(Eval *e) {
  const non_max_suppression_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "boxes", TENON_DTYPE_NONE));
  TRY(eval_need(e, 1, "scores", TENON_DTYPE_NONE));
  const Value *b = e->in[0], *sc = e->in[1];
  if (!dtype_is_float(b->dtype) || !dtype_is_float(sc->dtype) || b->rank != 3 || sc->rank != 3 ||
      b->dims[2] != 4 || b->dims[0] != sc->dims[0] || b->dims[1] != sc->dims[2])
    return eval_fail(e, TENON_EINVAL,
                     "boxes %s%s and scores %s%s must be [batch, n, 4] and [batch, classes, n]",
                     dtype_name(b->dtype), shape_text(b->rank, b->dims).s, dtype_name(sc->dtype),
                     shape_text(sc->rank, sc->dims).s);
  Suppress s = {.boxes = b, .scores = sc, .center = at->center_point_box};
  double max_boxes;
  bool given;
  TRY(number_in(e, 2, "max_output_boxes_per_class", 0, &max_boxes, &given));
  TRY(number_in(e, 3, "iou_threshold", 0, &s.iou_limit, &given));
  TRY(number_in(e, 4, "score_threshold", 0, &s.score_limit, &s.has_score_limit));
  s.max_boxes = max_boxes >= (double)b->dims[1] ? b->dims[1]
                : max_boxes > 0                 ? (int64_t)max_boxes
                                                : 0;
  Arena *arena = &e->run->scratch;
  // A sort, and each box against those that are kept.
  TRY(eval_work(e, (double)sc->n * (4 * log2((double)b->dims[1] + 2) + 8 * (double)s.max_boxes)));
  s.order = arena_array(arena, int64_t, b->dims[1]);
  s.kept = arena_array(arena, int64_t, b->dims[1]);
  for (int64_t i = 0; i < b->dims[0] && sc->n; i++)
    for (int64_t c = 0; c < sc->dims[1]; c++) suppress_class(arena, &s, i, c);
  Value *y;
  TRY(eval_out(e, 0, DT_I64, 2, (int64_t[]){s.out.n / 3, 3}, &y));
  if (s.out.n) memcpy(y->data, s.out.v, (size_t)s.out.n * sizeof(int64_t));
  return TENON_OK;
}
