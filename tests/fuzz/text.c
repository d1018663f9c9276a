// text.c -- fuzz target: the text form.  Whatever is read must verify, print, read back as the same
// text, and run to some end.
#include "fuzz_run.h"

static Graph *first, *second;
static Interp *interp;

static tenon_status parse(const char *p, int64_t n, Diag *d, Graph **out) {
  // A text that is not from a file opens none.
  return graph_parse((Str){p, n}, NULL, d, out);
}

static NORETURN void text_finding(const char *what, const Diag *d, Str a, Str b) {
  fprintf(stderr, "%.*s\n----\n%.*s\n", (int)MIN(a.n, 4000), a.p, (int)MIN(b.n, 4000), b.p);
  finding(what, d->text);
}

static tenon_status check(const uint8_t *data, size_t size, Arena *a, Diag *d) {
  // A copy without a NUL behind it, so that reading past the end is seen.
  char *copy = malloc(size ? size : 1);
  if (!copy) return TENON_ENOMEM;
  memcpy(copy, data, size);
  tenon_status s = parse(copy, (int64_t)size, d, &first);
  free(copy);
  if (s) {
    if (!d->len) text_finding("an error without a message", d, STR(""), STR(""));
    return s;
  }
  StrBuf one, two;
  strbuf_init(&one, a);
  strbuf_init(&two, a);
  graph_print(first, &one);
  if (parse(one.p, one.n, d, &second))
    text_finding("what was printed does not parse", d, strbuf_str(&one), STR(""));
  graph_print(second, &two);
  if (!str_eq(strbuf_str(&one), strbuf_str(&two)))
    text_finding("another text the second time", d, strbuf_str(&one), strbuf_str(&two));
  if (graph_verify(first, d))
    text_finding("what was read does not verify", d, strbuf_str(&one), STR(""));
  TRY(interp_create(first, NULL, d, &interp));
  return fuzz_run(first, interp, a, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  Arena a;
  Trap t;
  fuzz_begin();
  diag_init(&d);
  arena_init(&a);
  first = second = NULL;
  interp = NULL;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = check(data, size, &a, &d);
  trap_leave(&t);
  interp_free(interp);
  graph_free(first);
  graph_free(second);
  arena_deinit(&a);
  if (t.status == TENON_EINTERNAL) finding("internal error", d.text);
  fuzz_end();
  return 0;
}
