// config.c -- reading a config.json by rows of keys (config.h).
//
// A row says that a key is used by some architectures, has no influence, or is refused.  What the
// code asks for is noted; at the end a key that was not asked for must have a neutral value.  So a
// key that is not understood cannot be passed over, whoever wrote the file.
#include "models/config.h"

#include <math.h>
#include <stdio.h>

typedef enum { KEY_USED, KEY_IRRELEVANT, KEY_REFUSED } KeyUse;
typedef struct KeyRow {
  const char *name;
  KeyUse use;
  int key;              // CFG_*, of used ones
  const char *neutral;  // JSON
} KeyRow;

static const KeyRow key_row[] = {
#define KEY(name, neutral, doc)     {#name, KEY_USED, CFG_##name, neutral},
#define ALIAS(other, name)          {#other, KEY_USED, CFG_##name, NULL},
#define IRRELEVANT(name, doc)       {#name, KEY_IRRELEVANT, -1, NULL},
#define REFUSED(name, neutral, doc) {#name, KEY_REFUSED, -1, neutral},
#include "models/config.def"
#undef KEY
#undef ALIAS
#undef IRRELEVANT
#undef REFUSED
};

static const char *const cfg_neutral[CFG_KEYS] = {
#define KEY(name, neutral, doc) neutral,
#define ALIAS(other, name)
#define IRRELEVANT(name, doc)
#define REFUSED(name, neutral, doc)
#include "models/config.def"
#undef KEY
#undef ALIAS
#undef IRRELEVANT
#undef REFUSED
};

tenon_status config_fail(Config *c, tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (!c->status) c->status = failv(c->d, code, NOWHERE, fmt, ap);
  va_end(ap);
  return c->status;
}

static const KeyRow *row_of(Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(key_row); i++)
    if (str_is(name, key_row[i].name)) return &key_row[i];
  return NULL;
}

// null, false, an empty list, or the number or word of the row.
static bool is_neutral(const Json *j, const char *neutral) {
  if (j->kind == JSON_NULL || (j->kind == JSON_BOOL && !j->b)) return true;
  if (!neutral || !*neutral) return false;
  if (!strcmp(neutral, "any")) return true;
  if (j->kind == JSON_BOOL) return !strcmp(neutral, "true");
  if (j->kind == JSON_ARRAY) return !j->n && !strcmp(neutral, "[]");
  if (j->kind != JSON_INT && j->kind != JSON_FLOAT) return false;
  char text[32];
  json_number(j->f, false, text, (int)sizeof text);
  return j->f == 1 ? !strcmp(neutral, "1.0") : j->f == 0 && !strcmp(neutral, "0");
}

static tenon_status note_key(Config *c, const char *name, const Json *j) {
  const KeyRow *r = row_of(str_of(name));
  const char *known[ARRAY_LEN(key_row)];
  for (int64_t i = 0; i < ARRAY_LEN(key_row); i++) known[i] = key_row[i].name;
  if (!r)
    return config_fail(c, TENON_EUNSUPPORTED, "config.json has the key '%s', which is not known%s",
                       name, did_you_mean(str_of(name), known, ARRAY_LEN(known)).s);
  if (r->use == KEY_REFUSED && !is_neutral(j, r->neutral))
    return config_fail(c, TENON_EUNSUPPORTED,
                       "config.json has the key '%s', which is not supported", name);
  if (r->use != KEY_USED || j->kind == JSON_NULL) return TENON_OK;
  if (c->value[r->key])
    return config_fail(c, TENON_EFORMAT, "config.json has both '%s' and '%s'", c->name[r->key],
                       name);
  c->value[r->key] = j;
  c->name[r->key] = name;
  return TENON_OK;
}

static tenon_status find_arch(Config *c, const Json *root) {
  const Json *classes = json_get(root, "architectures");
  if (!classes || classes->kind != JSON_ARRAY || classes->n != 1 ||
      classes->item[0].kind != JSON_STRING)
    return config_fail(c, TENON_EUNSUPPORTED,
                       "config.json must name one class in the list 'architectures'");
  Str name = classes->item[0].s;
  c->arch = llm_arch_of_class(name, &c->what);
  if (c->arch) return TENON_OK;
  const char **known = arena_array(c->arena, const char *, llm_narch);
  for (int i = 0; i < llm_narch; i++) known[i] = llm_arch[i].hf[0];
  return config_fail(c, TENON_EUNSUPPORTED, "the architecture '%.*s' is not supported%s",
                     STR_ARG(name), did_you_mean(name, known, llm_narch).s);
}

tenon_status config_read(Arena *a, Str text, Diag *d, Config *c) {
  *c = (Config){.arena = a, .d = d};
  Json *root = arena_new(a, Json);
  if (!str_is_utf8(text)) return config_fail(c, TENON_EFORMAT, "config.json is not UTF-8");
  TRY(json_parse(a, text, d, root));
  if (root->kind != JSON_OBJECT)
    return config_fail(c, TENON_EFORMAT, "config.json is not an object");
  TRY(find_arch(c, root));
  for (int64_t i = 0; i < root->n; i++) TRY(note_key(c, str_copy(a, root->key[i]), &root->item[i]));
  return TENON_OK;
}

