// frame.h -- what goes between `tenon tune` and a worker: kernels as loop text, and their times.
//
// A frame is a header of FRAME_HEADER bytes, little-endian, and one JSON object:
//
//   "TNWK"  version u8  kind u8  0 u16  bytes u32  crc32c u32
//
// The worker begins with FRAME_HELLO, which says what machine it is.  It answers each FRAME_TASK by
// one FRAME_TIMES with the same number.  The end of its input ends it.
//
// Both ends take frames for untrusted input: sizes are checked before memory is asked for, and a
// parsed frame holds only numbers in their ranges and indices into its own tables.
#ifndef TENON_TUNE_FRAME_H
#define TENON_TUNE_FRAME_H

#include "base/machine.h"
#include "lower/lower.h"
#include "tune/trial.h"

typedef enum { FRAME_HELLO = 1, FRAME_TASK, FRAME_TIMES, FRAME_KINDS } FrameKind;
enum {
  FRAME_VERSION = 1,
  FRAME_HEADER = 16,
  FRAME_KERNELS = 24,
  FRAME_TENSORS = 256,
  FRAME_ARGS = 256,
  FRAME_DIMS = 64,
  FRAME_GIVEN = 1 << 16,  // bytes of a tensor that travel; of others only the kind and the size
  FRAME_HASH = 64,        // hexadecimal digits
  FRAME_WORD = 1024,      // bytes of a text that is no kernel
};
#define FRAME_TENSOR_MAX ((int64_t)1 << 31)  // bytes of a tensor
int64_t frame_most(int kind);                // bytes of its object; 0: no such kind

typedef struct FrameHello {
  const char *tool;
  Machine machine;
} FrameHello;

// A value that kernels read: weights, inputs and what other kernels make.
typedef struct FrameTensor {
  DType dtype;
  int64_t n;
  bool weight;  // as cold as in the model
  Str bytes;    // its contents; empty: they are made from its number (timing.h)
} FrameTensor;
typedef struct FrameArg {
  bool result, packed;
  int32_t index;  // of the tensor or, of `result`, of the result
  PackSpec pack;
} FrameArg;
typedef struct FrameKernel {
  Str text;
  int64_t ndims, nargs;
  int64_t *dim;
  FrameArg *arg;
} FrameKernel;
typedef struct FrameTask {
  int64_t seq;
  bool quick, drop;  // as of stage_open and stage_race
  int64_t rounds, milliseconds, cold_bytes;
  FrameTensor *tensor;
  FrameKernel *kernel;  // the first is what others are compared with
  int64_t ntensors, nkernels;
} FrameTask;

typedef struct FrameTime {
  uint8_t status;    // TrialStatus
  const char *why;   // of TRIAL_FAILED
  const char *hash;  // SHA-256 of its results, one after another; "": it has none
  int64_t code_bytes;
  int n;
  int64_t ns[TRIAL_SAMPLES];
} FrameTime;
typedef struct FrameTimes {
  int64_t seq, n;
  FrameTime *time;  // by kernel
} FrameTimes;

// Appends a whole frame with this object.
void frame_seal(int kind, Str object, StrBuf *out);
// False: the header is none, or its object would be larger than its kind may be.
bool frame_header(const uint8_t in[FRAME_HEADER], int *kind, int64_t *bytes, uint32_t *crc);

void frame_put_hello(const FrameHello *h, StrBuf *out);
void frame_put_task(const FrameTask *t, StrBuf *out);
void frame_put_times(const FrameTimes *t, StrBuf *out);
// EFORMAT, with what is wrong.
MUST_USE tenon_status frame_get_hello(Str object, Arena *a, Diag *d, FrameHello *out);
MUST_USE tenon_status frame_get_task(Str object, Arena *a, Diag *d, FrameTask *out);
MUST_USE tenon_status frame_get_times(Str object, Arena *a, Diag *d, FrameTimes *out);

#endif
