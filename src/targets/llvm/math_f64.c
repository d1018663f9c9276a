// math_f64.c -- exponential and hyperbolic functions of f64, their inverses, erf and pow.
//
// exp and log are plain.  Where a result is a difference of them, or a power, both are first
// computed to about 2^-60 as pairs (pair.h).
//
// Needs:      an f64 scalar or vector.
// Guarantees: within 2 ulp; special values as in C.  near_exp and near_log are within about 2^-50,
//             for functions of f32.
#include "targets/llvm/math.h"
#include "targets/llvm/pair.h"

#include <math.h>

// exp(r) = 1 + r + r^2 p(r), and 1 + r + r^2/2 + r^3 p(r), |r| <= ln(2)/2; with s = f/(2 + f),
// log(1 + f) = 2s + s^3 p(s^2), and 2s + 2/3 s^3 + s^5 p(s^2); sinh(x) = x + x^3 p(x^2), |x| < 1;
// tanh likewise, |x| < 1/2; erf(x) = x + x p(x^2), |x| < 0.9; erfc(x) exp(x^2) = p((x - 2)/(x + 2))
// from there to 6
static const double exp_f64[] = {0x1.0p-1,
                                 0x1.5555555555557p-3,
                                 0x1.5555555555556p-5,
                                 0x1.11111111100dcp-7,
                                 0x1.6c16c16c162d4p-10,
                                 0x1.a01a01abe7fe1p-13,
                                 0x1.a01a01a6d889cp-16,
                                 0x1.71de0231960ebp-19,
                                 0x1.27e4db646b17ep-22,
                                 0x1.af4de97ca4194p-26,
                                 0x1.1f730349868cep-29};

static const double log_f64[] = {0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476cccp-2,
                                 0x1.c71c720159177p-3, 0x1.745cf9048dd95p-3, 0x1.3b1c355a8f7a2p-3,
                                 0x1.0fbe95d71602p-3,  0x1.0c039c49989c6p-3};

static const double log_dd[] = {0x1.999999999999ap-2, 0x1.2492492492491p-2, 0x1.c71c71c71cfd7p-3,
                                0x1.745d17451376fp-3, 0x1.3b13b1bc64d9dp-3, 0x1.1110dfb2433c1p-3,
                                0x1.e1f7f8b33879dp-4, 0x1.ac4ab12e9f86p-4,  0x1.b8d2ce0baf5e8p-4};

static const double exp_dd[] = {0x1.5555555555555p-3,  0x1.5555555555556p-5,  0x1.1111111111111p-7,
                                0x1.6c16c16c162d4p-10, 0x1.a01a01a019b2ap-13, 0x1.a01a01a6d889cp-16,
                                0x1.71de3a590520ap-19, 0x1.27e4db646b17ep-22, 0x1.ae643449fe524p-26,
                                0x1.1f730349868cep-29, 0x1.61b2b7617544bp-33};

static const double sinh_f64[] = {
    0x1.5555555555555p-3,  0x1.1111111111111p-7, 0x1.a01a01a01a001p-13, 0x1.71de3a556f96cp-19,
    0x1.ae6456792a77fp-26, 0x1.612467ccb226p-33, 0x1.ae777c36fd5b6p-41, 0x1.99f0806c2628dp-49};

static const double tanh_f64[] = {
    -0x1.5555555555555p-2,  0x1.111111111111p-3,   -0x1.ba1ba1ba1b6f2p-5,  0x1.664f4882a3754p-6,
    -0x1.226e355574d6ap-7,  0x1.d6d3cdab3b8a1p-9,  -0x1.7da306b7025b5p-10, 0x1.35511886b8c2ap-11,
    -0x1.f4c708370b999p-13, 0x1.90538d2eae5d6p-14, -0x1.26d7f53269de5p-15, 0x1.2944273292743p-17};

static const double erf_small_f64[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2,  0x1.ce2f21a042bcfp-4,  -0x1.b82ce3128833bp-6,
    0x1.565bcd0e4dbedp-8, -0x1.c02db3f8bb074p-11, 0x1.f9a325b4191a9p-14, -0x1.f4d2374b9b9a4p-17,
    0x1.b9e3e9b7b964p-20, -0x1.5f4cb53e0e288p-23, 0x1.f9e4fbac15f08p-27, -0x1.404c0664afa08p-30,
    0x1.1da4278195f51p-34};

