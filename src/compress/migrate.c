// migrate.c -- where scale can move, and the graph in which it has (migrate.h).
//
// From the tensor it goes backwards, to the constants that take the inverse.  On the way are ops
// whose result scales with their operand: ReLU, pools, movement, sums with a constant.  A value
// that anything else reads stays as it is, and so does all before it.
#include "compress/migrate.h"

#include "compress/layers.h"
#include "eval/norm.h"
#include "ops/order.h"
#include "rules/shape.h"

#include <math.h>

const MigrationRow migration_row[MIGRATIONS] = {
#define MIGRATION(id, name, floats, bytes, layers, doc) {name, floats, bytes, layers, doc},
#include "compress/migrations.def"
};

int migration_find(Str name) {
  for (int i = 0; i < MIGRATIONS; i++)
    if (str_is(name, migration_row[i].name)) return i;
  return -1;
}

typedef struct Migrate {
  const MigrateTask *t;
  MigratePlan *plan;
  int32_t *users;  // by node id: operands and results that it is
  Arena *arena, scratch;
  Diag *diag;
  // of the site that is looked at
  const char *by;
  bool layer;  // `by` is a contraction
  int64_t factors;
} Migrate;

// ---- users ----

static void count_users(Migrate *m) {
  Graph *g = m->t->g;
  bool *seen = arena_array(m->arena, bool, g->node.n + 1);
  m->users = arena_array(m->arena, int32_t, g->node.n + 1);
  for (int64_t k = -1; k < g->body.n; k++) {
    const Body *b = k < 0 ? g->main : g->body.v[k];
    NodeList order = body_order(g, b, m->arena);
    for (int64_t i = 0; i < order.n; i++) {
      const Node *n = order.v[i];
      if (seen[n->id]) continue;
      seen[n->id] = true;
      for (uint32_t s = 0; s < n->nsrc; s++) m->users[n->src[s]->id]++;
    }
    for (int64_t i = 0; i < b->nresults; i++) m->users[b->result[i]->id]++;
  }
}

// ---- axes ----

static int64_t size_at(const Node *n, int axis) {
  const Type *t = type_of(n);
  bool fixed = t->kind == TK_TENSOR && axis >= 0 && axis < t->rank;
  return fixed && t->dims[axis]->kind == IE_CONST ? t->dims[axis]->value : -1;
}

static int channel_axis(const Node *contraction, const Node *x) {
  return contraction->op == OP_conv ? 1 : type_of(x)->rank - 1;
}

// The axis of a reshape's operand that its axis comes from, all of it; or whose parts follow each
// other in it, so that an index there is several here.  -1: there is none.
static int reshaped_axis(const Node *n, int axis) {
  const Type *to = type_of(n), *from = type_of(n->src[0]);
  if (from->kind != TK_TENSOR || from->rank < 1 || to->rank < 1 || axis != to->rank - 1) return -1;
  int64_t size = size_at(n, axis), rest = 1;
  if (size_at(n->src[0], from->rank - 1) == size) return from->rank - 1;
  if (from->rank <= axis) return -1;
  for (int k = 0; k < axis; k++)
    if (from->dims[k] != to->dims[k]) return -1;
  for (int k = axis; k < from->rank; k++) {
    int64_t d = size_at(n->src[0], k);
    if (d < 1 || !ck_mul(rest, d, &rest)) return -1;
  }
  return rest == size ? axis : -1;
}

// ---- what takes the inverse ----

static bool take(Migrate *m, const Node *n, int axis);

// `x`: the tensor whose channels along an axis the factors are of.
static MigrateChange *change(Migrate *m, const Node *n, uint32_t operand, const Node *x, int axis,
                             bool inverse) {
  MigrateChange c = {.node = n, .operand = operand, .site = m->plan->site.n, .inverse = inverse};
  c.size = size_at(x, axis);
  c.behind = type_of(x)->rank - 1 - axis;
  c.what = MIGRATE_CONST;
  vec_push(m->arena, &m->plan->change, c);
  return &m->plan->change.v[m->plan->change.n - 1];
}

static bool end_at(Migrate *m, const Node *n, bool layer) {
  m->by = n->name ? n->name : op_name(n);
  m->layer = layer;
  return true;
}

