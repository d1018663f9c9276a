// control.c -- control flow on values.
//
// Values that an iteration gives are released when the next one has taken them over; rows of scan
// results are kept until the end and stacked once.
#include "eval/control.h"

static tenon_status run_body(Eval *e, const struct Body *b, Value *const *in, int64_t nin,
                             Value **out, int64_t nout) {
  if (!e->run->call_body) return eval_fail(e, TENON_EUNSUPPORTED, "sub-graphs cannot be run here");
  return e->run->call_body(e->run, b, in, nin, out, nout);
}

static tenon_status read_flag(Eval *e, const Value *v, const char *what, bool *out) {
  if (v->kind != VK_TENSOR || v->dtype != DT_BOOL || v->n != 1)
    return eval_fail(e, TENON_EINVAL, "%s must be one bool", what);
  *out = val_i64(v, 0) != 0;
  return TENON_OK;
}

// Runs a body as one round of many: random ops draw anew in each.
static tenon_status run_round(Eval *e, const struct Body *b, int64_t round, Value *const *in,
                              int64_t nin, Value **out, int64_t nout) {
  uint64_t seed = e->run->seed;
  e->run->seed =
      hash_u64(seed ^ hash_u64((uint64_t)round + 1));  // in nested loops all rounds differ
  tenon_status s = run_body(e, b, in, nin, out, nout);
  e->run->seed = seed;
  return s;
}

static tenon_status spend(Eval *e) {
  if (e->run->budget < 0) return TENON_OK;
  if (e->run->budget-- == 0)
    return eval_fail(e, TENON_EINVAL, "the limit on loop iterations is reached");
  return TENON_OK;
}

static tenon_status scalar_value(Eval *e, DType t, int64_t v, Value **out) {
  TRY(value_tensor(e->run, e->at, t, 0, NULL, out));
  val_put_i64(*out, 0, v);
  return TENON_OK;
}

static Value *borrow(const Value *v) { return (Value *)(uintptr_t)v; }

tenon_status eval_if(Eval *e) {
  const if_attrs *at = e->attrs;
  bool yes;
  TRY(eval_need(e, 0, "condition", DT_BOOL));
  TRY(read_flag(e, e->in[0], "the condition", &yes));
  int64_t first = yes ? 1 : 1 + at->then_captures,
          count = yes ? at->then_captures : e->nin - 1 - at->then_captures;
  Value **in = arena_array(&e->run->scratch, Value *, count);
  for (int64_t i = 0; i < count; i++) in[i] = borrow(e->in[first + i]);
  return run_body(e, yes ? at->then_branch : at->else_branch, in, count, e->out, e->nout);
}

// ---- rows of scan results ----

typedef VEC(Value *) Rows;

bool row_shape(Ints all, int64_t i, Ints *out) {
  int64_t at = 0, rank = -1;
  for (int64_t k = 0; k <= i; k++) {
    at += MAX(rank, 0);
    if (at >= all.n) return false;
    rank = all.v[at++];
    if (rank < -1 || rank >= MAX_RANK || rank > all.n - at) return false;
  }
  *out = (Ints){rank, all.v + at};
  for (int64_t d = 0; d < rank; d++)
    if (out->v[d] < -1) return false;
  return rank >= 0;
}

static bool same_shape(const Value *a, const Value *b) {
  if (a->kind != VK_TENSOR || b->kind != VK_TENSOR || a->dtype != b->dtype || a->rank != b->rank)
    return false;
  return a->rank == 0 || !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]);
}