static const double erfcx_f64[] = {
    0x1.058671b52c776p-2,   -0x1.b57034efd3f72p-2, 0x1.eeea7dc8a78b7p-3,   -0x1.437f0b68c0c59p-4,
    0x1.e947159797404p-9,   0x1.ca95ed5353a94p-8,  -0x1.bc25a477267a4p-11, -0x1.016b5cf2e4a05p-10,
    0x1.6d5ef51ee2c0fp-15,  0x1.6da97dc04e75cp-13, 0x1.cdcc4c44ab23bp-16,  -0x1.cebacffea9481p-16,
    -0x1.d49d8cf33fa26p-17, 0x1.7703063fa153bp-20, 0x1.faaab6516b98cp-19,  0x1.3b7036a7c5c38p-20,
    -0x1.0accf0b87c88dp-21, -0x1.e0ad28918fbf8p-22};

static const double LN2_HI = 0x1.62e42feep-1, LN2_LO = 0x1.a39ef35793c76p-33;
static const double LN2_A = 0x1.62e42fefa38p-1, LN2_B = 0x1.ef35793c76p-45,
                    LN2_C = 0x1.cc01f97b57a08p-87;

// v 2^n, n as i64; in three factors, so that any n of a result in range, or just out of it, will
// do.
static LV scale(Emit *e, LV v, LV n) {
  LV x = v, a = IASR(n, I64(1)), b = ISUB(n, a);
  LV p = BITS(ISHL(IADD(a, I64(1023)), I64(52)), e->f64),
     q = BITS(ISHL(IADD(b, I64(1023)), I64(52)), e->f64);
  return MUL(MUL(v, p), q);
}

LV near_exp(Emit *e, LV x) {
  x = SEL(FCMP(OGT, x, F64(710)), F64(710), x);
  x = SEL(FCMP(OLT, x, F64(-746)), F64(-746), x);
  LV magic = F64(0x1.8p52), t = MAD(x, F64(0x1.71547652b82fep+0), magic), n = SUB(t, magic);
  LV hi = MAD(n, F64(-LN2_HI), x), lo = MUL(n, F64(LN2_LO)), r = SUB(hi, lo);
  LV err = SUB(SUB(hi, r), lo);  // what r lacks
  LV p = MAD(MUL(r, r), horner(e, r, exp_f64, ARRAY_LEN(exp_f64)), err);
  return scale(e, ADD(F64(1), ADD(r, p)), ISUB(BITS(t, e->i64), BITS(magic, e->i64)));
}

// x = m 2^k with m from sqrt(1/2) to sqrt(2).
static LV split_exponent(Emit *e, LV x, LV *k) {
  LV small = FCMP(OLT, x, F64(0x1p-1022)), y = SEL(small, MUL(x, F64(0x1p54)), x);
  LV center = I64(0x3FE6A09E667F3BCD),
     bits = IADD(BITS(y, e->i64), ISUB(I64(0x3FF0000000000000), center));
  *k = ISUB(IASR(bits, I64(52)), SEL(small, I64(1023 + 54), I64(1023)));
  return BITS(IADD(IAND(bits, I64(0xFFFFFFFFFFFFF)), center), e->f64);
}

static LV small_int_to_f64(Emit *e,
                           LV x) {  // |x| < 2^51, without an instruction for 64-bit integers
  LV magic = F64(0x1.8p52);
  return SUB(BITS(IADD(x, BITS(magic, e->i64)), e->f64), magic);
}

static LV log_special(Emit *e, LV x, LV r) {
  r = SEL(FCMP(OEQ, x, F64(INFINITY)), x, r);
  r = SEL(FCMP(OEQ, x, F64(0)), F64(-INFINITY), r);
  return SEL(FCMP(UGE, x, F64(0)), SEL(FCMP(UNO, x, x), x, r), F64((double)NAN));
}

