// window_test.c -- the templates of planes, channels first, at random: window, resize and sample
// against the reference interpreter, as loops and as code for vectors of several widths.
#include "compiled.h"
#include "schedules.h"
#include "test.h"

#include <math.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}
static const char *one_of(const char *const *words, int64_t n) { return words[draw(n)]; }
#define ONE_OF(...)                                                                                \
  one_of((const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

// ---- graphs ----

static void print_list(StrBuf *b, const char *name, int n, const int64_t *v) {
  strbuf_printf(b, " %s=[", name);
  for (int i = 0; i < n; i++) strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)v[i]);
  strbuf_puts(b, "]");
}

static void print_numbers(StrBuf *b, const char *name, const char *type, int rank,
                          const int64_t *dims) {
  int64_t n = 1;
  strbuf_printf(b, "  %%%s = const %s[", name, type);
  for (int i = 0; i < rank; i++) {
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)dims[i]);
    n *= dims[i];
  }
  strbuf_puts(b, "] {");
  for (int64_t i = 0; i < n; i++) {
    double v = (double)(draw(65) - 32) / 32;
    if (*type != 'f') v = (double)(draw(256) - (*type == 'i' ? 128 : 0));
    strbuf_printf(b, "%s%g", i ? ", " : "", v);
  }
  strbuf_puts(b, "}\n");
}

static void print_image(StrBuf *b, const char *type, bool symbolic, int rank, const int64_t *dims) {
  strbuf_printf(b, "graph @\"planes\"(%%x: %s[", type);
  for (int i = 0; i < rank; i++) {
    if (i == 0 && symbolic)
      strbuf_puts(b, "n");
    else
      strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)dims[i]);
  }
  strbuf_puts(b, "]");
}

static bool has_nan;  // in the inputs

static const char *window_text(Arena *a) {
  int nd = draw(4) ? 2 : 1 + 2 * (int)draw(2);
  const char *op = ONE_OF("max_pool", "average_pool", "conv", "conv_integer");
  bool bytes = strlen(op) > 4 && *op == 'c';
  const char *type = bytes ? ONE_OF("u8", "i8") : draw(4) ? "f32" : *op == 'm' ? "i8" : "f16";
  int64_t dims[5] = {1 + draw(2), 1 + draw(5)}, kernel[3], stride[3], dilation[3], pads[6];
  for (int d = 0; d < nd; d++) {
    kernel[d] = 1 + draw(nd == 3 ? 3 : 8);
    stride[d] = 1 + draw(3);
    dilation[d] = 1 + (draw(4) == 0);
    int64_t span = (kernel[d] - 1) * dilation[d] + 1;
    pads[d] = draw(span);
    pads[nd + d] = draw(span);
    dims[2 + d] = MAX(span - pads[d], 1) + draw(nd == 3 ? 8 : 40);
  }
  StrBuf b;
  strbuf_init(&b, a);
  print_image(&b, type, draw(2), nd + 2, dims);
  strbuf_puts(&b, ") {\n");
  const char *x = "x";
  if (*type == 'f' && draw(3) == 0) strbuf_printf(&b, "  %%a = abs(%%%s)\n", x), x = "a";
  bool conv = *op == 'c';
  int64_t out = dims[1] * (1 + draw(3)), w[5] = {out, 1};
  memcpy(w + 2, kernel, sizeof kernel);
  if (bytes) {
    const char *of = ONE_OF("u8", "i8");
    print_numbers(&b, "w", of, nd + 2, w);
    print_numbers(&b, "zx", type, 0, NULL);
    print_numbers(&b, "zw", of, draw(2) ? 1 : 0, w);
    strbuf_printf(&b, "  %%y = conv_integer(%%x, %%w%s) group=%lld",
                  ONE_OF("", ", %zx", ", %zx, %zw", ", _, %zw"), (long long)dims[1]);
  } else if (conv) {
    print_numbers(&b, "w", type, nd + 2, w);
    print_numbers(&b, "b", type, 1, w);
    strbuf_printf(&b, "  %%y = conv(%%%s, %%w%s) group=%lld", x, draw(2) ? ", %b" : "",
                  (long long)dims[1]);
  } else {
    strbuf_printf(&b, "  %%y = %s(%%%s)", op, x);
    print_list(&b, "kernel_shape", nd, kernel);
    if (draw(3) == 0) strbuf_puts(&b, " ceil_mode=true");
    if (*op == 'a' && draw(2)) strbuf_puts(&b, " count_include_pad=true");
  }
  print_list(&b, "strides", nd, stride);
  print_list(&b, "dilations", nd, dilation);
  print_list(&b, "pads", 2 * nd, pads);
  has_nan = *op == 'm' && *type == 'f';
  strbuf_puts(&b, *type == 'f' && draw(2) ? "\n  %z = relu(%y)\n  return %z\n}\n"
                                          : "\n  return %y\n}\n");
  return strbuf_text(&b);
}

