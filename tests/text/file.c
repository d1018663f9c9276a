// file.c -- reads a text test: sections, RUN lines and checks (text.h).
//
// A directive is a comment that begins with a word in capitals and a colon.  A word that is no
// directive is an error, so that a misspelt check is never taken for prose.
#include "text/text.h"

#include <stdlib.h>

typedef struct Reader {
  Arena *arena;
  TextFile *file;
  TextSection *section;
  Str generated;  // prefix of the generated block that the last line was in; empty: none
  int line;
  StrBuf *why;
} Reader;

static bool bad(Reader *r, const char *what, Str text) {
  strbuf_printf(r->why, "%s: %.*s\n", what, STR_ARG(text));
  return false;
}

static Str trim(Str s) {
  while (s.n && s.p[0] == ' ') s.p++, s.n--;
  while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\r')) s.n--;
  return s;
}

// Takes the text up to a character away from the front of *rest.
static Str take_until(Str *rest, char c) {
  const char *end = memchr(rest->p, c, (size_t)rest->n);
  Str word = {rest->p, end ? end - rest->p : rest->n};
  *rest = (Str){rest->p + word.n + (end != NULL), rest->n - word.n - (end != NULL)};
  return word;
}

// ---- RUN lines ----
typedef enum { TAKES_NOTHING, TAKES_TEXT, TAKES_INT, TAKES_FLOAT } Takes;
typedef struct Option {
  const char *name;
  Takes takes;
  size_t offset;  // in TextRun
} Option;
#define OPTION(name, takes, field)                                                                 \
  { name, takes, offsetof(TextRun, field) }

static const Option option[] = {
    // those of `tenon inspect --optimised`
    OPTION("-O", TAKES_INT, level),
    OPTION("--exact", TAKES_NOTHING, exact),
    OPTION("--fast", TAKES_NOTHING, fast),
    OPTION("--stop-after", TAKES_TEXT, opt.stop_after),
    OPTION("--start-from", TAKES_TEXT, opt.start_from),
    OPTION("--disable", TAKES_TEXT, opt.disable),
    // those of tests
    OPTION("--channels-last", TAKES_NOTHING, opt.channels_last),
    OPTION("--prefix", TAKES_TEXT, prefix),
    OPTION("--stats", TAKES_TEXT, stats),
    OPTION("--tolerance", TAKES_FLOAT, tolerance),
    OPTION("--again", TAKES_NOTHING, again),
    OPTION("--no-more-bytes", TAKES_NOTHING, no_more_bytes),
};

static bool set_option(Reader *r, TextRun *run, const Option *o, Str value) {
  char *field = (char *)run + o->offset;
  const char *text = str_copy(r->arena, value);
  char *end = NULL;
  if (o->takes == TAKES_NOTHING) *(bool *)field = true;
  if (o->takes == TAKES_TEXT) *(const char **)field = text;
  if (o->takes == TAKES_INT && !str_to_i64(value, (int64_t *)field))
    return bad(r, "not a number", value);
  if (o->takes == TAKES_FLOAT) *(double *)field = strtod(text, &end);
  return (!end || !*end) || bad(r, "not a number", value);
}

static Str next_word(Str *rest) {
  *rest = trim(*rest);
  return take_until(rest, ' ');
}

static bool read_option(Reader *r, TextRun *run, Str word, Str *rest) {
  bool level = str_starts(word, "-O");  // its value follows without a blank
  for (int64_t i = 0; i < ARRAY_LEN(option); i++) {
    const Option *o = &option[i];
    if (!(level ? i == 0 : str_is(word, o->name))) continue;
    Str value = {0};
    if (o->takes != TAKES_NOTHING) value = level ? (Str){word.p + 2, word.n - 2} : next_word(rest);
    if (o->takes != TAKES_NOTHING && !value.n) return bad(r, "needs a value", word);
    return set_option(r, run, o, value);
  }
  return bad(r, "RUN has no option", word);
}

static bool read_run(Reader *r, Str rest) {
  TextRun run = {.line = r->line, .prefix = "CHECK"};
  opt_defaults(&run.opt);
  run.opt.verify_each = true;
  run.level = run.opt.level;
  if (!str_is(next_word(&rest), "opt")) return bad(r, "RUN begins with 'opt'", rest);
  for (Str word = next_word(&rest); word.n; word = next_word(&rest))
    if (!read_option(r, &run, word, &rest)) return false;
  run.opt.level = (int)run.level;
  run.opt.fast = opt_fast_math_flags(run.opt.level, run.exact, run.fast);
  vec_push(r->arena, &r->section->run, run);
  return true;
}

// ---- directives ----

// SIZES: n=9 h=7
static bool read_sizes(Reader *r, Str rest) {
  for (Str word = next_word(&rest); word.n; word = next_word(&rest)) {
    Str value = word;
    TextSize s = {.name = take_until(&value, '=')};
    if (!str_to_i64(value, &s.value)) return bad(r, "SIZES has NAME=NUMBER", word);
    vec_push(r->arena, &r->section->size, s);
  }
  return true;
}

