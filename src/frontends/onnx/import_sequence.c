// import_sequence.c -- sequence operators whose ONNX form needs more than attributes by name.
#include "eval/sequence.h"
#include "frontends/onnx/import.h"

static tenon_status import_optional(ImportNode *n) {
  optional_attrs at = {0};
  const OnnxAttr *a = import_attr(n, "type");
  if (a && a->tp) {
    const OnnxType *t = a->tp;
    if (t->kind == OT_OPTIONAL && t->inner) t = t->inner;
    at.sequence = t->kind == OT_SEQUENCE;
    if (at.sequence && t->inner) t = t->inner;
    if (dtype_valid(t->elem)) at.dtype = (DType)t->elem;
  }
  return import_as(n, OP_optional, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    {"", "Optional", 15, 0, import_optional, NULL},
};
const ImportTable onnx_rows_sequence = {rows, ARRAY_LEN(rows)};
