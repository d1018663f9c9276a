// slices.c -- slices, splits, gathers and concatenations: what is picked is picked once, and early.
//
// The form that is aimed at: a split is a slice for each part that is used, a gather of adjacent
// elements is a slice, a slice stands before transposes and reshapes, so that less is moved and
// slices of one tensor meet.
#include "ir/internal.h"
#include "rules/affine.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

#include "eval/index.h"

// ---- what a slice picks ----

static Node *slice_by(Graph *g, Node *x, const Box *box) {
  int64_t start[MAX_RANK], end[MAX_RANK], axis[MAX_RANK], step[MAX_RANK], n = 0;
  bool plain = true;
  for (int i = 0; i < box->rank; i++) {
    if (!box->cut[i]) continue;
    int64_t last = box->start[i] + box->count[i] * box->step[i];
    start[n] = box->start[i];
    end[n] = last < 0 ? INT64_MIN : last;  // backwards to the first element
    axis[n] = i;
    step[n] = box->step[i];
    plain &= step[n++] == 1;
  }
  if (!n) return x;
  Node *s = node_i64s(g, n, start), *e0 = node_i64s(g, n, end), *at = node_i64s(g, n, axis);
  return plain ? N(g, slice, x, s, e0, at) : N(g, slice, x, s, e0, at, node_i64s(g, n, step));
}

static Node *slice_whole(Graph *g, const Match *m) {
  const Node *n = m->root;
  Ints steps;
  Node *step = src_or_null(g, n, 4);
  if (type_of(n) != type_of(n->src[0]) || (step && !node_ints(g, step, &steps))) return NULL;
  for (int64_t i = 0; step && i < steps.n; i++)
    if (steps.v[i] < 1) return NULL;
  return type_of(n)->rank < 0 ? NULL : n->src[0];
}

static Node *merge_slices(Graph *g, const Match *m) {
  Box in, out;
  const Node *inner = m->root->src[0];
  if (inner->op != OP_slice || !slice_box(g, m->root, &out) || !slice_box(g, inner, &in))
    return NULL;
  for (int i = 0; i < in.rank; i++) {
    if (!out.cut[i]) continue;
    if (in.cut[i]) {
      if (in.step[i] < 0 || out.step[i] < 0) return NULL;
      out.start[i] = in.start[i] + out.start[i] * in.step[i];
      if (!ck_mul(out.step[i], in.step[i], &out.step[i])) return NULL;
    }
    in.cut[i] = true;
    in.start[i] = out.start[i];
    in.count[i] = out.count[i];
    in.step[i] = out.step[i];
  }
  return slice_by(g, inner->src[0], &in);
}

// slice(transpose(x)) => transpose(slice(x))
static Node *slice_transpose(Graph *g, const Match *m) {
  const Node *t = m->root->src[0];
  int64_t perm[MAX_RANK];
  Box box, moved = {.rank = 0};
  if (!is_movable_transpose(t) || !slice_box(g, m->root, &box)) return NULL;
  if (transpose_perm(t, perm) < 0) return NULL;
  moved.rank = box.rank;
  for (int i = 0; i < box.rank; i++) {
    moved.cut[perm[i]] = box.cut[i];
    moved.start[perm[i]] = box.start[i];
    moved.count[perm[i]] = box.count[i];
    moved.step[perm[i]] = box.step[i];
  }
  return transpose_to(g, slice_by(g, t->src[0], &moved), box.rank, perm);
}

// The axis of x that result axis j is the outermost part of, when the axes from j on up to *out_to
// are it whole.
static int split_axis(Graph *g, const Type *x, const Type *t, int j, int *out_to) {
  IntPool *p = &g->dims;
  Dim before = p->one, want = p->one;
  for (int k = 0; k < j; k++) before = ie_mul(p, before, t->dims[k]);
  for (int i = 0; i < x->rank; i++) {
    if (want == before && !ie_is(x->dims[i], 1)) {
      Dim size = p->one;
      for (int k = j; k < t->rank; k++) {
        size = ie_mul(p, size, t->dims[k]);
        if (size != x->dims[i]) continue;
        *out_to = k;
        return i;
      }
    }
    want = ie_mul(p, want, x->dims[i]);
  }
  return -1;
}

