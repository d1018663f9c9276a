// certificate.c -- certificates as JSON (certificate.h).
#include "compress/certificate.h"

#include "base/json.h"
#include "compress/migrate.h"

#include <math.h>

enum { CERTIFICATE_VERSION = 1 };

// ---- writing ----

static void key_text(JsonWriter *w, const char *key, const char *text) {
  json_key(w, key);
  json_cstr(w, text);
}

static void key_int(JsonWriter *w, const char *key, int64_t v) {
  json_key(w, key);
  json_i64(w, v);
}

static void print_layer(JsonWriter *w, const CertifiedLayer *l) {
  json_begin_flat_object(w);
  key_text(w, "node", l->node);
  key_text(w, "choice", l->choice);
  if (l->kept) key_text(w, "kept", l->kept);
  if (l->migrated) key_text(w, "migrated", l->migrated);
  json_key_f64(w, "error-share", l->share);
  json_key(w, "ns");
  json_begin_flat_array(w);
  for (int k = 0; k < 2; k++) json_i64(w, (int64_t)l->ns[k]);
  json_end_array(w);
  json_end_object(w);
}

void quant_certificate_print(const QuantCertificate *c, StrBuf *out) {
  JsonWriter w;
  json_init(&w, out, false);
  json_begin_object(&w);
  key_int(&w, "tenon-certificate", CERTIFICATE_VERSION);
  key_text(&w, "tool", FILE_MARK " " TENON_VERSION);
  key_text(&w, "model", hash_text(&c->model).s);
  key_text(&w, "from", hash_text(&c->from).s);
  key_text(&w, "source", c->source);
  json_key(&w, "split");
  json_begin_flat_object(&w);
  for (int k = 0; k < PARTS; k++) key_int(&w, split_part_name[k], c->split[k]);
  json_end_object(&w);
  key_int(&w, "seed", (int64_t)c->seed);
  key_text(&w, "labels", c->labels);
  key_text(&w, "data", hash_text(&c->data).s);
  if (c->has_samples) key_text(&w, "samples", hash_text(&c->samples).s);
  key_text(&w, "metric", metric_row[c->metric].name);
  json_key_f64(&w, "value", c->value);
  json_key_f64(&w, "bound", c->bound);
  json_key_f64(&w, "confidence", c->confidence);
  key_text(&w, "budget", c->budget);
  key_int(&w, "looks", c->looks);
  json_key(&w, "exact-on");
  json_begin_flat_array(&w);
  for (int64_t i = 0; i < c->exact_on.n; i++) json_cstr(&w, c->exact_on.v[i]);
  json_end_array(&w);
  key_text(&w, "target", c->target);
  key_text(&w, "options", c->options);
  json_key(&w, "layers");
  json_begin_array(&w);
  for (int64_t i = 0; i < c->layer.n; i++) print_layer(&w, &c->layer.v[i]);
  json_end_array(&w);
  json_end_object(&w);
  strbuf_putc(out, '\n');
}

// ---- reading ----

typedef struct Reader {
  const Json *root;
  Arena *arena;
  Diag *diag;
  tenon_status status;
} Reader;

static void damaged(Reader *r, const char *key, const char *what) {
  if (!r->status)
    r->status = fail(r->diag, TENON_EFORMAT, NOWHERE, "the certificate is damaged: '%s' is not %s",
                     key, what);
}

static const Json *get(Reader *r, const Json *o, const char *key, JsonKind kind, const char *what) {
  const Json *v = json_get(o, key);
  bool ok = v && (v->kind == kind || (kind == JSON_FLOAT && v->kind == JSON_INT));
  if (!ok) damaged(r, key, what);
  return ok ? v : NULL;
}

static const char *get_text(Reader *r, const Json *o, const char *key) {
  const Json *v = get(r, o, key, JSON_STRING, "text");
  if (!v) return "";
  if (memchr(v->s.p, 0, (size_t)v->s.n)) damaged(r, key, "text without a NUL");
  return str_copy(r->arena, v->s);
}

static const char *get_optional(Reader *r, const Json *o, const char *key) {
  const Json *v = json_get(o, key);
  return !v || v->kind == JSON_NULL ? NULL : get_text(r, o, key);
}

static int64_t get_count(Reader *r, const Json *o, const char *key) {
  const Json *v = get(r, o, key, JSON_INT, "a whole number");
  if (v && v->i < 0) damaged(r, key, "a number of at least 0");
  return v ? v->i : 0;
}

static double get_number(Reader *r, const Json *o, const char *key) {
  const Json *v = get(r, o, key, JSON_FLOAT, "a number");
  return v ? v->f : 0;
}

