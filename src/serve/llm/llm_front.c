// llm_front.c -- engines of language models and their queues (llm.h).
#include "serve/llm/llm.h"

#include "base/platform.h"
#include "serve/llm/adapters.h"
#include "serve/llm/llm_engine.h"
#include "serve/log.h"
#include "serve/serve.h"

enum {
  DEATHS_MOST = 5,        // one after the other, before the model counts as failed
  RESTART_NS = 50000000,  // after the first death; twice as long after each further one
  PLACE_BITS = 20
};

// A place of the engine: taken from LLM_ASK to the last answer.
typedef struct Place {
  uint64_t id;    // of its frames: the serial number, then the place; 0: free
  LlmCall *call;  // NULL: cancelled
  uint32_t client;
} Place;

struct LlmModel {
  Model *model;
  Worker *worker;
  Arena arena;  // of `about`
  LlmAbout about;
  bool known, ready, closing;
  int64_t nplaces, nused;
  Place *place;
  uint64_t serial;
  LlmCall *first, *last;  // that wait
  int64_t waiting;
  int deaths;
  EventTimer restart, send;
  LlmStats stats;
};

static LlmModel *llm_of(const Model *m) { return m->of_kind; }

bool llm_is(const Model *m) { return m->kind == &llm_kind; }
const LlmAbout *llm_about(const Model *m) {
  const LlmModel *l = llm_of(m);
  return l && l->known ? &l->about : NULL;
}
LlmStats *llm_stats(const Model *m) { return m->of_kind ? &llm_of(m)->stats : NULL; }
int64_t llm_waiting(const Model *m) { return m->of_kind ? llm_of(m)->waiting : 0; }

const double llm_bound[LLM_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                      0.25,  0.5,    1,     2.5,  5,     10,   60};

void llm_measure(LlmHistogram *h, double seconds) {
  int i = 0;
  while (i < LLM_BOUNDS && seconds > llm_bound[i]) i++;
  h->count[i]++;
  h->sum += seconds;
}

// ---- who waits ----
static void unlink_waiting(LlmModel *l, LlmCall *c) {
  *(c->prev ? &c->prev->next : &l->first) = c->next;
  *(c->next ? &c->next->prev : &l->last) = c->prev;
  c->prev = c->next = NULL;
  l->waiting--;
}

static void link_waiting(LlmModel *l, LlmCall *c) {
  c->place = -1;
  c->prev = l->last;
  c->next = NULL;
  *(l->last ? &l->last->next : &l->first) = c;
  l->last = c;
  l->waiting++;
}

static void fail_call(LlmCall *c, int status, const char *why) {
  c->answer(c, &(LlmAnswer){.kind = LLM_IS_ERROR, .last = true, .status = status, .why = why});
}

static void fail_waiting(LlmModel *l, int status, const char *why) {
  while (l->first) {
    LlmCall *c = l->first;
    unlink_waiting(l, c);
    l->stats.failed++;
    fail_call(c, status, why);
  }
}

// The engine is gone, with all that it had.
static void fail_places(LlmModel *l, int status, const char *why) {
  for (int64_t i = 0; i < l->nplaces; i++) {
    LlmCall *c = l->place[i].call;
    l->place[i] = (Place){0};
    if (!c) continue;
    l->stats.failed++;
    fail_call(c, status, why);
  }
  l->nused = 0;
  l->stats.counts = (tenon_llm_counts){0};
}

static void drop_places(LlmModel *l) {
  mem_free(l->place, l->nplaces * (int64_t)sizeof *l->place);
  l->place = NULL;
  l->nplaces = l->nused = 0;
}

// ---- sending ----
static int64_t used_by(const LlmModel *l, uint32_t client) {
  int64_t n = 0;
  for (int64_t i = 0; i < l->nplaces; i++) n += l->place[i].id && l->place[i].client == client;
  return n;
}

// The oldest of the client that has the fewest at work.
static LlmCall *next_call(const LlmModel *l) {
  LlmCall *best = NULL;
  int64_t least = 0;
  for (LlmCall *c = l->first; c; c = c->next) {
    int64_t n = best && c->client == best->client ? least : used_by(l, c->client);
    if (!best || n < least) best = c, least = n;
    if (!least) break;
  }
  return best;
}

