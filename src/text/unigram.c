// unigram.c -- the segmentation of the highest score, of a unigram language model.
//
// Viterbi from left to right: the best way to each character's end is known before it is left.  A
// trie gives all tokens that begin at a place, so time is linear in the text times the length of
// the longest token.  Where no token is a single character there, the unknown token is, by a score
// below all others.  Ties go to the way that was found first, as in SentencePiece.
#include "text/impl.h"

typedef struct Step {
  double score;
  int64_t from;  // where the token that ends here starts; -1: nobody came here
  int32_t id;
} Step;

static double sum_of(const Unigram *u, double a, double b) {
  return u->single ? (double)((float)a + (float)b) : a + b;
}

static void relax(const Unigram *u, Step *step, int64_t from, int64_t to, int32_t id,
                  double score) {
  double sum = sum_of(u, step[from].score, score);
  if (step[to].from >= 0 && !(sum > step[to].score)) return;
  step[to] = (Step){sum, from, id};
}

static double score_of(const Tokenizer *t, int32_t id, int64_t bytes) {
  const Unigram *u = &t->unigram;
  // SentencePiece prefers a token of the user's to any other way.
  if (u->user_score != 0 && t->flag[id] & FLAG_ADDED) return (double)bytes * u->user_score - 0.1;
  return (double)u->score[id];
}

static void find_best(const Tokenizer *t, Str s, Step *step) {
  const uint8_t *p = (const uint8_t *)s.p;
  const Trie *trie = &t->unigram.trie;
  for (int64_t at = 0; at < s.n;) {
    int64_t char_n = MIN(utf8_bytes(p[at]), s.n - at);
    bool single = false;
    int32_t node = -1;
    for (int64_t i = at; i < s.n; i++) {
      node = trie_step(trie, node, p[i]);
      if (node < 0) break;
      int32_t id = trie->node[node].value;
      if (id < 0 || t->flag[id] & FLAG_UNUSED) continue;
      relax(&t->unigram, step, at, i + 1, id, score_of(t, id, i + 1 - at));
      single |= i + 1 - at == char_n;
    }
    if (!single) relax(&t->unigram, step, at, at + char_n, -1, t->unigram.unk_score);
    at += char_n;
  }
}

void unigram_encode(Encoder *e, Str piece) {
  int64_t bytes;
  if (!ck_mul(piece.n + 1, (int64_t)sizeof(Step), &bytes))
    trap_raise(TENON_ENOMEM, "a piece is too long");
  e->lattice.n = 0;
  bytes_room(&e->lattice, bytes);
  Step *step = (Step *)(void *)e->lattice.p;
  for (int64_t i = 0; i <= piece.n; i++) step[i] = (Step){0, -1, -1};
  step[0].from = 0;
  find_best(e->t, piece, step);
  // The way back, turned around in place: `from` of a place becomes where its token ends.
  int64_t at = piece.n, end = -1;
  while (at > 0) {
    int64_t from = step[at].from;
    step[at].from = end;
    end = at;
    at = from;
  }
  e->last_unk = false;
  for (at = 0; at < piece.n; at = end, end = step[end].from) {
    int32_t id = step[end].id;
    if (id < 0) {
      encoder_unknown(e, (const uint8_t *)piece.p + at, end - at);
    } else {
      e->last_unk = false;
      encoder_put(e, id);
    }
  }
}
