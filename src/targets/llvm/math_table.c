// math_table.c -- erf and tanh of f32 by a table of polynomials, on x86 with AVX2 or AVX-512.
//
// Both are x p(|x|).  The axis is cut into as many intervals as a register has lanes, and p is a
// polynomial around a centre of its own in each.  A permutation of a register looks a coefficient
// up for all lanes at once, so that a function takes one polynomial and no exponential.  Centres
// are such that p is within 2^-30 of an f32 there: the leading coefficient adds no error.
//
// Needs:      an f32 scalar or vector; fused multiply-add.
// Guarantees: at most 2 ulp off, and never beyond 1; the same bits for every number of lanes.  NULL
//             where the machine has no such permutation, or no table would do.
#include "targets/llvm/math.h"

// Row 0: centres; then coefficients, from the constant on.
static const double erf_16[][16] = {
    {0x1.00a518p-4, 0x1.0efa5ep-2, 0x1.0fa858p-1, 0x1.9633dap-1, 0x1.0fb8e8p+0, 0x1.538cb0p+0,
     0x1.98d046p+0, 0x1.dc574cp+0, 0x1.0fb30cp+1, 0x1.325d0ap+1, 0x1.541122p+1, 0x1.75b82ep+1,
     0x1.984a68p+1, 0x1.b9ea18p+1, 0x1.dbfae6p+1, 0x1.f662a6p+1},
    {0x1.207cccp+0, 0x1.1a42f6p+0, 0x1.07e6f6p+0, 0x1.dc5b06p-1, 0x1.a20e52p-1, 0x1.6a973ep-1,
     0x1.38f238p-1, 0x1.10d31cp-1, 0x1.e11f00p-2, 0x1.ab86eep-2, 0x1.815d22p-2, 0x1.5eb5d0p-2,
     0x1.41062ep-2, 0x1.2899a0p-2, 0x1.135f72p-2, 0x1.04e63ap-2},
    {-0x1.813726p-5, -0x1.86faa4p-3, -0x1.5a2326p-2, -0x1.a8bc30p-2, -0x1.b2e18ep-2, -0x1.8cc0f6p-2,
     -0x1.4f72fep-2, -0x1.11c64ep-2, -0x1.b94b70p-3, -0x1.621b2cp-3, -0x1.2159dcp-3, -0x1.e029acp-4,
     -0x1.928306p-4, -0x1.57a16ep-4, -0x1.2835e4p-4, -0x1.09e466p-4},
    {-0x1.7e7012p-2, -0x1.529368p-2, -0x1.b729a2p-3, -0x1.418940p-4, 0x1.198c40p-5, 0x1.90bef0p-4,
     0x1.df6b98p-4, 0x1.bb9a00p-4, 0x1.6cbe30p-4, 0x1.18de2cp-4, 0x1.abb162p-5, 0x1.471444p-5,
     0x1.f80c54p-6, 0x1.8e0160p-6, 0x1.3e9b9ep-6, 0x1.0efa1ep-6},
    {0x1.cd3b4cp-6, 0x1.c1f6eap-4, 0x1.5cf468p-3, 0x1.508b4ep-3, 0x1.c8f0f4p-4, 0x1.930480p-5,
     0x1.130d00p-9, -0x1.524a04p-6, -0x1.ae6182p-6, -0x1.7ddc28p-6, -0x1.27cec2p-6, -0x1.b2a8f2p-7,
     -0x1.392d40p-7, -0x1.cc0526p-8, -0x1.569538p-8, -0x1.1411b0p-8},
    {0x1.c7129ep-4, 0x1.5fef28p-4, 0x1.95d764p-6, -0x1.084994p-5, -0x1.e4e556p-5, -0x1.b7eef4p-5,
     -0x1.079348p-5, -0x1.8e2e78p-7, -0x1.a62b48p-13, 0x1.282daep-8, 0x1.467baap-8, 0x1.074d8cp-8,
     0x1.78dba4p-9, 0x1.07818ep-9, 0x1.6fdca2p-10, 0x1.195512p-10},
    {-0x1.5ca58ap-7, -0x1.32956ep-5, -0x1.95d626p-5, -0x1.0f9bc4p-5, -0x1.986846p-8, 0x1.a0222ap-7,
     0x1.1a653ap-6, 0x1.968682p-7, 0x1.8123b4p-8, 0x1.88ea7ep-10, -0x1.aab03cp-12, -0x1.ca0550p-11,
     -0x1.9b3d2cp-11, -0x1.2784e2p-11, -0x1.6c1d94p-12, -0x1.9072c8p-12},
};

