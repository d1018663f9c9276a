// signal.h -- attributes and evaluation of the signal ops: Fourier transforms, windows, mel
// weights.
#ifndef TENON_EVAL_SIGNAL_H
#define TENON_EVAL_SIGNAL_H

#include "eval/eval.h"

#define DFT_ATTRS(A, C, T)                                                                         \
  A(T, bool, inverse, false, "the inverse transform, divided by its length")                       \
  A(T, bool, onesided, false, "half of the spectrum: given (inverse), or returned")
ATTR_STRUCT(dft, DFT_ATTRS);
#define STFT_ATTRS(A, C, T) A(T, bool, onesided, true, "return half of the spectrum")
ATTR_STRUCT(stft, STFT_ATTRS);
#define SIGNAL_WINDOW_ATTRS(A, C, T)                                                               \
  A(T, dtype, output_datatype, TENON_DTYPE_F32, "type of the result")                              \
  A(T, bool, periodic, true, "the first values of a window one longer, else symmetric")
ATTR_STRUCT(signal_window, SIGNAL_WINDOW_ATTRS);
#define MEL_WEIGHT_MATRIX_ATTRS(A, C, T)                                                           \
  A(T, dtype, output_datatype, TENON_DTYPE_F32, "type of the result")
ATTR_STRUCT(mel_weight_matrix, MEL_WEIGHT_MATRIX_ATTRS);

EvalFn eval_dft, eval_stft, eval_hann_window, eval_hamming_window, eval_blackman_window,
    eval_mel_weight_matrix;

#endif
