// cmd_explain.c -- `tenon explain`: where each node of a model went, and what its kernels save.
//
// A node is known by its name, which passes keep.  One that is gone was replaced by a rule (which then fired at
// its name), was taken in by a rule that fired at a node that used it, or is not needed: its value was computed
// while compiling, or nothing reads it.
#include "cli/inputs.h"
#include "cli/opt.h"

#include "api/model.h"
#include "passes/kernels.h"

typedef struct Original {
  const char *name;
  int op;
  int32_t user;   // the first node that reads it; -1 = none
  bool constant;  // depends on no input
} Original;
typedef struct Place {  // of a name in the optimised graph
  int32_t kernel;       // -1: run by the host
  struct Place *next;
} Place;
typedef struct Kernel {
  const Node *node;
  int64_t nodes, bytes, saved;
} Kernel;
typedef struct Explain {
  Cli *cli;
  Model *model;
  Optimised opt;
  VEC(Original) node;
  VEC(Kernel) kernel;
  StrMap places;  // name -> Place
  StrMap fired;   // name -> RuleFiring, the last one
  DimBinding dims;
} Explain;

static bool is_work(const Node *n) {
  return n->op != OP_param && n->op != OP_const && n->op != OP_proj && n->op != OP_none;
}

static void list_originals(Explain *x) {
  Arena *a = &x->cli->arena;
  Graph *g = x->model->graph;
  NodeList order = body_order(g, g->main, a);
  int32_t *at = arena_array(a, int32_t, g->node.n);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    at[n->id] = -1;
    if (n->op == OP_proj) at[n->id] = at[n->src[0]->id];
    if (!is_work(n)) continue;
    at[n->id] = (int32_t)x->node.n;
    Original o = {n->name, n->op, -1, n->nsrc > 0};
    for (uint32_t k = 0; k < n->nsrc; k++) {
      int32_t s = at[n->src[k]->id];
      o.constant &=
          s >= 0 ? x->node.v[s].constant : n->src[k]->op == OP_const || n->src[k]->op == OP_none;
      if (s >= 0 && x->node.v[s].user < 0) x->node.v[s].user = (int32_t)x->node.n;
    }
    vec_push(a, &x->node, o);
  }
}

static void put_place(Explain *x, const char *name, int32_t kernel) {
  if (!name) return;
  Place *p = arena_new(&x->cli->arena, Place);
  *p = (Place){kernel, strmap_get(&x->places, str_of(name))};
  if (p->next && p->next->kernel == kernel) return;
  strmap_put(&x->places, str_of(name), p);
}

static void list_kernels(Explain *x) {
  Arena *a = &x->cli->arena;
  Graph *g = x->model->graph;
  NodeList order = body_order(g, g->main, a);
  strmap_init(&x->places, a);
  strmap_init(&x->fired, a);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (!is_work(n)) continue;
    if (n->op != OP_fused) {
      put_place(x, n->name, -1);
      continue;
    }
    Kernel k = {.node = n, .bytes = cost_node_bytes(g, n, &x->dims, a)};
    k.saved = kernel_unfused_bytes(g, n, &x->dims, a, &k.nodes) - k.bytes;
    NodeList inner = body_order(g, ((const fused_attrs *)n->attrs)->body, a);
    for (int64_t j = 0; j < inner.n; j++)
      if (is_work(inner.v[j])) put_place(x, inner.v[j]->name, (int32_t)x->kernel.n);
    vec_push(a, &x->kernel, k);
  }
  for (int64_t i = 0; i < x->opt.report.fired.n; i++) {
    RuleFiring *r = &x->opt.report.fired.v[i];
    if (r->from) strmap_put(&x->fired, str_of(r->from), r);
  }
}

