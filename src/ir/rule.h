// rule.h -- rewrite rules as constant data, and the driver that applies them.
//
// A rule reads: find => put, when guard.  Both sides are patterns: static C data, so that the
// compiler checks op names and operand counts, and one loop can test every rule.  The same letter
// twice means the same node.  Where data cannot say the right side, `make` builds it.
//
// Exactness.  A rule without fast-math flags (FAST_*) must not change a single bit.  One with flags
// is applied only where the caller allows them, and must stay within rounding.
//
// Every rule has an example: a graph body in text form on which it fires.  The rule fuzzer draws
// sizes for its symbols and values for its parameters, and compares the interpreter's results
// before and after.
#ifndef TENON_IR_RULE_H
#define TENON_IR_RULE_H

#include "ir/opinfo.h"

enum {
  FAST_REASSOC = 1,   // sums and products in another order
  FAST_CONTRACT = 2,  // one rounding instead of two
  FAST_NO_NAN = 4,    // no operand is NaN or infinite
  FAST_NO_SZ = 8,     // the sign of a zero does not matter
  FAST_APPROX = 16,   // recognised composites: another formula of the same function
  FAST_QUANT = 32,    // integer arithmetic with one requantisation
  FAST_ALL = 63,
  FAST_TF32 = 64,  // f32 contractions in tf32 (10 mantissa bits) on tensor cores; never by itself
};

typedef struct Pat Pat;
enum { PAT_SLOTS = 16, PAT_SRCS = 6, PAT_NO_SLOT = 255, PAT_ANY_SRCS = 255 };
typedef enum { PAT_VAR, PAT_NUM, PAT_OP } PatKind;

typedef struct Match {
  Graph *g;
  Node *root;
  Node *var[PAT_SLOTS];  // by slot: letters first, then what BIND names
  const struct Rewriter *rw;
} Match;

struct Pat {
  uint8_t kind, slot, nsrc, once;
  uint16_t op;
  bool (*is)(const Match *m, const Node *n);  // a further condition on this node
  double num, near;  // PAT_NUM: the value, and how far off relatively it may be
  const Pat *src[PAT_SRCS];
};

typedef struct Rule {
  const char *file;
  int line;
  const char *name;  // "root.effect"
  const Pat *find, *put;
  bool (*when)(const Match *);            // pure
  Node *(*make)(Graph *, const Match *);  // instead of put; NULL: does not apply after all
  uint16_t fast;                          // fast-math flags that it needs
  const char *example;  // "(%x: f32[n, 4]) { ... return %y }"; see tests/rules/rules_test.c
} Rule;
typedef struct RuleSet {
  const char *name, *shrinks;  // shrinks: why applying it comes to an end
  const Rule *rule;
  int64_t n;
} RuleSet;

