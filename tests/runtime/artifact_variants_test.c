// artifact_variants_test.c -- several variants of a model in one file: what they share, which one
// is taken, and why not the others.
#include "codegen.h"
#include "compiled.h"
#include "runtime/artifact.h"
#include "runtime/session.h"
#include "targets/target.h"
#include "test.h"

// A constant of 3 KiB that both variants read as it is.
static const char *with_table(Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, "graph @\"two\"(%x: f32[768]) {\n  %k = const f32[768] {");
  for (int i = 0; i < 768; i++) strbuf_printf(&b, "%s%d.5", i ? ", " : "", i);
  strbuf_puts(&b, "}\n  %y = add(%x, %k)\n  %z = exp(%y)\n  return %z\n}\n");
  return strbuf_text(&b);
}

typedef struct Two {
  Arena arena;
  Diag diag;
  Program *variant[2];
  Str bytes;  // of both, in one file
} Two;

static tenon_status pack(Two *t, int n) {
  Str part[ARTIFACT_PARTS];
  StrBuf b;
  strbuf_init(&b, &t->arena);
  TRY(artifact_parts((const Program *const *)t->variant, n, false, &t->arena, &t->diag, part));
  for (int i = 0; i < ARTIFACT_PARTS; i++) strbuf_put(&b, part[i]);
  char *at = arena_alloc(&t->arena, b.n + 64);
  at += -(uintptr_t)at & 63;
  t->bytes = (Str){memcpy(at, b.p, (size_t)b.n), b.n};
  return TENON_OK;
}

static bool two_make(Two *t) {
  memset(t, 0, sizeof *t);
  arena_init(&t->arena);
  diag_init(&t->diag);
  const char *text = with_table(&t->arena);
  tenon_status s = compile_text(text, "host", &t->arena, &t->diag, &t->variant[0]);
  if (!s) s = compile_text(text, "cpu", &t->arena, &t->diag, &t->variant[1]);
  if (!s) s = pack(t, 2);
  if (s) FAIL("%s", t->diag.text);
  return !s;
}

static void two_free(Two *t) {
  for (int i = 0; i < 2; i++) program_release(t->variant[i]);
  arena_deinit(&t->arena);
}

static tenon_status load(Two *t, const char *target, DriverSpeed *speed, Program **out) {
  ArtifactLoad how = {.find = eval_find, .speed = speed, .target = target};
  diag_init(&t->diag);
  return artifact_load_memory(t->bytes.p, t->bytes.n, NULL, &how, &t->diag, out);
}

static bool gives_exp(Two *t, Program *p) {
  Session *s = NULL;
  Run run;
  Value *in, *out = NULL;
  int64_t n = 768;
  run_init(&run, NULL, &t->diag);
  tenon_status status = session_create(p, &(SessionOptions){.threads = 1}, &t->diag, &s);
  if (!status) status = value_tensor(&run, NOWHERE, DT_F32, 1, &n, &in);
  for (int64_t i = 0; !status && i < n; i++) ((float *)in->data)[i] = (float)-i;
  if (!status) status = session_run(s, &run, &in, NULL, &out);
  bool right = !status;
  for (int64_t i = 0; right && i < n; i++) {
    float e = ((float *)out->data)[i] - 1.6487213f;
    right = e < 1e-5f && e > -1e-5f;
  }
  run_deinit(&run);
  session_free(s);
  return right;
}

TEST(variants_share_constants) {
  Two t;
  if (!codegen_there()) SKIP("no tenon-codegen");
  if (two_make(&t)) {
    Program *p = NULL;
    ArtifactInfo info;
    EXPECT_STATUS(load(&t, NULL, NULL, &p), TENON_OK);
    REQUIRE(p);
    artifact_info(p, &info);
    EXPECT_INT_EQ(info.nvariants, 2);
    // The table is there once: what both need is no more than what one does, but for a page of
    // small things.
    EXPECT(info.constants_bytes < t.variant[0]->constants_bytes + 1024);
    EXPECT(t.variant[1]->constants_bytes >= 3072);
    program_release(p);
  }
  two_free(&t);
}

