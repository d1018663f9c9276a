// graph_queue.c -- requests of a model: waiting, sent to an engine together, cut apart again.
#include "serve/kserve/graph_impl.h"

enum {
  TOGETHER = 1024,       // requests of a batch
  AHEAD = 64,            // jobs that an engine may have waiting
  AHEAD_NS = 1000000,    // ... and how long they may take
  EXPIRE_NS = 50000000,  // how often deadlines are looked at
};

// ---- the queue ----
static void link_last(GraphModel *g, Infer *r) {
  r->next = NULL;
  r->prev = g->last;
  *(g->last ? &g->last->next : &g->first) = r;
  g->last = r;
  g->waiting++;
  r->watched = r->deadline || !r->checked;
  g->nwatched += r->watched;
}

static void link_first(GraphModel *g, Infer *r) {
  r->prev = NULL;
  r->next = g->first;
  *(g->first ? &g->first->prev : &g->last) = r;
  g->first = r;
  g->waiting++;
  g->nwatched += r->watched;
}

static void take_out(GraphModel *g, Infer *r) {
  *(r->prev ? &r->prev->next : &g->first) = r->next;
  *(r->next ? &r->next->prev : &g->last) = r->prev;
  r->prev = r->next = NULL;
  g->waiting--;
  g->nwatched -= r->watched;
}

static void finish(GraphModel *g, Infer *r, const InferResult *result) {
  int64_t took = platform->now() - r->came;
  if (result->status == 200) {
    g->stats.inferences += (uint64_t)MAX(r->rows, 1);
    g->stats.request_ns += took;
  } else {
    g->stats.failed++;
    g->stats.failed_ns += took;
  }
  r->done(r, result);
}

static void refuse(GraphModel *g, Infer *r, int status, const char *why) {
  finish(g, r, &(InferResult){.status = status, .why = why});
}

void graph_fail_waiting(GraphModel *g, int status, const char *why) {
  while (g->first) {
    Infer *r = g->first;
    take_out(g, r);
    refuse(g, r, status, why);
  }
}

void graph_wake(GraphModel *g) { event_timer(&g->model->serve->loop, &g->tick, 1); }

// ---- submitting ----
static int state_refuses(const Model *m, Diag *d) {
  const GraphModel *g = graph_of(m);
  if (m->state == MODEL_FAILED) {
    (void)fail(d, TENON_EIO, NOWHERE, "the model '%s' cannot be loaded: %s", m->name, m->why);
    return 503;
  }
  if (m->off || g->closing) {
    (void)fail(d, TENON_EIO, NOWHERE, "the model '%s' is unloaded", m->name);
    return 503;
  }
  return 0;
}

int infer_submit(Infer *r, Diag *d) {
  Model *m = r->model;
  GraphModel *g = graph_get(m);
  int status = state_refuses(m, d);
  if (status) return status;
  if (g->waiting >= SERVE_WAITING) {
    (void)fail(d, TENON_EIO, NOWHERE, "%d requests wait for the model '%s'", SERVE_WAITING,
               m->name);
    return 429;
  }
  if (g->known && infer_check(r, &g->signature, d)) return 400;
  models_want(m);
  if (m->state == MODEL_FAILED) return state_refuses(m, d);
  r->came = platform->now();
  r->job = NULL;
  link_last(g, r);
  graph_wake(g);
  return 0;
}

void infer_cancel(Infer *r) {
  GraphModel *g = graph_of(r->model);
  g->stats.cancelled++;
  if (r->job)
    r->job->request[r->job_at] = NULL;
  else
    take_out(g, r);
  graph_idle(g);
}

// ---- sending ----
static void job_free(GraphJob *j) {
  mem_free(j, (int64_t)sizeof *j + j->n * (int64_t)(sizeof(Infer *) + sizeof(int64_t)));
}

static GraphJob *job_new(int64_t n) {
  GraphJob *j = mem_alloc((int64_t)sizeof *j + n * (int64_t)(sizeof(Infer *) + sizeof(int64_t)));
  if (!j) return NULL;
  j->n = n;
  j->request = (Infer **)(void *)(j + 1);
  j->row = (int64_t *)(void *)(j->request + n);
  return j;
}

