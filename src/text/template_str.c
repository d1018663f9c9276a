// template_str.c -- the methods of Python's str that chat templates call.
//
// Positions count characters, not bytes.  What is made of safe text (Markup) is safe, and what
// joins it is escaped, as markupsafe does it.
//
// Guarantees: linear time, or steps are spent for what takes more.
#include "text/template_impl.h"

// ---- searching ----

// The first byte position of `what` in s from `from` on; -1: none.
int64_t text_find(Tpl *x, Str s, Str what, int64_t from) {
  if (!what.n) return from;
  tpl_spend(x, 1);
  while (s.n - from >= what.n) {
    const char *p = memchr(s.p + from, what.p[0], (size_t)(s.n - what.n - from + 1));
    int64_t at = p ? p - s.p : s.n;
    tpl_spend(x, (at - from) / 64);
    if (!p) return -1;
    tpl_spend(x, 1 + what.n / 64);
    if (!memcmp(p, what.p, (size_t)what.n)) return at;
    from = at + 1;
  }
  return -1;
}

static int64_t find_last(Tpl *x, Str s, Str what) {
  for (int64_t at = s.n - what.n; at >= 0; at--) {
    tpl_spend(x, 1);
    if (!what.n || (s.p[at] == what.p[0] && !memcmp(s.p + at, what.p, (size_t)what.n))) return at;
  }
  return -1;
}

static Str need_text(Tpl *x, Value v, const char *what) {
  need_defined(x, v);
  if (!is_str(v)) tpl_fail(x, "%s must be a string, not %s", what, kind_name(v));
  return str_of_value(v);
}

static Value part(Tpl *x, Value self, const char *from, const char *to) {
  return v_like(self, v_str(x, (Str){from, to - from}));
}

static int64_t clipped(Tpl *x, Value v, int64_t n, int64_t dflt) {
  if (v.kind == V_MISSING || v.kind == V_NONE) return dflt;
  int64_t i = need_int(x, v, "an index");
  return i < 0 ? (i < -n ? 0 : i + n) : i;
}

// self[start:end] for searching; *first is its position.  false: start is behind the end.
static bool window(Tpl *x, Value self, Value start, Value end, Str *out, int64_t *first) {
  int64_t n = text_chars(x, self.s);
  *first = clipped(x, start, n, 0);
  int64_t last = MIN(clipped(x, end, n, n), n);
  if (*first > n || *first > last) return false;
  const char *p = utf8_at(x, self.s, *first), *q = utf8_at(x, self.s, last);
  *out = (Str){p, q - p};
  return true;
}

static int64_t position(Tpl *x, Value self, const Value *arg, bool last) {
  Str what = need_text(x, arg[0], "what is looked for"), s;
  int64_t first, at;
  if (!window(x, self, arg[1], arg[2], &s, &first)) return -1;
  at = last ? find_last(x, s, what) : text_find(x, s, what, 0);
  return at < 0 ? -1 : first + utf8_count(s.p, at);
}

static Value m_find(Tpl *x, Value self, const Value *arg) {
  return v_int(position(x, self, arg, false));
}
static Value m_rfind(Tpl *x, Value self, const Value *arg) {
  return v_int(position(x, self, arg, true));
}
static Value found(Tpl *x, int64_t at) {
  if (at < 0) tpl_fail(x, "the substring was not found");
  return v_int(at);
}
static Value m_index(Tpl *x, Value self, const Value *arg) {
  return found(x, position(x, self, arg, false));
}
static Value m_rindex(Tpl *x, Value self, const Value *arg) {
  return found(x, position(x, self, arg, true));
}

static Value m_count(Tpl *x, Value self, const Value *arg) {
  Str what = need_text(x, arg[0], "what is counted"), s;
  int64_t first, n = 0;
  if (!window(x, self, arg[1], arg[2], &s, &first)) return v_int(0);
  if (!what.n) return v_int(utf8_count(s.p, s.n) + 1);
  for (int64_t at = 0; (at = text_find(x, s, what, at)) >= 0; at += what.n) n++;
  return v_int(n);
}

static bool affix_is(Str s, Str what, bool end) {
  if (what.n > s.n) return false;
  return !what.n || !memcmp(s.p + (end ? s.n - what.n : 0), what.p, (size_t)what.n);
}

