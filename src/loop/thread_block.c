// thread_block.c -- kernels whose work items are thread blocks: their size, their shared memory,
// and where barriers are needed.
//
// Threads wait for each other between two thread loops where the second touches what the first
// stored, or stores what the first loaded; registers are each thread's own.  What was touched since
// the threads last waited is followed through the tree: around a loop it goes until nothing is new,
// since its end comes before its beginning, and so do work items one after the other.
#include "loop/thread_block.h"

// ---- sizes ----

static int64_t block_threads(const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    if (s->kind == LS_FOR && s->loop == LOOP_THREAD && s->extent && ie_is_const(s->extent))
      return s->extent->value;
    int64_t n = block_threads(&s->body);
    if (!n) n = block_threads(&s->orelse);
    if (n) return n;
  }
  return 0;
}

int64_t loop_threads(const LoopKernel *k) { return block_threads(&k->body); }

int64_t loop_shared_bytes(const LoopKernel *k) {
  int64_t total = 0, bytes;
  for (int32_t i = k->nargs; i < k->nbuffers; i++) {
    const LoopBuffer *b = &k->buffer[i];
    if (b->space != LOOP_SHARED) continue;
    CHECK(ie_is_const(b->size) && dtype_bytes(b->dtype, b->size->value, &bytes) &&
              ck_add(bytes, 63, &bytes) && ck_add(total, bytes / 64 * 64, &total),
          "shared buffer %s has no size", b->name);
  }
  return total;
}

// ---- what is touched ----

typedef struct Touch {
  bool *load, *store;  // by buffer
} Touch;
typedef struct Walk {
  const LoopKernel *k;
  Arena *arena;
  IntMap *out;
  IntMap seen;    // expressions are a DAG
  int64_t waits;  // fences so far
  const bool *own;
} Walk;

// Memory that more than one thread can see, and that the kernel writes.
static bool is_common(const Walk *w, int32_t buffer) {
  const LoopBuffer *b = &w->k->buffer[buffer];
  if (w->own && w->own[buffer]) return false;
  return b->space == LOOP_SHARED || b->space == LOOP_SCRATCH ||
         (b->space == LOOP_ARG && b->written);
}

static Touch new_touch(Walk *w) {
  int64_t n = MAX(w->k->nbuffers, 1);
  return (Touch){arena_array(w->arena, bool, n), arena_array(w->arena, bool, n)};
}

static void touch_expr(Walk *w, Touch *t, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(&w->seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(&w->seen, (uint64_t)(uintptr_t)x, 1);
  if (x->kind == LX_LOAD && is_common(w, x->buffer)) t->load[x->buffer] = true;
  for (int i = 0; i < ARRAY_LEN(x->src); i++) touch_expr(w, t, x->src[i]);
}

static void touch_block(Walk *w, Touch *t, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    touch_expr(w, t, s->value);
    if (s->kind == LS_STORE && is_common(w, s->buffer)) t->store[s->buffer] = true;
    touch_block(w, t, &s->body);
    touch_block(w, t, &s->orelse);
  }
}

void loop_stored(const LoopKernel *k, const LoopBlock *b, bool *stored) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    if (s->kind == LS_STORE) stored[s->buffer] = true;
    loop_stored(k, &s->body, stored);
    loop_stored(k, &s->orelse, stored);
  }
}

static void join(const Walk *w, Touch *a, const Touch *b) {
  for (int32_t i = 0; i < w->k->nbuffers; i++) {
    a->load[i] |= b->load[i];
    a->store[i] |= b->store[i];
  }
}

static bool same(const Walk *w, const Touch *a, const Touch *b) {
  size_t n = (size_t)w->k->nbuffers * sizeof *a->load;
  return !n || (!memcmp(a->load, b->load, n) && !memcmp(a->store, b->store, n));
}

static Touch copy_of(Walk *w, const Touch *t) {
  Touch c = new_touch(w);
  join(w, &c, t);
  return c;
}

// ---- where threads wait ----

static void at_threads(Walk *w, const LoopStmt *s, Touch *since) {
  Touch t = new_touch(w);
  intmap_init(&w->seen, w->arena);
  touch_block(w, &t, &s->body);
  uint64_t fences = 0, had = 0, key = (uint64_t)(uintptr_t)s;
  intmap_get(w->out, key, &had);
  for (int32_t i = 0; i < w->k->nbuffers; i++) {
    bool meets = (since->store[i] && (t.load[i] || t.store[i])) || (since->load[i] && t.store[i]);
    if (meets)
      fences |= w->k->buffer[i].space == LOOP_SHARED ? LOOP_FENCE_SHARED : LOOP_FENCE_GLOBAL;
  }
  if (fences & ~had) {
    intmap_put(w->out, key, fences | had);
    w->waits++;
  }
  if (fences | had) *since = new_touch(w);
  join(w, since, &t);
}

