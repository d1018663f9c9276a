// import_node.c -- one ONNX node after another: finding its mapping, inlining functions, importing
// sub-graphs.
//
// An op that nothing takes becomes a `foreign` node with unknown result types, and a line of the
// one report of all unsupported ops; so a model can be looked at even where it cannot run.
#include "frontends/onnx/import.h"
#include "ir/custom.h"
#include "ir/internal.h"
#include "ir/textnum.h"

enum { MAX_DEPTH = LIMIT_ONNX_BODIES };

// ---- scopes ----

Node *scope_find(Import *im, Scope *s, Str name) {
  Node *n = strmap_get(&s->value, name);
  if (n || !s->outer) return n;
  Node *out = scope_find(im, s->outer, name);
  if (!out) return NULL;
  bool captured = !s->inlined && out->op != OP_const;
  if (captured && out != im->g->none && out != im->g->poison) {
    Node *p = node_param(im->g, type_of(out), out->name);
    if (p == im->g->poison) return p;
    p->sym = out->sym;  // a captured value is the same during every run of the body
    p->nsym = out->nsym;
    p->known = out->known;
    vec_push(im->arena, s->captures, out);
    vec_push(im->arena, &s->params, p);
    out = p;
  }
  strmap_put(&s->value, name, out);
  return out;
}

tenon_status scope_define(Import *im, Str name, Node *n, Where at) {
  if (strmap_has(&im->scope->value, name))
    return fail(im->g->diag, TENON_EINVAL, at, "the name '%.*s' is defined twice", STR_ARG(name));
  strmap_put(&im->scope->value, name, n);
  return TENON_OK;
}

// ---- unsupported ops ----

static const char *full_name(Import *im, const OnnxNode *n) {
  bool standard = !n->domain.n || str_is(n->domain, "ai.onnx");
  return str_printf(im->arena, "%.*s%s%.*s", STR_ARG(standard ? STR("") : n->domain),
                    standard ? "" : ".", STR_ARG(n->op_type));
}

void import_unsupported(Import *im, const OnnxNode *n, const char *why) {
  const char *op = full_name(im, n);
  uintptr_t at = (uintptr_t)strmap_get(&im->unsupported, str_of(op));
  if (at) {
    im->result->unsupported.v[at - 1].count++;
    return;
  }
  Str first = n->name.n ? n->name : n->outputs.n ? n->outputs.v[0] : STR("");
  Unsupported u = {.op = op, .why = why, .first = str_copy(im->arena, first), .count = 1};
  vec_push(im->arena, &im->result->unsupported, u);
  strmap_put(&im->unsupported, str_of(op), (void *)(uintptr_t)im->result->unsupported.n);
}

// What the text form and the user's own operators see of an attribute.  What cannot be written as
// text is told apart by its address, so that two nodes never become one by it.
static Str attr_text(Import *im, const OnnxAttr *a) {
  StrBuf b;
  strbuf_init(&b, im->arena);
  if (a->type == OA_FLOAT) text_put_element(&b, DT_F32, &a->f, 0);
  if (a->type == OA_INT) strbuf_printf(&b, "%lld", (long long)a->i);
  if (a->type == OA_STRING) strbuf_put(&b, a->s);
  for (int64_t i = 0; a->type == OA_INTS && i < a->ints.n; i++)
    strbuf_printf(&b, "%s%lld", i ? "," : "", (long long)a->ints.v[i]);
  for (int64_t i = 0; a->type == OA_FLOATS && i < a->floats.n; i++) {
    if (i) strbuf_putc(&b, ',');
    text_put_element(&b, DT_F32, a->floats.v, i);
  }
  for (int64_t i = 0; a->type == OA_STRINGS && i < a->strings.n; i++) {
    if (i) strbuf_putc(&b, ',');
    strbuf_put(&b, a->strings.v[i]);
  }
  if (a->type == OA_TENSOR && a->t)
    strbuf_printf(&b, "(tensor at byte %lld)", (long long)a->t->file_pos);
  if (a->type == OA_GRAPH && a->g)
    strbuf_printf(&b, "(graph at byte %lld)", (long long)a->g->file_pos);
  return (Str){strbuf_text(&b), b.n};
}

static tenon_status make_foreign(ImportNode *n) {
  Import *im = n->im;
  const OnnxNode *on = n->node;
  Str *keys = arena_array(im->arena, Str, on->nattrs),
      *values = arena_array(im->arena, Str, on->nattrs);
  int64_t nattrs = 0;
  for (int64_t i = 0; i < on->nattrs; i++) {
    const OnnxAttr *a = &on->attrs[i];
    if (a->ref.n) a = import_attr(n, str_copy(im->arena, a->name));
    if (!a) continue;  // a reference to what the function's caller left out
    keys[nattrs] = on->attrs[i].name;
    values[nattrs++] = attr_text(im, a);
  }
  foreign_attrs at = {
      .op = str_of(full_name(im, on)), .keys = {nattrs, keys}, .values = {nattrs, values}};
  Node *f = node_new(n->g, OP_foreign, n->nin, n->in, &at, MAX(n->nout, 1), n->name);
  for (int i = 0; i < n->nout; i++) n->out[i] = node_proj(n->g, f, i);
  return graph_status(n->g);
}

