// cmd_bench.c -- `tenon bench`: how fast a model runs, where its time goes, and how near the
// machine's limits.
//
// Inputs are random, made once.  Runs are timed one by one, with results written into the same
// buffers, after a time of warming up; a profile is taken in runs of its own, so that measuring
// steps does not slow down what is reported.  With --resident tensors stay on the device: then a
// run's time is that until the host sees it end, and the device's own is taken over rows of runs.
#include "cli/inputs.h"
#include "cli/run/overrides.h"
#include "cli/opt.h"
#include "cli/bench/energy.h"
#include "cli/bench/profile.h"
#include "cli/bench/report.h"
#include "cli/bench/resident.h"

#include "api/model.h"
#include "compile/program_cache.h"
#include "runtime/session.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { MAX_RUNS = 1 << 20, MAX_ROWS = 1 << 12, MAX_ROW = 1000 };

typedef struct Bench {
  Cli *cli;
  Model *model;
  FileList files;
  Inputs in;
  Run held;  // inputs, and the first run's results, whose memory later ones use
  bool held_open;
  const Target *target;
  Program *program;
  Session *session, *profiled;
  Value **first;
  ResultRoom *room;
  int64_t *ns;
  int64_t nruns, nprofiled;
  double load_ms, compile_ms, median_ms, min_ms, p99_ms, mean_ms, flops, bytes;
  Peaks peaks;
  Profile profile;
  int64_t begin_trace;
  Resident resident;
  double device_median_ms, device_min_ms;  // of a run among others back to back
  int64_t device_runs;
  Energy energy;
} Bench;

static double since(int64_t start) { return (double)(platform->now() - start) / 1e6; }

// ---- running ----

static tenon_status run_once(Bench *b, Session *s, int64_t *out_ns) {
  Run run;
  Diag *d = &b->cli->diag;
  int64_t nresults = session_program(s)->function[0]->nresults;
  run_init(&run, NULL, d);
  run.seed = b->in.seed;
  run.max_bytes = machine_memory();
  Value **out = arena_array(&run.scratch, Value *, nresults + 1);
  int64_t start = platform->now();
  tenon_status status = session_run(s, &run, b->in.value, b->room, out);
  *out_ns = platform->now() - start;
  run_deinit(&run);
  return status;
}

// Until the host sees that it is over.
static tenon_status run_resident(Bench *b, int64_t *out_ns) {
  const Resident *r = &b->resident;
  int64_t start = platform->now();
  TRY(resident_call(r, b->session, b->in.seed, &b->cli->diag));
  TRY(r->driver->finish(r->queue, &b->cli->diag));
  *out_ns = platform->now() - start;
  return TENON_OK;
}

static tenon_status run_as_told(Bench *b, int64_t *out_ns) {
  return b->resident.driver ? run_resident(b, out_ns) : run_once(b, b->session, out_ns);
}

// The first run: its results' memory is where the others write theirs.
static tenon_status run_first(Bench *b) {
  Arena *a = &b->cli->arena;
  int64_t n = b->program->function[0]->nresults;
  b->first = arena_array(a, Value *, n + 1);
  TRY(session_run(b->session, &b->held, b->in.value, NULL, b->first));
  b->room = arena_array(a, ResultRoom, n + 1);
  for (int64_t i = 0; i < n; i++) {
    const Value *v = b->first[i];
    if (!v || v->kind != VK_TENSOR || v->dtype == DT_STRING) continue;
    int64_t bytes;
    if (dtype_bytes(v->dtype, v->n, &bytes)) b->room[i] = (ResultRoom){v->data, bytes};
  }
  return TENON_OK;
}

