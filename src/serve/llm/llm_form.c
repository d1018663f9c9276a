// llm_form.c -- forms of answers: grammars of asks, kept for later asks of the same form.
//
// A form is {"kind": schema, json, regex, gbnf or choices, "text": ..., "choices": [...]}, or calls
// of tools in the form of the model's template.  Where the model may think first, the form begins
// behind that.  What a grammar does not have, and answers for which too few tokens are left, are
// refused before anything is generated.
#include "serve/llm/llm_engine.h"

#include "base/platform.h"

enum { FORMS_KEPT = 32 };

struct LlmForm {
  LlmForm *next;
  char *key;  // the form's JSON
  int64_t bytes;
  Grammar *grammar;
  int64_t uses, used;
};

// ---- the vocabulary ----
static Str piece_of(const void *ctx, int32_t id, bool *special, bool *end) {
  tenon_llm_token t;
  tenon_error err;
  if (tenon_llm_piece(ctx, id, &t, &err)) return (Str){"", 0};
  *special = t.special != 0;
  *end = t.end != 0;
  return (Str){t.bytes, (int64_t)t.size};
}

static tenon_status vocabulary(LlmEngine *e, Diag *d) {
  if (e->vocab) return TENON_OK;
  return grammar_vocab_of(&(GrammarTokens){e->info.vocabulary, piece_of, e->llm}, d, &e->vocab);
}

// ---- grammars ----
static Str text_of(const Json *form, const char *name) {
  const Json *v = json_get(form, name);
  return v && v->kind == JSON_STRING ? v->s : (Str){"", 0};
}

static tenon_status tools_of(const LlmHold *h, Arena *a, Diag *d, GrammarSpec *out) {
  Json *tools = arena_new(a, Json);
  TRY(json_parse(a, str_of(h->tools), d, tools));
  ToolForm f = {.syntax = h->chat->syntax,
                .reasoning = h->chat->reasoning,
                .inside = h->chat->inside,
                .tools = tools,
                .named = h->named ? str_of(h->named) : (Str){"", 0},
                .required = h->required,
                .parallel = h->parallel};
  return tool_form_spec(&f, a, d, out);
}

static tenon_status form_of(const Json *form, Arena *a, Diag *d, GrammarSpec *out) {
  static const struct {
    const char *name;
    GrammarKind kind;
  } row[] = {{"schema", GRAMMAR_SCHEMA},
             {"json", GRAMMAR_JSON},
             {"regex", GRAMMAR_REGEX},
             {"gbnf", GRAMMAR_GBNF},
             {"choices", GRAMMAR_CHOICES}};
  Str kind = text_of(form, "kind");
  const Json *list = json_get(form, "choices");
  *out = (GrammarSpec){.kind = GRAMMAR_TOOLS, .text = text_of(form, "text")};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (str_is(kind, row[i].name)) out->kind = row[i].kind;
  if (out->kind == GRAMMAR_TOOLS)
    return fail(d, TENON_EINTERNAL, NOWHERE, "a form of kind '%.*s'", STR_ARG(kind));
  if (!list) return TENON_OK;
  Str *choice = arena_array(a, Str, list->n + 1);
  for (int64_t i = 0; i < list->n; i++) choice[i] = list->item[i].s;
  out->choice = choice;
  out->nchoice = list->n;
  return TENON_OK;
}

static tenon_status spec_of(const LlmHold *h, Arena *a, Diag *d, GrammarSpec *out) {
  if (!h->form) return tools_of(h, a, d, out);
  TRY(form_of(h->form, a, d, out));
  const Reasoning *r = h->chat ? h->chat->reasoning : NULL;
  if (!r) return TENON_OK;
  out->think = str_of(r->begin);
  out->think_end = str_of(r->end);
  out->thinking = h->chat->inside;
  return TENON_OK;
}

// What the grammar is made from, as a text.
static tenon_status key_of(const LlmHold *h, Arena *a, Diag *d, Str *out) {
  StrBuf b;
  JsonWriter w;
  const LlmChat *c = h->chat;
  strbuf_init(&b, a);
  strbuf_printf(&b, "%s %s %d %d %d %s %s ", c && !h->form ? c->syntax->name : "-",
                c && c->reasoning ? c->reasoning->begin : "-", c && c->inside, h->required,
                h->parallel, h->named ? h->named : "-", h->form ? "" : h->tools);
  json_init(&w, &b, true);
  if (h->form) TRY(json_put(&w, h->form, d));
  *out = strbuf_str(&b);
  return TENON_OK;
}

static void form_free(LlmForm *f) {
  grammar_free(f->grammar);
  mem_free(f->key, f->bytes);
  mem_free(f, sizeof *f);
}

// Leaves at most FORMS_KEPT that nobody uses, those used last.
static void forget_old(LlmEngine *e) {
  for (;;) {
    LlmForm **oldest = NULL;
    int64_t idle = 0;
    for (LlmForm **p = &e->forms; *p; p = &(*p)->next) {
      if ((*p)->uses) continue;
      idle++;
      if (!oldest || (*p)->used < (*oldest)->used) oldest = p;
    }
    if (idle <= FORMS_KEPT) return;
    LlmForm *f = *oldest;
    *oldest = f->next;
    form_free(f);
  }
}

static tenon_status make(LlmEngine *e, const LlmHold *h, Str key, Arena *a, Diag *d,
                         LlmForm **out) {
  GrammarSpec spec;
  TRY(spec_of(h, a, d, &spec));
  TRY(vocabulary(e, d));
  LlmForm *f = mem_alloc(sizeof *f);
  char *copy = f ? mem_alloc(key.n + 1) : NULL;
  if (!copy) {
    mem_free(f, sizeof *f);
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  }
  memcpy(copy, key.p, (size_t)key.n);
  copy[key.n] = 0;
  *f = (LlmForm){.next = e->forms, .key = copy, .bytes = key.n + 1};
  tenon_status s = grammar_compile(e->vocab, &spec, d, &f->grammar);
  if (s) {
    form_free(f);
    return s;
  }
  e->forms = *out = f;
  return TENON_OK;
}

tenon_status llm_form_take(LlmEngine *e, const LlmHold *h, Arena *a, Diag *d, LlmForm **out,
                           GrammarState **state) {
  Str key;
  TRY(key_of(h, a, d, &key));
  LlmForm *f = e->forms;
  while (f && !str_eq((Str){f->key, f->bytes - 1}, key)) f = f->next;
  if (!f) TRY(make(e, h, key, a, d, &f));
  f->used = platform->now();
  int64_t least = grammar_least(f->grammar);
  if (least > h->left)
    return fail(d, TENON_EINVAL, NOWHERE,
                "the shortest answer of this form takes up to %lld tokens, and there is room for "
                "%lld",
                (long long)least, (long long)h->left);
  TRY(grammar_state_create(f->grammar, d, state));
  f->uses++;
  *out = f;
  return TENON_OK;
}

void llm_form_leave(LlmEngine *e, LlmForm *f, GrammarState *state) {
  if (!f) return;
  grammar_state_free(state);
  f->uses--;
  forget_old(e);
}

void llm_forms_free(LlmEngine *e) {
  while (e->forms) {
    LlmForm *f = e->forms;
    e->forms = f->next;
    form_free(f);
  }
  grammar_vocab_free(e->vocab);
  e->vocab = NULL;
}
