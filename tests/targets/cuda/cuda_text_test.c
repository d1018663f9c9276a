// cuda_text_test.c -- kernels as CUDA: their text.  What it computes is tried where there is a
// device (tests/gpu).
#include "base/platform.h"
#include "codegen_fixture.h"
#include "targets/cuda/emit.h"
#include "test.h"

#include <stdlib.h>

typedef struct Text {
  Arena arena;
  Diag d;
  CStyle style;
  StrBuf text;
  int n;
} Text;

static void text_open(Text *t) {
  *t = (Text){0};
  arena_init(&t->arena);
  diag_init(&t->d);
  strbuf_init(&t->text, &t->arena);
  cstyle_init(&t->style, &spelling_cuda, 0, &t->arena, &t->d);
}

static void text_add(Text *t, const char *kernel) {
  CodegenFixture f;
  bool differs;
  if (!codegen_open(&f, kernel, NULL)) return;
  const char *name = str_printf(&t->arena, "kernel_%d", t->n++);
  if (cstyle_kernel(&t->style, f.k, name, false, &t->text, &differs))
    FAIL("%s\n%s", t->d.text, kernel);
  codegen_close(&f);
}

TEST(cuda_text_of_a_thread_block) {
  Text t;
  text_open(&t);
  text_add(&t,
           "kernel @sum (%x: f32[1000], out %y: f32[10]) {\n shared %part: f32[4]\n register "
           "%r: f32[8]\n parallel i < 10 {\n"
           "  thread t < 4 {\n   reduce %v0: f32 = add lanes 1 over j < 25 {\n    yield "
           "%x[100*i + 4*j + t]\n   }\n   store %part[t] = %v0\n   store %r[2*t + 1] = %v0\n"
           "  }\n  thread u < 4 {\n   store where(g = u < 1) %y[i + g] = add(%part[0], %r[2*u + "
           "1])\n  }\n }\n}\n");
  EXPECT_STR_EQ(
      strbuf_text(&t.text),
      "// sum(x: f32[1000], out y: f32[10])\n"
      "extern \"C\" __global__ void kernel_0(const tn_f32 *x, tn_f32 *y, long long items, "
      "unsigned char *scratch, long long scratch_each, int *fault) {\n"
      "  __shared__ __align__(16) tn_f32 part[4];\n"
      "  tn_f32 r[2];\n"
      "  for (int i = blockIdx.x; i < items; i += gridDim.x) {\n"
      "    __syncthreads();\n"
      "    {\n"
      "      const int t = threadIdx.x;\n"
      "      float v0 = 0.0f;\n"
      "      for (int j = 0; j < 25; j++) {\n"
      "        v0 = v0 + x[t + 4 * j + 100 * i];\n"
      "      }\n"
      "      part[t] = v0;\n"
      "      r[1] = v0;\n"
      "    }\n"
      "    __syncthreads();\n"
      "    {\n"
      "      const int u = threadIdx.x;\n"
      "      if (u < 1) {\n"
      "        y[i + u] = part[0] + r[1];\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n");
  arena_deinit(&t.arena);
}

// The threads of a warp shuffle what they have, and nobody waits; of two numbers whose order
// matters the lower thread's is the first.
TEST(cuda_text_of_shuffles) {
  Text t;
  text_open(&t);
  text_add(&t,
           "kernel @swap (%x: f32[64], out %y: f32[64]) {\n shared %part: f32[32]\n parallel i < "
           "2 {\n"
           "  thread t < 32 {\n   store %part[t] = %x[32*i + t]\n  }\n"
           "  thread u < 32 {\n   reduce %v0: f32 = max lanes 2 over q < 2 {\n    yield "
           "%part[2*floor(u/2) + q]\n   }\n   store %y[32*i + u] = %v0\n  }\n }\n}\n");
  const char *text = strbuf_text(&t.text);
  EXPECT(!strstr(text, "__syncthreads") && !strstr(text, "__shared__"));
  EXPECT_CONTAINS(text, "  tn_f32 part[1] = {0};\n");
  EXPECT_CONTAINS(text, "      part[0] = x[t + 32 * i];\n");
  EXPECT_CONTAINS(text, "      float v0 = part[0];\n"
                        "      const float other = __shfl_xor_sync(~0u, v0, 1);\n"
                        "      v0 = threadIdx.x & 1 ? tn_max_f32(other, v0) : tn_max_f32(v0, "
                        "other);\n");
  arena_deinit(&t.arena);
}

// What only asks for memory does so before the kernel before has ended.
TEST(cuda_text_asks_before_it_waits) {
  Text t;
  text_open(&t);
  t.style.dependent_launch = true;
  text_add(&t, "kernel @ask (%x: f32[32], out %y: f32[32]) {\n parallel i < 4 {\n"
               "  thread t < 8 {\n   prefetch %x[t]\n  }\n"
               "  thread u < 8 {\n   store %y[8*i + u] = %x[u]\n  }\n }\n}\n");
  const char *text = strbuf_text(&t.text), *asks = strstr(text, "tn_prefetch(x + (t));");
  const char *waits = strstr(text, "griddepcontrol.wait"), *reads = strstr(text, "= x[u]");
  EXPECT(asks && waits && reads && asks < waits && waits < reads);
  arena_deinit(&t.arena);
}

