// read.c -- ONNX messages: the tables that wire.c decodes by, and what one message alone must
// satisfy.
//
// One table for each protobuf message that matters to a compiler (field numbers: onnx-ml.proto and
// onnx-data.proto of ONNX 1.23).  Left out and so stepped over: doc strings below the model,
// quantisation annotations, training info, device configurations, metadata below the model, type
// denotations.
//
// Checked here: form (wire.c), names are UTF-8, one type to an attribute, external data's keys.
// Not checked here: anything that needs two messages to see (names that resolve, versions, op
// semantics).
#include "frontends/onnx/onnx.h"
#include "base/wire.h"

#define BIT(n) ((uint64_t)1 << (n))

typedef struct Entry {  // StringStringEntryProto
  Str key, value;
} Entry;

// ---- table shorthand: NUMBER, name in messages, kind, C field ----
#define ONE(T, num, label, k, fld)                                                                 \
  { .name = label, .number = num, .kind = k, .at = (uint16_t)offsetof(T, fld) }
#define PART(T, num, label, k, fld, type)                                                          \
  { .name = label, .number = num, .kind = k, .at = (uint16_t)offsetof(T, fld), .sub = &type }
#define HERE(num, label, type)                                                                     \
  { .name = label, .number = num, .kind = WF_PART, .sub = &type }
#define MANY(T, num, label, k, fld)                                                                \
  {                                                                                                \
    .name = label, .number = num, .kind = k, .at = (uint16_t)offsetof(T, fld.v),                   \
    .count_at = (uint16_t)offsetof(T, fld.n)                                                       \
  }
#define PARTS(T, num, label, k, fld, type)                                                         \
  {                                                                                                \
    .name = label, .number = num, .kind = k, .at = (uint16_t)offsetof(T, fld.v),                   \
    .count_at = (uint16_t)offsetof(T, fld.n), .sub = &type                                         \
  }
