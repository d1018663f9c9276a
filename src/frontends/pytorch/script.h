// script.h -- TorchScript: the serialised Python subset, its parser and its abstract interpreter.
//
// A TorchScript archive holds classes and functions as Python text and the modules' attributes as a
// pickle.  `forward` is run once over values that are nodes of the graph: calls of ATen operators
// build nodes, everything that is known (attributes, shapes, flags, lists) is computed on the
// spot.  A condition that is not known becomes an `if` of the graph, a loop whose length is not
// known a `loop`; what cannot be either is an error with the file and line of the program's text.
#ifndef TENON_FRONTENDS_PYTORCH_SCRIPT_H
#define TENON_FRONTENDS_PYTORCH_SCRIPT_H

#include "frontends/pytorch/aten.h"
#include "frontends/pytorch/pytorch.h"

// ---- text ----
typedef enum {
  PE_NONE,
  PE_BOOL,
  PE_INT,
  PE_FLOAT,
  PE_STR,
  PE_NAME,
  PE_ATTR,   // item[0].s
  PE_CALL,   // item[0](item[1..], keywords)
  PE_INDEX,  // item[0][item[1]]
  PE_LIST,
  PE_TUPLE,
  PE_DICT
} PyKind;
typedef struct PyExpr PyExpr;
typedef VEC(PyExpr *) PyExprVec;
struct PyExpr {
  PyKind kind;
  int line;
  int64_t i;
  double f;
  Str s;
  PyExprVec item;
  PyExprVec kw;  // values of keywords
  VEC(Str) kw_name;
};

typedef enum {
  PS_ASSIGN,
  PS_EXPR,
  PS_RETURN,
  PS_IF,
  PS_FOR,
  PS_WHILE,
  PS_PASS,
  PS_WITH
} PyStmtKind;
typedef struct PyStmt PyStmt;
typedef VEC(PyStmt *) PyBlock;
struct PyStmt {
  PyStmtKind kind;
  int line;
  PyExpr *target, *value;  // value: also of a return, the condition, what a loop goes over
  PyBlock body, other;
};

typedef struct PyParam {
  Str name;
  PyExpr *type, *dflt;
} PyParam;
typedef struct PyFunction {
  Str name;
  const char *file;
  int line;
  VEC(PyParam) params;
  PyExpr *returns;
  PyBlock body;
} PyFunction;
typedef struct PyClass {
  Str name;
  const char *file;
  StrMap methods;  // -> PyFunction
  StrMap finals;   // -> PyExpr: attributes with a value in the text
} PyClass;
typedef struct PyModules {
  Arena *arena;
  Diag *diag;
  StrMap classes;    // by full name: __torch__.a.B
  StrMap functions;  // by full name
  VEC(const PyFunction *) all;
  int64_t nodes;  // parsed so far: bounded
} PyModules;
// Adds what a file of code defines; `module` is the file's name with dots.
MUST_USE tenon_status py_parse(PyModules *m, Str text, Str module, const char *file);

// ---- running ----
typedef struct Binding {
  Str name;
  AtenValue value;
} Binding;
typedef struct Frame {
  VEC(Binding) v;
  const PyFunction *fn;
  bool returned;
  AtenValue result;
} Frame;
typedef struct Attribute {
  Pickled *object;
  Str name;
  AtenValue value;
  bool assigned;  // by the program
} Attribute;
typedef struct Script {
  TorchArchive *t;
  Imported *in;
  Graph *g;
  Arena *arena;
  Aten aten;
  PyModules modules;
  Pickled *root, *constants;
  VEC(Attribute) attrs;
  IntMap attr_index;  // hash of object and name -> position + 1
  IntMap nodes;       // Pickled tensor -> Node
  Frame *frame;
  int depth, dynamic;
  uint32_t mark;          // nodes from here on belong to the innermost dynamic region
  int64_t budget;         // statements that may still be run
  Where at, failed;       // the statement at hand; the innermost one that failed
  const char *origin_of;  // the file of code whose table of origins is at hand
  const Pickled *origin;  // or NULL
} Script;

// "model.py:12": where a line of code was written (script_origin.c).  NULL: the archive does not
// say.
const char *script_origin(Script *s, Where at);
const char *script_where(Script *s, Where at);  // the same, or else the line of code itself

tenon_status script_fail(Script *s, const char *fmt, ...) PRINTF(2, 3);
MUST_USE tenon_status script_block(Script *s, const PyBlock *b);
MUST_USE tenon_status script_eval(Script *s, const PyExpr *e, AtenValue *out);
MUST_USE tenon_status script_call(Script *s, const PyFunction *f, const AtenValue *args, int nargs,
                                  AtenValue *out);
MUST_USE tenon_status script_builtin(Script *s, Str name, const AtenValue *args, int nargs,
                                     const AtenKeyword *kw, int nkw, AtenValue *out);
MUST_USE tenon_status script_prim(Script *s, Str name, const AtenValue *args, int nargs,
                                  AtenValue *out);
MUST_USE tenon_status script_truth(Script *s, const AtenValue *v, AtenValue *out);  // bool(v)
MUST_USE tenon_status script_attr(Script *s, Pickled *object, Str name, AtenValue *out);
MUST_USE tenon_status script_set_attr(Script *s, Pickled *object, Str name, AtenValue v);
MUST_USE tenon_status script_value(Script *s, Pickled *p, AtenValue *out);
MUST_USE tenon_status script_assign(Script *s, const PyExpr *target, AtenValue v);
void script_bind(Script *s, Str name, AtenValue v);
const AtenValue *script_lookup(const Script *s, Str name);

bool script_knows(const Script *s, Str torch_name);  // a call that can be built

// Control flow that is decided when the graph runs (script_control.c).
MUST_USE tenon_status script_dynamic_if(Script *s, const PyStmt *st, Node *condition);
MUST_USE tenon_status script_dynamic_loop(Script *s, const PyStmt *st, const AtenValue *trips,
                                          const AtenValue *condition);

#endif
