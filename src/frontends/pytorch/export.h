// export.h -- what the files of the reader of torch.export share.
#ifndef TENON_FRONTENDS_PYTORCH_EXPORT_H
#define TENON_FRONTENDS_PYTORCH_EXPORT_H

#include "base/json.h"
#include "frontends/pytorch/aten.h"
#include "frontends/pytorch/pytorch.h"

typedef struct ExportBuffer {
  Str name, full;
} ExportBuffer;
typedef struct ExportProgram {
  TorchArchive *t;
  Imported *in;
  Graph *g;
  Diag *diag;
  Aten aten;
  StrMap values;  // name -> AtenValue
  const Json *outputs, *tensors, *ranges, *nodes;
  int depth;                  // of graphs inside of graphs
  VEC(ExportBuffer) buffers;  // that calls change in place
  VEC(Node *) params;
  VEC(Node *) results;
  VEC(const char *) result_names;
} ExportProgram;

bool export_dtype(int64_t code, DType *out);          // the schema's own numbers
const Type *export_type(ExportProgram *p, Str name);  // NULL: not known
MUST_USE tenon_status export_find(ExportProgram *p, Str name, AtenValue *out);
MUST_USE tenon_status export_define(ExportProgram *p, Str name, AtenValue v);
bool export_changed(ExportProgram *p, Str value);  // by some call, in place
Dim export_dim(ExportProgram *p, Str text);        // a size as SymPy writes it; NULL: it is none
// Whether every call can be built; what cannot is reported, all of it.
bool export_supported(ExportProgram *p, const Json *nodes);
MUST_USE tenon_status export_arg(ExportProgram *p, const Json *arg, AtenValue *out);
// A graph inside, over these operands; the results are a tuple.
MUST_USE tenon_status export_run_inside(ExportProgram *p, const Json *g, const AtenValue *args,
                                        int64_t n, AtenValue *out);
bool export_is_control(Str target);  // cond, while_loop, scan
MUST_USE tenon_status export_control(ExportProgram *p, const Json *node, Str target, Where at,
                                     AtenValue *out);
MUST_USE tenon_status export_node(ExportProgram *p, const Json *node);
MUST_USE tenon_status export_weights(ExportProgram *p, const char *model);
MUST_USE tenon_status export_old_weights(ExportProgram *p);

#endif
