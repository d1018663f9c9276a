// graph_check.c -- does a request fit the model?  Names, types and shapes, with the reason if not.
#include "serve/kserve/graph_impl.h"

static const char *shape_text(Arena *a, int rank, const int64_t *shape) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_putc(&b, '[');
  for (int k = 0; k < rank; k++) {
    if (k) strbuf_putc(&b, ',');
    strbuf_printf(&b, "%lld", (long long)shape[k]);
  }
  strbuf_putc(&b, ']');
  return strbuf_text(&b);
}

static tenon_status check_input(Infer *r, const KsValue *v, const KsTensor *t, Diag *d) {
  if (t->type != v->type)
    return fail(d, TENON_EINVAL, NOWHERE, "input '%s' is %s; the model takes %s", v->name,
                t->type->name, v->type->name);
  bool fits = v->rank < 0 || v->rank == t->rank;
  for (int k = 0; fits && k < v->rank; k++) fits = v->shape[k] < 0 || v->shape[k] == t->shape[k];
  if (!fits)
    return fail(d, TENON_EINVAL, NOWHERE, "input '%s' has the shape %s; the model takes %s",
                v->name, shape_text(r->arena, t->rank, t->shape),
                shape_text(r->arena, v->rank, v->shape));
  return TENON_OK;
}

static const char *names_of(Arena *a, const KsValue *v, int64_t n) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < n && b.n < 500; i++)
    strbuf_printf(&b, "%s'%s'", i ? ", " : "", v[i].name);
  return strbuf_text(&b);
}

static int64_t find(const KsValue *v, int64_t n, Str name) {
  for (int64_t i = 0; i < n; i++)
    if (str_is(name, v[i].name)) return i;
  return -1;
}

static tenon_status order_inputs(Infer *r, const KsSignature *s, Diag *d) {
  KsTensor *in = arena_array(r->arena, KsTensor, s->ninputs + 1);
  for (int64_t i = 0; i < r->ninputs; i++) {
    const KsTensor *t = &r->input[i];
    int64_t at = find(s->input, s->ninputs, t->name);
    if (at < 0)
      return fail(d, TENON_EINVAL, NOWHERE, "the model has no input '%.*s'; it takes %s",
                  STR_ARG(t->name), names_of(r->arena, s->input, s->ninputs));
    if (in[at].type)
      return fail(d, TENON_EINVAL, NOWHERE, "input '%.*s' is given twice", STR_ARG(t->name));
    TRY(check_input(r, &s->input[at], t, d));
    in[at] = *t;
  }
  for (int64_t i = 0; i < s->ninputs; i++)
    if (!in[i].type)
      return fail(d, TENON_EINVAL, NOWHERE, "input '%s' is missing", s->input[i].name);
  r->input = in;
  return TENON_OK;
}

// Inputs of one request have the same number of rows.
static tenon_status count_rows(Infer *r, const KsSignature *s, Diag *d) {
  r->rows = 0;
  if (!s->rows) return TENON_OK;
  for (int64_t i = 0; i < s->ninputs; i++)
    if (r->input[i].shape[0] != r->input[0].shape[0])
      return fail(d, TENON_EINVAL, NOWHERE, "inputs '%s' and '%s' have %lld and %lld rows",
                  s->input[0].name, s->input[i].name, (long long)r->input[0].shape[0],
                  (long long)r->input[i].shape[0]);
  r->rows = s->ninputs ? r->input[0].shape[0] : 0;
  return TENON_OK;
}

tenon_status infer_check(Infer *r, const KsSignature *s, Diag *d) {
  TRY(order_inputs(r, s, d));
  TRY(count_rows(r, s, d));
  r->wanted_index = arena_array(r->arena, int64_t, r->nwanted + 1);
  for (int64_t i = 0; i < r->nwanted; i++) {
    int64_t at = find(s->output, s->noutputs, r->wanted[i]);
    if (at < 0)
      return fail(d, TENON_EINVAL, NOWHERE, "the model has no output '%.*s'; it gives %s",
                  STR_ARG(r->wanted[i]), names_of(r->arena, s->output, s->noutputs));
    for (int64_t k = 0; k < i; k++)
      if (r->wanted_index[k] == at)
        return fail(d, TENON_EINVAL, NOWHERE, "output '%.*s' is asked for twice",
                    STR_ARG(r->wanted[i]));
    r->wanted_index[i] = at;
  }
  r->checked = true;
  return TENON_OK;
}

bool infer_together(const Infer *a, const Infer *b) {
  if (a->alone || b->alone) return false;
  if (!a->rows || !b->rows || a->nwanted != b->nwanted) return false;
  for (int64_t i = 0; i < a->nwanted; i++)
    if (a->wanted_index[i] != b->wanted_index[i]) return false;
  for (int64_t i = 0; i < a->ninputs; i++) {
    const KsTensor *x = &a->input[i], *y = &b->input[i];
    if (x->rank != y->rank) return false;
    for (int k = 1; k < x->rank; k++)
      if (x->shape[k] != y->shape[k]) return false;
  }
  return true;
}
