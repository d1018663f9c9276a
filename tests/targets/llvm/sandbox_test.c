// sandbox_test.c -- a code generator that was taken over is stopped, reported, and replaced by
// another.
//
// build/tenon-codegen-hostile is tenon-codegen with a hook (hostile_codegen.c).  What stops a deed
// depends on the layers that the kernel has: the program says which hold here, and deeds that none
// of them stops are left out, with a word.
#include "base/confine.h"
#include "base/platform.h"
#include "base/process.h"
#include "targets/llvm/codegen.h"
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] = TENON_BINARY_DIR "/tenon-codegen";
static const char hostile[] = TENON_BINARY_DIR "/tenon-codegen-hostile";

static bool there(const char *path) { return !access(path, X_OK); }

// Bit i: layer i holds in tenon-codegen.
static int active_layers(void) {
  const char *argv[] = {hostile, "--layers", NULL};
  char text[1024] = "";
  Process p;
  int active = 0;
  if (process_start(hostile, argv, &p)) return 0;
  int64_t deadline = platform->now() + 60 * (int64_t)1000000000;
  for (size_t n = 0; n < sizeof text - 1 && !process_read(&p, text + n, 1, deadline);) n++;
  EXPECT_INT_EQ(process_end(&p, false), 0);
  for (int i = 0; i < LAYERS; i++) {
    char row[64];
    snprintf(row, sizeof row, "%s\tactive\t", layer_name[i]);
    if (strstr(text, row)) active |= 1 << i;
  }
  return active;
}

#define KERNEL(name, op)                                                                           \
  "kernel @" name " dims(n) (%x: f32[n], out %y: f32[n]) {\n  parallel i < n {\n"                  \
  "    store %y[i] = " op "(%x[i])\n  }\n}\n"
static const char bad_kernel[] = KERNEL("bad", "exp"), good_kernel[] = KERNEL("good", "sqrt");

static tenon_status build(Codegen *c, const char *text, int n, Diag *d) {
  Arena a;
  Machine m;
  Code code[4];
  Str all[4];
  machine_host(&m);
  diag_init(d);
  arena_init(&a);
  for (int i = 0; i < n; i++) all[i] = str_of(text);
  tenon_status s = codegen_build(c, &m, CODE_IMAGE, all, n, &a, code, d);
  arena_deinit(&a);
  return s;
}

static Codegen *open_pool(const char *with, int nprocesses) {
  static Diag d;
  Codegen *c = NULL;
  CodegenOptions o = {.program = with, .nprocesses = nprocesses};
  diag_init(&d);
  EXPECT_STATUS(codegen_create(&o, &d, &c), TENON_OK);
  return c;
}

enum {
  BY_CALLS = 1 << LAYER_SECCOMP,
  BY_FILES = 1 << LAYER_LANDLOCK,
  BY_LIMITS = 1 << LAYER_RLIMITS
};
typedef struct Case {
  const char *deed;
  int by;                    // any of these layers stops it
  const char *with_seccomp;  // what the message says then; NULL: the same as without
  const char *says;
} Case;
static const char call[] = "which its sandbox does not allow", aborted[] = "ended by signal 6";
static const Case cases[] = {{"open", BY_CALLS | BY_FILES, call, aborted},
                             {"create", BY_CALLS | BY_FILES, call, aborted},
                             {"remove", BY_CALLS | BY_FILES, call, aborted},
                             {"socket", BY_CALLS | BY_LIMITS, call, aborted},
                             {"socketpair", BY_CALLS | BY_LIMITS, call, aborted},
                             {"fork", BY_CALLS, call, aborted},
                             {"thread", BY_CALLS, "its sandbox does not allow", aborted},
                             {"exec", BY_CALLS | BY_FILES, call, aborted},
                             {"kill", BY_CALLS, call, aborted},
                             {"ptrace", BY_CALLS, call, aborted},
                             {"code", BY_CALLS, call, aborted},
                             {"allocate", BY_LIMITS, NULL, aborted},
                             {"loop", BY_LIMITS, NULL, "more than 1 s of processor time"},
                             {"crash", BY_LIMITS, NULL, "ended by signal 11"},
                             {"stack", BY_LIMITS, NULL, "ended by signal 11"}};

