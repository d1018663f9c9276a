// export.h -- writing graphs for other programs: what the writers share.
//
// A writer takes a graph that was imported or optimised, but not yet laid out or fused, and gives a
// file of another format.  What the format cannot express is decomposed (by an op's expansion, or a
// rewrite of the writer) or reported: all of it at once, by the ops' names.
#ifndef TENON_EXPORTERS_EXPORT_H
#define TENON_EXPORTERS_EXPORT_H

#include "ir/opinfo.h"

typedef struct ExportOptions {
  int64_t opset;  // ONNX: the newest operator set to use; newer ops are decomposed.  0: as the
                  // graph needs
  int64_t external_from;  // ONNX: bytes of constants from which they go into a file beside; 0: what
                          // one file can hold
  // Asked before a file beside the output is written; NULL: any may be.
  tenon_status (*external_data)(void *ctx, const char *path);
  void *external_data_ctx;
  StrBuf *memory;  // ONNX: gets the file's bytes in place of the path; NULL: there is a file
} ExportOptions;

// What a format cannot say, by op.
typedef struct Refused {
  const char *op, *why, *first;  // first: name of the first node; may be NULL
  int64_t count;
} Refused;
typedef VEC(Refused) RefusedList;
void refuse_op(RefusedList *list, Arena *a, const Node *n, const char *op, const char *why);
// OK for an empty list, else one message with a line for each op.
MUST_USE tenon_status refused_report(const RefusedList *list, const char *format, Diag *d);

// Names that are used once each.
typedef struct Names {
  Arena *arena;
  StrMap used;
} Names;
void names_init(Names *n, Arena *a);
bool names_take(Names *n, const char *name);             // false: it is taken
const char *names_unique(Names *n, const char *wanted);  // `wanted`, or with a number behind it

// A node of the graph as others of the same meaning; NULL: it stays.
typedef Node *RewriteFn(Graph *g, Node *n);
typedef struct RewriteRow {
  int op;
  RewriteFn *fn;  // gives as many results as the node
} RewriteRow;
// Applies rows, and the expansion of every op for which `has` is false, until nothing changes.
typedef bool ExportHasFn(const void *ctx, const Node *n);
MUST_USE tenon_status export_prepare(Graph *g, const RewriteRow *row, int64_t nrows,
                                     ExportHasFn *has, const void *ctx);
// Rewrites that several formats need.
Node *rewrite_dims(Graph *g, Node *n);  // sizes by shape arithmetic
Node *rewrite_mod(Graph *g, Node *n);   // by the remainder with the dividend's sign
// Unpacks weight-only quantized weights, to a constant where they are one (bits.c).
RewriteFn rewrite_unpack, rewrite_product_of_bits;

// Both change the graph on the way: it is the caller's last use of it.
MUST_USE tenon_status export_stablehlo(Graph *g, const char *path, Diag *d);
MUST_USE tenon_status export_onnx(Graph *g, const char *path, const ExportOptions *o, Diag *d);

#endif
