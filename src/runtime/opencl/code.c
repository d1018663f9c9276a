// code.c -- source to kernels, by the driver's compiler; what it made is kept in the cache.
//
// Each kernel is a program of its own, with what stands before all of them: drivers go over the
// whole of a program for every kernel in it.  The key is all that the binary depends on: source,
// options, device, versions.  A binary that the driver does not take is built anew.  PoCL is left
// alone: it keeps what it builds itself, and compiles every kernel a second time for a binary.
#include "base/cache.h"
#include "runtime/opencl/impl.h"

#include <stdio.h>
#include <stdlib.h>

// TENON_OPENCL_OPTIONS adds to them, such as -cl-opt-disable where a kernel runs once.
static const char *options_of(const Device *dev, Arena *a) {
  const char *more = getenv("TENON_OPENCL_OPTIONS");
  return str_printf(a, "-cl-std=CL1.2%s%s%s",
                    dev->exact_divide ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
                    more && *more ? " " : "", more ? more : "");
}

// ---- building ----

// With the first of what the compiler says.
static tenon_status say_refused(const Device *dev, cl_program p, cl_int code, Arena *a, Diag *d) {
  enum { FIRST = 1500, LOG_MAX = 1 << 24 };
  const OpenclApi *cl = opencl_api(NULL);
  tenon_status s = opencl_fail(d, "clBuildProgram", code);
  size_t n = 0;
  if (cl->GetProgramBuildInfo(p, dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) || !n || n > LOG_MAX)
    return s;
  char *log = arena_alloc(a, (int64_t)n + 1);
  if (cl->GetProgramBuildInfo(p, dev->id, CL_PROGRAM_BUILD_LOG, n, log, NULL)) return s;
  text_clean(log, (int64_t)strlen(log));
  diag_note(d, "%.*s", FIRST, log);
  return s;
}

static tenon_status from_source(const Device *dev, const Str source[2], Arena *a, Diag *d,
                                cl_program *out) {
  const OpenclApi *cl = opencl_api(NULL);
  const char *text[2] = {source[0].p, source[1].p};
  size_t n[2] = {(size_t)source[0].n, (size_t)source[1].n};
  cl_int code = 0;
  *out = cl->CreateProgramWithSource(dev->context, 2, text, n, &code);
  if (!*out) return opencl_fail(d, "clCreateProgramWithSource", code);
  code = cl->BuildProgram(*out, 1, &dev->id, options_of(dev, a), NULL, NULL);
  if (!code) return TENON_OK;
  tenon_status s = say_refused(dev, *out, code, a, d);
  cl->ReleaseProgram(*out);
  *out = NULL;
  return s;
}

// NULL: the driver does not take it.
static cl_program from_binary(const Device *dev, Str binary, Arena *a) {
  const OpenclApi *cl = opencl_api(NULL);
  size_t n = (size_t)binary.n;
  const unsigned char *bytes = (const unsigned char *)binary.p;
  cl_int took = 0, code = 0;
  cl_program p = cl->CreateProgramWithBinary(dev->context, 1, &dev->id, &n, &bytes, &took, &code);
  if (!p) return NULL;
  if (!took && !cl->BuildProgram(p, 1, &dev->id, options_of(dev, a), NULL, NULL)) return p;
  cl->ReleaseProgram(p);
  return NULL;
}

// ---- the cache ----

static Str key_of(const Device *dev, const Str source[2], Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  const CacheMaker maker = {.maker = str_of(str_printf(a, "opencl %s", dev->version)),
                            .machine = str_of(dev->name)};
  cache_put_maker(&b, &maker);
  strbuf_printf(&b, "%s\n", options_of(dev, a));
  for (int i = 0; i < 2; i++) strbuf_put(&b, source[i]);
  return strbuf_str(&b);
}

static void store(const Device *dev, const char *folder, Str key, cl_program p, Arena *a) {
  const OpenclApi *cl = opencl_api(NULL);
  size_t n = 0;
  (void)dev;
  if (cl->GetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) || !n ||
      n > (size_t)cache_limit())
    return;
  unsigned char *bytes = arena_alloc(a, (int64_t)n);
  if (cl->GetProgramInfo(p, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL)) return;
  if (cache_store(folder, key, (Str){(const char *)bytes, (int64_t)n}, 0)) cache_tidy(folder);
}

