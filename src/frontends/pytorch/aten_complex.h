// aten_complex.h -- complex tensors of PyTorch programs: what the files of rows share
// (aten_complex.c, aten_fft.c).
#ifndef TENON_FRONTENDS_PYTORCH_ATEN_COMPLEX_H
#define TENON_FRONTENDS_PYTORCH_ATEN_COMPLEX_H

#include "frontends/pytorch/aten.h"

typedef struct AtenComplex {
  Node *re, *im;  // im: NULL for a real operand
} AtenComplex;
AtenComplex at_complex(AtenCall *c, int i);
void at_give_complex(AtenCall *c, Node *re, Node *im);

// Fourier transforms of complex operands.
AtenFn aten_fft_c2c, aten_fft_c2r, aten_fft_one, aten_fft_many;

#endif
