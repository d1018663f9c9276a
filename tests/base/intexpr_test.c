// intexpr_test.c -- integer expressions: identities, and every simplification against plain
// evaluation.
//
// Random trees are built twice, as an IntExpr and as the tree itself, and compared on random
// bindings within the symbols' ranges.  A binding at which the tree divides by 0, or broadcasts
// sizes that do not agree, has no value and is left out.
#include "base/intexpr.h"
#include "test.h"

#include <stdlib.h>

// ---- helpers ----
typedef struct Fixture {
  Arena arena;
  IntPool pool;
} Fixture;

static void fixture_init(Fixture *f) {
  arena_init(&f->arena);
  intpool_init(&f->pool, &f->arena);
}

static const char *text_of(IntPool *p, Dim e) {
  StrBuf b;
  strbuf_init(&b, p->arena);
  ie_print(&b, e);
  return strbuf_text(&b);
}

// The expression of the whole text, or NULL.
static Dim parse_n(IntPool *p, const char *text, int64_t n) {
  const char *at = text;
  Dim e = ie_parse(p, &at, text + n);
  return at == text + n ? e : NULL;
}

static Dim parse(IntPool *p, const char *text) { return parse_n(p, text, (int64_t)strlen(text)); }

static uint64_t rng_state;

static int64_t rnd(int64_t n) {
  rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((rng_state >> 33) % (uint64_t)n);
}

// Parses both sides and wants one pointer.
static void expect_same(IntPool *p, const char *a, const char *b) {
  Dim x = parse(p, a), y = parse(p, b);
  if (!x || !y) FAIL("cannot parse '%s' or '%s'", a, b);
  if (x && y && x != y) FAIL("'%s' is %s, '%s' is %s", a, text_of(p, x), b, text_of(p, y));
}

static void expect_text(IntPool *p, const char *in, const char *out) {
  Dim e = parse(p, in);
  if (!e)
    FAIL("cannot parse '%s'", in);
  else
    EXPECT_STR_EQ(text_of(p, e), out);
}

// ---- identities ----
TEST(intexpr_polynomials) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  expect_same(p, "a + b", "b + a");
  expect_same(p, "(a + b)*(a - b)", "a*a - b*b");
  expect_same(p, "(a + b)*(a + b)", "a*a + 2*a*b + b*b");
  expect_same(p, "a - a", "0");
  expect_same(p, "3*(a + 2) - 6 - 3*a", "0");
  expect_same(p, "2*a - a", "a");
  expect_same(p, "0*a + 5", "5");
  expect_same(p, "-(a - b)", "b - a");
  expect_text(p, "1 + 2*seq", "2*seq + 1");
  expect_text(p, "seq - 1", "seq - 1");
  expect_text(p, "3 - 2*a", "-2*a + 3");
  expect_text(p, "b*a*b", "a*b*b");
  expect_text(p, "-a", "-a");
  EXPECT(ie_add(p, parse(p, "a"), p->zero) == parse(p, "a"));
  EXPECT(parse(p, "a")->kind == IE_SYM);
  EXPECT(parse(p, "2*a")->kind == IE_SUM);
  arena_deinit(&f.arena);
}

