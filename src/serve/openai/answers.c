// answers.c -- from the engine's events to an answer or a stream (answers.h).
#include "serve/openai/tools.h"

#include "base/platform.h"

// ---- what forms share ----
int64_t answers_tokens(const Answers *a) {
  int64_t n = 0;
  for (int64_t i = 0; i < a->nchoices; i++) n += a->choice[i].tokens;
  return n;
}

// A prompt counts once, whatever the number of its answers.
int64_t answers_prompt_tokens(const Answers *a) {
  int64_t n = 0;
  for (int64_t i = 0; i < a->nchoices; i += a->n) n += a->choice[i].prompt_tokens;
  return n;
}

void answers_head(const Answers *a, JsonWriter *w, const char *object) {
  json_key(w, "id");
  json_cstr(w, a->id);
  json_key(w, "object");
  json_cstr(w, object);
  json_key(w, "created");
  json_i64(w, platform->file_time());
  json_key(w, "model");
  json_cstr(w, a->name);
  json_key(w, "system_fingerprint");
  json_cstr(w, str_printf(&a->x->arena, "tenon-%s", tenon_version()));
}

void answers_usage(const Answers *a, JsonWriter *w) {
  int64_t prompt = answers_prompt_tokens(a), made = answers_tokens(a);
  json_key(w, "usage");
  json_begin_object(w);
  json_key(w, "prompt_tokens");
  json_i64(w, prompt);
  json_key(w, "completion_tokens");
  json_i64(w, made);
  json_key(w, "total_tokens");
  json_i64(w, prompt + made);
  json_end_object(w);
}

// ---- streams ----
typedef struct Out {
  StrBuf text;
  JsonWriter w;
} Out;

JsonWriter *answers_event(Answers *a) {
  Out *o = arena_new(&a->scratch, Out);
  strbuf_init(&o->text, &a->scratch);
  json_init(&o->w, &o->text, true);
  return &o->w;
}

static void send_text(Answers *a, const char *name, Str json) {
  StrBuf b;
  strbuf_init(&b, &a->scratch);
  if (name) strbuf_printf(&b, "event: %s\n", name);
  strbuf_puts(&b, "data: ");
  strbuf_put(&b, json);
  strbuf_puts(&b, "\n\n");
  http_write(a->x, strbuf_str(&b));
}

void answers_send(Answers *a, const char *name, const JsonWriter *w) {
  send_text(a, name, strbuf_str(w->out));
}

static void cancel_rest(Answers *a) {
  for (int64_t i = 0; i < a->nchoices; i++)
    if (!a->choice[i].ended) llm_call_cancel(&a->choice[i].call);
}

static void begin_stream(Answers *a) {
  a->begun = true;
  http_header(a->x, "Cache-Control", "no-cache");
  http_begin(a->x, 200, "text/event-stream; charset=utf-8");
  if (a->form->begin) a->form->begin(a);
}

// ---- the end ----
static void forget(Answers *a) {
  a->x->on_gone = NULL;
  generate_leave(a->x, &a->entered);
  arena_deinit(&a->scratch);
}

static void fail_all(Answers *a, int status, const char *why) {
  HttpExchange *x = a->x;
  cancel_rest(a);
  if (!a->begun) {
    forget(a);
    http_fail_as(x, status, NULL, NULL, why);
    return;
  }
  send_text(a, NULL, http_error_json(&x->arena, HTTP_FORM_OPENAI, status, NULL, NULL, why));
  forget(a);
  http_end(x);
}

static void finish_all(Answers *a) {
  HttpExchange *x = a->x;
  if (a->stream) {
    a->form->end(a);
    forget(a);
    http_end(x);
    return;
  }
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &x->arena);
  json_init(&w, &b, true);
  a->form->whole(a, &w);
  forget(a);
  http_reply(x, 200, "application/json", strbuf_str(&b));
}

// ---- events ----
static TokenLog token_log(Arena *a, const LlmEvent *e) {
  TokenLog t = {.bytes = e->piece[0].bytes, .logprob = e->piece[0].logprob};
  t.bytes = (Str){arena_dup(a, t.bytes.p, t.bytes.n), t.bytes.n};
  t.ntop = e->npieces - 1;
  t.top = arena_dup(a, e->piece + 1, t.ntop * (int64_t)sizeof *t.top);
  for (int64_t i = 0; i < t.ntop; i++)
    t.top[i].bytes.p = arena_dup(a, t.top[i].bytes.p, t.top[i].bytes.n);
  return t;
}

static void give(Answers *a, Choice *c, Str text, const TokenLog *log) {
  if (c->parser) {
    tools_text(c, text);
    text = STR("");
  }
  if (a->stream) {
    Delta d = {text, log ? 1 : 0, log};
    if (text.n || log) a->form->delta(a, c, &d);
    return;
  }
  strbuf_put(&c->text, text);
  if (log) vec_push(&a->x->arena, &c->log, *log);
}

static void take_event(Answers *a, Choice *c, const LlmEvent *e) {
  bool token = e->kind == TENON_LLM_TOKEN;
  if (token) {
    int64_t now = platform->now();
    LlmStats *s = llm_stats(a->model);
    llm_measure(c->tokens ? &s->next_token : &s->first_token,
                (double)(now - (c->tokens ? c->last : a->x->began)) / 1e9);
    if (!a->first_token) a->first_token = now;
    c->last = now;
    c->tokens++;
  }
  // The token that ends an answer is no part of it.
  bool logs = e->npieces && a->logs && !(token && e->finish == TENON_LLM_STOP && !e->text.n);
  TokenLog log;
  if (logs) log = token_log(a->stream ? &a->scratch : &a->x->arena, e);
  give(a, c, e->text, logs ? &log : NULL);
}