LV near_log(Emit *e, LV x) {
  LV k, m = split_exponent(e, x, &k), n = small_int_to_f64(e, k), f = SUB(m, F64(1));
  LV s = DIV(f, ADD(F64(2), f)), z = MUL(s, s), half = MUL(MUL(F64(0.5), f), f);
  LV p = MUL(z, horner(e, z, log_f64, ARRAY_LEN(log_f64)));
  LV t = MAD(s, ADD(half, p), MUL(n, F64(LN2_LO)));
  return log_special(e, x, MAD(n, F64(LN2_HI), SUB(f, SUB(half, t))));
}

// log of a sum whose lower part is below half a unit of the upper; finite and positive.
static Pair log_pair(Emit *e, Pair v) {
  LV x = v.hi, k, m = split_exponent(e, x, &k), n = small_int_to_f64(e, k);
  LV ratio = DIV(v.lo, v.hi), lo = SEL(FCMP(ORD, ratio, ratio), MUL(ratio, m), F64(0));
  Pair num = pair_sum(e, SUB(m, F64(1)), lo), den = pair_sum(e, ADD(m, F64(1)), F64(0));
  den.lo = ADD(SUB(m, SUB(den.hi, F64(1))), lo);
  Pair s = pair_div(e, num, den), z = pair_mul(e, s, s), s3 = pair_mul(e, s, z);
  Pair third = pair_mul(e, s3, (Pair){F64(0x1.5555555555555p-1), F64(0x1.5555555555555p-55)});
  LV tail = MUL(MUL(s3.hi, z.hi), horner(e, z.hi, log_dd, ARRAY_LEN(log_dd)));
  Pair r = pair_add(e, (Pair){MUL(F64(2), s.hi), MUL(F64(2), s.lo)},
                    pair_add(e, third, (Pair){tail, F64(0)}));
  Pair whole = {MUL(n, F64(LN2_A)), MUL(n, F64(LN2_B))};
  return pair_add(e, whole, r);
}

// exp of a sum, before it is scaled by 2^n.  Beyond the range of results what comes out is scaled
// out of range too.
static Pair exp_pair(Emit *e, Pair v, LV *n) {
  LV x = v.hi, in = FCMP(OLE, fp_abs(e, x), F64(800));
  x = SEL(FCMP(OGT, x, F64(800)), F64(800), SEL(FCMP(OLT, x, F64(-800)), F64(-800), x));
  LV xl = SEL(in, v.lo, F64(0));
  LV magic = F64(0x1.8p52), t = MAD(x, F64(0x1.71547652b82fep+0), magic), k = SUB(t, magic);
  Pair r = pair_sum(e, SUB(x, MUL(k, F64(LN2_A))), NEG(MUL(k, F64(LN2_B))));
  r = pair_sum(e, r.hi, ADD(r.lo, SUB(xl, MUL(k, F64(LN2_C)))));
  Pair sq = pair_mul(e, r, r);
  LV tail = MUL(MUL(sq.hi, r.hi), horner(e, r.hi, exp_dd, ARRAY_LEN(exp_dd)));
  Pair p = pair_add(e, (Pair){MUL(F64(0.5), sq.hi), MUL(F64(0.5), sq.lo)}, (Pair){tail, F64(0)});
  *n = ISUB(BITS(t, e->i64), BITS(magic, e->i64));
  return pair_add(e, (Pair){F64(1), F64(0)}, pair_add(e, r, p));
}

static Pair scale_pair(Emit *e, Pair p, LV n) {
  return (Pair){scale(e, p.hi, n), scale(e, p.lo, n)};
}

// ---- hyperbolic functions ----

// (exp(a) + sign exp(-a)) / 2, a >= 0.
static LV half_sum(Emit *e, LV x, LV a, bool minus) {
  LV n;
  Pair p = exp_pair(e, (Pair){a, F64(0)}, &n);
  LV most = ICMP(SGT, n, I64(1000));  // there exp(-a) does not matter
  Pair q = pair_div(e, (Pair){F64(1), F64(0)}, p);
  LV back = ISUB(I64(-1), n);
  LV low = scale(e, SEL(most, F64(0), q.hi), SEL(most, I64(0), back)),
     low2 = scale(e, SEL(most, F64(0), q.lo), SEL(most, I64(0), back));
  Pair up = scale_pair(e, p, ISUB(n, I64(1)));
  if (minus) low = NEG(low), low2 = NEG(low2);
  Pair s = pair_sum(e, up.hi, low);
  LV r = ADD(s.hi, ADD(s.lo, ADD(up.lo, low2)));
  r = SEL(FCMP(OEQ, up.hi, F64(INFINITY)), up.hi, r);
  return SEL(FCMP(UNO, x, x), x, r);
}

