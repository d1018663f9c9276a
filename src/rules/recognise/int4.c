// int4.c -- GEMMs with, and gathers of, weight-only quantized weights (unpack_n_bits),
// which stay packed.
//
// A product subtracts a zero of the stored numbers instead of what is taken off each block: less /
// scale, a float.  A block whose scale is 0 has none; where something is taken off it, the weights
// are unpacked after all.
#include "eval/contrib.h"
#include "eval/index.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

static const float *floats(Graph *g, const Node *n) {
  const void *p;
  Diag quiet;
  diag_init(&quiet);
  return n && n->op == OP_const && !const_elements(g, n, &g->scratch, &p, &quiet) ? p : NULL;
}

static bool has_less(const Graph *g, const Node *u) { return u->nsrc > 2 && u->src[2] != g->none; }

// The zeros of a product, [rows, blocks].  False: a block has none.  NULL: half the range for all.
static bool zeros_of(Graph *g, const Node *u, Node **out) {
  const unpack_n_bits_attrs *at = u->attrs;
  const Node *less = has_less(g, u) ? u->src[2] : NULL;
  *out = NULL;
  if (!less && at->zero == 1 << (at->bits - 1)) return true;
  const float *s = floats(g, u->src[1]), *l = less ? floats(g, less) : NULL;
  const Type *t = type_of(u->src[1]);
  int64_t dims[] = {t->dims[0]->value, t->dims[1]->value}, n = dims[0] * dims[1];
  if (!s || (less && !l)) return false;
  float *z = mem_alloc(MAX(n, 1) * (int64_t)sizeof *z);
  if (!z) trap_raise(TENON_ENOMEM, "out of memory");
  bool fine = true;
  for (int64_t i = 0; i < n && fine; i++) {
    float off = l ? l[i] : 0;
    fine = s[i] != 0 || off == 0;
    z[i] = (float)at->zero + (s[i] != 0 ? off / s[i] : 0);
    fine = fine && z[i] - z[i] == 0;
  }
  if (fine)
    *out = node_const_take(g, DT_F32, 2, dims, z, MAX(n, 1) * (int64_t)sizeof *z, NULL);
  else
    mem_free(z, MAX(n, 1) * (int64_t)sizeof *z);
  return fine;
}

static bool is_packed(const Node *u) {
  return u->op == OP_unpack_n_bits && u->src[0]->op == OP_const && u->src[1]->op == OP_const;
}

static Node *product(Graph *g, const Match *m, bool less) {
  const Node *transposed = m->root->src[1];
  if (transposed->op != OP_transpose || !is_packed(transposed->src[0])) return NULL;
  const transpose_attrs *perm = transposed->attrs;
  const Node *u = transposed->src[0];
  const Type *x = type_of(m->root->src[0]);
  if ((perm->perm.n == 2 && perm->perm.v[0] != 1) || has_less(g, u) != less) return NULL;
  if (x->dtype != DT_F32 || x->rank < 1) return NULL;
  mat_mul_n_bits_attrs at = {.bits = ((const unpack_n_bits_attrs *)u->attrs)->bits};
  Node *zeros;
  if (!zeros_of(g, u, &zeros)) return NULL;
  Node *src[] = {m->root->src[0], u->src[0], u->src[1], zeros};
  return node_new(g, OP_mat_mul_n_bits, zeros ? 4 : 3, src, &at, 1, m->root->name);
}

static Node *make_product(Graph *g, const Match *m) { return product(g, m, false); }
static Node *make_product_less(Graph *g, const Match *m) { return product(g, m, true); }

// Rows of a table are taken out packed.
static Node *make_rows(Graph *g, const Match *m) {
  const gather_attrs *at = m->root->attrs;
  const Node *u = m->root->src[0];
  const Type *t = type_of(m->root->src[1]);
  if (at->axis != 0 || !is_packed(u) || t->rank != 1) return NULL;
  Node *src[3];
  for (uint32_t i = 0; i < u->nsrc; i++)
    src[i] = u->src[i] == g->none
                 ? g->none
                 : node_new(g, OP_gather, 2, (Node *[]){u->src[i], m->root->src[1]}, at, 1, NULL);
  return node_new(g, OP_unpack_n_bits, (int)u->nsrc, src, u->attrs, 1, m->root->name);
}

#define PACKED                                                                                     \
  "%q = const u8[2, 2, 2] {18, 52, 86, 120, 154, 188, 222, 240} %s = const f32[2, 2] {0.5, -1, "   \
  "2, 0.25} "
static const Rule int4[] = {
    // clang-format off
    RULE("mat_mul.n_bits", P(mat_mul, a, b), .make = make_product,
         .example = "(%x: f32[n, 8]) { " PACKED "%w = unpack_n_bits(%q, %s) bits=4 zero=8 %t = transpose(%w) perm=[1, 0] %r = mat_mul(%x, %t) return %r }"),
    RULE("mat_mul.n_bits_less", P(mat_mul, a, b), .make = make_product_less, .fast = FAST_APPROX,
         .example = "(%x: f32[n, 8]) { " PACKED "%l = const f32[2, 2] {0.5, 2, -1, 0.125} %w = unpack_n_bits(%q, %s, %l) bits=4 "
                    "%t = transpose(%w) perm=[1, 0] %r = mat_mul(%x, %t) return %r }"),
    RULE("gather.n_bits", ANY(gather), .make = make_rows,
         .example = "(%i: i64[n]) { " PACKED "%w = unpack_n_bits(%q, %s) bits=4 zero=8 %r = gather(%w, %i) return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_int4 =
    RULES("recognise_int4", int4, "each rule leaves fewer weights to unpack");
