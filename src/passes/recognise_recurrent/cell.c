// cell.c -- does a node compute the new state of an LSTM or GRU cell, and from what?
//
// A gate is a function of a sum.  The sum is read term by term through additions, splits and slices
// down to products with matrices and vectors, each with the columns that are this gate's.  So the
// gates may be computed together or one by one, from x and h concatenated or separate, with one
// bias or two.
//
// Needs:      static sizes of weights and states.
// Guarantees: reads the graph alone; a Cell that it fills is complete.
#include "eval/contract.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "passes/recognise_recurrent/recognise_recurrent.h"
#include "rules/recognise/recognise.h"

// ---- sums ----

static bool last_axis(int64_t axis, int rank) { return axis == -1 || axis == rank - 1; }

static int64_t last_size(const Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank < 1 || !ie_is_const(t->dims[t->rank - 1])) return -1;
  return t->dims[t->rank - 1]->value;
}

// One vector, whatever axes of size 1 stand before.
static bool is_vector(const Node *n) {
  const Type *t = type_of(n);
  if (t->rank < 1) return false;
  for (int i = 0; i < t->rank - 1; i++)
    if (!ie_is(t->dims[i], 1)) return false;
  return true;
}

static bool add_product(CellSum *s, CellProduct p) {
  if (s->nproducts == CELL_PRODUCTS || type_of(p.w)->rank != 2 || type_of(p.x)->rank != 2)
    return false;
  s->product[s->nproducts++] = p;
  return true;
}

static Node *under_transpose(Node *w, bool *transposed) {
  int64_t perm[MAX_RANK];
  if (w->op != OP_transpose || transpose_perm(w, perm) != 2 || perm[0] != 1) return w;
  *transposed = !*transposed;
  return w->src[0];
}

// x w; tensors concatenated in x are terms of their own.
static bool read_product(CellSum *s, Node *x, Node *w, bool transposed, int64_t column,
                         int64_t size) {
  w = under_transpose(w, &transposed);
  if (type_of(x)->rank != 2) return false;
  if (x->op != OP_concat || !last_axis(((const concat_attrs *)x->attrs)->axis, 2))
    return last_size(x) > 0 &&
           add_product(s, (CellProduct){x, w, transposed, 0, last_size(x), column, size});
  int64_t row = 0;
  for (uint32_t i = 0; i < x->nsrc; i++) {
    int64_t rows = last_size(x->src[i]);
    if (rows < 1 ||
        !add_product(s, (CellProduct){x->src[i], w, transposed, row, rows, column, size}))
      return false;
    row += rows;
  }
  return true;
}

static bool add_bias(CellSum *s, Node *v, int64_t from, int64_t size) {
  if (s->nbiases == CELL_BIASES || !is_vector(v)) return false;
  s->bias[s->nbiases++] = (CellBias){v, from, size};
  return true;
}

// A slice or one result of a split along the last axis: what it is of, and where it begins.
static Node *read_part(Graph *g, const Node *n, int64_t *from) {
  int rank = type_of(n)->rank;
  if (n->op == OP_proj && n->src[0]->op == OP_split) {
    const Node *split = n->src[0];
    if (!last_axis(((const split_attrs *)split->attrs)->axis, rank)) return NULL;
    *from = 0;
    for (int64_t i = 0; i < ((const proj_attrs *)n->attrs)->index; i++) {
      Dim d = split->type[i]->dims[rank - 1];
      if (!ie_is_const(d)) return NULL;
      *from += d->value;
    }
    return split->src[0];
  }
  Ints start, axes, step;
  if (n->op != OP_slice || n->nsrc < 4 || !node_ints(g, n->src[1], &start) ||
      n->src[3] == g->none || !node_ints(g, n->src[3], &axes) || start.n != 1 || axes.n != 1 ||
      !last_axis(axes.v[0], rank))
    return NULL;
  if (n->nsrc > 4 && (!node_ints(g, n->src[4], &step) || step.v[0] != 1)) return NULL;
  int64_t whole = last_size(n->src[0]);
  *from = start.v[0] < 0 ? start.v[0] + whole : MIN(start.v[0], whole);
  return whole > 0 && *from >= 0 ? n->src[0] : NULL;
}

