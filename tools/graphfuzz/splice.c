// splice.c -- growing a scope: an op's sample or a rule's example is varied and put in (make.h).
#include "graphfuzz/make.h"
#include "ir/internal.h"
#include "rules/rules.h"
#include "sample.h"

// ---- variation ----

// What is changed in everything that one sample wants.
typedef struct Vary {
  DType from, to;  // elements of this type become others
  int nextra;      // axes put in front of every operand that is not a constant
  Dim extra[3];
  bool symbolic;  // sizes that a symbol stands for become the symbol
  int64_t zero;   // this size becomes 0; -1: none
} Vary;

static const DType reals[] = {DT_F32,    DT_F64,     DT_F16,     DT_BF16,   DT_F8E4M3,
                              DT_F8E5M2, DT_F8E4M3Z, DT_F8E5M2Z, DT_F4E2M1, DT_F8E8M0};
static const DType rare[] = {DT_STRING, DT_C64, DT_C128};
static const DType whole[] = {DT_I8,  DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64,
                              DT_U64, DT_I4, DT_U4,  DT_I2,  DT_U2,  DT_BOOL};

static Dim random_dim(Maker *m) {
  static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 6, 0};
  if (m->nsyms && maker_draw(m, 2)) return m->sym[maker_draw(m, m->nsyms)];
  int64_t count = maker_one_in(m, 4) ? ARRAY_LEN(sizes) : ARRAY_LEN(sizes) - 1;
  return ie_const(&m->g->dims, sizes[maker_draw(m, count)]);
}

const Type *maker_random_type(Maker *m) {
  Dim dims[6];
  int rank = (int)(maker_draw(m, 3) ? 1 + maker_draw(m, 3) : maker_draw(m, 7));
  for (int i = 0; i < rank; i++)
    dims[i] = rank < 4 ? random_dim(m) : ie_const(&m->g->dims, 1 + maker_draw(m, 2));
  DType t = maker_draw(m, 3) ? reals[maker_draw(m, maker_draw(m, 4) ? 4 : ARRAY_LEN(reals))]
                             : whole[maker_draw(m, ARRAY_LEN(whole))];
  if (maker_one_in(m, 12)) t = rare[maker_draw(m, ARRAY_LEN(rare))];
  return type_tensor(m->g, t, rank, dims);
}

static DType other_dtype(Maker *m, DType t) {
  if (dtype_is_float(t)) return reals[maker_draw(m, ARRAY_LEN(reals))];
  if (dtype_is_int(t)) return whole[maker_draw(m, ARRAY_LEN(whole) - 1)];
  return t;
}

static Vary draw_vary(Maker *m, const Graph *s) {
  Vary v = {.zero = -1};
  const Body *b = s->main;
  if (b->nparams && maker_one_in(m, 2)) {
    v.from = type_of(b->param[maker_draw(m, b->nparams)])->dtype;
    v.to = other_dtype(m, v.from);
  }
  if (maker_one_in(m, 6)) {
    v.nextra = 1 + (int)maker_draw(m, 3);
    for (int i = 0; i < v.nextra; i++) v.extra[i] = random_dim(m);
  }
  v.symbolic = m->nsyms && maker_draw(m, 4);
  if (maker_one_in(m, 16)) v.zero = 2 + maker_draw(m, 3);
  return v;
}

static Dim own_dim(Maker *m, Dim d, const Vary *v) {
  int64_t size = ie_is_const(d) ? d->value : -1;
  for (int i = 0; v->symbolic && i < m->nsyms; i++)
    if (size == fuzz_size((Str){m->sym[i]->name, m->sym[i]->value}, 0)) return m->sym[i];
  if (size < 0 && d->kind == IE_SYM) {
    if (v->symbolic) return m->sym[d->slot % m->nsyms];
    size = 2 + d->slot % 4;
  }
  if (size == v->zero) size = 0;
  return ie_const(&m->g->dims, size < 0 ? 3 : size);
}

