// quant.c -- the tensors of weights that a quantiser packed, as one weight each (quant.h).
//
// Small integers (int4 and others) are in 32-bit words, the first in the low bits.  A word has
//   AWQ      eight columns of the result, in the order 0 2 4 6 1 3 5 7, of one row of x's axis
//   GPTQ     successive numbers of x's axis, of one column of the result
//   packed   successive numbers of a row of the matrix
// Zeros are packed along the columns of the result in the first two, along rows in the third.
//
// Needs:      tensors of safetensors files, whose bytes their reader has checked.
// Guarantees: types and shapes of all parts fit one another; groups are of one size, and an order
//             of columns is a permutation.
#include "models/quant.h"

#include "eval/ggml.h"
#include "models/adapter.h"

#include <stdio.h>

enum { WORD_BITS = 32 };

typedef struct Attach {
  LlmModel *m;
  Diag *d;
  LlmPacked *p;
  char name[LLM_NAME_BYTES];  // of the matrix, without its end
} Attach;

// ---- numbers in words ----

static uint32_t word_at(const Weight *w, int64_t i) { return ggml_u32(w->data + 4 * i); }

static int bits_of(const LlmPacked *p, uint32_t word, int64_t i) {
  return (int)(word >> i * p->how.bits & ((1u << p->how.bits) - 1));
}

// Where AWQ has column i of eight.
static int awq_place(int64_t i) { return (int)(i % 2 * 4 + i / 2); }

int llm_packed_code(const LlmPacked *p, int64_t n, int64_t k) {
  int64_t each = WORD_BITS / p->how.bits;
  if (p->order) k = p->order[k];
  switch (p->how.form) {
  case LLM_QUANT_AWQ:
    return bits_of(p, word_at(&p->codes, k * (p->n / each) + n / each), awq_place(n % each));
  case LLM_QUANT_GPTQ: return bits_of(p, word_at(&p->codes, k / each * p->n + n), k % each);
  default: return bits_of(p, word_at(&p->codes, n * (p->k / each) + k / each), k % each);
  }
}

int llm_packed_zero(const LlmPacked *p, int64_t n, int64_t group) {
  int64_t each = WORD_BITS / p->how.bits;
  if (!p->zero.data) return 1 << (p->how.bits - 1);
  if (p->how.form == LLM_QUANT_PACKED)
    return bits_of(p, word_at(&p->zero, n / each * p->groups + group), n % each);
  uint32_t word = word_at(&p->zero, group * (p->n / each) + n / each);
  if (p->how.form == LLM_QUANT_AWQ) return bits_of(p, word, awq_place(n % each));
  return bits_of(p, word, n % each) + p->how.zeros_less;
}

static float scale_at(const LlmPacked *p, int64_t i) {
  return (float)get_f64(p->scale.dtype, p->scale.data, i);
}

static bool of_words(const LlmPacked *p) { return p->how.form < LLM_QUANT_FP8; }

// Elements in f32, for whoever does not take the parts.
static void unpack(const Weight *w, void *out) {
  const LlmPacked *p = w->parts;
  float *to = out;
  for (int64_t n = 0; n < p->n; n++)
    for (int64_t k = 0; k < p->k; k++) {
      if (!of_words(p)) {
        float v = (float)get_f64(p->codes.dtype, p->codes.data, n * p->k + k);
        to[n * p->k + k] = v * scale_at(p, n / p->tile_rows * p->groups + k / p->tile_k);
        continue;
      }
      int64_t g = k * p->groups / p->k;
      int64_t at = p->how.form == LLM_QUANT_PACKED ? n * p->groups + g : g * p->n + n;
      int q = llm_packed_code(p, n, k) - llm_packed_zero(p, n, g);
      to[n * p->k + (p->order ? p->order[k] : k)] = (float)q * scale_at(p, at);
    }
}

// ---- parts ----

static tenon_status bad(const Attach *a, const char *what) {
  return fail(a->d, TENON_EFORMAT, NOWHERE, "the weight '%s' as it was quantised: %s", a->name,
              what);
}

