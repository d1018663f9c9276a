// opinfo_test.c -- what op records say to passes, analyses and lowering, checked over the whole op
// table.
//
// Each field that is data is compared with something else that knows the same: names of operands,
// attributes, flags, the expansion, and the types of the op's samples.  A new op is covered without
// a line here.
#include "eval/contract.h"
#include "passes/fuse_kernels/fuse_kernels.h"
#include "rules/shape.h"
#include "sample.h"
#include "test.h"

// ---- samples ----

typedef void SampleFn(Graph *g, const Node *n, const char *text);

static void for_node(const Sample *s, SampleFn *fn) {
  Arena a;
  Diag d;
  Graph *g = NULL;
  arena_init(&a);
  diag_init(&d);
  const char *text = sample_graph(&a, s);
  if (!text || graph_parse(str_of(text), NULL, &d, &g)) FAIL("%s%s", s->op->name, s->text);
  NodeList all = g ? body_order(g, g->main, &a) : (NodeList){0};
  for (int64_t i = 0; i < all.n; i++)
    if (op_table[all.v[i]->op] == s->op) fn(g, all.v[i], s->text);
  graph_free(g);
  arena_deinit(&a);
}

static void for_samples(const OpInfo *op, SampleFn *fn) {
  for (const char *const *s = op->samples; s && *s; s++) for_node(&(Sample){op, *s}, fn);
}

static bool has_attr(const OpInfo *op, const char *name) {
  for (int i = 0; i < op->nattrs; i++)
    if (!strcmp(op->attrs[i].name, name)) return true;
  return false;
}

// ---- contractions ----

// The name of an operand, without the mark of an optional one; empty: there is none.
static Str operand_name(const OpInfo *op, int i) {
  const char *p = op->operands;
  for (; i > 0; i--) {
    if (p[strcspn(p, " ")] != ' ') return (Str){p, 0};
    p += strcspn(p, " ") + 1;
  }
  return (Str){p, (int64_t)strcspn(p, " ?*")};
}

static bool is_named(const OpInfo *op, int operand, const char *word) {
  if (operand < 0) return true;
  Str name = operand_name(op, operand);
  for (int64_t i = 0, n = (int64_t)strlen(word); i + n <= name.n; i++)
    if (!memcmp(name.p + i, word, (size_t)n)) return true;
  return false;
}

static void check_operands(const OpInfo *op, const ContractionInfo *c) {
  const int8_t all[] = {c->lhs,      c->rhs,       c->bias,      c->lhs_zero, c->rhs_zero,
                        c->out_zero, c->lhs_scale, c->rhs_scale, c->out_scale};
  bool repeats = op->operands[strlen(op->operands) - 1] == '*';
  if (c->lhs < 0 || c->rhs < 0) FAIL("%s has no two factors", op->name);
  for (int i = 0; i < ARRAY_LEN(all); i++) {
    if (all[i] >= 0 && !operand_name(op, all[i]).n && !repeats)
      FAIL("%s has no operand %d", op->name, all[i]);
    for (int k = 0; k < i; k++)
      if (all[i] >= 0 && all[i] == all[k]) FAIL("%s: operand %d is two things", op->name, all[i]);
  }
  if (!is_named(op, c->lhs_zero, "zero") || !is_named(op, c->rhs_zero, "zero") ||
      !is_named(op, c->out_zero, "zero"))
    FAIL("%s: a zero point has another name", op->name);
  if (!is_named(op, c->lhs_scale, "scale") || !is_named(op, c->rhs_scale, "scale") ||
      !is_named(op, c->out_scale, "scale"))
    FAIL("%s: a scale has another name", op->name);
}

static DType dtype_at(Graph *g, const Node *n, int operand) {
  const Node *x = operand_or_null(g, n, operand);
  return x ? type_of(x)->dtype : (DType)0;
}

static bool is_8_bits(DType t) { return t == DT_U8 || t == DT_I8; }

