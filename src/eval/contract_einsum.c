// contract_einsum.c -- sums over index letters.
//
// The equation becomes lists of labels; an operand is a view with one size and stride a label, so
// that a repeated letter (a diagonal) is a sum of strides.  Operands are joined from left to right:
// each join is one matrix product in which a label that both sides have is a batch when something
// later still needs it, and contracted when not.  Labels that only one side has and nobody needs
// are summed away first.  What lies between two joins stays in double (or wrapping 64-bit
// integers): one rounding, at the end.
//
// The equation says a sum of products.  A product of sums is the same number unless an operand is
// infinite or NaN, or a sum overflows: (2 - 1) * inf is not 2 * inf - 1 * inf.  There the sum is
// computed as it is written (sum_of_products).
#include "eval/contract.h"
#include "eval/gemm.h"

#include <float.h>
#include <math.h>

// ---- the equation ----

static int letter_label(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return 26 + c - 'a';
  return -1;
}

typedef struct Term {
  int n, dots_at;  // letters; where the ellipsis stands, -1 when there is none
  uint8_t label[MAX_RANK];
} Term;

// One term, up to ',' or '->' or the end.
static const char *parse_term(Str s, int64_t *at, Term *t) {
  *t = (Term){.dots_at = -1};
  for (; *at < s.n; ++*at) {
    char c = s.p[*at];
    if (c == ' ') continue;
    if (c == ',' || c == '-') return NULL;
    if (c == '.') {
      if (*at + 2 >= s.n || s.p[*at + 1] != '.' || s.p[*at + 2] != '.')
        return "a '.' that is not part of an ellipsis";
      if (t->dots_at >= 0) return "a second ellipsis in one term";
      t->dots_at = t->n;
      *at += 2;
      continue;
    }
    int label = letter_label(c);
    if (label < 0) return "a character that is neither a letter, a comma, an ellipsis nor an arrow";
    if (t->n == MAX_RANK) return "a term with too many letters";
    t->label[t->n++] = (uint8_t)label;
  }
  return NULL;
}

// The term's labels with the ellipsis written out as `dots` dimensions, right-aligned among all
// such.
static const char *spell_out(const Term *t, int dots, uint8_t *out, int *out_n) {
  int n = 0;
  if (t->n + dots > MAX_RANK) return "a term with too many dimensions";
  for (int i = 0; i <= t->n; i++) {
    if (i == t->dots_at)
      for (int d = 0; d < dots; d++) out[n++] = (uint8_t)(EINSUM_LABELS - dots + d);
    if (i < t->n) out[n++] = t->label[i];
  }
  *out_n = n;
  return NULL;
}

static const char *implicit_output(const int *uses, Term *out) {
  *out = (Term){.dots_at = 0};
  for (int l = 0; l < EINSUM_LETTERS; l++) {
    if (uses[l] != 1) continue;
    if (out->n == MAX_RANK) return "a result with too many dimensions";
    out->label[out->n++] = (uint8_t)l;
  }
  return NULL;
}

static const char *check_output(const Term *t, const int *uses, int dots) {
  bool seen[EINSUM_LETTERS] = {false};
  for (int i = 0; i < t->n; i++) {
    if (!uses[t->label[i]]) return "a letter of the result that no operand has";
    if (seen[t->label[i]]) return "a letter that occurs twice in the result";
    seen[t->label[i]] = true;
  }
  if (dots > 0 && t->dots_at < 0) return "a result without the operands' ellipsis";
  return NULL;
}

// The operands' terms and what they use.
static const char *parse_inputs(Str s, int64_t *at, int nops, const int *rank, Einsum *e, int *uses,
                                int *dots) {
  const char *bad;
  for (int i = 0; i < nops; i++) {
    Term t;
    int64_t start = *at;
    if ((bad = parse_term(s, at, &t))) return bad;
    int own = t.dots_at < 0 ? 0 : rank[i] - t.n;
    if (rank[i] >= 0 && (own < 0 || t.n + own != rank[i])) {
      *at = start;
      return "a term whose number of letters is not the operand's rank";
    }
    if (rank[i] < 0 && t.dots_at >= 0) return "an ellipsis over an operand of unknown rank";
    for (int k = 0; k < t.n; k++) uses[t.label[k]]++;
    *dots = MAX(*dots, own);
    if ((bad = spell_out(&t, own, e->label[i], &e->nlabels[i]))) return bad;
    bool more = *at < s.n && s.p[*at] == ',';
    if (more != (i + 1 < nops))
      return more ? "more terms than operands" : "fewer terms than operands";
    if (more) ++*at;
  }
  return NULL;
}

