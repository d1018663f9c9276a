// tune_api.c -- the public interface of the tuner: starts the program tenon-tune.
//
// The program lies where tenon-codegen does.  It prints one JSON object, from which the caller's
// figures come; its messages go to standard error.
//
// Guarantees: nothing of what the program prints is believed but numbers.
#include "api/api.h"

#include "base/json.h"
#include "base/process.h"

enum { OUTPUT_MOST = 16 << 20, ARGUMENTS = 16 };

typedef struct Arguments {
  Arena *arena;
  const char *v[ARGUMENTS];
  int n;
} Arguments;

static void add(Arguments *a, const char *word) {
  CHECK(a->n < ARGUMENTS - 1, "more words than places");
  a->v[a->n++] = word;
}

static void add_option(Arguments *a, const char *option, const char *value) {
  if (value) add(a, str_printf(a->arena, "--%s=%s", option, value));
}

// A model whose name looks like an option or a command of its own is a path all the same.
static const char *as_path(Arena *a, const char *model) {
  return strchr(model, '/') ? model : str_printf(a, "./%s", model);
}

static void add_all(Arguments *a, const char *program, const char *model, const char *output,
                    const tenon_tune_options *o) {
  add(a, program);
  add(a, "tune");
  add(a, "--json");
  add_option(a, "output", output);
  add_option(a, "db", o->database);
  add_option(a, "inputs", o->inputs);
  add_option(a, "objective", o->objective);
  if (o->seconds > 0) add_option(a, "time", str_printf(a->arena, "%.17gs", o->seconds));
  if (o->threads) add_option(a, "threads", str_printf(a->arena, "%d", (int)o->threads));
  if (o->seed) add_option(a, "seed", str_printf(a->arena, "%llu", (unsigned long long)o->seed));
  if (o->reorder) add(a, "--reorder");
  if (o->fresh) add(a, "--fresh");
  add(a, as_path(a->arena, model));
  add(a, NULL);
}

// ---- what it said ----

static double number(const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  return v && (v->kind == JSON_INT || v->kind == JSON_FLOAT) ? v->f : 0;
}

static tenon_status read_result(Str text, Arena *a, Diag *d, tenon_tune_info *out) {
  Json j;
  TRY(json_parse(a, text, d, &j));
  const Json *kernels = json_get(&j, "kernels");
  if (!out) return TENON_OK;
  out->gain = number(&j, "gain");
  out->kernels = kernels && kernels->kind == JSON_ARRAY ? kernels->n : 0;
  out->tasks = (int64_t)number(&j, "tasks");
  out->trials = (int64_t)number(&j, "trials");
  return TENON_OK;
}

// As cli/cli.h has the exit statuses of programs.
static tenon_status status_of(int exit_status) {
  return exit_status == 2   ? TENON_EINVAL
         : exit_status == 4 ? TENON_EUNSUPPORTED
         : exit_status == 5 ? TENON_EINTERNAL
                            : TENON_EIO;
}

static tenon_status tune(const char *model, const char *output, const tenon_tune_options *o,
                         Arena *a, Diag *d, tenon_tune_info *out) {
  char *path = arena_alloc(a, TEMP_PATH);
  Arguments args = {.arena = a};
  StrBuf said;
  int status = 0;
  strbuf_init(&said, a);
  if (!process_find("tenon-tune", path, TEMP_PATH))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "the program tenon-tune is neither beside the library nor on the path");
  add_all(&args, path, model, output, o);
  int err = process_collect(path, args.v, OUTPUT_MOST, &said, &status);
  if (err) return fail(d, TENON_EIO, NOWHERE, "cannot run %s: %s", path, error_text(err).s);
  if (status)
    return fail(d, status_of(status), NOWHERE,
                "tenon-tune ended with status %d; standard error has its message", status);
  return read_result(strbuf_str(&said), a, d, out);
}

tenon_status tenon_tune(const char *model, const char *output, const tenon_tune_options *options,
                        tenon_tune_info *out, tenon_error *error) {
  Diag d;
  Arena a;
  Trap t;
  tenon_tune_options o = {0};
  diag_init(&d);
  if (out) *out = (tenon_tune_info){0};
  if (!model || !output) return api_missing(model ? "output" : "model", error);
  if (options && !api_take_options(&o, sizeof o, options, sizeof o))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof o));
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = tune(model, output, &o, &a, &d, out);
  trap_leave(&t);
  arena_deinit(&a);
  return api_error(error, &d, t.status);
}
