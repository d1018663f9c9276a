// template_filter.c -- the filters of chat templates that work on one value.
//
// Filters of sequences are in template_filter_list.c.  A filter of jinja2 that is in neither table
// does not exist; one without parameters is refused by name.
#include "text/template_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Value method(Tpl *x, Value self, const char *name, Value a, Value b, Value c) {
  Value arg[MOST_PARAMS] = {a, b, c};
  return str_method_find(str_of(name))->fn(x, self, arg);
}
static Value method0(Tpl *x, Value self, const char *name) {
  return method(x, soft_str(x, self), name, v_missing(), v_missing(), v_missing());
}

static Value f_upper(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return method0(x, v, "upper");
}
static Value f_lower(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return method0(x, v, "lower");
}
static Value f_capitalize(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return method0(x, v, "capitalize");
}
static Value f_trim(Tpl *x, Value v, const Value *arg) {
  return method(x, soft_str(x, v), "strip", arg[0], v_missing(), v_missing());
}
static Value f_string(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return soft_str(x, v);
}
static Value f_center(Tpl *x, Value v, const Value *arg) {
  Value width = arg[0].kind == V_MISSING ? v_int(80) : arg[0];
  return method(x, soft_str(x, v), "center", width, v_missing(), v_missing());
}

static Value f_replace(Tpl *x, Value v, const Value *arg) {
  Value count = arg[2].kind == V_NONE ? v_missing() : arg[2];
  return method(x, to_str(x, v), "replace", to_str(x, arg[0]), to_str(x, arg[1]), count);
}

static bool begins_word(uint32_t c) {
  return uc_is_space(c) || (c < 0x80 && c && strchr("-({[<", (char)c));
}

// A word begins behind white space, '-' and opening brackets.
static Value f_title(Tpl *x, Value v, const Value *arg) {
  Value s = to_str(x, v);
  Buf b = {0};
  (void)arg;
  const char *end = s.s->p + s.s->n;
  for (const char *p = s.s->p; p < end;) {
    const char *from = p, *q = p;
    while (p < end && begins_word(utf8_next(&q))) p = q;
    buf_put(x, &b, (Str){from, p - from});
    if (p == end) break;
    from = q = p;
    (void)utf8_next(&q);
    const char *rest = q;
    for (p = q; p < end && !begins_word(utf8_next(&q)); p = q) {}
    Value first = v_str(x, (Str){from, rest - from});
    put_str(x, &b, method0(x, first, "upper"));
    put_str(x, &b, method0(x, v_str(x, (Str){rest, p - rest}), "lower"));
  }
  return buf_value(x, &b);
}

static Value f_default(Tpl *x, Value v, const Value *arg) {
  bool use = v.kind == V_UNDEF || (opt_true(x, arg[1], false) && !v_true(x, v));
  if (!use) return v;
  return arg[0].kind == V_MISSING ? v_cstr(x, "") : arg[0];
}

static Value f_length(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  int64_t n = v_len(x, v);
  if (n < 0) tpl_fail(x, "a value of type %s has no length", kind_name(v));
  return v_int(n);
}

static Value f_abs(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  need_defined(x, v);
  if (v.kind == V_FLOAT) return v_float(fabs(v.f));
  if (!is_int(v)) tpl_fail(x, "abs needs a number, not %s", kind_name(v));
  return int_of(v) < 0 ? v_negate(x, v, true) : v_int(int_of(v));
}

// int(float(v)) where v itself is no integer; `dflt` where it is no number.
static Value int_of_float(Tpl *x, double f, Value dflt) {
  if (!isfinite(f)) return dflt;
  if (fabs(f) >= 0x1p63)
    tpl_fail_as(x, TENON_EUNSUPPORTED, TEMPLATE_LIMIT, "an integer beyond 64 bits");
  return v_int((int64_t)f);
}