const char *einsum_parse(Str s, int nops, const int *rank, Einsum *e, int64_t *at) {
  int uses[EINSUM_LETTERS] = {0}, dots = 0;
  const char *bad;
  *e = (Einsum){.nops = nops};
  *at = 0;
  if (nops < 1 || nops > EINSUM_MAX_OPERANDS) return "too many or too few operands";
  if ((bad = parse_inputs(s, at, nops, rank, e, uses, &dots))) return bad;
  Term out;
  if (*at < s.n) {
    if (s.n - *at < 2 || s.p[*at + 1] != '>') return "a '-' that is not part of an arrow";
    *at += 2;
    int64_t start = *at;
    if ((bad = parse_term(s, at, &out))) return bad;
    if (*at < s.n) return "something after the result's term";
    if ((bad = check_output(&out, uses, dots))) {
      *at = start;
      return bad;
    }
  } else if ((bad = implicit_output(uses, &out))) {
    return bad;
  }
  return spell_out(&out, out.dots_at < 0 ? 0 : dots, e->out, &e->nout);
}

// ---- evaluation ----

typedef struct View {
  DType dtype;
  const void *data;
  Value *own;  // the buffer, when it is ours
  int n;
  uint8_t label[EINSUM_LABELS];
  int64_t dim[EINSUM_LABELS], stride[EINSUM_LABELS];
} View;

static int view_find(const View *v, int label) {
  for (int i = 0; i < v->n; i++)
    if (v->label[i] == label) return i;
  return -1;
}

// Dimensions of 1 are left out: they broadcast, and add nothing to a sum.
static tenon_status operand_view(Eval *e, const Einsum *q, int i, int64_t *size, View *out) {
  const Value *v = e->in[i];
  int64_t stride[MAX_RANK];
  shape_strides(v->rank, v->dims, stride);
  *out = (View){.dtype = v->dtype, .data = v->data};
  for (int d = 0; d < q->nlabels[i]; d++) {
    int label = q->label[i][d];
    int64_t dim = v->dims[d];
    if (dim == 1) continue;
    if (size[label] == 1)
      size[label] = dim;
    else if (dim != size[label])
      return eval_fail(e, TENON_EINVAL, "an index has sizes %lld and %lld", (long long)size[label],
                       (long long)dim);
    int at = view_find(out, label);
    if (at < 0) {
      at = out->n++;
      out->label[at] = (uint8_t)label;
      out->dim[at] = dim;
    }
    out->stride[at] += stride[d];
  }
  return TENON_OK;
}

typedef struct SumJob {
  const View *v;
  const int64_t *keep, *drop;  // offsets
  int64_t ndrop;
  Value *out;
  bool ints;
} SumJob;

static void sum_run(void *ctx, int64_t begin, int64_t end) {
  const SumJob *j = ctx;
  for (int64_t i = begin; i < end; i++) {
    Word acc = {.f = 0}, x;
    if (j->ints) acc.i = 0;
    for (int64_t k = 0; k < j->ndrop; k++) {
      load_words(j->v->dtype, j->v->data, j->keep[i] + j->drop[k], 1, j->ints, &x);
      if (j->ints)
        acc.i = (int64_t)((uint64_t)acc.i + (uint64_t)x.i);
      else
        acc.f += x.f;
    }
    store_words(j->out->dtype, j->out->data, i, 1, j->ints, &acc);
  }
}