// Stacks the rows of a body's result along a new axis; releases them.
static tenon_status stack_rows(Eval *e, Rows *rows, int64_t axis, bool reversed, int slot,
                               const struct Body *body, int64_t result, const Ints *declared) {
  if (!rows->n) return e->run->empty_stack(e, body, result, axis, declared, &e->out[slot]);
  const Value *first = rows->v[0];
  for (int64_t i = 1; i < rows->n; i++)
    if (!same_shape(first, rows->v[i]))
      return eval_fail(e, TENON_EINVAL,
                       "row %lld of result %d has another shape or type than row 0", (long long)i,
                       slot);
  if (first->rank >= MAX_RANK || axis < -(first->rank + 1) || axis > first->rank)
    return eval_fail(e, TENON_EINVAL, "axis %lld for rows of rank %d", (long long)axis,
                     first->rank);
  if (axis < 0) axis += first->rank + 1;
  int64_t dims[MAX_RANK], outer = 1, inner = 1;
  for (int d = 0; d <= first->rank; d++)
    dims[d] = d < axis ? first->dims[d] : d == axis ? rows->n : first->dims[d - 1];
  for (int d = 0; d < axis; d++) outer *= dims[d];
  for (int d = (int)axis + 1; d <= first->rank; d++) inner *= dims[d];
  Value *v;
  TRY(eval_out(e, slot, first->dtype, first->rank + 1, dims, &v));
  for (int64_t r = 0; r < rows->n; r++) {
    int64_t at = reversed ? rows->n - 1 - r : r;
    for (int64_t o = 0; o < outer; o++)
      copy_elems(v->dtype, v->data, (o * rows->n + at) * inner, rows->v[r]->data, o * inner, inner);
    value_release(rows->v[r]);
  }
  rows->n = 0;
  return TENON_OK;
}

// ---- loop ----

typedef struct LoopState {
  int64_t ncarried, nscan, ncaptures;
  Value **in, **out;  // of one call of the body
  Rows *rows;
  bool go;
} LoopState;

static tenon_status loop_step(Eval *e, const loop_attrs *at, LoopState *s, int64_t iteration) {
  TRY(spend(e));
  TRY(scalar_value(e, DT_I64, iteration, &s->in[0]));
  TRY(scalar_value(e, DT_BOOL, s->go, &s->in[1]));
  int64_t nout = 1 + s->ncarried + s->nscan;
  for (int64_t i = 0; i < nout; i++) s->out[i] = NULL;
  TRY(run_round(e, at->body, iteration, s->in, 2 + s->ncarried + s->ncaptures, s->out, nout));
  value_release(s->in[0]);
  value_release(s->in[1]);
  for (int64_t i = 0; i < s->ncarried; i++) {
    value_release(s->in[2 + i]);
    s->in[2 + i] = s->out[1 + i];
  }
  for (int64_t i = 0; i < s->nscan; i++)
    vec_push(&e->run->scratch, &s->rows[i], s->out[1 + s->ncarried + i]);
  TRY(read_flag(e, s->out[0], "the body's condition", &s->go));
  value_release(s->out[0]);
  return TENON_OK;
}

tenon_status eval_loop(Eval *e) {
  const loop_attrs *at = e->attrs;
  Arena *a = &e->run->scratch;
  LoopState s = {.ncaptures = at->captures, .ncarried = e->nin - 2 - at->captures, .go = true};
  s.nscan = e->nout - s.ncarried;
  if (s.ncarried < 0 || s.nscan < 0)
    return eval_fail(e, TENON_EINVAL, "%d operands and %d results do not fit the body", e->nin,
                     e->nout);
  int64_t trips = INT64_MAX;
  if (e->in[0]) {
    if (e->in[0]->kind != VK_TENSOR || e->in[0]->dtype != DT_I64 || e->in[0]->n != 1)
      return eval_fail(e, TENON_EINVAL, "the trip count must be one i64");
    trips = val_i64(e->in[0], 0);
  }
  if (e->in[1]) TRY(read_flag(e, e->in[1], "the condition", &s.go));
  s.in = arena_array(a, Value *, 2 + s.ncarried + s.ncaptures);
  s.out = arena_array(a, Value *, 1 + s.ncarried + s.nscan);
  s.rows = arena_array(a, Rows, s.nscan);
  for (int64_t i = 0; i < s.ncarried; i++) s.in[2 + i] = value_retain(e->in[2 + i]);
  for (int64_t i = 0; i < s.ncaptures; i++)
    s.in[2 + s.ncarried + i] = borrow(e->in[2 + s.ncarried + i]);
  for (int64_t i = 0; i < trips && s.go; i++) TRY(loop_step(e, at, &s, i));
  for (int64_t i = 0; i < s.ncarried; i++) e->out[i] = s.in[2 + i];
  for (int64_t i = 0; i < s.nscan; i++) {
    Ints said;
    bool is_said = row_shape(at->row_shapes, i, &said);
    TRY(stack_rows(e, &s.rows[i], 0, false, (int)(s.ncarried + i), at->body, 1 + s.ncarried + i,
                   is_said ? &said : NULL));
  }
  return TENON_OK;
}

// ---- scan ----

