// sym.c -- following shapes and the contents of small integer tensors through the families'
// inference.
//
// Exporters write shapes as tensors; an op that only moves elements moves their expressions the
// same way.  So each data element gets a number, the op's evaluation runs on the numbers, and the
// numbers that come out say which expression lies where.  Number 0 stands for an element that the
// op itself fills in: zero.
//
// Guarantees: what cannot be known is left out; only running out of memory is an error.
#include "ops/sym.h"

typedef VEC(Dim) Numbers;  // the expression of each number

// The number of elements, when all dims are constants and there are few; -1 else.
static int64_t small_count(const Type *t) {
  if (!type_is_static(t)) return -1;
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    if (!ck_mul(n, t->dims[i]->value, &n) || n > KNOWN_MAX) return -1;
  return n;
}

// Contents are followed through floats too, where they are whole numbers.
static bool followed(const Type *t) {
  return t && t->kind == TK_TENSOR && t->dtype && t->dtype != DT_STRING && small_count(t) >= 0;
}

static Value *numbered(Graph *g, const Node *n, Numbers *numbers) {
  int64_t count;
  const Dim *sym;
  const Type *t = type_of(n);
  if (!followed(t) || !node_sym(g, n, &count, &sym) || count != small_count(t)) return NULL;
  Value *v = arena_new(&g->scratch, Value);
  int64_t *data = arena_array(&g->scratch, int64_t, MAX(count, 1));
  *v = (Value){
      .kind = VK_TENSOR, .dtype = DT_I64, .rank = t->rank, .n = count, .data = data, .refs = 1};
  for (int i = 0; i < t->rank; i++) v->dims[i] = t->dims[i]->value;
  for (int64_t i = 0; i < count; i++) {
    data[i] = numbers->n;
    vec_push(&g->scratch, numbers, sym[i]);
  }
  return v;
}

// The operands as values: data numbered, the rest constants.  False when something is not known, or
// when everything is constant, so that node_new finds the contents itself.
static bool operand_values(Infer *in, uint64_t data, Numbers *numbers, const Value **out) {
  Graph *g = in->g;
  bool symbolic = false;
  for (int i = 0; i < in->nsrc; i++) {
    const Node *n = infer_src(in, i);
    if (!n) continue;
    if (!(data >> MIN(i, 63) & 1)) {
      out[i] = node_known(g, n);
    } else {
      out[i] = numbered(g, n, numbers);
      symbolic |= out[i] && !n->known && n->op != OP_const;
    }
    if (!out[i]) return false;
  }
  return symbolic;
}

static void take_contents(Infer *in, const Value *v, const Numbers *numbers) {
  const Type *t = in->type[0];
  if (!v || v->kind != VK_TENSOR || v->dtype != DT_I64 || v->rank != t->rank) return;
  for (int i = 0; i < t->rank; i++)
    if (v->dims[i] != t->dims[i]->value) return;
  Dim *sym = arena_array(&in->g->arena, Dim, MAX(v->n, 1));
  for (int64_t i = 0; i < v->n; i++) {
    int64_t number = ((const int64_t *)v->data)[i];
    if (number < 0 || number >= numbers->n) return;
    sym[i] = numbers->v[number];
  }
  in->sym = sym;
  in->nsym = v->n;
}

static void run_numbered(Infer *in, const Value *const *operands, const Numbers *numbers) {
  Graph *g = in->g;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  Run run;
  run_init(&run, NULL, quiet);
  run.max_bytes = 1 << 20;
  Eval e = {.run = &run, .in = operands, .nin = in->nsrc, .nout = in->nres, .attrs = in->attrs};
  e.out = arena_array(&g->scratch, Value *, in->nres);
  Trap t;
  volatile bool raised = true;
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) {
    t.status = in->op->eval(&e);
    if (!t.status) take_contents(in, e.out[0], numbers);
    raised = false;
  }
  trap_leave(&t);
  run_deinit(&run);
  // What the model asks too much is left out; that there is no memory, the caller must hear.
  bool refused = t.status == TENON_ENOMEM && !run.over_limit;
  if (raised || refused) trap_again(t.status, quiet->text);
}

void sym_move(Infer *in, uint64_t data) {
  Graph *g = in->g;
  if (!followed(in->type[0])) return;
  ArenaMark mark = arena_mark(&g->scratch);
  Numbers numbers = {0};
  vec_push(&g->scratch, &numbers, g->dims.zero);
  const Value **operands = arena_array(&g->scratch, const Value *, in->nsrc);
  if (operand_values(in, data, &numbers, operands)) run_numbered(in, operands, &numbers);
  arena_reset(&g->scratch, mark);
}

void sym_same(Infer *in) {
  int64_t n;
  const Dim *sym;
  if (!node_sym(in->g, in->src[0], &n, &sym)) return;
  in->sym = sym;
  in->nsym = n;
}

bool sym_fits(DType t, Dim d) {
  int bits = dtype_bits(t);
  if (ie_is_poison(d)) return false;
  if (!ie_is_const(d))
    return bits >= 32 && dtype_class(t) != DC_UINT && dtype_class(t) != DC_COMPLEX;
  switch (dtype_class(t)) {
  case DC_BOOL: return d->value == 0 || d->value == 1;
  case DC_UINT: return d->value >= 0 && (bits == 64 || d->value >> bits == 0);
  case DC_INT: return bits == 64 || (d->value >> (bits - 1)) == (d->value < 0 ? -1 : 0);
  case DC_FLOAT:
    return round_to(t, (double)d->value) == (double)d->value && d->lo > -(1LL << 53) &&
           d->hi < 1LL << 53;
  default: return false;
  }
}

int64_t infer_length(const Infer *in, int i) {
  const Type *t = infer_type(in, i);
  if (!t || t->kind != TK_TENSOR) return -1;
  if (t->rank == 0) return 1;
  return t->rank == 1 && ie_is_const(t->dims[0]) ? t->dims[0]->value : -1;
}

tenon_status infer_need_ints(Infer *in, int i, const char *name) {
  TRY(infer_need(in, i, TENON_DTYPE_NONE));
  const Type *t = infer_type(in, i);
  if (t->dtype && !dtype_is_int(t->dtype) && t->dtype != DT_BOOL)
    return infer_fail(in, TENON_EINVAL, "operand %d (%s) is %s, must be integers", i, name,
                      dtype_name(t->dtype));
  if (t->rank > 1)
    return infer_fail(in, TENON_EINVAL, "operand %d (%s) has rank %d, must be at most 1", i, name,
                      t->rank);
  return TENON_OK;
}

tenon_status infer_axes(Infer *in, Ints axes, int rank, int *out_axes) {
  uint32_t seen = 0;
  if (axes.n > rank)
    return infer_fail(in, TENON_EINVAL, "%lld axes for rank %d", (long long)axes.n, rank);
  for (int64_t i = 0; i < axes.n; i++) {
    int a;
    TRY(infer_axis(in, axes.v[i], rank, &a));
    if (seen >> a & 1)
      return infer_fail(in, TENON_EINVAL, "axis %lld is given twice", (long long)axes.v[i]);
    seen |= 1u << a;
    out_axes[i] = a;
  }
  return TENON_OK;
}
