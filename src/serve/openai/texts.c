// texts.c -- POST /tokenize, /detokenize and /apply-template: what a model makes of a text.
#include "serve/openai/ask.h"
#include "serve/openai/chat.h"
#include "serve/openai/tools.h"
#include "serve/routes.h"

static void answer_text(Asks *a, const char *key) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &a->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, key);
  json_str(&w, a->one->text);
  json_end_object(&w);
  http_reply(a->x, 200, "application/json", strbuf_str(&b));
}

// llama-server's form: {"tokens": [ids]}, or [{"id", "piece"}].
static void tokens_done(Asks *a) {
  Json j;
  Diag d;
  StrBuf b;
  JsonWriter w;
  diag_init(&d);
  const Json *ids = NULL, *pieces = NULL;
  if (!json_parse(&a->x->arena, a->one->text, &d, &j))
    ids = json_get(&j, "tokens"), pieces = json_get(&j, "pieces");
  strbuf_init(&b, &a->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "tokens");
  json_begin_array(&w);
  for (int64_t i = 0; ids && i < ids->n; i++) {
    if (!pieces) {
      json_i64(&w, ids->item[i].i);
      continue;
    }
    json_begin_object(&w);
    json_key(&w, "id");
    json_i64(&w, ids->item[i].i);
    json_key(&w, "piece");
    json_str(&w, pieces->item[i].s);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "count");
  json_i64(&w, ids ? ids->n : 0);
  json_end_object(&w);
  http_reply(a->x, 200, "application/json", strbuf_str(&b));
}

static void text_done(Asks *a) { answer_text(a, "content"); }
static void prompt_done(Asks *a) { answer_text(a, "prompt"); }

static void begin(Fields *f, Model *m, const char *ask, void (*done)(Asks *a)) {
  Asks *a = arena_new(&f->x->arena, Asks);
  Str text = str_of(ask);
  *a = (Asks){.x = f->x, .model = m, .n = 1, .done = done};
  asks_begin(a, &text);
}

static const char *json_text(Fields *f, const Json *v) {
  StrBuf b;
  JsonWriter w;
  Diag d;
  diag_init(&d);
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  if (json_put(&w, v, &d)) field_wrong(f, NULL, "%s", d.text);
  return strbuf_text(&b);
}

static void tokenize(HttpExchange *x) {
  Fields f;
  if (!fields_begin(&f, x)) return;
  Model *m = generate_model(&f);
  if (openai_missing(&f)) return;
  const Json *text = field_of(&f, "content", JSON_STRING, "a string");
  if (!text) text = field_of(&f, "prompt", JSON_STRING, "a string");
  if (!text) field_wrong(&f, "content", "'content' is needed");
  const Json *special = field_of(&f, "parse_special", JSON_BOOL, "true or false");
  bool add = field_bool(&f, "add_special"), pieces = field_bool(&f, "with_pieces");
  const char *ask = NULL;
  if (!f.why)
    ask = str_printf(&x->arena,
                     "{\"op\":\"tokenize\",\"text\":%s,\"special\":%s,\"plain\":%s,"
                     "\"pieces\":%s}",
                     json_text(&f, text), !special || special->b ? "true" : "false",
                     add ? "false" : "true", pieces ? "true" : "false");
  if (fields_end(&f)) begin(&f, m, ask, tokens_done);
}

static void detokenize(HttpExchange *x) {
  Fields f;
  if (!fields_begin(&f, x)) return;
  Model *m = generate_model(&f);
  if (openai_missing(&f)) return;
  const Json *tokens = field_of(&f, "tokens", JSON_ARRAY, "a list");
  if (!tokens) field_wrong(&f, "tokens", "'tokens' is needed");
  const char *ask = NULL;
  if (!f.why)
    ask = str_printf(&x->arena, "{\"op\":\"detokenize\",\"tokens\":%s}", json_text(&f, tokens));
  if (fields_end(&f)) begin(&f, m, ask, text_done);
}

static void apply_template(HttpExchange *x) {
  Fields f;
  if (!fields_begin(&f, x)) return;
  Model *m = generate_model(&f);
  if (openai_missing(&f)) return;
  Str messages = chat_member(&f);
  ToolsAsk tools;
  tools_ask_read(&f, &tools, false);
  const char *ask = NULL, *list = "null";
  Json text = {.kind = JSON_STRING, .s = tools.text};
  if (tools.list) list = json_text(&f, &text);
  if (!f.why)
    ask = str_printf(&x->arena, "{\"op\":\"template\",\"tools\":%s,%.*s}", list, (int)messages.n,
                     messages.p);
  if (fields_end(&f)) begin(&f, m, ask, prompt_done);
}

const HttpRoute text_routes[] = {
    {.methods = HTTP_POST, .path = "/tokenize", .handle = tokenize},
    {.methods = HTTP_POST, .path = "/detokenize", .handle = detokenize},
    {.methods = HTTP_POST, .path = "/apply-template", .handle = apply_template},
    {0}};
