// pack.c -- packs constants into the order in which kernels read them (pack.h).
//
// A task is a loop nest with a stride in the weight and one in the constant for each loop.  Loops
// that are contiguous on both sides are merged, and coordinates that stay within their limits are
// not checked again.  The innermost loop is contiguous in the constant.  Where it is contiguous in
// the weight too, rows are copied; else tiles are transposed, so that each cache line of the weight
// is read once.  A weight under a transpose or concat is read through it.
//
// Needs:      `to` is zeroed and large enough for the spec.  Weights need no alignment: files give
//             none.  The caller owns both buffers.
// Guarantees: each element is written by one task, so pack_run gives the same bytes on any pool.
//             Elements outside a spec's limits stay 0.  Mapped pages of a packed weight are dropped
//             after its last piece.
#include "lower/contract/pack.h"

#include "eval/movement.h"

#include <stdatomic.h>

enum {
  PIECE = 1 << 15,
  ROWS = 64,
  COPY = 1 << 16,
  CHECKS = PACK_COORDS + 1,
  TILE = 16,
  LINES = 8,
  LANES = 32,
  IN_PLACE = 1 << 17  // bytes: a mapping of its own costs less than the copy
};

typedef struct PackLoop {
  int64_t extent, src, dst;  // strides in elements
  int64_t coef[CHECKS];      // in each check
} PackLoop;

struct PackTask {
  const char *from;
  char *to;
  int64_t width;  // bytes of an element
  uint8_t flip;   // bits turned over in each byte
  int points;     // of a transform; 0: none
  const double (*transform)[PACK_TAPS];
  int64_t tap[2], point;  // distances of two taps in the weight, and of two points in the constant
  int n;
  PackLoop loop[PACK_LOOPS + 1];  // the last: a row of the constant; before it: rows; the others
  int nchecks;
  int64_t lo[CHECKS], hi[CHECKS];  // lo <= sum of coef * loop < hi
  int64_t blocks;                  // of rows
  int64_t steps, grain;            // the other loops times blocks; so many make a piece
  int64_t begin, pieces;           // in the list
  File used;                       // what of a mapped file is not needed when all are done
  atomic_int_least64_t left;
};

// ---- where a weight's bytes lie ----

// A box of a constant: along `axis` the part from `begin` to `end`.
typedef struct Part {
  const Node *base;
  int64_t stride[MAX_RANK];  // in elements
  int64_t begin, end;
} Part;
typedef struct View {
  Part *part;
  int64_t n;
  int axis;
} View;

static void whole(const Node *n, Arena *a, View *out) {
  const Type *t = type_of(n);
  Part *p = arena_new(a, Part);
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    p->stride[i] = stride;
    stride *= t->dims[i]->value;
  }
  p->base = n;
  p->end = t->rank ? t->dims[0]->value : 1;
  *out = (View){.part = p, .n = 1};
}

static bool look(const Node *n, Arena *a, int depth, View *out);

static bool look_turned(const Node *n, Arena *a, int depth, View *out) {
  const transpose_attrs *at = n->attrs;
  int rank = type_of(n)->rank, axis = 0, perm[MAX_RANK];
  View v;
  if (!look(n->src[0], a, depth, &v)) return false;
  for (int i = 0; i < rank; i++) {
    int64_t p = at->perm.n ? at->perm.v[i] : rank - 1 - i;
    perm[i] = (int)(p < 0 ? p + rank : p);
    if (perm[i] == v.axis) axis = i;
  }
  for (int64_t k = 0; k < v.n; k++) {
    Part old = v.part[k];
    for (int i = 0; i < rank; i++) v.part[k].stride[i] = old.stride[perm[i]];
  }
  *out = (View){.part = v.part, .n = v.n, .axis = axis};
  return true;
}

static bool look_joined(const Node *n, Arena *a, int depth, View *out) {
  const concat_attrs *at = n->attrs;
  int rank = type_of(n)->rank, axis = (int)(at->axis < 0 ? at->axis + rank : at->axis);
  Part *p = arena_array(a, Part, n->nsrc);
  int64_t from = 0;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    View v;
    if (!look(n->src[i], a, depth, &v) || v.n != 1) return false;
    p[i] = v.part[0];
    p[i].begin = from;
    p[i].end = from += type_of(n->src[i])->dims[axis]->value;
  }
  *out = (View){.part = p, .n = n->nsrc, .axis = axis};
  return true;
}

