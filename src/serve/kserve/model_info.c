// model_info.c -- models for KServe's REST and gRPC: which one, ready or not, load and unload.
#include "serve/kserve/model_info.h"

#include "base/platform.h"
#include "serve/log.h"

enum { LOOK_NS = 5000000, CONFIG_BYTES = 65536 };

const char *const ks_extensions[] = {
    "binary_tensor_data", "classification", "logging", "model_configuration",
    "model_repository",   "statistics",     NULL};

Model *ks_model(Serve *s, Str name, Str version, int *out_status, Diag *d) {
  Model *m = models_find_version(s, name, version);
  *out_status = 404;
  if (!m && version.n && models_find(s, name))
    (void)fail(d, TENON_EINVAL, NOWHERE, "the model '%.*s' has no version '%.*s'", STR_ARG(name),
               STR_ARG(version));
  else if (!m)
    (void)fail(d, TENON_EINVAL, NOWHERE, "there is no model '%.*s'", STR_ARG(name));
  else if (graph_is(m))
    return m;
  else {
    *out_status = 400;
    (void)fail(d, TENON_EINVAL, NOWHERE,
               "'%.*s' is a language model: it is asked by OpenAI's routes", STR_ARG(name));
  }
  return NULL;
}

Model *ks_loaded(Serve *s, Str name, Str version, int *out_status, Diag *d) {
  Model *m = ks_model(s, name, version, out_status, d);
  if (!m || graph_signature(m)) return m;
  *out_status = 503;
  (void)fail(d, TENON_EIO, NOWHERE, "the model '%s' is %s%s%s", m->name,
             m->state == MODEL_LOADING ? "being loaded" : "not loaded", m->why[0] ? ": " : "",
             m->why);
  return NULL;
}

bool ks_is_ready(const Serve *s, const Model *m) {
  if (m->off || s->draining) return false;
  return m->state == MODEL_READY || (m->state == MODEL_OUT && s->config.memory_budget);
}

const char *ks_platform(Arena *a, const Model *m) {
  const KsSignature *sig = graph_signature(m);
  return sig ? str_printf(a, "tenon_%s", sig->target) : "tenon";
}

const char *ks_state(const Model *m) {
  return m->state == MODEL_READY ? "READY" : m->state == MODEL_LOADING ? "LOADING" : "UNAVAILABLE";
}

// ---- loading and unloading by name ----
static void look(void *arg) {
  KsWaiter *w = arg;
  Model *m = w->model;
  if (w->load ? m->state == MODEL_READY : m->state == MODEL_OUT || m->state == MODEL_FAILED) {
    w->done(w, 200, "");
  } else if (w->load && m->state == MODEL_FAILED) {
    w->done(w, 400, m->why);
  } else if (w->load && m->state == MODEL_OUT && m->off) {
    w->done(w, 503, "it was unloaded meanwhile");
  } else {
    if (w->load) models_want(m);
    event_timer(&m->serve->loop, &w->timer, platform->now() + LOOK_NS);
  }
}

static void wait(KsWaiter *w, Model *m, bool load) {
  w->model = m;
  w->load = load;
  w->timer = (EventTimer){.fn = look, .arg = w};
  event_timer(&m->serve->loop, &w->timer, 1);
}

void ks_waiter_stop(KsWaiter *w) { event_timer_stop(&w->model->serve->loop, &w->timer); }

// The configuration stays until another one is given.
static int keep_config(Model *m, Str config, Diag *d) {
  GraphOptions o;
  if (config.n > CONFIG_BYTES) {
    (void)fail(d, TENON_EINVAL, NOWHERE, "a model's configuration has at most %d bytes",
               CONFIG_BYTES);
    return 400;
  }
  if (graph_options_of(m, &o, d) || graph_options_read(config, &o, d)) return 400;
  char *text = mem_alloc(config.n + 1);
  if (!text) return 503;
  memcpy(text, config.p, (size_t)config.n);
  mem_free(m->config, m->config_cap);
  m->config = text;
  m->config_cap = config.n + 1;
  return 0;
}

int ks_load(Serve *s, Str name, Str config, KsWaiter *w, Diag *d) {
  if (models_read_repository(s, d)) return 500;
  Model *m = models_find(s, name);
  if (!m) {
    (void)fail(d, TENON_EINVAL, NOWHERE, "there is no model '%.*s'", STR_ARG(name));
    return 404;
  }
  int status = config.p ? keep_config(m, config, d) : 0;
  if (status) return status;
  m->off = false;
  if (m->state == MODEL_FAILED || (config.p && m->state == MODEL_READY)) {
    if (m->state == MODEL_READY) m->kind->unload(m);
    if (m->state == MODEL_FAILED) m->state = MODEL_OUT;
  }
  models_want(m);
  wait(w, m, true);
  return 0;
}

int ks_unload(Serve *s, Str name, KsWaiter *w, Diag *d) {
  Model *latest = models_find(s, name);
  if (!latest) {
    (void)fail(d, TENON_EINVAL, NOWHERE, "there is no model '%.*s'", STR_ARG(name));
    return 404;
  }
  for (Model *m = s->models; m; m = m->next) {
    if (!str_is(name, m->name)) continue;
    m->off = true;
    if (m->waits) {
      m->waits = false;
      m->state = MODEL_OUT;
    }
    if (m->state != MODEL_OUT) m->kind->unload(m);
  }
  wait(w, latest, false);
  return 0;
}

// ---- settings ----
// Levels are nested: what is switched off takes those above it along.
bool ks_set_log(Str name, int64_t value) {
  static const struct {
    const char *name;
    LogLevel level;
  } row[] = {{"log_error", LOG_ERROR},
             {"log_warning", LOG_WARNING},
             {"log_info", LOG_INFO},
             {"log_verbose_level", LOG_REQUESTS}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    if (!str_is(name, row[i].name)) continue;
    LogLevel now = log_level_now();
    if (value < 0 || (!value && !i)) return false;  // errors are always logged
    if (value)
      log_level(MAX(now, row[i].level));
    else
      log_level(MIN(now, row[i - 1].level));
    return true;
  }
  return str_is(name, "log_format");
}

bool ks_is_trace_setting(Str name) {
  static const char *const row[] = {"trace_rate", "trace_count", "log_frequency",
                                    "trace_file", "trace_mode",  "trace_level"};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (str_is(name, row[i])) return true;
  return false;
}
