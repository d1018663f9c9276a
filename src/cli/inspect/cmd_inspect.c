// cmd_inspect.c -- `tenon inspect`: what is in a model and what it costs.
//
// Only the model's own file is opened, and of it only the structure is read: weights stay on the
// disk.  Operators and parameters are counted as the file has them; cost and memory are those of
// the graph, at the sizes given with --dim (else 1).
#include "cli/inspect/inspect.h"
#include "cli/verify/findings.h"
#include "cli/inputs.h"
#include "cli/open.h"
#include "cli/opt.h"
#include "cli/run/overrides.h"

#include "eval/foreign.h"

#include "api/model.h"
#include "passes/fuse_kernels/kernels.h"

#include <stdlib.h>

enum { LARGEST = 5 };

typedef struct OpCount {
  Str name;
  int64_t n;
} OpCount;
typedef struct Large {
  const char *name, *type;
  int64_t bytes;
} Large;
typedef struct Inspection {
  Cli *cli;
  Model *model;
  Graph *graph;
  DimBinding dims;
  bool *assumed;   // by symbol: --dim does not give its size
  bool *settable;  // by symbol: a size of an input; declared types of other values may name more
  GraphCost cost;
  VEC(OpCount) ops;
  StrMap op_index;  // name -> position + 1
  int64_t nnodes, params, param_bytes;
  Large large[LARGEST];
  int nlarge;
  bool optimised;
  CompileOptions options;
  CompileReport made;
  KernelCount kernels;
  GraphCost before;  // of the graph as it was
  Analysis found;    // likewise
  Analysis values;   // of the graph that is shown
  MemoryUse memory;
} Inspection;

// ---- counting ----
static void count_op(Inspection *in, Str name) {
  Arena *a = &in->cli->arena;
  uintptr_t at = (uintptr_t)strmap_get(&in->op_index, name);
  in->nnodes++;
  if (at) {
    in->ops.v[at - 1].n++;
    return;
  }
  OpCount c = {name, 1};
  vec_push(a, &in->ops, c);
  strmap_put(&in->op_index, name, (void *)(uintptr_t)in->ops.n);
}

static void count_tensor(Inspection *in, Ints dims, int64_t dtype) {
  int64_t n, bytes = 0;
  if (dims.n > MAX_RANK || !shape_count((int)dims.n, dims.v, &n)) return;
  if (dtype_valid(dtype) && dtype != DT_STRING) (void)dtype_bytes((DType)dtype, n, &bytes);
  in->params += n;
  in->param_bytes += bytes;
}

// A graph of the file with the graphs inside it; import has limited the depth.
static void count_onnx(Inspection *in, const OnnxGraph *g) {
  for (int64_t i = 0; i < g->initializers.n; i++)
    count_tensor(in, g->initializers.v[i].dims, g->initializers.v[i].dtype);
  for (int64_t i = 0; i < g->sparse_initializers.n; i++)
    count_tensor(in, g->sparse_initializers.v[i].dims, g->sparse_initializers.v[i].values.dtype);
  for (int64_t i = 0; i < g->nodes.n; i++) {
    const OnnxNode *n = &g->nodes.v[i];
    bool standard = !n->domain.n || str_is(n->domain, "ai.onnx");
    count_op(in, standard ? n->op_type
                          : str_of(str_printf(&in->cli->arena, "%.*s.%.*s", STR_ARG(n->domain),
                                              STR_ARG(n->op_type))));
    for (int64_t k = 0; k < n->nattrs; k++) {
      if (n->attrs[k].g) count_onnx(in, n->attrs[k].g);
      for (int64_t j = 0; j < n->attrs[k].graphs.n; j++) count_onnx(in, n->attrs[k].graphs.v[j]);
    }
  }
}

// What the file calls it, where the operator is not known.
static Str shown_op(const Node *n) {
  const foreign_attrs *at = n->op == OP_foreign ? n->attrs : NULL;
  return at && at->op.n ? at->op : str_of(op_name(n));
}

static void count_graph(Inspection *in) {
  NodeList order = body_order(in->graph, in->graph->main, &in->cli->arena);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (n->op == OP_const) {
      in->params += n->data->n;
      int64_t bytes;
      if (cost_type_bytes(type_of(n), &in->dims, &bytes)) in->param_bytes += bytes;
    } else if (n->op != OP_param && n->op != OP_proj && n->op != OP_none) {
      count_op(in, shown_op(n));
    }
  }
}

