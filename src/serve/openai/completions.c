// completions.c -- POST /v1/completions.
#include "serve/openai/logprobs.h"
#include "serve/routes.h"

// ---- answers ----
static void put_choice(const Answers *a, JsonWriter *w, Choice *c, Str text, const TokenLog *log,
                       int64_t n, const char *finish) {
  json_begin_object(w);
  json_key(w, "index");
  json_i64(w, c->index);
  json_key(w, "text");
  json_str(w, text);
  if (a->logs && n) {
    logprobs_completion(w, log, n, &c->offset);
  } else {
    json_key(w, "logprobs");
    json_null(w);
  }
  json_key(w, "finish_reason");
  json_cstr(w, finish);
  json_end_object(w);
}

static void whole(Answers *a, JsonWriter *w) {
  json_begin_object(w);
  answers_head(a, w, "text_completion");
  json_key(w, "choices");
  json_begin_array(w);
  for (int64_t i = 0; i < a->nchoices; i++) {
    Choice *c = &a->choice[i];
    put_choice(a, w, c, strbuf_str(&c->text), c->log.v, c->log.n, c->finish);
  }
  json_end_array(w);
  answers_usage(a, w);
  json_end_object(w);
}

static void chunk(Answers *a, Choice *c, const Delta *d, const char *finish) {
  JsonWriter *w = answers_event(a);
  json_begin_object(w);
  answers_head(a, w, "text_completion");
  json_key(w, "choices");
  json_begin_array(w);
  if (c) put_choice(a, w, c, d->text, d->log, d->n, finish);
  json_end_array(w);
  if (!c) {
    answers_usage(a, w);
  } else if (a->usage) {
    json_key(w, "usage");
    json_null(w);
  }
  json_end_object(w);
  answers_send(a, NULL, w);
}

static void delta(Answers *a, Choice *c, const Delta *d) { chunk(a, c, d, NULL); }
static void choice_end(Answers *a, Choice *c) {
  static const Delta nothing = {.text = {"", 0}};
  chunk(a, c, &nothing, c->finish);
}
static void end(Answers *a) {
  if (a->usage) chunk(a, NULL, NULL, NULL);
  http_write(a->x, STR("data: [DONE]\n\n"));
}

static const AnswerForm form = {
    .delta = delta, .choice_end = choice_end, .end = end, .whole = whole};

// ---- requests ----
static bool is_tokens(const Json *v) {
  for (int64_t i = 0; i < v->n; i++)
    if (v->item[i].kind != JSON_INT) return false;
  return v->n > 0;
}

static Str member(Fields *f, const Json *v, bool echo) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, v->kind == JSON_STRING ? "text" : "tokens");
  Diag d;
  diag_init(&d);
  if (json_put(&w, v, &d)) field_wrong(f, "prompt", "%s", d.text);
  json_key(&w, "special");
  json_bool(&w, true);
  json_key(&w, "echo");
  json_bool(&w, echo);
  return (Str){b.p + 1, b.n - 1};  // without its brace
}

// A text, tokens, or a list of either.
static void read_prompts(Fields *f, Answers *a) {
  const Json *v = field(f, "prompt");
  if (!v) field_wrong(f, "prompt", "'prompt' is needed");
  if (!v || f->why) return;
  bool one = v->kind == JSON_STRING || is_tokens(v);
  a->nprompts = one ? 1 : v->n;
  if ((!one && v->kind != JSON_ARRAY) || !a->nprompts)
    field_wrong(f, "prompt", "'prompt' is a text, a list of tokens, or a list of either");
  if (a->nprompts * a->n > SERVE_CHOICES)
    field_wrong(f, "prompt", "%lld prompts times n = %lld are more than %d answers",
                (long long)a->nprompts, (long long)a->n, SERVE_CHOICES);
  if (f->why) return;
  Str *prompt = arena_array(&f->x->arena, Str, a->nprompts);
  for (int64_t i = 0; i < a->nprompts; i++) {
    const Json *item = one ? v : &v->item[i];
    if ((item->kind == JSON_STRING && !item->s.n) ||
        (item->kind != JSON_STRING && !is_tokens(item)))
      field_wrong(f, "prompt", "a prompt is neither a text nor a list of tokens, or empty");
    if (f->why) return;
    prompt[i] = member(f, item, a->echo);
  }
  a->prompt = prompt;
}

static void completions(HttpExchange *x) {
  static const char *const most[2] = {"max_tokens", "max_completion_tokens"};
  Fields f;
  int64_t top = -1;
  if (!fields_begin(&f, x)) return;
  Answers *a = arena_new(&x->arena, Answers);
  *a = (Answers){.x = x, .form = &form, .id = "cmpl-"};
  a->model = generate_model(&f);
  if (openai_missing(&f)) return;
  generate_read(&f, a, most);
  a->echo = field_bool(&f, "echo");
  a->logs = field_int(&f, "logprobs", &top);
  if (field(&f, "suffix")) field_wrong(&f, "suffix", "'suffix' is not supported");
  form_read(&f, a);
  read_prompts(&f, a);
  if (!fields_end(&f)) return;
  if (a->logs)
    generate_add(a, str_printf(&x->arena, ",\"logprobs\":%lld,\"prompt_logprobs\":%s",
                               (long long)top, a->echo ? "true" : "false"));
  answers_begin(a);
}

const HttpRoute completion_routes[] = {
    {.methods = HTTP_POST, .path = "/v1/completions", .handle = completions}, {0}};
