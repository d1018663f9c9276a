// emit_epilogue.c -- the epilogue of a tile statement, with vector loads and stores.
//
// The accumulator has the layout of the instruction: of every eight columns a thread has two, in
// two rows.  Threads exchange pairs of two times eight columns.  Then each has four contiguous
// columns, and four threads have 16 columns of a row.  So a row's loads and stores are vector
// accesses where the address is a multiple of four elements.
//
// Needs:      a straight-line epilogue of lets and stores for vectors, else element by element.
//             Row length must be a multiple of four; buffer alignment is tested when the kernel
//             runs.
// Guarantees: each element is stored once, by the thread that computed it.  A term that the result
//             overwrites is read before by that thread.  Rows and columns outside are not accessed.
#include "loop/prove.h"
#include "loop/tile.h"
#include "targets/cuda/emit.h"

enum { WARP_ROWS = 16, NEIGHBOURS = 4, PAIR = 2, PAIR_COLS = 16, STEP_COLS = 8 };

static bool divides(Dim size, int by) { return ie_is_const(size) && size->value % by == 0; }

// ---- neighbours ----

static const char *piece_type(DType t, int count) {
  int64_t bytes = count * cs_bytes(t);
  if (t == DT_BOOL) return NULL;
  return bytes == 4 ? "unsigned" : bytes == 8 ? "uint2" : bytes == 16 ? "uint4" : NULL;
}

// Where the neighbours begin, if they lie one after the other from a multiple of their number on.
static bool neighbours(CEmit *e, int32_t buffer, DType t, Dim index, const char **at) {
  EpilogueVector *w = cs_cuda(e)->vector;
  CSym *s = &e->sym[w->sym->slot], was = *s;
  const LoopBuffer *b = &e->k->buffer[buffer];
  bool before = e->not_vector;
  if (!piece_type(t, w->count) || b->space != LOOP_ARG || b->dtype != t) return false;
  *s = (CSym){.kind = CSYM_TEXT, .text = w->first, .varies = true};
  e->lanes = w->count;
  e->not_vector = false;
  CLin place = cs_place(e, buffer, index);
  bool found = !e->not_vector && place.stride == 1 && place.align % w->count == 0;
  e->not_vector = before;
  e->lanes = 0;
  *s = was;
  if (!found) return false;
  e->buffer_used[buffer] = true;
  w->pieces++;
  *at = str_printf(e->arena, "%s + %s", e->buffer[buffer], cs_operand(e, place));
  strbuf_printf(&w->odd, "%s(unsigned long long)%s %% %d", w->odd.n ? " | " : "", e->buffer[buffer],
                w->count * (int)cs_bytes(t));
  return true;
}

static const char *room(CEmit *e, StrBuf *out, const char *base, DType t) {
  const char *name = cs_name(e, base);
  strbuf_printf(out, "%*s__align__(16) %s %s[%d];\n", 2 * e->indent - 2, "", cs_type(e, t, 0), name,
                cs_cuda(e)->vector->count);
  return name;
}

enum { SUMS_WITH_ROOM = 128, SUMS_WITH_SOME = 160, SUMS_AND_EARLY = 184, SUMS_OF_WARPS = 96 };

static int sums_of_thread(const LoopTile *t) {
  return MAX(t->s.m / t->s.warpgroups, TILE_ROWS) * t->s.n / (2 * TILE_ROWS);
}

static bool differs_by_row(const LoopTile *t, const LoopExpr *x) {
  for (int i = 0; i < x->nguards; i++)
    if (x->guard[i].value == t->a.row && dim_has(x->index, x->guard[i].sym)) return true;
  return false;
}

// Whether the compiler may move a load over stores, and all of them to the beginning: what is not
// written here, where there are registers for it; where there are few, what comes from afar, which
// is not the same for all rows.  A term that the result lies over (plan/plan.h) counts as not
// written: an element is stored by the thread that has read it, and by no other.
static bool may_hoist(const CEmit *e, const LoopExpr *x) {
  int most = differs_by_row(e->tile, x) ? SUMS_WITH_SOME : SUMS_WITH_ROOM;
  if (cs_cuda(e)->cores.warps) most = SUMS_OF_WARPS;
  return !e->k->buffer[x->buffer].written && sums_of_thread(e->tile) <= most;
}

