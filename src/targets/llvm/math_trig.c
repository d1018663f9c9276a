// math_trig.c -- circular functions of f64 and their inverses.
//
// Arguments are reduced by multiples of pi/2.  Below 2^20 multiples it is subtracted in four parts.
// Larger arguments are multiplied by as many bits of 2/pi as matter, in integers (Payne-Hanek).  A
// vector without large arguments skips that; one with large arguments does it lane by lane.
//
// Needs:      an f64 scalar or vector.
// Guarantees: within 2 ulp for every finite argument; infinities give NaN.
#include "targets/llvm/math.h"
#include "targets/llvm/pair.h"

#include <math.h>

// sin(x) = x + x^3 p(x^2), cos(x) = 1 - x^2/2 + x^4 p(x^2), |x| <= pi/4; atan(x) = x + x^3 p(x^2),
// |x| <= tan(pi/8); asin(x) = x + x^3 p(x^2), |x| <= 1/2
static const double sin_f64[] = {-0x1.5555555555555p-3,  0x1.1111111110bb1p-7,
                                 -0x1.a01a019e8357dp-13, 0x1.71de37961e4c6p-19,
                                 -0x1.ae600a926c89ap-26, 0x1.5e0af186af739p-33};

static const double cos_f64[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16966p-10,
                                 0x1.a01a019f4e867p-16, -0x1.27e4fa17a41b4p-22,
                                 0x1.1eeb68b109173p-29, -0x1.907d7aebd5e3dp-37};

static const double atan_f64[] = {
    -0x1.5555555555555p-2, 0x1.9999999999999p-3, -0x1.249249249246p-3,  0x1.c71c71c718cd9p-4,
    -0x1.745d1744b460ap-4, 0x1.3b13b106be071p-4, -0x1.11110ad3458eep-4, 0x1.e1e0de4023a93p-5,
    -0x1.af19a4df9619cp-5, 0x1.857f8346cd3fdp-5, -0x1.5fc8a61e87785p-5, 0x1.31038a2d9a394p-5,
    -0x1.bed41c47c5a2p-6,  0x1.87d01190ba28p-7};

static const double asin_f64[] = {
    0x1.5555555555555p-3, 0x1.333333333332dp-4,  0x1.6db6db6db7c96p-5, 0x1.f1c71c70ed1adp-6,
    0x1.6e8ba31ce37bfp-6, 0x1.1c4ebd6df68b7p-6,  0x1.c99b000e791f4p-7, 0x1.7a70ab2bcdeadp-7,
    0x1.40e47f482ed3fp-7, 0x1.0a9171f4c504ep-7,  0x1.20548a3ca847dp-7, 0x1.804c0240677fp-12,
    0x1.720d0586f24a3p-6, -0x1.8a435f5117258p-6, 0x1.f7b7e46af0ee8p-6};

// 2/pi in words of 32 bits, after two words of zeros for arguments that have fraction bits.
static const uint32_t two_over_pi[] = {
    0,          0,          0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599,
    0x3C439041, 0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C,
    0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639,
    0x835339F4, 0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F,
    0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7,
    0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB, 0xF0CFBC20, 0x9AF4361D};

// x = n * pi/2 + (hi + lo), |hi| <= pi/4; n modulo 4 as i64.
typedef struct Reduced {
  LV hi, lo, n;
} Reduced;

static const double PIO2_HI = 0x1.921fb54442d18p+0, PIO2_LO = 0x1.1a62633145c07p-54;

static Reduced reduce_small(Emit *e, LV x) {
  LV magic = F64(0x1.8p52), t = MAD(x, F64(0x1.45f306dc9c883p-1), magic), n = SUB(t, magic);
  LV r = SUB(x, MUL(n, F64(0x1.921fb544p+0)));
  Pair a = pair_sum(e, r, NEG(MUL(n, F64(0x1.0b4611a6p-34))));
  Pair b = pair_sum(e, a.hi, NEG(MUL(n, F64(0x1.3198a2ep-69))));
  LV lo = SUB(ADD(a.lo, b.lo), MUL(n, F64(0x1.b839a252049c1p-104)));
  Pair s = pair_sum(e, b.hi, lo);
  return (Reduced){s.hi, s.lo, BITS(t, e->i64)};
}

