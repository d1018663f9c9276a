// bpe.c -- byte pair encoding of one piece, in time O(n log n) and memory for a window of it.
//
// Symbols are a linked list in arrays.  The pair of the lowest rank, the leftmost of equal ones, is
// merged until none is left; a heap finds it, or a scan where there are few symbols.
//
// A long piece is encoded in windows.  A sequence of tokens is the encoding of its bytes if and
// only if each two neighbours are the encoding of theirs: merges inside a token never depend on
// what is outside it, and the first merge across a border of the whole would also be made between
// the two tokens at that border alone.  Neighbours inside a window's encoding fulfil this.  So a
// window starts at a token of the one before, a little before its end, and the pair at that border
// is checked; where it fails the border moves back, and at last the window doubles.
#include "text/impl.h"

#include "base/platform.h"

enum { FEW = 24, WINDOW = 4096, MARGIN = 384, BACK = 8 };
enum { NO_RANK = -1 };  // as uint32_t: the highest

static inline uint64_t pair_hash(int32_t left, int32_t right) {
  uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static inline const PairSlot *find_pair(const Bpe *b, int32_t left, int32_t right) {
  uint64_t h = pair_hash(left, right), bit = h >> b->filter_shift;
  if (!(b->filter[bit >> 6] >> (bit & 63) & 1)) return NULL;  // most pairs do not merge
  uint64_t at = h & b->mask;
  while (b->slot[at].left >= 0) {
    if (b->slot[at].left == left && b->slot[at].right == right) return &b->slot[at];
    at = (at + 1) & b->mask;
  }
  return NULL;
}

// ---- the list of symbols ----
void bpe_work_free(BpeWork *w) {
  mem_free(w->memory, w->bytes);
  *w = (BpeWork){0};
}

// Room for n symbols.
static void work_room(BpeWork *w, int64_t n) {
  if (n <= w->cap) return;
  int64_t cap = MAX(n, 256), bytes;
  if (!ck_mul(cap, 6 * 4 + 3 * 8, &bytes)) trap_raise(TENON_ENOMEM, "a piece is too long");
  void *memory = mem_alloc(bytes);
  if (!memory) trap_raise(TENON_ENOMEM, "out of memory: %lld bytes for a piece", (long long)bytes);
  bpe_work_free(w);
  *w = (BpeWork){.cap = cap, .memory = memory, .bytes = bytes, .heap = memory};
  w->id = (int32_t *)(w->heap + 3 * cap);  // at most two entries a merge besides the first n
  w->prev = w->id + cap;
  w->next = w->prev + cap;
  w->merged = w->next + cap;
  w->start = (uint32_t *)(w->merged + cap);
  w->rank = w->start + cap;
}

static void put_symbol(BpeWork *w, int32_t id, int64_t start) {
  w->id[w->n] = id;
  w->start[w->n++] = (uint32_t)start;
}

// A character without a token: its bytes as tokens, or the unknown token, or nothing.
static void put_unknown(const Tokenizer *t, BpeWork *w, const uint8_t *p, int64_t n, int64_t at) {
  bool all = t->byte_fallback;
  for (int64_t i = 0; i < n && all; i++) all = t->byte_token[p[i]] >= 0;
  for (int64_t i = 0; i < n && all; i++) put_symbol(w, t->byte_token[p[i]], at + i);
  if (!all && t->unk >= 0) put_symbol(w, t->unk, at);
}

// The symbol of one character with the prefix or suffix that its place asks for.
static int32_t symbol_of(const Tokenizer *t, const uint8_t *p, int64_t n, bool first, bool last) {
  const Bpe *b = &t->bpe;
  uint8_t buf[LIMIT_TOKENIZER_ADDED * 2 + 8];
  int64_t k = 0;
  if (!first && b->prefix.n) memcpy(buf, b->prefix.p, (size_t)b->prefix.n), k = b->prefix.n;
  memcpy(buf + k, p, (size_t)n);
  k += n;
  if (last && b->suffix.n) memcpy(buf + k, b->suffix.p, (size_t)b->suffix.n), k += b->suffix.n;
  return token_map_get(&t->vocab, buf, k);
}

// The symbol of a character without prefix or suffix.
static inline int32_t plain_symbol(const Tokenizer *t, const uint8_t *p, int64_t n) {
  int all;
  uint32_t c = n < 4 ? utf8_get(p, &all) : UNICODE_END;
  if (c >= CHAR_PAGES << 8) return token_map_get(&t->vocab, p, n);
  const int32_t *page = t->bpe.char_page[c >> 8];
  return page ? page[c & 255] : -1;
}

static void symbols_of_bytes(const Tokenizer *t, BpeWork *w, const uint8_t *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int32_t id = t->bpe.byte_id[p[i]];
    if (id < 0) id = t->unk;
    if (id >= 0) put_symbol(w, id, i);
  }
}

