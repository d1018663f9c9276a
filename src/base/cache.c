// cache.c -- the files of the cache (cache.h).
//
// A file is a header, the key and the code, with one CRC32C over all of it.  It is not synced,
// since there are many and each would wait for the disk: after a loss of power it may be short or
// empty, which reading notices.
//
// Whoever can write to the cache can run code as its user.  So a folder or a file that belongs to
// another user, or that others may write to, is not used; the rights are those of the open folder
// and the open file, so that nothing can be put in their place after the check.
#include "base/cache_impl.h"

#include "base/crc.h"
#include "base/notice.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_CAP = 4096 };
static const struct {
  char magic[8];
  const char *ending;  // of the name
} kinds[CACHE_KINDS] = {
    [CACHE_KERNEL] = {{'\x89', 'T', 'N', 'K', 'E', 'R', 'N', '\n'}, ".kernel"},
    [CACHE_PROGRAM] = {{'\x89', 'T', 'N', 'P', 'R', 'O', 'G', '\n'}, ".program"},
};

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

int64_t cache_program_limit(void) { return cache_limit() / 8; }

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

CacheName cache_name(CacheKind kind, Str key) {
  CacheName n;
  snprintf(n.s, sizeof n.s, "%016llx%016llx%s", (unsigned long long)hash_bytes(key.p, key.n, 1),
           (unsigned long long)hash_bytes(key.p, key.n, 0x9e3779b97f4a7c15u), kinds[kind].ending);
  return n;
}

void cache_put_maker(StrBuf *key, const CacheMaker *m) {
  strbuf_put(key, m->maker);
  strbuf_putc(key, '\n');
  strbuf_put(key, m->machine);
  strbuf_putc(key, '\n');
  if (!m->compiler.n) return;
  strbuf_put(key, m->compiler);
  strbuf_putc(key, '\n');
}

// ---- whose it is ----

// `shared`: of TENON_CACHE_PATH, where root's are as good as our own.
static bool is_trusted(const FileInfo *i, bool shared) {
  enum { WRITE_BY_OTHERS = 022, ROOT = 0 };
  bool owner = i->owner == platform->user() || (shared && i->owner == ROOT);
  return owner && !(i->mode & WRITE_BY_OTHERS);
}

