// session_threads_test.c -- models, programs and sessions used by several threads at once, through
// the public interface.
#include "test.h"

#include <pthread.h>

static const char add_text[] = "graph @\"add\"(%x: f32[n, 2], %y: f32[n, 2]) -> (z: f32[n, 2]) {\n"
                               "  %a = add(%x, %y)\n"
                               "  %z = mul(%a, %a)\n"
                               "  return %z\n"
                               "}\n";

static tenon_model *open_text(const char *text) {
  tenon_model *m = NULL;
  tenon_error e;
  if (tenon_model_open_memory(text, strlen(text), NULL, &m, &e)) FAIL("%s", e.message);
  return m;
}

typedef struct Worker {
  tenon_program *p;
  float add;
  int wrong;
} Worker;

static void *work(void *arg) {
  Worker *w = arg;
  tenon_session *s;
  tenon_error e;
  if (tenon_session_create(
          w->p,
          &(tenon_session_options){.struct_size = sizeof(tenon_session_options), .threads = 2}, &s,
          &e)) {
    w->wrong++;
    return NULL;
  }
  for (int i = 0; i < 200; i++) {
    int64_t n = 1 + i % 17;
    _Alignas(64) float x[40], y[40], z[40];
    for (int k = 0; k < 2 * n; k++) x[k] = (float)(i + k), y[k] = w->add;
    tenon_tensor t[2] = {{.data = x, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {n, 2}},
                         {.data = y, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {n, 2}}};
    tenon_tensor out = {.data = z, .bytes = sizeof z};
    if (tenon_session_run(s, t, 2, &out, 1, NULL, &e)) w->wrong++;
    for (int k = 0; k < 2 * n; k++) w->wrong += z[k] != (x[k] + y[k]) * (x[k] + y[k]);
  }
  tenon_session_release(s);
  return NULL;
}

static void check_threads(const char *target) {
  tenon_model *m = open_text(add_text);
  tenon_options o = {.struct_size = sizeof o, .target = target};
  tenon_program *p = NULL;
  tenon_error e;
  REQUIRE(!tenon_compile(m, &o, &p, &e));
  Worker w[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    w[i] = (Worker){.p = p, .add = (float)i};
    pthread_create(&thread[i], NULL, work, &w[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    if (w[i].wrong) FAIL("%s: %d wrong", target, (int)w[i].wrong);
  }
  tenon_program_release(p);
  tenon_model_close(m);
}

TEST(sessions_of_one_program_on_several_threads) {
  tenon_target_info t;
  for (size_t k = 0; !tenon_target(k, &t); k++)
    if (t.available) check_threads(t.name);
}

typedef struct OneModel {
  const char *text;
  float want;
  int wrong;
} OneModel;

static void *compile_as_c(void *arg) {
  OneModel *one = arg;
  tenon_model *m = open_text(one->text);
  tenon_options o = {.struct_size = sizeof o, .target = "c"};
  tenon_program *p = NULL;
  tenon_session *s = NULL;
  tenon_error e;
  float x = -2, y = 0;
  tenon_tensor in_one = {.data = &x, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {1}};
  tenon_tensor out = {.data = &y, .bytes = sizeof y};
  one->wrong = tenon_compile(m, &o, &p, &e) || tenon_session_create(p, NULL, &s, &e) ||
               tenon_session_run(s, &in_one, 1, &out, 1, NULL, &e) || y != one->want;
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
  return NULL;
}

// Each thread has the library that was made for it.
TEST(several_threads_compile_as_c) {
  OneModel one[] = {
      {"graph @\"a\"(%x: f32[1]) -> (y: f32[1]) {\n  %a = neg(%x)\n  return %a\n}\n", 2, 0},
      {"graph @\"b\"(%x: f32[1]) -> (y: f32[1]) {\n  %a = mul(%x, %x)\n  return %a\n}\n", 4, 0}};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, compile_as_c, &one[i]);
  for (int i = 0; i < 2; i++) {
    pthread_join(thread[i], NULL);
    EXPECT_INT_EQ(one[i].wrong, 0);
  }
}

static void *compile_again(void *arg) {
  tenon_program *p = NULL;
  tenon_error e;
  if (tenon_compile(arg, NULL, &p, &e)) return arg;
  tenon_program_release(p);
  return NULL;
}

// A model is read-only: it can be compiled and run at the same time.
TEST(one_model_compiled_by_several_threads) {
  tenon_model *m = open_text(add_text);
  pthread_t thread[3];
  for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, compile_again, m);
  float x[4] = {1, 2, 3, 4}, z[4];
  tenon_tensor t = {.data = x, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {2, 2}};
  tenon_tensor in[2] = {t, t}, out = {.data = z, .bytes = sizeof z};
  tenon_error e;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &e), TENON_OK);
  EXPECT(z[3] == 64);
  for (int i = 0; i < 3; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    EXPECT(!failed);
  }
  tenon_model_close(m);
}
