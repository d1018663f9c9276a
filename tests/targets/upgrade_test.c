// upgrade_test.c -- quick code computes the bits of full code, which takes its place between runs.
#include "targets/upgrade.h"

#include "base/budget.h"
#include "base/process.h"
#include "codegen.h"
#include "compiled.h"
#include "sample.h"
#include "template_cases.h"
#include "test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEED_CODEGEN()                                                                             \
  if (!codegen_there()) SKIP("tenon-codegen was not built")

// Without a cache: what another test left there would be full code.
static tenon_status compile_tier(const char *text, CodeTier tier, Arena *a, Diag *d, Graph **g,
                                 Program **out) {
  CompileOptions o;
  CompileReport made = {0};
  compile_defaults(&o);
  o.target = target_find("cpu");
  o.tier = (int)tier;
  o.no_cache = true;
  tenon_status s = compile_parsed(text, &o, COMPILE_BUILD, a, d, g, &made);
  *out = made.program;
  return s;
}

static const char mlp[] =
    "graph @\"g\"(%x: f32[batch, 64], %w: f32[64, 96], %v: f32[96, 32]) {\n"
    "  %0 = mat_mul(%x, %w)\n  %1 = relu(%0)\n  %2 = mat_mul(%1, %v)\n  %y = softmax(%2)\n"
    "  return y = %y\n}\n";

enum { RESULTS = 64 };
typedef struct Ran {
  Run run;
  Value *out[RESULTS];
} Ran;

static tenon_status run_once(Graph *g, Session *s, Diag *d, Ran *r) {
  Value *in[RESULTS] = {NULL};
  run_init(&r->run, NULL, d);
  r->run.seed = 7;
  r->run.max_bytes = 64 << 20;
  memset(r->out, 0, sizeof r->out);
  if (g->main->nparams > RESULTS || g->main->nresults > RESULTS) return TENON_EUNSUPPORTED;
  sample_seed();
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(sample_value(&r->run, type_of(g->main->param[i]), &in[i]));
  return session_run(s, &r->run, in, NULL, r->out);
}

static bool same_bits(const Value *a, const Value *b) {
  int64_t bytes;
  if (!a || !b || a->kind != VK_TENSOR || a->dtype == DT_STRING) return (a == NULL) == (b == NULL);
  return a->dtype == b->dtype && a->n == b->n && dtype_bytes(a->dtype, a->n, &bytes) &&
         !memcmp(a->data, b->data, (size_t)bytes);
}

// ---- the same bits ----

typedef struct TierRun {
  Graph *g;
  Program *program;
  Session *session;
  Ran ran;
} TierRun;

static tenon_status run_tier(const char *text, CodeTier tier, Arena *a, Diag *d, TierRun *t) {
  TRY(compile_tier(text, tier, a, d, &t->g, &t->program));
  TRY(session_create(t->program, &(SessionOptions){.threads = 1}, d, &t->session));
  return run_once(t->g, t->session, d, &t->ran);
}

static void free_tier(TierRun *t) {
  run_deinit(&t->ran.run);
  session_free(t->session);
  program_release(t->program);
  graph_free(t->g);
}

// What one form refuses, such as an index out of range, so does the other.
static void expect_same_bits(const char *name, const char *text) {
  static TierRun full, quick;
  static Diag d;
  Arena a;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  memset(&full, 0, sizeof full);
  memset(&quick, 0, sizeof quick);
  run_init(&full.ran.run, NULL, &d);
  run_init(&quick.ran.run, NULL, &d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    tenon_status x = run_tier(text, TIER_FULL, &a, &d, &full);
    tenon_status y = run_tier(text, TIER_QUICK, &a, &d, &quick);
    if (x != y) FAIL("%s: full code: %d, quick code: %d: %s", name, (int)x, (int)y, d.text);
    for (int64_t i = 0; !x && !y && i < full.g->main->nresults; i++)
      if (!same_bits(full.ran.out[i], quick.ran.out[i]))
        FAIL("%s: result %lld has other bits", name, (long long)i);
  }
  trap_leave(&t);
  if (t.status) FAIL("%s: trap: %s", name, d.text);
  free_tier(&full);
  free_tier(&quick);
  arena_deinit(&a);
}

// One pool for many compilations: starting its processes takes longer than a small kernel.
static Codegen *keep_pool(Diag *d) {
  Codegen *pool = NULL;
  diag_init(d);
  if (codegen_shared(0, d, &pool)) FAIL("%s", d->text);
  return pool;
}

TEST(quick_code_of_every_template_has_the_same_bits) {
  NEED_CODEGEN();
  static Diag d;
  Codegen *pool = keep_pool(&d);
  for (int i = 0; i < template_ncases; i++) {
    Arena a;
    arena_init(&a);
    if (!template_cases[i].groups && !template_cases[i].tiles && test_takes())
      expect_same_bits(template_cases[i].name, template_case_text(&a, template_cases[i].text));
    arena_deinit(&a);
  }
  codegen_release(pool);
}

