// spelling.c -- how CUDA spells the C family, and its extension of the family's emitter.
//
// The emitter (targets/cstyle) asks the extension for kernels with a tile statement, loops that
// prefetch, loads and stores of a vectorized epilogue, parameters and launch bounds.
//
// Needs:      NVRTC without headers, with --fmad=false; CudaTensorCores as CStyle.extension for
//             tile statements.
// Guarantees: without tensor cores a tile statement is emitted as its plain loops.  The text
//             compiles for every chip that its schedule allows; __CUDA_ARCH__ selects instructions.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { LONG_VALUE = 2 };  // operations of one that takes more registers than three blocks leave
enum { REGISTERS = 1 << 16, OTHER_REGISTERS = 16 };  // of a multiprocessor; of a thread's indices

// ---- the extension ----

static void begin(CEmit *e) {
  const CudaTensorCores *cores = e->c->extension;
  CudaEmit *u = arena_new(e->arena, CudaEmit);
  if (cores) u->cores = *cores;
  e->extension = u;
  if (!cores) return;
  *u->cores.record = (CudaRecord){.cluster = 1};
  e->tile = loop_tile_of(e->k);
}

// Attention of one stage, which has all keys at once.
static bool is_short(const LoopTile *t) { return t->is_attention && t->s.stages == 1; }

// Whether TMA fetches a GEMM's operands.
static bool has_maps(const CEmit *e) {
  return e->tile && !e->tile->is_attention && !cs_cuda(e)->cores.warps;
}

static void parameters(CEmit *e, StrBuf *out) {
  static const char *const operand[] = {"q", "k", "v"};
  const LoopTile *t = e->tile;
  const EpilogueTma *a = cs_cuda(e)->epilogue_tma;
  if (!t) return;
  if (has_maps(e)) {
    if (t->a.form != TILE_VALUE) strbuf_puts(out, ", const __grid_constant__ tn_map tn_map_a");
    strbuf_puts(out, ", const __grid_constant__ tn_map tn_map_b");
    if (a->load) strbuf_puts(out, ", const __grid_constant__ tn_map tn_map_c");
    if (a->store) strbuf_puts(out, ", const __grid_constant__ tn_map tn_map_d");
  }
  for (int i = 0; i < 3 && t->is_attention && (is_short(t) || t->s.warpgroups > 1); i++)
    strbuf_printf(out, ", const __grid_constant__ tn_map tn_map_%s", operand[i]);
}

// Thread blocks of a tile on a multiprocessor.  Several compute an operand's values, so that one
// waits while another computes.
static int resident_blocks(const CEmit *e) {
  const LoopTile *t = e->tile;
  if (cs_cuda(e)->cores.warps) return cs_mma_resident_blocks(t);
  if (is_short(t)) return cs_attention_resident_blocks(t);
  if (!has_maps(e) || t->a.form != TILE_VALUE || t->s.warpgroups != 1) return 1;
  bool many = t->kind == MMA_F32 || t->a.value->size > LONG_VALUE;
  return (t->s.n <= 64 ? 3 : 2) - many;
}

// Of a kernel that prefetches: as many blocks on a multiprocessor as there are registers for what a
// thread sums and what is in flight.
static int prefetching_blocks(const CEmit *e) {
  int64_t registers = OTHER_REGISTERS + 2 * 4 * (int64_t)cs_cuda(e)->prefetched_runs;
  for (int32_t i = e->k->nargs; i < e->k->nbuffers; i++)
    if (e->k->buffer[i].space == LOOP_REGISTER)
      registers += e->k->buffer[i].size->value / e->threads;
  return (int)MAX(REGISTERS / (e->threads * registers), 1);
}

