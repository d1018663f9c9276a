// read_json.c -- tokenizer.json of Hugging Face's tokenizers: vocabulary, model, added tokens.
//
// Steps are in read_json_steps.c.  Every object's `type` is known or refused by name.  Keys that
// change what a text becomes are read; those of truncation and padding do not concern one text.
#include "text/read_json.h"

const Json *json_of(const Json *j, const char *key, JsonKind kind) {
  const Json *v = json_get(j, key);
  return v && v->kind == kind ? v : NULL;
}
bool json_flag(const Json *j, const char *key, bool absent) {
  const Json *v = json_of(j, key, JSON_BOOL);
  return v ? v->b : absent;
}
int64_t json_number_of(const Json *j, const char *key, int64_t absent) {
  const Json *v = json_of(j, key, JSON_INT);
  return v ? v->i : absent;
}
Str json_text(const Json *j, const char *key) {
  const Json *v = json_of(j, key, JSON_STRING);
  return v ? v->s : (Str){0};
}

// ---- vocabulary ----
static tenon_status read_vocab_object(TokenizerBuild *b, const Json *vocab) {
  for (int64_t i = 0; i < vocab->n; i++) {
    if (vocab->item[i].kind != JSON_INT)
      return build_fail(b, TENON_EFORMAT, "the id of token '%.*s' is no integer",
                        STR_ARG(vocab->key[i]));
    int64_t id = vocab->item[i].i;
    if (id >= 0 && id < b->text.n && b->text.v[id].p)
      return build_fail(b, TENON_EFORMAT, "the id %lld is given twice", (long long)id);
    TRY(build_token(b, id, vocab->key[i], FLAG_MODEL));
  }
  return TENON_OK;
}

// Unigram: a list of [token, score].
static tenon_status read_vocab_list(TokenizerBuild *b, const Json *vocab) {
  float *score = arena_array(b->arena, float, vocab->n + 1);
  double least = 0;
  for (int64_t i = 0; i < vocab->n; i++) {
    const Json *pair = &vocab->item[i];
    if (pair->kind != JSON_ARRAY || pair->n != 2 || pair->item[0].kind != JSON_STRING ||
        (pair->item[1].kind != JSON_INT && pair->item[1].kind != JSON_FLOAT))
      return build_fail(b, TENON_EFORMAT, "item %lld of the vocabulary is no token with its score",
                        (long long)i);
    TRY(build_token(b, i, pair->item[0].s, FLAG_MODEL));
    score[i] = (float)pair->item[1].f;
    if (!i || pair->item[1].f < least) least = pair->item[1].f;
  }
  b->t->unigram.score = score;
  b->t->unigram.unk_score = least - 10;
  return TENON_OK;
}

static tenon_status read_added(TokenizerBuild *b, const Json *root) {
  const Json *list = json_of(root, "added_tokens", JSON_ARRAY);
  for (int64_t i = 0; list && i < list->n; i++) {
    const Json *j = &list->item[i];
    Str text = json_text(j, "content");
    int64_t id = json_number_of(j, "id", -1);
    bool special = json_flag(j, "special", false);
    if (!text.p || id < 0)
      return build_fail(b, TENON_EFORMAT, "added token %lld has no content or no id", (long long)i);
    bool had = id < b->text.n && b->text.v[id].p;
    if (had && !str_eq(b->text.v[id], text)) b->flag.v[id] &= (uint8_t)~FLAG_MODEL;
    TRY(build_token(b, id, text, (uint8_t)(FLAG_ADDED | (special ? FLAG_SPECIAL : 0))));
    AddedToken a = {.id = (int32_t)id,
                    .text = text,
                    .special = special,
                    .single_word = json_flag(j, "single_word", false),
                    .lstrip = json_flag(j, "lstrip", false),
                    .rstrip = json_flag(j, "rstrip", false),
                    .normalised = json_flag(j, "normalized", !special)};
    vec_push(b->arena, &b->added, a);
  }
  return TENON_OK;
}

// ---- models ----
// "left right", or ["left", "right"].
static bool merge_parts(const Json *j, Str *left, Str *right) {
  if (j->kind == JSON_ARRAY) {
    if (j->n != 2 || j->item[0].kind != JSON_STRING || j->item[1].kind != JSON_STRING) return false;
    *left = j->item[0].s;
    *right = j->item[1].s;
    return true;
  }
  const char *space = j->kind == JSON_STRING ? memchr(j->s.p, ' ', (size_t)j->s.n) : NULL;
  if (!space) return false;
  *left = (Str){j->s.p, space - j->s.p};
  *right = (Str){space + 1, j->s.p + j->s.n - space - 1};
  return true;
}

static tenon_status read_merges(TokenizerBuild *b, const Json *model) {
  Tokenizer *t = b->t;
  const Json *list = json_of(model, "merges", JSON_ARRAY);
  if (!list) return build_fail(b, TENON_EFORMAT, "a BPE model without merges");
  Merge *merge = arena_array(b->arena, Merge, list->n + 1);
  StrBuf both;
  strbuf_init(&both, b->arena);
  for (int64_t i = 0; i < list->n; i++) {
    Str left, right;
    if (!merge_parts(&list->item[i], &left, &right))
      return build_fail(b, TENON_EFORMAT, "merge %lld is no pair of tokens", (long long)i);
    both.n = 0;
    strbuf_put(&both, left);
    bool continues = t->bpe.prefix.n && right.n >= t->bpe.prefix.n;
    int64_t skip = continues ? t->bpe.prefix.n : 0;
    strbuf_put(&both, (Str){right.p + skip, right.n - skip});
    merge[i] = (Merge){build_find(b, left), build_find(b, right), build_find(b, strbuf_str(&both)),
                       (uint32_t)i};
    if (merge[i].left < 0 || merge[i].right < 0 || merge[i].id < 0)
      return build_fail(b, TENON_EFORMAT,
                        "merge %lld, '%.*s' and '%.*s', has a part or a result that is no token",
                        (long long)i, STR_ARG(left), STR_ARG(right));
  }
  bpe_init(t, merge, list->n);
  return TENON_OK;
}

