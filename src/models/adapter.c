// adapter.c -- reading a LoRA adapter, and its factors as a graph's states have them (adapter.h).
//
// Converters to GGUF permute the rows of queries and keys of architectures whose rotary pairs are
// neighbours there.  So an adapter of one form for a model of the other is permuted on the way; of
// what is rearranged in another way it is refused.
//
// Needs:      the model stays open.
// Guarantees: what llm_adapter_open gives is whole; after it only memory can be missing.
#include "models/adapter.h"

#include "base/json.h"
#include "frontends/gguf/gguf.h"

#include <math.h>

// ---- targets ----

// Every role that the builder gives to lm_linear, of layers.
static const LlmRole product_role[] = {
    LLM_ROLE_q,      LLM_ROLE_k,         LLM_ROLE_v,           LLM_ROLE_qkv,
    LLM_ROLE_o,      LLM_ROLE_q_a,       LLM_ROLE_q_b,         LLM_ROLE_kv_a,
    LLM_ROLE_kv_b,   LLM_ROLE_gate,      LLM_ROLE_up,          LLM_ROLE_gate_up,
    LLM_ROLE_down,   LLM_ROLE_shared_up, LLM_ROLE_shared_gate, LLM_ROLE_shared_down,
    LLM_ROLE_ssm_in, LLM_ROLE_ssm_out};

bool llm_target(const LlmModel *m, LlmRole role, int64_t layer, LlmTarget *out) {
  bool listed = false;
  for (int64_t i = 0; i < ARRAY_LEN(product_role); i++) listed |= product_role[i] == role;
  const LlmSlot *s = listed && layer >= 0 ? llm_slot(m, role, LLM_WEIGHT, layer) : NULL;
  if (!s || !s->w || s->w->rank != 2) return false;
  int64_t d0 = s->w->dims[0], d1 = s->w->dims[1];
  if (out) *out = (LlmTarget){layer, m->spec.in_out ? d0 : d1, m->spec.in_out ? d1 : d0, role};
  return true;
}

LlmTargets llm_targets(const LlmModel *m, Arena *a) {
  LlmTargets t = {arena_array(a, LlmTarget, m->spec.layers * ARRAY_LEN(product_role) + 1), 0};
  for (int64_t layer = 0; layer < m->spec.layers; layer++)
    for (int64_t i = 0; i < ARRAY_LEN(product_role); i++)
      t.n += llm_target(m, product_role[i], layer, &t.v[t.n]);
  return t;
}

const char *llm_adapter_state(Arena *a, char letter, const LlmTarget *t) {
  return str_printf(a, "lora_%c.%lld.%s", letter, (long long)t->layer, llm_role[t->role].name);
}

int64_t llm_adapter_bytes(const LlmModel *m, int64_t rank) {
  int64_t sum = 0;
  LlmTarget t;
  for (int64_t layer = 0; layer < m->spec.layers; layer++)
    for (int64_t i = 0; i < ARRAY_LEN(product_role); i++)
      if (llm_target(m, product_role[i], layer, &t)) sum += (t.in + t.out) * rank * 4;
  return sum;
}

// ---- matching tensors with targets ----

typedef struct Reader {
  LlmAdapter *l;
  const LlmModel *m;
  Diag *d;
  LlmAdapterConfig config;
  StrMap target;  // name of a product -> its number, from 1
} Reader;

static void note_names(Reader *r) {
  char name[LLM_NAME_BYTES];
  strmap_init(&r->target, &r->l->arena);
  for (int64_t i = 0; i < r->l->target.n; i++) {
    const LlmTarget *t = &r->l->target.v[i];
    if (!llm_name_in(r->m, r->l->gguf, t->role, LLM_WEIGHT, t->layer, name)) continue;
    int64_t n = (int64_t)strlen(name) - 7;  // without ".weight"
    if (n <= 0 || strcmp(name + n, ".weight")) continue;
    char *own = str_copy(&r->l->arena, (Str){name, n});
    strmap_put(&r->target, str_of(own), (void *)(intptr_t)(i + 1));
    const char *dot = strchr(own, '.');
    // Of base models.
    if (!r->l->gguf && dot) strmap_put(&r->target, str_of(dot + 1), (void *)(intptr_t)(i + 1));
  }
}

