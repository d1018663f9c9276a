// graph.c -- engines of a model: started, restarted when they die, stopped (graph.h).
#include "serve/kserve/engine.h"
#include "serve/kserve/graph_impl.h"
#include "serve/log.h"

enum {
  DEATHS_MOST = 5,       // one after the other, before the model counts as failed
  RESTART_NS = 50000000  // after the first death; twice as long after each further one
};

// ---- what others ask ----
bool graph_is(const Model *m) { return m->kind == &graph_kind; }

const KsSignature *graph_signature(const Model *m) {
  const GraphModel *g = graph_of(m);
  return g && g->known ? &g->signature : NULL;
}
const GraphStats *graph_stats(const Model *m) { return m->of_kind ? &graph_of(m)->stats : NULL; }
const GraphOptions *graph_options(const Model *m) {
  return m->of_kind ? &graph_of(m)->options : NULL;
}

// ---- engines ----
static void start_engine(GraphEngine *e);

static void restart_engine(void *arg) { start_engine(arg); }

static bool any_ready(const GraphModel *g) {
  for (int64_t i = 0; i < g->nengines; i++)
    if (g->engine[i].ready) return true;
  return false;
}

static void stop_engines(GraphModel *g) {
  for (int64_t i = 0; i < g->nengines; i++) {
    GraphEngine *e = &g->engine[i];
    event_timer_stop(&g->model->serve->loop, &e->restart);
    worker_stop(e->worker);
    graph_fail_jobs(e, 503, "the model was unloaded");
    e->worker = NULL;
    e->ready = false;
    e->deaths = 0;
  }
}

// The model cannot be used: its engines end and whoever waits is told.
static void give_up(GraphModel *g, const char *why) {
  char text[1024];
  int64_t n = MIN((int64_t)strlen(why), (int64_t)sizeof text - 1);
  memcpy(text, why, (size_t)n);
  text[n] = 0;
  stop_engines(g);
  g->closing = false;
  model_is(g->model, MODEL_FAILED, text);
  graph_fail_waiting(g, 503, text);
}

static void engine_ready(GraphEngine *e, Str text) {
  GraphModel *g = e->g;
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0 && !g->known) {
    arena_deinit(&g->arena);
    arena_init(&g->arena);
    t.status = ks_signature_read(&g->arena, text, &g->signature, &d);
  }
  trap_leave(&t);
  if (t.status) {
    give_up(g, d.text);
    return;
  }
  if (!g->known && g->options.batch.most > 1 && !g->signature.rows)
    log_text(LOG_WARNING, "requests run alone", g->signature.why_not);
  g->known = true;
  e->ready = true;
  g->model->bytes = g->signature.bytes * g->nengines;
  if (g->model->state != MODEL_READY) model_is(g->model, MODEL_READY, NULL);
  graph_wake(g);
}

static void on_frame(void *arg, const Frame *f, Str payload) {
  GraphEngine *e = arg;
  if (f->type == ENGINE_READY) {
    engine_ready(e, payload);
  } else if (f->type == ENGINE_FAILED) {
    char text[1024];
    int64_t n = MIN(payload.n, (int64_t)sizeof text - 1);
    memcpy(text, payload.p, (size_t)n);
    text[n] = 0;
    text_clean(text, n);
    give_up(e->g, text);
  } else {
    graph_answer(e, f, payload);
  }
}

static void on_ended(void *arg, const char *why) {
  GraphEngine *e = arg;
  GraphModel *g = e->g;
  e->worker = NULL;
  e->ready = false;
  log_text(LOG_ERROR, "engine ended", g->model->name);
  graph_fail_jobs(e, 503, "the engine died while it was at work on this request");
  if (g->model->state == MODEL_OUT || g->model->state == MODEL_FAILED) return;
  if (++e->deaths > DEATHS_MOST) {
    give_up(g, why);
    return;
  }
  event_timer(&g->model->serve->loop, &e->restart,
              platform->now() + ((int64_t)RESTART_NS << e->deaths));
  if (!any_ready(g)) model_is(g->model, MODEL_LOADING, "its engine died and is started again");
}

static const WorkerCalls calls = {on_frame, on_ended};

