// vocab.c -- the vocabulary as masks need it: tries of the tokens' bytes, and sets of plain text.
//
// Half of a vocabulary and more is plain text: characters that a JSON string holds as they are.
// Where all such characters lead to one place, all those tokens go together, as ready sets by
// their number of characters, and only the trie of the rest is walked.
#include "grammar/impl.h"

#include <stdlib.h>

typedef struct Piece {
  Str text;
  int32_t id;
} Piece;

static int by_text(const void *x, const void *y) {
  const Piece *a = x, *b = y;
  int c = str_cmp(a->text, b->text);
  return c ? c : (a->id > b->id) - (a->id < b->id);
}
static int by_name(const void *x, const void *y) {
  return str_cmp(((const VocabName *)x)->text, ((const VocabName *)y)->text);
}

// The trie of sorted pieces, none twice.
static void trie_make(Arena *a, const Piece *piece, int64_t n, Trie *t) {
  int64_t nodes = 0, at = 0;
  for (int pass = 0; pass < 2; pass++) {
    int32_t open[TOKEN_BYTES + 1];
    int64_t depth = 0;
    Str last = {0};
    at = 0;
    for (int64_t i = 0; i < n; i++) {
      Str s = piece[i].text;
      int64_t same = 0;
      while (same < last.n && same < s.n && last.p[same] == s.p[same]) same++;
      if (pass)
        for (int64_t k = same; k < depth; k++) t->skip[open[k]] = (int32_t)at;
      for (int64_t k = same; k < s.n; k++, at++) {
        if (!pass) continue;
        open[k] = (int32_t)at;
        t->byte[at] = (uint8_t)s.p[k];
        t->depth[at] = (uint8_t)(k + 1);
        t->token[at] = k + 1 == s.n ? piece[i].id : -1;
      }
      depth = s.n;
      last = s;
    }
    if (pass) {
      for (int64_t k = 0; k < depth; k++) t->skip[open[k]] = (int32_t)at;
      break;
    }
    nodes = at;
    t->n = nodes;
    t->byte = arena_array(a, uint8_t, nodes + 1);
    t->depth = arena_array(a, uint8_t, nodes + 1);
    t->skip = arena_array(a, int32_t, nodes + 1);
    t->token = arena_array(a, int32_t, nodes + 1);
  }
}

// The number of characters of a plain text, 0: it is none.
static int64_t plain_length(Str s) {
  int64_t n = 0, i = 0;
  while (i < s.n) {
    uint8_t c = (uint8_t)s.p[i];
    bool whole, cut;
    if (c < 0x20 || c == '"' || c == '\\') return 0;
    int bytes = utf8_check((const uint8_t *)s.p + i, s.n - i, &whole, &cut);
    if (!whole) return 0;
    i += bytes;
    n++;
  }
  return n;
}

static void read_tokens(GrammarVocab *v, const GrammarTokens *t) {
  VEC(int32_t) end = {0};
  VEC(VocabName) control = {0};
  v->piece = arena_array(&v->arena, Str, v->size);
  v->again = arena_array(&v->arena, int32_t, v->size);
  for (int32_t id = 0; id < v->size; id++) {
    bool special = false, ends = false;
    Str s = t->piece(t->ctx, id, &special, &ends);
    v->again[id] = -1;
    if (ends) vec_push(&v->arena, &end, id);
    if (s.n && (special || ends)) {
      VocabName name = {{str_copy(&v->arena, s), s.n}, id};
      vec_push(&v->arena, &control, name);
    } else if (s.n && s.n <= TOKEN_BYTES) {
      v->piece[id] = (Str){str_copy(&v->arena, s), s.n};
    }
  }
  v->end = end.v;
  v->nend = end.n;
  v->control = control.v;
  v->ncontrol = control.n;
  if (control.n) qsort(control.v, (size_t)control.n, sizeof *control.v, by_name);
}

static void make(GrammarVocab *v, const GrammarTokens *t) {
  read_tokens(v, t);
  Piece *all = arena_array(&v->arena, Piece, v->size + 1);
  Piece *rest = arena_array(&v->arena, Piece, v->size + 1);
  int64_t n = 0, kept = 0, nrest = 0;
  for (int32_t id = 0; id < v->size; id++)
    if (v->piece[id].n) all[n++] = (Piece){v->piece[id], id};
  if (n) qsort(all, (size_t)n, sizeof *all, by_text);
  for (int k = 1; k <= PLAIN_MOST; k++) v->plain[k] = arena_array(&v->arena, uint32_t, v->words);
  for (int64_t i = 0; i < n; i++) {
    Str s = all[i].text;
    if (s.n == 1) v->single[(uint8_t)s.p[0]] = true;
    if (kept && str_eq(all[kept - 1].text, s)) {  // a chain of equals, the first one in the trie
      v->again[all[i].id] = v->again[all[kept - 1].id];
      v->again[all[kept - 1].id] = all[i].id;
    } else {
      all[kept++] = all[i];
    }
    int64_t chars = plain_length(s);
    if (!chars || chars > PLAIN_MOST) continue;
    for (int64_t k = chars; k <= PLAIN_MOST; k++)
      v->plain[k][all[i].id / 32] |= 1u << all[i].id % 32;
  }
  for (int64_t i = 0; i < kept; i++) {
    int64_t chars = plain_length(all[i].text);
    if (!chars || chars > PLAIN_MOST) rest[nrest++] = all[i];
  }
  trie_make(&v->arena, all, kept, &v->all);
  trie_make(&v->arena, rest, nrest, &v->rest);
}

static Str piece_of(const void *ctx, int32_t id, bool *special, bool *end) {
  const Tokenizer *t = ctx;
  *special = tokenizer_is_special(t, id);
  *end = tokenizer_is_end(t, id);
  return tokenizer_piece(t, id);
}

tenon_status grammar_vocab_create(const Tokenizer *t, Diag *d, GrammarVocab **out) {
  return grammar_vocab_of(&(GrammarTokens){tokenizer_size(t), piece_of, t}, d, out);
}

tenon_status grammar_vocab_of(const GrammarTokens *t, Diag *d, GrammarVocab **out) {
  *out = NULL;
  GrammarVocab *v = mem_alloc(sizeof *v);
  if (!v) return fail(d, TENON_ENOMEM, NOWHERE, "no memory for a vocabulary");
  *v = (GrammarVocab){.size = t->n};
  v->words = (v->size + 31) / 32;
  arena_init(&v->arena);
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) make(v, t);
  trap_leave(&trap);
  if (trap.status) {
    grammar_vocab_free(v);
    return trap.status;
  }
  *out = v;
  return TENON_OK;
}

void grammar_vocab_free(GrammarVocab *v) {
  if (!v) return;
  arena_deinit(&v->arena);
  mem_free(v, sizeof *v);
}

int64_t grammar_vocab_words(const GrammarVocab *v) { return v->words; }

int32_t vocab_control(const GrammarVocab *v, Str text) {
  int64_t lo = 0, hi = v->ncontrol;
  while (lo < hi) {
    int64_t mid = (lo + hi) / 2;
    int c = str_cmp(v->control[mid].text, text);
    if (!c) return v->control[mid].id;
    if (c < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return -1;
}
