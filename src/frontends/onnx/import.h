// import.h -- what the files of the ONNX importer share: its state and its scopes.
#ifndef TENON_FRONTENDS_ONNX_IMPORT_H
#define TENON_FRONTENDS_ONNX_IMPORT_H

#include "frontends/common/frontend.h"
#include "frontends/onnx/onnx.h"

// Names visible in a graph, a sub-graph or a function body.  A name found only further out becomes
// a captured parameter of the sub-graph (a constant is simply used: constants belong to no body).
typedef struct Scope {
  struct Scope *outer;  // NULL: nothing beyond (the main graph, a function body)
  StrMap value;         // Str -> Node *
  NodeVec *captures;    // outer nodes, in order; NULL in the main graph and in functions
  NodeVec params;       // the parameters made for them
  bool inlined;         // part of the body around it: outer values are used as they are
} Scope;

// A function call being inlined: where attribute references find their values.
typedef struct Frame {
  const struct Frame *outer;
  const OnnxFunction *fn;
  const OnnxNode *call;
  const struct Frame *call_frame;  // references inside the call's own attributes resolve there
} Frame;

struct Import {
  Graph *g;
  Arena *arena;  // the graph's
  const OnnxModel *model;
  Imported *result;
  Source *file;          // the model's own bytes
  const char *path;      // NULL: in memory
  const uint8_t *bytes;  // of the file, to turn slices into offsets
  int64_t nbytes;
  StrMap rows;         // "domain:op" -> RowList
  StrMap functions;    // "domain:op:overload" -> OnnxFunction
  StrMap unsupported;  // op -> index + 1
  StrMap unimported;   // domains that nodes use and the model does not import
  Scope *scope;
  const Frame *frame;
  struct CarriedBody *carried;  // of the loop whose body is being imported; NULL: of none
  int depth;
  int64_t budget;       // nodes that may still be imported: a bound on what inlining can blow up to
  int64_t instances;    // random ops are numbered
  tenon_status status;  // sticky, from attribute getters
};

// The rows and op records that may take a foreign op, found by name.
typedef struct RowList {
  const ImportRow *row;
  const OpInfo *op;
  struct RowList *next;
} RowList;

void import_rows_init(Import *im);
RowList *import_rows_find(Import *im, Str domain, Str op);
const char *import_nearest(Str domain, Str op);      // a supported op's name, or NULL
int64_t import_opset(const Import *im, Str domain);  // 0 when not imported
Node *import_tensor(Import *im, const OnnxTensor *t, Str name, Where at);  // const node
Node *import_sparse(Import *im, const OnnxSparse *s, Str name, Where at);
const Type *import_type(Import *im, const OnnxType *t, Str name,
                        Where at);  // NULL: not given; a failure is in the graph
const OnnxFunction *import_find_function(Import *im,
                                         const OnnxNode *n);  // NULL: no function of the model's
MUST_USE tenon_status import_node(Import *im, const OnnxNode *n);
MUST_USE tenon_status import_nodes(Import *im, const OnnxNode *nodes, int64_t n);
Node *scope_find(Import *im, Scope *s, Str name);  // NULL when undefined
MUST_USE tenon_status scope_define(Import *im, Str name, Node *n, Where at);
void import_unsupported(Import *im, const OnnxNode *n, const char *why);
MUST_USE tenon_status import_initializers(Import *im, const OnnxGraph *og);
extern const ImportTable *const onnx_tables[];  // NULL-terminated (tables.c)

#endif
