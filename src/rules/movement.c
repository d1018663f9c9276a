// movement.c -- movement in one form: views merged, cancelled and dropped.
//
// The form that is aimed at: squeeze, unsqueeze and flatten are reshapes; a reshape's shape is a
// constant; two reshapes or transposes in a row are one; a transpose that moves axes of size 1
// alone is a reshape, and a reshape that only adds or drops such axes stands before a transpose,
// where it meets its own kind.
#include "eval/image.h"
#include "eval/scalar.h"
#include "eval/window.h"

#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

// ---- reshape ----

static Node *as_reshape(Graph *g, const Match *m) {
  return reshape_to(g, m->root->src[0], type_of(m->root));
}

static Node *merge_reshapes(Graph *g, const Match *m) {
  return reshape_to(g, m->var[SLOT_a], type_of(m->root));
}

static bool root_is_a(const Match *m) {
  return same_type(m->root, m->var[SLOT_a]) && type_of(m->root)->rank >= 0;
}

// ---- transpose ----

static bool identity_perm(const Match *m) {
  int64_t perm[MAX_RANK];
  int rank = transpose_perm(m->root, perm);
  for (int i = 0; i < rank; i++)
    if (perm[i] != i) return false;
  return rank >= 0 && !is_materialized(m->root);
}

static Node *merge_transposes(Graph *g, const Match *m) {
  int64_t outer[MAX_RANK], inner[MAX_RANK], perm[MAX_RANK];
  int rank = transpose_perm(m->root, outer);
  if (rank < 0 || transpose_perm(m->var[SLOT_p], inner) != rank) return NULL;
  if (is_materialized(m->root) || is_materialized(m->var[SLOT_p])) return NULL;
  for (int i = 0; i < rank; i++) perm[i] = inner[outer[i]];
  return transpose_to(g, m->var[SLOT_a], rank, perm);
}

// Axes of size 1 may go anywhere: where the others keep their order, nothing moves in memory.
static Node *unit_transpose(Graph *g, const Match *m) {
  int64_t perm[MAX_RANK], last = -1;
  const Node *x = m->var[SLOT_a];
  int rank = transpose_perm(m->root, perm);
  if (rank != type_of(x)->rank || is_materialized(m->root)) return NULL;
  for (int i = 0; i < rank; i++) {
    if (ie_is(type_of(x)->dims[perm[i]], 1)) continue;
    if (perm[i] < last) return NULL;
    last = perm[i];
  }
  return rank < 0 ? NULL : reshape_to(g, m->var[SLOT_a], type_of(m->root));
}

// reshape(transpose(x)) that only adds or drops axes of size 1 => transpose(reshape(x)).
static Node *lift_units(Graph *g, const Match *m) {
  const Node *t = m->var[SLOT_p];
  const Type *from = type_of(t), *to = type_of(m->root);
  int64_t perm[MAX_RANK], axis[MAX_RANK], order[MAX_RANK], place[MAX_RANK];
  int rank = transpose_perm(t, perm), n = 0;
  if (rank < 0 || to->rank < 0 || is_materialized(t)) return NULL;
  int i = 0;
  for (int j = 0; j < to->rank; j++) {  // both walked without their ones
    axis[j] = -1;
    if (ie_is(to->dims[j], 1)) continue;
    while (i < rank && ie_is(from->dims[i], 1)) i++;
    if (i == rank || from->dims[i] != to->dims[j]) return NULL;
    axis[j] = perm[i++];
  }
  for (; i < rank; i++)
    if (!ie_is(from->dims[i], 1)) return NULL;
  // Result axes in the order that the input has them; a new one of size 1 follows the axis before
  // it.
  for (int x = -1; x < rank; x++)
    for (int j = 0; j < to->rank; j++) {
      int64_t own = axis[j];
      for (int k = j; own < 0 && k > 0; k--) own = axis[k - 1];
      if (own == x) order[n++] = j;
    }
  if (n != to->rank) return NULL;
  Dim dims[MAX_RANK];
  for (int k = 0; k < n; k++) {
    dims[k] = to->dims[order[k]];
    place[order[k]] = k;
  }
  Node *x = reshape_to(g, m->var[SLOT_a], type_tensor(g, to->dtype, n, dims));
  return x ? transpose_to(g, x, n, place) : NULL;
}

