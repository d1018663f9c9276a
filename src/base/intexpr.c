// intexpr.c -- the pool of integer expressions, and polynomial arithmetic on them.
//
// Every expression carries itself as a list of terms (a constant is one term without atoms, an atom
// one term of itself), so sums and products are merges of sorted lists.  A result is built as a
// Poly on the stack, then looked up in the pool; only an expression that is new takes memory of the
// arena.
//
// Terms are sorted by degree, then lexicographically by their sorted atoms.  This is a graded
// lexicographic order: multiplying by a monomial keeps it, so a row of a product comes out sorted.
//
// Guarantees: equal polynomials over the same atoms are the same pointer.
#include "base/intexpr_impl.h"

struct IntPoolSlot {
  Dim e;
};

// An expression that is not a sum, with room for its one term.
typedef struct Single {
  IntExpr e;
  IntTerm term;
  Dim self;
} Single;

// ---- order ----
static int cmp_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int order_atoms(const IntTerm *a, const IntTerm *b) {
  if (a->natoms != b->natoms) return a->natoms < b->natoms ? -1 : 1;
  for (int i = 0; i < a->natoms; i++) {
    int c = ie_order(a->atom[i], b->atom[i]);
    if (c) return c;
  }
  return 0;
}

int mono_order(const IntTerm *a, const IntTerm *b) { return order_atoms(a, b); }

static int order_sums(Dim a, Dim b) {
  if (a->nterms != b->nterms) return a->nterms < b->nterms ? -1 : 1;
  for (int i = 0; i < a->nterms; i++) {
    int c = order_atoms(&a->term[i], &b->term[i]);
    if (!c) c = cmp_i64(a->term[i].coef, b->term[i].coef);
    if (c) return c;
  }
  return 0;
}

int ie_order(Dim a, Dim b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  switch ((IntExprKind)a->kind) {
  case IE_CONST: return cmp_i64(a->value, b->value);
  case IE_SYM:
    if (a->fresh != b->fresh) return a->fresh ? 1 : -1;
    return str_cmp((Str){a->name, a->value}, (Str){b->name, b->value});
  case IE_SUM: return order_sums(a, b);
  case IE_DIV:
  case IE_MOD:
  case IE_MIN:
  case IE_MAX:
  case IE_BCAST: {
    int c = ie_order(a->a, b->a);
    return c ? c : ie_order(a->b, b->b);
  }
  case IE_POISON: return 0;
  }
  return 0;
}

// ---- interning ----
static uint32_t hash_key(const IntExpr *k) {
  uint64_t h = hash_u64(k->kind);
  if (k->kind == IE_CONST) {
    h = hash_u64(h ^ (uint64_t)k->value);
  } else if (k->kind == IE_SUM) {
    for (int i = 0; i < k->nterms; i++) {
      h = hash_u64(h ^ (uint64_t)k->term[i].coef);
      for (int j = 0; j < k->term[i].natoms; j++) h = hash_u64(h + k->term[i].atom[j]->id);
    }
  } else {
    h = hash_u64(h ^ ((uint64_t)k->a->id << 32 | k->b->id));
  }
  return (uint32_t)(h ^ h >> 32);
}

static bool same_terms(const IntExpr *a, const IntExpr *b) {
  if (a->nterms != b->nterms) return false;
  for (int i = 0; i < a->nterms; i++) {
    const IntTerm *s = &a->term[i], *t = &b->term[i];
    if (s->coef != t->coef || s->natoms != t->natoms) return false;
    for (int j = 0; j < s->natoms; j++)
      if (s->atom[j] != t->atom[j]) return false;
  }
  return true;
}

static bool same_key(const IntExpr *a, const IntExpr *b) {
  if (a->hash != b->hash || a->kind != b->kind) return false;
  if (a->kind == IE_CONST) return a->value == b->value;
  if (a->kind == IE_SUM) return same_terms(a, b);
  return a->a == b->a && a->b == b->b;
}

static void grow_table(IntPool *p) {
  int64_t cap = p->cap ? p->cap * 2 : 64;
  struct IntPoolSlot *slot = arena_array(p->arena, struct IntPoolSlot, cap);
  for (int64_t i = 0; i < p->cap; i++) {
    if (!p->slot[i].e) continue;
    int64_t at = p->slot[i].e->hash & (cap - 1);
    while (slot[at].e) at = (at + 1) & (cap - 1);
    slot[at].e = p->slot[i].e;
  }
  p->slot = slot;
  p->cap = cap;
}

