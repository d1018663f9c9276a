// onnx.c -- fuzz target: any bytes as an ONNX model, the whole way: read, import, verify, print,
// run.
//
// Any status is fine, with a message; a crash, a leak, a sanitizer's report, an internal error, or
// more time or memory than fuzz.h allows is a finding.  onnx_mutate.h keeps half of the inputs
// well-formed on the wire.
#include "fuzz_run.h"
#include "onnx_mutate.h"

#include "api/model.h"

static Model *model;

static tenon_status check(Str bytes, Arena *a, Diag *d) {
  TRY(model_open_memory(bytes.p, bytes.n, "fuzz", NULL, d, &model));
  if (graph_verify(model->graph, d)) finding("an imported graph does not verify", d->text);
  StrBuf text;
  strbuf_init(&text, a);
  graph_print(model->graph, &text);
  TRY(model_need_supported(model, d));
  TRY(interp_create(model->graph, NULL, d, &model->interp));
  return fuzz_run(model->graph, model->interp, a, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  Arena a;
  Trap t;
  fuzz_begin();
  diag_init(&d);
  arena_init(&a);
  model = NULL;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = check((Str){(const char *)data, (int64_t)size}, &a, &d);
  trap_leave(&t);
  model_free(model);
  arena_deinit(&a);
  if (t.status == TENON_EINTERNAL) finding("internal error", d.text);
  if (t.status && !d.len) finding("an error without a message", status_name(t.status));
  fuzz_end();
  return 0;
}
