// temp_folder.c -- a folder for what another program writes (platform.h).
//
// A C compiler writes its output under a name that it is given, and replaces what is there.  So it
// gets names in a folder that only this user can enter, and whoever asked for it takes the finished
// file from there.
//
// The folder holds a file that its owner has locked, as file_write's temporary files are.  A folder
// whose lock can be taken belongs to nobody: its owner was killed.  The next one that is made
// removes it.  All its files have names of a form of their own, and no others are removed: so
// nobody who puts a link in the way can have another file removed.
#include "base/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 100, PRIVATE = 0700, OTHERS = 0077 };

#define AGAIN(err, call)                                                                           \
  do (err) = (call);                                                                               \
  while ((err) == EINTR)

// A file of a folder is called .tenon-file-N; 0 is its lock.
static const char file_head[] = ".tenon-file-";
static bool path_in(const char *folder, int id, char *out, int64_t cap) {
  int n = snprintf(out, (size_t)cap, "%s/%s%d", folder, file_head, id);
  return n >= 0 && n < cap;
}
static bool is_file_name(const char *name) {
  const char *digits = name + sizeof file_head - 1;
  return str_starts(str_of(name), file_head) && *digits && !digits[strspn(digits, "0123456789")];
}

const char *temp_folder_file(const TempFolder *f, int id, Arena *a) {
  char path[TEMP_PATH + 32];
  bool fits = id > 0 && path_in(f->path, id, path, sizeof path);
  CHECK(fits, "no file %d of a temporary folder", id);
  return str_copy(a, str_of(path));
}

// ---- removing ----

static void remove_name(void *ctx, const char *name) {
  char path[TEMP_PATH + 256];
  int n = snprintf(path, sizeof path, "%s/%s", (const char *)ctx, name), err;
  if (is_file_name(name) && n >= 0 && n < (int)sizeof path) AGAIN(err, platform->unlink(path));
}

static void remove_all(const char *folder) {
  int err;
  (void)platform->names(folder, remove_name, (void *)(uintptr_t)folder);
  AGAIN(err, platform->remove_folder(folder));
}

static void sweep_name(void *ctx, const char *name) {
  char path[TEMP_PATH], lock[TEMP_PATH + 32];
  FileInfo info;
  int err, fd, n = snprintf(path, sizeof path, "%s/%s", (const char *)ctx, name);
  if (!file_is_temporary(name) || n < 0 || n >= (int)sizeof path) return;
  if (!path_in(path, 0, lock, sizeof lock)) return;
  AGAIN(err, platform->open_write(lock, false, &fd));
  if (err == ENOENT) (void)platform->remove_folder(path);  // its owner had no time for more
  if (err) return;
  AGAIN(err, platform->info_of(fd, &info));
  if (!err && info.regular && info.owner == platform->user()) {
    AGAIN(err, platform->lock(fd));
    if (!err) remove_all(path);
  }
  platform->close(fd);
}

void temp_folder_free(TempFolder *f) {
  if (!f->path[0]) return;
  remove_all(f->path);
  platform->close(f->fd);
  f->path[0] = 0;
}

// ---- making ----

// Between its creation and its lock a folder looks like one that was left; then another name is
// taken.
static int make_once(const char *where, TempFolder *f) {
  char lock[TEMP_PATH + 32];
  FileInfo info;
  int err;
  int n = snprintf(f->path, sizeof f->path, "%s/.tenon-%016llx.tmp", where,
                   (unsigned long long)platform->random_u64());
  if (n < 0 || n >= (int)sizeof f->path) return ENAMETOOLONG;
  AGAIN(err, platform->make_folder(f->path, PRIVATE));
  if (!err) AGAIN(err, platform->info(f->path, &info));
  if (err) return err;
  if (!info.folder || info.owner != platform->user() || info.mode & OTHERS) return EEXIST;
  if (!path_in(f->path, 0, lock, sizeof lock)) return ENAMETOOLONG;
  AGAIN(err, platform->create(lock, 0600, &f->fd));
  if (err) {
    (void)platform->remove_folder(f->path);
    return err;
  }
  AGAIN(err, platform->lock(f->fd));
  bool taken = err == EWOULDBLOCK;  // by one that removes it
  AGAIN(err, platform->info_of(f->fd, &info));
  if (!err && !taken && info.links > 0) return 0;
  platform->close(f->fd);
  return err ? err : ENOENT;
}

tenon_status temp_folder_make(TempFolder *f, Diag *d) {
  const char *given = getenv("TMPDIR"), *where = given && *given ? given : "/tmp";
  int err = EEXIST;
  (void)platform->names(where, sweep_name, (void *)(uintptr_t)where);
  for (int i = 0; i < TRIES && (err == EEXIST || (err == ENOENT && i < TRIES / 10)); i++)
    err = make_once(where, f);
  if (!err) return TENON_OK;
  f->path[0] = 0;
  return fail(d, err == ENOMEM ? TENON_ENOMEM : TENON_EIO, (Where){.file = where},
              "a temporary folder cannot be made: %s", error_text(err).s);
}
