// needed_test.c -- runs that want some of the outputs: the same bits, and nothing else is computed.
#include "test.h"

static tenon_error error;
enum { NIN = 3, NOUT = 5, PICKED = 1, KEPT = 31 & ~(1 << PICKED) };

// `picked` fails where the index is too large.  The size of `ones` is bound by the step that makes
// `where`, which it does not read once shapes are folded.
static const char text[] = "graph @\"m\"(%x: f32[n, 4], %i: i64[k], %w: f32[4, 4]) -> (product: "
                           "f32[n, 4], picked: f32[k, 4], "
                           "where: i64[2, ?s], ones: f32[?s, 3], total: f32[1, 1]) {\n"
                           "  %y = mat_mul(%x, %w)\n"
                           "  %product = relu(%y)\n"
                           "  %picked = gather(%x, %i) axis=0\n"
                           "  %where = non_zero(%x)\n"
                           "  %shape = shape(%where)\n"
                           "  %at = const i64[1] {1}\n"
                           "  %size = gather(%shape, %at) axis=0\n"
                           "  %three = const i64[1] {3}\n"
                           "  %dims = concat(%size, %three) axis=0\n"
                           "  %one = const f32[] {1}\n"
                           "  %ones = expand(%one, %dims)\n"
                           "  %total = reduce_sum(%y)\n"
                           "  return %product, %picked, %where, %ones, %total\n"
                           "}\n";

typedef struct Maker {
  tenon_model *model;
  tenon_program *program;
  tenon_session *session;  // NULL: the interpreter
} Maker;

static bool make(const char *target, Maker *out) {
  *out = (Maker){0};
  tenon_options o = {.struct_size = sizeof o, .target = target};
  tenon_session_options so = {.struct_size = sizeof so, .profile = 1};
  bool ok = !tenon_model_open_memory(text, strlen(text), NULL, &out->model, &error);
  if (ok && target)
    ok = !tenon_compile(out->model, &o, &out->program, &error) &&
         !tenon_session_create(out->program, &so, &out->session, &error);
  if (!ok) FAIL("%s: %s", target ? target : "interp", error.message);
  return ok;
}

static void drop(Maker *m) {
  tenon_session_release(m->session);
  tenon_program_release(m->program);
  tenon_model_close(m->model);
}

static tenon_status run(const Maker *m, int64_t index, unsigned set, tenon_tensor *out) {
  float x[8] = {1, 0, 3, 0, 5, 6, 0, 8}, w[16];
  for (int i = 0; i < 16; i++) w[i] = (float)(i % 5) - 2;
  tenon_tensor in[NIN] = {{.data = x, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {2, 4}},
                          {.data = &index, .dtype = TENON_DTYPE_I64, .rank = 1, .shape = {1}},
                          {.data = w, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {4, 4}}};
  size_t wanted[NOUT], n = 0;
  for (size_t i = 0; i < NOUT; i++)
    if (set >> i & 1) wanted[n++] = i;
  tenon_run_options o = {.struct_size = sizeof o, .wanted = wanted, .nwanted = n};
  memset(out, 0, NOUT * sizeof *out);
  return m->session ? tenon_session_run(m->session, in, NIN, out, NOUT, &o, &error)
                    : tenon_run(m->model, in, NIN, out, NOUT, &o, &error);
}

static void release(tenon_tensor *out) {
  for (int i = 0; i < NOUT; i++) tenon_tensor_release(&out[i]);
}

static const char *const targets[] = {NULL, "ref", "cpu", "host"};

static bool is_there(const char *target) {
  tenon_target_info info;
  for (size_t i = 0; target && !tenon_target(i, &info); i++)
    if (!strcmp(info.name, target)) return info.available;
  return !target;
}

TEST(any_set_of_outputs_has_the_same_bits) {
  for (size_t t = 0; t < ARRAY_LEN(targets); t++) {
    Maker m;
    if (!is_there(targets[t])) continue;
    REQUIRE(make(targets[t], &m));
    tenon_tensor all[NOUT], some[NOUT];
    REQUIRE(!run(&m, 1, 31, all));
    for (unsigned set = 0; set < 32; set++) {
      if (run(&m, 1, set, some)) FAIL("%s, set %u: %s", targets[t], set, error.message);
      for (int i = 0; i < NOUT; i++) {
        EXPECT_INT_EQ(some[i].data != NULL, set >> i & 1);
        if (!some[i].data) continue;
        REQUIRE(some[i].bytes == all[i].bytes);
        EXPECT(!memcmp(some[i].data, all[i].data, (size_t)all[i].bytes));
      }
      release(some);
    }
    release(all);
    drop(&m);
  }
}

TEST(what_is_not_wanted_is_not_computed) {
  for (size_t t = 0; t < ARRAY_LEN(targets); t++) {
    Maker m;
    tenon_tensor out[NOUT];
    if (!is_there(targets[t])) continue;
    REQUIRE(make(targets[t], &m));
    EXPECT_STATUS(run(&m, 7, 31, out), TENON_EINVAL);
    if (run(&m, 7, KEPT, out)) FAIL("%s: %s", targets[t], error.message);
    release(out);
    if (!m.session) {
      drop(&m);
      continue;
    }
    tenon_session_profile_reset(m.session);
    REQUIRE(!run(&m, 1, 1 << PICKED, out));
    int64_t done = 0;
    tenon_step st;
    for (size_t i = 0; i < tenon_session_step_count(m.session); i++) {
      REQUIRE(!tenon_session_step(m.session, i, &st));
      done += st.calls;
    }
    EXPECT(done >= 1 && done <= 2);
    EXPECT(tenon_session_step_count(m.session) > 2);
    release(out);
    drop(&m);
  }
}

TEST(wanted_outputs_are_checked) {
  Maker m;
  REQUIRE(make("ref", &m));
  size_t none = NOUT;
  tenon_tensor in[NIN] = {{0}}, out[NOUT] = {{0}};
  tenon_run_options o = {.struct_size = sizeof o, .wanted = &none, .nwanted = 1};
  EXPECT_STATUS(tenon_session_run(m.session, in, NIN, out, NOUT, &o, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "output 5 is wanted, but the model has 5 outputs");
  EXPECT_STATUS(tenon_run(m.model, in, NIN, out, NOUT, &o, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_run_values(m.model, NULL, 0, NULL, 0, &o, &error), TENON_EINVAL);
  drop(&m);
}
