// import.c -- an ONNX model as a graph.
//
// read.c decodes the bytes; here the model's header is checked, inputs become parameters,
// initializers constants, nodes are mapped one after another in the order of the file (which must
// be topological), and outputs the results of the main body.
//
// Guarantees: nothing of the model is executed; no weights are read; every message names node and
//             op.
// Does not:   optimise.
#include "frontends/onnx/import.h"
#include "ir/custom.h"

#include <stdio.h>

enum { MIN_IR = 3, MAX_OPSET = 28, MIN_OPSET = 1 };
// What inlining functions may blow a file up to: in proportion to the file, so that a small one
// stays quick.
static const int64_t MIN_INLINED = 20000, BYTES_AN_INLINED_NODE = 4,
                     MAX_INLINED = LIMIT_ONNX_INLINED;

static tenon_status check_header(Import *im) {
  const OnnxModel *m = im->model;
  Diag *d = im->g->diag;
  if (!m->has_graph) return fail(d, TENON_EFORMAT, NOWHERE, "the file holds no graph");
  if (m->ir_version < MIN_IR)
    return fail(
        d, TENON_EUNSUPPORTED, NOWHERE,
        "IR version %lld; Tenon reads version %d and later (convert with onnx.version_converter)",
        (long long)m->ir_version, MIN_IR);
  if (m->ir_version > 100)
    return fail(d, TENON_EFORMAT, NOWHERE, "IR version %lld does not exist",
                (long long)m->ir_version);
  if (!m->opsets.n) return fail(d, TENON_EFORMAT, NOWHERE, "the model imports no operator set");
  for (int64_t i = 0; i < m->opsets.n; i++) {
    const OnnxOpset *o = &m->opsets.v[i];
    bool standard = !o->domain.n || str_is(o->domain, "ai.onnx");
    if (o->version < 1 || (standard && o->version > MAX_OPSET))
      return fail(d, o->version < 1 ? TENON_EFORMAT : TENON_EUNSUPPORTED, NOWHERE,
                  "operator set %lld of domain '%.*s'; Tenon knows %d to %d of ai.onnx",
                  (long long)o->version, STR_ARG(o->domain), MIN_OPSET, MAX_OPSET);
    for (int64_t k = 0; k < i; k++)
      if (str_eq(m->opsets.v[k].domain, o->domain) && m->opsets.v[k].version != o->version)
        return fail(d, TENON_EFORMAT, NOWHERE,
                    "operator set of domain '%.*s' is imported as %lld and as %lld",
                    STR_ARG(o->domain), (long long)m->opsets.v[k].version, (long long)o->version);
  }
  return TENON_OK;
}

static tenon_status index_functions(Import *im) {
  strmap_init(&im->functions, im->arena);
  for (int64_t i = 0; i < im->model->functions.n; i++) {
    const OnnxFunction *f = &im->model->functions.v[i];
    Str key = str_of(str_printf(im->arena, "%.*s:%.*s:%.*s", STR_ARG(f->domain), STR_ARG(f->name),
                                STR_ARG(f->overload)));
    if (strmap_has(&im->functions, key))
      return fail(im->g->diag, TENON_EINVAL, NOWHERE, "function '%.*s' is defined twice",
                  STR_ARG(f->name));
    strmap_put(&im->functions, key, (void *)(uintptr_t)f);
  }
  return TENON_OK;
}

// An initializer of the main graph that is also an input is that input's default.
static bool is_given(const Import *im, const OnnxGraph *og, Str name) {
  if (og != &im->model->graph) return false;
  for (int64_t i = 0; i < im->result->given.n; i++)
    if (str_eq(im->result->given.v[i], name)) return true;
  return false;
}

// ---- how large the model is once its functions are inlined ----

typedef struct Sizer {
  Import *im;
  int64_t *size;  // by function; 0 = not counted yet, -1 = being counted
  int depth;
} Sizer;

static int64_t count_nodes(Sizer *z, const OnnxNode *nodes, int64_t n);

static int64_t count_function(Sizer *z, const OnnxFunction *f) {
  int64_t *size = &z->size[f - z->im->model->functions.v];
  if (*size < 0) return 1;  // calls itself: refused where it is inlined
  if (*size) return *size;
  *size = -1;
  return *size = 1 + count_nodes(z, f->nodes.v, f->nodes.n);
}