static Value affix(Tpl *x, Value self, const Value *arg, bool end) {
  Str s;
  int64_t first;
  bool inside = window(x, self, arg[1], arg[2], &s, &first);
  if (arg[0].kind != V_TUPLE) {
    Str what = need_text(x, arg[0], "a prefix or suffix");
    return v_bool(inside && affix_is(s, what, end));
  }
  for (int64_t i = 0; i < arg[0].l->n; i++) {
    Str what = need_text(x, arg[0].l->v[i], "a prefix or suffix");
    if (inside && affix_is(s, what, end)) return v_bool(true);
  }
  return v_bool(false);
}
static Value m_startswith(Tpl *x, Value self, const Value *arg) {
  return affix(x, self, arg, false);
}
static Value m_endswith(Tpl *x, Value self, const Value *arg) { return affix(x, self, arg, true); }

static Value m_removeprefix(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self), what = need_text(x, arg[0], "a prefix");
  return part(x, self, s.p + (affix_is(s, what, false) ? what.n : 0), s.p + s.n);
}
static Value m_removesuffix(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self), what = need_text(x, arg[0], "a suffix");
  return part(x, self, s.p, s.p + s.n - (affix_is(s, what, true) ? what.n : 0));
}

// ---- stripping ----

static bool strips(Str chars, bool space, uint32_t c) {
  if (space) return uc_is_space(c);
  for (const char *p = chars.p; p < chars.p + chars.n;)
    if (utf8_next(&p) == c) return true;
  return false;
}

static Value strip(Tpl *x, Value self, Value chars, bool left, bool right) {
  bool space = chars.kind == V_MISSING || chars.kind == V_NONE;
  Str set = space ? (Str){0} : need_text(x, chars, "what is stripped"), s = str_of_value(self);
  const char *from = s.p, *to = s.p + s.n;
  while (left && from < to) {
    const char *p = from;
    tpl_spend(x, 1 + set.n / 16);
    if (!strips(set, space, utf8_next(&p))) break;
    from = p;
  }
  while (right && to > from) {
    const char *p = to;
    tpl_spend(x, 1 + set.n / 16);
    if (!strips(set, space, utf8_last(from, &p))) break;
    to = p;
  }
  return part(x, self, from, to);
}
static Value m_strip(Tpl *x, Value self, const Value *arg) {
  return strip(x, self, arg[0], true, true);
}
static Value m_lstrip(Tpl *x, Value self, const Value *arg) {
  return strip(x, self, arg[0], true, false);
}
static Value m_rstrip(Tpl *x, Value self, const Value *arg) {
  return strip(x, self, arg[0], false, true);
}

// ---- splitting ----

typedef struct Parts {
  Tpl *x;
  Value self, *v;
  int64_t n, cap;
} Parts;

static void add_part(Parts *s, const char *from, const char *to) {
  if (s->n == s->cap) {
    int64_t cap = MAX(8, 2 * s->cap);
    Value *v = tpl_array(s->x, Value, cap);
    if (s->n) memcpy(v, s->v, (size_t)s->n * sizeof *v);
    s->v = v;
    s->cap = cap;
  }
  s->v[s->n++] = part(s->x, s->self, from, to);
}

static Value parts_list(Parts *s, bool reversed) {
  for (int64_t i = 0; reversed && i < s->n / 2; i++) {
    Value swap = s->v[i];
    s->v[i] = s->v[s->n - 1 - i];
    s->v[s->n - 1 - i] = swap;
  }
  return v_items(s->x, V_LIST, s->v, s->n);
}

static const char *skip(const char *p, const char *end, bool space) {
  while (p < end) {
    const char *q = p;
    if (uc_is_space(utf8_next(&q)) != space) break;
    p = q;
  }
  return p;
}

static const char *skip_back(const char *start, const char *p, bool space) {
  while (p > start) {
    const char *q = p;
    if (uc_is_space(utf8_last(start, &q)) != space) break;
    p = q;
  }
  return p;
}

