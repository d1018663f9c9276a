// read_tiktoken.c -- rank files: OpenAI's `.tiktoken` and Mistral's Tekken JSON.
//
// A token's rank is its id and the order of its merge.  A `.tiktoken` file has neither a pattern
// nor special tokens: those of published files are known by the number of ranks.
#include "text/read_json.h"

enum { SPECIALS = 40 };

typedef struct Known {
  int64_t ranks;
  const char *name, *pre;
  int64_t first;  // id of the first special token
  const char *special[SPECIALS];
} Known;
// clang-format off
static const Known known[] = {
  {50256, "gpt2", "gpt2", 50256, {"<|endoftext|>"}},
  {50257, "whisper", "gpt2", 50257, {"<|endoftext|>", "<|startoftranscript|>"}},
  {50280, "p50k", "gpt2", 50256, {"<|endoftext|>"}},
  {100256, "cl100k", "cl100k", 100257,
   {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "", "", "", "", "", "", "", "", "", "",
    "", "", "", "", "", "<|endofprompt|>"}},
  {199998, "o200k", "o200k", 199999,
   {"<|endoftext|>", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "<|endofprompt|>"}},
  {128000, "llama3", "llama3", 128000,
   {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
    "<|reserved_special_token_2|>", "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|reserved_special_token_4|>", "<|eot_id|>"}},
  {151643, "qwen2", "qwen2", 151643, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}},
  {248044, "qwen35", "qwen35", 248044,
   {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>",
    "<think>", "</think>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>",
    "<tts_text_bos_single>", "<|audio_pad|>"}},
};
// The first special tokens of Tekken files that do not list theirs.
static const char *const tekken_special[] = {
  "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
  "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
  "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"};
// clang-format on

static tenon_status add_special(TokenizerBuild *b, int64_t id, Str text) {
  TRY(build_token(b, id, text, FLAG_SPECIAL | FLAG_ADDED));
  AddedToken a = {.id = (int32_t)id, .text = text, .special = true};
  vec_push(b->arena, &b->added, a);
  return TENON_OK;
}

// Merges of all that was added so far, by id.
static void init_ranks(TokenizerBuild *b) {
  Tokenizer *t = b->t;
  build_tokens_done(b);
  uint32_t *rank = arena_array(b->arena, uint32_t, t->size + 1);
  for (int64_t i = 0; i < t->size; i++) rank[i] = (uint32_t)i;
  bpe_init_ranks(t, rank, NULL);
}

// ---- .tiktoken ----
// "base64 rank" in each line.
static tenon_status read_line(TokenizerBuild *b, Str line, int64_t number) {
  const char *space = memchr(line.p, ' ', (size_t)line.n);
  Str bytes;
  int64_t rank;
  if (!space || !str_to_i64((Str){space + 1, line.p + line.n - space - 1}, &rank) ||
      !base64_decode((Str){line.p, space - line.p}, b->arena, &bytes))
    return build_fail(b, TENON_EFORMAT, "line %lld is no base64 token with its rank",
                      (long long)number);
  if (rank >= 0 && rank < b->text.n && b->text.v[rank].p)
    return build_fail(b, TENON_EFORMAT, "line %lld: rank %lld is there twice", (long long)number,
                      (long long)rank);
  return build_token(b, rank, bytes, FLAG_MODEL);
}

static tenon_status read_lines(TokenizerBuild *b, Str s) {
  for (int64_t number = 1; s.n; number++) {
    const char *end = memchr(s.p, '\n', (size_t)s.n);
    Str line = {s.p, end ? end - s.p : s.n};
    s.p += line.n + (end != NULL);
    s.n -= line.n + (end != NULL);
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    if (line.n) TRY(read_line(b, line, number));
  }
  return TENON_OK;
}

static tenon_status add_known(TokenizerBuild *b, const Known *k) {
  for (int64_t i = 0; i < SPECIALS && k->special[i]; i++)
    if (*k->special[i]) TRY(add_special(b, k->first + i, str_of(k->special[i])));
  int64_t at = k->first + 3;
  if (!strcmp(k->name, "qwen2"))
    for (int i = 0; i < 205; i++)
      TRY(add_special(b, at++, str_of(str_printf(b->arena, "<|extra_%d|>", i))));
  at = k->first + 10;
  if (!strcmp(k->name, "llama3"))
    for (int i = 5; i < 251; i++)
      TRY(add_special(b, at++, str_of(str_printf(b->arena, "<|reserved_special_token_%d|>", i))));
  return TENON_OK;
}

