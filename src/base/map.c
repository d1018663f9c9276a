// map.c -- hashing, the two maps, interning.
//
// Open addressing with linear probing, at most 3/4 full, nothing is ever removed.  The maps start
// their hash from the arena's address, so that keys in a file cannot be made to collide ahead of
// time; the order of slots is never visible, so results do not depend on it.
#include "base/base.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t mix(uint64_t a, uint64_t b) {
  u128 r = (u128)a * b;
  return (uint64_t)r ^ (uint64_t)(r >> 64);
}

uint64_t hash_u64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

// Two multiplications per 16 bytes, after wyhash.
uint64_t hash_bytes(const void *p, int64_t n, uint64_t seed) {
  const uint8_t *s = p;
  uint64_t h = mix(seed ^ 0xa0761d6478bd642fu, (uint64_t)n ^ 0xe7037ed1a0b428dbu);
  while (n > 0) {
    uint64_t w[2] = {0, 0};
    size_t take = (size_t)MIN(n, 16);
    memcpy(w, s, take);
    h = mix(w[0] ^ 0x8ebc6af09c88c6e3u, w[1] ^ h);
    h = mix(h ^ 0x589965cc75374cc3u, 0xa0761d6478bd642fu);
    s += take;
    n -= (int64_t)take;
  }
  return h;
}

// The capacity of a map that has to take one more key: a power of two.
static int64_t bigger(int64_t cap) {
  int64_t more = 16;
  if (cap && !ck_mul(cap, 2, &more)) trap_raise(TENON_ENOMEM, "out of memory");
  return more;
}

// ---- string -> pointer ----

struct StrMapSlot {
  Str key;
  void *value;
  uint64_t hash;  // 0 = empty
};

void strmap_init(StrMap *m, Arena *a) { *m = (StrMap){.arena = a}; }

static uint64_t str_hash(const StrMap *m, Str key) {
  return hash_bytes(key.p, key.n, (uint64_t)(uintptr_t)m->arena) | 1;
}

// The slot that holds the key, or the empty one where it would go.
static struct StrMapSlot *str_slot(struct StrMapSlot *slot, int64_t cap, Str key, uint64_t hash) {
  uint64_t mask = (uint64_t)cap - 1, i = (hash >> 1) & mask;
  while (slot[i].hash && !(slot[i].hash == hash && str_eq(slot[i].key, key))) i = (i + 1) & mask;
  return &slot[i];
}

static const struct StrMapSlot *str_find(const StrMap *m, Str key) {
  if (!m->n) return NULL;
  const struct StrMapSlot *s = str_slot(m->slot, m->cap, key, str_hash(m, key));
  return s->hash ? s : NULL;
}

void *strmap_get(const StrMap *m, Str key) {
  const struct StrMapSlot *s = str_find(m, key);
  return s ? s->value : NULL;
}

bool strmap_has(const StrMap *m, Str key) { return str_find(m, key) != NULL; }

void strmap_put(StrMap *m, Str key, void *value) {
  if (m->n >= m->cap / 4 * 3) {
    int64_t cap = bigger(m->cap);
    struct StrMapSlot *slot = arena_array(m->arena, struct StrMapSlot, cap);
    for (int64_t i = 0; i < m->cap; i++)
      if (m->slot[i].hash) *str_slot(slot, cap, m->slot[i].key, m->slot[i].hash) = m->slot[i];
    m->slot = slot;
    m->cap = cap;
  }
  uint64_t hash = str_hash(m, key);
  struct StrMapSlot *s = str_slot(m->slot, m->cap, key, hash);
  if (s->hash) {
    s->value = value;
    return;
  }
  *s = (struct StrMapSlot){key, value, hash};
  m->n++;
}

// ---- integer -> integer ----

struct IntMapSlot {
  uint64_t key, value;
  bool used;
};

void intmap_init(IntMap *m, Arena *a) { *m = (IntMap){.arena = a}; }

static struct IntMapSlot *int_slot(const IntMap *m, struct IntMapSlot *slot, int64_t cap,
                                   uint64_t key) {
  uint64_t mask = (uint64_t)cap - 1;
  uint64_t i = mix(key ^ (uint64_t)(uintptr_t)m->arena, 0x9e3779b97f4a7c15u) & mask;
  while (slot[i].used && slot[i].key != key) i = (i + 1) & mask;
  return &slot[i];
}

bool intmap_get(const IntMap *m, uint64_t key, uint64_t *out) {
  *out = 0;
  if (!m->n) return false;
  const struct IntMapSlot *s = int_slot(m, m->slot, m->cap, key);
  if (s->used) *out = s->value;
  return s->used;
}

void intmap_put(IntMap *m, uint64_t key, uint64_t value) {
  if (m->n >= m->cap / 4 * 3) {
    int64_t cap = bigger(m->cap);
    struct IntMapSlot *slot = arena_array(m->arena, struct IntMapSlot, cap);
    for (int64_t i = 0; i < m->cap; i++)
      if (m->slot[i].used) *int_slot(m, slot, cap, m->slot[i].key) = m->slot[i];
    m->slot = slot;
    m->cap = cap;
  }
  struct IntMapSlot *s = int_slot(m, m->slot, m->cap, key);
  m->n += !s->used;
  *s = (struct IntMapSlot){key, value, true};
}

// ---- interning ----

void intern_init(Interner *in, Arena *a) { strmap_init(&in->map, a); }

const char *intern(Interner *in, Str s) {
  const char *known = strmap_get(&in->map, s);
  if (known) return known;
  char *copy = str_copy(in->map.arena, s);
  strmap_put(&in->map, (Str){copy, s.n}, copy);
  return copy;
}
