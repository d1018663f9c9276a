// move.c -- copying elements between dense tensors, by strides or by index maps.
//
// The flat output is split among threads; each piece walks its own coordinates like an odometer and
// copies runs along the last axis.
#include "eval/move.h"

enum { GRAIN = 1 << 15 };  // output elements of one piece of work

// By memcpy of a fixed size, which compiles to plain moves: a constant in a mapped file may lie
// anywhere.
#define COPY_LOOP(bytes)                                                                           \
  do {                                                                                             \
    char *to = (char *)dst + di * (bytes);                                                         \
    const char *from = (const char *)src + si * (bytes);                                           \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * (bytes), from + i * stride * (bytes), bytes);  \
  } while (0)

// n elements from src[si], src[si + stride], ...
static void copy_run(DType t, void *dst, int64_t di, const void *src, int64_t si, int64_t stride,
                     int64_t n) {
  if (stride == 1 || n == 1) {
    copy_elems(t, dst, di, src, si, n);
    return;
  }
  switch (elem_bytes(t)) {
  case 1: COPY_LOOP(1); break;
  case 2: COPY_LOOP(2); break;
  case 4: COPY_LOOP(4); break;
  case 8: COPY_LOOP(8); break;
  case 16: COPY_LOOP(16); break;
  default:
    for (int64_t i = 0; i < n; i++) copy_elems(t, dst, di + i, src, si + i * stride, 1);
  }
}

void move_fill(DType t, void *dst, int64_t at, int64_t n, const void *fill) {
  if (n > 0) copy_run(t, dst, at, fill, 0, 0, n);
}

// ---- by strides ----

typedef struct Strided {
  DType t;
  void *dst;
  const void *src;
  int64_t base;
  int rank;
  int64_t dims[MAX_RANK], strides[MAX_RANK];
} Strided;

static void strided_piece(void *ctx, int64_t begin, int64_t end) {
  const Strided *s = ctx;
  int last = s->rank - 1;
  int64_t at[MAX_RANK], pos = s->base, rest = begin;
  for (int d = last; d >= 0; d--) {
    at[d] = rest % s->dims[d];
    rest /= s->dims[d];
    pos += at[d] * s->strides[d];
  }
  for (int64_t i = begin; i < end;) {
    int64_t n = MIN(end - i, s->dims[last] - at[last]);
    copy_run(s->t, s->dst, i, s->src, pos, s->strides[last], n);
    i += n;
    at[last] += n;
    pos += n * s->strides[last];
    for (int d = last; d > 0 && at[d] == s->dims[d]; d--) {  // carry
      pos += s->strides[d - 1] - s->dims[d] * s->strides[d];
      at[d] = 0;
      at[d - 1]++;
    }
  }
}

// A transposition: neighbours in the source are those of axis `k`, neighbours in the result along
// the last one.  In tiles, so that what one line of the source brings into the cache is used while
// it is there.
typedef struct Tiled {
  Strided s;
  int k;
  int64_t step, tiles;  // of the result along axis k; tiles of that axis
} Tiled;
enum { TILE = 16, TILE_ROW = 64 };

#define COPY_TILE(bytes)                                                                           \
  for (int64_t i = 0; i < rows; i++) {                                                             \
    char *to = (char *)t->s.dst + (di + i * t->step) * (bytes);                                    \
    const char *from = (const char *)t->s.src + (si + i) * (bytes);                                \
    for (int64_t j = 0; j < n; j++) memcpy(to + j * (bytes), from + j * stride * (bytes), bytes);  \
  }

static void copy_tile(const Tiled *t, int64_t di, int64_t si, int64_t rows, int64_t n) {
  int64_t stride = t->s.strides[t->s.rank - 1];
  switch (elem_bytes(t->s.t)) {
  case 1: COPY_TILE(1); break;
  case 2: COPY_TILE(2); break;
  case 4: COPY_TILE(4); break;
  default: COPY_TILE(8); break;
  }
}

// Units of work: the other axes' coordinates, and within them tiles along axis k.
static void tiled_piece(void *ctx, int64_t begin, int64_t end) {
  const Tiled *t = ctx;
  int last = t->s.rank - 1;
  for (int64_t u = begin; u < end; u++) {
    int64_t from = u % t->tiles * TILE, rest = u / t->tiles, di = from * t->step;
    int64_t si = t->s.base + from, rows = MIN(TILE, t->s.dims[t->k] - from), size = 1;
    for (int d = last; d >= 0; d--) {
      if (d != last && d != t->k) {
        di += rest % t->s.dims[d] * size;
        si += rest % t->s.dims[d] * t->s.strides[d];
        rest /= t->s.dims[d];
      }
      size *= t->s.dims[d];
    }
    for (int64_t j = 0; j < t->s.dims[last]; j += TILE_ROW)
      copy_tile(t, di + j, si + j * t->s.strides[last], rows, MIN(TILE_ROW, t->s.dims[last] - j));
  }
}