static int64_t count_node(Sizer *z, const OnnxNode *n) {
  int64_t total = 1;
  const OnnxFunction *f = import_find_function(z->im, n);
  if (f) total += count_function(z, f);
  for (int64_t i = 0; i < n->nattrs; i++) {
    const OnnxAttr *a = &n->attrs[i];
    if (a->g) total += count_nodes(z, a->g->nodes.v, a->g->nodes.n);
    for (int64_t k = 0; k < a->graphs.n; k++)
      total += count_nodes(z, a->graphs.v[k]->nodes.v, a->graphs.v[k]->nodes.n);
  }
  return total;
}

static int64_t count_nodes(Sizer *z, const OnnxNode *nodes, int64_t n) {
  enum { DEEP = 256 };
  int64_t total = 0;
  if (z->depth++ < DEEP)
    for (int64_t i = 0; i < n && total < 2 * MAX_INLINED; i++) {
      int64_t one = count_node(z, &nodes[i]);  // once: it is as deep as the model
      total += MIN(one, MAX_INLINED);
    }
  z->depth--;
  return total;
}

static tenon_status check_size(Import *im) {
  im->budget = MIN(MIN_INLINED + im->nbytes / BYTES_AN_INLINED_NODE, MAX_INLINED);
  Sizer z = {.im = im, .size = arena_array(im->arena, int64_t, im->model->functions.n)};
  int64_t n = count_nodes(&z, im->model->graph.nodes.v, im->model->graph.nodes.n);
  if (n <= im->budget) return TENON_OK;
  return fail(im->g->diag, TENON_EUNSUPPORTED, NOWHERE,
              "the model has %s%lld nodes once its functions are inlined; the limit for a file of "
              "%lld bytes is %lld",
              n >= MAX_INLINED ? "over " : "", (long long)MIN(n, MAX_INLINED),
              (long long)im->nbytes, (long long)im->budget);
}

tenon_status import_initializers(Import *im, const OnnxGraph *og) {
  for (int64_t i = 0; i < og->initializers.n; i++) {
    const OnnxTensor *t = &og->initializers.v[i];
    if (is_given(im, og, t->name)) continue;
    Where at = {.node = intern(&im->g->names, t->name), .op = "initializer"};
    Node *c = import_tensor(im, t, t->name, at);
    TRY(graph_status(im->g));
    TRY(scope_define(im, t->name, c, at));
  }
  for (int64_t i = 0; i < og->sparse_initializers.n; i++) {
    const OnnxSparse *s = &og->sparse_initializers.v[i];
    Where at = {.node = intern(&im->g->names, s->values.name), .op = "sparse initializer"};
    Node *c = import_sparse(im, s, s->values.name, at);
    TRY(graph_status(im->g));
    TRY(scope_define(im, s->values.name, c, at));
  }
  return TENON_OK;
}

static const char *type_text(Import *im, const Type *t) {
  StrBuf b;
  strbuf_init(&b, im->arena);
  type_print(&b, t);
  return strbuf_text(&b);
}

// A number that the caller knows for an integer input, which then is that constant: conditions that
// it decides are read as decided.
static tenon_status known_number(Import *im, Str name, const Type *t, Where at, Node **out) {
  const Imported *in = im->result;
  const InputType *known = NULL;
  *out = NULL;
  for (int64_t i = 0; i < in->ntypes; i++)
    if (in->types[i].fixed && str_eq(in->types[i].name, name)) known = &in->types[i];
  if (!known) return TENON_OK;
  int64_t dims[MAX_RANK];
  bool single = t->kind == TK_TENSOR && dtype_is_int(t->dtype) && t->rank >= 0;
  for (int i = 0; single && i < t->rank; i++) {
    dims[i] = 1;
    single = ie_is(t->dims[i], 1);
  }
  if (!single)
    return fail(im->g->diag, TENON_EINVAL, at, "the input is no single integer, but %s",
                type_text(im, t));
  uint64_t data = 0;
  put_i64(t->dtype, &data, 0, (int64_t)known->value);
  *out = node_const(im->g, t->dtype, t->rank, dims, &data, at.node);
  return graph_status(im->g);
}

