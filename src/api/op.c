// op.c -- the public interface: operators of the user's own.
//
// A registration becomes a CustomOp, which the importer and the interpreter know; its two functions
// build a tenon_op_call and hand it to the user's callbacks.  While a callback runs there is a
// foreign frame on the stack, so nothing that it calls may jump past it: every function here that
// can allocate sets a trap of its own and keeps the failure in the call, which the caller of the
// callback looks at.
#include "api/api.h"
#include "ir/internal.h"
#include "ir/textnum.h"

typedef struct ApiOp {
  tenon_op op;  // name copied
} ApiOp;

// One of `in` and `e` is set: while types are inferred, or while the model is run.
struct tenon_op_call {
  const ApiOp *op;
  const foreign_attrs *attrs;
  Infer *in;
  Eval *e;
  Diag *d;
  Where at;
  tenon_status status;  // of the first function that failed during the call
};

// ---- the two sides of a call ----

static tenon_status note(tenon_op_call *c, tenon_status s) {
  if (s && !c->status) c->status = s;
  return s;
}

static tenon_status PRINTF(3, 4) refuse(tenon_op_call *c, tenon_status s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  failv(c->d, s, c->at, fmt, ap);
  va_end(ap);
  return note(c, s);
}

// What a callback returned, and what went wrong on its way, as one status with a message.
static tenon_status outcome(tenon_op_call *c, tenon_status s, int64_t said, const char *what) {
  if (c->status) s = c->status;
  if (!s) return s;
  if ((int)s < 0 || s > TENON_ECANCELLED) s = TENON_EINVAL;
  if (c->d->len == said)
    fail(c->d, s, c->at, "the operator's %s failed (%s)", what, status_name(s));
  return s;
}

static tenon_status infer_op(const CustomOp *op, Infer *in) {
  tenon_op_call c = {.op = op->user, .attrs = in->attrs, .in = in, .d = in->diag, .at = in->at};
  c.at.op = op->name;
  int64_t said = c.d->len;
  for (int i = 0; i < in->nres; i++) infer_set_unranked(in, i, TENON_DTYPE_NONE);
  if (!c.op->op.shape) return TENON_OK;
  return outcome(&c, c.op->op.shape(&c, c.op->op.user), said, "shape rule");
}

// The texts that a callback left in its result are its own: they are copied into the run.
static tenon_status own_strings(tenon_op_call *c, Value *v) {
  Str *s = v->data;
  for (int64_t i = 0; i < v->n; i++) {
    if (s[i].n < 0 || (s[i].n > 0 && !s[i].p))
      return refuse(c, TENON_EINVAL, "string %lld of the result has %lld bytes at %p", (long long)i,
                    (long long)s[i].n, (const void *)s[i].p);
    s[i] = s[i].n ? run_string(c->e->run, s[i]) : STR("");
  }
  return TENON_OK;
}

static tenon_status eval_op(const CustomOp *op, Eval *e) {
  tenon_op_call c = {.op = op->user, .attrs = e->attrs, .e = e, .d = e->run->diag, .at = e->at};
  c.at.op = op->name;
  int64_t said = c.d->len;
  for (int i = 0; i < e->nin; i++)
    if (e->in[i] && e->in[i]->kind != VK_TENSOR)
      return refuse(&c, TENON_EUNSUPPORTED, "input %d is not a tensor", i);
  TRY(outcome(&c, c.op->op.run(&c, c.op->op.user), said, "callback"));
  for (int i = 0; i < e->nout; i++) {
    if (!e->out[i]) return refuse(&c, TENON_EINVAL, "the callback did not make output %d", i);
    if (e->out[i]->dtype == DT_STRING) TRY(own_strings(&c, e->out[i]));
  }
  return TENON_OK;
}

// ---- registration ----

