// print.c -- a graph as text (docs/reference/text.md).
//
// The text is made so that the parser, which builds nodes line by line, gets the same graph, and
// printing that one gives the same text.  Three things that depend on the order of making are fixed
// by the text's own order instead:
//  - a body's lines are its nodes by id, but what depends on no parameter (constants and what is
//    computed from them alone, which bodies share) stands just before its first use in each body;
//  - the operands of a commutative op are in the order in which the parser will have made them
//    (`rank`);
//  - fresh dimensions are numbered as they appear.
//
// Needs:      the invariants of ir.h; a broken graph prints too, with %"?N" for what has no name.
// Guarantees: one pass over the nodes of each body; recursion only into bodies.
#include "ir/text.h"

#include <stdlib.h>

// ---- names ----

static void put_value_name(StrBuf *b, Str name) {
  strbuf_putc(b, '%');
  if (text_is_value_name(name))
    strbuf_put(b, name);
  else
    text_put_quoted(b, name);
}

// A name not taken in this scope: the wanted one, or with _1, _2 ... behind it.
static Str free_name(Printer *p, Scope *s, Str want) {
  Str name = want;
  int64_t count = (int64_t)(uintptr_t)strmap_get(&s->taken, want);
  int64_t asked = count;
  for (; strmap_has(&s->taken, name); asked++)
    name = str_of(str_printf(p->arena, "%s_%lld", want.p, (long long)asked));
  if (asked > count) strmap_put(&s->taken, want, (void *)(uintptr_t)asked);
  strmap_put(&s->taken, name, (void *)(uintptr_t)1);
  return name;
}

// Gives n its name in this body; true when the origin does not follow from it.
static bool name_node(Printer *p, Scope *s, const Node *n) {
  StrBuf b;
  strbuf_init(&b, p->arena);
  bool differs = false;
  if (n->name) {
    Str want = str_of(n->name), name = free_name(p, s, want);
    differs = !str_eq(want, name);
    put_value_name(&b, name);
  } else {
    strbuf_printf(&b, "%%%lld", (long long)s->unnamed++);
  }
  intmap_put(&s->name, n->id, (uint64_t)(uintptr_t)strbuf_text(&b));
  return differs;
}

static void put_origin(Printer *p, const char *name) {
  strbuf_puts(p->out, " @");
  text_put_quoted(p->out, str_of(name));
}

static bool is_named(const Scope *s, const Node *n) {
  uint64_t unused;
  return intmap_get(&s->name, n->id, &unused);
}

static void put_use(Printer *p, const Scope *s, const Node *n) {
  if (n == p->g->none) {
    strbuf_putc(p->out, '_');
    return;
  }
  const Node *def = n->op == OP_proj ? n->src[0] : n;
  uint64_t name;
  if (intmap_get(&s->name, def->id, &name))
    strbuf_puts(p->out, (const char *)(uintptr_t)name);
  else
    strbuf_printf(p->out, "%%\"?%u\"", (unsigned)def->id);
  if (n->op == OP_proj)
    strbuf_printf(p->out, ".%lld", (long long)((const proj_attrs *)n->attrs)->index);
}

// ---- order ----

static uint64_t rank_of(const Printer *p, const Node *n) {
  uint64_t index = n->op == OP_proj ? 1 + (uint64_t)((const proj_attrs *)n->attrs)->index : 0;
  if (n->op == OP_proj) n = n->src[0];
  return p->rank[n->id] ? (uint64_t)p->rank[n->id] << 20 | index : UINT64_MAX;
}

// Whether the parser will put the two operands the other way round than they are here.
static bool swaps(const Printer *p, const Node *n) {
  if (!(op_info(n->op)->flags & OPF_COMMUTES) || n->nsrc != 2) return false;
  if (n->src[0]->op == OP_const || n->src[1]->op == OP_const) return false;
  return rank_of(p, n->src[1]) < rank_of(p, n->src[0]);
}

static void give_rank(Printer *p, const Node *n) {
  if (!p->rank[n->id]) p->rank[n->id] = ++p->nranks;
}

// Marks what depends on no parameter (operands have lower ids), and notes the projections that
// carry a name of their own.
static void survey(Printer *p) {
  for (int64_t i = 0; i < p->nnodes; i++) {
    const Node *n = p->g->node.v[i];
    p->fixed[i] = n->op != OP_param;
    for (uint32_t k = 0; k < n->nsrc; k++) p->fixed[i] &= p->fixed[n->src[k]->id];
    if (n->op != OP_proj || n->name == n->src[0]->name) continue;
    uint64_t key = (uint64_t)n->src[0]->id << 16 | (uint64_t)((const proj_attrs *)n->attrs)->index;
    intmap_put(&p->proj_name, key, (uint64_t)(uintptr_t)(n->name ? n->name : ""));
  }
}

