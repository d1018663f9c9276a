// artifact_trust_test.c -- which compiled models are run: by name, by word, never under limits; one
// that is listed stays data.
#include "codegen.h"
#include "compiled.h"
#include "runtime/artifact.h"
#include "runtime/session.h"
#include "test.h"

#include <stdio.h>

static const char text[] = "graph(%x: f32[n, 4]) { %y = exp(%x)  return y = %y }";

// One program as an artifact: its bytes lie in the arena, at a multiple of 64.
static Str artifact_of(Arena *a) {
  static Diag d;
  Program *p = NULL;
  Str part[ARTIFACT_PARTS];
  int64_t n = 0, at = 0;
  diag_init(&d);
  if (compile_text(text, codegen_there() ? "cpu" : "host", a, &d, &p)) FAIL("%s", d.text);
  if (!p) return (Str){0};
  const Program *one = p;
  EXPECT_STATUS(artifact_parts(&one, 1, false, a, &d, part), TENON_OK);
  for (int i = 0; i < ARTIFACT_PARTS; i++) n += part[i].n;
  char *bytes = arena_alloc(a, n + 64);
  bytes += -(uintptr_t)bytes % 64;
  for (int i = 0; i < ARTIFACT_PARTS; at += part[i++].n)
    if (part[i].n) memcpy(bytes + at, part[i].p, (size_t)part[i].n);
  program_release(p);
  return (Str){bytes, n};
}

TEST(artifact_trust_is_a_name_or_a_word) {
  static const struct {
    const char *name;
    bool said, limited, runs;
  } row[] = {
      {"m.tenon", false, false, true},
      {"/a/b.tenon", false, false, true},
      {"m.onnx", false, false, false},
      {"m.onnx", true, false, true},
      {"-", false, false, false},
      {"-", true, false, true},
      {NULL, false, false, false},
      {NULL, true, false, true},
      {"/dev/stdin", false, false, false},
      {"m.TENON", false, false, false},
      {"m.tenon.onnx", false, false, false},
      {"m.tenon/x", false, false, false},
      {"m.tenon", false, true, false},
      {"m.tenon", true, true, false},
      {"m.onnx", true, true, false},
      {"-", true, true, false},
      {"", false, false, false},
      {"tenon", false, false, false},
  };
  Arena a;
  static Diag d;
  arena_init(&a);
  Str bytes = artifact_of(&a);
  REQUIRE(bytes.n);
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    ArtifactTrust trust = {row[i].name, row[i].said, row[i].limited};
    ArtifactLoad load = {.find = eval_find, .trust = &trust};
    Program *p = NULL;
    diag_init(&d);
    tenon_status s = artifact_load_memory(bytes.p, bytes.n, NULL, &load, &d, &p);
    if (!s != row[i].runs || !p != !row[i].runs)
      FAIL("'%s' said %d limited %d: %s", row[i].name ? row[i].name : "bytes", row[i].said,
           row[i].limited, d.text);
    if (s) EXPECT_STATUS(s, TENON_EINVAL);
    program_release(p);
  }
  arena_deinit(&a);
}

// Whether the page at `p` may be executed, by the system's own list.
static bool is_executable(const void *p) {
  FILE *f = fopen("/proc/self/maps", "r");
  unsigned long from, to;
  char mode[8];
  bool found = false;
  while (f && fscanf(f, "%lx-%lx %7s%*[^\n]", &from, &to, mode) == 3)
    if ((uintptr_t)p >= from && (uintptr_t)p < to) found = mode[2] == 'x';
  if (f) fclose(f);
  return found;
}

TEST(artifact_that_is_listed_stays_data) {
  if (!codegen_there()) SKIP("no code without tenon-codegen");
  Arena a;
  static Diag d;
  Program *p = NULL;
  Session *s = NULL;
  arena_init(&a);
  diag_init(&d);
  Str bytes = artifact_of(&a);
  REQUIRE(bytes.n);
  for (int listed = 0; listed < 2; listed++) {
    ArtifactLoad load = {.find = eval_find, .listed = listed};
    EXPECT_STATUS(artifact_load_memory(bytes.p, bytes.n, NULL, &load, &d, &p), TENON_OK);
    REQUIRE(p && p->code && p->code_bytes > 0);
    EXPECT(is_executable(p->code) == !listed);
    EXPECT_STATUS(session_create(p, &(SessionOptions){.threads = 1}, &d, &s),
                  listed ? TENON_EINVAL : TENON_OK);
    EXPECT((s == NULL) == listed);
    session_free(s);
    program_release(p);
  }
  arena_deinit(&a);
}
