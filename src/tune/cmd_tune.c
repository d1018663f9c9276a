// cmd_tune.c -- `tenon tune`: searches, and the commands around its database.
//
// The program tenon-tune is the command line of `tenon` with this file in place of the one that
// becomes it (cli/commands/cmd_tune.c).  Progress goes to stderr, the schedules to --output or
// stdout.
#include "api/model.h"
#include "cli/confine.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/opt.h"
#include "cli/run/overrides.h"
#include "energy/window.h"
#include "lower/tuned.h"
#include "tune/db.h"
#include "tune/records.h"
#include "tune/search.h"
#include "tune/train.h"
#include "tune/worker.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 60, TASKS_SHOWN = 12, LEAST_PATIENCE = 5, MOST_PATIENCE = 60 };

typedef struct Tune {
  Cli *cli;
  Model *model;
  FileList files;
  Inputs in;
  Run held;
  TuneModel m;
  TuneSearch search;
  TrialLog log, earlier, similar;
  Db *db;
  int64_t run;  // in the database
  double best_shown;
  Workers *workers;
  TrialPhase objective;  // what confirms
  Meter meter;
  bool metered;            // the meter is open
  int64_t dropped;         // workers that were told of
  double gain_by_kernels;  // of the model, which workers do not run
} Tune;

static volatile sig_atomic_t interrupted;
static volatile int stop;

// The first one ends the search; the second one the process.
static void on_signal(int sig) {
  (void)sig;
  if (interrupted) _exit(CLI_INTERRUPTED);
  interrupted = 1;
  stop = 1;
}

// "60", "60s", "2m", "1h".
static bool read_seconds(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  double unit = !*end || !strcmp(end, "s") ? 1
                : !strcmp(end, "m")        ? 60
                : !strcmp(end, "h")        ? 3600
                                           : 0;
  *out *= unit;
  return end != text && unit > 0 && isfinite(*out) && *out >= 1 && *out <= 7 * 86400;
}

// ---- progress ----

static void tell_dropped(Tune *t) {
  for (const char *why; t->workers && (why = workers_dropped(t->workers, t->dropped)); t->dropped++)
    fprintf(stderr, "%stenon: warning: a worker is dropped: %s\n", isatty(2) ? "\r\033[K" : "",
            clean_text(&t->cli->arena, why));
}

static tenon_status after_round(void *ctx, const TuneStatus *s, const TrialLog *l, int64_t first) {
  Tune *t = ctx;
  if (t->db) TRY(db_add_trials(t->db, t->run, &t->m, l, first, &t->cli->diag));
  tell_dropped(t);
  if (isatty(2))
    fprintf(stderr, "\r\033[K%lld trials, %.0f a second, gain %.3f, %.0f s left  %.40s",
            (long long)s->trials, (double)s->trials / fmax(s->seconds, 1e-3), s->gain, s->left,
            s->task ? clean_text(&t->cli->arena, s->task->label) : "the whole model");
  t->best_shown = s->gain;
  return TENON_OK;
}

// ---- the result ----

static const TuneTask *task_of(const Tune *t, const char *key) {
  for (int64_t i = 0; i < t->m.ntasks; i++)
    if (!strcmp(t->m.task[i].key, key)) return &t->m.task[i];
  return NULL;
}

static const Trial *model_trial(const Tune *t) {
  for (int64_t i = t->log.n; i-- > 0;)
    if (t->log.v[i]->phase == TRIAL_MODEL) return t->log.v[i];
  return NULL;
}

static bool model_was_run(const Tune *t) { return !t->workers && !t->search.survey; }

static double model_gain(const Tune *t, const TunedSchedules *s) {
  if (!model_was_run(t)) return s->n ? t->gain_by_kernels : 1;
  const Trial *m = model_trial(t);
  return m && s->n ? trial_gain(m) : 1;
}

static int64_t count_status(const Tune *t, TrialStatus status) {
  int64_t n = 0;
  for (int64_t i = 0; i < t->log.n; i++)
    n += t->log.v[i]->status == status && t->log.v[i]->phase != TRIAL_MODEL;
  return n;
}

static int64_t count_trials(const Tune *t) {
  int64_t n = 0;
  for (int64_t i = 0; i < t->log.n; i++) n += t->log.v[i]->phase != TRIAL_MODEL;
  return n;
}

static const char *objective(const Tune *t) {
  return t->objective == TRIAL_CONFIRM ? "time" : trial_phase_name[t->objective];
}

