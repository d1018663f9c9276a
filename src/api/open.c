// open.c -- the public interface: opening models and asking what is in them.
//
// Everything that an accessor gives is worked out when the model is opened, so that accessors
// neither allocate nor fail and may be called by any number of threads.
#include "api/api.h"

#include "base/notice.h"

#include <stdio.h>

_Static_assert(TENON_MAX_RANK == MAX_RANK, "the published limit");

const char *tenon_version(void) { return TENON_VERSION; }

int32_t tenon_notice(char *text, size_t capacity) {
  return text && capacity && notice_take(text, (int64_t)MIN(capacity, INT32_MAX));
}
const char *tenon_status_name(tenon_status status) { return status_name(status); }
const char *tenon_dtype_name(tenon_dtype dtype) { return dtype_name(dtype); }

tenon_status api_error(tenon_error *error, const Diag *d, tenon_status status) {
  if (!error) return status;
  error->status = status;
  error->message[0] = 0;
  if (!status) return status;
  if (d->len)
    memcpy(error->message, d->text, (size_t)d->len + 1);
  else
    snprintf(error->message, sizeof(error->message), "%s", status_name(status));
  return status;
}

tenon_status api_missing(const char *what, tenon_error *error) {
  Diag d;
  diag_init(&d);
  return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no %s is given", what));
}

bool api_take_options(void *to, size_t size, const void *from, size_t least) {
  size_t theirs;
  memcpy(&theirs, from, sizeof(theirs));
  if (theirs < least) return false;
  memcpy(to, from, MIN(theirs, size));
  return true;
}

tenon_status api_wrong_options(Diag *d, size_t got, size_t want) {
  return fail(d, TENON_EINVAL, NOWHERE, "struct_size of the options is %zu, must be %zu", got,
              want);
}

// ---- what the model takes and gives ----

static void describe(tenon_model *m, const Node *n, const char *name, tenon_value_info *out) {
  Arena *a = &m->arena;
  const Type *t = type_of(n);
  StrBuf b;
  strbuf_init(&b, a);
  type_print(&b, t);
  out->name = name ? name : "";
  out->type = strbuf_text(&b);
  out->rank = -1;
  switch ((TypeKind)t->kind) {
  case TK_SEQUENCE: out->kind = TENON_KIND_SEQUENCE; return;
  case TK_OPTIONAL: out->kind = TENON_KIND_OPTIONAL; return;
  case TK_MAP: out->kind = TENON_KIND_MAP; return;
  case TK_NONE:
  case TK_TENSOR: break;
  }
  out->kind = TENON_KIND_TENSOR;
  out->dtype = t->dtype;
  if (t->kind == TK_TENSOR) out->rank = t->rank;
  for (int i = 0; i < out->rank; i++) {
    bool number = ie_is_const(t->dims[i]);
    out->shape[i] = number ? t->dims[i]->value : -1;
    if (number) continue;
    strbuf_init(&b, a);
    ie_print(&b, t->dims[i]);
    out->symbol[i] = strbuf_text(&b);
  }
}

static void describe_all(tenon_model *m) {
  int64_t nin = model_ninputs(m->model), nout = model_noutputs(m->model);
  m->input = arena_array(&m->arena, tenon_value_info, nin);
  m->output = arena_array(&m->arena, tenon_value_info, nout);
  for (int64_t i = 0; i < nin; i++)
    describe(m, model_input(m->model, i), model_input(m->model, i)->name, &m->input[i]);
  for (int64_t i = 0; i < nout; i++)
    describe(m, model_output(m->model, i), model_output_name(m->model, i), &m->output[i]);
}

// ---- opening ----

typedef struct OpenCall {
  const char *path;  // NULL: bytes
  const void *bytes;
  size_t size;
  const tenon_open_options *options;
} OpenCall;

