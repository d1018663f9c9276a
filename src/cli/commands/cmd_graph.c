// cmd_graph.c -- `tenon graph`: a model's graph as a page, a picture, for Graphviz or as data.
//
// A model with operators that Tenon does not know is drawn, too: those nodes stand out.  With
// --optimised the graph as it was is drawn first: nodes never change, so the old main body is there
// to be shown beside the new one.  A profile needs the optimiser, too: it names kernels.
#include "cli/explain/explain_certificate.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/open.h"
#include "cli/opt.h"
#include "cli/run/overrides.h"

#include "api/model.h"
#include "view/view.h"

typedef void WriteFn(const View *v, StrBuf *out);
static const struct {
  const char *ending;
  WriteFn *write;
} format[] = {{".html", view_write_html},
              {".svg", view_write_svg},
              {".dot", view_write_dot},
              {".json", view_write_json}};

enum { SAMPLE_SIZE = 16 };  // of a symbolic dimension that nothing is known of

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static const char *default_output(Cli *c, const char *model) {
  if (!strcmp(model, "-")) return "model.html";
  Str name = str_of(base_name(model));
  if (str_ends(name, ".onnx") || str_ends(name, ".tir")) name.n = strrchr(name.p, '.') - name.p;
  return str_printf(&c->arena, "%.*s.html", (int)name.n, name.p);
}

static WriteFn *writer_of(const char *output) {
  if (!strcmp(output, "-")) return view_write_html;
  for (int64_t i = 0; i < ARRAY_LEN(format); i++)
    if (str_ends(str_of(output), format[i].ending)) return format[i].write;
  return NULL;
}

// ---- optimised ----

typedef struct Optimising {
  CompileOptions options;
  CompileReport made;
  Explain explain;
  DimBinding sizes;
  ViewOpt view;
} Optimising;

static void plan_memory(Cli *c, Graph *g, Optimising *o) {
  Diag *d = arena_new(&c->arena, Diag);
  diag_init(d);
  if (compile_graph(g, &o->options, COMPILE_PLAN, &c->arena, d, &o->made))
    o->view.no_plan = d->text;
  else
    o->view.plan = o->made.plan;
}

// Times of a run, if there are any to lay over the drawings.
static tenon_status read_profile(Cli *c, const char *path, ViewProfile **out) {
  File f;
  *out = NULL;
  if (!path) return TENON_OK;
  ViewProfile *p = arena_new(&c->arena, ViewProfile);
  TRY(file_open(path, &f, &c->diag));
  Str text = {(const char *)f.bytes, f.size};
  tenon_status status = view_read_profile(text, base_name(path), &c->arena, &c->diag, p);
  file_close(&f);
  *out = p;
  return status;
}

typedef struct Wanted {
  bool before, after;  // drawings
  ViewProfile *profile;
} Wanted;

// Optimises, for a drawing of the result or to know which kernel has which nodes.  Both graphs are
// drawn where the format can show both.
static int add_optimised(Cli *c, Graph *g, View *v, Optimising *o, const Wanted *want) {
  GraphCost *before = &o->view.before;
  bool both = want->before && want->after;
  cost_graph(g, &o->sizes, &c->arena, before);
  explain_before(&o->explain, g, &c->arena);
  if (want->before) view_add(v, g->main);
  int rc = cli_exit_of(opt_compile(c, &o->options));
  o->options.record = true;
  if (!rc)
    rc =
        cli_exit_of(compile_graph(g, &o->options, COMPILE_OPTIMISE, &c->arena, &c->diag, &o->made));
  if (rc) return rc;
  explain_after(&o->explain, &o->made.opt, &o->sizes);
  cost_graph(g, &o->sizes, &c->arena, &o->view.after);
  graph_kernels(g, &o->view.kernels);
  if (want->after) {
    plan_memory(c, g, o);
    o->view.explain = &o->explain;
    o->view.report = &o->made.opt;
    o->view.sizes = &o->sizes;
    view_name_kernels(v, &o->explain);
    o->view.drawing = view_add(v, g->main);
  }
  if (both) v->opt = &o->view;
  if (want->profile && want->before)
    view_set_times(v, want->profile, &o->explain, want->after ? o->view.drawing : -1);
  return CLI_OK;
}