static const char *launch_bounds(CEmit *e) {
  enum { THREADS = 256 };  // with so many, no kernel has too many registers to be launched
  const CudaEmit *u = cs_cuda(e);
  if (!e->tile && !u->prefetched_runs && e->threads <= THREADS) return "";
  return str_printf(e->arena, "__launch_bounds__(%d, %d) ",
                    e->tile ? u->cores.record->threads : (int)e->threads,
                    e->tile              ? resident_blocks(e)
                    : u->prefetched_runs ? prefetching_blocks(e)
                                         : 1);
}

// Functions in an epilogue of 16 bits that are a third of the work (emit_wgmma.c has them): the
// sigmoid, erf(u) + 1 and tanh(u) + 1 = 2 sigmoid(2 u), as in gelu and swish.
static bool emit_op(CEmit *e, const LoopExpr *x, CVal *out) {
  const LoopExpr *a = x->src[0], *b = x->src[1];
  if (!e->tile || dtype_bits(e->tile->a.dtype) != 16 || x->dtype != DT_F32) return false;
  bool one = x->op == LOOP_add && a->kind == LX_OP && b->kind == LX_CONST && b->f == 1;
  const char *form = x->op == LOOP_sigmoid       ? "tn_sigmoid_half(%s)"
                     : one && a->op == LOOP_erf  ? "tn_erf_one(%s)"
                     : one && a->op == LOOP_tanh ? "(2.0f * tn_sigmoid_half(2.0f * %s))"
                                                 : NULL;
  if (!form) return false;
  StrBuf text;
  CVal u = cs_expr(e, x->op == LOOP_sigmoid ? a : a->src[0]);
  const char *at = strstr(form, "%s");
  strbuf_init(&text, e->arena);
  strbuf_put(&text, (Str){form, at - form});
  strbuf_printf(&text, "(%s)%s", u.text, at + 2);
  *out = (CVal){.text = strbuf_text(&text), .dtype = DT_F32};
  return true;
}

static const CExtension extension = {.begin = begin,
                                     .parameters = parameters,
                                     .launch_bounds = launch_bounds,
                                     .tile = cs_tile,
                                     .prefetch_loop = cs_prefetch_loop,
                                     .prefetched = cs_prefetched,
                                     .load = cs_epilogue_load,
                                     .store = cs_epilogue_store,
                                     .op = emit_op};

// ---- the language, as NVRTC takes it without headers ----

static const char *const types_cuda[] = {[DT_F32] = "float",
                                         [DT_F64] = "double",
                                         [DT_I8] = "signed char",
                                         [DT_I16] = "short",
                                         [DT_I32] = "int",
                                         [DT_I64] = "long long",
                                         [DT_U8] = "unsigned char",
                                         [DT_U16] = "unsigned short",
                                         [DT_U32] = "unsigned",
                                         [DT_U64] = "unsigned long long",
                                         [DT_BOOL] = "int",
                                         [DT_F16] = "unsigned short",
                                         [DT_BF16] = "unsigned short",
                                         [DT_F8E4M3] = "unsigned char",
                                         [DT_F8E4M3Z] = "unsigned char",
                                         [DT_F8E5M2] = "unsigned char",
                                         [DT_F8E5M2Z] = "unsigned char",
                                         [DT_F8E8M0] = "unsigned char",
                                         [DT_I2] = NULL};

