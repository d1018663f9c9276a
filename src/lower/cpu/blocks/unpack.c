// unpack.c -- blocks of ggml's types as words of four bytes, with their scales, in scratch.
//
// A vector's lanes are rows of the matrix.  Words that follow one another in each row are loaded
// row by row and transposed in registers (targets/llvm/emit_transpose.c); all else is done on four
// bytes of a lane at once.  The tables of the layouts are ggml's (eval/ggml.c has them in plain C).
//
// Plain types are copied as they are, and a word's elements are made floats where they are used.
//
// Needs:      rows of the matrix that exist: the caller sees to the last ones.
// Guarantees: bytes are q plus the bias of the layout, in order of K; nothing is read outside of
//             the block.
#include "lower/cpu/blocks/blocks.h"

#include <math.h>

enum { FOUR = 4, HEAD = 4 };  // HEAD: words in front of the quants of K types that hold scales
enum { AT_ONCE = 8 };         // words of a plain type that are copied at a time

static Dim num(const Unpack *u, int64_t v) { return ie_const(u->p, v); }
static Dim plus(const Unpack *u, Dim x, Dim y) { return ie_add(u->p, x, y); }
static Dim times(const Unpack *u, Dim x, int64_t by) { return ie_mulc(u->p, x, by); }

int64_t unpacked_each(const Unpack *u) {
  return FOUR / (u->layout->plain ? elem_bytes(u->layout->plain) : 1);
}
static int64_t block_words(const Unpack *u) { return u->t->block / unpacked_each(u); }
static int64_t block_parts(const Unpack *u) { return u->t->block / u->t->part; }

Dim unpacked_word(const Unpack *u, Dim at, Dim word, Dim col) {
  return plus(u, times(u, plus(u, times(u, at, block_words(u)), word), u->cols), col);
}

Dim unpacked_part(const Unpack *u, Dim at, Dim part, Dim col) {
  return plus(u, times(u, plus(u, times(u, at, block_parts(u)), part), u->cols), col);
}

Dim unpacked_block(const Unpack *u, Dim at, Dim col) { return plus(u, times(u, at, u->cols), col); }

// ---- arithmetic on words ----

static const LoopExpr *u32(const Unpack *u, uint32_t v) { return loop_int(u->k, DT_U32, v); }

static const LoopExpr *right(const Unpack *u, const LoopExpr *x, int shift) {
  return loop_op(u->k, LOOP_shift_right, x, u32(u, (uint32_t)shift), NULL);
}
static const LoopExpr *left(const Unpack *u, const LoopExpr *x, int shift) {
  return loop_op(u->k, LOOP_shift_left, x, u32(u, (uint32_t)shift), NULL);
}
static const LoopExpr *mask(const Unpack *u, const LoopExpr *x, uint32_t m) {
  return loop_op(u->k, LOOP_bit_and, x, u32(u, m), NULL);
}
static const LoopExpr *with(const Unpack *u, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(u->k, LOOP_bit_or, x, y, NULL);
}

// Bits of each byte from `shift` on: x >> shift, or << -shift, under the mask of a byte.
static const LoopExpr *each(const Unpack *u, const LoopExpr *x, int shift, uint32_t byte) {
  return mask(u, shift < 0 ? left(u, x, -shift) : right(u, x, shift), byte * 0x01010101u);
}

// Of a word, byte i as an i32: as it is, or with its sign.
static const LoopExpr *byte_of(const Unpack *u, const LoopExpr *x, int i) {
  return loop_bit_cast(u->k, DT_I32, mask(u, right(u, x, 8 * i), 255));
}
static const LoopExpr *signed_byte(const Unpack *u, const LoopExpr *x, int i) {
  const LoopExpr *top = loop_bit_cast(u->k, DT_I32, left(u, x, 24 - 8 * i));
  return loop_op(u->k, LOOP_shift_right, top, loop_int(u->k, DT_I32, 24), NULL);
}
static const LoopExpr *less_by(const Unpack *u, const LoopExpr *x, int64_t by) {
  return loop_op(u->k, LOOP_sub, x, loop_int(u->k, DT_I32, by), NULL);
}