static Value f_int(Tpl *x, Value v, const Value *arg) {
  Value dflt = arg[0].kind == V_MISSING ? v_int(0) : arg[0];
  double f;
  int64_t i;
  need_defined(x, v);
  if (is_int(v)) return v_int(int_of(v));
  if (v.kind == V_FLOAT) return isinf(v.f) ? dflt : int_of_float(x, v.f, dflt);
  if (!is_str(v)) return dflt;
  int64_t base = 10;
  if (arg[1].kind != V_MISSING && !is_int(arg[1])) base = -1;  // a TypeError, which is caught
  if (arg[1].kind != V_MISSING && is_int(arg[1])) base = int_of(arg[1]);
  IntEnd end = base == -1 ? INT_BAD : str_to_int(str_of_value(v), base, &i);
  if (end == INT_BIG)
    tpl_fail_as(x, TENON_EUNSUPPORTED, TEMPLATE_LIMIT, "an integer beyond 64 bits");
  if (end == INT_OK) return v_int(i);
  return str_to_float(str_of_value(v), &f) ? int_of_float(x, f, dflt) : dflt;
}

static Value f_float(Tpl *x, Value v, const Value *arg) {
  double f;
  need_defined(x, v);
  if (is_number(v)) return v_float(float_of(v));
  if (is_str(v) && str_to_float(str_of_value(v), &f)) return v_float(f);
  return arg[0].kind == V_MISSING ? v_float(0) : arg[0];
}

// ---- rounding ----

// The integer in `digits`, rounded to a multiple of 10^k, half to even; `more`: there is a
// fraction.
static double round_digits(const char *digits, int n, int k, bool more) {
  double r = 0;
  if (k > n) return 0;
  int rest = n - k;
  for (int i = 0; i < rest; i++) r = r * 10 + (digits[i] - '0');
  bool half = digits[rest] == '5', above = digits[rest] > '5';
  for (int i = rest + 1; i < n; i++) more |= digits[i] != '0';
  bool odd = rest > 0 && (digits[rest - 1] - '0') % 2;
  if (above || (half && (more || odd))) r += 1;
  for (int i = 0; i < k; i++) r *= 10;
  return r;
}

static double round_float(Tpl *x, double f, int64_t places) {
  char text[800], *end;
  if (!isfinite(f) || places > 400) return f;
  if (places >= 0) {
    snprintf(text, sizeof text, "%.*f", (int)places, f);
    double r = strtod(text, &end);
    if (isinf(r)) tpl_fail(x, "a number out of range");
    return r;
  }
  if (places < -400) return copysign(0, f);
  int n = snprintf(text, sizeof text, "%.0f", trunc(fabs(f)));
  return copysign(round_digits(text, n, (int)-places, fabs(f) != trunc(fabs(f))), f);
}

static Value round_int(Tpl *x, int64_t i, int64_t places) {
  int64_t unit = 1, half, r;
  if (places >= 0) return v_int(i);
  if (places < -18) return v_int(0);
  for (int64_t k = places; k < 0; k++) unit *= 10;
  r = i % unit;
  i -= r;
  half = unit / 2;
  bool odd = (i / unit) % 2 != 0;
  if (r > half || (r == half && odd))
    r = unit;
  else if (r < -half || (r == -half && odd))
    r = -unit;
  else
    r = 0;
  if (!ck_add(i, r, &i))
    tpl_fail_as(x, TENON_EUNSUPPORTED, TEMPLATE_LIMIT, "an integer beyond 64 bits");
  return v_int(i);
}

