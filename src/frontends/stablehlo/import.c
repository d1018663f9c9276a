// import.c -- walks a StableHLO module and builds its graph (import.h).
//
// Functions are inlined where they are called.  What has no row is collected first and reported
// together; then there is no graph.
#include "frontends/stablehlo/import.h"

const HloTable *const hlo_tables[] = {
    &hlo_scalar, &hlo_move,   &hlo_index, &hlo_reduce, &hlo_window, &hlo_contract, &hlo_control,
    &hlo_quant,  &hlo_random, &hlo_chlo,  &hlo_sort,   &hlo_ragged, NULL};
// Calls are inlined: a small file of calls must not become a graph without end.
enum { MAX_CALLS = 64, MAX_OPS = 1 << 22 };

static const HloRow *find_row(const char *name) {
  for (int t = 0; hlo_tables[t]; t++)
    for (int64_t i = 0; i < hlo_tables[t]->n; i++)
      if (!strcmp(hlo_tables[t]->row[i].name, name)) return &hlo_tables[t]->row[i];
  return NULL;
}

void hlo_ops(FrontendOpFn *fn, void *ctx) {
  for (int t = 0; hlo_tables[t]; t++)
    for (int64_t i = 0; i < hlo_tables[t]->n; i++) {
      const HloRow *r = &hlo_tables[t]->row[i];
      fn(ctx, &(FrontendOp){r->name, "", r->notes ? r->notes : "", !r->fn});
    }
}

// ---- messages ----
static void report(HloCall *c, tenon_status code, const char *fmt, va_list ap) {
  Where at = mlir_where(c->op);
  at.op = c->op->name;
  graph_fail(c->g, code, at, "%s", str_vprintf(c->h->arena, fmt, ap));
}
void hlo_refuse(HloCall *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  report(c, TENON_EUNSUPPORTED, fmt, ap);
  va_end(ap);
}
void hlo_fail(HloCall *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  report(c, TENON_EINVAL, fmt, ap);
  va_end(ap);
}

// ---- what rows ask ----
Node *hlo_in(HloCall *c, int64_t i) {
  if (i >= c->nin || !c->in[i].re || c->in[i].im) {
    if (i >= c->nin)
      hlo_fail(c, "operand %lld is missing", (long long)i);
    else
      hlo_refuse(c, "operand %lld is %s", (long long)i, mlir_type_text(c->h->arena, c->in[i].type));
    return c->g->poison;
  }
  return c->in[i].re;
}

static Ints ints_of(HloCall *c, const MlirAttr *a) {
  Ints out = {0};
  if (a) mlir_ints(c->h->arena, a, &out.v, &out.n);
  return out;
}
Ints hlo_ints(HloCall *c, const char *attr) { return ints_of(c, mlir_attr(c->op, attr)); }
Ints hlo_field_ints(HloCall *c, const MlirAttr *dict, const char *field) {
  return ints_of(c, dict ? mlir_field(dict, field) : NULL);
}
Ints hlo_ints_or(HloCall *c, const char *attr, int64_t n, int64_t otherwise) {
  Ints got = hlo_ints(c, attr);
  if (got.n == n && (n || !mlir_attr(c->op, attr))) return got;
  if (got.n)
    hlo_fail(c, "%s has %lld numbers, must have %lld", attr, (long long)got.n, (long long)n);
  int64_t *v = arena_array(c->h->arena, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) v[i] = otherwise;
  return (Ints){n, v};
}

void hlo_give_value(HloCall *c, int64_t i, HloValue v) {
  if (i >= c->nout) return;
  v.type = c->type[i];
  c->out[i] = v;
}
void hlo_give(HloCall *c, Node *x) { hlo_give_value(c, 0, (HloValue){.re = x}); }

DType hlo_dtype(HloCall *c, const MlirType *t) {
  MlirElem e = t->elem == ME_QUANT ? t->quant->storage : t->elem;
  DType d = mlir_elem_dtype(e);
  if (d == DT_C64) return DT_F32;
  if (d == DT_C128) return DT_F64;
  if (!d || t->kind != MT_TENSOR)
    hlo_refuse(c, "no such tensors: %s", mlir_type_text(c->h->arena, t));
  return d;
}

