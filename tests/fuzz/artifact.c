// artifact.c -- fuzz target: the plan of a compiled model, past its checksums.  What is read and
// found whole must be written again as the same bytes.
#include "fuzz.h"
#include "runtime/artifact.h"

static tenon_status check(const uint8_t *data, size_t size, Program *p, Arena *a, Diag *d) {
  static _Alignas(64) char constants[4096];
  // A whole file, as a reader meets it; its checksums refuse almost everything.
  Program *whole = NULL;
  if (artifact_is(data, (int64_t)size)) {
    char *copy = arena_alloc(a, (int64_t)size + 64);
    copy += -(uintptr_t)copy & 63;
    memcpy(copy, data, size);
    tenon_status s = artifact_load_memory(copy, (int64_t)size, NULL,
                                          &(ArtifactLoad){.find = eval_find}, d, &whole);
    program_release(whole);
    return s;
  }
  p->constants = constants;
  p->constants_bytes = sizeof constants;
  p->code_bytes = 4096;
  TRY(plan_decode(p, (Str){(const char *)data, (int64_t)size}, eval_find, d));
  TRY(program_check(p, d));
  StrBuf b;
  strbuf_init(&b, a);
  TRY(plan_encode(p, &b, d));
  // A text that holds a NUL ends there, so only the second writing must be the same as the first.
  if (b.n == (int64_t)size && memcmp(b.p, data, size))
    finding("plan", "other bytes the second time");
  return TENON_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  Arena a;
  Trap t;
  fuzz_begin();
  diag_init(&d);
  arena_init(&a);
  Program *p = program_create();
  if (!p) return 0;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = check(data, size, p, &a, &d);
  trap_leave(&t);
  if (t.status && !d.len) finding("artifact", "an error without a message");
  if (t.status == TENON_EINTERNAL) finding("internal error", d.text);
  program_release(p);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
