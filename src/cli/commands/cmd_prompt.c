// cmd_prompt.c -- `tenon prompt`: the text that a model's chat template makes of messages.
//
// The template is a file, that of a GGUF file, or what a model's folder has: chat_template.jinja,
// or `chat_template` in tokenizer_config.json, which also gives the special tokens.  With --lines
// every line of a file is rendered, and answered by a line of JSON.
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/opt.h"

#include "base/platform.h"
#include "frontends/gguf/gguf.h"
#include "text/template.h"

#include <stdio.h>
#include <time.h>

typedef struct Prompt {
  Cli *cli;
  ChatTemplate *t;
  VEC(Str) name;  // variables
  VEC(Json) value;
  int64_t now;
} Prompt;

static tenon_status read_text(Cli *c, const char *path, Str *out) {
  File f;
  TRY(file_open(path, &f, &c->diag));
  *out = (Str){arena_dup(&c->arena, f.bytes, f.size), f.size};
  file_close(&f);
  return TENON_OK;
}

static tenon_status read_json(Cli *c, const char *path, Json *out) {
  Str text;
  TRY(read_text(c, path, &text));
  c->diag.base.file = path;
  TRY(json_parse(&c->arena, text, &c->diag, out));
  c->diag.base.file = NULL;
  return TENON_OK;
}

// Later values of a variable replace earlier ones.
static void set_variable(Prompt *p, Str name, Json value) {
  for (int64_t i = 0; i < p->name.n; i++)
    if (str_eq(p->name.v[i], name)) {
      p->value.v[i] = value;
      return;
    }
  vec_push(&p->cli->arena, &p->name, name);
  vec_push(&p->cli->arena, &p->value, value);
}

static Json variables(const Prompt *p) {
  return (Json){.kind = JSON_OBJECT, .n = p->name.n, .item = p->value.v, .key = p->name.v};
}

// ---- a model's folder ----

static const char *in_folder(Cli *c, const char *folder, const char *name) {
  return str_printf(&c->arena, "%s/%s", folder, name);
}

static bool is_there(const char *path) {
  FileInfo info;
  return !platform->info(path, &info) && info.regular;
}

// "bos_token": "<s>", or an object whose `content` is the text.
static void special_tokens(Prompt *p, const Json *config) {
  for (int64_t i = 0; i < config->n; i++) {
    const Json *v = &config->item[i], *content = json_get(v, "content");
    if (!str_ends(config->key[i], "_token")) continue;
    if (content) v = content;
    if (v->kind == JSON_STRING) set_variable(p, config->key[i], *v);
  }
}

// One template, or a list of named ones: the one called `default`.
static const Json *template_of(const Json *config) {
  const Json *t = json_get(config, "chat_template");
  if (!t || t->kind != JSON_ARRAY) return t;
  for (int64_t i = 0; i < t->n; i++) {
    const Json *name = json_get(&t->item[i], "name");
    if (name && name->kind == JSON_STRING && str_is(name->s, "default"))
      return json_get(&t->item[i], "template");
  }
  return NULL;
}

// ---- a GGUF file ----

static const GgufValue *key_of(const GgufFile *f, const char *key, GgufKind kind) {
  for (int64_t i = 0; i < f->kv.n; i++)
    if (str_is(f->kv.v[i].key, key) && f->kv.v[i].kind == kind) return &f->kv.v[i];
  return NULL;
}

