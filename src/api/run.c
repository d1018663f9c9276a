// run.c -- the public interface: tensors, and running a model on them.
//
// Inputs are borrowed as they lie, but copied where their address is not a multiple of the element's size.
// Outputs are copied out once the run is over and every buffer has been found large enough, so that a
// failure leaves the caller's tensors as they were.
#include "api/api.h"

_Static_assert(sizeof(tenon_string) == sizeof(Str) &&
                   offsetof(tenon_string, data) == offsetof(Str, p) &&
                   offsetof(tenon_string, size) == offsetof(Str, n),
               "string tensors are handed over as they are");

// In front of the elements that Tenon allocates: what has to be given back.
typedef struct Block {
  int64_t bytes;
  char pad[56];  // the elements begin on a cache line
} Block;
_Static_assert(sizeof(Block) == 64, "the elements begin on a cache line");

// ---- tensors ----

int64_t tenon_tensor_size(tenon_dtype dtype, int32_t rank, const int64_t *shape) {
  int64_t n, bytes;
  if (!dtype_valid(dtype) || rank < 0 || rank > MAX_RANK) return -1;
  return shape_count(rank, shape, &n) && dtype_bytes(dtype, n, &bytes) ? bytes : -1;
}

void tenon_tensor_release(tenon_tensor *t) {
  if (!t) return;
  if (t->owner) mem_free(t->owner, ((Block *)t->owner)->bytes);
  *t = (tenon_tensor){0};
}

// ---- inputs ----

typedef struct RunCall {
  tenon_model *m;
  const tenon_tensor *in;
  size_t nin;
  tenon_tensor *out;
  size_t nout;
  tenon_run_options options;
  Run *run;
  Diag *d;
} RunCall;

static tenon_status not_a_tensor(Diag *d, const char *what, const tenon_value_info *v) {
  return fail(d, TENON_EUNSUPPORTED, (Where){.node = v->name, .op = what},
              "%s is not a tensor; the C interface takes and gives tensors only: use the command "
              "line (tenon run)",
              v->type);
}

static tenon_status check_strings(Diag *d, Where at, const tenon_string *s, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (s[i].size < 0 || (s[i].size > 0 && !s[i].data))
      return fail(d, TENON_EINVAL, at, "string %lld has %lld bytes at %p", (long long)i,
                  (long long)s[i].size, (const void *)s[i].data);
  return TENON_OK;
}

// Bytes that an element's address must be a multiple of.
static int64_t alignment(DType t) {
  if (t == DT_STRING) return (int64_t) _Alignof(Str);
  int64_t bytes = elem_bytes(t);
  return bytes > 8 ? 8 : MAX(bytes, 1);
}

static tenon_status take_input(RunCall *c, size_t i, Value **out) {
  static const int64_t nothing[2];  // an address for a tensor without elements
  const tenon_tensor *t = &c->in[i];
  Where at = {.node = c->m->input[i].name, .op = "input"};
  if (!dtype_valid(t->dtype))
    return fail(c->d, TENON_EINVAL, at, "%d is not a dtype", (int)t->dtype);
  if (t->rank < 0 || t->rank > MAX_RANK)
    return fail(c->d, TENON_EINVAL, at, "rank %d, must be 0 to %d", t->rank, MAX_RANK);
  int64_t bytes = tenon_tensor_size(t->dtype, t->rank, t->shape);
  if (bytes < 0)
    return fail(c->d, TENON_EINVAL, at, "shape %s has a negative size or is too large",
                shape_text(t->rank, t->shape).s);
  if (t->bytes < 0 || (t->bytes > 0 && t->bytes < bytes))
    return fail(c->d, TENON_EINVAL, at, "%s%s takes %lld bytes, the buffer has %lld",
                dtype_name(t->dtype), shape_text(t->rank, t->shape).s, (long long)bytes,
                (long long)t->bytes);
  if (bytes > 0 && !t->data) return fail(c->d, TENON_EINVAL, at, "the tensor has no data");
  const void *data = bytes ? t->data : nothing;
  if ((uintptr_t)data % (uintptr_t)alignment(t->dtype) == 0) {
    TRY(value_borrow(c->run, t->dtype, t->rank, t->shape, data, out));
  } else {
    TRY(value_tensor(c->run, at, t->dtype, t->rank, t->shape, out));
    memcpy((*out)->data, data, (size_t)bytes);
  }
  return t->dtype == DT_STRING ? check_strings(c->d, at, (*out)->data, (*out)->n) : TENON_OK;
}

// ---- outputs ----

// Bytes of a tensor as the caller gets it: strings with their text behind the array.
static tenon_status output_bytes(RunCall *c, size_t i, const Value *v, int64_t *out) {
  Where at = {.node = c->m->output[i].name, .op = "output"};
  *out = 0;
  if (!v || v->kind != VK_TENSOR) return not_a_tensor(c->d, "output", &c->m->output[i]);
  bool ok = dtype_bytes(v->dtype, v->n, out);
  for (int64_t k = 0; ok && v->dtype == DT_STRING && k < v->n; k++)
    ok = ck_add(*out, val_str(v, k).n, out);
  if (!ok || *out > INT64_MAX - (int64_t)sizeof(Block))
    return fail(c->d, TENON_ENOMEM, at, "%s is too large", shape_text(v->rank, v->dims).s);
  const tenon_tensor *t = &c->out[i];
  if (t->data && t->bytes < *out)
    return fail(c->d, TENON_EINVAL, at, "%s%s needs %lld bytes, the buffer has %lld",
                dtype_name(v->dtype), shape_text(v->rank, v->dims).s, (long long)*out,
                (long long)t->bytes);
  return TENON_OK;
}