// slice(reshape(x)) => reshape(slice(x)) where one axis was split and its outermost part is cut.
static Node *slice_reshape(Graph *g, const Match *m) {
  const Node *r = m->root->src[0];
  Box box;
  if (r->op != OP_reshape || !slice_box(g, m->root, &box)) return NULL;
  const Type *x = type_of(r->src[0]), *t = type_of(r);
  int j = -1, to, inner_count = 0;
  for (int i = 0; i < box.rank; i++)
    if (box.cut[i]) {
      j = i;
      inner_count++;
    }
  if (inner_count != 1 || x->rank < 0 || box.step[j] < 1 || ie_is(t->dims[j], 1)) return NULL;
  int axis = split_axis(g, x, t, j, &to);
  if (axis < 0 || !ie_is_const(x->dims[axis]) || t->dims[j]->value <= 0) return NULL;
  int64_t inner = x->dims[axis]->value / t->dims[j]->value;
  if (box.step[j] != 1 && inner != 1) return NULL;
  Node *s = slice_axis(g, r->src[0], axis, box.start[j] * inner,
                       (box.start[j] + box.count[j] * box.step[j]) * inner, box.step[j]);
  return reshape_to(g, s, type_of(m->root));
}

// ---- concat and split ----

static Node *split_part(Graph *g, const Match *m) {
  Node *s = m->root->src[0];
  if (s->op != OP_split) return NULL;
  const Type *x = type_of(s->src[0]);
  int64_t index = ((const proj_attrs *)m->root->attrs)->index, at = 0;
  int axis = axis_of(((const split_attrs *)s->attrs)->axis, x->rank);
  if (x->rank < 0 || axis < 0) return NULL;
  if (!ie_is_const(x->dims[axis]) || !ie_is_const(s->type[index]->dims[axis])) return NULL;
  if (s->nsrc == 1) {  // even parts, the last of which get what is left
    const Dim part = s->type[0]->dims[axis];
    if (!ie_is_const(part)) return NULL;
    if (!ck_mul(index, part->value, &at)) return NULL;
    at = MIN(at, x->dims[axis]->value);
  } else {
    for (int64_t i = 0; i < index; i++) {
      if (!ie_is_const(s->type[i]->dims[axis])) return NULL;
      at += s->type[i]->dims[axis]->value;
    }
  }
  return slice_axis(g, s->src[0], axis, at, at + s->type[index]->dims[axis]->value, 1);
}

static bool one_operand(const Match *m) { return m->root->nsrc == 1; }
static bool one_part(const Match *m) {
  return m->root->nres == 1 && same_type(m->root, m->root->src[0]);
}
static Node *operand0(Graph *g, const Match *m) {
  (void)g;
  return m->root->src[0];
}

// Up to so many operands: a longer row of concats, each over the one before, would be written out
// anew for each.
enum { MAX_JOINED = 256 };

static Node *join_concats(Graph *g, const Match *m) {
  const Node *n = m->root;
  int64_t axis = ((const concat_attrs *)n->attrs)->axis, count = 0;
  int rank = type_of(n)->rank;
  bool any = false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *s = n->src[i];
    bool nested = s->op == OP_concat && match_once(m, s) && rank >= 0 &&
                  axis_of(((const concat_attrs *)s->attrs)->axis, rank) == axis_of(axis, rank);
    any |= nested;
    count += nested ? s->nsrc : 1;
  }
  if (!any || count > MAX_JOINED) return NULL;
  Node *src[MAX_JOINED];
  count = 0;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    Node *s = n->src[i];
    bool nested = s->op == OP_concat && match_once(m, s) &&
                  axis_of(((const concat_attrs *)s->attrs)->axis, rank) == axis_of(axis, rank);
    for (uint32_t k = 0; nested && k < s->nsrc; k++) src[count++] = s->src[k];
    if (!nested) src[count++] = s;
  }
  return node_new(g, OP_concat, (int)count, src, n->attrs, 1, n->name);
}

