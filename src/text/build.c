// build.c -- what all readers of tokenizers share: tokens by id, steps, and the last checks.
//
// A reader adds tokens and steps in any order; build_finish computes what each token stands for,
// the tables, and the roles of special tokens that the file does not name.
#include "text/impl.h"

#include <stdio.h>

enum { IGNORE_MERGES = 1, ADD_BOS = 2, FORM_C = 4, PATTERNS = 6 };

typedef struct PreRow {
  const char *name;
  int flags;
  const char *pattern[PATTERNS];
} PreRow;
static const PreRow pre_rows[] = {
#define PRE(name, flags, ...) {name, flags, {__VA_ARGS__}},
#include "text/pre.def"
};

void build_init(TokenizerBuild *b, const char *file, Arena *a, Diag *d) {
  *b = (TokenizerBuild){.arena = a, .diag = d, .file = file};
  Tokenizer *t = b->t = arena_new(a, Tokenizer);
  t->arena = a;
  t->unk = -1;
  t->word_chars = 100;
  for (int i = 0; i < TOKEN_ROLES; i++) t->role[i] = -1;
  for (int i = 0; i < 256; i++) t->byte_token[i] = -1;
}

tenon_status build_fail(TokenizerBuild *b, tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(b->diag, code, (Where){.file = b->file}, fmt, ap);
  va_end(ap);
  return s;
}

tenon_status build_token(TokenizerBuild *b, int64_t id, Str text, uint8_t flags) {
  if (id < 0 || id >= LIMIT_TOKENIZER_VOCABULARY)
    return build_fail(b, TENON_EUNSUPPORTED, "token %lld: ids are from 0 to %d", (long long)id,
                      LIMIT_TOKENIZER_VOCABULARY - 1);
  if (text.n > LIMIT_TOKENIZER_TOKEN)
    return build_fail(b, TENON_EUNSUPPORTED, "token %lld has %lld bytes, the limit is %d",
                      (long long)id, (long long)text.n, LIMIT_TOKENIZER_TOKEN);
  // A gap costs memory; far more of them than tokens are a mistake or an attack.
  if (id > 4 * b->ntokens + (1 << 16))
    return build_fail(b, TENON_EFORMAT, "token %lld: its id is far beyond the vocabulary",
                      (long long)id);
  while (b->text.n <= id) {
    vec_push(b->arena, &b->text, ((Str){0}));
    vec_push(b->arena, &b->flag, 0);
  }
  if (!b->text.v[id].p) b->ntokens++;
  b->text.v[id] = text.p ? text : STR("");
  b->flag.v[id] |= flags;
  return TENON_OK;
}

void build_tokens_done(TokenizerBuild *b) {
  Tokenizer *t = b->t;
  t->size = t->nmodel = b->text.n;
  t->text = b->text.v;
  t->flag = b->flag.v;
  token_map_init(&t->by_text, t->text, t->size, false, b->arena);
  Str *model = arena_array(b->arena, Str, t->size + 1);
  for (int64_t i = 0; i < t->size; i++) {
    if (!t->text[i].p || !t->text[i].n || !(t->flag[i] & FLAG_MODEL)) continue;
    model[i] = b->byte_level ? bytes_of_chars(t->text[i], b->arena) : t->text[i];
  }
  t->model = model;
  token_map_init(&t->vocab, model, t->size, false, b->arena);
}

int32_t build_find(const TokenizerBuild *b, Str text) {
  return token_map_get(&b->t->by_text, (const uint8_t *)text.p, text.n);
}

// ---- steps ----
tenon_status build_regex(TokenizerBuild *b, Str pattern, const Pattern **out) {
  return pattern_compile(pattern, b->arena, b->diag, out);
}

static tenon_status too_many(TokenizerBuild *b) {
  return build_fail(b, TENON_EUNSUPPORTED, "over %d steps of one kind", LIMIT_TOKENIZER_STEPS);
}

