// attrs.c -- attributes, tensors and types as ONNX's messages.
//
// An attribute that has its default is left out: ONNX's defaults are those of our records, and an
// operator set that does not know an attribute then takes the node all the same.  Those that ONNX
// requires are named by the form.
#include "exporters/onnx/write.h"

// Fields of the messages, as onnx.proto numbers them.
enum { NODE_ATTRIBUTE = 5 };
enum {
  ATTR_NAME = 1,
  ATTR_F = 2,
  ATTR_I = 3,
  ATTR_S = 4,
  ATTR_T = 5,
  ATTR_FLOATS = 7,
  ATTR_INTS = 8,
  ATTR_STRINGS = 9,
  ATTR_TP = 14,
  ATTR_TYPE = 20
};
enum {
  KIND_FLOAT = 1,
  KIND_INT = 2,
  KIND_STRING = 3,
  KIND_TENSOR = 4,
  KIND_FLOATS = 6,
  KIND_INTS = 7,
  KIND_STRINGS = 8,
  KIND_TYPE = 13
};
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_STRINGS = 6, TENSOR_NAME = 8, TENSOR_RAW = 9 };

static Proto begin(OnnxNodeOut *w, const char *name) {
  Proto p;
  proto_init(&p, w->out->arena);
  proto_text(&p, ATTR_NAME, name);
  return p;
}

static void end(OnnxNodeOut *w, Proto *p, int kind) {
  proto_int(p, ATTR_TYPE, kind);
  proto_message(&w->attrs, NODE_ATTRIBUTE, p);
}

void onnx_attr_int(OnnxNodeOut *w, const char *name, int64_t v) {
  Proto p = begin(w, name);
  proto_int(&p, ATTR_I, v);
  end(w, &p, KIND_INT);
}

static void attr_float(OnnxNodeOut *w, const char *name, double v) {
  Proto p = begin(w, name);
  proto_float(&p, ATTR_F, (float)v);
  end(w, &p, KIND_FLOAT);
}

void onnx_attr_text(OnnxNodeOut *w, const char *name, Str s) {
  Proto p = begin(w, name);
  proto_bytes(&p, ATTR_S, s);
  end(w, &p, KIND_STRING);
}

void onnx_attr_ints(OnnxNodeOut *w, const char *name, Ints v) {
  Proto p = begin(w, name);
  for (int64_t i = 0; i < v.n; i++) proto_int(&p, ATTR_INTS, v.v[i]);
  end(w, &p, KIND_INTS);
}

static void attr_strings(OnnxNodeOut *w, const char *name, Strs v) {
  Proto p = begin(w, name);
  for (int64_t i = 0; i < v.n; i++) proto_bytes(&p, ATTR_STRINGS, v.v[i]);
  end(w, &p, KIND_STRINGS);
}

void onnx_attr_tensor(OnnxNodeOut *w, const char *name, Proto *tensor) {
  Proto p = begin(w, name);
  proto_message(&p, ATTR_T, tensor);
  end(w, &p, KIND_TENSOR);
}

void onnx_attr_type(OnnxNodeOut *w, const char *name, const Type *t) {
  Proto p = begin(w, name), type;
  proto_init(&type, w->out->arena);
  onnx_type(&type, t);
  proto_message(&p, ATTR_TP, &type);
  end(w, &p, KIND_TYPE);
}

// Doubles that are no floats go into a tensor beside, which the operators of trees have for it.
static void attr_floats(OnnxNodeOut *w, const char *name, Floats v) {
  bool exact = true;
  for (int64_t i = 0; i < v.n; i++) exact &= (double)(float)v.v[i] == v.v[i] || v.v[i] != v.v[i];
  if (!exact && strstr(w->op, "TreeEnsemble")) {
    Proto t;
    proto_init(&t, w->out->arena);
    onnx_tensor(&t, NULL, DT_F64, 1, &v.n, v.n, v.v);
    onnx_attr_tensor(w, str_printf(w->out->arena, "%s_as_tensor", name), &t);
    return;
  }
  Proto p = begin(w, name);
  for (int64_t i = 0; i < v.n; i++) proto_float(&p, ATTR_FLOATS, (float)v.v[i]);
  end(w, &p, KIND_FLOATS);
}

static bool word_in(const char *words, const char *w) {
  size_t n = strlen(w);
  for (const char *p = words; p && *p;) {
    size_t len = strcspn(p, " ");
    if (len == n && !memcmp(p, w, n)) return true;
    p += len + (p[len] != 0);
  }
  return false;
}

// Attributes that came after the operator set that is written at least.
static const struct {
  const char *op, *attr;
  int since;
} newer[] = {{"Cast", "round_mode", 24},
             {"DequantizeLinear", "output_dtype", 23},
             {"QuantizeLinear", "precision", 23},
             {"Range", "stash_type", 27},
             {"SpaceToDepth", "mode", 28},
             {"Attention", "left_window_size", 27},
             {"Attention", "right_window_size", 27},
             {"AveragePool", "ceil_mode", 22},
             {"MaxPool", "ceil_mode", 22}};