// ---- mapping ----

tenon_status import_as(ImportNode *n, int op, const void *attrs, int nsrc, Node *const *src) {
  Node *r = node_new(n->g, op, nsrc, src, attrs, MAX(n->nout, 1), n->name);
  for (int i = 0; i < n->nout; i++) n->out[i] = node_proj(n->g, r, i);
  return graph_status(n->g);
}

tenon_status import_auto(ImportNode *n, const OpInfo *op) {
  int most = op_max_results(op);
  if (n->nout > most)
    return import_fail(n, TENON_EINVAL, "%d outputs, must be at most %d", n->nout, most);
  void *attrs = op->attrs_size ? arena_alloc(n->im->arena, op->attrs_size) : NULL;
  TRY(import_attrs(n, op, NULL, attrs));
  for (int i = 0; i < OP_COUNT; i++)
    if (op_table[i] == op) return import_as(n, i, attrs, n->nin, n->in);
  CHECK(false, "op %s is not in the table", op->name);
  return TENON_EINTERNAL;
}

const OnnxFunction *import_find_function(Import *im, const OnnxNode *n) {
  ArenaMark m = arena_mark(&im->g->scratch);
  const char *key = str_printf(&im->g->scratch, "%.*s:%.*s:%.*s", STR_ARG(n->domain),
                               STR_ARG(n->op_type), STR_ARG(n->overload));
  const OnnxFunction *f = strmap_get(&im->functions, str_of(key));
  arena_reset(&im->g->scratch, m);
  return f;
}

static tenon_status inline_function(ImportNode *n, const OnnxFunction *f) {
  Import *im = n->im;
  if (n->nin > f->inputs.n || n->nout > f->outputs.n)
    return import_fail(
        n, TENON_EINVAL, "function '%.*s' takes %lld inputs and gives %lld outputs, not %d and %d",
        STR_ARG(f->name), (long long)f->inputs.n, (long long)f->outputs.n, n->nin, n->nout);
  for (const Frame *fr = im->frame; fr; fr = fr->outer)
    if (fr->fn == f)
      return import_fail(n, TENON_EINVAL, "function '%.*s' calls itself", STR_ARG(f->name));
  Scope scope = {0};
  strmap_init(&scope.value, im->arena);
  for (int64_t i = 0; i < f->inputs.n; i++)
    strmap_put(&scope.value, f->inputs.v[i], i < n->nin ? n->in[i] : n->g->none);
  Frame frame = {.outer = im->frame, .fn = f, .call = n->node, .call_frame = im->frame};
  Scope *outer = im->scope;
  im->scope = &scope;
  im->frame = &frame;
  tenon_status s = import_nodes(im, f->nodes.v, f->nodes.n);
  im->scope = outer;
  im->frame = frame.outer;
  TRY(s);
  for (int i = 0; i < n->nout; i++) {
    if (!n->node->outputs.v[i].n) continue;
    n->out[i] = strmap_get(&scope.value, f->outputs.v[i]);
    if (!n->out[i])
      return import_fail(n, TENON_EINVAL, "function '%.*s' does not compute its output '%.*s'",
                         STR_ARG(f->name), STR_ARG(f->outputs.v[i]));
  }
  return TENON_OK;
}

static tenon_status map_node(ImportNode *n) {
  Import *im = n->im;
  const OnnxNode *on = n->node;
  const OnnxFunction *f = import_find_function(im, on);
  if (f) return inline_function(n, f);
  const char *full = full_name(im, on);
  if (custom_find(n->g->custom, str_of(full))) return make_foreign(n);
  RowList *list = import_rows_find(im, on->domain, on->op_type);
  int newest = 0;
  for (RowList *l = list; l; l = l->next) {
    if (!l->row || n->opset < l->row->since || (l->row->until && n->opset > l->row->until))
      continue;
    if (l->row->fn) return l->row->fn(n);
    return import_fail(n, TENON_EUNSUPPORTED, "%s", l->row->why);
  }
  for (RowList *l = list; l; l = l->next) {
    if (!l->op) continue;
    if (n->opset >= l->op->onnx_since || n->opset == 0) return import_auto(n, l->op);
    newest = l->op->onnx_since;
  }
  if (newest)
    return import_fail(n, TENON_EUNSUPPORTED,
                       "this operator came with opset %d, the model says %lld", newest,
                       (long long)n->opset);
  const char *near = import_nearest(on->domain, on->op_type);
  if (near && strcmp(near, full) != 0)
    return import_fail(n, TENON_EUNSUPPORTED, "not known; the nearest supported operator is %s",
                       near);
  return import_fail(
      n, TENON_EUNSUPPORTED,
      "not known; register it (tenon_open_options.ops), or give the model a function of that name");
}

