// npz.c -- reads and writes .npz files: zip archives of .npy members.
#include "base/npy.h"

#include "base/platform.h"
#include "base/zip.h"

static tenon_status read_archive(Arena *a, Str bytes, bool mapped, Diag *d, NdArrayList *out) {
  *out = (NdArrayList){0};
  Zip z;
  TRY(zip_open(a, bytes, ZIP_LIMITS, d, &z));
  z.mapped = mapped;
  out->v = arena_array(a, NdArray, z.n);
  for (int64_t i = 0; i < z.n; i++) {
    const ZipEntry *e = &z.entry[i];
    if (!str_ends(e->name, ".npy"))
      return fail(d, TENON_EFORMAT, (Where){.offset = e->header, .has_offset = true},
                  "npz: '%.*s' is not an .npy member", STR_ARG(e->name));
    Str member;
    TRY(zip_extract(a, &z, e, d, &member));
    Where outer = d->base;
    const char *label = str_printf(a, "%s(%.*s)", outer.file ? outer.file : "", STR_ARG(e->name));
    d->base.file = label;
    tenon_status s = npy_read_where(a, member, mapped, d, &out->v[i]);
    d->base = outer;
    TRY(s);
    out->v[i].name = (Str){e->name.p, e->name.n - 4};
    out->n++;
  }
  return TENON_OK;
}

tenon_status npz_read(Arena *a, Str bytes, Diag *d, NdArrayList *out) {
  return read_archive(a, bytes, false, d, out);
}

static tenon_status read_either(Arena *a, Str bytes, bool mapped, Diag *d, NdArrayList *out) {
  *out = (NdArrayList){0};
  if (bytes.n >= 2 && !memcmp(bytes.p, "PK", 2)) return read_archive(a, bytes, mapped, d, out);
  out->v = arena_new(a, NdArray);
  TRY(npy_read_where(a, bytes, mapped, d, out->v));
  out->n = 1;
  return TENON_OK;
}

tenon_status nd_read(Arena *a, Str bytes, Diag *d, NdArrayList *out) {
  return read_either(a, bytes, false, d, out);
}

tenon_status nd_read_mapped(Arena *a, Str bytes, Diag *d, NdArrayList *out) {
  return read_either(a, bytes, true, d, out);
}

// The archive is laid out in one block of known capacity; pages that stay unused cost nothing.
typedef struct Block {
  char *p;
  int64_t n, cap;
} Block;

static tenon_status put_block(void *ctx, const void *p, int64_t n, Diag *d) {
  (void)d;
  Block *b = ctx;
  CHECK(n <= b->cap - b->n, "the archive is larger than its bound");
  memcpy(b->p + b->n, p, (size_t)n);
  b->n += n;
  return TENON_OK;
}

static tenon_status put_arrays(Arena *a, const NdArray *v, int64_t n, bool deflated, Diag *d,
                               Block *out) {
  Str *parts = arena_array(a, Str, 2 * n);
  int64_t cap = 1024;
  for (int64_t i = 0; i < n; i++) {
    TRY(npy_parts(a, &v[i], &parts[2 * i], &parts[2 * i + 1], d));
    int64_t size = parts[2 * i].n + parts[2 * i + 1].n;
    // Both headers with their extra fields, the name twice, and what deflate may add.
    if (!ck_add(cap, size + (size >> 11) + 2 * v[i].name.n + 2048, &cap))
      return fail(d, TENON_EINVAL, NOWHERE, "the archive is too large to write");
  }
  *out = (Block){.p = arena_alloc(a, cap), .cap = cap};
  ZipWriter w;
  zip_begin(&w, a, put_block, out);
  for (int64_t i = 0; i < n; i++) {
    const char *name = str_printf(a, "%.*s.npy", (int)MIN(v[i].name.n, 65000), v[i].name.p);
    TRY(zip_add(&w, str_of(name), 2, &parts[2 * i], deflated, d));
  }
  return zip_end(&w, d);
}

tenon_status npz_write(const char *path, const NdArray *v, int64_t n, bool deflated, Diag *d) {
  Arena arena;
  Trap t;
  arena_init(&arena);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    Block b;
    t.status = put_arrays(&arena, v, n, deflated, d, &b);
    if (!t.status) t.status = file_write(path, b.p, b.n, d);
  }
  trap_leave(&t);
  arena_deinit(&arena);
  return t.status;
}