TEST(intexpr_division) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  expect_same(p, "floor(7/2)", "3");
  expect_same(p, "floor(-7/2)", "-4");
  expect_same(p, "floor(7/-2)", "-4");
  expect_same(p, "mod(-7, 2)", "1");
  expect_same(p, "mod(7, -2)", "-1");
  expect_same(p, "floor((a*b*c)/(b))", "a*c");
  expect_same(p, "floor((6*a*b + 4*b)/(2*b))", "3*a + 2");
  expect_same(p, "floor((768*b*(p + s))/(12*b*(p + s)))", "64");
  expect_same(p, "floor((768*b*(p + s)*(q + 1))/(12*b*(p + s)))", "64*q + 64");
  expect_same(p, "mod(b*(p + s), p + s)", "0");
  expect_same(p, "floor((4*a + 3)/4)", "a");
  expect_same(p, "floor((2*a + b)/2)", "a + floor(b/2)");
  expect_same(p, "floor((h - 1)/2) + 1", "floor((h + 1)/2)");
  expect_same(p, "floor(floor(h/2)/3)", "floor(h/6)");
  expect_same(p, "floor((floor((h + 1)/2) + 1)/2)", "floor((h + 3)/4)");
  expect_same(p, "floor((2*a)/4)", "floor(a/2)");
  expect_same(p, "floor((a*n)/(b*n))", "floor(a/b)");
  expect_same(p, "floor(a/-2)", "floor((-a)/2)");
  expect_same(p, "floor(a/-1)", "-a");
  expect_same(p, "mod(4*a + 3, 4)", "3");
  expect_same(p, "mod(5*a + 7, 5)", "mod(2, 5)");
  expect_same(p, "mod(mod(a, 4), 8)", "mod(a, 4)");
  expect_same(p, "mod(2*a + 1, 4)", "2*mod(a, 2) + 1");
  expect_same(p, "mod(a*n + b, n)", "mod(b, n)");
  expect_same(p, "floor(mod(a, 4)/4)", "0");
  expect_text(p, "floor((h + 2)/2)", "floor(h/2) + 1");
  expect_text(p, "floor((h + 1)/2)", "floor((h + 1)/2)");
  expect_text(p, "floor((2*h)/3)", "floor((2*h)/3)");
  expect_text(p, "floor(h/(a + b))", "floor(h/(a + b))");
  EXPECT(ie_is_poison(parse(p, "floor(a/0)")));
  EXPECT(ie_is_poison(parse(p, "mod(a, 0)")));
  Dim h = parse(p, "h"), n = ie_sym(p, STR("n1"), 1, INT64_MAX);
  EXPECT(ie_ceildiv(p, h, ie_const(p, 4)) == parse(p, "floor((h + 3)/4)"));
  EXPECT(ie_ceildiv(p, ie_mul(p, h, n), n) == h);
  EXPECT(ie_is(ie_ceildiv(p, ie_const(p, 7), ie_const(p, -2)), -3));
  EXPECT(ie_div(p, ie_addc(p, n, -1), n) == p->zero);
  EXPECT(ie_mod(p, ie_addc(p, n, -1), n) == ie_addc(p, n, -1));
  arena_deinit(&f.arena);
}

TEST(intexpr_min_max_bcast) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  expect_same(p, "min(a, b)", "min(b, a)");
  expect_same(p, "max(a, a)", "a");
  expect_same(p, "min(a, a + 1)", "a");
  expect_same(p, "max(a, a + 1)", "a + 1");
  expect_same(p, "max(0, a)", "a");
  expect_same(p, "min(3, 5)", "3");
  expect_same(p, "min(min(a, b), c)", "min(a, min(c, b))");
  expect_same(p, "max(a, max(a, b))", "max(a, b)");
  expect_same(p, "min(-9223372036854775808, 9223372036854775807)", "-9223372036854775808");
  expect_same(p, "bcast(a, a)", "a");
  expect_same(p, "bcast(1, a)", "a");
  expect_same(p, "bcast(a, 1)", "a");
  expect_same(p, "bcast(a, 3)", "3");
  expect_same(p, "bcast(3, a)", "3");
  expect_same(p, "bcast(a, b)", "bcast(b, a)");
  expect_same(p, "bcast(a, bcast(a, b))", "bcast(a, b)");
  expect_same(p, "bcast(bcast(b, a), b)", "bcast(a, b)");
  expect_same(p, "bcast(bcast(c, a), b)", "bcast(c, bcast(b, a))");
  expect_same(p, "bcast(min(512, a), a)", "a");
  expect_same(p, "bcast(min(a, b), bcast(a, c))", "bcast(min(a, b), bcast(a, c))");
  expect_same(p, "bcast(a + 2, b)", "a + 2");
  expect_same(p, "bcast(b, 2*floor((a + 31)/32))", "2*floor((a + 31)/32)");  // even, so not 1
  expect_same(p, "bcast(3*a + 1, b)", "bcast(b, 3*a + 1)");
  arena_deinit(&f.arena);
}