// Only the page and its data can be folded.
static void fold(View *v) {
  view_fold(v, 0, FOLD_MODULES);
  if (!v->opt) return;
  view_fold(v, v->opt->drawing, FOLD_MODULES | FOLD_HOST);
  view_fold(v, v->opt->drawing, FOLD_HOST);
}

static void say_written(Cli *c, Graph *g, const char *output, int64_t bytes) {
  NumText size;
  int64_t n = graph_count_nodes(g);
  say(c, "%s: %lld node%s, %s\n", output, (long long)n, n == 1 ? "" : "s",
      text_bytes(&size, bytes));
}

// What a certificate says of the layers, as lines of their nodes.
static int add_certificate(Cli *c, const Model *m, View *v) {
  QuantCertificate k;
  const char *path = opt_text(c, OPT_graph_certificate, NULL);
  if (!path) return CLI_OK;
  int rc = explain_certificate(c, path, m, &k);
  if (rc) return rc;
  ViewNote *note = arena_array(&c->arena, ViewNote, MAX(k.layer.n, 1));
  for (int64_t i = 0; i < k.layer.n; i++) {
    const CertifiedLayer *l = &k.layer.v[i];
    note[i] = (ViewNote){.node = l->node, .row = {{"precision", l->choice}}};
    if (l->ns[0] > 0)
      note[i].row[1] = (DrawRow){"error", str_printf(&c->arena, "%.1f %%", 100 * l->share)};
  }
  v->note = note;
  v->nnotes = k.layer.n;
  return CLI_OK;
}

static int draw(Cli *c, Model *m, const char *path, const char *output, WriteFn *write) {
  View v;
  StrBuf b;
  Optimising *o = arena_new(&c->arena, Optimising);
  bool page = write == view_write_html || write == view_write_json;
  Wanted want = {.after = opt_given(c, OPT_graph_optimised)};
  want.before = page || !want.after;
  int rc = dims_read(c, m->graph, &c->opt[OPT_graph_dim], &o->sizes);
  if (!rc) rc = cli_exit_of(read_profile(c, opt_text(c, OPT_graph_times, NULL), &want.profile));
  if (rc) return rc;
  binding_typical(&o->sizes, m->graph);
  binding_default(&o->sizes, m->graph, SAMPLE_SIZE);
  strbuf_init(&b, &c->arena);
  view_init(&v, m->graph, strcmp(path, "-") ? base_name(path) : "model", &c->arena);
  if (page) v.sizes = &o->sizes;
  if ((rc = add_certificate(c, m, &v))) return rc;
  if (want.after || want.profile)
    rc = add_optimised(c, m->graph, &v, o, &want);
  else
    view_add(&v, m->graph->main);
  if (rc) return rc;
  if (page) fold(&v);
  write(&v, &b);
  rc = cli_exit_of(file_write(output, b.p, b.n, &c->diag));
  if (!rc && strcmp(output, "-")) say_written(c, m->graph, output, b.n);
  return rc;
}

int cmd_graph(Cli *c) {
  const char *path = c->pos[0];
  const char *output = opt_text(c, OPT_graph_output, NULL);
  bool json = opt_given(c, OPT_graph_json);
  if (!output) output = json ? "-" : default_output(c, path);
  WriteFn *write = json ? view_write_json : writer_of(output);
  if (!write)
    return cli_usage(
        c, "cannot tell the format of '%s': the name must end in .html, .svg, .dot or .json",
        output);
  if (opt_given(c, OPT_graph_times) && write != view_write_html && write != view_write_json)
    return cli_usage(c, "--times needs a page or its data: .html or .json, not '%s'", output);
  Model *m;
  ModelOptions o = {0};
  int rc = opt_given(c, OPT_graph_output) ? CLI_OK : files_output(c, output, "the default output");
  if (rc) return rc;
  rc = foreign_read(c, &c->opt[OPT_graph_type], &c->opt[OPT_graph_weights], &o);
  if (!rc) rc = cli_exit_of(cli_open(c, path, &o, &c->diag, &m));
  if (rc) return rc;
  rc = cli_exit_of(model_need_supported(m, &c->diag));
  if (rc == CLI_UNSUPPORTED && !m->import.empty) rc = CLI_OK;  // drawn all the same
  if (!rc) rc = draw(c, m, path, output, write);
  model_free(m);
  return rc;
}