// The rule that took a node away: fired at its name, or at the nearest user's.
static const RuleFiring *taken_by(Explain *x, int64_t i) {
  enum { FAR = 64 };
  for (int step = 0; step < FAR && i >= 0; step++) {
    const char *name = x->node.v[i].name;
    const RuleFiring *r = name ? strmap_get(&x->fired, str_of(name)) : NULL;
    if (r) return r;
    if (step && name && strmap_has(&x->places, str_of(name))) return NULL;
    i = x->node.v[i].user;
  }
  return NULL;
}

static bool is_wanted(const Explain *x, const char *name) {
  const OptionValue *v = &x->cli->opt[OPT_explain_node];
  for (int64_t i = 0; i < v->count; i++)
    if (str_glob(v->text[i], name ? name : "")) return true;
  return !v->count;
}

static const char *kind_of(const Kernel *k) {
  return fused_kind_name[((const fused_attrs *)k->node->attrs)->kind];
}

// ---- text ----
static void print_node(Explain *x, int64_t i) {
  const Original *o = &x->node.v[i];
  printf("%-40s %-20s ", o->name ? o->name : "-", op_info(o->op)->name);
  const Place *p = o->name ? strmap_get(&x->places, str_of(o->name)) : NULL;
  const RuleFiring *r = taken_by(x, i);
  const RuleFiring *own = o->name ? strmap_get(&x->fired, str_of(o->name)) : NULL;
  for (const Place *q = p; q; q = q->next) {
    if (q->kernel < 0)
      printf("host");
    else
      printf("kernel %d (%s)", q->kernel, kind_of(&x->kernel.v[q->kernel]));
    if (q->next) printf(", ");
  }
  if (p && own) printf(", after %s (%s)", own->rule->name, own->pass->name);
  if (!p && o->constant)
    printf("computed while compiling");
  else if (!p && r)
    printf("taken away by %s (%s) at '%s'", r->rule->name, r->pass->name, r->from);
  else if (!p)
    printf("known while compiling, or not needed");
  putchar('\n');
}

// Which order the channels have, region by region, and why.
static void print_layout(const LayoutReport *l) {
  NumText a;
  if (!l->region.n) return;
  printf("\n%-14s %6s %8s %12s  %s\n", "order", "nodes", "decide", "worth", "region");
  for (int64_t i = 0; i < l->region.n; i++) {
    const LayoutRegion *r = &l->region.v[i];
    printf("%-14s %6lld %8lld %12s  %s", r->channels_last ? "channels last" : "channels first",
           (long long)r->nodes, (long long)r->aware, text_bytes(&a, MAX(r->gain, -r->gain)),
           r->name ? r->name : "-");
    if (r->gain < 0)
      printf(" (the other order would be better, but for its conversions)");
    else if (!r->gain)
      printf(" (nothing in it prefers an order)");
    putchar('\n');
  }
  printf("%lld value%s needed in both orders, %s\n", (long long)l->conversions,
         l->conversions == 1 ? "" : "s", text_bytes(&a, l->bytes));
}

static void print_text(Explain *x) {
  for (int64_t i = 0; i < x->node.n; i++)
    if (is_wanted(x, x->node.v[i].name)) print_node(x, i);
  if (opt_given(x->cli, OPT_explain_node)) return;
  int64_t saved = 0;
  printf("\n%-7s %-12s %6s %12s %12s  %s\n", "kernel", "kind", "nodes", "moves", "saves", "name");
  for (int64_t i = 0; i < x->kernel.n; i++) {
    const Kernel *k = &x->kernel.v[i];
    NumText a, b;
    saved += k->saved;
    printf("%-7lld %-12s %6lld %12s %12s  %s\n", (long long)i, kind_of(k), (long long)k->nodes,
           text_bytes(&a, k->bytes), text_bytes(&b, k->saved), k->node->name ? k->node->name : "-");
  }
  print_layout(&x->opt.report.layout);
  NumText a;
  KernelCount count;
  graph_kernels(x->model->graph, &count);
  printf("%lld nodes became %lld kernels, which move %s less than their nodes would alone\n",
         (long long)x->node.n, (long long)count.kernels, text_bytes(&a, saved));
}

