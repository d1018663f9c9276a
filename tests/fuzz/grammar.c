// grammar.c -- fuzz target: schemas, regular expressions and grammars.  The first byte chooses the
// kind, the second one how answers are drawn; the rest is the text.
//
// What compiles gives whole answers within the tokens that are left, and those of a schema are what
// the validator takes.
#include "grammar/grammar.h"
#include "grammar/validate.h"
#include "fuzz.h"

static const char *const words[] = {"{\"",  "\":", "\"}", "a",     "ab",
                                    "true", "12",  " ",   "\"a\"", "\\u"};
enum { FIRST = 3, ALL = FIRST + 256 + (int)(sizeof words / sizeof *words) };
static Arena model;
static Tokenizer *tokenizer;
static GrammarVocab *vocab;

static void make_vocab(void) {
  static const char *const control[] = {"<unk>", "<s>", "</s>"};
  static Diag d;
  static Str token[ALL];
  static float score[ALL];
  static int32_t type[ALL];
  static char name[256][8];
  TokenizerGguf g;
  arena_init(&model);
  diag_init(&d);
  tokenizer_gguf_init(&g);
  for (int i = 0; i < ALL; i++) {
    bool byte = i >= FIRST && i < FIRST + 256;
    if (byte) snprintf(name[i - FIRST], sizeof *name, "<0x%02X>", i - FIRST);
    token[i] = str_of(i < FIRST ? control[i] : byte ? name[i - FIRST] : words[i - FIRST - 256]);
    type[i] = i == 0 ? TOKEN_UNKNOWN : i < FIRST ? TOKEN_CONTROL : byte ? TOKEN_BYTE : TOKEN_NORMAL;
    score[i] = (float)-i;
  }
  g.model = STR("llama");
  g.n = ALL;
  g.token = token;
  g.score = score;
  g.type = type;
  g.unk = 0;
  g.bos = 1;
  g.eos = 2;
  if (tokenizer_load_gguf(&g, &model, &d, &tokenizer) ||
      grammar_vocab_create(tokenizer, &d, &vocab))
    abort();
}

static void draw(Grammar *g, Str schema, bool judged, uint64_t seed, Diag *d) {
  uint32_t mask[(ALL + 31) / 32];
  char answer[256];
  int64_t n = 0, left = grammar_least(g) + (int64_t)(seed % 7);
  GrammarState *s;
  if (left > 24 || grammar_state_create(g, d, &s)) return;
  for (; left > 0; left--) {
    int32_t allowed[ALL], count = 0;
    grammar_mask(s, left, mask);
    for (int32_t id = 0; id < ALL; id++)
      if (mask[id / 32] >> id % 32 & 1) allowed[count++] = id;
    if (!count) break;
    seed = hash_u64(seed + 1);
    int32_t token = allowed[seed % (uint64_t)count];
    if (!grammar_accept(s, token)) finding("mask", "an allowed token is refused");
    if (tokenizer_is_end(tokenizer, token)) break;
    Str piece = tokenizer_piece(tokenizer, token);
    memcpy(answer + n, piece.p, (size_t)piece.n);
    n += piece.n;
  }
  if (!grammar_wrong(s) && !grammar_can_end(s)) finding("answer", "it is not whole");
  if (judged && !grammar_wrong(s) && schema_validate(schema, (Str){answer, n}, d) == TENON_EINVAL)
    finding("answer", d->text);
  grammar_state_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const GrammarKind kinds[] = {GRAMMAR_SCHEMA, GRAMMAR_REGEX, GRAMMAR_GBNF};
  static Diag d;
  if (!vocab) make_vocab();
  if (size < 2) return 0;
  fuzz_begin();
  diag_init(&d);
  GrammarSpec spec = {.kind = kinds[data[0] % 3],
                      .text = {(const char *)data + 2, (int64_t)size - 2},
                      .compact = data[1] & 1};
  Grammar *g;
  tenon_status s = grammar_compile(vocab, &spec, &d, &g);
  if (s == TENON_EINTERNAL) finding("compile", d.text);
  if (!s) draw(g, spec.text, spec.kind == GRAMMAR_SCHEMA, data[1], &d);
  grammar_free(g);
  fuzz_end();
  return 0;
}
