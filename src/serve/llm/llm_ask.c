// llm_ask.c -- what the front asks of a language model: JSON to calls of the public interface.
//
//   op        generate, embed, rank, tokenize, detokenize, template
//   text      the prompt; or tokens, a list; or messages, a conversation as JSON text, with tools
//             and extra (further variables of the template) as JSON texts
//   choice    with tools: auto, required, or named, whose name is in `named`; parallel: more calls
//             than one may come; strict: arguments must fit the schemas
//   form      what the answer must look like (llm_form.c)
//   special   texts may hold special tokens; plain: nothing is put around them
//   echo      the prompt's text comes with LLM_ACCEPTED
//
// Everything was checked by the front; what depends on the model is checked here.
#include "serve/llm/llm_engine.h"

#include "base/platform.h"

typedef struct Ask {
  LlmEngine *e;
  Arena *a;
  Diag *d;
  const Json *j;
  uint64_t frame;
} Ask;

// ---- fields ----
static const Json *get(const Ask *q, const char *name, JsonKind kind) {
  const Json *v = json_get(q->j, name);
  return v && v->kind == kind ? v : NULL;
}
static int64_t get_int(const Ask *q, const char *name, int64_t dflt) {
  const Json *v = get(q, name, JSON_INT);
  return v ? v->i : dflt;
}
static float get_real(const Ask *q, const char *name) {
  const Json *v = json_get(q->j, name);
  return v && (v->kind == JSON_FLOAT || v->kind == JSON_INT) ? (float)v->f : 0;
}
static bool get_bool(const Ask *q, const char *name) {
  const Json *v = get(q, name, JSON_BOOL);
  return v && v->b;
}
// NUL-terminated; NULL: it is not there.
static const char *get_text(const Ask *q, const char *name) {
  const Json *v = get(q, name, JSON_STRING);
  return v ? str_copy(q->a, v->s) : NULL;
}

static tenon_status wrong(const Ask *q, tenon_status s, const tenon_error *err) {
  return s ? fail(q->d, s, NOWHERE, "%s", err->message) : TENON_OK;
}

// ---- prompts ----
typedef struct Tokens {
  int32_t *id;
  size_t n;
} Tokens;

static tenon_status tokens_of_text(const Ask *q, Str text, bool special, bool plain, Tokens *out) {
  tenon_error err = {0};
  size_t room = (size_t)text.n / 2 + 16;
  for (int i = 0; i < 2; i++) {
    out->id = arena_array(q->a, int32_t, (int64_t)room);
    TRY(wrong(q,
              tenon_llm_tokenize(q->e->llm, text.p, (size_t)text.n, special, plain, out->id, room,
                                 &out->n, &err),
              &err));
    if (out->n <= room) return TENON_OK;
    room = out->n;
  }
  return fail(q->d, TENON_EINTERNAL, NOWHERE, "the number of tokens changed");
}

static tenon_status tokens_given(const Ask *q, const Json *list, Tokens *out) {
  out->n = (size_t)list->n;
  out->id = arena_array(q->a, int32_t, list->n + 1);
  for (int64_t i = 0; i < list->n; i++) {
    const Json *v = &list->item[i];
    if (v->kind != JSON_INT || v->i < 0 || v->i >= q->e->info.vocabulary)
      return fail(q->d, TENON_EINVAL, NOWHERE,
                  "token %lld of the prompt is not one of the %d of the vocabulary", (long long)i,
                  q->e->info.vocabulary);
    out->id[i] = (int32_t)v->i;
  }
  return TENON_OK;
}

static tenon_status chat_of(const Ask *q, LlmChat *out) {
  LlmChatAsk ask = {get_text(q, "messages"), get_text(q, "tools"), get_text(q, "extra")};
  if (!ask.messages) return fail(q->d, TENON_EINTERNAL, NOWHERE, "an ask without a prompt");
  return llm_chat_read(q->e, &ask, q->a, q->d, out);
}