static bool read_sum(Graph *g, CellSum *s, Node *n, int64_t from, int64_t size, int depth);

static bool read_gemm(CellSum *s, const Node *n, int64_t from, int64_t size, Graph *g) {
  const gemm_attrs *at = n->attrs;
  Node *bias = src_or_null(g, n, 2);
  if (at->alpha != 1 || at->transA || (bias && at->beta != 1)) return false;
  if (bias && (last_size(bias) != last_size(n) || !add_bias(s, bias, from, size))) return false;
  return read_product(s, n->src[0], n->src[1], at->transB, from, size);
}

static bool read_sum(Graph *g, CellSum *s, Node *n, int64_t from, int64_t size, int depth) {
  double v;
  int64_t at;
  Node *whole;
  if (!depth || !dtype_is_float(type_of(n)->dtype)) return false;
  if (rec_number(g, n, &v)) return s->number += v, true;
  if (n->op == OP_add) {
    for (int i = 0; i < 2; i++)
      if (!rec_number(g, n->src[i], &v) && last_size(n->src[i]) != last_size(n)) return false;
    return read_sum(g, s, n->src[0], from, size, depth - 1) &&
           read_sum(g, s, n->src[1], from, size, depth - 1);
  }
  if (n->op == OP_gemm) return read_gemm(s, n, from, size, g);
  if (n->op == OP_mat_mul) return read_product(s, n->src[0], n->src[1], false, from, size);
  if ((n->op == OP_proj || n->op == OP_slice) && (whole = read_part(g, n, &at)))
    return read_sum(g, s, whole, from + at, size, depth - 1);
  if (n->op == OP_mul && !s->reset && from == 0 && size == last_size(n)) return s->reset = n, true;
  return add_bias(s, n, from, size);
}

enum { SUM_DEPTH = 12 };

static bool read_gate(Graph *g, const Node *gate, CellSum *out) {
  *out = (CellSum){.nproducts = 0};
  int64_t size = last_size(gate);
  return size > 0 && type_of(gate)->rank == 2 && read_sum(g, out, gate->src[0], 0, size, SUM_DEPTH);
}

// ---- weights ----

// w has these rows and columns.
static bool holds(const CellProduct *p, int64_t rows, int64_t columns, DType t) {
  const Type *w = type_of(p->w);
  if (w->dtype != t || !type_is_static(w) || p->rows != rows || p->size != columns) return false;
  int64_t r = w->dims[p->transposed]->value, c = w->dims[!p->transposed]->value;
  return p->row + p->rows <= r && p->column + p->size <= c;
}

// The products in the order x, h; only h's where `x` is NULL.
static bool order_products(CellSum *s, const Node *x, const Node *h) {
  if (s->nproducts != (x ? 2 : 1)) return false;
  if (x && s->product[0].x != x) {
    CellProduct first = s->product[0];
    s->product[0] = s->product[1];
    s->product[1] = first;
  }
  return (!x || s->product[0].x == x) && s->product[x ? 1 : 0].x == h;
}

static bool biases_fit(const CellSum *s, int64_t hidden, DType t) {
  for (int i = 0; i < s->nbiases; i++) {
    const CellBias *b = &s->bias[i];
    if (type_of(b->v)->dtype != t || b->size != hidden || b->from + b->size > last_size(b->v))
      return false;
  }
  return true;
}

static bool gate_fits(CellSum *s, const Cell *c, const Node *h) {
  DType t = type_of(c->new_h)->dtype;
  return order_products(s, c->x, h) && holds(&s->product[0], c->inputs, c->hidden, t) &&
         holds(&s->product[1], c->hidden, c->hidden, t) && biases_fit(s, c->hidden, t);
}

