// value.c -- tensors, sequences, optionals and maps of one run.
//
// Every value is in its run's doubly linked list, so that run_deinit finds what an early exit left
// behind.  Values are made and released on the run's own thread only, never inside parallel_for.
//
// Guarantees: live_bytes is what the allocator gave for the list and never passes max_bytes;
//             releasing nests to any depth.
#include "eval/value.h"

#include "base/budget.h"

#include <stdio.h>

enum { DATA_ALIGN = 64 };

// ---- shapes ----

int64_t elem_bytes(DType t) { return dtype_bits(t) / 8; }

bool shape_count(int rank, const int64_t *dims, int64_t *out) {
  int64_t n = 1;
  bool zero = false;
  *out = 0;
  // Beside a 0 the others must fit as well: then no product of some of them overflows.
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0 || !ck_mul(n, MAX(dims[i], 1), &n)) return false;
    if (dims[i] == 0) zero = true;
  }
  *out = zero ? 0 : n;
  return true;
}

void shape_strides(int rank, const int64_t *dims, int64_t *out) {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    out[i] = stride;
    if (!ck_mul(stride, dims[i], &stride)) stride = 0;  // beside a 0, where no element is reached
  }
}

ShapeText shape_text(int rank, const int64_t *dims) {
  ShapeText t;
  int at = snprintf(t.s, sizeof(t.s), "[");
  for (int i = 0; i < rank && i < MAX_RANK; i++)
    at += snprintf(t.s + at, sizeof(t.s) - (size_t)at, i ? ", %lld" : "%lld", (long long)dims[i]);
  snprintf(t.s + at, sizeof(t.s) - (size_t)at, "]");
  return t;
}

void copy_elems(DType t, void *dst, int64_t di, const void *src, int64_t si, int64_t n) {
  int bits = dtype_bits(t);
  if (n <= 0) return;
  if (bits >= 8) {
    int64_t b = bits / 8;
    memmove((char *)dst + di * b, (const char *)src + si * b, (size_t)(n * b));
    return;
  }
  CHECK(bits > 0, "copy of dtype %d", (int)t);
  int per = 8 / bits;
  unsigned mask = (1u << bits) - 1;
  uint8_t *d = dst;
  const uint8_t *s = src;
  if (di % per == 0 && si % per == 0) {
    memmove(d + di / per, s + si / per, (size_t)(n / per));
    int64_t done = n / per * per;
    di += done, si += done, n -= done;
  }
  for (; n > 0; di++, si++, n--) {
    int to = (int)(di % per) * bits;
    unsigned v = (unsigned)s[si / per] >> ((int)(si % per) * bits) & mask;
    d[di / per] = (uint8_t)((d[di / per] & ~(mask << to)) | v << to);
  }
}

// ---- runs ----

void run_init(Run *r, Pool *pool, Diag *d) {
  *r = (Run){.pool = pool, .diag = d, .budget = -1, .ops_budget = -1};
  arena_init(&r->strings);
  arena_init(&r->scratch);
}

void run_keep_init(RunKeep *k) {
  *k = (RunKeep){0};
  arena_alloc(&k->scratch, 1);  // so that the mark is inside a chunk, which then stays
  k->base = arena_mark(&k->scratch);
}

void run_keep_deinit(RunKeep *k) {
  while (k->spare) {
    Value *v = k->spare;
    k->spare = v->next;
    mem_free(v, (int64_t)sizeof(*v));
  }
  arena_deinit(&k->scratch);
}

void run_init_keeping(Run *r, RunKeep *k, Diag *d) {
  run_init(r, NULL, d);
  r->keep = k;
  r->scratch = k->scratch;
  arena_init(&k->scratch);
}

// Under AddressSanitizer none is kept, so that it sees who uses a value that is gone.
static bool keep_value(RunKeep *k, Value *v) {
#ifdef UNDER_ASAN
  enum { MOST = 0 };
#else
  enum { MOST = 256 };
#endif
  if (!k || k->nspare >= MOST) return false;
  *v = (Value){.next = k->spare};
  k->spare = v;
  k->nspare++;
  return true;
}

static Value *take_value(RunKeep *k) {
  if (!k || !k->spare) return mem_alloc((int64_t)sizeof(Value));
  Value *v = k->spare;
  k->spare = v->next;
  k->nspare--;
  v->next = NULL;
  return v;
}