// False: only its own bytes will do.
static bool look(const Node *n, Arena *a, int depth, View *out) {
  const Node *moved = n->data->moved;
  if (!moved || n->data->mem) {
    whole(n, a, out);
    return true;
  }
  if (depth > 8) return false;
  if (moved->op == OP_transpose) return look_turned(moved, a, depth + 1, out);
  return moved->op == OP_concat && look_joined(moved, a, depth + 1, out);
}

// The axis of the weight that coordinate j of the spec walks along; -1: none, or several together.
static int axis_of(const PackSpec *s, const Type *t, int j) {
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t n = t->dims[i]->value;
    if (n != 1 && stride == s->stride[j]) return s->limit[j] == n ? i : -1;
    stride *= n;
  }
  return -1;
}

// ---- a task from a spec and a part ----

static void add_check(PackTask *t, const int64_t *coef, int64_t lo, int64_t hi) {
  int64_t least = 0, most = 0;
  for (int k = 0; k < t->n; k++) {
    int64_t far = coef[k] * (t->loop[k].extent - 1);
    least += MIN(far, 0);
    most += MAX(far, 0);
  }
  if (least >= lo && most < hi) return;
  t->lo[t->nchecks] = lo;
  t->hi[t->nchecks] = hi;
  for (int k = 0; k < t->n; k++) t->loop[k].coef[t->nchecks] = coef[k];
  t->nchecks++;
}

static void remove_loop(PackTask *t, int k) {
  memmove(&t->loop[k], &t->loop[k + 1], (size_t)(t->n - k - 1) * sizeof t->loop[0]);
  t->n--;
}

// Whether `out` goes on where `in`, the loop within it, ends.
static bool goes_on(const PackTask *t, const PackLoop *out, const PackLoop *in) {
  bool yes = out->src == in->src * in->extent && out->dst == in->dst * in->extent;
  for (int j = 0; j < t->nchecks; j++) yes &= out->coef[j] == in->coef[j] * in->extent;
  return yes;
}

// Fewer and longer loops, but rows that several threads can share.
static void merge_loops(PackTask *t) {
  for (int k = t->n - 1; k >= 0; k--)
    if (t->loop[k].extent == 1 && t->n > 1) remove_loop(t, k);
  for (int k = t->n - 2; k >= 0; k--) {
    PackLoop *out = &t->loop[k], *in = &t->loop[k + 1];
    if (!goes_on(t, out, in) || (k == t->n - 2 && out->extent * in->extent > COPY)) continue;
    in->extent *= out->extent;
    remove_loop(t, k);
  }
  if (t->n == 1) {  // rows there must be
    t->loop[1] = t->loop[0];
    t->loop[0] = (PackLoop){.extent = 1};
    t->n = 2;
  }
}

// Where rows are turned, the loops around them walk through the weight in its own order.
static void order_loops(PackTask *t) {
  int rows = t->n - 1;
  if (t->loop[rows].src == 1) return;
  for (int i = 0; i < rows; i++)
    for (int k = i; k > 0 && t->loop[k].src > t->loop[k - 1].src; k--) {
      PackLoop l = t->loop[k];
      t->loop[k] = t->loop[k - 1];
      t->loop[k - 1] = l;
    }
}

static void add_task(PackList *list, PackTask *t, Arena *a) {
  if (t->points) {  // points are not walked along: each place of the weight gives them all
    remove_loop(t, 1);
    remove_loop(t, 1);
  } else {
    merge_loops(t);
    order_loops(t);
  }
  int64_t rows = t->loop[t->n - 2].extent;
  t->steps = t->blocks = (rows + ROWS - 1) / ROWS;
  for (int k = 0; k < t->n - 2; k++) t->steps *= t->loop[k].extent;
  t->grain = MAX(PIECE / MAX(MIN(rows, ROWS) * t->loop[t->n - 1].extent, 1), 1);
  if (t->points) t->grain = 1;
  t->pieces = (t->steps + t->grain - 1) / t->grain;
  t->begin = list->npieces;
  list->npieces += t->pieces;
  atomic_init(&t->left, t->pieces);
  vec_push(a, &list->task, t);
}

// The whole pages of a mapped file among a constant's bytes.
static File pages_of(const Node *n, const void *bytes) {
  const ConstData *c = n->data;
  uintptr_t at = (uintptr_t)bytes, begin = (at + PAGE - 1) / PAGE * PAGE;
  uintptr_t end = (at + (uintptr_t)c->bytes) / PAGE * PAGE;
  if (!c->source || !c->source->file.mapped || begin >= end) return (File){0};
  return (File){.bytes = (const uint8_t *)begin, .size = (int64_t)(end - begin), .mapped = true};
}