static bool is_constant(const Node *n) {
  const Type *t = type_of(n);
  return n->op == OP_const && t->kind == TK_TENSOR && t->dtype == DT_F32 && t->rank >= 0;
}

// An operand that nothing else reads, scaled in the place of the result.
static bool take_operand(Migrate *m, const Node *n, uint32_t i, int axis) {
  const Node *x = n->src[i];
  return m->users[x->id] == 1 && take(m, x, axis);
}

static bool take_contraction(Migrate *m, int64_t group, int axis) {
  const QuantGroup *q = &m->t->groups->v[group];
  const Node *n = q->node;
  if (axis != channel_axis(n, n) || size_at(n, axis) != q->shape.outputs) return false;
  if (m->users[n->src[1]->id] > 1) return false;  // other layers have these weights
  change(m, n, 1, n, axis, true)->what = MIGRATE_OUTPUTS;
  if (src_or_null(m->t->g, n, 2)) change(m, n, 2, n, axis, true)->behind = 0;
  return end_at(m, n, true);
}

static bool take_sum(Migrate *m, const Node *n, int axis) {
  uint32_t c = is_constant(n->src[0]) ? 0 : 1;
  if (!is_constant(n->src[c]) || !type_same_dims(type_of(n->src[1 - c]), type_of(n))) return false;
  change(m, n, c, n, axis, true);
  return take_operand(m, n, 1 - c, axis);
}

static bool take_product(Migrate *m, const Node *n, int axis) {
  for (uint32_t c = 2; c-- > 0;) {
    if (!is_constant(n->src[c])) continue;
    change(m, n, c, n, axis, true);
    return end_at(m, n, false);
  }
  for (uint32_t k = 0; k < 2; k++) {
    int64_t mark = m->plan->change.n;
    if (!type_same_dims(type_of(n->src[k]), type_of(n))) continue;
    if (take_operand(m, n, k, axis)) return true;
    m->plan->change.n = mark;
  }
  return false;
}

static bool take_norm(Migrate *m, const Node *n, int axis) {
  const Type *t = type_of(n);
  const layer_normalization_attrs *at = n->op == OP_layer_normalization ? n->attrs : NULL;
  const rms_normalization_attrs *rms = n->op == OP_rms_normalization ? n->attrs : NULL;
  int64_t first = at ? at->axis : rms ? rms->axis : -1;
  if (n->nres != 1 || axis != t->rank - 1 || (first != -1 && first != t->rank - 1)) return false;
  for (uint32_t i = 1; i < n->nsrc; i++) {
    const Node *c = src_or_null(m->t->g, n, i);
    if (!c) continue;
    if (!is_constant(c) || type_of(c)->rank != 1) return false;
    change(m, n, i, n, axis, true);
  }
  return end_at(m, n, false);
}

static bool take_moved(Migrate *m, const Node *n, int axis) {
  int64_t perm[MAX_RANK];
  if (n->op == OP_transpose) {
    int rank = transpose_perm(n, perm);
    return axis < rank && take_operand(m, n, 0, (int)perm[axis]);
  }
  int from = reshaped_axis(n, axis);
  if (from < 0) return false;
  int64_t size = size_at(n->src[0], from);
  if (m->factors % size) return false;
  m->factors = size;
  return take_operand(m, n, 0, from);
}

// Whether the value of n can be divided along an axis, by constants before it.
static bool take(Migrate *m, const Node *n, int axis) {
  int64_t group = groups_at(m->t->groups, n);
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->dtype != DT_F32 || size_at(n, axis) < 1) return false;
  if (group >= 0) return take_contraction(m, group, axis);
  switch (n->op) {
  case OP_add:
  case OP_sub: return take_sum(m, n, axis);
  case OP_mul: return take_product(m, n, axis);
  case OP_div:
    if (!is_constant(n->src[1])) return false;
    change(m, n, 1, n, axis, false);
    return end_at(m, n, false);
  case OP_layer_normalization:
  case OP_rms_normalization: return take_norm(m, n, axis);
  case OP_relu:
  case OP_leaky_relu:
  case OP_abs: return take_operand(m, n, 0, axis);
  case OP_prelu: return is_constant(n->src[1]) && take_operand(m, n, 0, axis);
  case OP_max_pool:
  case OP_average_pool:
  case OP_global_max_pool:
  case OP_global_average_pool:
    return n->nres == 1 && axis == 1 && !node_channels_last(n) && take_operand(m, n, 0, axis);
  case OP_reshape:
  case OP_flatten:
  case OP_squeeze:
  case OP_unsqueeze:
  case OP_transpose: return take_moved(m, n, axis);
  default: return false;
  }
}

