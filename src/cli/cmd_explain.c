// cmd_explain.c -- `tenon explain`: where each node of a model went, and what its kernels save (explain.h).
#include "cli/verify_precision.h"
#include "cli/overrides.h"
#include "lower/winograd.h"
#include "cli/explain_kernel.h"
#include "cli/explain_steps.h"
#include "cli/inputs.h"
#include "cli/opt.h"

#include "api/model.h"
#include "passes/explain.h"
#include "targets/target.h"

#include <math.h>

typedef struct Telling {
  Cli *cli;
  Model *model;
  Optimised opt;
  Explain x;
  DimBinding dims;
  const MemPlan *plan;  // NULL: there is none
  IntMap numbers;       // node id -> number of the kernel
  Compiled compiled;    // of its loops alone: no code is made
  int64_t winograd;     // convolutions that are done in fewer products
  const Target *target;
  MovedSteps steps;  // of a target with a device
} Telling;

static bool is_wanted(const Telling *t, const char *name) {
  const OptionValue *v = &t->cli->opt[OPT_explain_node];
  for (int64_t i = 0; i < v->count; i++)
    if (str_glob(v->text[i], name ? name : "")) return true;
  return !v->count;
}

static const char *kind_of(const ExplainKernel *k) {
  return fused_kind_name[((const fused_attrs *)k->node->attrs)->kind];
}

// ---- text ----
static void print_kernel(Cli *c, const ExplainKernel *k, int32_t number) {
  bool shown = ((const fused_attrs *)k->node->attrs)->kind == FUSED_VIEW;
  say(c, "kernel %d (%s%s)", number, kind_of(k), shown ? ", nothing launched" : "");
}

static void print_node(Cli *c, const Explain *x, const ExplainNode *n) {
  say(c, "%-40s %-20s ", n->node->name ? n->node->name : "-", op_info(n->node->op)->name);
  for (const ExplainPlace *p = n->place; p; p = p->next) {
    if (p->kernel < 0)
      say(c, "host");
    else
      print_kernel(c, &x->kernel.v[p->kernel], p->kernel);
    if (p->next) say(c, ", ");
  }
  if (n->place && n->own) say(c, ", after %s (%s)", n->own->rule->name, n->own->pass->name);
  if (!n->place && n->constant)
    say(c, "computed while compiling");
  else if (explain_removed(n))
    say(c, "taken away by %s (%s) at '%s'", n->rule->rule->name, n->rule->pass->name,
        n->rule->from);
  else if (!n->place)
    say(c, "known while compiling, or not needed");
  say(c, "\n");
}

static void print_precision(Cli *c, const PrecisionReport *r) {
  if (!r->dtype) return;
  say(c,
      "\n%lld contractions store and multiply in %s, at most %lld on one path: expected error "
      "%.2g%% of the largest value "
      "(`tenon verify --precision` measures it)\n",
      (long long)r->contractions, dtype_name(r->dtype), (long long)r->depth,
      100 * precision_expected(r));
}

// Convolutions that are done in fewer products, which rounds otherwise than the direct form.
static void print_winograd(Cli *c, int64_t n) {
  if (!n) return;
  say(c,
      "\n%lld convolution%s in fewer products (Winograd), which rounds otherwise; --exact leaves "
      "that out\n",
      (long long)n, n == 1 ? "" : "s");
}

static int64_t count_winograd(const Program *p) {
  WinogradSchedule s;
  int64_t n = 0;
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      const ProgStep *st = &p->function[i]->step[k];
      n += st->kind == STEP_KERNEL && winograd_schedule_parse(p->kernel[st->kernel].name, &s);
    }
  return n;
}

// Which order the channels have, region by region, and why.
static void print_layout(Cli *c, const LayoutReport *l, const DimBinding *b) {
  NumText a;
  if (!l->region.n) return;
  say(c, "\n%-14s %6s %8s %12s  %s\n", "order", "nodes", "decide", "worth", "region");
  for (int64_t i = 0; i < l->region.n; i++) {
    const LayoutRegion *r = &l->region.v[i];
    say(c, "%-14s %6lld %8lld %12s  %s", r->channels_last ? "channels last" : "channels first",
        (long long)r->nodes, (long long)r->aware, text_bytes(&a, MAX(r->gain, -r->gain)),
        r->name ? r->name : "-");
    if (r->gain < 0)
      say(c, " (the other order would be better, but for its conversions)");
    else if (!r->gain)
      say(c, " (nothing in it prefers an order)");
    say(c, "\n");
  }
  say(c, "%lld value%s needed in both orders, %s\n", (long long)l->converted.n,
      l->converted.n == 1 ? "" : "s", text_bytes(&a, conversion_bytes(l, b)));
}

