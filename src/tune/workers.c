// workers.c -- the tuner's side of workers (workers.h).
//
// Needs:      commands whose standard input and output are a worker's.
// Guarantees: nothing of an answer is believed before its frame, its number, its lengths and its
//             hashes were looked at.  A schedule is TRIAL_OK only where its results have the
//             default's bits; one that is confirmed was run here as well.
#include "tune/workers.h"

#include "base/crc.h"
#include "base/platform.h"
#include "base/process.h"
#include "lower/tuned.h"
#include "targets/cpu.h"
#include "tune/remote.h"
#include "tune/timing.h"

#include <errno.h>
#include <stdlib.h>

enum { STRIKES = 3, SHARE = 20, PROFILE_ROUNDS = 5 };
// How far the times of two copies of one kernel may differ by the median of their runs.
static const double alike = 1.5, unlike = 3;

typedef struct Worker {
  const char *command;
  Process process;
  bool there;
  int strikes;
  // of the task that it is at
  FrameTask task;
  bool unable;                           // it cannot run the default
  int64_t share[FRAME_KERNELS], nshare;  // schedules, by number
  int64_t sent, deadline;
} Worker;

struct Workers {
  Arena *a;
  int threads;
  double patience;
  Worker v[WORKERS_MOST];
  int64_t n, seq;
  Machine machine, host;
  const char *why[WORKERS_MOST];  // of those that were dropped
  int64_t nwhy;
  StrMap expected;  // task -> hash of the default's results, as computed here
};

int64_t workers_left(const Workers *w) {
  int64_t n = 0;
  for (int64_t i = 0; i < w->n; i++) n += w->v[i].there;
  return n;
}

const Machine *workers_machine(const Workers *w) { return &w->machine; }

const char *workers_dropped(const Workers *w, int64_t i) { return i < w->nwhy ? w->why[i] : NULL; }

static void drop(Workers *w, Worker *x, const char *why) {
  if (!x->there) return;
  x->there = false;
  process_end(&x->process, true);
  w->why[w->nwhy++] = str_printf(w->a, "%s: %s", x->command, why);
}

// ---- frames ----

static const char *why_lost(int err) {
  return err == EPIPE       ? "it has ended"
         : err == ETIMEDOUT ? "it did not answer in time"
                            : error_text(err).s;
}

static bool send(Workers *w, Worker *x, int kind, Str object, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  frame_seal(kind, object, &b);
  int err = process_write(&x->process, b.p, b.n, x->deadline);
  if (err) drop(w, x, why_lost(err));
  return !err;
}

static bool receive(Workers *w, Worker *x, int kind, Arena *a, Str *out) {
  uint8_t head[FRAME_HEADER];
  int got;
  int64_t n;
  uint32_t crc;
  int err = process_read(&x->process, head, sizeof head, x->deadline);
  if (!err && (!frame_header(head, &got, &n, &crc) || got != kind)) {
    drop(w, x, "what it sends is no frame of a worker");
    return false;
  }
  char *object = err ? NULL : arena_alloc(a, n + 1);
  if (!err) err = process_read(&x->process, object, n, x->deadline);
  if (!err && crc32c(0, object, n) != crc) {
    drop(w, x, "it sent a damaged frame");
    return false;
  }
  if (err) drop(w, x, why_lost(err));
  *out = (Str){object, n};
  return !err;
}

static int64_t in_seconds(double s) { return platform->now() + (int64_t)(s * 1e9); }

// ---- the beginning ----

static const char *machine_of(const Machine *m, Arena *a) {
  LowerTarget t;
  cpu_describe(m, &t);
  return str_printf(a, "%d %s", (int)m->arch, tuned_machine(&t, a));
}

static void greet(Workers *w, Worker *x, bool *first) {
  FrameHello h;
  Str object;
  Diag d;
  diag_init(&d);
  if (!receive(w, x, FRAME_HELLO, w->a, &object)) return;
  if (frame_get_hello(object, w->a, &d, &h)) {
    drop(w, x, str_copy(w->a, str_of(d.text)));
  } else if (strcmp(h.tool, TENON_VERSION)) {
    drop(w, x, str_printf(w->a, "it is of version %s, and this one is " TENON_VERSION, h.tool));
  } else if (*first) {
    w->machine = h.machine;
    *first = false;
  } else if (strcmp(machine_of(&w->machine, w->a), machine_of(&h.machine, w->a))) {
    drop(w, x, "its machine is of another kind than the first worker's");
  }
}

