// chat_messages.c -- `messages` checked and rewritten for chat templates (chat.h).
#include "serve/openai/chat.h"

static void wrong_message(Fields *f, int64_t i, const char *what) {
  field_wrong(f, str_printf(&f->x->arena, "messages[%lld]", (long long)i), "message %lld %s",
              (long long)i, what);
}

void chat_refuse_part(Fields *f, const char *param, Str type) {
  field_wrong(f, param,
              "a part of type '%.*s' is not supported: the models read text, and nothing is "
              "fetched from elsewhere",
              STR_ARG(type));
}

// A text, or parts of text one behind the other.
static Str text_of(Fields *f, int64_t i, const Json *content) {
  StrBuf b;
  if (!content || content->kind == JSON_NULL) return STR("");
  if (content->kind == JSON_STRING) return content->s;
  if (content->kind != JSON_ARRAY)
    wrong_message(f, i, "has a content that is neither a text nor a list of parts");
  strbuf_init(&b, &f->x->arena);
  strbuf_puts(&b, "");
  for (int64_t k = 0; k < content->n && !f->why; k++) {
    const Json *type = json_get(&content->item[k], "type"), *text;
    bool is_text = type && type->kind == JSON_STRING &&
                   (str_is(type->s, "text") || str_is(type->s, "input_text") ||
                    str_is(type->s, "output_text"));
    text = is_text ? json_get(&content->item[k], "text") : NULL;
    if (!type || type->kind != JSON_STRING)
      wrong_message(f, i, "has a part without a type");
    else if (!is_text)
      chat_refuse_part(f, str_printf(&f->x->arena, "messages[%lld].content", (long long)i),
                       type->s);
    else if (!text || text->kind != JSON_STRING)
      wrong_message(f, i, "has a part of text without a text");
    else
      strbuf_put(&b, text->s);
  }
  return (Str){strbuf_text(&b), b.n};
}

// Clients send arguments as JSON text; templates read the object.
static void put_arguments(Fields *f, JsonWriter *w, const Json *arguments) {
  Json j;
  Diag d;
  diag_init(&d);
  bool parsed = arguments && arguments->kind == JSON_STRING &&
                !json_parse(&f->x->arena, arguments->s, &d, &j) && j.kind == JSON_OBJECT;
  diag_init(&d);
  json_key(w, "arguments");
  if (!arguments)
    json_null(w);
  else if (json_put(w, parsed ? &j : arguments, &d))
    field_wrong(f, "messages", "arguments of a tool call: %s", d.text);
}

static void put_tool_calls(Fields *f, int64_t i, JsonWriter *w, const Json *calls) {
  if (calls->kind != JSON_ARRAY || calls->n > SERVE_TOOLS)
    wrong_message(f, i, "has tool_calls that are no list of at most 128");
  if (f->why) return;
  json_key(w, "tool_calls");
  json_begin_array(w);
  for (int64_t k = 0; k < calls->n && !f->why; k++) {
    const Json *call = &calls->item[k], *function = json_get(call, "function");
    const Json *name = json_get(function, "name"), *id = json_get(call, "id");
    if (!name || name->kind != JSON_STRING) {
      wrong_message(f, i, "has a tool call without a function's name");
      return;
    }
    json_begin_object(w);
    if (id && id->kind == JSON_STRING) {
      json_key(w, "id");
      json_str(w, id->s);
    }
    json_key(w, "type");
    json_cstr(w, "function");
    json_key(w, "function");
    json_begin_object(w);
    json_key(w, "name");
    json_str(w, name->s);
    put_arguments(f, w, json_get(function, "arguments"));
    json_end_object(w);
    json_end_object(w);
  }
  json_end_array(w);
}

static const char *role_of(const Json *role) {
  static const char *const known[] = {"system", "user", "assistant", "tool"};
  if (!role || role->kind != JSON_STRING) return NULL;
  for (int64_t i = 0; i < ARRAY_LEN(known); i++)
    if (str_is(role->s, known[i])) return known[i];
  return str_is(role->s, "developer") ? "system" : NULL;
}

static void put_message(Fields *f, int64_t i, JsonWriter *w, const Json *m) {
  static const char *const kept[] = {"name", "tool_call_id", "reasoning_content"};
  const char *role = role_of(json_get(m, "role"));
  const Json *calls = json_get(m, "tool_calls");
  if (!role) wrong_message(f, i, "has no role of system, developer, user, assistant or tool");
  Str text = text_of(f, i, json_get(m, "content"));
  if (f->why) return;
  json_begin_object(w);
  json_key(w, "role");
  json_cstr(w, role);
  json_key(w, "content");
  json_str(w, text);
  for (int64_t k = 0; k < ARRAY_LEN(kept); k++) {
    const Json *v = json_get(m, kept[k]);
    if (!v || v->kind != JSON_STRING) continue;
    json_key(w, kept[k]);
    json_str(w, v->s);
  }
  if (calls && calls->kind != JSON_NULL) put_tool_calls(f, i, w, calls);
  json_end_object(w);
}

static Str messages_text(Fields *f, const Json *list) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  json_begin_array(&w);
  for (int64_t i = 0; i < list->n && !f->why; i++) put_message(f, i, &w, &list->item[i]);
  if (!f->why) json_end_array(&w);
  return strbuf_str(&b);
}

static void put_as_text(Fields *f, JsonWriter *w, const char *name, const Json *v) {
  StrBuf b;
  JsonWriter inner;
  Diag d;
  diag_init(&d);
  strbuf_init(&b, &f->x->arena);
  json_init(&inner, &b, true);
  if (json_put(&inner, v, &d)) field_wrong(f, name, "%s", d.text);
  json_key(w, name);
  json_str(w, strbuf_str(&b));
}

Str chat_member_of(Fields *f, const Json *list, const Json *extra) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "messages");
  json_str(&w, messages_text(f, list));
  if (extra) put_as_text(f, &w, "extra", extra);
  return (Str){b.p + 1, b.n - 1};
}

Str chat_member(Fields *f) {
  const Json *list = field_of(f, "messages", JSON_ARRAY, "a list");
  const Json *extra = field_of(f, "chat_template_kwargs", JSON_OBJECT, "an object");
  if (!list || !list->n) field_wrong(f, "messages", "'messages' is needed, and not empty");
  return f->why ? (Str){0} : chat_member_of(f, list, extra);
}
