// pattern.c -- patterns to a program of sets, splits and one-character lookahead.
//
// A recursive descent parser with a depth limit builds a tree; the tree is written out as a
// program in the manner of Thompson, counted repetitions as copies.  A possessive repetition of one
// character is the greedy one whose exit looks ahead: the next character is not one more.
#include "text/pattern.h"

#include "text/unicode.h"

typedef enum { N_EMPTY, N_SET, N_CAT, N_ALT, N_REPEAT, N_LOOK } NodeKind;
typedef struct RxNode RxNode;
struct RxNode {
  NodeKind kind;
  int32_t set;          // N_SET, N_LOOK
  bool not ;            // N_LOOK
  int64_t least, most;  // N_REPEAT; most -1: any number
  bool lazy, possessive;
  RxNode *a;     // what is repeated; the first part or alternative
  RxNode *next;  // of a list of parts or alternatives
};

typedef struct Parser {
  Arena *arena;
  Diag *diag;
  Str all;
  int64_t at;
  int depth;
  bool fold;  // (?i
  PatternSets sets;
  PatternProgram program;
  int64_t most;  // instructions
} Parser;

static tenon_status refuse(Parser *p, tenon_status code, const char *what) {
  return fail(p->diag, code, NOWHERE, "regular expression '%.*s': %s at byte %lld",
              (int)MIN(p->all.n, 200), p->all.p, what, (long long)p->at);
}

// ---- sets ----
static void set_add(Parser *p, PatternSet *s, uint32_t first, uint32_t last) {
  vec_push(p->arena, s, ((PatternRange){first, last}));
}

// Sorts by first, by merging, and joins what touches.
static void set_sort(Parser *p, PatternSet *s) {
  PatternRange *v = s->v, *to = arena_array(p->arena, PatternRange, MAX(s->n, 1));
  for (int64_t run = 1; run < s->n; run *= 2) {
    for (int64_t i = 0; i < s->n; i += 2 * run) {
      int64_t a = i, a_end = MIN(i + run, s->n), b = a_end, b_end = MIN(i + 2 * run, s->n), k = i;
      while (a < a_end || b < b_end)
        to[k++] = b == b_end || (a < a_end && v[a].first <= v[b].first) ? v[a++] : v[b++];
    }
    PatternRange *swap = v;
    v = to;
    to = swap;
  }
  int64_t n = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (n && v[i].first <= v[n - 1].last + 1)
      v[n - 1].last = MAX(v[n - 1].last, v[i].last);
    else
      v[n++] = v[i];
  }
  s->v = v;
  s->n = n;
}

static void set_negate(Parser *p, PatternSet *s) {
  PatternSet out = {0};
  uint32_t from = 0;
  set_sort(p, s);
  for (int64_t i = 0; i < s->n; i++) {
    if (s->v[i].first > from) set_add(p, &out, from, s->v[i].first - 1);
    from = s->v[i].last + 1;
  }
  if (from < UNICODE_END) set_add(p, &out, from, UNICODE_END - 1);
  *s = out;
}

static void set_join(Parser *p, PatternSet *s, const PatternSet *more) {
  for (int64_t i = 0; i < more->n; i++) set_add(p, s, more->v[i].first, more->v[i].last);
}

static void set_intersect(Parser *p, PatternSet *s, PatternSet *other) {
  PatternSet out = {0};
  set_sort(p, s);
  set_sort(p, other);
  for (int64_t i = 0, k = 0; i < s->n && k < other->n;) {
    uint32_t first = MAX(s->v[i].first, other->v[k].first);
    uint32_t last = MIN(s->v[i].last, other->v[k].last);
    if (first <= last) set_add(p, &out, first, last);
    if (s->v[i].last < other->v[k].last)
      i++;
    else
      k++;
  }
  *s = out;
}

// Of a sorted set.
static bool set_has(const PatternSet *s, uint32_t c) {
  int64_t low = 0, high = s->n;
  while (low < high) {
    int64_t mid = (low + high) / 2;
    if (c < s->v[mid].first)
      high = mid;
    else if (c > s->v[mid].last)
      low = mid + 1;
    else
      return true;
  }
  return false;
}

