// chat.c -- POST /v1/chat/completions.
#include "serve/openai/chat.h"
#include "serve/openai/logprobs.h"
#include "serve/openai/tools.h"
#include "serve/routes.h"

// ---- answers ----
static void put_logs(const Answers *a, JsonWriter *w, const TokenLog *log, int64_t n) {
  if (a->logs && n) {
    logprobs_chat(w, log, n);
    return;
  }
  json_key(w, "logprobs");
  json_null(w);
}

// A call; `index` -1: of an answer that is no stream, which has it whole.
static void put_call(JsonWriter *w, const CallMade *call, int64_t index, Str arguments) {
  json_begin_object(w);
  if (index >= 0) {
    json_key(w, "index");
    json_i64(w, index);
  }
  json_key(w, "id");
  json_str(w, call->id);
  json_key(w, "type");
  json_cstr(w, "function");
  json_key(w, "function");
  json_begin_object(w);
  json_key(w, "name");
  json_str(w, call->name);
  json_key(w, "arguments");
  json_str(w, arguments);
  json_end_object(w);
  json_end_object(w);
}

static void put_message(JsonWriter *w, const Choice *c) {
  json_key(w, "message");
  json_begin_object(w);
  json_key(w, "role");
  json_cstr(w, "assistant");
  json_key(w, "content");
  if (c->text.n || !c->call_made.n)
    json_str(w, strbuf_str(&c->text));
  else
    json_null(w);
  if (c->reasoning.n) {
    json_key(w, "reasoning_content");
    json_str(w, strbuf_str(&c->reasoning));
  }
  if (c->call_made.n) {
    json_key(w, "tool_calls");
    json_begin_array(w);
    for (int64_t i = 0; i < c->call_made.n; i++)
      put_call(w, &c->call_made.v[i], -1, strbuf_str(&c->call_made.v[i].arguments));
    json_end_array(w);
  }
  json_key(w, "refusal");
  json_null(w);
  json_end_object(w);
}

static void whole(Answers *a, JsonWriter *w) {
  json_begin_object(w);
  answers_head(a, w, "chat.completion");
  json_key(w, "choices");
  json_begin_array(w);
  for (int64_t i = 0; i < a->nchoices; i++) {
    Choice *c = &a->choice[i];
    json_begin_object(w);
    json_key(w, "index");
    json_i64(w, c->index);
    put_message(w, c);
    put_logs(a, w, c->log.v, c->log.n);
    json_key(w, "finish_reason");
    json_cstr(w, c->finish);
    json_end_object(w);
  }
  json_end_array(w);
  answers_usage(a, w);
  json_end_object(w);
}

// A chunk with one choice, up to the inside of its delta.
static JsonWriter *chunk_begin(Answers *a, const Choice *c) {
  JsonWriter *w = answers_event(a);
  json_begin_object(w);
  answers_head(a, w, "chat.completion.chunk");
  json_key(w, "choices");
  json_begin_array(w);
  json_begin_object(w);
  json_key(w, "index");
  json_i64(w, c->index);
  json_key(w, "delta");
  json_begin_object(w);
  return w;
}

static void chunk_end(Answers *a, JsonWriter *w, const TokenLog *log, int64_t n,
                      const char *finish) {
  json_end_object(w);
  put_logs(a, w, log, n);
  json_key(w, "finish_reason");
  json_cstr(w, finish);
  json_end_object(w);
  json_end_array(w);
  if (a->usage) {
    json_key(w, "usage");
    json_null(w);
  }
  json_end_object(w);
  answers_send(a, NULL, w);
}

static void begin(Answers *a) {
  for (int64_t i = 0; i < a->nchoices; i++) {
    JsonWriter *w = chunk_begin(a, &a->choice[i]);
    json_key(w, "role");
    json_cstr(w, "assistant");
    json_key(w, "content");
    json_cstr(w, "");
    chunk_end(a, w, NULL, 0, NULL);
  }
}

static void delta(Answers *a, Choice *c, const Delta *d) {
  JsonWriter *w = chunk_begin(a, c);
  json_key(w, "content");
  json_str(w, d->text);
  chunk_end(a, w, d->log, d->n, NULL);
}

static void reasoning(Answers *a, Choice *c, Str text) {
  JsonWriter *w = chunk_begin(a, c);
  json_key(w, "reasoning_content");
  json_str(w, text);
  chunk_end(a, w, NULL, 0, NULL);
}

static void call_begin(Answers *a, Choice *c, int64_t index) {
  JsonWriter *w = chunk_begin(a, c);
  json_key(w, "tool_calls");
  json_begin_array(w);
  put_call(w, &c->call_made.v[index], index, STR(""));
  json_end_array(w);
  chunk_end(a, w, NULL, 0, NULL);
}

static void arguments(Answers *a, Choice *c, int64_t index, Str piece) {
  JsonWriter *w = chunk_begin(a, c);
  json_key(w, "tool_calls");
  json_begin_array(w);
  json_begin_object(w);
  json_key(w, "index");
  json_i64(w, index);
  json_key(w, "function");
  json_begin_object(w);
  json_key(w, "arguments");
  json_str(w, piece);
  json_end_object(w);
  json_end_object(w);
  json_end_array(w);
  chunk_end(a, w, NULL, 0, NULL);
}

static void choice_end(Answers *a, Choice *c) {
  chunk_end(a, chunk_begin(a, c), NULL, 0, c->finish);
}

static void end(Answers *a) {
  if (a->usage) {
    JsonWriter *w = answers_event(a);
    json_begin_object(w);
    answers_head(a, w, "chat.completion.chunk");
    json_key(w, "choices");
    json_begin_array(w);
    json_end_array(w);
    answers_usage(a, w);
    json_end_object(w);
    answers_send(a, NULL, w);
  }
  http_write(a->x, STR("data: [DONE]\n\n"));
}

static const AnswerForm form = {.begin = begin,
                                .delta = delta,
                                .reasoning = reasoning,
                                .call_begin = call_begin,
                                .arguments = arguments,
                                .choice_end = choice_end,
                                .end = end,
                                .whole = whole};

// ---- requests ----
static void read_logprobs(Fields *f, Answers *a, int64_t *top) {
  a->logs = field_bool(f, "logprobs");
  *top = 0;
  if (field_int(f, "top_logprobs", top) && !a->logs)
    field_wrong(f, "top_logprobs", "'top_logprobs' needs 'logprobs' to be true");
}

static void chat(HttpExchange *x) {
  static const char *const most[2] = {"max_completion_tokens", "max_tokens"};
  static const char *const ignored[] = {"modalities", NULL};
  ToolsAsk tools;
  Fields f;
  int64_t top;
  if (!fields_begin(&f, x)) return;
  Answers *a = arena_new(&x->arena, Answers);
  *a = (Answers){.x = x, .form = &form, .id = "chatcmpl-", .nprompts = 1};
  a->model = generate_model(&f);
  if (openai_missing(&f)) return;
  generate_read(&f, a, most);
  read_logprobs(&f, a, &top);
  form_read(&f, a);
  fields_ignore(&f, ignored);
  tools_ask_read(&f, &tools, false);
  tools_ask_add(&f, a, &tools);
  Str *prompt = arena_new(&x->arena, Str);
  *prompt = chat_member(&f);
  a->prompt = prompt;
  if (!fields_end(&f)) return;
  if (a->logs) generate_add(a, str_printf(&x->arena, ",\"logprobs\":%lld", (long long)top));
  answers_begin(a);
}

const HttpRoute chat_routes[] = {
    {.methods = HTTP_POST, .path = "/v1/chat/completions", .handle = chat}, {0}};
