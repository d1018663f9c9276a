// value_test.c -- values of a run, their memory, and what evaluations share.
#include "test.h"
#include "base/budget.h"
#include "eval/eval.h"

static Diag diag;
// What a tensor takes of the allocator: the value and whole cache lines of data.
static int64_t tensor_taken(int64_t bytes) {
  return mem_taken((int64_t)sizeof(Value)) + mem_taken((bytes + 63) / 64 * 64);
}
static void start(Run *r) {
  diag_init(&diag);
  run_init(r, NULL, &diag);
}

TEST(value_tensor_basics) {
  Run r;
  Value *v, *w;
  start(&r);
  EXPECT_INT_EQ(r.budget, -1);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 2, (int64_t[]){3, 5}, &v), TENON_OK);
  EXPECT(v->n == 15 && v->rank == 2 && (uintptr_t)v->data % 64 == 0);
  for (int i = 0; i < 15; i++) EXPECT_F64_EQ(val_f64(v, i), 0.0);
  EXPECT_INT_EQ(r.live_bytes, tensor_taken(60));
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_U4, 0, NULL, &w), TENON_OK);
  EXPECT(w->n == 1 && w->data_bytes == 1);
  value_release(v);
  EXPECT_INT_EQ(r.live_bytes, tensor_taken(1));
  EXPECT_INT_EQ(r.peak_bytes, tensor_taken(60) + tensor_taken(1));
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_STRING, 2, (int64_t[]){0, 7}, &v), TENON_OK);
  EXPECT(v->n == 0 && v->data);
  value_release(NULL);
  run_deinit(&r);
}

TEST(value_tensor_refuses) {
  Run r;
  Value *v;
  Where at = {.node = "mm", .op = "MatMul"};
  int64_t huge = INT64_C(1) << 32, ones[MAX_RANK + 1] = {0};
  start(&r);
  EXPECT_STATUS(value_tensor(&r, at, DT_F32, 2, (int64_t[]){huge, huge}, &v), TENON_EINVAL);
  EXPECT(!v);
  EXPECT_STR_EQ(diag.text, "node 'mm' (MatMul): result f32[4294967296, 4294967296] is too large");
  EXPECT_STATUS(value_tensor(&r, at, DT_U8, 1, (int64_t[]){INT64_MAX}, &v), TENON_EINVAL);
  EXPECT_STATUS(value_tensor(&r, at, DT_U8, 1, (int64_t[]){INT64_C(1) << 60}, &v), TENON_ENOMEM);
  EXPECT_STATUS(value_tensor(&r, at, DT_F32, 1, (int64_t[]){-1}, &v), TENON_EINVAL);
  EXPECT_STATUS(value_tensor(&r, at, DT_F32, MAX_RANK + 1, ones, &v), TENON_EINVAL);
  EXPECT_STATUS(value_tensor(&r, at, (DType)77, 0, NULL, &v), TENON_EINVAL);
  r.max_bytes = tensor_taken(600) + tensor_taken(400);
  char left[96];
  snprintf(left, sizeof left, "and %lld of the memory limit of %lld bytes are left",
           (long long)mem_taken(448), (long long)r.max_bytes);
  EXPECT_STATUS(value_tensor(&r, at, DT_U8, 1, (int64_t[]){600}, &v), TENON_OK);
  Value *w;
  EXPECT_STATUS(value_tensor(&r, at, DT_U8, 1, (int64_t[]){449}, &w), TENON_ENOMEM);
  EXPECT_CONTAINS(diag.text, "result u8[449] is too large: ");
  EXPECT_CONTAINS(diag.text, left);
  EXPECT_STATUS(value_tensor(&r, at, DT_U8, 1, (int64_t[]){400}, &w), TENON_OK);
  EXPECT_STATUS(value_sequence(&r, DT_F32, 1, &w), TENON_ENOMEM);
  EXPECT_STATUS(value_sequence(&r, DT_F32, -1, &w), TENON_ENOMEM);
  value_release(v);
  EXPECT_STATUS(value_tensor(&r, at, DT_U8, 1, (int64_t[]){600}, &v), TENON_OK);
  EXPECT_INT_EQ(r.live_bytes, r.max_bytes);
  run_deinit(&r);
}

