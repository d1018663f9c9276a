// view_test.c -- drawings: boxes and labels that do not overlap, and folds that keep every edge.
//
// Random graphs have names as exporters write them, with modules in modules; some modules compute,
// wait for another one and go on, so that they cannot be one box.
#include "view/view.h"

#include "test.h"

#include <stdlib.h>

static Diag diag;

typedef struct Drawn {
  Graph *g;
  Arena a;
  View v;
} Drawn;

static bool draw(Drawn *d, const char *text) {
  diag_init(&diag);
  if (graph_parse(str_of(text), "test", &diag, &d->g)) {
    FAIL("%s\n%s", diag.text, text);
    return false;
  }
  arena_init(&d->a);
  view_init(&d->v, d->g, "test", &d->a);
  view_add(&d->v, d->g->main);
  return true;
}

static void drop(Drawn *d) {
  arena_deinit(&d->a);
  graph_free(d->g);
}

// ---- what holds for every layout ----

typedef struct Rect {
  double x0, y0, x1, y1;
} Rect;

static bool overlap(Rect a, Rect b) {
  const double slack = 0.5;
  return a.x0 < b.x1 - slack && b.x0 < a.x1 - slack && a.y0 < b.y1 - slack && b.y0 < a.y1 - slack;
}

// Boxes, and the labels of values, which have 13 units of height (viewer.css: 10px).
static void expect_apart(const Drawing *d) {
  Rect *r = calloc((size_t)(d->node.n + d->edge.n + 1), sizeof *r);
  int64_t n = 0;
  for (int64_t i = 0; i < d->node.n; i++) {
    const DrawNode *b = &d->node.v[i];
    r[n++] = (Rect){b->x, b->y, b->x + b->w, b->y + b->h};
    EXPECT(b->x >= 0 && b->y >= 0 && b->x + b->w <= d->w && b->y + b->h <= d->h);
  }
  for (int64_t i = 0; i < d->edge.n; i++) {
    const DrawEdge *e = &d->edge.v[i];
    EXPECT(e->from < e->to && e->path && *e->path == 'M');
    if (!e->label) continue;
    double half = view_text_width(e->label, 10) / 2;
    r[n++] = (Rect){e->label_x - half, e->label_y - 10, e->label_x + half, e->label_y + 3};
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < i; k++)
      if (overlap(r[i], r[k])) {
        FAIL("%s: %lld and %lld of %lld boxes and labels overlap", d->title, (long long)i,
             (long long)k, (long long)d->node.n);
        free(r);
        return;
      }
  free(r);
}

// ---- what holds for every fold ----

enum { PARTS_DEEP = 32 };

typedef struct Chain {  // the parts that have a node, from the whole on, and its item in each
  int64_t part[PARTS_DEEP], item[PARTS_DEEP];
  int n;
} Chain;

static Chain chain_of(const Fold *f, int64_t node) {
  Chain c = {.n = 0};
  int64_t part = -1, item = -1;
  for (int64_t p = 0; p < f->part.n; p++)
    for (int64_t i = 0; i < f->part.v[p]->node.n; i++) {
      const DrawNode *n = &f->part.v[p]->node.v[i];
      if (n->kind >= DRAW_MODULE || n->leaf != node) continue;
      EXPECT(part < 0);  // a leaf of one part
      part = p;
      item = i;
    }
  EXPECT(part >= 0);
  for (; part >= 0 && c.n < PARTS_DEEP; c.n++) {
    for (int k = c.n; k > 0; k--) {
      c.part[k] = c.part[k - 1];
      c.item[k] = c.item[k - 1];
    }
    c.part[0] = part;
    c.item[0] = item;
    item = f->part.v[part]->parent_node;
    part = f->part.v[part]->parent;
  }
  return c;
}

static int64_t find_edge(const Drawing *d, int64_t from, int64_t to) {
  for (int64_t i = 0; i < d->edge.n; i++)
    if (d->edge.v[i].from == from && d->edge.v[i].to == to) return i;
  return -1;
}

// An edge between the item and any port of that kind.
static int64_t find_port_edge(const Drawing *d, int64_t item, bool in) {
  for (int64_t i = 0; i < d->edge.n; i++) {
    const DrawEdge *e = &d->edge.v[i];
    if (in && e->to == item && d->node.v[e->from].kind == DRAW_PORT_IN) return i;
    if (!in && e->from == item && d->node.v[e->to].kind == DRAW_PORT_OUT) return i;
  }
  return -1;
}

