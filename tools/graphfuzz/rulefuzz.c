// rulefuzz.c -- one rule on random instances of its example (rulefuzz.h).
#include "graphfuzz/rulefuzz.h"
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"

#include <math.h>

typedef struct Draws {
  uint64_t state;
} Draws;

static int64_t draw(Draws *r, int64_t n) {
  r->state += 0x9e3779b97f4a7c15ull;
  return (int64_t)(hash_u64(r->state) % (uint64_t)n);
}

// ---- instances ----

// How far an instance goes off the example.
typedef struct Plan {
  DType from, to;
  int nextra;       // axes in front of every input
  bool as_numbers;  // symbols become sizes
  bool constants;   // some constants get other elements
  bool to_const;    // some inputs become constants
  bool more_users;  // some inner values are results too
  bool near;        // some nodes differ: another op, operand or attribute
  bool tame;
} Plan;

typedef struct Instance {
  Graph *from, *to;
  Plan plan;
  Draws rng;
  uint64_t sizes;  // the same symbol is the same size throughout
  Arena *arena;
  Node **node;  // by id in the example
  VEC(Node *) param;
} Instance;

static DType other_dtype(Draws *r, DType t) {
  static const DType reals[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_F8E4M3};
  static const DType whole[] = {DT_I8, DT_U8, DT_I16, DT_I32, DT_I64, DT_U32, DT_U64, DT_U16};
  if (dtype_is_float(t)) return reals[draw(r, ARRAY_LEN(reals))];
  if (dtype_is_int(t)) return whole[draw(r, ARRAY_LEN(whole))];
  return t;
}

static Plan draw_plan(Draws *r, const Graph *g, unsigned fast) {
  Plan p = {.tame = (fast & ~(unsigned)FAST_NO_SZ) != 0};
  if (draw(r, 4) == 0) return p;  // the example itself, on other sizes and values
  if (draw(r, 2) && g->main->nparams) {
    p.from = type_of(g->main->param[draw(r, g->main->nparams)])->dtype;
    p.to = other_dtype(r, p.from);
  }
  p.nextra = draw(r, 8) ? 0 : 1 + (int)draw(r, 2);
  p.as_numbers = draw(r, 3) == 0;
  p.constants = draw(r, 3) == 0;
  p.to_const = draw(r, 8) == 0;
  p.more_users = draw(r, 6) == 0;
  p.near = draw(r, 4) == 0;
  return p;
}

static const Type *own_type(Instance *x, const Type *t, bool extra) {
  static const char *const names[] = {"n2", "m3", "z4", "n5", "m2", "n1", "z3", "m4"};
  IntPool *p = &x->to->dims;
  Dim dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0) return NULL;
  int front = extra ? x->plan.nextra : 0;
  for (int i = 0; i < front; i++) dims[i] = ie_const(p, 2);
  for (int i = 0; i < t->rank; i++) {
    Dim d = t->dims[i];
    uint64_t luck = x->sizes + (uint64_t)d->slot;
    if (d->kind == IE_CONST)
      dims[front + i] = ie_const(p, d->value);
    else if (x->plan.as_numbers)
      dims[front + i] = ie_const(p, fuzz_size(str_of(names[luck % 8]), (int)(luck / 8 % 3)));
    else
      dims[front + i] = ie_sym(p, str_of(names[luck % 8]), d->lo, d->hi);
  }
  DType dt = t->dtype == x->plan.from ? x->plan.to : t->dtype;
  return type_tensor(x->to, dt, front + t->rank, dims);
}

static double other_number(Draws *r, double v) {
  static const double some[] = {0.0, -0.0, 1, -1, 2, 0.5, 3, 1e-5, -2, 6, 4, 0.25};
  if (draw(r, 2)) return v;
  return draw(r, 3) ? some[draw(r, ARRAY_LEN(some))] : v * (0.5 + (double)draw(r, 100) / 100);
}

static Node *own_const(Instance *x, const Node *c) {
  const Type *t = type_of(c);
  DType from = t->dtype, to = from == x->plan.from ? x->plan.to : from;
  int64_t dims[MAX_RANK], bytes;
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  bool change = x->plan.constants && draw(&x->rng, 2);
  if ((!change && from == to) || !dtype_bytes(to, c->data->n, &bytes) ||
      dtype_class(from) == DC_STRING || dtype_class(from) == DC_COMPLEX)
    return node_const(x->to, from, t->rank, dims, c->data->mem, NULL);
  void *own = arena_alloc(x->arena, bytes + 1);
  bool splat = draw(&x->rng, 2);
  for (int64_t i = 0; i < c->data->n; i++) {
    if (dtype_is_float(to)) {
      double v = get_f64(from, c->data->mem, i);
      if (change) v = splat && i ? get_f64(to, own, 0) : other_number(&x->rng, v);
      put_f64(to, own, i, v);
    } else {
      int64_t v = get_i64(from, c->data->mem, i);
      if (change && draw(&x->rng, 2)) v += draw(&x->rng, 5) - 2;
      put_i64(to, own, i, v);
    }
  }
  return node_const(x->to, to, t->rank, dims, own, NULL);
}

