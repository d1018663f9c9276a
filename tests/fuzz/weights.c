// weights.c -- fuzz target: every reader of the table, chosen by content, with types for the inputs
// of programs; what opens must unpack.
#include "api/model.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  fuzz_begin();
  Model *m = NULL;
  diag_init(&d);
  static const InputType types[] = {
      {.name = {"0", 1}, .dtype = DT_F32, .rank = 2, .dim = {{.size = 3}, {.size = 4}}},
      {.name = {"1", 1}, .dtype = DT_I64, .known = true, .value = 3}};
  ModelOptions o = {.memory_limit = (int64_t)64 << 20, .types = types, .ntypes = ARRAY_LEN(types)};
  if (!model_open_memory(data, (int64_t)size, NULL, &o, &d, &m)) {
    Trap t;
    trap_enter(&t, &d);
    if (setjmp(t.env) == 0)
      for (int64_t i = 0; i < m->import.weights.v.n; i++)
        if (m->import.weights.v.v[i].n < 1 << 20)
          weight_elements(&m->import.weights.v.v[i], &m->arena);
    trap_leave(&t);
    model_free(m);
  }
  fuzz_end();
  return 0;
}
