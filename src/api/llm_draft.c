// llm_draft.c -- a draft model beside the model: another program and session, with a cache of its
// own.
//
// Its tokens must mean the same, so both vocabularies are compared token by token.  Its memory is
// part of the model's certificate.
#include "api/llm.h"

#include "base/platform.h"

static tenon_status same_tokens(const Llm *l, const Llm *small, Diag *d) {
  int64_t n = tokenizer_size(l->tokenizer), other = tokenizer_size(small->tokenizer);
  if (n != other)
    return fail(d, TENON_EINVAL, NOWHERE,
                "the draft model has %lld tokens, and the model %lld: they must be the same",
                (long long)other, (long long)n);
  for (int64_t i = 0; i < n; i++) {
    Str a = tokenizer_piece(l->tokenizer, (int32_t)i),
        b = tokenizer_piece(small->tokenizer, (int32_t)i);
    if (a.n != b.n || (a.n && memcmp(a.p, b.p, (size_t)a.n)))
      return fail(d, TENON_EINVAL, NOWHERE,
                  "token %lld of the draft model is not that of the model", (long long)i);
  }
  return TENON_OK;
}

static tenon_status check_kind(const Llm *small, Diag *d) {
  const LlmSpec *s = &small->model->spec;
  const char *why = llm_headless(s)           ? "gives no logits"
                    : small->state_bytes_each ? "has recurrent layers, whose states cannot go back"
                                              : NULL;
  return why ? fail(d, TENON_EUNSUPPORTED, NOWHERE, "the draft model %s", why) : TENON_OK;
}

tenon_status llm_open_drafter(Llm *l, const LlmServeOptions *o, const EngineModel *m, Diag *d) {
  LlmServeOptions own = {.compile = o->compile,
                         .threads = o->threads,
                         .context = m->context,
                         .sequences = m->seqs_max,
                         .batch = MIN(m->rows_max, 256),
                         .draft = -1,
                         .kv = o->kv,
                         .exact = o->exact,
                         .no_prefix = true,
                         .watch = o->watch,
                         .drafts = true};
  if (l->state_bytes_each || m->whole)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "this model takes no drafts, so no draft model");
  TRY(llm_create(o->draft_model, &own, d, &l->drafter));
  const Llm *small = l->drafter;
  const EngineModel *have = &small->engine->model;
  Where base = d->base;
  d->base.file = o->draft_model;
  tenon_status s = check_kind(small, d);
  if (!s) s = same_tokens(l, small, d);
  if (!s && have->pages / engine_pages_for(have->context) < m->seqs_max)
    s = fail(d, TENON_ENOMEM, NOWHERE, "no memory for the draft model's cache");
  d->base = base;
  l->bytes.draft = small->certificate.total;
  return s;
}
