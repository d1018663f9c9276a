// main.c -- tenon-replay: records every kernel of models and op samples, and compares with
// tests/golden/replay.
//
// A process per model and machine, JOBS at once: each writes its record into a temporary file, so
// that one that crashes is one failure, and memory goes back after each.  Records are put together
// in the order of the command line, whichever is done first.
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: tenon-replay [OPTION...] [MODEL...]\n"
    "Records the kernels of models and of op samples on described machines, and compares their "
    "hashes\n"
    "with tests/golden/replay.  A model is recorded in f32, and on CUDA in bf16 too; MODEL@tf32 or "
    "MODEL@bf16:\n"
    "in that precision alone, on machines that have it.\n"
    "  --samples          also the samples of every op, and the small models of tests/models\n"
    "  --machine GLOB     only machines whose name fits: sse2, avx2, "
    "avx512, amx, neon, opencl, sm_80, sm_90a\n"
    "  --precision P      models in f32, bf16 or tf32 only; without it in "
    "all that the machine has\n"
    "  --whole            these are all models: what the golden files have "
    "besides is reported as removed\n"
    "  --cliffs           count kernels with more than 4,096 elements of work that run on the "
    "host, "
    "on one thread\n"
    "                     or on one lane, and compare with tests/golden/cliffs instead\n"
    "  --why              with --cliffs: print each sample that counts, and why\n"
    "  --update           write the golden files instead of comparing\n"
    "  --show NUMBER      print the loops and the text of this kernel of "
    "each model; compare nothing\n"
    "  --dump FOLDER      write the loops and the text of every kernel "
    "into the folder; compare nothing\n"
    "  --golden FOLDER    the golden files of this folder, as another build wrote them with "
    "--update\n"
    "  --limit N          print at most N changes of a machine (40)\n"
    "  -j N               processes at once (2)\n";

// A model of int8 is the same in every precision.
static const char *const small_models[] = {
    "past.tir",           "repeat.tir",           "text.tir",
    "whole_int8.tir@f32", "digits_int8.onnx@f32", "keywords_int8.onnx@f32"};

typedef struct Args {
  ReplayOptions o;
  const char *machine;
  const char **model;
  int nmodels;
  ReplayGolden golden;
  bool samples, update, cliffs;
  int64_t jobs;
} Args;
typedef struct Job {
  ReplayTask task;
  FILE *record;
  pid_t pid;
  bool failed;
} Job;

static int refuse(const char *text) {
  fprintf(stderr, "tenon-replay: %s\n%s", text, usage);
  return 2;
}

static bool flag(Args *x, const char *arg) {
  if (!strcmp(arg, "--samples")) return x->samples = true;
  if (!strcmp(arg, "--whole")) return x->golden.whole = true;
  if (!strcmp(arg, "--update")) return x->update = true;
  if (!strcmp(arg, "--cliffs")) return x->cliffs = true;
  if (!strcmp(arg, "--why")) return x->o.why = true;
  return false;
}

static bool option(Args *x, const char *arg, const char *value) {
  if (!strcmp(arg, "--machine"))
    x->machine = value;
  else if (!strcmp(arg, "--show"))
    x->o.show = value;
  else if (!strcmp(arg, "--dump"))
    x->o.dump = value;
  else if (!strcmp(arg, "--golden"))
    x->golden.folder = value;
  else if (!strcmp(arg, "--limit"))
    return str_to_i64(str_of(value), &x->golden.limit) && x->golden.limit >= 0;
  else if (!strcmp(arg, "-j"))
    return str_to_i64(str_of(value), &x->jobs) && x->jobs > 0;
  else
    return false;
  return true;
}

static int read_args(int argc, char **argv, Arena *a, Args *x) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help")) {
      fputs(usage, stdout);
      exit(0);
    }
    if (argv[i][0] != '-')
      x->model[x->nmodels++] = argv[i];
    else if (!flag(x, argv[i]) && (i + 1 == argc || !option(x, argv[i], argv[i + 1])))
      return refuse(argv[i]);
    else if (!flag(x, argv[i]))
      i++;
  }
  for (int i = 0; x->samples && i < ARRAY_LEN(small_models); i++)
    x->model[x->nmodels++] = str_printf(a, "%s/tests/models/%s", TENON_SOURCE_DIR, small_models[i]);
  if (!x->nmodels) return refuse("no MODEL and no --samples");
  return 0;
}

// ---- processes ----

static void start(Job *j, const Args *x) {
  j->record = tmpfile();
  fflush(NULL);
  j->pid = j->record ? fork() : -1;
  if (j->pid) return;
  Arena a;
  StrBuf out;
  arena_init(&a);
  strbuf_init(&out, &a);
  bool bad = x->cliffs ? !cliffs_record(&j->task, &x->o, &a, &out)
                       : !replay_record(&j->task, &x->o, &a, &out);
  fwrite(out.p, 1, (size_t)out.n, j->record);
  bad |= fflush(j->record) || ferror(j->record);
  fflush(NULL);
  _exit(bad);
}

static void finish_one(Job *job, int64_t n, int64_t *running) {
  int status;
  pid_t pid = wait(&status);
  --*running;
  for (int64_t i = 0; i < n; i++)
    if (job[i].pid == pid) {
      job[i].pid = 0;
      job[i].failed = status != 0;
    }
}

