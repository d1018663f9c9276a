// template_repr.c -- values of chat templates as text: str, repr, JSON and HTML escapes of Python.
//
// Guarantees: text is bounded by the limits on output and memory; what Python would print with an
// address (functions, iterators) is refused.
#include "text/template_impl.h"

#include <math.h>
#include <stdio.h>

// ---- growing text ----

static void reserve(Tpl *x, Buf *b, int64_t n) {
  int64_t need;
  if (!ck_add(b->n, n, &need) || need > x->most_output) tpl_limit(x, "output");
  tpl_spend(x, n / 64);
  if (need <= b->cap) return;
  int64_t cap = MAX(64, MIN(2 * need, x->most_output));
  char *p = tpl_alloc(x, MAX(cap, need));
  if (b->n) memcpy(p, b->p, (size_t)b->n);
  b->p = p;
  b->cap = MAX(cap, need);
}

void buf_put(Tpl *x, Buf *b, Str s) {
  if (!s.n) return;
  reserve(x, b, s.n);
  memcpy(b->p + b->n, s.p, (size_t)s.n);
  b->n += s.n;
}

void buf_puts(Tpl *x, Buf *b, const char *z) { buf_put(x, b, str_of(z)); }
void buf_putc(Tpl *x, Buf *b, char c) { buf_put(x, b, (Str){&c, 1}); }

void buf_char(Tpl *x, Buf *b, uint32_t c) {
  char p[4];
  buf_put(x, b, (Str){p, utf8_put(p, c)});
}

void buf_fill(Tpl *x, Buf *b, uint32_t c, int64_t n) {
  if (n > x->most_output) tpl_limit(x, "output");
  tpl_spend(x, MAX(n, 0) / 16);
  for (int64_t i = 0; i < n; i++) buf_char(x, b, c);
}

Value buf_value(Tpl *x, const Buf *b) { return v_str(x, (Str){b->p, b->n}); }

// ---- repr ----

static void put_code(Tpl *x, Buf *b, uint32_t c) {
  char text[16];
  const char *form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  snprintf(text, sizeof text, form, (unsigned)c);
  buf_puts(x, b, text);
}

static void put_quoted(Tpl *x, Buf *b, Str s) {
  bool single = s.n && memchr(s.p, '\'', (size_t)s.n);
  char quote = single && !memchr(s.p, '"', (size_t)s.n) ? '"' : '\'';
  const char *end = s.p + s.n;
  tpl_spend(x, s.n / 16);
  buf_putc(x, b, quote);
  for (const char *p = s.p; p < end;) {
    const char *from = p;
    uint32_t c = utf8_next(&p);
    if (c == (uint32_t)quote || c == '\\') {
      buf_putc(x, b, '\\');
      buf_putc(x, b, (char)c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      buf_puts(x, b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (c < 0x7f ? c >= 0x20 : (uc_flags(c) & UC_PRINTABLE) != 0) {
      buf_put(x, b, (Str){from, p - from});
    } else {
      put_code(x, b, c);
    }
  }
  buf_putc(x, b, quote);
}

static void put_int(Tpl *x, Buf *b, int64_t i) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)i);
  buf_puts(x, b, text);
}

static void put_items(Tpl *x, Buf *b, const Items *l, bool tuple) {
  buf_putc(x, b, tuple ? '(' : '[');
  for (int64_t i = 0; i < l->n; i++) {
    if (i) buf_puts(x, b, ", ");
    put_repr(x, b, l->v[i]);
  }
  if (tuple && l->n == 1) buf_putc(x, b, ',');
  buf_putc(x, b, tuple ? ')' : ']');
}

static void put_dict(Tpl *x, Buf *b, const Dict *d) {
  buf_putc(x, b, '{');
  for (int64_t i = 0; i < d->n; i++) {
    if (i) buf_puts(x, b, ", ");
    put_repr(x, b, d->key[i]);
    buf_puts(x, b, ": ");
    put_repr(x, b, d->val[i]);
  }
  buf_putc(x, b, '}');
}

static void put_range(Tpl *x, Buf *b, const Range *r) {
  buf_puts(x, b, "range(");
  put_int(x, b, r->start);
  buf_puts(x, b, ", ");
  put_int(x, b, r->stop);
  if (r->step != 1) {
    buf_puts(x, b, ", ");
    put_int(x, b, r->step);
  }
  buf_putc(x, b, ')');
}

static void put_view(Tpl *x, Buf *b, const View *v) {
  buf_puts(x, b,
           v->what == 'k'   ? "dict_keys(["
           : v->what == 'v' ? "dict_values(["
                            : "dict_items([");
  for (int64_t i = 0; i < v->of->n; i++) {
    if (i) buf_puts(x, b, ", ");
    if (v->what == 'i') buf_putc(x, b, '(');
    if (v->what != 'v') put_repr(x, b, v->of->key[i]);
    if (v->what == 'i') buf_puts(x, b, ", ");
    if (v->what != 'k') put_repr(x, b, v->of->val[i]);
    if (v->what == 'i') buf_putc(x, b, ')');
  }
  buf_puts(x, b, "])");
}

