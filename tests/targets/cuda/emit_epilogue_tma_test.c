// emit_epilogue_tma_test.c -- TMA in epilogues: which kernels have it load a residual and store
// results, and the function of gelu that follows sums.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

#include "loop_fixture.h"
#include "test.h"

#include <math.h>

typedef struct Emitted {
  LoopFixture f;
  Arena arena;
  CudaRecord record;
  const char *text;
} Emitted;

#define AT "where(row = i + 128*floor(item/4) < 1000, col = j + %d*mod(item, 4) < 768) "

// Every @ of the value by what guards a load.
static const char *with_guards(Arena *a, const char *value, const char *guards) {
  StrBuf out;
  strbuf_init(&out, a);
  for (; *value; value++)
    if (*value == '@')
      strbuf_puts(&out, guards);
    else
      strbuf_printf(&out, "%c", *value);
  return strbuf_text(&out);
}

// Rows of 768 columns of the sums of 64 products each, in tiles of 128 rows: `value` of %v0, the
// matrix r and the row c is stored at `place`; `kind` stands before what is multiplied with the
// rows.
static bool emit_with(Emitted *e, const char *kind, int columns, const char *pingpong, int groups,
                      const char *value, const char *place) {
  CStyle style;
  StrBuf text;
  bool differs;
  arena_init(&e->arena);
  const char *at = str_printf(&e->arena, AT, columns);
  const char *kernel = str_printf(
      &e->arena,
      "kernel @k (%%a: bf16[64000], %s%%b: bf16[49152], %%r: bf16[768000], %%c: f32[768], out %%y: "
      "bf16[768000]) {\n  parallel item < 32 {\n"
      "    mma %%v0: f32 = half over i < 128, j < %d, k < 64 stages=4 warpgroups=%d%s {\n"
      "      a matrix %%a[row = i + 128*floor(item/4) < 1000] stride 64\n"
      "      b matrix %%b[col = j + %d*mod(item, 4) < 768] stride 64\n"
      "      store %s%%y[%s] = cast[bf16](%s)\n    }\n  }\n}\n",
      kind, columns, groups, pingpong, columns, at, place, with_guards(&e->arena, value, at));
  if (!loop_fixture_read(&e->f, kernel)) return false;
  strbuf_init(&text, &e->arena);
  cstyle_init(&style, &spelling_cuda, 0, &e->arena, &e->f.d);
  style.extension = &(CudaTensorCores){.record = &e->record};
  EXPECT_STATUS(cstyle_kernel(&style, e->f.k, "tn_kernel", false, &text, &differs), TENON_OK);
  e->text = strbuf_text(&text);
  return true;
}

static bool emit(Emitted *e, int columns, const char *pingpong, int groups, const char *value,
                 const char *place) {
  return emit_with(e, "", columns, pingpong, groups, value, place);
}

static void drop(Emitted *e) {
  loop_fixture_free(&e->f);
  arena_deinit(&e->arena);
}

#define SUM        "%v0"
#define BIAS       "add(%v0, @%c[col])"
#define RESIDUAL   "add(add(%v0, @%c[col]), cast[f32](@%r[col + 768*row]))"
#define TRANSPOSED "add(%v0, cast[f32](@%r[row + 1000*col]))"

