// kernel.c -- calling generated code over all threads of a session.
//
// A job is one kernel, or several independent ones that run concurrently; the threads synchronise
// once, at its end.  Work items are split evenly in order, a thread's share into a few pieces; a
// thread that is done with its own takes pieces of others, so that one which the system keeps
// waiting holds up nobody.  Work that is done before another thread has heard of it stays with the
// caller.  How many items there are is the kernel's own affair, and each is computed alike whoever
// does it, so results do not depend on the threads.  Denormals count as zero inside generated code,
// on every thread, and nowhere else.
#include "runtime/float_mode.h"
#include "runtime/session_impl.h"

enum { PIECES = 4, SHARES = 64 };

typedef struct Share {  // of one thread, on a cache line of its own
  _Alignas(64) atomic_int_least64_t next;
  int64_t end, piece;
} Share;

typedef struct KernelCall {
  const ProgStep *step;
  KernelFn *fn;  // NULL: interpreted
  void **args;
  int64_t *dims, *size;
  int64_t items;
  atomic_int failed;
  atomic_int_least64_t busy;  // nanoseconds of all threads, where steps are measured
} KernelCall;

typedef struct KernelJob {
  const Program *program;
  char *scratch;
  int64_t scratch_each;
  bool timed;
  int ncalls, nthreads, nshares;
  Share *share;  // [ncalls][nshares]
  KernelCall call[STEP_MORE + 1];
} KernelJob;

void session_make_job(Session *s) {
  const Program *p = s->program;
  int32_t nargs = 1, ndims = 1, ncalls = 1;
  for (int32_t i = 0; i < p->nkernels; i++) {
    nargs = MAX(nargs, p->kernel[i].nargs);
    ndims = MAX(ndims, p->kernel[i].ndims);
  }
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++)
      ncalls = MAX(ncalls, 1 + p->function[i]->step[k].more);
  KernelJob *j = s->job = arena_new(&s->arena, KernelJob);
  *j = (KernelJob){
      .program = p, .scratch = s->scratch, .scratch_each = s->scratch_each, .timed = s->timed};
  int64_t nshares = (int64_t)ncalls * MIN(workers_count(s->workers), SHARES);
  char *share = arena_alloc(&s->arena, (nshares + 1) * (int64_t)sizeof(Share));
  j->share = (Share *)(void *)(share + (-(uintptr_t)share & 63));
  for (int32_t i = 0; i < ncalls; i++) {
    j->call[i].args = arena_array(&s->arena, void *, nargs);
    j->call[i].dims = arena_array(&s->arena, int64_t, ndims);
    j->call[i].size = arena_array(&s->arena, int64_t, nargs);
  }
}

static int64_t part(int64_t items, int thread, int nthreads) {
  return items / nthreads * thread + items % nthreads * thread / nthreads;
}

// How many threads the work is worth: each is to have `grain` items of one kernel at least, or as
// much of several.
static int threads_for(const KernelJob *j, int most) {
  double worth = 0;
  for (int c = 0; c < j->ncalls; c++)
    worth += (double)j->call[c].items / (double)j->call[c].step->grain;
  return worth < 2 ? 1 : worth < most ? (int)worth : most;
}

// Each kernel's items to every thread, so that each goes on with what it has in its cache.  The one
// that gets more of a kernel whose items do not come out even is another for each kernel.
static void share_out(KernelJob *j) {
  j->nshares = MIN(j->nthreads, SHARES);
  int turn = 0;
  for (int c = 0; c < j->ncalls; c++) {
    int64_t items = j->call[c].items;
    for (int i = 0; i < j->nshares; i++) {
      int place = (i + turn) % j->nshares;
      int64_t begin = part(items, place, j->nshares), end = part(items, place + 1, j->nshares);
      Share *s = &j->share[c * j->nshares + i];
      atomic_init(&s->next, begin);
      s->end = end;
      s->piece = MAX((end - begin + PIECES - 1) / PIECES, 1);
    }
    turn += items % j->nshares != 0;
  }
}

static void run_items(KernelJob *j, KernelCall *c, int thread, int64_t begin, int64_t end) {
  int32_t failed;
  int64_t start = j->timed ? platform->now() : 0;
  if (c->fn) {
    uint64_t mode = float_mode_enter(true);
    failed = c->fn(c->args, c->dims, begin, end, j->scratch + thread * j->scratch_each);
    float_mode_leave(mode);
  } else {  // an interpreter converts what a kernel only moves: that must keep every bit
    failed = j->program->invoke(j->program, c->step->kernel, c->args, c->size, c->dims, begin, end);
  }
  if (failed) atomic_store(&c->failed, failed);
  if (j->timed) atomic_fetch_add(&c->busy, platform->now() - start);
}

static void run_shares(void *ctx, int thread, int nthreads) {
  KernelJob *j = ctx;
  (void)nthreads;
  if (thread >= j->nthreads) return;
  for (int k = 0; k < j->nshares; k++)
    for (int c = 0; c < j->ncalls; c++) {
      Share *s = &j->share[c * j->nshares + (thread + k) % j->nshares];
      while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
        int64_t begin = atomic_fetch_add_explicit(&s->next, s->piece, memory_order_relaxed);
        if (begin >= s->end) break;
        run_items(j, &j->call[c], thread, begin, MIN(begin + s->piece, s->end));
      }
    }
}