TEST(quick_code_of_samples_has_the_same_bits) {
  NEED_CODEGEN();
  static Diag d;
  Codegen *pool = keep_pool(&d);
  enum { EVERY = 5 };  // each takes two compilations
  int64_t nth = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++) {
      Arena a;
      if (nth++ % EVERY || op_table[i]->flags & OPF_RANDOM || !test_takes()) continue;
      arena_init(&a);
      const char *text = sample_graph(&a, &(Sample){op_table[i], *s});
      if (text) expect_same_bits(op_table[i]->name, text);
      arena_deinit(&a);
    }
  codegen_release(pool);
}

// ---- full code in the background ----

typedef struct Auto {
  Arena arena;
  Diag d;
  Graph *g;
  Program *program;
  Session *session;
} Auto;

static void open_auto(Auto *x) {
  memset(x, 0, sizeof *x);
  arena_init(&x->arena);
  diag_init(&x->d);
  if (compile_tier(mlp, TIER_AUTO, &x->arena, &x->d, &x->g, &x->program) ||
      session_create(x->program, &(SessionOptions){.threads = 2}, &x->d, &x->session))
    FAIL("%s", x->d.text);
}

static void close_auto(Auto *x) {
  session_free(x->session);
  program_release(x->program);
  graph_free(x->g);
  arena_deinit(&x->arena);
}

TEST(full_code_takes_the_place_of_quick_code) {
  NEED_CODEGEN();
  static Auto x;
  static Ran before, after;
  open_auto(&x);
  REQUIRE(x.session && x.program->settle);
  EXPECT_STATUS(run_once(x.g, x.session, &x.d, &before), TENON_OK);
  EXPECT_STATUS(x.program->settle(x.program, &x.d), TENON_OK);
  const ProgCode *to = x.program->swapped;
  REQUIRE(to);
  EXPECT(to->code != x.program->code);
  EXPECT_STATUS(run_once(x.g, x.session, &x.d, &after), TENON_OK);
  for (int64_t i = 0; i < x.g->main->nresults; i++) EXPECT(same_bits(before.out[i], after.out[i]));
  run_deinit(&before.run);
  run_deinit(&after.run);
  close_auto(&x);
}

TEST(an_artifact_never_has_quick_code) {
  NEED_CODEGEN();
  static Auto x;
  static Diag d;
  Graph *g = NULL;
  Program *full = NULL;
  Str quick_file = {0}, full_file = {0};
  diag_init(&d);
  open_auto(&x);
  REQUIRE(x.session);
  EXPECT_STATUS(compile_tier(mlp, TIER_FULL, &x.arena, &d, &g, &full), TENON_OK);
  EXPECT_STATUS(artifact_bytes(x.program, &x.arena, &d, &quick_file), TENON_OK);
  EXPECT_STATUS(artifact_bytes(full, &x.arena, &d, &full_file), TENON_OK);
  EXPECT(quick_file.n > 0 && quick_file.n == full_file.n &&
         !memcmp(quick_file.p, full_file.p, (size_t)full_file.n));
  program_release(full);
  graph_free(g);
  close_auto(&x);
}

TEST(programs_go_while_their_full_code_is_made) {
  NEED_CODEGEN();
  static Auto x[3];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < ARRAY_LEN(x); i++) open_auto(&x[i]);
    if (round) usleep(20000);  // one of them is in the middle of a kernel
    for (int i = 0; i < ARRAY_LEN(x); i++) close_auto(&x[i]);
  }
}

TEST(a_forked_process_keeps_the_code_it_has) {
  NEED_CODEGEN();
  static Auto x;
  static Ran ran;
  open_auto(&x);
  REQUIRE(x.session);
  pid_t child = fork();
  if (!child) {
    tenon_status s = run_once(x.g, x.session, &x.d, &ran);
    run_deinit(&ran.run);
    session_free(x.session);
    program_release(x.program);
    _exit(s ? 1 : 0);
  }
  int status = -1;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_STATUS(x.program->settle(x.program, &x.d), TENON_OK);
  close_auto(&x);
}

static int no_thread(void *(*fn)(void *), void *arg, void **out) {
  (void)fn;
  (void)arg;
  *out = NULL;
  return 11;  // EAGAIN
}

// What the background could not do is done when it is needed.
TEST(without_a_thread_saving_makes_full_code) {
  NEED_CODEGEN();
  static Auto x;
  static Ran ran;
  static Diag d;
  static Platform table;
  Str file = {0};
  diag_init(&d);
  table = platform_posix;
  table.thread_start = no_thread;
  platform = &table;
  open_auto(&x);
  platform = &platform_posix;
  REQUIRE(x.session);
  EXPECT_STATUS(run_once(x.g, x.session, &x.d, &ran), TENON_OK);
  EXPECT(!x.program->swapped);
  EXPECT_STATUS(artifact_bytes(x.program, &x.arena, &d, &file), TENON_OK);
  EXPECT(file.n > 0 && x.program->swapped);
  run_deinit(&ran.run);
  close_auto(&x);
}

