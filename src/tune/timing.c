// timing.c -- kernels from loop text to times (timing.h).
//
// Each text is parsed and proven by the verifier, as tenon-codegen does once more before it makes
// code.  Tensors of the frame are one set of values for all kernels; packed constants are made of
// them by each kernel's own spec.  Kernels write one set of results.  Runs alternate as in
// measure.c, and so do the rules by which kernels leave.
//
// Needs:      a frame that frame_get_task accepted.  Nothing else of it is believed.
// Guarantees: no kernel runs whose accesses were not proven, or whose arguments have other sizes
//             than it says.  All memory is given back.
#include "tune/timing.h"

#include "base/limits.h"
#include "base/platform.h"
#include "base/process.h"
#include "base/sha256.h"
#include "ir/ir.h"
#include "loop/loop.h"
#include "lower/contract/pack.h"
#include "runtime/float_mode.h"
#include "targets/llvm/codegen.h"
#include "tune/race.h"

#include <stdio.h>

enum { ALIGN = 64, PATTERN = 65521 };

typedef struct Timed {
  LoopKernel *loops;
  void **arg;
  void *map;  // its code
  int64_t map_bytes;
  KernelFn *run;
  int64_t items;
  void *scratch;
  FrameTime *time;
} Timed;

typedef struct Timing {
  const FrameTask *t;
  const Machine *m;
  Arena *a;
  Diag *d;
  Graph *g;     // holds the tensors as constants
  char **data;  // by tensor
  char *result[FRAME_ARGS];
  int64_t result_bytes[FRAME_ARGS];
  int64_t room;  // bytes of memory that may still be taken
  Timed *kernel;
  bool processor;
  char *cold;
} Timing;

static bool take_room(Timing *x, int64_t bytes) {
  if (bytes < 0 || bytes > x->room) return false;
  x->room -= bytes;
  return true;
}

static void *aligned(Timing *x, int64_t bytes) {
  char *p = arena_alloc(x->a, bytes + ALIGN);
  return p + (-(uintptr_t)p & (ALIGN - 1));
}

// ---- values ----

// Floats in [-1, 1], bytes of any value; wider integers are 0 or 1, as most are indices.
static void fill_pattern(DType t, int64_t n, uint64_t seed, char *to) {
  bool narrow = dtype_is_int(t) && elem_bytes(t) <= 1;
  int64_t bytes = 0;
  if (narrow) (void)dtype_bytes(t, n, &bytes);
  for (int64_t i = 0; i < bytes; i++) to[i] = (char)hash_u64(seed + (uint64_t)i);
  for (int64_t i = 0; !narrow && i < n; i++) {
    uint64_t h = hash_u64(seed + (uint64_t)i);
    if (dtype_is_float(t))
      put_f64(t, to, i, (double)((int64_t)(h % 2001) - 1000) / 1000);
    else
      put_i64(t, to, i, (int64_t)(h & 1));
  }
}

// A block of whole bytes, and then the same again.
static void fill_tensor(const FrameTensor *t, int64_t number, int64_t bytes, char *to) {
  int64_t block = elem_bytes(t->dtype) ? PATTERN : PATTERN + 7, block_bytes;
  (void)dtype_bytes(t->dtype, MIN(block, t->n), &block_bytes);
  fill_pattern(t->dtype, MIN(block, t->n), (uint64_t)number << 32, to);
  for (int64_t at = block_bytes; at < bytes; at += block_bytes)
    memcpy(to + at, to, (size_t)MIN(block_bytes, bytes - at));
}

static tenon_status make_tensors(Timing *x) {
  x->data = arena_array(x->a, char *, x->t->ntensors + 1);
  for (int64_t i = 0; i < x->t->ntensors; i++) {
    const FrameTensor *t = &x->t->tensor[i];
    int64_t bytes;
    if (!dtype_bytes(t->dtype, t->n, &bytes) || !take_room(x, bytes))
      return fail(x->d, TENON_ENOMEM, NOWHERE, "a task with more values than memory");
    x->data[i] = aligned(x, bytes + 1);
    if (!t->bytes.n)
      fill_tensor(t, i, bytes, x->data[i]);
    else
      memcpy(x->data[i], t->bytes.p, (size_t)bytes);
    for (int64_t k = 0; t->dtype == DT_BOOL && k < bytes; k++) x->data[i][k] &= 1;
  }
  return TENON_OK;
}

