// read_spm.c -- SentencePiece's `.model`: a protobuf message of pieces, trainer and normalizer.
//
// A reader of the wire format that checks every length; fields that it does not know are passed
// over.  What it finds is the same as a GGUF file says, and is read by the same code.
#include "text/impl.h"

typedef struct Wire {
  const uint8_t *p, *end;
  bool bad;
} Wire;
typedef struct Field {
  uint64_t number;
  int kind;        // wire type
  uint64_t value;  // 0, 1, 5
  Wire bytes;      // 2
} Field;

static uint64_t varint(Wire *w) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (w->p == w->end) break;
    uint8_t c = *w->p++;
    v |= (uint64_t)(c & 127) << shift;
    if (c < 128) return v;
  }
  w->bad = true;
  return 0;
}

static uint64_t fixed(Wire *w, int bytes) {
  uint64_t v = 0;
  if (w->end - w->p < bytes) return w->bad = true, 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)*w->p++ << 8 * i;
  return v;
}

// The next field; false at the end or where the message is damaged.
static bool next_field(Wire *w, Field *f) {
  if (w->p == w->end || w->bad) return false;
  uint64_t tag = varint(w);
  *f = (Field){.number = tag >> 3, .kind = (int)(tag & 7)};
  if (f->kind == 0) {
    f->value = varint(w);
  } else if (f->kind == 1 || f->kind == 5) {
    f->value = fixed(w, f->kind == 1 ? 8 : 4);
  } else if (f->kind == 2) {
    uint64_t n = varint(w);
    if (w->bad || n > (uint64_t)(w->end - w->p)) return w->bad = true, false;
    f->bytes = (Wire){w->p, w->p + n, false};
    w->p += n;
  } else {
    w->bad = true;
  }
  return !w->bad;
}

static Str text_of(const Field *f) {
  return f->kind == 2 ? (Str){(const char *)f->bytes.p, f->bytes.end - f->bytes.p} : (Str){0};
}

typedef struct Model {
  VEC(Str) token;
  VEC(float) score;
  VEC(int32_t) type;
  int64_t kind;  // 1 unigram, 2 BPE, 3 words, 4 characters
  int64_t unk, bos, eos, pad;
  bool suffix;  // spaces behind words
  Str charsmap;
  bool prefix, squeeze, escape;
  bool bad;
} Model;

static void read_piece(Model *m, Arena *a, Wire w) {
  Str text = STR("");
  float score = 0;
  int32_t type = TOKEN_NORMAL;
  Field f;
  while (next_field(&w, &f)) {
    uint32_t bits = (uint32_t)f.value;
    if (f.number == 1 && f.kind == 2) text = text_of(&f);
    if (f.number == 2 && f.kind == 5) memcpy(&score, &bits, sizeof score);
    if (f.number == 3 && f.kind == 0) type = (int32_t)MIN(f.value, 7);
  }
  m->bad |= w.bad;
  vec_push(a, &m->token, text);
  vec_push(a, &m->score, score);
  vec_push(a, &m->type, type);
}

static void read_trainer(Model *m, Wire w) {
  Field f;
  while (next_field(&w, &f)) {
    if (f.kind != 0) continue;
    int64_t v = (int32_t)f.value;
    if (f.number == 3) m->kind = v;
    if (f.number == 24) m->suffix = v;
    if (f.number == 40) m->unk = v;
    if (f.number == 41) m->bos = v;
    if (f.number == 42) m->eos = v;
    if (f.number == 43) m->pad = v;
  }
  m->bad |= w.bad;
}

static void read_normalizer(Model *m, Wire w) {
  Field f;
  while (next_field(&w, &f)) {
    if (f.number == 2) m->charsmap = text_of(&f);
    if (f.number == 3 && f.kind == 0) m->prefix = f.value;
    if (f.number == 4 && f.kind == 0) m->squeeze = f.value;
    if (f.number == 5 && f.kind == 0) m->escape = f.value;
  }
  m->bad |= w.bad;
}

static int64_t id_of(const Model *m, int64_t id, TokenType type) {
  return id >= 0 && id < m->token.n && m->type.v[id] == (int32_t)type ? id : -1;
}

tenon_status read_sentencepiece(Str bytes, const char *file, Arena *a, Diag *d, Tokenizer **out) {
  Model m = {.kind = 1, .unk = 0, .bos = 1, .eos = 2, .pad = -1, .prefix = true, .squeeze = true};
  m.escape = true;
  Wire w = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, false};
  Field f;
  while (next_field(&w, &f)) {
    if (f.kind != 2) continue;
    if (f.number == 1) read_piece(&m, a, f.bytes);
    if (f.number == 2) read_trainer(&m, f.bytes);
    if (f.number == 3) read_normalizer(&m, f.bytes);
  }
  Where at = {.file = file, .offset = w.p - (const uint8_t *)bytes.p, .has_offset = true};
  if (w.bad || m.bad || !m.token.n)
    return fail(d, TENON_EFORMAT, at, "no SentencePiece model" CUT_OFF);
  if (m.kind != 1 && m.kind != 2)
    return fail(d, TENON_EUNSUPPORTED, (Where){.file = file},
                "a SentencePiece model of %s is not supported",
                m.kind == 3 ? "words" : "characters");
  if (m.suffix || !m.escape)
    return fail(d, TENON_EUNSUPPORTED, (Where){.file = file},
                "a SentencePiece model with %s is not supported",
                m.suffix ? "treat_whitespace_as_suffix" : "unescaped white space");
  TokenizerGguf g;
  tokenizer_gguf_init(&g);
  g.n = m.token.n;
  g.token = m.token.v;
  g.score = m.score.v;
  g.type = m.type.v;
  g.charsmap = m.charsmap;
  g.unk = id_of(&m, m.unk, TOKEN_UNKNOWN);
  g.bos = id_of(&m, m.bos, TOKEN_CONTROL);
  g.eos = id_of(&m, m.eos, TOKEN_CONTROL);
  g.pad = id_of(&m, m.pad, TOKEN_CONTROL);
  g.add_space_prefix = m.prefix;
  g.remove_extra_whitespaces = m.squeeze;
  return sentencepiece_load(&g, file, m.kind == 1, a, d, out);
}