// Sums over every label of v that is not in `keep` and leaves a dense tensor over `keep`, in that
// order.
static tenon_status view_sum(Eval *e, View *v, int nkeep, const uint8_t *keep, bool ints,
                             Value *out) {
  int64_t dim[EINSUM_LABELS], stride[EINSUM_LABELS], ddim[EINSUM_LABELS], dstride[EINSUM_LABELS];
  int nd = 0;
  for (int i = 0; i < nkeep; i++) {
    int at = view_find(v, keep[i]);
    dim[i] = at < 0 ? 1 : v->dim[at];
    stride[i] = at < 0 ? 0 : v->stride[at];
  }
  for (int i = 0; i < v->n; i++)
    if (!memchr(keep, v->label[i], (size_t)nkeep)) {
      ddim[nd] = v->dim[i];
      dstride[nd++] = v->stride[i];
    }
  if (out->n == 0) return TENON_OK;
  int64_t nk;
  SumJob job = {.v = v, .out = out, .ints = ints};
  job.keep = gemm_offsets(e->run, nkeep, dim, stride, &nk);
  job.drop = gemm_offsets(e->run, nd, ddim, dstride, &job.ndrop);
  parallel_for(e->run->pool, nk, 1 + 4096 / (job.ndrop + 1), sum_run, &job);
  return TENON_OK;
}

// A flat buffer for what lies between joins.
static tenon_status new_buffer(Eval *e, int n, const int64_t *dim, bool ints, Value **out) {
  int64_t count;
  if (!shape_count(n, dim, &count))
    return eval_fail(e, TENON_EINVAL, "a product of sizes does not fit in 64 bits");
  return value_tensor(e->run, e->at, ints ? DT_I64 : DT_F64, 1, &count, out);
}

static void dense(View *v, Value *own) {
  v->dtype = own->dtype;
  v->data = own->data;
  v->own = own;
  int64_t stride = 1;
  for (int i = v->n - 1; i >= 0; i--) {
    v->stride[i] = stride;
    stride *= v->dim[i];
  }
}

// Sums away the labels of v that neither `other` nor anything in `needed` has.
static tenon_status drop_private(Eval *e, View *v, const View *other, const bool *needed,
                                 bool ints) {
  View kept = {0};
  for (int i = 0; i < v->n; i++) {
    int label = v->label[i];
    if (!needed[label] && view_find(other, label) < 0) continue;
    kept.label[kept.n] = (uint8_t)label;
    kept.dim[kept.n++] = v->dim[i];
  }
  if (kept.n == v->n) return TENON_OK;
  Value *buf;
  TRY(new_buffer(e, kept.n, kept.dim, ints, &buf));
  tenon_status s = view_sum(e, v, kept.n, kept.label, ints, buf);
  value_release(v->own);
  dense(&kept, buf);
  *v = kept;
  return s;
}

typedef struct Roles {
  int n;
  int64_t dim[EINSUM_LABELS], a[EINSUM_LABELS], b[EINSUM_LABELS];
} Roles;

static void roles_add(Roles *r, int64_t dim, int64_t a, int64_t b) {
  r->dim[r->n] = dim;
  r->a[r->n] = a;
  r->b[r->n++] = b;
}

// acc = acc joined with b; labels of the result: batch, acc's own, b's own.
static tenon_status join(Eval *e, View *acc, View *b, const bool *needed, bool ints) {
  TRY(drop_private(e, acc, b, needed, ints));
  TRY(drop_private(e, b, acc, needed, ints));
  Roles batch = {0}, contract = {0}, left = {0}, right = {0};
  View out = {0};
  uint8_t own_l[EINSUM_LABELS], own_r[EINSUM_LABELS];
  for (int i = 0; i < acc->n; i++) {
    int label = acc->label[i], at = view_find(b, label);
    if (at < 0) {
      own_l[left.n] = (uint8_t)label;
      roles_add(&left, acc->dim[i], acc->stride[i], 0);
      continue;
    }
    if (needed[label]) out.label[out.n++] = (uint8_t)label;
    roles_add(needed[label] ? &batch : &contract, acc->dim[i], acc->stride[i], b->stride[at]);
  }
  for (int i = 0; i < b->n; i++)
    if (view_find(acc, b->label[i]) < 0) {
      own_r[right.n] = b->label[i];
      roles_add(&right, b->dim[i], 0, b->stride[i]);
    }
  memcpy(out.dim, batch.dim, sizeof(int64_t) * (size_t)batch.n);
  for (int i = 0; i < left.n + right.n; i++) {
    out.label[out.n] = i < left.n ? own_l[i] : own_r[i - left.n];
    out.dim[out.n++] = i < left.n ? left.dim[i] : right.dim[i - left.n];
  }
  Value *buf;
  TRY(new_buffer(e, out.n, out.dim, ints, &buf));
  if (buf->n) {
    Gemm g = {
        .ints = ints, .load_a = gemm_load_mat, .load_b = gemm_load_mat, .store = gemm_store_dense};
    GemmMat ma = {.dtype = acc->dtype, .data = acc->data},
            mb = {.dtype = b->dtype, .data = b->data};
    ma.batch = gemm_offsets(e->run, batch.n, batch.dim, batch.a, &g.batch);
    mb.batch = gemm_offsets(e->run, batch.n, batch.dim, batch.b, &g.batch);
    ma.k = gemm_offsets(e->run, contract.n, contract.dim, contract.a, &g.k);
    mb.k = gemm_offsets(e->run, contract.n, contract.dim, contract.b, &g.k);
    ma.row = gemm_offsets(e->run, left.n, left.dim, left.a, &g.m);
    mb.row = gemm_offsets(e->run, right.n, right.dim, right.b, &g.n);
    GemmOut o = {buf, g.m, g.n, ints};
    g.a = &ma;
    g.b = &mb;
    g.out = &o;
    gemm_run(e->run, &g);
  }
  value_release(acc->own);
  value_release(b->own);
  dense(&out, buf);
  *acc = out;
  return TENON_OK;
}

