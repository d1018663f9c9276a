// grammar_tool.c -- tenon-grammar TOKENIZER: structured output by random logits, for
// bench/grammar.py.
//
// Reads a request from each line and answers with a line, both JSON:
//   {"kind": "schema", "text": "...", "max": 64, "runs": 3, "seed": 1}
//   {"status": "ok", "least": 5, "compile_us": 180, "mask_us": [...], "answers": ["hex", ...]}
// An answer is drawn token by token among those that the mask allows, each as likely as the others.
// With "plain": 1, half of the draws are among tokens that end soonest, so that answers are
// shorter. With "tokens": [...] nothing is drawn: "masks" has the words of each mask before each
// token and behind the last, in hexadecimal.
#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static uint64_t next_random(uint64_t *x) { return *x = hash_u64(*x + 0x9e3779b97f4a7c15u); }

static int64_t number_of(const Json *j, const char *key, int64_t absent) {
  const Json *v = json_get(j, key);
  return v && v->kind == JSON_INT ? v->i : absent;
}
static Str text_of(const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  return v && v->kind == JSON_STRING ? v->s : (Str){0};
}

typedef struct Tool {
  const Tokenizer *t;
  GrammarVocab *v;
  uint32_t *mask;
  int32_t *allowed;
  Arena *a;
} Tool;

static void put_hex(StrBuf *out, const void *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) strbuf_printf(out, "%02x", ((const uint8_t *)p)[i]);
}

// One answer; NULL: it came to a place from which nothing is allowed.
static const char *draw(Tool *u, Grammar *g, int64_t most, uint64_t seed, StrBuf *answer,
                        JsonWriter *times, Diag *d) {
  GrammarState *s;
  if (grammar_state_create(g, d, &s)) return "no state";
  const char *wrong = NULL;
  for (int64_t left = most; left > 0 && !wrong; left--) {
    double begin = now_us();
    grammar_mask(s, left, u->mask);
    json_f64(times, now_us() - begin);
    int64_t n = 0;
    for (int64_t w = 0; w < grammar_vocab_words(u->v); w++)
      for (uint32_t bits = u->mask[w]; bits; bits &= bits - 1)
        u->allowed[n++] = (int32_t)(w * 32 + __builtin_ctz(bits));
    if (grammar_can_end(s) && (!n || next_random(&seed) % 4 == 0)) break;
    if (!n) {
      wrong = grammar_wrong(s) ? grammar_wrong(s) : "nothing is allowed";
      break;
    }
    int32_t token = u->allowed[next_random(&seed) % (uint64_t)n];
    if (!grammar_accept(s, token)) {
      wrong = "an allowed token is refused";
    } else if (grammar_state_least(s) > left - 1) {
      wrong = "an allowed token leaves too few";
    } else if (tokenizer_is_end(u->t, token)) {
      break;
    } else {
      strbuf_put(answer, tokenizer_piece(u->t, token));
    }
  }
  if (!wrong && !grammar_can_end(s)) wrong = "the answer is not whole";
  grammar_state_free(s);
  return wrong;
}

static void draw_all(Tool *u, Grammar *g, const Json *in, JsonWriter *out, Diag *d) {
  const char *wrong = NULL;
  StrBuf line, lines;
  strbuf_init(&lines, u->a);
  json_key(out, "mask_us");
  json_begin_flat_array(out);
  int64_t runs = number_of(in, "runs", 1);
  StrBuf *answer = arena_array(u->a, StrBuf, runs + 1);
  int64_t n = 0;
  for (; n < runs && !wrong; n++) {
    strbuf_init(&answer[n], u->a);
    wrong = draw(u, g, number_of(in, "max", 64), (uint64_t)(number_of(in, "seed", 1) + n * 7919),
                 &answer[n], out, d);
  }
  json_end_array(out);
  json_key(out, "answers");
  json_begin_flat_array(out);
  for (int64_t i = 0; i < n; i++) {
    strbuf_init(&line, u->a);
    put_hex(&line, answer[i].p, answer[i].n);
    json_str(out, strbuf_str(&line));
  }
  json_end_array(out);
  if (text_of(in, "kind").n && str_is(text_of(in, "kind"), "schema")) {
    json_key(out, "judged");
    json_begin_flat_array(out);
    for (int64_t i = 0; i < n; i++) {
      Diag why;
      diag_init(&why);
      tenon_status s = schema_validate(text_of(in, "text"), strbuf_str(&answer[i]), &why);
      json_cstr(out, s ? why.text : "ok");
    }
    json_end_array(out);
  }
  json_key(out, "wrong");
  json_cstr(out, wrong);
}

