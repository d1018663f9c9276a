// template_ops.c -- operators, subscripts and slices of chat templates, with Python's meaning.
//
// Integers have 64 bits; a result beyond them is an error, never a wrong number.
#include "text/template_impl.h"

#include <math.h>

int64_t need_int(Tpl *x, Value v, const char *what) {
  need_defined(x, v);
  if (!is_int(v)) tpl_fail(x, "%s must be an integer, not %s", what, kind_name(v));
  return int_of(v);
}

int64_t opt_int_arg(Tpl *x, Value v, int64_t dflt, const char *what) {
  return v.kind == V_MISSING ? dflt : need_int(x, v, what);
}

bool opt_true(Tpl *x, Value v, bool dflt) { return v.kind == V_MISSING ? dflt : v_true(x, v); }

static NORETURN void bad_operands(Tpl *x, const char *op, Value a, Value b) {
  need_defined(x, a);
  need_defined(x, b);
  tpl_fail(x, "'%s' does not take values of types %s and %s", op, kind_name(a), kind_name(b));
}

static NORETURN void overflow(Tpl *x) {
  tpl_fail_as(x, TENON_EUNSUPPORTED, TEMPLATE_LIMIT, "an integer beyond 64 bits");
}

// ---- integers ----

static int64_t floor_div(Tpl *x, int64_t a, int64_t b) {
  if (!b) tpl_fail(x, "division by zero");
  if (a == INT64_MIN && b == -1) overflow(x);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(Tpl *x, int64_t a, int64_t b) {
  if (!b) tpl_fail(x, "division by zero");
  if (b == -1) return 0;
  int64_t m = a % b;
  return m && (m < 0) != (b < 0) ? m + b : m;
}

static Value int_pow(Tpl *x, int64_t a, int64_t n) {
  if (n < 0) {
    if (!a) tpl_fail(x, "0 cannot be raised to a negative power");
    return v_float(pow((double)a, (double)n));
  }
  int64_t r = 1;
  while (n) {
    if ((n & 1) && !ck_mul(r, a, &r)) overflow(x);
    n >>= 1;
    if (n && !ck_mul(a, a, &a)) overflow(x);
  }
  return v_int(r);
}

// Python divides integers with one rounding.
static double int_div(Tpl *x, int64_t a, int64_t b) {
  if (!b) tpl_fail(x, "division by zero");
  int64_t most = (int64_t)1 << 53;
  if (a >= -most && a <= most && b >= -most && b <= most) return (double)a / (double)b;
  return (double)((long double)a / (long double)b);
}

static Value int_op(Tpl *x, TplOp op, int64_t a, int64_t b) {
  int64_t r;
  switch (op) {
  case OP_ADD:
    if (!ck_add(a, b, &r)) overflow(x);
    return v_int(r);
  case OP_SUB:
    if (!ck_sub(a, b, &r)) overflow(x);
    return v_int(r);
  case OP_MUL:
    if (!ck_mul(a, b, &r)) overflow(x);
    return v_int(r);
  case OP_DIV: return v_float(int_div(x, a, b));
  case OP_FLOORDIV: return v_int(floor_div(x, a, b));
  case OP_MOD: return v_int(floor_mod(x, a, b));
  default: return int_pow(x, a, b);
  }
}

// ---- floats ----

static double float_mod(double a, double b) {
  double m = fmod(a, b);
  if (m == 0) return copysign(0, b);
  return (m < 0) != (b < 0) ? m + b : m;
}

static double float_floor_div(double a, double b) {
  double m = fmod(a, b), d = (a - m) / b;
  if (m != 0 && (m < 0) != (b < 0)) d -= 1;
  if (d == 0) return copysign(0, a / b);
  double f = floor(d);
  return d - f > 0.5 ? f + 1 : f;
}

static double float_pow(Tpl *x, double a, double b) {
  if (a == 0 && b < 0) tpl_fail(x, "0 cannot be raised to a negative power");
  if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b)) tpl_unsupported(x, "a complex number");
  double r = pow(a, b);
  if (isinf(r) && isfinite(a) && isfinite(b)) tpl_fail(x, "a number out of range");
  return r;
}

static Value float_op(Tpl *x, TplOp op, double a, double b) {
  if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
    tpl_fail(x, "division by zero");
  switch (op) {
  case OP_ADD: return v_float(a + b);
  case OP_SUB: return v_float(a - b);
  case OP_MUL: return v_float(a * b);
  case OP_DIV: return v_float(a / b);
  case OP_FLOORDIV: return v_float(float_floor_div(a, b));
  case OP_MOD: return v_float(float_mod(a, b));
  default: return v_float(float_pow(x, a, b));
  }
}