TEST(intexpr_answers) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  Dim a = parse(p, "a"), b = parse(p, "b");
  EXPECT_INT_EQ(ie_eq(p, a, a), YES);
  EXPECT_INT_EQ(ie_eq(p, a, b), UNKNOWN);
  EXPECT_INT_EQ(ie_eq(p, a, ie_addc(p, a, 1)), NO);
  EXPECT_INT_EQ(ie_eq(p, a, ie_const(p, -1)), NO);
  EXPECT_INT_EQ(ie_eq(p, ie_mulc(p, a, 2), parse(p, "4*b + 1")), NO);
  EXPECT_INT_EQ(ie_eq(p, ie_const(p, 3), ie_const(p, 4)), NO);
  EXPECT_INT_EQ(ie_eq(p, p->poison, p->poison), UNKNOWN);
  EXPECT_INT_EQ(ie_lt(p, a, ie_addc(p, a, 1)), YES);
  EXPECT_INT_EQ(ie_lt(p, ie_addc(p, a, 1), a), NO);
  EXPECT_INT_EQ(ie_lt(p, a, a), NO);
  EXPECT_INT_EQ(ie_lt(p, a, b), UNKNOWN);
  EXPECT_INT_EQ(ie_lt(p, ie_const(p, INT64_MIN), ie_const(p, INT64_MAX)), YES);
  EXPECT_INT_EQ(ie_lt(p, parse(p, "mod(a, 7)"), ie_const(p, 7)), YES);
  Dim fresh = ie_fresh(p, "nonzero");
  EXPECT(ie_has_fresh(fresh));
  EXPECT(ie_has_fresh(ie_min(p, a, ie_mul(p, b, fresh))));
  EXPECT(!ie_has_fresh(ie_add(p, a, b)));
  arena_deinit(&f.arena);
}

TEST(intexpr_symbols) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  Dim a = ie_sym(p, STR("a"), 1, 10);
  EXPECT(ie_sym(p, STR("a"), 0, 5) == a);
  EXPECT_INT_EQ(a->lo, 1);
  EXPECT_INT_EQ(a->hi, 10);
  EXPECT(p->sym.v[a->slot] == a);
  Dim x = ie_fresh(p, "nz"), y = ie_fresh(p, "nz");
  EXPECT(x != y);
  EXPECT_STR_EQ(x->name, "nz_0");
  EXPECT_STR_EQ(text_of(p, y), "?nz_1");
  EXPECT(ie_sym(p, STR("nz_0"), 0, 5) != x);
  EXPECT(ie_sym(p, STR("?nz_0"), 0, 5) != x);
  EXPECT(ie_sym(p, STR("?nz_0"), 0, 5) == ie_sym(p, STR("?nz_0"), 0, 5));
  EXPECT(parse(p, "?nz_0") == x);
  Dim read = parse(p, "?nz_7");
  REQUIRE(read);
  EXPECT(read->fresh);
  for (int i = 0; i < 20; i++) EXPECT(ie_fresh(p, "nz") != read);
  EXPECT(parse(p, "?nz_999999999999999999999")->fresh);
  EXPECT(ie_fresh(p, "9 a-b/\x01")->fresh);
  Dim empty = ie_fresh(p, "");
  EXPECT(parse(p, text_of(p, empty)) == empty);
  static char name[100000];
  memset(name, 'n', sizeof name);
  EXPECT(ie_is_poison(ie_sym(p, (Str){name, sizeof name}, 0, 1)));
  arena_deinit(&f.arena);
}

// ---- limits ----
TEST(intexpr_overflow_is_poison) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  Dim big = ie_const(p, INT64_MAX), small = ie_const(p, INT64_MIN), a = parse(p, "a");
  EXPECT(ie_is_poison(ie_add(p, big, p->one)));
  EXPECT(ie_is_poison(ie_sub(p, p->zero, small)));
  EXPECT(ie_is_poison(ie_mul(p, big, ie_const(p, 2))));
  EXPECT(ie_is_poison(ie_mulc(p, ie_mul(p, a, big), 2)));
  EXPECT(ie_is_poison(ie_div(p, small, ie_const(p, -1))));
  EXPECT(ie_is(ie_mod(p, small, ie_const(p, -1)), 0));
  EXPECT(ie_is_poison(ie_add(p, p->poison, a)));
  EXPECT(ie_is_poison(ie_mul(p, p->zero, p->poison)));
  EXPECT(ie_is_poison(ie_min(p, a, p->poison)));
  EXPECT(ie_is_poison(ie_bcast(p, p->poison, p->one)));
  Dim low = ie_mul(p, a, small);
  EXPECT(!ie_is_poison(ie_div(p, low, ie_const(p, -3))));
  EXPECT(!ie_is_poison(ie_mod(p, a, small)));
  int64_t v, bind = INT64_MAX;
  bool bound = true;
  EXPECT(!ie_eval(ie_addc(p, a, 1), &bind, &bound, 1, &v));
  EXPECT(ie_eval(parse(p, "a + 1 - 2"), &bind, &bound, 1, &v) && v == INT64_MAX - 1);
  EXPECT(!ie_eval(parse(p, "a*a"), &bind, &bound, 1, &v));
  EXPECT(!ie_eval(parse(p, "unbound"), &bind, &bound, 1, &v));
  EXPECT(!ie_eval(p->poison, &bind, &bound, 1, &v));
  bind = 0;
  EXPECT(!ie_eval(parse(p, "floor(1/a)"), &bind, &bound, 1, &v));
  bound = false;
  EXPECT(!ie_eval(a, &bind, &bound, 1, &v));
  arena_deinit(&f.arena);
}

