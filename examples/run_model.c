// run_model.c -- opens a model, says what it takes and gives, and runs it on made-up inputs.
//
//   cc run_model.c $(pkg-config --cflags --libs tenon) -o run_model
//   ./run_model model.onnx [batch=4 seq=16 ...]
//
// Inputs are filled by a fixed sequence, so that two runs print the same; a symbolic size is what
// the command line says, else 1.
#include <tenon/tenon.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nsizes;
static char **sizes;  // "batch=4"

static int64_t size_of(const char *symbol) {
  size_t n = strlen(symbol);
  for (int i = 0; i < nsizes; i++)
    if (!strncmp(sizes[i], symbol, n) && sizes[i][n] == '=')
      return strtoll(sizes[i] + n + 1, NULL, 10);
  return 1;
}

static uint32_t next_number(void) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return state >> 16;
}

// Allocates an input of the model's dtype and shape, and fills it: floats in [-1, 1), integers 0 or
// 1, which are in range for whatever the model does with them.
static int fill_input(const tenon_value_info *info, tenon_tensor *t) {
  memset(t, 0, sizeof *t);
  t->dtype = info->dtype;
  t->rank = info->rank < 0 ? 1 : info->rank;
  t->shape[0] = 1;
  for (int i = 0; i < info->rank; i++)
    t->shape[i] = info->symbol[i] ? size_of(info->symbol[i]) : info->shape[i];
  t->bytes = tenon_tensor_size(t->dtype, t->rank, t->shape);
  if (info->kind != TENON_KIND_TENSOR || t->bytes < 0) return 0;
  t->data = calloc(1, (size_t)t->bytes + 1);
  if (!t->data) return 0;
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->shape[i];
  for (int64_t i = 0; i < n; i++) {
    switch (t->dtype) {
    case TENON_DTYPE_F32: ((float *)t->data)[i] = (float)next_number() / 32768 - 1; break;
    case TENON_DTYPE_F64: ((double *)t->data)[i] = (double)next_number() / 32768 - 1; break;
    case TENON_DTYPE_I64: ((int64_t *)t->data)[i] = next_number() & 1; break;
    case TENON_DTYPE_I32: ((int32_t *)t->data)[i] = (int32_t)(next_number() & 1); break;
    case TENON_DTYPE_BOOL:
    case TENON_DTYPE_U8:
    case TENON_DTYPE_I8: ((uint8_t *)t->data)[i] = next_number() & 1; break;
    default: break;  // zeros, or empty strings
    }
  }
  return 1;
}

static void print_element(const tenon_tensor *t, int64_t i) {
  switch (t->dtype) {
  case TENON_DTYPE_F32: printf(" %g", (double)((float *)t->data)[i]); break;
  case TENON_DTYPE_F64: printf(" %g", ((double *)t->data)[i]); break;
  case TENON_DTYPE_I64: printf(" %" PRId64, ((int64_t *)t->data)[i]); break;
  case TENON_DTYPE_I32: printf(" %" PRId32, ((int32_t *)t->data)[i]); break;
  case TENON_DTYPE_BOOL:
  case TENON_DTYPE_U8: printf(" %u", ((uint8_t *)t->data)[i]); break;
  case TENON_DTYPE_STRING: {
    tenon_string s = ((tenon_string *)t->data)[i];
    printf(" \"%.*s\"", (int)s.size, s.data);
    break;
  }
  default: printf(" ?");
  }
}

static void print_tensor(const char *name, const tenon_tensor *t) {
  int64_t n = 1;
  printf("%s: %s[", name, tenon_dtype_name(t->dtype));
  for (int i = 0; i < t->rank; i++) {
    printf("%s%" PRId64, i ? ", " : "", t->shape[i]);
    n *= t->shape[i];
  }
  printf("] =");
  for (int64_t i = 0; i < n && i < 8; i++) print_element(t, i);
  printf(n > 8 ? " ...\n" : "\n");
}

static int run(tenon_model *m, tenon_error *error) {
  size_t nin = tenon_model_input_count(m), nout = tenon_model_output_count(m);
  tenon_tensor *in = calloc(nin + 1, sizeof *in), *out = calloc(nout + 1, sizeof *out);
  int ok = in && out;
  tenon_value_info info;
  for (size_t i = 0; ok && i < nin; i++) {
    tenon_model_input(m, i, &info);
    printf("input  %s: %s\n", info.name, info.type);
    ok = fill_input(&info, &in[i]);
  }
  for (size_t i = 0; ok && i < nout; i++) {
    tenon_model_output(m, i, &info);
    printf("output %s: %s\n", info.name, info.type);
  }
  if (!ok) {
    fprintf(stderr, "an input cannot be made up\n");
  } else if (tenon_run(m, in, nin, out, nout, NULL, error)) {
    fprintf(stderr, "%s\n", error->message);
    ok = 0;
  }
  for (size_t i = 0; ok && i < nout; i++) {
    tenon_model_output(m, i, &info);
    print_tensor(info.name, &out[i]);
  }
  for (size_t i = 0; in && i < nin; i++) free(in[i].data);
  for (size_t i = 0; out && i < nout; i++) tenon_tensor_release(&out[i]);
  free(in);
  free(out);
  return ok;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: run_model MODEL [symbol=size ...]\n");
    return 2;
  }
  nsizes = argc - 2;
  sizes = argv + 2;
  static tenon_error error;
  tenon_model *m;
  if (tenon_model_open(argv[1], &m, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int ok = run(m, &error);
  tenon_model_close(m);
  return !ok;
}
