// control.c -- records of the control-flow ops: what their bodies give, seen from outside.
//
// A size that changes from one iteration to the next, or that a body finds only while it runs, is a
// fresh symbol outside.
#include "eval/control.h"
#include "ir/opinfo.h"

// A type as seen outside the body that computed it: sizes known only inside become fresh symbols.
static const Type *outside(Infer *in, const Type *t) {
  if (t->kind == TK_SEQUENCE || t->kind == TK_OPTIONAL) {
    const Type *e = outside(in, t->elem);
    return t->kind == TK_SEQUENCE ? type_sequence(in->g, e) : type_optional(in->g, e);
  }
  if (t->kind != TK_TENSOR || t->rank < 0) return t;
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = ie_has_fresh(t->dims[i]) ? ie_fresh(&in->g->dims, "d") : t->dims[i];
  return type_tensor(in->g, t->dtype, t->rank, dims);
}

static tenon_status need_body(Infer *in, const Body *b, int64_t nparams, int64_t nresults,
                              const char *what) {
  if (!b) return infer_fail(in, TENON_EINVAL, "%s is missing", what);
  if (b->nparams != nparams || b->nresults != nresults)
    return infer_fail(
        in, TENON_EINVAL, "%s takes %lld values and gives %lld, must be %lld and %lld", what,
        (long long)b->nparams, (long long)b->nresults, (long long)nparams, (long long)nresults);
  return TENON_OK;
}

static tenon_status infer_if(Infer *in) {
  const if_attrs *at = in->attrs;
  TRY(infer_need(in, 0, DT_BOOL));
  int64_t nthen = at->then_captures, nelse = in->nsrc - 1 - nthen;
  if (nthen < 0 || nelse < 0)
    return infer_fail(in, TENON_EINVAL, "then_captures is %lld with %d operands", (long long)nthen,
                      in->nsrc);
  TRY(need_body(in, at->then_branch, nthen, in->nres, "then_branch"));
  TRY(need_body(in, at->else_branch, nelse, in->nres, "else_branch"));
  for (int i = 0; i < in->nres; i++) {
    const Type *a = type_of(at->then_branch->result[i]), *b = type_of(at->else_branch->result[i]);
    const Type *t = type_join(in->g, a, b);
    if (!t) return infer_fail(in, TENON_EINVAL, "result %d has another type in each branch", i);
    in->type[i] = outside(in, t);
  }
  return TENON_OK;
}

static bool always_true(Infer *in, const Body *b) {
  const Node *c = b->result[0];
  Ints v;
  return c == b->param[1] || (node_ints(in->g, c, &v) && v.n == 1 && v.v[0]);
}

// How often a loop runs, when its condition never ends it early.
static Dim trip_count(Infer *in, const Body *b) {
  const Node *m = infer_src(in, 0), *cond = infer_src(in, 1);
  int64_t n;
  const Dim *sym;
  Ints c = {0};
  bool starts = !cond || (node_ints(in->g, cond, &c) && c.n == 1 && c.v[0]);
  if (m && starts && always_true(in, b) && node_sym(in->g, m, &n, &sym) && n == 1) {
    if (sym[0]->lo >= 0) return sym[0];
    return ie_max(&in->g->dims, sym[0], in->g->dims.zero);
  }
  return ie_fresh(&in->g->dims, "trips");
}

static tenon_status infer_stack(Infer *in, int i, const Type *row, int64_t axis, Dim length) {
  if (row->kind != TK_TENSOR)
    return infer_fail(in, TENON_EINVAL, "result %d: only tensors can be stacked", i);
  if (row->rank < 0) {
    infer_set_unranked(in, i, row->dtype);
    return TENON_OK;
  }
  row = outside(in, row);
  Dim dims[MAX_RANK];
  if (row->rank >= MAX_RANK || axis < -(row->rank + 1) || axis > row->rank)
    return infer_fail(in, TENON_EINVAL, "axis %lld for rows of rank %d", (long long)axis,
                      row->rank);
  if (axis < 0) axis += row->rank + 1;
  for (int d = 0; d <= row->rank; d++)
    dims[d] = d < axis ? row->dims[d] : d == axis ? length : row->dims[d - 1];
  return infer_set(in, i, row->dtype, row->rank + 1, dims);
}

static tenon_status infer_loop(Infer *in) {
  const loop_attrs *at = in->attrs;
  int64_t ncarried = in->nsrc - 2 - at->captures, nscan = in->nres - ncarried;
  if (at->captures < 0 || ncarried < 0 || nscan < 0)
    return infer_fail(in, TENON_EINVAL, "%d operands and %d results do not fit the body", in->nsrc,
                      in->nres);
  TRY(need_body(in, at->body, in->nsrc, 1 + in->nres, "body"));
  if (infer_src(in, 0)) TRY(infer_need(in, 0, DT_I64));
  if (infer_src(in, 1)) TRY(infer_need(in, 1, DT_BOOL));
  for (int64_t i = 0; i < ncarried; i++) {
    const Type *t =
        type_join(in->g, type_of(at->body->param[2 + i]), type_of(at->body->result[1 + i]));
    if (!t)
      return infer_fail(in, TENON_EINVAL, "carried value %lld changes its type in the body",
                        (long long)i);
    in->type[i] = outside(in, t);
  }
  Dim trips = nscan ? trip_count(in, at->body) : NULL;
  for (int64_t i = 0; i < nscan; i++) {
    const Type *row = type_of(at->body->result[1 + ncarried + i]);
    if (row->kind == TK_TENSOR &&
        ie_has_fresh(trips)) {  // no iteration at all leaves the rows' shape open
      infer_set_unranked(in, (int)(ncarried + i), row->dtype);
      if (row->rank >= 0) TRY(infer_stack(in, (int)(ncarried + i), row, 0, trips));
      continue;
    }
    TRY(infer_stack(in, (int)(ncarried + i), row, 0, trips));
  }
  return TENON_OK;
}