bool hlo_static(HloCall *c, const HloValue *v, int64_t *dims) {
  if (c->g->status || !v->re) return false;
  const Type *t = type_of(v->re);
  for (int i = 0; i < t->rank; i++) {
    if (!ie_is_const(t->dims[i])) {
      hlo_refuse(c, "with sizes that are not known: %s", mlir_type_text(c->h->arena, v->type));
      return false;
    }
    dims[i] = t->dims[i]->value;
  }
  return true;
}
bool hlo_static_type(HloCall *c, const MlirType *t, int64_t *dims) {
  if (t->unranked || t->rank > MAX_RANK) {
    hlo_refuse(c, "of type %s", mlir_type_text(c->h->arena, t));
    return false;
  }
  for (int64_t i = 0; i < t->rank; i++) {
    dims[i] = t->dims[i];
    if (dims[i] >= 0) continue;
    hlo_refuse(c, "with sizes that are not known: %s", mlir_type_text(c->h->arena, t));
    return false;
  }
  return true;
}

HloValue hlo_moved(HloCall *c, const HloValue *v, HloMove *f, void *ctx) {
  HloValue out = {.type = v->type};
  if (v->re) out.re = f(c, v->re, ctx);
  if (v->im) out.im = f(c, v->im, ctx);
  return out;
}

// ---- constants ----
static Node *const_node(HloCall *c, DType t, int rank, const int64_t *dims, const void *data,
                        bool splat) {
  Graph *g = c->g;
  bool input = c->h->test && !c->h->lift && !c->h->inside && !c->h->sized && !splat;
  if (splat) {
    Node *one = node_const(g, t, 0, NULL, data, NULL);
    return rank ? hb_expand(g, one, rank, dims) : one;
  }
  if (!input) return node_const(g, t, rank, dims, data, NULL);
  HloGiven given = {.dtype = t, .rank = rank, .data = data};
  Dim d[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    given.dims[i] = dims[i];
    d[i] = ie_const(&g->dims, dims[i]);
  }
  Node *p = node_param(g, type_tensor(g, t, rank, d),
                       str_printf(&g->arena, "c%lld", (long long)c->h->test->given.n));
  vec_push(c->h->arena, &c->h->test->given, given);
  vec_push(c->h->arena, &c->h->test->params, p);
  return p;
}

static HloValue const_complex(HloCall *c, const MlirAttr *a, const int64_t *dims, int64_t n) {
  DType t = hlo_dtype(c, a->type);
  int64_t size = dtype_bits(t) / 8, count = a->splat ? 1 : n, bytes;
  HloValue out = {.type = a->type};
  if (!ck_mul(count + 1, size, &bytes)) {
    hlo_fail(c, "too many elements");
    return out;
  }
  uint8_t *part[2];
  for (int k = 0; k < 2; k++) {
    part[k] = arena_alloc(c->h->arena, bytes);
    for (int64_t i = 0; i < count; i++)
      memcpy(part[k] + i * size, a->data + (2 * i + k) * size, (size_t)size);
  }
  out.re = const_node(c, t, (int)a->type->rank, dims, part[0], a->splat);
  out.im = const_node(c, t, (int)a->type->rank, dims, part[1], a->splat);
  return out;
}

HloValue hlo_const(HloCall *c, const MlirAttr *a) {
  HloValue out = {.type = a ? a->type : NULL, .re = c->g->poison};
  int64_t dims[MAX_RANK], n;
  if (!a || a->kind != MA_DENSE) {
    hlo_refuse(c, "its value is not dense<...>");
    return out;
  }
  DType t = hlo_dtype(c, a->type);
  if (c->g->status || !hlo_static_type(c, a->type, dims) || !mlir_type_count(a->type, &n))
    return out;
  if (a->type->elem == ME_C64 || a->type->elem == ME_C128) return const_complex(c, a, dims, n);
  out.re = const_node(c, t, (int)a->type->rank, dims, a->data, a->splat);
  return out;
}

// ---- operations ----
static bool is_quant(const MlirType *t) { return t && t->kind == MT_TENSOR && t->elem == ME_QUANT; }

static bool has_quant(const HloCall *c) {
  for (int64_t i = 0; i < c->nin; i++)
    if (is_quant(c->in[i].type)) return true;
  for (int64_t i = 0; i < c->nout; i++)
    if (is_quant(c->type[i])) return true;
  return false;
}

