// builder.h -- what the files that build a program share.
#ifndef TENON_LOWER_PROGRAM_BUILDER_H
#define TENON_LOWER_PROGRAM_BUILDER_H

#include "ir/opinfo.h"
#include "lower/lower.h"

typedef struct ConstItem {
  const Node *node;
  bool packed, in_place;
  PackSpec pack;
} ConstItem;

typedef struct ProgBuilder {
  Graph *g;
  const MemPlan *plan;
  const LowerOptions *o;
  DimBinding sizes;  // that work is counted at
  Arena *a;          // texts, and what lives while building
  Program *p;        // everything of the program lives in its arena
  Diag *diag;
  Lowering lowering;
  IntMap exprs;  // Dim -> expression
  VEC(ProgExpr) expr;
  VEC(ProgConst) constant;
  VEC(ConstItem) item;  // by constant
  IntMap plain;         // const node id -> constant
  VEC(ProgFunction *) function;
  IntMap bodies;  // Body -> function
  VEC(KernelText) kernel;
  VEC(ProgKernel) prog_kernel;
  VEC(KernelUse) use;
  VEC(ScheduleRule) rule;     // schedules that are asked for
  StrMap labels;              // name -> kernels that are called so
  StrMap kernel_names;        // of the graph's kernels, where schedules are asked for
  const char *label;          // of the kernel that is being made
  StrMap texts;               // text -> 1 + kernel; of a device, after its number
  const ValueOrigin *origin;  // of the main function
  int64_t nhost;
  int device;       // that the kernel is being made for
  Str text;         // of the loops that were looked at last
  const char *why;  // of the kernel that is being made: why it cannot be
  VEC(DeclinedKernel) declined;
  VEC(HostKernel) left;  // to the host
  VEC(UntunedKernel) untuned;
  int64_t ntuned;
} ProgBuilder;

typedef struct SameSub {  // `sym` is `to` behind the checks of the step
  Dim sym, to;
} SameSub;
typedef struct SameSizes {
  VEC(SameSub) sub;  // no `to` mentions a `sym`
} SameSizes;

// One function under construction.
typedef struct FuncBuilder {
  ProgBuilder *b;
  ProgFunction *f;
  const MemPlan *plan;  // NULL: everything on the heap
  int32_t *root_of;     // plan's root -> the function's root
  VEC(ProgValue) value;
  VEC(ValueOrigin) origin;  // by value
  VEC(ProgStep) step;
  IntMap map;         // node id and result -> value
  IntMap bound;       // symbols whose values are known by now, by slot
  IntMap state_on;    // node id of a state -> its device; not there: the host
  SameSizes same;     // of the kernel at hand
  bool node_by_node;  // the nodes of a kernel that could not be made whole
  const Node *split;  // that kernel, while its nodes are built; else NULL
  int depth;          // expansions within expansions
} FuncBuilder;

int32_t build_expr(ProgBuilder *b, Dim d);           // -1 where it cannot be told (poison)
int32_t build_const(ProgBuilder *b, const Node *n);  // number of the constant
int32_t build_packed(ProgBuilder *b, const Node *n, const PackSpec *pack);
tenon_status fill_constants(ProgBuilder *b);  // the section, from the weights
tenon_status build_function(ProgBuilder *b, const Body *body, const MemPlan *plan,
                            ProgFunction **out);
const char *kernel_label(ProgBuilder *b, const Node *n);  // a new one (KernelUse.label)
ScheduleRule *find_schedule(ProgBuilder *b, const Node *n,
                            const char *label);    // the last that fits; NULL: none
tenon_status read_schedules(ProgBuilder *b);       // those that are asked for
tenon_status check_tuned_machine(ProgBuilder *b);  // that they are for a machine at hand
tenon_status check_schedules(ProgBuilder *b);      // that each of them was for some kernel
// A kernel step for a `fused` node; EUNSUPPORTED when its nodes must be done one by one.  *declined
// is its number among b->declined, whose `instead` the caller then sets; -1: no schedule was
// declined.
tenon_status build_kernel_step(FuncBuilder *f, const Node *n, int64_t *declined);
// ---- which loops become kernels (accept.c) ----
Str kernel_text(ProgBuilder *b, LoopKernel *k);
Str kernel_key(ProgBuilder *b, Str text, int device);  // that a kernel is found by
bool accept_kernel(void *builder, Lowered *lw);        // as Lowering.accepts
// Notes the kernel at hand where schedules of it were declined; *out as above.  With `strict` that
// is an error.
tenon_status note_declined(ProgBuilder *b, const Node *n, const char *instead, int64_t *out);
int32_t value_of(FuncBuilder *f, const Node *n);  // -1: absent
int32_t new_value(FuncBuilder *f, const Node *n, int result, const Type *t);
// The kernel with one name for sizes that must be equal (n itself where no other is needed); the
// step must check `checks` before anything else.
const Node *same_sizes(FuncBuilder *f, const Node *n, SameDims *checks);
void build_checks(FuncBuilder *f, const SameDims *all, ProgStep *st);
void same_checked(FuncBuilder *f, const Node *n,
                  ProgStep *st);  // a step that has no kernel checks its sizes, too
// Whether every symbol of it has its value by now.
bool size_bound(const FuncBuilder *f, Dim e);
// Symbols that a shape mentions alone get their value when it is seen.
void note_bound(FuncBuilder *f, const Type *t);
int32_t const_value(FuncBuilder *f, int32_t constant, const char *name);
// Operations and bytes of a node, for profiles.
void count_work(FuncBuilder *f, const Node *n, ProgStep *st);
// Values and steps on their devices, with the copies between them (place.c).
void place_steps(FuncBuilder *f);
// Each state to the device of the first node that writes it; before values are made.
void place_states(FuncBuilder *f);
int32_t state_device(const FuncBuilder *f, const Node *state);
const char *keep_name(ProgBuilder *b, const char *name);

#endif