// Fills in *chat of a conversation, whose prompt is never empty otherwise.
static tenon_status prompt_of(const Ask *q, Tokens *out, LlmChat *chat) {
  const Json *list = get(q, "tokens", JSON_ARRAY), *text = get(q, "text", JSON_STRING);
  *chat = (LlmChat){.syntax = NULL};
  if (list) return tokens_given(q, list, out);
  if (text) return tokens_of_text(q, text->s, get_bool(q, "special"), get_bool(q, "plain"), out);
  TRY(chat_of(q, chat));
  return tokens_of_text(q, chat->prompt, true, true, out);
}

static tenon_status text_of_tokens(const Ask *q, const Tokens *t, Str *out) {
  tenon_error err = {0};
  size_t room = 4096, size = 0;
  for (int i = 0; i < 2; i++) {
    char *text = arena_alloc(q->a, (int64_t)room);
    TRY(wrong(q, tenon_llm_detokenize(q->e->llm, t->id, t->n, 0, text, room, &size, &err), &err));
    *out = (Str){text, (int64_t)size};
    if (size <= room) break;
    room = size;
  }
  return TENON_OK;
}

// ---- answers without events ----
static tenon_status result(const Ask *q, Str text) {
  return frame_put(&q->e->out, LLM_RESULT, q->frame, text)
             ? TENON_OK
             : fail(q->d, TENON_ENOMEM, NOWHERE, "the answer is too large");
}

static void write_piece(const Ask *q, JsonWriter *w, int32_t token) {
  tenon_llm_token piece;
  tenon_error err;
  if (tenon_llm_piece(q->e->llm, token, &piece, &err)) piece = (tenon_llm_token){.bytes = ""};
  json_str(w, (Str){piece.bytes, (int64_t)piece.size});
}

// {"tokens": [...], "pieces": [...] where they are asked for}
static tenon_status do_tokenize(const Ask *q) {
  Tokens t = {0};
  LlmChat chat;
  StrBuf b;
  JsonWriter w;
  TRY(prompt_of(q, &t, &chat));
  strbuf_init(&b, q->a);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "tokens");
  json_begin_array(&w);
  for (size_t i = 0; i < t.n; i++) json_i64(&w, t.id[i]);
  json_end_array(&w);
  if (get_bool(q, "pieces")) {
    json_key(&w, "pieces");
    json_begin_array(&w);
    for (size_t i = 0; i < t.n; i++) write_piece(q, &w, t.id[i]);
    json_end_array(&w);
  }
  json_end_object(&w);
  return result(q, strbuf_str(&b));
}

static tenon_status do_detokenize(const Ask *q) {
  Tokens t = {0};
  LlmChat chat;
  Str text;
  TRY(prompt_of(q, &t, &chat));
  TRY(text_of_tokens(q, &t, &text));
  return result(q, text);
}

static tenon_status do_template(const Ask *q) {
  LlmChat chat;
  TRY(chat_of(q, &chat));
  return result(q, chat.prompt);
}

// ---- what gives events ----
static void take_bias(const Ask *q, tenon_llm_request *r) {
  const Json *list = get(q, "bias", JSON_ARRAY);
  if (!list) return;
  tenon_llm_bias *bias = arena_array(q->a, tenon_llm_bias, list->n + 1);
  for (int64_t i = 0; i < list->n; i++)
    if (list->item[i].n == 2)
      bias[r->nbias++] =
          (tenon_llm_bias){(int32_t)list->item[i].item[0].i, (float)list->item[i].item[1].f};
  r->bias = bias;
}

static void take_stops(const Ask *q, tenon_llm_request *r) {
  const Json *list = get(q, "stop", JSON_ARRAY);
  if (!list) return;
  const char **stop = arena_array(q->a, const char *, list->n + 1);
  for (int64_t i = 0; i < list->n; i++) stop[r->nstop++] = str_copy(q->a, list->item[i].s);
  r->stop = stop;
}

