// program.h -- a compiled model as the runtime sees it: functions of steps over values at planned
// places.
//
// A Program is read-only once built or loaded, and may be shared by any number of sessions.
// Everything it refers to is an index into one of its tables, so that it can be written to a file
// and checked when read back.
//
// Sizes are integer expressions over the program's symbols, in postfix code.  A symbol gets its
// value from the first shape that mentions it alone: a parameter's at the start of a call, a host
// step's result afterwards; what a function bound is unbound again when it returns.  Every other
// size that is known is compared with what is found.
//
// Invariants (program_check): every index lies in its table; a step reads only parameters,
// constants and what earlier steps made; a constant has the bytes of its shape; code entries lie in
// the code; an expression's stack never runs empty or over; concurrent steps are kernels, at most
// STEP_MORE + 1, of which none reads or writes what another writes; no function comes back to
// itself through bodies, and none lies in more than BODIES_DEEP others; a part of a result begins
// in a result that is no part.
//
// States.  A parameter may be a state: memory of the caller's or the session's that runs change.
// Every value of PLACE_STATE is a version of one, in the same memory, and has its type.  Versions
// are made by kernels and copies, one after another; once a version is made, no step reads an
// earlier one or a view of it.  States are the model's alone.  All versions are on the state's
// device; one of another device than the host is the session's.  The kernel that makes a version
// writes some elements of it and reads none that it writes.
//
// Devices.  A program may have kernels for machines other than the host: each value is in the
// memory of one device, and a value that is needed on another has a second ProgValue there, made by
// a STEP_COPY.  A device's memory is a mirror of the host's: its arena has the same roots at the
// same offsets; PLACE_RESULT and PLACE_HEAP on a device are buffers of the session's, for what
// becomes a result and for what is no part of the plan, such as copies of parameters.  Parameters,
// results, and what host steps read and make are values of the host; a kernel's arguments are all
// on its device; a view is where its operand is; concurrent steps are the host's.
#ifndef TENON_RUNTIME_PROGRAM_H
#define TENON_RUNTIME_PROGRAM_H

#include "eval/eval.h"

#include <stdatomic.h>

typedef int32_t KernelFn(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                         void *scratch);
// How an interpreted kernel ends besides: no check of its own.
enum { KERNEL_OUT_OF_BOUNDS = 1 << 20, KERNEL_NO_MEMORY };

// ---- sizes ----
typedef enum {
  PX_CONST,  // followed by the number
  PX_SYM,    // followed by the symbol
  PX_ADD,
  PX_MUL,
  PX_DIV,  // floor
  PX_MOD,
  PX_MIN,
  PX_MAX,
  PX_BCAST,  // a == 1 ? b : a
  PX_OPS
} ProgOp;
enum { PX_STACK = 64 };
typedef struct ProgExpr {
  int32_t n;
  const int64_t *code;
} ProgExpr;
typedef struct ProgSym {
  const char *name;
  int64_t lo, hi;
} ProgSym;
#define SYM_UNBOUND INT64_MIN

// ---- values ----
typedef enum {
  PLACE_NONE,    // an absent operand
  PLACE_PARAM,   // slot: parameter of the function
  PLACE_CONST,   // slot: constant of the program
  PLACE_ARENA,   // slot: root of the function's arena
  PLACE_RESULT,  // slot: result of the function, written where the caller wants it
  PLACE_HEAP,    // a Value of its own: sizes that depend on data, strings, sequences
  PLACE_STATE,   // slot: the parameter that is the state, of which this is a version
} ProgPlace;
typedef struct ProgValue {
  uint8_t place;
  uint8_t kind;    // ValueKind
  uint8_t item;    // ValueKind of what a sequence or an optional holds
  uint8_t device;  // index into the program's table; 0: the host
  DType dtype;     // of a tensor; of the tensors in a list, where known
  int32_t rank;    // -1: not known before it is made
  int32_t slot;
  int32_t at;  // expression: bytes from the start of its slot, where it is a part of what lies
               // there; -1: none
  const int32_t *dim;  // [rank] expressions, -1 where not known
  const char *name;    // for messages and profiles; may be NULL
} ProgValue;