// ---- a kernel and its arguments ----

static bool refuse(Timed *k, const char *why) {
  k->time->status = TRIAL_FAILED;
  k->time->why = why;
  return false;
}

typedef struct Dims {
  int64_t *value;
  bool *known;
  int32_t n;
} Dims;

static bool bind_dims(Timing *x, Timed *k, const FrameKernel *f, Dims *out) {
  const LoopKernel *l = k->loops;
  if (f->ndims != l->ndims) return refuse(k, "it has another number of sizes");
  *out = (Dims){0};
  for (int32_t i = 0; i < l->ndims; i++) out->n = MAX(out->n, l->dim[i]->slot + 1);
  out->value = arena_array(x->a, int64_t, out->n + 1);
  out->known = arena_array(x->a, bool, out->n + 1);
  for (int32_t i = 0; i < l->ndims; i++) {
    if (f->dim[i] < l->dim[i]->lo || f->dim[i] > l->dim[i]->hi)
      return refuse(k, "a size outside its range");
    out->value[l->dim[i]->slot] = f->dim[i];
    out->known[l->dim[i]->slot] = true;
  }
  return true;
}

static bool put_result(Timing *x, Timed *k, int32_t index, int64_t bytes, void **out) {
  if (!x->result[index]) {
    if (!take_room(x, bytes)) return refuse(k, "more results than memory");
    x->result[index] = aligned(x, bytes + 1);
    x->result_bytes[index] = bytes;
  }
  *out = x->result[index];
  return x->result_bytes[index] == bytes || refuse(k, "a result of another size");
}

static tenon_status pack(Timing *x, const FrameArg *f, char *to) {
  const FrameTensor *t = &x->t->tensor[f->index];
  PackList list = {0};
  const Node *n = node_const(x->g, t->dtype, 1, &t->n, x->data[f->index], NULL);
  TRY(graph_status(x->g));
  TRY(pack_add(&list, x->g, n, &f->pack, to, x->a, x->d));
  pack_run(&list, NULL);
  return TENON_OK;
}

static bool packed_bytes(const FrameArg *f, int64_t width, int64_t *out) {
  *out = width;
  for (int i = 0; i < f->pack.nloops; i++)
    if (!ck_mul(*out, f->pack.extent[i], out)) return false;
  return true;
}

static bool put_arg(Timing *x, Timed *k, const LoopBuffer *b, const FrameArg *f, int64_t bytes,
                    void **out) {
  int64_t have;
  if (f->result != b->written) return refuse(k, "a result where it reads");
  if (f->result) return put_result(x, k, f->index, bytes, out);
  const FrameTensor *t = &x->t->tensor[f->index];
  if ((b->dtype == DT_BOOL) != (t->dtype == DT_BOOL)) return refuse(k, "a value of another kind");
  if (!f->packed) {
    *out = x->data[f->index];
    return (dtype_bytes(t->dtype, t->n, &have) && have == bytes) ||
           refuse(k, "a value of another size");
  }
  if (!packed_bytes(f, elem_bytes(t->dtype), &have) || have != bytes)
    return refuse(k, "a constant of another size");
  if (!take_room(x, bytes)) return refuse(k, "more constants than memory");
  *out = aligned(x, bytes + 1);
  return !pack(x, f, *out) || refuse(k, "a constant that cannot be packed");
}

