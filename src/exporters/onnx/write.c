// write.c -- a graph as an ONNX model.
//
// Every node of the graph becomes one of the file, in order, and constants initializers of the main
// graph, which bodies see, too.  The operator set is the newest that an op, an attribute or a type
// of the graph needs, at least ONNX_OPSET.  Names are the graph's; one that stands for two values
// gets a number.  A result that no node of its body makes (a parameter, a constant, the same one
// twice) goes through Identity.
//
// Needs:      a graph without fused kernels and laid-out convolutions.
// Guarantees: the file is whole or not there; constants past what a protobuf message can hold lie
//             in FILE.data.
#include "exporters/onnx/write.h"

#include "base/platform.h"
#include "ir/internal.h"

enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_DOMAIN = 7 };
enum {
  MODEL_IR = 1,
  MODEL_PRODUCER = 2,
  MODEL_PRODUCER_VERSION = 3,
  MODEL_GRAPH = 7,
  MODEL_OPSET = 8
};
static const int64_t MAX_INLINE = 1900000000;  // a protobuf message ends at 2 GiB

// ---- names ----

static const char *name_of(OnnxOut *o, OnnxScope *s, const Node *n) {
  uint64_t known;
  if (n == o->g->none) return "";
  if (intmap_get(&s->name, (uint64_t)(uintptr_t)n, &known)) return (const char *)(uintptr_t)known;
  CHECK(n->op == OP_const, "a value of op %s has no name", op_name(n));
  if (intmap_get(&o->constant, (uint64_t)(uintptr_t)n, &known))
    return (const char *)(uintptr_t)known;
  const char *name = names_unique(&o->names, n->name && *n->name ? n->name : "constant");
  intmap_put(&o->constant, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)name);
  vec_push(o->arena, &o->constants, n);
  return name;
}

static void set_name(OnnxScope *s, const Node *n, const char *name) {
  intmap_put(&s->name, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)name);
}

// The operator sets that types other than the usual ones came with.
static void note_type(OnnxOut *o, const Type *t) {
  for (; t && t->kind != TK_TENSOR; t = t->elem)
    if (t->kind == TK_NONE) return;
  if (!t) return;
  switch (t->dtype) {
  case DT_BF16: o->opset = MAX(o->opset, 22); break;
  case DT_F4E2M1: o->opset = MAX(o->opset, 23); break;
  case DT_F8E8M0: o->opset = MAX(o->opset, 24); break;
  case DT_U2:
  case DT_I2: o->opset = MAX(o->opset, 25); break;
  default: break;
  }
}

static void value_info(OnnxOut *o, Proto *graph, int field, const char *name, const Type *t) {
  enum { INFO_NAME = 1, INFO_TYPE = 2 };
  Proto info, type;
  proto_init(&info, o->arena);
  proto_init(&type, o->arena);
  proto_text(&info, INFO_NAME, name);
  if (t->kind != TK_TENSOR || t->dtype) {
    onnx_type(&type, t);
    proto_message(&info, INFO_TYPE, &type);
  }
  note_type(o, t);
  proto_message(graph, field, &info);
}

// ---- nodes ----

// Which of a node's results are used in this body, by projection.
typedef struct Uses {
  IntMap proj;  // node and result -> proj node
} Uses;
static uint64_t use_key(const Node *n, int64_t i) {
  return hash_u64((uint64_t)(uintptr_t)n) ^ hash_u64((uint64_t)i + 1);
}

static bool is_optional_result(const OpInfo *info, int i) {
  const char *p = info->results;
  for (; p && *p && i; i--) {
    p += strcspn(p, " ");
    p += *p == ' ';
  }
  return p && *p && p[strcspn(p, " ") - 1] == '?';
}

static void put_outputs(OnnxNodeOut *w, Proto *node, const Uses *uses) {
  OnnxOut *o = w->out;
  const Node *n = w->n;
  const char *base = n->name && *n->name ? n->name : op_name(n);
  if (n->nres == 1) {
    uint64_t known;
    if (!intmap_get(&w->scope->name, (uint64_t)(uintptr_t)n, &known))
      set_name(w->scope, n, names_unique(&o->names, base));
    proto_text(node, NODE_OUTPUT, name_of(o, w->scope, n));
    return;
  }
  int last = n->nres - 1;
  uint64_t proj, known;
  while (last > 0 && !intmap_get(&uses->proj, use_key(n, last), &proj) &&
         is_optional_result(op_info(n->op), last))
    last--;
  for (int i = 0; i <= last; i++) {
    if (!intmap_get(&uses->proj, use_key(n, i), &proj)) {
      proto_text(node, NODE_OUTPUT,
                 is_optional_result(op_info(n->op), i) ? "" : names_unique(&o->names, base));
      continue;
    }
    const Node *p = (const Node *)(uintptr_t)proj;
    if (!intmap_get(&w->scope->name, proj, &known))
      set_name(w->scope, p, names_unique(&o->names, p->name && *p->name ? p->name : base));
    proto_text(node, NODE_OUTPUT, name_of(o, w->scope, p));
  }
}