static tenon_status take_types(tenon_model *m, const tenon_open_options *o, Diag *d,
                               ModelOptions *out) {
  if (o->ntypes > 65536 || (o->ntypes && !o->types))
    return fail(d, TENON_EINVAL, NOWHERE, "%zu types, but no texts", o->ntypes);
  InputType *types = arena_array(&m->arena, InputType, (int64_t)o->ntypes + 1);
  for (size_t i = 0; i < o->ntypes; i++) {
    if (!o->types[i]) return fail(d, TENON_EINVAL, NOWHERE, "type %zu is no text", i);
    Str text = str_of(str_copy(&m->arena, str_of(o->types[i])));
    if (!input_type_parse(text, &types[i]))
      return fail(d, TENON_EINVAL, NOWHERE,
                  "'%s' is no type of an input, such as x=f32[1,3,224,224]", text.p);
  }
  out->types = m->types = types;
  out->ntypes = m->ntypes = (int64_t)o->ntypes;
  return TENON_OK;
}

static tenon_status take_tensor(tenon_model *m, const tenon_named_tensor *from, Diag *d) {
  const tenon_tensor *t = &from->tensor;
  int64_t n = 0, bytes = tenon_tensor_size(t->dtype, t->rank, t->shape);
  const char *name = from->name ? from->name : "";
  TRY(api_need_host(t, (Where){.node = name, .op = "weight"}, d));
  if (!*name || bytes < 0 || t->dtype == TENON_DTYPE_STRING || (bytes && !t->data) ||
      (t->bytes && t->bytes < bytes))
    return fail(d, TENON_EINVAL, NOWHERE, "the weight '%s' has no name, or no elements that fit",
                name);
  Weight w = {.name = str_copy(&m->arena, str_of(name)), .dtype = t->dtype, .rank = t->rank};
  shape_count(t->rank, t->shape, &n);
  w.n = n;
  w.data = t->data;
  w.bytes = bytes;
  memcpy(w.dims, t->shape, (size_t)t->rank * sizeof *t->shape);
  if (weights_add(m->tensors, &m->arena, &w)) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE, "the weight '%s' is given twice", name);
}

static tenon_status take_tensors(tenon_model *m, const tenon_open_options *o, Diag *d,
                                 ModelOptions *out) {
  if (!o->ntensors) return TENON_OK;
  if (!o->tensors || o->weights)
    return fail(d, TENON_EINVAL, NOWHERE, "%zu weights, %s", o->ntensors,
                o->tensors ? "and a file of weights besides" : "but no list of them");
  out->tensors = m->tensors = arena_new(&m->arena, Weights);
  weights_init(m->tensors, &m->arena);
  for (size_t i = 0; i < o->ntensors; i++) TRY(take_tensor(m, &o->tensors[i], d));
  return TENON_OK;
}

static tenon_status open_model(tenon_model *m, const OpenCall *c, Diag *d) {
  tenon_open_options o = {0};
  if (c->options &&
      !api_take_options(&o, sizeof(o), c->options, offsetof(tenon_open_options, types)))
    return api_wrong_options(d, c->options->struct_size, sizeof(o));
  if (o.threads < 0 || o.memory_limit < 0)
    return fail(d, TENON_EINVAL, NOWHERE, "threads and memory_limit must not be negative");
  m->threads = o.threads;
  m->memory_limit = o.memory_limit;
  TRY(api_copy_ops(&m->arena, o.ops, o.nops, d, &m->custom));
  ModelOptions mo = {.custom = m->custom, .memory_limit = o.memory_limit};
  if (o.ninputs && !o.inputs)
    return fail(d, TENON_EINVAL, NOWHERE, "%zu inputs, but no names", o.ninputs);
  Str *given = arena_array(&m->arena, Str, (int64_t)MIN(o.ninputs, 65536));
  for (size_t i = 0; i < MIN(o.ninputs, 65536); i++) {
    if (!o.inputs[i]) return fail(d, TENON_EINVAL, NOWHERE, "input %zu has no name", i);
    given[i] = str_of(str_copy(&m->arena, str_of(o.inputs[i])));
  }
  mo.given = m->given = (Strs){(int64_t)MIN(o.ninputs, 65536), given};
  TRY(take_types(m, &o, d, &mo));
  if (o.signature) mo.signature = m->signature = str_copy(&m->arena, str_of(o.signature));
  if (o.weights) mo.weights = m->weights = str_copy(&m->arena, str_of(o.weights));
  TRY(take_tensors(m, &o, d, &mo));
  if (c->path)
    TRY(model_open(c->path, &mo, d, &m->model));
  else
    TRY(model_open_memory(c->bytes, (int64_t)c->size, NULL, &mo, d, &m->model));
  describe_all(m);
  return TENON_OK;
}

