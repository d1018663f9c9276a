// codegen_test.c -- generated code against the interpreter, bit for bit.
//
// Every argument ends at a page that nobody may touch, so that an access past it ends the test.  The same kernels
// are made for this machine and for its lesser levels, which take other paths (no masks, no FMA, no conversions).
#include "codegen.h"
#include "math_check.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MAX_ARGS = 12 };

typedef struct Fixture {
  Arena arena;
  IntPool pool;
  Diag d;
  LoopKernel *k;
  int64_t dims[8], size[MAX_ARGS];
  void *arg[2][MAX_ARGS], *map[2][MAX_ARGS];
  int64_t map_bytes[MAX_ARGS];
  uint64_t rng;
} Fixture;

static uint64_t rnd(Fixture *f) {
  f->rng = f->rng * 6364136223846793005u + 1442695040888963407u;
  return hash_u64(f->rng);
}

// ---- arguments ----

static double some_float(Fixture *f, DType t) {
  static const double special[] = {0.0, -0.0,  1.0,  -1.0,  0.5,          INFINITY, -INFINITY,
                                   NAN, 1e-40, 3e38, 65504, 2147483648.0, -1e19,    255.5};
  uint64_t r = rnd(f);
  if (r % 16 == 0) return special[r / 16 % (uint64_t)ARRAY_LEN(special)];
  double u = (double)(rnd(f) >> 11) * 0x1p-53 * 2 - 1;
  if (r % 4 == 1) return u * ldexp(1, (int)(r >> 32) % 40 - 20);
  return t == DT_F64 ? u * 7 : (double)(float)(u * 7);
}

static void fill(Fixture *f, DType t, void *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (dtype_is_float(t)) {
      put_f64(t, p, i, some_float(f, t));
    } else if (t == DT_BOOL) {
      ((uint8_t *)p)[i] = rnd(f) & 1;
    } else {
      uint64_t r = rnd(f);
      put_i64(t, p, i, r % 3 == 0 ? (int64_t)(rnd(f)) : (int64_t)(r >> 32) % 9 - 4);
    }
  }
}

static void make_arg(Fixture *f, int i) {
  const LoopBuffer *b = &f->k->buffer[i];
  bool bound[64] = {0};
  int64_t bind[64] = {0}, bytes = 0;
  for (int j = 0; j < f->k->ndims; j++) {
    bound[f->k->dim[j]->slot] = true;
    bind[f->k->dim[j]->slot] = f->dims[j];
  }
  REQUIRE(ie_eval(b->size, bind, bound, 64, &f->size[i]) &&
          dtype_bytes(b->dtype, f->size[i], &bytes));
  int64_t whole = (bytes + 4095) / 4096 * 4096, used = (bytes + 63) / 64 * 64;
  f->map_bytes[i] = whole + 4096;
  for (int side = 0; side < 2; side++) {
    char *p = mmap(NULL, (size_t)f->map_bytes[i], PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    mprotect(p + whole, 4096, PROT_NONE);
    f->map[side][i] = p;
    f->arg[side][i] = p + whole - used;
  }
  fill(f, b->dtype, f->arg[0][i], f->size[i]);
  memcpy(f->arg[1][i], f->arg[0][i], (size_t)bytes);
}

// ---- comparison ----

static bool same(DType t, const void *a, const void *b, int64_t i) {
  int64_t n = dtype_bits(t) / 8;
  if (!memcmp((const char *)a + i * n, (const char *)b + i * n, (size_t)n)) return true;
  return dtype_is_float(t) && isnan(get_f64(t, a, i)) && isnan(get_f64(t, b, i));
}

static void compare(Fixture *f, const char *where) {
  for (int i = 0; i < f->k->nargs; i++) {
    const LoopBuffer *b = &f->k->buffer[i];
    for (int64_t j = 0; j < f->size[i]; j++) {
      if (same(b->dtype, f->arg[0][i], f->arg[1][i], j)) continue;
      if (dtype_is_float(b->dtype))
        FAIL("%s, kernel '%s': %s[%lld] is %a, the interpreter has %a", where, f->k->name, b->name,
             (long long)j, get_f64(b->dtype, f->arg[1][i], j), get_f64(b->dtype, f->arg[0][i], j));
      else
        FAIL("%s, kernel '%s': %s[%lld] is %lld, the interpreter has %lld", where, f->k->name,
             b->name, (long long)j, (long long)get_i64(b->dtype, f->arg[1][i], j),
             (long long)get_i64(b->dtype, f->arg[0][i], j));
      return;
    }
  }
}

typedef struct Prepared {
  Fixture f;
  int64_t items;
} Prepared;

static bool open_fixture(Fixture *f, const char *text, const int64_t *dims) {
  *f = (Fixture){.rng = 1};
  arena_init(&f->arena);
  intpool_init(&f->pool, &f->arena);
  diag_init(&f->d);
  if (loop_parse(str_of(text), NULL, &f->arena, &f->pool, &f->d, &f->k)) {
    FAIL("%s\n%s", f->d.text, text);
    arena_deinit(&f->arena);
    return false;
  }
  for (int i = 0; dims && i < f->k->ndims; i++) f->dims[i] = dims[i];
  for (int i = 0; i < f->k->nargs; i++) make_arg(f, i);
  return true;
}

static void close_fixture(Fixture *f) {
  for (int i = 0; i < f->k->nargs; i++)
    for (int side = 0; side < 2; side++) munmap(f->map[side][i], (size_t)f->map_bytes[i]);
  arena_deinit(&f->arena);
}

static int64_t items_of(Fixture *f) {
  bool bound[64] = {0};
  int64_t bind[64] = {0}, n = 0;
  for (int j = 0; j < f->k->ndims; j++) {
    bound[f->k->dim[j]->slot] = true;
    bind[f->k->dim[j]->slot] = f->dims[j];
  }
  return ie_eval(loop_items(f->k), bind, bound, 64, &n) ? n : 0;
}

// Runs both; the two must agree on the check that fails as well.
static void run_both(Fixture *f, const Machine *m, const char *where) {
  Mapped code = codegen_map(f->k, m, &f->arena);
  if (!code.fn) return;
  int64_t n = items_of(f), scratch_bytes = loop_scratch_bytes(f->k);
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
    compare(f, where);
  }
  codegen_unmap(code);
}

