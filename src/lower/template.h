// template.h -- templates: what makes loops of a kernel of the graph.
//
// Each is a row of templates.def and a record `template_NAME` in a file of its own.  Selection,
// `tenon explain`, `--schedule`, the documentation and the tests read the rows.  A template has
// three parts:
//
//   match   says whether the kernel is one that it takes, and finds what the others need.
//           It is cheap and writes no loops.
//   choose  decides every field of its schedule, by shapes and the target alone,
//           never by the number of threads.
//   build   writes the loops that the schedule says.
//           The same match and schedule give the same loops.
//
// The first row that takes a kernel has it.  What it built may be declined: a fault of the
// template's own, loops that the verifier does not accept, code that cannot be made, or more of it
// than a limit allows.  Then the template's cheaper schedules are tried, then the rows below.
#ifndef TENON_LOWER_TEMPLATE_H
#define TENON_LOWER_TEMPLATE_H

#include "lower/lower.h"

// What a template needs of the target.
enum {
  NEEDS_NOTHING = 0,
  NEEDS_BLOCKS = 1,  // work items are thread blocks
  NEEDS_MMA = 2,     // tensor cores
  NEEDS_CORES = 4,   // work items are done by cores with caches of their own: no thread blocks
};

typedef struct TemplateCode {
  // What the template found, in the lowering's arena; NULL: the kernel is not for it, and lo->why
  // says why, which is Template.why_not unless it was set.  One match is built once.
  void *(*match)(Lowering *lo, const Node *fused);
  // False: another template does it better, or cannot be told; never where `given` names the
  // template, unless there is no legal schedule.  NULL: the template has no fields, and takes what
  // it matches.
  bool (*choose)(void *match, const LowerTarget *t, const ScheduleGiven *given, void *fields);
  // Whether fields that are in their ranges go together for this kernel; else *why.  NULL: they
  // always do.
  bool (*legal)(const void *match, const LowerTarget *t, const void *fields, const char **why);
  bool (*build)(void *match, const void *fields, Lowered *out);  // false: it cannot be built
  // Schedules that need less code, "NAME field=value ...", tried in this order where the chosen one
  // is declined; ends with NULL.  NULL: none.
  const char *const *cheaper;
  const ScheduleField *field;
  int nfields, bytes;  // bytes: of the struct
} TemplateCode;

struct Template {
  const char *name, *doc;
  const char *why_not;  // of a kernel that it refuses, unless Lowering.why says more
  uint32_t kinds;       // 1 << FusedKind
  uint8_t needs;
  const TemplateCode *code;
};

// Whether it is news: not that a template of some op refuses a kernel without that op.
bool refusal_is_near(const Refusal *r);

extern const Template template_table[];
extern const int template_count;
const Template *template_find(const char *name);  // NULL: there is none
// Whether the target has what it needs; else *why.
bool template_suits(const Template *t, const LowerTarget *target, const char **why);
bool template_takes(const Template *t, const Node *fused);  // kernels of this kind

#endif