static int by_id(const void *a, const void *b) {
  uint32_t x = (*(Node *const *)a)->id, y = (*(Node *const *)b)->id;
  return (x > y) - (x < y);
}

// The nodes that a body's results need, but for parameters, projections and what is fixed; by id.
static NodeList lines_of(Printer *p, const Body *b) {
  uint32_t mark = ++p->nbodies;
  VEC(Node *) stack = {0}, found = {0};
  for (int64_t i = 0; i < b->nresults; i++) vec_push(p->arena, &stack, b->result[i]);
  while (stack.n) {
    Node *n = stack.v[--stack.n];
    if (p->stamp[n->id] == mark || p->fixed[n->id] || n->op == OP_param) continue;
    p->stamp[n->id] = mark;
    if (n->op != OP_proj) vec_push(p->arena, &found, n);
    for (uint32_t i = 0; i < n->nsrc; i++) vec_push(p->arena, &stack, n->src[i]);
  }
  if (found.n > 1) qsort(found.v, (size_t)found.n, sizeof(Node *), by_id);
  return (NodeList){found.v, found.n};
}

// ---- lines ----

static void put_indent(Printer *p, const Scope *s) {
  for (int i = 0; i < s->depth; i++) strbuf_puts(p->out, "  ");
}

static void print_results(Printer *p, const Node *n) {
  strbuf_puts(p->out, " : ");
  for (int i = 0; i < n->nres; i++) {
    uint64_t name;
    if (i) strbuf_puts(p->out, ", ");
    print_type(p, n->type[i]);
    if (intmap_get(&p->proj_name, (uint64_t)n->id << 16 | (unsigned)i, &name))
      put_origin(p, (const char *)(uintptr_t)name);
  }
}

static void print_line(Printer *p, Scope *s, const Node *n) {
  bool differs = name_node(p, s, n);
  put_indent(p, s);
  put_use(p, s, n);
  if (n->nres != 1) strbuf_printf(p->out, ":%d", n->nres);
  strbuf_puts(p->out, " = ");
  if (n->op == OP_const) {
    print_const(p, n);
  } else {
    strbuf_puts(p->out, op_name(n));
    strbuf_putc(p->out, '(');
    bool swap = swaps(p, n);
    for (uint32_t i = 0; i < n->nsrc; i++) {
      if (i) strbuf_puts(p->out, ", ");
      put_use(p, s, n->src[swap ? 1 - i : i]);
    }
    strbuf_putc(p->out, ')');
    print_attrs(p, s, n);
  }
  if (differs) put_origin(p, n->name);
  if (n->op == OP_const)
    print_const_comment(p, n);
  else
    print_results(p, n);
  strbuf_putc(p->out, '\n');
  give_rank(p, n);
}

// Lines for n and for the fixed nodes that it needs and that this body has not got yet, operands
// first.
static void print_needed(Printer *p, Scope *s, const Node *top) {
  typedef struct Visit {
    const Node *n;
    uint32_t next;
    bool swap;
  } Visit;
  VEC(Visit) stack = {0};
  vec_push(p->arena, &stack, ((Visit){top, 0, swaps(p, top)}));
  while (stack.n) {
    Visit *v = &stack.v[stack.n - 1];
    if (v->next == v->n->nsrc) {
      const Node *n = v->n;
      stack.n--;
      if (n->op != OP_proj && !is_named(s, n)) print_line(p, s, n);
      continue;
    }
    const Node *src = v->n->src[v->swap ? 1 - v->next : v->next];
    v->next++;
    bool wanted = p->fixed[src->id] && src != p->g->none && !is_named(s, src);
    if (wanted) vec_push(p->arena, &stack, ((Visit){src, 0, swaps(p, src)}));
  }
}

static void print_params(Printer *p, Scope *s, const Body *b) {
  strbuf_putc(p->out, '(');
  for (int64_t i = 0; i < b->nparams; i++) {
    if (i) strbuf_puts(p->out, ", ");
    bool differs = name_node(p, s, b->param[i]);
    if (node_is_state(b->param[i])) strbuf_puts(p->out, "state ");
    put_use(p, s, b->param[i]);
    if (differs) put_origin(p, b->param[i]->name);
    strbuf_puts(p->out, ": ");
    print_type(p, type_of(b->param[i]));
    if (s->outer) print_known(p, b->param[i]);
    give_rank(p, b->param[i]);
  }
  strbuf_putc(p->out, ')');
}

static void put_result_name(Printer *p, const char *name) {
  Str s = str_of(name);
  if (text_is_identifier(s))
    strbuf_put(p->out, s);
  else
    text_put_quoted(p->out, s);
}

