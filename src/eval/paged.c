// paged.c -- kv_append and paged_attention.
//
// Guarantees: a slot that holds no key of a row has no part in it, whatever it holds, and table
//             entries beyond a row's keys are not read.  Rows do not depend on each other.
#include "eval/paged.h"

#include <math.h>

// ---- kv_append ----

static tenon_status need_float(Eval *e, int i, const char *name, int rank) {
  TRY(eval_need(e, i, name, 0));
  const Value *v = e->in[i];
  if (!dtype_is_float(v->dtype))
    return eval_fail(e, TENON_EINVAL, "%s is %s, must be a float type", name, dtype_name(v->dtype));
  if (v->rank != rank)
    return eval_fail(e, TENON_EINVAL, "%s has rank %d, must be %d", name, v->rank, rank);
  return TENON_OK;
}

// Floats, or i8.
static tenon_status need_cached(Eval *e, int i, const char *name, int rank) {
  TRY(eval_need(e, i, name, 0));
  const Value *v = e->in[i];
  if (v->dtype != DT_I8) return need_float(e, i, name, rank);
  if (v->rank == rank) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s has rank %d, must be %d", name, v->rank, rank);
}

static tenon_status need_state(Eval *e, int i, const char *name) {
  TRY(need_cached(e, i, name, 4));
  if (e->in[i]->dims[2] == LLM_PAGE) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s has pages of %lld positions, must be %d", name,
                   (long long)e->in[i]->dims[2], LLM_PAGE);
}

static tenon_status need_index(Eval *e, int i, const char *name, int rank, int64_t n) {
  TRY(eval_need(e, i, name, DT_I32));
  const Value *v = e->in[i];
  if (v->rank != rank || (n >= 0 && v->n != n))
    return eval_fail(e, TENON_EINVAL, "%s of shape %s does not fit %lld rows", name,
                     shape_text(v->rank, v->dims).s, (long long)n);
  return TENON_OK;
}

tenon_status eval_kv_append(Eval *e) {
  TRY(need_state(e, 0, "state"));
  TRY(need_cached(e, 1, "x", 3));
  const Value *s = e->in[0], *x = e->in[1];
  if ((s->dtype == DT_I8) != (x->dtype == DT_I8))
    return eval_fail(e, TENON_EINVAL, "rows of %s do not fit a state of %s", dtype_name(x->dtype),
                     dtype_name(s->dtype));
  int64_t rows = x->dims[0], heads = x->dims[1], size = x->dims[2];
  TRY(need_index(e, 2, "slot", 1, rows));
  if (s->dims[1] != heads || s->dims[3] != size)
    return eval_fail(e, TENON_EINVAL, "rows of shape %s do not fit a state of %s",
                     shape_text(x->rank, x->dims).s, shape_text(s->rank, s->dims).s);
  Value *y;
  TRY(eval_out(e, 0, s->dtype, 4, s->dims, &y));
  copy_elems(s->dtype, y->data, 0, s->data, 0, s->n);
  if (!size) return TENON_OK;
  double *row = arena_array(&e->run->scratch, double, size);
  for (int64_t t = 0; t < rows; t++) {
    int64_t slot = val_i64(e->in[2], t);
    if (slot >= s->dims[0] * LLM_PAGE)
      return eval_fail(e, TENON_EINVAL, "slot[%lld] is %lld, with %lld pages of %d", (long long)t,
                       (long long)slot, (long long)s->dims[0], LLM_PAGE);
    for (int64_t h = 0; slot >= 0 && h < heads; h++) {
      load_f64(x->dtype, x->data, (t * heads + h) * size, size, row);
      int64_t at = (slot / LLM_PAGE * heads + h) * LLM_PAGE + slot % LLM_PAGE;
      store_f64(y->dtype, y->data, at * size, size, row);
    }
  }
  return TENON_OK;
}

// ---- paged_attention ----

enum { Q, K, V, SEQ, POS, TABLE, SINKS, SLOPES, K_SCALE, V_SCALE };

typedef struct Paged {
  const paged_attention_attrs *at;
  const Value *q, *k, *v, *sinks, *slopes, *k_scale, *v_scale;
  const int32_t *seq, *pos, *table;
  int64_t rows, heads, kv_heads, size, vsize, pages, table_rows, row_pages;
  double scale;
  Value *y;
  double *scratch;
  int64_t slot;  // doubles of a task's scratch
  int64_t first;
} Paged;

// The first key that a row sees; its last one is at its position.
static int64_t first_key(const Paged *p, int64_t pos) {
  int64_t w = p->at->window;
  return w > 0 && pos - w + 1 > 0 ? pos - w + 1 : 0;
}

