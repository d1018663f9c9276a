// target.h -- what turns the kernels of a program into something that runs.
//
// Each target is a row.  `build` completes a program that lower_program made: gives it code, or a
// way to interpret its kernels.  The texts and their loops live in the arena that lower_program was
// given.
#ifndef TENON_TARGETS_TARGET_H
#define TENON_TARGETS_TARGET_H

#include "base/cache.h"
#include "base/machine.h"
#include "ir/pass.h"
#include "lower/lower.h"
#include "runtime/device.h"

typedef struct TargetOptions TargetOptions;
typedef struct Target {
  const char *name, *doc;
  bool host_only;    // no kernel is lowered
  bool keeps_loops;  // the lowering's arena must live as long as the program
  // What schedules are chosen by.
  void (*describe)(const Machine *m, LowerTarget *out);
  // On this machine; NULL: everywhere.  *why: the reason, where it is not.
  bool (*available)(const char **why);
  // What it needs while a model is compiled, which may be NULL for want of it; NULL: nothing.
  void *(*open)(const TargetOptions *o);
  void (*close)(void *opened);
  // Its programs may be kept in the cache: they follow from the graph, the options and the machine.
  // What they are kept under; false: there is no code generator.  NULL: they are not kept.
  bool (*maker)(int threads, Arena *a, CacheMaker *out);
  // Whether a kernel was verified when its code, which is kept, was made; NULL: never.
  bool (*verified)(void *opened, const TargetOptions *o, Str text);
  // A kernel that cannot be made is no error: it joins o->faults.
  MUST_USE tenon_status (*build)(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d);
  // A target that runs on a device has a driver (runtime/device.h) and these in place of
  // `describe`, `open` and `build`: what schedules are chosen by there; text under way, in the
  // arena; whether a kernel can be written, which is then the next one of the text; the code of
  // all; and one kernel's part of it, for people.
  const char *driver;
  const struct Target *with;  // that makes the host's kernels, where the work is shared; NULL: the
                              // device has them all
  void (*describe_device)(const DeviceInfo *i, LowerTarget *out);
  void *(*begin)(const DeviceInfo *i, const TargetOptions *o, Arena *a);
  tenon_status (*takes)(void *text, const LoopKernel *k, const char **why);
  MUST_USE tenon_status (*finish)(void *text, Diag *d, Str *code);
  Str (*kernel_text)(Str code, int64_t n);  // of kernel n, in the code of all; empty: there is none
} Target;

// NULL when there is none.  "cpu,opencl", in any order, is the graph split over both.
const Target *target_find(const char *name);
// What a message about an unknown name ends with: the one that was meant, and all there are.
const char *target_hint(const char *name, Arena *a);
extern const Target *const target_table[];   // NULL-terminated
extern const Target *const target_shared[];  // the same, of targets that share the work

bool target_available(const Target *t);
bool target_is_tampered(void);  // a test's variable in the environment gives it other traits
// What passes and the plan should know of it, on that device (NULL: its first); in the arena.
// Without such a device they are those of no GPU; a device that is here and cannot be opened is an
// error, so that traits never depend on luck.
MUST_USE tenon_status target_traits(const Target *t, const char *device, Arena *a, Diag *d,
                                    const TargetTraits **out);
bool target_there(const Target *t, const char **why);  // the same, with the reason
const Target *target_auto(void);                       // the fastest that is available
// How fast it is here, in operations a second, roughly; 0: it is not available.  Only for what auto
// chooses from.
double target_speed(const Target *t);

typedef struct KernelReport {
  const char *label;  // what people call it (lower.h); of the first where several have its text
  const char *name;   // its schedule
  double ms;          // by the wall's clock
  bool cached;
  int64_t bytes;
} KernelReport;
typedef struct TargetReport {  // in the arena of the call
  double lower_ms, build_ms;
  KernelReport *kernel;  // NULL: the target does not say
  int64_t nkernels;
  bool quick;     // some kernels have quick code
  Str text;       // with TargetOptions.text
  int64_t nhost;  // as in Compiled
  const HostKernel *left;
  const DeclinedKernel *declined;
  int64_t ndeclined;
  const UntunedKernel *untuned;
  int64_t nuntuned;
} TargetReport;
typedef enum { TEXT_NONE, TEXT_ASM, TEXT_LLVM } TargetText;  // of every kernel
// How much work machine code is worth (compile/options.def, `tier`): all; little, and all in the
// background; little.
typedef enum { TIER_FULL, TIER_AUTO, TIER_QUICK } CodeTier;
struct TargetOptions {
  const Machine *machine;  // that code is made for; NULL: this one
  bool no_cache;
  CodeTier tier;
  const char *key;       // joins the key of the cache of kernels; NULL or "": nothing does
  bool batch_invariant;  // as in LowerTarget
  bool lower_only;       // loops alone: the program has no code
  // For tests: what the host's schedules are chosen by; NULL: the target says.
  const LowerTarget *described;
  bool checked;             // code that checks every access, for tests
  TargetText text;          // also, for the report
  TargetReport *report;     // may be NULL
  int threads;              // that compiling may use; 0: what affinity and cgroup allow
  const DimBinding *sizes;  // that work is counted at; NULL: the plan's
  const Watch *watch;       // told of each node and kernel; may be NULL
  Compiled *compiled;       // gets the kernels' texts and the values' origins; may be NULL
  // Target c: gets the source instead of having it compiled; how it is written, NULL: one file;
  // flags of the compiler.
  struct CSource *c_source;
  const struct CSourceOptions *c_options;
  const char *cflags;
  const char
      *device;  // which of the driver's devices (`tenon targets` lists them); NULL: its own choice
  // Where kernels go in spite of the cost model, of a target that shares the work: split.h; the
  // last rule that fits counts.
  const char *const *place;
  int64_t nplace;
  const char *const *schedule;  // as in LowerOptions
  int64_t nschedules;
  const TunedSchedules *tuned;  // as in LowerOptions
  bool tuned_strict, workloads, no_residual;
  bool strict;  // a kernel that cannot be made as it was chosen is an error
  // Kernels without code, which target_compile sets for `build`: that adds what it cannot make, and
  // the graph is lowered again.
  KernelFaults *faults;
  void (*tamper)(void *ctx, const char *template_name,
                 LoopKernel *k);  // for tests, as in LowerOptions
  void *tamper_ctx;
};
// Lowers a planned graph and builds its kernels.  The compile driver calls it (compile/compile.h).
MUST_USE tenon_status target_compile(const Target *t, Graph *g, const MemPlan *plan,
                                     const TargetOptions *o, Arena *a, Diag *d, Program **out);

#endif
