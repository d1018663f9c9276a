// verify_test.c -- the graph verifier: graphs that were changed behind the constructors' back,
// refused or accepted.
#include "ir/internal.h"
#include "test.h"

#include <stdlib.h>

// The graph under test: a main body with a constant, a sum, two projections, and an if whose
// branches are one body.
static const char text[] =
    "graph @\"g\"(%x: f32[4], %c: bool[], %r: f32[?k + 1]) -> (y: f32[4], z: f32[2], w: f32[4], v: "
    "f32[?k + 1]) {\n"
    "  %k = const f32[4] {1, 2, 3, 4}\n"
    "  %m = const f32[2, 2] {1, 2, 3, 4}\n"
    "  %a = neg(%x)\n"
    "  %b = add(%a, %k)\n"
    "  %t = transpose(%m) perm=[1, 0]\n"
    "  %s:2 = foreign(%b, %t) op=\"S\" : f32[2], f32[2]\n"
    "  %i = if(%c, %x, %x) then_captures=1 then_branch={ (%p: f32[4])\n    %0 = exp(%p)\n    "
    "return %0\n"
    "  } else_branch={ (%q: f32[4])\n    %0 = tanh(%q)\n    return %0\n  } : f32[4]\n"
    "  %u = abs(%r)\n"
    "  return %b, %s.1, %i, %u\n}\n";

typedef struct Parts {
  Graph *g;
  Node *neg, *sum, *proj, *foreign, *branch, *abs, *constant, *matrix, *transpose;
} Parts;

static Node *find(Graph *g, int op, const char *name) {
  for (int64_t i = 0; i < g->node.n; i++) {
    Node *n = g->node.v[i];
    if (n->op == op && (!name || (n->name && !strcmp(n->name, name)))) return n;
  }
  return NULL;
}

typedef struct if_parts {
  int64_t then_captures;
  Body *then_branch, *else_branch;
} if_parts;

static const Type **types_of(Node *n) { return (const Type **)(uintptr_t)n->type; }
static ConstData *data_of(Node *n) { return (ConstData *)(uintptr_t)n->data; }
static if_parts *branches_of(Node *n) { return (if_parts *)(uintptr_t)n->attrs; }

static const Type *vector_of(Graph *g, Dim d) { return type_tensor(g, DT_F32, 1, &d); }
static Dim fresh_and_one(Graph *g) { return ie_addc(&g->dims, ie_fresh(&g->dims, "other"), 1); }