static void put_attr(OnnxNodeOut *w, const AttrDesc *d, const void *field) {
  switch (d->kind) {
  case ATTR_i64: onnx_attr_int(w, d->name, *(const int64_t *)field); break;
  case ATTR_opt_i64: onnx_attr_int(w, d->name, ((const OptInt *)field)->v); break;
  case ATTR_bool: onnx_attr_int(w, d->name, *(const bool *)field); break;
  case ATTR_f64: attr_float(w, d->name, *(const double *)field); break;
  case ATTR_dtype: onnx_attr_int(w, d->name, (int64_t) * (const DType *)field); break;
  case ATTR_str: onnx_attr_text(w, d->name, *(const Str *)field); break;
  case ATTR_choice:
    onnx_attr_text(w, d->name, attr_choice_word(d->choices, *(const int *)field));
    break;
  case ATTR_i64s: onnx_attr_ints(w, d->name, *(const Ints *)field); break;
  case ATTR_f64s: attr_floats(w, d->name, *(const Floats *)field); break;
  case ATTR_strs: attr_strings(w, d->name, *(const Strs *)field); break;
  case ATTR_body: break;  // by the forms of control flow
  }
}

// Has a meaning for fp8 alone, and ONNX Runtime takes it for no others.
static bool means_nothing(const OnnxNodeOut *w, const AttrDesc *d) {
  if (w->n->op != OP_cast || strcmp(d->name, "saturate") != 0) return false;
  DType to = type_of(w->n)->dtype;
  return !dtype_is_float(to) || dtype_bits(to) != 8;
}

tenon_status onnx_attrs(OnnxNodeOut *w) {
  const OpInfo *info = op_info(w->n->op);
  for (int i = 0; i < info->nattrs; i++) {
    const AttrDesc *d = &info->attrs[i];
    if (d->kind == ATTR_body || word_in(w->ignore, d->name)) continue;
    bool always = word_in(w->always, d->name);
    if ((attr_is_default(d, w->n->attrs) && !always) || means_nothing(w, d)) continue;
    if (word_in("at_end channels_last into materialize quantize_state", d->name)) {
      w->refused = str_printf(w->out->arena, "ONNX has no attribute '%s'", d->name);
      return TENON_OK;
    }
    for (int64_t k = 0; k < ARRAY_LEN(newer); k++)
      if (!strcmp(newer[k].op, w->op) && !strcmp(newer[k].attr, d->name))
        w->since = MAX(w->since, newer[k].since);
    put_attr(w, d, (const char *)w->n->attrs + d->offset);
  }
  return TENON_OK;
}

// ---- tensors ----

void onnx_tensor(Proto *p, const char *name, DType t, int rank, const int64_t *dims, int64_t n,
                 const void *data) {
  for (int i = 0; i < rank; i++) proto_int(p, TENSOR_DIMS, dims[i]);
  proto_int(p, TENSOR_TYPE, (int64_t)t);
  if (name) proto_text(p, TENSOR_NAME, name);
  const Str *text = data;
  int64_t bytes = 0;
  if (t == DT_STRING)
    for (int64_t i = 0; i < n; i++) proto_bytes(p, TENSOR_STRINGS, text[i]);
  else if (dtype_bytes(t, n, &bytes))
    proto_bytes(p, TENSOR_RAW, (Str){data, bytes});
}

tenon_status onnx_const_tensor(OnnxOut *o, const Node *c, Proto *p, const char *name) {
  const Type *t = type_of(c);
  const void *data;
  int64_t dims[MAX_RANK];
  TRY(const_bytes(o->g, c, &data, o->diag));
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  onnx_tensor(p, name, t->dtype, t->rank, dims, c->data->n, data);
  return TENON_OK;
}

// ---- types ----

static void put_shape(Proto *tensor, const Type *t) {
  enum { DIM_VALUE = 1, DIM_PARAM = 2, SHAPE_DIM = 1, TENSOR_TYPE_SHAPE = 2 };
  Proto shape;
  proto_init(&shape, tensor->arena);
  for (int i = 0; i < t->rank; i++) {
    Proto dim;
    Dim d = t->dims[i];
    proto_init(&dim, tensor->arena);
    if (ie_is_const(d)) {
      proto_int(&dim, DIM_VALUE, d->value);
    } else if (!ie_has_fresh(d)) {  // what only the data says has no name
      StrBuf b;
      strbuf_init(&b, tensor->arena);
      if (d->kind == IE_SYM)
        strbuf_put(&b, (Str){d->name, d->value});
      else
        ie_print(&b, d);
      proto_bytes(&dim, DIM_PARAM, strbuf_str(&b));
    }
    proto_message(&shape, SHAPE_DIM, &dim);
  }
  proto_message(tensor, TENSOR_TYPE_SHAPE, &shape);
}

void onnx_type(Proto *p, const Type *t) {
  enum {
    TYPE_TENSOR = 1,
    TYPE_SEQUENCE = 4,
    TYPE_MAP = 5,
    TYPE_OPTIONAL = 9,
    ELEM = 1,
    MAP_VALUE = 2
  };
  Proto inner, elem;
  proto_init(&inner, p->arena);
  proto_init(&elem, p->arena);
  switch ((TypeKind)t->kind) {
  case TK_NONE: break;
  case TK_TENSOR:
    proto_int(&inner, ELEM, (int64_t)t->dtype);
    if (t->rank >= 0) put_shape(&inner, t);
    proto_message(p, TYPE_TENSOR, &inner);
    break;
  case TK_SEQUENCE:
  case TK_OPTIONAL:
    onnx_type(&elem, t->elem);
    proto_message(&inner, ELEM, &elem);
    proto_message(p, t->kind == TK_SEQUENCE ? TYPE_SEQUENCE : TYPE_OPTIONAL, &inner);
    break;
  case TK_MAP:
    onnx_type(&elem, t->elem);
    proto_int(&inner, ELEM, (int64_t)t->dtype);
    proto_message(&inner, MAP_VALUE, &elem);
    proto_message(p, TYPE_MAP, &inner);
    break;
  }
}
