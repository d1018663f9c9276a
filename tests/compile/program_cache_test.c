// program_cache_test.c -- programs in the cache: the same bytes as a new compilation, another key
// for each option, absence for all that is damaged, and writers that disturb nobody.
#include "compile/program_cache.h"

#include "api/model.h"
#include "codegen.h"
#include "compile/declined.h"
#include "compiled.h"
#include "runtime/artifact.h"
#include "sample.h"
#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text[] =
    "graph @\"g\"(%x: f32[n, 16]) {\n"
    "  %w = const f32[16, 1] {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2}\n"
    "  %p = mat_mul(%x, %w)\n  %y = relu(%p)\n  return y = %y\n}\n";
static const char small[] =
    "graph @\"g\"(%x: f32[n, 4]) {\n  %c = const f32[4] {1, 2, 3, 4}\n  %a = add(%x, %c)\n"
    "  %y = tanh(%a)\n  return y = %y\n}\n";

// A cache of its own: the folder, and what the environment said before.
typedef struct Place {
  char folder[500], *was;
} Place;

static void set_folder(const char *folder) { setenv("TENON_CACHE", folder, 1); }

static void begin(Place *p, const char *name) {
  char command[600];
  const char *was = getenv("TENON_CACHE");
  p->was = was ? strdup(was) : NULL;
  snprintf(p->folder, sizeof p->folder, "%s/programs-%s", test_folder(), name);
  snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
  EXPECT_INT_EQ(system(command), 0);
  set_folder(p->folder);
}

static void end(Place *p) {
  if (p->was)
    setenv("TENON_CACHE", p->was, 1);
  else
    unsetenv("TENON_CACHE");
  free(p->was);
}

typedef struct Made {
  Arena arena;
  Diag diag;
  Graph *g;
  CompileOptions o;
  CompileReport r;
} Made;

static void made_init(Made *m, const char *graph) {
  memset(m, 0, sizeof *m);
  arena_init(&m->arena);
  diag_init(&m->diag);
  compile_defaults(&m->o);
  m->o.target = target_find("cpu");
  m->o.threads = 1;
  if (graph && graph_parse(str_of(graph), NULL, &m->diag, &m->g)) FAIL("%s", m->diag.text);
}

static void made_free(Made *m) {
  program_release(m->r.program);
  graph_free(m->g);
  arena_deinit(&m->arena);
}

// Compiles, or finds; and waits until the program is kept.
static bool make(Made *m) {
  if (compile_program(m->g, &m->o, "/some/where/net.onnx", &m->arena, &m->diag, &m->r))
    FAIL("%s", m->diag.text);
  if (m->r.program) program_wait_kept(m->r.program);
  return m->r.found;
}

static bool found(const char *graph) {
  Made m;
  made_init(&m, graph);
  bool yes = make(&m);
  made_free(&m);
  return yes;
}

static ProgramKey key_of(Made *m) {
  ProgramKey k = {0};
  Trap t;
  trap_enter(&t, &m->diag);
  if (setjmp(t.env) == 0) {
    k = program_key(m->g, &m->o, NULL, &m->arena);
    t.status = TENON_OK;
  }
  trap_leave(&t);
  return k;
}

// The program as a file would have it.
static Str bytes_of(const Program *p, Arena *a, Diag *d) {
  Str part[ARTIFACT_PARTS];
  StrBuf b;
  strbuf_init(&b, a);
  if (artifact_parts(&p, 1, false, a, d, part)) {
    FAIL("%s", d->text);
    return (Str){0};
  }
  for (int i = 0; i < ARTIFACT_PARTS; i++) strbuf_put(&b, part[i]);
  return strbuf_str(&b);
}

// ---- the same program ----