static void print_text(Tune *t, const TunedSchedules *s, double seconds) {
  Cli *c = t->cli;
  fprintf(stderr, "%s", isatty(2) ? "\r\033[K" : "");
  fprintf(stderr, "%lld trials of %lld kernels in %.1f s (%.1f a second), %lld of them not timed",
          (long long)count_trials(t), (long long)t->m.ntasks, seconds,
          (double)count_trials(t) / seconds, (long long)count_status(t, TRIAL_FAILED));
  fprintf(stderr, "%s\n", interrupted ? "; interrupted" : "");
  int64_t wrong = count_status(t, TRIAL_WRONG);
  if (wrong)
    fprintf(stderr, "tenon: warning: %lld schedules gave other bits, which is a defect of Tenon\n",
            (long long)wrong);
  for (int64_t i = 0; i < MIN(s->n, TASKS_SHOWN); i++) {
    const TuneTask *task = task_of(t, s->entry[i].key);
    if (task)
      fprintf(stderr, "  %5.2f x  %-40s %s\n", s->entry[i].gain, clean_text(&c->arena, task->label),
              s->entry[i].schedule);
  }
  if (s->n > TASKS_SHOWN) fprintf(stderr, "  and %lld more\n", (long long)s->n - TASKS_SHOWN);
  if (t->m.confirm == TRIAL_CONFIRM)
    fprintf(stderr, "the model: %.3f of the default's speed%s, with %lld tuned kernels\n",
            model_gain(t, s), model_was_run(t) ? "" : " by its kernels' times", (long long)s->n);
  else
    fprintf(stderr, "the model: the default takes %.3f of its %s, with %lld tuned kernels (%s)\n",
            model_gain(t, s), t->m.confirm == TRIAL_EDP ? "energy-delay product" : "energy",
            (long long)s->n, t->meter.row->name);
}

// Of this process and of the code generators that have ended.
static double processor_seconds(void) {
  struct rusage own, children;
  if (getrusage(RUSAGE_SELF, &own) || getrusage(RUSAGE_CHILDREN, &children)) return 0;
  return (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec + children.ru_utime.tv_sec +
                  children.ru_stime.tv_sec) +
         (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec + children.ru_utime.tv_usec +
                  children.ru_stime.tv_usec) /
             1e6;
}

static void print_json(Tune *t, const TunedSchedules *s, double seconds) {
  StrBuf text;
  JsonWriter w;
  strbuf_init(&text, &t->cli->arena);
  json_init(&w, &text, false);
  json_begin_object(&w);
  json_key(&w, "trials");
  json_i64(&w, count_trials(t));
  json_key_f64(&w, "seconds", seconds);
  json_key_f64(&w, "processor_seconds", processor_seconds());
  json_key(&w, "not_timed");
  json_i64(&w, count_status(t, TRIAL_FAILED));
  json_key(&w, "wrong");
  json_i64(&w, count_status(t, TRIAL_WRONG));
  json_key(&w, "tasks");
  json_i64(&w, t->m.ntasks);
  json_key(&w, "left");
  json_i64(&w, t->m.nleft);
  json_key(&w, "run");
  json_i64(&w, t->run);
  json_key(&w, "objective");
  json_cstr(&w, objective(t));
  json_key_f64(&w, "gain", model_gain(t, s));
  json_key(&w, "model_was_run");
  json_bool(&w, model_was_run(t));
  json_key(&w, "workers_dropped");
  json_i64(&w, t->dropped);
  json_key(&w, "kernels");
  json_begin_array(&w);
  for (int64_t i = 0; i < s->n; i++) {
    const TuneTask *task = task_of(t, s->entry[i].key);
    json_begin_object(&w);
    json_key(&w, "workload");
    json_cstr(&w, s->entry[i].key);
    json_key(&w, "kernel");
    json_cstr(&w, task ? task->label : NULL);
    json_key_f64(&w, "share", task && t->m.ns > 0 ? task->ns / t->m.ns : 0);
    json_key_f64(&w, "gain", s->entry[i].gain);
    json_key(&w, "default");
    json_cstr(&w, task ? task->dflt : NULL);
    json_key(&w, "schedule");
    json_cstr(&w, s->entry[i].schedule);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&text);
}

static tenon_status put_output(Cli *c, Str text) {
  const char *path = opt_text(c, OPT_tune_output, "-");
  if (strcmp(path, "-")) return file_write(path, text.p, text.n, &c->diag);
  if (!opt_given(c, OPT_tune_json)) fwrite(text.p, 1, (size_t)text.n, stdout);
  return TENON_OK;
}

// ---- the search ----

