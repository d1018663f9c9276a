// platform_signals_test.c -- writes beyond a limit or into a closed pipe: an error, never a signal.
#include "test.h"
#include "base/platform.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs in a child with signals as a program starts with them.  What it returns must be 0; a signal
// fails the test.
static void in_child(int (*fn)(void)) {
  pid_t pid = fork();
  if (!pid) {
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    _exit(fn());
  }
  int status = -1;
  REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
  if (WIFSIGNALED(status)) FAIL("ended by %s", strsignal(WTERMSIG(status)));
  EXPECT_INT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

static char path[600];

// Nothing pending, nothing blocked, no handler.
static bool signals_are_as_before(void) {
  static const int number[] = {SIGXFSZ, SIGPIPE};
  sigset_t pending, blocked;
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  for (int i = 0; i < ARRAY_LEN(number); i++) {
    struct sigaction act;
    sigaction(number[i], NULL, &act);
    if (act.sa_handler != SIG_DFL || sigismember(&pending, number[i]) ||
        sigismember(&blocked, number[i]))
      return false;
  }
  return true;
}

static int write_beyond_limit(void) {
  static char bytes[100000];
  static Diag d;
  diag_init(&d);
  struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
  if (setrlimit(RLIMIT_FSIZE, &limit)) return 1;
  if (file_write(path, bytes, 4096, &d)) return 2;
  if (file_write(path, bytes, sizeof bytes, &d) != TENON_EIO) return 3;
  if (!strstr(d.text, error_text(EFBIG).s)) return 4;
  if (!signals_are_as_before()) return 5;
  // The old file is whole, and the next write works.
  File f;
  if (file_open(path, &f, &d) || f.size != 4096) return 6;
  file_close(&f);
  return file_write(path, bytes, 10, &d) ? 7 : 0;
}

TEST(signals_write_beyond_a_limit) {
  snprintf(path, sizeof path, "%s/limited", test_folder());
  in_child(write_beyond_limit);
}

static int write_closed_pipe(void) {
  int fd[2];
  if (pipe(fd)) return 1;
  close(fd[0]);
  for (int i = 0; i < 3; i++)
    if (fd_write(fd[1], "x", 1) != EPIPE) return 2;
  return signals_are_as_before() ? 0 : 3;
}

TEST(signals_write_into_a_closed_pipe) { in_child(write_closed_pipe); }

// One that was pending before is the caller's, and stays.
static int write_with_one_pending(void) {
  sigset_t pipe_only, pending;
  int fd[2];
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
  raise(SIGPIPE);
  if (pipe(fd)) return 1;
  close(fd[0]);
  if (fd_write(fd[1], "x", 1) != EPIPE) return 2;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE) ? 0 : 3;
}

TEST(signals_pending_before_stay) { in_child(write_with_one_pending); }
