// llm.c -- the public interface: language models.
#include "api/api.h"
#include "api/llm.h"

struct tenon_llm {
  Llm *llm;
  tenon_llm_event *event;  // of the last step
  tenon_llm_top *top;
  Arena arena;
};

// ---- opening ----

typedef struct OpenLlm {
  tenon_llm_options o;
  const char *path;
  Watch watch;
} OpenLlm;

static bool tell(void *ctx, const char *stage, const char *what, int64_t done, int64_t total) {
  const OpenLlm *c = ctx;
  tenon_progress p = {.stage = stage, .what = what, .done = done, .total = total};
  return !c->o.progress || !c->o.progress(&p, c->o.user);
}

static tenon_status set_options(OpenLlm *c, CompileOptions *co, LlmServeOptions *out, Diag *d) {
  const tenon_llm_options *o = &c->o;
  if (!(o->step_seconds >= 0) || !(o->step_seconds < 1e6))
    return fail(d, TENON_EINVAL, NOWHERE, "step_seconds is not between 0 and 1000000");
  compile_defaults(co);
  co->target = target_find(o->target ? o->target : "cpu");
  if (!co->target)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "there is no target '%s'", o->target);
  co->no_cache = o->no_cache != 0;
  co->threads = o->threads;
  *out = (LlmServeOptions){.compile = co,
                           .threads = o->threads,
                           .context = o->context,
                           .sequences = o->sequences,
                           .requests = o->requests,
                           .batch = o->batch,
                           .pages = o->pages,
                           .draft = o->draft,
                           .memory_limit = o->memory_limit,
                           .kv = o->kv_dtype,
                           .exact = o->exact != 0,
                           .embed = o->embed != 0,
                           .adapters = o->adapters,
                           .adapter_rank = o->adapter_rank,
                           .draft_model = o->draft_model,
                           .no_prefix = o->no_prefix_cache != 0,
                           .step_ns = (int64_t)(o->step_seconds * 1e9),
                           .watch = &c->watch};
  return TENON_OK;
}

static tenon_status open_llm(OpenLlm *c, tenon_llm *l, Diag *d) {
  CompileOptions co;
  LlmServeOptions so;
  TRY(set_options(c, &co, &so, d));
  TRY(llm_create(c->path, &so, d, &l->llm));
  int64_t n = l->llm->engine->events_max;
  l->event = arena_array(&l->arena, tenon_llm_event, n);
  l->top = arena_array(&l->arena, tenon_llm_top, n * SAMPLER_TOP);
  return TENON_OK;
}

tenon_status tenon_llm_open(const char *path, const tenon_llm_options *options, tenon_llm **out,
                            tenon_error *error) {
  Diag d;
  OpenLlm c = {.path = path, .watch.step = tell};
  c.watch.ctx = &c;
  diag_init(&d);
  if (out) *out = NULL;
  if (!out || !path) return api_missing(path ? "place for the model" : "path", error);
  if (options && !api_take_options(&c.o, sizeof(c.o), options, sizeof(c.o)))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof(c.o)));
  tenon_llm *l = mem_alloc((int64_t)sizeof(*l));
  if (!l) return api_error(error, &d, fail(&d, TENON_ENOMEM, NOWHERE, "out of memory"));
  arena_init(&l->arena);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = open_llm(&c, l, &d);
  trap_leave(&t);
  if (t.status)
    tenon_llm_close(l);
  else
    *out = l;
  return api_error(error, &d, t.status);
}

void tenon_llm_close(tenon_llm *l) {
  if (!l) return;
  llm_free(l->llm);
  arena_deinit(&l->arena);
  mem_free(l, (int64_t)sizeof(*l));
}

// ---- requests ----

static float or_one(float x) { return x == 0 ? 1 : x; }