static tenon_status read_unk(TokenizerBuild *b, const Json *model) {
  Str unk = json_text(model, "unk_token");
  if (!unk.p) return TENON_OK;
  b->t->unk = build_find(b, unk);
  return TENON_OK;
}

static tenon_status read_bpe(TokenizerBuild *b, const Json *model) {
  Tokenizer *t = b->t;
  const Json *dropout = json_get(model, "dropout");
  if (dropout && dropout->kind != JSON_NULL && dropout->f != 0)
    return build_fail(b, TENON_EUNSUPPORTED, "BPE dropout makes results random");
  t->kind = MODEL_BPE;
  t->byte_fallback = json_flag(model, "byte_fallback", false);
  t->fuse_unk = json_flag(model, "fuse_unk", false);
  t->bpe.ignore_merges = json_flag(model, "ignore_merges", false);
  t->bpe.bytes = b->byte_level;
  t->bpe.prefix = json_text(model, "continuing_subword_prefix");
  t->bpe.suffix = json_text(model, "end_of_word_suffix");
  if (MAX(t->bpe.prefix.n, t->bpe.suffix.n) > LIMIT_TOKENIZER_ADDED)
    return build_fail(b, TENON_EUNSUPPORTED, "the prefix or suffix of BPE is too long");
  TRY(read_unk(b, model));
  TRY(read_merges(b, model));
  if (!b->pre.n) bpe_find_cut(t, STR("\xe2\x96\x81"));
  return TENON_OK;
}

static tenon_status read_unigram(TokenizerBuild *b, const Json *model) {
  Tokenizer *t = b->t;
  t->kind = MODEL_UNIGRAM;
  t->byte_fallback = json_flag(model, "byte_fallback", false);
  t->fuse_unk = true;
  t->unk = (int32_t)MIN(json_number_of(model, "unk_id", -1), INT32_MAX);
  t->unk_is_error = true;
  if (t->unk >= t->size) return build_fail(b, TENON_EFORMAT, "unk_id is not in the vocabulary");
  trie_init(&t->unigram.trie, t->model, t->size, b->arena);
  return TENON_OK;
}

static tenon_status read_wordpiece(TokenizerBuild *b, const Json *model, bool pieces) {
  Tokenizer *t = b->t;
  t->kind = pieces ? MODEL_WORDPIECE : MODEL_WORDLEVEL;
  t->word_prefix = json_text(model, "continuing_subword_prefix");
  t->word_chars = json_number_of(model, "max_input_chars_per_word", 100);
  if (t->word_chars < 0 || t->word_chars > LIMIT_TOKENIZER_ADDED)
    return build_fail(b, TENON_EUNSUPPORTED, "max_input_chars_per_word is over %d",
                      LIMIT_TOKENIZER_ADDED);
  return read_unk(b, model);
}

// ---- the whole file ----
static tenon_status read_model(TokenizerBuild *b, const Json *root, const char **out_kind) {
  const Json *model = json_of(root, "model", JSON_OBJECT);
  const Json *vocab = json_get(model, "vocab");
  if (!vocab) return build_fail(b, TENON_EFORMAT, "there is no model with a vocabulary");
  Str type = json_text(model, "type");
  if (!type.p)
    type = json_get(model, "merges")   ? STR("BPE")
           : vocab->kind == JSON_ARRAY ? STR("Unigram")
                                       : STR("WordPiece");
  bool list = str_is(type, "Unigram");
  if (vocab->kind != (list ? JSON_ARRAY : JSON_OBJECT))
    return build_fail(b, TENON_EFORMAT, "the vocabulary is no %s", list ? "array" : "object");
  TRY(list ? read_vocab_list(b, vocab) : read_vocab_object(b, vocab));
  TRY(read_added(b, root));
  build_tokens_done(b);
  *out_kind = "Unigram";
  if (list) return read_unigram(b, model);
  *out_kind = b->byte_level ? "byte-level BPE" : "BPE";
  if (str_is(type, "BPE")) return read_bpe(b, model);
  *out_kind = "WordPiece";
  if (str_is(type, "WordPiece")) return read_wordpiece(b, model, true);
  *out_kind = "word level";
  if (str_is(type, "WordLevel")) return read_wordpiece(b, model, false);
  return build_fail(b, TENON_EUNSUPPORTED, "the model '%.*s' is not supported", STR_ARG(type));
}

tenon_status read_json(Str bytes, const char *file, Arena *a, Diag *d, Tokenizer **out) {
  TokenizerBuild b;
  build_init(&b, file, a, d);
  Json *root = arena_new(a, Json);
  TRY(json_parse(a, (Str){arena_dup(a, bytes.p, bytes.n), bytes.n}, d, root));
  TRY(read_json_steps(&b, root));
  const char *kind = NULL;
  TRY(read_model(&b, root, &kind));
  TRY(read_json_post(&b, root));
  return build_finish(&b, kind, out);
}
