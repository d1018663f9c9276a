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
                           .describe = describe_nothing,
                           .build = ref_build};

static const Target cpu = {.name = "cpu",
                           .doc = "machine code for this CPU",
                           .describe = cpu_describe,
                           .build = cpu_build};

const Target *const target_table[] = {&cpu, &ref, &host, NULL};

const Target *target_find(const char *name) {
  for (const Target *const *t = target_table; *t; t++)
    if (!strcmp((*t)->name, name)) return *t;
  return NULL;
}

tenon_status target_compile(const Target *t, Graph *g, const MemPlan *plan, Arena *a, Diag *d,
                            Program **out) {
  LowerOptions o = {.host_only = t->host_only};
  Compiled c;
  *out = NULL;
  t->describe(&o.target);
  TRY(lower_program(g, plan, &o, a, d, &c));
  tenon_status s = t->build(&c, d);
  if (!s) s = program_check(c.program, d);
  if (s) {
    program_release(c.program);
    return s;
  }
  *out = c.program;
  return TENON_OK;
}
