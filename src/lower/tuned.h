// tuned.h -- files of tuned schedules: what `tenon tune` writes and `--tuned FILE` reads.
//
//   tenon-schedules 1
//   machine KEY vector=64 registers=32 ...
//   reorder                                      only where sums may be formed in another order
//   WORKLOAD-KEY template field=value ... # 1.234
//   sha256 HEX
//
// Entries are sorted by key (workload.h).  The number after # is the default's time over the
// schedule's own when both were measured together.  The last line is the hash of all bytes before
// it.
#ifndef TENON_LOWER_TUNED_H
#define TENON_LOWER_TUNED_H

#include "lower/lower.h"

enum { MACHINE_KEY = 16 };  // hexadecimal digits

// "KEY vector=64 ...": what schedules are chosen by, and a hash of it.
const char *tuned_machine(const LowerTarget *t, Arena *a);

bool tuned_is(Str text);  // it begins as such a file does
// Reads the text of a file that messages call `name`.  EFORMAT, with the line and the byte, where
// it is damaged.  Templates and fields are looked at when an entry is used: a newer version may
// have others.
MUST_USE tenon_status tuned_parse(Str text, const char *name, Arena *a, Diag *d,
                                  TunedSchedules *out);
// The file with these entries, which it sorts.
const char *tuned_print(TunedSchedules *s, Arena *a);
void tuned_seal(StrBuf *b);                                                 // appends the last line
const TunedSchedule *tuned_find(const TunedSchedules *s, const char *key);  // NULL: there is none

#endif