static void walk_block(Walk *w, const LoopBlock *b, Touch *since);

// Work items are disjoint in the results.
static void drop_results(const Walk *w, Touch *t) {
  for (int32_t i = 0; i < w->k->nargs; i++) t->load[i] = t->store[i] = false;
}

// Until a round begins with what the one before it left, and finds nothing new.
static void walk_rounds(Walk *w, const LoopStmt *s, Touch *since) {
  Touch before = copy_of(w, since), entry;
  int64_t waits;
  do {
    entry = copy_of(w, since);
    waits = w->waits;
    walk_block(w, &s->body, since);
    if (s->loop == LOOP_PARALLEL) drop_results(w, since);
    join(w, since, &before);
  } while (w->waits != waits || !same(w, &entry, since));
}

static void walk_stmt(Walk *w, const LoopStmt *s, Touch *since) {
  if (s->kind == LS_FOR && s->loop == LOOP_THREAD) {
    at_threads(w, s, since);
  } else if (s->kind == LS_IF) {
    Touch other = copy_of(w, since);
    walk_block(w, &s->body, since);
    walk_block(w, &s->orelse, &other);
    join(w, since, &other);
  } else if (s->kind == LS_FOR) {
    walk_rounds(w, s, since);
  }
}

static void walk_block(Walk *w, const LoopBlock *b, Touch *since) {
  for (int64_t i = 0; i < b->n; i++) walk_stmt(w, b->v[i], since);
}

void loop_barriers(const LoopKernel *k, Arena *a, const bool *own, IntMap *out) {
  Walk w = {.k = k, .arena = a, .out = out, .own = own};
  intmap_init(out, a);
  Touch none = new_touch(&w);
  walk_block(&w, &k->body, &none);
}

// ---- sums over the threads of a warp ----

typedef struct Shuffles {
  const LoopKernel *k;
  int64_t threads, most;
  IntMap seen;
  bool *may;
} Shuffles;

static bool shuffle_dtype(DType t) {
  return t == DT_F32 || t == DT_F64 || t == DT_I32 || t == DT_U32 || t == DT_I64 || t == DT_U64;
}

// The sum of what n neighbours stored.
static bool is_shuffle(const Shuffles *w, const LoopStmt *s, Dim thread) {
  IntPool *p = w->k->pool;
  int64_t n = s->lanes;
  if (s->kind != LS_REDUCE || s->body.n || n < 2 || n > w->most || w->threads % n ||
      !ie_is(s->extent, n) || s->value->kind != LX_LOAD || s->value->nguards ||
      !shuffle_dtype(s->value->dtype) || s->value->dtype != w->k->buffer[s->value->buffer].dtype)
    return false;
  Dim first = ie_mulc(p, ie_div(p, thread, ie_const(p, n)), n);
  return s->value->index == ie_add(p, first, s->sym);
}

static void other_reads(Shuffles *w, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(&w->seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(&w->seen, (uint64_t)(uintptr_t)x, 1);
  if (x->kind == LX_LOAD) w->may[x->buffer] = false;
  for (int i = 0; i < ARRAY_LEN(x->src); i++) other_reads(w, x->src[i]);
}

// `whole`: the statements are a thread loop's own, so that all threads come to them.
static void find_shuffles(Shuffles *w, const LoopBlock *b, Dim thread, bool whole) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    bool threads = s->kind == LS_FOR && s->loop == LOOP_THREAD;
    bool kept = s->kind == LS_STORE && s->index == thread;
    if ((s->kind == LS_STORE || s->kind == LS_PREFETCH) && !kept) w->may[s->buffer] = false;
    if (!whole || !is_shuffle(w, s, thread)) other_reads(w, s->value);
    find_shuffles(w, &s->body, threads ? s->sym : thread, threads);
    find_shuffles(w, &s->orelse, thread, false);
  }
}

void loop_shuffled(const LoopKernel *k, Arena *a, int64_t most, bool *out) {
  Shuffles w = {.k = k, .threads = loop_threads(k), .most = most, .may = out};
  for (int32_t i = 0; i < k->nbuffers; i++) out[i] = k->buffer[i].space == LOOP_SHARED;
  intmap_init(&w.seen, a);
  find_shuffles(&w, &k->body, NULL, false);
}
