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

void loop_fixture_round_trip(LoopFixture *f) {
  LoopFixture again;
  StrBuf text, second;
  strbuf_init(&text, &f->arena);
  loop_print(f->k, &text);
  if (!loop_fixture_read(&again, strbuf_text(&text))) return;
  strbuf_init(&second, &again.arena);
  loop_print(again.k, &second);
  EXPECT_STR_EQ(strbuf_text(&second), strbuf_text(&text));
  EXPECT_STATUS(loop_verify(again.k, &again.d), TENON_OK);
  loop_fixture_free(&again);
}
