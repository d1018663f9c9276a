// recognise.c -- what the tables of recognised composites ask about nodes.
#include "rules/recognise/recognise.h"
#include "eval/reduce.h"

#include <math.h>

enum { DEPTH = 8 };  // nodes followed from a root: a composite is small

// ---- numbers ----

static bool number_at(Graph *g, const Node *n, int depth, double *out) {
  if (node_splat(g, n, out)) return true;
  const Type *t = type_of(n);
  if (!depth || t->kind != TK_TENSOR || t->rank < 0) return false;
  int64_t count;
  const Dim *sym;
  if (dtype_is_int(t->dtype) && node_sym(g, n, &count, &sym) && count == 1) {
    if (!ie_is_const(sym[0])) return false;
    *out = (double)sym[0]->value;
    return true;
  }
  double x, y = 0;
  if (n->op == OP_cast && dtype_is_float(t->dtype)) return number_at(g, n->src[0], depth - 1, out);
  if (n->nsrc < 1 || n->nsrc > 2 || !dtype_is_float(t->dtype)) return false;
  if (n->op != OP_sqrt && n->op != OP_reciprocal && n->op != OP_mul && n->op != OP_div &&
      n->op != OP_pow)
    return false;
  if (!number_at(g, n->src[0], depth - 1, &x)) return false;
  if (n->nsrc == 2 && !number_at(g, n->src[1], depth - 1, &y)) return false;
  *out = n->op == OP_sqrt         ? sqrt(x)
         : n->op == OP_reciprocal ? 1 / x
         : n->op == OP_mul        ? x * y
         : n->op == OP_div        ? x / y
                                  : pow(x, y);
  return true;
}

bool rec_number(Graph *g, const Node *n, double *out) { return number_at(g, n, 5, out); }

bool rec_close(DType t, double x, double want) {
  double near = t == DT_F16 ? 1e-3 : t == DT_BF16 ? 8e-3 : t == DT_F64 ? 1e-12 : 1e-5;
  return fabs(x - want) <= near * fmax(fabs(want), 1e-3);
}

Node *rec_unscaled(Graph *g, Node *n, double *factor) {
  double v;
  *factor = 1;
  for (int i = 0; i < DEPTH; i++) {
    if (n->op == OP_mul && rec_number(g, n->src[1], &v) && same_type(n, n->src[0])) {
      *factor *= v;
      n = n->src[0];
    } else if (n->op == OP_mul && rec_number(g, n->src[0], &v) && same_type(n, n->src[1])) {
      *factor *= v;
      n = n->src[1];
    } else if (n->op == OP_div && rec_number(g, n->src[1], &v) && same_type(n, n->src[0])) {
      *factor /= v;
      n = n->src[0];
    } else if (n->op == OP_neg) {
      *factor = -*factor;
      n = n->src[0];
    } else {
      break;
    }
  }
  return n;
}

// ---- polynomials ----

static bool poly_mul(const Poly a, const Poly b, Poly c) {
  memset(c, 0, sizeof(Poly));
  for (int i = 0; i < POLY_X; i++)
    for (int j = 0; j < POLY_T; j++)
      for (int k = 0; k < POLY_X; k++)
        for (int l = 0; l < POLY_T; l++) {
          double v = a[i][j] * b[k][l];
          if (v == 0) continue;
          if (i + k >= POLY_X || j + l >= POLY_T) return false;
          c[i + k][j + l] += v;
        }
  return true;
}

static bool poly_at(Graph *g, const Node *n, const Node *x, const Node *t, int depth, Poly c);

static bool poly_pow(Graph *g, const Node *n, const Node *x, const Node *t, int depth, Poly c) {
  double e;
  Poly base, sofar;
  if (!rec_number(g, n->src[1], &e) || (e != 1 && e != 2 && e != 3)) return false;
  if (!poly_at(g, n->src[0], x, t, depth, base)) return false;
  memcpy(c, base, sizeof(Poly));
  for (int k = 1; k < (int)e; k++) {
    memcpy(sofar, c, sizeof(Poly));
    if (!poly_mul((const double(*)[POLY_T])sofar, (const double(*)[POLY_T])base, c)) return false;
  }
  return true;
}

static bool poly_at(Graph *g, const Node *n, const Node *x, const Node *t, int depth, Poly c) {
  memset(c, 0, sizeof(Poly));
  if (n == x) return c[1][0] = 1, true;
  if (n == t) return c[0][1] = 1, true;
  if (rec_number(g, n, &c[0][0])) return true;
  if (!depth) return false;
  Poly a, b;
  if (n->op == OP_pow) return poly_pow(g, n, x, t, depth - 1, c);
  if (n->op == OP_neg) {
    if (!poly_at(g, n->src[0], x, t, depth - 1, a)) return false;
    for (int i = 0; i < POLY_X * POLY_T; i++)
      c[i / POLY_T][i % POLY_T] = -a[i / POLY_T][i % POLY_T];
    return true;
  }
  if (n->op != OP_add && n->op != OP_sub && n->op != OP_mul && n->op != OP_div) return false;
  if (!poly_at(g, n->src[0], x, t, depth - 1, a) || !poly_at(g, n->src[1], x, t, depth - 1, b))
    return false;
  if (n->op == OP_mul) return poly_mul((const double(*)[POLY_T])a, (const double(*)[POLY_T])b, c);
  double div = 1;
  if (n->op == OP_div && (!rec_number(g, n->src[1], &div) || div == 0)) return false;
  for (int i = 0; i < POLY_X; i++)
    for (int j = 0; j < POLY_T; j++)
      c[i][j] = n->op == OP_add   ? a[i][j] + b[i][j]
                : n->op == OP_sub ? a[i][j] - b[i][j]
                                  : a[i][j] / div;
  return true;
}

