// import_random.c -- random bits, exactly as the specification's algorithms give them.
#include "frontends/stablehlo/import.h"

// ---- Threefry-2x32, 20 rounds ----
static Node *u32(Graph *g, uint64_t v) { return hb_u64(g, DT_U32, v); }
static Node *rotate_left(Graph *g, Node *x, int by) {
  return N(g, bit_or, N(g, shift_left, x, u32(g, (uint64_t)by)),
           N(g, shift_right, x, u32(g, (uint64_t)(32 - by))));
}
static void threefry(Graph *g, Node *k0, Node *k1, Node **x0, Node **x1) {
  static const int turn[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Node *key[3] = {k0, k1, N(g, bit_xor, N(g, bit_xor, k0, k1), u32(g, 0x1BD11BDA))};
  *x0 = N(g, add, *x0, key[0]);
  *x1 = N(g, add, *x1, key[1]);
  for (int i = 0; i < 5; i++) {
    for (int r = 0; r < 4; r++) {
      *x0 = N(g, add, *x0, *x1);
      *x1 = N(g, bit_xor, rotate_left(g, *x1, turn[i % 2][r]), *x0);
    }
    *x0 = N(g, add, *x0, key[(i + 1) % 3]);
    *x1 = N(g, add, *x1, N(g, add, key[(i + 2) % 3], u32(g, (uint64_t)i + 1)));
  }
}

// ---- Philox-4x32, 10 rounds ----
static Node *high(Graph *g, Node *x, uint64_t m) {
  Node *p = N(g, mul, hb_cast(g, x, DT_U64), hb_u64(g, DT_U64, m));
  return hb_cast(g, N(g, shift_right, p, hb_u64(g, DT_U64, 32)), DT_U32);
}
static void philox(Graph *g, Node *k0, Node *k1, Node **x) {
  for (int i = 0; i < 10; i++) {
    Node *h0 = high(g, x[0], 0xD2511F53), *l0 = N(g, mul, x[0], u32(g, 0xD2511F53));
    Node *h1 = high(g, x[2], 0xCD9E8D57), *l1 = N(g, mul, x[2], u32(g, 0xCD9E8D57));
    Node *y0 = N(g, bit_xor, N(g, bit_xor, h1, x[1]), k0),
         *y2 = N(g, bit_xor, N(g, bit_xor, h0, x[3]), k1);
    x[0] = y0;
    x[1] = l1;
    x[2] = y2;
    x[3] = l0;
    k0 = N(g, add, k0, u32(g, 0x9E3779B9));
    k1 = N(g, add, k1, u32(g, 0xBB67AE85));
  }
}

static Node *low_word(Graph *g, Node *x) {
  return hb_cast(g, N(g, bit_and, x, hb_u64(g, DT_U64, 0xFFFFFFFF)), DT_U32);
}
static Node *high_word(Graph *g, Node *x) {
  return hb_cast(g, N(g, shift_right, x, hb_u64(g, DT_U64, 32)), DT_U32);
}
static Node *word(Graph *g, Node *state, int64_t i) {
  return hb_reshape(g, hb_slice1(g, state, 0, i, i + 1, 1), 0, NULL);
}
static Node *wide(Graph *g, Node *lo, Node *hi) {
  Node *h = N(g, shift_left, hb_cast(g, hi, DT_U64), hb_u64(g, DT_U64, 32));
  return N(g, bit_or, hb_cast(g, lo, DT_U64), h);
}

// Columns of words, one after another in memory or row by row.
static Node *joined(Graph *g, int n, Node *const *x, int64_t rows, bool by_rows) {
  Node *part[4];
  for (int i = 0; i < n; i++)
    part[i] = hb_reshape(g, x[i], 2, by_rows ? (int64_t[]){rows, 1} : (int64_t[]){1, rows});
  return hb_reshape(g, hb_concat(g, by_rows, n, part), 1, (int64_t[]){n * rows});
}

// Blocks that the counter's numbers give: as u32 words, or as u64 pairs of them.
static Node *blocks(HloCall *c, bool fry, Node *key, Node *counter, int64_t n, bool wide_words) {
  Graph *g = c->g;
  int words = fry ? 2 : 4;
  int64_t per = wide_words ? words / 2 : words, rows = (n + per - 1) / per;
  Node *at = N(g, add, hb_iota(g, DT_U64, 1, &rows, 0), counter);
  Node *k0 = low_word(g, key), *k1 = high_word(g, key), *x[4];
  x[0] = low_word(g, at);
  x[1] = high_word(g, at);
  if (fry) {
    threefry(g, k0, k1, &x[0], &x[1]);
  } else {
    x[2] = k0;
    x[3] = k1;
    philox(g, k0, k1, x);
  }
  if (!wide_words) return joined(g, words, x, rows, !fry);
  Node *pair[2] = {wide(g, x[0], x[1]), fry ? NULL : wide(g, x[2], x[3])};
  return joined(g, words / 2, pair, rows, true);
}

static void rng_bit_generator(HloCall *c) {
  const char *algorithm = mlir_word(mlir_attr(c->op, "rng_algorithm"), "");
  int64_t dims[MAX_RANK], n;
  const MlirType *t = c->nout == 2 ? c->type[1] : NULL;
  if (!t || !hlo_static_type(c, t, dims) || !mlir_type_count(t, &n) || c->g->status) return;
  Graph *g = c->g;
  DType to = hlo_dtype(c, t);
  Node *state = hlo_in(c, 0);
  bool fry = strcmp(algorithm, "PHILOX") != 0;
  if (g->status || type_of(state)->dtype != DT_U64 || dtype_bits(to) < 8 || !n) {
    hlo_refuse(c, "%s of this state or type", algorithm);
    return;
  }
  Node *key = word(g, state, 0), *counter = word(g, state, 1);
  bool wide_words = dtype_bits(to) == 64;
  Node *bits = hb_slice1(g, blocks(c, fry, key, counter, n, wide_words), 0, 0, n, 1);
  if (dtype_bits(to) < 32) bits = hb_cast(g, bits, dtype_bits(to) == 16 ? DT_U16 : DT_U8);
  bits = hb_reshape(g, hb_bits(g, bits, to), (int)t->rank, dims);
  int64_t per = (fry ? 2 : 4) / (wide_words ? 2 : 1), rows = (n + per - 1) / per;
  int64_t one = 1, len = type_of(state)->dims[0]->value;
  Node *next = hb_reshape(g, N(g, add, counter, hb_u64(g, DT_U64, (uint64_t)rows)), 1, &one);
  Node *part[] = {hb_slice1(g, state, 0, 0, 1, 1), next,
                  len > 2 ? hb_slice1(g, state, 0, 2, len, 1) : NULL};
  hlo_give_value(c, 0, (HloValue){.re = hb_concat(g, 0, len > 2 ? 3 : 2, part)});
  hlo_give_value(c, 1, (HloValue){.re = bits});
}

static const HloRow rows[] = {
    {"stablehlo.rng_bit_generator", rng_bit_generator, 0, HLO_OWN, "Threefry and Philox"},
    {"stablehlo.rng", NULL, 0, HLO_OWN, "draws from no seed: use rng_bit_generator"},
};
HLO_TABLE(hlo_random);