typedef struct ProgRoot {  // a piece of the arena
  int32_t bytes;           // expression; rounded up to 64 by whoever made it
  int32_t nbelow;
  const int32_t *below;  // roots that end before this one begins; each has a lower number
} ProgRoot;

typedef struct ProgConst {
  DType dtype;
  int32_t rank;
  const int64_t *dims;
  int64_t offset,
      bytes;  // in the constant section, aligned as prog_const_align says; strings: each its length
              // (8 bytes) and its bytes
  const void *data;  // where that is now; strings: an array of Str in the program's arena
} ProgConst;

// ---- steps ----
typedef enum {
  STEP_KERNEL,  // generated code
  STEP_HOST,    // an evaluation of src/eval
  STEP_VIEW,    // result 0 begins where operand 0 does: another shape of it, or all operands
                // contiguously
  STEP_COPY,    // result 0 gets the bytes of operand 0, which may be on another device
} ProgStepKind;
enum { STEP_MORE = 7 };
typedef struct ProgStep {
  uint8_t kind;
  int32_t kernel;  // STEP_KERNEL
  const char *op;  // STEP_HOST: name in eval/table.h; else what `explain` and profiles call it
  const struct EvalOp *eval;  // STEP_HOST: what `op` names
  const char *node;           // origin, for messages; may be NULL
  const void *attrs;          // STEP_HOST: the op's struct; a body is a `const ProgFunction *`
  int32_t nin, nout;          // operands and results, by value; STEP_KERNEL: arguments are in `arg`
  const int32_t *in, *out;    // -1: absent
  int32_t nargs, ndims;
  const int32_t *arg;        // STEP_KERNEL: values, in the kernel's order
  const int32_t *dim;        // STEP_KERNEL: expressions
  int32_t items;             // STEP_KERNEL: expression
  int32_t nsame;             // sizes that must be equal, or nothing is read
  const int32_t *same, *as;  // expressions
  const char **what;         // what they are the sizes of
  int32_t when;              // expression: the step is left out where it is 0; -1: always done
  // STEP_KERNEL: number of following steps that run concurrently with it: independent kernels.
  // Theirs are 0.
  int32_t more;
  int64_t grain;  // STEP_KERNEL: fewer items than this are not worth another thread
  int32_t nfree;
  const int32_t *free;  // heap values that nobody needs after this step
  double flops, bytes;  // at the reference sizes, for profiles
} ProgStep;

enum { BODIES_DEEP = 200 };  // as of the readers: each is a call inside a call

typedef struct ProgFunction {
  const char *name;
  int32_t index;  // in the program's table
  int32_t nvalues, nroots, nsteps, nparams, nresults;
  ProgValue *value;
  ProgRoot *root;
  ProgStep *step;
  const int32_t *param;   // value of each parameter
  const int32_t *result;  // value of each result
  const char **result_name;
  // Of the model: the number of valid values of a parameter that is an index, 0: it is none.  For
  // random inputs; the list may be shorter than the parameters.
  int32_t nranges;
  const int64_t *range;
} ProgFunction;

typedef struct ProgKernel {
  const char *name;  // for people
  // How it was made: the template that wrote its loops, and the fields of its schedule, "rows=14
  // cols=32".  Words alone: nothing here reads them.
  const char *template_name, *schedule;
  uint8_t device;  // that runs it
  int64_t entry;   // offset in the code; of a device: its number among the device's kernels
  int64_t scratch_bytes;
  int32_t group;         // of a device: threads that share an item; 1: each item is one thread's
  int64_t shared_bytes;  // of a device: memory of a group
  int32_t nargs, ndims, nchecks;
  const char **check;
} ProgKernel;

// A machine that kernels run on.  Number 0 of the table is the host, which has no driver.
typedef struct ProgDevice {
  const char *driver;    // "opencl": row of device.h
  const char *made_for;  // the device that schedules were chosen for, in words
  Str code;              // what the driver loads: source or binary
  const char
      *pick;      // which of the driver's devices; NULL: its own choice.  Not part of an artifact
  bool no_cache;  // what the driver makes of the code is not kept.  Nor is this
} ProgDevice;
enum { DEVICES_MAX = 8 };

