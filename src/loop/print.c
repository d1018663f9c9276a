// print.c -- kernels as text; parse.c reads it back.
//
//   kernel @norm dims(n in [1, 4096]) (%x: f32[64*n], out %y: f32[n]) {
//     schedule reduce lanes=16
//     scratch %t: f32[64]
//     parallel i < n {
//       reduce %v0: f32 = add lanes 16 over k < 64 {
//         yield mul(#0 = %x[64*i + k], #0)
//       }
//       store %y[i] = max(%v0, 0.0)
//     }
//   }
//
// A node that several others of one statement use is named where it first stands (`#0 = ...`), so
// the DAG is kept and the text is as long as the DAG, not as its tree.  A float is a whole number
// with `.0`, or in hexadecimal; one without a dtype is f32, an integer i64.  `[expr]` is an index
// as a value.  `wide` stands before a store or a load of several elements as one u32.  A line
// `schedule` says how the kernel was made; it has no meaning.  tile.h has the text of tile
// statements.
//
// Guarantees: the text depends on the kernel alone; reading it gives an equal kernel.
#include "loop/impl.h"

#include <math.h>

typedef struct Printer {
  const LoopKernel *k;
  StrBuf *out;
  IntMap uses;       // node -> statement << 32 | how often it is used there
  IntMap name;       // node -> statement << 32 | its number there
  uint64_t stmt;     // statements so far
  uint32_t nshared;  // of this statement
  int depth;
} Printer;

static void print_expr(Printer *p, const LoopExpr *e);

static void line_begin(Printer *p) {
  for (int i = 0; i < p->depth; i++) strbuf_puts(p->out, "  ");
}

// Kernels that are not whole are printed too, in messages of the verifier: what is missing is `?`.
static void print_dim(Printer *p, Dim e) {
  if (e)
    ie_print(p->out, e);
  else
    strbuf_putc(p->out, '?');
}

static const char *op_name(int op) { return op < LOOP_OP_COUNT ? loop_op_name[op] : "?"; }

static const char *var_dtype(const Printer *p, int32_t var) {
  return var >= 0 && var < p->k->nvars ? dtype_name(p->k->var[var]) : "?";
}

// ---- constants ----
static void print_float(StrBuf *b, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  if (isnan(v)) {
    strbuf_puts(b, "nan");
    if (bits != 0x7ff8000000000000) strbuf_printf(b, "(0x%llx)", (unsigned long long)bits);
    return;
  }
  if (signbit(v)) strbuf_putc(b, '-');
  v = fabs(v);
  if (isinf(v)) {
    strbuf_puts(b, "inf");
  } else if (v < 1e9 && v == floor(v)) {
    strbuf_printf(b, "%lld.0", (long long)v);
  } else {
    int e = (int)(bits >> 52 & 0x7ff);
    uint64_t m = bits & 0xfffffffffffff;
    int digits = 13;
    for (; digits > 0 && !(m & 0xf); digits--) m >>= 4;
    strbuf_printf(b, "0x%d", e != 0);
    if (digits) strbuf_printf(b, ".%0*llx", digits, (unsigned long long)m);
    strbuf_printf(b, "p%+d", (e ? e : 1) - 1023);
  }
}

static void print_const(Printer *p, const LoopExpr *e) {
  bool bare = e->dtype == DT_F32 || e->dtype == DT_I64;
  if (e->dtype == DT_BOOL) {
    strbuf_puts(p->out, e->i ? "true" : "false");
    return;
  }
  if (!bare) strbuf_printf(p->out, "%s(", dtype_name(e->dtype));
  if (dtype_is_float(e->dtype))
    print_float(p->out, e->f);
  else if (e->dtype == DT_U64)
    strbuf_printf(p->out, "%llu", (unsigned long long)e->i);
  else
    strbuf_printf(p->out, "%lld", (long long)e->i);
  if (!bare) strbuf_putc(p->out, ')');
}

