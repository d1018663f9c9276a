// pack_test.c -- constants in the order that kernels read them: random specs against one element at a time, constants
// that are moved against the moves done, and tables that stay in their file.
#include "eval/movement.h"
#include "lower/pack.h"
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

// Each axis in up to two loops, the inner one a panel, in any order; columns may reach over the end.
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

// A table of a file is the file's pages, at any offset that kernels can read from, and is copied at any other.
TEST(pack_leaves_tables_in_place) {
  enum { SIZE = 5 << 20, BYTES = 3 << 20 };
  char path[] = "/tmp/tenon-pack-XXXXXX";
  int fd = mkstemp(path);
  uint8_t *bytes = mem_alloc(SIZE);
  REQUIRE(fd >= 0 && bytes);
  for (int64_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)hash_u64((uint64_t)i);
  REQUIRE(write(fd, bytes, SIZE) == SIZE);
  close(fd);
  static const int64_t offset[] = {0, 4096, 64, 8192 + 128, 4, 100};
  for (int64_t i = 0; i < ARRAY_LEN(offset); i++) {
    Diag d;
    Graph *g;
    int64_t n = BYTES, block = 8 << 20;
    diag_init(&d);
    REQUIRE(!graph_create(&d, &g));
    Source *s = arena_new(&g->arena, Source);
    *s = (Source){.path = path, .label = path};
    vec_push(&g->arena, &g->source, s);
    const Node *k = node_const_source(g, DT_U8, 1, &n, s, offset[i], BYTES, NULL);
    int64_t phase = pack_phase(g, k, &d);
    EXPECT_INT_EQ(phase, offset[i] % 64 ? -1 : offset[i] % PAGE);
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
