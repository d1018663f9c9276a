// cuda.c -- the target `cuda`: kernels as CUDA C++ text, and the traits of NVIDIA GPUs.
//
// Each kernel is a text of its own with its prelude, so that it is compiled and cached alone
// (runtime/cuda/cuda.h).  The text depends on the GPU only through schedules.  It needs no CUDA
// installation: a chip's name stands in for a device.
//
// Needs:      a DeviceInfo with compute capability, shared memory and number of multiprocessors.
// Guarantees: sm_80 and later have mma.sync, sm_90 alone has wgmma.  A CudaRecord before each text
//             says how to launch it.  A kernel that cannot be written is declined with the reason.
#include "targets/cuda/cuda.h"

#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { MMA_FROM = 80, DEPENDENT_LAUNCH_FROM = 90, BLOCK_THREADS = 256, STATIC_SHARED = 48 << 10 };

typedef struct CudaText {
  Arena *arena;
  StrBuf pieces;
  LowerTarget target;
  bool early;
  Diag diag;  // why a kernel cannot be written
} CudaText;

bool cuda_available(const char **why) { return device_cuda.count(why) > 0; }

// Only sm_90 has wgmma; later ones have mma.sync, as sm_80 does.
static TargetTraits traits_of(const DeviceInfo *i) {
  TargetTraits t = {
      .gpu = true, .warp_size = i->subgroup, .sm_count = MAX(i->compute_units, 1), .mma = MMA_NONE};
  if (i->arch < MMA_FROM) return t;
  t.mma = i->arch >= 90 && i->arch < 100 ? MMA_WARPGROUP : MMA_WARP;
  t.mma_dtypes = MMA_DTYPE_F16 | MMA_DTYPE_BF16 | MMA_DTYPE_TF32 | MMA_DTYPE_INT8;
  if (t.mma == MMA_WARPGROUP) t.mma_dtypes |= MMA_DTYPE_F32 | MMA_DTYPE_FP8;
  return t;
}

void cuda_describe(const DeviceInfo *i, LowerTarget *out) {
  *out = (LowerTarget){.vector_bytes = 16,
                       .vector_registers = 16,
                       .l1 = 32 << 10,
                       .l2 = 1 << 20,
                       .fma = true,
                       .traits = traits_of(i),
                       .tile_bytes = i->shared_bytes,
                       .block_threads = BLOCK_THREADS,
                       .shared_bytes = MIN(i->shared_bytes, STATIC_SHARED),
                       .has_shuffle = true};
}

void *cuda_begin(const DeviceInfo *i, const TargetOptions *o, Arena *a) {
  CudaText *t = arena_new(a, CudaText);
  (void)o;
  cuda_describe(i, &t->target);
  t->arena = a;
  t->early = i->arch >= DEPENDENT_LAUNCH_FROM;
  strbuf_init(&t->pieces, a);
  return t;
}

static tenon_status write_piece(CudaText *t, const LoopKernel *k, StrBuf *out) {
  CStyle style;
  StrBuf kernel;
  CudaRecord record;
  bool differs;
  strbuf_init(&kernel, t->arena);
  cstyle_init(&style, &spelling_cuda, 0, t->arena, &t->diag);
  CudaTensorCores cores = {.record = &record,
                           .warps = t->target.traits.mma == MMA_WARP,
                           .tile_bytes = t->target.tile_bytes};
  if (t->target.traits.mma) style.extension = &cores;
  style.dependent_launch = t->early;
  TRY(cstyle_kernel(&style, k, "tn_kernel", false, &kernel, &differs));
  const LoopTile *tile = loop_tile_of(k);
  bool tiled = t->target.traits.mma && record.threads && tile;
  if (!tiled) record = (CudaRecord){.cluster = 1};
  record.early = t->early;
  cuda_record_write(&record, out);
  cstyle_prelude(&style, out);
  if (tiled) (cores.warps ? cs_mma_top : cs_tile_top)(tile, out);
  strbuf_putc(out, '\n');
  strbuf_put(out, strbuf_str(&kernel));
  return TENON_OK;
}

tenon_status cuda_takes(void *text, const LoopKernel *k, const char **why) {
  CudaText *t = text;
  StrBuf piece;
  strbuf_init(&piece, t->arena);
  diag_init(&t->diag);
  tenon_status s = write_piece(t, k, &piece);
  if (s) {
    const char *said = str_copy(t->arena, str_of(t->diag.text)), *reason = strstr(said, "': ");
    *why = reason ? reason + 3 : said;
    return s;
  }
  cuda_put_piece(&t->pieces, strbuf_str(&piece));
  return TENON_OK;
}

tenon_status cuda_finish_text(void *text, Diag *d, Str *code) {
  const CudaText *t = text;
  (void)d;
  *code = t->pieces.n ? strbuf_str(&t->pieces) : STR("");
  return TENON_OK;
}

Str cuda_kernel_text(Str code, int64_t n) {
  Str piece = {0};
  bool bad = false;
  for (int64_t i = 0; i <= n; i++)
    if (!cuda_next_piece(&code, &piece, &bad)) return (Str){0};
  return piece;
}