tenon_status build_norm(TokenizerBuild *b, NormStep s) {
  if (b->norm.n == LIMIT_TOKENIZER_STEPS) return too_many(b);
  vec_push(b->arena, &b->norm, s);
  return TENON_OK;
}
tenon_status build_pre(TokenizerBuild *b, PreStep s) {
  if (b->pre.n == LIMIT_TOKENIZER_STEPS) return too_many(b);
  vec_push(b->arena, &b->pre, s);
  return TENON_OK;
}
tenon_status build_decode(TokenizerBuild *b, DecodeStep s) {
  if (b->decode.n == LIMIT_TOKENIZER_STEPS) return too_many(b);
  vec_push(b->arena, &b->decode, s);
  return TENON_OK;
}

tenon_status build_split(TokenizerBuild *b, Str pattern, SplitBehaviour how, bool invert) {
  PreStep s = {.kind = PRE_SPLIT, .behaviour = how, .invert = invert};
  TRY(build_regex(b, pattern, &s.regex));
  return build_pre(b, s);
}

static const PreRow *pre_row(Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(pre_rows); i++)
    if (str_is(name, pre_rows[i].name)) return &pre_rows[i];
  return NULL;
}

tenon_status build_pre_named(TokenizerBuild *b, Str name, bool *out_bos) {
  const PreRow *r = pre_row(name);
  *out_bos = false;
  if (!r) {
    const char *names[ARRAY_LEN(pre_rows)];
    for (int64_t i = 0; i < ARRAY_LEN(pre_rows); i++) names[i] = pre_rows[i].name;
    return build_fail(b, TENON_EUNSUPPORTED, "the pre-tokenizer '%.*s' is not known%s",
                      STR_ARG(name), did_you_mean(name, names, ARRAY_LEN(pre_rows)).s);
  }
  for (int i = 0; i < PATTERNS && r->pattern[i]; i++)
    TRY(build_split(b, str_of(r->pattern[i]), SPLIT_ISOLATED, false));
  if (r->flags & FORM_C)
    TRY(build_norm(b,
                   (NormStep){.kind = NORM_FORM, .form = UNICODE_NFC, .newest = !b->byte_level}));
  b->t->bpe.ignore_merges = r->flags & IGNORE_MERGES;
  *out_bos = r->flags & ADD_BOS;
  return TENON_OK;
}

Str build_gpt2_pattern(void) { return str_of(pre_row(STR("gpt2"))->pattern[0]); }

// ---- what tokens stand for ----
static Str replace_all(Arena *a, Str s, Str from, Str to) {
  if (!from.n || s.n < from.n) return s;
  StrBuf b;
  strbuf_init(&b, a);
  bool any = false;
  for (int64_t i = 0; i < s.n;) {
    if (s.n - i >= from.n && !memcmp(s.p + i, from.p, (size_t)from.n)) {
      strbuf_put(&b, to);
      i += from.n;
      any = true;
    } else {
      strbuf_putc(&b, s.p[i++]);
    }
  }
  return any ? (Str){strbuf_text(&b), b.n} : s;
}

int build_byte_of(Str s) {
  static const char hex[] = "0123456789ABCDEF";
  if (s.n != 6 || memcmp(s.p, "<0x", 3) || s.p[5] != '>') return -1;
  const char *high = s.p[3] ? strchr(hex, s.p[3]) : NULL;
  const char *low = s.p[4] ? strchr(hex, s.p[4]) : NULL;
  return high && low ? (int)((high - hex) * 16 + (low - hex)) : -1;
}

static Str strip_token(Str s, const DecodeStep *d) {
  for (int64_t i = 0; i < d->start && s.n >= d->from.n && d->from.n; i++) {
    if (memcmp(s.p, d->from.p, (size_t)d->from.n)) break;
    s.p += d->from.n;
    s.n -= d->from.n;
  }
  for (int64_t i = 0; i < d->stop && s.n >= d->from.n && d->from.n; i++) {
    if (memcmp(s.p + s.n - d->from.n, d->from.p, (size_t)d->from.n)) break;
    s.n -= d->from.n;
  }
  return s;
}

