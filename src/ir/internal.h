// internal.h -- what the files of ir/ share and nobody else sees.
#ifndef TENON_IR_INTERNAL_H
#define TENON_IR_INTERNAL_H

#include "eval/foreign.h"
#include "ir/opinfo.h"

// Hash-consing tables: open addressing, power-of-two capacity, NULL = free slot.
typedef struct GraphTable {
  Node **node;
  int64_t nnodes, node_cap;
  const Type **type;
  int64_t ntypes, type_cap;
} GraphTable;

void table_init(Graph *g);
const Type *type_intern(Graph *g, Type t);
// The interned node equal to `key`, or NULL; attributes are compared by the op's table.
Node *table_find_node(Graph *g, const Node *key);
void table_add_node(Graph *g, Node *n);

// The least and greatest operand count that an op's list allows; INT32_MAX = repeated last one.
void op_operand_range(const OpInfo *op, int *lo, int *hi);

// What an op's inference gets of a node; the types go to `type`, of which there are as many as
// results.
Infer infer_of(Graph *g, const Node *n, const Type **type, Where at, Diag *d);
// Works out n->known from constant operands, where that is cheap (known.c).
void node_compute_known(Graph *g, Node *n);
// A value in the graph's arena over bytes that live as long; the type is static.
Value *known_value(Graph *g, const Type *t, const void *data);

// Gives a moved constant its bytes (moved.c).
MUST_USE tenon_status const_move(Graph *g, const Node *n, Diag *d);

// Charges the run's budget with what evaluating a node takes, as far as it is known before, and has
// the evaluation charge the rest (work.c).
MUST_USE tenon_status work_begin(Eval *e, const Node *n);

typedef struct proj_attrs {
  int64_t index;
} proj_attrs;
typedef struct param_attrs {
  int64_t instance;  // params never merge
  bool state;
} param_attrs;

#endif