static SamplerParams params_of(const tenon_llm_request *r) {
  return (SamplerParams){.temperature = r->temperature,
                         .top_k = r->top_k,
                         .top_p = or_one(r->top_p),
                         .min_p = r->min_p,
                         .typical = or_one(r->typical),
                         .repeat = or_one(r->repeat_penalty),
                         .presence = r->presence_penalty,
                         .frequency = r->frequency_penalty,
                         .dry = r->dry,
                         .dry_base = r->dry_base == 0 ? 1.75f : r->dry_base,
                         .dry_length = r->dry_length ? r->dry_length : 2,
                         .xtc = r->xtc_probability,
                         .xtc_threshold = r->xtc_threshold,
                         .seed = r->seed};
}

static tenon_status check_task(const tenon_llm_request *r, Diag *d) {
  if (r->task < TENON_LLM_GENERATE || r->task > TENON_LLM_RANK ||
      r->pooling < TENON_LLM_POOL_DEFAULT || r->pooling > TENON_LLM_POOL_LAST)
    return fail(d, TENON_EINVAL, NOWHERE, "task %d with pooling %d", (int)r->task, (int)r->pooling);
  if ((r->task == TENON_LLM_RANK) != (r->pair != NULL) || (r->pair && !r->text))
    return fail(d, TENON_EINVAL, NOWHERE,
                "ranking takes two texts, and nothing else has a second one");
  if (r->task && (r->prompt_logprobs || r->mask))
    return fail(d, TENON_EINVAL, NOWHERE, "a request for vectors has no log-probabilities or mask");
  return TENON_OK;
}

static tenon_status check_request(const tenon_llm_request *r, Diag *d) {
  if (!r->text == !r->tokens)
    return fail(d, TENON_EINVAL, NOWHERE, "a request has either a text or tokens");
  TRY(check_task(r, d));
  if (r->ntokens > INT32_MAX || r->text_size > INT64_MAX || r->pair_size > INT64_MAX)
    return fail(d, TENON_EINVAL, NOWHERE, "a prompt of %zu tokens", r->ntokens);
  if (r->max_tokens < -1 || (r->max_tokens == -1 && !r->prompt_logprobs && !r->task))
    return fail(d, TENON_EINVAL, NOWHERE, "%d tokens to generate", r->max_tokens);
  if (r->nbias > SAMPLER_BIASES || (r->nbias && !r->bias))
    return fail(d, TENON_EINVAL, NOWHERE, "%zu biases; at most %d", r->nbias, SAMPLER_BIASES);
  if (r->nstop > LLM_STOPS || (r->nstop && !r->stop))
    return fail(d, TENON_EINVAL, NOWHERE, "%zu stop texts; at most %d", r->nstop, LLM_STOPS);
  if (r->nshown > LLM_SHOWN || (r->nshown && !r->shown))
    return fail(d, TENON_EINVAL, NOWHERE, "%zu shown tokens; at most %d", r->nshown, LLM_SHOWN);
  if (r->nchoices > LLM_CHOICES)
    return fail(d, TENON_EINVAL, NOWHERE, "%zu choices; at most %d", r->nchoices, LLM_CHOICES);
  for (size_t i = 0; i < r->nstop; i++)
    if (!r->stop[i]) return fail(d, TENON_EINVAL, NOWHERE, "stop text %zu is no text", i);
  if (r->top_logprobs < 0 || r->top_logprobs > SAMPLER_TOP)
    return fail(d, TENON_EINVAL, NOWHERE, "log-probabilities of %d tokens; at most %d",
                r->top_logprobs, SAMPLER_TOP);
  return TENON_OK;
}

