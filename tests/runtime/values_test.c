// values_test.c -- an input too small for a window: the caller's mistake, and no defect.
#include "compiled.h"
#include "runtime/session.h"
#include "test.h"

static const char *const graphs[] = {
    "graph @\"g\"(%x: f32[1, 1, n]) {\n  %r = max_pool(%x) kernel_shape=[3]\n  return %r\n}\n",
    "graph @\"g\"(%x: f32[1, 1, n]) {\n  %w = const f32[1, 1, 3] {1, 2, 3}\n  %y = conv(%x, %w)\n"
    "  %s = softmax(%y)\n  %z = conv(%s, %w) pads=[2, 2]\n  return %z\n}\n"};

static void check_small(const char *text) {
  static Diag d;
  Arena a;
  Run run;
  Program *p = NULL;
  Session *session = NULL;
  Value *x = NULL, *y = NULL;
  int64_t dims[3] = {1, 1, 1};
  arena_init(&a);
  diag_init(&d);
  run_init(&run, NULL, &d);
  if (compile_text(text, "ref", &a, &d, &p) ||
      session_create(p, &(SessionOptions){.threads = 1}, &d, &session) ||
      value_tensor(&run, NOWHERE, DT_F32, 3, dims, &x)) {
    FAIL("%s", d.text);
  } else {
    EXPECT_INT_EQ(session_run(session, &run, &x, NULL, &y), TENON_EINVAL);
    if (!strstr(d.text, "would have size -1")) FAIL("%s", d.text);
  }
  run_deinit(&run);
  session_free(session);
  program_release(p);
  arena_deinit(&a);
}

TEST(an_input_too_small_for_a_window_is_refused) {
  for (int i = 0; i < ARRAY_LEN(graphs); i++) check_small(graphs[i]);
}