// Without elements a shape may be large, but not so that a product of some of its sizes overflows.
TEST(value_zero_beside_large) {
  Run r;
  Value *v;
  start(&r);
  int64_t large = (int64_t)1 << 40, strides[3];
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F64, 3, (int64_t[]){large, 0, 1000}, &v), TENON_OK);
  EXPECT_INT_EQ(v->n, 0);
  shape_strides(3, v->dims, strides);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F64, 3, (int64_t[]){large, large, 0}, &v),
                TENON_EINVAL);
  run_deinit(&r);
}

TEST(value_alias_keeps_the_owner) {
  Run r;
  Value *v, *a, *b;
  start(&r);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_I32, 1, (int64_t[]){6}, &v), TENON_OK);
  val_put_i64(v, 5, 42);
  EXPECT_STATUS(value_alias(&r, v, 2, (int64_t[]){2, 3}, &a), TENON_OK);
  EXPECT_STATUS(value_alias(&r, a, 1, (int64_t[]){6}, &b), TENON_OK);
  value_release(v);
  value_release(a);
  EXPECT_INT_EQ(val_i64(b, 5), 42);
  EXPECT_INT_EQ(r.live_bytes, tensor_taken(24) + mem_taken((int64_t)sizeof(Value)));
  value_release(b);
  EXPECT_INT_EQ(r.live_bytes, 0);
  EXPECT(!r.values);
  int32_t mine[2] = {1, 2};
  EXPECT_STATUS(value_borrow(&r, DT_I32, 1, (int64_t[]){2}, mine, &v), TENON_OK);
  EXPECT(v->data == mine && r.live_bytes == mem_taken((int64_t)sizeof(Value)));
  EXPECT_STATUS(value_alias(&r, v, 2, (int64_t[]){1, 2}, &a), TENON_OK);
  value_release(v);
  EXPECT_INT_EQ(val_i64(a, 1), 2);
  Value outside = {.kind = VK_TENSOR, .dtype = DT_I32, .n = 1, .data = mine};
  EXPECT(value_retain(&outside) == &outside && outside.refs == 0);
  EXPECT_STATUS(value_alias(&r, &outside, 0, NULL, &b), TENON_OK);
  value_release(b);
  value_release(&outside);
  run_deinit(&r);
}

TEST(value_containers) {
  Run r;
  Value *t, *s, *o, *m;
  start(&r);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 1, (int64_t[]){4}, &t), TENON_OK);
  EXPECT_STATUS(value_sequence(&r, DT_F32, 3, &s), TENON_OK);
  s->items[0] = value_retain(t);
  s->items[2] = value_retain(t);
  EXPECT_STATUS(value_optional(&r, DT_F32, s, &o), TENON_OK);
  EXPECT_STATUS(value_map(&r, t, s, &m), TENON_OK);
  value_release(s);
  value_release(t);
  value_release(o);
  EXPECT(m->items[1]->items[2] == t && t->refs == 3);
  value_release(m);
  EXPECT(!r.values);
  EXPECT_INT_EQ(r.live_bytes, 0);
  EXPECT_STATUS(value_optional(&r, DT_F32, NULL, &o), TENON_OK);
  EXPECT(o->nitems == 0 && o->elem_dtype == DT_F32);
  run_deinit(&r);
}

TEST(value_nests_deeply) {
  Run r;
  Value *v, *o;
  start(&r);
  EXPECT_STATUS(value_optional(&r, DT_F32, NULL, &v), TENON_OK);
  for (int i = 0; i < 300000; i++) {
    REQUIRE(value_optional(&r, DT_F32, v, &o) == TENON_OK);
    value_release(v);
    v = o;
  }
  value_release(v);
  EXPECT(!r.values);
  EXPECT_INT_EQ(r.live_bytes, 0);
  run_deinit(&r);
}

