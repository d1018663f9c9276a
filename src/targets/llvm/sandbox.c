// sandbox.c -- drops the rights of tenon-codegen (sandbox.h).
//
// LLVM needs memory, locks and the two pipes.  Everything else is forbidden by two layers at least,
// as a kernel may lack one.  Files and sockets: seccomp, Landlock and the limit of open files.
// Processes: seccomp and, except for root, the limit of processes.
//
// Needs:      LLVM is initialised, and no request has been read.
// Guarantees: no memory becomes executable.  A forbidden system call, or too much processor time,
//             answers the request with an error and ends the process.  Missing layers are reported.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // AT_EMPTY_PATH
#endif
#include "targets/llvm/sandbox.h"

#include "base/platform.h"
#include "targets/llvm/protocol.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int64_t cpu_seconds;
static volatile sig_atomic_t working;

// ---- a kernel that is stopped ----

// Appends a number below 10^12; snprintf is not for signal handlers.
static char *put_number(char *at, int64_t n) {
  char digit[16];
  int k = 0;
  do digit[k++] = (char)('0' + n % 10);
  while ((n /= 10) && k < 12);
  while (k) *at++ = digit[--k];
  return at;
}

static char *put_text(char *at, const char *text) {
  while (*text) *at++ = *text++;
  return at;
}

static void write_to(int fd, const void *p, size_t n) {
  const char *at = p;
  while (n) {
    ssize_t done = write(fd, at, n);
    if (done <= 0) return;
    at += done;
    n -= (size_t)done;
  }
}

// While LLVM works the words are the reply; between two requests, or within a reply, they go to
// standard error.
static void on_stop(int sig, siginfo_t *info, void *context) {
  char text[160], *at = text;
  uint8_t head[PROTOCOL_HEADER];
  CodeReply reply = {.status = TENON_EINTERNAL};
  (void)context;
  if (sig == SIGSYS) {
    at = put_text(at, "tenon-codegen made the system call ");
    at = put_number(at, info->si_syscall);
    at = put_text(at, ", which its sandbox does not allow");
  } else {
    reply.status = TENON_ENOMEM;  // beyond a limit
    at = put_text(at, "the kernel took more than ");
    at = put_number(at, cpu_seconds);
    at = put_text(at, " s of processor time in tenon-codegen");
  }
  reply.message = (Str){text, at - text};
  reply_header(&reply, head);
  if (working) write_to(1, head, sizeof head);
  write_to(working ? 1 : 2, text, (size_t)(at - text));
  if (!working) write_to(2, "\n", 1);
  _exit(EXIT_FAILURE);
}

static void report_stops(void) {
  struct sigaction act = {.sa_sigaction = on_stop, .sa_flags = SA_SIGINFO | SA_NODEFER},
                   ignore = {.sa_handler = SIG_IGN};
  sigemptyset(&act.sa_mask);
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGSYS, &act, NULL);
  sigaction(SIGXCPU, &act, NULL);
  sigaction(SIGXFSZ, &ignore, NULL);  // the write fails
}

// ---- the layers ----

#define ALLOW(name)                                                                                \
  { SYS_##name, CALL_ALLOW, -1, 0, 0, false }
#define ALLOW_IF(name, arg, m, v)                                                                  \
  { SYS_##name, CALL_ALLOW, arg, m, v, false }
#define WHOLE UINT32_MAX

static void allow_calls(Layer *out) {
  const CallRule rule[] = {
      // the pipes, and words on standard error
      ALLOW_IF(read, 0, WHOLE, 0),
      ALLOW_IF(write, 0, WHOLE, 1),
      ALLOW_IF(write, 0, WHOLE, 2),
      ALLOW_IF(writev, 0, WHOLE, 2),
#ifdef SYS_poll
      ALLOW(poll),
#endif
      ALLOW(ppoll),
      ALLOW(lseek),
      ALLOW(fstat),
#ifdef SYS_newfstatat
      ALLOW_IF(newfstatat, 3, WHOLE, AT_EMPTY_PATH),
#endif
      {SYS_ioctl, CALL_REFUSE, -1, 0, 0, false},  // is it a terminal?
      // memory that no code runs in, locks
      ALLOW(brk),
      ALLOW(munmap),
      ALLOW(mremap),
      ALLOW(madvise),
      ALLOW_IF(mmap, 2, PROT_EXEC, 0),
      ALLOW_IF(mprotect, 2, PROT_EXEC, 0),
      ALLOW(futex),
      ALLOW(sched_yield),
      // time, and what the C library asks of the machine
      ALLOW(clock_gettime),
      ALLOW(clock_getres),
      ALLOW(gettimeofday),
      ALLOW(getrandom),
      ALLOW(sysinfo),
      ALLOW(setitimer),
      {SYS_prlimit64, CALL_VIOLATE, 0, WHOLE, 0, true},  // of this process alone
      ALLOW_IF(prlimit64, 1, WHOLE, RLIMIT_CPU),
#ifdef SYS_getrlimit
      ALLOW_IF(getrlimit, 0, WHOLE, RLIMIT_CPU),
      ALLOW_IF(setrlimit, 0, WHOLE, RLIMIT_CPU),
#endif
      // the end, also by abort
      ALLOW(getppid),
      ALLOW(getpid),
      ALLOW(gettid),
      ALLOW_IF(tgkill, 0, WHOLE, (uint32_t)getpid()),
      ALLOW(rt_sigaction),
      ALLOW(rt_sigprocmask),
      ALLOW(rt_sigpending),
      ALLOW(rt_sigtimedwait),
      ALLOW(rt_sigreturn),
      ALLOW(restart_syscall),
      ALLOW(exit),
      ALLOW(exit_group),
  };
  confine_calls(rule, ARRAY_LEN(rule), CALL_VIOLATE, out);
}

void sandbox_enter(const SandboxLimits *l, Layers *out) {
  static const FileRules no_files = {
      .read = true, .write = true, .execute = true, .tcp = true, .outside = true};
  const ResourceLimits limits = {.memory = mapped_bytes() + l->memory, .files = 3};
  Layer *layer = out->layer;
  const char *watched = confine_watched();
  memset(out, 0, sizeof *out);
  cpu_seconds = watched ? 0 : l->cpu_seconds;  // a tool that watches takes many times as long
  report_stops();
  confine_no_new_privs(&layer[LAYER_NO_NEW_PRIVS]);
  for (int i = LAYER_NO_NEW_PRIVS + 1; watched && i < LAYERS; i++)
    memcpy(layer[i].text, watched, strlen(watched) + 1);
  if (watched) return;
  (void)machine_memory();  // reads files, once
  confine_close_files();
  confine_files(&no_files, &layer[LAYER_LANDLOCK]);
  confine_resources(&limits, &layer[LAYER_RLIMITS]);
  allow_calls(&layer[LAYER_SECCOMP]);
}

void sandbox_begin_kernel(void) {
  if (cpu_seconds) confine_cpu(cpu_seconds);
  working = 1;
}

void sandbox_end_kernel(void) { working = 0; }
