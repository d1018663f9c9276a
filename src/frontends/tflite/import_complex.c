// import_complex.c -- complex tensors, which the graph has as pairs of floats along a further, last
// axis.
//
// What: RFFT2D and the operators that separate real and imaginary parts know of the further axis.
// Operators that move elements, or are linear in them, are imported twice, over the real and over
// the imaginary parts, and their results are paired again (tfl_import_parts).
// Guarantees: every other operator refuses complex values (tfl_complex_fits), so none reads the
//             further axis as one of its own.
#include "eval/signal.h"
#include "frontends/tflite/import.h"

enum { LONGEST = 1 << 24 };

bool tfl_is_complex(const TflTensor *t) { return t && (t->dtype == DT_C64 || t->dtype == DT_C128); }

static bool has_code(const uint8_t *codes, int64_t n, int code) {
  for (int64_t i = 0; i < n; i++)
    if (codes[i] == code) return true;
  return false;
}

static bool by_parts(const TflOp *op) {
  static const uint8_t codes[] = {
      0,    // ADD
      2,    // CONCATENATION
      22,   // RESHAPE
      34,   // PAD
      36,   // GATHER
      39,   // TRANSPOSE
      41,   // SUB
      43,   // SQUEEZE
      45,   // STRIDED_SLICE
      49,   // SPLIT
      59,   // NEG
      65,   // SLICE
      69,   // TILE
      70,   // EXPAND_DIMS
      83,   // PACK
      88,   // UNPACK
      102,  // SPLIT_V
      105,  // REVERSE_V2
      107,  // GATHER_ND
      130,  // BROADCAST_TO
  };
  return has_code(codes, ARRAY_LEN(codes), op->row->code);
}

TflComplex tfl_complex_fits(TflOp *op) {
  static const uint8_t knows[] = {53, 131, 133, 134, 135};
  bool complex = false;
  for (int i = 0; i < op->nin; i++) complex = complex || tfl_is_complex(tfl_in_tensor(op, i));
  for (int i = 0; i < op->nout; i++) complex = complex || tfl_is_complex(tfl_out_tensor(op, i));
  if (!complex || has_code(knows, ARRAY_LEN(knows), op->row->code)) return TFL_COMPLEX_PLAIN;
  if (by_parts(op)) return TFL_COMPLEX_PARTS;
  tfl_fail(op, "of complex values");
  return TFL_COMPLEX_NONE;
}

// ---- operators over the parts ----

static Node *part_of(TflOp *op, Node *x, int64_t i) {
  int last = tfl_rank(op, x) - 1;
  return tb_squeeze(op->g, tb_slice(op->g, x, last, i, i + 1), last);
}

static Node **slot_of(TflOp *op, const TflTensor *t) {
  return &op->scope->value[t - op->scope->sub->tensor];
}

void tfl_import_parts(TflOp *op, TflFn *fn) {
  Graph *g = op->g;
  Node **whole = arena_array(&g->arena, Node *, op->nin),
       **re = arena_array(&g->arena, Node *, op->nout);
  for (int i = 0; i < op->nin; i++)
    if (tfl_is_complex(tfl_in_tensor(op, i))) whole[i] = tfl_in(op, i);
  for (int half = 0; half < 2 && !g->status; half++) {
    for (int i = 0; i < op->nin; i++)
      if (whole[i]) *slot_of(op, tfl_in_tensor(op, i)) = part_of(op, whole[i], half);
    fn(op);
    for (int i = 0; i < op->nout && !g->status; i++) {
      Node **out = slot_of(op, tfl_out_tensor(op, i)), *y = *out;
      if (!y) continue;
      int rank = tfl_rank(op, y);
      if (half == 0) {
        re[i] = y;
        *out = NULL;
      } else {
        *out = tb_concat(g, rank, 2,
                         (Node *[]){tb_unsqueeze(g, re[i], rank), tb_unsqueeze(g, y, rank)});
      }
    }
  }
  for (int i = 0; i < op->nin; i++)
    if (whole[i]) *slot_of(op, tfl_in_tensor(op, i)) = whole[i];
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
  return part_of(op, x, i);
}
// From complex values the real part stays; to complex values the imaginary part is 0.
Node *tfl_cast_complex(TflOp *op) {
  Graph *g = op->g;
  const TflTensor *from = tfl_in_tensor(op, 0), *to = tfl_out_tensor(op, 0);
  DType part_type = to->dtype == DT_C128 ? DT_F64 : DT_F32;
  Node *x = tfl_in(op, 0);
  if (!tfl_is_complex(to)) return tb_cast(g, part(op, 0), to->dtype);
  x = tb_cast(g, x, part_type);
  if (tfl_is_complex(from)) return x;
  int rank = tfl_rank(op, x);
  Node *re = tb_unsqueeze(g, x, rank);
  return tb_concat(g, rank, 2,
                   (Node *[]){re, tb_full(g, tb_dims(g, re, 0, rank + 1), part_type, 0)});
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
