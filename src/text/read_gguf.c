// read_gguf.c -- the tokenizer of GGUF metadata: byte-level BPE, SentencePiece, WordPiece, unigram.
//
// Roles and flags that the file does not give have llama.cpp's defaults, since files are written
// for it.  Where a model's own tokenizer.json is known to differ (NFC of Qwen2), that is followed.
#include "text/impl.h"

#define WORD_MARK "\xe2\x96\x81"

void tokenizer_gguf_init(TokenizerGguf *g) {
  *g = (TokenizerGguf){.bos = -1, .eos = -1, .eot = -1, .unk = -1, .sep = -1, .pad = -1, .cls = -1};
  g->mask = -1;
  g->add_bos = g->add_eos = g->add_space_prefix = -1;
  g->remove_extra_whitespaces = g->escape_whitespaces = -1;
}

static TokenType type_of(const TokenizerGguf *g, int64_t i) {
  int32_t type = g->type ? g->type[i] : TOKEN_NORMAL;
  return type >= TOKEN_UNDEFINED && type <= TOKEN_BYTE ? (TokenType)type : TOKEN_UNDEFINED;
}

static Str copy(Arena *a, Str s) { return (Str){str_copy(a, s), s.n}; }

// Tokens with what their types say.  `parts`: user-defined tokens are the model's, too.
static tenon_status add_tokens(TokenizerBuild *b, const TokenizerGguf *g, bool parts) {
  for (int64_t i = 0; i < g->n; i++) {
    TokenType type = type_of(g, i);
    Str text = copy(b->arena, g->token[i]);
    uint8_t flags = 0;
    bool added = type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNKNOWN;
    if (!str_is_utf8(text))
      return build_fail(b, TENON_EFORMAT, "token %lld is not UTF-8", (long long)i);
    if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN) flags |= FLAG_SPECIAL;
    if (added) flags |= FLAG_ADDED;
    if (type == TOKEN_UNUSED) flags |= FLAG_UNUSED;
    if (type == TOKEN_NORMAL || type == TOKEN_UNUSED || type == TOKEN_UNDEFINED ||
        (parts && type == TOKEN_USER_DEFINED))
      flags |= FLAG_MODEL;
    TRY(build_token(b, i, text, flags));
    if (!added) continue;
    AddedToken a = {.id = (int32_t)i, .text = text, .special = type != TOKEN_USER_DEFINED};
    vec_push(b->arena, &b->added, a);
  }
  return TENON_OK;
}

static tenon_status set_roles(TokenizerBuild *b, const TokenizerGguf *g) {
  const int64_t id[TOKEN_ROLES] = {
      [TOKEN_BOS] = g->bos, [TOKEN_EOS] = g->eos, [TOKEN_EOT] = g->eot, [TOKEN_UNK] = g->unk,
      [TOKEN_PAD] = g->pad, [TOKEN_SEP] = g->sep, [TOKEN_CLS] = g->cls, [TOKEN_MASK] = g->mask};
  for (int i = 0; i < TOKEN_ROLES; i++) {
    if (id[i] >= g->n)
      return build_fail(b, TENON_EFORMAT, "the special token %lld is not in the vocabulary",
                        (long long)id[i]);
    if (id[i] < 0) continue;
    b->t->role[i] = (int32_t)id[i];
    b->flag.v[id[i]] |= FLAG_ADDED;
  }
  return TENON_OK;
}

static void add_around(TokenizerBuild *b, const TokenizerGguf *g, bool bos, bool eos) {
  int32_t before = b->t->role[TOKEN_BOS], after = b->t->role[TOKEN_EOS];
  if (g->add_bos >= 0) bos = g->add_bos;
  if (g->add_eos >= 0) eos = g->add_eos;
  if (bos && before >= 0) vec_push(b->arena, &b->before, before);
  if (eos && after >= 0) vec_push(b->arena, &b->after, after);
}

