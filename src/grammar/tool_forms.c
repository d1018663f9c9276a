// tool_forms.c -- tools and a family's syntax to tags of a grammar (tool_forms.h).
//
// A call's name is part of its tag's beginning, so each tool has a tag.  Arguments are JSON of the
// tool's schema, or, in families that write them between markers, texts and JSON of each
// property's schema, in the order in which the schema names them.
#include "grammar/tool_forms.h"

bool tool_form_fits(const ToolSyntax *s, bool required) {
  if (s->free || s->body == TOOL_PYTHON || s->body == TOOL_BRACES) return false;
  return required || s->call;
}

static const char *z(const char *text) { return text ? text : ""; }

// ---- schemas ----
static Str json_text(Arena *a, const Json *v, Diag *d) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, a);
  json_init(&w, &b, true);
  return json_put(&w, v, d) ? (Str){"", 0} : strbuf_str(&b);
}

// `schema` with further members.
static Json with_members(Arena *a, const Json *schema, const char *const *key, const Json *value,
                         int64_t n) {
  Json *item = arena_array(a, Json, schema->n + n);
  Str *keys = arena_array(a, Str, schema->n + n);
  int64_t m = 0;
  for (int64_t i = 0; i < n; i++) {
    keys[m] = str_of(key[i]);
    item[m++] = value[i];
  }
  for (int64_t i = 0; i < schema->n; i++) keys[m] = schema->key[i], item[m++] = schema->item[i];
  return (Json){.kind = JSON_OBJECT, .n = m, .item = item, .key = keys};
}

// Whether a schema's `type`, or NULL, allows the type.
static bool names_type(const Json *type, const char *name) {
  if (!type) return true;
  for (int64_t i = 0; type->kind == JSON_ARRAY && i < type->n; i++)
    if (names_type(&type->item[i], name)) return true;
  return type->kind == JSON_STRING && str_is(type->s, name);
}

static tenon_status check_object(Diag *d, const Json *parameters) {
  if (names_type(json_get(parameters, "type"), "object")) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE, "'type' of a function's parameters is not object");
}

// Arguments are an object, also where the schema would allow more.
static tenon_status arguments_schema(Arena *a, const Json *schema, Diag *d, Str *out) {
  static const char *const type = "type";
  *out = STR("{\"type\":\"object\",\"additionalProperties\":false}");
  if (!schema || schema->kind != JSON_OBJECT) return TENON_OK;
  TRY(check_object(d, schema));
  Json object = {.kind = JSON_STRING, .s = STR("object")};
  Json all = *schema;
  if (!json_get(schema, type)) {
    all = with_members(a, schema, &type, &object, 1);
  } else {
    Json *item = arena_dup(a, schema->item, schema->n * (int64_t)sizeof *item);
    for (int64_t i = 0; i < all.n; i++)
      if (str_is(all.key[i], type)) item[i] = object;
    all.item = item;
  }
  *out = json_text(a, &all, d);
  return TENON_OK;
}

// ---- arguments between markers ----
static bool one_of(Str s, const char *const *word, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (str_is(s, word[i])) return true;
  return false;
}

static bool holds(Str s, Str part) {
  for (int64_t i = 0; part.n && i + part.n <= s.n; i++)
    if (!memcmp(s.p + i, part.p, (size_t)part.n)) return true;
  return false;
}

// What a parser would find the end of in `s`: one of two markers, or the byte that ends texts.
static tenon_status check_plain(Diag *d, Str name, const char *what, Str s, const char *end,
                                const char *other) {
  const char *mark = NULL;
  if (holds(s, STR("\0"))) mark = "NUL";
  if (holds(s, str_of(z(other)))) mark = other;
  if (holds(s, str_of(z(end)))) mark = end;
  if (!mark) return TENON_OK;
  return fail(d, TENON_EUNSUPPORTED, NOWHERE,
              "argument '%.*s': %s holds %s, which this model's tool calls cannot", STR_ARG(name),
              what, mark);
}

// The texts that a schema allows.
typedef struct Texts {
  bool any;  // all; else these
  const Str *v;
  int64_t n;
} Texts;

static Texts both(Arena *a, Texts x, Texts y) {
  StrMap in;
  if (x.any) return y;
  if (y.any) return x;
  Str *v = arena_array(a, Str, x.n + 1);
  Texts out = {.v = v};
  strmap_init(&in, a);
  for (int64_t i = 0; i < y.n; i++) strmap_put(&in, y.v[i], a);
  for (int64_t i = 0; i < x.n; i++)
    if (strmap_has(&in, x.v[i])) v[out.n++] = x.v[i];
  return out;
}

static Texts strings_of(Arena *a, const Json *item, int64_t n) {
  Str *v = arena_array(a, Str, n + 1);
  Texts out = {.v = v};
  for (int64_t i = 0; i < n; i++)
    if (item[i].kind == JSON_STRING) v[out.n++] = item[i].s;
  return out;
}

