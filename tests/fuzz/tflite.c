// tflite.c -- fuzz target: TensorFlow Lite files: read, imported, and verified where they are
// sound.
#include "api/model.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  if (size < 8) return 0;
  fuzz_begin();
  char *copy = malloc(size);  // the identifier is there, whatever the fuzzer does to it
  if (!copy) __builtin_trap();
  memcpy(copy, data, size);
  memcpy(copy + 4, "TFL3", 4);
  diag_init(&d);
  Model *m = NULL;
  ModelOptions o = {.memory_limit = (int64_t)64 << 20};
  if (!model_open_memory(copy, (int64_t)size, NULL, &o, &d, &m)) {
    if (graph_verify(m->graph, &d) && !m->import.unsupported.n) __builtin_trap();
  }
  model_free(m);
  free(copy);
  fuzz_end();
  return 0;
}
