// target_test.c -- every op's samples, compiled.
//
// Each sample is optimised and compiled for each target that is there, and run on one, two and
// three threads: the same bits on each, and within rounding what the interpreter gives for the
// sample as it stands.  Once more, every kernel is called with each argument in a mapping of its
// own, right before a page that cannot be touched and right behind one; and as code that checks the
// index of each access.
#include "compile/compile.h"
#include "ir/interpret.h"
#include "sample.h"
#include "targets/llvm/codegen.h"
#include "runtime/session.h"
#include "test.h"

#include <stdlib.h>
#include <sys/mman.h>

typedef struct Trial {
  const Sample *s;
  Arena arena;
  Graph *plain, *g;  // as it stands, and optimised
  Interp *interp;
  Program *program;
  Session *session;
  Run run;
  Value *in[64], *want[64], *first[64], *got[64];
  Diag d;
} Trial;

// ---- kernels among pages that cannot be touched ----
enum { MAX_ARGS = 64 };
typedef struct Fenced {
  char *map, *at;
  int64_t room, bytes,
      slack;  // room: of pages between the fences; slack: bytes behind the end that must not change
  int fill;   // of the slack
} Fenced;
static Fenced fenced[2][MAX_ARGS + 1];  // right behind a fence and right before one; kept, and
                                        // grown where one is too small

// `align`: of the first byte; an argument's elements may lie at any multiple of their own size.
static void fence_open(Fenced *f, int64_t bytes, int64_t align, bool at_end) {
  int64_t used = (bytes + align - 1) / align * align,
          pages = (MAX(used, 1) + PAGE - 1) / PAGE * PAGE;
  if (f->room < pages) {
    if (f->map) munmap(f->map, (size_t)f->room + 2 * PAGE);
    f->room = pages;
    f->map = mmap(NULL, (size_t)pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->map == MAP_FAILED || mprotect(f->map + PAGE, (size_t)pages, PROT_READ | PROT_WRITE))
      abort();
  }
  f->bytes = bytes;
  f->fill = at_end ? 0xff : 0;
  f->at = f->map + PAGE + (at_end ? f->room - used : 0);
  f->slack = at_end ? used - bytes : MIN(f->room - bytes, PAGE);
  memset(f->at + bytes, f->fill, (size_t)f->slack);
}

static void fences_close(void) {
  for (int side = 0; side < 2; side++)
    for (int i = 0; i <= MAX_ARGS; i++)
      if (fenced[side][i].map) munmap(fenced[side][i].map, (size_t)fenced[side][i].room + 2 * PAGE);
  memset(fenced, 0, sizeof fenced);
}

static bool slack_kept(const Fenced *f) {
  for (int64_t i = 0; i < f->slack; i++)
    if ((uint8_t)f->at[f->bytes + i] != f->fill) return false;
  return true;
}

// What a kernel reads or writes outside an argument is a fault, or a change of the slack, or a
// result that depends on it.
static int32_t call_fenced(const Program *p, int32_t kernel, void *const *args, const int64_t *size,
                           const int64_t *dims, int64_t begin, int64_t end) {
  const ProgKernel *k = &p->kernel[kernel];
  const char *entry = p->code + k->entry;
  KernelFn *fn;
  int32_t status[2];
  memcpy(&fn, &entry, sizeof fn);
  if (k->nargs > MAX_ARGS) return KERNEL_NO_MEMORY;
  for (int side = 0; side < 2; side++) {
    void *at[MAX_ARGS];
    Fenced *scratch = &fenced[side][MAX_ARGS];
    fence_open(scratch, k->scratch_bytes, 64, side);
    for (int i = 0; i < k->nargs; i++) {
      fence_open(&fenced[side][i], size[i], 1, side);
      at[i] = fenced[side][i].at;
      if (size[i]) memcpy(at[i], args[i], (size_t)size[i]);
    }
    status[side] = fn(at, dims, begin, end, scratch->at);
    EXPECT(slack_kept(scratch));
  }
  EXPECT_INT_EQ(status[0], status[1]);
  for (int i = 0; i < k->nargs; i++) {
    const Fenced *a = &fenced[0][i], *b = &fenced[1][i];
    if (!slack_kept(a) || !slack_kept(b) || (size[i] && memcmp(a->at, b->at, (size_t)size[i])))
      FAIL("kernel '%s' reaches outside its arguments (%d)", k->name, i);
    // An argument may be in another's place: only what was written goes back.
    if (size[i] && memcmp(a->at, args[i], (size_t)size[i])) memcpy(args[i], a->at, (size_t)size[i]);
  }
  return status[0];
}

