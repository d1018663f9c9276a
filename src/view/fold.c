// fold.c -- a drawing folded by module path: nodes whose names share a path are one box, which can
// be opened.
//
// Exporters write where a node came from into its name: /encoder/layer.0/attention/MatMul.  The
// segments before the last one are its modules.  A part is what is shown of one module: its nodes,
// the modules in it, and a port for each value that comes from outside or leaves.  Part 0 is the
// whole drawing.  With FOLD_HOST, steps of the host that are connected are a module, too.
//
// A box for a module must not make a cycle: a module that computes, waits for another one and goes
// on has several boxes.  Nodes are taken in order, each joins the last box of its module unless
// that is reachable from itself over another one; the search for it is bounded over a whole fold.
//
// Guarantees: every node of the drawing is a leaf of exactly one part; two nodes that an edge joins
//             are joined in the part that holds both, and each is joined to a port in the parts
//             below; time and memory are bounded by the drawing's size times FOLD_DEPTH.
#include "view/view.h"

#include <stdlib.h>

enum {
  FOLD_DEPTH = 12,           // modules in modules; further segments belong to the name
  SEARCH_BUDGET = 20000000,  // visits of boxes, to find cycles
  PORTS_MAX = 8,             // of each kind in a part; more are one port
  OPS_NAMED = 3,             // of a module, in its box
  PORT_TITLE = 30,
  MODULE_TITLE = 36
};

typedef struct Path {
  Str seg[FOLD_DEPTH + 1];  // of names, or made in the arena
  int n;
} Path;

typedef struct Box {  // of a module, or of one node
  int64_t first, n;   // nodes; in `by_box` once all are known
  int32_t level;      // lower than those of all boxes that read from it
  int32_t item;       // node of the part
  VEC(int32_t) to;    // boxes that read from it
} Box;

typedef struct Folding {
  View *v;
  Fold *fold;
  const Drawing *d;
  Arena *a;    // of this fold's own
  Path *path;  // [nodes]
  int64_t *out_start, *in_start, *out_edge, *in_edge;
  const char **label;  // [edges] type of its value
  int32_t *box_of;     // [nodes] in the part being made
  int64_t *stamp;      // [nodes] number of the last part that has the node
  int64_t budget;
  uint32_t *mark, nmarks;              // [nodes] boxes that a search has met
  int32_t *reached, *ready, *missing;  // [nodes] boxes
} Folding;

// ---- paths ----

static bool is_number(Str s) {
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] < '0' || s.p[i] > '9') return false;
  return s.n > 0;
}

// Segments end at / and at a dot that no number follows: layer.0 is one.  What several nodes were
// fused from is named by the first.
static void read_path(const char *name, Path *out) {
  Str rest = str_of(name ? name : "");
  for (int64_t i = 0; i < rest.n; i++)
    if (rest.p[i] == ';') rest.n = i;
  int64_t from = 0;
  for (int64_t i = 0; i < rest.n && out->n < FOLD_DEPTH; i++) {
    if (rest.p[i] != '/' && rest.p[i] != '.') continue;
    int64_t end = i + 1;
    while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '.') end++;
    if (rest.p[i] == '.' && end < rest.n && is_number((Str){rest.p + i + 1, end - i - 1})) continue;
    if (i > from) out->seg[out->n++] = (Str){rest.p + from, i - from};
    from = i + 1;
  }
}

static bool is_host(const DrawNode *n) {
  if (n->kind != DRAW_OP) return false;
  return n->node->op != OP_fused || ((const fused_attrs *)n->node->attrs)->kind == FUSED_HOST;
}

static int64_t root_of(int64_t *up, int64_t i) {
  while (up[i] != i) i = up[i] = up[up[i]];
  return i;
}

// Steps of the host that are connected get a segment of their own.
static void add_host_paths(Folding *f, int depth) {
  int64_t *up = arena_array(f->a, int64_t, f->d->node.n);
  for (int64_t i = 0; i < f->d->node.n; i++) up[i] = i;
  for (int64_t i = 0; i < f->d->edge.n; i++) {
    const DrawEdge *e = &f->d->edge.v[i];
    if (is_host(&f->d->node.v[e->from]) && is_host(&f->d->node.v[e->to]))
      up[root_of(up, e->from)] = root_of(up, e->to);
  }
  for (int64_t i = 0; i < f->d->node.n; i++) {
    if (!is_host(&f->d->node.v[i])) continue;
    Path *p = &f->path[i];
    while (p->n < depth) p->seg[p->n++] = str_of("");  // not in what all others share
    const char *seg = str_printf(f->v->arena, "host steps\n%lld", (long long)root_of(up, i));
    p->seg[p->n++] = str_of(seg);
  }
}