// The array in which a piece comes early, or NULL.
static const char *early_piece(CEmit *e, const LoopExpr *x, const char *at, const char *piece) {
  EarlyLoads *early = cs_cuda(e)->vector->early;
  if (!early || e->k->buffer[x->buffer].written || differs_by_row(e->tile, x)) return NULL;
  for (int i = 0; i < early->n; i++)
    if (early->known[i].buffer == x->buffer && early->known[i].index == x->index)
      return early->known[i].name;
  int registers = early->slots * cs_cuda(e)->vector->count * (int)cs_bytes(x->dtype) / 4;
  if (early->n == ARRAY_LEN(early->known) ||
      sums_of_thread(e->tile) + early->registers + registers > SUMS_AND_EARLY)
    return NULL;
  early->registers += registers;
  const char *name = cs_name(e, "early");
  int indent = 2 * e->indent - 2;
  strbuf_printf(&early->rooms, "%*s__align__(16) %s %s[%d][%d];\n", indent, "",
                cs_type(e, x->dtype, 0), name, early->slots, cs_cuda(e)->vector->count);
  strbuf_printf(
      &early->loads,
      "%*sif ((unsigned long long)%s %% %d == 0) *(%s *)%s[%s] = __ldg((const %s *)(%s));\n",
      indent, "", e->buffer[x->buffer], cs_cuda(e)->vector->count * (int)cs_bytes(x->dtype), piece,
      name, early->slot, piece, at);
  early->known[early->n].buffer = x->buffer;
  early->known[early->n].index = x->index;
  return early->known[early->n++].name = name;
}

// Whether TMA fetches it.
static bool comes_by_tma(const CEmit *e, const LoopExpr *x) {
  const LoopExpr *ring = cs_cuda(e)->epilogue_tma ? cs_cuda(e)->epilogue_tma->load : NULL;
  return ring && ring->buffer == x->buffer && ring->index == x->index;
}

bool cs_epilogue_load(CEmit *e, const LoopExpr *x, CVal *out) {
  EpilogueVector *w = cs_cuda(e)->vector;
  if (!w) return false;
  const char *at, *piece = piece_type(x->dtype, w->count);
  for (int i = 0; i < w->nstored; i++)  // what is stored comes later than it should
    if (w->stored[i] == x->buffer) w->failed = true;
  if (comes_by_tma(e, x)) {
    const char *name = room(e, &w->before, "in", x->dtype);
    strbuf_printf(&w->before, "%*stn_get(%s, (%s *)%s);\n", 2 * e->indent - 2, "",
                  cs_epilogue_tma_place(e), piece, name);
    w->pieces++;
    *out = (CVal){.text = str_printf(e->arena, "%s[%s]", name, w->round), .dtype = x->dtype};
    return true;
  }
  if (!neighbours(e, x->buffer, x->dtype, x->index, &at)) return false;
  const char *name = early_piece(e, x, at, piece);
  if (name) {
    *out = (CVal){.text = str_printf(e->arena, "%s[%s][%s]", name, w->early->slot, w->round),
                  .dtype = x->dtype};
    return true;
  }
  name = room(e, &w->before, "in", x->dtype);
  const char *load = may_hoist(e, x) ? "__ldg" : "*";
  strbuf_printf(&w->before, "%*s*(%s *)%s = %s((const %s *)(%s));\n", 2 * e->indent - 2, "", piece,
                name, load, piece, at);
  *out = (CVal){.text = str_printf(e->arena, "%s[%s]", name, w->round), .dtype = x->dtype};
  return true;
}

bool cs_epilogue_store(CEmit *e, const LoopStmt *s, CVal v) {
  EpilogueVector *w = cs_cuda(e)->vector;
  if (!w) return false;
  const char *at, *piece = piece_type(v.dtype, w->count);
  if (w->nstored == ARRAY_LEN(w->stored))
    w->failed = true;
  else
    w->stored[w->nstored++] = s->buffer;
  bool ring = cs_cuda(e)->epilogue_tma && cs_cuda(e)->epilogue_tma->store == s;
  if (!ring && !neighbours(e, s->buffer, v.dtype, s->index, &at)) return false;
  const char *name = room(e, &w->before, "out", v.dtype);
  cs_line(e, "%s[%s] = %s;", name, w->round, v.text);
  if (ring) {
    w->pieces++;
    strbuf_printf(&w->after, "%*stn_put(%s, *(const %s *)%s);\n", 2 * e->indent - 2, "",
                  cs_epilogue_tma_out(e), piece, name);
    return true;
  }
  strbuf_printf(&w->after, "%*s%s*(%s *)(%s) = *(const %s *)%s;\n", 2 * e->indent - 2, "",
                w->asks ? "if (tn_there) " : "", piece, at, piece, name);
  return true;
}