// Cuts a tensor's name into that of its product and of its factor, 'a' or 'b'.
static bool cut_name(const Reader *r, const char *name, Str *product, char *factor) {
  static const char *const prefix = "base_model.model.";
  Str s = str_of(name);
  if (r->l->gguf) {
    bool a = str_ends(s, ".weight.lora_a"), b = str_ends(s, ".weight.lora_b");
    *product = (Str){s.p, MAX(s.n - 14, 0)};
    *factor = a ? 'a' : 'b';
    return a || b;
  }
  const char *at = strstr(name, ".lora_A."), *end = at ? at : strstr(name, ".lora_B.");
  if (!str_starts(s, prefix) || !end || !str_ends(s, ".weight")) return false;
  const char *rest = end + 8, *dot = strchr(rest, '.');
  // ".weight", or the adapter's own name in front of it.
  if (strcmp(rest, "weight") && (!dot || strcmp(dot, ".weight"))) return false;
  product->p = name + strlen(prefix);
  product->n = end - product->p;
  *factor = at ? 'a' : 'b';
  return product->n > 0;
}

static tenon_status take_tensor(Reader *r, const Weight *w) {
  Str product;
  char factor;
  if (!cut_name(r, w->name, &product, &factor))
    return fail(r->d, TENON_EUNSUPPORTED, NOWHERE,
                "the tensor '%s' is not a factor of a product, which is all that is supported",
                w->name);
  intptr_t at = (intptr_t)strmap_get(&r->target, product);
  if (!at)
    return fail(r->d, TENON_EUNSUPPORTED, NOWHERE,
                "the tensor '%s' changes '%.*s', which is no product of a layer of the model",
                w->name, STR_ARG(product));
  LlmPair *p = &r->l->pair[at - 1];
  const Weight **slot = factor == 'a' ? &p->a : &p->b;
  if (*slot)
    return fail(r->d, TENON_EFORMAT, NOWHERE, "'%s' and '%s' are one factor", (*slot)->name,
                w->name);
  *slot = w;
  return TENON_OK;
}

static tenon_status wrong_shape(Reader *r, const Weight *w, int64_t d0, int64_t d1) {
  int64_t dims[] = {d0, d1};
  return fail(r->d, TENON_EFORMAT, NOWHERE, "the tensor '%s' is %s%s, must be %s", w->name,
              dtype_name(w->dtype), shape_text(w->rank, w->dims).s, shape_text(2, dims).s);
}

static tenon_status check_finite(Reader *r, const Weight *w) {
  ArenaMark mark = arena_mark(&r->l->arena);
  const void *data = weight_elements(w, &r->l->arena);
  int64_t bad = -1;
  for (int64_t i = 0; i < w->n && bad < 0; i++)
    if (!isfinite(get_f64(w->dtype, data, i))) bad = i;
  arena_reset(&r->l->arena, mark);
  if (bad < 0) return TENON_OK;
  return fail(r->d, TENON_EFORMAT, NOWHERE, "element %lld of the tensor '%s' is not a number",
              (long long)bad, w->name);
}

// Rearranged otherwise than by a permutation of rotary pairs.
static bool is_rearranged(const Reader *r, LlmRole role) {
  if (r->l->gguf == r->m->spec.gguf) return false;
  LlmQkv form = r->m->spec.row->qkv;
  return role == LLM_ROLE_ssm_in || role == LLM_ROLE_ssm_out ||
         (role == LLM_ROLE_qkv && (form == LLM_QKV_BY_HEAD || form == LLM_QKV_BY_GROUP));
}

