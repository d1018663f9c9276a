// codegen_test.c -- generated code against the interpreter, bit for bit.
//
// Every argument ends at a page that nobody may touch, so that an access past it ends the test.
// The same kernels are made for this machine and for its lesser levels, which take other paths (no
// masks, no FMA, no conversions).
#include "codegen.h"
#include "codegen_fixture.h"
#include "math_check.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// Runs both; the two must agree on the check that fails as well.
static void run_both(CodegenFixture *f, const Machine *m, const char *where) {
  Mapped code = codegen_map(f->k, CODE_IMAGE, m, &f->arena);
  if (!code.fn) return;
  int64_t n = codegen_items(f), scratch_bytes = loop_scratch_bytes(f->k);
  int32_t failed;
  tenon_status s = loop_interpret(f->k, f->arg[0], f->size, f->dims, 0, n, &f->d, &failed);
  void *scratch = aligned_alloc(64, (size_t)(scratch_bytes + 63) / 64 * 64 + 64);
  int32_t got = 0;
  for (int64_t i = 0; i < n && !got; i += 3)  // in pieces, as threads would take them
    got = code.fn(f->arg[1], f->dims, i, MIN(i + 3, n), scratch);
  free(scratch);
  if (s) {  // an operation without result
    EXPECT_INT_EQ(got, f->k->nchecks + 1);
  } else if (failed >= 0) {
    EXPECT_INT_EQ(got, failed + 1);
  } else {
    EXPECT_INT_EQ(got, 0);
    codegen_compare(f, where);
  }
  codegen_unmap(code);
}

static void expect_same_on(const Machine *m, const char *where, const char *text,
                           const int64_t *dims) {
  CodegenFixture f;
  if (!codegen_open(&f, text, dims)) return;
  run_both(&f, m, where);
  codegen_close(&f);
}

// This machine, and the levels below it.
static void expect_same(const char *text, const int64_t *dims) {
  static const char *const level[] = {"x86-64", "x86-64-v2", "x86-64-v3"};
  Machine host;
  machine_host(&host);
  expect_same_on(&host, host.cpu, text, dims);
  for (int i = 0; i < ARRAY_LEN(level) && host.arch == ARCH_X86_64; i++) {
    Machine m;
    REQUIRE(codegen_machine("x86_64-pc-linux-gnu", level[i], "", &m));
    if ((m.has & host.has) == m.has) expect_same_on(&m, level[i], text, dims);
  }
}
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define NEED_CODEGEN()                                                                             \
  if (!codegen_there()) SKIP("tenon-codegen was not built")

// ---- kernels ----

TEST(codegen_pointwise) {
  NEED_CODEGEN();
  static const int64_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 129, 1000};
  for (int i = 0; i < ARRAY_LEN(sizes); i++) {
    char text[600];
    snprintf(
        text, sizeof text,
        "kernel @fixed (%%x: f32[3*%d], %%b: f32[%d], out %%y: f32[3*%d]) {\n parallel r < 3 {\n"
        "  vector i < %d {\n   let %%v0: f32 = mul(%%x[%d*r + i], %%b[i])\n"
        "   store %%y[%d*r + i] = add(relu(%%v0), 0x1.8p-1)\n  }\n }\n}\n",
        (int)sizes[i], (int)sizes[i], (int)sizes[i], (int)sizes[i], (int)sizes[i], (int)sizes[i]);
    expect_same(text, NULL);
    expect_same(
        "kernel @symbolic dims(n in [0, 4096]) (%x: f32[3*n], %b: f32[n], out %y: f32[3*n]) {\n"
        " parallel r < 3 {\n  vector i < n {\n   store %y[n*r + i] = max(min(div(%x[n*r + i], "
        "%b[i]), %x[n*r + i]), %b[i])\n"
        "  }\n }\n}\n",
        DIMS(sizes[i]));
  }
}

TEST(codegen_shapes) {
  NEED_CODEGEN();
  for (int i = 0; codegen_shapes[i]; i++) expect_same(codegen_shapes[i], NULL);
}