// The low 16 bits as an f16, in f32.
static const LoopExpr *half(const Unpack *u, const LoopExpr *x) {
  return loop_cast(u->k, DT_F32, loop_bit_cast(u->k, DT_F16, loop_cast(u->k, DT_U16, x)));
}
static const LoopExpr *negative(const Unpack *u, const LoopExpr *x) {
  return loop_op(u->k, LOOP_neg, x, NULL, NULL);
}

// ---- the block at hand ----

// Four bytes of a block, by lane.
static const LoopExpr *load(const Unpack *u, Dim col, Dim byte) {
  Dim block = plus(u, u->block, u->at), row = plus(u, u->row, col);
  Dim at = plus(u, times(u, row, u->row_bytes), plus(u, times(u, block, u->t->bytes), byte));
  return loop_wide(u->k, loop_load(u->k, u->matrix, at));
}
static const LoopExpr *load_at(const Unpack *u, Dim col, int64_t byte) {
  return load(u, col, num(u, byte));
}

static void put_word(const Unpack *u, Dim col, Dim word, const LoopExpr *x) {
  loop_store(u->b, u->words, unpacked_word(u, u->at, word, col), x);
}
static void put_part(const Unpack *u, int32_t buffer, Dim col, int64_t part, const LoopExpr *x) {
  loop_store(u->b, buffer, unpacked_part(u, u->at, num(u, part), col), x);
}
static void put_block(const Unpack *u, int32_t buffer, Dim col, const LoopExpr *x) {
  loop_store(u->b, buffer, unpacked_block(u, u->at, col), x);
}

static Dim open_cols(const Unpack *u) { return loop_for(u->b, LOOP_VECTOR, "j", num(u, u->cols)); }
// Successive words of each row: `n` of them, from i = 0 up.
static Dim open_words(const Unpack *u, int64_t n) {
  return loop_for(u->b, LOOP_UNROLL, "i", num(u, n));
}
static void close(const Unpack *u, int loops) {
  while (loops--) loop_end(u->b);
}

// Bursts of prefetches while a block is unpacked.
static int64_t bursts(const Unpack *u) {
  int64_t words = block_words(u);
  return u->layout->plain ? words / MIN(words, AT_ONCE) : u->layout->bursts;
}

// A processor drops prefetches beyond some 20 lines at a time.
enum { LINE = 64, BURST_MOST = 12 };

static int64_t lines(const Unpack *u, int64_t parts) {
  int64_t bytes = u->cols * u->row_bytes, each = u->row_bytes / u->t->bytes * parts * LINE;
  return (bytes + each - 1) / each;
}

// Bursts of a block: where they would be long, some are issued while it is multiplied.
static int64_t all_bursts(const Unpack *u) {
  int64_t n = bursts(u);
  return lines(u, n) > BURST_MOST ? n + block_parts(u) : n;
}

// Fetches a part of what the rows behind these have for this block: as many lines, in order of
// memory, which is that of the rows.
static void fetch_lines(const Unpack *u, Dim at, Dim i) {
  if (!u->prefetch) return;
  int64_t n = all_bursts(u), each = lines(u, n);
  Dim line = plus(u, times(u, plus(u, times(u, plus(u, u->block, at), n), i), each),
                  loop_for(u->b, LOOP_UNROLL, "l", num(u, each)));
  Dim behind = times(u, ie_addc(u->p, u->row, u->cols), u->row_bytes);
  loop_prefetch(u->b, u->matrix, plus(u, behind, times(u, line, LINE)));
  loop_end(u->b);
}

static void fetch(const Unpack *u, Dim i) { fetch_lines(u, u->at, i); }