static Node *own_param(Instance *x, const Node *n) {
  const Type *t = own_type(x, type_of(n), true);
  if (!t) return NULL;
  const char *name = str_printf(&x->to->arena, "%c%s_%llx", x->plan.tame ? 't' : 'x',
                                n->name ? n->name : "", (long long)draw(&x->rng, 1 << 20));
  if (x->plan.to_const && draw(&x->rng, 2) && type_is_static(t)) {
    static Diag quiet;
    diag_init(&quiet);
    Run run;
    run_init(&run, NULL, &quiet);
    Value *v;
    Node *c = NULL;
    if (!fuzz_input(&run, t, name, 0, &v))
      c = node_const(x->to, t->dtype, t->rank, v->dims, v->data, NULL);
    run_deinit(&run);
    return c;
  }
  Node *p = node_param(x->to, t, name);
  vec_push(x->arena, &x->param, p);
  return p;
}

// ---- what is nearly the example: most rules must not fire on it ----

// Another attribute of the node, in its own copy.
static const void *near_attrs(Instance *x, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (!op->nattrs) return n->attrs;
  char *own = arena_dup(&x->to->arena, n->attrs, (int64_t)op->attrs_size);
  const AttrDesc *a = &op->attrs[draw(&x->rng, op->nattrs)];
  void *field = own + a->offset;
  switch (a->kind) {
  case ATTR_i64: *(int64_t *)field += draw(&x->rng, 3) - 1; break;
  case ATTR_bool: *(bool *)field = !*(bool *)field; break;
  case ATTR_f64: *(double *)field *= 0.5 + (double)draw(&x->rng, 3) / 2; break;
  case ATTR_choice: {
    int words = 1;
    for (const char *p = a->choices; *p; p++) words += *p == '|';
    *(int *)field = (int)draw(&x->rng, words);
    break;
  }
  case ATTR_i64s: {
    Ints *list = field;
    int64_t *v = arena_dup(&x->to->arena, list->v, list->n * (int64_t)sizeof *v);
    if (list->n > 1 && draw(&x->rng, 2)) {
      int64_t first = v[0];
      v[0] = v[list->n - 1];
      v[list->n - 1] = first;
    } else if (list->n) {
      v[draw(&x->rng, list->n)] += draw(&x->rng, 3) - 1;
    }
    list->v = v;
    break;
  }
  default: break;
  }
  return own;
}

// Another op of one or two operands and no attributes.
static int near_op(Instance *x, const Node *n) {
  static const int one[] = {OP_neg, OP_abs, OP_exp, OP_tanh, OP_sqrt, OP_sigmoid, OP_relu},
                   two[] = {OP_add, OP_sub, OP_mul, OP_div, OP_max, OP_min, OP_pow};
  const OpInfo *op = op_info(n->op);
  if (!(op->flags & OPF_ELEMENTWISE) || op->attrs_size || n->nsrc > 2) return n->op;
  return n->nsrc == 1 ? one[draw(&x->rng, ARRAY_LEN(one))] : two[draw(&x->rng, ARRAY_LEN(two))];
}

// One of the values before it of the same type, in the place of an operand.
static void near_operand(Instance *x, const Node *n, Node **src) {
  uint32_t i = (uint32_t)draw(&x->rng, n->nsrc);
  for (int tries = 0; tries < 8; tries++) {
    Node *other = x->node[draw(&x->rng, n->id)];
    if (!other || other->nres != 1 || other == src[i]) continue;
    if (type_of(other) != type_of(src[i])) continue;
    src[i] = other;
    return;
  }
}

static Node *near_node(Instance *x, const Node *n, Node **src) {
  const void *attrs = n->attrs;
  int op = n->op;
  switch (draw(&x->rng, 4)) {
  case 0: attrs = near_attrs(x, n); break;
  case 1: op = near_op(x, n); break;
  case 2: near_operand(x, n, src); break;
  default:
    if (n->nsrc > 1) {
      Node *first = src[0];
      src[0] = src[1];
      src[1] = first;
    }
  }
  return node_new(x->to, op, (int)n->nsrc, src, attrs, n->nres, n->name);
}

