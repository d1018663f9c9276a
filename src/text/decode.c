// decode.c -- ids to text, at once and token by token.
//
// What a token stands for was computed when the tokenizer was read, so decoding appends pieces.
// Bytes that begin a character and do not end it are held back; that is the only state besides
// whether something was there before.
#include "text/impl.h"

void token_stream_init(TokenStream *s, const Tokenizer *t, int flags) {
  *s = (TokenStream){.t = t, .flags = flags, .begun = flags & DETOKENIZE_CONTINUE};
}

static void put_bad(TokenStream *s, StrBuf *out, int n) {
  for (int i = 0; i < (s->t->byte_each ? n : 1); i++) strbuf_put(out, STR("\xef\xbf\xbd"));
}

// Appends whole characters of what is held and of p; the beginning of one is held.
static void put_text(TokenStream *s, const uint8_t *p, int64_t n, StrBuf *out) {
  if (s->flags & DETOKENIZE_RAW) {
    strbuf_put(out, (Str){(const char *)p, n});
    return;
  }
  while (n) {
    if (!s->nheld) {
      int64_t fine = utf8_valid((Str){(const char *)p, n});
      if (fine) strbuf_put(out, (Str){(const char *)p, fine});
      p += fine;
      n -= fine;
      if (!n) return;
    }
    uint8_t buf[8];
    int held = s->nheld, more = (int)MIN(n, 4);
    memcpy(buf, s->held, (size_t)held);
    memcpy(buf + held, p, (size_t)more);
    bool whole, cut;
    int used = utf8_check(buf, held + more, &whole, &cut);
    if (cut) {  // nothing but its end is missing
      memcpy(s->held, buf, (size_t)used);
      s->nheld = used;
      return;
    }
    if (whole)
      strbuf_put(out, (Str){(const char *)buf, used});
    else
      put_bad(s, out, used);
    s->nheld = 0;  // `used` covers what was held: that much was a good beginning
    p += used - held;
    n -= used - held;
  }
}

static void put_piece(TokenStream *s, int32_t id, StrBuf *out) {
  const Tokenizer *t = s->t;
  Str piece = t->piece[id];
  bool first = !s->begun;
  s->begun = true;
  if (first && t->piece_first && t->piece_first[id].p) piece = t->piece_first[id];
  bool space = t->decode == DECODE_JOIN;
  if (t->decode == DECODE_SUFFIX) space = s->state & 1, s->state = 0;
  if (space && !(first && t->decode != DECODE_SUFFIX)) put_text(s, (const uint8_t *)" ", 1, out);
  if (t->decode == DECODE_SUFFIX && t->flag[id] & FLAG_SPACE) s->state = 1;
  if (t->decode == DECODE_STRIP && !(s->flags & DETOKENIZE_CONTINUE)) {
    // `state` counts the spaces that went; -1: something else came.
    while (s->state >= 0 && s->state < t->strip && piece.n && piece.p[0] == ' ') {
      piece.p++;
      piece.n--;
      s->state++;
    }
    if (piece.n) s->state = -1;
  }
  put_text(s, (const uint8_t *)piece.p, piece.n, out);
}

tenon_status token_stream_next(TokenStream *s, int32_t id, StrBuf *out, Diag *d) {
  const Tokenizer *t = s->t;
  if (id < 0 || id >= t->size)
    return fail(d, TENON_EINVAL, NOWHERE, "token %d is not in the vocabulary of %lld", id,
                (long long)t->size);
  if (s->flags & DETOKENIZE_SKIP_SPECIAL && t->flag[id] & FLAG_SPECIAL) return TENON_OK;
  if (t->text[id].p) put_piece(s, id, out);
  return TENON_OK;
}

void token_stream_end(TokenStream *s, StrBuf *out) {
  if (s->nheld) put_bad(s, out, s->nheld);
  s->nheld = 0;
}

tenon_status tokenizer_decode(const Tokenizer *t, const int32_t *id, int64_t n, int flags,
                              StrBuf *out, Diag *d) {
  TokenStream s;
  token_stream_init(&s, t, flags);
  for (int64_t i = 0; i < n; i++) TRY(token_stream_next(&s, id[i], out, d));
  token_stream_end(&s, out);
  return TENON_OK;
}
