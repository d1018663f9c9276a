// recognise_recurrent.h -- one step of an LSTM or GRU layer, as read from the nodes that an
// exporter decomposed it into.
#ifndef TENON_PASSES_RECOGNISE_RECURRENT_RECOGNISE_RECURRENT_H
#define TENON_PASSES_RECOGNISE_RECURRENT_RECOGNISE_RECURRENT_H

#include "passes/passes.h"

// x w, or a part of it: `size` columns of w from `column`, `rows` of its rows from `row`.
typedef struct CellProduct {
  Node *x, *w;
  bool transposed;  // w is stored as columns by rows
  int64_t row, rows, column, size;
} CellProduct;
// Elements of a vector that is added.
typedef struct CellBias {
  Node *v;
  int64_t from, size;
} CellBias;

enum { CELL_PRODUCTS = 2, CELL_BIASES = 4 };
// A gate before its function: a sum of products and vectors.
typedef struct CellSum {
  CellProduct product[CELL_PRODUCTS];
  CellBias bias[CELL_BIASES];
  int nproducts, nbiases;
  double number;  // added to every element
  Node *reset;    // a product of a gate with something, met as a term; GRU alone
} CellSum;

typedef enum { CELL_LSTM, CELL_GRU } CellKind;
enum { CELL_GATES = 4 };
typedef struct Cell {
  CellKind kind;
  Node *x, *h, *c;         // what it reads; c: LSTM alone
  Node *new_h, *new_c;     // what it computes
  int64_t inputs, hidden;  // sizes
  bool reset_after;        // GRU: the reset gate multiplies the product, not the state
  CellSum
      gate[CELL_GATES];  // in the op's order: input, output, forget, cell; update, reset, hidden
  CellSum recurrent;     // GRU with reset_after: what the reset gate multiplies
  struct Cell *before, *after;  // the steps that this one follows and that follow it
  int64_t step;
  Node *made;  // the layer in the new graph
} Cell;

// Is n the new state h of a step?  Fills in all but the links.
bool cell_read(Graph *g, Node *n, Cell *out);
// The same weights and biases.
bool cell_same(const Cell *a, const Cell *b);

// A scan or loop whose body is one step: its results, computed by one layer over the whole
// sequence; NULL when it is none.
Node **cell_loop(Graph *g, Arena *a, const Node *n);
// A list of rows put together again, which was `old` before: the tensor that it was cut from; n
// when it is none.
Node *cell_list(Graph *g, Node *n, const Node *old);

#endif
