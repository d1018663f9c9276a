// trap.c -- the one non-local exit: out of memory and broken invariants.
//
// Each thread has a stack of traps, kept as a list through the traps themselves.  Raising writes
// the message into the innermost trap's Diag and jumps to its setjmp; trap_leave then takes it off
// the list.
#include "base/base.h"
#include "base/platform.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local Trap *innermost;

void trap_enter(Trap *t, Diag *d) {
  t->outer = innermost;
  t->diag = d;
  t->status = TENON_OK;
  t->scoped = NULL;
  t->work = at_work();
  innermost = t;
}

void trap_leave(Trap *t) {
  innermost = t->outer;
  at_work_set(t->work);
}

void arena_init_scoped(Arena *a) {
  arena_init(a);
  if (!innermost) return;
  a->outer = innermost->scoped;
  a->scoped = true;
  innermost->scoped = a;
}

void arena_leave_scope(Arena *a) {
  innermost->scoped = a->outer;
  a->scoped = false;
}

// There is nobody to tell: a caller inside the library forgot to set a trap, or a test wants to
// stop here.
static NORETURN void die(const char *message) {
  enum { STANDARD_ERROR = 2 };
  fd_write(STANDARD_ERROR, message, (int64_t)strlen(message));
  fd_write(STANDARD_ERROR, "\n", 1);
  abort();
}

static NORETURN void jump(Trap *t) {
  while (t->scoped) arena_deinit(t->scoped);
  longjmp(t->env, 1);
}

NORETURN void trap_raise(tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  Trap *t = innermost;
  if (!t) {
    char text[1024];
    vsnprintf(text, sizeof(text), fmt, ap);
    die(text);
  }
  t->status = failv(t->diag, code, NOWHERE, fmt, ap);
  va_end(ap);
  jump(t);
}

NORETURN void trap_again(tenon_status code, const char *text) {
  Trap *t = innermost;
  if (!t) die(text);
  diag_again(t->diag, code, text);
  t->status = code;
  jump(t);
}

NORETURN void check_failed(const char *file, int line, const char *cond, const char *fmt, ...) {
  char why[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, sizeof(why), fmt, ap);
  va_end(ap);
#ifdef TENON_ABORT_ON_CHECK
  char text[2048];
  snprintf(text, sizeof(text), "%s:%d: CHECK(%s): %s", file, line, cond, why);
  die(text);
#else
  trap_raise(TENON_EINTERNAL, "internal error at %s:%d: %s (%s)", file, line, why, cond);
#endif
}