static const MlirType *expressed(Arena *a, const MlirType *t) {
  if (!is_quant(t)) return t;
  MlirType *x = arena_new(a, MlirType);
  *x = *t;
  x->elem = t->quant->expressed;
  x->quant = NULL;
  return x;
}

// Operands as the floats that they stand for, results rounded back.
static void call_expressed(HloCall *c) {
  Arena *a = c->h->arena;
  const MlirType *const *was = c->type;
  const MlirType **type = arena_array(a, const MlirType *, c->nout + 1);
  for (int64_t i = 0; i < c->nin; i++) {
    if (!is_quant(c->in[i].type)) continue;
    c->in[i].re = hq_dequantize(c, &c->in[i]);
    c->in[i].type = expressed(a, c->in[i].type);
  }
  for (int64_t i = 0; i < c->nout; i++) type[i] = expressed(a, was[i]);
  c->type = type;
  c->row->fn(c);
  c->type = was;
  for (int64_t i = 0; i < c->nout && !c->g->status; i++)
    if (is_quant(was[i])) {
      c->out[i].re = hq_quantize(c, c->out[i].re, was[i]);
      c->out[i].type = was[i];
    }
}

// Rows that compute or move elements get tensors and give them.
static bool is_plain(HloCall *c) {
  for (int64_t i = 0; i < c->nin; i++)
    if (!c->in[i].re) {
      hlo_refuse(c, "operand %lld is no tensor", (long long)i);
      return false;
    }
  bool tensors = c->nout > 0;
  for (int64_t i = 0; tensors && i < c->nout; i++) tensors = c->type[i]->kind == MT_TENSOR;
  if (!tensors) hlo_refuse(c, "without a tensor as its result");
  return tensors;
}

static void run_op(Hlo *h, const MlirOp *op) {
  enum { SPARE = 4 };  // operands that a row may ask for without being there
  Graph *g = h->g;
  HloCall c = {.h = h,
               .g = g,
               .op = op,
               .nin = op->noperands,
               .nout = op->nresults,
               .row = find_row(op->name)};
  c.in = arena_array(h->arena, HloValue, c.nin + SPARE);
  c.out = arena_array(h->arena, HloValue, c.nout + 1);
  const MlirType **type = arena_array(h->arena, const MlirType *, c.nout + 1);
  for (int64_t i = 0; i < c.nin; i++) c.in[i] = h->value[op->operands[i]->id];
  for (int64_t i = 0; i < c.nout; i++) type[i] = op->results[i]->type;
  c.type = type;
  if (!c.row || !c.row->fn) {
    hlo_refuse(&c, "%s", c.row && c.row->notes ? c.row->notes : "not known");
    return;
  }
  if (++h->nops > MAX_OPS) hlo_refuse(&c, "more than %d operations, calls inlined", MAX_OPS);
  if (g->status || (c.row->kind != HLO_OWN && !is_plain(&c))) return;
  if (c.row->kind == HLO_PLAIN && has_quant(&c))
    call_expressed(&c);
  else
    c.row->fn(&c);
  for (int64_t i = 0; i < c.nout && !g->status; i++) {
    bool token = type[i]->kind != MT_TENSOR;
    if (!token && !c.out[i].re) hlo_fail(&c, "gives no result %lld", (long long)i);
    if (!c.out[i].type) c.out[i].type = type[i];
    h->value[op->results[i]->id] = c.out[i];
  }
}

bool hlo_block(Hlo *h, const MlirBlock *b, const HloValue *args, int64_t nargs, HloValue *out,
               int64_t nout) {
  if (!b || b->nargs != nargs || !b->nops) {
    graph_fail(h->g, TENON_EINVAL, NOWHERE, "a block takes %lld values, %lld are given",
               (long long)(b ? b->nargs : 0), (long long)nargs);
    return false;
  }
  for (int64_t i = 0; i < nargs; i++) h->value[b->args[i]->id] = args[i];
  for (int64_t i = 0; i + 1 < b->nops && !h->g->status; i++) run_op(h, b->ops[i]);
  if (h->g->status) return false;
  const MlirOp *last = b->ops[b->nops - 1];
  if (last->noperands != nout) {
    Where at = mlir_where(last);
    at.op = last->name;
    graph_fail(h->g, TENON_EINVAL, at, "%lld values, must be %lld", (long long)last->noperands,
               (long long)nout);
    return false;
  }
  for (int64_t i = 0; i < nout; i++) out[i] = h->value[last->operands[i]->id];
  return true;
}

