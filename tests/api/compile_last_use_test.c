// compile_last_use_test.c -- tenon_options.last_use: the model's own graph becomes the program.
#include "tenon/tenon.h"
#include "test.h"

static const char text[] = "graph @\"add\"(%x: f32[n, 2], %y: f32[n, 2]) -> (z: f32[n, 2]) {\n"
                           "  %a = add(%x, %y)\n  %z = mul(%a, %a)\n  return %z\n}\n";

// With sizes to fix a model is read again, and stays as it is.
TEST(compile_as_the_last_use_of_a_model) {
  tenon_error error;
  tenon_model *m = NULL;
  tenon_program *p = NULL, *none = NULL;
  tenon_session *s = NULL;
  float x[6] = {1, 2, 3, 4, 5, 6};
  tenon_tensor in[2] = {{.data = x, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {3, 2}}};
  tenon_tensor out = {0};
  in[1] = in[0];
  EXPECT_STATUS(tenon_model_open_memory(text, sizeof text - 1, NULL, &m, &error), TENON_OK);
  REQUIRE(m);
  tenon_options o = {.struct_size = sizeof o,
                     .target = "ref",
                     .dims = &(tenon_dim){"n", 5},
                     .ndims = 1,
                     .last_use = 1};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  tenon_program_release(p);
  o.ndims = 0;
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  REQUIRE(p);
  EXPECT_STATUS(tenon_compile(m, &o, &none, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "can only be closed");
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_EINVAL);
  tenon_model_close(m);
  EXPECT_STATUS(tenon_session_create(p, NULL, &s, &error), TENON_OK);
  REQUIRE(s);
  EXPECT_STATUS(tenon_session_run(s, in, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.data && ((float *)out.data)[5] == 144);
  tenon_tensor_release(&out);
  tenon_session_release(s);
  tenon_program_release(p);
}