static int by_size(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

static tenon_status measure(Bench *b) {
  double seconds = opt_real(b->cli, OPT_bench_seconds, 3);
  double warmup = opt_real(b->cli, OPT_bench_warmup, 0.5);
  int64_t ns, start = platform->now();
  TRY(run_first(b));
  if (opt_given(b->cli, OPT_bench_resident))
    TRY(resident_make(&b->resident, &b->held, b->program, b->in.value, b->first, &b->cli->arena,
                      &b->cli->diag));
  do TRY(run_as_told(b, &ns));
  while (since(start) < warmup * 1e3);
  VEC(int64_t) all = {0};
  start = platform->now();
  do {
    TRY(run_as_told(b, &ns));
    vec_push(&b->cli->arena, &all, ns);
  } while (since(start) < seconds * 1e3 && all.n < MAX_RUNS);
  qsort(all.v, (size_t)all.n, sizeof *all.v, by_size);
  double sum = 0;
  for (int64_t i = 0; i < all.n; i++) sum += (double)all.v[i];
  b->nruns = all.n;
  b->min_ms = (double)all.v[0] / 1e6;
  b->median_ms = (double)(all.v[(all.n - 1) / 2] + all.v[all.n / 2]) / 2e6;
  b->p99_ms = (double)all.v[MIN(all.n - 1, all.n * 99 / 100)] / 1e6;
  b->mean_ms = sum / (double)all.n / 1e6;
  return TENON_OK;
}

// By the device's clock: rows of runs of some milliseconds each, and the median of them.
static tenon_status measure_device(Bench *b) {
  double seconds = opt_real(b->cli, OPT_bench_seconds, 3), ns;
  int64_t n = MAX(1, MIN(MAX_ROW, (int64_t)(10 / MAX(b->median_ms, 1e-6))));
  Diag *d = &b->cli->diag;
  VEC(int64_t) all = {0};
  TRY(resident_time(&b->resident, b->session, b->in.seed, n, d, &ns));
  int64_t start = platform->now();
  do {
    TRY(resident_time(&b->resident, b->session, b->in.seed, n, d, &ns));
    vec_push(&b->cli->arena, &all, (int64_t)(ns * 1e3));
  } while (since(start) < seconds * 1e3 && all.n < MAX_ROWS);
  qsort(all.v, (size_t)all.n, sizeof *all.v, by_size);
  b->device_runs = n * all.n;
  b->device_min_ms = (double)all.v[0] / 1e9;
  b->device_median_ms = (double)(all.v[(all.n - 1) / 2] + all.v[all.n / 2]) / 2e9;
  return resident_compare(&b->resident, b->program, b->first, &b->cli->arena, d);
}

static tenon_status profile(Bench *b) {
  SessionOptions so = {.threads = (int)opt_int(b->cli, OPT_bench_threads, 0), .profile = true};
  double seconds = opt_real(b->cli, OPT_bench_seconds, 3);
  int64_t ns, start = platform->now();
  TRY(session_create(b->program, &so, &b->cli->diag, &b->profiled));
  TRY(run_once(b, b->profiled, &ns));
  session_reset_times(b->profiled);
  do {
    b->begin_trace = platform->now();
    TRY(run_once(b, b->profiled, &ns));
    b->nprofiled++;
  } while (since(start) < seconds * 1e3 / 2 && b->nprofiled < 1000);
  return TENON_OK;
}

// A kernel that does more than the machine was thought to: that was measured while others worked,
// so it is done again.
static tenon_status make_profile(Bench *b) {
  bool by_loss = opt_given(b->cli, OPT_bench_by_loss);
  Arena *a = &b->cli->arena;
  Peak *host = &b->peaks.host;
  profile_make(b->profiled, &b->peaks, by_loss, a, &b->profile);
  if (host->fresh || !profile_beats(&b->profile, host)) return TENON_OK;
  TRY(peak_renew(host->threads, a, &b->cli->diag, host, NULL));
  profile_make(b->profiled, &b->peaks, by_loss, a, &b->profile);
  return TENON_OK;
}

static tenon_status run_metered(void *ctx) {
  int64_t ns;
  return run_as_told(ctx, &ns);
}

// ---- the trace: the last profiled run, as Perfetto and Chrome read it ----

// What runs concurrently is shown one below the other.
static void trace_event(JsonWriter *w, const ProgStep *st, int32_t track, int64_t begin,
                        int64_t ns) {
  const char *kind = profile_kind(st);
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, st->node && *st->node ? st->node : st->op ? st->op : kind);
  json_key(w, "cat");
  json_cstr(w, kind);
  json_key(w, "ph");
  json_cstr(w, "X");
  json_key(w, "ts");
  json_f64(w, (double)begin / 1e3);
  json_key(w, "dur");
  json_f64(w, (double)ns / 1e3);
  json_key(w, "pid");
  json_i64(w, 1);
  json_key(w, "tid");
  json_i64(w, 1 + track);
  json_key(w, "args");
  json_begin_object(w);
  json_key(w, "node");
  json_cstr(w, st->node);
  json_key(w, "what");
  json_cstr(w, st->op);
  json_end_object(w);
  json_end_object(w);
}

