// recognise.h -- questions about nodes that the tables of recognised composites share.
//
// Exporters write the same function in many orders of the same operations.  What is asked here does
// not depend on the order: a number, a polynomial of a node, a quotient, the axes of a reduction.
#ifndef TENON_RULES_RECOGNISE_RECOGNISE_H
#define TENON_RULES_RECOGNISE_RECOGNISE_H

#include "ir/rule.h"
#include "rules/shape.h"

// A number that every element has: a constant, or a little arithmetic on constants and known sizes.
bool rec_number(Graph *g, const Node *n, double *out);
// Equal but for the rounding of a constant that was written down in this type.
bool rec_close(DType t, double x, double want);
static inline bool rec_is(Graph *g, const Node *n, double want) {
  double x;
  return rec_number(g, n, &x) && rec_close(type_of(n)->dtype, x, want);
}

// quantise(f(x)) of bytes x, f of many operations: a table of 256; NULL when it is none
// (table.c).
Node *rec_byte_table(Graph *g, const Match *m);

// n as factor times another node: products and quotients with numbers, taken off from outside.
Node *rec_unscaled(Graph *g, Node *n, double *factor);

// n as a polynomial of x and t: the sum of c[i][j] x^i t^j; t may be NULL.  False when it is none.
enum { POLY_X = 4, POLY_T = 2 };
typedef double Poly[POLY_X][POLY_T];
bool rec_poly(Graph *g, const Node *n, const Node *x, const Node *t, Poly c);
// All coefficients as wanted, those not named 0.
bool rec_poly_is(DType t, const Poly c, const Poly want);

// n = num / den, however written: by a quotient, a product with a reciprocal or a negative power.
bool rec_quotient(Graph *g, Node *n, int order, Node **num,
                  Node **den);                       // order 0 or 1: which factor is the reciprocal
bool rec_root(Graph *g, const Node *n, Node **x);    // sqrt(x), x^0.5
bool rec_square(Graph *g, const Node *n, Node **x);  // x * x, x^2
// n = x + number
bool rec_plus(Graph *g, const Node *n, Node **x, double *number);
// What is under casts from one float type to another, both of more than 8 bits.
Node *rec_uncast(Node *n);

// The axes of a reduction that keeps its axes, as a bit set; 0 when not known.
unsigned rec_axes(Graph *g, const Node *reduce);
// The first axis when the set is all axes from there on; -1 otherwise.
int rec_trailing(unsigned axes, int rank);
// Operand 0 of a reduction with this op.
static inline Node *rec_reduced(const Node *n, int op) { return n->op == op ? n->src[0] : NULL; }

// A node of one number an element of axis `axis`, all else 1, as a vector; NULL when it is none.
Node *rec_vector(Graph *g, Node *n, const Type *x, int axis);

// x with these dimensions; what is under a view of x where that has them.  NULL when no reshape
// gives them.
Node *rec_view(Graph *g, Node *x, int rank, const Dim *dims);

#endif