TEST(variants_fastest_is_taken) {
  Two t;
  if (!codegen_there()) SKIP("no tenon-codegen");
  if (two_make(&t)) {
    static const char *const forced[] = {NULL, "auto", "cpu", "host"};
    for (int i = 0; i < 4; i++) {
      Program *p = NULL;
      ArtifactInfo info;
      EXPECT_STATUS(load(&t, forced[i], NULL, &p), TENON_OK);
      REQUIRE(p);
      artifact_info(p, &info);
      EXPECT_STR_EQ(info.variant[info.chosen].target, i == 3 ? "host" : "cpu");
      EXPECT_STR_EQ(program_target(p, &t.arena), i == 3 ? "host" : "cpu");
      EXPECT(!info.variant[info.chosen].why_not);
      EXPECT_CONTAINS(info.variant[!info.chosen].why_not, i < 2 ? "faster" : "asked for");
      EXPECT(gives_exp(&t, p));
      program_release(p);
    }
    Program *p = NULL;
    EXPECT_STATUS(load(&t, "opencl", NULL, &p), TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(t.diag.text, "it was not compiled for opencl, but for: host; cpu");
  }
  two_free(&t);
}

TEST(variants_twice_the_same_are_refused) {
  Two t;
  if (!codegen_there()) SKIP("no tenon-codegen");
  if (two_make(&t)) {
    Program *was = t.variant[0];
    t.variant[0] = t.variant[1];
    EXPECT_STATUS(pack(&t, 2), TENON_EINVAL);
    EXPECT_CONTAINS(t.diag.text, "two variants are for target cpu");
    EXPECT_STATUS(pack(&t, 0), TENON_EUNSUPPORTED);
    t.variant[0] = was;
  }
  two_free(&t);
}

// ---- machines that lack something ----

TEST(variants_next_one_where_the_cpu_lacks_something) {
  Two t;
  if (!codegen_there()) SKIP("no tenon-codegen");
  if (two_make(&t)) {
    Program *p = NULL;
    ArtifactInfo info;
    const char *was = t.variant[1]->target;
    t.variant[1]->target = str_printf(&t.arena, "%s,+warp9", was);
    EXPECT_STATUS(pack(&t, 2), TENON_OK);
    EXPECT_STATUS(load(&t, NULL, NULL, &p), TENON_OK);
    REQUIRE(p);
    artifact_info(p, &info);
    EXPECT_STR_EQ(info.variant[info.chosen].target, "host");
    EXPECT_CONTAINS(info.variant[1].why_not, "warp9");
    EXPECT(gives_exp(&t, p));
    program_release(p);
    EXPECT_STATUS(load(&t, "cpu", NULL, &p), TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(t.diag.text, "warp9");
  }
  two_free(&t);
}

// A program that says it is for a device, as far as loading looks.
static void make_device(Two *t, int i) {
  Program *p = t->variant[i];
  p->ndevices = 2;
  p->device = arena_array(&p->arena, ProgDevice, 2);
  p->device[1] = (ProgDevice){.driver = "abacus", .made_for = "any", .code = STR("beads")};
}

static int asked;
static double no_abacus(const char *driver, const char **why) {
  asked++;
  *why = "all beads are lost";
  return strcmp(driver, "abacus") ? 1 : 0;
}
static double fast_abacus(const char *driver, const char **why) {
  (void)why;
  return strcmp(driver, "abacus") ? 0 : 1e18;
}

TEST(variants_of_devices_that_are_not_there) {
  Two t;
  if (!codegen_there()) SKIP("no tenon-codegen");
  if (two_make(&t)) {
    Program *p = NULL;
    ArtifactInfo info;
    make_device(&t, 0);
    EXPECT_STATUS(pack(&t, 2), TENON_OK);
    EXPECT_STATUS(load(&t, NULL, no_abacus, &p), TENON_OK);
    REQUIRE(p);
    EXPECT(asked > 0);
    artifact_info(p, &info);
    EXPECT_STR_EQ(info.variant[info.chosen].target, "cpu");
    EXPECT_CONTAINS(info.variant[0].why_not, "all beads are lost");
    EXPECT(!t.diag.len);
    EXPECT(gives_exp(&t, p));
    program_release(p);
    EXPECT_STATUS(load(&t, NULL, fast_abacus, &p), TENON_OK);
    artifact_info(p, &info);
    EXPECT_STR_EQ(info.variant[info.chosen].target, "abacus");
    program_release(p);
    EXPECT_STATUS(load(&t, "abacus", no_abacus, &p), TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(t.diag.text, "target abacus is not here: abacus: all beads are lost");
    // Alone in its file it has nothing to fall back on.
    EXPECT_STATUS(pack(&t, 1), TENON_OK);
    EXPECT_STATUS(load(&t, NULL, no_abacus, &p), TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(t.diag.text, "it was compiled for abacus, which is not here");
    // A split one needs all its machines.
    make_device(&t, 1);
    Program *first = t.variant[0];
    t.variant[0] = t.variant[1];
    t.variant[1] = first;
    EXPECT_STATUS(pack(&t, 1), TENON_OK);
    EXPECT_STATUS(load(&t, NULL, NULL, &p), TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(t.diag.text, "it was compiled for cpu,abacus, which is not here: abacus:");
  }
  two_free(&t);
}

TEST(variants_damage_anywhere_is_found) {
  Two t;
  if (!codegen_there()) SKIP("no tenon-codegen");
  if (two_make(&t)) {
    char *bytes = (char *)(uintptr_t)t.bytes.p;
    for (int64_t i = 0; i < t.bytes.n; i += i < 1024 ? 1 : 61) {
      Program *p = NULL;
      bytes[i] ^= 16;
      tenon_status s = load(&t, NULL, NULL, &p);
      if (s != TENON_EFORMAT && s != TENON_EUNSUPPORTED) FAIL("byte %lld: %d", (long long)i, s);
      bytes[i] ^= 16;
      program_release(p);
    }
  }
  two_free(&t);
}