// The message, and the request that it names; the file is the request as the program reads it.
static void check_report(const Case *x, int active, const Diag *d) {
  bool seccomp = active & BY_CALLS && x->with_seccomp;
  EXPECT_CONTAINS(d->text, seccomp ? x->with_seccomp : x->says);
  const char *at = strstr(d->text, "the kernel is in ");
  REQUIRE(at);
  char path[600];
  int n = (int)strcspn(at += strlen("the kernel is in "), ":");
  REQUIRE(n < (int)sizeof path);
  snprintf(path, sizeof path, "%.*s", n, at);
  static Diag quiet;
  File f;
  diag_init(&quiet);
  REQUIRE(file_open(path, &f, &quiet) == TENON_OK);
  EXPECT(f.size > (int64_t)strlen(bad_kernel) &&
         !memcmp(f.bytes + f.size - strlen(bad_kernel), bad_kernel, strlen(bad_kernel)));
  file_close(&f);
  unlink(path);
}

TEST(sandbox_stops_a_hostile_code_generator) {
  static Diag d;
  if (!there(hostile)) SKIP("no tenon-codegen");
  int active = active_layers(), nskipped = 0;
  EXPECT(active & 1 << LAYER_NO_NEW_PRIVS);
  setenv("TMPDIR", test_folder(), 1);
  setenv("HOSTILE_KERNEL", "@bad", 1);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    const Case *x = &cases[i];
    if (!(active & x->by)) {
      nskipped++;
      continue;
    }
    setenv("HOSTILE", x->deed, 1);
    Codegen *c = open_pool(hostile, 1);
    REQUIRE(c);
    EXPECT_STATUS(build(c, good_kernel, 1, &d), TENON_OK);
    tenon_status s = build(c, bad_kernel, 1, &d);
    if (s != TENON_EINTERNAL && s != TENON_ENOMEM) FAIL("%s: status %d", x->deed, s);
    check_report(x, active, &d);
    EXPECT_STATUS(build(c, good_kernel, 2, &d), TENON_OK);  // another process
    codegen_release(c);
  }
  unsetenv("HOSTILE");
  unsetenv("HOSTILE_KERNEL");
  unsetenv("TMPDIR");
  if (nskipped) fprintf(stderr, "%d deeds left out: this system has not all layers\n", nskipped);
  if (nskipped == (int)ARRAY_LEN(cases)) SKIP("no layer of the sandbox holds here");
}

// The kernel's signal comes when the thread ends that started a process, not when its process does.
static void *build_in_thread(void *pool) {
  static Diag d;
  EXPECT_STATUS(build(pool, good_kernel, 4, &d), TENON_OK);
  return NULL;
}

TEST(sandbox_processes_outlive_the_threads_that_started_them) {
  static Diag d;
  if (!there(program)) SKIP("no tenon-codegen");
  Codegen *c = open_pool(program, 2);
  REQUIRE(c);
  for (int i = 0; i < 3; i++) {
    pthread_t t;
    REQUIRE(!pthread_create(&t, NULL, build_in_thread, c));
    pthread_join(t, NULL);
    usleep(20000);  // the signal, if it came, has ended them by now
    EXPECT_STATUS(build(c, good_kernel, 2, &d), TENON_OK);
  }
  codegen_release(c);
}

// A parent may end while LLVM is still being loaded, before the kernel's signal is asked for.
TEST(sandbox_ends_when_its_parent_has_ended_already) {
  const char *argv[] = {program, "--parent", "2147483646", NULL};
  Process p;
  char byte;
  if (!there(program)) SKIP("no tenon-codegen");
  REQUIRE(!process_start(program, argv, &p));
  EXPECT(process_read(&p, &byte, 1, platform->now() + 60 * (int64_t)1000000000));
  EXPECT_INT_EQ(process_end(&p, false), 1);
}
