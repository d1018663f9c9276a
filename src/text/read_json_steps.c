// read_json_steps.c -- normalizer, pre-tokenizer, post-processor and decoder of tokenizer.json.
//
// Pre-tokenizers that are patterns in disguise (Whitespace, Digits, Punctuation, BertPreTokenizer)
// become splits at regular expressions.  What is not there is refused by its type's name.
#include "text/read_json.h"

#define WORD_MARK "\xe2\x96\x81"

static tenon_status unknown(TokenizerBuild *b, const char *what, Str type) {
  return build_fail(b, TENON_EUNSUPPORTED, "the %s '%.*s' is not supported", what, STR_ARG(type));
}

typedef tenon_status StepFn(TokenizerBuild *b, const Json *j, Str type);

// A step, or those of a sequence, whose list has the name `key`.  Sequences within sequences are
// bounded by JSON's own depth.
static tenon_status each_step(TokenizerBuild *b, const Json *j, const char *key, StepFn *fn) {
  if (!j || j->kind == JSON_NULL) return TENON_OK;
  Str type = json_text(j, "type");
  if (!type.p) return build_fail(b, TENON_EFORMAT, "a step of %s has no type", key);
  if (!str_is(type, "Sequence")) return fn(b, j, type);
  const Json *list = json_of(j, key, JSON_ARRAY);
  for (int64_t i = 0; list && i < list->n; i++) TRY(each_step(b, &list->item[i], key, fn));
  return TENON_OK;
}

// {"String": "x"} or {"Regex": "x"}: as a regular expression.
static tenon_status pattern_of(TokenizerBuild *b, const Json *j, Str *out) {
  const Json *p = json_get(j, "pattern");
  Str regex = json_text(p, "Regex"), text = json_text(p, "String");
  if (regex.p) return *out = regex, TENON_OK;
  if (!text.p) return build_fail(b, TENON_EFORMAT, "a pattern that is no String and no Regex");
  StrBuf s;
  strbuf_init(&s, b->arena);
  for (int64_t i = 0; i < text.n;) {
    int n;
    strbuf_printf(&s, "\\x{%x}", utf8_get((const uint8_t *)text.p + i, &n));
    i += n;
  }
  *out = (Str){strbuf_text(&s), s.n};
  return TENON_OK;
}

// ---- normalizers ----
static tenon_status read_replace(TokenizerBuild *b, const Json *j) {
  NormStep s = {.kind = NORM_REPLACE, .text = json_text(j, "content")};
  if (str_is(json_text(json_get(j, "pattern"), "String"), " ")) {
    s.kind = NORM_SPACE_TO;
    return build_norm(b, s);
  }
  Str pattern;
  TRY(pattern_of(b, j, &pattern));
  if (!pattern.n) return build_fail(b, TENON_EUNSUPPORTED, "a Replace of nothing");
  TRY(build_regex(b, pattern, &s.regex));
  return build_norm(b, s);
}

static tenon_status read_bert_normalizer(TokenizerBuild *b, const Json *j) {
  bool lower = json_flag(j, "lowercase", true);
  bool accents = json_flag(j, "strip_accents", lower);  // null: as lowercase
  if (json_flag(j, "clean_text", true)) TRY(build_norm(b, (NormStep){.kind = NORM_BERT_CLEAN}));
  if (json_flag(j, "handle_chinese_chars", true))
    TRY(build_norm(b, (NormStep){.kind = NORM_BERT_CJK}));
  if (accents) {
    TRY(build_norm(b, (NormStep){.kind = NORM_FORM, .form = UNICODE_NFD}));
    TRY(build_norm(b, (NormStep){.kind = NORM_STRIP_ACCENTS, .left = true}));
  }
  return lower ? build_norm(b, (NormStep){.kind = NORM_LOWER}) : TENON_OK;
}

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(Str s, Arena *a, Str *out) {
  while (s.n && s.p[s.n - 1] == '=') s.n--;
  char *to = arena_alloc(a, s.n / 4 * 3 + 4);
  uint32_t bits = 0;
  int have = 0;
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) {
    int digit = base64_digit(s.p[i]);
    if (digit < 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    to[n++] = (char)(bits >> have);
  }
  *out = (Str){to, n};
  return have < 6;
}

