// meter.h -- energy that the machine has taken, by the counters that it has.
//
// A meter is a row of meter.def.  Counters are read before and after what is measured; who measures
// subtracts what the machine takes at rest.  There is never an estimate in place of a counter.
#ifndef TENON_ENERGY_METER_H
#define TENON_ENERGY_METER_H

#include "base/base.h"

enum { METER_COUNTERS = 32, METER_PATH = 512 };

typedef struct MeterCounter {
  char path[METER_PATH];  // of a file; "": `fd` or the library has it
  int fd;                 // of a performance counter; -1: none
  void *device;           // NVML's
  double unit;            // joules of one count
  uint64_t last, range;   // range: the count starts again at 0 behind it; 0: it never does
} MeterCounter;

typedef struct Meter {
  const struct MeterRow *row;
  MeterCounter counter[METER_COUNTERS];
  int n;
  void *library;
  int (*nvml_energy)(void *device, unsigned long long *millijoules);
  double joules;  // since it was opened
} Meter;

typedef struct MeterRow {
  const char *name, *doc;
  // Finds its counters below the file system's root; false: *why says what is missing.
  bool (*find)(Meter *m, const char *root, char *why, int cap);
} MeterRow;

// The first row that finds counters; of a GPU alone NVML's.  EUNSUPPORTED: no row does, with the
// reason of each.  `root`: "" for this machine.
MUST_USE tenon_status meter_open(Meter *m, const char *root, bool gpu, Diag *d);
// Joules since it was opened.
MUST_USE tenon_status meter_read(Meter *m, Diag *d, double *out_joules);
void meter_close(Meter *m);

#endif
