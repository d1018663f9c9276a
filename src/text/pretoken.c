// pretoken.c -- splits normalised text into the pieces that the model sees one by one.
//
// Steps are a chain: each piece of one step goes through all that follow before the next is cut, so
// nothing is collected.  A step that changes a piece keeps it in a buffer of its own.
#include "text/impl.h"

uint32_t byte_to_char(uint8_t b) {
  if ((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad)) return b;
  if (b <= 0x20) return 0x100u + b;
  if (b == 0xad) return 0x100 + 33 + 34;
  return 0x100u + 33 + (b - 0x7f);  // 0x7f to 0xa0
}

int char_to_byte(uint32_t c) {
  if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad)) return (int)c;
  if (c < 0x100 || c > 0x143) return -1;
  c -= 0x100;
  return c <= 0x20 ? (int)c : c < 33 + 34 ? (int)(c - 33 + 0x7f) : 0xad;
}

Str bytes_of_chars(Str text, Arena *a) {
  char *to = arena_alloc(a, text.n + 1);
  int64_t k = 0;
  for (int64_t i = 0; i < text.n;) {
    int n;
    int byte = char_to_byte(utf8_get((const uint8_t *)text.p + i, &n));
    if (byte < 0) return (Str){0};
    to[k++] = (char)byte;
    i += n;
  }
  return (Str){to, k};
}

static void next(Encoder *e, Str piece, int64_t step, bool at_start) {
  if (!piece.n) return;
  e->at_start = at_start;
  pretokenise(e, piece, step + 1);
}

// ---- PRE_SPLIT ----
// Segments of the text, in turn: what matches and what is between.
typedef struct Segments {
  Encoder *e;
  const PreStep *s;
  Str text;
  int64_t at, from, to;  // the next match; from == text.n: none
} Segments;

static void find(Segments *g) {
  Encoder *e = g->e;
  if (e->regex_work > e->regex_limit)
    trap_raise(TENON_EUNSUPPORTED, "a regular expression of the tokenizer takes too long");
  if (!pattern_find(g->s->regex, g->text, g->at, &e->regex_work, &g->from, &g->to))
    g->from = g->to = g->text.n;
}

static bool take_segment(Segments *g, int64_t *out_from, int64_t *out_to, bool *out_match) {
  if (g->at == g->text.n) return false;
  bool match = g->at == g->from;
  *out_from = g->at;
  g->at = *out_to = match ? g->to : g->from;
  *out_match = match != g->s->invert;
  if (match) find(g);
  return true;
}

static void split(Encoder *e, Str text, int64_t step) {
  const PreStep *s = &e->t->pre[step];
  bool start = e->at_start;
  Segments g = {.e = e, .s = s, .text = text};
  find(&g);
  int64_t from, to, kept = -1, kept_to = 0;  // a segment that the next one may join
  bool match, was_match = false;
  while (take_segment(&g, &from, &to, &match)) {
    if (s->behaviour == SPLIT_ISOLATED || (s->behaviour == SPLIT_REMOVED && !match))
      next(e, (Str){text.p + from, to - from}, step, start && !from);
    if (s->behaviour == SPLIT_ISOLATED || s->behaviour == SPLIT_REMOVED) continue;
    bool joins = s->behaviour == SPLIT_WITH_PREVIOUS ? match && !was_match
                 : s->behaviour == SPLIT_WITH_NEXT   ? was_match && !match
                                                     : match == was_match;
    if (kept >= 0 && !joins) {
      next(e, (Str){text.p + kept, kept_to - kept}, step, start && !kept);
      kept = -1;
    }
    if (kept < 0) kept = from;
    kept_to = to;
    was_match = match;
  }
  if (kept >= 0) next(e, (Str){text.p + kept, kept_to - kept}, step, start && !kept);
}

// ---- PRE_METASPACE ----
static void metaspace(Encoder *e, Str text, int64_t step) {
  const PreStep *s = &e->t->pre[step];
  bool start = e->at_start;
  Bytes *b = &e->step[step];
  b->n = 0;
  bytes_room(b, text.n + s->text.n);
  bool marked =
      text.p[0] == ' ' || (text.n >= s->text.n && !memcmp(text.p, s->text.p, (size_t)s->text.n));
  if (!marked && (s->scheme == PREPEND_ALWAYS || (s->scheme == PREPEND_FIRST && start)))
    bytes_put_str(b, s->text);
  for (int64_t i = 0; i < text.n;) {
    const char *p = memchr(text.p + i, ' ', (size_t)(text.n - i));
    int64_t end = p ? p - text.p : text.n;
    bytes_put(b, text.p + i, end - i);
    if (p) bytes_put_str(b, s->text);
    i = end + (p != NULL);
  }
  Str all = bytes_str(b);
  if (!s->split) {
    next(e, all, step, start);
    return;
  }
  for (int64_t from = 0, to; from < all.n; from = to) {
    for (to = from + 1; to < all.n; to++)
      if (all.n - to >= s->text.n && all.p[to] == s->text.p[0] &&
          !memcmp(all.p + to, s->text.p, (size_t)s->text.n))
        break;
    next(e, (Str){all.p + from, to - from}, step, start && !from);
  }
}

static void map_bytes(Encoder *e, Str text, int64_t step) {
  Bytes *b = &e->step[step];
  b->n = 0;
  bytes_room(b, text.n * 2);
  for (int64_t i = 0; i < text.n; i++) bytes_put_char(b, byte_to_char((uint8_t)text.p[i]));
  next(e, bytes_str(b), step, e->at_start);
}

void pretokenise(Encoder *e, Str text, int64_t step) {
  if (!text.n) return;
  if (step == e->t->npre) {
    encoder_piece(e, text);
    return;
  }
  const PreStep *s = &e->t->pre[step];
  switch (s->kind) {
  case PRE_SPLIT: split(e, text, step); return;
  case PRE_METASPACE: metaspace(e, text, step); return;
  case PRE_BYTES: map_bytes(e, text, step); return;
  case PRE_PREFIX_SPACE:
    if (text.p[0] != ' ') {
      Bytes *b = &e->step[step];
      b->n = 0;
      bytes_put(b, " ", 1);
      bytes_put_str(b, text);
      text = bytes_str(b);
    }
    next(e, text, step, e->at_start);
    return;
  }
}