static void take_sampling(const Ask *q, tenon_llm_request *r) {
  r->temperature = get_real(q, "temperature");
  r->top_k = (int32_t)get_int(q, "top_k", 0);
  r->top_p = get_real(q, "top_p");
  r->min_p = get_real(q, "min_p");
  r->typical = get_real(q, "typical");
  r->repeat_penalty = get_real(q, "repeat");
  r->presence_penalty = get_real(q, "presence");
  r->frequency_penalty = get_real(q, "frequency");
  r->dry = get_real(q, "dry");
  r->dry_base = get_real(q, "dry_base");
  r->dry_length = (int32_t)get_int(q, "dry_length", 0);
  r->xtc_probability = get_real(q, "xtc");
  r->xtc_threshold = get_real(q, "xtc_threshold");
  r->seed = (uint64_t)get_int(q, "seed", 0);
}

static LlmJob *free_job(LlmEngine *e) {
  for (int64_t i = 0; i < e->njobs; i++)
    if (!e->job[i].frame) return &e->job[i];
  return NULL;
}

// What the answer is held to: the ask's form, or the calls of its tools.
static tenon_status hold(const Ask *q, LlmJob *job, LlmChat *chat, tenon_llm_request *r) {
  const Json *form = get(q, "form", JSON_OBJECT);
  bool must = true;
  int64_t left = q->e->info.context - (int64_t)r->ntokens;
  if (left < 1) return TENON_OK;  // tenon_llm_submit says that the prompt is too long
  if (r->max_tokens > 0) left = MIN(left, r->max_tokens);
  LlmHold h = {.form = form, .chat = chat, .left = left};
  if (!form) {
    const char *choice = get_text(q, "choice");
    if (!chat || !chat->syntax || !choice) return TENON_OK;
    h.named = get_text(q, "named");
    h.required = strcmp(choice, "auto") != 0;
    h.parallel = get_bool(q, "parallel");
    h.tools = get_text(q, "tools");
    must = h.required || get_bool(q, "strict");
    if (!tool_form_fits(chat->syntax, h.required)) {
      if (!must) return TENON_OK;
      if (!h.required)
        return fail(q->d, TENON_EUNSUPPORTED, NOWHERE,
                    "'strict' tools are not supported with tool_choice 'auto' by this model, whose "
                    "calls have the form '%s'",
                    chat->syntax->name);
      // As vLLM does: the answer is a JSON list of calls.
      chat->syntax = tool_syntax_named(STR("json"));
      chat->open = false;
    }
  }
  Diag lenient;
  diag_init(&lenient);
  tenon_status s = llm_form_take(q->e, &h, q->a, must ? q->d : &lenient, &job->form, &job->state);
  // Without it a call is what the model makes of it.
  if (s) return must ? s : TENON_OK;
  r->mask = grammar_hook;
  r->mask_user = job->state;
  return TENON_OK;
}

static tenon_status submit(const Ask *q, tenon_llm_request *r, LlmChat *chat) {
  tenon_error err = {0};
  LlmJob *job = free_job(q->e);
  if (!job) return fail(q->d, TENON_ENOMEM, NOWHERE, "too many requests run");
  r->struct_size = sizeof *r;
  r->user = job;
  r->adapter = get_text(q, "adapter");
  r->priority = (int32_t)get_int(q, "priority", 0);
  r->client = (uint32_t)get_int(q, "client", 0);
  r->salt = (uint64_t)get_int(q, "salt", 0);
  TRY(hold(q, job, chat, r));
  tenon_status s = tenon_llm_submit(q->e->llm, r, &job->id, &err);
  if (s) {
    llm_form_leave(q->e, job->form, job->state);
    *job = (LlmJob){0};
    return wrong(q, s, &err);
  }
  job->frame = q->frame;
  job->pieces = r->logprobs || r->prompt_logprobs;
  return TENON_OK;
}

