// operation.c -- routes for whoever runs the server: health, readiness; and the log line of a
// request.
#include "base/platform.h"
#include "serve/http_conn.h"
#include "serve/log.h"
#include "serve/routes.h"
#include "serve/serve.h"

// Alive: the loop turns.
static void health(HttpExchange *x) {
  http_reply(x, 200, "application/json", STR("{\"status\":\"ok\"}"));
}

static void say_not_ready(HttpExchange *x) {
  for (const Model *m = x->serve->models; m; m = m->next)
    if (m->state == MODEL_LOADING || m->state == MODEL_FAILED) {
      http_fail(x, 503, "the model '%s' is %s%s%s", m->name,
                m->state == MODEL_LOADING ? "being loaded" : "not there", m->why[0] ? ": " : "",
                m->why);
      return;
    }
}

static void ready(HttpExchange *x) {
  if (x->serve->draining)
    http_fail(x, 503, "the server is shutting down");
  else if (!models_ready(x->serve))
    say_not_ready(x);
  else
    http_reply(x, 200, "application/json", STR("{\"status\":\"ready\"}"));
}

const HttpRoute operation_routes[] = {
    {HTTP_GET, "/health", health, .open = true},
    {HTTP_GET, "/ready", ready, .open = true},
    {HTTP_GET, "/v2/health/live", health, .form = HTTP_FORM_KSERVE, .open = true},
    {HTTP_GET, "/v2/health/ready", ready, .form = HTTP_FORM_KSERVE, .open = true},
    {0}};

static const char *method_name(const HttpExchange *x) {
  if (x->head && x->head->head) return "HEAD";
  return x->method == HTTP_GET      ? "GET"
         : x->method == HTTP_POST   ? "POST"
         : x->method == HTTP_PUT    ? "PUT"
         : x->method == HTTP_DELETE ? "DELETE"
                                    : "OPTIONS";
}

typedef struct Answered {
  const HttpExchange *x;
  int status;
  int64_t bytes;
} Answered;

static void write_request(void *arg) {
  const Answered *a = arg;
  const HttpExchange *x = a->x;
  JsonWriter *w = log_begin(a->status >= 500 ? LOG_WARNING : LOG_REQUESTS, "request");
  if (!w) return;
  char id[24];
  for (int i = 0; i < 16; i++) id[i] = "0123456789abcdef"[x->id >> (60 - 4 * i) & 15];
  json_key(w, "id");
  json_str(w, (Str){id, 16});
  json_key(w, "method");
  json_cstr(w, method_name(x));
  json_key(w, "path");
  json_str(w, (Str){x->path.p, MIN(x->path.n, 200)});
  json_key(w, "status");
  json_i64(w, a->status);
  json_key(w, "bytes");
  json_i64(w, a->bytes);
  json_key(w, "ms");
  json_f64(w, (double)((platform->now() - x->began) / 1000) / 1000);
  if (x->log) x->log(x, w);
  log_end();
}

void exchange_log(const HttpExchange *x, int status, int64_t bytes) {
  if (log_level_now() < (status >= 500 ? LOG_WARNING : LOG_REQUESTS)) return;
  log_guarded(write_request, &(Answered){x, status, bytes});
}