static bool put_args(Timing *x, Timed *k, const FrameKernel *f) {
  const LoopKernel *l = k->loops;
  Dims dims;
  int64_t n, bytes;
  if (!bind_dims(x, k, f, &dims)) return false;
  if (f->nargs != l->nargs) return refuse(k, "it has another number of arguments");
  k->arg = arena_array(x->a, void *, l->nargs + 1);
  for (int32_t i = 0; i < l->nargs; i++)
    if (!ie_eval(l->buffer[i].size, dims.value, dims.known, dims.n, &n) || n < 0 ||
        !dtype_bytes(l->buffer[i].dtype, n, &bytes) ||
        !put_arg(x, k, &l->buffer[i], &f->arg[i], bytes, &k->arg[i]))
      return k->time->status == TRIAL_FAILED ? false : refuse(k, "an argument without a size");
  int64_t scratch = loop_scratch_bytes(l);
  if (!ie_eval(loop_items(l), dims.value, dims.known, dims.n, &k->items) || k->items < 0)
    return refuse(k, "its work items have no number");
  if (!take_room(x, scratch)) return refuse(k, "more scratch than memory");
  k->scratch = aligned(x, scratch + 1);
  return true;
}

static bool take_kernel(Timing *x, Timed *k, const FrameKernel *f) {
  Diag *quiet = diag_unread();
  IntPool *pool = arena_new(x->a, IntPool);
  intpool_init(pool, x->a);
  if (loop_parse(f->text, "kernel", x->a, pool, quiet, &k->loops))
    return refuse(k, "its text is no kernel");
  if (loop_verify(k->loops, quiet)) return refuse(k, "the verifier does not accept its loops");
  if (loop_threads(k->loops)) return refuse(k, "it is made for thread blocks");
  return put_args(x, k, f);
}

// ---- code ----

static tenon_status make_code(Timing *x, int threads) {
  int64_t n = 0, *of = arena_array(x->a, int64_t, x->t->nkernels + 1);
  Str *text = arena_array(x->a, Str, x->t->nkernels + 1);
  Code *code = arena_array(x->a, Code, x->t->nkernels + 1);
  CodeCall call = {.quick = x->t->quick, .no_cache = true, .go_on = true};
  Codegen *codegen;
  for (int64_t i = 0; i < x->t->nkernels; i++)
    if (x->kernel[i].time->status == TRIAL_OK) of[n] = i, text[n++] = x->t->kernel[i].text;
  if (!n) return TENON_OK;
  TRY(codegen_shared(threads, x->d, &codegen));
  tenon_status status =
      codegen_build_with(codegen, x->m, CODE_IMAGE, text, n, &call, x->a, code, x->d);
  codegen_release(codegen);
  TRY(status);
  for (int64_t i = 0; i < n; i++) {
    Timed *k = &x->kernel[of[i]];
    if (code[i].failed || code[i].n > (int64_t)LIMIT_KERNEL_CODE_KIB << 10) {
      refuse(k, code[i].failed ? "it has no code" : "it has too much code");
      continue;
    }
    k->time->code_bytes = code[i].n;
    k->map_bytes = code[i].n;
    k->map = code_map(code[i].bytes, code[i].n);
    if (!k->map) return fail(x->d, TENON_EIO, NOWHERE, "the system gives no memory for code");
    void *entry = (char *)k->map + code[i].entry;
    memcpy(&k->run, &entry, sizeof entry);
  }
  return TENON_OK;
}

// ---- runs ----

// As in measure.c: weights are cold, and what was made last is not.
static void prepare_caches(const Timing *x) {
  int64_t bytes;
  if (!x->cold) return;
  race_touch(x->cold, x->t->cold_bytes);
  for (int64_t i = 0; i < x->t->ntensors; i++)
    if (!x->t->tensor[i].weight && dtype_bytes(x->t->tensor[i].dtype, x->t->tensor[i].n, &bytes))
      race_touch(x->data[i], bytes);
}

static bool run_kernel(const Timing *x, Timed *k, const FrameKernel *f, int64_t *out_ns) {
  int64_t start = x->processor ? thread_time() : platform->now();
  uint64_t mode = float_mode_enter(true);
  int32_t failed = k->run(k->arg, f->dim, 0, k->items, k->scratch);
  float_mode_leave(mode);
  *out_ns = MAX((x->processor ? thread_time() : platform->now()) - start, 1);
  return !failed || refuse(k, "it ended by a check of its own");
}

