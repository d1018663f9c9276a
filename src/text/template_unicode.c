// template_unicode.c -- UTF-8, and what Python's str knows of characters.
//
// The tables are generated (tools/template_unicode.py).  Rows are in order, so that a character is
// found by halving.
#include "text/template_impl.h"

typedef struct ClassRow {
  uint32_t first, last;
  int flags;
} ClassRow;
#define CLASS(first, last, flags) {first, last, flags},
static const ClassRow class_row[] = {
#include "text/template_unicode.def"
};
#undef CLASS

typedef struct CaseRow {
  uint32_t first, last, stride;
  int32_t distance;
} CaseRow;
#define CASE_ROW(first, last, stride, distance) {first, last, stride, distance},
static const CaseRow upper_row[] = {
#define CASE_UPPER CASE_ROW
#include "text/template_unicode.def"
#undef CASE_UPPER
};
static const CaseRow lower_row[] = {
#define CASE_LOWER CASE_ROW
#include "text/template_unicode.def"
#undef CASE_LOWER
};
static const CaseRow title_row[] = {
#define CASE_TITLE CASE_ROW
#include "text/template_unicode.def"
#undef CASE_TITLE
};
static const CaseRow fold_row[] = {
#define CASE_FOLD CASE_ROW
#include "text/template_unicode.def"
#undef CASE_FOLD
};

typedef struct MoreRow {
  uint32_t c, to[3];
} MoreRow;
#define MORE_ROW(c, x, y, z) {c, {x, y, z}},
static const MoreRow upper_more[] = {
#define MORE_UPPER MORE_ROW
#include "text/template_unicode.def"
#undef MORE_UPPER
};
static const MoreRow lower_more[] = {
#define MORE_LOWER MORE_ROW
#include "text/template_unicode.def"
#undef MORE_LOWER
};
static const MoreRow title_more[] = {
#define MORE_TITLE MORE_ROW
#include "text/template_unicode.def"
#undef MORE_TITLE
};
static const MoreRow fold_more[] = {
#define MORE_FOLD MORE_ROW
#include "text/template_unicode.def"
#undef MORE_FOLD
};

static const struct {
  const CaseRow *row;
  int64_t n;
  const MoreRow *more;
  int64_t nmore;
} case_of[] = {
    [CASE_UPPER] = {upper_row, ARRAY_LEN(upper_row), upper_more, ARRAY_LEN(upper_more)},
    [CASE_LOWER] = {lower_row, ARRAY_LEN(lower_row), lower_more, ARRAY_LEN(lower_more)},
    [CASE_TITLE] = {title_row, ARRAY_LEN(title_row), title_more, ARRAY_LEN(title_more)},
    [CASE_FOLD] = {fold_row, ARRAY_LEN(fold_row), fold_more, ARRAY_LEN(fold_more)},
};

static const ClassRow *class_find(uint32_t c) {
  int64_t from = 0, to = ARRAY_LEN(class_row);
  while (from < to) {
    int64_t mid = (from + to) / 2;
    if (c > class_row[mid].last)
      from = mid + 1;
    else
      to = mid;
  }
  return from < ARRAY_LEN(class_row) && c >= class_row[from].first ? &class_row[from] : NULL;
}

int uc_flags(uint32_t c) {
  const ClassRow *r = class_find(c);
  return r ? r->flags : 0;
}

// Digits of one kind follow one another from 0 to 9; a run may hold several kinds.
int uc_digit(uint32_t c) {
  const ClassRow *r = class_find(c);
  return r ? (int)((c - r->first) % 10) : 0;
}

int uc_case(CaseKind kind, uint32_t c, uint32_t out[3]) {
  const CaseRow *row = case_of[kind].row;
  int64_t from = 0, to = case_of[kind].n;
  out[0] = c;
  while (from < to) {
    int64_t mid = (from + to) / 2;
    if (c > row[mid].last)
      from = mid + 1;
    else
      to = mid;
  }
  if (from < case_of[kind].n && c >= row[from].first &&
      (c - row[from].first) % row[from].stride == 0)
    out[0] = (uint32_t)((int32_t)c + row[from].distance);
  if (out[0] != c || c < 0x80) return 1;
  for (int64_t i = 0; i < case_of[kind].nmore; i++) {
    const MoreRow *m = &case_of[kind].more[i];
    if (m->c != c) continue;
    memcpy(out, m->to, sizeof m->to);
    return m->to[2] ? 3 : 2;
  }
  return 1;
}

uint32_t utf8_next(const char **p) {
  const uint8_t *b = (const uint8_t *)*p;
  int n = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
  static const uint8_t first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t c = b[0] & first[n];
  for (int i = 1; i < n; i++) c = c << 6 | (b[i] & 0x3f);
  *p += n;
  return c;
}

uint32_t utf8_last(const char *start, const char **end) {
  const char *p = *end - 1;
  while (p > start && ((uint8_t)*p & 0xc0) == 0x80) p--;
  *end = p;
  return utf8_next(&p);
}

int utf8_put(char *p, uint32_t c) {
  if (c < 0x80) {
    p[0] = (char)c;
    return 1;
  }
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) p[i] = (char)(0x80 | (c & 0x3f));
  p[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
  return n;
}

int64_t utf8_count(const char *p, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += ((uint8_t)p[i] & 0xc0) != 0x80;
  return count;
}

const char *utf8_at(Tpl *x, const Text *t, int64_t index) {
  if (text_chars(x, t) == t->n) return t->p + index;
  tpl_spend(x, index / 8);
  const char *p = t->p;
  for (int64_t i = 0; i < index; i++) (void)utf8_next(&p);
  return p;
}
