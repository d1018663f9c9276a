// kernel.c -- calling generated code over all threads of a session.
//
// Work items are split evenly in order, a thread's share into a few pieces; a thread that is done with its own takes pieces of
// others, so that one which the system keeps waiting holds up nobody.  How many items there are is the kernel's own affair, and each
// is computed alike whoever does it, so results do not depend on the threads.  Denormals count as zero inside generated code, on every thread, and nowhere else.
#include "runtime/session_impl.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
static unsigned float_mode_enter(void) {
  unsigned was = _mm_getcsr();
  _mm_setcsr((was | 0x8040) & ~0x6000u);  // FTZ, DAZ; to nearest
  return was;
}
static void float_mode_leave(unsigned was) { _mm_setcsr(was); }
#else
static unsigned float_mode_enter(void) { return 0; }
static void float_mode_leave(unsigned was) { (void)was; }
#endif

enum { PIECES = 4, SHARES = 64 };

typedef struct Share {  // of one thread, on a cache line of its own
  _Alignas(64) atomic_int_least64_t next;
  int64_t end, piece;
} Share;

typedef struct KernelJob {
  const Program *program;
  int32_t kernel;
  KernelFn *fn;  // NULL: interpreted
  const int64_t *size;
  void *const *args;
  const int64_t *dims;
  int64_t items;
  char *scratch;
  int64_t scratch_each;
  atomic_int failed;
  int nshares;
  Share share[SHARES];
} KernelJob;

static int64_t part(int64_t items, int thread, int nthreads) {
  return items / nthreads * thread + items % nthreads * thread / nthreads;
}

static void share_out(KernelJob *j, int nthreads) {
  j->nshares = MIN(nthreads, SHARES);
  for (int i = 0; i < j->nshares; i++) {
    int64_t begin = part(j->items, i, j->nshares), end = part(j->items, i + 1, j->nshares);
    atomic_init(&j->share[i].next, begin);
    j->share[i].end = end;
    j->share[i].piece = MAX((end - begin + PIECES - 1) / PIECES, 1);
  }
}

static void run_items(KernelJob *j, int thread, int64_t begin, int64_t end) {
  int32_t failed;
  if (j->fn) {
    unsigned mode = float_mode_enter();
    failed = j->fn(j->args, j->dims, begin, end, j->scratch + thread * j->scratch_each);
    float_mode_leave(mode);
  } else {  // an interpreter converts what a kernel only moves: that must keep every bit
    failed = j->program->invoke(j->program, j->kernel, j->args, j->size, j->dims, begin, end);
  }
  if (failed) atomic_store(&j->failed, failed);
}

static void run_shares(void *ctx, int thread, int nthreads) {
  KernelJob *j = ctx;
  (void)nthreads;
  for (int k = 0; k < j->nshares; k++) {
    Share *s = &j->share[(thread + k) % j->nshares];
    for (;;) {
      int64_t begin = atomic_fetch_add_explicit(&s->next, s->piece, memory_order_relaxed);
      if (begin >= s->end) break;
      run_items(j, thread, begin, MIN(begin + s->piece, s->end));
    }
  }
}

static tenon_status say_failed(Session *s, Run *run, const ProgStep *st, int failed) {
  const ProgKernel *k = &s->program->kernel[st->kernel];
  if (failed == KERNEL_NO_MEMORY)
    return fail(run->diag, TENON_ENOMEM, (Where){.node = st->node, .op = st->op}, "out of memory");
  return fail(run->diag, TENON_EINVAL, (Where){.node = st->node, .op = st->op}, "%s",
              failed <= k->nchecks       ? k->check[failed - 1]
              : failed == k->nchecks + 1 ? "division by zero"
                                         : "the kernel reached outside its arguments");
}

// Bytes of every argument, for an interpreter that checks each access.
static tenon_status argument_sizes(Session *s, Run *run, const Frame *fr, const ProgStep *st) {
  for (int32_t i = 0; i < st->nargs; i++) {
    const ProgValue *v = &fr->f->value[st->arg[i]];
    int64_t dims[MAX_RANK], n;
    if (!cell_dims(s, v, dims) || !shape_count(v->rank, dims, &n) ||
        !dtype_bytes(v->dtype, n, &s->sizes[i]))
      return fail(run->diag, TENON_EINTERNAL, (Where){.node = st->node, .op = st->op},
                  "the size of argument %d is not known", i);
  }
  return TENON_OK;
}

tenon_status session_kernel(Session *s, Run *run, const Frame *fr, const ProgStep *st) {
  const Program *p = s->program;
  KernelJob job = {.program = p,
                   .kernel = st->kernel,
                   .args = s->args,
                   .dims = s->dims,
                   .scratch = s->scratch,
                   .scratch_each = s->scratch_each};
  if (p->invoke) {
    TRY(argument_sizes(s, run, fr, st));
    job.size = s->sizes;
  } else {
    const char *entry = p->code + p->kernel[st->kernel].entry;
    memcpy(&job.fn, &entry, sizeof job.fn);
  }
  for (int32_t i = 0; i < st->nargs; i++) s->args[i] = fr->cell[st->arg[i]].data;
  for (int32_t i = 0; i < st->ndims; i++)
    if (!prog_eval(p, st->dim[i], s->sym, &s->dims[i]))
      return fail(run->diag, TENON_EINTERNAL, (Where){.node = st->node, .op = st->op},
                  "a size is not known");
  if (!prog_eval(p, st->items, s->sym, &job.items))
    return fail(run->diag, TENON_EINTERNAL, (Where){.node = st->node, .op = st->op},
                "the number of work items is not known");
  if (job.items <= 0) return TENON_OK;
  bool alone = job.items == 1;
  share_out(&job, alone ? 1 : workers_count(s->workers));
  if (alone)
    run_shares(&job, 0, 1);
  else
    workers_share(s->workers, run_shares, &job);
  int failed = atomic_load(&job.failed);
  return failed ? say_failed(s, run, st, failed) : TENON_OK;
}