static tenon_status read_charsmap(TokenizerBuild *b, const Json *j) {
  Str text = json_text(j, "precompiled_charsmap"), bytes;
  if (!base64_decode(text, b->arena, &bytes))
    return build_fail(b, TENON_EFORMAT, "precompiled_charsmap is no base64");
  tenon_status status;
  NormStep s = {.kind = NORM_CHARSMAP, .map = charsmap_read(bytes, b->arena, b->diag, &status)};
  TRY(status);
  return s.map ? build_norm(b, s) : TENON_OK;
}

static tenon_status read_normalizer(TokenizerBuild *b, const Json *j, Str type) {
  static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
  for (int i = 0; i < 4; i++)
    if (str_is(type, forms[i]))
      return build_norm(b, (NormStep){.kind = NORM_FORM, .form = (UnicodeForm)i});
  if (str_is(type, "Lowercase")) return build_norm(b, (NormStep){.kind = NORM_LOWER});
  if (str_is(type, "StripAccents")) return build_norm(b, (NormStep){.kind = NORM_STRIP_ACCENTS});
  if (str_is(type, "Strip"))
    return build_norm(b, (NormStep){.kind = NORM_STRIP,
                                    .left = json_flag(j, "strip_left", true),
                                    .right = json_flag(j, "strip_right", true)});
  if (str_is(type, "Prepend"))
    return build_norm(b, (NormStep){.kind = NORM_PREPEND, .text = json_text(j, "prepend")});
  if (str_is(type, "Replace")) return read_replace(b, j);
  if (str_is(type, "BertNormalizer")) return read_bert_normalizer(b, j);
  if (str_is(type, "Nmt")) return build_norm(b, (NormStep){.kind = NORM_NMT});
  if (str_is(type, "Precompiled")) return read_charsmap(b, j);
  if (str_is(type, "ByteLevel")) {
    b->byte_level = b->t->unmap = true;
    return build_norm(b, (NormStep){.kind = NORM_BYTES});
  }
  return unknown(b, "normalizer", type);
}

// ---- pre-tokenizers ----
static tenon_status behaviour_of(TokenizerBuild *b, const Json *j, SplitBehaviour *out) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  Str s = json_text(j, "behavior");
  *out = SPLIT_ISOLATED;
  for (int i = 0; i < 5; i++)
    if (str_is(s, names[i])) return *out = (SplitBehaviour)i, TENON_OK;
  return s.p ? unknown(b, "behavior", s) : TENON_OK;
}

static tenon_status read_split(TokenizerBuild *b, const Json *j) {
  SplitBehaviour how;
  Str pattern;
  TRY(behaviour_of(b, j, &how));
  TRY(pattern_of(b, j, &pattern));
  return build_split(b, pattern, how, json_flag(j, "invert", false));
}

static tenon_status read_byte_level(TokenizerBuild *b, const Json *j) {
  b->byte_level = true;
  if (json_flag(j, "add_prefix_space", true))
    TRY(build_pre(b, (PreStep){.kind = PRE_PREFIX_SPACE}));
  if (json_flag(j, "use_regex", true))
    TRY(build_split(b, build_gpt2_pattern(), SPLIT_ISOLATED, false));
  return build_pre(b, (PreStep){.kind = PRE_BYTES});
}