static void expect_same_on(const Machine *m, const char *where, const char *text,
                           const int64_t *dims) {
  Fixture f;
  if (!open_fixture(&f, text, dims)) return;
  run_both(&f, m, where);
  close_fixture(&f);
}

// This machine, and the levels below it.
static void expect_same(const char *text, const int64_t *dims) {
  static const char *const level[] = {"x86-64", "x86-64-v2", "x86-64-v3"};
  Machine host;
  machine_host(&host);
  expect_same_on(&host, host.cpu, text, dims);
  for (int i = 0; i < ARRAY_LEN(level) && host.arch == ARCH_X86_64; i++) {
    Machine m;
    REQUIRE(machine_make(STR("x86_64-pc-linux-gnu"), str_of(level[i]), (Str){0}, &m));
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

static const char *const shapes[] = {
    "kernel @broadcast (%x: f32[40], %y: f32[30], out %z: f32[1200]) {\n parallel i < 30 {\n  "
    "vector j < 40 {\n"
    "   store %z[40*i + j] = sub(%x[j], %y[i])\n  }\n }\n}\n",
    "kernel @transpose (%x: f32[1200], out %z: f32[1200]) {\n parallel i < 30 {\n  vector j < 40 "
    "{\n"
    "   store %z[40*i + j] = %x[30*j + i]\n  }\n }\n}\n",
    "kernel @scatter (%x: f64[1200], out %z: f64[1200]) {\n parallel i < 30 {\n  vector j < 40 {\n"
    "   store %z[30*j + i] = %x[40*i + j]\n  }\n }\n}\n",
    "kernel @reverse (%x: i32[100], out %z: i32[100]) {\n parallel i < 2 {\n  vector j < 50 {\n"
    "   store %z[50*i + j] = %x[50*i - j + 49]\n  }\n }\n}\n",
    "kernel @pieces (%x: f32[2048], out %z: f32[2048]) {\n parallel i < 2 {\n  vector j < 1024 {\n"
    "   store %z[1024*i + j] = %x[64*mod(floor(j/32), 2) + mod(j, 32) + 128*floor(j/64) - "
    "32*mod(floor(j/32), 2) + 0*i]\n  }\n }\n}\n",
    "kernel @bytes (%x: u8[333], %m: bool[333], out %z: u8[333], out %n: bool[333]) {\n parallel i "
    "< 3 {\n  vector j < 111 {\n"
    "   store %z[111*i + j] = select(%m[111*i + j], %x[111*i + j], u8(7))\n   store %n[111*i + j] "
    "= and(%m[111*i + j], lt(%x[111*i + j], u8(100)))\n  }\n }\n}\n",
    "kernel @pad (%x: f32[100], out %z: f32[168]) {\n parallel i < 12 {\n  vector j < 14 {\n"
    "   store %z[14*i + j] = where(h = i - 1 < 10, w = j - 2 < 10) %x[10*h + w] else -inf\n  }\n "
    "}\n}\n",
    "kernel @pad_zero (%x: f32[100], out %z: f32[168]) {\n parallel i < 12 {\n  vector j < 14 {\n"
    "   store %z[14*i + j] = where(h = i - 1 < 10, w = j - 2 < 10) %x[10*h + w]\n  }\n }\n}\n",
    "kernel @pad_scalar (%x: f32[10], out %z: f32[14]) {\n parallel i < 14 {\n"
    "  store %z[i] = add(where(h = i - 2 < 10) %x[h], 1.0)\n }\n}\n",
    "kernel @pad_strided (%x: f32[100], out %z: f32[168]) {\n parallel i < 12 {\n  vector j < 14 "
    "{\n"
    "   store %z[14*i + j] = where(h = i - 1 < 10, w = j - 2 < 10) %x[10*w + h] else 2.0\n  }\n "
    "}\n}\n",
    "kernel @store_where (%x: f32[168], out %z: f32[100]) {\n parallel i < 12 {\n  vector j < 14 "
    "{\n"
    "   store where(h = i - 1 < 10, w = j - 2 < 10) %z[10*h + w] = %x[14*i + j]\n  }\n }\n}\n",
    "kernel @branches (%x: f32[200], out %z: f32[200]) {\n parallel i < 4 {\n  vector j < 50 {\n"
    "   if lt(%x[50*i + j], 0.0) {\n    store %z[50*i + j] = 1.0\n   } else {\n    store %z[50*i + "
    "j] = %x[50*i + j]\n   }\n  }\n }\n}\n",
    "kernel @index (%x: f32[200], out %z: f32[200], out %k: i64[200]) {\n parallel i < 4 {\n  "
    "vector j < 50 {\n"
    "   store %z[50*i + j] = mul(cast[f32]([50*i + j]), %x[50*i + j])\n   store %k[50*i + j] = "
    "[3*i - 2*j]\n  }\n }\n}\n",
    "kernel @serial (%x: i64[120], out %z: i64[120]) {\n scratch %t: i64[10]\n parallel i < 12 {\n "
    " for j1 < 10 {\n"
    "   store %t[j1] = add(%x[10*i + j1], 3)\n  }\n  for j2 < 10 {\n   store %z[10*i + j2] = "
    "mul(%t[9 - j2], %t[j2])\n  }\n }\n}\n",
    "kernel @tile (%a: f32[140], %b: f32[320], out %c: f32[448]) {\n register %acc: f32[448]\n "
    "parallel z < 1 {\n"
    "  unroll i1 < 14 {\n   vector j2 < 32 {\n    store %acc[32*i1 + j2] = 0.0\n   }\n  }\n"
    "  for k3 < 10 {\n   unroll i4 < 14 {\n    vector j5 < 32 {\n     store %acc[32*i4 + j5] = "
    "fma(%a[10*i4 + k3], %b[32*k3 + j5], %acc[32*i4 + j5])\n    }\n   }\n  }\n"
    "  unroll i6 < 14 {\n   vector j7 < 32 {\n    store %c[32*i6 + j7] = relu(%acc[32*i6 + j7])\n  "
    " }\n  }\n }\n}\n",
    "kernel @odd_tile (%a: f32[30], %b: f32[210], out %c: f32[63]) {\n register %acc: f32[63]\n "
    "parallel z < 1 {\n"
    "  unroll i1 < 3 {\n   vector j2 < 21 {\n    store %acc[21*i1 + j2] = 0.0\n   }\n  }\n"
    "  for k3 < 10 {\n   unroll i4 < 3 {\n    vector j5 < 21 {\n     store %acc[21*i4 + j5] = "
    "fma(%a[10*i4 + k3], %b[21*k3 + j5], %acc[21*i4 + j5])\n    }\n   }\n  }\n"
    "  unroll i6 < 3 {\n   vector j7 < 21 {\n    store %c[21*i6 + j7] = %acc[21*i6 + j7]\n   }\n  "
    "}\n }\n}\n",
    "kernel @inner (%x: f32[640], out %z: f32[64]) {\n parallel i < 2 {\n  vector j < 32 {\n"
    "   reduce %v0: f32 = add lanes 1 over k < 10 {\n    yield %x[320*i + 32*k + j]\n   }\n   "
    "store %z[32*i + j] = %v0\n  }\n }\n}\n",
};

TEST(codegen_shapes) {
  NEED_CODEGEN();
  for (int i = 0; i < ARRAY_LEN(shapes); i++) expect_same(shapes[i], NULL);
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
        if ((i + j + lanes) % 3 && i > 0) continue;  // the first op in full
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

static const char *const all_types[] = {"f32",  "u8",     "i8",      "u16",    "i16",     "i32",
                                        "i64",  "bool",   "f16",     "f64",    "u32",     "u64",
                                        "bf16", "f8e4m3", "f8e4m3z", "f8e5m2", "f8e5m2z", "f8e8m0"};

TEST(codegen_casts) {
  NEED_CODEGEN();
  for (int i = 0; i < ARRAY_LEN(all_types); i++)
    for (int j = 0; j < ARRAY_LEN(all_types); j++) {
      if (i == j) continue;
      char text[400];
      snprintf(
          text, sizeof text,
          "kernel @cast (%%x: %s[999], out %%y: %s[999]) {\n parallel i < 3 {\n  vector j < 333 {\n"
          "   store %%y[333*i + j] = cast[%s](%%x[333*i + j])\n  }\n }\n}\n",
          all_types[i], all_types[j], all_types[j]);
      expect_same(text, NULL);
    }
}

// Operations whose result is exact, or rounded once: one kernel a row and dtype.
typedef struct OpRow {
  const char *expr, *types;  // types by letter: f floats, i signed, u unsigned, b bool
} OpRow;
static const OpRow op_rows[] = {
    {"add(X, Y)", "fiu"},
    {"sub(X, Y)", "fiu"},
    {"mul(X, Y)", "fiu"},
    {"div(X, Y)", "f"},
    {"div(X, bit_or(Y, Z))", "iu"},
    {"mod(X, Y)", "f"},
    {"fmod(X, Y)", "f"},
    {"mod(X, bit_or(Y, Z))", "iu"},
    {"fmod(X, bit_or(Y, Z))", "iu"},
    {"pow(X, Y)", "iu"},
    {"min(X, Y)", "fiub"},
    {"max(X, Y)", "fiub"},
    {"and(X, Y)", "b"},
    {"or(X, Y)", "b"},
    {"xor(X, Y)", "b"},
    {"not(X)", "b"},
    {"bit_and(X, Y)", "iu"},
    {"bit_or(X, Y)", "iu"},
    {"bit_xor(X, Y)", "iu"},
    {"bit_not(X)", "iu"},
    {"shift_left(X, Y)", "iu"},
    {"shift_right(X, Y)", "iu"},
    {"neg(X)", "fiu"},
    {"abs(X)", "fiu"},
    {"sign(X)", "fiu"},
    {"ceil(X)", "f"},
    {"floor(X)", "f"},
    {"round(X)", "f"},
    {"sqrt(X)", "f"},
    {"reciprocal(X)", "f"},
    {"relu(X)", "fiu"},
    {"fma(X, Y, X)", "f"},
    {"select(lt(X, Y), X, Y)", "fiu"},
    {"select(le(X, Y), X, Y)", "fiu"},
    {"select(eq(X, Y), X, Y)", "fiub"},
};

static char class_letter(const char *t) {
  return t[0] == 'f' || !strcmp(t, "bf16") ? 'f' : t[0] == 'b' ? 'b' : t[0];
}

static void put_operands(StrBuf *b, const char *expr, const char *type, bool vector) {
  for (; *expr; expr++)
    if (*expr == 'X')
      strbuf_puts(b, vector ? "%x[50*i + j]" : "%x[i]");
    else if (*expr == 'Y')
      strbuf_puts(b, vector ? "%y[50*i + j]" : "%y[i]");
    else if (*expr == 'Z')
      strbuf_printf(b, "%s(1)", type);
    else
      strbuf_putc(b, *expr);
}

TEST(codegen_operations) {
  NEED_CODEGEN();
  for (int i = 0; i < ARRAY_LEN(op_rows); i++)
    for (int j = 0; j < ARRAY_LEN(all_types); j++)
      for (int vector = 0; vector < 2; vector++) {
        const char *t = all_types[j];
        if (!strchr(op_rows[i].types, class_letter(t)) || !strcmp(t, "f8e8m0")) continue;
        Arena a;
        arena_init(&a);
        StrBuf b;
        strbuf_init(&b, &a);
        strbuf_printf(
            &b, "kernel @op (%%x: %s[450], %%y: %s[450], out %%z: %s[450]) {\n parallel i < %d {\n",
            t, t, t, vector ? 9 : 450);
        strbuf_puts(&b, vector ? "vector j < 50 { store %z[50*i + j] = " : "store %z[i] = ");
        put_operands(&b, op_rows[i].expr, t, vector);
        strbuf_puts(&b, vector ? "\n}\n }\n}\n" : "\n }\n}\n");
        expect_same(strbuf_text(&b), NULL);
        arena_deinit(&a);
      }
}

// ---- math functions: samples here; tests/math_exhaustive.c has every f32 ----

static void expect_near(const char *name, const char *type, const Machine *m, MathWorst w) {
  if (!(w.ulps <= 2))
    FAIL("%s of %s on %s: %a, %a gives %a, %g units off", name, type, m->cpu, w.x, w.y, w.got,
         w.ulps);
}

TEST(codegen_math) {
  NEED_CODEGEN();
  Machine m[2];
  machine_host(&m[0]);
  REQUIRE(machine_make(STR("x86_64-pc-linux-gnu"), STR("x86-64"), (Str){0}, &m[1]));
  for (int k = 0; k < (m[0].arch == ARCH_X86_64 ? 2 : 1); k++) {
    for (int i = 0; i < math_nrows; i++) {
      expect_near(math_rows[i].name, "f32", &m[k],
                  math_check_f32(&math_rows[i], &m[k], 1, 65521, 1 << 16));
      expect_near(math_rows[i].name, "f64", &m[k],
                  math_check_f64(&math_rows[i], &m[k], 1 << 16, 7));
    }
    expect_near("pow", "f32", &m[k], math_check_pow(DT_F32, &m[k], 1 << 16, 3));
    expect_near("pow", "f64", &m[k], math_check_pow(DT_F64, &m[k], 1 << 16, 3));
  }
}

// ---- other machines: what they get cannot run here, but must be whole: code that calls nothing ----

static void expect_code(const Machine *m, CodeKind kind, const char *text) {
  Fixture f;
  f = (Fixture){0};
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

TEST(codegen_other_machines) {
  NEED_CODEGEN();
  static const char *const machines[][2] = {{"aarch64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", "+v"}};
  for (int i = 0; i < ARRAY_LEN(machines); i++) {
    Machine m;
    REQUIRE(machine_make(str_of(machines[i][0]), (Str){0}, str_of(machines[i][1]), &m));
    for (int j = 0; j < ARRAY_LEN(shapes); j++) expect_code(&m, CODE_IMAGE, shapes[j]);
    for (int j = 0; j < math_nrows; j++)
      for (int wide = 0; wide < 2; wide++) {
        char text[300];
        const char *t = wide ? "f64" : "f32";
        snprintf(
            text, sizeof text,
            "kernel @math (%%x: %s[64], out %%y: %s[64]) {\n parallel i < 4 {\n  vector j < 16 {\n"
            "   store %%y[16*i + j] = %s(%%x[16*i + j])\n  }\n }\n}\n",
            t, t, math_rows[j].name);
        expect_code(&m, CODE_IMAGE, text);
      }
    for (int kind = 0; kind < CODE_KINDS; kind++) expect_code(&m, (CodeKind)kind, shapes[0]);
  }
}

TEST(codegen_other_machines_casts) {
  NEED_CODEGEN();
  static const char *const machines[][2] = {{"aarch64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", ""},
                                            {"riscv64-unknown-linux-gnu", "+v"}};
  for (int k = 0; k < ARRAY_LEN(machines); k++)
    for (int i = 0; i < ARRAY_LEN(all_types); i++) {
      Machine m;
      REQUIRE(machine_make(str_of(machines[k][0]), (Str){0}, str_of(machines[k][1]), &m));
      Arena a;
      arena_init(&a);
      StrBuf b;
      strbuf_init(&b, &a);
      strbuf_printf(&b, "kernel @casts (%%x: %s[64]", all_types[i]);
      for (int j = 0; j < ARRAY_LEN(all_types); j++)
        strbuf_printf(&b, ", out %%y%d: %s[64]", j, all_types[j]);
      strbuf_puts(&b, ") {\n parallel i < 4 {\n  vector j < 16 {\n");
      for (int j = 0; j < ARRAY_LEN(all_types); j++)
        if (i != j)
          strbuf_printf(&b, "   store %%y%d[16*i + j] = cast[%s](%%x[16*i + j])\n", j,
                        all_types[j]);
      strbuf_puts(&b, "  }\n }\n}\n");
      expect_code(&m, CODE_IMAGE, strbuf_text(&b));
      arena_deinit(&a);
    }
}