static void expect_edges_kept(const Drawing *flat, const Fold *f) {
  Chain *chain = calloc((size_t)flat->node.n + 1, sizeof *chain);
  bool **used = calloc((size_t)f->part.n, sizeof *used);
  for (int64_t p = 0; p < f->part.n; p++)
    used[p] = calloc((size_t)f->part.v[p]->edge.n + 1, sizeof **used);
  for (int64_t i = 0; i < flat->node.n; i++) chain[i] = chain_of(f, i);
  for (int64_t i = 0; i < flat->edge.n; i++) {
    const Chain *u = &chain[flat->edge.v[i].from], *v = &chain[flat->edge.v[i].to];
    int at = 0;
    while (at + 1 < u->n && at + 1 < v->n && u->part[at + 1] == v->part[at + 1]) at++;
    int64_t e = find_edge(f->part.v[u->part[at]], u->item[at], v->item[at]);
    EXPECT(e >= 0);
    if (e >= 0) used[u->part[at]][e] = true;
    for (int k = at + 1; k < u->n; k++)
      EXPECT(find_port_edge(f->part.v[u->part[k]], u->item[k], false) >= 0);
    for (int k = at + 1; k < v->n; k++)
      EXPECT(find_port_edge(f->part.v[v->part[k]], v->item[k], true) >= 0);
  }
  for (int64_t p = 0; p < f->part.n; p++) {
    const Drawing *d = f->part.v[p];
    for (int64_t i = 0; i < d->edge.n; i++) {
      bool port = d->node.v[d->edge.v[i].from].kind == DRAW_PORT_IN ||
                  d->node.v[d->edge.v[i].to].kind == DRAW_PORT_OUT;
      EXPECT(port || used[p][i]);  // no edge that the drawing has not
    }
    free(used[p]);
  }
  free(used);
  free(chain);
}

static void expect_fold_sound(const View *v, const Fold *f) {
  expect_edges_kept(v->drawing.v[f->of], f);
  for (int64_t p = 0; p < f->part.n; p++) {
    const Drawing *d = f->part.v[p];
    expect_apart(d);
    if (!p) continue;
    const DrawNode *box = &f->part.v[d->parent]->node.v[d->parent_node];
    int64_t leaves = 0;
    EXPECT(box->kind == DRAW_MODULE && box->part == p && box->holds > 1);
    for (int64_t i = 0; i < d->node.n; i++)
      leaves +=
          d->node.v[i].kind == DRAW_MODULE ? d->node.v[i].holds : d->node.v[i].kind < DRAW_MODULE;
    EXPECT_INT_EQ(leaves, box->holds);
  }
}

// ---- random graphs ----

static uint64_t seed;
static int64_t upto(int64_t n) {
  seed = hash_u64(seed + 1);
  return (int64_t)(seed % (uint64_t)n);
}

// Nodes of one or two operands, near or far; names of up to three modules.
static const char *random_graph(Arena *a, int64_t n) {
  static const char *const word[] = {"enc", "layer.0", "layer.1", "attn", "mlp", "out.proj"};
  static const char *const op[] = {"add", "mul", "sub"};
  StrBuf b;
  strbuf_init(&b, a);
  char **name = arena_array(a, char *, n + 1);
  strbuf_puts(&b, "graph(%x: f32[rows_of_the_batch, 4]) {\n");
  name[0] = str_printf(a, "x");
  for (int64_t i = 1; i <= n; i++) {
    StrBuf path;
    strbuf_init(&path, a);
    for (int64_t k = upto(4); k > 0; k--)
      strbuf_printf(&path, "%s%s", k & 1 ? "/" : ".", word[upto(ARRAY_LEN(word))]);
    name[i] = str_printf(a, "%s/n%lld", strbuf_text(&path), (long long)i);
    int64_t x = i - 1 - upto(MIN(i, 3)), y = upto(5) ? i - 1 : upto(i);
    if (upto(9) == 0)
      strbuf_printf(&b, "  %%\"%s\" = exp(%%\"%s\")\n", name[i], name[x]);
    else
      strbuf_printf(&b, "  %%\"%s\" = %s(%%\"%s\", %%\"%s\")\n", name[i], op[upto(3)], name[x],
                    name[y]);
  }
  strbuf_printf(&b, "  return y = %%\"%s\"", name[n]);
  if (n > 2) strbuf_printf(&b, ", z = %%\"%s\"", name[n / 2]);
  strbuf_puts(&b, "\n}\n");
  return strbuf_text(&b);
}

