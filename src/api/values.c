// values.c -- the public interface: values that may be sequences, optionals and maps, and runs that
// take and give them.
//
// What: a tenon_value is immutable and counted; a tensor among them owns a copy of its elements.
// Runs borrow the tensors of inputs and copy outputs once they are over.  Guarantees: a value is at
// most DEEPEST levels deep, so walking it needs little stack; a failure leaves the caller's array
// as it was.
#include "api/api.h"

enum { DEEPEST = 16 };
static const char *const kind_name[] = {[TENON_KIND_TENSOR] = "a tensor",
                                        [TENON_KIND_SEQUENCE] = "a sequence",
                                        [TENON_KIND_OPTIONAL] = "an optional",
                                        [TENON_KIND_MAP] = "a map"};

struct tenon_value {
  atomic_int refs;
  tenon_kind kind;
  int32_t depth;        // 1: a tensor, or without items
  tenon_dtype elem;     // of a sequence or an optional: its tensors', where known
  tenon_tensor tensor;  // of a tensor
  size_t count;         // items; of a map 2: keys, values
  int64_t bytes;        // of this block
  tenon_value *item[];
};

// ---- making and freeing ----

static tenon_value *new_value(tenon_kind kind, size_t count, Diag *d) {
  int64_t bytes;
  if (count > INT64_MAX / sizeof(tenon_value *) ||
      !ck_add((int64_t)(count * sizeof(tenon_value *)), (int64_t)sizeof(tenon_value), &bytes))
    bytes = -1;
  tenon_value *v = bytes < 0 ? NULL : mem_alloc(bytes);
  if (!v) {
    (void)fail(d, TENON_ENOMEM, NOWHERE, "out of memory (a value of %zu items)", count);
    return NULL;
  }
  *v = (tenon_value){.kind = kind, .depth = 1, .count = count, .bytes = bytes};
  memset(v->item, 0, count * sizeof(tenon_value *));
  atomic_init(&v->refs, 1);
  return v;
}

tenon_value *tenon_value_retain(tenon_value *v) {
  if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  return v;
}

void tenon_value_release(tenon_value *v) {
  if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < v->count; i++) tenon_value_release(v->item[i]);
  tenon_tensor_release(&v->tensor);
  mem_free(v, v->bytes);
}

tenon_status tenon_value_tensor(const tenon_tensor *tensor, tenon_value **out, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!tensor || !out)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, NOWHERE, "no %s is given",
                          tensor ? "place for the value" : "tensor"));
  *out = NULL;
  tenon_value *v = new_value(TENON_KIND_TENSOR, 0, &d);
  tenon_status s = v ? api_copy_input(tensor, NOWHERE, &d, &v->tensor) : TENON_ENOMEM;
  if (s)
    tenon_value_release(v);
  else
    *out = v;
  return api_error(error, &d, s);
}

// The dtype of the tensors in it, where it is known.
static tenon_dtype elem_of(const tenon_value *v) {
  return v->kind == TENON_KIND_TENSOR ? v->tensor.dtype : v->elem;
}

static tenon_status check_items(tenon_value *const *items, size_t n, Diag *d) {
  if (n && !items) return fail(d, TENON_EINVAL, NOWHERE, "no items are given");
  for (size_t i = 0; i < n; i++) {
    if (!items[i]) return fail(d, TENON_EINVAL, NOWHERE, "item %zu is NULL", i);
    if (items[i]->kind != items[0]->kind)
      return fail(d, TENON_EINVAL, NOWHERE, "item %zu is %s, item 0 %s", i,
                  kind_name[items[i]->kind], kind_name[items[0]->kind]);
    if (elem_of(items[i]) != elem_of(items[0]))
      return fail(d, TENON_EINVAL, NOWHERE, "item %zu has elements of another dtype than item 0",
                  i);
    if (items[i]->depth >= DEEPEST)
      return fail(d, TENON_EINVAL, NOWHERE, "values are nested more than %d deep", DEEPEST);
  }
  return TENON_OK;
}

static tenon_value *with_items(tenon_kind kind, tenon_dtype elem, tenon_value *const *items,
                               size_t n, Diag *d) {
  tenon_value *v = new_value(kind, n, d);
  if (!v) return NULL;
  v->elem = n ? elem_of(items[n - 1]) : elem;
  for (size_t i = 0; i < n; i++) {
    v->item[i] = tenon_value_retain(items[i]);
    v->depth = MAX(v->depth, items[i]->depth + 1);
  }
  return v;
}

static tenon_status make_list(tenon_kind kind, tenon_dtype elem, tenon_value *const *items,
                              size_t n, tenon_value **out, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!out)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no place for the value is given"));
  *out = NULL;
  tenon_status s = check_items(items, n, &d);
  if (!s && elem != TENON_DTYPE_NONE && !dtype_valid(elem))
    s = fail(&d, TENON_EINVAL, NOWHERE, "%d is not a dtype", (int)elem);
  if (!s && !(*out = with_items(kind, elem, items, n, &d))) s = TENON_ENOMEM;
  return api_error(error, &d, s);
}

