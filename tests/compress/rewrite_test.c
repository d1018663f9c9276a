// rewrite_test.c -- what is quantised in graphs of the usual kinds, and that nothing stays a float
// contraction.
#include "compress/rewrite.h"

#include "test.h"

#include <stdlib.h>

// A residual block with padding and pools, a concat, and a head.
static const char block[] =
    "graph @\"g\"(%x: f32[1, 2, 6, 6]) {\n"
    "  %w0 = const f32[4, 2, 3, 3] splat 0.25\n  %b0 = const f32[4] {1, -2, 0.5, 0}\n"
    "  %c0 = conv(%x, %w0, %b0) pads=[1, 1, 1, 1]\n  %r0 = relu(%c0)\n"
    "  %w1 = const f32[4, 4, 1, 1] splat -0.125\n  %c1 = conv(%r0, %w1)\n"
    "  %s = add(%c1, %r0)\n  %r1 = relu(%s)\n"
    "  %m = max_pool(%r1) kernel_shape=[2, 2] strides=[2, 2]\n"
    "  %w2 = const f32[4, 4, 3, 3] splat 0.0625\n  %c2 = conv(%m, %w2) pads=[1, 1, 1, 1]\n"
    "  %j = concat(%c2, %m) axis=1\n"
    "  %w3 = const f32[3, 8, 3, 3] splat 0.5\n  %c3 = conv(%j, %w3)\n"
    "  %f = flatten(%c3)\n  %w4 = const f32[3, 5] splat 2\n  %y = mat_mul(%f, %w4)\n"
    "  return y = %y\n}\n";

typedef struct Quantized {
  Arena arena;
  Diag diag;
  Graph *g;
  GroupList groups;
  QuantTensors tensors;
  StatsList stats;
} Quantized;

// "f32[2, 3] splat V" with its six elements.
static Str unfold(const char *text, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  for (const char *at; (at = strstr(text, " splat ")); text = at) {
    const char *dims = at;
    long n = 1;
    char *end;
    while (*dims != '[') dims--;
    for (end = (char *)(uintptr_t)dims; *end != ']';) n *= strtol(end + 1, &end, 10);
    strbuf_put(&b, (Str){text, at - text});
    double v = strtod(at + 7, &end);
    for (long i = 0; i < n; i++) strbuf_printf(&b, "%s%g", i ? ", " : " {", v);
    strbuf_puts(&b, "}");
    at = end;
  }
  strbuf_puts(&b, text);
  return strbuf_str(&b);
}

static void begin(Quantized *q, const char *text) {
  memset(q, 0, sizeof *q);
  arena_init(&q->arena);
  diag_init(&q->diag);
  if (graph_parse(unfold(text, &q->arena), NULL, &q->diag, &q->g)) FAIL("%s", q->diag.text);
  groups_find(q->g, NULL, 0, &q->arena, &q->groups);
}

static void end(Quantized *q) {
  graph_free(q->g);
  arena_deinit(&q->arena);
}

// Statistics as if every tensor had the values -1 to 1.
static void make_stats(Quantized *q) {
  static const float x[] = {-1, -0.5F, 0.25F, 1};
  tensors_observe(q->g, &q->groups, &q->arena, &q->stats);
  for (int64_t i = 0; i < q->stats.n; i++) {
    q->stats.v[i].histogram = arena_new(&q->arena, Histogram);
    histogram_init(q->stats.v[i].histogram);
    EXPECT(histogram_add(q->stats.v[i].histogram, x, ARRAY_LEN(x)));
  }
}

static void rewrite(Quantized *q) {
  for (int64_t i = 0; i < q->groups.n; i++)
    if (!q->groups.v[i].kept) q->groups.v[i].choice = CHOICE_INT8;
  make_stats(q);
  tensors_find(q->g, &q->groups, &q->arena, &q->tensors);
  tensors_ranges(q->g, &q->tensors, &q->stats, RANGE_MINMAX, &q->arena);
  if (rewrite_groups(q->g, &q->groups, &q->tensors, &q->stats, &(RewriteOptions){0}, &q->arena,
                     &q->diag))
    FAIL("%s", q->diag.text);
}

static int64_t count(const Quantized *q, int op) {
  NodeList all = body_order(q->g, q->g->main, (Arena *)(uintptr_t)&q->arena);
  int64_t n = 0;
  for (int64_t i = 0; i < all.n; i++) n += all.v[i]->op == op;
  return n;
}

