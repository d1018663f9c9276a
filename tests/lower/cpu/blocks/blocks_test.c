// blocks_test.c -- products with matrices in ggml's block types, as loops and as machine code,
// against the interpreter: every bit of those of integers, a bound for those of floats.
//
// Numbers of rows around those of a tile, columns that fill no panel, epilogues, scales that are
// ordinary, and blocks of bits at random, whose scales are infinite, NaN and subnormal as well.
#include "compiled.h"
#include "eval/blocks.h"
#include "test.h"

#include <ctype.h>
#include <math.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (int64_t)(rng % (uint64_t)n);
}

static const GgmlType *type;
static bool extreme;    // scales are any bits, and rows of x have an infinity, a NaN, tiny blocks
static bool same_rows;  // all rows of x are equal

static int scales_of(int *at) {
  static const struct {
    const char *name;
    int at[2];
  } far[] = {{"Q2_K", {80, 82}}, {"Q3_K", {108, -1}}, {"Q6_K", {208, -1}}, {"MXFP4", {-1, -1}}};
  at[0] = 0;
  at[1] = type->has_less ? 2 : -1;
  for (int i = 0; i < ARRAY_LEN(far); i++)
    if (!strcmp(far[i].name, type->name)) memcpy(at, far[i].at, sizeof far[i].at);
  return (at[0] >= 0) + (at[1] >= 0);
}

static void fill_x(Value *v) {
  int64_t k = v->dims[v->rank - 1];
  for (int64_t i = 0; i < v->n; i++) {
    double x = same_rows && i >= k ? val_f64(v, i - k) : (double)draw(2000) / 100 - 10;
    int64_t which = extreme ? draw(2000) : 99;
    if (which < 3) x = which == 0 ? (double)INFINITY : which == 1 ? (double)NAN : 1e30;
    if (extreme && i / 32 % 5 == 0) x *= 1e-31;
    val_put_f64(v, i, x);
  }
}

static void fill(Value *v) {
  if (v->dtype == DT_F32) {
    fill_x(v);
    return;
  }
  uint8_t *w = v->data;
  for (int64_t i = 0; i < v->n; i++) w[i] = (uint8_t)draw(256);
  int at[2], n = scales_of(at);
  for (int64_t i = 0; !extreme && i < v->n / type->bytes; i++)
    for (int k = 0; k < MAX(n, 1); k++) {
      if (!n) w[i * type->bytes] = (uint8_t)(118 + draw(12));
      if (!n) break;
      // A magnitude of 2^-9 to 2^-6, with either sign.
      w[i * type->bytes + at[k] + 1] = (uint8_t)(0x18 + draw(12) + 128 * draw(2));
    }
}

static bool same_bits(const Value *a, const Value *b) {
  const float *x = a->data, *y = b->data;
  for (int64_t i = 0; i < a->n; i++)
    if (memcmp(&x[i], &y[i], sizeof *x) && !(isnan(x[i]) && isnan(y[i]))) {
      printf("element %d is %.9g instead of %.9g\n", (int)i, (double)y[i], (double)x[i]);
      return false;
    }
  return true;
}

static bool near(const Value *a, const Value *b, double bound) {
  double largest = 0;
  for (int64_t i = 0; i < a->n; i++)
    if (!isnan(val_f64(a, i))) largest = fmax(largest, fabs(val_f64(a, i)));
  for (int64_t i = 0; i < a->n; i++)
    if (!(isnan(val_f64(a, i)) && isnan(val_f64(b, i))) &&
        !(fabs(val_f64(a, i) - val_f64(b, i)) <= bound * largest))
      return false;
  return true;
}

typedef struct BlocksCase {
  const char *rows;
  int k, n;
  const char *how, *more;  // more: of %p, which is the product, gives %y
} BlocksCase;

static void check(const BlocksCase *c, const char *target) {
  static BothWays w;
  char text[640];
  int choice = block_choice((int)(type - ggml_type));
  Str name = attr_choice_word(BLOCK_TYPES, choice);
  snprintf(text, sizeof text,
           "graph @\"g\"(%%x: f32[%s, %d], %%w: u8[%d, %d], %%c: f32[%d]) {\n"
           "  %%p = mat_mul_blocks(%%x, %%w) type=%.*s k=%d activations=%s\n%s  return %%%s\n}\n",
           c->rows, c->k, c->n, c->k / type->block * type->bytes, c->n, STR_ARG(name), c->k, c->how,
           c->more ? c->more : "", c->more ? "y" : "p");
  rng = (uint64_t)c->k;
  if (!both_ways_run(&w, text, target, fill, NULL, NULL)) {
    FAIL("%s\n%s", w.diag.text, text);
  } else {
    bool ints = !strcmp(c->how, "int8");
    EXPECT_INT_EQ(w.program->nkernels, ints ? 2 : 1);  // none is left to the host
    if (ints ? !same_bits(w.want[0], w.got[0]) : !near(w.want[0], w.got[0], 4e-6))
      FAIL("%s%s: other results\n%s", target, extreme ? ", extreme" : "", text);
    const uint8_t *row = w.got[0]->data;
    for (int64_t i = 1; same_rows && i < w.got[0]->n / c->n; i++)
      if (memcmp(row, row + i * c->n * 4, (size_t)c->n * 4))
        FAIL("row %d is not that of others\n%s", (int)i, text);
  }
  both_ways_free(&w);
}

