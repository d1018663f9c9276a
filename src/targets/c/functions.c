// functions.c -- emits the functions of a program as C: the model and its control-flow bodies.
//
// Every value has an address as text: a parameter, a constant's array, an offset in the arena, or a
// result.  Steps follow one another; a kernel runs over all its work items.  With dynamic sizes the
// offsets are computed at the start of the function.
//
// Needs:      kernels are named; names of symbols are set.
// Guarantees: a failed step returns its code at once.  Values that C cannot hold are refused by
//             name, all of them.  Bodies of control flow have constant sizes, or are refused.
#include "targets/c/emit.h"

// ---- sizes ----

bool c_number(const CModel *m, int32_t expr, int64_t *out) {
  const ProgExpr *e = &m->p->expr[expr];
  for (int32_t i = 0; i < e->n; i++) {
    if (e->code[i] == PX_SYM) return false;
    if (e->code[i] == PX_CONST) i++;
  }
  return prog_eval(m->p, expr, NULL, out);
}

static const char *apply(CModel *m, int64_t op, const char *x, const char *y) {
  static const char *const form[PX_OPS] = {[PX_ADD] = "(%s + %s)",
                                           [PX_MUL] = "%s * %s",
                                           [PX_DIV] = "tn_floor_div(%s, %s)",
                                           [PX_MOD] = "tn_floor_mod(%s, %s)",
                                           [PX_MIN] = "tn_least(%s, %s)",
                                           [PX_MAX] = "tn_most(%s, %s)"};
  if (op == PX_BCAST) return str_printf(m->arena, "(%s == 1 ? %s : %s)", x, y, x);
  StrBuf b;
  strbuf_init(&b, m->arena);
  for (const char *f = form[op], *arg = x; *f; f++)
    if (f[0] == '%') {
      strbuf_puts(&b, arg);
      arg = y;
      f++;
    } else {
      strbuf_putc(&b, *f);
    }
  return strbuf_text(&b);
}

const char *c_expr(CModel *m, int32_t expr) {
  const char *stack[PX_STACK];
  int top = 0;
  int64_t n;
  if (c_number(m, expr, &n)) return str_printf(m->arena, "%lld", (long long)n);
  const ProgExpr *e = &m->p->expr[expr];
  for (int32_t i = 0; i < e->n; i++) {
    int64_t op = e->code[i];
    if (op == PX_CONST)
      stack[top++] = str_printf(m->arena, "%lld", (long long)e->code[++i]);
    else if (op == PX_SYM)
      stack[top++] = m->sym[e->code[++i]];
    else
      top--, stack[top - 1] = apply(m, op, stack[top - 1], stack[top]);
  }
  return stack[0];
}

// The number of elements, times `unit`; *out_number: it is one.
static const char *product(CModel *m, const ProgValue *v, int64_t unit, int64_t *out_number) {
  StrBuf b;
  int64_t n = unit, d;
  strbuf_init(&b, m->arena);
  for (int32_t i = 0; i < v->rank; i++) {
    if (c_number(m, v->dim[i], &d))
      n *= d;
    else
      strbuf_printf(&b, " * (size_t)(%s)", c_expr(m, v->dim[i]));
  }
  *out_number = b.n ? -1 : n;
  return str_printf(m->arena, "%lld%s", (long long)n, strbuf_text(&b));
}

const char *c_count(CModel *m, const ProgValue *v) {
  int64_t n;
  return product(m, v, 1, &n);
}

// *out_number: -1 where it is none.
static const char *bytes_of(CModel *m, const ProgValue *v, int64_t *out_number) {
  int64_t n;
  product(m, v, 1, &n);
  if (n >= 0 && dtype_bytes(v->dtype, n, out_number))
    return str_printf(m->arena, "%lld", (long long)*out_number);
  *out_number = -1;
  int bits = dtype_bits(v->dtype);
  if (bits >= 8) return product(m, v, bits / 8, &n);
  return str_printf(m->arena, "(%s + 7) / 8", product(m, v, bits, &n));
}

const char *c_bytes(CModel *m, const ProgValue *v) {
  int64_t n;
  return bytes_of(m, v, &n);
}

// ---- what cannot be held ----

void c_refuse(CModel *m, const ProgStep *st, const char *why) {
  const char *key = str_printf(m->arena, "%s: %s", st && st->op ? st->op : "", why);
  m->nrefused++;
  // What a step's value has, the model's output that it is has too.
  if (strmap_has(&m->refused, str_of(key)) || (!st && strmap_has(&m->refused, str_of(why)))) return;
  strmap_put(&m->refused, str_of(key), m);
  strmap_put(&m->refused, str_of(why), m);
  fail(m->d, TENON_EUNSUPPORTED, (Where){.node = st ? st->node : NULL, .op = st ? st->op : NULL},
       "%s", why);
}

