// codegen_fixture.c -- arguments for generated code, and the kernels that are tried on every
// target.
#include "codegen_fixture.h"
#include "test.h"

#include <math.h>
#include <sys/mman.h>

static uint64_t rnd(CodegenFixture *f) {
  f->rng = f->rng * 6364136223846793005u + 1442695040888963407u;
  return hash_u64(f->rng);
}

// ---- arguments ----

static double some_float(CodegenFixture *f, DType t) {
  static const double special[] = {0.0, -0.0,  1.0,  -1.0,  0.5,          INFINITY, -INFINITY,
                                   NAN, 1e-40, 3e38, 65504, 2147483648.0, -1e19,    255.5};
  uint64_t r = rnd(f);
  if (r % 16 == 0) return special[r / 16 % (uint64_t)ARRAY_LEN(special)];
  double u = (double)(rnd(f) >> 11) * 0x1p-53 * 2 - 1;
  if (r % 4 == 1) return u * ldexp(1, (int)(r >> 32) % 40 - 20);
  return t == DT_F64 ? u * 7 : (double)(float)(u * 7);
}

static void fill(CodegenFixture *f, DType t, void *p, int64_t n) {
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

static void make_arg(CodegenFixture *f, int i) {
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

void codegen_compare(CodegenFixture *f, const char *where) {
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

bool codegen_open(CodegenFixture *f, const char *text, const int64_t *dims) {
  *f = (CodegenFixture){.rng = 1};
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

void codegen_close(CodegenFixture *f) {
  for (int i = 0; i < f->k->nargs; i++)
    for (int side = 0; side < 2; side++) munmap(f->map[side][i], (size_t)f->map_bytes[i]);
  arena_deinit(&f->arena);
}

int64_t codegen_items(CodegenFixture *f) {
  bool bound[64] = {0};
  int64_t bind[64] = {0}, n = 0;
  for (int j = 0; j < f->k->ndims; j++) {
    bound[f->k->dim[j]->slot] = true;
    bind[f->k->dim[j]->slot] = f->dims[j];
  }
  return ie_eval(loop_items(f->k), bind, bound, 64, &n) ? n : 0;
}

int64_t codegen_bytes(const CodegenFixture *f, int arg) {
  int64_t bytes = 0;
  return dtype_bytes(f->k->buffer[arg].dtype, f->size[arg], &bytes) ? bytes : 0;
}

// ---- kernels ----

const char *const codegen_shapes[] = {
    "kernel @dots (%x: u8[400], %s: i8[400], %h: u16[400], %w: u32[140], out %y: i32[140], out %z: "
    "i32[140],"
    " out %u: u32[140], out %v: u32[140]) {\n parallel i < 4 {\n  vector j < 35 {\n"
    "   store %y[35*i + j] = dot(wide %x[100*i + 2*j], %w[35*i + j], i32(-5))\n"
    "   store %z[35*i + j] = dot(wide %s[16*i], %w[35*i + j], dot(%w[j], wide %x[i + 4*j], "
    "i32(1)))\n"
    "   store %u[35*i + j] = wide %h[2*j + 70*i]\n"
    "   store %v[35*i + j] = wide where(g = j - 3 < 24) %s[-4*g + 100*i + 96]\n"
    "  }\n }\n}\n",
    "kernel @lookups (%w: u32[140], %x: u8[400], out %y: u32[140], out %z: u32[4]) {\n"
    " parallel i < 4 {\n  vector j < 35 {\n"
    "   store %y[35*i + j] = bit_xor(lookup(%w[35*i + j], u64(13758425323549998079), "
    "u64(72623859790382856)), lookup(wide %x[100*i + 2*j], u64(1), u64(9259542123273814144)))\n  "
    "}\n"
    "  store %z[i] = lookup(%w[i], u64(13758425323549998079), u64(72623859790382856))\n }\n}\n",
    "kernel @pixels (%x: u8[280], %w: u32[140], out %y: u8[560], out %z: u8[1120], out %v: i8[20]) "
    "{\n parallel i < 4 {\n  vector j < 35 {\n"
    "   store wide %y[140*i + 4*j] = bit_or(cast[u32](%x[j]), shift_left(cast[u32](%x[j + 70*i]), "
    "u32(16)))\n"
    "   store wide where(g = j < 33) %z[280*i + 8*g] = %w[35*i + j]\n  }\n"
    "  store wide %v[5*i] = %w[i]\n"
    "  store %v[5*i + 4] = i8(-3)\n }\n}\n",
    "kernel @tf32 (%x: f32[140], out %y: f32[140], out %z: f32[4]) {\n parallel i < 4 {\n"
    "  vector j < 35 {\n   store %y[35*i + j] = tf32(%x[35*i + j])\n  }\n"
    "  store %z[i] = tf32(mul(%x[i], 0x1p-120))\n }\n}\n",
    "kernel @nearest (%x: f32[140], out %y: i32[140], out %z: u8[140], out %o: i32[4]) {\n"
    " parallel i < 4 {\n  vector j < 35 {\n"
    "   store %y[35*i + j] = cast[i32](round(select(lt(#0 = select(lt(-130.0, #1 = %x[35*i + j]), "
    "#1, -130.0), 125.0), #0, 125.0)))\n"
    "   store %z[35*i + j] = cast[u8](add(cast[i32](round(fma(select(lt(#0 = select(lt(-2.0, #1 = "
    "%x[35*i + j]), #1, -2.0), 2.0), #0, 2.0), 0x1.8p+5, 0x1p-1))), i32(128)))\n  }\n"
    "  store %o[i] = cast[i32](round(select(lt(#0 = select(lt(-130.0, #1 = %x[i]), #1, -130.0), "
    "125.0), #0, 125.0)))\n }\n}\n",
    "kernel @dot_alone (%x: u8[40], %w: u32[10], out %y: i32[10]) {\n parallel i < 10 {\n"
    "  store %y[i] = dot(wide %x[4*i], %w[i], i32(2147483647))\n }\n}\n",
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
    // Lanes that store to one element, where guards or a condition leave one of them, or none.
    "kernel @one_channel (%x: f32[320], out %z: f32[20]) {\n parallel i < 20 {\n  vector j < 16 {\n"
    "   store where(g = j < 1) %z[g + i] = relu(%x[16*i + j])\n  }\n }\n}\n",
    "kernel @one_tap (%x: f32[320], %b: f32[1], out %z: f32[20]) {\n parallel i < 20 {\n"
    "  vector j < 16 {\n   store where(g = i + j - 25 < 1) %z[i + g] = add(%x[16*i + j], %b[0])\n"
    "   store where(h = 7*i + 5*j - 61 < 1) %z[i + h] = add(%x[j], where(k = j - 3 < 1) %b[k])\n  "
    "}\n }\n}\n",
    "kernel @last (%x: f32[200], out %z: f32[4], out %y: f32[4]) {\n parallel i < 4 {\n"
    "  vector j < 50 {\n   if lt(%x[50*i + j], -100.0) {\n    store %z[i] = 1.0\n   }\n"
    "   if eq([j], 33) {\n    store %y[i] = %x[50*i + j]\n   }\n  }\n }\n}\n",
    // Sums that differ in length between lanes.
    "kernel @triangle (%x: f32[100], out %z: f32[20]) {\n parallel i < 2 {\n  vector j < 10 {\n"
    "   reduce %v0: f32 = add lanes 1 over k < j {\n    yield %x[50*i + 5*k]\n   }\n"
    "   store %z[10*i + j] = %v0\n  }\n }\n}\n",
    // Strided in the lanes and contiguous in the steps: blocks that are transposed in registers.
    "kernel @transposed (%x: f32[1776], out %z: f32[768]) {\n scratch %t: f32[384]\n"
    " parallel i < 2 {\n  vector j < 24 {\n   unroll u < 16 {\n"
    "    store %t[24*u + j] = mul(%x[888*i + 37*j + u], 2.0)\n   }\n  }\n"
    "  vector k < 384 {\n   store %z[384*i + k] = %t[k]\n  }\n }\n}\n",
    "kernel @transposed_rows (%x: f32[600], out %z: f32[576]) {\n scratch %t: f32[288]\n"
    " parallel i < 2 {\n  vector j < 16 {\n   unroll u < 18 {\n"
    "    store %t[16*u + j] = where(g = 16*i + j < 30) %x[20*g + u] else 3.0\n   }\n  }\n"
    "  vector k < 288 {\n   store %z[288*i + k] = %t[k]\n  }\n }\n}\n",
    "kernel @transposed_sums (%x: f32[448], out %z: f32[294]) {\n scratch %t: f32[224]\n"
    " parallel i < 2 {\n  vector k < 224 {\n   store %t[k] = %x[224*i + k]\n  }\n"
    "  vector r < 14 {\n   unroll u < 16 {\n    let %v0: f32 = %t[16*r + u]\n"
    "    store where(g = 16*i + u < 21) %z[14*g + r] = relu(%v0)\n   }\n  }\n }\n}\n",
    "kernel @transposed_twice (%x: i32[256], %y: i32[256], out %z: i32[256]) {\n"
    " scratch %t: i32[256]\n parallel i < 1 {\n  vector j < 16 {\n   unroll u < 16 {\n"
    "    store %t[16*u + j] = add(%x[16*j + u], %y[16*j + u])\n   }\n  }\n"
    "  vector k < 256 {\n   store %z[k] = %t[k]\n  }\n }\n}\n",
    NULL,
};

// Kernels with thread blocks: trees of sums, tiles in shared memory, checks, memory that several
// thread loops use.
const char *const codegen_groups[] = {
    "kernel @row_sums (%x: f32[500], out %y: f32[500]) {\n shared %part: f32[8]\n shared %sum: "
    "f32[2]\n parallel i < 5 {\n"
    "  thread t1 < 8 {\n   reduce %v0: f32 = add lanes 1 over j1 < 13 {\n    yield where(g1 = "
    "8*j1 + t1 < 100) %x[100*i + g1]\n   }\n   store %part[t1] = %v0\n  }\n"
    "  thread t2 < 8 {\n   reduce %v1: f32 = add lanes 1 over j2 < 4 {\n    yield %part[2*j2 + "
    "mod(t2, 2)]\n   }\n   store where(g2 = t2 < 2) %sum[g2] = %v1\n  }\n"
    "  thread t3 < 8 {\n   let %v2: f32 = add(%sum[0], %sum[1])\n   for j3 < 13 {\n    store "
    "where(g3 = 8*j3 + t3 < 100) %y[100*i + g3] = sub(where(g3 = 8*j3 + t3 < 100) %x[100*i + g3], "
    "%v2)\n   }\n  }\n }\n}\n",
    "kernel @matrix (%a: f32[200], %b: f32[240], out %c: f32[480]) {\n shared %as: f32[32]\n "
    "shared %bs: f32[32]\n register %acc: f32[64]\n parallel p < 9 {\n"
    "  thread t0 < 16 {\n   unroll i0 < 4 {\n    store %acc[4*t0 + i0] = 0.0\n   }\n  }\n"
    "  for k < 3 {\n   thread t1 < 16 {\n    unroll j1 < 2 {\n"
    "     store %as[t1 + 16*j1] = where(m = 8*floor(p/3) + floor(t1/4) + 4*j1 < 20, q = 4*k + "
    "mod(t1, 4) < 10) %a[10*m + q]\n"
    "     store %bs[t1 + 16*j1] = where(q1 = 4*k + floor(t1/8) + 2*j1 < 10, n = 8*mod(p, 3) + "
    "mod(t1, 8) < 24) %b[24*q1 + n]\n    }\n   }\n"
    "   thread t2 < 16 {\n    for kk < 4 {\n     unroll r < 2 {\n      unroll s < 2 {\n"
    "       store %acc[4*t2 + 2*r + s] = fma(%as[8*floor(t2/4) + 4*r + kk], %bs[8*kk + 2*mod(t2, "
    "4) + s], %acc[4*t2 + 2*r + s])\n      }\n     }\n    }\n   }\n  }\n"
    "  thread t3 < 16 {\n   unroll r1 < 2 {\n    unroll s1 < 2 {\n"
    "     store where(m1 = 8*floor(p/3) + 2*floor(t3/4) + r1 < 20, n1 = 8*mod(p, 3) + 2*mod(t3, 4) "
    "+ s1 < 24) %c[24*m1 + n1] = %acc[4*t3 + 2*r1 + s1]\n    }\n   }\n  }\n }\n}\n",
    "kernel @ragged (%x: f32[130], out %y: f32[130]) {\n parallel i < 9 {\n  thread t < 16 {\n"
    "   where c = 16*mod(i, 3) + t < 45 {\n    where r = floor(i/3) - 1 < 2 {\n     store %y[65*r "
    "+ "
    "c] = sub(%x[65*r + c], cast[f32]([c]))\n    }\n   }\n  }\n }\n}\n",
    "kernel @steps (%x: i32[60], %n: i32[3], out %y: i32[60]) {\n scratch %s: i32[40]\n shared "
    "%h: i32[20]\n parallel i < 3 {\n  let %v0: i32 = %n[i]\n"
    "  thread t0 < 20 {\n   store %s[t0] = %x[20*i + t0]\n   store %s[t0 + 20] = i32(7)\n  }\n"
    "  for j < 4 {\n   thread t1 < 20 {\n    store %h[t1] = add(%s[19 - t1], %s[t1 + 20])\n   "
    "}\n   thread t2 < 20 {\n    store %s[t2] = sub(%h[t2], %v0)\n   }\n  }\n"
    "  if lt(%v0, i32(0)) {\n   thread t3 < 20 {\n    store %y[20*i + t3] = %s[19 - t3]\n   }\n"
    "  } else {\n   thread t4 < 20 {\n    store %y[20*i + t4] = %s[t4]\n   }\n  }\n }\n}\n",
    "kernel @gather (%x: f32[330], %ids: i64[32], out %z: f32[320]) {\n shared %at: i64[32]\n "
    "parallel i < 10 {\n  thread t < 32 {\n   store %at[t] = mod(%ids[t], 33)\n  }\n"
    "  thread u < 32 {\n   bind k < 33 = %at[31 - u] check \"index\"\n   store %z[32*i + u] = "
    "%x[33*i + k]\n  }\n }\n}\n",
    "kernel @fails (%x: f32[80], %ids: i64[16], out %z: f32[16]) {\n shared %h: f32[8]\n parallel "
    "i < 2 {\n  thread t < 8 {\n   bind k < 4 = %ids[8*i + t] check \"first\"\n   store %h[t] = "
    "%x[k]\n  }\n  thread u < 8 {\n   store %z[8*i + u] = %h[7 - u]\n  }\n }\n}\n",
    NULL,
};

const CodegenKernel codegen_checks[] = {
    {"kernel @gather (%x: f32[330], %ids: i64[33], out %z: f32[330]) {\n parallel i < 10 {\n"
     "  vector j < 33 {\n   bind k < 33 = mod(%ids[j], 33) check \"index\"\n"
     "   store %z[33*i + j] = %x[33*i + k]\n  }\n }\n}\n",
     {0}},
    {"kernel @fails (%x: f32[80], %ids: i64[20], out %z: f32[20]) {\n parallel i < 2 {\n"
     "  vector j < 10 {\n   bind k < 4 = %ids[10*i + j] check \"first\"\n   bind l < 80 = "
     "%ids[10*i + j] check \"second\"\n   store %z[10*i + j] = %x[k + 0*l]\n  }\n }\n}\n",
     {0}},
    {"kernel @zero (%x: i32[40], %y: i32[40], out %z: i32[40]) {\n parallel i < 4 {\n"
     "  vector j < 10 {\n   store %z[10*i + j] = div(%x[10*i + j], %y[10*i + j])\n  }\n }\n}\n",
     {0}},
    {"kernel @reduce dims(n in [0, 4096]) (%x: f32[2*n], out %y: f32[2]) {\n"
     " parallel i < 2 {\n  reduce %v0: f32 = add lanes 16 over k < n {\n"
     "   yield %x[n*i + k]\n  }\n  store %y[i] = %v0\n }\n}\n",
     {77}},
    {"kernel @wide dims(n in [1, 9], m in [1, 9]) (%x: f32[bcast(n, m)], out %z: "
     "f32[3*bcast(n, m)]) {\n parallel i < 3 {\n  for j < bcast(n, m) {\n"
     "   store %z[i*bcast(n, m) + j] = %x[j]\n  }\n }\n}\n",
     {1, 5}},
    {NULL, {0}},
};

const char *const codegen_types[] = {"f32",  "u8",     "i8",      "u16",    "i16",     "i32",
                                     "i64",  "bool",   "f16",     "f64",    "u32",     "u64",
                                     "bf16", "f8e4m3", "f8e4m3z", "f8e5m2", "f8e5m2z", "f8e8m0"};
const int codegen_ntypes = (int)ARRAY_LEN(codegen_types);

const char *codegen_casts_text(Arena *a, int type) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "kernel @casts_%s (%%x: %s[333]", codegen_types[type], codegen_types[type]);
  for (int j = 0; j < codegen_ntypes; j++)
    strbuf_printf(&b, ", out %%y%d: %s[333]", j, codegen_types[j]);
  strbuf_puts(&b, ") {\n parallel i < 3 {\n");
  for (int j = 0; j < codegen_ntypes; j++) {
    if (j == type) continue;
    strbuf_printf(
        &b, "  vector j%d < 111 {\n   store %%y%d[111*i + j%d] = cast[%s](%%x[111*i + j%d])\n  }\n",
        j, j, j, codegen_types[j], j);
  }
  strbuf_puts(&b, " }\n}\n");
  return strbuf_text(&b);
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

// The expression with its operands: elements of x and y at `at`.
static void put_operands(StrBuf *b, const char *expr, const char *type, const char *at) {
  for (; *expr; expr++)
    if (*expr == 'X' || *expr == 'Y')
      strbuf_printf(b, "%%%c[%s]", *expr == 'X' ? 'x' : 'y', at);
    else if (*expr == 'Z')
      strbuf_printf(b, "%s(1)", type);
    else
      strbuf_putc(b, *expr);
}

const char *codegen_ops_text(Arena *a, int type, int half, bool vector) {
  const char *t = codegen_types[type];
  StrBuf b, body;
  int n = 0;
  strbuf_init(&b, a);
  strbuf_init(&body, a);
  strbuf_printf(&b, "kernel @ops_%s (%%x: %s[450], %%y: %s[450]", t, t, t);
  for (int i = half; i < ARRAY_LEN(op_rows); i += 2) {
    if (!strchr(op_rows[i].types, class_letter(t)) || !strcmp(t, "f8e8m0")) continue;
    char at[32];
    snprintf(at, sizeof at, vector ? "50*i + j%d" : "i", n);
    strbuf_printf(&b, ", out %%z%d: %s[450]", n, t);
    if (vector) strbuf_printf(&body, "  vector j%d < 50 {\n ", n);
    strbuf_printf(&body, "  store %%z%d[%s] = ", n++, at);
    put_operands(&body, op_rows[i].expr, t, at);
    strbuf_puts(&body, vector ? "\n  }\n" : "\n");
  }
  if (!n) return NULL;
  strbuf_printf(&b, ") {\n parallel i < %d {\n%s }\n}\n", vector ? 9 : 450, strbuf_text(&body));
  return strbuf_text(&b);
}