// A new one, the one that is kept, and the one that is found.
static void compare(const char *graph, const char *name) {
  Made m[3];
  Str bytes[3];
  for (int i = 0; i < 3; i++) {
    made_init(&m[i], graph);
    if (m[i].g && i == 0) {
      if (compile_graph(m[i].g, &m[i].o, COMPILE_BUILD, &m[i].arena, &m[i].diag, &m[i].r))
        FAIL("%s: %s", name, m[i].diag.text);
    } else if (m[i].g) {
      bool hit = make(&m[i]);
      if (hit != (i == 2)) FAIL("%s: %s", name, hit ? "found too early" : "not found");
    }
    bytes[i] = m[i].r.program ? bytes_of(m[i].r.program, &m[i].arena, &m[i].diag) : (Str){0};
    if (i && !str_eq(bytes[i], bytes[0])) FAIL("%s: program %d has other bytes", name, i);
  }
  for (int i = 0; i < 3; i++) made_free(&m[i]);
}

TEST(program_cache_gives_the_same_program) {
  Place p;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "same");
  compare(text, "product");
  compare(small, "pointwise");
  end(&p);
}

TEST_LONG(program_cache_samples) {
  enum { EVERY = 12 };
  Place p;
  int64_t n = 0;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "samples");
  for (int op = 0; op < OP_COUNT; op++)
    for (const char *const *s = op_table[op]->samples; s && *s; s++) {
      if (n++ % EVERY || !test_takes()) continue;
      Arena a;
      arena_init(&a);
      Sample x = {op_table[op], *s};
      const char *graph = sample_graph(&a, &x);
      // Without a kernel there is no code to keep, and programs of the same text share one.
      if (graph) {
        Made m;
        made_init(&m, graph);
        make(&m);
        made_free(&m);
        Made again, fresh;
        made_init(&again, graph);
        made_init(&fresh, graph);
        if (!make(&again)) FAIL("%s%s is not found", op_table[op]->name, *s);
        if (compile_graph(fresh.g, &fresh.o, COMPILE_BUILD, &fresh.arena, &fresh.diag, &fresh.r))
          FAIL("%s", fresh.diag.text);
        if (!str_eq(bytes_of(again.r.program, &again.arena, &again.diag),
                    bytes_of(fresh.r.program, &fresh.arena, &fresh.diag)))
          FAIL("%s%s: other bytes", op_table[op]->name, *s);
        made_free(&again);
        made_free(&fresh);
      }
      arena_deinit(&a);
    }
  EXPECT(n > 100);
  end(&p);
}

static void compare_model(const char *path, const char *name) {
  Str bytes[2] = {{0}};
  Arena keep;
  arena_init(&keep);
  for (int i = 0; i < 3; i++) {
    Made m;
    Model *model;
    made_init(&m, NULL);
    if (model_open(path, &(ModelOptions){0}, &m.diag, &model)) {
      FAIL("%s", m.diag.text);
    } else {
      m.g = model->graph;
      bool hit = make(&m);
      if (hit != (i > 0)) FAIL("%s: reading %d", name, i);
      bytes[i > 0] = bytes_of(m.r.program, &keep, &m.diag);
      m.g = NULL;
      model_free(model);
    }
    made_free(&m);
  }
  if (!bytes[0].n || !str_eq(bytes[0], bytes[1])) FAIL("%s: other bytes", name);
  arena_deinit(&keep);
}

TEST_LONG(program_cache_models) {
  static const char *const models[] = {
      "mlp.onnx",   "conv.onnx",    "branch.onnx",    "loop.onnx",        "scan.onnx",
      "rate.onnx",  "quant.onnx",   "functions.onnx", "external.onnx",    "shapes.onnx",
      "kinds.onnx", "strings.onnx", "past.tir",       "digits_int8.onnx", "signatures.tflite"};
  Place p;
  Arena a;
  if (!codegen_there()) SKIP("no code generator");
  arena_init(&a);
  begin(&p, "models");
  for (int i = 0; i < ARRAY_LEN(models); i++)
    if (test_takes())
      compare_model(str_printf(&a, "%s/tests/models/%s", TENON_SOURCE_DIR, models[i]), models[i]);
  end(&p);
  arena_deinit(&a);
}

