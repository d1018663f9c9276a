// cache_archive.c -- entries of a cache in one file, to be shipped and imported (cache.h).
//
// A header with the number of entries and a CRC32C of all that follows; then each entry after its
// length, as the cache has it in a file.  The name of an entry's file follows from its key and is
// not in the archive.
//
// Needs:      nothing of an archive: it is untrusted input, and every length is checked before it
//             is used.
// Guarantees: a damaged archive imports nothing.  Equal entries in any order give one archive.
#include "base/cache_impl.h"
#include "base/crc.h"

#include <stdlib.h>

enum { ARCHIVE_VERSION = 1 };
static const char archive_magic[8] = {'\x89', 'T', 'N', 'K', 'A', 'R', 'C', '\n'};

typedef struct ArchiveHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of what follows the header
  int64_t n;
} ArchiveHeader;
_Static_assert(sizeof(ArchiveHeader) == 24, "no padding");

typedef struct Item {
  CacheName name;
  Str file;  // as it is in the cache
  CacheEntryKind kind;
  CacheEntry entry;  // of a whole one
} Item;
typedef VEC(Item) ItemList;

static int by_name(const void *a, const void *b) {
  return strcmp(((const Item *)a)->name.s, ((const Item *)b)->name.s);
}

bool cache_is_archive(Str bytes) {
  return bytes.n >= (int64_t)sizeof archive_magic &&
         !memcmp(bytes.p, archive_magic, sizeof archive_magic);
}

// ---- writing ----

static tenon_status write_archive(const char *path, ItemList *l, Arena *a, Diag *d,
                                  CacheMoved *out) {
  ArchiveHeader h = {.version = ARCHIVE_VERSION};
  memcpy(h.magic, archive_magic, sizeof archive_magic);
  if (l->n) qsort(l->v, (size_t)l->n, sizeof *l->v, by_name);
  Str *part = arena_array(a, Str, 2 * l->n + 1);
  int nparts = 1;
  for (int64_t i = 0; i < l->n; i++) {
    Item *x = &l->v[i];
    if (i && !by_name(x, &l->v[i - 1])) {
      out->there++;
      continue;
    }
    part[nparts++] = (Str){(const char *)&x->file.n, sizeof x->file.n};
    part[nparts++] = x->file;
    h.n++;
    out->nprograms += x->entry.kind == CACHE_PROGRAM;
    out->bytes += x->file.n;
  }
  out->n = h.n;
  for (int i = 1; i < nparts; i++) h.crc = crc32c(h.crc, part[i].p, part[i].n);
  part[0] = (Str){(const char *)&h, sizeof h};
  return file_write_parts(path, part, nparts, d);
}

tenon_status cache_export(const char *folder, const char *path, Arena *a, Diag *d,
                          CacheMoved *out) {
  CacheList all;
  ItemList l = {0};
  VEC(File) open = {0};
  *out = (CacheMoved){0};
  TRY(cache_list(folder, false, a, d, &all));
  for (int64_t i = 0; i < all.n; i++) {
    Item x = {0};
    File f;
    if (!cache_open(folder, all.file[i].name, &f)) continue;
    vec_push(a, &open, f);
    x.file = (Str){(const char *)f.bytes, f.size};
    if (cache_entry(x.file, &x.entry) != ENTRY_WHOLE) continue;
    x.name = cache_name(x.entry.kind, x.entry.key);
    vec_push(a, &l, x);
  }
  tenon_status s = write_archive(path, &l, a, d, out);
  for (int64_t i = 0; i < open.n; i++) file_close(&open.v[i]);
  return s;
}

// ---- reading ----

static tenon_status damaged(const char *path, const char *what, Diag *d) {
  return fail(d, TENON_EINVAL, (Where){.file = path},
              "this archive of kernels is damaged (%s); nothing was imported", what);
}