// ---- sites ----

static bool is_rounded(const Migrate *m, const QuantGroup *q) {
  return !q->kept && !(choice_row[m->t->choice].products && q->node->op == OP_conv);
}

static bool reads(const QuantGroup *q, const Node *x, int axis) {
  return q->node->src[0] == x && channel_axis(q->node, x) == axis &&
         q->shape.inputs * q->shape.parts == size_at(x, axis);
}

// What would overflow is left alone.
static tenon_status fits(Migrate *m, const MigrateSite *s, int64_t from, bool *out) {
  static const double MOST = 1e28;
  const TensorStats *stats = stats_find(m->t->stats, s->x);
  *out = true;
  for (int64_t c = 0; c < s->size; c++) *out &= stats->channel_max[c] < MOST;
  for (int64_t i = from; i < m->plan->change.n && *out; i++) {
    const MigrateChange *c = &m->plan->change.v[i];
    const Node *n = c->node->src[c->operand];
    const void *bytes;
    if (c->what == MIGRATE_PRODUCT) continue;
    TRY(const_elements(m->t->g, n, &m->scratch, &bytes, m->diag));
    for (int64_t k = 0; k < n->data->n; k++) *out &= fabs((double)((const float *)bytes)[k]) < MOST;
  }
  return TENON_OK;
}

static tenon_status estimate(Migrate *m, MigrateSite *s) {
  const GroupList *l = m->t->groups;
  VEC(MigrateReader) reader = {0};
  const ChoiceRow *row = &choice_row[m->t->choice];
  for (int64_t i = 0; i < l->n; i++) {
    MigrateReader r = {.group = &l->v[i]};
    float *w;
    if (!reads(r.group, s->x, s->axis) || !is_rounded(m, r.group)) continue;
    TRY(layer_weights(m->t->g, r.group, &m->scratch, m->diag, &w));
    r.w = w;
    vec_push(&m->scratch, &reader, r);
  }
  MigrateFactorTask t = {.reader = reader.v,
                         .nreaders = reader.n,
                         .stats = stats_find(m->t->stats, s->x),
                         .bytes = row->activation_bits == 8,
                         .weight_bits = row->weight_bits,
                         .block = m->t->block};
  migrate_factors(&t, m->arena, s);
  return TENON_OK;
}

// Changes of a site begin at `from`.
static tenon_status take_site(Migrate *m, MigrateSite *s, int64_t from) {
  static const double GAIN = 0.8, GAIN_OF_PRODUCT = 0.5;  // of the error, what must be left at most
  MigratePlan *p = m->plan;
  bool fit;
  TRY(estimate(m, s));
  if (!(s->after < (s->by ? GAIN : GAIN_OF_PRODUCT) * s->before)) {
    p->even++;
    p->change.n = from;
    return TENON_OK;
  }
  TRY(fits(m, s, from, &fit));
  if (!fit) {
    p->refused++;
    p->change.n = from;
    return TENON_OK;
  }
  for (int64_t i = 0; i < m->t->groups->n; i++)
    if (reads(&m->t->groups->v[i], s->x, s->axis)) p->of[i] = s->kind;
  vec_push(m->arena, &p->site, *s);
  return TENON_OK;
}

