// loop.c -- fuzz target: the text of kernels.  What is read must print and read back as the same
// text; what verifies as well, and must run without leaving its buffers, where it is small enough
// to run.
#include "fuzz.h"
#include "loop/loop.h"

enum { WORK_MAX = 20000, ELEMENTS_MAX = 4096, DIMS_MAX = 16, ARGS_MAX = 32 };

static NORETURN void text_finding(const char *what, const Diag *d, Str a, Str b) {
  fprintf(stderr, "%.*s\n----\n%.*s\n", (int)MIN(a.n, 4000), a.p, (int)MIN(b.n, 4000), b.p);
  finding(what, d->text);
}

// About how many statements a block runs, at most; beyond WORK_MAX it does not matter.
static int64_t work(const LoopBlock *b) {
  int64_t total = 1;
  for (int64_t i = 0; i < b->n && total <= WORK_MAX; i++) {
    const LoopStmt *s = b->v[i];
    int64_t rounds = s->kind == LS_FOR || s->kind == LS_REDUCE ? s->extent->hi : 1;
    int64_t body = work(&s->body) + work(&s->orelse);
    total += rounds <= 0 ? 1 : rounds > WORK_MAX ? WORK_MAX + 1 : MIN(rounds * body, WORK_MAX + 1);
  }
  return total;
}

static tenon_status run(const LoopKernel *k, Arena *a, Diag *d) {
  int64_t dims[DIMS_MAX], size[ARGS_MAX], items;
  void *args[ARGS_MAX];
  int64_t *bind = arena_array(a, int64_t, k->pool->nsyms);
  bool *bound = arena_array(a, bool, k->pool->nsyms);
  if (k->ndims > DIMS_MAX || k->nargs > ARGS_MAX || work(&k->body) > WORK_MAX) return TENON_OK;
  for (int32_t i = 0; i < k->ndims; i++) {
    dims[i] = MIN(MAX(k->dim[i]->lo, 3), k->dim[i]->hi);
    bind[k->dim[i]->slot] = dims[i];
    bound[k->dim[i]->slot] = true;
  }
  for (int32_t i = 0; i < k->nbuffers; i++) {
    int64_t n;
    if (!ie_eval(k->buffer[i].size, bind, bound, k->pool->nsyms, &n)) return TENON_OK;
    if (n < 0 || n > ELEMENTS_MAX) return TENON_OK;
    if (i >= k->nargs) continue;
    size[i] = n;
    args[i] = arena_alloc(a, n * 8);
  }
  if (!ie_eval(loop_items(k), bind, bound, k->pool->nsyms, &items)) return TENON_OK;
  int32_t failed;
  return loop_interpret(k, args, size, dims, 0, MAX(items, 0), d, &failed);
}

static tenon_status check(const uint8_t *data, size_t size, Arena *a, Diag *d) {
  IntPool pool, other;
  LoopKernel *k, *again;
  intpool_init(&pool, a);
  intpool_init(&other, a);
  // A copy without a NUL behind it, so that reading past the end is seen.
  char *copy = malloc(size ? size : 1);
  if (!copy) return TENON_ENOMEM;
  memcpy(copy, data, size);
  tenon_status s = loop_parse((Str){copy, (int64_t)size}, NULL, a, &pool, d, &k);
  free(copy);
  if (s) {
    if (!d->len) text_finding("an error without a message", d, STR(""), STR(""));
    return s;
  }
  StrBuf one, two;
  strbuf_init(&one, a);
  strbuf_init(&two, a);
  loop_print(k, &one);
  if (loop_parse(strbuf_str(&one), NULL, a, &other, d, &again))
    text_finding("what was printed does not parse", d, strbuf_str(&one), STR(""));
  loop_print(again, &two);
  if (!str_eq(strbuf_str(&one), strbuf_str(&two)))
    text_finding("another text the second time", d, strbuf_str(&one), strbuf_str(&two));
  TRY(loop_verify(k, d));
  return run(k, a, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  Arena a;
  Trap t;
  fuzz_begin();
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = check(data, size, &a, &d);
  trap_leave(&t);
  arena_deinit(&a);
  if (t.status == TENON_EINTERNAL) finding("internal error", d.text);
  fuzz_end();
  return 0;
}
