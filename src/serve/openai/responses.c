// responses.c -- POST /v1/responses: OpenAI's newer form of a conversation.
//
// An answer is a list of items: reasoning, a message, calls of functions, in the order in which the
// model gives them.  A stream opens an item with its first piece and closes it when another one
// begins.  Nothing is stored, so `previous_response_id` is refused: a client sends the
// conversation.
#include "base/platform.h"
#include "serve/openai/chat.h"
#include "serve/openai/tools.h"
#include "serve/routes.h"

typedef enum ItemKind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL } ItemKind;
typedef struct Item {
  ItemKind kind;
  StrBuf text;   // of CALL: its arguments
  int64_t call;  // of Choice.call_made
  bool done;
} Item;

typedef struct Response {
  int64_t sequence, most;  // number of the next event; max_output_tokens, 0: not given
  double temperature, top_p;
  Str instructions;  // p NULL: none
  ToolsAsk tools;
  const Json *tools_given, *choice_given;  // as the request has them; NULL: it has none
  VEC(Item) item;
} Response;

static const Choice *only(const Answers *a) { return a->choice; }

// ---- objects ----
static const char *item_id(const Answers *a, int64_t i) {
  static const char *const prefix[] = {"rs", "msg", "fc"};
  const Response *r = a->of_form;
  return str_printf(&a->x->arena, "%s_%016llx%02llx", prefix[r->item.v[i].kind],
                    (unsigned long long)a->x->id, (unsigned long long)i);
}

static void put_part(JsonWriter *w, ItemKind kind, Str text) {
  json_begin_object(w);
  json_key(w, "type");
  json_cstr(w, kind == ITEM_MESSAGE ? "output_text" : "reasoning_text");
  json_key(w, "text");
  json_str(w, text);
  if (kind == ITEM_MESSAGE) {
    json_key(w, "annotations");
    json_begin_array(w);
    json_end_array(w);
    json_key(w, "logprobs");
    json_begin_array(w);
    json_end_array(w);
  }
  json_end_object(w);
}

static const char *status_of(const Choice *c) {
  if (!c->finish) return "in_progress";
  return !strcmp(c->finish, "length") ? "incomplete" : "completed";
}

static void put_call(const Answers *a, JsonWriter *w, const Item *item) {
  const CallMade *call = &only(a)->call_made.v[item->call];
  json_key(w, "call_id");
  json_str(w, call->id);
  json_key(w, "name");
  json_str(w, call->name);
  json_key(w, "arguments");
  json_str(w, (Str){strbuf_text(&item->text), item->text.n});
}

static void put_item(const Answers *a, JsonWriter *w, int64_t i) {
  static const char *const type[] = {"reasoning", "message", "function_call"};
  const Response *r = a->of_form;
  const Item *item = &r->item.v[i];
  json_begin_object(w);
  json_key(w, "type");
  json_cstr(w, type[item->kind]);
  json_key(w, "id");
  json_cstr(w, item_id(a, i));
  json_key(w, "status");
  json_cstr(w, !item->done ? "in_progress" : only(a)->finish ? status_of(only(a)) : "completed");
  if (item->kind == ITEM_CALL) {
    put_call(a, w, item);
    json_end_object(w);
    return;
  }
  if (item->kind == ITEM_MESSAGE) {
    json_key(w, "role");
    json_cstr(w, "assistant");
  } else {
    json_key(w, "summary");
    json_begin_array(w);
    json_end_array(w);
  }
  json_key(w, "content");
  json_begin_array(w);
  if (item->done) put_part(w, item->kind, (Str){strbuf_text(&item->text), item->text.n});
  json_end_array(w);
  json_end_object(w);
}