// A sample's type in our graph.
static const Type *own_type(Maker *m, const Type *t, const Vary *v) {
  Dim dims[MAX_RANK];
  if (t->kind == TK_SEQUENCE || t->kind == TK_OPTIONAL) {
    const Type *e = own_type(m, t->elem, v);
    if (!e) return NULL;
    return t->kind == TK_SEQUENCE ? type_sequence(m->g, e) : type_optional(m->g, e);
  }
  if (t->kind == TK_MAP) return type_map(m->g, t->dtype, type_scalar(m->g, t->elem->dtype));
  DType dt = t->dtype == v->from ? v->to : t->dtype;
  if (t->kind != TK_TENSOR) return NULL;
  if (t->rank < 0) return type_unranked(m->g, dt);
  if (t->rank + v->nextra > 8) return NULL;
  for (int i = 0; i < v->nextra; i++) dims[i] = v->extra[i];
  for (int i = 0; i < t->rank; i++) dims[v->nextra + i] = own_dim(m, t->dims[i], v);
  return type_tensor(m->g, dt, v->nextra + t->rank, dims);
}

static Item own_const(Maker *m, const Node *c, const Vary *v) {
  const Type *t = type_of(c);
  int64_t dims[MAX_RANK], bytes;
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  if (t->dtype != v->from || v->from == v->to || !dtype_bytes(v->to, c->data->n, &bytes))
    return maker_const(m, t->dtype, t->rank, dims, c->data->mem);
  void *own = arena_alloc(m->arena, bytes + 1);
  for (int64_t i = 0; i < c->data->n; i++) {
    if (dtype_is_float(v->to))
      put_f64(v->to, own, i, get_f64(v->from, c->data->mem, i));
    else
      put_i64(v->to, own, i, get_i64(v->from, c->data->mem, i));
  }
  return maker_const(m, v->to, t->rank, dims, own);
}

// ---- splicing ----

typedef struct Splice {
  Maker *m;
  const Vary *v;
  Item **item;  // by id in the sample: its results
} Splice;

static bool splice_node(Splice *x, Graph *s, const Node *n) {
  Maker *m = x->m;
  if (n == s->none) {
    x->item[n->id] = arena_new(m->arena, Item);
    x->item[n->id]->n = m->g->none;
    return true;
  }
  Item *out = x->item[n->id] = arena_array(m->arena, Item, n->nres);
  if (n->op == OP_param) {
    const Type *t = own_type(m, type_of(n), x->v);
    return t && maker_operand(m, t, out);
  }
  if (n->op == OP_const) {
    *out = own_const(m, n, x->v);
    return true;
  }
  if (n->op == OP_proj) {
    *out = x->item[n->src[0]->id][((const proj_attrs *)n->attrs)->index];
    return true;
  }
  if (op_info(n->op)->flags & OPF_CONTROL) return false;
  Item *src = arena_array(m->arena, Item, n->nsrc + 1);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = *x->item[n->src[i]->id];
  if (!maker_apply(m, n->op, (int)n->nsrc, src, n->attrs, n->nres, out)) return false;
  for (int i = 0; i < n->nres; i++) maker_remember(m, out[i]);
  return true;
}

static bool splice(Maker *m, Graph *s, const Vary *v) {
  Splice x = {.m = m, .v = v, .item = arena_array(m->arena, Item *, s->node.n)};
  NodeList l = body_order(s, s->main, m->arena);
  for (int64_t i = 0; i < l.n; i++)
    if (!splice_node(&x, s, l.v[i])) return false;
  return true;
}

