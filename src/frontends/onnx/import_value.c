// import_value.c -- tensors and types of an ONNX file as constants and types of the graph.
//
// A tensor whose payload is already in memory form becomes a reference into the file: importing
// never touches weights.  Others (typed fields, sparse tensors) are decoded into the graph's arena.
#include "frontends/onnx/import.h"

static tenon_status check_dims(Import *im, const OnnxTensor *t, Where at, int64_t *count) {
  if (t->dims.n > MAX_RANK)
    return fail(im->g->diag, TENON_EUNSUPPORTED, at, "tensor '%.*s' has rank %lld, the limit is %d",
                STR_ARG(t->name), (long long)t->dims.n, MAX_RANK);
  if (!dtype_valid(t->dtype))
    return fail(im->g->diag, TENON_EFORMAT, at, "tensor '%.*s' has data type %lld, which is none",
                STR_ARG(t->name), (long long)t->dtype);
  if (!shape_count((int)t->dims.n, t->dims.v, count)) {
    StrBuf b;
    strbuf_init(&b, &im->g->scratch);
    for (int64_t i = 0; i < t->dims.n; i++)
      strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)t->dims.v[i]);
    return fail(im->g->diag, TENON_EFORMAT, at,
                "tensor '%.*s' has shape [%s]: a dimension is negative or the product overflows",
                STR_ARG(t->name), strbuf_text(&b));
  }
  return TENON_OK;
}

static tenon_status external_range(Import *im, const OnnxTensor *t, Where at, int64_t need,
                                   int64_t *offset) {
  *offset = t->has_ext_offset ? t->ext_offset : 0;
  int64_t end;
  if (t->ext_unknown_key.n)
    return fail(im->g->diag, TENON_EFORMAT, at,
                "tensor '%.*s': external data has an unknown key '%.*s'", STR_ARG(t->name),
                STR_ARG(t->ext_unknown_key));
  if (*offset < 0 || !ck_add(*offset, need, &end))
    return fail(im->g->diag, TENON_EFORMAT, at,
                "tensor '%.*s': external offset %lld is not possible", STR_ARG(t->name),
                (long long)*offset);
  if (t->has_ext_length && t->ext_length != need)
    return fail(im->g->diag, TENON_EFORMAT, at,
                "tensor '%.*s': external length is %lld bytes, its shape needs %lld",
                STR_ARG(t->name), (long long)t->ext_length, (long long)need);
  return TENON_OK;
}

static Node *import_external(Import *im, const OnnxTensor *t, const char *name, Where at,
                             int64_t count) {
  int64_t need, offset;
  Source *s;
  if (t->dtype == DT_STRING || !dtype_bytes((DType)t->dtype, count, &need))
    return graph_fail(im->g, TENON_EFORMAT, at,
                      "tensor '%.*s': external data of this type or size is not possible",
                      STR_ARG(t->name));
  tenon_status st = external_range(im, t, at, need, &offset);
  if (!st) st = external_open(im->g, im->path, t->ext_location, at, &s);
  if (st) {
    im->g->status = st;
    return im->g->poison;
  }
  return node_const_source(im->g, (DType)t->dtype, (int)t->dims.n, t->dims.v, s, offset, need,
                           name);
}

Node *import_tensor(Import *im, const OnnxTensor *t, Str name, Where at) {
  Graph *g = im->g;
  if (g->status) return g->poison;
  const char *z = name.n ? intern(&g->names, name) : NULL;
  int64_t count = 0, nbytes = 0, n = 0;
  tenon_status st = check_dims(im, t, at, &count);
  Node *given = st ? NULL
                   : weights_attach(g, im->result->attach, t->name, (DType)t->dtype, (int)t->dims.n,
                                    t->dims.v, at);
  if (given) return given;
  if (!st && t->external) return import_external(im, t, z, at, count);
  const void *bytes = NULL;
  bool in_file = false;
  if (!st) st = onnx_tensor_bytes(im->arena, t, at, g->diag, &bytes, &nbytes, &n, &in_file);
  if (st) {
    g->status = st;
    return g->poison;
  }
  const uint8_t *p = bytes;
  if (in_file && n && p >= im->bytes && p - im->bytes <= im->nbytes)
    return node_const_source(g, (DType)t->dtype, (int)t->dims.n, t->dims.v, im->file, p - im->bytes,
                             nbytes, z);
  return node_const(g, (DType)t->dtype, (int)t->dims.n, t->dims.v, bytes, z);
}