static tenon_status try_site(Migrate *m, const Node *x, int axis) {
  const GroupList *l = m->t->groups;
  MigratePlan *p = m->plan;
  MigrateSite s = {.x = x, .axis = axis, .size = size_at(x, axis)};
  const TensorStats *stats = stats_find(m->t->stats, x);
  bool bytes = choice_row[m->t->choice].activation_bits == 8, rounded = false, shared = false;
  int64_t from = p->change.n;
  int32_t readers = 0;
  if (s.size < 2 || !stats || stats->channels != s.size) return TENON_OK;
  for (int64_t i = 0; i < l->n; i++) {
    if (!reads(&l->v[i], x, axis)) continue;
    rounded |= is_rounded(m, &l->v[i]);
    shared |= m->users[l->v[i].node->src[1]->id] > 1;
    readers++;
  }
  if (!rounded) return TENON_OK;
  if (shared) {  // layers that share their weights still share them
    p->refused++;
    return TENON_OK;
  }
  m->factors = s.size;
  bool taken = m->users[x->id] == readers && take(m, x, axis);
  if (!taken) p->change.n = from;
  if (!(taken && m->layer) && migration_row[m->t->how].layers) {
    p->change.n = from;
    p->refused++;
    return TENON_OK;
  }
  s.factors = taken ? m->factors : s.size;
  s.by = taken ? m->by : NULL;
  s.kind = taken && m->layer ? MIGRATION_EQUALISE : bytes ? MIGRATION_SMOOTH : MIGRATION_AWQ;
  if (m->t->how != MIGRATION_AUTO) s.kind = m->t->how;
  for (int64_t i = 0; i < l->n; i++) {
    if (!reads(&l->v[i], x, axis)) continue;
    if (!taken) change(m, l->v[i].node, 0, x, axis, true)->what = MIGRATE_PRODUCT;
    change(m, l->v[i].node, 1, x, axis, false)->what = MIGRATE_INPUTS;
  }
  return take_site(m, &s, from);
}

tenon_status migrate_find(const MigrateTask *t, Arena *a, Diag *d, MigratePlan *out) {
  Migrate m = {.t = t, .plan = out, .arena = a, .diag = d};
  tenon_status s = TENON_OK;
  *out = (MigratePlan){0};
  out->of = arena_array(a, Migration, MAX(t->groups->n, 1));
  count_users(&m);
  for (int64_t i = 0; i < t->groups->n && !s; i++) {
    const Node *n = t->groups->v[i].node, *x = n->src[0];
    int axis = channel_axis(n, x);
    bool seen = false;
    for (int64_t k = 0; k < i && !seen; k++) seen = reads(&t->groups->v[k], x, axis);
    if (seen) continue;
    arena_init(&m.scratch);
    s = try_site(&m, x, axis);
    arena_deinit(&m.scratch);
  }
  return s;
}

// ---- the graph ----

typedef struct Apply {
  const MigrateTask *t;
  const MigratePlan *plan;
  Node **product;     // by site
  const Node **made;  // by group
  Arena *arena;
  Diag *diag;
  tenon_status status;
} Apply;

static double factor_of(const Apply *a, const MigrateChange *c, int64_t i) {
  const MigrateSite *s = &a->plan->site.v[c->site];
  int e = s->exponent[i / (c->size / s->factors)];
  return ldexp(1, c->inverse ? -e : e);
}

static Node *constant_of(Apply *a, const Node *like, int rank, const int64_t *dims, float *v,
                         int64_t n) {
  Graph *g = a->t->g;
  int64_t bytes = MAX(n, 1) * (int64_t)sizeof *v;
  return node_const_take(g, DT_F32, rank, dims, v, bytes, like->name);
}

static float *place_for(int64_t n) {
  float *v = mem_alloc(MAX(n, 1) * (int64_t)sizeof *v);
  if (!v) trap_raise(TENON_ENOMEM, "out of memory");
  return v;
}

// A constant that broadcasts to the node's result; one that is the same for all channels is written
// out.
static Node *scale_constant(Apply *a, const MigrateChange *c, const Node *old) {
  const Type *t = type_of(old);
  const void *from;
  int64_t dims[MAX_RANK], outer = 1, inner = 1;
  int rank = MAX(t->rank, c->behind + 1), at = rank - 1 - c->behind;
  a->status = const_elements(a->t->g, old, a->arena, &from, a->diag);
  if (a->status) return NULL;
  for (int k = 0; k < rank; k++) {
    dims[k] = k >= rank - t->rank ? t->dims[k - (rank - t->rank)]->value : 1;
    if (k < at) outer *= dims[k];
    if (k > at) inner *= dims[k];
  }
  int64_t own = dims[at];
  dims[at] = c->size;
  float *to = place_for(outer * c->size * inner);
  for (int64_t i = 0; i < outer * c->size * inner; i++) {
    int64_t k = i / inner % c->size, o = i / inner / c->size;
    double v = (double)((const float *)from)[(o * own + (own == 1 ? 0 : k)) * inner + i % inner];
    to[i] = (float)(v * factor_of(a, c, k));
  }
  return constant_of(a, old, rank, dims, to, outer * c->size * inner);
}