static int64_t allow, live_blocks;
static void *some_alloc(int64_t bytes) {
  if (allow-- <= 0) return NULL;
  live_blocks++;
  return platform_posix.alloc(bytes);
}
static void some_free(void *p, int64_t bytes) {
  live_blocks--;
  platform_posix.free(p, bytes);
}

static tenon_status make_some(Run *r) {
  Value *t, *s, *a;
  TRY(value_tensor(r, NOWHERE, DT_F32, 1, (int64_t[]){1000}, &t));
  TRY(value_sequence(r, DT_F32, 2, &s));
  TRY(value_alias(r, t, 2, (int64_t[]){10, 100}, &a));
  s->items[0] = a;
  value_release(t);
  return TENON_OK;
}

// What a failed allocation leaves behind goes with the run.
TEST(value_allocation_failing) {
  Platform p = platform_posix;
  p.alloc = some_alloc;
  p.free = some_free;
  platform = &p;
  int64_t k = 0;
  for (tenon_status s = TENON_ENOMEM; s; k++) {
    Run r;
    start(&r);
    allow = k;
    s = make_some(&r);
    if (s) EXPECT_STATUS(s, TENON_ENOMEM);
    run_deinit(&r);
    EXPECT_INT_EQ(live_blocks, 0);
  }
  platform = &platform_posix;
  EXPECT_INT_EQ(k, 6);
}

TEST(copy_elems_sub_byte) {
  uint8_t src[8], dst[8], want[8];
  for (int i = 0; i < 8; i++) src[i] = (uint8_t)(i * 37 + 11);
  const DType types[] = {DT_U4, DT_I2, DT_U8};
  for (int k = 0; k < 3; k++)
    for (int di = 0; di < 4; di++)
      for (int si = 0; si < 4; si++)
        for (int n = 0; n <= 4; n++) {
          memset(dst, 0x5A, sizeof(dst));
          memset(want, 0x5A, sizeof(want));
          copy_elems(types[k], dst, di, src, si, n);
          for (int i = 0; i < n; i++)
            put_i64(types[k], want, di + i, get_i64(types[k], src, si + i));
          if (memcmp(dst, want, sizeof(dst))) FAIL("%d: %d %d %d", k, di, si, n);
        }
  Str a[2] = {STR("x"), STR("yy")}, b[2];
  copy_elems(DT_STRING, b, 0, a, 0, 2);
  EXPECT(str_is(b[1], "yy"));
}

TEST(shapes) {
  int64_t n, s[3];
  EXPECT(shape_count(0, NULL, &n) && n == 1);
  EXPECT(shape_count(2, (int64_t[]){3, 4}, &n) && n == 12);
  EXPECT(!shape_count(2, (int64_t[]){3, -4}, &n));
  EXPECT(!shape_count(2, (int64_t[]){0, -4}, &n));
  EXPECT(!shape_count(2, (int64_t[]){INT64_MAX, 2}, &n));
  shape_strides(3, (int64_t[]){2, 3, 4}, s);
  EXPECT(s[0] == 12 && s[1] == 4 && s[2] == 1);
  EXPECT_STR_EQ(shape_text(0, NULL).s, "[]");
  EXPECT_STR_EQ(shape_text(2, (int64_t[]){2, -3}).s, "[2, -3]");
  int64_t wide[MAX_RANK];
  for (int i = 0; i < MAX_RANK; i++) wide[i] = INT64_MIN;
  EXPECT_INT_EQ((int64_t)strlen(shape_text(MAX_RANK, wide).s), MAX_RANK * 22);
  EXPECT(elem_bytes(DT_F32) == 4 && elem_bytes(DT_U4) == 0 && elem_bytes(DT_C128) == 16);
}

TEST(run_strings) {
  Run r;
  start(&r);
  char text[] = "abc";
  Str s = run_string(&r, str_of(text));
  text[0] = 'X';
  EXPECT_STR_EQ(s.p, "abc");
  EXPECT_INT_EQ(run_string(&r, (Str){NULL, 0}).n, 0);
  run_deinit(&r);
}

// ---- eval.h ----