static void split_words(Parts *s, int64_t most) {
  Str t = str_of_value(s->self);
  const char *end = t.p + t.n, *p = skip(t.p, end, true);
  tpl_spend(s->x, t.n / 8);
  while (p < end) {
    if (s->n == most) {
      add_part(s, p, end);
      return;
    }
    const char *stop = skip(p, end, false);
    add_part(s, p, stop);
    p = skip(stop, end, true);
  }
}

static void rsplit_words(Parts *s, int64_t most) {
  Str t = str_of_value(s->self);
  const char *p = skip_back(t.p, t.p + t.n, true);
  tpl_spend(s->x, t.n / 8);
  while (p > t.p) {
    if (s->n == most) {
      add_part(s, t.p, p);
      return;
    }
    const char *from = skip_back(t.p, p, false);
    add_part(s, from, p);
    p = skip_back(t.p, from, true);
  }
}

static Value split(Tpl *x, Value self, const Value *arg, bool right) {
  Parts s = {.x = x, .self = self};
  int64_t most = opt_int_arg(x, arg[1], -1, "a number of parts");
  if (most < 0) most = INT64_MAX;
  if (arg[0].kind == V_MISSING || arg[0].kind == V_NONE) {
    if (right)
      rsplit_words(&s, most);
    else
      split_words(&s, most);
    return parts_list(&s, right);
  }
  Str sep = need_text(x, arg[0], "a separator"), t = str_of_value(self);
  if (!sep.n) tpl_fail(x, "an empty separator");
  int64_t from = 0, at;
  while (!right && s.n < most && (at = text_find(x, t, sep, from)) >= 0) {
    add_part(&s, t.p + from, t.p + at);
    from = at + sep.n;
  }
  while (right && s.n < most && (at = find_last(x, t, sep)) >= 0) {
    add_part(&s, t.p + at + sep.n, t.p + t.n);
    t.n = at;
  }
  add_part(&s, t.p + from, t.p + t.n);
  return parts_list(&s, right);
}
static Value m_split(Tpl *x, Value self, const Value *arg) { return split(x, self, arg, false); }
static Value m_rsplit(Tpl *x, Value self, const Value *arg) { return split(x, self, arg, true); }

static bool ends_line(uint32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

static Value m_splitlines(Tpl *x, Value self, const Value *arg) {
  Parts s = {.x = x, .self = self};
  Str t = str_of_value(self);
  bool keep = arg[0].kind != V_MISSING && need_int(x, arg[0], "keepends") != 0;
  const char *end = t.p + t.n, *from = t.p;
  tpl_spend(x, t.n / 8);
  for (const char *p = t.p; p < end;) {
    const char *at = p;
    uint32_t c = utf8_next(&p);
    if (!ends_line(c)) continue;
    if (c == '\r' && p < end && *p == '\n') p++;
    add_part(&s, from, keep ? p : at);
    from = p;
  }
  if (from < end) add_part(&s, from, end);
  return parts_list(&s, false);
}

static Value partition(Tpl *x, Value self, const Value *arg, bool last) {
  Str s = str_of_value(self), sep = need_text(x, arg[0], "a separator");
  if (!sep.n) tpl_fail(x, "an empty separator");
  int64_t at = last ? find_last(x, s, sep) : text_find(x, s, sep, 0);
  Value *v = tpl_array(x, Value, 3), none = v_like(self, v_cstr(x, ""));
  if (at < 0) {
    v[0] = v[1] = v[2] = none;
    v[last ? 2 : 0] = self;
  } else {
    v[0] = part(x, self, s.p, s.p + at);
    v[1] = v_like(self, v_str(x, sep));
    v[2] = part(x, self, s.p + at + sep.n, s.p + s.n);
  }
  return v_items(x, V_TUPLE, v, 3);
}
static Value m_partition(Tpl *x, Value self, const Value *arg) {
  return partition(x, self, arg, false);
}
static Value m_rpartition(Tpl *x, Value self, const Value *arg) {
  return partition(x, self, arg, true);
}

// ---- joining, replacing, filling ----

static Value m_join(Tpl *x, Value self, const Value *arg) {
  Buf b = {0};
  Iter *it = iter_of(x, arg[0]);
  bool first = true;
  for (Value v; iter_next(x, it, &v); first = false) {
    if (!first) buf_put(x, &b, str_of_value(self));
    if (self.safe) v = v_escape(x, v);
    buf_put(x, &b, need_text(x, v, "what is joined"));
  }
  return v_like(self, buf_value(x, &b));
}

static void replace_empty(Tpl *x, Buf *b, Str s, Str to, int64_t most) {
  const char *p = s.p, *end = s.p + s.n;
  for (int64_t i = 0; i < most; i++) {
    const char *from = p;
    buf_put(x, b, to);
    if (p == end) return;
    (void)utf8_next(&p);
    buf_put(x, b, (Str){from, p - from});
  }
  buf_put(x, b, (Str){p, end - p});
}

static Value m_replace(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self), what = need_text(x, arg[0], "what is replaced");
  Value by = self.safe ? v_escape(x, arg[1]) : arg[1];
  Str to = need_text(x, by, "a replacement");
  int64_t most = opt_int_arg(x, arg[2], -1, "a count"), from = 0, at;
  Buf b = {0};
  if (most < 0) most = INT64_MAX;
  if (!what.n) {
    replace_empty(x, &b, s, to, most);
    return v_like(self, buf_value(x, &b));
  }
  for (; most > 0 && (at = text_find(x, s, what, from)) >= 0; most--) {
    buf_put(x, &b, (Str){s.p + from, at - from});
    buf_put(x, &b, to);
    from = at + what.n;
  }
  if (!from) return self;
  buf_put(x, &b, (Str){s.p + from, s.n - from});
  return v_like(self, buf_value(x, &b));
}