static Value f_round(Tpl *x, Value v, const Value *arg) {
  bool plain = arg[1].kind == V_MISSING;
  Str how = plain ? STR("common") : is_str(arg[1]) ? str_of_value(arg[1]) : STR("");
  bool up = str_is(how, "ceil"), down = str_is(how, "floor");
  if (!up && !down && !str_is(how, "common")) tpl_fail(x, "round: an unknown method");
  if (arg[0].kind == V_NONE && !up && !down) {
    if (is_int(v)) return v_int(int_of(v));
    if (v.kind == V_FLOAT && isfinite(v.f)) return int_of_float(x, nearbyint(v.f), v_none());
  }
  need_defined(x, v);
  if (!is_number(v)) tpl_fail(x, "round needs a number, not %s", kind_name(v));
  int64_t places = opt_int_arg(x, arg[0], 0, "a precision");
  if (!up && !down)
    return is_int(v) ? round_int(x, int_of(v), places) : v_float(round_float(x, v.f, places));
  Value unit = v_binary(x, OP_POW, v_int(10), v_int(places));
  Value scaled = v_binary(x, OP_MUL, v, unit);
  if (scaled.kind == V_FLOAT) {
    if (!isfinite(scaled.f)) tpl_fail(x, "round: no integer is near");
    double f = up ? ceil(scaled.f) : floor(scaled.f);
    if (fabs(f) >= 0x1p63)
      tpl_fail_as(x, TENON_EUNSUPPORTED, TEMPLATE_LIMIT, "an integer beyond 64 bits");
    scaled = v_int((int64_t)f);
  }
  return v_binary(x, OP_DIV, scaled, unit);
}

// ---- text ----

static Value f_escape(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return v_escape(x, v);
}
static Value f_forceescape(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return v_escape(x, to_str(x, v));
}
static Value f_safe(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  Value s = to_str(x, v);
  s.safe = true;
  return s;
}

static Value f_tojson(Tpl *x, Value v, const Value *arg) {
  Buf b = {0};
  put_json(x, &b, v, arg);
  return buf_value(x, &b);
}

static Value f_indent(Tpl *x, Value v, const Value *arg) {
  Buf by = {0}, b = {0};
  if (arg[0].kind != V_MISSING && is_str(arg[0]))
    buf_put(x, &by, str_of_value(v.safe ? v_escape(x, arg[0]) : arg[0]));
  else
    buf_fill(x, &by, ' ', opt_int_arg(x, arg[0], 4, "a width"));
  need_defined(x, v);
  if (!is_str(v)) tpl_fail(x, "indent needs a string, not %s", kind_name(v));
  // Safe text: white space needs no escapes, an indent of other characters was made safe as it is.
  if (arg[0].kind != V_MISSING && is_str(arg[0]))
    by = (Buf){.p = (char *)arg[0].s->p, .n = arg[0].s->n};
  Value ended = text_join(x, v, v_cstr(x, "\n"));
  ended.safe = false;
  Value lines = method(x, ended, "splitlines", v_missing(), v_missing(), v_missing());
  bool blank = opt_true(x, arg[2], false), first = opt_true(x, arg[1], false);
  Str indent = {by.p, by.n};
  if (first) buf_put(x, &b, indent);
  for (int64_t i = 0; i < lines.l->n; i++) {
    Str line = str_of_value(lines.l->v[i]);
    if (i) buf_putc(x, &b, '\n');
    if (i && (blank || line.n)) buf_put(x, &b, indent);
    buf_put(x, &b, line);
  }
  return v_like(v, buf_value(x, &b));
}

static Value f_truncate(Tpl *x, Value v, const Value *arg) {
  Value end = arg[2].kind == V_MISSING ? v_cstr(x, "...") : arg[2];
  int64_t length = opt_int_arg(x, arg[0], 255, "a length"), leeway = 5, n = v_len(x, v);
  if (arg[3].kind != V_MISSING && arg[3].kind != V_NONE) leeway = need_int(x, arg[3], "a leeway");
  if (n < 0 || v_len(x, end) < 0) tpl_fail(x, "truncate needs a string, not %s", kind_name(v));
  if (length < v_len(x, end) || leeway < 0) tpl_fail(x, "truncate: a length that is too small");
  if (n <= length + leeway) return v;
  Value cut = v_slice(x, v, v_missing(), v_int(length - v_len(x, end)), v_missing());
  if (!opt_true(x, arg[1], false)) {
    if (!is_str(cut)) tpl_fail(x, "truncate needs a string, not %s", kind_name(v));
    Value parts = method(x, cut, "rsplit", v_cstr(x, " "), v_int(1), v_missing());
    cut = parts.l->v[0];
  }
  return v_binary(x, OP_ADD, cut, end);
}

