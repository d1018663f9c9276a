// metrics.c -- GET /metrics: what was counted and measured, as Prometheus reads it.
//
// Histograms have the bounds of llm_bound.  Energy is that of the machine's packages (RAPL), where
// the system lets it be read: divide by tokens over the same time for the energy of a token.
#include "base/platform.h"
#include "serve/llm/llm.h"
#include "serve/routes.h"
#include "serve/serve.h"

#include <stdio.h>

enum { ENERGY_ZONES = 16 };

typedef struct Row {
  const char *name, *type, *help;
  double (*value)(const Model *m, const LlmStats *s);
} Row;

#define VALUE(name, expression)                                                                    \
  static double name(const Model *m, const LlmStats *s) {                                          \
    (void)m, (void)s;                                                                              \
    return (double)(expression);                                                                   \
  }
VALUE(requests, s->requests)
VALUE(failed, s->failed)
VALUE(cancelled, s->cancelled)
VALUE(refused, s->refused)
VALUE(deaths, s->deaths)
VALUE(prompt_tokens, s->prompt_tokens)
VALUE(tokens, s->tokens)
VALUE(queued, llm_waiting(m))
VALUE(running, s->counts.running)
VALUE(waiting, s->counts.waiting)
VALUE(pages, s->counts.pages)
VALUE(pages_free, s->counts.pages_free)
VALUE(pages_cached, s->counts.pages_cached)
VALUE(cached_tokens, s->counts.cached_tokens)
VALUE(drafted, s->counts.drafted)
VALUE(accepted, s->counts.accepted)
VALUE(preempted, s->counts.preempted)
VALUE(steps, s->counts.steps)
VALUE(rows, s->counts.rows)
VALUE(bytes, m->bytes)
VALUE(loaded, m->state == MODEL_READY)

static const Row row[] = {
    {"tenon_requests_total", "counter", "asks of an engine: a choice, a text, a document",
     requests},
    {"tenon_requests_failed_total", "counter", "asks that an engine's end failed", failed},
    {"tenon_requests_cancelled_total", "counter", "asks whose client went away", cancelled},
    {"tenon_requests_refused_total", "counter",
     "asks beyond the queue, or of a model that is not there", refused},
    {"tenon_engine_deaths_total", "counter", "engines that ended by themselves", deaths},
    {"tenon_prompt_tokens_total", "counter", "tokens of prompts", prompt_tokens},
    {"tenon_generated_tokens_total", "counter", "tokens generated", tokens},
    {"tenon_queue_requests", "gauge", "asks that wait in the front", queued},
    {"tenon_engine_running", "gauge", "sequences that run", running},
    {"tenon_engine_waiting", "gauge", "sequences that wait in the engine", waiting},
    {"tenon_kv_pages", "gauge", "pages of the KV cache", pages},
    {"tenon_kv_pages_free", "gauge", "pages that nobody uses", pages_free},
    {"tenon_kv_pages_cached", "gauge", "pages kept for equal beginnings", pages_cached},
    {"tenon_prefix_hit_tokens_total", "counter", "tokens of prompts found in cached pages",
     cached_tokens},
    {"tenon_drafted_tokens_total", "counter", "draft tokens", drafted},
    {"tenon_accepted_tokens_total", "counter", "draft tokens that were right", accepted},
    {"tenon_preemptions_total", "counter", "sequences that gave their pages up", preempted},
    {"tenon_steps_total", "counter", "steps", steps},
    {"tenon_step_rows_total", "counter", "tokens that the model computed", rows},
    {"tenon_model_bytes", "gauge", "memory of the model, its mapped weights included", bytes},
    {"tenon_model_loaded", "gauge", "1: requests are answered", loaded},
};

static void head(StrBuf *b, const char *name, const char *type, const char *help) {
  strbuf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static bool is_shown(const Serve *s, const Model *m) {
  return llm_is(m) && llm_stats(m) && models_find(s, str_of(m->name)) == m;
}

static void put_rows(StrBuf *b, const Serve *s) {
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    head(b, row[i].name, row[i].type, row[i].help);
    for (const Model *m = s->models; m; m = m->next)
      if (is_shown(s, m))
        strbuf_printf(b, "%s{model=\"%s\"} %.17g\n", row[i].name, m->name,
                      row[i].value(m, llm_stats(m)));
  }
}

