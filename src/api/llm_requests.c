// llm_requests.c -- text in, text out: what the engine does not know of.
//
// Each request has a stream of text.  A token gives the characters that became certain; text that
// may be the beginning of a stop text is held back until it is known.  A stop text ends its request
// in the step that completes it: the engine's sequence is cancelled, and what it gives afterwards
// is dropped.
//
// Memory of a step's texts is an arena that is reset by the next step, so it stops growing soon.
#include "api/llm.h"

#include "base/platform.h"

// ---- prompts ----

// What ends a generation: the tokenizer's end tokens and the model's own.
static void add_ends(const Llm *l, EngineRequest *r, int32_t *stop) {
  static const TokenRole roles[] = {TOKEN_EOS, TOKEN_EOT};
  const LlmGeneration *g = &l->model->generation;
  r->stop = stop;
  r->nstop = 0;
  for (int64_t i = 0; i < ARRAY_LEN(roles); i++) {
    int32_t id = tokenizer_id(l->tokenizer, roles[i]);
    if (id >= 0) stop[r->nstop++] = id;
  }
  for (int64_t i = 0; i < g->neos && r->nstop < ENGINE_STOPS; i++) {
    bool there = false;
    for (int32_t k = 0; k < r->nstop; k++) there |= stop[k] == (int32_t)g->eos[i];
    if (!there) stop[r->nstop++] = (int32_t)g->eos[i];
  }
}

static tenon_status check_stops(const LlmRequest *r, Diag *d) {
  if (r->nstop < 0 || r->nstop > LLM_STOPS)
    return fail(d, TENON_EINVAL, NOWHERE, "%d stop texts; at most %d", r->nstop, LLM_STOPS);
  for (int32_t i = 0; i < r->nstop; i++)
    if (r->stop[i].n < 1 || r->stop[i].n > LLM_STOP_BYTES || !str_is_utf8(r->stop[i]))
      return fail(d, TENON_EINVAL, NOWHERE, "stop text %d is not UTF-8 of 1 to %d bytes", i,
                  LLM_STOP_BYTES);
  return TENON_OK;
}

static LlmStream *stream_of(Llm *l, uint64_t id) {
  return &l->stream[seq_of(l->engine, id) - l->engine->seq];
}

static void begin_stream(Llm *l, const LlmRequest *r, uint64_t id) {
  LlmStream *s = stream_of(l, id);
  s->id = id;
  token_stream_init(&s->text, l->tokenizer, DETOKENIZE_SKIP_SPECIAL | DETOKENIZE_CONTINUE);
  s->nstop = r->nstop;
  for (int32_t i = 0; i < r->nstop; i++) {
    s->stop_bytes[i] = (int32_t)r->stop[i].n;
    memcpy(s->stop[i], r->stop[i].p, (size_t)r->stop[i].n);
  }
  s->nheld = 0;
  s->cut = false;
}

tenon_status llm_submit(Llm *l, const LlmRequest *r, Diag *d, uint64_t *out_id) {
  *out_id = 0;
  EngineRequest e = r->r;
  int32_t ends[ENGINE_STOPS + 2];
  TRY(check_stops(r, d));
  if (!e.tokens) {
    l->tokens.n = 0;
    TRY(tokenizer_encode(l->tokenizer, r->text, r->tokenize, &l->tokens, d));
    e.tokens = l->tokens.id;
    if (l->tokens.n > INT32_MAX / 2)
      return fail(d, TENON_EINVAL, NOWHERE,
                  "the prompt has %lld tokens, and the context has room "
                  "for %d",
                  (long long)l->tokens.n, l->engine->model.context);
    e.ntokens = (int32_t)l->tokens.n;
    if (!e.ntokens) return fail(d, TENON_EINVAL, NOWHERE, "the prompt is empty");
  }
  if (!r->ignore_end) add_ends(l, &e, ends);
  int32_t most = MIN(l->engine->model.context, l->engine->model.pages * ENGINE_PAGE + 1);
  if (e.max_tokens < 0) {
    e.max_tokens = most - e.ntokens;
    if (e.max_tokens < 1)
      return fail(d, TENON_EINVAL, NOWHERE,
                  "the prompt has %d tokens, and the context has room for %d with one more to "
                  "generate",
                  e.ntokens, most - 1);
  }
  TRY(engine_submit(l->engine, &e, d, out_id));
  begin_stream(l, r, *out_id);
  return TENON_OK;
}

bool llm_cancel(Llm *l, uint64_t id) { return engine_cancel(l->engine, id); }

// ---- the answer's text ----

// The longest end of the text that is the beginning of a stop text and shorter than it.
static int64_t held_back(const LlmStream *s, Str text) {
  for (int64_t n = MIN(text.n, LLM_STOP_BYTES - 1); n > 0; n--)
    for (int32_t i = 0; i < s->nstop; i++)
      if (n < s->stop_bytes[i] && !memcmp(text.p + text.n - n, s->stop[i], (size_t)n)) return n;
  return 0;
}

