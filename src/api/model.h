// model.h -- an open model, whatever its format: what the public interface and the command line
// share.
//
// model_open maps the file, recognises the format by its content, and imports it; it never reads
// weights.  A Model is read-only once open but for the interpreter, which is made on first use
// under a lock.
#ifndef TENON_API_MODEL_H
#define TENON_API_MODEL_H

#include "frontends/common/frontend.h"
#include "frontends/onnx/onnx.h"
#include "ir/custom.h"
#include "ir/interpret.h"
#include "models/llm.h"
#include "runtime/artifact.h"

typedef struct Model Model;
struct Model {
  Arena arena;
  File file;
  bool owns_file;
  const Frontend *frontend;  // NULL: compiled
  const char *path;          // NULL: in memory
  Graph *graph;  // of a compiled model: the program's inputs, and as many results; nothing between
                 // them
  Program *program;       // compiled; else NULL
  Imported import;        // what the reader found: unsupported operators, warnings, weights
  const OnnxModel *onnx;  // of ONNX alone
  Model *attached;        // whose weights the graph has; owned
  LlmModel *llm;          // a language model's files, whose weights the graph has; else NULL
  bool is_llm, owns_llm;
  Graph *spare;    // of a language model: what holds the texts about it; else NULL
  Diag *diag;      // the graph's, between calls: a place that always exists
  Interp *interp;  // NULL until first run
  bool spent;      // its graph was changed: it can only be closed
  void *lock;
};

// What becomes of a compiled model in a model's place.
typedef enum {
  COMPILED_REFUSED,
  COMPILED_LISTED,  // its tables are read, and its code stays data
  COMPILED_RUN      // if the trust says so
} CompiledUse;
typedef struct ModelOptions {
  const CustomOp *custom;
  int64_t memory_limit;  // bytes that opening may take; 0 = none
  Strs given;            // inputs with a default that the caller will give: they stay inputs
  CompiledUse compiled;
  ArtifactTrust trust;  // of a compiled model that is run; its name is the path
  const char *target;   // of a compiled model: the variant to take; NULL: the fastest here
  bool ask_drivers;     // of a compiled model: all of them, to say why a variant does not run
  IntFixed *fixed;      // symbolic sizes that are numbers; must outlive the model
  int64_t nfixed;
  const InputType *types;  // of inputs, where the file does not say
  int64_t ntypes;
  const char *signature;  // of TensorFlow Lite: the entry point; NULL: the first sub-graph
  const char *weights;    // a file that constants come from, by name; or NULL
  Weights *tensors;       // or the caller's own, which outlive the model; or NULL
  bool weights_alone;     // of a GGUF file: no graph is made
} ModelOptions;

// EUNSUPPORTED operators do not fail the opening: ask model_unsupported.
MUST_USE tenon_status model_open(const char *path, const ModelOptions *o, Diag *d, Model **out);
MUST_USE tenon_status model_open_memory(const void *bytes, int64_t n, const char *label,
                                        const ModelOptions *o, Diag *d,
                                        Model **out);  // bytes are borrowed
// Reads the same bytes again: a graph of its own, for whoever changes it.  `m` must outlive the
// copy.
MUST_USE tenon_status model_copy(const Model *m, const ModelOptions *o, Diag *d, Model **out);
void model_free(Model *m);  // NULL is fine

int64_t model_unsupported(const Model *m, const Unsupported **out);
// There is a graph, and all of it is supported: else the one report of what is not.
MUST_USE tenon_status model_need_supported(const Model *m, Diag *d);

static inline int64_t model_ninputs(const Model *m) { return m->graph->main->nparams; }
static inline int64_t model_noutputs(const Model *m) { return m->graph->main->nresults; }
static inline const Node *model_input(const Model *m, int64_t i) {
  return m->graph->main->param[i];
}
static inline const Node *model_output(const Model *m, int64_t i) {
  return m->graph->main->result[i];
}
static inline const char *model_output_name(const Model *m, int64_t i) {
  return m->graph->main->result_name[i];
}

// What a program takes, as a graph's parameters (compiled.c).
MUST_USE tenon_status graph_of_program(const Program *p, Diag *d, Graph **out);

// Runs in the reference interpreter.  `run` is the caller's, from run_init; inputs in the model's
// order.
MUST_USE tenon_status model_run(Model *m, Run *run, Value *const *inputs, Value **outputs);

#endif