// Depth, size, terms and factors are bounded; what is within the bounds prints and parses back.
TEST(intexpr_limits) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  Dim a = parse(p, "a"), deep = a, last = a, wide = p->zero, power = a, twice = a;
  for (int i = 0; i < 1000 && !ie_is_poison(deep); i++) {
    last = deep;
    deep = ie_div(p, ie_addc(p, ie_mulc(p, deep, 2), 1), ie_addc(p, a, 3));
  }
  EXPECT(ie_is_poison(deep));
  EXPECT(last->depth > 100);
  EXPECT(parse(p, text_of(p, last)) == last);
  for (int i = 0; i < 300; i++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    wide = ie_add(p, wide, parse(p, name));
    if (i < 256) EXPECT(!ie_is_poison(wide));
    if (i == 255) EXPECT(parse(p, text_of(p, wide)) == wide);
  }
  EXPECT(ie_is_poison(wide));
  for (int i = 0; i < 40; i++) power = ie_mul(p, power, a);
  EXPECT(ie_is_poison(power));
  // Shared nodes: a tree of 2^60 that must not be walked.
  for (int i = 0; i < 60; i++)
    twice = ie_min(p, ie_mod(p, twice, parse(p, "b")), ie_div(p, twice, parse(p, "c")));
  EXPECT(ie_is_poison(twice));
  arena_deinit(&f.arena);
}

// ---- random trees ----
enum { NSYMS = 6 };
typedef enum {
  T_CONST,
  T_SYM,
  T_ADD,
  T_SUB,
  T_MUL,
  T_DIV,
  T_CEIL,
  T_MOD,
  T_MIN,
  T_MAX,
  T_BCAST
} TreeOp;
typedef struct Tree {
  TreeOp op;
  int64_t value;  // constant, or number of the symbol
  struct Tree *a, *b;
} Tree;
static const struct {
  const char *name;
  int64_t lo, hi;
} sym_table[NSYMS] = {{"n", 0, INT64_MAX}, {"m", 1, INT64_MAX}, {"k", 0, 7},
                      {"z", -6, 6},        {"w", 2, 9},         {"neg", -9, -1}};

static Tree *random_tree(Arena *arena, int depth) {
  Tree *t = arena_new(arena, Tree);
  if (depth == 0 || rnd(6) == 0) {
    t->op = rnd(3) ? T_SYM : T_CONST;
    t->value = t->op == T_SYM ? rnd(NSYMS) : rnd(3) ? rnd(5) : rnd(41) - 20;
    return t;
  }
  t->op = rnd(2) ? T_ADD + (TreeOp)rnd(3) : T_DIV + (TreeOp)rnd(6);
  t->a = random_tree(arena, depth - 1);
  t->b = random_tree(arena, depth - 1);
  return t;
}

// With `mirror`, the operands of commutative operations change places at random.
static Dim build(IntPool *p, const Tree *t, bool mirror) {
  if (t->op == T_CONST) return ie_const(p, t->value);
  if (t->op == T_SYM) {
    int64_t i = t->value;
    return ie_sym(p, str_of(sym_table[i].name), sym_table[i].lo, sym_table[i].hi);
  }
  Dim a, b;
  bool swap = mirror && rnd(2);
  if (swap) {
    b = build(p, t->b, mirror);
    a = build(p, t->a, mirror);
  } else {
    a = build(p, t->a, mirror);
    b = build(p, t->b, mirror);
  }
  switch (t->op) {
  case T_CONST:
  case T_SYM: break;
  case T_ADD: return swap ? ie_add(p, b, a) : ie_add(p, a, b);
  case T_SUB: return swap ? ie_mulc(p, ie_sub(p, b, a), -1) : ie_sub(p, a, b);
  case T_MUL: return swap ? ie_mul(p, b, a) : ie_mul(p, a, b);
  case T_DIV: return ie_div(p, a, b);
  case T_CEIL: return ie_ceildiv(p, a, b);
  case T_MOD: return ie_mod(p, a, b);
  case T_MIN: return swap ? ie_min(p, b, a) : ie_min(p, a, b);
  case T_MAX: return swap ? ie_max(p, b, a) : ie_max(p, a, b);
  case T_BCAST: return ie_bcast(p, a, b);
  }
  return p->poison;
}

