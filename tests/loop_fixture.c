// loop_fixture.c -- a kernel from its text, with the pool it lives in.
#include "loop_fixture.h"

#include "test.h"

void loop_fixture_init(LoopFixture *f) {
  *f = (LoopFixture){0};
  arena_init(&f->arena);
  intpool_init(&f->pool, &f->arena);
  diag_init(&f->d);
}

void loop_fixture_free(LoopFixture *f) { arena_deinit(&f->arena); }

bool loop_fixture_read(LoopFixture *f, const char *text) {
  loop_fixture_init(f);
  if (!loop_parse(str_of(text), NULL, &f->arena, &f->pool, &f->d, &f->k)) return true;
  FAIL("%s\n%s", f->d.text, text);
  loop_fixture_free(f);
  return false;
}