// ---- the key ----

static const char *other_value(const CompileOptionRow *r, Arena *a) {
  switch (r->kind) {
  case OPTION_KIND_FLAG: return "1";
  case OPTION_KIND_INT:
  case OPTION_KIND_BYTES:
    return str_printf(a, "%lld", (long long)(r->dflt > r->least ? r->dflt - 1 : r->least + 1));
  case OPTION_KIND_CHOICE: {
    const char *second = strchr(r->words, ' ') + 1;
    return str_copy(a, (Str){second, (int64_t)strcspn(second, " ")});
  }
  case OPTION_KIND_TEXT:
  case OPTION_KIND_LIST: break;
  case OPTION_KIND_FILE: return TENON_SOURCE_DIR "/LICENSE";
  }
  return "something";
}

// RECORD: another key; FRESH: none; SAME: the same.
TEST(program_cache_key_has_each_option) {
  Place p;
  Made plain;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "options");
  made_init(&plain, small);
  ProgramKey was = key_of(&plain);
  EXPECT(was.folder && was.text.n > 100);
  for (int i = 0; i < COMPILE_OPTIONS; i++) {
    const CompileOptionRow *r = &compile_option[i];
    Made m;
    made_init(&m, small);
    if (compile_option_put(&m.o, i, other_value(r, &m.arena), &m.arena, &m.diag))
      FAIL("%s: %s", r->name, m.diag.text);
    ProgramKey k = key_of(&m);
    bool fresh = r->marks & OPTION_FRESH, recorded = r->marks & OPTION_RECORD;
    if (fresh != !k.folder) FAIL("%s: %s", r->name, k.folder ? "a key" : "no key");
    if (!fresh && recorded == str_eq(k.text, was.text)) FAIL("%s: the key", r->name);
    EXPECT(recorded || r->marks & (OPTION_FRESH | OPTION_SAME));
    made_free(&m);
  }
  made_free(&plain);
  end(&p);
}

// The same of the fields that are no options.
TEST(program_cache_key_has_each_field) {
  CompileOptions o;
  compile_defaults(&o);
  EXPECT(compile_options_kept(&o));
#define GIVES_FRESH false
#define GIVES_KEYED true
#define GIVES_SAME  true
#define FIELD(mark, declaration, name)                                                             \
  compile_defaults(&o);                                                                            \
  memset(&o.name, 1, sizeof o.name);                                                               \
  if (compile_options_kept(&o) != GIVES_##mark) FAIL("%s", #name);
#include "compile/fields.def"
}

TEST(program_cache_key_has_sizes_and_target) {
  Place p;
  Made m;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "sizes");
  made_init(&m, small);
  ProgramKey was = key_of(&m);
  DimBinding sizes;
  binding_init(&sizes, &m.arena, m.g);
  m.o.sizes = &sizes;
  EXPECT(str_eq(key_of(&m).text, was.text));  // nothing is known
  binding_default(&sizes, m.g, 7);
  EXPECT(!str_eq(key_of(&m).text, was.text));
  m.o.sizes = NULL;
  EXPECT(str_eq(key_of(&m).text, was.text));
  static const char *const other[] = {"ref", "host", "c"};
  for (int i = 0; i < ARRAY_LEN(other); i++) {
    m.o.target = target_find(other[i]);
    EXPECT(!key_of(&m).folder);
  }
  m.o.target = NULL;
  EXPECT(!key_of(&m).folder);
  made_free(&m);
  end(&p);
}

// ---- damage ----

static bool is_program(const char *name) {
  size_t n = strlen(name);
  return n > 8 && !strcmp(name + n - 8, ".program");
}

// The one program of the folder; false: there is none.
static bool program_file(const char *folder, char *out, size_t cap) {
  DIR *d = opendir(folder);
  bool yes = false;
  for (struct dirent *e; d && (e = readdir(d));)
    if (is_program(e->d_name)) yes = snprintf(out, cap, "%s/%s", folder, e->d_name) > 0;
  if (d) closedir(d);
  return yes;
}

