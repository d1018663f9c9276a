// norm_test.c -- group_normalization whose parameters have a symbolic size: by group or by channel,
// which only a run tells.
#include "compiled.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "runtime/session.h"
#include "sample.h"
#include "test.h"

static const char text[] = "graph @\"g\"(%x: f32[1, 4, 2], %s: f32[g], %b: f32[g]) {\n"
                           "  %r = group_normalization(%x, %s, %b) num_groups=2\n"
                           "  return %r\n}\n";

static tenon_status fill_inputs(Run *run, int64_t g, Value **in) {
  int64_t dims[3] = {1, 4, 2};
  TRY(value_tensor(run, NOWHERE, DT_F32, 3, dims, &in[0]));
  TRY(value_tensor(run, NOWHERE, DT_F32, 1, &g, &in[1]));
  TRY(value_tensor(run, NOWHERE, DT_F32, 1, &g, &in[2]));
  for (int k = 0; k < 3; k++)
    for (int64_t i = 0; i < in[k]->n; i++) val_put_f64(in[k], i, (double)(i * i) - k);
  return TENON_OK;
}

static void check_size(Interp *in, Session *session, int64_t g, Diag *d) {
  Run run;
  Value *a[3] = {NULL}, *b[3] = {NULL}, *want = NULL, *got = NULL;
  run_init(&run, NULL, d);
  if (fill_inputs(&run, g, a) || fill_inputs(&run, g, b) || interp_run(in, &run, a, &want) ||
      session_run(session, &run, b, NULL, &got))
    FAIL("%lld parameters: %s", (long long)g, d->text);
  else
    EXPECT(sample_close(got, want, false));
  run_deinit(&run);
}

TEST(group_normalization_with_parameters_of_an_open_size) {
  static Diag d;
  Arena a;
  Graph *g = NULL;
  Interp *in = NULL;
  Program *p = NULL;
  Session *session = NULL;
  arena_init(&a);
  diag_init(&d);
  if (graph_parse(str_of(text), NULL, &d, &g) || interp_create(g, NULL, &d, &in) ||
      compile_text(text, "ref", &a, &d, &p) ||
      session_create(p, &(SessionOptions){.threads = 1}, &d, &session)) {
    FAIL("%s", d.text);
  } else {
    check_size(in, session, 2, &d);
    check_size(in, session, 4, &d);
  }
  session_free(session);
  program_release(p);
  interp_free(in);
  graph_free(g);
  arena_deinit(&a);
}
