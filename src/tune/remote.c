// remote.c -- writes a task down for workers (remote.h).
//
// Weights and operands that kernels make go as kind and size alone.  Integers that are at hand,
// such as indices, go with their contents where they are few.
//
// Needs:      a lowered stage.
// Guarantees: one tensor for each node that any of the kernels reads, so all compute from the same
//             values, whatever they pack.
#include "tune/remote.h"

typedef struct Describer {
  Stage *s;
  DimBinding dims;
  IntMap at;  // node -> tensor
  VEC(FrameTensor) tensor;
} Describer;

static void bind_sizes(Describer *d) {
  const TuneModel *m = d->s->m;
  binding_init(&d->dims, &d->s->arena, m->g);
  for (int64_t i = 0; i < m->main->nparams; i++) {
    const Type *t = type_of(m->main->param[i]);
    const Value *v = m->in[i];
    for (int k = 0; v && v->kind == VK_TENSOR && k < MIN(t->rank, v->rank); k++) {
      Dim x = t->dims[k];
      if (x->kind != IE_SYM || x->slot >= d->dims.n) continue;
      d->dims.value[x->slot] = v->dims[k];
      d->dims.known[x->slot] = true;
    }
  }
}

static bool size_of(const Describer *d, Dim x, int64_t *out) {
  return ie_eval(x, d->dims.value, d->dims.known, d->dims.n, out);
}

// What is known of a node's contents; NULL: nothing.
static const void *contents(const Describer *d, const Node *n, int64_t bytes) {
  const TuneModel *m = d->s->m;
  const void *p = NULL;
  if (n->op == OP_const && n->data && n->data->bytes == bytes)
    return const_bytes(m->g, n, &p, diag_unread()) ? NULL : p;
  for (int64_t i = 0; i < m->main->nparams; i++)
    if (m->main->param[i] == n && m->in[i] && m->in[i]->kind == VK_TENSOR) return m->in[i]->data;
  return NULL;
}

static tenon_status describe_tensor(Describer *d, const Node *n, int32_t *out) {
  const Type *t = type_of(n);
  FrameTensor x = {.dtype = t->dtype, .n = 1, .weight = n->op == OP_const};
  uint64_t have;
  int64_t bytes, dim;
  bool sized = t->rank >= 0;
  if (intmap_get(&d->at, n->id, &have)) {
    *out = (int32_t)have;
    return TENON_OK;
  }
  for (int k = 0; sized && k < t->rank; k++)
    sized = size_of(d, t->dims[k], &dim) && dim >= 0 && ck_mul(x.n, dim, &x.n);
  if (!sized || !dtype_bytes(t->dtype, x.n, &bytes) || bytes > FRAME_TENSOR_MAX ||
      d->tensor.n == FRAME_TENSORS || t->dtype == DT_STRING)
    return fail(d->s->m->diag, TENON_EUNSUPPORTED, NOWHERE, "a value that no frame can hold");
  bool ints = !dtype_is_float(t->dtype) && bytes > 0 && bytes <= FRAME_GIVEN;
  const void *p = ints ? contents(d, n, bytes) : NULL;
  if (p) x.bytes = (Str){p, bytes};
  intmap_put(&d->at, n->id, (uint64_t)d->tensor.n);
  *out = (int32_t)d->tensor.n;
  vec_push(&d->s->arena, &d->tensor, x);
  return TENON_OK;
}

static tenon_status describe_kernel(Describer *d, const KernelText *k, FrameKernel *out) {
  const Lowered *lw = k->lowered;
  const LoopKernel *l = lw->kernel;
  Arena *a = &d->s->arena;
  *out = (FrameKernel){.text = k->text,
                       .ndims = l->ndims,
                       .nargs = l->nargs,
                       .dim = arena_array(a, int64_t, l->ndims + 1),
                       .arg = arena_array(a, FrameArg, l->nargs + 1)};
  if (l->ndims > FRAME_DIMS || l->nargs > FRAME_ARGS)
    return fail(d->s->m->diag, TENON_EUNSUPPORTED, NOWHERE, "a kernel that no frame can hold");
  for (int32_t i = 0; i < l->ndims; i++)
    if (!size_of(d, lw->dim[i], &out->dim[i]))
      return fail(d->s->m->diag, TENON_EUNSUPPORTED, NOWHERE, "a size that depends on data");
  for (int32_t i = 0; i < l->nargs; i++) {
    const LowerArg *x = &lw->arg[i];
    FrameArg *f = &out->arg[i];
    *f = (FrameArg){.result = x->kind == LOWER_RESULT,
                    .packed = x->kind == LOWER_PACKED,
                    .index = x->index,
                    .pack = x->pack};
    const Node *n = x->kind == LOWER_OPERAND ? d->s->task->node->src[x->index] : x->node;
    if (!f->result) TRY(describe_tensor(d, n, &f->index));
  }
  return TENON_OK;
}

tenon_status remote_task(Stage *s, const Building *b, FrameTask *out) {
  Describer d = {.s = s};
  Arena *a = &s->arena;
  *out = (FrameTask){.cold_bytes = s->cold_bytes,
                     .nkernels = b->n,
                     .kernel = arena_array(a, FrameKernel, b->n + 1)};
  intmap_init(&d.at, a);
  bind_sizes(&d);
  for (int64_t i = 0; i < b->n; i++)
    TRY(describe_kernel(&d, &b->report[b->of[i]].compiled.kernel[0], &out->kernel[i]));
  out->tensor = d.tensor.v;
  out->ntensors = d.tensor.n;
  return TENON_OK;
}
