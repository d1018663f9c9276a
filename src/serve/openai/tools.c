// tools.c -- tools of a request: what may be called, and the calls of an answer (tools.h).
#include "serve/openai/tools.h"

// ---- requests ----
static bool name_fits(Str s) {
  for (int64_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          c == '-'))
      return false;
  }
  return s.n >= 1 && s.n <= 64;
}

static Str text_member(const Json *object, const char *name) {
  const Json *v = json_get(object, name);
  return v && v->kind == JSON_STRING ? v->s : (Str){"", 0};
}

static bool bool_member(const Json *object, const char *name) {
  const Json *v = json_get(object, name);
  return v && v->kind == JSON_BOOL && v->b;
}

// The tool with its function as a member, without what /v1/responses has around it.
static Json nested(Arena *a, const Json *tool) {
  Json *item = arena_array(a, Json, 2), *inside = arena_array(a, Json, tool->n + 1);
  Str *key = arena_array(a, Str, 2), *keys = arena_array(a, Str, tool->n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < tool->n; i++) {
    if (str_is(tool->key[i], "type") || tool->item[i].kind == JSON_NULL) continue;
    keys[n] = tool->key[i];
    inside[n++] = tool->item[i];
  }
  key[0] = STR("type");
  item[0] = (Json){.kind = JSON_STRING, .s = STR("function")};
  key[1] = STR("function");
  item[1] = (Json){.kind = JSON_OBJECT, .n = n, .item = inside, .key = keys};
  return (Json){.kind = JSON_OBJECT, .n = 2, .item = item, .key = key};
}

static void check_tool(Fields *f, int64_t i, const Json *tool, const Json *function) {
  const char *at = str_printf(&f->x->arena, "tools[%lld]", (long long)i);
  const Json *parameters = json_get(function, "parameters");
  Str type = text_member(tool, "type");
  if (tool->kind != JSON_OBJECT || !str_is(type, "function"))
    field_wrong(f, at, "%s is no tool of type 'function': others are not supported", at);
  else if (!function || function->kind != JSON_OBJECT)
    field_wrong(f, at, "%s has no function", at);
  else if (!name_fits(text_member(function, "name")))
    field_wrong(f, at, "the name of %s is not of 1 to 64 letters, digits, '_' and '-'", at);
  else if (parameters && parameters->kind != JSON_OBJECT && parameters->kind != JSON_NULL)
    field_wrong(f, at, "the parameters of %s are no JSON Schema of an object", at);
}

static const Json *read_list(Fields *f, bool flat, bool *strict) {
  const Json *list = field_of(f, "tools", JSON_ARRAY, "a list");
  if (!list || !list->n) return NULL;
  if (list->n > SERVE_TOOLS)
    field_wrong(f, "tools", "'tools' has %lld tools, and at most %d are taken", (long long)list->n,
                SERVE_TOOLS);
  if (f->why) return NULL;
  Json *item = arena_array(&f->x->arena, Json, list->n), *all = arena_new(&f->x->arena, Json);
  for (int64_t i = 0; i < list->n && !f->why; i++) {
    const Json *tool = &list->item[i];
    bool as_is = !flat || json_get(tool, "function");
    item[i] = as_is ? *tool : nested(&f->x->arena, tool);
    check_tool(f, i, tool, json_get(&item[i], "function"));
    if (f->why) return NULL;
    const Json *function = json_get(&item[i], "function");
    *strict |= bool_member(function, "strict");
    *all = (Json){.kind = JSON_ARRAY, .n = i, .item = item};
    if (tool_find(all, text_member(function, "name")))
      field_wrong(f, "tools", "two tools have the name '%.*s'",
                  STR_ARG(text_member(function, "name")));
  }
  all->n = list->n;
  return all;
}

static void read_choice(Fields *f, const Json *list, ToolsAsk *out) {
  static const char *const words[] = {"none", "auto", "required"};
  const Json *v = field(f, "tool_choice");
  out->choice = list ? "auto" : "none";
  if (!v) return;
  const char *word = NULL;
  for (int i = 0; i < ARRAY_LEN(words); i++)
    if (v->kind == JSON_STRING && str_is(v->s, words[i])) word = words[i];
  const Json *function = json_get(v, "function");
  Str name = text_member(function ? function : v, "name");
  if (!word && (v->kind != JSON_OBJECT || !str_is(text_member(v, "type"), "function") || !name.n)) {
    field_wrong(f, "tool_choice",
                "'tool_choice' is none, auto, required, or {\"type\": \"function\"} with a name");
  } else if (!list) {
    if (!word || !strcmp(word, "required"))
      field_wrong(f, "tool_choice", "'tool_choice' is only allowed where 'tools' are given");
  } else if (word) {
    out->choice = word;
  } else {
    out->choice = "named";
    out->named = name;
    if (!tool_find(list, name))
      field_wrong(f, "tool_choice", "'tools' has no function '%.*s'", STR_ARG(name));
  }
}

