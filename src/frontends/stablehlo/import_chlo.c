// import_chlo.c -- CHLO: functions that StableHLO's clients use before they are decomposed.
#include "frontends/stablehlo/import.h"

static const char *plain_name(const HloCall *c) { return c->op->name + strlen("chlo."); }

static void function(HloCall *c) {
  if (c->nin == 1 && c->in[0].im) {
    if (!hlo_complex_unary(c, plain_name(c))) hlo_refuse(c, "of complex numbers");
    return;
  }
  Node *x = hlo_in(c, 0), *y = NULL;
  if (!c->row->op) y = hr_special(c->g, plain_name(c), x);
  hlo_give(c, y ? y : hb_node(c->g, c->row->op, 1, &x));
}

static void square(HloCall *c) {
  Cx z = cx_of(c->g, &c->in[0]);
  HloValue v = {.re = N(c->g, mul, z.re, z.re)};
  if (c->in[0].im) {
    Cx y = cx_mul(c->g, z, z);
    v = (HloValue){.re = y.re, .im = y.im};
  }
  hlo_give_value(c, 0, v);
}

static void is_inf(HloCall *c) {
  Node *x = hlo_in(c, 0);
  if (c->g->status) return;
  Node *inf = N(c->g, is_inf, x), *below = N(c->g, lt, x, hb_num(c->g, x, 0));
  hlo_give(c, !c->row->op ? inf : N(c->g, and, inf, c->row->op > 0 ? N(c->g, not, below) : below));
}

static void conj_(HloCall *c) {
  HloValue v = c->in[0];
  if (v.im) v.im = N(c->g, neg, v.im);
  hlo_give_value(c, 0, v);
}

// The float after x on the way to y: its bits as an integer, one more or one less.
static void next_after(HloCall *c) {
  Graph *g = c->g;
  Node *x = hlo_in(c, 0), *y = hlo_in(c, 1);
  if (g->status) return;
  DType t = type_of(x)->dtype;
  int bits = dtype_bits(t);
  DType as = bits == 64 ? DT_I64 : bits == 32 ? DT_I32 : DT_I16;
  Node *b = hb_bits(g, x, as), *zero = hb_num(g, x, 0);
  Node *below = N(g, lt, x, zero), *up = N(g, lt, x, y);
  Node *grows = N(g, not, N(g, xor, up, N(g, not, below)));  // the magnitude
  Node *step = hb_where(g, grows, hb_num(g, b, 1), hb_num(g, b, -1));
  Node *next = hb_bits(g, N(g, add, b, step), t);
  Node *least = hb_bits(
      g,
      N(g, bit_or, N(g, bit_and, hb_bits(g, y, as), hb_u64(g, as, (uint64_t)1 << (bits - 1))),
        hb_num(g, b, 1)),
      t);
  next = hb_where(g, N(g, eq, x, zero), least, next);
  next = hb_where(g, N(g, eq, x, y), y, next);
  Node *nan = N(g, or, N(g, is_nan, x), N(g, is_nan, y));
  hlo_give(c, hb_where(g, nan, N(g, add, x, y), next));
}

// The upper half of the product: in 64 bits, or for those by halves of 32.
static Node *high_u64(Graph *g, Node *x, Node *y) {
  Node *half = hb_u64(g, DT_U64, 32), *mask = hb_u64(g, DT_U64, 0xFFFFFFFF);
  Node *xl = N(g, bit_and, x, mask), *xh = N(g, shift_right, x, half);
  Node *yl = N(g, bit_and, y, mask), *yh = N(g, shift_right, y, half);
  Node *low = N(g, shift_right, N(g, mul, xl, yl), half);
  Node *a = N(g, add, N(g, mul, xh, yl), low);
  Node *b = N(g, add, N(g, mul, xl, yh), N(g, bit_and, a, mask));
  Node *top = N(g, add, N(g, mul, xh, yh), N(g, shift_right, a, half));
  return N(g, add, top, N(g, shift_right, b, half));
}
static void mulhi(HloCall *c) {
  Graph *g = c->g;
  Node *x = hlo_in(c, 0), *y = hlo_in(c, 1);
  if (g->status) return;
  DType t = type_of(x)->dtype;
  bool minus = dtype_class(t) == DC_INT;
  if (dtype_bits(t) < 64) {
    DType wide = minus ? DT_I64 : DT_U64;
    Node *p = N(g, mul, hb_cast(g, x, wide), hb_cast(g, y, wide));
    hlo_give(c, hb_cast(g, N(g, shift_right, p, hb_u64(g, wide, (uint64_t)dtype_bits(t))), t));
    return;
  }
  Node *u = high_u64(g, hb_bits(g, x, DT_U64), hb_bits(g, y, DT_U64));
  if (minus) {
    Node *zero = hb_num(g, x, 0);
    u = hb_bits(g, u, t);
    u = N(g, sub, u, hb_where(g, N(g, lt, x, zero), y, zero));
    u = N(g, sub, u, hb_where(g, N(g, lt, y, zero), x, zero));
  }
  hlo_give(c, u);
}

// clang-format off
static const HloRow rows[] = {
    {"chlo.acos",       function,   OP_acos,  HLO_PLAIN, NULL},
    {"chlo.acosh",      function,   OP_acosh, HLO_PLAIN, NULL},
    {"chlo.asin",       function,   OP_asin,  HLO_PLAIN, NULL},
    {"chlo.asinh",      function,   OP_asinh, HLO_PLAIN, NULL},
    {"chlo.atan",       function,   OP_atan,  HLO_PLAIN, NULL},
    {"chlo.atanh",      function,   OP_atanh, HLO_PLAIN, NULL},
    {"chlo.bessel_i1e", function,   0,        HLO_PLAIN, NULL},
    {"chlo.conj",       conj_,      0,        HLO_PLAIN, NULL},
    {"chlo.cosh",       function,   0,        HLO_PLAIN, NULL},
    {"chlo.digamma",    function,   0,        HLO_PLAIN, NULL},
    {"chlo.erf",        function,   OP_erf,   HLO_PLAIN, NULL},
    {"chlo.erf_inv",    function,   0,        HLO_PLAIN, NULL},
    {"chlo.erfc",       function,   0,        HLO_PLAIN, NULL},
    {"chlo.is_inf",     is_inf,     0,        HLO_PLAIN, NULL},
    {"chlo.is_neg_inf", is_inf,     -1,       HLO_PLAIN, NULL},
    {"chlo.is_pos_inf", is_inf,     1,        HLO_PLAIN, NULL},
    {"chlo.lgamma",     function,   0,        HLO_PLAIN, NULL},
    {"chlo.mulhi",      mulhi,      0,        HLO_PLAIN, NULL},
    {"chlo.next_after", next_after, 0,        HLO_PLAIN, NULL},
    {"chlo.sinh",       function,   0,        HLO_PLAIN, NULL},
    {"chlo.square",     square,     0,        HLO_PLAIN, NULL},
    {"chlo.tan",        function,   OP_tan,   HLO_PLAIN, NULL},
};
// clang-format on
HLO_TABLE(hlo_chlo);
