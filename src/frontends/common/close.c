// close.c -- closes a body over what it uses from outside (close.h).
#include "frontends/common/close.h"

#include "ir/internal.h"

#include <stdlib.h>

typedef struct Closing {
  Graph *g;
  Arena *arena;
  uint32_t mark;
  IntMap map;  // node -> node within the body
  BodyNodes captures, params, todo;
} Closing;

static Node *mapped(Closing *c, const Node *n) {
  uint64_t v;
  return intmap_get(&c->map, n->id, &v) ? (Node *)(uintptr_t)v : NULL;
}
static void map_to(Closing *c, const Node *n, Node *to) {
  intmap_put(&c->map, n->id, (uint64_t)(uintptr_t)to);
}

static int by_id(const void *a, const void *b) {
  const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static Node *rebuilt(Closing *c, const Node *n) {
  Graph *g = c->g;
  Node **src = arena_array(&g->arena, Node *, n->nsrc + 1);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = mapped(c, n->src[i]);
  if (n->op == OP_proj) return node_proj(g, src[0], (int)((const proj_attrs *)n->attrs)->index);
  return node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

// A node with several results is used through projections: what is captured is the projection.
static bool is_outer(const Closing *c, const Node *x) {
  return x->id < c->mark || x->op == OP_param;
}

// Everything below the results that was made in the region, and what that uses of the outside.
static void reach(Closing *c, Node *n) {
  Arena *a = c->arena;
  BodyNodes stack = {0};
  vec_push(a, &stack, n);
  while (stack.n) {
    Node *x = stack.v[--stack.n];
    if (mapped(c, x)) continue;
    if (x->op == OP_const || x == c->g->none) {
      map_to(c, x, x);
    } else if (is_outer(c, x) && x->nres == 1) {
      Node *p = node_param(c->g, type_of(x), NULL);
      vec_push(a, &c->captures, x);
      vec_push(a, &c->params, p);
      map_to(c, x, p);
    } else {
      map_to(c, x, x);  // known; close_body makes it again, over the mapped operands
      vec_push(a, &c->todo, x);
      for (uint32_t i = 0; i < x->nsrc; i++) vec_push(a, &stack, x->src[i]);
    }
  }
}

Body *close_body(Graph *g, Arena *a, uint32_t mark, const BodyNodes *own, const BodyNodes *results,
                 BodyNodes *captures) {
  Closing c = {.g = g, .arena = a, .mark = mark};
  *captures = (BodyNodes){0};
  if (g->status) return NULL;
  intmap_init(&c.map, a);
  for (int64_t i = 0; i < own->n; i++) map_to(&c, own->v[i], own->v[i]);
  for (int64_t i = 0; i < results->n; i++) reach(&c, results->v[i]);
  if (c.todo.n) qsort(c.todo.v, (size_t)c.todo.n, sizeof *c.todo.v, by_id);
  for (int64_t i = 0; i < c.todo.n && !g->status; i++)
    map_to(&c, c.todo.v[i], rebuilt(&c, c.todo.v[i]));
  if (g->status) return NULL;
  BodyNodes params = {0}, out = {0};
  for (int64_t i = 0; i < own->n; i++) vec_push(a, &params, own->v[i]);
  for (int64_t i = 0; i < c.params.n; i++) vec_push(a, &params, c.params.v[i]);
  for (int64_t i = 0; i < results->n; i++) vec_push(a, &out, mapped(&c, results->v[i]));
  *captures = c.captures;
  return body_new(g, NULL, params.n, params.v, out.n, out.v);
}