bool unpack_fetches(const Unpack *u) { return u->prefetch && all_bursts(u) > bursts(u); }

void unpack_fetch(const Unpack *u, Dim at, Dim part) {
  fetch_lines(u, at, ie_addc(u->p, part, bursts(u)));
}

// ---- blocks of 32 ----

// d is an f16 in front, and behind it, where there is one, what is added to each element.
static void scales_32(const Unpack *u) {
  fetch(u, u->p->zero);
  Dim j = open_cols(u);
  const LoopExpr *w = loop_let(u->b, load_at(u, j, 0));
  put_block(u, u->d, j, half(u, w));
  if (u->less >= 0) put_block(u, u->less, j, half(u, right(u, w, 16)));
  close(u, 1);
}

// 16 bytes of two elements each: elements i and 16 + i.
static void nibbles_32(const Unpack *u, int64_t from) {
  Dim j = open_cols(u), i = open_words(u, 4);
  const LoopExpr *w = loop_let(u->b, load(u, j, ie_addc(u->p, times(u, i, 4), from)));
  put_word(u, j, i, each(u, w, 0, 15));
  put_word(u, j, ie_addc(u->p, i, 4), each(u, w, 4, 15));
  close(u, 2);
}

static void q4_0(Unpack *u) {
  scales_32(u);
  nibbles_32(u, 2);
}

static void q4_1(Unpack *u) {
  scales_32(u);
  nibbles_32(u, 4);
}

// Four bits become bit 4 of the four bytes: no two of the shifted ones meet.
static const LoopExpr *fifth_bits(const Unpack *u, const LoopExpr *bits, Dim i, int more) {
  LoopKernel *k = u->k;
  const LoopExpr *by = loop_cast(k, DT_U32, loop_index(k, ie_addc(u->p, times(u, i, 4), more)));
  const LoopExpr *four = mask(u, loop_op(k, LOOP_shift_right, bits, by, NULL), 15);
  return mask(u, loop_op(k, LOOP_mul, four, u32(u, 0x02040810u), NULL), 0x10101010u);
}

static void fives_32(const Unpack *u, int64_t high) {
  Dim j = open_cols(u);
  const LoopExpr *bits = loop_let(u->b, load_at(u, j, high));
  Dim i = open_words(u, 4);
  const LoopExpr *w = loop_let(u->b, load(u, j, ie_addc(u->p, times(u, i, 4), high + 4)));
  put_word(u, j, i, with(u, each(u, w, 0, 15), fifth_bits(u, bits, i, 0)));
  put_word(u, j, ie_addc(u->p, i, 4), with(u, each(u, w, 4, 15), fifth_bits(u, bits, i, 16)));
  close(u, 2);
}

static void q5_0(Unpack *u) {
  scales_32(u);
  fives_32(u, 2);
}

static void q5_1(Unpack *u) {
  scales_32(u);
  fives_32(u, 4);
}

static void q8_0(Unpack *u) {
  scales_32(u);
  Dim j = open_cols(u), i = open_words(u, 8);
  const LoopExpr *w = load(u, j, ie_addc(u->p, times(u, i, 4), 2));
  put_word(u, j, i, loop_op(u->k, LOOP_bit_xor, w, u32(u, 0x80808080u), NULL));
  close(u, 2);
}

// ---- K types ----

// `n` words from a byte of the block on, by lane, in the buffer `head`.
static void load_head(const Unpack *u, int64_t from) {
  Dim j = open_cols(u), i = open_words(u, HEAD);
  const LoopExpr *w = load(u, j, ie_addc(u->p, times(u, i, 4), from));
  loop_store(u->b, u->head, plus(u, times(u, i, u->cols), j), w);
  close(u, 2);
}
static const LoopExpr *head(const Unpack *u, Dim j, int64_t word) {
  return loop_let(u->b, loop_load(u->k, u->head, ie_addc(u->p, j, word * u->cols)));
}

