// fuzz.h -- what the fuzz targets share: the bounds that every input is held to.
//
// An input may take 1 s of processor time and 256 MB from the library's allocator, and must give
// all of it back.  Both are measured here, not by the fuzzer: its clock counts what other processes
// take, and its memory that of the sanitizers.
#ifndef TENON_TESTS_FUZZ_H
#define TENON_TESTS_FUZZ_H

#include "base/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_BYTES = 256 << 20 };

static Platform fuzz_platform;
static int64_t fuzz_live, fuzz_blocks;
static double fuzz_start;

// A second; FUZZ_SECONDS may give more on a machine that others slow down.
static double fuzz_seconds(void) {
  const char *text = getenv("FUZZ_SECONDS");
  return text ? atof(text) : 1;
}

static NORETURN void finding(const char *what, const char *detail) {
  fprintf(stderr, "finding: %s: %s\n", what, detail);
  abort();
}

static void *fuzz_alloc(int64_t bytes) {
  // Far over the bound is refused, as by a machine that has no more; what is really taken counts.
  if (bytes > ((int64_t)1 << 40)) return NULL;
  fuzz_live += bytes;
  fuzz_blocks++;
  if (fuzz_live > FUZZ_BYTES) finding("memory", "over 256 MB are taken");
  return platform_posix.alloc(bytes);
}

static void fuzz_free(void *p, int64_t bytes) {
  if (p) fuzz_live -= bytes, fuzz_blocks--;
  platform_posix.free(p, bytes);
}

static double fuzz_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fuzz_begin(void) {
  fuzz_platform = platform_posix;
  fuzz_platform.alloc = fuzz_alloc;
  fuzz_platform.free = fuzz_free;
  platform = &fuzz_platform;
  fuzz_live = fuzz_blocks = 0;
  fuzz_start = fuzz_clock();
}

static void fuzz_end(void) {
  double took = fuzz_clock() - fuzz_start;
  char text[64];
  snprintf(text, sizeof text, "%.2f s", took);
  if (took > fuzz_seconds()) finding("time", text);
  snprintf(text, sizeof text, "%lld blocks, %lld bytes", (long long)fuzz_blocks,
           (long long)fuzz_live);
  if (fuzz_blocks) finding("leak", text);
}

// Reads an input of a format: errors and what is out of memory end `read`, which has an arena.
static inline int fuzz_read(const uint8_t *data, size_t size,
                            void (*read)(Str text, Arena *a, Diag *d)) {
  static Diag d;
  Arena a;
  Trap t;
  fuzz_begin();
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) read((Str){(const char *)data, (int64_t)size}, &a, &d);
  trap_leave(&t);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}

#endif
