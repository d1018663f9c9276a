// texts.c -- texts that a command is given: by an option, and as lines of a file (serve.h).
#include "cli/llm/serve.h"

// A line of a .jsonl file is a JSON string, or an object with `key`.
static tenon_status line_text(Cli *c, Str line, const char *key, int64_t number, Str *out) {
  Json *j = arena_new(&c->arena, Json);
  TRY(json_parse(&c->arena, line, &c->diag, j));
  const Json *p = j->kind == JSON_OBJECT ? json_get(j, key) : j;
  if (!p || p->kind != JSON_STRING)
    return fail(&c->diag, TENON_EFORMAT, NOWHERE,
                "line %lld is neither a string nor an object with \"%s\"", (long long)number, key);
  *out = p->s;
  return TENON_OK;
}

static int64_t count_lines(Str text) {
  int64_t n = 0;
  for (int64_t i = 0; i < text.n; i++) n += text.p[i] == '\n';
  return n + 1;
}

static tenon_status read_lines(Cli *c, Str text, const char *key, Str *out, int64_t *n) {
  int64_t number = 0;
  for (int64_t at = 0, end; at < text.n; at = end + 1) {
    for (end = at; end < text.n && text.p[end] != '\n'; end++) {}
    Str line = {text.p + at, end - at};
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    number++;
    if (!line.n) continue;
    if (key) TRY(line_text(c, line, key, number, &line));
    out[(*n)++] = line;
  }
  return TENON_OK;
}

tenon_status serve_texts(Cli *c, int option, int file, const char *key, Strs *out) {
  const OptionValue *given = &c->opt[option];
  const char *path = opt_text(c, file, NULL);
  Str text = {0};
  if (path) {
    File f;
    TRY(file_open(path, &f, &c->diag));
    text = (Str){arena_dup(&c->arena, f.size ? (const void *)f.bytes : "", f.size), f.size};
    file_close(&f);
  }
  int64_t n = 0;
  Str *all = arena_array(&c->arena, Str, given->count + count_lines(text));
  for (int64_t i = 0; i < given->count; i++) all[n++] = str_of(given->text[i]);
  if (path) {
    c->diag.base.file = path;
    TRY(read_lines(c, text, str_ends(str_of(path), ".jsonl") ? key : NULL, all, &n));
    c->diag.base.file = NULL;
  }
  *out = (Strs){n, all};
  if (n) return TENON_OK;
  c->misused = true;
  return fail(&c->diag, TENON_EINVAL, NOWHERE, "no %s: -p TEXT or --file F gives one", key);
}
