// moved.c -- evaluates what depends on constants alone, and gives moved constants their bytes.
//
// Guarantees: bit-equal to what the interpreter would compute; a failed allocation leaves nothing
//             behind.
#include "ir/internal.h"

static tenon_status operand(Graph *g, const Node *n, Run *run, Value **out) {
  const void *bytes;
  const Type *t = type_of(n);
  int64_t dims[MAX_RANK];
  TRY(const_bytes(g, n, &bytes, run->diag));
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  if ((uintptr_t)bytes % 16 == 0) return value_borrow(run, t->dtype, t->rank, dims, bytes, out);
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  if (n->data->bytes) memcpy((*out)->data, bytes, (size_t)n->data->bytes);
  return TENON_OK;
}

tenon_status const_evaluate(Graph *g, const Node *n, Run *run, Value **out) {
  ArenaMark m = arena_mark(&g->scratch);
  const Value **in = arena_array(&g->scratch, const Value *, n->nsrc);
  tenon_status s = TENON_OK;
  *out = NULL;
  for (uint32_t i = 0; !s && i < n->nsrc; i++)
    if (n->src[i] != g->none) s = operand(g, n->src[i], run, (Value **)(uintptr_t)&in[i]);
  Eval e = {.run = run, .in = in, .nin = (int)n->nsrc, .out = out, .nout = 1, .attrs = n->attrs};
  if (!s) s = op_table[n->op]->eval(&e);
  arena_reset(&g->scratch, m);
  return s;
}

// The place in the list first, so that the bytes are freed whatever fails from there on.
static tenon_status move_bytes(Graph *g, const Node *n, Run *run) {
  int64_t at = g->block.n;
  Value *v;
  vec_push(&g->arena, &g->block, ((GraphBlock){0}));
  TRY(const_evaluate(g, n->data->moved, run, &v));
  CHECK(v->kind == VK_TENSOR && v->n == n->data->n, "%s gave another shape",
        op_name(n->data->moved));
  GraphBlock *own = &g->block.v[at];
  own->p = value_take_data(v, &own->bytes);
  if (!own->p) {  // nothing had to move
    own->bytes = n->data->bytes;
    if (!(own->p = mem_alloc(own->bytes)))
      return fail(run->diag, TENON_ENOMEM, NOWHERE, "out of memory for a constant");
    memcpy(own->p, v->data, (size_t)own->bytes);
  }
  // A cache, not a change: the node's meaning is the same.
  ((ConstData *)(uintptr_t)n->data)->mem = own->p;
  return TENON_OK;
}

tenon_status const_move(Graph *g, const Node *n, Diag *d) {
  Run run;
  Trap t;
  run_init(&run, NULL, d);
  volatile bool raised = true;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = move_bytes(g, n, &run);
    raised = false;
  }
  trap_leave(&t);
  run_deinit(&run);
  if (raised) trap_again(t.status, d->text);
  return t.status;
}