// ---- expand, pad, tile, cast ----

static bool no_pads(const Match *m) {
  Ints pads;
  if (!root_is_a(m) || !node_ints(m->g, m->root->src[1], &pads)) return false;
  for (int64_t i = 0; i < pads.n; i++)
    if (pads.v[i]) return false;
  return true;
}
static Node *operand0(Graph *g, const Match *m) {
  (void)g;
  return m->root->src[0];
}
static bool pad_zero(const Match *m) {
  Match t = *m;
  t.var[SLOT_a] = m->root->src[0];
  return no_pads(&t);
}

static bool ones(const Match *m) {
  Ints r;
  if (!node_ints(m->g, m->var[SLOT_b], &r)) return false;
  for (int64_t i = 0; i < r.n; i++)
    if (r.v[i] != 1) return false;
  return true;
}

// Repeating an axis of size 1 is broadcasting.
static bool repeats_units(const Match *m) {
  const Type *t = type_of(m->var[SLOT_a]);
  int64_t n;
  const Dim *r;
  if (t->rank < 0 || !node_sym(m->g, m->var[SLOT_b], &n, &r) || n != t->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (!ie_is(r[i], 1) && (!ie_is(t->dims[i], 1) || r[i]->lo < 0)) return false;
  return true;
}
static Node *tile_as_expand(Graph *g, const Match *m) {
  // A repeat of 1 beside a size: expand takes 1 for "as it is".
  return N(g, expand, m->var[SLOT_a], m->var[SLOT_b]);
}

// Every value of `from` is a value of `to`.
static bool holds_all(DType to, DType from) {
  DTypeClass want = dtype_class(to), have = dtype_class(from);
  if (to == from) return true;
  if (have == DC_BOOL) return dtype_is_int(to) || (dtype_is_float(to) && dtype_bits(to) >= 16);
  if (dtype_is_int(from) && dtype_is_int(to))
    return (want == have || (want == DC_INT && have == DC_UINT)) &&
           dtype_bits(to) > dtype_bits(from);
  if (dtype_is_float(to) && dtype_is_int(from))
    return dtype_bits(from) <= (to == DT_F64 ? 32 : to == DT_F32 ? 16 : to == DT_F16 ? 8 : 0);
  return (to == DT_F64 && (from == DT_F32 || from == DT_F16 || from == DT_BF16)) ||
         (to == DT_F32 && (from == DT_F16 || from == DT_BF16));
}
// cast(cast(x)): the first one changes no value; but as text a number is written in the digits of
// its type.
static bool cast_keeps(const Match *m) {
  return type_of(m->root)->dtype != DT_STRING &&
         holds_all(type_of(m->var[SLOT_p])->dtype, type_of(m->var[SLOT_a])->dtype);
}
static Node *cast_once(Graph *g, const Match *m) {
  if (type_of(m->root) == type_of(m->var[SLOT_a])) return m->var[SLOT_a];
  return NA(g, cast, m->root->attrs, m->var[SLOT_a]);
}

// A constant everywhere is that constant, broadcast.
static Node *filled_as_expand(Graph *g, const Match *m) {
  Node *value = src_or_null(g, m->root, 1);
  if (!value) return N(g, expand, node_scalar(g, DT_F32, 0), m->root->src[0]);
  Node *one = reshape_to(g, value, type_scalar(g, type_of(value)->dtype));
  return one ? N(g, expand, one, m->root->src[0]) : NULL;
}

// ---- windows and resizing that pick each element as it is ----

// Windows of one element, as adaptive pools whose sizes fit are written, and pools that only skip:
// a slice with steps.
static Node *pool_slice(Graph *g, const Match *m) {
  const Node *n = m->root;
  bool max = n->op == OP_max_pool;
  const max_pool_attrs *of_max = n->attrs;
  const average_pool_attrs *of_mean = n->attrs;
  Ints kernel = max ? of_max->kernel_shape : of_mean->kernel_shape;
  Ints pads = max ? of_max->pads : of_mean->pads, step = max ? of_max->strides : of_mean->strides;
  int rank = type_of(n->src[0])->rank;
  if (n->nres != 1 || rank < 2 || kernel.n != rank - 2) return NULL;
  Node *x = n->src[0];
  for (int64_t i = 0; i < pads.n; i++)
    if (pads.v[i]) return NULL;
  for (int64_t i = 0; i < kernel.n; i++) {
    if (kernel.v[i] != 1) return NULL;
    if (i < step.n && step.v[i] != 1) x = slice_axis(g, x, 2 + i, 0, INT64_MAX, step.v[i]);
  }
  return type_of(x) == type_of(n) ? x : NULL;
}

// To given sizes, not by a factor, which rounding may hide.
static bool to_sizes(const Node *n, Graph *g) {
  const resize_attrs *at = n->attrs;
  return src_or_null(g, n, 3) && at->keep_aspect_ratio_policy == RESIZE_STRETCH &&
         at->coordinate_transformation_mode != RESIZE_TF_CROP && type_of(n)->rank >= 0 &&
         type_of(n)->rank == type_of(n->src[0])->rank;
}

static Node *resize_none(Graph *g, const Match *m) {
  const Node *n = m->root;
  return to_sizes(n, g) && type_of(n) == type_of(n->src[0]) ? n->src[0] : NULL;
}

// A pooled image made large again: each axis that grows has one element.
static Node *resize_units(Graph *g, const Match *m) {
  const Node *n = m->root;
  const Type *x = type_of(n->src[0]), *t = type_of(n);
  int64_t dims[MAX_RANK];
  if (!to_sizes(n, g) || ((const resize_attrs *)n->attrs)->mode == RESIZE_CUBIC) return NULL;
  for (int i = 0; i < t->rank; i++) {
    bool grows = x->dims[i] != t->dims[i];
    if (grows && (!ie_is(x->dims[i], 1) || !ie_is_const(t->dims[i]))) return NULL;
    dims[i] = grows ? t->dims[i]->value : 1;
  }
  return N(g, expand, n->src[0], node_i64s(g, t->rank, dims));
}

// ---- broadcasting that the user does anyway ----

enum { REPEATS_FROM = 1 << 20 };  // bytes; below nobody looks for them

// The bytes of a large constant whose parts along the outermost axis are all the same, as folding
// leaves it of what was expanded; else NULL.
static const void *repeats(Graph *g, const Node *n) {
  const Type *t = type_of(n);
  const void *bytes;
  Diag quiet;
  if (n->op != OP_const || t->rank < 2 || t->dims[0]->value < 2 || !elem_bytes(t->dtype) ||
      n->data->bytes < REPEATS_FROM || (n->data->moved && !n->data->mem))
    return NULL;
  diag_init(&quiet);
  if (const_bytes(g, n, &bytes, &quiet)) return NULL;
  int64_t part = n->data->bytes / t->dims[0]->value;
  // Each part is the one before it, moved by one.
  bool same = !memcmp(bytes, (const char *)bytes + part, (size_t)(n->data->bytes - part));
  return same ? bytes : NULL;
}

static Node *first_part(Graph *g, const Node *n, const void *bytes) {
  const Type *t = type_of(n);
  int64_t dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = i ? t->dims[i]->value : 1;
  return node_const(g, t->dtype, t->rank, dims, bytes, n->name);
}

static Node *drop_expand(Graph *g, const Match *m) {
  const Node *n = m->root;
  Node *src[3];
  const void *part = NULL;
  int64_t at = -1;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = n->src[i];
    if (at >= 0) continue;
    if (n->src[i]->op != OP_expand) part = repeats(g, n->src[i]);
    if (part || n->src[i]->op == OP_expand) at = i;
  }
  if (at < 0) return NULL;
  if (!part) src[at] = n->src[at]->src[0];
  // Would the others alone broadcast to the same shape?
  const Type *t = type_of(n);
  for (int i = 0; i < t->rank; i++) {
    bool covered = false;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      const Type *s = type_of(src[k]);
      int own = i - (t->rank - s->rank);
      if (s->rank < 0) return NULL;
      bool left_out = part && k == at && own == 0;
      covered |= own >= 0 && !left_out && s->dims[own] == t->dims[i];
    }
    if (!covered && !ie_is(t->dims[i], 1)) return NULL;
  }
  if (part) src[at] = first_part(g, n->src[at], part);
  return node_with(g, n, src);
}