// ---- BPE with merges ----
static tenon_status read_merges(TokenizerBuild *b, const TokenizerGguf *g) {
  Merge *merge = arena_array(b->arena, Merge, g->nmerges + 1);
  StrBuf both;
  strbuf_init(&both, b->arena);
  int64_t n = 0;
  for (int64_t i = 0; i < g->nmerges; i++) {
    Str s = g->merge[i];
    const char *space = s.n > 1 ? memchr(s.p + 1, ' ', (size_t)(s.n - 1)) : NULL;
    if (!space)
      return build_fail(b, TENON_EFORMAT, "merge %lld is no pair of tokens", (long long)i);
    Str left = {s.p, space - s.p}, right = {space + 1, s.p + s.n - space - 1};
    both.n = 0;
    strbuf_put(&both, left);
    strbuf_put(&both, right);
    Merge m = {build_find(b, left), build_find(b, right), build_find(b, strbuf_str(&both)),
               (uint32_t)i};
    // Vocabularies that were cut have merges without tokens: they never apply.
    if (m.left >= 0 && m.right >= 0 && m.id >= 0) merge[n++] = m;
  }
  bpe_init(b->t, merge, n);
  return TENON_OK;
}

static tenon_status read_bpe(TokenizerBuild *b, const TokenizerGguf *g) {
  bool bos;
  b->byte_level = b->t->bpe.bytes = true;
  TRY(build_pre_named(b, g->pre.n ? g->pre : STR("default"), &bos));
  TRY(add_tokens(b, g, true));
  TRY(set_roles(b, g));
  build_tokens_done(b);
  TRY(read_merges(b, g));
  add_around(b, g, bos, false);
  return build_decode(b, (DecodeStep){.kind = DEC_BYTES});
}

// Gemma 4 and its like: merges over characters, spaces as marks.
static tenon_status read_marked_bpe(TokenizerBuild *b, const TokenizerGguf *g) {
  b->t->byte_fallback = true;
  TRY(build_norm(b, (NormStep){.kind = NORM_SPACE_TO, .text = STR(WORD_MARK)}));
  TRY(build_split(b, STR("[^\\n]+|[\\n]+"), SPLIT_ISOLATED, false));
  TRY(add_tokens(b, g, true));
  TRY(set_roles(b, g));
  build_tokens_done(b);
  TRY(read_merges(b, g));
  bpe_find_cut(b->t, STR(WORD_MARK));
  add_around(b, g, true, false);
  b->t->byte_each = true;
  TRY(build_decode(b, (DecodeStep){.kind = DEC_FALLBACK}));
  return build_decode(b, (DecodeStep){.kind = DEC_REPLACE, .from = STR(WORD_MARK), .to = STR(" ")});
}

// ---- SentencePiece ----
static int rank_compare(const float *score, int32_t a, int32_t b) {
  return score[a] > score[b] ? -1 : score[a] < score[b] ? 1 : (a > b) - (a < b);
}

// Ranks by score, the highest first; equal scores have one rank.
static uint32_t *ranks_of_scores(const float *score, int64_t n, Arena *a) {
  int32_t *v = arena_array(a, int32_t, n + 1), *to = arena_array(a, int32_t, n + 1);
  uint32_t *rank = arena_array(a, uint32_t, n + 1);
  for (int64_t i = 0; i < n; i++) v[i] = (int32_t)i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t l = i, l_end = MIN(i + run, n), r = l_end, r_end = MIN(i + 2 * run, n), k = i;
      while (l < l_end || r < r_end)
        to[k++] =
            r == r_end || (l < l_end && rank_compare(score, v[l], v[r]) <= 0) ? v[l++] : v[r++];
    }
    int32_t *swap = v;
    v = to;
    to = swap;
  }
  for (int64_t i = 0; i < n; i++)
    rank[v[i]] = i && score[v[i]] == score[v[i - 1]] ? rank[v[i - 1]] : (uint32_t)i;
  return rank;
}

