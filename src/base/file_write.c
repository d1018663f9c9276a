// file_write.c -- the one writer of files.
//
// A file is written under a random name beside its target, synced and renamed; then its folder is
// synced.  The writer holds a lock on that temporary file from its creation until it has its name.
// So a temporary file that can be locked belongs to nobody: its writer was killed.  The next writer
// in the folder removes it.  Locks hold across threads, processes and containers, where process ids
// do not.
//
//   * A failure before the rename leaves the old file; after it, the new one.  No reader sees a
//     part.
//   * A link stays: the file that it leads to is replaced, or made, in that file's folder.
//   * Owner, group and mode of an old file are kept where the system lets us.  A new file gets what
//     the umask leaves.  Access control lists and further hard links are not kept.
//   * What is not a regular file (a device, a pipe), and what is open already (/dev/stdout,
//     /dev/fd/3), is written in place.
#include "base/platform.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { PATH_CAP = 4096, LINKS = 40, TRIES = 100, TEMP_NAME = 32 };
static const char temp_head[] = ".tenon-", temp_tail[] = ".tmp";

static tenon_status cannot_write(Diag *d, const char *path, int fd, int err) {
  const char *what = fd == STDOUT_FILENO ? "cannot write standard output" : "cannot write";
  if (err == ENOMEM) return fail(d, TENON_ENOMEM, (Where){.file = path}, "%s: out of memory", what);
  return fail(d, TENON_EIO, (Where){.file = path}, "%s: %s", what, error_text(err).s);
}

// A call that a signal interrupted is made again.
#define AGAIN(err, call)                                                                           \
  do (err) = (call);                                                                               \
  while ((err) == EINTR)

int fd_write(int fd, const void *p, int64_t n) {
  for (const char *at = p; n > 0;) {
    int64_t done = 0;
    int err = platform->write(fd, at, n, &done);
    if (err == EINTR) continue;
    if (err) return err;
    if (done <= 0 || done > n) return EIO;
    at += done;
    n -= done;
  }
  return 0;
}

static int write_parts(int fd, const Str *part, int nparts) {
  int err = 0;
  for (int i = 0; i < nparts && !err; i++) err = fd_write(fd, part[i].p, part[i].n);
  return err;
}

// ---- names ----

// The length of the folder in front of the last component, with its slash.
static int64_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash - path + 1 : 0;
}

static bool join(const char *folder, int64_t n, const char *name, char *out) {
  int len = snprintf(out, PATH_CAP, "%.*s%s", (int)n, folder, name);
  return len >= 0 && len < PATH_CAP;
}

bool file_is_temporary(const char *name) {
  const int64_t head = (int64_t)sizeof temp_head - 1, digits = 16;
  if (strlen(name) != (size_t)head + digits + sizeof temp_tail - 1) return false;
  if (!str_starts(str_of(name), temp_head) || !str_ends(str_of(name), temp_tail)) return false;
  return (int64_t)strspn(name + head, "0123456789abcdef") == digits;
}

// Descriptor N for a path that names what is open already, else -1.
static int open_already(const char *path) {
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"};
  int64_t n;
  if (!strcmp(path, "-")) return STDOUT_FILENO;
  for (int64_t i = 0; i < ARRAY_LEN(folders); i++)
    if (str_starts(str_of(path), folders[i]) && str_to_i64(str_of(path + strlen(folders[i])), &n) &&
        n >= 0 && n < 1 << 24)
      return (int)n;
  return -1;
}

typedef struct Target {
  char path[PATH_CAP], folder[PATH_CAP];
  int fd;      // >= 0: open already
  bool there;  // what it was is in `old`
  FileInfo old;
} Target;

// Follows links one by one, since the last may lead to a file that is not there yet.
static int find_target(const char *path, Target *t) {
  char link[PATH_CAP];
  int err = 0;
  if (!join(path, (int64_t)strlen(path), "", t->path)) return ENAMETOOLONG;
  for (int i = 0; i <= LINKS; i++) {
    if ((t->fd = open_already(t->path)) >= 0) return 0;
    AGAIN(err, platform->read_link(t->path, link, sizeof link));
    if (err == EINVAL || err == ENOENT) break;
    if (err) return err;
    if (i == LINKS) return ELOOP;
    char from[PATH_CAP];
    memcpy(from, t->path, sizeof from);
    int64_t n = link[0] == '/' ? 0 : folder_length(from);
    if (!join(from, n, link, t->path)) return ENAMETOOLONG;
  }
  // The path as it was given is asked: the system may refuse to follow a link of another user's.  A
  // file without a name was replaced by another writer while it was looked at, and is not there the
  // next time; one that is open elsewhere, and was removed, still is.
  for (int i = 0; i < TRIES; i++) {
    AGAIN(err, platform->info(path, &t->old));
    if (err || !t->old.regular || t->old.links) break;
  }
  if (err && err != ENOENT) return err;
  t->there = !err;
  int64_t n = folder_length(t->path);
  return join(n ? t->path : "./", n ? n : 2, "", t->folder) ? 0 : ENAMETOOLONG;
}