// ---- sequences ----

static Value text_repeat(Tpl *x, Value s, int64_t n) {
  int64_t bytes;
  if (n <= 0 || !s.s->n) return v_like(s, v_cstr(x, ""));
  if (!ck_mul(s.s->n, n, &bytes)) tpl_limit(x, "memory");
  char *p = tpl_alloc(x, bytes);
  tpl_spend(x, bytes / 32);
  for (int64_t i = 0; i < n; i++) memcpy(p + i * s.s->n, s.s->p, (size_t)s.s->n);
  return v_like(s, v_str(x, (Str){p, bytes}));
}

static Value items_repeat(Tpl *x, Value l, int64_t n) {
  int64_t count;
  if (n < 0) n = 0;
  if (!ck_mul(l.l->n, n, &count)) tpl_limit(x, "memory");
  Value *v = tpl_array(x, Value, count);
  tpl_spend(x, count);
  for (int64_t i = 0; i < count; i++) v[i] = l.l->v[i % l.l->n];
  return v_items(x, (ValueKind)l.kind, v, count);
}

// Safe text stays safe: what joins it is escaped.
static Value add_text(Tpl *x, Value a, Value b) {
  if (!a.safe && !b.safe) return text_join(x, a, b);
  Value s = text_join(x, v_escape(x, a), v_escape(x, b));
  s.safe = true;
  return s;
}

static Value add(Tpl *x, Value a, Value b) {
  if (is_str(a) && is_str(b)) return add_text(x, a, b);
  if (is_items(a) && a.kind == b.kind) return items_join(x, a, b);
  bad_operands(x, "+", a, b);
}

static Value multiply(Tpl *x, Value a, Value b) {
  if (is_int(a) && (is_str(b) || is_items(b))) {
    Value swap = a;
    a = b;
    b = swap;
  }
  if (is_int(b) && is_str(a)) return text_repeat(x, a, int_of(b));
  if (is_int(b) && is_items(a)) return items_repeat(x, a, int_of(b));
  bad_operands(x, "*", a, b);
}

Value v_binary(Tpl *x, TplOp op, Value a, Value b) {
  static const char *const sign[] = {"+", "-", "*", "/", "//", "%", "**"};
  if (is_int(a) && is_int(b)) return int_op(x, op, int_of(a), int_of(b));
  if (is_number(a) && is_number(b)) return float_op(x, op, float_of(a), float_of(b));
  if (op == OP_MOD && is_str(a)) return format_percent(x, a, b);
  if (op == OP_ADD) return add(x, a, b);
  if (op == OP_MUL) return multiply(x, a, b);
  bad_operands(x, sign[op], a, b);
}

bool v_compare(Tpl *x, TplOp op, Value a, Value b) {
  switch (op) {
  case OP_EQ: return v_equal(x, a, b);
  case OP_NE: return !v_equal(x, a, b);
  case OP_IN: return v_in(x, a, b);
  case OP_NOTIN: return !v_in(x, a, b);
  default: break;
  }
  int order;
  if (is_items(a) && a.kind == b.kind) {
    // The first difference decides with the operator itself.
    for (int64_t i = 0; i < MIN(a.l->n, b.l->n); i++)
      if (!v_same(a.l->v[i], b.l->v[i]) && !v_equal(x, a.l->v[i], b.l->v[i])) {
        tpl_enter(x);
        bool r = v_compare(x, op, a.l->v[i], b.l->v[i]);
        tpl_leave(x);
        return r;
      }
    order = (a.l->n > b.l->n) - (a.l->n < b.l->n);
  } else if (a.kind == V_VIEW || b.kind == V_VIEW) {
    tpl_unsupported(x, "the order of views");
  } else {
    order = v_order(x, a, b);
  }
  if (order == 2) return false;
  return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}

Value v_negate(Tpl *x, Value v, bool minus) {
  need_defined(x, v);
  if (v.kind == V_FLOAT) return v_float(minus ? -v.f : v.f);
  if (!is_int(v)) tpl_fail(x, "a value of type %s has no sign", kind_name(v));
  int64_t r = int_of(v);
  if (minus && !ck_sub(0, r, &r)) overflow(x);
  return v_int(r);
}

