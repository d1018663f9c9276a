// constants_test.c -- the section of constants: a constant that is mapped where its file has it may
// end anywhere, and the one after it is aligned all the same.
#include "compiled.h"
#include "test.h"

#include "base/platform.h"
#include "ir/internal.h"

#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 40000, SIZE = 1 << 18 };

static void check_offset(const char *path, int64_t offset) {
  Diag d;
  Graph *g;
  Arena a;
  Program *p = NULL;
  int64_t n = COUNT, numbers[] = {1, 2, 3};
  diag_init(&d);
  arena_init(&a);
  REQUIRE(!graph_create(&d, &g));
  Source *s = arena_new(&g->arena, Source);
  *s = (Source){.path = path, .label = path};
  vec_push(&g->arena, &g->source, s);
  Node *x = node_param(g, type_tensor(g, DT_F32, 1, (Dim[]){ie_const(&g->dims, n)}), "x");
  Node *i = node_param(g, type_tensor(g, DT_I64, 1, (Dim[]){ie_const(&g->dims, 3)}), "i");
  Node *w = node_const_source(g, DT_F32, 1, &n, s, offset, 4 * COUNT, "w");
  Node *result[] = {N(g, add, x, w), N(g, mul, i, node_i64s(g, 3, numbers))};
  Body *body = body_new(g, "main", 2, (Node *[]){x, i}, 2, result);
  REQUIRE(body);
  body->result_name[0] = "y";
  body->result_name[1] = "z";
  g->main = body;
  g->body.n--;  // main is not among the bodies of control flow
  tenon_status status = compile_for(g, "ref", &a, &d, &p);
  if (!status) status = program_check(p, &d);
  if (status) FAIL("offset %lld: %s", (long long)offset, d.text);
  if (p) EXPECT_INT_EQ(p->nconsts, 2);
  program_release(p);
  graph_free(g);
  arena_deinit(&a);
}

TEST(constants_after_mapped_ones_are_aligned) {
  char path[] = "/tmp/tenon-constants-XXXXXX";
  int fd = mkstemp(path);
  void *bytes = mem_alloc(SIZE);
  REQUIRE(fd >= 0 && bytes && write(fd, bytes, SIZE) == SIZE);
  close(fd);
  static const int64_t offset[] = {0, 4, 36, 64, 4096, 4100};
  for (int64_t i = 0; i < ARRAY_LEN(offset); i++) check_offset(path, offset[i]);
  mem_free(bytes, SIZE);
  unlink(path);
}