static void run_all(Job *job, int64_t n, const Args *x) {
  int64_t running = 0;
  for (int64_t i = 0; i < n; i++) {
    while (running >= x->jobs) finish_one(job, n, &running);
    start(&job[i], x);
    job[i].failed = job[i].pid < 0;
    running += job[i].pid > 0;
  }
  while (running) finish_one(job, n, &running);
}

static void put_record(Job *j, StrBuf *out) {
  char part[4096];
  size_t n;
  if (!j->record) return;
  rewind(j->record);
  while ((n = fread(part, 1, sizeof part, j->record)) > 0) strbuf_put(out, (Str){part, (int64_t)n});
  fclose(j->record);
}

// ---- all machines ----

// MODEL[@PRECISION]: the precision, 0 where none is named; *path is the model alone.
static unsigned named_precision(const char *model, Arena *a, const char **path) {
  static const char *const name[] = {"@f32", "@bf16", "@tf32"};
  for (int p = 0; p < ARRAY_LEN(name); p++)
    if (str_ends(str_of(model), name[p])) {
      *path = str_copy(a, (Str){model, (int64_t)(strlen(model) - strlen(name[p]))});
      return 1u << p;
    }
  *path = model;
  return 0;
}

static bool is_there(const Job *job, int64_t n, const char *path, unsigned precision) {
  for (int64_t i = 0; i < n; i++)
    if (job[i].task.path && !strcmp(job[i].task.path, path) && job[i].task.precision == precision)
      return true;
  return false;
}

static int64_t make_jobs(const Args *x, const ReplayMachine *m, Arena *a, Job *job) {
  int64_t n = 0;
  if (x->samples) job[n++] = (Job){.task = {.machine = m, .precision = REPLAY_F32}};
  for (int i = 0; i < x->nmodels; i++) {
    const char *path;
    unsigned named = named_precision(x->model[i], a, &path);
    unsigned want = named ? named & (m->precisions | m->also) : m->precisions;
    for (unsigned p = REPLAY_F32; p <= REPLAY_TF32; p *= 2)
      if (want & p && !is_there(job, n, path, p))
        job[n++] = (Job){.task = {m, path, (ReplayPrecision)p}};
  }
  return n;
}

// Whether all is as it was, of the machine whose jobs these are.
static bool judge(const Args *x, const ReplayMachine *m, Job *job, int64_t n, Arena *a) {
  Diag d;
  StrBuf record;
  bool good = true;
  strbuf_init(&record, a);
  for (int64_t i = 0; i < n; i++) {
    put_record(&job[i], &record);
    if (!job[i].failed) continue;
    printf("%-7s %s: the process failed\n", m->name, replay_model_name(a, &job[i].task));
    good = false;
  }
  diag_init(&d);
  if (x->o.show || x->o.dump || !n) return good;
  Str text = strbuf_str(&record);
  if (!x->update) {
    bool same =
        x->cliffs ? cliffs_compare(&x->golden, m, text) : replay_compare(&x->golden, m, text);
    return same && good;
  }
  if (!good) return false;
  tenon_status written =
      x->cliffs ? cliffs_update(&x->golden, m, text, &d) : replay_update(&x->golden, m, text, &d);
  if (!written) return true;
  printf("%s\n", d.text);
  return false;
}

int main(int argc, char **argv) {
  enum { PRECISIONS = 3 };
  Arena a;
  Args x = {.jobs = 2, .golden = {NULL, false, 40}};
  int passed = 0, failed = 0;
  arena_init(&a);
  x.model = arena_array(&a, const char *, argc + ARRAY_LEN(small_models));
  int rc = read_args(argc, argv, &a, &x);
  if (rc) return rc;
  const char *folder = TENON_SOURCE_DIR "/tests/golden/";
  if (!x.golden.folder)
    x.golden.folder = str_printf(&a, "%s%s", folder, x.cliffs ? "cliffs" : "replay");
  // Variables that choose schedules for tests have no place here.
  unsetenv("TENON_BLOCK_THREADS");
  unsetenv("TENON_MMA");
  Job *all =
      arena_array(&a, Job, (int64_t)replay_nmachines * (1 + PRECISIONS * (int64_t)x.nmodels));
  int64_t *first = arena_array(&a, int64_t, replay_nmachines + 1), n = 0;
  for (int i = 0; i < replay_nmachines; i++) {
    first[i] = n;
    if (!x.machine || str_glob(x.machine, replay_machines[i].name))
      n += make_jobs(&x, &replay_machines[i], &a, all + n);
  }
  first[replay_nmachines] = n;
  if (!n) return refuse("no machine fits");
  run_all(all, n, &x);
  for (int i = 0; i < replay_nmachines; i++) {
    int64_t count = first[i + 1] - first[i];
    if (!count) continue;
    bool good = judge(&x, &replay_machines[i], all + first[i], count, &a);
    passed += good;
    failed += !good;
  }
  if (!x.o.show) printf("%d passed, %d failed\n", passed, failed);
  arena_deinit(&a);
  return failed > 0;
}