#define X           "(%x: f32[n, 4, m]) { "
#define S2(a, b)    "%s = const i64[2] {" #a ", " #b "} "
#define S3(a, b, c) "%s = const i64[3] {" #a ", " #b ", " #c "} "
#define END         " return %r }"
#define DROP(op, flags)                                                                            \
  RULE("expand.in_" #op, ANY(op), .make = drop_expand, .fast = flags,                              \
       .example = "(%x: f32[1, 4], %y: f32[n, 4]) { %s = shape(%y) %e = expand(%x, %s) %r = " #op  \
                  "(%e, %y)" END)
#define DROP_B(op)                                                                                 \
  RULE("expand.in_" #op, ANY(op), .make = drop_expand,                                             \
       .example =                                                                                  \
           "(%x: bool[1, 4], %y: bool[n, 4]) { %s = shape(%y) %e = expand(%x, %s) %r = " #op       \
           "(%e, %y)" END)

static const Rule movement[] = {
    // clang-format off
    RULE("reshape.same",      P(reshape, a, b),                     a, .when = root_is_a, .example = X S3(0, 4, 0) "%r = reshape(%x, %s)" END),
    RULE("reshape.reshape",   P(reshape, P(reshape, a, c), b),      .make = merge_reshapes, .example = X S2(1, 4) "%y = reshape(%x, %s) into=[0, -1, 1] %t = const i64[4] {1, 2, 2, -1} %r = reshape(%y, %t) into=[0, -1]" END),
    RULE("reshape.constant",  P(reshape, a, b),                     .make = as_reshape, .example = X "%p = shape(%x) end=1 %q = shape(%x) start=1 %o = reduce_prod(%q) %s = concat(%p, %o) %r = reshape(%x, %s) allowzero=true" END),
    RULE("reshape.flatten",   P(flatten, a),                        .make = as_reshape, .example = X "%r = flatten(%x) axis=2" END),
    RULE("reshape.squeeze",   ANY(squeeze),                         .make = as_reshape, .example = "(%x: f32[n, 1, m]) { %s = const i64[1] {1} %r = squeeze(%x, %s)" END),
    RULE("reshape.unsqueeze", P(unsqueeze, a, b),                   .make = as_reshape, .example = X S2(0, 3) "%r = unsqueeze(%x, %s)" END),
    RULE("reshape.lift",      P(reshape, BIND_ONCE(p, transpose, a), b), .make = lift_units, .example = X "%t = transpose(%x) perm=[2, 0, 1] %s = const i64[4] {1, 1, 1, 1} %r = reshape(%t, %s) into=[0, 2, 3]" END),
    RULE("transpose.identity", P(transpose, a),                     a, .when = identity_perm, .example = X "%r = transpose(%x) perm=[0, 1, 2]" END),
    RULE("transpose.transpose", P(transpose, BIND(p, transpose, a)), .make = merge_transposes, .example = X "%y = transpose(%x) perm=[1, 2, 0] %r = transpose(%y) perm=[1, 0, 2]" END),
    RULE("transpose.units",   P(transpose, a),                      .make = unit_transpose, .example = "(%x: f32[n, 1, m]) { %r = transpose(%x) perm=[1, 0, 2]" END),
    RULE("expand.same",       P(expand, a, b),                      a, .when = root_is_a, .example = X "%s = shape(%x) %r = expand(%x, %s)" END),
    RULE("expand.expand",     P(expand, P(expand, a, c), b),        P(expand, a, b), .example = "(%x: f32[1, 1], %y: f32[n, m]) { %s = const i64[2] {1, 4} %e = expand(%x, %s) %t = const i64[3] {2, 3, 4} %r = expand(%e, %t)" END),
    RULE("pad.none",          ANY(pad),                             .make = operand0, .when = pad_zero, .example = X "%s = const i64[6] {0, 0, 0, 0, 0, 0} %r = pad(%x, %s)" END),
    RULE("max_pool.slice",    P(max_pool, a),                       .make = pool_slice, .example = "(%x: f32[n, 3, m, 4]) { %r = max_pool(%x) kernel_shape=[1, 1] strides=[1, 3]" END),
    RULE("average_pool.slice", P(average_pool, a),                   .make = pool_slice, .fast = FAST_NO_SZ, .example = "(%x: f32[n, 3, m, 4]) { %r = average_pool(%x) kernel_shape=[1, 1]" END),
    RULE("resize.none",       ANY(resize),                          .make = resize_none, .example = "(%x: f32[n, 3, 5, 4]) { %p = shape(%x) end=2 %q = const i64[2] {5, 4} %s = concat(%p, %q) %r = resize(%x, _, _, %s) mode=linear" END),
    RULE("resize.units",      ANY(resize),                          .make = resize_units, .fast = FAST_APPROX, .example = "(%x: f32[n, 3, 1, 1]) { %p = shape(%x) end=2 %q = const i64[2] {5, 4} %s = concat(%p, %q) %r = resize(%x, _, _, %s) mode=linear" END),
    RULE("tile.ones",         P(tile, a, b),                        a, .when = ones, .example = X S3(1, 1, 1) "%r = tile(%x, %s)" END),
    RULE("tile.units",        P(tile, a, b),                        .make = tile_as_expand, .when = repeats_units, .example = "(%x: f32[n, 1]) { " S2(1, 3) "%r = tile(%x, %s)" END),
    RULE("cast.same",         P(cast, a),                           a, .when = root_is_a, .example = X "%r = cast(%x) to=f32" END),
    RULE("cast.cast",         P(cast, BIND(p, cast, a)),            .make = cast_once, .when = cast_keeps, .example = "(%x: i8[n]) { %y = cast(%x) to=f32 %r = cast(%y) to=i64" END),
    RULE("expand.fill",       ANY(constant_of_shape),               .make = filled_as_expand, .example = "(%x: f32[n, m]) { %s = shape(%x) %c = const i32[1] {7} %r = constant_of_shape(%s, %c)" END),
    // which of two zeros min and max take depends on the order of their operands
    DROP(add, 0), DROP(sub, 0), DROP(mul, 0), DROP(div, 0), DROP(min, FAST_NO_SZ), DROP(max, FAST_NO_SZ), DROP(pow, 0), DROP(eq, 0), DROP(lt, 0), DROP(le, 0),
    DROP_B(and), DROP_B(or), DROP_B(xor),
    RULE("expand.in_where",   P(where, a, b, c),                    .make = drop_expand, .example = "(%x: bool[1, 4], %y: f32[n, 4], %z: f32[]) { %s = shape(%y) %e = expand(%x, %s) %r = where(%e, %y, %z)" END),
    // clang-format on
};
const RuleSet rules_movement =
    RULES("movement", movement, "the number of movement nodes, then how late the reshapes come");
