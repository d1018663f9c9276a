// thread_block_test.c -- kernels of thread blocks: text, what the verifier refuses, and where
// threads wait.
#include "codegen_fixture.h"
#include "loop/thread_block.h"
#include "loop_fixture.h"
#include "test.h"

TEST(thread_block_kernels_are_accepted) {
  for (int i = 0; codegen_groups[i]; i++) {
    LoopFixture f;
    if (!loop_fixture_read(&f, codegen_groups[i])) continue;
    if (loop_verify(f.k, &f.d)) FAIL("%s", f.d.text);
    loop_fixture_free(&f);
  }
}

TEST(thread_block_text_and_sizes) {
  static const char text[] = "kernel @k (%x: f32[16], out %y: f32[16]) {\n"
                             "  shared %s: f32[8]\n"
                             "  register %r: f32[16]\n"
                             "  parallel i < 2 {\n"
                             "    thread t < 8 {\n"
                             "      store %r[2*t + 1] = %x[8*i + t]\n"
                             "    }\n"
                             "    thread t_1 < 8 {\n"
                             "      store %y[8*i + t_1] = %r[2*t_1 + 1]\n"
                             "    }\n"
                             "  }\n"
                             "}\n";
  LoopFixture f;
  StrBuf out;
  if (!loop_fixture_read(&f, text)) return;
  strbuf_init(&out, &f.arena);
  loop_print(f.k, &out);
  EXPECT_STR_EQ(strbuf_text(&out), text);
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
  EXPECT_INT_EQ(loop_threads(f.k), 8);
  EXPECT_INT_EQ(loop_shared_bytes(f.k), 64);
  EXPECT_INT_EQ(loop_scratch_bytes(f.k), 0);
  loop_fixture_free(&f);
}

// A kernel of 8 threads with these statements in the parallel loop.
#define KERNEL(body)                                                                               \
  "kernel @k (%x: f32[16], %n: i64[2], out %y: f32[16]) {\n shared %s: f32[8]\n scratch %c: "      \
  "f32[8]\n register %r: f32[16]\n parallel i < 2 {\n" body " }\n}\n"

// What is the same for all threads does not keep them from being told apart, wherever it stands.
TEST(thread_block_threads_are_told_apart_in_a_row) {
  static const char text[] = "kernel @k (%x: f32[45], out %y: f32[45]) {\n parallel i < 3 {\n"
                             " for s < 2 {\n thread t < 8 {\n where g = 8*s + t < 15 {\n"
                             " store %y[15*i + g] = %x[15*i + g]\n }\n }\n }\n }\n}\n";
  LoopFixture f;
  if (!loop_fixture_read(&f, text)) return;
  if (loop_verify(f.k, &f.d)) FAIL("%s", f.d.text);
  loop_fixture_free(&f);
}