static const char *resize_text(Arena *a) {
  int nd = 1 + (int)draw(3);
  int64_t dims[5] = {1 + draw(2), 1 + draw(20)}, sizes[5];
  const char *mode = ONE_OF("nearest", "linear", "linear", "cubic");
  const char *how = ONE_OF("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric");
  bool by_size = draw(2), symbolic = draw(2) && !by_size;
  StrBuf b;
  strbuf_init(&b, a);
  for (int d = 0; d < nd; d++) dims[2 + d] = 1 + draw(nd == 3 ? 9 : 30);
  print_image(&b, *mode == 'n' && draw(3) == 0 ? "u8" : "f32", symbolic, nd + 2, dims);
  strbuf_printf(&b, ") {\n  %%s = const %s[%d] {", by_size ? "i64" : "f32", nd + 2);
  for (int d = 0; d < nd + 2; d++) {
    sizes[d] = d < 2 || draw(4) == 0 ? dims[d] : 1 + draw(nd == 3 ? 12 : 70);
    if (by_size)
      strbuf_printf(&b, "%s%lld", d ? ", " : "", (long long)sizes[d]);
    else
      strbuf_printf(&b, "%s%s", d ? ", " : "", d < 2 ? "1" : ONE_OF("2", "0.5", "1.7", "4", "1"));
  }
  strbuf_printf(&b,
                "}\n  %%y = resize(%%x, _, %s) mode=%s coordinate_transformation_mode=%s "
                "nearest_mode=%s\n",
                by_size ? "_, %s" : "%s", mode, how, ONE_OF("floor", "round_prefer_floor"));
  strbuf_puts(&b, draw(2) ? "  %z = abs(%y)\n  return %z\n}\n" : "  return %y\n}\n");
  has_nan = false;
  return strbuf_text(&b);
}

static const char *sample_text(Arena *a) {
  int64_t dims[4] = {1 + draw(2), 1 + draw(9), 1 + draw(14), 1 + draw(30)};
  StrBuf b;
  strbuf_init(&b, a);
  print_image(&b, "f32", false, 4, dims);
  has_nan = false;
  if (draw(3)) {
    strbuf_printf(&b, ", %%g: f32[%lld, %lld, %lld, 2]) {\n", (long long)dims[0],
                  (long long)(1 + draw(12)), (long long)(1 + draw(40)));
    strbuf_printf(&b, "  %%y = grid_sample(%%x, %%g) mode=%s padding_mode=%s align_corners=%s\n",
                  ONE_OF("linear", "linear", "nearest", "cubic"),
                  ONE_OF("zeros", "border", "reflection"), ONE_OF("true", "false"));
  } else {
    int64_t rois = 1 + draw(4);
    strbuf_printf(&b, ") {\n  %%r = const f32[%lld, 4] {", (long long)rois);
    for (int64_t i = 0; i < 4 * rois; i++)
      strbuf_printf(&b, "%s%g", i ? ", " : "",
                    (double)(draw(40) - 4 + (i % 4 > 1 ? draw(40) : 0)) / 2);
    strbuf_printf(&b, "}\n  %%i = const i64[%lld] {", (long long)rois);
    for (int64_t i = 0; i < rois; i++)
      strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)draw(dims[0]));
    strbuf_printf(&b,
                  "}\n  %%y = roi_align(%%x, %%r, %%i) output_height=%lld output_width=%lld "
                  "sampling_ratio=%lld spatial_scale=%s coordinate_transformation_mode=%s\n",
                  (long long)(1 + draw(7)), (long long)(1 + draw(9)), (long long)(1 + draw(4)),
                  ONE_OF("1", "0.5"), ONE_OF("half_pixel", "output_half_pixel"));
  }
  strbuf_puts(&b, draw(2) ? "  %z = relu(%y)\n  return %z\n}\n" : "  return %y\n}\n");
  return strbuf_text(&b);
}