// An op that works element by element, on whatever shape there is.
static bool splice_elementwise(Maker *m, const Graph *s) {
  const Node *n = s->main->result[0];
  Item base, src[8];
  if (!(op_info(n->op)->flags & OPF_ELEMENTWISE) || n->nsrc < 1 || n->nsrc > 8 || n->nres != 1 ||
      !maker_some(m, &base))
    return false;
  const Type *shape = type_of(base.n);
  bool retype = dtype_class(type_of(n->src[0])->dtype) == dtype_class(shape->dtype);
  DType from = type_of(n->src[0])->dtype, to = retype ? shape->dtype : from;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    DType t = type_of(n->src[i])->dtype == from ? to : type_of(n->src[i])->dtype;
    Dim dims[MAX_RANK];
    int drop = maker_one_in(m, 8) && shape->rank ? 1 + (int)maker_draw(m, shape->rank) : 0;
    for (int d = drop; d < shape->rank; d++)
      dims[d - drop] = maker_one_in(m, 8) ? m->g->dims.one : shape->dims[d];
    const Type *want = type_tensor(m->g, t, shape->rank - drop, dims);
    bool first = i == 0 || maker_one_in(m, 4) || !maker_operand(m, want, &src[i]);
    if (first && !maker_adapt(m, base, type_with_dtype(m->g, shape, t), &src[i])) return false;
  }
  Item out;
  if (!maker_apply(m, n->op, (int)n->nsrc, src, n->attrs, 1, &out)) return false;
  maker_remember(m, out);
  return true;
}

// ---- what is drawn ----

// Samples of ops whose operands are lists, which the op's own cannot spell.
static const struct {
  int op;
  const char *text;
} lists[] = {
    {OP_sequence_at, "(seq(f32[2,3]), i64[]{0})"},
    {OP_sequence_at, "(seq(i64[2]), i64[]{-1})"},
    {OP_sequence_insert, "(seq(f32[2,3]), f32[2,3])"},
    {OP_sequence_insert, "(seq(f32[2,3]), f32[4,3], i64[]{1})"},
    {OP_sequence_erase, "(seq(f32[2,3]))"},
    {OP_sequence_erase, "(seq(f32[*]), i64[]{0})"},
    {OP_sequence_length, "(seq(f32[2,3]))"},
    {OP_sequence_length, "(seq(i64[*]))"},
    {OP_concat_from_sequence, "(seq(f32[2,3])) axis=1"},
    {OP_concat_from_sequence, "(seq(f32[2,3])) axis=0 new_axis=true"},
    {OP_optional_get_element, "(opt(f32[2]))"},
    {OP_optional_has_element, "(opt(f32[2]))"},
    {OP_cast_map, "(map(i64, f32[]))"},
    {OP_cast_map, "(map(i64, string[])) cast_to=TO_STRING"},
    {OP_dict_vectorizer, "(map(i64, f32[])) int64_vocabulary=[1, 3, 7]"},
    {OP_dict_vectorizer, "(map(string, f32[])) string_vocabulary=[\"a\", \"c\"]"},
};

static void print_weight(Maker *m, StrBuf *b, const char *name, int64_t x, int64_t y, int64_t in,
                         int64_t out) {
  strbuf_printf(b, "%%%s = const f32[%lld, %lld, %lld, %lld] {", name, (long long)x, (long long)y,
                (long long)in, (long long)out);
  for (int64_t i = 0; i < x * y * in * out; i++)
    strbuf_printf(b, "%s%g", i ? ", " : "", (double)(maker_draw(m, 17) - 8) / 8);
  strbuf_puts(b, "} ");
}

