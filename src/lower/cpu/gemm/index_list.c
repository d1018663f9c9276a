// index_list.c -- template gemm over pruned weights: a panel's K steps whose weights are all 0 are
// left out.
//
// A list for each panel of columns has the number of the K steps that are left, and these in
// ascending order.  The weights of these steps alone are packed.  Whether that is faster depends on
// how many steps a panel of each width has left, which is counted once for each weight.
//
// Needs:      FAST_REASSOC; a float GEMM or pointwise convolution without padding, with constant
//             weights and K, on cores; not swapped.
// Guarantees: the products that are left are added in the order of K, so that finite operands give
//             the bits of the dense product.  NaN or infinity times a weight of 0 is left out.
//             Weights that are not pruned are told by a sample of them.
#include "lower/contract/contract.h"

#include <math.h>

// ---- what a weight has left ----

enum { BLOCK = 8 };  // columns that are looked at together

// One tap that reads every image in its place.
static bool one_tap(const Contraction *c) {
  for (int i = 0; i + 1 < c->nk; i++)
    if (!ie_is(c->k[i], 1)) return false;
  for (int d = 0; c->conv && d < c->nd; d++)
    if (c->space[d].padded || c->space[d].kernel != 1) return false;
  return !c->transposed && !c->depthwise && !c->sides && !c->phases && !c->image && !c->guarded;
}

static bool takes(const Contraction *c) {
  bool plain = c->weight && c->acc == DT_F32 && type_of(c->rhs)->dtype == DT_F32 && !c->word &&
               !c->lhs_zero && !c->rhs_zero && !c->pieces && !c->swapped && !c->ncuts;
  return plain && c->groups == 1 && c->nk > 0 && c->depth > 0 && ie_is_const(c->n) &&
         c->depth < INT32_MAX && one_tap(c) && !c->e->lo->target.block_threads &&
         (c->e->lo->g->fast & FAST_REASSOC);
}

// Where the weight of a step and a column lies: its distances.
typedef struct Strides {
  int64_t step, column;
} Strides;

static bool strides_of(const Contraction *c, Strides *out) {
  PackSpec s;
  if (!contract_pack(c, 1, &s) || s.words || s.points) return false;
  *out = (Strides){0, 0};
  for (int j = 0; j < s.ncoords; j++) {
    out->step += s.coef[j][1 + c->nk] * s.stride[j];
    out->column += s.coef[j][1] * s.stride[j];
  }
  return true;
}

// Steps of all panels of so many columns, and of the one with the most.
static void count_steps(ContractList *l, ContractListWidth *w) {
  int64_t each = w->cols / BLOCK;
  for (int64_t first = 0; first < l->blocks; first += each) {
    int64_t left = 0;
    for (int64_t k = 0; k < l->depth; k++) {
      uint8_t any = 0;
      for (int64_t b = first; b < MIN(first + each, l->blocks); b++)
        any |= l->kept[k * l->blocks + b];
      left += any;
    }
    w->steps += left;
    w->most = MAX(w->most, left);
    w->panels++;
  }
}

void contract_list_find(Contraction *c) {
  const void *bytes;
  Strides at;
  if (!takes(c) || !const_is_pruned(c->e->lo->g, c->weight) || !strides_of(c, &at)) return;
  ElementBuilder *e = c->e;
  if (const_elements(e->lo->g, c->weight, e->a, &bytes, e->lo->diag)) return;
  ContractList *l = arena_new(e->a, ContractList);
  *l = (ContractList){.weight = bytes, .depth = c->depth, .step = at.step, .column = at.column};
  l->columns = c->n->value;
  l->blocks = (l->columns + BLOCK - 1) / BLOCK;
  l->kept = arena_array(e->a, uint8_t, l->depth * l->blocks);
  for (int64_t k = 0; k < l->depth; k++)
    for (int64_t j = 0; j < l->columns; j++)
      l->kept[k * l->blocks + j / BLOCK] |= l->weight[k * at.step + j * at.column] != 0;
  int64_t lanes = MAX(e->lo->target.vector_bytes / (int64_t)sizeof(float), 1);
  for (int64_t cols = lanes; cols <= CONTRACT_LIST_VECTORS * lanes; cols += lanes) {
    if (cols % BLOCK) continue;
    l->width[l->nwidths] = (ContractListWidth){.cols = cols};
    count_steps(l, &l->width[l->nwidths++]);
  }
  c->list = l;
}

const ContractListWidth *contract_list_width(const Contraction *c, int64_t cols) {
  for (int i = 0; c->list && i < c->list->nwidths; i++)
    if (c->list->width[i].cols == cols) return &c->list->width[i];
  return NULL;
}

// ---- the choice ----

