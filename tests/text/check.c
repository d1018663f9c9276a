// check.c -- matches CHECK lines with the lines of an output (text.h).
//
// A pattern is literal but for {{regex}}, [[name:regex]] and [[name]].  It is turned into one POSIX
// extended regular expression.  Blanks around a pattern are ignored; a line that contains it
// matches.
#include "text/text.h"

#include <regex.h>

enum { MAX_VARS = 16, MAX_GROUPS = 32, CONTEXT = 4 };

typedef VEC(Str) Lines;
typedef struct Var {
  Str name;
  const char *value;
} Var;
typedef struct Checker {
  Arena *arena;
  Lines line;
  int64_t at;  // the next line to look at
  Var var[MAX_VARS];
  int nvars;
  StrBuf *why;
} Checker;
typedef struct Pattern {
  regex_t re;
  struct {
    Str name;
    int group;
  } define[MAX_VARS];
  int ndefines;
} Pattern;

static void split_lines(Str text, Arena *a, Lines *out) {
  for (int64_t at = 0; at < text.n;) {
    const char *end = memchr(text.p + at, '\n', (size_t)(text.n - at));
    int64_t n = (end ? end - text.p : text.n) - at;
    vec_push(a, out, ((Str){text.p + at, n}));
    at += n + 1;
  }
}

static Str trim(Str s) {
  while (s.n && s.p[0] == ' ') s.p++, s.n--;
  while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\r')) s.n--;
  return s;
}

// ---- patterns ----

static void put_literal(StrBuf *b, Str s) {
  for (int64_t i = 0; i < s.n; i++) {
    if (strchr("\\^$.[]|()?*+{}", s.p[i])) strbuf_putc(b, '\\');
    strbuf_putc(b, s.p[i]);
  }
}

static int count_groups(Str re) {
  int n = 0;
  for (int64_t i = 0; i < re.n; i++) {
    if (re.p[i] == '\\')
      i++;
    else if (re.p[i] == '[')  // a class: its first character may be ]
      for (i += 2; i < re.n && re.p[i] != ']';) i++;
    else
      n += re.p[i] == '(';
  }
  return n;
}

static const Var *find_var(const Checker *c, Str name) {
  for (int i = 0; i < c->nvars; i++)
    if (str_eq(c->var[i].name, name)) return &c->var[i];
  return NULL;
}

// The end of {{...}} or [[...]] in s; -1: it has none.
static int64_t find_close(Str s, int64_t from, char close) {
  for (int64_t i = from; i + 1 < s.n; i++)
    if (s.p[i] == close && s.p[i + 1] == close && (i + 2 == s.n || s.p[i + 2] != close)) return i;
  return -1;
}

static bool put_variable(const Checker *c, Pattern *p, Str inner, int *groups, StrBuf *re) {
  const char *colon = memchr(inner.p, ':', (size_t)inner.n);
  if (!colon) {
    const Var *v = find_var(c, inner);
    if (!v) {
      strbuf_printf(c->why, "[[%.*s]] is not defined by an earlier line\n", STR_ARG(inner));
      return false;
    }
    put_literal(re, str_of(v->value));
    return true;
  }
  if (p->ndefines == MAX_VARS) return false;
  Str name = {inner.p, colon - inner.p}, part = {colon + 1, inner.n - (colon + 1 - inner.p)};
  p->define[p->ndefines].name = name;
  p->define[p->ndefines++].group = ++*groups;
  strbuf_printf(re, "(%.*s)", STR_ARG(part));
  *groups += count_groups(part);
  return true;
}

static bool pattern_make(const Checker *c, Str text, Pattern *p) {
  StrBuf re;
  int groups = 0;
  strbuf_init(&re, c->arena);
  p->ndefines = 0;
  for (int64_t i = 0; i < text.n;) {
    bool regex = text.n - i > 1 && text.p[i] == '{' && text.p[i + 1] == '{';
    bool variable = text.n - i > 1 && text.p[i] == '[' && text.p[i + 1] == '[';
    int64_t close = regex || variable ? find_close(text, i + 2, regex ? '}' : ']') : -1;
    if (close < 0) {
      put_literal(&re, (Str){text.p + i++, 1});
      continue;
    }
    Str inner = {text.p + i + 2, close - i - 2};
    if (regex) {
      strbuf_printf(&re, "(%.*s)", STR_ARG(inner));
      groups += 1 + count_groups(inner);
    } else if (!put_variable(c, p, inner, &groups, &re)) {
      return false;
    }
    i = close + 2;
  }
  if (groups < MAX_GROUPS && !regcomp(&p->re, strbuf_text(&re), REG_EXTENDED)) return true;
  strbuf_printf(c->why, "not a regular expression: %s\n", strbuf_text(&re));
  return false;
}