typedef struct ScanState {
  int64_t nstates, nscans, nrows, ncaptures, length;
  Value **in, **out;
  Rows *rows;
} ScanState;

static int64_t list_at(Ints l, int64_t i) { return i < l.n ? l.v[i] : 0; }

// Row `index` of x along `axis`, as a new value.
static tenon_status take_row(Eval *e, const Value *x, int64_t axis, int64_t index, Value **out) {
  int64_t dims[MAX_RANK], outer = 1, inner = 1;
  for (int d = 0; d < x->rank; d++) {
    if (d < axis) outer *= x->dims[d];
    if (d > axis) inner *= x->dims[d];
    if (d != axis) dims[d > axis ? d - 1 : d] = x->dims[d];
  }
  TRY(value_tensor(e->run, e->at, x->dtype, x->rank - 1, dims, out));
  TRY(eval_work(e, (double)(*out)->n));
  for (int64_t o = 0; o < outer; o++)
    copy_elems(x->dtype, (*out)->data, o * inner, x->data, (o * x->dims[axis] + index) * inner,
               inner);
  return TENON_OK;
}

static tenon_status scan_axis(Eval *e, const scan_attrs *at, int64_t i, const Value *x,
                              int64_t *axis) {
  if (x->kind != VK_TENSOR || x->rank < 1)
    return eval_fail(e, TENON_EINVAL, "scan input %lld must be a tensor of rank 1 or more",
                     (long long)i);
  int a;
  TRY(eval_axis(e, list_at(at->scan_input_axes, i), x->rank, &a));
  *axis = a;
  return TENON_OK;
}

static tenon_status scan_step(Eval *e, const scan_attrs *at, ScanState *s, Value *const *scanned,
                              int64_t k) {
  TRY(spend(e));
  for (int64_t i = 0; i < s->nscans; i++) {
    int64_t axis;
    TRY(scan_axis(e, at, i, scanned[i], &axis));
    int64_t index = list_at(at->scan_input_directions, i) ? s->length - 1 - k : k;
    TRY(take_row(e, scanned[i], axis, index, &s->in[s->nstates + i]));
  }
  int64_t nout = s->nstates + s->nrows;
  for (int64_t i = 0; i < nout; i++) s->out[i] = NULL;
  TRY(run_round(e, at->body, k, s->in, s->nstates + s->nscans + s->ncaptures, s->out, nout));
  for (int64_t i = 0; i < s->nscans; i++) value_release(s->in[s->nstates + i]);
  for (int64_t i = 0; i < s->nstates; i++) {
    value_release(s->in[i]);
    s->in[i] = s->out[i];
  }
  for (int64_t i = 0; i < s->nrows; i++)
    vec_push(&e->run->scratch, &s->rows[i], s->out[s->nstates + i]);
  return TENON_OK;
}

// One scan over states and inputs already retained in s->in; results into e->out.
static tenon_status scan_all(Eval *e, const scan_attrs *at, ScanState *s, Value *const *scanned) {
  s->length = 0;
  for (int64_t i = 0; i < s->nscans; i++) {
    int64_t axis;
    TRY(scan_axis(e, at, i, scanned[i], &axis));
    int64_t len = scanned[i]->dims[axis];
    if (i && len != s->length)
      return eval_fail(e, TENON_EINVAL, "scan inputs have lengths %lld and %lld",
                       (long long)s->length, (long long)len);
    s->length = len;
  }
  for (int64_t k = 0; k < s->length; k++) TRY(scan_step(e, at, s, scanned, k));
  for (int64_t i = 0; i < s->nstates; i++) e->out[i] = s->in[i];
  for (int64_t i = 0; i < s->nrows; i++) {
    Ints said;
    bool is_said = row_shape(at->row_shapes, i, &said);
    TRY(stack_rows(e, &s->rows[i], list_at(at->scan_output_axes, i),
                   list_at(at->scan_output_directions, i) != 0, (int)(s->nstates + i), at->body,
                   s->nstates + i, is_said ? &said : NULL));
  }
  return TENON_OK;
}