// Segments that all paths begin with, where nine of ten nodes have one, tell nothing apart: the
// network's own name, or the converter's.
static int common_depth(const Folding *f) {
  int64_t ops = 0;
  for (int64_t i = 0; i < f->d->node.n; i++) ops += f->d->node.v[i].kind == DRAW_OP;
  for (int depth = 0; depth < FOLD_DEPTH; depth++) {
    int64_t first = -1, n = 0;
    for (int64_t i = 0; i < f->d->node.n; i++) {
      const Path *p = &f->path[i];
      if (p->n <= depth) continue;
      if (first < 0) first = i;
      if (!str_eq(p->seg[depth], f->path[first].seg[depth])) return depth;
      n++;
    }
    if (n < 2 || 10 * n < 9 * ops) return depth;
  }
  return FOLD_DEPTH;
}

static bool same_seg(const Folding *f, int64_t a, int64_t b, int depth) {
  const Path *p = &f->path[a], *q = &f->path[b];
  return p->n > depth && q->n > depth && str_eq(p->seg[depth], q->seg[depth]);
}

// ---- boxes ----

// All boxes that can be reached from box b, b first, into `reached`; their number, or -1 when the
// search would take too long.
static int64_t find_reached(Folding *f, const Box *box, int32_t b) {
  int64_t n = 0;
  f->nmarks++;
  f->reached[n++] = b;
  f->mark[b] = f->nmarks;
  for (int64_t i = 0; i < n; i++) {
    const Box *x = &box[f->reached[i]];
    for (int64_t k = 0; k < x->to.n; k++) {
      int32_t y = x->to.v[k];
      if (f->budget-- <= 0) return -1;
      if (f->mark[y] == f->nmarks) continue;
      f->mark[y] = f->nmarks;
      f->reached[n++] = y;
    }
  }
  return n;
}

static bool reads_from_marked(const Folding *f, int64_t node, int64_t stamp, int32_t b) {
  for (int64_t k = f->in_start[node]; k < f->in_start[node + 1]; k++) {
    int64_t from = f->d->edge.v[f->in_edge[k]].from;
    if (f->stamp[from] == stamp && f->box_of[from] != b && f->mark[f->box_of[from]] == f->nmarks)
      return true;
  }
  return false;
}

// Lifts box b to a level, and what reads from it as far as that needs, operands before users.
static void raise_level(Folding *f, Box *box, int64_t nreached, int32_t level) {
  const int32_t *reached = f->reached;
  for (int64_t i = 0; i < nreached; i++) f->missing[reached[i]] = 0;
  for (int64_t i = 0; i < nreached; i++)
    for (int64_t k = 0; k < box[reached[i]].to.n; k++) f->missing[box[reached[i]].to.v[k]]++;
  int64_t n = 0;
  box[reached[0]].level = level;
  f->ready[n++] = reached[0];
  for (int64_t i = 0; i < n; i++) {
    const Box *x = &box[f->ready[i]];
    for (int64_t k = 0; k < x->to.n; k++) {
      int32_t y = x->to.v[k];
      box[y].level = MAX(box[y].level, x->level + 1);
      if (!--f->missing[y]) f->ready[n++] = y;
    }
  }
}

// Makes box b higher than all that a node reads; false: that would close a cycle.
static bool make_room(Folding *f, Box *box, int32_t b, int64_t node, int32_t level) {
  if (level < box[b].level) return true;
  int64_t n = find_reached(f, box, b);
  if (n < 0 || reads_from_marked(f, node, f->stamp[node], b)) return false;
  raise_level(f, box, n, level + 1);
  return true;
}

// The highest level of what node n reads in this part, outside of box b; -1: nothing.
static int32_t operand_level(const Folding *f, const Box *box, int64_t n, int64_t stamp,
                             int32_t b) {
  int32_t level = -1;
  for (int64_t k = f->in_start[n]; k < f->in_start[n + 1]; k++) {
    int64_t from = f->d->edge.v[f->in_edge[k]].from;
    if (f->stamp[from] == stamp && f->box_of[from] != b && f->box_of[from] >= 0)
      level = MAX(level, box[f->box_of[from]].level);
  }
  return level;
}

