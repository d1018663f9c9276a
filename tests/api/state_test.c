// state_test.c -- values that a session keeps from one run to the next.
#include "test.h"

static tenon_error error;

// A running sum, and all that was ever given: its length grows with each run.
static const char *const sum_text =
    "graph @\"sum\"(%x: f32[2], %h: f32[2], %all: f32[n]) -> (y: f32[2], longer: f32[n + 2]) {\n"
    "  %y = add(%x, %h)\n"
    "  %longer = concat(%all, %x) axis=0\n"
    "  return %y, %longer\n"
    "}\n";

typedef struct Kept {
  tenon_model *m;
  tenon_program *p;
  tenon_session *s;
} Kept;

static tenon_status open_with(Kept *k, const tenon_state_pair *states, size_t n) {
  *k = (Kept){0};
  tenon_options o = {.struct_size = sizeof o, .target = "host", .opt_level = -1};
  tenon_session_options so = {
      .struct_size = sizeof so, .threads = 1, .states = states, .nstates = n};
  if (tenon_model_open_memory(sum_text, strlen(sum_text), NULL, &k->m, &error) ||
      tenon_compile(k->m, &o, &k->p, &error)) {
    FAIL("%s", error.message);
    return TENON_EINTERNAL;
  }
  return tenon_session_create(k->p, &so, &k->s, &error);
}

static void close_all(Kept *k) {
  tenon_session_release(k->s);
  tenon_program_release(k->p);
  tenon_model_close(k->m);
}

static tenon_tensor floats(float *v, int64_t n) {
  return (tenon_tensor){
      .data = v, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {n}, .bytes = 4 * n};
}

TEST(session_keeps_states) {
  Kept t;
  const tenon_state_pair pairs[] = {{"h", "y"}, {"all", "longer"}};
  REQUIRE(open_with(&t, pairs, 2) == TENON_OK);
  _Alignas(64) float one[2] = {1, 10}, none[1];
  tenon_value_info v;
  EXPECT_INT_EQ(tenon_session_state_count(t.s), 2);
  EXPECT_STATUS(tenon_session_state(t.s, 1, &v), TENON_OK);
  EXPECT_STR_EQ(v.name, "all");
  EXPECT_STATUS(tenon_session_state(t.s, 2, &v), TENON_EINVAL);
  tenon_tensor in[3] = {floats(one, 2)}, out[2] = {{0}}, got = {0};
  // `all` has no fixed shape.
  EXPECT_STATUS(tenon_session_run(t.s, in, 3, out, 2, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "set it first");
  EXPECT_STATUS(tenon_session_state_get(t.s, 1, &got, &error), TENON_EINVAL);
  tenon_tensor nothing = floats(none, 0);
  EXPECT_STATUS(tenon_session_state_set(t.s, 1, &nothing, &error), TENON_OK);
  for (int i = 1; i <= 3; i++) {
    out[0] = out[1] = (tenon_tensor){0};
    REQUIRE(tenon_session_run(t.s, in, 3, out, 2, NULL, &error) == TENON_OK);
    EXPECT(!out[0].owner && !out[1].owner);
    EXPECT_F64_EQ(((float *)out[0].data)[1], 10.0 * i);
    EXPECT_INT_EQ(out[1].shape[0], 2 * i);
  }
  // A run that fails changes nothing; neither does one whose caller has too little room.
  tenon_tensor wrong[3] = {floats(one, 1)};
  EXPECT_STATUS(tenon_session_run(t.s, wrong, 3, out, 2, NULL, &error), TENON_EINVAL);
  _Alignas(64) float room[8];
  out[0] = (tenon_tensor){.data = room, .bytes = 4};
  out[1] = (tenon_tensor){0};
  EXPECT_STATUS(tenon_session_run(t.s, in, 3, out, 2, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_state_get(t.s, 0, &got, &error), TENON_OK);
  EXPECT_F64_EQ(((float *)got.data)[0], 3);
  tenon_tensor_release(&got);
  // Into the caller's buffers; a state given for once.
  out[0] = (tenon_tensor){.data = room, .bytes = sizeof room};
  out[1] = (tenon_tensor){0};
  _Alignas(64) float hundred[2] = {100, 100};
  in[1] = floats(hundred, 2);
  EXPECT_STATUS(tenon_session_run(t.s, in, 3, out, 2, NULL, &error), TENON_OK);
  EXPECT(out[0].data == room && room[0] == 101);
  in[1] = (tenon_tensor){0};
  EXPECT_STATUS(tenon_session_state_get(t.s, 0, &(tenon_tensor){.data = room, .bytes = 4}, &error),
                TENON_EINVAL);
  close_all(&t);
}

TEST(session_states_are_set_and_reset) {
  Kept t;
  const tenon_state_pair pair = {"h", "y"};
  REQUIRE(open_with(&t, &pair, 1) == TENON_OK);
  _Alignas(64) float one[2] = {1, 10}, start[2] = {5, 6};
  tenon_tensor value = floats(start, 2), shorter = floats(start, 1), got = {0};
  EXPECT_STATUS(tenon_session_state_set(t.s, 0, &shorter, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_state_set(t.s, 0, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_state_set(t.s, 1, &value, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_state_set(t.s, 0, &value, &error), TENON_OK);
  tenon_tensor x = floats(one, 2), all = floats(start, 0);
  EXPECT_STATUS(tenon_session_bind_input(t.s, 0, &x, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_bind_input(t.s, 2, &all, &error), TENON_OK);
  for (int i = 1; i <= 3; i++) {
    REQUIRE(tenon_session_run_bound(t.s, NULL, &error) == TENON_OK);
    EXPECT_STATUS(tenon_session_output(t.s, 0, &got, &error), TENON_OK);
    EXPECT_F64_EQ(((float *)got.data)[0], 5.0 + i);
  }
  EXPECT_STATUS(tenon_session_state_reset(t.s, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_run_bound(t.s, NULL, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_output(t.s, 0, &got, &error), TENON_OK);
  EXPECT_F64_EQ(((float *)got.data)[0], 1);
  close_all(&t);
}

TEST(session_refuses_wrong_states) {
  Kept k, t;
  REQUIRE(open_with(&k, NULL, 0) == TENON_OK);
  EXPECT_INT_EQ(tenon_session_state_count(k.s), 0);
  EXPECT_STATUS(tenon_session_state_reset(k.s, &error), TENON_OK);
  const tenon_state_pair bad[][2] = {
      {{"nobody", "y"}, {0}},        {{"h", "nobody"}, {0}},   {{"h", NULL}, {0}},
      {{"h", "y"}, {"h", "longer"}}, {{"h", "y"}, {"x", "y"}},
  };
  for (int i = 0; i < ARRAY_LEN(bad); i++) {
    EXPECT_STATUS(open_with(&t, bad[i], bad[i][1].input ? 2 : 1), TENON_EINVAL);
    EXPECT(!t.s);
    close_all(&t);
  }
  EXPECT_STATUS(open_with(&t, NULL, 1), TENON_EINVAL);
  close_all(&t);
  close_all(&k);
}