static bool move_tiled(Run *r, const Strided *s, int64_t n) {
  int last = s->rank - 1;
  int64_t bytes = elem_bytes(s->t);
  if (n < GRAIN / 8 || s->dims[last] < 4 || s->strides[last] < 4 || s->t == DT_STRING ||
      bytes < 1 || bytes > 8)
    return false;
  Tiled t = {.s = *s, .k = -1, .step = 1};
  for (int d = 0; d < last; d++)
    if (s->strides[d] == 1 && s->dims[d] >= 4) t.k = d;
  if (t.k < 0) return false;
  for (int d = last; d > t.k; d--) t.step *= s->dims[d];
  t.tiles = (s->dims[t.k] + TILE - 1) / TILE;
  int64_t units = n / s->dims[t.k] / s->dims[last] * t.tiles;
  parallel_for(move_pool(r, s->t), units, 1 + GRAIN / (TILE * s->dims[last]), tiled_piece, &t);
  return true;
}

void move_strided(Run *r, Value *dst, const void *src, int64_t base, const int64_t *strides) {
  if (dst->n == 0) return;
  Strided s = {.t = dst->dtype, .dst = dst->data, .src = src, .base = base};
  for (int d = 0; d < dst->rank; d++) {  // merge axes that are one run in both
    if (dst->dims[d] == 1) continue;
    int k = s.rank - 1;
    if (k >= 0 && s.strides[k] == strides[d] * dst->dims[d]) {
      s.dims[k] *= dst->dims[d];
      s.strides[k] = strides[d];
      continue;
    }
    s.dims[s.rank] = dst->dims[d];
    s.strides[s.rank++] = strides[d];
  }
  if (s.rank == 0) {
    s.dims[0] = s.strides[0] = 1;
    s.rank = 1;
  }
  if (move_tiled(r, &s, dst->n)) return;
  parallel_for(move_pool(r, dst->dtype), dst->n, GRAIN, strided_piece, &s);
}

// ---- by maps ----

typedef struct Mapped {
  DType t;
  void *dst;
  const void *src, *fill;
  int rank;
  const int64_t *dims;
  int64_t *const *map;
} Mapped;

// Elements [from, from + n) of one row along the last axis; pos < 0: the whole row is fill.
static void mapped_row(const Mapped *m, int64_t out, int64_t pos, int64_t from, int64_t n) {
  const int64_t *map = m->map[m->rank - 1] + from;
  if (pos < 0) {
    if (m->fill) move_fill(m->t, m->dst, out, n, m->fill);
    return;
  }
  for (int64_t i = 0; i < n;) {
    int64_t run = 1;
    if (map[i] < 0) {
      while (i + run < n && map[i + run] < 0) run++;
      if (m->fill) move_fill(m->t, m->dst, out + i, run, m->fill);
    } else {
      while (i + run < n && map[i + run] == map[i] + run) run++;
      copy_elems(m->t, m->dst, out + i, m->src, pos + map[i], run);
    }
    i += run;
  }
}

static void mapped_piece(void *ctx, int64_t begin, int64_t end) {
  const Mapped *m = ctx;
  int last = m->rank - 1;
  int64_t at[MAX_RANK], rest = begin;
  for (int d = last; d >= 0; d--) {
    at[d] = rest % m->dims[d];
    rest /= m->dims[d];
  }
  for (int64_t i = begin; i < end;) {
    int64_t n = MIN(end - i, m->dims[last] - at[last]), pos = 0;
    for (int d = 0; d < last && pos >= 0; d++)
      pos = m->map[d][at[d]] < 0 ? -1 : pos + m->map[d][at[d]];
    mapped_row(m, i, pos, at[last], n);
    i += n;
    at[last] += n;
    for (int d = last; d > 0 && at[d] == m->dims[d]; d--) {
      at[d] = 0;
      at[d - 1]++;
    }
  }
}

void move_mapped(Run *r, Value *dst, const void *src, int64_t *const *map, const void *fill) {
  if (dst->n == 0) return;
  if (dst->rank == 0) {
    copy_elems(dst->dtype, dst->data, 0, src, 0, 1);
    return;
  }
  Mapped m = {dst->dtype, dst->data, src, fill, dst->rank, dst->dims, map};
  parallel_for(move_pool(r, dst->dtype), dst->n, GRAIN, mapped_piece, &m);
}

// ---- in blocks ----

typedef struct Blocks {
  DType t;
  void *dst;
  const void *src;
  int64_t block;
  const int64_t *from;
} Blocks;

static void blocks_piece(void *ctx, int64_t begin, int64_t end) {
  const Blocks *b = ctx;
  for (int64_t i = begin; i < end; i++)
    copy_elems(b->t, b->dst, i * b->block, b->src, b->from[i] * b->block, b->block);
}

void move_blocks(Run *r, Value *dst, const void *src, int64_t n, int64_t block,
                 const int64_t *from) {
  if (n == 0 || block == 0) return;
  Blocks b = {dst->dtype, dst->data, src, block, from};
  parallel_for(move_pool(r, dst->dtype), n, MAX(1, GRAIN / block), blocks_piece, &b);
}