TEST(codegen_thread_blocks) {  // threads one after the other
  NEED_CODEGEN();
  for (int i = 0; codegen_groups[i]; i++) expect_same(codegen_groups[i], NULL);
}

TEST(codegen_reductions) {
  NEED_CODEGEN();
  static const char *const ops[][2] = {
      {"add", "f32"}, {"mul", "f64"},  {"max", "f32"},  {"min", "f16"},     {"add", "i32"},
      {"max", "u8"},  {"and", "bool"}, {"xor", "bool"}, {"bit_xor", "i64"}, {"add", "bf16"}};
  static const int sizes[] = {1, 5, 16, 63, 64, 65, 200, 1000};
  for (int i = 0; i < ARRAY_LEN(ops); i++)
    for (int lanes = 1; lanes <= 64; lanes *= 2)
      for (int j = 0; j < ARRAY_LEN(sizes); j++) {
        if (i && (i + j + __builtin_ctz((unsigned)lanes)) % 6) continue;  // the first op in full
        if (!test_takes()) continue;
        char text[600];
        snprintf(text, sizeof text,
                 "kernel @reduce dims(n in [0, 4096]) (%%x: %s[2*n], out %%y: %s[2], %%u: "
                 "%s[2*%d], out %%v: %s[2]) {\n parallel i < 2 {\n"
                 "  reduce %%v0: %s = %s lanes %d over k < n {\n   yield %%x[n*i + k]\n  }\n  "
                 "store %%y[i] = %%v0\n"
                 "  reduce %%v1: %s = %s lanes %d over l < %d {\n   yield %%u[%d*i + l]\n  }\n  "
                 "store %%v[i] = %%v1\n }\n}\n",
                 ops[i][1], ops[i][1], ops[i][1], sizes[j], ops[i][1], ops[i][1], ops[i][0], lanes,
                 ops[i][1], ops[i][0], lanes, sizes[j], sizes[j]);
        expect_same(text, DIMS(sizes[j] % 100));
      }
}

TEST(codegen_binds) {
  NEED_CODEGEN();
  const char *gather = "kernel @gather (%x: f32[330], %ids: i64[33], out %z: f32[330]) {\n "
                       "parallel i < 10 {\n  vector j < 33 {\n"
                       "   bind k < 33 = mod(%ids[j], 33) check \"index\"\n   store %z[33*i + j] = "
                       "%x[33*i + k]\n  }\n }\n}\n";
  const char *scalar =
      "kernel @rows (%x: f32[80], %ids: i32[10], out %z: f32[160]) {\n parallel i < 10 {\n"
      "  bind k < 5 = mod(%ids[i], i32(5)) check \"index\"\n  vector j < 16 {\n   store %z[16*i + "
      "j] = %x[16*k + j]\n  }\n }\n}\n";
  const char *fails = "kernel @fails (%x: f32[80], %ids: i64[20], out %z: f32[20]) {\n parallel i "
                      "< 2 {\n  vector j < 10 {\n"
                      "   bind k < 4 = %ids[10*i + j] check \"first\"\n   bind l < 80 = %ids[10*i "
                      "+ j] check \"second\"\n   store %z[10*i + j] = %x[k + 0*l]\n  }\n }\n}\n";
  const char *zero = "kernel @zero (%x: i32[40], %y: i32[40], out %z: i32[40]) {\n parallel i < 4 "
                     "{\n  vector j < 10 {\n"
                     "   store %z[10*i + j] = div(%x[10*i + j], %y[10*i + j])\n  }\n }\n}\n";
  expect_same(gather, NULL);
  expect_same(scalar, NULL);
  expect_same(fails, NULL);
  expect_same(zero, NULL);
}

TEST(codegen_casts) {
  NEED_CODEGEN();
  for (int i = 0; i < codegen_ntypes; i++) {
    Arena a;
    arena_init(&a);
    if (test_takes()) expect_same(codegen_casts_text(&a, i), NULL);
    arena_deinit(&a);
  }
}