static tenon_status check_pair(Reader *r, const LlmTarget *t, LlmPair *p) {
  int64_t want;
  double alpha;
  if (!p->a || !p->b)
    return fail(r->d, TENON_EFORMAT, NOWHERE, "the tensor '%s' has no other factor",
                p->a ? p->a->name : p->b->name);
  if (is_rearranged(r, t->role))
    return fail(r->d, TENON_EUNSUPPORTED, NOWHERE,
                "'%s' is stored in another order in the model's file; give the adapter in the "
                "model's own form",
                p->a->name);
  int64_t rank = p->a->rank == 2 ? p->a->dims[0] : 0;
  if (p->a->rank != 2 || p->a->dims[1] != t->in || rank < 1 || !dtype_is_float(p->a->dtype))
    return wrong_shape(r, p->a, MAX(rank, 1), t->in);
  if (p->b->rank != 2 || p->b->dims[0] != t->out || p->b->dims[1] != rank ||
      !dtype_is_float(p->b->dtype))
    return wrong_shape(r, p->b, t->out, rank);
  Str product;
  char factor;
  cut_name(r, p->a->name, &product, &factor);
  TRY(llm_adapter_of(&r->config, str_copy(&r->l->arena, product), r->d, &want, &alpha));
  if ((want && rank != want) || rank > LLM_RANK_MAX)
    return fail(r->d, TENON_EFORMAT, NOWHERE, "the tensor '%s' has rank %lld, and %s%lld",
                p->a->name, (long long)rank, want ? "the configuration says " : "the most is ",
                (long long)(want ? want : LLM_RANK_MAX));
  double by = r->config.root ? sqrt((double)rank) : (double)rank;
  p->scale = r->l->gguf && alpha == 0 ? 1 : alpha / by;
  r->l->rank = MAX(r->l->rank, rank);
  TRY(check_finite(r, p->a));
  return check_finite(r, p->b);
}

static tenon_status match_tensors(Reader *r) {
  LlmAdapter *l = r->l;
  const Weights *w = &l->in.weights;
  if (!w->v.n) return fail(r->d, TENON_EFORMAT, NOWHERE, "the adapter has no tensors");
  note_names(r);
  for (int64_t i = 0; i < w->v.n; i++) TRY(take_tensor(r, &w->v.v[i]));
  for (int64_t i = 0; i < l->target.n; i++)
    if (l->pair[i].a || l->pair[i].b) TRY(check_pair(r, &l->target.v[i], &l->pair[i]));
  return TENON_OK;
}

// ---- files ----

static tenon_status read_tensors(Reader *r, const char *path, const Frontend *f) {
  LlmAdapter *l = r->l;
  r->d->base.file = path;
  TRY(file_open(path, &l->file, r->d));
  l->in = (Imported){.bytes = {l->file.size ? (const char *)l->file.bytes : "", l->file.size},
                     .path = path};
  if (!f->is(l->in.bytes)) return fail(r->d, TENON_EFORMAT, NOWHERE, "this is no %s file", f->name);
  return f->import(&l->in, r->d);
}

static tenon_status read_folder(Reader *r, const char *path) {
  LlmAdapter *l = r->l;
  r->d->base.file = str_printf(&l->arena, "%s/adapter_config.json", path);
  TRY(file_open(r->d->base.file, &l->text, r->d));
  Str text = {arena_dup(&l->arena, l->text.size ? (const void *)l->text.bytes : "", l->text.size),
              l->text.size};
  TRY(llm_adapter_config(&l->arena, text, r->d, &r->config));
  return read_tensors(r, str_printf(&l->arena, "%s/adapter_model.safetensors", path),
                      &frontend_safetensors);
}

static void ignore_name(void *ctx, const char *name) {
  (void)ctx;
  (void)name;
}

static tenon_status read_files(Reader *r, const char *path) {
  if (!platform->names(path, ignore_name, NULL)) return read_folder(r, path);
  r->l->gguf = true;
  return read_tensors(r, path, &frontend_gguf);
}

