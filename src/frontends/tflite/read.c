// read.c -- TensorFlow Lite files: from bytes to structs (tflite.h).
//
// Buffers stay where they are in the file: inside the FlatBuffer, or, in files of more than 2 GiB,
// behind it.
#include "frontends/tflite/tflite.h"

enum { LONGEST_NAME = 1000 };

bool tfl_dtype(int64_t type, DType *out) {
  static const uint8_t of[] = {DT_F32,  DT_F16, DT_I32, DT_U8,     DT_I64,   DT_STRING,
                               DT_BOOL, DT_I16, DT_C64, DT_I8,     DT_F64,   DT_C128,
                               DT_U64,  0,      0,      DT_U32,    DT_U16,   DT_I4,
                               DT_BF16, DT_I2,  DT_U4,  DT_F8E4M3, DT_F8E5M2};
  *out = type >= 0 && type < ARRAY_LEN(of) ? (DType)of[type] : 0;
  return *out != 0;
}

static const char *name_of(Imported *in, Str s, const char *what, int64_t i) {
  if (!s.n) return str_printf(&in->graph->arena, "%s_%lld", what, (long long)i);
  s.n = MIN(s.n, LONGEST_NAME);
  return intern(&in->graph->names, s);
}

// ---- buffers ----

static tenon_status read_buffers(Imported *in, TflModel *m) {
  FbVector v = fb_vector(&m->root, 4, 4);
  m->nbuffers = v.n;
  m->buffer = arena_array(&in->graph->arena, Str, v.n + 1);
  for (int64_t i = 0; i < v.n; i++) {
    FbTable t = fb_table_at(&v, i);
    FbVector data = fb_vector(&t, 0, 1);
    int64_t offset = fb_i64(&t, 1, 0), size = fb_i64(&t, 2, 0);
    TRY(m->fb.status);
    if (data.n) m->buffer[i] = (Str){(const char *)m->fb.p + data.at, data.n};
    // 0 and 1 are placeholders: the data are behind the FlatBuffer only from its header on.
    if (data.n || offset <= 1) {
      if (offset < 0)
        return fb_fail(&m->fb, t.at, "buffer %lld has a negative offset", (long long)i);
      continue;
    }
    if (size < 0 || offset > m->fb.n || size > m->fb.n - offset)
      return fb_fail(&m->fb, t.at, "buffer %lld: %lld bytes at %lld of a file of %lld",
                     (long long)i, (long long)size, (long long)offset, (long long)m->fb.n);
    if (size) m->buffer[i] = (Str){(const char *)m->fb.p + offset, size};
  }
  return m->fb.status;
}

// ---- tensors ----

static tenon_status read_shape(TflModel *m, const FbTable *t, TflTensor *out) {
  FbVector shape = fb_vector(t, 0, 4), signature = fb_vector(t, 7, 4);
  TRY(m->fb.status);
  if (shape.n > MAX_RANK)
    return fb_fail(&m->fb, t->at, "tensor '%s' has rank %lld; at most %d are supported", out->name,
                   (long long)shape.n, MAX_RANK);
  out->rank = (int)shape.n;
  if (signature.n && signature.n != shape.n)
    return fb_fail(&m->fb, t->at, "tensor '%s' has rank %lld and %lld in its shape_signature",
                   out->name, (long long)shape.n, (long long)signature.n);
  for (int i = 0; i < out->rank; i++) {
    int64_t size = fb_i32_at(&shape, i), open = signature.n ? fb_i32_at(&signature, i) : size;
    if (size == -1 && (!signature.n || open == -1)) size = open = -1;  // older converters
    if ((size < 0 && open != -1) || size < -1 || open < -1 || (open != -1 && open != size))
      return fb_fail(&m->fb, t->at,
                     "tensor '%s': axis %d has size %lld, %lld in its shape_signature", out->name,
                     i, (long long)size, (long long)open);
    out->dims[i] = MAX(size, 1);
    if (size >= 0) out->dims[i] = size;
    out->open[i] = open == -1;
  }
  if (!shape_count(out->rank, out->dims, &out->n))
    return fb_fail(&m->fb, t->at, "tensor '%s' has too many elements", out->name);
  return TENON_OK;
}

