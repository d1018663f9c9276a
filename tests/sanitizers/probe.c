// probe.c -- makes one fault on purpose, so that a test can see that the build and the runner
// notice it.
//
//   sanitizer-probe heap | stack | leak | null | overflow | shift | race | none
//
// Ends with 99 where the sanitizer of the build finds such faults, else with 1: the status of a
// refusal.
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int zero;  // unknown to the compiler
static int shared;
static void *volatile kept;

static void *count(void *unused) {
  for (int i = 0; i < 100000; i++) shared++;
  return unused;
}

static void race(void) {
  pthread_t t;
  if (pthread_create(&t, NULL, count, NULL)) return;
  count(NULL);
  pthread_join(t, NULL);
}

static int heap(void) {
  char *p = malloc(8);
  int v = p ? p[8 + zero] : 0;
  free(p);
  return v;
}

static int stack(void) {
  volatile char a[8] = {0};
  return a[8 + zero];
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "none";
  volatile int v = 0;
  if (!strcmp(what, "heap")) v = heap();
  if (!strcmp(what, "stack")) v = stack();
  if (!strcmp(what, "leak")) kept = malloc(32), kept = NULL;
  if (!strcmp(what, "null")) v = ((char *)(size_t)zero + 4 * !zero) != NULL;
  if (!strcmp(what, "overflow")) v = INT_MAX + !zero;
  if (!strcmp(what, "shift")) v = 1 << (32 + zero);
  if (!strcmp(what, "race")) race();
  printf("%s: not found (%d)\n", what, v);
  return 1;
}
