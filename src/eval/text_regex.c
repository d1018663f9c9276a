// text_regex.c -- regular expressions in RE2's syntax, matched without backtracking.
//
// A recursive-descent parser emits the program of a nondeterministic automaton directly (Thompson's
// construction; a bounded repetition copies its operand's instructions).  Matching walks the text
// once, with the set of states it may be in (Pike's simulation), so time is text times program at
// worst.
//
// Patterns come from models, so they are hostile: nesting, program length and the size of sets are
// limited.  Sub-matches are not kept, so greedy and lazy repetition are the same; so texts are
// matched whole, or the leftmost and then longest part is found.  Does not: \C, backreferences and
// look-around, which RE2 refuses too; \p{...} but for the sets below.
#include "eval/text.h"

#include <stdio.h>

enum {
  PROG_MAX = LIMIT_REGEX_PROGRAM,
  DEPTH_MAX = LIMIT_REGEX_DEPTH,
  REPEAT_MAX = LIMIT_REGEX_REPEAT,
  RANGES_MAX = 1 << 16
};
static const uint32_t RUNE_MAX = 0x10FFFF;

typedef enum { I_SET, I_SPLIT, I_JUMP, I_ASSERT, I_MATCH } InstKind;
typedef enum { A_BEGIN, A_END, A_LINE_BEGIN, A_LINE_END, A_WORD, A_NOT_WORD } Assertion;
typedef struct Inst {
  uint8_t kind, assertion;
  int32_t a, b;  // I_SET: ranges [a, b); I_SPLIT: both targets; I_JUMP: a
} Inst;
typedef struct Range {
  uint32_t lo, hi;
} Range;

struct Regex {
  Arena *arena;
  VEC(Inst) prog;
  VEC(Range) range;  // of each set: sorted, apart
  int32_t *now, *next, *stack;
  int64_t *from, *from_next;  // where the match that a state is in began
  uint32_t *mark;             // the step at which a state was last entered
};

enum { F_FOLD = 1, F_MULTILINE = 2, F_DOT_ALL = 4 };
typedef struct Parser {
  Arena *arena;
  Regex *re;
  const char *begin, *p, *end;
  int flags, depth;
  const char *error;
  VEC(Range) set;  // under construction
} Parser;

static void set_error(Parser *ps, const char *what) {
  if (ps->error) return;
  ps->error = str_printf(ps->arena, "%s at byte %lld", what, (long long)(ps->p - ps->begin));
}

static int32_t emit(Parser *ps, Inst in) {
  Regex *re = ps->re;
  if (re->prog.n >= PROG_MAX) {
    set_error(ps, "the expression is too large");
    return 0;
  }
  vec_push(ps->arena, &re->prog, in);
  return (int32_t)(re->prog.n - 1);
}
static int32_t here(const Parser *ps) { return (int32_t)ps->re->prog.n; }

// ---- sets of code points ----

static void set_add(Parser *ps, uint32_t lo, uint32_t hi) {
  if (lo > hi) return;
  if (ps->set.n >= RANGES_MAX || ps->re->range.n >= RANGES_MAX) {
    set_error(ps, "a set is too large");
    return;
  }
  vec_push(ps->arena, &ps->set, ((Range){lo, hi}));
}

static void fold_rows(Parser *ps, Range r, const CaseRow *row, int n) {
  for (const CaseRow *c = row; c < row + n; c++) {
    uint32_t step = (uint32_t)c->step, lo = MAX(r.lo, c->lo), hi = MIN(r.hi, c->hi);
    if (lo > hi) continue;
    lo += (step - (lo - c->lo) % step) % step;
    if (step == 1)
      set_add(ps, (uint32_t)((int32_t)lo + c->delta), (uint32_t)((int32_t)hi + c->delta));
    for (uint32_t x = lo; step > 1 && x <= hi; x += step)
      set_add(ps, (uint32_t)((int32_t)x + c->delta), (uint32_t)((int32_t)x + c->delta));
  }
}

// Adds both cases of everything from `from` on; twice, for letters with more than two forms.
static void set_fold(Parser *ps, int64_t from) {
  for (int pass = 0; pass < 2; pass++) {
    int64_t n = ps->set.n;
    for (int64_t i = from; i < n && !ps->error; i++) {
      fold_rows(ps, ps->set.v[i], unicode_lower_rows, unicode_nlower_rows);
      fold_rows(ps, ps->set.v[i], unicode_upper_rows, unicode_nupper_rows);
    }
    from = n;
  }
}

