// parse_tile.c -- tile statements out of text (tile.h has it): the record is read, and its loops
// are written from it as templates do.
//
// Symbols and variables of the loops that the text does not name are new ones: variables behind the
// highest of the text, symbols with a prime.
#include "loop/parse.h"

enum {
  MOST_ROWS = 1024,         // of a tile
  MOST_PLACES = 1 << 20,    // of an axis, its taps and its channels
  MOST_STRIDE = INT32_MAX,  // of a window's pixels and lines
};

// ---- what the text does not name ----

// Once: the text is gone over as a whole.
static void reserve_vars(Parser *p) {
  int64_t most = p->var.n;
  for (const char *c = p->begin; !p->reserved && p->end - c > 2; c++) {
    int64_t n = 0;
    if (c[0] != '%' || c[1] != 'v') continue;
    for (const char *d = c + 2; d < p->end && *d >= '0' && *d <= '9' && n < LOOP_MAX_VARS; d++)
      n = n * 10 + (*d - '0');
    most = MAX(most, MIN(n, LOOP_MAX_VARS) + 1);
  }
  while (p->var.n < most) vec_push(p->arena, &p->var, TENON_DTYPE_NONE);
  p->reserved = true;
}

static int32_t read_var(void *ctx, DType t) {
  Parser *p = ctx;
  vec_push(p->arena, &p->var, t);
  return (int32_t)(p->var.n - 1);
}

static Dim read_sym(void *ctx, Dim like, Dim extent) {
  Parser *p = ctx;
  const char *name = str_printf(p->arena, "%.*s'", STR_ARG(((Str){like->name, like->value})));
  while (strmap_has(&p->pool->syms, str_of(name))) name = str_printf(p->arena, "%s'", name);
  return ie_sym(p->pool, str_of(name), 0, loop_sym_hi(extent));
}

// ---- heads ----

typedef struct Head {
  LoopMmaKind kind;
  LoopTileSchedule s;
  Dim sym[3], extent[3];
} Head;

static tenon_status parse_kind(Parser *p, LoopMmaKind *out) {
  Str w = parser_word(p);
  for (int i = 0; i < MMA_KINDS; i++)
    if (str_is(w, loop_mma[i].word)) {
      *out = (LoopMmaKind)i;
      p->at += w.n;
      return TENON_OK;
    }
  return parser_fail(p, w.p, "'%.*s' is no kind of products", STR_ARG(w));
}

static tenon_status parse_range(Parser *p, int64_t lo, int64_t hi, int64_t *out) {
  parser_skip(p);
  const char *start = p->at;
  TRY(parser_i64(p, out));
  if (*out >= lo && *out <= hi) return TENON_OK;
  return parser_fail(p, start, "%lld is not in [%lld, %lld]", (long long)*out, (long long)lo,
                     (long long)hi);
}

// `stages=4 warpgroups=2`, in any order.
static tenon_status parse_schedule(Parser *p, LoopTileSchedule *s) {
  static const struct {
    const char *name;
    size_t at;
  } field[] = {
#define F(name, dflt, doc) {#name, offsetof(LoopTileSchedule, name)},
      LOOP_TILE_SCHEDULE(F)
#undef F
  };
  for (Str w; (w = parser_word(p)).n;) {
    int i = 0;
    int64_t value = 0;
    while (i < ARRAY_LEN(field) && !str_is(w, field[i].name)) i++;
    if (i == ARRAY_LEN(field))
      return parser_fail(p, w.p, "a tile's schedule has no '%.*s'", STR_ARG(w));
    p->at += w.n;
    TRY(parser_need(p, '='));
    TRY(parse_range(p, 0, MOST_ROWS, &value));
    *(int *)(void *)((char *)s + field[i].at) = (int)value;
  }
  return TENON_OK;
}