static LV sinh_of(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x);
  LV low = MAD(MUL(x, z), horner(e, z, sinh_f64, ARRAY_LEN(sinh_f64)), x);
  return SEL(FCMP(OLT, a, F64(1)), low, fp_copysign(e, half_sum(e, x, a, true), x));
}

static LV tanh_of(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x), n;
  LV low = MAD(MUL(x, z), horner(e, z, tanh_f64, ARRAY_LEN(tanh_f64)), x);
  LV c = SEL(FCMP(OGT, a, F64(20)), F64(20), a);
  Pair p = exp_pair(e, (Pair){ADD(c, c), F64(0)}, &n);
  Pair d = pair_add(e, scale_pair(e, p, n), (Pair){F64(1), F64(0)});
  Pair q = pair_div(e, (Pair){F64(2), F64(0)}, d);
  LV high = fp_copysign(e, SUB(SUB(F64(1), q.hi), q.lo), x);
  return SEL(FCMP(OLT, a, F64(0.5)), low, SEL(FCMP(UNO, x, x), x, high));
}

static LV asinh_of(Emit *e, LV x) {
  LV a = fp_abs(e, x), big = FCMP(OGT, a, F64(0x1p28)), c = SEL(big, F64(1), a);
  Pair root = pair_sqrt(e, pair_add(e, pair_product(e, c, c), (Pair){F64(1), F64(0)}));
  Pair l = log_pair(e, pair_add(e, root, (Pair){c, F64(0)}));
  LV far = ADD(near_log(e, a), F64(0x1.62e42fefa39efp-1));
  LV r = fp_copysign(e, SEL(big, far, ADD(l.hi, l.lo)), x),
     tiny = MAD(MUL(x, MUL(x, x)), F64(-1.0 / 6), x);
  return SEL(FCMP(OLT, a, F64(0x1p-26)), tiny, SEL(FCMP(UNO, x, x), x, r));
}

static LV acosh_of(Emit *e, LV x) {
  LV ok = FCMP(OGE, x, F64(1)), big = FCMP(OGT, x, F64(0x1p28)),
     c = SEL(IAND(ok, INOT(big)), x, F64(1));
  Pair root = pair_sqrt(e, pair_add(e, pair_product(e, c, c), (Pair){F64(-1), F64(0)}));
  Pair l = log_pair(e, pair_add(e, (Pair){c, F64(0)}, root));
  LV far = ADD(near_log(e, x), F64(0x1.62e42fefa39efp-1));
  LV r = SEL(big, far, ADD(l.hi, l.lo));
  return SEL(ok, r, F64((double)NAN));
}

static LV atanh_of(Emit *e, LV x) {
  LV a = fp_abs(e, x), in = FCMP(OLT, a, F64(1)), c = SEL(in, a, F64(0.5));
  Pair l = log_pair(e, pair_div(e, pair_sum(e, F64(1), c), pair_sum(e, F64(1), NEG(c))));
  LV r = fp_copysign(e, MUL(F64(0.5), ADD(l.hi, l.lo)), x);
  r = SEL(FCMP(OLT, a, F64(0x1p-26)), MAD(MUL(x, MUL(x, x)), F64(1.0 / 3), x), r);
  LV edge = SEL(FCMP(OEQ, a, F64(1)), fp_copysign(e, F64(INFINITY), x), F64((double)NAN));
  return SEL(in, r, edge);
}

// ---- erf, sigmoid ----