// d and dmin are f16 in `w`.
static void put_scales(const Unpack *u, Dim j, const LoopExpr *w) {
  put_block(u, u->d, j, half(u, w));
  put_block(u, u->less, j, negative(u, half(u, right(u, w, 16))));
}

// Eight scales and minima of 6 bits in 12 bytes, behind d and dmin.
static void scales_mins(const Unpack *u) {
  load_head(u, 0);
  Dim j = open_cols(u);
  put_scales(u, j, head(u, j, 0));
  const LoopExpr *a = head(u, j, 1), *b = head(u, j, 2), *c = head(u, j, 3), *word[4];
  word[0] = each(u, a, 0, 63);
  word[1] = with(u, each(u, c, 0, 15), each(u, a, 2, 48));
  word[2] = each(u, b, 0, 63);
  word[3] = with(u, each(u, c, 4, 15), each(u, b, 2, 48));
  for (int w = 0; w < 4; w++) {
    const LoopExpr *four = loop_let(u->b, word[w]);
    for (int i = 0; i < 4; i++)
      put_part(u, w < 2 ? u->scale : u->least, j, w % 2 * 4 + i, byte_of(u, four, i));
  }
  close(u, 1);
}

static void q4_k(Unpack *u) {
  scales_mins(u);
  Dim g = loop_for(u->b, LOOP_SERIAL, "g", num(u, 4));
  fetch(u, g);
  Dim j = open_cols(u), i = open_words(u, 8);
  Dim byte = plus(u, times(u, g, 32), ie_addc(u->p, times(u, i, 4), 16));
  Dim to = plus(u, times(u, g, 16), i);
  const LoopExpr *w = loop_let(u->b, load(u, j, byte));
  put_word(u, j, to, each(u, w, 0, 15));
  put_word(u, j, ie_addc(u->p, to, 8), each(u, w, 4, 15));
  close(u, 3);
}

static void q5_k(Unpack *u) {
  scales_mins(u);
  for (int g = 0; g < 4; g++) {
    fetch(u, num(u, g));
    Dim j = open_cols(u), i = open_words(u, 8), four = times(u, i, 4);
    const LoopExpr *h = loop_let(u->b, load(u, j, ie_addc(u->p, four, 16)));
    const LoopExpr *w = loop_let(u->b, load(u, j, ie_addc(u->p, four, 48 + 32 * g)));
    put_word(u, j, ie_addc(u->p, i, 16 * g), with(u, each(u, w, 0, 15), each(u, h, 2 * g - 4, 16)));
    put_word(u, j, ie_addc(u->p, i, 16 * g + 8),
             with(u, each(u, w, 4, 15), each(u, h, 2 * g - 3, 16)));
    close(u, 2);
  }
}

static void q2_k(Unpack *u) {
  load_head(u, 0);
  Dim j = open_cols(u);
  put_scales(u, j, loop_let(u->b, load_at(u, j, 80)));
  for (int w = 0; w < 4; w++) {
    const LoopExpr *four = head(u, j, w);
    for (int i = 0; i < 4; i++) {
      const LoopExpr *byte = byte_of(u, four, i), *low = loop_int(u->k, DT_I32, 15);
      put_part(u, u->scale, j, 4 * w + i, loop_op(u->k, LOOP_bit_and, byte, low, NULL));
      put_part(u, u->least, j, 4 * w + i,
               loop_op(u->k, LOOP_shift_right, byte, loop_int(u->k, DT_I32, 4), NULL));
    }
  }
  close(u, 1);
  Dim h = loop_for(u->b, LOOP_SERIAL, "h", num(u, 2));
  fetch(u, h);
  j = open_cols(u);
  Dim i = open_words(u, 8), to = plus(u, times(u, h, 32), i);
  const LoopExpr *w =
      loop_let(u->b, load(u, j, plus(u, times(u, h, 32), ie_addc(u->p, times(u, i, 4), 16))));
  for (int s = 0; s < 4; s++) put_word(u, j, ie_addc(u->p, to, 8 * s), each(u, w, 2 * s, 3));
  close(u, 3);
}

