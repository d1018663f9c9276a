// validate_regex.c -- regular expressions for the validator of answers.
//
// A syntax tree is matched from sets of positions to sets of positions, so nothing backtracks: the
// time is the tree's size times the text's squared at most, and fuel bounds it.  None of this is
// shared with regex.c, which it judges.
#include "grammar/validate_regex.h"
#include "text/unicode.h"

typedef enum { RE_NONE, RE_SET, RE_SEQ, RE_ALT, RE_REPEAT, RE_BEGIN, RE_END } ReKind;
typedef struct Re Re;
typedef struct ReRange {
  uint32_t lo, hi;
} ReRange;
struct Re {
  ReKind kind;
  bool not ;
  VEC(ReRange) range;
  Re *left, *right;
  int64_t least, most;
};

typedef struct Reader {
  Arena *a;
  Str text;
  int64_t at;
  int depth;
  bool unknown;
} Reader;

static Re *re_new(Reader *r, ReKind kind, Re *left, Re *right) {
  Re *x = arena_new(r->a, Re);
  x->kind = kind;
  x->left = left;
  x->right = right;
  return x;
}
static bool end(const Reader *r) { return r->at >= r->text.n; }
static bool take(Reader *r, char c) {
  if (end(r) || r->text.p[r->at] != c) return false;
  r->at++;
  return true;
}
static void add(Reader *r, Re *x, uint32_t lo, uint32_t hi) {
  ReRange one = {lo, hi};
  vec_push(r->a, &x->range, one);
}

static void add_not(Reader *r, Re *x, const ReRange *v, int n) {
  uint32_t at = 0;
  for (int i = 0; i < n; i++) {
    if (v[i].lo > at) add(r, x, at, v[i].lo - 1);
    at = v[i].hi + 1;
  }
  add(r, x, at, 0x10ffff);
}

