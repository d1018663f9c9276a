// tuned.c -- fuzz target: files of tuned schedules, and each schedule in one.
#include "fuzz.h"
#include "lower/template.h"
#include "lower/tuned.h"

// Printing what was read and reading it again gives the same text.
static void read_file(Str text, Arena *a, Diag *d) {
  TunedSchedules s, again;
  ScheduleGiven given;
  if (tuned_parse(text, "file", a, d, &s)) return;
  const char *printed = tuned_print(&s, a);
  if (tuned_parse(str_of(printed), "file", a, d, &again)) __builtin_trap();
  if (strcmp(tuned_print(&again, a), printed)) __builtin_trap();
  for (int64_t i = 0; i < s.n; i++) {
    if (tuned_find(&s, s.entry[i].key) != &s.entry[i]) __builtin_trap();
    if (schedule_parse(a, s.entry[i].schedule, d, &given)) diag_init(d);
  }
}

// As it is, and with the last line that makes it whole.
static void read_both(Str text, Arena *a, Diag *d) {
  StrBuf b;
  read_file(text, a, d);
  diag_init(d);
  strbuf_init(&b, a);
  strbuf_put(&b, text);
  tuned_seal(&b);
  read_file(strbuf_str(&b), a, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_both);
}