static int by_count(const void *a, const void *b) {
  const OpCount *x = a, *y = b;
  if (x->n != y->n) return x->n < y->n ? 1 : -1;
  return str_cmp(x->name, y->name);
}

static void note_large(Inspection *in, const char *name, const Type *t) {
  int64_t bytes;
  if (!cost_type_bytes(t, &in->dims, &bytes) || !bytes) return;
  int at = in->nlarge;
  while (at > 0 && bytes > in->large[at - 1].bytes) at--;
  if (at == LARGEST) return;
  if (in->nlarge < LARGEST) in->nlarge++;
  for (int k = in->nlarge - 1; k > at; k--) in->large[k] = in->large[k - 1];
  in->large[at] = (Large){name ? name : "", type_text(&in->cli->arena, t), bytes};
}

static void find_settable(Inspection *in) {
  const Body *b = in->graph->main;
  in->settable = arena_array(&in->cli->arena, bool, in->graph->dims.nsyms + 1);
  for (int64_t i = 0; i < b->nparams; i++) {
    const Type *t = type_of(b->param[i]);
    for (int k = 0; t->kind == TK_TENSOR && k < t->rank; k++)
      if (t->dims[k]->kind == IE_SYM) in->settable[t->dims[k]->slot] = true;
  }
}

// A graph that cannot be planned has no peak.
static void use_memory(Inspection *in) {
  Arena *a = &in->cli->arena;
  Diag *quiet = arena_new(a, Diag);
  diag_init(quiet);
  if (!in->optimised) compile_defaults(&in->options);
  in->made.done = COMPILE_OPTIMISE;  // or as it was read
  if (!compile_graph(in->graph, &in->options, COMPILE_PLAN, a, quiet, &in->made))
    analyse_memory(in->made.plan, &in->dims, a, &in->memory);
}

static void gather_facts(Inspection *in) {
  find_settable(in);
  strmap_init(&in->op_index, &in->cli->arena);
  if (in->model->onnx && !in->optimised)
    count_onnx(in, &in->model->onnx->graph);
  else
    count_graph(in);
  if (in->ops.n) qsort(in->ops.v, (size_t)in->ops.n, sizeof *in->ops.v, by_count);
  NodeList order = body_order(in->graph, in->graph->main, &in->cli->arena);
  for (int64_t i = 0; i < order.n; i++)
    for (int k = 0; k < order.v[i]->nres && order.v[i]->op != OP_proj; k++)
      note_large(in, order.v[i]->name, order.v[i]->type[k]);
  // Before the cost, which makes further nodes: decomposed composites.
  in->values = in->found;
  if (in->optimised) analyse_graph(in->graph, &(AnalyseOptions){0}, &in->cli->arena, &in->values);
  use_memory(in);
  cost_graph(in->graph, &in->dims, &in->cli->arena, &in->cost);
}

static double intensity(const GraphCost *c) { return c->bytes ? c->flops / (double)c->bytes : 0; }

// ---- text ----
static int name_width(const Body *b) {
  int64_t w = 4;
  for (int64_t i = 0; i < b->nparams; i++) w = MAX(w, (int64_t)strlen(b->param[i]->name));
  for (int64_t i = 0; i < b->nresults; i++) w = MAX(w, (int64_t)strlen(b->result_name[i]));
  return (int)MIN(w, 40);
}

static void print_header(const Inspection *in) {
  say(in->cli, "%s  %s\n", in->cli->pos[0], in->model->import.about);
}

static void print_dims(const Inspection *in) {
  bool any = false;
  for (int assumed = 0; assumed < 2; assumed++) {
    const char *first = any ? "; assumed: " : assumed ? "dimensions  assumed: " : "dimensions  ";
    for (int32_t i = 0; i < in->dims.n; i++) {
      Dim s = in->graph->dims.sym.v[i];
      if (!in->settable[i] || in->assumed[i] != assumed) continue;
      if (!any) say(in->cli, "\n");  // a name out of the model cannot end a line, nor can `first`
      say(in->cli, "%s%s = %lld", first, s->name, (long long)in->dims.value[i]);
      first = ", ";
      any = true;
    }
  }
  if (any) say(in->cli, "  (for the figures below; set with --dim)\n");
}

