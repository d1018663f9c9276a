// window.h -- symbolic sizes of sliding windows, shared by pooling and convolutions.
#ifndef TENON_OPS_WINDOW_H
#define TENON_OPS_WINDOW_H

#include "eval/window.h"
#include "ir/opinfo.h"

// Spatial sizes of the result for an input of sizes x.  kernel[d] is used where the spec lists no
// kernel.
MUST_USE tenon_status infer_window(Infer *in, const WindowSpec *s, int nd, const Dim *x,
                                   const Dim *kernel, Dim *out);
// Elements below 8 bits cannot be written one by one: whole bytes only.
MUST_USE tenon_status infer_whole_bytes(Infer *in, DType t);

#endif