static void symbols_of(const Tokenizer *t, BpeWork *w, const uint8_t *p, int64_t n, bool first,
                       bool last) {
  bool affix = t->bpe.prefix.n || t->bpe.suffix.n;
  work_room(w, n + 1);
  w->n = 0;
  if (t->bpe.bytes && !affix) {
    symbols_of_bytes(t, w, p, n);
    return;
  }
  for (int64_t i = 0; i < n;) {
    int64_t take = t->bpe.bytes ? 1 : MIN(utf8_bytes(p[i]), n - i);
    int32_t id = affix ? symbol_of(t, p + i, take, first && !i, last && i + take == n)
                       : plain_symbol(t, p + i, take);
    if (id >= 0)
      put_symbol(w, id, i);
    else
      put_unknown(t, w, p + i, take, i);
    i += take;
  }
}

// ---- merging ----
static inline void rank_pair(const Bpe *b, BpeWork *w, int64_t at) {
  int32_t next = w->next[at];
  const PairSlot *s = next >= 0 ? find_pair(b, w->id[at], w->id[next]) : NULL;
  w->rank[at] = s ? s->rank : (uint32_t)NO_RANK;
  w->merged[at] = s ? s->id : -1;
}

static void join(BpeWork *w, int64_t at) {
  int32_t gone = w->next[at];
  w->id[at] = w->merged[at];
  w->next[at] = w->next[gone];
  if (w->next[at] >= 0) w->prev[w->next[at]] = (int32_t)at;
  w->rank[gone] = (uint32_t)NO_RANK;
  w->merged[gone] = -1;
}