static const double erf_8[][8] = {
    {0x1.0ca6acp-3, 0x1.114180p-1, 0x1.0eb6aap+0, 0x1.96eec2p+0, 0x1.101954p+1, 0x1.53c276p+1,
     0x1.97e2f8p+1, 0x1.d9d844p+1},
    {0x1.1f377ap+0, 0x1.07a1acp+0, 0x1.a2e9bcp-1, 0x1.3a2e86p-1, 0x1.e06eeap-2, 0x1.81b622p-2,
     0x1.415794p-2, 0x1.149d1ep-2},
    {-0x1.900a1ep-4, -0x1.5b80b0p-2, -0x1.b3273cp-2, -0x1.5135ccp-2, -0x1.b8285ep-3, -0x1.21dd74p-3,
     -0x1.934efcp-4, -0x1.2ae2d2p-4},
    {-0x1.755866p-2, -0x1.b3e434p-3, 0x1.0eb6a6p-5, 0x1.df2fcap-4, 0x1.6bbbc2p-4, 0x1.acc24ap-5,
     0x1.f988c2p-6, 0x1.42eeb4p-6},
    {0x1.db2c4cp-5, 0x1.5d7daap-3, 0x1.ccdb16p-4, 0x1.921db2p-9, -0x1.ae7a72p-6, -0x1.289cd0p-6,
     -0x1.3a61bcp-7, -0x1.5cb8f2p-8},
    {0x1.b23540p-4, 0x1.8866c6p-6, -0x1.e6dcb6p-5, -0x1.0c8acep-5, -0x1.6d3ed4p-16, 0x1.47d730p-8,
     0x1.7a0b16p-9, 0x1.7774b4p-10},
    {-0x1.4d6724p-6, -0x1.8dba0cp-5, -0x1.d3716ap-8, 0x1.1453ecp-6, 0x1.880514p-8, -0x1.9015c0p-12,
     -0x1.9292bcp-11, -0x1.9340f2p-12},
    {-0x1.8c2272p-6, 0x1.2458ccp-9, 0x1.0036c0p-6, -0x1.9c2808p-11, -0x1.d61b00p-9, -0x1.4fdb48p-11,
     0x1.0cd5c4p-13, 0x1.95ef6ap-14},
};

static const double tanh_16[][16] = {
    {0x1.2ad208p-3, 0x1.2b458cp-1, 0x1.2b1c66p+0, 0x1.c1bd08p+0, 0x1.2c927ep+1, 0x1.762688p+1,
     0x1.c17738p+1, 0x1.06ea24p+2, 0x1.2be63ep+2, 0x1.5182acp+2, 0x1.76aa02p+2, 0x1.9c3b14p+2,
     0x1.c172f0p+2, 0x1.e7fb2ap+2, 0x1.06ac42p+3, 0x1.18e014p+3},
    {0x1.fc65b6p-1, 0x1.ccb0f2p-1, 0x1.68f9c6p-1, 0x1.12942cp-1, 0x1.ac2fa8p-2, 0x1.5c4c92p-2,
     0x1.231918p-2, 0x1.f243dcp-3, 0x1.b4fa98p-3, 0x1.84543ep-3, 0x1.5dd53cp-3, 0x1.3df4cap-3,
     0x1.23a0b4p-3, 0x1.0c99b6p-3, 0x1.f2fe42p-4, 0x1.d2a7ccp-4},
    {-0x1.87ba6ap-4, -0x1.3507e8p-2, -0x1.503326p-2, -0x1.ee30ecp-3, -0x1.4d6ba2p-3, -0x1.cc831ep-4,
     -0x1.477294p-4, -0x1.e30190p-5, -0x1.746b3ap-5, -0x1.2661eap-5, -0x1.ddf988p-6, -0x1.8ae20ap-6,
     -0x1.4c34fap-6, -0x1.19d1b4p-6, -0x1.e650d2p-7, -0x1.a95392p-7},
    {-0x1.44434cp-2, -0x1.13a4dep-3, 0x1.bd8c20p-5, 0x1.3bc7ecp-4, 0x1.bd2394p-5, 0x1.1b0d58p-5,
     0x1.646e5ap-6, 0x1.cdb068p-7, 0x1.3b8660p-7, 0x1.bd450ep-8, 0x1.4638bcp-8, 0x1.ea3f26p-9,
     0x1.7a61bep-9, 0x1.27ac98p-9, 0x1.d9f3b6p-10, 0x1.83a7bap-10},
    {0x1.31559ap-4, 0x1.47ceb0p-3, 0x1.8cb5b2p-5, -0x1.143dacp-7, -0x1.baa6d6p-7, -0x1.2ee5e0p-7,
     -0x1.69ff36p-8, -0x1.aa9be2p-9, -0x1.070168p-9, -0x1.4e42b0p-10, -0x1.bbd4d2p-11,
     -0x1.2fe8b2p-11, -0x1.aec54ep-12, -0x1.3621d4p-12, -0x1.cdd89ap-13, -0x1.61568ep-13},
    {0x1.de47ecp-4, -0x1.45555ap-6, -0x1.69d084p-5, -0x1.1720a2p-7, 0x1.5323dap-10, 0x1.f30ae6p-10,
     0x1.44e3e8p-10, 0x1.7197f4p-11, 0x1.a7a4e2p-12, 0x1.ed260ep-13, 0x1.2b59b6p-13, 0x1.773606p-14,
     0x1.e944aep-15, 0x1.44fd46p-15, 0x1.c1e2bap-16, 0x1.420568p-16},
    {-0x1.65077ep-5, -0x1.8d39a4p-5, 0x1.d9a740p-7, 0x1.ca4afcp-8, 0x1.f4e832p-11, -0x1.5d54d6p-13,
     -0x1.c5e4d2p-13, -0x1.1c5544p-13, -0x1.3b1372p-14, -0x1.5b7f78p-15, -0x1.8fac9cp-16,
     -0x1.bb70f8p-17, -0x1.f05930p-18, -0x1.5e3940p-18, -0x1.c93cd8p-19, -0x1.f43fe2p-20},
    {-0x1.51217ap-5, 0x1.9f9fb0p-6, 0x1.98677ep-9, -0x1.7957e6p-9, -0x1.897072p-11, -0x1.7454b0p-14,
     0x1.522cf0p-16, 0x1.6b872ap-16, 0x1.b9d93ap-17, 0x1.d8d732p-18, 0x1.f51b56p-19, 0x1.1c62e2p-19,
     0x1.61989ap-20, 0x1.85e38ep-21, 0x1.bfb6a6p-22, 0x1.c0a418p-23},
    {0x1.68e20ap-6, 0x1.931386p-8, -0x1.6033bep-8, 0x1.2e2d9cp-11, 0x1.57925ep-12, 0x1.1261aap-15,
     -0x1.974bf6p-16, -0x1.3e689cp-17, -0x1.636616p-17, -0x1.17c586p-18, 0x1.3a92d4p-21,
     -0x1.a03afap-19, -0x1.62bc40p-18, 0x1.ca7194p-21, 0x1.bad63cp-21, -0x1.277dccp-19},
};

