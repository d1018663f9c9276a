// emit_wgmma.c -- MMA tiles (loop/tile.h) as CUDA with wgmma and TMA (sm_90a).
//
// A thread block is a producer warpgroup and one to three consumer warpgroups.  One producer thread
// fetches TMA boxes of both operands, 128 bytes of K at a time, into a ring of stages in shared
// memory.  Consumers multiply a stage when it is full, and release it when the products of the next
// one are issued.  Blocks are persistent: tiles that run at one moment share rows and columns in
// L2.  Resident weights: where one tile holds all columns and there are many tiles, a block fetches
// the weights with its first tile alone.
//
// Where there are more warpgroups than rows by 64, they split K, and the first adds the
// accumulators of the others.  Cluster split-K: the blocks of a cluster have a part of K each, and
// the first block adds what the others write into its shared memory.  Ping-pong: two consumer
// warpgroups work on different tiles; one runs its main loop while the other runs its epilogue.  A
// stage belongs to one of them, which begins when the other has seen all its stages: an mbarrier
// tells only two rounds apart.
//
// Windows are fetched by TMA too (im2col mode), one tap and 128 bytes of channels at a time.
// Computed operands are the producer's (emit_computed_operand.c).
//
// Needs:      a tile that loop_tile_check accepts; K-major operands or windows that TMA can fetch.
// Guarantees: the CudaRecord has the launch and the TMA descriptors.  Without split-K the order of
//             a sum does not depend on the schedule; with it, partial sums are added in a fixed
//             order.
#include "loop/tile.h"
#include "runtime/cuda/api.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { WARP = 32, WARPGROUP = 128, BARRIER_BYTES = 192, MOST_SHARED = 227 << 10 };

// ---- what all such kernels call ----

// clang-format off
const char cs_tile_address[] =
    "TN_FN unsigned tn_shared_at(const void *p) {\n"
    "  unsigned at;\n"
    "  asm(\"{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }\" : \"=r\"(at) : \"l\"(p));\n"
    "  return at;\n}\n";
static const char tile_map[] = "struct __align__(64) tn_map { unsigned long long word[16]; };\n";
static const char tile_top[] =
    "TN_FN void tn_bar_init(unsigned bar, unsigned count) {\n"
    "  asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: \"r\"(bar), \"r\"(count) : \"memory\");\n}\n"
    "TN_FN void tn_bar_arrive(unsigned bar) {\n"
    "  asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(bar) : \"memory\");\n}\n"
    "TN_FN void tn_bar_expect(unsigned bar, unsigned bytes) {\n"
    "  asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" :: \"r\"(bar), \"r\"(bytes) : \"memory\");\n}\n"
    "TN_FN void tn_bar_wait(unsigned bar, unsigned parity) {\n"
    "  unsigned done;\n"
    "  do {\n"
    "    asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }\"\n"
    "                 : \"=r\"(done) : \"r\"(bar), \"r\"(parity) : \"memory\");\n"
    "  } while (!done);\n}\n"
    "TN_FN void tn_fetch(unsigned to, const tn_map *m, int x, int y, unsigned bar) {\n"
    "  asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\"\n"
    "               :: \"r\"(to), \"l\"(m), \"r\"(x), \"r\"(y), \"r\"(bar) : \"memory\");\n}\n"
    "TN_FN void tn_fetch_3(unsigned to, const tn_map *m, int x, int y, int z, unsigned bar) {\n"
    "  asm volatile(\"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];\"\n"
    "               :: \"r\"(to), \"l\"(m), \"r\"(x), \"r\"(y), \"r\"(z), \"r\"(bar) : \"memory\");\n}\n"
    "/* Pixels of the result from (x, y) of an image on, each at a tap's distance. */\n"
    "TN_FN void tn_fetch_window(unsigned to, const tn_map *m, int c, int x, int y, int image, int dx, int dy, unsigned bar) {\n"
    "  asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};\"\n"
    "               :: \"r\"(to), \"l\"(m), \"r\"(c), \"r\"(x), \"r\"(y), \"r\"(image), \"r\"(bar),\n"
    "                  \"h\"((unsigned short)dx), \"h\"((unsigned short)dy) : \"memory\");\n}\n"
    "/* Into the memory of the cluster's first block, at the place of ours. */\n"
    "TN_FN void tn_dsmem_store(const float *to, float x) {\n"
    "  asm volatile(\"{ .reg .u32 t; mapa.shared::cluster.u32 t, %0, 0; st.shared::cluster.f32 [t], %1; }\" :: \"r\"(tn_shared_at(to)), \"f\"(x) : \"memory\");\n}\n"
    "/* Where a row of a box of 64 rows has a byte. */\n"
    "TN_FN unsigned tn_in_box(unsigned box, int pitch, int row, int byte) {\n"
    "  const int turn = pitch == 128 ? row & 7 : row >> 1 & 3;\n"
    "  return box + row * pitch + (((byte >> 4) ^ turn) << 4) + (byte & 15);\n}\n"
    "TN_FN void tn_get(unsigned at, unsigned *x) {\n"
    "  asm volatile(\"ld.shared.u32 %0, [%1];\" : \"=r\"(*x) : \"r\"(at));\n}\n"
    "TN_FN void tn_get(unsigned at, uint2 *x) {\n"
    "  asm volatile(\"ld.shared.v2.u32 {%0, %1}, [%2];\" : \"=r\"(x->x), \"=r\"(x->y) : \"r\"(at));\n}\n"
    "TN_FN void tn_get(unsigned at, uint4 *x) {\n"
    "  asm volatile(\"ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(x->x), \"=r\"(x->y), \"=r\"(x->z), \"=r\"(x->w) : \"r\"(at));\n}\n"
    "TN_FN unsigned tn_get_32(unsigned at) {\n"
    "  unsigned x;\n"
    "  asm volatile(\"ld.shared.u32 %0, [%1];\" : \"=r\"(x) : \"r\"(at) : \"memory\");\n"
    "  return x;\n}\n"
    "TN_FN unsigned short tn_get_16(unsigned at) {\n"
    "  unsigned short x;\n"
    "  asm volatile(\"ld.shared.u16 %0, [%1];\" : \"=h\"(x) : \"r\"(at) : \"memory\");\n"
    "  return x;\n}\n"
    "TN_FN void tn_put(unsigned at, unsigned x) {\n"
    "  asm volatile(\"st.shared.u32 [%0], %1;\" :: \"r\"(at), \"r\"(x));\n}\n"
    "TN_FN void tn_put(unsigned at, uint2 x) {\n"
    "  asm volatile(\"st.shared.v2.u32 [%0], {%1, %2};\" :: \"r\"(at), \"r\"(x.x), \"r\"(x.y));\n}\n"
    "TN_FN void tn_tma_store(const tn_map *m, unsigned from, int x, int y) {\n"
    "  asm volatile(\"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\"\n"
    "               :: \"l\"(m), \"r\"(x), \"r\"(y), \"r\"(from) : \"memory\");\n}\n"
    "TN_FN unsigned tn_tf32_bits(float x) {\n"
    "  unsigned r;\n"
    "  asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(r) : \"f\"(x));\n"
    "  return r;\n}\n"
    "/* Two elements of a row, where TMA puts them. */\n"
    "TN_FN void tn_put_pair(unsigned to, int row, int pair, unsigned x) {\n"
    "  const unsigned at = to + row * 128u + ((((unsigned)pair >> 2) ^ (row & 7u)) << 4) + (pair & 3u) * 4u;\n"
    "  asm volatile(\"st.shared.b32 [%0], %1;\" :: \"r\"(at), \"r\"(x) : \"memory\");\n}\n"
    "/* Rows of 128 bytes, swizzled; groups of 8 rows lie 1024 bytes apart. */\n"
    "TN_FN unsigned long long tn_operand(unsigned at) {\n"
    "  return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;\n}\n";