static tenon_status write_trace(Bench *b, const char *path) {
  const ProgFunction *f = b->program->function[0];
  const StepTime *times = session_times(b->profiled, 0);
  StrBuf text;
  JsonWriter w;
  strbuf_init(&text, &b->cli->arena);
  json_init(&w, &text, false);
  json_begin_object(&w);
  json_key(&w, "otherData");
  json_begin_object(&w);
  json_key(&w, "generator");
  json_cstr(&w, FILE_MARK " " TENON_VERSION);
  json_end_object(&w);
  json_key(&w, "displayTimeUnit");
  json_cstr(&w, "ns");
  json_key(&w, "traceEvents");
  json_begin_array(&w);
  for (int32_t i = 0; i < f->nsteps; i += 1 + f->step[i].more)
    for (int32_t k = 0; k <= f->step[i].more; k++)
      trace_event(&w, &f->step[i + k], k, times[i + k].last_begin - b->begin_trace,
                  times[i + k].last_ns);
  json_end_array(&w);
  json_end_object(&w);
  strbuf_putc(&text, '\n');
  return file_write(path, text.p, text.n, &b->cli->diag);
}

// ---- the report ----

static double peak_share(const Bench *b) {
  return profile_compute_seconds(b->program, &b->peaks) / (b->median_ms / 1e3);
}

static double gflops(const Bench *b) { return b->flops / b->median_ms / 1e6; }

static int64_t peak_rss(void) {
  struct rusage u;
  return getrusage(RUSAGE_SELF, &u) ? 0 : (int64_t)u.ru_maxrss * 1024;
}

static const char *target_name(const Bench *b) {
  return !b->model->program ? b->target->name : b->program->target ? b->program->target : "host";
}

// What the time is held to: the device's peak, or the processor's.
static const Peak *peak_of(const Bench *b) {
  return b->peaks.device.device ? &b->peaks.device : &b->peaks.host;
}

static void print_peak(Bench *b) {
  const Peak *p = peak_of(b);
  NumText x, y;
  printf("%s FLOPs a run, %.1f GFLOP/s, ", text_si(&x, b->flops), gflops(b));
  if (p->device) {
    say(b->cli, "%.1f%% of the peak of %s (f32 %.0f, tf32 %.0f, bf16 %.0f, i8 %.0f TFLOP/s, ",
        100 * peak_share(b), p->device, p->ops[OPS_F32] / 1e12, p->ops[OPS_TF32] / 1e12,
        p->ops[OPS_BF16] / 1e12, p->ops[OPS_I8] / 1e12);
    printf("%s/s; a launch %.1f us)\n", text_bytes(&y, (int64_t)p->read[LEVEL_MEMORY]),
           p->launch_ms * 1e3);
    return;
  }
  printf("%.1f%% of what this machine was measured to do (f32 %.0f", 100 * peak_share(b),
         p->ops[OPS_F32] / 1e9);
  if (p->ops[OPS_BF16] > p->ops[OPS_F32]) printf(", bf16 %.0f", p->ops[OPS_BF16] / 1e9);
  if (p->ops[OPS_I8] > p->ops[OPS_F32]) printf(", i8 %.0f", p->ops[OPS_I8] / 1e9);
  printf(" GFLOP/s, on %s)\n", text_day(&x, p->when));
}

static void print_text(Bench *b) {
  NumText x, y;
  // Of a compiled model the machine, without the features that its code needs.
  int machine = (int)strcspn(target_name(b), " ");
  say(b->cli, "%s on %.*s, %d thread%s: read %.1f ms, compile %.1f ms\n", b->cli->pos[0], machine,
      target_name(b), session_threads(b->session), session_threads(b->session) == 1 ? "" : "s",
      b->load_ms, b->compile_ms);
  printf("median %.4f ms  min %.4f  p99 %.4f  mean %.4f  (%lld runs)\n", b->median_ms, b->min_ms,
         b->p99_ms, b->mean_ms, (long long)b->nruns);
  if (b->resident.driver)
    printf("on the device, back to back: median %.4f ms  min %.4f  (%lld runs)\n",
           b->device_median_ms, b->device_min_ms, (long long)b->device_runs);
  print_peak(b);
  if (b->energy.meter)
    printf("energy %.4g J a run: %.1f W, of which %.1f W at rest are taken off (%s, %lld runs)\n",
           b->energy.joules, b->energy.watts, b->energy.idle_watts, b->energy.meter,
           (long long)b->energy.runs);
  printf("arena %s, resident memory at the peak %s\n",
         text_bytes(&x, session_arena_bytes(b->session)), text_bytes(&y, peak_rss()));
  if (b->profiled && opt_given(b->cli, OPT_bench_profile)) profile_print(b->cli, &b->profile);
}

