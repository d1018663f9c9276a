// rewrite.c -- applies rule sets to a graph until nothing changes.
//
// One round walks every body operands first (map.c).  At each node the rules for its op are tried
// in order, again on what came out, until none fires; what the rules made below it is put on a list
// of work and visited likewise, at once.  Rounds repeat while something changed, since a node may
// wait for a use count that falls only later; but a node where no rule fired is left out until its
// operands, or a use count that a rule asked for, are others.
//
// Guarantees: a replacement has the type of what it replaces; the same graph and sets give the same
//             result; no recursion over
// the graph.  A set that does not come to an end runs into the budget, and the error names the
// rules that fired last.
#include "ir/internal.h"
#include "ir/rule.h"

bool pat_match(const Pat *p, Node *n, Match *m);
Node *pat_build(Graph *g, const Pat *p, const Match *m);

// Rules by root op, in the order of the sets.
struct RuleIndex {
  struct {
    const Rule **v;
    int64_t n;
  } by_op[OP_COUNT];
};

static void index_rules(Rewriter *rw, Arena *a) {
  struct RuleIndex *x = arena_new(a, struct RuleIndex);
  int64_t count[OP_COUNT] = {0};
  for (int64_t s = 0; s < rw->nsets; s++)
    for (int64_t i = 0; i < rw->set[s]->n; i++) count[rw->set[s]->rule[i].find->op]++;
  for (int op = 0; op < OP_COUNT; op++)
    if (count[op]) x->by_op[op].v = arena_array(a, const Rule *, count[op]);
  for (int64_t s = 0; s < rw->nsets; s++)
    for (int64_t i = 0; i < rw->set[s]->n; i++) {
      const Rule *r = &rw->set[s]->rule[i];
      CHECK(r->find->kind == PAT_OP, "rule %s: the root must be an op", r->name);
      if (!(r->fast & ~rw->fast)) x->by_op[r->find->op].v[x->by_op[r->find->op].n++] = r;
    }
  rw->index = x;
}

// ---- what is known of the nodes ----

// A node is immutable and rules are pure: where none fired, none will, unless a use count that one
// of them asked for is another.  So each visit notes what was asked.
typedef struct Asked {
  uint32_t node;
  int32_t uses, next;  // the answer; -1 ends the list
} Asked;
typedef struct Seen {  // by node id
  Node *final;         // of a node that a rule made in this round: what has become of it
  int32_t uses;        // users in the bodies, results counted
  int32_t asked;       // of the visit in which no rule fired
  bool settled;
} Seen;
typedef struct Frame {  // a node at work
  Node *from, *at;
  uint32_t next;  // operand to look at
  bool tried;     // no rule fires at `at`
} Frame;
typedef struct RewriteState {
  Arena *a;
  Seen *seen;
  int64_t cap;
  VEC(Asked) asked;
  int32_t asking;     // the list of the visit at hand
  int64_t first_new;  // ids from here on were made in this round
  VEC(Frame) work;
  VEC(Node *) gone;  // use counts to lower
} RewriteState;

static Seen *seen_of(RewriteState *st, const Node *n) {
  if (n->id >= st->cap) {
    int64_t cap = MAX(2 * st->cap, (int64_t)n->id + 1024);
    Seen *more = arena_array(st->a, Seen, cap);
    if (st->cap) memcpy(more, st->seen, (size_t)st->cap * sizeof *more);
    st->seen = more;
    st->cap = cap;
  }
  return &st->seen[n->id];
}

int64_t rewriter_uses(const Rewriter *rw, const Node *n) {
  RewriteState *st = rw->state;
  int32_t uses = seen_of(st, n)->uses;
  vec_push(st->a, &st->asked, ((Asked){n->id, uses, st->asking}));
  st->asking = (int32_t)st->asked.n - 1;
  return uses;
}

// Whether no rule can fire here.
static bool is_settled(const RewriteState *st, const Node *n) {
  const Seen *x = &st->seen[n->id];
  if (!x->settled) return false;
  for (int32_t i = x->asked; i >= 0; i = st->asked.v[i].next)
    if (st->seen[st->asked.v[i].node].uses != st->asked.v[i].uses) return false;
  return true;
}

static void count_uses(void *ctx, const Body *b, NodeList order) {
  RewriteState *st = ((Rewriter *)ctx)->state;
  for (int64_t i = 0; i < order.n; i++)
    for (uint32_t k = 0; k < order.v[i]->nsrc; k++) seen_of(st, order.v[i]->src[k])->uses++;
  for (int64_t i = 0; i < b->nresults; i++) seen_of(st, b->result[i])->uses++;
}

