// interval.c -- intervals of numbers, and those of constant contents.
//
// Contents are read where the graph has followed them anyway (node_known), or, when the user asked
// for it, from the weights' file in blocks.
#include "ir/internal.h"
#include "analyse/analyse.h"

#include <math.h>

// ---- intervals ----

Range range_int(int64_t least, int64_t most) {
  return (Range){RANGE_INT, least, most, (double)least, (double)most};
}

Range range_float(double lo, double hi) {
  if (isnan(lo)) lo = -INFINITY;
  if (isnan(hi)) hi = INFINITY;
  return (Range){.kind = RANGE_FLOAT, .lo = lo, .hi = hi};
}

Range range_top(DType t) {
  int bits = dtype_bits(t);
  switch (dtype_class(t)) {
  case DC_BOOL: return range_int(0, 1);
  case DC_INT:
    return range_int(-(INT64_C(1) << (bits - 2)) * 2, ((INT64_C(1) << (bits - 2)) - 1) * 2 + 1);
  case DC_UINT: return range_int(0, bits == 64 ? INT64_MAX : (INT64_C(1) << bits) - 1);
  case DC_FLOAT: return range_float(-INFINITY, INFINITY);
  case DC_NONE:
  case DC_COMPLEX:
  case DC_STRING: break;
  }
  return (Range){0};
}

Range range_type(const Type *t) {
  return t->kind == TK_TENSOR && t->dtype ? range_top(t->dtype) : (Range){0};
}

bool range_is_known(Range r, DType t) {
  Range top = range_top(t);
  if (!r.kind || t == DT_BOOL) return false;
  if (r.kind == RANGE_INT) return r.least > top.least || r.most < top.most;
  return r.lo > top.lo || r.hi < top.hi;
}

bool range_is_bounded(Range r, DType t) {
  Range top = range_top(t);
  if (!r.kind) return false;
  if (t == DT_BOOL) return true;
  // Of 64 bits, half of any size is no bound in practice.
  const int64_t far = INT64_C(1) << 48;
  if (r.kind == RANGE_INT && dtype_bits(t) == 64)
    return r.least == r.most ? r.most < INT64_MAX : r.least > -far && r.most < far;
  if (r.kind == RANGE_INT)
    return r.most < top.most && (r.least > top.least || (r.least == 0 && top.least == 0));
  return isfinite(r.lo) && isfinite(r.hi);
}

Range range_hull(Range a, Range b) {
  if (!a.kind || !b.kind || a.kind != b.kind) return (Range){0};
  if (a.kind == RANGE_INT) return range_int(MIN(a.least, b.least), MAX(a.most, b.most));
  return range_float(fmin(a.lo, b.lo), fmax(a.hi, b.hi));
}

Range range_with_zero(Range a) {
  return range_hull(a, a.kind == RANGE_INT ? range_int(0, 0) : range_float(0, 0));
}

Range analyse_range(const Analysis *an, const Node *n) {
  return (int64_t)n->id < an->nranges ? an->range[n->id] : range_type(type_of(n));
}

Range range_at(const Ranger *r, const Node *n, uint32_t i) {
  if (i >= n->nsrc || n->src[i] == r->g->none) return (Range){0};
  return r->an->range[n->src[i]->id];
}

// A bound as a person writes it: few digits, but whole numbers in full.
static void print_bound(StrBuf *b, double x) {
  if (x == floor(x) && fabs(x) < 1e7)
    strbuf_printf(b, "%.0f", x + 0.0);
  else
    strbuf_printf(b, "%.4g", x);
}

void range_print(StrBuf *b, Range r) {
  strbuf_putc(b, '[');
  if (r.kind == RANGE_INT) {
    strbuf_printf(b, "%lld, %lld", (long long)r.least, (long long)r.most);
  } else {
    print_bound(b, r.lo);
    strbuf_puts(b, ", ");
    print_bound(b, r.hi);
  }
  strbuf_putc(b, ']');
}

const char *range_text(Arena *a, Range r) {
  StrBuf b;
  strbuf_init(&b, a);
  range_print(&b, r);
  return strbuf_text(&b);
}

// ---- contents ----

static void take(Range *out, DType t, const void *base, int64_t n, int64_t *nan) {
  enum { BLOCK = 1024 };
  double f[BLOCK];
  int64_t v[BLOCK];
  bool whole = out->kind == RANGE_INT;
  int64_t least = INT64_MAX, most = INT64_MIN;
  double lo = INFINITY, hi = -INFINITY;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = MIN(n - at, (int64_t)BLOCK);
    if (whole)
      load_i64(t, base, at, m, v);
    else
      load_f64(t, base, at, m, f);
    for (int64_t i = 0; i < m; i++) {
      if (whole) {
        least = MIN(least, v[i]);
        most = MAX(most, v[i]);
      } else if (isnan(f[i])) {
        ++*nan;
      } else {
        lo = fmin(lo, f[i]);
        hi = fmax(hi, f[i]);
      }
    }
  }
  if (whole)
    *out = range_int(least, most);
  else if (lo <= hi)
    *out = range_float(lo, hi);
}

bool range_contents(Ranger *r, const Node *n, Range *out, int64_t *out_nan) {
  *out_nan = 0;
  *out = range_type(type_of(n));
  if (!out->kind || type_of(n)->dtype == DT_U64) return false;
  const Value *v = node_known(r->g, n);
  if (v) {
    if (v->n > 0) take(out, v->dtype, v->data, v->n, out_nan);
    return v->n > 0;
  }
  if (n->op != OP_const || !r->o->weights || n->data->n < 1) return false;
  Diag *quiet = arena_new(r->arena, Diag);
  diag_init(quiet);
  const void *bytes;
  int64_t size;
  if (const_bytes(r->g, n, &bytes, quiet) || !dtype_bytes(type_of(n)->dtype, n->data->n, &size) ||
      size > n->data->bytes)
    return false;
  uint64_t block[1024];
  // Elements of a file may lie at any address; load_f64 wants theirs.
  int64_t step = ARRAY_LEN(block), unit = MAX(dtype_bits(type_of(n)->dtype), 1);
  Range all = {0};
  for (int64_t at = 0; at < n->data->n; at += step) {
    int64_t m = MIN(step, n->data->n - at), nan = 0;
    Range part = *out;
    memcpy(block, (const char *)bytes + at * unit / 8, (size_t)((m * unit + 7) / 8));
    take(&part, type_of(n)->dtype, block, m, &nan);
    *out_nan += nan;
    if (nan < m) all = all.kind ? range_hull(all, part) : part;
  }
  if (all.kind) *out = all;
  return true;
}
