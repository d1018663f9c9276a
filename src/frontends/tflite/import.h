// import.h -- operators of TensorFlow Lite as graphs: one table row a builtin operator.
//
// A row has a function for plain values (floats, bools, indices), which also moves quantised ones;
// operators that compute with quantised values have another one for these (tfl_quantized).  Values
// keep the file's dtype: a quantised tensor is a tensor of its integers.  Functions read operands
// and options through the helpers below and give their results with tfl_give; errors are the
// graph's own, sticky.
#ifndef TENON_FRONTENDS_TFLITE_IMPORT_H
#define TENON_FRONTENDS_TFLITE_IMPORT_H

#include "frontends/tflite/tflite.h"

typedef struct TflOp TflOp;
typedef void TflFn(TflOp *op);
typedef struct TflRow {
  int code;
  const char *name;  // as the schema spells it
  TflFn *fn;         // NULL: only quantised values
  int version;       // the newest that is read
  int arg;           // for functions of several rows: an op of the graph, or a choice; of custom
                     // operators TFL_TAKES_QUANTIZED or 0
} TflRow;
enum { TFL_TAKES_QUANTIZED = 1 };
typedef struct TflTable {
  const TflRow *row;
  int64_t n;
} TflTable;
extern const TflTable *const tfl_tables[];   // NULL-terminated
const TflRow *tfl_row(const TflCode *code);  // a builtin operator by its number, a custom one by
                                             // its name; NULL: there is none
TflFn *tfl_quantized(int64_t code);          // NULL: there is none
void tfl_list(FrontendOpFn *fn, void *ctx);
#define TFL_TABLE(name) const TflTable tfl_##name = {rows, ARRAY_LEN(rows)}

// A sub-graph being imported: a node for each tensor that has one.
typedef struct TflScope {
  const TflSubgraph *sub;
  Node **value;
  bool inside;                   // of a condition or a loop: states are out of reach
  const struct TflScope *outer;  // where it is called from
} TflScope;
// A value that calls keep: a variable tensor of the main sub-graph, or a resource variable.
typedef struct TflState {
  const char *name;
  const TflTensor *tensor;  // NULL: a resource
  Node *value;              // now; NULL: a resource that nothing has set
  bool changed;
} TflState;
typedef struct TflImport {
  Imported *in;
  Graph *g;
  TflModel m;
  TflSignature signature;
  VEC(TflState) states;
  VEC(Node *) params;
  StrMap input_names;
  int starting;  // calls of initialisers that are being imported
  int64_t work;  // operators imported so far: sub-graphs are imported at each call
  enum {
    ROUNDS_UNKNOWN,
    ROUNDS_ONCE,
    ROUNDS_TWICE
  } rounding;           // of matrix products (import_q_product.c)
  int64_t table_bytes;  // of functions of quantised values, so far
} TflImport;

struct TflOp {
  TflImport *im;
  Graph *g;
  TflScope *scope;
  const TflOperator *o;
  const TflCode *code;
  const TflRow *row;
  int nin, nout;
  Where at;
};

// ---- operands and results ----
Node *tfl_fail(TflOp *op, const char *fmt, ...) PRINTF(2, 3);  // poison
bool tfl_need(TflOp *op, int least_in, int least_out);         // false: failed
const TflTensor *tfl_in_tensor(const TflOp *op, int i);        // NULL where absent
const TflTensor *tfl_out_tensor(const TflOp *op, int i);
Node *tfl_in(TflOp *op, int i);      // poison, after an error, where it is absent
Node *tfl_in_opt(TflOp *op, int i);  // NULL where absent
Node *tfl_in_i64(TflOp *op, int i);  // integers, widened
void tfl_give(TflOp *op, int i, Node *n);
// A variable operand's next value.
void tfl_set_state(TflOp *op, int i, Node *n);
int tfl_rank(TflOp *op, const Node *x);                  // 0 after an error
int64_t tfl_size(TflOp *op, const Node *x, int axis);    // known while reading; -1 after an error
bool tfl_ints(TflOp *op, int i, Ints *out);              // contents known; false: not (no error)
Ints tfl_need_ints(TflOp *op, int i, const char *what);  // an error where they are not
int64_t tfl_axis(TflOp *op, int64_t axis, int rank);     // 0..rank-1; 0 after an error