// Opset 8: operand rows along axis 0 are independent scans; results are stacked again.
static tenon_status scan_batched(Eval *e, const scan_attrs *at, ScanState *s, int64_t nops) {
  int64_t batch = e->in[0]->kind == VK_TENSOR && e->in[0]->rank > 0 ? e->in[0]->dims[0] : 0;
  Rows *all = arena_array(&e->run->scratch, Rows, e->nout);
  Value **scanned = arena_array(&e->run->scratch, Value *, s->nscans);
  for (int64_t b = 0; b < batch; b++) {
    for (int64_t i = 0; i < nops; i++) {
      if (e->in[i]->kind != VK_TENSOR || e->in[i]->rank < 1 || e->in[i]->dims[0] != batch)
        return eval_fail(e, TENON_EINVAL, "operand %lld lacks the batch axis", (long long)i);
      Value *row;
      TRY(take_row(e, e->in[i], 0, b, &row));
      if (i < s->nstates)
        s->in[i] = row;
      else
        scanned[i - s->nstates] = row;
    }
    for (int i = 0; i < e->nout; i++) e->out[i] = NULL;
    TRY(scan_all(e, at, s, scanned));
    for (int64_t i = 0; i < s->nscans; i++) value_release(scanned[i]);
    for (int i = 0; i < e->nout; i++) vec_push(&e->run->scratch, &all[i], e->out[i]);
  }
  for (int i = 0; i < e->nout; i++) {
    e->out[i] = NULL;
    TRY(stack_rows(e, &all[i], 0, false, i, at->body, i, NULL));
  }
  return TENON_OK;
}

tenon_status eval_scan(Eval *e) {
  const scan_attrs *at = e->attrs;
  int64_t nops = e->nin - at->captures;
  ScanState s = {.ncaptures = at->captures,
                 .nscans = at->num_scan_inputs,
                 .nstates = nops - at->num_scan_inputs};
  s.nrows = e->nout - s.nstates;
  if (s.nscans < 1 || s.nstates < 0 || s.nrows < 0)
    return eval_fail(e, TENON_EINVAL, "%lld scan inputs of %lld operands", (long long)s.nscans,
                     (long long)nops);
  for (int64_t i = 0; i < nops; i++) TRY(eval_need(e, (int)i, "operand", 0));
  Arena *a = &e->run->scratch;
  s.in = arena_array(a, Value *, e->nin);
  s.out = arena_array(a, Value *, e->nout);
  s.rows = arena_array(a, Rows, s.nrows);
  for (int64_t i = 0; i < s.ncaptures; i++) s.in[nops + i] = borrow(e->in[nops + i]);
  if (at->batched) return scan_batched(e, at, &s, nops);
  for (int64_t i = 0; i < s.nstates; i++) s.in[i] = value_retain(e->in[i]);
  Value **scanned = arena_array(a, Value *, s.nscans);
  for (int64_t i = 0; i < s.nscans; i++) scanned[i] = borrow(e->in[s.nstates + i]);
  return scan_all(e, at, &s, scanned);
}

// ---- sequence_map ----

tenon_status eval_sequence_map(Eval *e) {
  const sequence_map_attrs *at = e->attrs;
  int64_t nops = e->nin - at->captures;
  if (nops < 1 || !e->in[0] || e->in[0]->kind != VK_SEQUENCE)
    return eval_fail(e, TENON_EINVAL, "operand 0 must be a sequence");
  int64_t n = e->in[0]->nitems;
  Arena *a = &e->run->scratch;
  Value **in = arena_array(a, Value *, e->nin), **out = arena_array(a, Value *, e->nout);
  for (int i = 0; i < e->nout; i++) TRY(value_sequence(e->run, TENON_DTYPE_NONE, n, &e->out[i]));
  for (int64_t k = 0; k < n; k++) {
    TRY(spend(e));
    for (int64_t i = 0; i < e->nin; i++) {
      const Value *v = e->in[i];
      if (i < nops && v && v->kind == VK_SEQUENCE) {
        if (v->nitems != n)
          return eval_fail(e, TENON_EINVAL, "sequences of %lld and %lld elements", (long long)n,
                           (long long)v->nitems);
        v = v->items[k];
      }
      in[i] = borrow(v);
    }
    for (int i = 0; i < e->nout; i++) out[i] = NULL;
    TRY(run_round(e, at->body, k, in, e->nin, out, e->nout));
    for (int i = 0; i < e->nout; i++) {
      e->out[i]->items[k] = out[i];
      if (out[i] && out[i]->kind == VK_TENSOR) e->out[i]->elem_dtype = out[i]->dtype;
    }
  }
  return TENON_OK;
}