static const MlirBlock *region_block(const MlirOp *op, int64_t region) {
  if (region >= op->nregions || op->regions[region]->nblocks != 1) return NULL;
  return op->regions[region]->blocks[0];
}

bool hlo_lifted(HloCall *c, int64_t region, const HloValue *args, int64_t nargs, HloValue *out,
                int64_t nout) {
  c->h->lift++;
  bool ok = hlo_block(c->h, region_block(c->op, region), args, nargs, out, nout);
  c->h->lift--;
  for (int64_t i = 0; ok && i < nout; i++)
    if (!out[i].re) {
      hlo_refuse(c, "whose body gives no tensor");
      ok = false;
    }
  return ok;
}

const char *hlo_body_op(const MlirOp *op, int64_t region) {
  const MlirBlock *b = region_block(op, region);
  if (!b || b->nargs != 2 || b->nops != 2) return NULL;
  const MlirOp *x = b->ops[0], *ret = b->ops[1];
  if (ret->noperands != 1 || x->nresults != 1 || ret->operands[0] != x->results[0] ||
      x->noperands != 2)
    return NULL;
  bool forth = x->operands[0] == b->args[0] && x->operands[1] == b->args[1];
  bool back = x->operands[0] == b->args[1] && x->operands[1] == b->args[0];
  return forth || back ? x->name : NULL;
}

bool hlo_call_func(Hlo *h, const MlirFunc *f, const HloValue *args, int64_t nargs, HloValue *out,
                   int64_t nout, Where at) {
  if (!f || !f->body) {
    graph_fail(h->g, TENON_EUNSUPPORTED, at, "calls a function without a body");
    return false;
  }
  if (h->depth >= MAX_CALLS) {
    graph_fail(h->g, TENON_EUNSUPPORTED, at, "calls nested more than %d deep, or recursive",
               MAX_CALLS);
    return false;
  }
  h->depth++;
  bool ok = hlo_block(h, f->body, args, nargs, out, nout);
  h->depth--;
  return ok;
}

// ---- before anything is built: what has no row ----
static void scan_block(Hlo *h, const MlirBlock *b, int depth, bool sizes) {
  for (int64_t i = 0; i < b->nops; i++) {
    const MlirOp *op = b->ops[i];
    const HloRow *row = find_row(op->name);
    bool ends = i + 1 == b->nops;
    if (!strncmp(op->name, "stablehlo.dynamic_", 18) &&
        strcmp(op->name, "stablehlo.dynamic_slice") &&
        strcmp(op->name, "stablehlo.dynamic_update_slice"))
      h->sized = true;
    if ((!row || !row->fn) && !ends && !sizes)
      frontend_unsupported(h->in, op->name,
                           row && row->notes ? row->notes : "Tenon does not know it",
                           op->loc ? op->loc : "");
    for (int64_t r = 0; r < op->nregions && depth < MAX_CALLS; r++)
      for (int64_t k = 0; k < op->regions[r]->nblocks; k++)
        scan_block(h, op->regions[r]->blocks[k], depth + 1, sizes);
  }
}
static void scan(Hlo *h, bool sizes) {
  for (int64_t i = 0; i < h->m->nfuncs; i++)
    if (h->m->funcs[i]->body) scan_block(h, h->m->funcs[i]->body, 0, sizes);
}

// ---- a function as the main body ----
static Node *input_part(Hlo *h, const MlirType *t, DType d, const char *name, int64_t at) {
  Dim dims[MAX_RANK];
  Graph *g = h->g;
  for (int64_t i = 0; i < t->rank; i++) {
    int64_t bound = t->bounds && t->bounds[i] >= 0 ? t->bounds[i] : INT64_MAX;
    const char *own = h->names[at * MAX_RANK + i];
    if (!own) own = str_printf(h->arena, "d%lld_%lld", (long long)at, (long long)i);
    dims[i] =
        t->dims[i] >= 0 ? ie_const(&g->dims, t->dims[i]) : ie_sym(&g->dims, str_of(own), 0, bound);
  }
  return node_param(g, type_tensor(g, d, (int)t->rank, dims), name);
}

