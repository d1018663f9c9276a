// emit.c -- statements as C-family text: loops, vectors, reductions, thread loops, checks.
//
// A `vector` loop runs in chunks of lanes.  Chunks are unrolled where the extent is a small
// constant or a register tile is indexed by them, else they are a loop.  A tail of known length is
// halved repeatedly, any other goes element by element.  A loop whose lanes diverge is tried as a
// vector first; then its text is discarded and it becomes a plain loop.
//
// Needs:      a kernel that loop_verify accepts; emit_kernel.c has set up the CEmit.
// Guarantees: the order of every sum is the tree's, in vector and plain form.  In a thread block a
//             failed check skips the rest of its block, and all threads reach every barrier.
#include "loop/span.h"
#include "loop/survey.h"
#include "targets/cstyle/emit.h"

static int open_block(CEmit *e, const LoopBlock *b);
static void emit_threads(CEmit *e, const LoopStmt *s);
static void close_block(CEmit *e, int opened);

// ---- what a body needs ----

// Bytes that a conversion computes with on its way: saturated integers and roundings to odd have 64
// bits.
static int64_t cast_bytes(const LoopExpr *x) {
  DType from = x->src[0]->dtype, to = x->dtype;
  bool narrow = dtype_is_float(to) && dtype_bits(to) < 32;
  if (dtype_is_float(from) && dtype_is_int(to)) {
    LoopSpan s = loop_span(x->src[0]);
    return s.lo >= -0x1p31 && s.hi < 0x1p31 ? 4 : 8;
  }
  return narrow && dtype_bits(from) >= 32 && from != DT_F32 ? 8 : 1;
}

static int64_t width_of(const LoopExpr *x) {
  int64_t w = cs_bytes(x->dtype);
  if (loop_computes(x) && dtype_is_float(x->dtype)) w = MAX(w, 4);  // narrow floats: in f32
  return x->kind == LX_OP && x->op == LOOP_cast ? MAX(w, cast_bytes(x)) : w;
}

static LoopSurvey survey(CEmit *e, const LoopStmt *s) {
  LoopSurvey r = loop_survey(e->k, e->arena, s, width_of);
  if (s->kind == LS_REDUCE && dtype_is_float(s->value->dtype)) r.widest = MAX(r.widest, 4);
  return r;
}

static int lanes_for(const CEmit *e, const LoopSurvey *s) {
  return (int)MIN(MAX(e->c->vector_bytes / s->widest, 1), e->sp->lanes);
}

// ---- loops ----

static void set_number(CEmit *e, Dim sym, int64_t v) {
  e->sym[sym->slot] = (CSym){.kind = CSYM_NUMBER, .value = v};
}

static void emit_serial(CEmit *e, const LoopStmt *s) {
  if (ie_is(s->extent, 0)) return;
  if (s->loop == LOOP_SERIAL && s->in_flight > 1 && e->sp->extension &&
      e->sp->extension->prefetch_loop(e, s))
    return;
  if (ie_is(s->extent, 1)) {
    set_number(e, s->sym, 0);
    cs_block(e, &s->body);
    return;
  }
  const char *n = cs_dim(e, s->extent), *v = cs_name(e, s->sym->name);
  if (s->loop == LOOP_UNROLL && e->sp->unroll) cs_line(e, "%s", e->sp->unroll);
  cs_open(e, "for (%s %s = 0; %s < %s; %s++) {", e->index, v, v, n, v);
  cs_set_text(e, s->sym, v);
  cs_block(e, &s->body);
  cs_close(e);
}

static bool all_prefetch(const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++)
    if (b->v[i]->kind != LS_PREFETCH && (b->v[i]->kind != LS_FOR || !all_prefetch(&b->v[i]->body)))
      return false;
  return true;
}

bool cs_only_prefetches(const LoopBlock *b) {
  return b->n > 0 && b->v[0]->kind == LS_FOR && b->v[0]->loop == LOOP_THREAD &&
         all_prefetch(&b->v[0]->body);
}