static void q3_k(Unpack *u) {
  load_head(u, 94);  // two bytes of quants, the 12 of the scales, d
  Dim j = open_cols(u);
  const LoopExpr *w[4], *s[3];
  for (int i = 0; i < 4; i++) w[i] = head(u, j, i);
  for (int i = 0; i < 3; i++)
    s[i] = loop_let(u->b, with(u, right(u, w[i], 16), left(u, w[i + 1], 16)));
  put_block(u, u->d, j, half(u, right(u, w[3], 16)));
  for (int q = 0; q < 4; q++) {
    const LoopExpr *four =
        loop_let(u->b, with(u, each(u, s[q % 2], q / 2 * 4, 15), each(u, s[2], 2 * q - 4, 48)));
    for (int i = 0; i < 4; i++)
      put_part(u, u->scale, j, 4 * q + i, less_by(u, byte_of(u, four, i), 32));
  }
  close(u, 1);
  for (int h = 0; h < 2; h++) {
    fetch(u, num(u, h));
    j = open_cols(u);
    Dim i = open_words(u, 8), at = times(u, i, 4);
    const LoopExpr *high = loop_let(u->b, load(u, j, at));
    const LoopExpr *low = loop_let(u->b, load(u, j, ie_addc(u->p, at, 32 + 32 * h)));
    for (int q = 0; q < 4; q++)
      put_word(u, j, ie_addc(u->p, i, 32 * h + 8 * q),
               with(u, each(u, low, 2 * q, 3), each(u, high, 4 * h + q - 2, 4)));
    close(u, 2);
  }
}

static void q6_k(Unpack *u) {
  load_head(u, 192);
  Dim j = open_cols(u);
  put_block(u, u->d, j, half(u, right(u, load_at(u, j, 206), 16)));
  for (int w = 0; w < 4; w++) {
    const LoopExpr *four = head(u, j, w);
    for (int i = 0; i < 4; i++) put_part(u, u->scale, j, 4 * w + i, signed_byte(u, four, i));
  }
  close(u, 1);
  // Halves of the block, and halves of what their parts have: four of 16 elements each.
  Dim h = loop_for(u->b, LOOP_SERIAL, "h", num(u, 2)),
      c = loop_for(u->b, LOOP_SERIAL, "c", num(u, 2));
  fetch(u, plus(u, times(u, h, 2), c));
  j = open_cols(u);
  Dim i = plus(u, times(u, c, 4), open_words(u, 4)), four = times(u, i, 4);
  Dim to = plus(u, times(u, h, 32), i), low = plus(u, times(u, h, 64), four);
  const LoopExpr *a = loop_let(u->b, load(u, j, low));
  const LoopExpr *b = loop_let(u->b, load(u, j, ie_addc(u->p, low, 32)));
  const LoopExpr *d =
      loop_let(u->b, load(u, j, plus(u, times(u, h, 32), ie_addc(u->p, four, 128))));
  put_word(u, j, to, with(u, each(u, a, 0, 15), each(u, d, -4, 48)));
  put_word(u, j, ie_addc(u->p, to, 8), with(u, each(u, b, 0, 15), each(u, d, -2, 48)));
  put_word(u, j, ie_addc(u->p, to, 16), with(u, each(u, a, 4, 15), each(u, d, 0, 48)));
  put_word(u, j, ie_addc(u->p, to, 24), with(u, each(u, b, 4, 15), each(u, d, 2, 48)));
  close(u, 4);
}

// ---- types whose bits are places in a table ----

