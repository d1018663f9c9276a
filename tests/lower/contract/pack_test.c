// pack_test.c -- constants in the order that kernels read them: random specs against one element at
// a time, constants that are moved against the moves done, and tables that stay in their file.
#include "eval/movement.h"
#include "lower/contract/pack.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static uint64_t rng;
static int64_t below(int64_t n) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (int64_t)(rng >> 8) % n;
}

static Node *numbers(Graph *g, DType t, int rank, const int64_t *dims) {
  static uint8_t bytes[1 << 20];
  for (int64_t i = 0; i < (int64_t)sizeof bytes; i++) bytes[i] = (uint8_t)below(256);
  return node_const(g, t, rank, dims, bytes, NULL);
}

// What pack.h says, word for word.
static void plainly(const PackSpec *s, int64_t width, const char *from, char *to) {
  int64_t total = 1;
  for (int k = 0; k < s->nloops; k++) total *= s->extent[k];
  for (int64_t i = 0; i < total; i++) {
    int64_t loop[PACK_LOOPS], rest = i, at = 0;
    bool inside = true;
    for (int k = s->nloops - 1; k >= 0; k--) {
      loop[k] = rest % s->extent[k];
      rest /= s->extent[k];
    }
    for (int j = 0; j < s->ncoords; j++) {
      int64_t c = 0;
      for (int k = 0; k < s->nloops; k++) c += s->coef[j][k] * loop[k];
      inside &= c >= 0 && c < s->limit[j];
      at += c * s->stride[j];
    }
    if (inside) memcpy(to + i * width, from + at * width, (size_t)width);
  }
}

// Each axis in up to two loops, the inner one a panel, in any order; columns may reach over the
// end.
static PackSpec random_spec(int rank, const int64_t *dims) {
  PackSpec s = {.ncoords = rank};
  int64_t stride = 1;
  struct {
    int coord;
    int64_t extent, coef;
  } loop[PACK_LOOPS];
  for (int i = rank - 1; i >= 0; i--) {
    int64_t panel = 1 + below(i == rank - 1 ? 40 : 5);
    s.limit[i] = dims[i];
    s.stride[i] = stride;
    stride *= dims[i];
    bool cut = below(2) && s.nloops + 2 + i <= PACK_LOOPS;
    if (cut) {
      loop[s.nloops].coord = i;
      loop[s.nloops].extent = panel;
      loop[s.nloops++].coef = 1;
    }
    loop[s.nloops].coord = i;
    loop[s.nloops].extent = cut ? (dims[i] + panel - 1) / panel : dims[i];
    loop[s.nloops++].coef = cut ? panel : 1;
  }
  for (int k = 0; k < s.nloops; k++) {
    int other = (int)below(s.nloops - k);
    s.extent[k] = loop[other].extent;
    s.coef[loop[other].coord][k] = loop[other].coef;
    loop[other] = loop[s.nloops - k - 1];
  }
  return s;
}

// Packed from `n`, and plainly from the bytes of `n` when it has some of its own.
static void compare(Graph *g, Arena *a, const Node *n, const PackSpec *spec) {
  Diag d;
  diag_init(&d);
  int64_t width = elem_bytes(type_of(n)->dtype), size = width;
  for (int k = 0; spec && k < spec->nloops; k++) size *= spec->extent[k];
  if (!spec) size = n->data->bytes;
  char *got = mem_alloc(size), *want = mem_alloc(size);
  Pool *pool = pool_create(1 + (int)below(3));
  PackList list = {0};
  const void *from;
  REQUIRE(!pack_add(&list, g, n, spec, got, a, &d));
  EXPECT(!n->data->moved || !n->data->mem);  // it is read through the move
  pack_run(&list, pool);
  REQUIRE(!const_bytes(g, n, &from, &d));
  if (spec)
    plainly(spec, width, from, want);
  else
    memcpy(want, from, (size_t)size);
  EXPECT(!memcmp(got, want, (size_t)size));
  pool_release(pool);
  mem_free(got, size);
  mem_free(want, size);
}