void tools_ask_read(Fields *f, ToolsAsk *out, bool flat) {
  StrBuf b;
  JsonWriter w;
  Diag d;
  *out = (ToolsAsk){.choice = "none", .parallel = true};
  const Json *list = read_list(f, flat, &out->strict);
  const Json *parallel = field_of(f, "parallel_tool_calls", JSON_BOOL, "true or false");
  if (parallel) out->parallel = parallel->b;
  read_choice(f, list, out);
  if (f->why || !list || !strcmp(out->choice, "none")) return;
  diag_init(&d);
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  if (json_put(&w, list, &d)) field_wrong(f, "tools", "%s", d.text);
  out->list = list;
  out->text = strbuf_str(&b);
}

void tools_ask_add(Fields *f, Answers *a, const ToolsAsk *t) {
  StrBuf b;
  JsonWriter w;
  if (!t->list || f->why) return;
  if (a->form_given)
    field_wrong(f, "tools",
                "a form of the answer and tools are not supported together: set "
                "'tool_choice' to none, or ask for the form later");
  a->tools = t->list;
  a->most_calls = !t->parallel || t->named.n ? 1 : 0;
  strbuf_init(&b, &a->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "tools");
  json_str(&w, t->text);
  json_key(&w, "choice");
  json_cstr(&w, t->choice);
  json_key(&w, "parallel");
  json_bool(&w, t->parallel);
  json_key(&w, "strict");
  json_bool(&w, t->strict);
  if (t->named.n) {
    json_key(&w, "named");
    json_str(&w, t->named);
  }
  b.p[0] = ',';
  generate_add(a, strbuf_text(&b));
}

// ---- answers ----
static bool id_fits(const Choice *c, Str id) {
  for (int64_t i = 0; i < id.n; i++)
    if (id.p[i] <= ' ' || id.p[i] >= 127) return false;
  for (int64_t i = 0; i < c->call_made.n; i++)
    if (str_eq(c->call_made.v[i].id, id)) return false;
  return id.n >= 1 && id.n <= 64;
}

// The model's own identifier, or one of the length that its template takes back.
static Str id_of(const Choice *c, int64_t index, Str name, Str id) {
  const HttpExchange *x = c->answers->x;
  Arena *a = &c->answers->x->arena;
  const ToolSyntax *s = c->syntax;
  if (id_fits(c, id)) return (Str){arena_dup(a, id.p, id.n), id.n};
  if (s && s->id_whole)
    return str_of(str_printf(a, "functions.%.*s:%lld", STR_ARG(name), (long long)index));
  uint64_t n = hash_u64(x->id << 20 ^ (uint64_t)c->index << 10 ^ (uint64_t)index);
  bool nine = s && s->call && !strcmp(s->call, "[TOOL_CALLS]");
  return str_of(nine ? str_printf(a, "%09llu", (unsigned long long)(n % 1000000000))
                     : str_printf(a, "call_%016llx", (unsigned long long)n));
}

static void on_content(void *ctx, Str text) {
  Choice *c = ctx;
  Delta d = {text, 0, NULL};
  if (c->answers->stream)
    c->answers->form->delta(c->answers, c, &d);
  else
    strbuf_put(&c->text, text);
}

static void on_reasoning(void *ctx, Str text) {
  Choice *c = ctx;
  if (c->answers->stream)
    c->answers->form->reasoning(c->answers, c, text);
  else
    strbuf_put(&c->reasoning, text);
}

static void on_call(void *ctx, int64_t index, Str name, Str id) {
  Choice *c = ctx;
  Arena *a = &c->answers->x->arena;
  CallMade made = {.id = id_of(c, index, name, id), .name = {arena_dup(a, name.p, name.n), name.n}};
  strbuf_init(&made.arguments, a);
  strbuf_puts(&made.arguments, "");
  vec_push(a, &c->call_made, made);
  if (c->answers->stream) c->answers->form->call_begin(c->answers, c, index);
}

static void on_arguments(void *ctx, int64_t index, Str piece) {
  Choice *c = ctx;
  strbuf_put(&c->call_made.v[index].arguments, piece);
  if (c->answers->stream) c->answers->form->arguments(c->answers, c, index, piece);
}

void tools_begin(Answers *a, Choice *c, const Json *accepted) {
  c->syntax = tool_syntax_named(text_member(accepted, "syntax"));
  ToolParse what = {.syntax = c->syntax,
                    .reasoning = reasoning_of(text_member(accepted, "think")),
                    .inside = bool_member(accepted, "inside"),
                    .open = bool_member(accepted, "open"),
                    .tools = a->tools,
                    .most = a->most_calls};
  ToolSink sink = {on_content, on_reasoning, on_call, on_arguments, c};
  if ((what.syntax || what.reasoning) && a->form->call_begin)
    c->parser = tool_parser_create(&a->x->arena, &what, &sink);
}

void tools_text(Choice *c, Str text) { tool_parser_take(c->parser, text); }

void tools_end(Choice *c) {
  if (!c->parser) return;
  tool_parser_end(c->parser);
  if (c->call_made.n && !strcmp(c->finish, "stop")) c->finish = "tool_calls";
}