static void check_all(const BlocksCase *c) {
  check(c, "ref");
  if (target_available(target_find("cpu"))) check(c, "cpu");
}

static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1",   "Q8_0",   "Q2_K", "Q3_K",
                                    "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};

static const GgmlType *named(const char *name) {
  for (int i = 0; i < GGML_NTYPES; i++)
    if (ggml_type[i].name && !strcmp(ggml_type[i].name, name)) return &ggml_type[i];
  return NULL;
}

TEST(blocks_of_every_type) {
  for (int i = 0; i < ARRAY_LEN(types); i++) {
    type = named(types[i]);
    int k = type->block == 32 ? 96 : 512;
    check_all(&(BlocksCase){"3", k, 37, "int8", NULL});
    check_all(&(BlocksCase){"m", k, 32, "f32", NULL});
    extreme = true;
    check_all(&(BlocksCase){"5", k, 48, "int8", NULL});
    extreme = false;
  }
}

// ---- types without blocks ----

typedef struct PlainCase {
  const char *type;
  int bytes, k, n, rows, elements;  // rows and elements of a tile with a scale; -1: no scales
  int nan;                          // a byte that is NaN; 0: none
} PlainCase;
static const PlainCase *plain;

// Ordinary numbers of the type.
static uint8_t plain_byte(int64_t i) {
  int64_t b = draw(256);
  if (!strcmp(plain->type, "i8")) return (uint8_t)b;
  if (plain->bytes == 1) return (uint8_t)(b & 0xbf);
  return (uint8_t)(i % 2 ? 0x3a + b % 4 + (b & 0x80) : b);
}

static void fill_plain(Value *v) {
  if (v->dtype == DT_F32)
    for (int64_t i = 0; i < v->n; i++) val_put_f64(v, i, (double)draw(2000) / 100 - 10);
  else
    for (int64_t i = 0; i < v->n; i++) ((uint8_t *)v->data)[i] = plain_byte(i);
  if (v->dtype == DT_U8 && plain->nan) ((uint8_t *)v->data)[plain->k + 5] = (uint8_t)plain->nan;
}

static void check_plain(const PlainCase *c, const char *m, const char *target) {
  static BothWays w;
  char text[500], scale[64] = "", more[64] = "";
  plain = c;
  int rows = c->rows ? c->rows : c->n, each = c->elements ? c->elements : c->k;
  if (c->rows >= 0) {
    snprintf(scale, sizeof scale, ", %%s: f32[%d, %d]", (c->n + rows - 1) / rows,
             (c->k + each - 1) / each);
    snprintf(more, sizeof more, "scale_rows=%d scale_k=%d", c->rows, c->elements);
  }
  snprintf(text, sizeof text,
           "graph @\"g\"(%%x: f32[%s, %d], %%w: u8[%d, %d]%s) {\n"
           "  %%y = mat_mul_blocks(%%x, %%w%s) type=%s k=%d %s\n  return %%y\n}\n",
           m, c->k, c->n, c->k * c->bytes, scale, *scale ? ", %s" : "", c->type, c->k, more);
  rng = (uint64_t)c->k;
  if (!both_ways_run(&w, text, target, fill_plain, NULL, NULL)) {
    FAIL("%s\n%s", w.diag.text, text);
  } else {
    EXPECT_INT_EQ(w.program->nkernels, 1);
    if (!near(w.want[0], w.got[0], 4e-6)) FAIL("%s: other results\n%s", target, text);
    for (int64_t i = 0; i < w.want[0]->n; i++)
      EXPECT(!isnan(val_f64(w.want[0], i)) == (!c->nan || i % c->n != 1));
  }
  both_ways_free(&w);
}

TEST(blocks_of_plain_types) {
  static const PlainCase c[] = {
      {"bf16", 2, 96, 37, -1, 0, 0},     {"bf16", 2, 34, 16, -1, 0, 0},
      {"f16", 2, 512, 32, -1, 0, 0},     {"f16", 2, 64, 5, 2, 32, 0},
      {"f8e4m3", 1, 96, 37, -1, 0, 0},   {"f8e4m3", 1, 256, 200, 128, 128, 0},
      {"f8e4m3", 1, 200, 33, 0, 0, 0},   {"f8e4m3", 1, 192, 48, 1, 64, 0x7f},
      {"f8e4m3", 1, 36, 48, -1, 0, 255}, {"f8e5m2", 1, 96, 37, 1, 0, 0},
      {"i8", 1, 100, 70, 1, 0, 0},       {"i8", 1, 128, 64, -1, 0, 0},
  };
  for (int i = 0; i < ARRAY_LEN(c); i++) {
    check_plain(&c[i], i % 2 ? "3" : "m", "ref");
    if (target_available(target_find("cpu"))) check_plain(&c[i], i % 2 ? "m" : "14", "cpu");
  }
}

