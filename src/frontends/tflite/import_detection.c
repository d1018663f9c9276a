// import_detection.c -- the custom operator TFLite_Detection_PostProcess: boxes of a single-shot
// detector, decoded and without those that overlap a better one.
//
// What: (encodings [1, boxes, 4 or more], scores [1, boxes, classes], anchors [boxes, 4]) to boxes
//       [1, n, 4], classes [1, n], scores [1, n] and their number [1], all floats; n is
//       max_detections times max_classes_per_detection.
// How: as ops of the graph around non_max_suppression.  `fast` (the default) suppresses by the best
//      score of each box and gives its best classes; `regular` suppresses class by class and gives
//      the best of all classes.
// Needs: options as a FlexBuffer; operands are floats or integers with one scale.
// Guarantees: what the reference kernel leaves unwritten behind the detections is 0.
#include "eval/index.h"
#include "frontends/tflite/import.h"
#include "frontends/tflite/import_q.h"

#include <float.h>
#include <math.h>

enum { MOST_DETECTIONS = 1 << 20, MOST_CLASSES = 1 << 12, USUAL_PER_CLASS = 100 };

typedef struct Detection {
  int64_t most, classes_each;  // results: boxes, and classes of a box
  int64_t per_class;           // boxes kept of a class, `regular`
  int64_t classes;             // without the background
  double score, iou;           // thresholds
  double scale[4];             // of y, x, h, w
  bool regular;
} Detection;