TEST(thread_block_mistakes_are_refused) {
  static const char *const bad[][2] = {
      {KERNEL("thread t < 8 {\n for j < 2 {\n let %v0: f32 = %x[j]\n }\n store %s[0] = 0.0\n }\n"),
       "threads may meet in %s"},
      {KERNEL(
           "thread t < 8 {\n reduce %v0: f32 = add over j < 2 {\n yield %x[j]\n }\n store %s[0] = "
           "%v0\n }\n"),
       "threads may meet in %s"},
      {KERNEL("thread t < 8 {\n store %s[7 - t] = %s[t]\n }\n"), "threads may meet in %s"},
      {KERNEL("thread t < 8 {\n store %c[0] = %x[t]\n }\n"), "threads may meet in %c"},
      {KERNEL("thread t < 8 {\n store %y[8*i] = %x[t]\n }\n"), "threads may meet in %y"},
      {KERNEL("thread t < 8 {\n store %y[t] = %x[t]\n }\n"), "work items may meet in %y"},
      // offsets that are the same for all threads, but not for both accesses
      {KERNEL("for j < 2 {\n thread t < 8 {\n where g = t + 3*j < 8 {\n store %s[g] = 1.0\n }\n"
              " where h = t + 2*j < 8 {\n store %s[h] = 2.0\n }\n }\n }\n"),
       "threads may meet in %s"},
      {KERNEL("thread t < 8 {\n store %y[8*i + t] = where(g = t - 1 < 8) %y[8*i + g]\n }\n"),
       "threads may meet in %y"},
      {KERNEL("thread t < 8 {\n store %r[t] = %x[t]\n }\n"), "a thread's number of them"},
      {KERNEL("thread t < 8 {\n for j < 2 {\n store %r[2*t + j] = %x[t]\n }\n }\n"), "unrolled"},
      {KERNEL("thread t < 8 {\n unroll j < 3 {\n store where(g = 2*t + j < 16) %r[g] = %x[t]\n "
              "}\n }\n"),
       "registers are indexed"},
      {KERNEL("thread t < 7 {\n unroll j < 3 {\n store %r[2*t + j] = %x[t]\n }\n }\n"),
       "a thread's number of them"},
      {KERNEL("thread t < 8 {\n store %s[t] = 0.0\n }\n store %y[i] = 0.0\n"),
       "outside of the thread loops"},
      {KERNEL("thread t < 8 {\n store %s[t] = 0.0\n }\n let %v0: f32 = %s[0]\n"),
       "outside of the thread loops"},
      {KERNEL("thread t < 8 {\n store %s[t] = 0.0\n }\n thread u < 4 {\n store %s[u] = 0.0\n }\n"),
       "one extent"},
      {KERNEL("thread t < 8 {\n thread u < 8 {\n store %s[u] = 0.0\n }\n }\n"),
       "lies in no thread loop"},
      {KERNEL("thread t < 8 {\n store %s[t] = 0.0\n }\n vector u < 4 {\n let %v0: f32 = %x[u]\n "
              "}\n"),
       "outside of the thread loops"},
  };
  for (int i = 0; i < ARRAY_LEN(bad); i++) {
    LoopFixture f;
    if (!loop_fixture_read(&f, bad[i][0])) continue;
    if (!loop_verify(f.k, &f.d))
      FAIL("accepted: %s", bad[i][0]);
    else
      EXPECT_CONTAINS(f.d.text, bad[i][1]);
    loop_fixture_free(&f);
  }
}

// Which of a kernel's shared buffers are registers of a warp.
static void expect_shuffled(const char *text, int64_t most, const char *want) {
  LoopFixture f;
  StrBuf got;
  if (!loop_fixture_read(&f, text)) return;
  strbuf_init(&got, &f.arena);
  if (loop_verify(f.k, &f.d)) FAIL("%s", f.d.text);
  bool *shuffled = arena_array(&f.arena, bool, f.k->nbuffers);
  loop_shuffled(f.k, &f.arena, most, shuffled);
  for (int32_t i = f.k->nargs; i < f.k->nbuffers; i++)
    if (shuffled[i]) strbuf_printf(&got, "%s ", f.k->buffer[i].name);
  EXPECT_STR_EQ(strbuf_text(&got), want);
  loop_fixture_free(&f);
}

TEST(thread_block_sums_of_neighbours_need_no_memory) {
#define STORE "thread t < 8 {\n store %s[t] = %x[t]\n }\n "
#define SUM(lanes, n, at)                                                                          \
  "thread u < 8 {\n reduce %v0: f32 = add lanes " lanes " over q < " n " {\n yield %s[" at         \
  "]\n }\n store %y[8*i + u] = %v0\n }\n"
  expect_shuffled(KERNEL(STORE SUM("4", "4", "4*floor(u/4) + q")), 32, "s ");
  expect_shuffled(KERNEL(STORE SUM("8", "8", "q")), 32, "s ");
  expect_shuffled(KERNEL(STORE SUM("8", "8", "q")), 4, "");                  // too many
  expect_shuffled(KERNEL(STORE SUM("1", "4", "4*floor(u/4) + q")), 32, "");  // in another order
  expect_shuffled(KERNEL(STORE SUM("4", "4", "q")), 32, "");                 // of others
  expect_shuffled(KERNEL(STORE SUM("8", "8", "7 - q")), 32, "");
  // Something else reads or stores an element.
  expect_shuffled(KERNEL(STORE SUM("8", "8", "q") "thread w < 8 {\n store %c[w] = %s[7 - w]\n }\n"),
                  32, "");
  expect_shuffled(KERNEL("thread t < 8 {\n where g = t < 4 {\n store %s[g] = %x[t]\n }\n }\n " SUM(
                      "8", "8", "q")),
                  32, "");
  // Not all threads come to it.
  expect_shuffled(
      KERNEL(STORE "thread u < 8 {\n where g = u < 3 {\n reduce %v0: f32 = add lanes 8 over q < 8 "
                   "{\n yield %s[q]\n }\n store %y[8*i + g] = %v0\n }\n }\n"),
      32, "");
#undef STORE
#undef SUM
}

