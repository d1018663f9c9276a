// types.c -- which element types ONNX's operators take, and what is said by others where an
// operator does not take a node's.
//
// Readers refuse a whole file if an operator has a type that it does not support.  So every node is
// checked against types.def.  What no operator set supports is decomposed, cast to a type in which
// the result is the same, or refused by name.
#include "eval/movement.h"
#include "eval/scalar.h"
#include "exporters/onnx/write.h"

static const struct {
  const char *op;
  int64_t since;
  const char *operands, *results;
} table[] = {
#define ONNX_TYPES(op, since, operands, results) {op, since, operands, results},
#include "exporters/onnx/types.def"
#undef ONNX_TYPES
};

static char letter_of(DType t) {
  static const char letter[] = "-fw1x248s?hdyzcCbeEgGuimMvj";  // by ONNX's numbers, which are ours
  return (int64_t)t < (int64_t)sizeof letter - 1 ? letter[t] : '-';
}

static bool fits(const char *groups, int64_t i, const Type *t) {
  if (t->kind != TK_TENSOR || !t->dtype || !*groups) return true;
  for (const char *next; i && (next = strchr(groups, ' ')); i--) groups = next + 1;
  char letter = letter_of(t->dtype);
  for (; *groups && *groups != ' '; groups++)
    if (*groups == '*' || *groups == letter) return true;
  return false;
}

int64_t onnx_types_since(const char *op, const Node *n, uint32_t nsrc) {
  bool known = false;
  for (int64_t k = 0; k < ARRAY_LEN(table); k++) {
    if (strcmp(table[k].op, op) != 0) continue;
    bool takes = known = true;
    for (uint32_t i = 0; i < nsrc && takes; i++)
      takes = n->src[i]->op == OP_none || fits(table[k].operands, i, type_of(n->src[i]));
    for (int i = 0; i < n->nres && takes; i++) takes = fits(table[k].results, i, n->type[i]);
    if (takes) return table[k].since;
  }
  return known ? -1 : 0;
}

const char *onnx_types_refused(Arena *a, const Node *n, uint32_t nsrc) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, "ONNX's operator does not take");
  for (uint32_t i = 0; i < nsrc; i++)
    if (n->src[i]->op != OP_none && type_of(n->src[i])->kind == TK_TENSOR)
      strbuf_printf(&b, "%s %s", i ? "," : "", dtype_name(type_of(n->src[i])->dtype));
  if (type_of(n)->kind == TK_TENSOR)
    strbuf_printf(&b, " to give %s", dtype_name(type_of(n)->dtype));
  return strbuf_text(&b);
}

// ---- other types ----

static Node *as(Graph *g, Node *x, DType t) {
  cast_attrs at = {.to = t, .saturate = true};
  return type_of(x)->dtype == t ? x : NA(g, cast, &at, x);
}

// The node in another type, and its result in its own.
static Node *within(Graph *g, Node *n, DType wide) {
  DType t = type_of(n)->dtype;
  Node **src = arena_dup(&g->arena, n->src, n->nsrc * (int64_t)sizeof *src);
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (src[i]->op != OP_none && type_of(src[i])->dtype == t) src[i] = as(g, src[i], wide);
  return as(g, node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name), t);
}

// Sums and products are the same up to the narrow type's bits, and what is chosen among elements
// fits them.
Node *onnx_widen(Graph *g, Node *n) {
  const char *op;
  DType t = type_of(n)->dtype, wide = dtype_bits(t) < 32 ? DT_I32 : DT_I64;
  (void)onnx_since(n, &op);
  if (!dtype_is_int(t) || t == wide || !op || onnx_types_since(op, n, n->nsrc) >= 0) return NULL;
  return within(g, n, wide);
}

// ONNX has pads of 16-bit integers, ONNX Runtime has not.
Node *onnx_wide_pad(Graph *g, Node *n) {
  DType t = type_of(n)->dtype;
  return t == DT_I16 || t == DT_U16 ? within(g, n, DT_I32) : NULL;
}

Node *onnx_unsigned_relu(Graph *g, Node *n) {
  (void)g;
  return dtype_class(type_of(n)->dtype) == DC_UINT ? n->src[0] : NULL;
}

// ---- shifts ----

enum { WORD = 64 };  // bits in which signed integers are shifted
static const uint64_t SIGN = (uint64_t)1 << (WORD - 1);

// A constant amount within a word, as u64, and where it moves the sign to; what is beyond the word
// counts as `far`.  NULL: it is no constant, or has one beyond where `far` is negative.
static Node *known_amount(Graph *g, const Node *by, int64_t far, Node **out_sign) {
  const void *data;
  const Type *t = type_of(by);
  int64_t dims[MAX_RANK];
  Diag quiet;
  diag_init(&quiet);
  if (by->op != OP_const || const_bytes(g, by, &data, &quiet)) return NULL;
  uint64_t *v = arena_array(&g->arena, uint64_t, by->data->n + 1);
  uint64_t *sign = arena_array(&g->arena, uint64_t, by->data->n + 1);
  for (int64_t i = 0; i < by->data->n; i++) {
    int64_t k = get_i64(t->dtype, data, i);
    if ((k < 0 || k >= WORD) && far < 0) return NULL;
    v[i] = (uint64_t)(k < 0 || k >= WORD ? far : k);
    sign[i] = SIGN >> v[i];
  }
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  *out_sign = node_const(g, DT_I64, t->rank, dims, sign, NULL);
  return node_const(g, DT_U64, t->rank, dims, v, NULL);
}

// ONNX shifts unsigned integers alone, and says nothing of amounts beyond the width.
Node *onnx_signed_shift_left(Graph *g, Node *n) {
  DType t = type_of(n)->dtype;
  if (dtype_class(t) != DC_INT) return NULL;
  Node *sign, *by = known_amount(g, n->src[1], -1, &sign), *fits_word = NULL;
  if (!by) {
    Node *full = as(g, n->src[1], DT_I64);
    by = N(g, bit_and, full, node_i64(g, WORD - 1));
    fits_word = N(g, eq, by, full);
  }
  Node *y = N(g, shift_left, as(g, n->src[0], DT_U64), as(g, by, DT_U64));
  if (fits_word) y = N(g, where, fits_word, as(g, y, DT_I64), node_i64(g, 0));
  return as(g, y, t);
}

// The sign's copies by the sign's new place m: (y ^ m) - m, where y has zeros above it.
Node *onnx_signed_shift_right(Graph *g, Node *n) {
  DType t = type_of(n)->dtype;
  if (dtype_class(t) != DC_INT) return NULL;
  Node *m, *by = known_amount(g, n->src[1], WORD - 1, &m);
  if (!by) {
    Node *full = as(g, n->src[1], DT_I64), *most = node_i64(g, WORD - 1);
    by = as(g, N(g, where, N(g, eq, N(g, bit_and, full, most), full), full, most), DT_U64);
    m = as(g, N(g, shift_right, node_const(g, DT_U64, 0, NULL, &SIGN, NULL), by), DT_I64);
  }
  Node *y = as(g, N(g, shift_right, as(g, n->src[0], DT_U64), by), DT_I64);
  return as(g, N(g, sub, N(g, bit_xor, y, m), m), t);
}