static Node *moved(Graph *g, DType t, int rank, int64_t *dims) {
  int64_t perm[MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i;
  for (int i = rank - 1; i > 0; i--) {
    int k = (int)below(i + 1);
    int64_t x = perm[i];
    perm[i] = perm[k];
    perm[k] = x;
  }
  transpose_attrs turn = {.perm = {rank, perm}};
  Node *x = node_const_moved(g, NA(g, transpose, &turn, numbers(g, t, rank, dims)));
  if (below(2)) return x;
  const Type *type = type_of(x);
  int64_t axis = below(rank), other[MAX_RANK];
  for (int i = 0; i < rank; i++) other[i] = type->dims[i]->value;
  other[axis] = 1 + below(9);
  concat_attrs join = {.axis = axis - (below(2) ? rank : 0)};
  Node *y = node_const_moved(g, NA(g, concat, &join, x, numbers(g, t, rank, other), x));
  return below(2) ? y : node_const_moved(g, NA(g, transpose, &turn, y));
}

TEST(pack_random) {
  static const DType types[] = {DT_I8, DT_F16, DT_F32, DT_F64, DT_C128};
  for (int round = 0; round < 300; round++) {
    Diag d;
    Graph *g;
    Arena a;
    rng = (uint64_t)round;
    diag_init(&d);
    arena_init(&a);
    REQUIRE(!graph_create(&d, &g));
    int rank = 1 + (int)below(4);
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = 1 + below(i == rank - 1 ? 70 : 9);
    DType t = types[below(ARRAY_LEN(types))];
    const Node *n = below(2) ? moved(g, t, rank, dims) : numbers(g, t, rank, dims);
    for (int i = 0; i < rank; i++) dims[i] = type_of(n)->dims[i]->value;
    PackSpec s = random_spec(rank, dims);
    compare(g, &a, n, below(4) ? &s : NULL);
    REQUIRE(!graph_status(g));
    graph_free(g);
    arena_deinit(&a);
  }
}

// A table of a file is the file's pages, at any offset that kernels can read from, and is copied at
// any other.
TEST(pack_leaves_tables_in_place) {
  enum { SIZE = 5 << 20, BYTES = 3 << 20 };
  char path[] = "/tmp/tenon-pack-XXXXXX";
  int fd = mkstemp(path);
  uint8_t *bytes = mem_alloc(SIZE);
  REQUIRE(fd >= 0 && bytes);
  for (int64_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)hash_u64((uint64_t)i);
  REQUIRE(write(fd, bytes, SIZE) == SIZE);
  close(fd);
  static const int64_t offset[] = {0, 4096, 64, 8192 + 128, 4, 100, 32};
  for (int64_t c = 0; c < 2 * ARRAY_LEN(offset); c++) {
    int64_t i = c / 2, align = c % 2 ? prog_const_align(0, DT_F32) : 64;
    Diag d;
    Graph *g;
    int64_t n = BYTES, block = 8 << 20;
    diag_init(&d);
    REQUIRE(!graph_create(&d, &g));
    Source *s = arena_new(&g->arena, Source);
    *s = (Source){.path = path, .label = path};
    vec_push(&g->arena, &g->source, s);
    const Node *k = node_const_source(g, DT_U8, 1, &n, s, offset[i], BYTES, NULL);
    int64_t phase = pack_phase(g, k, align, &d);
    EXPECT_INT_EQ(phase, offset[i] % align ? -1 : offset[i] % PAGE);
    char *to = mem_alloc(block);
    REQUIRE(to);
    // Systems that cannot map a file twice may refuse.
    if (phase >= 0 && block >= platform->pages_from &&
        pack_in_place(g, k, to + 2 * PAGE + phase, &d)) {
      EXPECT(!memcmp(to + 2 * PAGE + phase, bytes + offset[i], BYTES));
      for (int64_t j = 0; j < 2 * PAGE + phase; j++) EXPECT(!to[j]);
      const void *still;
      EXPECT(!const_bytes(g, k, &still, &d) && !memcmp(still, bytes + offset[i], BYTES));
    }
    graph_free(g);
    if (phase >= 0) EXPECT(to[block - 1] == 0);
    mem_free(to, block);
  }
  mem_free(bytes, SIZE);
  unlink(path);
}

// ---- transforms ----

static Node *halves(Graph *g, int64_t out, int64_t in) {
  static float x[40 * 20 * 9];
  int64_t dims[] = {out, in, 3, 3};
  for (int64_t i = 0; i < out * in * 9; i++) x[i] = (float)(below(65) - 32) / 2;
  return node_const(g, DT_F32, 4, dims, x, NULL);
}

// [3, 3, in, out] from [out, in, 3, 3], whole or of two parts.
static Node *weight_of(Graph *g, int64_t out, int64_t in) {
  int64_t perm[] = {2, 3, 1, 0}, first = 1 + below(out - 1);
  transpose_attrs turn = {.perm = {4, perm}};
  concat_attrs join = {.axis = 3};
  if (below(2)) return node_const_moved(g, NA(g, transpose, &turn, halves(g, out, in)));
  Node *a = node_const_moved(g, NA(g, transpose, &turn, halves(g, first, in)));
  Node *b = node_const_moved(g, NA(g, transpose, &turn, halves(g, out - first, in)));
  return node_const_moved(g, NA(g, concat, &join, a, b));
}

static double transformed(const PackSpec *s, const float *w, int64_t place, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t a = 0; a < 3; a++)
    for (int64_t b = 0; b < 3; b++)
      sum += s->transform[i][a] * s->transform[j][b] *
             (double)w[a * s->stride[0] + b * s->stride[1] + place];
  return sum;
}