static const char *part_name(Attach *a, const char *end) {
  return str_printf(&a->m->arena, "%s.%s", a->name, end);
}

// Takes a tensor as a part; false: there is none.
static bool take(Attach *a, const char *end, Weight *out) {
  Weights *all = (Weights *)a->m->weights;
  Weight *w = end ? (Weight *)weights_find(all, str_of(part_name(a, end))) : NULL;
  if (!w) return false;
  w->is_part = true;
  *out = *w;
  // Files do not align what they have.
  if (!w->unpack && !w->strides) out->data = weight_elements(w, &a->m->arena);
  return true;
}

// The tensor has this type, or any float for 0, and this shape.
static tenon_status check_part(const Attach *a, const Weight *w, DType t, int64_t rows,
                               int64_t columns) {
  bool type = t ? w->dtype == t : dtype_is_float(w->dtype) && elem_bytes(w->dtype) > 0;
  bool flat = (w->rank == 0 && rows * columns == 1) ||
              (w->rank == 1 && w->dims[0] == rows * columns && (rows == 1 || columns == 1));
  if (type && !w->strides && !w->unpack &&
      (flat || (w->rank == 2 && w->dims[0] == rows && w->dims[1] == columns)))
    return TENON_OK;
  int64_t dims[] = {rows, columns};
  return fail(a->d, TENON_EFORMAT, NOWHERE, "the tensor '%s' is %s%s, must be %s%s", w->name,
              dtype_name(w->dtype), shape_text(w->rank, w->dims).s,
              t ? dtype_name(t) : "floats of ", shape_text(2, dims).s);
}

// The columns in order of their groups, where a tensor says which column is of which group.
static tenon_status read_order(Attach *a, const Weight *index) {
  LlmPacked *p = a->p;
  int64_t each = p->k / p->groups, same = 0;
  TRY(check_part(a, index, DT_I32, 1, p->k));
  int64_t *count = arena_array(&a->m->arena, int64_t, p->groups + 1);
  int64_t *order = arena_array(&a->m->arena, int64_t, p->k);
  for (int64_t k = 0; k < p->k; k++) {
    int64_t g = (int32_t)word_at(index, k);
    if (g < 0 || g >= p->groups) return bad(a, "g_idx is out of range");
    if (count[g] == each) return bad(a, "groups are not of one size");
    order[g * each + count[g]++] = k;
    same += g == k / each;
  }
  if (same < p->k) p->order = order;
  return TENON_OK;
}

static tenon_status read_words(Attach *a) {
  LlmPacked *p = a->p;
  const Weight *c = &p->codes;
  int64_t each = WORD_BITS / p->how.bits;
  bool packed = p->how.form == LLM_QUANT_PACKED, awq = p->how.form == LLM_QUANT_AWQ;
  if (c->dtype != DT_I32 || c->rank != 2 || c->strides || c->dims[0] < 1 || c->dims[1] < 1 ||
      MAX(c->dims[0], c->dims[1]) > LLM_SIZE_MAX / each)
    return bad(a, "its words must be an i32 matrix");
  p->n = awq ? c->dims[1] * each : packed ? c->dims[0] : c->dims[1];
  p->k = awq ? c->dims[0] : packed ? c->dims[1] * each : c->dims[0] * each;
  int64_t group = p->how.group ? p->how.group : p->k;
  if (p->k % group || group * p->how.bits % 8) return bad(a, "groups do not divide its rows");
  if (!packed && p->n % each) return bad(a, "its columns do not fill words");
  p->groups = p->k / group;
  if (!take(a, packed ? "weight_scale" : "scales", &p->scale)) return bad(a, "there are no scales");
  TRY(check_part(a, &p->scale, 0, packed ? p->n : p->groups, packed ? p->groups : p->n));
  bool zeros = take(a, packed ? "weight_zero_point" : "qzeros", &p->zero);
  if (zeros && packed)
    TRY(check_part(a, &p->zero, DT_I32, (p->n + each - 1) / each, p->groups));
  else if (zeros)
    TRY(check_part(a, &p->zero, DT_I32, p->groups, p->n / each));
  else if (!packed || !p->how.symmetric)
    return bad(a, "there are no zeros");
  Weight more;
  if (packed && take(a, "weight_shape", &more) &&
      (more.n != 2 || !dtype_is_int(more.dtype) || get_i64(more.dtype, more.data, 0) != p->n ||
       get_i64(more.dtype, more.data, 1) != p->k))
    return bad(a, "weight_shape is another one");
  return !awq && take(a, packed ? "weight_g_idx" : "g_idx", &more) ? read_order(a, &more)
                                                                   : TENON_OK;
}