static void emit_parallel(CEmit *e, const LoopStmt *s) {
  if (e->tile) {
    e->sp->extension->tile(e, s, e->tile);
    return;
  }
  const char *v = cs_name(e, s->sym->name);
  cs_open(e, "%s", cs_replace(e, e->threads ? e->sp->block_items : e->sp->items, v));
  cs_set_text(e, s->sym, v);
  LoopBlock rest = s->body;
  for (; cs_only_prefetches(&rest); rest.n--) emit_threads(e, *rest.v++);
  if (rest.n < s->body.n && e->c->dependent_launch) cs_line(e, "%s", e->sp->wait_previous);
  cs_block(e, &rest);
  cs_close(e);
}

// Each thread of the thread block by itself, when what others stored before is there.
static void emit_threads(CEmit *e, const LoopStmt *s) {
  uint64_t fences = 0;
  if (!e->threads) {
    emit_serial(e, s);
    return;
  }
  if (intmap_get(&e->barrier, (uint64_t)(uintptr_t)s, &fences) && fences)
    cs_line(e, "%s", e->sp->barrier[fences - 1]);
  const char *v = cs_name(e, s->sym->name);
  cs_open(e, "{");
  cs_line(e, "const %s %s = %s;", e->index, v, e->sp->thread);
  cs_set_text(e, s->sym, v);
  e->thread = s->sym;
  cs_block(e, &s->body);
  e->thread = NULL;
  cs_close(e);
}

static void emit_unrolled(CEmit *e, const LoopStmt *s) {
  if (!e->vectors) {
    if (cs_pack_loop(e, s)) return;
    emit_serial(e, s);
    return;
  }
  if (!ie_is_const(s->extent)) {
    cs_fail(e, "an unrolled loop has no constant extent");
    return;
  }
  e->chunked |= s->extent->value > 1;
  for (int64_t i = 0; i < s->extent->value && !e->status; i++) {
    set_number(e, s->sym, i);
    cs_block(e, &s->body);
  }
}

// ---- reductions ----

static CVal identity(CEmit *e, LoopOp op, DType t) {
  double f = 0;
  int64_t i = 0;
  if (!loop_identity(op, t, &f, &i)) cs_fail(e, "%s does not reduce", loop_op_name[op]);
  return cs_constant(e, t, f, i);
}

// acc = op(acc, value)
static void reduce_into(CEmit *e, const LoopStmt *s, CVal acc) {
  cs_new_statement(e, s->value);
  CVal v = cs_expr(e, s->value);
  if (acc.lanes) v = cs_widen(e, v);
  CVal r = cs_op(e, (LoopOp)s->op, s->value->dtype, acc, v, v);
  if (r.lanes && r.dtype == DT_BOOL) r = cs_mask(e, r, acc.mask);
  cs_line(e, "%s = %s;", acc.text, r.text);
}

static void reduce_serial(CEmit *e, const LoopStmt *s) {
  DType t = s->value->dtype;
  const char *name = cs_name(e, str_printf(e->arena, "v%d", s->var));
  CVal first = cs_widen(e, identity(e, (LoopOp)s->op, t));
  CVal acc = {.text = name, .dtype = t, .lanes = first.lanes, .mask = first.mask};
  cs_line(e, "%s %s = %s;",
          acc.lanes && t == DT_BOOL ? cs_mask_type(e, acc.mask, acc.lanes)
                                    : cs_type(e, t, acc.lanes),
          name, first.text);
  if (!ie_is(s->extent, 0)) {
    const char *n = cs_dim(e, s->extent), *v = cs_name(e, s->sym->name);
    cs_open(e, "for (%s %s = 0; %s < %s; %s++) {", e->index, v, v, n, v);
    cs_set_text(e, s->sym, v);
    int opened = open_block(e, &s->body);
    reduce_into(e, s, acc);
    close_block(e, opened);
    cs_close(e);
  }
  e->var[s->var] = acc;
}