static void link_operands(Folding *f, Box *box, int64_t n, int64_t stamp, int32_t b) {
  for (int64_t k = f->in_start[n]; k < f->in_start[n + 1]; k++) {
    int64_t from = f->d->edge.v[f->in_edge[k]].from;
    if (f->stamp[from] != stamp || f->box_of[from] == b) continue;
    Box *o = &box[f->box_of[from]];
    if (!o->to.n || o->to.v[o->to.n - 1] != b) vec_push(f->a, &o->to, b);
  }
}

// Gives each node of a part its box; their number.  Needs the stamp of the part on its nodes.
static int32_t find_boxes(Folding *f, const int64_t *node, int64_t n, int depth, Box *box) {
  StrMap last;  // segment -> its last box, plus 1
  strmap_init(&last, f->a);
  int32_t nboxes = 0;
  for (int64_t i = 0; i < n; i++) f->box_of[node[i]] = -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t stamp = f->stamp[node[i]];
    const Path *p = &f->path[node[i]];
    bool inside = p->n > depth;
    int32_t b = inside ? (int32_t)(intptr_t)strmap_get(&last, p->seg[depth]) - 1 : -1;
    int32_t level = operand_level(f, box, node[i], stamp, b);
    if (b >= 0 && !make_room(f, box, b, node[i], level)) {
      b = -1;
      level = operand_level(f, box, node[i], stamp, b);
    }
    if (b < 0) {
      b = nboxes++;
      box[b] = (Box){.first = node[i], .level = level + 1, .item = -1};
      if (inside) strmap_put(&last, p->seg[depth], (void *)(intptr_t)(b + 1));
    }
    box[b].n++;
    f->box_of[node[i]] = b;
    link_operands(f, box, node[i], stamp, b);
  }
  return nboxes;
}

// ---- the nodes of a part ----

typedef struct OpCount {
  const char *title;
  int64_t n, first;
} OpCount;

static int by_count(const void *a, const void *b) {
  const OpCount *x = a, *y = b;
  if (x->n != y->n) return x->n > y->n ? -1 : 1;
  return (x->first > y->first) - (x->first < y->first);
}

// Which operations a module is made of, those that occur most.
static const char *ops_text(Folding *f, const int64_t *node, int64_t n) {
  StrMap at;
  VEC(OpCount) ops = {0};
  strmap_init(&at, f->a);
  for (int64_t i = 0; i < n; i++) {
    const char *title = f->d->node.v[node[i]].title;
    const char *bare = title + strspn(title, "0123456789");  // a kernel's number
    if (*bare == ' ') title = bare + 1;
    int64_t k = (int64_t)(intptr_t)strmap_get(&at, str_of(title)) - 1;
    if (k < 0) {
      k = ops.n;
      vec_push(f->a, &ops, ((OpCount){title, 0, i}));
      strmap_put(&at, str_of(title), (void *)(intptr_t)(k + 1));
    }
    ops.v[k].n++;
  }
  qsort(ops.v, (size_t)ops.n, sizeof *ops.v, by_count);
  StrBuf b;
  strbuf_init(&b, f->v->arena);
  for (int64_t i = 0; i < MIN(ops.n, OPS_NAMED); i++) {
    strbuf_printf(&b, "%s%s", i ? ", " : "", view_text_cut(ops.v[i].title, 20, f->a));
    if (ops.v[i].n > 1) strbuf_printf(&b, " \xc3\x97%lld", (long long)ops.v[i].n);
  }
  if (ops.n > OPS_NAMED) strbuf_puts(&b, ", \xe2\x80\xa6");
  return strbuf_text(&b);
}

static void add_line(View *v, DrawNode *n, const char *text) {
  vec_push(v->arena, &n->row, ((DrawRow){"", text}));
}

// The segments that all of a module's nodes share, from `depth` on: they are one module.
static int shared_depth(const Folding *f, const int64_t *node, int64_t n, int depth) {
  int end = depth + 1;
  for (;; end++)
    for (int64_t i = 0; i < n; i++)
      if (!same_seg(f, node[0], node[i], end)) return end;
}

