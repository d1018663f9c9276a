// form.c -- what an answer must look like: `response_format`, and the fields of other servers.
//
//   response_format     {"type": "text", "json_object" or "json_schema"}
//   structured_outputs  {"json", "regex", "choice" or "grammar"}, of vLLM
//   grammar             GBNF, of llama.cpp
#include "serve/openai/answers.h"

static void begin(Fields *f, JsonWriter *w, StrBuf *b, const char *kind) {
  strbuf_init(b, &f->x->arena);
  json_init(w, b, true);
  json_begin_object(w);
  json_key(w, "kind");
  json_cstr(w, kind);
}

static void add(Fields *f, Answers *a, JsonWriter *w, const char *param) {
  json_end_object(w);
  if (a->form_given) field_wrong(f, param, "there are two forms of the answer");
  a->form_given = true;
  generate_add(a, str_printf(&f->x->arena, ",\"form\":%s", strbuf_text(w->out)));
}

// A form with a text: a regular expression, a grammar, or a schema as JSON.
static void add_text(Fields *f, Answers *a, const char *param, const char *kind, const Json *v) {
  StrBuf b, schema;
  JsonWriter w, inner;
  Diag d;
  diag_init(&d);
  begin(f, &w, &b, kind);
  json_key(&w, "text");
  if (v->kind == JSON_STRING) {
    json_str(&w, v->s);
  } else {
    strbuf_init(&schema, &f->x->arena);
    json_init(&inner, &schema, true);
    if (json_put(&inner, v, &d)) field_wrong(f, param, "%s", d.text);
    json_str(&w, strbuf_str(&schema));
  }
  add(f, a, &w, param);
}

static bool is_schema(const Json *v) {
  return v && (v->kind == JSON_OBJECT || v->kind == JSON_BOOL || v->kind == JSON_STRING);
}

static void read_format(Fields *f, Answers *a, const Json *format) {
  StrBuf b;
  JsonWriter w;
  const char *param = "response_format";
  const Json *type = json_get(format, "type"), *schema = json_get(format, "json_schema");
  Str name = type && type->kind == JSON_STRING ? type->s : (Str){"", 0};
  if (str_is(name, "text")) return;
  if (str_is(name, "json_object")) {
    begin(f, &w, &b, "json");
    add(f, a, &w, param);
  } else if (str_is(name, "json_schema")) {
    schema = json_get(schema, "schema");
    if (is_schema(schema))
      add_text(f, a, param, "schema", schema);
    else
      field_wrong(f, param, "'response_format' has no json_schema.schema");
  } else {
    field_wrong(f, param, "the type of 'response_format' is text, json_object or json_schema");
  }
}

// There the schema is a member of the format itself.
void form_of_text(Fields *f, Answers *a, const Json *format) {
  const Json *type = json_get(format, "type"), *schema = json_get(format, "schema");
  bool is = type && type->kind == JSON_STRING && str_is(type->s, "json_schema");
  if (is && is_schema(schema))
    add_text(f, a, "text", "schema", schema);
  else
    read_format(f, a, format);
}

static void add_choices(Fields *f, Answers *a, const char *param, const Json *list) {
  StrBuf b;
  JsonWriter w;
  begin(f, &w, &b, "choices");
  json_key(&w, "choices");
  json_begin_array(&w);
  for (int64_t i = 0; i < list->n; i++) {
    if (list->item[i].kind != JSON_STRING) field_wrong(f, param, "a choice is no text");
    json_str(&w, list->item[i].s);
  }
  json_end_array(&w);
  add(f, a, &w, param);
}

static void read_structured(Fields *f, Answers *a, const Json *o) {
  static const struct {
    const char *name, *kind;
  } row[] = {{"json", "schema"}, {"regex", "regex"}, {"grammar", "gbnf"}};
  const char *param = "structured_outputs";
  for (int64_t k = 0; k < o->n && !f->why; k++) {
    const Json *v = &o->item[k];
    bool known = v->kind == JSON_NULL;
    for (int64_t i = 0; i < ARRAY_LEN(row); i++)
      if (!known && str_is(o->key[k], row[i].name) && (i ? v->kind == JSON_STRING : is_schema(v))) {
        add_text(f, a, param, row[i].kind, v);
        known = true;
      }
    if (!known && str_is(o->key[k], "choice") && v->kind == JSON_ARRAY && v->n) {
      add_choices(f, a, param, v);
      known = true;
    }
    if (!known)
      field_wrong(f, param, "'structured_outputs' has json, regex, choice or grammar, not '%.*s'",
                  STR_ARG(o->key[k]));
  }
}

void form_read(Fields *f, Answers *a) {
  const Json *format = field_of(f, "response_format", JSON_OBJECT, "an object");
  const Json *outputs = field_of(f, "structured_outputs", JSON_OBJECT, "an object");
  const Json *grammar = field_of(f, "grammar", JSON_STRING, "a string");
  if (f->why) return;
  if (format) read_format(f, a, format);
  if (outputs) read_structured(f, a, outputs);
  if (grammar && grammar->s.n) add_text(f, a, "grammar", "gbnf", grammar);
}