// ---- kernels without full code, and limits ----

// A program of one kernel, with quick code.
typedef struct Small {
  Arena arena;
  Program program;
  ProgKernel kernel;
  Machine machine;
  Str text;
  Code code;
  UpgradeKernels k;
} Small;

static void open_small(Small *x, int64_t most_bytes, Diag *d) {
  static const char text[] =
      "kernel @small (out %y: f32[1]) {\n parallel i < 1 {\n  store %y[i] = 1.0\n }\n}\n";
  static const int64_t first = 0;
  Codegen *pool = NULL;
  CodeCall call = {.quick = true, .no_cache = true};
  memset(x, 0, sizeof *x);
  arena_init(&x->arena);
  diag_init(d);
  machine_host(&x->machine);
  x->text = STR(text);
  if (codegen_shared(1, d, &pool) ||
      codegen_build_with(pool, &x->machine, CODE_IMAGE, &x->text, 1, &call, &x->arena, &x->code, d))
    FAIL("%s", d->text);
  codegen_release(pool);
  x->program.kernel = &x->kernel;
  x->program.nkernels = 1;
  x->k = (UpgradeKernels){.machine = &x->machine,
                          .no_cache = true,
                          .threads = 1,
                          .n = 1,
                          .most_bytes = most_bytes,
                          .kernel = &first,
                          .text = &x->text,
                          .code = &x->code};
}

static void close_small(Small *x) {
  upgrade_stop(&x->program);
  arena_deinit(&x->arena);
}

// The kernel is no fault of the compiler, and the message says what to do, in whole lines.
TEST(a_kernel_without_full_code_is_not_written) {
  NEED_CODEGEN();
  static Small x;
  static Diag d;
  for (int large = 0; large < 2; large++) {
    open_small(&x, large ? 1 : 1 << 20, &d);
    EXPECT(x.code.quick);
    upgrade_start(&x.program, &x.k);
    REQUIRE(x.program.settle);
    for (int i = 0; i < 2; i++) {
      diag_init(&d);
      EXPECT_STATUS(x.program.settle(&x.program, &d), large ? TENON_EUNSUPPORTED : TENON_OK);
      EXPECT(!strchr(d.text, '?'));
      if (large) EXPECT_CONTAINS(d.text, "a kernel has no full code: it has too much machine code");
      if (large) EXPECT_CONTAINS(d.text, "compile with tier=full");
    }
    close_small(&x);
  }
}

TEST(full_code_is_made_within_the_limits_of_the_compilation) {
  NEED_CODEGEN();
  static Small x;
  static Diag d;
  Budget b;
  open_small(&x, 1 << 20, &d);
  budget_begin(&b, 0, 1, 0);
  budget_spend(INT64_C(2000000000));
  upgrade_start(&x.program, &x.k);
  budget_end(&b);
  REQUIRE(x.program.settle);
  EXPECT_STATUS(x.program.settle(&x.program, &d), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "the limit of 1 s of processor time");
  close_small(&x);
}

// MiB that a background process of this thread may take; -1: the system does not say.
static long background_memory(void) {
  char list[4096] = "", line[4096];
  long memory = -1;
  FILE *f = fopen("/proc/thread-self/children", "r");
  if (!f) return -1;
  if (!fgets(list, sizeof list, f)) list[0] = 0;
  fclose(f);
  for (char *at = strtok(list, " "); at; at = strtok(NULL, " ")) {
    snprintf(line, sizeof line, "/proc/%s/cmdline", at);
    f = fopen(line, "r");
    if (!f) continue;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    for (size_t i = 0; i < n; i++)
      if (!line[i]) line[i] = ' ';
    line[n] = 0;
    const char *most = strstr(line, "--memory ");
    if (most && strstr(line, "--background")) memory = strtol(most + 9, NULL, 10);
  }
  return memory;
}

TEST(background_processes_share_the_memory_limit) {
  NEED_CODEGEN();
  static Diag d;
  Codegen *pool = NULL;
  Budget b;
  diag_init(&d);
  if (access("/proc/thread-self/children", R_OK)) SKIP("the system does not list children");
  budget_begin(&b, (int64_t)600 << 20, 0, 0);
  EXPECT_STATUS(codegen_create(&(CodegenOptions){.nprocesses = 2, .background = true}, &d, &pool),
                TENON_OK);
  budget_end(&b);
  REQUIRE(pool);
  EXPECT_STATUS(codegen_start(pool, 1, &d), TENON_OK);
  long memory = -1;
  for (int i = 0; i < 1000 && memory < 0; i++) {  // until the child has its own command line
    memory = background_memory();
    if (memory < 0) usleep(10000);
  }
  EXPECT(memory >= 128 && memory <= 300);
  codegen_release(pool);
}
