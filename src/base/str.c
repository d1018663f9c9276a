// str.c -- string slices and growing text.
//
// Slices carry their length and may hold any bytes; nothing here reads past it.
#include "base/base.h"

#include <stdio.h>

int str_cmp(Str a, Str b) {
  int64_t n = MIN(a.n, b.n);
  int c = n ? memcmp(a.p, b.p, (size_t)n) : 0;
  return c ? c : (a.n > b.n) - (a.n < b.n);
}

bool str_starts(Str s, const char *prefix) {
  Str x = str_of(prefix);
  return s.n >= x.n && str_eq((Str){s.p, x.n}, x);
}

bool str_ends(Str s, const char *suffix) {
  Str x = str_of(suffix);
  return s.n >= x.n && (x.n == 0 || str_eq((Str){s.p + (s.n - x.n), x.n}, x));
}

bool str_to_i64(Str s, int64_t *out) {
  *out = 0;
  int64_t i = 0, v = 0;
  bool neg = s.n > 0 && s.p[0] == '-';
  if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+')) i = 1;
  if (i == s.n) return false;
  // Counted downwards, since the negative range is the larger.
  for (; i < s.n; i++) {
    if (s.p[i] < '0' || s.p[i] > '9') return false;
    if (!ck_mul(v, 10, &v) || !ck_sub(v, s.p[i] - '0', &v)) return false;
  }
  if (!neg && !ck_sub(0, v, &v)) return false;
  *out = v;
  return true;
}

// Length of the well-formed UTF-8 sequence at p, 0 when there is none (Unicode 15, table 3-7).
static int utf8_len(const uint8_t *p, int64_t left) {
  uint8_t c = p[0], lo = 0x80, hi = 0xBF;
  if (c < 0x80) return 1;
  if (c < 0xC2 || c > 0xF4) return 0;
  int n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  if (left < n) return 0;
  if (c == 0xE0) lo = 0xA0;  // shortest form
  if (c == 0xED) hi = 0x9F;  // surrogates
  if (c == 0xF0) lo = 0x90;  // shortest form
  if (c == 0xF4) hi = 0x8F;  // beyond U+10FFFF
  if (p[1] < lo || p[1] > hi) return 0;
  for (int i = 2; i < n; i++)
    if (p[i] < 0x80 || p[i] > 0xBF) return 0;
  return n;
}

bool str_is_utf8(Str s) {
  for (int64_t i = 0; i < s.n;) {
    int n = utf8_len((const uint8_t *)s.p + i, s.n - i);
    if (!n) return false;
    i += n;
  }
  return true;
}

// Levenshtein, one row.  Names longer than the row are not worth a suggestion.
int64_t str_distance(Str a, Str b) {
  enum { ROW = 128 };
  int64_t row[ROW + 1];
  if (a.n > ROW || b.n > ROW) return str_eq(a, b) ? 0 : MAX(a.n, b.n);
  for (int64_t j = 0; j <= b.n; j++) row[j] = j;
  for (int64_t i = 1; i <= a.n; i++) {
    int64_t diag = row[0];
    row[0] = i;
    for (int64_t j = 1; j <= b.n; j++) {
      int64_t change = diag + (a.p[i - 1] != b.p[j - 1]);
      diag = row[j];
      row[j] = MIN(change, MIN(row[j], row[j - 1]) + 1);
    }
  }
  return row[b.n];
}

// Letters that the word and a part of `text` begin with alike; parts are between - and _.
static int64_t common_prefix(Str word, const char *text) {
  int64_t most = 0;
  for (const char *p = text; *p; p++) {
    if (p != text && p[-1] != '-' && p[-1] != '_') continue;
    int64_t n = 0;
    while (n < word.n && p[n] && p[n] == word.p[n]) n++;
    most = MAX(most, n);
  }
  return most;
}