static int64_t list_at(Ints l, int64_t i) { return i < l.n ? l.v[i] : 0; }

static tenon_status infer_scan(Infer *in) {
  const scan_attrs *at = in->attrs;
  int64_t nops = in->nsrc - at->captures, nscans = at->num_scan_inputs, nstates = nops - nscans;
  if (at->captures < 0 || nscans < 1 || nstates < 0 || nstates > in->nres)
    return infer_fail(in, TENON_EINVAL, "num_scan_inputs is %lld with %lld operands",
                      (long long)nscans, (long long)nops);
  TRY(need_body(in, at->body, in->nsrc, in->nres, "body"));
  int back = at->batched;  // opset 8: a batch axis in front of everything
  Dim length = NULL, batch = NULL;
  for (int64_t i = 0; i < nscans; i++) {
    TRY(infer_need(in, (int)(nstates + i), 0));
    const Type *t = infer_type(in, (int)(nstates + i));
    if (t->rank < 0) continue;
    int axis;
    if (t->rank <= back)
      return infer_fail(in, TENON_EINVAL, "scan input %lld has rank %d", (long long)i, t->rank);
    TRY(infer_axis(in, list_at(at->scan_input_axes, i), t->rank - back, &axis));
    if (length)
      TRY(infer_equal_dim(in, length, t->dims[axis + back], "lengths of the scan inputs"));
    if (!length) length = t->dims[axis + back];
    if (back) batch = t->dims[0];
  }
  if (!length) length = ie_fresh(&in->g->dims, "length");
  for (int64_t i = 0; i < in->nres; i++) {
    const Type *t = type_of(at->body->result[i]);
    if (i < nstates)
      in->type[i] = outside(in, t);
    else
      TRY(infer_stack(in, (int)i, t, list_at(at->scan_output_axes, i - nstates), length));
    if (back && batch) TRY(infer_stack(in, (int)i, in->type[i], 0, batch));
  }
  return TENON_OK;
}

static tenon_status infer_sequence_map(Infer *in) {
  const sequence_map_attrs *at = in->attrs;
  if (in->nsrc < 1 || type_of(in->src[0])->kind != TK_SEQUENCE)
    return infer_fail(in, TENON_EINVAL, "operand 0 must be a sequence");
  TRY(need_body(in, at->body, in->nsrc, in->nres, "body"));
  for (int i = 0; i < in->nres; i++)
    in->type[i] = type_sequence(in->g, outside(in, type_of(at->body->result[i])));
  return TENON_OK;
}

ATTR_TABLE(if, IF_ATTRS);
ATTR_TABLE(loop, LOOP_ATTRS);
ATTR_TABLE(scan, SCAN_ATTRS);
ATTR_TABLE(sequence_map, SEQUENCE_MAP_ATTRS);

static double no_cost(const CostIn *c) {
  (void)c;
  return 0;
}

const OpInfo op_if = {
    .name = "if",
    .doc = "one of two bodies, by a condition",
    .operands = "condition captures*",
    .results = "y*",
    .dtypes = "bool",
    .arity = -1,
    .nres = 1,
    .range = RANGE_if,
    .flags = OPF_CONTROL | OPF_HOST,
    OP_ATTRS(if),
    .infer = infer_if,
    .eval = eval_if,
    .cost = no_cost,
};
const OpInfo op_loop = {
    .name = "loop",
    .doc = "a body repeated up to a count, while a condition holds",
    .operands = "trips? condition? carried*",
    .results = "y*",
    .arity = -1,
    .nres = 1,
    .range = RANGE_loop,
    .flags = OPF_CONTROL | OPF_HOST,
    OP_ATTRS(loop),
    .infer = infer_loop,
    .eval = eval_loop,
    .cost = no_cost,
};
const OpInfo op_scan = {
    .name = "scan",
    .doc = "a body along an axis of its inputs, with states carried on",
    .operands = "x*",
    .results = "y*",
    .arity = -1,
    .nres = 1,
    .range = RANGE_loop,
    .flags = OPF_CONTROL | OPF_HOST,
    OP_ATTRS(scan),
    .infer = infer_scan,
    .eval = eval_scan,
    .cost = no_cost,
};
const OpInfo op_sequence_map = {
    .name = "sequence_map",
    .doc = "a body for each element of a sequence",
    .operands = "sequence x*",
    .results = "y*",
    .arity = -1,
    .nres = 1,
    .range = RANGE_loop,
    .flags = OPF_CONTROL | OPF_HOST,
    OP_ATTRS(sequence_map),
    .infer = infer_sequence_map,
    .eval = eval_sequence_map,
    .cost = no_cost,
};
