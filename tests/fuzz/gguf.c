// gguf.c -- fuzz target: GGUF files: metadata of every kind, and tensors of every ggml type, which
// must unpack.
#include "api/model.h"
#include "frontends/gguf/gguf.h"
#include "fuzz.h"

static void walk_strings(const GgufFile *f) {
  for (int64_t i = 0; i < f->kv.n; i++) {
    const GgufValue *v = &f->kv.v[i];
    if (v->kind != GV_ARRAY || v->elem != GV_STRING) continue;
    int64_t at = 0, n = 0;
    for (Str s; gguf_next_string(v, &at, &s);) n += s.n >= 0;
    if (n != v->n) finding("strings", "an array has another number of them than it says");
  }
}

static void unpack(Model *m) {
  for (int64_t i = 0; i < m->import.weights.v.n; i++) {
    const Weight *w = &m->import.weights.v.v[i];
    if (w->n < 1 << 20 && !weight_elements(w, &m->arena)) finding("weights", w->name);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  if (size < 8) return 0;
  fuzz_begin();
  char *copy = malloc(size);  // magic and a version that exists, whatever the fuzzer does to them
  if (!copy) __builtin_trap();
  memcpy(copy, data, size);
  memcpy(copy, "GGUF", 4);
  copy[4] = (char)(2 + (data[4] & 1)), copy[5] = copy[6] = copy[7] = 0;
  diag_init(&d);
  Model *m = NULL;
  ModelOptions o = {.memory_limit = (int64_t)64 << 20};
  tenon_status s = model_open_memory(copy, (int64_t)size, NULL, &o, &d, &m);
  if (s == TENON_EINTERNAL) finding("internal error", d.text);
  if (s && !d.len) finding("an error without a message", status_name(s));
  if (!s) {
    Trap t;
    trap_enter(&t, &d);
    if (setjmp(t.env) == 0) {
      walk_strings(m->import.file);
      unpack(m);
    }
    trap_leave(&t);
    if (t.status == TENON_EINTERNAL) finding("internal error", d.text);
  }
  model_free(m);
  free(copy);
  fuzz_end();
  return 0;
}