// ---- both ways ----

static void fill(Value *v) {
  rng = (uint64_t)v->n * 31 + 5;
  for (int64_t i = 0; i < v->n; i++) {
    double x = (double)(draw(257) - 128) / (dtype_is_float(v->dtype) ? 97 : 2);
    if (has_nan && draw(60) == 0) x = draw(2) ? (double)NAN : -0.0;
    val_put_f64(v, i, v->dtype == DT_U8 ? fabs(x) : x);
  }
}

typedef struct On {
  const char *target, *cpu;  // cpu: of x86-64; NULL: this one
  const char *template_name;
  int64_t found;
} On;

static tenon_status compile_on(void *ctx, const char *text, const char *target, Arena *a, Diag *d,
                               Program **out) {
  On *on = ctx;
  CompileOptions o;
  CompileReport r = {0};
  Machine m;
  Graph *g = NULL;
  compile_defaults(&o);
  o.target = target_find(target);
  if (on->cpu) {
    TRY(machine_make(STR("x86_64-pc-linux-gnu"), str_of(on->cpu), STR(""), &m, d));
    o.machine = &m;
  }
  tenon_status s = compile_parsed(text, &o, COMPILE_BUILD, a, d, &g, &r);
  if (!s && r.compiled.ndeclined)
    FAIL("declined: %s\n%.1200s", first_declined(&r.compiled, ""), text);
  for (int64_t i = 0; !s && i < r.compiled.nkernels; i++)
    on->found += schedule_fits(r.compiled.kernel[i].lowered, on->template_name);
  graph_free(g);
  *out = r.program;
  return s;
}

static void compare(const char *text, const Value *got, const Value *want) {
  double most = 1, rounding = got->dtype == DT_F16 ? 2e-3 : dtype_is_float(got->dtype) ? 1e-5 : 0;
  for (int64_t i = 0; i < want->n; i++)
    if (isfinite(val_f64(want, i))) most = fmax(most, fabs(val_f64(want, i)));
  for (int64_t i = 0; i < want->n && i < got->n; i++) {
    double x = val_f64(got, i), y = val_f64(want, i);
    if (fabs(x - y) <= rounding * most || x == y || (isnan(x) && isnan(y))) continue;
    FAIL("element %d: %.9g, not %.9g\n%.1200s", (int)i, x, y, text);
    return;
  }
  EXPECT_INT_EQ(got->n, want->n);
}

static void at_random(const char *(*text_of)(Arena *a), const char *name, int count, int least) {
  On on[] = {{.target = "ref"},
             {.target = "cpu"},
             {.target = "cpu", .cpu = "x86-64-v3"},
             {.target = "cpu", .cpu = "x86-64"}};
  Machine m;
  machine_host(&m);
  int machines = !target_available(target_find("cpu")) ? 1 : m.arch == ARCH_X86_64 ? 4 : 2;
  int64_t found = 0;
  for (int i = 0; i < count; i++) {
    static BothWays w;
    Arena a;
    arena_init(&a);
    rng = (uint64_t)i * 104729 + 77;
    const char *text = text_of(&a);
    On *way = &on[i % machines];
    way->template_name = name;
    way->found = 0;
    if (!both_ways_run(&w, text, way->target, fill, compile_on, way))
      FAIL("%s\n%.1200s", w.diag.text, text);
    else
      compare(text, w.got[0], w.want[0]);
    found += way->found > 0;
    both_ways_free(&w);
    arena_deinit(&a);
  }
  EXPECT(found >= least);
}

TEST(windows_of_planes_at_random) { at_random(window_text, "window", 120, 80); }
TEST(resized_planes_at_random) { at_random(resize_text, "resize", 80, 50); }
TEST(samples_of_planes_at_random) { at_random(sample_text, "sample", 60, 50); }
