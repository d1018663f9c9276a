// swap_test.c -- products whose rows are contiguous: lanes go along the rows, and no sum is
// transposed.
#include "compiled.h"
#include "test.h"

#include <math.h>

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) ((float *)v->data)[i] = (float)((i * 37) % 23) / 8 - 1;
}

typedef struct Layer {
  const char *x, *shape;  // of the image, and of the weights
  int64_t weights;
  const char *attrs, *before, *after;  // statements that make %p of %x, and %z of %y
} Layer;

static const Layer layers[] = {
    {"2, 24, 8, 12", "20, 24, 1, 1", 480, "", "", "relu(%y)"},
    {"3, 16, 16, 8", "40, 16, 1, 1", 640, "dilations=[2, 2]", "", "relu(%y)"},
    {"1, 24, 12, 12", "32, 6, 1, 1", 192, "group=4", "", "sigmoid(%y)"},
    {"1, 256, 8, 8", "16, 256, 1, 1", 4096, "", "", "neg(%y)"},
    {"1, 24, 10, 12", "24, 24, 1, 1", 576, "",
     "  %a = const i64[2] {2, 3}\n  %r = reduce_mean(%x, %a)\n  %s = sigmoid(%r)\n"
     "  %p = mul(%x, %s)\n",
     "add(%y, %x)"},
    {"2, 12, 5, 8, 4", "20, 12, 1, 1, 1", 240, "", "", "relu(%y)"},
};

static const char *text_of(Arena *a, const Layer *l) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[%s]) {\n  %%k = const f32[%s] {", l->x, l->shape);
  for (int64_t i = 0; i < l->weights; i++)
    strbuf_printf(&b, "%s%g", i ? ", " : "", (double)((i * 29) % 17 - 8) * 0.125);
  strbuf_printf(&b, "}\n%s  %%y = conv(%%%s, %%k) %s\n  %%z = %s\n  return %%z\n}\n", l->before,
                *l->before ? "p" : "x", l->attrs, l->after);
  return strbuf_text(&b);
}

static void compare(const char *text, bool swapped) {
  BothWays b;
  Compiled c = {0};
  Asked asked = {.compiled = &c, .fast = fast_flags(), .advised = true};
  bool ok = both_ways_run(&b, text, "cpu", fill, compile_asked, &asked);
  if (!ok) FAIL("%s\n%s", b.diag.text, text);
  if (c.ndeclined) FAIL("%s\n%s", first_declined(&c, ""), text);
  for (int64_t i = 0; ok && i < c.nkernels; i++)
    if (swapped && strstr(c.kernel[i].text.p, "transpose=true"))
      FAIL("a tile is transposed:\n%s", text);
  for (int64_t k = 0; ok && k < b.want[0]->n; k++)
    if (fabs(val_f64(b.want[0], k) - val_f64(b.got[0], k)) > 1e-3) {
      FAIL("element %d is %g, not %g\n%s", (int)k, val_f64(b.got[0], k), val_f64(b.want[0], k),
           text);
      break;
    }
  both_ways_free(&b);
}

TEST(convolutions_of_one_tap_have_lanes_along_the_pixels) {
  for (int i = 0; i < ARRAY_LEN(layers); i++) {
    Arena a;
    arena_init(&a);
    compare(text_of(&a, &layers[i]), true);
    arena_deinit(&a);
  }
}

// Several taps to fewer channels than there are lanes: pads, strides, dilations, odd lines, one
// channel, three axes, a prologue that is not 0 at 0, and few products to many channels.
TEST(convolutions_to_few_channels_have_lanes_along_the_pixels) {
  static const Layer narrow[] = {
      {"1, 6, 9, 33", "3, 6, 3, 3", 162, "pads=[1, 1, 1, 1]", "", "relu(%y)"},
      {"2, 4, 11, 30", "1, 4, 5, 5", 100, "pads=[4, 2, 4, 2] dilations=[2, 1]", "", "neg(%y)"},
      {"1, 5, 8, 64", "2, 5, 3, 3", 90, "strides=[1, 2]", "", "sigmoid(%y)"},
      {"1, 7, 40", "4, 7, 8", 224, "pads=[3, 4]", "", "relu(%y)"},
      {"1, 3, 4, 6, 17", "3, 3, 1, 3, 3", 81, "pads=[0, 1, 1, 0, 1, 1]", "", "relu(%y)"},
      {"1, 4, 7, 31", "3, 4, 3, 3", 108, "pads=[1, 1, 1, 1]",
       "  %o = const f32[] {1.5}\n  %p = add(%x, %o)\n", "relu(%y)"},
      {"1, 1, 20, 48", "40, 1, 3, 3", 360, "pads=[1, 1, 1, 1]", "", "relu(%y)"},
  };
  for (int i = 0; i < ARRAY_LEN(narrow); i++) {
    Arena a;
    arena_init(&a);
    compare(text_of(&a, &narrow[i]), true);
    arena_deinit(&a);
  }
}

// A number of pixels that is no multiple of a panel leaves the roles as they are without AVX-512,
// and so do strides.
TEST(convolutions_of_one_tap_over_odd_sizes) {
  static const Layer odd[] = {
      {"2, 24, 9, 11", "20, 24, 1, 1", 480, "", "", "relu(%y)"},
      {"1, 16, 17, 19", "18, 16, 1, 1", 288, "strides=[2, 2]", "", "relu(%y)"},
      {"1, 24, 13, 7", "32, 6, 1, 1", 192, "group=4", "", "sigmoid(%y)"},
  };
  for (int i = 0; i < ARRAY_LEN(odd); i++) {
    Arena a;
    arena_init(&a);
    compare(text_of(&a, &odd[i]), false);
    arena_deinit(&a);
  }
}

TEST(products_of_one_column_have_lanes_along_the_rows) {
  compare("graph @\"g\"(%x: f32[37, 20]) {\n"
          "  %k = const f32[20, 1] {1, 2, 3, 4, 5, -1, -2, -3, -4, -5, 1, 2, 3, 4, 5, 6, 7, 8, 9, "
          "10}\n"
          "  %y = mat_mul(%x, %k)\n  %z = sigmoid(%y)\n  return %z\n}\n",
          true);
}

// What is looked up is copied once, before the tiles that read it.
TEST(products_of_rows_that_are_looked_up) {
  compare("graph @\"g\"(%x: f32[11, 8], %w: f32[8, 5], %j: f32[6]) {\n"
          "  %n = const f32[] {4}\n  %a = abs(%j)\n  %m = mul(%a, %n)\n"
          "  %i = cast(%m) to=i64\n  %g = gather(%x, %i)\n"
          "  %y = mat_mul(%g, %w)\n  %z = relu(%y)\n  return %z\n}\n",
          true);
}
