// tensors.c -- the public interface: tensors on their way into a run and out of it.
//
// Inputs are borrowed in place, and copied only if their address is not a multiple of the element's
// size.  Outputs that a run did not compute in the caller's buffer are copied out once it is over
// and every buffer has been found large enough, so that a failure leaves the caller's tensors as
// they were.
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
  if (!dtype_valid(dtype) || rank < 0 || rank > MAX_RANK || (rank && !shape)) return -1;
  return shape_count(rank, shape, &n) && dtype_bytes(dtype, n, &bytes) ? bytes : -1;
}

void tenon_tensor_release(tenon_tensor *t) {
  if (!t) return;
  if (t->owner) mem_free(t->owner, ((Block *)t->owner)->bytes);
  *t = (tenon_tensor){0};
}

static tenon_status allocate(tenon_tensor *t, int64_t bytes, Diag *d) {
  int64_t n;
  Block *b = bytes < 0 || !ck_add(bytes, (int64_t)sizeof(*b), &n) ? NULL : mem_alloc(n);
  if (!b) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory (%lld bytes)", (long long)bytes);
  b->bytes = n;
  t->owner = b;
  t->data = b + 1;
  t->bytes = bytes;
  return TENON_OK;
}

static tenon_status make_tensor(tenon_tensor *t, Diag *d) {
  return allocate(t, tenon_tensor_size(t->dtype, t->rank, t->shape), d);
}

tenon_status api_make_tensor(const tenon_value_info *v, Diag *d, tenon_tensor *out) {
  *out = (tenon_tensor){.dtype = v->dtype, .rank = v->rank};
  memcpy(out->shape, v->shape, sizeof(out->shape));
  tenon_status s = make_tensor(out, d);
  if (s) *out = (tenon_tensor){0};
  return s;
}

tenon_status api_copy_tensor(const tenon_tensor *from, Diag *d, tenon_tensor *out) {
  tenon_tensor copy = *from;
  copy.owner = NULL;
  TRY(make_tensor(&copy, d));
  if (copy.bytes) memcpy(copy.data, from->data, (size_t)copy.bytes);
  *out = copy;
  return TENON_OK;
}

// ---- inputs ----

