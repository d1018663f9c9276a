// script_origin.c -- where a line of TorchScript's code came from: the file and line that its
// author wrote.
//
// Beside each file of code may lie a pickle of what it was made from: a table of texts, and for
// offsets of the code the lines of the original's function (as numbers of texts), its file, its
// first line, and the place within.  Nothing but errors needs it, so it is read when there is one;
// whatever is wrong with it, there is just no origin.
#include "frontends/pytorch/script.h"

static const Pickled *item(const Pickled *p, int64_t i, PickleKind kind) {
  bool list = p && (p->kind == PK_TUPLE || p->kind == PK_LIST);
  if (!list || i < 0 || i >= p->items.n) return NULL;
  const Pickled *x = p->items.v[i];
  bool same = x->kind == kind || (kind == PK_TUPLE && x->kind == PK_LIST);
  return same ? x : NULL;
}

static Str text_at(const Pickled *texts, const Pickled *number) {
  const Pickled *t = number ? item(texts, number->i, PK_STR) : NULL;
  return t ? t->s : (Str){0};
}

// "model.py:12" of an entry's range; NULL: it has none.
static const char *place(Script *s, const Pickled *texts, const Pickled *range) {
  const Pickled *source = item(range, 0, PK_TUPLE), *start = item(range, 1, PK_INT);
  const Pickled *lines = item(source, 0, PK_TUPLE), *first = item(source, 2, PK_INT);
  Str file = text_at(texts, item(source, 1, PK_INT));
  if (!start || !lines || !first || !file.n) return NULL;
  int64_t at = start->i, line = first->i;
  for (int64_t i = 0; i < lines->items.n; i++) {
    Str text = text_at(texts, item(lines, i, PK_INT));
    if (at < text.n) break;
    at -= text.n;
    for (int64_t k = 0; k < text.n; k++) line += text.p[k] == '\n';
  }
  return str_printf(s->arena, "%.*s:%lld", STR_ARG(file), (long long)line);
}

// The table of a file of code; the last one is kept.
static const Pickled *table_of(Script *s, const char *file) {
  if (s->origin_of && !strcmp(s->origin_of, file)) return s->origin;
  const char *name = str_printf(s->arena, "%s.debug_pkl", file);
  Diag quiet;
  Str bytes;
  TorchArchive t = *s->t;
  t.diag = &quiet;
  diag_init(&quiet);
  s->origin_of = file;
  s->origin = NULL;
  if (!torch_find(&t, name) || torch_bytes(&t, name, &bytes)) return NULL;
  Pickle p = {.arena = s->arena, .diag = &quiet, .at = {.node = name}};
  Pickled *whole = NULL;
  if (!pickle_read(&p, bytes, NULL, &whole)) s->origin = whole;
  return s->origin;
}

// The bytes of line `line` (from 1) of a text: begin and end.
static bool line_span(Str text, int line, int64_t *begin, int64_t *end) {
  int64_t at = 0;
  for (int i = 1; i < line; i++) {
    const char *next = at < text.n ? memchr(text.p + at, '\n', (size_t)(text.n - at)) : NULL;
    if (!next) return false;
    at = next - text.p + 1;
  }
  const char *next = at < text.n ? memchr(text.p + at, '\n', (size_t)(text.n - at)) : NULL;
  *begin = at;
  *end = next ? next - text.p : text.n;
  return at < text.n;
}

const char *script_origin(Script *s, Where at) {
  Str code;
  Diag quiet;
  TorchArchive t = *s->t;
  t.diag = &quiet;
  diag_init(&quiet);
  if (!at.file || at.line < 1) return NULL;
  const Pickled *table = table_of(s, at.file), *texts = item(table, 1, PK_TUPLE);
  const Pickled *entries = item(table, 2, PK_TUPLE);
  int64_t begin, end;
  if (!texts || !entries || torch_bytes(&t, at.file, &code) ||
      !line_span(code, at.line, &begin, &end))
    return NULL;
  for (int64_t i = 0; i < entries->items.n; i++) {
    const Pickled *entry = item(entries, i, PK_TUPLE), *offset = item(entry, 0, PK_INT);
    if (!offset || offset->i < begin || offset->i >= end) continue;
    const char *found = place(s, texts, item(entry, 1, PK_TUPLE));
    if (found) return found;
  }
  return NULL;
}

const char *script_where(Script *s, Where at) {
  const char *origin = script_origin(s, at);
  return origin ? origin : str_printf(s->arena, "%s:%d", at.file ? at.file : "", at.line);
}