// All by the caller, in order.
static void run_alone(KernelJob *j) {
  for (int c = 0; c < j->ncalls; c++) run_items(j, &j->call[c], 0, 0, j->call[c].items);
}

tenon_status session_say_failed(const Session *s, Run *run, const ProgStep *st, int failed) {
  const ProgKernel *k = &s->program->kernel[st->kernel];
  if (failed == KERNEL_NO_MEMORY)
    return fail(run->diag, TENON_ENOMEM, (Where){.node = st->node, .op = st->op}, "out of memory");
  return fail(run->diag, TENON_EINVAL, (Where){.node = st->node, .op = st->op}, "%s",
              failed <= k->nchecks       ? k->check[failed - 1]
              : failed == k->nchecks + 1 ? "division by zero"
                                         : "the kernel reached outside its arguments");
}

// Bytes of every argument, for an interpreter that checks each access.
static tenon_status argument_sizes(Session *s, Run *run, const Frame *fr, KernelCall *c) {
  const ProgStep *st = c->step;
  for (int32_t i = 0; i < st->nargs; i++) {
    const ProgValue *v = &fr->f->value[st->arg[i]];
    int64_t dims[MAX_RANK], n;
    if (!cell_dims(s, v, dims) || !shape_count(v->rank, dims, &n) ||
        !dtype_bytes(v->dtype, n, &c->size[i]))
      return fail(run->diag, TENON_EINTERNAL, (Where){.node = st->node, .op = st->op},
                  "the size of argument %d is not known", i);
  }
  return TENON_OK;
}

bool session_results_empty(const Session *s, const Frame *fr, const ProgStep *st) {
  int64_t bytes;
  for (int32_t i = 0; i < st->nout; i++)
    if (!value_bytes(s, &fr->f->value[st->out[i]], &bytes) || bytes) return false;
  return true;
}

// A window that does not fit makes a negative size, which no kernel sees.
static tenon_status check_sizes(Session *s, Run *run, const Frame *fr, const ProgStep *st) {
  int64_t dims[MAX_RANK];
  for (int32_t i = 0; s->program->nsyms && i < st->nout; i++) {
    const ProgValue *v = &fr->f->value[st->out[i]];
    if (!cell_dims(s, v, dims))
      return size_unknown(s, run, v, (Where){.node = st->node, .op = st->op});
  }
  return TENON_OK;
}

static tenon_status prepare(Session *s, Run *run, const Frame *fr, KernelCall *c) {
  const Program *p = s->program;
  const ProgStep *st = c->step;
  Where at = {.node = st->node, .op = st->op};
  atomic_init(&c->failed, 0);
  atomic_init(&c->busy, 0);
  c->fn = NULL;
  TRY(check_sizes(s, run, fr, st));
  if (p->invoke) {
    TRY(argument_sizes(s, run, fr, c));
  } else {
    const ProgCode *to = s->swapped;
    const char *entry =
        to ? to->code + to->entry[st->kernel] : p->code + p->kernel[st->kernel].entry;
    memcpy(&c->fn, &entry, sizeof c->fn);
  }
  for (int32_t i = 0; i < st->nargs; i++) c->args[i] = fr->cell[st->arg[i]].data;
  for (int32_t i = 0; i < st->ndims; i++)
    if (!prog_eval(p, st->dim[i], s->sym, &c->dims[i]))
      return fail(run->diag, TENON_EINTERNAL, at, "a size is not known");
  if (!prog_eval(p, st->items, s->sym, &c->items))
    return fail(run->diag, TENON_EINTERNAL, at, "the number of work items is not known");
  if (c->items > MANY_ITEMS && session_results_empty(s, fr, st)) c->items = 0;
  return TENON_OK;
}

tenon_status session_kernels(Session *s, Run *run, const Frame *fr, const ProgStep *st) {
  KernelJob *j = s->job;
  j->ncalls = 0;
  for (int32_t i = 0; i <= st->more; i++) {
    KernelCall *c = &j->call[j->ncalls];
    c->step = &st[i];
    if (!session_needs(s, fr, &st[i])) continue;
    TRY(prepare(s, run, fr, c));
    j->ncalls += c->items > 0;
  }
  j->nthreads = threads_for(j, workers_count(s->workers));
  if (j->nthreads == 1) {
    run_alone(j);
  } else {
    share_out(j);
    workers_share(s->workers, run_shares, j);
  }
  for (int c = 0; c < j->ncalls; c++) {
    int failed = atomic_load(&j->call[c].failed);
    if (failed) return session_say_failed(s, run, j->call[c].step, failed);
  }
  return TENON_OK;
}

int64_t session_kernel_time(const Session *s, const ProgStep *st, int64_t ns) {
  const KernelJob *j = s->job;
  double all = 0, own = 0;
  for (int c = 0; c < j->ncalls; c++) {
    double busy = (double)atomic_load(&j->call[c].busy);
    all += busy;
    if (j->call[c].step == st) own += busy;
  }
  return all > 0 ? (int64_t)((double)ns * own / all) : 0;
}
