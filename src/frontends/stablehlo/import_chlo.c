// import_chlo.c -- CHLO: functions that StableHLO's clients use before they are taken apart.
#include "frontends/stablehlo/import.h"

static void unary(HloCall *c) {
  Node *x = hlo_in(c, 0);
  hlo_give(c, hb_node(c->g, c->row->op, 1, &x));
}

// clang-format off
static const HloRow rows[] = {
    {"chlo.acos",  unary, OP_acos,  HLO_PLAIN, NULL},
    {"chlo.acosh", unary, OP_acosh, HLO_PLAIN, NULL},
    {"chlo.asin",  unary, OP_asin,  HLO_PLAIN, NULL},
    {"chlo.asinh", unary, OP_asinh, HLO_PLAIN, NULL},
    {"chlo.atan",  unary, OP_atan,  HLO_PLAIN, NULL},
    {"chlo.atanh", unary, OP_atanh, HLO_PLAIN, NULL},
    {"chlo.cosh",  unary, OP_cosh,  HLO_PLAIN, NULL},
    {"chlo.erf",   unary, OP_erf,   HLO_PLAIN, NULL},
    {"chlo.sinh",  unary, OP_sinh,  HLO_PLAIN, NULL},
    {"chlo.tan",   unary, OP_tan,   HLO_PLAIN, NULL},
};
// clang-format on
HLO_TABLE(hlo_chlo);