static tenon_status texts_of(Arena *a, Diag *d, Str name, const Json *schema, Texts *out);

// Texts of one of the schemas at least; with `one` no text is that of two.
static tenon_status alternatives(Arena *a, Diag *d, Str name, const Json *list, bool one,
                                 Texts *out) {
  VEC(Str) all = {0};
  StrMap in;
  int64_t others = 0;
  bool any = false, twice = false;
  strmap_init(&in, a);
  for (int64_t i = 0; i < list->n; i++) {
    Texts of;
    TRY(texts_of(a, d, name, &list->item[i], &of));
    others += of.any || of.n;
    any |= of.any;
    for (int64_t k = 0; k < of.n; k++) {
      void *have = strmap_get(&in, of.v[k]);
      twice |= have && have != &list->item[i];
      if (have) continue;
      strmap_put(&in, of.v[k], (void *)&list->item[i]);
      vec_push(a, &all, of.v[k]);
    }
  }
  if (one && (twice || (any && others > 1)))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "argument '%.*s': two schemas of 'oneOf' may fit one text; anyOf takes either",
                STR_ARG(name));
  *out = any ? (Texts){.any = true} : (Texts){.v = all.v, .n = all.n};
  return TENON_OK;
}

static tenon_status texts_of(Arena *a, Diag *d, Str name, const Json *schema, Texts *out) {
  static const char *const known[] = {"type",       "description", "title", "default",
                                      "examples",   "enum",        "const", "$comment",
                                      "deprecated", "anyOf",       "oneOf"};
  static const char *const lists[] = {"enum", "anyOf", "oneOf"};
  const Json *one = json_get(schema, "const");
  bool boolean = schema->kind == JSON_BOOL;
  *out = (Texts){.any = boolean ? schema->b : names_type(json_get(schema, "type"), "string")};
  if (boolean) return TENON_OK;
  if (schema->kind != JSON_OBJECT)
    return fail(d, TENON_EINVAL, NOWHERE, "argument '%.*s': its schema is none", STR_ARG(name));
  for (int64_t i = 0; i < schema->n; i++)
    if (!one_of(schema->key[i], known, ARRAY_LEN(known)))
      return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                  "argument '%.*s': '%.*s' of a text is not supported in this model's tool calls",
                  STR_ARG(name), STR_ARG(schema->key[i]));
  if (one) *out = both(a, *out, strings_of(a, one, 1));
  for (int k = 0; k < ARRAY_LEN(lists); k++) {
    const Json *list = json_get(schema, lists[k]);
    Texts of;
    if (!list) continue;
    if (list->kind != JSON_ARRAY)
      return fail(d, TENON_EINVAL, NOWHERE, "argument '%.*s': '%s' is no array", STR_ARG(name),
                  lists[k]);
    if (k)
      TRY(alternatives(a, d, name, list, k == 2, &of));
    else
      of = strings_of(a, list->item, list->n);
    *out = both(a, *out, of);
  }
  return TENON_OK;
}

// What a text may be, where that can be said of one that is not quoted.
static tenon_status text_schema(const ToolForm *f, Arena *a, Diag *d, Str name, const Json *schema,
                                GrammarArg *arg) {
  Texts all;
  arg->never = str_of(f->syntax->arg_end);
  TRY(texts_of(a, d, name, schema, &all));
  if (all.any) return TENON_OK;
  if (!all.n)
    return fail(d, TENON_EINVAL, NOWHERE, "argument '%.*s': no text fits its schema",
                STR_ARG(name));
  for (int64_t i = 0; i < all.n; i++)
    TRY(check_plain(d, name, "a value", all.v[i], f->syntax->arg_end, NULL));
  arg->of = all.v;
  arg->nof = all.n;
  return TENON_OK;
}

static const char *const definitions[] = {"$defs", "definitions"};

// The schema of an argument stands alone with the definitions: what refers to anything else of
// `parameters` would mean another schema there.
static tenon_status check_references(Diag *d, Str name, const Json *v) {
  const Json *ref = json_get(v, "$ref");
  bool plain = !ref || ref->kind != JSON_STRING || (ref->s.n > 1 && ref->s.p[1] != '/');
  for (int k = 0; k < ARRAY_LEN(definitions) && !plain; k++) {
    int64_t n = (int64_t)strlen(definitions[k]);
    plain = ref->s.n > n + 3 && !memcmp(ref->s.p, "#/", 2) &&
            !memcmp(ref->s.p + 2, definitions[k], (size_t)n) && ref->s.p[n + 2] == '/';
  }
  if (!plain)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "argument '%.*s': '$ref' to %.*s is not supported in this model's tool calls",
                STR_ARG(name), STR_ARG(ref->s));
  for (int64_t i = 0; (v->kind == JSON_OBJECT || v->kind == JSON_ARRAY) && i < v->n; i++)
    TRY(check_references(d, name, &v->item[i]));
  return TENON_OK;
}