static void put_hash(Timing *x, Timed *k) {
  char *text = arena_array(x->a, char, FRAME_HASH + 1);
  uint8_t hash[SHA256_BYTES];
  Sha256 s;
  sha256_init(&s);
  for (int i = 0; i < FRAME_ARGS; i++)
    if (x->result[i]) sha256_put(&s, x->result[i], x->result_bytes[i]);
  sha256_end(&s, hash);
  for (int i = 0; i < SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
  k->time->hash = text;
}

// Twice: the first run meets pages that were never touched.
static void run_first(Timing *x) {
  int64_t ns = 0;
  for (int64_t i = 0; i < x->t->nkernels; i++) {
    Timed *k = &x->kernel[i];
    if (k->time->status != TRIAL_OK) continue;
    for (int r = 0; r < FRAME_ARGS; r++)
      if (x->result[r]) memset(x->result[r], 0, (size_t)x->result_bytes[r]);
    if (!run_kernel(x, k, &x->t->kernel[i], &ns)) continue;
    put_hash(x, k);
    if (!i && x->t->rounds && run_kernel(x, k, &x->t->kernel[i], &ns))
      x->processor = ns > RACE_LONG_NS;
  }
}

static double least_of(const Timed *k) { return race_least(k->time->ns, k->time->n); }
static bool is_in(const Timed *k) { return k->time->status == TRIAL_OK; }

static void drop_slow(Timing *x, double limit) {
  double best = least_of(&x->kernel[0]);
  for (int64_t i = 1; i < x->t->nkernels; i++)
    if (is_in(&x->kernel[i])) best = MIN(best, least_of(&x->kernel[i]));
  for (int64_t i = 1; i < x->t->nkernels; i++)
    if (is_in(&x->kernel[i]) && least_of(&x->kernel[i]) > best * limit)
      x->kernel[i].time->status = TRIAL_SLOW;
}

static void race(Timing *x) {
  int64_t until = platform->now() + x->t->milliseconds * 1000000, ns = 0;
  for (int64_t r = 0; r < x->t->rounds && is_in(&x->kernel[0]); r++) {
    if (r >= RACE_LEAST_ROUNDS && platform->now() > until) break;
    for (int64_t i = 0; i < x->t->nkernels; i++) {
      FrameTime *t = x->kernel[i].time;
      if (!is_in(&x->kernel[i])) continue;
      prepare_caches(x);
      if (run_kernel(x, &x->kernel[i], &x->t->kernel[i], &ns)) t->ns[t->n++] = ns;
    }
    if (x->t->drop && race_limit(r + 1) > 0) drop_slow(x, race_limit(r + 1));
  }
}

// ---- all of it ----

static tenon_status time_all(Timing *x, int threads) {
  TRY(make_tensors(x));
  for (int64_t i = 0; i < x->t->nkernels; i++)
    (void)take_kernel(x, &x->kernel[i], &x->t->kernel[i]);
  TRY(make_code(x, threads));
  if (x->t->cold_bytes && take_room(x, x->t->cold_bytes))
    x->cold = arena_alloc(x->a, x->t->cold_bytes);
  run_first(x);
  race(x);
  return TENON_OK;
}

tenon_status timing_run(const FrameTask *t, const Machine *m, int threads, Arena *a, Diag *d,
                        FrameTimes *out) {
  Timing *x = arena_new(a, Timing);
  *x = (Timing){.t = t, .m = m, .a = a, .d = d, .room = machine_memory() / 2};
  *out = (FrameTimes){
      .seq = t->seq, .n = t->nkernels, .time = arena_array(a, FrameTime, t->nkernels + 1)};
  x->kernel = arena_array(a, Timed, t->nkernels + 1);
  for (int64_t i = 0; i < t->nkernels; i++) {
    out->time[i].why = out->time[i].hash = "";
    x->kernel[i].time = &out->time[i];
  }
  TRY(graph_create(d, &x->g));
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) trap.status = time_all(x, threads);
  trap_leave(&trap);
  for (int64_t i = 0; i < t->nkernels; i++)
    if (x->kernel[i].map) code_unmap(x->kernel[i].map, x->kernel[i].map_bytes);
  graph_free(x->g);
  return trap.status;
}