// Splits "com.microsoft.Inverse".
static void set_op(OnnxNodeOut *w, const char *full) {
  const char *dot = strrchr(full, '.');
  w->op = dot ? dot + 1 : full;
  w->domain = dot ? str_copy(w->out->arena, (Str){full, dot - full}) : "";
}

static void note_opset(OnnxNodeOut *w) {
  OnnxOut *o = w->out;
  if (!*w->domain) o->opset = MAX(o->opset, w->since);
  if (!strcmp(w->domain, "ai.onnx.ml")) o->ml = MAX(o->ml, w->since);
  if (!strcmp(w->domain, "com.microsoft")) o->microsoft = true;
}

static tenon_status put_node(OnnxOut *o, OnnxScope *s, const Node *n, const Uses *uses) {
  OnnxNodeOut w = {.out = o, .scope = s, .n = n, .src = n->src, .nsrc = n->nsrc};
  const char *full;
  w.since = onnx_since(n, &full);
  if (!full) {
    for (int i = 0; i < n->nres; i++) {
      uint64_t proj;
      const Node *v = n->nres == 1 ? n
                      : intmap_get(&uses->proj, use_key(n, i), &proj)
                          ? (const Node *)(uintptr_t)proj
                          : NULL;
      if (v) set_name(s, v, "?");
    }
    refuse_op(&o->refused, o->arena, n, op_name(n),
              "ONNX has no such operator, and it is not made of others");
    return TENON_OK;
  }
  set_op(&w, full);
  proto_init(&w.attrs, o->arena);
  const OnnxForm *f = onnx_form(n->op);
  if (f) w.ignore = f->ignore, w.always = f->always;
  if (f && f->fn) TRY(f->fn(&w));
  TRY(onnx_attrs(&w));
  int64_t types = *w.domain ? 0 : onnx_types_since(w.op, n, w.nsrc);
  if (types < 0) w.refused = onnx_types_refused(o->arena, n, w.nsrc);
  w.since = MAX(w.since, types);
  Proto node;
  proto_init(&node, o->arena);
  for (uint32_t i = 0; i < w.nsrc; i++) proto_text(&node, NODE_INPUT, name_of(o, s, w.src[i]));
  put_outputs(&w, &node, uses);
  if (n->name && *n->name) proto_text(&node, NODE_NAME, names_unique(&o->nodes, n->name));
  proto_text(&node, NODE_OP, w.op);
  if (*w.domain) proto_text(&node, NODE_DOMAIN, w.domain);
  if (n->op == OP_attention && n->nsrc > 6) w.since = MAX(w.since, 24);
  note_opset(&w);
  for (int i = 0; i < n->nres; i++) note_type(o, n->type[i]);
  if (w.refused) refuse_op(&o->refused, o->arena, n, w.op, w.refused);
  for (int64_t i = 0; i < w.attrs.part.n; i++) {  // as they are: fields of the node
    vec_push(o->arena, &node.part, (proto_flush(&node), w.attrs.part.v[i]));
    node.total += w.attrs.part.v[i].n;
  }
  strbuf_put(&node.tail, strbuf_str(&w.attrs.tail));
  node.total += w.attrs.tail.n;
  proto_message(s->graph, GRAPH_NODE, &node);
  return TENON_OK;
}

static void put_identity(OnnxOut *o, OnnxScope *s, const char *from, const char *to) {
  Proto node;
  proto_init(&node, o->arena);
  proto_text(&node, NODE_INPUT, from);
  proto_text(&node, NODE_OUTPUT, to);
  proto_text(&node, NODE_OP, "Identity");
  proto_message(s->graph, GRAPH_NODE, &node);
}

// ---- bodies ----

static bool is_made_here(const Body *b, const Node *n) {
  if (n->op == OP_const || n->op == OP_none) return false;
  for (int64_t i = 0; i < b->nparams; i++)
    if (b->param[i] == n) return false;
  return true;
}