static void put_usage(const Answers *a, JsonWriter *w) {
  int64_t in = answers_prompt_tokens(a), out = answers_tokens(a);
  json_key(w, "usage");
  json_begin_object(w);
  json_key(w, "input_tokens");
  json_i64(w, in);
  json_key(w, "input_tokens_details");
  json_begin_object(w);
  json_key(w, "cached_tokens");
  json_i64(w, 0);
  json_end_object(w);
  json_key(w, "output_tokens");
  json_i64(w, out);
  json_key(w, "output_tokens_details");
  json_begin_object(w);
  json_key(w, "reasoning_tokens");
  json_i64(w, 0);
  json_end_object(w);
  json_key(w, "total_tokens");
  json_i64(w, in + out);
  json_end_object(w);
}

static void put_head(const Answers *a, JsonWriter *w, const char *status) {
  json_key(w, "id");
  json_cstr(w, a->id);
  json_key(w, "object");
  json_cstr(w, "response");
  json_key(w, "created_at");
  json_i64(w, platform->file_time());
  json_key(w, "status");
  json_cstr(w, status);
  json_key(w, "error");
  json_null(w);
  json_key(w, "incomplete_details");
  if (!strcmp(status, "incomplete")) {
    json_begin_object(w);
    json_key(w, "reason");
    json_cstr(w, "max_output_tokens");
    json_end_object(w);
  } else {
    json_null(w);
  }
}

static void put_given(const Answers *a, JsonWriter *w) {
  const Response *r = a->of_form;
  Diag d;
  diag_init(&d);
  json_key(w, "tool_choice");
  if (!r->choice_given || json_put(w, r->choice_given, &d)) json_cstr(w, r->tools.choice);
  json_key(w, "tools");
  if (r->tools_given && !json_put(w, r->tools_given, &d)) return;
  json_begin_array(w);
  json_end_array(w);
}

static void put_settings(const Answers *a, JsonWriter *w) {
  const Response *r = a->of_form;
  json_key(w, "instructions");
  json_cstr(w, r->instructions.p ? str_copy(&a->x->arena, r->instructions) : NULL);
  json_key(w, "max_output_tokens");
  if (r->most)
    json_i64(w, r->most);
  else
    json_null(w);
  json_key(w, "model");
  json_cstr(w, a->name);
  json_key(w, "parallel_tool_calls");
  json_bool(w, r->tools.parallel);
  json_key(w, "previous_response_id");
  json_null(w);
  json_key(w, "store");
  json_bool(w, false);
  json_key_f64(w, "temperature", r->temperature);
  json_key_f64(w, "top_p", r->top_p);
  put_given(a, w);
  json_key(w, "truncation");
  json_cstr(w, "disabled");
  json_key(w, "metadata");
  json_begin_object(w);
  json_end_object(w);
}

static void put_response(const Answers *a, JsonWriter *w) {
  const Response *r = a->of_form;
  bool done = only(a)->finish != NULL;
  json_begin_object(w);
  put_head(a, w, status_of(only(a)));
  put_settings(a, w);
  json_key(w, "output");
  json_begin_array(w);
  for (int64_t i = 0; done && i < r->item.n; i++) put_item(a, w, i);
  json_end_array(w);
  if (done) put_usage(a, w);
  json_end_object(w);
}

static Item *add_item(Answers *a, ItemKind kind) {
  Response *r = a->of_form;
  Item item = {.kind = kind};
  strbuf_init(&item.text, &a->x->arena);
  strbuf_puts(&item.text, "");
  vec_push(&a->x->arena, &r->item, item);
  return &r->item.v[r->item.n - 1];
}

static void whole_item(Answers *a, ItemKind kind, Str text, int64_t call) {
  Item *item = add_item(a, kind);
  strbuf_put(&item->text, text);
  item->call = call;
  item->done = true;
}

static void whole(Answers *a, JsonWriter *w) {
  const Choice *c = only(a);
  if (c->reasoning.n) whole_item(a, ITEM_REASONING, strbuf_str(&c->reasoning), 0);
  if (c->text.n || !c->call_made.n) whole_item(a, ITEM_MESSAGE, strbuf_str(&c->text), 0);
  for (int64_t i = 0; i < c->call_made.n; i++)
    whole_item(a, ITEM_CALL, strbuf_str(&c->call_made.v[i].arguments), i);
  put_response(a, w);
}

