// import_bad_test.c -- models that are wrong: each gets the stated status and a message that names
// the place.
//
// The rows are in import_bad.def.  Besides, every truncation and byte flip of small sound models
// must end in a status, never in a crash; the sanitizer build looks for what goes wrong on the way,
// and a counting allocator for what is left behind.
#include "api/model.h"
#include "frontends/onnx/import.h"
#include "pb.h"
#include "test.h"

#include <time.h>

typedef enum { OPEN, RUN, SAME } When;
typedef struct Bad {
  const char *name;
  When when;
  tenon_status status;
  const char *part, *text;
} Bad;
static const Bad bad[] = {
#define BAD(name, when, status, part, text) {#name, when, status, part, text},
#include "import_bad.def"
#undef BAD
};

// ---- counting what is allocated ----

static Platform counting;
static int64_t live;
static void *count_alloc(int64_t bytes) {
  void *p = platform_posix.alloc(bytes);
  if (p) __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
  return p;
}
static void count_free(void *p, int64_t bytes) {
  if (p) __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
  platform_posix.free(p, bytes);
}
static void count_start(void) {
  counting = platform_posix;
  counting.alloc = count_alloc;
  counting.free = count_free;
  platform = &counting;
  live = 0;
}
static void count_stop(const char *what) {
  platform = &platform_posix;
  if (live) FAIL("%s: %lld blocks are left", what, (long long)live);
}

// ---- one model ----

// A zero input for a parameter: symbols are 2, unknown ranks 1.
static tenon_status zero_input(Run *run, const Type *t, Value **out) {
  int64_t dims[MAX_RANK];
  if (t->kind != TK_TENSOR) return value_sequence(run, TENON_DTYPE_F32, 0, out);
  int rank = MAX(t->rank, 0);
  for (int i = 0; i < rank; i++) dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : 2;
  return value_tensor(run, NOWHERE, t->dtype, rank, dims, out);
}

static tenon_status run_zeros(Model *m, Diag *d) {
  Run run;
  run_init(&run, NULL, d);
  run.max_bytes = 64 << 20;
  run.budget = 1000;
  run.ops_budget = 1 << 20;
  Value *in[16] = {NULL}, *out[16] = {NULL};
  tenon_status s = TENON_OK;
  for (int64_t i = 0; !s && i < model_ninputs(m) && i < 16; i++)
    s = zero_input(&run, type_of(model_input(m, i)), &in[i]);
  if (!s) s = model_run(m, &run, in, out);
  run_deinit(&run);
  return s;
}

// A file of up to 64 KiB may take 50 ms; the sanitizers slow things down.
#ifdef UNDER_ASAN
static const double SECONDS = 1;
#else
static const double SECONDS = 0.05;
#endif

// Opens and, where that goes well, runs.  Says where it ended.
static tenon_status try_model_for(const void *bytes, int64_t n, Diag *d, When *ended) {
  Model *m;
  *ended = OPEN;
  tenon_status s = model_open_memory(bytes, n, "test", NULL, d, &m);
  if (s) return s;
  s = model_need_supported(m, d);
  if (!s) {
    *ended = RUN;
    if (model_ninputs(m) <= 16 && model_noutputs(m) <= 16) s = run_zeros(m, d);
    if (!s) *ended = SAME;
  }
  model_free(m);
  return s;
}

static tenon_status try_model(const void *bytes, int64_t n, Diag *d, When *ended) {
  clock_t start = clock();
  tenon_status s = try_model_for(bytes, n, d, ended);
  double took = (double)(clock() - start) / CLOCKS_PER_SEC;
  if (took > SECONDS) FAIL("%lld bytes take %.3f s: %s", (long long)n, took, d->text);
  return s;
}

static Str encode(Arena *a, const char *text) {
  StrBuf b;
  strbuf_init(&b, a);
  pb_encode(&b, text);
  return strbuf_str(&b);
}

