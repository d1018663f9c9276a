// cmd_bench_llm.c -- `tenon bench-llm`: how fast a language model reads prompts and generates.
//
// Prefill is the time from a prompt of random tokens to the first token.  Decoding generates from
// an empty context: the prompt is one token, nothing is drafted, and end tokens are ignored.  Each
// is measured several times, alternating; medians are printed.
#include "cli/bench/peak.h"
#include "cli/llm/serve.h"

#include <stdlib.h>

enum { MOST_ROUNDS = 100 };

typedef struct BenchLlm {
  Cli *cli;
  Llm *llm;
  int32_t prompt, generate, rounds, *token;
  double prefill[MOST_ROUNDS], decode[MOST_ROUNDS], open_seconds;
} BenchLlm;

// Seconds of one request alone.
static tenon_status time_request(BenchLlm *b, int32_t ntokens, int32_t more, double *out) {
  Diag *d = &b->cli->diag;
  uint64_t id;
  LlmRequest r = {.ignore_end = true, .adapter = serve_adapter(b->cli)};
  r.r = (EngineRequest){.tokens = b->token,
                        .ntokens = ntokens,
                        .max_tokens = more,
                        .sampler = sampler_greedy,
                        .logprobs = -1,
                        .no_draft = true};
  prefix_clear(b->llm->engine);
  double begin = serve_seconds(b->cli);
  TRY(llm_submit(b->llm, &r, d, &id));
  while (engine_busy(b->llm->engine)) TRY(llm_step(b->llm, d));
  *out = serve_seconds(b->cli) - begin;
  return TENON_OK;
}

static tenon_status measure(BenchLlm *b) {
  double warm;
  TRY(time_request(b, MAX(b->prompt, 1), 1, &warm));
  if (b->generate) TRY(time_request(b, 1, MIN(b->generate, 4), &warm));
  for (int32_t i = 0; i < b->rounds; i++) {
    if (b->prompt) TRY(time_request(b, b->prompt, 1, &b->prefill[i]));
    if (b->generate) TRY(time_request(b, 1, b->generate, &b->decode[i]));
  }
  return TENON_OK;
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double rate(double *seconds, int32_t n, int32_t tokens) {
  qsort(seconds, (size_t)n, sizeof *seconds, by_size);
  double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return tokens && median > 0 ? tokens / median : 0;
}

static tenon_status print(BenchLlm *b) {
  Cli *c = b->cli;
  Peak peak;
  StrBuf out;
  JsonWriter w;
  double prefill = rate(b->prefill, b->rounds, b->prompt);
  double decode = rate(b->decode, b->rounds, b->generate);
  TRY(peak_get(session_threads(b->llm->session), &c->diag, &peak));
  double read = peak.read[LEVEL_MEMORY], used = decode * (double)b->llm->model->token_bytes;
  double share = read > 0 ? used / read : 0;
  int64_t memory = b->llm->certificate.total;
  if (!opt_given(c, OPT_bench_llm_json)) {
    NumText text;
    printf("prefill %10.1f tokens/s  (%d tokens)\n", prefill, b->prompt);
    printf("decode  %10.1f tokens/s  (%d tokens)\n", decode, b->generate);
    printf("bandwidth %7.1f %%         of %.1f GB/s: %s a token\n", 100 * share, read / 1e9,
           text_bytes(&text, b->llm->model->token_bytes));
    printf("memory  %s besides the mapped weights\n", text_bytes(&text, memory));
    return TENON_OK;
  }
  strbuf_init(&out, &c->arena);
  json_init(&w, &out, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, c->pos[0]);
  json_key(&w, "threads");
  json_i64(&w, session_threads(b->llm->session));
  json_key(&w, "prompt");
  json_i64(&w, b->prompt);
  json_key(&w, "generate");
  json_i64(&w, b->generate);
  json_key_f64(&w, "prefill_tokens_per_s", prefill);
  json_key_f64(&w, "decode_tokens_per_s", decode);
  json_key_f64(&w, "bandwidth_share", share);
  json_key_f64(&w, "bandwidth_bytes_per_s", read);
  json_key(&w, "token_bytes");
  json_i64(&w, b->llm->model->token_bytes);
  json_key(&w, "weight_bytes");
  json_i64(&w, b->llm->model->weight_bytes);
  json_key(&w, "memory_bytes");
  json_i64(&w, memory);
  json_key_f64(&w, "open_seconds", b->open_seconds);
  json_end_object(&w);
  cli_print(&out);
  return TENON_OK;
}

static tenon_status run(BenchLlm *b) {
  Cli *c = b->cli;
  b->prompt = (int32_t)opt_int(c, OPT_bench_llm_prompt, 512);
  b->generate = (int32_t)opt_int(c, OPT_bench_llm_tokens, 64);
  b->rounds = (int32_t)opt_int(c, OPT_bench_llm_rounds, 3);
  LlmServeOptions o = {.sequences = 1, .draft = -1};
  o.context = MAX(MAX(b->prompt, b->generate), 1) + 1;
  double begin = serve_seconds(c);
  TRY(serve_open(c, &o, &b->llm));
  b->open_seconds = serve_seconds(c) - begin;
  b->token = arena_array(&c->arena, int32_t, b->prompt + 1);
  for (int32_t i = 0; i < b->prompt; i++)
    b->token[i] = (int32_t)(hash_u64((uint64_t)i) % (uint64_t)b->llm->engine->model.vocab);
  TRY(measure(b));
  return print(b);
}

int cmd_bench_llm(Cli *c) {
  static BenchLlm b;
  b = (BenchLlm){.cli = c};
  tenon_status s = run(&b);
  llm_free(b.llm);
  return cli_exit_of(s);
}
