// aten.h -- ATen operators as graphs: one table for everything that comes from PyTorch.
//
// A row is an operator's schema, as PyTorch writes it, and a function that builds it.  Whoever
// calls (torch.export's programs, TorchScript, a bridge inside of PyTorch) brings values by
// position and by keyword; they are bound by the schema, defaults filled in.  Values are tensors
// (nodes of the graph), numbers that are known while reading or are nodes of rank 0, strings,
// lists.  Errors are the graph's own, sticky.
#ifndef TENON_FRONTENDS_PYTORCH_ATEN_H
#define TENON_FRONTENDS_PYTORCH_ATEN_H

#include "frontends/common/frontend.h"

typedef enum {
  AV_NONE,
  AV_TENSOR,
  AV_INT,    // `node`, i64 of rank 0, where it is not known while reading
  AV_FLOAT,  // likewise, f64
  AV_BOOL,   // likewise
  AV_STR,
  AV_LIST,
  AV_TUPLE,
  AV_DICT,    // items: key, value, ...
  AV_OBJECT,  // an instance of a class of the program's own (TorchScript)
  AV_FUNCTION
} AvKind;

typedef struct AtenValue AtenValue;
typedef struct AtenList {
  VEC(AtenValue) v;
} AtenList;
// What a name stands for when it stands for a tensor: in-place operators put another node in.  A
// view is built anew when the tensor whose elements it shares changes, and changes that in turn
// (aten_view.c).
typedef struct AtenBox AtenBox;
struct AtenBox {
  Node *node;
  AtenBox *base;                // that it is a view of; NULL: its elements are its own
  const struct AtenSchema *by;  // how it is made of the base: the call,
  AtenValue *args;
  bool unsure;   // it may be a copy
  bool complex;  // the node's last axis holds both parts (aten_complex.c)
  int64_t item;  // and which of its results, where they are several
  VEC(AtenBox *)
  views;  // of a tensor with elements of its own: in the order in which they were made
};
struct AtenValue {
  AvKind kind;
  AtenBox *box;  // AV_TENSOR
  Node *node;    // a number that is not known
  int64_t i;     // AV_INT, AV_BOOL
  double f;      // AV_FLOAT
  Str s;
  AtenList *list;  // shared: TorchScript's lists can be changed
  void *object;
};

typedef struct AtenCall AtenCall;
typedef void AtenFn(AtenCall *c);
typedef struct AtenRow {
  const char *schema;  // without "aten::"
  AtenFn *fn;          // NULL: refused
  int op;              // for functions that build several
  const char *why;     // of a refused one
} AtenRow;
typedef struct AtenTable {
  const AtenRow *row;
  int64_t n;
} AtenTable;
extern const AtenTable *const aten_tables[];  // NULL-terminated

typedef enum { AT_TENSOR, AT_SCALAR, AT_INT, AT_FLOAT, AT_BOOL, AT_STR, AT_OTHER } AtenTypeKind;
typedef struct AtenArg {
  Str name, dflt;  // dflt: as written; empty: none
  AtenTypeKind type;
  bool list, optional, optional_items, keyword, has_default;
} AtenArg;
typedef struct AtenSchema {
  const AtenRow *row;
  Str name, overload;
  AtenArg *arg;
  int nargs;
  bool view;  // the result shares its operand's elements
  bool in_place;
  struct AtenSchema *next;  // the next overload
} AtenSchema;

// The table, parsed: made once for an import.
typedef struct Aten {
  Graph *g;
  Arena *arena;
  Imported *in;
  StrMap by_name;  // -> the first overload
} Aten;
void aten_init(Aten *a, Imported *in);
const AtenSchema *aten_find(const Aten *a, Str name, Str overload);  // "" or "default": without one
const AtenSchema *aten_overloads(const Aten *a, Str name);

struct AtenCall {
  Aten *a;
  Graph *g;
  const AtenSchema *schema;
  AtenValue *arg;
  AtenValue out;
  Where at;
};
typedef struct AtenKeyword {
  Str name;
  AtenValue value;
} AtenKeyword;
// Binds values to a schema; false: they do not fit.  `strict`: no conversions between numbers.
bool aten_bind(const AtenSchema *s, Arena *arena, const AtenValue *pos, int npos,
               const AtenKeyword *kw, int nkw, bool strict, AtenValue *out);
// Builds; the result is in *out.  Failures are the graph's.
void aten_build(Aten *a, const AtenSchema *s, AtenValue *args, Where at, AtenValue *out);

// An operator whose name ends in an underscore: the same without it, whose result then takes the
// first operand's place.
const AtenSchema *aten_find_changing(const Aten *a, Str name, Str overload);
// Remembers that what a call gave shares its first operand's elements.
void aten_link(Aten *a, const AtenSchema *s, const AtenValue *args, const AtenValue *out);
// A tensor of a file, or what the caller attaches by its name.
AtenValue aten_weight(Aten *a, const Weight *w, Str name, Where at);
// What builds it of complex operands; NULL: nothing does.
AtenFn *aten_complex_fn(const AtenSchema *s);
AtenBox *aten_root(AtenBox *box);  // the tensor whose elements it has
void aten_change(Aten *a, const AtenValue *operand, const AtenValue *result, Where at);