static PackTask *make_task(const PackSpec *s, const int64_t *stride, const void *from, char *to,
                           int64_t width, Arena *a) {
  PackTask *t = arena_new(a, PackTask);
  int64_t dense = 1;
  t->from = from;
  t->to = to;
  t->width = width;
  t->flip = s->flip;
  t->n = s->nloops;
  for (int k = s->nloops - 1; k >= 0; k--) {
    t->loop[k] = (PackLoop){.extent = s->extent[k], .dst = dense};
    for (int j = 0; j < s->ncoords; j++) t->loop[k].src += s->coef[j][k] * stride[j];
    dense *= s->extent[k];
  }
  for (int j = 0; j < s->ncoords; j++) add_check(t, s->coef[j], 0, s->limit[j]);
  if (!s->points) return t;
  t->points = s->points;
  t->transform = arena_dup(a, s->transform, (int64_t)sizeof s->transform);
  for (int i = 0; i < 2; i++) t->tap[i] = stride[i];
  t->point = t->loop[2].dst;
  return t;
}

// One task for each part; *done is false where the spec does not walk along the weight's axes.
static tenon_status add_parts(PackList *list, Graph *g, const PackSpec *s, const Node *n,
                              const View *v, char *to, Arena *a, Diag *d, bool *done) {
  const Type *type = type_of(n);
  int along = -1, axis[PACK_COORDS];
  *done = false;
  for (int j = 0; j < s->ncoords; j++) {
    axis[j] = s->limit[j] == 1 || !s->stride[j] ? MAX_RANK : axis_of(s, type, j);
    if (axis[j] < 0) return TENON_OK;
    if (axis[j] == v->axis) along = j;
  }
  if (v->n > 1 && (along < 0 || (s->points && along < 2))) return TENON_OK;
  for (int64_t k = 0; k < v->n; k++) {
    const Part *p = &v->part[k];
    const void *from;
    int64_t stride[PACK_COORDS], width = elem_bytes(type->dtype);
    for (int j = 0; j < s->ncoords; j++) stride[j] = axis[j] == MAX_RANK ? 0 : p->stride[axis[j]];
    TRY(const_bytes(g, p->base, &from, d));
    int64_t skip = v->n > 1 ? p->begin * stride[along] * width : 0;
    PackTask *t = make_task(s, stride, (const char *)from - skip, to, width, a);
    if (v->n > 1) add_check(t, s->coef[along], p->begin, p->end);
    t->used = pages_of(p->base, from);
    add_task(list, t, a);
  }
  *done = true;
  return TENON_OK;
}

// The constant as it is: its axes, or where it is not seen through a move, its bytes in rows.
static PackSpec plain_spec(const Node *n, bool moved) {
  const Type *t = type_of(n);
  PackSpec s = {.nloops = moved ? t->rank : 2, .ncoords = moved ? t->rank : 1};
  if (!moved) {
    s.extent[0] = (n->data->bytes + COPY - 1) / COPY;
    s.extent[1] = s.coef[0][0] = COPY;
    s.coef[0][1] = s.stride[0] = 1;
    s.limit[0] = n->data->bytes;
    return s;
  }
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    s.extent[i] = s.limit[i] = t->dims[i]->value;
    s.stride[i] = stride;
    s.coef[i][i] = 1;
    stride *= s.extent[i];
  }
  return s;
}

// ---- in place ----

int64_t pack_phase(Graph *g, const Node *n, int64_t align, Diag *d) {
  const void *from;
  if (n->data->bytes < IN_PLACE || !n->data->source || const_bytes(g, n, &from, d)) return -1;
  int64_t phase = (int64_t)((uintptr_t)from % PAGE);
  return pages_of(n, from).mapped && phase % align == 0 ? phase : -1;
}

bool pack_in_place(Graph *g, const Node *n, char *to, Diag *d) {
  const void *at;
  if (const_bytes(g, n, &at, d)) return false;
  const char *from = at, *end = from + n->data->bytes;
  File pages = pages_of(n, at);
  const char *whole_begin = (const char *)pages.bytes, *whole_end = whole_begin + pages.size;
  if (platform->map_over(pages.bytes, pages.size, to + (whole_begin - from))) return false;
  memcpy(to, from, (size_t)(whole_begin - from));
  memcpy(to + (whole_end - from), whole_end, (size_t)(end - whole_end));
  return true;
}