static void print_lines(Printer *p, Scope *s, const Body *b, bool with_names) {
  NodeList lines = lines_of(p, b);
  for (int64_t i = 0; i < lines.n; i++) print_needed(p, s, lines.v[i]);
  for (int64_t i = 0; i < b->nresults; i++)
    if (p->fixed[b->result[i]->id] && b->result[i] != p->g->none && !is_named(s, b->result[i]))
      print_needed(p, s, b->result[i]);
  put_indent(p, s);
  strbuf_puts(p->out, "return");
  for (int64_t i = 0; i < b->nresults; i++) {
    strbuf_puts(p->out, i ? ", " : " ");
    if (with_names && b->result_name && b->result_name[i]) {
      put_result_name(p, b->result_name[i]);
      strbuf_puts(p->out, " = ");
    }
    put_use(p, s, b->result[i]);
  }
  strbuf_putc(p->out, '\n');
}

static void scope_init(Printer *p, Scope *s, Scope *outer, const Body *b) {
  *s = (Scope){.outer = outer, .body = b, .depth = outer ? outer->depth + 1 : 1};
  intmap_init(&s->name, p->arena);
  strmap_init(&s->taken, p->arena);
}

static void put_body_name(Printer *p, const Body *b, const char *before, const char *after) {
  if (!b->name || !*b->name) return;
  strbuf_puts(p->out, before);
  text_put_quoted(p->out, str_of(b->name));
  strbuf_puts(p->out, after);
}

void print_body(Printer *p, Scope *outer, const Body *b) {
  Scope s;
  scope_init(p, &s, outer, b);
  strbuf_puts(p->out, "{ ");
  put_body_name(p, b, "@", " ");
  print_params(p, &s, b);
  strbuf_putc(p->out, '\n');
  print_lines(p, &s, b, true);
  put_indent(p, outer);
  strbuf_putc(p->out, '}');
}

// ---- graphs ----

static void print_header_results(Printer *p, const Body *b) {
  strbuf_puts(p->out, " -> (");
  for (int64_t i = 0; i < b->nresults; i++) {
    if (i) strbuf_puts(p->out, ", ");
    if (b->result_name && b->result_name[i]) {
      put_result_name(p, b->result_name[i]);
      strbuf_puts(p->out, ": ");
    }
    print_type(p, type_of(b->result[i]));
  }
  strbuf_puts(p->out, ") {\n");
}

static void put_bound(Printer *p, int64_t v, int64_t none) {
  if (v == none)
    strbuf_putc(p->out, '*');
  else
    strbuf_printf(p->out, "%lld", (long long)v);
}

static void print_ranges(Printer *p) {
  for (int64_t i = 0; i < p->ranged.n; i++) {
    Dim s = p->ranged.v[i];
    strbuf_puts(p->out, "dim ");
    ie_print(p->out, s);
    strbuf_puts(p->out, " [");
    put_bound(p, s->lo, INT64_MIN);
    strbuf_puts(p->out, ", ");
    put_bound(p, s->hi, INT64_MAX);
    strbuf_puts(p->out, "]\n");
  }
}

static void print_main(Printer *p, StrBuf *out, const Body *b) {
  Scope s;
  scope_init(p, &s, NULL, b);
  // The parts are made in the order in which the parser reads them, and put together in the text's.
  StrBuf head, lines;
  strbuf_init(&head, p->arena);
  strbuf_init(&lines, p->arena);
  p->out = &head;
  strbuf_puts(p->out, "graph");
  put_body_name(p, b, " @", "");
  print_params(p, &s, b);
  p->out = &lines;
  print_lines(p, &s, b, false);
  p->out = &head;
  print_header_results(p, b);
  p->out = out;
  print_ranges(p);
  strbuf_put(out, strbuf_str(&head));
  for (int64_t i = 0; i < p->source.n; i++) print_source(p, i);
  strbuf_put(out, strbuf_str(&lines));
  strbuf_puts(out, "}\n");
}

void graph_print(Graph *g, StrBuf *out) {
  static const Body empty;
  ArenaMark mark = arena_mark(&g->scratch);
  Printer p = {.g = g, .arena = &g->scratch, .nnodes = g->node.n};
  intpool_init(&p.dims, p.arena);
  dimmap_init(&p.to_text, &p.dims, p.arena);
  intmap_init(&p.seen_dim, p.arena);
  intmap_init(&p.source_index, p.arena);
  intmap_init(&p.proj_name, p.arena);
  p.rank = arena_array(p.arena, uint32_t, p.nnodes);
  p.stamp = arena_array(p.arena, uint32_t, p.nnodes);
  p.fixed = arena_array(p.arena, bool, p.nnodes);
  survey(&p);
  print_main(&p, out, g->main ? g->main : &empty);
  if (out->arena != &g->scratch) arena_reset(&g->scratch, mark);
}