// What nobody uses no longer uses its operands; and what comes to be used does.
static void change_uses(RewriteState *st, const Node *n, int by) {
  int64_t base = st->gone.n;
  for (uint32_t k = 0; k < n->nsrc; k++) vec_push(st->a, &st->gone, n->src[k]);
  while (st->gone.n > base) {
    const Node *s = st->gone.v[--st->gone.n];
    Seen *x = seen_of(st, s);
    x->uses += by;
    if (x->uses != (by > 0)) continue;
    for (uint32_t k = 0; k < s->nsrc; k++) vec_push(st->a, &st->gone, s->src[k]);
  }
}

// A rule put `to` in n's place.
static void move_uses(RewriteState *st, const Node *n, const Node *to) {
  int32_t uses = seen_of(st, n)->uses;
  Seen *x = seen_of(st, to);
  bool is_new = !x->uses;
  x->uses += uses;
  seen_of(st, n)->uses = 0;
  if (is_new) change_uses(st, to, 1);
  change_uses(st, n, -1);
}

// n made again over what became of its operands: they have counted it already.
static void move_rebuilt(RewriteState *st, const Node *n, const Node *to) {
  int32_t uses = seen_of(st, n)->uses;
  Seen *x = seen_of(st, to);
  bool merged = x->uses > 0;
  x->uses += uses;
  seen_of(st, n)->uses = 0;
  if (merged) change_uses(st, to, -1);
}

// ---- firing ----

static Node *over_budget(Rewriter *rw) {
  StrBuf b;
  strbuf_init(&b, &rw->g->scratch);
  for (int i = 0; i < REWRITE_RECENT; i++) {
    const Rule *r = rw->recent[(rw->nfired + i) % REWRITE_RECENT];
    if (r) strbuf_printf(&b, " %s", r->name);
  }
  return graph_fail(rw->g, TENON_EINTERNAL, NOWHERE,
                    "rewriting does not come to an end; the last rules were%s", strbuf_text(&b));
}

static void note(Rewriter *rw, const Rule *r, const Node *from, const Node *to) {
  rw->recent[rw->nfired++ % REWRITE_RECENT] = r;
  if (rw->hits) {
    uint64_t n = 0;
    intmap_get(rw->hits, (uint64_t)(uintptr_t)r, &n);
    intmap_put(rw->hits, (uint64_t)(uintptr_t)r, n + 1);
  }
  if (rw->trace) rw->trace(rw->trace_ctx, r, from, to);
}

// A fast-math flag allows one rounding more or less; with three bits of precision or fewer every
// one matters.
static bool is_coarse(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && dtype_is_float(t->dtype) && dtype_bits(t->dtype) <= 8;
}

// What one rule makes of a node; NULL when it does not apply.
static Node *apply(Rewriter *rw, const Rule *r, Node *n) {
  Graph *g = rw->g;
  Match m = {.g = g, .root = n, .rw = rw};
  if (r->fast && is_coarse(n)) return NULL;
  if (!pat_match(r->find, n, &m) || (r->when && !r->when(&m))) return NULL;
  const char *outer = g->origin;
  if (n->name) g->origin = n->name;
  Node *to = r->make ? r->make(g, &m) : pat_build(g, r->put, &m);
  g->origin = outer;
  if (!to || to == n || to == g->poison) return NULL;
  CHECK(to->nres == n->nres, "rule %s replaces %d results by %d", r->name, n->nres, to->nres);
  for (int i = 0; i < n->nres; i++)
    // A size that cannot be proven equal: leave it.  Two unknown ranks say nothing of each other.
    if (to->type[i] != n->type[i] || (n->type[i]->kind == TK_TENSOR && n->type[i]->rank < 0))
      return NULL;
  return to;
}

// What the first rule that applies makes of a node; NULL when none does.
static Node *fire(Rewriter *rw, Node *n) {
  for (int64_t i = 0; i < rw->index->by_op[n->op].n; i++) {
    const Rule *r = rw->index->by_op[n->op].v[i];
    ArenaMark mark = arena_mark(&rw->g->scratch);
    Node *to = apply(rw, r, n);
    arena_reset(&rw->g->scratch, mark);
    if (rw->g->status) return rw->g->poison;
    if (!to) continue;
    if (rw->fire_limit) --*rw->fire_limit;
    note(rw, r, n, to);
    if (--rw->budget < 0) return over_budget(rw);
    if (!to->name && to->op != OP_const) to->name = n->name;
    return to;
  }
  return NULL;
}