// ---- options, by field number ----
int64_t tfl_opt_i8(const TflOp *op, int field, int64_t dflt);
int64_t tfl_opt_i32(const TflOp *op, int field, int64_t dflt);
bool tfl_opt_bool(const TflOp *op, int field, bool dflt);
double tfl_opt_f32(const TflOp *op, int field, double dflt);

// ---- options of custom operators: a FlexBuffer's numbers, by key ----
int64_t tfl_flex_int(TflOp *op, const char *key, int64_t dflt);  // cut to an integer
double tfl_flex_float(TflOp *op, const char *key, double dflt);  // rounded to a float

// ---- fused activations, padding ----
enum { ACT_NONE, ACT_RELU, ACT_RELU_N1_TO_1, ACT_RELU6, ACT_TANH, ACT_SIGN_BIT };
Node *tfl_activate(TflOp *op, Node *x, int64_t activation);
int tfl_auto_pad(TflOp *op, int64_t padding);  // of the graph's convolutions and pools

// ---- transposed convolutions ----
typedef struct TflTransposed {
  Node *x, *w, *bias;  // [N, spatial..., C], [C, out, taps...], NULL: none
  int spatial;
  int64_t *strides;
  const int64_t *out;  // spatial sizes of the result
  bool same;           // padding SAME, else VALID
} TflTransposed;
Node *tfl_transposed(TflOp *op, const TflTransposed *t);  // [N, spatial..., out]

// ---- sub-graphs ----
// Imports sub-graph `index` over values; results into `out`, as many as it has.  False: failed.
bool tfl_call(TflOp *op, int64_t index, bool inside, int64_t nargs, Node *const *args, Node **out,
              int64_t nout);
const TflSubgraph *tfl_subgraph(TflOp *op, int64_t index);  // NULL: failed

// ---- complex values: pairs of floats along a further axis ----
bool tfl_is_complex(const TflTensor *t);  // NULL: no
typedef enum TflComplex {
  TFL_COMPLEX_NONE,   // after an error: the operator takes no complex values
  TFL_COMPLEX_PLAIN,  // it has none, or knows of pairs
  TFL_COMPLEX_PARTS,  // the same for real and imaginary parts
} TflComplex;
TflComplex tfl_complex_fits(TflOp *op);
void tfl_import_parts(TflOp *op, TflFn *fn);
Node *tfl_cast_complex(TflOp *op);  // CAST from or to complex values

// ---- resources ----
int64_t tfl_state(TflImport *im, Str name);  // a resource's number; made where it is not there
// What a state begins with: an input where the caller says so, else `dflt`.
Node *tfl_first_value(TflImport *im, const char *name, Node *dflt);

// ---- constructions ----
Node *tb_cast(Graph *g, Node *x, DType t);
Node *tb_num(Graph *g, const Node *like, double v);  // rank 0, of its dtype
Node *tb_reshape(Graph *g, Node *x, int n, const int64_t *dims);
Node *tb_transpose(Graph *g, Node *x, int n, const int64_t *perm);
Node *tb_slice(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end);
Node *tb_concat(Graph *g, int64_t axis, int n, Node *const *x);
Node *tb_unsqueeze(Graph *g, Node *x, int64_t axis);
Node *tb_squeeze(Graph *g, Node *x, int64_t axis);
Node *tb_dims(Graph *g, Node *x, int from, int to);  // sizes from..to-1 as i64[n]
Node *tb_reduce(Graph *g, int op, Node *x, Ints axes, bool keep);
Node *tb_full(Graph *g, Node *shape, DType t, double v);
Node *tb_nchw(Graph *g, Node *x, int rank);  // [N, spatial..., C] to [N, C, spatial...]
Node *tb_nhwc(Graph *g, Node *x, int rank);  // and back
Node *tb_vector(Graph *g, DType t, int64_t n, const double *v);

// ---- constants ----
// A tensor's contents as a constant, made dense where they are sparse; NULL: it is none.
Node *tfl_const(TflImport *im, const TflTensor *t);
MUST_USE tenon_status tfl_densify(TflImport *im, const TflTensor *t, void *out, int64_t bytes);

extern const TflTable tfl_elementwise, tfl_reduce, tfl_shape, tfl_move, tfl_index, tfl_nn,
    tfl_control, tfl_complex, tfl_quant, tfl_recurrent, tfl_custom, tfl_audio, tfl_detection;

#endif
