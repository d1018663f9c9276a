// declined_test.c -- one kernel never fails a model: faults planted in templates, on whole models,
// and what is said of them.
#include "compile/declined.h"
#include "api/model.h"
#include "codegen.h"
#include "planted.h"
#include "runtime/session.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// ---- one model, with a fault and without ----

typedef struct Made {
  Arena arena;
  Diag diag;
  Model *model, *copy;
  CompileOptions o;
  CompileReport r;
  TextList warnings;
} Made;

static tenon_status make(Made *m, const char *path, Planted *p, bool strict) {
  memset(m, 0, sizeof *m);
  arena_init(&m->arena);
  diag_init(&m->diag);
  compile_defaults(&m->o);
  m->o.target = target_find(codegen_there() ? "cpu" : "ref");
  m->o.tamper = planted_fault;
  m->o.tamper_ctx = p;
  m->o.strict = strict;
  m->o.loops = &m->arena;
  TRY(model_open(path, &(ModelOptions){0}, &m->diag, &m->model));
  TRY(model_copy(m->model, &(ModelOptions){0}, &m->diag, &m->copy));
  TRY(compile_graph(m->copy->graph, &m->o, COMPILE_BUILD, &m->arena, &m->diag, &m->r));
  m->warnings = compile_warnings(&m->r, &m->arena);
  return TENON_OK;
}

static void made_free(Made *m) {
  program_release(m->r.program);
  model_free(m->copy);
  model_free(m->model);
  arena_deinit(&m->arena);
}

static tenon_status fill(const Graph *g, Run *run, Value **in) {
  uint64_t rng = 5;
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 3;
    TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &in[i]));
    for (int64_t e = 0; e < in[i]->n; e++) {
      rng = hash_u64(rng + 1);
      if (dtype_is_float(t->dtype))
        val_put_f64(in[i], e, (double)(rng % 2048) / 512 - 2);
      else
        val_put_i64(in[i], e, (int64_t)(rng % 2));
    }
  }
  return TENON_OK;
}

static bool near(const Value *a, const Value *b) {
  if (a->dtype != b->dtype || a->n != b->n) return false;
  for (int64_t i = 0; i < a->n; i++) {
    double x = dtype_is_float(a->dtype) ? val_f64(a, i) : (double)val_i64(a, i);
    double y = dtype_is_float(b->dtype) ? val_f64(b, i) : (double)val_i64(b, i);
    double most = dtype_is_float(a->dtype) ? 1e-3 * (1 + fabs(x)) : 0;
    if (!(fabs(x - y) <= most) && !(x != x && y != y)) return false;
  }
  return true;
}

static void compare(Made *m, const char *name) {
  enum { MOST = 16 };
  Value *in[MOST] = {NULL}, *want[MOST] = {NULL}, *got[MOST] = {NULL};
  Run run[2];
  Interp *interp = NULL;
  Session *session = NULL;
  const Graph *g = m->model->graph;
  for (int i = 0; i < 2; i++) run_init(&run[i], NULL, &m->diag);
  if (g->main->nparams > MOST || g->main->nresults > MOST || fill(g, &run[0], in) ||
      interp_create(m->model->graph, NULL, &m->diag, &interp) ||
      interp_run(interp, &run[0], in, want) || fill(g, &run[1], in) ||
      session_create(m->r.program, &(SessionOptions){.threads = 2}, &m->diag, &session) ||
      session_run(session, &run[1], in, NULL, got))
    FAIL("%s: %s", name, m->diag.text);
  else
    for (int64_t i = 0; i < g->main->nresults; i++)
      if (!near(want[i], got[i])) FAIL("%s: result %d differs", name, (int)i);
  session_free(session);
  interp_free(interp);
  for (int i = 0; i < 2; i++) run_deinit(&run[i]);
}

// ---- whole models ----

static const char *const models[] = {"conv.onnx",   "mlp.onnx",       "digits_int8.onnx",
                                     "quant.onnx",  "branch.onnx",    "loop.onnx",
                                     "shapes.onnx", "functions.onnx", "keywords_int8.onnx"};
static const char *const templates[] = {"gemm", "reduce", "pointwise", "*"};

static const char *path_of(Arena *a, const char *name) {
  return str_printf(a, TENON_SOURCE_DIR "/tests/models/%s", name);
}