// ---- expressions ----
static void count_uses(Printer *p, const LoopExpr *e) {
  if (!e || (e->kind != LX_OP && e->kind != LX_LOAD)) return;
  uint64_t key = (uint64_t)(uintptr_t)e, n = 0;
  bool seen = intmap_get(&p->uses, key, &n) && n >> 32 == p->stmt;
  n = seen ? n + 1 : p->stmt << 32 | 1;
  intmap_put(&p->uses, key, n);
  for (int i = 0; !seen && i < 3; i++) count_uses(p, e->src[i]);
}

static void print_guard(Printer *p, const LoopBound *g) {
  print_dim(p, g->sym);
  strbuf_puts(p->out, " = ");
  print_dim(p, g->value);
  strbuf_puts(p->out, " < ");
  print_dim(p, g->extent);
}

static void print_guards(Printer *p, int n, const LoopBound *g) {
  if (!n) return;
  strbuf_puts(p->out, "where(");
  for (int i = 0; i < n; i++) {
    if (i) strbuf_puts(p->out, ", ");
    print_guard(p, &g[i]);
  }
  strbuf_puts(p->out, ") ");
}

static void print_place(Printer *p, int32_t buffer, Dim index) {
  bool known = buffer >= 0 && buffer < p->k->nbuffers;
  strbuf_printf(p->out, "%%%s[", known ? p->k->buffer[buffer].name : "?");
  print_dim(p, index);
  strbuf_putc(p->out, ']');
}

static void print_load(Printer *p, const LoopExpr *e) {
  bool known = e->buffer >= 0 && e->buffer < p->k->nbuffers;
  if (known && e->dtype != p->k->buffer[e->buffer].dtype) strbuf_puts(p->out, "wide ");
  print_guards(p, e->nguards, e->guard);
  print_place(p, e->buffer, e->index);
  if (e->src[0]) {
    strbuf_puts(p->out, " else ");
    print_expr(p, e->src[0]);
  }
}

static void print_op(Printer *p, const LoopExpr *e) {
  int n = e->op < LOOP_OP_COUNT ? loop_op_arity[e->op] : 0;
  strbuf_puts(p->out, op_name(e->op));
  if (e->op == LOOP_cast || e->op == LOOP_bit_cast)
    strbuf_printf(p->out, "[%s]", dtype_name(e->dtype));
  strbuf_putc(p->out, '(');
  for (int i = 0; i < n; i++) {
    if (i) strbuf_puts(p->out, ", ");
    print_expr(p, e->src[i]);
  }
  strbuf_putc(p->out, ')');
}

// True when the node was written before in this statement, and is now by its number.
static bool print_shared(Printer *p, const LoopExpr *e) {
  uint64_t key = (uint64_t)(uintptr_t)e, n = 0;
  if (!intmap_get(&p->uses, key, &n) || n >> 32 != p->stmt || (uint32_t)n < 2) return false;
  bool named = intmap_get(&p->name, key, &n) && n >> 32 == p->stmt;
  if (!named) {
    n = p->nshared++;
    intmap_put(&p->name, key, p->stmt << 32 | n);
  }
  strbuf_printf(p->out, named ? "#%u" : "#%u = ", (uint32_t)n);
  return named;
}

static void print_expr(Printer *p, const LoopExpr *e) {
  if (!e) {
    strbuf_putc(p->out, '?');
    return;
  }
  switch ((LoopExprKind)e->kind) {
  case LX_CONST: print_const(p, e); return;
  case LX_INDEX:
    strbuf_putc(p->out, '[');
    print_dim(p, e->index);
    strbuf_putc(p->out, ']');
    return;
  case LX_VAR: strbuf_printf(p->out, "%%v%d", (int)e->var); return;
  case LX_LOAD:
    if (!print_shared(p, e)) print_load(p, e);
    return;
  case LX_OP:
    if (!print_shared(p, e)) print_op(p, e);
    return;
  }
}

static void print_value(Printer *p, const LoopExpr *e) {
  p->stmt++;
  p->nshared = 0;
  count_uses(p, e);
  print_expr(p, e);
}