static bool finds(const ProgramKey *k) {
  CompileReport r = {0};
  Arena a;
  arena_init(&a);
  bool yes = program_find(k, &a, &r);
  program_release(r.program);
  arena_deinit(&a);
  return yes;
}

static void put_file(const char *path, const void *bytes, int64_t n) {
  static Diag d;
  diag_init(&d);
  EXPECT(!file_write_as(path, &(Str){bytes, n}, 1, WRITE_PRIVATE | WRITE_CACHED, &d));
}

TEST(program_cache_takes_damage_for_absence) {
  Place p;
  Made m;
  char path[600];
  File f;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "damage");
  made_init(&m, small);
  ProgramKey k = key_of(&m);
  EXPECT(!make(&m));
  REQUIRE(program_file(p.folder, path, sizeof path));
  EXPECT(finds(&k));
  REQUIRE(!file_open(path, &f, &m.diag));
  uint8_t *bytes = arena_dup(&m.arena, f.bytes, f.size);
  int64_t n = f.size;
  file_close(&f);
  for (int64_t at = 0; at < n; at += at < 700 ? 3 : 1009) {
    bytes[at] ^= 4;
    put_file(path, bytes, n);
    bytes[at] ^= 4;
    if (finds(&k)) FAIL("byte %lld", (long long)at);
  }
  for (int64_t cut = 0; cut < n; cut += 4001) {
    put_file(path, bytes, cut);
    if (finds(&k)) FAIL("%lld bytes", (long long)cut);
  }
  put_file(path, bytes, n);
  EXPECT(finds(&k));
  chmod(path, 0666);
  EXPECT(!finds(&k));
  chmod(path, 0600);
  if (!geteuid()) {
    EXPECT(!chown(path, 12345, 12345));
    EXPECT(!finds(&k));
    EXPECT(!chown(path, 0, 0));
  }
  chmod(p.folder, 0777);
  EXPECT(!finds(&k));
  chmod(p.folder, 0700);
  EXPECT(finds(&k));
  made_free(&m);
  end(&p);
}

// Entries whose checksum is right, and that hold no program.
TEST(program_cache_checks_what_is_in_an_entry) {
  Place p;
  Made m;
  char path[600];
  File f;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "inside");
  made_init(&m, small);
  ProgramKey k = key_of(&m);
  EXPECT(!make(&m));
  REQUIRE(program_file(p.folder, path, sizeof path));
  REQUIRE(!file_open(path, &f, &m.diag));
  Str entry = cache_program((Str){(const char *)f.bytes, f.size});
  char *bytes = arena_dup(&m.arena, entry.p, entry.n);
  EXPECT(str_is(program_entry_name((Str){(const char *)f.bytes, f.size}), "net.onnx"));
  file_close(&f);
  EXPECT(cache_store_program(p.folder, k.text, STR("")));
  EXPECT(!finds(&k));
  EXPECT(cache_store_program(p.folder, k.text, (Str){bytes, 100}));
  EXPECT(!finds(&k));
  EXPECT(cache_store_program(p.folder, k.text, (Str){bytes, entry.n - 1}));
  EXPECT(!finds(&k));
  for (int at = 0; at < 32; at++) {    // its head: version, counts, lengths, offset
    if (at >= 8 && at < 16) continue;  // a longer name is no harm
    bytes[at] = (char)(bytes[at] ^ 0x41);
    EXPECT(cache_store_program(p.folder, k.text, (Str){bytes, entry.n}));
    bytes[at] = (char)(bytes[at] ^ 0x41);
    if (finds(&k)) FAIL("byte %d of the head", at);
  }
  EXPECT(cache_store_program(p.folder, k.text, (Str){bytes, entry.n}));
  EXPECT(finds(&k));
  made_free(&m);
  end(&p);
}

