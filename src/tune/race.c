// race.c -- the rules of a race between schedules (race.h).
#include "tune/race.h"

enum { LINE = 64, DROP_AFTER = 3 };
static const double behind = 1.15, far_behind = 1.5;

double race_limit(int64_t rounds) {
  return rounds == 1 ? far_behind : rounds >= DROP_AFTER ? behind : 0;
}

double race_least(const int64_t *ns, int n) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < n; i++) least = MIN(least, ns[i]);
  return (double)least;
}

void race_touch(const void *p, int64_t bytes) {
  const volatile char *at = p;
  char sum = 0;
  for (int64_t i = 0; i < bytes; i += LINE) sum = (char)(sum ^ at[i]);
  (void)sum;
}