// Cycles of a step of a tile with two multiplications and two loads a cycle; weights come from the
// second cache.
static double step_cost(int64_t rows, int64_t vectors, bool listed) {
  static const double INDEX = 1, FETCH = 2.5;  // reading and checking an index; a vector of weights
  double multiply = (double)(rows * vectors) / 2, load = (double)(rows + vectors + listed) / 2;
  return fmax(fmax(multiply, load), FETCH * (double)vectors) + (listed ? INDEX : 0);
}

int64_t contract_list_choose(const Contraction *c, const LowerTarget *t, int64_t dense_cols) {
  static const double GAIN = 0.9;
  int64_t lanes = MAX(t->vector_bytes / (int64_t)sizeof(float), 1), best = 0;
  int64_t m = ie_is_const(c->m) ? MAX(c->m->value, 1) : INT64_MAX;
  int64_t rows = MIN(contract_most_rows(c, t, lanes, dense_cols), m);
  int64_t panels = (c->n->value + dense_cols - 1) / dense_cols;
  double least = (double)(panels * c->depth) / (double)rows *
                 step_cost(rows, (dense_cols + lanes - 1) / lanes, false) * GAIN;
  for (int i = 0; c->list && i < c->list->nwidths; i++) {
    const ContractListWidth *w = &c->list->width[i];
    rows = MIN(contract_most_rows(c, t, lanes, w->cols), m);
    double cost = (double)w->steps / (double)rows * step_cost(rows, w->cols / lanes, true);
    if (cost < least) least = cost, best = w->cols;
  }
  return best;
}

// ---- constants ----

// Panels of [steps][columns], where a step beyond those of its panel is 0.
static void fill_panel(const ContractList *l, const ContractListWidth *w, int64_t panel,
                       float *packed, int32_t *list) {
  int64_t each = w->cols / BLOCK, first = panel * each, n = 0;
  for (int64_t k = 0; k < l->depth; k++) {
    uint8_t any = 0;
    for (int64_t b = first; b < MIN(first + each, l->blocks); b++)
      any |= l->kept[k * l->blocks + b];
    if (!any) continue;
    float *to = packed + (panel * MAX(w->most, 1) + n) * w->cols;
    for (int64_t j = 0; j < w->cols && panel * w->cols + j < l->columns; j++)
      to[j] = l->weight[k * l->step + (panel * w->cols + j) * l->column];
    list[panel * (w->most + 1) + 1 + n++] = (int32_t)k;
  }
  list[panel * (w->most + 1)] = (int32_t)n;
}

bool contract_list_build(Tiler *t) {
  Contraction *c = t->c;
  Graph *g = c->e->lo->g;
  const ContractListWidth *w = contract_list_width(c, t->s.cols);
  if (!w) return false;
  int64_t n = w->panels * MAX(w->most, 1) * w->cols, bytes = n * (int64_t)sizeof(float);
  int64_t entries = w->panels * (w->most + 1);
  float *packed = mem_alloc(bytes);
  if (!packed) return false;
  memset(packed, 0, (size_t)bytes);
  int32_t *list = arena_array(c->e->a, int32_t, entries);
  for (int64_t p = 0; p < w->panels; p++) fill_panel(c->list, w, p, packed, list);
  Node *weights = node_const_take(g, DT_F32, 1, &n, packed, bytes, NULL);
  Node *steps = node_const(g, DT_I32, 1, &entries, list, NULL);
  t->packed = elem_constant(c->e, weights, "w");
  t->list = elem_constant(c->e, steps, "list");
  t->most = MAX(w->most, 1);
  t->list_pitch = w->most + 1;
  return t->packed >= 0 && t->list >= 0;
}

// ---- loops ----

static const LoopExpr *entry(Tiler *t, Dim at) {
  return loop_cast(t->e->k, DT_I64, loop_load(t->e->k, t->list, at));
}

bool contract_list_sums(Tiler *t, int64_t rows) {
  static const char BAD[] = "a list of K steps is damaged";
  ElementBuilder *e = t->e;
  IntPool *p = e->pool;
  Dim k[CONTRACT_K], first = ie_mulc(p, t->panel, t->list_pitch);
  int last = t->c->nk - 1;
  Dim n = loop_bind(&e->b, "steps", entry(t, first), ie_const(p, t->list_pitch), BAD);
  t->listed = loop_for(&e->b, LOOP_SERIAL, "s", n);
  for (int i = 0; i < last; i++) k[i] = p->zero;
  Dim at = ie_addc(p, ie_add(p, first, t->listed), 1);
  k[last] = loop_bind(&e->b, "k", entry(t, at), t->c->k[last], BAD);
  bool ok = contract_step(t, (Rows){.to = rows}, k);
  loop_end(&e->b);
  t->listed = NULL;
  return ok;
}