// ---- sums ----

typedef struct Sums {
  const LoopTile *t;
  LoopBlock rest;
  int blocks, pairs;   // of a warp: how many times its rows, and 16 columns
  const char *row;     // the first of a block's that a warp has
  int count;           // neighbours that a thread has
  const char *column;  // the first of those that a warp has
  const char *lane;    // and from there on the thread
  EarlyLoads *early;
  bool rows_inside, cols_inside;  // whatever the item
  bool stores_ask;  // whether a row is there, and nothing else does: it is computed for all
} Sums;

static bool is_straight(const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++)
    if (b->v[i]->kind != LS_LET && b->v[i]->kind != LS_STORE) return false;
  return true;
}

// A thread's four neighbours of 16 columns.
static void exchange(CEmit *e, const LoopTile *t) {
  const char *type = cs_tile_sum(t);
  cs_line(e, "const %s *const tn_d = tn_sum%s + tn_p * 8 + tn_h * 2;", type,
          t->is_attention ? "" : "[tn_b]");
  cs_line(e, "const %s tn_x = __shfl_xor_sync(~0u, tn_right ? tn_d[0] : tn_d[4], 1);", type);
  cs_line(e, "const %s tn_y = __shfl_xor_sync(~0u, tn_right ? tn_d[1] : tn_d[5], 1);", type);
  cs_line(e, "const %s tn_four[4] = {tn_right ? tn_x : tn_d[0], tn_right ? tn_y : tn_d[1],", type);
  cs_line(e, "                          tn_right ? tn_d[4] : tn_x, tn_right ? tn_d[5] : tn_y};");
}

// Written out, or as a loop, which is shorter.
static void each_neighbour(CEmit *e, const Sums *s, const char *j, bool loop) {
  const char *type = cs_tile_sum(s->t);
  cs_line(e, loop ? "#pragma unroll 1" : "#pragma unroll");
  cs_open(e, "for (int tn_v = 0; tn_v < %d; tn_v++) {", s->count);
  cs_line(e, "const int %s = tn_first + tn_v;", j);
  if (s->count == PAIR) {
    cs_line(e, "const %s tn_value = tn_d[tn_v];", type);
  } else {
    cs_line(e, "const %s tn_low = tn_v & 1 ? tn_four[1] : tn_four[0];", type);
    cs_line(e, "const %s tn_value = tn_v < 2 ? tn_low : tn_v & 1 ? tn_four[3] : tn_four[2];", type);
  }
  cs_set_text(e, s->t->cols->sym, j);
  e->var[s->t->sum->var] = (CVal){.text = "tn_value", .dtype = s->t->sum->value->dtype};
  cs_block(e, &s->rest);
  cs_close(e);
}

// False: memory does not go in pieces, and nothing is written.
static bool all_neighbours(CEmit *e, const Sums *s, const char *j, StrBuf *odd) {
  StrBuf body, *out = e->out;
  EpilogueVector w = {.sym = s->t->cols->sym,
                      .first = "tn_first",
                      .round = "tn_v",
                      .count = s->count,
                      .column = s->column,
                      .asks = s->stores_ask,
                      .early = s->early};
  strbuf_init(&body, e->arena);
  strbuf_init(&w.before, e->arena);
  strbuf_init(&w.after, e->arena);
  strbuf_init(&w.odd, e->arena);
  cs_cuda(e)->vector = &w;
  e->out = &body;
  each_neighbour(e, s, j, false);
  e->out = out;
  cs_cuda(e)->vector = NULL;
  if (w.failed || !w.pieces) return false;
  strbuf_put(out, strbuf_str(&w.before));
  strbuf_put(out, strbuf_str(&body));
  strbuf_put(out, strbuf_str(&w.after));
  *odd = w.odd;
  return true;
}