// ---- archives, limits, warnings ----

TEST(program_cache_is_shipped) {
  Place p;
  Made m;
  CacheMoved moved;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "ship");
  made_init(&m, small);
  EXPECT(!make(&m));
  Arena *a = &m.arena;
  const char *archive = str_printf(a, "%s/programs.tcache", test_folder());
  const char *to = str_printf(a, "%s/shipped", p.folder);
  EXPECT_STATUS(cache_export(p.folder, archive, a, &m.diag, &moved), TENON_OK);
  EXPECT(moved.nprograms == 1 && moved.n >= 2);
  CacheMaker here;
  REQUIRE(m.o.target->maker(1, a, &here));
  here.compiler = STR("tenon of another day");
  EXPECT_STATUS(cache_import(archive, to, &here, a, &m.diag, &moved), TENON_OK);
  EXPECT(moved.nprograms == 0 && moved.other_version == 1 && moved.n >= 1);
  here.compiler = program_compiler();
  EXPECT_STATUS(cache_import(archive, to, &here, a, &m.diag, &moved), TENON_OK);
  EXPECT(moved.nprograms == 1 && moved.n == 1 && moved.there >= 1);
  set_folder(to);
  EXPECT(found(small));
  set_folder(str_printf(a, "%s/none", p.folder));
  setenv("TENON_CACHE_PATH", to, 1);
  EXPECT(found(small));
  unsetenv("TENON_CACHE_PATH");
  EXPECT(!found(small));
  made_free(&m);
  end(&p);
}

TEST(program_cache_has_a_bound) {
  Place p;
  Made m;
  Arena a;
  CachePruned pruned;
  CacheList l;
  char path[600];
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "bound");
  setenv("TENON_CACHE_MAX", "100000", 1);  // an eighth is less than the pages of an artifact
  EXPECT(!found(small) && !found(small));
  EXPECT(!program_file(p.folder, path, sizeof path));
  unsetenv("TENON_CACHE_MAX");
  EXPECT(!found(small) && found(small));
  // All programs take at most half.
  made_init(&m, NULL);
  arena_init(&a);
  char *much = arena_alloc(&a, 10000);
  for (int i = 0; i < 8; i++)
    EXPECT(cache_store_program(p.folder, str_of(str_printf(&a, "key %d", i)), (Str){much, 10000}));
  EXPECT_STATUS(cache_prune(p.folder, 60000, &a, &m.diag, &pruned), TENON_OK);
  EXPECT_STATUS(cache_list(p.folder, true, &a, &m.diag, &l), TENON_OK);
  EXPECT(l.nprograms <= 3 && l.nprograms >= 1 && l.n > l.nprograms && l.bytes <= 60000);
  arena_deinit(&a);
  made_free(&m);
  end(&p);
}

TEST(program_cache_repeats_warnings) {
  Place p;
  Made m;
  CompileReport again = {0};
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "warnings");
  made_init(&m, small);
  ProgramKey k = key_of(&m);
  EXPECT(!compile_graph(m.g, &m.o, COMPILE_BUILD, &m.arena, &m.diag, &m.r));
  const DeclinedSchedule tried = {.schedule = "gemm rows=1", .why = "it is\nplanted", .kind = 0};
  const DeclinedKernel declined[2] = {
      {.label = "one", .nodes = "a", .instead = "host", .tried = &tried, .ntried = 1},
      {.label = "two", .nodes = "b", .instead = "host", .tried = &tried, .ntried = 1}};
  m.r.target.declined = declined;
  m.r.target.ndeclined = 2;
  TextList want = compile_warnings(&m.r, &m.arena);
  program_keep(&k, &m.o, &m.r);
  program_wait_kept(m.r.program);
  REQUIRE(program_find(&k, &m.arena, &again));
  TextList got = compile_warnings(&again, &m.arena);
  EXPECT_INT_EQ(got.n, want.n);
  EXPECT(got.n == 3);
  for (int64_t i = 0; i < MIN(got.n, want.n); i++) EXPECT_STR_EQ(got.v[i], want.v[i]);
  program_release(again.program);
  made_free(&m);
  end(&p);
}