static const Node *find(const Quantized *q, const char *name) {
  NodeList all = body_order(q->g, q->g->main, (Arena *)(uintptr_t)&q->arena);
  for (int64_t i = 0; i < all.n; i++)
    if (all.v[i]->name && !strcmp(all.v[i]->name, name)) return all.v[i];
  return NULL;
}

TEST(rewrite_leaves_no_float_contraction) {
  Quantized q;
  int64_t left;
  begin(&q, block);
  EXPECT_INT_EQ(q.groups.n, 5);
  rewrite(&q);
  EXPECT_STATUS(rewrite_check(q.g, &q.groups, q.g->main, &q.arena, &q.diag, &left), TENON_OK);
  EXPECT_INT_EQ(left, 0);
  EXPECT_STATUS(graph_verify(q.g, &q.diag), TENON_OK);
  end(&q);
}

TEST(rewrite_quantises_both_sides_of_a_residual) {
  Quantized q;
  begin(&q, block);
  rewrite(&q);
  const Node *s = find(&q, "s");
  REQUIRE(s);
  EXPECT_INT_EQ(s->src[0]->op, OP_dequantize_linear);
  EXPECT_INT_EQ(s->src[1]->op, OP_dequantize_linear);
  end(&q);
}

// The concat's parts and the pool before it, all the way to the sum's result.
TEST(rewrite_joins_scales) {
  Quantized q;
  begin(&q, block);
  const Node *j = find(&q, "j"), *c2 = find(&q, "c2"), *m = find(&q, "m"), *r1 = find(&q, "r1"),
             *c1 = find(&q, "c1"), *r0 = find(&q, "r0");
  rewrite(&q);
  const QuantTensors *t = &q.tensors;
  EXPECT(tensors_set(t, j) == tensors_set(t, c2) && tensors_set(t, j) == tensors_set(t, m));
  EXPECT(tensors_set(t, j) == tensors_set(t, r1));
  EXPECT(tensors_set(t, c1) != tensors_set(t, r0));
  end(&q);
}

TEST(rewrite_bias_has_the_product_of_scales) {
  Quantized q;
  begin(&q, block);
  rewrite(&q);
  const Node *conv = find(&q, "c0");
  REQUIRE(conv && conv->nsrc == 3);
  const Node *b = conv->src[2], *w = conv->src[1], *x = conv->src[0];
  EXPECT_INT_EQ(type_of(b->src[0])->dtype, DT_I32);
  const float *bs = b->src[1]->data->mem, *ws = w->src[1]->data->mem, *xs = x->src[1]->data->mem;
  for (int i = 0; i < 4; i++) EXPECT(bs[i] == xs[0] * ws[i]);
  end(&q);
}

TEST(rewrite_keeps_what_is_asked) {
  static const char *const keep[] = {"c0", "c?"};
  Quantized q;
  begin(&q, block);
  groups_find(q.g, keep, 2, &q.arena, &q.groups);
  for (int64_t i = 0; i < q.groups.n; i++)
    EXPECT_INT_EQ(q.groups.v[i].kept != NULL, q.groups.v[i].node->op == OP_conv);
  rewrite(&q);
  EXPECT_INT_EQ(count(&q, OP_quantize_linear), 2);  // of the flattened tensor, and before it
  end(&q);
}

// A bias that 32 bits cannot hold makes the scale of its weights larger.
TEST(rewrite_bias_fits_32_bits) {
  Quantized q;
  int64_t left;
  begin(&q, "graph @\"g\"(%x: f32[1, 2, 4, 4]) {\n  %w = const f32[1, 2, 1, 1] splat 1e-12\n"
            "  %b = const f32[1] {1000}\n  %c = conv(%x, %w, %b)\n  %r = relu(%c)\n"
            "  %v = const f32[1, 1, 1, 1] splat 1\n  %y = conv(%r, %v)\n  return y = %y\n}\n");
  rewrite(&q);
  const Node *conv = find(&q, "c");
  REQUIRE(conv && conv->nsrc == 3);
  const int32_t *b = conv->src[2]->src[0]->data->mem;
  const float *s = conv->src[2]->src[1]->data->mem;
  EXPECT_NEAR((double)b[0] * (double)s[0], 1000, 1e-3);
  EXPECT_STATUS(rewrite_check(q.g, &q.groups, q.g->main, &q.arena, &q.diag, &left), TENON_OK);
  EXPECT_INT_EQ(left, 0);
  end(&q);
}
