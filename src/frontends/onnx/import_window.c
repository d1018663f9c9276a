// import_window.c -- pooling of earlier operator sets.
#include "eval/window.h"
#include "frontends/onnx/onnx.h"

// The first forms have p as a float.
static tenon_status whole_p(ImportNode *n, int64_t *out) {
  double p = import_f64(n, "p", 2);
  if (!(p >= 1 && p <= 1024) || p != (double)(int64_t)p)
    return import_fail(n, TENON_EUNSUPPORTED, "p is %g: only whole numbers from 1 are supported",
                       p);
  *out = (int64_t)p;
  return TENON_OK;
}

static tenon_status lp_pool_1(ImportNode *n) {
  lp_pool_attrs at;
  TRY(import_attrs(n, op_info(OP_lp_pool), "p", &at));
  TRY(whole_p(n, &at.p));
  return import_as(n, OP_lp_pool, &at, n->nin, n->in);
}

static tenon_status global_lp_pool_1(ImportNode *n) {
  global_lp_pool_attrs at;
  TRY(import_attrs(n, op_info(OP_global_lp_pool), "p", &at));
  TRY(whole_p(n, &at.p));
  return import_as(n, OP_global_lp_pool, &at, n->nin, n->in);
}

// Before 16 nothing is shifted by half a pixel.
static tenon_status roi_align_10(ImportNode *n) {
  roi_align_attrs at;
  TRY(import_attrs(n, op_info(OP_roi_align), NULL, &at));
  at.coordinate_transformation_mode = 1;
  return import_as(n, OP_roi_align, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    {"", "LpPool", 1, 1, lp_pool_1, NULL},
    {"", "GlobalLpPool", 1, 1, global_lp_pool_1, NULL},
    {"", "RoiAlign", 10, 15, roi_align_10, NULL},
};
const ImportTable onnx_rows_window = {rows, ARRAY_LEN(rows)};