static void send_call(LlmModel *l, LlmCall *c) {
  int64_t i = 0;
  while (l->place[i].id) i++;
  uint64_t id = ++l->serial << PLACE_BITS | (uint64_t)i;
  unlink_waiting(l, c);
  if (!worker_send(l->worker, LLM_ASK, id, c->ask)) {
    l->stats.failed++;
    fail_call(c, 503, "there is no memory for this request");
    return;
  }
  l->place[i] = (Place){id, c, c->client};
  c->place = i;
  l->nused++;
  llm_measure(&l->stats.queue, (double)(platform->now() - c->came) / 1e9);
}

static void on_send(void *arg) {
  LlmModel *l = arg;
  while (l->ready && l->first && l->nused < l->nplaces) send_call(l, next_call(l));
}

// Soon, and not within the call of someone who makes calls.
static void wake(LlmModel *l) { event_timer(&l->model->serve->loop, &l->send, 1); }

// A request is gone: unloads where that is due.
static void idle(LlmModel *l);

// ---- answers ----
static void free_place(LlmModel *l, int64_t i) {
  l->place[i] = (Place){0};
  l->nused--;
  wake(l);
}

static int status_of(tenon_status s) {
  return s == TENON_EINVAL || s == TENON_EUNSUPPORTED || s == TENON_EFORMAT ? 400
         : s == TENON_ENOMEM                                                ? 503
                                                                            : 500;
}

static bool read_error(Str payload, char *why, int64_t cap, LlmAnswer *out) {
  if (!payload.n) return false;
  int64_t n = MIN(payload.n - 1, cap - 1);
  memcpy(why, payload.p + 1, (size_t)n);
  why[n] = 0;
  out->kind = LLM_IS_ERROR;
  out->last = true;
  out->status = status_of((tenon_status)payload.p[0]);
  out->why = why;
  return true;
}

// False: the engine says nonsense.
static bool take_answer(LlmModel *l, const Frame *f, Str payload) {
  static LlmEvent event;
  static char why[TENON_ERROR_CAPACITY];
  int64_t i = (int64_t)(f->id & ((1u << PLACE_BITS) - 1));
  LlmAnswer a = {.bytes = payload, .event = &event};
  if (i >= l->nplaces || !f->id || l->place[i].id != f->id) return false;
  if (f->type == LLM_ACCEPTED) {
    a.kind = LLM_IS_ACCEPTED;
  } else if (f->type == LLM_RESULT) {
    a.kind = LLM_IS_RESULT;
    a.last = true;
  } else if (f->type == LLM_EVENT) {
    if (!llm_event_read(payload, &event)) return false;
    a.kind = LLM_IS_EVENT;
    a.last = llm_event_last(&event);
  } else if (f->type != LLM_ERROR || !read_error(payload, why, sizeof why, &a)) {
    return false;
  }
  LlmCall *c = l->place[i].call;
  if (a.last) free_place(l, i);
  l->deaths = 0;
  if (c) c->answer(c, &a);
  if (a.last) idle(l);
  return true;
}

static void take_counts(LlmModel *l, Str payload) {
  tenon_llm_counts c, *was = &l->stats.counts;
  if (payload.n != sizeof c) return;
  memcpy(&c, payload.p, sizeof c);
  int64_t steps = c.steps - was->steps, rows = c.rows - was->rows;
  if (steps > 0 && rows >= 0) {
    int i = 0;
    while (i < LLM_BOUNDS && rows / steps > (int64_t)1 << i) i++;
    l->stats.rows_of_step[i] += (uint64_t)steps;
  }
  *was = c;
}

// ---- the engine ----
static void stop_engine(LlmModel *l, int status, const char *why) {
  event_timer_stop(&l->model->serve->loop, &l->restart);
  worker_stop(l->worker);
  l->worker = NULL;
  l->ready = false;
  fail_places(l, status, why);
  drop_places(l);
}

