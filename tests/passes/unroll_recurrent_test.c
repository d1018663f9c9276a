// unroll_recurrent_test.c -- recurrent layers on thread blocks: what the steps compute, and which
// layers stay kernels of their own.
//
// Target ref with TENON_BLOCK_THREADS, so the kernels of the steps are interpreted.
#include "compiled.h"
#include "schedules.h"
#include "template_cases.h"
#include "lower/template.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// Whether a template computes a kernel of it.
static bool made_by(const Compiled *c, const char *name) {
  for (int64_t i = 0; i < c->nkernels; i++)
    if (!strcmp(c->kernel[i].lowered->schedule.t->name, name)) return true;
  return false;
}

// `by`: the template that computes the layer; NULL: it becomes steps.
static void check_layer(const char *text, const char *by) {
  static const char *const whole[] = {"rnn", "rnn_block"};
  BothWays w;
  Compiled c = {0};
  Asked asked = {.compiled = &c, .fast = fast_flags(), .advised = true};
  Arena a;
  arena_init(&a);
  if (!both_ways_run(&w, template_case_text(&a, text), "ref", template_case_fill, compile_asked,
                     &asked)) {
    FAIL("%s\n%.400s", w.diag.text, text);
  } else {
    for (int i = 0; i < ARRAY_LEN(whole); i++)
      if (made_by(&c, whole[i]) != (by && !strcmp(by, whole[i])))
        FAIL("by %s, not %s:\n%.400s", whole[i], by ? by : "steps", text);
    for (int i = 0; i < ARRAY_LEN(w.got) && w.got[i]; i++)
      for (int64_t k = 0; k < w.want[i]->n; k++)
        if (!(fabs(val_f64(w.want[i], k) - val_f64(w.got[i], k)) <= 1e-4)) {
          FAIL("result %d differs at %lld: %g, not %g\n%.400s", i, (long long)k,
               val_f64(w.got[i], k), val_f64(w.want[i], k), text);
          break;
        }
  }
  both_ways_free(&w);
  arena_deinit(&a);
}

#define X     "%x: f32[4, 3, 6]"
#define LARGE "%x: f32[2, 1, 6]"
// Small layers: every cell, with what a layer may have besides.
static const char *const small_layer[] = {
    G(X, "!w f32[1, 36, 6]\n!r f32[1, 36, 9]\n!b f32[1, 72]\n"
         "  %l:3 = lstm(%x, %w, %r, %b)\n  return %l.0, %l.2\n"),
    G(X ", %h: f32[2, 3, 5], %c: f32[2, 3, 5]",
      "!w f32[2, 20, 6]\n!r f32[2, 20, 5]\n!b f32[2, 40]\n!p f32[2, 15]\n"
      "  %n = const i32[3] {4, 1, 2}\n"
      "  %l:3 = lstm(%x, %w, %r, %b, %n, %h, %c, %p) direction=bidirectional\n"
      "  return %l.0, %l.1\n"),
    G(X, "!w f32[1, 20, 6]\n!r f32[1, 20, 5]\n"
         "  %l:3 = lstm(%x, %w, %r) layout=1 direction=reverse clip=0.3 input_forget=true\n"
         "  return %l.0, %l.1\n"),
    G(X, "!w f32[1, 27, 6]\n!r f32[1, 27, 9]\n!b f32[1, 54]\n"
         "  %l:2 = gru(%x, %w, %r, %b)\n  return %l.0, %l.1\n"),
    G(X ", %h: f32[2, 3, 5]",
      "!w f32[2, 15, 6]\n!r f32[2, 15, 5]\n!b f32[2, 30]\n  %n = const i32[3] {4, 0, 2}\n"
      "  %l:2 = gru(%x, %w, %r, %b, %n, %h) direction=bidirectional "
      "linear_before_reset=true\n  return %l.0, %l.1\n"),
    G(X, "!w f32[1, 5, 6]\n!r f32[1, 5, 5]\n"
         "  %l:2 = rnn(%x, %w, %r) activations=[\"Relu\"]\n  return %l.0, %l.1\n"),
    G("%x: f32[4, b, 6], %h: f32[1, b, 5]",
      "!w f32[1, 5, 6]\n!r f32[1, 5, 5]\n"
      "  %l:2 = rnn(%x, %w, %r, _, _, %h)\n  return %l.0, %l.1\n"),
    G(X, "!w f32[1, 5, 6]\n!r f32[1, 5, 5]\n"
         "  %l:2 = rnn(%x, %w, %r) activations=[\"Softsign\"]\n  return %l.0, %l.1\n"),
    G("%x: f32[t, 3, 6]", "!w f32[1, 40, 6]\n!r f32[1, 40, 10]\n"
                          "  %l:3 = lstm(%x, %w, %r)\n  return %l.0, %l.1\n"),
    // weights that are no constants
    G(X ", %v: f32[1, 15, 6], %q: f32[1, 15, 5]",
      "  %l:2 = gru(%x, %v, %q)\n  return %l.0, %l.1\n"),
};
TEST(recurrent_layers_are_a_block_each) {
  setenv("TENON_BLOCK_THREADS", "32", 1);
  for (int i = 0; i < ARRAY_LEN(small_layer); i++) check_layer(small_layer[i], "rnn_block");
  unsetenv("TENON_BLOCK_THREADS");
}

// Whose recurrent weights would take one multiprocessor longer than the launches of a step.
TEST(large_recurrent_layers_become_steps) {
  setenv("TENON_BLOCK_THREADS", "32", 1);
  check_layer(G(LARGE ", %h: f32[1, 1, 160], %c: f32[1, 1, 160]",
                "!w f32[1, 640, 6]\n!r f32[1, 640, 160]\n!b f32[1, 1280]\n!p f32[1, 480]\n"
                "  %l:3 = lstm(%x, %w, %r, %b, _, %h, %c, %p)\n  return %l.0, %l.2\n"),
              NULL);
  check_layer(G(LARGE, "!w f32[2, 576, 6]\n!r f32[2, 576, 192]\n!b f32[2, 1152]\n"
                       "  %n = const i32[1] {1}\n"
                       "  %l:2 = gru(%x, %w, %r, %b, %n) direction=bidirectional "
                       "linear_before_reset=true\n  return %l.0, %l.1\n"),
              NULL);
  check_layer(G(LARGE, "!w f32[1, 320, 6]\n!r f32[1, 320, 320]\n"
                       "  %l:2 = rnn(%x, %w, %r) activations=[\"Relu\"] direction=reverse\n"
                       "  return %l.0, %l.1\n"),
              NULL);
  // an activation that has no op of its own
  check_layer(G(LARGE, "!w f32[1, 320, 6]\n!r f32[1, 320, 320]\n"
                       "  %l:2 = rnn(%x, %w, %r) activations=[\"Softsign\"]\n"
                       "  return %l.0, %l.1\n"),
              "rnn_block");
  unsetenv("TENON_BLOCK_THREADS");
}

// Where a work item is a core's, a layer is one kernel.
TEST(recurrent_layers_stay_whole_on_cores) { check_layer(small_layer[0], "rnn"); }
#undef LARGE
#undef X
