// encode.c -- text to ids: the pipeline, and the caller's buffer.
#include "text/impl.h"

#include "base/platform.h"

enum { CACHE_MOST = 1 << 15, CACHE_TEXT = 1 << 12 };

void token_buffer_deinit(TokenBuffer *b) {
  mem_free(b->id, b->cap * (int64_t)sizeof *b->id);
  *b = (TokenBuffer){0};
}

static void buffer_room(TokenBuffer *b, int64_t cap) {
  int32_t *id = mem_alloc(cap * (int64_t)sizeof *id);
  if (!id) trap_raise(TENON_ENOMEM, "out of memory: %lld token ids", (long long)cap);
  if (b->n) memcpy(id, b->id, (size_t)b->n * sizeof *id);
  mem_free(b->id, b->cap * (int64_t)sizeof *id);
  b->id = id;
  b->cap = cap;
}

// One id, outside of an encoding.
static tenon_status put(TokenBuffer *b, int32_t id, Diag *d) {
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0 && b->n == b->cap) buffer_room(b, MAX(b->cap * 2, 64));
  trap_leave(&trap);
  if (!trap.status) b->id[b->n++] = id;
  return trap.status;
}

void encoder_put(Encoder *e, int32_t id) {
  if (__builtin_expect(e->out->n == e->out->cap, 0)) buffer_room(e->out, MAX(e->out->cap * 2, 64));
  e->out->id[e->out->n++] = id;
}

void encoder_unknown(Encoder *e, const uint8_t *p, int64_t n) {
  const Tokenizer *t = e->t;
  bool all = t->byte_fallback;
  for (int64_t i = 0; i < n && all; i++) all = t->byte_token[p[i]] >= 0;
  if (all) {
    for (int64_t i = 0; i < n; i++) encoder_put(e, t->byte_token[p[i]]);
    e->last_unk = false;
    return;
  }
  if (t->unk < 0 && t->unk_is_error)
    trap_raise(TENON_EINVAL, "a character that the tokenizer has no token for");
  if (t->unk >= 0 && !(t->fuse_unk && e->last_unk)) encoder_put(e, t->unk);
  e->last_unk = true;
}

// A piece in characters of byte-level BPE, as the bytes that they stand for.
static Str unmap(Encoder *e, Str piece) {
  e->word.n = 0;
  bytes_room(&e->word, piece.n);
  for (int64_t i = 0; i < piece.n;) {
    int n;
    int byte = char_to_byte(utf8_get((const uint8_t *)piece.p + i, &n));
    if (byte >= 0) e->word.p[e->word.n++] = (uint8_t)byte;
    i += n;
  }
  return bytes_str(&e->word);
}

void encoder_piece(Encoder *e, Str piece) {
  if (!piece.n) return;
  if (e->t->unmap) piece = unmap(e, piece);
  switch (e->t->kind) {
  case MODEL_BPE: bpe_encode(e, piece); break;
  case MODEL_UNIGRAM: unigram_encode(e, piece); break;
  case MODEL_WORDPIECE:
  case MODEL_WORDLEVEL: wordpiece_encode(e, piece); break;
  }
}

// ---- the pipeline ----
static void encode_normal(Encoder *e, Str text, bool at_start) {
  e->at_start = at_start;
  pretokenise(e, text, 0);
}

// Between tokens of the raw text.
static void encode_raw(Encoder *e, Str text, bool at_start) {
  Str s = normalise(e, e->t->norm, e->t->nnorm, text);
  added_split(e, &e->t->normalised, s, at_start, encode_normal);
}

