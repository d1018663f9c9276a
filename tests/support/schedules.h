// schedules.h -- what tests ask of the schedules of kernels.
#ifndef TENON_TESTS_SCHEDULES_H
#define TENON_TESTS_SCHEDULES_H

#include "lower/template.h"
#include "test.h"

// Whether the kernel was made by the template of "template field=value ...", with these values of
// its fields.
static inline bool schedule_fits(const Lowered *lw, const char *wanted) {
  Arena a;
  Diag d;
  ScheduleGiven g;
  arena_init(&a);
  diag_init(&d);
  bool fits = false;
  if (schedule_parse(&a, wanted, &d, &g)) {
    FAIL("%s: %s", wanted, d.text);
  } else if (lw->schedule.t == g.t) {
    void *fields =
        arena_dup(&a, lw->schedule.fields ? lw->schedule.fields : "", MAX(g.t->code->bytes, 1));
    schedule_keep(&g, fields);
    fits = schedule_equal(lw->schedule, (Schedule){g.t, fields});
  }
  arena_deinit(&a);
  return fits;
}

// Whether text is read back as it is printed.
static inline bool schedule_reads_back(Schedule s) {
  Arena a;
  Diag d;
  ScheduleGiven g;
  arena_init(&a);
  diag_init(&d);
  bool same = !schedule_parse(&a, schedule_text(&a, s), &d, &g) &&
              schedule_equal(s, (Schedule){g.t, g.fields});
  arena_deinit(&a);
  return same;
}

#endif