static tenon_status try_start(GraphEngine *e) {
  GraphModel *g = e->g;
  Model *m = g->model;
  char target[64], threads[40], batch[16];
  const char *want = m->serve->config.target ? m->serve->config.target : "";
  int64_t per_engine = MAX(1, machine_threads() / g->options.instances);
  Arena a;
  arena_init_scoped(&a);
  memcpy(target, "--target=", 10);
  memcpy(target + 9, want, MIN(strlen(want) + 1, sizeof target - 10));
  target[sizeof target - 1] = 0;
  memcpy(batch, g->options.batch.most > 1 ? "--batch=1" : "--batch=0", 10);
  const char *text = str_printf(&a, "--threads=%lld", (long long)per_engine);
  memcpy(threads, text, MIN(strlen(text) + 1, sizeof threads));
  const char *argv[] = {WORKER_PROGRAM, "--engine=model", m->path, target, threads, batch, NULL};
  int err = worker_start(&m->serve->loop, argv, &calls, e, &e->worker);
  arena_deinit(&a);
  return err ? TENON_EIO : TENON_OK;
}

static void on_ended(void *arg, const char *why);

// An engine that cannot be started has died: it is tried again a few times.
static void start_engine(GraphEngine *e) {
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = try_start(e);
  trap_leave(&t);
  if (t.status) on_ended(e, "the engine cannot be started");
}

// ---- the kind ----
static bool takes(const char *path) {
  static const char *const ending[] = {".tenon", ".onnx", ".tir", ".tflite",     ".mlir", ".mlirbc",
                                       ".pt",    ".pt2",  ".pth", ".jax_export", ".json"};
  for (int64_t i = 0; i < ARRAY_LEN(ending); i++)
    if (str_ends(str_of(path), ending[i])) return true;
  return false;
}

GraphModel *graph_get(Model *m) {
  if (m->of_kind) return graph_of(m);
  GraphModel *g = arena_new(&m->serve->arena, GraphModel);
  g->model = m;
  g->tick = (EventTimer){.fn = graph_tick, .arg = g};
  for (int64_t i = 0; i < GRAPH_INSTANCES; i++) {
    GraphEngine *e = &g->engine[i];
    e->g = g;
    e->restart = (EventTimer){.fn = restart_engine, .arg = e};
  }
  arena_init(&g->arena);
  m->of_kind = g;
  return g;
}

static void load(Model *m) {
  Diag d;
  GraphModel *g = graph_get(m);
  diag_init(&d);
  g->closing = g->known = false;
  g->run_ns = 0;
  model_is(m, MODEL_LOADING, NULL);
  if (graph_options_of(m, &g->options, &d)) {
    give_up(g, d.text);
    return;
  }
  g->nengines = g->options.instances;
  for (int64_t i = 0; i < g->nengines && m->state == MODEL_LOADING; i++)
    start_engine(&g->engine[i]);
}

void graph_idle(GraphModel *g) {
  if (!g->first && !g->sent) models_wake(g->model->serve);
  if (!g->closing || g->first) return;
  for (int64_t i = 0; i < g->nengines; i++)
    for (const GraphJob *j = g->engine[i].jobs; j; j = j->next)
      for (int64_t k = 0; k < j->n; k++)
        if (j->request[k]) return;
  g->closing = false;
  stop_engines(g);
  event_timer_stop(&g->model->serve->loop, &g->tick);
  model_is(g->model, MODEL_OUT, NULL);
}

static void unload(Model *m) {
  GraphModel *g = graph_of(m);
  if (!g || m->state == MODEL_OUT) return;
  g->closing = true;
  if (m->state == MODEL_LOADING) graph_fail_waiting(g, 503, "the model was unloaded");
  graph_idle(g);
}

static bool busy(const Model *m) {
  const GraphModel *g = graph_of(m);
  return g && (g->first || g->sent || g->closing || m->state == MODEL_LOADING);
}

static void forget(Model *m) {
  stop_engines(graph_of(m));
  arena_deinit(&graph_of(m)->arena);
}

const ModelKind graph_kind = {.name = "model",
                              .takes = takes,
                              .load = load,
                              .unload = unload,
                              .work = engine_work,
                              .busy = busy,
                              .forget = forget};
