// sequence.c -- records of the ops on sequences and optionals.
#include "eval/sequence.h"
#include "ir/opinfo.h"

static tenon_status need_sequence(Infer *in, int i) {
  const Type *t = infer_type(in, i);
  if (!t || t->kind != TK_SEQUENCE)
    return infer_fail(in, TENON_EINVAL, "operand %d must be a sequence", i);
  return TENON_OK;
}
static const Type *elem(Infer *in) { return infer_type(in, 0)->elem; }

// Elements differ in shape in general: what a sequence's type says of them is what all have in
// common.
static const Type *join(Infer *in, const Type *a, const Type *b) {
  if (a->kind == TK_TENSOR && b->kind == TK_TENSOR && (!a->dtype || !b->dtype))
    return a->dtype ? a : b;
  const Type *t = type_join(in->g, a, b);
  // Sizes that differ from element to element have no symbol of their own.
  if (t && t->kind == TK_TENSOR && t != a && t != b) t = type_unranked(in->g, t->dtype);
  return t;
}

static tenon_status infer_construct(Infer *in) {
  if (!in->nsrc) return infer_fail(in, TENON_EINVAL, "no elements");
  for (int i = 0; i < in->nsrc; i++) TRY(infer_need(in, i, 0));
  const Type *t = infer_type(in, 0);
  for (int i = 1; i < in->nsrc; i++) {
    t = join(in, t, infer_type(in, i));
    if (!t) return infer_fail(in, TENON_EINVAL, "elements 0 and %d differ in type", i);
  }
  infer_set_type(in, 0, type_sequence(in->g, t));
  return TENON_OK;
}
static tenon_status infer_empty(Infer *in) {
  const sequence_empty_attrs *at = in->attrs;
  infer_set_type(in, 0, type_sequence(in->g, type_unranked(in->g, at->dtype)));
  return TENON_OK;
}
static const Type *loose(Infer *in,
                         const Type *t) {  // an element taken out: its own sizes, one by one
  if (t->kind != TK_TENSOR || t->rank < 0) return t;
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = ie_has_fresh(t->dims[i]) ? ie_fresh(&in->g->dims, "d") : t->dims[i];
  return type_tensor(in->g, t->dtype, t->rank, dims);
}
static tenon_status infer_at(Infer *in) {
  TRY(need_sequence(in, 0));
  TRY(infer_need(in, 1, 0));
  infer_set_type(in, 0, loose(in, elem(in)));
  return TENON_OK;
}
static tenon_status infer_insert(Infer *in) {
  TRY(need_sequence(in, 0));
  TRY(infer_need(in, 1, 0));
  const Type *t = join(in, elem(in), infer_type(in, 1));
  if (!t) return infer_fail(in, TENON_EINVAL, "the element does not have the sequence's type");
  infer_set_type(in, 0, type_sequence(in->g, t));
  return TENON_OK;
}
static tenon_status infer_erase(Infer *in) {
  TRY(need_sequence(in, 0));
  infer_set_type(in, 0, infer_type(in, 0));
  return TENON_OK;
}
static tenon_status infer_length(Infer *in) {
  TRY(need_sequence(in, 0));
  return infer_set(in, 0, DT_I64, 0, NULL);
}
static tenon_status infer_concat(Infer *in) {
  const concat_from_sequence_attrs *at = in->attrs;
  TRY(need_sequence(in, 0));
  const Type *t = elem(in);
  if (t->kind != TK_TENSOR) return infer_fail(in, TENON_EINVAL, "elements must be tensors");
  if (t->rank < 0) {
    infer_set_unranked(in, 0, t->dtype);
    return TENON_OK;
  }
  int axis, rank = t->rank + at->new_axis;
  Dim dims[MAX_RANK];
  if (rank > MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", rank, MAX_RANK);
  TRY(infer_axis(in, at->axis, rank, &axis));
  t = loose(in, t);
  for (int d = 0; d < rank; d++)
    dims[d] = d == axis ? ie_fresh(&in->g->dims, "joined")
                        : t->dims[at->new_axis && d > axis ? d - 1 : d];
  return infer_set(in, 0, t->dtype, rank, dims);
}
static tenon_status infer_split(Infer *in) {
  const split_to_sequence_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *t = infer_type(in, 0);
  if (t->rank < 0) {
    infer_set_type(in, 0, type_sequence(in->g, type_unranked(in->g, t->dtype)));
    return TENON_OK;
  }
  int axis;
  TRY(infer_axis(in, at->axis, t->rank, &axis));
  bool drop = !at->keepdims && !infer_src(in, 1);
  if (infer_src(in, 1)) {  // pieces of their own sizes
    infer_set_type(in, 0, type_sequence(in->g, type_unranked(in->g, t->dtype)));
    return TENON_OK;
  }
  Dim dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->rank; d++)
    if (d != axis || !drop) dims[rank++] = d == axis ? in->g->dims.one : t->dims[d];
  infer_set_type(in, 0, type_sequence(in->g, type_tensor(in->g, t->dtype, rank, dims)));
  return TENON_OK;
}
static tenon_status infer_optional(Infer *in) {
  const optional_attrs *at = in->attrs;
  const Type *t = infer_type(in, 0);
  if (!t) {
    t = type_unranked(in->g, at->dtype);
    if (at->sequence) t = type_sequence(in->g, t);
  }
  infer_set_type(in, 0, type_optional(in->g, t));
  return TENON_OK;
}
static tenon_status infer_get(Infer *in) {
  const Type *t = infer_type(in, 0);
  if (!t) return infer_fail(in, TENON_EINVAL, "the optional is absent");
  infer_set_type(in, 0, t->kind == TK_OPTIONAL ? loose(in, t->elem) : t);
  return TENON_OK;
}
static tenon_status infer_has(Infer *in) { return infer_set(in, 0, DT_BOOL, 0, NULL); }