static const char *module_title(const Folding *f, int64_t node, int from, int to) {
  StrBuf b;
  strbuf_init(&b, f->v->arena);
  for (int i = from; i < to; i++) {
    Str s = f->path[node].seg[i];
    for (int64_t k = 0; k < s.n; k++)
      if (s.p[k] == '\n') s.n = k;
    if (b.n) strbuf_putc(&b, '/');
    strbuf_put(&b, s);
  }
  return strbuf_text(&b);
}

typedef struct Todo {  // a part to be made
  const int64_t *node;
  int64_t n;
  int depth;
} Todo;
typedef VEC(Todo) TodoList;

static void add_module(Folding *f, Drawing *part, int64_t at, const int64_t *node, int64_t n,
                       int depth, TodoList *todo) {
  int end = shared_depth(f, node, n, depth);
  const char *title = module_title(f, node[0], depth, end);
  DrawNode box = {.kind = DRAW_MODULE, .family = FAMILY_port, .leaf = -1, .holds = n};
  box.name = module_title(f, node[0], 0, end);
  box.title = view_text_cut(title, MODULE_TITLE, f->v->arena);
  box.part = f->fold->part.n;
  add_line(f->v, &box, str_printf(f->v->arena, "%lld nodes", (long long)n));
  add_line(f->v, &box, ops_text(f, node, n));
  Drawing *inner = arena_new(f->v->arena, Drawing);
  inner->title = box.name;
  inner->parent = at;
  inner->parent_node = part->node.n;
  vec_push(f->v->arena, &f->fold->part, inner);
  vec_push(f->v->arena, &part->node, box);
  vec_push(f->a, todo, ((Todo){node, n, end}));
}

static void add_leaf(Folding *f, Drawing *part, int64_t node) {
  DrawNode leaf = f->d->node.v[node];
  leaf.leaf = node;
  leaf.part = -1;
  leaf.label_w = 0;
  vec_push(f->v->arena, &part->node, leaf);
}

typedef struct BoxKey {
  int32_t box, level;
  int64_t first;
} BoxKey;

static int by_level(const void *a, const void *b) {
  const BoxKey *x = a, *y = b;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  return (x->first > y->first) - (x->first < y->first);
}

// ---- ports and edges ----

typedef struct Joint {  // an edge of the part, before those of one value to one place are joined
  int64_t from, result, to, value;
  const char *label;
} Joint;
typedef VEC(Joint) JointList;

static int by_joint(const void *a, const void *b) {
  const Joint *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->result != y->result) return x->result < y->result ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  return (x->value > y->value) - (x->value < y->value);
}

static uint64_t value_key(const DrawEdge *e) {
  return (uint64_t)e->from << 20 | (uint64_t)e->result;
}

// The last two segments of a name say enough of a place elsewhere.
static const char *short_name(const Folding *f, int64_t node) {
  const DrawNode *n = &f->d->node.v[node];
  const char *s = n->name ? n->name : n->title;
  int slashes = 0;
  for (const char *p = s + strlen(s); p > s; p--)
    if (p[-1] == '/' && ++slashes == 2) return view_text_cut(p, PORT_TITLE, f->v->arena);
  return view_text_cut(s, PORT_TITLE, f->v->arena);
}

static int64_t add_port(Folding *f, Drawing *part, int64_t other, const char *type, bool in) {
  DrawNode n = {.kind = in ? DRAW_PORT_IN : DRAW_PORT_OUT, .family = FAMILY_port, .part = -1};
  n.leaf = other;
  n.title = other >= 0 ? short_name(f, other) : in ? "inputs" : "outputs";
  add_line(f->v, &n, type ? type : "");
  vec_push(f->v->arena, &part->node, n);
  return part->node.n - 1;
}

