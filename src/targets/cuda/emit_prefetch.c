// emit_prefetch.c -- a GPU thread's loop that prefetches the next iteration's loads.
//
// For a loop that its template pipelines (`for j < n by 2`): 16-byte loads of the next iteration
// are issued before this one computes, and carried in registers.  Without it the compiler moves
// each load down to its use, so one is in flight at a time.  The first iteration's lines are
// prefetched into L2 before the previous kernel has ended, which reads nothing.
//
// Needs:      Spelling.once; a serial loop of a thread with a constant extent; loads of buffers
//             that the kernel does not write; at most MOST_RUNS of them.
// Guarantees: false, and nothing emitted, where a condition fails.  Same values and same order of
//             sums as the plain loop.
#include "loop/prove.h"
#include "targets/cuda/emit.h"

enum { RUN_BYTES = 16, MOST_RUNS = 16, DEEPEST = 4 };

typedef struct PrefetchRun {
  CPacks packs;  // of its loop
  const LoopExpr *load;
  const LoopStmt *around[DEEPEST];  // unrolled loops
  int depth;
  Dim slot;  // where it is kept, by their variables
} PrefetchRun;

typedef struct Prefetch {
  CEmit *e;
  const LoopStmt *loop;
  const char *now, *next;  // arrays
  VEC(PrefetchRun) run;
  int64_t slots;
} Prefetch;

// ---- what is read ----

static bool reads_run(const CPacks *p, const LoopExpr *x) {
  const LoopBuffer *b = &p->e->k->buffer[x->buffer];
  return b->space == LOOP_ARG && !b->written && !x->nguards &&
         p->n * cs_bytes(x->dtype) == RUN_BYTES;
}

static void add_runs(Prefetch *a, const CPacks *p, const LoopStmt *const *around, int depth) {
  IntPool *pool = a->e->k->pool;
  for (int64_t i = 0; i < p->load.n; i++) {
    if (!reads_run(p, p->load.v[i])) continue;
    PrefetchRun r = {.packs = *p, .load = p->load.v[i], .depth = depth};
    int64_t times = 1;
    r.slot = ie_const(pool, a->slots);
    for (int d = depth - 1; d >= 0; d--) {
      r.around[d] = around[d];
      r.slot = ie_add(pool, r.slot, ie_mulc(pool, around[d]->sym, times));
      times *= around[d]->extent->value;
    }
    a->slots += times;
    vec_push(a->e->arena, &a->run, r);
  }
}

static void find_runs(Prefetch *a, const LoopBlock *b, const LoopStmt **around, int depth) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    CPacks p;
    if (s->kind != LS_FOR || s->loop != LOOP_UNROLL || !ie_is_const(s->extent)) continue;
    if (cs_packs(a->e, s, &p)) {
      add_runs(a, &p, around, depth);
    } else if (depth < DEEPEST && s->extent->value > 0) {
      around[depth] = s;
      find_runs(a, &s->body, around, depth + 1);
    }
  }
}

// ---- reading ----

// Opens the loops around a run.
static void open_around(CEmit *e, const PrefetchRun *r) {
  for (int d = 0; d < r->depth; d++) {
    const char *v = cs_name(e, r->around[d]->sym->name);
    cs_line(e, "%s", e->sp->unroll);
    cs_open(e, "for (%s %s = 0; %s < %s; %s++) {", e->index, v, v, cs_dim(e, r->around[d]->extent),
            v);
    cs_set_text(e, r->around[d]->sym, v);
  }
}

static void load_round(Prefetch *a, const char *to) {
  CEmit *e = a->e;
  for (int64_t i = 0; i < a->run.n; i++) {
    const PrefetchRun *r = &a->run.v[i];
    open_around(e, r);
    const char *from = cs_pack_place(&r->packs, r->load->buffer, r->load->index);
    cs_line(e, "%s[%s] = tn_once(%s);", to, cs_dim(e, r->slot), from);
    for (int d = 0; d < r->depth; d++) cs_close(e);
  }
}