static Node *own_node(Instance *x, const Node *n) {
  if (n == x->from->none) return x->to->none;
  if (n->op == OP_param) return own_param(x, n);
  if (n->op == OP_const) return own_const(x, n);
  if (n->op == OP_proj)
    return node_proj(x->to, x->node[n->src[0]->id], (int)((const proj_attrs *)n->attrs)->index);
  if (op_info(n->op)->flags & OPF_CONTROL) return NULL;
  Node **src = arena_array(x->arena, Node *, n->nsrc + 1);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = x->node[n->src[i]->id];
  if (x->plan.near && n->nsrc && draw(&x->rng, 4) == 0) return near_node(x, n, src);
  return node_new(x->to, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

static bool build(Instance *x) {
  Graph *g = x->from;
  NodeList l = body_order(g, g->main, x->arena);
  Node *result[FUZZ_RESULTS];
  int64_t n = g->main->nresults, first = n;
  x->node = arena_array(x->arena, Node *, g->node.n);
  for (int64_t i = 0; i < l.n; i++) {
    Node *v = x->node[l.v[i]->id] = own_node(x, l.v[i]);
    if (!v || graph_status(x->to)) return false;
  }
  for (int64_t i = 0; i < n; i++) result[i] = x->node[g->main->result[i]->id];
  for (int64_t i = 0; x->plan.more_users && i < l.n && n < first + 2; i++) {
    Node *v = x->node[l.v[i]->id];
    if (l.v[i]->nsrc && v->nres == 1 && draw(&x->rng, 3) == 0) result[n++] = v;
  }
  x->to->main = body_new(x->to, "rule", x->param.n, x->param.v, n, result);
  x->to->body.n--;
  return true;
}

// Instance `seed` of the example; NULL when it came out invalid.  The same seed gives the same one.
static Graph *instance(Graph *example, unsigned fast, uint64_t seed, Diag *d, bool *varied) {
  Arena a;
  arena_init(&a);
  Instance x = {.from = example, .arena = &a, .rng = {seed * 0x2545f4914f6cdd1dull + 1}};
  x.sizes = hash_u64(seed) >> 8;
  x.plan = draw_plan(&x.rng, example, fast);
  *varied = x.plan.to != x.plan.from || x.plan.nextra || x.plan.as_numbers || x.plan.constants ||
            x.plan.to_const || x.plan.more_users || x.plan.near;
  Graph *g = NULL;
  Trap t;
  volatile bool ok = false;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0 && !graph_create(d, &g)) {
    x.to = g;
    ok = build(&x);
  }
  trap_leave(&t);
  arena_deinit(&a);
  if (ok) return g;
  graph_free(g);
  return NULL;
}

// ---- comparing ----

// Equal, but for the sign of a zero.
static bool same_but_zero(const Value *a, const Value *b) {
  if (fuzz_same(a, b)) return true;
  if (a->kind != VK_TENSOR || b->kind != VK_TENSOR || a->dtype != b->dtype || a->n != b->n ||
      !dtype_is_float(a->dtype))
    return false;
  for (int64_t i = 0; i < a->n; i++) {
    double x = val_f64(a, i), y = val_f64(b, i);
    if (x != y && !(x != x && y != y)) return false;
  }
  return true;
}

// Where there is no bound, since a rounding may become a jump: one step of an integer, and a loose
// distance of floats.
static bool roughly(const Value *a, const Value *b) {
  if (a->kind != VK_TENSOR || b->kind != VK_TENSOR || a->dtype != b->dtype || a->n != b->n)
    return false;
  for (int64_t i = 0; i < a->n; i++) {
    double x = val_f64(a, i), y = val_f64(b, i);
    double tol = a->dtype == DT_F64    ? 1e-9
                 : a->dtype == DT_F32  ? 1e-4
                 : a->dtype == DT_F16  ? 2e-2
                 : a->dtype == DT_BF16 ? 1e-1
                                       : 1.01;
    if (dtype_is_int(a->dtype) ? fabs(x - y) > 1
                               : x != y && !(fabs(x - y) <= tol * (1 + fmax(fabs(x), fabs(y)))))
      return false;
  }
  return true;
}

typedef struct Pair {
  const Rule *r;
  Graph *before, *after;
  Arena *arena;
  Diag *quiet;
  bool compared;
} Pair;

static bool same_results(Pair *p, Run *run, int k, Value **want, Value **got) {
  unsigned fast = p->r->fast;
  FuzzBound b = {.found = false};
  bool steep = false;
  if (fast & ~(unsigned)FAST_NO_SZ) {
    steep = fuzz_is_steep(p->before, p->arena);
    fuzz_bound(p->before, run, k, p->arena, want, &b);
    if (!b.found && !steep) return true;  // a number that the licence leaves out
  }
  p->compared = true;
  for (int64_t i = 0; i < p->before->main->nresults; i++) {
    bool ok = !fast                             ? fuzz_same(want[i], got[i])
              : !(fast & ~(unsigned)FAST_NO_SZ) ? same_but_zero(want[i], got[i])
              : steep                           ? roughly(want[i], got[i])
                                                : fuzz_within(&b, i, want[i], got[i]);
    if (!ok) return false;
  }
  return true;
}

static bool compare_at(Pair *p, int k) {
  Run x, y;
  Value *a[FUZZ_RESULTS] = {NULL}, *b[FUZZ_RESULTS] = {NULL};
  diag_init(p->quiet);
  run_init(&x, NULL, p->quiet);
  run_init(&y, NULL, p->quiet);
  tenon_status s = fuzz_run(p->before, &x, k, NULL, NULL, p->arena, a);
  // An instance that cannot be run says nothing: what a rule makes of it may run.
  bool ok =
      s || (!fuzz_run(p->after, &y, k, NULL, NULL, p->arena, b) && same_results(p, &x, k, a, b));
  run_deinit(&x);
  run_deinit(&y);
  return ok;
}

// ---- one rule ----

static bool apply(const Rule *r, Graph *g, bool *fired, Diag *d) {
  RuleSet one = {.name = "one", .rule = r, .n = 1};
  const RuleSet *sets[] = {&one};
  Rewriter rw = {.g = g, .set = sets, .nsets = 1, .fast = FAST_ALL};
  g->diag = d;
  return !graph_rewrite(&rw, fired) && (!*fired || !graph_verify(g, d));
}

static void report(const Rule *r, Pair *p, uint64_t seed, Diag *d) {
  StrBuf text;
  strbuf_init(&text, p->arena);
  const char *what = p->quiet->len ? "fails on" : "changes the result of";
  strbuf_printf(&text, "%s:%d rule %s %s instance %llu: %s\n", r->file, r->line, r->name, what,
                (unsigned long long)seed, p->quiet->text);
  graph_print(p->before, &text);
  if (!graph_status(p->after)) {
    strbuf_puts(&text, "becomes\n");
    graph_print(p->after, &text);
  }
  fail(d, TENON_EINTERNAL, NOWHERE, "%s", strbuf_text(&text));
}

static bool fuzz_once(const Rule *r, Graph *example, uint64_t seed, RuleTally *t, Diag *d) {
  static Diag quiet;
  Arena a;
  arena_init(&a);
  diag_init(&quiet);
  bool varied = false, fired = false, ok = true;
  Graph *before = instance(example, r->fast, seed, &quiet, &varied);
  Graph *after = before ? instance(example, r->fast, seed, &quiet, &varied) : NULL;
  t->tried++;
  if (after) {
    ok = apply(r, after, &fired, &quiet);
    Pair p = {.r = r, .before = before, .after = after, .arena = &a, .quiet = &quiet};
    for (int k = 0; ok && fired && k < FUZZ_SIZES; k++) ok = compare_at(&p, k);
    t->fired += fired;
    t->compared += p.compared;
    t->varied += p.compared && varied;
    if (!ok) report(r, &p, seed, d);
  }
  graph_free(before);
  graph_free(after);
  arena_deinit(&a);
  return ok;
}

bool rule_fuzz(const Rule *r, int64_t times, uint64_t first_seed, RuleTally *t, Diag *d) {
  *t = (RuleTally){0};
  Arena a;
  arena_init(&a);
  Graph *example = NULL;
  const char *text = str_printf(&a, "graph @\"rule\"%s", r->example ? r->example : "");
  tenon_status s = graph_parse(str_of(text), NULL, d, &example);
  bool ok = !s, fired = false;
  if (s) fail(d, s, NOWHERE, "%s:%d rule %s: its example is refused", r->file, r->line, r->name);
  for (uint64_t seed = first_seed; ok && t->compared < times && t->tried < 40 * times + 400; seed++)
    ok = fuzz_once(r, example, seed, t, d);
  if (ok && t->compared < times) {
    ok = false;
    fail(d, TENON_EINTERNAL, NOWHERE, "%s:%d rule %s was compared on %lld of %lld instances only",
         r->file, r->line, r->name, (long long)t->compared, (long long)t->tried);
  }
  if (ok && !apply(r, example, &fired, d)) ok = false;
  if (ok && !fired) {
    ok = false;
    fail(d, TENON_EINTERNAL, NOWHERE, "%s:%d rule %s does not fire on its example", r->file,
         r->line, r->name);
  }
  graph_free(example);
  arena_deinit(&a);
  return ok;
}
