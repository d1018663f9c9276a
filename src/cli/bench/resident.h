// resident.h -- `--resident` of `tenon bench` and `conform`: inputs and outputs that stay in a
// device's memory.
#ifndef TENON_CLI_BENCH_RESIDENT_H
#define TENON_CLI_BENCH_RESIDENT_H

#include "runtime/device.h"
#include "runtime/session.h"

typedef struct Resident {
  const DeviceDriver *driver;
  Device *device;
  DeviceQueue *queue;  // its stream is the one that calls go into
  VEC(DeviceBuffer *) buffer;
  Value **in;             // with addresses of the device
  ResultRoom *room;       // likewise
  DeviceBuffer **result;  // of it; NULL where a result is the host's
  SessionPlaces places;
} Resident;

// Copies of the inputs on the program's device, and room for such results.
MUST_USE tenon_status resident_make(Resident *r, Run *held, const Program *p, Value *const *in,
                                    Value *const *results, Arena *a, Diag *d);
void resident_free(Resident *r);
// One call, not waited for.
MUST_USE tenon_status resident_call(const Resident *r, Session *s, uint64_t seed, Diag *d);
// The results that lie there, compared with those of a run from and to the host: the same bits.
MUST_USE tenon_status resident_compare(const Resident *r, const Program *p, Value *const *results,
                                       Arena *a, Diag *d);
// All of it once: calls give the bits of the run that these are the results of.  Nothing to do for
// a program of the host.
MUST_USE tenon_status resident_check(Session *s, uint64_t seed, Value *const *in,
                                     Value *const *results, Arena *a, Diag *d);
// Nanoseconds of a call by the device's clock, over `n` of them back to back.
MUST_USE tenon_status resident_time(const Resident *r, Session *s, uint64_t seed, int64_t n,
                                    Diag *d, double *ns);

#endif