// The form of the answer, where the request has one.
static tenon_status form_of(const tenon_llm_request *r, Str *choice, Diag *d, GrammarSpec *out,
                            bool *any) {
  const char *text = r->json_schema ? r->json_schema : r->regex ? r->regex : r->grammar;
  int forms = !!r->json_schema + !!r->regex + !!r->grammar + (r->nchoices > 0);
  *any = forms > 0;
  if (forms + !!r->mask > 1)
    return fail(d, TENON_EINVAL, NOWHERE,
                "json_schema, regex, grammar, choices and mask exclude one another");
  if (forms && r->task)
    return fail(d, TENON_EINVAL, NOWHERE, "a form of the answer, and nothing is generated");
  for (size_t i = 0; i < r->nchoices; i++) {
    if (!r->choices || !r->choices[i])
      return fail(d, TENON_EINVAL, NOWHERE, "choice %zu is no text", i);
    choice[i] = str_of(r->choices[i]);
  }
  *out = (GrammarSpec){.kind = r->json_schema ? GRAMMAR_SCHEMA
                               : r->regex     ? GRAMMAR_REGEX
                               : r->grammar   ? GRAMMAR_GBNF
                                              : GRAMMAR_CHOICES,
                       .text = text ? str_of(text) : (Str){"", 0},
                       .choice = choice,
                       .nchoice = (int64_t)r->nchoices};
  return TENON_OK;
}

static int tokenize_flags(int32_t parse_special, int32_t no_special) {
  return (parse_special ? TOKENIZE_PARSE_SPECIAL : 0) | (no_special ? 0 : TOKENIZE_ADD_SPECIAL);
}

static void ask_vector(tenon_llm *l, const tenon_llm_request *r, const Str *pair, LlmRequest *q) {
  static const EnginePool pool[] = {[TENON_LLM_POOL_MEAN] = POOL_MEAN,
                                    [TENON_LLM_POOL_FIRST] = POOL_FIRST,
                                    [TENON_LLM_POOL_LAST] = POOL_LAST};
  bool rank = r->task == TENON_LLM_RANK;
  q->r.pool = rank ? POOL_SCORES : r->pooling ? pool[r->pooling] : llm_pool(l->llm);
  q->r.max_tokens = 0;
  q->pair = rank ? pair : NULL;
  q->truncate = r->truncate != 0;
  q->normalise = !rank && !r->not_normalised;
}

static tenon_status submit(tenon_llm *l, const tenon_llm_request *r, Diag *d, uint64_t *id) {
  SamplerBias bias[SAMPLER_BIASES];
  Str stop[LLM_STOPS];
  TRY(check_request(r, d));
  for (size_t i = 0; i < r->nbias; i++) bias[i] = (SamplerBias){r->bias[i].token, r->bias[i].bias};
  for (size_t i = 0; i < r->nstop; i++) stop[i] = str_of(r->stop[i]);
  LlmRequest q = {.tokenize = tokenize_flags(r->parse_special, r->no_special),
                  .stop = stop,
                  .nstop = (int32_t)r->nstop,
                  .ignore_end = r->ignore_end != 0,
                  .adapter = r->adapter,
                  .shown = r->shown,
                  .nshown = (int32_t)r->nshown};
  if (r->text) q.text = r->text_size ? (Str){r->text, (int64_t)r->text_size} : str_of(r->text);
  q.r = (EngineRequest){.tokens = r->tokens,
                        .ntokens = (int32_t)r->ntokens,
                        .max_tokens = r->max_tokens > 0 ? r->max_tokens : -1 - r->max_tokens,
                        .sampler = params_of(r),
                        .bias = bias,
                        .nbias = (int32_t)r->nbias,
                        .mask = {r->mask, r->mask_user},
                        .logprobs = r->logprobs ? r->top_logprobs : -1,
                        .score = r->prompt_logprobs != 0,
                        .no_draft = r->no_draft != 0,
                        .priority = r->priority,
                        .flow = r->client,
                        .salt = r->salt,
                        .user = (uint64_t)(uintptr_t)r->user};
  Str pair = {0};
  if (r->pair) pair = r->pair_size ? (Str){r->pair, (int64_t)r->pair_size} : str_of(r->pair);
  if (r->task) ask_vector(l, r, &pair, &q);
  GrammarSpec form;
  bool formed;
  Arena a;
  arena_init_scoped(&a);
  // A request without choices takes no memory.
  Str *choice = r->nchoices ? arena_array(&a, Str, (int64_t)r->nchoices) : NULL;
  tenon_status s = form_of(r, choice, d, &form, &formed);
  if (!s && formed) q.form = &form;
  if (!s) s = llm_submit(l->llm, &q, d, id);
  arena_deinit(&a);
  return s;
}