static LV table_word(Emit *e, LV table, LV index) {
  return ZEXT(LLVMBuildLoad2(e->b, e->i32, at_byte(e, table, index, 4), ""), e->i64);
}

static LV table_global(Emit *e) {
  LV g = LLVMGetNamedGlobal(e->mod, "two_over_pi");
  if (g) return g;
  LV w[ARRAY_LEN(two_over_pi)];
  for (int i = 0; i < ARRAY_LEN(two_over_pi); i++) w[i] = LLVMConstInt(e->i32, two_over_pi[i], 0);
  g = LLVMAddGlobal(e->mod, LLVMArrayType2(e->i32, ARRAY_LEN(two_over_pi)), "two_over_pi");
  LLVMSetInitializer(g, LLVMConstArray2(e->i32, w, ARRAY_LEN(two_over_pi)));
  LLVMSetGlobalConstant(g, 1);
  LLVMSetLinkage(g, LLVMPrivateLinkage);
  LLVMSetAlignment(g, 4);
  return g;
}

// |x| = m 2^E.  Of m 2^E (2/pi) only what lies below 4 counts: the bits of 2/pi from E - 2 on, 224
// of them, times m.  limb[6] then has the quadrant in its two upper bits and the fraction below.
enum { WORDS = 7, LIMBS = 9 };
static void multiply_by_window(Emit *e, LV x, LV limb[LIMBS]) {
  LV bits = IAND(BITS(x, e->i64), I64(INT64_MAX)), field = ILSR(bits, I64(52)),
     mask = I64(0xFFFFFFFF);
  LV m = IOR(IAND(bits, I64(0xFFFFFFFFFFFFF)), I64(0x10000000000000));
  LV from =
      ISUB(field, I64(1075 + 2 - 64));  // bits; not for arguments below 2^20, nor for infinities
  LV sane = IAND(ICMP(UGE, field, I64(1023 + 20)), ICMP(ULT, field, I64(2047)));
  from = SEL(sane, from, I64(64));
  LV index = ILSR(from, I64(5)), shift = IAND(from, I64(31)), table = table_global(e),
     word[WORDS + 1];
  for (int i = 0; i <= WORDS; i++) word[i] = table_word(e, table, IADD(index, I64(i)));
  LV lo = IAND(m, mask), hi = ILSR(m, I64(32));
  for (int i = 0; i < LIMBS; i++) limb[i] = I64(0);
  for (int i = 0; i < WORDS; i++) {
    LV two = IOR(ISHL(word[i], I64(32)), word[i + 1]);
    LV w = ILSR(ISHL(two, shift), I64(32)), p = IMUL(w, lo), q = IMUL(w, hi);
    int at = WORDS - 1 - i;
    limb[at] = IADD(limb[at], IAND(p, mask));
    limb[at + 1] = IADD(limb[at + 1], IADD(ILSR(p, I64(32)), IAND(q, mask)));
    limb[at + 2] = IADD(limb[at + 2], ILSR(q, I64(32)));
  }
  for (int i = 0; i + 1 < LIMBS; i++) {
    limb[i + 1] = IADD(limb[i + 1], ILSR(limb[i], I64(32)));
    limb[i] = IAND(limb[i], mask);
  }
}

static Reduced reduce_large(Emit *e, LV x) {
  LV l[LIMBS], mask = I64(0xFFFFFFFF);
  multiply_by_window(e, x, l);
  LV n = ILSR(l[6], I64(30));
  LV top = IOR(IOR(ISHL(l[6], I64(34)), ISHL(l[5], I64(2))),
               ILSR(l[4], I64(30)));  // fraction, as signed: in [-1/2, 1/2)
  LV next = IOR(IOR(ISHL(l[4], I64(34)), ISHL(l[3], I64(2))), ILSR(l[2], I64(30)));
  n = IADD(n, ILSR(top, I64(63)));
  LV d1 = MUL(SI_TO_F(IASR(top, I64(32)), e->f64), F64(0x1p-32)),
     d2 = MUL(SI_TO_F(IAND(top, mask), e->f64), F64(0x1p-64));
  LV d3 = MUL(SI_TO_F(ILSR(next, I64(32)), e->f64), F64(0x1p-96)),
     d4 = MUL(SI_TO_F(IAND(next, mask), e->f64), F64(0x1p-128));
  Pair f = pair_add(e, pair_sum(e, d1, d2), pair_sum(e, d3, d4));
  f = pair_mul(e, f, (Pair){F64(PIO2_HI), F64(PIO2_LO)});
  LV neg = FCMP(OLT, x, F64(0));
  return (Reduced){SEL(neg, NEG(f.hi), f.hi), SEL(neg, NEG(f.lo), f.lo),
                   SEL(neg, ISUB(I64(0), n), n)};
}