static void say_folder_not_used(const char *folder, const FileInfo *i, bool shared) {
  if (shared)
    notice_add("the folder %s of TENON_CACHE_PATH is not used: it must belong to root or to user "
               "%lld, and nobody else may write to it (owner %lld, mode %04o)",
               folder, (long long)platform->user(), (long long)i->owner, (unsigned)i->mode);
  else if (i->owner != platform->user())
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
static int open_trusted(const char *folder, bool shared, int *out_fd) {
  FileInfo info;
  int err = platform->open_folder(folder, out_fd);
  if (err) return err;
  err = platform->info_of(*out_fd, &info);
  if (!err && !is_trusted(&info, shared)) {
    say_folder_not_used(folder, &info, shared);
    err = EPERM;
  }
  if (err) platform->close(*out_fd);
  return err;
}

bool cache_usable(const char *folder) {
  int fd;
  if (open_trusted(folder, false, &fd)) return false;
  platform->close(fd);
  return true;
}

static bool map_trusted(int dir, const char *folder, const char *name, bool shared, File *out) {
  Diag *quiet = diag_unread();
  FileInfo info;
  int64_t size;
  int fd, err = platform->open_in(dir, name, &fd, &size);
  if (err == EINVAL) say_file_not_used(folder);  // a link, a device
  if (err) return false;
  bool ok = !platform->info_of(fd, &info);
  if (ok && !is_trusted(&info, shared)) {
    say_file_not_used(folder);
    ok = false;
  }
  ok = ok && !file_map(fd, size, name, out, quiet);
  platform->close(fd);
  return ok;
}

static bool open_in_folder(const char *folder, const char *name, bool shared, File *out) {
  int dir;
  if (open_trusted(folder, shared, &dir)) return false;
  bool ok = map_trusted(dir, folder, name, shared, out);
  platform->close(dir);
  return ok;
}

bool cache_open(const char *folder, const char *name, File *out) {
  return open_in_folder(folder, name, false, out);
}

bool cache_write(const char *folder, const char *name, const Str *part, int nparts) {
  Diag *quiet = diag_unread();
  char path[PATH_CAP];
  if (cache_make(folder) || !cache_usable(folder) || !path_of(folder, name, path)) return false;
  return !file_write_as(path, part, nparts, WRITE_PRIVATE | WRITE_CACHED, quiet);
}

// ---- one file ----

// Of what follows the header: that of a program by blocks, which is faster.
static uint32_t file_crc(const CacheHeader *h, const CacheEntry *e) {
  CacheHeader zero = *h;
  zero.crc = 0;
  uint32_t crc = crc32c(crc32c(0, &zero, sizeof zero), e->key.p, e->key.n);
  if (e->kind == CACHE_KERNEL) return crc32c(crc, e->code.p, e->code.n);
  uint32_t blocks = crc32c_blocks(e->code.p, e->code.n, NULL);
  return crc32c(crc, &blocks, sizeof blocks);
}

static bool find_kind(const CacheHeader *h, CacheKind *out) {
  for (int i = 0; i < CACHE_KINDS; i++) {
    *out = (CacheKind)i;
    if (!memcmp(h->magic, kinds[i].magic, sizeof h->magic)) return true;
  }
  return false;
}

CacheEntryKind cache_entry(Str file, CacheEntry *out) {
  CacheHeader h;
  CacheKind kind;
  int64_t total;
  if (file.n < (int64_t)sizeof h) return ENTRY_DAMAGED;
  memcpy(&h, file.p, sizeof h);
  if (!find_kind(&h, &kind)) return ENTRY_DAMAGED;
  if (h.version != CACHE_VERSION) return ENTRY_OTHER_VERSION;
  const char *rest = file.p + sizeof h;
  bool ok = h.key_bytes >= 0 && h.code_bytes >= 0 && h.entry >= 0 &&
            ck_add(h.key_bytes, h.code_bytes, &total) && total == file.n - (int64_t)sizeof h &&
            (h.entry < h.code_bytes || !h.entry);
  if (!ok) return ENTRY_DAMAGED;
  CacheEntry e = {kind, {rest, h.key_bytes}, {rest + h.key_bytes, h.code_bytes}, h.entry};
  if (file_crc(&h, &e) != h.crc) return ENTRY_DAMAGED;
  *out = e;
  return ENTRY_WHOLE;
}

// False: it is none, damaged, or not to be trusted.
static bool open_file(const char *folder, const char *name, bool shared, File *f, CacheEntry *out) {
  if (!open_in_folder(folder, name, shared, f)) return false;
  bool ok = cache_entry((Str){(const char *)f->bytes, f->size}, out) == ENTRY_WHOLE;
  if (!ok) file_close(f);
  return ok;
}

static bool find_in(const char *folder, CacheKind kind, Str key, bool shared, File *file,
                    CacheEntry *out) {
  CacheName name = cache_name(kind, key);
  if (!open_file(folder, name.s, shared, file, out)) return false;
  if (out->kind == kind && str_eq(out->key, key)) return true;
  file_close(file);
  return false;
}

static bool find_shared(CacheKind kind, Str key, File *file, CacheEntry *out) {
  const char *at = getenv("TENON_CACHE_PATH");
  while (set(at)) {
    char folder[PATH_CAP];
    size_t n = strcspn(at, ":");
    bool fits = n > 0 && n < sizeof folder;
    if (fits) {
      memcpy(folder, at, n);
      folder[n] = 0;
      if (find_in(folder, kind, key, true, file, out)) return true;
    }
    at += n + (at[n] == ':');
  }
  return false;
}

bool cache_find_entry(const char *folder, CacheKind kind, Str key, File *file, CacheEntry *out) {
  char path[PATH_CAP];
  bool own = find_in(folder, kind, key, false, file, out);
  if (!own && !find_shared(kind, key, file, out)) return false;
  if (own && path_of(folder, cache_name(kind, key).s, path)) platform->touch(path);
  return true;
}

bool cache_find(const char *folder, Str key, File *file, Str *out, int64_t *entry) {
  CacheEntry e;
  if (!cache_find_entry(folder, CACHE_KERNEL, key, file, &e)) return false;
  *out = e.code;
  *entry = e.entry;
  return true;
}

bool cache_find_program(const char *folder, Str key, File *file, Str *out) {
  CacheEntry e;
  if (!cache_find_entry(folder, CACHE_PROGRAM, key, file, &e)) return false;
  *out = e.code;
  return true;
}

bool cache_store_entry(const char *folder, const CacheEntry *e) {
  CacheHeader h = {
      .version = CACHE_VERSION, .key_bytes = e->key.n, .code_bytes = e->code.n, .entry = e->entry};
  memcpy(h.magic, kinds[e->kind].magic, sizeof h.magic);
  h.crc = file_crc(&h, e);
  const Str part[] = {{(const char *)&h, sizeof h}, e->key, e->code};
  return cache_write(folder, cache_name(e->kind, e->key).s, part, ARRAY_LEN(part));
}

bool cache_store(const char *folder, Str key, Str code, int64_t entry) {
  return cache_store_entry(folder, &(CacheEntry){CACHE_KERNEL, key, code, entry});
}

bool cache_store_program(const char *folder, Str key, Str program) {
  return cache_store_entry(folder, &(CacheEntry){CACHE_PROGRAM, key, program, 0});
}

Str cache_program(Str file) {
  CacheHeader h;
  if (file.n < (int64_t)sizeof h) return (Str){0};
  memcpy(&h, file.p, sizeof h);
  int64_t rest = file.n - (int64_t)sizeof h;
  if (memcmp(h.magic, kinds[CACHE_PROGRAM].magic, sizeof h.magic) || h.key_bytes < 0 ||
      h.key_bytes > rest)
    return (Str){0};
  return (Str){file.p + sizeof h + h.key_bytes, rest - h.key_bytes};
}

int64_t cache_offset(Str key) { return (int64_t)sizeof(CacheHeader) + key.n; }

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
  c.program = str_ends(str_of(name), kinds[CACHE_PROGRAM].ending);
  if (!c.program && !str_ends(str_of(name), kinds[CACHE_KERNEL].ending)) return;  // not ours
  File f;
  CacheEntry e;
  if (s->check && (c.whole = open_file(s->folder, name, false, &f, &e))) file_close(&f);
  vec_push(s->arena, &s->file, c);
}

