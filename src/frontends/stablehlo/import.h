// import.h -- from a StableHLO module to the graph: what the files of rows share.
//
// An operation finds its row by name; the row's function gives its results from its operands, in
// ordinary ops of the graph.  A complex value is two real nodes, so that every target computes it;
// a quantised value is the node of its storage, and rows that do not ask for it see the expressed
// floats instead.  Tokens are values without a node.
//
// The body of a reduction, scatter or sort works on scalars.  It is imported over whole tensors at
// once (`lift`): a scalar's operation means the same for each element, so a reduction of n elements
// is a tree of log n such bodies.
#ifndef TENON_FRONTENDS_STABLEHLO_IMPORT_H
#define TENON_FRONTENDS_STABLEHLO_IMPORT_H

#include "frontends/common/frontend.h"
#include "frontends/stablehlo/mlir.h"

typedef struct HloValue HloValue;
struct HloValue {
  Node *re, *im;  // im: NULL unless complex
  const MlirType *type;
  HloValue *part;  // of tuples
  int64_t nparts;
};

// ---- checks: a program of a test suite compares its own results ----
typedef enum { HLO_EQ, HLO_ALMOST, HLO_CLOSE } HloCheckKind;
typedef struct HloCheck {
  HloCheckKind kind;
  int line;
  int64_t first;  // the graph's outputs first ..: actual re [im], expected re [im]
  bool complex;
  double tolerance;          // HLO_ALMOST: absolute
  int64_t min_ulp, max_ulp;  // HLO_CLOSE
} HloCheck;
// What a test's program is given: constants that are inputs of its graph, so that it is computed
// and not folded.
typedef struct HloGiven {
  DType dtype;
  int rank;
  int64_t dims[MAX_RANK];
  const void *data;
} HloGiven;
typedef struct HloTest {
  VEC(HloCheck) check;
  VEC(HloGiven) given;
  VEC(Node *) params;
  VEC(Node *) outputs;
} HloTest;

typedef struct Hlo {
  Imported *in;
  Graph *g;
  Arena *arena;
  const MlirModule *m;
  HloValue *value;     // by id
  HloTest *test;       // NULL: not a test
  int lift;            // bodies on scalars that are being imported over tensors
  int inside;          // bodies of control flow
  int depth;           // of calls
  int64_t nops;        // imported so far
  const char **names;  // of the arguments' sizes, MAX_RANK each; NULL: not said
  bool sized;          // the function has operations whose sizes are data: constants stay constants
} Hlo;

typedef struct HloCall HloCall;
typedef void HloFn(HloCall *c);
typedef enum {
  HLO_PLAIN,  // computes in the expressed type of quantised operands
  HLO_MOVES,  // moves elements, whatever they are
  HLO_OWN     // knows quantised types itself
} HloKind;
typedef struct HloRow {
  const char *name;
  HloFn *fn;
  int op;  // for functions that build several
  HloKind kind;
  const char *notes;
} HloRow;
typedef struct HloTable {
  const HloRow *row;
  int64_t n;
} HloTable;
extern const HloTable *const hlo_tables[];  // NULL-terminated

struct HloCall {
  Hlo *h;
  Graph *g;
  const MlirOp *op;
  const HloRow *row;
  int64_t nin, nout;
  HloValue *in, *out;
  const MlirType *const *type;  // of the results
};

// Of a file: its first module's main function.
MUST_USE tenon_status import_stablehlo(Imported *in, const MlirFile *f, Diag *d);
// One function of a test's module: the outputs are those of its checks.
MUST_USE tenon_status import_stablehlo_test(Imported *in, const MlirModule *m, const MlirFunc *f,
                                            HloTest *test, Diag *d);
bool hlo_has_checks(const MlirFunc *f);
// The reader's row in the table of frontends: reads the file, then imports it.
MUST_USE tenon_status hlo_import_frontend(Imported *in, Diag *d);
void hlo_ops(FrontendOpFn *fn, void *ctx);