static tenon_status accept(const Ask *q, const Tokens *t, const LlmChat *chat) {
  StrBuf b;
  JsonWriter w;
  Str text;
  strbuf_init(&b, q->a);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "prompt_tokens");
  json_i64(&w, (int64_t)t->n);
  if (get_bool(q, "echo")) {
    TRY(text_of_tokens(q, t, &text));
    json_key(&w, "text");
    json_str(&w, text);
    json_key(&w, "first");
    write_piece(q, &w, t->id[0]);
  }
  if (chat && chat->prompt.n) llm_chat_say(chat, &w);
  json_end_object(&w);
  return frame_put(&q->e->out, LLM_ACCEPTED, q->frame, strbuf_str(&b))
             ? TENON_OK
             : fail(q->d, TENON_ENOMEM, NOWHERE, "out of memory");
}

static tenon_status do_generate(const Ask *q) {
  Tokens t = {0};
  tenon_llm_request r = {0};
  int64_t top = get_int(q, "logprobs", -1);
  if (q->e->info.is_encoder)
    return fail(q->d, TENON_EINVAL, NOWHERE, "this model embeds texts and generates nothing");
  LlmChat chat;
  int32_t shown[LLM_SHOWN];
  TRY(prompt_of(q, &t, &chat));
  if (!t.n) return fail(q->d, TENON_EINVAL, NOWHERE, "the prompt is empty");
  take_sampling(q, &r);
  take_bias(q, &r);
  take_stops(q, &r);
  r.tokens = t.id;
  r.ntokens = t.n;
  r.max_tokens = (int32_t)get_int(q, "max_tokens", 0);
  r.ignore_end = get_bool(q, "ignore_end");
  r.logprobs = top >= 0;
  r.top_logprobs = (int32_t)MAX(top, 0);
  r.prompt_logprobs = get_bool(q, "prompt_logprobs");
  r.shown = shown;
  r.nshown = (size_t)llm_chat_shown(q->e, &chat, shown);
  TRY(submit(q, &r, &chat));
  return accept(q, &t, &chat);
}

static tenon_status do_vector(const Ask *q, tenon_llm_task task) {
  Tokens t = {0};
  tenon_llm_request r = {.task = task, .truncate = get_bool(q, "truncate")};
  const Json *list = get(q, "tokens", JSON_ARRAY), *text = get(q, "text", JSON_STRING);
  const Json *pair = get(q, "pair", JSON_STRING);
  if (task == TENON_LLM_EMBED ? !q->e->info.embedding : !q->e->info.scores)
    return fail(q->d, TENON_EINVAL, NOWHERE,
                task == TENON_LLM_EMBED ? "this model gives no embeddings"
                                        : "this model has no head that ranks");
  if ((text && !text->s.n) || (list && !list->n) || (pair && !pair->s.n))
    return fail(q->d, TENON_EINVAL, NOWHERE, "the text is empty");
  if (list) TRY(tokens_given(q, list, &t));
  r.tokens = t.id;
  r.ntokens = t.n;
  if (text) r.text = text->s.p, r.text_size = (size_t)text->s.n;
  if (pair) r.pair = pair->s.p, r.pair_size = (size_t)pair->s.n;
  TRY(submit(q, &r, NULL));
  return accept(q, &t, NULL);
}

tenon_status llm_ask(LlmEngine *e, uint64_t frame, Str payload, Arena *a, Diag *d) {
  Json j;
  TRY(json_parse(a, payload, d, &j));
  Ask q = {e, a, d, &j, frame};
  const Json *op = get(&q, "op", JSON_STRING);
  if (!op) return fail(d, TENON_EINTERNAL, NOWHERE, "an ask without op");
  if (str_is(op->s, "generate")) return do_generate(&q);
  if (str_is(op->s, "embed")) return do_vector(&q, TENON_LLM_EMBED);
  if (str_is(op->s, "rank")) return do_vector(&q, TENON_LLM_RANK);
  if (str_is(op->s, "tokenize")) return do_tokenize(&q);
  if (str_is(op->s, "detokenize")) return do_detokenize(&q);
  if (str_is(op->s, "template")) return do_template(&q);
  return fail(d, TENON_EINTERNAL, NOWHERE, "an ask for '%.*s'", STR_ARG(op->s));
}