// Lane by lane: it is rare, and long.
static Reduced reduce_large_lanes(Emit *e, LV x) {
  int lanes = value_lanes(x);
  if (!lanes) return reduce_large(e, x);
  LT types[] = {e->f64, e->f64, e->f64, e->i64};
  LV mem[4], out[4];
  for (int i = 0; i < 4; i++) mem[i] = in_entry(e, LLVMVectorType(types[i], (unsigned)lanes), 64);
  LLVMBuildStore(e->b, x, mem[0]);
  LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), loop = new_block(e, "lane"),
                    done = new_block(e, "done");
  LLVMBuildBr(e->b, loop);
  LLVMPositionBuilderAtEnd(e->b, loop);
  LV lane = LLVMBuildPhi(e->b, e->i64, ""), next = IADD(lane, const_i64(e, 1));
  Reduced r = reduce_large(e, LLVMBuildLoad2(e->b, e->f64, at_byte(e, mem[0], lane, 8), ""));
  LV part[] = {r.hi, r.lo, r.n};
  for (int i = 0; i < 3; i++) LLVMBuildStore(e->b, part[i], at_byte(e, mem[i + 1], lane, 8));
  LLVMAddIncoming(lane, (LV[]){const_i64(e, 0), next}, (LLVMBasicBlockRef[]){from, loop}, 2);
  LLVMBuildCondBr(e->b, ICMP(ULT, next, const_i64(e, lanes)), loop, done);
  LLVMPositionBuilderAtEnd(e->b, done);
  for (int i = 1; i < 4; i++)
    out[i] = LLVMBuildLoad2(e->b, LLVMVectorType(types[i], (unsigned)lanes), mem[i], "");
  return (Reduced){out[1], out[2], out[3]};
}

static Reduced reduce_pi(Emit *e, LV x) {
  Reduced s = reduce_small(e, x);
  LV big = FCMP(OGE, fp_abs(e, x), F64(0x1p20));
  LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), slow = new_block(e, "large"),
                    done = new_block(e, "done");
  LLVMBuildCondBr(e->b, any_lane(e, big), slow, done);
  LLVMPositionBuilderAtEnd(e->b, slow);
  Reduced l = reduce_large_lanes(e, x);
  LV pick[] = {SEL(big, l.hi, s.hi), SEL(big, l.lo, s.lo), SEL(big, l.n, s.n)},
     old[] = {s.hi, s.lo, s.n}, out[3];
  LLVMBasicBlockRef slow_end = LLVMGetInsertBlock(e->b);
  go_to(e, done);
  for (int i = 0; i < 3; i++) {
    out[i] = LLVMBuildPhi(e->b, LLVMTypeOf(old[i]), "");
    LLVMAddIncoming(out[i], (LV[]){old[i], pick[i]}, (LLVMBasicBlockRef[]){from, slow_end}, 2);
  }
  LV lost = FCMP(UEQ, fp_abs(e, x), F64(INFINITY));
  return (Reduced){SEL(lost, F64((double)NAN), out[0]), SEL(lost, F64(0), out[1]), out[2]};
}

static Pair sin_poly(Emit *e, Reduced r) {
  LV x = r.hi, z = MUL(x, x), v = MUL(z, x);
  LV lo = MAD(MUL(z, F64(-0.5)), r.lo, r.lo);
  Pair y = pair_sum(e, x, MAD(v, horner(e, z, sin_f64, ARRAY_LEN(sin_f64)), lo));
  LV zero = FCMP(OEQ, x, F64(0));  // -0 stays
  return (Pair){SEL(zero, x, y.hi), SEL(zero, x, y.lo)};
}

static Pair cos_poly(Emit *e, Reduced r) {
  LV x = r.hi, z = MUL(x, x), half = MUL(z, F64(0.5)), w = SUB(F64(1), half);
  LV tail = MAD(MUL(z, z), horner(e, z, cos_f64, ARRAY_LEN(cos_f64)), NEG(MUL(x, r.lo)));
  return pair_sum(e, w, ADD(SUB(SUB(F64(1), w), half), tail));
}