// ---- for rows ----
// Unsupported, or wrong: the operation's name and place come in front.
void hlo_refuse(HloCall *c, const char *fmt, ...) PRINTF(2, 3);
void hlo_fail(HloCall *c, const char *fmt, ...) PRINTF(2, 3);
Node *hlo_in(HloCall *c, int64_t i);  // a real tensor; poison after an error
Ints hlo_ints(HloCall *c, const char *attr);
Ints hlo_field_ints(HloCall *c, const MlirAttr *dict, const char *field);
// `n` numbers, `otherwise` each where absent.
Ints hlo_ints_or(HloCall *c, const char *attr, int64_t n, int64_t otherwise);
void hlo_give(HloCall *c, Node *x);
void hlo_give_value(HloCall *c, int64_t i, HloValue v);
DType hlo_dtype(HloCall *c, const MlirType *t);  // of one part of a complex type; 0 after an error
// Sizes of an operand; false, after an error, where they are not all known.
bool hlo_static(HloCall *c, const HloValue *v, int64_t *dims);
bool hlo_static_type(HloCall *c, const MlirType *t, int64_t *dims);
static inline int hlo_rank(const HloValue *v) { return v->re ? type_of(v->re)->rank : 0; }
// A block's operations, its arguments bound; the terminator's operands are the results.
bool hlo_block(Hlo *h, const MlirBlock *b, const HloValue *args, int64_t nargs, HloValue *out,
               int64_t nout);
// The region of an op over tensors, element by element.
bool hlo_lifted(HloCall *c, int64_t region, const HloValue *args, int64_t nargs, HloValue *out,
                int64_t nout);
// The one operation of a body on two scalars whose operands are its arguments: its name; NULL:
// another body.
const char *hlo_body_op(const MlirOp *op, int64_t region);
bool hlo_call_func(Hlo *h, const MlirFunc *f, const HloValue *args, int64_t nargs, HloValue *out,
                   int64_t nout, Where at);
void hlo_check(HloCall *c, HloCheckKind kind, const HloValue *got, const HloValue *want,
               double tolerance, int64_t min_ulp, int64_t max_ulp);
HloValue hlo_const(HloCall *c, const MlirAttr *dense);
// A custom call by which jax writes windows whose sizes are operands (import_window.c).
void hlo_dynamic_reduce_window(HloCall *c);
// Looks up what the sizes of a function's arguments are called (import_names.c).
void hlo_name_sizes(Hlo *h, const MlirFunc *f);

// ---- sizes (import_size.c) ---- A size is a number where it is known, else a node that gives it
// when the program runs: rows that take both make the same graph of numbers as if there were
// nothing else.
typedef struct HloSize {
  int64_t n;   // where node is NULL
  Node *node;  // a scalar, i64
  Dim dim;     // of a node, where inference can say it
} HloSize;
HloSize hs_num(int64_t n);
HloSize hs_of(Graph *g, Node *x, int axis);                  // one of x's
int hs_all(HloCall *c, const HloValue *v, HloSize *out);     // all of them; gives the rank
bool hs_read(HloCall *c, Node *x, HloSize *out, int64_t n);  // the n elements of a vector
static inline bool hs_is(HloSize s, int64_t n) { return !s.node && s.n == n; }
bool hs_same(HloSize a, HloSize b);  // for certain
HloSize hs_mul(Graph *g, HloSize a, HloSize b);
HloSize hs_sub(Graph *g, HloSize a, HloSize b);
HloSize hs_max(Graph *g, HloSize a, int64_t least);
Node *hs_node(Graph *g, HloSize s);                  // a scalar, i64
Node *hs_vector(Graph *g, int n, const HloSize *s);  // i64[n]
Node *hs_reshape(Graph *g, Node *x, int n, const HloSize *dims);
Node *hs_expand(Graph *g, Node *x, int n, const HloSize *dims);
Node *hs_iota(Graph *g, DType t, int n, const HloSize *dims, int64_t axis);