static void check_transform(Graph *g, Arena *a, int points, int64_t in, int64_t out, int64_t nr) {
  Diag d;
  int64_t panels = (out + nr - 1) / nr, n = points * points, size = panels * n * in * nr;
  PackSpec s = {.nloops = 5,
                .ncoords = 4,
                .points = points,
                .extent = {panels, points, points, in, nr},
                .limit = {3, 3, in, out},
                .stride = {3 * in * out, in * out, out, 1}};
  s.coef[2][3] = s.coef[3][4] = 1;
  s.coef[3][0] = nr;
  for (int i = 0; i < points * 3; i++) s.transform[i / 3][i % 3] = (double)(below(17) - 8) / 4;
  Node *w = weight_of(g, out, in);
  float *got = mem_alloc(size * 4);
  const void *from;
  PackList list = {0};
  int64_t wrong = 0;
  diag_init(&d);
  REQUIRE(!pack_add(&list, g, w, &s, (char *)got, a, &d));
  pack_run(&list, NULL);
  REQUIRE(!const_bytes(g, w, &from, &d));
  for (int64_t e = 0; e < size; e++) {
    int64_t k = e / (n * in * nr) * nr + e % nr, c = e / nr % in, p = e / nr / in % n;
    double want = k < out ? transformed(&s, from, c * out + k, p / points, p % points) : 0;
    wrong += (double)got[e] != want;  // short mantissas: nothing is rounded
  }
  EXPECT_INT_EQ(wrong, 0);
  mem_free(got, size * 4);
}

TEST(pack_transforms) {
  Diag d;
  diag_init(&d);
  rng = 5;
  for (int i = 0; i < 20; i++) {
    Graph *g;
    Arena a;
    arena_init(&a);
    REQUIRE(!graph_create(&d, &g));
    check_transform(g, &a, i % 2 ? 4 : 6, 1 + below(20), 2 + below(38), 8 << below(3));
    arena_deinit(&a);
    graph_free(g);
  }
}