// ---- quick code, several writers, want of memory ----

TEST(program_cache_keeps_full_code_alone) {
  Place p;
  Made m;
  char path[600];
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "tiers");
  made_init(&m, small);
  m.o.tier = TIER_QUICK;
  EXPECT(!make(&m) && m.r.target.quick);
  EXPECT(!program_file(p.folder, path, sizeof path));
  made_free(&m);
  made_init(&m, small);
  m.o.tier = TIER_AUTO;
  EXPECT(!make(&m) && m.r.target.quick);  // and waits for the full code
  EXPECT(program_file(p.folder, path, sizeof path));
  made_free(&m);
  made_init(&m, small);
  m.o.tier = TIER_QUICK;
  EXPECT(make(&m));
  made_free(&m);
  // Released while the full code is being made.
  made_init(&m, text);
  m.o.tier = TIER_AUTO;
  EXPECT(!compile_program(m.g, &m.o, NULL, &m.arena, &m.diag, &m.r));
  made_free(&m);
  end(&p);
}

static void *make_one(void *ctx) {
  Made *m = ctx;
  for (int i = 0; i < 4; i++) {
    made_init(m, small);
    make(m);
    made_free(m);
  }
  return NULL;
}

TEST(program_cache_many_writers) {
  enum { N = 4 };
  static Made m[N];
  pthread_t thread[N];
  Place p;
  Arena a;
  CacheList l;
  Diag d;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "writers");
  for (int i = 0; i < N; i++) EXPECT(!pthread_create(&thread[i], NULL, make_one, &m[i]));
  for (int i = 0; i < N; i++) pthread_join(thread[i], NULL);
  EXPECT(found(small));
  arena_init(&a);
  diag_init(&d);
  EXPECT_STATUS(cache_list(p.folder, true, &a, &d, &l), TENON_OK);
  EXPECT(l.nprograms == 1 && !l.nstray);
  for (int64_t i = 0; i < l.n; i++) EXPECT(l.file[i].whole);
  arena_deinit(&a);
  end(&p);
}

static int64_t allocs_left;
static void *refuse_alloc(int64_t bytes) {
  return allocs_left-- > 0 ? platform_posix.alloc(bytes) : NULL;
}

// Each allocation of the key and of finding fails in turn: nothing is found, and nothing is lost.
TEST(program_cache_without_memory) {
  Place p;
  Made m;
  Platform table = platform_posix;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "memory");
  EXPECT(!found(small));
  made_init(&m, small);
  table.alloc = refuse_alloc;
  table.chunk_bytes = 0;
  int64_t n = 0;
  for (bool done = false; !done && n < 4000; n++) {
    CompileReport r = {0};
    Arena a;
    Trap t;
    Diag d;
    arena_init(&a);
    diag_init(&d);
    platform = &table;
    allocs_left = n;
    trap_enter(&t, &d);
    if (setjmp(t.env) == 0) {
      ProgramKey k = program_key(m.g, &m.o, NULL, &a);
      done = program_find(&k, &a, &r);
      t.status = TENON_OK;
    }
    trap_leave(&t);
    platform = &platform_posix;
    program_release(r.program);
    arena_deinit(&a);
  }
  EXPECT(n > 10 && n < 4000);
  made_free(&m);
  end(&p);
}

// A folder that cannot be written: no error, and nothing is found.
TEST(program_cache_that_cannot_be_written) {
  Place p;
  if (!codegen_there()) SKIP("no code generator");
  begin(&p, "full");
  put_file(p.folder, "a file", 6);
  EXPECT(!found(small) && !found(small));
  unlink(p.folder);
  EXPECT(!found(small) && found(small));
  end(&p);
}