static void print_kernels(const Inspection *in) {
  NumText a, b;
  const KernelCount *k = &in->kernels;
  say(in->cli, "\nkernels     %lld", (long long)k->kernels);
  int any = 0;
  for (int i = 0; i < FUSED_KINDS; i++)
    if (k->kind[i])
      say(in->cli, "%s%lld %s", any++ ? ", " : " (", (long long)k->kind[i], fused_kind_name[i]);
  say(in->cli, "%s\n", any ? ")" : "");
  const LayoutReport *l = &in->made.opt.layout;
  if (l->channels_last_nodes)
    say(in->cli, "layout      %lld nodes channels last; %lld conversion%s, %s\n",
        (long long)l->channels_last_nodes, (long long)l->converted.n,
        l->converted.n == 1 ? "" : "s", text_bytes(&a, conversion_bytes(l, &in->dims)));
  say(in->cli, "before      %lld nodes, %s moved; now %s\n", (long long)in->before.n,
      text_bytes(&a, in->before.bytes), text_bytes(&b, in->cost.bytes));
}

// The planned peak and its formula; what is known of the outputs; what is unused.
static void print_memory(const Inspection *in) {
  NumText a, b;
  StrBuf s;
  const MemoryUse *m = &in->memory;
  if (!m->known || !m->formula) return;
  strbuf_init(&s, &in->cli->arena);
  memory_print_formula(&s, m);
  say(in->cli, "planned     %s of values at most", text_bytes(&a, m->bytes));
  if (m->at)
    say(in->cli, ", at %s%s%s", op_name(m->at), m->at->name ? " " : "",
        m->at->name ? m->at->name : "");
  say(in->cli, "; an arena of %s\n", text_bytes(&b, m->arena_bytes));
  if (!ie_is_const(m->formula) || m->nany > 1)
    say(in->cli, "            %s bytes%s\n", strbuf_text(&s),
        m->nany ? "" : ", where these sizes have their peak");
  if (m->nconcurrent)
    say(in->cli,
        "            %lld steps, in which %lld small kernels run concurrently with others\n",
        (long long)m->nsteps, (long long)m->nconcurrent);
  if (m->nheap)
    say(in->cli, "            without %lld values whose size depends on data\n",
        (long long)m->nheap);
}

static void print_findings(const Inspection *in) {
  const Body *b = in->graph->main;
  StrBuf s;
  strbuf_init(&s, &in->cli->arena);
  say(in->cli, "\nranges      known for %lld of %lld values\n", (long long)in->values.nbounded,
      (long long)in->values.nvalues);
  for (int64_t i = 0; i < b->nresults; i++) {
    Range r = analyse_range(&in->values, b->result[i]);
    if (!range_is_known(r, type_of(b->result[i])->dtype)) continue;
    s.n = 0;
    range_print(&s, r);
    say(in->cli, "  %s in %s\n", b->result_name[i], strbuf_text(&s));
  }
  s.n = 0;
  findings_count(&s, &in->found);
  if (!s.n) return;
  say(in->cli, "findings    %s (`tenon verify` lists them)\n", strbuf_text(&s));
  findings_print(&in->found, finding_is_dead, false);
}

static void print_figures(const Inspection *in) {
  NumText a, b;
  const GraphCost *c = &in->cost;
  say(in->cli, "\noperators   %s of %lld kind%s\n", text_count(&a, in->nnodes),
      (long long)in->ops.n, in->ops.n == 1 ? "" : "s");
  for (int64_t i = 0; i < in->ops.n; i++)
    say(in->cli, "  %7lld  %.*s\n", (long long)in->ops.v[i].n, STR_ARG(in->ops.v[i].name));
  say(in->cli, "\nparameters  %s (%s)\n", text_count(&a, in->params),
      text_bytes(&b, in->param_bytes));
  text_si(&a, c->flops);
  say(in->cli, "operations  %s%sFLOP%s\n", a.s, strchr(a.s, ' ') ? "" : " ",
      c->nunknown ? ", without the nodes whose sizes depend on data" : "");
  say(in->cli, "bytes moved %s, %.3g FLOP a byte\n", text_bytes(&a, c->bytes), intensity(c));
  say(in->cli, "peak memory %s, and %s of constants\n", text_bytes(&a, c->peak_bytes),
      text_bytes(&b, c->const_bytes));
  print_memory(in);
  if (in->optimised) print_kernels(in);
  say(in->cli, "\nlargest tensors\n");
  for (int i = 0; i < in->nlarge; i++)
    say(in->cli, "  %10s  %s  %s\n", text_bytes(&a, in->large[i].bytes), in->large[i].type,
        in->large[i].name);
}