// The tokens that the metadata numbers: bos_token and its like.
static void gguf_tokens(Prompt *p, const GgufFile *f) {
  static const char *const role[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token"},
                                        {"tokenizer.ggml.eos_token_id", "eos_token"},
                                        {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                        {"tokenizer.ggml.padding_token_id", "pad_token"}};
  const GgufValue *all = key_of(f, "tokenizer.ggml.tokens", GV_ARRAY);
  for (int64_t i = 0; all && all->elem == GV_STRING && i < ARRAY_LEN(role); i++) {
    const GgufValue *id = key_of(f, role[i][0], GV_U32);
    int64_t at = 0;
    Str text;
    for (int64_t k = 0; id && gguf_next_string(all, &at, &text); k++) {
      if (k != id->i) continue;
      Json token = {.kind = JSON_STRING,
                    .s = {arena_dup(&p->cli->arena, text.n ? text.p : "", text.n), text.n}};
      set_variable(p, str_of(role[i][1]), token);
      break;
    }
  }
}

static tenon_status gguf_template(Prompt *p, const char *path, Str bytes, Str *out) {
  Cli *c = p->cli;
  Imported in = {.bytes = bytes, .path = path};
  const char *base = c->diag.base.file;
  c->diag.base.file = path;
  tenon_status s = frontend_gguf.import(&in, &c->diag);
  const GgufFile *f = in.file;
  const GgufValue *t = s ? NULL : key_of(f, "tokenizer.chat_template", GV_STRING);
  if (t) {
    *out = (Str){arena_dup(&c->arena, t->s.n ? t->s.p : "", t->s.n), t->s.n};
    gguf_tokens(p, f);
  } else if (!s) {
    s = fail(&c->diag, TENON_EINVAL, NOWHERE, "the file has no tokenizer.chat_template");
  }
  c->diag.base.file = base;
  graph_free(in.graph);
  return s;
}

static tenon_status file_template(Prompt *p, const char *path, Str *out) {
  File f;
  TRY(file_open(path, &f, &p->cli->diag));
  Str bytes = {f.size ? (const char *)f.bytes : "", f.size};
  tenon_status s = TENON_OK;
  if (frontend_gguf.is(bytes))
    s = gguf_template(p, path, bytes, out);
  else
    *out = (Str){arena_dup(&p->cli->arena, bytes.p, bytes.n), bytes.n};
  file_close(&f);
  return s;
}

static tenon_status template_text(Prompt *p, const char *path, Str *out) {
  Cli *c = p->cli;
  FileInfo info;
  if (!strcmp(path, "-") || platform->info(path, &info) || !info.folder)
    return file_template(p, path, out);
  const char *file = in_folder(c, path, "chat_template.jinja");
  const char *config_file = in_folder(c, path, "tokenizer_config.json");
  Json config = {0};
  if (is_there(config_file)) TRY(read_json(c, config_file, &config));
  special_tokens(p, &config);
  if (is_there(file)) return read_text(c, file, out);
  const Json *t = template_of(&config);
  if (!t || t->kind != JSON_STRING)
    return fail(&c->diag, TENON_EINVAL, (Where){.file = path},
                "the folder has no chat_template.jinja, nor a chat_template in "
                "tokenizer_config.json");
  *out = t->s;
  return TENON_OK;
}

// ---- one rendering ----

static int64_t local_seconds(Cli *c) {
  struct tm tm;
  time_t now = (time_t)platform->file_time();
  if (opt_given(c, OPT_prompt_now)) return opt_int(c, OPT_prompt_now, 0);
  if (!localtime_r(&now, &tm)) return (int64_t)now;
  return (int64_t)now + (int64_t)tm.tm_gmtoff;
}

static tenon_status once(Prompt *p) {
  Cli *c = p->cli;
  Json messages, tools, extra = variables(p);
  TemplateInput in = {.extra = &extra, .now = p->now};
  TemplateResult r;
  const char *path = opt_text(c, OPT_prompt_messages, NULL);
  if (path) {
    TRY(read_json(c, path, &messages));
    in.messages = &messages;
  }
  path = opt_text(c, OPT_prompt_tools, NULL);
  if (path) {
    TRY(read_json(c, path, &tools));
    in.tools = &tools;
  }
  TRY(template_render(p->t, &in, &c->arena, &c->diag, &r));
  fwrite(r.text.p, 1, (size_t)r.text.n, stdout);
  return TENON_OK;
}

// ---- many ----

static void answer(StrBuf *b, const TemplateResult *r, const Diag *d) {
  JsonWriter w;
  json_init(&w, b, true);
  json_begin_object(&w);
  if (r->end == TEMPLATE_DONE && !d->status) {
    json_key(&w, "text");
    json_str(&w, r->text);
  } else {
    json_key(&w, "error");
    json_str(&w, r->message.p ? r->message : str_of(d->text));
    json_key(&w, "kind");
    json_cstr(&w, r->end == TEMPLATE_REFUSED        ? "refused"
                  : r->end == TEMPLATE_LIMIT        ? "limit"
                  : d->status == TENON_EUNSUPPORTED ? "unsupported"
                  : d->status == TENON_ENOMEM       ? "limit"
                                                    : "broken");
    json_key(&w, "line");
    json_i64(&w, r->line);
  }
  json_end_object(&w);
}

static tenon_status render_line(const Prompt *p, Str line, Arena *a, Diag *d, TemplateResult *r) {
  Json all;
  TRY(json_parse(a, line, d, &all));
  Json extra = variables(p);
  Str *name = arena_array(a, Str, extra.n + all.n + 1);
  Json *value = arena_array(a, Json, extra.n + all.n + 1);
  TemplateInput in = {.now = p->now, .extra = &extra};
  ChatTemplate *t = p->t;
  for (int64_t i = 0; i < extra.n; i++) {
    name[i] = extra.key[i];
    value[i] = extra.item[i];
  }
  for (int64_t i = 0; i < all.n; i++) {
    if (all.kind != JSON_OBJECT) break;
    if (str_is(all.key[i], "chat_template") && all.item[i].kind == JSON_STRING) {
      TRY(template_parse(a, all.item[i].s, NULL, d, &t));
      continue;
    }
    name[extra.n] = all.key[i];
    value[extra.n++] = all.item[i];
  }
  extra.key = name;
  extra.item = value;
  return template_render(t, &in, a, d, r);
}

static tenon_status each_line(Prompt *p, const char *path) {
  Str text;
  TRY(read_text(p->cli, path, &text));
  Diag *d = arena_new(&p->cli->arena, Diag);
  while (text.n) {
    const char *end = memchr(text.p, '\n', (size_t)text.n);
    Str line = {text.p, end ? end - text.p : text.n};
    text.n -= line.n + (end != NULL);
    text.p += line.n + (end != NULL);
    Arena a;
    StrBuf b;
    TemplateResult r = {0};
    arena_init_scoped(&a);
    strbuf_init(&b, &a);
    diag_init(d);
    if (render_line(p, line, &a, d, &r) && r.end == TEMPLATE_DONE) r.end = TEMPLATE_BROKEN;
    answer(&b, &r, d);
    fwrite(b.p, 1, (size_t)b.n, stdout);
    fputc('\n', stdout);
    arena_deinit(&a);
  }
  return TENON_OK;
}

static tenon_status set_variables(Prompt *p) {
  Cli *c = p->cli;
  const OptionValue *o = &c->opt[OPT_prompt_set];
  set_variable(p, STR("add_generation_prompt"),
               (Json){.kind = JSON_BOOL, .b = !opt_given(c, OPT_prompt_no_generation_prompt)});
  for (int64_t i = 0; i < o->count; i++) {
    const char *name, *text;
    Json value;
    c->misused = true;
    if (!opt_split(c, o->text[i], &name, &text))
      return fail(&c->diag, TENON_EINVAL, NOWHERE, "--set takes NAME=JSON, not '%s'", o->text[i]);
    TRY(json_parse(&c->arena, str_of(text), &c->diag, &value));
    c->misused = false;
    set_variable(p, str_of(name), value);
  }
  return TENON_OK;
}

int cmd_prompt(Cli *c) {
  Prompt p = {.cli = c, .now = local_seconds(c)};
  Str source;
  const char *lines = opt_text(c, OPT_prompt_lines, NULL);
  tenon_status s = template_text(&p, c->pos[0], &source);
  if (!s) s = set_variables(&p);
  if (s) return c->misused ? CLI_USAGE : cli_exit_of(s);
  s = template_parse(&c->arena, source, c->pos[0], &c->diag, &p.t);
  if (!s) s = lines ? each_line(&p, lines) : once(&p);
  return cli_exit_of(s);
}