// Values stay below 2^40 in magnitude, else the tree counts as having none.
static bool tree_value(const Tree *t, const int64_t *bind, int64_t *out) {
  int64_t a, b, q, r;
  *out = t->op == T_CONST ? t->value : t->op == T_SYM ? bind[t->value] : 0;
  if (t->op <= T_SYM) return true;
  if (!tree_value(t->a, bind, &a) || !tree_value(t->b, bind, &b)) return false;
  switch (t->op) {
  case T_CONST:
  case T_SYM: break;
  case T_ADD: *out = a + b; break;
  case T_SUB: *out = a - b; break;
  case T_MUL:
    if (!ck_mul(a, b, out)) return false;
    break;
  case T_DIV:
  case T_CEIL:
  case T_MOD:
    if (b == 0) return false;
    q = a / b;
    r = a % b;
    if (t->op == T_MOD) *out = r && (r < 0) != (b < 0) ? r + b : r;
    if (t->op == T_DIV) *out = q - (r && (r < 0) != (b < 0));
    if (t->op == T_CEIL) *out = q + (r && (r < 0) == (b < 0));
    break;
  case T_MIN: *out = MIN(a, b); break;
  case T_MAX: *out = MAX(a, b); break;
  case T_BCAST:
    if (a != b && a != 1 && b != 1) return false;
    *out = a == 1 ? b : a;
    break;
  }
  return *out > -((int64_t)1 << 40) && *out < (int64_t)1 << 40;
}

static void random_binding(int64_t *bind) {
  for (int i = 0; i < NSYMS; i++) {
    int64_t lo = sym_table[i].lo, hi = MIN(sym_table[i].hi, lo + 12);
    bind[i] = lo + rnd(hi - lo + 1);
  }
}

// By the pool's slots instead of the table's.
static bool dim_value(IntPool *p, Dim e, const int64_t *bind, int64_t *out) {
  int64_t at[NSYMS] = {0};
  bool bound[NSYMS] = {0};
  for (int i = 0; i < NSYMS; i++) {
    Dim s = ie_sym(p, str_of(sym_table[i].name), sym_table[i].lo, sym_table[i].hi);
    at[s->slot] = bind[i];
    bound[s->slot] = true;
  }
  return ie_eval(e, at, bound, NSYMS, out);
}

static void make_symbols(IntPool *p, bool backwards) {
  for (int i = 0; i < NSYMS; i++) {
    int j = backwards ? NSYMS - 1 - i : i;
    ie_sym(p, str_of(sym_table[j].name), sym_table[j].lo, sym_table[j].hi);
  }
}

TEST(intexpr_simplification_keeps_values) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  make_symbols(p, false);
  rng_state = 1;
  int64_t checked = 0, lost = 0, bad = 0;
  for (int i = 0; i < 30000 && bad < 5; i++) {
    Tree *t = random_tree(p->arena, 1 + i % 5);
    Dim e = build(p, t, false);
    for (int j = 0; j < 30 && !ie_is_poison(e); j++) {
      int64_t bind[NSYMS], want, got;
      random_binding(bind);
      if (!tree_value(t, bind, &want)) continue;
      if (!dim_value(p, e, bind, &got)) {
        lost++;
        continue;
      }
      checked++;
      if (got == want && want >= e->lo && want <= e->hi) continue;
      bad++;
      FAIL("%s in [%" PRId64 ", %" PRId64 "]: %" PRId64 " instead of %" PRId64 " at n=%" PRId64
           " m=%" PRId64 " k=%" PRId64 " z=%" PRId64 " w=%" PRId64 " neg=%" PRId64,
           text_of(p, e), e->lo, e->hi, got, want, bind[0], bind[1], bind[2], bind[3], bind[4],
           bind[5]);
      break;
    }
  }
  EXPECT(checked > 300000);
  EXPECT(lost * 1000 < checked);  // a polynomial's terms may leave int64 where the tree did not
  arena_deinit(&f.arena);
}

