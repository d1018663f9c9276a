// main.c -- the program of `tenon compile --emit=exe`: a model, its inputs from files, its outputs
// to files.
//
// Inputs are .npy files, whose types and shapes must be the model's; free sizes are what the files
// say.  An output is written to a file of its name, in which all that could lead out of the folder
// is replaced: names come from the model.
#include "tenon/aot.h"

#include "base/npy.h"
#include "base/platform.h"
#include "runtime/artifact.h"
#include "runtime/session.h"

#include <ctype.h>
#include <stdio.h>

typedef struct Exe {
  tenon_aot_model *model;
  Program *program;
  Session *session;
  Arena arena;
  Run run;
  Diag diag;
  File *file;  // by input
  const char **path;
  int32_t npaths;
  int64_t threads;
  const char *prefix;
  bool misused;
} Exe;

static void usage(const Exe *x, const char *self) {
  const ProgFunction *f = x->program->function[0];
  printf("usage: %s%s [--threads N] [--output PREFIX]", self,
         x->model->weights ? " [--weights F]" : "");
  for (int32_t i = 0; i < f->nparams; i++) printf(" %s.npy", f->value[f->param[i]].name);
  printf("\nRuns the model and writes each output to PREFIXNAME.npy.\n");
}

static bool take_arguments(Exe *x, int argc, char **argv) {
  const ProgFunction *f = x->program->function[0];
  x->path = arena_array(&x->arena, const char *, f->nparams + 1);
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (!strcmp(argv[i], "--threads") && more && str_to_i64(str_of(argv[i + 1]), &x->threads) &&
        x->threads >= 0 && x->threads <= 4096)
      i++;
    else if (!strcmp(argv[i], "--weights") && more && x->model->weights)
      i++;
    else if (!strcmp(argv[i], "--output") && more)
      x->prefix = argv[++i];
    else if (argv[i][0] == '-' || x->npaths == f->nparams)
      return false;
    else
      x->path[x->npaths++] = argv[i];
  }
  return x->npaths == f->nparams;
}

static tenon_status read_input(Exe *x, int32_t i, Value **out) {
  const ProgFunction *f = x->program->function[0];
  const ProgValue *v = &f->value[f->param[i]];
  File *file = &x->file[i];
  NdArray array;
  if (v->kind != VK_TENSOR)
    return fail(&x->diag, TENON_EUNSUPPORTED, (Where){.node = v->name},
                "this input is no tensor: compile to a .tenon file and use `tenon run`");
  TRY(file_open(x->path[i], file, &x->diag));
  Str bytes = {(const char *)file->bytes, file->size};
  x->diag.base.file = x->path[i];
  tenon_status s = npy_read(&x->arena, bytes, &x->diag, &array);
  if (!s && v->dtype) s = nd_convert(&x->arena, &array, v->dtype, &x->diag);
  x->diag.base.file = NULL;
  TRY(s);
  return value_borrow(&x->run, array.dtype, array.rank, array.dims, array.data, out);
}

// Letters, digits, and what is harmless in the name of a file.
static const char *file_name(Exe *x, const char *name) {
  char *path = str_printf(&x->arena, "%s%s.npy", x->prefix, name);
  for (char *p = path + strlen(x->prefix); *p; p++)
    if (!isalnum((unsigned char)*p) && !strchr("-_+=,", *p) &&
        (*p != '.' || p == path + strlen(x->prefix)))
      *p = '_';
  return path;
}

static tenon_status write_output(Exe *x, int32_t i, const Value *v) {
  const char *name = x->program->function[0]->result_name[i], *path = file_name(x, name);
  if (!v || v->kind != VK_TENSOR)
    return fail(&x->diag, TENON_EUNSUPPORTED, (Where){.node = name},
                "this output is no tensor: compile to a .tenon file and use `tenon run`");
  NdArray array = {.dtype = v->dtype, .rank = v->rank, .data = v->data, .n = v->n};
  if (v->rank) memcpy(array.dims, v->dims, (size_t)v->rank * sizeof *v->dims);
  if (!dtype_bytes(v->dtype, v->n, &array.bytes))
    return fail(&x->diag, TENON_ENOMEM, (Where){.node = name}, "it is too large");
  TRY(npy_write(path, &array, &x->diag));
  printf("%s  %s%s\n", path, dtype_name(v->dtype), shape_text(v->rank, v->dims).s);
  return TENON_OK;
}

static tenon_status run(Exe *x) {
  const ProgFunction *f = x->program->function[0];
  Value **in = arena_array(&x->arena, Value *, f->nparams + 1);
  Value **out = arena_array(&x->arena, Value *, f->nresults + 1);
  x->file = arena_array(&x->arena, File, f->nparams + 1);
  for (int32_t i = 0; i < f->nparams; i++) TRY(read_input(x, i, &in[i]));
  SessionOptions o = {.threads = (int)x->threads};
  TRY(session_create(x->program, &o, &x->diag, &x->session));
  TRY(session_run(x->session, &x->run, in, NULL, out));
  for (int32_t i = 0; i < f->nresults; i++) TRY(write_output(x, i, out[i]));
  return TENON_OK;
}

static const void *const *main_ops;
static const EvalOp *find_here(const char *name) {
  for (const void *const *op = main_ops; op && *op; op++)
    if (!strcmp(((const EvalOp *)*op)->name, name)) return *op;
  return NULL;
}

static void finish(Exe *x) {
  for (int32_t i = 0; x->file && i < x->npaths; i++) file_close(&x->file[i]);
  run_deinit(&x->run);
  session_free(x->session);
  program_release(x->program);
  arena_deinit(&x->arena);
}

int tenon_aot_main(tenon_aot_model *m, int argc, char **argv);
int tenon_aot_main(tenon_aot_model *m, int argc, char **argv) {
  static Exe x;
  x = (Exe){.model = m, .prefix = ""};
  main_ops = m->ops;
  for (int i = 1; i + 1 < argc; i++)  // before the model is looked at for the other arguments
    if (!strcmp(argv[i], "--weights") && m->weights) m->weights = argv[i + 1];
  diag_init(&x.diag);
  arena_init(&x.arena);
  run_init(&x.run, NULL, &x.diag);
  x.run.max_bytes = machine_memory();
  Trap t;
  trap_enter(&t, &x.diag);
  if (setjmp(t.env) == 0) {
    t.status = artifact_load_memory(m->bytes, m->nbytes, m->weights,
                                    &(ArtifactLoad){.find = find_here}, &x.diag, &x.program);
    x.misused = !t.status && !take_arguments(&x, argc, argv);
    if (!t.status && !x.misused) t.status = run(&x);
  }
  trap_leave(&t);
  if (x.misused)
    usage(&x, argv[0]);
  else if (t.status)
    fprintf(stderr, "%s: %s\n", argv[0], x.diag.text);
  finish(&x);
  return x.misused ? 2 : t.status ? 1 : 0;
}