// ---- temporary files ----

typedef struct Temp {
  char path[PATH_CAP + TEMP_NAME];
  int fd;
} Temp;

static void discard(Temp *t) {
  int err;
  AGAIN(err, platform->unlink(t->path));
  platform->close(t->fd);
}

// Between its creation and its lock a file looks like one that a killed writer left, and another
// writer may remove it.  Then this one takes another name.
static int create_temp(const char *folder, int mode, Temp *t) {
  for (int i = 0; i < TRIES; i++) {
    FileInfo info;
    int err;
    snprintf(t->path, sizeof t->path, "%s%s%016llx%s", folder, temp_head,
             (unsigned long long)platform->random_u64(), temp_tail);
    AGAIN(err, platform->create(t->path, mode, &t->fd));
    if (err == EEXIST) continue;
    if (err) return err;
    AGAIN(err, platform->lock(t->fd));
    if (err == EWOULDBLOCK) {
      platform->close(t->fd);
      continue;
    }
    AGAIN(err, platform->info_of(t->fd, &info));
    if (!err && info.links > 0) return 0;
    discard(t);
    if (err) return err;
  }
  return EEXIST;
}

typedef struct Sweep {
  const char *folder;
  FileSwept swept;
} Sweep;

static void sweep_name(void *ctx, const char *name) {
  Sweep *s = ctx;
  char path[PATH_CAP + TEMP_NAME];
  FileInfo info;
  int64_t size;
  int err, fd;
  if (!file_is_temporary(name)) return;
  int n = snprintf(path, sizeof path, "%s%s", s->folder, name);
  if (n < 0 || n >= (int)sizeof path) return;
  AGAIN(err, platform->open_write(path, false, &fd));
  if (err == EACCES) AGAIN(err, platform->open_read(path, &fd, &size));  // it has a read-only mode
  if (err) return;
  AGAIN(err, platform->lock(fd));
  if (!err) AGAIN(err, platform->info_of(fd, &info));
  if (!err && info.regular && info.links > 0) {
    AGAIN(err, platform->unlink(path));
    s->swept.n += !err;
    s->swept.bytes += err ? 0 : info.bytes;
  }
  platform->close(fd);
}

// A folder that cannot be listed is not swept.
static FileSwept sweep(const char *folder_and_slash) {
  Sweep s = {.folder = folder_and_slash};
  (void)platform->names(folder_and_slash, sweep_name, &s);
  return s.swept;
}

FileSwept file_sweep(const char *folder) {
  char path[PATH_CAP];
  return join(folder, (int64_t)strlen(folder), "/", path) ? sweep(path) : (FileSwept){0};
}

// ---- writing ----

// The new file gets the old one's owner, group and mode.  Where the group cannot be kept, the new
// group may do what others may.
static int keep_rights(int fd, const FileInfo *old) {
  FileInfo now;
  int err, mode = old->mode & 0777;
  AGAIN(err, platform->info_of(fd, &now));
  if (err) return err;
  bool owner = now.owner == old->owner, group = now.group == old->group;
  if (!owner || !group) {
    AGAIN(err, platform->set_owner(fd, old->owner, old->group));
    if (err && !group) AGAIN(err, platform->set_owner(fd, -1, old->group));
    if (err && !group) mode = (mode & 0707) | (mode & 07) << 3;
  }
  AGAIN(err, platform->set_mode(fd, mode));
  // Some file systems have no modes.
  return err == EPERM || err == ENOTSUP || err == ENOSYS ? 0 : err;
}

static int fill(Temp *temp, const Target *t, const Str *part, int nparts, int how) {
  int err = write_parts(temp->fd, part, nparts);
  if (!err && t->there && !(how & WRITE_PRIVATE)) err = keep_rights(temp->fd, &t->old);
  if (!err && !(how & WRITE_CACHED)) AGAIN(err, platform->sync(temp->fd));
  return err;
}