static tenon_status read_quantization(TflModel *m, const FbTable *t, TflTensor *out) {
  FbTable q = fb_table(t, 4);
  out->scale = fb_vector(&q, 2, 4);
  out->zero = fb_vector(&q, 3, 8);
  out->custom_quant = fb_u8(&q, 4, 0) != 0;
  int64_t axis = fb_i32(&q, 6, 0);
  TRY(m->fb.status);
  if (axis < 0) axis += out->rank;
  if (out->rank == 1) axis = 0;  // a bias often has the number of the axis that its weights have
  out->qaxis = (int)axis;
  if (out->zero.n && out->scale.n && out->zero.n != out->scale.n)
    return fb_fail(&m->fb, q.at, "tensor '%s' has %lld scales and %lld zero points", out->name,
                   (long long)out->scale.n, (long long)out->zero.n);
  if (out->scale.n <= 1) return TENON_OK;
  if (axis < 0 || axis >= out->rank || out->scale.n != out->dims[axis])
    return fb_fail(&m->fb, q.at, "tensor '%s' has %lld scales along axis %lld of %s", out->name,
                   (long long)out->scale.n, (long long)axis, shape_text(out->rank, out->dims).s);
  return TENON_OK;
}

static tenon_status read_data(TflModel *m, const FbTable *t, TflTensor *out) {
  int64_t buffer = fb_u32(t, 2, 0), bytes;
  TRY(m->fb.status);
  if (buffer >= m->nbuffers && (buffer || m->nbuffers))
    return fb_fail(&m->fb, t->at, "tensor '%s' has buffer %lld of %lld", out->name,
                   (long long)buffer, (long long)m->nbuffers);
  if (fb_u32(t, 10, 0))
    return fail(m->fb.diag, TENON_EUNSUPPORTED, (Where){.node = out->name},
                "its data are in another file (external_buffer)");
  if (!buffer || !m->buffer[buffer].n) return TENON_OK;
  out->data = m->buffer[buffer];
  if (out->dtype == DT_STRING || !out->dtype || fb_has(&out->sparsity)) return TENON_OK;
  if (!dtype_bytes(out->dtype, out->n, &bytes) || bytes != out->data.n)
    return fb_fail(&m->fb, t->at, "tensor '%s', %s%s, has %lld bytes of data", out->name,
                   dtype_name(out->dtype), shape_text(out->rank, out->dims).s,
                   (long long)out->data.n);
  return TENON_OK;
}

static tenon_status read_tensor(Imported *in, TflModel *m, int64_t i, const FbTable *t,
                                TflTensor *out) {
  out->name = name_of(in, fb_str(t, 3), "tensor", i);
  out->type = (int)fb_i8(t, 1, 0);
  out->variable = fb_u8(t, 5, 0) != 0;
  out->sparsity = fb_table(t, 6);
  TRY(m->fb.status);
  if (!tfl_dtype(out->type, &out->dtype) && out->type != TFL_RESOURCE && out->type != TFL_VARIANT)
    return fb_fail(&m->fb, t->at, "tensor '%s' has type %d, which is not known", out->name,
                   out->type);
  TRY(read_shape(m, t, out));
  TRY(read_quantization(m, t, out));
  return read_data(m, t, out);
}

// ---- operators ----

static tenon_status check_indices(TflModel *m, const FbVector *v, int64_t n, bool optional,
                                  const char *what) {
  TRY(m->fb.status);
  for (int64_t i = 0; i < v->n; i++) {
    int64_t k = fb_i32_at(v, i);
    if (k >= n || k < (optional ? -1 : 0))
      return fb_fail(&m->fb, v->at + 4 * i, "%s refers to tensor %lld of %lld", what, (long long)k,
                     (long long)n);
  }
  return TENON_OK;
}

static tenon_status read_operator(TflModel *m, const TflSubgraph *s, const FbTable *t,
                                  TflOperator *out) {
  out->code = fb_u32(t, 0, 0);
  out->in = fb_vector(t, 1, 4);
  out->out = fb_vector(t, 2, 4);
  out->options = fb_table(t, 4);
  out->options2 = fb_table(t, 12);
  out->intermediates = fb_vector(t, 8, 4);
  out->table = *t;
  TRY(m->fb.status);
  if (out->code >= m->ncodes)
    return fb_fail(&m->fb, t->at, "an operator has operator code %lld of %lld",
                   (long long)out->code, (long long)m->ncodes);
  TRY(check_indices(m, &out->in, s->ntensors, true, "an operator's input"));
  TRY(check_indices(m, &out->out, s->ntensors, false, "an operator's output"));
  return check_indices(m, &out->intermediates, s->ntensors, true, "an operator's intermediate");
}