// ---- events ----
static JsonWriter *event(Answers *a, const char *type) {
  JsonWriter *w = answers_event(a);
  Response *r = a->of_form;
  json_begin_object(w);
  json_key(w, "type");
  json_cstr(w, type);
  json_key(w, "sequence_number");
  json_i64(w, r->sequence++);
  return w;
}

static void send_event(Answers *a, const char *type, JsonWriter *w) {
  json_end_object(w);
  answers_send(a, type, w);
}

static void send_response(Answers *a, const char *type) {
  JsonWriter *w = event(a, type);
  json_key(w, "response");
  put_response(a, w);
  send_event(a, type, w);
}

static int64_t last_item(const Answers *a) { return ((const Response *)a->of_form)->item.n - 1; }

static void send_item(Answers *a, const char *type) {
  JsonWriter *w = event(a, type);
  json_key(w, "output_index");
  json_i64(w, last_item(a));
  json_key(w, "item");
  put_item(a, w, last_item(a));
  send_event(a, type, w);
}

static JsonWriter *place(Answers *a, const char *type, ItemKind kind) {
  JsonWriter *w = event(a, type);
  json_key(w, "item_id");
  json_cstr(w, item_id(a, last_item(a)));
  json_key(w, "output_index");
  json_i64(w, last_item(a));
  if (kind == ITEM_CALL) return w;
  json_key(w, "content_index");
  json_i64(w, 0);
  return w;
}

static void send_part(Answers *a, const char *type, const Item *item) {
  JsonWriter *w = place(a, type, item->kind);
  json_key(w, "part");
  put_part(w, item->kind, (Str){strbuf_text(&item->text), item->text.n});
  send_event(a, type, w);
}

static void send_text(Answers *a, const char *type, const char *key, ItemKind kind, Str text) {
  JsonWriter *w = place(a, type, kind);
  json_key(w, key);
  json_str(w, text);
  if (kind == ITEM_MESSAGE) {
    json_key(w, "logprobs");
    json_begin_array(w);
    json_end_array(w);
  }
  send_event(a, type, w);
}

static void begin(Answers *a) {
  send_response(a, "response.created");
  send_response(a, "response.in_progress");
}

static void close_item(Answers *a) {
  static const char *const type[] = {"response.reasoning_text.done", "response.output_text.done",
                                     "response.function_call_arguments.done"};
  Response *r = a->of_form;
  if (!r->item.n) return;
  Item *item = &r->item.v[r->item.n - 1];
  if (item->done) return;
  item->done = true;
  send_text(a, type[item->kind], item->kind == ITEM_CALL ? "arguments" : "text", item->kind,
            (Str){strbuf_text(&item->text), item->text.n});
  if (item->kind != ITEM_CALL) send_part(a, "response.content_part.done", item);
  send_item(a, "response.output_item.done");
}

static Item *open_item(Answers *a, ItemKind kind, int64_t call) {
  Response *r = a->of_form;
  Item *last = r->item.n ? &r->item.v[r->item.n - 1] : NULL;
  if (last && !last->done && last->kind == kind && last->call == call) return last;
  close_item(a);
  Item *item = add_item(a, kind);
  item->call = call;
  send_item(a, "response.output_item.added");
  if (kind != ITEM_CALL) send_part(a, "response.content_part.added", item);
  return item;
}

static void piece(Answers *a, ItemKind kind, int64_t call, Str text) {
  static const char *const type[] = {"response.reasoning_text.delta", "response.output_text.delta",
                                     "response.function_call_arguments.delta"};
  Item *item = open_item(a, kind, call);
  strbuf_put(&item->text, text);
  if (text.n) send_text(a, type[kind], "delta", kind, text);
}