// ---- writing rules ----
#define PAT_ARITY_OK(op, n)                                                                        \
  (0 * (int)sizeof(struct {                                                                        \
     _Static_assert(OP_ARITY_##op < 0 || OP_ARITY_##op == (n),                                     \
                    "wrong number of operands for " #op);                                          \
     char c;                                                                                       \
   }))
#define PAT_OP_(o, once_, slot_, ...)                                                              \
  (&(const Pat){.kind = PAT_OP,                                                                    \
                .op = OP_##o,                                                                      \
                .once = once_,                                                                     \
                .slot = slot_,                                                                     \
                .nsrc = PP_NARG(__VA_ARGS__) + PAT_ARITY_OK(o, PP_NARG(__VA_ARGS__)),              \
                .src = {__VA_ARGS__}})
#define P(o, ...)            PAT_OP_(o, 0, PAT_NO_SLOT, __VA_ARGS__)
#define ONCE(o, ...)         PAT_OP_(o, 1, PAT_NO_SLOT, __VA_ARGS__)  // no other user
#define BIND(s, o, ...)      PAT_OP_(o, 0, SLOT_##s, __VA_ARGS__)  // and remembered as m->var[SLOT_s]
#define BIND_ONCE(s, o, ...) PAT_OP_(o, 1, SLOT_##s, __VA_ARGS__)
// Whatever its operands: for ops that take any number of them.
#define ANY(o)                                                                                     \
  (&(const Pat){.kind = PAT_OP, .op = OP_##o, .slot = PAT_NO_SLOT, .nsrc = PAT_ANY_SRCS})
#define BIND_ANY(s, o)                                                                             \
  (&(const Pat){.kind = PAT_OP, .op = OP_##o, .slot = SLOT_##s, .nsrc = PAT_ANY_SRCS})
#define NUM(v)       (&(const Pat){.kind = PAT_NUM, .slot = PAT_NO_SLOT, .num = (v)})
#define NEAR(v)      (&(const Pat){.kind = PAT_NUM, .slot = PAT_NO_SLOT, .num = (v), .near = 1e-5})
#define VAR(s, pred) (&(const Pat){.kind = PAT_VAR, .slot = SLOT_##s, .is = (pred)})
#define K(s)         VAR(s, pat_is_const)  // a constant
enum {
  SLOT_a,
  SLOT_b,
  SLOT_c,
  SLOT_d,
  SLOT_e,
  SLOT_f,
  SLOT_g,
  SLOT_h,
  SLOT_p,
  SLOT_q,
  SLOT_r,
  SLOT_s,
  SLOT_t,
  SLOT_u,
  SLOT_v,
  SLOT_w
};
// An array of one has a constant address, so that the bare letter is a constant expression.
#define PAT_LETTER(v)                                                                              \
  __attribute__((unused)) static const Pat v[1] = {{.kind = PAT_VAR, .slot = SLOT_##v}}
#define PAT_LETTERS                                                                                \
  PAT_LETTER(a);                                                                                   \
  PAT_LETTER(b);                                                                                   \
  PAT_LETTER(c);                                                                                   \
  PAT_LETTER(d);                                                                                   \
  PAT_LETTER(e);                                                                                   \
  PAT_LETTER(f)
#define RULE(nm, ...)                                                                              \
  { .file = __FILE__, .line = __LINE__, .name = nm, __VA_ARGS__ }
#define RULES(nm, table, why)                                                                      \
  { .name = nm, .shrinks = why, .rule = table, .n = ARRAY_LEN(table) }
bool pat_is_const(const Match *m, const Node *n);

// ---- questions that guards ask ----
bool node_is_zero(Graph *g, const Node *n);  // all elements of a constant, however many
bool node_splat(Graph *g, const Node *n,
                double *out);  // a constant all of whose elements are equal (small, or known)
int64_t rewriter_uses(const struct Rewriter *rw,
                      const Node *n);  // users in the body, results counted
static inline bool match_once(const Match *m, const Node *n) {
  return rewriter_uses(m->rw, n) <= 1;
}
bool same_type(const Node *x, const Node *y);

// ---- the driver ----
typedef struct RuleStat {
  const Rule *rule;
  int64_t hits;
} RuleStat;
enum { REWRITE_RECENT = 10 };
typedef struct Rewriter {
  Graph *g;
  const RuleSet *const *set;
  int64_t nsets;
  unsigned fast;        // fast-math flags that the caller allows
  int64_t budget;       // rules that may still fire; the error names the last ones
  int64_t *fire_limit;  // --bisect: counts down over all passes; NULL = none
  void (*trace)(void *ctx, const Rule *r, const Node *from, const Node *to);
  void *trace_ctx;
  IntMap *hits;  // Rule -> count, may be NULL
  // state
  struct RuleIndex *index;
  struct RewriteState *state;  // what is known of each node
  const Rule *recent[REWRITE_RECENT];
  int64_t nfired;
} Rewriter;
// Applies the sets to every body until nothing changes.  The graph gets a new main body.
MUST_USE tenon_status graph_rewrite(Rewriter *rw, bool *out_changed);

// ---- rebuilding a graph ----
// Calls fn for every node of every body, operands first, with the operands already replaced, and
// puts what it returns in the node's place (n itself: no change).  Results, projections and bodies
// follow.  `old` is the node as it was.
typedef Node *MapFn(void *ctx, Node *n, Node *old);
typedef struct GraphMap {
  Graph *g;
  MapFn *fn;  // may be NULL: only `begin_body` and dead code
  void *ctx;
  void (*begin_body)(void *ctx, const Body *b, NodeList order);  // may be NULL
  void (*end_body)(void *ctx);  // may be NULL; bodies nest, and the inner one ends first
} GraphMap;
MUST_USE tenon_status graph_map(const GraphMap *m, bool *out_changed);

#endif
