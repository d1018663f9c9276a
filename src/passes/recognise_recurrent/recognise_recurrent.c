// recognise_recurrent.c -- the pass recognise-recurrent: LSTM and GRU layers that came in pieces,
// as steps, unrolled steps, and loops over steps.
//
// A step that cell.c finds becomes the recurrent op over a sequence of one.  Steps that follow one
// another with the same weights, whose operands are there before the first, become one sequence.  A
// scan or a loop whose body is one step becomes the op over the whole sequence (loop.c).
//
// Needs:      FAST_APPROX, another formula of the same function; runs before loops are unrolled.
// Guarantees: nodes that others read as well stay.
// Does not:   look for peepholes, other functions than sigmoid and tanh, or steps of unknown sizes.
#include "passes/recognise_recurrent/recognise_recurrent.h"

#include "eval/control.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/rnn.h"
#include "ir/internal.h"
#include "rules/shape.h"

typedef struct Cells {
  PassCtx *c;
  Arena *arena;
  IntMap by_h, by_c;  // id of the new h or c -> Cell
  IntMap done;        // id of an old node -> its replacement
  IntMap results;     // old id of a decided loop -> Node **
} Cells;

static Node *now(const Cells *cs, Node *n) {
  uint64_t v;
  return intmap_get(&cs->done, n->id, &v) ? (Node *)(uintptr_t)v : n;
}
static Cell *cell_at(const IntMap *m, const Node *n) {
  uint64_t v;
  return intmap_get(m, n->id, &v) ? (Cell *)(uintptr_t)v : NULL;
}

static Node *in_front(Graph *g, Node *n) {  // an axis of size 1
  return N(g, unsqueeze, n, node_i64s(g, 1, (int64_t[]){0}));
}
static Node *without_axis(Graph *g, Node *n, int64_t axis) {
  return N(g, squeeze, n, node_i64s(g, 1, &axis));
}
static Node *concat_rows(Graph *g, Node **v, int n) {
  return n == 1 ? v[0] : node_new(g, OP_concat, n, v, &(concat_attrs){.axis = 0}, 1, NULL);
}

// ---- weights ----

static Node *part(Graph *g, Node *x, int64_t axis, int64_t from, int64_t size) {
  if (!from && ie_is(type_of(x)->dims[axis], size)) return x;
  return slice_axis(g, x, axis, from, from + size, 1);
}

// One gate's weights, outputs by inputs.
static Node *weights(Cells *cs, const CellProduct *p) {
  Graph *g = cs->c->g;
  Node *w = part(g, now(cs, p->w), p->transposed, p->row, p->rows);
  w = part(g, w, !p->transposed, p->column, p->size);
  return p->transposed ? w : transpose_to(g, w, 2, (int64_t[]){1, 0});
}

static Node *zeros(Graph *g, DType t, int64_t n) {
  return N(g, expand, node_scalar(g, t, 0), node_i64s(g, 1, &n));
}

static Node *bias(Cells *cs, const CellSum *s, DType t, int64_t hidden) {
  Graph *g = cs->c->g;
  Node *sum = NULL;
  Dim size = ie_const(&g->dims, hidden);
  for (int i = 0; i < s->nbiases; i++) {
    Node *v = now(cs, s->bias[i].v);
    v = part(g, v, type_of(v)->rank - 1, s->bias[i].from, hidden);
    v = reshape_to(g, v, type_tensor(g, t, 1, &size));
    if (!v) return NULL;
    sum = sum ? N(g, add, sum, v) : v;
  }
  if (!sum) sum = zeros(g, t, hidden);
  return s->number == 0 ? sum : N(g, add, sum, node_scalar(g, t, s->number));
}

typedef struct Weights {
  Node *w, *r, *b;
} Weights;

