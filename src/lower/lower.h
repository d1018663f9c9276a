// lower.h -- from a kernel of the graph (`fused`) to loops, and from a planned graph to a program.
//
// lower_kernel gives loops for one `fused` node, or EUNSUPPORTED: then its nodes run one by one on
// the host, by the reference evaluation, in the same program.  So every graph that the interpreter
// runs has a program.
//
// A kernel speaks of sizes by its own dims, d0, d1, ..., so that equal kernels of different models
// have equal text and are compiled once.
#ifndef TENON_LOWER_LOWER_H
#define TENON_LOWER_LOWER_H

#include "eval/fuse.h"
#include "base/watch.h"
#include "ir/ir.h"
#include "ir/traits.h"
#include "loop/loop.h"
#include "plan/plan.h"
#include "lower/schedule.h"
#include "runtime/program.h"

// What schedules are chosen by.  Never the number of threads.
typedef struct LowerTarget {
  int vector_bytes;      // 64 with AVX-512, 32 with AVX2, 16 with SSE2 or NEON
  int vector_registers;  // 32 or 16
  int64_t l1, l2;        // bytes of one core's data caches
  bool fma, bf16;        // fused multiply-add, bf16 dot products
  // Devices whose work items are thread blocks: threads of a block, a power of two; 0: an item is
  // one thread's.  Shared memory.
  int block_threads;
  int64_t shared_bytes;
  bool has_shuffle;  // threads of a warp see each other's registers: sums over them need no memory
  int64_t tile_bytes;  // of shared memory for an MMA tile
  TargetTraits traits;
  // The order of every sum is a matter of its own length alone, not of how many sums there are: an
  // item of a batch has the same bits whatever the batch.  A schedule that would give more threads
  // to a sum where there are few of them does not look at their number.
  bool batch_invariant;
} LowerTarget;

// A constant made from a weight: loops over its own elements, each read from the weight or 0.
//   coordinate j = sum over loops k of coef[j][k] * loop k; outside [0, limit[j]) the element is 0
//   else it is the weight's element at the sum of coordinate j * stride[j].
// A transform (`points` above 0, of f32) takes the first two coordinates for taps and loops 1 and 2
// for points i and j: an element is the sum over all taps a and b of transform[i][a] *
// transform[j][b] * the weight there, formed in double and rounded once.
enum { PACK_LOOPS = 8, PACK_COORDS = 6, PACK_POINTS = 6, PACK_TAPS = 3 };
typedef struct PackSpec {
  int nloops, ncoords;
  int words;  // 1: the elements of the last loop are one u32, the first in the low bits
  uint8_t
      flip;  // of bytes: bits turned over in those of the weight; 128 makes unsigned ones signed
  int64_t extent[PACK_LOOPS];  // outermost first; the constant is dense in this order
  int64_t coef[PACK_COORDS][PACK_LOOPS];
  int64_t limit[PACK_COORDS];
  int64_t stride[PACK_COORDS];  // in elements of the weight
  int points;
  double transform[PACK_POINTS][PACK_TAPS];
} PackSpec;

typedef enum { LOWER_OPERAND, LOWER_RESULT, LOWER_CONST, LOWER_PACKED } LowerArgKind;
typedef struct LowerArg {
  uint8_t kind;
  int32_t index;     // LOWER_OPERAND, LOWER_RESULT: of the `fused` node
  const Node *node;  // LOWER_CONST, LOWER_PACKED: the constant
  PackSpec pack;     // LOWER_PACKED
} LowerArg;

typedef struct Lowered {
  LoopKernel *kernel;
  LowerArg *arg;      // [kernel->nargs]
  Dim *dim;           // [kernel->ndims]: what each dim of the kernel is, in the graph's expressions
  Schedule schedule;  // how it was done; its text is in the kernel
} Lowered;

