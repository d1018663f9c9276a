// export_given_test.c -- a program of torch.export as bare JSON with the caller's own weights, and
// the query of operators.
#include "tenon/tenon.h"
#include "test.h"

static tenon_error error;

// y = b + x w, with an open number of rows.
#define PROGRAM                                                                                    \
  "{\"graph_module\": {\"graph\": {\"inputs\": [], \"outputs\": [], \"nodes\": [{\"target\": "     \
  "\"torch.ops.aten.addmm.default\", \"name\": \"y\", \"inputs\": [{\"name\": \"self\", \"arg\": " \
  "{\"as_tensor\": {\"name\": \"b\"}}}, {\"name\": \"mat1\", \"arg\": {\"as_tensor\": {\"name\": " \
  "\"x\"}}}, {\"name\": \"mat2\", \"arg\": {\"as_tensor\": {\"name\": \"w\"}}}], \"outputs\": "    \
  "[{\"as_tensor\": {\"name\": \"y\"}}]}], \"tensor_values\": {\"x\": {\"dtype\": 7, \"sizes\": "  \
  "[{\"as_expr\": {\"expr_str\": \"Symbol('s0', positive=True)\"}}, {\"as_int\": 2}]}}}, "         \
  "\"signature\": {\"input_specs\": [{\"parameter\": {\"arg\": {\"name\": \"w\"}, "                \
  "\"parameter_name\": \"layer.w\"}}, {\"buffer\": {\"arg\": {\"name\": \"b\"}, \"buffer_name\": " \
  "\"layer.b\", \"persistent\": true}}, {\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": "    \
  "\"x\"}}}}], \"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": "         \
  "\"y\"}}}}]}}, \"range_constraints\": {\"s0\": {\"min_val\": 2, \"max_val\": 64}}, "             \
  "\"schema_version\": {\"major\": 8, \"minor\": 8}}"

static float w[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30};

static tenon_named_tensor named(const char *name, float *data, int32_t rank, int64_t rows,
                                int64_t columns) {
  tenon_named_tensor n = {.name = name,
                          .tensor = {.data = data, .dtype = TENON_DTYPE_F32, .rank = rank}};
  n.tensor.shape[0] = rank == 2 ? rows : columns;
  n.tensor.shape[1] = rank == 2 ? columns : 0;
  return n;
}

static tenon_status open_given(const tenon_named_tensor *t, size_t n, tenon_model **out) {
  tenon_open_options o = {.struct_size = sizeof o, .tensors = t, .ntensors = n};
  *out = NULL;
  return tenon_model_open_memory(PROGRAM, sizeof PROGRAM - 1, &o, out, &error);
}

