// cmd_perplexity.c -- `tenon perplexity`: how well a model predicts a text.
//
// The text's tokens are cut into windows; in each the second half is scored, so that every scored
// token has at least half a window before it.  Where the model's tokenizer begins a text with a
// token, each window begins with it in place of its first token.  llama.cpp's `perplexity` does the
// same, so figures can be compared.
#include "cli/llm/serve.h"

#include <math.h>

typedef struct Perplexity {
  Cli *cli;
  Llm *llm;
  TokenBuffer tokens;
  int32_t window, bos;
  int64_t nwindows, next, scored;
  double sum;  // of log-probabilities
} Perplexity;

static tenon_status read_text(Perplexity *p) {
  Cli *c = p->cli;
  const char *path = opt_text(c, OPT_perplexity_file, NULL);
  if (!path) {
    c->misused = true;
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "no text: --file F gives one");
  }
  File f;
  TRY(file_open(path, &f, &c->diag));
  Str text = {f.size ? (const char *)f.bytes : "", f.size};
  tenon_status s =
      tokenizer_encode(p->llm->tokenizer, text, TOKENIZE_ADD_SPECIAL, &p->tokens, &c->diag);
  file_close(&f);
  TRY(s);
  p->nwindows = p->tokens.n / p->window;
  if (p->nwindows) return TENON_OK;
  return fail(&c->diag, TENON_EINVAL, (Where){.file = path},
              "the text has %lld tokens, and a window %d: give a longer text or --window N",
              (long long)p->tokens.n, p->window);
}

static tenon_status submit_window(Perplexity *p) {
  uint64_t id;
  int32_t *token = p->tokens.id + p->next++ * p->window, keep = token[0];
  int32_t bos = tokenizer_id(p->llm->tokenizer, TOKEN_BOS);
  if (bos >= 0 && p->tokens.id[0] == bos) token[0] = bos;
  LlmRequest r = {.ignore_end = true, .adapter = serve_adapter(p->cli)};
  r.r = (EngineRequest){.tokens = token,
                        .ntokens = p->window,
                        .sampler = sampler_greedy,
                        .score = true,
                        .score_from = p->window / 2 + 1};
  tenon_status s = llm_submit(p->llm, &r, &p->cli->diag, &id);
  token[0] = keep;
  return s;
}

static tenon_status score(Perplexity *p) {
  Progress progress;
  progress_start(&progress, p->nwindows);
  while (p->next < p->nwindows || engine_busy(p->llm->engine)) {
    while (p->next < p->nwindows && engine_has_room(p->llm->engine)) TRY(submit_window(p));
    TRY(llm_step(p->llm, &p->cli->diag));
    for (int32_t i = 0; i < p->llm->nevents; i++) {
      const LlmEvent *ev = &p->llm->event[i];
      if (ev->e->kind == EVENT_PROMPT) {
        p->sum += (double)ev->e->report.logprob;
        p->scored++;
      }
      if (ev->finish) progress_step(&progress, "windows");
    }
  }
  progress_end(&progress);
  return TENON_OK;
}

static void print(Perplexity *p) {
  double mean = -p->sum / (double)p->scored, value = exp(mean);
  if (!opt_given(p->cli, OPT_perplexity_json)) {
    printf("%.4f  perplexity of %lld tokens in %lld windows of %d\n", value, (long long)p->scored,
           (long long)p->nwindows, p->window);
    return;
  }
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &p->cli->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key_f64(&w, "perplexity", value);
  json_key_f64(&w, "mean_logprob", -mean);
  json_key(&w, "tokens");
  json_i64(&w, p->scored);
  json_key(&w, "windows");
  json_i64(&w, p->nwindows);
  json_key(&w, "window");
  json_i64(&w, p->window);
  json_end_object(&w);
  cli_print(&b);
}

static tenon_status run(Perplexity *p) {
  Cli *c = p->cli;
  p->window = (int32_t)opt_int(c, OPT_perplexity_window, 512);
  // Many rows of logits: half of all rows are scored.
  LlmServeOptions o = {.sequences = 2, .logits = 128, .context = p->window, .draft = -1};
  TRY(serve_open(c, &o, &p->llm));
  TRY(read_text(p));
  TRY(score(p));
  print(p);
  return TENON_OK;
}

int cmd_perplexity(Cli *c) {
  Perplexity p = {.cli = c};
  tenon_status s = run(&p);
  token_buffer_deinit(&p.tokens);
  llm_free(p.llm);
  return cli_exit_of(s);
}
