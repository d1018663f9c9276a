// codegen_fixture.h -- a kernel with two sets of equal arguments, and texts of kernels that every
// target must get right.
#ifndef TENON_TESTS_SUPPORT_CODEGEN_FIXTURE_H
#define TENON_TESTS_SUPPORT_CODEGEN_FIXTURE_H

#include "loop/loop.h"

enum { CODEGEN_ARGS = 48 };

typedef struct CodegenFixture {
  Arena arena;
  IntPool pool;
  Diag d;
  LoopKernel *k;
  int64_t dims[8], size[CODEGEN_ARGS];
  void *arg[2][CODEGEN_ARGS], *map[2][CODEGEN_ARGS];
  int64_t map_bytes[CODEGEN_ARGS];
  uint64_t rng;
} CodegenFixture;

// Every argument ends at a page that nobody may touch, so that an access past it ends the test.
bool codegen_open(CodegenFixture *f, const char *text, const int64_t *dims);
void codegen_close(CodegenFixture *f);
int64_t codegen_items(CodegenFixture *f);
int64_t codegen_bytes(const CodegenFixture *f, int arg);
void codegen_compare(CodegenFixture *f,
                     const char *where);  // the first set, the interpreter's, with the second

extern const char *const codegen_shapes[];  // ends with NULL
extern const char *const codegen_groups[];  // likewise, with thread blocks
// Checks that hold and that fail, a division by zero, and loops over dynamic sizes; ends with a
// text of NULL.
typedef struct CodegenKernel {
  const char *text;
  int64_t dims[2];
} CodegenKernel;
extern const CodegenKernel codegen_checks[];
extern const char *const codegen_types[];
extern const int codegen_ntypes;
const char *codegen_casts_text(Arena *a, int type);  // from the type to every other
// Every operation that is exact or rounded once, in two halves; NULL: the type has none.
const char *codegen_ops_text(Arena *a, int type, int half, bool vector);

#endif