// The first round of the thread block's first item, before anything is waited for.
static void prefetch_to_l2(Prefetch *a) {
  CEmit *e = a->e;
  Dim item = e->k->body.v[0]->sym;
  CSym *at = &e->sym[item->slot], *thread = &e->sym[e->thread->slot];
  CSym at_before = *at, thread_before = *thread;
  StrBuf *out = e->out;
  int indent = e->indent;
  e->out = &e->before_wait;
  e->indent = 1;
  cs_set_text(e, item, str_printf(e->arena, "((%s)blockIdx.x)", e->index));
  cs_set_text(e, e->thread, str_printf(e->arena, "((%s)%s)", e->index, e->sp->thread));
  for (int64_t i = 0; i < a->run.n; i++) {
    const PrefetchRun *r = &a->run.v[i];
    open_around(e, r);
    cs_line(e, "%s(%s);", e->sp->prefetch,
            cs_pack_place(&r->packs, r->load->buffer, r->load->index));
    for (int d = 0; d < r->depth; d++) cs_close(e);
  }
  *at = at_before;
  *thread = thread_before;
  e->out = out;
  e->indent = indent;
}

const char *cs_prefetched(CEmit *e, const LoopExpr *load) {
  for (int64_t i = 0; cs_cuda(e)->prefetch && i < cs_cuda(e)->prefetch->run.n; i++)
    if (cs_cuda(e)->prefetch->run.v[i].load == load)
      return str_printf(e->arena, "%s[%s]", cs_cuda(e)->prefetch->now,
                        cs_dim(e, cs_cuda(e)->prefetch->run.v[i].slot));
  return NULL;
}

// ---- the loop ----

static void compute_round(Prefetch *a) {
  CEmit *e = a->e;
  cs_cuda(e)->prefetch = a;
  cs_block(e, &a->loop->body);
  cs_cuda(e)->prefetch = NULL;
}

static void put_rounds(Prefetch *a, int64_t rounds) {
  CEmit *e = a->e;
  const char *v = cs_name(e, a->loop->sym->name), *q = cs_name(e, "q");
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (%s %s = 0; %s < %lld; %s++) {", e->index, v, v, (long long)rounds, v);
  cs_line(e, "uint4 %s[%lld];", a->next, (long long)a->slots);
  cs_open(e, "if (%s + 1 < %lld) {", v, (long long)rounds);
  cs_set_text(e, a->loop->sym, str_printf(e->arena, "(%s + 1)", v));
  load_round(a, a->next);
  cs_close(e);
  cs_set_text(e, a->loop->sym, v);
  compute_round(a);
  cs_line(e, "%s", e->sp->unroll);
  cs_line(e, "for (int %s = 0; %s < %lld; %s++) %s[%s] = %s[%s];", q, q, (long long)a->slots, q,
          a->now, q, a->next, q);
  cs_close(e);
}

bool cs_prefetch_loop(CEmit *e, const LoopStmt *s) {
  Prefetch a = {.e = e, .loop = s};
  const LoopStmt *around[DEEPEST];
  if (!e->sp->once || !e->thread || cs_cuda(e)->prefetch || !ie_is_const(s->extent)) return false;
  find_runs(&a, &s->body, around, 0);
  if (!a.slots || a.slots > MOST_RUNS) return false;
  e->c->uses_once = true;
  cs_cuda(e)->prefetched_runs = MAX(cs_cuda(e)->prefetched_runs, (int)a.slots);
  a.now = cs_name(e, "now");
  a.next = cs_name(e, "next");
  cs_line(e, "uint4 %s[%lld];", a.now, (long long)a.slots);
  e->sym[s->sym->slot] = (CSym){.kind = CSYM_NUMBER, .value = 0};
  if (e->c->dependent_launch && !e->divergent) prefetch_to_l2(&a);
  load_round(&a, a.now);
  if (s->extent->value == 1)
    compute_round(&a);
  else
    put_rounds(&a, s->extent->value);
  return true;
}
