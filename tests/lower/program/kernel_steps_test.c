// kernel_steps_test.c -- kernels with a dynamic number of rows: made for a few numbers, of which a
// run takes its own.
#include "compiled.h"
#include "loop/tile.h"
#include "passes/passes.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/cuda.h"
#include "targets/target.h"
#include "test.h"

#include <stdlib.h>

// A layer of a transformer in little: sizes that are data, a mask that hides nothing, a norm,
// products over two open axes.
static const char layer[] =
    "dim n [1, 64]\ndim m [1, 512]\n"
    "graph @\"g\"(%x: bf16[n, m, 768], %w: bf16[2304, 768], %v: bf16[768, 768], %p: bf16[512, "
    "768]) {\n"
    "  %z = const i64[1] {0}\n  %o = const i64[1] {1}\n  %e = shape(%x) start=1 end=2\n"
    "  %s = slice(%p, %z, %e, %z)\n  %xs = add(%x, %s)\n"
    "  %t = transpose(%w)\n  %q = mat_mul(%xs, %t)\n"
    "  %h = const i64[4] {0, 0, 36, 64}\n  %r = reshape(%q, %h)\n"
    "  %y = transpose(%r) perm=[0, 2, 1, 3]\n"
    "  %k:3 = split(%y) num_outputs=3 axis=1\n"
    "  %c = const bool[] {true}\n  %l = concat(%e, %e)\n  %b = expand(%c, %l)\n"
    "  %a = attention(%k.0, %k.1, %k.2, %b)\n"
    "  %u = transpose(%a) perm=[0, 2, 1, 3]\n"
    "  %i = const i64[3] {0, 0, 768}\n  %j = reshape(%u, %i)\n"
    "  %f = transpose(%v)\n  %d = mat_mul(%j, %f)\n  %g = add(%d, %x)\n"
    "  return %g\n}\n";

// Whether at these sizes one step gives each value.
static bool given_once(const Program *p, const int64_t *sym) {
  const ProgFunction *f = p->function[0];
  bool once = true;
  for (int32_t v = 0; v < f->nvalues; v++) {
    int given = 0, all = 0;
    for (int32_t i = 0; i < f->nsteps; i++) {
      const ProgStep *st = &f->step[i];
      int64_t when = 1;
      for (int32_t k = 0; k < st->nout; k++) {
        if (st->out[k] != v) continue;
        if (st->when >= 0 && !prog_eval(p, st->when, sym, &when)) return false;
        given += when != 0;
        all++;
      }
    }
    once &= given == (all > 0);
  }
  return once;
}

// Whether kernels are called with sizes that they are made for.
static bool within_ranges(const Program *p, const Compiled *c, const int64_t *sym) {
  const ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgStep *st = &f->step[i];
    int64_t when = 1, n;
    if (st->kind != STEP_KERNEL) continue;
    if (st->when >= 0 && !prog_eval(p, st->when, sym, &when)) return false;
    const LoopKernel *k = c->kernel[st->kernel].lowered->kernel;
    for (int32_t d = 0; when && d < k->ndims; d++)
      if (!prog_eval(p, st->dim[d], sym, &n) || n < k->dim[d]->lo || n > k->dim[d]->hi)
        return false;
  }
  return true;
}

TEST(dynamic_shapes_take_one_kernel_each) {
  static const int64_t sizes[][2] = {{1, 1},   {1, 128},  {2, 128},  {1, 129},
                                     {1, 256}, {1, 257},  {16, 128}, {4, 512},
                                     {32, 64}, {32, 128}, {33, 512}, {64, 512}};
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  Asked asked = {"sm_90a", &c, .fast = fast_flags(), .advised = true};
  arena_init(&a);
  diag_init(&d);
  tenon_status s = compile_asked(&asked, layer, "cuda", &a, &d, &p);
  if (s) FAIL("%s", d.text);
  int tiles = 0, others = 0, moved = 0, hosts = 0;
  const ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgStep *st = &f->step[i];
    others += st->when >= 0;
    hosts += st->kind == STEP_HOST;
    moved += st->kind == STEP_COPY && f->value[st->in[0]].place != PLACE_PARAM &&
             !f->value[st->in[0]].device;
  }
  EXPECT(others >= 4);      // of two products
  EXPECT_INT_EQ(moved, 0);  // nothing that the host computed
  EXPECT_INT_EQ(hosts, 0);
  for (int64_t i = 0; i < ARRAY_LEN(sizes); i++)
    if (!given_once(p, sizes[i]) || !within_ranges(p, &c, sizes[i]))
      FAIL("%lld x %lld", (long long)sizes[i][0], (long long)sizes[i][1]);
  Str code = p->device[1].code, piece;
  bool bad;
  int single_stage = 0;
  for (int64_t i = 0; i < c.nkernels; i++) {  // each kernel has a text, and it is its own
    LoopTile t;
    CudaRecord r;
    REQUIRE(cuda_next_piece(&code, &piece, &bad) && cuda_record_read(piece, &r));
    bool tile = loop_find_tile(c.kernel[i].lowered->kernel, &t);
    EXPECT(tile == (r.threads > 0));
    single_stage += tile && t.is_attention && t.s.stages == 1;
    if (!tile || t.is_attention) continue;
    EXPECT_INT_EQ(r.map[0].box[1], t.s.m);
    EXPECT_INT_EQ(r.map[1].box[1], t.s.n);
    tiles++;
  }
  EXPECT(tiles >= 4 && !code.n);
  EXPECT_INT_EQ(single_stage, 2);  // attention over up to 128 keys, and up to 256, all at once
  program_release(p);
  arena_deinit(&a);
}