typedef struct MathTable {
  const double *row;
  int intervals, rows;
  double width, most;  // of an interval; p is taken at most here, where the function rounds to 1
} MathTable;
#define TABLE(t, width, most)                                                                      \
  { t[0], (int)ARRAY_LEN(t[0]), (int)ARRAY_LEN(t), width, most }
static const MathTable erf_table[] = {TABLE(erf_16, 17.0 / 64, 4.0), TABLE(erf_8, 17.0 / 32, 3.95)};
static const MathTable tanh_table = TABLE(tanh_16, 75.0 / 128, 9.06);

// Lanes [from, from + n) of v; those that it does not have are anything.
static LV lanes_from(Emit *e, LV v, int from, int n) {
  LV pick[LOOP_LANES];
  int has = value_lanes(v);
  for (int i = 0; i < n; i++) pick[i] = const_int(e, NULL, e->i32, from + i < has ? from + i : 0);
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(pick, (unsigned)n), "");
}

// The element of each lane's interval.  A permutation takes the low bits of an index.
static LV looked_up(Emit *e, const double *row, int intervals, LV index) {
  LV v[16], x = NULL;
  int lanes = value_lanes(index);
  for (int i = 0; i < intervals; i++) v[i] = F32(row[i]);
  LV table = LLVMConstVector(v, (unsigned)intervals);
  if (!lanes) {
    x = index;
    return LLVMBuildExtractElement(e->b, table, IAND(index, I32(intervals - 1)), "");
  }
  const char *name = intervals == 16 ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps";
  LV all = NULL;
  for (int i = 0; i < lanes; i += intervals) {
    LV args[] = {table, lanes == intervals ? index : lanes_from(e, index, i, intervals)};
    LV part = call_intrinsic(e, name, NULL, 0, args, 2);
    if (lanes < intervals) return lanes_from(e, part, 0, lanes);
    if (!all) {
      all = part;
      continue;
    }
    LV pick[LOOP_LANES];
    for (int l = 0; l < i + intervals; l++) pick[l] = const_int(e, NULL, e->i32, l);
    // The second operand of a shuffle has as many lanes as the first.
    LV wide = lanes_from(e, part, 0, i);
    all = LLVMBuildShuffleVector(e->b, all, wide, LLVMConstVector(pick, (unsigned)(i + intervals)),
                                 "");
  }
  return all;
}

static LV by_table(Emit *e, const MathTable *t, LV x) {
  LV a = fp_abs(e, x);
  a = SEL(FCMP(OGT, a, F32(t->most)), F32(t->most), a);
  // The nearest multiple of the width: its number lies in the low bits.
  LV index = BITS(MAD(a, F32(1 / t->width), F32(0x1.8p23)), e->i32);
  LV d = SUB(a, looked_up(e, t->row, t->intervals, index)), p = NULL;
  for (int i = t->rows - 1; i > 0; i--) {
    LV c = looked_up(e, t->row + i * t->intervals, t->intervals, index);
    p = p ? MAD(p, d, c) : c;
  }
  LV y = MUL(a, p);
  return fp_copysign(e, SEL(FCMP(OGT, y, F32(1)), F32(1), y), x);
}

LV math_by_table(Emit *e, LoopOp op, LV x) {
  bool wide = e->m->has & CPU_AVX512, narrow = e->m->has & CPU_AVX2;
  if (!e->m->has_fma || (!wide && !narrow) || value_lanes(x) > LOOP_LANES) return NULL;
  if (op == LOOP_erf) return by_table(e, &erf_table[wide ? 0 : 1], x);
  return op == LOOP_tanh && wide ? by_table(e, &tanh_table, x) : NULL;
}