static const char *name_of(Hlo *h, const MlirFunc *f, int64_t i, bool result) {
  const MlirAttr *const *attrs = result ? f->result_attrs : f->arg_attrs;
  const MlirAttr *dict = attrs ? attrs[i] : NULL;
  const MlirAttr *n = dict ? mlir_field(dict, result ? "jax.result_info" : "jax.arg_info") : NULL;
  if (!n && dict) n = mlir_field(dict, "tf.name");
  const char *word = n ? mlir_word(n, "") : "";
  if (*word) return str_copy(&h->g->arena, str_of(word));
  const char *own = result ? "" : f->body->args[i]->name;
  if (own && own[0] == '%' && !(own[1] >= '0' && own[1] <= '9'))
    return str_copy(&h->g->arena, str_of(own + 1));
  return str_printf(&h->g->arena, "%s%lld", result ? "result" : "arg", (long long)i);
}

typedef VEC(Node *) Nodes;
typedef VEC(const char *) Names;

static void add_input(Hlo *h, const MlirFunc *f, int64_t i, Nodes *params, HloValue *out) {
  const MlirType *t = f->body->args[i]->type;
  Where at = mlir_where(f->op);
  *out = (HloValue){.type = t};
  if (t->kind == MT_TOKEN) return;
  DType d = t->elem == ME_QUANT ? mlir_elem_dtype(t->quant->storage) : mlir_elem_dtype(t->elem);
  if (t->kind != MT_TENSOR || t->unranked || t->rank > MAX_RANK || !d) {
    graph_fail(h->g, TENON_EUNSUPPORTED, at, "argument %lld is %s", (long long)i,
               mlir_type_text(h->arena, t));
    return;
  }
  const char *name = name_of(h, f, i, false);
  bool complex = d == DT_C64 || d == DT_C128;
  DType part = d == DT_C64 ? DT_F32 : d == DT_C128 ? DT_F64 : d;
  out->re = input_part(h, t, part, complex ? str_printf(&h->g->arena, "%s.re", name) : name, i);
  vec_push(h->arena, params, out->re);
  if (!complex) return;
  out->im = input_part(h, t, part, str_printf(&h->g->arena, "%s.im", name), i);
  vec_push(h->arena, params, out->im);
}

static void add_output(Hlo *h, const char *name, const HloValue *v, Nodes *results, Names *names) {
  for (int64_t i = 0; i < v->nparts; i++)
    add_output(h, str_printf(&h->g->arena, "%s.%lld", name, (long long)i), &v->part[i], results,
               names);
  Node *part[] = {v->re, v->im};
  for (int k = 0; k < 2; k++) {
    if (!part[k]) continue;
    const char *n = !v->im ? name : str_printf(&h->g->arena, "%s.%s", name, k ? "im" : "re");
    vec_push(h->arena, results, part[k]);
    vec_push(h->arena, names, n);
  }
}

static tenon_status finish(Hlo *h, const Nodes *params, const Nodes *results, const Names *names) {
  Graph *g = h->g;
  if (g->status) return g->status;
  g->main = body_new(g, "main", params->n, params->v, results->n, results->v);
  TRY(graph_status(g));
  g->body.n--;  // main is not among the bodies of control flow
  g->main->result_name = arena_array(&g->arena, const char *, results->n + 1);
  for (int64_t i = 0; i < results->n; i++) g->main->result_name[i] = names->v[i];
  return graph_status(g);
}

static tenon_status begin(Hlo *h, Imported *in, const MlirModule *m, Diag *d) {
  if (!in->graph) TRY(frontend_begin(in, d));
  *h = (Hlo){.in = in, .g = in->graph, .arena = &in->graph->arena, .m = m};
  h->value = arena_array(h->arena, HloValue, m->nvalues + 1);
  return TENON_OK;
}

static tenon_status import_func(Hlo *h, const MlirFunc *f) {
  Nodes params = {0}, results = {0};
  Names names = {0};
  HloValue *args = arena_array(h->arena, HloValue, f->body->nargs + 1);
  HloValue *out = arena_array(h->arena, HloValue, f->nresults + 1);
  hlo_name_sizes(h, f);
  for (int64_t i = 0; i < f->body->nargs && !h->g->status; i++)
    add_input(h, f, i, &params, &args[i]);
  if (!h->g->status) hlo_block(h, f->body, args, f->body->nargs, out, f->nresults);
  TRY(graph_status(h->g));
  for (int64_t i = 0; i < f->nresults; i++)
    add_output(h, name_of(h, f, i, true), &out[i], &results, &names);
  return finish(h, &params, &results, &names);
}

