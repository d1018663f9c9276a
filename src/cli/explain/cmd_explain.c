// cmd_explain.c -- `tenon explain`: where each node of a model went, and what its kernels save
// (explain.h).
#include "cli/verify/verify_precision.h"
#include "cli/run/overrides.h"
#include "cli/explain/explain_certificate.h"
#include "cli/explain/explain_kernel.h"
#include "lower/template.h"
#include "lower/workload.h"
#include "cli/explain/explain_steps.h"
#include "cli/inputs.h"
#include "cli/opt.h"

#include "api/model.h"
#include "analyse/explain.h"

#include <math.h>

typedef struct ExplainReport {
  Cli *cli;
  Model *model;
  CompileOptions options;
  CompileReport made;
  Explain x;
  DimBinding dims;
  const MemPlan *plan;  // NULL: there is none
  IntMap numbers;       // node id -> number of the kernel
  int64_t winograd;     // convolutions by Winograd
  const Target *target;
  MovedSteps steps;               // of a target with a device
  QuantCertificate *certificate;  // NULL: none is given
} ExplainReport;

// The few names that are nearest, in a note; takes them from the list.
static void nearest_names(Cli *c, Str word, const char **words, int64_t n) {
  enum { NAMES = 5 };
  StrBuf b;
  strbuf_init(&b, &c->arena);
  for (int k = 0; k < NAMES; k++) {
    int64_t best = -1, least = INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
      int64_t d = words[i] ? str_distance(word, str_of(words[i])) : INT64_MAX;
      if (d < least) least = d, best = i;
    }
    if (best < 0) break;
    strbuf_printf(&b, "%s'%s'", k ? ", " : "", words[best]);
    words[best] = NULL;
  }
  if (b.n) diag_note(&c->diag, "the nearest names are %s", strbuf_text(&b));
}

static bool is_wanted(const ExplainReport *t, const char *name) {
  const OptionValue *v = &t->cli->opt[OPT_explain_node];
  for (int64_t i = 0; i < v->count; i++)
    if (str_glob(v->text[i], name ? name : "")) return true;
  return !v->count;
}