TEST(codegen_operations) {
  NEED_CODEGEN();
  for (int i = 0; i < codegen_ntypes; i++)
    for (int vector = 0; vector < 2; vector++)
      for (int half = 0; half < 2; half++) {
        Arena a;
        arena_init(&a);
        const char *text = codegen_ops_text(&a, i, half, vector);
        if (text && test_takes()) expect_same(text, NULL);
        arena_deinit(&a);
      }
}

// ---- math functions: samples here; tests/targets/llvm/math_exhaustive.c has every f32 ----

static void expect_near(const char *name, const char *type, const Machine *m, MathWorst w) {
  if (!(w.ulps <= 2))
    FAIL("%s of %s on %s: %a, %a gives %a, %g units off", name, type, m->cpu, w.x, w.y, w.got,
         w.ulps);
}

TEST(codegen_math) {
  NEED_CODEGEN();
  Machine m[3];  // other registers have other tables, and SSE2 has none
  machine_host(&m[0]);
  REQUIRE(codegen_machine("x86_64-pc-linux-gnu", "x86-64", "", &m[1]));
  REQUIRE(codegen_machine("x86_64-pc-linux-gnu", "x86-64-v3", "", &m[2]));
  int machines = m[0].arch != ARCH_X86_64 ? 1 : m[0].has & CPU_AVX2 ? 3 : 2;
  for (int k = 0; k < machines; k++) {
    for (int i = 0; i < math_nrows; i++) {
      expect_near(math_rows[i].name, "f32", &m[k],
                  math_check_f32(&math_rows[i], &m[k], 1, 65521, 1 << 16));
      // Two infinities: what has a limit there has it exactly.
      if (!strcmp(math_rows[i].name, "tanh") || !strcmp(math_rows[i].name, "erf"))
        EXPECT(math_check_f32(&math_rows[i], &m[k], 0x7f800000, 0x80000000, 2).ulps == 0);
      expect_near(math_rows[i].name, "f64", &m[k],
                  math_check_f64(&math_rows[i], &m[k], 1 << 16, 7));
    }
    expect_near("pow", "f32", &m[k], math_check_pow(DT_F32, &m[k], 1 << 16, 3));
    expect_near("pow", "f64", &m[k], math_check_pow(DT_F64, &m[k], 1 << 16, 3));
  }
}

// ---- other machines: what they get cannot run here, but must be whole: code that calls nothing
// ----

static void expect_code(const Machine *m, CodeKind kind, const char *text) {
  CodegenFixture f;
  f = (CodegenFixture){0};
  arena_init(&f.arena);
  intpool_init(&f.pool, &f.arena);
  diag_init(&f.d);
  CodeReply r;
  if (loop_parse(str_of(text), NULL, &f.arena, &f.pool, &f.d, &f.k)) {
    FAIL("%s\n%s", f.d.text, text);
  } else {
    CodeRequest q = codegen_request(kind, m, f.k, &f.arena);
    if (!codegen_ask(&q, &f.arena, &r)) {
      FAIL("tenon-codegen does not answer for %s", m->triple);
    } else if (r.status || !r.bytes.n) {
      FAIL("%s %s: %.*s\n%s", m->triple, m->features, STR_ARG(r.message), text);
    }
  }
  arena_deinit(&f.arena);
}

// Kernels that reach outside an argument, each in one way; checked, they end before that.
TEST(codegen_checks_accesses) {
  NEED_CODEGEN();
  static const char *const texts[] = {
      "store %y[i] = %x[i + 1]",                                            // a load past the end
      "store %y[i] = %x[i - 1]",                                            // before the start
      "store %y[i + 40] = %x[i]",                                           // a store past the end
      "vector j < 8 {\n store %y[i] = %x[i]\n store %y[35*j] = %x[j]\n }",  // lanes apart
      "vector j < 16 {\n store %y[i + j] = %x[16*i]\n }",                   // a run, a broadcast
  };
  Machine m;
  machine_host(&m);
  for (int i = 0; i < ARRAY_LEN(texts); i++) {
    CodegenFixture f;
    char text[400];
    snprintf(
        text, sizeof text,
        "kernel @outside (%%x: f32[40], out %%y: f32[40]) {\n parallel i < 40 {\n  %s\n }\n}\n",
        texts[i]);
    REQUIRE(codegen_open(&f, text, NULL));
    EXPECT(loop_verify(f.k, &f.d));
    Mapped code = codegen_map(f.k, CODE_CHECKED, &m, &f.arena);
    if (code.fn) EXPECT_INT_EQ(code.fn(f.arg[1], f.dims, 0, 40, NULL), 2);
    codegen_unmap(code);
    codegen_close(&f);
  }
}