// ---- values ----
AtenValue av_tensor(Arena *a, Node *n);
AtenValue
av_unknown(void);  // an AV_NONE that stands for what was not computed: who uses it gets an error
bool av_is_unknown(const AtenValue *v);
AtenValue av_complex(Arena *a, Node *n);  // n: [..., 2]
bool av_is_complex(const AtenValue *v);   // or a list with such
AtenValue av_int(int64_t i);
AtenValue av_float(double f);
AtenValue av_bool(bool b);
AtenValue av_str(Str s);
AtenValue av_list(Arena *a, AvKind kind);
void av_push(Arena *a, AtenValue *list, AtenValue v);
// A number that a node of rank 0 gives: known where its contents are.
AtenValue av_number(Graph *g, Node *n, AvKind kind);
static inline bool av_is_number(const AtenValue *v) {
  return v->kind == AV_INT || v->kind == AV_FLOAT || v->kind == AV_BOOL;
}
static inline bool av_is_known(const AtenValue *v) { return av_is_number(v) && !v->node; }
static inline double av_f64(const AtenValue *v) {
  return v->kind == AV_FLOAT ? v->f : (double)v->i;
}
// Any value as a tensor of this type (0: its own): numbers have rank 0.
Node *av_node(Graph *g, const AtenValue *v, DType t);
DType av_dtype(const AtenValue *v);  // what a tensor of the value has
DType aten_promote(const AtenValue *v, int n);
// a op b of numbers, known or not, as Python computes it: op is one of + - * / % // (as 'f'), power
// ('p'), and so on.
AtenValue aten_number_op(Aten *a, char op, const AtenValue *x, const AtenValue *y, Where at);
AtenValue aten_compare(Aten *a, const char *op, const AtenValue *x, const AtenValue *y);
AtenValue aten_size(Aten *a, Node *x, int64_t axis);

// ---- for rows ----
void at_fail(AtenCall *c, const char *fmt, ...) PRINTF(2, 3);
static inline const AtenValue *at_arg(const AtenCall *c, int i) { return &c->arg[i]; }
static inline bool at_none(const AtenCall *c, int i) { return c->arg[i].kind == AV_NONE; }
Node *at_tensor(AtenCall *c, int i);      // poison, after an error, where it is none
Node *at_tensor_opt(AtenCall *c, int i);  // NULL where absent
int64_t at_int(AtenCall *c, int i);
double at_f64(AtenCall *c, int i);
bool at_bool(AtenCall *c, int i);
Ints at_ints(AtenCall *c, int i);    // known while reading
Node *at_shape(AtenCall *c, int i);  // a list of sizes as i64[n]
DType at_dtype(AtenCall *c, int i, DType dflt);
int at_rank(AtenCall *c, const Node *x);  // 0 after an error
int64_t at_axis(AtenCall *c, int i, int rank);
Ints at_axes(AtenCall *c, int i, int rank);                  // all of them where absent or empty
int64_t at_known_dim(AtenCall *c, const Node *x, int axis);  // -1 after an error
// A list of `n`, from one number or n of them.
Ints at_spread(AtenCall *c, int i, int n, int64_t dflt);
void at_give(AtenCall *c, Node *n);
void at_give_all(AtenCall *c, int n, Node *const *v);   // a tuple
void at_give_list(AtenCall *c, int n, Node *const *v);  // a list
int at_choice(int op, const char *attr, const char *word);

// ---- constructions ----
Node *bt_cast(Graph *g, Node *x, DType t);
Node *bt_num(Graph *g, const Node *like, double v);
Node *bt_reshape(Graph *g, Node *x, int n, const int64_t *dims);
Node *bt_reshape_to(Graph *g, Node *x, Node *shape);
Node *bt_transpose(Graph *g, Node *x, int n, const int64_t *perm);
Node *bt_swap(Graph *g, Node *x, int rank, int a, int b);
Node *bt_slice(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end);
Node *bt_concat(Graph *g, int64_t axis, int n, Node *const *x);
Node *bt_unsqueeze(Graph *g, Node *x, int64_t axis);
Node *bt_squeeze(Graph *g, Node *x, int64_t axis);
Node *bt_dims(Graph *g, Node *x, int from, int to);  // sizes from..to-1 as i64[n]
Node *bt_reduce(Graph *g, int op, Node *x, Ints axes, bool keep);
Node *bt_full(Graph *g, Node *shape, DType t, double v);
Node *bt_vector(Graph *g, DType t, int64_t n, double v);  // n times v

#define ATEN_TABLE(name) const AtenTable aten_##name = {rows, ARRAY_LEN(rows)}
extern const AtenTable aten_elementwise, aten_reduce, aten_shape, aten_index, aten_make, aten_nn,
    aten_pool, aten_rnn, aten_pad, aten_norm, aten_window, aten_search, aten_complex, aten_fft,
    aten_quant;

void aten_list(FrontendOpFn *fn, void *ctx);

#endif
