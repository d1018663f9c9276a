// notice.h -- what the library has to say that is no error: the caller asks for it (tenon_notice).
#ifndef TENON_BASE_NOTICE_H
#define TENON_BASE_NOTICE_H

#include "base/base.h"

// A library writes to nobody's terminal, and a call that succeeds has no place for a message.  So a
// few texts wait here until they are taken.  One that was said is not said again by this process.
// Any thread may call both.
void notice_add(const char *fmt, ...) PRINTF(1, 2);
bool notice_take(char *out, int64_t cap);  // the oldest, NUL-terminated, cut at `cap`; false: none

#endif
