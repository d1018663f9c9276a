// cache.c -- the files of the cache (cache.h).
//
// A file is a header, the key and the code, with one CRC32C over all of it.  It is not synced, since there are many and each would
// wait for the disk: after a loss of power it may be short or empty, which reading notices.
//
// Whoever can write to the cache can run code as its user.  So a folder or a file that belongs to another user, or that others may
// write to, is not used; the rights are those of the open folder and the open file, so that nothing can be put in their place
// after the check.
#include "base/cache.h"

#include "base/crc.h"
#include "base/notice.h"

#include <errno.h>
#include <stdatomic.h>
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

// The folders that it makes are for their user alone.
int cache_make(const char *folder) {
  enum { MODE = 0700 };
  char path[PATH_CAP];
  int64_t n = (int64_t)strlen(folder);
  if (n >= PATH_CAP) return ENAMETOOLONG;
  memcpy(path, folder, (size_t)n + 1);
  if (!platform->make_folder(path, MODE)) return 0;
  for (int64_t i = 1; i < n; i++) {
    if (path[i] != '/') continue;
    path[i] = 0;
    platform->make_folder(path, MODE);  // the last one tells whether all are there
    path[i] = '/';
  }
  return platform->make_folder(path, MODE);
}

static bool path_of(const char *folder, const char *name, char *out) {
  int n = snprintf(out, PATH_CAP, "%s/%s", folder, name);
  return n > 0 && n < PATH_CAP;
}

typedef struct FileName {
  char s[64];
} FileName;
static FileName name_of(Str key) {
  FileName n;
  snprintf(n.s, sizeof n.s, "%016llx%016llx%s", (unsigned long long)hash_bytes(key.p, key.n, 1),
           (unsigned long long)hash_bytes(key.p, key.n, 0x9e3779b97f4a7c15u), ending);
  return n;
}

// ---- whose it is ----

static bool is_ours_alone(const FileInfo *i) {
  enum { WRITE_BY_OTHERS = 022 };
  return i->owner == platform->user() && !(i->mode & WRITE_BY_OTHERS);
}

static void say_folder_not_used(const char *folder, const FileInfo *i) {
  if (i->owner != platform->user())
    notice_add("the cache %s is not used: it belongs to user %lld, not to user %lld; set "
               "TENON_CACHE to a folder of your own, or, to keep this one: chown -R %lld '%s'",
               folder, (long long)i->owner, (long long)platform->user(),
               (long long)platform->user(), folder);
  else
    notice_add("the cache %s is not used: other users may write to it (mode %04o); run: chmod go-w "
               "'%s' && tenon cache clear",
               folder, (unsigned)i->mode, folder);
}

// Which of them does not matter: there may be thousands.
static void say_file_not_used(const char *folder) {
  notice_add("files of the cache %s are not used: they belong to another user, or others may write "
             "to them; run: tenon cache clear",
             folder);
}

// 0 and the open folder, or an errno value; EPERM: it is not ours alone.
static int open_trusted(const char *folder, int *out_fd) {
  FileInfo info;
  int err = platform->open_folder(folder, out_fd);
  if (err) return err;
  err = platform->info_of(*out_fd, &info);
  if (!err && !is_ours_alone(&info)) {
    say_folder_not_used(folder, &info);
    err = EPERM;
  }
  if (err) platform->close(*out_fd);
  return err;
}

bool cache_usable(const char *folder) {
  int fd;
  if (open_trusted(folder, &fd)) return false;
  platform->close(fd);
  return true;
}

static bool map_trusted(int dir, const char *folder, const char *name, File *out) {
  static _Thread_local Diag quiet;
  FileInfo info;
  int64_t size;
  int fd, err = platform->open_in(dir, name, &fd, &size);
  if (err == EINVAL) say_file_not_used(folder);  // a link, a device
  if (err) return false;
  bool ok = !platform->info_of(fd, &info);
  if (ok && !is_ours_alone(&info)) {
    say_file_not_used(folder);
    ok = false;
  }
  diag_init(&quiet);
  ok = ok && !file_map(fd, size, name, out, &quiet);
  platform->close(fd);
  return ok;
}