static PrependScheme scheme_of(const Json *j) {
  Str s = json_text(j, "prepend_scheme");
  if (!s.p) return json_flag(j, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
  return str_is(s, "always") ? PREPEND_ALWAYS : str_is(s, "first") ? PREPEND_FIRST : PREPEND_NEVER;
}

static tenon_status read_metaspace(TokenizerBuild *b, const Json *j) {
  Str mark = json_text(j, "replacement");
  if (!mark.n) mark = STR(WORD_MARK);
  return build_pre(b, (PreStep){.kind = PRE_METASPACE,
                                .text = mark,
                                .scheme = scheme_of(j),
                                .split = json_flag(j, "split", true)});
}

static tenon_status read_pretokenizer(TokenizerBuild *b, const Json *j, Str type) {
  static const char punctuation[] = "[!-/:-@\\[-`{-~\\p{P}]";
  if (str_is(type, "ByteLevel")) return read_byte_level(b, j);
  if (str_is(type, "Split")) return read_split(b, j);
  if (str_is(type, "Metaspace")) return read_metaspace(b, j);
  if (str_is(type, "Whitespace"))
    return build_split(b, STR("\\w+|[^\\w\\s]+"), SPLIT_REMOVED, true);
  if (str_is(type, "WhitespaceSplit")) return build_split(b, STR("\\s"), SPLIT_REMOVED, false);
  if (str_is(type, "BertPreTokenizer")) {
    TRY(build_split(b, STR("\\s"), SPLIT_REMOVED, false));
    return build_split(b, str_of(punctuation), SPLIT_ISOLATED, false);
  }
  if (str_is(type, "Digits"))
    return build_split(b, STR("\\p{N}"),
                       json_flag(j, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS,
                       false);
  SplitBehaviour how;
  if (str_is(type, "Punctuation")) {
    TRY(behaviour_of(b, j, &how));
    return build_split(b, str_of(punctuation), how, false);
  }
  if (str_is(type, "CharDelimiterSplit")) {
    Str c = json_text(j, "delimiter");
    int n;
    if (!c.n) return build_fail(b, TENON_EFORMAT, "CharDelimiterSplit without a delimiter");
    char *pattern = str_printf(b->arena, "\\x{%x}", utf8_get((const uint8_t *)c.p, &n));
    return build_split(b, str_of(pattern), SPLIT_REMOVED, false);
  }
  return unknown(b, "pre-tokenizer", type);
}

// ---- decoders ----
static tenon_status read_strip_decoder(TokenizerBuild *b, const Json *j, bool whole) {
  DecodeStep s = {.kind = DEC_STRIP,
                  .from = json_text(j, "content"),
                  .start = json_number_of(j, "start", 0),
                  .stop = json_number_of(j, "stop", 0)};
  if (!whole) return build_decode(b, s);
  if (s.stop || !str_is(s.from, " "))
    return build_fail(b, TENON_EUNSUPPORTED,
                      "a decoder that strips the end of a text is not supported");
  b->t->decode = DECODE_STRIP;
  b->t->strip = s.start;
  return TENON_OK;
}

static tenon_status read_metaspace_decoder(TokenizerBuild *b, const Json *j) {
  Str mark = json_text(j, "replacement");
  b->word_mark = mark.n ? mark : STR(WORD_MARK);
  if (scheme_of(j) != PREPEND_NEVER) b->t->decode = DECODE_METASPACE;
  return build_decode(b, (DecodeStep){.kind = DEC_REPLACE, .from = b->word_mark, .to = STR(" ")});
}

static tenon_status read_decoder(TokenizerBuild *b, const Json *j, Str type) {
  Tokenizer *t = b->t;
  bool fused = t->fused;
  if (fused && !str_is(type, "Strip") && !str_is(type, "Fuse"))
    return build_fail(b, TENON_EUNSUPPORTED, "the decoder '%.*s' behind Fuse is not supported",
                      STR_ARG(type));
  if (str_is(type, "Fuse")) return t->fused = true, TENON_OK;
  if (str_is(type, "Strip")) return read_strip_decoder(b, j, fused);
  if (str_is(type, "ByteLevel")) return build_decode(b, (DecodeStep){.kind = DEC_BYTES});
  if (str_is(type, "ByteFallback")) {
    t->byte_each = true;
    return build_decode(b, (DecodeStep){.kind = DEC_FALLBACK});
  }
  if (str_is(type, "Metaspace")) return read_metaspace_decoder(b, j);
  if (str_is(type, "Replace")) {
    Str from = json_text(json_get(j, "pattern"), "String");
    if (!from.n)
      return build_fail(b, TENON_EUNSUPPORTED, "a decoder that replaces a Regex is not supported");
    return build_decode(
        b, (DecodeStep){.kind = DEC_REPLACE, .from = from, .to = json_text(j, "content")});
  }
  if (str_is(type, "WordPiece")) {
    Str prefix = json_text(j, "prefix");
    t->decode = DECODE_WORDS;
    t->clean_up = json_flag(j, "cleanup", true);
    return build_decode(b, (DecodeStep){.kind = DEC_WORDS, .from = prefix.p ? prefix : STR("##")});
  }
  if (str_is(type, "BPEDecoder")) {
    Str suffix = json_text(j, "suffix");
    t->decode = DECODE_SUFFIX;
    return build_decode(b,
                        (DecodeStep){.kind = DEC_SUFFIX, .from = suffix.p ? suffix : STR("</w>")});
  }
  return unknown(b, "decoder", type);
}

tenon_status read_json_steps(TokenizerBuild *b, const Json *root) {
  const Json *decoder = json_get(root, "decoder");
  TRY(each_step(b, json_get(root, "normalizer"), "normalizers", read_normalizer));
  TRY(each_step(b, json_get(root, "pre_tokenizer"), "pretokenizers", read_pretokenizer));
  if (!decoder || decoder->kind == JSON_NULL) b->t->decode = DECODE_JOIN;
  return each_step(b, decoder, "decoders", read_decoder);
}

// ---- post-processors ----
static tenon_status add_special(TokenizerBuild *b, bool behind, int64_t id) {
  if (id < 0 || id >= b->t->size)
    return build_fail(b, TENON_EFORMAT, "the post-processor names token %lld, which is none",
                      (long long)id);
  if (behind)
    vec_push(b->arena, &b->after, (int32_t)id);
  else
    vec_push(b->arena, &b->before, (int32_t)id);
  return TENON_OK;
}

// The ids of a special token of a template; NULL: it has none.
static const Json *ids_of(const Json *j, const Json *item) {
  const Json *specials = json_of(j, "special_tokens", JSON_OBJECT), *ids = NULL;
  Str name = json_text(json_get(item, "SpecialToken"), "id");
  for (int64_t k = 0; specials && k < specials->n; k++)
    if (str_eq(specials->key[k], name)) ids = json_of(&specials->item[k], "ids", JSON_ARRAY);
  return ids;
}

// What stands between two texts.  A pair's form is taken where the rest is as around one text.
static void read_pair(TokenizerBuild *b, const Json *j) {
  const Json *pair = json_of(j, "pair", JSON_ARRAY), *single = json_of(j, "single", JSON_ARRAY);
  int64_t texts = 0, outside = 0, inside = 0;
  for (int64_t i = 0; pair && i < pair->n; i++) {
    const Json *text = json_get(&pair->item[i], "Sequence"), *type = json_get(text, "type_id");
    texts += text != NULL;
    if (text && texts == 2) b->t->pair_types = type && type->kind == JSON_INT && type->i == 1;
    const Json *ids = text ? NULL : ids_of(j, &pair->item[i]);
    outside += !text && texts != 1;
    if (texts != 1) continue;
    for (int64_t k = 0; ids && k < ids->n; k++, inside++)
      if (ids->item[k].kind == JSON_INT && ids->item[k].i >= 0 && ids->item[k].i < b->t->size)
        vec_push(b->arena, &b->between, (int32_t)ids->item[k].i);
  }
  b->t->pairs = texts == 2 && single && outside == single->n - 1 && inside == b->between.n;
}

static tenon_status read_template(TokenizerBuild *b, const Json *j) {
  const Json *single = json_of(j, "single", JSON_ARRAY);
  bool behind = false;
  for (int64_t i = 0; single && i < single->n; i++) {
    const Json *item = &single->item[i];
    if (json_get(item, "Sequence")) {
      if (behind) return build_fail(b, TENON_EUNSUPPORTED, "a template that repeats the text");
      behind = true;
      continue;
    }
    const Json *ids = ids_of(j, item);
    Str name = json_text(json_get(item, "SpecialToken"), "id");
    if (!ids)
      return build_fail(b, TENON_EFORMAT, "the template's '%.*s' has no ids", STR_ARG(name));
    for (int64_t k = 0; k < ids->n; k++)
      TRY(add_special(b, behind, ids->item[k].kind == JSON_INT ? ids->item[k].i : -1));
  }
  read_pair(b, j);
  return TENON_OK;
}

// ["[CLS]", 101]
static tenon_status add_pair(TokenizerBuild *b, const Json *j, const char *key, bool behind) {
  const Json *pair = json_of(j, key, JSON_ARRAY);
  if (!pair || pair->n != 2 || pair->item[1].kind != JSON_INT)
    return build_fail(b, TENON_EFORMAT, "the post-processor's '%s' is no token with its id", key);
  return add_special(b, behind, pair->item[1].i);
}

static tenon_status read_post(TokenizerBuild *b, const Json *j, Str type) {
  if (str_is(type, "ByteLevel")) return TENON_OK;  // offsets alone
  if (str_is(type, "TemplateProcessing")) return read_template(b, j);
  if (!str_is(type, "BertProcessing") && !str_is(type, "RobertaProcessing"))
    return unknown(b, "post-processor", type);
  TRY(add_pair(b, j, "cls", false));
  TRY(add_pair(b, j, "sep", true));
  int32_t sep = b->after.v[b->after.n - 1];
  bool bert = str_is(type, "BertProcessing");
  for (int i = bert ? 1 : 0; i < 2; i++) vec_push(b->arena, &b->between, sep);
  b->t->pairs = true;
  b->t->pair_types = bert;
  return TENON_OK;
}

tenon_status read_json_post(TokenizerBuild *b, const Json *root) {
  return each_step(b, json_get(root, "post_processor"), "processors", read_post);
}