const char cs_tile_ending[] =
    "/* Tiles one below the other, eight at a time, before the next column of them. */\n"
    "TN_FN long long tn_order(unsigned t, unsigned items, unsigned across) {\n"
    "  const unsigned down = items / across, band = 8 * across, first = t / band * 8;\n"
    "  const unsigned rows = down - first, r = t % band;\n"
    "  if (rows >= 8) return (first + r % 8) * (long long)across + r / 8;\n"
    "  return (first + r % rows) * (long long)across + r / rows;\n}\n"
    "/* 1 + erf(x) within 4e-6, as 2 / (1 + 2^-g(x)): what follows products of 16 bits needs no more. */\n"
    "TN_FN float tn_erf_one(float x) {\n"
    "  const float s = x * x;\n"
    "  float p = fmaf(-9.25696254e-05f, s, 1.19446308e-03f), w, r;\n"
    "  p = fmaf(fmaf(fmaf(p, s, 1.44062656e-03f), s, -2.97006382e-01f), s, -3.25575276f);\n"
    "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(w) : \"f\"(x * p));\n"
    "  asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(1.0f + w));\n"
    "  return 2.0f * r;\n}\n"
    "/* 1 / (1 + exp(-x)) within 4e-6. */\n"
    "TN_FN float tn_sigmoid_half(float x) {\n"
    "  float w, r;\n"
    "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(w) : \"f\"(x * -1.44269504f));\n"
    "  asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(1.0f + w));\n"
    "  return r;\n}\n";
static const char integer_top[] =
    "TN_FN void tn_dsmem_store(const int *to, int x) { tn_dsmem_store((const float *)to, __int_as_float(x)); }\n";
// clang-format on

static bool sums_integers(const LoopTile *t) { return loop_mma[t->kind].sum == DT_I32; }
const char *cs_tile_sum(const LoopTile *t) { return sums_integers(t) ? "int" : "float"; }