// The greatest rank that tensors of a file seem to have: of A its first size.
static int64_t rank_of(const LlmAdapter *l) {
  int64_t most = 1;
  for (int64_t i = 0; i < l->in.weights.v.n; i++) {
    const Weight *w = &l->in.weights.v.v[i];
    bool a = strstr(w->name, ".lora_A.") || str_ends(str_of(w->name), ".lora_a");
    if (a && w->rank == 2) most = MAX(most, w->dims[0]);
  }
  return most;
}

static tenon_status read_adapter(Reader *r, const char *path) {
  LlmAdapter *l = r->l;
  TRY(read_files(r, path));
  l->rank = rank_of(l);
  if (!r->m) return TENON_OK;
  l->rank = 0;
  l->target = llm_targets(r->m, &l->arena);
  l->pair = arena_array(&l->arena, LlmPair, l->target.n + 1);
  if (l->gguf) TRY(llm_adapter_metadata(r->m, l->in.file, r->d, &r->config));
  return match_tensors(r);
}

tenon_status llm_adapter_open(const LlmModel *m, const char *path, Diag *d, LlmAdapter **out) {
  *out = NULL;
  LlmAdapter *l = mem_alloc((int64_t)sizeof *l);
  if (!l) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  arena_init(&l->arena);
  Reader r = {.l = l, .m = m, .d = d};
  Where base = d->base;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    d->base.file = str_copy(&l->arena, str_of(path));
    t.status = read_adapter(&r, path);
  }
  trap_leave(&t);
  d->base = base;
  if (l->in.graph) l->in.graph->diag = NULL;
  if (t.status)
    llm_adapter_close(l);
  else
    *out = l;
  return t.status;
}

void llm_adapter_close(LlmAdapter *l) {
  if (!l) return;
  graph_free(l->in.graph);
  file_close(&l->file);
  file_close(&l->text);
  arena_deinit(&l->arena);
  mem_free(l, (int64_t)sizeof *l);
}

// ---- factors ----

// Where row i of B goes: rotary pairs are halves of a head in one form, and neighbours in the
// other.
static int64_t row_of(const LlmAdapter *l, const LlmModel *m, LlmRole role, int64_t i) {
  const LlmSpec *s = &m->spec;
  bool turns = role == LLM_ROLE_q || role == LLM_ROLE_k;
  if (!turns || l->gguf == s->gguf || s->row->interleaved == s->row->interleaved_gguf) return i;
  int64_t size = s->head_size, half = size / 2, head = i / size, at = i % size;
  int64_t to = l->gguf ? at % 2 * half + at / 2 : at % half * 2 + at / half;
  return head * size + to;
}

void llm_adapter_put(LlmAdapter *l, const LlmModel *m, int64_t target, int64_t rank, float scale,
                     float *a, float *b) {
  const LlmTarget *t = &l->target.v[target];
  const LlmPair *p = &l->pair[target];
  memset(a, 0, (size_t)(t->in * rank) * sizeof *a);
  memset(b, 0, (size_t)(t->out * rank) * sizeof *b);
  if (!p->a) return;
  ArenaMark mark = arena_mark(&l->arena);
  const void *from = weight_elements(p->a, &l->arena);
  int64_t own = p->a->dims[0];
  double by = p->scale * (double)scale;
  for (int64_t r = 0; r < own; r++)
    for (int64_t i = 0; i < t->in; i++)
      a[i * rank + r] = (float)get_f64(p->a->dtype, from, r * t->in + i);
  from = weight_elements(p->b, &l->arena);
  for (int64_t i = 0; i < t->out; i++) {
    int64_t to = row_of(l, m, t->role, i);
    for (int64_t r = 0; r < own; r++)
      b[r * t->out + to] = (float)(by * get_f64(p->b->dtype, from, i * own + r));
  }
  arena_reset(&l->arena, mark);
}
