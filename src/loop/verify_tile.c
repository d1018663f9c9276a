// verify_tile.c -- the lines of the verifier on tile statements (tile.h): the schedule is legal,
// operands are consistent, and the body is the record's.
//
// Accesses are proven where the body is walked over (verify.c); templates ask the same lines before
// they give a tile away.
#include "loop/impl.h"
#include "loop/prove.h"

// ---- schedules ----

static const char *check_size(const LoopTileSchedule *s) {
  if (s->warpgroups < 1 || s->warpgroups > 3) return "a tile has 1 to 3 consumer warpgroups";
  if (s->n < TILE_COLS || s->n > TILE_MOST_COLS || s->n % TILE_COLS)
    return "a tile has 32 to 256 columns, by 32";
  if (s->stages < 2 || s->stages > 8) return "a tile has 2 to 8 stages";
  if (s->m != TILE_ROWS * s->warpgroups && s->m != TILE_ROWS && !s->pingpong)
    return "a tile has 64 rows for each consumer warpgroup, or for all";
  return NULL;
}

// A warpgroup tells a stage's last two rounds apart, no more: it must have seen the one before
// itself, whatever came first.
static const char *check_split(const LoopTileSchedule *s) {
  bool splits = !s->pingpong && s->m < TILE_ROWS * s->warpgroups;
  if (splits && (s->stages % s->warpgroups || s->stages < 2 * s->warpgroups))
    return "where warpgroups split the depth a stage is always the same one's, and each has two or "
           "more";
  if (s->cluster < 1 || s->cluster > 8 || (s->cluster & (s->cluster - 1)))
    return "a cluster has 1, 2, 4 or 8 blocks";
  if (s->cluster > 1 && (s->m != TILE_ROWS || s->pingpong))
    return "cluster split-K has tiles of 64 rows, without ping-pong";
  return NULL;
}

static const char *check_pingpong(const LoopTileSchedule *s) {
  if (!s->pingpong) return NULL;
  if (s->pingpong != 1 || s->warpgroups != 1 || (s->m != TILE_ROWS && s->m != 2 * TILE_ROWS))
    return "ping-pong has one warpgroup for each tile, of 64 or 128 rows";
  if (s->m / TILE_ROWS * s->n > 2 * TILE_MOST_SUMS)
    return "ping-pong leaves a thread 192 registers for sums";
  return NULL;
}

const char *loop_mma_legal(LoopMmaKind kind, LoopTileForm form, const LoopTileSchedule *s) {
  const LoopMmaInfo *info = &loop_mma[kind];
  const char *why = check_size(s);
  if (!why) why = check_split(s);
  if (!why) why = check_pingpong(s);
  if (why) return why;
  if (s->split_kv) return "split-KV is attention's";
  if (s->cluster > 1 && s->warpgroups == 1)
    return "cluster split-K has two or three warpgroups, which split the depth too";
  if (s->n > info->most_cols || s->stages > info->most_stages)
    return "products of this kind take fewer columns or stages: sums or operands need more room";
  if (s->pingpong && (!info->pingpong || form == TILE_VALUE))
    return "ping-pong has operands that TMA fetches, and not of 3xtf32 or fp8";
  int most = kind == MMA_F32 && s->warpgroups == 2 ? 2 * TILE_ROWS : TILE_ROWS;
  if (!s->pingpong && s->m < TILE_ROWS * s->warpgroups && (s->n > most || form == TILE_VALUE))
    return "warpgroups split the depth of tiles of up to 64 columns, two of them of 3xtf32 up to "
           "128, whose operands TMA fetches";
  return NULL;
}

// ---- operands ----

static bool is_size(const LoopKernel *k, Dim d) {
  for (int32_t i = 0; i < k->ndims; i++)
    if (k->dim[i] == d) return true;
  return false;
}

