// paged.c -- records of the ops on a paged KV cache.
#include "eval/paged.h"
#include "ir/opinfo.h"

// Elements of a cache are floats, or i8 with a scale for each head of a position.
static tenon_status need_state(Infer *in, int i) {
  TRY(infer_need(in, i, 0));
  const Type *t = infer_type(in, i);
  if (t->dtype != DT_I8) TRY(infer_need_float(in, i, 4));
  if (t->rank >= 0 && t->rank != 4)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 4", i, t->rank);
  if (t->rank < 0) return TENON_OK;
  return infer_equal_dim(in, t->dims[2], ie_const(&in->g->dims, LLM_PAGE), "positions of a page");
}

// Indices, as many as operand 0 or 1 has rows.
static tenon_status need_rows(Infer *in, int i, const Type *rows, const char *what) {
  TRY(infer_need(in, i, DT_I32));
  const Type *t = infer_type(in, i);
  if (t->rank < 0) return TENON_OK;
  if (t->rank != 1)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 1", i, t->rank);
  return rows->rank < 0 ? TENON_OK : infer_equal_dim(in, t->dims[0], rows->dims[0], what);
}

static tenon_status infer_kv_append(Infer *in) {
  TRY(need_state(in, 0));
  const Type *s = infer_type(in, 0), *x = infer_type(in, 1);
  if (s->dtype == DT_I8) {
    TRY(infer_need(in, 1, DT_I8));
    if (x->rank >= 0 && x->rank != 3)
      return infer_fail(in, TENON_EINVAL, "operand 1 has rank %d, must be 3", x->rank);
  } else {
    TRY(infer_need_float(in, 1, 3));
  }
  TRY(need_rows(in, 2, x, "rows and slots"));
  if (s->rank >= 0 && x->rank >= 0) {
    TRY(infer_equal_dim(in, s->dims[1], x->dims[1], "heads of state and rows"));
    TRY(infer_equal_dim(in, s->dims[3], x->dims[2], "head size of state and rows"));
  }
  infer_set_type(in, 0, s);
  return TENON_OK;
}

// In place only the rows are touched: what is charged is what is certain.
static double cost_kv_append(const CostIn *c) { return c->nin > 1 ? (double)c->in[1].n : 0; }

static tenon_status need_heads(Infer *in, int i, const Type *q) {
  if (!infer_src(in, i)) return TENON_OK;
  TRY(infer_need_float(in, i, 1));
  const Type *t = infer_type(in, i);
  if (t->rank < 0 || q->rank < 0) return TENON_OK;
  return infer_equal_dim(in, t->dims[0], q->dims[1], "heads");
}

static tenon_status infer_states(Infer *in, const Type *q, const Type *k, const Type *v) {
  if (k->rank >= 0 && v->rank >= 0) {
    TRY(infer_equal_dim(in, k->dims[0], v->dims[0], "pages of keys and values"));
    TRY(infer_equal_dim(in, k->dims[1], v->dims[1], "heads of keys and values"));
  }
  if (q->rank < 0 || k->rank < 0) return TENON_OK;
  Dim hq = q->dims[1], h = k->dims[1];
  if (ie_is_const(hq) && ie_is_const(h) &&
      (h->value < 1 ? hq->value > 0 : hq->value % h->value != 0))
    return infer_fail(in, TENON_EINVAL, "%lld heads of the query cannot share %lld of the keys",
                      (long long)hq->value, (long long)h->value);
  return infer_equal_dim(in, q->dims[2], k->dims[3], "head size of query and key");
}

// A cache in i8 has scales, f32[pages, heads, 32, 1], and no other has.
static tenon_status need_scale(Infer *in, int i, const Type *state) {
  bool there = infer_src(in, i) != NULL;
  if (state->dtype && there != (state->dtype == DT_I8))
    return infer_fail(in, TENON_EINVAL,
                      there ? "operand %d, scales of a cache that is not i8"
                            : "operand %d, the scales of a cache in i8, is missing",
                      i);
  if (!there) return TENON_OK;
  TRY(infer_need(in, i, DT_F32));
  const Type *t = infer_type(in, i);
  if (t->rank < 0 || state->rank < 0) return TENON_OK;
  if (t->rank != 4)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 4", i, t->rank);
  for (int d = 0; d < 3; d++)
    TRY(infer_equal_dim(in, t->dims[d], state->dims[d], "a cache and its scales"));
  return infer_equal_dim(in, t->dims[3], ie_const(&in->g->dims, 1), "a scale for each head");
}

