// build_states.c -- what recurrent layers keep from one step to the next, in graphs of rows of
// several sequences.
//
// A state is a tensor of slots, [M, heads, 32, w]: a slot has what one sequence keeps, heads * size
// elements, each head's padded to a multiple of 32.  It has the form of a KV cache in which a slot
// is a page, so that kv_append writes it in place, 32 pieces a sequence.
#include "models/build.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

enum { PIECES = LLM_PAGE };

int64_t lm_state_padded(int64_t size) { return (size + PIECES - 1) / PIECES * PIECES; }

int64_t llm_state_bytes(const LlmSpec *s) {
  const LlmRecurrent *r = &s->recurrent;
  int64_t bytes = 0, values = r->heads * r->head_size, keys = r->key_heads * r->state_size;
  for (int64_t i = 0; i < s->layers; i++) {
    if (s->layer[i].mixer <= LLM_MLA) continue;
    int64_t conv = lm_state_padded((values + 2 * keys) * (r->conv - 1));
    bytes += 4 * (conv + r->heads * lm_state_padded(r->state_size * r->head_size));
  }
  return bytes;
}

static Node *whole(Build *b, int64_t v) { return node_i64(b->g, v); }

static Node *counted(Build *b, Node *x) {  // 0 to the elements of x less one
  return N(b->g, range, whole(b, 0), N(b->g, size, x), whole(b, 1));
}

static Node *wide(Build *b, Node *x) { return NA(b->g, cast, (&(cast_attrs){.to = DT_I64}), x); }

static Node *rows_of(Build *b, Node *x, Node *which) {
  return NA(b->g, gather, (&(gather_attrs){.axis = 0}), x, which);
}

// ---- slots ----

Node *lm_state_read(Build *b, const char *letter, int64_t heads, int64_t size, LmState *out) {
  Graph *g = b->g;
  int64_t all = lm_state_padded(size);
  Dim dims[] = {ie_sym(&g->dims, STR("M"), 1, LLM_SIZE_MAX), ie_const(&g->dims, heads),
                ie_const(&g->dims, PIECES), ie_const(&g->dims, all / PIECES)};
  const char *name = str_printf(&g->arena, "%s.%lld", letter, (long long)b->layer);
  *out = (LmState){node_state(g, type_tensor(g, DT_F32, 4, dims), name), heads, size};
  vec_push(&g->arena, &b->param, out->state);
  Node *slots = RESHAPE(b, out->state, -1, heads * all), *zero = whole(b, 0);
  Node *from = wide(b, b->from), *old = rows_of(b, slots, N(g, max, from, zero));
  Node *begins = RESHAPE(b, N(g, lt, from, zero), -1, 1);
  old = N(g, where, begins, lm_number(b, 0), old);
  if (all == size) return old;
  int64_t parts[] = {size, all - size};
  Node *part[2];
  lm_split(b, RESHAPE(b, old, -1, heads, all), 2, 2, parts, part);
  return RESHAPE(b, part[0], -1, heads * size);
}

void lm_state_write(Build *b, const LmState *s, Node *next) {
  Graph *g = b->g;
  int64_t all = lm_state_padded(s->size);
  Node *x = RESHAPE(b, next, -1, s->heads, s->size);
  if (all != s->size) {
    Node *pads = node_i64s(g, 6, (int64_t[]){0, 0, 0, 0, 0, all - s->size});
    x = NA(g, pad, (&(pad_attrs){0}), x, pads);
  }
  x = TRANSPOSE(b, RESHAPE(b, x, -1, s->heads, PIECES, all / PIECES), 0, 2, 1, 3);
  Node *piece = N(g, range, whole(b, 0), whole(b, PIECES), whole(b, 1));
  Node *slot = N(g, mul, RESHAPE(b, wide(b, b->to), -1, 1), whole(b, PIECES));
  slot = RESHAPE(b, N(g, add, slot, RESHAPE(b, piece, 1, -1)), -1);
  slot = NA(g, cast, (&(cast_attrs){.to = DT_I32}), slot);
  x = RESHAPE(b, x, -1, s->heads, all / PIECES);
  vec_push(&g->arena, &b->next, N(g, kv_append, s->state, x, slot));
}

// ---- convolutions ----

// Rows of a sequence are one behind the other, so those of the sequences before are in front.
static void find_rows(Build *b) {
  Graph *g = b->g;
  if (b->begin) return;
  Node *seq = RESHAPE(b, wide(b, b->seq), 1, -1), *s = RESHAPE(b, counted(b, b->from), -1, 1);
  Node *axis = node_i64s(g, 1, (int64_t[]){1});
  reduce_attrs at = {.keepdims = false};
  b->begin = NA(g, reduce_sum, &at, wide(b, N(g, lt, seq, s)), axis);
  b->count = NA(g, reduce_sum, &at, wide(b, N(g, eq, seq, s)), axis);
}

// Of a row number `at` of its sequence (below 0: so many rows before this step), where it is among
// the rows that are kept, `kept` a sequence, and behind them those of this step.
static Node *place_of(Build *b, Node *at, Node *seq, Node *begin, int64_t kept) {
  Graph *g = b->g;
  Node *n = whole(b, kept), *all = N(g, mul, N(g, size, b->from), n);
  Node *now = N(g, add, all, N(g, add, begin, at));
  Node *before = N(g, add, N(g, mul, seq, n), N(g, add, n, at));
  return N(g, where, N(g, lt, at, whole(b, 0)), before, now);
}

// The last rows of each sequence, for the step after this one.
static Node *last_rows(Build *b, Node *rows, int64_t kept, int64_t channels) {
  Graph *g = b->g;
  Node *i = N(g, range, whole(b, 0), whole(b, kept), whole(b, 1));
  Node *offset = RESHAPE(b, N(g, sub, b->count, whole(b, kept)), -1, 1);
  Node *at = N(g, add, offset, RESHAPE(b, i, 1, -1));
  Node *seq = RESHAPE(b, counted(b, b->from), -1, 1);
  Node *place = place_of(b, at, seq, RESHAPE(b, b->begin, -1, 1), kept);
  return RESHAPE(b, rows_of(b, rows, RESHAPE(b, place, -1)), -1, kept * channels);
}

Node *lm_conv_rows(Build *b, Node *x, Node *w, int64_t channels, int64_t taps) {
  Graph *g = b->g;
  int64_t kept = taps - 1;
  LmState state;
  Node **tap = arena_array(&g->scratch, Node *, taps), *sum = NULL;
  int64_t *one = arena_array(&g->scratch, int64_t, taps);
  for (int64_t i = 0; i < taps; i++) one[i] = 1;
  lm_split(b, w, 1, (int)taps, one, tap);
  find_rows(b);
  Node *old = RESHAPE(b, lm_state_read(b, "c", 1, kept * channels, &state), -1, channels);
  Node *rows = NA(g, concat, (&(concat_attrs){.axis = 0}), old, x);
  Node *seq = wide(b, b->seq), *begin = rows_of(b, b->begin, seq);
  Node *own = N(g, sub, counted(b, b->seq), begin);
  for (int64_t i = 0; i < taps; i++) {
    Node *at = N(g, sub, own, whole(b, kept - i));
    Node *y = i < kept ? rows_of(b, rows, place_of(b, at, seq, begin, kept)) : x;
    y = N(g, mul, y, RESHAPE(b, tap[i], channels));
    sum = sum ? N(g, add, sum, y) : y;
  }
  lm_state_write(b, &state, last_rows(b, rows, kept, channels));
  return sum;
}