static tenon_status read_codes(Imported *in, TflModel *m) {
  FbVector v = fb_vector(&m->root, 1, 4);
  m->ncodes = v.n;
  m->code = arena_array(&in->graph->arena, TflCode, v.n + 1);
  for (int64_t i = 0; i < v.n; i++) {
    FbTable t = fb_table_at(&v, i);
    // Codes beyond 127 are in a field of their own; older writers know the first one alone.
    int64_t old = fb_i8(&t, 0, 0), builtin = fb_i32(&t, 3, 0);
    m->code[i] = (TflCode){MAX(old, builtin), fb_i32(&t, 2, 1), fb_str(&t, 1)};
  }
  return m->fb.status;
}

// ---- sub-graphs ----

static tenon_status read_subgraph(Imported *in, TflModel *m, int64_t k, const FbTable *t,
                                  TflSubgraph *s) {
  Arena *a = &in->graph->arena;
  FbVector tensors = fb_vector(t, 0, 4), ops = fb_vector(t, 3, 4);
  s->name = name_of(in, fb_str(t, 4), "subgraph", k);
  s->in = fb_vector(t, 1, 4);
  s->out = fb_vector(t, 2, 4);
  TRY(m->fb.status);
  s->ntensors = tensors.n;
  s->tensor = arena_array(a, TflTensor, tensors.n + 1);
  for (int64_t i = 0; i < tensors.n; i++) {
    FbTable one = fb_table_at(&tensors, i);
    TRY(read_tensor(in, m, i, &one, &s->tensor[i]));
  }
  TRY(check_indices(m, &s->in, s->ntensors, false, "a sub-graph's input"));
  TRY(check_indices(m, &s->out, s->ntensors, false, "a sub-graph's output"));
  s->nops = ops.n;
  s->op = arena_array(a, TflOperator, ops.n + 1);
  for (int64_t i = 0; i < ops.n; i++) {
    FbTable one = fb_table_at(&ops, i);
    TRY(m->fb.status);
    TRY(read_operator(m, s, &one, &s->op[i]));
  }
  return m->fb.status;
}

tenon_status tfl_read(Imported *in, Diag *d, TflModel *m) {
  *m = (TflModel){.fb = {(const uint8_t *)in->bytes.p, in->bytes.n, d, TENON_OK}};
  m->root = fb_root(&m->fb);
  int64_t version = fb_u32(&m->root, 0, 0);
  TRY(m->fb.status);
  if (version != 3)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "schema version %lld; version 3 is read",
                (long long)version);
  TRY(read_codes(in, m));
  TRY(read_buffers(in, m));
  FbVector subs = fb_vector(&m->root, 2, 4);
  TRY(m->fb.status);
  m->nsubs = subs.n;
  m->sub = arena_array(&in->graph->arena, TflSubgraph, subs.n + 1);
  for (int64_t i = 0; i < subs.n; i++) {
    FbTable t = fb_table_at(&subs, i);
    TRY(m->fb.status);
    TRY(read_subgraph(in, m, i, &t, &m->sub[i]));
  }
  if (!m->nsubs) return fb_fail(&m->fb, m->root.at, "the model has no sub-graph");
  return m->fb.status;
}

// ---- signatures ----