static tenon_status parse(Trial *t, Graph **out) {
  return graph_parse(str_of(sample_graph(&t->arena, t->s)), NULL, &t->d, out);
}

static tenon_status reference(Trial *t) {
  TRY(parse(t, &t->plain));
  sample_seed();
  for (int64_t i = 0; i < t->plain->main->nparams; i++)
    TRY(sample_value(&t->run, type_of(t->plain->main->param[i]), &t->in[i]));
  TRY(interp_create(t->plain, NULL, &t->d, &t->interp));
  return interp_run(t->interp, &t->run, t->in, t->want);
}

static tenon_status compile(Trial *t, const Target *target, int level, bool checked) {
  CompileOptions o;
  CompileReport r = {0};
  TRY(parse(t, &t->g));
  compile_defaults(&o);
  o.target = target;
  o.level = level;
  o.checked = checked;
  tenon_status s = compile_graph(t->g, &o, COMPILE_BUILD, &t->arena, &t->d, &r);
  t->program = r.program;
  return s;
}

static tenon_status run_on(Trial *t, const char *what, int threads) {
  int64_t n = t->plain->main->nresults;
  Value **out = threads == 1 ? t->first : t->got;
  TRY(session_create(t->program, &(SessionOptions){.threads = threads}, &t->d, &t->session));
  TRY(session_run(t->session, &t->run, t->in, NULL, out));
  for (int64_t i = 0; i < n; i++) {
    if (!sample_close(out[i], t->want[i], false))
      FAIL("%s%s: result %lld is another %s", t->s->op->name, t->s->text, (long long)i, what);
    if (threads > 1 && !sample_close(out[i], t->first[i], true))
      FAIL("%s%s: result %lld differs on %d threads %s", t->s->op->name, t->s->text, (long long)i,
           threads, what);
  }
  return TENON_OK;
}

typedef enum {
  AS_IT_IS,
  FENCED,   // on one thread: calls copy whole arguments back
  CHECKED,  // code that checks each access
} Care;
static const char *const care_text[] = {"", " among fences", " with checks"};
typedef struct Plan {
  const Target *target;
  int level;
  Care care;
} Plan;

static tenon_status try_all(Trial *t, const Plan *plan) {
  char what[64];
  snprintf(what, sizeof what, "on %s at -O%d%s", plan->target->name, plan->level,
           care_text[plan->care]);
  TRY(reference(t));
  TRY(compile(t, plan->target, plan->level, plan->care == CHECKED));
  if (plan->care == FENCED) t->program->invoke = call_fenced;
  for (int threads = 1; threads <= (plan->care == FENCED ? 1 : 3); threads++) {
    TRY(run_on(t, what, threads));
    session_free(t->session);
    t->session = NULL;
  }
  return TENON_OK;
}

static void check_sample(const Sample *s, const Plan *plan) {
  static Trial t;
  memset(&t, 0, sizeof t);
  t.s = s;
  diag_init(&t.d);
  arena_init(&t.arena);
  run_init(&t.run, NULL, &t.d);
  t.run.seed = 7;
  Trap trap;
  trap_enter(&trap, &t.d);
  if (setjmp(trap.env) == 0) trap.status = try_all(&t, plan);
  trap_leave(&trap);
  if (trap.status)
    FAIL("%s%s on %s at -O%d: %s", s->op->name, s->text, plan->target->name, plan->level, t.d.text);
  run_deinit(&t.run);
  session_free(t.session);
  program_release(t.program);
  interp_free(t.interp);
  graph_free(t.plain);
  graph_free(t.g);
  arena_deinit(&t.arena);
}

// Every `step`-th sample.
static void check_some(const char *name, int level, Care care, int64_t step) {
  const Target *target = target_find(name);
  const char *why;
  if (!target_there(target, &why)) SKIP(why);
  int64_t count = 0;
  static Diag d;
  diag_init(&d);
  Codegen *kept = NULL;  // so that its processes stay from sample to sample
  if (!strcmp(name, "cpu")) EXPECT_STATUS(codegen_shared(2, &d, &kept), TENON_OK);
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++, count++)
      if (count % step == 0 && test_takes())
        check_sample(&(Sample){op_table[i], *s}, &(Plan){target, level, care});
  codegen_release(kept);
  fences_close();
  EXPECT(count > 500);
}

