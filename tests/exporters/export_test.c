// export_test.c -- every op's samples written as ONNX (newest operator set, and an old one) and
// StableHLO, read back and run.
//
// What a format has must come back with the same results; what it lacks must be refused by name.
#include "api/model.h"
#include "exporters/export.h"
#include "ir/interpret.h"
#include "sample.h"
#include "test.h"

#include <unistd.h>

typedef struct Format {
  const char *name, *extension;
  int64_t opset;     // of ONNX
  int64_t least;     // samples that it must be able to write
  int64_t external;  // bytes of constants from which they go into a file beside
} Format;

static tenon_status write_as(const Format *f, Graph *g, const char *path, Diag *d) {
  if (!strcmp(f->extension, ".mlir")) return export_stablehlo(g, path, d);
  ExportOptions o = {.opset = f->opset, .external_from = f->external};
  return export_onnx(g, path, &o, d);
}

typedef struct Side {
  Run run;
  Value *out[64];
  Interp *interp;
} Side;

static tenon_status run_side(Graph *g, Diag *d, Side *s) {
  Value *in[64] = {NULL};
  run_init(&s->run, NULL, d);
  s->run.seed = 7;
  sample_seed();
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(sample_value(&s->run, type_of(g->main->param[i]), &in[i]));
  TRY(interp_create(g, NULL, d, &s->interp));
  return interp_run(s->interp, &s->run, in, s->out);
}

static void free_side(Side *s) {
  run_deinit(&s->run);
  interp_free(s->interp);
}

// The model that was written gives the graph's results.
static void compare(const Format *f, const Sample *s, Graph *g, const char *path) {
  static Diag d;
  static Side a, b;
  Model *m = NULL;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  diag_init(&d);
  if (model_open(path, NULL, &d, &m) || model_need_supported(m, &d)) {
    FAIL("%s%s: what was written as %s is refused: %s", s->op->name, s->text, f->name, d.text);
  } else if (run_side(g, &d, &a)) {
    FAIL("%s%s: %s", s->op->name, s->text, d.text);
  } else if (m->graph->main->nparams != g->main->nparams ||
             m->graph->main->nresults != g->main->nresults) {
    FAIL("%s%s as %s: %lld inputs and %lld outputs", s->op->name, s->text, f->name,
         (long long)m->graph->main->nparams, (long long)m->graph->main->nresults);
  } else if (run_side(m->graph, &d, &b)) {
    FAIL("%s%s: what was written as %s fails: %s", s->op->name, s->text, f->name, d.text);
  } else if (!(s->op->flags & OPF_RANDOM)) {
    for (int64_t i = 0; i < g->main->nresults; i++)
      if (!sample_close(a.out[i], b.out[i], false))
        FAIL("%s%s as %s: result %lld differs", s->op->name, s->text, f->name, (long long)i);
  }
  free_side(&a);
  free_side(&b);
  model_free(m);
}

// True when the sample was written.
static bool check(const Format *f, const Sample *s) {
  static Diag d;
  Arena a;
  Graph *g = NULL, *again = NULL;
  char path[1024];
  volatile bool written = false;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  snprintf(path, sizeof path, "%s/sample%s", test_folder(), f->extension);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    const char *text = sample_graph(&a, s);
    tenon_status w = graph_parse(str_of(text), NULL, &d, &g);
    if (!w) w = graph_parse(str_of(text), NULL, &d, &again);
    if (!w) w = write_as(f, again, path, &d);
    written = !w;
    if (w && w != TENON_EUNSUPPORTED) FAIL("%s%s as %s: %s", s->op->name, s->text, f->name, d.text);
    if (w == TENON_EUNSUPPORTED) EXPECT_CONTAINS(d.text, "cannot be written as");
    if (!w) compare(f, s, g, path);
  } else {
    FAIL("%s%s as %s: trap: %s", s->op->name, s->text, f->name, d.text);
  }
  trap_leave(&t);
  unlink(path);
  graph_free(g);
  graph_free(again);
  arena_deinit(&a);
  return written;
}

static void check_all(const Format *f) {
  int64_t written = 0, n = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++) {
      if (!test_takes()) continue;
      written += check(f, &(Sample){op_table[i], *s});
      n++;
    }
  if (n > 500 && written < f->least)
    FAIL("%lld of %lld samples were written as %s, were %lld", (long long)written, (long long)n,
         f->name, (long long)f->least);
}

TEST(samples_as_onnx) { check_all(&(Format){"ONNX", ".onnx", 0, 984, 0}); }
TEST(samples_as_old_onnx) { check_all(&(Format){"ONNX of opset 21", ".onnx", 21, 985, 16}); }
TEST(samples_as_stablehlo) { check_all(&(Format){"StableHLO", ".mlir", 0, 549, 0}); }
