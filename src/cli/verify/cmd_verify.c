// cmd_verify.c -- `tenon verify`: every check that needs no run.
//
// Opening a model checks the file and infers every type; then the graph's invariants, the support
// of all operators, and that each file of external data is there, in its place and long enough.
// What a run lets pass with the computed answer (a declared shape that is wrong, a domain that is
// not imported) is a warning.  What is sound is then analysed (analyse/analyse.h); a finding that
// is an error fails the model.
#include "cli/verify/findings.h"
#include "cli/open.h"
#include "cli/run/overrides.h"
#include "cli/verify/verify_certificate.h"
#include "cli/verify/verify_precision.h"

#include "ir/internal.h"

enum { WARNINGS_SHOWN = 20 };

typedef struct Checked {
  const char *path, *message;
  tenon_status status;
  int64_t nodes;
  int64_t warnings;  // of the reader, besides those that were found
  Analysis found;
} Checked;

static tenon_status check_constant(Graph *g, const Node *n, Diag *d) {
  const void *bytes;
  return n->op == OP_const ? const_bytes(g, n, &bytes, d) : TENON_OK;
}

static tenon_status check_constants(Graph *g, Diag *d) {
  TRY(graph_open_sources(g, d));
  for (int64_t i = 0; i < g->node.n; i++) TRY(check_constant(g, g->node.v[i], d));
  return TENON_OK;
}

static void add_warnings(Cli *c, StrBuf *b, const char *const *text, int64_t n) {
  for (int64_t i = 0; i < n && i < WARNINGS_SHOWN; i++)
    strbuf_printf(b, "%swarning: %s", b->n ? "\n" : "", clean_text(&c->arena, text[i]));
  if (n > WARNINGS_SHOWN)
    strbuf_printf(b, "\n... and %lld more warnings", (long long)(n - WARNINGS_SHOWN));
}

static void check_model(Cli *c, const char *path, const ModelOptions *o, Checked *out) {
  Diag *d = arena_new(&c->arena, Diag);
  Model *m = NULL;
  diag_init(d);
  *out = (Checked){.path = path};
  out->status = cli_open(c, path, o, d, &m);
  if (!out->status) out->status = graph_verify(m->graph, d);
  if (!out->status) out->status = model_need_supported(m, d);
  if (!out->status) out->status = check_constants(m->graph, d);
  if (m) out->nodes = m->graph->node.n;
  if (!out->status) {
    findings_collect(m, opt_given(c, OPT_verify_check_weights), &c->arena, &out->found);
    if (out->found.count[SEVERITY_ERROR]) out->status = TENON_EINVAL;
  }
  StrBuf b;
  strbuf_init(&b, &c->arena);
  strbuf_puts(&b, d->text);
  if (m) {
    add_warnings(c, &b, m->import.warnings.v, m->import.warnings.n);
    add_warnings(c, &b, m->import.faults.v, m->import.faults.n);
    out->warnings = m->import.warnings.n + m->import.faults.n;
  }
  while (b.n && b.p[b.n - 1] == '\n') b.p[--b.n] = 0;
  out->message = b.n ? strbuf_text(&b) : NULL;
  model_free(m);
}

static const char *const severity_plural[SEVERITIES] = {"notes", "warnings", "errors"};

static void print_json(Cli *c, const Checked *v) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "models");
  json_begin_array(&w);
  for (int64_t i = 0; i < c->npos; i++) {
    json_begin_object(&w);
    json_key(&w, "model");
    json_cstr(&w, v[i].path);
    json_key(&w, "ok");
    json_bool(&w, !v[i].status);
    json_key(&w, "status");
    json_cstr(&w, v[i].status ? status_name(v[i].status) : "ok");
    json_key(&w, "message");
    json_cstr(&w, v[i].message);
    for (int k = SEVERITIES; k-- > 0;) {
      json_key(&w, severity_plural[k]);
      json_i64(&w, v[i].found.count[k] + (k == SEVERITY_WARNING ? v[i].warnings : 0));
    }
    findings_json(&w, &v[i].found);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

static void print_text(Cli *c, const Checked *v) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  findings_count(&b, &v->found);
  if (!v->status || v->found.count[SEVERITY_ERROR])
    say(c, "%s: %s, %lld nodes%s%s\n", v->path, v->status ? "unsound" : "ok", (long long)v->nodes,
        b.n ? "; " : "", strbuf_text(&b));
  if (v->message) printf("%s\n", v->message);
  findings_print(&v->found, NULL, opt_given(c, OPT_verify_all));
}

static int print_codes(Cli *c) {
  if (c->npos) return cli_usage(c, "verify: --codes takes no model");
  if (opt_given(c, OPT_verify_markdown))
    codes_markdown();
  else if (opt_given(c, OPT_verify_json))
    codes_json(c);
  else
    codes_print();
  return CLI_OK;
}

int cmd_verify(Cli *c) {
  if (opt_given(c, OPT_verify_codes)) return print_codes(c);
  if (opt_given(c, OPT_verify_precision)) return verify_precision(c);
  if (opt_given(c, OPT_verify_certificate)) return verify_certificate(c);
  if (!c->npos) return cli_usage(c, "verify: MODEL is missing; `tenon verify --help` explains");
  Checked *v = arena_array(&c->arena, Checked, c->npos);
  ModelOptions o = {0};
  int rc = foreign_read(c, &c->opt[OPT_verify_type], &c->opt[OPT_verify_weights], &o);
  if (rc) return rc;
  for (int64_t i = 0; i < c->npos; i++) {
    check_model(c, c->pos[i], &o, &v[i]);
    int one = cli_exit_of(v[i].status);
    if (one == CLI_FAILED || !rc) rc = one;
  }
  if (opt_given(c, OPT_verify_json)) {
    print_json(c, v);
    return rc;
  }
  for (int64_t i = 0; i < c->npos; i++) print_text(c, &v[i]);
  return rc;
}
