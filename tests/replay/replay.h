// replay.h -- kernel replay: hashes of every kernel's text on machines that are described, not
// asked.
//
//   machines.c   the table of machines; compiles one graph for one of them without a code generator
//   record.c     a model, or the samples of every op, as a record: text with one line per kernel
//   compare.c    a record against the golden file of its machine: what changed, and --update
//   cliffs.c     how many kernels leave the machine idle: on the host, on one thread, on one lane
//   cliffs_judge.c   those counts against tests/golden/cliffs
//   main.c       options, and one process per model and machine
//
// A record is the text that the golden file of a machine holds (tests/golden/replay/MACHINE.txt).
// It has a section per model:
//
//   model resnet50@bf16 4bf0c1d2 55 steps
//   0 01234567 fedcba98 tile 128x64 k64 stages 8 ...
//
// The first line has a hash of the program: the order of its steps, what they read and write, where
// values are.  The line of a kernel has its number, the hash of its loops, the hash of its text in
// the machine's language, and the name of its schedule for people, which is not compared.  A hash
// is 32 bits: it finds a change, it proves nothing to an adversary.
#ifndef TENON_TESTS_REPLAY_H
#define TENON_TESTS_REPLAY_H

#include "base/base.h"
#include "compile/compile.h"
#include "ir/ir.h"

typedef enum { REPLAY_F32 = 1, REPLAY_BF16 = 2, REPLAY_TF32 = 4 } ReplayPrecision;

// One machine that kernels are recorded for.  Nothing of it depends on the machine that runs the
// test.
typedef struct ReplayMachine {
  const char *name;          // of its golden file
  const char *triple, *cpu;  // of a CPU; else NULL
  const char *device;        // of CUDA: the chip; else NULL.  Neither: an OpenCL GPU
  const char *language;      // ending of a dumped text
  const char *like;  // an earlier machine, or NULL: sections that are equal there are not written
  unsigned precisions;  // ReplayPrecision that models are recorded in
  unsigned also;        // those that they are recorded in when asked for: MODEL@tf32
} ReplayMachine;
extern const ReplayMachine replay_machines[];
extern const int replay_nmachines;

typedef struct ReplayKernel {
  const char *name;  // of its schedule
  Str loops, text;
} ReplayKernel;
typedef struct ReplayProgram {  // in the arena of the call
  ReplayKernel *kernel;
  int64_t nkernels;
  uint64_t steps;  // a hash
  int64_t nsteps, nhost;
} ReplayProgram;
// Optimises g, which is changed, and compiles it.
MUST_USE tenon_status replay_build(const ReplayMachine *m, ReplayPrecision p, Graph *g, Arena *a,
                                   Diag *d, CompileReport *out);
// The same, with every kernel's texts.
MUST_USE tenon_status replay_compile(const ReplayMachine *m, ReplayPrecision p, Graph *g, Arena *a,
                                     Diag *d, ReplayProgram *out);

// What is recorded.
typedef struct ReplayTask {
  const ReplayMachine *machine;
  const char *path;  // of a model; NULL: the samples of every op
  ReplayPrecision precision;
} ReplayTask;
typedef struct ReplayOptions {
  const char *dump;  // a folder that the texts are written to; or NULL
  const char *show;  // a kernel's number: its texts are printed; or NULL
  bool why;          // of cliffs: which sample, and what templates said, on the standard error
} ReplayOptions;
// A graph that cannot be compiled is a line of the record.  False: the model cannot be read.
bool replay_record(const ReplayTask *t, const ReplayOptions *o, Arena *a, StrBuf *out);
const char *replay_model_name(Arena *a, const ReplayTask *t);

// The golden files of a folder.
typedef struct ReplayGolden {
  const char *folder;
  bool whole;     // the record has all models: others are gone
  int64_t limit;  // of changes that are printed
} ReplayGolden;
// Compares a record with the golden file, prints the changes and a summary.  Without `whole`,
// models that the record does not have are left alone.  False: something changed.
bool replay_compare(const ReplayGolden *g, const ReplayMachine *m, Str record);
// Writes the record's models over those of the golden file; with `whole`, in place of all.
MUST_USE tenon_status replay_update(const ReplayGolden *g, const ReplayMachine *m, Str record,
                                    Diag *d);

// ---- cliffs ----
// A record of these has a line for each count: kind, model, template or op, number.  False: the
// model cannot be read.
bool cliffs_record(const ReplayTask *t, const ReplayOptions *o, Arena *a, StrBuf *out);
// Compares with the golden file, and prints what is more and what is less; models that the record
// does not have are left alone.  False: something changed.
bool cliffs_compare(const ReplayGolden *g, const ReplayMachine *m, Str record);
MUST_USE tenon_status cliffs_update(const ReplayGolden *g, const ReplayMachine *m, Str record,
                                    Diag *d);

#endif
