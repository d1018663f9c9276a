// form.c -- the form that an answer is held to (serve.h): --json-schema, --regex, --grammar,
// --choice.
//
// A finished answer of a schema is judged again by schema_validate, which knows nothing of masks.
#include "cli/llm/serve.h"

#include "grammar/validate.h"

static tenon_status read_file(Cli *c, const char *path, Str *out) {
  File f;
  TRY(file_open(path, &f, &c->diag));
  *out = (Str){arena_dup(&c->arena, f.size ? (const void *)f.bytes : "", f.size), f.size};
  file_close(&f);
  return TENON_OK;
}

static tenon_status misused(Cli *c, const char *why) {
  c->misused = true;
  return fail(&c->diag, TENON_EINVAL, NOWHERE, "%s", why);
}

tenon_status serve_form(Cli *c, const Llm *l, Form *out) {
  const char *schema = serve_text(c, "json-schema", NULL), *regex = serve_text(c, "regex", NULL);
  const char *grammar = serve_text(c, "grammar", NULL);
  Strs choice = serve_list(c, "choice");
  GrammarSpec spec = {.choice = choice.v, .nchoice = choice.n};
  *out = (Form){.g = NULL};
  int forms = (schema != NULL) + (regex != NULL) + (grammar != NULL) + (choice.n > 0);
  if (!forms) return TENON_OK;
  if (forms > 1)
    return misused(c, "--json-schema, --regex, --grammar and --choice exclude one another");
  spec.kind = schema    ? GRAMMAR_SCHEMA
              : regex   ? GRAMMAR_REGEX
              : grammar ? GRAMMAR_GBNF
                        : GRAMMAR_CHOICES;
  if (regex) spec.text = str_of(regex);
  if (schema || grammar) TRY(read_file(c, schema ? schema : grammar, &spec.text));
  if (schema) out->schema = spec.text;
  TRY(grammar_vocab_create(l->tokenizer, &c->diag, &out->vocab));
  return grammar_compile(out->vocab, &spec, &c->diag, &out->g);
}

tenon_status serve_form_begin(const Form *f, int64_t tokens, GrammarState **io, Diag *d) {
  grammar_state_free(*io);
  *io = NULL;
  if (!f->g) return TENON_OK;
  if (tokens >= 0 && tokens < grammar_least(f->g))
    return fail(d, TENON_EINVAL, NOWHERE,
                "an answer of this form takes up to %lld tokens, not %lld",
                (long long)grammar_least(f->g), (long long)tokens);
  return grammar_state_create(f->g, d, io);
}

tenon_status serve_form_judge(const Form *f, const GrammarState *s, Str answer, Diag *d) {
  if (!f->g) return TENON_OK;
  if (grammar_wrong(s)) return fail(d, TENON_ENOMEM, NOWHERE, "%s", grammar_wrong(s));
  return f->schema.n ? schema_validate(f->schema, answer, d) : TENON_OK;
}

void serve_form_deinit(Form *f) {
  grammar_free(f->g);
  grammar_vocab_free(f->vocab);
}