// ---- the sum as it is written ----

// Whether joins add before they multiply: a third operand, or a label of one operand alone that is
// summed away.
static bool adds_first(const Einsum *q, const View *view) {
  if (q->nops != 2) return q->nops > 2;
  for (int i = 0; i < 2; i++)
    for (int d = 0; d < view[i].n; d++)
      if (view_find(&view[1 - i], view[i].label[d]) < 0 &&
          !memchr(q->out, view[i].label[d], (size_t)q->nout))
        return true;
  return false;
}

// Whether every sum and product is finite in double, in any order.
static bool stays_finite(Eval *e, const int64_t *size) {
  int exponent = 0, bits;
  for (int l = 0; l < EINSUM_LABELS; l++) {
    (void)frexp((double)size[l], &bits);
    exponent += MAX(bits, 0);
  }
  for (int i = 0; i < e->nin; i++) {
    const Value *v = e->in[i];
    double most = 1, x;
    for (int64_t k = 0; k < v->n; k++) {
      load_f64(v->dtype, v->data, k, 1, &x);
      if (!isfinite(x)) return false;
      most = MAX(most, fabs(x));
    }
    (void)frexp(most, &bits);
    exponent += bits;
  }
  return exponent < DBL_MAX_EXP;
}

typedef struct Steps {
  int64_t keep[MAX_RANK], sum[EINSUM_LABELS];  // an operand's strides along the labels
} Steps;

typedef struct Written {
  int nops, nkeep, nsum;
  bool empty;  // nothing to add
  const View *view;
  const Steps *steps;
  int64_t keep[MAX_RANK], sum[EINSUM_LABELS];  // sizes
  Value *out;
} Written;

static double written_product(const Written *w, const int64_t *offset) {
  double all = 1, x;
  for (int i = 0; i < w->nops; i++) {
    load_f64(w->view[i].dtype, w->view[i].data, offset[i], 1, &x);
    all = i ? all * x : x;
  }
  return all;
}

static void written_run(void *ctx, int64_t begin, int64_t end) {
  const Written *w = ctx;
  int64_t offset[EINSUM_MAX_OPERANDS];
  for (int64_t at = begin; at < end; at++) {
    int64_t rest = at, index[EINSUM_LABELS] = {0};
    double acc = 0;
    memset(offset, 0, sizeof offset);
    for (int d = w->nkeep - 1; d >= 0; rest /= w->keep[d--])
      for (int i = 0; i < w->nops; i++) offset[i] += rest % w->keep[d] * w->steps[i].keep[d];
    for (int d = w->empty ? -1 : 0; d >= 0;) {
      acc += written_product(w, offset);
      for (d = w->nsum - 1; d >= 0; d--) {  // the next combination of summed labels
        bool more = ++index[d] < w->sum[d];
        for (int i = 0; i < w->nops; i++)
          offset[i] += more ? w->steps[i].sum[d] : -(w->sum[d] - 1) * w->steps[i].sum[d];
        if (more) break;
        index[d] = 0;
      }
    }
    store_f64(w->out->dtype, w->out->data, at, 1, &acc);
  }
}