LV math_erf_f64(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x);
  LV low = MAD(x, horner(e, z, erf_small_f64, ARRAY_LEN(erf_small_f64)), x);
  LV c = SEL(FCMP(OGT, a, F64(6)), F64(6), a), t = DIV(SUB(c, F64(2)), ADD(c, F64(2)));
  Pair sq = pair_product(e, c, c);
  LV g = near_exp(e, NEG(sq.hi));
  g = SUB(g, MUL(g, sq.lo));
  LV high = fp_copysign(e, SUB(F64(1), MUL(g, horner(e, t, erfcx_f64, ARRAY_LEN(erfcx_f64)))), x);
  return SEL(FCMP(OLT, a, F64(0.9)), low, SEL(FCMP(UNO, x, x), x, high));
}

static LV sigmoid_of(Emit *e, LV x) {
  LV t = near_exp(e, NEG(fp_abs(e, x)));
  return share_of(e, SEL(FCMP(OLT, x, F64(0)), t, F64(1)), t, F64(1));
}

// ---- pow ----

// C's rules for the sign and the values that the formula does not give; r is |x|^y.
static LV pow_special(Emit *e, LV x, LV y, LV r) {
  LV a = fp_abs(e, x), one = F64(1), whole = FCMP(OEQ, fp_round(e, LOOP_floor, y), y);
  LV half = MUL(y, F64(0.5)), odd = IAND(whole, FCMP(ONE, fp_round(e, LOOP_floor, half), half));
  odd = IAND(odd, FCMP(OLT, fp_abs(e, y), F64(INFINITY)));
  LV neg = ICMP(SLT, BITS(x, e->i64), I64(0));
  r = SEL(FCMP(OEQ, a, one), one, r);
  r = SEL(IAND(neg, odd), NEG(r), r);
  LV none = IAND(IAND(FCMP(OLT, x, F64(0)), FCMP(ONE, a, F64(INFINITY))), INOT(whole));
  r = SEL(none, F64((double)NAN), r);
  r = SEL(FCMP(UNO, x, y), ADD(x, y), r);
  return SEL(IOR(FCMP(OEQ, y, F64(0)), FCMP(OEQ, x, one)), one, r);
}

LV math_pow_f64(Emit *e, LV x, LV y) {
  LV a = fp_abs(e, x), usual = IAND(FCMP(OGT, a, F64(0)), FCMP(OLT, a, F64(INFINITY)));
  Pair l = log_pair(e, (Pair){SEL(usual, a, F64(1)), F64(0)});
  Pair p = pair_product(e, y, l.hi);
  LV lo = MAD(y, l.lo, p.lo), hi = SEL(usual, p.hi, MUL(y, near_log(e, a)));
  lo = SEL(FCMP(OLT, fp_abs(e, lo), F64(1)), lo, F64(0));
  LV n;
  Pair r = exp_pair(e, (Pair){hi, lo}, &n);
  return pow_special(e, x, y, scale(e, ADD(r.hi, r.lo), n));
}

LV math_pow_f32(Emit *e, LV x, LV y) {
  LV a = TO_F64(x), b = TO_F64(y);
  LV r = near_exp(e, MUL(b, near_log(e, fp_abs(e, a))));
  return TO_F32(pow_special(e, a, b, r));
}

// ---- the table ----

LV math_f64(Emit *e, LoopOp op, LV x) {
  switch ((int)op) {
  case LOOP_exp: return near_exp(e, x);
  case LOOP_log: return near_log(e, x);
  case LOOP_sin:
  case LOOP_cos:
  case LOOP_tan: return math_circular_f64(e, op, x);
  case LOOP_asin: return math_asin_f64(e, x);
  case LOOP_acos: return math_acos_f64(e, x);
  case LOOP_atan: return math_atan_f64(e, x);
  case LOOP_sinh: return sinh_of(e, x);
  case LOOP_cosh: return half_sum(e, x, fp_abs(e, x), false);
  case LOOP_tanh: return tanh_of(e, x);
  case LOOP_asinh: return asinh_of(e, x);
  case LOOP_acosh: return acosh_of(e, x);
  case LOOP_atanh: return atanh_of(e, x);
  case LOOP_erf: return math_erf_f64(e, x);
  case LOOP_sigmoid: return sigmoid_of(e, x);
  }
  emit_fail(e, "%s does not take floats", loop_op_name[op]);
  return x;
}
