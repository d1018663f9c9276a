// inspect_weights.c -- `tenon inspect` of a file that holds weights alone, or a program whose
// inputs are not known yet.
#include "cli/bench/peak.h"
#include "cli/inspect/inspect.h"
#include "cli/tensors.h"

static int64_t bytes_of(const Weight *w) {
  int64_t bytes = w->bytes;
  if (w->strides) (void)dtype_bytes(w->dtype, w->n, &bytes);
  return bytes;
}

static const char *kind_of(const Weight *w) { return w->kind ? w->kind : dtype_name(w->dtype); }

// Tokens a second that decoding one request cannot pass here, since each reads all weights: of the
// memory's rate where it was measured; 0: it was not, or the model decodes nothing.
static double token_ceiling(const Model *m) {
  Peak peak;
  bool decodes = m->llm && !llm_headless(&m->llm->spec) && m->llm->token_bytes > 0;
  if (!decodes || !peak_kept(0, &peak)) return 0;
  return peak.read[LEVEL_MEMORY] / (double)m->llm->token_bytes;
}

static void print_ceiling(Cli *c, const Model *m) {
  double most = token_ceiling(m);
  if (!m->llm || llm_headless(&m->llm->spec)) return;
  if (most > 0)
    say(c, "  %-40s %.1f, at the measured rate of memory\n", "tokens a second at most", most);
  else
    say(c, "  %-40s not known: `tenon doctor --measure`\n", "tokens a second at most");
}

void inspect_facts(Cli *c, const Model *m) {
  if (m->import.facts.n) say(c, "\nmetadata\n");
  for (int64_t i = 0; i < m->import.facts.n; i++)
    say(c, "  %-40s %s\n", m->import.facts.v[i].key, m->import.facts.v[i].value);
  print_ceiling(c, m);
}

void inspect_facts_json(JsonWriter *w, const Model *m) {
  json_key(w, "metadata");
  json_begin_object(w);
  for (int64_t i = 0; i < m->import.facts.n; i++) {
    json_key(w, m->import.facts.v[i].key);
    json_cstr(w, m->import.facts.v[i].value);
  }
  json_end_object(w);
  double most = token_ceiling(m);
  if (most > 0) json_key_f64(w, "tokens_per_s_at_most", most);
}

static void print_text(Cli *c, const Model *m) {
  const Weights *all = &m->import.weights;
  NumText a, b;
  int64_t n = 0, bytes = 0;
  say(c, "%s  %s\n", c->pos[0], m->import.about);
  inspect_facts(c, m);
  say(c, "\ntensors     %lld\n", (long long)all->v.n);
  for (int64_t i = 0; i < all->v.n; i++) {
    const Weight *w = &all->v.v[i];
    say(c, "  %10s  %-8s %-20s %s\n", text_bytes(&a, bytes_of(w)), kind_of(w),
        shape_text(w->rank, w->dims).s, w->name);
    n += w->n;
    bytes += bytes_of(w);
  }
  say(c, "\nparameters  %s (%s)\n", text_count(&a, n), text_bytes(&b, bytes));
  say(c, "graph       none: %s\n", m->import.empty);
}

static void json_weight(JsonWriter *w, const Weight *x) {
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, x->name);
  json_key(w, "dtype");
  json_cstr(w, dtype_name(x->dtype));
  json_key(w, "stored_as");
  json_cstr(w, kind_of(x));
  json_key(w, "shape");
  json_begin_flat_array(w);
  for (int k = 0; k < x->rank; k++) json_i64(w, x->dims[k]);
  json_end_array(w);
  json_key(w, "bytes");
  json_i64(w, bytes_of(x));
  json_end_object(w);
}

static void print_json(Cli *c, const Model *m) {
  const Weights *all = &m->import.weights;
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, c->pos[0]);
  json_key(&w, "format");
  json_cstr(&w, m->import.about);
  json_key(&w, "graph");
  json_null(&w);
  json_key(&w, "why");
  json_cstr(&w, m->import.empty);
  inspect_facts_json(&w, m);
  json_key(&w, "tensors");
  json_begin_array(&w);
  for (int64_t i = 0; i < all->v.n; i++) json_weight(&w, &all->v.v[i]);
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

int inspect_weights(Cli *c, const Model *m) {
  if (opt_given(c, OPT_inspect_json))
    print_json(c, m);
  else
    print_text(c, m);
  return CLI_OK;
}