tenon_status tenon_llm_submit(tenon_llm *l, const tenon_llm_request *request, uint64_t *id,
                              tenon_error *error) {
  Diag d;
  tenon_llm_request r = {0};
  diag_init(&d);
  if (id) *id = 0;
  if (!l || !request || !id)
    return api_missing(!l ? "model" : !request ? "request" : "place for the id", error);
  if (!api_take_options(&r, sizeof(r), request, sizeof(r)))
    return api_error(error, &d, api_wrong_options(&d, request->struct_size, sizeof(r)));
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = submit(l, &r, &d, id);
  trap_leave(&t);
  return api_error(error, &d, t.status);
}

// ---- steps ----

static tenon_llm_finish finish_of(EngineFinish f) {
  switch (f) {
  case FINISH_NONE: return TENON_LLM_RUNNING;
  case FINISH_STOP: return TENON_LLM_STOP;
  case FINISH_LENGTH: return TENON_LLM_LENGTH;
  case FINISH_CANCELLED: return TENON_LLM_CANCELLED;
  case FINISH_NO_TOKEN: return TENON_LLM_NO_TOKEN;
  }
  return TENON_LLM_RUNNING;
}

static void give_event(tenon_llm *l, int32_t i) {
  static const tenon_llm_event_kind kind[] = {[EVENT_TOKEN] = TENON_LLM_TOKEN,
                                              [EVENT_PROMPT] = TENON_LLM_PROMPT,
                                              [EVENT_END] = TENON_LLM_END,
                                              [EVENT_VECTOR] = TENON_LLM_VECTOR};
  const LlmEvent *from = &l->llm->event[i];
  const EngineEvent *e = from->e;
  tenon_llm_top *top = l->top + (int64_t)i * SAMPLER_TOP;
  for (int32_t k = 0; k < e->report.ntop; k++)
    top[k] = (tenon_llm_top){e->report.top_id[k], e->report.top_logprob[k]};
  l->event[i] = (tenon_llm_event){.id = e->id,
                                  .user = (void *)(uintptr_t)e->user,
                                  .kind = kind[e->kind],
                                  .finish = finish_of(from->finish),
                                  .token = e->token,
                                  .position = e->position,
                                  .text = from->text.n ? from->text.p : "",
                                  .text_size = (size_t)from->text.n,
                                  .logprob = e->report.logprob,
                                  .top = top,
                                  .ntop = (size_t)e->report.ntop,
                                  .vector = from->vector,
                                  .nvector = (size_t)from->nvector};
}

tenon_status tenon_llm_step(tenon_llm *l, const tenon_llm_event **events, size_t *nevents,
                            tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (events) *events = NULL;
  if (nevents) *nevents = 0;
  if (!l || !events || !nevents) return api_missing(l ? "place for the events" : "model", error);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = llm_step(l->llm, &d);
  trap_leave(&t);
  if (t.status) return api_error(error, &d, t.status);
  for (int32_t i = 0; i < l->llm->nevents; i++) give_event(l, i);
  *events = l->event;
  *nevents = (size_t)l->llm->nevents;
  return api_error(error, &d, TENON_OK);
}

tenon_status tenon_llm_load_adapter(tenon_llm *l, const char *name, const char *path, float scale,
                                    tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!l || !name || !path) return api_missing(!l ? "model" : !name ? "name" : "path", error);
  return api_error(error, &d, llm_load_adapter(l->llm, name, path, or_one(scale), &d));
}

tenon_status tenon_llm_drop_adapter(tenon_llm *l, const char *name, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!l || !name) return api_missing(l ? "name" : "model", error);
  return api_error(error, &d, llm_drop_adapter(l->llm, name, &d));
}

tenon_status tenon_llm_cancel(tenon_llm *l, uint64_t id, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!l) return api_missing("model", error);
  if (!llm_cancel(l->llm, id))
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, NOWHERE, "no request %llu is running or waiting",
                          (unsigned long long)id));
  return api_error(error, &d, TENON_OK);
}