// The instruction names every register, so each number of columns has its own.  Behind its operands
// it has signs of floats, and of those of 16 bits whether they are transposed.
void cs_tile_product(const LoopTile *t, int n, StrBuf *out) {
  int regs = n / 2;
  char in = sums_integers(t) ? 'r' : 'f';
  strbuf_printf(out,
                "TN_FN void tn_product(%s (&d)[%d], unsigned long long a, unsigned long long b, "
                "int more) {\n  asm volatile(\"{ .reg .pred p; setp.ne.b32 p, %%%d, 0; \"\n"
                "    \"wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {\"\n    \"",
                cs_tile_sum(t), regs, regs + 2, n, 32 / (int)cs_bytes(t->a.dtype),
                sums_integers(t) ? "s32" : "f32", loop_mma_type(t->kind, t->a.dtype),
                loop_mma_type(t->kind, t->b.dtype));
  for (int i = 0; i < regs; i++) strbuf_printf(out, "%s%%%d", i ? ", " : "", i);
  strbuf_printf(out, "}, \"\n    \"%%%d, %%%d, p%s; }\"\n    : ", regs, regs + 1,
                loop_mma[t->kind].wgmma);
  for (int i = 0; i < regs; i++) strbuf_printf(out, "%s\"+%c\"(d[%d])", i ? ", " : "", in, i);
  strbuf_puts(out, "\n    : \"l\"(a), \"l\"(b), \"r\"(more));\n}\n");
}

// Columns of one instruction.  Sums of fp8 are formed twice, by tensor cores for a block
// and in all, so that wide tiles go by halves.
static int instruction_columns(const LoopTile *t) {
  enum { MOST_TWICE = 128 };
  return t->kind == MMA_FP8 && t->s.n > MOST_TWICE ? t->s.n / 2 : t->s.n;
}

void cs_tile_top(const LoopTile *t, StrBuf *out) {
  strbuf_puts(out, tile_map);
  strbuf_puts(out, cs_tile_address);
  strbuf_puts(out, tile_top);
  strbuf_puts(out, cs_tile_ending);
  if (sums_integers(t)) strbuf_puts(out, integer_top);
  if (t->is_attention)
    cs_attention_top(t, out);
  else if (t->kind == MMA_F32)
    cs_tile_f32_top(t, out);
  else
    cs_tile_product(t, instruction_columns(t), out);
}

// ---- how it is launched ----

static bool put_term(const CEmit *e, const IntTerm *t, int64_t times, CudaTerm *out) {
  if (t->natoms > CUDA_FACTORS) return false;
  for (int i = 0; i < t->natoms; i++)
    for (int32_t k = 0; k < e->k->ndims; k++)
      if (e->k->dim[k] == t->atom[i]) out->dim[out->ndims++] = k;
  return out->ndims == t->natoms && ck_mul(t->coef, times, &out->times);
}

bool cs_number(const CEmit *e, Dim d, int64_t times, struct CudaNumber *out) {
  *out = (CudaNumber){0};
  if (d->nterms < 1 || d->nterms > CUDA_TERMS || d->hi < 1) return false;
  for (int i = 0; i < d->nterms; i++)
    if (!put_term(e, &d->term[i], times, &out->term[i])) return false;
  return true;
}

static bool is_whole(const CudaNumber *n) {
  for (const CudaTerm *t = n->term; t->times; t++)
    if (t->times % 16) return false;
  return true;
}

// TMA rounds to tf32 where it is told so; f32 comes as it is.
static int map_type(const LoopTile *t) {
  static const struct {
    LoopMmaKind kind;
    DType dtype;
    int map;
  } type[] = {
#define MMA_TYPE(kind, dtype, ptx, map) {MMA_##kind, DT_##dtype, CUDA_MAP_##map},
#include "loop/mma.def"
  };
  for (int64_t i = 0; i < ARRAY_LEN(type); i++)
    if (type[i].kind == (LoopMmaKind)t->kind && type[i].dtype == t->a.dtype) return type[i].map;
  return -1;
}

static CudaMap *new_map(CEmit *e, const LoopTileOperand *o, int rank, int rows) {
  CudaRecord *r = cs_cuda(e)->cores.record;
  CudaMap *m = &r->map[r->nmaps++];
  *m = (CudaMap){.arg = o->buffer,
                 .type = map_type(e->tile),
                 .rank = rank,
                 .box = {(uint32_t)loop_tile_block(e->tile), (uint32_t)rows}};
  return m;
}

// TMA wants strides of 16 bytes.
static bool put_matrix(CEmit *e, const LoopTileOperand *o, Dim depth, int rows) {
  CudaMap *m = new_map(e, o, 2, rows);
  return cs_number(e, o->first ? o->stride : depth, 1, &m->dim[0]) &&
         cs_number(e, o->base ? o->all : o->rows, 1, &m->dim[1]) &&
         cs_number(e, o->stride, cs_bytes(o->dtype), &m->stride[0]) && is_whole(&m->stride[0]);
}

// Rows of weights of a window: taps by channels, so that what fills up a tap's channels is 0.
static bool put_taps(CEmit *e, const LoopTileOperand *o, const LoopWindow *w, int rows) {
  CudaMap *m = new_map(e, o, 3, 1);
  int64_t bytes = w->channels * cs_bytes(o->dtype);
  m->box[2] = (uint32_t)rows;
  m->dim[0] = cuda_number(w->channels);
  m->dim[1] = cuda_number(w->taps[0] * w->taps[1]);
  m->stride[0] = cuda_number(bytes);
  return bytes % 16 == 0 && cs_number(e, o->base ? o->all : o->rows, 1, &m->dim[2]) &&
         cs_number(e, o->stride, cs_bytes(o->dtype), &m->stride[1]);
}

