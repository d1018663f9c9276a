// cuda_golden_test.c -- the CUDA texts of a few kernels, as files: a change of what is written
// shows in them.
//
// tests/golden/cuda/NAME.cu is what a graph's kernels are launched with and the function itself,
// without what such kernels call.  A change that is meant: run with TENON_GOLDEN_WRITE=1, and look
// at the difference.
#include "base/platform.h"
#include "compiled.h"
#include "lower/lower.h"
#include "targets/target.h"
#include "test.h"

#include <stdlib.h>

#define LINEAR                                                                                     \
  "graph @\"g\"(%x: bf16[200, 128], %r: bf16[200, 96]) {\n  %h = const bf16[] {0.5}\n"             \
  "  %d = const i64[2] {128, 96}\n  %w = expand(%h, %d)\n  %e = const i64[1] {96}\n"               \
  "  %b = expand(%h, %e)\n  %p = mat_mul(%x, %w)\n  %s = add(%p, %b)\n  %y = add(%s, %r)\n"        \
  "  return %y\n}\n"
#define WINDOW                                                                                     \
  "graph @\"g\"(%x: bf16[1, 14, 14, 64]) {\n  %h = const bf16[] {0.5}\n"                           \
  "  %d = const i64[4] {32, 64, 3, 3}\n  %w = expand(%h, %d)\n"                                    \
  "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"                                                       \
  "  %c = conv(%t, %w) pads=[1, 1, 1, 1]\n  %y = relu(%c)\n"                                       \
  "  %z = transpose(%y) perm=[0, 2, 3, 1]\n  return %z\n}\n"
#define ATTENTION                                                                                  \
  "graph @\"g\"(%q: bf16[1, 4, 70, 64], %k: bf16[1, 4, 70, 64], %v: bf16[1, 4, 70, 64]) {\n"       \
  "  %y = attention(%q, %k, %v)\n  return %y\n}\n"
#define BYTES                                                                                      \
  "graph @\"g\"(%x: u8[64, 256]) {\n  %h = const i8[] {3}\n  %d = const i64[2] {256, 64}\n"        \
  "  %w = expand(%h, %d)\n  %z = const u8[] {7}\n  %wz = const i8[] {0}\n"                         \
  "  %s = const f32[] {0.01}\n  %y = q_linear_mat_mul(%x, %s, %z, %w, %s, %wz, %s, %z)\n"          \
  "  return %y\n}\n"
#define NORM                                                                                       \
  "graph @\"g\"(%x: f32[64, 768]) {\n  %h = const f32[] {0.5}\n  %d = const i64[1] {768}\n"        \
  "  %s = expand(%h, %d)\n"                                                                        \
  "  %y = rms_normalization(%x, %s)\n  return %y\n}\n"

static const struct {
  const char *name, *device, *graph;
} golden[] = {
    {"linear_90a", "sm_90a", LINEAR},       {"linear_80", "sm_80", LINEAR},
    {"window_90a", "sm_90a", WINDOW},       {"window_80", "sm_80", WINDOW},
    {"attention_90a", "sm_90a", ATTENTION}, {"attention_80", "sm_80", ATTENTION},
    {"bytes_90a", "sm_90a", BYTES},         {"norm_80", "sm_80", NORM},
};

// The lines that say how it is launched, and the function.
static void put_kernel(Str text, StrBuf *out) {
  const char *line = str_copy(out->arena, text);
  const char *function = strstr(line, "extern \"C\" __global__");
  for (; str_starts(str_of(line), "//tn "); line = strchr(line, '\n') + 1)
    strbuf_printf(out, "%.*s\n", (int)(strchr(line, '\n') - line), line);
  strbuf_printf(out, "%s\n", function ? function : "no function\n");
}

static const char *text_of(const char *graph, const char *device, Arena *a) {
  Diag d;
  Program *p;
  Asked asked = {.device = device, .fast = fast_flags(), .advised = true};
  StrBuf out;
  strbuf_init(&out, a);
  diag_init(&d);
  if (compile_asked(&asked, graph, "cuda", a, &d, &p)) {
    FAIL("%s\n%s", d.text, graph);
    return "";
  }
  for (int64_t i = 0; i < p->nkernels; i++)
    put_kernel(
        target_find("cuda")->kernel_text(p->device[p->kernel[i].device].code, p->kernel[i].entry),
        &out);
  program_release(p);
  return strbuf_text(&out);
}

TEST(cuda_texts_are_those_kept) {
  for (int64_t i = 0; i < ARRAY_LEN(golden); i++) {
    static Diag d;
    Arena a;
    File file;
    arena_init(&a);
    diag_init(&d);
    const char *path =
        str_printf(&a, "%s/tests/golden/cuda/%s.cu", TENON_SOURCE_DIR, golden[i].name);
    const char *text = text_of(golden[i].graph, golden[i].device, &a);
    if (getenv("TENON_GOLDEN_WRITE") && file_write(path, text, (int64_t)strlen(text), &d))
      FAIL("%s", d.text);
    if (file_open(path, &file, &d)) {
      FAIL("%s", d.text);
    } else {
      if (!str_eq(str_of(text), (Str){(const char *)file.bytes, file.size}))
        FAIL("%s is another: TENON_GOLDEN_WRITE=1 writes what it is now", path);
      file_close(&file);
    }
    arena_deinit(&a);
  }
}
