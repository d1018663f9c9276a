// llm_tools.c -- conversations: their prompt, with tools or without, and how the answer is read.
//
// The tools go to the model's chat template, as transformers gives them.  A template that makes the
// same prompt of a user's message without them knows no tools: then they are described in the
// system message, or in the first user's where the template takes no system message.  Calls and
// results in the messages become text, and the answer has Hermes' form.  So every chat model can be
// asked to call tools, which users of llama-server expect.
//
// Templates read a call's arguments as an object; those that fail on it get them as JSON text.
// Those that fail on a function without a description, or without parameters, get empty ones.
#include "serve/llm/llm_engine.h"

typedef struct Render {
  LlmEngine *e;
  Arena *a;
  Diag *d;
  const char *extra;
} Render;

static tenon_status render(const Render *r, const char *messages, const char *tools, Str *out) {
  tenon_error err = {0};
  size_t room = 1 << 16, size = 0;
  for (int i = 0; i < 2; i++) {
    char *text = arena_alloc(r->a, (int64_t)room);
    tenon_status s = tenon_llm_chat(r->e->llm, messages, tools, r->extra, text, room, &size, &err);
    if (s) return fail(r->d, s, NOWHERE, "%s", err.message);
    *out = (Str){text, (int64_t)size};
    if (size <= room) break;
    room = size;
  }
  return TENON_OK;
}

static bool renders(const Render *r, const char *messages, const char *tools, Str *out) {
  Diag d;
  Render quiet = *r;
  diag_init(&d);
  quiet.d = &d;
  return !render(&quiet, messages, tools, out);
}

// ---- messages rewritten ----
static const Json *calls_of(const Json *message) {
  const Json *calls = json_get(message, "tool_calls");
  return calls && calls->kind == JSON_ARRAY && calls->n ? calls : NULL;
}
static Str str_member(const Json *object, const char *name) {
  const Json *v = json_get(object, name);
  return v && v->kind == JSON_STRING ? v->s : (Str){"", 0};
}

static Str value_text(const Render *r, const Json *v) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, r->a);
  strbuf_puts(&b, "");
  json_init(&w, &b, true);
  if (!v || json_put(&w, v, r->d)) return STR("{}");
  return strbuf_str(&b);
}

static void put_call(const Render *r, JsonWriter *w, const Json *call) {
  const Json *function = json_get(call, "function");
  json_begin_object(w);
  json_key(w, "id");
  json_str(w, str_member(call, "id"));
  json_key(w, "type");
  json_cstr(w, "function");
  json_key(w, "function");
  json_begin_object(w);
  json_key(w, "name");
  json_str(w, str_member(function, "name"));
  json_key(w, "arguments");
  json_str(w, value_text(r, json_get(function, "arguments")));
  json_end_object(w);
  json_end_object(w);
}

// The messages with arguments as text; NULL: there are no calls.
static const char *with_text_arguments(const Render *r, const Json *list) {
  StrBuf b;
  JsonWriter w;
  bool any = false;
  strbuf_init(&b, r->a);
  json_init(&w, &b, true);
  json_begin_array(&w);
  for (int64_t i = 0; i < list->n; i++) {
    const Json *m = &list->item[i], *calls = calls_of(m);
    any |= calls != NULL;
    json_begin_object(&w);
    for (int64_t k = 0; k < m->n; k++) {
      json_key_str(&w, m->key[k]);
      if (calls != &m->item[k]) {
        if (json_put(&w, &m->item[k], r->d)) return NULL;
        continue;
      }
      json_begin_array(&w);
      for (int64_t c = 0; c < calls->n; c++) put_call(r, &w, &calls->item[c]);
      json_end_array(&w);
    }
    json_end_object(&w);
  }
  json_end_array(&w);
  return any ? strbuf_text(&b) : NULL;
}

// ---- templates that know no tools ----
static void describe_tools(StrBuf *b, const Render *r, const Json *tools) {
  strbuf_puts(b, "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
                 "You are provided with function signatures within <tools></tools> XML tags:\n"
                 "<tools>\n");
  for (int64_t i = 0; i < tools->n; i++) {
    strbuf_put(b, value_text(r, &tools->item[i]));
    strbuf_putc(b, '\n');
  }
  strbuf_puts(b, "</tools>\n\nFor each function call, return a json object with function name and "
                 "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "
                 "<function-name>, \"arguments\": <args-json-object>}\n</tool_call>");
}

static void put_message(JsonWriter *w, const char *role, const StrBuf *content) {
  json_begin_object(w);
  json_key(w, "role");
  json_cstr(w, role);
  json_key(w, "content");
  json_str(w, (Str){strbuf_text(content), content->n});
  json_end_object(w);
}