// ---- JSON ----
static void json_node(JsonWriter *w, Explain *x, int64_t i) {
  const Original *o = &x->node.v[i];
  const Place *p = o->name ? strmap_get(&x->places, str_of(o->name)) : NULL;
  const RuleFiring *r = taken_by(x, i);
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, o->name);
  json_key(w, "op");
  json_cstr(w, op_info(o->op)->name);
  json_key(w, "kernels");
  json_begin_flat_array(w);
  for (; p; p = p->next)
    if (p->kernel >= 0) json_i64(w, p->kernel);
  json_end_array(w);
  json_key(w, "rule");
  json_cstr(w, r ? r->rule->name : NULL);
  json_key(w, "pass");
  json_cstr(w, r ? r->pass->name : NULL);
  json_key(w, "at");
  json_cstr(w, r ? r->from : NULL);
  json_end_object(w);
}

static void json_layout(JsonWriter *w, const LayoutReport *l) {
  json_key(w, "conversions");
  json_i64(w, l->conversions);
  json_key(w, "conversion_bytes");
  json_i64(w, l->bytes);
  json_key(w, "layout");
  json_begin_array(w);
  for (int64_t i = 0; i < l->region.n; i++) {
    const LayoutRegion *r = &l->region.v[i];
    json_begin_object(w);
    json_key(w, "channels_last");
    json_bool(w, r->channels_last);
    json_key(w, "name");
    json_cstr(w, r->name);
    json_key(w, "nodes");
    json_i64(w, r->nodes);
    json_key(w, "deciding_nodes");
    json_i64(w, r->aware);
    json_key(w, "worth_bytes");
    json_i64(w, r->gain);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_kernel(JsonWriter *w, const Kernel *k) {
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, k->node->name);
  json_key(w, "kind");
  json_cstr(w, kind_of(k));
  json_key(w, "nodes");
  json_i64(w, k->nodes);
  json_key(w, "bytes");
  json_i64(w, k->bytes);
  json_key(w, "saved_bytes");
  json_i64(w, k->saved);
  json_end_object(w);
}

static void print_json(Explain *x) {
  StrBuf b;
  JsonWriter w;
  KernelCount count;
  strbuf_init(&b, &x->cli->arena);
  json_init(&w, &b, false);
  graph_kernels(x->model->graph, &count);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, x->cli->pos[0]);
  json_key(&w, "kernels");
  json_i64(&w, count.kernels);
  json_layout(&w, &x->opt.report.layout);
  json_key(&w, "nodes");
  json_begin_array(&w);
  for (int64_t i = 0; i < x->node.n; i++)
    if (is_wanted(x, x->node.v[i].name)) json_node(&w, x, i);
  json_end_array(&w);
  json_key(&w, "groups");
  json_begin_array(&w);
  for (int64_t i = 0; i < x->kernel.n; i++) json_kernel(&w, &x->kernel.v[i]);
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

static int explain(Explain *x) {
  Cli *c = x->cli;
  Graph *g = x->model->graph;
  int rc = dims_read(c, g, &c->opt[OPT_explain_dim], &x->dims);
  if (rc) return rc;
  list_originals(x);
  x->opt.options.record = true;
  rc = cli_exit_of(opt_run(c, &OPT_IDS(explain), g, &x->opt));
  if (rc) return rc;
  binding_default(&x->dims, g, 1);
  list_kernels(x);
  if (opt_given(c, OPT_explain_json))
    print_json(x);
  else
    print_text(x);
  return CLI_OK;
}

int cmd_explain(Cli *c) {
  Explain *x = arena_new(&c->arena, Explain);
  x->cli = c;
  int rc = cli_exit_of(model_open(c->pos[0], NULL, &c->diag, &x->model));
  if (rc) return rc;
  rc = explain(x);
  model_free(x->model);
  return rc;
}