static void check_bad(const Bad *b) {
  Arena a;
  arena_init(&a);
  Str bytes = encode(&a, b->text);
  static Diag d;
  diag_init(&d);
  When ended;
  count_start();
  tenon_status s = try_model(bytes.p, bytes.n, &d, &ended);
  count_stop(b->name);
  // A refusal at run time may be found earlier, by inference; the other way round is a missed
  // check.
  bool when_ok = ended == b->when || (b->when == RUN && ended == OPEN);
  bool status_ok = s == b->status || (b->when == RUN && s == TENON_ENOMEM);
  if (!status_ok || !when_ok)
    FAIL("%s: ended in %s (%s), message: %s", b->name,
         ended == OPEN  ? "open"
         : ended == RUN ? "run"
                        : "success",
         status_name(s), d.text);
  if (s && !strstr(d.text, b->part))
    FAIL("%s: '%s' is not in the message: %s", b->name, b->part, d.text);
  if (s && !d.len) FAIL("%s: no message", b->name);
  arena_deinit(&a);
}

TEST(bad_models) {
  EXPECT(ARRAY_LEN(bad) >= 200);
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) check_bad(&bad[i]);
}

// ---- damage ----

// The sound models of the table are small and between them use most of the format.
static void damage(const Bad *b) {
  Arena a;
  arena_init(&a);
  Str good = encode(&a, b->text);
  uint8_t *copy = arena_alloc(&a, good.n + 1);
  static Diag d;
  When ended;
  count_start();
  for (int64_t n = 0; n < good.n;
       n++) {  // exact-size copies, so that a sanitizer sees a byte too far
    uint8_t *cut = mem_alloc(n);
    memcpy(cut, good.p, (size_t)n);
    diag_init(&d);
    tenon_status s = try_model(cut, n, &d, &ended);
    if (s && !d.len) FAIL("%s cut to %lld: no message", b->name, (long long)n);
    mem_free(cut, n);
  }
  static const uint8_t pattern[] = {0x00, 0xff, 1, 2, 4, 8, 16, 32, 64, 128};
  for (int64_t at = 0; at < good.n; at++)
    for (int64_t k = 0; k < ARRAY_LEN(pattern); k++) {
      memcpy(copy, good.p, (size_t)good.n);
      copy[at] = k < 2 ? pattern[k] : (uint8_t)(copy[at] ^ pattern[k]);
      diag_init(&d);
      tenon_status s = try_model(copy, good.n, &d, &ended);
      if (s == TENON_EINTERNAL || (s && !d.len))
        FAIL("%s byte %lld pattern %lld: %s", b->name, (long long)at, (long long)k, d.text);
    }
  count_stop(b->name);
  arena_deinit(&a);
}

TEST(bad_damage) {
  int64_t n = 0;
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++)
    if (bad[i].when == SAME || bad[i].when == RUN) {
      damage(&bad[i]);
      n++;
    }
  EXPECT(n >= 20);
}

// ---- operands of every kind and number ----

// Values that a node may be given; the last one comes from an operator that nobody knows.
static const char *const KINDS[] = {"f", "i", "s", "q", "o", "b", "", "u"};
static const char GIVEN[] =
    PB_INPUT("f", 1, PB_DIM(2) PB_DIM(3)) PB_INPUT("i", 7, PB_DIM(2)) PB_INPUT(
        "s", 8,
        PB_DIM(1)) "11:{1:'q' 2:{4:{1:{1:{1:1 2:{1:{1:2}}}}}}} 11:{1:'o' 2:{9:{1:{1:{1:1 2:{}}}}}} "
                   "11:{1:'b' 2:{1:{1:9}}} 1:{2:'u' 4:'Nothing' 7:'nowhere'} ";

static void try_node(const char *domain, const char *op, int64_t opset) {
  static Diag d;
  When ended;
  for (int kind = 0; kind < (int)ARRAY_LEN(KINDS); kind++)
    for (int nin = 0; nin < 5; nin++)
      for (int nout = kind ? 1 : 0; nout < (kind ? 2 : 4); nout += 1 + nout) {  // 0, 1, 3
        Arena a;
        StrBuf b;
        arena_init(&a);
        strbuf_init(&b, &a);
        strbuf_printf(&b, "1:8 8:{2:%lld} 8:{1:'%s' 2:%lld} 7:{%s2:'g' 1:{",
                      *domain ? 17LL : (long long)opset, *domain ? domain : "other",
                      (long long)opset, GIVEN);
        for (int i = 0; i < nin; i++)
          strbuf_printf(&b, "1:'%s' ", KINDS[i ? (kind + i / 3) % 8 : kind]);
        for (int i = 0; i < nout; i++) strbuf_printf(&b, "2:'y%d' ", i);
        strbuf_printf(&b, "4:'%s' 7:'%s'} 12:{1:'%s'}}", op, domain, nout ? "y0" : "f");
        Str bytes = encode(&a, strbuf_text(&b));
        diag_init(&d);
        tenon_status s = try_model(bytes.p, bytes.n, &d, &ended);
        if (s == TENON_EINTERNAL || (s && !d.len))
          FAIL("%s.%s of opset %lld, %d inputs '%s', %d outputs: %s", domain, op, (long long)opset,
               nin, KINDS[kind], nout, d.text);
        arena_deinit(&a);
      }
}