static IntExpr *new_single(IntPool *p, const IntExpr *key) {
  Single *s = arena_new(p->arena, Single);
  s->e = *key;
  s->e.id = p->next_id++;
  s->self = &s->e;
  s->e.nterms = 1;
  s->e.term = &s->term;
  s->term = (IntTerm){1, 1, &s->self};
  if (key->kind == IE_CONST) {
    s->term = (IntTerm){key->value, 0, NULL};
    s->e.nterms = key->value != 0;
  } else if (key->kind == IE_POISON) {
    s->e.nterms = 0;
  }
  return &s->e;
}

static IntExpr *new_sum(IntPool *p, const IntExpr *key) {
  int64_t natoms = 0;
  for (int i = 0; i < key->nterms; i++) natoms += key->term[i].natoms;
  IntExpr *e = arena_new(p->arena, IntExpr);
  IntTerm *t = arena_array(p->arena, IntTerm, key->nterms);
  Dim *atom = arena_array(p->arena, Dim, natoms);
  *e = *key;
  e->id = p->next_id++;
  e->term = t;
  for (int i = 0; i < key->nterms; i++) {
    t[i] = (IntTerm){key->term[i].coef, key->term[i].natoms, atom};
    for (int j = 0; j < t[i].natoms; j++) *atom++ = key->term[i].atom[j];
  }
  return e;
}

static Dim intern_key(IntPool *p, IntExpr *key) {
  key->hash = hash_key(key);
  if (p->n * 2 >= p->cap) grow_table(p);
  int64_t at = key->hash & (p->cap - 1);
  for (; p->slot[at].e; at = (at + 1) & (p->cap - 1))
    if (same_key(p->slot[at].e, key)) return p->slot[at].e;
  if (key->size > IE_MAX_SIZE || key->depth > IE_MAX_DEPTH) return p->poison;
  Dim e = key->kind == IE_SUM ? new_sum(p, key) : new_single(p, key);
  p->slot[at].e = e;
  p->n++;
  return e;
}

void intpool_init(IntPool *p, Arena *a) {
  memset(p, 0, sizeof *p);
  p->arena = a;
  strmap_init(&p->syms, a);
  IntExpr poison = {.kind = IE_POISON, .lo = INT64_MIN, .hi = INT64_MAX, .depth = 1, .size = 1};
  p->poison = new_single(p, &poison);
  p->zero = ie_const(p, 0);
  p->one = ie_const(p, 1);
}

Dim ie_const(IntPool *p, int64_t v) {
  IntExpr key = {.kind = IE_CONST, .value = v, .lo = v, .hi = v, .depth = 1, .size = 1};
  range_fix(&key.lo, &key.hi);
  return intern_key(p, &key);
}

Dim intern_poly(IntPool *p, const Poly *poly) {
  if (poly->n == 0) return p->zero;
  const IntTerm *t = poly->t;
  if (poly->n == 1 && t->natoms == 0) return ie_const(p, t->coef);
  if (poly->n == 1 && t->natoms == 1 && t->coef == 1) return t->atom[0];
  IntExpr key = {.kind = IE_SUM, .nterms = poly->n, .term = t, .size = 1};
  for (int i = 0; i < poly->n; i++) {
    key.size += 1;
    for (int j = 0; j < t[i].natoms; j++) {
      key.size = MIN(key.size + t[i].atom[j]->size, IE_MAX_SIZE + 1);
      key.depth = MAX(key.depth, t[i].atom[j]->depth);
    }
  }
  key.depth++;
  range_poly(t, poly->n, &key.lo, &key.hi);
  return intern_key(p, &key);
}

Dim intern_pair(IntPool *p, IntExprKind kind, Dim a, Dim b) {
  IntExpr key = {.kind = (uint8_t)kind, .a = a, .b = b};
  key.depth = MAX(a->depth, b->depth) + 1;
  key.size = a->size + b->size + 1;
  range_pair(kind, a, b, &key.lo, &key.hi);
  bool folds = kind == IE_DIV || kind == IE_MOD;
  if (folds && key.lo == key.hi) return ie_const(p, key.lo);
  return intern_key(p, &key);
}