static tenon_status sentencepiece_steps(TokenizerBuild *b, Str charsmap, bool prefix,
                                        bool squeeze) {
  tenon_status status;
  NormStep map = {.kind = NORM_CHARSMAP,
                  .map = charsmap_read(charsmap, b->arena, b->diag, &status)};
  TRY(status);
  if (map.map) TRY(build_norm(b, map));
  if (squeeze) TRY(build_norm(b, (NormStep){.kind = NORM_SQUEEZE}));
  if (prefix) TRY(build_norm(b, (NormStep){.kind = NORM_PREPEND, .text = STR(" ")}));
  TRY(build_norm(b, (NormStep){.kind = NORM_SPACE_TO, .text = STR(WORD_MARK)}));
  b->t->byte_each = true;
  if (prefix) {
    b->t->decode = DECODE_STRIP;
    b->t->strip = 1;
  }
  TRY(build_decode(b, (DecodeStep){.kind = DEC_FALLBACK}));
  return build_decode(b, (DecodeStep){.kind = DEC_REPLACE, .from = STR(WORD_MARK), .to = STR(" ")});
}

// Tokens of the model as SentencePiece has them: BPE by scores.
static tenon_status sentencepiece_bpe(TokenizerBuild *b, const float *score) {
  Tokenizer *t = b->t;
  t->kind = MODEL_BPE;
  bpe_init_ranks(t, ranks_of_scores(score, t->size, b->arena), NULL);
  bpe_find_cut(t, STR(WORD_MARK));
  return TENON_OK;
}

static tenon_status sentencepiece_unigram(TokenizerBuild *b, const float *score) {
  Tokenizer *t = b->t;
  double least = 0, most = 0;
  bool any = false;
  t->kind = MODEL_UNIGRAM;
  for (int64_t i = 0; i < t->size; i++) {
    if (!t->model[i].p || t->flag[i] & (FLAG_ADDED | FLAG_UNUSED)) continue;
    double s = (double)score[i];
    if (s != s) return build_fail(b, TENON_EFORMAT, "the score of token %lld is NaN", (long long)i);
    least = any ? MIN(least, s) : s;
    most = any ? MAX(most, s) : s;
    any = true;
  }
  t->unigram =
      (Unigram){.score = score, .unk_score = least - 10, .user_score = most, .single = true};
  trie_init(&t->unigram.trie, t->model, t->size, b->arena);
  return TENON_OK;
}

static const float *copy_scores(TokenizerBuild *b, const TokenizerGguf *g) {
  float *score = arena_array(b->arena, float, g->n + 1);
  if (g->score) memcpy(score, g->score, (size_t)g->n * sizeof *score);
  for (int64_t i = 0; i < g->n; i++)
    if (score[i] != score[i]) score[i] = -1e30f;
  return score;
}

static bool has_bytes(const TokenizerGguf *g) {
  for (int64_t i = 0; i < g->n; i++)
    if (type_of(g, i) == TOKEN_BYTE) return true;
  return false;
}

static tenon_status read_sentence(TokenizerBuild *b, const TokenizerGguf *g, bool unigram) {
  Tokenizer *t = b->t;
  bool prefix = g->add_space_prefix < 0 || g->add_space_prefix;
  TRY(sentencepiece_steps(b, g->charsmap, prefix, g->remove_extra_whitespaces == 1));
  TRY(add_tokens(b, g, true));
  TRY(set_roles(b, g));
  t->byte_fallback = has_bytes(g);
  t->fuse_unk = true;
  build_tokens_done(b);
  const float *score = copy_scores(b, g);
  TRY(unigram ? sentencepiece_unigram(b, score) : sentencepiece_bpe(b, score));
  t->unk = t->role[TOKEN_UNK];
  add_around(b, g, !unigram, unigram);
  return TENON_OK;
}

tenon_status sentencepiece_load(const TokenizerGguf *g, const char *file, bool unigram, Arena *a,
                                Diag *d, Tokenizer **out) {
  TokenizerBuild b;
  build_init(&b, file, a, d);
  TRY(read_sentence(&b, g, unigram));
  // The user's symbols are found in normalised text, and the prefix is for the whole text.
  b.t->norm_whole = true;
  for (int64_t i = 0; i < b.added.n; i++) b.added.v[i].normalised = !b.added.v[i].special;
  return build_finish(&b, unigram ? "SentencePiece unigram" : "SentencePiece BPE", out);
}

