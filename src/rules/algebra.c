// algebra.c -- identities that hold for every shape and target.
//
// A rule reads: find => put.  The same letter twice means the same node; K(a) is a constant.  A
// replacement must have the type of what it replaces: where a constant broadcasts the other operand
// to a larger shape, the driver leaves the node alone.
#include "rules/letters.h"
#include "rules/rules.h"

#define F(body) "(%x: f32[n, 4], %y: f32[n, 4]) { " body " return %r }"
#define I(body) "(%x: i32[n, 4], %y: i32[n, 4]) { " body " return %r }"
#define B(body) "(%x: bool[n, 4], %y: bool[n, 4]) { " body " return %r }"
#define C0      "%c = const f32[] {0} "
#define CN0     "%c = const f32[] {-0} "
#define C1      "%c = const f32[] {1} "

static bool b_varies(const Match *m) { return m->var[SLOT_b]->op != OP_const; }
static bool is_int(const Match *m) { return dtype_is_int(type_of(m->root)->dtype); }

static const Rule algebra[] = {
    // clang-format off
    //   name            find                         put
    RULE("add.zero",     P(add, a, NUM(0.0)),         a, .fast = FAST_NO_SZ, .example = F(C0 "%r = add(%x, %c)")),   // -0 + 0 is +0
    RULE("add.neg_zero", P(add, a, NUM(-0.0)),        a, .example = F(CN0 "%r = add(%x, %c)")),
    RULE("add.int_zero", P(add, a, NUM(0)),           a, .when = is_int, .example = I("%c = const i32[] {0} %r = add(%x, %c)")),
    RULE("sub.zero",     P(sub, a, NUM(0.0)),         a, .example = F(C0 "%r = sub(%x, %c)")),
    RULE("mul.one",      P(mul, a, NUM(1)),           a, .example = F(C1 "%r = mul(%x, %c)")),
    RULE("div.one",      P(div, a, NUM(1)),           a, .example = F(C1 "%r = div(%x, %c)")),
    RULE("pow.one",      P(pow, a, NUM(1)),           a, .example = F(C1 "%r = pow(%x, %c)")),
    RULE("pow.two",      P(pow, a, NUM(2)),           P(mul, a, a), .example = F("%c = const f32[] {2} %r = pow(%x, %c)")),
    RULE("pow.half",     P(pow, a, NUM(0.5)),         P(sqrt, a), .fast = FAST_NO_NAN | FAST_NO_SZ, .example = F("%c = const f32[] {0.5} %r = pow(%x, %c)")),
    RULE("neg.neg",      P(neg, P(neg, a)),           a, .example = F("%s = neg(%x) %r = neg(%s)")),
    RULE("add.neg",      P(add, a, P(neg, b)),        P(sub, a, b), .when = b_varies, .example = F("%s = neg(%y) %r = add(%x, %s)")),
    RULE("sub.neg",      P(sub, a, P(neg, b)),        P(add, a, b), .example = F("%s = neg(%y) %r = sub(%x, %s)")),
    RULE("sub.self",     P(sub, a, a),                P(mul, a, NUM(0)), .fast = FAST_NO_NAN | FAST_NO_SZ, .example = F("%r = sub(%x, %x)")),
    RULE("not.not",      P(not, P(not, a)),           a, .example = B("%s = not(%x) %r = not(%s)")),
    RULE("and.self",     P(and, a, a),                a, .example = B("%r = and(%x, %x)")),
    RULE("or.self",      P(or, a, a),                 a, .example = B("%r = or(%x, %x)")),
    RULE("max.self",     P(max, a, a),                a, .example = F("%r = max(%x, %x)")),
    RULE("min.self",     P(min, a, a),                a, .example = F("%r = min(%x, %x)")),
    RULE("where.same",   P(where, a, b, b),           b, .example = "(%x: bool[n], %y: f32[n]) { %r = where(%x, %y, %y) return %r }"),
    RULE("abs.abs",      P(abs, P(abs, a)),           P(abs, a), .example = F("%s = abs(%x) %r = abs(%s)")),
    RULE("relu.relu",    P(relu, P(relu, a)),         P(relu, a), .example = F("%s = relu(%x) %r = relu(%s)")),
    RULE("relu.max",     P(max, a, NUM(0.0)),         P(relu, a), .fast = FAST_NO_SZ, .example = F(C0 "%r = max(%x, %c)")),
    // clang-format on
};
const RuleSet rules_algebra =
    RULES("algebra", algebra, "the number of nodes, then the cost of an op");
