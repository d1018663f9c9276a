// infer_request.c -- what REST and gRPC have in common: rules of reading, submitting, outputs.
#include "serve/kserve/infer_request.h"

#include "base/platform.h"
#include "serve/limits.h"

#include <math.h>
#include <stdlib.h>

// ---- reading ----
tenon_status infer_read_input(KsTensor *t, int64_t i, Str name, Str type, Diag *d) {
  if (!name.n) return fail(d, TENON_EINVAL, NOWHERE, "input %lld has no name", (long long)i);
  t->name = name;
  t->type = ks_type_named(type);
  if (!t->type)
    return fail(d, TENON_EINVAL, NOWHERE, "'datatype' of input '%.*s' is none of the protocol's",
                STR_ARG(name));
  return TENON_OK;
}

tenon_status infer_read_rank(KsTensor *t, int64_t rank, Diag *d) {
  if (rank < 0 || rank > TENON_MAX_RANK)
    return fail(d, TENON_EINVAL, NOWHERE, "'shape' of input '%.*s' is no list of at most %d sizes",
                STR_ARG(t->name), TENON_MAX_RANK);
  t->rank = (int)rank;
  return TENON_OK;
}

tenon_status infer_read_output(InferOutput *o, int64_t i, Str name, int64_t class, Diag *d) {
  if (!name.n) return fail(d, TENON_EINVAL, NOWHERE, "output %lld has no name", (long long)i);
  if (class < 0 || class > SERVE_ELEMENTS)
    return fail(d, TENON_EINVAL, NOWHERE, "classification is no number of classes");
  *o = (InferOutput){.name = name, .binary = -1, .class = class};
  return TENON_OK;
}

tenon_status infer_read_timeout(InferRequest *r, int64_t us, Diag *d) {
  if (us < 0) return fail(d, TENON_EINVAL, NOWHERE, "timeout is no number of microseconds");
  r->timeout_us = MIN(us, INT64_MAX / 1000000);
  return TENON_OK;
}

tenon_status infer_shared_memory(const char *where, Diag *d) {
  return fail(d, TENON_EINVAL, NOWHERE, "%s is in shared memory, which this server does not read",
              where);
}

// ---- submitting ----
int infer_request_submit(const InferRequest *r, int64_t deadline, Infer *io, Diag *d) {
  int64_t own = r->timeout_us ? platform->now() + r->timeout_us * 1000 : 0;
  io->ninputs = r->ninputs;
  io->input = r->input;
  io->nwanted = r->noutputs;
  io->wanted = arena_array(io->arena, Str, r->noutputs + 1);
  for (int64_t i = 0; i < r->noutputs; i++) io->wanted[i] = r->output[i].name;
  io->deadline = own && deadline ? MIN(own, deadline) : own ? own : deadline;
  return infer_submit(io, d);
}

// ---- classification ----
typedef struct Class {
  double value;
  int64_t at;
} Class;

// The largest first, of equal ones the first; what is no number comes last.
static int by_value(const void *pa, const void *pb) {
  const Class *a = pa, *b = pb;
  bool a_nan = isnan(a->value), b_nan = isnan(b->value);
  if (a_nan != b_nan) return a_nan - b_nan;
  if (!a_nan && a->value != b->value) return a->value < b->value ? 1 : -1;
  return (a->at > b->at) - (a->at < b->at);
}

static void put_class(StrBuf *b, const Class *c) {
  char text[64];
  int n = json_number(c->value, true, text, 32);
  text[n] = 0;
  StrBuf one;
  strbuf_init(&one, b->arena);
  strbuf_printf(&one, "%s:%lld", text, (long long)c->at);
  uint32_t bytes = (uint32_t)one.n;
  strbuf_put(b, (Str){(const char *)&bytes, 4});
  strbuf_put(b, strbuf_str(&one));
}

// The k largest elements as "VALUE:INDEX", of each row of the last dimension.
static KsTensor classify(Arena *a, const KsTensor *t, int64_t k) {
  int64_t n = t->rank ? t->shape[t->rank - 1] : 1, rows = n ? t->count / n : 0;
  KsTensor out = *t;
  StrBuf b;
  Class *c = arena_array(a, Class, n + 1);
  k = MIN(k, n);
  strbuf_init(&b, a);
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t i = 0; i < n; i++)
      c[i] = (Class){get_f64(t->type->dtype, t->data.p, row * n + i), i};
    qsort(c, (size_t)n, sizeof *c, by_value);
    for (int64_t i = 0; i < k; i++) put_class(&b, &c[i]);
  }
  out.type = ks_type(DT_STRING);
  if (out.rank)
    out.shape[out.rank - 1] = k;
  else
    out.shape[out.rank++] = k;
  out.count = rows * k;
  out.data = strbuf_str(&b);
  return out;
}

// ---- outputs ----
static const KsTensor *find(const KsTensor *t, int64_t n, Str name) {
  for (int64_t i = 0; i < n; i++)
    if (str_eq(t[i].name, name)) return &t[i];
  return NULL;
}

KsTensor *infer_outputs(Arena *a, const InferRequest *r, const InferResult *result,
                        int64_t *count) {
  *count = r->noutputs ? r->noutputs : result->n;
  KsTensor *t = arena_array(a, KsTensor, *count + 1);
  for (int64_t i = 0; i < *count; i++) {
    const KsTensor *have =
        r->noutputs ? find(result->output, result->n, r->output[i].name) : &result->output[i];
    CHECK(have, "an output that was asked for is not there");
    t[i] = *have;
    if (r->noutputs && r->output[i].class && t[i].type->bytes)
      t[i] = classify(a, have, r->output[i].class);
  }
  return t;
}