// No tile holds another: attention's score is copied, with all that is in it.
static tenon_status parse_head(Parser *p, Head *h) {
  if (p->in_tile) return parser_fail(p, p->at, "a tile statement in another");
  *h = (Head){0};
#define F(name, dflt, doc) h->s.name = dflt;
  LOOP_TILE_SCHEDULE(F)
#undef F
  TRY(parser_need(p, '='));
  TRY(parse_kind(p, &h->kind));
  TRY(parser_need_word(p, "over"));
  for (int i = 0; i < 3; i++) {
    if (i) TRY(parser_need(p, ','));
    parser_skip(p);
    const char *start = p->at;
    TRY(parser_loop_sym(p, &h->sym[i], &h->extent[i]));
    if (i < 2 && (!ie_is_const(h->extent[i]) || h->extent[i]->value > MOST_ROWS))
      return parser_fail(p, start, "the sizes of a tile are numbers up to %d", MOST_ROWS);
  }
  h->s.m = (int)h->extent[0]->value;
  h->s.n = (int)h->extent[1]->value;
  TRY(parse_schedule(p, &h->s));
  return parser_need(p, '{');
}

static LoopTile *open_tile(Parser *p, LoopStmtKind kind, const Head *h) {
  LoopTile *t = loop_tile_open(&p->b, kind, &h->s, h->sym[0], h->sym[1]);
  p->in_tile = true;
  t->kind = (uint8_t)h->kind;
  return t;
}

static tenon_status parse_row(Parser *p, LoopTileOperand *o) {
  LoopBound g = {0};
  TRY(parser_guard(p, &g));
  o->sym = g.sym;
  o->row = g.value;
  o->rows = g.extent;
  return TENON_OK;
}

static tenon_status parse_epilogue(Parser *p) {
  TRY(parser_block(p));
  loop_tile_end(&p->b);
  p->in_tile = false;
  return parser_need(p, '}');
}

// ---- MMA tiles ----

static tenon_status parse_pair(Parser *p, const char *word, int64_t lo, int64_t *out) {
  TRY(parser_need_word(p, word));
  TRY(parse_range(p, lo, MOST_PLACES, &out[0]));
  TRY(parser_need(p, ','));
  return parse_range(p, lo, MOST_PLACES, &out[1]);
}

static tenon_status parse_window(Parser *p, LoopWindow *w) {
  TRY(parser_need_word(p, "images"));
  TRY(parser_dim(p, &w->images));
  TRY(parser_need_word(p, "channels"));
  TRY(parse_range(p, 1, MOST_PLACES, &w->channels));
  TRY(parser_need_word(p, "pixel"));
  TRY(parse_range(p, 1, MOST_STRIDE, &w->pixel));
  TRY(parser_need_word(p, "line"));
  TRY(parse_range(p, 1, MOST_STRIDE, &w->line));
  TRY(parse_pair(p, "in", 1, w->in));
  TRY(parse_pair(p, "out", 1, w->out));
  TRY(parse_pair(p, "taps", 1, w->taps));
  TRY(parse_pair(p, "stride", 1, w->stride));
  TRY(parse_pair(p, "dilation", 1, w->dilation));
  return parse_pair(p, "lo", -MOST_PLACES, w->lo);
}

static tenon_status parse_base(Parser *p, LoopTileOperand *o) {
  if (parser_take_word(p, "base")) {
    TRY(parser_dim(p, &o->base));
    TRY(parser_need_word(p, "of"));
    TRY(parser_dim(p, &o->all));
  }
  return parser_take_word(p, "first") ? parser_dim(p, &o->first) : TENON_OK;
}

static tenon_status parse_operand(Parser *p, const char *name, LoopTileOperand *o) {
  TRY(parser_need_word(p, name));
  o->form = parser_take_word(p, "value")    ? TILE_VALUE
            : parser_take_word(p, "window") ? TILE_WINDOW
                                            : TILE_MATRIX;
  if (o->form == TILE_MATRIX) TRY(parser_need_word(p, "matrix"));
  if (o->form != TILE_VALUE) TRY(parser_buffer(p, &o->buffer));
  TRY(parser_need(p, '['));
  TRY(parse_row(p, o));
  TRY(parser_need(p, ']'));
  if (o->form == TILE_WINDOW) TRY(parse_window(p, &o->window));
  if (o->form == TILE_MATRIX) {
    TRY(parser_need_word(p, "stride"));
    TRY(parser_dim(p, &o->stride));
  }
  if (o->form != TILE_VALUE) return parse_base(p, o);
  TRY(parser_need(p, '='));
  return parser_value(p, &o->value);
}