// The packet of requests that run together: the first one's with all the rows.
static void describe(const GraphJob *j, Packet *p) {
  const Infer *first = j->request[0];
  p->nlist = first->nwanted;
  p->list = first->wanted_index;
  for (int64_t i = 0; i < p->n; i++) {
    const KsTensor *t = &first->input[i];
    PacketTensor *to = &p->tensor[i];
    *to = (PacketTensor){.index = i, .dtype = t->type->dtype, .rank = t->rank};
    for (int k = 0; k < t->rank; k++) to->shape[k] = t->shape[k];
    if (j->n > 1) to->shape[0] = j->rows;
    for (int64_t k = 0; k < j->n; k++) to->bytes += j->request[k]->input[i].data.n;
  }
}

// False: there is no memory for it, or the engine stays behind.
static bool send_job(GraphEngine *e, GraphJob *j) {
  GraphModel *g = e->g;
  Arena *a = j->request[0]->arena;
  Packet p = {.n = g->signature.ninputs,
              .tensor = arena_array(a, PacketTensor, g->signature.ninputs + 1)};
  char **data = arena_array(a, char *, p.n + 1);
  describe(j, &p);
  char *out = worker_reserve(e->worker, ENGINE_RUN, j->id, packet_bytes(&p));
  if (!out) return false;
  packet_write(out, &p, data);
  for (int64_t i = 0; i < p.n; i++)
    for (int64_t k = 0; k < j->n; k++) {
      Str bytes = j->request[k]->input[i].data;
      if (bytes.n) memcpy(data[i], bytes.p, (size_t)bytes.n);
      data[i] += bytes.n;
    }
  return true;
}

static void start_job(GraphEngine *e, GraphJob *j, int64_t now) {
  GraphModel *g = e->g;
  GraphJob **end = &e->jobs;
  while (*end) end = &(*end)->next;
  *end = j;
  e->njobs++;
  g->sent += j->n;
  j->began = now;
  for (int64_t i = 0; i < j->n; i++) {
    j->request[i]->sent = now;
    g->stats.queue_ns += now - j->request[i]->came;
  }
}

// The first `n` requests that fit to the oldest become a job of the engine.
static void form_job(GraphEngine *e, int64_t n, int64_t now) {
  GraphModel *g = e->g;
  Infer *oldest = g->first, *r = oldest, *next;
  GraphJob *j = job_new(n);
  if (!j) {
    take_out(g, oldest);
    refuse(g, oldest, 503, "out of memory");
    return;
  }
  j->id = ++g->next_job;
  for (int64_t k = 0; r && k < n; r = next) {
    next = r->next;
    if (r != oldest && !infer_together(oldest, r)) continue;
    take_out(g, r);
    r->job = j;
    r->job_at = k;
    j->request[k] = r;
    j->row[k++] = r->rows;
    j->rows += r->rows;
  }
  if (send_job(e, j)) {
    start_job(e, j, now);
    return;
  }
  for (int64_t k = 0; k < n; k++) refuse(g, j->request[k], 503, "the engine stays behind");
  job_free(j);
}

// Whether those that wait make a batch that no further request can join.
static bool full_batch(const GraphModel *g) {
  int64_t rows = 0, n = 0;
  for (const Infer *r = g->first; r && rows < g->options.batch.most && n < TOGETHER;
       r = r->next, n++)
    if (r == g->first || infer_together(g->first, r)) rows += r->rows;
  return rows >= g->options.batch.most;
}

// The engine that is free soonest; NULL: none is.  While an engine is at work its next job already
// lies in its pipe.  Of a model with rows that is a full batch alone: others may still grow.
static GraphEngine *free_engine(GraphModel *g) {
  GraphEngine *best = NULL;
  int64_t most = MIN(AHEAD, MAX(2, AHEAD_NS / MAX(g->run_ns, 1)));
  if (g->signature.rows) most = full_batch(g) ? 2 : 1;
  for (int64_t i = 0; i < g->nengines; i++) {
    GraphEngine *e = &g->engine[i];
    if (e->ready && e->njobs < most && (!best || e->njobs < best->njobs)) best = e;
  }
  return best;
}