static void end_choice(Answers *a, Choice *c, const LlmEvent *e) {
  c->ended = true;
  a->ended++;
  c->finish = e->finish == TENON_LLM_LENGTH ? "length" : "stop";
  tools_end(c);
  if (a->stream) a->form->choice_end(a, c);
  LlmStats *s = llm_stats(a->model);
  s->prompt_tokens += (uint64_t)c->prompt_tokens;
  s->tokens += (uint64_t)c->tokens;
  llm_measure(&s->whole, (double)(platform->now() - a->x->began) / 1e9);
}

static void take_accepted(Answers *a, Choice *c, Str json) {
  Json j;
  Diag d;
  diag_init(&d);
  c->accepted = true;
  if (json_parse(&a->x->arena, json, &d, &j)) return;
  const Json *n = json_get(&j, "prompt_tokens"), *text = json_get(&j, "text");
  const Json *first = json_get(&j, "first");
  if (n) c->prompt_tokens = n->i;
  tools_begin(a, c, &j);
  if (a->stream && !a->begun) begin_stream(a);
  if (!a->echo || !text || !first) return;
  TokenLog log = {.bytes = first->s, .none = true};
  give(a, c, text->s, a->logs ? &log : NULL);
}

static void take(Answers *a, Choice *c, const LlmAnswer *r) {
  if (r->kind == LLM_IS_ACCEPTED) {
    take_accepted(a, c, r->bytes);
    return;
  }
  if (r->kind != LLM_IS_EVENT) {
    c->ended = true;
    a->ended++;
    fail_all(a, r->kind == LLM_IS_ERROR ? r->status : 500, r->kind == LLM_IS_ERROR ? r->why : "");
    return;
  }
  const LlmEvent *e = r->event;
  if (e->finish == TENON_LLM_NO_TOKEN) {
    c->ended = true;
    a->ended++;
    fail_all(a, 500, "the model left no token to choose");
    return;
  }
  take_event(a, c, e);
  if (r->last) end_choice(a, c, e);
  if (a->ended == a->nchoices) finish_all(a);
}

// Called from an engine's frame, where nobody else catches memory that runs out.
static void on_answer(LlmCall *call, const LlmAnswer *r) {
  Choice *c = call->user;
  Answers *a = c->answers;
  HttpExchange *x = a->x;
  Diag d;
  Trap t;
  bool last = r->last;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    arena_reset(&a->scratch, a->scratch_begin);
    take(a, c, r);
  }
  trap_leave(&t);
  if (!t.status) return;
  c->ended |= last;
  cancel_rest(a);
  bool begun = a->begun;
  forget(a);
  if (begun) {
    http_write(x, STR("data: {\"error\":{\"message\":\"out of memory\"}}\n\n"));
    http_end(x);
  } else {
    http_reply(x, 503, "application/json", STR("{\"error\":{\"message\":\"out of memory\"}}"));
  }
}

static void on_gone(HttpExchange *x) {
  Answers *a = x->user;
  cancel_rest(a);
  generate_leave(x, &a->entered);
  arena_deinit(&a->scratch);
}

// ---- the log line ----
static void on_log(const HttpExchange *x, JsonWriter *w) {
  const Answers *a = x->user;
  json_key(w, "model");
  json_cstr(w, a->name);
  json_key(w, "prompt_tokens");
  json_i64(w, answers_prompt_tokens(a));
  json_key(w, "completion_tokens");
  json_i64(w, answers_tokens(a));
  json_key(w, "seed");
  json_i64(w, a->seed);
  if (a->first_token) {
    json_key(w, "first_token_ms");
    json_f64(w, (double)((a->first_token - x->began) / 1000) / 1000);
  }
  if (!x->serve->config.log_text) return;
  json_key(w, "request");
  json_str(w, x->body);
}

// ---- asking ----
static Str ask_of(const Answers *a, int64_t i) {
  StrBuf b;
  strbuf_init(&b, &a->x->arena);
  strbuf_puts(&b, "{\"op\":\"generate\",");
  strbuf_put(&b, a->prompt[i / a->n]);
  strbuf_put(&b, a->sampling);
  // Choices differ by their seeds; the first has the request's own.
  strbuf_printf(&b, ",\"seed\":%lld,\"client\":%u,\"salt\":%lld}",
                (long long)((uint64_t)a->seed + (uint64_t)(i % a->n)), a->x->client,
                (long long)generate_salt(a->x));
  return strbuf_str(&b);
}

void answers_begin(Answers *a) {
  HttpExchange *x = a->x;
  Diag d;
  diag_init(&d);
  arena_init(&a->scratch);
  a->scratch_begin = arena_mark(&a->scratch);
  a->nchoices = a->n * a->nprompts;
  a->choice = arena_array(&x->arena, Choice, a->nchoices);
  a->id = str_printf(&x->arena, "%s%016llx", a->id, (unsigned long long)x->id);
  for (int64_t i = 0; i < a->nchoices; i++) {
    Choice *c = &a->choice[i];
    c->answers = a;
    c->index = i;
    strbuf_init(&c->text, &x->arena);
    strbuf_init(&c->reasoning, &x->arena);
    c->call = (LlmCall){.model = a->model,
                        .ask = ask_of(a, i),
                        .client = x->client,
                        .answer = on_answer,
                        .user = c};
  }
  if (!generate_enter(x, &a->entered)) return;
  x->user = a;
  x->log = on_log;
  for (int64_t i = 0; i < a->nchoices; i++) {
    int status = llm_call(&a->choice[i].call, &d);
    if (!status) continue;
    while (i--) llm_call_cancel(&a->choice[i].call);
    forget(a);
    http_fail(x, status, "%s", d.text);
    return;
  }
  x->on_gone = on_gone;
}