// --node: a pattern that no node fits is a mistake, which names near it may mend.
static int check_patterns(ExplainReport *t) {
  Cli *c = t->cli;
  const OptionValue *v = &c->opt[OPT_explain_node];
  const char **words = arena_array(&c->arena, const char *, t->x.node.n + 1);
  for (int64_t i = 0; i < t->x.node.n; i++) words[i] = t->x.node.v[i].node->name;
  for (int64_t k = 0; k < v->count; k++) {
    bool fits = false;
    for (int64_t i = 0; i < t->x.node.n && !fits; i++)
      fits = str_glob(v->text[k], words[i] ? words[i] : "");
    if (fits) continue;
    StrBuf bare;  // without its wildcards it is like a name
    strbuf_init(&bare, &c->arena);
    for (const char *p = v->text[k]; *p; p++)
      if (*p != '*' && *p != '?') strbuf_putc(&bare, *p);
    cli_usage(c, "explain: no node fits '%s'", v->text[k]);
    nearest_names(c, strbuf_str(&bare), words, t->x.node.n);
    return CLI_USAGE;
  }
  return CLI_OK;
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

// Winograd convolutions round differently from the direct form.
static void print_winograd(Cli *c, int64_t n) {
  if (!n) return;
  say(c, "\n%lld convolution%s by Winograd, which rounds differently; --exact disables it\n",
      (long long)n, n == 1 ? "" : "s");
}

static int64_t count_winograd(const Program *p) {
  int64_t n = 0;
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      const ProgStep *st = &p->function[i]->step[k];
      n += st->kind == STEP_KERNEL && !strcmp(p->kernel[st->kernel].template_name, "winograd");
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
  if (!r->conv_chains.n) return;
  say(c, "\nconvolutions that could take the one before them into their kernel:\n");
  for (int64_t i = 0; i < r->conv_chains.n; i++) {
    const ConvChainNote *n = &r->conv_chains.v[i];
    say(c, "  %-10s  ", n->joins ? "joined" : "not joined");
    if (isfinite(n->more))
      say(c, "%5.1f%% more work", 100 * n->more);
    else
      say(c, "too much for a cache");
    say(c, "  %s\n", n->name ? n->name : "-");
  }
}

static int64_t kernel_number(const ExplainReport *t, const Node *n) {
  uint64_t i;
  return intmap_get(&t->numbers, n->id, &i) ? (int64_t)i : -1;
}

// Where the step that begins at this position ends.
static int64_t concurrent_end(const MemPlan *p, int64_t at) {
  int64_t end = at + 1;
  while (end < p->order.n && plan_is_concurrent(p, end)) end++;
  return end;
}

// Which kernels are one step of the plan.
static void print_concurrent(const ExplainReport *t) {
  const MemPlan *p = t->plan;
  if (!p || !p->nconcurrent) return;
  say(t->cli, "\n%lld kernels are too small to fill the threads, and run concurrently:\n",
      (long long)p->nconcurrent);
  for (int64_t i = 0, end; i < p->order.n; i = end) {
    end = concurrent_end(p, i);
    if (end == i + 1) continue;
    for (int64_t k = i; k < end; k++)
      say(t->cli, "%s%lld (%s)", k == i ? "  " : " | ", (long long)kernel_number(t, p->order.v[k]),
          p->order.v[k]->name ? p->order.v[k]->name : "-");
    say(t->cli, "\n");
  }
}

// All that was tried of kernels that were not made as they were chosen.
static void print_declined(const ExplainReport *t) {
  const TargetReport *r = &t->made.target;
  if (r->ndeclined) say(t->cli, "\nkernels that are not made as they were chosen:\n");
  for (int64_t i = 0; i < r->ndeclined; i++) {
    const DeclinedKernel *k = &r->declined[i];
    say(t->cli, "  %s: %s\n", k->label, k->nodes);
    for (int64_t j = 0; j < k->ntried; j++)
      say(t->cli, "    not by %s: %s\n", k->tried[j].schedule, k->tried[j].why);
    say(t->cli, "    but by %s\n", k->instead ? k->instead : "nothing");
  }
}

// What --tuned did: the gain of each kernel as it was measured, and what was not taken.
static void print_tuned(const ExplainReport *t) {
  const Compiled *k = &t->made.compiled;
  if (!t->options.tuned.path) return;
  say(t->cli, "\n%lld of %lld kernels have their schedule from %s:\n", (long long)k->ntuned,
      (long long)k->nuses, t->options.tuned.path);
  for (int64_t i = 0; i < k->nuses; i++)
    if (k->use[i].tuned)
      say(t->cli, "  %-40s %5.2f x  %s\n", k->use[i].label, k->use[i].tuned->gain,
          k->use[i].tuned->schedule);
  for (int64_t i = 0; i < k->nuntuned; i++)
    say(t->cli, "  %-40s not by %s: %s\n", k->untuned[i].label, k->untuned[i].schedule,
        k->untuned[i].why);
}

// Kernels that have no loops, and why.
static void print_host(const ExplainReport *t) {
  const Compiled *k = &t->made.compiled;
  if (!k->nhost) return;
  say(t->cli, "\n%lld kernel%s run%s on the host, by reference evaluation:\n", (long long)k->nhost,
      k->nhost == 1 ? "" : "s", k->nhost == 1 ? "s" : "");
  for (int64_t i = 0; i < k->nhost; i++)
    say(t->cli, "  %-40s %s: %s\n", k->left[i].node->name ? k->left[i].node->name : "-",
        host_kernel_ops(&t->cli->arena, t->model->graph, &k->left[i]), k->left[i].why);
}

static const char *template_of(const Compiled *c, const Node *n) {
  for (int64_t i = 0; i < c->nuses; i++)
    if (c->use[i].node == n) return c->kernel[c->use[i].kernel].lowered->schedule.t->name;
  return "-";
}

// What --schedule and --kernel call it; of a row bucket, without the rows.
static const char *label_of(const ExplainReport *t, const Node *n) {
  const Compiled *c = &t->made.compiled;
  for (int64_t i = 0; i < c->nuses; i++) {
    if (c->use[i].node != n) continue;
    const char *label = c->use[i].label, *rows = strrchr(label, '@');
    bool bucket = rows && (!n->name || strlen(label) > strlen(n->name));
    return bucket ? str_copy(&t->cli->arena, (Str){label, rows - label}) : label;
  }
  return n->name ? n->name : "-";
}

static void print_text(const ExplainReport *t) {
  const Explain *x = &t->x;
  for (int64_t i = 0; i < x->node.n; i++)
    if (is_wanted(t, x->node.v[i].node->name)) print_node(t->cli, x, &x->node.v[i]);
  if (opt_given(t->cli, OPT_explain_node)) return;
  int64_t saved = 0;
  say(t->cli, "\n%-7s %-12s %6s %12s %12s %10s %10s  %-16s %s\n", "kernel", "kind", "nodes",
      "moves", "saves", "FLOPs", "FLOPs/byte", "template", "name");
  for (int64_t i = 0; i < x->kernel.n; i++) {
    const ExplainKernel *k = &x->kernel.v[i];
    NumText a, b, c;
    int64_t less = k->unfused_bytes - k->bytes;
    saved += less;
    say(t->cli, "%-7lld %-12s %6lld %12s %12s %10s %10.1f  %-16s %s\n", (long long)i, kind_of(k),
        (long long)k->nodes, text_bytes(&a, k->bytes), text_bytes(&b, less), text_si(&c, k->flops),
        explain_intensity(k), template_of(&t->made.compiled, k->node), label_of(t, k->node));
  }
  print_concurrent(t);
  print_layout(t->cli, &t->made.opt.layout, &t->dims);
  print_chains(t->cli, &t->made.opt);
  print_precision(t->cli, &t->made.opt.precision);
  print_winograd(t->cli, t->winograd);
  print_host(t);
  print_declined(t);
  print_tuned(t);
  print_steps(t->cli, &t->steps);
  if (t->certificate) print_certificate(t->cli, t->certificate, x);
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

// The schedules of a kernel: that of its first variant in the record itself, and those of all by
// the label that --schedule takes.
static void json_schedules(JsonWriter *w, const Compiled *c, const Node *fused) {
  const KernelUse *first = NULL;
  for (int64_t i = 0; i < c->nuses && !first; i++)
    if (c->use[i].node == fused) first = &c->use[i];
  if (first)
    json_schedule(w, c->kernel[first->kernel].lowered);
  else
    json_no_schedule(w);
  json_refused(w, first ? first->refused : NULL, first ? first->nrefused : 0);
  json_key(w, "lowered");
  json_begin_array(w);
  for (int64_t i = 0; i < c->nuses; i++) {
    if (c->use[i].node != fused) continue;
    json_begin_object(w);
    json_key(w, "label");
    json_cstr(w, c->use[i].label);
    const KernelText *k = &c->kernel[c->use[i].kernel];
    json_schedule(w, k->lowered);
    json_key(w, "text_hash");  // of the kernel's loops: the same where they are
    json_cstr(w, str_printf(w->out->arena, "%016llx",
                            (unsigned long long)hash_bytes(k->text.p, k->text.n, 0)));
    json_key(w, "workload");  // that a tuned schedule is found by
    json_cstr(w, workload_key(c->use[i].workload, w->out->arena));
    json_key(w, "tuned_gain");  // null: it has no tuned schedule
    if (c->use[i].tuned)
      json_f64(w, c->use[i].tuned->gain);
    else
      json_cstr(w, NULL);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_kernel(JsonWriter *w, const ExplainReport *t, const ExplainKernel *k) {
  const Explain *x = &t->x;
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, label_of(t, k->node));
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
  json_schedules(w, &t->made.compiled, k->node);
  json_end_object(w);
}

static void json_concurrent(JsonWriter *w, const ExplainReport *t) {
  const MemPlan *p = t->plan;
  json_key(w, "concurrent");
  json_begin_array(w);
  for (int64_t i = 0, end; p && i < p->order.n; i = end) {
    end = concurrent_end(p, i);
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
  for (int64_t i = 0; i < r->conv_chains.n; i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, r->conv_chains.v[i].name);
    json_key(w, "taken_in");
    json_bool(w, r->conv_chains.v[i].joins);
    json_key(w, "more_work");
    json_f64(w, r->conv_chains.v[i].more);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_host(JsonWriter *w, const ExplainReport *t) {
  const Compiled *k = &t->made.compiled;
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
    json_key(w, "declined");
    json_bool(w, k->left[i].declined);
    json_refused(w, k->left[i].refused, k->left[i].nrefused);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(const ExplainReport *t) {
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
  json_key(&w, "tuning_machine");
  json_cstr(&w, t->made.compiled.machine);
  json_key(&w, "launches");
  json_i64(&w, count.kernels);
  json_layout(&w, &t->made.opt.layout, &t->dims);
  json_chains(&w, &t->made.opt);
  json_concurrent(&w, t);
  json_host(&w, t);
  json_declined(&w, &t->made);
  json_steps(&w, &t->steps);
  json_key(&w, "nodes");
  json_begin_array(&w);
  for (int64_t i = 0; i < x->node.n; i++)
    if (is_wanted(t, x->node.v[i].node->name)) json_node(&w, &x->node.v[i]);
  json_end_array(&w);
  json_key(&w, "winograd");
  json_i64(&w, t->winograd);
  if (t->certificate) json_certificate(&w, t->certificate, x);
  json_key(&w, "kernels");
  json_begin_array(&w);
  for (int64_t i = 0; i < x->kernel.n; i++) json_kernel(&w, t, &x->kernel.v[i]);
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

// For a device: the whole program, which knows where everything is done.
static tenon_status place(ExplainReport *t) {
  Cli *c = t->cli;
  t->options.sizes = &t->dims;
  TRY(compile_graph(t->model->graph, &t->options, COMPILE_BUILD, &c->arena, &c->diag, &t->made));
  t->plan = t->made.plan;
  t->winograd = count_winograd(t->made.program);
  // What explains it refers to names of the program's.
  explain_steps(c, t->made.program, t->model->graph, &t->dims, &t->steps);
  return TENON_OK;
}

// The plan, and the loops of the graph's kernels, to know which have none.  A model that cannot be
// planned or compiled can be explained without, unless a schedule is asked for.
static tenon_status lower(ExplainReport *t) {
  Cli *c = t->cli;
  bool must = t->options.schedule.n > 0 || t->options.tuned.path;
  Diag *d = must ? &c->diag : arena_new(&c->arena, Diag);
  if (!must) diag_init(d);
  tenon_status s =
      compile_graph(t->model->graph, &t->options, COMPILE_PLAN, &c->arena, d, &t->made);
  if (!s) t->plan = t->made.plan;
  if (!s) s = compile_graph(t->model->graph, &t->options, COMPILE_LOWER, &c->arena, d, &t->made);
  if (!s) t->winograd = count_winograd(t->made.program);
  return must ? s : TENON_OK;
}

static int explain(ExplainReport *t) {
  Cli *c = t->cli;
  Graph *g = t->model->graph;
  int rc = dims_read(c, g, &c->opt[OPT_explain_dim], &t->dims);
  if (rc) return rc;
  explain_before(&t->x, g, &c->arena);
  rc = cli_exit_of(opt_compile(c, &t->options));
  t->options.record = t->options.workloads = true;
  t->options.target = t->target;
  if (!rc)
    rc =
        cli_exit_of(compile_graph(g, &t->options, COMPILE_OPTIMISE, &c->arena, &c->diag, &t->made));
  if (rc) return rc;
  const char *kernel = opt_text(c, OPT_explain_kernel, NULL);
  if (kernel)
    return explain_kernel(c, &t->options, g, &t->made, kernel, opt_given(c, OPT_explain_json));
  binding_default(&t->dims, g, 1);
  if ((rc = check_patterns(t))) return rc;
  explain_after(&t->x, &t->made.opt, &t->dims);
  intmap_init(&t->numbers, &c->arena);
  for (int64_t i = 0; i < t->x.kernel.n; i++)
    intmap_put(&t->numbers, t->x.kernel.v[i].node->id, (uint64_t)i);
  if ((rc = cli_exit_of(t->target->driver ? place(t) : lower(t)))) return rc;
  if (opt_given(c, OPT_explain_json))
    print_json(t);
  else
    print_text(t);
  return CLI_OK;
}

int cmd_explain(Cli *c) {
  ExplainReport *t = arena_new(&c->arena, ExplainReport);
  t->cli = c;
  ModelOptions o = {0};
  const char *target = opt_text(c, OPT_explain_target, "cpu");
  t->target = strcmp(target, "auto") ? target_find(target) : target_auto();
  if (!t->target)
    return cli_usage(c, "explain: unknown target '%s'%s", target, target_hint(target, &c->arena));
  if (!t->target->driver && strcmp(t->target->name, "cpu") && opt_given(c, OPT_explain_kernel))
    return cli_usage(
        c, "explain: --kernel shows code for the CPU or a device, and none of target %s", target);
  if (!t->target->driver && (opt_given(c, OPT_explain_device) || opt_given(c, OPT_explain_place)))
    return cli_usage(c, "explain: --device and --place go with a target that has devices");
  int rc = fixed_read(c, &c->opt[OPT_explain_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_explain_type], &c->opt[OPT_explain_weights], &o);
  if (!rc) rc = cli_exit_of(open_fixed(c, c->pos[0], &o, &t->model));
  if (rc) return rc;
  const char *certificate = opt_text(c, OPT_explain_certificate, NULL);
  if (certificate) {
    t->certificate = arena_new(&c->arena, QuantCertificate);
    rc = explain_certificate(c, certificate, t->model, t->certificate);
  }
  if (!rc) rc = explain(t);
  program_release(t->made.program);
  model_free(t->model);
  return rc;
}