// Where element 0 of key j of a row is.
static int64_t key_at(const Paged *p, const Value *state, int64_t row, int64_t h, int64_t j) {
  int64_t page = p->table[(int64_t)p->seq[row] * p->row_pages + j / LLM_PAGE];
  return ((page * p->kv_heads + h) * LLM_PAGE + j % LLM_PAGE) * state->dims[3];
}

// A key or value of a row: where the cache is i8, times its scale.
static void load_key(const Value *state, const Value *scale, int64_t at, double *out) {
  int64_t size = state->dims[3];
  load_f64(state->dtype, state->data, at, size, out);
  double by = scale && size ? val_f64(scale, at / size) : 1;
  for (int64_t i = 0; scale && i < size; i++) out[i] *= by;
}

static double score(const Paged *p, int64_t row, int64_t h, int64_t j, const double *q, double *k) {
  double s = 0, cap = p->at->softcap;
  load_key(p->k, p->k_scale, key_at(p, p->k, row, h * p->kv_heads / p->heads, j), k);
  for (int64_t i = 0; i < p->size; i++) s += q[i] * k[i];
  s *= p->scale;
  if (cap > 0) s = cap * tanh(s / cap);
  if (p->slopes) s += val_f64(p->slopes, h) * (double)(j - p->pos[row]);
  return s;
}

// A head of a row.  `s` has room for every key, `x` for a key, a value and a result.
static void attend(const Paged *p, int64_t row, int64_t h, double *s, double *x) {
  int64_t pos = p->pos[row], lo = first_key(p, pos), most = MAX(p->size, p->vsize);
  double *q = x, *key = x + most, *out = x + 2 * most, top = -INFINITY, sum = 0;
  load_f64(p->q->dtype, p->q->data, (row * p->heads + h) * p->size, p->size, q);
  memset(out, 0, (size_t)p->vsize * sizeof *out);
  for (int64_t j = lo; j <= pos; j++) {
    s[j - lo] = score(p, row, h, j, q, key);
    if (s[j - lo] > top || s[j - lo] != s[j - lo]) top = s[j - lo];
  }
  if (p->sinks && pos >= 0) {
    double sink = val_f64(p->sinks, h);
    if (sink > top || sink != sink) top = sink;
    sum = top == -INFINITY ? 0 : exp(sink - top);
  }
  for (int64_t j = lo; j <= pos; j++) {
    double w = top == -INFINITY ? 0 : exp(s[j - lo] - top);
    sum += w;
    load_key(p->v, p->v_scale, key_at(p, p->v, row, h * p->kv_heads / p->heads, j), key);
    for (int64_t i = 0; i < p->vsize; i++) out[i] += w * key[i];
  }
  for (int64_t i = 0; i < p->vsize; i++) out[i] = sum == 0 ? 0 : out[i] / sum;
  store_f64(p->y->dtype, p->y->data, (row * p->heads + h) * p->vsize, p->vsize, out);
}

static void attend_tasks(void *ctx, int64_t begin, int64_t end) {
  const Paged *p = ctx;
  for (int64_t t = begin; t < end; t++) {
    double *x = p->scratch + t * p->slot;
    int64_t task = p->first + t;
    attend(p, task / p->heads, task % p->heads, x + 3 * MAX(p->size, p->vsize), x);
  }
}

static tenon_status read_shapes(Eval *e, Paged *p) {
  TRY(need_float(e, Q, "q", 3));
  TRY(need_state(e, K, "k"));
  TRY(need_state(e, V, "v"));
  p->q = e->in[Q];
  p->k = e->in[K];
  p->v = e->in[V];
  p->rows = p->q->dims[0];
  p->heads = p->q->dims[1];
  p->size = p->q->dims[2];
  p->pages = p->k->dims[0];
  p->kv_heads = p->k->dims[1];
  p->vsize = p->v->dims[3];
  if (p->k->dims[3] != p->size || p->v->dims[0] != p->pages || p->v->dims[1] != p->kv_heads)
    return eval_fail(e, TENON_EINVAL, "q %s, k %s and v %s do not fit each other",
                     shape_text(3, p->q->dims).s, shape_text(4, p->k->dims).s,
                     shape_text(4, p->v->dims).s);
  if (p->kv_heads < 1 ? p->heads > 0 : p->heads % p->kv_heads != 0)
    return eval_fail(e, TENON_EINVAL, "%lld heads of the query cannot share %lld of the keys",
                     (long long)p->heads, (long long)p->kv_heads);
  return TENON_OK;
}