TEST(folds_keep_edges_and_labels_stay_apart) {
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < 60; i++) {
    if (!test_takes()) continue;
    seed = (uint64_t)(i + 1) * 7919;
    Drawn d;
    if (!draw(&d, random_graph(&a, 2 + i))) break;
    expect_apart(d.v.drawing.v[0]);
    if (view_fold(&d.v, 0, FOLD_MODULES)) expect_fold_sound(&d.v, d.v.fold.v[0]);
    if (view_fold(&d.v, 0, FOLD_MODULES | FOLD_HOST))
      expect_fold_sound(&d.v, d.v.fold.v[d.v.fold.n - 1]);
    drop(&d);
  }
  arena_deinit(&a);
}

// ---- particular graphs ----

// Titles of the whole's boxes, and in braces those of what is in a module.
static void put_part(StrBuf *b, const Fold *f, int64_t part) {
  const Drawing *d = f->part.v[part];
  for (int64_t i = 0, n = 0; i < d->node.n; i++) {
    const DrawNode *x = &d->node.v[i];
    if (x->kind == DRAW_PORT_IN || x->kind == DRAW_PORT_OUT) continue;
    strbuf_printf(b, "%s%s", n++ ? " " : "", x->title);
    if (x->kind != DRAW_MODULE) continue;
    strbuf_putc(b, '{');
    put_part(b, f, x->part);
    strbuf_putc(b, '}');
  }
}

typedef struct FoldCase {
  const char *graph;
  int by;
  const char *want;
} FoldCase;
#define IN "graph(%x: f32[4]) {"
// clang-format off
static const FoldCase fold_cases[] = {
    // Segments: / and dots, but a number belongs to what is before it; modules of one node are none.
    {IN "%\"/a/l.0/neg\" = neg(%x) %\"/a/l.0/exp\" = exp(%\"/a/l.0/neg\") %\"/a/abs\" = abs(%\"/a/l.0/exp\") return y = %\"/a/abs\" }",
     FOLD_MODULES, "x l.0{neg exp} abs y"},
    {IN "%\"m.l.10.p.neg\" = neg(%x) %\"m.l.10.p.exp\" = exp(%\"m.l.10.p.neg\") %\"m.k\" = abs(%\"m.l.10.p.exp\") return y = %\"m.k\" }",
     FOLD_MODULES, "x l.10/p{neg exp} abs y"},
    {IN "%\"a/neg\" = neg(%x) %\"b/exp\" = exp(%\"a/neg\") return y = %\"b/exp\" }", FOLD_MODULES, NULL},
    {IN "%\"a/neg;b/c\" = neg(%x) %\"a/exp;d\" = exp(%\"a/neg;b/c\") %r = abs(%\"a/exp;d\") %s = exp(%r) %t = neg(%s) return y = %t }",
     FOLD_MODULES, "x a{neg exp} abs exp neg y"},
    // What all begin with is no module; where few have a path it is one.
    {IN "%\"a/b/neg\" = neg(%x) %\"a/b/exp\" = exp(%\"a/b/neg\") return y = %\"a/b/exp\" }", FOLD_MODULES, NULL},
    {IN "%\"a/b/neg\" = neg(%x) %\"a/b/exp\" = exp(%\"a/b/neg\") %\"a/c/abs\" = abs(%\"a/b/exp\") %\"a/c/neg\" = neg(%\"a/c/abs\") return y = %\"a/c/neg\" }",
     FOLD_MODULES, "x b{neg exp} c{abs neg} y"},
    {IN "%\"///\" = neg(%x) %\"..\" = exp(%\"///\") return y = %\"..\" }", FOLD_MODULES, NULL},
    // a computes, b waits for it, a goes on: two boxes for a, or there would be a cycle.
    {IN "%\"a/1\" = neg(%x) %\"a/2\" = exp(%\"a/1\") %\"b/1\" = abs(%\"a/2\") %\"b/2\" = neg(%\"b/1\") %\"a/3\" = exp(%\"b/2\") "
        "%\"a/4\" = neg(%\"a/3\") return y = %\"a/4\" }",
     FOLD_MODULES, "x a{neg exp} b{abs neg} a{exp neg} y"},
    // Both ways between a and b, though neither waits for itself.
    {IN "%\"a/1\" = neg(%x) %\"b/1\" = exp(%\"a/1\") %\"b/2\" = abs(%x) %\"a/2\" = sqrt(%\"b/2\") %s = add(%\"b/1\", %\"a/2\") return y = %s }",
     FOLD_MODULES, "x neg b{exp abs} sqrt add y"},
    // A module whose later node reads what is lower is lifted, and what reads from it.
    {IN "%\"a/1\" = neg(%x) %\"c/1\" = exp(%\"a/1\") %p = abs(%x) %q = exp(%p) %\"a/2\" = sqrt(%q) %\"c/2\" = abs(%\"c/1\") "
        "%s = add(%\"c/2\", %\"a/2\") return y = %s }",
     FOLD_MODULES, "x abs exp a{neg sqrt} c{exp abs} add y"},
    // What no kernel computes: connected steps are one box.
    {IN "%p = neg(%x) %q = exp(%p) return y = %q }", FOLD_HOST, "x host steps{neg exp} y"},
};
// clang-format on

