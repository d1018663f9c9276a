// import_complex.c -- spectra: complex tensors, which the graph has as pairs of floats along a further, last axis.
//
// Only the operators here, and RESHAPE, know of the further axis; all others refuse complex values (tfl_complex_fits).
#include "eval/signal.h"
#include "frontends/tflite/import.h"

enum { LONGEST = 1 << 24 };

bool tfl_is_complex(const TflTensor *t) { return t && (t->dtype == DT_C64 || t->dtype == DT_C128); }

bool tfl_complex_fits(TflOp *op) {
  static const uint8_t knows[] = {22, 131, 133, 134, 135};
  bool complex = false, known = false;
  for (int i = 0; i < op->nin; i++) complex = complex || tfl_is_complex(tfl_in_tensor(op, i));
  for (int i = 0; i < op->nout; i++) complex = complex || tfl_is_complex(tfl_out_tensor(op, i));
  for (int64_t i = 0; i < ARRAY_LEN(knows); i++) known = known || knows[i] == op->row->code;
  if (complex && !known) tfl_fail(op, "of complex values");
  return !complex || known;
}

// The axis cut, or filled up with zeros, to `want`.
static Node *fitted(TflOp *op, Node *x, int rank, int axis, int64_t want) {
  Graph *g = op->g;
  int64_t have = tfl_size(op, x, axis), pads[2 * MAX_RANK] = {0};
  if (g->status || have == want) return x;
  if (have > want) return tb_slice(g, x, axis, 0, want);
  pads[rank + axis] = want - have;
  return N(g, pad, x, node_i64s(g, 2 * (int64_t)rank, pads), tb_num(g, x, 0));
}

static Node *transformed(Graph *g, Node *x, int axis, bool real) {
  dft_attrs at = {.onesided = real};
  Node *src[] = {x, g->none, node_i64(g, axis)};
  return node_new(g, OP_dft, 3, src, &at, 0, NULL);
}

static void rfft_2d(TflOp *op) {  // (x, lengths of the last two axes)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  Ints n = tfl_need_ints(op, 1, "the lengths");
  if (!g->status && (rank < 2 || rank + 1 > MAX_RANK || n.n != 2))
    tfl_fail(op, "of rank %d, with %lld lengths", rank, (long long)n.n);
  for (int i = 0; i < 2 && !g->status; i++)
    if (n.v[i] < 1 || n.v[i] > LONGEST) tfl_fail(op, "of length %lld", (long long)n.v[i]);
  for (int i = 0; i < 2 && !g->status; i++) x = fitted(op, x, rank, rank - 2 + i, n.v[i]);
  if (g->status) return;
  Node *y = transformed(g, tb_unsqueeze(g, x, rank), rank - 1, true);
  tfl_give(op, 0, n.v[0] > 1 ? transformed(g, y, rank - 2, false) : y);
}

// One half of the pairs; the operand must be complex.
static Node *part(TflOp *op, int64_t i) {
  Node *x = tfl_in(op, 0);
  if (!tfl_need(op, 1, 1)) return op->g->poison;
  if (!tfl_is_complex(tfl_in_tensor(op, 0))) return tfl_fail(op, "of values that are not complex");
  int last = tfl_rank(op, x) - 1;
  return tb_squeeze(op->g, tb_slice(op->g, x, last, i, i + 1), last);
}
static void part_row(TflOp *op) { tfl_give(op, 0, part(op, op->row->arg)); }
static void magnitude(TflOp *op) {
  Graph *g = op->g;
  Node *re = part(op, 0), *im = part(op, 1);
  tfl_give(op, 0, N(g, sqrt, N(g, add, N(g, mul, re, re), N(g, mul, im, im))));
}

static const TflRow rows[] = {
    // clang-format off
    {131, "RFFT2D",      rfft_2d,   1, 0},
    {133, "IMAG",        part_row,  1, 1},
    {134, "REAL",        part_row,  1, 0},
    {135, "COMPLEX_ABS", magnitude, 1, 0},
    // clang-format on
};
TFL_TABLE(complex);