// GENERATED: PREFIX
static bool read_generated(Reader *r, Str rest) {
  r->generated = trim(rest);
  for (int64_t i = 0; i < r->section->generated.n; i++)
    if (str_eq(r->section->generated.v[i].prefix, r->generated))
      return bad(r, "generated twice", r->generated);
  vec_push(r->arena, &r->section->generated, ((TextGenerated){r->line, r->generated}));
  return true;
}

// PREFIX, PREFIX-NEXT, PREFIX-NOT or PREFIX-COUNT-n
static bool read_check(Reader *r, Str word, Str rest) {
  CheckLine k = {.line = r->line, .pattern = trim(rest)};
  Str kind = word;
  k.prefix = take_until(&kind, '-');
  bool known = true;
  if (!kind.n)
    k.kind = CHECK_FIND;
  else if (str_is(kind, "NEXT"))
    k.kind = CHECK_NEXT;
  else if (str_is(kind, "NOT"))
    k.kind = CHECK_NOT;
  else if (str_starts(kind, "COUNT-") && str_to_i64((Str){kind.p + 6, kind.n - 6}, &k.count))
    k.kind = CHECK_COUNT;
  else
    known = false;
  if (!known) return bad(r, "no such check", word);
  if (!k.pattern.n) return bad(r, "a check without a pattern", word);
  k.generated = r->generated.n && str_eq(k.prefix, r->generated) &&
                (k.kind == CHECK_FIND || k.kind == CHECK_NEXT);
  if (!k.generated) r->generated = (Str){0};
  vec_push(r->arena, &r->section->check, k);
  return true;
}

// The word of a directive; empty: the line is prose, or no comment.
static Str directive_of(Str line, Str *rest) {
  *rest = trim(line);
  if (!str_starts(*rest, "//")) return (Str){0};
  *rest = trim((Str){rest->p + 2, rest->n - 2});
  int64_t n = 0;
  while (n < rest->n && (strchr("-_", rest->p[n]) || (rest->p[n] >= 'A' && rest->p[n] <= 'Z') ||
                         (n && rest->p[n] >= '0' && rest->p[n] <= '9')))
    n++;
  if (n < 2 || n == rest->n || rest->p[n] != ':' || rest->p[0] == '-') return (Str){0};
  Str word = {rest->p, n};
  *rest = (Str){rest->p + n + 1, rest->n - n - 1};
  return word;
}

static bool read_line(Reader *r, Str line) {
  Str rest, word = directive_of(line, &rest);
  bool check =
      word.n && !str_is(word, "RUN") && !str_is(word, "SIZES") && !str_is(word, "GENERATED");
  if (check) return read_check(r, word, rest);
  r->generated = (Str){0};
  if (!word.n) return true;
  if (str_is(word, "RUN")) return read_run(r, rest);
  return str_is(word, "SIZES") ? read_sizes(r, rest) : read_generated(r, rest);
}

// ---- sections ----

static bool has_prefix(const TextSection *s, Str p) {
  for (int64_t i = 0; i < s->run.n; i++)
    if (str_is(p, s->run.v[i].prefix)) return true;
  return false;
}

// Takes the RUN lines of the first section where it has none; every check must belong to a RUN
// line.
static bool finish_section(Reader *r, TextSection *s) {
  r->line = s->first;
  if (!s->run.n) s->run = r->file->section.v[0].run;
  if (!s->run.n) return bad(r, "no RUN line", str_of(r->file->path));
  if (!s->check.n && !s->generated.n)
    return bad(r, "the section checks nothing", str_of(r->file->path));
  for (int64_t i = 0; i < s->check.n; i++) {
    r->line = s->check.v[i].line;
    if (!has_prefix(s, s->check.v[i].prefix))
      return bad(r, "no RUN line has the prefix", s->check.v[i].prefix);
  }
  for (int64_t i = 0; i < s->generated.n; i++) {
    r->line = s->generated.v[i].line;
    if (!has_prefix(s, s->generated.v[i].prefix))
      return bad(r, "no RUN line has the prefix", s->generated.v[i].prefix);
  }
  return true;
}

static bool read_sections(Reader *r) {
  Str rest = r->file->text;
  vec_push(r->arena, &r->file->section, ((TextSection){.first = 1, .text = {rest.p, 0}}));
  r->section = r->file->section.v;
  for (r->line = 1; rest.n; r->line++) {
    Str line = take_until(&rest, '\n');
    if (str_is(trim(line), "// -----")) {
      vec_push(r->arena, &r->file->section,
               ((TextSection){.first = r->line + 1, .text = {rest.p, 0}}));
      r->section = &r->file->section.v[r->file->section.n - 1];
      r->generated = (Str){0};
      continue;
    }
    r->section->text.n = rest.p - r->section->text.p;
    if (!read_line(r, line)) return false;
  }
  for (int64_t i = 0; i < r->file->section.n; i++)
    if (!finish_section(r, &r->file->section.v[i])) return false;
  return true;
}

bool text_file_read(const char *path, Str text, Arena *a, TextFile *out, int *out_line,
                    StrBuf *why) {
  *out = (TextFile){.path = path, .text = text};
  Reader r = {.arena = a, .file = out, .why = why};
  bool ok = read_sections(&r);
  *out_line = r.line;
  return ok;
}