static bool gather_weights(Cells *cs, const Cell *c, Weights *out) {
  Graph *g = cs->c->g;
  DType t = type_of(c->new_h)->dtype;
  int n = c->kind == CELL_LSTM ? 4 : 3;
  Node *w[CELL_GATES], *r[CELL_GATES], *b[2 * CELL_GATES];
  for (int i = 0; i < n; i++) {
    bool separate = c->reset_after && i == n - 1;
    w[i] = weights(cs, &c->gate[i].product[0]);
    r[i] = weights(cs, separate ? &c->recurrent.product[0] : &c->gate[i].product[1]);
    b[i] = bias(cs, &c->gate[i], t, c->hidden);
    b[n + i] = separate ? bias(cs, &c->recurrent, t, c->hidden) : zeros(g, t, c->hidden);
    if (!b[i] || !b[n + i]) return false;
  }
  *out = (Weights){in_front(g, concat_rows(g, w, n)), in_front(g, concat_rows(g, r, n)),
                   in_front(g, concat_rows(g, b, 2 * n))};
  return !graph_status(g);
}

static Node *layer(Graph *g, const Cell *c, Node *x, const Weights *w, Node *h, Node *cell) {
  Node *src[] = {x, w->w, w->r, w->b, g->none, h, cell};
  if (c->kind == CELL_GRU)
    return NA(g, gru,
              (&(gru_attrs){.hidden_size = c->hidden, .linear_before_reset = c->reset_after}),
              src[0], src[1], src[2], src[3], src[4], src[5]);
  return node_new(g, OP_lstm, 7, src, &(lstm_attrs){.hidden_size = c->hidden}, 3, c->new_h->name);
}

// ---- finding steps ----

// Moves elements alone, and each index is known: may be made again wherever its operand is there.
static bool only_slices(const Node *n) {
  if (n->op == OP_proj) n = n->src[0];
  return (op_info(n->op)->flags & OPF_SELECTS) != 0;
}

// Is n there before `limit` was made?  Ids ascend, so an older node needs nothing that is younger.
static bool is_earlier(const Node *n, uint32_t limit) {
  enum { DEPTH = 8 };
  for (int i = 0; i < DEPTH; i++) {
    if (n->id < limit) return true;
    if (!only_slices(n)) return false;
    for (uint32_t k = 1; k < n->nsrc; k++)
      if (n->src[k]->id >= limit && n->src[k]->op != OP_const) return false;
    n = n->src[0];
  }
  return false;
}

