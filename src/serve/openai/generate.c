// generate.c -- fields that all requests for generated text share, as members of the engine's ask.
#include "base/platform.h"
#include "serve/llm/adapters.h"
#include "serve/openai/answers.h"

Model *openai_model(Fields *f, bool (*fits)(const Model *m), const char *what) {
  const Serve *s = f->x->serve;
  const Json *name = field_of(f, "model", JSON_STRING, "a string");
  Model *only = NULL;
  if (f->why) return NULL;
  if (name) {
    const Adapter *adapter = adapters_find(s, name->s);
    Model *m = adapter ? adapter->model : models_find(s, name->s);
    f->adapter = adapter ? adapter->name : NULL;
    if (m && !fits(m)) field_wrong(f, "model", "the model '%.*s' %s", STR_ARG(name->s), what);
    if (!m) f->missing = name->s;
    return f->why ? NULL : m;
  }
  for (Model *m = s->models; m; m = m->next) {
    if (!fits(m) || models_find(s, str_of(m->name)) != m) continue;
    if (only) field_wrong(f, "model", "'model' is needed: there are several");
    only = m;
  }
  if (!only) field_wrong(f, "model", "there is no language model");
  return f->why ? NULL : only;
}

bool openai_missing(const Fields *f) {
  HttpExchange *x = f->x;
  if (!f->missing.p) return false;
  http_fail_as(x, 404, "model", "model_not_found",
               str_printf(&x->arena, "the model '%.*s' does not exist", STR_ARG(f->missing)));
  return true;
}

Model *generate_model(Fields *f) {
  return openai_model(f, llm_is, "is no language model: KServe's routes serve it");
}

// Requests of other keys must not be told apart by how fast cached beginnings are.
uint64_t generate_salt(const HttpExchange *x) { return x->serve->keys.n ? x->client : 0; }

static int32_t *work_of(const HttpExchange *x) {
  return &x->serve->at_work[x->client % SERVE_CLIENTS];
}

bool generate_enter(HttpExchange *x, bool *entered) {
  int64_t most = x->serve->config.key_requests;
  if (most && *work_of(x) >= most) {
    http_fail(x, 429, "this API key has %lld requests at work, and may have no more",
              (long long)most);
    return false;
  }
  ++*work_of(x);
  return *entered = true;
}

void generate_leave(const HttpExchange *x, bool *entered) {
  *work_of(x) -= *entered;
  *entered = false;
}

// ---- sampling ----
static void read_numbers(Fields *f, JsonWriter *w) {
  static const struct {
    const char *name, *ask;
  } real[] = {{"min_p", "min_p"},
              {"presence_penalty", "presence"},
              {"frequency_penalty", "frequency"},
              {"repetition_penalty", "repeat"},
              {"dry_multiplier", "dry"},
              {"dry_base", "dry_base"},
              {"xtc_probability", "xtc"},
              {"xtc_threshold", "xtc_threshold"}},
    whole[] = {{"top_k", "top_k"}, {"dry_allowed_length", "dry_length"}, {"priority", "priority"}},
    // 0 means the whole to the engine, so a part so small that one token is left.
      part[] = {{"top_p", "top_p"}, {"typical_p", "typical"}};
  double v;
  int64_t i;
  double temperature = 1;
  (void)field_real(f, "temperature", &temperature);
  json_key_f64(w, "temperature", temperature);
  for (int64_t k = 0; k < ARRAY_LEN(real); k++)
    if (field_real(f, real[k].name, &v)) json_key_f64(w, real[k].ask, v);
  for (int64_t k = 0; k < ARRAY_LEN(part); k++)
    if (field_real(f, part[k].name, &v)) json_key_f64(w, part[k].ask, MAX(v, 1e-9));
  for (int64_t k = 0; k < ARRAY_LEN(whole); k++)
    if (field_int(f, whole[k].name, &i)) {
      json_key(w, whole[k].ask);
      json_i64(w, i);
    }
}

static bool stop_fits(Fields *f, const Json *v) {
  if (v->kind == JSON_STRING && v->s.n && v->s.n <= SERVE_STOP_BYTES &&
      !memchr(v->s.p, 0, (size_t)v->s.n))
    return true;
  field_wrong(f, "stop", "a string of 'stop' has 1 to %d bytes", SERVE_STOP_BYTES);
  return false;
}