// Elements from `from` on, one by one, into the partial results `part`.
static void reduce_rest(CEmit *e, const LoopStmt *s, const char *part, const char *from) {
  const char *n = cs_dim(e, s->extent), *v = cs_name(e, s->sym->name);
  CVal acc = {.text = str_printf(e->arena, "%s[%s %% %d]", part, v, s->lanes),
              .dtype = s->value->dtype};
  cs_open(e, "for (%s %s = %s; %s < %s; %s++) {", e->index, v, from, v, n, v);
  cs_set_text(e, s->sym, v);
  int opened = open_block(e, &s->body);
  reduce_into(e, s, acc);
  close_block(e, opened);
  cs_close(e);
}

// p[j] = op(p[j], p[j + lanes/2]), and so on.
static void join_halves(CEmit *e, const LoopStmt *s, const char *part) {
  DType t = s->value->dtype;
  const char *h = cs_name(e, "half"), *j = cs_name(e, "j");
  cs_open(e, "for (int %s = %d; %s > 0; %s /= 2) {", h, s->lanes / 2, h, h);
  cs_open(e, "for (int %s = 0; %s < %s; %s++) {", j, j, h, j);
  CVal x = {.text = str_printf(e->arena, "%s[%s]", part, j), .dtype = t};
  CVal y = {.text = str_printf(e->arena, "%s[%s + %s]", part, j, h), .dtype = t};
  cs_line(e, "%s = %s;", x.text, cs_op(e, (LoopOp)s->op, t, x, y, y).text);
  cs_close(e);
  cs_close(e);
  e->var[s->var] = (CVal){.text = str_printf(e->arena, "%s[0]", part), .dtype = t};
}

static void reduce_plain(CEmit *e, const LoopStmt *s) {
  DType t = s->value->dtype;
  const char *part = cs_name(e, "part"), *i = cs_name(e, "i");
  cs_line(e, "%s %s[%d];", cs_type(e, t, 0), part, s->lanes);
  cs_line(e, "for (int %s = 0; %s < %d; %s++) %s[%s] = %s;", i, i, s->lanes, i, part, i,
          identity(e, (LoopOp)s->op, t).text);
  reduce_rest(e, s, part, "0");
  join_halves(e, s, part);
}

// Halves of a warp exchange what they have: all of them get the sum of all.  Where the order of two
// operands matters the lower thread's comes first, as it does in memory.
static void reduce_shuffled(CEmit *e, const LoopStmt *s) {
  DType t = s->value->dtype;
  LoopOp op = (LoopOp)s->op;
  const char *name = cs_name(e, str_printf(e->arena, "v%d", s->var)), *type = cs_type(e, t, 0);
  bool either = !dtype_is_float(t) || op == LOOP_add || op == LOOP_mul;
  CVal x = {.text = name, .dtype = t};
  e->buffer_used[s->value->buffer] = true;
  cs_line(e, "%s %s = %s[0];", type, name, e->buffer[s->value->buffer]);
  for (int half = s->lanes / 2; half > 0; half /= 2) {
    const char *other = cs_name(e, "other");
    cs_line(e, "const %s %s = %s;", type, other,
            cs_replace(e, e->sp->shuffle, str_printf(e->arena, "%s, %d", name, half)));
    CVal y = {.text = other, .dtype = t};
    const char *sum = cs_op(e, op, t, x, y, y).text;
    if (!either)
      sum = str_printf(e->arena, "%s & %d ? %s : %s", e->sp->thread, half,
                       cs_op(e, op, t, y, x, x).text, sum);
    cs_line(e, "%s = %s;", name, sum);
  }
  e->var[s->var] = x;
}

// ---- chunks of lanes ----

typedef struct Chunks {
  const LoopStmt *s;
  int lanes;  // of a vector
  int round;  // elements of a round: a multiple of lanes, or for a loop equal to them
  CVal *acc;  // a reduction's partial results, round / lanes of them; NULL: none
} Chunks;