tenon_status pack_add(PackList *list, Graph *g, const Node *n, const PackSpec *spec, char *to,
                      Arena *a, Diag *d) {
  PackSpec plain;
  View v;
  bool moved = n->data->moved && !n->data->mem && (spec || type_of(n)->rank <= PACK_COORDS);
  if (moved && look(n, a, 0, &v)) {
    bool done;
    plain = plain_spec(n, true);
    TRY(add_parts(list, g, spec ? spec : &plain, n, &v, to, a, d, &done));
    if (done) return TENON_OK;
  }
  const void *from;
  TRY(const_bytes(g, n, &from, d));
  plain = plain_spec(n, false);
  int64_t width = spec ? elem_bytes(type_of(n)->dtype) : 1;
  if (!spec) spec = &plain;
  PackTask *t = make_task(spec, spec->stride, from, to, width, a);
  t->used = pages_of(n, from);
  add_task(list, t, a);
  return TENON_OK;
}

// ---- doing it ----

// rows x row elements; those of a row are contiguous in the constant, with stride `line` in the
// weight.
typedef struct Tile {
  char *to;
  const char *from;
  int64_t rows, row, line, src, dst, width;
  uint8_t flip;
} Tile;

#define TRANSPOSE(bits)                                                                            \
  static void transpose##bits(const Tile *t, int64_t r0, int64_t r1, int64_t e0, int64_t e1) {     \
    for (int64_t r = r0; r < r1; r++) {                                                            \
      char *to = t->to + (r * t->dst + e0) * (bits / 8);                                           \
      const char *from = t->from + (r * t->src + e0 * t->line) * (bits / 8);                       \
      for (int64_t e = e0; e < e1; e++, to += bits / 8, from += t->line * (bits / 8)) {            \
        uint##bits##_t x;                                                                          \
        memcpy(&x, from, sizeof x);                                                                \
        memcpy(to, &x, sizeof x);                                                                  \
      }                                                                                            \
    }                                                                                              \
  }
TRANSPOSE(8)
TRANSPOSE(16)
TRANSPOSE(32)
TRANSPOSE(64)

static void transpose_any(const Tile *t, int64_t r0, int64_t r1, int64_t e0, int64_t e1) {
  for (int64_t r = r0; r < r1; r++)
    for (int64_t e = e0; e < e1; e++)
      memcpy(t->to + (r * t->dst + e) * t->width, t->from + (r * t->src + e * t->line) * t->width,
             (size_t)t->width);
}

static void rebias_tile(const Tile *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    char *to = t->to + r * t->dst * t->width;
    for (int64_t i = 0; i < t->row * t->width; i++) to[i] = (char)(to[i] ^ (char)t->flip);
  }
}

static void do_tile(const Tile *t) {
  if (t->line == 1) {
    for (int64_t r = 0; r < t->rows; r++)
      memcpy(t->to + r * t->dst * t->width, t->from + r * t->src * t->width,
             (size_t)(t->row * t->width));
    if (t->flip) rebias_tile(t);
    return;
  }
  for (int64_t e = 0; e < t->row; e += LINES)
    for (int64_t r = 0; r < t->rows; r += TILE) {
      int64_t r1 = MIN(r + TILE, t->rows), e1 = MIN(e + LINES, t->row);
      switch (t->width) {
      case 1: transpose8(t, r, r1, e, e1); break;
      case 2: transpose16(t, r, r1, e, e1); break;
      case 4: transpose32(t, r, r1, e, e1); break;
      case 8: transpose64(t, r, r1, e, e1); break;
      default: transpose_any(t, r, r1, e, e1);
      }
    }
  if (t->flip) rebias_tile(t);
}

// `n` elements of a row, at each point: along one axis of taps, then along the other.
static void transform_run(const PackTask *t, int64_t src, int64_t dst, int64_t n) {
  double tap[PACK_TAPS * PACK_TAPS][LANES], half[PACK_TAPS][LANES];
  int64_t line = t->loop[t->n - 1].src;
  for (int a = 0; a < PACK_TAPS * PACK_TAPS; a++)
    for (int64_t e = 0; e < n; e++) {
      int64_t at = src + a / PACK_TAPS * t->tap[0] + a % PACK_TAPS * t->tap[1] + e * line;
      float x;
      memcpy(&x, t->from + at * (int64_t)sizeof x, sizeof x);
      tap[a][e] = x;
    }
  for (int i = 0; i < t->points; i++) {
    const double *g = t->transform[i];
    for (int b = 0; b < PACK_TAPS; b++)
      for (int64_t e = 0; e < n; e++)
        half[b][e] =
            g[0] * tap[b][e] + g[1] * tap[PACK_TAPS + b][e] + g[2] * tap[2 * PACK_TAPS + b][e];
    for (int j = 0; j < t->points; j++) {
      const double *h = t->transform[j];
      float *to = (float *)(void *)t->to + dst + (i * t->points + j) * t->point;
      for (int64_t e = 0; e < n; e++)
        to[e] = (float)(h[0] * half[0][e] + h[1] * half[1][e] + h[2] * half[2][e]);
    }
  }
}