// Runs of elements: under a guard that is the same for all of them, and several stored to one
// buffer.
TEST(cuda_text_of_runs) {
  Text t;
  text_open(&t);
  text_add(
      &t, "kernel @runs (%x: f32[400], out %y: f32[800]) {\n parallel i < 10 {\n  thread t < 10 {\n"
          "   unroll v < 4 {\n    let %v0: f32 = where(g = 10*i + t - 1 < 100) %x[4*g + v]\n"
          "    store %y[80*i + 8*t + v] = %v0\n    store %y[80*i + 8*t + v + 4] = neg(%v0)\n"
          "   }\n  }\n }\n}\n");
  const char *text = strbuf_text(&t.text);
  EXPECT(strstr(text, "pack = tn_inside(t + 10 * i - 1, 100) ? *(const tn_run<float, 4> *)(x"));
  EXPECT(strstr(text, " : tn_run<float, 4>{};\n"));
  EXPECT(strstr(text, "*(tn_run<float, 4> *)(y + (8 * t + 80 * i)) = pack_1;\n"));
  EXPECT(strstr(text, "*(tn_run<float, 4> *)(y + (8 * t + 80 * i + 4)) = pack_2;\n"));
  arena_deinit(&t.arena);
}

// Runs that a loop prefetches: the first before it, the next before this one's are used.
TEST(cuda_text_of_a_prefetch_loop) {
  Text t;
  text_open(&t);
  t.style.dependent_launch = true;
  text_add(&t, "kernel @ahead (%x: bf16[512], out %y: f32[64], %w: bf16[4096]) {\n"
               " register %r: f32[64]\n parallel i < 8 {\n  thread t < 8 {\n"
               "   unroll z < 8 {\n    store %r[8*t + z] = 0.0\n   }\n"
               "   for j < 4 by 2 {\n    unroll u < 2 {\n     unroll v < 8 {\n"
               "      let %v0: f32 = cast[f32](%w[512*i + 128*j + 64*u + 8*t + v])\n"
               "      store %r[8*t + v] = add(%r[8*t + v], %v0)\n     }\n    }\n   }\n"
               "   store %y[8*i + t] = %r[8*t]\n  }\n }\n}\n");
  const char *text = strbuf_text(&t.text), *wait = strstr(text, "griddepcontrol.wait;");
  const char *nearer = strstr(text, "tn_prefetch(w + (");
  EXPECT(strstr(text, "__launch_bounds__(8, "));
  EXPECT(nearer && wait && nearer < wait);
  EXPECT(strstr(text, "now[u_1] = tn_once(w + (64 * u_1 + 8 * t + 512 * i));\n"));
  EXPECT(strstr(text, "if (j + 1 < 4) {\n"));
  EXPECT(strstr(text, "next[u_2] = tn_once(w + (64 * u_2 + 8 * t + 128 * (j + 1) + 512 * i));\n"));
  EXPECT(strstr(text, "memcpy(&pack, &now[u_3], sizeof pack);\n"));
  EXPECT(strstr(text, "tn_bf16_in(pack, v)"));
  EXPECT(strstr(text, "now[q] = next[q];\n"));
  arena_deinit(&t.arena);
}

// What stands where the guard does not hold is a number: all elements of the run are that.
TEST(cuda_text_of_runs_beyond_an_edge) {
  Text t;
  text_open(&t);
  text_add(&t, "kernel @runs (%x: f32[200], out %y: f32[200]) {\n parallel i < 10 {\n"
               "  thread t < 10 {\n   unroll v < 2 {\n"
               "    store %y[20*i + 2*t + v] = where(g = 10*i + t - 1 < 100) %x[2*g + v] else "
               "-inf\n   }\n  }\n }\n}\n");
  EXPECT_CONTAINS(strbuf_text(&t.text), "pack = tn_inside(t + 10 * i - 1, 100) ? ");
  EXPECT_CONTAINS(strbuf_text(&t.text), " : tn_run<float, 2>{-INFINITY, -INFINITY};\n");
  arena_deinit(&t.arena);
}

// All operations, conversions and shapes have a text.
TEST(cuda_text_of_everything) {
  Text t;
  text_open(&t);
  for (int i = 0; codegen_shapes[i]; i++) text_add(&t, codegen_shapes[i]);
  for (int i = 0; codegen_groups[i]; i++) text_add(&t, codegen_groups[i]);
  for (int i = 0; i < codegen_ntypes; i++) {
    text_add(&t, codegen_casts_text(&t.arena, i));
    for (int half = 0; half < 2; half++) {
      const char *ops = codegen_ops_text(&t.arena, i, half, false);
      if (ops) text_add(&t, ops);
    }
  }
  StrBuf all;
  strbuf_init(&all, &t.arena);
  cstyle_prelude(&t.style, &all);
  strbuf_put(&all, strbuf_str(&t.text));
  EXPECT(!strstr(strbuf_text(&all), "#include"));
  const char *file = getenv("TENON_CUDA_TEXT");  // for whoever has a compiler of it
  if (file) EXPECT_STATUS(file_write(file, all.p, all.n, &t.d), TENON_OK);
  arena_deinit(&t.arena);
}