// The elements base + at .. base + at + lanes - 1; base NULL: 0.
static void emit_chunk(CEmit *e, const Chunks *c, const char *base, int64_t at, int part) {
  e->lanes = c->lanes == 1 ? 0 : c->lanes;
  e->sym[c->s->sym->slot] = (CSym){
      .kind = base ? CSYM_TEXT : CSYM_NUMBER, .varies = e->lanes > 0, .text = base, .value = at};
  cs_block(e, &c->s->body);
  if (c->acc) reduce_into(e, c->s, c->acc[part]);
  e->lanes = 0;
}

static void emit_rounds(CEmit *e, const Chunks *c, const char *whole) {
  const char *v = cs_name(e, c->s->sym->name);
  cs_open(e, "for (%s %s = 0; %s < %s; %s += %d) {", e->index, v, v, whole, v, c->round);
  for (int part = 0; part < c->round / c->lanes; part++)
    emit_chunk(e, c, v, (int64_t)part * c->lanes, part);
  cs_close(e);
}

static void emit_written_out(CEmit *e, const Chunks *c, int64_t rounds) {
  for (int64_t r = 0; r < rounds; r++)
    for (int part = 0; part < c->round / c->lanes && !e->not_vector; part++)
      emit_chunk(e, c, NULL, r * c->round + (int64_t)part * c->lanes, part);
}

// The last elements of a loop of known length, by halves.
static void emit_rest(CEmit *e, const Chunks *c, int64_t at, int64_t rest) {
  Chunks less = *c;
  for (less.lanes = c->lanes / 2; less.lanes; less.lanes /= 2) {
    if (!(rest & less.lanes)) continue;
    emit_chunk(e, &less, NULL, at, 0);
    at += less.lanes;
  }
}

static bool is_small(const Chunks *c, const LoopSurvey *sv, int64_t rounds) {
  return sv->tile || rounds <= 1 ||
         (rounds * (c->round / c->lanes) <= 8 && rounds * sv->nodes <= 64);
}

static void vector_loop(CEmit *e, const LoopStmt *s, int lanes, const LoopSurvey *sv) {
  Chunks c = {.s = s, .lanes = lanes, .round = lanes};
  if (ie_is_const(s->extent)) {
    int64_t n = s->extent->value, rounds = n / lanes;
    if (is_small(&c, sv, rounds))
      emit_written_out(e, &c, rounds);
    else
      emit_rounds(e, &c, str_printf(e->arena, "%lld", (long long)(rounds * lanes)));
    emit_rest(e, &c, rounds * lanes, n % lanes);
    return;
  }
  const char *whole = cs_name(e, "whole"), *n = cs_dim(e, s->extent), *v;
  cs_line(e, "const %s %s = (%s) / %d * %d;", e->index, whole, n, lanes, lanes);
  emit_rounds(e, &c, whole);
  v = cs_name(e, s->sym->name);
  cs_open(e, "for (%s %s = %s; %s < %s; %s++) {", e->index, v, whole, v, n, v);
  cs_set_text(e, s->sym, v);
  cs_block(e, &s->body);
  cs_close(e);
}