const char *c_not_held(const CModel *m, const ProgValue *v) {
  if (v->place == PLACE_NONE) return NULL;
  if (v->kind != VK_TENSOR)
    return "C has no sequences, optionals or maps: compile to a .tenon file";
  if (v->dtype == DT_STRING) return "C has no strings as elements: compile to a .tenon file";
  bool known = v->rank >= 0;
  for (int32_t i = 0; known && i < v->rank; i++) {
    known = v->dim[i] >= 0;
    const ProgExpr *e = known ? &m->p->expr[v->dim[i]] : NULL;
    for (int32_t k = 0; known && k < e->n; k++) {
      int64_t op = e->code[k];
      if (op != PX_SYM && op != PX_CONST) continue;
      k++;
      if (op == PX_SYM && !prog_sym_is_input(m->p, (int32_t)e->code[k])) known = false;
    }
  }
  return known ? NULL
               : "a size depends on data, or on what was not fixed: give it with --fix or "
                 "--constant, or compile to a .tenon file";
}

// ---- places ----

static const char *arena_at(CModel *m, const ProgFunction *f, int64_t offset) {
  return str_printf(m->arena, "arena + %lld", (long long)(m->function_base[f->index] + offset));
}

// Offsets of the roots, where sizes are numbers.
static int64_t lay_out(CModel *m, const ProgFunction *f, int64_t *offset, int64_t *heap) {
  int64_t total = 0, *end = arena_array(m->arena, int64_t, MAX(f->nroots, 1));
  for (int32_t i = 0; i < f->nroots; i++) {
    int64_t bytes = 0;
    offset[i] = 0;
    for (int32_t k = 0; k < f->root[i].nbelow; k++)
      offset[i] = MAX(offset[i], end[f->root[i].below[k]]);
    if (!c_number(m, f->root[i].bytes, &bytes)) m->symbolic = true;
    end[i] = offset[i] + bytes;
    total = MAX(total, end[i]);
  }
  // Values that the plan keeps out of its arena lie behind it.
  for (int32_t i = 0; i < f->nvalues; i++) {
    int64_t bytes = 0;
    if (f->value[i].place != PLACE_HEAP || c_not_held(m, &f->value[i])) continue;
    bytes_of(m, &f->value[i], &bytes);
    if (bytes < 0) m->symbolic = true;
    total = (total + 63) / 64 * 64;
    heap[i] = total;
    total += MAX(bytes, 0);
  }
  return (total + 63) / 64 * 64;
}

static void place_values(CModel *m, const ProgFunction *f, const char **value) {
  int64_t *offset = arena_array(m->arena, int64_t, MAX(f->nroots, 1));
  int64_t *heap = arena_array(m->arena, int64_t, MAX(f->nvalues, 1));
  lay_out(m, f, offset, heap);
  for (int32_t i = 0; i < f->nvalues; i++) {
    const ProgValue *v = &f->value[i];
    const char *at = v->at >= 0 ? c_expr(m, v->at) : NULL;
    switch ((ProgPlace)v->place) {
    case PLACE_STATE:  // the caller's memory, written in place
    case PLACE_PARAM: value[i] = str_printf(m->arena, "in[%d]", v->slot); break;
    case PLACE_CONST: value[i] = str_printf(m->arena, "weights_%d", v->slot); break;
    case PLACE_RESULT:
      value[i] = at ? str_printf(m->arena, "(unsigned char *)out[%d] + %s", v->slot, at)
                    : str_printf(m->arena, "out[%d]", v->slot);
      break;
    case PLACE_ARENA:
      value[i] = m->symbolic ? str_printf(m->arena, "arena + at_%d", v->slot)
                             : arena_at(m, f, offset[v->slot]);
      if (at) value[i] = str_printf(m->arena, "%s + %s", value[i], at);
      break;
    case PLACE_HEAP:
      if (c_not_held(m, v)) break;
      value[i] = m->symbolic ? str_printf(m->arena, "arena + heap_%d", i) : arena_at(m, f, heap[i]);
      break;
    case PLACE_NONE: break;
    }
  }
}

// ---- steps ----

const char *c_address(CModel *m, const ProgFunction *f, int32_t v, const char **value) {
  if (f->value[v].place == PLACE_CONST) m->const_used[f->value[v].slot] = true;
  return value[v] ? value[v] : "NULL";
}