static void delta(Answers *a, Choice *c, const Delta *d) {
  (void)c;
  if (d->text.n) piece(a, ITEM_MESSAGE, 0, d->text);
}
static void reasoning(Answers *a, Choice *c, Str text) {
  (void)c;
  piece(a, ITEM_REASONING, 0, text);
}
static void call_begin(Answers *a, Choice *c, int64_t index) {
  (void)c;
  piece(a, ITEM_CALL, index, STR(""));
}
static void arguments(Answers *a, Choice *c, int64_t index, Str text) {
  (void)c;
  piece(a, ITEM_CALL, index, text);
}

static void choice_end(Answers *a, Choice *c) {
  const Response *r = a->of_form;
  if (!r->item.n) piece(a, ITEM_MESSAGE, 0, STR(""));
  // Whether the answer was cut is not known to an item that ends before it does.
  (void)c;
  close_item(a);
}

static void end(Answers *a) {
  send_response(a,
                strcmp(only(a)->finish, "length") ? "response.completed" : "response.incomplete");
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
static Json text_json(Str s) { return (Json){.kind = JSON_STRING, .s = s}; }

static Json message_json(Arena *a, const char *role, const Json *content) {
  Json *item = arena_array(a, Json, 2);
  Str *key = arena_array(a, Str, 2);
  key[0] = STR("role");
  key[1] = STR("content");
  item[0] = text_json(str_of(role));
  item[1] = *content;
  return (Json){.kind = JSON_OBJECT, .n = 2, .item = item, .key = key};
}

static Str text_member(const Json *object, const char *name) {
  const Json *v = json_get(object, name);
  return v && v->kind == JSON_STRING ? v->s : (Str){"", 0};
}

static Json object_json(Arena *a, int64_t n, const char *const *key, const Json *item) {
  Json *items = arena_dup(a, item, n * (int64_t)sizeof *item);
  Str *keys = arena_array(a, Str, n + 1);
  for (int64_t i = 0; i < n; i++) keys[i] = str_of(key[i]);
  return (Json){.kind = JSON_OBJECT, .n = n, .item = items, .key = keys};
}

static Json list_json(Arena *a, int64_t n, const Json *item) {
  return (Json){.kind = JSON_ARRAY, .n = n, .item = arena_dup(a, item, n * (int64_t)sizeof *item)};
}

// Calls that follow one another are those of one message.
static Json calls_json(Fields *f, const Json *input, int64_t *io) {
  static const char *const function_key[] = {"name", "arguments"},
                           *const call_key[] = {"id", "type", "function"},
                           *const message_key[] = {"role", "content", "tool_calls"};
  Arena *a = &f->x->arena;
  int64_t n = 0, end = *io;
  while (end < input->n && str_is(text_member(&input->item[end], "type"), "function_call")) end++;
  Json *call = arena_array(a, Json, end - *io);
  for (; *io < end; ++*io) {
    const Json *item = &input->item[*io], *name = json_get(item, "name");
    if (!name || name->kind != JSON_STRING)
      field_wrong(f, "input", "item %lld of 'input' is a call without a name", (long long)*io);
    const Json function[] = {text_json(text_member(item, "name")),
                             text_json(text_member(item, "arguments"))};
    const Json part[] = {text_json(text_member(item, "call_id")), text_json(STR("function")),
                         object_json(a, 2, function_key, function)};
    call[n++] = object_json(a, 3, call_key, part);
  }
  const Json message[] = {text_json(STR("assistant")), text_json(STR("")), list_json(a, n, call)};
  return object_json(a, 3, message_key, message);
}

static Json result_json(Fields *f, const Json *item, int64_t i) {
  static const char *const key[] = {"role", "tool_call_id", "content"};
  const Json *output = json_get(item, "output");
  if (!output || (output->kind != JSON_STRING && output->kind != JSON_ARRAY))
    field_wrong(f, "input", "item %lld of 'input' is a result without an output", (long long)i);
  const Json part[] = {text_json(STR("tool")), text_json(text_member(item, "call_id")),
                       output ? *output : text_json(STR(""))};
  return object_json(&f->x->arena, 3, key, part);
}

// The instructions and the input as messages.
static Json conversation(Fields *f, Response *r) {
  const Json *input = field(f, "input");
  Arena *a = &f->x->arena;
  int64_t n = 0;
  r->instructions = field_text(f, "instructions");
  bool list = input && input->kind == JSON_ARRAY;
  if (!input || (!list && input->kind != JSON_STRING) || (list && !input->n))
    field_wrong(f, "input", "'input' is a text, or a list of messages");
  if (f->why) return (Json){.kind = JSON_ARRAY};
  Json *item = arena_array(a, Json, 2 + (list ? input->n : 0));
  Json instructions = text_json(r->instructions);
  if (r->instructions.p) item[n++] = message_json(a, "system", &instructions);
  if (!list) item[n++] = message_json(a, "user", input);
  for (int64_t i = 0; list && i < input->n && !f->why; i++) {
    const Json *type = json_get(&input->item[i], "type");
    Str name = text_member(&input->item[i], "type");
    if (str_is(name, "function_call")) {
      item[n++] = calls_json(f, input, &i);
      i--;
    } else if (str_is(name, "function_call_output")) {
      item[n++] = result_json(f, &input->item[i], i);
    } else if (type && !str_is(name, "message") && !str_is(name, "reasoning")) {
      field_wrong(f, "input", "item %lld of 'input' is no message, function_call or its output",
                  (long long)i);
    } else if (!str_is(name, "reasoning")) {  // that of earlier turns is not read again
      item[n++] = input->item[i];
    }
  }
  return (Json){.kind = JSON_ARRAY, .n = n, .item = item};
}

static void read_settings(Fields *f, Answers *a, Response *r) {
  static const char *const ignored[] = {
      "reasoning", "include", "background", "max_tool_calls", "truncation", "top_logprobs", NULL};
  const Json *text = field_of(f, "text", JSON_OBJECT, "an object");
  r->temperature = r->top_p = 1;
  (void)field_real(f, "temperature", &r->temperature);
  (void)field_real(f, "top_p", &r->top_p);
  (void)field_int(f, "max_output_tokens", &r->most);
  if (field(f, "previous_response_id"))
    field_wrong(f, "previous_response_id", "responses are not stored: send the conversation");
  if (a->n != 1) field_wrong(f, "n", "'n' is 1 here");
  if (json_get(text, "format")) form_of_text(f, a, json_get(text, "format"));
  fields_ignore(f, ignored);
  r->tools_given = field(f, "tools");
  r->choice_given = field(f, "tool_choice");
  tools_ask_read(f, &r->tools, true);
  tools_ask_add(f, a, &r->tools);
}

static void responses(HttpExchange *x) {
  static const char *const most[2] = {"max_output_tokens", NULL};
  Fields f;
  if (!fields_begin(&f, x)) return;
  Answers *a = arena_new(&x->arena, Answers);
  Response *r = arena_new(&x->arena, Response);
  *a = (Answers){.x = x, .form = &form, .id = "resp_", .nprompts = 1, .of_form = r};
  a->model = generate_model(&f);
  if (openai_missing(&f)) return;
  generate_read(&f, a, most);
  read_settings(&f, a, r);
  Json messages = conversation(&f, r);
  Str *prompt = arena_new(&x->arena, Str);
  if (!f.why) *prompt = chat_member_of(&f, &messages, NULL);
  a->prompt = prompt;
  if (fields_end(&f)) answers_begin(a);
}

const HttpRoute response_routes[] = {
    {.methods = HTTP_POST, .path = "/v1/responses", .handle = responses}, {0}};