bool rec_poly(Graph *g, const Node *n, const Node *x, const Node *t, Poly c) {
  return poly_at(g, n, x, t, DEPTH, c);
}

bool rec_poly_is(DType t, const Poly c, const Poly want) {
  for (int i = 0; i < POLY_X; i++)
    for (int j = 0; j < POLY_T; j++)
      if (!rec_close(t, c[i][j], want[i][j])) return false;
  return true;
}

// ---- quotients, roots, squares ----

bool rec_square(Graph *g, const Node *n, Node **x) {
  double e;
  bool ok = (n->op == OP_mul && n->src[0] == n->src[1]) ||
            (n->op == OP_pow && rec_number(g, n->src[1], &e) && e == 2 && same_type(n, n->src[0]));
  if (ok) *x = n->src[0];
  return ok;
}

bool rec_root(Graph *g, const Node *n, Node **x) {
  double e;
  bool ok = n->op == OP_sqrt || (n->op == OP_pow && rec_number(g, n->src[1], &e) && e == 0.5);
  if (ok) *x = n->src[0];
  return ok;
}

bool rec_quotient(Graph *g, Node *n, int order, Node **num, Node **den) {
  double e;
  if (n->op == OP_div) {
    *num = n->src[0];
    *den = n->src[1];
    return !order;
  }
  if (n->op != OP_mul) return false;
  Node *inverse = n->src[1 - order];
  *num = n->src[order];
  if (inverse->op == OP_reciprocal) return *den = inverse->src[0], true;
  if (inverse->op == OP_div && rec_is(g, inverse->src[0], 1)) return *den = inverse->src[1], true;
  if (inverse->op == OP_pow && rec_number(g, inverse->src[1], &e) && e == -0.5) {
    *den = N(g, sqrt, inverse->src[0]);
    return true;
  }
  if (inverse->op == OP_sqrt && inverse->src[0]->op == OP_reciprocal) {
    *den = N(g, sqrt, inverse->src[0]->src[0]);
    return true;
  }
  return false;
}

bool rec_plus(Graph *g, const Node *n, Node **x, double *number) {
  if (n->op != OP_add) return false;
  for (int i = 0; i < 2; i++)
    if (rec_number(g, n->src[i], number)) return *x = n->src[1 - i], true;
  return false;
}

static bool is_wide(const Node *n) {
  return dtype_is_float(type_of(n)->dtype) && dtype_bits(type_of(n)->dtype) > 8;
}

Node *rec_uncast(Node *n) {
  while (n->op == OP_cast && is_wide(n) && is_wide(n->src[0])) n = n->src[0];
  return n;
}

// ---- axes ----

unsigned rec_axes(Graph *g, const Node *n) {
  const reduce_attrs *at = n->attrs;
  int rank = type_of(n->src[0])->rank;
  if (rank < 1 || !at->keepdims) return 0;
  unsigned all = (1u << rank) - 1, set = 0;
  const Node *axes = src_or_null(g, n, 1);
  if (!axes) return at->noop_with_empty_axes ? 0 : all;
  Ints v;
  if (!node_ints(g, axes, &v)) return 0;
  if (!v.n) return at->noop_with_empty_axes ? 0 : all;
  for (int64_t i = 0; i < v.n; i++) {
    int64_t a = v.v[i] < 0 ? v.v[i] + rank : v.v[i];
    if (a < 0 || a >= rank) return 0;
    set |= 1u << a;
  }
  return set;
}

int rec_trailing(unsigned axes, int rank) {
  for (int i = 0; i < rank; i++)
    if (axes == ((1u << rank) - (1u << i))) return i;
  return -1;
}

// A constant keeps its bytes under another shape; anything else is reshaped.
static Node *flat(Graph *g, Node *n, Dim size) {
  if (n->op == OP_const && !n->data->moved && ie_is_const(size)) {
    const ConstData *d = n->data;
    DType t = type_of(n)->dtype;
    return d->source
               ? node_const_source(g, t, 1, &size->value, d->source, d->offset, d->bytes, n->name)
               : node_const(g, t, 1, &size->value, d->mem, n->name);
  }
  return rec_view(g, n, 1, &size);
}

Node *rec_vector(Graph *g, Node *n, const Type *x, int axis) {
  const Type *t = type_of(n);
  if (t->rank < 1 || t->rank > x->rank) return NULL;
  int at = axis - (x->rank - t->rank);
  for (int i = 0; i < t->rank; i++)
    if (i != at && !ie_is(t->dims[i], 1)) return NULL;
  if (at < 0 || t->dims[at] != x->dims[axis]) return NULL;
  return t->rank == 1 ? n : flat(g, n, t->dims[at]);
}

// ---- movement ----

Node *rec_view(Graph *g, Node *x, int rank, const Dim *dims) {
  const Type *t = type_tensor(g, type_of(x)->dtype, rank, dims);
  bool view = x->op == OP_reshape || x->op == OP_unsqueeze || x->op == OP_squeeze;
  return view && type_of(x->src[0]) == t ? x->src[0] : reshape_to(g, x, t);
}