// What is asked of the allocator for `bytes` of data: whole cache lines, never nothing.
static int64_t block_bytes(int64_t bytes) {
  return bytes ? (bytes + DATA_ALIGN - 1) & ~(int64_t)(DATA_ALIGN - 1) : DATA_ALIGN;
}

// What a value takes for its data, and for its items.
static int64_t data_taken(const Value *v) {
  return v->owns_data ? mem_taken(block_bytes(v->data_bytes)) : 0;
}
static int64_t items_taken(const Value *v) {
  return v->items_bytes ? mem_taken(v->items_bytes) : 0;
}

// Frees one value and what it owns; its items and owner are the caller's business.
static void free_value(Value *v) {
  Run *r = v->run;
  if (v->prev)
    v->prev->next = v->next;
  else
    r->values = v->next;
  if (v->next) v->next->prev = v->prev;
  r->live_bytes -= mem_taken((int64_t)sizeof(*v)) + data_taken(v) + items_taken(v);
  if (v->owns_data) mem_free(v->data, block_bytes(v->data_bytes));
  mem_free(v->items, v->items_bytes);
  if (!keep_value(r->keep, v)) mem_free(v, (int64_t)sizeof(*v));
}

void run_deinit(Run *r) {
  while (r->values) free_value(r->values);
  arena_deinit(&r->strings);
  if (!r->keep) {
    arena_deinit(&r->scratch);
    return;
  }
  arena_reset(&r->scratch, r->keep->base);
  r->scratch.limit = 0;
  r->keep->scratch = r->scratch;
}

Str run_string(Run *r, Str s) { return (Str){str_copy(&r->strings, s), s.n}; }

// ---- values ----

// Counts `bytes` as live.  False: beyond the limit.
static bool charge(Run *r, int64_t bytes) {
  int64_t live;
  if (!ck_add(r->live_bytes, bytes, &live) || (r->max_bytes && live > r->max_bytes)) return false;
  r->live_bytes = live;
  r->peak_bytes = MAX(r->peak_bytes, live);
  return true;
}

tenon_status run_over_limit(Run *r, Where at, const char *what, int64_t bytes) {
  r->over_limit = true;
  return fail(r->diag, TENON_ENOMEM, at,
              "%s: %lld bytes, and %lld of the memory limit of %lld bytes are left", what,
              (long long)bytes, (long long)MAX(r->max_bytes - r->live_bytes, 0),
              (long long)r->max_bytes);
}

static tenon_status new_value(Run *r, Where at, ValueKind kind, Value **out) {
  int64_t bytes = mem_taken((int64_t)sizeof(Value));
  *out = NULL;
  if (!charge(r, bytes)) return run_over_limit(r, at, "one more value is too much", bytes);
  Value *v = take_value(r->keep);
  if (!v) {
    r->live_bytes -= bytes;
    return fail(r->diag, TENON_ENOMEM, at, "out of memory");
  }
  *out = v;
  v->kind = (uint8_t)kind;
  v->run = r;
  v->refs = 1;
  v->next = r->values;
  if (v->next) v->next->prev = v;
  r->values = v;
  return TENON_OK;
}

// A tensor value without data; sets n and data_bytes.
static tenon_status new_tensor(Run *r, Where at, DType t, int rank, const int64_t *dims,
                               Value **out) {
  int64_t n, bytes;
  *out = NULL;
  if (!dtype_valid(t)) return fail(r->diag, TENON_EINVAL, at, "%d is not a dtype", (int)t);
  if (rank < 0 || rank > MAX_RANK)
    return fail(r->diag, TENON_EINVAL, at, "rank %d is beyond the limit of %d", rank, MAX_RANK);
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0)
      return fail(r->diag, TENON_EINVAL, at, "result %s%s has a negative dimension", dtype_name(t),
                  shape_text(rank, dims).s);
  if (!shape_count(rank, dims, &n) || !dtype_bytes(t, n, &bytes) || bytes > INT64_MAX - DATA_ALIGN)
    return fail(r->diag, TENON_EINVAL, at, "result %s%s is too large", dtype_name(t),
                shape_text(rank, dims).s);
  TRY(new_value(r, at, VK_TENSOR, out));
  Value *v = *out;
  v->dtype = t;
  v->rank = rank;
  if (rank) memcpy(v->dims, dims, (size_t)rank * sizeof(*dims));
  v->n = n;
  v->data_bytes = bytes;
  return TENON_OK;
}

