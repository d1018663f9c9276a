// session.h -- running a program: one caller's buffers, threads and state.
//
// A session holds one arena, laid out for the sizes of the last call and kept while they stay the
// same.  Calls of one session must not overlap; different sessions of one program may run at the
// same time.
#ifndef TENON_RUNTIME_SESSION_H
#define TENON_RUNTIME_SESSION_H

#include "runtime/program.h"

typedef struct Session Session;

typedef struct StepTime {       // of one step of a function, over all calls since it was asked for
  int64_t calls, ns;            // of concurrent steps each has its share of their time
  int64_t last_begin, last_ns;  // of the last call, by the platform's clock
} StepTime;
// Told of each result of a step of the main function once it is made; an error ends the run.
typedef tenon_status SessionObserver(void *ctx, const ProgStep *st, int32_t value, const Value *v);
typedef struct SessionOptions {
  int threads;               // 0: what affinity and cgroup allow
  bool profile;              // measure every step
  SessionObserver *observe;  // may be NULL
  void *observe_ctx;
} SessionOptions;

// Retains the program.
MUST_USE tenon_status session_create(Program *p, const SessionOptions *o, Diag *d, Session **out);
void session_free(Session *s);  // NULL is fine
const Program *session_program(const Session *s);
int session_threads(const Session *s);
// Of a function of the program, 0 the model, by step; NULL without `profile`.  A step that calls a
// body has that body's time, too.
const StepTime *session_times(const Session *s, int32_t function);
void session_reset_times(Session *s);
int64_t session_arena_bytes(const Session *s);    // of the last call
int64_t session_scratch_bytes(const Session *s);  // of all threads
// Allocates the arena for these values of symbols, by name, so that no run of at most these sizes
// asks for more.  EINVAL where a size depends on another symbol.
MUST_USE tenon_status session_reserve(Session *s, const char *const *symbol, const int64_t *value,
                                      int64_t n, Diag *d);
int64_t session_device_bytes(
    const Session *s);  // that it has of all devices, with the program's constants there
int64_t session_device_memory(const Session *s);  // that the smallest device has; 0: there is none

// ---- states: parameters of the model that runs change in place (program.h) ----
//
// The memory of a state is bound once, or given with each call as an input.  It is read and written
// in place and never copied.  A state without memory whose sizes are all numbers, or follow
// from the other inputs of its first call, gets zeros of the session's own.
typedef struct StateInfo {
  const char *name;
  DType dtype;
  int32_t rank, param;  // param: its number among the inputs
  bool on_device;       // its memory is the session's, on a device
} StateInfo;
int32_t session_state_count(const Session *s);
StateInfo session_state(const Session *s, int32_t i);
int32_t session_find_state(const Session *s, const char *name);  // -1: there is none
// Its sizes where these symbols have these values (session_program has their names); EINVAL where
// one depends on another symbol, or is no size.
typedef struct SymbolValue {
  const char *name;
  int64_t value;
} SymbolValue;
MUST_USE tenon_status session_state_dims(const Session *s, int32_t i, const SymbolValue *sym,
                                         int64_t nsyms, int64_t *dims, Diag *d);
// The caller's memory, aligned to its elements, which must hold them and outlive the session's
// runs; contents stay.  Data NULL, which a state on a device must have: zeros of the session's own.
MUST_USE tenon_status session_bind_state(Session *s, int32_t i, void *data, const int64_t *dims,
                                         Diag *d);
// A copy of what it holds now, for tests and dumps.
MUST_USE tenon_status session_read_state(Session *s, int32_t i, void *to, Diag *d);

// Where a result is to be written; data NULL or too little room: into memory of the run.
typedef struct ResultRoom {
  void *data;
  int64_t bytes;
} ResultRoom;

// Whose memory a tensor lies in.
typedef struct TensorHome {
  const char *driver;  // NULL: the host's
  int32_t number;      // of the device, as its driver counts
} TensorHome;
// Where a call's tensors lie that are not the host's, and how it is ordered.
typedef struct SessionPlaces {
  const TensorHome *in, *out;  // by parameter and result; NULL: all are the host's
  // The driver's stream that all work goes into; then a call whose results are all on devices need
  // not have ended on return.  NULL: it has, and what it reads must be there when it begins.
  void *stream;
} SessionPlaces;

// Runs the model.  `run` must be fresh from run_init and live as long as its results are used; its
// limits hold.  Inputs are checked against the parameters; an absent optional one is NULL, and so
// is a state that is bound.  `room`
// may be NULL.  On success out[i] holds one reference each.
MUST_USE tenon_status session_run(Session *s, Run *run, Value *const *inputs,
                                  const ResultRoom *room, Value **out);
// The same where `places` says; NULL: as above.  A parameter's Value then has an address of its
// device as data, and so has a result's.
MUST_USE tenon_status session_run_on(Session *s, Run *run, Value *const *inputs,
                                     const ResultRoom *room, const SessionPlaces *places,
                                     Value **out);
// Waits for all calls that have not ended, and says whether they succeeded; the session can be used
// again in any case.
MUST_USE tenon_status session_wait(Session *s, Run *run);

#endif
