// frontend.h -- what all readers of model files share: the table of them, what one is given and
// what it gives back.
//
// A reader is one row of the table (frontend.c).  A file's format is recognised by its content, in
// the order of the table; file names never matter.  Some formats hold weights alone: their graph is
// empty, and their tensors are in the list of weights (weights.h), from where a graph of another
// file can take its constants by name.
#ifndef TENON_FRONTENDS_COMMON_FRONTEND_H
#define TENON_FRONTENDS_COMMON_FRONTEND_H

#include "frontends/common/weights.h"
#include "ir/ir.h"

struct CustomOp;

// One kind of operator that the graph cannot have; all are reported together.
typedef struct Unsupported {
  const char *op;  // "com.example.Frobnicate"
  const char *why;
  const char *first;  // name of the first node
  int64_t count;
} Unsupported;

// What a file says about itself, for `tenon inspect`.
typedef struct ModelFact {
  const char *key, *value;
} ModelFact;

// What an input is, where the file does not say it: formats of programs (TorchScript) need it.
typedef struct InputType {
  Str name;  // or the input's position, in digits
  DType dtype;
  int rank;
  struct {
    Str symbol;  // empty: `size`
    int64_t size;
  } dim[MAX_RANK];
  bool known;  // a number that is known: the program may be read for it alone
  bool fixed;  // ... and must be
  double value;
} InputType;

typedef struct Imported {
  // The caller's.  `bytes` must outlive the graph; path is NULL for a model in memory, which has no
  // other files.
  Str bytes;
  const char *path;
  const struct CustomOp *custom;
  int64_t memory_limit;  // bytes that the graph may take; 0 = none
  Strs given;            // inputs with a default that stay inputs all the same
  IntFixed *fixed;       // symbols that are numbers
  int64_t nfixed;
  const InputType *types;
  int64_t ntypes;
  bool specialise;        // read the program for the numbers that are known
  const char *signature;  // of TensorFlow Lite: the entry point to read, with its names; NULL: the
                          // first sub-graph
  Weights *attach;        // constants by name, in place of the file's own; or NULL
  // The reader's.
  Graph *graph;
  VEC(const char *)
  defaults;  // inputs that the file gives a value: constants here, unless given
  VEC(Unsupported) unsupported;
  VEC(const char *) warnings;
  VEC(const char *)
  faults;             // the model can be run, but contradicts itself: `tenon verify` warns of it
  const char *about;  // one line: "ONNX, IR version 8, opset 17, by pytorch 2.1"
  VEC(ModelFact) facts;
  Weights weights;    // of a file of weights; of others what they hold by name, if they do
  const char *empty;  // why there is no graph; NULL where there is one
  bool wants_types;   // ... since it depends on what inputs are: give their types
  const void *file;   // the reader's own view of the file: OnnxModel
} Imported;

// A row of a reader's coverage table.
typedef struct FrontendOp {
  const char *op;     // as the format spells it
  const char *form;   // versions or overload
  const char *notes;  // arguments; of a refused one, what to do instead
  bool refused;
} FrontendOp;
typedef void FrontendOpFn(void *ctx, const FrontendOp *op);

typedef struct Frontend {
  const char *name, *doc;
  bool (*is)(Str bytes);  // looks at as little as it can; never fails
  tenon_status (*import)(Imported *in, Diag *d);
  void (*ops)(FrontendOpFn *fn, void *ctx);  // NULL: the format has no operators
  // Adds the tensors of one of several files of weights to in->weights (shards.c); NULL: the format
  // holds none.
  tenon_status (*part)(Imported *in, Str bytes, const char *file, Diag *d);
} Frontend;

extern const Frontend frontend_stablehlo, frontend_text, frontend_gguf, frontend_tflite,
    frontend_pytorch, frontend_npz, frontend_safetensors, frontend_index, frontend_onnx;
extern const Frontend *const frontends[];  // NULL-terminated; the last takes whatever is left
const Frontend *frontend_of(Str bytes);    // never NULL
const Frontend *frontend_find(const char *name);  // NULL when there is none

// ---- for readers ----
// The graph, with the file as its first source.
MUST_USE tenon_status frontend_begin(Imported *in, Diag *d);
// An empty main body: the file holds weights alone, or needs something first, as `why` says.
void frontend_no_graph(Imported *in, const char *why);
void frontend_fact(Imported *in, const char *key, const char *fmt, ...) PRINTF(3, 4);
// Counts one more use of an operator that is not supported.
void frontend_unsupported(Imported *in, const char *op, const char *why, const char *node);
// The type that the caller gave for an input; NULL: none.
const InputType *frontend_type(const Imported *in, Str name, int64_t position);
const Type *frontend_type_of(Graph *g, const InputType *t);
// "x=f32[batch, 3, 224]", or a number, "rate=16000"; false: it is none.
bool input_type_parse(Str text, InputType *out);

// Registers another file of the model's, after the checks that need no disk; source_open opens it
// (external.c).
MUST_USE tenon_status external_open(Graph *g, const char *model_path, Str location, Where at,
                                    Source **out);

#endif
