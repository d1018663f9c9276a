// platform_collect.c -- runs a program to its end and takes what it prints (process.h).
//
// The program ends with the calling thread, however that ends: PR_SET_PDEATHSIG is set between fork
// and exec, which posix_spawn cannot do.  Between the two only calls are made that are safe in the
// child of a process with threads.
//
// Guarantees: the child has an empty standard input, and no other file of ours but standard error.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // pipe2
#endif
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

enum { AT_ONCE = 4096, EXIT_LOST = 127 };  // of a child that could not become the program

// Never returns.
static void become(const char *path, const char *const *argv, pid_t parent, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(EXIT_LOST);  // it has ended already
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0) _exit(EXIT_LOST);
  execve(path, (char *const *)(uintptr_t)argv, environ);
  _exit(EXIT_LOST);
}

static int start(const char *path, const char *const *argv, Process *out) {
  int from[2];
  if (access(path, X_OK)) return errno;
  int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (none < 0) return errno;
  int err = pipe2(from, O_CLOEXEC) ? errno : 0;
  if (!err) {
    pid_t parent = getpid(), pid = fork();
    if (!pid) become(path, argv, parent, none, from[1]);
    if (pid < 0) err = errno;
    close(from[1]);
    if (err) close(from[0]);
    *out = (Process){.pid = pid, .in = -1, .out = from[0]};
  }
  close(none);
  return err;
}

int process_collect(const char *path, const char *const *argv, int64_t cap, StrBuf *out,
                    int *out_status) {
  Process p;
  char bytes[AT_ONCE];
  int err = start(path, argv, &p);
  if (err) return err;
  while (!err) {
    ssize_t got = read(p.out, bytes, sizeof bytes);
    if (got == 0) break;
    if (got > 0 && out->n + got > cap)
      err = E2BIG;
    else if (got > 0)
      strbuf_put(out, (Str){bytes, got});
    else if (errno != EINTR)
      err = errno;
  }
  *out_status = process_end(&p, err != 0);
  return err;
}
