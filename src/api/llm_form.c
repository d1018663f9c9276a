// llm_form.c -- the form of one answer: its grammar, and how far the answer is (llm.h).
//
// The vocabulary is read once for a model, when the first form is asked for.  A grammar belongs to
// one request and is gone with it.
#include "api/llm.h"

#include "base/platform.h"

struct LlmAnswerForm {
  Grammar *grammar;
  GrammarState *state;
};

tenon_status llm_form_begin(Llm *l, const GrammarSpec *spec, int64_t left, Diag *d,
                            LlmAnswerForm **out, TokenMask *mask) {
  *out = NULL;
  if (!l->vocab) TRY(grammar_vocab_create(l->tokenizer, d, &l->vocab));
  LlmAnswerForm *f = mem_alloc(sizeof *f);
  if (!f) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  *f = (LlmAnswerForm){0};
  tenon_status s = grammar_compile(l->vocab, spec, d, &f->grammar);
  if (!s && grammar_least(f->grammar) > left)
    s = fail(d, TENON_EINVAL, NOWHERE,
             "the shortest answer of this form takes up to %lld tokens, and there is room for %lld",
             (long long)grammar_least(f->grammar), (long long)left);
  if (!s) s = grammar_state_create(f->grammar, d, &f->state);
  if (s) {
    llm_form_free(f);
    return s;
  }
  *mask = (TokenMask){grammar_hook, f->state};
  *out = f;
  return TENON_OK;
}

void llm_form_free(LlmAnswerForm *f) {
  if (!f) return;
  grammar_state_free(f->state);
  grammar_free(f->grammar);
  mem_free(f, sizeof *f);
}