// Small divisions over all values of two bounded symbols.
TEST(intexpr_division_exhaustive) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  Dim x = ie_sym(p, STR("x"), -8, 8), y = ie_sym(p, STR("y"), -8, 8);
  for (int64_t c = -7; c <= 7; c++)
    for (int64_t d = -5; d <= 5; d++)
      for (int64_t k = -6; k <= 6; k++) {
        if (k == 0) continue;
        Dim a = ie_addc(p, ie_add(p, ie_mulc(p, x, c), ie_mulc(p, y, d)), c - d);
        Dim div = ie_div(p, a, ie_const(p, k)), mod = ie_mod(p, a, ie_const(p, k));
        Dim all = ie_add(p, ie_mulc(p, div, k), mod);
        for (int64_t u = -8; u <= 8; u += 1 + (c & 1))
          for (int64_t v = -8; v <= 8; v++) {
            int64_t bind[2] = {u, v}, q, r = 0, s, want = c * u + d * v + c - d;
            bool bound[2] = {true, true};
            bool known = ie_eval(div, bind, bound, 2, &q) && ie_eval(mod, bind, bound, 2, &r) &&
                         ie_eval(all, bind, bound, 2, &s);
            bool sign = r == 0 || (r < 0) == (k < 0);
            if (known && q * k + r == want && s == want && sign && llabs(r) < llabs(k)) continue;
            FAIL("(%s)/%" PRId64 " at %" PRId64 ", %" PRId64, text_of(p, a), k, u, v);
            u = v = 9;
          }
      }
  arena_deinit(&f.arena);
}

TEST(intexpr_answers_hold) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  make_symbols(p, false);
  rng_state = 2;
  int64_t decided = 0, bad = 0;
  for (int i = 0; i < 20000 && bad < 5; i++) {
    Tree *t = random_tree(p->arena, 1 + i % 3), *u = random_tree(p->arena, 1 + i % 2);
    Dim x = build(p, t, false), y = build(p, u, false);
    Answer eq = ie_eq(p, x, y), lt = ie_lt(p, x, y);
    decided += eq != UNKNOWN || lt != UNKNOWN;
    for (int j = 0; j < 20; j++) {
      int64_t bind[NSYMS], a, b;
      random_binding(bind);
      if (!tree_value(t, bind, &a) || !tree_value(u, bind, &b)) continue;
      bool wrong = eq != UNKNOWN && (eq == YES) != (a == b);
      wrong |= lt != UNKNOWN && (lt == YES) != (a < b);
      if (!wrong) continue;
      bad++;
      FAIL("%s against %s: %" PRId64 ", %" PRId64, text_of(p, x), text_of(p, y), a, b);
      break;
    }
  }
  EXPECT(decided > 1000);
  arena_deinit(&f.arena);
}

// However it is put together, one polynomial over the same atoms is one pointer.
TEST(intexpr_canonical) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  make_symbols(p, false);
  rng_state = 3;
  for (int i = 0; i < 5000; i++) {
    Tree *t = random_tree(p->arena, 1 + i % 5);
    Dim e = build(p, t, false), twin = build(p, t, true);
    if (e != twin) FAIL("%s, mirrored %s", text_of(p, e), text_of(p, twin));
  }
  for (int i = 0; i < 5000; i++) {
    Dim v[8], x = p->zero, y = p->zero, c = build(p, random_tree(p->arena, 2), false);
    for (int j = 0; j < 8; j++) v[j] = build(p, random_tree(p->arena, 2), false);
    if (ie_is_poison(c)) continue;
    for (int j = 0; j < 8; j++) x = ie_add(p, x, v[j]);
    Dim each = p->zero;
    for (int j = 7; j >= 0; j--) {
      int64_t at = rnd(j + 1);
      y = ie_add(p, v[at], y);
      each = ie_add(p, ie_mul(p, c, v[at]), each);
      Dim t = v[at];
      v[at] = v[j];
      v[j] = t;
    }
    EXPECT(x == y);
    EXPECT(ie_sum(p, v, 8) == x);
    EXPECT(ie_is_poison(each) || ie_mul(p, x, c) == each);
    EXPECT(ie_is_poison(x) || ie_sub(p, ie_add(p, x, c), c) == x);
    EXPECT(ie_is_poison(x) || ie_sub(p, x, x) == p->zero);
    EXPECT(ie_is_poison(each) || c == p->zero || ie_div(p, each, c) == x);
  }
  arena_deinit(&f.arena);
}

