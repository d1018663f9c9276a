// template_test.c -- one kernel never fails a model: a fault in each row of templates.def in turn,
// on every target.
//
// A graph is compiled once to see which templates make its kernels.  Then each of them gets a
// fault: loops that the verifier refuses, a template that fails, a kernel that cannot be written,
// more statements than a kernel may have.  The model must compile, say what happened, and give the
// interpreter's results.  For cuda the text alone is made, since that needs no GPU.
//
// A fault that is planted must be met, and each kind on each target somewhere.  A model that does
// not compile without a fault has a row in `refusals`.
#include "api/model.h"
#include "base/process.h"
#include "codegen.h"
#include "compile/compile.h"
#include "compile/declined.h"
#include "ir/interpret.h"
#include "lower/template.h"
#include "planted.h"
#include "runtime/session.h"
#include "sample.h"
#include "template_cases.h"
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

// ---- machines ----

typedef struct Place {
  const char *target, *device;
  const char *groups, *tiles;     // what is described to `ref`
  PlantedKind kind[PLANT_KINDS];  // of which cases take one in turn
  int nkinds;
  bool runs;
} Place;
static const Place places[] = {
    {"ref", NULL, NULL, NULL, {PLANT_UNPROVEN, PLANT_DEFECT, PLANT_LARGE}, 3, true},
    {"ref", NULL, "64", NULL, {PLANT_DEFECT, PLANT_LARGE, PLANT_UNPROVEN}, 3, true},
    {"ref", NULL, "128", "1", {PLANT_DEFECT, PLANT_UNPROVEN, PLANT_LARGE}, 3, true},
    {"cpu", NULL, NULL, NULL, {PLANT_NO_CODE, PLANT_UNPROVEN, PLANT_DEFECT, PLANT_LARGE}, 4, true},
    {"c", NULL, NULL, NULL, {PLANT_NO_CODE, PLANT_DEFECT, PLANT_UNPROVEN, PLANT_LARGE}, 4, true},
    {"opencl", NULL, NULL, NULL, {PLANT_NO_CODE, PLANT_DEFECT, PLANT_UNPROVEN}, 3, true},
    {"cuda", "sm_90a", NULL, NULL, {PLANT_NO_CODE, PLANT_DEFECT, PLANT_LARGE}, 3, false},
    {"cuda", "sm_80", NULL, NULL, {PLANT_NO_CODE, PLANT_DEFECT, PLANT_LARGE}, 3, false},
};

// What compiles for a target without a fault neither.
static const struct {
  const char *target, *name;  // globs
  const char *words;          // of the message
} refusals[] = {
    {"c", "*", "C has no "},
    {"c", "*", "only a .tenon file holds it"},
    {"*", "custom.onnx", "is not supported in compiled models"},
};

static bool is_there(const Place *p) {
  const char *why;
  char cc[4096];
  if (!strcmp(p->target, "cpu")) return codegen_there();
  if (!strcmp(p->target, "c")) return process_find("cc", cc, sizeof cc);
  return !p->runs || target_there(target_find(p->target), &why);
}

static void enter(const Place *p) {
  setenv("TMPDIR", test_folder(), 1);  // what has no code is kept there
  if (p->groups) setenv("TENON_BLOCK_THREADS", p->groups, 1);
  if (p->tiles) setenv("TENON_MMA", p->tiles, 1);
}
static void leave(void) {
  unsetenv("TMPDIR");
  unsetenv("TENON_BLOCK_THREADS");
  unsetenv("TENON_MMA");
}

// ---- one model ----

typedef struct Made {
  Arena arena;
  Diag diag;
  Model *model, *copy;
  CompileReport r;
  TextList warnings;
} Made;

typedef void Tamper(void *ctx, const char *template_name, LoopKernel *k);

static tenon_status make(Made *m, const char *path, const Place *p, Tamper *tamper, void *ctx) {
  CompileOptions o;
  memset(m, 0, sizeof *m);
  arena_init(&m->arena);
  diag_init(&m->diag);
  compile_defaults(&o);
  o.target = target_find(p->target);
  o.device = p->device;
  o.tamper = tamper;
  o.tamper_ctx = ctx;
  o.loops = &m->arena;
  o.no_cache = true;
  o.cflags = "-O0";
  TRY(model_open(path, &(ModelOptions){0}, &m->diag, &m->model));
  TRY(model_copy(m->model, &(ModelOptions){0}, &m->diag, &m->copy));
  TRY(compile_graph(m->copy->graph, &o, COMPILE_BUILD, &m->arena, &m->diag, &m->r));
  m->warnings = compile_warnings(&m->r, &m->arena);
  return TENON_OK;
}

static void made_free(Made *m) {
  program_release(m->r.program);
  model_free(m->copy);
  model_free(m->model);
  arena_deinit(&m->arena);
}