static void vector_reduce(CEmit *e, const LoopStmt *s, int lanes, const LoopSurvey *sv) {
  int n = s->lanes / lanes;
  DType t = s->value->dtype;
  CVal acc[LOOP_LANES];
  const char *part = cs_name(e, "part"), *whole;
  if (t == DT_BOOL) e->not_vector = true;
  e->lanes = lanes;
  CVal first = cs_widen(e, identity(e, (LoopOp)s->op, t));
  for (int i = 0; i < n; i++) {
    acc[i] = (CVal){.text = cs_name(e, "sum"), .dtype = t, .lanes = lanes};
    cs_line(e, "%s %s = %s;", cs_type(e, t, lanes), acc[i].text, first.text);
  }
  e->lanes = 0;
  Chunks c = {.s = s, .lanes = lanes, .round = s->lanes, .acc = acc};
  int64_t rest = 1;
  if (ie_is_const(s->extent)) {
    int64_t rounds = s->extent->value / c.round;
    rest = s->extent->value % c.round;
    whole = str_printf(e->arena, "%lld", (long long)(rounds * c.round));
    if (is_small(&c, sv, rounds))
      emit_written_out(e, &c, rounds);
    else
      emit_rounds(e, &c, whole);
  } else {
    whole = cs_name(e, "whole");
    cs_line(e, "const %s %s = (%s) / %d * %d;", e->index, whole, cs_dim(e, s->extent), c.round,
            c.round);
    emit_rounds(e, &c, whole);
  }
  const char *local = cs_type(e, t, 0);
  cs_line(e, "%s %s[%d];", local, part, s->lanes);
  for (int i = 0; i < n; i++) {
    helper_need(e->c, "store", t, lanes);
    cs_line(e, "tn_store_%s(%s + %d, %s);", cs_type(e, t, lanes) + 3, part, i * lanes, acc[i].text);
  }
  if (rest) reduce_rest(e, s, part, whole);
  join_halves(e, s, part);
}

// ---- a vector, or else a plain loop ----

typedef struct Mark {
  int64_t text, uses;
} Mark;

static Mark mark(const CEmit *e) { return (Mark){e->out->n, e->c->use.n}; }
static void go_back(CEmit *e, Mark m) {
  e->out->n = m.text;
  if (e->out->p) e->out->p[m.text] = 0;
  e->c->use.n = m.uses;
  e->not_vector = false;
}

static void emit_vector(CEmit *e, const LoopStmt *s) {
  LoopSurvey sv = survey(e, s);
  int lanes = lanes_for(e, &sv);
  Mark m = mark(e);
  if (e->vectors && ie_is_const(s->extent))
    while (lanes > s->extent->value && lanes > 1) lanes /= 2;
  if (e->vectors && (lanes > 1 || sv.tile)) {
    bool before = e->chunked;
    vector_loop(e, s, lanes, &sv);
    e->chunked = true;
    if (!e->not_vector) return;
    go_back(e, m);
    e->chunked = before;
  }
  emit_serial(e, s);
}

static void emit_reduce(CEmit *e, const LoopStmt *s) {
  if (e->shuffled && s->value->kind == LX_LOAD && e->shuffled[s->value->buffer]) {
    reduce_shuffled(e, s);
    return;
  }
  if (s->lanes <= 1) {
    reduce_serial(e, s);
    return;
  }
  if (e->lanes) {  // no loop of such lanes may lie in a vector
    e->not_vector = true;
    return;
  }
  LoopSurvey sv = survey(e, s);
  int lanes = MIN(lanes_for(e, &sv), s->lanes);
  Mark m = mark(e);
  if (e->vectors && lanes > 1) {
    bool before = e->chunked;
    vector_reduce(e, s, lanes, &sv);
    e->chunked = true;
    if (!e->not_vector) return;
    go_back(e, m);
    e->chunked = before;
  }
  reduce_plain(e, s);
}

// ---- checks and branches ----

static void emit_let(CEmit *e, const LoopStmt *s) {
  CVal v = cs_expr(e, s->value);
  const char *name = cs_name(e, str_printf(e->arena, "v%d", s->var));
  cs_line(e, "const %s %s = %s;",
          v.dtype == DT_BOOL && v.lanes ? cs_mask_type(e, v.mask, v.lanes)
                                        : cs_type(e, v.dtype, v.lanes),
          name, v.text);
  if (!e->var_used[s->var]) cs_line(e, "(void)%s;", name);
  v.text = name;
  v.sum = false;
  v.constant = false;
  e->var[s->var] = v;
}