static tenon_status not_a_tensor(Diag *d, const char *what, const tenon_value_info *v) {
  return fail(d, TENON_EUNSUPPORTED, (Where){.node = v->name, .op = what},
              "%s is not a tensor: run with values (tenon_run_values, tenon_session_run_values)",
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

static tenon_status check_tensor(const tenon_tensor *t, Where at, Diag *d) {
  if (!dtype_valid(t->dtype)) return fail(d, TENON_EINVAL, at, "%d is not a dtype", (int)t->dtype);
  if (t->rank < 0 || t->rank > MAX_RANK)
    return fail(d, TENON_EINVAL, at, "rank %d, must be 0 to %d", t->rank, MAX_RANK);
  int64_t bytes = tenon_tensor_size(t->dtype, t->rank, t->shape);
  if (bytes < 0)
    return fail(d, TENON_EINVAL, at, "shape %s has a negative size or is too large",
                shape_text(t->rank, t->shape).s);
  if (t->bytes < 0 || (t->bytes > 0 && t->bytes < bytes))
    return fail(d, TENON_EINVAL, at, "%s%s takes %lld bytes, the buffer has %lld",
                dtype_name(t->dtype), shape_text(t->rank, t->shape).s, (long long)bytes,
                (long long)t->bytes);
  if (bytes > 0 && !t->data) return fail(d, TENON_EINVAL, at, "the tensor has no data");
  return TENON_OK;
}

tenon_status api_check_input(const RunCall *c, size_t i) {
  return check_tensor(&c->in[i], (Where){.node = c->input[i].name, .op = "input"}, c->d);
}

// ---- whose memory ----

tenon_status api_need_host(const tenon_tensor *t, Where at, Diag *d) {
  if (t->memory == TENON_MEMORY_HOST) return TENON_OK;
  return fail(d, TENON_EUNSUPPORTED, at,
              "it lies in a device's memory; only inputs and outputs of a session's runs may");
}

static tenon_status find_home(const tenon_tensor *t, const tenon_value_info *v, const char *what,
                              Diag *d, TensorHome *out) {
  static const char *const driver[] = {[TENON_MEMORY_CUDA] = "cuda"};
  Where at = {.node = v->name, .op = what};
  if (t->memory == TENON_MEMORY_HOST) return TENON_OK;
  if ((size_t)t->memory >= ARRAY_LEN(driver) || !driver[t->memory] || t->device < 0)
    return fail(d, TENON_EINVAL, at, "there is no memory %d of device %d", (int)t->memory,
                (int)t->device);
  if (v->dtype == TENON_DTYPE_STRING)
    return fail(d, TENON_EINVAL, at, "strings lie in the host's memory");
  *out = (TensorHome){driver[t->memory], t->device};
  return TENON_OK;
}

tenon_status api_find_homes(RunCall *c) {
  bool any = false;
  for (size_t i = 0; i < c->nin; i++) any |= c->in[i].memory != TENON_MEMORY_HOST;
  for (size_t i = 0; i < c->nout; i++)
    any |= c->out[i].memory != TENON_MEMORY_HOST && run_wants(c->run, (int64_t)i);
  if (!any) return TENON_OK;
  c->in_home = arena_array(&c->run->scratch, TensorHome, (int64_t)MAX(c->nin, 1));
  c->out_home = arena_array(&c->run->scratch, TensorHome, (int64_t)MAX(c->nout, 1));
  for (size_t i = 0; i < c->nin; i++)
    TRY(find_home(&c->in[i], &c->input[i], "input", c->d, &c->in_home[i]));
  for (size_t i = 0; i < c->nout; i++)
    if (run_wants(c->run, (int64_t)i))
      TRY(find_home(&c->out[i], &c->output[i], "output", c->d, &c->out_home[i]));
  return TENON_OK;
}

static tenon_status take_input(const RunCall *c, size_t i, Value **out) {
  static const int64_t nothing[2];  // an address for a tensor without elements
  TRY(api_check_input(c, i));
  const tenon_tensor *t = &c->in[i];
  Where at = {.node = c->input[i].name, .op = "input"};
  if (c->in_home && c->in_home[i].driver)
    return value_borrow(c->run, t->dtype, t->rank, t->shape, t->data, out);
  TRY(api_need_host(t, at, c->d));
  int64_t bytes = tenon_tensor_size(t->dtype, t->rank, t->shape);
  const void *data = bytes ? t->data : nothing;
  if ((uintptr_t)data % (uintptr_t)alignment(t->dtype) == 0) {
    TRY(value_borrow(c->run, t->dtype, t->rank, t->shape, data, out));
  } else {
    TRY(value_tensor(c->run, at, t->dtype, t->rank, t->shape, out));
    memcpy((*out)->data, data, (size_t)bytes);
  }
  return t->dtype == DT_STRING ? check_strings(c->d, at, (*out)->data, (*out)->n) : TENON_OK;
}

tenon_status api_take_inputs(const RunCall *c, Value **out) {
  for (size_t i = 0; i < c->nin; i++) TRY(take_input(c, i, &out[i]));
  return TENON_OK;
}

// ---- outputs ----

// Bytes of a tensor as the caller gets it: strings with their text behind the array.
static tenon_status tensor_bytes(const Value *v, Where at, Diag *d, int64_t *out) {
  bool ok = dtype_bytes(v->dtype, v->n, out);
  for (int64_t k = 0; ok && v->dtype == DT_STRING && k < v->n; k++)
    ok = ck_add(*out, val_str(v, k).n, out);
  if (ok && *out <= INT64_MAX - (int64_t)sizeof(Block)) return TENON_OK;
  return fail(d, TENON_ENOMEM, at, "%s is too large", shape_text(v->rank, v->dims).s);
}

static tenon_status output_bytes(const RunCall *c, size_t i, const Value *v, int64_t *out) {
  Where at = {.node = c->output[i].name, .op = "output"};
  *out = 0;
  if (!v || v->kind != VK_TENSOR) return not_a_tensor(c->d, "output", &c->output[i]);
  TRY(tensor_bytes(v, at, c->d, out));
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
  else if (bytes && v->data != t->data && t->memory == TENON_MEMORY_HOST)
    memcpy(t->data, v->data, (size_t)bytes);
  t->dtype = v->dtype;
  t->rank = v->rank;
  memset(t->shape, 0, sizeof(t->shape));
  if (v->rank) memcpy(t->shape, v->dims, (size_t)v->rank * sizeof(*t->shape));
}

tenon_status api_tensor_of(const Value *v, Where at, Diag *d, tenon_tensor *out) {
  int64_t bytes;
  *out = (tenon_tensor){0};
  TRY(tensor_bytes(v, at, d, &bytes));
  TRY(allocate(out, bytes, d));
  write_output(v, bytes, out);
  return TENON_OK;
}

tenon_status api_copy_input(const tenon_tensor *t, Where at, Diag *d, tenon_tensor *out) {
  *out = (tenon_tensor){0};
  TRY(check_tensor(t, at, d));
  TRY(api_need_host(t, at, d));
  int64_t n;
  CHECK(shape_count(t->rank, t->shape, &n), "checked above");
  Value v = {.kind = VK_TENSOR, .dtype = t->dtype, .rank = t->rank, .n = n, .data = t->data};
  memcpy(v.dims, t->shape, sizeof(v.dims));
  if (t->dtype == DT_STRING) {
    if ((uintptr_t)t->data % _Alignof(Str))
      return fail(d, TENON_EINVAL, at, "an array of strings must be aligned");
    TRY(check_strings(d, at, t->data, n));
  }
  return api_tensor_of(&v, at, d, out);
}

static int64_t capacity(const tenon_tensor *spare) {
  const Block *b = spare->owner;
  return b ? b->bytes - (int64_t)sizeof(*b) : -1;
}

// What has no elements has no memory, of a device's.
static bool is_given(const tenon_tensor *t) { return t->data || t->memory != TENON_MEMORY_HOST; }

// Allocates what the caller left to us and no spare memory is enough for; all or nothing.
static tenon_status make_outputs(const RunCall *c, const int64_t *bytes, Block **made) {
  for (size_t i = 0; i < c->nout; i++) {
    if (!run_wants(c->run, (int64_t)i)) continue;
    if (is_given(&c->out[i]) || (c->spare && capacity(&c->spare[i]) >= bytes[i])) continue;
    int64_t n = bytes[i] + (int64_t)sizeof(Block);
    made[i] = mem_alloc(n);
    if (made[i]) {
      made[i]->bytes = n;
      continue;
    }
    for (size_t k = 0; k < i; k++)
      if (made[k]) mem_free(made[k], made[k]->bytes);
    return fail(c->d, TENON_ENOMEM, (Where){.node = c->output[i].name, .op = "output"},
                "out of memory (%lld bytes)", (long long)n);
  }
  return TENON_OK;
}

bool api_room(const RunCall *c, size_t i, ResultRoom *out) {
  if (!run_wants(c->run, (int64_t)i)) return false;
  if (is_given(&c->out[i])) {
    *out = (ResultRoom){c->out[i].data, c->out[i].bytes};
    return true;
  }
  if (!c->spare || !c->spare[i].owner) return false;
  *out = (ResultRoom){(Block *)c->spare[i].owner + 1, capacity(&c->spare[i])};
  return true;
}

tenon_status api_give_outputs(const RunCall *c, Value *const *v) {
  int64_t *bytes = arena_array(&c->run->scratch, int64_t, (int64_t)c->nout);
  Block **made = arena_array(&c->run->scratch, Block *, (int64_t)c->nout);
  for (size_t i = 0; i < c->nout; i++)
    if (run_wants(c->run, (int64_t)i)) TRY(output_bytes(c, i, v[i], &bytes[i]));
  TRY(make_outputs(c, bytes, made));
  for (size_t i = 0; i < c->nout; i++) {
    if (!run_wants(c->run, (int64_t)i)) continue;
    tenon_tensor *t = &c->out[i];
    Block *block = made[i];
    if (!is_given(t) && !block) {
      block = c->spare[i].owner;
      c->spare[i] = (tenon_tensor){0};
    }
    if (block) {
      t->owner = block;
      t->data = block + 1;
      t->bytes = bytes[i];
    }
    write_output(v[i], bytes[i], t);
  }
  return TENON_OK;
}

// ---- a run ----

tenon_status api_check_counts(const RunCall *c) {
  if (c->nin != c->want_in)
    return fail(c->d, TENON_EINVAL, NOWHERE, "the model takes %zu inputs, %zu are given",
                c->want_in, c->nin);
  if (c->nout != c->want_out)
    return fail(c->d, TENON_EINVAL, NOWHERE, "the model gives %zu outputs, there is room for %zu",
                c->want_out, c->nout);
  if ((c->nin && !c->in) || (c->nout && !c->out))
    return fail(c->d, TENON_EINVAL, NOWHERE, "no array of tensors is given");
  for (size_t i = 0; i < c->nin; i++)
    if (c->input[i].kind != TENON_KIND_TENSOR) return not_a_tensor(c->d, "input", &c->input[i]);
  for (size_t i = 0; i < c->nout; i++)
    if (c->output[i].kind != TENON_KIND_TENSOR && run_wants(c->run, (int64_t)i))
      return not_a_tensor(c->d, "output", &c->output[i]);
  return TENON_OK;
}

tenon_status api_check_limits(const tenon_run_options *o, Diag *d) {
  if (o->memory_limit >= 0 && o->max_iterations >= 0 && o->max_operations >= 0) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "memory_limit, max_iterations and max_operations must not be negative");
}

tenon_status api_take_wanted(const tenon_run_options *o, size_t noutputs, Run *r) {
  if (!o->wanted) return TENON_OK;
  bool *wanted = arena_array(&r->scratch, bool, (int64_t)MAX(noutputs, 1));
  for (size_t i = 0; i < o->nwanted; i++) {
    if (o->wanted[i] >= noutputs)
      return fail(r->diag, TENON_EINVAL, NOWHERE,
                  "output %zu is wanted, but the model has %zu outputs", o->wanted[i], noutputs);
    wanted[o->wanted[i]] = true;
  }
  r->wanted = wanted;
  return TENON_OK;
}

void api_limit_run(Run *r, const tenon_run_options *o, int64_t memory_limit) {
  r->seed = o->seed;
  r->max_bytes = o->memory_limit > 0 ? o->memory_limit : memory_limit;
  if (o->max_iterations > 0) r->budget = o->max_iterations;
  if (o->max_operations > 0) r->ops_budget = o->max_operations;
}