int32_t tenon_llm_busy(const tenon_llm *l) { return l && engine_busy(l->llm->engine); }

// ---- facts ----

void tenon_llm_stats(const tenon_llm *l, tenon_llm_counts *out) {
  if (!out) return;
  *out = (tenon_llm_counts){0};
  if (!l) return;
  EngineStats s = engine_stats(l->llm->engine);
  *out = (tenon_llm_counts){.steps = s.steps,
                            .rows = s.rows,
                            .prompt_tokens = s.prompt_tokens,
                            .tokens = s.tokens,
                            .cached_tokens = s.cached_tokens,
                            .submitted = s.submitted,
                            .finished = s.finished,
                            .cancelled = s.cancelled,
                            .preempted = s.preempted,
                            .drafted = s.drafted,
                            .accepted = s.accepted,
                            .running = s.running,
                            .waiting = s.waiting,
                            .pages = s.pages,
                            .pages_free = s.pages_free,
                            .pages_cached = s.pages_cached};
}

void tenon_llm_memory(const tenon_llm *l, tenon_llm_bytes *out) {
  if (!out) return;
  *out = (tenon_llm_bytes){0};
  if (!l) return;
  const Certificate *c = &l->llm->certificate;
  *out = (tenon_llm_bytes){.weights = c->model.weights,
                           .constants = c->model.copied,
                           .arena = c->model.arena,
                           .cache = c->page_bytes + c->state_bytes,
                           .logits = c->logits,
                           .tables = c->tables,
                           .requests = c->requests,
                           .adapters = c->model.adapters,
                           .draft = c->model.draft,
                           .code = c->model.code,
                           .total = c->total};
}

void tenon_llm_describe(const tenon_llm *l, tenon_llm_info *out) {
  if (!out) return;
  *out = (tenon_llm_info){.architecture = "", .tokenizer = ""};
  if (!l) return;
  const LlmModel *m = l->llm->model;
  *out = (tenon_llm_info){.architecture = m->spec.name,
                          .tokenizer = tokenizer_about(l->llm->tokenizer),
                          .vocabulary = l->llm->engine->model.vocab,
                          .context = l->llm->engine->model.context,
                          .sequences = l->llm->engine->model.seqs_max,
                          .layers = (int32_t)m->spec.layers,
                          .weight_bytes = m->weight_bytes,
                          .token_bytes = m->token_bytes,
                          .has_chat = l->llm->chat_text.n > 0,
                          .is_encoder = m->spec.encoder,
                          .embedding = l->llm->engine->model.hidden,
                          .scores = l->llm->engine->model.scores};
}

// ---- text ----

static tenon_status give_text(Str text, char *to, size_t capacity, size_t *size) {
  *size = (size_t)text.n;
  if (to && text.n) memcpy(to, text.p, MIN(capacity, (size_t)text.n));
  return TENON_OK;
}

tenon_status tenon_llm_tokenize(tenon_llm *l, const char *text, size_t size, int32_t parse_special,
                                int32_t no_special, int32_t *tokens, size_t capacity, size_t *n,
                                tenon_error *error) {
  Diag d;
  TokenBuffer b = {0};
  diag_init(&d);
  if (n) *n = 0;
  if (!l || !n || (size && !text))
    return api_missing(!l ? "model" : !n ? "place for the number" : "text", error);
  if (size > INT64_MAX)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "%zu bytes of text", size));
  tenon_status s = tokenizer_encode(l->llm->tokenizer, (Str){size ? text : "", (int64_t)size},
                                    tokenize_flags(parse_special, no_special), &b, &d);
  if (!s) *n = (size_t)b.n;
  if (!s && tokens && b.n) memcpy(tokens, b.id, MIN(capacity, (size_t)b.n) * sizeof(*tokens));
  token_buffer_deinit(&b);
  return api_error(error, &d, s);
}

