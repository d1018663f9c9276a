// text.c -- fuzz the text form: whatever is read must verify, print, and read back as the same text.
#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>

static Graph *first, *second;

static tenon_status parse(const char *p, int64_t n, Diag *d, Graph **out) {
  // A text that is not from a file opens none.
  return graph_parse((Str){p, n}, NULL, d, out);
}

static NORETURN void finding(const char *what, const Diag *d, Str a, Str b) {
  fprintf(stderr, "%s: %s\n%.*s\n----\n%.*s\n", what, d->text, (int)MIN(a.n, 4000), a.p,
          (int)MIN(b.n, 4000), b.p);
  abort();
}

static tenon_status check(const uint8_t *data, size_t size, Arena *a, Diag *d) {
  // A copy without a NUL behind it, so that reading past the end is seen.
  char *copy = malloc(size ? size : 1);
  if (!copy) return TENON_ENOMEM;
  memcpy(copy, data, size);
  tenon_status s = parse(copy, (int64_t)size, d, &first);
  free(copy);
  if (s) {
    if (!d->len) finding("an error without a message", d, STR(""), STR(""));
    return s;
  }
  StrBuf one, two;
  strbuf_init(&one, a);
  strbuf_init(&two, a);
  graph_print(first, &one);
  if (parse(one.p, one.n, d, &second))
    finding("what was printed does not parse", d, strbuf_str(&one), STR(""));
  graph_print(second, &two);
  if (!str_eq(strbuf_str(&one), strbuf_str(&two)))
    finding("another text the second time", d, strbuf_str(&one), strbuf_str(&two));
  if (graph_verify(first, d))
    finding("what was read does not verify", d, strbuf_str(&one), STR(""));
  return TENON_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  Arena a;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  first = second = NULL;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = check(data, size, &a, &d);
  trap_leave(&t);
  graph_free(first);
  graph_free(second);
  arena_deinit(&a);
  return 0;
}