// ---- symbols ---- Fresh symbols and the model's have names of their own: a fresh one's key has a
// '?' in front, and so has that of a model's name that starts with '?' (a fresh name never does).
static Dim find_or_make_sym(IntPool *p, Str name, bool fresh, int64_t lo, int64_t hi) {
  if (name.n > IE_MAX_NAME || p->nsyms == INT32_MAX) return p->poison;
  bool marked = fresh || (name.n > 0 && name.p[0] == '?');
  Dim old = marked ? NULL : strmap_get(&p->syms, name);
  if (old) return old;
  ArenaMark mark = arena_mark(p->arena);
  char *key = arena_alloc(p->arena, name.n + 2);
  key[0] = '?';
  if (name.n) memcpy(key + 1, name.p, (size_t)name.n);
  Str own = {key + 1, name.n}, mapped = {key, name.n + 1};
  if (marked && (old = strmap_get(&p->syms, mapped))) {
    arena_reset(p->arena, mark);
    return old;
  }
  if (lo > hi) lo = INT64_MIN, hi = INT64_MAX;
  range_fix(&lo, &hi);
  IntExpr e = {.kind = IE_SYM, .value = name.n, .name = own.p, .lo = lo, .hi = hi, .depth = 1};
  e.size = 1 + (int32_t)(name.n / 16);
  e.fresh = fresh;
  e.slot = p->nsyms;
  e.hash = (uint32_t)hash_bytes(name.p, name.n, fresh);
  IntExpr *sym = new_single(p, &e);
  // Counted last: an allocation that fails on the way leaves the pool as it was.
  p->sym.n = p->nsyms;
  vec_push(p->arena, &p->sym, (Dim)sym);
  strmap_put(&p->syms, marked ? mapped : own, sym);
  p->nsyms++;
  return sym;
}

Dim ie_sym(IntPool *p, Str name, int64_t lo, int64_t hi) {
  for (int64_t i = 0; i < p->nfixed; i++)
    if (str_eq(p->fixed[i].name, name)) {
      p->fixed[i].used = true;
      return ie_const(p, p->fixed[i].value);
    }
  return find_or_make_sym(p, name, false, lo, hi);
}

// Keeps the counter of ie_fresh above every number that was read.
Dim ie_fresh_named(IntPool *p, Str name) {
  int64_t digits = 0, number;
  while (digits < MIN(name.n, 18) && name.p[name.n - 1 - digits] >= '0' &&
         name.p[name.n - 1 - digits] <= '9')
    digits++;
  if (digits && str_to_i64((Str){name.p + name.n - digits, digits}, &number))
    p->next_fresh = MAX(p->next_fresh, number + 1);
  return find_or_make_sym(p, name, true, 0, INT64_MAX);
}

Dim ie_fresh(IntPool *p, const char *hint) {
  char text[48];
  int64_t n = 0;
  if (*hint >= '0' && *hint <= '9') text[n++] = '_';
  for (; *hint && n < ARRAY_LEN(text) - 1; hint++) {
    char c = *hint;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && (c != '.' || n == 0)) c = '_';
    text[n++] = c;
  }
  text[n] = 0;
  const char *name;
  int32_t before = p->nsyms;
  Dim e;
  do {
    name = str_printf(p->arena, "%s_%lld", n ? text : "d", (long long)p->next_fresh++);
    e = find_or_make_sym(p, str_of(name), true, 0, INT64_MAX);
  } while (p->nsyms == before && !ie_is_poison(e));
  return e;
}

// ---- polynomials ----
bool poly_push(Poly *out, IntTerm t) {
  if (out->n == IE_MAX_TERMS) return false;
  out->t[out->n++] = t;
  return true;
}

static bool merge_terms(Poly *out, const IntTerm *a, int na, int64_t scale, const IntTerm *b,
                        int nb) {
  int i = 0, j = 0;
  out->n = 0;
  while (i < na || j < nb) {
    int c = i == na ? 1 : j == nb ? -1 : mono_order(&a[i], &b[j]);
    IntTerm t = c <= 0 ? a[i] : b[j];
    int64_t scaled = 0;
    if (c >= 0 && !ck_mul(b[j].coef, scale, &scaled)) return false;
    if (!ck_add(c <= 0 ? a[i].coef : 0, scaled, &t.coef)) return false;
    i += c <= 0;
    j += c >= 0;
    if (t.coef && !poly_push(out, t)) return false;
  }
  return true;
}