tenon_status import_stablehlo(Imported *in, const MlirFile *f, Diag *d) {
  Hlo h;
  const MlirModule *m = f->nmodules ? f->modules[0] : NULL;
  const MlirFunc *main = m ? mlir_main(m) : NULL;
  if (!main || !main->body) {
    if (!in->graph) TRY(frontend_begin(in, d));
    frontend_no_graph(in, "the module has no function with a body");
    return TENON_OK;
  }
  TRY(begin(&h, in, m, d));
  scan(&h, false);
  if (in->unsupported.n) {
    frontend_no_graph(in, "it has operations that are not supported");
    in->empty = NULL;
    return TENON_OK;
  }
  return import_func(&h, main);
}

tenon_status hlo_import_frontend(Imported *in, Diag *d) {
  MlirFile *f;
  TRY(frontend_begin(in, d));
  f = arena_new(&in->graph->arena, MlirFile);
  TRY(mlir_read(&in->graph->arena, in->bytes, f, d));
  static const char *const form[] = {"text", "bytecode", "jax.export"};
  in->about =
      str_printf(&in->graph->arena, "StableHLO, %s%s%s", form[f->form],
                 f->producer && *f->producer ? ", by " : "", f->producer ? f->producer : "");
  in->file = f;
  return import_stablehlo(in, f, d);
}

// ---- tests ----
static bool is_check(const MlirOp *op) {
  if (!strncmp(op->name, "check.", 6)) return true;
  const MlirAttr *t = mlir_attr(op, "call_target_name");
  return !strcmp(op->name, "stablehlo.custom_call") && t && !strncmp(mlir_word(t, ""), "check.", 6);
}
bool hlo_has_checks(const MlirFunc *f) {
  for (int64_t i = 0; f->body && i < f->body->nops; i++)
    if (is_check(f->body->ops[i])) return true;
  return false;
}

void hlo_check(HloCall *c, HloCheckKind kind, const HloValue *got, const HloValue *want,
               double tolerance, int64_t min_ulp, int64_t max_ulp) {
  HloTest *t = c->h->test;
  if (!t || c->h->inside || c->h->lift) {
    if (t) hlo_refuse(c, "within a body");
    return;  // outside of a test nobody asks
  }
  HloCheck check = {.kind = kind,
                    .line = c->op->line,
                    .first = t->outputs.n,
                    .complex = got->im != NULL,
                    .tolerance = tolerance,
                    .min_ulp = min_ulp,
                    .max_ulp = max_ulp};
  Node *part[] = {got->re, got->im, want->re, want->im};
  if (!got->re || !want->re || !got->im != !want->im) {
    hlo_refuse(c, "compares %s with %s", mlir_type_text(c->h->arena, got->type),
               mlir_type_text(c->h->arena, want->type));
    return;
  }
  for (int i = 0; i < 4; i++)
    if (part[i]) vec_push(c->h->arena, &t->outputs, part[i]);
  vec_push(c->h->arena, &t->check, check);
}

static tenon_status import_test(Hlo *h, const MlirFunc *f) {
  Nodes params = {0}, results = {0};
  Names names = {0};
  HloValue *out = arena_array(h->arena, HloValue, f->nresults + 1);
  if (!hlo_block(h, f->body, NULL, 0, out, f->nresults)) return h->g->status;
  HloTest *t = h->test;
  for (int64_t i = 0; i < t->params.n; i++) vec_push(h->arena, &params, t->params.v[i]);
  for (int64_t i = 0; i < t->outputs.n; i++) {
    vec_push(h->arena, &results, t->outputs.v[i]);
    vec_push(h->arena, &names, (const char *)str_printf(&h->g->arena, "check%lld", (long long)i));
  }
  return finish(h, &params, &results, &names);
}

tenon_status import_stablehlo_test(Imported *in, const MlirModule *m, const MlirFunc *f,
                                   HloTest *test, Diag *d) {
  Hlo h;
  TRY(begin(&h, in, m, d));
  h.test = test;
  if (f->body->nargs)
    return fail(d, TENON_EUNSUPPORTED, mlir_where(f->op),
                "@%s takes %lld values: nobody gives them", f->name, (long long)f->body->nargs);
  scan(&h, true);
  return import_test(&h, f);
}