static tenon_status open_workers(Tune *t) {
  Cli *c = t->cli;
  const OptionValue *v = &c->opt[OPT_tune_worker];
  WorkersOptions o = {.command = v->text,
                      .n = v->count,
                      .threads = (int)opt_int(c, OPT_tune_threads, 0),
                      .patience = fmax(LEAST_PATIENCE, fmin(MOST_PATIENCE, t->search.seconds / 2))};
  if (!v->count) return TENON_OK;
  TRY(workers_open(&o, &c->arena, &c->diag, &t->workers));
  tell_dropped(t);
  t->search.workers = t->workers;
  t->m.remote = true;
  t->m.o.machine = workers_machine(t->workers);
  return TENON_OK;
}

// Before anything is read, so that a machine without a meter says so at once.
static tenon_status open_meter(Tune *t, double *out_idle_watts) {
  const char *root = getenv("TENON_SYSFS");
  TRY(meter_open(&t->meter, root ? root : "", false, &t->cli->diag));
  t->metered = true;
  return energy_at_rest(&t->meter, &t->cli->diag, out_idle_watts);
}

static bool read_objective(const char *text, TrialPhase *out) {
  *out = TRIAL_CONFIRM;
  if (!strcmp(text, "time")) return true;
  for (*out = TRIAL_ENERGY; *out < TRIAL_PHASES; ++*out)
    if (!strcmp(text, trial_phase_name[*out])) return true;
  return false;
}

static tenon_status read_all(Tune *t) {
  Cli *c = t->cli;
  double idle_watts = 0;
  TRY(model_need_supported(t->model, &c->diag));
  if (t->objective != TRIAL_CONFIRM) TRY(open_meter(t, &idle_watts));
  run_init(&t->held, NULL, &c->diag);
  t->held.seed = t->in.seed;
  t->held.max_bytes = machine_memory();
  TRY(inputs_read(&t->in, c, &t->held, opt_text(c, OPT_tune_inputs, NULL),
                  &c->opt[OPT_tune_input]));
  t->m = (TuneModel){.g = t->model->graph,
                     .arena = &c->arena,
                     .diag = &c->diag,
                     .run = &t->held,
                     .in = t->in.value,
                     .threads = (int)opt_int(c, OPT_tune_threads, 0),
                     .reorder = opt_given(c, OPT_tune_reorder),
                     .confirm = t->objective,
                     .meter = &t->meter,
                     .idle_watts = idle_watts};
  TRY(opt_compile(c, &t->m.o));
  t->m.o.target = target_find("cpu");
  t->m.o.sizes = &t->in.dims;
  TRY(open_workers(t));
  return tune_open(&t->m);
}

static tenon_status open_db(Tune *t) {
  Cli *c = t->cli;
  const char *path = opt_text(c, OPT_tune_db, NULL);
  if (path && !strcmp(path, "none")) return TENON_OK;
  TRY(db_open(path, &c->arena, &c->diag, &t->db));
  TRY(db_begin_run(t->db, &t->m, c->pos[0], (int64_t)t->search.seed, &c->diag, &t->run));
  if (opt_given(c, OPT_tune_fresh)) return TENON_OK;
  TRY(db_earlier(t->db, &t->m, &t->earlier, &c->diag));
  TRY(db_similar(t->db, &t->m, &t->similar, &c->diag));
  t->search.earlier = &t->earlier;
  t->search.similar = &t->similar;
  return TENON_OK;
}

static tenon_status execute(Tune *t) {
  Cli *c = t->cli;
  TunedSchedules s;
  struct sigaction on = {.sa_handler = on_signal};
  TRY(read_all(t));
  TRY(open_db(t));
  sigaction(SIGINT, &on, NULL);
  sigaction(SIGTERM, &on, NULL);
  int64_t begin = platform->now();
  tenon_status status = tune_search(&t->m, &t->search, &t->log, &t->gain_by_kernels);
  tell_dropped(t);
  TRY(status);
  double seconds = (double)(platform->now() - begin) / 1e9;
  tune_decide(&t->log, t->m.machine_text, t->m.reorder, &c->arena, &s);
  const char *text = tuned_print(&s, &c->arena);
  if (t->db) TRY(db_end_run(t->db, t->run, &c->diag));
  TRY(put_output(c, str_of(text)));
  if (opt_given(c, OPT_tune_json))
    print_json(t, &s, seconds);
  else
    print_text(t, &s, seconds);
  return TENON_OK;
}