static void start(Workers *w, Worker *x) {
  const char *argv[] = {"sh", "-c", x->command, NULL};
  int err = process_start("/bin/sh", argv, &x->process);
  x->there = !err;
  x->deadline = in_seconds(w->patience);
  if (err) w->why[w->nwhy++] = str_printf(w->a, "%s: %s", x->command, error_text(err).s);
}

static tenon_status none_left(const Workers *w, Diag *d) {
  fail(d, TENON_EIO, NOWHERE, "tune: no worker is left");
  for (int64_t i = 0; i < w->nwhy; i++) diag_note(d, "%s", w->why[i]);
  return TENON_EIO;
}

tenon_status workers_open(const WorkersOptions *o, Arena *a, Diag *d, Workers **out) {
  *out = NULL;
  if (o->n > WORKERS_MOST)
    return fail(d, TENON_EINVAL, NOWHERE, "tune: %lld workers, and %d are possible",
                (long long)o->n, WORKERS_MOST);
  Workers *w = *out = arena_new(a, Workers);
  *w = (Workers){.a = a, .threads = o->threads, .patience = o->patience, .n = o->n};
  strmap_init(&w->expected, a);
  machine_host(&w->host);
  for (int64_t i = 0; i < w->n; i++) {
    w->v[i].command = str_copy(a, str_of(o->command[i]));
    start(w, &w->v[i]);
  }
  bool first = true;
  for (int64_t i = 0; i < w->n; i++)
    if (w->v[i].there) greet(w, &w->v[i], &first);
  return workers_left(w) ? TENON_OK : none_left(w, d);
}

void workers_close(Workers *w) {
  for (int64_t i = 0; w && i < w->n; i++)
    if (w->v[i].there) process_end(&w->v[i].process, true);
  if (w) w->n = 0;
}

// ---- bits ----

// What the results of a kernel hash to here; "": it cannot be built or run here.
static tenon_status compute_hash(Workers *w, const FrameTask *t, int64_t kernel, Arena *a,
                                 const char **out) {
  FrameTask one = *t;
  FrameTimes times;
  Diag d;
  diag_init(&d);
  one.kernel = &t->kernel[kernel];
  one.nkernels = 1;
  one.rounds = 0;
  one.quick = true;
  *out = "";
  tenon_status status = timing_run(&one, &w->host, w->threads, a, &d, &times);
  if (status == TENON_ENOMEM || status == TENON_ECANCELLED) return status;
  if (!status) *out = times.time[0].hash;
  return TENON_OK;
}

static tenon_status expect(Workers *w, const TuneTask *t, const FrameTask *f, Arena *a,
                           const char **out) {
  *out = strmap_get(&w->expected, str_of(t->key));
  if (*out) return TENON_OK;
  TRY(compute_hash(w, f, 0, a, out));
  *out = str_copy(w->a, str_of(*out));
  strmap_put(&w->expected, str_of(str_copy(w->a, str_of(t->key))), (void *)(uintptr_t)*out);
  return TENON_OK;
}

// ---- one round ----

typedef struct Round {
  Workers *w;
  TuneModel *m;
  const TuneTask *task;
  const WorkersRace *race;
  bool profile;  // a copy of the default alone is timed
  Stage stage;
  FrameTask all;  // kernel k is schedule of[k] - 1
  const int64_t *of;
  const char *expected;  // hash of the default's results; "": not known
  const char *unable;    // why a worker cannot run the default; NULL: all can so far
  Trial *out;            // by schedule
  bool *done;            // by kernel
} Round;

static Trial *trial_at(const Round *r, int64_t kernel) {
  return &r->out[r->profile ? 0 : r->of[kernel] - 1];
}

// A frame with the default, a copy of it where it races, and part of the kernels.
static bool send_share(Round *r, Worker *x, Arena *a) {
  Workers *w = r->w;
  StrBuf b;
  FrameTask *t = &x->task;
  bool races = r->race->phase == TRIAL_RACE, copy = races && !r->profile;
  *t = r->all;
  t->seq = ++w->seq;
  t->quick = t->drop = races;
  t->rounds = r->race->rounds;
  t->milliseconds = (int64_t)(r->race->seconds * 1e3);
  t->kernel = arena_array(a, FrameKernel, FRAME_KERNELS);
  t->nkernels = 0;
  t->kernel[t->nkernels++] = r->all.kernel[0];
  for (int64_t i = 0; i < x->nshare; i++) t->kernel[t->nkernels++] = r->all.kernel[x->share[i]];
  if (copy) t->kernel[t->nkernels++] = r->all.kernel[0];
  strbuf_init(&b, a);
  frame_put_task(t, &b);
  x->sent = platform->now();
  x->deadline = in_seconds(w->patience + r->race->seconds);
  if (b.n > frame_most(FRAME_TASK)) return false;
  return send(w, x, FRAME_TASK, strbuf_str(&b), a);
}