bool cache_open(const char *folder, const char *name, File *out) {
  int dir;
  if (open_trusted(folder, &dir)) return false;
  bool ok = map_trusted(dir, folder, name, out);
  platform->close(dir);
  return ok;
}

bool cache_write(const char *folder, const char *name, const Str *part, int nparts) {
  static _Thread_local Diag quiet;
  char path[PATH_CAP];
  diag_init(&quiet);
  if (cache_make(folder) || !cache_usable(folder) || !path_of(folder, name, path)) return false;
  return !file_write_as(path, part, nparts, WRITE_PRIVATE | WRITE_CACHED, &quiet);
}

// ---- one file ----

static uint32_t file_crc(const Header *h, const uint8_t *rest, int64_t n) {
  Header zero = *h;
  zero.crc = 0;
  return crc32c(crc32c(0, &zero, sizeof zero), rest, n);
}

// False: it is none, damaged, or not to be trusted.
static bool open_file(const char *folder, const char *name, File *f, Header *h) {
  int64_t total;
  if (!cache_open(folder, name, f)) return false;
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
  FileName name = name_of(key);
  if (!path_of(folder, name.s, path) || !open_file(folder, name.s, file, &h)) return false;
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
  Header h = {.version = CACHE_VERSION, .key_bytes = key.n, .code_bytes = code.n, .entry = entry};
  memcpy(h.magic, magic, sizeof magic);
  h.crc = crc32c(crc32c(crc32c(0, &h, sizeof h), key.p, key.n), code.p, code.n);
  const Str part[] = {{(const char *)&h, sizeof h}, key, code};
  return cache_write(folder, name_of(key).s, part, ARRAY_LEN(part));
}

// ---- the folder ----

typedef struct Scan {
  const char *folder;
  bool check;
  int64_t now;
  Arena *arena;
  VEC(CacheFile) file;
  int64_t nstray;
  tenon_status status;
} Scan;

static void scan_one(Scan *s, const char *name, int64_t bytes, int64_t seconds) {
  CacheFile c = {.bytes = bytes, .seconds = MAX(s->now - seconds, 0), .whole = true};
  if (strlen(name) >= sizeof c.name) return;
  memcpy(c.name, name, strlen(name) + 1);
  s->nstray += file_is_temporary(name);
  if (!str_ends(str_of(name), ending)) return;  // not ours
  File f;
  Header h;
  if (s->check && (c.whole = open_file(s->folder, name, &f, &h))) file_close(&f);
  vec_push(s->arena, &s->file, c);
}

// The folder is open while its files are listed, so a raised error ends here.
static void scan_file(void *ctx, const char *name, int64_t bytes, int64_t seconds) {
  static _Thread_local Diag quiet;
  Scan *s = ctx;
  Trap t;
  diag_init(&quiet);
  trap_enter(&t, &quiet);
  if (setjmp(t.env) == 0) {
    scan_one(s, name, bytes, seconds);
    t.status = TENON_OK;
  }
  trap_leave(&t);
  if (t.status) s->status = t.status;
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
  if (s->status)
    return fail(d, s->status, (Where){.file = s->folder}, "cannot list the cache: out of memory");
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

void cache_tidy(const char *folder) {
  enum { SECONDS = 10 };
  static atomic_int_least64_t last_time;
  static atomic_uint_least64_t last_folder;
  uint64_t which = hash_bytes(folder, (int64_t)strlen(folder), 1);
  int64_t now = platform->now(), last = atomic_load(&last_time);
  bool same = atomic_exchange(&last_folder, which) == which;
  if (same && last && now - last < (int64_t)SECONDS * 1000000000) return;
  atomic_store(&last_time, now);
  static _Thread_local Diag quiet;
  CachePruned pruned;
  Arena a;
  Trap t;
  diag_init(&quiet);
  arena_init(&a);
  trap_enter(&t, &quiet);
  if (setjmp(t.env) == 0) t.status = cache_prune(folder, cache_limit(), &a, &quiet, &pruned);
  trap_leave(&t);
  arena_deinit(&a);
}
