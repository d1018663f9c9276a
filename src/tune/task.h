// task.h -- the distinct kernels of a model, each as a graph of its own that can be built and
// timed.
//
// A task is a workload (lower/workload.h) with the values that its operands have in a run of the
// model.  Its graph is one `fused` node over parameters; constants stay the model's.  The body's
// parameters are the model's own, which bind the symbols, and then the operands that kernels make.
#ifndef TENON_TUNE_TASK_H
#define TENON_TUNE_TASK_H

#include "base/machine.h"
#include "compile/compile.h"
#include "energy/meter.h"
#include "runtime/session.h"
#include "tune/trial.h"

typedef struct TuneTask {
  const char *key, *workload, *label;
  const char *dflt;     // the schedule that the templates choose
  const Node *node;     // in the model
  Body *body;           // with the node alone
  MemPlan *plan;        // of that body
  Value **in;           // [body->nparams]
  int64_t uses;         // kernels of the model that compute it
  double ns;            // that they take a run of the model, with the default schedule
  int64_t const_bytes;  // of its constant operands
} TuneTask;

// All but the graph, the options and the inputs is in `arena`, or the session's.
typedef struct TuneModel {
  Graph *g;
  CompileOptions o;  // for the target cpu, without schedules
  Arena *arena;
  Diag *diag;
  Run *run;            // holds the inputs, and what kernels read
  Value **in;          // of the model
  int threads;         // of what is timed
  bool reorder;        // schedules may form sums in another order
  TrialPhase confirm;  // what decides: TRIAL_CONFIRM (time), TRIAL_ENERGY or TRIAL_EDP
  Meter *meter;        // of the latter two
  double idle_watts;   // that the machine takes at rest
  bool remote;  // workers time the kernels: nothing runs here, and tasks have no values or times
  Body *main;   // of the model
  MemPlan *plan;
  Machine machine;
  LowerTarget target;
  const char *machine_text;  // as schedule files have it (lower/tuned.h)
  TuneTask *task;            // the longest first
  int64_t ntasks;
  int64_t nleft;      // kernels that are no task: in bodies, in place, or not by loops
  double ns;          // of a run of the model
  int64_t run_bytes;  // that a run of the model touches, roughly
  Program *held;      // whose constants operands may lie in
} TuneModel;

// Optimises the graph and finds its tasks.  The fields up to `remote` are the caller's.
MUST_USE tenon_status tune_open(TuneModel *m);
void tune_sort(TuneModel *m);  // tasks by their times
void tune_close(TuneModel *m);
// Compiles the model with these schedules (may be NULL).
MUST_USE tenon_status tune_compile(TuneModel *m, const TunedSchedules *s, Program **out);
// One run of a session with one thread.  Its time is the kernels' by the wall's clock, or with
// `processor` the thread's processor time of the whole run, which others that compete for the core
// do not lengthen.  `room`: where results go; NULL: memory of the run.
MUST_USE tenon_status tune_run(Session *s, Value *const *in, const ResultRoom *room, bool processor,
                               Diag *d, int64_t *out_ns);
// The bytes of all results.
MUST_USE tenon_status tune_results(Session *s, Value *const *in, Arena *a, Diag *d, Str *out);

#endif