tenon_status tenon_value_sequence(tenon_dtype elem, tenon_value *const *items, size_t n,
                                  tenon_value **out, tenon_error *error) {
  return make_list(TENON_KIND_SEQUENCE, elem, items, n, out, error);
}

tenon_status tenon_value_optional(tenon_dtype elem, tenon_value *item, tenon_value **out,
                                  tenon_error *error) {
  return make_list(TENON_KIND_OPTIONAL, elem, &item, item ? 1 : 0, out, error);
}

static tenon_status check_map(const tenon_value *keys, const tenon_value *values, Diag *d) {
  if (!keys || !values) return fail(d, TENON_EINVAL, NOWHERE, "a map needs keys and values");
  const tenon_tensor *k = &keys->tensor, *v = &values->tensor;
  if (keys->kind != TENON_KIND_TENSOR || k->rank != 1 ||
      (k->dtype != TENON_DTYPE_STRING && !dtype_is_int(k->dtype)))
    return fail(d, TENON_EINVAL, NOWHERE,
                "the keys of a map are a rank-1 tensor of integers or strings");
  bool tensor = values->kind == TENON_KIND_TENSOR && v->rank == 1 && v->shape[0] == k->shape[0];
  bool list = values->kind == TENON_KIND_SEQUENCE && (int64_t)values->count == k->shape[0] &&
              values->depth < DEEPEST;
  if (tensor || list) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "the values of a map are a rank-1 tensor or a sequence, one for each of %lld keys",
              (long long)k->shape[0]);
}

tenon_status tenon_value_map(tenon_value *keys, tenon_value *values, tenon_value **out,
                             tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!out)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no place for the value is given"));
  *out = NULL;
  tenon_status s = check_map(keys, values, &d);
  if (!s && !(*out = with_items(TENON_KIND_MAP, 0, (tenon_value *[]){keys, values}, 2, &d)))
    s = TENON_ENOMEM;
  return api_error(error, &d, s);
}

// ---- looking at one ----

tenon_kind tenon_value_kind(const tenon_value *v) { return v ? v->kind : (tenon_kind)0; }
size_t tenon_value_count(const tenon_value *v) { return v ? v->count : 0; }

tenon_value *tenon_value_item(const tenon_value *v, size_t i) {
  return v && i < v->count ? v->item[i] : NULL;
}

tenon_status tenon_value_view(const tenon_value *v, tenon_tensor *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_tensor){0};
  if (!v || v->kind != TENON_KIND_TENSOR) return TENON_EINVAL;
  *out = v->tensor;
  out->owner = NULL;
  return TENON_OK;
}

// ---- into a run and out of it ----

static tenon_status take(Run *r, const tenon_value *v, Value **out) {
  static const int64_t nothing[2];  // an address for a tensor without elements
  const tenon_tensor *t = &v->tensor;
  if (v->kind == TENON_KIND_TENSOR)
    return value_borrow(r, t->dtype, t->rank, t->shape, t->bytes ? t->data : nothing, out);
  TRY(value_sequence(r, v->elem, (int64_t)v->count, out));
  static const uint8_t kind[] = {[TENON_KIND_SEQUENCE] = VK_SEQUENCE,
                                 [TENON_KIND_OPTIONAL] = VK_OPTIONAL,
                                 [TENON_KIND_MAP] = VK_MAP};
  (*out)->kind = kind[v->kind];
  for (size_t i = 0; i < v->count; i++) TRY(take(r, v->item[i], &(*out)->items[i]));
  return TENON_OK;
}

static tenon_status take_input(Run *r, const tenon_value_info *info, const tenon_value *v,
                               Value **out) {
  Where at = {.node = info->name, .op = "input"};
  if (!v) return fail(r->diag, TENON_EINVAL, at, "no value is given");
  TRY(take(r, v, out));
  if (v->kind == info->kind) return TENON_OK;
  if (info->kind == TENON_KIND_OPTIONAL) return value_optional(r, elem_of(v), *out, out);
  return fail(r->diag, TENON_EINVAL, at, "it is %s, %s is needed: %s", kind_name[v->kind],
              kind_name[info->kind], info->type);
}

static tenon_status give(const Value *v, Where at, int depth, Diag *d, tenon_value **out) {
  static const tenon_kind kind[] = {[VK_TENSOR] = TENON_KIND_TENSOR,
                                    [VK_SEQUENCE] = TENON_KIND_SEQUENCE,
                                    [VK_OPTIONAL] = TENON_KIND_OPTIONAL,
                                    [VK_MAP] = TENON_KIND_MAP};
  if (depth > DEEPEST)
    return fail(d, TENON_EUNSUPPORTED, at, "values nested more than %d deep", DEEPEST);
  tenon_value *made = new_value(kind[v->kind], v->kind == VK_TENSOR ? 0 : (size_t)v->nitems, d);
  if (!made) return TENON_ENOMEM;
  made->elem = v->elem_dtype;
  tenon_status s = v->kind == VK_TENSOR ? api_tensor_of(v, at, d, &made->tensor) : TENON_OK;
  for (size_t i = 0; i < made->count && !s; i++) {
    s = give(v->items[i], at, depth + 1, d, &made->item[i]);
    if (!s) made->depth = MAX(made->depth, made->item[i]->depth + 1);
  }
  if (s)
    tenon_value_release(made);
  else
    *out = made;
  return s;
}