TEST(folds_by_paths) {
  for (int64_t i = 0; i < ARRAY_LEN(fold_cases); i++) {
    const FoldCase *c = &fold_cases[i];
    Drawn d;
    if (!draw(&d, c->graph)) continue;
    bool folded = view_fold(&d.v, 0, c->by);
    EXPECT_INT_EQ(folded, c->want != NULL);
    if (folded) {
      StrBuf b;
      strbuf_init(&b, &d.a);
      put_part(&b, d.v.fold.v[0], 0);
      if (c->want) EXPECT_STR_EQ(strbuf_text(&b), c->want);
      expect_fold_sound(&d.v, d.v.fold.v[0]);
    }
    drop(&d);
  }
}

// What depends on constants alone stands just above what reads it, however long its chain is.
TEST(chains_of_constants_follow_their_users) {
  Drawn d;
  if (!draw(&d, "graph(%x: f32[4]) { %w = const f32[4] {1, 2, 3, 4}\n"
                "  %c = exp(%w) %t = abs(%c)\n  %p = neg(%x) %q = exp(%p) %r = sqrt(%q)\n"
                "  %s = abs(%r) %y = add(%s, %t)\n  return y = %y }"))
    return;
  const Drawing *g = d.v.drawing.v[0];
  for (int64_t i = 0; i < g->edge.n; i++) {  // no node between the ends of an edge
    double from = g->node.v[g->edge.v[i].from].y, to = g->node.v[g->edge.v[i].to].y, most = from;
    for (int64_t k = 0; k < g->node.n; k++)
      if (g->node.v[k].y < to - 12) most = MAX(most, g->node.v[k].y);
    EXPECT(most < from + 12);
  }
  drop(&d);
}

// Types of several results stand in one line below their node, however long they are.
TEST(labels_of_many_results_stay_apart) {
  Drawn d;
  if (!draw(&d, "graph(%x: f32[a_long_name_of_a_dimension, 24]) { %at = const i64[4] {6, 6, 6, 6}\n"
                "  %s:4 = split(%x, %at) axis=1\n  %e = exp(%x)\n"
                "  return a = %s.0, b = %s.1, c = %s.2, d = %s.3, e = %e }"))
    return;
  int64_t labels = 0;
  const Drawing *g = d.v.drawing.v[0];
  for (int64_t i = 0; i < g->edge.n; i++) labels += g->edge.v[i].label != NULL;
  EXPECT_INT_EQ(labels, 6);  // of x, of each part, of e
  expect_apart(g);
  drop(&d);
}

// A name is untrusted: a path without end is cut, and nothing is too deep.
TEST(paths_are_bounded) {
  Arena a;
  arena_init(&a);
  StrBuf b, path;
  strbuf_init(&path, &a);
  strbuf_init(&b, &a);
  for (int i = 0; i < 3000; i++) strbuf_printf(&path, "/s%d", i % 7);
  const char *p = strbuf_text(&path);
  strbuf_printf(&b, "graph(%%x: f32[2]) {\n%%\"%s/a\" = exp(%%x)\n", p);
  strbuf_printf(&b, "%%\"%s/b\" = neg(%%\"%s/a\")\n", p, p);
  strbuf_printf(&b, "%%\"%s/c\" = exp(%%\"%s/b\")\n%%r = abs(%%\"%s/c\")\nreturn y = %%r }", p, p,
                p);
  Drawn d;
  if (draw(&d, strbuf_text(&b))) {
    EXPECT(view_fold(&d.v, 0, FOLD_MODULES));
    expect_fold_sound(&d.v, d.v.fold.v[0]);
    drop(&d);
  }
  arena_deinit(&a);
}