// Requests that came before the model was loaded are looked at now; those that are late go.
static void sort_out(GraphModel *g, int64_t now) {
  for (Infer *r = g->nwatched ? g->first : NULL, *next; r; r = next) {
    Diag d;
    next = r->next;
    if (r->checked && (!r->deadline || r->deadline > now)) continue;
    diag_init(&d);
    if (r->deadline && r->deadline <= now) {
      take_out(g, r);
      refuse(g, r, 504, "the request's time is over");
    } else if (g->known && infer_check(r, &g->signature, &d)) {
      take_out(g, r);
      refuse(g, r, 400, d.text);
    }
  }
}

// How many of those that wait run together now; 0: none yet, *again is when to look.
static int64_t next_batch(const GraphModel *g, int64_t now, int64_t *again) {
  int64_t row[TOGETHER], n = 0, rows = 0;
  const Infer *oldest = g->first;
  BatchRules rules = g->options.batch;
  if (!g->signature.rows || !oldest->rows || oldest->alone) return 1;
  for (const Infer *r = oldest; r && n < TOGETHER && rows <= rules.most; r = r->next) {
    if (r != oldest && !infer_together(oldest, r)) continue;
    row[n++] = r->rows;
    rows += r->rows;
  }
  *again = oldest->came + rules.delay;
  return batch_take(&rules, row, n, now - oldest->came);
}

void graph_tick(void *arg) {
  GraphModel *g = arg;
  int64_t now = platform->now(), again = 0;
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    bool used[GRAPH_INSTANCES] = {false};
    sort_out(g, now);
    for (GraphEngine *e; g->first && (e = free_engine(g));) {
      int64_t n = next_batch(g, now, &again);
      if (!n) break;
      form_job(e, n, now);
      used[e - g->engine] = true;
      again = 0;
    }
    for (int64_t i = 0; i < g->nengines; i++)
      if (used[i] && g->engine[i].worker) worker_flush(g->engine[i].worker);
  }
  trap_leave(&t);
  if (t.status) graph_fail_waiting(g, 503, "out of memory");
  if (!again) again = now + EXPIRE_NS;
  if (g->first && !g->tick.at) event_timer(&g->model->serve->loop, &g->tick, again);
  graph_idle(g);
}

// ---- answers ----
static GraphJob *take_job(GraphEngine *e, uint64_t id) {
  for (GraphJob **at = &e->jobs; *at; at = &(*at)->next)
    if ((*at)->id == id) {
      GraphJob *j = *at;
      *at = j->next;
      e->njobs--;
      e->g->sent -= j->n;
      return j;
    }
  return NULL;
}

static void fail_job(GraphModel *g, GraphJob *j, int status, const char *why) {
  for (int64_t k = 0; k < j->n; k++)
    if (j->request[k]) refuse(g, j->request[k], status, why);
  job_free(j);
}

void graph_fail_jobs(GraphEngine *e, int status, const char *why) {
  while (e->jobs) fail_job(e->g, take_job(e, e->jobs->id), status, why);
}

// A batch failed: which request is to blame is seen when each runs alone.
static void part_job(GraphModel *g, GraphJob *j) {
  for (int64_t k = j->n; k-- > 0;) {
    Infer *r = j->request[k];
    if (!r) continue;
    r->alone = true;
    r->job = NULL;
    link_first(g, r);
  }
  job_free(j);
}