// Slices of one tensor in a row, put together again.
static Node *join_slices(Graph *g, const Match *m) {
  const Node *n = m->root;
  Node *x = n->src[0]->op == OP_slice ? n->src[0]->src[0] : NULL;
  if (!x || type_of(n)->rank < 0 || n->nsrc < 2) return NULL;
  int axis = axis_of(((const concat_attrs *)n->attrs)->axis, type_of(n)->rank);
  Box all, box;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *s = n->src[i];
    if (s->op != OP_slice || s->src[0] != x || !slice_box(g, s, &box)) return NULL;
    for (int k = 0; k < box.rank; k++)
      if (box.cut[k] && (k != axis || box.step[k] != 1)) return NULL;
    if (!box.cut[axis] || (i && all.start[axis] + all.count[axis] != box.start[axis])) return NULL;
    if (i)
      all.count[axis] += box.count[axis];
    else
      all = box;
  }
  return slice_by(g, x, &all);
}

// slice(concat(...)) along its axis that takes some operands whole and none in part.
static Node *slice_operands(Graph *g, const Match *m) {
  const Node *c0 = m->root->src[0];
  Box box;
  if (c0->op != OP_concat || c0->nsrc > 64 || !slice_box(g, m->root, &box)) return NULL;
  int axis = axis_of(((const concat_attrs *)c0->attrs)->axis, box.rank);
  if (!box.cut[axis] || box.step[axis] < 1 || !box.count[axis]) return NULL;
  Node *src[64];
  int64_t at = 0, next = box.start[axis], step = box.step[axis], left = box.count[axis];
  int n = 0;
  for (uint32_t i = 0; i < c0->nsrc && left; i++) {
    Dim size = type_of(c0->src[i])->dims[axis];
    if (!ie_is_const(size)) return NULL;
    bool whole =
        next == at && size->value > 0 && size->value <= left && (step == 1 || size->value == 1);
    if (!whole && next < at + size->value) return NULL;
    if (whole) {
      src[n++] = c0->src[i];
      left -= size->value;
      next += size->value * step;
    }
    at += size->value;
  }
  if (left || n < 2 || n == (int)c0->nsrc) return NULL;
  box.cut[axis] = false;
  for (int i = 0; i < n; i++) src[i] = slice_by(g, src[i], &box);
  return node_new(g, OP_concat, n, src, c0->attrs, 1, m->root->name);
}

// slice(concat(...)) along its axis that is within one operand.
static Node *slice_concat(Graph *g, const Match *m) {
  const Node *c0 = m->root->src[0];
  Box box;
  if (c0->op != OP_concat || !slice_box(g, m->root, &box)) return NULL;
  int axis = axis_of(((const concat_attrs *)c0->attrs)->axis, box.rank);
  if (!box.cut[axis] || box.step[axis] < 0 || !box.count[axis]) return NULL;
  int64_t at = 0, last = box.start[axis] + (box.count[axis] - 1) * box.step[axis];
  for (uint32_t i = 0; i < c0->nsrc; i++) {
    Dim size = type_of(c0->src[i])->dims[axis];
    if (!ie_is_const(size)) return NULL;
    if (box.start[axis] >= at && last < at + size->value) {
      box.start[axis] -= at;
      return slice_by(g, c0->src[i], &box);
    }
    at += size->value;
  }
  return NULL;
}

// ---- gather ----

