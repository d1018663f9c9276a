// import_contract.c -- contractions of earlier operator sets.
#include "eval/contract.h"
#include "frontends/onnx/onnx.h"

// Gemm before 7 says by an attribute whether c may broadcast; ours always may.
static tenon_status gemm_1(ImportNode *n) {
  gemm_attrs at;
  TRY(import_attrs(n, op_info(OP_gemm), "broadcast", &at));
  return import_as(n, OP_gemm, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    {"", "Gemm", 1, 6, gemm_1, NULL},
};
const ImportTable onnx_rows_contract = {rows, ARRAY_LEN(rows)};