static Value fill(Tpl *x, Value self, const Value *arg, int where) {
  int64_t more = need_int(x, arg[0], "a width") - text_chars(x, self.s), n = text_chars(x, self.s);
  uint32_t c = ' ';
  if (arg[1].kind != V_MISSING) {
    Value s = self.safe ? v_escape(x, arg[1]) : arg[1];
    Str t = need_text(x, s, "a fill character");
    const char *p = t.p;
    if (utf8_count(t.p, t.n) != 1) tpl_fail(x, "a fill character is one character");
    c = utf8_next(&p);
  }
  if (more <= 0) return self;
  // An odd space more goes to the left where the width is odd.
  int64_t left = where < 0 ? 0 : where > 0 ? more : more / 2 + (more & (more + n) & 1);
  Buf b = {0};
  buf_fill(x, &b, c, left);
  buf_put(x, &b, str_of_value(self));
  buf_fill(x, &b, c, more - left);
  return v_like(self, buf_value(x, &b));
}
static Value m_ljust(Tpl *x, Value self, const Value *arg) { return fill(x, self, arg, -1); }
static Value m_rjust(Tpl *x, Value self, const Value *arg) { return fill(x, self, arg, 1); }
static Value m_center(Tpl *x, Value self, const Value *arg) { return fill(x, self, arg, 0); }

static Value m_zfill(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self);
  int64_t more = need_int(x, arg[0], "a width") - text_chars(x, self.s);
  bool sign = s.n && (s.p[0] == '-' || s.p[0] == '+');
  Buf b = {0};
  if (more <= 0) return self;
  if (sign) buf_putc(x, &b, s.p[0]);
  buf_fill(x, &b, '0', more);
  buf_put(x, &b, (Str){s.p + sign, s.n - sign});
  return v_like(self, buf_value(x, &b));
}

static Value m_expandtabs(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self);
  int64_t size = opt_int_arg(x, arg[0], 8, "a tab size"), column = 0;
  Buf b = {0};
  for (const char *p = s.p; p < s.p + s.n;) {
    uint32_t c = utf8_next(&p);
    if (c == '\t') {
      int64_t n = size > 0 ? size - column % size : 0;
      buf_fill(x, &b, ' ', n);
      column += n;
      continue;
    }
    column = c == '\n' || c == '\r' ? 0 : column + 1;
    buf_char(x, &b, c);
  }
  return v_like(self, buf_value(x, &b));
}

// ---- case ----

static bool is_final_sigma(Str s, const char *at, const char *behind) {
  bool before = false;
  for (const char *p = at; p > s.p;) {
    uint32_t c = utf8_last(s.p, &p);
    if (uc_flags(c) & UC_IGNORABLE) continue;
    before = (uc_flags(c) & UC_CASED) != 0;
    break;
  }
  for (const char *p = behind; before && p < s.p + s.n;) {
    uint32_t c = utf8_next(&p);
    if (uc_flags(c) & UC_IGNORABLE) continue;
    return !(uc_flags(c) & UC_CASED);
  }
  return before;
}