static void encode_text(Encoder *e, Str text) {
  const Tokenizer *t = e->t;
  int64_t fine = utf8_valid(text);
  if (fine < text.n) {
    bytes_room(&e->valid, text.n);
    utf8_repair(text, &e->valid);
    text = bytes_str(&e->valid);
  }
  if (!ck_mul(text.n, LIMIT_TOKENIZER_REGEX_WORK, &e->regex_limit)) e->regex_limit = INT64_MAX;
  e->regex_limit = MAX(e->regex_limit, 1 << 20);
  if (e->flags & TOKENIZE_ADD_SPECIAL)
    for (int64_t i = 0; i < t->nbefore; i++) encoder_put(e, t->before[i]);
  added_split(e, &t->raw, text, true, encode_raw);
  if (e->flags & TOKENIZE_ADD_SPECIAL)
    for (int64_t i = 0; i < t->nafter; i++) encoder_put(e, t->after[i]);
}

void encoder_free(Encoder *e) {
  bytes_free(&e->valid);
  bytes_free(&e->norm[0]);
  bytes_free(&e->norm[1]);
  for (int i = 0; i < LIMIT_TOKENIZER_STEPS; i++) bytes_free(&e->step[i]);
  bytes_free(&e->word);
  bytes_free(&e->unicode.code);
  bytes_free(&e->unicode.sort);
  bytes_free(&e->lattice);
  bpe_work_free(&e->work);
  bpe_work_free(&e->pair);
  bpe_work_free(&e->next);
  mem_free(e->cache, e->cache_bytes);
}

// Words come again in long texts; a short one would not pay for the memory.
static void make_cache(Encoder *e, int64_t text_bytes) {
  if (text_bytes < CACHE_TEXT || e->t->kind != MODEL_BPE) return;
  int64_t slots = 1024;
  while (slots < CACHE_MOST && slots * 8 < text_bytes) slots *= 2;
  e->cache_bytes = slots * (int64_t)sizeof *e->cache;
  e->cache = mem_alloc(e->cache_bytes);
  e->cache_mask = (uint64_t)slots - 1;
}

tenon_status tokenizer_encode_pair(const Tokenizer *t, Str first, Str second, TokenBuffer *out,
                                   int64_t *out_second, Diag *d) {
  int64_t had = out->n;
  *out_second = 0;
  if (!t->pairs)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the tokenizer has no form for pairs of texts");
  TRY(tokenizer_encode(t, first, TOKENIZE_ADD_SPECIAL, out, d));
  out->n -= t->nafter;
  tenon_status s = TENON_OK;
  for (int64_t i = 0; i < t->nbetween && !s; i++) s = put(out, t->between[i], d);
  int64_t at = out->n;
  if (!s) s = tokenizer_encode(t, second, 0, out, d);
  for (int64_t i = 0; i < t->nafter && !s; i++) s = put(out, t->after[i], d);
  if (s) out->n = had;
  if (!s && t->pair_types) *out_second = at;
  return s;
}

void tokenizer_cut(const Tokenizer *t, TokenBuffer *b, int64_t most, int64_t from) {
  int64_t drop = MIN(b->n - most, b->n - t->nafter - from);
  if (drop <= 0) return;
  int32_t *end = b->id + b->n - t->nafter;
  memmove(end - drop, end, (size_t)t->nafter * sizeof *end);
  b->n -= drop;
}

tenon_status tokenizer_encode(const Tokenizer *t, Str text, int flags, TokenBuffer *out, Diag *d) {
  if (text.n < 0 || text.n > (int64_t)LIMIT_TOKENIZER_TEXT_MIB << 20)
    return fail(d, TENON_EINVAL, NOWHERE, "a text of %lld bytes, the limit is %d MiB",
                (long long)text.n, LIMIT_TOKENIZER_TEXT_MIB);
  Encoder *e = mem_alloc((int64_t)sizeof *e);
  if (!e) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  e->t = t;
  e->out = out;
  e->flags = flags;
  int64_t had = out->n;
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) {
    make_cache(e, text.n);
    // About what most texts need, so that a long one is not copied again and again.
    int64_t guess = out->n + text.n / 3 + 16;
    if (out->cap < guess) buffer_room(out, guess);
    encode_text(e, text);
  }
  trap_leave(&trap);
  if (trap.status) out->n = had;
  encoder_free(e);
  mem_free(e, (int64_t)sizeof *e);
  return trap.status;
}