// Inputs of tensors: false where a model has others.
static bool fill(const Graph *g, Run *run, Value **in) {
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    if (t->kind != TK_TENSOR || t->rank < 0 || t->dtype == DT_STRING) return false;
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 3;
    if (value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &in[i])) return false;
    if (dtype_is_float(t->dtype))
      template_case_fill(in[i]);
    else
      for (int64_t e = 0; e < in[i]->n; e++) val_put_i64(in[i], e, e % 2);
  }
  return true;
}

static bool near(const Value *a, const Value *b, double tolerance) {
  if (a->kind != VK_TENSOR || b->kind != VK_TENSOR) return a->kind == b->kind;
  if (a->dtype != b->dtype || a->n != b->n) return false;
  if (a->dtype == DT_STRING) return true;
  double largest = 1;
  bool floats = dtype_is_float(a->dtype);
  for (int64_t i = 0; floats && i < a->n; i++)
    if (isfinite(val_f64(a, i))) largest = fmax(largest, fabs(val_f64(a, i)));
  for (int64_t i = 0; i < a->n; i++) {
    double x = floats ? val_f64(a, i) : (double)val_i64(a, i);
    double y = floats ? val_f64(b, i) : (double)val_i64(b, i);
    bool same = x == y || (isnan(x) && isnan(y));
    if (!same && !(fabs(x - y) <= (floats ? tolerance * largest : 0))) return false;
  }
  return true;
}

enum { MOST = 16 };

// What the interpreter gives, which it keeps; false where it cannot run the model by itself.
static bool interpret(const Made *m, Interp **it, Run *run, Value **want) {
  Value *in[MOST] = {NULL};
  const Graph *g = m->model->graph;
  return g->main->nparams <= MOST && g->main->nresults <= MOST && fill(g, run, in) &&
         !interp_create(m->model->graph, NULL, run->diag, it) && !interp_run(*it, run, in, want);
}

static void compare(Made *m, const char *what, double tolerance) {
  static Diag quiet;
  Value *in[MOST] = {NULL}, *want[MOST] = {NULL}, *got[MOST] = {NULL};
  Run run[2];
  Session *session = NULL;
  Interp *interp = NULL;
  const Graph *g = m->model->graph;
  diag_init(&quiet);
  for (int i = 0; i < 2; i++) run_init(&run[i], NULL, i ? &m->diag : &quiet);
  if (interpret(m, &interp, &run[0], want)) {
    if (!fill(g, &run[1], in) ||
        session_create(m->r.program, &(SessionOptions){.threads = 2}, &m->diag, &session) ||
        session_run(session, &run[1], in, NULL, got))
      FAIL("%s: %s", what, m->diag.text);
    else
      for (int64_t i = 0; i < g->main->nresults; i++)
        if (!near(want[i], got[i], tolerance)) FAIL("%s: result %d differs", what, (int)i);
  }
  session_free(session);
  interp_free(interp);
  for (int i = 0; i < 2; i++) run_deinit(&run[i]);
}

// ---- its templates ----

static int64_t hits[64];                                 // by template
static int64_t met[ARRAY_LEN(places)][PLANT_KINDS];      // by place and kind
static int64_t planted[ARRAY_LEN(places)][PLANT_KINDS];  // of these, what was tried
static const char *const kinds[] = {"unproven", "defect", "no code", "large"};

static void begin_counts(void) {
  memset(hits, 0, sizeof hits);
  memset(met, 0, sizeof met);
  memset(planted, 0, sizeof planted);
}

// Each kind that was planted on a target was met there; `all`: and each that it has was planted.
static void check_counts(bool all) {
  int64_t sum = 0;
  for (int p = 0; p < ARRAY_LEN(places); p++)
    for (int i = 0; i < places[p].nkinds; i++) {
      PlantedKind k = places[p].kind[i];
      sum += met[p][k];
      bool missed = all && is_there(&places[p]) && !planted[p][k];
      if (missed || (planted[p][k] && !met[p][k]))
        FAIL("place %d (%s): no fault of the kind '%s' was %s", p, places[p].target, kinds[k],
             missed ? "planted" : "met");
    }
  EXPECT(sum > 0);
}

static void note_templates(const Compiled *c, bool *used) {
  for (int64_t i = 0; i < c->nkernels; i++)
    if (c->kernel[i].lowered->schedule.t)
      used[c->kernel[i].lowered->schedule.t - template_table] = true;
}

// A thread block's loops that the verifier refuses are no surprise.
static bool is_quiet(const Template *t, PlantedKind kind) {
  return kind == PLANT_UNPROVEN && t->needs & NEEDS_BLOCKS;
}

static void plant(const char *path, const char *name, const Place *p, const Template *t,
                  PlantedKind kind, double tolerance) {
  static Made m;
  Planted fault = {.template_name = t->name, .kind = kind};
  char what[512];
  snprintf(what, sizeof what, "%s on %s%s%s%s, %s: %s", name, p->target, p->groups ? " groups" : "",
           p->tiles ? " tiles" : "", p->device ? p->device : "", t->name, kinds[kind]);
  tenon_status s = make(&m, path, p, planted_fault, &fault);
  // What C cannot hold without its kernel is refused, by name.
  bool refused = s == TENON_EUNSUPPORTED && !strcmp(p->target, "c");
  if (s && !refused) FAIL("%s: %s", what, m.diag.text);
  if (!s && fault.hits && !m.warnings.n && !is_quiet(t, kind)) FAIL("%s: nothing is said", what);
  if (!s && p->runs) compare(&m, what, tolerance);
  if (!fault.hits && !fault.nowhere) FAIL("%s: the fault is not met", what);
  hits[t - template_table] += !s && fault.hits > 0;
  planted[p - places][kind] += !fault.nowhere;
  met[p - places][kind] += fault.hits > 0;
  made_free(&m);
}

