// pack.c -- packs buffers into an arena at the reference sizes.
//
// Each buffer goes to the lowest place where it meets no other that lives at the same time.  The
// sequence decides how well that packs: several are tried (largest first, longest-lived first, in
// order of making, largest first with a few shuffles, and with those that end up highest first,
// fewer times where there are more buffers), and the best is kept.  Graphs with very many buffers
// are packed in order of making alone, with the gaps in a tree: n log n.
#include "plan/impl.h"

#include <stdlib.h>

enum { TRY_MAX = 3000, SHUFFLES = 24, PROMOTIONS = 96, SHUFFLE_WORK = 1 << 24 };

typedef struct Packer {
  MemPlan *p;
  Arena *a;
  int32_t *root, nroots;  // those with a place of their own, by the first step that needs them
  int32_t *placed;        // sorted by offset, while packing
  int32_t nplaced;
  int64_t *best;  // offsets of the best packing
  int64_t best_total;
} Packer;

static bool together(const PlanBuffer *a, const PlanBuffer *b) {
  return a->live_first <= b->live_last && b->live_first <= a->live_last;
}

// Lowest offset for `x` among placed buffers, which are sorted by offset.
static int64_t lowest_place(const Packer *k, const PlanBuffer *x) {
  int64_t at = 0;
  for (int32_t i = 0; i < k->nplaced; i++) {
    const PlanBuffer *b = &k->p->buffer[k->placed[i]];
    if (!together(x, b)) continue;
    if (b->offset >= at + x->size) break;  // sorted: the gap is large enough
    at = MAX(at, b->offset + b->size);
  }
  return at;
}

static void place(Packer *k, int32_t b, int64_t offset) {
  PlanBuffer *x = &k->p->buffer[b];
  x->offset = offset;
  int32_t i = k->nplaced++;
  for (; i > 0 && k->p->buffer[k->placed[i - 1]].offset > offset; i--)
    k->placed[i] = k->placed[i - 1];
  k->placed[i] = b;
}

static void try_sequence(Packer *k, const int32_t *seq) {
  int64_t total = 0;
  k->nplaced = 0;
  for (int32_t i = 0; i < k->nroots; i++) {
    PlanBuffer *x = &k->p->buffer[seq[i]];
    place(k, seq[i], lowest_place(k, x));
    total = MAX(total, x->offset + x->size);
  }
  if (total >= k->best_total) return;
  k->best_total = total;
  for (int32_t i = 0; i < k->nroots; i++) k->best[k->root[i]] = k->p->buffer[k->root[i]].offset;
}

// ---- sequences ----

typedef struct Keyed {
  int64_t first, second;  // ascending
  int32_t b;
} Keyed;
static int by_keys(const void *x, const void *y) {
  const Keyed *a = x, *b = y;
  int c = (a->first > b->first) - (a->first < b->first);
  if (!c) c = (a->second > b->second) - (a->second < b->second);
  return c ? c : (a->b > b->b) - (a->b < b->b);
}

typedef int64_t KeyFn(const PlanBuffer *b, uint64_t seed);
static int64_t key_size(const PlanBuffer *b, uint64_t seed) {
  if (!seed) return -b->size;
  // A shuffle: sizes up to a fifth apart may change places.
  double jitter =
      1 + 0.2 *
              (double)(hash_u64(seed ^ (uint64_t)b->live_first << 20 ^ (uint64_t)b->result) >> 11) *
              0x1p-53;
  return -(int64_t)((double)b->size * jitter);
}
static int64_t key_life(const PlanBuffer *b, uint64_t seed) {
  (void)seed;
  return (int64_t)b->live_first - b->live_last;
}
static int64_t key_first(const PlanBuffer *b, uint64_t seed) {
  (void)seed;
  return b->live_first;
}