// Innermost first.  TMA steps from the corner before the image over as many places as the
// result has.
static bool put_window(CEmit *e, const LoopTileOperand *o, int rows) {
  const LoopWindow *w = &o->window;
  CudaMap *m = new_map(e, o, 4, rows);
  int64_t distance[3] = {w->pixel, w->line, w->line * w->in[0]};
  m->window = true;
  m->dim[0] = cuda_number(o->first ? w->pixel : w->channels);
  for (int i = 0; i < 3; i++) m->stride[i] = cuda_number(distance[i] * cs_bytes(o->dtype));
  m->box[2] = m->box[3] = 1;
  for (int i = 0; i < 2; i++) {
    int axis = 1 - i;
    m->dim[1 + i] = cuda_number(w->in[axis]);
    m->before[i] = (int)-w->lo[axis];
    m->after[i] = (int)((w->out[axis] - 1) * w->stride[axis] + 1 - w->in[axis] - w->lo[axis]);
    m->step[i] = (uint32_t)w->stride[axis];
  }
  return is_whole(&m->stride[0]) && is_whole(&m->stride[1]) &&
         cs_number(e, w->images, 1, &m->dim[3]);
}

static bool put_maps(CEmit *e, const LoopTile *t) {
  switch (t->a.form) {
  case TILE_MATRIX:
    return put_matrix(e, &t->a, t->depth, t->s.m) && put_matrix(e, &t->b, t->depth, t->s.n);
  case TILE_WINDOW: return put_window(e, &t->a, t->s.m) && put_taps(e, &t->b, &t->a.window, t->s.n);
  default: return put_matrix(e, &t->b, t->depth, t->s.n);
  }
}

// Warpgroups that split the depth; 1: each has rows of its own.
int cs_tile_split_k(const LoopTile *t) { return MAX(t->s.warpgroups * TILE_ROWS / t->s.m, 1); }

// Blocks of the depth, where its length is known.
static int64_t known_blocks(const LoopTile *t) {
  const LoopWindow *w = &t->a.window;
  if (t->a.form == TILE_WINDOW)
    return w->taps[0] * w->taps[1] * ((w->channels + loop_tile_block(t) - 1) / loop_tile_block(t));
  return ie_is_const(t->depth) ? (t->depth->value + loop_tile_block(t) - 1) / loop_tile_block(t)
                               : INT32_MAX;
}

// They lie behind the ring.
int cs_tile_resident_bytes(const LoopTile *t) {
  if (t->kind == MMA_F32 || t->a.form == TILE_VALUE || t->s.cluster > 1 || t->b.base ||
      cs_tile_split_k(t) > 1)
    return 0;
  return (int)loop_tile_resident(t->a.rows, t->b.rows, t->s.m, t->s.n, known_blocks(t));
}

// Of f32 the columns' second parts lie behind both operands.
int cs_tile_stage_bytes(const LoopTile *t) {
  int columns = cs_tile_resident_bytes(t) ? 0 : t->kind == MMA_F32 ? 2 : 1;
  return (t->s.m + columns * t->s.n) * TILE_DEPTH_BYTES;
}

int cs_tile_ring_bytes(const LoopTile *t) {
  return t->s.stages * cs_tile_stage_bytes(t) + cs_tile_resident_bytes(t);
}
// Warpgroups that compute, and of each how many times 64 rows.
int cs_tile_consumers(const LoopTile *t) { return t->s.pingpong ? 2 : t->s.warpgroups; }
static int blocks_of(const LoopTile *t) { return MAX(t->s.m / (t->s.warpgroups * TILE_ROWS), 1); }

static int part_bytes(const LoopTile *t) {
  return (cs_tile_split_k(t) - 1 + t->s.cluster - 1) * TILE_ROWS * t->s.n * (int)sizeof(float);
}

// Shared memory but for what results are put into.
static int own_bytes(const LoopTile *t) {
  return 1024 + cs_tile_ring_bytes(t) + BARRIER_BYTES + part_bytes(t);
}

static void put_record(CEmit *e, const LoopTile *t) {
  CudaRecord *r = cs_cuda(e)->cores.record;
  *r = (CudaRecord){.threads = WARPGROUP * (cs_tile_consumers(t) + 1),
                    .shared_bytes =
                        own_bytes(t) + cs_epilogue_tma_bytes(cs_cuda(e)->epilogue_tma, t),
                    .cluster = t->s.cluster,
                    .persistent = t->a.form != TILE_VALUE && t->s.cluster == 1,
                    .early = true};
  if (!put_maps(e, t)) cs_refuse(e, "TMA cannot fetch a tile's operand");
  cs_epilogue_tma_maps(e, t);
  if (r->shared_bytes > MOST_SHARED) cs_refuse(e, "a tile needs %d bytes", r->shared_bytes);
}

// ---- the two roles ----

// By what the item's number is decomposed into rows and columns of tiles, or NULL.
static Dim across_of(Dim d, Dim item) {
  if (d->kind == IE_MOD && d->a == item) return d->b;
  for (int i = 0; d->kind == IE_SUM && i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++) {
      Dim found = d->term[i].atom[j] != d ? across_of(d->term[i].atom[j], item) : NULL;
      if (found) return found;
    }
  return NULL;
}