static void sift(Range *v, int64_t i, int64_t n) {
  for (;;) {
    int64_t c = 2 * i + 1;
    if (c >= n) return;
    if (c + 1 < n && v[c + 1].lo > v[c].lo) c++;
    if (v[i].lo >= v[c].lo) return;
    Range t = v[i];
    v[i] = v[c], v[c] = t;
    i = c;
  }
}

// Sorts the ranges from `from` on and joins those that touch.
static void set_normalise(Parser *ps, int64_t from) {
  Range *v = ps->set.v + from;
  int64_t n = ps->set.n - from, kept = 0;
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift(v, i, n);
  for (int64_t i = n - 1; i > 0; i--) {
    Range t = v[0];
    v[0] = v[i], v[i] = t;
    sift(v, 0, i);
  }
  for (int64_t i = 0; i < n; i++) {
    if (kept && v[i].lo <= v[kept - 1].hi + 1)
      v[kept - 1].hi = MAX(v[kept - 1].hi, v[i].hi);
    else
      v[kept++] = v[i];
  }
  ps->set.n = from + kept;
}

static void set_negate(Parser *ps, int64_t from) {
  set_normalise(ps, from);
  int64_t n = ps->set.n;
  uint32_t lo = 0;
  for (int64_t i = from; i < n; i++) {
    Range r = ps->set.v[i];
    if (r.lo > lo) set_add(ps, lo, r.lo - 1);
    lo = r.hi + 1;
  }
  if (lo <= RUNE_MAX) set_add(ps, lo, RUNE_MAX);
  if (ps->error) return;
  int64_t kept = ps->set.n - n;
  if (kept && n > from) memmove(ps->set.v + from, ps->set.v + n, (size_t)kept * sizeof(Range));
  ps->set.n = from + kept;
}

static void emit_set(Parser *ps, bool fold) {
  if (fold) set_fold(ps, 0);
  set_normalise(ps, 0);
  int32_t a = (int32_t)ps->re->range.n;
  for (int64_t i = 0; i < ps->set.n && !ps->error; i++) {
    if (ps->re->range.n >= RANGES_MAX) set_error(ps, "the expression is too large");
    vec_push(ps->arena, &ps->re->range, ps->set.v[i]);
  }
  emit(ps, (Inst){.kind = I_SET, .a = a, .b = (int32_t)ps->re->range.n});
}

static void emit_rune(Parser *ps, uint32_t c) {
  ps->set.n = 0;
  set_add(ps, c, c);
  emit_set(ps, ps->flags & F_FOLD);
}

// Named sets: ranges as pairs of characters, or of the ASCII classes.
static const struct NamedSet {
  const char *name, *pairs;
} posix_sets[] = {
    {"alnum", "09AZaz"},
    {"alpha", "AZaz"},
    {"ascii", "\x01\x7f"},
    {"blank", "\t\t  "},
    {"cntrl", "\x01\x1f\x7f\x7f"},
    {"digit", "09"},
    {"graph", "!~"},
    {"lower", "az"},
    {"print", " ~"},
    {"punct", "!/:@[`{~"},
    {"space", "\t\r  "},
    {"upper", "AZ"},
    {"word", "09AZaz__"},
    {"xdigit", "09AFaf"},
};

static void add_pairs(Parser *ps, const char *pairs) {
  for (; *pairs; pairs += 2) set_add(ps, (uint8_t)pairs[0], (uint8_t)pairs[1]);
}

static void add_posix(Parser *ps, const struct NamedSet *s) {
  add_pairs(ps, s->pairs);
  if (!strcmp(s->name, "ascii") || !strcmp(s->name, "cntrl")) set_add(ps, 0, 0);
}

// \d \s \w and their opposites; false when c is none of them.
static bool add_perl(Parser *ps, char c) {
  char lower = (char)(c | 0x20);
  const char *pairs = lower == 'd'   ? "09"
                      : lower == 's' ? "\t\n\f\r  "
                      : lower == 'w' ? "09AZaz__"
                                     : NULL;
  if (!pairs || !strchr("dswDSW", c)) return false;
  int64_t from = ps->set.n;
  add_pairs(ps, pairs);
  if (c != lower) set_negate(ps, from);
  return true;
}