// Constant indices that follow each other, on an axis of constant size.
static Node *gather_as_slice(Graph *g, const Match *m) {
  Node *x = m->var[SLOT_a];
  const Type *t = type_of(x);
  int axis = axis_of(((const gather_attrs *)m->root->attrs)->axis, t->rank);
  Ints at;
  if (x->op == OP_const || t->rank < 0 || axis < 0 || !ie_is_const(t->dims[axis]) ||
      !node_ints(g, m->var[SLOT_b], &at) || at.n < 1)
    return NULL;
  int64_t size = t->dims[axis]->value, first = at.v[0] < 0 ? at.v[0] + size : at.v[0];
  for (int64_t i = 0; i < at.n; i++)
    if ((at.v[i] < 0 ? at.v[i] + size : at.v[i]) != first + i) return NULL;
  if (first < 0 || first + at.n > size) return NULL;
  return reshape_to(g, slice_axis(g, x, axis, first, first + at.n, 1), type_of(m->root));
}

// Indices that count through the axis pick everything in order.
static Node *gather_all(Graph *g, const Match *m) {
  Node *x = m->var[SLOT_a], *index = m->var[SLOT_b];
  const Type *t = type_of(x), *it = type_of(index);
  Affine form;
  int axis = axis_of(((const gather_attrs *)m->root->attrs)->axis, t->rank);
  if (t->rank < 0 || axis < 0 || it->rank < 0 || type_numel(g, it) != t->dims[axis]) return NULL;
  if (!node_affine(g, index, &form) || !affine_counts(g, &form, it)) return NULL;
  // Before it was flattened it may have had the sizes that are wanted now.
  Node *y = reshape_to(g, x, type_of(m->root));
  while (!y && (x->op == OP_reshape || x->op == OP_flatten)) {
    x = x->src[0];
    y = reshape_to(g, x, type_of(m->root));
  }
  return y;
}

// gather_nd with constant indices that count through the leading axes picks everything in order.
static Node *gather_nd_all(Graph *g, const Match *m) {
  const Type *t = type_of(m->var[SLOT_a]);
  const Value *v = node_known(g, m->var[SLOT_b]);
  if (((const gather_nd_attrs *)m->root->attrs)->batch_dims || !v || v->rank < 1 || t->rank < 0)
    return NULL;
  int64_t depth = v->dims[v->rank - 1], total = 1;
  if (depth < 1 || depth > t->rank) return NULL;
  for (int i = 0; i < depth; i++)
    if (!ie_is_const(t->dims[i]) || !ck_mul(total, t->dims[i]->value, &total)) return NULL;
  if (total * depth != v->n) return NULL;
  for (int64_t k = 0; k < total; k++) {
    int64_t at = 0;
    for (int i = 0; i < depth; i++) {
      int64_t x = val_i64(v, k * depth + i), size = t->dims[i]->value;
      at = at * size + (x < 0 ? x + size : x);
    }
    if (at != k) return NULL;
  }
  return reshape_to(g, m->var[SLOT_a], type_of(m->root));
}

// Constant indices that are all within the axis: what is then never read may be gathered all the
// same.
static bool in_range(Graph *g, const Node *indices, Dim size) {
  const Value *v = node_known(g, indices);
  if (!v || size->lo < 1) return false;
  for (int64_t i = 0; i < v->n; i++)
    if (val_i64(v, i) >= size->lo || val_i64(v, i) < -size->lo) return false;
  return true;
}

// gather(table, slice(indices)) of constants => slice(gather(table, indices)), which folds.
static Node *gather_slice(Graph *g, const Match *m) {
  Node *s = m->root->src[1], *src[5];
  Ints axes = {0};
  int axis = (int)((const gather_attrs *)m->root->attrs)->axis;
  if (s->op != OP_slice || s->src[0]->op != OP_const || axis != 0 ||
      !in_range(g, s->src[0], type_of(m->var[SLOT_a])->dims[0]))
    return NULL;
  int rank = type_of(s->src[0])->rank;
  int64_t at[MAX_RANK], n;
  Node *given = src_or_null(g, s, 3);
  const Dim *start;
  if ((given && !node_ints(g, given, &axes)) || !node_sym(g, s->src[1], &n, &start)) return NULL;
  n = given ? axes.n : n;
  for (int64_t i = 0; i < n; i++) at[i] = given ? axis_of(axes.v[i], rank) : i;
  src[0] = NA(g, gather, m->root->attrs, m->var[SLOT_a], s->src[0]);
  for (uint32_t i = 1; i < s->nsrc; i++) src[i] = s->src[i];
  src[3] = node_i64s(g, n, at);
  return node_new(g, OP_slice, (int)MAX(s->nsrc, 4u), src, NULL, 1, m->root->name);
}