tenon_status api_copy_ops(Arena *a, const tenon_op *ops, size_t n, Diag *d, CustomOp **out) {
  *out = NULL;
  if (!n) return TENON_OK;
  if (!ops) return fail(d, TENON_EINVAL, NOWHERE, "%zu operators, but no list of them", n);
  const char *at = (const char *)ops;
  for (size_t i = 0; i < n; i++) {
    ApiOp *own = arena_new(a, ApiOp);
    if (!api_take_options(&own->op, sizeof(own->op), at, sizeof(own->op)) ||
        ((const tenon_op *)at)->struct_size != ops->struct_size)
      return fail(d, TENON_EINVAL, NOWHERE, "struct_size of operator %zu is %zu, must be %zu", i,
                  ((const tenon_op *)at)->struct_size, sizeof(own->op));
    at += ops->struct_size;
    if (!own->op.name || !*own->op.name || !own->op.run)
      return fail(d, TENON_EINVAL, NOWHERE, "operator %zu has no %s", i,
                  own->op.run ? "name" : "run callback");
    // The importer calls the standard domain "", whatever the model calls it.
    Str name = str_of(own->op.name);
    if (str_starts(name, "ai.onnx.") && !memchr(name.p + 8, '.', (size_t)name.n - 8))
      name = (Str){name.p + 8, name.n - 8};
    own->op.name = str_copy(a, name);
    if (custom_find(*out, name))
      return fail(d, TENON_EINVAL, NOWHERE, "operator '%s' is registered twice", own->op.name);
    CustomOp *c = arena_new(a, CustomOp);
    *c = (CustomOp){
        .next = *out, .name = own->op.name, .infer = infer_op, .eval = eval_op, .user = own};
    *out = c;
  }
  return TENON_OK;
}

CustomOp *api_retain_ops(Arena *a, const CustomOp *list) {
  CustomOp *out = NULL, **end = &out;
  for (; list; list = list->next, end = (CustomOp **)(uintptr_t) & (*end)->next) {
    ApiOp *own = arena_dup(a, list->user, (int64_t)sizeof(ApiOp));
    own->op.name = str_copy(a, str_of(own->op.name));
    *end = arena_dup(a, list, (int64_t)sizeof(CustomOp));
    (*end)->name = own->op.name;
    (*end)->user = own;
    (*end)->next = NULL;
  }
  return out;
}

tenon_status api_foreign(const void *custom, Eval *e) {
  const foreign_attrs *at = e->attrs;
  const CustomOp *c = custom_find(custom, at->op);
  if (!c)
    return eval_fail(e, TENON_EUNSUPPORTED, "operator %.*s is not registered", STR_ARG(at->op));
  return c->eval(c, e);
}

// ---- what a callback may ask ----

const char *tenon_op_node(const tenon_op_call *c) { return c && c->at.node ? c->at.node : ""; }

size_t tenon_op_input_count(const tenon_op_call *c) {
  if (!c) return 0;
  return (size_t)(c->in ? c->in->nsrc : c->e->nin);
}

size_t tenon_op_output_count(const tenon_op_call *c) {
  if (!c) return 0;
  return (size_t)(c->in ? c->in->nres : c->e->nout);
}

static void view_value(const Value *v, tenon_tensor *out) {
  out->dtype = v->dtype;
  out->rank = v->rank;
  if (v->rank) memcpy(out->shape, v->dims, (size_t)v->rank * sizeof(*out->shape));
  out->data = v->data;
  int64_t bytes;
  if (dtype_bytes(v->dtype, v->n, &bytes)) out->bytes = bytes;
}