static tenon_status gather_inputs(Import *im, ImportNode *n) {
  const OnnxNode *on = n->node;
  if (on->inputs.n > 65535 || on->outputs.n > 65535)
    return import_fail(n, TENON_EUNSUPPORTED, "%lld inputs and %lld outputs; the limit is 65535",
                       (long long)on->inputs.n, (long long)on->outputs.n);
  n->nin = (int)on->inputs.n;
  n->nout = (int)on->outputs.n;
  while (n->nin > 0 && !on->inputs.v[n->nin - 1].n) n->nin--;
  while (n->nout > 1 && !on->outputs.v[n->nout - 1].n) n->nout--;
  n->in = arena_array(im->arena, Node *, n->nin);
  n->out = arena_array(im->arena, Node *, MAX(n->nout, 1));  // rows set the first one in any case
  for (int i = 0; i < n->nin; i++) {
    Str name = on->inputs.v[i];
    n->in[i] = name.n ? scope_find(im, im->scope, name) : im->g->none;
    if (!n->in[i])
      return import_fail(n, TENON_EINVAL,
                         "input '%.*s' is not defined before this node: the model has a cycle, is "
                         "not in order, or lacks a value",
                         STR_ARG(name));
  }
  return TENON_OK;
}

static tenon_status define_outputs(Import *im, ImportNode *n) {
  for (int i = 0; i < n->nout; i++) {
    Str name = n->node->outputs.v[i];
    if (!name.n) continue;
    if (!n->out[i])
      return import_fail(n, TENON_EINVAL, "output %d ('%.*s'): the operator has no such output", i,
                         STR_ARG(name));
    TRY(scope_define(im, name, n->out[i], n->at));
  }
  return TENON_OK;
}

// Turns a refusal into a foreign node and a line of the report.
static tenon_status refuse(ImportNode *n, int64_t said) {
  Graph *g = n->g;
  Diag *d = g->diag;
  const char *why = str_printf(n->im->arena, "%.*s", (int)MIN(d->len - said, 2000), d->text + said);
  // Keep the sentence, not the place: the report has its own.
  const char *colon = strstr(why, "): ");
  d->len = said;
  d->text[said] = 0;
  if (!said) d->status = TENON_OK;
  g->status = TENON_OK;
  n->im->status = TENON_OK;
  char *text = str_copy(n->im->arena, str_of(colon ? colon + 3 : why));
  text[strcspn(text, "\n")] = 0;
  import_unsupported(n->im, n->node, text);
  return make_foreign(n);
}

// Whether a message speaks of an operator already, in the model's spelling or in ours.
static bool mentions(const char *text, Str op) {
  char plain[512];
  int64_t n = 0;
  for (const char *p = text; *p && n < (int64_t)sizeof plain - 1; p++)
    if (*p != '_') plain[n++] = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
  plain[n] = 0;
  for (const char *p = plain; *p; p++) {
    int64_t k = 0;
    while (k < op.n && p[k] && p[k] == (op.p[k] >= 'A' && op.p[k] <= 'Z' ? op.p[k] + 32 : op.p[k]))
      k++;
    if (k == op.n) return true;
  }
  return false;
}

// Maps a node so that every message, also of the nodes that it is put together from, says which one
// of the model it is.
static tenon_status map_named(ImportNode *n) {
  Graph *g = n->g;
  Where base = g->diag->base;
  int64_t said = g->diag->len;
  g->diag->base.node = n->name;
  tenon_status s = map_node(n);
  if (!s) s = n->im->status;
  // A refusal behind an error comes of the error.
  if (!s || (graph_status(g) && s == TENON_EUNSUPPORTED)) s = graph_status(g);
  g->diag->base = base;
  if (s && s != TENON_EUNSUPPORTED && g->diag->len > said &&
      !mentions(g->diag->text + said, n->node->op_type))
    diag_note(g->diag, "in operator %.*s of the model", STR_ARG(n->node->op_type));
  return s;
}

// Such models are in use, and what is meant is mostly clear; they are not sound for all that.
static void note_unimported(Import *im, const OnnxNode *on) {
  if (strmap_has(&im->unimported, on->domain)) return;
  strmap_put(&im->unimported, on->domain, im);
  const char *text =
      str_printf(im->arena, "the model imports no operator set '%.*s', of which it uses %.*s",
                 STR_ARG(on->domain), STR_ARG(on->op_type));
  vec_push(im->arena, &im->result->faults, text);
}

