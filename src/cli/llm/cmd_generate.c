// cmd_generate.c -- `tenon generate`: continue prompts.
//
// One prompt streams to standard output as its tokens come.  Several run together, and are printed
// in their order.  --check-same runs each prompt alone and in random company, and compares hashes
// of tokens and log-probabilities.
#include "cli/llm/serve.h"

#include "base/platform.h"
#include "base/sha256.h"

// A prompt and its answer so far.
typedef struct Job {
  Str prompt;
  StrBuf text;
  VEC(int32_t) token;
  VEC(float) logprob;
  VEC(SamplerReport) top;
  EngineFinish finish;
  int64_t prompt_tokens;
  uint64_t id;
  GrammarState *form;
} Job;

typedef struct Generate {
  Cli *cli;
  Llm *llm;
  SamplerParams sampler;
  Strs stops;
  Form form;
  Job *job;
  int64_t njobs;
  int32_t top;
  bool json, stream, chat, special;
  double began, first, ended;  // seconds
} Generate;

// ---- prompts ----

static tenon_status read_prompts(Generate *g) {
  Cli *c = g->cli;
  Strs text;
  TRY(serve_texts(c, OPT_generate_prompt, OPT_generate_file, "prompt", &text));
  g->job = arena_array(&c->arena, Job, text.n);
  g->njobs = text.n;
  for (int64_t i = 0; i < text.n; i++) {
    g->job[i] = (Job){.prompt = text.v[i]};
    strbuf_init(&g->job[i].text, &c->arena);
  }
  return TENON_OK;
}

// With --chat a prompt is the user's message.
static tenon_status chat_prompt(Generate *g, Job *j) {
  Arena *a = &g->cli->arena;
  const char *system = opt_text(g->cli, OPT_generate_system, NULL);
  Json *message = arena_array(a, Json, 2);
  int64_t n = 0;
  const Str role[2] = {STR("system"), STR("user")};
  for (int i = system ? 0 : 1; i < 2; i++) {
    Json *pair = arena_array(a, Json, 2);
    Str *key = arena_array(a, Str, 2);
    key[0] = STR("role"), key[1] = STR("content");
    pair[0] = (Json){.kind = JSON_STRING, .s = role[i]};
    pair[1] = (Json){.kind = JSON_STRING, .s = i ? j->prompt : str_of(system)};
    message[n++] = (Json){.kind = JSON_OBJECT, .n = 2, .key = key, .item = pair};
  }
  Json all = {.kind = JSON_ARRAY, .n = n, .item = message};
  return llm_chat(g->llm, &all, NULL, NULL, a, &g->cli->diag, &j->prompt);
}

// ---- running ----

static tenon_status request_of(const Generate *g, Job *j, int64_t index, LlmRequest *out) {
  Cli *c = g->cli;
  TRY(serve_form_begin(&g->form, opt_int(c, OPT_generate_tokens, -1), &j->form, &c->diag));
  int special = g->chat ? TOKENIZE_PARSE_SPECIAL : TOKENIZE_ADD_SPECIAL;
  if (g->special) special |= TOKENIZE_PARSE_SPECIAL;
  LlmRequest r = {.text = j->prompt,
                  .tokenize = special,
                  .stop = g->stops.v,
                  .nstop = (int32_t)MIN(g->stops.n, INT32_MAX),
                  .ignore_end = opt_given(c, OPT_generate_ignore_end),
                  .adapter = serve_adapter(c)};
  r.r = (EngineRequest){.max_tokens = (int32_t)opt_int(c, OPT_generate_tokens, -1),
                        .sampler = g->sampler,
                        .mask = {j->form ? grammar_hook : NULL, j->form},
                        .logprobs = g->json || opt_given(c, OPT_generate_check_same) ? g->top : -1,
                        .user = (uint64_t)index};
  *out = r;
  return TENON_OK;
}

static void take_event(Generate *g, const LlmEvent *ev) {
  Arena *a = &g->cli->arena;
  Job *j = &g->job[ev->e->user];
  if (ev->e->kind == EVENT_TOKEN) {
    vec_push(a, &j->token, ev->e->token);
    vec_push(a, &j->logprob, ev->e->report.logprob);
    if (g->top > 0) vec_push(a, &j->top, ev->e->report);
    if (g->first == 0) g->first = serve_seconds(g->cli);
  }
  strbuf_put(&j->text, ev->text);
  if (g->stream) serve_print(ev->text);
  if (ev->finish) j->finish = ev->finish;
}