void cs_tile_item(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  Dim across = across_of(t->b.row, items->sym);
  const char *v = cs_name(e, items->sym->name);
  cs_set_text(e, items->sym, v);
  if (across)
    cs_line(e, "const %s %s = (%s)tn_order((unsigned)tn_t, (unsigned)items, %s);", e->index, v,
            e->index, cs_dim(e, across));
  else
    cs_line(e, "const %s %s = (%s)tn_t;", e->index, v, e->index);
}

// `own`: those of this warpgroup alone.  A cluster has one tile: when all its threads have met,
// none begins another.
static void open_items(CEmit *e, const LoopStmt *items, const LoopTile *t, bool own) {
  if (t->s.cluster > 1) {
    cs_open(e, "{");
    cs_line(e, "const long long tn_t = blockIdx.x / %d;", t->s.cluster);
  } else {
    cs_open(e, "for (long long tn_t = blockIdx.x%s; tn_t < items; tn_t += gridDim.x%s) {",
            own ? " + tn_who * gridDim.x" : "", own ? " * 2" : "");
  }
  cs_tile_item(e, items, t);
}

void cs_tile_items(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  open_items(e, items, t, false);
}

void cs_tile_advance(CEmit *e, const LoopTile *t) {
  cs_line(e, "if (++tn_s == %d) tn_s = 0, tn_parity ^= 1u;", t->s.stages);
}

static bool by_threads(const LoopTile *t) { return t->a.form == TILE_VALUE; }

// Registers of a thread of the producer, and of a consumer, by consumer warpgroups; 0: as they
// come.
static int registers_of(const LoopTile *t, bool computes) {
  static const int copied[][2] = {[2] = {24, 240}, [3] = {32, 160}};
  static const int f32[][2] = {[2] = {40, 232}, [3] = {56, 152}};
  static const int values[][2] = {[2] = {88, 208}, [3] = {0, 0}};
  return (by_threads(t)        ? values
          : t->kind == MMA_F32 ? f32
                               : copied)[cs_tile_consumers(t)][computes];
}

// All warps of the producer but the one that fetches.
static void emit_low(CEmit *e, const LoopTile *t) {
  cs_open(e, "if (threadIdx.x >= %d) {", WARP);
  cs_line(e, "int tn_s = 0;");
  cs_line(e, "unsigned tn_parity = 0;");
  if (t->s.cluster == 1)
    cs_line(e, "for (long long tn_t = blockIdx.x; tn_t < items; tn_t += gridDim.x)");
  cs_open(e, "for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {");
  cs_line(e, "const unsigned tn_at = tn_ring + tn_s * %du, tn_full = tn_bars + tn_s * 16u;",
          cs_tile_stage_bytes(t));
  cs_line(e, "const unsigned tn_round = tn_parity;");
  cs_tile_f32_low(e, t, WARP, WARPGROUP - WARP);
  cs_tile_advance(e, t);
  cs_close(e);
  cs_close(e);
}

static void emit_producer(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  int registers = registers_of(t, false);
  if (registers) cs_line(e, "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %d;\");", registers);
  if (!by_threads(t)) cs_open(e, "if (threadIdx.x == 0) {");
  cs_line(e, "int tn_s = 0;");
  cs_line(e, "unsigned tn_parity = 1; /* the ring begins empty */");
  cs_producer_begin(e, items, t);
  cs_tile_items(e, items, t);
  cs_line(e, "const int tn_col = (int)(%s);", cs_tile_place(e, &t->b, t->cols->sym));
  if (by_threads(t))
    cs_tile_values(e, t);
  else
    cs_producer_blocks(e, t);
  cs_epilogue_tma_load(e, t);
  cs_close(e);
  cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
  if (!by_threads(t)) cs_close(e);
  if (!by_threads(t) && t->kind == MMA_F32) emit_low(e, t);
}

// Warpgroups that do not see every block of the ring.
static bool counts_blocks(const LoopTile *t) { return cs_tile_split_k(t) > 1 || t->s.pingpong; }

// Where the next block lies in the ring: one after the other, or by its number among all.
static void open_blocks(CEmit *e, const LoopTile *t) {
  int split = cs_tile_split_k(t);
  if (split > 1 || t->kind == MMA_F32 || t->kind == MMA_FP8) {
    cs_line(e, "#pragma unroll");
    cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[0][q] = %s;", t->s.n / 2,
            sums_integers(t) ? "0" : "0.0f");
  }
  if (split > 1)
    cs_open(e, "for (int tn_k = tn_who; tn_k < tn_blocks; tn_k += %d) {", split);
  else
    cs_open(e, "for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {");
  if (!counts_blocks(t)) return;
  cs_line(e, "const unsigned tn_number = tn_done + tn_k, tn_parity = tn_number / %du & 1u;",
          t->s.stages);
  cs_line(e, "const int tn_s = (int)(tn_number %% %du);", t->s.stages);
}

