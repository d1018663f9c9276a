// platform_process.c -- starting programs, and memory for code.
//
// Pipes are closed on exec, so a child holds only its own two.  SIGPIPE is held back in the writing
// thread alone: a library does not change what signals mean to its host.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // pipe2, dladdr
#endif
#include "base/process.h"

#include "base/platform.h"
#include "base/platform_signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int process_start(const char *path, const char *const *argv, Process *out) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC)) return errno;
  if (pipe2(from, O_CLOEXEC)) {
    int err = errno;
    close(to[0]);
    close(to[1]);
    return err;
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, to[0], 0);
  posix_spawn_file_actions_adddup2(&files, from[1], 1);
  pid_t pid;
  int err = posix_spawn(&pid, path, &files, NULL, (char *const *)(uintptr_t)argv, environ);
  posix_spawn_file_actions_destroy(&files);
  close(to[0]);
  close(from[1]);
  if (err) {
    close(to[1]);
    close(from[0]);
    return err;
  }
  fcntl(to[1], F_SETFL, O_NONBLOCK);
  fcntl(from[0], F_SETFL, O_NONBLOCK);
  *out = (Process){.pid = pid, .in = to[1], .out = from[0]};
  return 0;
}

// Waits for the pipe to be ready: 0, or why not.
static int await(int fd, short events, int64_t deadline) {
  for (;;) {
    int64_t left = (deadline - platform->now()) / 1000000;
    if (left <= 0) return ETIMEDOUT;
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, (int)MIN(left, 1000));
    if (n > 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
  }
}

static int write_all(int fd, const char *bytes, int64_t n, int64_t deadline) {
  while (n > 0) {
    ssize_t done = write(fd, bytes, (size_t)n);
    if (done >= 0) {
      bytes += done;
      n -= done;
    } else if (errno == EAGAIN) {
      int err = await(fd, POLLOUT, deadline);
      if (err) return err;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int process_write(Process *p, const void *bytes, int64_t n, int64_t deadline) {
  HeldSignals held;
  signals_hold(&held);
  int err = write_all(p->in, bytes, n, deadline);
  signals_release(&held, err);
  return err;
}

int process_read(Process *p, void *bytes, int64_t n, int64_t deadline) {
  char *at = bytes;
  while (n > 0) {
    ssize_t got = read(p->out, at, (size_t)n);
    if (got > 0) {
      at += got;
      n -= got;
    } else if (got == 0) {
      return EPIPE;
    } else if (errno == EAGAIN) {
      int err = await(p->out, POLLIN, deadline);
      if (err) return err;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int64_t thread_time(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t process_time(const Process *p) {
  clockid_t clock;
  struct timespec t;
  if (p->pid <= 0 || clock_getcpuclockid((pid_t)p->pid, &clock) || clock_gettime(clock, &t))
    return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void process_stop(int64_t pid) {
  if (pid > 0) kill((pid_t)pid, SIGKILL);
}

int process_end(Process *p, bool by_force) {
  int status = 0;
  if (p->pid <= 0) return 0;
  // Before its pipes close: what still writes would end by SIGPIPE first.
  if (by_force) kill((pid_t)p->pid, SIGKILL);
  if (p->in >= 0) close(p->in);
  close(p->out);
  while (waitpid((pid_t)p->pid, &status, 0) < 0 && errno == EINTR) continue;
  p->pid = 0;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int process_run(const char *const *argv, int *out_status) {
  pid_t pid;
  int status = 0;
  int err = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
  if (err) return err;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return errno;
  *out_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return 0;
}

// ---- finding programs ----

static bool find_sibling(const char *file, const char *folder, const char *name, char *out,
                         int64_t cap) {
  const char *slash = strrchr(file, '/');
  if (!slash) return false;
  int n = snprintf(out, (size_t)cap, "%.*s%s/%s", (int)(slash - file), file, folder, name);
  return n > 0 && n < cap && !access(out, X_OK);
}

static bool on_path(const char *name, char *out, int64_t cap) {
  const char *path = getenv("PATH");
  while (path && *path) {
    int64_t n = (int64_t)strcspn(path, ":");
    int len = snprintf(out, (size_t)cap, "%.*s/%s", (int)n, path, name);
    if (len > 0 && len < cap && !access(out, X_OK)) return true;
    path += n + (path[n] == ':');
  }
  return false;
}

bool process_find(const char *name, char *out, int64_t cap) {
  char self[4096];
  Dl_info info;
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = 0;
    if (find_sibling(self, "", name, out, cap)) return true;
  }
  void *here = (void *)(uintptr_t)&process_find;
  if (dladdr(here, &info) && info.dli_fname &&
      (find_sibling(info.dli_fname, "", name, out, cap) ||
       find_sibling(info.dli_fname, "/../libexec/tenon", name, out, cap) ||
       find_sibling(info.dli_fname, "/../bin", name, out, cap)))
    return true;
  return on_path(name, out, cap);
}

// ---- code ----

void *code_map(const void *bytes, int64_t n) {
  void *p = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  memcpy(p, bytes, (size_t)n);
  if (!mprotect(p, (size_t)n, PROT_READ | PROT_EXEC)) {
    __builtin___clear_cache(p, (char *)p + n);
    return p;
  }
  munmap(p, (size_t)n);
  return NULL;
}

bool code_allow(void *p, int64_t n) {
  long page = sysconf(_SC_PAGESIZE);
  if (page <= 0 || (uintptr_t)p % (uintptr_t)page) return false;
  if (mprotect(p, (size_t)n, PROT_READ | PROT_EXEC)) return false;
  __builtin___clear_cache(p, (char *)p + n);
  return true;
}

void code_unmap(void *p, int64_t n) {
  if (p) munmap(p, (size_t)n);
}

bool system_has_accelerator(void) {
  static const char *const node[] = {"/dev/nvidiactl", "/dev/dri", "/dev/kfd",
                                     "/dev/mali0",     "/dev/dxg", "/dev/nvhost-gpu"};
  for (int64_t i = 0; i < ARRAY_LEN(node); i++)
    if (!access(node[i], F_OK)) return true;
  return false;
}