TEST(tma_loads_and_stores_in_an_epilogue) {
  static const struct {
    int columns;
    const char *pingpong;
    int groups;
    const char *value, *place;
    bool fetched, taken, early;
    unsigned box[2];  // columns of the last map, and its rows
  } row[] = {
      {192, "", 2, SUM, "col + 768*row", false, true, false, {64, 64}},
      {192, "", 2, BIAS, "col + 768*row", false, true, true, {64, 64}},
      {192, "", 2, RESIDUAL, "col + 768*row", true, true, true, {64, 64}},
      {160, "", 2, RESIDUAL, "col + 768*row", true, true, true, {32, 64}},
      {128, " pingpong=1", 1, BIAS, "col + 768*row", false, true, true, {64, 64}},
      {64, "", 2, RESIDUAL, "col + 768*row", true, false, true, {64, 64}},
      {192, "", 2, TRANSPOSED, "col + 768*row", false, true, false, {64, 64}},
      {192, "", 2, BIAS, "row + 1000*col", false, false, true, {64, 192}},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Emitted e;
    if (!emit(&e, row[i].columns, row[i].pingpong, row[i].groups, row[i].value, row[i].place))
      return;
    const CudaMap *last = &e.record.map[e.record.nmaps - 1];
    EXPECT_INT_EQ(e.record.nmaps, 2 + row[i].fetched + row[i].taken);
    EXPECT_INT_EQ(!!strstr(e.text, "&tn_map_c"), row[i].fetched);
    EXPECT_INT_EQ(!!strstr(e.text, "&tn_map_d"), row[i].taken);
    EXPECT_INT_EQ(!!strstr(e.text, " early["), row[i].early);
    EXPECT_INT_EQ(last->box[0], row[i].box[0]);
    EXPECT_INT_EQ(last->box[1], row[i].box[1]);
    EXPECT(e.record.shared_bytes <= 227 << 10);
    if (!strcmp(row[i].value, SUM)) EXPECT(!strstr(e.text, "tn_there"));  // no edges to ask for
    drop(&e);
  }
}

// What the kernel before writes is not read before it has ended; constants are.  The next kernel
// begins when nothing is left to be asked for.
TEST(constants_are_fetched_before_the_previous_kernel_has_ended) {
  static const char *const kind[] = {"", "const "};
  for (int constant = 0; constant < 2; constant++) {
    Emitted e;
    if (!emit_with(&e, kind[constant], 192, "", 2, RESIDUAL, "col + 768*row")) return;
    const char *waits = strstr(e.text, CUDA_WAIT_PREVIOUS),
               *lets = strstr(e.text, CUDA_LAUNCH_DEPENDENTS);
    const char *rows = strstr(e.text, ", &tn_map_a"), *columns = strstr(e.text, ", &tn_map_b");
    const char *residual = strstr(e.text, ", &tn_map_c"),
               *role = strstr(e.text, "const int tn_who");
    REQUIRE(waits && lets && rows && columns && residual && role);
    EXPECT_INT_EQ(columns < waits, constant);
    EXPECT(waits < rows && waits < residual);
    EXPECT(rows < lets && residual < lets && lets < role);
    EXPECT(strstr(role, CUDA_WAIT_PREVIOUS) && !strstr(lets + 1, CUDA_LAUNCH_DEPENDENTS));
    drop(&e);
  }
}

// What is written of the function is computed here with the numbers in it.
TEST(gelu_in_an_epilogue_is_near_erf) {
  Emitted e;
  float c[5];
  if (!emit(&e, 192, "", 2, "mul(%v0, add(erf(%v0), 1.0))", "col + 768*row")) return;
  LoopTile t;
  StrBuf top;
  REQUIRE(loop_find_tile(e.f.k, &t));
  strbuf_init(&top, &e.arena);
  cs_tile_top(&t, &top);
  const char *text = strstr(strbuf_text(&top), "float p = fmaf(");
  REQUIRE(strstr(e.text, "tn_erf_one(") && text);
  REQUIRE(sscanf(text,
                 "float p = fmaf(%ff, s, %ff), w, r;\n"
                 "  p = fmaf(fmaf(fmaf(p, s, %ff), s, %ff), s, %ff);",
                 &c[0], &c[1], &c[2], &c[3], &c[4]) == 5);
  double worst = 0;
  for (float x = -12; x <= 12; x += 0.001f) {
    float s = x * x, p = fmaf(c[0], s, c[1]);
    p = fmaf(fmaf(fmaf(p, s, c[2]), s, c[3]), s, c[4]);
    double got = 2.0 / (1.0 + exp2((double)(x * p)));
    worst = fmax(worst, fabs(got - (1.0 + erf((double)x))));
  }
  EXPECT(worst < 4e-6);
  drop(&e);
}
