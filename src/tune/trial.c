// trial.c -- decides by trials (trial.h).
//
// A confirmed schedule wins where three quarters of its pairs of runs are faster than the default's
// and the median gain is above the noise.  Ties within 1 % go to the schedule that was confirmed
// first, which the search has near the default.
#include "tune/trial.h"

#include <stdlib.h>

const char *const trial_phase_name[TRIAL_PHASES] = {"race", "confirm", "model", "energy", "edp"};
const char *const trial_status_name[TRIAL_STATUSES] = {"ok", "slow", "failed", "wrong"};

static const double least_gain = 1.015, least_sure = 1.0, tie = 1.01;

void trial_log_add(TrialLog *l, const Trial *t) {
  Trial *kept = arena_dup(l->arena, t, sizeof *t);
  kept->key = str_copy(l->arena, str_of(t->key));
  kept->schedule = str_copy(l->arena, str_of(t->schedule));
  kept->dflt = str_copy(l->arena, str_of(t->dflt ? t->dflt : ""));
  vec_push(l->arena, l, kept);
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double quantile(const Trial *t, int quarter) {
  double ratio[TRIAL_SAMPLES];
  int n = 0;
  for (int i = 0; i < MIN(t->n, TRIAL_SAMPLES); i++)
    if (t->ns[i] > 0 && t->anchor_ns[i] > 0)
      ratio[n++] = (double)t->anchor_ns[i] / (double)t->ns[i];
  if (!n) return 0;
  qsort(ratio, (size_t)n, sizeof *ratio, by_size);
  return ratio[(n - 1) * quarter / 4];
}

double trial_gain(const Trial *t) { return quantile(t, 2); }
double trial_sure_gain(const Trial *t) { return quantile(t, 1); }

bool trial_is_time(const Trial *t) { return t->phase == TRIAL_RACE || t->phase == TRIAL_CONFIRM; }

bool trial_wins(const Trial *t) {
  return t->phase != TRIAL_RACE && t->phase != TRIAL_MODEL && t->status == TRIAL_OK &&
         trial_gain(t) >= least_gain && trial_sure_gain(t) >= least_sure;
}

static bool has_word(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
    if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

// What confirms in this log: its trials are of one objective.
static TrialPhase confirming(const TrialLog *l) {
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i]->phase == TRIAL_ENERGY || l->v[i]->phase == TRIAL_EDP)
      return (TrialPhase)l->v[i]->phase;
  return TRIAL_CONFIRM;
}

void tune_decide(const TrialLog *l, const char *machine, bool reorder, Arena *a,
                 TunedSchedules *out) {
  *out = (TunedSchedules){.machine = machine, .reorder = reorder};
  out->entry = arena_array(a, TunedSchedule, l->n + 1);
  StrMap at;
  TrialPhase phase = confirming(l);
  strmap_init(&at, a);
  for (int64_t i = 0; i < l->n; i++) {
    const Trial *t = l->v[i];
    if (t->phase != phase || !trial_wins(t)) continue;
    TunedSchedule e = {t->key, t->schedule, trial_gain(t)}, *had = strmap_get(&at, str_of(t->key));
    if (had && e.gain < had->gain * tie) continue;
    if (!had) strmap_put(&at, str_of(t->key), had = &out->entry[out->n++]);
    *had = e;
  }
  // The last trial of the whole model says what was reverted.
  const Trial *last = NULL;
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i]->phase == TRIAL_MODEL) last = l->v[i];
  int64_t n = 0;
  for (int64_t i = 0; i < out->n; i++)
    if (!last || !has_word(last->key, out->entry[i].key)) out->entry[n++] = out->entry[i];
  out->n = n;
}