// The first place where a stop text stands; -1: none does.
static int64_t find_stop(const LlmStream *s, Str text) {
  for (int64_t at = 0; at < text.n; at++)
    for (int32_t i = 0; i < s->nstop; i++)
      if (s->stop_bytes[i] <= text.n - at &&
          !memcmp(text.p + at, s->stop[i], (size_t)s->stop_bytes[i]))
        return at;
  return -1;
}

// Text that was held back, and what the token adds.  `last`: nothing follows.
static tenon_status next_text(Llm *l, LlmStream *s, int32_t token, bool last, Diag *d, Str *out,
                              bool *out_stopped) {
  StrBuf b;
  strbuf_init(&b, &l->step);
  strbuf_put(&b, (Str){s->held, s->nheld});
  // Models have more rows of logits than tokens where the vocabulary was padded: no text.
  if (token >= 0 && token < tokenizer_size(l->tokenizer))
    TRY(token_stream_next(&s->text, token, &b, d));
  if (last) token_stream_end(&s->text, &b);
  Str text = {strbuf_text(&b), b.n};
  int64_t at = s->nstop ? find_stop(s, text) : -1;
  *out_stopped = at >= 0;
  s->nheld = 0;
  if (at >= 0) {
    *out = (Str){text.p, at};
    return TENON_OK;
  }
  if (s->nstop && !last) {
    s->nheld = (int32_t)held_back(s, text);
    memcpy(s->held, text.p + text.n - s->nheld, (size_t)s->nheld);
  }
  *out = (Str){text.p, text.n - s->nheld};
  return TENON_OK;
}

static tenon_status take_event(Llm *l, const EngineEvent *e, Diag *d) {
  int32_t slot = engine_slot(e->id);
  LlmStream *s = &l->stream[slot];
  if (s->id != e->id || s->cut) {  // it was ended by a stop text
    if (e->finish && s->id == e->id) s->id = 0;
    return TENON_OK;
  }
  LlmEvent *ev = &l->event[l->nevents++];
  *ev = (LlmEvent){.e = e, .finish = e->finish};
  if (e->kind == EVENT_PROMPT) return TENON_OK;
  bool stopped;
  // An end token has no text, whatever its piece is.
  int32_t token = e->finish == FINISH_STOP ? -1 : e->token;
  TRY(next_text(l, s, token, e->finish != FINISH_NONE, d, &ev->text, &stopped));
  if (stopped) {
    ev->finish = FINISH_STOP;
    s->cut = true;
    if (!e->finish) engine_cancel(l->engine, e->id);
  }
  if (e->finish) s->id = 0;
  return TENON_OK;
}

tenon_status llm_step(Llm *l, Diag *d) {
  l->nevents = 0;
  arena_reset(&l->step, l->step_begin);
  TRY(engine_step(l->engine, d));
  int32_t n;
  const EngineEvent *e = engine_events(l->engine, &n);
  for (int32_t i = 0; i < n; i++) TRY(take_event(l, &e[i], d));
  return TENON_OK;
}

// ---- conversations ----

static Json json_text(Str s) { return (Json){.kind = JSON_STRING, .s = s}; }

// What templates ask for besides messages, and the caller's own variables, which replace it.
static const Json *variables(const Llm *l, const Json *extra, Arena *a) {
  static const struct {
    const char *name;
    TokenRole role;
  } token[] = {{"bos_token", TOKEN_BOS}, {"eos_token", TOKEN_EOS}, {"pad_token", TOKEN_PAD}};
  int64_t room = ARRAY_LEN(token) + 1 + (extra ? extra->n : 0), n = 0;
  Json *item = arena_array(a, Json, room), *all = arena_new(a, Json);
  Str *key = arena_array(a, Str, room);
  for (int64_t i = 0; extra && i < extra->n; i++)
    key[n] = extra->key[i], item[n++] = extra->item[i];
  for (int64_t i = 0; i < ARRAY_LEN(token); i++) {
    int32_t id = tokenizer_id(l->tokenizer, token[i].role);
    if (id < 0 || json_get(extra, token[i].name)) continue;
    key[n] = str_of(token[i].name);
    item[n++] = json_text(tokenizer_piece(l->tokenizer, id));
  }
  if (!json_get(extra, "add_generation_prompt")) {
    key[n] = STR("add_generation_prompt");
    item[n++] = (Json){.kind = JSON_BOOL, .b = true};
  }
  *all = (Json){.kind = JSON_OBJECT, .n = n, .item = item, .key = key};
  return all;
}

tenon_status llm_chat(const Llm *l, const Json *messages, const Json *tools, const Json *extra,
                      Arena *a, Diag *d, Str *out) {
  ChatTemplate *t;
  if (!l->chat_text.n)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the model has no chat template");
  if (messages->kind != JSON_ARRAY)
    return fail(d, TENON_EINVAL, NOWHERE, "messages must be a list of objects");
  if (extra && extra->kind != JSON_OBJECT)
    return fail(d, TENON_EINVAL, NOWHERE, "further variables must be an object");
  TRY(template_parse(a, l->chat_text, "chat template", d, &t));
  TemplateInput in = {.messages = messages,
                      .tools = tools,
                      .extra = variables(l, extra, a),
                      .now = platform->file_time()};
  TemplateResult result;
  TRY(template_render(t, &in, a, d, &result));
  *out = result.text;
  return TENON_OK;
}