TEST(blocks_give_rows_the_same_bits) {
  static const char *const rows[] = {"1", "2", "3", "5", "17", "64", "2, 3", "300"};
  for (int i = 0; i < ARRAY_LEN(rows); i++)
    for (int t = 0; t < 2; t++) {
      type = named(t ? "Q4_K" : "Q4_1");
      same_rows = !strchr(rows[i], ',');
      check(&(BlocksCase){rows[i], 256, 24, "int8", NULL}, "ref");
      if (!target_available(target_find("cpu"))) continue;
      check(&(BlocksCase){rows[i], 512, 40, "int8", NULL}, "cpu");
      check(&(BlocksCase){rows[i], 512, 40, "f32", NULL}, "cpu");
      same_rows = false;
    }
}

TEST(blocks_with_epilogues) {
  static const char *const more[] = {
      "  %a = add(%p, %c)\n  %y = relu(%a)\n",
      "  %s = sigmoid(%p)\n  %g = mul(%s, %p)\n  %y = mul(%g, %c)\n",
      "  %n = neg(%p)\n  %y = transpose(%n) perm=[1, 0]\n",
  };
  type = named("Q8_0");
  for (int i = 0; i < ARRAY_LEN(more); i++) {
    // A sigmoid is another polynomial than the evaluation's.
    BlocksCase c = {"m", 64, 33, i == 1 ? "f32" : "int8", more[i]};
    check_all(&c);
  }
}

// ---- several matrices ----

typedef struct GroupCase {
  const char *type, *x, *group, *how;
  int bytes, block, k, n, groups;
} GroupCase;
static const GroupCase *grouped;

static void fill_groups(Value *v) {
  bool plain_type = grouped->block == 1;
  if (v->dtype == DT_I32 || v->dtype == DT_I64) {
    for (int64_t i = 0; i < v->n; i++) val_put_i64(v, i, draw(grouped->groups));
  } else if (v->dtype == DT_U8 && plain_type) {
    for (int64_t i = 0; i < v->n; i++)
      ((uint8_t *)v->data)[i] =
          (uint8_t)(i % grouped->bytes == grouped->bytes - 1 ? 0x3a + draw(4) : draw(256));
  } else {
    fill(v);
  }
}

static void check_group(const GroupCase *c, const char *target) {
  static BothWays w;
  char text[500];
  grouped = c;
  type = named(c->block == 1 ? "Q4_0" : c->type);
  char lower[16];
  snprintf(lower, sizeof lower, "%s", c->type);
  for (char *p = lower; *p; p++) *p = (char)tolower((unsigned char)*p);
  snprintf(text, sizeof text,
           "graph @\"g\"(%%x: f32[%s, %d], %%w: u8[%d, %d], %%i: %s) {\n"
           "  %%p = mat_mul_blocks(%%x, %%w, _, %%i) type=%s k=%d groups=%d activations=%s\n"
           "  %%y = relu(%%p)\n  return %%y\n}\n",
           c->x, c->k, c->n * c->groups, c->k / c->block * c->bytes, c->group, lower, c->k,
           c->groups, c->how);
  rng = (uint64_t)c->k;
  bool ints = !strcmp(c->how, "int8");
  if (!both_ways_run(&w, text, target, fill_groups, NULL, NULL)) {
    FAIL("%s\n%s", w.diag.text, text);
  } else {
    EXPECT_INT_EQ(w.program->nkernels, ints ? 2 : 1);
    if (ints ? !same_bits(w.want[0], w.got[0]) : !near(w.want[0], w.got[0], 4e-6))
      FAIL("%s: other results\n%s", target, text);
  }
  both_ways_free(&w);
}

TEST(blocks_of_several_matrices) {
  static const GroupCase c[] = {
      {"Q4_K", "9, 2", "i64[9, 2]", "int8", 144, 256, 512, 37, 5},
      {"Q4_0", "m", "i32[m, 3]", "int8", 18, 32, 96, 48, 4},
      {"Q6_K", "m", "i32[m]", "int8", 210, 256, 256, 16, 300},
      {"IQ4_NL", "40", "i32[40, 2]", "f32", 18, 32, 64, 33, 2},
      {"MXFP4", "1", "i64[1, 4]", "int8", 17, 32, 64, 64, 8},
      {"BF16", "7", "i64[7, 2]", "f32", 2, 1, 34, 21, 3},
      {"F32", "m", "i32[m, 2]", "f32", 4, 1, 40, 40, 3},
      {"F16", "700, 4", "i32[700, 4]", "f32", 2, 1, 16, 8, 3},
  };
  for (int i = 0; i < ARRAY_LEN(c); i++) {
    check_group(&c[i], "ref");
    if (target_available(target_find("cpu"))) check_group(&c[i], "cpu");
  }
}