// ---- runs ----

typedef struct ValuesCall {
  tenon_model *model;  // or
  tenon_session *session;
  const tenon_value_info *input, *output;
  size_t want_in, want_out;
  tenon_value *const *in;
  size_t nin;
  tenon_value **out;
  size_t nout;
  const tenon_run_options *options;
  tenon_value **made;  // what to release after a failure
} ValuesCall;

static tenon_status run_values(ValuesCall *c, Run *r) {
  if (c->nin != c->want_in || c->nout != c->want_out)
    return fail(r->diag, TENON_EINVAL, NOWHERE,
                "the model takes %zu inputs and gives %zu outputs, %zu and %zu are given",
                c->want_in, c->want_out, c->nin, c->nout);
  if ((c->nin && !c->in) || (c->nout && !c->out))
    return fail(r->diag, TENON_EINVAL, NOWHERE, "no array of values is given");
  TRY(api_take_wanted(c->options, c->want_out, r));
  Value **in = arena_array(&r->scratch, Value *, (int64_t)c->nin + 1);
  Value **out = arena_array(&r->scratch, Value *, (int64_t)c->nout + 1);
  for (size_t i = 0; i < c->nin; i++) TRY(take_input(r, &c->input[i], c->in[i], &in[i]));
  TRY(c->model ? api_run_model(c->model, r, in, out) : api_run_session(c->session, r, in, out));
  c->made = arena_array(&r->scratch, tenon_value *, (int64_t)c->nout + 1);
  for (size_t i = 0; i < c->nout; i++) {
    Where at = {.node = c->output[i].name, .op = "output"};
    if (!run_wants(r, (int64_t)i)) continue;
    if (!out[i]) return fail(r->diag, TENON_EINTERNAL, at, "it was not computed");
    TRY(give(out[i], at, 1, r->diag, &c->made[i]));
  }
  for (size_t i = 0; i < c->nout; i++)
    if (run_wants(r, (int64_t)i)) c->out[i] = c->made[i];
  c->made = NULL;
  return TENON_OK;
}

static tenon_status run_call(ValuesCall *c, Run *r, Diag *d) {
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = run_values(c, r);
  trap_leave(&t);
  for (size_t i = 0; t.status && c->made && i < c->nout; i++) tenon_value_release(c->made[i]);
  run_deinit(r);
  return t.status;
}

static tenon_status take_run_options(tenon_run_options *o, const tenon_run_options *options,
                                     Diag *d) {
  if (options && !api_take_options(o, sizeof(*o), options, offsetof(tenon_run_options, stream)))
    return api_wrong_options(d, options->struct_size, sizeof(*o));
  return api_check_limits(o, d);
}

tenon_status tenon_run_values(tenon_model *m, tenon_value *const *inputs, size_t ninputs,
                              tenon_value **outputs, size_t noutputs,
                              const tenon_run_options *options, tenon_error *error) {
  Diag d;
  Run run;
  tenon_run_options o = {0};
  diag_init(&d);
  if (!m) return api_missing("model", error);
  tenon_status wrong = take_run_options(&o, options, &d);
  if (wrong) return api_error(error, &d, wrong);
  ValuesCall c = {.model = m,
                  .input = m->input,
                  .output = m->output,
                  .want_in = tenon_model_input_count(m),
                  .want_out = tenon_model_output_count(m),
                  .in = inputs,
                  .nin = ninputs,
                  .out = outputs,
                  .nout = noutputs,
                  .options = &o};
  d.base.file = m->model->path;
  run_init(&run, NULL, &d);
  api_limit_run(&run, &o, m->memory_limit);
  return api_error(error, &d, run_call(&c, &run, &d));
}

tenon_status tenon_session_run_values(tenon_session *s, tenon_value *const *inputs, size_t ninputs,
                                      tenon_value **outputs, size_t noutputs,
                                      const tenon_run_options *options, tenon_error *error) {
  Diag d;
  Run run;
  tenon_run_options o = {0};
  diag_init(&d);
  if (!s) return api_missing("session", error);
  tenon_status wrong = take_run_options(&o, options, &d);
  if (wrong) return api_error(error, &d, wrong);
  if (s->nstates || o.stream)
    return api_error(error, &d,
                     fail(&d, TENON_EUNSUPPORTED, NOWHERE,
                          "a run of values knows no states and no stream: tenon_session_run does"));
  const tenon_program *p = s->program;
  ValuesCall c = {.session = s,
                  .input = p->input,
                  .output = p->output,
                  .want_in = p->ninputs,
                  .want_out = p->noutputs,
                  .in = inputs,
                  .nin = ninputs,
                  .out = outputs,
                  .nout = noutputs,
                  .options = &o};
  run_init_keeping(&run, &s->keep, &d);
  api_limit_run(&run, &o, s->memory_limit);
  return api_error(error, &d, run_call(&c, &run, &d));
}
