// cmd_verify.c -- `tenon verify`: every check that needs no run.
//
// Opening a model checks the file and infers every type; then the graph's invariants, the support of all
// operators, and that each file of external data is there, in its place and long enough.  What a run lets pass
// with the computed answer (a declared shape that is wrong, a domain that is not imported) fails here.
#include "cli/cli.h"

#include "api/model.h"
#include "ir/internal.h"

enum { FAULTS_SHOWN = 20 };

typedef struct Checked {
  const char *path, *message;
  tenon_status status;
  int64_t nodes;
} Checked;

static tenon_status check_constant(Graph *g, const Node *n, Diag *d) {
  const void *bytes;
  return n->op == OP_const ? const_bytes(g, n, &bytes, d) : TENON_OK;
}

static tenon_status check_constants(Graph *g, Diag *d) {
  for (int64_t i = 0; i < g->node.n; i++) TRY(check_constant(g, g->node.v[i], d));
  return TENON_OK;
}

static void check_model(Cli *c, const char *path, Checked *out) {
  Diag *d = arena_new(&c->arena, Diag);
  Model *m = NULL;
  diag_init(d);
  *out = (Checked){.path = path};
  out->status = model_open(path, NULL, d, &m);
  if (!out->status) out->status = graph_verify(m->graph, d);
  for (int64_t i = 0; !out->status && i < m->onnx.faults.n && i < FAULTS_SHOWN; i++)
    fail(d, TENON_EINVAL, (Where){.file = path}, "%s", m->onnx.faults.v[i]);
  if (!out->status && m->onnx.faults.n) out->status = TENON_EINVAL;
  if (!out->status) out->status = model_need_supported(m, d);
  if (!out->status) out->status = check_constants(m->graph, d);
  if (m) out->nodes = m->graph->node.n;
  StrBuf b;
  strbuf_init(&b, &c->arena);
  strbuf_puts(&b, d->text);
  for (int64_t i = 0; m && i < m->onnx.warnings.n; i++)
    strbuf_printf(&b, "%swarning: %s", b.n ? "\n" : "",
                  clean_text(&c->arena, m->onnx.warnings.v[i]));
  while (b.n && b.p[b.n - 1] == '\n') b.p[--b.n] = 0;
  out->message = b.n ? strbuf_text(&b) : NULL;
  model_free(m);
}

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
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

int cmd_verify(Cli *c) {
  Checked *v = arena_array(&c->arena, Checked, c->npos);
  int rc = CLI_OK;
  for (int64_t i = 0; i < c->npos; i++) {
    check_model(c, c->pos[i], &v[i]);
    int one = cli_exit_of(v[i].status);
    if (one == CLI_FAILED || !rc) rc = one;
  }
  if (opt_given(c, OPT_verify_json)) {
    print_json(c, v);
    return rc;
  }
  for (int64_t i = 0; i < c->npos; i++) {
    if (!v[i].status) say(c, "%s: ok, %lld nodes\n", v[i].path, (long long)v[i].nodes);
    if (v[i].message) printf("%s\n", v[i].message);
  }
  return rc;
}