// gather_elements(x, slice(indices)) of constants, cut along the axis that is gathered along.
static Node *gather_elements_slice(Graph *g, const Match *m) {
  Node *s = m->root->src[1], *src[5];
  Ints axes;
  if (s->op != OP_slice || s->src[0]->op != OP_const) return NULL;
  int rank = type_of(s->src[0])->rank;
  int axis = axis_of(((const gather_elements_attrs *)m->root->attrs)->axis, rank);
  Node *given = src_or_null(g, s, 3);
  if (!given || !node_ints(g, given, &axes) || axes.n != 1 || axis_of(axes.v[0], rank) != axis ||
      !in_range(g, s->src[0], type_of(m->var[SLOT_a])->dims[axis]))
    return NULL;
  src[0] = NA(g, gather_elements, m->root->attrs, m->var[SLOT_a], s->src[0]);
  for (uint32_t i = 1; i < s->nsrc; i++) src[i] = s->src[i];
  return node_new(g, OP_slice, (int)s->nsrc, src, NULL, 1, m->root->name);
}

// gather(x, expand(i, shape)) => expand(gather(x, i)), when i is a single constant.
static Node *gather_expand(Graph *g, const Match *m) {
  Node *x = m->var[SLOT_a], *ex = m->root->src[1];
  const Type *t = type_of(x);
  double v;
  if (ex->op != OP_expand || ex->src[0]->op != OP_const || t->rank < 1 ||
      ((const gather_attrs *)m->root->attrs)->axis != 0 || !node_splat(g, ex->src[0], &v) ||
      type_of(ex->src[1])->rank != 1 || type_of(ex->src[0])->rank > 0 ||
      !in_range(g, ex->src[0], t->dims[0]))
    return NULL;
  int64_t rest[MAX_RANK];
  for (int i = 1; i < t->rank; i++) {
    if (!ie_is_const(t->dims[i])) return NULL;
    rest[i - 1] = t->dims[i]->value;
  }
  Node *row = NA(g, gather, m->root->attrs, x, ex->src[0]);
  concat_attrs at = {.axis = 0};
  return N(g, expand, row, NA(g, concat, &at, ex->src[1], node_i64s(g, t->rank - 1, rest)));
}

#define X         "(%x: f32[n, 6, 4]) { "
#define C1(nm, v) "%" nm " = const i64[1] {" #v "} "
#define END       " return %r }"