TEST(codegen_other_machines) {
  NEED_CODEGEN();
  static const char *const machines[][2] = {{"aarch64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", "+v"}};
  for (int i = 0; i < ARRAY_LEN(machines); i++) {
    Machine m;
    REQUIRE(codegen_machine(machines[i][0], "", machines[i][1], &m));
    for (int j = 0; codegen_shapes[j]; j++) expect_code(&m, CODE_IMAGE, codegen_shapes[j]);
    for (int j = 0; j < math_nrows; j++)
      for (int wide = 0; wide < 2; wide++) {
        char text[300];
        const char *t = wide ? "f64" : "f32";
        snprintf(
            text, sizeof text,
            "kernel @math (%%x: %s[64], out %%y: %s[64]) {\n parallel i < 4 {\n  vector j < 16 {\n"
            "   store %%y[16*i + j] = %s(%%x[16*i + j])\n  }\n }\n}\n",
            t, t, math_rows[j].name);
        if (test_takes()) expect_code(&m, CODE_IMAGE, text);
      }
    for (int kind = 0; kind < CODE_KINDS; kind++)
      expect_code(&m, (CodeKind)kind, codegen_shapes[0]);
  }
}

TEST(codegen_other_machines_casts) {
  NEED_CODEGEN();
  static const char *const machines[][2] = {{"aarch64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", "+v"}};
  for (int k = 0; k < ARRAY_LEN(machines); k++)
    for (int i = 0; i < codegen_ntypes; i++) {
      Machine m;
      REQUIRE(codegen_machine(machines[k][0], "", machines[k][1], &m));
      Arena a;
      arena_init(&a);
      if (test_takes()) expect_code(&m, CODE_IMAGE, codegen_casts_text(&a, i));
      arena_deinit(&a);
    }
}

// ---- what is no kernel, or none that can be had ----

static tenon_status status_of(CodeRequest q) {
  Arena a;
  arena_init(&a);
  CodeReply r;
  tenon_status s = codegen_ask(&q, &a, &r) ? r.status : TENON_EIO;
  EXPECT(s == TENON_OK || (r.message.n && !r.bytes.n));
  arena_deinit(&a);
  return s;
}

TEST(codegen_refuses) {
  NEED_CODEGEN();
  CodeRequest q = {.triple = STR("x86_64-pc-linux-gnu"),
                   .symbol = STR("kernel"),
                   .kernel = STR("kernel @k () {")};
  EXPECT(status_of(q) != TENON_OK);
  q.kernel = STR("kernel @k (%x: f32[4], out %y: f32[4]) {\n  parallel i < 5 {\n    store %y[i] = "
                 "%x[i]\n  }\n}\n");
  EXPECT(status_of(q) != TENON_OK);  // out of range
  q.kernel = STR("kernel @k (%x: f32[4], out %y: f32[4]) {\n  parallel i < 4 {\n    store %y[i] = "
                 "%x[i]\n  }\n}\n");
  EXPECT_INT_EQ(status_of(q), TENON_OK);  // it still serves
  q.triple = STR("vax-dec-ultrix");
  EXPECT_INT_EQ(status_of(q), TENON_EUNSUPPORTED);
  q.triple = STR("x86_64-pc-linux-gnu");
  q.symbol = (Str){0};
  EXPECT_INT_EQ(status_of(q), TENON_EINVAL);
}