TEST(declined_templates_fail_no_model) {
  Arena a;
  int64_t hits = 0;
  arena_init(&a);
  setenv("TMPDIR", test_folder(), 1);  // what has no code is kept there
  for (int i = 0; i < ARRAY_LEN(models); i++)
    for (int t = 0; t < ARRAY_LEN(templates); t++) {
      static Made m;
      static const PlantedKind kinds[] = {PLANT_UNPROVEN, PLANT_DEFECT, PLANT_NO_CODE, PLANT_LARGE};
      Planted p = {.template_name = templates[t], .kind = kinds[(i + t) % ARRAY_LEN(kinds)]};
      // The loops of `ref` are run as they are.
      if (p.kind == PLANT_NO_CODE && !codegen_there()) p.kind = PLANT_UNPROVEN;
      if (make(&m, path_of(&a, models[i]), &p, false))
        FAIL("%s, %s: %s", models[i], templates[t], m.diag.text);
      else
        compare(&m, models[i]);
      if (p.hits && !m.warnings.n) FAIL("%s, %s: nothing is said", models[i], templates[t]);
      if (!p.hits && m.warnings.n) FAIL("%s: %s", models[i], m.warnings.v[0]);
      hits += p.hits > 0;
      made_free(&m);
    }
  unsetenv("TMPDIR");
  EXPECT(hits >= 15);
  arena_deinit(&a);
}

// ---- what is said ----

TEST(declined_kernels_are_named) {
  static Made m;
  Arena a;
  Planted p = {.template_name = "gemm", .kind = PLANT_UNPROVEN};
  arena_init(&a);
  if (make(&m, path_of(&a, "mlp.onnx"), &p, false)) FAIL("%s", m.diag.text);
  REQUIRE(m.warnings.n >= 2);
  EXPECT(strstr(m.warnings.v[0], "fc1"));
  EXPECT(strstr(m.warnings.v[0], "gemm is left"));
  EXPECT(strstr(m.warnings.v[0], "cannot prove"));
  EXPECT(strstr(m.warnings.v[0], "computes it instead"));
  EXPECT(strstr(m.warnings.v[m.warnings.n - 1], "defect of Tenon"));
  EXPECT(m.r.target.declined[0].ntried >= 3);  // the chosen schedule, and the cheaper ones
  made_free(&m);
  // With `strict` it is an error, and ours.
  EXPECT_STATUS(make(&m, path_of(&a, "mlp.onnx"), &p, true), TENON_EINTERNAL);
  EXPECT(strstr(m.diag.text, "fc1") && strstr(m.diag.text, "cannot prove"));
  made_free(&m);
  p.kind = PLANT_LARGE;
  EXPECT_STATUS(make(&m, path_of(&a, "mlp.onnx"), &p, true), TENON_ENOMEM);
  EXPECT(strstr(m.diag.text, "fc1") && strstr(m.diag.text, "statements"));
  made_free(&m);
  p.template_name = "none";
  EXPECT_STATUS(make(&m, path_of(&a, "mlp.onnx"), &p, true), TENON_OK);
  EXPECT_INT_EQ(m.warnings.n, 0);
  made_free(&m);
  arena_deinit(&a);
}

// Code is made when all kernels are lowered: where it cannot be, the graph is lowered again, and
// the next template has the kernel.
TEST(declined_code_is_lowered_again) {
  static Made m;
  Arena a;
  if (!codegen_there()) SKIP("no tenon-codegen");
  arena_init(&a);
  setenv("TMPDIR", test_folder(), 1);  // what has no code is kept there
  Planted p = {.template_name = "gemm", .kind = PLANT_NO_CODE};
  if (make(&m, path_of(&a, "mlp.onnx"), &p, false)) FAIL("%s", m.diag.text);
  REQUIRE(m.r.target.ndeclined >= 1);
  EXPECT(m.r.target.declined[0].tried[0].kind == DECLINED_DEFECT);
  EXPECT(strstr(m.warnings.v[0], "has no size"));
  compare(&m, "mlp.onnx");
  made_free(&m);
  EXPECT_STATUS(make(&m, path_of(&a, "mlp.onnx"), &p, true), TENON_EINTERNAL);
  made_free(&m);
  unsetenv("TMPDIR");
  arena_deinit(&a);
}
