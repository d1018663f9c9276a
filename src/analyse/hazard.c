// hazard.c -- what can go wrong at a node, beyond arithmetic that leaves its type (range.c).
//
// One function for each HazardRule that an op's record names.  Indices and divisors whose contents
// are known are looked at one by one; of others the range decides.
#include "eval/index.h"
#include "ir/internal.h"
#include "analyse/analyse.h"

#include <math.h>

typedef void HazardFn(Ranger *r, const Node *n);

static const char *dim_text(Ranger *r, Dim d) {
  StrBuf b;
  strbuf_init(&b, r->arena);
  ie_print(&b, d);
  return strbuf_text(&b);
}

// Nothing is computed where a result has no elements.
static bool is_empty(Ranger *r, const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 0 && ie_is(type_numel(r->g, t), 0);
}

// ---- divisors ----

static int64_t zeros_of(Ranger *r, const Node *n, int64_t *out_n) {
  const Value *v = node_known(r->g, n);
  int64_t zeros = 0;
  *out_n = v ? v->n : 0;
  for (int64_t i = 0; v && i < v->n; i++)
    zeros += dtype_is_float(v->dtype) ? val_f64(v, i) == 0 : val_i64(v, i) == 0;
  return zeros;
}

static void check_divisor(Ranger *r, const Node *n, uint32_t operand) {
  Range d = range_at(r, n, operand);
  int64_t count, zeros = zeros_of(r, n->src[operand], &count);
  bool whole = d.kind == RANGE_INT;
  if (!d.kind || is_empty(r, n)) return;
  if (zeros) {
    ranger_report(r, whole ? FINDING_T0203 : FINDING_T0303, n,
                  "%lld of %lld elements of the divisor %s 0", (long long)zeros, (long long)count,
                  zeros == 1 ? "is" : "are");
  } else if (d.lo == 0 && d.hi == 0) {
    ranger_report(r, whole ? FINDING_T0203 : FINDING_T0303, n, "the divisor is 0");
  } else if (!count && d.lo <= 0 && d.hi >= 0) {
    DType t = type_of(n->src[operand])->dtype;
    if (whole ? range_is_bounded(d, t) : range_is_known(d, t))
      ranger_report(r, whole ? FINDING_T0204 : FINDING_T0304, n, "the divisor lies in %s",
                    range_text(r->arena, d));
  }
}

static void at_division(Ranger *r, const Node *n) { check_divisor(r, n, 1); }
static void at_reciprocal(Ranger *r, const Node *n) { check_divisor(r, n, 0); }

// ---- scales ----

static void at_quantisation(Ranger *r, const Node *n) {
  const Value *v = n->nsrc > 1 && n->src[1] != r->g->none ? node_known(r->g, n->src[1]) : NULL;
  int64_t bad = 0;
  double first = 0;
  if (!v || !dtype_is_float(v->dtype)) return;
  for (int64_t i = 0; i < v->n; i++) {
    double s = val_f64(v, i);
    if (s > 0 && isfinite(s)) continue;
    if (!bad++) first = s;
  }
  if (bad)
    ranger_report(r, FINDING_T0307, n,
                  "%lld of %lld scales %s not positive and finite; the first is %g", (long long)bad,
                  (long long)v->n, bad == 1 ? "is" : "are", first);
}

// ---- indices ----

// Element i of the indices selects from the axis of size dim[i % ndims].
typedef struct Indexed {
  const Node *node, *index;
  const Dim *dim;
  int64_t ndims;
} Indexed;

static void check_known_index(Ranger *r, const Indexed *x, int64_t n, const Dim *sym) {
  int64_t needs = 0, needs_at = 0;
  for (int64_t i = 0; i < n; i++) {
    Dim d = x->dim[i % x->ndims], v = sym[i];
    bool over = d->hi < INT64_MAX && v->lo >= d->hi, under = v->hi < 0 && v->hi < -d->hi;
    if (over || under) {
      ranger_report(r, FINDING_T0401, x->node,
                    "index %s (element %lld of the indices) with an axis of size %s",
                    dim_text(r, v), (long long)i, dim_text(r, d));
      return;
    }
    if (!ie_is_const(v) || ie_is_const(d) || ie_has_fresh(d) || v->value == INT64_MIN) continue;
    int64_t least = v->value >= 0 ? v->value + (v->value < INT64_MAX) : -v->value;
    if (least > MAX(d->lo, 1) && least > needs) needs = least, needs_at = i;
  }
  if (needs)
    ranger_report(r, FINDING_T0402, x->node,
                  "index %s needs the axis of size %s to have at least %lld elements",
                  dim_text(r, sym[needs_at]), dim_text(r, x->dim[needs_at % x->ndims]),
                  (long long)needs);
}

