// platform_signals.h -- signals that a write may raise, held back in the writing thread.
#ifndef TENON_BASE_PLATFORM_SIGNALS_H
#define TENON_BASE_PLATFORM_SIGNALS_H

#include <signal.h>

// SIGPIPE and SIGXFSZ end a process that does not expect them.  Between hold and release the
// calling thread does not get them; the write returns EPIPE or EFBIG.  What signals mean to the
// process stays as it is.
typedef struct HeldSignals {
  sigset_t was, pending;
} HeldSignals;
void signals_hold(HeldSignals *h);
void signals_release(HeldSignals *h, int err);  // err: of the write, 0 when it went well

#endif