// Every number must have an input.
static tenon_status check_numbers(Import *im) {
  const Imported *in = im->result;
  const OnnxGraph *og = &im->model->graph;
  for (int64_t i = 0; i < in->ntypes; i++) {
    int64_t k = 0;
    while (k < og->inputs.n && !str_eq(og->inputs.v[k].name, in->types[i].name)) k++;
    if (in->types[i].fixed && k == og->inputs.n)
      return fail(im->g->diag, TENON_EINVAL, NOWHERE, "there is no input '%.*s' that could be %lld",
                  STR_ARG(in->types[i].name), (long long)in->types[i].value);
  }
  return TENON_OK;
}

static tenon_status import_inputs(Import *im, NodeVec *params) {
  const OnnxGraph *og = &im->model->graph;
  for (int64_t i = 0; i < og->inputs.n; i++) {
    const OnnxValueInfo *vi = &og->inputs.v[i];
    Where at = {.node = intern(&im->g->names, vi->name), .op = "input"};
    if (strmap_has(&im->scope->value, vi->name)) {
      bool constant = ((Node *)strmap_get(&im->scope->value, vi->name))->op == OP_const;
      if (constant) {  // a default; older files list every initializer so
        vec_push(im->arena, &im->result->defaults, at.node);
        continue;
      }
      return fail(im->g->diag, TENON_EINVAL, at, "the name '%.*s' is defined twice",
                  STR_ARG(vi->name));
    }
    if (!vi->name.n)
      return fail(im->g->diag, TENON_EFORMAT, at, "input %lld has no name", (long long)i);
    const Type *t = import_type(im, &vi->type, vi->name, at);
    TRY(graph_status(im->g));
    if (!t) return fail(im->g->diag, TENON_EINVAL, at, "the input has no type");
    Node *p;
    TRY(known_number(im, vi->name, t, at, &p));
    bool bound = p != NULL;
    if (!bound) p = node_param(im->g, t, at.node);
    TRY(scope_define(im, vi->name, p, at));
    if (!bound) vec_push(im->arena, params, p);
  }
  return check_numbers(im);
}

// What the model says of an output must not contradict what its nodes compute.
static tenon_status check_output(Import *im, const OnnxValueInfo *vi, const Node *n, Where at) {
  const Type *said = import_type(im, &vi->type, vi->name, at), *is = type_of(n);
  TRY(graph_status(im->g));
  if (!said || said->kind != TK_TENSOR || is->kind != TK_TENSOR || !is->dtype) return TENON_OK;
  if (said->dtype != is->dtype)
    return fail(im->g->diag, TENON_EINVAL, at, "declared %s, but the graph computes %s",
                type_text(im, said), type_text(im, is));
  bool clash = said->rank >= 0 && is->rank >= 0 && said->rank != is->rank;
  for (int i = 0; !clash && said->rank > 0 && i < is->rank; i++)
    clash = ie_is_const(said->dims[i]) && ie_is_const(is->dims[i]) && said->dims[i] != is->dims[i];
  if (clash) {  // wrong in many files in use; the computed shape stands
    const char *w = str_printf(im->arena, "output '%.*s' is declared %s, but the graph computes %s",
                               STR_ARG(vi->name), type_text(im, said), type_text(im, is));
    vec_push(im->arena, &im->result->faults, w);
  }
  return TENON_OK;
}

