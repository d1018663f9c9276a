// build.c -- drawings from a graph: one for each body, reached from the main one.
//
// Projections become the number of the result on their edges, absent operands vanish, constants
// become lines of their users (and a node only where a body returns one).  Bodies are taken from a
// list that grows as they are found, so nesting costs no stack.
#include "view/view.h"

#include "ir/internal.h"

enum {
  ROWS_MAX = 4,        // constants listed on a node
  INLINE_VALUES = 4,   // elements of a constant shown on a node
  ATTR_TEXT_MAX = 22,  // of the attribute shown on a node
  LABEL_MAX = 44,
  LABELS_MAX = 8,  // below one node, where they repeat
  TITLE_MAX = 36,
  STATS_BUDGET = 1 << 28
};

// ---- text ----

// Word i of "x w b?" or "x*"; a repeated last word is numbered.
static const char *slot_name(const char *words, int64_t i, const char *other, Arena *a) {
  const char *p = words ? words : "";
  for (int64_t k = 0;; k++) {
    p += strspn(p, " ");
    int64_t n = (int64_t)strcspn(p, " ");
    if (n == 0) return str_printf(a, "%s%lld", other, (long long)i);
    bool repeated = p[n - 1] == '*';
    int64_t bare = n - (repeated || p[n - 1] == '?');
    if (repeated) return str_printf(a, "%.*s%lld", (int)bare, p, (long long)(i - k));
    if (k == i) return str_copy(a, (Str){p, bare});
    p += n;
  }
}

const char *view_operand_name(const OpInfo *op, int64_t i, Arena *a) {
  return slot_name(op->operands, i, "operand ", a);
}

const char *view_result_name(const OpInfo *op, int64_t i, Arena *a) {
  return slot_name(op->results, i, "result ", a);
}

const char *view_type_text(const Type *t, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  type_print(&b, t);
  return strbuf_text(&b);
}

static void put_list_item(StrBuf *b, const AttrDesc *d, const void *field, int64_t i) {
  if (i) strbuf_puts(b, ", ");
  if (d->kind == ATTR_i64s)
    strbuf_printf(b, "%lld", (long long)((const Ints *)field)->v[i]);
  else if (d->kind == ATTR_f64s)
    strbuf_printf(b, "%.9g", ((const Floats *)field)->v[i]);
  else
    strbuf_put(b, ((const Strs *)field)->v[i]);
}

static const char *list_text(const AttrDesc *d, const void *field, int64_t n, int64_t most,
                             Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_putc(&b, '[');
  for (int64_t i = 0; i < MIN(n, most); i++) put_list_item(&b, d, field, i);
  if (n > most) strbuf_printf(&b, ", ... %lld in all", (long long)n);
  strbuf_putc(&b, ']');
  return strbuf_text(&b);
}

const char *view_attr_text(const AttrDesc *d, const void *attrs, int64_t most, Arena *a) {
  const void *field = (const char *)attrs + d->offset;
  switch (d->kind) {
  case ATTR_i64: return str_printf(a, "%lld", (long long)*(const int64_t *)field);
  case ATTR_opt_i64: return str_printf(a, "%lld", (long long)((const OptInt *)field)->v);
  case ATTR_bool: return *(const bool *)field ? "true" : "false";
  case ATTR_f64: return str_printf(a, "%.9g", *(const double *)field);
  case ATTR_dtype: return *(const DType *)field ? dtype_name(*(const DType *)field) : "none";
  case ATTR_str: return str_copy(a, *(const Str *)field);
  case ATTR_choice: return str_copy(a, attr_choice_word(d->choices, *(const int *)field));
  case ATTR_body: return NULL;
  case ATTR_i64s: return list_text(d, field, ((const Ints *)field)->n, most, a);
  case ATTR_f64s: return list_text(d, field, ((const Floats *)field)->n, most, a);
  case ATTR_strs: return list_text(d, field, ((const Strs *)field)->n, most, a);
  }
  return NULL;
}

// ---- one node ----

// Exporters write the ends of int64 for "to the end".
static const char *short_value(const char *text, Arena *a) {
  if (!strcmp(text, "9223372036854775807")) return "max";
  if (!strncmp(text, "-922337203685477580", 19)) return "min";
  return view_text_cut(text, 14, a);
}