static int digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void get_hash(Reader *r, const char *key, Hash *out) {
  const char *t = get_text(r, r->root, key);
  bool ok = strlen(t) == 7 + 2 * SHA256_BYTES && str_starts(str_of(t), "sha256:");
  for (int i = 0; ok && i < SHA256_BYTES; i++) {
    int hi = digit(t[7 + 2 * i]), lo = digit(t[8 + 2 * i]);
    ok = hi >= 0 && lo >= 0;
    out->b[i] = (uint8_t)((unsigned)hi << 4 | (unsigned)lo);
  }
  if (!ok) damaged(r, key, "'sha256:' and 64 digits");
}

static void get_layers(Reader *r, QuantCertificate *c) {
  const Json *all = get(r, r->root, "layers", JSON_ARRAY, "a list");
  for (int64_t i = 0; all && i < all->n && !r->status; i++) {
    const Json *o = &all->item[i], *ns = get(r, o, "ns", JSON_ARRAY, "a list");
    CertifiedLayer l = {.node = get_text(r, o, "node"), .choice = get_text(r, o, "choice")};
    l.kept = get_optional(r, o, "kept");
    l.migrated = get_optional(r, o, "migrated");
    if (l.migrated && migration_find(str_of(l.migrated)) < 0) damaged(r, "migrated", "a migration");
    l.share = get_number(r, o, "error-share");
    if (choice_find(str_of(l.choice)) < 0) damaged(r, "choice", "a choice");
    if (ns && ns->n != 2) damaged(r, "ns", "a list of two numbers");
    for (int k = 0; ns && ns->n == 2 && k < 2; k++) {
      if (ns->item[k].kind != JSON_INT) damaged(r, "ns", "a list of two numbers");
      l.ns[k] = ns->item[k].f;
    }
    vec_push(r->arena, &c->layer, l);
  }
}

static void get_targets(Reader *r, QuantCertificate *c) {
  const Json *all = get(r, r->root, "exact-on", JSON_ARRAY, "a list");
  for (int64_t i = 0; all && i < all->n; i++) {
    if (all->item[i].kind != JSON_STRING) damaged(r, "exact-on", "a list of texts");
    vec_push(r->arena, &c->exact_on, str_copy(r->arena, all->item[i].s));
  }
}

static void get_fields(Reader *r, QuantCertificate *c) {
  const Json *o = r->root, *split = get(r, o, "split", JSON_OBJECT, "an object");
  if (get_count(r, o, "tenon-certificate") != CERTIFICATE_VERSION)
    damaged(r, "tenon-certificate", "1, the version that is known");
  get_hash(r, "model", &c->model);
  get_hash(r, "from", &c->from);
  get_hash(r, "data", &c->data);
  c->has_samples = json_get(o, "samples") != NULL;
  if (c->has_samples) get_hash(r, "samples", &c->samples);
  c->source = get_text(r, o, "source");
  for (int k = 0; split && k < PARTS; k++) c->split[k] = get_count(r, split, split_part_name[k]);
  c->seed = (uint64_t)get_count(r, o, "seed");
  c->labels = get_optional(r, o, "labels");
  int metric = metric_find(str_of(get_text(r, o, "metric")));
  if (metric < 0) damaged(r, "metric", "a metric");
  c->metric = (Metric)MAX(metric, 0);
  if (metric_row[c->metric].labels && !c->labels) damaged(r, "labels", "the array of labels");
  c->value = get_number(r, o, "value");
  c->bound = get_number(r, o, "bound");
  c->confidence = get_number(r, o, "confidence");
  if (!(c->confidence > 0 && c->confidence < 1)) damaged(r, "confidence", "between 0 and 1");
  c->budget = get_optional(r, o, "budget");
  c->looks = get_count(r, o, "looks");
  c->target = get_text(r, o, "target");
  c->options = get_text(r, o, "options");
}

tenon_status quant_certificate_parse(Str text, Arena *a, Diag *d, QuantCertificate *out) {
  Json *root = arena_new(a, Json);
  *out = (QuantCertificate){0};
  TRY(json_parse(a, text, d, root));
  Reader r = {.root = root, .arena = a, .diag = d};
  if (root->kind != JSON_OBJECT)
    return fail(d, TENON_EFORMAT, NOWHERE, "the certificate is no JSON object");
  get_fields(&r, out);
  get_targets(&r, out);
  get_layers(&r, out);
  return r.status;
}

void quant_certificate_layers(QuantCertificate *c, const GroupList *l, Arena *a) {
  for (int64_t i = 0; i < l->n; i++) {
    const QuantGroup *q = &l->v[i];
    CertifiedLayer x = {
        .choice = choice_row[q->choice].name, .kept = q->kept, .migrated = q->migrated};
    x.node = str_copy(a, str_of(q->name));  // outlives the graph
    x.share = q->share;
    memcpy(x.ns, q->ns, sizeof x.ns);
    vec_push(a, &c->layer, x);
  }
}