static const char top_cuda[] =
    "#define int8_t signed char\n#define int16_t short\n#define int32_t int\n"
    "#define int64_t long long\n#define uint8_t unsigned char\n#define uint16_t unsigned short\n"
    "#define uint32_t unsigned\n#define uint64_t unsigned long long\n"
    "#define INT64_C(x) x##LL\n#define UINT64_C(x) x##ULL\n"
    "#define INT32_MIN (-2147483647 - 1)\n#define INT64_MAX 9223372036854775807LL\n"
    "#define INT64_MIN (-INT64_MAX - 1)\n#define UINT64_MAX 18446744073709551615ULL\n"
    "#undef NAN\n#undef INFINITY\n"
    "#define NAN __int_as_float(0x7fc00000)\n#define INFINITY __int_as_float(0x7f800000)\n"
    "#define TN_FN static __device__ __forceinline__\n#define TN_ALIAS\n#define TN_FMA 1\n"
    "template <class T, int n> struct alignas(sizeof(T) * n > 16 ? 16 : sizeof(T) * n) tn_run "
    "{ T v[n]; };\n"
    "template <int n> TN_FN float tn_bf16_in(const tn_run<unsigned short, n> &r, int i) {\n"
    "  unsigned w;\n"
    "  memcpy(&w, &r.v[i & ~1], sizeof w);\n"
    "  return __uint_as_float(i & 1 ? w & 0xffff0000u : w << 16);\n}\n"
    "TN_FN void tn_prefetch(const void *p) { asm volatile(\"prefetch.global.L2 [%0];\" :: "
    "\"l\"(p)); }\n";

// Written so that the compiler keeps the order of such reads, and that they push nothing else out
// of the nearest cache.
static const char once_cuda[] =
    "TN_FN uint4 tn_once(const void *p) {\n"
    "  uint4 r;\n"
    "  asm volatile(\"ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];\"\n"
    "               : \"=r\"(r.x), \"=r\"(r.y), \"=r\"(r.z), \"=r\"(r.w) : \"l\"(p) : "
    "\"memory\");\n"
    "  return r;\n}\n";

// The instruction takes 0 for larger than -0, as we do; before 8.0 it gave the operand that is not
// NaN.
#define CUDA_PICK(name, otherwise)                                                                 \
  "#if __CUDA_ARCH__ >= 800\n  float r;\n  asm(\"" name                                            \
  ".NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y));\n  return r;\n#else\n" otherwise      \
  "#endif\n"
#define CUDA_THREAD "((long long)blockIdx.x * blockDim.x + threadIdx.x)"
const Spelling spelling_cuda = {
    .name = "cuda",
    .function = "extern \"C\" __global__ void",
    .index = "long long",
    .small_index = "int",
    .local = "",
    .items = "for (# @ = " CUDA_THREAD "; @ < items; @ += (long long)gridDim.x * blockDim.x) {",
    .unroll = "#pragma unroll",
    .prefetch = "tn_prefetch",
    .top = top_cuda,
    .math_f32 = "f",
    .type = types_cuda,
    .lanes = 1,
    .is_device = true,
    .global = "",
    .scratch = "scratch += scratch_each * " CUDA_THREAD ";",
    .fault = "atomicCAS(fault, 0, @);",
    .from_f16 = "  float r;\n  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n  return r;\n",
    .to_bf16 =
        "#if __CUDA_ARCH__ >= 800\n  unsigned short r;\n  asm(\"cvt.rn.bf16.f32 %0, %1;\" : "
        "\"=h\"(r) : \"f\"(x));\n  return r;\n#else\n  const unsigned b = __float_as_uint(x);\n"
        "  return x != x ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16;\n#endif\n",
    .to_f16 = "  unsigned short r;\n  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
              "  return r;\n",
    .min_f32 = CUDA_PICK("min", "  return x < y || x != x || (x == y && signbit(x)) ? x : y;\n"),
    .max_f32 = CUDA_PICK("max", "  return x > y || x != x || (x == y && !signbit(x)) ? x : y;\n"),
    .block_items = "for (# @ = blockIdx.x; @ < items; @ += gridDim.x) {",
    .block_scratch = "scratch += scratch_each * blockIdx.x;",
    .thread = "threadIdx.x",
    .packs = true,
    .once = once_cuda,
    .shared = "__shared__ __align__(16) ",
    .barrier = {"__syncthreads();", "__syncthreads();", "__syncthreads();"},
    .shuffle = "__shfl_xor_sync(~0u, @)",
    .warp_size = 32,
    .launch_dependents = CUDA_LAUNCH_DEPENDENTS,
    .wait_previous = CUDA_WAIT_PREVIOUS,
    .extension = &extension};
