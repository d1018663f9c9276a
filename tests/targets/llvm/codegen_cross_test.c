// codegen_cross_test.c -- code for AArch64 and RISC-V, run under qemu, against the interpreter.
//
// Skipped where there is no qemu-user, or the program that runs a kernel (tests/cross) could not be
// built.
#include "codegen.h"
#include "codegen_fixture.h"
#include "cross/run.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROSS_FAILED = -1, CROSS_RAN = 0 };
static int run_program(const char *qemu, const char *cpu, const char *program, const char *file) {
  pid_t p = fork();
  if (!p) {
    execlp(qemu, qemu, "-cpu", cpu, program, file, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  if (p <= 0 || waitpid(p, &status, 0) != p) return CROSS_FAILED;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CROSS_RAN : CROSS_FAILED;
}

static int64_t page_up(int64_t n) { return (n + CROSS_PAGE - 1) / CROSS_PAGE * CROSS_PAGE; }

typedef struct CrossTarget {
  const char *triple, *features, *qemu[2], *cpu, *program;
} CrossTarget;
static const CrossTarget targets[] = {
    {"aarch64-unknown-linux-gnu",
     "",
     {"qemu-aarch64", "qemu-aarch64-static"},
     "max",
     TENON_BINARY_DIR "/cross-aarch64"},
    {"riscv64-unknown-linux-gnu",
     "",
     {"qemu-riscv64", "qemu-riscv64-static"},
     "rv64",
     TENON_BINARY_DIR "/cross-riscv64"},
    {"riscv64-unknown-linux-gnu",
     "+v",
     {"qemu-riscv64", "qemu-riscv64-static"},
     "rv64,v=true,vext_spec=v1.0,vlen=128",
     TENON_BINARY_DIR "/cross-riscv64"},
};

static const char *find_qemu(const CrossTarget *t) {
  const char *path = getenv("PATH");
  if (access(t->program, X_OK)) return NULL;
  for (int i = 0; i < 2; i++) {
    Str rest = str_of(path ? path : "");
    while (rest.n) {
      const char *colon = memchr(rest.p, ':', (size_t)rest.n);
      int64_t n = colon ? colon - rest.p : rest.n;
      char full[512];
      snprintf(full, sizeof full, "%.*s/%s", (int)n, rest.p, t->qemu[i]);
      if (!access(full, X_OK)) return t->qemu[i];
      rest = (Str){rest.p + n + (colon != NULL), rest.n - n - (colon != NULL)};
    }
  }
  return NULL;
}

// The job as one mapping; `f`'s second set of arguments goes in and comes back.
static int64_t run_there(CodegenFixture *f, const CrossTarget *t, const char *qemu,
                         const CodeReply *code) {
  char path[] = "/tmp/tenon-cross-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return -1;
  CrossJob j = {.image = CROSS_PAGE,
                .image_bytes = page_up(code->bytes.n),
                .entry = code->entry,
                .result = -1};
  int64_t at = j.image + j.image_bytes, result = -1;
  j.nargs = f->k->nargs;
  j.items = codegen_items(f);
  for (int i = 0; i < f->k->nargs; i++) {
    j.arg[i] = at;
    at += page_up(codegen_bytes(f, i)) + CROSS_PAGE;
  }
  for (int i = 0; i < CROSS_DIMS; i++) j.dims[i] = f->dims[i];
  j.scratch = at;
  j.total = at + page_up(loop_scratch_bytes(f->k)) + CROSS_PAGE;
  char *all = ftruncate(fd, j.total)
                  ? MAP_FAILED
                  : mmap(NULL, (size_t)j.total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (all != MAP_FAILED) {
    memcpy(all, &j, sizeof j);
    memcpy(all + j.image, code->bytes.p, (size_t)code->bytes.n);
    for (int i = 0; i < f->k->nargs; i++)
      memcpy(all + j.arg[i], f->arg[1][i], (size_t)codegen_bytes(f, i));
    result = run_program(qemu, t->cpu, t->program, path);
    if (result == CROSS_RAN) result = ((CrossJob *)(void *)all)->result;
    for (int i = 0; i < f->k->nargs; i++)
      memcpy(f->arg[1][i], all + j.arg[i], (size_t)codegen_bytes(f, i));
    munmap(all, (size_t)j.total);
  }
  close(fd);
  unlink(path);
  return result;
}

static void expect_there(const CrossTarget *t, const char *qemu, const char *text) {
  CodegenFixture f;
  Machine m;
  CodeReply code;
  REQUIRE(codegen_machine(t->triple, "", t->features, &m));
  if (!codegen_open(&f, text, NULL)) return;
  CodeRequest q = codegen_request(CODE_IMAGE, &m, f.k, &f.arena);
  int32_t failed;
  if (!codegen_ask(&q, &f.arena, &code) || code.status) {
    FAIL("%s: no code for '%s'", t->triple, f.k->name);
  } else if (loop_interpret(f.k, f.arg[0], f.size, f.dims, 0, codegen_items(&f), &f.d, &failed)) {
    FAIL("%s", f.d.text);
  } else {
    int64_t got = run_there(&f, t, qemu, &code);
    EXPECT_INT_EQ(got, failed + 1);
    if (got == 0) codegen_compare(&f, t->triple);
  }
  codegen_close(&f);
}

TEST(codegen_cross) {
  if (!codegen_there()) SKIP("tenon-codegen was not built");
  int ran = 0;
  for (int i = 0; i < ARRAY_LEN(targets); i++) {
    const char *qemu = find_qemu(&targets[i]);
    if (!qemu) continue;
    ran++;
    for (int j = 0; codegen_shapes[j]; j++) expect_there(&targets[i], qemu, codegen_shapes[j]);
    for (int j = 0; j < codegen_ntypes; j++) {
      Arena a;
      arena_init(&a);
      // qemu 7.2 fails an assertion of its own on RISC-V's widening conversions of vectors, which
      // decoding f8 uses.
      bool skip = targets[i].features[0] && str_starts(str_of(codegen_types[j]), "f8");
      if (!skip && test_takes()) expect_there(&targets[i], qemu, codegen_casts_text(&a, j));
      for (int k = 0; k < 2; k++) {
        const char *text = codegen_ops_text(&a, j, k, true);
        if (text && test_takes()) expect_there(&targets[i], qemu, text);
      }
      arena_deinit(&a);
    }
  }
  if (!ran) SKIP("no qemu-user, or nothing to run under it");
}