static tenon_status put_body(OnnxOut *o, OnnxScope *s, const Body *b,
                             const char *const *result_name) {
  NodeList order = body_order(o->g, b, o->arena);
  Uses uses;
  intmap_init(&uses.proj, o->arena);
  for (int64_t i = 0; i < order.n; i++)
    if (order.v[i]->op == OP_proj)
      intmap_put(&uses.proj,
                 use_key(order.v[i]->src[0], ((const proj_attrs *)order.v[i]->attrs)->index),
                 (uint64_t)(uintptr_t)order.v[i]);
  const char **given = arena_array(o->arena, const char *, b->nresults + 1);
  for (int64_t i = 0; i < b->nresults; i++) {
    uint64_t known;
    bool direct = is_made_here(b, b->result[i]) &&
                  !intmap_get(&s->name, (uint64_t)(uintptr_t)b->result[i], &known);
    given[i] = result_name
                   ? result_name[i]
                   : names_unique(&o->names, b->result[i]->name ? b->result[i]->name : "result");
    if (direct) set_name(s, b->result[i], given[i]);
  }
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (n->op == OP_const || n->op == OP_param || n->op == OP_proj || n->op == OP_none) continue;
    TRY(put_node(o, s, n, &uses));
  }
  for (int64_t i = 0; i < b->nresults; i++) {
    const char *name = name_of(o, s, b->result[i]);
    if (name != given[i]) put_identity(o, s, name, given[i]);
    value_info(o, s->graph, GRAPH_OUTPUT, given[i], type_of(b->result[i]));
  }
  return TENON_OK;
}

tenon_status onnx_attr_body(OnnxNodeOut *w, const char *name, const Body *b, int64_t own,
                            uint32_t first) {
  enum { NODE_ATTRIBUTE = 5, ATTR_NAME = 1, ATTR_G = 6, ATTR_TYPE = 20, KIND_GRAPH = 5 };
  OnnxOut *o = w->out;
  Proto graph, attr;
  proto_init(&graph, o->arena);
  proto_init(&attr, o->arena);
  OnnxScope s = {.graph = &graph};
  intmap_init(&s.name, o->arena);
  for (int64_t i = 0; i < b->nparams; i++) {
    const Node *p = b->param[i];
    if (i >= own) {
      set_name(&s, p, name_of(o, w->scope, w->n->src[first + (uint32_t)(i - own)]));
      continue;
    }
    const char *unique = names_unique(&o->names, p->name && *p->name ? p->name : "param");
    set_name(&s, p, unique);
    value_info(o, &graph, GRAPH_INPUT, unique, type_of(p));
  }
  proto_text(&graph, GRAPH_NAME, b->name && *b->name ? b->name : name);
  TRY(put_body(o, &s, b, NULL));
  proto_text(&attr, ATTR_NAME, name);
  proto_message(&attr, ATTR_G, &graph);
  proto_int(&attr, ATTR_TYPE, KIND_GRAPH);
  proto_message(&w->attrs, NODE_ATTRIBUTE, &attr);
  return TENON_OK;
}

// ---- constants ----

static int64_t bytes_of(const Node *c) {
  int64_t bytes = 0;
  return type_of(c)->dtype != DT_STRING && dtype_bytes(type_of(c)->dtype, c->data->n, &bytes)
             ? bytes
             : 0;
}

typedef VEC(Str) StrParts;

// A constant beside the model: where, from which byte and how many.
static void external(OnnxOut *o, const Node *c, const char *name, const char *file, int64_t at,
                     Proto *t) {
  enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2
  };
  const char *entry[3][2] = {{"location", file},
                             {"offset", str_printf(o->arena, "%lld", (long long)at)},
                             {"length", str_printf(o->arena, "%lld", (long long)bytes_of(c))}};
  const Type *type = type_of(c);
  for (int i = 0; i < type->rank; i++) proto_int(t, TENSOR_DIMS, type->dims[i]->value);
  proto_int(t, TENSOR_TYPE, (int64_t)type->dtype);
  proto_text(t, TENSOR_NAME, name);
  for (int i = 0; i < 3; i++) {
    Proto e;
    proto_init(&e, o->arena);
    proto_text(&e, ENTRY_KEY, entry[i][0]);
    proto_text(&e, ENTRY_VALUE, entry[i][1]);
    proto_message(t, TENSOR_EXTERNAL, &e);
  }
  proto_int(t, TENSOR_LOCATION, 1);
}

