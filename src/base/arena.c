// arena.c -- bump allocation in chunks, and the vectors that live in it.
//
// Chunks double from 4 KiB to 1 MiB as the arena grows; a larger request gets a chunk of its own
// size.  The allocator hands out zeroed memory, so only what arena_reset gives back has to be
// cleared again.
//
// Needs:      a Trap set by the caller (an arena never returns NULL).
// Guarantees: 16-byte alignment, zeroed memory, total <= limit where a limit is set.
#include "base/base.h"
#include "base/platform.h"

// Under AddressSanitizer what has not been handed out may not be touched.
#ifdef UNDER_ASAN
#include <sanitizer/asan_interface.h>
static void forbid(void *p, int64_t n) { __asan_poison_memory_region(p, (size_t)n); }
static void allow(void *p, int64_t n) { __asan_unpoison_memory_region(p, (size_t)n); }
#else
static void forbid(void *p, int64_t n) { (void)p, (void)n; }
static void allow(void *p, int64_t n) { (void)p, (void)n; }
#endif

enum { ALIGN = 16, CHUNK_MAX = 1 << 20 };

struct ArenaChunk {
  ArenaChunk *prev;
  int64_t bytes;  // of the whole chunk, this head included
  char *used;     // where allocation had come to when the next chunk was begun
  int64_t pad;
};
_Static_assert(sizeof(ArenaChunk) % ALIGN == 0, "the first object of a chunk must be aligned");

void arena_init(Arena *a) { *a = (Arena){0}; }

static void pop_chunk(Arena *a) {
  ArenaChunk *c = a->head;
  a->head = c->prev;
  a->total -= c->bytes;
  allow(c, c->bytes);
  mem_free(c, c->bytes);
}

void arena_deinit(Arena *a) {
  if (a->scoped) arena_leave_scope(a);
  while (a->head) pop_chunk(a);
  *a = (Arena){0};
}

// Puts a chunk with room for `bytes` (a multiple of ALIGN) at the head.
static void push_chunk(Arena *a, int64_t bytes) {
  int64_t least, size = platform->chunk_bytes, after;
  if (!ck_add(bytes, (int64_t)sizeof(ArenaChunk), &least))
    trap_raise(TENON_ENOMEM, "out of memory");
  while (size && size < CHUNK_MAX && size < a->total) size *= 2;
  if (size < least) size = least;
  if (!ck_add(a->total, size, &after)) trap_raise(TENON_ENOMEM, "out of memory");
  if (a->limit && after > a->limit) {
    size = least;
    if (!ck_add(a->total, size, &after) || after > a->limit)
      trap_raise(TENON_ENOMEM, "memory limit of %lld bytes reached", (long long)a->limit);
  }
  ArenaChunk *c = mem_alloc(size);
  if (!c) trap_raise(TENON_ENOMEM, "out of memory (%lld bytes)", (long long)size);
  if (a->head) a->head->used = a->at;
  c->prev = a->head;
  c->bytes = size;
  a->head = c;
  a->total = after;
  a->at = (char *)(c + 1);
  a->end = (char *)c + size;
  forbid(a->at, a->end - a->at);
}

static int64_t round_up(int64_t bytes) {
  CHECK(bytes >= 0, "allocation of %lld bytes", (long long)bytes);
  int64_t r;
  if (!ck_add(bytes ? bytes : 1, ALIGN - 1, &r)) trap_raise(TENON_ENOMEM, "out of memory");
  return r & ~(int64_t)(ALIGN - 1);
}

void *arena_alloc(Arena *a, int64_t bytes) {
  int64_t need = round_up(bytes);
  if (need > a->end - a->at) push_chunk(a, need);
  void *p = a->at;
  allow(p, bytes);
  a->at += need;
  return p;
}

void *arena_alloc_array(Arena *a, int64_t n, int64_t elem_bytes) {
  int64_t bytes;
  if (!ck_mul(n, elem_bytes, &bytes))
    trap_raise(TENON_ENOMEM, "out of memory (%lld items of %lld bytes)", (long long)n,
               (long long)elem_bytes);
  return arena_alloc(a, bytes);
}

void *arena_dup(Arena *a, const void *p, int64_t bytes) {
  void *q = arena_alloc(a, bytes);
  if (bytes) memcpy(q, p, (size_t)bytes);
  return q;
}

ArenaMark arena_mark(Arena *a) { return (ArenaMark){a->head, a->at}; }

void arena_reset(Arena *a, ArenaMark m) {
  char *used = a->at;
  while (a->head != m.head) {
    CHECK(a->head, "the mark is not of this arena");
    pop_chunk(a);
    used = a->head ? a->head->used : NULL;
  }
  a->at = m.at;
  a->end = a->head ? (char *)a->head + a->head->bytes : NULL;
  if (!a->head) return;
  allow(m.at, used - m.at);
  memset(m.at, 0, (size_t)(used - m.at));
  forbid(m.at, a->end - m.at);
}

void arena_clear(Arena *a) {
  if (!a->head) return;
  char *used = a->at, *first;
  while (a->head->prev) {
    pop_chunk(a);
    used = a->head->used;
  }
  first = (char *)(a->head + 1);
  a->at = first;
  a->end = (char *)a->head + a->head->bytes;
  allow(first, used - first);
  memset(first, 0, (size_t)(used - first));
  forbid(first, a->end - first);
}

void *vec_grow(Arena *a, void *old, int64_t n, int64_t *cap, int64_t elem_bytes) {
  int64_t more = *cap < 4 ? 8 : 0, bytes, old_bytes;
  if (!more && !ck_mul(*cap, 2, &more)) trap_raise(TENON_ENOMEM, "out of memory");
  if (!ck_mul(more, elem_bytes, &bytes)) trap_raise(TENON_ENOMEM, "out of memory");
  old_bytes = *cap * elem_bytes;
  // The last thing allocated grows where it is.
  if (old && (char *)old + round_up(old_bytes) == a->at) {
    int64_t extra = round_up(bytes) - round_up(old_bytes);
    if (extra <= a->end - a->at) {
      a->at += extra;
      allow(old, bytes);
      *cap = more;
      return old;
    }
  }
  void *p = arena_alloc(a, bytes);
  if (n) memcpy(p, old, (size_t)(n * elem_bytes));
  *cap = more;
  return p;
}
