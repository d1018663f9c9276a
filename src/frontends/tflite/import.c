// import.c -- TensorFlow Lite models as graphs: sub-graphs, states, what cannot be supported
// (import.h).
//
// Sub-graph 0 is the model.  Others are imported where they are called, with the types of the
// values that they get.  A variable tensor keeps its contents from one call to the next: the graph
// gives its next value as a further result, and takes the present one as an input where the caller
// says so; else it is what a model begins with, zeros (of a quantised one, its zero point).
#include "eval/foreign.h"
#include "frontends/tflite/import.h"

enum { MOST_OPERATORS = 1 << 20, DEEPEST_CALL = 64 };

static bool is_given(const TflImport *im, const char *name) {
  for (int64_t i = 0; i < im->in->given.n; i++)
    if (str_is(im->in->given.v[i], name)) return true;
  return false;
}

// Names of inputs, and of outputs, are each there once.
static const char *unique_name(Graph *g, StrMap *taken, int64_t n, const char *name) {
  while (strmap_has(taken, str_of(name)))
    name = str_printf(&g->arena, "%s_%lld", name, (long long)n);
  strmap_put(taken, str_of(name), g);
  return name;
}

// ---- constants ----

static const void *elements(TflImport *im, const TflTensor *t, int64_t bytes) {
  void *out = arena_alloc(&im->g->arena, MAX(bytes, 8));
  if (fb_has(&t->sparsity)) {
    if (tfl_densify(im, t, out, bytes)) return NULL;
  } else {
    memcpy(out, t->data.p, (size_t)bytes);
  }
  return out;
}

// A complex number is two floats in the file as well.
static Node *complex_const(TflImport *im, const TflTensor *t, Where at) {
  TflTensor pairs = *t;
  if (t->rank + 1 > MAX_RANK || t->n > INT64_MAX / 2 || fb_has(&t->sparsity))
    return graph_fail(im->g, TENON_EUNSUPPORTED, at,
                      "a complex constant that is sparse or of rank %d", t->rank);
  pairs.dtype = t->dtype == DT_C128 ? DT_F64 : DT_F32;
  pairs.dims[pairs.rank++] = 2;
  pairs.n = 2 * t->n;
  return tfl_const(im, &pairs);
}

Node *tfl_const(TflImport *im, const TflTensor *t) {
  Graph *g = im->g;
  Where at = {.node = t->name};
  if (g->status) return g->poison;
  bool empty = !t->data.p && t->n == 0 && t->dtype && !t->variable;
  if (!t->data.p && !empty) return NULL;
  if (!t->dtype || t->dtype == DT_STRING)
    return graph_fail(g, TENON_EUNSUPPORTED, at, "a constant of strings or resources");
  if (tfl_is_complex(t)) return complex_const(im, t, at);
  Node *attached =
      weights_attach(g, im->in->attach, str_of(t->name), t->dtype, t->rank, t->dims, at);
  if (attached) return attached;
  int64_t bytes;
  if (!dtype_bytes(t->dtype, t->n, &bytes))
    return graph_fail(g, TENON_EFORMAT, at, "too many elements");
  if (empty) return node_const(g, t->dtype, t->rank, t->dims, "", t->name);
  int64_t each = MAX(dtype_bits(t->dtype) / 8, 1), offset = (const uint8_t *)t->data.p - im->m.fb.p;
  if (!fb_has(&t->sparsity) && offset % MIN(each, 8) == 0)
    return node_const_source(g, t->dtype, t->rank, t->dims, g->source.v[0], offset, bytes, t->name);
  int64_t most = g->memory_limit ? g->memory_limit : INT64_C(1) << 33;
  if (bytes > most)
    return graph_fail(g, TENON_EUNSUPPORTED, at, "%lld bytes when unpacked", (long long)bytes);
  const void *p = elements(im, t, bytes);
  return p ? node_const(g, t->dtype, t->rank, t->dims, p, t->name) : g->poison;
}

// ---- types of inputs ----

static const Type *input_type(TflImport *im, const TflTensor *t, int64_t position) {
  Graph *g = im->g;
  const InputType *given = frontend_type(im->in, str_of(t->name), position);
  if (given) return frontend_type_of(g, given);
  if (!t->dtype || tfl_is_complex(t)) return NULL;
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) {
    const char *name = str_printf(&g->arena, "d%d_%lld", i, (long long)position);
    dims[i] =
        t->open[i] ? ie_sym(&g->dims, str_of(name), 0, INT64_MAX) : ie_const(&g->dims, t->dims[i]);
  }
  return type_tensor(g, t->dtype, t->rank, dims);
}

// ---- states ----

