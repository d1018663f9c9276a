// compile_model.c -- compiles a model, runs it on several sizes, and says where the time goes.
//
//   cc compile_model.c $(pkg-config --cflags --libs tenon) -o compile_model
//   ./compile_model model.onnx [batch=4 seq=16 ...]
//
// Input and output buffers are allocated once, aligned, and bound to the session: no run copies
// them.
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

static int show_progress(const tenon_progress *p, void *user) {
  const char **stage = user;
  if (!*stage || strcmp(*stage, p->stage)) fprintf(stderr, "%s ...\n", p->stage);
  *stage = p->stage;
  return 0;  // anything else would end the compilation
}

// An input of the right shape, all zero.
static int make_input(const tenon_value_info *info, tenon_tensor *t) {
  memset(t, 0, sizeof *t);
  t->dtype = info->dtype;
  t->rank = info->rank;
  for (int i = 0; i < info->rank; i++)
    t->shape[i] = info->symbol[i] ? size_of(info->symbol[i]) : info->shape[i];
  t->bytes = info->kind == TENON_KIND_TENSOR && info->rank >= 0
                 ? tenon_tensor_size(t->dtype, t->rank, t->shape)
                 : -1;
  if (t->bytes < 0) return 0;
  size_t room = ((size_t)t->bytes + TENON_ALIGNMENT) / TENON_ALIGNMENT * TENON_ALIGNMENT;
  t->data = aligned_alloc(TENON_ALIGNMENT, room);
  if (t->data) memset(t->data, 0, room);
  return t->data != NULL;
}

static void print_profile(tenon_session *s) {
  tenon_step step;
  for (size_t i = 0; !tenon_session_step(s, i, &step); i++)
    if (step.calls)
      printf("%10.3f us  %-40s %s\n", (double)step.ns / (double)step.calls / 1e3, step.name,
             step.node);
}

static int run(tenon_session *s, tenon_error *error) {
  tenon_program *p = tenon_session_program(s);
  size_t nin = tenon_program_input_count(p), nout = tenon_program_output_count(p);
  tenon_tensor *in = calloc(nin + 1, sizeof *in), out;
  tenon_value_info info;
  int ok = in != NULL;
  for (size_t i = 0; ok && i < nin; i++) {
    tenon_program_input(p, i, &info);
    printf("input  %s: %s\n", info.name, info.type);
    ok = make_input(&info, &in[i]) && !tenon_session_bind_input(s, i, &in[i], error);
  }
  for (int i = 0; ok && i < 3; i++) ok = !tenon_session_run_bound(s, NULL, error);
  for (size_t i = 0; ok && i < nout; i++) {
    ok = !tenon_session_output(s, i, &out, error) && !tenon_program_output(p, i, &info);
    printf("output %s: %s[", info.name, tenon_dtype_name(out.dtype));
    for (int k = 0; k < out.rank; k++) printf("%s%" PRId64, k ? ", " : "", out.shape[k]);
    printf("]\n");
  }
  if (ok) print_profile(s);
  if (!ok) fprintf(stderr, "%s\n", error->status ? error->message : "an input cannot be made up");
  for (size_t i = 0; in && i < nin; i++) free(in[i].data);
  free(in);
  return ok;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: compile_model MODEL [symbol=size ...]\n");
    return 2;
  }
  nsizes = argc - 2;
  sizes = argv + 2;
  static tenon_error error;
  const char *stage = NULL;
  tenon_model *m = NULL;
  tenon_program *p = NULL;
  tenon_session *s = NULL;
  tenon_options o = {.struct_size = sizeof o, .target = "auto", .progress = show_progress};
  tenon_session_options so = {.struct_size = sizeof so, .profile = 1};
  o.user = &stage;
  int ok = !tenon_model_open(argv[1], &m, &error) && !tenon_compile(m, &o, &p, &error) &&
           !tenon_session_create(p, &so, &s, &error);
  if (!ok) fprintf(stderr, "%s\n", error.message);
  ok = ok && run(s, &error);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
  return !ok;
}