// The types of a sample agree with what the record says of its operands.
static void check_types(Graph *g, const Node *n, const char *text) {
  const ContractionInfo *c = op_contraction(n);
  DType lhs = dtype_at(g, n, c->lhs), rhs = dtype_at(g, n, c->rhs), out = type_of(n)->dtype;
  DType zero[] = {dtype_at(g, n, c->lhs_zero), dtype_at(g, n, c->rhs_zero)};
  if (c->flags & CONTRACT_INT8) {
    if (!is_8_bits(lhs) || !is_8_bits(rhs)) FAIL("%s%s: not of int8", op_name(n), text);
    if ((zero[0] && zero[0] != lhs) || (zero[1] && zero[1] != rhs))
      FAIL("%s%s: a zero point of another type", op_name(n), text);
    bool whole = c->flags & CONTRACT_REQUANTIZED ? is_8_bits(out) : out == DT_I32;
    if (!whole) FAIL("%s%s: a sum of another type", op_name(n), text);
  } else if (c->form != CF_DOT && c->form != CF_OTHER && lhs != out) {
    FAIL("%s%s: only a dot widens its sum", op_name(n), text);
  }
  int of_scale[] = {c->lhs_scale, c->rhs_scale, c->out_scale};
  for (int i = 0; i < ARRAY_LEN(of_scale); i++) {
    DType t = dtype_at(g, n, of_scale[i]);
    if (t && !dtype_is_float(t)) FAIL("%s%s: a scale that is no float", op_name(n), text);
  }
  bool conv = c->form == CF_CONV || c->form == CF_CONV_TRANSPOSE;
  if (conv && type_of(n->src[c->lhs])->rank != type_of(n->src[c->rhs])->rank)
    FAIL("%s%s: an image and weights of two ranks", op_name(n), text);
}

TEST(contraction_records_agree_with_operands) {
  int count = 0;
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    const ContractionInfo *c = op->contraction;
    if (!c) continue;
    count++;
    check_operands(op, c);
    if (op->fuse.cls != FC_ANCHOR || op->fuse.kind != FUSED_CONTRACTION)
      FAIL("%s does not fuse as a contraction", op->name);
    if (c->flags & CONTRACT_REQUANTIZED &&
        (!(c->flags & CONTRACT_INT8) || c->lhs_scale < 0 || c->rhs_scale < 0 || c->out_scale < 0 ||
         c->out_zero < 0))
      FAIL("%s is requantized without all scales", op->name);
    // Forms promise attributes: lowering and passes read them by the form alone.
    if (c->form == CF_CONV && op->attrs_size != sizeof(conv_attrs))
      FAIL("%s: other attributes than a convolution's", op->name);
    if (c->form == CF_GEMM && op->attrs_size != sizeof(gemm_attrs))
      FAIL("%s: other attributes than gemm's", op->name);
    for_samples(op, check_types);
  }
  EXPECT(count >= 13);
}

TEST(contractions_are_asked_by_role) {
  Diag d;
  Graph *g;
  diag_init(&d);
  static const char text[] =
      "graph @\"g\"(%x: u8[1, 4, 5], %w: i8[2, 4, 1]) {\n"
      "  %s = const f32[] {0.5}\n  %z = const u8[] {3}\n  %v = const i8[] {0}\n"
      "  %y = q_linear_conv(%x, %s, %z, %w, %s, %v, %s, %z)\n  return %y\n}\n";
  if (graph_parse(str_of(text), NULL, &d, &g)) FAIL("%s", d.text);
  const Node *n = g->main->result[0];
  const ContractionInfo *c = op_contraction(n);
  EXPECT(is_form(n, CF_CONV) && sums_int8(n) && is_requantized(n) && !is_gemm(n));
  EXPECT(operand_or_null(g, n, c->rhs) == g->main->param[1]);
  EXPECT(operand_or_null(g, n, c->rhs_zero) == n->src[5]);
  EXPECT(!operand_or_null(g, n, c->bias));  // optional, and absent
  EXPECT(!operand_or_null(g, n, -1));
  EXPECT(!op_contraction(g->main->param[0]) && !sums_int8(g->main->param[0]));
  graph_free(g);
}

// ---- fusion ----

static Dim count_of(Graph *g, const Type *t) {
  return t->kind == TK_TENSOR && t->rank >= 0 ? type_numel(g, t) : NULL;
}