ATTR_TABLE(sequence_empty, SEQUENCE_EMPTY_ATTRS);
ATTR_TABLE(concat_from_sequence, CONCAT_FROM_SEQUENCE_ATTRS);
ATTR_TABLE(split_to_sequence, SPLIT_TO_SEQUENCE_ATTRS);
ATTR_TABLE(optional, OPTIONAL_ATTRS);

#define HOST .flags = OPF_HOST, .nres = 1
const OpInfo op_sequence_construct = {.name = "sequence_construct",
                                      .doc = "a sequence of the operands",
                                      .onnx = "SequenceConstruct",
                                      .onnx_since = 11,
                                      HOST,
                                      .operands = "x*",
                                      .results = "sequence",
                                      .arity = -1,
                                      .infer = infer_construct,
                                      .eval = eval_sequence_construct,
                                      SAMPLES("(f32[2,3], f32[4])", "(i64[])")};
const OpInfo op_sequence_empty = {.name = "sequence_empty",
                                  .doc = "a sequence of nothing",
                                  .onnx = "SequenceEmpty",
                                  .onnx_since = 11,
                                  HOST,
                                  OP_ATTRS(sequence_empty),
                                  .operands = "",
                                  .results = "sequence",
                                  .arity = 0,
                                  .infer = infer_empty,
                                  .eval = eval_sequence_empty,
                                  SAMPLES("()", "() dtype=i64")};
const OpInfo op_sequence_at = {.name = "sequence_at",
                               .doc = "the element at a position",
                               .onnx = "SequenceAt",
                               .onnx_since = 11,
                               HOST,
                               .operands = "sequence position",
                               .results = "x",
                               .arity = 2,
                               .infer = infer_at,
                               .eval = eval_sequence_at};
const OpInfo op_sequence_insert = {.name = "sequence_insert",
                                   .doc = "the sequence with an element put in",
                                   .onnx = "SequenceInsert",
                                   .onnx_since = 11,
                                   HOST,
                                   .operands = "sequence x position?",
                                   .results = "sequence",
                                   .arity = -1,
                                   .infer = infer_insert,
                                   .eval = eval_sequence_insert};
const OpInfo op_sequence_erase = {.name = "sequence_erase",
                                  .doc = "the sequence without an element",
                                  .onnx = "SequenceErase",
                                  .onnx_since = 11,
                                  HOST,
                                  .operands = "sequence position?",
                                  .results = "sequence",
                                  .arity = -1,
                                  .infer = infer_erase,
                                  .eval = eval_sequence_erase};
const OpInfo op_sequence_length = {.name = "sequence_length",
                                   .doc = "how many elements",
                                   .onnx = "SequenceLength",
                                   .onnx_since = 11,
                                   HOST,
                                   .operands = "sequence",
                                   .results = "n",
                                   .arity = 1,
                                   .range = RANGE_sizes,
                                   .infer = infer_length,
                                   .eval = eval_sequence_length};
const OpInfo op_concat_from_sequence = {.name = "concat_from_sequence",
                                        .doc = "the elements joined to one tensor",
                                        .onnx = "ConcatFromSequence",
                                        .onnx_since = 11,
                                        HOST,
                                        OP_ATTRS(concat_from_sequence),
                                        .operands = "sequence",
                                        .results = "y",
                                        .arity = 1,
                                        .infer = infer_concat,
                                        .eval = eval_concat_from_sequence};
const OpInfo op_split_to_sequence = {.name = "split_to_sequence",
                                     .doc = "pieces of a tensor along an axis",
                                     .onnx = "SplitToSequence",
                                     .onnx_since = 11,
                                     HOST,
                                     OP_ATTRS(split_to_sequence),
                                     .operands = "x split?",
                                     .results = "sequence",
                                     .arity = -1,
                                     .infer = infer_split,
                                     .eval = eval_split_to_sequence,
                                     SAMPLES("(f32[4,3])", "(f32[4,3], i64[]{2}) axis=0",
                                             "(f32[4,3], i64[2]{1,2}) axis=1",
                                             "(f32[2,3]) axis=1 keepdims=false")};
const OpInfo op_optional = {.name = "optional",
                            .doc = "an optional that holds the operand, or nothing",
                            HOST,
                            OP_ATTRS(optional),
                            .operands = "x?",
                            .results = "y",
                            .arity = -1,
                            .infer = infer_optional,
                            .eval = eval_optional,
                            SAMPLES("(f32[2])", "() dtype=f32")};
const OpInfo op_optional_get_element = {.name = "optional_get_element",
                                        .doc = "what an optional holds",
                                        .onnx = "OptionalGetElement",
                                        .onnx_since = 15,
                                        HOST,
                                        .operands = "x",
                                        .results = "y",
                                        .arity = 1,
                                        .infer = infer_get,
                                        .eval = eval_optional_get_element,
                                        SAMPLES("(f32[2])")};
const OpInfo op_optional_has_element = {.name = "optional_has_element",
                                        .doc = "whether an optional holds anything",
                                        .onnx = "OptionalHasElement",
                                        .onnx_since = 15,
                                        HOST,
                                        .operands = "x?",
                                        .results = "y",
                                        .arity = -1,
                                        .infer = infer_has,
                                        .eval = eval_optional_has_element,
                                        SAMPLES("(f32[2])", "()")};