static void print_unsupported(const Inspection *in) {
  const Unsupported *u;
  int64_t n = model_unsupported(in->model, &u);
  if (n) say(in->cli, "\nnot supported\n");
  for (int64_t i = 0; i < n; i++)
    say(in->cli, "  %s: %lld node%s, first '%s': %s\n", u[i].op, (long long)u[i].count,
        u[i].count == 1 ? "" : "s", u[i].first, u[i].why);
  for (int64_t i = 0; i < in->model->import.warnings.n; i++)
    say(in->cli, i ? "warning: %s\n" : "\nwarning: %s\n", in->model->import.warnings.v[i]);
  for (int64_t i = 0; i < in->model->import.faults.n; i++)
    say(in->cli, i ? "warning: %s\n" : "\nwarning: %s\n", in->model->import.faults.v[i]);
}

static void print_text(const Inspection *in) {
  const Body *b = in->graph->main;
  Arena *a = &in->cli->arena;
  int w = name_width(b);
  print_header(in);
  say(in->cli, "\ninputs\n");
  for (int64_t i = 0; i < b->nparams; i++)
    say(in->cli, "  %-*s  %s\n", w, b->param[i]->name, type_text(a, type_of(b->param[i])));
  say(in->cli, "\noutputs\n");
  for (int64_t i = 0; i < b->nresults; i++)
    say(in->cli, "  %-*s  %s\n", w, b->result_name[i], type_text(a, type_of(b->result[i])));
  inspect_facts(in->cli, in->model);
  print_dims(in);
  print_figures(in);
  print_findings(in);
  print_unsupported(in);
}

static void print_node_table(const Inspection *in) {
  say(in->cli, "%-40s %-24s %-40s %12s %12s %10s  %s\n", "node", "op", "result", "FLOP", "bytes",
      "FLOP/byte", "range");
  for (int64_t i = 0; i < in->cost.n; i++) {
    const NodeCost *n = &in->cost.node[i];
    NumText a, b;
    Arena *arena = &in->cli->arena;
    ArenaMark m = arena_mark(arena);
    Range r = analyse_range(&in->values, n->node);
    StrBuf range;
    strbuf_init(&range, arena);
    if (type_of(n->node)->kind == TK_TENSOR && range_is_known(r, type_of(n->node)->dtype))
      range_print(&range, r);
    say(in->cli, "%-40s %-24s %-40s %12s %12s %10.3g  %s\n", n->node->name ? n->node->name : "-",
        str_copy(arena, shown_op(n->node)), type_text(arena, type_of(n->node)),
        n->known ? text_si(&a, n->flops) : "?", n->known ? text_bytes(&b, n->bytes) : "?",
        n->bytes ? n->flops / (double)n->bytes : 0, strbuf_text(&range));
    arena_reset(arena, m);
  }
}

// ---- JSON ----
static void json_dim(JsonWriter *w, Arena *a, Dim d) {
  if (ie_is_const(d)) {
    json_i64(w, d->value);
    return;
  }
  StrBuf b;
  strbuf_init(&b, a);
  if (d->kind == IE_SYM && !d->fresh)
    strbuf_puts(&b, d->name);  // the model's own spelling, without quotes
  else
    ie_print(&b, d);
  json_str(w, strbuf_str(&b));
}

static void json_type(JsonWriter *w, Arena *a, const Type *t) {
  if (t->kind == TK_TENSOR) {
    json_key(w, "dtype");
    json_cstr(w, dtype_name(t->dtype));
    json_key(w, "shape");
    if (t->rank < 0) {
      json_null(w);
      return;
    }
    json_begin_flat_array(w);
    for (int i = 0; i < t->rank; i++) json_dim(w, a, t->dims[i]);
    json_end_array(w);
    return;
  }
  json_key(w, "dtype");
  json_cstr(w, type_text(a, t));
  json_key(w, "shape");
  json_null(w);
}

// A bound that is not there is null, as JSON has no infinity.
static void json_range(JsonWriter *w, const Inspection *in, const Node *n) {
  Range r = analyse_range(&in->values, n);
  if (type_of(n)->kind != TK_TENSOR || !range_is_known(r, type_of(n)->dtype)) return;
  json_key(w, "range");
  json_begin_flat_array(w);
  if (r.kind == RANGE_INT) {
    json_i64(w, r.least);
    json_i64(w, r.most);
  } else {
    json_f64(w, r.lo);
    json_f64(w, r.hi);
  }
  json_end_array(w);
}