TEST(bad_operands) {
  for (int i = 0; i < OP_COUNT; i++) {
    if (!op_table[i]->onnx) continue;
    const char *full = op_table[i]->onnx, *dot = strrchr(full, '.');
    char domain[64];
    snprintf(domain, sizeof domain, "%.*s", dot ? (int)(dot - full) : 0, full);
    try_node(domain, dot ? dot + 1 : full, MAX(op_table[i]->onnx_since, 1));
  }
  for (const ImportTable *const *t = onnx_tables; *t; t++)
    for (int64_t i = 0; i < (*t)->n; i++) {
      const ImportRow *r = &(*t)->row[i];
      try_node(r->domain ? r->domain : "", r->op, r->until ? r->until : MAX(r->since, 1));
    }
}

// One more level: a node that holds an attribute that holds the graph so far.
static Str wrap_if(Arena *a, Str graph) {
  StrBuf b;
  strbuf_init(&b, a);
  StrBuf hex;
  strbuf_init(&hex, a);
  for (int64_t i = 0; i < graph.n; i++) strbuf_printf(&hex, "%02x", (uint8_t)graph.p[i]);
  pb_encode(&b, str_printf(a, "1:{1:'b' 2:'y' 4:'If' 5:{1:'then_branch' 20:5 6:<%s>}}",
                           strbuf_text(&hex)));
  return strbuf_str(&b);
}

TEST(bad_deep_nesting) {
  for (int depth = 60; depth <= 600; depth += 180) {
    Arena a;
    arena_init(&a);
    Str graph = {0};
    for (int i = 0; i < depth; i++) graph = wrap_if(&a, graph);
    StrBuf model;
    strbuf_init(&model, &a);
    StrBuf hex;
    strbuf_init(&hex, &a);
    for (int64_t i = 0; i < graph.n; i++) strbuf_printf(&hex, "%02x", (uint8_t)graph.p[i]);
    pb_encode(&model, str_printf(&a, "1:8 8:{2:17} 7:<%s>", strbuf_text(&hex)));
    static Diag d;
    diag_init(&d);
    When ended;
    tenon_status s = try_model(model.p, model.n, &d, &ended);
    EXPECT(s != TENON_OK && s != TENON_EINTERNAL && d.len);
    arena_deinit(&a);
  }
}

// O41: thirty functions, each calling the one before twice: two thousand bytes for a billion nodes.
TEST(bad_inlining_bomb) {
  Arena a;
  arena_init(&a);
  StrBuf text, model;
  strbuf_init(&text, &a);
  strbuf_init(&model, &a);
  strbuf_puts(&text, "1:8 8:{2:17} 8:{1:'f' 2:1} 7:{1:{1:'x' 2:'y' 4:'F30' 7:'f'} " XY "2:'g'} ");
  strbuf_puts(&text, "25:{1:'F0' 4:'a' 5:'b' 7:{1:'a' 2:'b' 4:'Relu'} 9:{2:17} 10:'f'} ");
  for (int i = 1; i <= 30; i++)
    strbuf_printf(&text,
                  "25:{1:'F%d' 4:'a' 5:'c' 7:{1:'a' 2:'b' 4:'F%d' 7:'f'} 7:{1:'b' 2:'c' 4:'F%d' "
                  "7:'f'} 9:{2:17} "
                  "9:{1:'f' 2:1} 10:'f'} ",
                  i, i - 1, i - 1);
  pb_encode(&model, strbuf_text(&text));
  static Diag d;
  diag_init(&d);
  When ended;
  EXPECT_STATUS(try_model(model.p, model.n, &d, &ended), TENON_EUNSUPPORTED);
  EXPECT(strstr(d.text, "once its functions are inlined") != NULL);
  arena_deinit(&a);
}