static Node *initial(TflImport *im, const TflTensor *t) {
  Graph *g = im->g;
  double zero = t->dtype == DT_I8 && t->zero.n ? (double)fb_i64_at(&t->zero, 0) : 0;
  if (t->data.p) return tfl_const(im, t);
  return tb_full(g, node_i64s(g, t->rank, t->dims), t->dtype, zero);
}

Node *tfl_first_value(TflImport *im, const char *name, Node *dflt) {
  Graph *g = im->g;
  if (g->status) return g->poison;
  if (is_given(im, name)) {
    Node *n = node_param(g, type_of(dflt), unique_name(g, &im->input_names, im->params.n, name));
    vec_push(&g->arena, &im->params, n);
    return n;
  }
  vec_push(&g->arena, &im->in->defaults, name);
  return dflt;
}

static void add_variables(TflImport *im, TflScope *s) {
  Graph *g = im->g;
  for (int64_t i = 0; i < s->sub->ntensors && !g->status; i++) {
    const TflTensor *t = &s->sub->tensor[i];
    if (!t->variable || s->value[i] || !t->dtype || t->dtype == DT_STRING) continue;
    Node *zero = initial(im, t);
    if (g->status) return;
    s->value[i] = tfl_first_value(im, t->name, zero);
    TflState one = {.name = t->name, .tensor = t, .value = s->value[i]};
    vec_push(&g->arena, &im->states, one);
  }
}

int64_t tfl_state(TflImport *im, Str name) {
  for (int64_t i = 0; i < im->states.n; i++)
    if (!im->states.v[i].tensor && str_is(name, im->states.v[i].name)) return i;
  TflState one = {.name = intern(&im->g->names, name)};
  vec_push(&im->g->arena, &im->states, one);
  return im->states.n - 1;
}

// ---- operators ----

// The first tensor that is no index says whether the operator works on quantised values.
static bool is_quantized(const TflOp *op) {
  for (int side = 0; side < 2; side++) {
    int n = side ? op->nout : op->nin;
    for (int i = 0; i < n; i++) {
      const TflTensor *t = side ? tfl_out_tensor(op, i) : tfl_in_tensor(op, i);
      if (!t || !tfl_is_quantized(t)) continue;
      int bits = dtype_bits(t->dtype);
      if (dtype_is_int(t->dtype) && bits <= 16) return true;
    }
  }
  return false;
}

// Operators whose plain form serves quantised values as well: it moves or compares integers.  Of
// some all values must have one quantisation.
static const struct {
  uint8_t code;
  bool same;
} moves[] = {{2, true},    {5, false},  {6, false},   {17, true},   {22, false},  {26, false},
             {31, false},  {36, true},  {37, true},   {38, true},   {39, true},   {43, false},
             {45, true},   {48, false}, {49, true},   {53, false},  {55, true},   {56, false},
             {57, true},   {60, true},  {64, true},   {65, true},   {69, true},   {70, false},
             {77, false},  {79, false}, {82, true},   {83, true},   {88, true},   {89, true},
             {97, true},   {100, true}, {102, true},  {105, true},  {107, true},  {109, false},
             {110, false}, {112, true}, {118, false}, {119, false}, {123, true},  {124, false},
             {129, false}, {130, true}, {142, false}, {143, false}, {144, false}, {151, true},
             {206, false}};

static bool same_quantization(const TflTensor *a, const TflTensor *b) {
  bool per_axis = a->scale.n != 1 || b->scale.n != 1;
  if (per_axis || fb_f32_at(&a->scale, 0) != fb_f32_at(&b->scale, 0)) return false;
  return (a->zero.n ? fb_i64_at(&a->zero, 0) : 0) == (b->zero.n ? fb_i64_at(&b->zero, 0) : 0);
}

static bool is_of(const TflTable *t, const TflRow *row) {
  return row >= t->row && row < t->row + t->n;
}

static bool may_move(TflOp *op) {
  int64_t k = 0;
  if (is_of(&tfl_quant, op->row) || is_of(&tfl_recurrent, op->row)) return true;
  while (k < ARRAY_LEN(moves) && moves[k].code != op->row->code) k++;
  if (k == ARRAY_LEN(moves)) {
    tfl_fail(op, "with quantised values");
    return false;
  }
  const TflTensor *first = NULL;
  for (int i = 0; moves[k].same && i < op->nin + op->nout; i++) {
    const TflTensor *t = i < op->nin ? tfl_in_tensor(op, i) : tfl_out_tensor(op, i - op->nin);
    if (!t || !tfl_is_quantized(t) || dtype_bits(t->dtype) > 16) continue;
    if (first && !same_quantization(first, t)) {
      tfl_fail(op, "'%s' and '%s' are quantised differently", first->name, t->name);
      return false;
    }
    first = t;
  }
  return true;
}