// Edges of a part's nodes to (or from) others: one port for each value.  `item`: node of the part
// by box.
static void add_ports(Folding *f, Drawing *part, int64_t at, const Todo *t, const Box *box, bool in,
                      JointList *joints) {
  const int64_t *start = in ? f->in_start : f->out_start, *list = in ? f->in_edge : f->out_edge;
  IntMap port;
  intmap_init(&port, f->a);
  VEC(int64_t) crossing = {0};
  for (int64_t i = 0; i < t->n; i++)
    for (int64_t k = start[t->node[i]]; k < start[t->node[i] + 1]; k++) {
      const DrawEdge *e = &f->d->edge.v[list[k]];
      if (f->stamp[in ? e->from : e->to] == at) continue;
      vec_push(f->a, &crossing, list[k]);
      intmap_put(&port, value_key(e), UINT64_MAX);
    }
  int64_t nvalues = port.n, common = -1;
  if (nvalues > PORTS_MAX)
    common = add_port(f, part, -1, str_printf(f->v->arena, "%lld values", (long long)nvalues), in);
  for (int64_t i = 0; i < crossing.n; i++) {
    const DrawEdge *e = &f->d->edge.v[crossing.v[i]];
    const char *type = f->label[crossing.v[i]];
    uint64_t p = UINT64_MAX;
    intmap_get(&port, value_key(e), &p);
    if (common >= 0) p = (uint64_t)common;
    if (p == UINT64_MAX) p = (uint64_t)add_port(f, part, in ? e->from : e->to, type, in);
    intmap_put(&port, value_key(e), p);
    const Box *b = &box[f->box_of[in ? e->to : e->from]];
    Joint j = {(int64_t)p, 0, b->item, (int64_t)value_key(e), NULL};
    if (!in) j = (Joint){b->item, b->n > 1 ? 0 : e->result, (int64_t)p, j.value, type};
    vec_push(f->a, joints, j);
  }
}

static void add_joints(Folding *f, int64_t at, const Todo *t, const Box *box, JointList *joints) {
  for (int64_t i = 0; i < t->n; i++)
    for (int64_t k = f->out_start[t->node[i]]; k < f->out_start[t->node[i] + 1]; k++) {
      const DrawEdge *e = &f->d->edge.v[f->out_edge[k]];
      if (f->stamp[e->to] != at || f->box_of[e->to] == f->box_of[e->from]) continue;
      const Box *from = &box[f->box_of[e->from]];
      Joint j = {from->item, from->n > 1 ? 0 : e->result, box[f->box_of[e->to]].item,
                 (int64_t)value_key(e), f->label[f->out_edge[k]]};
      vec_push(f->a, joints, j);
    }
}

// What leaves a module is drawn as one line, whatever the number of values: it says how many.
static void join_edges(Folding *f, Drawing *part, const JointList *joints) {
  const Joint *j = joints->v;
  for (int64_t i = 0; i < joints->n;) {
    int64_t end = i;
    IntMap values;
    intmap_init(&values, f->a);
    for (; end < joints->n && j[end].from == j[i].from && j[end].result == j[i].result; end++)
      intmap_put(&values, (uint64_t)j[end].value, 1);
    const char *label = j[i].label;
    if (values.n > 1 && label) label = str_printf(f->v->arena, "%lld values", (long long)values.n);
    for (int64_t k = i; k < end; k++) {
      if (k > i && j[k].to == j[k - 1].to) continue;
      DrawEdge e = {.from = j[k].from, .to = j[k].to, .result = (int)j[k].result, .parent = -1};
      e.label = k == i ? label : NULL;
      vec_push(f->v->arena, &part->edge, e);
    }
    i = end;
  }
}

// ---- parts ----

// Nodes by box, in order; fills Box.first with where they begin.
static int64_t *sort_by_box(Folding *f, const Todo *t, Box *box, int32_t nboxes) {
  int64_t *by_box = arena_array(f->a, int64_t, t->n + 1), at = 0;
  for (int32_t b = 0; b < nboxes; b++) {
    box[b].first = at;
    at += box[b].n;
    box[b].n = 0;
  }
  for (int64_t i = 0; i < t->n; i++) {
    Box *b = &box[f->box_of[t->node[i]]];
    by_box[b->first + b->n++] = t->node[i];
  }
  return by_box;
}

static void make_part(Folding *f, int64_t at, TodoList *todo) {
  Todo t = todo->v[at];
  Drawing *part = f->fold->part.v[at];
  Box *box = arena_array(f->a, Box, t.n + 1);
  for (int64_t i = 0; i < t.n; i++) f->stamp[t.node[i]] = at;
  int32_t nboxes = find_boxes(f, t.node, t.n, t.depth, box);
  int64_t *by_box = sort_by_box(f, &t, box, nboxes);
  BoxKey *key = arena_array(f->a, BoxKey, nboxes + 1);
  for (int32_t b = 0; b < nboxes; b++) key[b] = (BoxKey){b, box[b].level, by_box[box[b].first]};
  if (nboxes > 1) qsort(key, (size_t)nboxes, sizeof *key, by_level);
  JointList joints = {0};
  // Ports that values come in by are before everything, but only now is it known who reads them.
  for (int32_t i = 0; i < nboxes; i++) box[key[i].box].item = i;
  add_ports(f, part, at, &t, box, true, &joints);
  int64_t nports = part->node.n;
  for (int64_t i = 0; i < joints.n; i++) joints.v[i].to += nports;
  for (int32_t i = 0; i < nboxes; i++) {
    Box *b = &box[key[i].box];
    b->item = (int32_t)part->node.n;
    if (b->n > 1)
      add_module(f, part, at, by_box + b->first, b->n, t.depth, todo);
    else
      add_leaf(f, part, by_box[b->first]);
  }
  add_joints(f, at, &t, box, &joints);
  add_ports(f, part, at, &t, box, false, &joints);
  if (joints.n > 1) qsort(joints.v, (size_t)joints.n, sizeof *joints.v, by_joint);
  join_edges(f, part, &joints);
  drawing_measure(part, f->v->arena);
}