// ---- histograms ----
static void put_histogram(StrBuf *b, const Serve *s, const char *name, const char *help,
                          int64_t at) {
  head(b, name, "histogram", help);
  for (const Model *m = s->models; m; m = m->next) {
    if (!is_shown(s, m)) continue;
    const LlmHistogram *h = (const void *)((const char *)llm_stats(m) + at);
    uint64_t n = 0;
    for (int i = 0; i <= LLM_BOUNDS; i++) {
      n += h->count[i];
      if (i < LLM_BOUNDS)
        strbuf_printf(b, "%s_bucket{model=\"%s\",le=\"%g\"} %llu\n", name, m->name, llm_bound[i],
                      (unsigned long long)n);
    }
    strbuf_printf(b, "%s_bucket{model=\"%s\",le=\"+Inf\"} %llu\n%s_sum{model=\"%s\"} %.9g\n", name,
                  m->name, (unsigned long long)n, name, m->name, h->sum);
    strbuf_printf(b, "%s_count{model=\"%s\"} %llu\n", name, m->name, (unsigned long long)n);
  }
}

static void put_batches(StrBuf *b, const Serve *s) {
  const char *name = "tenon_batch_rows";
  head(b, name, "histogram", "steps by the mean of their rows between two reports of the engine");
  for (const Model *m = s->models; m; m = m->next) {
    if (!is_shown(s, m)) continue;
    const LlmStats *st = llm_stats(m);
    uint64_t n = 0;
    for (int i = 0; i <= LLM_BOUNDS; i++) {
      n += st->rows_of_step[i];
      if (i < LLM_BOUNDS)
        strbuf_printf(b, "%s_bucket{model=\"%s\",le=\"%d\"} %llu\n", name, m->name, 1 << i,
                      (unsigned long long)n);
    }
    strbuf_printf(b, "%s_bucket{model=\"%s\",le=\"+Inf\"} %llu\n%s_sum{model=\"%s\"} %lld\n", name,
                  m->name, (unsigned long long)n, name, m->name, (long long)st->counts.rows);
    strbuf_printf(b, "%s_count{model=\"%s\"} %llu\n", name, m->name, (unsigned long long)n);
  }
}

// ---- the whole server ----
static void put_server(StrBuf *b, const Serve *s) {
  const struct {
    const char *name, *type, *help;
    double value;
  } of[] = {
      {"tenon_http_requests_total", "counter", "requests", (double)http_requests(s->http)},
      {"tenon_http_active", "gauge", "requests that are not answered",
       (double)http_active(s->http)},
      {"tenon_http_connections", "gauge", "open connections", (double)http_connections(s->http)},
      {"tenon_uptime_seconds", "gauge", "since the start",
       (double)(platform->now() - s->began) / 1e9}};
  for (int64_t i = 0; i < ARRAY_LEN(of); i++) {
    head(b, of[i].name, of[i].type, of[i].help);
    strbuf_printf(b, "%s %.9g\n", of[i].name, of[i].value);
  }
}

// The counters of the packages, which only some systems let others than root read.
static void put_energy(StrBuf *b) {
  double joules = 0;
  bool any = false;
  for (int i = 0; i < ENERGY_ZONES; i++) {
    char path[96], text[32];
    int64_t n;
    snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/energy_uj", i);
    file_small(path, text, sizeof text);
    text[strcspn(text, "\n")] = 0;
    if (str_to_i64(str_of(text), &n)) joules += (double)n / 1e6, any = true;
  }
  if (!any) return;
  head(b, "tenon_energy_joules_total", "counter", "energy of the machine's packages (RAPL)");
  strbuf_printf(b, "tenon_energy_joules_total %.9g\n", joules);
}

static void metrics(HttpExchange *x) {
  static const struct {
    const char *name, *help;
    int64_t at;
  } of[] = {{"tenon_first_token_seconds", "from the request to its first token",
             offsetof(LlmStats, first_token)},
            {"tenon_next_token_seconds", "between two tokens of an answer",
             offsetof(LlmStats, next_token)},
            {"tenon_request_seconds", "from the request to its end", offsetof(LlmStats, whole)},
            {"tenon_queue_seconds", "from the request to the engine", offsetof(LlmStats, queue)}};
  StrBuf b;
  strbuf_init(&b, &x->arena);
  put_server(&b, x->serve);
  put_rows(&b, x->serve);
  for (int64_t i = 0; i < ARRAY_LEN(of); i++)
    put_histogram(&b, x->serve, of[i].name, of[i].help, of[i].at);
  put_batches(&b, x->serve);
  put_energy(&b);
  http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", strbuf_str(&b));
}

const HttpRoute metrics_routes[] = {{.methods = HTTP_GET, .path = "/metrics", .handle = metrics},
                                    {0}};