static tenon_status put_constants(OnnxOut *o, Proto *graph, const char *path,
                                  StrParts *external_data) {
  enum { EXTERNAL_MIN = 1024, ALIGN = 64 };
  static const char zeros[ALIGN];
  int64_t total = 0, at = 0, limit = o->o->external_from ? o->o->external_from : MAX_INLINE;
  const char *slash = strrchr(path, '/');
  const char *file = str_printf(o->arena, "%s.data", slash ? slash + 1 : path);
  for (int64_t i = 0; i < o->constants.n; i++)
    if (!ck_add(total, bytes_of(o->constants.v[i]), &total)) return TENON_EINVAL;
  bool away = total >= limit;
  for (int64_t i = 0; i < o->constants.n; i++) {
    const Node *c = o->constants.v[i];
    const char *name = name_of(o, &(OnnxScope){.name = o->constant}, c);
    Proto t;
    proto_init(&t, o->arena);
    note_type(o, type_of(c));
    if (away && bytes_of(c) >= EXTERNAL_MIN) {
      const void *data;
      TRY(const_bytes(o->g, c, &data, o->diag));
      external(o, c, name, file, at, &t);
      vec_push(o->arena, external_data, ((Str){data, bytes_of(c)}));
      at += bytes_of(c);
      if (at % ALIGN) vec_push(o->arena, external_data, ((Str){zeros, ALIGN - at % ALIGN}));
      at += (ALIGN - at % ALIGN) % ALIGN;
    } else {
      TRY(onnx_const_tensor(o, c, &t, name));
    }
    proto_message(graph, GRAPH_INITIALIZER, &t);
  }
  return TENON_OK;
}

// ---- the model ----

static void put_opset(OnnxOut *o, Proto *model, const char *domain, int64_t version) {
  enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
  Proto p;
  proto_init(&p, o->arena);
  proto_text(&p, OPSET_DOMAIN, domain);
  proto_int(&p, OPSET_VERSION, version);
  proto_message(model, MODEL_OPSET, &p);
}

// The version of the format that an operator set was published with.
static int64_t ir_version(int64_t opset) {
  return opset <= 22 ? 10 : opset == 23 ? 11 : opset == 24 ? 12 : opset <= 27 ? 13 : 14;
}

static tenon_status put_memory(const OnnxOut *o, const Proto *model, bool whole) {
  if (!whole)
    return fail(o->diag, TENON_EUNSUPPORTED, NOWHERE,
                "the model is larger than one file can hold, and only one is made here");
  for (int64_t i = 0; i < model->part.n; i++) strbuf_put(o->o->memory, model->part.v[i]);
  return TENON_OK;
}

static tenon_status write_model(OnnxOut *o, Proto *graph, const char *path) {
  StrParts external_data = {0};
  Proto model;
  TRY(put_constants(o, graph, path, &external_data));
  TRY(refused_report(&o->refused, "ONNX", o->diag));
  proto_init(&model, o->arena);
  proto_int(&model, MODEL_IR, ir_version(o->opset));
  proto_text(&model, MODEL_PRODUCER, "tenon");
  proto_text(&model, MODEL_PRODUCER_VERSION, tenon_version());
  proto_message(&model, MODEL_GRAPH, graph);
  put_opset(o, &model, "", o->opset);
  if (o->ml) put_opset(o, &model, "ai.onnx.ml", MAX(o->ml, ONNX_ML));
  if (o->microsoft) put_opset(o, &model, "com.microsoft", 1);
  proto_flush(&model);
  if (o->o->memory) return put_memory(o, &model, external_data.n == 0);
  if (external_data.n) {
    const char *data = str_printf(o->arena, "%s.data", path);
    if (o->o->external_data) TRY(o->o->external_data(o->o->external_data_ctx, data));
    vec_push(o->arena, &external_data, str_of(FILE_MARK));  // behind the last tensor
    TRY(file_write_parts(data, external_data.v, (int)external_data.n, o->diag));
  }
  return file_write_parts(path, model.part.v, (int)model.part.n, o->diag);
}

tenon_status export_onnx(Graph *g, const char *path, const ExportOptions *options, Diag *d) {
  g->diag = d;
  TRY(export_prepare(g, onnx_rewrites, onnx_nrewrites, onnx_writes, options));
  OnnxOut o = {.g = g, .arena = &g->arena, .diag = d, .o = options, .opset = ONNX_OPSET};
  const Body *b = g->main;
  Proto graph;
  proto_init(&graph, o.arena);
  names_init(&o.names, o.arena);
  names_init(&o.nodes, o.arena);
  intmap_init(&o.constant, o.arena);
  OnnxScope s = {.graph = &graph};
  intmap_init(&s.name, o.arena);
  proto_text(&graph, GRAPH_NAME, b->name && *b->name ? b->name : "main");
  for (int64_t i = 0; i < b->nparams; i++) {
    const char *name = names_unique(&o.names, b->param[i]->name ? b->param[i]->name : "input");
    set_name(&s, b->param[i], name);
    value_info(&o, &graph, GRAPH_INPUT, name, type_of(b->param[i]));
  }
  const char **result = arena_array(o.arena, const char *, b->nresults + 1);
  for (int64_t i = 0; i < b->nresults; i++)
    result[i] =
        names_unique(&o.names, b->result_name && b->result_name[i] ? b->result_name[i] : "output");
  TRY(put_body(&o, &s, b, result));
  return write_model(&o, &graph, path);
}