// Arithmetic whose bytes mean nothing without a scale: ADD to RELU6, sums, products.
static bool lacks_scale(TflOp *op) {
  static const uint8_t arithmetic[] = {0,  9,  18, 19, 20, 21,  40,  41,  42, 59,
                                       74, 81, 92, 98, 99, 101, 106, 126, 152};
  bool bytes = false, listed = false;
  for (int i = 0; i < op->nin; i++) {
    const TflTensor *t = tfl_in_tensor(op, i);
    bytes = bytes || (t && (t->dtype == DT_I8 || t->dtype == DT_U8));
  }
  for (int64_t i = 0; i < ARRAY_LEN(arithmetic); i++)
    listed = listed || arithmetic[i] == op->row->code;
  if (bytes && listed) tfl_fail(op, "bytes without quantisation");
  return bytes && listed;
}

// What an operator that is not supported is called, and why it is not; NULL: it is supported.
static const char *unsupported_name(TflImport *im, const TflCode *c, const char **why) {
  Arena *a = &im->g->arena;
  const TflRow *row = tfl_row(c);
  *why = "it has no mapping";
  if (row && c->version <= row->version) return NULL;
  if (c->builtin == TFL_CUSTOM) {
    *why = "custom operators are programs of their own; convert the model without them";
    return str_printf(a, "custom operator %.*s", STR_ARG(c->custom));
  }
  if (!row || !row->version)
    return row ? row->name : str_printf(a, "builtin operator %lld", (long long)c->builtin);
  *why = str_printf(a, "versions up to %d are read", row->version);
  return str_printf(a, "%s version %lld", row->name, (long long)c->version);
}

// An operator that is not supported stands in the graph as itself, for `inspect` and drawings; its
// results have the types that the file states, so that what follows can be read.
static void import_unknown(TflOp *op, const char *name) {
  Graph *g = op->g;
  Node **in = arena_array(&g->arena, Node *, op->nin + 1);
  for (int i = 0; i < op->nin; i++) in[i] = tfl_in_tensor(op, i) ? tfl_in(op, i) : g->none;
  foreign_attrs at = {.op = str_of(name)};
  if (g->status || !op->nout) return;
  Node *f = node_new(g, OP_foreign, op->nin, in, &at, op->nout, op->at.node);
  for (int i = 0; i < op->nout && !g->status; i++) {
    const TflTensor *t = tfl_out_tensor(op, i);
    if (!t || !t->dtype || tfl_is_complex(t)) continue;
    tfl_give(op, i, tb_reshape(g, tb_cast(g, node_proj(g, f, i), t->dtype), t->rank, t->dims));
  }
}

static void import_operator(TflImport *im, TflScope *s, const TflOperator *o) {
  TflOp op = {.im = im, .g = im->g, .scope = s, .o = o, .code = &im->m.code[o->code]};
  op.row = tfl_row(op.code);
  op.nin = (int)MIN(o->in.n, INT32_MAX);
  op.nout = (int)MIN(o->out.n, INT32_MAX);
  const TflTensor *first = tfl_out_tensor(&op, 0);
  op.at = (Where){.node = first ? first->name : s->sub->name};
  const char *why, *unknown = unsupported_name(im, op.code, &why);
  if (unknown) {
    import_unknown(&op, unknown);
    return;
  }
  op.at.op = op.row->name;
  if (++im->work > MOST_OPERATORS) {
    tfl_fail(&op, "more than %d operators, those of called sub-graphs counted at each call",
             MOST_OPERATORS);
    return;
  }
  Where base = im->g->diag->base;
  im->g->diag->base.node = op.at.node;
  im->g->diag->base.op = op.at.op;
  bool quantized = is_quantized(&op);
  bool takes = op.row->code == TFL_CUSTOM && op.row->arg == TFL_TAKES_QUANTIZED;
  TflFn *special = !quantized ? NULL : takes ? op.row->fn : tfl_quantized(op.code->builtin);
  TflFn *fn = special ? special : op.row->fn;
  if (!fn)
    tfl_fail(&op, "with values that are not quantised");
  else if (special || (quantized ? may_move(&op) : !lacks_scale(&op)))
    switch (tfl_complex_fits(&op)) {
    case TFL_COMPLEX_PLAIN: fn(&op); break;
    case TFL_COMPLEX_PARTS: tfl_import_parts(&op, fn); break;
    case TFL_COMPLEX_NONE: break;
    }
  if (!im->g->status && im->m.fb.status) im->g->status = im->m.fb.status;  // in its options
  im->g->diag->base = base;
}

