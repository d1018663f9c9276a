// export.c -- what all writers share: unique names, the report of what a format lacks, and
// rewriting until it can be said.
#include "exporters/export.h"

#include "eval/dims.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "ir/rule.h"

// ---- names ----

void names_init(Names *n, Arena *a) {
  n->arena = a;
  strmap_init(&n->used, a);
}

bool names_take(Names *n, const char *name) {
  if (strmap_has(&n->used, str_of(name))) return false;
  strmap_put(&n->used, str_of(name), (void *)(uintptr_t)1);
  return true;
}

// The value of a name in the map is the number to try next behind it.
const char *names_unique(Names *n, const char *wanted) {
  if (names_take(n, wanted)) return wanted;
  uintptr_t next = (uintptr_t)strmap_get(&n->used, str_of(wanted));
  const char *name;
  do name = str_printf(n->arena, "%s_%llu", wanted, (unsigned long long)next++);
  while (!names_take(n, name));
  strmap_put(&n->used, str_of(wanted), (void *)next);
  return name;
}

// ---- what a format lacks ----

void refuse_op(RefusedList *list, Arena *a, const Node *n, const char *op, const char *why) {
  for (int64_t i = 0; i < list->n; i++)
    if (!strcmp(list->v[i].op, op)) {
      list->v[i].count++;
      return;
    }
  vec_push(a, list, ((Refused){.op = op, .why = why, .first = n->name, .count = 1}));
}

tenon_status refused_report(const RefusedList *list, const char *format, Diag *d) {
  if (!list->n) return TENON_OK;
  tenon_status s =
      fail(d, TENON_EUNSUPPORTED, NOWHERE,
           "%lld kinds of operators cannot be written as %s:", (long long)list->n, format);
  for (int64_t i = 0; i < list->n; i++) {
    const Refused *r = &list->v[i];
    diag_note(d, "%s (%lld times%s%s): %s", r->op, (long long)r->count, r->first ? ", first " : "",
              r->first ? r->first : "", r->why);
  }
  return s;
}

// ---- rewriting ----

typedef struct Prepare {
  Graph *g;
  const RewriteRow *row;
  int64_t nrows;
  ExportHasFn *has;
  const void *ctx;
  IntMap done;  // node -> its results, or 0 where it stays
} Prepare;

// The results that take a node's place; NULL: it stays.
static Node **replacement(Prepare *p, Node *n) {
  uint64_t known;
  if (intmap_get(&p->done, (uint64_t)(uintptr_t)n, &known)) return (Node **)(uintptr_t)known;
  Node **out = NULL, *one = NULL;
  for (int64_t i = 0; i < p->nrows && !one; i++)
    if (p->row[i].op == n->op) one = p->row[i].fn(p->g, n);
  if (one) {
    out = arena_array(&p->g->arena, Node *, n->nres);
    for (int i = 0; i < n->nres; i++) out[i] = node_proj(p->g, one, i);
  } else if (op_info(n->op)->expand && !p->has(p->ctx, n)) {
    out = arena_array(&p->g->arena, Node *, n->nres);
    op_info(n->op)->expand(p->g, n, out);
    if (graph_status(p->g) || !out[0]) out = NULL;
  }
  intmap_put(&p->done, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)out);
  return out;
}

static Node *rewrite(void *ctx, Node *n, Node *old) {
  Prepare *p = ctx;
  (void)old;
  if (n->op == OP_proj) {
    Node **out = replacement(p, n->src[0]);
    return out ? out[((const proj_attrs *)n->attrs)->index] : n;
  }
  Node **out = n->nres == 1 ? replacement(p, n) : NULL;
  return out ? out[0] : n;
}

tenon_status export_prepare(Graph *g, const RewriteRow *row, int64_t nrows, ExportHasFn *has,
                            const void *ctx) {
  enum { MAX_ROUNDS = 16 };  // expansions nest a few deep at most
  bool changed = true;
  for (int round = 0; changed && round < MAX_ROUNDS; round++) {
    Prepare p = {.g = g, .row = row, .nrows = nrows, .has = has, .ctx = ctx};
    intmap_init(&p.done, &g->arena);
    changed = false;
    TRY(graph_map(&(GraphMap){.g = g, .fn = rewrite, .ctx = &p}, &changed));
    TRY(graph_status(g));
  }
  return TENON_OK;
}

// ---- sizes ----

typedef struct Sizes {
  Graph *g;
  const Node *n;
} Sizes;

static Node *size_node(Sizes *s, Dim d);

static Node *sum_node(Sizes *s, Dim d) {
  Graph *g = s->g;
  Node *sum = NULL;
  for (int i = 0; i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    Node *product = t->coef == 1 && t->natoms ? NULL : node_i64s(g, 1, &t->coef);
    for (int k = 0; k < t->natoms; k++) {
      Node *atom = size_node(s, t->atom[k]);
      product = product ? N(g, mul, product, atom) : atom;
    }
    sum = sum ? N(g, add, sum, product) : product;
  }
  return sum ? sum : node_i64s(g, 1, (int64_t[]){0});
}

// One size as i64[1].
static Node *size_node(Sizes *s, Dim d) {
  Graph *g = s->g;
  int64_t operand, axis;
  if (d->kind == IE_CONST) return node_i64s(g, 1, &d->value);
  if (d->kind == IE_SYM) {
    if (!dims_symbol(d, &operand, &axis) || operand >= s->n->nsrc) return g->poison;
    Node *shape = N(g, shape, s->n->src[operand]);
    return N(g, gather, shape, node_i64s(g, 1, &axis));
  }
  if (d->kind == IE_SUM) return sum_node(s, d);
  Node *a = size_node(s, d->a), *b = size_node(s, d->b);
  switch (d->kind) {
  case IE_DIV: return N(g, div, N(g, sub, a, N(g, mod, a, b)), b);  // division truncates: floor
  case IE_MOD: return N(g, mod, a, b);
  case IE_MIN: return N(g, min, a, b);
  case IE_MAX: return N(g, max, a, b);
  case IE_BCAST: return N(g, where, N(g, eq, a, node_i64s(g, 1, (int64_t[]){1})), b, a);
  default: return g->poison;
  }
}

Node *rewrite_dims(Graph *g, Node *n) {
  const dims_attrs *at = n->attrs;
  IntPool *p = arena_new(&g->arena, IntPool);
  Dim *size = arena_array(&g->arena, Dim, DIMS_MAX);
  intpool_init(p, &g->arena);
  int64_t count = dims_parse(p, at->sizes, size);
  if (count < 0) return NULL;
  Sizes s = {g, n};
  Node **part = arena_array(&g->arena, Node *, count + 1);
  for (int64_t i = 0; i < count; i++) part[i] = size_node(&s, size[i]);
  if (at->scalar) return N(g, squeeze, part[0], node_i64s(g, 1, (int64_t[]){0}));
  if (!count) return node_i64s(g, 0, NULL);
  if (count == 1) return part[0];
  concat_attrs join = {.axis = 0};
  return node_new(g, OP_concat, (int)count, part, &join, 1, n->name);
}

Node *rewrite_mod(Graph *g, Node *n) {
  DType t = type_of(n)->dtype;
  Node *y = n->src[1], *r = N(g, fmod, n->src[0], y), *zero = node_scalar(g, t, 0);
  Node *other = N(g, xor, N(g, lt, r, zero), N(g, lt, y, zero));
  Node *turns = N(g, and, other, N(g, not, N(g, eq, r, zero)));
  return N(g, where, turns, N(g, add, r, y), r);
}