static void json_memory(JsonWriter *w, const Inspection *in) {
  const MemoryUse *m = &in->memory;
  json_key(w, "planned_peak_bytes");
  if (m->known && m->formula) {
    StrBuf s;
    strbuf_init(&s, &in->cli->arena);
    memory_print_formula(&s, m);
    json_i64(w, m->bytes);
    json_key(w, "planned_arena_bytes");
    json_i64(w, m->arena_bytes);
    json_key(w, "planned_peak_formula");
    json_cstr(w, strbuf_text(&s));
    json_key(w, "planned_peak_formula_holds_for_all_sizes");
    json_bool(w, m->nany > 0);
    json_key(w, "planned_peak_node");
    json_cstr(w, m->at ? m->at->name : NULL);
    json_key(w, "planned_steps");
    json_i64(w, m->nsteps);
    json_key(w, "concurrent_kernels");
    json_i64(w, m->nconcurrent);
  } else {
    json_null(w);
  }
  json_key(w, "values");
  json_i64(w, in->values.nvalues);
  json_key(w, "values_with_known_range");
  json_i64(w, in->values.nbounded);
}

static void json_values(JsonWriter *w, const Inspection *in, bool inputs) {
  const Body *b = in->graph->main;
  json_key(w, inputs ? "inputs" : "outputs");
  json_begin_array(w);
  for (int64_t i = 0; i < (inputs ? b->nparams : b->nresults); i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, inputs ? b->param[i]->name : b->result_name[i]);
    json_type(w, &in->cli->arena, type_of(inputs ? b->param[i] : b->result[i]));
    if (!inputs) json_range(w, in, b->result[i]);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_nodes(JsonWriter *w, const Inspection *in) {
  json_key(w, "nodes");
  json_begin_array(w);
  for (int64_t i = 0; i < in->cost.n; i++) {
    const NodeCost *n = &in->cost.node[i];
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, n->node->name);
    json_key(w, "op");
    json_str(w, shown_op(n->node));
    json_key(w, "type");
    json_cstr(w, type_text(&in->cli->arena, type_of(n->node)));
    json_key(w, "flops");
    json_f64(w, n->flops);
    json_key(w, "bytes");
    json_i64(w, n->bytes);
    json_key(w, "intensity");
    json_f64(w, n->bytes ? n->flops / (double)n->bytes : 0);
    json_range(w, in, n->node);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_lists(JsonWriter *w, const Inspection *in) {
  const Unsupported *u;
  int64_t n = model_unsupported(in->model, &u);
  json_key(w, "dims");
  json_begin_object(w);
  for (int32_t i = 0; i < in->dims.n; i++)
    if (in->settable[i]) {
      json_key(w, in->graph->dims.sym.v[i]->name);
      json_i64(w, in->dims.value[i]);
    }
  json_end_object(w);
  json_key(w, "ops");
  json_begin_object(w);
  for (int64_t i = 0; i < in->ops.n; i++) {
    json_key_str(w, in->ops.v[i].name);
    json_i64(w, in->ops.v[i].n);
  }
  json_end_object(w);
  json_key(w, "largest");
  json_begin_array(w);
  for (int i = 0; i < in->nlarge; i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, in->large[i].name);
    json_key(w, "type");
    json_cstr(w, in->large[i].type);
    json_key(w, "bytes");
    json_i64(w, in->large[i].bytes);
    json_end_object(w);
  }
  json_end_array(w);
  json_key(w, "unsupported");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    json_begin_object(w);
    json_key(w, "op");
    json_cstr(w, u[i].op);
    json_key(w, "count");
    json_i64(w, u[i].count);
    json_key(w, "first");
    json_cstr(w, u[i].first);
    json_key(w, "why");
    json_cstr(w, u[i].why);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_kernels(JsonWriter *w, const Inspection *in) {
  json_key(w, "kernels");
  json_i64(w, in->kernels.kernels);
  json_key(w, "kernels_before_the_run");
  json_i64(w, in->kernels.constant);
  json_key(w, "kernels_by_kind");
  json_begin_object(w);
  for (int i = 0; i < FUSED_KINDS; i++) {
    json_key(w, fused_kind_name[i]);
    json_i64(w, in->kernels.kind[i]);
  }
  json_end_object(w);
  json_key(w, "channels_last_nodes");
  json_i64(w, in->made.opt.layout.channels_last_nodes);
  json_key(w, "conversions");
  json_i64(w, in->made.opt.layout.converted.n);
  json_key(w, "conversion_bytes");
  json_i64(w, conversion_bytes(&in->made.opt.layout, &in->dims));
  json_key(w, "nodes_before");
  json_i64(w, in->before.n);
  json_key(w, "flops_before");
  json_f64(w, in->before.flops);
  json_key(w, "bytes_before");
  json_i64(w, in->before.bytes);
  json_key(w, "optimise_seconds");
  json_f64(w, in->made.seconds[COMPILE_OPTIMISE]);
}

static void print_json(const Inspection *in) {
  StrBuf b;
  JsonWriter w;
  const GraphCost *c = &in->cost;
  strbuf_init(&b, &in->cli->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, in->cli->pos[0]);
  if (in->model->import.facts.n) inspect_facts_json(&w, in->model);
  json_values(&w, in, true);
  json_values(&w, in, false);
  json_lists(&w, in);
  json_key(&w, "params");
  json_i64(&w, in->params);
  json_key(&w, "param_bytes");
  json_i64(&w, in->param_bytes);
  json_key(&w, "flops");
  json_f64(&w, c->flops);
  json_key(&w, "bytes");
  json_i64(&w, c->bytes);
  json_key(&w, "intensity");
  json_f64(&w, intensity(c));
  json_key(&w, "peak_memory_bytes");
  json_i64(&w, c->peak_bytes + c->const_bytes);
  json_key(&w, "peak_activation_bytes");
  json_i64(&w, c->peak_bytes);
  json_memory(&w, in);
  findings_json(&w, &in->found);
  if (in->optimised) json_kernels(&w, in);
  json_key(&w, "nodes_of_unknown_size");
  json_i64(&w, c->nunknown);
  if (opt_given(in->cli, OPT_inspect_ops)) json_nodes(&w, in);
  json_end_object(&w);
  cli_print(&b);
}

// ---- the command ----
static int inspect(Inspection *in) {
  Cli *c = in->cli;
  int rc = dims_read(c, in->graph, &c->opt[OPT_inspect_dim], &in->dims);
  if (rc) return rc;
  in->assumed = arena_array(&c->arena, bool, MAX(in->dims.n, 1));
  for (int32_t i = 0; i < in->dims.n; i++) in->assumed[i] = !in->dims.known[i];
  binding_typical(&in->dims, in->graph);
  binding_default(&in->dims, in->graph, 1);
  in->optimised = opt_given(c, OPT_inspect_optimised) || opt_given(c, OPT_inspect_level);
  if (!opt_given(c, OPT_inspect_text)) findings_collect(in->model, false, &c->arena, &in->found);
  if (in->optimised) {
    cost_graph(in->graph, &in->dims, &c->arena, &in->before);
    rc = cli_exit_of(opt_compile(c, &in->options));
    if (!rc)
      rc = cli_exit_of(
          compile_graph(in->graph, &in->options, COMPILE_OPTIMISE, &c->arena, &c->diag, &in->made));
    if (rc) return rc;
    graph_kernels(in->graph, &in->kernels);
  }
  if (opt_given(c, OPT_inspect_text)) {
    StrBuf b;
    strbuf_init(&b, &c->arena);
    graph_print(in->graph, &b);
    fwrite(strbuf_text(&b), 1, (size_t)b.n, stdout);
    return CLI_OK;
  }
  gather_facts(in);
  if (opt_given(c, OPT_inspect_json))
    print_json(in);
  else if (opt_given(c, OPT_inspect_ops))
    print_node_table(in);
  else
    print_text(in);
  return CLI_OK;
}

int cmd_inspect(Cli *c) {
  if (opt_given(c, OPT_inspect_text) && opt_given(c, OPT_inspect_json))
    return cli_usage(c, "inspect: --text and --json are two outputs; give one of them");
  Inspection *in = arena_new(&c->arena, Inspection);
  in->cli = c;
  ModelOptions o = {.compiled = COMPILED_LISTED, .ask_drivers = true};
  int rc = foreign_read(c, &c->opt[OPT_inspect_type], &c->opt[OPT_inspect_weights], &o);
  if (!rc) rc = cli_exit_of(cli_open(c, c->pos[0], &o, &c->diag, &in->model));
  if (rc) return rc;
  in->graph = in->model->graph;
  if (in->model->program)
    rc = inspect_compiled(c, in->model);
  else
    rc = in->model->import.empty ? inspect_weights(c, in->model) : inspect(in);
  model_free(in->model);
  return rc;
}