// Whether some of a thread's neighbours are there, and with `pieces` all of them; "": always.
static const char *asked(CEmit *e, const Sums *s, bool pieces) {
  const LoopTile *t = s->t;
  bool cols = pieces && !s->cols_inside, rows = !s->rows_inside && !(pieces && s->stores_ask);
  const char *col =
      cols ? str_printf(e->arena, "%s < %s", cs_dim(e, t->b.row), cs_dim(e, t->b.rows)) : "";
  return str_printf(e->arena, "%s%s%s", rows ? "tn_there" : "", rows && cols ? " && " : "", col);
}

typedef enum { IN_PIECES, ONE_BY_ONE, BRIEFLY } SumsForm;

// The row of a thread's elements.
static void put_row(CEmit *e, const Sums *s, const char *i) {
  const LoopTile *t = s->t;
  cs_line(e, "const int %s = %s + tn_h * 8 + (tn_lane >> 2);", i, s->row);
  cs_set_text(e, t->rows->sym, i);
  if (t->is_attention) {
    cs_line(e, "const float tn_total = tn_whole[tn_h];");
    e->var[t->attention.total->var] = (CVal){.text = "tn_total", .dtype = DT_F32};
  }
  if (!s->rows_inside)
    cs_line(e, "const bool tn_there = %s < %s;", cs_dim(e, t->a.row), cs_dim(e, t->a.rows));
}

// A thread's neighbours.  False: memory does not go in pieces.
static bool put_neighbours(CEmit *e, const Sums *s, SumsForm form, const char *j, StrBuf *odd) {
  bool done = true, pieces = form == IN_PIECES;
  cs_set_text(e, s->t->cols->sym, "tn_first");
  const char *there = asked(e, s, pieces);
  if (*there) cs_open(e, "if (%s) {", there);
  e->inside = CS_ROWS_INSIDE | (pieces || s->cols_inside ? CS_COLS_INSIDE : 0);
  if (pieces)
    done = all_neighbours(e, s, j, odd);
  else
    each_neighbour(e, s, j, form == BRIEFLY);
  e->inside = 0;
  if (*there) cs_close(e);
  return done;
}

static bool emit_elements(CEmit *e, const Sums *s, SumsForm form, StrBuf *odd) {
  const LoopTile *t = s->t;
  const char *i = cs_name(e, t->rows->sym->name), *j = cs_name(e, t->cols->sym->name);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int tn_p = 0; tn_p < %d; tn_p++) {", s->pairs);
  cs_line(e, "const int tn_first = %s + %s;", s->column, s->lane);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int tn_u = 0; tn_u < %d; tn_u++) {", 2 * s->blocks);
  cs_line(e, "const int tn_b = tn_u / 2, tn_h = tn_u %% 2;");
  put_row(e, s, i);
  exchange(e, t);
  bool done = put_neighbours(e, s, form, j, odd);
  cs_close(e);
  cs_close(e);
  return done;
}

// Reads what is the same for all rows; `loops` go over the groups of columns.
static void put_early(CEmit *e, const Sums *s, int n, const char *const *loops) {
  const LoopTile *t = s->t;
  if (!s->early || !s->early->n) return;
  strbuf_put(e->out, strbuf_str(&s->early->rooms));
  for (int i = 0; i < n; i++) {
    cs_line(e, "#pragma unroll");
    cs_open(e, "%s {", loops[i]);
  }
  cs_line(e, "const int tn_first = %s + %s;", s->column, s->lane);
  cs_set_text(e, t->cols->sym, "tn_first");
  if (!s->cols_inside) cs_open(e, "if (%s < %s) {", cs_dim(e, t->b.row), cs_dim(e, t->b.rows));
  strbuf_put(e->out, strbuf_str(&s->early->loads));
  if (!s->cols_inside) cs_close(e);
  for (int i = 0; i < n; i++) cs_close(e);
}

static void begin_early(CEmit *e, EarlyLoads *early, const char *slot, int slots) {
  *early = (EarlyLoads){.slot = slot, .slots = slots};
  strbuf_init(&early->rooms, e->arena);
  strbuf_init(&early->loads, e->arena);
}

