// residual_test.c -- corrections of chosen schedules: what fits, what is refused, and whole
// kernels.
#include "lower/residual.h"
#include "lower/template.h"
#include "test.h"

static const char gemm[] =
    "gemm rows=14 cols=32 item_rows=112 item_panels=1 unroll=4 prefetch=0 k_block=0 "
    "rows_first=false stage_lhs=false stage_rhs=false stage_image=false spill=false "
    "transpose=false packed_dot=false";

static const char *corrected(Arena *a, const ResidualRule *r, int64_t n) {
  static Diag d;
  ScheduleGiven g;
  LowerTarget t = {.vector_bytes = 64};
  diag_init(&d);
  EXPECT_STATUS(schedule_parse(a, gemm, &d, &g), TENON_OK);
  return residual_schedule(r, n, &t, (Schedule){g.t, g.fields}, a);
}

static void gives(ResidualRule r, const char *part) {
  Arena a;
  arena_init(&a);
  const char *s = corrected(&a, &r, 1);
  EXPECT(!s == !part);
  if (s && part) EXPECT_CONTAINS(s, part);
  arena_deinit(&a);
}

TEST(residual_changes_one_free_field) {
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_SET, 28, "", 0, 0}, "item_rows=28 ");
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_TIMES, 2, "", 0, 0}, "item_rows=224 ");
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_OVER, 4, "", 0, 0}, "item_rows=28 ");
  gives((ResidualRule){"gemm", "spill", RESIDUAL_SET, 1, "vector", 64, 64}, "spill=true");
  gives((ResidualRule){"gemm", "spill", RESIDUAL_SET, 1, "rows", 10, 14}, "spill=true");
}

TEST(residual_leaves_what_does_not_fit) {
  gives((ResidualRule){"pointwise", "item_rows", RESIDUAL_SET, 28, "", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "no_such", RESIDUAL_SET, 28, "", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_SET, 28, "no_such", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_SET, 28, "vector", 16, 32}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_SET, 28, "rows", 15, 20}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_SET, 112, "", 0, 0}, NULL);  // as it is
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_SET, -1, "", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_OVER, 5, "", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_OVER, 0, "", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "item_rows", RESIDUAL_TIMES, INT64_MAX, "", 0, 0}, NULL);
  gives((ResidualRule){"gemm", "spill", RESIDUAL_SET, 7, "", 0, 0}, NULL);
}

// A field that may change the order of a sum is never changed.
TEST(residual_leaves_order_fields) {
  Arena a;
  Diag d;
  ScheduleGiven g;
  arena_init(&a);
  diag_init(&d);
  REQUIRE(!schedule_parse(&a, gemm, &d, &g));
  for (int i = 0; i < g.t->code->nfields; i++) {
    const ScheduleField *f = &g.t->code->field[i];
    ResidualRule r = {
        "gemm", f->attr.name, RESIDUAL_SET, schedule_value(f, g.fields) ? 0 : 1, "", 0, 0};
    if (f->effect == EFFECT_ORDER) EXPECT(!corrected(&a, &r, 1));
  }
  arena_deinit(&a);
}

TEST(residual_takes_the_first_rule_that_fits) {
  Arena a;
  arena_init(&a);
  ResidualRule r[] = {{"gemm", "item_rows", RESIDUAL_SET, 56, "vector", 16, 16},
                      {"gemm", "item_rows", RESIDUAL_SET, 28, "", 0, 0},
                      {"gemm", "spill", RESIDUAL_SET, 1, "", 0, 0}};
  const char *s = corrected(&a, r, 3);
  REQUIRE(s);
  EXPECT_CONTAINS(s, "item_rows=28 ");
  EXPECT_CONTAINS(s, "spill=false");
  arena_deinit(&a);
}

// Every row of the table that ships names a template and a FREE field.
TEST(residual_table_is_whole) {
  for (int64_t i = 0; i < residual_count; i++) {
    const ResidualRule *r = &residual_table[i];
    const Template *t = template_find(r->template_name);
    bool free_field = false;
    for (int k = 0; t && k < t->code->nfields; k++)
      free_field |=
          !strcmp(t->code->field[k].attr.name, r->field) && t->code->field[k].effect == EFFECT_FREE;
    EXPECT(free_field && r->least <= r->most);
  }
}
