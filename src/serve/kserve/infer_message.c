// infer_message.c -- requests and answers of inference as messages of gRPC (infer_message.h).
//
// A request is decoded by tables (base/wire.h), and its tensors stay where they are.  An input's
// elements are in raw_input_contents, one for each input in their order, or in the input's own
// typed contents.
#include "serve/kserve/infer_message.h"

#include "base/proto.h"
#include "base/wire.h"
#include "serve/kserve/message_json.h"
#include "serve/limits.h"

// ---- what the tables fill ----
typedef struct Value {
  enum { VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_TEXT, VALUE_UINT, VALUE_OTHER } kind;
  int64_t boolean, i, u;
  Str text;
} Value;

typedef struct Parameter {
  Str key;
  Value value;
} Parameter;

typedef struct Parameters {
  Parameter *v;
  int64_t n;
} Parameters;

typedef struct Contents {
  Str *run[KS_InferTensorContents_bytes_contents];  // by field, from 1
  int64_t n[KS_InferTensorContents_bytes_contents];
} Contents;

typedef struct Input {
  Str name, type;
  int64_t *shape, rank;
  Parameters parameters;
  Contents *contents;
} Input;

typedef struct Output {
  Str name;
  Parameters parameters;
} Output;

typedef struct Request {
  Str model, version, id;
  Parameters parameters;
  Input *input;
  int64_t ninputs;
  Output *output;
  int64_t noutputs;
  Str *raw;
  int64_t nraw;
} Request;