static void sum_of_products(Eval *e, const Einsum *q, const View *view, const int64_t *size,
                            Value *out) {
  Written w = {.nops = q->nops, .nkeep = q->nout, .view = view, .out = out};
  Steps *steps = arena_array(&e->run->scratch, Steps, q->nops);
  w.steps = steps;
  int64_t terms = 1;
  for (int l = 0; l < EINSUM_LABELS; l++)
    if (size[l] != 1 && !memchr(q->out, l, (size_t)q->nout)) {
      for (int i = 0; i < q->nops; i++) {
        int at = view_find(&view[i], l);
        steps[i].sum[w.nsum] = at < 0 ? 0 : view[i].stride[at];
      }
      w.sum[w.nsum++] = size[l];
      w.empty = w.empty || size[l] == 0;
      terms = MIN(terms * MIN(size[l], 4096) + 1, 4096);
    }
  for (int d = 0; d < q->nout; d++) {
    w.keep[d] = size[q->out[d]];
    for (int i = 0; i < q->nops; i++) {
      int at = view_find(&view[i], q->out[d]);
      steps[i].keep[d] = at < 0 ? 0 : view[i].stride[at];
    }
  }
  parallel_for(e->run->pool, out->n, 1 + 4096 / (terms + 1), written_run, &w);
}

static tenon_status check_inputs(Eval *e, int *rank) {
  if (e->nin < 1 || e->nin > EINSUM_MAX_OPERANDS)
    return eval_fail(e, TENON_EINVAL, "%d operands, must be 1 to %d", e->nin, EINSUM_MAX_OPERANDS);
  for (int i = 0; i < e->nin; i++) {
    TRY(eval_need(e, i, "operand", i ? e->in[0]->dtype : 0));
    rank[i] = e->in[i]->rank;
  }
  DType t = e->in[0]->dtype;
  if ((!dtype_is_float(t) && !dtype_is_int(t)) || dtype_bits(t) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "operands of type %s: cast them first", dtype_name(t));
  return TENON_OK;
}

tenon_status eval_einsum(Eval *e) {
  const einsum_attrs *at = e->attrs;
  int rank[EINSUM_MAX_OPERANDS];
  TRY(check_inputs(e, rank));
  Einsum *q = arena_new(&e->run->scratch, Einsum);
  int64_t pos, size[EINSUM_LABELS];
  const char *bad = einsum_parse(at->equation, e->nin, rank, q, &pos);
  if (bad)
    return eval_fail(e, TENON_EINVAL, "equation '%.*s', character %lld: %s", STR_ARG(at->equation),
                     (long long)pos, bad);
  for (int i = 0; i < EINSUM_LABELS; i++) size[i] = 1;
  View *view = arena_array(&e->run->scratch, View, e->nin);
  for (int i = 0; i < e->nin; i++) TRY(operand_view(e, q, i, size, &view[i]));
  bool ints = dtype_is_int(e->in[0]->dtype);
  int64_t dims[MAX_RANK];
  for (int i = 0; i < q->nout; i++) dims[i] = size[q->out[i]];
  Value *y;
  if (!ints && adds_first(q, view) && !stays_finite(e, size)) {
    TRY(eval_out(e, 0, e->in[0]->dtype, q->nout, dims, &y));
    sum_of_products(e, q, view, size, y);
    return TENON_OK;
  }
  View acc = view[0];
  for (int i = 1; i < e->nin; i++) {
    bool needed[EINSUM_LABELS] = {false};
    for (int o = 0; o < q->nout; o++) needed[q->out[o]] = true;
    for (int k = i + 1; k < e->nin; k++)
      for (int d = 0; d < q->nlabels[k]; d++) needed[q->label[k][d]] = true;
    TRY(join(e, &acc, &view[i], needed, ints));
  }
  TRY(eval_out(e, 0, e->in[0]->dtype, q->nout, dims, &y));
  TRY(view_sum(e, &acc, q->nout, q->out, ints, y));
  value_release(acc.own);
  return TENON_OK;
}