static tenon_status read_bytes(Attach *a) {
  LlmPacked *p = a->p;
  const Weight *c = &p->codes;
  if (c->rank != 2 || c->strides || c->unpack || c->dims[0] < 1 || c->dims[1] < 1)
    return bad(a, "it must be a matrix");
  p->n = c->dims[0];
  p->k = c->dims[1];
  if (!take(a, p->how.scale, &p->scale)) return bad(a, "there are no scales");
  bool one = p->scale.n == 1;
  p->tile_rows = p->how.tile_rows && !one ? p->how.tile_rows : p->n;
  p->tile_k = p->how.tile_k && !one ? p->how.tile_k : p->k;
  p->groups = (p->k + p->tile_k - 1) / p->tile_k;
  TRY(check_part(a, &p->scale, 0, (p->n + p->tile_rows - 1) / p->tile_rows, p->groups));
  // What activations were scaled by does not change the weights.
  Weight unused;
  for (int i = 0; i < 2; i++) (void)take(a, p->how.inputs[i], &unused);
  return TENON_OK;
}

// ---- one weight of them ----

static void make_weight(const LlmPacked *p, Weight *w) {
  int64_t bytes = p->codes.bytes + p->scale.bytes + (p->zero.data ? p->zero.bytes : 0);
  Weight one = {.name = w->name,
                .dtype = DT_F32,
                .rank = 2,
                .dims = {p->n, p->k},
                .n = p->n * p->k,
                .data = p->codes.data,
                .bytes = bytes,
                .unpack = unpack,
                .packing = -1,
                .parts = p};
  *w = one;
}

// True where the tensor holds the codes of a matrix, whose name without its end is then in a->name.
static bool begins(Attach *a, const LlmQuant *q, const Weight *w, const char **end) {
  DType t = q->form == LLM_QUANT_FP8 ? DT_F8E4M3 : DT_I8;
  *end = q->form >= LLM_QUANT_FP8      ? ".weight"
         : q->form == LLM_QUANT_PACKED ? ".weight_packed"
                                       : ".qweight";
  int64_t n = (int64_t)strlen(w->name) - (int64_t)strlen(*end);
  if (!str_ends(str_of(w->name), *end) || n < 1 || n >= LLM_NAME_BYTES) return false;
  if (q->form >= LLM_QUANT_FP8 && w->dtype != t) return false;
  snprintf(a->name, sizeof a->name, "%.*s", (int)n, w->name);
  return true;
}

tenon_status llm_quant_attach(LlmModel *m, Diag *d) {
  const LlmQuant *q = &m->spec.quant;
  Weights *all = (Weights *)m->weights;
  Attach a = {.m = m, .d = d};
  int64_t tensors = all->v.n;
  for (int64_t i = 0; q->form && i < tensors; i++) {
    const char *end;
    if (!begins(&a, q, &all->v.v[i], &end)) continue;
    a.p = arena_new(&m->arena, LlmPacked);
    *a.p = (LlmPacked){.how = *q, .codes = all->v.v[i]};
    if (q->form < LLM_QUANT_FP8) {
      all->v.v[i].is_part = true;
      TRY(read_words(&a));
      Weight one = {.name = part_name(&a, "weight")};
      make_weight(a.p, &one);
      if (!weights_add(all, &m->arena, &one)) return bad(&a, "it is there in another form as well");
    } else {
      TRY(read_bytes(&a));
      make_weight(a.p, &all->v.v[i]);
    }
  }
  return TENON_OK;
}
