// workload.c -- writes what a kernel computes as text without names (workload.h).
//
// The form is for hashing and for people who look into a database of tuning records; nothing reads
// it back.  Nodes are numbered in the order of the body, operands first.
//
// Needs:      a `fused` node with inferred types.
// Guarantees: names of nodes, values and symbols do not count.  Two texts are equal only if ops,
//             attributes, types, ranges of symbols and small constants are.
#include "lower/workload.h"

#include "base/sha256.h"
#include "ir/opinfo.h"
#include "passes/fuse_kernels/kernels.h"

enum { SMALL_CONST = 64 };  // elements; of larger constants the type counts alone

typedef struct Writer {
  Graph *g;
  Arena *a;
  StrBuf b;
  IntMap symbol, number;
} Writer;

// Its number, from 0 in the order of the calls; *first: it was not met before.
static int64_t number_of(IntMap *m, uint64_t key, bool *first) {
  uint64_t v;
  *first = !intmap_get(m, key, &v);
  if (*first) intmap_put(m, key, v = (uint64_t)m->n);
  return (int64_t)v;
}

// ---- sizes and types ----

static void put_dim(Writer *w, Dim d);

static void put_symbol(Writer *w, Dim d) {
  bool first;
  int64_t n = number_of(&w->symbol, (uint64_t)d->slot, &first);
  strbuf_printf(&w->b, "s%lld", (long long)n);
  if (first) strbuf_printf(&w->b, "{%lld..%lld}", (long long)d->lo, (long long)d->hi);
}

static void put_sum(Writer *w, Dim d) {
  for (int i = 0; i < d->nterms; i++) {
    strbuf_printf(&w->b, "%s%lld", i ? "+" : "", (long long)d->term[i].coef);
    for (int k = 0; k < d->term[i].natoms; k++) {
      strbuf_putc(&w->b, '*');
      put_dim(w, d->term[i].atom[k]);
    }
  }
}

static void put_pair(Writer *w, const char *name, Dim d) {
  strbuf_printf(&w->b, "%s(", name);
  put_dim(w, d->a);
  strbuf_putc(&w->b, ',');
  put_dim(w, d->b);
  strbuf_putc(&w->b, ')');
}

static void put_dim(Writer *w, Dim d) {
  switch ((IntExprKind)d->kind) {
  case IE_CONST: strbuf_printf(&w->b, "%lld", (long long)d->value); return;
  case IE_SYM: put_symbol(w, d); return;
  case IE_SUM: put_sum(w, d); return;
  case IE_DIV: put_pair(w, "div", d); return;
  case IE_MOD: put_pair(w, "mod", d); return;
  case IE_MIN: put_pair(w, "min", d); return;
  case IE_MAX: put_pair(w, "max", d); return;
  case IE_BCAST: put_pair(w, "bcast", d); return;
  case IE_POISON: strbuf_putc(&w->b, '?'); return;
  }
}

static void put_type(Writer *w, const Type *t) {
  if (t->kind != TK_TENSOR) {
    strbuf_printf(&w->b, "kind%d", t->kind);
    return;
  }
  strbuf_printf(&w->b, "%s[", dtype_name(t->dtype));
  if (t->rank < 0) strbuf_putc(&w->b, '*');
  for (int i = 0; i < t->rank; i++) {
    if (i) strbuf_putc(&w->b, ',');
    put_dim(w, t->dims[i]);
  }
  strbuf_putc(&w->b, ']');
}

// ---- attributes ----

static void put_double(Writer *w, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  strbuf_printf(&w->b, "%016llx,", (unsigned long long)bits);
}

static void put_text(Writer *w, Str s) {
  strbuf_printf(&w->b, "%lld:", (long long)s.n);
  strbuf_put(&w->b, s);
}

static void put_list(Writer *w, const AttrDesc *d, const void *at) {
  if (d->kind == ATTR_i64s) {
    const Ints *l = at;
    for (int64_t i = 0; i < l->n; i++) strbuf_printf(&w->b, "%lld,", (long long)l->v[i]);
  } else if (d->kind == ATTR_f64s) {
    const Floats *l = at;
    for (int64_t i = 0; i < l->n; i++) put_double(w, l->v[i]);
  } else {
    const Strs *l = at;
    for (int64_t i = 0; i < l->n; i++) put_text(w, l->v[i]);
  }
}

static void put_body(Writer *w, const Body *b);

