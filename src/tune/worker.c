// worker.c -- the loop of a worker (worker.h).
//
// Needs:      the process has given up its rights (cli/confine.h).  The input is not trusted.
// Guarantees: one answer to each task, in order.  A task that takes more than CPU_SECONDS of
//             processor time ends the process.  A frame that is damaged ends the loop: what follows
//             it has no known beginning.
#include "tune/worker.h"

#include "base/confine.h"
#include "base/crc.h"
#include "base/platform.h"
#include "targets/llvm/codegen.h"
#include "tune/timing.h"

enum { CPU_SECONDS = 300 };

typedef struct Pipes {
  int in, out, threads;
  Machine machine;
} Pipes;

static tenon_status send(const Pipes *p, int kind, Str object, Arena *a, Diag *d) {
  StrBuf b;
  strbuf_init(&b, a);
  frame_seal(kind, object, &b);
  int err = fd_write(p->out, b.p, b.n);
  return err ? fail(d, TENON_EIO, NOWHERE, "worker: cannot answer: %s", error_text(err).s)
             : TENON_OK;
}

// *ended: there is nothing more.
static tenon_status read_all(const Pipes *p, void *to, int64_t n, bool *ended, Diag *d) {
  *ended = false;
  for (int64_t at = 0, got = 0; at < n; at += got) {
    int err = platform->read(p->in, (char *)to + at, n - at, &got);
    if (err) return fail(d, TENON_EIO, NOWHERE, "worker: cannot read: %s", error_text(err).s);
    if (got) continue;
    *ended = !at;
    return *ended ? TENON_OK
                  : fail(d, TENON_EFORMAT, NOWHERE, "worker: the input ends within a frame");
  }
  return TENON_OK;
}

static tenon_status say_hello(const Pipes *p, Arena *a, Diag *d) {
  FrameHello h = {.tool = TENON_VERSION, .machine = p->machine};
  StrBuf b;
  strbuf_init(&b, a);
  frame_put_hello(&h, &b);
  return send(p, FRAME_HELLO, strbuf_str(&b), a, d);
}

static tenon_status read_frame(const Pipes *p, Arena *a, Diag *d, Str *out, bool *ended) {
  uint8_t head[FRAME_HEADER];
  int kind;
  int64_t n;
  uint32_t crc;
  bool torn;
  TRY(read_all(p, head, sizeof head, ended, d));
  if (*ended) return TENON_OK;
  if (!frame_header(head, &kind, &n, &crc) || kind != FRAME_TASK)
    return fail(d, TENON_EFORMAT, NOWHERE, "worker: the input holds no frame of a task");
  char *object = arena_alloc(a, n + 1);
  TRY(read_all(p, object, n, &torn, d));
  if (torn || crc32c(0, object, n) != crc)
    return fail(d, TENON_EFORMAT, NOWHERE, "worker: a frame is damaged");
  *out = (Str){object, n};
  return TENON_OK;
}

static tenon_status serve_one(const Pipes *p, Arena *a, Diag *d, bool *ended) {
  FrameTask t;
  FrameTimes times;
  StrBuf b;
  Str object;
  TRY(read_frame(p, a, d, &object, ended));
  if (*ended) return TENON_OK;
  TRY(frame_get_task(object, a, d, &t));
  confine_cpu(CPU_SECONDS);
  TRY(timing_run(&t, &p->machine, p->threads, a, d, &times));
  strbuf_init(&b, a);
  frame_put_times(&times, &b);
  return send(p, FRAME_TIMES, strbuf_str(&b), a, d);
}

tenon_status worker_serve(int in, int out, int threads, Diag *d) {
  Pipes p = {.in = in, .out = out, .threads = threads};
  Codegen *codegen;
  machine_host(&p.machine);
  // Held all the while, so that its processes are started once.
  TRY(codegen_shared(threads, d, &codegen));
  bool ended = false, hello = false;
  tenon_status status = TENON_OK;
  while (!status && !ended) {
    Arena a;
    Trap trap;
    arena_init(&a);
    trap_enter(&trap, d);
    if (setjmp(trap.env) == 0)
      trap.status = hello ? serve_one(&p, &a, d, &ended) : say_hello(&p, &a, d);
    trap_leave(&trap);
    arena_deinit(&a);
    status = trap.status;
    hello = true;
  }
  codegen_release(codegen);
  return status;
}