// What is computed of sums alone is computed for all rows, and stored where there is one: there is
// no text for tiles at the edge besides.
TEST(open_rows_are_asked_for_where_they_are_stored) {
  static const char text[] = "graph @\"g\"(%x: bf16[n, 768], %w: bf16[768, 768]) {\n"
                             "  %t = transpose(%w)\n  %y = mat_mul(%x, %t)\n  return %y\n}\n";
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  Asked asked = {"sm_90a", &c, .fast = fast_flags(), .advised = true};
  arena_init(&a);
  diag_init(&d);
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
  Str code = p->device[1].code, piece;
  bool bad;
  REQUIRE(cuda_next_piece(&code, &piece, &bad));
  const char *first = str_copy(&a, piece);
  EXPECT(strstr(first, "if (tn_there) *("));
  EXPECT(!strstr(first, " + 64 <= "));
  program_release(p);
  arena_deinit(&a);
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

// What is open is 5: the rows are 5 times %d.
TEST(dynamic_shapes_are_right_at_every_size) {
  static const int rows[] = {1, 50, 400, 3400};
  Asked asked = {.fast = fast_flags(), .advised = true};
  setenv("TENON_BLOCK_THREADS", "64", 1);
  setenv("TENON_MMA", "1", 1);
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    BothWays b;
    char text[1024];
    double error = 0;
    (void)snprintf(
        text, sizeof text,
        "graph @\"g\"(%%x: f32[n, %d, 16], %%w: f32[64, 16], %%s: f32[64], %%b: f32[64]) {\n"
        "  %%t = transpose(%%w)\n  %%q = mat_mul(%%x, %%t)\n"
        "  %%y:3 = layer_normalization(%%q, %%s, %%b)\n  return %%y.0\n}\n",
        rows[i]);
    if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
    for (int64_t k = 0; k < b.got[0]->n; k++) {
      double x = ((const float *)b.got[0]->data)[k] - ((const float *)b.want[0]->data)[k];
      error = MAX(error, x < 0 ? -x : x);
    }
    if (!(error < 1e-4)) FAIL("%d rows: %g", rows[i] * 5, error);
    int32_t others = 0;
    for (int32_t k = 0; k < b.program->function[0]->nsteps; k++)
      others += b.program->function[0]->step[k].when >= 0;
    EXPECT(others > 0);
    both_ways_free(&b);
  }
  unsetenv("TENON_BLOCK_THREADS");
  unsetenv("TENON_MMA");
}

// A batch of images has at least one: the kernel for the fewest rows is chosen for those of one
// image, though the batch may be 0.
TEST(dynamic_batches_of_images_begin_with_one) {
  static const char text[] = "graph @\"g\"(%x: f32[n, 256, 14, 14]) {\n  %c = const f32[] {0.01}\n"
                             "  %h = const i64[4] {256, 256, 3, 3}\n  %w = expand(%c, %h)\n"
                             "  %y = conv(%x, %w) pads=[1, 1, 1, 1]\n  return %y\n}\n";
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  Asked asked = {"sm_90a", &c, .fast = fast_flags(), .advised = true};
  arena_init(&a);
  diag_init(&d);
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
  const LoopTile *first = NULL;
  LoopTile t;
  for (int64_t i = 0; i < c.nkernels && !first; i++)
    if (loop_find_tile(c.kernel[i].lowered->kernel, &t)) first = &t;
  REQUIRE(first);
  EXPECT_INT_EQ(first->s.m, TILE_ROWS);
  EXPECT_INT_EQ(first->s.n, TILE_COLS);
  program_release(p);
  arena_deinit(&a);
}