static Str decode_token(TokenizerBuild *b, int64_t id) {
  Str s = b->t->text[id];
  for (int64_t i = 0; i < b->decode.n; i++) {
    const DecodeStep *d = &b->decode.v[i];
    switch (d->kind) {
    case DEC_REPLACE: s = replace_all(b->arena, s, d->from, d->to); break;
    case DEC_STRIP: s = strip_token(s, d); break;
    case DEC_BYTES: {
      Str raw = bytes_of_chars(s, b->arena);
      if (raw.p) s = raw;
      break;
    }
    case DEC_FALLBACK: {
      int byte = build_byte_of(s);
      if (byte < 0) break;
      char c = (char)byte;
      b->flag.v[id] |= FLAG_BYTE;
      return (Str){arena_dup(b->arena, &c, 1), 1};
    }
    case DEC_WORDS:
      if (s.n >= d->from.n && d->from.n && !memcmp(s.p, d->from.p, (size_t)d->from.n)) {
        s.p += d->from.n;
        s.n -= d->from.n;
        b->flag.v[id] |= FLAG_CONTINUES;
      }
      break;
    case DEC_SUFFIX: {
      Str out = replace_all(b->arena, s, d->from, STR(""));
      if (out.n != s.n) b->flag.v[id] |= FLAG_SPACE;
      s = out;
      break;
    }
    }
  }
  return s;
}