static void check_index(Ranger *r, const Indexed *x) {
  int64_t n, smallest = INT64_MAX, largest = 0;
  const Dim *sym;
  Range range = r->an->range[x->index->id];
  DType t = type_of(x->index)->dtype;
  // Of no elements nothing is selected, whatever the indices say.
  if (!x->ndims || is_empty(r, x->index) || is_empty(r, x->node)) return;
  if (node_sym(r->g, x->index, &n, &sym)) {
    check_known_index(r, x, n, sym);
    return;
  }
  for (int64_t i = 0; i < x->ndims; i++) {
    if (!ie_is_const(x->dim[i])) return;
    smallest = MIN(smallest, x->dim[i]->value);
    largest = MAX(largest, x->dim[i]->value);
  }
  if (range.kind != RANGE_INT || !range_is_bounded(range, t)) return;
  if (x->index->op == OP_const && (range.most >= largest || range.least < -largest))
    ranger_report(r, FINDING_T0401, x->node, "indices in %s with an axis of size %lld",
                  range_text(r->arena, range), (long long)largest);
  else if (range.most >= smallest || range.least < -smallest)
    ranger_report(r, FINDING_T0403, x->node, "indices in %s with an axis of size %lld",
                  range_text(r->arena, range), (long long)smallest);
}

static void check_axis(Ranger *r, const Node *n, int64_t axis) {
  const Type *t = type_of(n->src[0]);
  if (t->kind != TK_TENSOR || t->rank < 1) return;
  axis += axis < 0 ? t->rank : 0;
  if (axis < 0 || axis >= t->rank) return;
  check_index(r, &(Indexed){n, n->src[1], &t->dims[axis], 1});
}

static void at_gather(Ranger *r, const Node *n) {
  check_axis(r, n, ((const gather_attrs *)n->attrs)->axis);
}
static void at_gather_elements(Ranger *r, const Node *n) {
  check_axis(r, n, ((const gather_elements_attrs *)n->attrs)->axis);
}
static void at_scatter_elements(Ranger *r, const Node *n) {
  check_axis(r, n, ((const scatter_elements_attrs *)n->attrs)->axis);
}

// The last axis of the indices names one place along each of several axes.
static void check_nd(Ranger *r, const Node *n, int64_t first) {
  const Type *t = type_of(n->src[0]), *i = type_of(n->src[1]);
  if (t->kind != TK_TENSOR || t->rank < 1 || i->kind != TK_TENSOR || i->rank < 1) return;
  Dim last = i->dims[i->rank - 1];
  if (!ie_is_const(last) || last->value < 1 || first < 0 || first + last->value > t->rank) return;
  check_index(r, &(Indexed){n, n->src[1], t->dims + first, last->value});
}

static void at_gather_nd(Ranger *r, const Node *n) {
  check_nd(r, n, ((const gather_nd_attrs *)n->attrs)->batch_dims);
}
static void at_scatter_nd(Ranger *r, const Node *n) { check_nd(r, n, 0); }

// ---- constants ----

static void at_const(Ranger *r, const Node *n) {
  Range x;
  int64_t nan;
  if (range_contents(r, n, &x, &nan) && nan)
    ranger_report(r, FINDING_T0306, n, "%lld of %lld elements %s NaN", (long long)nan,
                  (long long)n->data->n, nan == 1 ? "is" : "are");
}

static HazardFn *const hazard_rule[] = {NULL,
#define X(name) at_##name,
                                        HAZARD_RULES(X)
#undef X
};

void hazard_node(Ranger *r, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (op->hazard) hazard_rule[op->hazard](r, n);
}