// ---- statements ----
static void print_quoted(StrBuf *b, const char *s) {
  strbuf_putc(b, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      strbuf_printf(b, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      strbuf_printf(b, "\\x%02x", (unsigned)c);
    else
      strbuf_putc(b, (char)c);
  }
  strbuf_putc(b, '"');
}

static void print_block(Printer *p, const LoopBlock *block);

static void print_range(Printer *p, Dim sym, Dim extent) {
  print_dim(p, sym);
  strbuf_puts(p->out, " < ");
  print_dim(p, extent);
}

static void print_for(Printer *p, const LoopStmt *s) {
  static const char *const word[] = {"for ", "parallel ", "unroll ", "vector ", "thread "};
  if (s->loop == LOOP_WHERE && s->index) {
    strbuf_puts(p->out, "where ");
    print_guard(p, &(LoopBound){.sym = s->sym, .value = s->index, .extent = s->extent});
  } else {
    strbuf_puts(p->out, s->loop < ARRAY_LEN(word) ? word[s->loop] : "? ");
    print_range(p, s->sym, s->extent);
    if (s->in_flight) strbuf_printf(p->out, " by %d", (int)s->in_flight);
  }
  strbuf_puts(p->out, " {\n");
  print_block(p, &s->body);
  line_begin(p);
  strbuf_puts(p->out, "}");
}

static void print_if(Printer *p, const LoopStmt *s) {
  strbuf_puts(p->out, "if ");
  print_value(p, s->value);
  strbuf_puts(p->out, " {\n");
  print_block(p, &s->body);
  line_begin(p);
  if (s->orelse.n) {
    strbuf_puts(p->out, "} else {\n");
    print_block(p, &s->orelse);
    line_begin(p);
  }
  strbuf_puts(p->out, "}");
}

static void print_reduce(Printer *p, const LoopStmt *s) {
  strbuf_printf(p->out, "reduce %%v%d: %s = %s ", (int)s->var, var_dtype(p, s->var),
                op_name(s->op));
  if (s->lanes != 1) strbuf_printf(p->out, "lanes %d ", (int)s->lanes);
  strbuf_puts(p->out, "over ");
  print_range(p, s->sym, s->extent);
  strbuf_puts(p->out, " {\n");
  print_block(p, &s->body);
  p->depth++;
  line_begin(p);
  p->depth--;
  strbuf_puts(p->out, "yield ");
  print_value(p, s->value);
  strbuf_putc(p->out, '\n');
  line_begin(p);
  strbuf_puts(p->out, "}");
}

// ---- tile statements ----
static void print_line(Printer *p, const char *word) {
  line_begin(p);
  strbuf_puts(p->out, word);
}

// `half over i < 64, j < 64, k < 768 stages=2 warpgroups=1 {`
static void print_tile_head(Printer *p, const LoopTile *t) {
  static const LoopTileSchedule usual = {
#define F(name, dflt, doc) .name = dflt,
      LOOP_TILE_SCHEDULE(F)
#undef F
  };
  strbuf_printf(p->out, " = %s over ", t->kind < MMA_KINDS ? loop_mma[t->kind].word : "?");
  print_range(p, t->rows->sym, t->rows->extent);
  strbuf_puts(p->out, ", ");
  print_range(p, t->cols->sym, t->cols->extent);
  strbuf_puts(p->out, ", ");
  print_range(p, t->sum->sym, t->depth);
#define F(name, dflt, doc)                                                                         \
  if (t->s.name != usual.name) strbuf_printf(p->out, " " #name "=%d", t->s.name);
  LOOP_TILE_SCHEDULE(F)
#undef F
  strbuf_puts(p->out, " {\n");
}

static void print_pair(Printer *p, const char *word, const int64_t *v) {
  strbuf_printf(p->out, " %s %lld, %lld", word, (long long)v[0], (long long)v[1]);
}

static void print_window(Printer *p, const LoopWindow *w) {
  strbuf_puts(p->out, " images ");
  print_dim(p, w->images);
  strbuf_printf(p->out, " channels %lld pixel %lld line %lld", (long long)w->channels,
                (long long)w->pixel, (long long)w->line);
  print_pair(p, "in", w->in);
  print_pair(p, "out", w->out);
  print_pair(p, "taps", w->taps);
  print_pair(p, "stride", w->stride);
  print_pair(p, "dilation", w->dilation);
  print_pair(p, "lo", w->lo);
}

static void print_operand(Printer *p, const char *name, const LoopTileOperand *o) {
  static const char *const form[] = {"matrix", "window", "value"};
  bool known = o->buffer >= 0 && o->buffer < p->k->nbuffers;
  print_line(p, name);
  strbuf_printf(p->out, " %s ", form[o->form]);
  if (o->form != TILE_VALUE)
    strbuf_printf(p->out, "%%%s", known ? p->k->buffer[o->buffer].name : "?");
  strbuf_putc(p->out, '[');
  print_guard(p, &(LoopBound){o->sym, o->row, o->rows});
  strbuf_putc(p->out, ']');
  if (o->form == TILE_WINDOW) print_window(p, &o->window);
  if (o->form == TILE_MATRIX) {
    strbuf_puts(p->out, " stride ");
    print_dim(p, o->stride);
  }
  if (o->base) {
    strbuf_puts(p->out, " base ");
    print_dim(p, o->base);
    strbuf_puts(p->out, " of ");
    print_dim(p, o->all);
  }
  if (o->first) {
    strbuf_puts(p->out, " first ");
    print_dim(p, o->first);
  }
  if (o->form == TILE_VALUE) {
    strbuf_puts(p->out, " = ");
    print_value(p, o->value);
  }
  strbuf_putc(p->out, '\n');
}

static void print_box(Printer *p, char operand, const LoopTileBox *b) {
  if (!b->is) return;
  print_line(p, "box ");
  strbuf_printf(p->out, "%c at ", operand);
  print_dim(p, b->z);
  strbuf_puts(p->out, ", ");
  print_dim(p, b->x);
  strbuf_puts(p->out, " of ");
  print_dim(p, b->outer);
  strbuf_puts(p->out, ", ");
  print_dim(p, b->rows);
  strbuf_printf(p->out, ", %lld\n", (long long)b->stride);
}

static void print_score(Printer *p, const LoopTile *t) {
  const LoopTileAttention *a = &t->attention;
  print_line(p, "rows ");
  print_guard(p, &(LoopBound){t->a.sym, t->a.row, t->a.rows});
  strbuf_putc(p->out, '\n');
  print_line(p, "columns ");
  print_guard(p, &(LoopBound){t->b.sym, t->b.row, t->b.rows});
  strbuf_putc(p->out, '\n');
  print_line(p, "dot ");
  strbuf_printf(p->out, "%%v%d: f32 over ", (int)a->product->var);
  print_range(p, a->product->sym, a->product->extent);
  strbuf_puts(p->out, " of ");
  print_value(p, a->q);
  strbuf_puts(p->out, ", ");
  print_value(p, a->k);
  strbuf_putc(p->out, '\n');
  print_line(p, "values ");
  print_value(p, a->v);
  strbuf_putc(p->out, '\n');
  for (int i = 0; i < 3; i++) print_box(p, "qkv"[i], &a -> box[i]);
  p->depth--;
  print_block(p, &(LoopBlock){t->sum->body.n - 1, t->sum->body.v + 1});
  p->depth++;
  print_line(p, "score ");
  print_value(p, a->score);
  strbuf_putc(p->out, '\n');
}

static void print_tile(Printer *p, const LoopStmt *s) {
  const LoopTile *t = s->tile;
  if (!t || !t->sum) {
    strbuf_puts(p->out, "?");
    return;
  }
  strbuf_printf(p->out, "%s %%v%d: %s", t->is_attention ? "attention" : "mma", (int)t->sum->var,
                var_dtype(p, t->sum->var));
  if (t->is_attention) strbuf_printf(p->out, " total %%v%d: f32", (int)t->attention.total->var);
  print_tile_head(p, t);
  p->depth++;
  if (t->is_attention) {
    print_score(p, t);
  } else {
    print_operand(p, "a", &t->a);
    print_operand(p, "b", &t->b);
  }
  p->depth--;
  LoopBlock epilogue = loop_tile_epilogue(t);
  print_block(p, &epilogue);
  print_line(p, "}");
}

static void print_stmt(Printer *p, const LoopStmt *s) {
  switch ((LoopStmtKind)s->kind) {
  case LS_FOR: print_for(p, s); return;
  case LS_LET:
    strbuf_printf(p->out, "let %%v%d: %s = ", (int)s->var, var_dtype(p, s->var));
    print_value(p, s->value);
    return;
  case LS_BIND:
    strbuf_puts(p->out, "bind ");
    print_range(p, s->sym, s->extent);
    strbuf_puts(p->out, " = ");
    print_value(p, s->value);
    strbuf_puts(p->out, " check ");
    print_quoted(p->out, s->check >= 0 && s->check < p->k->nchecks ? p->k->check[s->check] : "?");
    return;
  case LS_STORE:
    strbuf_puts(p->out, "store ");
    if (s->value && s->buffer >= 0 && s->buffer < p->k->nbuffers &&
        s->value->dtype != p->k->buffer[s->buffer].dtype)
      strbuf_puts(p->out, "wide ");
    print_guards(p, s->nguards, s->guard);
    print_place(p, s->buffer, s->index);
    strbuf_puts(p->out, " = ");
    print_value(p, s->value);
    return;
  case LS_IF: print_if(p, s); return;
  case LS_REDUCE: print_reduce(p, s); return;
  case LS_PREFETCH:
    strbuf_puts(p->out, "prefetch ");
    print_place(p, s->buffer, s->index);
    return;
  case LS_MMA:
  case LS_ATTENTION: print_tile(p, s); return;
  }
}

static void print_block(Printer *p, const LoopBlock *block) {
  p->depth++;
  for (int64_t i = 0; i < block->n; i++) {
    line_begin(p);
    print_stmt(p, block->v[i]);
    strbuf_putc(p->out, '\n');
  }
  p->depth--;
}

// ---- kernels ----
static void print_dims(Printer *p) {
  const LoopKernel *k = p->k;
  if (!k->ndims) return;
  strbuf_puts(p->out, " dims(");
  for (int32_t i = 0; i < k->ndims; i++) {
    Dim d = k->dim[i];
    if (i) strbuf_puts(p->out, ", ");
    ie_print(p->out, d);
    if (d->lo == 0 && d->hi == INT64_MAX) continue;
    strbuf_puts(p->out, " in [");
    if (d->lo != INT64_MIN) strbuf_printf(p->out, "%lld", (long long)d->lo);
    strbuf_puts(p->out, d->lo == INT64_MIN ? "*, " : ", ");
    if (d->hi != INT64_MAX) strbuf_printf(p->out, "%lld", (long long)d->hi);
    strbuf_puts(p->out, d->hi == INT64_MAX ? "*]" : "]");
  }
  strbuf_putc(p->out, ')');
}

static void print_buffer(Printer *p, const LoopBuffer *b) {
  const char *kind = b->written ? "out " : b->constant ? "const " : "";
  strbuf_printf(p->out, "%s%%%s: %s[", kind, b->name, dtype_name(b->dtype));
  ie_print(p->out, b->size);
  strbuf_putc(p->out, ']');
}

void loop_print_stmt(const LoopKernel *k, const LoopStmt *s, StrBuf *out) {
  Printer p = {.k = k, .out = out};
  intmap_init(&p.uses, out->arena);
  intmap_init(&p.name, out->arena);
  print_stmt(&p, s);
}

void loop_print(const LoopKernel *k, StrBuf *out) {
  Printer p = {.k = k, .out = out};
  intmap_init(&p.uses, out->arena);
  intmap_init(&p.name, out->arena);
  strbuf_printf(out, "kernel @%s", k->name);
  print_dims(&p);
  strbuf_puts(out, " (");
  for (int32_t i = 0; i < k->nargs; i++) {
    if (i) strbuf_puts(out, ", ");
    print_buffer(&p, &k->buffer[i]);
  }
  strbuf_puts(out, ") {\n");
  if (k->schedule) strbuf_printf(out, "  schedule %s\n", k->schedule);
  for (int32_t i = k->nargs; i < k->nbuffers; i++) {
    LoopSpace space = k->buffer[i].space;
    strbuf_puts(out, space == LOOP_SCRATCH    ? "  scratch "
                     : space == LOOP_REGISTER ? "  register "
                                              : "  shared ");
    print_buffer(&p, &k->buffer[i]);
    strbuf_putc(out, '\n');
  }
  print_block(&p, &k->body);
  strbuf_puts(out, "}\n");
}