// ---- subscripts ----

static Value item_at(Tpl *x, Value obj, int64_t i) {
  if (is_items(obj)) return obj.l->v[i];
  if (obj.kind == V_RANGE) return v_int(obj.r->start + i * obj.r->step);
  const char *p = utf8_at(x, obj.s, i), *end = p;
  (void)utf8_next(&end);
  return v_like(obj, v_str(x, (Str){p, end - p}));
}

static bool is_indexed(Value v) { return is_items(v) || is_str(v) || v.kind == V_RANGE; }

Value v_item(Tpl *x, Value obj, Value index) {
  uint64_t h;
  need_defined(x, obj);
  if (obj.kind == V_DICT && v_hash(x, index, &h)) {
    const Value *v = dict_get(x, obj.d, index);
    if (v) return *v;
  }
  if (is_indexed(obj) && is_int(index)) {
    int64_t n = v_len(x, obj), i = int_of(index);
    if (i < 0) i += n;
    if (i >= 0 && i < n) return item_at(x, obj, i);
  }
  if (is_str(index)) {
    Value v = v_own_attr(x, obj, str_of_value(index));
    if (v.kind != V_MISSING) return v;
  }
  return v_undef_name(x, obj, index);
}

// One bound of a slice, as Python clips it.
static int64_t bound(Tpl *x, Value v, int64_t n, int64_t step, int64_t dflt) {
  if (v.kind == V_MISSING || v.kind == V_NONE) return dflt;
  int64_t i = need_int(x, v, "a bound of a slice");
  if (i < 0) {
    i = i < -n ? -1 : i + n;
    return i < 0 ? (step < 0 ? -1 : 0) : i;
  }
  return i >= n ? (step < 0 ? n - 1 : n) : i;
}

static Value text_slice(Tpl *x, Value s, int64_t from, int64_t step, int64_t count) {
  if (!count) return v_like(s, v_cstr(x, ""));
  const char *p = utf8_at(x, s.s, from);
  if (step == 1) {
    bool ascii = text_chars(x, s.s) == s.s->n;
    const char *end = p + count;
    if (!ascii)
      for (end = p; count > 0; count--) (void)utf8_next(&end);
    return v_like(s, v_str(x, (Str){p, end - p}));
  }
  Buf b = {0};
  for (int64_t i = 0; i < count; i++) {
    const char *q = p, *end = s.s->p + s.s->n;
    buf_char(x, &b, utf8_next(&q));
    if (i + 1 == count) break;
    for (int64_t k = 0; k < step && p < end; k++) (void)utf8_next(&p);
    for (int64_t k = 0; k > step && p > s.s->p; k--) (void)utf8_last(s.s->p, &p);
    tpl_spend(x, 1 + (step < 0 ? -step : step) / 16);
  }
  return v_like(s, buf_value(x, &b));
}

Value v_slice(Tpl *x, Value obj, Value start, Value stop, Value by) {
  need_defined(x, obj);
  if (!is_indexed(obj)) tpl_fail(x, "a value of type %s has no slices", kind_name(obj));
  int64_t n = v_len(x, obj), step = 1;
  if (by.kind != V_MISSING && by.kind != V_NONE) step = need_int(x, by, "the step of a slice");
  if (!step) tpl_fail(x, "the step of a slice is 0");
  step = MAX(step, -INT64_MAX);
  int64_t from = bound(x, start, n, step, step < 0 ? n - 1 : 0);
  int64_t to = bound(x, stop, n, step, step < 0 ? -1 : n), count = 0;
  if (step > 0 && from < to) count = (to - from - 1) / step + 1;
  if (step < 0 && from > to) count = (from - to - 1) / -step + 1;
  if (is_str(obj)) return text_slice(x, obj, from, count > 1 ? step : 1, count);
  if (obj.kind == V_RANGE) {
    Range *r = tpl_new(x, Range);
    int64_t each = obj.r->step;
    if (!ck_mul(each, step, &r->step)) overflow(x);
    *r = (Range){obj.r->start + from * each, obj.r->start + to * each, r->step, count};
    return (Value){.kind = V_RANGE, .r = r};
  }
  Value *v = tpl_array(x, Value, count);
  tpl_spend(x, count / 8);
  for (int64_t i = 0; i < count; i++) v[i] = obj.l->v[from + i * step];
  return v_items(x, (ValueKind)obj.kind, v, count);
}
