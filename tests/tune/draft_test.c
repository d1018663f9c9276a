// draft_test.c -- drafts of schedules: legal, with the default's order of sums, the same each time;
// and the tasks that they are of.
#include "lower/residual.h"
#include "lower/template.h"
#include "test.h"
#include "tune/draft.h"
#include "tune/rank.h"

#include <stdlib.h>

static const char softmax_after_product[] =
    "graph @\"g\"(%x: f32[96, 64], %w: f32[64, 48], %u: f32[96, 48]) {\n"
    "  %p = mat_mul(%x, %w)\n  %q = softmax(%u)\n  return p = %p, q = %q\n}\n";

typedef struct Opened {
  Arena a;
  Diag d;
  Run run;
  Graph *g;
  TuneModel m;
} Opened;

static tenon_status open_model(Opened *o, const char *text) {
  Value **in = arena_array(&o->a, Value *, 8);
  diag_init(&o->d);
  TRY(graph_parse(str_of(text), "g.tir", &o->d, &o->g));
  run_init(&o->run, NULL, &o->d);
  for (int64_t i = 0; i < o->g->main->nparams; i++) {
    const Type *t = type_of(o->g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = t->dims[k]->value;
    TRY(value_tensor(&o->run, NOWHERE, t->dtype, t->rank, dims, &in[i]));
    for (int64_t k = 0; k < in[i]->n; k++) val_put_f64(in[i], k, (double)(k % 7) - 3);
  }
  o->m =
      (TuneModel){.g = o->g, .arena = &o->a, .diag = &o->d, .run = &o->run, .in = in, .threads = 1};
  compile_defaults(&o->m.o);
  o->m.o.target = target_find("cpu");
  return tune_open(&o->m);
}

static void close_model(Opened *o) {
  tune_close(&o->m);
  run_deinit(&o->run);
  graph_free(o->g);
  arena_deinit(&o->a);
}

static DraftList drafts(Opened *o, const TuneTask *t, bool reorder) {
  DraftList l = {0};
  StrMap seen;
  DraftRules rules = {.reorder = reorder, .seed = 1, .pairs = 100};
  strmap_init(&seen, &o->a);
  EXPECT_STATUS(draft_near(&o->m, t, t->dflt, &rules, &seen, &o->a, &l), TENON_OK);
  return l;
}

static bool same_order(Opened *o, const char *x, const char *y) {
  ScheduleGiven a, b;
  EXPECT_STATUS(schedule_parse(&o->a, x, &o->d, &a), TENON_OK);
  EXPECT_STATUS(schedule_parse(&o->a, y, &o->d, &b), TENON_OK);
  for (int i = 0; i < a.t->code->nfields; i++)
    if (a.t->code->field[i].effect == EFFECT_ORDER &&
        !attrs_equal(&a.t->code->field[i].attr, 1, a.fields, b.fields))
      return false;
  return a.t == b.t;
}

TEST(tune_drafts_keep_the_order_of_sums) {
  if (!target_available(target_find("cpu"))) return;
  Opened *o = calloc(1, sizeof *o);
  arena_init(&o->a);
  EXPECT_STATUS(open_model(o, softmax_after_product), TENON_OK);
  int64_t others = 0;
  EXPECT_INT_EQ(o->m.ntasks, 2);  // the product, the softmax
  for (int64_t i = 0; i < o->m.ntasks; i++) {
    const TuneTask *t = &o->m.task[i];
    DraftList l = drafts(o, t, false), again = drafts(o, t, false);
    EXPECT(l.n > 0 && l.n == again.n);
    double *y = arena_array(&o->a, double, l.n + 1);
    RankSums all, own;
    for (int64_t k = 0; k < l.n; k++) {
      EXPECT_STR_EQ(l.v[k].schedule, again.v[k].schedule);
      EXPECT(same_order(o, l.v[k].schedule, t->dflt) && strcmp(l.v[k].schedule, t->dflt));
    }
    rank_init(&all, DRAFT_FEATURES, &o->a);
    rank_init(&own, DRAFT_FEATURES, &o->a);
    rank_add(&all, l.v[0].x, -0.5);
    rank_predict(&all, &own, &l, &o->a, y);
    EXPECT(y[0] < 0 && y[0] > -0.5);  // towards what was measured, held back by the ridge
    DraftList any = drafts(o, t, true);
    for (int64_t k = 0; k < any.n; k++) others += !same_order(o, any.v[k].schedule, t->dflt);
  }
  EXPECT(others > 0);  // partial sums of the softmax, for one
  close_model(o);
  free(o);
}

static const char depthwise[] =
    "graph @\"g\"(%x: f32[1, 64, 28, 28], %w: f32[64, 1, 3, 3]) {\n"
    "  %y = conv(%x, %w) group=64 pads=[1, 1, 1, 1]\n  return y = %y\n}\n";

// Every template that takes the kernel is among the drafts of --reorder, as it would choose itself;
// from a schedule of another template the search goes on, and the default is a draft again.
TEST(tune_drafts_other_templates) {
  if (!target_available(target_find("cpu"))) return;
  Opened *o = calloc(1, sizeof *o);
  arena_init(&o->a);
  EXPECT_STATUS(open_model(o, depthwise), TENON_OK);
  int64_t others = 0, takers = 0;
  for (int64_t i = 0; i < o->m.ntasks; i++) {
    const TuneTask *t = &o->m.task[i];
    DraftList kept = drafts(o, t, false), any = drafts(o, t, true);
    for (int64_t k = 0; k < kept.n; k++) EXPECT(!kept.v[k].other);
    for (int64_t k = 0; k < any.n; k++) {
      Lowered lw;
      ScheduleRule rule;
      if (!any.v[k].other) continue;
      others++;
      EXPECT_STATUS(
          schedule_rule_parse(&o->a, str_printf(&o->a, "*=%s", any.v[k].schedule), &o->d, &rule),
          TENON_OK);
      Lowering lo = {
          .g = o->m.g, .arena = &o->a, .target = o->m.target, .diag = &o->d, .forced = &rule};
      if (lower_kernel(&lo, t->node, &lw)) continue;  // the builder may still refuse it
      takers++;
      EXPECT_STR_EQ(schedule_text(&o->a, lw.schedule), any.v[k].schedule);
      DraftList back = {0};
      StrMap seen;
      DraftRules rules = {.reorder = true, .seed = 1, .pairs = 10};
      strmap_init(&seen, &o->a);
      EXPECT_STATUS(draft_near(&o->m, t, any.v[k].schedule, &rules, &seen, &o->a, &back), TENON_OK);
      bool found = false;
      for (int64_t b = 0; b < back.n; b++) found |= !strcmp(back.v[b].schedule, t->dflt);
      EXPECT(found);
    }
  }
  EXPECT(others > 0 && takers > 0);
  close_model(o);
  free(o);
}

// A rule gives what a draft of the same change is; one that no kernel can have leaves it alone.
TEST(tune_residual_rules_reach_kernels) {
  if (!target_available(target_find("cpu"))) return;
  Opened *o = calloc(1, sizeof *o);
  arena_init(&o->a);
  EXPECT_STATUS(open_model(o, softmax_after_product), TENON_OK);
  int64_t corrected = 0, kept = 0;
  for (int64_t i = 0; i < o->m.ntasks; i++) {
    const TuneTask *t = &o->m.task[i];
    DraftList l = drafts(o, t, false);
    for (int64_t k = 0; k < l.n; k++) {
      ScheduleGiven s, d;
      Lowered lw;
      if (l.v[k].nchanged != 1) continue;
      EXPECT_STATUS(schedule_parse(&o->a, l.v[k].schedule, &o->d, &s), TENON_OK);
      EXPECT_STATUS(schedule_parse(&o->a, t->dflt, &o->d, &d), TENON_OK);
      ResidualRule r = {.template_name = s.t->name, .when = ""};
      for (int f = 0; f < s.t->code->nfields; f++) {
        const ScheduleField *x = &s.t->code->field[f];
        if (schedule_value(x, s.fields) == schedule_value(x, d.fields)) continue;
        r.field = x->attr.name;
        r.value = schedule_value(x, s.fields);
      }
      Lowering lo = {.g = o->m.g,
                     .arena = &o->a,
                     .target = o->m.target,
                     .diag = &o->d,
                     .residual = &r,
                     .nresiduals = 1};
      EXPECT_STATUS(lower_kernel(&lo, t->node, &lw), TENON_OK);
      const char *now = schedule_text(&o->a, lw.schedule);
      corrected += !strcmp(now, l.v[k].schedule);
      kept += !strcmp(now, t->dflt);
      EXPECT(!strcmp(now, l.v[k].schedule) || !strcmp(now, t->dflt));
      lo.nresiduals = 0;
      EXPECT_STATUS(lower_kernel(&lo, t->node, &lw), TENON_OK);
      EXPECT_STR_EQ(schedule_text(&o->a, lw.schedule), t->dflt);
    }
  }
  EXPECT(corrected > 20 && corrected > kept);
  close_model(o);
  free(o);
}