// Adds what differs from a member by case alone: characters that have one lower case.
static void set_fold(Parser *p, PatternSet *s) {
  set_sort(p, s);
  PatternSet more = {0}, low = {0};
  for (int64_t i = 0; i < unicode_nlowers; i++) {
    const UnicodeLower *r = &unicode_lowers[i];
    for (uint32_t c = r->first; c <= r->last; c += (uint32_t)r->stride)
      if (set_has(s, c)) {
        uint32_t to = (uint32_t)((int64_t)c + r->delta);
        set_add(p, &low, to, to);
      }
  }
  // The long s folds to an ASCII letter and is no upper case.
  if (set_has(s, 's') || set_has(s, 'S')) set_add(p, &low, 0x17f, 0x17f);
  if (set_has(s, 0x17f)) set_add(p, &low, 's', 's');
  set_join(p, s, &low);
  set_sort(p, s);
  for (int64_t i = 0; i < unicode_nlowers; i++) {
    const UnicodeLower *r = &unicode_lowers[i];
    for (uint32_t c = r->first; c <= r->last; c += (uint32_t)r->stride)
      if (set_has(s, (uint32_t)((int64_t)c + r->delta))) set_add(p, &more, c, c);
  }
  set_join(p, s, &more);
  set_sort(p, s);
}

static void add_categories(Parser *p, PatternSet *s, uint32_t categories) {
  for (int64_t i = 0; i < unicode_runs(); i++) {
    UnicodeCategory c;
    UnicodeRange r = unicode_run(i, &c);
    if (categories >> c & 1) set_add(p, s, r.first, r.last);
  }
}
static void add_spaces(Parser *p, PatternSet *s) {
  for (uint32_t c = 0; c <= 0x3000; c++)
    if (unicode_is_space(c)) set_add(p, s, c, c);
}

// \p{NAME}: a general category, by its short or long name, or one of a few other properties.
static bool add_property(Parser *p, PatternSet *s, Str name) {
  static const struct {
    const char *name;
    uint32_t set;
  } groups[] = {{"L", UC_L},
                {"M", UC_M},
                {"N", UC_N},
                {"P", UC_P},
                {"S", UC_S},
                {"Z", UC_Z},
                {"C", UC_C},
                {"Letter", UC_L},
                {"Mark", UC_M},
                {"Number", UC_N},
                {"Punctuation", UC_P},
                {"Symbol", UC_S},
                {"Separator", UC_Z},
                {"Other", UC_C},
                {"LC", UC_BIT(Lu) | UC_BIT(Ll) | UC_BIT(Lt)},
                {"Uppercase_Letter", UC_BIT(Lu)},
                {"Lowercase_Letter", UC_BIT(Ll)}};
  for (int64_t i = 0; i < ARRAY_LEN(groups); i++)
    if (str_is(name, groups[i].name)) return add_categories(p, s, groups[i].set), true;
  for (int i = 0; i < UC_COUNT; i++)
    if (str_is(name, unicode_category_name[i])) return add_categories(p, s, 1u << i), true;
  if (str_is(name, "White_Space") || str_is(name, "Space")) return add_spaces(p, s), true;
  if (!str_is(name, "Han") && !str_is(name, "Script=Han") && !str_is(name, "sc=Han")) return false;
  for (int64_t i = 0; i < unicode_nhan; i++)
    set_add(p, s, unicode_han[i].first, unicode_han[i].last);
  return true;
}

// The set's number; equal sets have one.
static tenon_status intern_set(Parser *p, PatternSet *s, int32_t *out) {
  set_sort(p, s);
  for (int64_t i = 0; i < p->sets.n; i++)
    if (p->sets.v[i].n == s->n &&
        (!s->n || !memcmp(p->sets.v[i].v, s->v, (size_t)s->n * sizeof *s->v)))
      return *out = (int32_t)i, TENON_OK;
  if (p->sets.n == LIMIT_TOKENIZER_REGEX_SETS)
    return refuse(p, TENON_EUNSUPPORTED, "too many different sets");
  vec_push(p->arena, &p->sets, *s);
  *out = (int32_t)(p->sets.n - 1);
  return TENON_OK;
}

// ---- parsing ----
static bool more(const Parser *p) { return p->at < p->all.n; }
static bool sees(const Parser *p, const char *z) {
  int64_t n = (int64_t)strlen(z);
  return p->all.n - p->at >= n && !memcmp(p->all.p + p->at, z, (size_t)n);
}
static bool take(Parser *p, const char *z) {
  if (!sees(p, z)) return false;
  p->at += (int64_t)strlen(z);
  return true;
}
static uint32_t take_char(Parser *p) {
  int n;
  uint32_t c = utf8_get((const uint8_t *)p->all.p + p->at, &n);
  p->at += n;
  return c;
}