static tenon_status json_schema(const ToolForm *f, Arena *a, Diag *d, const Json *parameters,
                                Str name, const Json *schema, GrammarArg *arg) {
  Json defs[ARRAY_LEN(definitions)], all = *schema;
  const char *key[ARRAY_LEN(definitions)];
  int64_t n = 0;
  TRY(check_references(d, name, schema));
  for (int k = 0; k < ARRAY_LEN(definitions) && schema->kind == JSON_OBJECT; k++) {
    const Json *v = json_get(parameters, definitions[k]);
    if (json_get(schema, definitions[k]))
      return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                  "argument '%.*s': '%s' is only supported in 'parameters' itself", STR_ARG(name),
                  definitions[k]);
    if (v) key[n] = definitions[k], defs[n++] = *v;
  }
  if (n) all = with_members(a, schema, key, defs, n);
  arg->schema = json_text(a, &all, d);
  return check_plain(d, name, "its schema", arg->schema, f->syntax->arg_end, NULL);
}

static tenon_status one_arg(const ToolForm *f, Arena *a, Diag *d, const Json *parameters, int64_t i,
                            bool required, GrammarArg *out) {
  const ToolSyntax *x = f->syntax;
  const Json *properties = json_get(parameters, "properties"), *schema = &properties->item[i];
  Str name = properties->key[i];
  bool text = tool_param_is_text(schema);
  const char *line = x->lines ? "\n" : "";
  const char *attribute = z(text ? x->text_attribute : x->json_attribute);
  TRY(check_plain(d, name, "its name", name, x->arg_name_end, x->call_end));
  if (name.n && (strchr(" \n\r\t", name.p[0]) || strchr(" \n\r\t", name.p[name.n - 1])))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "argument '%.*s': white space around a name is not kept in this model's tool calls",
                STR_ARG(name));
  *out = (GrammarArg){.required = required};
  out->begin = str_of(str_printf(a, "%s%s%.*s%s%s%s%s", line, x->arg, (int)name.n, name.p,
                                 x->arg_name_end, attribute, z(x->arg_head_end), line));
  out->end = str_of(str_printf(a, "%s%s", line, x->arg_end));
  return text ? text_schema(f, a, d, name, schema, out)
              : json_schema(f, a, d, parameters, name, schema, out);
}

// Arguments between markers are the properties, each by its own schema: what else `parameters` asks
// of the object is refused.  `needed` gets the names of those that are required.
static tenon_status check_parameters(Arena *a, Diag *d, const Json *parameters, StrMap *needed) {
  static const char *const known[] = {
      "type",     "properties",  "required",    "additionalProperties",
      "$defs",    "definitions", "$schema",     "$id",
      "$comment", "title",       "description", "default",
      "examples", "deprecated"};
  const Json *properties = json_get(parameters, "properties"),
             *required = json_get(parameters, "required");
  StrMap in;
  for (int64_t i = 0; i < parameters->n; i++)
    if (!one_of(parameters->key[i], known, ARRAY_LEN(known)))
      return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                  "'%.*s' of a function's parameters is not supported in this model's tool calls",
                  STR_ARG(parameters->key[i]));
  TRY(check_object(d, parameters));
  if (properties && properties->kind != JSON_OBJECT)
    return fail(d, TENON_EINVAL, NOWHERE, "'properties' of a function's parameters is no object");
  if (required && required->kind != JSON_ARRAY)
    return fail(d, TENON_EINVAL, NOWHERE, "'required' of a function's parameters is no array");
  strmap_init(&in, a);
  for (int64_t i = 0; properties && i < properties->n; i++) strmap_put(&in, properties->key[i], a);
  for (int64_t i = 0; required && i < required->n; i++) {
    const Json *v = &required->item[i];
    if (v->kind != JSON_STRING)
      return fail(d, TENON_EINVAL, NOWHERE, "'required' of a function's parameters names no text");
    if (!strmap_has(&in, v->s))
      return fail(
          d, TENON_EUNSUPPORTED, NOWHERE,
          "'required' of a function's parameters: '%.*s' is not among its properties, which "
          "is not supported in this model's tool calls",
          STR_ARG(v->s));
    strmap_put(needed, v->s, a);
  }
  for (int k = 0; k < ARRAY_LEN(definitions); k++) {
    const Json *v = json_get(parameters, definitions[k]);
    if (v) TRY(check_references(d, str_of(definitions[k]), v));
  }
  return TENON_OK;
}