TEST(intexpr_canonical_sets) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  rng_state = 4;
  Dim (*const op[])(IntPool *, Dim, Dim) = {ie_min, ie_max, ie_bcast};
  for (int i = 0; i < 1000; i++) {
    Dim x = NULL, y = NULL, v[6];
    for (int j = 0; j < 6; j++) {
      char name[2] = {(char)('a' + rnd(8)), 0};
      v[j] = parse(p, name);
    }
    for (int j = 0; j < 6; j++) x = x ? op[i % 3](p, x, v[j]) : v[j];
    for (int j = 5; j >= 0; j--) {
      int64_t at = rnd(j + 1);
      y = y ? op[i % 3](p, v[at], y) : v[at];
      v[at] = v[j];
    }
    EXPECT(x == y);
  }
  arena_deinit(&f.arena);
}

// ---- text ----
TEST(intexpr_round_trip) {
  Fixture f, g;
  fixture_init(&f);
  fixture_init(&g);
  make_symbols(&f.pool, false);
  make_symbols(&g.pool, true);
  rng_state = 5;
  for (int i = 0; i < 20000; i++) {
    Tree *t = random_tree(&f.arena, 1 + i % 5);
    Dim e = build(&f.pool, t, false), other = build(&g.pool, t, true);
    const char *text = text_of(&f.pool, e);
    Dim back = parse(&f.pool, text);
    if (back != e) FAIL("%s comes back as %s", text, back ? text_of(&f.pool, back) : "nothing");
    EXPECT_STR_EQ(text_of(&g.pool, other), text);
  }
  arena_deinit(&f.arena);
  arena_deinit(&g.arena);
}

TEST(intexpr_names) {
  Fixture f;
  fixture_init(&f);
  IntPool *p = &f.pool;
  static const struct {
    Str name;
    const char *text;
  } rows[] = {
      {{"batch", 5}, "batch"},
      {{"a.b_1", 5}, "a.b_1"},
      {{"_", 1}, "_"},
      {{"", 0}, "''"},
      {{"1x", 2}, "'1x'"},
      {{"a b", 3}, "'a b'"},
      {{"floor", 5}, "'floor'"},
      {{"mod", 3}, "'mod'"},
      {{"min", 3}, "'min'"},
      {{"max", 3}, "'max'"},
      {{"bcast", 5}, "'bcast'"},
      {{"it's", 4}, "'it\\'s'"},
      {{"\\", 1}, "'\\\\'"},
      {{"a\0b", 3}, "'a\\x00b'"},
      {{"\n\x7f", 2}, "'\\x0a\\x7f'"},
      {{"?x_1", 4}, "'?x_1'"},
      {{"poison", 6}, "poison"},
      {{"!poison", 7}, "'!poison'"},
      {{"\xc3\xa9", 2}, "'\xc3\xa9'"},
      {{"\xc3(", 2}, "'\\xc3('"},
      {{"a->b", 4}, "'a->b'"},
  };
  for (int i = 0; i < ARRAY_LEN(rows); i++) {
    Dim e = ie_sym(p, rows[i].name, 0, INT64_MAX);
    EXPECT_STR_EQ(text_of(p, e), rows[i].text);
    EXPECT(parse(p, rows[i].text) == e);
    Dim twice = ie_addc(p, ie_mulc(p, e, 2), 1);
    EXPECT(parse(p, text_of(p, twice)) == twice);
  }
  EXPECT(parse(p, "!poison") == p->poison);
  static const int64_t values[] = {0, 1, -1, 42, INT64_MAX, INT64_MIN};
  for (int i = 0; i < ARRAY_LEN(values); i++) {
    Dim c = ie_const(p, values[i]), a = ie_sym(p, STR("batch"), 0, INT64_MAX);
    Dim sum = ie_add(p, ie_mul(p, a, c), ie_add(p, ie_sym(p, STR("c"), 0, 9), c));
    EXPECT(parse(p, text_of(p, c)) == c);
    EXPECT(parse(p, text_of(p, sum)) == sum);
    Dim div = ie_div(p, c, ie_addc(p, a, 3));
    EXPECT(parse(p, text_of(p, div)) == div);
  }
  arena_deinit(&f.arena);
}