// A message type.  `least` bytes are the fewest that a sound one has; with the 2 bytes of its tag
// and length they must pay for its struct.
#define MESSAGE(var, proto, T, least, nameat, posat, fn)                                           \
  static const WireMessage var = {.name = proto,                                                   \
                                  .field = var##_fields,                                           \
                                  .nfields = (int)ARRAY_LEN(var##_fields),                         \
                                  .size = (int64_t)sizeof(T),                                      \
                                  .least_bytes = least,                                            \
                                  .name_at = nameat,                                               \
                                  .pos_at = posat,                                                 \
                                  .done = fn};                                                     \
  _Static_assert(sizeof(T) <= WIRE_GROWTH * ((least) + 2), "struct too large for its bytes")

#define NAME_AT(T, fld) ((int16_t)offsetof(T, fld))
#define NO_NAME         (-1)
#define NO_POS          (-1)

static const WireMessage graph, type, sequence, optional;  // they hold themselves

// ---- small ones ----
static const WireField entry_fields[] = {
    ONE(Entry, 1, "key", WF_TEXT, key),
    ONE(Entry, 2, "value", WF_TEXT, value),
};
MESSAGE(entry, "StringStringEntryProto", Entry, 0, NO_NAME, NO_POS, NULL);

static const WireField opset_fields[] = {
    ONE(OnnxOpset, 1, "domain", WF_NAME, domain),
    ONE(OnnxOpset, 2, "version", WF_INT, version),
};
MESSAGE(opset, "OperatorSetIdProto", OnnxOpset, 0, NAME_AT(OnnxOpset, domain), NO_POS, NULL);

// ---- tensors ----
static const WireField tensor_fields[] = {
    MANY(OnnxTensor, 1, "dims", WF_INTS, dims),
    ONE(OnnxTensor, 2, "data_type", WF_INT, dtype),
    MANY(OnnxTensor, 4, "float_data", WF_FIXED32S, f32_data),
    MANY(OnnxTensor, 5, "int32_data", WF_VARINTS, i32_data),
    MANY(OnnxTensor, 6, "string_data", WF_SLICES, string_data),
    MANY(OnnxTensor, 7, "int64_data", WF_VARINTS, i64_data),
    ONE(OnnxTensor, 8, "name", WF_NAME, name),
    ONE(OnnxTensor, 9, "raw_data", WF_BYTES, raw),
    MANY(OnnxTensor, 10, "double_data", WF_FIXED64S, f64_data),
    MANY(OnnxTensor, 11, "uint64_data", WF_VARINTS, u64_data),
};
static WireDone finish_tensor;
MESSAGE(tensor, "TensorProto", OnnxTensor, 2, NAME_AT(OnnxTensor, name),
        NAME_AT(OnnxTensor, file_pos), finish_tensor);

// What few tensors have: read from the same bytes once more when it is there.
typedef struct External {
  int64_t location;  // TensorProto.DataLocation
  struct {
    const Entry *v;
    int64_t n;
  } entries;
} External;
static const WireField external_fields[] = {
    PARTS(External, 13, "entry", WF_PARTS, entries, entry),
    ONE(External, 14, "data_location", WF_INT, location),
};
MESSAGE(external, "TensorProto", External, 0, NO_NAME, NO_POS, NULL);

static tenon_status read_ext_size(WireReader *r, const Entry *e, bool *has, int64_t *out) {
  if (*has) return wire_fail(r, e->key.p, "external data has two of '%.*s'", STR_ARG(e->key));
  *has = true;
  if (!str_to_i64(e->value, out) || *out < 0)
    return wire_fail(r, e->value.n ? e->value.p : e->key.p,
                     "external data's %.*s is '%.*s', not a number from 0 to 2^63-1",
                     STR_ARG(e->key), (int)MIN(e->value.n, 60), e->value.p);
  return TENON_OK;
}

static tenon_status read_external(WireReader *r, OnnxTensor *t, const External *x) {
  bool has_location = false;
  for (int64_t i = 0; i < x->entries.n; i++) {
    const Entry *e = &x->entries.v[i];
    if (str_is(e->key, "location")) {
      if (has_location) return wire_fail(r, e->key.p, "external data has two of 'location'");
      has_location = true;
      t->ext_location = e->value;
    } else if (str_is(e->key, "offset")) {
      TRY(read_ext_size(r, e, &t->has_ext_offset, &t->ext_offset));
    } else if (str_is(e->key, "length")) {
      TRY(read_ext_size(r, e, &t->has_ext_length, &t->ext_length));
    } else if (!str_is(e->key, "checksum") && !str_is(e->key, "basepath") &&
               t->ext_unknown_key.n == 0) {
      t->ext_unknown_key = e->key;
    }
  }
  const uint8_t *place = r->base + t->file_pos;
  if (t->ext_location.n == 0)
    return wire_fail(r, place, "external data without a location: the file that holds it");
  int64_t end;
  if (!ck_add(t->ext_offset, t->ext_length, &end))
    return wire_fail(r, place, "external data's offset %lld and length %lld overflow",
                     (long long)t->ext_offset, (long long)t->ext_length);
  return TENON_OK;
}

static tenon_status finish_tensor(WireReader *r, void *msg, Str body, uint64_t seen) {
  OnnxTensor *t = msg;
  t->has_raw = seen & BIT(9);
  if (seen & BIT(3))
    return wire_fail(r, body.p, "the tensor is written in segments, which no known writer does");
  if (!(seen & (BIT(13) | BIT(14)))) return TENON_OK;
  External x = {0};
  TRY(wire_decode(r, &external, "external data", body, &x));
  if (x.location < 0 || x.location > 1)
    return wire_fail(r, body.p, "data_location is %lld; it must be 0 (here) or 1 (external)",
                     (long long)x.location);
  t->external = x.location == 1;
  if (!t->external) return TENON_OK;
  if (seen & (BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(9) | BIT(10) | BIT(11)))
    return wire_fail(r, body.p, "the tensor has its data in an external file and here too");
  return read_external(r, t, &x);
}

static const WireField sparse_fields[] = {
    PART(OnnxSparse, 1, "values", WF_PART, values, tensor),
    PART(OnnxSparse, 2, "indices", WF_PART, indices, tensor),
    MANY(OnnxSparse, 3, "dims", WF_INTS, dims),
};
MESSAGE(sparse, "SparseTensorProto", OnnxSparse, 6, NAME_AT(OnnxSparse, values.name),
        NAME_AT(OnnxSparse, file_pos), NULL);

// ---- types: every nested message writes into the one OnnxType ----
static tenon_status finish_dim(WireReader *r, void *msg, Str body, uint64_t seen) {
  OnnxDim *dim = msg;
  dim->has_value = seen & BIT(1);
  dim->has_param = dim->param.n > 0;
  if (dim->has_value && dim->has_param)
    return wire_fail(r, body.p, "a dimension with both a size (%lld) and a name ('%.*s')",
                     (long long)dim->value, STR_ARG(dim->param));
  return TENON_OK;
}
static const WireField dim_fields[] = {
    ONE(OnnxDim, 1, "dim_value", WF_INT, value),
    ONE(OnnxDim, 2, "dim_param", WF_NAME, param),
};
MESSAGE(dim, "TensorShapeProto.Dimension", OnnxDim, 0, NO_NAME, NO_POS, finish_dim);

static tenon_status finish_shape(WireReader *r, void *msg, Str body, uint64_t seen) {
  (void)r, (void)body, (void)seen;
  ((OnnxType *)msg)->has_shape = true;
  return TENON_OK;
}
static const WireField shape_fields[] = {
    {.name = "dim",
     .number = 1,
     .kind = WF_PARTS,
     .at = (uint16_t)offsetof(OnnxType, dims),
     .count_at = (uint16_t)offsetof(OnnxType, ndims),
     .sub = &dim},
};
MESSAGE(shape, "TensorShapeProto", OnnxType, 0, NO_NAME, NO_POS, finish_shape);

static const WireField tensor_type_fields[] = {
    // TypeProto.Tensor, TypeProto.SparseTensor
    ONE(OnnxType, 1, "elem_type", WF_INT, elem),
    HERE(2, "shape", shape),
};
MESSAGE(tensor_type, "TypeProto.Tensor", OnnxType, 0, NO_NAME, NO_POS, NULL);

static const WireField holder_type_fields[] = {
    // TypeProto.Sequence, TypeProto.Optional
    PART(OnnxType, 1, "elem_type", WF_MESSAGE, inner, type),
};
MESSAGE(holder_type, "TypeProto.Sequence", OnnxType, 0, NO_NAME, NO_POS, NULL);

static const WireField map_type_fields[] = {
    ONE(OnnxType, 1, "key_type", WF_INT, elem),
    PART(OnnxType, 2, "value_type", WF_MESSAGE, inner, type),
};
MESSAGE(map_type, "TypeProto.Map", OnnxType, 0, NO_NAME, NO_POS, NULL);

static tenon_status finish_type(WireReader *r, void *msg, Str body, uint64_t seen) {
  static const struct {
    uint8_t field, kind;
  } choice[] = {
      {1, OT_TENSOR}, {4, OT_SEQUENCE}, {5, OT_MAP}, {8, OT_SPARSE}, {9, OT_OPTIONAL},
  };
  OnnxType *t = msg;
  for (int64_t i = 0; i < ARRAY_LEN(choice); i++) {
    if (!(seen & BIT(choice[i].field))) continue;
    if (t->kind) return wire_fail(r, body.p, "a type that is two kinds of type at once");
    t->kind = choice[i].kind;
  }
  bool holds = t->kind == OT_SEQUENCE || t->kind == OT_OPTIONAL || t->kind == OT_MAP;
  if (holds && !t->inner)
    return wire_fail(r, body.p,
                     "a sequence, optional or map type without the type of what it holds");
  return TENON_OK;
}
static const WireField type_fields[] = {
    HERE(1, "tensor_type", tensor_type),   HERE(4, "sequence_type", holder_type),
    HERE(5, "map_type", map_type),         HERE(8, "sparse_tensor_type", tensor_type),
    HERE(9, "optional_type", holder_type),
};
MESSAGE(type, "TypeProto", OnnxType, 0, NO_NAME, NO_POS, finish_type);

static const WireField value_info_fields[] = {
    ONE(OnnxValueInfo, 1, "name", WF_NAME, name),
    PART(OnnxValueInfo, 2, "type", WF_PART, type, type),
};
MESSAGE(value_info, "ValueInfoProto", OnnxValueInfo, 0, NAME_AT(OnnxValueInfo, name), NO_POS, NULL);

// ---- nodes ----
static const WireField attr_fields[] = {
    ONE(OnnxAttr, 1, "name", WF_NAME, name),
    ONE(OnnxAttr, 2, "f", WF_FLOAT, f),
    ONE(OnnxAttr, 3, "i", WF_INT, i),
    ONE(OnnxAttr, 4, "s", WF_BYTES, s),
    PART(OnnxAttr, 5, "tensor", WF_MESSAGE, t, tensor),
    PART(OnnxAttr, 6, "sub-graph", WF_MESSAGE, g, graph),
    MANY(OnnxAttr, 7, "floats", WF_FLOATS, floats),
    MANY(OnnxAttr, 8, "ints", WF_INTS, ints),
    MANY(OnnxAttr, 9, "strings", WF_SLICES, strings),
    PARTS(OnnxAttr, 10, "tensor", WF_PARTS, tensors, tensor),
    PARTS(OnnxAttr, 11, "sub-graph", WF_MESSAGES, graphs, graph),
    PART(OnnxAttr, 14, "type", WF_MESSAGE, tp, type),
    PARTS(OnnxAttr, 15, "type", WF_PARTS, types, type),
    ONE(OnnxAttr, 20, "type", WF_ENUM, type),
    ONE(OnnxAttr, 21, "ref_attr_name", WF_NAME, ref),
    PART(OnnxAttr, 22, "sparse tensor", WF_MESSAGE, sparse, sparse),
};

// The field that holds an attribute's value, by its type, and whether it must be there (a number or
// a list at its default may be left out).
static const struct {
  uint8_t field;
  bool must;
  const char *name;
} attr_type[] = {
    [OA_FLOAT] = {2, false, "FLOAT"},      [OA_INT] = {3, false, "INT"},
    [OA_STRING] = {4, false, "STRING"},    [OA_TENSOR] = {5, true, "TENSOR"},
    [OA_GRAPH] = {6, true, "GRAPH"},       [OA_FLOATS] = {7, false, "FLOATS"},
    [OA_INTS] = {8, false, "INTS"},        [OA_STRINGS] = {9, false, "STRINGS"},
    [OA_TENSORS] = {10, false, "TENSORS"}, [OA_GRAPHS] = {11, false, "GRAPHS"},
    [OA_SPARSE] = {22, true, "SPARSE"},    [OA_SPARSES] = {23, false, "SPARSES"},
    [OA_TYPE] = {14, true, "TYPE_PROTO"},  [OA_TYPES] = {15, false, "TYPE_PROTOS"},
};

static tenon_status finish_attr(WireReader *r, void *msg, Str body, uint64_t seen) {
  OnnxAttr *a = msg;
  if (a->name.n == 0) return wire_fail(r, body.p, "the attribute has no name");
  if (a->type >= ARRAY_LEN(attr_type))
    return wire_fail(r, body.p, "attribute type %d is none of ONNX's", (int)a->type);
  uint64_t values = 0;
  int64_t first = OA_UNDEFINED, n = 0;
  for (int64_t i = OA_TYPES; i > OA_UNDEFINED; i--) {
    uint64_t bit = seen & BIT(attr_type[i].field);
    if (!bit) continue;
    values |= bit;
    first = i;
    n++;
  }
  if (a->type == OA_UNDEFINED) {  // IR versions 1 and 2 had no type
    if (n > 1) return wire_fail(r, body.p, "the attribute has several values and no type");
    a->type = (OnnxAttrType)first;
    return TENON_OK;
  }
  if (a->ref.n || values & BIT(attr_type[a->type].field)) return TENON_OK;
  if (values)
    return wire_fail(r, body.p, "the attribute says it is %s, but holds %s",
                     attr_type[a->type].name, attr_type[first].name);
  if (attr_type[a->type].must)
    return wire_fail(r, body.p, "the attribute says it is %s, but holds none",
                     attr_type[a->type].name);
  return TENON_OK;
}
MESSAGE(attr, "AttributeProto", OnnxAttr, 3, NAME_AT(OnnxAttr, name), NO_POS, finish_attr);

static tenon_status finish_node(WireReader *r, void *msg, Str body, uint64_t seen) {
  (void)seen;
  if (((OnnxNode *)msg)->op_type.n) return TENON_OK;
  return wire_fail(r, body.p, "the node has no op_type");
}
static const WireField node_fields[] = {
    MANY(OnnxNode, 1, "input name", WF_NAMES, inputs),
    MANY(OnnxNode, 2, "output name", WF_NAMES, outputs),
    ONE(OnnxNode, 3, "name", WF_NAME, name),
    ONE(OnnxNode, 4, "op_type", WF_NAME, op_type),
    {.name = "attribute",
     .number = 5,
     .kind = WF_PARTS,
     .at = (uint16_t)offsetof(OnnxNode, attrs),
     .count_at = (uint16_t)offsetof(OnnxNode, nattrs),
     .sub = &attr},
    ONE(OnnxNode, 7, "domain", WF_NAME, domain),
    ONE(OnnxNode, 8, "overload", WF_NAME, overload),
};
MESSAGE(node, "NodeProto", OnnxNode, 3, NAME_AT(OnnxNode, name), NAME_AT(OnnxNode, file_pos),
        finish_node);

// ---- graphs, functions, models ----
static const WireField graph_fields[] = {
    PARTS(OnnxGraph, 1, "node", WF_PARTS, nodes, node),
    ONE(OnnxGraph, 2, "name", WF_NAME, name),
    PARTS(OnnxGraph, 5, "initializer", WF_PARTS, initializers, tensor),
    PARTS(OnnxGraph, 11, "input", WF_PARTS, inputs, value_info),
    PARTS(OnnxGraph, 12, "output", WF_PARTS, outputs, value_info),
    PARTS(OnnxGraph, 13, "value_info", WF_PARTS, value_infos, value_info),
    PARTS(OnnxGraph, 15, "sparse_initializer", WF_PARTS, sparse_initializers, sparse),
};
MESSAGE(graph, "GraphProto", OnnxGraph, 2, NAME_AT(OnnxGraph, name), NAME_AT(OnnxGraph, file_pos),
        NULL);

static const WireField function_fields[] = {
    ONE(OnnxFunction, 1, "name", WF_NAME, name),
    MANY(OnnxFunction, 4, "input name", WF_NAMES, inputs),
    MANY(OnnxFunction, 5, "output name", WF_NAMES, outputs),
    MANY(OnnxFunction, 6, "attribute name", WF_NAMES, attributes),
    PARTS(OnnxFunction, 7, "node", WF_PARTS, nodes, node),
    PARTS(OnnxFunction, 9, "opset_import", WF_PARTS, opsets, opset),
    ONE(OnnxFunction, 10, "domain", WF_NAME, domain),
    PARTS(OnnxFunction, 11, "attribute", WF_PARTS, attribute_protos, attr),
    ONE(OnnxFunction, 13, "overload", WF_NAME, overload),
};
MESSAGE(function, "FunctionProto", OnnxFunction, 3, NAME_AT(OnnxFunction, name),
        NAME_AT(OnnxFunction, file_pos), NULL);

static tenon_status finish_model(WireReader *r, void *msg, Str body, uint64_t seen) {
  (void)r, (void)body;
  OnnxModel *m = msg;
  m->has_graph = seen & BIT(7);
  m->metadata.n *= 2;  // an Entry is two Str
  return TENON_OK;
}
_Static_assert(sizeof(Entry) == 2 * sizeof(Str), "metadata is read as pairs");
static const WireField model_fields[] = {
    ONE(OnnxModel, 1, "ir_version", WF_INT, ir_version),
    ONE(OnnxModel, 2, "producer_name", WF_TEXT, producer_name),
    ONE(OnnxModel, 3, "producer_version", WF_TEXT, producer_version),
    ONE(OnnxModel, 4, "domain", WF_TEXT, domain),
    ONE(OnnxModel, 5, "model_version", WF_INT, model_version),
    ONE(OnnxModel, 6, "doc_string", WF_TEXT, doc),
    PART(OnnxModel, 7, "graph", WF_PART, graph, graph),
    PARTS(OnnxModel, 8, "opset_import", WF_PARTS, opsets, opset),
    PARTS(OnnxModel, 14, "metadata", WF_PARTS, metadata, entry),
    PARTS(OnnxModel, 25, "function", WF_PARTS, functions, function),
};
MESSAGE(model, "ModelProto", OnnxModel, 6, NO_NAME, NO_POS, finish_model);

// ---- sequences and optionals: the values in .pb files ----
// The fields 3 to 7 hold tensors, sparse tensors, sequences, maps, optionals, in both messages.
static tenon_status finish_items(WireReader *r, OnnxSequence *s, Str body, uint64_t seen) {
  static const uint8_t kind[] = {OT_TENSOR, OT_SPARSE, OT_SEQUENCE, OT_MAP, OT_OPTIONAL};
  int declared = (int)s->elem;  // SequenceProto.DataType: 1 is field 3's, and so on
  if (declared > ARRAY_LEN(kind))
    return wire_fail(r, body.p, "elem_type %d is none of ONNX's", declared);
  s->elem = declared ? kind[declared - 1] : OT_NONE;
  for (int i = 0; i < ARRAY_LEN(kind); i++) {
    if (!(seen & BIT(3 + i))) continue;
    if (declared && declared != i + 1)
      return wire_fail(r, body.p, "elem_type %d, but the values are in field %d", declared, 3 + i);
    declared = i + 1;
    s->elem = kind[i];
  }
  if (s->elem == OT_SPARSE || s->elem == OT_MAP)
    return fail(r->diag, TENON_EUNSUPPORTED, NOWHERE, "a sequence or optional of %s is not read",
                s->elem == OT_MAP ? "maps" : "sparse tensors");
  return TENON_OK;
}

static tenon_status finish_sequence(WireReader *r, void *msg, Str body, uint64_t seen) {
  return finish_items(r, msg, body, seen);
}
static const WireField sequence_fields[] = {
    ONE(OnnxSequence, 2, "elem_type", WF_ENUM, elem),
    PARTS(OnnxSequence, 3, "tensor", WF_PARTS, tensors, tensor),
    PARTS(OnnxSequence, 5, "sequence", WF_PARTS, sequences, sequence),
    PARTS(OnnxSequence, 7, "optional", WF_PARTS, sequences, optional),
};
MESSAGE(sequence, "SequenceProto", OnnxSequence, 0, NO_NAME, NO_POS, finish_sequence);

static tenon_status finish_optional(WireReader *r, void *msg, Str body, uint64_t seen) {
  OnnxSequence *s = msg;
  TRY(finish_items(r, s, body, seen));
  int64_t n = s->tensors.n + s->sequences.n;
  if (n > 1) return wire_fail(r, body.p, "an optional that holds %lld values", (long long)n);
  if (n == 0) s->elem = OT_NONE;
  return TENON_OK;
}
static const WireField optional_fields[] = {
    ONE(OnnxSequence, 2, "elem_type", WF_ENUM, elem),
    PARTS(OnnxSequence, 3, "tensor", WF_PARTS, tensors, tensor),
    PARTS(OnnxSequence, 5, "sequence", WF_PARTS, sequences, sequence),
    PARTS(OnnxSequence, 7, "optional", WF_PARTS, sequences, optional),
};
MESSAGE(optional, "OptionalProto", OnnxSequence, 0, NO_NAME, NO_POS, finish_optional);

// ---- entries ----
tenon_status onnx_read_model(Arena *a, Str bytes, Diag *d, OnnxModel *out) {
  *out = (OnnxModel){0};
  if (bytes.n == 0) return fail(d, TENON_EFORMAT, NOWHERE, "no graph: the file is empty (0 bytes)");
  WireReader r;
  wire_init(&r, a, d, bytes);
  TRY(wire_decode(&r, &model, NULL, bytes, out));
  if (out->has_graph) return TENON_OK;
  return fail(d, TENON_EFORMAT, NOWHERE,
              "no graph: the %lld bytes are protobuf, but hold no ONNX model", (long long)bytes.n);
}

static tenon_status read_value(Arena *a, Str bytes, Diag *d, const WireMessage *m,
                               const char *label, void *out) {
  memset(out, 0, (size_t)m->size);
  if (bytes.n == 0) bytes = STR("");  // an empty message: all defaults
  WireReader r;
  wire_init(&r, a, d, bytes);
  return wire_decode(&r, m, label, bytes, out);
}

tenon_status onnx_read_tensor(Arena *a, Str bytes, Diag *d, OnnxTensor *out) {
  return read_value(a, bytes, d, &tensor, "tensor", out);
}

tenon_status onnx_read_sequence(Arena *a, Str bytes, Diag *d, OnnxSequence *out) {
  return read_value(a, bytes, d, &sequence, "sequence", out);
}

tenon_status onnx_read_optional(Arena *a, Str bytes, Diag *d, OnnxSequence *out) {
  return read_value(a, bytes, d, &optional, "optional", out);
}
