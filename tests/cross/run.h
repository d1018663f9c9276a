// run.h -- the file through which a test hands a kernel to a program of another architecture, and
// gets results back.
#ifndef TENON_TESTS_CROSS_RUN_H
#define TENON_TESTS_CROSS_RUN_H

#include <stdint.h>

enum { CROSS_ARGS = 48, CROSS_DIMS = 8, CROSS_PAGE = 4096 };
// All offsets are from the file's start, at pages.
typedef struct CrossJob {
  int64_t total, image, image_bytes, entry, scratch;
  int64_t nargs, items, result;  // result: what the kernel returned; -1 before
  int64_t arg[CROSS_ARGS], dims[CROSS_DIMS];
} CrossJob;

#endif