typedef struct Range {
  int64_t begin, end;
} Range;

static void transform_rows(const PackTask *t, int64_t src, int64_t dst, Range rows, Range row) {
  const PackLoop *by = &t->loop[t->n - 2], *in = &t->loop[t->n - 1];
  for (int64_t r = rows.begin; r < rows.end; r++)
    for (int64_t e = row.begin; e < row.end; e += LANES)
      transform_run(t, src + r * by->src + e * in->src, dst + r * by->dst + e,
                    MIN(row.end - e, LANES));
}

// What of `r` keeps base + coef * i within [lo, hi).
static void clip(Range *r, int64_t base, int64_t coef, int64_t lo, int64_t hi) {
#define OUTSIDE(i) (base + coef * (i) < lo || base + coef * (i) >= hi)
  while (r->begin < r->end && OUTSIDE(r->begin)) r->begin++;
  while (r->begin < r->end && OUTSIDE(r->end - 1)) r->end--;
#undef OUTSIDE
}

// `rows` of one place of the loops around them; base: the checks' sums there.
static void do_rows(const PackTask *t, int64_t src, int64_t dst, const int64_t *base, Range rows) {
  const PackLoop *by = &t->loop[t->n - 2], *in = &t->loop[t->n - 1];
  Range row = {0, in->extent};
  for (int j = 0; j < t->nchecks; j++)
    if (!in->coef[j])
      clip(&rows, base[j], by->coef[j], t->lo[j], t->hi[j]);
    else
      clip(&row, base[j] + by->coef[j] * rows.begin, in->coef[j], t->lo[j], t->hi[j]);
  if (rows.begin >= rows.end || row.begin >= row.end) return;
  if (t->points) {
    transform_rows(t, src, dst, rows, row);
    return;
  }
  src += rows.begin * by->src + row.begin * in->src;
  dst += rows.begin * by->dst + row.begin;
  do_tile(&(Tile){.to = t->to + dst * t->width,
                  .from = t->from + src * t->width,
                  .rows = rows.end - rows.begin,
                  .row = row.end - row.begin,
                  .line = in->src,
                  .src = by->src,
                  .dst = by->dst,
                  .width = t->width,
                  .flip = t->flip});
}

static void do_step(const PackTask *t, int64_t step) {
  int rows = t->n - 2;
  int64_t src = 0, dst = 0, base[CHECKS] = {0}, rest = step / t->blocks;
  Range r = {step % t->blocks * ROWS, 0};
  bool crossed = false;
  r.end = MIN(r.begin + ROWS, t->loop[rows].extent);
  for (int k = rows - 1; k >= 0; k--) {
    const PackLoop *l = &t->loop[k];
    int64_t i = rest % l->extent;
    rest /= l->extent;
    src += i * l->src;
    dst += i * l->dst;
    for (int j = 0; j < t->nchecks; j++) base[j] += i * l->coef[j];
  }
  for (int j = 0; j < t->nchecks; j++)
    crossed |= t->loop[rows].coef[j] && t->loop[rows + 1].coef[j];
  if (!crossed) {
    do_rows(t, src, dst, base, r);
    return;
  }
  for (int64_t i = r.begin; i < r.end; i++) do_rows(t, src, dst, base, (Range){i, i + 1});
}

static void do_pieces(void *ctx, int64_t begin, int64_t end) {
  const PackList *list = ctx;
  int64_t at = 0;
  for (int64_t piece = begin; piece < end; piece++) {
    for (int64_t step = list->task.n; step > 0; step /= 2)
      while (at + step < list->task.n && list->task.v[at + step]->begin <= piece) at += step;
    PackTask *t = list->task.v[at];
    int64_t first = (piece - t->begin) * t->grain;
    for (int64_t s = first; s < MIN(first + t->grain, t->steps); s++) do_step(t, s);
    bool last = atomic_fetch_sub(&t->left, 1) == 1;
    if (last && t->used.mapped) platform->forget(t->used.bytes, t->used.size);
  }
}

void pack_run(const PackList *list, Pool *pool) {
  parallel_for(pool, list->npieces, 1, do_pieces, (void *)(uintptr_t)list);
}