// Times that cannot be: more of them than asked for, or more time than has passed.
static const char *implausible(const Worker *x, const FrameTimes *t, int64_t seconds_ns) {
  double sum = 0;
  if (t->seq != x->task.seq) return "it answered another task";
  if (t->n != x->task.nkernels) return "it answered for another number of kernels";
  for (int64_t i = 0; i < t->n; i++) {
    const FrameTime *k = &t->time[i];
    if (k->n > x->task.rounds || k->n > t->time[0].n)
      return "it sent more times than were asked for";
    if (x->task.rounds && k->status == TRIAL_OK && !k->n) return "it sent no times";
    for (int s = 0; s < k->n; s++) sum += (double)k->ns[s];
  }
  return sum > 1.1 * (double)seconds_ns + 1e6 ? "it says that its runs took longer than it did"
                                              : NULL;
}

static Trial trial_of(const Round *r, const FrameTimes *t, int64_t kernel, const char *schedule) {
  const FrameTime *k = &t->time[kernel];
  Trial x = {.phase = (uint8_t)r->race->phase,
             .status = k->status,
             .key = r->task->key,
             .schedule = schedule,
             .dflt = r->task->dflt,
             .code_bytes = k->code_bytes,
             .n = k->n};
  memcpy(x.ns, k->ns, (size_t)x.n * sizeof *x.ns);
  memcpy(x.anchor_ns, t->time[0].ns, (size_t)x.n * sizeof *x.ns);
  return x;
}

// A copy of the default takes what the default takes; now and then it may not.
static const char *look_at_copy(const Round *r, Worker *x, const FrameTimes *t) {
  if (r->race->phase != TRIAL_RACE || r->profile || t->time[t->n - 1].status == TRIAL_FAILED)
    return NULL;
  Trial copy = trial_of(r, t, t->n - 1, r->task->dflt);
  double gain = trial_gain(&copy);
  if (gain > 0 && (gain > alike || gain * alike < 1)) x->strikes++;
  if (gain > 0 && (gain > unlike || gain * unlike < 1)) x->strikes = STRIKES;
  return x->strikes < STRIKES ? NULL
                              : "its times of two copies of one kernel differ by more than half";
}

// Whether a hash is what it should be; where it is not, who is wrong.
static tenon_status look_at_hash(Round *r, const Worker *x, const FrameTimes *t, int64_t kernel,
                                 Arena *a, bool *other, const char **lie) {
  const char *said = t->time[kernel].hash, *here;
  bool confirmed = r->race->phase == TRIAL_CONFIRM;
  *other = *said && *r->expected && strcmp(said, r->expected) != 0;
  if (r->m->reorder || !*said || (!*other && !confirmed)) {
    *other = *other && !r->m->reorder;
    return TENON_OK;
  }
  TRY(compute_hash(r->w, &x->task, kernel, a, &here));
  if (*here && strcmp(here, said)) *lie = "results have other bits than it says";
  return TENON_OK;
}

static tenon_status look_at_hashes(Round *r, Worker *x, const FrameTimes *t, Arena *a,
                                   const char **lie) {
  bool other;
  const char *first = t->time[0].hash;
  if (!*r->expected && *first) {  // it cannot be computed here: the first word counts
    r->expected = str_copy(r->w->a, str_of(first));
    strmap_put(&r->w->expected, str_of(r->task->key), (void *)(uintptr_t)r->expected);
  }
  if (*first && strcmp(first, r->expected)) *lie = "results have other bits than it says";
  for (int64_t i = 0; !*lie && i < x->nshare; i++) {
    TRY(look_at_hash(r, x, t, i + 1, a, &other, lie));
    Trial *out = trial_at(r, x->share[i]);
    *out = trial_of(r, t, i + 1, out->schedule);
    if (other) out->status = TRIAL_WRONG;
  }
  return TENON_OK;
}

static tenon_status take_answer(Round *r, Worker *x, Arena *a) {
  FrameTimes t;
  Str object;
  Diag d;
  const char *lie = NULL;
  diag_init(&d);
  if (!receive(r->w, x, FRAME_TIMES, a, &object)) return TENON_OK;
  int64_t took = platform->now() - x->sent;
  tenon_status status = frame_get_times(object, a, &d, &t);
  if (status) {
    drop(r->w, x, str_copy(r->w->a, str_of(d.text)));
    return status == TENON_ENOMEM ? status : TENON_OK;
  }
  lie = implausible(x, &t, took);
  if (!lie) lie = look_at_copy(r, x, &t);
  if (!lie && t.time[0].status == TRIAL_FAILED) {
    x->unable = true;
    r->unable = str_copy(a, str_of(t.time[0].why));
    return TENON_OK;
  }
  if (!lie) TRY(look_at_hashes(r, x, &t, a, &lie));
  if (lie) {
    drop(r->w, x, lie);
    return TENON_OK;
  }
  for (int64_t i = 0; i < x->nshare; i++) r->done[x->share[i]] = true;
  return TENON_OK;
}