static tenon_status infer_paged_attention(Infer *in) {
  const paged_attention_attrs *at = in->attrs;
  TRY(infer_need_float(in, 0, 3));
  TRY(need_state(in, 1));
  TRY(need_state(in, 2));
  const Type *q = infer_type(in, 0), *k = infer_type(in, 1), *v = infer_type(in, 2);
  TRY(infer_states(in, q, k, v));
  TRY(need_rows(in, 3, q, "rows and their sequences"));
  TRY(need_rows(in, 4, q, "rows and their positions"));
  TRY(infer_need(in, 5, DT_I32));
  if (infer_type(in, 5)->rank >= 0 && infer_type(in, 5)->rank != 2)
    return infer_fail(in, TENON_EINVAL, "the table has rank %d, must be 2",
                      infer_type(in, 5)->rank);
  for (int i = 6; i <= 7; i++) TRY(need_heads(in, i, q));
  TRY(need_scale(in, 8, k));
  TRY(need_scale(in, 9, v));
  if (at->window < 0)
    return infer_fail(in, TENON_EINVAL, "the window is %lld, must be 0 or more",
                      (long long)at->window);
  if (q->rank < 0 || v->rank < 0) {
    infer_set_unranked(in, 0, q->dtype);
    return TENON_OK;
  }
  return infer_set(in, 0, q->dtype, 3, (Dim[]){q->dims[0], q->dims[1], v->dims[3]});
}

// As if every row had a whole table's keys: how many it has is data.
static double cost_paged_attention(const CostIn *c) {
  if (c->nin < 6 || c->in[0].rank != 3 || c->in[5].rank != 2 || c->out[0].rank != 3) return 0;
  return 2.0 * LLM_PAGE * (double)c->in[5].dims[1] * ((double)c->in[0].n + (double)c->out[0].n);
}

ATTR_TABLE(paged_attention, PAGED_ATTENTION_ATTRS);
const OpInfo op_kv_append = {
    .name = "kv_append",
    .doc = "A paged KV cache [pages, heads, 32, size] with row t of x [rows, heads, size] at "
           "slot[t] = page * 32 + position; below 0: nowhere. A cache of i8 takes rows of i8.",
    .operands = "state x slot",
    .results = "next",
    .dtypes = "float int",
    .arity = 3,
    .nres = 1,
    .in_place = 1 + 0,
    .fuse = FUSE_SCATTER,
    .infer = infer_kv_append,
    .eval = eval_kv_append,
    .cost = cost_kv_append,
    SAMPLES("(f32[3,2,32,8], f32[4,2,8], i32[4]{5,64,-1,95})",
            "(f16[2,1,32,16], f32[3,1,16], i32[3]{0,33,1})",
            "(bf16[n,3,32,4], f16[2,3,4], i32[2]{1,0})",
            "(i8[2,2,32,8], i8[3,2,8], i32[3]{0,33,-1})",
            "(f32[2,2,32,24], bf16[1,2,24], i32[1]{-1})", "(f32[2,2,32,8], f32[0,2,8], i32[0]{})",
            "(f32[1,2,32,0], f32[1,2,0], i32[1]{3})"),
};
const OpInfo op_paged_attention = {
    .name = "paged_attention",
    .doc = "softmax(scale q k') v over a paged KV cache: row t sees keys 0 to pos[t] of sequence "
           "seq[t], whose pages are table[seq[t]]; keys and values in i8 are multiplied by a scale "
           "for each head of a position",
    .operands = "q k v seq pos table sinks? slopes? k_scale? v_scale?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_ATTENTION,
    OP_ATTRS(paged_attention),
    .infer = infer_paged_attention,
    .eval = eval_paged_attention,
    .cost = cost_paged_attention,
    SAMPLES("(f32[3,4,8], f32[3,2,32,8], f32[3,2,32,8], i32[3]{0,1,0}, i32[3]{33,5,34}, "
            "i32[2,2]{2,0,1,-7})",
            "(f32[2,2,16], f32[2,2,32,16], f32[2,2,32,6], i32[2]{0,0}, i32[2]{40,41}, "
            "i32[1,2]{1,0}, f32[2], f32[2]) window=12 softcap=2 scale=0.3",
            "(f32[3,4,8], i8[3,2,32,8], i8[3,2,32,6], i32[3]{0,1,0}, i32[3]{33,5,34}, "
            "i32[2,2]{2,0,1,-7}, _, _, f32[3,2,32,1], f32[3,2,32,1])",
            "(f16[2,6,8], bf16[2,2,32,8], f16[2,2,32,8], i32[2]{0,1}, i32[2]{0,-1}, i32[2,1]{1,0}, "
            "_, f32[6])",
            "(f32[t,4,64], f32[n,2,32,64], f32[n,2,32,64], i32[3]{0,0,1}, i32[3]{62,63,0}, "
            "i32[2,2]{0,2,1,-1})",
            "(f32[0,2,8], f32[2,2,32,8], f32[2,2,32,8], i32[0]{}, i32[0]{}, i32[1,2]{0,1})"),
};