tenon_status config_finish(Config *c) {
  for (int k = 0; k < CFG_KEYS && !c->status; k++)
    if (c->value[k] && !c->asked[k] && !is_neutral(c->value[k], cfg_neutral[k]))
      config_fail(c, TENON_EUNSUPPORTED,
                  "config.json has the key '%s', which the architecture '%s' does not use",
                  c->name[k], c->arch->name);
  return c->status;
}

const Json *config_json(Config *c, CfgKey k) {
  c->asked[k] = true;
  return c->value[k];
}

bool config_has(Config *c, CfgKey k) { return config_json(c, k) != NULL; }

static void wrong(Config *c, CfgKey k, const char *want) {
  config_fail(c, TENON_EFORMAT, "'%s' of config.json must be %s", c->name[k], want);
}

int64_t config_int(Config *c, CfgKey k, int64_t fallback, int64_t least, int64_t most) {
  const Json *j = config_json(c, k);
  if (!j) return fallback;
  // 1e4 is a float by its spelling.
  bool whole =
      j->kind == JSON_INT || (j->kind == JSON_FLOAT && j->f == floor(j->f) && fabs(j->f) < 9e15);
  int64_t v = j->kind == JSON_INT ? j->i : whole ? (int64_t)j->f : 0;
  if (whole && v >= least && v <= most) return v;
  char want[96];
  snprintf(want, sizeof want, "an integer from %lld to %lld", (long long)least, (long long)most);
  wrong(c, k, want);
  return MAX(least, MIN(fallback, most));
}

int64_t config_need(Config *c, CfgKey k, int64_t most) {
  static const char *const name[CFG_KEYS] = {
#define KEY(name, neutral, doc) #name,
#define ALIAS(other, name)
#define IRRELEVANT(name, doc)
#define REFUSED(name, neutral, doc)
#include "models/config.def"
#undef KEY
#undef ALIAS
#undef IRRELEVANT
#undef REFUSED
  };
  if (!config_has(c, k)) config_fail(c, TENON_EFORMAT, "config.json lacks the key '%s'", name[k]);
  return config_int(c, k, 1, 1, most);
}

bool config_json_number(const Json *j, double *out) {
  if (j->kind == JSON_INT || j->kind == JSON_FLOAT) {
    *out = j->f;
    return true;
  }
  const Json *f = json_get(j, "__float__");
  if (!f || f->kind != JSON_STRING) return false;
  *out = str_is(f->s, "-Infinity") ? -INFINITY : INFINITY;
  return str_is(f->s, "Infinity") || str_is(f->s, "-Infinity");
}

double config_number(Config *c, CfgKey k, double fallback) {
  const Json *j = config_json(c, k);
  double v = fallback;
  if (j && (!config_json_number(j, &v) || !isfinite(v))) {
    wrong(c, k, "a finite number");
    return fallback;
  }
  return v;
}

bool config_bool(Config *c, CfgKey k, bool fallback) {
  const Json *j = config_json(c, k);
  if (!j) return fallback;
  if (j->kind != JSON_BOOL) wrong(c, k, "true or false");
  return j->b;
}

Str config_word(Config *c, CfgKey k, const char *fallback) {
  const Json *j = config_json(c, k);
  if (!j) return str_of(fallback);
  if (j->kind != JSON_STRING) wrong(c, k, "a string");
  return j->kind == JSON_STRING ? j->s : str_of(fallback);
}

// ---- generation_config.json ----

void llm_generation_none(LlmGeneration *g) {
  *g = (LlmGeneration){.bos = -1,
                       .pad = -1,
                       .temperature = -1,
                       .top_p = -1,
                       .min_p = -1,
                       .repetition_penalty = -1,
                       .top_k = -1};
}

static bool token(const Json *j, int64_t *out) {
  if (!j || j->kind != JSON_INT || j->i < 0 || j->i > LLM_SIZE_MAX) return false;
  *out = j->i;
  return true;
}

static void number(const Json *root, const char *key, double *out) {
  const Json *j = json_get(root, key);
  if (j && (j->kind == JSON_INT || j->kind == JSON_FLOAT)) *out = j->f;
}

// Of config.json too, whose tokens are the defaults.
tenon_status llm_generation_of(Str text, Diag *d, Arena *a, LlmGeneration *out) {
  Json root;
  TRY(json_parse(a, text, d, &root));
  token(json_get(&root, "bos_token_id"), &out->bos);
  token(json_get(&root, "pad_token_id"), &out->pad);
  const Json *eos = json_get(&root, "eos_token_id");
  int64_t one;
  if (token(eos, &one)) {
    out->neos = 1;
    out->eos[0] = one;
  } else if (eos && eos->kind == JSON_ARRAY) {
    if (eos->n > LLM_EOS_MAX)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "eos_token_id has %lld tokens, at most %d",
                  (long long)eos->n, LLM_EOS_MAX);
    out->neos = 0;
    for (int64_t i = 0; i < eos->n; i++)
      if (token(&eos->item[i], &one)) out->eos[out->neos++] = one;
  }
  number(&root, "temperature", &out->temperature);
  number(&root, "top_p", &out->top_p);
  number(&root, "min_p", &out->min_p);
  number(&root, "repetition_penalty", &out->repetition_penalty);
  const Json *k = json_get(&root, "top_k");
  if (k && k->kind == JSON_INT) out->top_k = k->i;
  return TENON_OK;
}