static bool is_able(const Worker *x) { return x->there && !x->unable; }

// What is not done yet, evenly to all that can run the task.
static int64_t share_out(Round *r) {
  int64_t left = 0, there = 0, at = 0;
  for (int64_t i = 0; i < r->w->n; i++) there += is_able(&r->w->v[i]);
  for (int64_t i = 0; i < r->w->n; i++) r->w->v[i].nshare = 0;
  for (int64_t k = !r->profile; k < r->all.nkernels; k++) left += !r->done[k];
  int64_t each = there ? MIN((left + there - 1) / there, SHARE) : 0;
  for (int64_t k = !r->profile; each && k < r->all.nkernels; k++) {
    if (r->done[k]) continue;
    while (at < r->w->n && (!is_able(&r->w->v[at]) || r->w->v[at].nshare == each)) at++;
    if (at == r->w->n) break;
    r->w->v[at].share[r->w->v[at].nshare++] = k;
  }
  return left;
}

static tenon_status measure_all(Round *r, Arena *a) {
  while (share_out(r)) {
    bool sent = false;
    if (!workers_left(r->w)) return none_left(r->w, r->m->diag);
    for (int64_t i = 0; i < r->w->n; i++) {
      Worker *x = &r->w->v[i];
      if (!x->nshare) continue;
      if (!send_share(r, x, a)) x->nshare = 0;
      sent |= x->nshare > 0 || !x->there;
    }
    if (!sent && r->unable)
      return fail(r->m->diag, TENON_EUNSUPPORTED, NOWHERE, "no worker can run the default: %s",
                  r->unable);
    if (!sent) return fail(r->m->diag, TENON_EUNSUPPORTED, NOWHERE, "a task too large for a frame");
    for (int64_t i = 0; i < r->w->n; i++)
      if (r->w->v[i].there && r->w->v[i].nshare) TRY(take_answer(r, &r->w->v[i], a));
  }
  return TENON_OK;
}

static tenon_status begin_round(Round *r, const char *const *schedule, int64_t n, Arena *a) {
  Building b;
  TRY(stage_lower(&r->stage, r->m, r->task, schedule, r->profile ? 0 : n, &b));
  TRY(remote_task(&r->stage, &b, &r->all));
  TRY(expect(r->w, r->task, &r->all, a, &r->expected));
  for (int64_t i = 0; i < r->w->n; i++) r->w->v[i].unable = false;
  r->of = b.of;
  r->done = arena_array(a, bool, b.n + 1);
  for (int64_t i = 0; i < n; i++)
    r->out[i] = (Trial){.phase = (uint8_t)r->race->phase,
                        .status = TRIAL_FAILED,
                        .key = r->task->key,
                        .schedule = schedule[i],
                        .dflt = r->task->dflt};
  return TENON_OK;
}

static tenon_status measure(Round *r, const char *const *schedule, int64_t n) {
  Arena a;
  arena_init_scoped(&a);
  tenon_status status = begin_round(r, schedule, n, &a);
  if (!status) status = measure_all(r, &a);
  stage_close(&r->stage);
  arena_deinit(&a);
  return status;
}

tenon_status workers_measure(Workers *w, TuneModel *m, const TuneTask *t,
                             const char *const *schedule, int64_t n, const WorkersRace *race,
                             Trial *out) {
  Round r = {.w = w, .m = m, .task = t, .race = race, .out = out};
  return measure(&r, schedule, n);
}

static int by_value(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

tenon_status workers_time(Workers *w, TuneModel *m, const TuneTask *t, double *out_ns) {
  WorkersRace race = {.phase = TRIAL_RACE, .rounds = PROFILE_ROUNDS, .seconds = 1};
  Trial trial;
  Round r = {.w = w, .m = m, .task = t, .race = &race, .profile = true, .out = &trial};
  *out_ns = 0;
  TRY(measure(&r, &t->dflt, 1));
  if (!trial.n) return TENON_OK;
  qsort(trial.anchor_ns, (size_t)trial.n, sizeof *trial.anchor_ns, by_value);
  *out_ns = (double)trial.anchor_ns[trial.n / 2];
  return TENON_OK;
}