tenon_status read_tiktoken(Str bytes, const char *file, const char *pre, Arena *a, Diag *d,
                           Tokenizer **out) {
  TokenizerBuild b;
  build_init(&b, file, a, d);
  TRY(read_lines(&b, bytes));
  const Known *k = NULL;
  for (int64_t i = 0; i < ARRAY_LEN(known); i++)
    if (known[i].ranks == b.ntokens && (!pre || !strcmp(pre, known[i].pre))) k = &known[i];
  if (!k && !pre)
    return build_fail(&b, TENON_EUNSUPPORTED,
                      "a file of %lld ranks is none that is known; name its pre-tokenizer",
                      (long long)b.ntokens);
  bool bos;
  TRY(build_pre_named(&b, str_of(pre ? pre : k->pre), &bos));
  if (k) TRY(add_known(&b, k));
  b.t->bpe.bytes = b.t->bpe.ignore_merges = true;
  init_ranks(&b);
  int32_t first = build_find(&b, STR("<|begin_of_text|>"));
  if (first >= 0) vec_push(a, &b.before, first);
  return build_finish(&b, "byte-level BPE", out);
}

// ---- Tekken ----
static tenon_status read_tekken_vocab(TokenizerBuild *b, const Json *root, int64_t specials,
                                      int64_t size) {
  const Json *vocab = json_of(root, "vocab", JSON_ARRAY);
  if (!vocab) return build_fail(b, TENON_EFORMAT, "there is no vocabulary");
  for (int64_t i = 0; i < vocab->n; i++) {
    const Json *j = &vocab->item[i];
    int64_t rank = json_number_of(j, "rank", -1);
    Str text = json_text(j, "token_bytes"), bytes;
    if (rank < 0 || !text.p || !base64_decode(text, b->arena, &bytes))
      return build_fail(b, TENON_EFORMAT, "item %lld of the vocabulary is no token", (long long)i);
    if (rank >= size - specials) continue;  // the model does not use it
    if (rank + specials < b->text.n && b->text.v[rank + specials].p)
      return build_fail(b, TENON_EFORMAT, "the rank %lld is there twice", (long long)rank);
    TRY(build_token(b, rank + specials, bytes, FLAG_MODEL));
  }
  return TENON_OK;
}

static tenon_status read_tekken_specials(TokenizerBuild *b, const Json *root, int64_t specials) {
  const Json *list = json_of(root, "special_tokens", JSON_ARRAY);
  for (int64_t i = 0; i < specials; i++) {
    const char *name = NULL;
    if (!list && i < ARRAY_LEN(tekken_special)) name = tekken_special[i];
    if (!name) name = str_printf(b->arena, "<SPECIAL_%lld>", (long long)i);
    TRY(build_token(b, i, str_of(name), FLAG_SPECIAL | FLAG_ADDED));
  }
  for (int64_t i = 0; list && i < list->n; i++) {
    const Json *j = &list->item[i];
    int64_t rank = json_number_of(j, "rank", -1);
    Str text = json_text(j, "token_str");
    if (rank < 0 || rank >= specials || !text.p)
      return build_fail(b, TENON_EFORMAT, "special token %lld has no rank or no text",
                        (long long)i);
    TRY(build_token(b, rank, text, FLAG_SPECIAL | FLAG_ADDED));
  }
  for (int64_t i = 0; i < specials; i++) {
    AddedToken a = {.id = (int32_t)i, .text = b->text.v[i], .special = true};
    vec_push(b->arena, &b->added, a);
  }
  return TENON_OK;
}

tenon_status read_tekken(Str bytes, const char *file, Arena *a, Diag *d, Tokenizer **out) {
  TokenizerBuild b;
  Json root;
  build_init(&b, file, a, d);
  TRY(json_parse(a, (Str){arena_dup(a, bytes.p, bytes.n), bytes.n}, d, &root));
  const Json *config = json_of(&root, "config", JSON_OBJECT);
  int64_t specials = json_number_of(config, "default_num_special_tokens", 0);
  int64_t size = json_number_of(config, "default_vocab_size", LIMIT_TOKENIZER_VOCABULARY);
  Str pattern = json_text(config, "pattern");
  if (!pattern.p || specials < 0 || specials > 1 << 16 || size < 0 ||
      size > LIMIT_TOKENIZER_VOCABULARY)
    return build_fail(&b, TENON_EFORMAT, "no pattern, or sizes that cannot be");
  TRY(read_tekken_specials(&b, &root, specials));
  TRY(read_tekken_vocab(&b, &root, specials, size));
  TRY(build_split(&b, pattern, SPLIT_ISOLATED, false));
  b.t->bpe.bytes = b.t->bpe.ignore_merges = true;
  init_ranks(&b);
  int32_t first = build_find(&b, STR("<s>"));
  if (first >= 0) vec_push(a, &b.before, first);
  return build_finish(&b, "Tekken byte-level BPE", out);
}