static void try_sorted(Packer *k, KeyFn *fn, uint64_t seed) {
  Keyed *keyed = arena_array(k->a, Keyed, k->nroots);
  int32_t *seq = arena_array(k->a, int32_t, k->nroots);
  for (int32_t i = 0; i < k->nroots; i++) {
    const PlanBuffer *b = &k->p->buffer[k->root[i]];
    keyed[i] = (Keyed){fn(b, seed), -b->size, k->root[i]};
  }
  qsort(keyed, (size_t)k->nroots, sizeof *keyed, by_keys);
  for (int32_t i = 0; i < k->nroots; i++) seq[i] = keyed[i].b;
  try_sequence(k, seq);
}

// The buffer that lies highest is placed first, again and again: what has no room left chooses
// before the others.
static void try_promoting(Packer *k, int64_t times) {
  Keyed *keyed = arena_array(k->a, Keyed, k->nroots);
  int32_t *seq = arena_array(k->a, int32_t, k->nroots);
  for (int32_t i = 0; i < k->nroots; i++) {
    const PlanBuffer *b = &k->p->buffer[k->root[i]];
    keyed[i] = (Keyed){-b->size, b->live_first, k->root[i]};
  }
  qsort(keyed, (size_t)k->nroots, sizeof *keyed, by_keys);
  for (int32_t i = 0; i < k->nroots; i++) seq[i] = keyed[i].b;
  for (int64_t t = 0; t < times && k->best_total > k->p->bound_bytes; t++) {
    try_sequence(k, seq);
    int32_t top = 0;
    int64_t end = -1;
    for (int32_t i = 0; i < k->nroots; i++) {
      const PlanBuffer *b = &k->p->buffer[seq[i]];
      if (b->offset + b->size <= end) continue;
      end = b->offset + b->size;
      top = i;
    }
    int32_t b = seq[top];
    memmove(seq + 1, seq, (size_t)top * sizeof *seq);
    seq[0] = b;
  }
}

// Roots by the last step that needs them, as lists.
typedef struct Deaths {
  int32_t *first, *next;  // by step; by buffer; -1 ends
} Deaths;

static Deaths find_deaths(const Packer *k) {
  Deaths d = {arena_array(k->a, int32_t, k->p->nsteps + 2), arena_array(k->a, int32_t, k->p->n)};
  for (int32_t s = 0; s < k->p->nsteps + 2; s++) d.first[s] = -1;
  for (int32_t i = 0; i < k->nroots; i++) {
    int32_t b = k->root[i], last = k->p->buffer[b].live_last;
    d.next[b] = d.first[last];
    d.first[last] = b;
  }
  return d;
}

// Very many buffers: in order of making, into the lowest gap.
static void pack_in_order(Packer *k) {
  int64_t total = 0;
  int32_t step = 0;
  Deaths d = find_deaths(k);
  GapTree free;
  gaptree_init(&free, k->a, k->nroots);
  for (int32_t i = 0; i < k->nroots; i++) {
    PlanBuffer *x = &k->p->buffer[k->root[i]];
    for (; step < x->live_first; step++)
      for (int32_t b = d.first[step]; b >= 0; b = d.next[b])
        gaptree_give(&free, k->best[b], k->p->buffer[b].size);
    k->best[k->root[i]] = gaptree_take(&free, x->size);
    total = MAX(total, k->best[k->root[i]] + x->size);
  }
  k->best_total = total;
}

// ---- who lies below whom ----

static void sort_by_offset(Packer *k) {
  MemPlan *p = k->p;
  Keyed *keyed = arena_array(k->a, Keyed, k->nroots);
  for (int32_t i = 0; i < k->nroots; i++)
    keyed[i] = (Keyed){p->buffer[k->root[i]].offset, p->buffer[k->root[i]].size, k->root[i]};
  qsort(keyed, (size_t)k->nroots, sizeof *keyed, by_keys);
  p->by_offset = arena_array(p->arena, int32_t, k->nroots);
  for (int32_t i = 0; i < k->nroots; i++) p->by_offset[i] = keyed[i].b;
  p->nroots = k->nroots;
}

