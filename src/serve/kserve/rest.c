// rest.c -- KServe's routes: the server, its models, their repository.  Inference is in
// rest_infer.c.
#include "serve/kserve/rest.h"

#include "base/platform.h"
#include "serve/log.h"
#include "serve/routes.h"

// ---- answers as JSON ----
static JsonWriter *begin(HttpExchange *x, StrBuf *b, JsonWriter *w) {
  strbuf_init(b, &x->arena);
  json_init(w, b, true);
  return w;
}

static void reply(HttpExchange *x, const StrBuf *b) {
  http_reply(x, 200, "application/json", strbuf_str(b));
}

void rest_fail(HttpExchange *x, int status, const Diag *d) { http_fail(x, status, "%s", d->text); }

static void key_str(JsonWriter *w, const char *key, const char *value) {
  json_key(w, key);
  json_cstr(w, value);
}
static void key_i64(JsonWriter *w, const char *key, int64_t value) {
  json_key(w, key);
  json_i64(w, value);
}

// ---- the server ----
static void server_metadata(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  begin(x, &b, &w);
  json_begin_object(&w);
  key_str(&w, "name", "tenon");
  key_str(&w, "version", TENON_VERSION);
  json_key(&w, "extensions");
  json_begin_array(&w);
  for (int64_t i = 0; ks_extensions[i]; i++) json_cstr(&w, ks_extensions[i]);
  json_end_array(&w);
  json_end_object(&w);
  reply(x, &b);
}

// ---- models ----
static void write_values(JsonWriter *w, const char *key, const KsValue *v, int64_t n) {
  json_key(w, key);
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    json_begin_object(w);
    key_str(w, "name", v[i].name);
    key_str(w, "datatype", v[i].type->name);
    json_key(w, "shape");
    json_begin_array(w);
    for (int k = 0; k < MAX(v[i].rank, 0); k++) json_i64(w, v[i].shape[k]);
    json_end_array(w);
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_versions(JsonWriter *w, const Model *m) {
  json_key(w, "versions");
  json_begin_array(w);
  for (const Model *v = m->serve->models; v; v = v->next)
    if (!strcmp(v->name, m->name) && !v->gone) json_cstr(w, v->version);
  json_end_array(w);
}

static void model_metadata(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  Diag d;
  int status;
  diag_init(&d);
  Model *m = ks_loaded(x->serve, x->arg[0], x->arg[1], &status, &d);
  if (!m) {
    rest_fail(x, status, &d);
    return;
  }
  const KsSignature *s = graph_signature(m);
  begin(x, &b, &w);
  json_begin_object(&w);
  key_str(&w, "name", m->name);
  write_versions(&w, m);
  key_str(&w, "platform", ks_platform(&x->arena, m));
  write_values(&w, "inputs", s->input, s->ninputs);
  write_values(&w, "outputs", s->output, s->noutputs);
  json_end_object(&w);
  reply(x, &b);
}

static void model_ready(HttpExchange *x) {
  Diag d;
  int status;
  diag_init(&d);
  Model *m = ks_model(x->serve, x->arg[0], x->arg[1], &status, &d);
  if (!m)
    rest_fail(x, status, &d);
  else if (!ks_is_ready(x->serve, m))
    http_fail(x, 503, "the model '%s' is %s", m->name, model_state_name(m->state));
  else
    http_reply(x, 200, "application/json", STR("{\"ready\":true}"));
}

// ---- configuration, in Triton's form ----
static void config_values(JsonWriter *w, const char *key, const KsValue *v, int64_t n,
                          bool without_rows) {
  json_key(w, key);
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    json_begin_object(w);
    key_str(w, "name", v[i].name);
    json_key(w, "data_type");
    char type[16] = "TYPE_";
    const char *name = v[i].type->bytes ? v[i].type->name : "STRING";
    memcpy(type + 5, name, strlen(name) + 1);
    json_cstr(w, type);
    json_key(w, "dims");
    json_begin_array(w);
    for (int k = without_rows; k < v[i].rank; k++) json_i64(w, v[i].shape[k]);
    json_end_array(w);
    json_end_object(w);
  }
  json_end_array(w);
}

