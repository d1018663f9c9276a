// table.c -- functions of one byte as a table of its 256 values.
//
// A quantised value that is computed element by element from one tensor of bytes and numbers alone
// is a function of a byte, however many operations, roundings and tables are on the way.  The table
// is made by the same nodes over all bytes, and folded: exact.  Worth it where a function of many
// instructions or another table is among them.
#include "eval/index.h"
#include "eval/quant.h"
#include "eval/scalar.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

enum { DEEP = 12 };

typedef struct ByteFunction {
  Graph *g;
  Node *x;      // the bytes; NULL: none were met yet
  bool worthy;  // something expensive is on the way
  Node *all;    // every byte, while the table is made; NULL: looking
} ByteFunction;

static bool is_byte(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 0 && (t->dtype == DT_U8 || t->dtype == DT_I8);
}

static bool is_expensive(const Node *n) { return op_info(n->op)->expense >= EXPENSE_SEVERAL; }

// Made of constants alone; it need not be folded yet.
static bool is_fixed(const Node *n, int depth) {
  if (n->op == OP_const) return true;
  if (n->op == OP_param || !n->nsrc || depth > DEEP) return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (!is_fixed(n->src[i], depth + 1)) return false;
  return true;
}

static bool is_number(const Node *n) {
  return type_of(n)->kind == TK_TENSOR && type_of(n)->rank == 0 && is_fixed(n, 0);
}

// A look-up that such a rule made: a table of constants, at bytes as they are.
static bool is_lookup(const Node *n) {
  if (n->op != OP_gather || n->src[1]->op != OP_cast || !is_byte(n->src[1]->src[0])) return false;
  const Type *t = type_of(n->src[0]);
  return t->kind == TK_TENSOR && t->rank == 1 && ie_is(t->dims[0], 256) && is_fixed(n->src[0], 0);
}

// One result element for one of the bytes.
static bool by_element(const Node *n) {
  if (n->nres != 1 || n->op == OP_const || n->op == OP_param) return false;
  if (n->op == OP_quantize_linear) return !((const quantize_linear_attrs *)n->attrs)->block_size;
  if (n->op == OP_dequantize_linear)
    return !((const dequantize_linear_attrs *)n->attrs)->block_size;
  return op_info(n->op)->flags & OPF_ELEMENTWISE || n->op == OP_cast || is_lookup(n);
}

static bool look(ByteFunction *f, Node *n, int depth);

static bool look_inside(ByteFunction *f, Node *n, int depth) {
  if (!by_element(n) || depth > DEEP) return false;
  f->worthy |= is_expensive(n) || is_lookup(n);
  for (uint32_t i = is_lookup(n); i < n->nsrc; i++)
    if (n->src[i] != f->g->none && !look(f, n->src[i], depth + 1)) return false;
  return true;
}

// Bytes are what a function of bytes begins with, unless they are one of other bytes themselves.
static bool look(ByteFunction *f, Node *n, int depth) {
  if (is_number(n)) return true;
  if (!is_byte(n)) return look_inside(f, n, depth);
  ByteFunction under = *f;
  if (look_inside(&under, n, depth) && under.x) {
    *f = under;
    return true;
  }
  if (f->x && f->x != n) return false;
  f->x = n;
  return n->op != OP_const;
}

// The same nodes over every byte.
static Node *over_all(ByteFunction *f, Node *n) {
  if (n == f->x) return f->all;
  if (n == f->g->none || is_number(n)) return n;
  Node **src = arena_array(&f->g->scratch, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++)
    src[i] = i == 0 && is_lookup(n) ? n->src[0] : over_all(f, n->src[i]);
  return node_new(f->g, n->op, (int)n->nsrc, src, n->attrs, 1, NULL);
}

// Every byte in the order in which it is an index: negative ones count from the end.
static Node *all_bytes(Graph *g, DType t) {
  uint8_t v[256];
  int64_t n = 256;
  for (int i = 0; i < 256; i++) v[i] = (uint8_t)i;
  return node_const(g, t, 1, &n, v, NULL);
}

Node *rec_byte_table(Graph *g, const Match *m) {
  Node *root = m->root;
  ByteFunction f = {.g = g};
  if (!is_byte(root) || !look_inside(&f, root, 0) || !f.x || !f.worthy) return NULL;
  f.all = all_bytes(g, type_of(f.x)->dtype);
  Node *table = over_all(&f, root);
  Node *index = NA(g, cast, (&(cast_attrs){.to = DT_I32, .saturate = true}), f.x);
  return N(g, gather, table, index);
}