static const Rule slices[] = {
    // clang-format off
    RULE("proj.split",      P(proj, a),                  .make = split_part, .example = X "%s:2 = split(%x) axis=1 %r = add(%s.0, %s.1)" END),
    RULE("split.one",       ANY(split),                  .make = operand0, .when = one_part, .example = X "%s = split(%x) axis=1 num_outputs=1 %r = neg(%s)" END),
    RULE("slice.whole",     ANY(slice),                  .make = slice_whole, .example = X C1("s", 0) C1("e", 9) C1("a", 1) "%r = slice(%x, %s, %e, %a)" END),
    RULE("slice.slice",     ANY(slice),                  .make = merge_slices, .example = X C1("s", 1) C1("e", 6) C1("a", 1) C1("t", 2) C1("b", 2) "%y = slice(%x, %s, %e, %a, %t) %z = slice(%y, %s, %e, %b) %r = slice(%z, %s, %e, %a)" END),
    RULE("slice.transpose", ANY(slice),                  .make = slice_transpose, .example = X C1("s", 5) C1("e", -9) C1("a", 2) C1("t", -2) "%y = transpose(%x) perm=[2, 0, 1] %r = slice(%y, %s, %e, %a, %t)" END),
    RULE("slice.reshape",   ANY(slice),                  .make = slice_reshape, .example = X C1("s", 1) C1("e", 2) C1("a", 1) "%t = const i64[4] {0, 3, 2, 4} %y = reshape(%x, %t) %r = slice(%y, %s, %e, %a)" END),
    RULE("slice.concat",    ANY(slice),                  .make = slice_concat, .example = X C1("s", 7) C1("e", 10) C1("a", 1) "%y = concat(%x, %x) axis=1 %r = slice(%y, %s, %e, %a)" END),
    RULE("slice.operands",  ANY(slice),                  .make = slice_operands, .example = X C1("s", 6) C1("e", 18) C1("a", 1) "%z = neg(%x) %y = concat(%x, %z, %x) axis=1 %r = slice(%y, %s, %e, %a)" END),
    RULE("concat.one",      ANY(concat),                 .make = operand0, .when = one_operand, .example = X "%r = concat(%x)" END),
    RULE("concat.concat",   ANY(concat),                 .make = join_concats, .example = X "%y = concat(%x, %x) axis=1 %z = neg(%x) %r = concat(%z, %y) axis=-2" END),
    RULE("concat.slices",   ANY(concat),                 .make = join_slices, .example = X C1("s", 0) C1("m", 2) C1("e", 5) C1("a", 1) "%y = slice(%x, %s, %m, %a) %z = slice(%x, %m, %e, %a) %r = concat(%y, %z) axis=1" END),
    RULE("gather.slice",    P(gather, a, b),             .make = gather_as_slice, .example = X "%i = const i64[2] {-3, 4} %r = gather(%x, %i) axis=1" END),
    RULE("gather.all",      P(gather, a, b),             .make = gather_all, .example = "(%x: f32[n, m]) { %y = flatten(%x) axis=2 %h = shape(%x) end=1 %w = shape(%x) start=1 %z = const i64[] {0} %o = const i64[] {1} %hs = squeeze(%h) %ws = squeeze(%w) %p = range(%z, %hs, %o) %q = range(%z, %ws, %o) %v = const i64[2] {-1, 1} %u = reshape(%p, %v) %k = mul(%u, %w) %i = add(%k, %q) %r = gather(%y, %i)" END),
    RULE("gather_nd.all",   P(gather_nd, a, K(b)),       .make = gather_nd_all, .example = "(%x: f32[1, 3, n]) { %i = const i64[1, 3, 1, 2] {0, 0, 0, 1, 0, -1} %r = gather_nd(%x, %i) return %r }"),
    RULE("gather.of_slice", P(gather, K(a), b),          .make = gather_slice, .example = "(%y: f32[n]) { %x = const f32[3, 2] {1, 2, 3, 4, 5, 6} %i = const i64[1, 4] {2, 0, 1, 1}" C1("s", 0) C1("b", 1) "%e = shape(%y) %j = slice(%i, %s, %e, %b) %r = gather(%x, %j)" END),
    RULE("gather_elements.of_slice", P(gather_elements, K(a), b), .make = gather_elements_slice, .example = "(%y: f32[n]) { %x = const f32[1, 3] {1, 2, 3} %i = const i64[1, 4] {2, 0, 1, 1}" C1("s", 0) C1("b", 1) "%e = shape(%y) %j = slice(%i, %s, %e, %b) %r = gather_elements(%x, %j) axis=1" END),
    RULE("gather.of_expand", P(gather, a, b),            .make = gather_expand, .example = "(%x: f32[3, 4], %y: i8[n, m]) { %s = shape(%y) %i = const i64[] {1} %e = expand(%i, %s) %r = gather(%x, %e)" END),
    // clang-format on
};
const RuleSet rules_slices =
    RULES("slices", slices, "the number of nodes, then how late slices come");
