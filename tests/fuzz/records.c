// records.c -- fuzz target: JSON Lines of the tuner's runs, and what follows from their trials.
#include "fuzz.h"
#include "lower/tuned.h"
#include "tune/records.h"

// Writing what was read and reading it again gives the same text; the schedules that follow are a
// file that `--tuned` reads.
static void read_records(Str text, Arena *a, Diag *d) {
  Records r, again;
  StrBuf b;
  if (records_parse(text, "file", a, d, &r)) return;
  strbuf_init(&b, a);
  record_put_head(&b);
  for (int64_t i = 0; i < r.nruns; i++) {
    StrMap put;
    TunedSchedules s, back;
    strmap_init(&put, a);
    for (int64_t k = 0; k < r.log[i].n; k++) {
      const Trial *t = r.log[i].v[k];
      if (t->phase == TRIAL_MODEL || strmap_has(&put, str_of(t->key))) continue;
      strmap_put(&put, str_of(t->key), a);
      record_put_workload(&b, t->key, records_workload(&r, t->key));
    }
    record_put_run(&b, &r.run[i]);
    for (int64_t k = 0; k < r.log[i].n; k++) record_put_trial(&b, k, r.log[i].v[k]);
    tune_decide(&r.log[i], r.run[i].machine, r.run[i].reorder, a, &s);
    diag_init(d);
    tenon_status status = tuned_parse(str_of(tuned_print(&s, a)), "file", a, d, &back);
    if (!status && back.n != s.n) __builtin_trap();
  }
  if (records_parse(strbuf_str(&b), "file", a, d, &again) || again.nruns != r.nruns)
    __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_records);
}