TEST(intexpr_parse_stops) {
  Fixture f;
  fixture_init(&f);
  const char *text = "2*a + 1 ]", *at = text;
  EXPECT(ie_parse(&f.pool, &at, text + strlen(text)) != NULL);
  EXPECT_STR_EQ(at, " ]");
  at = text = "a -> b";
  EXPECT(ie_parse(&f.pool, &at, text + strlen(text)) == parse(&f.pool, "a"));
  EXPECT_STR_EQ(at, " -> b");
  at = text = "a + )";
  EXPECT(ie_parse(&f.pool, &at, text + strlen(text)) == NULL);
  EXPECT_STR_EQ(at, ")");
  at = text = "abc";
  EXPECT(ie_parse(&f.pool, &at, text + 2) == parse(&f.pool, "ab"));
  arena_deinit(&f.arena);
}

TEST(intexpr_parse_rejects) {
  Fixture f;
  fixture_init(&f);
  static const char *const bad[] = {"",
                                    " ",
                                    "+a",
                                    "a +",
                                    "a b",
                                    "a ** b",
                                    "2a",
                                    "(a",
                                    "a)",
                                    "()",
                                    "a - - b",
                                    "a*-b",
                                    "floor",
                                    "floor(a)",
                                    "min(a)",
                                    "max(a,)",
                                    "mod(,a)",
                                    "bcast(a b)",
                                    "floor(a/b",
                                    "floor(a + b/2)",
                                    "floor(a/b/c)",
                                    "'a",
                                    "'a\\",
                                    "'\\x1'",
                                    "'\\xgg'",
                                    "'\\n'",
                                    "'\n'",
                                    "?",
                                    "?1",
                                    "? a",
                                    "!",
                                    "!bad",
                                    "min (a, b) c",
                                    "9223372036854775808",
                                    "a/b",
                                    "--1",
                                    "\"a\"",
                                    "a, b",
                                    "99999999999999999999999",
                                    "\x80",
                                    "\x01",
                                    "a + 'b",
                                    "a->b"};
  for (int i = 0; i < ARRAY_LEN(bad); i++)
    if (parse(&f.pool, bad[i])) FAIL("accepts '%s'", bad[i]);
  EXPECT(parse_n(&f.pool, "a\0b", 3) == NULL);
  EXPECT(parse_n(&f.pool, "a\0", 2) == NULL);
  arena_deinit(&f.arena);
}

static void fill(char *text, int64_t n, const char *part) {
  for (int64_t i = 0; i < n; i++) text[i] = part[i % (int64_t)strlen(part)];
}

// Long and deep text ends soon, with or without an expression.
TEST(intexpr_parse_hostile) {
  static const char *const part[] = {"(",  "-",      "((a)+", "min(",   "floor(", "floor((a+1)/",
                                     "a+", "a*",     "'",     "9",      "a",      "?",
                                     "\\", "max(a,", "a*b+",  "(a+b)*", "b-a-"};
  static char text[65536];
  for (int i = 0; i < ARRAY_LEN(part); i++) {
    Fixture f;
    fixture_init(&f);
    fill(text, sizeof text, part[i]);
    Dim e = parse_n(&f.pool, text, sizeof text);
    EXPECT(!e || ie_is_poison(e) || parse(&f.pool, text_of(&f.pool, e)) == e);
    EXPECT(f.arena.total < 16 << 20);
    arena_deinit(&f.arena);
  }
}

TEST(intexpr_parse_fuzz) {
  static const char alphabet[] = "ab2-+*/(),' \\x?!_.floorminmaxmodbcast\x80\x01";
  rng_state = 6;
  for (int round = 0; round < 20; round++) {
    Fixture f;
    fixture_init(&f);
    IntPool *p = &f.pool;
    for (int i = 0; i < 2000; i++) {
      char text[200];
      int64_t n = rnd(40);
      for (int64_t j = 0; j < n; j++) text[j] = alphabet[rnd((int64_t)sizeof alphabet)];
      if (i % 2) {
        const char *good = text_of(p, build(p, random_tree(p->arena, 3), false));
        n = MIN((int64_t)strlen(good), (int64_t)sizeof text);
        memcpy(text, good, (size_t)n);
        for (int64_t k = rnd(3); k >= 0 && n; k--)
          text[rnd(n)] = alphabet[rnd((int64_t)sizeof alphabet)];
      }
      const char *at = text;
      Dim e = ie_parse(p, &at, text + n);
      EXPECT(at >= text && at <= text + n);
      if (e && parse(p, text_of(p, e)) != e) FAIL("'%.*s' does not come back", (int)n, text);
    }
    arena_deinit(&f.arena);
  }
}