// One linear position an element: from [nnz] linear or [nnz, rank] coordinates.
static bool sparse_position(const OnnxSparse *s, const int64_t *index, bool linear, int64_t k,
                            int64_t *out) {
  if (linear) {
    *out = index[k];
    return true;
  }
  int64_t at = 0;
  for (int64_t d = 0; d < s->dims.n; d++) {
    int64_t i = index[k * s->dims.n + d];
    if (i < 0 || i >= s->dims.v[d]) return false;
    at = at * s->dims.v[d] + i;
  }
  *out = at;
  return true;
}

static tenon_status densify(Import *im, const OnnxSparse *s, Where at, int64_t count,
                            int64_t nbytes, void *dense) {
  Graph *g = im->g;
  const void *values, *index;
  int64_t vb, nnz, ib, ni;
  bool in_file;
  (void)nbytes;
  if (s->values.external || s->indices.external)
    return fail(g->diag, TENON_EUNSUPPORTED, at,
                "sparse tensor '%.*s' has external data; store it inline or dense",
                STR_ARG(s->values.name));
  TRY(onnx_tensor_bytes(im->arena, &s->values, at, g->diag, &values, &vb, &nnz, &in_file));
  TRY(onnx_tensor_bytes(im->arena, &s->indices, at, g->diag, &index, &ib, &ni, &in_file));
  bool linear = s->indices.dims.n == 1;
  int64_t need;
  if (s->indices.dtype != DT_I64 || s->indices.dims.n < 1 || s->indices.dims.n > 2 ||
      !ck_mul(nnz, linear ? 1 : s->dims.n, &need) || ni != need)
    return fail(
        g->diag, TENON_EFORMAT, at,
        "sparse tensor '%.*s': %lld values need i64 indices of shape [%lld] or [%lld, %lld]",
        STR_ARG(s->values.name), (long long)nnz, (long long)nnz, (long long)nnz,
        (long long)s->dims.n);
  int64_t *idx = arena_array(&g->scratch, int64_t, ni);
  memcpy(idx, index, (size_t)ni * sizeof *idx);  // the file gives no alignment
  int64_t last = -1;
  for (int64_t k = 0; k < nnz; k++) {
    int64_t pos;
    if (!sparse_position(s, idx, linear, k, &pos) || pos < 0 || pos >= count || pos <= last)
      return fail(g->diag, TENON_EFORMAT, at,
                  "sparse tensor '%.*s': index %lld is out of range, repeated or out of order",
                  STR_ARG(s->values.name), (long long)k);
    last = pos;
    copy_elems((DType)s->values.dtype, dense, pos, values, k, 1);
  }
  return TENON_OK;
}