tenon_status value_tensor(Run *r, Where at, DType t, int rank, const int64_t *dims, Value **out) {
  TRY(new_tensor(r, at, t, rank, dims, out));
  Value *v = *out;
  int64_t bytes = mem_taken(block_bytes(v->data_bytes));
  bool within = charge(r, bytes);
  if (within) {
    v->data = mem_alloc(block_bytes(v->data_bytes));
    v->owns_data = true;
    if (v->data) return TENON_OK;
  }
  char what[64 + sizeof(ShapeText)];
  // Written before the value goes: `dims` may be its own.
  snprintf(what, sizeof what, "result %s%s is too large", dtype_name(t), shape_text(rank, dims).s);
  tenon_status s = within ? fail(r->diag, TENON_ENOMEM, at, "%s: out of memory", what)
                          : run_over_limit(r, at, what, bytes);
  *out = NULL;
  free_value(v);
  return s;
}

tenon_status value_borrow(Run *r, DType t, int rank, const int64_t *dims, const void *data,
                          Value **out) {
  TRY(new_tensor(r, NOWHERE, t, rank, dims, out));
  (*out)->data = (void *)data;  // no op writes to its inputs
  return TENON_OK;
}

tenon_status value_alias(Run *r, Value *v, int rank, const int64_t *dims, Value **out) {
  TRY(new_tensor(r, NOWHERE, v->dtype, rank, dims, out));
  (*out)->data = v->data;
  (*out)->owner = value_retain(v->owner ? v->owner : v);
  return TENON_OK;
}

void *value_take_data(Value *v, int64_t *out_bytes) {
  *out_bytes = 0;
  if (v->kind != VK_TENSOR || !v->owns_data || v->refs != 1) return NULL;
  v->run->live_bytes -= data_taken(v);
  v->owns_data = false;
  *out_bytes = block_bytes(v->data_bytes);
  return v->data;
}

tenon_status value_sequence(Run *r, DType elem, int64_t n, Value **out) {
  TRY(new_value(r, NOWHERE, VK_SEQUENCE, out));
  Value *v = *out;
  int64_t bytes = 0;
  bool counts = n >= 0 && ck_mul(n, (int64_t)sizeof(Value *), &bytes);
  bool within = counts && charge(r, bytes ? mem_taken(bytes) : 0), ok = within;
  v->elem_dtype = elem;
  if (ok) {
    v->items_bytes = bytes;
    if (bytes) v->items = mem_alloc(bytes);
    ok = v->items || !bytes;
  }
  v->nitems = ok ? n : 0;
  if (ok) return TENON_OK;
  *out = NULL;
  free_value(v);
  char what[64];
  snprintf(what, sizeof what, "a sequence of %lld items is too large", (long long)n);
  return counts && !within ? run_over_limit(r, NOWHERE, what, bytes)
                           : fail(r->diag, TENON_ENOMEM, NOWHERE, "%s", what);
}

tenon_status value_optional(Run *r, DType elem, Value *item_or_null, Value **out) {
  TRY(value_sequence(r, elem, item_or_null ? 1 : 0, out));
  (*out)->kind = VK_OPTIONAL;
  if (item_or_null) (*out)->items[0] = value_retain(item_or_null);
  return TENON_OK;
}

tenon_status value_map(Run *r, Value *keys, Value *values, Value **out) {
  TRY(value_sequence(r, TENON_DTYPE_NONE, 2, out));
  (*out)->kind = VK_MAP;
  (*out)->items[0] = value_retain(keys);
  (*out)->items[1] = value_retain(values);
  return TENON_OK;
}

Value *value_retain(const Value *v) {
  Value *w = (Value *)v;
  if (w && w->run) w->refs++;
  return w;
}

// Puts a value whose last reference went on the list of those to be freed (through `owner` of a
// value that has none any more: its own owner has been taken over by then).
static void drop(Value *v, Value **dead) {
  if (!v || !v->run) return;
  CHECK(v->refs > 0, "value released once too often");
  if (--v->refs) return;
  Value *owner = v->owner;
  v->owner = *dead;
  *dead = v;
  // An owner is never an alias itself, so this ends after one step.
  if (owner) drop(owner, dead);
}

void value_release(Value *v) {
  Value *dead = NULL;
  drop(v, &dead);
  while (dead) {
    Value *d = dead;
    dead = d->owner;
    for (int64_t i = 0; i < d->nitems; i++) drop(d->items[i], &dead);
    free_value(d);
  }
}