static bool take_hex(Parser *p, int64_t least, int64_t most, uint32_t *out) {
  uint32_t v = 0;
  int64_t n = 0;
  for (; n < most && more(p); n++, p->at++) {
    char c = p->all.p[p->at];
    int digit = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
    if (digit < 0) break;
    v = v * 16 + (uint32_t)digit;
  }
  *out = v;
  return n >= least && v < UNICODE_END;
}

static tenon_status parse_property(Parser *p, bool not, PatternSet *s) {
  PatternSet one = {0};
  Str name = {p->all.p + p->at, 1};
  if (take(p, "{")) {
    if (take(p, "^")) not = !not ;
    name.p = p->all.p + p->at;
    const char *end = memchr(name.p, '}', (size_t)(p->all.n - p->at));
    if (!end) return refuse(p, TENON_EFORMAT, "a property without '}'");
    name.n = end - name.p;
    p->at += name.n + 1;
  } else if (more(p)) {
    p->at++;
  } else {
    return refuse(p, TENON_EFORMAT, "a property without a name");
  }
  if (!add_property(p, &one, name))
    return fail(p->diag, TENON_EUNSUPPORTED, NOWHERE,
                "regular expression: the property '%.*s' is not supported", (int)MIN(name.n, 80),
                name.p);
  if (not ) set_negate(p, &one);
  set_join(p, s, &one);
  return TENON_OK;
}

// One of \d \s \w \h \D \S \W \H \N; false: another letter.
static bool add_shorthand(Parser *p, char c, PatternSet *s) {
  PatternSet one = {0};
  switch (c | 32) {
  case 'd': add_categories(p, &one, UC_BIT(Nd)); break;
  case 's': add_spaces(p, &one); break;
  case 'w': add_categories(p, &one, UC_L | UC_M | UC_BIT(Nd) | UC_BIT(Nl) | UC_BIT(Pc)); break;
  case 'h':
    set_add(p, &one, '\t', '\t');
    add_categories(p, &one, UC_BIT(Zs));
    break;
  default: return false;
  }
  if (c < 'a') set_negate(p, &one);
  set_join(p, s, &one);
  return true;
}

// After a backslash: a set or one character.
static tenon_status parse_escape(Parser *p, PatternSet *s) {
  static const char from[] = "nrtfvae0", into[] = "\n\r\t\f\v\a\033";
  if (!more(p)) return refuse(p, TENON_EFORMAT, "a backslash at the end");
  char c = p->all.p[p->at];
  if (take(p, "p") || take(p, "P")) return parse_property(p, c == 'P', s);
  if (add_shorthand(p, c, s)) return p->at++, TENON_OK;
  const char *e = c ? strchr(from, c) : NULL;
  uint32_t code;
  if (e) {
    p->at++;
    code = (uint8_t)into[e - from];
  } else if (take(p, "x") || take(p, "u")) {
    bool braces = take(p, "{");
    int64_t digits = braces ? 8 : c == 'x' ? 2 : 4;
    if (!take_hex(p, braces ? 1 : digits, digits, &code) || (braces && !take(p, "}")))
      return refuse(p, TENON_EFORMAT, "a bad hexadecimal escape");
  } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9')) {
    return refuse(p, TENON_EUNSUPPORTED, "this escape is not supported");
  } else {
    code = take_char(p);
  }
  set_add(p, s, code, code);
  return TENON_OK;
}

static tenon_status parse_set(Parser *p, PatternSet *out);

// One item of a set, or a range.
static tenon_status parse_item(Parser *p, PatternSet *s) {
  if (sees(p, "[:")) return refuse(p, TENON_EUNSUPPORTED, "a POSIX class is not supported");
  if (take(p, "[")) {
    PatternSet inner = {0};
    TRY(parse_set(p, &inner));
    set_join(p, s, &inner);
    return TENON_OK;
  }
  PatternSet one = {0};
  if (take(p, "\\"))
    TRY(parse_escape(p, &one));
  else {
    uint32_t c = take_char(p);
    set_add(p, &one, c, c);
  }
  bool single = one.n == 1 && one.v[0].first == one.v[0].last;
  if (single && sees(p, "-") && p->at + 1 < p->all.n && p->all.p[p->at + 1] != ']' &&
      p->all.p[p->at + 1] != '[') {
    p->at++;
    PatternSet last = {0};
    if (take(p, "\\"))
      TRY(parse_escape(p, &last));
    else {
      uint32_t c = take_char(p);
      set_add(p, &last, c, c);
    }
    if (last.n != 1 || last.v[0].first != last.v[0].last || last.v[0].first < one.v[0].first)
      return refuse(p, TENON_EFORMAT, "a bad range");
    one.v[0].last = last.v[0].last;
  }
  set_join(p, s, &one);
  return TENON_OK;
}

