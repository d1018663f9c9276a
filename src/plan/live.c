// live.c -- the two ordered sets that packing and its proof walk the steps with (impl.h).
//
// Which buffers are alive: a set of ranks as a tree of 64-bit words, in which a word tells which
// words below it are not empty.  The neighbours of a rank are found by looking at one word a level.
//
// Which bytes are free: gaps in a treap by address, each node with the largest gap below it, so
// that the lowest gap that is large enough is found from the root.  Priorities are hashes of the
// nodes' numbers: the same calls give the same tree.
#include "plan/impl.h"

// ---- ranks ----

void rankset_init(RankSet *s, Arena *a, int32_t n) {
  *s = (RankSet){.nlevels = 0};
  int64_t words = MAX(n, 1);
  do {
    words = (words + 63) / 64;
    s->level[s->nlevels++] = arena_array(a, uint64_t, words);
  } while (words > 1);
}

void rankset_add(RankSet *s, int32_t rank) {
  for (int l = 0; l < s->nlevels; l++, rank /= 64)
    s->level[l][rank / 64] |= (uint64_t)1 << (rank % 64);
}

void rankset_remove(RankSet *s, int32_t rank) {
  for (int l = 0; l < s->nlevels; l++, rank /= 64) {
    s->level[l][rank / 64] &= ~((uint64_t)1 << (rank % 64));
    if (s->level[l][rank / 64]) return;
  }
}

static int32_t lowest_bit(uint64_t w) { return __builtin_ctzll(w); }
static int32_t highest_bit(uint64_t w) { return 63 - __builtin_clzll(w); }

int32_t rankset_below(const RankSet *s, int32_t rank) {
  for (int l = 0; l < s->nlevels; l++, rank /= 64) {
    uint64_t w = s->level[l][rank / 64] & (((uint64_t)1 << (rank % 64)) - 1);
    if (!w) continue;
    int32_t at = rank / 64 * 64 + highest_bit(w);
    while (l-- > 0) at = at * 64 + highest_bit(s->level[l][at]);
    return at;
  }
  return -1;
}

int32_t rankset_above(const RankSet *s, int32_t rank) {
  for (int l = 0; l < s->nlevels; l++, rank /= 64) {
    uint64_t w = s->level[l][rank / 64] & ~(uint64_t)1 << (rank % 64);
    if (!w) continue;
    int32_t at = rank / 64 * 64 + lowest_bit(w);
    while (l-- > 0) at = at * 64 + lowest_bit(s->level[l][at]);
    return at;
  }
  return -1;
}

// ---- gaps ----

enum { NIL = -1 };

struct Gap {
  int64_t at, size, most;  // most: the largest size in this subtree
  uint64_t priority;
  int32_t left, right;
};

static int64_t most(const GapTree *t, int32_t i) { return i < 0 ? 0 : t->gap[i].most; }

static void update(GapTree *t, int32_t i) {
  Gap *g = &t->gap[i];
  g->most = MAX(g->size, MAX(most(t, g->left), most(t, g->right)));
}

static int32_t join(GapTree *t, int32_t a, int32_t b) {
  if (a < 0 || b < 0) return a < 0 ? b : a;
  bool first = t->gap[a].priority > t->gap[b].priority;
  if (first)
    t->gap[a].right = join(t, t->gap[a].right, b);
  else
    t->gap[b].left = join(t, a, t->gap[b].left);
  update(t, first ? a : b);
  return first ? a : b;
}

// Gaps that begin below `at`, and the others.
static void split(GapTree *t, int32_t i, int64_t at, int32_t *low, int32_t *high) {
  *low = *high = NIL;
  if (i < 0) return;
  if (t->gap[i].at < at) {
    int32_t rest;
    split(t, t->gap[i].right, at, &rest, high);
    t->gap[i].right = rest;
    *low = i;
  } else {
    int32_t rest;
    split(t, t->gap[i].left, at, low, &rest);
    t->gap[i].left = rest;
    *high = i;
  }
  update(t, i);
}

static int32_t new_gap(GapTree *t, int64_t at, int64_t size) {
  int32_t i = t->n++;
  t->gap[i] = (Gap){at, size, size, hash_u64((uint64_t)i + 1), NIL, NIL};
  return i;
}

void gaptree_init(GapTree *t, Arena *a, int32_t nbuffers) {
  *t = (GapTree){.gap = arena_array(a, Gap, (int64_t)nbuffers + 1)};
  t->root = new_gap(t, 0, INT64_MAX);
}

static int64_t take_from(GapTree *t, int32_t *slot, int64_t size) {
  Gap *g = &t->gap[*slot];
  int64_t at;
  if (most(t, g->left) >= size) {
    at = take_from(t, &g->left, size);
  } else if (g->size < size) {
    at = take_from(t, &g->right, size);
  } else {
    at = g->at;
    g->at += size;
    g->size -= size;
    if (!g->size) {
      *slot = join(t, g->left, g->right);
      return at;
    }
  }
  update(t, *slot);
  return at;
}

int64_t gaptree_take(GapTree *t, int64_t size) {
  if (!size) return 0;
  CHECK(most(t, t->root) >= size, "no gap of %lld bytes", (long long)size);
  return take_from(t, &t->root, size);
}

void gaptree_give(GapTree *t, int64_t at, int64_t size) {
  if (!size) return;
  int32_t low, high, before = NIL, after = NIL;
  split(t, t->root, at, &low, &high);
  for (int32_t i = low; i >= 0; i = t->gap[i].right) before = i;
  for (int32_t i = high; i >= 0; i = t->gap[i].left) after = i;
  if (before >= 0 && t->gap[before].at + t->gap[before].size == at) {
    int32_t rest;
    split(t, low, t->gap[before].at, &low, &rest);
    at = t->gap[before].at;
    size += t->gap[before].size;
  }
  if (after >= 0 && t->gap[after].at == at + size) {
    int32_t rest;
    split(t, high, t->gap[after].at + 1, &rest, &high);
    size += t->gap[after].size;
  }
  t->root = join(t, join(t, low, new_gap(t, at, size)), high);
}