// What a class promises about elements holds for the types of a sample.
static void check_fusion(Graph *g, const Node *n, const char *text) {
  FuseOp f = fuse_op(n);
  if (!n->nsrc || n->nres != 1) return;
  Dim from = count_of(g, type_of(n->src[0])), to = count_of(g, type_of(n));
  if (f.flags & FF_BIJECTIVE && from && to && ie_eq(&g->dims, from, to) == NO)
    FAIL("%s%s: not every element once", op_name(n), text);
  if (f.flags & FF_VIEW && type_of(n->src[0])->dtype != type_of(n)->dtype)
    FAIL("%s%s: a view of another type", op_name(n), text);
  if (f.flags & FF_SAME && from && to && !type_same_dims(type_of(n->src[0]), type_of(n)))
    FAIL("%s%s: another shape than operand 0", op_name(n), text);
}

TEST(fusion_records_agree_with_flags) {
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    FuseOp f = op->fuse;
    bool host = op->flags & (OPF_HOST | OPF_CONTROL);
    if (host && f.cls != FC_BY_FLAGS) FAIL("%s is the host's and has a class", op->name);
    if (op->flags & OPF_ELEMENTWISE && f.cls != FC_BY_FLAGS && f.cls != FC_POINT && f.cls != FC_MAP)
      FAIL("%s is element-wise and of another class", op->name);
    if (f.cls == FC_FREE || f.cls == FC_INPUT || f.cls == FC_PROJ || f.cls == FC_HOST)
      FAIL("%s: a class that only a node can have", op->name);
    if (f.flags & FF_VIEW && !(op->flags & OPF_MOVEMENT)) FAIL("%s computes in a view", op->name);
    if (f.flags & (FF_ROW | FF_SAME | FF_CLOSED) && f.cls != FC_ANCHOR)
      FAIL("%s: a flag of anchors", op->name);
    for_samples(op, check_fusion);
  }
}

// ---- layout ----

TEST(layout_records_have_the_attributes_they_speak_of) {
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    bool axis = op->layout == LAYOUT_AXIS || op->layout == LAYOUT_ARG || op->layout == LAYOUT_QUANT;
    if (axis && !has_attr(op, "axis")) FAIL("%s has no axis", op->name);
    if (op->layout == LAYOUT_AWARE && !has_attr(op, "channels_last"))
      FAIL("%s has no attribute channels_last", op->name);
    if (op->layout == LAYOUT_REDUCE && op->fuse.kind != FUSED_REDUCTION)
      FAIL("%s is no reduction", op->name);
    if (op->contraction && op->layout == LAYOUT_AWARE && op->contraction->form != CF_CONV &&
        op->contraction->form != CF_CONV_TRANSPOSE)
      FAIL("%s: weights of an order that nobody knows", op->name);
  }
}

// ---- expense ----

static OpExpense least_expense;

// What an element-wise composite is made of costs at most what the record says.
static void expand_sample(Graph *g, const Node *n, const char *text) {
  Node *out[1] = {NULL};
  (void)text;
  op_table[n->op]->expand(g, n, out);
  if (!out[0] || out[0] == g->poison) return;
  Body b = {.nresults = 1, .result = out};
  NodeList all = body_order(g, &b, &g->scratch);
  for (int64_t i = 0; i < all.n; i++)
    least_expense = MAX(least_expense, (OpExpense)op_table[all.v[i]->op]->expense);
}

TEST(expense_records_agree_with_expansions) {
  int transcendental = 0;
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    transcendental += op->expense >= EXPENSE_TRANSCENDENTAL;
    if (op->expense && !(op->flags & OPF_ELEMENTWISE)) FAIL("%s is not element-wise", op->name);
    if (!(op->flags & OPF_ELEMENTWISE) || !op->expand || op->nres != 1) continue;
    least_expense = EXPENSE_NONE;
    for_samples(op, expand_sample);
    if (MIN(least_expense, EXPENSE_TRANSCENDENTAL) > (OpExpense)op->expense)
      FAIL("%s is made of something more expensive", op->name);
  }
  EXPECT(transcendental >= 20);
}
