// attr.c -- what can be done with an attribute struct through its reflection table.
#include "base/attr.h"

static const void *field(const AttrDesc *d, const void *attrs) {
  return (const char *)attrs + d->offset;
}

// A default is written as a double, so the ends of int64 arrive rounded outwards.
static int64_t dflt_i64(const AttrDesc *d) {
  if (d->dflt >= 0x1p63) return INT64_MAX;
  if (d->dflt <= -0x1p63) return INT64_MIN;
  return (int64_t)d->dflt;
}

static Str dflt_str(const AttrDesc *d) { return str_of(d->dflt_str ? d->dflt_str : ""); }

void attrs_defaults(const AttrDesc *desc, int n, void *attrs) {
  for (const AttrDesc *d = desc; n > 0; d++, n--) {
    void *f = (char *)attrs + d->offset;
    switch (d->kind) {
    case ATTR_i64: *(int64_t *)f = dflt_i64(d); break;
    case ATTR_opt_i64: *(OptInt *)f = (OptInt){0}; break;
    case ATTR_bool: *(bool *)f = d->dflt != 0; break;
    case ATTR_f64: *(double *)f = d->dflt; break;
    case ATTR_dtype: *(DType *)f = (DType)d->dflt; break;
    case ATTR_str: *(Str *)f = dflt_str(d); break;
    case ATTR_choice: *(int *)f = (int)d->dflt; break;
    case ATTR_body: *(const struct Body **)f = NULL; break;
    case ATTR_i64s: *(Ints *)f = (Ints){0}; break;
    case ATTR_f64s: *(Floats *)f = (Floats){0}; break;
    case ATTR_strs: *(Strs *)f = (Strs){0}; break;
    }
  }
}

static uint64_t hash_str(Str s, uint64_t h) { return hash_bytes(s.p, s.n, h); }

// Bodies are left out: they have no value that is the same from one run to the next.
static uint64_t field_hash(const AttrDesc *d, const void *f, uint64_t h) {
  switch (d->kind) {
  case ATTR_i64: return hash_bytes(f, sizeof(int64_t), h);
  case ATTR_opt_i64: {
    OptInt x = *(const OptInt *)f;
    return hash_bytes(&x.v, sizeof x.v, hash_u64(h ^ x.given));
  }
  case ATTR_bool: return hash_u64(h ^ *(const bool *)f);
  case ATTR_f64: return hash_bytes(f, sizeof(double), h);
  case ATTR_dtype: return hash_u64(h ^ (uint64_t) * (const DType *)f);
  case ATTR_str: return hash_str(*(const Str *)f, h);
  case ATTR_choice: return hash_u64(h ^ (uint64_t) * (const int *)f);
  case ATTR_body: return h;
  case ATTR_i64s: {
    Ints x = *(const Ints *)f;
    return hash_bytes(x.v, x.n * (int64_t)sizeof(*x.v), h);
  }
  case ATTR_f64s: {
    Floats x = *(const Floats *)f;
    return hash_bytes(x.v, x.n * (int64_t)sizeof(*x.v), h);
  }
  case ATTR_strs: {
    Strs x = *(const Strs *)f;
    for (int64_t i = 0; i < x.n; i++) h = hash_str(x.v[i], h);
    return hash_u64(h ^ (uint64_t)x.n);
  }
  }
  return h;
}

uint64_t attrs_hash(const AttrDesc *desc, int n, const void *attrs) {
  uint64_t h = 0;
  for (const AttrDesc *d = desc; n > 0; d++, n--)
    h = field_hash(d, field(d, attrs), hash_u64(h + 1));
  return h;
}

static bool same_bytes(const void *a, const void *b, int64_t n, size_t each) {
  return n == 0 || !memcmp(a, b, (size_t)n * each);
}

// Floats are equal when their bits are, so that -0 and NaN are values like any other.
static bool field_equal(const AttrDesc *d, const void *a, const void *b) {
  switch (d->kind) {
  case ATTR_i64: return *(const int64_t *)a == *(const int64_t *)b;
  case ATTR_opt_i64: {
    OptInt x = *(const OptInt *)a, y = *(const OptInt *)b;
    return x.given == y.given && x.v == y.v;
  }
  case ATTR_bool: return *(const bool *)a == *(const bool *)b;
  case ATTR_f64: return same_bytes(a, b, 1, sizeof(double));
  case ATTR_dtype: return *(const DType *)a == *(const DType *)b;
  case ATTR_str: return str_eq(*(const Str *)a, *(const Str *)b);
  case ATTR_choice: return *(const int *)a == *(const int *)b;
  case ATTR_body: return *(const struct Body *const *)a == *(const struct Body *const *)b;
  case ATTR_i64s: {
    Ints x = *(const Ints *)a, y = *(const Ints *)b;
    return x.n == y.n && same_bytes(x.v, y.v, x.n, sizeof(*x.v));
  }
  case ATTR_f64s: {
    Floats x = *(const Floats *)a, y = *(const Floats *)b;
    return x.n == y.n && same_bytes(x.v, y.v, x.n, sizeof(*x.v));
  }
  case ATTR_strs: {
    Strs x = *(const Strs *)a, y = *(const Strs *)b;
    bool same = x.n == y.n;
    for (int64_t i = 0; same && i < x.n; i++) same = str_eq(x.v[i], y.v[i]);
    return same;
  }
  }
  return false;
}