static bool states_fit(const Cell *c) {
  const Type *t = type_of(c->new_h), *x = type_of(c->x);
  return t->rank == 2 && x->rank == 2 && x->dims[0] == t->dims[0] && type_of(c->h) == t &&
         x->dtype == t->dtype && (!c->c || type_of(c->c) == t);
}

// ---- LSTM: c' = f c + i g, h' = o tanh(c') ----

static bool factors(const Node *n, int op, Node **with, Node **other) {
  for (int i = 0; n->op == OP_mul && i < 2; i++)
    if (n->src[i]->op == op) {
      *with = n->src[i];
      *other = n->src[1 - i];
      return true;
    }
  return false;
}

// o tanh(c): the h that belongs to this c.
static bool goes_with(const Node *h, const Node *c) {
  Node *squashed, *gate;
  return factors(h, OP_tanh, &squashed, &gate) && squashed->src[0] == c;
}

// Which of the two tensors of the products is the state: the sum says the same of both.
static bool choose_state(Cell *c, const CellSum *s) {
  if (s->nproducts != 2) return false;
  Node *a = s->product[0].x, *b = s->product[1].x;
  const Type *t = type_of(c->new_h);
  bool may_a = type_of(a) == t, may_b = type_of(b) == t;
  if (!may_a && !may_b) return false;
  bool first = may_a;
  if (may_a && may_b) {
    bool with_a = goes_with(a, c->c), with_b = goes_with(b, c->c);
    bool like_a = a->op == c->c->op, like_b = b->op == c->c->op;
    first = with_a != with_b ? with_a : like_a != like_b ? like_a : a->id < b->id;
    // Of two parameters the first: a body's states come before what it walks along.
  }
  c->h = first ? a : b;
  c->x = first ? b : a;
  c->inputs = last_size(c->x);
  return c->inputs > 0;
}

static bool read_lstm(Graph *g, Node *n, Cell *c) {
  enum { I, O, F, G };
  Node *out_gate, *squashed, *kept = NULL, *fresh = NULL, *gate[CELL_GATES];
  if (!factors(n, OP_tanh, &squashed, &out_gate) || out_gate->op != OP_sigmoid) return false;
  Node *sum = squashed->src[0];
  if (sum->op != OP_add) return false;
  for (int i = 0; i < 2 && !fresh; i++) {
    Node *tanh, *in;
    if (factors(sum->src[i], OP_tanh, &tanh, &in) && in->op == OP_sigmoid) {
      gate[I] = in;
      gate[G] = tanh;
      fresh = sum->src[i];
      kept = sum->src[1 - i];
    }
  }
  if (!fresh || !factors(kept, OP_sigmoid, &gate[F], &c->c)) return false;
  gate[O] = out_gate;
  c->kind = CELL_LSTM;
  c->new_h = n;
  c->new_c = sum;
  c->hidden = last_size(n);
  for (int i = 0; i < CELL_GATES; i++)
    if (!read_gate(g, gate[i], &c->gate[i]) || c->gate[i].reset) return false;
  if (!choose_state(c, &c->gate[I]) || !states_fit(c)) return false;
  for (int i = 0; i < CELL_GATES; i++)
    if (!gate_fits(&c->gate[i], c, c->h)) return false;
  return true;
}

// ---- GRU: h' = (1 - z) n + z h ----

// h' = n + z (h - n)
static bool blend_by_difference(const Node *n, Node **z, Node **fresh, Node **h) {
  for (int i = 0; n->op == OP_add && i < 2; i++) {
    Node *diff;
    *fresh = n->src[i];
    if (!factors(n->src[1 - i], OP_sigmoid, z, &diff)) continue;
    if (diff->op != OP_sub || diff->src[1] != *fresh) continue;
    *h = diff->src[0];
    return true;
  }
  return false;
}

static bool blend_by_parts(Graph *g, const Node *n, Node **z, Node **fresh, Node **h) {
  for (int i = 0; n->op == OP_add && i < 2; i++) {
    Node *rest;
    if (!factors(n->src[i], OP_sub, &rest, fresh) || !rec_is(g, rest->src[0], 1)) continue;
    const Node *kept = n->src[1 - i];
    *z = rest->src[1];
    if ((*z)->op != OP_sigmoid || kept->op != OP_mul) continue;
    for (int k = 0; k < 2; k++)
      if (kept->src[k] == *z) return *h = kept->src[1 - k], true;
  }
  return false;
}