static void give_up(LlmModel *l, Str why) {
  char text[1024];
  int64_t n = MIN(why.n, (int64_t)sizeof text - 1);
  memcpy(text, why.p, (size_t)n);
  text[n] = 0;
  text_clean(text, n);
  l->closing = false;
  stop_engine(l, 503, text);
  model_is(l->model, MODEL_FAILED, text);
  fail_waiting(l, 503, text);
}

static void engine_ready(LlmModel *l, Str text) {
  Diag d;
  Trap t;
  diag_init(&d);
  arena_deinit(&l->arena);
  arena_init(&l->arena);
  l->known = false;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = llm_about_read(&l->arena, text, &l->about, &d);
  trap_leave(&t);
  if (!t.status) {
    drop_places(l);
    l->nplaces = MIN(MAX(l->about.requests, 1), (1 << PLACE_BITS) - 1);
    l->place = mem_alloc(l->nplaces * (int64_t)sizeof *l->place);
    if (!l->place) l->nplaces = 0, t.status = fail(&d, TENON_ENOMEM, NOWHERE, "out of memory");
  }
  if (t.status) {
    give_up(l, (Str){d.text, d.len});
    return;
  }
  memset(l->place, 0, (size_t)l->nplaces * sizeof *l->place);
  l->known = l->ready = true;
  l->model->bytes = l->about.bytes;
  model_is(l->model, MODEL_READY, NULL);
  wake(l);
}

static void on_ended(void *arg, const char *why);

static void on_frame(void *arg, const Frame *f, Str payload) {
  LlmModel *l = arg;
  if (f->type == LLM_READY) {
    engine_ready(l, payload);
  } else if (f->type == LLM_FAILED) {
    give_up(l, payload);
  } else if (f->type == LLM_COUNTS) {
    take_counts(l, payload);
  } else if (!take_answer(l, f, payload)) {
    worker_stop(l->worker);
    on_ended(l, "the engine said what makes no sense");
  }
}

static void start_engine(LlmModel *l);
static void on_restart(void *arg) { start_engine(arg); }

static void on_ended(void *arg, const char *why) {
  LlmModel *l = arg;
  l->worker = NULL;
  l->ready = false;
  l->stats.deaths++;
  log_text(LOG_ERROR, "engine ended", l->model->name);
  fail_places(l, 503, "the engine died while it was at work on this request");
  if (l->model->state == MODEL_OUT || l->model->state == MODEL_FAILED) return;
  if (l->closing && !l->first) {
    idle(l);
    return;
  }
  if (++l->deaths > DEATHS_MOST) {
    give_up(l, str_of(why));
    return;
  }
  event_timer(&l->model->serve->loop, &l->restart,
              platform->now() + ((int64_t)RESTART_NS << l->deaths));
  model_is(l->model, MODEL_LOADING, "its engine died and is started again");
}

static const WorkerCalls calls = {on_frame, on_ended};

static tenon_status try_start(LlmModel *l) {
  const Model *m = l->model;
  const ServeConfig *c = &m->serve->config;
  int64_t memory = c->memory ? c->memory : c->memory_budget;
  if (c->memory_budget) memory = MIN(memory, c->memory_budget);
  Arena a;
  arena_init_scoped(&a);
  int64_t nargs = 0, most = adapters_count(m);
  const char *fixed[] = {WORKER_PROGRAM,
                         "--engine=llm",
                         m->path,
                         str_printf(&a, "--target=%s", c->target ? c->target : ""),
                         str_printf(&a, "--threads=%lld", (long long)c->threads),
                         str_printf(&a, "--context=%lld", (long long)c->context),
                         str_printf(&a, "--sequences=%lld", (long long)c->sequences),
                         str_printf(&a, "--memory=%lld", (long long)memory),
                         str_printf(&a, "--kv=%s", c->kv ? c->kv : ""),
                         str_printf(&a, "--adapters=%lld", (long long)most),
                         str_printf(&a, "--adapter-rank=%lld", (long long)c->lora_rank)};
  const char **argv = arena_array(&a, const char *, ARRAY_LEN(fixed) + most + 1);
  for (; nargs < ARRAY_LEN(fixed); nargs++) argv[nargs] = fixed[nargs];
  for (const Adapter *ad = m->serve->adapters; ad; ad = ad->next)
    if (ad->model == m) argv[nargs++] = str_printf(&a, "--adapter=%s=%s", ad->name, ad->path);
  int err = worker_start(&m->serve->loop, argv, &calls, l, &l->worker);
  arena_deinit(&a);
  return err ? TENON_EIO : TENON_OK;
}