static tenon_status open_any(const OpenCall *c, tenon_model **out, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!out) return api_missing("place for the model", error);
  *out = NULL;
  if (!c->path && !c->bytes)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no model was named"));
  if (c->size > INT64_MAX)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "%zu bytes", c->size));
  tenon_model *m = mem_alloc((int64_t)sizeof(*m));
  if (!m) return api_error(error, &d, fail(&d, TENON_ENOMEM, NOWHERE, "out of memory"));
  arena_init(&m->arena);
  pthread_mutex_init(&m->lock, NULL);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = open_model(m, c, &d);
  trap_leave(&t);
  if (t.status)
    tenon_model_close(m);
  else
    *out = m;
  return api_error(error, &d, t.status);
}

tenon_status tenon_model_open(const char *path, tenon_model **out, tenon_error *error) {
  return open_any(&(OpenCall){.path = path}, out, error);
}

tenon_status tenon_model_open_with(const char *path, const tenon_open_options *options,
                                   tenon_model **out, tenon_error *error) {
  return open_any(&(OpenCall){.path = path, .options = options}, out, error);
}

tenon_status tenon_model_open_memory(const void *bytes, size_t size,
                                     const tenon_open_options *options, tenon_model **out,
                                     tenon_error *error) {
  return open_any(&(OpenCall){.bytes = bytes, .size = size, .options = options}, out, error);
}

void tenon_model_close(tenon_model *m) {
  if (!m) return;
  pool_release(m->pool);
  model_free(m->model);
  pthread_mutex_destroy(&m->lock);
  arena_deinit(&m->arena);
  mem_free(m, (int64_t)sizeof(*m));
}

// ---- accessors ----

size_t tenon_model_input_count(const tenon_model *m) {
  return m ? (size_t)model_ninputs(m->model) : 0;
}
size_t tenon_model_output_count(const tenon_model *m) {
  return m ? (size_t)model_noutputs(m->model) : 0;
}

tenon_status tenon_model_input(const tenon_model *m, size_t i, tenon_value_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_value_info){0};
  if (i >= tenon_model_input_count(m)) return TENON_EINVAL;
  *out = m->input[i];
  return TENON_OK;
}

tenon_status tenon_model_output(const tenon_model *m, size_t i, tenon_value_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_value_info){0};
  if (i >= tenon_model_output_count(m)) return TENON_EINVAL;
  *out = m->output[i];
  return TENON_OK;
}

typedef struct Asked {
  const char *op;
  bool found;
} Asked;

static void compare_op(void *ctx, const FrontendOp *op) {
  Asked *a = ctx;
  if (!op->refused && !strcmp(op->op, a->op)) a->found = true;
}

int32_t tenon_op_known(const char *frontend, const char *op) {
  const Frontend *f = frontend && op ? frontend_find(frontend) : NULL;
  Asked a = {.op = op};
  if (f && f->ops) f->ops(compare_op, &a);
  return a.found;
}

size_t tenon_model_unsupported_count(const tenon_model *m) {
  const Unsupported *u;
  return m ? (size_t)model_unsupported(m->model, &u) : 0;
}

tenon_status tenon_model_unsupported(const tenon_model *m, size_t i, tenon_unsupported *out) {
  const Unsupported *u;
  if (!out) return TENON_EINVAL;
  *out = (tenon_unsupported){0};
  if (!m || i >= (size_t)model_unsupported(m->model, &u)) return TENON_EINVAL;
  *out = (tenon_unsupported){
      .op = u[i].op, .why = u[i].why, .node = u[i].first, .count = (size_t)u[i].count};
  return TENON_OK;
}
