// rules_test.c -- every rule against the interpreter, on random instances of its example;
// RULE_FUZZ=N for how many.
#include "graphfuzz/rulefuzz.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "test.h"

#include <stdlib.h>

TEST(rules_keep_the_meaning) {
  const char *times = getenv("RULE_FUZZ"), *seed = getenv("GRAPH_FUZZ_SEED");
  int64_t n = 0, compared = 0, varied = 0, least = INT64_MAX, want = times ? atoll(times) : 100;
  static Diag said;
  for (const RuleSet *const *s = rule_sets; *s; s++)
    for (int64_t i = 0; i < (*s)->n; i++, n++) {
      RuleTally t;
      diag_init(&said);
      if (!rule_fuzz(&(*s)->rule[i], want, seed ? (uint64_t)atoll(seed) : 1, &t, &said))
        FAIL("%s", said.text);
      compared += t.compared;
      varied += t.varied;
      least = MIN(least, t.compared);
      if (times)
        printf("  %-28s fired %lld, compared %lld, varied %lld of %lld instances\n",
               (*s)->rule[i].name, (long long)t.fired, (long long)t.compared, (long long)t.varied,
               (long long)t.tried);
    }
  if (times)
    printf("%lld rules, %lld comparisons, %lld of them of varied examples, %lld for the least\n",
           (long long)n, (long long)compared, (long long)varied, (long long)least);
  EXPECT(n > 20);
  EXPECT(least >= want);
}

// ---- rules that are wrong on purpose ----

#define F(body) "(%x: f32[n, 4], %y: f32[n, 4]) { " body " return %r }"

static bool anything(const Match *m) {
  (void)m;
  return true;
}
static Node *drop_axis(Graph *g, const Match *m) {  // forgets an attribute: the axis
  return N(g, softmax, m->root->src[0]->src[0]);
}
static Node *other_size(Graph *g, const Match *m) {  // right for one size only
  Node *x = m->root->src[0];
  return N(g, reshape, x, node_i64s(g, 1, &(int64_t){12}));
}

static const Rule wrong[] = {
    // clang-format off
    RULE("wrong.constant",  P(pow, a, NUM(3)),        P(mul, a, a), .example = F("%c = const f32[] {3} %r = pow(%x, %c)")),
    RULE("wrong.factor",    P(mul, a, NUM(2)),        P(mul, a, NUM(2.5)), .fast = FAST_REASSOC, .example = F("%c = const f32[] {2} %r = mul(%x, %c)")),
    RULE("wrong.guard",     P(add, a, NUM(0.0)),      a, .when = anything, .example = F("%c = const f32[] {0} %r = add(%x, %c)")),
    RULE("wrong.guard_nan", P(relu, P(sqrt, a)),      P(mul, P(sqrt, a), NUM(0)), .fast = FAST_NO_SZ, .example = F("%s = sqrt(%x) %r = relu(%s)")),
    RULE("wrong.operands",  P(sub, a, P(neg, b)),     P(add, b, P(neg, a)), .example = F("%s = neg(%y) %r = sub(%x, %s)")),
    RULE("wrong.swap",      P(div, a, P(exp, b)),     P(div, P(exp, b), a), .fast = FAST_APPROX, .example = F("%s = exp(%y) %r = div(%x, %s)")),
    RULE("wrong.fast_math", P(add, P(add, a, K(b)), K(c)), P(add, a, P(add, b, c)), .example = F("%c = const f32[] {0.1} %d = const f32[] {0.7} %s = add(%x, %c) %r = add(%s, %d)")),
    RULE("wrong.sign",      P(max, a, NUM(0.0)),      P(relu, a), .example = F("%c = const f32[] {0} %r = max(%x, %c)")),
    RULE("wrong.integers",  P(div, P(mul, a, b), b),  a, .example = "(%x: i32[n], %y: i32[n]) { %s = mul(%x, %y) %r = div(%s, %y) return %r }"),
    RULE("wrong.attribute", P(transpose, P(softmax, a)), .make = drop_axis, .example = "(%x: f32[4, 4]) { %s = softmax(%x) axis=0 %r = transpose(%s) perm=[0, 1] return %r }"),
    RULE("wrong.size",      P(reshape, a, b),         .make = other_size, .example = "(%x: f32[3, 4]) { %c = const i64[1] {-1} %r = reshape(%x, %c) return %r }"),
    // clang-format on
};

TEST(wrong_rules_are_caught) {
  static Diag said;
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) {
    RuleTally t;
    diag_init(&said);
    bool passed = rule_fuzz(&wrong[i], 100, 1, &t, &said);
    if (passed) FAIL("%s passes", wrong[i].name);
    if (!passed) EXPECT_CONTAINS(said.text, wrong[i].name);
  }
}
