// values.c -- shapes and places of the values of a call.
#include "runtime/session_impl.h"

bool cell_dims(const Session *s, const ProgValue *v, int64_t *dims) {
  if (v->rank < 0) return false;
  for (int32_t i = 0; i < v->rank; i++)
    if (!prog_eval(s->program, v->dim[i], s->sym, &dims[i]) || dims[i] < 0) return false;
  return true;
}

bool value_bytes(const Session *s, const ProgValue *v, int64_t *bytes) {
  int64_t dims[MAX_RANK], n;
  return cell_dims(s, v, dims) && shape_count(v->rank, dims, &n) && dtype_bytes(v->dtype, n, bytes);
}

// The symbol that an expression is, or -1.
static int64_t lone_symbol(const Program *p, int32_t expr) {
  const ProgExpr *e = &p->expr[expr];
  return e->n == 2 && e->code[0] == PX_SYM ? e->code[1] : -1;
}

static bool bind_dim(Session *s, int32_t expr, int64_t actual) {
  int64_t want;
  if (expr < 0) return true;
  if (prog_eval(s->program, expr, s->sym, &want)) return want == actual;
  int64_t sym = lone_symbol(s->program, expr);
  if (sym < 0) return true;  // over sizes that are not known yet: nothing to compare
  const ProgSym *y = &s->program->sym[sym];
  if (actual < y->lo || actual > y->hi) return false;
  s->sym[sym] = actual;
  s->trail[s->ntrail++] = (int32_t)sym;
  return true;
}

bool bind_shape(Session *s, const ProgValue *v, const Value *actual) {
  if (v->kind != VK_TENSOR) return true;  // the evaluations check what their lists hold
  if (actual->kind != VK_TENSOR || (v->dtype && v->dtype != actual->dtype)) return false;
  if (v->rank < 0) return true;
  if (v->rank != actual->rank) return false;
  for (int32_t i = 0; i < v->rank; i++)
    if (!bind_dim(s, v->dim[i], actual->dims[i])) return false;
  return true;
}

static const char *kind_word(int kind) {
  return kind == VK_TENSOR     ? "a tensor"
         : kind == VK_SEQUENCE ? "a sequence"
         : kind == VK_OPTIONAL ? "an optional"
                               : "a map";
}

tenon_status wrong_shape(const Session *s, Run *run, Where at, const char *what, const ProgValue *v,
                         const Value *actual) {
  StrBuf want;
  strbuf_init(&want, &run->scratch);
  if (actual->kind != VK_TENSOR || v->kind != VK_TENSOR)
    return fail(run->diag, TENON_EINVAL, at, "%s is %s, must be %s", what, kind_word(actual->kind),
                kind_word(v->kind));
  strbuf_printf(&want, "%s[", dtype_name(v->dtype));
  for (int32_t i = 0; i < v->rank; i++) {
    int64_t n, sym = v->dim[i] < 0 ? -1 : lone_symbol(s->program, v->dim[i]);
    if (i) strbuf_puts(&want, ", ");
    if (prog_eval(s->program, v->dim[i], s->sym, &n))
      strbuf_printf(&want, "%lld", (long long)n);
    else
      strbuf_puts(&want, sym < 0 ? "?" : s->program->sym[sym].name);
  }
  strbuf_puts(&want, v->rank < 0 ? "*]" : "]");
  return fail(run->diag, TENON_EINVAL, at, "%s is %s%s, must be %s", what,
              dtype_name(actual->dtype), shape_text(actual->rank, actual->dims).s,
              strbuf_text(&want));
}

tenon_status cell_value(Session *s, Run *run, const Frame *fr, int32_t value, Value **out) {
  const ProgValue *v = &fr->f->value[value];
  const Cell *c = &fr->cell[value];
  int64_t dims[MAX_RANK];
  if (c->value) {
    *out = value_retain(c->value);
    return TENON_OK;
  }
  if (v->place == PLACE_CONST) {
    const ProgConst *k = &s->program->constant[v->slot];
    return value_borrow(run, k->dtype, k->rank, k->dims, k->data, out);
  }
  if (!c->data || !cell_dims(s, v, dims))
    return fail(run->diag, TENON_EINTERNAL, (Where){.node = v->name}, "a value is not there yet");
  return value_borrow(run, v->dtype, v->rank, dims, c->data, out);
}

tenon_status size_unknown(const Session *s, Run *run, const ProgValue *v, Where at) {
  for (int32_t i = 0; i < v->rank; i++) {
    int64_t n;
    if (prog_eval(s->program, v->dim[i], s->sym, &n) && n < 0)
      return fail(run->diag, TENON_EINVAL, at,
                  "axis %d of the result would have size %lld: the inputs are too small", (int)i,
                  (long long)n);
  }
  return fail(run->diag, TENON_EINTERNAL, at, "the size of a result is not known");
}

static tenon_status make_whole(Session *s, Run *run, const ProgValue *v, Cell *c, Where at) {
  int64_t dims[MAX_RANK];
  if (c->data) return TENON_OK;  // in the arena, or where the caller wants it
  if (!cell_dims(s, v, dims)) return size_unknown(s, run, v, at);
  TRY(value_tensor(run, at, v->dtype, v->rank, dims, &c->value));
  c->data = c->value->data;
  return TENON_OK;
}

tenon_status cell_make(Session *s, Run *run, Frame *fr, int32_t value, Where at) {
  const ProgValue *v = &fr->f->value[value];
  Cell *c = &fr->cell[value];
  int64_t part, bytes, room;
  if (c->data || v->at < 0) return make_whole(s, run, v, c, at);
  // A part of a result that the run keeps; program_check has seen that the result is no part
  // itself.
  int32_t whole = fr->f->result[v->slot];
  if (!prog_eval(s->program, v->at, s->sym, &part) || part < 0 || !value_bytes(s, v, &bytes) ||
      !value_bytes(s, &fr->f->value[whole], &room) || part > room || bytes > room - part)
    return fail(run->diag, TENON_EINTERNAL, at, "the place of a part is not known");
  TRY(make_whole(s, run, &fr->f->value[whole], &fr->cell[whole], at));
  c->data = fr->cell[whole].data + part;
  return TENON_OK;
}
