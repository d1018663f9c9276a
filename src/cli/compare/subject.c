// subject.c -- starts the process of a subject and reads what it prints (subject.h).
//
// Needs:      rights to start this program, its code generator and Python (cli/confine.c).
// Guarantees: what a process prints is read as data: its size is bounded and every key is checked.
#include "cli/compare/subject.h"

#include "base/platform.h"
#include "base/process.h"

enum { MAX_ARGS = 256, MAX_OPTIONS = MAX_ARGS - 32, MAX_PRINTED = 16 << 20, PATH_CAP = 4096 };

extern const char compare_py[];  // onnxruntime.py

bool subject_is_onnxruntime(const char *text, const char **out_model) {
  static const char name[] = "onnxruntime";
  const char *behind = text + sizeof name - 1;
  *out_model = NULL;
  if (!str_starts(str_of(text), name) || (*behind && *behind != ':')) return false;
  if (*behind) *out_model = behind + 1;
  return true;
}

// ---- options ----

// Options that say what is written, or that the caller sets for all its subjects.
static bool is_for_caller(const OptionRow *o) {
  static const char *const name[] = {"inputs",  "seconds", "json",   "force",
                                     "profile", "sweep",   "report", "by_loss"};
  for (int64_t i = 0; i < ARRAY_LEN(name); i++)
    if (!strcmp(o->name, name[i])) return true;
  return !strcmp(o->complete, COMPLETE_WRITES);
}

// A subject that also runs for its outputs gets its inputs as an archive, and no others.
static bool makes_inputs(const OptionRow *o) {
  return !strcmp(o->name, "input") || !strcmp(o->name, "dim") || !strcmp(o->name, "seed");
}

static const OptionRow *option_for(const Subject *s, Str name) {
  int i = option_find(CMD_bench, name);
  const OptionRow *o = i < 0 ? NULL : &cli_option[i];
  if (!o || is_for_caller(o)) return NULL;
  if (s->measured_only) return o;
  return !makes_inputs(o) && option_find(CMD_run, name) >= 0 ? o : NULL;
}

static int unknown_option(Cli *c, const Subject *s, const char *from, const char *name) {
  const char *words[OPT_COUNT];
  int64_t n = 0;
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == CMD_bench && option_for(s, str_of(option_name(&cli_option[i]))))
      words[n++] = option_name(&cli_option[i]);
  HintText hint = did_you_mean(str_of(name), words, n);
  return cli_usage(c, "%s: '%s' is no option that sets how a model is compiled or run%s", from,
                   name, *hint.s ? hint.s : "; `tenon bench --help` lists them");
}

// Room for `more` options behind those that are there.
static const char **grow(Cli *c, Subject *s, int64_t more) {
  const char **list = arena_array(&c->arena, const char *, s->noptions + more + 1);
  if (s->noptions) memcpy(list, s->option, (size_t)s->noptions * sizeof *list);
  s->option = list;
  return list;
}

static const char *spelt(Cli *c, const OptionRow *o, const char *value) {
  return o->kind == OK_FLAG ? str_printf(&c->arena, "--%s", option_name(o))
                            : str_printf(&c->arena, "--%s=%s", option_name(o), value);
}

void subject_share(Cli *c, Subject *s) {
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *o = &cli_option[i];
    const OptionValue *v = &c->opt[i];
    if (o->command != c->command || !v->count || !option_for(s, str_of(option_name(o)))) continue;
    const char **list = grow(c, s, v->count);
    for (int64_t k = 0; k < v->count; k++)
      list[s->noptions++] = spelt(c, o, o->kind == OK_FLAG ? NULL : v->text[k]);
  }
}

int subject_options(Cli *c, const char *from, const OptionValue *pairs, Subject *s) {
  const char **list = grow(c, s, pairs->count);
  for (int64_t i = 0; i < pairs->count; i++) {
    const char *name, *value;
    bool pair = opt_split(c, pairs->text[i], &name, &value);
    if (!pair) name = pairs->text[i];
    const OptionRow *o = option_for(s, str_of(name));
    if (!o || !strcmp(o->name, "compiled")) return unknown_option(c, s, from, name);
    if (!strcmp(o->complete, COMPLETE_READS))  // an input must be known before anything is written
      return cli_usage(c, "%s: %s names a file; give --%s to the whole command", from, name, name);
    if ((o->kind == OK_FLAG) == pair)
      return cli_usage(c, pair ? "%s: %s takes no value" : "%s: %s needs a value: %s=%s", from,
                       name, name, o->value);
    list[s->noptions++] = spelt(c, o, pair ? value : NULL);
  }
  if (s->noptions > MAX_OPTIONS) return cli_usage(c, "%s: more than %d options", from, MAX_OPTIONS);
  return CLI_OK;
}

// ---- processes ----

typedef struct Argv {
  const char *v[MAX_ARGS];
  int64_t n;
} Argv;

static void put(Argv *a, const char *text) {
  CHECK(a->n < MAX_ARGS - 1, "more than %d arguments", MAX_ARGS);
  a->v[a->n++] = text;
}