static void config_batching(JsonWriter *w, const GraphOptions *o) {
  json_key(w, "dynamic_batching");
  json_begin_object(w);
  json_key(w, "preferred_batch_size");
  json_begin_array(w);
  for (int i = 0; i < o->batch.npreferred; i++) json_i64(w, o->batch.preferred[i]);
  json_end_array(w);
  key_i64(w, "max_queue_delay_microseconds", o->batch.delay / 1000);
  json_end_object(w);
}

static void model_config(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  Diag d;
  int status;
  diag_init(&d);
  Model *m = ks_loaded(x->serve, x->arg[0], x->arg[1], &status, &d);
  if (!m) {
    rest_fail(x, status, &d);
    return;
  }
  const KsSignature *s = graph_signature(m);
  const GraphOptions *o = graph_options(m);
  bool batches = s->rows && o->batch.most > 1;
  begin(x, &b, &w);
  json_begin_object(&w);
  key_str(&w, "name", m->name);
  key_str(&w, "platform", ks_platform(&x->arena, m));
  key_str(&w, "backend", "tenon");
  key_i64(&w, "max_batch_size", batches ? o->batch.most : 0);
  config_values(&w, "input", s->input, s->ninputs, batches);
  config_values(&w, "output", s->output, s->noutputs, batches);
  if (batches) config_batching(&w, o);
  json_key(&w, "instance_group");
  json_begin_array(&w);
  json_begin_object(&w);
  key_str(&w, "name", m->name);
  key_i64(&w, "count", o->instances);
  key_str(&w, "kind", "KIND_AUTO");
  json_end_object(&w);
  json_end_array(&w);
  json_end_object(&w);
  reply(x, &b);
}

// ---- statistics ----
static void duration(JsonWriter *w, const char *key, uint64_t count, int64_t ns) {
  json_key(w, key);
  json_begin_object(w);
  json_key(w, "count");
  json_u64(w, count);
  key_i64(w, "ns", ns);
  json_end_object(w);
}