// An engine that cannot be started has died: it is tried again a few times.
static void start_engine(LlmModel *l) {
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = try_start(l);
  trap_leave(&t);
  if (t.status) on_ended(l, "the engine cannot be started");
}

// ---- the kind ----
static bool takes(const char *path) {
  FileInfo info;
  Arena a;
  if (str_ends(str_of(path), ".gguf")) return true;
  if (platform->info(path, &info) || !info.folder) return false;
  arena_init_scoped(&a);
  bool is = !platform->info(str_printf(&a, "%s/config.json", path), &info) && info.regular;
  arena_deinit(&a);
  return is;
}

static LlmModel *get(Model *m) {
  if (m->of_kind) return llm_of(m);
  LlmModel *l = arena_new(&m->serve->arena, LlmModel);
  l->model = m;
  l->send = (EventTimer){.fn = on_send, .arg = l};
  l->restart = (EventTimer){.fn = on_restart, .arg = l};
  arena_init(&l->arena);
  m->of_kind = l;
  return l;
}

static void load(Model *m) {
  LlmModel *l = get(m);
  l->closing = false;
  l->deaths = 0;
  model_is(m, MODEL_LOADING, NULL);
  start_engine(l);
}

static void idle(LlmModel *l) {
  if (!l->first && !l->nused) models_wake(l->model->serve);
  if (!l->closing || l->first || l->nused) return;
  l->closing = false;
  stop_engine(l, 503, "the model was unloaded");
  model_is(l->model, MODEL_OUT, NULL);
}

static void unload(Model *m) {
  LlmModel *l = llm_of(m);
  if (!l || m->state == MODEL_OUT) return;
  l->closing = true;
  if (m->state == MODEL_LOADING) fail_waiting(l, 503, "the model was unloaded");
  idle(l);
}

static bool busy(const Model *m) {
  const LlmModel *l = llm_of(m);
  return l && (l->first || l->nused || l->closing || m->state == MODEL_LOADING);
}

static void forget(Model *m) {
  LlmModel *l = llm_of(m);
  worker_stop(l->worker);
  l->worker = NULL;
  drop_places(l);
  arena_deinit(&l->arena);
}

const ModelKind llm_kind = {.name = "llm",
                            .takes = takes,
                            .load = load,
                            .unload = unload,
                            .work = llm_engine_work,
                            .busy = busy,
                            .forget = forget};

// ---- calls ----
static int refused(const Model *m, const LlmModel *l, Diag *d) {
  if (m->state == MODEL_FAILED) {
    (void)fail(d, TENON_EIO, NOWHERE, "the model '%s' cannot be loaded: %s", m->name, m->why);
    return 503;
  }
  if (m->off || l->closing) {
    (void)fail(d, TENON_EIO, NOWHERE, "the model '%s' is unloaded", m->name);
    return 503;
  }
  if (l->waiting < m->serve->config.queue) return 0;
  (void)fail(d, TENON_EIO, NOWHERE, "%lld requests wait for the model '%s'; try again later",
             (long long)l->waiting, m->name);
  return 429;
}

int llm_call(LlmCall *c, Diag *d) {
  Model *m = c->model;
  LlmModel *l = get(m);
  int status = refused(m, l, d);
  if (!status) {
    models_want(m);
    status = m->state == MODEL_FAILED ? refused(m, l, d) : 0;
  }
  if (status) {
    l->stats.refused++;
    return status;
  }
  c->came = platform->now();
  l->stats.requests++;
  link_waiting(l, c);
  wake(l);
  return 0;
}

void llm_call_cancel(LlmCall *c) {
  LlmModel *l = llm_of(c->model);
  l->stats.cancelled++;
  if (c->place < 0) {
    unlink_waiting(l, c);
    idle(l);
    return;
  }
  Place *p = &l->place[c->place];
  p->call = NULL;
  if (l->worker) (void)worker_send(l->worker, LLM_CANCEL, p->id, (Str){0});
}