tenon_status parser_mma(Parser *p) {
  Head h;
  int32_t var;
  TRY(parser_var(p, &var));
  TRY(parse_head(p, &h));
  LoopTile *t = open_tile(p, LS_MMA, &h);
  loop_mma_open(&p->b, t, h.sym[2], h.extent[2]);
  TRY(parse_operand(p, "a", &t->a));
  TRY(parse_operand(p, "b", &t->b));
  t->sum->value = loop_mma_close(&p->b, t);
  t->sum->var = var;
  loop_close(&p->b);
  return parse_epilogue(p);
}

// ---- attention tiles ----

static tenon_status parse_dot(Parser *p, LoopTile *t) {
  LoopTileAttention *a = &t->attention;
  int32_t var;
  Dim d, size;
  TRY(parser_need_word(p, "dot"));
  TRY(parser_var(p, &var));
  TRY(parser_need_word(p, "over"));
  TRY(parser_loop_sym(p, &d, &size));
  a->product = loop_open_sum(&p->b, LOOP_add, d, size);
  a->size = ie_is_const(size) ? size->value : 0;
  TRY(parser_need_word(p, "of"));
  TRY(parser_value(p, &a->q));
  TRY(parser_need(p, ','));
  TRY(parser_value(p, &a->k));
  t->a.dtype = t->b.dtype = a->q->dtype;
  t->a.buffer = a->q->buffer;
  a->product->value = loop_attention_product(p->k, t);
  a->product->var = var;
  loop_close(&p->b);
  TRY(parser_need_word(p, "values"));
  TRY(parser_value(p, &a->v));
  t->b.buffer = a->v->buffer;
  return TENON_OK;
}

static tenon_status parse_box(Parser *p, LoopTileAttention *a) {
  static const char *const operand[] = {"q", "k", "v"};
  int i = 0;
  Str w = parser_word(p);
  while (i < 3 && !str_is(w, operand[i])) i++;
  if (i == 3) return parser_expected(p, "q, k or v");
  LoopTileBox *b = &a->box[i];
  p->at += w.n;
  TRY(parser_need_word(p, "at"));
  TRY(parser_dim(p, &b->z));
  TRY(parser_need(p, ','));
  TRY(parser_dim(p, &b->x));
  TRY(parser_need_word(p, "of"));
  TRY(parser_dim(p, &b->outer));
  TRY(parser_need(p, ','));
  TRY(parser_dim(p, &b->rows));
  TRY(parser_need(p, ','));
  b->is = true;
  return parse_range(p, 1, MOST_STRIDE, &b->stride);
}

tenon_status parser_attention(Parser *p) {
  Head h;
  int32_t total, sum;
  LoopFresh fresh = {read_var, read_sym, p};
  TRY(parser_var(p, &sum));
  TRY(parser_need_word(p, "total"));
  TRY(parser_var(p, &total));
  TRY(parse_head(p, &h));
  LoopTile *t = open_tile(p, LS_ATTENTION, &h);
  LoopTileAttention *a = &t->attention;
  t->depth = h.extent[2];
  loop_open_sum(&p->b, LOOP_max, h.sym[2], h.extent[2]);
  TRY(parser_need_word(p, "rows"));
  TRY(parse_row(p, &t->a));
  TRY(parser_need_word(p, "columns"));
  TRY(parse_row(p, &t->b));
  a->columns = ie_is_const(t->b.rows) ? t->b.rows->value : 0;
  TRY(parse_dot(p, t));
  while (parser_take_word(p, "box")) TRY(parse_box(p, a));
  TRY(parser_block(p));
  TRY(parser_need_word(p, "score"));
  TRY(parser_value(p, &a->score));
  reserve_vars(p);
  loop_attention_close(&p->b, t, &fresh, 2, total, sum);
  return parse_epilogue(p);
}