static const char *const_text(const View *v, const ConstView *c) {
  const ConstData *data = c->node->data;
  if (!c->readable || data->n > INLINE_VALUES) return view_type_text(type_of(c->node), v->arena);
  StrBuf b;
  strbuf_init(&b, v->arena);
  bool list = type_of(c->node)->rank > 0;
  if (list) strbuf_putc(&b, '{');
  for (int64_t i = 0; i < c->nvalues; i++) {
    if (i) strbuf_puts(&b, ", ");
    strbuf_puts(&b, short_value(c->value[i], v->arena));
  }
  if (list) strbuf_putc(&b, '}');
  return strbuf_text(&b);
}

static void add_row(View *v, DrawNode *d, const char *key, const char *value) {
  DrawRow row = {view_text_cut(key, 16, v->arena), view_text_cut(value, LABEL_MAX, v->arena)};
  vec_push(v->arena, &d->row, row);
}

static void add_const_rows(View *v, DrawNode *d) {
  const Node *n = d->node;
  int64_t more = 0;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (n->src[i]->op != OP_const) continue;
    int64_t c = view_constant(v, n->src[i]);
    if (d->row.n < ROWS_MAX)
      add_row(v, d, view_operand_name(op_info(n->op), i, v->arena),
              const_text(v, &v->constant.v[c]));
    else
      more++;
  }
  if (more) add_row(v, d, str_printf(v->arena, "%lld more", (long long)more), "");
}

static void add_note_rows(View *v, DrawNode *d) {
  for (int64_t i = 0; i < v->nnotes && d->node->name; i++)
    for (int k = 0; k < 2 && !strcmp(v->note[i].node, d->node->name); k++)
      if (v->note[i].row[k].value) add_row(v, d, v->note[i].row[k].key, v->note[i].row[k].value);
}

// The one attribute that says most about a node, where there is just one: axis, perm, to, epsilon.
static void add_attr_row(View *v, DrawNode *d) {
  const OpInfo *op = op_info(d->node->op);
  const AttrDesc *only = NULL;
  int found = 0;
  for (const AttrDesc *t = op->attrs; d->node->attrs && t < op->attrs + op->nattrs; t++) {
    if (t->kind == ATTR_body || attr_is_default(t, d->node->attrs)) continue;
    only = t;
    found++;
  }
  if (found != 1 || d->node->op == OP_foreign || op->flags & OPF_CONTROL) return;
  const char *text = view_attr_text(only, d->node->attrs, 8, v->arena);
  if ((int64_t)strlen(text) <= ATTR_TEXT_MAX) add_row(v, d, only->name, text);
}

static int64_t drawing_of(View *v, const Body *b) {
  uint64_t at;
  if (intmap_get(&v->body_index, (uint64_t)(uintptr_t)b, &at)) return (int64_t)at;
  Drawing *d = arena_new(v->arena, Drawing);
  d->body = b;
  d->parent = d->parent_node = -1;
  intmap_put(&v->body_index, (uint64_t)(uintptr_t)b, (uint64_t)v->drawing.n);
  vec_push(v->arena, &v->drawing, d);
  return v->drawing.n - 1;
}

static void add_bodies(View *v, DrawNode *n, int64_t drawing, int64_t index) {
  const OpInfo *op = op_info(n->node->op);
  if (!n->node->attrs) return;
  for (const AttrDesc *t = op->attrs; t < op->attrs + op->nattrs; t++) {
    if (t->kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->node->attrs + t->offset);
    if (!b) continue;
    DrawBody link = {t->name, drawing_of(v, b)};
    vec_push(v->arena, &n->body, link);
    Drawing *inner = v->drawing.v[link.drawing];
    if (inner->parent >= 0 || inner->main) continue;
    inner->parent = drawing;
    inner->parent_node = index;
    const char *of = n->name ? n->name : n->title;
    inner->title = str_printf(v->arena, "%s \xc2\xb7 %s", of, t->name);
  }
}

static const char *foreign_name(const View *v, const Node *n) {
  const foreign_attrs *at = n->attrs;
  return at && at->op.n ? str_copy(v->arena, at->op) : "foreign";
}