static tenon_status view_type(tenon_op_call *c, const Node *n, tenon_tensor *out) {
  const Type *t = type_of(n);
  if (t->kind == TK_NONE) return TENON_OK;
  if (t->kind != TK_TENSOR) return refuse(c, TENON_EUNSUPPORTED, "an input is not a tensor");
  const Value *v = node_known(c->in->g, n);
  if (v) {
    view_value(v, out);
    return TENON_OK;
  }
  out->dtype = t->dtype;
  out->rank = t->rank;
  for (int i = 0; i < t->rank; i++)
    out->shape[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : -1;
  return TENON_OK;
}

tenon_status tenon_op_input(tenon_op_call *c, size_t i, tenon_tensor *out) {
  if (out) *out = (tenon_tensor){.rank = -1};
  if (!c) return TENON_EINVAL;
  if (!out) return refuse(c, TENON_EINVAL, "no place for input %zu", i);
  if (i >= tenon_op_input_count(c))
    return refuse(c, TENON_EINVAL, "input %zu is asked for; there are %zu", i,
                  tenon_op_input_count(c));
  if (c->e) {
    if (c->e->in[i]) view_value(c->e->in[i], out);
    return TENON_OK;
  }
  const Node *n = infer_src(c->in, (int)i);
  if (!n) return TENON_OK;
  Trap t;
  trap_enter(&t, c->d);
  if (setjmp(t.env) == 0) t.status = view_type(c, n, out);
  trap_leave(&t);
  return note(c, t.status);
}

// ---- shape rules ----

static tenon_status check_output(tenon_op_call *c, size_t i, bool shape) {
  if (!c) return TENON_EINVAL;
  if (shape != (c->in != NULL))
    return refuse(c, TENON_EINVAL, "%s",
                  shape ? "types are given by the shape rule only"
                        : "outputs are made by the run callback only");
  if (i >= tenon_op_output_count(c))
    return refuse(c, TENON_EINVAL, "output %zu is given; there are %zu", i,
                  tenon_op_output_count(c));
  return TENON_OK;
}

static tenon_status set_shape(tenon_op_call *c, int i, DType dtype, int rank,
                              const int64_t *shape) {
  Dim dims[MAX_RANK];
  IntPool *pool = &c->in->g->dims;
  if (rank < 0) {
    infer_set_unranked(c->in, i, dtype);
    return TENON_OK;
  }
  for (int k = 0; k < rank; k++)
    dims[k] = shape[k] < 0 ? ie_fresh(pool, "custom") : ie_const(pool, shape[k]);
  return infer_set(c->in, i, dtype, rank, dims);
}

tenon_status tenon_op_shape(tenon_op_call *c, size_t i, tenon_dtype dtype, int32_t rank,
                            const int64_t *shape) {
  TRY(check_output(c, i, true));
  if (dtype != TENON_DTYPE_NONE && !dtype_valid(dtype))
    return refuse(c, TENON_EINVAL, "%d is not a dtype", (int)dtype);
  if (rank < -1 || rank > MAX_RANK || (rank > 0 && !shape))
    return refuse(c, TENON_EINVAL, "rank %d, must be -1 to %d", rank, MAX_RANK);
  Trap t;
  trap_enter(&t, c->d);
  if (setjmp(t.env) == 0) t.status = set_shape(c, (int)i, dtype, rank, shape);
  trap_leave(&t);
  return note(c, t.status);
}

tenon_status tenon_op_shape_like(tenon_op_call *c, size_t i, size_t input) {
  TRY(check_output(c, i, true));
  const Type *t = input < tenon_op_input_count(c) ? infer_type(c->in, (int)input) : NULL;
  if (!t)
    return refuse(c, TENON_EINVAL, "output %zu is to be like input %zu, which is absent", i, input);
  infer_set_type(c->in, (int)i, t);
  return TENON_OK;
}

static tenon_status set_dim(tenon_op_call *c, int i, int axis, Dim d) {
  const Type *out = c->in->type[i];
  Dim dims[MAX_RANK];
  for (int k = 0; k < out->rank; k++) dims[k] = k == axis ? d : out->dims[k];
  return infer_set(c->in, i, out->dtype, out->rank, dims);
}

tenon_status tenon_op_shape_dim(tenon_op_call *c, size_t i, int32_t axis, size_t input,
                                int32_t input_axis) {
  TRY(check_output(c, i, true));
  const Type *out = c->in->type[i];
  const Type *in = input < tenon_op_input_count(c) ? infer_type(c->in, (int)input) : NULL;
  if (out->kind != TK_TENSOR || axis < 0 || axis >= out->rank)
    return refuse(c, TENON_EINVAL, "axis %d of output %zu; give its shape first", axis, i);
  if (!in) return refuse(c, TENON_EINVAL, "there is no input %zu", input);
  if (in->kind == TK_TENSOR && in->rank < 0) return TENON_OK;  // not known: the size stays as given
  if (in->kind != TK_TENSOR || input_axis < 0 || input_axis >= in->rank)
    return refuse(c, TENON_EINVAL, "input %zu has no axis %d", input, input_axis);
  Trap t;
  trap_enter(&t, c->d);
  if (setjmp(t.env) == 0) t.status = set_dim(c, (int)i, axis, in->dims[input_axis]);
  trap_leave(&t);
  return note(c, t.status);
}

// ---- results ----

void *tenon_op_output(tenon_op_call *c, size_t i, tenon_dtype dtype, int32_t rank,
                      const int64_t *shape) {
  if (check_output(c, i, false)) return NULL;
  if (c->e->out[i]) {
    refuse(c, TENON_EINVAL, "output %zu is made twice", i);
    return NULL;
  }
  if (rank > 0 && !shape) {
    refuse(c, TENON_EINVAL, "output %zu has rank %d, but no shape", i, rank);
    return NULL;
  }
  Value *v;
  if (note(c, value_tensor(c->e->run, c->at, dtype, rank, shape, &v))) return NULL;
  c->e->out[i] = v;
  return v->data;
}

// ---- attributes ----

const char *tenon_op_attr_text(const tenon_op_call *c, const char *name, int64_t *size) {
  if (size) *size = 0;
  for (int64_t i = 0; c && name && i < c->attrs->keys.n; i++) {
    if (!str_is(c->attrs->keys.v[i], name)) continue;
    if (size) *size = c->attrs->values.v[i].n;
    return c->attrs->values.v[i].n ? c->attrs->values.v[i].p : "";
  }
  return NULL;
}

// One float as the importer wrote it: it was an f32.
static bool read_float(Str s, double *out) {
  double sign = 1;
  uint64_t bits;
  if (s.n && s.p[0] == '-') {
    sign = -1;
    s = (Str){s.p + 1, s.n - 1};
  }
  if (str_is(s, "inf"))
    *out = sign * (double)__builtin_inff();
  else if (str_is(s, "nan"))
    *out = (double)__builtin_nanf("");
  else if (str_starts(s, "0x") && text_unsigned(s, &bits) && bits <= UINT32_MAX)
    *out = get_f64(DT_F32, &(uint32_t){(uint32_t)bits}, 0);
  else if (text_decimal(s, out))
    *out = sign * (double)(float)*out;
  else
    return false;
  return true;
}

// Calls for each piece between commas; an empty text has none.
static int64_t read_list(const tenon_op_call *c, const char *name, size_t cap, int64_t *ints,
                         double *floats) {
  int64_t size, count = 0;
  const char *p = tenon_op_attr_text(c, name, &size);
  if (!p) return -1;
  for (const char *end = p + size; size > 0 && p <= end; count++) {
    const char *comma = memchr(p, ',', (size_t)(end - p));
    Str piece = {p, (comma ? comma : end) - p};
    int64_t i = 0;
    double f = 0;
    if (floats ? !read_float(piece, &f) : !str_to_i64(piece, &i)) return -1;
    if ((size_t)count < cap && floats) floats[count] = f;
    if ((size_t)count < cap && ints) ints[count] = i;
    p = comma ? comma + 1 : end + 1;
  }
  return count;
}

int64_t tenon_op_attr_ints(const tenon_op_call *c, const char *name, int64_t *out, size_t cap) {
  return read_list(c, name, out ? cap : 0, out, NULL);
}

int64_t tenon_op_attr_floats(const tenon_op_call *c, const char *name, double *out, size_t cap) {
  double none;
  return read_list(c, name, out ? cap : 0, NULL, out ? out : &none);
}

tenon_status tenon_op_fail(tenon_op_call *c, tenon_status status, const char *message) {
  if (!status || !c) return status;
  return refuse(c, status, "%s", message ? message : status_name(status));
}