// Operators have no names: what is made of one is named after its first result.
static void import_operators(TflImport *im, TflScope *s) {
  const char *origin = im->g->origin;
  for (int64_t i = 0; i < s->sub->nops && !im->g->status; i++) {
    const TflOperator *o = &s->sub->op[i];
    int64_t k = o->out.n ? fb_i32_at(&o->out, 0) : -1;
    bool named = k >= 0 && k < s->sub->ntensors;
    im->g->origin = named ? intern(&im->g->names, str_of(s->sub->tensor[k].name)) : origin;
    import_operator(im, s, o);
  }
  im->g->origin = origin;
}

static Node *result_of(TflImport *im, TflScope *s, int64_t i) {
  int64_t k = fb_i32_at(&s->sub->out, i);
  if (im->g->status) return im->g->poison;
  if (tfl_is_complex(&s->sub->tensor[k]))
    return graph_fail(im->g, TENON_EUNSUPPORTED, (Where){.node = s->sub->name},
                      "its output '%s' is complex", s->sub->tensor[k].name);
  if (!s->value[k]) s->value[k] = tfl_const(im, &s->sub->tensor[k]);
  if (s->value[k]) return s->value[k];
  return graph_fail(im->g, TENON_EINVAL, (Where){.node = s->sub->name},
                    "nothing computes its output '%s'", s->sub->tensor[k].name);
}

const TflSubgraph *tfl_subgraph(TflOp *op, int64_t index) {
  if (op->g->status) return NULL;
  if (index < 0 || index >= op->im->m.nsubs) {
    tfl_fail(op, "sub-graph %lld of %lld", (long long)index, (long long)op->im->m.nsubs);
    return NULL;
  }
  const TflSubgraph *sub = &op->im->m.sub[index];
  int depth = 0;
  for (const TflScope *s = op->scope; s; s = s->outer) {
    if (s->sub == sub || ++depth > DEEPEST_CALL) {
      tfl_fail(op, "sub-graph '%s' calls itself, or calls are nested too deep", sub->name);
      return NULL;
    }
  }
  return sub;
}

bool tfl_call(TflOp *op, int64_t index, bool inside, int64_t nargs, Node *const *args, Node **out,
              int64_t nout) {
  const TflSubgraph *sub = tfl_subgraph(op, index);
  if (!sub) return false;
  if (sub->in.n != nargs || sub->out.n != nout) {
    tfl_fail(op, "sub-graph '%s' has %lld inputs and %lld outputs, must have %lld and %lld",
             sub->name, (long long)sub->in.n, (long long)sub->out.n, (long long)nargs,
             (long long)nout);
    return false;
  }
  TflScope s = {.sub = sub, .outer = op->scope, .inside = inside || op->scope->inside};
  s.value = arena_array(&op->g->arena, Node *, sub->ntensors + 1);
  for (int64_t i = 0; i < nargs; i++) s.value[fb_i32_at(&sub->in, i)] = args[i];
  import_operators(op->im, &s);
  for (int64_t i = 0; i < nout; i++) out[i] = result_of(op->im, &s, i);
  return !op->g->status;
}

// ---- what cannot be supported, all of it ----

static void check_supported(TflImport *im, const TflSubgraph *sub, const TflOperator *o) {
  const char *node = o->out.n ? sub->tensor[fb_i32_at(&o->out, 0)].name : sub->name;
  const char *why, *name = unsupported_name(im, &im->m.code[o->code], &why);
  if (name) frontend_unsupported(im->in, name, why, node);
}

// The sub-graphs that an operator calls; -1: none.
static void calls_of(const TflImport *im, const TflOperator *o, int64_t *called) {
  int64_t code = im->m.code[o->code].builtin;
  bool two = code == 118 || code == 119,
       one = two || code == 31 || code == 129;  // IF, WHILE, CALL, CALL_ONCE
  called[0] = one ? fb_i32(&o->options, 0, 0) : code == 206 ? fb_i32(&o->options2, 1, 0) : -1;
  called[1] = two ? fb_i32(&o->options, 1, 0) : -1;
}