bool loop_tile_counts(const LoopKernel *k, Dim d) {
  bool ok = d->nterms <= TILE_TERMS;
  for (int i = 0; i < d->nterms && ok; i++) {
    ok = d->term[i].natoms <= TILE_FACTORS;
    for (int j = 0; j < d->term[i].natoms && ok; j++) ok = is_size(k, d->term[i].atom[j]);
  }
  return ok;
}

static bool is_input(const LoopKernel *k, int32_t buffer) {
  return buffer >= 0 && buffer < k->nargs && !k->buffer[buffer].written;
}

// The row is a first one of the item's, and from there on the tile's variable.
static bool is_row(const LoopKernel *k, const LoopTileOperand *o, Dim var, Dim at) {
  Dim one, rest;
  return o->sym && o->row && o->rows && dim_split(k->pool, o->row, var, &one, &rest) &&
         ie_is(one, 1) && !dim_has(rest, var) && !dim_has(o->row, at);
}

// What an expression is made of.
typedef struct Parts {
  const LoopKernel *k;
  IntMap seen;  // expressions are a DAG
  Dim sym;      // that is looked for
  bool guarded, indexed, vars,
      written;  // it is a guard's, stands in an index; there are variables, loads of results
} Parts;

static void walk_parts(Parts *p, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(&p->seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(&p->seen, (uint64_t)(uintptr_t)x, 1);
  p->vars |= x->kind == LX_VAR;
  p->written |= x->kind == LX_LOAD && !is_input(p->k, x->buffer);
  p->indexed |= x->index && dim_has(x->index, p->sym);
  for (int i = 0; i < x->nguards; i++) {
    p->guarded |= x->guard[i].sym == p->sym;
    p->indexed |= dim_has(x->guard[i].value, p->sym);
  }
  for (int i = 0; i < ARRAY_LEN(x->src); i++) walk_parts(p, x->src[i]);
}

static Parts parts_of(const LoopKernel *k, Dim sym, const LoopExpr *x) {
  Parts p = {.k = k, .sym = sym};
  intmap_init(&p.seen, k->arena);
  walk_parts(&p, x);
  return p;
}

// A value's loads read inputs, one of them under the row's guard; no variable stands in it.
static bool is_value(const LoopKernel *k, const LoopExpr *x, Dim row) {
  Parts p = parts_of(k, row, x);
  return p.guarded && !p.vars && !p.written;
}

// What one batch or group begins with is the item's: of whole 16 bytes, and the matrix is the
// buffer.
static bool is_part(const LoopKernel *k, const LoopTileOperand *o, Dim var, Dim at) {
  Dim part[] = {o->base, o->first};
  for (int i = 0; i < 2; i++)
    if (part[i] && (dim_has(part[i], var) || dim_has(part[i], at) || dim_has(part[i], o->sym)))
      return false;
  int64_t bytes = dtype_bits(o->dtype) / 8;
  for (int i = 0; o->first && i < o->first->nterms; i++)
    if (o->first->term[i].coef * bytes % 16) return false;
  if (!o->base) return true;
  return o->form == TILE_MATRIX && o->all && loop_tile_counts(k, o->all) &&
         ie_mul(k->pool, o->all, o->stride) == k->buffer[o->buffer].size;
}

static bool is_window(const LoopKernel *k, const LoopTileOperand *o, Dim depth) {
  const LoopWindow *w = &o->window;
  IntPool *p = k->pool;
  return ie_is(depth, w->taps[0] * w->taps[1] * w->channels) &&
         o->rows == ie_mulc(p, w->images, w->out[0] * w->out[1]) &&
         k->buffer[o->buffer].size == ie_mulc(p, ie_mulc(p, w->images, w->in[0]), w->line);
}

static const char *check_operand(const LoopKernel *k, const LoopTileOperand *o, Dim var,
                                 const LoopStmt *sum) {
  Dim at = sum->sym;
  if (!is_row(k, o, var, at))
    return "the row of a tile's operand is the item's first and then the tile's variable";
  if (o->form == TILE_VALUE) {
    if (!o->value || !is_value(k, o->value, o->sym))
      return "a tile's operand that is a value reads inputs, guarded by its row";
    return NULL;
  }
  if (!is_input(k, o->buffer)) return "a tile's operand is an input of the kernel";
  if (!is_part(k, o, var, at))
    return "a batch or group of a tile's operand begins where the item says, in whole 16 bytes";
  if (o->form == TILE_WINDOW && !loop_tile_counts(k, o->window.images))
    return "TMA is told the number of a window's images as a sum of products of sizes";
  if (o->form == TILE_WINDOW && !is_window(k, o, sum->extent))
    return "a window's pixels are the rows, its taps and channels the depth, its images the buffer";
  if (o->form == TILE_MATRIX && !loop_tile_counts(k, o->rows))
    return "TMA is told the number of a matrix' rows as a sum of products of sizes";
  if (!loop_tile_is_element(k, o, at)) return "a tile's operand does not read what its record says";
  return NULL;
}

static const LoopExpr *under(const LoopExpr *x, LoopOp op) {
  return x->kind == LX_OP && x->op == op ? x->src[0] : NULL;
}

// Whether x is the operand as a factor of the product: rounded to tf32, or in the dtype of the
// sums.
static bool is_factor(LoopMmaKind kind, const LoopExpr *x, const LoopExpr *operand) {
  if (kind == MMA_TF32) x = under(x, LOOP_tf32);
  return x && (x == operand || under(x, LOOP_cast) == operand || x->kind == LX_CONST);
}

static bool is_product(LoopMmaKind kind, const LoopExpr *x, const LoopExpr *a, const LoopExpr *b) {
  return x && x->kind == LX_OP && x->op == LOOP_mul && is_factor(kind, x->src[0], a) &&
         is_factor(kind, x->src[1], b);
}

static const char *check_mma(const LoopKernel *k, const LoopTile *t) {
  LoopMmaKind kind = (LoopMmaKind)t->kind;
  const char *why = check_operand(k, &t->a, t->rows->sym, t->sum);
  if (!why && t->b.form != TILE_MATRIX) why = "the second operand of a tile is a matrix";
  if (!why) why = check_operand(k, &t->b, t->cols->sym, t->sum);
  if (why) return why;
  int64_t block = TILE_DEPTH_BYTES / loop_mma[kind].bytes;
  if (t->b.first && !(ie_is_const(t->sum->extent) && t->sum->extent->value % block == 0))
    return "a second operand of which columns are left out has whole blocks of the depth";
  if (!loop_mma_takes(kind, t->a.dtype, t->b.dtype))
    return "the kind of a tile's products does not take the types of its operands";
  if (t->sum->value->dtype != loop_mma[kind].sum || k->var[t->sum->var] != loop_mma[kind].sum)
    return "sums of int8 products are i32, all others f32";
  if (!is_product(kind, t->sum->value, t->a.value, t->b.value) || t->sum->body.n)
    return "the loops of a tile are not its record's";
  return loop_mma_legal(kind, (LoopTileForm)t->a.form, &t->s);
}

// ---- attention ----

static bool guarded_by(const LoopExpr *load, Dim sym) {
  bool found = false;
  for (int i = 0; i < load->nguards; i++) found |= load->guard[i].sym == sym;
  return found;
}

// Whether what is loaded differs from query to query of the tile.
static bool reads_row(const LoopExpr *load, const LoopTile *t) {
  bool reads = dim_has(load->index, t->rows->sym);
  for (int i = 0; i < load->nguards; i++) reads |= dim_has(load->guard[i].value, t->rows->sym);
  return reads;
}

// A load of which 16 bytes along a symbol may be copied at once.
static bool in_pieces(const LoopKernel *k, const LoopTile *t, const LoopExpr *load, Dim along) {
  Dim one, rest;
  if (!load || load->kind != LX_LOAD || load->src[0] || !is_input(k, load->buffer) ||
      load->dtype != t->a.dtype)
    return false;
  Dim piece = ie_const(k->pool, 16 / (dtype_bits(load->dtype) / 8));
  if (!dim_split(k->pool, load->index, along, &one, &rest) || !ie_is(one, 1) ||
      dim_has(rest, along) || !dim_divides(k->pool, piece, rest))
    return false;
  for (int i = 0; i < load->nguards; i++)
    if (load->guard[i].sym != along && dim_has(load->guard[i].value, along)) return false;
  return true;
}

static bool box_holds(const LoopKernel *k, const LoopTileBox *b, const LoopExpr *load, Dim row,
                      Dim along, int64_t width) {
  IntPool *p = k->pool;
  if (!b->is) return true;
  Dim line = ie_add(p, ie_mul(p, b->z, b->rows), row);
  Dim index = ie_add(p, ie_add(p, ie_mulc(p, line, b->stride), b->x), along);
  Dim all = ie_mulc(p, ie_mul(p, b->outer, b->rows), b->stride);
  return index == load->index && all == k->buffer[load->buffer].size && b->x->lo >= 0 &&
         b->x->hi <= b->stride - width && (width == TILE_BOX || width == 2 * TILE_BOX) &&
         loop_tile_counts(k, b->outer) && loop_tile_counts(k, b->rows);
}

static bool has_boxes(const LoopTile *t) {
  const LoopTileBox *b = t->attention.box;
  return b[0].is && b[1].is && b[2].is && t->kind == MMA_HALF && t->attention.columns == t->s.n;
}

// All keys in one stage.
static bool is_short(const LoopTile *t) {
  const LoopTileSchedule *s = &t->s;
  return has_boxes(t) && s->warpgroups == 1 && t->depth->hi >= 1 &&
         t->depth->hi <= TILE_SHORT_KEYS &&
         (loop_tile_short_keys(t) + s->n) / 2 <= TILE_SHORT_SUMS && s->m >= TILE_ROWS &&
         s->m % TILE_ROWS == 0 && s->m <= TILE_SHORT_TILES * TILE_ROWS;
}

static const char *check_attention_schedule(const LoopTile *t) {
  const LoopTileSchedule *s = &t->s;
  if (s->n != 64 && s->n != 128) return "a tile of attention has 64 or 128 columns";
  if (s->pingpong) return "a tile of attention has no ping-pong";
  if (s->stages == 1)
    return is_short(t) && !s->split_kv && s->cluster == 1
               ? NULL
               : "attention in one stage has one warpgroup, TMA boxes, up to 256 keys and 4 tiles "
                 "of 64 queries";
  const char *why = check_size(s);
  if (!why) why = check_split(s);
  if (why) return why;
  if (s->cluster != MAX(s->split_kv / 2, 1) || s->split_kv == 1 || s->split_kv % 2)
    return "split-KV has two parts in each block of its cluster";
  if (s->split_kv && (t->kind != MMA_HALF || s->m != TILE_ROWS || s->warpgroups != 1))
    return "split-KV has 64 queries of 16-bit types, and one warpgroup for each part";
  if (s->warpgroups > 1 && (!has_boxes(t) || s->m != TILE_ROWS * s->warpgroups))
    return "attention of several warpgroups has TMA boxes, and 64 queries for each of them";
  return NULL;
}

// The body computes the score three times for each column, tensor cores do it once: it has no
// effects.
static bool is_score(const LoopStmt *round) {
  bool ok = round->body.n > 0;
  for (int64_t i = 0; i < round->body.n && ok; i++) {
    const LoopStmt *s = round->body.v[i];
    ok = (s->kind == LS_LET || s->kind == LS_REDUCE) && !s->body.n;
  }
  return ok;
}

// Nor does it differ from column to column.
static bool is_of_row(const LoopKernel *k, const LoopTile *t) {
  Parts p = parts_of(k, t->cols->sym, t->attention.score);
  for (int64_t i = 0; i < t->sum->body.n; i++) walk_parts(&p, t->sum->body.v[i]->value);
  return !p.indexed && !p.written;
}

static const char *check_attention(const LoopKernel *k, const LoopTile *t) {
  const LoopTileAttention *a = &t->attention;
  LoopMmaKind kind = (LoopMmaKind)t->kind;
  Dim key = t->sum->sym, d = a->product->sym;
  int64_t piece = 16 / loop_mma[kind].bytes, most = TILE_KEYS * (kind == MMA_HALF ? 2 : 1);
  if (!is_score(t->sum))
    return "the score of attention has let statements and plain reductions alone";
  if (!is_of_row(k, t)) return "the score of attention reads inputs, the same for all columns";
  if (kind != MMA_HALF && kind != MMA_TF32 && kind != MMA_F32)
    return "attention multiplies 16-bit types, tf32 or 3xtf32";
  if (!is_row(k, &t->a, t->rows->sym, key) || t->b.row != t->cols->sym || !t->b.sym)
    return "the rows of attention are the item's first query and then the tile's variable, its "
           "columns the tile's";
  if (!in_pieces(k, t, a->q, d) || !in_pieces(k, t, a->k, d) || !in_pieces(k, t, a->v, t->b.sym) ||
      !loop_mma_takes(kind, t->a.dtype, a->v->dtype))
    return "operands of attention are loads of its type in whole 16 bytes";
  if (a->size % piece || a->size > most || a->columns % piece || a->columns > t->s.n)
    return "heads of attention are whole 16 bytes, of up to 128 elements of 16 bits or 64 of f32";
  if (!guarded_by(a->q, t->a.sym) || !guarded_by(a->v, t->b.sym) || reads_row(a->k, t) ||
      !ie_is(t->b.rows, a->columns) || !ie_is(a->product->extent, a->size))
    return "queries are guarded by their row, values by their column, and keys by neither";
  if (!box_holds(k, &a->box[0], a->q, t->a.sym, d, a->size) ||
      !box_holds(k, &a->box[1], a->k, key, d, a->size) ||
      !box_holds(k, &a->box[2], a->v, key, t->b.sym, a->columns))
    return "a TMA box does not hold what the operand of attention reads";
  if (!is_product(kind, a->product->value, a->q, a->k) || t->sum->value->kind != LX_OP ||
      !is_factor(kind, t->sum->value->src[1], a->v))
    return "the loops of a tile are not its record's";
  return check_attention_schedule(t);
}

// ---- the statement ----

static bool is_loop(const LoopStmt *s, const LoopBlock *b, int n) {
  return s && b->n == 1 && b->v[0] == s && s->kind == LS_FOR && s->loop == LOOP_SERIAL &&
         s->extent && ie_is(s->extent, n);
}

bool loop_tile_check(const LoopKernel *k, const LoopStmt *s, const char **why) {
  const LoopTile *t = s->tile;
  *why = "a tile statement has a record and its loops";
  if (!t || t->is_attention != (s->kind == LS_ATTENTION) || t->kind >= MMA_KINDS || !t->sum ||
      !is_loop(t->rows, &s->body, t->s.m) || !is_loop(t->cols, &t->rows->body, t->s.n) ||
      t->cols->body.n < t->after || t->cols->body.v[t->after - 1] != t->sum || !t->sum->value ||
      t->sum->var < 0 || t->sum->var >= k->nvars)
    return false;
  *why = t->is_attention ? check_attention(k, t) : check_mma(k, t);
  return !*why;
}

bool loop_kernel_tile(const LoopKernel *k, const char **why) {
  *why = "the kernel has no tile";
  return loop_tile_of(k) && loop_tile_check(k, k->body.v[0]->body.v[0], why);
}
