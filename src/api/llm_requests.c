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

#include <math.h>

// ---- prompts ----

static int32_t add_end(int32_t *out, int32_t n, int32_t id) {
  for (int32_t i = 0; i < n; i++)
    if (out[i] == id) return n;
  if (id < 0 || n == ENGINE_STOPS) return n;
  out[n] = id;
  return n + 1;
}

// The tokenizer's end tokens and the model's own.
int32_t llm_ends(const Llm *l, int32_t out[ENGINE_STOPS]) {
  const LlmGeneration *g = &l->model->generation;
  int32_t n = add_end(out, 0, tokenizer_id(l->tokenizer, TOKEN_EOS));
  n = add_end(out, n, tokenizer_id(l->tokenizer, TOKEN_EOT));
  for (int64_t i = 0; i < g->neos; i++) n = add_end(out, n, (int32_t)g->eos[i]);
  return n;
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

static void end_stream(LlmStream *s) {
  s->id = 0;
  llm_form_free(s->form);
  s->form = NULL;
}

static void begin_stream(Llm *l, const LlmRequest *r, uint64_t id, LlmAnswerForm *form) {
  LlmStream *s = stream_of(l, id);
  end_stream(s);
  s->form = form;
  s->nshown = r->nshown;
  if (r->nshown) memcpy(s->shown, r->shown, (size_t)r->nshown * sizeof *s->shown);
  s->id = id;
  token_stream_init(&s->text, l->tokenizer, DETOKENIZE_SKIP_SPECIAL | DETOKENIZE_CONTINUE);
  s->nstop = r->nstop;
  for (int32_t i = 0; i < r->nstop; i++) {
    s->stop_bytes[i] = (int32_t)r->stop[i].n;
    memcpy(s->stop[i], r->stop[i].p, (size_t)r->stop[i].n);
  }
  s->nheld = 0;
  s->cut = false;
  s->normalise = r->normalise;
}

// The text's tokens, or those of a pair.
static tenon_status tokenize(Llm *l, const LlmRequest *r, EngineRequest *e, Diag *d) {
  TokenBuffer *t = &l->tokens;
  int64_t second = 0, context = l->engine->model.context;
  t->n = 0;
  if (r->pair)
    TRY(tokenizer_encode_pair(l->tokenizer, r->text, *r->pair, t, &second, d));
  else
    TRY(tokenizer_encode(l->tokenizer, r->text, r->tokenize, t, d));
  if (r->truncate && (r->tokenize & TOKENIZE_ADD_SPECIAL))
    tokenizer_cut(l->tokenizer, t, context, second);
  if (t->n > INT32_MAX / 2)
    return fail(d, TENON_EINVAL, NOWHERE,
                "the prompt has %lld tokens, and the context has room for %lld", (long long)t->n,
                (long long)context);
  e->tokens = t->id;
  e->ntokens = (int32_t)t->n;
  // A model with one type of tokens does not tell the halves of a pair apart.
  if (l->model->spec.types > 1) e->second = (int32_t)second;
  return e->ntokens ? TENON_OK : fail(d, TENON_EINVAL, NOWHERE, "the prompt is empty");
}

EnginePool llm_pool(const Llm *l) {
  switch (l->model->pooling) {
  case LLM_POOL_MEAN: return POOL_MEAN;
  case LLM_POOL_FIRST: return POOL_FIRST;
  case LLM_POOL_LAST: return POOL_LAST;
  case LLM_POOL_UNSAID: break;
  }
  return l->model->spec.encoder ? POOL_MEAN : POOL_LAST;
}

tenon_status llm_submit(Llm *l, const LlmRequest *r, Diag *d, uint64_t *out_id) {
  *out_id = 0;
  EngineRequest e = r->r;
  int32_t ends[ENGINE_STOPS];
  TRY(check_stops(r, d));
  if (r->adapter) TRY(llm_use_adapter(l, r->adapter, d, &e));
  if (!e.tokens) TRY(tokenize(l, r, &e, d));
  if (!r->ignore_end) {
    e.stop = ends;
    e.nstop = llm_ends(l, ends);
  }
  int32_t most = MIN(l->engine->model.context, l->engine->model.pages * ENGINE_PAGE + 1);
  if (e.max_tokens < 0) {
    e.max_tokens = most - e.ntokens;
    if (e.max_tokens < 1)
      return fail(d, TENON_EINVAL, NOWHERE,
                  "the prompt has %d tokens, and the context has room for %d with one more to "
                  "generate",
                  e.ntokens, most - 1);
  }
  LlmAnswerForm *form = NULL;
  if (r->form) TRY(llm_form_begin(l, r->form, e.max_tokens, d, &form, &e.mask));
  tenon_status s = engine_submit(l->engine, &e, d, out_id);
  if (s)
    llm_form_free(form);
  else
    begin_stream(l, r, *out_id, form);
  return s;
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

static bool is_shown(const LlmStream *s, int32_t token) {
  for (int32_t i = 0; i < s->nshown; i++)
    if (s->shown[i] == token) return true;
  return false;
}

// Text that was held back, and what the token adds.  `last`: nothing follows.
static tenon_status next_text(Llm *l, LlmStream *s, int32_t token, bool last, Diag *d, Str *out,
                              bool *out_stopped) {
  StrBuf b;
  strbuf_init(&b, &l->step);
  strbuf_put(&b, (Str){s->held, s->nheld});
  if (is_shown(s, token)) {
    token_stream_end(&s->text, &b);
    token_stream_init(&s->text, l->tokenizer, DETOKENIZE_SKIP_SPECIAL | DETOKENIZE_CONTINUE);
    strbuf_put(&b, tokenizer_piece(l->tokenizer, token));
    token = -1;
  }
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

// A copy, of length 1 where it was asked for: divided by its length in double.
static void give_vector(Llm *l, const LlmStream *s, const EngineEvent *e, LlmEvent *ev) {
  float *v = arena_array(&l->step, float, e->nvector);
  double sum = 0;
  for (int32_t i = 0; i < e->nvector; i++) sum += (double)e->vector[i] * (double)e->vector[i];
  double by = s->normalise && sum > 0 ? 1 / sqrt(sum) : 1;
  for (int32_t i = 0; i < e->nvector; i++) v[i] = (float)((double)e->vector[i] * by);
  ev->vector = v;
  ev->nvector = e->nvector;
}

static tenon_status take_event(Llm *l, const EngineEvent *e, Diag *d) {
  int32_t slot = engine_slot(e->id);
  LlmStream *s = &l->stream[slot];
  if (s->id != e->id || s->cut) {  // it was ended by a stop text
    if (e->finish && s->id == e->id) end_stream(s);
    return TENON_OK;
  }
  LlmEvent *ev = &l->event[l->nevents++];
  *ev = (LlmEvent){.e = e, .finish = e->finish};
  if (e->kind == EVENT_VECTOR) {
    give_vector(l, s, e, ev);
    end_stream(s);
    return TENON_OK;
  }
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
  if (e->finish) end_stream(s);
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
