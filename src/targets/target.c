// target.c -- the table of targets.
#include "targets/target.h"

#include "targets/cpu.h"
#include "targets/ref.h"

static void describe_nothing(LowerTarget *out) {
  *out = (LowerTarget){
      .vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true};
}

static tenon_status build_nothing(const Compiled *c, Diag *d) {
  (void)c;
  (void)d;
  return TENON_OK;
}

static const Target host = {.name = "host",
                            .doc = "every node by its reference evaluation, in the runtime",
                            .host_only = true,
                            .describe = describe_nothing,
                            .build = build_nothing};
static const Target ref = {.name = "ref",
                           .doc = "kernels as loops, interpreted with every access checked",
                           .keeps_loops = true,
                           .describe = describe_nothing,
                           .build = ref_build};

static const Target cpu = {.name = "cpu",
                           .doc = "machine code for this CPU",
                           .describe = cpu_describe,
                           .available = cpu_available,
                           .build = cpu_build};

const Target *const target_table[] = {&cpu, &ref, &host, NULL};

const Target *target_find(const char *name) {
  for (const Target *const *t = target_table; *t; t++)
    if (!strcmp((*t)->name, name)) return *t;
  return NULL;
}

bool target_available(const Target *t) { return !t->available || t->available(); }

const Target *target_auto(void) { return target_available(&cpu) ? &cpu : &host; }

tenon_status target_compile_with(const Target *t, Graph *g, const MemPlan *plan,
                                 const TargetOptions *o, Arena *a, Diag *d, Compiled *out_compiled,
                                 Program **out) {
  TargetOptions none = {0};
  if (!o) o = &none;
  LowerOptions lo = {.host_only = t->host_only, .sizes = o->sizes, .watch = o->watch};
  Compiled c;
  *out = NULL;
  t->describe(&lo.target);
  TRY(lower_program(g, plan, &lo, a, d, &c));
  c.watch = o->watch;
  c.threads = o->threads;
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) trap.status = t->build(&c, d);
  trap_leave(&trap);
  if (!trap.status) trap.status = program_check(c.program, d);
  if (trap.status) {
    program_release(c.program);
    return trap.status;
  }
  if (out_compiled) *out_compiled = c;
  *out = c.program;
  return TENON_OK;
}

tenon_status target_compile(const Target *t, Graph *g, const MemPlan *plan, Arena *a, Diag *d,
                            Program **out) {
  return target_compile_with(t, g, plan, NULL, a, d, NULL, out);
}
