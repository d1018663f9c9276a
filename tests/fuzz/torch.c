// torch.c -- fuzz target: what stands inside PyTorch's archives, where checksums would keep damage
// out.  The first byte says which entry the rest is: code of TorchScript, a pickle, or the program
// of torch.export.
#include "api/model.h"
#include "base/zip.h"
#include "fuzz.h"

static void add(ZipWriter *w, const char *name, Str s, Diag *d) {
  if (zip_add(w, str_of(name), 1, &s, false, d)) __builtin_trap();
}

static Str archive(Arena *a, StrBuf *b, int kind, Str s, Diag *d) {
  ZipWriter w;
  strbuf_init(b, a);
  zip_begin(&w, a, zip_put_strbuf, b);
  if (kind == 2) {
    add(&w, "m/archive_format", STR("pt2"), d);
    add(&w, "m/models/model.json", s, d);
    add(&w, "m/data/weights/model_weights_config.json", STR("{\"config\": {}}"), d);
  } else {
    add(&w, "m/data.pkl", kind ? s : STR("\200\2c__torch__\nM\n)\201}X\1\0\0\0kK\2sb."), d);
    add(&w, "m/data/0", STR("0123456789abcdef"), d);
    if (!kind) {
      add(&w, "m/constants.pkl", STR("\200\2)."), d);
      add(&w, "m/code/__torch__.py", s, d);
    }
  }
  if (zip_end(&w, d)) __builtin_trap();
  return strbuf_str(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  static const InputType types[] = {
      {.name = {"0", 1}, .dtype = DT_F32, .rank = 2, .dim = {{.size = 3}, {.size = 4}}},
      {.name = {"1", 1}, .dtype = DT_I64, .known = true, .value = 3}};
  if (!size) return 0;
  fuzz_begin();
  Arena a;
  StrBuf b;
  arena_init(&a);
  diag_init(&d);
  Str s = archive(&a, &b, data[0] % 3, (Str){(const char *)data + 1, (int64_t)size - 1}, &d);
  Model *m = NULL;
  ModelOptions o = {.memory_limit = (int64_t)64 << 20, .types = types, .ntypes = ARRAY_LEN(types)};
  if (!model_open_memory(s.p, s.n, NULL, &o, &d, &m)) {
    if (graph_verify(m->graph, &d) && !m->import.unsupported.n) __builtin_trap();
  }
  model_free(m);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