// The hidden gate: its products are with x and with h, the second one reset before or after.
static bool read_hidden(Graph *g, Cell *c, CellSum *s, Node **reset) {
  DType t = type_of(c->new_h)->dtype;
  Node *inner;
  c->reset_after = s->reset != NULL;
  if (!biases_fit(s, c->hidden, t)) return false;
  if (c->reset_after) {  // x w + b + r (h u + d)
    c->recurrent = (CellSum){.nproducts = 0};
    return factors(s->reset, OP_sigmoid, reset, &inner) && order_products(s, NULL, c->x) &&
           holds(&s->product[0], c->inputs, c->hidden, t) &&
           read_sum(g, &c->recurrent, inner, 0, c->hidden, SUM_DEPTH) && !c->recurrent.reset &&
           order_products(&c->recurrent, NULL, c->h) &&
           holds(&c->recurrent.product[0], c->hidden, c->hidden, t) &&
           biases_fit(&c->recurrent, c->hidden, t);
  }
  for (int i = 0; s->nproducts == 2 && i < 2; i++)
    if (factors(s->product[i].x, OP_sigmoid, reset, &inner) && inner == c->h)
      return gate_fits(s, c, s->product[i].x);
  return false;
}

static bool read_gru(Graph *g, Node *n, Cell *c) {
  enum { Z, R, H };
  Node *z, *fresh, *reset = NULL;
  if (!blend_by_difference(n, &z, &fresh, &c->h) && !blend_by_parts(g, n, &z, &fresh, &c->h))
    return false;
  if (fresh->op != OP_tanh) return false;
  c->kind = CELL_GRU;
  c->new_h = n;
  c->hidden = last_size(n);
  if (!read_gate(g, z, &c->gate[Z]) || !read_gate(g, fresh, &c->gate[H])) return false;
  const CellSum *s = &c->gate[Z];
  if (s->reset || s->nproducts != 2) return false;
  c->x = s->product[0].x == c->h ? s->product[1].x : s->product[0].x;
  c->inputs = last_size(c->x);
  if (c->inputs < 1 || !states_fit(c) || !gate_fits(&c->gate[Z], c, c->h)) return false;
  if (!read_hidden(g, c, &c->gate[H], &reset) || !read_gate(g, reset, &c->gate[R])) return false;
  return !c->gate[R].reset && gate_fits(&c->gate[R], c, c->h);
}

bool cell_read(Graph *g, Node *n, Cell *out) {
  if (n->nres != 1 || (n->op != OP_mul && n->op != OP_add)) return false;
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank != 2 || !dtype_is_float(t->dtype)) return false;
  *out = (Cell){.kind = CELL_LSTM};
  return n->op == OP_mul ? read_lstm(g, n, out) : read_gru(g, n, out);
}

// ---- comparing ----

static bool same_sum(const CellSum *a, const CellSum *b) {
  bool same = a->nproducts == b->nproducts && a->nbiases == b->nbiases && a->number == b->number;
  for (int i = 0; same && i < a->nproducts; i++) {
    const CellProduct *p = &a->product[i], *q = &b->product[i];
    same = p->w == q->w && p->transposed == q->transposed && p->row == q->row &&
           p->column == q->column;
  }
  for (int i = 0; same && i < a->nbiases; i++)
    same = a->bias[i].v == b->bias[i].v && a->bias[i].from == b->bias[i].from;
  return same;
}

bool cell_same(const Cell *a, const Cell *b) {
  bool same = a->kind == b->kind && a->reset_after == b->reset_after &&
              type_of(a->x) == type_of(b->x) && same_sum(&a->recurrent, &b->recurrent);
  for (int i = 0; same && i < CELL_GATES; i++) same = same_sum(&a->gate[i], &b->gate[i]);
  return same;
}