// A temporary file with all the bytes; none where that fails.
static int prepare(const Target *t, const Str *part, int nparts, int how, Temp *temp) {
  // Never wider than the old file, not even for a moment.
  int mode = how & WRITE_PRIVATE ? 0600 : t->there ? t->old.mode & 0777 & ~022 : 0666;
  if (how & WRITE_EXECUTABLE && !t->there) mode |= mode >> 2 & 0111;
  int err = create_temp(t->folder, mode | 0200, temp);
  if (err) return err;
  err = fill(temp, t, part, nparts, how);
  if (err) discard(temp);
  return err;
}

static int put(const Target *t, Temp *temp, bool *lost) {
  int err;
  AGAIN(err, platform->rename(temp->path, t->path));
  *lost = err == ENOENT;
  if (err)
    discard(temp);
  else
    platform->close(temp->fd);  // what was synced is safe, whatever this says
  return err;
}

static int replace(const Target *t, const Str *part, int nparts, int how, bool *lost) {
  Temp temp;
  *lost = false;
  int err = prepare(t, part, nparts, how, &temp);
  return err ? err : put(t, &temp, lost);
}

static bool is_in_place(const Target *t) {
  return t->fd >= 0 || (t->there && (!t->old.regular || !t->old.links));
}

static tenon_status synced(const Target *t, const char *path, Diag *d) {
  int err;
  AGAIN(err, platform->sync_folder(t->folder));
  if (!err) return TENON_OK;
  return fail(d, TENON_EIO, (Where){.file = path}, "written, but its folder cannot be synced: %s",
              error_text(err).s);
}

static int write_in_place(const char *path, const Str *part, int nparts) {
  int err, fd;
  AGAIN(err, platform->open_write(path, true, &fd));
  if (err) return err;
  err = write_parts(fd, part, nparts);
  if (!err) AGAIN(err, platform->sync(fd));
  int closed = platform->close(fd);
  return err ? err : closed;
}

tenon_status file_write(const char *path, const void *bytes, int64_t n, Diag *d) {
  return file_write_as(path, &(Str){bytes, n}, 1, 0, d);
}

tenon_status file_write_parts(const char *path, const Str *part, int nparts, Diag *d) {
  return file_write_as(path, part, nparts, 0, d);
}

tenon_status file_write_as(const char *path, const Str *part, int nparts, int how, Diag *d) {
  enum { LOST_TRIES = 10 };
  Target t;
  int err = *path ? find_target(path, &t) : ENOENT;
  if (err) return cannot_write(d, path, -1, err);
  bool lost = true;
  if (is_in_place(&t)) {
    err = t.fd >= 0 ? write_parts(t.fd, part, nparts) : write_in_place(path, part, nparts);
    return err ? cannot_write(d, path, t.fd, err) : TENON_OK;
  }
  if (!(how & WRITE_CACHED)) sweep(t.folder);
  // Where locks do not reach other machines that share the folder, one of them may take our file
  // for a dead one.
  for (int i = 0; i < LOST_TRIES && lost; i++) err = replace(&t, part, nparts, how, &lost);
  if (err) return cannot_write(d, path, -1, err);
  return how & WRITE_CACHED ? TENON_OK : synced(&t, path, d);
}

tenon_status file_write_both(const char *const path[2], const Str bytes[2], Diag *d) {
  Target t[2];
  Temp temp[2];
  bool lost;
  for (int i = 0; i < 2; i++) {
    int err = *path[i] ? find_target(path[i], &t[i]) : ENOENT;
    if (err) return cannot_write(d, path[i], -1, err);
  }
  if (is_in_place(&t[0]) || is_in_place(&t[1])) {
    TRY(file_write_parts(path[0], &bytes[0], 1, d));
    return file_write_parts(path[1], &bytes[1], 1, d);
  }
  sweep(t[0].folder);
  int err = prepare(&t[0], &bytes[0], 1, 0, &temp[0]);
  if (err) return cannot_write(d, path[0], -1, err);
  err = prepare(&t[1], &bytes[1], 1, 0, &temp[1]);
  if (err) discard(&temp[0]);
  if (err) return cannot_write(d, path[1], -1, err);
  err = put(&t[0], &temp[0], &lost);
  if (err) discard(&temp[1]);
  if (err) return cannot_write(d, path[0], -1, err);
  err = put(&t[1], &temp[1], &lost);
  if (err) return cannot_write(d, path[1], -1, err);
  TRY(synced(&t[0], path[0], d));
  return synced(&t[1], path[1], d);
}
