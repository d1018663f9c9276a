// cast_test.c -- strings to integers at the limits of their types; small floats to strings and
// back.
#include "eval/scalar.h"
#include "test.h"

TEST(strings_become_integers_at_the_limits) {
  static const struct {
    DType to;
    const char *text;
    int64_t want;  // the bits
  } rows[] = {
      {DT_I64, "9223372036854775807", INT64_MAX},
      {DT_I64, "-9223372036854775808", INT64_MIN},
      {DT_I64, "9.21e18", 9210000000000000000},  // below INT64_MAX
      {DT_I64, "-9.21e18", -9210000000000000000},
      {DT_I64, "1e30", INT64_MAX},
      {DT_I64, "nan", 0},
      {DT_I64, "-2.75", -2},
      {DT_U64, "18446744073709551615", -1},
      {DT_U64, "+9223372036854775808", INT64_MIN},
      {DT_U64, "1e19", (int64_t)10000000000000000000u},
      {DT_U32, "4294967295", 4294967295},
      {DT_I8, "-128", -128},
      {DT_BOOL, "0.5", 1},
  };
  for (int i = 0; i < ARRAY_LEN(rows); i++) {
    static Diag d;
    diag_init(&d);
    Run r;
    run_init(&r, NULL, &d);
    Value *x, *y = NULL;
    EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_STRING, 0, NULL, &x), TENON_OK);
    ((Str *)x->data)[0] = str_of(rows[i].text);
    cast_attrs at = {.to = rows[i].to};
    Eval e = {.run = &r, .in = (const Value *const[]){x}, .nin = 1, .out = &y, .nout = 1};
    e.attrs = &at;
    EXPECT_STATUS(eval_cast(&e), TENON_OK);
    if (y && val_i64(y, 0) != rows[i].want)
      FAIL("'%s' as %s is %lld, not %lld", rows[i].text, dtype_name(rows[i].to),
           (long long)val_i64(y, 0), (long long)rows[i].want);
    run_deinit(&r);
  }
}

static tenon_status cast_to(Run *r, Value *x, cast_attrs at, Value **out) {
  Eval e = {.run = r, .in = (const Value *const[]){x}, .nin = 1, .out = out, .nout = 1};
  e.attrs = &at;
  return eval_cast(&e);
}

// However a cast rounds, the text of a value reads back as the value.
TEST(text_of_small_floats_reads_back) {
  static const DType types[] = {DT_F8E8M0, DT_F8E4M3, DT_F8E4M3Z, DT_F8E5M2Z};
  for (int k = 0; k < ARRAY_LEN(types); k++)
    for (int mode = 0; mode < 3; mode++) {
      static Diag d;
      int64_t n = 256;
      Value *x, *text = NULL, *y = NULL;
      Run r;
      diag_init(&d);
      run_init(&r, NULL, &d);
      EXPECT_STATUS(value_tensor(&r, NOWHERE, types[k], 1, &n, &x), TENON_OK);
      for (int i = 0; i < n; i++) ((uint8_t *)x->data)[i] = (uint8_t)i;
      EXPECT_STATUS(cast_to(&r, x, (cast_attrs){.to = DT_STRING}, &text), TENON_OK);
      cast_attrs back = {.to = types[k], .saturate = true, .round_mode = mode};
      EXPECT_STATUS(cast_to(&r, text, back, &y), TENON_OK);
      for (int i = 0; y && i < n; i++) {
        double a = val_f64(x, i), b = val_f64(y, i);
        if (a != b && (a == a || b == b))
          FAIL("%s %g is '%.*s', which reads back as %g by mode %d", dtype_name(types[k]), a,
               STR_ARG(val_str(text, i)), b, mode);
      }
      run_deinit(&r);
    }
}