static bool is_refused(const Place *p, const char *name, const char *text) {
  for (int64_t i = 0; i < ARRAY_LEN(refusals); i++)
    if (str_glob(refusals[i].target, p->target) && str_glob(refusals[i].name, name) &&
        strstr(text, refusals[i].words))
      return true;
  return false;
}

// The kind of which a place had the fewest so far.
static PlantedKind next_kind(int place) {
  PlantedKind best = places[place].kind[0];
  for (int i = 1; i < places[place].nkinds; i++)
    if (planted[place][places[place].kind[i]] < planted[place][best]) best = places[place].kind[i];
  return best;
}

// One kind of fault in each template that makes one of its kernels.
static void plant_each(const char *path, const char *name, const Place *p, double tolerance) {
  static Made m;
  bool used[64] = {false};
  enter(p);
  tenon_status s = make(&m, path, p, NULL, NULL);
  if (!s) note_templates(&m.r.compiled, used);
  if (s && !is_refused(p, name, m.diag.text))
    FAIL("%s on %s, without a fault: %s", name, p->target, m.diag.text);
  made_free(&m);
  for (int i = 0; !s && i < template_count; i++)
    if (used[i] && test_takes())
      plant(path, name, p, &template_table[i], next_kind((int)(p - places)), tolerance);
  leave();
}

// ---- graphs of every template ----

TEST_LONG(planted_in_every_template) {
  static Diag d;
  Arena a;
  arena_init(&a);
  begin_counts();
  for (int i = 0; i < template_ncases; i++) {
    const TemplateCase *c = &template_cases[i];
    const char *path = str_printf(&a, "%s/case%d.tir", test_folder(), i);
    const char *text = template_case_text(&a, c->text);
    REQUIRE(!file_write(path, text, (int64_t)strlen(text), &d));
    for (int k = 0; k < ARRAY_LEN(places); k++) {
      const Place *p = &places[k];
      bool same = p->device || (!p->groups == !c->groups && !p->tiles == !c->tiles);
      if (same && is_there(p))
        plant_each(path, str_printf(&a, "case %d (%s)", i, c->name), p,
                   c->tolerance != 0 ? c->tolerance : 1e-3);
    }
  }
  if (!getenv("TEST_EVERY"))
    for (int i = 0; i < template_count; i++)
      if (!hits[i]) FAIL("no graph has a kernel by '%s'", template_table[i].name);
  check_counts(!getenv("TEST_EVERY"));
  arena_deinit(&a);
}

// ---- models ----

static void plant_in_models(const char *folder, int64_t every) {
  Arena a;
  DIR *dir = opendir(folder);
  REQUIRE(dir != NULL);
  arena_init(&a);
  int n = 0;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (!str_glob("*.onnx", e->d_name) && !str_glob("*.tir", e->d_name)) continue;
    const char *path = str_printf(&a, "%s/%s", folder, e->d_name);
    for (int k = 0; k < ARRAY_LEN(places); k++, n++)
      if (n % every == 0 && is_there(&places[k])) plant_each(path, e->d_name, &places[k], 1e-2);
  }
  EXPECT(n > 100);
  closedir(dir);
  arena_deinit(&a);
}

// PLANTED_FULL=1: every model on every target.
TEST_LONG(planted_in_models) {
  bool full = getenv("PLANTED_FULL");
  begin_counts();
  plant_in_models(TENON_SOURCE_DIR "/tests/models", full ? 1 : 9);
  check_counts(full);
}

// ---- samples of ops ----

// Each n-th pair of a sample and a target, where n is a prime: so all targets and all kinds of
// fault have their turn, and neighbouring samples of an op different ones.
TEST_LONG(planted_in_samples) {
  static Diag d;
  bool full = getenv("PLANTED_FULL");
  int64_t every = full ? 17 : 151, nth = 0;
  begin_counts();
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++)
      for (int k = 0; k < ARRAY_LEN(places); k++) {
        if (nth++ % every || !is_there(&places[k])) continue;
        Arena a;
        arena_init(&a);
        const char *text = sample_graph(&a, &(Sample){op_table[i], *s});
        const char *path = str_printf(&a, "%s/sample.tir", test_folder());
        if (text && !file_write(path, text, (int64_t)strlen(text), &d))
          plant_each(path, str_printf(&a, "%s%s", op_table[i]->name, *s), &places[k], 1e-2);
        arena_deinit(&a);
      }
  check_counts(full);
}