// The fences before each thread loop in the order of the text.
static void list_fences(const LoopBlock *b, const IntMap *m, StrBuf *out) {
  for (int64_t i = 0; i < b->n; i++) {
    uint64_t n = 0;
    const LoopStmt *s = b->v[i];
    if (s->kind == LS_FOR && s->loop == LOOP_THREAD) {
      intmap_get(m, (uint64_t)(uintptr_t)s, &n);
      strbuf_printf(out, "%d", (int)n);
    }
    list_fences(&s->body, m, out);
    list_fences(&s->orelse, m, out);
  }
}

static void expect_fences(const char *text, const char *want) {
  LoopFixture f;
  IntMap m;
  StrBuf got;
  if (!loop_fixture_read(&f, text)) return;
  strbuf_init(&got, &f.arena);
  if (loop_verify(f.k, &f.d)) FAIL("%s", f.d.text);
  loop_barriers(f.k, &f.arena, NULL, &m);
  list_fences(&f.k->body, &m, &got);
  EXPECT_STR_EQ(strbuf_text(&got), want);
  loop_fixture_free(&f);
}

TEST(thread_block_threads_wait_where_they_must) {
  // The first loop of the next item stores what nobody has touched since all waited.
  expect_fences(codegen_groups[0], "011");
  // Loading a tile waits for those who still compute with the last; registers and results need no
  // waiting.
  expect_fences(codegen_groups[1], "0110");
  // Scratch is memory of its own; the next item's first loop stores what the last one of this item
  // loads.
  expect_fences(codegen_groups[3], "23322");
  expect_fences(KERNEL("thread t < 8 {\n store %s[t] = %x[t]\n }\n thread u < 8 {\n store %y[8*i + "
                       "u] = %x[u]\n }\n thread v < 8 {\n store %c[v] = %s[7 - v]\n }\n"),
                "101");
  expect_fences(KERNEL("if lt(%n[i], 0) {\n thread t < 8 {\n store %s[t] = %x[t]\n }\n } else {\n "
                       "thread u < 8 {\n store %r[2*u] = %x[u]\n }\n }\n thread v < 8 {\n store "
                       "%y[8*i + v] = %s[7 - v]\n }\n"),
                "101");
}

// What unrolled loops begin with in every round alike stands before them; what depends on the
// round, or on what the kernel writes, stays.
TEST(loop_hoist_moves_what_is_the_same) {
  static const char before[] = "kernel @k (%x: f32[64], %n: i64[2], out %y: f32[64]) {\n"
                               "  parallel i < 2 {\n"
                               "    thread t < 4 {\n"
                               "      unroll j < 4 {\n"
                               "        unroll c < 2 {\n"
                               "          bind r < 2 = %n[i] check \"out of range\"\n"
                               "          let %v0: f32 = %x[32*r + 8*j]\n"
                               "          let %v1: f32 = %x[c]\n"
                               "          store %y[c + 2*j + 8*t + 32*i] = add(%v0, %v1)\n"
                               "        }\n"
                               "      }\n"
                               "    }\n"
                               "  }\n"
                               "}\n";
  static const char after[] = "      bind r < 2 = %n[i] check \"out of range\"\n"
                              "      unroll j < 4 {\n"
                              "        let %v0: f32 = %x[8*j + 32*r]\n"
                              "        unroll c < 2 {\n"
                              "          let %v1: f32 = %x[c]\n";
  LoopFixture f;
  StrBuf out;
  if (!loop_fixture_read(&f, before)) return;
  loop_hoist(f.k);
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
  strbuf_init(&out, &f.arena);
  loop_print(f.k, &out);
  EXPECT_CONTAINS(strbuf_text(&out), after);
  loop_fixture_free(&f);
}