// Convolutions one after the other with constant weights: what is put into one kernel.  Not all of
// them can be.
static Graph *draw_chain(Maker *m) {
  static Diag d;
  static const char *const acts[] = {"relu", "hard_swish", "swish", "neg"};
  Graph *s = NULL;
  StrBuf b;
  int64_t in = 1 + maker_draw(m, 4), wide = 2 + maker_draw(m, 20), out = 1 + maker_draw(m, 6);
  int64_t taps = 1 + maker_draw(m, 3), size = taps + maker_draw(m, 9), pad = maker_draw(m, taps);
  bool expand = maker_draw(m, 3), project = !expand || maker_draw(m, 3);
  strbuf_init(&b, m->arena);
  strbuf_printf(&b, "graph(%%x: f32[%lld, %lld, %lld, %lld]) { ", (long long)(1 + maker_draw(m, 2)),
                (long long)size, (long long)size, (long long)(expand ? in : wide));
  const char *at = "x", *act = acts[maker_draw(m, ARRAY_LEN(acts))];
  if (expand) {
    print_weight(m, &b, "we", 1, 1, in, wide);
    strbuf_printf(&b, "%%e = conv(%%x, %%we) channels_last=true %%f = %s(%%e) ", act);
    at = "f";
  }
  print_weight(m, &b, "wd", taps, taps, 1, wide);
  strbuf_printf(&b,
                "%%d = conv(%%%s, %%wd) channels_last=true group=%lld strides=[%lld, 1] "
                "pads=[%lld, %lld, %lld, 0] %%a = %s(%%d) ",
                at, (long long)wide, (long long)(1 + maker_draw(m, 2)), (long long)pad,
                (long long)pad, (long long)pad, act);
  if (project) {
    print_weight(m, &b, "wp", 1, 1, wide, out);
    strbuf_puts(&b, "%p = conv(%a, %wp) channels_last=true ");
  }
  strbuf_printf(&b, "return %%%s }", project ? "p" : "a");
  diag_init(&d);
  return graph_parse(str_of(strbuf_text(&b)), NULL, &d, &s) ? NULL : s;
}

static void print_kernel(Maker *m, StrBuf *b, int64_t out, int64_t in, int64_t taps) {
  strbuf_printf(b, "%%w = const f32[%lld, %lld, %lld] {", (long long)out, (long long)in,
                (long long)taps);
  for (int64_t i = 0; i < out * in * taps; i++)
    strbuf_printf(b, "%s%g", i ? ", " : "", (double)(maker_draw(m, 17) - 8) / 8);
  strbuf_puts(b, "} ");
}

// One axis: kernels longer than the image, padding on one side or both, steps and dilations of any
// size, channels from 1.
static Graph *draw_line(Maker *m) {
  static Diag d;
  Graph *s = NULL;
  StrBuf b;
  int64_t group = 1 + maker_draw(m, 3), in = group * (1 + maker_draw(m, 5));
  int64_t out = group * (1 + maker_draw(m, 5)), taps = 1 + maker_draw(m, maker_draw(m, 2) ? 5 : 90);
  int64_t dilation = 1 + maker_draw(m, maker_draw(m, 2) ? 1 : 9), reach = (taps - 1) * dilation + 1;
  int64_t size = 1 + maker_draw(m, 70), first = maker_draw(m, reach + 1);
  int64_t last = maker_draw(m, 2) ? 0 : maker_draw(m, reach + 1);
  if (first + size + last < reach) first = reach - size - last;
  int64_t stride = 1 + maker_draw(m, maker_draw(m, 2) ? 2 : 40);
  strbuf_init(&b, m->arena);
  strbuf_printf(&b, "graph(%%x: f32[%lld, %lld, %lld]) { ", (long long)(1 + maker_draw(m, 2)),
                (long long)in, (long long)size);
  print_kernel(m, &b, out, in / group, taps);
  strbuf_printf(&b,
                "%%y = conv(%%x, %%w) group=%lld strides=[%lld] dilations=[%lld] pads=[%lld, %lld] "
                "return %%y }",
                (long long)group, (long long)stride, (long long)dilation, (long long)first,
                (long long)last);
  diag_init(&d);
  return graph_parse(str_of(strbuf_text(&b)), NULL, &d, &s) ? NULL : s;
}