// After '['.
static tenon_status parse_set(Parser *p, PatternSet *out) {
  if (p->depth++ == LIMIT_TOKENIZER_REGEX_DEPTH)
    return refuse(p, TENON_EUNSUPPORTED, "sets are nested too deep");
  bool not = take(p, "^"), first = true, meets = false;
  PatternSet left = {0}, part = {0};
  for (;; first = false) {
    if (!more(p)) return refuse(p, TENON_EFORMAT, "a set without ']'");
    if (!first && take(p, "]")) break;
    if (take(p, "&&")) {
      if (meets)
        set_intersect(p, &left, &part);
      else
        left = part;
      meets = true;
      part = (PatternSet){0};
      continue;
    }
    TRY(parse_item(p, &part));
  }
  if (meets)
    set_intersect(p, &left, &part);
  else
    left = part;
  if (p->fold) set_fold(p, &left);
  if (not ) set_negate(p, &left);
  *out = left;
  p->depth--;
  return TENON_OK;
}

static RxNode *node(Parser *p, NodeKind kind) {
  RxNode *n = arena_new(p->arena, RxNode);
  n->kind = kind;
  return n;
}
static tenon_status set_node(Parser *p, NodeKind kind, bool not, PatternSet *s, RxNode **out) {
  RxNode *n = node(p, kind);
  n->not = not ;
  *out = n;
  return intern_set(p, s, &n->set);
}

static tenon_status parse_alternatives(Parser *p, RxNode **out);

// (?=X) and (?!X), of one character; (?=X|$) and the like are not there.
static tenon_status parse_look(Parser *p, bool not, RxNode **out) {
  RxNode *inner;
  TRY(parse_alternatives(p, &inner));
  if (!take(p, ")")) return refuse(p, TENON_EFORMAT, "a group without ')'");
  while ((inner->kind == N_ALT || inner->kind == N_CAT) && inner->a && !inner->a->next)
    inner = inner->a;
  if (inner->kind != N_SET)
    return refuse(p, TENON_EUNSUPPORTED, "lookahead at more than one character is not supported");
  RxNode *n = node(p, N_LOOK);
  n->set = inner->set;
  n->not = not ;
  *out = n;
  return TENON_OK;
}

// After '('.
static tenon_status parse_group(Parser *p, RxNode **out) {
  bool fold = p->fold;
  if (p->depth++ == LIMIT_TOKENIZER_REGEX_DEPTH)
    return refuse(p, TENON_EUNSUPPORTED, "groups are nested too deep");
  bool not = sees(p, "?!");
  if (take(p, "?=") || take(p, "?!")) {
    p->depth--;
    return parse_look(p, not, out);
  }
  if (sees(p, "?<=") || sees(p, "?<!"))
    return refuse(p, TENON_EUNSUPPORTED, "lookbehind is not supported");
  if (sees(p, "?>")) return refuse(p, TENON_EUNSUPPORTED, "an atomic group is not supported");
  if (take(p, "?i:") || take(p, "?i)"))
    p->fold = true;
  else if (sees(p, "?<") || sees(p, "?P<"))
    p->at = (const char *)memchr(p->all.p + p->at, '<', (size_t)(p->all.n - p->at)) - p->all.p;
  else if (!take(p, "?:") && sees(p, "?"))
    return refuse(p, TENON_EUNSUPPORTED, "this kind of group is not supported");
  if (p->all.p[p->at - 1] == ')') {  // (?i) holds to the end of the group around
    p->depth--;
    *out = node(p, N_EMPTY);
    return TENON_OK;
  }
  if (sees(p, "<")) {  // the name of a capture
    const char *end = memchr(p->all.p + p->at, '>', (size_t)(p->all.n - p->at));
    if (!end) return refuse(p, TENON_EFORMAT, "a name without '>'");
    p->at = end + 1 - p->all.p;
  }
  TRY(parse_alternatives(p, out));
  if (!take(p, ")")) return refuse(p, TENON_EFORMAT, "a group without ')'");
  p->fold = fold;
  p->depth--;
  return TENON_OK;
}

