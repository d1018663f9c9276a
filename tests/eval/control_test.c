// control_test.c -- loops: what they give without an iteration.
#include "eval/control.h"

#include "codegen.h"
#include "compiled.h"
#include "test.h"

#define MODELS TENON_SOURCE_DIR "/tests/models/"

static tenon_error error;

static void expect_shape(const char *what, const tenon_tensor *t, int32_t rank,
                         const int64_t *shape) {
  bool same = t->rank == rank;
  for (int32_t i = 0; same && i < rank; i++) same = t->shape[i] == shape[i];
  if (same) return;
  FAIL("%s: rank %d, sizes %lld %lld %lld", what, (int)t->rank, (long long)t->shape[0],
       (long long)t->shape[1], (long long)t->shape[2]);
}

// rows.onnx stacks rows of a shape that is an input.  The model declares 2 by k of one result, and
// nothing of the other.
static void run_rows(const char *target, int64_t trips) {
  tenon_model *m = NULL;
  tenon_program *p = NULL;
  tenon_session *s = NULL;
  tenon_options o = {.struct_size = sizeof o, .target = target, .no_cache = 1};
  float x[6] = {0};
  int64_t shape[] = {2, 3};
  tenon_tensor in[] = {{.data = &trips, .dtype = TENON_DTYPE_I64},
                       {.data = x, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {6}},
                       {.data = shape, .dtype = TENON_DTYPE_I64, .rank = 1, .shape = {2}}};
  tenon_tensor out[3] = {{0}};
  if (tenon_model_open(MODELS "rows.onnx", &m, &error) ||
      (target ? tenon_compile(m, &o, &p, &error) || tenon_session_create(p, NULL, &s, &error) ||
                    tenon_session_run(s, in, 3, out, 3, NULL, &error)
              : tenon_run(m, in, 3, out, 3, NULL, &error))) {
    FAIL("%s", error.message);
  } else {
    expect_shape("declared rows", &out[1], 3, (int64_t[]){trips, 2, trips ? 3 : 0});
    expect_shape("open rows", &out[2], trips ? 3 : 1, (int64_t[]){trips, 2, 3});
  }
  for (int i = 0; i < 3; i++) tenon_tensor_release(&out[i]);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

TEST(loop_without_an_iteration) {
  for (int64_t trips = 0; trips < 3; trips++) {
    run_rows(NULL, trips);
    run_rows("ref", trips);
    run_rows("host", trips);
    if (codegen_there()) run_rows("cpu", trips);
  }
}

// Lists that a file may hold: each is read or left out, within its bounds.
TEST(loop_row_shapes) {
  static const struct {
    int64_t n, list[6], at, rank;  // -1: nothing is said
  } row[] = {
      {0, {0}, 0, -1},          {1, {-1}, 0, -1},
      {1, {0}, 0, 0},           {3, {2, 4, 5}, 0, 2},
      {4, {-1, 2, 4, 5}, 1, 2}, {4, {1, 7, 1, -1}, 1, 1},
      {3, {2, 4, 5}, 1, -1},    {2, {2, 4}, 0, -1},
      {2, {16, 4}, 0, -1},      {2, {INT64_MAX, 4}, 1, -1},
      {2, {-2, 4}, 0, -1},      {2, {1, -2}, 0, -1},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Ints out;
    bool said = row_shape((Ints){row[i].n, row[i].list}, row[i].at, &out);
    EXPECT_INT_EQ(said ? out.n : -1, row[i].rank);
  }
}