// 3x3 convolutions of many channels, and heads of a few behind them: Winograd's transforms.
static Graph *draw_wide(Maker *m) {
  static Diag d;
  static const char *const acts[] = {"relu", "sigmoid", "neg"};
  Graph *s = NULL;
  StrBuf b;
  int64_t in = 14 + maker_draw(m, 20), out = 1 + maker_draw(m, maker_draw(m, 2) ? 4 : 30);
  int64_t high = 3 + maker_draw(m, 7), wide = 3 + maker_draw(m, 7);
  bool twice = maker_draw(m, 2);
  strbuf_init(&b, m->arena);
  strbuf_printf(&b, "graph(%%x: f32[1, %lld, %lld, %lld]) { ", (long long)high, (long long)wide,
                (long long)in);
  print_weight(m, &b, "w", 3, 3, in, out);
  strbuf_printf(&b,
                "%%c = conv(%%x, %%w) channels_last=true pads=[%lld, 1, 1, %lld] %%a = %s(%%c) ",
                (long long)maker_draw(m, 3), (long long)maker_draw(m, 3),
                acts[maker_draw(m, ARRAY_LEN(acts))]);
  if (twice) {
    print_weight(m, &b, "v", 3, 3, out, 1 + maker_draw(m, 3));
    strbuf_puts(&b, "%h = conv(%a, %v) channels_last=true pads=[1, 1, 1, 1] ");
  }
  strbuf_printf(&b, "return %%%s }", twice ? "h" : "a");
  diag_init(&d);
  return graph_parse(str_of(strbuf_text(&b)), NULL, &d, &s) ? NULL : s;
}

// Convolutions with constant weights, which have templates of their own.
static Graph *draw_convolutions(Maker *m) {
  switch (maker_draw(m, 3)) {
  case 0: return draw_chain(m);
  case 1: return draw_line(m);
  default: return draw_wide(m);
  }
}

// An op's sample as a graph, drawn op by op so that the rare are as frequent as the common.
static Graph *draw_sample(Maker *m) {
  static Diag d;
  Graph *s = NULL;
  int at = (int)maker_draw(m, OP_COUNT);
  const char *own[64];
  int64_t n = 0;
  for (const char *const *p = op_table[at]->samples; p && *p && n < 48; p++) own[n++] = *p;
  for (int64_t i = 0; i < ARRAY_LEN(lists); i++)
    if (lists[i].op == at && n < 64) own[n++] = lists[i].text;
  if (!n) return NULL;
  int64_t which = maker_draw(m, n);
  const char *text = sample_graph(m->arena, &(Sample){op_table[at], own[which]});
  diag_init(&d);
  return text && !graph_parse(str_of(text), NULL, &d, &s) ? s : NULL;
}

// A rule's example: what random ops would never spell by chance.
static Graph *draw_example(Maker *m) {
  static Diag d;
  Graph *s = NULL;
  int64_t nsets = 0;
  while (rule_sets[nsets]) nsets++;
  const RuleSet *set = rule_sets[maker_draw(m, nsets)];
  const Rule *r = &set->rule[maker_draw(m, set->n)];
  diag_init(&d);
  const char *text = str_printf(m->arena, "graph%s", r->example);
  return graph_parse(str_of(text), NULL, &d, &s) ? NULL : s;
}

static bool grow_once(Maker *m) {
  if (m->depth < 2 && maker_one_in(m, m->depth ? 16 : 12)) return maker_control(m);
  bool example = maker_one_in(m, 5), convolutions = !example && maker_one_in(m, 20);
  Graph *s = example ? draw_example(m) : convolutions ? draw_convolutions(m) : draw_sample(m);
  if (!s) return false;
  bool ok = !example && !convolutions && maker_draw(m, 3) && splice_elementwise(m, s);
  Vary v = draw_vary(m, s), plain = {.zero = -1};
  if (!ok) ok = splice(m, s, &v) || splice(m, s, &plain);
  graph_free(s);
  return ok;
}

void maker_grow(Maker *m, int64_t count) {
  for (int64_t k = 0, tries = 0; k < count && tries < 10 * count; tries++) k += grow_once(m);
}