static tenon_status parse_atom(Parser *p, RxNode **out) {
  PatternSet s = {0};
  if (take(p, "(")) return parse_group(p, out);
  if (take(p, "[")) {
    TRY(parse_set(p, &s));
    return set_node(p, N_SET, false, &s, out);
  }
  if (take(p, "$") || take(p, "\\z")) {  // not followed by anything
    set_add(p, &s, 0, UNICODE_END - 1);
    return set_node(p, N_LOOK, true, &s, out);
  }
  if (sees(p, "^")) return refuse(p, TENON_EUNSUPPORTED, "'^' is not supported");
  if (sees(p, "*") || sees(p, "+") || sees(p, "?") || sees(p, "{"))
    return refuse(p, TENON_EFORMAT, "a repetition of nothing");
  if (take(p, ".")) {
    set_add(p, &s, '\n', '\n');
    set_negate(p, &s);
  } else if (take(p, "\\")) {
    TRY(parse_escape(p, &s));
  } else {
    uint32_t c = take_char(p);
    set_add(p, &s, c, c);
  }
  if (p->fold) set_fold(p, &s);
  return set_node(p, N_SET, false, &s, out);
}

static bool take_number(Parser *p, int64_t *out) {
  int64_t v = 0, from = p->at;
  for (; more(p) && p->all.p[p->at] >= '0' && p->all.p[p->at] <= '9'; p->at++)
    v = MIN(v * 10 + (p->all.p[p->at] - '0'), 1000000);
  *out = v;
  return p->at > from;
}

// The repetition behind an atom; false: none.
static tenon_status parse_count(Parser *p, RxNode *r, bool *out_there) {
  *out_there = true;
  if (take(p, "*")) return r->least = 0, r->most = -1, TENON_OK;
  if (take(p, "+")) return r->least = 1, r->most = -1, TENON_OK;
  if (take(p, "?")) return r->least = 0, r->most = 1, TENON_OK;
  if (!take(p, "{")) return *out_there = false, TENON_OK;
  bool low = take_number(p, &r->least);
  r->most = r->least;
  if (take(p, ",") && !take_number(p, &r->most)) r->most = -1;
  if (!take(p, "}") || (!low && r->most < 0) || (r->most >= 0 && r->most < r->least))
    return refuse(p, TENON_EFORMAT, "a bad repetition");
  if (MAX(r->least, r->most) > LIMIT_TOKENIZER_REGEX_REPEAT)
    return refuse(p, TENON_EUNSUPPORTED, "a repetition is too large");
  return TENON_OK;
}

static tenon_status parse_repeat(Parser *p, RxNode **out) {
  TRY(parse_atom(p, out));
  for (int times = 0;; times++) {
    RxNode *r = node(p, N_REPEAT);
    bool there;
    TRY(parse_count(p, r, &there));
    if (!there) return TENON_OK;
    if (times == 4) return refuse(p, TENON_EUNSUPPORTED, "repetitions of repetitions");
    r->a = *out;
    r->lazy = take(p, "?");
    r->possessive = !r->lazy && take(p, "+");
    if (r->possessive && r->a->kind != N_SET)
      return refuse(p, TENON_EUNSUPPORTED,
                    "a possessive repetition of more than one character is not supported");
    *out = r;
  }
}

// Parts that follow one another, up to '|', ')' or the end.
static tenon_status parse_line(Parser *p, RxNode **out) {
  RxNode *line = node(p, N_CAT), *last = NULL;
  *out = line;
  while (more(p) && !sees(p, "|") && !sees(p, ")")) {
    RxNode *one;
    TRY(parse_repeat(p, &one));
    if (last)
      last->next = one;
    else
      line->a = one;
    last = one;
  }
  if (line->a && !line->a->next) *out = last;
  return TENON_OK;
}

static tenon_status parse_alternatives(Parser *p, RxNode **out) {
  bool fold = p->fold;
  RxNode *all = node(p, N_ALT), *last = NULL;
  do {
    RxNode *wrap = node(p, N_CAT), *line;
    TRY(parse_line(p, &line));
    wrap->a = line;
    if (last)
      last->next = wrap;
    else
      all->a = wrap;
    last = wrap;
  } while (take(p, "|"));
  p->fold = fold;
  *out = all;
  return TENON_OK;
}

