// orphan.c -- ends tenon-codegen when its parent has ended, also while LLVM works (orphan.h).
//
// PR_SET_PDEATHSIG sends a signal when the thread ends that started us, not the process.  So the
// signal handler compares getppid with the parent's id; each thread of the parent that ends repeats
// that.  Without that call, or with a parent behind a shell, the request pipe tells: a timer polls
// it while LLVM works, and at other times we read from it.
//
// Needs:      standard input is the request pipe.
// Guarantees: the handler makes async-signal-safe calls alone and keeps errno.  A parent that ended
//             is noticed within 0.2 s of work.
#include "targets/llvm/orphan.h"

#include <poll.h>
#include <signal.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

enum { LOOK_US = 200000 };
static pid_t parent_now;

// A signal handler: async-signal-safe calls alone.
static void look(int sig) {
  int saved = errno;
  struct pollfd input = {.fd = 0};
  (void)sig;
  bool ended = poll(&input, 1, 0) > 0 && input.revents & POLLHUP;
  if (ended || getppid() != parent_now) _exit(EXIT_FAILURE);
  errno = saved;
}

bool orphan_watch(int64_t parent) {
  struct sigaction act = {.sa_handler = look, .sa_flags = SA_RESTART};
  sigset_t none;
  sigemptyset(&act.sa_mask);
  sigemptyset(&none);
  parent_now = getppid();
  sigaction(SIGALRM, &act, NULL);
  sigprocmask(SIG_SETMASK, &none, NULL);  // a host may start us with signals blocked
  prctl(PR_SET_PDEATHSIG, SIGALRM, 0, 0, 0);
  if (getppid() != parent_now) return false;
  // Whoever starts us by a script or a debugger is not our parent, but alive.
  return !parent || parent == parent_now || !kill((pid_t)parent, 0) || errno != ESRCH;
}

static void look_every(int us) {
  struct itimerval t = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
  setitimer(ITIMER_REAL, &t, NULL);
}

void orphan_busy(void) { look_every(LOOK_US); }

void orphan_idle(void) { look_every(0); }
