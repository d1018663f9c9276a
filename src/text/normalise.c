// normalise.c -- the normalizers of Hugging Face's tokenizers and of SentencePiece.
//
// Each step reads one buffer and writes the other one.  All take linear time.
#include "text/impl.h"

// SentencePiece's precompiled map: a double array of darts-clone, and the strings that it leads to.
struct Charsmap {
  const uint8_t *unit;  // [nunits] u32, little endian
  int64_t nunits;
  Str strings;  // each ends with NUL
};

static uint32_t unit_at(const Charsmap *m, uint32_t i) {
  const uint8_t *p = m->unit + (int64_t)i * 4;
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

const Charsmap *charsmap_read(Str bytes, Arena *a, Diag *d, tenon_status *out) {
  *out = TENON_OK;
  if (bytes.n < 4) return NULL;
  Charsmap head = {(const uint8_t *)bytes.p, 1, {0}};
  int64_t size = unit_at(&head, 0);
  if (size % 4 || size > bytes.n - 4 || size < 4) {
    *out = fail(d, TENON_EFORMAT, NOWHERE, "the precompiled map of characters is cut off");
    return NULL;
  }
  Charsmap *m = arena_new(a, Charsmap);
  m->unit = arena_dup(a, bytes.p + 4, size);
  m->nunits = size / 4;
  int64_t n = bytes.n - 4 - size;
  m->strings = (Str){n ? arena_dup(a, bytes.p + 4 + size, n) : "", n};
  return m;
}

// The longest key at p: its length, and what it becomes.  0: none.
static int64_t map_longest(const Charsmap *m, const uint8_t *p, int64_t n, Str *out) {
  uint32_t node = 0, unit = unit_at(m, 0);
  int64_t best = 0;
  node ^= unit >> 10 << ((unit & 1u << 9) >> 6);
  for (int64_t i = 0; i < n; i++) {
    node ^= p[i];
    if (node >= (uint64_t)m->nunits) break;
    unit = unit_at(m, node);
    if ((unit & 0x800000ffu) != p[i]) break;
    node ^= unit >> 10 << ((unit & 1u << 9) >> 6);
    if (!(unit >> 8 & 1) || node >= (uint64_t)m->nunits) continue;
    int64_t at = unit_at(m, node) & 0x7fffffffu;
    if (at >= m->strings.n) continue;
    const char *end = memchr(m->strings.p + at, 0, (size_t)(m->strings.n - at));
    if (!end) continue;
    best = i + 1;
    *out = (Str){m->strings.p + at, end - (m->strings.p + at)};
  }
  return best;
}

static void by_map(Encoder *e, const NormStep *s, Str in, Bytes *out) {
  const uint8_t *p = (const uint8_t *)in.p;
  const AddedSet *keep = e->t->norm_whole ? &e->t->normalised : NULL;
  for (int64_t i = 0; i < in.n;) {
    Str to;
    int64_t n = 0;
    if (keep && keep->n && trie_longest(&keep->trie, p + i, in.n - i, &n) >= 0) {
      bytes_put(out, p + i, n);  // the user's symbols stay as they are
    } else if ((n = map_longest(s->map, p + i, in.n - i, &to))) {
      bytes_put_str(out, to);
    } else {
      n = utf8_bytes(p[i]);
      bytes_put(out, p + i, n);
    }
    i += n;
  }
}

static void replace(Encoder *e, const NormStep *s, Str in, Bytes *out) {
  int64_t at = 0, from, to;
  while (pattern_find(s->regex, in, at, &e->regex_work, &from, &to)) {
    bytes_put(out, in.p + at, from - at);
    bytes_put_str(out, s->text);
    at = to;
    if (e->regex_work > e->regex_limit)
      trap_raise(TENON_EUNSUPPORTED, "a regular expression of the tokenizer takes too long");
  }
  bytes_put(out, in.p + at, in.n - at);
}

static void spaces_to(const NormStep *s, Str in, Bytes *out) {
  while (in.n) {
    const char *p = memchr(in.p, ' ', (size_t)in.n);
    int64_t n = p ? p - in.p : in.n;
    bytes_put(out, in.p, n);
    if (!p) return;
    bytes_put_str(out, s->text);
    in.p += n + 1;
    in.n -= n + 1;
  }
}

static void squeeze(Str in, Bytes *out) {
  bool space = true;
  for (int64_t i = 0; i < in.n; i++) {
    if (in.p[i] == ' ' && space) continue;
    space = in.p[i] == ' ';
    bytes_put(out, in.p + i, 1);
  }
  while (out->n && out->p[out->n - 1] == ' ') out->n--;
}

static void strip(const NormStep *s, Str in, Bytes *out) {
  const uint8_t *p = (const uint8_t *)in.p;
  int64_t from = 0, to = in.n;
  int n;
  while (s->left && from < to && unicode_is_space(utf8_get(p + from, &n))) from += n;
  while (s->right && to > from && unicode_is_space(utf8_before(p + to, &n))) to -= n;
  bytes_put(out, p + from, to - from);
}

static bool is_ideograph(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static bool is_bert_control(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return !c || c == 0xfffd ||
         (UC_BIT(Cc) | UC_BIT(Cf) | UC_BIT(Co)) >> unicode_category_in(c, 8) & 1;
}

static bool is_nmt_dropped(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
         c == 0x9f;
}
static bool is_nmt_space(uint32_t c) {
  return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
         (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff ||
         c == 0xfffd;
}

// Steps that look at one character.
static void each(const NormStep *s, uint32_t c, Bytes *out) {
  switch (s->kind) {
  case NORM_LOWER:
    bytes_put_char(out, c == 0x130 ? 'i' : unicode_to_lower(c));
    if (c == 0x130) bytes_put_char(out, 0x307);
    return;
  case NORM_STRIP_ACCENTS:
    if (c < 0x300 || !(s->left ? UC_BIT(Mn) >> unicode_category_in(c, 8) & 1
                               : UC_M >> unicode_category_in(c, 9) & 1))
      bytes_put_char(out, c);
    return;
  case NORM_BERT_CLEAN:
    if (c >= 0x20 && c < 0x7f)
      bytes_put_char(out, c);
    else if (!is_bert_control(c))
      bytes_put_char(out, unicode_is_space(c) ? ' ' : c);
    return;
  case NORM_BERT_CJK:
    if (!is_ideograph(c)) {
      bytes_put_char(out, c);
      return;
    }
    bytes_put_char(out, ' ');
    bytes_put_char(out, c);
    bytes_put_char(out, ' ');
    return;
  case NORM_NMT:
    if (!is_nmt_dropped(c)) bytes_put_char(out, is_nmt_space(c) ? ' ' : c);
    return;
  default: bytes_put_char(out, c);
  }
}

static void run(Encoder *e, const NormStep *s, Str in, Bytes *out) {
  switch (s->kind) {
  case NORM_FORM: unicode_normalise(s->form, !s->newest, in, &e->unicode, out); return;
  case NORM_STRIP: strip(s, in, out); return;
  case NORM_PREPEND:
    if (in.n) bytes_put_str(out, s->text);
    bytes_put_str(out, in);
    return;
  case NORM_REPLACE: replace(e, s, in, out); return;
  case NORM_SPACE_TO: spaces_to(s, in, out); return;
  case NORM_CHARSMAP: by_map(e, s, in, out); return;
  case NORM_SQUEEZE: squeeze(in, out); return;
  case NORM_BYTES:
    bytes_room(out, in.n * 2);
    for (int64_t i = 0; i < in.n; i++) bytes_put_char(out, byte_to_char((uint8_t)in.p[i]));
    return;
  case NORM_LOWER:
  case NORM_STRIP_ACCENTS:
  case NORM_BERT_CLEAN:
  case NORM_BERT_CJK:
  case NORM_NMT: break;
  }
  for (int64_t i = 0; i < in.n;) {
    int n;
    uint32_t c = utf8_get((const uint8_t *)in.p + i, &n);
    each(s, c, out);
    i += n;
  }
}

Str normalise(Encoder *e, const NormStep *step, int64_t n, Str in) {
  for (int64_t i = 0; i < n; i++) {
    Bytes *out = &e->norm[i & 1];
    out->n = 0;
    bytes_room(out, in.n + 16);
    run(e, &step[i], in, out);
    in = bytes_str(out);
  }
  return in;
}
