// platform_signals.c -- holds SIGPIPE and SIGXFSZ back while a thread writes (platform_signals.h).
//
// The kernel sends both to the thread that writes.  So blocking them there, and taking the one that
// the write raised, leaves every other thread and every handler alone.  A signal that was pending
// before stays pending.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // sigtimedwait
#endif
#include "base/platform_signals.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void signals_hold(HeldSignals *h) {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGPIPE);
  sigaddset(&both, SIGXFSZ);
  sigpending(&h->pending);
  pthread_sigmask(SIG_BLOCK, &both, &h->was);
}

void signals_release(HeldSignals *h, int err) {
  int raised = err == EPIPE ? SIGPIPE : err == EFBIG ? SIGXFSZ : 0;
  if (raised && !sigismember(&h->pending, raised)) {
    sigset_t one;
    struct timespec now = {0};
    sigemptyset(&one);
    sigaddset(&one, raised);
    while (sigtimedwait(&one, NULL, &now) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &h->was, NULL);
}