LV math_circular_f64(Emit *e, LoopOp op, LV x) {
  Reduced r = reduce_pi(e, x);
  Pair s = sin_poly(e, r), c = cos_poly(e, r);
  LV odd = ICMP(NE, IAND(r.n, I64(1)), I64(0));
  if (op == LOOP_tan) {
    Pair num = {SEL(odd, NEG(c.hi), s.hi), SEL(odd, NEG(c.lo), s.lo)};
    Pair den = {SEL(odd, s.hi, c.hi), SEL(odd, s.lo, c.lo)};
    LV q = DIV(num.hi, den.hi), t = pair_div(e, num, den).hi;
    return SEL(FCMP(OEQ, q, F64(0)), q, t);
  }
  LV v = op == LOOP_sin ? SEL(odd, c.hi, s.hi) : SEL(odd, s.hi, c.hi);
  LV n = op == LOOP_sin ? r.n : IADD(r.n, I64(1));
  return SEL(ICMP(NE, IAND(n, I64(2)), I64(0)), NEG(v), v);
}

// ---- inverses ----

LV math_atan_f64(Emit *e, LV x) {
  LV a = fp_abs(e, x), one = F64(1);
  LV high = FCMP(OGT, a, F64(2.414213562373095)), mid = FCMP(OGT, a, F64(0.41421356237309503));
  LV num = SEL(high, F64(-1), SEL(mid, SUB(a, one), a)),
     den = SEL(high, a, SEL(mid, ADD(a, one), one));
  LV base = SEL(high, F64(PIO2_HI), SEL(mid, F64(PIO2_HI / 2), F64(0)));
  LV rest = SEL(high, F64(PIO2_LO), SEL(mid, F64(PIO2_LO / 2), F64(0)));
  LV t = DIV(num, den), z = MUL(t, t);
  LV r = ADD(base, ADD(t, MAD(MUL(t, z), horner(e, z, atan_f64, ARRAY_LEN(atan_f64)), rest)));
  r = SEL(FCMP(OLT, a, F64(0x1p-30)), a, r);
  return fp_copysign(e, r, x);
}

// For |x| > 1/2: asin of sqrt((1 - |x|) / 2), as a sum.
static Pair asin_of_root(Emit *e, LV x) {
  LV z = MUL(F64(0.5), SUB(F64(1), fp_abs(e, x))), s = fp_sqrt(e, z);
  Pair sq = pair_product(e, s, s);
  LV err = SUB(SUB(z, sq.hi), sq.lo), lo = DIV(err, ADD(s, s));
  lo = SEL(FCMP(OGT, s, F64(0)), lo, F64(0));
  return (Pair){s, MAD(MUL(s, z), horner(e, z, asin_f64, ARRAY_LEN(asin_f64)), lo)};
}

LV math_asin_f64(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x);
  LV low = MAD(MUL(x, z), horner(e, z, asin_f64, ARRAY_LEN(asin_f64)), x);
  Pair r = asin_of_root(e, x);
  Pair d = pair_sum(e, F64(PIO2_HI), MUL(F64(-2), r.hi));
  LV high = ADD(d.hi, ADD(d.lo, MAD(F64(-2), r.lo, F64(PIO2_LO))));
  return SEL(FCMP(OLT, a, F64(0.5)), low, fp_copysign(e, high, x));
}

LV math_acos_f64(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x);
  LV tail = MUL(MUL(x, z), horner(e, z, asin_f64, ARRAY_LEN(asin_f64)));
  LV low = SUB(F64(PIO2_HI), SUB(x, SUB(F64(PIO2_LO), tail)));
  Pair r = asin_of_root(e, x);
  LV twice = MUL(F64(2), ADD(r.hi, r.lo));
  Pair d = pair_sum(e, F64(2 * PIO2_HI), MUL(F64(-2), r.hi));
  LV far = ADD(d.hi, ADD(d.lo, MAD(F64(-2), r.lo, F64(2 * PIO2_LO))));
  return SEL(FCMP(OLT, a, F64(0.5)), low, SEL(FCMP(OGT, x, F64(0)), twice, far));
}
