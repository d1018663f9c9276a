// cache.c -- the files of the cache (cache.h).
//
// A file is a header, the key and the code, with one CRC32C over all of it.  It is not synced, since there are many and each would
// wait for the disk: after a loss of power it may be short or empty, which reading notices.
#include "base/cache.h"

#include "base/crc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_CAP = 4096, CACHE_VERSION = 1 };
static const char magic[8] = {'\x89', 'T', 'N', 'K', 'E', 'R', 'N', '\n'};
static const char ending[] = ".kernel";

typedef struct Header {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of the file, with this field 0
  int64_t key_bytes, code_bytes, entry;
} Header;
_Static_assert(sizeof(Header) == 40, "no padding");

// ---- where ----

static bool set(const char *text) { return text && *text; }

bool cache_folder(char *out, int64_t cap) {
  const char *own = getenv("TENON_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (set(own))
    n = snprintf(out, (size_t)cap, "%s", own);
  else if (set(xdg) && xdg[0] == '/')
    n = snprintf(out, (size_t)cap, "%s/tenon", xdg);
  else if (set(home))
    n = snprintf(out, (size_t)cap, "%s/.cache/tenon", home);
  return n > 0 && n < cap;
}

int64_t cache_limit(void) {
  const char *text = getenv("TENON_CACHE_MAX");
  int64_t n;
  return set(text) && str_to_i64(str_of(text), &n) && n >= 0 ? n : CACHE_LIMIT;
}

int cache_make(const char *folder) {
  char path[PATH_CAP];
  int64_t n = (int64_t)strlen(folder);
  if (n >= PATH_CAP) return ENAMETOOLONG;
  memcpy(path, folder, (size_t)n + 1);
  if (!platform->make_folder(path)) return 0;
  for (int64_t i = 1; i < n; i++) {
    if (path[i] != '/') continue;
    path[i] = 0;
    platform->make_folder(path);  // the last one tells whether all are there
    path[i] = '/';
  }
  return platform->make_folder(path);
}

static bool path_of(const char *folder, const char *name, char *out) {
  int n = snprintf(out, PATH_CAP, "%s/%s", folder, name);
  return n > 0 && n < PATH_CAP;
}

static bool path_of_key(const char *folder, Str key, char *out) {
  char name[64];
  snprintf(name, sizeof name, "%016llx%016llx%s", (unsigned long long)hash_bytes(key.p, key.n, 1),
           (unsigned long long)hash_bytes(key.p, key.n, 0x9e3779b97f4a7c15u), ending);
  return path_of(folder, name, out);
}

// ---- one file ----

static uint32_t file_crc(const Header *h, const uint8_t *rest, int64_t n) {
  Header zero = *h;
  zero.crc = 0;
  return crc32c(crc32c(0, &zero, sizeof zero), rest, n);
}

// False: it is none, or damaged.
static bool open_file(const char *path, File *f, Header *h) {
  static _Thread_local Diag quiet;
  diag_init(&quiet);
  int64_t total;
  if (file_open(path, f, &quiet)) return false;
  bool ok = f->size >= (int64_t)sizeof *h;
  if (ok) memcpy(h, f->bytes, sizeof *h);
  ok = ok && !memcmp(h->magic, magic, sizeof magic) && h->version == CACHE_VERSION &&
       h->key_bytes >= 0 && h->code_bytes >= 0 && h->entry >= 0 &&
       ck_add(h->key_bytes, h->code_bytes, &total) && total == f->size - (int64_t)sizeof *h &&
       (h->entry < h->code_bytes || !h->entry) &&
       file_crc(h, f->bytes + sizeof *h, total) == h->crc;
  if (!ok) file_close(f);
  return ok;
}

bool cache_find(const char *folder, Str key, File *file, Str *out, int64_t *entry) {
  char path[PATH_CAP];
  Header h;
  if (!path_of_key(folder, key, path) || !open_file(path, file, &h)) return false;
  const char *rest = (const char *)file->bytes + sizeof h;
  if (!str_eq((Str){rest, h.key_bytes}, key)) {
    file_close(file);
    return false;
  }
  *out = (Str){rest + h.key_bytes, h.code_bytes};
  *entry = h.entry;
  platform->touch(path);
  return true;
}

bool cache_store(const char *folder, Str key, Str code, int64_t entry) {
  static _Thread_local Diag quiet;
  char path[PATH_CAP];
  Header h = {.version = CACHE_VERSION, .key_bytes = key.n, .code_bytes = code.n, .entry = entry};
  if (!path_of_key(folder, key, path) || cache_make(folder)) return false;
  memcpy(h.magic, magic, sizeof magic);
  h.crc = crc32c(crc32c(crc32c(0, &h, sizeof h), key.p, key.n), code.p, code.n);
  const Str part[] = {{(const char *)&h, sizeof h}, key, code};
  diag_init(&quiet);
  return !file_write_as(path, part, ARRAY_LEN(part), WRITE_PRIVATE | WRITE_CACHED, &quiet);
}

// ---- the folder ----

typedef struct Scan {
  const char *folder;
  bool check;
  int64_t now;
  Arena *arena;
  VEC(CacheFile) file;
  int64_t nstray;
} Scan;

static void scan_file(void *ctx, const char *name, int64_t bytes, int64_t seconds) {
  Scan *s = ctx;
  CacheFile c = {.bytes = bytes, .seconds = MAX(s->now - seconds, 0), .whole = true};
  char path[PATH_CAP];
  if (strlen(name) >= sizeof c.name || !path_of(s->folder, name, path)) return;
  memcpy(c.name, name, strlen(name) + 1);
  s->nstray += file_is_temporary(name);
  if (!str_ends(str_of(name), ending)) return;  // not ours
  File f;
  Header h;
  if (s->check && (c.whole = open_file(path, &f, &h))) file_close(&f);
  vec_push(s->arena, &s->file, c);
}

static int by_use(const void *a, const void *b) {
  const CacheFile *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return strcmp(x->name, y->name);
}

static tenon_status scan(Scan *s, Diag *d) {
  s->now = platform->file_time();
  int err = platform->list(s->folder, scan_file, s);
  if (err && err != ENOENT)
    return fail(d, TENON_EIO, (Where){.file = s->folder}, "cannot list the cache: %s",
                error_text(err).s);
  if (s->file.n) qsort(s->file.v, (size_t)s->file.n, sizeof *s->file.v, by_use);
  return TENON_OK;
}

tenon_status cache_list(const char *folder, bool check, Arena *a, Diag *d, CacheList *out) {
  Scan s = {.folder = folder, .check = check, .arena = a};
  *out = (CacheList){0};
  TRY(scan(&s, d));
  *out = (CacheList){.file = s.file.v, .n = s.file.n, .nstray = s.nstray};
  for (int64_t i = 0; i < s.file.n; i++) out->bytes += s.file.v[i].bytes;
  return TENON_OK;
}

static void remove_file(const char *folder, const CacheFile *f, CachePruned *out) {
  char path[PATH_CAP];
  if (!path_of(folder, f->name, path) || platform->unlink(path)) return;
  out->n++;
  out->bytes += f->bytes;
}

tenon_status cache_prune(const char *folder, int64_t limit, Arena *a, Diag *d, CachePruned *out) {
  Scan s = {.folder = folder, .arena = a};
  int64_t kept = 0;
  *out = (CachePruned){0};
  TRY(scan(&s, d));
  for (int64_t i = 0; i < s.file.n; i++) {
    kept += s.file.v[i].bytes;
    if (kept > limit) remove_file(folder, &s.file.v[i], out);
  }
  FileSwept swept = file_sweep(folder);
  out->n += swept.n;
  out->bytes += swept.bytes;
  return TENON_OK;
}