TEST(eval_inputs) {
  Run r;
  Value *a, *s, *out;
  start(&r);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_I8, 1, (int64_t[]){3}, &a), TENON_OK);
  EXPECT_STATUS(value_sequence(&r, DT_F32, 0, &s), TENON_OK);
  val_put_i64(a, 1, -7);
  const Value *in[] = {a, NULL, s};
  Value *outs[1] = {NULL};
  Eval e = {.run = &r, .in = in, .nin = 3, .out = outs, .nout = 1, .at = {.op = "Add"}};
  EXPECT(eval_in(&e, 0) == a && !eval_in(&e, 1) && !eval_in(&e, 9));
  EXPECT_STATUS(eval_need(&e, 0, "x", DT_I8), TENON_OK);
  EXPECT_STATUS(eval_need(&e, 0, "x", DT_F32), TENON_EINVAL);
  EXPECT_CONTAINS(diag.text, "Add: input 0 (x) is i8, not f32");
  EXPECT_STATUS(eval_need(&e, 1, "y", (DType)0), TENON_EINVAL);
  EXPECT_STATUS(eval_need(&e, 2, "z", (DType)0), TENON_EINVAL);
  EXPECT_STATUS(eval_need(&e, 5, "w", (DType)0), TENON_EINVAL);
  Ints ints;
  Floats doubles;
  EXPECT_STATUS(eval_ints(&e, 0, &ints), TENON_OK);
  EXPECT(ints.n == 3 && ints.v[1] == -7);
  EXPECT_STATUS(eval_doubles(&e, 0, &doubles), TENON_OK);
  EXPECT(doubles.n == 3 && doubles.v[1] == -7.0);
  EXPECT_STATUS(eval_ints(&e, 2, &ints), TENON_EINVAL);
  int axis;
  EXPECT_STATUS(eval_axis(&e, -1, 3, &axis), TENON_OK);
  EXPECT_INT_EQ(axis, 2);
  EXPECT_STATUS(eval_axis(&e, 3, 3, &axis), TENON_EINVAL);
  EXPECT_STATUS(eval_axis(&e, -4, 3, &axis), TENON_EINVAL);
  EXPECT_STATUS(eval_axis(&e, INT64_MIN, 3, &axis), TENON_EINVAL);
  EXPECT_STATUS(eval_out(&e, 0, DT_F32, 1, (int64_t[]){2}, &out), TENON_OK);
  EXPECT(out == outs[0]);
  run_deinit(&r);
}

TEST(eval_broadcasting) {
  Run r;
  Value *a, *b, *c, *z;
  start(&r);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 3, (int64_t[]){2, 1, 4}, &a), TENON_OK);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 2, (int64_t[]){3, 1}, &b), TENON_OK);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 1, (int64_t[]){5}, &c), TENON_OK);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 2, (int64_t[]){0, 1}, &z), TENON_OK);
  Eval e = {.run = &r};
  int rank;
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  const Value *ab[] = {a, NULL, b}, *ac[] = {a, c}, *az[] = {a, z};
  EXPECT_STATUS(eval_broadcast(&e, ab, 3, &rank, dims), TENON_OK);
  EXPECT(rank == 3 && dims[0] == 2 && dims[1] == 3 && dims[2] == 4);
  broadcast_strides(a, rank, strides);
  EXPECT(strides[0] == 4 && strides[1] == 0 && strides[2] == 1);
  broadcast_strides(b, rank, strides);
  EXPECT(strides[0] == 0 && strides[1] == 1 && strides[2] == 0);
  EXPECT_STATUS(eval_broadcast(&e, ac, 2, &rank, dims), TENON_EINVAL);
  EXPECT_CONTAINS(diag.text, "shape [5] does not broadcast to [2, 1, 4]");
  EXPECT_STATUS(eval_broadcast(&e, az, 2, &rank, dims), TENON_OK);
  EXPECT(rank == 3 && dims[0] == 2 && dims[1] == 0 && dims[2] == 4);
  EXPECT_STATUS(eval_broadcast(&e, NULL, 0, &rank, dims), TENON_OK);
  EXPECT_INT_EQ(rank, 0);
  run_deinit(&r);
}