// Which convolutions took the one before them into their kernel, which did not, and why.
static void print_chains(Cli *c, const OptReport *r) {
  if (!r->chain.n) return;
  say(c, "\nconvolutions that could take the one before them into their kernel:\n");
  for (int64_t i = 0; i < r->chain.n; i++) {
    const ChainNote *n = &r->chain.v[i];
    say(c, "  %-10s  ", n->joins ? "taken in" : "left apart");
    if (isfinite(n->more))
      say(c, "%5.1f%% more work", 100 * n->more);
    else
      say(c, "too much for a cache");
    say(c, "  %s\n", n->name ? n->name : "-");
  }
}

static int64_t kernel_number(const Telling *t, const Node *n) {
  uint64_t i;
  return intmap_get(&t->numbers, n->id, &i) ? (int64_t)i : -1;
}

// Where the step that begins at this position ends.
static int64_t beside_end(const MemPlan *p, int64_t at) {
  int64_t end = at + 1;
  while (end < p->order.n && plan_beside(p, end)) end++;
  return end;
}

// Which kernels are one step of the plan.
static void print_beside(const Telling *t) {
  const MemPlan *p = t->plan;
  if (!p || !p->nbeside) return;
  say(t->cli, "\n%lld kernels are too small to fill the threads, and run side by side:\n",
      (long long)p->nbeside);
  for (int64_t i = 0, end; i < p->order.n; i = end) {
    end = beside_end(p, i);
    if (end == i + 1) continue;
    for (int64_t k = i; k < end; k++)
      say(t->cli, "%s%lld (%s)", k == i ? "  " : " | ", (long long)kernel_number(t, p->order.v[k]),
          p->order.v[k]->name ? p->order.v[k]->name : "-");
    say(t->cli, "\n");
  }
}

// Kernels that have no loops, and why.
static void print_host(const Telling *t) {
  const Compiled *k = &t->compiled;
  if (!k->nhost) return;
  say(t->cli, "\n%lld kernel%s run%s on the host, by reference evaluation:\n", (long long)k->nhost,
      k->nhost == 1 ? "" : "s", k->nhost == 1 ? "s" : "");
  for (int64_t i = 0; i < k->nhost; i++)
    say(t->cli, "  %-40s %s: %s\n", k->left[i].node->name ? k->left[i].node->name : "-",
        host_kernel_ops(&t->cli->arena, t->model->graph, &k->left[i]), k->left[i].why);
}

static void print_text(const Telling *t) {
  const Explain *x = &t->x;
  for (int64_t i = 0; i < x->node.n; i++)
    if (is_wanted(t, x->node.v[i].node->name)) print_node(t->cli, x, &x->node.v[i]);
  if (opt_given(t->cli, OPT_explain_node)) return;
  int64_t saved = 0;
  say(t->cli, "\n%-7s %-12s %6s %12s %12s %10s %10s  %s\n", "kernel", "kind", "nodes", "moves",
      "saves", "FLOPs", "FLOPs/byte", "name");
  for (int64_t i = 0; i < x->kernel.n; i++) {
    const ExplainKernel *k = &x->kernel.v[i];
    NumText a, b, c;
    int64_t less = k->unfused_bytes - k->bytes;
    saved += less;
    say(t->cli, "%-7lld %-12s %6lld %12s %12s %10s %10.1f  %s\n", (long long)i, kind_of(k),
        (long long)k->nodes, text_bytes(&a, k->bytes), text_bytes(&b, less), text_si(&c, k->flops),
        explain_intensity(k), k->node->name ? k->node->name : "-");
  }
  print_beside(t);
  print_layout(t->cli, &t->opt.report.layout, &t->dims);
  print_chains(t->cli, &t->opt.report);
  print_precision(t->cli, &t->opt.report.precision);
  print_winograd(t->cli, t->winograd);
  print_host(t);
  print_steps(t->cli, &t->steps);
  NumText a;
  KernelCount count;
  graph_kernels(t->model->graph, &count);
  say(t->cli, "%lld node%s became %lld kernel%s, which move%s %s less than the nodes would alone\n",
      (long long)x->node.n, x->node.n == 1 ? "" : "s", (long long)count.kernels,
      count.kernels == 1 ? "" : "s", count.kernels == 1 ? "s" : "", text_bytes(&a, saved));
}

