// reduce.c -- a failing graph made small (graphfuzz.h).
//
// One edit after the other is tried; one that leaves a graph that runs and still fails is kept, and
// all are tried again, until none helps.
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"

typedef struct Reducer {
  Graph *g;
  const FuzzWay *way;
  Arena *arena;
  Diag said;  // what fails, in the graph as it is
  Diag quiet;
  int64_t left;  // edits that may still be tried
} Reducer;

static bool try_edit(Reducer *r, Edit e) {
  static FuzzStats unused;
  static Diag d;
  if (r->left-- <= 0) return false;
  diag_init(&r->quiet);
  Graph *g = fuzz_copy(r->g, &e, &r->quiet);
  if (!g) return false;
  bool valid = false;
  diag_init(&d);
  // The same oracle must fail: reducing must not end at another fault.
  if (fuzz_compare(g, r->way, &unused, &valid, &d) || !valid || strncmp(d.text, r->said.text, 12)) {
    graph_free(g);
    return false;
  }
  graph_free(r->g);
  r->g = g;
  r->said = d;
  return true;
}

typedef VEC(Node *) Nodes;

static void add_body(Reducer *r, const Body *b, Nodes *out) {
  NodeList l = body_order(r->g, b, r->arena);
  for (int64_t i = 0; i < l.n; i++) {
    const OpInfo *op = op_info(l.v[i]->op);
    if (l.v[i]->op != OP_param && l.v[i]->op != OP_const && l.v[i]->op != OP_none)
      vec_push(r->arena, out, l.v[i]);
    for (int k = 0; k < op->nattrs; k++)
      if (op->attrs[k].kind == ATTR_body)
        add_body(r, *(const Body *const *)((const char *)l.v[i]->attrs + op->attrs[k].offset), out);
  }
}

// Node edits of one kind, on every node; `inner`: also those in bodies.
static bool try_nodes(Reducer *r, EditKind kind, bool inner) {
  bool any = false, again = true;
  while (again) {
    again = false;
    Nodes l = {0};
    if (inner) {
      add_body(r, r->g->main, &l);
    } else {
      NodeList o = body_order(r->g, r->g->main, r->arena);
      for (int64_t i = 0; i < o.n; i++)
        if (o.v[i]->op != OP_param && o.v[i]->op != OP_const && o.v[i]->op != OP_none)
          vec_push(r->arena, &l, o.v[i]);
    }
    for (int64_t i = 0; !again && i < l.n; i++) {
      const Node *n = l.v[i];
      int64_t most = kind == EDIT_BYPASS ? n->nsrc : kind == EDIT_INLINE ? 3 : 1;
      if (kind == EDIT_CAPTURE) most = op_info(n->op)->flags & OPF_CONTROL ? n->nsrc : 0;
      if (kind == EDIT_ATTR) most = op_info(n->op)->nattrs;
      if (kind == EDIT_RESULT &&
          (n->nres != 1 || (r->g->main->nresults == 1 && n == r->g->main->result[0])))
        continue;
      for (int64_t a = 0; !again && a < most; a++) {
        const OpInfo *op = op_info(n->op);
        if (kind == EDIT_ATTR &&
            (attr_is_default(&op->attrs[a], n->attrs) || op->attrs[a].kind == ATTR_body))
          continue;
        again = try_edit(r, (Edit){kind, n->id, a, 0});
      }
    }
    any |= again;
  }
  return any;
}

static bool try_dims(Reducer *r) {
  bool any = false;
  for (int k = 0; k < FUZZ_SIZES; k++)
    for (int64_t i = 0; i < r->g->main->nparams; i++)
      if (!type_is_static(type_of(r->g->main->param[i])) &&
          try_edit(r, (Edit){EDIT_SIZES, 0, k, 0})) {
        any = true;
        break;
      }
  for (int64_t size = 9; size > 1; size--)
    for (int64_t to = 1; to < size; to++)
      if (try_edit(r, (Edit){EDIT_DIM, 0, size, to})) {
        any = true;
        break;
      }
  return any;
}

static bool round_of_edits(Reducer *r) {
  bool any = try_nodes(r, EDIT_RESULT, false);
  for (int64_t i = r->g->main->nresults - 1; i >= 0; i--)
    any |= try_edit(r, (Edit){EDIT_DROP, 0, i, 0});
  any |= try_nodes(r, EDIT_INLINE, true);
  any |= try_nodes(r, EDIT_PARAM, false);
  any |= try_nodes(r, EDIT_BYPASS, true);
  any |= try_nodes(r, EDIT_ZERO, true);
  any |= try_nodes(r, EDIT_CAPTURE, true);
  any |= try_dims(r);
  any |= try_nodes(r, EDIT_ATTR, true);
  return any;
}

static void write_comment(StrBuf *out, const char *text) {
  strbuf_puts(out, "// ");
  for (; *text && *text != '\n'; text++) strbuf_putc(out, *text);
  strbuf_putc(out, '\n');
}

void fuzz_reduce(Graph *g, const FuzzWay *way, StrBuf *out, int64_t *out_nodes) {
  static Reducer r;
  static FuzzStats unused;
  Arena a;
  arena_init(&a);
  r = (Reducer){.way = way, .arena = &a, .left = 4000};
  bool valid;
  diag_init(&r.said);
  diag_init(&r.quiet);
  r.g = fuzz_copy(g, &(Edit){.kind = EDIT_NONE}, &r.quiet);
  *out_nodes = 0;
  if (!r.g || fuzz_compare(r.g, way, &unused, &valid, &r.said) || !valid) {
    write_comment(out, "fails, but a copy of it does not");
    graph_print(g, out);
  } else {
    while (round_of_edits(&r)) continue;
    write_comment(out, r.said.text);
    graph_print(r.g, out);
    Nodes l = {0};
    add_body(&r, r.g->main, &l);
    *out_nodes = 0;
    for (int64_t i = 0; i < l.n; i++) *out_nodes += l.v[i]->op != OP_proj;
  }
  graph_free(r.g);
  arena_deinit(&a);
}