// Of the low half of each byte of x what stands there in a table, plus 128.
static const LoopExpr *looked_up(const Unpack *u, const LoopExpr *x, const int8_t *table) {
  const LoopExpr *half[2];
  for (int h = 0; h < 2; h++) {
    uint64_t bytes = 0;
    for (int i = 0; i < 8; i++) bytes |= (uint64_t)(table[8 * h + i] + 128) << 8 * i;
    half[h] = loop_int(u->k, DT_U64, (int64_t)bytes);
  }
  return loop_op(u->k, LOOP_lookup, x, half[0], half[1]);
}

// 16 bytes of a block of two elements each, from a byte on; they become words `to` and behind.
static void looked_up_32(const Unpack *u, Dim from, Dim to, const int8_t *table) {
  Dim j = open_cols(u), i = open_words(u, 4);
  const LoopExpr *w = loop_let(u->b, load(u, j, plus(u, from, times(u, i, 4))));
  put_word(u, j, plus(u, to, i), looked_up(u, w, table));
  put_word(u, j, plus(u, to, ie_addc(u->p, i, 4)), looked_up(u, right(u, w, 4), table));
  close(u, 2);
}

static void iq4_nl(Unpack *u) {
  scales_32(u);
  looked_up_32(u, num(u, 2), u->p->zero, ggml_iq4_levels);
}

static void iq4_xs(Unpack *u) {
  Dim j = open_cols(u);
  const LoopExpr *w = loop_let(u->b, load_at(u, j, 0)), *low = loop_let(u->b, load_at(u, j, 4));
  put_block(u, u->d, j, half(u, w));
  for (int k = 0; k < 8; k++) {
    const LoopExpr *six =
        with(u, mask(u, right(u, low, 4 * k), 15), left(u, mask(u, right(u, w, 16 + 2 * k), 3), 4));
    put_part(u, u->scale, j, k, less_by(u, loop_bit_cast(u->k, DT_I32, six), 32));
  }
  close(u, 1);
  Dim g = loop_for(u->b, LOOP_SERIAL, "g", num(u, 8));
  fetch(u, g);
  looked_up_32(u, ie_addc(u->p, times(u, g, 16), 8), times(u, g, 8), ggml_iq4_levels);
  loop_end(u->b);
}

// The scale is a power of two; what is below the normal numbers counts as 0.
static void mxfp4(Unpack *u) {
  LoopKernel *k = u->k;
  fetch(u, u->p->zero);
  Dim j = open_cols(u);
  const LoopExpr *e = byte_of(u, load_at(u, j, 0), 0);
  const LoopExpr *bits =
      loop_op(k, LOOP_shift_left, less_by(u, e, 1), loop_int(k, DT_I32, 23), NULL);
  const LoopExpr *least = loop_op(k, LOOP_lt, e, loop_int(k, DT_I32, 2), NULL);
  put_block(u, u->d, j,
            loop_bit_cast(k, DT_F32, loop_op(k, LOOP_select, least, loop_int(k, DT_I32, 0), bits)));
  close(u, 1);
  looked_up_32(u, num(u, 1), u->p->zero, ggml_e2m1_doubled);
}

// ---- plain types ----

// The scale of the tile that the block meets, by lane; NULL: there are none.
static const LoopExpr *tile_scale(const Unpack *u, Dim j) {
  if (u->tiles < 0) return NULL;
  Dim row = plus(u, u->row, j), block = plus(u, u->block, u->at);
  Dim tile = ie_div(u->p, times(u, block, u->t->block), num(u, u->tile_k));
  tile = plus(u, times(u, ie_div(u->p, row, num(u, u->tile_rows)), u->tiles_row), tile);
  return loop_load(u->k, u->tiles, tile);
}