// The epilogue operand comes behind the last block.
static void await_epilogue_operand(CEmit *e, const LoopTile *t) {
  if (!cs_cuda(e)->epilogue_tma->stages) return;
  cs_line(e, "unsigned tn_side[%d];", cs_cuda(e)->epilogue_tma->stages);
  if (cs_tile_split_k(t) == 1) cs_epilogue_tma_wait(e, t, t->s.pingpong);
}

static void emit_products_f32(CEmit *e, const LoopTile *t) {
  bool split_k = cs_tile_split_k(t) > 1;
  open_blocks(e, t);
  cs_line(e, "const unsigned tn_at = tn_ring + tn_s * %du;", cs_tile_stage_bytes(t));
  cs_line(e, "tn_bar_wait(tn_bars + tn_s * 16u, tn_parity);");
  cs_tile_f32_products(e, t, split_k);
  if (!split_k) cs_tile_advance(e, t);
  cs_close(e);
}

// fp8: tensor cores cut their sums off 13 bits behind the largest number, so those of
// a block are added as f32.  While one warpgroup adds, the other one's are in flight.
static void emit_products_fp8(CEmit *e, const LoopTile *t) {
  bool split_k = cs_tile_split_k(t) > 1;
  int cols = instruction_columns(t);
  open_blocks(e, t);
  cs_line(e, "const unsigned tn_at = tn_ring + tn_s * %du;", cs_tile_stage_bytes(t));
  cs_line(e, "tn_bar_wait(tn_bars + tn_s * 16u, tn_parity);");
  cs_line(e, "const unsigned long long tn_a = tn_operand(tn_at + %s * %du);",
          split_k ? "0" : "tn_who", TILE_ROWS * TILE_DEPTH_BYTES);
  cs_line(e, "const unsigned long long tn_b = tn_operand(%s);", cs_tile_columns_at(e, t));
  for (int first = 0; first < t->s.n; first += cols) {
    cs_open(e, "{");
    cs_line(e, "float tn_block[%d];", cols / 2);
    cs_line(e, "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
    cs_line(e, "#pragma unroll");
    cs_line(e, "for (int q = 0; q < 4; q++)");
    cs_line(e, "  tn_product(tn_block, tn_a + q * 2, tn_b + q * 2 + %d, q);",
            first * TILE_DEPTH_BYTES / 16);
    cs_line(e, "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
    cs_line(e, "asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");");
    if (first + cols == t->s.n)
      cs_line(e, "if (tn_lane == 0) tn_bar_arrive(tn_bars + tn_s * 16u + 8);");
    cs_line(e, "#pragma unroll");
    cs_open(e, "for (int q = 0; q < %d; q++) {", cols / 2);
    cs_line(e, "asm volatile(\"\" : \"+f\"(tn_block[q]) :: \"memory\");");
    cs_line(e, "tn_sum[0][%d + q] += tn_block[q];", first / 2);
    cs_close(e);
    cs_close(e);
  }
  if (!split_k) cs_tile_advance(e, t);
  cs_close(e);
  await_epilogue_operand(e, t);
}

// One batch of products stays in flight: when it is, those before it have read their stage.
static void emit_products(CEmit *e, const LoopTile *t) {
  bool split_k = cs_tile_split_k(t) > 1, alone = split_k || t->s.pingpong;
  cs_line(e, "int tn_before = -1;");
  if (t->s.pingpong)
    cs_line(e, "asm volatile(\"bar.sync %%0, %d;\" :: \"r\"(2 + tn_who) : \"memory\");",
            2 * WARPGROUP);
  open_blocks(e, t);
  cs_line(e, "const unsigned tn_at = tn_ring + tn_s * %du;", cs_tile_stage_bytes(t));
  cs_line(e, "tn_bar_wait(tn_bars + tn_s * 16u, tn_parity);");
  cs_line(e, "const unsigned long long tn_a = tn_operand(tn_at + %s * %du);",
          alone ? "0" : "tn_who", TILE_ROWS * TILE_DEPTH_BYTES);
  cs_line(e, "const unsigned long long tn_b = tn_operand(%s);", cs_tile_columns_at(e, t));
  cs_line(e, "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < 4; q++)");
  for (int b = 0; b < blocks_of(t); b++)
    cs_line(e, "  tn_product(tn_sum[%d], tn_a + q * 2 + %d, tn_b + q * 2, %s | q)%s", b,
            b * TILE_ROWS * TILE_DEPTH_BYTES / 16, split_k ? "(tn_k - tn_who)" : "tn_k",
            b + 1 < blocks_of(t) ? "," : ";");
  cs_line(e, "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
  cs_line(e, "asm volatile(\"wgmma.wait_group.sync.aligned 1;\" ::: \"memory\");");
  cs_line(e, "if (tn_before >= 0 && tn_lane == 0) tn_bar_arrive(tn_bars + tn_before * 16u + 8);");
  cs_line(e, "tn_before = tn_s;");
  if (!alone) cs_tile_advance(e, t);
  cs_close(e);
  await_epilogue_operand(e, t);
  if (t->s.pingpong)
    cs_line(e, "asm volatile(\"bar.arrive %%0, %d;\" :: \"r\"(3 - tn_who) : \"memory\");",
            2 * WARPGROUP);
  cs_line(e, "asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");");
  cs_line(e, "#pragma unroll");
  cs_line(e,
          "for (int q = 0; q < %d; q++) asm volatile(\"\" : \"+%c\"(tn_sum[q / %d][q %% %d]) :: "
          "\"memory\");",
          blocks_of(t) * t->s.n / 2, sums_integers(t) ? 'r' : 'f', t->s.n / 2, t->s.n / 2);
  cs_line(e, "if (tn_before >= 0 && tn_lane == 0) tn_bar_arrive(tn_bars + tn_before * 16u + 8);");
}

// The first warpgroup adds what the others have, in their order.
static void join_sums(CEmit *e, const LoopTile *t) {
  int split = cs_tile_split_k(t), regs = t->s.n / 2;
  const char *meet =
      str_printf(e->arena, "asm volatile(\"bar.sync 1, %d;\" ::: \"memory\");", split * WARPGROUP);
  cs_line(e, "%s *const tn_part = tn_parts + threadIdx.x %% %d;", cs_tile_sum(t), WARPGROUP);
  cs_open(e, "if (tn_who > 0) {");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_part[((tn_who - 1) * %d + q) * %d] = tn_sum[0][q];",
          regs, regs, WARPGROUP);
  cs_close(e);
  cs_line(e, "%s", meet);
  cs_open(e, "if (tn_who == 0) {");
  if (cs_cuda(e)->epilogue_tma->stages) {
    cs_open(e, "%s{", t->s.cluster > 1 ? "if (tn_rank == 0) " : "");
    cs_epilogue_tma_wait(e, t, true);
    cs_close(e);
  }
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int g = 0; g < %d; g++)", split - 1);
  cs_line(e, "  #pragma unroll");
  cs_line(e, "  for (int q = 0; q < %d; q++) tn_sum[0][q] += tn_part[(g * %d + q) * %d];", regs,
          regs, WARPGROUP);
  cs_close(e);
  cs_line(e, "%s", meet);
  cs_line(e, "tn_done += tn_blocks + %d;", cs_cuda(e)->epilogue_tma->stages);
}

// The first block adds what the others of the cluster have, in their order; only its first
// warpgroup goes on.
static void join_cluster(CEmit *e, const LoopTile *t) {
  int regs = t->s.n / 2, before = (cs_tile_split_k(t) - 1) * TILE_ROWS * t->s.n;
  cs_line(e, "%s *const tn_peer_parts = tn_parts + %d + threadIdx.x %% %d;", cs_tile_sum(t), before,
          WARPGROUP);
  cs_open(e, "if (tn_who == 0 && tn_rank > 0) {");
  cs_line(e, "#pragma unroll");
  cs_line(
      e,
      "for (int q = 0; q < %d; q++) tn_dsmem_store(tn_peer_parts + ((tn_rank - 1) * %d + q) * %d, "
      "tn_sum[0][q]);",
      regs, regs, WARPGROUP);
  cs_close(e);
  cs_line(e, "asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");");
  cs_line(e, "if (tn_who > 0 || tn_rank > 0) return;");
  cs_line(e, "asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\");");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int g = 0; g < %d; g++)", t->s.cluster - 1);
  cs_line(e, "  #pragma unroll");
  cs_line(e, "  for (int q = 0; q < %d; q++) tn_sum[0][q] += tn_peer_parts[(g * %d + q) * %d];",
          regs, regs, WARPGROUP);
}

