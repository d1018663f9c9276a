// tensors.c -- values from and to array files and ONNX test data.
#include "cli/tensors.h"

tenon_status value_of_array(Run *r, const NdArray *v, Value **out) {
  return value_borrow(r, v->dtype, v->rank, v->dims, v->data, out);
}

tenon_status array_of_value(const Value *v, const char *name, Diag *d, NdArray *out) {
  *out = (NdArray){.name = str_of(name)};
  if (v->kind != VK_TENSOR)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "output '%s' is %s, which an array file cannot hold", name,
                v->kind == VK_SEQUENCE ? "a sequence"
                : v->kind == VK_MAP    ? "a map"
                                       : "an optional");
  out->dtype = v->dtype;
  out->rank = v->rank;
  memcpy(out->dims, v->dims, (size_t)v->rank * sizeof *v->dims);
  out->data = v->data;
  out->n = v->n;
  if (!dtype_bytes(v->dtype, v->n, &out->bytes))
    return fail(d, TENON_EINVAL, NOWHERE, "output '%s' is too large", name);
  return TENON_OK;
}

// ---- ONNX test data ----
static tenon_status tensor_value(Run *r, Arena *a, const OnnxTensor *t, Value **out) {
  const void *bytes;
  int64_t nbytes, n;
  bool in_file;
  Where at = {0};
  if (t->dims.n > MAX_RANK || !dtype_valid(t->dtype))
    return fail(r->diag, TENON_EFORMAT, at, "a tensor of rank %lld and data type %lld",
                (long long)t->dims.n, (long long)t->dtype);
  if (t->external) return fail(r->diag, TENON_EUNSUPPORTED, at, "test data in an external file");
  TRY(onnx_tensor_bytes(a, t, at, r->diag, &bytes, &nbytes, &n, &in_file));
  // Data inside a file has no alignment.
  if (t->dtype != DT_STRING) bytes = arena_dup(a, bytes, nbytes);
  return value_borrow(r, (DType)t->dtype, (int)t->dims.n, t->dims.v, bytes, out);
}

static tenon_status sequence_value(Run *r, Arena *a, const OnnxSequence *s, const Type *type,
                                   Value **out);

static tenon_status optional_value(Run *r, Arena *a, const OnnxSequence *s, const Type *type,
                                   Value **out) {
  Value *item = NULL;
  const Type *elem = type && type->kind == TK_OPTIONAL ? type->elem : NULL;
  if (s->elem == OT_TENSOR && s->tensors.n == 1)
    TRY(tensor_value(r, a, &s->tensors.v[0], &item));
  else if (s->elem == OT_SEQUENCE && s->sequences.n == 1)
    TRY(sequence_value(r, a, &s->sequences.v[0], elem, &item));
  else if (s->elem == OT_OPTIONAL && s->sequences.n == 1)
    TRY(optional_value(r, a, &s->sequences.v[0], elem, &item));
  DType dtype = elem && elem->kind == TK_TENSOR ? elem->dtype : TENON_DTYPE_NONE;
  if (item && item->kind == VK_TENSOR) dtype = item->dtype;
  return value_optional(r, dtype, item, out);
}

static tenon_status sequence_value(Run *r, Arena *a, const OnnxSequence *s, const Type *type,
                                   Value **out) {
  const Type *elem = type && type->kind == TK_SEQUENCE ? type->elem : NULL;
  bool tensors = s->elem == OT_TENSOR || s->tensors.n;
  int64_t n = tensors ? s->tensors.n : s->sequences.n;
  DType dtype = elem && elem->kind == TK_TENSOR ? elem->dtype : TENON_DTYPE_NONE;
  if (tensors && n) dtype = (DType)s->tensors.v[0].dtype;
  TRY(value_sequence(r, dtype, n, out));
  for (int64_t i = 0; i < n; i++) {
    if (tensors)
      TRY(tensor_value(r, a, &s->tensors.v[i], &(*out)->items[i]));
    else if (s->elem == OT_OPTIONAL)
      TRY(optional_value(r, a, &s->sequences.v[i], elem, &(*out)->items[i]));
    else
      TRY(sequence_value(r, a, &s->sequences.v[i], elem, &(*out)->items[i]));
  }
  return TENON_OK;
}

tenon_status value_of_pb(Run *r, Arena *a, OnnxTypeKind kind, const Type *type, Str bytes,
                         Value **out) {
  *out = NULL;
  OnnxSequence s;
  OnnxTensor t;
  switch (kind) {
  case OT_NONE:
  case OT_TENSOR: TRY(onnx_read_tensor(a, bytes, r->diag, &t)); return tensor_value(r, a, &t, out);
  case OT_SEQUENCE:
    TRY(onnx_read_sequence(a, bytes, r->diag, &s));
    return sequence_value(r, a, &s, type, out);
  case OT_OPTIONAL:
    TRY(onnx_read_optional(a, bytes, r->diag, &s));
    return optional_value(r, a, &s, type, out);
  case OT_MAP:
  case OT_SPARSE: break;
  }
  return fail(r->diag, TENON_EUNSUPPORTED, NOWHERE, "test data of a map or a sparse tensor");
}

// ---- text ----
const char *type_text(Arena *a, const Type *t) {
  StrBuf b;
  strbuf_init(&b, a);
  type_print(&b, t);
  return strbuf_text(&b);
}

static void put_value_type(StrBuf *b, const Value *v) {
  if (v->kind == VK_TENSOR) {
    strbuf_printf(b, "%s[", dtype_name(v->dtype));
    for (int i = 0; i < v->rank; i++)
      strbuf_printf(b, i ? ", %lld" : "%lld", (long long)v->dims[i]);
    strbuf_putc(b, ']');
    return;
  }
  static const char *const names[] = {"", "seq(", "opt(", "map("};
  strbuf_puts(b, names[v->kind]);
  for (int64_t i = 0; i < v->nitems; i++) {
    if (i) strbuf_puts(b, ", ");
    if (i == 4) {
      strbuf_printf(b, "... %lld in all", (long long)v->nitems);
      break;
    }
    if (v->items[i]) put_value_type(b, v->items[i]);
  }
  strbuf_putc(b, ')');
}
const char *value_text(Arena *a, const Value *v) {
  StrBuf b;
  strbuf_init(&b, a);
  put_value_type(&b, v);
  return strbuf_text(&b);
}
