// platform.c -- the POSIX side of the platform table.
//
// Memory: small blocks come from the C library, blocks of 1 MiB and more straight from the kernel,
// which gives zeroed pages without touching them, large ones where it can: weights are read from
// end to end.  Blocks of 64 bytes and more are aligned to 64.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // MAP_ANONYMOUS, mremap
#endif
#include "base/platform.h"
#include "base/platform_signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef UNDER_ASAN
enum { MAP_FROM = 64 << 20 };  // mapped pages have no red zones
#else
enum { MAP_FROM = 1 << 20 };
#endif
enum { CACHE_LINE = 64, HUGE_FROM = 2 << 20 };
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

// ---- memory ----

static void *posix_alloc(int64_t bytes) {
  if (bytes < 0) return NULL;
  size_t n = (size_t)bytes;
  if (bytes >= MAP_FROM) {
    // The kernel may promise more than there is and end the process later, when it is written to.
    if (bytes > machine_memory()) return NULL;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (bytes >= HUGE_FROM) madvise(p, n, MADV_HUGEPAGE);  // a wish
    return p;
  }
  if (bytes < CACHE_LINE) return calloc(1, n ? n : 1);
  void *p = NULL;
  if (posix_memalign(&p, CACHE_LINE, n)) return NULL;
  return memset(p, 0, n);
}

static void posix_free(void *p, int64_t bytes) {
  if (bytes >= MAP_FROM)
    munmap(p, (size_t)bytes);
  else
    free(p);
}

static void posix_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// ---- files ----

static int open_retry(const char *path, int flags, mode_t mode, int *out_fd) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  *out_fd = fd;
  return fd < 0 ? errno : 0;
}

// A regular file stays open; anything else is closed.
static int check_regular(int *fd, int64_t *out_size) {
  struct stat st;
  int err = fstat(*fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
  if (err) {
    close(*fd);
    *fd = -1;
    return err;
  }
  *out_size = st.st_size;
  return 0;
}

// O_NONBLOCK, so that opening a FIFO nobody writes to comes back and is refused.
static int posix_open_read(const char *path, int *out_fd, int64_t *out_size) {
  *out_size = 0;
  int err = open_retry(path, O_RDONLY | O_NONBLOCK, 0, out_fd);
  return err ? err : check_regular(out_fd, out_size);
}

static int posix_open_folder(const char *path, int *out_fd) {
  return open_retry(path, O_PATH | O_DIRECTORY, 0, out_fd);
}

static int posix_open_in(int folder, const char *name, int *out_fd, int64_t *out_size) {
  *out_size = 0;
  do *out_fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  while (*out_fd < 0 && errno == EINTR);
  if (*out_fd < 0) return errno == ELOOP ? EINVAL : errno;
  return check_regular(out_fd, out_size);
}

static int posix_map(int fd, int64_t bytes, const void **out) {
  void *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  *out = p == MAP_FAILED ? NULL : p;
  return p == MAP_FAILED ? errno : 0;
}

static void posix_unmap(const void *p, int64_t bytes) { munmap((void *)p, (size_t)bytes); }

// Linux 5.13 and later can; the mapping that was there stays.
static int posix_map_over(const void *from, int64_t bytes, void *to) {
  if (sysconf(_SC_PAGESIZE) > PAGE) return ENOTSUP;
  void *p = mremap((void *)(uintptr_t)from, (size_t)bytes, (size_t)bytes,
                   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
  return p == MAP_FAILED ? errno : 0;
}

static void posix_forget(const void *p, int64_t bytes) {
  madvise((void *)(uintptr_t)p, (size_t)bytes, MADV_DONTNEED);
}

static FileInfo info_from(const struct stat *st) {
  return (FileInfo){.regular = S_ISREG(st->st_mode),
                    .folder = S_ISDIR(st->st_mode),
                    .mode = (int)(st->st_mode & 07777),
                    .owner = (int64_t)st->st_uid,
                    .group = (int64_t)st->st_gid,
                    .links = (int64_t)st->st_nlink,
                    .bytes = st->st_size};
}

static int posix_info(const char *path, FileInfo *out) {
  struct stat st;
  if (stat(path, &st)) return errno;
  *out = info_from(&st);
  return 0;
}

static int posix_info_of(int fd, FileInfo *out) {
  struct stat st;
  if (fstat(fd, &st)) return errno;
  *out = info_from(&st);
  return 0;
}

static int posix_create(const char *path, int mode, int *out_fd) {
  return open_retry(path, O_WRONLY | O_CREAT | O_EXCL, (mode_t)mode, out_fd);
}

static int posix_open_write(const char *path, bool follow, int *out_fd) {
  return open_retry(path, O_WRONLY | O_NOCTTY | (follow ? 0 : O_NOFOLLOW | O_NONBLOCK), 0, out_fd);
}

static int posix_lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) ? errno : 0; }

static int posix_write(int fd, const void *p, int64_t bytes, int64_t *out_done) {
  HeldSignals held;
  signals_hold(&held);
  ssize_t n = write(fd, p, (size_t)MIN(bytes, 1 << 30));
  int err = n < 0 ? errno : 0;
  signals_release(&held, err);
  *out_done = n < 0 ? 0 : n;
  return err;
}

