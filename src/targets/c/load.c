// load.c -- compiles a model's C source with the system's C compiler and loads it.
//
// For tests, `tenon run` and `tenon bench`.  The program's steps are replaced by one call of the
// model's function, so what runs is the text that a user would get.
//
// Needs:      a C compiler, from CC or `cc`; a folder for temporary files.
// Guarantees: the library is built in a folder that no other user can write to.  One call at a
//             time, since the model's memory is static.  Program.unload closes the library and
//             frees weights and constants.
#include "base/platform.h"
#include "base/process.h"
#include "targets/c/c.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef int ModelRun(const void *const *in, const int64_t *dims, void *const *out);
typedef struct Loaded {
  void *library;
  ModelRun *run;
  int32_t nin;
  void *weights;
  int64_t weights_bytes;
  atomic_flag busy;  // the model's memory is static: one call at a time
} Loaded;

static int32_t invoke(const Program *p, int32_t kernel, void *const *args, const int64_t *size,
                      const int64_t *dims, int64_t begin, int64_t end) {
  Loaded *l = p->invoke_ctx;
  (void)kernel, (void)size, (void)begin, (void)end;
  while (atomic_flag_test_and_set_explicit(&l->busy, memory_order_acquire)) thread_yield();
  int32_t code = l->run((const void *const *)args, dims, args + l->nin);
  atomic_flag_clear_explicit(&l->busy, memory_order_release);
  return code;
}

static void unload(Program *p) {
  Loaded *l = p->invoke_ctx;
  void *entry = library_symbol(l->library, "model_release");  // with dynamic shapes
  void (*release)(void) = NULL;
  memcpy(&release, &entry, sizeof release);
  if (release) release();
  library_close(l->library);
  mem_free(l->weights, l->weights_bytes);
  mem_free((void *)(uintptr_t)p->constants, p->constants_bytes);
}

// ---- the compiler ----

enum { MAX_FLAGS = 32 };

static int split_flags(Arena *a, const char *text, const char **out, int n) {
  while (*text && n < MAX_FLAGS) {
    size_t len = strcspn(text, " ");
    if (len) out[n++] = str_copy(a, (Str){text, (int64_t)len});
    text += len + (text[len] == ' ');
  }
  return n;
}

static tenon_status run_compiler(const TargetOptions *o, const char *source, const char *library,
                                 Arena *a, Diag *d) {
  const char *cc = getenv("CC"), *flags = getenv("TENON_CFLAGS"), *argv[MAX_FLAGS + 16];
  int n = 0, status = 0;
  argv[n++] = cc && *cc ? cc : "cc";
  n = split_flags(a, flags ? flags : o->cflags ? o->cflags : "-O3 -march=native", argv, n);
  const char *rest[] = {"-std=c11", "-ffp-contract=off",
                        "-shared",  "-fPIC",
                        "-w",       "-o",
                        library,    "-x",
                        "c",        source,
                        "-lm",      NULL};
  for (int64_t i = 0; i < ARRAY_LEN(rest); i++) argv[n++] = rest[i];
  int err = process_run(argv, &status);
  if (err)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the C compiler '%s' cannot be started: %s",
                argv[0], error_text(err).s);
  if (status)
    return fail(d, TENON_EINTERNAL, NOWHERE, "'%s' does not compile the model's source", argv[0]);
  return TENON_OK;
}

static tenon_status compile_in(const TempFolder *f, const TargetOptions *o, Str source, Arena *a,
                               Diag *d, void **out) {
  const char *text = temp_folder_file(f, 1, a), *library = temp_folder_file(f, 2, a);
  TRY(file_write(text, source.p, source.n, d));
  TRY(run_compiler(o, text, library, a, d));
  *out = library_open(library);
  if (*out) return TENON_OK;
  return fail(d, TENON_EIO, NOWHERE, "the compiled model cannot be loaded");
}

// In a folder which nobody else can write to: a library that is loaded is known by its name, and is
// code.
static tenon_status compile_source(const TargetOptions *o, Str source, Arena *a, Diag *d,
                                   void **out) {
  TempFolder folder;
  Trap t;
  *out = NULL;
  TRY(temp_folder_make(&folder, d));
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = compile_in(&folder, o, source, a, d, out);
  trap_leave(&t);
  temp_folder_free(&folder);
  return t.status;
}

// ---- the program ----

static void add_messages(const Program *p, Arena *a, ProgKernel *k) {
  int32_t n = 2;
  for (int32_t i = 0; i < p->nkernels; i++) n += p->kernel[i].nchecks + 1;
  k->check = arena_array(a, const char *, n);
  k->check[k->nchecks++] = "sizes do not fit";
  k->check[k->nchecks++] = "out of memory";
  for (int32_t i = 0; i < p->nkernels; i++) {
    for (int32_t c = 0; c < p->kernel[i].nchecks; c++)
      k->check[k->nchecks++] = p->kernel[i].check[c];
    k->check[k->nchecks++] = "division by zero";
  }
}

