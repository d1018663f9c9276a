// loop_fixture.h -- a kernel from its text, with the pool it lives in.
#ifndef TENON_TESTS_SUPPORT_LOOP_FIXTURE_H
#define TENON_TESTS_SUPPORT_LOOP_FIXTURE_H

#include "loop/loop.h"

typedef struct LoopFixture {
  Arena arena;
  IntPool pool;
  Diag d;
  LoopKernel *k;
} LoopFixture;

void loop_fixture_init(LoopFixture *f);
void loop_fixture_free(LoopFixture *f);
// False, and the test fails, where the text is none.
bool loop_fixture_read(LoopFixture *f, const char *text);
// Printed and read again: the same text, and a kernel that is accepted.
void loop_fixture_round_trip(LoopFixture *f);

#endif