static int tune_model(Cli *c) {
  Tune *t = arena_new(&c->arena, Tune);
  ModelOptions o = {.target = "cpu"};
  t->cli = c;
  t->log.arena = t->earlier.arena = t->similar.arena = &c->arena;
  t->search = (TuneSearch){.seconds = DEFAULT_SECONDS,
                           .seed = (uint64_t)opt_int(c, OPT_tune_seed, 0),
                           .survey = opt_given(c, OPT_tune_survey),
                           .stop = &stop,
                           .round = after_round,
                           .ctx = t};
  const char *what = opt_text(c, OPT_tune_objective, "time");
  if (!read_objective(what, &t->objective))
    return cli_usage(c, "tune: --objective %s: it is time, energy or edp", what);
  if (t->objective != TRIAL_CONFIRM && (c->opt[OPT_tune_worker].count || t->search.survey))
    return cli_usage(c, "tune: --objective takes this machine's meter: not with --%s",
                     t->search.survey ? "survey" : "worker");
  const char *time = opt_text(c, OPT_tune_time, "60s");
  if (!read_seconds(time, &t->search.seconds))
    return cli_usage(c, "tune: --time %s: it takes 1 second to 7 days, such as 60s or 5m", time);
  int rc = fixed_read(c, &c->opt[OPT_tune_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_tune_type], &c->opt[OPT_tune_weights], &o);
  if (!rc)
    rc = cli_exit_of(open_with_overrides(c, c->pos[0], &c->opt[OPT_tune_input],
                                         opt_text(c, OPT_tune_inputs, NULL), o, &t->model));
  if (rc) return rc;
  if (t->model->program) {
    model_free(t->model);
    return cli_usage(c, "tune: %s is compiled already: tune the model it was made of", c->pos[0]);
  }
  t->in = (Inputs){.graph = t->model->graph,
                   .arena = &c->arena,
                   .files = &t->files,
                   .seed = (uint64_t)opt_int(c, OPT_tune_seed, 0)};
  rc = dims_read(c, t->model->graph, &c->opt[OPT_tune_dim], &t->in.dims);
  if (!rc) rc = cli_exit_of(execute(t));
  if (rc && t->in.misused) rc = CLI_USAGE;
  tune_close(&t->m);
  db_close(t->db);
  workers_close(t->workers);
  if (t->metered) meter_close(&t->meter);
  for (int64_t i = 0; i < t->files.n; i++) file_close(&t->files.v[i]);
  model_free(t->model);
  return rc;
}

// ---- the database ----

static tenon_status open_named(Cli *c, Db **out) {
  const char *path = opt_text(c, OPT_tune_db, NULL);
  return db_open(path, &c->arena, &c->diag, out);
}

static int list_runs(Cli *c, Db *db) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  int rc = cli_exit_of(db_list(db, &b, &c->arena, &c->diag));
  if (!rc) printf("%s", strbuf_text(&b));
  return rc;
}

static int replay(Cli *c, Db *db) {
  int64_t run;
  TunedSchedules s;
  if (c->npos != 2 || !str_to_i64(str_of(c->pos[1]), &run) || run < 1)
    return cli_usage(c, "tune: replay takes the number of a run, which `tenon tune list` prints");
  tenon_status status = db_replay(db, run, &c->arena, &c->diag, &s);
  if (!status) status = put_output(c, str_of(tuned_print(&s, &c->arena)));
  return cli_exit_of(status);
}

static int export_runs(Cli *c, Db *db) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  tenon_status status = db_export(db, &b, &c->arena, &c->diag);
  if (!status) status = put_output(c, strbuf_str(&b));
  return cli_exit_of(status);
}

static int import_runs(Cli *c, Db *db) {
  if (c->npos < 2) return cli_usage(c, "tune: %s takes files of JSON Lines", c->pos[0]);
  for (int64_t i = 1; i < c->npos; i++) {
    File f;
    int64_t added;
    if (files_input(c, c->pos[i], "the records")) return CLI_USAGE;
    tenon_status status = file_open(c->pos[i], &f, &c->diag);
    if (status) return cli_exit_of(status);
    status =
        db_import(db, (Str){(const char *)f.bytes, f.size}, c->pos[i], &c->arena, &c->diag, &added);
    file_close(&f);
    if (status) return cli_exit_of(status);
    fprintf(stderr, "%s: %lld runs are new\n", c->pos[i], (long long)added);
  }
  return CLI_OK;
}

// For a tuner at the other end of standard input and output.
static int work(Cli *c) {
  cli_confine_worker(c);
  return cli_exit_of(worker_serve(0, 1, (int)opt_int(c, OPT_tune_threads, 0), &c->diag));
}

// ---- training ----