// ---- schedules that were declined ---- A kernel never fails a model: where the schedule that a
// template chose cannot be made, the next one is tried (template.h).
typedef enum {
  DECLINED_DEFECT,     // a template or the code generator failed
  DECLINED_UNPROVEN,   // the verifier does not accept its loops
  DECLINED_LIMIT,      // it takes more than a limit of base/limits.def
  DECLINED_BY_DESIGN,  // loops of thread blocks that the verifier sorts out, or code that the
                       // device does not have, as for f64
} DeclinedKind;
typedef struct DeclinedSchedule {
  DeclinedKind kind;
  const char *schedule;  // "winograd tile=4 ..."; a template's name alone where it came to none
  const char *why;
} DeclinedSchedule;
typedef struct DeclinedKernel {
  const char *label;              // as in KernelUse
  const char *nodes;              // the names of its nodes, or their ops where they have none
  const DeclinedSchedule *tried;  // [ntried] in this order
  int64_t ntried;
  const char *instead;  // what computes it: a schedule, or words
} DeclinedKernel;
// A template that looks at kernels of this kind, and left this one to the rows below it.
typedef struct Refusal {
  const struct Template *t;
  const char *why;     // in a user's words, with the option that helps where one does
  const char *detail;  // what the verifier said, for those who work on the compiler; NULL: nothing
} Refusal;
// Kernels that have no code, over several lowerings of one graph: code is made of a whole program,
// and what fails then is lowered again.
typedef struct KernelFaults {
  Arena *arena;
  StrMap declined;  // text of a kernel, of a device after its number -> DeclinedSchedule
  StrMap proven;    // text -> itself: what the verifier accepted, which it need not again
  int64_t nfresh;   // that joined `declined` since it was last set to 0
} KernelFaults;
void faults_init(KernelFaults *f, Arena *a);
// Of a kernel that the host or, after its number, a device has no code for.
void faults_add(KernelFaults *f, Str text, int device, DeclinedKind kind, const char *why);

typedef struct Lowering {
  Graph *g;
  Arena *arena;
  LowerTarget target;
  Diag *diag;
  // Row buckets of a kernel with dynamic rows: the number of rows that its schedule is tuned for
  // (0: some), the most rows of its bucket (0: any), and the dynamic size itself, which the
  // template that chose by it sets (NULL: none did).
  int64_t tuned_for, bucket_max;
  Dim bucket_dim;
  bool small_bucket;  // a template has a schedule of its own for the smallest bucket
  Dim bucket_sym;     // a symbol that is at most bucket_max in the kernel at hand; NULL: none
  const char *label;  // of the kernel that is being made, for messages; NULL: it has no name
  // The result has the memory of the operand that the op writes in place: the kernel stores what
  // changes, and reads no element that it stores.
  bool in_place;
  bool name_sizes;             // sizes that are quotients become dims (element/named_sizes.c)
  const ScheduleRule *forced;  // the schedule that it must have; NULL: templates choose
  // One that was measured; NULL: there is none.  Where it is no longer legal, or would change bits
  // that it must not, the templates' own choice stands and tuned_why says why; else that is NULL.
  const TunedSchedule *tuned;
  bool tuned_reorder;  // it may change the order of sums
  const char *tuned_why;
  // Why the template at hand refuses: its row's words, unless it knows better.  `stuck`: the node
  // that the element builder has no expression for; `dynamic`: the size that is not a number.
  const char *why;
  const Node *stuck;
  Dim dynamic;
  const struct ResidualRule *residual;  // [nresiduals] corrections of what is chosen (residual.h)
  int64_t nresiduals;
  // Whether loops become a kernel; where not it has said why by lower_decline.  NULL: all do.
  bool (*accepts)(void *ctx, Lowered *lw);
  void *accepts_ctx;
  VEC(DeclinedSchedule) tried;  // of the kernel that is being made: what was declined
  VEC(Refusal) refused;         // of the same kernel: a row for each template, in this order
  // For tests: changes what a template built, or fails.  NULL: nobody does.
  void (*tamper)(void *ctx, const char *template_name, LoopKernel *k);
  void *tamper_ctx;
} Lowering;
// Whether a size is a number; else the refusal says how to make it one.
bool lower_is_static(Lowering *lo, Dim d);
void lower_decline(Lowering *lo, const char *schedule, DeclinedKind kind, const char *why);

// EUNSUPPORTED, with nothing said, when no template takes the group; lo->tried has what was
// declined.  EINVAL, with the reason, when it cannot be done by the schedule that is asked for.
MUST_USE tenon_status lower_kernel(Lowering *lo, const Node *fused, Lowered *out);
// Whether the kernel may write result argument `result` over operand argument `operand`: each
// element is read, if at all, by the statement that stores it.
bool lower_may_overwrite(const LoopKernel *k, int32_t operand, int32_t result);

