// main.c -- the program of `tenon compile --emit=exe`: a model, its inputs from files, its outputs to files.
//
// Arrays are .npy files, of which only the elements are used: their number must be right.
#include "tenon/aot.h"

#include "base/platform.h"
#include "runtime/artifact.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Exe {
  tenon_aot_model *model;
  Program *program;
  Arena arena;
  Diag diag;
  int64_t *sym, *dims;
  const void **in;
  void **out;
  const char *prefix;
} Exe;

static tenon_status find_size(Exe *x, const ProgValue *v, int64_t *dims, int64_t *bytes) {
  int64_t n;
  bool ok = v->kind == VK_TENSOR && v->rank >= 0;
  for (int32_t i = 0; ok && i < v->rank; i++)
    ok = prog_eval(x->program, v->dim[i], x->sym, &dims[i]);
  if (ok && shape_count(v->rank, dims, &n) && dtype_bytes(v->dtype, n, bytes)) return TENON_OK;
  return fail(&x->diag, TENON_EINVAL, (Where){.node = v->name}, "its size is not known");
}

static tenon_status read_input(Exe *x, const char *path, const ProgValue *v, const void **out) {
  int64_t dims[MAX_RANK], bytes;
  File f;
  TRY(find_size(x, v, dims, &bytes));
  TRY(file_open(path, &f, &x->diag));
  // The elements stand at the end, whatever the header says.
  if (f.size < bytes || (f.size > bytes && memcmp(f.bytes, "\x93NUMPY", 6)))
    return fail(&x->diag, TENON_EINVAL, (Where){.file = path}, "%lld bytes, where '%s' has %lld",
                (long long)f.size, v->name, (long long)bytes);
  char *at = arena_alloc(&x->arena, bytes + 64);
  at += -(uintptr_t)at & 63;
  if (bytes) memcpy(at, f.bytes + f.size - bytes, (size_t)bytes);
  file_close(&f);
  *out = at;
  return TENON_OK;
}

static const char *descr(DType t) {
  switch (t) {
  case DT_F32: return "<f4";
  case DT_F64: return "<f8";
  case DT_F16: return "<f2";
  case DT_I8: return "|i1";
  case DT_I16: return "<i2";
  case DT_I32: return "<i4";
  case DT_I64: return "<i8";
  case DT_U16: return "<u2";
  case DT_U32: return "<u4";
  case DT_U64: return "<u8";
  case DT_BOOL: return "|b1";
  default: return "|u1";
  }
}

static tenon_status write_output(Exe *x, int32_t i) {
  const ProgFunction *f = x->program->function[0];
  const ProgValue *v = &f->value[f->result[i]];
  int64_t dims[MAX_RANK], bytes;
  StrBuf head;
  strbuf_init(&head, &x->arena);
  TRY(find_size(x, v, dims, &bytes));
  strbuf_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr(v->dtype));
  for (int32_t k = 0; k < v->rank; k++) strbuf_printf(&head, "%lld,", (long long)dims[k]);
  strbuf_puts(&head, "), }");
  while ((head.n + 11) % 64) strbuf_putc(&head, ' ');
  strbuf_putc(&head, '\n');
  char magic[10] = "\x93NUMPY\x01";
  magic[8] = (char)(head.n & 255);
  magic[9] = (char)(head.n >> 8);
  const char *path = str_printf(&x->arena, "%s%s.npy", x->prefix, f->result_name[i]);
  const Str part[] = {{magic, 10}, strbuf_str(&head), {x->out[i], bytes}};
  TRY(file_write_parts(path, part, 3, &x->diag));
  printf("%s  %s%s\n", path, dtype_name(v->dtype), shape_text(v->rank, dims).s);
  return TENON_OK;
}

static void usage(const Exe *x, const char *self) {
  const ProgFunction *f = x->program->function[0];
  printf("usage: %s", self);
  for (int32_t i = 0; i < x->program->nsyms; i++)
    if (prog_sym_is_input(x->program, i)) printf(" [--dim %s=N]", x->program->sym[i].name);
  printf("%s [--threads N] [--output PREFIX]", x->model->weights ? " [--weights F]" : "");
  for (int32_t i = 0; i < f->nparams; i++) printf(" %s.npy", f->value[f->param[i]].name);
  printf("\nRuns the model and writes each output to PREFIXNAME.npy. Sizes that are not given are "
         "1.\n");
}