static Value f_wordcount(Tpl *x, Value v, const Value *arg) {
  Value s = to_str(x, v);
  int64_t n = 0;
  bool inside = false;
  (void)arg;
  tpl_spend(x, s.s->n / 8);
  for (const char *p = s.s->p; p < s.s->p + s.s->n;) {
    uint32_t c = utf8_next(&p);
    bool word = c == '_' || (uc_flags(c) & UC_ALNUM);
    n += word && !inside;
    inside = word;
  }
  return v_int(n);
}

static Value f_format(Tpl *x, Value v, const Args *args) {
  Value with;
  if (args->npos && args->nkw) tpl_fail(x, "format takes positions or names, not both");
  if (args->nkw) {
    Dict *d = dict_new(x);
    for (int64_t i = 0; i < args->nkw; i++) dict_put(x, d, v_str(x, args->name[i]), args->kw[i]);
    with = v_dict(d);
  } else {
    Value *pos = tpl_array(x, Value, args->npos);
    if (args->npos) memcpy(pos, args->pos, (size_t)args->npos * sizeof *pos);
    with = v_items(x, V_TUPLE, pos, args->npos);
  }
  return format_percent(x, soft_str(x, v), with);
}

static Value f_attr(Tpl *x, Value v, const Value *arg) {
  if (!is_str(arg[0])) tpl_fail(x, "attr needs the name of an attribute");
  need_defined(x, v);
  Value a = v_own_attr(x, v, str_of_value(arg[0]));
  return a.kind == V_MISSING ? v_undef_name(x, v, arg[0]) : a;
}

static const FnRow filter[] = {
    {"abs", "/", 0, f_abs, NULL},
    {"attr", "name", 1, f_attr, NULL},
    {"capitalize", "", 0, f_capitalize, NULL},
    {"center", "width", 0, f_center, NULL},
    {"count", "/", 0, f_length, NULL},
    {"d", "default_value boolean", 0, f_default, NULL},
    {"default", "default_value boolean", 0, f_default, NULL},
    {"e", "/", 0, f_escape, NULL},
    {"escape", "/", 0, f_escape, NULL},
    {"float", "default", 0, f_float, NULL},
    {"forceescape", "", 0, f_forceescape, NULL},
    {"format", "*", 0, NULL, f_format},
    {"indent", "width first blank", 0, f_indent, NULL},
    {"int", "default base", 0, f_int, NULL},
    {"length", "/", 0, f_length, NULL},
    {"lower", "", 0, f_lower, NULL},
    {"replace", "old new count", 2, f_replace, NULL},
    {"round", "precision method", 0, f_round, NULL},
    {"safe", "", 0, f_safe, NULL},
    {"string", "", 0, f_string, NULL},
    {"title", "", 0, f_title, NULL},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, f_tojson, NULL},
    {"trim", "chars", 0, f_trim, NULL},
    {"truncate", "length killwords end leeway", 0, f_truncate, NULL},
    {"upper", "", 0, f_upper, NULL},
    {"wordcount", "", 0, f_wordcount, NULL},
    // in jinja2, but not here
    {"filesizeformat", NULL, 0, NULL, NULL},
    {"pprint", NULL, 0, NULL, NULL},
    {"random", NULL, 0, NULL, NULL},
    {"striptags", NULL, 0, NULL, NULL},
    {"urlencode", NULL, 0, NULL, NULL},
    {"urlize", NULL, 0, NULL, NULL},
    {"wordwrap", NULL, 0, NULL, NULL},
    {"xmlattr", NULL, 0, NULL, NULL},
};

const FnRow *filter_find(Str name) {
  const FnRow *row = fn_find(filter, ARRAY_LEN(filter), name);
  return row ? row : filter_list_find(name);
}