// What is in a kernel: its ops in order, those that follow one another counted.
static const char *kernel_text(const View *v, const Node *n) {
  StrBuf b;
  strbuf_init(&b, v->arena);
  NodeList in = body_order(v->graph, ((const fused_attrs *)n->attrs)->body, v->arena);
  const Node *last = NULL;
  int64_t times = 0;
  for (int64_t i = 0; i <= in.n; i++) {
    const Node *x = i < in.n ? in.v[i] : NULL;
    if (x && (x->op == OP_param || x->op == OP_const || x->op == OP_proj || x->op == OP_none))
      continue;
    if (x && last && x->op == last->op) {
      times++;
      continue;
    }
    if (last) strbuf_printf(&b, "%s%s", b.n ? ", " : "", op_name(last));
    if (last && times > 1) strbuf_printf(&b, " \xc3\x97%lld", (long long)times);
    last = x;
    times = 1;
  }
  return strbuf_text(&b);
}

static void title_kernel(View *v, DrawNode *d) {
  uint64_t number;
  const char *kind = fused_kind_name[((const fused_attrs *)d->node->attrs)->kind];
  d->title = kind;
  if (intmap_get(&v->kernel_index, d->node->id, &number))
    d->title = str_printf(v->arena, "%llu %s", (unsigned long long)number, kind);
  add_row(v, d, "", kernel_text(v, d->node));
}

static void add_cost(View *v, DrawNode *d) {
  if (!v->sizes) return;
  NodeCost c;
  cost_node(v->graph, d->node, v->sizes, v->arena, &c);
  d->flops = c.flops;
  d->bytes = c.bytes;
  d->known = c.known;
}

static DrawNode op_node(View *v, Node *n) {
  DrawNode d = {.kind = DRAW_OP, .node = n, .name = n->name, .family = family_of(n), .ms = -1};
  if (n->op == OP_param) {
    d.kind = DRAW_INPUT;
    d.family = FAMILY_port;
    d.title = n->name ? n->name : "input";
    add_row(v, &d, "", view_type_text(type_of(n), v->arena));
  } else if (n->op == OP_const) {
    d.kind = DRAW_CONST;
    d.title = n->name ? n->name : "const";
    int64_t c = view_constant(v, n);
    add_row(v, &d, "", const_text(v, &v->constant.v[c]));
  } else if (n->op == OP_fused) {
    title_kernel(v, &d);
  } else {
    d.title = n->op == OP_foreign ? foreign_name(v, n) : op_name(n);
    add_const_rows(v, &d);
    add_attr_row(v, &d);
    add_note_rows(v, &d);
  }
  if (d.kind == DRAW_OP) add_cost(v, &d);
  return d;
}

// ---- one body ----

typedef struct Building {
  View *v;
  Drawing *d;
  int64_t index;
  IntMap at;    // node id -> node of the drawing
  IntMap last;  // value -> the last node that an edge was made to: each value goes to a node once
} Building;

static bool is_drawn(const Node *n) {
  return n->op != OP_proj && n->op != OP_none && n->op != OP_const;
}

static void add_edge(Building *b, const Node *src, int64_t to) {
  const Node *def = src->op == OP_proj ? src->src[0] : src;
  int result = src->op == OP_proj ? (int)((const proj_attrs *)src->attrs)->index : 0;
  uint64_t from, last, value = (uint64_t)def->id << 16 | (uint64_t)result;
  if (!intmap_get(&b->at, def->id, &from)) return;
  bool labelled = intmap_get(&b->last, value, &last);
  if (labelled && last == (uint64_t)to) return;
  intmap_put(&b->last, value, (uint64_t)to);
  DrawEdge e = {.from = (int64_t)from, .to = to, .result = result, .parent = -1};
  if (!labelled)
    e.label = view_text_cut(view_type_text(type_of(src), b->v->arena), LABEL_MAX, b->v->arena);
  vec_push(b->v->arena, &b->d->edge, e);
}

static void add_node(Building *b, Node *n) {
  DrawNode d = op_node(b->v, n);
  int64_t at = b->d->node.n;
  intmap_put(&b->at, n->id, (uint64_t)at);
  if (n->op != OP_const) add_bodies(b->v, &d, b->index, at);
  vec_push(b->v->arena, &b->d->node, d);
  for (uint32_t i = 0; i < n->nsrc; i++) add_edge(b, n->src[i], at);
}