// Of the sub-graphs that one reaches: a file may hold others, for other signatures.
static bool is_supported(TflImport *im, int64_t start) {
  Arena *a = &im->g->arena;
  bool *seen = arena_array(a, bool, im->m.nsubs + 1);
  int64_t *todo = arena_array(a, int64_t, im->m.nsubs + 1), n = 0;
  todo[n++] = start;
  seen[start] = true;
  while (n) {
    const TflSubgraph *sub = &im->m.sub[todo[--n]];
    for (int64_t i = 0; i < sub->nops; i++) {
      int64_t called[2];
      check_supported(im, sub, &sub->op[i]);
      calls_of(im, &sub->op[i], called);
      for (int k = 0; k < 2; k++)
        if (called[k] >= 0 && called[k] < im->m.nsubs && !seen[called[k]]) {
          seen[called[k]] = true;
          todo[n++] = called[k];
        }
    }
  }
  return !im->in->unsupported.n;
}

// ---- the model ----

static tenon_status add_inputs(TflImport *im, TflScope *s) {
  Graph *g = im->g;
  for (int64_t i = 0; i < s->sub->in.n; i++) {
    int64_t k = fb_i32_at(&s->sub->in, i);
    const TflTensor *t = &s->sub->tensor[k];
    if (s->value[k])
      return fail(g->diag, TENON_EINVAL, (Where){.node = t->name}, "is an input twice");
    const Type *type = input_type(im, t, i);
    if (!type)
      return fail(g->diag, TENON_EUNSUPPORTED, (Where){.node = t->name}, "an input of type %d",
                  t->type);
    const char *name = tfl_signature_name(&im->signature, 0, k, &g->arena);
    s->value[k] = node_param(g, type, unique_name(g, &im->input_names, i, name ? name : t->name));
    vec_push(&g->arena, &im->params, s->value[k]);
  }
  return graph_status(g);
}

static tenon_status finish(TflImport *im, TflScope *s, bool supported) {
  Graph *g = im->g;
  int64_t n = 0, most = s->sub->out.n + im->states.n;
  Node **result = arena_array(&g->arena, Node *, most + 1);
  const char **name = arena_array(&g->arena, const char *, most + 1);
  StrMap taken;
  strmap_init(&taken, &g->arena);
  for (int64_t i = 0; supported && i < s->sub->out.n; i++) {
    int64_t k = fb_i32_at(&s->sub->out, i);
    const char *own = tfl_signature_name(&im->signature, 1, k, &g->arena);
    result[n] = result_of(im, s, i);
    name[n] = unique_name(g, &taken, n, own ? own : s->sub->tensor[k].name);
    n++;
  }
  for (int64_t i = 0; supported && i < im->states.n; i++) {
    if (!im->states.v[i].changed) continue;
    result[n] = im->states.v[i].value;
    name[n] = unique_name(g, &taken, n, im->states.v[i].name);
    n++;
  }
  TRY(graph_status(g));
  Body *b = body_new(g, "main", im->params.n, im->params.v, n, result);
  g->body.n--;  // main is not among the bodies of control flow
  for (int64_t i = 0; i < n; i++) b->result_name[i] = name[i];
  g->main = b;
  return graph_status(g);
}

static tenon_status import_tflite(Imported *in, Diag *d) {
  TRY(frontend_begin(in, d));
  TflImport *im = arena_new(&in->graph->arena, TflImport);
  im->in = in;
  im->g = in->graph;
  strmap_init(&im->input_names, &im->g->arena);
  TRY(tfl_read(in, d, &im->m));
  in->about = str_printf(&im->g->arena, "TensorFlow Lite, schema 3, %lld sub-graph%s",
                         (long long)im->m.nsubs, im->m.nsubs == 1 ? "" : "s");
  tfl_facts(in, &im->m);
  TRY(tfl_find_signature(in, &im->m, d, &im->signature));
  TflScope s = {.sub = &im->m.sub[im->signature.sub]};
  s.value = arena_array(&im->g->arena, Node *, s.sub->ntensors + 1);
  TRY(add_inputs(im, &s));
  bool supported = is_supported(im, im->signature.sub);
  int64_t said = d->len;
  add_variables(im, &s);
  import_operators(im, &s);
  tenon_status status = finish(im, &s, true);
  if (!status || supported) return status;
  // What follows an unknown operator may need to know more of it than the file says: the inputs are
  // shown alone.
  im->g->status = TENON_OK;
  d->status = TENON_OK;
  d->len = said;
  d->text[said] = 0;
  return finish(im, &s, false);
}

// An ONNX file whose producer is called TFL3 has these bytes at the same place, behind the keys of
// its first two fields.
static bool is_tflite(Str b) {
  return b.n >= 8 && !memcmp(b.p + 4, "TFL3", 4) && !(b.p[0] == 8 && !memcmp(b.p + 2, "\x12\4", 2));
}

const Frontend frontend_tflite = {.name = "tflite",
                                  .doc = "TensorFlow Lite models (schema 3)",
                                  .is = is_tflite,
                                  .import = import_tflite,
                                  .ops = tfl_list};