static bool held(CModel *m, const ProgFunction *f, const ProgStep *st) {
  const char *why = NULL;
  for (int32_t i = 0; i < st->nin && !why; i++)
    if (st->in[i] >= 0) why = c_not_held(m, &f->value[st->in[i]]);
  for (int32_t i = 0; i < st->nout && !why; i++)
    if (st->out[i] >= 0) why = c_not_held(m, &f->value[st->out[i]]);
  if (why) c_refuse(m, st, why);
  return !why;
}

static void check_sizes(CModel *m, const ProgStep *st) {
  for (int32_t i = 0; i < st->nsame; i++)
    strbuf_printf(&m->out, "  if (%s != %s) return 1; /* %s */\n", c_expr(m, st->same[i]),
                  c_expr(m, st->as[i]), st->what[i]);
}

static void kernel_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  StrBuf *b = &m->out;
  const LoopKernel *k = m->c->kernel[st->kernel].lowered->kernel;
  strbuf_printf(b, "  rc = %s(", m->kernel[st->kernel]);
  for (int32_t i = 0; i < st->nargs; i++) {
    const bool *touched = m->touched[st->kernel];
    const char *at = touched && !touched[i] ? "NULL" : c_address(m, f, st->arg[i], value);
    const ProgValue *v = &f->value[st->arg[i]];
    bool plain = v->place != PLACE_ARENA && v->place != PLACE_HEAP && v->place != PLACE_CONST &&
                 !strchr(at, '+');
    plain |= v->place == PLACE_CONST && m->o->external_weights;
    bool given = v->place == PLACE_PARAM || v->place == PLACE_STATE;
    if (given && k->buffer[i].written) plain = false;
    strbuf_printf(b, "%s%s%s%s", i ? ", " : "",
                  plain                  ? ""
                  : k->buffer[i].written ? "(void *)("
                                         : "(const void *)(",
                  at, plain ? "" : ")");
  }
  for (int32_t i = 0; i < st->ndims; i++) strbuf_printf(b, ", %s", c_expr(m, st->dim[i]));
  strbuf_printf(b, ", 0, %s%s);\n", c_expr(m, st->items),
                c_takes_scratch(m, st->kernel) ? ", scratch" : "");
  strbuf_printf(b, "  if (rc) return %d + rc;\n", m->kernel_base[st->kernel]);
}

static void put_comment(StrBuf *b, const char *text) {
  for (const char *p = text; *p; p++)
    strbuf_putc(b, (*p == '*' && p[1] == '/') || *p == '\n' || *p == '\\' ? ' ' : *p);
}

static void emit_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  StrBuf *b = &m->out;
  int64_t when = 1, n;
  if (st->when >= 0 && c_number(m, st->when, &when) && !when) return;
  if (!held(m, f, st)) return;
  if (st->kind == STEP_VIEW) {
    check_sizes(m, st);
    c_address(m, f, st->in[0], value);
    value[st->out[0]] = value[st->in[0]];
    return;
  }
  if (st->node) {
    strbuf_puts(b, "  /* ");
    put_comment(b, st->node);
    strbuf_puts(b, " */\n");
  }
  bool asked = st->when >= 0 && !c_number(m, st->when, &when);
  if (asked) strbuf_printf(b, "  if (%s) {\n", c_expr(m, st->when));
  check_sizes(m, st);
  if (st->kind == STEP_KERNEL)
    kernel_step(m, f, st, value);
  else if (st->kind == STEP_COPY)
    strbuf_printf(b, "  memcpy(%s, %s, %s);\n", c_address(m, f, st->out[0], value),
                  c_address(m, f, st->in[0], value), bytes_of(m, &f->value[st->out[0]], &n));
  else
    c_host_step(m, f, st, value);
  if (asked) strbuf_puts(b, "  }\n");
}

// ---- functions ----

static void give_results(CModel *m, const ProgFunction *f, const char **value) {
  int64_t n;
  for (int32_t i = 0; i < f->nresults; i++) {
    const ProgValue *v = &f->value[f->result[i]];
    const char *why = c_not_held(m, v);
    const char *from = c_address(m, f, f->result[i], value);
    if (why) {
      c_refuse(m, NULL, why);
      continue;
    }
    if (!value[f->result[i]] && !m->nrefused)
      c_refuse(m, NULL, "an output has no place: its size depends on data");
    if (!strcmp(from, str_printf(m->arena, "out[%d]", i))) continue;
    strbuf_printf(&m->out, "  memcpy(out[%d], %s, %s);\n", i, from, bytes_of(m, v, &n));
  }
}