tenon_status import_node(Import *im, const OnnxNode *on) {
  Str label = on->name.n ? on->name : on->outputs.n ? on->outputs.v[0] : STR("");
  ImportNode n = {
      .im = im, .g = im->g, .node = on, .name = label.n ? intern(&im->g->names, label) : NULL};
  n.opset = import_opset(im, on->domain);
  n.at = (Where){.node = n.name, .op = intern(&im->g->names, on->op_type)};
  at_work_node(n.name);
  if (--im->budget < 0)
    return import_fail(&n, TENON_EUNSUPPORTED,
                       "the model has too many nodes once its functions are inlined and the types "
                       "in its loops hold");
  if (im->depth > MAX_DEPTH)
    return import_fail(&n, TENON_EUNSUPPORTED, "sub-graphs and functions are nested over %d deep",
                       MAX_DEPTH);
  if (!on->op_type.n) return import_fail(&n, TENON_EFORMAT, "the node has no op_type");
  if (!n.opset) note_unimported(im, on);
  TRY(gather_inputs(im, &n));
  int64_t said = im->g->diag->len;
  im->depth++;
  tenon_status s = map_named(&n);
  im->depth--;
  if (s == TENON_EUNSUPPORTED) s = refuse(&n, said);
  TRY(s);
  return define_outputs(im, &n);
}

tenon_status import_nodes(Import *im, const OnnxNode *nodes, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    ArenaMark m = arena_mark(&im->g->scratch);
    TRY(import_node(im, &nodes[i]));
    if (im->scope && !im->scope->outer && !im->frame) arena_reset(&im->g->scratch, m);
  }
  return TENON_OK;
}

// ---- sub-graphs ----

static tenon_status body_params(Import *im, const OnnxGraph *og, const Type *const *types,
                                int64_t nparams, Where at, Node **param) {
  for (int64_t i = 0; i < nparams; i++) {
    const OnnxValueInfo *vi = &og->inputs.v[i];
    const Type *t = types && types[i] ? types[i] : import_type(im, &vi->type, vi->name, at);
    if (!t) t = type_unranked(im->g, TENON_DTYPE_NONE);
    param[i] = node_param(im->g, t, intern(&im->g->names, vi->name));
    TRY(graph_status(im->g));
    TRY(scope_define(im, vi->name, param[i], at));
  }
  return TENON_OK;
}

static tenon_status fill_body(ImportNode *n, const OnnxGraph *og, const Type *const *types,
                              int64_t nparams, Body **out) {
  Import *im = n->im;
  Node **param = arena_array(im->arena, Node *, nparams),
       **result = arena_array(im->arena, Node *, og->outputs.n);
  TRY(body_params(im, og, types, nparams, n->at, param));
  TRY(import_initializers(im, og));
  TRY(import_nodes(im, og->nodes.v, og->nodes.n));
  for (int64_t i = 0; i < og->outputs.n; i++) {
    result[i] = scope_find(im, im->scope, og->outputs.v[i].name);
    if (!result[i])
      return import_fail(n, TENON_EINVAL, "the sub-graph does not compute its output '%.*s'",
                         STR_ARG(og->outputs.v[i].name));
  }
  NodeVec all = {0};
  for (int64_t i = 0; i < nparams; i++) vec_push(im->arena, &all, param[i]);
  for (int64_t i = 0; i < im->scope->params.n; i++)
    vec_push(im->arena, &all, im->scope->params.v[i]);
  *out = body_new(im->g, str_copy(im->arena, og->name), all.n, all.v, og->outputs.n, result);
  return graph_status(im->g);
}

tenon_status import_body(ImportNode *n, const char *attr, const Type *const *types, int64_t nparams,
                         NodeVec *captures, Body **out) {
  Import *im = n->im;
  *out = NULL;
  const OnnxAttr *a = import_attr(n, attr);
  if (!a || a->type != OA_GRAPH || !a->g)
    return import_fail(n, TENON_EINVAL, "the sub-graph attribute '%s' is missing", attr);
  if (a->g->inputs.n != nparams)
    return import_fail(n, TENON_EINVAL, "sub-graph '%s' takes %lld inputs, must be %lld", attr,
                       (long long)a->g->inputs.n, (long long)nparams);
  Scope scope = {.outer = im->scope, .captures = captures};
  strmap_init(&scope.value, im->arena);
  im->scope = &scope;
  im->depth++;
  tenon_status s =
      im->depth > MAX_DEPTH
          ? import_fail(n, TENON_EUNSUPPORTED, "sub-graphs are nested over %d deep", MAX_DEPTH)
          : fill_body(n, a->g, types, nparams, out);
  im->depth--;
  im->scope = scope.outer;
  return s;
}