static void check_all(const char *name, int level, Care care) { check_some(name, level, care, 1); }

TEST(samples_on_host_unoptimised) { check_all("host", 0, AS_IT_IS); }
TEST(samples_on_host) { check_all("host", 3, AS_IT_IS); }
TEST(samples_on_ref) { check_all("ref", 2, AS_IT_IS); }
TEST(samples_on_ref_optimised) { check_all("ref", 3, AS_IT_IS); }
TEST(samples_on_cuda_unoptimised) { check_all("cuda", 0, AS_IT_IS); }
TEST(samples_on_cuda) { check_all("cuda", 3, AS_IT_IS); }
TEST(samples_on_cpu_unoptimised) { check_all("cpu", 0, AS_IT_IS); }
TEST(samples_on_cpu_fused) { check_all("cpu", 2, AS_IT_IS); }
TEST(samples_on_cpu) { check_all("cpu", 3, AS_IT_IS); }
TEST(samples_on_cpu_fenced) { check_all("cpu", 3, FENCED); }
TEST(samples_on_cpu_checked) { check_all("cpu", 3, CHECKED); }

// A driver's compiler takes long: one sample in 48, others each time that another number is given
// (SAMPLES=1: all).
TEST(samples_on_opencl) {
  const char *step = getenv("SAMPLES");
  check_some("opencl", 3, AS_IT_IS, step && atoll(step) > 0 ? atoll(step) : 48);
}

// ---- traits ----

TEST(traits_of_targets) {
  static const struct {
    const char *target, *device;
    bool gpu, heterogeneous;
    MmaScope mma;
    uint32_t has, has_not;  // of mma_dtypes
  } row[] = {
      {"cpu", NULL, false, false, MMA_NONE, 0, ~0u},
      {"ref", NULL, false, false, MMA_NONE, 0, ~0u},
      {"cuda", "sm_75", true, false, MMA_NONE, 0, ~0u},
      {"cuda", "sm_80", true, false, MMA_WARP, MMA_DTYPE_BF16 | MMA_DTYPE_TF32 | MMA_DTYPE_INT8,
       MMA_DTYPE_F32 | MMA_DTYPE_FP8},
      {"cuda", "sm_90a", true, false, MMA_WARPGROUP, MMA_DTYPE_F16 | MMA_DTYPE_F32 | MMA_DTYPE_FP8,
       0},
      {"cuda", "sm_100", true, false, MMA_WARP, MMA_DTYPE_TF32, MMA_DTYPE_F32 | MMA_DTYPE_FP8},
      {"cpu,cuda", "sm_90a", true, true, MMA_WARPGROUP, MMA_DTYPE_F32, 0},
  };
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    const TargetTraits *t;
    Diag d;
    diag_init(&d);
    REQUIRE(!target_traits(target_find(row[i].target), row[i].device, &a, &d, &t));
    bool types = (t->mma_dtypes & row[i].has) == row[i].has && !(t->mma_dtypes & row[i].has_not);
    if (t->gpu != row[i].gpu || t->heterogeneous != row[i].heterogeneous || t->mma != row[i].mma ||
        !types)
      FAIL("%s %s: mma %d of %x", row[i].target, row[i].device ? row[i].device : "", t->mma,
           t->mma_dtypes);
    if (t->gpu && (t->warp_size < 32 || t->sm_count < 1)) FAIL("%s", row[i].device);
  }
  arena_deinit(&a);
}

TEST(traits_say_which_f32_mma_multiplies) {
  TargetTraits ampere = {.mma = MMA_WARP, .mma_dtypes = MMA_DTYPE_TF32},
               hopper = {.mma = MMA_WARPGROUP, .mma_dtypes = MMA_DTYPE_TF32 | MMA_DTYPE_F32};
  EXPECT(traits_mma_f32(&ampere, FAST_TF32) && !traits_mma_f32(&ampere, 0));
  EXPECT(traits_mma_f32(&hopper, FAST_TF32) && traits_mma_f32(&hopper, 0));
  EXPECT(!traits_mma_f32(&traits_unknown, FAST_TF32) && !traits_unknown.gpu);
}