// ---- constructions ----
Node *hb_num(Graph *g, const Node *like, double v);  // a scalar of that node's type
Node *hb_u64(Graph *g, DType t, uint64_t v);         // of an integer type
Node *hb_cast(Graph *g, Node *x, DType t);
Node *hb_bits(Graph *g, Node *x, DType t);
Node *hb_reshape(Graph *g, Node *x, int n, const int64_t *dims);
Node *hb_transpose(Graph *g, Node *x, int n, const int64_t *perm);
Node *hb_slice(Graph *g, Node *x, int n, const int64_t *begin, const int64_t *end,
               const int64_t *step);
Node *hb_slice1(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end, int64_t step);
Node *hb_concat(Graph *g, int64_t axis, int n, Node *const *x);
Node *hb_expand(Graph *g, Node *x, int n, const int64_t *dims);
// Low, high, interior as StableHLO's pad has them.
Node *hb_pad(Graph *g, Node *x, Node *value, int n, const int64_t *low, const int64_t *high,
             const int64_t *interior);
Node *hb_reverse(Graph *g, Node *x, Ints axes);
Node *hb_iota(Graph *g, DType t, int n, const int64_t *dims, int64_t axis);
Node *hb_reduce(Graph *g, int op, Node *x, Ints axes);  // without the axes
Node *hb_dot(Graph *g, Node *a, Node *b, Ints ba, Ints bb, Ints ca, Ints cb, DType t);
Node *hb_zeros(Graph *g, Node *x);  // of its type and shape
Node *hb_where(Graph *g, Node *c, Node *x, Node *y);
Node *hb_node(Graph *g, int op, int n, Node *const *src);

// The same movement of both parts.
typedef Node *HloMove(HloCall *c, Node *x, void *ctx);
HloValue hlo_moved(HloCall *c, const HloValue *v, HloMove *f, void *ctx);

// ---- complex arithmetic (import_complex.c) ----
typedef struct Cx {
  Node *re, *im;
} Cx;
Cx cx_of(Graph *g, const HloValue *v);
Cx cx_add(Graph *g, Cx a, Cx b);
Cx cx_sub(Graph *g, Cx a, Cx b);
Cx cx_mul(Graph *g, Cx a, Cx b);
Cx cx_div(Graph *g, Cx a, Cx b);
Cx cx_pow(Graph *g, Cx z, Cx w);
Cx cx_atan2(Graph *g, Cx y, Cx x);
bool hlo_complex_unary(HloCall *c, const char *name);  // false: there is none

// ---- products (import_contract.c) ----
// Of complex tensors from those of their parts.
typedef Node *HloProduct(HloCall *c, Node *a, Node *b, void *ctx);
HloValue hlo_product(HloCall *c, const HloValue *a, const HloValue *b, HloProduct *f, void *ctx);
typedef struct HloDotAxes {
  Ints ba, bb, ca, cb;  // batch and contracted axes of both sides
  DType t;              // of the result
} HloDotAxes;
Node *hlo_dot_of(HloCall *c, Node *a, Node *b, void *axes);

// ---- real functions that are composed (import_real.c) ----
Node *hr_function(Graph *g, const char *name, Node *x);  // NULL: there is none
Node *hr_special(Graph *g, const char *name, Node *x);   // likewise (import_special.c)
Node *hr_atan2(Graph *g, Node *y, Node *x);
Node *hr_hypot(Graph *g, Node *x, Node *y);
Node *hr_is_negative(Graph *g, Node *x);  // the sign bit, of zero as well

// ---- quantised values (import_quant.c) ----
Node *hq_dequantize(HloCall *c, const HloValue *v);
Node *hq_quantize(HloCall *c, Node *x, const MlirType *t);

extern const HloTable hlo_scalar, hlo_move, hlo_index, hlo_reduce, hlo_window, hlo_contract,
    hlo_control, hlo_quant, hlo_ragged, hlo_chlo, hlo_random, hlo_sort;
#define HLO_TABLE(name) const HloTable name = {rows, ARRAY_LEN(rows)}

#endif