static void calls_as_text(StrBuf *b, const Render *r, const Json *calls) {
  for (int64_t i = 0; i < calls->n; i++) {
    const Json *function = json_get(&calls->item[i], "function");
    strbuf_puts(b, b->n ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
    strbuf_put(b, value_text(r, json_get(function, "name")));
    strbuf_puts(b, ", \"arguments\": ");
    strbuf_put(b, value_text(r, json_get(function, "arguments")));
    strbuf_puts(b, "}\n</tool_call>");
  }
}

// Results of one turn are one message, and a user's message behind them is in it too: many
// templates want users and assistants to alternate.
static int64_t results_as_text(StrBuf *b, const Json *list, int64_t i) {
  for (; i < list->n && str_is(str_member(&list->item[i], "role"), "tool"); i++) {
    strbuf_puts(b, b->n ? "\n<tool_response>\n" : "<tool_response>\n");
    strbuf_put(b, str_member(&list->item[i], "content"));
    strbuf_puts(b, "\n</tool_response>");
  }
  if (i == list->n || !str_is(str_member(&list->item[i], "role"), "user")) return i;
  strbuf_puts(b, "\n\n");
  strbuf_put(b, str_member(&list->item[i], "content"));
  return i + 1;
}

// With `system` the tools are in the system message, else in front of the first user's.
static const char *with_tools_as_text(const Render *r, const Json *list, const Json *tools,
                                      bool system) {
  StrBuf out, b;
  JsonWriter w;
  int64_t i = 0;
  strbuf_init(&out, r->a);
  json_init(&w, &out, true);
  json_begin_array(&w);
  strbuf_init(&b, r->a);
  if (list->n && str_is(str_member(&list->item[0], "role"), "system")) {
    strbuf_put(&b, str_member(&list->item[i++], "content"));
    strbuf_puts(&b, "\n\n");
  }
  describe_tools(&b, r, tools);
  if (!system && i < list->n && str_is(str_member(&list->item[i], "role"), "user")) {
    strbuf_puts(&b, "\n\n");
    strbuf_put(&b, str_member(&list->item[i++], "content"));
  }
  put_message(&w, system ? "system" : "user", &b);
  while (i < list->n) {
    const Json *m = &list->item[i], *calls = calls_of(m);
    Str role = str_member(m, "role");
    bool result = str_is(role, "tool");
    strbuf_init(&b, r->a);
    if (result) {
      i = results_as_text(&b, list, i);
    } else {
      strbuf_put(&b, str_member(m, "content"));
      if (calls) calls_as_text(&b, r, calls);
      i++;
    }
    put_message(&w, result ? "user" : str_copy(r->a, role), &b);
  }
  json_end_array(&w);
  return strbuf_text(&out);
}

// ---- functions without a description ----
// `object` with an empty text or object as `name`, where it has no such member.
static Json with_member(Arena *a, const Json *object, const char *name, Json value, bool *changed) {
  if (object->kind != JSON_OBJECT || json_get(object, name)) return *object;
  Json *item = arena_array(a, Json, object->n + 1);
  Str *key = arena_array(a, Str, object->n + 1);
  for (int64_t i = 0; i < object->n; i++) item[i] = object->item[i], key[i] = object->key[i];
  item[object->n] = value;
  key[object->n] = str_of(name);
  *changed = true;
  return (Json){.kind = JSON_OBJECT, .n = object->n + 1, .item = item, .key = key};
}

// The tools, each with a description and parameters; NULL: they have them.
static const char *with_descriptions(const Render *r, const Json *tools) {
  static const Json text = {.kind = JSON_STRING, .s = {"", 0}}, none = {.kind = JSON_OBJECT};
  Json *tool = arena_array(r->a, Json, tools->n + 1);
  bool changed = false;
  for (int64_t i = 0; i < tools->n; i++) {
    tool[i] = tools->item[i];
    if (!json_get(&tool[i], "function")) continue;
    Json *item = arena_array(r->a, Json, tool[i].n);
    for (int64_t k = 0; k < tool[i].n; k++) {
      item[k] = tool[i].item[k];
      if (!str_is(tool[i].key[k], "function")) continue;
      Json object = {.kind = JSON_STRING, .s = STR("object")};
      Json parameters = with_member(r->a, &none, "type", object, &(bool){false});
      parameters = with_member(r->a, &parameters, "properties", none, &(bool){false});
      item[k] = with_member(r->a, &item[k], "description", text, &changed);
      item[k] = with_member(r->a, &item[k], "parameters", parameters, &changed);
    }
    tool[i].item = item;
  }
  Json all = {.kind = JSON_ARRAY, .n = tools->n, .item = tool};
  return changed ? str_copy(r->a, value_text(r, &all)) : NULL;
}

// ---- the answer ----
static bool ends_with(Str s, const char *end) {
  int64_t n = (int64_t)strlen(end);
  return s.n >= n && !memcmp(s.p + s.n - n, end, (size_t)n);
}

typedef struct Talk {
  const char *messages, *tools;  // tools NULL: none
  Json list, tool_list;          // ... as they are read
} Talk;

// The prompt as the template makes it, of messages and tools in one of the ways that it may want.
// An error is that of the first.
static tenon_status native(const Render *r, const Talk *t, Str *out) {
  const char *tools = t->tools, *texts = NULL;
  tenon_status s = render(r, t->messages, tools, out);
  for (int i = 0; i < 2 && s; i++) {
    if (i && !(tools = t->tools ? with_descriptions(r, &t->tool_list) : NULL)) break;
    if (i && renders(r, t->messages, tools, out)) return TENON_OK;
    if (!i) texts = with_text_arguments(r, &t->list);
    if (texts && renders(r, texts, tools, out)) return TENON_OK;
  }
  return s;
}

// Whether the template knows tools, by a message that hardly a template refuses for its turns.  One
// that fails on it only with the tools, or only without, knows them.
static bool knows_tools(const Render *r, const Talk *t) {
  static const char probe[] = "[{\"role\":\"user\",\"content\":\"Hello\"}]";
  Str with, without;
  bool one = renders(r, probe, t->tools, &with), other = renders(r, probe, NULL, &without);
  if (one != other || (one && !str_eq(with, without))) return true;
  // Some show tools only beside a system message, and some refuse the probe either way.
  bool refused = !one;
  one = renders(r, t->messages, t->tools, &with);
  other = renders(r, t->messages, NULL, &without);
  bool same = one && other && str_eq(with, without);
  return refused ? !same : one && !same;
}

static tenon_status with_tools(const Render *r, const Talk *t, LlmChat *out) {
  if (knows_tools(r, t)) return native(r, t, &out->prompt);
  out->syntax = tool_syntax_named(STR("hermes"));
  tenon_status s =
      render(r, with_tools_as_text(r, &t->list, &t->tool_list, true), NULL, &out->prompt);
  const char *again = s ? with_tools_as_text(r, &t->list, &t->tool_list, false) : NULL;
  return !again || renders(r, again, NULL, &out->prompt) ? TENON_OK : s;
}

tenon_status llm_chat_read(LlmEngine *e, const LlmChatAsk *ask, Arena *a, Diag *d, LlmChat *out) {
  Diag first;
  const char *source = tenon_llm_template(e->llm);
  Render r = {e, a, &first, ask->extra};
  Talk t = {.messages = ask->messages, .tools = ask->tools};
  diag_init(&first);
  *out = (LlmChat){.syntax = NULL};
  TRY(json_parse(a, str_of(t.messages), d, &t.list));
  if (t.tools) {
    TRY(json_parse(a, str_of(t.tools), d, &t.tool_list));
    out->syntax = source ? tool_syntax_find(str_of(source)) : NULL;
  }
  tenon_status s = t.tools ? with_tools(&r, &t, out) : native(&r, &t, &out->prompt);
  if (s) return fail(d, s, NOWHERE, "%s", first.text);
  out->reasoning = source ? reasoning_find(str_of(source)) : NULL;
  out->inside = reasoning_begun(out->reasoning, out->prompt);
  out->open = out->syntax && out->syntax->plain && ends_with(out->prompt, out->syntax->call);
  return TENON_OK;
}

// ---- control tokens that markers have ----
typedef struct Shown {
  LlmEngine *e;
  int32_t *token;
  int64_t n;
} Shown;

static void show(void *ctx, Str marker) {
  Shown *s = ctx;
  int32_t token[64];
  size_t n;
  tenon_error err;
  tenon_llm_token t;
  if (tenon_llm_tokenize(s->e->llm, marker.p, (size_t)marker.n, 1, 1, token, ARRAY_LEN(token), &n,
                         &err))
    return;
  for (size_t i = 0; i < MIN(n, ARRAY_LEN(token)) && s->n < LLM_SHOWN; i++)
    if (!tenon_llm_piece(s->e->llm, token[i], &t, &err) && t.special && !t.end)
      s->token[s->n++] = token[i];
}

int64_t llm_chat_shown(LlmEngine *e, const LlmChat *c, int32_t token[LLM_SHOWN]) {
  Shown s = {e, token, 0};
  tool_markers(c->syntax, c->reasoning, show, &s);
  return s.n;
}

void llm_chat_say(const LlmChat *c, JsonWriter *w) {
  if (c->syntax) {
    json_key(w, "syntax");
    json_cstr(w, c->syntax->name);
  }
  if (c->reasoning) {
    json_key(w, "think");
    json_cstr(w, c->reasoning->begin);
  }
  json_key(w, "inside");
  json_bool(w, c->inside);
  json_key(w, "open");
  json_bool(w, c->open);
}
