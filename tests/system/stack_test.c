// stack_test.c -- opening, compiling and running need a bounded stack (LIMIT_STACK_KIB): a thread
// with no more does all of it.
#include "test.h"

#include "base/base.h"
#include "base/limits.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define INSTRUMENTED 1
#endif
#endif
#ifndef INSTRUMENTED
#define INSTRUMENTED 0
#endif

typedef struct Job {
  const char *path, *text;  // one of them
  const char *target;
  tenon_error error;
  tenon_status status;
} Job;

static tenon_status open_job(Job *j, tenon_model **m) {
  if (j->path) return tenon_model_open_with(j->path, NULL, m, &j->error);
  return tenon_model_open_memory(j->text, strlen(j->text), NULL, m, &j->error);
}

// Inputs of zeros, with 2 for a symbolic size; what the model says to them is no matter here.
static void run_once(tenon_program *p, tenon_error *error) {
  size_t nin = tenon_program_input_count(p), nout = tenon_program_output_count(p);
  tenon_tensor in[16] = {{0}}, out[16] = {{0}};
  static char zeros[1 << 20];
  tenon_session *s = NULL;
  if (nin > 16 || nout > 16 || tenon_session_create(p, NULL, &s, error)) return;
  bool fits = true;
  for (size_t i = 0; i < nin; i++) {
    tenon_value_info v;
    if (tenon_program_input(p, i, &v) || v.kind != TENON_KIND_TENSOR || v.rank < 0) fits = false;
    in[i] = (tenon_tensor){.data = zeros, .dtype = v.dtype, .rank = MAX(v.rank, 0)};
    for (int32_t k = 0; k < in[i].rank; k++) in[i].shape[k] = v.shape[k] < 0 ? 2 : v.shape[k];
    int64_t bytes = tenon_tensor_size(v.dtype, in[i].rank, in[i].shape);
    fits = fits && bytes >= 0 && bytes <= (int64_t)sizeof zeros;
  }
  if (fits && !tenon_session_run(s, in, nin, out, nout, NULL, error))
    for (size_t i = 0; i < nout; i++) tenon_tensor_release(&out[i]);
  tenon_session_release(s);
}

static void *work(void *ctx) {
  Job *j = ctx;
  tenon_model *m = NULL;
  tenon_program *p = NULL;
  tenon_options o = {.struct_size = sizeof o, .target = j->target};
  tenon_error ignored;
  j->status = open_job(j, &m);
  if (!j->status) j->status = tenon_compile(m, &o, &p, &j->error);
  if (!j->status) run_once(p, &ignored);
  tenon_program_release(p);
  tenon_model_close(m);
  return NULL;
}

static void on_small_stack(Job *j) {
  pthread_attr_t a;
  pthread_t t;
  REQUIRE(!pthread_attr_init(&a));
  REQUIRE(!pthread_attr_setstacksize(&a, (size_t)LIMIT_STACK_KIB << 10));
  REQUIRE(!pthread_create(&t, &a, work, j));
  pthread_join(t, NULL);
  pthread_attr_destroy(&a);
}

static void check_model(const char *path, const char *text) {
  static const char *const target[] = {"ref", "cpu"};
  tenon_target_info cpu = {0};
  for (size_t i = 0; !tenon_target(i, &cpu) && strcmp(cpu.name, "cpu"); i++) continue;
  for (int i = 0; i < (cpu.available ? 2 : 1); i++) {
    Job j = {.path = path, .text = text, .target = target[i]};
    on_small_stack(&j);
    if (j.status && j.status != TENON_EUNSUPPORTED)
      FAIL("%s: %s", path ? path : "text", j.error.message);
  }
}

TEST(models_on_a_small_stack) {
  if (INSTRUMENTED) SKIP("frames of instrumented code are larger");
  static const char *const patterns[] = {"/tests/models/*.onnx", "/tests/models/*.tir",
                                         "/tools/graphfuzz/cases/*.tir"};
  for (int i = 0; i < (int)ARRAY_LEN(patterns); i++) {
    char pattern[4096];
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "%s%s", TENON_SOURCE_DIR, patterns[i]);
    REQUIRE(!glob(pattern, 0, NULL, &found));
    for (size_t k = 0; k < found.gl_pathc; k++)
      if (!strstr(found.gl_pathv[k], "custom.onnx") && test_takes())
        check_model(found.gl_pathv[k], NULL);
    globfree(&found);
  }
}

// Conditions within one another, as deep as text may have them.
TEST(nested_bodies_on_a_small_stack) {
  if (INSTRUMENTED) SKIP("frames of instrumented code are larger");
  Arena a;
  StrBuf b;
  arena_init(&a);
  strbuf_init(&b, &a);
  int depth = LIMIT_TEXT_DEPTH - 2;
  strbuf_puts(&b, "graph @\"deep\"(%c: bool[], %x: f32[4]) -> (y: f32[4]) {\n");
  for (int i = 0; i < depth; i++)
    strbuf_printf(&b,
                  "%%y%d = if(%%c%s, %%x%s, %%c%s) then_captures=2 then_branch={ @\"t\" (%%x%d: "
                  "f32[4], %%c%d: bool[])\n",
                  i, i ? str_printf(&a, "%d", i - 1) : "", i ? str_printf(&a, "%d", i - 1) : "",
                  i ? str_printf(&a, "%d", i - 1) : "", i, i);
  strbuf_printf(&b, "%%z = neg(%%x%d)\nreturn %%z\n", depth - 1);
  for (int i = depth - 1; i >= 0; i--) {
    strbuf_puts(&b, "} else_branch={ @\"e\" ()\n%k = const f32[4] {0, 0, 0, 0}\nreturn %k\n}\n");
    strbuf_printf(&b, "return %%y%d\n", i);
  }
  strbuf_puts(&b, "}\n");
  check_model(NULL, strbuf_text(&b));
  arena_deinit(&a);
}