// Of what lives when a buffer is made, it must keep clear of its two neighbours: through them of
// all others.  Nor does a death bring new pairs, since what lay between has kept its neighbours
// apart.
static void find_below(Packer *k) {
  MemPlan *p = k->p;
  typedef VEC(int32_t) List;
  List *below = arena_array(k->a, List, p->n);
  int32_t *rank = arena_array(k->a, int32_t, p->n), step = 0;
  Deaths d = find_deaths(k);
  RankSet live;
  rankset_init(&live, k->a, p->nroots);
  for (int32_t i = 0; i < p->nroots; i++) rank[p->by_offset[i]] = i;
  for (int32_t i = 0; i < k->nroots; i++) {
    int32_t b = k->root[i];
    for (; step < p->buffer[b].live_first; step++)
      for (int32_t o = d.first[step]; o >= 0; o = d.next[o]) rankset_remove(&live, rank[o]);
    int32_t low = rankset_below(&live, rank[b]), high = rankset_above(&live, rank[b]);
    if (low >= 0) vec_push(k->a, &below[b], p->by_offset[low]);
    if (high >= 0) vec_push(k->a, &below[p->by_offset[high]], b);
    rankset_add(&live, rank[b]);
  }
  for (int32_t i = 0; i < k->nroots; i++) {
    PlanBuffer *x = &p->buffer[k->root[i]];
    x->nbelow = (int32_t)below[k->root[i]].n;
    x->below =
        arena_dup(p->arena, below[k->root[i]].v, below[k->root[i]].n * (int64_t)sizeof(int32_t));
  }
}

void plan_pack(MemPlan *p) {
  Packer k = {.p = p, .a = p->arena, .best_total = INT64_MAX};
  k.root = arena_array(k.a, int32_t, p->n);
  Keyed *keyed = arena_array(k.a, Keyed, p->n);
  for (int32_t b = 0; b < p->n; b++)
    if (plan_has_place(p, b)) keyed[k.nroots++] = (Keyed){p->buffer[b].live_first, b, b};
  qsort(keyed, (size_t)k.nroots, sizeof *keyed, by_keys);
  for (int32_t i = 0; i < k.nroots; i++) k.root[i] = keyed[i].b;
  k.placed = arena_array(k.a, int32_t, k.nroots + 1);
  k.best = arena_array(k.a, int64_t, p->n);
  if (k.nroots > TRY_MAX) {
    pack_in_order(&k);
  } else {
    try_sorted(&k, key_size, 0);
    try_sorted(&k, key_life, 0);
    try_sorted(&k, key_first, 0);
    int64_t times = SHUFFLE_WORK / MAX((int64_t)k.nroots * k.nroots, 1);
    for (int64_t seed = 1; seed <= MIN(times, SHUFFLES) && k.best_total > p->bound_bytes; seed++)
      try_sorted(&k, key_size, (uint64_t)seed);
    try_promoting(&k, MIN(times, PROMOTIONS));
  }
  if (!k.nroots) k.best_total = 0;
  for (int32_t i = 0; i < k.nroots; i++) p->buffer[k.root[i]].offset = k.best[k.root[i]];
  p->arena_bytes = k.best_total;
  sort_by_offset(&k);
  find_below(&k);
}

bool plan_layout(const MemPlan *p, const int64_t *bind, const bool *bound, int32_t nbind,
                 int64_t *offset, int64_t *size, int64_t *total) {
  *total = 0;
  for (int32_t b = 0; b < p->n; b++)
    if (!ie_eval(p->buffer[b].bytes, bind, bound, nbind, &size[b]) || size[b] < 0) return false;
  for (int32_t i = 0; i < p->nroots; i++) {
    int32_t b = p->by_offset[i];
    int64_t end;
    offset[b] = 0;
    for (int32_t k = 0; k < p->buffer[b].nbelow; k++) {
      int32_t low = p->buffer[b].below[k];
      offset[b] = MAX(offset[b], offset[low] + size[low]);
    }
    if (!ck_add(offset[b], size[b], &end)) return false;
    *total = MAX(*total, end);
  }
  for (int32_t b = p->n - 1; b >= 0; b--) {  // what is joined is made after its parts
    const PlanBuffer *x = &p->buffer[b];
    int64_t at;
    if (x->root != b || x->within < 0) continue;
    if (!ie_eval(x->at, bind, bound, nbind, &at)) return false;
    offset[b] = offset[x->within] + at;
  }
  return true;
}
