// vocab.c -- strings to ids: a hash table, and a trie.
//
// Both are built once, in linear time (the trie sorts), and only read afterwards.  The hash is
// keyed by nothing, so a vocabulary could be made to collide; a probe is bounded by the table, and
// the hash mixes 16 bytes by a 128-bit product, for which nobody knows how to collide cheaply at 64
// bits.  32 of them are kept as a tag.
#include "text/impl.h"

uint32_t token_hash(const uint8_t *p, int64_t n) {
  uint64_t h = hash_bytes(p, n, 0x7e401);
  return (uint32_t)(h ^ h >> 32);
}

void token_map_init(TokenMap *m, const Str *key, int64_t n, bool last_wins, Arena *a) {
  int64_t cap = 16;
  while (cap < n * 2) cap *= 2;
  m->key = key;
  m->mask = (uint64_t)cap - 1;
  m->slot = arena_alloc_array(a, cap, (int64_t)sizeof *m->slot);
  for (int64_t i = 0; i < cap; i++) m->slot[i].id = -1;
  for (int64_t i = 0; i < n; i++) {
    if (!key[i].p) continue;
    uint32_t h = token_hash((const uint8_t *)key[i].p, key[i].n);
    uint64_t at = h & m->mask;
    while (m->slot[at].id >= 0 && !(m->slot[at].hash == h && str_eq(key[m->slot[at].id], key[i])))
      at = (at + 1) & m->mask;
    if (m->slot[at].id >= 0 && !last_wins) continue;
    m->slot[at].hash = h;
    m->slot[at].id = (int32_t)i;
  }
}

int32_t token_map_get(const TokenMap *m, const uint8_t *p, int64_t n) {
  if (!m->slot) return -1;
  uint32_t h = token_hash(p, n);
  for (uint64_t at = h & m->mask; m->slot[at].id >= 0; at = (at + 1) & m->mask)
    if (m->slot[at].hash == h && str_eq(m->key[m->slot[at].id], (Str){(const char *)p, n}))
      return m->slot[at].id;
  return -1;
}

// ---- trie ----
static int key_order(const Str *key, int32_t a, int32_t b) {
  int c = str_cmp(key[a], key[b]);
  return c ? c : (a > b) - (a < b);
}

// Ids by their strings, by merging.
static int32_t *sort_keys(const Str *key, int32_t *v, int64_t n, Arena *a) {
  int32_t *to = arena_array(a, int32_t, n + 1);
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t l = i, l_end = MIN(i + run, n), r = l_end, r_end = MIN(i + 2 * run, n), k = i;
      while (l < l_end || r < r_end)
        to[k++] = r == r_end || (l < l_end && key_order(key, v[l], v[r]) <= 0) ? v[l++] : v[r++];
    }
    int32_t *swap = v;
    v = to;
    to = swap;
  }
  return v;
}

// The strings of a node that waits for its children: sorted[low, high), which agree in `depth`
// bytes.
typedef struct Range {
  int32_t low, high, depth;
} Range;

void trie_init(Trie *t, const Str *key, int64_t n, Arena *a) {
  int32_t *sorted = arena_array(a, int32_t, n + 1);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++)
    if (key[i].p && key[i].n) sorted[count++] = (int32_t)i;
  sorted = sort_keys(key, sorted, count, a);
  VEC(struct TrieNode) node = {0};
  VEC(Range) range = {0};
  vec_push(a, &node, ((struct TrieNode){.child = -1, .value = -1}));
  vec_push(a, &range, ((Range){0, (int32_t)count, 0}));
  for (int64_t i = 0; i < node.n; i++) {
    Range r = range.v[i];
    // Strings that end here come first; of equal ones the first id.
    while (r.low < r.high && key[sorted[r.low]].n == r.depth) {
      if (node.v[i].value < 0) node.v[i].value = sorted[r.low];
      r.low++;
    }
    node.v[i].child = (int32_t)node.n;
    while (r.low < r.high) {
      uint8_t label = (uint8_t)key[sorted[r.low]].p[r.depth];
      int32_t end = r.low;
      while (end < r.high && (uint8_t)key[sorted[end]].p[r.depth] == label) end++;
      vec_push(a, &node, ((struct TrieNode){.child = -1, .value = -1, .label = label}));
      vec_push(a, &range, ((Range){r.low, end, r.depth + 1}));
      node.v[i].nchild++;
      r.low = end;
    }
  }
  t->node = node.v;
  t->n = node.n;
  memset(t->root, 0xff, sizeof t->root);
  for (int64_t i = 0; i < node.v[0].nchild; i++)
    t->root[node.v[node.v[0].child + i].label] = (int32_t)(node.v[0].child + i);
}

int32_t trie_step(const Trie *t, int32_t node, uint8_t byte) {
  if (node < 0) return t->root[byte];
  int32_t low = t->node[node].child, high = low + t->node[node].nchild;
  while (low < high) {
    int32_t mid = low + (high - low) / 2;
    if (t->node[mid].label < byte)
      low = mid + 1;
    else
      high = mid;
  }
  int32_t end = t->node[node].child + t->node[node].nchild;
  return low < end && t->node[low].label == byte ? low : -1;
}

int32_t trie_longest(const Trie *t, const uint8_t *p, int64_t n, int64_t *out_bytes) {
  int32_t node = -1, best = -1;
  if (!t->n) return -1;
  for (int64_t i = 0; i < n; i++) {
    node = trie_step(t, node, p[i]);
    if (node < 0) break;
    if (t->node[node].value >= 0) {
      best = t->node[node].value;
      *out_bytes = i + 1;
    }
  }
  return best;
}
