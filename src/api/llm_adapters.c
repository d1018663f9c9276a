// llm_adapters.c -- LoRA adapters of an open language model: loaded and dropped while it serves.
//
// Room for all of them is reserved when the model is opened, as states that runs only read.  A slot
// is taken by a name, and after that by the requests that still use it; a new adapter goes where
// there is neither.  A file is read and checked whole before a slot changes.
#include "api/llm.h"

#include "models/adapter.h"

enum { RANK = 16, NAME_BYTES = sizeof((LlmAdapterSlot *)0)->name };

// ---- room ----

tenon_status llm_adapters_size(const LlmServeOptions *o, Diag *d, int32_t *rank) {
  *rank = o->adapters ? o->adapter_rank ? o->adapter_rank : RANK : 0;
  if (o->adapters < 0 || o->adapters > LLM_ADAPTERS_MAX)
    return fail(d, TENON_EINVAL, NOWHERE, "%d adapters; at most %d", o->adapters, LLM_ADAPTERS_MAX);
  if (o->adapter_rank < 0 || o->adapter_rank > LLM_RANK_MAX)
    return fail(d, TENON_EINVAL, NOWHERE, "adapters of rank %d; at most %d", o->adapter_rank,
                LLM_RANK_MAX);
  return TENON_OK;
}

static tenon_status find_state(const Llm *l, char letter, const LlmTarget *t, Arena *a, Diag *d,
                               int32_t *out) {
  const char *name = llm_adapter_state(a, letter, t);
  *out = session_find_state(l->session, name);
  if (*out >= 0 && !session_state(l->session, *out).on_device) return TENON_OK;
  return fail(d, TENON_EUNSUPPORTED, NOWHERE, "adapters need a target that is this machine's CPU");
}

tenon_status llm_adapters_init(Llm *l, int32_t adapters, int32_t rank, Diag *d) {
  LlmAdapters *all = &l->adapters;
  *all = (LlmAdapters){.n = adapters, .rank = rank};
  if (!adapters) return TENON_OK;
  LlmTargets t = llm_targets(l->model, &l->arena);
  all->slot = arena_array(&l->arena, LlmAdapterSlot, adapters);
  all->a = arena_array(&l->arena, int32_t, t.n + 1);
  all->b = arena_array(&l->arena, int32_t, t.n + 1);
  for (int64_t i = 0; i < t.n; i++) {
    TRY(find_state(l, 'a', &t.v[i], &l->arena, d, &all->a[i]));
    TRY(find_state(l, 'b', &t.v[i], &l->arena, d, &all->b[i]));
  }
  l->bytes.adapters = adapters * llm_adapter_bytes(l->model, rank);
  return TENON_OK;
}

// ---- loading and dropping ----

static int32_t find(const Llm *l, const char *name) {
  for (int32_t i = 0; i < l->adapters.n; i++)
    if (l->adapters.slot[i].name[0] && !strcmp(l->adapters.slot[i].name, name)) return i;
  return -1;
}

static tenon_status check_name(const Llm *l, const char *name, float scale, Diag *d) {
  Str s = str_of(name);
  if (!l->adapters.n)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the model was opened without room for adapters");
  if (s.n < 1 || s.n >= NAME_BYTES || !str_is_utf8(s))
    return fail(d, TENON_EINVAL, NOWHERE, "an adapter's name is UTF-8 of 1 to %d bytes",
                NAME_BYTES - 1);
  if (find(l, name) >= 0)
    return fail(d, TENON_EINVAL, NOWHERE, "there is an adapter '%s' already", name);
  if (!(scale > -1e6f && scale < 1e6f))
    return fail(d, TENON_EINVAL, NOWHERE, "a scale of %g", (double)scale);
  return TENON_OK;
}

static tenon_status load(Llm *l, const char *name, LlmAdapter *from, float scale, Diag *d) {
  LlmAdapters *all = &l->adapters;
  int32_t at = 0;
  while (at < all->n && (all->slot[at].name[0] || engine_uses(l->engine, at + 1))) at++;
  if (at == all->n)
    return fail(d, TENON_ENOMEM, NOWHERE, "%d adapters are there or still in use, and no more fit",
                all->n);
  if (from->rank > all->rank)
    return fail(d, TENON_EINVAL, NOWHERE,
                "the adapter has rank %lld, and the model was opened for ranks up to %d",
                (long long)from->rank, all->rank);
  for (int64_t i = 0; i < from->target.n; i++) {
    const LlmTarget *t = &from->target.v[i];
    float *a = (float *)l->state[all->a[i]] + at * all->rank * t->in;
    float *b = (float *)l->state[all->b[i]] + at * all->rank * t->out;
    llm_adapter_put(from, l->model, i, all->rank, scale, a, b);
  }
  all->slot[at].serial = ++all->serial;
  memcpy(all->slot[at].name, name, strlen(name) + 1);
  return TENON_OK;
}

tenon_status llm_load_adapter(Llm *l, const char *name, const char *path, float scale, Diag *d) {
  LlmAdapter *from;
  TRY(check_name(l, name, scale, d));
  TRY(llm_adapter_open(l->model, path, d, &from));
  Where base = d->base;
  Trap t;
  d->base.file = path;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = load(l, name, from, scale, d);
  trap_leave(&t);
  d->base = base;
  llm_adapter_close(from);
  return t.status;
}

tenon_status llm_drop_adapter(Llm *l, const char *name, Diag *d) {
  int32_t at = find(l, name);
  if (at < 0) return fail(d, TENON_EINVAL, NOWHERE, "there is no adapter '%s'", name);
  l->adapters.slot[at].name[0] = 0;
  return TENON_OK;
}

tenon_status llm_use_adapter(const Llm *l, const char *name, Diag *d, EngineRequest *r) {
  int32_t at = find(l, name);
  if (at < 0) return fail(d, TENON_EINVAL, NOWHERE, "there is no adapter '%s'", name);
  r->adapter = at + 1;
  // Pages are what the adapter made of the tokens: no other one's are found, nor an earlier one's
  // of this name.
  r->salt = hash_u64(r->salt ^ hash_u64(l->adapters.slot[at].serial));
  return TENON_OK;
}
