// value.c -- inputs and sizes from names, and bit-for-bit comparison (graphfuzz.h).
#include "graphfuzz/graphfuzz.h"
#include "ir/text.h"

#include <math.h>

// ---- sizes ----

int64_t fuzz_size(Str symbol, int k) {
  int64_t v = symbol.n == 2 && symbol.p[1] >= '0' && symbol.p[1] <= '9' ? symbol.p[1] - '0' : 3;
  if (k == 0) return v;
  if (symbol.p[0] == 'm') return v * (k + 1);
  if (k == 1) return v + 1;
  return symbol.p[0] != 'z';
}

int64_t fuzz_dim(Dim d, int k) {
  enum { MOST = 256 };
  int64_t bind[MOST], v;
  bool bound[MOST] = {false};
  if (ie_is_const(d)) return d->value;
  if (d->kind == IE_SYM && d->fresh) return -1;
  Arena a;
  arena_init(&a);
  IntMap seen;
  DimVec sym = {0};
  intmap_init(&seen, &a);
  dim_symbols(d, &seen, &a, &sym);
  for (int64_t i = 0; i < sym.n; i++)
    if (sym.v[i]->slot < MOST && !sym.v[i]->fresh) {
      bind[sym.v[i]->slot] = fuzz_size((Str){sym.v[i]->name, sym.v[i]->value}, k);
      bound[sym.v[i]->slot] = true;
    }
  bool ok = ie_eval(d, bind, bound, MOST, &v);
  arena_deinit(&a);
  return ok ? v : -1;
}

// ---- inputs ----

typedef struct Draws {
  uint64_t state;
  int manner;  // 0, 1: ordinary numbers; 2: also odd ones; 3: whole numbers, many equal
} Draws;

static uint64_t draw(Draws *r) {
  r->state += 0x9e3779b97f4a7c15ull;
  return hash_u64(r->state);
}

static double any_float(Draws *r, DType t) {
  static const double odd[] = {0.0,   -0.0,     1,         -1,  1e-30,   0x1p-149, 0x1p-1074,
                               65504, INFINITY, -INFINITY, NAN, 0x1p-24, 3e38,     -1e-7};
  uint64_t x = draw(r);
  double u = (double)(x >> 11) * 0x1p-53;
  if (t == DT_F8E8M0) return 1 + 7 * u;
  if (r->manner == 2 && (x & 7) == 0) return odd[x / 8 % ARRAY_LEN(odd)];
  if (r->manner == 3) return (double)(x % 7) - 3;
  return 4 * u - 2;
}