// All jobs, as many at once as the engine has room for.  Ends early when nobody reads the answer.
static tenon_status run_jobs(Generate *g) {
  Diag *d = &g->cli->diag;
  int64_t next = 0;
  g->began = serve_seconds(g->cli);
  while ((next < g->njobs || engine_busy(g->llm->engine)) && !ferror(stdout)) {
    for (; next < g->njobs && engine_has_room(g->llm->engine); next++) {
      LlmRequest r;
      TRY(request_of(g, &g->job[next], next, &r));
      TRY(llm_submit(g->llm, &r, d, &g->job[next].id));
      g->job[next].prompt_tokens = g->llm->tokens.n;
    }
    TRY(llm_step(g->llm, d));
    for (int32_t i = 0; i < g->llm->nevents; i++) take_event(g, &g->llm->event[i]);
  }
  g->ended = serve_seconds(g->cli);
  for (int64_t i = 0; i < g->njobs && !ferror(stdout); i++)
    TRY(serve_form_judge(&g->form, g->job[i].form, strbuf_str(&g->job[i].text), d));
  return TENON_OK;
}

// ---- output ----

static void print_tops(JsonWriter *w, const Job *j) {
  json_key(w, "top_logprobs");
  json_begin_array(w);
  for (int64_t i = 0; i < j->top.n; i++) {
    json_begin_flat_array(w);
    for (int32_t k = 0; k < j->top.v[i].ntop; k++) {
      json_begin_flat_array(w);
      json_i64(w, j->top.v[i].top_id[k]);
      json_f32(w, j->top.v[i].top_logprob[k]);
      json_end_array(w);
    }
    json_end_array(w);
  }
  json_end_array(w);
}

static void print_json(Generate *g, const Job *j) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &g->cli->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "text");
  json_str(&w, strbuf_str(&j->text));
  json_key(&w, "tokens");
  json_begin_flat_array(&w);
  for (int64_t i = 0; i < j->token.n; i++) json_i64(&w, j->token.v[i]);
  json_end_array(&w);
  json_key(&w, "logprobs");
  json_begin_flat_array(&w);
  for (int64_t i = 0; i < j->logprob.n; i++) json_f32(&w, j->logprob.v[i]);
  json_end_array(&w);
  if (g->top > 0) print_tops(&w, j);
  json_key(&w, "finish_reason");
  json_cstr(&w, serve_finish(j->finish));
  json_key(&w, "prompt_tokens");
  json_i64(&w, j->prompt_tokens);
  json_end_object(&w);
  cli_print(&b);
}

static void print_answers(Generate *g) {
  for (int64_t i = 0; i < g->njobs; i++) {
    if (g->json) {
      print_json(g, &g->job[i]);
      continue;
    }
    if (!g->stream) serve_print(strbuf_str(&g->job[i].text));
    putchar('\n');
  }
}

static void print_speed(const Generate *g) {
  // The text comes first where both are one terminal.  After an error its end stays for main, which
  // learns the reason from it.
  if (!ferror(stdout)) fflush(stdout);
  EngineStats s = engine_stats(g->llm->engine);
  double prefill = g->first - g->began, decode = g->ended - g->first;
  fprintf(
      stderr,
      "%lld tokens of prompt, first token after %.3f s; %lld tokens, %.1f a second; %lld steps, "
      "%lld of %lld drafts right\n",
      (long long)(s.prompt_tokens + s.cached_tokens), prefill, (long long)s.tokens,
      decode > 0 ? (double)(s.tokens - 1) / decode : 0, (long long)s.steps, (long long)s.accepted,
      (long long)s.drafted);
  StrBuf b;
  strbuf_init(&b, &g->cli->arena);
  certificate_print(&g->llm->certificate, &b);
  fputs(strbuf_text(&b), stderr);
}

// ---- --check-same ----

typedef struct Hash {
  uint8_t v[SHA256_BYTES];
} Hash;

static Hash hash_of(const Job *j) {
  Hash h;
  Sha256 s;
  sha256_init(&s);
  sha256_put(&s, j->token.v, j->token.n * (int64_t)sizeof *j->token.v);
  sha256_put(&s, j->logprob.v, j->logprob.n * (int64_t)sizeof *j->logprob.v);
  sha256_end(&s, h.v);
  return h;
}

static void clear_answer(Generate *g, Job *j) {
  *j = (Job){.prompt = j->prompt, .form = j->form};
  strbuf_init(&j->text, &g->cli->arena);
}

// Requests of random tokens and lengths, some of which are cancelled.
static tenon_status add_company(Generate *g, uint64_t *random) {
  enum { MOST = 300 };
  Engine *e = g->llm->engine;
  int32_t token[MOST],
      most = MIN(MIN(MOST, e->model.context / 2), e->model.pages * ENGINE_PAGE / 2);
  uint64_t id;
  if (most < 1 || hash_u64(++*random) % 3) return TENON_OK;
  int32_t n = 1 + (int32_t)(hash_u64(++*random) % (uint64_t)most);
  for (int32_t i = 0; i < n; i++)
    token[i] = (int32_t)(hash_u64(++*random) % (uint64_t)e->model.vocab);
  LlmRequest r = {.r = {.tokens = token,
                        .ntokens = n,
                        .max_tokens = 1 + (int32_t)(hash_u64(++*random) % (uint64_t)most),
                        .sampler = sampler_greedy,
                        .logprobs = -1,
                        .user = UINT64_MAX},
                  .ignore_end = true};
  r.r.sampler.temperature = 1;
  r.r.sampler.seed = *random;
  if (!engine_has_room(e)) return TENON_OK;
  TRY(llm_submit(g->llm, &r, &g->cli->diag, &id));
  if (hash_u64(++*random) % 4 == 0) llm_cancel(g->llm, id);
  return TENON_OK;
}