static tenon_status detokenize(const tenon_llm *l, const int32_t *tokens, size_t n,
                               int32_t skip_special, Arena *a, Diag *d, Str *out) {
  StrBuf b;
  strbuf_init(&b, a);
  TRY(tokenizer_decode(l->llm->tokenizer, tokens, (int64_t)n,
                       skip_special ? DETOKENIZE_SKIP_SPECIAL : 0, &b, d));
  *out = strbuf_str(&b);
  return TENON_OK;
}

tenon_status tenon_llm_detokenize(tenon_llm *l, const int32_t *tokens, size_t n,
                                  int32_t skip_special, char *text, size_t capacity, size_t *size,
                                  tenon_error *error) {
  Diag d;
  Arena a;
  Str out = {0};
  diag_init(&d);
  if (size) *size = 0;
  if (!l || !size || (n && !tokens))
    return api_missing(!l ? "model" : !size ? "place for the size" : "tokens", error);
  arena_init(&a);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = detokenize(l, tokens, n, skip_special, &a, &d, &out);
  trap_leave(&t);
  if (!t.status) t.status = give_text(out, text, capacity, size);
  arena_deinit(&a);
  return api_error(error, &d, t.status);
}

tenon_status tenon_llm_piece(const tenon_llm *l, int32_t token, tenon_llm_token *out,
                             tenon_error *error) {
  Diag d;
  int32_t ends[ENGINE_STOPS];
  diag_init(&d);
  if (out) *out = (tenon_llm_token){.bytes = ""};
  if (!l || !out) return api_missing(l ? "place for the token" : "model", error);
  int32_t vocab = l->llm->engine->model.vocab;
  if (token < 0 || token >= vocab)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, NOWHERE, "token %d, and the vocabulary has %d tokens",
                          token, vocab));
  // Rows of logits beyond the tokenizer's vocabulary stand for nothing.
  Str s = tokenizer_piece(l->llm->tokenizer, token);
  if (s.n) *out = (tenon_llm_token){.bytes = s.p, .size = (size_t)s.n};
  out->special = tokenizer_is_special(l->llm->tokenizer, token);
  for (int32_t i = llm_ends(l->llm, ends) - 1; i >= 0; i--) out->end |= ends[i] == token;
  return api_error(error, &d, TENON_OK);
}

size_t tenon_llm_ends(const tenon_llm *l, int32_t *tokens, size_t capacity) {
  int32_t ends[ENGINE_STOPS];
  if (!l) return 0;
  size_t n = (size_t)llm_ends(l->llm, ends);
  if (tokens) memcpy(tokens, ends, MIN(n, capacity) * sizeof *tokens);
  return n;
}

const char *tenon_llm_template(const tenon_llm *l) {
  return l && l->llm->chat_text.n ? l->llm->chat_text.p : NULL;
}

typedef struct ChatCall {
  const char *messages, *tools, *extra;
  Str out;
} ChatCall;

static tenon_status chat(const tenon_llm *l, ChatCall *c, Arena *a, Diag *d) {
  Json json[3];
  const char *text[3] = {c->messages, c->tools, c->extra};
  for (int i = 0; i < 3; i++)
    if (text[i]) TRY(json_parse(a, str_of(text[i]), d, &json[i]));
  return llm_chat(l->llm, &json[0], c->tools ? &json[1] : NULL, c->extra ? &json[2] : NULL, a, d,
                  &c->out);
}

tenon_status tenon_llm_chat(tenon_llm *l, const char *messages, const char *tools,
                            const char *extra, char *text, size_t capacity, size_t *size,
                            tenon_error *error) {
  Diag d;
  Arena a;
  ChatCall c = {messages, tools, extra, {0}};
  diag_init(&d);
  if (size) *size = 0;
  if (!l || !size || !messages)
    return api_missing(!l ? "model" : !size ? "place for the size" : "messages", error);
  arena_init(&a);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = chat(l, &c, &a, &d);
  trap_leave(&t);
  if (!t.status) t.status = give_text(c.out, text, capacity, size);
  arena_deinit(&a);
  return api_error(error, &d, t.status);
}