#define ONE(T, message, field, how, to)                                                            \
  { .name = #field, .number = KS_##message##_##field, .kind = how, .at = offsetof(T, to) }
#define MANY(T, message, field, how, type, limit, to, count)                                       \
  {                                                                                                \
    .name = #field, .sub = type, .number = KS_##message##_##field, .at = offsetof(T, to),          \
    .count_at = offsetof(T, count), .kind = how, .most = limit                                     \
  }
#define TABLE(label, T, fields, ...)                                                               \
  {                                                                                                \
    .name = label, .field = fields, .nfields = (int)ARRAY_LEN(fields), .size = (int64_t)sizeof(T), \
    .name_at = -1, .pos_at = -1, __VA_ARGS__                                                       \
  }

// Of a oneof the field with the greatest number counts, as no writer sends two.
static tenon_status value_done(WireReader *r, void *msg, Str body, uint64_t seen) {
  Value *v = msg;
  (void)r, (void)body;
  v->kind = seen >> KS_InferParameter_uint64_param & 1   ? VALUE_UINT
            : seen >> KS_InferParameter_double_param & 1 ? VALUE_OTHER
            : seen >> KS_InferParameter_string_param & 1 ? VALUE_TEXT
            : seen >> KS_InferParameter_int64_param & 1  ? VALUE_INT
            : seen >> KS_InferParameter_bool_param & 1   ? VALUE_BOOL
                                                         : VALUE_NONE;
  return TENON_OK;
}

static const WireField value_fields[] = {
    ONE(Value, InferParameter, bool_param, WF_INT, boolean),
    ONE(Value, InferParameter, int64_param, WF_INT, i),
    ONE(Value, InferParameter, string_param, WF_TEXT, text),
    ONE(Value, InferParameter, uint64_param, WF_INT, u),
};
static const WireMessage value_message =
    TABLE("InferParameter", Value, value_fields, .done = value_done);

static const WireField parameter_fields[] = {
    {.name = "key", .number = 1, .kind = WF_TEXT, .at = offsetof(Parameter, key)},
    {.name = "value",
     .sub = &value_message,
     .number = 2,
     .kind = WF_PART,
     .at = offsetof(Parameter, value)},
};
static const WireMessage parameter_message =
    TABLE("parameter", Parameter, parameter_fields, .least_bytes = 3);

#define RUNS(field, how)                                                                           \
  MANY(Contents, InferTensorContents, field, how, NULL, 0,                                         \
       run[KS_InferTensorContents_##field - 1], n[KS_InferTensorContents_##field - 1])
static const WireField contents_fields[] = {
    RUNS(bool_contents, WF_VARINTS),   RUNS(int_contents, WF_VARINTS),
    RUNS(int64_contents, WF_VARINTS),  RUNS(uint_contents, WF_VARINTS),
    RUNS(uint64_contents, WF_VARINTS), RUNS(fp32_contents, WF_FIXED32S),
    RUNS(fp64_contents, WF_FIXED64S),  RUNS(bytes_contents, WF_SLICES),
};
static const WireMessage contents_message = TABLE("InferTensorContents", Contents, contents_fields);

static const WireField input_fields[] = {
    ONE(Input, InferInputTensor, name, WF_NAME, name),
    ONE(Input, InferInputTensor, datatype, WF_NAME, type),
    MANY(Input, InferInputTensor, shape, WF_INTS, NULL, TENON_MAX_RANK, shape, rank),
    MANY(Input, InferInputTensor, parameters, WF_PARTS, &parameter_message, SERVE_PARAMETERS,
         parameters.v, parameters.n),
    {.name = "contents",
     .sub = &contents_message,
     .number = KS_InferInputTensor_contents,
     .kind = WF_MESSAGE,
     .at = offsetof(Input, contents)},
};
static const WireMessage input_message = TABLE("InferInputTensor", Input, input_fields);

static const WireField output_fields[] = {
    ONE(Output, InferRequestedOutputTensor, name, WF_NAME, name),
    MANY(Output, InferRequestedOutputTensor, parameters, WF_PARTS, &parameter_message,
         SERVE_PARAMETERS, parameters.v, parameters.n),
};
static const WireMessage output_message =
    TABLE("InferRequestedOutputTensor", Output, output_fields);

static const WireField request_fields[] = {
    ONE(Request, ModelInferRequest, model_name, WF_NAME, model),
    ONE(Request, ModelInferRequest, model_version, WF_NAME, version),
    ONE(Request, ModelInferRequest, id, WF_TEXT, id),
    MANY(Request, ModelInferRequest, parameters, WF_PARTS, &parameter_message, SERVE_PARAMETERS,
         parameters.v, parameters.n),
    MANY(Request, ModelInferRequest, inputs, WF_PARTS, &input_message, SERVE_TENSORS, input,
         ninputs),
    MANY(Request, ModelInferRequest, outputs, WF_PARTS, &output_message, SERVE_TENSORS, output,
         noutputs),
    MANY(Request, ModelInferRequest, raw_input_contents, WF_SLICES, NULL, SERVE_TENSORS, raw, nraw),
};
static const WireMessage request_message = TABLE("ModelInferRequest", Request, request_fields);

// ---- parameters ----
static const Value *parameter(const Parameters *p, const char *key) {
  for (int64_t i = 0; i < p->n; i++)
    if (str_is(p->v[i].key, key)) return &p->v[i].value;
  return NULL;
}

// 0 where there is none, -1 where it is no whole number.
static int64_t whole(const Value *v) {
  if (!v) return 0;
  if (v->kind == VALUE_UINT) return v->u;  // beyond int64_t: negative
  return v->kind == VALUE_INT ? v->i : -1;
}

// ---- typed contents ----
// The next varint of the runs; false: there is none.
typedef struct Varints {
  const Str *run;
  int64_t n, at;
  const uint8_t *p, *end;
} Varints;

static tenon_status next_varint(Varints *v, const KsTensor *t, uint64_t *out, Diag *d) {
  while (v->p == v->end && v->at < v->n) {
    v->p = (const uint8_t *)v->run[v->at].p;
    v->end = v->p + v->run[v->at++].n;
  }
  const char *why = v->p == v->end ? "there are fewer elements than in the shape"
                                   : wire_varint(&v->p, v->end, out);
  if (!why) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE, "contents of input '%.*s': %s", STR_ARG(t->name), why);
}

static tenon_status put_whole(const KsTensor *t, char *out, int64_t at, uint64_t v, Diag *d) {
  DType type = t->type->dtype;
  int bits = dtype_bits(type);
  bool sign = dtype_class(type) == DC_INT, truth = type == DT_BOOL;
  bool fits = true;
  if (truth)
    fits = v <= 1;
  else if (bits < 64 && sign)
    fits = (int64_t)v >= -((int64_t)1 << (bits - 1)) && (int64_t)v < (int64_t)1 << (bits - 1);
  else if (bits < 64)
    fits = v >> bits == 0;
  if (!fits)
    return fail(d, TENON_EINVAL, NOWHERE,
                "contents of input '%.*s': element %lld is beyond the type's range",
                STR_ARG(t->name), (long long)at);
  if (bits == 64)
    memcpy(out + 8 * at, &v, 8);
  else
    put_i64(type, out, at, (int64_t)v);
  return TENON_OK;
}

static tenon_status wrong_count(const KsTensor *t, int64_t have, Diag *d) {
  return fail(d, TENON_EINVAL, NOWHERE,
              "contents of input '%.*s': there are %lld elements; the shape has %lld",
              STR_ARG(t->name), (long long)have, (long long)t->count);
}

static tenon_status read_varints(Arena *a, const Str *run, int64_t n, KsTensor *t, Diag *d) {
  Varints v = {.run = run, .n = n};
  int64_t have = 0;
  for (int64_t i = 0; i < n; i++) have += wire_count_varints(run[i]);
  if (have != t->count) return wrong_count(t, have, d);
  char *out = arena_alloc_array(a, MAX(t->count, 1), t->type->bytes);
  for (int64_t i = 0; i < t->count; i++) {
    uint64_t value = 0;
    TRY(next_varint(&v, t, &value, d));
    TRY(put_whole(t, out, i, value, d));
  }
  t->data = (Str){out, t->count * t->type->bytes};
  return TENON_OK;
}

// Runs of values that are their own bytes.
static tenon_status read_fixed(Arena *a, const Str *run, int64_t n, KsTensor *t, Diag *d) {
  int64_t bytes = 0, at = 0;
  for (int64_t i = 0; i < n; i++) bytes += run[i].n;
  if (bytes != t->count * t->type->bytes) return wrong_count(t, bytes / t->type->bytes, d);
  char *out = arena_alloc(a, MAX(bytes, 1));
  for (int64_t i = 0; i < n; at += run[i++].n)
    if (run[i].n) memcpy(out + at, run[i].p, (size_t)run[i].n);
  t->data = (Str){out, bytes};
  return TENON_OK;
}

static tenon_status read_strings(Arena *a, const Str *s, int64_t n, KsTensor *t, Diag *d) {
  StrBuf b;
  if (n != t->count) return wrong_count(t, n, d);
  strbuf_init(&b, a);
  for (int64_t i = 0; i < n; i++) {
    uint32_t bytes = (uint32_t)s[i].n;  // less than a message
    strbuf_put(&b, (Str){(const char *)&bytes, 4});
    strbuf_put(&b, s[i]);
  }
  t->data = strbuf_str(&b);
  return TENON_OK;
}

static tenon_status read_contents(Arena *a, const Contents *c, KsTensor *t, Diag *d) {
  static const Contents none;
  int field = t->type->contents;
  if (!c) c = &none;
  for (int k = 1; k <= (int)ARRAY_LEN(c->run); k++)
    if (k != field && c->n[k - 1])
      return fail(d, TENON_EINVAL, NOWHERE, "contents of input '%.*s': they are not those of %s",
                  STR_ARG(t->name), t->type->name);
  if (!field)
    return fail(d, TENON_EINVAL, NOWHERE,
                "input '%.*s': elements of %s are in raw_input_contents alone", STR_ARG(t->name),
                t->type->name);
  const Str *run = c->run[field - 1];
  int64_t n = c->n[field - 1];
  if (!t->type->bytes) return read_strings(a, run, n, t, d);
  return dtype_is_float(t->type->dtype) ? read_fixed(a, run, n, t, d)
                                        : read_varints(a, run, n, t, d);
}

// ---- the request ----
static tenon_status read_input(Arena *a, const Input *in, int64_t i, const Str *raw, KsTensor *t,
                               Diag *d) {
  if (parameter(&in->parameters, "shared_memory_region")) return infer_shared_memory("an input", d);
  TRY(infer_read_input(t, i, in->name, in->type, d));
  TRY(infer_read_rank(t, in->rank, d));
  for (int k = 0; k < t->rank; k++) t->shape[k] = in->shape[k];
  TRY(ks_count(t, d));
  if (!raw) return read_contents(a, in->contents, t, d);
  if (in->contents)
    return fail(d, TENON_EINVAL, NOWHERE, "input '%.*s' has both contents and raw bytes",
                STR_ARG(t->name));
  t->data = *raw;
  return ks_check_data(t, d);
}

static tenon_status read_output(const Output *in, int64_t i, InferOutput *out, Diag *d) {
  if (parameter(&in->parameters, "shared_memory_region"))
    return infer_shared_memory("an output", d);
  return infer_read_output(out, i, in->name, whole(parameter(&in->parameters, "classification")),
                           d);
}

tenon_status infer_message_read(Arena *a, Str bytes, InferTarget *target, InferRequest *r,
                                Diag *d) {
  WireReader reader;
  Request q = {0};
  *r = (InferRequest){0};
  *target = (InferTarget){0};
  wire_init(&reader, a, d, bytes);
  tenon_status status = wire_decode(&reader, &request_message, NULL, bytes, &q);
  r->id = q.id;
  TRY(status);
  *target = (InferTarget){q.model, q.version};
  TRY(infer_read_timeout(r, whole(parameter(&q.parameters, "timeout")), d));
  if (q.nraw && q.nraw != q.ninputs)
    return fail(d, TENON_EINVAL, NOWHERE, "there are %lld raw_input_contents for %lld inputs",
                (long long)q.nraw, (long long)q.ninputs);
  r->ninputs = q.ninputs;
  r->input = arena_array(a, KsTensor, q.ninputs + 1);
  for (int64_t i = 0; i < q.ninputs; i++)
    TRY(read_input(a, &q.input[i], i, q.nraw ? &q.raw[i] : NULL, &r->input[i], d));
  r->noutputs = q.noutputs;
  r->output = arena_array(a, InferOutput, q.noutputs + 1);
  for (int64_t i = 0; i < q.noutputs; i++) TRY(read_output(&q.output[i], i, &r->output[i], d));
  return TENON_OK;
}

// ---- the answer ----
static void write_output(Proto *p, const KsTensor *t) {
  Proto m, shape;
  proto_init(&m, p->arena);
  proto_init(&shape, p->arena);
  proto_bytes(&m, KS_InferOutputTensor_name, t->name);
  proto_text(&m, KS_InferOutputTensor_datatype, t->type->name);
  for (int k = 0; k < t->rank; k++) proto_varint(&shape, (uint64_t)t->shape[k]);
  if (t->rank) proto_message(&m, KS_InferOutputTensor_shape, &shape);  // packed: bytes as well
  proto_message(p, KS_ModelInferResponse_outputs, &m);
}

static void write_final(Proto *p) {
  Proto entry, value;
  proto_init(&entry, p->arena);
  proto_init(&value, p->arena);
  proto_text(&entry, 1, "triton_final_response");
  proto_int(&value, KS_InferParameter_bool_param, 1);
  proto_message(&entry, 2, &value);
  proto_message(p, KS_ModelInferResponse_parameters, &entry);
}

static Str whole_message(Proto *p) {
  char *out = arena_alloc(p->arena, MAX(p->total, 1));
  int64_t at = 0;
  proto_flush(p);
  for (int64_t i = 0; i < p->part.n; at += p->part.v[i++].n)
    memcpy(out + at, p->part.v[i].p, (size_t)p->part.v[i].n);
  return (Str){out, at};
}

static Str in_stream(Arena *a, Proto *answer, const char *why) {
  Proto p;
  proto_init(&p, a);
  if (why) proto_text(&p, KS_ModelStreamInferResponse_error_message, why);
  proto_message(&p, KS_ModelStreamInferResponse_infer_response, answer);
  return whole_message(&p);
}

Str infer_message_write(Arena *a, const InferRequest *r, const Model *m, const InferResult *result,
                        bool stream) {
  Proto p;
  int64_t count;
  const KsTensor *t = infer_outputs(a, r, result, &count);
  proto_init(&p, a);
  proto_text(&p, KS_ModelInferResponse_model_name, m->name);
  proto_text(&p, KS_ModelInferResponse_model_version, m->version);
  if (r->id.n) proto_bytes(&p, KS_ModelInferResponse_id, r->id);
  if (stream) write_final(&p);
  for (int64_t i = 0; i < count; i++) write_output(&p, &t[i]);
  for (int64_t i = 0; i < count; i++)
    proto_bytes(&p, KS_ModelInferResponse_raw_output_contents, t[i].data);
  return stream ? in_stream(a, &p, NULL) : whole_message(&p);
}

Str infer_message_error(Arena *a, Str id, const char *why) {
  Proto p;
  proto_init(&p, a);
  if (id.n) proto_bytes(&p, KS_ModelInferResponse_id, id);
  write_final(&p);
  return in_stream(a, &p, why);
}