static void put_cased(Tpl *x, Buf *b, Str s, const char *at, CaseKind kind) {
  enum { SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2 };
  const char *behind = at;
  uint32_t c = utf8_next(&behind), to[3];
  int n = uc_case(kind, c, to);
  if (kind == CASE_LOWER && c == SIGMA) {
    tpl_spend(x, 1 + s.n / 8);
    to[0] = is_final_sigma(s, at, behind) ? FINAL_SIGMA : SMALL_SIGMA;
  }
  for (int i = 0; i < n; i++) buf_char(x, b, to[i]);
}

static Value change_case(Tpl *x, Value self, CaseKind first, CaseKind rest) {
  Str s = str_of_value(self);
  Buf b = {0};
  tpl_spend(x, s.n / 8);
  for (const char *p = s.p; p < s.p + s.n; (void)utf8_next(&p))
    put_cased(x, &b, s, p, p == s.p ? first : rest);
  return v_like(self, buf_value(x, &b));
}
static Value m_upper(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return change_case(x, self, CASE_UPPER, CASE_UPPER);
}
static Value m_lower(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return change_case(x, self, CASE_LOWER, CASE_LOWER);
}
static Value m_casefold(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return change_case(x, self, CASE_FOLD, CASE_FOLD);
}
static Value m_capitalize(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return change_case(x, self, CASE_TITLE, CASE_LOWER);
}

static Value m_title(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self);
  bool inside = false;
  Buf b = {0};
  (void)arg;
  tpl_spend(x, s.n / 8);
  for (const char *p = s.p; p < s.p + s.n;) {
    put_cased(x, &b, s, p, inside ? CASE_LOWER : CASE_TITLE);
    inside = (uc_flags(utf8_next(&p)) & UC_CASED) != 0;
  }
  return v_like(self, buf_value(x, &b));
}

static Value m_swapcase(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self);
  Buf b = {0};
  (void)arg;
  tpl_spend(x, s.n / 8);
  for (const char *p = s.p; p < s.p + s.n;) {
    const char *at = p;
    int flags = uc_flags(utf8_next(&p));
    if (flags & UC_UPPER)
      put_cased(x, &b, s, at, CASE_LOWER);
    else if (flags & UC_LOWER)
      put_cased(x, &b, s, at, CASE_UPPER);
    else
      buf_put(x, &b, (Str){at, p - at});
  }
  return v_like(self, buf_value(x, &b));
}

// ---- classes ----

static Value all_are(Tpl *x, Value self, int flags, bool empty) {
  Str s = str_of_value(self);
  tpl_spend(x, s.n / 8);
  for (const char *p = s.p; p < s.p + s.n;)
    if (!(uc_flags(utf8_next(&p)) & flags)) return v_bool(false);
  return v_bool(s.n > 0 || empty);
}
#define CLASS_METHOD(name, flags, empty)                                                           \
  static Value name(Tpl *x, Value self, const Value *arg) {                                        \
    (void)arg;                                                                                     \
    return all_are(x, self, flags, empty);                                                         \
  }
CLASS_METHOD(m_isalnum, UC_ALNUM, false)
CLASS_METHOD(m_isalpha, UC_ALPHA, false)
CLASS_METHOD(m_isdecimal, UC_DECIMAL, false)
CLASS_METHOD(m_isdigit, UC_DIGIT, false)
CLASS_METHOD(m_isnumeric, UC_NUMERIC, false)
CLASS_METHOD(m_isspace, UC_SPACE, false)
CLASS_METHOD(m_isprintable, UC_PRINTABLE, true)

static Value m_isascii(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return v_bool(text_chars(x, self.s) == self.s->n);
}