static void keep(Parts *p) { (void)p; }
static void type_rank_most(Parts *p) {
  Dim d[MAX_RANK];
  for (int i = 0; i < MAX_RANK; i++) d[i] = p->g->dims.one;
  int64_t at = ((const proj_attrs *)p->proj->attrs)->index;
  types_of(p->foreign)[at] = types_of(p->proj)[0] = type_tensor(p->g, DT_F32, MAX_RANK, d);
}
static void type_rank_over(Parts *p) {
  Type *t = arena_dup(&p->g->arena, type_of(p->neg), (int64_t)sizeof(Type));
  t->rank = MAX_RANK + 1;
  types_of(p->neg)[0] = t;
}
static void type_rank_under(Parts *p) {
  Type *t = arena_dup(&p->g->arena, type_of(p->neg), (int64_t)sizeof(Type));
  t->rank = -2;
  types_of(p->neg)[0] = t;
}
static void type_dtype(Parts *p) {
  Type *t = arena_dup(&p->g->arena, type_of(p->neg), (int64_t)sizeof(Type));
  t->dtype = (DType)250;
  types_of(p->neg)[0] = t;
}
static void type_negative(Parts *p) {
  types_of(p->neg)[0] = vector_of(p->g, ie_const(&p->g->dims, -1));
}
static void type_of_fresh_sum(Parts *p) {
  types_of(p->abs)[0] = vector_of(p->g, fresh_and_one(p->g));
}
static void type_of_fresh_quotient(Parts *p) {
  IntPool *d = &p->g->dims;
  types_of(p->abs)[0] = vector_of(p->g, ie_div(d, ie_fresh(d, "other"), ie_const(d, 2)));
}
static void type_of_given_size(Parts *p) {
  IntPool *d = &p->g->dims;
  types_of(p->abs)[0] = vector_of(p->g, ie_sym(d, STR("given"), 0, 100));
}
static void op_beyond(Parts *p) { p->neg->op = OP_COUNT; }
static void no_result(Parts *p) { p->neg->nres = 0; }
static void shared_body(Parts *p) {
  branches_of(p->branch)->else_branch = branches_of(p->branch)->then_branch;
}
static void unlisted_body(Parts *p) {
  if_parts *b = branches_of(p->branch);
  b->else_branch = arena_dup(&p->g->arena, b->else_branch, (int64_t)sizeof(Body));
}
static void body_of_main(Parts *p) { branches_of(p->branch)->else_branch->result[0] = p->neg; }
static void body_result_missing(Parts *p) { branches_of(p->branch)->else_branch->result[0] = NULL; }
static void body_param_no_param(Parts *p) {
  branches_of(p->branch)->else_branch->param[0] = p->neg;
}
static void body_param_twice(Parts *p) {
  if_parts *b = branches_of(p->branch);
  b->else_branch->param[0] = b->then_branch->param[0];
  b->else_branch->result[0] = b->then_branch->result[0];
}
static void moved(Parts *p) {
  data_of(p->matrix)->moved = p->transpose;  // of itself: type and kind of the node fit
}
static void moved_by_other(Parts *p) { data_of(p->constant)->moved = p->neg; }
static void moved_to_other_type(Parts *p) { data_of(p->constant)->moved = p->transpose; }
static void moved_from_file(Parts *p) {
  data_of(p->matrix)->moved = p->transpose;
  data_of(p->matrix)->source = (Source *)(uintptr_t)p->g;
}
static void moved_value(Parts *p) {
  data_of(p->matrix)->moved = p->transpose;
  ((Node **)(uintptr_t)p->transpose->src)[0] = p->neg;
}
static void const_without_bytes(Parts *p) { data_of(p->constant)->mem = NULL; }
static void const_without_data(Parts *p) { p->constant->data = NULL; }
static void const_of_other_source(Parts *p) {
  data_of(p->constant)->source = (Source *)(uintptr_t)p->g;
}
static void const_below_source(Parts *p) {
  data_of(p->constant)->source = (Source *)(uintptr_t)p->g;
  data_of(p->constant)->offset = -1;
}
static void const_beyond_source(Parts *p) {
  data_of(p->constant)->source = (Source *)(uintptr_t)p->g;
  data_of(p->constant)->offset = INT64_MAX - 3;
}
static void const_count(Parts *p) { data_of(p->constant)->n++; }
static void const_shape(Parts *p) {
  types_of(p->constant)[0] = vector_of(p->g, ie_sym(&p->g->dims, STR("n"), 0, 100));
}
static void proj_below(Parts *p) { ((proj_attrs *)(uintptr_t)p->proj->attrs)->index = -1; }
static void proj_of_one(Parts *p) { ((Node **)(uintptr_t)p->proj->src)[0] = p->sum; }
static void proj_type(Parts *p) { types_of(p->proj)[0] = type_of(p->neg); }
static void operand_missing(Parts *p) { ((Node **)(uintptr_t)p->neg->src)[0] = NULL; }
static void operand_absent(Parts *p) { ((Node **)(uintptr_t)p->sum->src)[1] = p->g->none; }
static void operand_of_two(Parts *p) { ((Node **)(uintptr_t)p->abs->src)[0] = p->foreign; }
static void attrs_missing(Parts *p) { p->transpose->attrs = NULL; }
static void names_of_inputs(Parts *p) { p->g->main->param[1]->name = p->g->main->param[0]->name; }
static void unfinished(Parts *p) { p->g->status = TENON_ENOMEM; }
static void dim_of_other_graph(Parts *p) {
  IntExpr *copy = arena_dup(&p->g->arena, ie_sym(&p->g->dims, STR("elsewhere"), 0, 100),
                            (int64_t)sizeof(IntExpr));
  types_of(p->neg)[0] = vector_of(p->g, copy);
}