static void write_strings(const Value *v, char *to) {
  char *text = to + v->n * (int64_t)sizeof(tenon_string);
  for (int64_t k = 0; k < v->n; k++) {
    Str s = val_str(v, k);
    tenon_string own = {text, s.n};
    memcpy(to + k * (int64_t)sizeof(own), &own, sizeof(own));
    if (s.n) memcpy(text, s.p, (size_t)s.n);
    text += s.n;
  }
}

static void write_output(const Value *v, int64_t bytes, tenon_tensor *t) {
  if (v->dtype == DT_STRING)
    write_strings(v, t->data);
  else if (bytes)
    memcpy(t->data, v->data, (size_t)bytes);
  t->dtype = v->dtype;
  t->rank = v->rank;
  memset(t->shape, 0, sizeof(t->shape));
  if (v->rank) memcpy(t->shape, v->dims, (size_t)v->rank * sizeof(*t->shape));
}

// Allocates what the caller left to us; all or nothing.
static tenon_status make_outputs(RunCall *c, const int64_t *bytes, Block **made) {
  for (size_t i = 0; i < c->nout; i++) {
    if (c->out[i].data) continue;
    int64_t n = bytes[i] + (int64_t)sizeof(Block);
    made[i] = mem_alloc(n);
    if (made[i]) {
      made[i]->bytes = n;
      continue;
    }
    for (size_t k = 0; k < i; k++)
      if (made[k]) mem_free(made[k], made[k]->bytes);
    return fail(c->d, TENON_ENOMEM, (Where){.node = c->m->output[i].name, .op = "output"},
                "out of memory (%lld bytes)", (long long)n);
  }
  return TENON_OK;
}

static tenon_status give_outputs(RunCall *c, Value *const *v) {
  int64_t *bytes = arena_array(&c->run->scratch, int64_t, (int64_t)c->nout);
  Block **made = arena_array(&c->run->scratch, Block *, (int64_t)c->nout);
  for (size_t i = 0; i < c->nout; i++) TRY(output_bytes(c, i, v[i], &bytes[i]));
  TRY(make_outputs(c, bytes, made));
  for (size_t i = 0; i < c->nout; i++) {
    tenon_tensor *t = &c->out[i];
    if (made[i]) {
      t->owner = made[i];
      t->data = made[i] + 1;
      t->bytes = bytes[i];
    }
    write_output(v[i], bytes[i], t);
  }
  return TENON_OK;
}

// ---- the run ----

// Without a pool (out of memory) the caller's thread does it all; the next run tries again.
static Pool *pool_of(tenon_model *m) {
  pthread_mutex_lock(&m->lock);
  if (!m->pool) m->pool = pool_create(m->threads);
  Pool *p = m->pool;
  pthread_mutex_unlock(&m->lock);
  return p;
}

static tenon_status check_counts(const RunCall *c) {
  size_t nin = tenon_model_input_count(c->m), nout = tenon_model_output_count(c->m);
  if (c->nin != nin)
    return fail(c->d, TENON_EINVAL, NOWHERE, "the model takes %zu inputs, %zu are given", nin,
                c->nin);
  if (c->nout != nout)
    return fail(c->d, TENON_EINVAL, NOWHERE, "the model gives %zu outputs, there is room for %zu",
                nout, c->nout);
  if ((nin && !c->in) || (nout && !c->out))
    return fail(c->d, TENON_EINVAL, NOWHERE, "no array of tensors is given");
  for (size_t i = 0; i < nin; i++)
    if (c->m->input[i].kind != TENON_KIND_TENSOR)
      return not_a_tensor(c->d, "input", &c->m->input[i]);
  for (size_t i = 0; i < nout; i++)
    if (c->m->output[i].kind != TENON_KIND_TENSOR)
      return not_a_tensor(c->d, "output", &c->m->output[i]);
  return TENON_OK;
}

static tenon_status run_model(RunCall *c) {
  TRY(check_counts(c));
  TRY(model_need_supported(c->m->model, c->d));
  Run *r = c->run;
  r->pool = pool_of(c->m);
  Value **in = arena_array(&r->scratch, Value *, (int64_t)c->nin);
  Value **out = arena_array(&r->scratch, Value *, (int64_t)c->nout);
  for (size_t i = 0; i < c->nin; i++) TRY(take_input(c, i, &in[i]));
  TRY(model_run(c->m->model, r, in, out));
  return give_outputs(c, out);
}

tenon_status tenon_run(tenon_model *m, const tenon_tensor *inputs, size_t ninputs,
                       tenon_tensor *outputs, size_t noutputs, const tenon_run_options *options,
                       tenon_error *error) {
  Diag d;
  Run run;
  diag_init(&d);
  if (!m) return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no model is given"));
  RunCall c = {.m = m, .in = inputs, .nin = ninputs, .out = outputs, .nout = noutputs};
  c.run = &run;
  c.d = &d;
  if (options && !api_take_options(&c.options, sizeof(c.options), options, sizeof(c.options)))
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, NOWHERE,
                          "struct_size of the options is %zu, must be %zu", options->struct_size,
                          sizeof(c.options)));
  d.base.file = m->model->path;
  run_init(&run, NULL, &d);
  run.seed = c.options.seed;
  run.max_bytes = c.options.memory_limit > 0 ? c.options.memory_limit : m->memory_limit;
  if (c.options.max_iterations > 0) run.budget = c.options.max_iterations;
  if (c.options.max_operations > 0) run.ops_budget = c.options.max_operations;
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = run_model(&c);
  trap_leave(&t);
  run_deinit(&run);
  return api_error(error, &d, t.status);
}
