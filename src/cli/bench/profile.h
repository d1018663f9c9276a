// profile.h -- where a run's time goes, step by step, beside what this machine can do.
#ifndef TENON_CLI_BENCH_PROFILE_H
#define TENON_CLI_BENCH_PROFILE_H

#include "cli/cli.h"
#include "cli/bench/peak.h"
#include "runtime/session.h"

typedef struct ProfileRow {
  const ProgStep *step;
  int32_t function,
      number;          // 0: the model; else the body of a step, whose time is part of that step's
  int32_t concurrent;  // kernels that ran concurrently with it
  double ms;           // of one run of the model
  double gflops, gbytes;
  double roofline;  // the time that it takes at least, as a share of its time
  double lost_ms;   // what it took beyond that
  // What that time is made of: "f32", "bf16", "i8" or a level of memory; on a device also "tensor"
  // (tensor cores) and "launch"; "copy" of what is copied between the host and a device.
  const char *bound;
} ProfileRow;

// What a device's time goes into: milliseconds of a run, by the bound of the steps.
typedef struct ProfileParts {
  double tensor, arithmetic, memory, launch, copies, host;
} ProfileParts;

typedef struct Profile {
  ProfileRow *row;
  int32_t n;
  double total_ms;
  bool has_device;
  ProfileParts parts;  // with has_device
} Profile;

// What steps are held to: those of the host, and those of a device, whose peak may be unknown.
typedef struct Peaks {
  Peak host, device;
} Peaks;

// Of all functions that ran, in the order of time; by_loss: of what is lost.
void profile_make(const Session *s, const Peaks *peaks, bool by_loss, Arena *a, Profile *out);
// Seconds that the model's operations take at least, each at the peak of its kind.
double profile_compute_seconds(const Program *p, const Peaks *peaks);
// Whether a kernel of the host whose operations are those that it does was faster than the machine
// was thought to be.
bool profile_beats(const Profile *p, const Peak *peak);
void profile_print(Cli *c, const Profile *p);
void profile_json(JsonWriter *w, const Profile *p);
const char *profile_kind(const ProgStep *st);

#endif