// ---- writing the program ----
static tenon_status put(Parser *p, PatternOp op, int64_t x, int64_t y) {
  if (p->program.n == p->most) return refuse(p, TENON_EUNSUPPORTED, "the expression is too large");
  vec_push(p->arena, &p->program, ((PatternInst){op, (int32_t)x, (int32_t)y}));
  return TENON_OK;
}

static tenon_status emit(Parser *p, const RxNode *n);

// A split to `into` and `out`, in the order that laziness gives.
static void patch(Parser *p, int64_t at, bool lazy, int64_t into, int64_t out) {
  p->program.v[at].x = (int32_t)(lazy ? out : into);
  p->program.v[at].y = (int32_t)(lazy ? into : out);
}

static tenon_status emit_exit(Parser *p, const RxNode *n) {
  return n->possessive ? put(p, RX_LOOK, n->a->set, 1) : TENON_OK;
}

// (X (X (X)?)?)?: each further copy may be left out, with all behind it.
static tenon_status emit_optional(Parser *p, const RxNode *n, int64_t copies) {
  VEC(int64_t) split = {0};
  for (int64_t i = 0; i < copies; i++) {
    vec_push(p->arena, &split, p->program.n);
    TRY(put(p, RX_SPLIT, 0, 0));
    TRY(emit(p, n->a));
  }
  int64_t over = p->program.n;  // a full repetition does not look ahead
  if (n->possessive) TRY(put(p, RX_JUMP, 0, 0));
  int64_t out = p->program.n;
  TRY(emit_exit(p, n));
  if (n->possessive) p->program.v[over].x = (int32_t)p->program.n;
  for (int64_t i = 0; i < copies; i++) patch(p, split.v[i], n->lazy, split.v[i] + 1, out);
  return TENON_OK;
}

static tenon_status emit_repeat(Parser *p, const RxNode *n) {
  for (int64_t i = 0; i < n->least; i++) TRY(emit(p, n->a));
  if (n->most >= 0) return emit_optional(p, n, n->most - n->least);
  int64_t loop = p->program.n;
  TRY(put(p, RX_SPLIT, 0, 0));
  TRY(emit(p, n->a));
  TRY(put(p, RX_JUMP, loop, 0));
  patch(p, loop, n->lazy, loop + 1, p->program.n);
  return emit_exit(p, n);
}

static tenon_status emit_alternatives(Parser *p, const RxNode *n) {
  VEC(int64_t) jump = {0};
  for (const RxNode *part = n->a; part; part = part->next) {
    int64_t split = p->program.n;
    if (part->next) TRY(put(p, RX_SPLIT, split + 1, 0));
    TRY(emit(p, part));
    if (!part->next) break;
    vec_push(p->arena, &jump, p->program.n);
    TRY(put(p, RX_JUMP, 0, 0));
    p->program.v[split].y = (int32_t)p->program.n;
  }
  for (int64_t i = 0; i < jump.n; i++) p->program.v[jump.v[i]].x = (int32_t)p->program.n;
  return TENON_OK;
}

static tenon_status emit(Parser *p, const RxNode *n) {
  switch (n->kind) {
  case N_EMPTY: return TENON_OK;
  case N_SET: return put(p, RX_SET, n->set, 0);
  case N_LOOK: return put(p, RX_LOOK, n->set, n->not );
  case N_REPEAT: return emit_repeat(p, n);
  case N_CAT:
    for (const RxNode *part = n->a; part; part = part->next) TRY(emit(p, part));
    return TENON_OK;
  case N_ALT: return emit_alternatives(p, n);
  }
  return TENON_OK;
}

tenon_status pattern_compile(Str pattern, Arena *a, Diag *d, const Pattern **out) {
  Parser p = {.arena = a, .diag = d, .all = pattern, .most = LIMIT_TOKENIZER_REGEX_PROGRAM};
  RxNode *root;
  *out = NULL;
  if (pattern.n > LIMIT_TOKENIZER_REGEX_BYTES || !str_is_utf8(pattern))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "a regular expression of %lld bytes, or one that is not UTF-8",
                (long long)pattern.n);
  TRY(parse_alternatives(&p, &root));
  if (p.at < pattern.n) return refuse(&p, TENON_EFORMAT, "a ')' without '('");
  TRY(emit(&p, root));
  TRY(put(&p, RX_MATCH, 0, 0));
  return pattern_build(&p.program, &p.sets, pattern, a, d, out);
}