static tenon_status read_archive(const char *path, const File *f, Arena *a, Diag *d, ItemList *l) {
  ArchiveHeader h;
  const char *at = (const char *)f->bytes;
  int64_t left = f->size - (int64_t)sizeof h;
  if (left < 0 || !cache_is_archive((Str){at, f->size}))
    return fail(d, TENON_EINVAL, (Where){.file = path},
                "not an archive of kernels; `tenon cache export` writes one");
  memcpy(&h, at, sizeof h);
  at += sizeof h;
  if (h.version != ARCHIVE_VERSION)
    return fail(d, TENON_EUNSUPPORTED, (Where){.file = path},
                "an archive of version %u; this Tenon reads version %d", h.version,
                ARCHIVE_VERSION);
  if (crc32c(0, at, left) != h.crc) return damaged(path, "its checksum does not fit", d);
  if (h.n < 0 || h.n > left / (int64_t)sizeof(int64_t)) return damaged(path, "its count", d);
  for (int64_t i = 0; i < h.n; i++) {
    Item x = {0};
    if (left < (int64_t)sizeof x.file.n) return damaged(path, "it ends early", d);
    memcpy(&x.file.n, at, sizeof x.file.n);
    at += sizeof x.file.n;
    left -= (int64_t)sizeof x.file.n;
    if (x.file.n < 0 || x.file.n > left) return damaged(path, "a length", d);
    x.file.p = at;
    at += x.file.n;
    left -= x.file.n;
    x.kind = cache_entry(x.file, &x.entry);
    if (x.kind == ENTRY_DAMAGED) return damaged(path, "an entry", d);
    if (x.kind == ENTRY_WHOLE) x.name = cache_name(x.entry.kind, x.entry.key);
    vec_push(a, l, x);
  }
  return left ? damaged(path, "it goes on behind its last entry", d) : TENON_OK;
}

static Str line_of(Str *rest) {
  const char *end = rest->n ? memchr(rest->p, '\n', (size_t)rest->n) : NULL;
  Str line = {rest->p, end ? end - rest->p : rest->n};
  int64_t used = line.n + (end != NULL);
  *rest = (Str){rest->p + used, rest->n - used};
  return line;
}

// Code for devices names another maker: its driver tells whether it takes it.
static bool is_usable(const Item *x, const CacheMaker *here, CacheMoved *out) {
  Str rest = x->entry.key, maker = line_of(&rest), machine = line_of(&rest);
  Str own = here->maker, program = {own.p, 0};
  while (program.n < own.n && own.p[program.n] != ' ') program.n++;
  bool same_program = maker.n > program.n && !memcmp(maker.p, program.p, (size_t)program.n) &&
                      maker.p[program.n] == ' ';
  if (!same_program) return true;
  bool version = str_eq(maker, own), cpu = str_eq(machine, here->machine);
  if (x->entry.kind == CACHE_PROGRAM) version = version && str_eq(line_of(&rest), here->compiler);
  out->other_version += !version;
  out->other_machine += version && !cpu;
  return version && cpu;
}

static tenon_status store_all(const char *folder, const ItemList *l, const CacheMaker *here,
                              Diag *d, CacheMoved *out) {
  for (int64_t i = 0; i < l->n; i++) {
    const Item *x = &l->v[i];
    File f;
    CacheEntry known;
    out->other_version += x->kind == ENTRY_OTHER_VERSION;
    if (x->kind != ENTRY_WHOLE || !is_usable(x, here, out)) continue;
    if (cache_find_entry(folder, x->entry.kind, x->entry.key, &f, &known)) {
      file_close(&f);
      out->there++;
      continue;
    }
    if (!cache_store_entry(folder, &x->entry))
      return fail(d, TENON_EIO, (Where){.file = folder},
                  "the cache cannot be written; %lld entries were imported", (long long)out->n);
    out->n++;
    out->nprograms += x->entry.kind == CACHE_PROGRAM;
    out->bytes += x->file.n;
  }
  return TENON_OK;
}

tenon_status cache_import(const char *path, const char *folder, const CacheMaker *here, Arena *a,
                          Diag *d, CacheMoved *out) {
  File f;
  ItemList l = {0};
  *out = (CacheMoved){0};
  TRY(file_open(path, &f, d));
  tenon_status s = read_archive(path, &f, a, d, &l);
  if (!s) s = store_all(folder, &l, here, d, out);
  file_close(&f);
  if (out->n) cache_tidy(folder);
  return s;
}

tenon_status cache_merge(const char *const *from, int64_t n, const char *path, Arena *a, Diag *d,
                         CacheMoved *out) {
  ItemList l = {0};
  File *f = arena_array(a, File, MAX(n, 1));
  tenon_status s = TENON_OK;
  int64_t kept = 0;
  *out = (CacheMoved){0};
  for (int64_t i = 0; i < n && !s; i++) {
    s = file_open(from[i], &f[i], d);
    if (!s) s = read_archive(from[i], &f[i], a, d, &l);
  }
  for (int64_t i = 0; i < l.n; i++) {
    out->other_version += l.v[i].kind == ENTRY_OTHER_VERSION;
    if (l.v[i].kind == ENTRY_WHOLE) l.v[kept++] = l.v[i];
  }
  l.n = kept;
  if (!s) s = write_archive(path, &l, a, d, out);
  for (int64_t i = 0; i < n; i++) file_close(&f[i]);
  return s;
}