static void emit_consumers(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  int registers = registers_of(t, true);
  if (registers) cs_line(e, "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %d;\");", registers);
  cs_line(e, "const int tn_who = threadIdx.x / %d - 1, tn_lane = threadIdx.x %% %d;", WARPGROUP,
          WARP);
  cs_line(e, "const int tn_warp = threadIdx.x %% %d / %d;", WARPGROUP, WARP);
  cs_line(e, "%s tn_sum[%d][%d];", cs_tile_sum(t), blocks_of(t), t->s.n / 2);
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  cs_epilogue_tma_place_out(e, t);
  if (t->kind == MMA_F32) cs_tile_f32_place(e);
  bool split_k = cs_tile_split_k(t) > 1;
  if (counts_blocks(t))
    cs_line(e, "unsigned tn_done = %s;",
            split_k ? "0"
                    : str_printf(e->arena, "tn_who * (tn_blocks + %d)",
                                 cs_cuda(e)->epilogue_tma->stages));
  else
    cs_line(e, "int tn_s = 0;");
  if (!counts_blocks(t)) cs_line(e, "unsigned tn_parity = 0;");
  if (t->s.pingpong)
    cs_line(e,
            "if (tn_who == 1) asm volatile(\"bar.arrive 2, %d;\" ::: \"memory\"); /* the other one "
            "begins */",
            2 * WARPGROUP);
  open_items(e, items, t, t->s.pingpong);
  StrBuf sums, early, *out = e->out;
  strbuf_init(&sums, e->arena);
  strbuf_init(&early, e->arena);
  e->out = &sums;
  e->indent += split_k;
  bool twice = t->kind == MMA_F32 || t->kind == MMA_FP8;  // sums take registers for two
  cs_epilogue(e, t, twice ? NULL : &early);
  cs_epilogue_tma_release(e, t);
  e->indent -= split_k;
  e->out = out;
  strbuf_put(out, strbuf_str(&early));
  if (t->kind == MMA_F32)
    emit_products_f32(e, t);
  else if (t->kind == MMA_FP8)
    emit_products_fp8(e, t);
  else
    emit_products(e, t);
  if (split_k) {
    join_sums(e, t);
    if (t->s.cluster > 1) join_cluster(e, t);
    cs_open(e, "if (tn_who == 0) {");
  }
  if (t->kind == MMA_F32) cs_tile_f32_check(e, t);
  strbuf_put(out, strbuf_str(&sums));
  if (t->s.pingpong)
    cs_line(e, "tn_done += 2 * (tn_blocks + %d);", cs_cuda(e)->epilogue_tma->stages);
  if (split_k) cs_close(e);
  cs_close(e);
  cs_epilogue_tma_end(e);
}

