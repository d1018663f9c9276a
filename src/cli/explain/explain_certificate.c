// explain_certificate.c -- the layers of a certificate beside the kernels that compute them
// (explain_certificate.h).
#include "cli/explain/explain_certificate.h"

int explain_certificate(Cli *c, const char *path, const Model *m, QuantCertificate *out) {
  tenon_status s = quantize_read_certificate(path, &c->arena, &c->diag, out);
  if (s) return cli_exit_of(s);
  Hash own = hash_of_bytes((Str){(const char *)m->file.bytes, m->file.size});
  if (!memcmp(&own, &out->model, sizeof own)) return CLI_OK;
  fail(&c->diag, TENON_EINVAL, (Where){.file = path},
       "the certificate is another model's: %s has the SHA-256 %s", c->pos[0], hash_text(&own).s);
  return CLI_MISMATCH;
}

// The number of the kernel that a layer's node is in; -1: none has its name.
static int64_t kernel_of(const Explain *x, const char *name) {
  for (int64_t i = 0; i < x->node.n; i++) {
    const ExplainNode *n = &x->node.v[i];
    if (n->node->name && n->place && !strcmp(n->node->name, name)) return n->place->kernel;
  }
  return -1;
}

void print_certificate(Cli *c, const QuantCertificate *k, const Explain *x) {
  const MetricRow *m = &metric_row[k->metric];
  say(c, "\nas certified: %s %.6g, with %.4g %% confidence at %s %.6g\n", m->name, k->value,
      100 * k->confidence, m->sign > 0 ? "least" : "most", k->bound);
  say(c, "%-14s %8s %12s %12s %7s  %s\n", "precision", "error", "ns", "ns before", "kernel",
      "layer");
  for (int64_t i = 0; i < k->layer.n; i++) {
    const CertifiedLayer *l = &k->layer.v[i];
    int64_t at = kernel_of(x, l->node);
    bool timed = l->ns[0] > 0;
    say(c, "%-14s ", l->choice);
    if (timed)
      say(c, "%7.1f%% %12.0f %12.0f ", 100 * l->share, l->ns[1], l->ns[0]);
    else
      say(c, "%8s %12s %12s ", "-", "-", "-");
    if (at >= 0)
      say(c, "%7lld", (long long)at);
    else
      say(c, "%7s", "-");
    say(c, "  %s%s%s\n", l->node, l->kept ? ", " : "", l->kept ? l->kept : "");
  }
}

void json_certificate(JsonWriter *w, const QuantCertificate *k, const Explain *x) {
  json_key(w, "certificate");
  json_begin_object(w);
  json_key(w, "metric");
  json_cstr(w, metric_row[k->metric].name);
  json_key_f64(w, "value", k->value);
  json_key_f64(w, "bound", k->bound);
  json_key(w, "layers");
  json_begin_array(w);
  for (int64_t i = 0; i < k->layer.n; i++) {
    const CertifiedLayer *l = &k->layer.v[i];
    json_begin_flat_object(w);
    json_key(w, "node");
    json_cstr(w, l->node);
    json_key(w, "precision");
    json_cstr(w, l->choice);
    json_key_f64(w, "error_share", l->share);
    json_key(w, "kernel");
    json_i64(w, kernel_of(x, l->node));
    json_key(w, "kept");
    json_cstr(w, l->kept);
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}
