// cmd_chat.c -- `tenon chat`: a conversation, line by line.
//
// A line of standard input is a message; the answer streams to standard output.  The whole
// conversation is the prompt of each answer: what was computed before is found in the prefix tree,
// so only the new message is.
#include "cli/llm/serve.h"

#include <errno.h>
#include <unistd.h>

typedef struct Chat {
  Cli *cli;
  Llm *llm;
  SamplerParams sampler;
  Strs stops;
  Form form;
  GrammarState *state;
  VEC(Json) message;
  bool terminal;
} Chat;

static void add_message(Chat *t, const char *role, Str text) {
  Arena *a = &t->cli->arena;
  Json *pair = arena_array(a, Json, 2);
  Str *key = arena_array(a, Str, 2);
  key[0] = STR("role"), key[1] = STR("content");
  pair[0] = (Json){.kind = JSON_STRING, .s = str_of(role)};
  pair[1] = (Json){.kind = JSON_STRING, .s = {arena_dup(a, text.p, text.n), text.n}};
  Json m = {.kind = JSON_OBJECT, .n = 2, .key = key, .item = pair};
  vec_push(a, &t->message, m);
}

// A line without its end; false at the end of the input.
static bool read_line(Chat *t, StrBuf *out) {
  int ch;
  strbuf_init(out, &t->cli->arena);
  if (t->terminal) fputs("> ", stderr);
  while ((ch = getchar()) != EOF && ch != '\n') strbuf_putc(out, (char)ch);
  if (out->n && out->p[out->n - 1] == '\r') out->n--;
  return ch != EOF || out->n;
}

static tenon_status answer(Chat *t, StrBuf *out) {
  Cli *c = t->cli;
  Str prompt;
  uint64_t id;
  Json all = {.kind = JSON_ARRAY, .n = t->message.n, .item = t->message.v};
  TRY(llm_chat(t->llm, &all, NULL, NULL, &c->arena, &c->diag, &prompt));
  TRY(serve_form_begin(&t->form, opt_int(c, OPT_chat_tokens, -1), &t->state, &c->diag));
  LlmRequest r = {.text = prompt,
                  .tokenize = TOKENIZE_PARSE_SPECIAL,
                  .stop = t->stops.v,
                  .nstop = (int32_t)MIN(t->stops.n, INT32_MAX),
                  .adapter = serve_adapter(c)};
  r.r = (EngineRequest){.max_tokens = (int32_t)opt_int(c, OPT_chat_tokens, -1),
                        .sampler = t->sampler,
                        .mask = {t->state ? grammar_hook : NULL, t->state},
                        .logprobs = -1};
  TRY(llm_submit(t->llm, &r, &c->diag, &id));
  while (engine_busy(t->llm->engine) && !ferror(stdout)) {
    TRY(llm_step(t->llm, &c->diag));
    for (int32_t i = 0; i < t->llm->nevents; i++) {
      serve_print(t->llm->event[i].text);
      strbuf_put(out, t->llm->event[i].text);
    }
  }
  putchar('\n');
  return ferror(stdout) ? TENON_OK
                        : serve_form_judge(&t->form, t->state, strbuf_str(out), &c->diag);
}

// A message that cannot be answered (the context is full, the template refuses it) ends the chat
// with its reason; so does an answer that nobody reads.
static tenon_status talk(Chat *t) {
  StrBuf line, text;
  while (!ferror(stdout) && read_line(t, &line)) {
    if (!line.n) continue;
    if (!str_is_utf8(strbuf_str(&line)))
      return fail(&t->cli->diag, TENON_EFORMAT, NOWHERE, "a message is not UTF-8");
    add_message(t, "user", strbuf_str(&line));
    strbuf_init(&text, &t->cli->arena);
    TRY(answer(t, &text));
    add_message(t, "assistant", strbuf_str(&text));
  }
  if (t->terminal) fputc('\n', stderr);
  return TENON_OK;
}

static tenon_status chat(Chat *t) {
  Cli *c = t->cli;
  const char *system = opt_text(c, OPT_chat_system, NULL);
  LlmServeOptions o = {.sequences = 1};
  TRY(serve_sampler(c, &t->sampler));
  t->stops = serve_list(c, "stop");
  t->terminal = isatty(0) == 1 && isatty(2) == 1;
  TRY(serve_open(c, &o, &t->llm));
  TRY(serve_template(c, t->llm));
  if (!t->llm->chat_text.n)
    return fail(&c->diag, TENON_EUNSUPPORTED, (Where){.file = c->pos[0]},
                "the model has no chat template; `tenon generate` continues text, and --template F "
                "gives one");
  if (system) add_message(t, "system", str_of(system));
  TRY(serve_form(c, t->llm, &t->form));
  return talk(t);
}

int cmd_chat(Cli *c) {
  Chat t = {.cli = c};
  tenon_status s = chat(&t);
  llm_free(t.llm);
  grammar_state_free(t.state);
  serve_form_deinit(&t.form);
  return cli_exit_of(s);
}