static void show_masks(Tool *u, Grammar *g, const Json *tokens, JsonWriter *out, Diag *d) {
  GrammarState *s;
  if (grammar_state_create(g, d, &s)) return;
  json_key(out, "masks");
  json_begin_flat_array(out);
  for (int64_t i = 0; i <= tokens->n; i++) {
    StrBuf line;
    strbuf_init(&line, u->a);
    grammar_mask(s, INT32_MAX, u->mask);
    put_hex(&line, u->mask, grammar_vocab_words(u->v) * 4);
    json_str(out, strbuf_str(&line));
    if (i < tokens->n && !grammar_accept(s, (int32_t)tokens->item[i].i)) break;
  }
  json_end_array(out);
  grammar_state_free(s);
}

static void answer_line(Tool *u, Str line, JsonWriter *out, Diag *d) {
  static const char *const kinds[] = {"schema", "json", "regex", "gbnf", "choices", "tools"};
  Json in;
  if (json_parse(u->a, line, d, &in)) return;
  GrammarSpec spec = {.text = text_of(&in, "text"), .compact = number_of(&in, "compact", 0)};
  for (int i = 0; i < ARRAY_LEN(kinds); i++)
    if (str_is(text_of(&in, "kind"), kinds[i])) spec.kind = (GrammarKind)i;
  const Json *choice = json_get(&in, "choice"), *tokens = json_get(&in, "tokens");
  if (choice && choice->kind == JSON_ARRAY) {
    Str *all = arena_array(u->a, Str, choice->n + 1);
    for (int64_t i = 0; i < choice->n; i++) all[i] = choice->item[i].s;
    spec.choice = all;
    spec.nchoice = choice->n;
  }
  Grammar *g;
  double begin = now_us();
  tenon_status s = grammar_compile(u->v, &spec, d, &g);
  double took = now_us() - begin;
  json_begin_object(out);
  json_key(out, "status");
  json_cstr(out, s ? status_name(s) : "ok");
  json_key_f64(out, "compile_us", took);
  if (s) {
    json_key(out, "message");
    json_cstr(out, d->text);
  } else {
    json_key(out, "least");
    json_i64(out, grammar_least(g));
    if (tokens)
      show_masks(u, g, tokens, out, d);
    else if (grammar_least(g) <= number_of(&in, "max", 64))
      draw_all(u, g, &in, out, d);
    grammar_free(g);
  }
  json_end_object(out);
}

int main(int argc, char **argv) {
  static Diag d;
  Arena model, a;
  Tool u = {.a = &a};
  Tokenizer *t;
  arena_init(&model);
  diag_init(&d);
  if (argc != 2) return fprintf(stderr, "usage: tenon-grammar TOKENIZER\n"), 2;
  Trap trap;
  trap_enter(&trap, &d);
  if (setjmp(trap.env) == 0) {
    if (tokenizer_load(argv[1], NULL, &model, &d, &t) || grammar_vocab_create(t, &d, &u.v))
      return fprintf(stderr, "tenon-grammar: %s\n", d.text), 1;
    u.t = t;
    u.mask = arena_array(&model, uint32_t, grammar_vocab_words(u.v));
    u.allowed = arena_array(&model, int32_t, tokenizer_size(t));
    fprintf(stderr, "%s\n", tokenizer_about(t));
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
      StrBuf text;
      JsonWriter out;
      arena_init(&a);
      diag_init(&d);
      strbuf_init(&text, &a);
      json_init(&out, &text, true);
      answer_line(&u, (Str){line, n}, &out, &d);
      printf("%s\n", text.n ? strbuf_text(&text) : "null");
      fflush(stdout);
      arena_deinit(&a);
    }
    free(line);
    grammar_vocab_free(u.v);
  }
  trap_leave(&trap);
  arena_deinit(&model);
  if (trap.status) fprintf(stderr, "tenon-grammar: %s\n", d.text);
  return trap.status != 0;
}