// Of f8e4m3 floats are made 256 times too small, which the scale mends; where a byte is NaN it is
// NaN, and so is the sum that meets it.
static const LoopExpr *scale_e4m3(const Unpack *u, Dim j, const LoopExpr *scale) {
  LoopKernel *k = u->k;
  const LoopExpr *any = u32(u, 0);
  for (int64_t i = 0; i < block_words(u); i++) {
    const LoopExpr *w = loop_load(k, u->words, unpacked_word(u, u->at, num(u, i), j));
    w = loop_op(k, LOOP_add, mask(u, w, 0x7f7f7f7fu), u32(u, 0x01010101u), NULL);
    any = loop_let(u->b, with(u, any, w));
  }
  const LoopExpr *by = loop_float(k, DT_F32, 256);
  if (scale) by = loop_op(k, LOOP_mul, scale, by, NULL);
  const LoopExpr *bits = loop_bit_cast(k, DT_I32, mask(u, any, 0x80808080u));
  const LoopExpr *none = loop_op(k, LOOP_eq, bits, loop_int(k, DT_I32, 0), NULL);
  return loop_op(k, LOOP_select, none, by, loop_float(k, DT_F32, NAN));
}

static void plain_words(Unpack *u) {
  int64_t words = block_words(u), n = MIN(words, AT_ONCE);
  Dim g = loop_for(u->b, LOOP_SERIAL, "g", num(u, words / n));
  fetch(u, g);
  Dim j = open_cols(u), i = plus(u, times(u, g, n), open_words(u, n));
  put_word(u, j, i, load(u, j, times(u, i, FOUR)));
  close(u, 3);
  if (u->d < 0) return;
  j = open_cols(u);
  const LoopExpr *scale = tile_scale(u, j);
  put_block(u, u->d, j, u->layout->plain == DT_F8E4M3 ? scale_e4m3(u, j, scale) : scale);
  close(u, 1);
}

// Elements i and i + 2 of a word of f8e4m3, divided by 256, as two f16.
static const LoopExpr *e4m3_halves(const Unpack *u, const LoopExpr *w, int i) {
  const LoopExpr *x = i % 2 ? right(u, w, 8) : w;
  return with(u, left(u, mask(u, x, 0x00800080u), 8), left(u, mask(u, x, 0x007f007fu), 7));
}

static const LoopExpr *plain_float(const Unpack *u, const LoopExpr *w, int i) {
  LoopKernel *k = u->k;
  switch (u->layout->plain) {
  case DT_F32: return loop_bit_cast(k, DT_F32, w);
  case DT_BF16: return loop_bit_cast(k, DT_F32, i ? mask(u, w, 0xffff0000u) : left(u, w, 16));
  case DT_I8: return loop_cast(k, DT_F32, signed_byte(u, w, i));
  case DT_F8E5M2: return half(u, i ? mask(u, right(u, w, 8 * i - 8), 0xff00) : left(u, w, 8));
  case DT_F8E4M3: w = e4m3_halves(u, w, i); return half(u, i / 2 ? right(u, w, 16) : w);
  default: return half(u, i ? right(u, w, 16) : w);
  }
}

static const BlockLayout plain_layouts[] = {
    {.unpack = plain_words, .plain = DT_F32},    {.unpack = plain_words, .plain = DT_F16},
    {.unpack = plain_words, .plain = DT_BF16},   {.unpack = plain_words, .plain = DT_F8E4M3},
    {.unpack = plain_words, .plain = DT_F8E5M2}, {.unpack = plain_words, .plain = DT_I8},
};

const BlockLayout *block_plain(const GgmlType *t) {
  for (int i = 0; i < ARRAY_LEN(plain_layouts); i++)
    if (t->plain == plain_layouts[i].plain) return &plain_layouts[i];
  return NULL;
}

static const BlockLayout layouts[] = {
    // clang-format off
    // code bias scales unpack plain bursts
    {2,     8,   false, q4_0, 0, 1},
    {3,     0,   false, q4_1, 0, 1},
    {6,     16,  false, q5_0, 0, 1},
    {7,     0,   false, q5_1, 0, 1},
    {8,     128, false, q8_0, 0, 1},
    {10,    0,   true,  q2_k, 0, 2},
    {11,    4,   true,  q3_k, 0, 2},
    {12,    0,   true,  q4_k, 0, 4},
    {13,    0,   true,  q5_k, 0, 4},
    {14,    32,  true,  q6_k, 0, 4},
    {20,    128, false, iq4_nl, 0, 1},
    {23,    128, true,  iq4_xs, 0, 8},
    {39,    128, false, mxfp4, 0, 1},
    // clang-format on
};