// ---- escapes ----

static int hex_value(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint32_t hex_escape(Parser *ps) {  // after \x
  uint32_t c = 0;
  bool braces = ps->p < ps->end && *ps->p == '{';
  if (braces) ps->p++;
  int digits = 0;
  while (ps->p < ps->end && hex_value(*ps->p) >= 0 && digits < (braces ? 8 : 2)) {
    c = c * 16 + (uint32_t)hex_value(*ps->p++);
    digits++;
  }
  bool closed = !braces || (ps->p < ps->end && *ps->p++ == '}');
  if (!closed || digits < (braces ? 1 : 2) || c > RUNE_MAX) {
    set_error(ps, "a malformed \\x escape");
    return 0;
  }
  return c;
}

// One escaped character, after the backslash.
static uint32_t escape(Parser *ps) {
  static const char from[] = "aftnrv", to[] = "\a\f\t\n\r\v";
  if (ps->p >= ps->end) {
    set_error(ps, "a backslash at the end");
    return 0;
  }
  char c = *ps->p++;
  const char *known = c ? strchr(from, c) : NULL;
  if (known) return (uint8_t)to[known - from];
  if (c == 'x') return hex_escape(ps);
  bool octal =
      c == '0' || (c >= '1' && c <= '7' && ps->p < ps->end && *ps->p >= '0' && *ps->p <= '7');
  if (octal) {
    uint32_t v = (uint32_t)(c - '0');
    for (int i = 0; i < 2 && ps->p < ps->end && *ps->p >= '0' && *ps->p <= '7'; i++)
      v = v * 8 + (uint32_t)(*ps->p++ - '0');
    return v;
  }
  bool word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  if (word || (uint8_t)c >= 0x80 || c == '_')
    set_error(ps, c >= '1' && c <= '9' ? "backreferences are not part of the syntax"
                                       : "an escape that is not known");
  return (uint8_t)c;
}

static uint32_t next_rune(Parser *ps) {
  int len;
  uint32_t c = utf8_decode(ps->p, ps->end, &len);
  ps->p += len;
  return c;
}

// ---- classes ----

static bool looking_at(const Parser *ps, const char *z) {
  size_t n = strlen(z);
  return (size_t)(ps->end - ps->p) >= n && !memcmp(ps->p, z, n);
}

// [:name:] or [:^name:]; false when it is no such thing.
static bool posix_class(Parser *ps) {
  if (!looking_at(ps, "[:")) return false;
  const char *name = ps->p + 2, *stop = name;
  while (stop < ps->end && *stop != ':' && *stop != ']') stop++;
  if (ps->end - stop < 2 || stop[0] != ':' || stop[1] != ']') return false;
  bool negated = *name == '^';
  Str word = {name + negated, stop - name - negated};
  for (int64_t i = 0; i < ARRAY_LEN(posix_sets); i++) {
    if (!str_is(word, posix_sets[i].name)) continue;
    int64_t from = ps->set.n;
    add_posix(ps, &posix_sets[i]);
    if (negated) set_negate(ps, from);
    ps->p = stop + 2;
    return true;
  }
  set_error(ps, "a class name that is not known");
  return true;
}

static uint32_t class_rune(Parser *ps) {
  if (*ps->p != '\\') return next_rune(ps);
  ps->p++;
  return escape(ps);
}

static void class_item(Parser *ps) {
  if (posix_class(ps)) return;
  if (*ps->p == '\\' && ps->end - ps->p > 1) {
    if (ps->p[1] == 'p' || ps->p[1] == 'P') {
      set_error(ps, "\\p classes are not supported; write out the ranges");
      return;
    }
    if (add_perl(ps, ps->p[1])) {
      ps->p += 2;
      return;
    }
  }
  uint32_t lo = class_rune(ps), hi = lo;
  if (ps->error) return;
  if (ps->end - ps->p >= 2 && ps->p[0] == '-' && ps->p[1] != ']') {
    ps->p++;
    hi = class_rune(ps);
    if (hi < lo) set_error(ps, "a range that runs backwards");
  }
  set_add(ps, lo, hi);
}

static void parse_class(Parser *ps) {  // after the [
  bool negated = ps->p < ps->end && *ps->p == '^', first = true;
  ps->set.n = 0;
  if (negated) ps->p++;
  for (; !ps->error; first = false) {
    if (ps->p >= ps->end) {
      set_error(ps, "a [ without its ]");
      return;
    }
    if (*ps->p == ']' && !first) break;
    class_item(ps);
  }
  if (ps->error) return;
  ps->p++;
  if (ps->flags & F_FOLD) set_fold(ps, 0);
  if (negated) set_negate(ps, 0);
  emit_set(ps, false);
}

// ---- expressions ----

static void parse_alternation(Parser *ps);

// (?flags) or (?flags:...) after "(?"; returns true when a group follows.
static bool parse_flags(Parser *ps) {
  bool off = false;
  while (ps->p < ps->end) {
    char c = *ps->p++;
    int bit = c == 'i' ? F_FOLD : c == 'm' ? F_MULTILINE : c == 's' ? F_DOT_ALL : 0;
    if (c == ')') return false;
    if (c == ':') return true;
    if (c == '-' && !off) {
      off = true;
    } else if (bit || c == 'U') {  // U swaps greedy and lazy, which are the same here
      ps->flags = off ? ps->flags & ~bit : ps->flags | bit;
    } else {
      break;
    }
  }
  set_error(ps, "a (? group that is not known (look-around is not part of the syntax)");
  return false;
}

static void group_name(Parser *ps) {  // after the <
  const char *begin = ps->p;
  while (ps->p < ps->end && *ps->p != '>') {
    char c = *ps->p++;
    bool word =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    if (!word) set_error(ps, "a malformed group name");
  }
  if (ps->p >= ps->end || ps->p == begin)
    set_error(ps, "a malformed group name");
  else
    ps->p++;
}

static void parse_group(Parser *ps) {  // after the (
  int outer = ps->flags;
  bool group = true;
  if (looking_at(ps, "?")) {
    if (looking_at(ps, "?P<") ||
        (looking_at(ps, "?<") && !looking_at(ps, "?<=") && !looking_at(ps, "?<!"))) {
      ps->p += looking_at(ps, "?P<") ? 3 : 2;
      group_name(ps);
    } else {
      ps->p++;
      group = parse_flags(ps);
    }
  }
  if (ps->error || !group) return;  // flags alone last to the end of the enclosing group
  parse_alternation(ps);
  if (!ps->error && (ps->p >= ps->end || *ps->p != ')')) set_error(ps, "a ( without its )");
  if (ps->error) return;
  ps->p++;
  ps->flags = outer;
}

static void emit_assert(Parser *ps, Assertion a) {
  emit(ps, (Inst){.kind = I_ASSERT, .assertion = (uint8_t)a});
}

static void parse_quoted(Parser *ps) {  // after \Q
  while (ps->p < ps->end && !looking_at(ps, "\\E") && !ps->error) emit_rune(ps, next_rune(ps));
  if (looking_at(ps, "\\E")) ps->p += 2;
}

static void parse_escape(Parser *ps) {  // after the backslash
  char c = ps->p < ps->end ? *ps->p : 0;
  static const char letters[] = "AzbB";
  static const Assertion means[] = {A_BEGIN, A_END, A_WORD, A_NOT_WORD};
  const char *k = c ? strchr(letters, c) : NULL;
  if (k) {
    ps->p++;
    emit_assert(ps, means[k - letters]);
  } else if (c == 'Q') {
    ps->p++;
    parse_quoted(ps);
  } else if (c == 'p' || c == 'P') {
    set_error(ps, "\\p classes are not supported; write out the ranges");
  } else if (c == 'C') {
    set_error(ps, "\\C is not supported");
  } else {
    ps->set.n = 0;
    if (c && add_perl(ps, c)) {
      ps->p++;
      emit_set(ps, false);
    } else {
      uint32_t rune = escape(ps);
      if (!ps->error) emit_rune(ps, rune);
    }
  }
}

static void parse_atom(Parser *ps) {
  char c = *ps->p;
  bool lines = ps->flags & F_MULTILINE;
  switch (c) {
  case '(':
    ps->p++;
    parse_group(ps);
    break;
  case '[':
    ps->p++;
    parse_class(ps);
    break;
  case '\\':
    ps->p++;
    parse_escape(ps);
    break;
  case '^':
    ps->p++;
    emit_assert(ps, lines ? A_LINE_BEGIN : A_BEGIN);
    break;
  case '$':
    ps->p++;
    emit_assert(ps, lines ? A_LINE_END : A_END);
    break;
  case '*':
  case '+':
  case '?': set_error(ps, "nothing to repeat"); break;
  case '.':
    ps->p++;
    ps->set.n = 0;
    if (!(ps->flags & F_DOT_ALL)) set_add(ps, '\n', '\n');
    set_negate(ps, 0);
    emit_set(ps, false);
    break;
  default: emit_rune(ps, next_rune(ps));
  }
}

// {n}, {n,} or {n,m} at p; false: literal text.  hi -1: no upper bound.
static bool read_bounds(Parser *ps, int *lo, int *hi) {
  const char *p = ps->p + 1;
  int *to[2] = {lo, hi};
  *lo = *hi = -1;
  for (int i = 0; i < 2; i++) {
    int v = -1;
    for (; p < ps->end && *p >= '0' && *p <= '9'; p++)
      v = MIN((v < 0 ? 0 : v) * 10 + (*p - '0'), 100000);
    *to[i] = v;
    if (v < 0 && i == 0) return false;
    if (i == 0 && p < ps->end && *p == ',') {
      p++;
      continue;
    }
    if (i == 0) *hi = v;
    break;
  }
  if (p >= ps->end || *p != '}') return false;
  ps->p = p + 1;
  if (*lo > REPEAT_MAX || *hi > REPEAT_MAX || (*hi >= 0 && *hi < *lo))
    set_error(ps, "repetition bounds that are wrong or above 1000");
  return true;
}

// ---- repetition: the operand's instructions are [start, end), and nothing outside jumps into them
// ----

static Inst moved(Inst in, int32_t by) {
  if (in.kind == I_SPLIT || in.kind == I_JUMP) in.a += by;
  if (in.kind == I_SPLIT) in.b += by;
  return in;
}

static void copy_operand(Parser *ps, int32_t start, int32_t end) {
  int32_t by = here(ps) - start;
  for (int32_t i = start; i < end && !ps->error; i++) emit(ps, moved(ps->re->prog.v[i], by));
}

// Makes room for one instruction in front of the operand.
static void insert_split(Parser *ps, int32_t start) {
  int32_t end = here(ps);
  emit(ps, (Inst){.kind = I_SPLIT});
  Inst *v = ps->re->prog.v;
  for (int32_t i = end; i > start && !ps->error; i--) v[i] = moved(v[i - 1], 1);
  v[start] = (Inst){.kind = I_SPLIT, .a = start + 1, .b = end + 1};
}

// x{lo,} with lo at least 1: the last copy is left through a way back to its begin.
static void repeat_more(Parser *ps, int32_t start, int lo) {
  int32_t end = here(ps), last = start;
  for (int i = 1; i < lo && !ps->error; i++) {
    last = here(ps);
    copy_operand(ps, start, end);
  }
  int32_t split = emit(ps, (Inst){.kind = I_SPLIT, .a = last});
  if (!ps->error) ps->re->prog.v[split].b = split + 1;
}

// x{lo,hi}: lo copies, then hi - lo optional ones, each of which may leave.
static void repeat_some(Parser *ps, int32_t start, int lo, int hi) {
  int32_t len = here(ps) - start;
  if (hi == 0) {
    ps->re->prog.n = start;
    return;
  }
  for (int i = 1; i < lo && !ps->error; i++) copy_operand(ps, start, start + len);
  int32_t first = here(ps), operand = start;
  if (lo == 0) {
    insert_split(ps, start);
    first = start;
    operand = start + 1;
  }
  for (int i = MAX(lo, 1); i < hi && !ps->error; i++) {
    int32_t split = emit(ps, (Inst){.kind = I_SPLIT});
    copy_operand(ps, operand, operand + len);
    if (!ps->error) ps->re->prog.v[split].a = split + 1;
  }
  for (int i = lo; i < hi && !ps->error; i++)
    ps->re->prog.v[first + (i - lo) * (len + 1)].b = here(ps);
}

static void repeat(Parser *ps, int32_t start, int lo, int hi) {
  if (hi >= 0) {
    repeat_some(ps, start, lo, hi);
  } else if (lo > 0) {
    repeat_more(ps, start, lo);
  } else {  // x*
    insert_split(ps, start);
    emit(ps, (Inst){.kind = I_JUMP, .a = start});
    if (!ps->error) ps->re->prog.v[start].b = here(ps);
  }
}

static bool read_repeat(Parser *ps, int *lo, int *hi) {
  if (ps->p >= ps->end) return false;
  char c = *ps->p;
  if (c == '{') return read_bounds(ps, lo, hi);
  if (c != '*' && c != '+' && c != '?') return false;
  ps->p++;
  *lo = c == '+';
  *hi = c == '?' ? 1 : -1;
  return true;
}

static void parse_repeat(Parser *ps) {
  int lo, hi;
  int32_t start = here(ps);
  bool quoted = looking_at(ps, "\\Q");
  parse_atom(ps);
  if (ps->error || !read_repeat(ps, &lo, &hi) || ps->error) return;
  if (quoted && here(ps) > start)
    start = here(ps) - 1;                         // of a quoted text the last character repeats
  if (ps->p < ps->end && *ps->p == '?') ps->p++;  // lazy: the same language
  if (ps->p < ps->end && (*ps->p == '*' || *ps->p == '+' || *ps->p == '?'))
    set_error(ps, "a repetition of a repetition");
  if (!ps->error) repeat(ps, start, lo, hi);
}

static void parse_sequence(Parser *ps) {
  while (ps->p < ps->end && *ps->p != '|' && *ps->p != ')' && !ps->error) parse_repeat(ps);
}

static void parse_alternation(Parser *ps) {
  if (++ps->depth > DEPTH_MAX) set_error(ps, "groups are nested too deep");
  int32_t last_jump = -1;  // jumps to the end, linked through .a until it is known
  while (!ps->error) {
    int32_t split = emit(ps, (Inst){.kind = I_SPLIT});
    parse_sequence(ps);
    if (ps->error) break;
    Inst *v = ps->re->prog.v;
    v[split].a = split + 1;
    if (ps->p >= ps->end || *ps->p != '|') {
      v[split].b = split + 1;  // the last branch has no alternative
      break;
    }
    ps->p++;
    last_jump = emit(ps, (Inst){.kind = I_JUMP, .a = last_jump});
    ps->re->prog.v[split].b = here(ps);
  }
  while (last_jump >= 0 && !ps->error) {
    int32_t before = ps->re->prog.v[last_jump].a;
    ps->re->prog.v[last_jump].a = here(ps);
    last_jump = before;
  }
  ps->depth--;
}

const Regex *regex_compile(Arena *a, Str pattern, const char **message) {
  Regex *re = arena_new(a, Regex);
  const char *text = pattern.n ? pattern.p : "";
  Parser ps = {.arena = a, .re = re, .begin = text, .p = text, .end = text + pattern.n};
  re->arena = a;
  *message = NULL;
  if (!str_is_utf8(pattern)) set_error(&ps, "text that is not UTF-8");
  parse_alternation(&ps);
  if (!ps.error && ps.p < ps.end) set_error(&ps, "a ) without its (");
  emit(&ps, (Inst){.kind = I_MATCH});
  if (ps.error) {
    *message = ps.error;
    return NULL;
  }
  int64_t n = re->prog.n;
  re->now = arena_array(a, int32_t, n);
  re->next = arena_array(a, int32_t, n);
  re->from = arena_array(a, int64_t, n);
  re->from_next = arena_array(a, int64_t, n);
  re->stack = arena_array(a, int32_t, 2 * n + 2);
  re->mark = arena_array(a, uint32_t, n);
  return re;
}

// ---- matching ----

// Where the matcher stands: the code points on both sides, RUNE_MAX + 1 at an end of the text.
typedef struct Place {
  uint32_t before, after;
} Place;

static bool word_rune(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool holds(Assertion a, Place at) {
  bool edge = word_rune(at.before) != word_rune(at.after);
  switch (a) {
  case A_BEGIN: return at.before > RUNE_MAX;
  case A_END: return at.after > RUNE_MAX;
  case A_LINE_BEGIN: return at.before > RUNE_MAX || at.before == '\n';
  case A_LINE_END: return at.after > RUNE_MAX || at.after == '\n';
  case A_WORD: return edge;
  case A_NOT_WORD: return !edge;
  }
  return false;
}

// Adds a state and all that follow from it without reading; returns the new count.
static int32_t enter(const Regex *re, int32_t state, Place at, uint32_t step, int32_t *list,
                     int32_t n) {
  int32_t top = 0;
  re->stack[top++] = state;
  while (top) {
    int32_t s = re->stack[--top];
    if (re->mark[s] == step) continue;
    re->mark[s] = step;
    const Inst *in = &re->prog.v[s];
    switch ((InstKind)in->kind) {
    case I_JUMP: re->stack[top++] = in->a; break;
    case I_SPLIT:
      re->stack[top++] = in->a;
      re->stack[top++] = in->b;
      break;
    case I_ASSERT:
      if (holds((Assertion)in->assertion, at)) re->stack[top++] = s + 1;
      break;
    case I_SET:
    case I_MATCH: list[n++] = s; break;
    }
  }
  return n;
}

static bool in_set(const Regex *re, const Inst *in, uint32_t c) {
  int32_t lo = in->a, hi = in->b;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    if (re->range.v[mid].hi < c)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < in->b && re->range.v[lo].lo <= c;
}

int64_t regex_size(const Regex *re) { return re->prog.n; }

typedef struct Search {
  const Regex *re;
  int32_t *now, *next;
  int64_t *from, *from_next;
  int32_t n;
  uint32_t step;
  int64_t begin, end;  // of the best match so far; begin -1: none
  int64_t at;          // how far the text was read
} Search;

// States are listed by where their match began, first first: so a state that two matches reach
// keeps the leftmost, and after a match all that began later are dropped.
static void take_matches(Search *s, int64_t at) {
  int32_t kept = 0;
  for (int32_t i = 0; i < s->n; i++) {
    if (s->begin >= 0 && s->from[i] > s->begin) break;
    if (s->re->prog.v[s->now[i]].kind == I_MATCH) {
      s->begin = s->from[i];
      s->end = at;
    }
    kept = i + 1;
  }
  s->n = kept;
}

static void advance(Search *s, uint32_t c, Place at) {
  const Regex *re = s->re;
  int32_t m = 0;
  if (++s->step == 0) {  // the counter came round: no old mark may look new
    memset(re->mark, 0, (size_t)re->prog.n * sizeof(*re->mark));
    s->step = 1;
  }
  for (int32_t i = 0; i < s->n; i++) {
    const Inst *in = &re->prog.v[s->now[i]];
    if (in->kind != I_SET || !in_set(re, in, c)) continue;
    int32_t after = enter(re, s->now[i] + 1, at, s->step, s->next, m);
    while (m < after) s->from_next[m++] = s->from[i];
  }
  int32_t *t = s->now;
  int64_t *f = s->from;
  s->now = s->next, s->next = t;
  s->from = s->from_next, s->from_next = f;
  s->n = m;
}

// The leftmost match that begins at `start` or, unless anchored, after it; the longest of those.
static Search search(const Regex *re, Str text, int64_t start, bool anchored) {
  const char *p = text.n ? text.p : "", *stop = p + text.n, *back = p + start;
  const uint32_t none = RUNE_MAX + 1;
  int len = 0;
  Search s = {re, re->now, re->next, re->from, re->from_next, 0, 1, -1, 0, start};
  memset(re->mark, 0, (size_t)re->prog.n * sizeof(*re->mark));
  while (back > p && (*--back & 0xC0) == 0x80) continue;
  Place at = {start ? utf8_decode(back, stop, &len) : none, none};
  for (int64_t i = start;; i += len) {
    if (i < text.n) at.after = utf8_decode(p + i, stop, &len);
    if (s.begin < 0 && (i == start || !anchored)) {
      int32_t after = enter(re, 0, at, s.step, s.now, s.n);
      while (s.n < after) s.from[s.n++] = i;
    }
    take_matches(&s, i);
    s.at = i;
    if (i >= text.n || (!s.n && (anchored || s.begin >= 0))) return s;
    uint32_t c = at.after;
    at = (Place){c, i + len < text.n ? utf8_decode(p + i + len, stop, &(int){0}) : none};
    advance(&s, c, at);
  }
}

bool regex_full_match(const Regex *re, Str text) {
  Search s = search(re, text, 0, true);
  return s.begin == 0 && s.end == text.n;
}

bool regex_find(const Regex *re, Str text, int64_t start, int64_t *begin, int64_t *end,
                int64_t *work) {
  Search s = search(re, text, start, false);
  *work += (s.at - start + 1) * re->prog.n;
  *begin = s.begin;
  *end = s.end;
  return s.begin >= 0;
}