static void json_energy(JsonWriter *w, const Energy *e) {
  json_key(w, "energy");
  json_begin_object(w);
  json_key(w, "meter");
  json_cstr(w, e->meter);
  json_key_f64(w, "joules", e->joules);
  json_key_f64(w, "watts", e->watts);
  json_key_f64(w, "idle_watts", e->idle_watts);
  json_key(w, "runs");
  json_i64(w, e->runs);
  json_end_object(w);
}

static void print_json(Bench *b) {
  StrBuf text;
  JsonWriter w;
  strbuf_init(&text, &b->cli->arena);
  json_init(&w, &text, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, b->cli->pos[0]);
  json_key(&w, "target");
  json_cstr(&w, target_name(b));
  json_key(&w, "threads");
  json_i64(&w, session_threads(b->session));
  json_key(&w, "runs");
  json_i64(&w, b->nruns);
  json_key_f64(&w, "median_ms", b->median_ms);
  json_key_f64(&w, "min_ms", b->min_ms);
  json_key_f64(&w, "p99_ms", b->p99_ms);
  json_key_f64(&w, "mean_ms", b->mean_ms);
  if (b->resident.driver) {
    json_key_f64(&w, "device_median_ms", b->device_median_ms);
    json_key_f64(&w, "device_min_ms", b->device_min_ms);
    json_key(&w, "device_runs");
    json_i64(&w, b->device_runs);
  }
  if (b->energy.meter) json_energy(&w, &b->energy);
  json_key_f64(&w, "load_ms", b->load_ms);
  json_key_f64(&w, "compile_ms", b->compile_ms);
  json_key_f64(&w, "flops", b->flops);
  json_key_f64(&w, "gflops", gflops(b));
  json_key_f64(&w, "peak_gflops", peak_of(b)->ops[OPS_F32] / 1e9);
  json_key_f64(&w, "peak_share", peak_share(b));
  json_key_f64(&w, "peak_bandwidth", peak_of(b)->read[LEVEL_MEMORY]);
  json_key(&w, "arena_bytes");
  json_i64(&w, session_arena_bytes(b->session));
  json_key(&w, "peak_rss_bytes");
  json_i64(&w, peak_rss());
  if (b->profiled && opt_given(b->cli, OPT_bench_profile)) profile_json(&w, &b->profile);
  json_end_object(&w);
  cli_print(&text);
}

// ---- the command ----

// --batch N: the first size of every input where it is dynamic.
static int set_batch(Bench *b) {
  const Body *body = b->model->graph->main;
  int64_t batch = opt_int(b->cli, OPT_bench_batch, 0), found = 0;
  for (int64_t i = 0; batch && i < body->nparams; i++) {
    const Type *t = type_of(body->param[i]);
    if (t->kind != TK_TENSOR || t->rank < 1 || t->dims[0]->kind != IE_SYM) continue;
    b->in.dims.value[t->dims[0]->slot] = batch;
    b->in.dims.known[t->dims[0]->slot] = true;
    found++;
  }
  if (batch && !found)
    return cli_usage(b->cli, "bench: the first size of every input is fixed: --batch has no use");
  return CLI_OK;
}

static tenon_status compile(Bench *b) {
  Cli *c = b->cli;
  if (b->model->program) {
    b->program = program_retain(b->model->program);
    return TENON_OK;
  }
  CompileOptions o;
  CompileReport made = {0};
  int64_t start = platform->now();
  TRY(opt_compile(c, &o));
  o.target = b->target;
  o.sizes = &b->in.dims;
  Progress bar;
  Watch watch = progress_watch(&bar);
  o.watch = &watch;
  tenon_status s = compile_program(b->model->graph, &o, b->model->path, &c->arena, &c->diag, &made);
  progress_end(&bar);
  TRY(s);
  b->program = made.program;
  b->compile_ms = since(start);
  program_wait_kept(b->program);  // so that nothing else runs while it is measured
  warn_declined(c, &made);
  return TENON_OK;
}