static tenon_status import_main(Import *im) {
  const OnnxGraph *og = &im->model->graph;
  Scope scope = {0};
  strmap_init(&scope.value, im->arena);
  im->scope = &scope;
  TRY(import_initializers(im, og));
  NodeVec params = {0}, results = {0};
  TRY(import_inputs(im, &params));
  TRY(import_nodes(im, og->nodes.v, og->nodes.n));
  if (!og->outputs.n) return fail(im->g->diag, TENON_EFORMAT, NOWHERE, "the graph has no outputs");
  Body *b = NULL;
  for (int64_t i = 0; i < og->outputs.n; i++) {
    Where at = {.node = intern(&im->g->names, og->outputs.v[i].name), .op = "output"};
    Node *r = strmap_get(&scope.value, og->outputs.v[i].name);
    if (!r) return fail(im->g->diag, TENON_EINVAL, at, "no node computes this output");
    for (int64_t k = 0; k < i; k++)
      if (str_eq(og->outputs.v[k].name, og->outputs.v[i].name))
        return fail(im->g->diag, TENON_EINVAL, at, "the output is listed twice");
    TRY(check_output(im, &og->outputs.v[i], r, at));
    vec_push(im->arena, &results, r);
  }
  b = body_new(im->g, str_copy(im->arena, og->name), params.n, params.v, results.n, results.v);
  im->g->body.n--;  // main is not among the bodies of control flow
  for (int64_t i = 0; i < og->outputs.n; i++)
    b->result_name[i] = intern(&im->g->names, og->outputs.v[i].name);
  im->g->main = b;
  return TENON_OK;
}

static const char *about(Import *im) {
  const OnnxModel *m = im->model;
  StrBuf b;
  strbuf_init(&b, im->arena);
  strbuf_printf(&b, "ONNX, IR version %lld", (long long)m->ir_version);
  for (int64_t i = 0; i < m->opsets.n; i++)
    strbuf_printf(&b, ", %s%.*s %lld", m->opsets.v[i].domain.n ? "" : "opset",
                  STR_ARG(m->opsets.v[i].domain), (long long)m->opsets.v[i].version);
  if (m->producer_name.n) strbuf_printf(&b, ", by %.*s", STR_ARG(m->producer_name));
  if (m->producer_name.n && m->producer_version.n)
    strbuf_printf(&b, " %.*s", STR_ARG(m->producer_version));
  return strbuf_text(&b);
}

static tenon_status onnx_import(Imported *in, Diag *d) {
  TRY(frontend_begin(in, d));
  Graph *g = in->graph;
  OnnxModel *model = arena_new(&g->arena, OnnxModel);
  Import im = {.g = g,
               .arena = &g->arena,
               .model = model,
               .result = in,
               .file = g->source.v[0],
               .path = in->path,
               .bytes = (const uint8_t *)in->bytes.p,
               .nbytes = in->bytes.n};
  TRY(onnx_read_model(&g->arena, in->bytes, d, model));
  at_work_part("reading", "the graph", -1);
  in->file = model;
  in->about = about(&im);
  strmap_init(&im.unsupported, &g->arena);
  strmap_init(&im.unimported, &g->arena);
  TRY(check_header(&im));
  TRY(index_functions(&im));
  TRY(check_size(&im));
  import_rows_init(&im);
  return import_main(&im);
}

// Protobuf has no magic number: whatever no other reader knows is tried as one.
static bool onnx_is(Str bytes) {
  (void)bytes;
  return true;
}

// The operators whose own record names an ONNX spelling, then the rows of the tables.
static void onnx_ops(FrontendOpFn *fn, void *ctx) {
  char form[48];
  for (int i = 0; i < OP_COUNT; i++) {
    if (!op_table[i]->onnx) continue;
    snprintf(form, sizeof form, "opset %d+", MAX(op_table[i]->onnx_since, 1));
    fn(ctx, &(FrontendOp){.op = op_table[i]->onnx, .form = form, .notes = op_table[i]->operands});
  }
  for (int64_t t = 0; onnx_tables[t]; t++)
    for (int64_t i = 0; i < onnx_tables[t]->n; i++) {
      const ImportRow *r = &onnx_tables[t]->row[i];
      char op[128];
      snprintf(op, sizeof op, "%s%s%s", r->domain, *r->domain ? "." : "", r->op);
      if (r->until)
        snprintf(form, sizeof form, "opset %d-%d", r->since, r->until);
      else
        snprintf(form, sizeof form, "opset %d+", MAX(r->since, 1));
      fn(ctx, &(FrontendOp){.op = op, .form = form, .notes = r->why, .refused = !r->fn});
    }
}

const Frontend frontend_onnx = {.name = "onnx",
                                .doc = "ONNX, opsets 1 to 28, with ai.onnx.ml and com.microsoft",
                                .is = onnx_is,
                                .import = onnx_import,
                                .ops = onnx_ops};
