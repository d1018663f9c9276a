// api.h -- what stands behind the handles of the public header.
#ifndef TENON_API_API_H
#define TENON_API_API_H

#include "api/model.h"
#include "runtime/session.h"

#include <pthread.h>
#include <stdatomic.h>

// Read-only once open but for the pool, which is started by the first run, under the lock.
struct tenon_model {
  Arena arena;  // all below but the model and the pool
  Model *model;
  CustomOp *custom;  // the user's operators; user points to their ApiOp
  Strs given;        // inputs with a default that stay inputs
  const InputType *types;
  int64_t ntypes;
  const char *signature;  // NULL: the first sub-graph
  const char *weights;    // a file; NULL: the model's own
  Weights *tensors;       // the caller's; or NULL
  tenon_value_info *input, *output;
  int32_t threads;
  int64_t memory_limit;
  pthread_mutex_t lock;
  Pool *pool;  // NULL until the first run
};

// Read-only once made.
struct tenon_program {
  Arena arena;  // all below but the program; what its target keeps of the lowering
  Program *program;
  CustomOp *custom;
  const char *target;
  tenon_value_info *input, *output;
  size_t ninputs, noutputs;
  const char *const *warning;  // of its compilation
  size_t nwarnings;
  atomic_int refs;
};

typedef struct State {
  size_t input, output;
  bool has_value;
  tenon_tensor now, next;  // next: room for an output of fixed size; else no data
} State;

struct tenon_session {
  Arena arena;
  tenon_program *program;
  Session *session;
  int64_t memory_limit;
  RunKeep keep;
  // Of tenon_session_run_bound: data NULL where nothing is bound.
  tenon_tensor *bound_in, *bound_out;
  bool *is_bound;      // by input: an empty tensor has no data
  tenon_tensor *own;   // by output: what the last run allocated
  tenon_tensor *last;  // by output: views of the last run
  bool has_last;
  State *state;
  size_t nstates;
};

// The caller gave NULL for `what` ("session").
MUST_USE tenon_status api_missing(const char *what, tenon_error *error);

// Fills the caller's error, which may be NULL, and returns `status`.
tenon_status api_error(tenon_error *error, const Diag *d, tenon_status status);

// The first `size` bytes of an options struct of the caller's version: what it lacks stays as it is
// here.  False when the size is none that any version had.
bool api_take_options(void *to, size_t size, const void *from, size_t least);

// struct_size of the options is wrong.
tenon_status api_wrong_options(Diag *d, size_t got, size_t want);

// ---- tensors of a run (tensors.c) ----
typedef struct RunCall {
  const tenon_value_info *input, *output;  // what the model takes and gives
  size_t want_in, want_out;
  const tenon_tensor *in;
  size_t nin;
  tenon_tensor *out;
  size_t nout;
  Run *run;
  Diag *d;
  void *stream;                    // of a session: the caller's
  TensorHome *in_home, *out_home;  // of a session: the memory of tensors; NULL: all are the host's
  tenon_tensor *spare;  // by output: memory for one that the caller leaves to us, taken if it is
                        // enough; or NULL
} RunCall;
// The numbers of tensors, and that all are tensors.
MUST_USE tenon_status api_check_counts(const RunCall *c);
MUST_USE tenon_status api_take_inputs(const RunCall *c, Value **out);
// Whose memory tensors lie in, where some are not the host's: in_home and out_home.
MUST_USE tenon_status api_find_homes(RunCall *c);
// A tensor must be the host's.
MUST_USE tenon_status api_need_host(const tenon_tensor *t, Where at, Diag *d);
// Checks every buffer, allocates what the caller left to us, and copies what does not lie there
// yet.
MUST_USE tenon_status api_give_outputs(const RunCall *c, Value *const *v);
// Where output `i` can be computed: the caller's buffer, or spare memory; false: nowhere yet.
bool api_room(const RunCall *c, size_t i, ResultRoom *out);
// What one input must be, before a run.
MUST_USE tenon_status api_check_input(const RunCall *c, size_t i);
// Zeros of a tensor whose type is fixed; a copy of one, strings excepted.
MUST_USE tenon_status api_make_tensor(const tenon_value_info *v, Diag *d, tenon_tensor *out);
MUST_USE tenon_status api_copy_tensor(const tenon_tensor *from, Diag *d, tenon_tensor *out);
// A copy, with the text of strings in it, of a run's tensor or of a caller's, which is checked.
MUST_USE tenon_status api_tensor_of(const Value *v, Where at, Diag *d, tenon_tensor *out);
MUST_USE tenon_status api_copy_input(const tenon_tensor *t, Where at, Diag *d, tenon_tensor *out);
// The limits of a run: none is negative; and sets them.
MUST_USE tenon_status api_check_limits(const tenon_run_options *o, Diag *d);
// The outputs that are wanted, as the run knows them; needs a Trap.
MUST_USE tenon_status api_take_wanted(const tenon_run_options *o, size_t noutputs, Run *r);
void api_limit_run(Run *r, const tenon_run_options *o, int64_t memory_limit);

// ---- a run of values (values.c has the rest of it) ----
MUST_USE tenon_status api_run_model(tenon_model *m, Run *r, Value *const *in, Value **out);
MUST_USE tenon_status api_run_session(tenon_session *s, Run *r, Value *const *in, Value **out);

// ---- values that a session keeps (state.c) ----
MUST_USE tenon_status state_declare(tenon_session *s, const tenon_state_pair *pairs, size_t n,
                                    Diag *d);
void state_release(tenon_session *s);
// The run's wanted outputs and those that are states.
const bool *state_want(const tenon_session *s, Run *r);
bool state_is_input(const tenon_session *s, size_t input);
// Before a run: fills in the inputs that are left out, and gives outputs the room of the session.
MUST_USE tenon_status state_enter(const tenon_session *s, tenon_tensor *in, tenon_tensor *out,
                                  Diag *d);
// After one that succeeded: what it gave, `got`, becomes the state; `outputs` are the caller's.
MUST_USE tenon_status state_leave(tenon_session *s, tenon_tensor *got, tenon_tensor *outputs,
                                  Diag *d);

// The program's own description of what it takes and gives (program.c).
void api_describe_program(tenon_program *p);
// An evaluation of one of the user's operators: Run.foreign, with the list of them.
tenon_status api_foreign(const void *custom, Eval *e);
// The same operators, in another arena.
CustomOp *api_retain_ops(Arena *a, const CustomOp *list);

// The list for the importer.  EINVAL when an entry is incomplete.
MUST_USE tenon_status api_copy_ops(Arena *a, const tenon_op *ops, size_t n, Diag *d,
                                   CustomOp **out);

#endif