static bool read_options(TflOp *op, Detection *d) {
  static const char *const scale[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
  d->most = tfl_flex_int(op, "max_detections", 0);
  d->classes_each = tfl_flex_int(op, "max_classes_per_detection", 0);
  d->per_class = tfl_flex_int(op, "detections_per_class", USUAL_PER_CLASS);
  d->classes = tfl_flex_int(op, "num_classes", 0);
  d->regular = tfl_flex_int(op, "use_regular_nms", 0) != 0;
  d->score = tfl_flex_float(op, "nms_score_threshold", 0);
  d->iou = tfl_flex_float(op, "nms_iou_threshold", 0);
  for (int i = 0; i < 4; i++) d->scale[i] = tfl_flex_float(op, scale[i], 0);
  if (op->g->status) return false;
  if (d->most < 1 || d->most > MOST_DETECTIONS || d->classes_each < 1 ||
      d->classes_each > MOST_CLASSES || d->per_class < 1 || d->classes < 1)
    tfl_fail(op, "%lld detections of %lld classes each, of %lld classes", (long long)d->most,
             (long long)d->classes_each, (long long)d->classes);
  else if (!(d->iou > 0 && d->iou <= 1))
    tfl_fail(op, "an overlap of %g, which must be above 0 and at most 1", d->iou);
  return !op->g->status;
}

// Operand i as floats.
static Node *real(TflOp *op, int i) {
  QArg a;
  if (!q_any(op, i, &a)) return op->g->poison;
  if (!a.n) return tb_cast(op->g, a.x, DT_F32);
  if (!q_single(op, &a)) return op->g->poison;
  Node *x = tb_cast(op->g, a.x, DT_F32);
  x = N(op->g, sub, x, tb_num(op->g, x, (double)q_zero(&a)));
  return N(op->g, mul, x, tb_num(op->g, x, q_scale(&a)));
}

static Node *column(Graph *g, Node *x, int64_t i) { return tb_slice(g, x, 1, i, i + 1); }

// [boxes, 4] as corners: ymin, xmin, ymax, xmax.  In double, rounded as the reference kernel does.
static Node *decoded(Graph *g, const Detection *d, Node *code, Node *anchor) {
  Node *lo[2], *hi[2];
  code = tb_cast(g, code, DT_F64);
  anchor = tb_cast(g, anchor, DT_F64);
  for (int i = 0; i < 2; i++) {
    Node *extent = column(g, anchor, i + 2), *at = column(g, code, i);
    at = N(g, mul, N(g, div, at, node_scalar(g, DT_F64, d->scale[i])), extent);
    at = tb_cast(g, N(g, add, at, column(g, anchor, i)), DT_F32);
    Node *half =
        N(g, exp, N(g, div, column(g, code, i + 2), node_scalar(g, DT_F64, d->scale[i + 2])));
    half = N(g, mul, N(g, mul, node_scalar(g, DT_F64, 0.5), half), extent);
    half = tb_cast(g, half, DT_F32);
    lo[i] = N(g, sub, at, half);
    hi[i] = N(g, add, at, half);
  }
  return tb_concat(g, 1, 4, (Node *[]){lo[0], lo[1], hi[0], hi[1]});
}

// Rows (batch, class, box) of what is kept: boxes [n, 4], scores [classes, n].
static Node *suppressed(Graph *g, const Detection *d, Node *boxes, Node *scores, int64_t most) {
  // The reference keeps a score that equals the threshold, the op only what is above it.
  float below = nextafterf((float)d->score, -INFINITY);
  return N(g, non_max_suppression, tb_unsqueeze(g, boxes, 0), tb_unsqueeze(g, scores, 0),
           node_i64(g, most), node_scalar(g, DT_F32, d->iou), node_scalar(g, DT_F32, below));
}

// Row numbers or scores, as many as are kept, followed by `most` of a filler.
static Node *extended(Graph *g, Node *x, int64_t most, double filler) {
  Node *more = tb_full(g, node_i64s(g, 1, &most), type_of(x)->dtype, filler);
  return tb_concat(g, 0, 2, (Node *[]){x, more});
}

static Node *vector_of(Graph *g, Node *kept, int64_t i) {
  return tb_reshape(g, column(g, kept, i), 1, (const int64_t[]){-1});
}

// What comes out: [most, k] classes and scores, [most, 4] boxes, and how many are true ones.
typedef struct Found {
  Node *boxes, *classes, *scores, *count;
  int64_t k;
} Found;

static Node *at_rows(Graph *g, Node *x, Node *rows) { return N(g, gather, x, rows); }

static Found find_fast(Graph *g, const Detection *d, Node *boxes, Node *scores) {
  Found f = {.k = MIN(d->classes_each, d->classes)};
  top_k_attrs at = {.axis = 1, .largest = true, .sorted = true};
  Node *best = node_new(g, OP_top_k, 2, (Node *[]){scores, node_i64s(g, 1, &f.k)}, &at, 2, NULL);
  Node *value = node_proj(g, best, 0), *class = node_proj(g, best, 1);
  Node *top = tb_transpose(g, column(g, value, 0), 2, (const int64_t[]){1, 0});
  Node *kept = vector_of(g, suppressed(g, d, boxes, top, d->most), 2);
  f.count = tb_dims(g, kept, 0, 1);
  Node *rows = tb_slice(g, extended(g, kept, d->most, 0), 0, 0, d->most);
  rows = tb_reshape(g, rows, 1, &d->most);
  f.boxes = at_rows(g, boxes, rows);
  f.classes = at_rows(g, class, rows);
  f.scores = at_rows(g, value, rows);
  return f;
}

static Found find_regular(Graph *g, const Detection *d, Node *boxes, Node *scores) {
  Found f = {.k = 1};
  Node *by_class = tb_transpose(g, scores, 2, (const int64_t[]){1, 0});
  Node *kept = suppressed(g, d, boxes, by_class, d->per_class);
  Node *class = vector_of(g, kept, 1), *box = vector_of(g, kept, 2);
  Node *pairs = tb_concat(g, 1, 2, (Node *[]){column(g, kept, 2), column(g, kept, 1)});
  Node *value = extended(g, N(g, gather_nd, scores, pairs), d->most, -INFINITY);
  top_k_attrs at = {.axis = 0, .largest = true, .sorted = true};
  Node *best = node_new(g, OP_top_k, 2, (Node *[]){value, node_i64s(g, 1, &d->most)}, &at, 2, NULL);
  Node *rows = node_proj(g, best, 1);
  f.count = N(g, min, tb_dims(g, kept, 0, 1), node_i64s(g, 1, &d->most));
  f.boxes = at_rows(g, boxes, at_rows(g, extended(g, box, d->most, 0), rows));
  f.classes = tb_unsqueeze(g, at_rows(g, extended(g, class, d->most, 0), rows), 1);
  f.scores = tb_unsqueeze(g, node_proj(g, best, 0), 1);
  return f;
}

// [most, k, ...] with zeros behind the true ones, as [1, n, ...]: classes of a box are adjacent
// (fast), or all results come first (regular).
static Node *spread(Graph *g, const Detection *d, const Found *f, Node *x, Node *valid, int tail) {
  int rank = 2 + (tail > 1);
  x = N(g, where, rank == 3 ? tb_unsqueeze(g, valid, 2) : valid, tb_cast(g, x, DT_F32),
        node_scalar(g, DT_F32, 0));
  int64_t fill = d->classes_each - f->k, rest[] = {0, 0, d->most * fill, 0, 0, 0};
  int64_t pads[] = {0, 0, 0, 0, fill, 0};
  if (d->regular) {
    x = tb_reshape(g, x, rank, (const int64_t[]){1, d->most, tail});
    pads[4] = rest[2];
  }
  if (fill) {
    int64_t given[6];
    for (int i = 0; i < rank; i++) {
      given[i] = 0;
      given[rank + i] = pads[3 + i];
    }
    x = N(g, pad, x, node_i64s(g, 2 * rank, given), node_scalar(g, DT_F32, 0));
  }
  return tb_reshape(g, x, rank, (const int64_t[]){1, d->most * d->classes_each, tail});
}

static void give(TflOp *op, const Detection *d, const Found *f) {
  Graph *g = op->g;
  double *number = arena_array(&g->arena, double, d->most);
  for (int64_t i = 0; i < d->most; i++) number[i] = (double)i;
  Node *valid = N(g, lt, tb_vector(g, DT_I64, d->most, number), f->count);
  valid = tb_unsqueeze(g, valid, 1);
  Node *boxes = tb_unsqueeze(g, f->boxes, 1);
  boxes = N(g, expand, boxes, node_i64s(g, 3, (int64_t[]){d->most, f->k, 4}));
  tfl_give(op, 0, spread(g, d, f, boxes, valid, 4));
  tfl_give(op, 1, spread(g, d, f, f->classes, valid, 1));
  tfl_give(op, 2, spread(g, d, f, f->scores, valid, 1));
  tfl_give(op, 3, tb_cast(g, f->count, DT_F32));
}

static void detection_post_process(TflOp *op) {
  Graph *g = op->g;
  Detection d;
  if (!tfl_need(op, 3, 4)) return;
  Node *code = real(op, 0), *scores = real(op, 1), *anchors = real(op, 2);
  if (g->status || !read_options(op, &d)) return;
  if (tfl_rank(op, code) != 3 || tfl_rank(op, scores) != 3 || tfl_rank(op, anchors) != 2) {
    tfl_fail(op, "encodings and scores must have rank 3, anchors 2");
    return;
  }
  int64_t boxes = tfl_size(op, code, 1), all = tfl_size(op, scores, 2);
  int64_t coordinates = tfl_size(op, code, 2);
  if (g->status) return;
  if (tfl_size(op, code, 0) != 1 || tfl_size(op, scores, 0) != 1 || coordinates < 4 ||
      tfl_size(op, scores, 1) != boxes || tfl_size(op, anchors, 0) != boxes ||
      tfl_size(op, anchors, 1) != 4 || boxes < 1 || all < d.classes || all > d.classes + 1) {
    tfl_fail(op, "%lld boxes of %lld numbers and %lld classes do not fit the others",
             (long long)boxes, (long long)coordinates, (long long)all);
    return;
  }
  code = tb_slice(g, tb_reshape(g, code, 2, (const int64_t[]){boxes, coordinates}), 1, 0, 4);
  scores =
      tb_slice(g, tb_reshape(g, scores, 2, (const int64_t[]){boxes, all}), 1, all - d.classes, all);
  Node *corners = decoded(g, &d, code, anchors);
  Found f = d.regular ? find_regular(g, &d, corners, scores) : find_fast(g, &d, corners, scores);
  if (!g->status) give(op, &d, &f);
}

// (quantised values, the floats that they should be): the difference.
static void numeric_verify(TflOp *op) {
  if (!tfl_need(op, 2, 1)) return;
  Node *x = real(op, 0), *want = real(op, 1);
  tfl_give(op, 0, N(op->g, sub, x, want));
}

static const TflRow rows[] = {
    {TFL_CUSTOM, "TFLite_Detection_PostProcess", detection_post_process, 1, TFL_TAKES_QUANTIZED},
    {TFL_CUSTOM, "NumericVerify", numeric_verify, 1, TFL_TAKES_QUANTIZED},
};
TFL_TABLE(detection);