static tenon_status status_of(int exit_status) {
  return exit_status == CLI_UNSUPPORTED ? TENON_EUNSUPPORTED
         : exit_status == CLI_USAGE     ? TENON_EINVAL
         : exit_status == CLI_DEFECT    ? TENON_EINTERNAL
                                        : TENON_EIO;
}

// Its messages are on standard error already.
static tenon_status collect(Cli *c, const Subject *s, const char *program, const Argv *argv,
                            Json *out) {
  StrBuf text;
  int ended = 0;
  strbuf_init(&text, &c->arena);
  int err = process_collect(program, argv->v, MAX_PRINTED, &text, &ended);
  if (err)
    return fail(&c->diag, TENON_EIO, (Where){.file = program}, "cannot be run: %s",
                error_text(err).s);
  if (ended < 0)
    return fail(&c->diag, TENON_EIO, NOWHERE, "%s was ended by signal %d", s->label, -ended);
  if (ended)
    return fail(&c->diag, status_of(ended), NOWHERE, "%s failed with exit status %d", s->label,
                ended);
  return json_parse(&c->arena, strbuf_str(&text), &c->diag, out);
}

static tenon_status run_tenon(Cli *c, const Subject *s, Argv *argv, Json *out) {
  static char self[PATH_CAP];
  if (!process_find("tenon", self, sizeof self))
    return fail(&c->diag, TENON_EIO, NOWHERE, "the program tenon is not where it was started from");
  argv->v[0] = self;
  put(argv, "--json");
  for (int64_t i = 0; i < s->noptions; i++) put(argv, s->option[i]);
  put(argv, "--");
  put(argv, s->model);
  return collect(c, s, self, argv, out);
}

static tenon_status run_python(Cli *c, const Subject *s, const char *inputs, const char *outputs,
                               double seconds, Json *out) {
  char path[PATH_CAP];
  Argv argv = {.n = 0};
  bool there = strchr(s->python, '/') || process_find(s->python, path, sizeof path);
  if (!there)
    return fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                "%s needs Python, and '%s' is not on the path; --python names another", s->label,
                s->python);
  const char *program = strchr(s->python, '/') ? s->python : path;
  const char *const words[] = {program,
                               "-c",
                               compare_py,
                               s->model,
                               inputs,
                               outputs,
                               str_printf(&c->arena, "%g", seconds),
                               s->threads ? s->threads : "0"};
  for (int64_t i = 0; i < ARRAY_LEN(words); i++) put(&argv, words[i]);
  return collect(c, s, program, &argv, out);
}

// ---- what they print ----

static double number(const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  return v && (v->kind == JSON_INT || v->kind == JSON_FLOAT) ? v->f : 0;
}

static void take_figures(Arena *a, const Json *j, Figures *out) {
  const Json *version = json_get(j, "version"), *others = json_get(j, "others");
  *out = (Figures){.load_ms = number(j, "load_ms"),
                   .compile_ms = number(j, "compile_ms"),
                   .median_ms = number(j, "median_ms"),
                   .min_ms = number(j, "min_ms"),
                   .p99_ms = number(j, "p99_ms"),
                   .flops = number(j, "flops"),
                   .gflops = number(j, "gflops"),
                   .peak_share = number(j, "peak_share"),
                   .runs = (int64_t)number(j, "runs"),
                   .threads = (int64_t)number(j, "threads"),
                   .arena_bytes = (int64_t)number(j, "arena_bytes"),
                   .peak_rss_bytes = (int64_t)number(j, "peak_rss_bytes")};
  if (version && version->kind == JSON_STRING) out->version = str_copy(a, version->s);
  if (!others || others->kind != JSON_ARRAY) return;
  const char **name = arena_array(a, const char *, others->n + 1);
  for (int64_t i = 0; i < others->n; i++)
    if (others->item[i].kind == JSON_STRING) name[out->nothers++] = str_copy(a, others->item[i].s);
  out->other = name;
}

tenon_status subject_run(Cli *c, const Subject *s, const char *inputs, const char *outputs,
                         Figures *out) {
  Json printed;
  Argv argv = {.n = 1};
  if (s->python) {
    TRY(run_python(c, s, inputs, outputs, 0, &printed));
  } else {
    const char *const words[] = {"run", "--inputs", inputs, "--output", outputs};
    for (int64_t i = 0; i < ARRAY_LEN(words); i++) put(&argv, words[i]);
    TRY(run_tenon(c, s, &argv, &printed));
  }
  take_figures(&c->arena, &printed, out);
  return TENON_OK;
}

tenon_status subject_bench(Cli *c, const Subject *s, const char *inputs, double seconds,
                           Figures *out) {
  Json printed;
  Argv argv = {.n = 1};
  if (s->python) {
    TRY(run_python(c, s, inputs, "-", seconds, &printed));
  } else {
    put(&argv, "bench");
    put(&argv, "--seconds");
    put(&argv, str_printf(&c->arena, "%g", seconds));
    if (inputs) {
      put(&argv, "--inputs");
      put(&argv, inputs);
    }
    TRY(run_tenon(c, s, &argv, &printed));
  }
  take_figures(&c->arena, &printed, out);
  if (!(out->median_ms > 0))
    return fail(&c->diag, TENON_EINTERNAL, NOWHERE, "%s printed no time", s->label);
  return TENON_OK;
}