// ---- the kernel ----

// The part of the depth that this block has.
static void put_share(CEmit *e, const LoopTile *t) {
  cs_line(e, "const int tn_rank = blockIdx.x %% %d;", t->s.cluster);
  cs_line(e, "const int tn_share = (tn_all + %d) / %d, tn_start = tn_rank * tn_share;",
          t->s.cluster - 1, t->s.cluster);
  cs_line(e, "const int tn_rest = tn_all - tn_start;");
  cs_line(e, "const int tn_blocks = tn_rest < 0 ? 0 : tn_rest < tn_share ? tn_rest : tn_share;");
}

static void put_blocks(CEmit *e, const LoopTile *t) {
  const LoopWindow *w = &t->a.window;
  int block = loop_tile_block(t);
  const char *all = t->s.cluster > 1 ? "tn_all" : "tn_blocks";
  if (t->a.form == TILE_WINDOW)
    cs_line(e, "const int %s = %lld;", all,
            (long long)(w->taps[0] * w->taps[1] * ((w->channels + block - 1) / block)));
  else
    cs_line(e, "const int %s = (int)((%s + %d) / %d);", all, cs_dim(e, t->depth), block - 1, block);
  if (t->s.cluster > 1) put_share(e, t);
}

static void begin_ring(CEmit *e, const LoopTile *t) {
  cs_open(e, "if (threadIdx.x == 0) {");
  if (!by_threads(t))
    cs_line(e, "asm volatile(\"prefetch.tensormap [%%0];\" :: \"l\"(&tn_map_a) : \"memory\");");
  cs_line(e, "asm volatile(\"prefetch.tensormap [%%0];\" :: \"l\"(&tn_map_b) : \"memory\");");
  cs_open(e, "for (int s = 0; s < %d; s++) {", t->s.stages);
  cs_line(e, "tn_bar_init(tn_bars + s * 16, %d);", by_threads(t) ? 1 + WARPGROUP / WARP : 1);
  cs_line(e, "tn_bar_init(tn_bars + s * 16 + 8, %d);", t->s.warpgroups / cs_tile_split_k(t) * 4);
  if (t->kind == MMA_F32)  // low parts are there
    cs_line(e, "tn_bar_init(tn_bars + %d + s * 8, %d);", t->s.stages * 16, by_threads(t) ? 4 : 3);
  cs_close(e);
  cs_line(e, "asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");");
  cs_close(e);
}

void cs_tile(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  if (cs_cuda(e)->cores.warps) {
    cs_mma(e, items, t);
    return;
  }
  if (t->is_attention) {
    cs_attention(e, items, t);
    return;
  }
  EpilogueTma epilogue_tma;
  cs_epilogue_tma_find(e, t, MOST_SHARED - own_bytes(t), &epilogue_tma);
  cs_cuda(e)->epilogue_tma = arena_dup(e->arena, &epilogue_tma, sizeof epilogue_tma);
  put_record(e, t);
  if (!by_threads(t)) e->buffer_used[t->a.buffer] = true;
  e->buffer_used[t->b.buffer] = true;
  cs_line(e, "extern __shared__ unsigned char tn_raw[];");
  cs_line(e, "const unsigned tn_ring = (tn_shared_at(tn_raw) + 1023u) & ~1023u;");
  cs_line(e, "const unsigned tn_bars = tn_ring + %du; /* a stage's full and empty */",
          cs_tile_ring_bytes(t) + cs_epilogue_tma_bytes(cs_cuda(e)->epilogue_tma, t));
  if (cs_tile_split_k(t) > 1)
    cs_line(e, "%s *const tn_parts = (%s *)(tn_raw + (tn_bars + %du - tn_shared_at(tn_raw)));",
            cs_tile_sum(t), cs_tile_sum(t), BARRIER_BYTES);
  put_blocks(e, t);
  begin_ring(e, t);
  cs_line(e, "__syncthreads();");
  if (t->s.cluster > 1) {
    cs_line(e, "asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: \"memory\");");
    cs_line(e, "asm volatile(\"barrier.cluster.wait.aligned;\" ::: \"memory\");");
  }
  cs_open(e, "if (threadIdx.x < %d) {", WARPGROUP);
  emit_producer(e, items, t);
  e->indent--;
  cs_open(e, "} else {");
  emit_consumers(e, items, t);
  cs_close(e);
}
