// code.c -- from text to what the device runs: NVRTC, the cache on disk, modules.
//
// Pieces are compiled by all threads at once.  What was compiled is kept under the text, the
// architecture and the compiler's version; so another model with an equal kernel finds it.  On a
// chip that the compiler does not know, PTX for the newest one it knows is made, and the driver
// does the rest.
//
// No contraction: x * y + z rounds twice unless the loops say fma, as on every other target.
#include "runtime/cuda/impl.h"

#include "base/cache.h"
#include "base/platform.h"

#include <stdio.h>

enum { PATH_CAP = 4096, MAX_ARCHS = 64, LOG_SHOWN = 4000 };

// ---- the compiler ----

static tenon_status rtc_check(const CudaApi *api, NvrtcResult r, const char *call, Diag *d) {
  const char *text = r ? api->rtc_error(r) : NULL;
  if (!r) return TENON_OK;
  return fail(d, r == 1 ? TENON_ENOMEM : TENON_EDEVICE, NOWHERE, "%s: %s (%d)", call,
              text ? text : "error", r);
}

static tenon_status get_compiler(Diag *d, const CudaApi **out) {
  const char *why = NULL;
  *out = cuda_api_compiler(&why);
  return *out ? TENON_OK
              : fail(d, TENON_EUNSUPPORTED, NOWHERE, "CUDA code cannot be made: %s", why);
}

// GPUs from sm_90 on have instructions of their own, which only the name with an `a` allows.
tenon_status cuda_arch_name(int arch, Arena *a, Diag *d, const char **out) {
  const CudaApi *api;
  int n = 0, list[MAX_ARCHS], best = 0;
  TRY(get_compiler(d, &api));
  TRY(rtc_check(api, api->rtc_arch_count(&n), "nvrtcGetNumSupportedArchs", d));
  if (n < 1 || n > MAX_ARCHS)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the CUDA compiler knows %d architectures", n);
  TRY(rtc_check(api, api->rtc_archs(list), "nvrtcGetSupportedArchs", d));
  for (int i = 0; i < n; i++)
    if (list[i] <= arch) best = MAX(best, list[i]);
  if (!best)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "the CUDA compiler makes nothing for compute capability %d.%d", arch / 10,
                arch % 10);
  *out = str_printf(a, best == arch ? "sm_%d%s" : "compute_%d", best, arch >= 90 ? "a" : "");
  return TENON_OK;
}

static tenon_status get_log(const CudaApi *api, NvrtcProgram p, Arena *a, Diag *d, Str *out) {
  size_t n = 0;
  TRY(rtc_check(api, api->rtc_log_size(p, &n), "nvrtcGetProgramLogSize", d));
  char *text = arena_alloc(a, (int64_t)n + 1);
  TRY(rtc_check(api, api->rtc_log(p, text), "nvrtcGetProgramLog", d));
  *out = str_of(text);
  return TENON_OK;
}