static int32_t add_expr(Program *p, int64_t op, int64_t v) {
  ProgExpr *all = arena_array(&p->arena, ProgExpr, p->nexprs + 1);
  int64_t *code = arena_array(&p->arena, int64_t, 2);
  if (p->nexprs) memcpy(all, p->expr, (size_t)p->nexprs * sizeof *all);
  code[0] = op;
  code[1] = v;
  all[p->nexprs] = (ProgExpr){2, code};
  p->expr = all;
  return p->nexprs++;
}

// One function of one step, with the model's inputs and outputs as its arguments.
static void make_one_call(Program *p) {
  const ProgFunction *old = p->function[0];
  Arena *a = &p->arena;
  int32_t nin = old->nparams, nout = old->nresults, n = nin + nout;
  ProgFunction *f = arena_new(a, ProgFunction);
  ProgStep *st = arena_new(a, ProgStep);
  int32_t *all = arena_array(a, int32_t, MAX(n, 1));
  *f = *old;
  f->nvalues = n;
  f->value = arena_array(a, ProgValue, MAX(n, 1));
  for (int32_t i = 0; i < n; i++) {
    bool input = i < nin;
    ProgValue *v = &f->value[i];
    *v = old->value[input ? old->param[i] : old->result[i - nin]];
    v->place = input ? PLACE_PARAM : PLACE_RESULT;
    v->slot = input ? i : i - nin;
    v->at = -1;
    all[i] = i;
  }
  f->param = all;
  f->result = all + nin;
  f->nroots = 0;
  f->nsteps = 1;
  f->step = st;
  int32_t *dim = arena_array(a, int32_t, MAX(p->nsyms, 1)), ndims = 0;
  for (int32_t i = 0; i < p->nsyms; i++)
    if (prog_sym_is_input(p, i)) dim[ndims++] = add_expr(p, PX_SYM, i);
  *st = (ProgStep){.kind = STEP_KERNEL,
                   .op = "c",
                   .nin = nin,
                   .nout = nout,
                   .in = all,
                   .out = all + nin,
                   .nargs = n,
                   .ndims = ndims,
                   .arg = all,
                   .dim = dim,
                   .when = -1,
                   .grain = 1};
  st->items = add_expr(p, PX_CONST, 1);
  ProgKernel *k = arena_new(a, ProgKernel);
  *k = (ProgKernel){
      .name = "model", .template_name = "model", .schedule = "", .nargs = n, .ndims = ndims};
  add_messages(p, a, k);
  p->kernel = k;
  p->nkernels = 1;
  p->function[0] = f;
  p->nfunctions = 1;
}

static tenon_status give_weights(Loaded *l, Str weights, Diag *d) {
  void (*give)(const void *bytes);
  void *entry = library_symbol(l->library, "model_weights");
  memcpy(&give, &entry, sizeof give);
  int64_t bytes = weights.n + 64;
  l->weights = mem_alloc(bytes);
  if (!l->weights) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for the weights");
  l->weights_bytes = bytes;
  char *at = (char *)l->weights + (-(uintptr_t)l->weights & 63);
  if (weights.n) memcpy(at, weights.p, (size_t)weights.n);
  give(at);
  return TENON_OK;
}

tenon_status c_build(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d) {
  Program *p = c->program;
  LowerTarget lt;
  c_describe(o->machine, &lt);
  CSourceOptions so = {
      .symbol = "model", .vector_bytes = lt.vector_bytes, .external_weights = true};
  CSource text;
  if (o->c_source && o->c_options) so = *o->c_options;
  so.faults = o->faults;
  if (o->c_source) {
    TRY(c_source(c, &so, a, d, o->c_source));
    p->invoke =
        invoke;  // nothing runs it: a program without code is checked like one that is interpreted
    p->target = "c";
    return TENON_OK;
  }
  TRY(c_source(c, &so, a, d, &text));
  if (o->faults->nfresh) return TENON_OK;
  Loaded *l = arena_new(&p->arena, Loaded);
  TRY(compile_source(o, text.source, a, d, &l->library));
  l->nin = p->function[0]->nparams;
  p->invoke = invoke;
  p->invoke_ctx = l;
  p->unload = unload;
  TRY(give_weights(l, text.weights, d));
  void *entry = library_symbol(l->library, "model_run");
  memcpy(&l->run, &entry, sizeof l->run);
  p->target = "c";
  make_one_call(p);
  return TENON_OK;
}