bool attrs_equal(const AttrDesc *desc, int n, const void *a, const void *b) {
  for (const AttrDesc *d = desc; n > 0; d++, n--)
    if (!field_equal(d, field(d, a), field(d, b))) return false;
  return true;
}

static Str copy_str(Arena *arena, Str s) { return (Str){str_copy(arena, s), s.n}; }

static void *copy_list(Arena *arena, const void *v, int64_t n, size_t each) {
  return n ? memcpy(arena_alloc_array(arena, n, (int64_t)each), v, (size_t)n * each) : NULL;
}

void attrs_copy(Arena *arena, const AttrDesc *desc, int n, const void *from, void *to) {
  for (const AttrDesc *d = desc; n > 0; d++, n--) {
    const void *a = field(d, from);
    void *b = (char *)to + d->offset;
    switch (d->kind) {
    case ATTR_i64: *(int64_t *)b = *(const int64_t *)a; break;
    case ATTR_opt_i64: *(OptInt *)b = *(const OptInt *)a; break;
    case ATTR_bool: *(bool *)b = *(const bool *)a; break;
    case ATTR_f64: *(double *)b = *(const double *)a; break;
    case ATTR_dtype: *(DType *)b = *(const DType *)a; break;
    case ATTR_str: *(Str *)b = copy_str(arena, *(const Str *)a); break;
    case ATTR_choice: *(int *)b = *(const int *)a; break;
    case ATTR_body: *(const struct Body **)b = *(const struct Body *const *)a; break;
    case ATTR_i64s: {
      Ints x = *(const Ints *)a;
      *(Ints *)b = (Ints){x.n, copy_list(arena, x.v, x.n, sizeof(*x.v))};
      break;
    }
    case ATTR_f64s: {
      Floats x = *(const Floats *)a;
      *(Floats *)b = (Floats){x.n, copy_list(arena, x.v, x.n, sizeof(*x.v))};
      break;
    }
    case ATTR_strs: {
      Strs x = *(const Strs *)a;
      Str *v = copy_list(arena, x.v, x.n, sizeof(*x.v));
      for (int64_t i = 0; i < x.n; i++) v[i] = copy_str(arena, x.v[i]);
      *(Strs *)b = (Strs){x.n, v};
      break;
    }
    }
  }
}

bool attr_is_default(const AttrDesc *d, const void *attrs) {
  const void *f = field(d, attrs);
  switch (d->kind) {
  case ATTR_i64: return *(const int64_t *)f == dflt_i64(d);
  case ATTR_opt_i64: return !((const OptInt *)f)->given;
  case ATTR_bool: return *(const bool *)f == (d->dflt != 0);
  case ATTR_f64: return same_bytes(f, &d->dflt, 1, sizeof(double));
  case ATTR_dtype: return *(const DType *)f == (DType)d->dflt;
  case ATTR_str: return str_eq(*(const Str *)f, dflt_str(d));
  case ATTR_choice: return *(const int *)f == (int)d->dflt;
  case ATTR_body: return !*(const struct Body *const *)f;
  case ATTR_i64s: return ((const Ints *)f)->n == 0;
  case ATTR_f64s: return ((const Floats *)f)->n == 0;
  case ATTR_strs: return ((const Strs *)f)->n == 0;
  }
  return false;
}

int attr_choice_find(const char *choices, Str word) {
  for (int i = 0;; i++) {
    Str w = {choices, (int64_t)strcspn(choices, "|")};
    if (str_eq(w, word)) return i;
    if (!choices[w.n]) return -1;
    choices += w.n + 1;
  }
}

Str attr_choice_word(const char *choices, int index) {
  for (;; index--) {
    Str w = {choices, (int64_t)strcspn(choices, "|")};
    if (index == 0) return w;
    CHECK(choices[w.n] && index > 0, "no choice %d", index);
    choices += w.n + 1;
  }
}