static tenon_status get_code(const CudaApi *api, NvrtcProgram p, bool ptx, Arena *a, Diag *d,
                             Str *out) {
  size_t n = 0;
  TRY(rtc_check(api, ptx ? api->rtc_ptx_size(p, &n) : api->rtc_cubin_size(p, &n),
                ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize", d));
  if (!n || n > INT32_MAX)
    return fail(d, TENON_EDEVICE, NOWHERE, "the CUDA compiler gave %lld bytes", (long long)n);
  char *bytes = arena_alloc(a, (int64_t)n + 1);
  *out = (Str){bytes, (int64_t)n};
  return rtc_check(api, ptx ? api->rtc_ptx(p, bytes) : api->rtc_cubin(p, bytes),
                   ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN", d);
}

static tenon_status compile_made(const CudaApi *api, NvrtcProgram p, const char *arch, Arena *a,
                                 Diag *d, Str *out, Str *log) {
  const char *options[] = {str_printf(a, "--gpu-architecture=%s", arch), "--std=c++17",
                           "--fmad=false", "-default-device", "--ptxas-options=-v"};
  Str said = {0};
  NvrtcResult r = api->rtc_compile(p, (int)ARRAY_LEN(options), options);
  tenon_status s = r || log ? get_log(api, p, a, d, &said) : TENON_OK;
  if (log) *log = said;
  if (r) {
    rtc_check(api, r, "nvrtcCompileProgram", d);
    diag_note(d, "%.*s", (int)MIN(said.n, LOG_SHOWN), said.p ? said.p : "");
    return r == 1 ? TENON_ENOMEM : TENON_EDEVICE;
  }
  TRY(s);
  return get_code(api, p, str_starts(str_of(arch), "compute_"), a, d, out);
}

tenon_status cuda_compile(Str text, const char *arch, Arena *a, Diag *d, Str *out, Str *log) {
  const CudaApi *api;
  NvrtcProgram p = NULL;
  const char *copy = str_copy(a, text);
  TRY(get_compiler(d, &api));
  TRY(rtc_check(api, api->rtc_create(&p, copy, "kernel.cu", 0, NULL, NULL), "nvrtcCreateProgram",
                d));
  // Nothing between may leave this frame by a trap: the compiler's memory is not in an arena.
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) trap.status = compile_made(api, p, arch, a, d, out, log);
  trap_leave(&trap);
  api->rtc_destroy(&p);
  return trap.status;
}

// ---- all pieces ----

typedef struct Piece {
  Str text, image;
  const char *name;
  File file;  // where the image was found
  bool found;
  tenon_status status;
  Diag *diag;
  Arena arena;
} Piece;

typedef struct Build {
  Piece *piece;
  const char *arch, *folder;  // folder NULL: no cache
  bool no_cache;
  int major, minor;
} Build;

static Str key_of(const Build *b, Str text, Arena *a) {
  StrBuf k;
  strbuf_init(&k, a);
  const CacheMaker maker = {.maker = str_of(str_printf(a, "nvrtc %d.%d", b->major, b->minor)),
                            .machine = str_of(b->arch)};
  cache_put_maker(&k, &maker);
  strbuf_put(&k, text);
  return strbuf_str(&k);
}

static bool is_binary(Str piece) {
  return piece.n > 4 && !memcmp(piece.p,
                                "\x7f"
                                "ELF",
                                4);
}

static void build_piece(Build *b, Piece *p) {
  int64_t entry;
  if (is_binary(p->text)) {
    p->image = p->text;
    return;
  }
  Str key = key_of(b, p->text, &p->arena);
  if (b->folder && cache_find(b->folder, key, &p->file, &p->image, &entry)) {
    p->found = true;
    return;
  }
  p->status = cuda_compile(p->text, b->arch, &p->arena, p->diag, &p->image, NULL);
  if (!p->status && b->folder && cache_store(b->folder, key, p->image, 0)) cache_tidy(b->folder);
}

static void build_trapped_piece(Build *b, Piece *p) {
  Trap trap;
  trap_enter(&trap, p->diag);
  if (setjmp(trap.env) == 0) build_piece(b, p);
  trap_leave(&trap);
  if (trap.status) p->status = trap.status;
}

static void build_range(void *ctx, int64_t begin, int64_t end) {
  Build *b = ctx;
  for (int64_t i = begin; i < end; i++) build_trapped_piece(b, &b->piece[i]);
}

static tenon_status split(Str bytes, const ProgKernel *const *kernel, int32_t n, Build *b,
                          Diag *d) {
  bool bad;
  for (int32_t i = 0; i < n; i++) {
    if (!cuda_next_piece(&bytes, &b->piece[i].text, &bad))
      return fail(d, TENON_EFORMAT, NOWHERE, "the code has no piece for kernel '%s'",
                  kernel[i]->name);
    b->piece[i].name = kernel[i]->name;
  }
  return TENON_OK;
}

static tenon_status compile_all(Build *b, int32_t n, Diag *d) {
  const CudaApi *api;
  bool text = false;
  for (int32_t i = 0; i < n; i++) text |= !is_binary(b->piece[i].text);
  if (text) {
    TRY(get_compiler(d, &api));
    TRY(rtc_check(api, api->rtc_version(&b->major, &b->minor), "nvrtcVersion", d));
  }
  Pool *pool = n > 1 ? pool_create(0) : NULL;
  parallel_for(pool, n, 1, build_range, b);
  pool_release(pool);
  for (int32_t i = 0; i < n; i++)
    if (b->piece[i].status)
      return fail(d, b->piece[i].status, NOWHERE, "kernel '%s': %s", b->piece[i].name,
                  b->piece[i].diag->text);
  return TENON_OK;
}

static tenon_status load(Device *dev, Piece *p, CudaKernel *k, Diag *d) {
  const CudaApi *api = dev->api;
  // PTX is text, which must end; a file's bytes may not.
  const char *image = is_binary(p->image) ? p->image.p : str_copy(&p->arena, p->image);
  if (!is_binary(p->text) && !cuda_record_read(p->text, &k->record))
    return fail(d, TENON_EFORMAT, NOWHERE, "kernel '%s': a line of its head is wrong", p->name);
  TRY(cuda_check(dev, api->module_load(&k->module, image), "cuModuleLoadData", p->name, d));
  TRY(cuda_check(dev, api->module_function(&k->function, k->module, "tn_kernel"),
                 "cuModuleGetFunction", p->name, d));
  if (!k->record.shared_bytes) return TENON_OK;
  return cuda_check(dev,
                    api->function_set(k->function, CUDA_FUNC_MAX_SHARED, k->record.shared_bytes),
                    "cuFuncSetAttribute", p->name, d);
}

static tenon_status build_and_load(Device *dev, Build *b, Str bytes,
                                   const ProgKernel *const *kernel, DeviceCode *c, Arena *a,
                                   Diag *d) {
  char *folder = arena_alloc(a, PATH_CAP);
  b->folder = !b->no_cache && cache_folder(folder, PATH_CAP) ? folder : NULL;
  TRY(split(bytes, kernel, c->n, b, d));
  TRY(cuda_arch_name(dev->info.arch, a, d, &b->arch));
  if (dev->older && str_starts(str_of(b->arch), "sm_"))
    b->arch = str_printf(a, "compute_%s", b->arch + 3);
  TRY(compile_all(b, c->n, d));
  TRY(cuda_enter(dev, d));
  tenon_status s = TENON_OK;
  for (int32_t i = 0; i < c->n && !s; i++) s = load(dev, &b->piece[i], &c->kernel[i], d);
  return cuda_leave(dev, s, d);
}

// The arenas of pieces are freed however it ends.
static tenon_status build_trapped(Device *dev, Str bytes, const ProgKernel *const *kernel,
                                  bool no_cache, DeviceCode *c, Diag *d) {
  Arena a;
  Build b = {.no_cache = no_cache};
  Trap trap;
  volatile int32_t made = 0;
  arena_init(&a);
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) {
    b.piece = arena_array(&a, Piece, MAX(c->n, 1));
    for (int32_t i = 0; i < c->n; i++) {
      b.piece[i].diag = arena_new(&a, Diag);
      diag_init(b.piece[i].diag);
      arena_init(&b.piece[i].arena);
      made = i + 1;
    }
    trap.status = build_and_load(dev, &b, bytes, kernel, c, &a, d);
  }
  trap_leave(&trap);
  for (int32_t i = 0; i < made; i++) {
    if (b.piece[i].found) file_close(&b.piece[i].file);
    arena_deinit(&b.piece[i].arena);
  }
  arena_deinit(&a);
  return trap.status;
}

tenon_status cuda_code(Device *dev, Str bytes, const ProgKernel *const *kernel, int32_t nkernels,
                       bool no_cache, Diag *d, DeviceCode **out) {
  DeviceCode *c = mem_alloc(sizeof *c);
  *out = NULL;
  if (!c) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  *c = (DeviceCode){.n = nkernels,
                    .kernel = mem_alloc(MAX(nkernels, 1) * (int64_t)sizeof(CudaKernel))};
  tenon_status s = c->kernel ? build_trapped(dev, bytes, kernel, no_cache, c, d)
                             : fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  if (s)
    cuda_code_free(dev, c);
  else
    *out = c;
  return s;
}

void cuda_code_free(Device *dev, DeviceCode *c) {
  CudaContext before;
  if (!c) return;
  bool entered = !dev->api->ctx_push(dev->context);
  for (int32_t i = 0; c->kernel && i < c->n; i++)
    if (c->kernel[i].module) dev->api->module_unload(c->kernel[i].module);
  if (entered) dev->api->ctx_pop(&before);
  if (c->kernel) mem_free(c->kernel, MAX(c->n, 1) * (int64_t)sizeof(CudaKernel));
  mem_free(c, sizeof *c);
}
