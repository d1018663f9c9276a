// interpret.c -- the plan interpreter: the reference evaluations in the planned order, in the
// planned memory.
//
// Every result is moved to its place in one arena; operands are read from there, so a plan that
// puts two lives over each other gives wrong results here as it would in generated code.  Memory
// that holds nothing is filled with a pattern (NaN as floats), before the run and again when a
// value dies.
#include "plan/impl.h"

enum { POISON = 0xfb };

typedef struct Planned {
  const MemPlan *p;
  Arena arena;
  int64_t *offset, *size, total;
  char *memory;
  int32_t *users;  // by place: values in it that are still needed
} Planned;

// What lies at the end of the plan's memory, for messages.
static Where last_value(const Planned *x) {
  const MemPlan *p = x->p;
  for (int32_t i = 0; i < p->n; i++)
    if (p->buffer[i].root == i && x->offset[i] + x->size[i] == x->total)
      return (Where){.node = p->buffer[i].node->name};
  return NOWHERE;
}

static tenon_status begin(void *ctx, Run *run, const int64_t *bind, const bool *bound,
                          int32_t nbind) {
  Planned *x = ctx;
  const MemPlan *p = x->p;
  x->offset = arena_array(&x->arena, int64_t, MAX(p->n, 1));
  x->size = arena_array(&x->arena, int64_t, MAX(p->n, 1));
  x->users = arena_array(&x->arena, int32_t, MAX(p->n, 1));
  if (!plan_layout(p, bind, bound, nbind, x->offset, x->size, &x->total))
    return fail(run->diag, TENON_EINVAL, NOWHERE,
                "the sizes of these inputs leave the plan's memory undetermined");
  Where last = last_value(x);
  if (run->max_bytes && x->total > run->max_bytes)
    return run_over_limit(run, last, "the plan's memory", x->total);
  x->memory = mem_alloc(MAX(x->total, 1));
  if (!x->memory)
    return fail(run->diag, TENON_ENOMEM, last, "out of memory for an arena of %lld bytes",
                (long long)x->total);
  memset(x->memory, POISON, (size_t)x->total);
  return TENON_OK;
}

// A value that does not lie in the arena, nor does anything that it holds; with `constants`,
// neither is it one of the interpreter's, which go with it.
static tenon_status take_out(const Planned *x, Run *run, Value *v, bool constants, Value **out) {
  *out = v;
  if (!v) return TENON_OK;
  if (v->kind == VK_TENSOR) {
    bool inside = (char *)v->data >= x->memory && (char *)v->data < x->memory + x->total;
    if (!inside && (v->run || !constants)) return TENON_OK;
    TRY(value_tensor(run, NOWHERE, v->dtype, v->rank, v->dims, out));
    copy_elems(v->dtype, (*out)->data, 0, v->data, 0, v->n);
  } else {  // the items' count is the list's own
    for (int64_t i = 0; i < v->nitems; i++) {
      Value *item;
      TRY(take_out(x, run, v->items[i], constants, &item));
      v->items[i] = item;
    }
    return TENON_OK;
  }
  if (v->run) value_release(v);
  return TENON_OK;
}

// The buffer with a place of its own that holds this one.
static int32_t holder(const MemPlan *p, int32_t b) {
  b = p->buffer[b].root;
  while (p->buffer[b].within >= 0) b = p->buffer[b].within;
  return b;
}

static tenon_status place(void *ctx, Run *run, const Node *n, int result, Value **v) {
  Planned *x = ctx;
  int32_t b = plan_find(x->p, n, result);
  // A list holds its items, and a branch may hand an operand on: such must outlive the operand's
  // place.
  if (b < 0 || (*v)->kind != VK_TENSOR) return take_out(x, run, *v, false, v);
  int32_t root = x->p->buffer[b].root;
  int64_t bytes = 0;
  if (!dtype_bytes((*v)->dtype, (*v)->n, &bytes) || bytes > x->size[root])
    return fail(run->diag, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)},
                "%lld bytes do not fit the planned %lld", (long long)bytes,
                (long long)x->size[root]);
  char *at = x->memory + x->offset[root];
  if (bytes) memmove(at, (*v)->data, (size_t)bytes);  // a view's bytes are there already
  x->users[holder(x->p, b)]++;
  Value *moved;
  TRY(value_borrow(run, (*v)->dtype, (*v)->rank, (*v)->dims, at, &moved));
  value_release(*v);
  *v = moved;
  return TENON_OK;
}

static void dead(void *ctx, const Node *n, int result) {
  Planned *x = ctx;
  int32_t b = plan_find(x->p, n, result);
  if (b < 0) return;
  int32_t root = holder(x->p, b);
  if (--x->users[root] == 0 && x->size[root])
    memset(x->memory + x->offset[root], POISON, (size_t)x->size[root]);
}

// Kernels that run concurrently, last first: what is right in either order needs no order.
static NodeList run_order(const MemPlan *p, Arena *a) {
  NodeList o = {arena_dup(a, p->order.v, p->order.n * (int64_t)sizeof(Node *)), p->order.n};
  for (int64_t begin = 0, i = 1; i <= o.n; i++) {
    if (i < o.n && plan_is_concurrent(p, i)) continue;
    for (int64_t k = begin; k < i; k++) o.v[k] = p->order.v[begin + i - 1 - k];
    begin = i;
  }
  return o;
}

tenon_status plan_run(const MemPlan *p, Run *run, Value *const *inputs, Value **out) {
  Planned x = {.p = p};
  arena_init(&x.arena);
  Interp *in = NULL;
  Placement pl = {.ctx = &x, .begin = begin, .place = place, .dead = dead};
  NodeList order = run_order(p, &x.arena);
  tenon_status s = interp_create(p->g, &(InterpOptions){.order = &order}, run->diag, &in);
  if (!s) s = interp_run_placed(in, run, &pl, inputs, out);
  for (int64_t i = 0; !s && i < p->g->main->nresults; i++)
    s = take_out(&x, run, out[i], true, &out[i]);
  interp_free(in);
  mem_free(x.memory, MAX(x.total, 1));
  arena_deinit(&x.arena);
  return s;
}