// The folder is open while its files are listed, so a raised error ends here.
static void scan_file(void *ctx, const char *name, int64_t bytes, int64_t seconds) {
  Diag *quiet = diag_unread();
  Scan *s = ctx;
  Trap t;
  trap_enter(&t, quiet);
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
  for (int64_t i = 0; i < s.file.n; i++) {
    out->bytes += s.file.v[i].bytes;
    out->nprograms += s.file.v[i].program;
  }
  return TENON_OK;
}

static void remove_file(const char *folder, const CacheFile *f, CachePruned *out) {
  char path[PATH_CAP];
  if (!path_of(folder, f->name, path) || platform->unlink(path)) return;
  out->n++;
  out->bytes += f->bytes;
}

// Files of another user's folder are not removed, root's rights or not.  A folder of our own may
// hold what others put there: removing that is the remedy.
static tenon_status check_owner(const char *folder, Diag *d) {
  FileInfo info;
  int fd, err = platform->open_folder(folder, &fd);
  if (err) return TENON_OK;  // there is nothing, or scan says why not
  err = platform->info_of(fd, &info);
  platform->close(fd);
  if (!err && info.owner == platform->user()) return TENON_OK;
  if (err)
    return fail(d, TENON_EIO, (Where){.file = folder}, "cannot find out whose the cache is: %s",
                error_text(err).s);
  return fail(d, TENON_EINVAL, (Where){.file = folder},
              "nothing is removed: the folder belongs to user %lld, not to user %lld. Run this as "
              "that user, or set TENON_CACHE to a folder of your own",
              (long long)info.owner, (long long)platform->user());
}

tenon_status cache_prune(const char *folder, int64_t limit, Arena *a, Diag *d, CachePruned *out) {
  Scan s = {.folder = folder, .arena = a};
  int64_t kept = 0, programs = 0;
  *out = (CachePruned){0};
  TRY(check_owner(folder, d));
  TRY(scan(&s, d));
  for (int64_t i = 0; i < s.file.n; i++) {
    const CacheFile *f = &s.file.v[i];
    bool full = kept + f->bytes > limit || (f->program && programs + f->bytes > limit / 2);
    if (full) {
      remove_file(folder, f, out);
      continue;
    }
    kept += f->bytes;
    if (f->program) programs += f->bytes;
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
  Diag *quiet = diag_unread();
  CachePruned pruned;
  Arena a;
  Trap t;
  arena_init(&a);
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) t.status = cache_prune(folder, cache_limit(), &a, quiet, &pruned);
  trap_leave(&t);
  arena_deinit(&a);
}
