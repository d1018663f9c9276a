// hostile_codegen.c -- what a code generator that was taken over might do, compiled into
// build/tenon-codegen-hostile alone.
//
// HOSTILE names the deed; HOSTILE_KERNEL limits it to kernels whose text has these words.  The deed
// is done where LLVM would run: the request is read, and the sandbox holds.  A deed that the system
// refuses ends as LLVM ends: by abort.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "targets/llvm/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void codegen_test_hook(const CodeRequest *r);

static bool open_file(void) { return open("/etc/passwd", O_RDONLY) >= 0; }
static bool create_file(void) { return open("hostile-was-here", O_CREAT | O_WRONLY, 0600) >= 0; }
static bool remove_file(void) { return !unlink("hostile-bait"); }
static bool open_socket(void) { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }
static bool open_pair(void) {
  int fd[2];
  return !socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
}

static bool start_process(void) {
  pid_t pid = fork();
  if (!pid) _exit(0);
  return pid > 0;
}

static void *nothing(void *arg) { return arg; }
static bool start_thread(void) {
  pthread_t t;
  return !pthread_create(&t, NULL, nothing, NULL);
}

static bool run_program(void) {
  char *argv[] = {(char *)(uintptr_t) "true", NULL};
  execv("/bin/true", argv);
  return false;
}

static bool kill_parent(void) { return !kill(getppid(), SIGTERM); }
static bool attach(void) { return !ptrace(PTRACE_ATTACH, getppid(), NULL, NULL); }

static bool map_code(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool allocate(void) {
  enum { BLOCK = 64 << 20, BLOCKS = 64 };  // 4 GiB
  for (int i = 0; i < BLOCKS; i++) {
    char *p = malloc(BLOCK);
    if (!p) return false;
    *p = (char)i;
  }
  return true;
}

static volatile bool for_ever = true;
static bool loop(void) {
  while (for_ever) continue;
  return true;
}

// Neither processor time nor a call that is not allowed: only its parent's end ends it.
static bool wait_for_ever(void) {
  while (for_ever) poll(NULL, 0, 1000);
  return true;
}

static bool crash(void) { return raise(SIGSEGV) != 0; }

static bool overflow_stack(void) {
  volatile char page[4096];
  page[0] = for_ever;
  return page[0] && overflow_stack() && page[0];
}

typedef struct Deed {
  const char *name;
  bool (*act)(void);
} Deed;
static const Deed deeds[] = {
    {"open", open_file},      {"create", create_file},   {"remove", remove_file},
    {"socket", open_socket},  {"socketpair", open_pair}, {"fork", start_process},
    {"thread", start_thread}, {"exec", run_program},     {"kill", kill_parent},
    {"ptrace", attach},       {"code", map_code},        {"allocate", allocate},
    {"loop", loop},           {"crash", crash},          {"stack", overflow_stack},
    {"wait", wait_for_ever}};

void codegen_test_hook(const CodeRequest *r) {
  const char *name = getenv("HOSTILE"), *words = getenv("HOSTILE_KERNEL");
  if (!name || !*name) return;
  if (words && !memmem(r->kernel.p, (size_t)r->kernel.n, words, strlen(words))) return;
  for (int64_t i = 0; i < ARRAY_LEN(deeds); i++) {
    if (strcmp(deeds[i].name, name)) continue;
    fprintf(stderr, "hostile: %s begins\n", name);
    fprintf(stderr, "hostile: %s %s\n", name, deeds[i].act() ? "succeeded" : "was refused");
    abort();
  }
}