// Applies rules to a node until none fires.
static Node *exhaust(Rewriter *rw, Node *n) {
  RewriteState *st = rw->state;
  while (!(rw->fire_limit && *rw->fire_limit <= 0)) {
    seen_of(st, n);
    if (is_settled(st, n)) break;
    st->asking = -1;
    Node *to = fire(rw, n);
    if (to == rw->g->poison) return to;
    if (!to) {
      Seen *x = seen_of(st, n);
      x->settled = true;
      x->asked = st->asking;
      break;
    }
    move_uses(st, n, to);
    n = to;
  }
  return n;
}

// ---- what rules made below a node ----

static bool is_work(RewriteState *st, const Node *n) {
  if (n->id < st->first_new || n->op == OP_const || n->op == OP_param) return false;
  const Seen *x = seen_of(st, n);
  return !x->settled && !x->final;
}

static Node *final_of(RewriteState *st, Node *n) {
  Node *to = seen_of(st, n)->final;
  return to ? to : n;
}

// The node over what has become of its operands.
static Node *over_finals(Rewriter *rw, Node *n) {
  RewriteState *st = rw->state;
  bool same = true;
  for (uint32_t i = 0; same && i < n->nsrc; i++) same = final_of(st, n->src[i]) == n->src[i];
  if (same) return n;
  if (n->op == OP_proj)
    return node_proj(rw->g, final_of(st, n->src[0]), (int)((const proj_attrs *)n->attrs)->index);
  ArenaMark mark = arena_mark(&rw->g->scratch);
  Node **src = arena_array(&rw->g->scratch, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = final_of(st, n->src[i]);
  Node *to = node_new(rw->g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
  arena_reset(&rw->g->scratch, mark);
  return to;
}

// Works off the list: the rules first at the node itself, then at what they made below it; if that
// has changed, again.
static Node *settle(Rewriter *rw, Node *n) {
  RewriteState *st = rw->state;
  vec_push(st->a, &st->work, ((Frame){.from = n, .at = n, .tried = true}));
  while (st->work.n) {
    Frame *f = &st->work.v[st->work.n - 1];
    if (!f->tried) {
      f->at = exhaust(rw, f->at);
      f->tried = true;
      f->next = 0;
    }
    if (f->at == rw->g->poison) return f->at;
    while (f->next < f->at->nsrc && !is_work(st, f->at->src[f->next])) f->next++;
    if (f->next < f->at->nsrc) {
      Node *s = f->at->src[f->next++];
      vec_push(st->a, &st->work, ((Frame){.from = s, .at = s}));
      continue;
    }
    Node *to = over_finals(rw, f->at);
    if (to == rw->g->poison) return to;
    if (to != f->at) {
      move_rebuilt(st, f->at, to);
      f->at = to;
      f->tried = false;
      continue;
    }
    seen_of(st, f->from)->final = f->at;
    n = f->at;
    st->work.n--;
  }
  return n;
}

static Node *rewrite_node(void *ctx, Node *n, Node *old) {
  Rewriter *rw = ctx;
  RewriteState *st = rw->state;
  if (n != old) move_rebuilt(st, old, n);
  if (!seen_of(st, n)->uses) return n;  // dead by now
  Node *to = exhaust(rw, n);
  return to == n || to == rw->g->poison ? to : settle(rw, to);
}

enum { MAX_ROUNDS = 64 };

tenon_status graph_rewrite(Rewriter *rw, bool *out_changed) {
  Graph *g = rw->g;
  Arena a;
  arena_init(&a);
  Trap t;
  *out_changed = false;
  trap_enter(&t, g->diag);
  if (setjmp(t.env) == 0) {
    index_rules(rw, &a);
    RewriteState *st = rw->state = arena_new(&a, RewriteState);
    st->a = &a;
    seen_of(st, g->node.v[g->node.n - 1]);
    if (!rw->budget) rw->budget = 20 * (g->node.n + 1000);
    bool changed = true;
    for (int round = 0; changed && !t.status && round < MAX_ROUNDS; round++) {
      for (int64_t i = 0; i < st->cap; i++) {
        st->seen[i].uses = 0;
        st->seen[i].final = NULL;
      }
      st->first_new = g->node.n;
      GraphMap m = {.g = g, .fn = rewrite_node, .ctx = rw, .begin_body = count_uses};
      t.status = graph_map(&m, &changed);
      *out_changed |= changed;
    }
  }
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}