Node *import_sparse(Import *im, const OnnxSparse *s, Str name, Where at) {
  Graph *g = im->g;
  if (g->status) return g->poison;
  int64_t count, nbytes;
  if (s->dims.n > MAX_RANK || !dtype_valid(s->values.dtype) || s->values.dtype == DT_STRING ||
      !shape_count((int)s->dims.n, s->dims.v, &count) ||
      !dtype_bytes((DType)s->values.dtype, count, &nbytes))
    return graph_fail(g, TENON_EFORMAT, at, "sparse tensor '%.*s' has an impossible shape or type",
                      STR_ARG(name));
  const int64_t most = (int64_t)LIMIT_ONNX_SPARSE_MIB << 20;
  if (nbytes > most - g->expanded_bytes)
    return graph_fail(g, TENON_EUNSUPPORTED, at,
                      "sparse tensor '%.*s' is %lld bytes when dense; the limit for all of a model "
                      "is %d MiB",
                      STR_ARG(name), (long long)nbytes, LIMIT_ONNX_SPARSE_MIB);
  g->expanded_bytes += nbytes;
  void *dense = arena_alloc(im->arena, nbytes + 1);
  tenon_status st = densify(im, s, at, count, nbytes, dense);
  if (st) {
    g->status = st;
    return g->poison;
  }
  return node_const(g, (DType)s->values.dtype, (int)s->dims.n, s->dims.v, dense,
                    name.n ? intern(&g->names, name) : NULL);
}

// Some exporters name every size that they do not know alike.
static bool names_nothing(Str param) {
  return !param.n || str_is(param, "?") || str_is(param, "-1") || str_is(param, "None");
}

enum { MAX_DIM_NAME = LIMIT_DIM_NAME };  // what an expression's symbol may have

static Dim import_dim(Import *im, const OnnxDim *d, Str name, int64_t axis, Where at) {
  Graph *g = im->g;
  // Paddle's exporter, for one, writes -1 for a size that it does not know.
  if (d->has_value && d->value != -1) {
    if (d->value >= 0) return ie_const(&g->dims, d->value);
    graph_fail(g, TENON_EINVAL, at, "value '%.*s': dimension %lld is %lld", STR_ARG(name),
               (long long)axis, (long long)d->value);
    return g->dims.zero;
  }
  if (d->has_param && !names_nothing(d->param)) return ie_sym(&g->dims, d->param, 0, INT64_MAX);
  return ie_sym(&g->dims,
                str_of(str_printf(im->arena, "%.*s.%lld", STR_ARG(name), (long long)axis)), 0,
                INT64_MAX);
}

const Type *import_type(Import *im, const OnnxType *t, Str name, Where at) {
  Graph *g = im->g;
  if (g->status) return type_none(g);
  switch (t->kind) {
  case OT_NONE: return NULL;
  case OT_SPARSE:
    graph_fail(g, TENON_EUNSUPPORTED, at, "value '%.*s' is a sparse tensor; store it dense",
               STR_ARG(name));
    return type_none(g);
  case OT_SEQUENCE:
  case OT_OPTIONAL: {
    const Type *e = t->inner ? import_type(im, t->inner, name, at) : NULL;
    if (!e) e = type_unranked(g, TENON_DTYPE_NONE);
    return t->kind == OT_SEQUENCE ? type_sequence(g, e) : type_optional(g, e);
  }
  case OT_MAP: {
    const Type *e = t->inner ? import_type(im, t->inner, name, at) : NULL;
    return type_map(g, dtype_valid(t->elem) ? (DType)t->elem : TENON_DTYPE_NONE,
                    e ? e : type_unranked(g, TENON_DTYPE_NONE));
  }
  case OT_TENSOR: break;
  }
  if (!dtype_valid(t->elem)) {
    if (t->elem == 0) return NULL;
    graph_fail(g, TENON_EFORMAT, at, "value '%.*s' has data type %lld, which is none",
               STR_ARG(name), (long long)t->elem);
    return type_none(g);
  }
  if (!t->has_shape) return type_unranked(g, (DType)t->elem);
  if (t->ndims > MAX_RANK) {
    graph_fail(g, TENON_EUNSUPPORTED, at, "value '%.*s' has rank %lld, the limit is %d",
               STR_ARG(name), (long long)t->ndims, MAX_RANK);
    return type_none(g);
  }
  Dim dims[MAX_RANK];
  for (int64_t i = 0; i < t->ndims; i++) dims[i] = import_dim(im, &t->dims[i], name, i, at);
  return type_tensor(g, (DType)t->elem, (int)t->ndims, dims);
}