static const struct {
  const char *name;
  void (*change)(Parts *p);
  const char *message;  // NULL: the graph is still sound
} row[] = {
    {"nothing", keep, NULL},
    {"the highest rank", type_rank_most, NULL},
    {"rank + 1", type_rank_over, "node 'a' (neg): result 0 has rank"},
    {"rank -2", type_rank_under, "node 'a' (neg): result 0 has rank -2"},
    {"dtype 250", type_dtype, "result 0 has dtype 250"},
    {"size -1", type_negative, "dimension 0 of result 0 is negative"},
    {"another unknown size in a sum", type_of_fresh_sum, NULL},
    {"an unknown quotient for a sum", type_of_fresh_quotient, "but inference says"},
    {"a given size for an unknown one", type_of_given_size, "but inference says"},
    {"no op", op_beyond, "there is no op"},
    {"no result", no_result, "the node has no result"},
    {"one body for both branches", shared_body, NULL},
    {"a body that is not listed", unlisted_body, "is not among the graph's bodies"},
    {"a value of main in a body", body_of_main, "uses a parameter that is not its own"},
    {"a body without its result", body_result_missing, "result 0 is no node"},
    {"a parameter that is none", body_param_no_param, "parameter 0 is no parameter"},
    {"a parameter of two bodies", body_param_twice, "a parameter of two bodies"},
    {"a moved constant", moved, NULL},
    {"a constant moved by neg", moved_by_other, "a constant is said to be moved by neg"},
    {"a constant moved to another type", moved_to_other_type, "said to be moved by transpose"},
    {"a moved constant of a file", moved_from_file, "said to be moved by transpose"},
    {"a moved value", moved_value, "what is moved is no constant"},
    {"a constant without bytes", const_without_bytes, "a constant without bytes"},
    {"a constant without data", const_without_data, "a constant without contents"},
    {"a source of another graph", const_of_other_source, "source is not the graph's"},
    {"an offset below 0", const_below_source, "the constant lies at offset -1"},
    {"an offset that overflows", const_beyond_source, "the constant lies at offset"},
    {"5 elements of 4", const_count, "do not fit the type"},
    {"a constant of unknown shape", const_shape, "a tensor of known type and shape"},
    {"result -1", proj_below, "projects result -1 of 2"},
    {"a projection of one result", proj_of_one, "a projection of a node that has one result"},
    {"a projection's type", proj_type, "has another type than the result that it projects"},
    {"an operand that is missing", operand_missing, "operand 0 is missing"},
    {"an absent operand", operand_absent, "a trailing operand is absent"},
    {"an operand of two results", operand_of_two, "operand 0 has 2 results and no projection"},
    {"attributes that are missing", attrs_missing, "the attributes are missing"},
    {"two inputs of one name", names_of_inputs, "two inputs have this name"},
    {"a graph with an error", unfinished, "the graph was not built to its end"},
    {"a size of another graph", dim_of_other_graph, "belongs to another graph"},
};

TEST(changed_graphs_are_refused) {
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    static Diag d;
    Parts p = {0};
    diag_init(&d);
    if (graph_parse(str_of(text), NULL, &d, &p.g)) FAIL("%s", d.text);
    REQUIRE(p.g);
    Graph *g = p.g;
    p.neg = find(g, OP_neg, NULL), p.sum = find(g, OP_add, NULL), p.proj = find(g, OP_proj, NULL);
    p.foreign = find(g, OP_foreign, NULL), p.branch = find(g, OP_if, NULL);
    p.abs = find(g, OP_abs, NULL), p.constant = find(g, OP_const, "k");
    p.matrix = find(g, OP_const, "m"), p.transpose = find(g, OP_transpose, NULL);
    REQUIRE(p.neg && p.sum && p.proj && p.foreign && p.branch && p.abs && p.constant && p.matrix &&
            p.transpose);
    row[i].change(&p);
    tenon_status s = graph_verify(g, &d);
    if (!s != !row[i].message)
      FAIL("%s: %s", row[i].name, s ? d.text : "accepted");
    else if (s)
      EXPECT_CONTAINS(d.text, row[i].message);
    graph_free(g);
  }
}