// Elements in their register layout, box by box, which TMA then takes to memory.  Where
// registers are few, what is read early is that of a box.
static bool emit_boxes(CEmit *e, Sums *s, StrBuf *odd, StrBuf *before) {
  const LoopTile *t = s->t;
  const char *i = cs_name(e, t->rows->sym->name), *j = cs_name(e, t->cols->sym->name);
  int cols = cs_cuda(e)->epilogue_tma->out.cols, steps = cols / STEP_COLS, boxes = t->s.n / cols;
  bool all = before && sums_of_thread(t) <= SUMS_WITH_ROOM;
  const char *loops[] = {str_printf(e->arena, "for (int tn_c = 0; tn_c < %d; tn_c++)", boxes),
                         str_printf(e->arena, "for (int tn_p = 0; tn_p < %d; tn_p++)", steps)};
  StrBuf body, *out = e->out;
  EarlyLoads early;
  begin_early(e, &early, all ? str_printf(e->arena, "tn_c * %d + tn_p", steps) : "tn_p",
              all ? boxes * steps : steps);
  s->early = &early;
  strbuf_init(&body, e->arena);
  cs_line(e, "#pragma unroll");
  cs_open(e, "%s {", loops[0]);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int tn_b = 0; tn_b < %d; tn_b++) {", s->blocks);
  e->out = &body;
  cs_epilogue_tma_begin_box(e, t);
  cs_line(e, "#pragma unroll");
  cs_open(e, "%s {", loops[1]);
  cs_line(e, "const int tn_first = %s + %s;", s->column, s->lane);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int tn_h = 0; tn_h < 2; tn_h++) {");
  put_row(e, s, i);
  cs_line(e, "const %s *const tn_d = tn_sum[tn_b] + %s / 2 + tn_h * 2;", cs_tile_sum(t), s->column);
  bool done = put_neighbours(e, s, IN_PIECES, j, odd);
  cs_close(e);
  cs_close(e);
  cs_epilogue_tma_end_box(e, t);
  e->out = all ? before : out;
  put_early(e, s, all ? 2 : 1, all ? loops : loops + 1);
  e->out = out;
  strbuf_put(out, strbuf_str(&body));
  cs_close(e);
  cs_close(e);
  return done;
}

// Whether all of the tile lies within the result.
static const char *tile_is_inside(CEmit *e, const LoopTile *t) {
  e->sym[t->rows->sym->slot] = e->sym[t->cols->sym->slot] = (CSym){.kind = CSYM_NUMBER};
  return str_printf(e->arena, "%s + %d <= %s && %s + %d <= %s", cs_dim(e, t->a.row), t->s.m,
                    cs_dim(e, t->a.rows), cs_dim(e, t->b.row), t->s.n, cs_dim(e, t->b.rows));
}

// Whether threads themselves read what differs along an axis of the result.
static bool reads_along(const CEmit *e, const LoopExpr *x, Dim place) {
  if (!x) return false;
  bool found = false, own = x->kind == LX_LOAD && !comes_by_tma(e, x);
  for (int i = 0; own && i < x->nguards; i++)
    found |= x->guard[i].value == place && dim_has(x->index, x->guard[i].sym);
  for (int i = 0; i < 3 && !found; i++) found = reads_along(e, x->src[i], place);
  return found;
}

// TMA takes nothing to memory that is not the result's: only what threads read has an
// end.
static bool threads_ask(const CEmit *e, const LoopTile *t, Dim place) {
  bool ask = false;
  LoopBlock epilogue = loop_tile_epilogue(t);
  for (int64_t i = 0; !ask && i < epilogue.n; i++)
    ask = reads_along(e, epilogue.v[i]->value, place);
  return ask;
}

bool cs_epilogue_reads_columns(const CEmit *e, const LoopTile *t) {
  return threads_ask(e, t, t->b.row);
}

// Where the number of rows is dynamic and threads read nothing of them, stores alone ask: one text
// does for all tiles, and a kernel whose text is short begins sooner.
static bool stores_can_ask(const CEmit *e, const Sums *s) {
  return s->cols_inside && !ie_is_const(s->t->a.rows) && !threads_ask(e, s->t, s->t->a.row);
}