// --dim NAME=N.
static bool take_dim(Exe *x, const char *text) {
  const char *equals = strchr(text, '=');
  int64_t value;
  if (!equals || !str_to_i64(str_of(equals + 1), &value) || value < 0) return false;
  for (int32_t i = 0; i < x->program->nsyms; i++)
    if (str_is((Str){text, equals - text}, x->program->sym[i].name)) {
      x->sym[i] = value;
      return true;
    }
  return false;
}

static tenon_status run(Exe *x, int argc, char **argv, bool *misused) {
  const ProgFunction *f = x->program->function[0];
  int32_t nin = 0, ndims = 0;
  int64_t threads, dims[MAX_RANK], bytes;
  const char **path = arena_array(&x->arena, const char *, f->nparams + 1);
  for (int i = 1; i < argc && !*misused; i++) {
    bool more = i + 1 < argc;
    if (!strcmp(argv[i], "--dim") && more)
      *misused = !take_dim(x, argv[++i]);
    else if (!strcmp(argv[i], "--threads") && more && str_to_i64(str_of(argv[i + 1]), &threads))
      tenon_aot_threads(x->model, (int)threads), i++;
    else if (!strcmp(argv[i], "--weights") && more && x->model->weights)
      i++;
    else if (!strcmp(argv[i], "--output") && more)
      x->prefix = argv[++i];
    else if (argv[i][0] == '-' || nin == f->nparams)
      *misused = true;
    else
      path[nin++] = argv[i];
  }
  *misused |= nin != f->nparams;
  if (*misused) return TENON_EINVAL;
  for (int32_t i = 0; i < x->program->nsyms; i++)
    if (prog_sym_is_input(x->program, i))
      x->dims[ndims++] = x->sym[i] == SYM_UNBOUND ? 1 : x->sym[i];
  for (int32_t i = 0; i < x->program->nsyms; i++)
    if (x->sym[i] == SYM_UNBOUND && prog_sym_is_input(x->program, i)) x->sym[i] = 1;
  for (int32_t i = 0; i < f->nparams; i++)
    TRY(read_input(x, path[i], &f->value[f->param[i]], &x->in[i]));
  for (int32_t i = 0; i < f->nresults; i++) {
    TRY(find_size(x, &f->value[f->result[i]], dims, &bytes));
    char *at = arena_alloc(&x->arena, bytes + 64);
    x->out[i] = at + (-(uintptr_t)at & 63);
  }
  tenon_error error;
  tenon_status s = tenon_aot_run(x->model, x->in, x->dims, x->out, &error);
  if (s) return fail(&x->diag, s, NOWHERE, "%s", error.message);
  for (int32_t i = 0; i < f->nresults; i++) TRY(write_output(x, i));
  return TENON_OK;
}

static const void *const *main_ops;
static const EvalOp *find_here(const char *name) {
  for (const void *const *op = main_ops; op && *op; op++)
    if (!strcmp(((const EvalOp *)*op)->name, name)) return *op;
  return NULL;
}

int tenon_aot_main(tenon_aot_model *m, int argc, char **argv);
int tenon_aot_main(tenon_aot_model *m, int argc, char **argv) {
  static Exe x;
  bool misused = false;
  x = (Exe){.model = m, .prefix = ""};
  main_ops = m->ops;
  for (int i = 1; i + 1 < argc; i++)  // before the model is looked at for the other arguments
    if (!strcmp(argv[i], "--weights")) tenon_aot_weights(m, argv[i + 1]);
  diag_init(&x.diag);
  arena_init(&x.arena);
  Trap t;
  trap_enter(&t, &x.diag);
  if (setjmp(t.env) == 0) {
    t.status =
        artifact_load_memory(m->bytes, m->nbytes, m->weights, find_here, &x.diag, &x.program);
    if (!t.status) {
      const ProgFunction *f = x.program->function[0];
      x.sym = arena_array(&x.arena, int64_t, x.program->nsyms + 1);
      x.dims = arena_array(&x.arena, int64_t, x.program->nsyms + 1);
      x.in = arena_array(&x.arena, const void *, f->nparams + 1);
      x.out = arena_array(&x.arena, void *, f->nresults + 1);
      for (int32_t i = 0; i < x.program->nsyms; i++) x.sym[i] = SYM_UNBOUND;
      t.status = run(&x, argc, argv, &misused);
    }
  }
  trap_leave(&t);
  if (misused)
    usage(&x, argv[0]);
  else if (t.status)
    fprintf(stderr, "%s: %s\n", argv[0], x.diag.text);
  program_release(x.program);
  tenon_aot_close(m);
  arena_deinit(&x.arena);
  return misused ? 2 : t.status ? 1 : 0;
}
