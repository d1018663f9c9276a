// index_list_test.c -- products by pruned weights walk a list of K steps, and give the dense
// product's bits.
#include "compiled.h"
#include "test.h"

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) ((float *)v->data)[i] = (float)((i * 37) % 23) / 8 - 1;
}

typedef struct Layer {
  const char *x, *shape;  // of the operand, and of the weights
  int64_t k, n;
  const char *op;     // that makes %p of %x and %w
  int64_t width, of;  // each `of`-th K step of `width` columns is kept
} Layer;

static const Layer layers[] = {
    {"29, 90", "90, 150", 90, 150, "mat_mul(%x, %w)", 32, 2},
    {"1, 90", "90, 150", 90, 150, "mat_mul(%x, %w)", 64, 4},
    {"m, 64", "64, 96", 64, 96, "mat_mul(%x, %w)", 32, 4},
    {"2, 5, 7, 40", "1, 1, 40, 72", 40, 72, "conv(%x, %w) channels_last=true", 32, 3},
    {"1, 9, 8, 40", "1, 1, 40, 72", 40, 72, "conv(%x, %w) channels_last=true strides=[2, 2]", 32,
     3},
    {"33, 70", "70, 40", 70, 40, "mat_mul(%x, %w)", 64, 70},  // one step is left
};

// Panels keep other steps each; the last panel of the last layer keeps none but one.
static bool is_kept(const Layer *l, int64_t k, int64_t column) {
  return (k + column / l->width) % l->of == 0;
}

static const char *text_of(Arena *a, const Layer *l, bool scattered) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[%s]) {\n  %%w = const f32[%s] {", l->x, l->shape);
  for (int64_t i = 0; i < l->k * l->n; i++) {
    bool kept = scattered ? i * 7 % 10 < 5 : is_kept(l, i / l->n, i % l->n);
    strbuf_printf(&b, "%s%g", i ? ", " : "", kept ? (double)((i * 29) % 17 - 8.5) * 0.124 : 0);
  }
  strbuf_printf(&b, "}\n  %%p = %s\n  %%y = relu(%%p)\n  return %%y\n}\n", l->op);
  return strbuf_text(&b);
}

typedef struct Made {
  BothWays b;
  Compiled c;
  bool ok, listed;
} Made;

static void make(const char *text, const char *target, unsigned fast, const char *schedule,
                 Made *m) {
  Asked asked = {.compiled = &m->c, .fast = fast, .schedule = schedule, .advised = true};
  m->c = (Compiled){0};
  m->ok = both_ways_run(&m->b, text, target, fill, compile_asked, &asked);
  if (!m->ok) FAIL("%s\n%.200s", m->b.diag.text, text);
  if (m->c.ndeclined) FAIL("%s\n%.200s", first_declined(&m->c, ""), text);
  m->listed = false;
  for (int64_t i = 0; m->ok && i < m->c.nkernels; i++)
    m->listed |= strstr(m->c.kernel[i].text.p, "index_list=true") != NULL;
}

static bool same_bits(const Made *a, const Made *b) {
  const Value *x = a->b.got[0], *y = b->b.got[0];
  return a->ok && b->ok && x->n == y->n && !memcmp(x->data, y->data, (size_t)x->n * sizeof(float));
}

static void compare(const Layer *l, const char *target) {
  Arena a;
  Made list, dense;
  arena_init(&a);
  const char *text = text_of(&a, l, false);
  make(text, target, fast_flags(), NULL, &list);
  make(text, target, fast_flags(), "*=gemm index_list=false", &dense);
  EXPECT(!dense.listed);
  if (!list.listed) FAIL("%s: no list is walked: %.100s", target, text);
  if (!same_bits(&list, &dense)) FAIL("%s: other bits: %.100s", target, text);
  both_ways_free(&list.b);
  both_ways_free(&dense.b);
  arena_deinit(&a);
}

TEST(pruned_weights_are_walked_by_a_list) {
  for (int i = 0; i < ARRAY_LEN(layers); i++) {
    compare(&layers[i], "cpu");
    compare(&layers[i], "ref");
  }
}

// Zeros that leave a weight in each panel of each step are no reason.
TEST(scattered_zeros_are_multiplied) {
  Arena a;
  Made m;
  arena_init(&a);
  make(text_of(&a, &layers[0], true), "ref", fast_flags(), NULL, &m);
  EXPECT(!m.listed);
  both_ways_free(&m.b);
  arena_deinit(&a);
}

// NaN times 0 is NaN: who asks for every bit gets the dense product.
TEST(exact_products_walk_no_list) {
  Arena a;
  Made m;
  arena_init(&a);
  make(text_of(&a, &layers[0], false), "ref", 0, NULL, &m);
  EXPECT(!m.listed);
  both_ways_free(&m.b);
  arena_deinit(&a);
}

static const char *chain_text(Arena *a, bool pruned) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[1, 14, 14, 16]) {\n  %%w = const f32[1, 1, 16, 64] {");
  for (int i = 0; i < 16 * 64; i++)
    strbuf_printf(&b, "%s%g", i ? ", " : "", pruned && i / 64 % 4 ? 0 : 0.25 * (i % 7 - 3.5));
  strbuf_printf(&b, "}\n  %%d = const f32[3, 3, 1, 64] {");
  for (int i = 0; i < 9 * 64; i++) strbuf_printf(&b, "%s%g", i ? ", " : "", 0.125 * (i % 5 - 2));
  strbuf_printf(&b, "}\n  %%e = conv(%%x, %%w) channels_last=true\n  %%r = relu(%%e)\n"
                    "  %%y = conv(%%r, %%d) channels_last=true group=64 pads=[1, 1, 1, 1]\n"
                    "  return %%y\n}\n");
  return strbuf_text(&b);
}

// A convolution that walks a list has a kernel of its own, not a part of a chain.
TEST(pruned_convolutions_are_in_no_chain) {
  for (int pruned = 0; pruned < 2; pruned++) {
    Arena a;
    Made m;
    arena_init(&a);
    make(chain_text(&a, pruned), "cpu", fast_flags(), NULL, &m);
    EXPECT_INT_EQ(m.c.nkernels, pruned ? 2 : 1);
    EXPECT_INT_EQ(m.listed, pruned);
    both_ways_free(&m.b);
    arena_deinit(&a);
  }
}