static void symbolic_places(CModel *m, const ProgFunction *f) {
  StrBuf *b = &m->out;
  for (int32_t i = 0; i < f->nroots; i++) {
    const ProgRoot *r = &f->root[i];
    strbuf_printf(b, "  size_t at_%d = 0;\n", i);
    for (int32_t k = 0; k < r->nbelow; k++)
      strbuf_printf(b, "  if (at_%d < end_%d) at_%d = end_%d;\n", i, r->below[k], i, r->below[k]);
    strbuf_printf(b, "  const size_t end_%d = at_%d + (size_t)(%s);\n", i, i, c_expr(m, r->bytes));
    strbuf_printf(b, "  if (need < end_%d) need = end_%d;\n", i, i);
  }
  // Values that the plan keeps out of its arena lie behind it.
  for (int32_t i = 0; i < f->nvalues; i++) {
    if (f->value[i].place != PLACE_HEAP || c_not_held(m, &f->value[i])) continue;
    strbuf_printf(b, "  const size_t heap_%d = (need + 63) / 64 * 64;\n", i);
    strbuf_printf(b, "  need = heap_%d + %s;\n  (void)heap_%d;\n", i, c_bytes(m, &f->value[i]), i);
  }
}

static void open_function(CModel *m, const ProgFunction *f) {
  StrBuf *b = &m->out;
  if (f->index)
    strbuf_printf(b, "\nstatic int body_%d(const void *const *in, void *const *out) {\n", f->index);
  else
    strbuf_printf(b,
                  "\nint %s_run(const void *const *in, const int64_t *dims, void *const *out) {\n",
                  m->o->symbol);
  strbuf_puts(b, "  int32_t rc = 0;\n");
  if (f->index) return;
  int32_t n = 0;
  for (int32_t i = 0; i < m->p->nsyms; i++) {
    if (!prog_sym_is_input(m->p, i)) continue;
    const ProgSym *s = &m->p->sym[i];
    strbuf_printf(b, "  const ptrdiff_t %s = (ptrdiff_t)dims[%d];\n", m->sym[i], n);
    strbuf_printf(b, "  if (dims[%d] < INT64_C(%lld) || dims[%d] > INT64_C(%lld)) return 1;\n", n,
                  (long long)s->lo, n, (long long)s->hi);
    n++;
  }
  if (!n) strbuf_puts(b, "  (void)dims;\n");
}

static void symbolic_arena(CModel *m, const ProgFunction *f) {
  strbuf_puts(&m->out, "  size_t need = 64;\n");
  symbolic_places(m, f);
  strbuf_puts(&m->out, "  unsigned char *const arena = tn_room(need);\n  if (!arena) return 2;\n");
  for (int32_t i = 0; i < f->nroots; i++)
    strbuf_printf(&m->out, "  (void)at_%d, (void)end_%d;\n", i, i);
}

static void emit_function(CModel *m, const ProgFunction *f) {
  const char **value = arena_array(m->arena, const char *, MAX(f->nvalues, 1));
  open_function(m, f);
  place_values(m, f, value);
  if (m->symbolic) symbolic_arena(m, f);
  for (int32_t i = 0; i < f->nsteps; i++) emit_step(m, f, &f->step[i], value);
  give_results(m, f, value);
  strbuf_puts(&m->out, "  (void)in, (void)out, (void)rc;\n  return 0;\n}\n");
}

// Bodies know no sizes but numbers.
static bool has_open_body(CModel *m) {
  int64_t n;
  for (int32_t i = 1; i < m->p->nfunctions; i++)
    for (int32_t k = 0; k < m->p->function[i]->nvalues; k++) {
      const ProgValue *v = &m->p->function[i]->value[k];
      for (int32_t r = 0; r < v->rank; r++)
        if (v->dim[r] >= 0 && !c_number(m, v->dim[r], &n)) return true;
    }
  return false;
}

void c_functions(CModel *m) {
  int64_t at = 0;
  m->function_base = arena_array(m->arena, int64_t, m->p->nfunctions);
  for (int32_t i = 0; i < m->p->nfunctions; i++) {
    const ProgFunction *f = m->p->function[i];
    int64_t *offset = arena_array(m->arena, int64_t, MAX(f->nroots, 1));
    m->function_base[i] = at;
    at += lay_out(m, f, offset, arena_array(m->arena, int64_t, MAX(f->nvalues, 1)));
  }
  m->arena_bytes = MAX(at, 64);
  if (m->p->nfunctions > 1 && (m->symbolic || has_open_body(m))) {
    c_refuse(m, NULL, "control flow needs sizes that are numbers: give them with --fix");
    return;
  }
  for (int32_t i = 1; i < m->p->nfunctions; i++)
    strbuf_printf(&m->out, "static int body_%d(const void *const *in, void *const *out);\n", i);
  for (int32_t i = m->p->nfunctions - 1; i >= 0; i--) emit_function(m, m->p->function[i]);
}