// True when the line contains the pattern, whose variables are then defined.
static bool pattern_matches(Checker *c, const Pattern *p, Str line) {
  regmatch_t m[MAX_GROUPS];
  const char *text = str_copy(c->arena, line);
  if (regexec(&p->re, text, MAX_GROUPS, m, 0)) return false;
  for (int i = 0; i < p->ndefines; i++) {
    const regmatch_t *g = &m[p->define[i].group];
    Var *v = (Var *)find_var(c, p->define[i].name);
    if (!v && c->nvars == MAX_VARS) return false;
    if (!v) v = &c->var[c->nvars++];
    *v = (Var){p->define[i].name, str_copy(c->arena, (Str){text + g->rm_so, g->rm_eo - g->rm_so})};
  }
  return true;
}

static int64_t find_from(Checker *c, const Pattern *p, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++)
    if (pattern_matches(c, p, c->line.v[i])) return i;
  return -1;
}

// ---- checks ----

static void show(const Checker *c, int64_t mark) {
  strbuf_puts(c->why, "  the output, > where the check looked first:\n");
  int64_t from = MAX(0, mark - 3 * CONTEXT), to = MIN(c->line.n, mark + 6 * CONTEXT);
  for (int64_t i = from; i < to; i++)
    strbuf_printf(c->why, "  %c %3lld  %.*s\n", i == mark ? '>' : ' ', (long long)i + 1,
                  STR_ARG(c->line.v[i]));
  if (mark >= c->line.n) strbuf_puts(c->why, "  >      (the end)\n");
}

static bool missed(const Checker *c, const CheckLine *k, const char *what, int64_t mark) {
  strbuf_printf(c->why, "%s\n  expected: %.*s\n", what, STR_ARG(k->pattern));
  show(c, mark);
  return false;
}

static bool check_count(Checker *c, const CheckLine *k, const Pattern *p) {
  int64_t n = 0, last = c->at;
  for (int64_t i = c->at; i < c->line.n; i++)
    if (pattern_matches(c, p, c->line.v[i])) n++, last = i;
  if (n == k->count) return true;
  return missed(c, k,
                str_printf(c->arena, "%lld lines and not %lld", (long long)n, (long long)k->count),
                last);
}

// PREFIX: and PREFIX-NEXT: move on to the line behind the one that they found.
static bool check_found(Checker *c, const CheckLine *k, const Pattern *p) {
  int64_t to = k->kind == CHECK_NEXT ? MIN(c->at + 1, c->line.n) : c->line.n;
  int64_t found = find_from(c, p, c->at, to);
  if (found < 0)
    return missed(c, k, k->kind == CHECK_NEXT ? "not in the next line" : "not found", c->at);
  c->at = found + 1;
  return true;
}

// The PREFIX-NOT: lines between two positions.
static const CheckLine *check_absent(Checker *c, const CheckLine *const *k, int64_t n, int64_t from,
                                     int64_t to) {
  for (int64_t i = 0; i < n; i++) {
    Pattern p;
    if (!pattern_make(c, k[i]->pattern, &p)) return k[i];
    int64_t found = find_from(c, &p, from, to);
    regfree(&p.re);
    if (found < 0) continue;
    missed(c, k[i], "found where it must not be", found);
    return k[i];
  }
  return NULL;
}

static bool check_one(Checker *c, const CheckLine *k) {
  Pattern p;
  if (!pattern_make(c, k->pattern, &p)) return false;
  bool ok = k->kind == CHECK_COUNT ? check_count(c, k, &p) : check_found(c, k, &p);
  regfree(&p.re);
  return ok;
}

bool check_output(const CheckLines *lines, Str prefix, Str output, Arena *a, int *out_line,
                  StrBuf *why) {
  Checker c = {.arena = a, .why = why};
  VEC(const CheckLine *) absent = {0};  // since the last line that was found
  split_lines(output, a, &c.line);
  for (int64_t i = 0; i < lines->n; i++) {
    const CheckLine *k = &lines->v[i], *bad = NULL;
    if (k->generated || !str_eq(k->prefix, prefix)) continue;
    *out_line = k->line;
    if (k->kind == CHECK_NOT) {
      vec_push(a, &absent, k);
      continue;
    }
    int64_t from = c.at;
    if (!check_one(&c, k)) return false;
    if (k->kind == CHECK_COUNT) continue;
    bad = check_absent(&c, absent.v, absent.n, from, c.at - 1);
    absent.n = 0;
    if (bad) *out_line = bad->line;
    if (bad) return false;
  }
  const CheckLine *bad = check_absent(&c, absent.v, absent.n, c.at, c.line.n);
  if (bad) *out_line = bad->line;
  return !bad;
}

