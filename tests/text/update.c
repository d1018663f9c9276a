// update.c -- rewrites the generated checks of a text test (text.h).
//
// Only the lines below a GENERATED line change.  Checks that a person wrote stay as they are.
#include "text/text.h"

// Each generated block is replaced by the lines of the present graph.
static void put_block(const TextOutput *o, Str prefix, StrBuf *out) {
  Str rest = o->graph;
  for (bool first = true; rest.n; first = false) {
    const char *end = memchr(rest.p, '\n', (size_t)rest.n);
    Str line = {rest.p, end ? end - rest.p : rest.n};
    strbuf_printf(out, "// %.*s%s ", STR_ARG(prefix), first ? ":     " : "-NEXT:");
    strbuf_put(out, line);
    strbuf_putc(out, '\n');
    rest = (Str){line.p + line.n + (end != NULL), rest.n - line.n - (end != NULL)};
  }
}

static const TextGenerated *generated_at(const TextSection *s, int line) {
  for (int64_t i = 0; i < s->generated.n; i++)
    if (s->generated.v[i].line == line) return &s->generated.v[i];
  return NULL;
}

static bool is_generated(const TextSection *s, int line) {
  for (int64_t i = 0; i < s->check.n; i++)
    if (s->check.v[i].line == line) return s->check.v[i].generated;
  return false;
}

static const TextOutput *output_of(const TextSection *s, const TextOutput *o, Str prefix) {
  for (int64_t i = 0; i < s->run.n; i++)
    if (str_is(prefix, s->run.v[i].prefix)) return &o[i];
  return NULL;
}

// Appends the lines of a section, with its generated blocks as they are now.
static void put_section(const TextSection *s, const TextOutput *o, StrBuf *out) {
  int line = s->first;
  for (Str rest = s->text; rest.n; line++) {
    const char *end = memchr(rest.p, '\n', (size_t)rest.n);
    Str text = {rest.p, end ? end + 1 - rest.p : rest.n};
    rest = (Str){rest.p + text.n, rest.n - text.n};
    if (is_generated(s, line)) continue;
    strbuf_put(out, text);
    const TextGenerated *g = generated_at(s, line);
    if (g) put_block(output_of(s, o, g->prefix), g->prefix, out);
  }
}

void text_file_update(const TextFile *f, TextOutput *const *output, StrBuf *out) {
  for (int64_t i = 0; i < f->section.n; i++) {
    if (i) strbuf_puts(out, "// -----\n");
    put_section(&f->section.v[i], output[i], out);
  }
}