static void heap_push(BpeWork *w, uint64_t key) {
  int64_t i = w->nheap++;
  for (; i > 0 && w->heap[(i - 1) / 2] > key; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = key;
}

static uint64_t heap_pop(BpeWork *w) {
  uint64_t top = w->heap[0], key = w->heap[--w->nheap];
  int64_t i = 0;
  for (int64_t child; (child = 2 * i + 1) < w->nheap; i = child) {
    if (child + 1 < w->nheap && w->heap[child + 1] < w->heap[child]) child++;
    if (w->heap[child] >= key) break;
    w->heap[i] = w->heap[child];
  }
  w->heap[i] = key;
  return top;
}

static void push_pair(BpeWork *w, int64_t at) {
  if (w->merged[at] >= 0) heap_push(w, (uint64_t)w->rank[at] << 32 | (uint64_t)at);
}

static void merge_many(const Bpe *b, BpeWork *w) {
  w->nheap = 0;
  for (int64_t i = 0; i < w->n; i++) push_pair(w, i);
  while (w->nheap) {
    uint64_t key = heap_pop(w);
    int64_t at = (int64_t)(key & 0xffffffffu);
    if (w->merged[at] < 0 || w->rank[at] != key >> 32) continue;  // no longer this pair
    join(w, at);
    rank_pair(b, w, at);
    push_pair(w, at);
    if (w->prev[at] >= 0) {
      rank_pair(b, w, w->prev[at]);
      push_pair(w, w->prev[at]);
    }
  }
}

static void merge_few(const Bpe *b, BpeWork *w) {
  for (;;) {
    int64_t best = -1;
    for (int64_t i = 0; i >= 0; i = w->next[i])
      if (w->merged[i] >= 0 && (best < 0 || w->rank[i] < w->rank[best])) best = i;
    if (best < 0) return;
    join(w, best);
    rank_pair(b, w, best);
    if (w->prev[best] >= 0) rank_pair(b, w, w->prev[best]);
  }
}

// Encodes bytes to w->id and w->start, w->n of them.
static void encode_window(const Tokenizer *t, BpeWork *w, const uint8_t *p, int64_t n, bool first,
                          bool last) {
  symbols_of(t, w, p, n, first, last);
  if (w->n < 2) return;
  for (int64_t i = 0; i < w->n; i++) {
    w->prev[i] = (int32_t)i - 1;
    w->next[i] = i + 1 < w->n ? (int32_t)i + 1 : -1;
  }
  for (int64_t i = 0; i < w->n; i++) rank_pair(&t->bpe, w, i);
  if (w->n <= FEW)
    merge_few(&t->bpe, w);
  else
    merge_many(&t->bpe, w);
  int64_t to = 0;
  for (int64_t i = 0; i >= 0; i = w->next[i], to++) {
    w->id[to] = w->id[i];
    w->start[to] = w->start[i];
  }
  w->n = to;
}

static void emit(Encoder *e, int32_t id) {
  const Tokenizer *t = e->t;
  if (id >= t->size) {
    encoder_unknown(e, (const uint8_t *)t->model[id].p, t->model[id].n);
  } else if (id == t->unk && t->fuse_unk) {
    if (!e->last_unk) encoder_put(e, id);
    e->last_unk = true;
  } else {
    e->last_unk = false;
    encoder_put(e, id);
  }
}

// ---- windows ----
// Where a window of at most `most` bytes from `at` ends: between characters.
static int64_t window_end(const Tokenizer *t, Str s, int64_t at, int64_t most) {
  if (most >= s.n - at) return s.n;
  int64_t end = at + most;
  while (!t->bpe.bytes && ((uint8_t)s.p[end] & 0xc0) == 0x80) end--;
  return end;
}

// Whether the last token before `border`, which starts at `from`, and the first behind it, which
// ends at `to`, are what the bytes of both encode to.
static bool border_holds(Encoder *e, Str s, int64_t from, int64_t border, int64_t to, int32_t left,
                         int32_t right) {
  BpeWork *w = &e->pair;
  encode_window(e->t, w, (const uint8_t *)s.p + from, to - from, from == 0, to == s.n);
  return w->n == 2 && w->id[0] == left && w->id[1] == right && w->start[1] == border - from;
}

static void swap_work(Encoder *e) {
  BpeWork w = e->work;
  e->work = e->next;
  e->next = w;
}

// Encodes a window from a token's start near the end of e->work, which begins at `base`, into
// e->next; returns how many tokens of e->work hold before it.  0: no border was found.
static int64_t next_window(Encoder *e, Str s, int64_t base, int64_t end, int64_t most) {
  BpeWork *w = &e->work;
  int64_t keep = w->n - 1;
  while (keep > 0 && base + w->start[keep] > end - MARGIN) keep--;
  for (int back = 0; keep > 0 && back < BACK; keep--, back++) {
    int64_t border = base + w->start[keep], stop = window_end(e->t, s, border, most);
    encode_window(e->t, &e->next, (const uint8_t *)s.p + border, stop - border, false, stop == s.n);
    if (!e->next.n) continue;
    int64_t to = e->next.n > 1 ? border + e->next.start[1] : stop;
    if (border_holds(e, s, base + w->start[keep - 1], border, to, w->id[keep - 1], e->next.id[0]))
      return keep;
  }
  return 0;
}

static void encode_long(Encoder *e, Str s) {
  int64_t base = 0, most = WINDOW, end = window_end(e->t, s, 0, most);
  encode_window(e->t, &e->work, (const uint8_t *)s.p, end, true, end == s.n);
  while (end < s.n) {
    int64_t keep = next_window(e, s, base, end, most);
    if (!keep) {
      if (!ck_mul(most, 2, &most)) most = s.n;
      end = window_end(e->t, s, base, most);
      encode_window(e->t, &e->work, (const uint8_t *)s.p + base, end - base, base == 0, end == s.n);
      continue;
    }
    for (int64_t i = 0; i < keep; i++) emit(e, e->work.id[i]);
    base += e->work.start[keep];
    end = window_end(e->t, s, base, most);
    swap_work(e);
  }
  for (int64_t i = 0; i < e->work.n; i++) emit(e, e->work.id[i]);
}

static void encode_part(Encoder *e, Str s) {
  const Bpe *b = &e->t->bpe;
  if (b->ignore_merges && s.n <= b->longest) {
    int32_t id = token_map_get(&e->t->vocab, (const uint8_t *)s.p, s.n);
    if (id >= 0 && id < e->t->size) {
      encoder_put(e, id);
      return;
    }
  }
  if (s.n > WINDOW) {
    encode_long(e, s);
    return;
  }
  encode_window(e->t, &e->work, (const uint8_t *)s.p, s.n, true, true);
  for (int64_t i = 0; i < e->work.n; i++) emit(e, e->work.id[i]);
}

// ---- the cache of this encoding ----
static void encode_cached(Encoder *e, Str s) {
  if (!e->cache || s.n > CACHE_KEY || e->last_unk) {
    encode_part(e, s);
    return;
  }
  uint32_t h = token_hash((const uint8_t *)s.p, s.n);
  CacheSlot *c = &e->cache[h & e->cache_mask];
  if (c->hash == h && c->bytes == s.n && !memcmp(c->key, s.p, (size_t)s.n)) {
    for (int i = 0; i < c->nids; i++) encoder_put(e, c->id[i]);
    return;
  }
  int64_t from = e->out->n;
  encode_part(e, s);
  int64_t n = e->out->n - from;
  if (n > CACHE_IDS || e->last_unk) return;
  c->hash = h;
  c->bytes = (uint8_t)s.n;
  c->nids = (uint8_t)n;
  memcpy(c->key, s.p, (size_t)s.n);
  memcpy(c->id, e->out->id + from, (size_t)n * sizeof *c->id);
}

// Before which byte a piece may be cut: a mark behind something else.
static int64_t next_cut(Str s, int64_t at, Str mark) {
  for (int64_t i = at + mark.n; i + mark.n <= s.n; i++) {
    const char *p = memchr(s.p + i, mark.p[0], (size_t)(s.n - mark.n - i + 1));
    if (!p) return s.n;
    i = p - s.p;
    if (!memcmp(p, mark.p, (size_t)mark.n) && memcmp(p - mark.n, mark.p, (size_t)mark.n)) return i;
  }
  return s.n;
}

void bpe_encode(Encoder *e, Str piece) {
  const Bpe *b = &e->t->bpe;
  e->last_unk = false;
  if (!b->cut.n) {
    encode_cached(e, piece);
    return;
  }
  for (int64_t at = 0, end; at < piece.n; at = end) {
    end = next_cut(piece, at, b->cut);
    encode_cached(e, (Str){piece.p + at, end - at});
  }
}

// ---- tables ----
static void init_characters(Tokenizer *t) {
  for (int64_t i = 0; i < t->nmodel; i++) {
    Str s = t->model[i];
    if (!s.p || !s.n || utf8_bytes((uint8_t)s.p[0]) != s.n || s.n > 3) continue;
    int n;
    uint32_t c = utf8_get((const uint8_t *)s.p, &n);
    int32_t **page = &t->bpe.char_page[c >> 8];
    if (!*page) {
      *page = arena_array(t->arena, int32_t, 256);
      memset(*page, 0xff, 256 * sizeof **page);
    }
    (*page)[c & 255] = token_map_get(&t->vocab, (const uint8_t *)s.p, s.n);
  }
}

void bpe_init(Tokenizer *t, const Merge *merge, int64_t n) {
  Bpe *b = &t->bpe;
  int64_t cap = 16;
  while (cap < n * 2) cap *= 2;
  b->mask = (uint64_t)cap - 1;
  b->slot = arena_array(t->arena, PairSlot, cap);
  for (int64_t i = 0; i < cap; i++) b->slot[i].left = -1;
  for (int64_t i = 0; i < n; i++) {
    uint64_t at = pair_hash(merge[i].left, merge[i].right) & b->mask;
    while (b->slot[at].left >= 0 &&
           !(b->slot[at].left == merge[i].left && b->slot[at].right == merge[i].right))
      at = (at + 1) & b->mask;
    b->slot[at] = (PairSlot){merge[i].left, merge[i].right, merge[i].rank, merge[i].id};
  }
  // 16 to 32 bits for each pair.
  int bits = 10;
  while ((int64_t)1 << bits < n * 16) bits++;
  b->filter_shift = 64 - bits;
  b->filter = arena_array(t->arena, uint64_t, (int64_t)1 << (bits - 6));
  for (int64_t i = 0; i < n; i++) {
    uint64_t bit = pair_hash(merge[i].left, merge[i].right) >> b->filter_shift;
    b->filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
  }
  for (int64_t i = 0; i < t->size; i++)
    if (t->model[i].p) b->longest = MAX(b->longest, t->model[i].n);
  if (!b->bytes) init_characters(t);
  for (int i = 0; i < 256; i++) {
    uint8_t byte = (uint8_t)i;
    b->byte_id[i] = b->bytes ? token_map_get(&t->vocab, &byte, 1) : -1;
  }
}

// Characters of tokens that are no tokens become symbols behind them.
static void add_symbols(Tokenizer *t, const bool *takes) {
  VEC(Str) all = {0};
  IntMap seen;
  intmap_init(&seen, t->arena);
  for (int64_t i = 0; i < t->size; i++) vec_push(t->arena, &all, t->model[i]);
  for (int64_t i = 0; i < t->size; i++) {
    Str s = t->model[i];
    if (!s.p || (takes && !takes[i])) continue;
    for (int64_t at = 0; at < s.n;) {
      int64_t n = MIN(utf8_bytes((uint8_t)s.p[at]), s.n - at);
      uint32_t key = 0;
      uint64_t found;
      memcpy(&key, s.p + at, (size_t)n);
      if (token_map_get(&t->vocab, (const uint8_t *)s.p + at, n) < 0 &&
          !intmap_get(&seen, key, &found)) {
        intmap_put(&seen, key, 1);
        vec_push(t->arena, &all, ((Str){s.p + at, n}));
      }
      at += n;
    }
  }
  if (all.n == t->size) return;
  t->model = all.v;
  t->nmodel = all.n;
  token_map_init(&t->vocab, all.v, all.n, false, t->arena);
}

void bpe_init_ranks(Tokenizer *t, const uint32_t *rank, const bool *takes) {
  VEC(Merge) merge = {0};
  if (!t->bpe.bytes) add_symbols(t, takes);
  for (int64_t i = 0; i < t->size; i++) {
    Str s = t->model[i];
    if (!s.p || s.n < 2 || (takes && !takes[i])) continue;
    if (token_map_get(&t->vocab, (const uint8_t *)s.p, s.n) != i) continue;  // a twin
    for (int64_t at = 1; at < s.n; at++) {
      if (!t->bpe.bytes && ((uint8_t)s.p[at] & 0xc0) == 0x80) continue;
      int32_t left = token_map_get(&t->vocab, (const uint8_t *)s.p, at);
      if (left < 0 || (takes && left < t->size && !takes[left])) continue;
      int32_t right = token_map_get(&t->vocab, (const uint8_t *)s.p + at, s.n - at);
      if (right < 0 || (takes && right < t->size && !takes[right])) continue;
      vec_push(t->arena, &merge, ((Merge){left, right, (int32_t)i, rank[i]}));
    }
  }
  bpe_init(t, merge.v, merge.n);
}

static bool ends_with(Str s, Str mark) {
  return s.n >= mark.n && !memcmp(s.p + s.n - mark.n, mark.p, (size_t)mark.n);
}
static bool begins_with(Str s, Str mark) {
  return s.n >= mark.n && !memcmp(s.p, mark.p, (size_t)mark.n);
}

void bpe_find_cut(Tokenizer *t, Str mark) {
  const Bpe *b = &t->bpe;
  if (b->prefix.n || b->suffix.n || b->ignore_merges || b->bytes) return;
  // A mark without a token could be left out, and its neighbours would merge.
  if (token_map_get(&t->vocab, (const uint8_t *)mark.p, mark.n) < 0) return;
  if (t->unk >= 0 && !t->byte_fallback && t->fuse_unk) return;  // runs of it may span a cut
  for (uint64_t i = 0; i <= b->mask; i++) {
    const PairSlot *s = &b->slot[i];
    if (s->left < 0) continue;
    if (!ends_with(t->model[s->left], mark) && begins_with(t->model[s->right], mark)) return;
  }
  t->bpe.cut = mark;
}