static tenon_status make_program(const Device *dev, const Str source[2], bool no_cache, Arena *a,
                                 Diag *d, cl_program *out) {
  char folder[4096];
  bool cached =
      !no_cache && !dev->keeps_code && cache_limit() > 0 && cache_folder(folder, sizeof folder);
  Str key = cached ? key_of(dev, source, a) : (Str){0}, binary;
  File file;
  int64_t entry;
  if (cached && cache_find(folder, key, &file, &binary, &entry)) {
    *out = from_binary(dev, binary, a);
    file_close(&file);
    if (*out) return TENON_OK;
  }
  TRY(from_source(dev, source, a, d, out));
  if (cached) store(dev, folder, key, *out, a);
  return TENON_OK;
}

// ---- kernels ----

bool opencl_next_part(Str *rest, Str *part) {
  const int64_t mark = (int64_t)sizeof OPENCL_MARK - 1;
  for (int64_t i = 0; i + mark <= rest->n; i++) {
    if (rest->p[i] != '\n' || memcmp(rest->p + i, OPENCL_MARK, (size_t)mark)) continue;
    *part = (Str){rest->p, i + 1};
    *rest = (Str){rest->p + i + mark, rest->n - i - mark};
    return true;
  }
  *part = *rest;
  *rest = (Str){0};
  return false;
}

// The kernel keeps its program.
static tenon_status make_kernel(const Device *dev, const Str source[2], int32_t i, bool no_cache,
                                DeviceCode *c, Arena *a, Diag *d) {
  const OpenclApi *cl = opencl_api(NULL);
  cl_program p;
  char name[32];
  cl_int code = 0;
  TRY(make_program(dev, source, no_cache, a, d, &p));
  snprintf(name, sizeof name, OPENCL_KERNEL, i);
  c->kernel[i] = cl->CreateKernel(p, name, &code);
  cl->ReleaseProgram(p);
  return c->kernel[i] ? TENON_OK : opencl_fail(d, "clCreateKernel", code);
}

static tenon_status fill_code(const Device *dev, Str source, const ProgKernel *const *kernel,
                              bool no_cache, DeviceCode *c, Arena *a, Diag *d) {
  Str part[2], rest = source;
  if (!opencl_next_part(&rest, &part[0]))
    return fail(d, TENON_EFORMAT, NOWHERE, "no kernel in the source");
  for (int32_t i = 0; i < c->nkernels; i++) {
    ArenaMark m = arena_mark(a);
    if (!rest.n) return fail(d, TENON_EFORMAT, NOWHERE, "kernel %d is not in the source", i);
    (void)!opencl_next_part(&rest, &part[1]);
    tenon_status s = make_kernel(dev, part, i, no_cache, c, a, d);
    if (s) diag_note(d, "kernel %d: %s", i, kernel[i]->name);
    TRY(s);
    arena_reset(a, m);
  }
  return TENON_OK;
}

tenon_status opencl_code(Device *dev, Str source, const ProgKernel *const *kernel, int32_t nkernels,
                         bool no_cache, Diag *d, DeviceCode **out) {
  *out = NULL;
  DeviceCode *c = mem_alloc((int64_t)sizeof *c);
  if (!c) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  pthread_mutex_init(&c->lock, NULL);
  c->nkernels = nkernels;
  c->kernel = mem_alloc((int64_t)sizeof(cl_kernel) * MAX(nkernels, 1));
  tenon_status s = TENON_OK;
  if (!c->kernel) s = fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  Arena a;
  arena_init(&a);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0)
    t.status = s || !nkernels ? s : fill_code(dev, source, kernel, no_cache, c, &a, d);
  trap_leave(&t);
  arena_deinit(&a);
  if (t.status)
    opencl_code_free(dev, c);
  else
    *out = c;
  return t.status;
}

void opencl_code_free(Device *dev, DeviceCode *c) {
  const OpenclApi *cl = opencl_api(NULL);
  (void)dev;
  for (int32_t i = 0; c->kernel && i < c->nkernels; i++)
    if (c->kernel[i]) cl->ReleaseKernel(c->kernel[i]);
  mem_free(c->kernel, (int64_t)sizeof(cl_kernel) * MAX(c->nkernels, 1));
  pthread_mutex_destroy(&c->lock);
  mem_free(c, (int64_t)sizeof *c);
}
