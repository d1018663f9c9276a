// dims.c -- evaluates expressions over the operands' sizes.
//
// Guarantees: reads no element; a size that is not there, a division by 0 and an overflow are
//             errors.
#include "eval/dims.h"

int64_t dims_parse(IntPool *p, Str sizes, Dim *out) {
  const char *at = sizes.p, *end = sizes.p + sizes.n;
  int64_t n = 0;
  while (at < end) {
    while (at < end && (*at == ' ' || *at == ',')) at++;
    if (at >= end) break;
    Dim d = n < DIMS_MAX ? ie_parse(p, &at, end) : NULL;
    while (at < end && *at == ' ') at++;
    if (!d || ie_is_poison(d) || (at < end && *at != ',')) return -1;
    out[n++] = d;
  }
  return n;
}

static bool digits(const char **at, const char *end, int64_t *out) {
  const char *start = *at;
  while (*at < end && **at >= '0' && **at <= '9') ++*at;
  return *at > start && str_to_i64((Str){start, *at - start}, out);
}

bool dims_symbol(Dim sym, int64_t *out_operand, int64_t *out_axis) {
  const char *at = sym->name, *end = at + sym->value;
  if (at >= end || *at++ != 'x' || !digits(&at, end, out_operand)) return false;
  return at < end && *at++ == '_' && digits(&at, end, out_axis) && at == end;
}

// What each symbol of the pool stands for.
static tenon_status bind_sizes(Eval *e, const IntPool *p, int64_t *bind, bool *bound) {
  for (int32_t i = 0; i < p->nsyms; i++) {
    int64_t k, axis;
    if (!dims_symbol(p->sym.v[i], &k, &axis) || k >= e->nin || !e->in[k] ||
        e->in[k]->kind != VK_TENSOR || axis >= e->in[k]->rank)
      return eval_fail(e, TENON_EINVAL, "there is no size '%.*s'", (int)p->sym.v[i]->value,
                       p->sym.v[i]->name);
    bind[i] = e->in[k]->dims[axis];
    bound[i] = true;
  }
  return TENON_OK;
}

tenon_status eval_dims(Eval *e) {
  const dims_attrs *at = e->attrs;
  Arena *a = &e->run->scratch;
  IntPool *p = arena_new(a, IntPool);
  Dim *size = arena_array(a, Dim, DIMS_MAX);
  intpool_init(p, a);
  int64_t n = dims_parse(p, at->sizes, size);
  if (n < 0 || (at->scalar && n != 1))
    return eval_fail(e, TENON_EINVAL, "malformed sizes '%.*s'", STR_ARG(at->sizes));
  int64_t *bind = arena_array(a, int64_t, p->nsyms);
  bool *bound = arena_array(a, bool, p->nsyms);
  TRY(bind_sizes(e, p, bind, bound));
  Value *y;
  TRY(eval_out(e, 0, DT_I64, at->scalar ? 0 : 1, &n, &y));
  for (int64_t i = 0; i < n; i++)
    if (!ie_eval(size[i], bind, bound, p->nsyms, &((int64_t *)y->data)[i]))
      return eval_fail(e, TENON_EINVAL, "size %lld cannot be computed", (long long)i);
  return TENON_OK;
}