// ---- generated checks ----

// The texts of two graphs, line by line.  `key` is what is compared: one node more renumbers all
// values behind it, which must not hide the difference.
typedef struct DiffText {
  Lines line, key;
} DiffText;
typedef struct DiffLine {
  char mark;  // ' ', '-' or '+'
  Str text;
} DiffLine;
typedef VEC(DiffLine) DiffLines;

// The line with %# for %0, %1 and so on.
static Str without_numbers(Str line, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < line.n; i++) {
    bool digit = line.p[i] >= '0' && line.p[i] <= '9';
    if (digit && b.n && b.p[b.n - 1] == '#') continue;
    strbuf_putc(&b, digit && b.n && b.p[b.n - 1] == '%' ? '#' : line.p[i]);
  }
  return strbuf_str(&b);
}

// Length of the longest common subsequence of the ends of two texts, by their first lines.
static int *common_lengths(const Lines *x, const Lines *y, Arena *a) {
  int64_t w = y->n + 1;
  int *len = arena_array(a, int, (x->n + 1) * w);
  for (int64_t i = x->n - 1; i >= 0; i--)
    for (int64_t k = y->n - 1; k >= 0; k--)
      len[i * w + k] = str_eq(x->v[i], y->v[k]) ? 1 + len[(i + 1) * w + k + 1]
                                                : MAX(len[(i + 1) * w + k], len[i * w + k + 1]);
  return len;
}

// False: the keys are all the same.
static bool find_differences(const DiffText *want, const DiffText *got, Arena *a, DiffLines *d) {
  const int *len = common_lengths(&want->key, &got->key, a);
  int64_t w = got->key.n + 1, n = want->key.n, m = got->key.n, same = 0;
  d->n = 0;
  for (int64_t i = 0, k = 0; i < n || k < m;) {
    if (i < n && k < m && str_eq(want->key.v[i], got->key.v[k])) {
      vec_push(a, d, ((DiffLine){' ', got->line.v[k++]}));
      i++, same++;
    } else if (i < n && (k == m || len[(i + 1) * w + k] >= len[i * w + k + 1])) {
      vec_push(a, d, ((DiffLine){'-', want->line.v[i++]}));
    } else {
      vec_push(a, d, ((DiffLine){'+', got->line.v[k++]}));
    }
  }
  return same < n || same < m;
}

static void put_diff(const Lines *want, const Lines *got, Arena *a, StrBuf *out) {
  DiffText x = {.line = *want}, y = {.line = *got};
  DiffLines d = {0};
  for (int64_t i = 0; i < want->n; i++) vec_push(a, &x.key, without_numbers(want->v[i], a));
  for (int64_t i = 0; i < got->n; i++) vec_push(a, &y.key, without_numbers(got->v[i], a));
  if (!find_differences(&x, &y, a, &d)) {  // it is the numbers that differ
    x.key = x.line, y.key = y.line;
    find_differences(&x, &y, a, &d);
  }
  for (int64_t i = 0; i < d.n; i++) {
    bool near = false;
    for (int64_t k = MAX(0, i - CONTEXT); k < MIN(d.n, i + CONTEXT + 1); k++)
      near |= d.v[k].mark != ' ';
    if (near) strbuf_printf(out, "  %c %.*s\n", d.v[i].mark, STR_ARG(d.v[i].text));
  }
}

bool check_generated(const CheckLines *lines, Str prefix, Str graph, Arena *a, int *out_line,
                     StrBuf *why) {
  Lines want = {0}, got = {0}, text = {0};
  split_lines(graph, a, &text);
  for (int64_t i = 0; i < text.n; i++) vec_push(a, &got, trim(text.v[i]));
  bool any = false;
  for (int64_t i = 0; i < lines->n; i++) {
    const CheckLine *k = &lines->v[i];
    if (!k->generated || !str_eq(k->prefix, prefix)) continue;
    if (!any) *out_line = k->line;
    any = true;
    vec_push(a, &want, trim(k->pattern));
  }
  bool same = want.n == got.n;
  for (int64_t i = 0; same && i < want.n; i++) same = str_eq(want.v[i], got.v[i]);
  if (same) return true;
  strbuf_puts(why, "the graph differs, - expected, + found (--update takes what was found):\n");
  put_diff(&want, &got, a, why);
  return false;
}