bool poly_add(Poly *out, Dim a, int64_t scale, Dim b) {
  return merge_terms(out, a->term, a->nterms, scale, b->term, b->nterms);
}

static bool either_poison(Dim a, Dim b) { return ie_is_poison(a) || ie_is_poison(b); }

static Dim add_scaled(IntPool *p, Dim a, int64_t scale, Dim b) {
  Poly sum;
  if (either_poison(a, b) || !poly_add(&sum, a, scale, b)) return p->poison;
  return intern_poly(p, &sum);
}

Dim ie_add(IntPool *p, Dim a, Dim b) { return add_scaled(p, a, 1, b); }

Dim ie_sub(IntPool *p, Dim a, Dim b) { return add_scaled(p, a, -1, b); }

// By halves, so that n operands of a few terms take n log n steps.
static bool sum_range(Poly *out, const Dim *v, int64_t n) {
  if (n == 0) {
    out->n = 0;
    return true;
  }
  if (n == 1) {
    if (ie_is_poison(v[0])) return false;
    out->n = v[0]->nterms;
    memcpy(out->t, v[0]->term, (size_t)out->n * sizeof out->t[0]);
    return true;
  }
  Poly a, b;
  if (!sum_range(&a, v, n / 2) || !sum_range(&b, v + n / 2, n - n / 2)) return false;
  return merge_terms(out, a.t, a.n, 1, b.t, b.n);
}

Dim ie_sum(IntPool *p, const Dim *v, int64_t n) {
  Poly sum;
  return sum_range(&sum, v, n) ? intern_poly(p, &sum) : p->poison;
}

Dim *intpool_scratch(IntPool *p, int64_t n) {
  if (n > p->scratch_cap || !p->scratch) {
    p->scratch_cap = MAX(MAX(n, 16), 2 * p->scratch_cap);
    p->scratch = arena_array(p->arena, Dim, p->scratch_cap);
  }
  return p->scratch;
}

static bool mul_terms(const IntTerm *a, const IntTerm *b, Dim *atom, IntTerm *out) {
  int i = 0, j = 0, n = a->natoms + b->natoms;
  if (n > IE_MAX_ATOMS || !ck_mul(a->coef, b->coef, &out->coef)) return false;
  out->natoms = n;
  out->atom = atom;
  while (i + j < n) {
    bool left = j == b->natoms || (i < a->natoms && ie_order(a->atom[i], b->atom[j]) <= 0);
    *atom++ = left ? a->atom[i++] : b->atom[j++];
  }
  return true;
}

// The fewer terms go outside; the rule is symmetric, so that a*b and b*a meet a limit together.
Dim ie_mul(IntPool *p, Dim a, Dim b) {
  if (either_poison(a, b)) return p->poison;
  if (a->nterms > b->nterms || (a->nterms == b->nterms && ie_order(a, b) > 0)) {
    Dim t = a;
    a = b;
    b = t;
  }
  int64_t pairs = (int64_t)a->nterms * b->nterms, natoms = 0;
  if (pairs > IE_MAX_PAIRS) return p->poison;
  for (int i = 0; i < a->nterms; i++) natoms += (int64_t)a->term[i].natoms * b->nterms;
  for (int i = 0; i < b->nterms; i++) natoms += (int64_t)b->term[i].natoms * a->nterms;
  Dim *atom = intpool_scratch(p, natoms);
  Poly sums[2], row;
  int now = 0;
  sums[0].n = 0;
  for (int i = 0; i < a->nterms; i++, now = !now) {
    for (row.n = 0; row.n < b->nterms; row.n++) {
      IntTerm *t = &row.t[row.n];
      if (!mul_terms(&a->term[i], &b->term[row.n], atom, t)) return p->poison;
      atom += t->natoms;
    }
    if (!merge_terms(&sums[!now], sums[now].t, sums[now].n, 1, row.t, row.n)) return p->poison;
  }
  return intern_poly(p, &sums[now]);
}

// ---- questions ----
bool ie_has_fresh(Dim a) {
  if (a->kind == IE_SYM) return a->fresh;
  if (a->kind == IE_CONST || a->kind == IE_POISON) return false;
  if (a->kind != IE_SUM) return ie_has_fresh(a->a) || ie_has_fresh(a->b);
  for (int i = 0; i < a->nterms; i++)
    for (int j = 0; j < a->term[i].natoms; j++)
      if (ie_has_fresh(a->term[i].atom[j])) return true;
  return false;
}