// ---- whole programs (program.c) ----
typedef struct KernelText {  // what a target compiles
  const char *name;
  Str text;
  const Lowered *lowered;  // of the first step that calls it
} KernelText;
typedef struct KernelUse {  // a kernel of the graph, and the one of the program that computes it
  const Node *node;         // the `fused` node
  // What people call it: the node's name, or its op's where it has none; "name#2" for the second of
  // a name.  Where a node has kernels for several numbers of rows, with "@" and the first of these.
  const char *label;
  int32_t kernel;
  const TunedSchedule *tuned;  // that it is made by; NULL: by what templates chose
  Str workload;                // what it computes (workload.h), with LowerOptions.workloads
  const Refusal *refused;      // [nrefused] templates that looked at it before
  int64_t nrefused;
} KernelUse;
// Whether a pattern means a kernel: by its label, with or without its rows, or by the name of a
// node in it (program/kernel_names.c).
typedef enum { FIT_NONE, FIT_NODE, FIT_LABEL } KernelFit;
KernelFit kernel_fit(Graph *g, const Node *n, const char *label, const char *glob, Arena *a);
typedef struct ValueOrigin {  // what a value of the main function is in the graph
  const Node *node;           // NULL: a constant
  int result;
} ValueOrigin;
typedef struct HostKernel {  // a kernel of the graph whose nodes the host evaluates one by one
  const Node *node;          // the `fused` node
  const char *why;
  bool declined;           // loops were made for it, and no schedule was accepted
  const Refusal *refused;  // [nrefused]
  int64_t nrefused;
} HostKernel;
// A kernel whose tuned schedule was not taken.
typedef struct UntunedKernel {
  const char *label, *schedule, *why;
} UntunedKernel;
typedef struct Compiled {
  Program *program;    // complete but for its code; constants in memory
  KernelText *kernel;  // by the program's kernel number: equal texts are one
  int64_t nkernels;
  int64_t nhost;  // steps that the host does because no template takes their kernel
  const DeclinedKernel *declined;  // [ndeclined] kernels whose first schedule was declined; a
                                   // defect of ours, or a limit
  int64_t ndeclined;
  const HostKernel *left;  // [nhost] the kernels that the host does, and why
  const KernelUse *use;    // [nuses] in the order of the steps
  int64_t nuses;
  const ValueOrigin *origin;  // by value of the main function
  const UntunedKernel *untuned;
  int64_t nuntuned;
  int64_t ntuned;       // kernel uses that have their tuned schedule
  const char *machine;  // with LowerOptions.workloads: what schedules are chosen by (tuned.h)
} Compiled;
typedef struct LowerOptions {
  LowerTarget target;
  bool host_only;           // every step by evaluation: for tests of the runtime
  const DimBinding *sizes;  // that a step's operations and bytes are counted at; NULL: the plan's
  const Watch *watch;       // told of each node; may be NULL
  // "GLOB=template field=value ...": how kernels are done that the pattern means (kernel_fit), in
  // spite of what templates would choose; the last one that fits counts, and one that fits a label
  // before one that fits a node.  One that fits no kernel, or cannot be done, is an error.
  const char *const *schedule;
  int64_t nschedules;
  // Whether a kernel of this text has been verified before, so that it need not be again; may be
  // NULL.
  bool (*verified)(void *ctx, Str text);
  void *verified_ctx;
  // Devices besides the host: what schedules are chosen by on each, device[0] unused; 0: there are
  // none.  Which device a kernel of the graph goes to, NULL: all to the last one; 0 is the host,
  // which evaluates where it has no kernels of its own.
  int ndevices;
  LowerTarget device[DEVICES_MAX];
  bool host_kernels;
  int (*device_of)(void *ctx, const Node *fused);
  // Writes these loops for a device, once for each kernel that becomes one of the program.
  // EUNSUPPORTED, with the reason: it has no such code, as for f64.  Any other error is a defect.
  tenon_status (*takes)(void *ctx, int device, const LoopKernel *k, const char **why);
  void *device_ctx;
  KernelFaults *faults;  // of this and earlier lowerings; may be NULL
  bool strict;           // a schedule that is declined is an error
  // Measured schedules, for kernels that no rule of `schedule` means; NULL: none.  They must be of
  // this machine, or of one of its devices.  With tuned_strict a kernel without one is an error.
  const TunedSchedules *tuned;
  bool tuned_strict;
  bool workloads;    // the kernels' workloads are asked for
  bool no_residual;  // templates' choices are not corrected by measurements (residual.h)
  void (*tamper)(void *ctx, const char *template_name, LoopKernel *k);  // as in Lowering
  void *tamper_ctx;
} LowerOptions;
// The plan is of g.  `a` holds the texts.  On failure there is no program.
MUST_USE tenon_status lower_program(Graph *g, const MemPlan *plan, const LowerOptions *o, Arena *a,
                                    Diag *d, Compiled *out);
// The operators of such a kernel: "mat_mul, add".
const char *host_kernel_ops(Arena *a, Graph *g, const HostKernel *k);

#endif