// No character of `bad`, and one at least of `good`.
static Value case_is(Tpl *x, Value self, int good, int bad) {
  Str s = str_of_value(self);
  bool any = false;
  tpl_spend(x, s.n / 8);
  for (const char *p = s.p; p < s.p + s.n;) {
    int flags = uc_flags(utf8_next(&p));
    if (flags & bad) return v_bool(false);
    any = any || (flags & good);
  }
  return v_bool(any);
}
static Value m_islower(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return case_is(x, self, UC_LOWER, UC_UPPER | UC_TITLE);
}
static Value m_isupper(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return case_is(x, self, UC_UPPER, UC_LOWER | UC_TITLE);
}

static Value m_istitle(Tpl *x, Value self, const Value *arg) {
  Str s = str_of_value(self);
  bool inside = false, any = false;
  (void)arg;
  tpl_spend(x, s.n / 8);
  for (const char *p = s.p; p < s.p + s.n;) {
    int flags = uc_flags(utf8_next(&p));
    bool starts = flags & (UC_UPPER | UC_TITLE), lower = flags & UC_LOWER;
    if (starts ? inside : lower && !inside) return v_bool(false);
    inside = starts || lower;
    any = any || inside;
  }
  return v_bool(any);
}

static Value m_format(Tpl *x, Value self, const Args *args) { return format_method(x, self, args); }

static const FnRow method[] = {
    {"capitalize", "/", 0, m_capitalize, NULL},
    {"casefold", "/", 0, m_casefold, NULL},
    {"center", "/width fill", 1, m_center, NULL},
    {"count", "/sub start end", 1, m_count, NULL},
    {"endswith", "/suffix start end", 1, m_endswith, NULL},
    {"expandtabs", "tabsize", 0, m_expandtabs, NULL},
    {"find", "/sub start end", 1, m_find, NULL},
    {"format", "*", 0, NULL, m_format},
    {"index", "/sub start end", 1, m_index, NULL},
    {"isalnum", "/", 0, m_isalnum, NULL},
    {"isalpha", "/", 0, m_isalpha, NULL},
    {"isascii", "/", 0, m_isascii, NULL},
    {"isdecimal", "/", 0, m_isdecimal, NULL},
    {"isdigit", "/", 0, m_isdigit, NULL},
    {"islower", "/", 0, m_islower, NULL},
    {"isnumeric", "/", 0, m_isnumeric, NULL},
    {"isprintable", "/", 0, m_isprintable, NULL},
    {"isspace", "/", 0, m_isspace, NULL},
    {"istitle", "/", 0, m_istitle, NULL},
    {"isupper", "/", 0, m_isupper, NULL},
    {"join", "/iterable", 1, m_join, NULL},
    {"ljust", "/width fill", 1, m_ljust, NULL},
    {"lower", "/", 0, m_lower, NULL},
    {"lstrip", "/chars", 0, m_lstrip, NULL},
    {"partition", "/sep", 1, m_partition, NULL},
    {"removeprefix", "/prefix", 1, m_removeprefix, NULL},
    {"removesuffix", "/suffix", 1, m_removesuffix, NULL},
    {"replace", "/old new count", 2, m_replace, NULL},
    {"rfind", "/sub start end", 1, m_rfind, NULL},
    {"rindex", "/sub start end", 1, m_rindex, NULL},
    {"rjust", "/width fill", 1, m_rjust, NULL},
    {"rpartition", "/sep", 1, m_rpartition, NULL},
    {"rsplit", "sep maxsplit", 0, m_rsplit, NULL},
    {"rstrip", "/chars", 0, m_rstrip, NULL},
    {"split", "sep maxsplit", 0, m_split, NULL},
    {"splitlines", "keepends", 0, m_splitlines, NULL},
    {"startswith", "/prefix start end", 1, m_startswith, NULL},
    {"strip", "/chars", 0, m_strip, NULL},
    {"swapcase", "/", 0, m_swapcase, NULL},
    {"title", "/", 0, m_title, NULL},
    {"upper", "/", 0, m_upper, NULL},
    {"zfill", "/width", 1, m_zfill, NULL},
    // in Python, but not here
    {"encode", NULL, 0, NULL, NULL},
    {"format_map", NULL, 0, NULL, NULL},
    {"isidentifier", NULL, 0, NULL, NULL},
    {"maketrans", NULL, 0, NULL, NULL},
    {"translate", NULL, 0, NULL, NULL},
};

const FnRow *str_method_find(Str name) { return fn_find(method, ARRAY_LEN(method), name); }