// Hugging Face's clean-up of spaces before punctuation, of one token.
static Str clean_token(Arena *a, Str s) {
  static const char *const pair[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                        {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                        {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                        {" 've", "'ve"}, {" 're", "'re"}};
  for (int64_t i = 0; i < ARRAY_LEN(pair); i++)
    s = replace_all(a, s, str_of(pair[i][0]), str_of(pair[i][1]));
  return s;
}

static void build_pieces(TokenizerBuild *b) {
  Tokenizer *t = b->t;
  Str *piece = arena_array(b->arena, Str, t->size + 1);
  Str *first = t->decode == DECODE_METASPACE || t->decode == DECODE_WORDS
                   ? arena_array(b->arena, Str, t->size + 1)
                   : NULL;
  for (int64_t i = 0; i < t->size; i++) {
    if (!t->text[i].p) {
      piece[i] = STR("");
      continue;
    }
    piece[i] = decode_token(b, i);
    if (first && t->decode == DECODE_METASPACE)
      first[i] = replace_all(b->arena, t->text[i], b->word_mark, STR(""));
    if (t->decode == DECODE_WORDS) {
      // The space is part of the token here, so that the clean-up can take it away.
      first[i] = t->text[i];
      if (t->clean_up) first[i] = clean_token(b->arena, first[i]);
      if (!(b->flag.v[i] & FLAG_CONTINUES)) {
        char *s = str_printf(b->arena, " %.*s", (int)piece[i].n, piece[i].p);
        piece[i] = (Str){s, piece[i].n + 1};
      }
      if (t->clean_up) piece[i] = clean_token(b->arena, piece[i]);
    }
  }
  t->piece = piece;
  t->piece_first = first;
  token_map_init(&t->by_piece, piece, t->size, false, b->arena);
}

// ---- added tokens ----
// What the normalizers make of an added token.
static Str normalised_text(TokenizerBuild *b, Str text) {
  Encoder e = {.t = b->t, .regex_limit = INT64_MAX};
  Str out = {0};
  Trap trap;
  trap_enter(&trap, b->diag);
  if (setjmp(trap.env) == 0) {
    Str s = normalise(&e, b->t->norm, b->t->nnorm, text);
    out = (Str){arena_dup(b->arena, s.n ? s.p : "", MAX(s.n, 1)), s.n};
  }
  trap_leave(&trap);
  encoder_free(&e);
  if (trap.status) trap_again(trap.status, b->diag->text);
  return out;
}

static tenon_status build_added(TokenizerBuild *b, bool normalised, AddedSet *out) {
  VEC(AddedToken) list = {0};
  for (int64_t i = 0; i < b->added.n; i++) {
    AddedToken a = b->added.v[i];
    if (a.normalised != normalised || !a.text.n) continue;
    if (a.text.n > LIMIT_TOKENIZER_ADDED)
      return build_fail(b, TENON_EUNSUPPORTED, "an added token of %lld bytes, the limit is %d",
                        (long long)a.text.n, LIMIT_TOKENIZER_ADDED);
    if (normalised && !b->t->norm_whole) {
      a.text = normalised_text(b, a.text);
      if (!a.text.n) continue;
    }
    vec_push(b->arena, &list, a);
  }
  Str *key = arena_array(b->arena, Str, list.n + 1);
  for (int64_t i = 0; i < list.n; i++) key[i] = list.v[i].text;
  out->token = list.v;
  out->n = list.n;
  if (list.n) trie_init(&out->trie, key, list.n, b->arena);
  return TENON_OK;
}

// ---- roles ----
static const char *const role_names[TOKEN_ROLES][10] = {
    [TOKEN_BOS] = {"<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|beginoftext|>",
                   "<｜begin▁of▁sentence｜>", "[BOS]", "<|start_of_text|>"},
    [TOKEN_EOS] = {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<｜end▁of▁sentence｜>",
                   "[EOS]", "<|end_of_sentence|>"},
    [TOKEN_EOT] = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>", "<|eot|>", "<turn|>",
                   "<|return|>", "<|END_OF_TURN_TOKEN|>", "<end_of_utterance>", "<|im_end|>"},
    [TOKEN_UNK] = {"<unk>", "[UNK]", "<|unk|>"},
    [TOKEN_PAD] = {"<pad>", "[PAD]", "<|pad|>", "<｜▁pad▁｜>"},
    [TOKEN_SEP] = {"[SEP]"},
    [TOKEN_CLS] = {"[CLS]"},
    [TOKEN_MASK] = {"[MASK]", "<mask>"}};

void tokenizer_guess_roles(Tokenizer *t) {
  for (int r = 0; r < TOKEN_ROLES; r++)
    for (int k = 0; k < 10 && t->role[r] < 0 && role_names[r][k]; k++) {
      Str s = str_of(role_names[r][k]);
      int32_t id = token_map_get(&t->by_text, (const uint8_t *)s.p, s.n);
      if (id >= 0 && t->flag[id] & (FLAG_SPECIAL | FLAG_ADDED)) t->role[r] = id;
    }
  uint8_t *flag = t->flag;
  if (t->role[TOKEN_EOS] >= 0) flag[t->role[TOKEN_EOS]] |= FLAG_END;
  if (t->role[TOKEN_EOT] >= 0) flag[t->role[TOKEN_EOT]] |= FLAG_END;
}

tenon_status build_finish(TokenizerBuild *b, const char *kind, Tokenizer **out) {
  Tokenizer *t = b->t;
  t->norm = b->norm.v;
  t->nnorm = b->norm.n;
  // The bytes of a last PRE_BYTES are the model's own; what follows it sees its characters.
  if (b->pre.n && b->pre.v[b->pre.n - 1].kind == PRE_BYTES && !t->unmap) b->pre.n--;
  for (int64_t i = 0; i < b->pre.n; i++) t->unmap |= b->pre.v[i].kind == PRE_BYTES;
  t->pre = b->pre.v;
  t->npre = b->pre.n;
  t->before = b->before.v;
  t->between = b->between.v;
  t->nbetween = b->between.n;
  t->nbefore = b->before.n;
  t->after = b->after.v;
  t->nafter = b->after.n;
  for (int i = 0; i < 256; i++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", i);
    if (t->byte_fallback) t->byte_token[i] = build_find(b, str_of(name));
  }
  TRY(build_added(b, true, &t->normalised));
  TRY(build_added(b, false, &t->raw));
  build_pieces(b);
  t->about = str_printf(b->arena, "%s, %lld tokens", kind, (long long)t->size);
  *out = t;
  return TENON_OK;
}