static int64_t any_int(Draws *r, DType t) {
  uint64_t x = draw(r);
  int bits = dtype_bits(t);
  if (t == DT_BOOL) return x & 1;
  bool sign = dtype_class(t) == DC_INT;
  if (bits < 8) return (int64_t)(x % (1u << bits)) - (sign ? 1 << (bits - 1) : 0);
  if (r->manner == 2 && (x & 7) == 0) {
    uint64_t top = sign ? (1ull << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
    uint64_t edge[] = {top, sign ? ~top : 0, top - 1, top / 2 + 1};
    return (int64_t)edge[x / 8 % 4];
  }
  if (r->manner == 3) return (int64_t)(x % 4);
  return (int64_t)(x % 21) - (sign ? 10 : 0);
}

static void fill(Value *v, Draws *r) {
  static const char *const words[] = {"one Two", "3", "", "b", "-1.5"};
  DType half = v->dtype == DT_C64 ? DT_F32 : DT_F64;
  for (int64_t i = 0; i < v->n; i++) switch (dtype_class(v->dtype)) {
    case DC_FLOAT: val_put_f64(v, i, any_float(r, v->dtype)); break;
    case DC_BOOL:
    case DC_INT:
    case DC_UINT: val_put_i64(v, i, any_int(r, v->dtype)); break;
    case DC_STRING: ((Str *)v->data)[i] = str_of(words[draw(r) % 5]); break;
    case DC_COMPLEX:
      put_f64(half, v->data, 2 * i, any_float(r, half));
      put_f64(half, v->data, 2 * i + 1, any_float(r, half));
      break;
    case DC_NONE: break;
    }
}

static tenon_status make(Run *run, const Type *t, Draws *r, int k, Value **out) {
  int64_t dims[MAX_RANK] = {2};
  Value *item[2];
  if (t->kind == TK_MAP) {
    dims[0] = 3;
    TRY(value_tensor(run, NOWHERE, t->dtype, 1, dims, &item[0]));
    TRY(value_tensor(run, NOWHERE, t->elem->dtype, 1, dims, &item[1]));
    fill(item[1], r);
    static const char *const keys[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
      if (t->dtype == DT_STRING)
        ((Str *)item[0]->data)[i] = str_of(keys[i]);
      else
        val_put_i64(item[0], i, i + 1);
    return value_map(run, item[0], item[1], out);
  }
  if (t->kind == TK_SEQUENCE) {
    TRY(value_sequence(run, t->elem->dtype, 2, out));
    for (int i = 0; i < 2; i++) TRY(make(run, t->elem, r, k, &(*out)->items[i]));
    return TENON_OK;
  }
  if (t->kind == TK_OPTIONAL) {
    TRY(make(run, t->elem, r, k, &item[0]));
    return value_optional(run, t->elem->dtype, item[0], out);
  }
  if (t->kind != TK_TENSOR) return TENON_EUNSUPPORTED;
  for (int i = 0; i < t->rank; i++)
    if ((dims[i] = fuzz_dim(t->dims[i], k)) < 0) return TENON_EUNSUPPORTED;
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank < 0 ? 1 : t->rank, dims, out));
  fill(*out, r);
  return TENON_OK;
}

tenon_status fuzz_input(Run *run, const Type *t, const char *name, int k, Value **out) {
  Draws r = {.state = hash_bytes(name, (int64_t)strlen(name), 11)};
  r.manner = (int)(draw(&r) % 4);
  if (r.manner == 2 && name[0] == 't') r.manner = 0;
  return make(run, t, &r, k, out);
}

// An interpreter's constants go with it: they have no run.
tenon_status fuzz_own(Run *run, Value **v) {
  Value *old = *v;
  if (!old) return TENON_OK;
  for (int64_t i = 0; old->kind != VK_TENSOR && i < old->nitems; i++)
    TRY(fuzz_own(run, &old->items[i]));
  // A view of a constant goes with the interpreter, as the constant does.
  bool lasting = old->run && (!old->owner || old->owner->run);
  if (lasting || old->kind != VK_TENSOR) return TENON_OK;
  TRY(value_tensor(run, NOWHERE, old->dtype, old->rank, old->dims, v));
  copy_elems(old->dtype, (*v)->data, 0, old->data, 0, old->n);
  return TENON_OK;
}

// ---- comparing ----

static bool same_float(double x, double y) {
  if (x != x || y != y) return x != x && y != y;
  return x == y && signbit(x) == signbit(y);
}

static bool same_element(const Value *a, const Value *b, int64_t i) {
  switch (dtype_class(a->dtype)) {
  case DC_STRING: return str_eq(val_str(a, i), val_str(b, i));
  case DC_FLOAT: return same_float(val_f64(a, i), val_f64(b, i));
  case DC_COMPLEX: {
    DType half = a->dtype == DT_C64 ? DT_F32 : DT_F64;
    return same_float(get_f64(half, a->data, 2 * i), get_f64(half, b->data, 2 * i)) &&
           same_float(get_f64(half, a->data, 2 * i + 1), get_f64(half, b->data, 2 * i + 1));
  }
  default: return val_i64(a, i) == val_i64(b, i);
  }
}

bool fuzz_same(const Value *a, const Value *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  if (a->kind != VK_TENSOR) {
    if (a->nitems != b->nitems) return false;
    for (int64_t i = 0; i < a->nitems; i++)
      if (!fuzz_same(a->items[i], b->items[i])) return false;
    return true;
  }
  if (a->dtype != b->dtype || a->rank != b->rank ||
      memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]))
    return false;
  for (int64_t i = 0; i < a->n; i++)
    if (!same_element(a, b, i)) return false;
  return true;
}