const BlockLayout *block_layout(const GgmlType *t) {
  for (int i = 0; i < ARRAY_LEN(layouts); i++)
    if (&ggml_type[layouts[i].code] == t) return &layouts[i];
  return NULL;
}

// ---- slabs ----

static int32_t scratch(const Unpack *u, const char *name, DType t, int64_t rows) {
  return loop_buffer(u->k, LOOP_SCRATCH, name, t, num(u, rows * u->cols), false);
}

void unpack_buffers(Unpack *u) {
  int64_t parts = u->slab * block_parts(u);
  u->words = scratch(u, "words", DT_U32, u->slab * block_words(u));
  bool unscaled = u->layout->plain && u->layout->plain != DT_F8E4M3 && u->tiles < 0;
  u->d = unscaled ? -1 : scratch(u, "d", DT_F32, u->slab);
  u->scale = u->layout->scales ? scratch(u, "scale", DT_I32, parts) : -1;
  u->head = u->layout->scales ? scratch(u, "head", DT_U32, HEAD) : -1;
  u->least = u->layout->scales && u->t->has_less ? scratch(u, "least", DT_I32, parts) : -1;
  u->less = u->t->has_less ? scratch(u, "less", DT_F32, u->slab) : -1;
}

void unpack_slab(Unpack *u) {
  u->at = loop_for(u->b, LOOP_SERIAL, "b", num(u, u->slab));
  u->layout->unpack(u);
  loop_end(u->b);
}

const LoopExpr *unpacked_float(const Unpack *u, Dim at, Dim part, Dim word, int i, Dim col) {
  LoopKernel *k = u->k;
  const LoopExpr *w = loop_load(k, u->words, unpacked_word(u, at, word, col)), *d = NULL;
  if (u->d >= 0) d = loop_load(k, u->d, unpacked_block(u, at, col));
  if (u->layout->plain) {
    const LoopExpr *v = plain_float(u, w, i);
    return d ? loop_op(k, LOOP_mul, v, d, NULL) : v;
  }
  const LoopExpr *q = less_by(u, byte_of(u, w, i), u->layout->bias), *less = NULL;
  if (u->less >= 0) less = loop_load(k, u->less, unpacked_block(u, at, col));
  if (u->scale >= 0) {
    const LoopExpr *s = loop_load(k, u->scale, unpacked_part(u, at, part, col));
    d = loop_op(k, LOOP_mul, d, loop_cast(k, DT_F32, s), NULL);
  }
  if (u->least >= 0) {
    const LoopExpr *m = loop_load(k, u->least, unpacked_part(u, at, part, col));
    less = loop_op(k, LOOP_mul, less, loop_cast(k, DT_F32, m), NULL);
  }
  const LoopExpr *v = loop_op(k, LOOP_mul, d, loop_cast(k, DT_F32, q), NULL);
  return less ? loop_op(k, LOOP_add, v, less, NULL) : v;
}

// ---- the kernel's nodes ----

int32_t blocks_argument(const ElementBuilder *e, const Node *n) {
  while (elem_buffer(e, n) < 0 && elem_is_view(n)) n = n->src[0];
  return elem_buffer(e, n);
}

const Node *blocks_anchor(ElementBuilder *e, const Node *fused, int op) {
  const fused_attrs *at = fused->attrs;
  const Node *anchor = NULL;
  NodeList all = body_order(e->lo->g, at->body, e->a);
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != op) continue;
    if (anchor) return NULL;
    anchor = all.v[i];
  }
  return anchor;
}
