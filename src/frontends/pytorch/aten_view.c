// aten_view.c -- tensors that share their elements, and operators that change them in place.
//
// A graph's values never change: an operator that writes into a tensor gives it another node.  A
// view remembers the call that made it; after a write its node is made again from its base's.  A
// write into a view is one into the tensor whose elements it has: the same calls, made on the
// positions of that tensor's elements instead of the elements, say where each of the view's lies,
// whatever the calls are, and the elements are scattered there.
#include "eval/generate.h"
#include "eval/index.h"
#include "frontends/pytorch/aten.h"

enum { MOST_VIEWS = 4096 };

typedef enum { SHARES, COPIES, UNSURE } Sharing;

static bool is_one_of(Str name, const char *const *names) {
  while (*names && !str_is(name, *names)) names++;
  return *names != NULL;
}

// Whether a call's result shares the operand's elements.  Some do where these are contiguous, which
// a graph does not say: tensors that are no views do, those whose axes were exchanged do not.
static Sharing sharing(const AtenSchema *s, const AtenValue *args, const AtenBox *out) {
  static const char *const if_dense[] = {"reshape", "reshape_as", "flatten", "contiguous", NULL};
  static const char *const casts[] = {"to", "cpu", NULL};
  static const char *const dense[] = {"view",    "view_as",    "unsqueeze", "squeeze", "alias",
                                      "detach",  "lift_fresh", "unflatten", "reshape", "reshape_as",
                                      "flatten", "contiguous", "to",        "cpu",     NULL};
  static const char *const permuting[] = {"permute",   "transpose",    "swapaxes", "t",
                                          "numpy_T",   "mT",           "movedim",  "expand",
                                          "expand_as", "broadcast_to", NULL};
  if (is_one_of(s->name, casts))
    return type_of(out->node)->dtype == type_of(args[0].box->node)->dtype ? SHARES : COPIES;
  if (!is_one_of(s->name, if_dense)) return SHARES;
  Sharing is = SHARES;
  for (const AtenBox *b = args[0].box; b->base; b = b->base) {
    if (is_one_of(b->by->name, permuting)) return COPIES;
    if (!is_one_of(b->by->name, dense)) is = UNSURE;
  }
  return is;
}

AtenBox *aten_root(AtenBox *box) {
  while (box->base) box = box->base;
  return box;
}

static void link_one(Aten *a, const AtenSchema *s, AtenValue *args, AtenBox *box, int64_t item) {
  AtenBox *root = aten_root(args[0].box);
  Sharing is = box == args[0].box || box->base ? COPIES : sharing(s, args, box);
  if (is == COPIES) return;
  if (root->views.n >= MOST_VIEWS) {
    graph_fail(a->g, TENON_EUNSUPPORTED, NOWHERE, "more than %d views of one tensor", MOST_VIEWS);
    return;
  }
  box->base = args[0].box;
  box->by = s;
  box->args = args;
  box->item = item;
  box->unsure = is == UNSURE;
  vec_push(a->arena, &root->views, box);
}

void aten_link(Aten *a, const AtenSchema *s, const AtenValue *args, const AtenValue *out) {
  if (a->g->status || args[0].kind != AV_TENSOR) return;
  AtenValue *kept = arena_dup(a->arena, args, (int64_t)sizeof *args * MAX(s->nargs, 1));
  if (out->kind == AV_TENSOR) link_one(a, s, kept, out->box, -1);
  for (int64_t i = 0; out->list && i < out->list->v.n; i++)
    if (out->list->v.v[i].kind == AV_TENSOR) link_one(a, s, kept, out->list->v.v[i].box, i);
}

// The call that made a view, on another tensor.
static Node *made_of(Aten *a, const AtenBox *view, Node *base, Where at) {
  AtenValue *args =
      arena_dup(a->arena, view->args, (int64_t)sizeof *args * MAX(view->by->nargs, 1));
  args[0] = av_tensor(a->arena, base);
  AtenCall c = {.a = a, .g = a->g, .schema = view->by, .arg = args, .at = at};
  view->by->row->fn(&c);
  if (a->g->status) return a->g->poison;
  const AtenValue *out = &c.out;
  if (view->item >= 0) out = &c.out.list->v.v[view->item];
  return out->box->node;
}

// Positions of a view's elements among those of the root.
static Node *positions(Aten *a, const AtenBox *view, Where at) {
  Graph *g = a->g;
  if (view->base) return made_of(a, view, positions(a, view->base, at), at);
  Node *shape = N(g, shape, view->node);
  int64_t first = 0;
  Node *count = bt_reduce(g, OP_reduce_prod, shape, (Ints){.n = 1, .v = &first}, false);
  Node *all = N(g, range, node_scalar(g, DT_I64, 0), count, node_scalar(g, DT_I64, 1));
  return bt_reshape_to(g, all, shape);
}

static Node *flat(Graph *g, Node *x) { return bt_reshape(g, x, 1, (int64_t[]){-1}); }

static void write_through(Aten *a, AtenBox *view, Node *value, Where at) {
  Graph *g = a->g;
  AtenBox *root = aten_root(view);
  Node *where = positions(a, view, at);
  if (g->status) return;
  if (type_of(where)->dtype != DT_I64) {
    graph_fail(g, TENON_EUNSUPPORTED, at, "a view of other elements is changed");
    return;
  }
  Node *spread = N(g, expand, value, N(g, shape, where));
  scatter_elements_attrs attrs = {.axis = 0};
  Node *all = NA(g, scatter_elements, &attrs, flat(g, root->node), flat(g, where), flat(g, spread));
  root->node = bt_reshape_to(g, all, N(g, shape, root->node));
  view->node = spread;
}

void aten_change(Aten *a, const AtenValue *operand, const AtenValue *result, Where at) {
  if (a->g->status || operand->kind != AV_TENSOR || result->kind != AV_TENSOR) return;
  AtenBox *box = operand->box, *root = aten_root(box);
  Node *value = bt_cast(a->g, result->box->node, type_of(box->node)->dtype);
  bool complex = root->complex;
  for (int64_t i = 0; i < root->views.n; i++) complex = complex || root->views.v[i]->complex;
  if (complex) {
    graph_fail(a->g, TENON_EUNSUPPORTED, at, "an operator that changes complex numbers in place");
    return;
  }
  for (int64_t i = 0; i < root->views.n; i++)
    if (root->views.v[i]->unsure) {
      graph_fail(
          a->g, TENON_EUNSUPPORTED, at,
          "an operator that changes a tensor of which aten::%.*s gave a part, which may share "
          "its elements or not; clone() says that it does not",
          STR_ARG(root->views.v[i]->by->name));
      return;
    }
  if (box == root)
    root->node = value;
  else
    write_through(a, box, value, at);
  for (int64_t i = 0; i < root->views.n && !a->g->status; i++) {
    AtenBox *v = root->views.v[i];
    if (v != box) v->node = made_of(a, v, v->base->node, at);
  }
}