// ---- WordPiece ----
// The converter writes "\u2581word" for words and "part" for "##part".
static tenon_status read_bert(TokenizerBuild *b, const TokenizerGguf *g) {
  Tokenizer *t = b->t;
  t->kind = MODEL_WORDPIECE;
  t->decode = DECODE_WORDS;
  t->clean_up = true;
  t->word_prefix = STR("##");
  TokenizerGguf own = *g;
  Str *token = arena_array(b->arena, Str, g->n + 1);
  for (int64_t i = 0; i < g->n; i++) {
    Str s = g->token[i];
    token[i] = s;
    if (type_of(g, i) != TOKEN_NORMAL) continue;
    bool word = s.n >= 3 && !memcmp(s.p, WORD_MARK, 3);
    if (word) token[i] = (Str){s.p + 3, s.n - 3};
    if (!word) token[i] = str_of(str_printf(b->arena, "##%.*s", (int)MIN(s.n, INT32_MAX), s.p));
  }
  own.token = token;
  TRY(build_norm(b, (NormStep){.kind = NORM_BERT_CLEAN}));
  TRY(build_norm(b, (NormStep){.kind = NORM_BERT_CJK}));
  TRY(build_norm(b, (NormStep){.kind = NORM_FORM, .form = UNICODE_NFD}));
  TRY(build_norm(b, (NormStep){.kind = NORM_STRIP_ACCENTS, .left = true}));
  TRY(build_norm(b, (NormStep){.kind = NORM_LOWER}));
  TRY(build_split(b, STR("\\s"), SPLIT_REMOVED, false));
  TRY(build_split(b, STR("[!-/:-@\\[-`{-~\\p{P}]"), SPLIT_ISOLATED, false));
  TRY(add_tokens(b, &own, false));
  TRY(set_roles(b, g));
  build_tokens_done(b);
  tokenizer_guess_roles(t);
  t->unk = t->role[TOKEN_UNK];
  int32_t first = t->role[TOKEN_CLS] >= 0 ? t->role[TOKEN_CLS] : t->role[TOKEN_BOS];
  int32_t last = t->role[TOKEN_SEP] >= 0 ? t->role[TOKEN_SEP] : t->role[TOKEN_EOS];
  if (first >= 0 && g->add_bos) vec_push(b->arena, &b->before, first);
  if (last >= 0 && g->add_eos) {
    vec_push(b->arena, &b->after, last);
    vec_push(b->arena, &b->between, last);
    t->pairs = t->pair_types = true;
  }
  return build_decode(b, (DecodeStep){.kind = DEC_WORDS, .from = STR("##")});
}

tenon_status tokenizer_load_gguf(const TokenizerGguf *g, Arena *a, Diag *d, Tokenizer **out) {
  TokenizerBuild b;
  *out = NULL;
  build_init(&b, d->base.file, a, d);
  const char *kind = "byte-level BPE";
  if (!g->n || !g->token)
    return build_fail(&b, TENON_EFORMAT, "the file has no tokens (tokenizer.ggml.tokens)");
  if (str_is(g->model, "gpt2") && !str_is(g->pre, "gemma4") && !str_is(g->pre, "sarvam-moe")) {
    TRY(read_bpe(&b, g));
  } else if (str_is(g->model, "gpt2") || str_is(g->model, "gemma4")) {
    kind = "BPE";
    TRY(read_marked_bpe(&b, g));
  } else if (str_is(g->model, "llama")) {
    kind = "SentencePiece BPE";
    TRY(read_sentence(&b, g, false));
  } else if (str_is(g->model, "t5")) {
    kind = "SentencePiece unigram";
    TRY(read_sentence(&b, g, true));
  } else if (str_is(g->model, "bert")) {
    kind = "WordPiece";
    TRY(read_bert(&b, g));
  } else {
    return build_fail(&b, TENON_EUNSUPPORTED, "the tokenizer model '%.*s' is not supported",
                      STR_ARG(g->model));
  }
  TRY(build_finish(&b, kind, out));
  tokenizer_guess_roles(*out);
  return TENON_OK;
}