// ---- JSON ----
static void json_node(JsonWriter *w, const ExplainNode *n) {
  const RuleFiring *r = n->rule;
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, n->node->name);
  json_key(w, "op");
  json_cstr(w, op_info(n->node->op)->name);
  json_key(w, "kernels");
  json_begin_flat_array(w);
  for (const ExplainPlace *p = n->place; p; p = p->next)
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

static void json_layout(JsonWriter *w, const LayoutReport *l, const DimBinding *b) {
  json_key(w, "conversions");
  json_i64(w, l->converted.n);
  json_key(w, "conversion_bytes");
  json_i64(w, conversion_bytes(l, b));
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

static void json_kernel(JsonWriter *w, const Explain *x, const ExplainKernel *k) {
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
  json_i64(w, k->unfused_bytes - k->bytes);
  json_key(w, "flops");
  json_f64(w, k->flops);
  json_key(w, "intensity");
  json_f64(w, explain_intensity(k));
  json_key(w, "rules");
  json_begin_flat_array(w);
  for (int64_t i = 0; i < k->rule.n; i++) json_cstr(w, x->rule.v[k->rule.v[i]].rule->name);
  json_end_array(w);
  json_end_object(w);
}

static void json_beside(JsonWriter *w, const Telling *t) {
  const MemPlan *p = t->plan;
  json_key(w, "side_by_side");
  json_begin_array(w);
  for (int64_t i = 0, end; p && i < p->order.n; i = end) {
    end = beside_end(p, i);
    if (end == i + 1) continue;
    json_begin_flat_array(w);
    for (int64_t k = i; k < end; k++) json_i64(w, kernel_number(t, p->order.v[k]));
    json_end_array(w);
  }
  json_end_array(w);
}

static void json_chains(JsonWriter *w, const OptReport *r) {
  json_key(w, "chains");
  json_begin_array(w);
  for (int64_t i = 0; i < r->chain.n; i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, r->chain.v[i].name);
    json_key(w, "taken_in");
    json_bool(w, r->chain.v[i].joins);
    json_key(w, "more_work");
    json_f64(w, r->chain.v[i].more);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_host(JsonWriter *w, const Telling *t) {
  const Compiled *k = &t->compiled;
  json_key(w, "on_host");
  json_begin_array(w);
  for (int64_t i = 0; i < k->nhost; i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, k->left[i].node->name);
    json_key(w, "ops");
    json_cstr(w, host_kernel_ops(&t->cli->arena, t->model->graph, &k->left[i]));
    json_key(w, "why");
    json_cstr(w, k->left[i].why);
    json_key(w, "not_proven");
    json_bool(w, k->left[i].unproven);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(const Telling *t) {
  const Explain *x = &t->x;
  StrBuf b;
  JsonWriter w;
  KernelCount count;
  strbuf_init(&b, &t->cli->arena);
  json_init(&w, &b, false);
  graph_kernels(t->model->graph, &count);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, t->cli->pos[0]);
  json_key(&w, "kernels");
  json_i64(&w, count.kernels);
  json_layout(&w, &t->opt.report.layout, &t->dims);
  json_chains(&w, &t->opt.report);
  json_beside(&w, t);
  json_host(&w, t);
  json_steps(&w, &t->steps);
  json_key(&w, "nodes");
  json_begin_array(&w);
  for (int64_t i = 0; i < x->node.n; i++)
    if (is_wanted(t, x->node.v[i].node->name)) json_node(&w, &x->node.v[i]);
  json_end_array(&w);
  json_key(&w, "winograd");
  json_i64(&w, t->winograd);
  json_key(&w, "groups");
  json_begin_array(&w);
  for (int64_t i = 0; i < x->kernel.n; i++) json_kernel(&w, x, &x->kernel.v[i]);
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

// For a device: the whole program, which knows where everything is done.
static tenon_status place(Telling *t) {
  Cli *c = t->cli;
  MemPlan *plan;
  Program *p = NULL;
  TargetOptions o = {.sizes = &t->dims,
                     .batch_invariant = opt_given(c, OPT_explain_batch_invariant),
                     .compiled = &t->compiled,
                     .device = opt_text(c, OPT_explain_device, NULL),
                     .place = c->opt[OPT_explain_place].text,
                     .nplace = c->opt[OPT_explain_place].count};
  TRY(opt_plan(t->model->graph, &c->arena, &c->diag, &plan));
  t->plan = plan;
  TRY(target_compile_with(t->target, t->model->graph, plan, &o, &c->arena, &c->diag, &p));
  t->winograd = count_winograd(p);
  // What explains it refers to names of the program's.
  explain_steps(c, p, t->model->graph, &t->dims, &t->steps);
  t->compiled.program = p;
  return TENON_OK;
}

// The plan, and the loops of the graph's kernels, to know which have none.  A model that cannot be planned or compiled can be
// explained without.
static void lower(Telling *t) {
  Cli *c = t->cli;
  MemPlan *plan;
  Machine here;
  LowerOptions o = {0};
  Diag *d = arena_new(&c->arena, Diag);
  diag_init(d);
  machine_host(&here);
  t->target->describe(&here, &o.target);
  if (opt_plan(t->model->graph, &c->arena, d, &plan)) return;
  t->plan = plan;
  if (lower_program(t->model->graph, plan, &o, &c->arena, d, &t->compiled)) return;
  t->winograd = count_winograd(t->compiled.program);
  program_release(t->compiled.program);
  t->compiled.program = NULL;
}

static int explain(Telling *t) {
  Cli *c = t->cli;
  Graph *g = t->model->graph;
  int rc = dims_read(c, g, &c->opt[OPT_explain_dim], &t->dims);
  if (rc) return rc;
  explain_before(&t->x, g, &c->arena);
  t->opt.options.record = true;
  target_advise(t->target, opt_text(c, OPT_explain_device, NULL), &t->opt.options);
  t->opt.options.batch_invariant = opt_given(c, OPT_explain_batch_invariant);
  rc = cli_exit_of(opt_run(c, &OPT_IDS(explain), g, &t->opt));
  if (rc) return rc;
  const char *kernel = opt_text(c, OPT_explain_kernel, NULL);
  if (kernel) return explain_kernel(c, t->target, g, kernel, opt_given(c, OPT_explain_json));
  binding_default(&t->dims, g, 1);
  explain_after(&t->x, &t->opt.report, &t->dims);
  intmap_init(&t->numbers, &c->arena);
  for (int64_t i = 0; i < t->x.kernel.n; i++)
    intmap_put(&t->numbers, t->x.kernel.v[i].node->id, (uint64_t)i);
  if (!t->target->driver)
    lower(t);
  else if ((rc = cli_exit_of(place(t))))
    return rc;
  if (opt_given(c, OPT_explain_json))
    print_json(t);
  else
    print_text(t);
  return CLI_OK;
}

int cmd_explain(Cli *c) {
  Telling *t = arena_new(&c->arena, Telling);
  t->cli = c;
  ModelOptions o = {0};
  const char *target = opt_text(c, OPT_explain_target, "cpu");
  t->target = strcmp(target, "auto") ? target_find(target) : target_auto();
  if (!t->target)
    return cli_usage(c, "explain: unknown target '%s'; `tenon targets` lists them", target);
  if (!t->target->driver && strcmp(t->target->name, "cpu") && opt_given(c, OPT_explain_kernel))
    return cli_usage(
        c, "explain: --kernel shows code for the CPU or a device, and none of target %s", target);
  if (!t->target->driver && (opt_given(c, OPT_explain_device) || opt_given(c, OPT_explain_place)))
    return cli_usage(c, "explain: --device and --place go with a target that has devices");
  int rc = fixed_read(c, &c->opt[OPT_explain_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_explain_type], &c->opt[OPT_explain_weights], &o);
  if (!rc) rc = cli_exit_of(open_fixed(c, c->pos[0], &o, &t->model));
  if (rc) return rc;
  rc = explain(t);
  program_release(t->compiled.program);
  model_free(t->model);
  return rc;
}