static void emit_bind(CEmit *e, const LoopStmt *s) {
  CVal v = cs_expr(e, s->value);
  const char *ext = cs_dim(e, s->extent), *raw = cs_name(e, "at"), *name = cs_name(e, s->sym->name);
  if (v.lanes) e->not_vector = true;
  cs_line(e, "const int64_t %s = (int64_t)(%s);", raw, v.text);
  cs_fault(e, str_printf(e->arena, "%s < 0 || %s >= (int64_t)(%s)", raw, raw, ext), s->check);
  cs_line(e, "const %s %s = (%s)%s;", e->index, name, e->index, raw);
  cs_line(e, "(void)%s;", name);
  cs_set_text(e, s->sym, name);
}

static void emit_if(CEmit *e, const LoopStmt *s) {
  CVal cond = cs_expr(e, s->value);
  if (cond.lanes) {
    e->not_vector = true;
    return;
  }
  cs_open(e, "if (%s) {", cond.text);
  cs_block(e, &s->body);
  if (s->orelse.n) {
    e->indent--;
    cs_open(e, "} else {");
    cs_block(e, &s->orelse);
  }
  cs_close(e);
}

static void emit_prefetch(CEmit *e, const LoopStmt *s) {
  if ((!e->vectors && !e->threads) || !e->sp->prefetch) return;
  CLin at = cs_lin(e, s->index);
  e->buffer_used[s->buffer] = true;
  cs_line(e, "%s(%s + (%s));", e->sp->prefetch, e->buffer[s->buffer], cs_lin_text(e, at));
}

static void emit_where(CEmit *e, const LoopStmt *s) {
  const char *n = cs_dim(e, s->extent), *value = cs_dim(e, s->index);
  const char *v = cs_name(e, s->sym->name);
  cs_line(e, "const %s %s = %s;", e->index, v, value);
  cs_open(e, s->index->lo >= 0 ? "if (%s < %s) {" : "if (%s < %s && %s >= 0) {", v, n, v);
  cs_set_text(e, s->sym, v);
  e->divergent++;
  cs_block(e, &s->body);
  e->divergent--;
  cs_close(e);
}

static void emit_for(CEmit *e, const LoopStmt *s) {
  switch ((LoopKind)s->loop) {
  case LOOP_SERIAL: emit_serial(e, s); break;
  case LOOP_THREAD: emit_threads(e, s); break;
  case LOOP_WHERE: emit_where(e, s); break;
  case LOOP_PARALLEL: emit_parallel(e, s); break;
  case LOOP_UNROLL: emit_unrolled(e, s); break;
  case LOOP_VECTOR: emit_vector(e, s); break;
  }
}

static void emit_stmt(CEmit *e, const LoopStmt *s) {
  cs_new_statement(e, s->kind == LS_FOR || s->kind == LS_REDUCE ? NULL : s->value);
  switch ((LoopStmtKind)s->kind) {
  case LS_FOR: emit_for(e, s); break;
  case LS_LET: emit_let(e, s); break;
  case LS_BIND: emit_bind(e, s); break;
  case LS_STORE: cs_store(e, s); break;
  case LS_IF: emit_if(e, s); break;
  case LS_REDUCE: emit_reduce(e, s); break;
  case LS_PREFETCH: emit_prefetch(e, s); break;
  case LS_MMA:
  case LS_ATTENTION:
    cs_block(e, &s->body);
    break;  // without tensor cores: the extension has others
  }
}

// The statements of a block, and blocks that were opened within: in a thread block a check that
// fails leaves out what follows it there, since all threads must go on to where they wait for each
// other.
static int open_block(CEmit *e, const LoopBlock *b) {
  int opened = 0;
  for (int64_t i = 0; i < b->n && !e->status && !e->not_vector; i++) {
    emit_stmt(e, b->v[i]);
    opened += e->threads && b->v[i]->kind == LS_BIND;
  }
  return opened;
}

static void close_block(CEmit *e, int opened) {
  while (opened-- > 0) cs_close(e);
}

void cs_block(CEmit *e, const LoopBlock *b) { close_block(e, open_block(e, b)); }