// Tiles within the result ask for nothing, so that all that they read can be in flight at once;
// those at its edges ask for every row and piece.
static bool emit_pieces(CEmit *e, const Sums *s, StrBuf *odd) {
  Sums within = *s;
  if (s->rows_inside && s->cols_inside) return emit_elements(e, s, IN_PIECES, odd);
  if (stores_can_ask(e, s)) {
    within.stores_ask = true;
    return emit_elements(e, &within, IN_PIECES, odd);
  }
  within.rows_inside = within.cols_inside = true;
  cs_open(e, "if (%s) {", tile_is_inside(e, s->t));
  bool done = emit_elements(e, &within, IN_PIECES, odd);
  e->indent--;
  cs_open(e, "} else {");
  done = done && emit_elements(e, s, IN_PIECES, odd);
  cs_close(e);
  return done;
}

static bool emit_by_tma(CEmit *e, const Sums *s, StrBuf *odd, StrBuf *early) {
  Sums boxes = *s;
  boxes.count = PAIR;
  boxes.column = str_printf(e->arena, "(tn_c * %d + tn_p * %d)", cs_cuda(e)->epilogue_tma->out.cols,
                            STEP_COLS);
  boxes.lane = "(tn_lane & 3) * 2";
  boxes.rows_inside |= !threads_ask(e, s->t, s->t->a.row);
  boxes.cols_inside |= !threads_ask(e, s->t, s->t->b.row);
  return emit_boxes(e, &boxes, odd, early);
}

static bool emit_by_threads(CEmit *e, const Sums *s, StrBuf *odd, StrBuf *before) {
  Sums pieces = *s;
  EarlyLoads early;
  const char *loop = str_printf(e->arena, "for (int tn_p = 0; tn_p < %d; tn_p++)", s->pairs);
  begin_early(e, &early, "tn_p", s->pairs);
  if (before && sums_of_thread(s->t) <= SUMS_WITH_ROOM) pieces.early = &early;
  bool done = emit_pieces(e, &pieces, odd);
  StrBuf *out = e->out;
  e->out = before;
  put_early(e, &pieces, 1, &loop);
  e->out = out;
  return done;
}

void cs_epilogue(CEmit *e, const LoopTile *t, StrBuf *early) {
  EpiloguePlace place = {.blocks = MAX(t->s.m / (t->s.warpgroups * TILE_ROWS), 1),
                         .cols = t->s.n,
                         .row = str_printf(e->arena, "%s * %d + tn_warp * %d",
                                           t->s.pingpong ? "tn_b" : "tn_who", TILE_ROWS, WARP_ROWS),
                         .column = str_printf(e->arena, "(tn_p * %d)", PAIR_COLS)};
  cs_epilogue_at(e, t, &place, early);
}

void cs_epilogue_at(CEmit *e, const LoopTile *t, const EpiloguePlace *p, StrBuf *early) {
  Sums s = {.t = t,
            .rest = loop_tile_epilogue(t),
            .blocks = p->blocks,
            .pairs = p->cols / PAIR_COLS,
            .row = p->row,
            .count = NEIGHBOURS,
            .column = p->column,
            .lane = "(tn_lane & 1) * 8 + (tn_lane & 2) * 2",
            .rows_inside = divides(t->a.rows, t->s.m),
            .cols_inside = divides(t->b.rows, t->s.n)};
  StrBuf pieces, odd = {0}, *out = e->out;
  cs_line(e, "const bool tn_right = tn_lane & 1;");
  strbuf_init(&pieces, e->arena);
  e->out = &pieces;
  e->indent++;
  bool taken = cs_cuda(e)->epilogue_tma && cs_cuda(e)->epilogue_tma->store;
  bool found = (divides(t->b.rows, NEIGHBOURS) || taken) && is_straight(&s.rest) &&
               (taken ? emit_by_tma : emit_by_threads)(e, &s, &odd, early);
  e->indent--;
  e->out = out;
  if (!found) {
    if (early) early->n = 0;
    emit_elements(e, &s, ONE_BY_ONE, NULL);
    return;
  }
  if (!odd.n) {
    strbuf_put(out, strbuf_str(&pieces));
    return;
  }
  cs_open(e, "if ((%s) == 0) {", strbuf_text(&odd));
  strbuf_put(out, strbuf_str(&pieces));
  e->indent--;
  cs_open(e, "} else {");
  emit_elements(e, &s, BRIEFLY, NULL);
  cs_close(e);
}