static int posix_set_mode(int fd, int mode) { return fchmod(fd, (mode_t)mode) ? errno : 0; }
static int posix_set_owner(int fd, int64_t owner, int64_t group) {
  return fchown(fd, (uid_t)owner, (gid_t)group) ? errno : 0;
}

static int posix_read(int fd, void *p, int64_t bytes, int64_t *out_got) {
  ssize_t n;
  do n = read(fd, p, (size_t)MIN(bytes, 1 << 30));
  while (n < 0 && errno == EINTR);
  *out_got = n < 0 ? 0 : n;
  return n < 0 ? errno : 0;
}

// Devices and pipes cannot be synchronised and need not be.
static int posix_sync(int fd) { return fsync(fd) && errno != EINVAL && errno != EROFS ? errno : 0; }
static int posix_sync_folder(const char *path) {
  int fd;
  int err = open_retry(path, O_RDONLY | O_DIRECTORY, 0, &fd);
  if (err) return err == EACCES ? 0 : err;  // one that we may write to but not read
  err = posix_sync(fd);
  close(fd);
  return err;
}

static int posix_close(int fd) { return close(fd) && errno != EINTR ? errno : 0; }
static int posix_rename(const char *from, const char *to) { return rename(from, to) ? errno : 0; }
static int posix_unlink(const char *path) { return unlink(path) ? errno : 0; }

static int posix_real_path(const char *path, char *out, int64_t cap) {
  char *p = realpath(path, NULL);
  if (!p) return errno;
  size_t n = strlen(p) + 1;
  bool fits = (int64_t)n <= cap;
  if (fits) memcpy(out, p, n);
  free(p);
  return fits ? 0 : ENAMETOOLONG;
}

static int posix_read_link(const char *path, char *out, int64_t cap) {
  ssize_t n = readlink(path, out, (size_t)cap);
  if (n < 0) return errno;
  if (n >= cap) return ENAMETOOLONG;
  out[n] = 0;
  return 0;
}

static int posix_make_folder(const char *path, int mode) {
  struct stat st;
  if (!mkdir(path, (mode_t)mode)) return 0;
  int err = errno;
  return err == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode) ? 0 : err;
}

static int posix_remove_folder(const char *path) { return rmdir(path) ? errno : 0; }

static int posix_list(const char *folder, FileFn *fn, void *ctx) {
  DIR *d = opendir(folder);
  if (!d) return errno;
  for (struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (!fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
      fn(ctx, e->d_name, st.st_size, st.st_mtime);
  }
  closedir(d);
  return 0;
}

static int posix_names(const char *folder, NameFn *fn, void *ctx) {
  DIR *d = opendir(folder);
  if (!d) return errno;
  for (struct dirent *e; (e = readdir(d));) fn(ctx, e->d_name);
  closedir(d);
  return 0;
}

static int64_t posix_user(void) { return (int64_t)geteuid(); }

// Where the system has no random numbers, time and a counter differ from call to call; create()
// tells a name that is taken.
static uint64_t posix_random(void) {
  static atomic_uint_least64_t counter;
  uint64_t x;
  if (getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x) return x;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  x = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30 ^ (uint64_t)getpid() << 48;
  return hash_u64(x + atomic_fetch_add(&counter, 0x9e3779b97f4a7c15u));
}

static int posix_touch(const char *path) {
  return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) ? errno : 0;
}

// ---- threads and time ----

// Signals stay with the threads of the program we are in.
static atomic_int forks;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, count_fork); }

int process_forks(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  return atomic_load_explicit(&forks, memory_order_relaxed);
}

static int posix_thread_start(void *(*fn)(void *), void *arg, void **out_thread) {
  sigset_t all, before;
  pthread_t t;
  sigfillset(&all);
  int err = pthread_sigmask(SIG_SETMASK, &all, &before);
  if (err) return err;
  err = pthread_create(&t, NULL, fn, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  *out_thread = err ? NULL : (void *)t;
  return err;
}

static void posix_thread_join(void *thread) { pthread_join((pthread_t)thread, NULL); }

static int64_t posix_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t posix_file_time(void) { return time(NULL); }

const Platform platform_posix = {
    .trim = posix_trim,
    .alloc = posix_alloc,
    .free = posix_free,
    .pages_from = MAP_FROM,
    .chunk_bytes = 4096,
    .open_read = posix_open_read,
    .map = posix_map,
    .unmap = posix_unmap,
    .map_over = posix_map_over,
    .forget = posix_forget,
    .open_folder = posix_open_folder,
    .open_in = posix_open_in,
    .info = posix_info,
    .info_of = posix_info_of,
    .create = posix_create,
    .open_write = posix_open_write,
    .lock = posix_lock,
    .write = posix_write,
    .set_mode = posix_set_mode,
    .set_owner = posix_set_owner,
    .sync = posix_sync,
    .sync_folder = posix_sync_folder,
    .read = posix_read,
    .close = posix_close,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .real_path = posix_real_path,
    .read_link = posix_read_link,
    .make_folder = posix_make_folder,
    .remove_folder = posix_remove_folder,
    .list = posix_list,
    .names = posix_names,
    .touch = posix_touch,
    .user = posix_user,
    .random_u64 = posix_random,
    .thread_start = posix_thread_start,
    .thread_join = posix_thread_join,
    .now = posix_now,
    .file_time = posix_file_time,
};
const Platform *platform = &platform_posix;
