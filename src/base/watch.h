// watch.h -- who follows a long piece of work, and may end it.
#ifndef TENON_BASE_WATCH_H
#define TENON_BASE_WATCH_H

#include "base/base.h"

typedef struct Watch {
  // Before each piece: `what` is one of `total` of the stage, `done` are behind it.  False ends the
  // work.
  bool (*step)(void *ctx, const char *stage, const char *what, int64_t done, int64_t total);
  void *ctx;
} Watch;

// ECANCELLED, with a message, when the watcher (which may be NULL) ends the work.
static inline MUST_USE tenon_status watch_step(const Watch *w, Diag *d, const char *stage,
                                               const char *what, int64_t done, int64_t total) {
  if (!w || !w->step || w->step(w->ctx, stage, what ? what : "", done, total)) return TENON_OK;
  return fail(d, TENON_ECANCELLED, NOWHERE, "cancelled: %s, %lld of %lld done", stage,
              (long long)done, (long long)total);
}

#endif
