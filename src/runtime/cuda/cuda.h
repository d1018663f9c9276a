// cuda.h -- the CUDA driver of the device table, and the form of code that it loads.
//
// Code is pieces, one for each kernel of the device in their order.  A piece is a head line `//tn
// kernel BYTES`, then so many bytes: a whole text of CUDA C++ with one function `tn_kernel`, or
// what a compiler made of one (a cubin).  Pieces are compiled apart, in parallel, and kept apart in
// the cache, so that equal kernels of different models are compiled once.
//
// How a piece is launched is said by lines at its beginning, `//tn WORD NUMBERS`; without any, it
// is a kernel of items:
//   threads N      threads of a group; an item is a group's, else a thread's
//   shared N       bytes of dynamic shared memory
//   persistent     as many thread blocks as are resident at once; else one for each work item
//   cluster N      an item is that of N groups, neighbours on the chip
//   early          may begin before the kernel before it has ended: it waits itself
//   map ARG TYPE RANK dims.. strides.. box..
//                  one more argument: a tensor map over argument ARG, innermost size first, strides
//                    in bytes from the second on; a size or
//                  stride is a number, or `@N*M`: dim N of the kernel times M; `@N*@K*M` of
//                    several, `@N*M+K` a sum
//   window ARG TYPE 4 dims.. strides.. box.. before.. after.. step..
//                  likewise a map of windows over images (channels, x, y, images): the box is
//                    channels and pixels; of x and y follow the corners
//                  of where a window's first tap may lie, counted from those of the image, and the
//                    step from one pixel to the next
#ifndef TENON_RUNTIME_CUDA_CUDA_H
#define TENON_RUNTIME_CUDA_CUDA_H

#include "runtime/device.h"

extern const DeviceDriver device_cuda;
void cuda_shut(void);  // gives back the contexts of devices that nobody has open

// A sum of numbers, each times dims of the kernel; it ends with a 0.
enum { CUDA_MAPS = 4, CUDA_TERMS = 4, CUDA_FACTORS = 4 };
typedef struct CudaTerm {
  int64_t times;
  int32_t ndims, dim[CUDA_FACTORS];
} CudaTerm;
typedef struct CudaNumber {
  CudaTerm term[CUDA_TERMS + 1];
} CudaNumber;
static inline CudaNumber cuda_number(int64_t n) { return (CudaNumber){{{.times = n}}}; }
typedef struct CudaMap {
  int32_t arg;
  int type, rank;  // as the library numbers types
  CudaNumber dim[5], stride[4];
  uint32_t box[5];
  bool window;
  int before[2], after[2];
  uint32_t step[2];
} CudaMap;
typedef struct CudaRecord {
  int threads;  // 0: a kernel of items
  int shared_bytes, cluster;
  bool persistent, early;
  int nmaps;
  CudaMap map[CUDA_MAPS];
} CudaRecord;

// The lines at the beginning of a piece.  False where one is wrong.
MUST_USE bool cuda_record_read(Str piece, CudaRecord *out);
void cuda_record_write(const CudaRecord *r, StrBuf *out);
// Takes the next piece off the code; false when there is none, or what follows is no piece (*bad).
MUST_USE bool cuda_next_piece(Str *code, Str *out, bool *bad);
void cuda_put_piece(StrBuf *out, Str piece);

// Compiles one text for an architecture ("sm_90a", or "compute_90" for what newer chips can load);
// needs no GPU.  What comes lies in `a`.  With `log`, what the compiler says of it (registers,
// spills).
MUST_USE tenon_status cuda_compile(Str text, const char *arch, Arena *a, Diag *d, Str *out,
                                   Str *log);
// What the compiler is asked for on such a chip: "sm_90a", or "compute_NN" where the compiler does
// not know it yet.
MUST_USE tenon_status cuda_arch_name(int arch, Arena *a, Diag *d, const char **out);

#endif
