// image_test.c -- resize at scales that are no whole numbers: the values that ONNX Runtime gives,
// by the interpreter and in kernels.
#include "codegen.h"
#include "compiled.h"
#include "test.h"

enum { MOST = 12 };
typedef struct Row {
  const char *x, *scales, *attrs;
  int n;
  float want[MOST];
} Row;

#define CORNERS " coordinate_transformation_mode=align_corners"
#define CROP    " coordinate_transformation_mode=tf_crop_and_resize"
// x is 1, 2, 3, ...  The specification's length_resized is the length that the result has: 1.7
// times 4 is 6.
static const Row row[] = {
    {"f32[2,4]", "{0.6, 0.6}", "mode=linear" CORNERS, 2, {1, 4}},
    {"f32[4,4]", "{0.8, 0.8}", "mode=cubic" CORNERS, 9, {1, 2.5, 4, 7, 8.5, 10, 13, 14.5, 16}},
    {"f32[2,4]",
     "{1.3, 1.7}",
     "mode=linear" CORNERS,
     12,
     {1, 1.6F, 2.2F, 2.8F, 3.4F, 4, 5, 5.6F, 6.2F, 6.8F, 7.4F, 8}},
    {"f32[2,4]", "{1.3, 1.7}", CORNERS, 12, {1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 7, 8}},
    {"f32[2,4]", "{0.6, 0.3}", "mode=linear" CORNERS, 1, {1}},
    {"f32[2,4]", "{0.6, 0.3}", "mode=linear" CROP, 1, {4.45F}},
    {"f32[2,4]",
     "{1.3, 1.7}",
     "mode=linear" CROP,
     12,
     {2, 2.42F, 2.84F, 3.26F, 3.68F, 4.1F, 4.8F, 5.22F, 5.64F, 6.06F, 6.48F, 6.9F}},
    {"f32[2,4]",
     "{1.3, 1.7}",
     "mode=linear coordinate_transformation_mode=half_pixel_symmetric",
     12,
     {1.49095F, 2.079185F, 2.667421F, 3.255656F, 3.843892F, 4.432127F, 4.567873F, 5.156109F,
      5.744344F, 6.33258F, 6.920815F, 7.50905F}},
};

static void count_up(Value *v) {
  for (int64_t i = 0; i < v->n; i++) val_put_f64(v, i, (double)(i + 1));
}

static void expect(const Row *r, const char *target, const Value *got) {
  if (!got || got->n != r->n) {
    FAIL("%s %s by %s: another size", r->scales, r->attrs, target);
    return;
  }
  for (int i = 0; i < r->n; i++)
    if (!test_near(__FILE__, __LINE__, r->attrs, val_f64(got, i), (double)r->want[i], 1e-5)) return;
}

static void check_on(const Row *r, const char *target) {
  static BothWays b;
  Arena a;
  arena_init(&a);
  bool crop = strstr(r->attrs, "crop") != NULL;
  const char *text =
      str_printf(&a,
                 "graph @\"r\"(%%x: %s) {\n  %%s = const f32[2] %s\n"
                 "  %%c = const f32[4] {0.1, 0.2, 0.8, 0.9}\n  %%y = resize(%%x, %s, %%s) %s\n"
                 "  return %%y\n}\n",
                 r->x, r->scales, crop ? "%c" : "_", r->attrs);
  if (!both_ways_run(&b, text, target, count_up, NULL, NULL)) {
    FAIL("%s\n%s", b.diag.text, text);
  } else {
    expect(r, "interp", b.want[0]);
    expect(r, target, b.got[0]);
  }
  both_ways_free(&b);
  arena_deinit(&a);
}

TEST(resize_by_fractions) {
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    check_on(&row[i], "ref");
    if (codegen_there()) check_on(&row[i], "cpu");
  }
}