static void put_score(JsonWriter *w, const TrainScore *s) {
  json_key(w, "tasks");
  json_i64(w, s->tasks);
  json_key(w, "affected");
  json_i64(w, s->affected);
  json_key_f64(w, "gain", s->gain);
  json_key_f64(w, "least", s->least);
  json_key_f64(w, "recovered", s->recovered);
}

static void print_training_json(Cli *c, const Training *t) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "tasks");
  json_i64(&w, t->tasks);
  json_key(&w, "rules");
  json_i64(&w, t->nrules);
  json_key(&w, "templates");
  json_begin_array(&w);
  for (int64_t i = 0; i < t->ntemplates; i++) {
    json_begin_object(&w);
    json_key(&w, "template");
    json_cstr(&w, t->of[i].name);
    put_score(&w, &t->of[i].held_out);
    json_key(&w, "rules");
    json_i64(&w, t->of[i].n);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "left_out");
  json_begin_array(&w);
  for (int64_t i = 0; i < t->nmachines; i++) {
    json_begin_object(&w);
    json_key(&w, "machine");
    json_cstr(&w, t->machine[i].name);
    put_score(&w, &t->machine[i].score);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

static void print_training(const Training *t) {
  fprintf(stderr, "%lld tasks; gains on workloads that did not choose the rules:\n",
          (long long)t->tasks);
  for (int64_t i = 0; i < t->ntemplates; i++) {
    const TrainScore *s = &t->of[i].held_out;
    fprintf(stderr, "  %-16s %4lld of %4lld tasks changed, %.3f, least %.3f  %lld rules%s\n",
            t->of[i].name, (long long)s->affected, (long long)s->tasks, s->gain, s->least,
            (long long)t->of[i].n, t->of[i].n ? "" : ": left out");
  }
  for (int64_t i = 0; i < t->nmachines; i++) {
    const TrainScore *s = &t->machine[i].score;
    fprintf(
        stderr,
        "without %-12s there: %lld of %lld tasks changed, %.3f, least %.3f, %.0f %% of the gain\n",
        t->machine[i].name, (long long)s->affected, (long long)s->tasks, s->gain, s->least,
        s->recovered * 100);
  }
}

// The records of the files, or of the database where none is given.
static tenon_status read_records(Cli *c, Records *out) {
  if (c->npos > 2) return fail(&c->diag, TENON_EINVAL, NOWHERE, "tune: train takes one file");
  if (c->npos == 1) {
    Db *db;
    StrBuf b;
    strbuf_init(&b, &c->arena);
    TRY(open_named(c, &db));
    tenon_status status = db_export(db, &b, &c->arena, &c->diag);
    db_close(db);
    TRY(status);
    return records_parse(strbuf_str(&b), "the database", &c->arena, &c->diag, out);
  }
  File f;
  TRY(file_open(c->pos[1], &f, &c->diag));
  tenon_status status =
      records_parse((Str){(const char *)f.bytes, f.size}, c->pos[1], &c->arena, &c->diag, out);
  file_close(&f);
  return status;
}

static int learn(Cli *c) {
  Records r;
  Training t;
  StrBuf b;
  if (c->npos == 2 && files_input(c, c->pos[1], "the records")) return CLI_USAGE;
  tenon_status status = read_records(c, &r);
  if (status) return cli_exit_of(status);
  train(&r, &c->arena, &t);
  strbuf_init(&b, &c->arena);
  train_print(&t, &b);
  status = put_output(c, strbuf_str(&b));
  if (status) return cli_exit_of(status);
  if (opt_given(c, OPT_tune_json))
    print_training_json(c, &t);
  else
    print_training(&t);
  return CLI_OK;
}

int cmd_tune(Cli *c) {
  static const struct {
    const char *name;
    int (*run)(Cli *c, Db *db);
  } known[] = {{"list", list_runs},
               {"replay", replay},
               {"export", export_runs},
               {"import", import_runs},
               {"merge", import_runs}};
  for (int i = 0; i < ARRAY_LEN(known); i++) {
    Db *db;
    if (strcmp(c->pos[0], known[i].name)) continue;
    int rc = cli_exit_of(open_named(c, &db));
    if (!rc) rc = known[i].run(c, db);
    db_close(db);
    return rc;
  }
  if (!strcmp(c->pos[0], "train")) return learn(c);
  if (c->npos > 1)
    return cli_usage(c, "tune: one MODEL, or list, replay, export, import, merge, train, worker");
  if (!strcmp(c->pos[0], "worker")) return work(c);
  return tune_model(c);
}
