// residual.h -- corrections of what templates choose, learned from measurements
// (cost/residual.def).
//
// A rule changes one FREE field of a chosen schedule, so that no result has other bits.  `tenon
// tune train` makes the table; tests and training apply tables of their own.
#ifndef TENON_LOWER_RESIDUAL_H
#define TENON_LOWER_RESIDUAL_H

#include "lower/lower.h"

typedef enum { RESIDUAL_SET, RESIDUAL_TIMES, RESIDUAL_OVER, RESIDUAL_HOWS } ResidualHow;
extern const char *const residual_how_name[RESIDUAL_HOWS];

typedef struct ResidualRule {
  const char *template_name, *field;
  ResidualHow how;
  int64_t value;
  const char *when;  // "": always
  int64_t least, most;
} ResidualRule;

extern const ResidualRule residual_table[];
extern const int64_t residual_count;

int64_t schedule_value(const ScheduleField *f, const void *fields);  // of any kind
void schedule_put_value(const ScheduleField *f, void *fields, int64_t v);

// Whether the rule is for a schedule like this one.
bool residual_fits(const ResidualRule *r, const LowerTarget *t, Schedule chosen);
// The schedule by the first of the rules that fits; NULL: none does, or it changes nothing.
// Whether it is legal, the template says.
const char *residual_schedule(const ResidualRule *rule, int64_t n, const LowerTarget *t,
                              Schedule chosen, Arena *a);

#endif