// The words that are nearest: by letters one, by their beginnings as many as begin alike.
static int nearest_words(Str word, const char *const *words, int64_t n, const char **out, int cap) {
  enum { PREFIX = 3 };
  const char *best = NULL;
  int64_t least = INT64_MAX, most = PREFIX;
  int alike = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!words[i]) continue;
    int64_t d = str_distance(word, str_of(words[i])), p = common_prefix(word, words[i]);
    if (d < least) least = d, best = words[i];
    if (p < most || 2 * p < word.n) continue;
    if (p > most) alike = 0;
    most = p;
    if (alike < cap) out[alike++] = words[i];
  }
  // Further than a third of its letters is no slip of the finger.
  if (!best || least > MAX(2, word.n / 3) || least >= MAX(word.n, 2)) return alike;
  out[0] = best;
  return 1;
}

const char *str_nearest(Str word, const char *const *words, int64_t n) {
  const char *one;
  return nearest_words(word, words, n, &one, 1) ? one : NULL;
}

HintText did_you_mean(Str word, const char *const *words, int64_t n) {
  enum { MOST = 2 };
  HintText h = {""};
  const char *near[MOST];
  int count = nearest_words(word, words, n, near, MOST);
  int len = count
                ? snprintf(h.s, sizeof h.s, "; did you mean '%s'%s%s%s?", near[0],
                           count > 1 ? " or '" : "", count > 1 ? near[1] : "", count > 1 ? "'" : "")
                : 0;
  if (len < 0 || len >= (int)sizeof h.s) h.s[0] = 0;
  return h;
}

// Backtracks to the last star only, which is enough and keeps the time within length x length.
bool str_glob(const char *pattern, const char *text) {
  const char *star = NULL, *from = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = ++pattern;
      from = text;
    } else if (*pattern == '?' || *pattern == *text) {
      pattern++, text++;
    } else if (star) {
      pattern = star;
      text = ++from;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

char *str_copy(Arena *a, Str s) {
  int64_t bytes;
  if (!ck_add(s.n, 1, &bytes)) trap_raise(TENON_ENOMEM, "out of memory");
  char *p = arena_alloc(a, bytes);
  if (s.n) memcpy(p, s.p, (size_t)s.n);
  p[s.n] = 0;
  return p;
}

char *str_vprintf(Arena *a, const char *fmt, va_list ap) {
  char small[128];  // most are
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(small, sizeof small, fmt, again);
  va_end(again);
  CHECK(n >= 0, "bad format \"%s\"", fmt);
  char *p = arena_alloc(a, (int64_t)n + 1);
  if (n < (int)sizeof small)
    memcpy(p, small, (size_t)n + 1);
  else
    vsnprintf(p, (size_t)n + 1, fmt, ap);
  return p;
}

char *str_printf(Arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *p = str_vprintf(a, fmt, ap);
  va_end(ap);
  return p;
}

// ---- growing text ----

void strbuf_init(StrBuf *b, Arena *a) { *b = (StrBuf){.arena = a}; }

// Room for n more bytes and the NUL.
static void strbuf_reserve(StrBuf *b, int64_t n) {
  int64_t need;
  if (!ck_add(b->n, n, &need) || !ck_add(need, 1, &need)) trap_raise(TENON_ENOMEM, "out of memory");
  while (b->cap < need) b->p = vec_grow(b->arena, b->p, b->p ? b->n + 1 : 0, &b->cap, 1);
}

void strbuf_put(StrBuf *b, Str s) {
  strbuf_reserve(b, s.n);
  if (s.n) memcpy(b->p + b->n, s.p, (size_t)s.n);
  b->n += s.n;
  b->p[b->n] = 0;
}

void strbuf_puts(StrBuf *b, const char *z) { strbuf_put(b, str_of(z)); }
void strbuf_putc(StrBuf *b, char c) { strbuf_put(b, (Str){&c, 1}); }

void strbuf_printf(StrBuf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  CHECK(n >= 0, "bad format \"%s\"", fmt);
  strbuf_reserve(b, n);
  va_start(ap, fmt);
  vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
  va_end(ap);
  b->n += n;
}

const char *strbuf_text(const StrBuf *b) { return b->p ? b->p : ""; }