static void read_stops(Fields *f, JsonWriter *w) {
  const Json *v = field(f, "stop");
  if (!v) return;
  if (v->kind != JSON_ARRAY && v->kind != JSON_STRING)
    field_wrong(f, "stop", "'stop' is neither a string nor a list of strings");
  bool list = v->kind == JSON_ARRAY;
  if (list && v->n > SERVE_STOPS)
    field_wrong(f, "stop", "'stop' has %lld strings, and at most %d are taken", (long long)v->n,
                SERVE_STOPS);
  if (f->why) return;
  json_key(w, "stop");
  json_begin_array(w);
  for (int64_t i = 0; i < (list ? v->n : 1); i++) {
    const Json *item = list ? &v->item[i] : v;
    if (!stop_fits(f, item)) return;
    json_str(w, item->s);
  }
  json_end_array(w);
}

static void read_bias(Fields *f, JsonWriter *w) {
  const Json *v = field_of(f, "logit_bias", JSON_OBJECT, "an object");
  if (!v) return;
  if (v->n > SERVE_BIASES)
    field_wrong(f, "logit_bias", "'logit_bias' has %lld tokens, and at most %d are taken",
                (long long)v->n, SERVE_BIASES);
  if (f->why) return;
  json_key(w, "bias");
  json_begin_array(w);
  for (int64_t i = 0; i < v->n; i++) {
    const Json *b = &v->item[i];
    int64_t id;
    if (!str_to_i64(v->key[i], &id) || id < 0 || id > INT32_MAX ||
        (b->kind != JSON_INT && b->kind != JSON_FLOAT) || !(b->f >= -100 && b->f <= 100)) {
      field_wrong(f, "logit_bias", "'logit_bias' maps tokens to numbers from -100 to 100");
      return;
    }
    json_begin_array(w);
    json_i64(w, id);
    json_f64(w, b->f);
    json_end_array(w);
  }
  json_end_array(w);
}

static void read_stream(Fields *f, Answers *a) {
  a->stream = field_bool(f, "stream");
  const Json *o = field_of(f, "stream_options", JSON_OBJECT, "an object");
  if (o && !a->stream)
    field_wrong(f, "stream_options", "'stream_options' are for a request with 'stream'");
  for (int64_t i = 0; o && i < o->n; i++) {
    bool usage = str_is(o->key[i], "include_usage"),
         other = str_is(o->key[i], "include_obfuscation");
    if ((!usage && !other) || o->item[i].kind != JSON_BOOL)
      field_wrong(f, "stream_options",
                  "'stream_options' has include_usage, which is true or false");
    else if (usage)
      a->usage = o->item[i].b;
  }
}

static void read_counts(Fields *f, Answers *a) {
  int64_t best;
  a->n = 1;
  (void)field_int(f, "n", &a->n);
  if (field_int(f, "best_of", &best) && best != a->n)
    field_wrong(f, "best_of", "'best_of' other than 'n' is not supported");
  a->seed = (int64_t)(platform->random_u64() >> 1);
  (void)field_int(f, "seed", &a->seed);
}

void generate_read(Fields *f, Answers *a, const char *const max_tokens[2]) {
  // What other servers and clients know, and what changes nothing here.
  static const char *const ignored[] = {"user",
                                        "store",
                                        "metadata",
                                        "service_tier",
                                        "prompt_cache_key",
                                        "safety_identifier",
                                        "cache_prompt",
                                        "prompt_cache_retention",
                                        NULL};
  StrBuf b;
  JsonWriter w;
  int64_t most, given = 0;
  strbuf_init(&b, &a->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  read_counts(f, a);
  read_stream(f, a);
  for (int i = 0; i < 2; i++)
    if (max_tokens[i] && field_int(f, max_tokens[i], &most) && !given) given = most;
  if (given) {
    json_key(&w, "max_tokens");
    json_i64(&w, given);
  }
  read_numbers(f, &w);
  read_stops(f, &w);
  read_bias(f, &w);
  a->name = f->adapter ? f->adapter : a->model ? a->model->name : NULL;
  if (f->adapter) {
    json_key(&w, "adapter");
    json_cstr(&w, f->adapter);
  }
  json_key(&w, "ignore_end");
  json_bool(&w, field_bool(f, "ignore_eos"));
  fields_ignore(f, ignored);
  b.p[0] = ',';  // the members follow those of the prompt
  a->sampling = strbuf_str(&b);
}

void generate_add(Answers *a, const char *members) {
  a->sampling.p = str_printf(&a->x->arena, "%.*s%s", (int)a->sampling.n, a->sampling.p, members);
  a->sampling.n = (int64_t)strlen(a->sampling.p);
}
