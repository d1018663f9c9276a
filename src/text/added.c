// added.c -- cuts text at added and special tokens.
//
// At each place the longest token is looked for in a trie; most places end at the first byte.  A
// token's length is limited, so the time is linear.  What a token asks of its surroundings follows
// Hugging Face's tokenizers: `single_word` refuses neighbours that are word characters, `lstrip`
// and `rstrip` take white space along.  A token that is refused still covers its text.
#include "text/impl.h"

static bool is_word(uint32_t c) {
  return c == '_' || unicode_is(c, UC_L | UC_M | UC_BIT(Nd) | UC_BIT(Nl) | UC_BIT(Pc));
}

static bool stands_alone(Str s, int64_t from, int64_t to) {
  const uint8_t *p = (const uint8_t *)s.p;
  int n;
  if (from > 0 && is_word(utf8_before(p + from, &n))) return false;
  return to == s.n || !is_word(utf8_get(p + to, &n));
}

static int64_t strip_left(Str s, int64_t from, int64_t least) {
  const uint8_t *p = (const uint8_t *)s.p;
  int n;
  while (from > least && unicode_is_space(utf8_before(p + from, &n))) from -= n;
  return from;
}
static int64_t strip_right(Str s, int64_t to) {
  const uint8_t *p = (const uint8_t *)s.p;
  int n;
  while (to < s.n && unicode_is_space(utf8_get(p + to, &n))) to += n;
  return to;
}

void added_split(Encoder *e, const AddedSet *set, Str text, bool at_start, TextFn *other) {
  const uint8_t *p = (const uint8_t *)text.p;
  int64_t done = 0;  // what was given on
  for (int64_t at = 0, n = 0; set->n && at < text.n;) {
    if (set->trie.root[p[at]] < 0) {
      at++;
      continue;
    }
    int32_t k = trie_longest(&set->trie, p + at, text.n - at, &n);
    if (k < 0) {
      at++;
      continue;
    }
    const AddedToken *a = &set->token[k];
    int64_t from = at, to = at + n;
    at = to;
    if (a->special && !(e->flags & TOKENIZE_PARSE_SPECIAL)) continue;
    if (from < done || (a->single_word && !stands_alone(text, from, to))) continue;
    if (a->lstrip) from = strip_left(text, from, done);
    if (a->rstrip) to = strip_right(text, to);
    if (from > done) other(e, (Str){text.p + done, from - done}, at_start && done == 0);
    encoder_put(e, a->id);
    done = to;
  }
  if (text.n > done) other(e, (Str){text.p + done, text.n - done}, at_start && done == 0);
}