static void put_attr(Writer *w, const AttrDesc *d, const void *attrs) {
  const void *at = (const char *)attrs + d->offset;
  if (d->kind != ATTR_body && attr_is_default(d, attrs)) return;
  strbuf_printf(&w->b, " %s=", d->name);
  switch (d->kind) {
  case ATTR_i64: strbuf_printf(&w->b, "%lld", (long long)*(const int64_t *)at); return;
  case ATTR_opt_i64: strbuf_printf(&w->b, "%lld", (long long)((const OptInt *)at)->v); return;
  case ATTR_bool: strbuf_printf(&w->b, "%d", *(const bool *)at); return;
  case ATTR_f64: put_double(w, *(const double *)at); return;
  case ATTR_dtype: strbuf_puts(&w->b, dtype_name(*(const DType *)at)); return;
  case ATTR_str: put_text(w, *(const Str *)at); return;
  case ATTR_choice: strbuf_put(&w->b, attr_choice_word(d->choices, *(const int *)at)); return;
  case ATTR_body: put_body(w, *(const Body *const *)at); return;
  case ATTR_i64s:
  case ATTR_f64s:
  case ATTR_strs: put_list(w, d, at); return;
  }
}

// ---- nodes ----

static void put_number(Writer *w, const Node *n) {
  bool first;
  strbuf_printf(&w->b, "%%%lld", (long long)number_of(&w->number, n->id, &first));
}

// The value of a small constant is a part of the code that is made of it.
static void put_const(Writer *w, const Node *n) {
  Diag *quiet = diag_unread();
  const void *p;
  const Type *t = n->type[0];
  if (t->kind != TK_TENSOR || t->dtype == DT_STRING || n->data->n > SMALL_CONST) return;
  if (const_bytes(w->g, n, &p, quiet)) return;
  strbuf_putc(&w->b, ' ');
  for (int64_t i = 0; i < n->data->bytes; i++)
    strbuf_printf(&w->b, "%02x", ((const uint8_t *)p)[i]);
}

static void put_node(Writer *w, const Node *n) {
  const OpInfo *op = op_info(n->op);
  put_number(w, n);
  strbuf_printf(&w->b, " = %s(", op->name);
  for (uint32_t i = 0; i < n->nsrc; i++) put_number(w, n->src[i]);
  strbuf_putc(&w->b, ')');
  for (int i = 0; n->attrs && i < op->nattrs; i++) put_attr(w, &op->attrs[i], n->attrs);
  for (int i = 0; i < n->nres; i++) {
    strbuf_putc(&w->b, ' ');
    put_type(w, n->type[i]);
  }
  if (n->op == OP_const) put_const(w, n);
  strbuf_puts(&w->b, "; ");
}

static void put_body(Writer *w, const Body *b) {
  strbuf_puts(&w->b, "{ ");
  if (b) {
    NodeList all = body_order(w->g, b, w->a);
    for (int64_t i = 0; i < b->nparams; i++) put_node(w, b->param[i]);
    for (int64_t i = 0; i < all.n; i++)
      if (all.v[i]->op != OP_param) put_node(w, all.v[i]);
    for (int64_t i = 0; i < b->nresults; i++) put_number(w, b->result[i]);
  }
  strbuf_puts(&w->b, " }");
}

Str workload_text(Graph *g, const Node *fused, Arena *a) {
  Writer w = {.g = g, .a = a};
  const fused_attrs *f = fused->attrs;
  strbuf_init(&w.b, a);
  intmap_init(&w.symbol, a);
  intmap_init(&w.number, a);
  strbuf_printf(&w.b, "%s fast=%u operands=", fused_kind_name[f->kind], (unsigned)g->fast);
  for (uint32_t i = 0; i < fused->nsrc; i++) {
    strbuf_puts(&w.b, fused->src[i]->op == OP_const ? " const " : " ");
    put_type(&w, fused->src[i]->type[0]);
  }
  strbuf_putc(&w.b, ' ');
  put_body(&w, f->body);
  return strbuf_str(&w.b);
}

const char *workload_key(Str text, Arena *a) {
  Sha256 s;
  uint8_t hash[SHA256_BYTES];
  StrBuf b;
  sha256_init(&s);
  sha256_put(&s, text.p, text.n);
  sha256_end(&s, hash);
  strbuf_init(&b, a);
  for (int i = 0; i < WORKLOAD_KEY / 2; i++) strbuf_printf(&b, "%02x", hash[i]);
  return strbuf_text(&b);
}