static void add_output(Building *b, int64_t i) {
  const Body *body = b->d->body;
  Node *n = body->result[i];
  uint64_t unused;
  if (n->op == OP_none) return;
  if (n->op == OP_const && !intmap_get(&b->at, n->id, &unused)) add_node(b, n);
  const char *name = body->result_name ? body->result_name[i] : NULL;
  DrawNode d = {.kind = DRAW_OUTPUT, .node = n, .name = name, .family = FAMILY_port};
  d.title = name ? name : str_printf(b->v->arena, "result %lld", (long long)i);
  add_row(b->v, &d, "", view_type_text(type_of(n), b->v->arena));
  vec_push(b->v->arena, &b->d->node, d);
  add_edge(b, n, b->d->node.n - 1);
}

static void measure(DrawNode *n, Arena *a) {
  n->title = view_text_cut(n->title, TITLE_MAX, a);
  double w = view_text_width(n->title, 13.5) + (n->body.n ? 34 : 20);
  for (int64_t i = 0; i < n->row.n; i++) {
    double key = view_text_width(n->row.v[i].key, 10.5),
           value = view_text_width(n->row.v[i].value, 10.5);
    w = MAX(w, key + value + (*n->row.v[i].key && *n->row.v[i].value ? 26 : 18));
  }
  n->w = MAX(w, 56);
  n->h = 24 + (n->row.n ? 15 * (double)n->row.n + 6 : 0);
}

// The types of a node's results stand in one line below it, so its box is as wide as they are.  Of
// many results with one type the first is labelled.
void drawing_measure(Drawing *d, Arena *a) {
  int64_t *labels = arena_array(a, int64_t, d->node.n + 1);
  const char **last = arena_array(a, const char *, d->node.n + 1);
  for (int64_t i = 0; i < d->edge.n; i++) labels[d->edge.v[i].from] += d->edge.v[i].label != NULL;
  for (int64_t i = 0; i < d->node.n; i++) {
    measure(&d->node.v[i], a);
    d->node.v[i].label_w = 0;
  }
  for (int64_t i = 0; i < d->edge.n; i++) {
    DrawEdge *e = &d->edge.v[i];
    if (!e->label) continue;
    const char *before = last[e->from];
    last[e->from] = e->label;
    if (labels[e->from] > LABELS_MAX && before && !strcmp(before, e->label))
      e->label = NULL;
    else
      d->node.v[e->from].label_w += view_label_width(e->label);
  }
  for (int64_t i = 0; i < d->node.n; i++)
    if (labels[i] > 1) d->node.v[i].w = MAX(d->node.v[i].w, d->node.v[i].label_w);
}

static void build_body(View *v, int64_t index) {
  Graph *g = v->graph;
  Building b = {.v = v, .d = v->drawing.v[index], .index = index};
  intmap_init(&b.at, v->arena);
  intmap_init(&b.last, v->arena);
  ArenaMark mark = arena_mark(&g->scratch);
  NodeList order = body_order(g, b.d->body, &g->scratch);
  for (int64_t i = 0; i < order.n; i++)
    if (is_drawn(order.v[i])) add_node(&b, order.v[i]);
  arena_reset(&g->scratch, mark);
  for (int64_t i = 0; i < b.d->body->nresults; i++) add_output(&b, i);
  drawing_measure(b.d, v->arena);
}

void view_init(View *v, Graph *g, const char *model, Arena *a) {
  *v = (View){.graph = g, .arena = a, .model = model, .stats_budget = STATS_BUDGET};
  intmap_init(&v->const_index, a);
  intmap_init(&v->kernel_index, a);
  v->quiet = arena_new(a, Diag);
}

void view_name_kernels(View *v, const Explain *x) {
  for (int64_t i = 0; i < x->kernel.n; i++)
    intmap_put(&v->kernel_index, x->kernel.v[i].node->id, (uint64_t)i);
}

int64_t view_add(View *v, const Body *main) {
  intmap_init(&v->body_index, v->arena);  // a body that two main ones share is drawn for each
  int64_t first = drawing_of(v, main);
  v->drawing.v[first]->main = true;
  v->drawing.v[first]->title = main->name && *main->name ? main->name : "main";
  for (int64_t i = first; i < v->drawing.n; i++) {
    build_body(v, i);
    drawing_layout(v->drawing.v[i], v->arena, &v->graph->scratch);
  }
  return first;
}