static tenon_status take_outputs(const GraphModel *g, const Packet *p, KsTensor *out, Diag *d) {
  for (int64_t i = 0; i < p->n; i++) {
    const PacketTensor *t = &p->tensor[i];
    KsTensor *to = &out[i];
    const KsType *type = ks_type(t->dtype);
    if (t->index >= g->signature.noutputs || !type)
      return fail(d, TENON_EINTERNAL, NOWHERE, "the engine's answer has an unknown output");
    *to = (KsTensor){.name = str_of(g->signature.output[t->index].name),
                     .type = type,
                     .rank = t->rank,
                     .data = {t->data, t->bytes}};
    for (int k = 0; k < t->rank; k++) to->shape[k] = t->shape[k];
    TRY(ks_count(to, d));
    TRY(ks_check_data(to, d));
  }
  return TENON_OK;
}

// The next `rows` rows of each output, behind at[i] bytes.
static void cut_rows(const KsTensor *all, int64_t n, int64_t rows, int64_t *at, KsTensor *out) {
  for (int64_t i = 0; i < n; i++) {
    KsTensor *t = &out[i];
    *t = all[i];
    t->count = all[i].shape[0] ? all[i].count / all[i].shape[0] * rows : 0;
    t->shape[0] = rows;
    t->data.p += at[i];
    t->data.n = t->type->bytes ? t->count * t->type->bytes
                               : ks_strings_bytes(t->data.p, all[i].data.n - at[i], t->count);
    at[i] += t->data.n;
  }
}

static tenon_status share_out(Arena *a, GraphModel *g, GraphJob *j, const Packet *p, Diag *d) {
  KsTensor *all = arena_array(a, KsTensor, p->n + 1), *part = arena_array(a, KsTensor, p->n + 1);
  int64_t *at = arena_array(a, int64_t, p->n + 1);
  TRY(take_outputs(g, p, all, d));
  for (int64_t i = 0; i < p->n && j->n > 1; i++)
    if (!all[i].rank || all[i].shape[0] != j->rows)
      return fail(d, TENON_EINTERNAL, NOWHERE, "output '%.*s' of %lld rows has others",
                  STR_ARG(all[i].name), (long long)j->rows);
  for (int64_t k = 0; k < j->n; k++) {
    if (j->n > 1) cut_rows(all, p->n, j->row[k], at, part);
    Infer *r = j->request[k];
    j->request[k] = NULL;
    if (r) finish(g, r, &(InferResult){200, NULL, p->n, j->n > 1 ? part : all});
  }
  return TENON_OK;
}

static void count_job(GraphModel *g, const GraphJob *j, int64_t ns) {
  int64_t rows = MIN(MAX(j->rows, 1), ARRAY_LEN(g->stats.batch_runs)) - 1;
  g->stats.executions++;
  g->stats.compute_ns += ns;
  g->stats.last_ms = platform->file_time() * 1000;
  g->stats.batch_runs[rows]++;
  g->stats.batch_ns[rows] += ns;
  g->run_ns += (ns - g->run_ns) / 8;
}

static int status_of(tenon_status s) {
  return s == TENON_EINVAL ? 400 : s == TENON_ENOMEM || s == TENON_EDEVICE ? 503 : 500;
}

static tenon_status answer_done(Arena *a, GraphModel *g, GraphJob *j, Str payload, Diag *d) {
  Packet p;
  TRY(packet_read(a, payload, &p, d));
  count_job(g, j, p.ns);
  return share_out(a, g, j, &p, d);
}

void graph_answer(GraphEngine *e, const Frame *f, Str payload) {
  GraphModel *g = e->g;
  GraphJob *j = take_job(e, f->id);
  Arena a;
  Diag d;
  Trap t;
  if (!j) return;
  e->deaths = 0;
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    if (f->type == ENGINE_DONE)
      t.status = answer_done(&a, g, j, payload, &d);
    else
      t.status = fail(&d, payload.n ? (tenon_status)payload.p[0] : TENON_EINTERNAL, NOWHERE, "%.*s",
                      (int)MAX(payload.n - 1, 0), payload.n ? payload.p + 1 : "");
  }
  trap_leave(&t);
  if (t.status && j->n > 1 && f->type == ENGINE_ERROR)
    part_job(g, j);
  else
    fail_job(g, j, status_of(t.status), d.text);
  arena_deinit(&a);
  graph_wake(g);
}