static tenon_status run_one(Generate *g, int64_t index, uint64_t *company) {
  Diag *d = &g->cli->diag;
  uint64_t id;
  LlmRequest r;
  TRY(request_of(g, &g->job[index], index, &r));
  clear_answer(g, &g->job[index]);
  for (int i = 0; company && i < 20; i++) TRY(add_company(g, company));
  if (company) TRY(llm_step(g->llm, d));
  while (!engine_has_room(g->llm->engine)) TRY(llm_step(g->llm, d));
  TRY(llm_submit(g->llm, &r, d, &id));
  while (!g->job[index].finish) {
    if (company) TRY(add_company(g, company));
    TRY(llm_step(g->llm, d));
    for (int32_t i = 0; i < g->llm->nevents; i++)
      if (g->llm->event[i].e->user == (uint64_t)index) take_event(g, &g->llm->event[i]);
  }
  return TENON_OK;
}

static int check_same(Generate *g) {
  enum { ROUNDS = 3 };
  uint64_t random = g->sampler.seed + 1;
  int rc = CLI_OK;
  g->stream = false;
  for (int64_t i = 0; i < g->njobs; i++) {
    if (run_one(g, i, NULL)) return cli_exit_of(g->cli->diag.status);
    Hash alone = hash_of(&g->job[i]);
    bool same = true;
    for (int k = 0; k < ROUNDS; k++) {
      prefix_clear(g->llm->engine);
      if (run_one(g, i, &random)) return cli_exit_of(g->cli->diag.status);
      Hash now = hash_of(&g->job[i]);
      same &= !memcmp(&alone, &now, sizeof now);
    }
    for (int k = 0; k < 16; k++) printf("%02x", alone.v[k]);
    printf("  %lld tokens  %s\n", (long long)g->job[i].token.n, same ? "same" : "DIFFERENT");
    if (!same) rc = CLI_MISMATCH;
  }
  if (rc)
    fail(&g->cli->diag, TENON_EINTERNAL, NOWHERE,
         "a request's tokens or log-probabilities changed with the requests beside it");
  return rc;
}

// ---- the command ----

// Options that would be passed over.
static tenon_status check_options(Generate *g) {
  static const struct {
    int option, needs;
  } pair[] = {{OPT_generate_system, OPT_generate_chat},
              {OPT_generate_template, OPT_generate_chat},
              {OPT_generate_logprobs, OPT_generate_json}};
  Cli *c = g->cli;
  for (int64_t i = 0; i < ARRAY_LEN(pair); i++) {
    if (!opt_given(c, pair[i].option) || opt_given(c, pair[i].needs)) continue;
    c->misused = true;
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "--%s needs --%s",
                option_name(&cli_option[pair[i].option]), option_name(&cli_option[pair[i].needs]));
  }
  return TENON_OK;
}

static tenon_status prepare(Generate *g) {
  Cli *c = g->cli;
  TRY(check_options(g));
  g->json = opt_given(c, OPT_generate_json);
  g->chat = opt_given(c, OPT_generate_chat);
  g->special = opt_given(c, OPT_generate_parse_special);
  g->top = (int32_t)opt_int(c, OPT_generate_logprobs, 0);
  g->stops = serve_list(c, "stop");
  TRY(serve_sampler(c, &g->sampler));
  TRY(read_prompts(g));
  g->stream = !g->json && g->njobs == 1;
  LlmServeOptions o = {.sequences =
                           g->njobs == 1 && !opt_given(c, OPT_generate_check_same) ? 1 : 0};
  if (opt_given(c, OPT_generate_sequences)) o.sequences = 0;
  TRY(serve_open(c, &o, &g->llm));
  TRY(serve_template(c, g->llm));
  for (int64_t i = 0; g->chat && i < g->njobs; i++) TRY(chat_prompt(g, &g->job[i]));
  return serve_form(c, g->llm, &g->form);
}

static int generate(Generate *g) {
  tenon_status s = prepare(g);
  if (s) return cli_exit_of(s);
  if (opt_given(g->cli, OPT_generate_check_same)) return check_same(g);
  s = run_jobs(g);
  if (s) {
    if (g->stream && g->job[0].text.n) putchar('\n');
    return cli_exit_of(s);
  }
  print_answers(g);
  if (opt_given(g->cli, OPT_generate_verbose)) print_speed(g);
  return CLI_OK;
}

int cmd_generate(Cli *c) {
  Generate g = {.cli = c};
  int rc = generate(&g);
  llm_free(g.llm);
  for (int64_t i = 0; i < g.njobs; i++) grammar_state_free(g.job[i].form);
  serve_form_deinit(&g.form);
  return rc;
}
