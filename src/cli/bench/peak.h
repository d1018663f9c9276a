// peak.h -- what this machine can do at most, measured, or a device, by its clocks: operations a
// second, and bytes a second from each level of memory.
#ifndef TENON_CLI_BENCH_PEAK_H
#define TENON_CLI_BENCH_PEAK_H

#include "base/base.h"

struct Program;

// OPS_TF32: operands of f32 on tensor cores.
typedef enum {
  OPS_F32,
  OPS_BF16,
  OPS_I8,
  OPS_MEASURED,
  OPS_TF32 = OPS_MEASURED,
  OPS_KINDS
} OpsKind;
typedef enum { LEVEL_L1, LEVEL_L2, LEVEL_L3, LEVEL_MEMORY, LEVELS } MemLevel;

typedef struct Peak {
  double ops[OPS_KINDS];  // multiplications and additions a second, on all the threads together
  double read[LEVELS];    // bytes a second
  double copy[LEVELS];    // bytes a second, read and written together
  int threads;
  int64_t when;    // seconds since 1970
  int64_t l2, l3;  // bytes that all the threads' caches hold, which say from where a kernel reads
  bool fresh;      // measured by this process
  const char *device;  // whose it is; NULL: this machine's processor
  double launch_ms;    // of a device: what the smallest launch takes, as a profile measures it
} Peak;

// Takes about a second, longer while others disturb it.
MUST_USE tenon_status peak_measure(int threads, Diag *d, Peak *out);
// The figures of earlier measurements on this machine, else new ones, which are then kept.
MUST_USE tenon_status peak_get(int threads, Diag *d, Peak *out);
// Those of earlier measurements alone; false: there are none.
bool peak_kept(int threads, Peak *out);
// Measures, and keeps of each figure the best that was ever measured; *out_file, which may be NULL,
// gets where, or "" when they cannot be kept.
MUST_USE tenon_status peak_renew(int threads, Arena *a, Diag *d, Peak *out, const char **out_file);

// Of the first device that the program has kernels on: *out->device stays NULL where there is none,
// or where its driver does not say what it can do.
MUST_USE tenon_status peak_of_device(const struct Program *p, Arena *a, Diag *d, Peak *out);

// What threads wait for: nanoseconds that a cache line takes to another core and back, and that a
// job takes in which nobody does anything.  Takes some milliseconds; 0 on one thread.
typedef struct Latency {
  double round_trip_ns, job_ns;
} Latency;
MUST_USE tenon_status latency_measure(int threads, Diag *d, Latency *out);

#endif