// \d \w \s and their complements.
static bool read_named(Reader *r, char c, Re *x) {
  static const ReRange d[] = {{'0', '9'}}, w[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                       s[] = {{9, 13},          {32, 32},         {0xa0, 0xa0},
                              {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                              {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                              {0xfeff, 0xfeff}};
  const ReRange *set = (c | 32) == 'd' ? d : (c | 32) == 'w' ? w : s;
  int n = (c | 32) == 'd' ? 1 : (c | 32) == 'w' ? 4 : 10;
  if ((c | 32) != 'd' && (c | 32) != 'w' && (c | 32) != 's') return false;
  if (c < 'a') return add_not(r, x, set, n), true;
  for (int i = 0; i < n; i++) add(r, x, set[i].lo, set[i].hi);
  return true;
}

static uint32_t hex(Reader *r, int n) {
  uint32_t v = 0;
  for (int i = 0; i < n; i++) {
    int c = end(r) ? 0 : r->text.p[r->at++];
    int digit = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87
                                                     : -1;
    if (digit < 0) return r->unknown = true, 0;
    v = v * 16 + (uint32_t)digit;
  }
  return v;
}

// One character behind a backslash, or *named with its ranges added.
static uint32_t escape(Reader *r, Re *x, bool in_set, bool *named) {
  *named = false;
  if (end(r)) return r->unknown = true, 0;
  char c = r->text.p[r->at++];
  if (read_named(r, c, x)) return *named = true, 0;
  switch (c) {
  case 't': return 9;
  case 'n': return 10;
  case 'v': return 11;
  case 'f': return 12;
  case 'r': return 13;
  case '0': return 0;
  case 'x': return hex(r, 2);
  case 'u': return hex(r, 4);
  case 'b':
    if (in_set) return 8;
    return r->unknown = true, 0;
  default: break;
  }
  bool letter = (c | 32) >= 'a' && (c | 32) <= 'z', digit = c >= '1' && c <= '9';
  if (letter || digit || c & 0x80) r->unknown = true;
  return (uint8_t)c;
}

static uint32_t character(Reader *r) {
  int n;
  uint32_t c = utf8_get((const uint8_t *)r->text.p + r->at, &n);
  r->at += n;
  return c;
}

static Re *read_set(Reader *r) {
  Re *x = re_new(r, RE_SET, NULL, NULL);
  x->not = take(r, '^');
  while (!take(r, ']')) {
    bool named = false;
    if (end(r) || r->unknown) return r->unknown = true, x;
    uint32_t lo = character(r), hi;
    if (lo == '\\') lo = escape(r, x, true, &named);
    if (named) continue;
    hi = lo;
    if (r->at + 1 < r->text.n && r->text.p[r->at] == '-' && r->text.p[r->at + 1] != ']') {
      r->at++;
      hi = character(r);
      if (hi == '\\') hi = escape(r, x, true, &named);
      if (named) {
        add(r, x, '-', '-');
        hi = lo;
      }
    }
    add(r, x, lo, hi);
  }
  return x;
}

static Re *read_alt(Reader *r);

static Re *read_atom(Reader *r) {
  static const ReRange lines[] = {{10, 10}, {13, 13}, {0x2028, 0x2029}};
  Re *x = re_new(r, RE_SET, NULL, NULL);
  bool named = false;
  if (take(r, '(')) {
    if (take(r, '?') && !take(r, ':')) {
      if (!take(r, '<') || end(r) || r->text.p[r->at] == '=' || r->text.p[r->at] == '!')
        return r->unknown = true, x;
      while (!end(r) && r->text.p[r->at] != '>') r->at++;
      take(r, '>');
    }
    x = read_alt(r);
    if (!take(r, ')')) r->unknown = true;
    return x;
  }
  if (take(r, '[')) return read_set(r);
  if (take(r, '^')) return re_new(r, RE_BEGIN, NULL, NULL);
  if (take(r, '$')) return re_new(r, RE_END, NULL, NULL);
  if (take(r, '.')) return add_not(r, x, lines, 3), x;
  uint32_t c = character(r);
  if (c == '\\') c = escape(r, x, false, &named);
  if (!named) add(r, x, c, c);
  return x;
}

static bool read_count(Reader *r, int64_t *out) {
  int64_t from = r->at;
  *out = 0;
  while (!end(r) && r->text.p[r->at] >= '0' && r->text.p[r->at] <= '9' && *out < 1000000)
    *out = *out * 10 + (r->text.p[r->at++] - '0');
  return r->at > from;
}

static bool read_times(Reader *r, int64_t *least, int64_t *most) {
  int64_t back = r->at;
  *least = 0;
  *most = -1;
  if (take(r, '*')) return true;
  if (take(r, '?')) return *most = 1, true;
  if (take(r, '+')) return *least = 1, true;
  if (take(r, '{') && read_count(r, least)) {
    *most = *least;
    if (take(r, ',') && !read_count(r, most)) *most = -1;
    if (take(r, '}')) return true;
  }
  r->at = back;
  return false;
}

static Re *read_alt(Reader *r) {
  Re *any = NULL, *seq = re_new(r, RE_NONE, NULL, NULL);
  if (++r->depth > 100) r->unknown = true;
  while (!end(r) && !r->unknown && r->text.p[r->at] != ')') {
    if (take(r, '|')) {
      any = any ? re_new(r, RE_ALT, any, seq) : seq;
      seq = re_new(r, RE_NONE, NULL, NULL);
      continue;
    }
    Re *x = read_atom(r);
    int64_t least, most;
    while (!r->unknown && read_times(r, &least, &most)) {
      take(r, '?');
      x = re_new(r, RE_REPEAT, x, NULL);
      x->least = least;
      x->most = most;
    }
    seq = re_new(r, RE_SEQ, seq, x);
  }
  r->depth--;
  return any ? re_new(r, RE_ALT, any, seq) : seq;
}

// ---- matching ----
typedef struct Match {
  Arena *a;
  Str text;
  int64_t *fuel;
  int depth;
} Match;

static bool in_set(const Re *x, uint32_t c) {
  bool in = false;
  for (int64_t i = 0; i < x->range.n && !in; i++)
    in = x->range.v[i].lo <= c && c <= x->range.v[i].hi;
  return in != x->not ;
}

static void advance(Match *m, const Re *x, const bool *from, bool *to);

static void repeat(Match *m, const Re *x, const bool *from, bool *to) {
  int64_t n = m->text.n + 1;
  bool *at = arena_dup(m->a, from, n), *next = arena_array(m->a, bool, n);
  bool more = true;
  for (int64_t i = 0; more && (x->most < 0 || i <= x->most); i++) {
    more = false;
    if (*m->fuel < 0) return;
    for (int64_t k = 0; k < n && i >= x->least; k++) {
      more |= at[k] && !to[k];
      to[k] |= at[k];
    }
    if (i < x->least) more = true;
    if (x->most >= 0 && i == x->most) return;
    memset(next, 0, (size_t)n);
    advance(m, x->left, at, next);
    bool *swap = at;
    at = next;
    next = swap;
  }
}

// Adds to `to` the positions behind x from each position in `from`.
static void advance(Match *m, const Re *x, const bool *from, bool *to) {
  int64_t n = m->text.n + 1;
  *m->fuel -= n;
  if (*m->fuel < 0) return;
  switch (x->kind) {
  case RE_NONE:
    for (int64_t i = 0; i < n; i++) to[i] |= from[i];
    break;
  case RE_SET:
    for (int64_t i = 0; i + 1 < n; i++) {
      int bytes;
      if (!from[i]) continue;
      uint32_t c = utf8_get((const uint8_t *)m->text.p + i, &bytes);
      if (in_set(x, c)) to[i + bytes] = true;
    }
    break;
  case RE_SEQ: {
    bool *mid = arena_array(m->a, bool, n);
    advance(m, x->left, from, mid);
    advance(m, x->right, mid, to);
    break;
  }
  case RE_ALT:
    advance(m, x->left, from, to);
    advance(m, x->right, from, to);
    break;
  case RE_REPEAT: repeat(m, x, from, to); break;
  case RE_BEGIN: to[0] |= from[0]; break;
  case RE_END: to[n - 1] |= from[n - 1]; break;
  }
}

int validate_search(Arena *a, Str pattern, Str text, int64_t *fuel) {
  Reader r = {.a = a, .text = pattern};
  if (!str_is_utf8(pattern)) return -1;
  Re *x = read_alt(&r);
  if (r.unknown || !end(&r)) return -1;
  Match m = {.a = a, .text = text, .fuel = fuel};
  bool *from = arena_array(a, bool, text.n + 1), *to = arena_array(a, bool, text.n + 1);
  for (int64_t i = 0; i <= text.n; i++)
    from[i] = i == text.n || ((uint8_t)text.p[i] & 0xc0) != 0x80;
  advance(&m, x, from, to);
  if (*fuel < 0) return -1;
  for (int64_t i = 0; i <= text.n; i++)
    if (to[i]) return 1;
  return 0;
}