static void write_stats(JsonWriter *w, const Model *m) {
  static const GraphStats none;
  const GraphStats *s = graph_stats(m) ? graph_stats(m) : &none;
  json_begin_object(w);
  key_str(w, "name", m->name);
  key_str(w, "version", m->version);
  key_i64(w, "last_inference", s->last_ms);
  json_key(w, "inference_count");
  json_u64(w, s->inferences);
  json_key(w, "execution_count");
  json_u64(w, s->executions);
  json_key(w, "inference_stats");
  json_begin_object(w);
  duration(w, "success", s->inferences, s->request_ns);
  duration(w, "fail", s->failed, s->failed_ns);
  duration(w, "queue", s->inferences + s->failed, s->queue_ns);
  duration(w, "compute_input", s->executions, 0);
  duration(w, "compute_infer", s->executions, s->compute_ns);
  duration(w, "compute_output", s->executions, 0);
  json_end_object(w);
  json_key(w, "batch_stats");
  json_begin_array(w);
  for (int64_t i = 0; i < ARRAY_LEN(s->batch_runs); i++) {
    if (!s->batch_runs[i]) continue;
    json_begin_object(w);
    key_i64(w, "batch_size", i + 1);
    duration(w, "compute_input", s->batch_runs[i], 0);
    duration(w, "compute_infer", s->batch_runs[i], s->batch_ns[i]);
    duration(w, "compute_output", s->batch_runs[i], 0);
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

static void stats_of(HttpExchange *x, const Model *only) {
  StrBuf b;
  JsonWriter w;
  begin(x, &b, &w);
  json_begin_object(&w);
  json_key(&w, "model_stats");
  json_begin_array(&w);
  for (const Model *m = x->serve->models; m; m = m->next)
    if (graph_is(m) && !m->gone && (!only || m == only)) write_stats(&w, m);
  json_end_array(&w);
  json_end_object(&w);
  reply(x, &b);
}

static void all_stats(HttpExchange *x) { stats_of(x, NULL); }

static void model_stats(HttpExchange *x) {
  Diag d;
  int status;
  diag_init(&d);
  Model *m = ks_model(x->serve, x->arg[0], x->arg[1], &status, &d);
  if (m)
    stats_of(x, m);
  else
    rest_fail(x, status, &d);
}

// ---- the repository ----
static bool read_object(HttpExchange *x, Json *out, Diag *d) {
  *out = (Json){.kind = JSON_OBJECT};
  if (!x->body.n) return true;
  if (!json_parse(&x->arena, x->body, d, out) && out->kind == JSON_OBJECT) return true;
  if (!d->len) (void)fail(d, TENON_EINVAL, NOWHERE, "the request is no object of JSON");
  return false;
}

static void repository_index(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  Json j;
  Diag d;
  diag_init(&d);
  if (!read_object(x, &j, &d) || models_read_repository(x->serve, &d)) {
    rest_fail(x, 400, &d);
    return;
  }
  const Json *ready = json_get(&j, "ready");
  begin(x, &b, &w);
  json_begin_array(&w);
  for (const Model *m = x->serve->models; m; m = m->next) {
    if (m->gone || (ready && ready->b && m->state != MODEL_READY)) continue;
    json_begin_object(&w);
    key_str(&w, "name", m->name);
    key_str(&w, "version", m->version);
    key_str(&w, "state", ks_state(m));
    key_str(&w, "reason", m->why);
    json_end_object(&w);
  }
  json_end_array(&w);
  reply(x, &b);
}

static void waited(KsWaiter *wait, int status, const char *why) {
  HttpExchange *x = wait->user;
  x->on_gone = NULL;
  if (status == 200)
    http_reply(x, 200, "application/json", STR("{}"));
  else
    http_fail(x, status, "the model '%s': %s", wait->model->name, why);
}

static void wait_gone(HttpExchange *x) { ks_waiter_stop(x->user); }

static void change_model(HttpExchange *x, bool load) {
  Json j;
  Diag d;
  int status = 400;
  KsWaiter *w = arena_new(&x->arena, KsWaiter);
  *w = (KsWaiter){.done = waited, .user = x};
  diag_init(&d);
  if (read_object(x, &j, &d)) {
    const Json *p = json_get(&j, "parameters"), *config = p ? json_get(p, "config") : NULL;
    Str text = config && config->kind == JSON_STRING ? config->s : (Str){0};
    for (int64_t i = 0; p && i < p->n && p->kind == JSON_OBJECT; i++)
      if (str_starts(p->key[i], "file:")) {
        http_fail(x, 400, "a model's files come from the repository's folder, not with a request");
        return;
      }
    status =
        load ? ks_load(x->serve, x->arg[0], text, w, &d) : ks_unload(x->serve, x->arg[0], w, &d);
  }
  if (status) {
    rest_fail(x, status, &d);
    return;
  }
  x->user = w;
  x->on_gone = wait_gone;
}

static void load_model(HttpExchange *x) { change_model(x, true); }
static void unload_model(HttpExchange *x) { change_model(x, false); }

// ---- settings ----
static void reply_log(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  LogLevel level = log_level_now();
  begin(x, &b, &w);
  json_begin_object(&w);
  key_str(&w, "log_file", "");
  json_key(&w, "log_info");
  json_bool(&w, level >= LOG_INFO);
  json_key(&w, "log_warning");
  json_bool(&w, level >= LOG_WARNING);
  json_key(&w, "log_error");
  json_bool(&w, true);
  key_i64(&w, "log_verbose_level", level >= LOG_REQUESTS);
  key_str(&w, "log_format", "default");
  json_end_object(&w);
  reply(x, &b);
}

static void set_log(HttpExchange *x) {
  Json j;
  Diag d;
  diag_init(&d);
  if (!read_object(x, &j, &d)) {
    rest_fail(x, 400, &d);
    return;
  }
  for (int64_t i = 0; i < j.n; i++)
    if (!ks_set_log(j.key[i], j.item[i].kind == JSON_BOOL  ? j.item[i].b
                              : j.item[i].kind == JSON_INT ? j.item[i].i
                                                           : -1)) {
      http_fail(x, 400, "the setting '%.*s' cannot be changed to this", STR_ARG(j.key[i]));
      return;
    }
  reply_log(x);
}

// There is no tracing: its settings are those of a server that does not trace.
static void reply_trace(HttpExchange *x) {
  http_reply(x, 200, "application/json",
             STR("{\"trace_level\":[\"OFF\"],\"trace_rate\":\"1000\",\"trace_count\":\"-1\","
                 "\"log_frequency\":\"0\",\"trace_file\":\"\",\"trace_mode\":\"triton\"}"));
}

static bool is_off(const Json *v) {
  if (v->kind == JSON_NULL) return true;
  const Json *one = v->kind == JSON_ARRAY && v->n == 1 ? v->item : v;
  return one->kind == JSON_STRING && str_is(one->s, "OFF");
}

static void set_trace(HttpExchange *x) {
  Json j;
  Diag d;
  diag_init(&d);
  if (!read_object(x, &j, &d)) {
    rest_fail(x, 400, &d);
    return;
  }
  for (int64_t i = 0; i < j.n; i++)
    if (str_is(j.key[i], "trace_level") ? !is_off(&j.item[i]) : !ks_is_trace_setting(j.key[i])) {
      http_fail(x, 400, "this server does not trace: '%.*s' cannot be set", STR_ARG(j.key[i]));
      return;
    }
  reply_trace(x);
}

static void model_trace(HttpExchange *x) {
  Diag d;
  int status;
  diag_init(&d);
  if (!ks_model(x->serve, x->arg[0], (Str){0}, &status, &d))
    rest_fail(x, status, &d);
  else if (x->method == HTTP_POST)
    set_trace(x);
  else
    reply_trace(x);
}

#define ROUTE(method, path, handle)                                                                \
  { method, path, handle, .form = HTTP_FORM_KSERVE }
const HttpRoute kserve_routes[] = {
    ROUTE(HTTP_GET, "/v2", server_metadata),
    ROUTE(HTTP_GET, "/v2/models/stats", all_stats),
    ROUTE(HTTP_GET, "/v2/models/{}", model_metadata),
    ROUTE(HTTP_GET, "/v2/models/{}/ready", model_ready),
    ROUTE(HTTP_GET, "/v2/models/{}/config", model_config),
    ROUTE(HTTP_GET, "/v2/models/{}/stats", model_stats),
    ROUTE(HTTP_POST, "/v2/models/{}/infer", rest_infer),
    ROUTE(HTTP_GET, "/v2/models/{}/versions/{}", model_metadata),
    ROUTE(HTTP_GET, "/v2/models/{}/versions/{}/ready", model_ready),
    ROUTE(HTTP_GET, "/v2/models/{}/versions/{}/config", model_config),
    ROUTE(HTTP_GET, "/v2/models/{}/versions/{}/stats", model_stats),
    ROUTE(HTTP_POST, "/v2/models/{}/versions/{}/infer", rest_infer),
    ROUTE(HTTP_POST, "/v2/repository/index", repository_index),
    ROUTE(HTTP_POST, "/v2/repository/models/{}/load", load_model),
    ROUTE(HTTP_POST, "/v2/repository/models/{}/unload", unload_model),
    ROUTE(HTTP_GET, "/v2/logging", reply_log),
    ROUTE(HTTP_POST, "/v2/logging", set_log),
    ROUTE(HTTP_GET, "/v2/trace/setting", reply_trace),
    ROUTE(HTTP_POST, "/v2/trace/setting", set_trace),
    ROUTE(HTTP_GET | HTTP_POST, "/v2/models/{}/trace/setting", model_trace),
    {0}};