static tenon_status by_head(Eval *e, int i, const char *name, int64_t heads, const Value **out) {
  if (!(*out = eval_in(e, i))) return TENON_OK;
  TRY(need_float(e, i, name, 1));
  if ((*out)->n == heads) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s has %lld elements for %lld heads", name,
                   (long long)(*out)->n, (long long)heads);
}

static tenon_status read_scale(Eval *e, int i, const char *name, const Value *state,
                               const Value **out) {
  *out = eval_in(e, i);
  if (!*out != (state->dtype != DT_I8))
    return eval_fail(e, TENON_EINVAL, "%s belongs to a cache in i8, and to no other", name);
  if (!*out) return TENON_OK;
  TRY(eval_need(e, i, name, DT_F32));
  bool ok = (*out)->rank == 4 && (*out)->dims[3] == 1;
  for (int d = 0; ok && d < 3; d++) ok = (*out)->dims[d] == state->dims[d];
  if (ok) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s of shape %s does not fit a state of %s", name,
                   shape_text((*out)->rank, (*out)->dims).s, shape_text(4, state->dims).s);
}

// Every position, sequence and page that is used; *most: the keys of the longest row.
static tenon_status check_rows(Eval *e, const Paged *p, int64_t *most) {
  *most = 0;
  for (int64_t t = 0; t < p->rows; t++) {
    int64_t pos = p->pos[t], lo = first_key(p, pos);
    if (pos < 0) continue;
    if (pos / LLM_PAGE >= p->row_pages)
      return eval_fail(e, TENON_EINVAL, "pos[%lld] is %lld, with %lld pages of %d for a sequence",
                       (long long)t, (long long)pos, (long long)p->row_pages, LLM_PAGE);
    if (p->seq[t] < 0 || p->seq[t] >= p->table_rows)
      return eval_fail(e, TENON_EINVAL, "seq[%lld] is %lld, with %lld sequences", (long long)t,
                       (long long)p->seq[t], (long long)p->table_rows);
    for (int64_t i = lo / LLM_PAGE; i <= pos / LLM_PAGE; i++) {
      int64_t page = p->table[p->seq[t] * p->row_pages + i];
      if (page < 0 || page >= p->pages)
        return eval_fail(e, TENON_EINVAL, "table[%lld, %lld] is %lld, with %lld pages",
                         (long long)p->seq[t], (long long)i, (long long)page, (long long)p->pages);
    }
    TRY(eval_work(e,
                  2.0 * (double)(pos - lo + 1) * (double)p->heads * (double)(p->size + p->vsize)));
    *most = MAX(*most, pos - lo + 1);
  }
  return TENON_OK;
}

static tenon_status read_operands(Eval *e, Paged *p) {
  TRY(read_shapes(e, p));
  TRY(need_index(e, SEQ, "seq", 1, p->rows));
  TRY(need_index(e, POS, "pos", 1, p->rows));
  TRY(need_index(e, TABLE, "table", 2, -1));
  TRY(by_head(e, SINKS, "sinks", p->heads, &p->sinks));
  TRY(by_head(e, SLOPES, "slopes", p->heads, &p->slopes));
  TRY(read_scale(e, K_SCALE, "k_scale", p->k, &p->k_scale));
  TRY(read_scale(e, V_SCALE, "v_scale", p->v, &p->v_scale));
  p->seq = e->in[SEQ]->data;
  p->pos = e->in[POS]->data;
  p->table = e->in[TABLE]->data;
  p->table_rows = e->in[TABLE]->dims[0];
  p->row_pages = e->in[TABLE]->dims[1];
  p->scale = p->at->scale >= 0 ? p->at->scale : 1 / sqrt((double)MAX(p->size, 1));
  if (p->at->window >= 0) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "the window is %lld, must be 0 or more",
                   (long long)p->at->window);
}

tenon_status eval_paged_attention(Eval *e) {
  enum { TASKS = 64 };
  Paged p = {.at = e->attrs};
  int64_t most, each, doubles;
  TRY(read_operands(e, &p));
  TRY(eval_out(e, 0, p.q->dtype, 3, (int64_t[]){p.rows, p.heads, p.vsize}, &p.y));
  TRY(check_rows(e, &p, &most));
  if (!p.y->n) return TENON_OK;
  int64_t tasks = p.rows * p.heads, slots = MIN(tasks, TASKS);
  if (!ck_mul(MAX(p.size, p.vsize), 3, &each) || !ck_add(each, most, &p.slot) ||
      !ck_mul(p.slot, slots, &doubles))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  p.scratch = arena_array(&e->run->scratch, double, MAX(doubles, 1));
  for (p.first = 0; p.first < tasks; p.first += slots)
    parallel_for(e->run->pool, MIN(slots, tasks - p.first), 1, attend_tasks, &p);
  return TENON_OK;
}