static void index_edges(Folding *f) {
  int64_t nodes = f->d->node.n, edges = f->d->edge.n;
  f->out_start = arena_array(f->a, int64_t, nodes + 2);
  f->in_start = arena_array(f->a, int64_t, nodes + 2);
  f->out_edge = arena_array(f->a, int64_t, edges + 1);
  f->in_edge = arena_array(f->a, int64_t, edges + 1);
  f->label = arena_array(f->a, const char *, edges + 1);
  IntMap label;
  intmap_init(&label, f->a);
  for (int64_t i = 0; i < edges; i++) {
    const DrawEdge *e = &f->d->edge.v[i];
    f->out_start[e->from + 2]++;
    f->in_start[e->to + 2]++;
    if (e->label) intmap_put(&label, value_key(e), (uint64_t)(uintptr_t)e->label);
  }
  for (int64_t i = 0; i < nodes; i++) {
    f->out_start[i + 2] += f->out_start[i + 1];
    f->in_start[i + 2] += f->in_start[i + 1];
  }
  for (int64_t i = 0; i < edges; i++) {
    const DrawEdge *e = &f->d->edge.v[i];
    uint64_t text = 0;
    f->out_edge[f->out_start[e->from + 1]++] = i;
    f->in_edge[f->in_start[e->to + 1]++] = i;
    if (intmap_get(&label, value_key(e), &text)) f->label[i] = (const char *)(uintptr_t)text;
  }
}

bool view_fold(View *v, int64_t drawing, int by) {
  const Drawing *d = v->drawing.v[drawing];
  Arena *scratch = &v->graph->scratch;
  ArenaMark mark = arena_mark(scratch);
  int64_t n = d->node.n;
  Folding f = {.v = v, .d = d, .a = scratch, .budget = SEARCH_BUDGET};
  f.fold = arena_new(v->arena, Fold);
  *f.fold = (Fold){.of = drawing, .by = by};
  f.path = arena_array(scratch, Path, n + 1);
  f.box_of = arena_array(scratch, int32_t, n + 1);
  f.stamp = arena_array(scratch, int64_t, n + 1);
  f.mark = arena_array(scratch, uint32_t, n + 1);
  f.reached = arena_array(scratch, int32_t, n + 1);
  f.ready = arena_array(scratch, int32_t, n + 1);
  f.missing = arena_array(scratch, int32_t, n + 1);
  int64_t *all = arena_array(scratch, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) {
    all[i] = i;
    f.stamp[i] = -1;
    if (by & FOLD_MODULES && d->node.v[i].kind == DRAW_OP) read_path(d->node.v[i].name, &f.path[i]);
  }
  int depth = common_depth(&f);
  if (by & FOLD_HOST) add_host_paths(&f, depth);
  index_edges(&f);
  TodoList todo = {0};
  vec_push(scratch, &todo, ((Todo){all, n, depth}));
  Drawing *whole = arena_new(v->arena, Drawing);
  *whole = (Drawing){.title = d->title, .parent = -1, .parent_node = -1};
  vec_push(v->arena, &f.fold->part, whole);
  for (int64_t i = 0; i < todo.n; i++) make_part(&f, i, &todo);
  arena_reset(scratch, mark);
  if (f.fold->part.n == 1) return false;  // nothing to fold
  for (int64_t i = 0; i < f.fold->part.n; i++) drawing_layout(f.fold->part.v[i], v->arena, scratch);
  vec_push(v->arena, &v->fold, f.fold);
  return true;
}