static tenon_status execute(Bench *b) {
  Cli *c = b->cli;
  int threads = (int)opt_int(c, OPT_bench_threads, 0);
  TRY(model_need_supported(b->model, &c->diag));
  run_init(&b->held, NULL, &c->diag);
  b->held_open = true;
  b->held.seed = b->in.seed;
  b->held.max_bytes = machine_memory();
  TRY(inputs_read(&b->in, c, &b->held, opt_text(c, OPT_bench_inputs, NULL),
                  &c->opt[OPT_bench_input]));
  TRY(compile(b));
  const ProgFunction *f = b->program->function[0];
  for (int32_t i = 0; i < f->nsteps; i++) b->flops += f->step[i].flops;
  TRY(session_create(b->program, &(SessionOptions){.threads = threads}, &c->diag, &b->session));
  TRY(peak_get(session_threads(b->session), &c->diag, &b->peaks.host));
  TRY(peak_of_device(b->program, &c->arena, &c->diag, &b->peaks.device));
  TRY(measure(b));
  if (b->resident.driver) TRY(measure_device(b));
  if (opt_given(c, OPT_bench_energy)) {
    bool gpu = b->target && b->target->driver && !b->target->with;
    TRY(energy_measure(run_metered, b, gpu, &c->diag, &b->energy));
  }
  const char *trace = opt_text(c, OPT_bench_trace, NULL);
  if (trace || opt_given(c, OPT_bench_profile)) {
    TRY(profile(b));
    TRY(make_profile(b));
  }
  return trace ? write_trace(b, trace) : TENON_OK;
}

static void close_bench(Bench *b) {
  session_free(b->session);
  resident_free(&b->resident);
  if (b->held_open) run_deinit(&b->held);
  session_free(b->profiled);
  program_release(b->program);
  for (int64_t i = 0; i < b->files.n; i++) file_close(&b->files.v[i]);
  model_free(b->model);
}

int cmd_bench(Cli *c) {
  if (opt_given(c, OPT_bench_report)) return bench_report(c);
  if (c->npos > 1 || opt_given(c, OPT_bench_sweep))
    return cli_usage(c, "bench: %s --report F.html",
                     c->npos > 1 ? "several models need" : "--sweep needs");
  const char *name = opt_text(c, OPT_bench_target, "auto");
  // In the arena, since a trap may pass over this frame.
  Bench *b = arena_new(&c->arena, Bench);
  b->cli = c;
  b->target = strcmp(name, "auto") ? target_find(name) : target_auto();
  if (!b->target)
    return cli_usage(c, "bench: unknown target '%s'%s", name, target_hint(name, &c->arena));
  int64_t start = platform->now();
  ModelOptions o = {.target = opt_text(c, OPT_bench_target, NULL)};
  int rc = fixed_read(c, &c->opt[OPT_bench_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_bench_type], &c->opt[OPT_bench_weights], &o);
  if (!rc)
    rc = cli_exit_of(open_with_overrides(c, c->pos[0], &c->opt[OPT_bench_input],
                                         opt_text(c, OPT_bench_inputs, NULL), o, &b->model));
  if (rc) return rc;
  b->load_ms = since(start);
  if (b->model->program && (opt_given(c, OPT_bench_level) || opt_given(c, OPT_bench_no_cache) ||
                            opt_given(c, OPT_bench_device) || opt_given(c, OPT_bench_place) ||
                            opt_given(c, OPT_bench_schedule) || opt_given(c, OPT_bench_tuned))) {
    model_free(b->model);
    return cli_usage(
        c,
        "bench: %s is compiled already: -O, --no-cache, --device, --place, --schedule and --tuned "
        "are for a model",
        c->pos[0]);
  }
  b->in = (Inputs){.graph = b->model->graph,
                   .program = b->model->program,
                   .arena = &c->arena,
                   .files = &b->files,
                   .seed = (uint64_t)opt_int(c, OPT_bench_seed, 0)};
  rc = dims_read(c, b->model->graph, &c->opt[OPT_bench_dim], &b->in.dims);
  if (!rc) rc = set_batch(b);
  if (!rc) rc = cli_exit_of(execute(b));
  if (rc && b->in.misused) rc = CLI_USAGE;
  if (!rc && opt_given(c, OPT_bench_json))
    print_json(b);
  else if (!rc)
    print_text(b);
  close_bench(b);
  return rc;
}
