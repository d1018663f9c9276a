// wordpiece.c -- the longest token first, as BERT does; and whole words.
//
// A word of which some part is no token is the unknown token as a whole.  The longest match is
// found by a hash of each length downwards from the longest token's, so a word takes time
// proportional to its length times that.
#include "text/impl.h"

static void put_unknown_word(Encoder *e) {
  if (e->t->unk >= 0) encoder_put(e, e->t->unk);
}

static int64_t characters(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) n += ((uint8_t)s.p[i] & 0xc0) != 0x80;
  return n;
}

// The longest token at s.p + at, and where it ends; -1: none.
static int32_t longest(Encoder *e, Str s, int64_t at, int64_t *out_end) {
  const Tokenizer *t = e->t;
  Str prefix = at ? t->word_prefix : (Str){0};
  e->word.n = 0;
  bytes_put_str(&e->word, prefix);
  bytes_put(&e->word, s.p + at, s.n - at);
  for (int64_t end = s.n; end > at; end--) {
    if (end < s.n && ((uint8_t)s.p[end] & 0xc0) == 0x80) continue;
    int32_t id = token_map_get(&t->vocab, e->word.p, prefix.n + end - at);
    if (id >= 0) return *out_end = end, id;
  }
  return -1;
}

void wordpiece_encode(Encoder *e, Str piece) {
  const Tokenizer *t = e->t;
  if (t->kind == MODEL_WORDLEVEL || characters(piece) > t->word_chars) {
    int32_t id = t->kind == MODEL_WORDLEVEL
                     ? token_map_get(&t->vocab, (const uint8_t *)piece.p, piece.n)
                     : -1;
    if (id >= 0)
      encoder_put(e, id);
    else
      put_unknown_word(e);
    return;
  }
  int64_t from = e->out->n;
  for (int64_t at = 0, end; at < piece.n; at = end) {
    int32_t id = longest(e, piece, at, &end);
    if (id < 0) {
      e->out->n = from;
      put_unknown_word(e);
      return;
    }
    encoder_put(e, id);
  }
}
