// frame.c -- fuzz target: frames between a tuner and its workers.  The first byte says what.
#include "base/platform.h"
#include "fuzz.h"
#include "lower/contract/pack.h"
#include "tune/frame.h"

// A spec that was accepted packs without leaving its tensor, which the sanitizer sees.
static void pack_all(const FrameTask *t, Arena *a, Diag *d) {
  enum { MOST = 1 << 16 };
  Graph *g;
  if (graph_create(d, &g)) return;
  for (int64_t i = 0; i < t->nkernels; i++)
    for (int64_t k = 0; k < t->kernel[i].nargs; k++) {
      const FrameArg *x = &t->kernel[i].arg[k];
      const FrameTensor *v = x->packed ? &t->tensor[x->index] : NULL;
      int64_t bytes = v ? elem_bytes(v->dtype) : 0;
      for (int l = 0; v && l < x->pack.nloops; l++) bytes *= MIN(x->pack.extent[l], MOST);
      if (!v || bytes > MOST || v->n > MOST) continue;
      void *from = mem_alloc(v->n * elem_bytes(v->dtype) + 1), *to = mem_alloc(bytes);
      PackList list = {0};
      const Node *n = from ? node_const(g, v->dtype, 1, &v->n, from, NULL) : NULL;
      if (n && to && !graph_status(g) && !pack_add(&list, g, n, &x->pack, to, a, d))
        pack_run(&list, NULL);
      mem_free(from, v->n * elem_bytes(v->dtype) + 1);
      mem_free(to, bytes);
    }
  graph_free(g);
}

// Writing what was read and reading it again gives the same text.
static void read_frame(int kind, Str text, Arena *a, Diag *d) {
  FrameHello h;
  FrameTask t;
  FrameTimes x;
  StrBuf b[2];
  for (int i = 0; i < 2; i++) {
    strbuf_init(&b[i], a);
    Str from = i ? strbuf_str(&b[0]) : text;
    tenon_status s = kind == FRAME_HELLO  ? frame_get_hello(from, a, d, &h)
                     : kind == FRAME_TASK ? frame_get_task(from, a, d, &t)
                                          : frame_get_times(from, a, d, &x);
    if (s && i) __builtin_trap();
    if (s) return;
    if (kind == FRAME_HELLO) frame_put_hello(&h, &b[i]);
    if (kind == FRAME_TASK) frame_put_task(&t, &b[i]);
    if (kind == FRAME_TIMES) frame_put_times(&x, &b[i]);
  }
  if (!str_eq(strbuf_str(&b[0]), strbuf_str(&b[1]))) __builtin_trap();
  if (kind == FRAME_TASK) pack_all(&t, a, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  int kind;
  int64_t n;
  uint32_t crc;
  if (!size) return 0;
  if (size > FRAME_HEADER) (void)frame_header(data + 1, &kind, &n, &crc);
  fuzz_begin();
  Arena a;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0)
    read_frame(1 + data[0] % 3, (Str){(const char *)data + 1, (int64_t)size - 1}, &a, &d);
  trap_leave(&t);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
