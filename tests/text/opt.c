// opt.c -- runs one RUN line on one section: optimise, compare, print (text.h).
//
// This is the one place where text tests call the optimiser.
#include "text/text.h"

#include "passes/fuse_kernels/kernels.h"
#include "passes/passes.h"

enum { HEX_SHOWN = 16 };  // digits of a constant that are kept in the output

// ---- figures ----
typedef struct Figures {
  Graph *g;
  const OptReport *report;
  KernelCount kernels;
  Arena *arena;
} Figures;
typedef int64_t FigureFn(const Figures *f);

static int64_t count_ops(Graph *g, const Body *b, int op, Arena *a) {
  int64_t n = 0;
  NodeList order = body_order(g, b, a);
  for (int64_t i = 0; i < order.n; i++) {
    if (order.v[i]->op == OP_fused)
      n += count_ops(g, ((const fused_attrs *)order.v[i]->attrs)->body, op, a);
    n += order.v[i]->op == op;
  }
  return n;
}

static int64_t figure_nodes(const Figures *f) { return graph_count_nodes(f->g); }
static int64_t figure_kernels(const Figures *f) { return f->kernels.kernels; }
static int64_t figure_views(const Figures *f) { return f->kernels.kind[FUSED_VIEW]; }
static int64_t figure_channels_last(const Figures *f) {
  return f->report->layout.channels_last_nodes;
}
static int64_t figure_conversions(const Figures *f) { return f->report->layout.converted.n; }
static int64_t figure_transposes(const Figures *f) {
  return count_ops(f->g, f->g->main, OP_transpose, f->arena);
}
// At 64 for every symbol.
static int64_t figure_flops(const Figures *f) {
  DimBinding b;
  GraphCost cost;
  binding_init(&b, f->arena, f->g);
  binding_default(&b, f->g, 64);
  cost_graph(f->g, &b, f->arena, &cost);
  return (int64_t)cost.flops;
}
static int64_t figure_changed(const Figures *f) {
  bool changed = false;
  for (int64_t i = 0; i < f->report->npasses; i++) changed |= f->report->pass[i].changed;
  return changed;
}

static const struct {
  const char *name;
  FigureFn *get;
} figure[] = {
    {"changed", figure_changed},              // 1: a pass changed something
    {"nodes", figure_nodes},                  // constants, parameters and projections left out
    {"flops", figure_flops},                  // with 64 for every symbol
    {"kernels", figure_kernels},              // that are launched
    {"views", figure_views},                  // fusion groups that only rename a buffer
    {"channels-last", figure_channels_last},  // nodes computed channels last
    {"conversions", figure_conversions},      // values that are needed in both layouts
    {"transposes", figure_transposes},        // in kernels, too
};

static bool print_figures(const TextRun *r, Graph *g, const OptReport *report, Arena *a,
                          StrBuf *out, StrBuf *why) {
  Figures f = {.g = g, .report = report, .arena = a};
  graph_kernels(g, &f.kernels);
  for (const char *p = r->stats; p && *p;) {
    Str name = {p, (int64_t)strcspn(p, ",")};
    int64_t i = 0;
    while (i < ARRAY_LEN(figure) && !str_is(name, figure[i].name)) i++;
    if (i == ARRAY_LEN(figure)) {
      strbuf_printf(why, "--stats has no figure '%.*s'\n", STR_ARG(name));
      return false;
    }
    strbuf_printf(out, "%s: %lld\n", figure[i].name, (long long)figure[i].get(&f));
    p += name.n + (p[name.n] == ',');
  }
  return true;
}

// ---- text ----

// The graph's text, with the digits of long constants left out: hex"0000803f..." .
static Str print_graph(Graph *g, Arena *a) {
  StrBuf whole, out;
  strbuf_init(&whole, a);
  strbuf_init(&out, a);
  graph_print(g, &whole);
  for (const char *p = strbuf_text(&whole); *p;) {
    const char *hex = strstr(p, "hex\"");
    Str before = {p, hex ? hex + 4 - p : (int64_t)strlen(p)};
    strbuf_put(&out, before);
    if (!hex) break;
    int64_t digits = (int64_t)strcspn(hex + 4, "\"");
    strbuf_put(&out, (Str){hex + 4, MIN(digits, HEX_SHOWN)});
    if (digits > HEX_SHOWN) strbuf_puts(&out, "...");
    p = hex + 4 + digits;
  }
  return strbuf_str(&out);
}

// ---- the run ----
typedef struct Running {
  const TextFile *file;
  const TextSection *section;
  const TextRun *run;
  Graph *before, *after;
  Arena *arena;
  Diag *diag;
  StrBuf *why;
} Running;

// Messages of the parser have the file's line numbers: as many empty lines stand before the
// section.
static Graph *parse(Running *r) {
  StrBuf b;
  Graph *g = NULL;
  strbuf_init(&b, r->arena);
  for (int i = 1; i < r->section->first; i++) strbuf_putc(&b, '\n');
  strbuf_put(&b, r->section->text);
  if (graph_parse(strbuf_str(&b), r->file->path, r->diag, &g)) return NULL;
  g->diag = r->diag;
  return g;
}

static bool optimise(Running *r, OptReport *report) {
  *report = (OptReport){.arena = r->arena};
  return !graph_optimise(r->after, &r->run->opt, report);
}

static bool same_again(Running *r, Str once) {
  OptReport report;
  if (!optimise(r, &report)) return false;
  Str twice = print_graph(r->after, r->arena);
  if (str_eq(once, twice)) return true;
  strbuf_printf(r->why, "--again: optimising a second time gives\n%.*s", (int)twice.n, twice.p);
  return false;
}

static bool keeps_bytes(Running *r) {
  int64_t x = kernels_bytes_moved(r->before), y = kernels_bytes_moved(r->after);
  if (y > x)
    strbuf_printf(r->why, "--no-more-bytes: kernels move %lld bytes, nodes alone %lld\n",
                  (long long)y, (long long)x);
  return y <= x;
}

static bool run_parsed(Running *r, TextOutput *out) {
  OptReport report;
  StrBuf all;
  strbuf_init(&all, r->arena);
  if (!optimise(r, &report)) {
    strbuf_printf(r->why, "%s\n", r->diag->text);
    return false;
  }
  out->graph = print_graph(r->after, r->arena);
  if (!print_figures(r->run, r->after, &report, r->arena, &all, r->why)) return false;
  strbuf_put(&all, out->graph);
  out->all = strbuf_str(&all);
  bool ok = text_compare(r->before, r->after, r->section, r->run, r->diag, r->why);
  ok = kernels_are_sound(r->after, r->why) && ok;
  if (r->run->no_more_bytes) ok = keeps_bytes(r) && ok;
  if (ok && r->run->again) ok = same_again(r, out->graph);
  return ok;
}

bool text_section_run(const TextFile *f, const TextSection *s, const TextRun *run, Arena *a,
                      TextOutput *out, StrBuf *why) {
  static Diag d;
  diag_init(&d);
  *out = (TextOutput){0};
  Running r = {.file = f, .section = s, .run = run, .arena = a, .diag = &d, .why = why};
  r.before = parse(&r);
  if (r.before) r.after = parse(&r);
  if (!r.after) strbuf_printf(why, "%s\n", d.text);
  bool ok = r.after && run_parsed(&r, out);
  graph_free(r.before);
  graph_free(r.after);
  return ok;
}