// A contraction's weights, times the factors of its input or output channels.
static Node *scale_weights(Apply *a, const MigrateChange *c, const Node *old) {
  const WeightShape *s = &a->t->groups->v[groups_at(a->t->groups, c->node)].shape;
  const Type *t = type_of(old);
  const void *from;
  int64_t dims[MAX_RANK], n = s->outputs * s->inputs * s->taps;
  a->status = const_elements(a->t->g, old, a->arena, &from, a->diag);
  if (a->status) return NULL;
  for (int k = 0; k < t->rank; k++) dims[k] = t->dims[k]->value;
  float *to = place_for(n);
  for (int64_t i = 0; i < n; i++) {
    int64_t out = s->axis ? i % s->outputs : i / (s->inputs * s->taps);
    int64_t in = s->axis ? i / s->outputs : i / s->taps % s->inputs;
    if (s->parts > 1) in += out / (s->outputs / s->parts) * s->inputs;
    double f = factor_of(a, c, c->what == MIGRATE_INPUTS ? in : out);
    to[i] = (float)((double)((const float *)from)[i] * f);
  }
  return constant_of(a, old, t->rank, dims, to, n);
}

// The tensor times the inverses: one product for all that read it.
static Node *put_product(Apply *a, const MigrateChange *c, Node *x) {
  Graph *g = a->t->g;
  Node **made = &a->product[c->site];
  if (*made) return *made;
  int64_t dims[MAX_RANK];
  int rank = c->behind + 1;
  for (int k = 0; k < rank; k++) dims[k] = k ? 1 : c->size;
  float *v = place_for(c->size);
  for (int64_t i = 0; i < c->size; i++) v[i] = (float)factor_of(a, c, i);
  Node *src[] = {x, node_const_take(g, DT_F32, rank, dims, v, c->size * (int64_t)sizeof *v, NULL)};
  const char *name = str_printf(&g->arena, "%s_scaled", x->name ? x->name : op_name(x));
  *made = node_new(g, OP_mul, 2, src, NULL, 1, name);
  return *made;
}

static Node *scale_operands(Apply *a, Node *now, const Node *old) {
  Node **src = NULL;
  for (int64_t i = 0; i < a->plan->change.n && !a->status; i++) {
    const MigrateChange *c = &a->plan->change.v[i];
    if (c->node != old) continue;
    if (!src) src = arena_dup(a->arena, now->src, now->nsrc * (int64_t)sizeof *src);
    Node **x = &src[c->operand];
    switch (c->what) {
    case MIGRATE_CONST: *x = scale_constant(a, c, *x); break;
    case MIGRATE_INPUTS:
    case MIGRATE_OUTPUTS: *x = scale_weights(a, c, *x); break;
    case MIGRATE_PRODUCT: *x = put_product(a, c, *x); break;
    }
  }
  if (!src || a->status) return now;
  return node_new(a->t->g, now->op, (int)now->nsrc, src, now->attrs, now->nres, now->name);
}

static Node *apply_node(void *ctx, Node *now, Node *old) {
  Apply *a = ctx;
  Node *n = scale_operands(a, now, old);
  int64_t group = groups_at(a->t->groups, old);
  if (group >= 0) a->made[group] = n;
  return n;
}

tenon_status migrate_apply(const MigrateTask *t, const MigratePlan *p, Arena *a, Diag *d,
                           const Node ***out) {
  bool changed;
  Apply apply = {.t = t, .plan = p, .arena = a, .diag = d};
  apply.product = arena_array(a, Node *, MAX(p->site.n, 1));
  apply.made = arena_array(a, const Node *, MAX(t->groups->n, 1));
  *out = apply.made;
  GraphMap m = {.g = t->g, .fn = apply_node, .ctx = &apply};
  TRY(graph_map(&m, &changed));
  return apply.status;
}