tenon_status tfl_find_signature(Imported *in, const TflModel *m, Diag *d, TflSignature *out) {
  enum { MOST = 64 };
  const char *names[MOST];
  int64_t n = 0;
  *out = (TflSignature){0};
  if (!in->signature) return TENON_OK;
  FbVector all = fb_vector(&m->root, 7, 4);
  for (int64_t i = 0; i < all.n && !m->fb.status; i++) {
    FbTable t = fb_table_at(&all, i);
    Str key = fb_str(&t, 2);
    if (n < MOST) names[n++] = str_copy(&in->graph->arena, key);
    if (!str_is(key, in->signature)) continue;
    *out = (TflSignature){{fb_vector(&t, 0, 4), fb_vector(&t, 1, 4)}, fb_u32(&t, 4, 0)};
    TRY(m->fb.status);
    if (out->sub < m->nsubs) return TENON_OK;
    return fail(d, TENON_EFORMAT, NOWHERE, "signature '%s' is of sub-graph %lld of %lld",
                in->signature, (long long)out->sub, (long long)m->nsubs);
  }
  TRY(m->fb.status);
  fail(d, TENON_EINVAL, NOWHERE, "the model has no signature '%s'%s", in->signature,
       did_you_mean(str_of(in->signature), names, n).s);
  for (int64_t i = 0; i < n; i++) diag_note(d, "signature %s", names[i]);
  return TENON_EINVAL;
}

const char *tfl_signature_name(const TflSignature *s, int side, int64_t tensor, Arena *a) {
  for (int64_t i = 0; i < s->maps[side].n; i++) {
    FbTable one = fb_table_at(&s->maps[side], i);
    Str name = fb_str(&one, 0);
    if (fb_u32(&one, 1, 0) == tensor && name.n && name.n <= LONGEST_NAME && str_is_utf8(name) &&
        !memchr(name.p, 0, (size_t)name.n))
      return str_copy(a, name);
  }
  return NULL;
}

// ---- facts ----

static void signature_fact(Imported *in, const TflModel *m, const FbTable *t) {
  StrBuf b;
  strbuf_init(&b, &in->graph->arena);
  int64_t sub = fb_u32(t, 4, 0);
  for (int side = 0; side < 2; side++) {
    FbVector maps = fb_vector(t, side, 4);
    for (int64_t i = 0; i < maps.n && i < 64; i++) {
      FbTable one = fb_table_at(&maps, i);
      Str name = fb_str(&one, 0);
      int64_t index = fb_u32(&one, 1, 0);
      bool known = sub < m->nsubs && index < m->sub[sub].ntensors;
      strbuf_printf(&b, "%s%.*s = %s", i ? ", " : "", (int)MIN(name.n, LONGEST_NAME), name.p,
                    known ? m->sub[sub].tensor[index].name : "?");
    }
    if (!side) strbuf_puts(&b, " -> ");
  }
  Str key = fb_str(t, 2);
  frontend_fact(in, str_printf(&in->graph->arena, "signature %.*s", (int)MIN(key.n, 200), key.p),
                "%s", strbuf_text(&b));
}

void tfl_facts(Imported *in, const TflModel *m) {
  Fb fb = m->fb;  // faults in here are no reason to refuse the model
  Diag ignored;
  diag_init(&ignored);
  fb.diag = &ignored;
  FbTable root = m->root;
  root.fb = &fb;
  Str about = fb_str(&root, 3);
  if (about.n) frontend_fact(in, "description", "%.*s", STR_ARG(about));
  if (m->nsubs > 1) frontend_fact(in, "sub-graphs", "%lld", (long long)m->nsubs);
  FbVector signatures = fb_vector(&root, 7, 4), metadata = fb_vector(&root, 6, 4);
  for (int64_t i = 0; i < signatures.n && i < 64; i++) {
    FbTable t = fb_table_at(&signatures, i);
    signature_fact(in, m, &t);
  }
  for (int64_t i = 0; i < metadata.n && i < 64; i++) {
    FbTable t = fb_table_at(&metadata, i);
    Str name = fb_str(&t, 0);
    int64_t buffer = fb_u32(&t, 1, 0);
    Str data = buffer < m->nbuffers ? m->buffer[buffer] : (Str){0};
    int64_t end = data.n;
    while (end && !data.p[end - 1]) end--;  // writers fill short texts with zeros
    bool text =
        end && end <= 64 && str_is_utf8((Str){data.p, end}) && !memchr(data.p, 0, (size_t)end);
    const char *key = str_printf(&in->graph->arena, "metadata %.*s", (int)MIN(name.n, 200), name.p);
    if (text)
      frontend_fact(in, key, "%.*s", (int)end, data.p);
    else
      frontend_fact(in, key, "%lld bytes", (long long)data.n);
  }
}
