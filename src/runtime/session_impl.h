// session_impl.h -- what the files of a session share.
#ifndef TENON_RUNTIME_SESSION_IMPL_H
#define TENON_RUNTIME_SESSION_IMPL_H

#include "runtime/device_run.h"
#include "runtime/session.h"
#include "runtime/workers.h"

// Where a value is during a call.
typedef struct Cell {
  char *data;    // of a tensor; NULL before it is made
  Value *value;  // PLACE_HEAP, parameters, and results that the run keeps; one reference
} Cell;

// A function's buffers, kept from call to call.  A function never calls itself, so one set is
// enough.
typedef struct Frame {
  const ProgFunction *f;
  Cell *cell;
  int64_t *offset;  // of each root
  char *memory;
  int64_t memory_bytes;        // allocated
  int64_t arena_bytes;         // used by the last layout
  int64_t *laid_out;           // symbol values that the layout holds for
  StepTime *times;             // by step; NULL where nothing is measured
  EvalKeep *keep;              // by step: what prepared evaluations made; NULL before the first
  struct DeviceFrame *device;  // where the program has devices
  bool valid;
} Frame;

// A parameter that is a state, and its memory.
typedef struct SessionState {
  int32_t param;
  Value value;        // data NULL: it has none yet
  int64_t own_bytes;  // of memory that the session made; 0: the caller's
  bool bound;
  struct DeviceBuffer *buffer;  // its memory, where it is on a device; value.data is NULL then
} SessionState;

struct Session {
  Program *program;
  const ProgCode *swapped;  // Program.swapped, of this run
  Arena arena;
  Workers *workers;
  Pool *pool;  // of host steps; made when first needed
  int64_t *sym;
  int32_t *trail;  // symbols in the order in which they were bound
  int32_t ntrail;
  Frame *frame;                  // by function
  const DeviceRun *device_run;   // NULL: everything is on the host
  struct DeviceSession *device;  // its own
  const SessionPlaces *places;   // of this call; or NULL
  SessionState *state;           // of the model, in the order of its parameters
  int32_t nstates;
  const ResultRoom *room;  // of this call's results; or NULL
  const bool *needed;      // by step of the model: whether this call does it; NULL: all are
  char *scratch;
  int64_t scratch_each, scratch_bytes;
  struct KernelJob *job;  // of the kernels that run
  bool timed;
  SessionObserver *observe;
  void *observe_ctx;
};

// state.c: the value of a parameter that is a state: what the call gives, else what is bound, else
// zeros of its size where that is known.
tenon_status session_state_value(Session *s, Run *run, int32_t param, Value **v);
void session_free_states(Session *s);
tenon_status session_call(Session *s, Run *run, const ProgFunction *f, Value *const *in,
                          const ResultRoom *room, Value **out);
// needed.c: the steps of the model that the wanted results of this run need; NULL: all.
const bool *session_needed_steps(const Session *s, Run *run);
static inline bool session_needs(const Session *s, const Frame *fr, const ProgStep *st) {
  return !s->needed || fr != s->frame || s->needed[st - fr->f->step];
}
// kernel.c: concurrent kernels over all threads: st and its `more`.
void session_make_job(Session *s);  // once there are workers; memory of the session
tenon_status session_kernels(Session *s, Run *run, const Frame *fr, const ProgStep *st);
// One kernel's share of the time that the last concurrent kernels took: by how long threads worked
// on it.
int64_t session_kernel_time(const Session *s, const ProgStep *st, int64_t ns);
// Why a step failed: what its kernel said.
tenon_status session_say_failed(const Session *s, Run *run, const ProgStep *st, int failed);
// Many items may walk over nothing at all.
enum { MANY_ITEMS = 4096 };
bool session_results_empty(const Session *s, const Frame *fr, const ProgStep *st);
// host.c: one evaluation of src/eval.
tenon_status value_detach(Session *s, Run *run, Value **v);
tenon_status session_host(Session *s, Run *run, Frame *fr, const ProgStep *st);

// ---- values during a call (values.c) ----
// The sizes of a value; false when one is not known yet.
bool value_bytes(const Session *s, const ProgValue *v, int64_t *bytes);  // false: not known
bool cell_dims(const Session *s, const ProgValue *v, int64_t *dims);
// Fails where cell_dims does: a wrong input where a size is negative, else a defect.
tenon_status size_unknown(const Session *s, Run *run, const ProgValue *v, Where at);
// Binds symbols by an actual shape and compares what is known.
bool bind_shape(Session *s, const ProgValue *v, const Value *actual);
tenon_status wrong_shape(const Session *s, Run *run, Where at, const char *what, const ProgValue *v,
                         const Value *actual);
// A Value that shows the cell's tensor, for an evaluation; one reference, to be released.
tenon_status cell_value(Session *s, Run *run, const Frame *fr, int32_t value, Value **out);
// Memory for a value that a step is about to make.
tenon_status cell_make(Session *s, Run *run, Frame *fr, int32_t value, Where at);

#endif
