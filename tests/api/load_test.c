// load_test.c -- a compiled model is loaded as a program and never opened as a model.
#include "test.h"

#include <stdio.h>
#include <unistd.h>

#define MODELS TENON_SOURCE_DIR "/tests/models/"
static tenon_error error;
static _Alignas(TENON_ALIGNMENT) char bytes[1 << 20];

// A compiled model under two names and in `bytes`; its length.
static size_t save(char path[2][500]) {
  static const char text[] = "graph(%x: f32[4]) { %y = add(%x, %x)  return y = %y }";
  tenon_model *m = NULL;
  tenon_program *p = NULL;
  tenon_options o = {.struct_size = sizeof o, .target = "host"};
  snprintf(path[0], 500, "%s/m.tenon", test_folder());
  snprintf(path[1], 500, "%s/m.onnx", test_folder());
  EXPECT_STATUS(tenon_model_open_memory(text, strlen(text), NULL, &m, &error), TENON_OK);
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  EXPECT_STATUS(tenon_program_save(p, path[0], &error), TENON_OK);
  tenon_program_release(p);
  tenon_model_close(m);
  unlink(path[1]);
  EXPECT(!link(path[0], path[1]));
  FILE *f = fopen(path[0], "rb");
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  return n;
}

TEST(a_program_is_no_model) {
  char path[2][500];
  size_t n = save(path);
  tenon_model *m = NULL;
  tenon_open_options o = {.struct_size = sizeof o, .memory_limit = 1 << 30}, weights = o;
  for (int i = 0; i < 2; i++) {
    EXPECT_STATUS(tenon_model_open(path[i], &m, &error), TENON_EUNSUPPORTED);
    EXPECT(!m);
    EXPECT_CONTAINS(error.message, "compiled model");
    EXPECT_CONTAINS(error.message, "tenon_program_load");
    EXPECT_STATUS(tenon_model_open_with(path[i], &o, &m, &error), TENON_EUNSUPPORTED);
    weights.weights = path[i];
    EXPECT_STATUS(tenon_model_open_with(MODELS "mlp.onnx", &weights, &m, &error),
                  TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(error.message, "compiled model");
  }
  EXPECT_STATUS(tenon_model_open_memory(bytes, n, NULL, &m, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "tenon_program_load");
  EXPECT_STATUS(tenon_model_open_memory(bytes, n, &o, &m, &error), TENON_EUNSUPPORTED);
  EXPECT(!m);
}

TEST(a_program_is_loaded_by_call_or_by_name) {
  char path[2][500];
  size_t n = save(path);
  tenon_load_options any = {.struct_size = sizeof any}, named = any;
  named.by_name = 1;
  const struct {
    const char *path;
    const tenon_load_options *options;
    tenon_status want;
  } row[] = {
      {path[0], NULL, TENON_OK},    {path[1], NULL, TENON_OK},
      {path[0], &any, TENON_OK},    {path[1], &any, TENON_OK},
      {path[0], &named, TENON_OK},  {path[1], &named, TENON_EINVAL},
      {NULL, NULL, TENON_OK},       {NULL, &any, TENON_OK},
      {NULL, &named, TENON_EINVAL}, {MODELS "mlp.onnx", &named, TENON_EFORMAT},
  };
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    tenon_program *p = NULL;
    tenon_status s = row[i].path ? tenon_program_load(row[i].path, row[i].options, &p, &error)
                                 : tenon_program_load_memory(bytes, n, row[i].options, &p, &error);
    EXPECT_STATUS(s, row[i].want);
    EXPECT(!p == (s != TENON_OK));
    if (s == TENON_EINVAL) EXPECT_CONTAINS(error.message, "ends in .tenon");
    tenon_program_release(p);
  }
}