TEST(torch_given_weights) {
  tenon_named_tensor t[] = {named("layer.w", w, 2, 2, 3), named("layer.b", b, 1, 0, 3)};
  float x[] = {1, 0, 0, 1}, want[] = {11, 22, 33, 14, 25, 36};
  tenon_tensor in = {.data = x, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {2, 2}}, out = {0};
  tenon_model *m;
  tenon_program *p = NULL;
  tenon_session *s = NULL;
  tenon_value_info v;
  EXPECT_STATUS(open_given(t, 2, &m), TENON_OK);
  REQUIRE(m);
  EXPECT_STATUS(tenon_model_input(m, 0, &v), TENON_OK);
  EXPECT_STR_EQ(v.type, "f32[s0, 2]");
  EXPECT_STATUS(tenon_run(m, &in, 1, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.data && !memcmp(out.data, want, sizeof want));
  tenon_tensor_release(&out);
  EXPECT_STATUS(tenon_compile(m, NULL, &p, &error), TENON_OK);
  tenon_model_close(m);
  EXPECT_STATUS(tenon_session_create(p, NULL, &s, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_run(s, &in, 1, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.data && !memcmp(out.data, want, sizeof want));
  tenon_tensor_release(&out);
  tenon_session_release(s);
  tenon_program_release(p);
}

TEST(torch_given_weights_refused) {
  tenon_named_tensor good = named("layer.w", w, 2, 2, 3), t[3];
  tenon_model *m;
  t[0] = good;
  EXPECT_STATUS(open_given(t, 1, &m), TENON_EFORMAT);
  EXPECT_CONTAINS(error.message, "no tensor 'layer.b'");
  EXPECT_STATUS(tenon_model_open_memory(PROGRAM, sizeof PROGRAM - 1, NULL, &m, &error),
                TENON_EFORMAT);
  t[1] = good;
  EXPECT_STATUS(open_given(t, 2, &m), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "given twice");
  t[1] = named("layer.b", NULL, 1, 0, 3);
  EXPECT_STATUS(open_given(t, 2, &m), TENON_EINVAL);
  t[1] = named("layer.b", b, 1, 0, -3);
  EXPECT_STATUS(open_given(t, 2, &m), TENON_EINVAL);
  t[1] = named("", b, 1, 0, 3);
  EXPECT_STATUS(open_given(t, 2, &m), TENON_EINVAL);
  t[1] = named("layer.b", b, 1, 0, 3);
  t[1].tensor.bytes = 4;
  EXPECT_STATUS(open_given(t, 2, &m), TENON_EINVAL);
  t[1] = named("layer.b", b, 1, 0, 3);
  t[1].tensor.rank = 99;
  EXPECT_STATUS(open_given(t, 2, &m), TENON_EINVAL);
  t[1] = named("layer.b", b, 1, 0, 2);  // does not fit the product
  EXPECT(open_given(t, 2, &m) != TENON_OK);
  EXPECT_STATUS(open_given(NULL, 2, &m), TENON_EINVAL);
  tenon_open_options both = {
      .struct_size = sizeof both, .tensors = &good, .ntensors = 1, .weights = "w.npz"};
  EXPECT_STATUS(tenon_model_open_memory(PROGRAM, sizeof PROGRAM - 1, &both, &m, &error),
                TENON_EINVAL);
  EXPECT(!m);
}

TEST(torch_given_damaged) {
  static char text[sizeof PROGRAM];
  tenon_named_tensor t[] = {named("layer.w", w, 2, 2, 3), named("layer.b", b, 1, 0, 3)};
  tenon_open_options o = {.struct_size = sizeof o, .tensors = t, .ntensors = 2};
  for (size_t i = 0; i < sizeof PROGRAM - 1; i++) {
    tenon_model *m = NULL;
    memcpy(text, PROGRAM, sizeof PROGRAM);
    text[i] = (char)(text[i] ^ 1 << (i % 7));
    if (tenon_model_open_memory(text, sizeof PROGRAM - 1, &o, &m, &error) == TENON_EINTERNAL)
      FAIL("byte %zu: %s", i, error.message);
    tenon_model_close(m);
    EXPECT(tenon_model_open_memory(PROGRAM, i, &o, &m, &error) != TENON_OK);
  }
}

TEST(api_op_known) {
  EXPECT(tenon_op_known("pytorch", "aten::add.Tensor") == 1);
  EXPECT(tenon_op_known("pytorch", "aten::relu") == 1);
  EXPECT(tenon_op_known("pytorch", "aten::frobnicate") == 0);
  EXPECT(tenon_op_known("nothing", "aten::relu") == 0);
  EXPECT(tenon_op_known(NULL, "aten::relu") == 0 && tenon_op_known("pytorch", NULL) == 0);
}

// a = clone(x); a[0:1].OP(v); return a.  Nobody reads what the operator in place gives.
static tenon_status open_changing(const char *op, tenon_model **out) {
  static char text[2048];
  snprintf(
      text, sizeof text,
      "{\"graph_module\": {\"graph\": {\"inputs\": [], \"outputs\": [], \"nodes\": ["
      "{\"target\": \"torch.ops.aten.clone.default\", \"name\": \"a\", \"inputs\": [{\"name\": "
      "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}}], \"outputs\": [{\"as_tensor\": "
      "{\"name\": \"a\"}}]}, {\"target\": \"torch.ops.aten.slice.Tensor\", \"name\": \"s\", "
      "\"inputs\": [{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": \"a\"}}}, {\"name\": "
      "\"dim\", \"arg\": {\"as_int\": 0}}, {\"name\": \"start\", \"arg\": {\"as_int\": 0}}, "
      "{\"name\": \"end\", \"arg\": {\"as_int\": -1}}], \"outputs\": [{\"as_tensor\": {\"name\": "
      "\"s\"}}]}, {\"target\": \"torch.ops.aten.%s\", \"name\": \"f\", \"inputs\": [{\"name\": "
      "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"s\"}}}, {\"name\": \"value\", \"arg\": "
      "{\"as_tensor\": {\"name\": \"v\"}}}], \"outputs\": [{\"as_tensor\": {\"name\": \"f\"}}]}], "
      "\"tensor_values\": {\"x\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 3}]}, \"v\": {\"dtype\": "
      "7, \"sizes\": []}}}, \"signature\": {\"input_specs\": [{\"user_input\": {\"arg\": "
      "{\"as_tensor\": {\"name\": \"x\"}}}}, {\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": "
      "\"v\"}}}}], \"output_specs\": [{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": "
      "\"a\"}}}}]}}, \"schema_version\": {\"major\": 8, \"minor\": 8}}",
      op);
  *out = NULL;
  return tenon_model_open_memory(text, strlen(text), NULL, out, &error);
}

TEST(torch_changes_in_place_are_never_dropped) {
  float x[] = {1, 2, 3}, v = 7, want[] = {7, 7, 3};
  tenon_tensor in[] = {{.data = x, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {3}},
                       {.data = &v, .dtype = TENON_DTYPE_F32}},
               out = {0};
  tenon_model *m;
  EXPECT_STATUS(open_changing("fill_.Tensor", &m), TENON_OK);
  REQUIRE(m);
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.data && !memcmp(out.data, want, sizeof want));
  tenon_tensor_release(&out);
  tenon_model_close(m);
  tenon_program *p = NULL;
  EXPECT_STATUS(open_changing("no_such_operator_.default", &m), TENON_OK);
  EXPECT_STATUS(tenon_compile(m, NULL, &p, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "no_such_operator_");
  tenon_model_close(m);
}