// Code of all kernels of the host, in place of that which the program was built with.
typedef struct ProgCode {
  const char *code;  // executable, mapped
  int64_t code_bytes;
  const int64_t *entry;  // as ProgKernel.entry, by kernel
} ProgCode;

typedef struct Program {
  Arena arena;
  int32_t nsyms, nexprs, nfunctions, nconsts, nkernels, ndevices;
  ProgSym *sym;
  ProgExpr *expr;
  ProgFunction **function;  // 0 is the model
  ProgConst *constant;
  ProgKernel *kernel;
  ProgDevice *device;  // [ndevices]; ndevices is 0 where the host does everything
  // What runs steps on devices, where some are on one (program_use_devices), and what it keeps for
  // the program: so that a program of the host alone needs no driver.
  const struct DeviceRun *device_run;
  struct DeviceKept *_Atomic device_kept;
  const char *constants;  // section: page-aligned, in memory or mapped
  int64_t constants_bytes;
  int64_t mapped_bytes;  // of them: pages of the model's file, mapped in place
  const char *code;      // executable, mapped
  int64_t code_bytes;
  // A program that was built with quick code gets full code once, while sessions use it: each takes
  // it at the start of a run.  Both live as long as the program.  `settle` waits for it, and says
  // why there is none; NULL: the code is full.
  const ProgCode *_Atomic swapped;
  tenon_status (*settle)(const struct Program *p, Diag *d);
  struct Upgrade *upgrade;  // who makes it
  // Who writes it to the cache in the background, and what ends that before anything is freed;
  // NULL: nobody does.
  struct ProgramKeeper *keeper;
  void (*stop_keeper)(struct Program *p);
  // Instead of code, where kernels are interpreted: `size` holds the bytes of each argument.
  int32_t (*invoke)(const struct Program *p, int32_t kernel, void *const *args, const int64_t *size,
                    const int64_t *dims, int64_t begin, int64_t end);
  void *invoke_ctx;
  const char *target;  // "x86_64-pc-linux-gnu +avx2,+fma": what the code needs
  int32_t noptions;    // of the compilation: those that were not at their default
  const char *
      *option;  // "level=1", in the order of compile/options.def; a list has one for each value
  // Which variant of its artifact it is, and why not each of the others (NULL of its own); no list
  // when built in memory.
  int32_t variant;
  const char **why_not;
  bool listed;                        // `code` is not executable: the program is looked at, not run
  File backing;                       // the artifact's mapping; no bytes when built in memory
  int64_t backing_at;                 // where the artifact begins in it
  File weights;                       // the constants' mapping, where they are a file of their own
  void (*unload)(struct Program *p);  // gives back code, constants and mapping; may be NULL
  atomic_int refs;
} Program;

Program *program_create(void);  // empty, one reference; NULL: out of memory
Program *program_retain(Program *p);
void program_release(Program *p);  // NULL is fine
// At these values of the symbols; false when one is unbound, a divisor is 0 or the result leaves
// int64.
bool prog_eval(const Program *p, int32_t expr, const int64_t *sym, int64_t *out);
// What a constant's offset is a multiple of.  On the host whole elements are enough, so that
// weights lie in a file as its format has them; devices copy them by wide loads.
int64_t prog_const_align(int ndevices, DType t);
// The symbol of this name; -1: there is none.
int32_t prog_symbol(const Program *p, const char *name);
// The parameters of the model that are states: how many, and the i-th one's number.
int32_t prog_state_count(const Program *p);
int32_t prog_state_param(const Program *p, int32_t i);
// Whether a parameter of the model has it as a size of its own.
bool prog_sym_is_input(const Program *p, int32_t sym);
MUST_USE tenon_status program_check(const Program *p, Diag *d);
// One constant alone: what must hold before anything looks into it.
MUST_USE tenon_status program_check_const(const Program *p, int32_t i, Diag *d);

#endif