static void put_macro(Tpl *x, Buf *b, const Macro *m) {
  buf_puts(x, b, "<Macro ");
  if (m->node->kind == N_MACRO)
    put_quoted(x, b, m->node->name);
  else
    buf_puts(x, b, "anonymous");
  buf_putc(x, b, '>');
}

static void put_other(Tpl *x, Buf *b, Value v) {
  switch ((ValueKind)v.kind) {
  case V_RANGE: put_range(x, b, v.r); return;
  case V_VIEW: put_view(x, b, v.view); return;
  case V_MACRO: put_macro(x, b, v.macro); return;
  case V_NS:
    buf_puts(x, b, "<Namespace ");
    put_dict(x, b, v.d);
    buf_putc(x, b, '>');
    return;
  case V_LOOP:
    buf_puts(x, b, "<LoopContext ");
    put_int(x, b, v.loop->index0 + 1);
    buf_putc(x, b, '/');
    put_int(x, b, loop_length(x, v.loop));
    buf_putc(x, b, '>');
    return;
  default: tpl_unsupported(x, "a value of type %s as text", kind_name(v));
  }
}

void put_repr(Tpl *x, Buf *b, Value v) {
  char text[40];
  tpl_enter(x);
  switch ((ValueKind)v.kind) {
  case V_UNDEF: buf_puts(x, b, "Undefined"); break;
  case V_NONE: buf_puts(x, b, "None"); break;
  case V_BOOL: buf_puts(x, b, v.b ? "True" : "False"); break;
  case V_INT: put_int(x, b, v.i); break;
  case V_FLOAT: buf_put(x, b, (Str){text, float_repr(v.f, text)}); break;
  case V_STR:
    if (v.safe) buf_puts(x, b, "Markup(");
    put_quoted(x, b, str_of_value(v));
    if (v.safe) buf_putc(x, b, ')');
    break;
  case V_LIST:
  case V_TUPLE: put_items(x, b, v.l, v.kind == V_TUPLE); break;
  case V_DICT: put_dict(x, b, v.d); break;
  default: put_other(x, b, v);
  }
  tpl_leave(x);
}

void put_str(Tpl *x, Buf *b, Value v) {
  if (is_str(v))
    buf_put(x, b, str_of_value(v));
  else if (v.kind != V_UNDEF)
    put_repr(x, b, v);
}

Value to_str(Tpl *x, Value v) {
  if (is_str(v)) {
    v.safe = false;
    return v;
  }
  Buf b = {0};
  put_str(x, &b, v);
  return buf_value(x, &b);
}

Value soft_str(Tpl *x, Value v) { return is_str(v) ? v : to_str(x, v); }

// ---- HTML ----

static const char *html_of(char c) {
  switch (c) {
  case '&': return "&amp;";
  case '<': return "&lt;";
  case '>': return "&gt;";
  case '\'': return "&#39;";
  case '"': return "&#34;";
  default: return NULL;
  }
}

Value v_escape(Tpl *x, Value v) {
  if (is_str(v) && v.safe) return v;
  Value s = to_str(x, v);
  Buf b = {0};
  for (int64_t i = 0; i < s.s->n; i++) {
    const char *html = html_of(s.s->p[i]);
    if (html)
      buf_puts(x, &b, html);
    else
      buf_putc(x, &b, s.s->p[i]);
  }
  s = buf_value(x, &b);
  s.safe = true;
  return s;
}

// ---- JSON, as json.dumps writes it ----

typedef struct Dump {
  Tpl *x;
  Buf *b;
  bool ascii, sort, lines;
  Str item, key, indent;
  int level;
} Dump;

static void dump_unit(Dump *d, uint32_t c) {
  char text[16];
  snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
  buf_puts(d->x, d->b, text);
}