static Node *made_again(Cells *cs, Node *n, uint32_t limit) {
  Graph *g = cs->c->g;
  if (n->id < limit || n->op == OP_const || n == g->none) return now(cs, n);
  if (n->op == OP_proj)
    return node_proj(g, made_again(cs, n->src[0], limit),
                     (int)((const proj_attrs *)n->attrs)->index);
  Node **src = arena_array(cs->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = made_again(cs, n->src[i], limit);
  return node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

// The first node that a step makes: what is older cannot depend on the step.
static uint32_t first_id(const Cell *c) { return c->new_c ? c->new_c->id : c->new_h->id; }

typedef struct UseCount {
  IntMap count;
} UseCount;
static int64_t uses_of(const UseCount *u, const Node *n) {
  uint64_t v = 0;
  intmap_get(&u->count, n->id, &v);
  return (int64_t)v;
}

// A step goes on from another when it takes both states from it, and nobody else wants the inner
// one.
static void link_step(Cells *cs, const UseCount *uses, Cell *c) {
  Cell *p = cell_at(&cs->by_h, c->h);
  if (!p || p->after || !cell_same(p, c)) return;
  if (c->c && (p->new_c != c->c || uses_of(uses, p->new_c) > 2)) return;
  const Cell *first = p;
  while (first->before) first = first->before;
  if (!is_earlier(c->x, first_id(first))) return;
  c->before = p;
  c->step = p->step + 1;
  p->after = c;
}

static void begin_body(void *ctx, const Body *b, NodeList order) {
  Cells *cs = ctx;
  UseCount uses;
  intmap_init(&uses.count, cs->arena);
  for (int64_t i = 0; i < order.n; i++)
    for (uint32_t k = 0; k < order.v[i]->nsrc; k++) {
      const Node *s = order.v[i]->src[k];
      intmap_put(&uses.count, s->id, (uint64_t)uses_of(&uses, s) + 1);
    }
  for (int64_t i = 0; i < b->nresults; i++)
    intmap_put(&uses.count, b->result[i]->id, (uint64_t)uses_of(&uses, b->result[i]) + 1);
  Cell found;
  for (int64_t i = 0; i < order.n; i++) {
    if (!cell_read(cs->c->g, order.v[i], &found)) continue;
    if (found.new_c && cell_at(&cs->by_c, found.new_c)) continue;
    Cell *c = arena_dup(cs->arena, &found, sizeof found);
    link_step(cs, &uses, c);
    intmap_put(&cs->by_h, c->new_h->id, (uint64_t)(uintptr_t)c);
    if (c->new_c) intmap_put(&cs->by_c, c->new_c->id, (uint64_t)(uintptr_t)c);
  }
}

// ---- making layers ----

// The steps from the first of a chain on as one layer.
static bool make_layer(Cells *cs, Cell *first) {
  Graph *g = cs->c->g;
  Weights w;
  int64_t n = 0;
  for (const Cell *c = first; c; c = c->after) n++;
  Node **x = arena_array(cs->arena, Node *, n);
  n = 0;
  for (const Cell *c = first; c; c = c->after)
    x[n++] = in_front(g, made_again(cs, c->x, first_id(first)));
  if (!gather_weights(cs, first, &w)) return false;
  Node *cell = first->c ? in_front(g, now(cs, first->c)) : NULL;
  Node *y = layer(g, first, concat_rows(g, x, (int)n), &w, in_front(g, now(cs, first->h)), cell);
  for (Cell *c = first; c; c = c->after) c->made = y;
  return y != g->poison;
}

// The new h of a step: the last one is a result of its own.
static Node *hidden_of(Cells *cs, const Cell *c) {
  Graph *g = cs->c->g;
  if (!c->after) return without_axis(g, node_proj(g, c->made, 1), 0);
  Node *row = slice_axis(g, node_proj(g, c->made, 0), 0, c->step, c->step + 1, 1);
  return reshape_to(g, row, type_of(c->new_h));
}

static Node *step_node(Cells *cs, Node *n, Node *old) {
  Graph *g = cs->c->g;
  Cell *c = cell_at(&cs->by_c, old), *h = cell_at(&cs->by_h, old);
  Node *r = NULL;
  if (c && !c->before && !c->made) make_layer(cs, c);
  if (h && !h->before && !h->made) make_layer(cs, h);
  if (graph_status(g)) return n;
  if (c && c->made && !c->after) r = without_axis(g, node_proj(g, c->made, 2), 0);
  if (h && h->made) r = hidden_of(cs, h);
  return r && r != g->poison && type_of(r) == type_of(old) ? r : n;
}

// ---- the pass ----

static Node *cell_node(void *ctx, Node *n, Node *old) {
  Cells *cs = ctx;
  uint64_t v;
  Node *r = n;
  if (n->op == OP_proj && intmap_get(&cs->results, old->src[0]->id, &v)) {
    r = ((Node **)(uintptr_t)v)[((const proj_attrs *)n->attrs)->index];
  } else if (n->op == OP_scan || n->op == OP_loop) {
    Node **result = cell_loop(cs->c->g, cs->arena, n);
    if (result && n->nres == 1) r = result[0];
    if (result && n->nres > 1) intmap_put(&cs->results, old->id, (uint64_t)(uintptr_t)result);
  } else if (n->op == OP_concat_from_sequence) {
    r = cell_list(cs->c->g, n, old);
  } else {
    r = step_node(cs, n, old);
  }
  if (r != old) intmap_put(&cs->done, old->id, (uint64_t)(uintptr_t)r);
  return r;
}

tenon_status pass_recognise_recurrent(PassCtx *c, bool *out_changed) {
  *out_changed = false;
  if (!(c->o->fast & FAST_APPROX)) return TENON_OK;
  Arena a;
  arena_init(&a);
  Cells cs = {.c = c, .arena = &a};
  intmap_init(&cs.by_h, &a);
  intmap_init(&cs.by_c, &a);
  intmap_init(&cs.done, &a);
  intmap_init(&cs.results, &a);
  GraphMap m = {.g = c->g, .fn = cell_node, .ctx = &cs, .begin_body = begin_body};
  tenon_status s = graph_map(&m, out_changed);
  arena_deinit(&a);
  return s;
}