static tenon_status all_args(const ToolForm *f, Arena *a, Diag *d, const Json *parameters,
                             GrammarTag *out) {
  const Json *properties = json_get(parameters, "properties");
  StrMap needed;
  out->args = true;
  if (!parameters || parameters->kind != JSON_OBJECT) return TENON_OK;
  strmap_init(&needed, a);
  TRY(check_parameters(a, d, parameters, &needed));
  if (!properties) return TENON_OK;
  GrammarArg *arg = arena_array(a, GrammarArg, properties->n + 1);
  for (int64_t i = 0; i < properties->n; i++)
    TRY(one_arg(f, a, d, parameters, i, strmap_has(&needed, properties->key[i]), &arg[i]));
  out->arg = arg;
  out->narg = properties->n;
  return TENON_OK;
}

// ---- tags ----
static tenon_status one_tag(const ToolForm *f, Arena *a, Diag *d, const Json *function, Str name,
                            GrammarTag *out) {
  const ToolSyntax *x = f->syntax;
  const Json *parameters = json_get(function, "parameters");
  const char *begin, *end = z(x->call_end);
  bool list = x->body == TOOL_LIST || x->body == TOOL_MAP;
  const char *key = x->name_key ? x->name_key : "name",
             *args = x->args_key ? x->args_key : "arguments";
  int n = (int)name.n;
  switch (x->body) {
  case TOOL_OBJECT:
  case TOOL_LIST:
    begin = str_printf(a, "%s%s{\"%s\": \"%.*s\", \"%s\": ", list ? "" : z(x->call),
                       !list && *end ? "\n" : "", key, n, name.p, args);
    end = list ? "}" : str_printf(a, "}%s%s", *end ? "\n" : "", end);
    break;
  case TOOL_MAP:
    begin = str_printf(a, "{\"%.*s\": ", n, name.p);
    end = "}";
    break;
  case TOOL_ARGS:
    begin = str_printf(a, "%s%s%.*s%s%s", x->call,
                       x->id_first   ? str_printf(a, "call_1%s", x->id_mark)
                       : x->id_whole ? "functions."
                                     : "",
                       n, name.p, x->id_whole ? ":0" : "", x->name_end);
    break;
  default:
    begin = str_printf(a, "%s%.*s%s%s", x->call, n, name.p, z(x->name_end), z(x->head_end));
    if (x->lines) end = str_printf(a, "\n%s", end);
    break;
  }
  *out = (GrammarTag){.begin = str_of(begin), .end = str_of(end)};
  if (x->body == TOOL_PARAMS) return all_args(f, a, d, parameters, out);
  return arguments_schema(a, parameters, d, &out->schema);
}

static void around(const ToolForm *f, Arena *a, GrammarSpec *out) {
  const ToolSyntax *x = f->syntax;
  bool list = x->body == TOOL_LIST || x->body == TOOL_MAP;
  const char *line = x->lines ? "\n" : "";
  if (list) {
    out->open = str_of(str_printf(a, "%s[", z(x->call)));
    out->close = str_of(str_printf(a, "]%s", z(x->call_end)));
    out->between = STR(", ");
  } else if (x->section) {
    out->open = str_of(str_printf(a, "%s%s", x->section, line));
    out->close = str_of(str_printf(a, "%s%s", line, z(x->section_end)));
    out->between = str_of(line);
  } else {
    out->between = x->body == TOOL_OBJECT && x->call_end ? STR("\n") : STR("");
  }
}

tenon_status tool_form_spec(const ToolForm *f, Arena *a, Diag *d, GrammarSpec *out) {
  const ToolSyntax *x = f->syntax;
  int64_t n = f->tools->n, ntag = 0;
  GrammarTag *tag = arena_array(a, GrammarTag, n + 1);
  *out = (GrammarSpec){.kind = GRAMMAR_TOOLS, .free_text = !f->required, .tag = tag};
  for (int64_t i = 0; i < n; i++) {
    const Json *function = json_get(&f->tools->item[i], "function"),
               *name = json_get(function, "name");
    if (!name || (f->named.n && !str_eq(f->named, name->s))) continue;
    TRY(one_tag(f, a, d, function, name->s, &tag[ntag++]));
  }
  out->ntag = ntag;
  out->least = f->required;
  // Without a marker an answer is one object.
  bool one = !f->parallel || f->named.n || (x->body == TOOL_OBJECT && !x->call_end);
  out->most = one ? 1 : 0;
  around(f, a, out);
  Str *never = arena_array(a, Str, 2);
  if (x->section) never[out->nnever++] = str_of(x->section);
  if (x->call) never[out->nnever++] = str_of(x->call);
  out->never = never;
  if (f->reasoning) {
    out->think = str_of(f->reasoning->begin);
    out->think_end = str_of(f->reasoning->end);
    out->thinking = f->inside;
  }
  return d->status ? d->status : TENON_OK;
}