static void dump_text(Dump *d, Str s) {
  static const char from[] = "\"\\\n\r\t\f\b", into[] = "\"\\nrtfb";
  const char *end = s.p + s.n;
  tpl_spend(d->x, s.n / 16);
  buf_putc(d->x, d->b, '"');
  for (const char *p = s.p; p < end;) {
    const char *at = p;
    uint32_t c = utf8_next(&p);
    const char *e = c && c < 0x80 ? strchr(from, (char)c) : NULL;
    if (e) {
      buf_putc(d->x, d->b, '\\');
      buf_putc(d->x, d->b, into[e - from]);
    } else if (c < 0x20 || (d->ascii && c >= 0x7f && c < 0x10000)) {
      dump_unit(d, c);
    } else if (d->ascii && c >= 0x10000) {
      dump_unit(d, 0xd800 + ((c - 0x10000) >> 10));
      dump_unit(d, 0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
      buf_put(d->x, d->b, (Str){at, p - at});
    }
  }
  buf_putc(d->x, d->b, '"');
}

static void dump_line(Dump *d) {
  if (!d->lines) return;
  buf_putc(d->x, d->b, '\n');
  for (int i = 0; i < d->level; i++) buf_put(d->x, d->b, d->indent);
}

static void dump_float(Dump *d, double f) {
  char text[40];
  if (isnan(f))
    buf_puts(d->x, d->b, "NaN");
  else if (isinf(f))
    buf_puts(d->x, d->b, f < 0 ? "-Infinity" : "Infinity");
  else
    buf_put(d->x, d->b, (Str){text, float_repr(f, text)});
}

static void dump(Dump *d, Value v);

static void dump_key(Dump *d, Value v) {
  if (is_str(v)) {
    dump_text(d, str_of_value(v));
    return;
  }
  if (!is_number(v) && v.kind != V_NONE)
    tpl_fail(d->x, "a key of type %s cannot be written as JSON", kind_name(v));
  buf_putc(d->x, d->b, '"');
  dump(d, v);
  buf_putc(d->x, d->b, '"');
}

static void dump_items(Dump *d, const Items *l) {
  if (!l->n) {
    buf_puts(d->x, d->b, "[]");
    return;
  }
  buf_putc(d->x, d->b, '[');
  d->level++;
  for (int64_t i = 0; i < l->n; i++) {
    if (i) buf_put(d->x, d->b, d->item);
    dump_line(d);
    dump(d, l->v[i]);
  }
  d->level--;
  dump_line(d);
  buf_putc(d->x, d->b, ']');
}

// The indices of a dict's entries, by key where that is asked for.
static int64_t *order_of(Dump *d, const Dict *v) {
  int64_t *order = tpl_array(d->x, int64_t, v->n), *other = tpl_array(d->x, int64_t, v->n);
  for (int64_t i = 0; i < v->n; i++) order[i] = i;
  for (int64_t step = 1; d->sort && step < v->n; step *= 2) {
    for (int64_t from = 0; from < v->n; from += 2 * step) {
      int64_t a = from, mid = MIN(from + step, v->n), b = mid, end = MIN(from + 2 * step, v->n);
      for (int64_t to = from; to < end; to++)
        other[to] = b == end || (a < mid && !v_less(d->x, v->key[order[b]], v->key[order[a]]))
                        ? order[a++]
                        : order[b++];
    }
    int64_t *swap = order;
    order = other;
    other = swap;
  }
  return order;
}

static void dump_dict(Dump *d, const Dict *v) {
  if (!v->n) {
    buf_puts(d->x, d->b, "{}");
    return;
  }
  const int64_t *order = order_of(d, v);
  buf_putc(d->x, d->b, '{');
  d->level++;
  for (int64_t i = 0; i < v->n; i++) {
    if (i) buf_put(d->x, d->b, d->item);
    dump_line(d);
    dump_key(d, v->key[order[i]]);
    buf_put(d->x, d->b, d->key);
    dump(d, v->val[order[i]]);
  }
  d->level--;
  dump_line(d);
  buf_putc(d->x, d->b, '}');
}

static void dump(Dump *d, Value v) {
  tpl_enter(d->x);
  switch ((ValueKind)v.kind) {
  case V_NONE: buf_puts(d->x, d->b, "null"); break;
  case V_BOOL: buf_puts(d->x, d->b, v.b ? "true" : "false"); break;
  case V_INT: put_int(d->x, d->b, v.i); break;
  case V_FLOAT: dump_float(d, v.f); break;
  case V_STR: dump_text(d, str_of_value(v)); break;
  case V_LIST:
  case V_TUPLE: dump_items(d, v.l); break;
  case V_DICT: dump_dict(d, v.d); break;
  case V_UNDEF: tpl_fail(d->x, "an undefined value cannot be written as JSON");
  default: tpl_fail(d->x, "a value of type %s cannot be written as JSON", kind_name(v));
  }
  tpl_leave(d->x);
}

static void separators(Dump *d, Value v) {
  Value part[2];
  Iter *it = iter_of(d->x, v);
  Value more;
  for (int i = 0; i < 2; i++)
    if (!iter_next(d->x, it, &part[i]) || !is_str(part[i]))
      tpl_fail(d->x, "separators are two strings");
  if (iter_next(d->x, it, &more)) tpl_fail(d->x, "separators are two strings");
  d->item = str_of_value(part[0]);
  d->key = str_of_value(part[1]);
}

// arg: ensure_ascii, indent, separators, sort_keys
void put_json(Tpl *x, Buf *b, Value v, const Value arg[4]) {
  Dump d = {.x = x,
            .b = b,
            .ascii = opt_true(x, arg[0], false),
            .sort = opt_true(x, arg[3], false),
            .item = STR(", "),
            .key = STR(": ")};
  Value indent = arg[1];
  if (indent.kind != V_MISSING && indent.kind != V_NONE) {
    d.lines = true;
    d.item = STR(",");
    if (is_str(indent)) {
      d.indent = str_of_value(indent);
    } else {
      Buf spaces = {0};
      buf_fill(x, &spaces, ' ', need_int(x, indent, "an indent"));
      d.indent = (Str){spaces.p, spaces.n};
    }
  }
  if (arg[2].kind != V_MISSING && arg[2].kind != V_NONE) separators(&d, arg[2]);
  dump(&d, v);
}
