// template_is.c -- the tests of chat templates: `value is defined` and the others of jinja2.
#include "text/template_impl.h"

#define TEST_OF(name, condition)                                                                   \
  static Value name(Tpl *x, Value v, const Value *arg) {                                           \
    (void)x;                                                                                       \
    (void)arg;                                                                                     \
    return v_bool(condition);                                                                      \
  }

static bool remainder_is(Tpl *x, Value v, Value by, int64_t rest) {
  need_defined(x, v);
  return v_equal(x, v_binary(x, OP_MOD, v, by), v_int(rest));
}

static bool is_case(Tpl *x, Value v, const char *name) {
  return str_method_find(str_of(name))->fn(x, to_str(x, v), NULL).b;
}

static bool is_callable(Value v) {
  return v.kind == V_UNDEF || v.kind == V_MACRO || v.kind == V_FUNC || v.kind == V_METHOD ||
         v.kind == V_LOOP || v.kind == V_JOINER;
}

static bool is_sequence(Value v) {
  return v.kind == V_UNDEF || is_str(v) || is_items(v) || v.kind == V_DICT || v.kind == V_RANGE;
}

static bool is_name_of(Tpl *x, Value v, bool filter) {
  (void)need_hash(x, v);
  if (!is_str(v)) return false;
  return (filter ? filter_find(str_of_value(v)) : test_find(str_of_value(v))) != NULL;
}

TEST_OF(t_odd, remainder_is(x, v, v_int(2), 1))
TEST_OF(t_even, remainder_is(x, v, v_int(2), 0))
TEST_OF(t_divisibleby, remainder_is(x, v, arg[0], 0))
TEST_OF(t_defined, v.kind != V_UNDEF)
TEST_OF(t_undefined, v.kind == V_UNDEF)
TEST_OF(t_filter, is_name_of(x, v, true))
TEST_OF(t_test, is_name_of(x, v, false))
TEST_OF(t_none, v.kind == V_NONE)
TEST_OF(t_boolean, v.kind == V_BOOL)
TEST_OF(t_false, v.kind == V_BOOL && !v.b)
TEST_OF(t_true, v.kind == V_BOOL && v.b)
TEST_OF(t_integer, v.kind == V_INT)
TEST_OF(t_float, v.kind == V_FLOAT)
TEST_OF(t_lower, is_case(x, v, "islower"))
TEST_OF(t_upper, is_case(x, v, "isupper"))
TEST_OF(t_string, is_str(v))
TEST_OF(t_mapping, v.kind == V_DICT)
TEST_OF(t_number, is_number(v))
TEST_OF(t_sequence, is_sequence(v))
TEST_OF(t_iterable, is_iterable(v))
TEST_OF(t_callable, is_callable(v))
TEST_OF(t_sameas, v_same(v, arg[0]))
TEST_OF(t_escaped, is_str(v) && v.safe)
TEST_OF(t_in, v_in(x, v, arg[0]))
TEST_OF(t_eq, v_equal(x, v, arg[0]))
TEST_OF(t_ne, !v_equal(x, v, arg[0]))
TEST_OF(t_gt, v_compare(x, OP_GT, v, arg[0]))
TEST_OF(t_ge, v_compare(x, OP_GE, v, arg[0]))
TEST_OF(t_lt, v_compare(x, OP_LT, v, arg[0]))
TEST_OF(t_le, v_compare(x, OP_LE, v, arg[0]))

static const FnRow test[] = {
    {"odd", "", 0, t_odd, NULL},
    {"even", "", 0, t_even, NULL},
    {"divisibleby", "num", 1, t_divisibleby, NULL},
    {"defined", "", 0, t_defined, NULL},
    {"undefined", "", 0, t_undefined, NULL},
    {"filter", "", 0, t_filter, NULL},
    {"test", "", 0, t_test, NULL},
    {"none", "", 0, t_none, NULL},
    {"boolean", "", 0, t_boolean, NULL},
    {"false", "", 0, t_false, NULL},
    {"true", "", 0, t_true, NULL},
    {"integer", "", 0, t_integer, NULL},
    {"float", "", 0, t_float, NULL},
    {"lower", "", 0, t_lower, NULL},
    {"upper", "", 0, t_upper, NULL},
    {"string", "", 0, t_string, NULL},
    {"mapping", "", 0, t_mapping, NULL},
    {"number", "", 0, t_number, NULL},
    {"sequence", "", 0, t_sequence, NULL},
    {"iterable", "", 0, t_iterable, NULL},
    {"callable", "/", 0, t_callable, NULL},
    {"sameas", "other", 1, t_sameas, NULL},
    {"escaped", "", 0, t_escaped, NULL},
    {"in", "seq", 1, t_in, NULL},
    {"==", "/other", 1, t_eq, NULL},
    {"eq", "/other", 1, t_eq, NULL},
    {"equalto", "/other", 1, t_eq, NULL},
    {"!=", "/other", 1, t_ne, NULL},
    {"ne", "/other", 1, t_ne, NULL},
    {">", "/other", 1, t_gt, NULL},
    {"gt", "/other", 1, t_gt, NULL},
    {"greaterthan", "/other", 1, t_gt, NULL},
    {"ge", "/other", 1, t_ge, NULL},
    {">=", "/other", 1, t_ge, NULL},
    {"<", "/other", 1, t_lt, NULL},
    {"lt", "/other", 1, t_lt, NULL},
    {"lessthan", "/other", 1, t_lt, NULL},
    {"<=", "/other", 1, t_le, NULL},
    {"le", "/other", 1, t_le, NULL},
};

const FnRow *test_find(Str name) { return fn_find(test, ARRAY_LEN(test), name); }
