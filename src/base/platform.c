// platform.c -- the POSIX side of the platform table.
//
// Memory: small blocks come from the C library, blocks of 1 MiB and more straight from the kernel, which gives
// zeroed pages without touching them.  Blocks of 64 bytes and more are aligned to 64.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // sched_getaffinity's CPU sets
#endif
#include "base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifdef UNDER_ASAN
enum { MAP_FROM = 64 << 20 };  // mapped pages have no red zones
#else
enum { MAP_FROM = 1 << 20 };
#endif
enum { CACHE_LINE = 64 };

// ---- memory ----

static void *posix_alloc(int64_t bytes) {
  if (bytes < 0 || bytes > PTRDIFF_MAX / 2) return NULL;
  size_t n = (size_t)bytes;
  if (bytes >= MAP_FROM) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
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

// ---- files ----

static int open_retry(const char *path, int flags, mode_t mode, int *out_fd) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  *out_fd = fd;
  return fd < 0 ? errno : 0;
}

// O_NONBLOCK, so that opening a FIFO nobody writes to comes back and is refused.
static int posix_open_read(const char *path, int *out_fd, int64_t *out_size) {
  struct stat st;
  *out_size = 0;
  int err = open_retry(path, O_RDONLY | O_NONBLOCK, 0, out_fd);
  if (err) return err;
  if (fstat(*out_fd, &st)) err = errno;
  if (!err && !S_ISREG(st.st_mode)) err = EINVAL;
  if (err) {
    close(*out_fd);
    *out_fd = -1;
    return err;
  }
  *out_size = st.st_size;
  return 0;
}

static int posix_map(int fd, int64_t bytes, const void **out) {
  void *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  *out = p == MAP_FAILED ? NULL : p;
  return p == MAP_FAILED ? errno : 0;
}

static void posix_unmap(const void *p, int64_t bytes) { munmap((void *)p, (size_t)bytes); }

static int posix_create(const char *path, int *out_fd) {
  return open_retry(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, out_fd);
}

static int posix_write(int fd, const void *p, int64_t bytes) {
  for (const char *at = p; bytes > 0;) {
    ssize_t n = write(fd, at, (size_t)MIN(bytes, 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    at += n;
    bytes -= n;
  }
  return 0;
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

// ---- threads and time ----

// Signals stay with the threads of the program we are in.
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

const Platform platform_posix = {
    .alloc = posix_alloc,
    .free = posix_free,
    .open_read = posix_open_read,
    .map = posix_map,
    .unmap = posix_unmap,
    .create = posix_create,
    .write = posix_write,
    .sync = posix_sync,
    .read = posix_read,
    .close = posix_close,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .real_path = posix_real_path,
    .thread_start = posix_thread_start,
    .thread_join = posix_thread_join,
    .now = posix_now,
};
const Platform *platform = &platform_posix;

void *mem_alloc(int64_t bytes) { return bytes < 0 ? NULL : platform->alloc(bytes); }
void mem_free(void *p, int64_t bytes) {
  if (p) platform->free(p, bytes);
}

// ---- how many threads make sense ----

static int affinity_cpus(void) {
  // The kernel refuses a set smaller than its own, so ask with growing ones.
  for (int n = 1024; n <= 1 << 16; n *= 4) {
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) return 1;
    size_t bytes = CPU_ALLOC_SIZE(n);
    int count = sched_getaffinity(0, bytes, set) ? 0 : CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return 1;
}

// The first bytes of a small file, NUL-terminated; "" when it cannot be read.
static void read_small(const char *path, char *out, int64_t cap) {
  int fd;
  int64_t size, got = 0;
  out[0] = 0;
  if (posix_open_read(path, &fd, &size)) return;
  if (posix_read(fd, out, cap - 1, &got)) got = 0;
  out[got] = 0;
  posix_close(fd);
}

static int cpus_of(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  return (int)MIN((quota + period - 1) / period, INT_MAX);
}

// The tightest quota of the process's cgroup and those above it.
static int cgroup_cpus(void) {
  char text[4096], path[4096 + 64], *group = NULL;
  long long quota = 0, period = 0;
  int cpus = INT_MAX;
  read_small("/proc/self/cgroup", text, sizeof(text));
  for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
    if (!strncmp(line, "0::", 3)) group = line + 3;
  if (group) {
    group[strcspn(group, "\n")] = 0;
    for (char *cut = group + strlen(group); cut; cut = strrchr(group, '/')) {
      *cut = 0;
      char max[64];
      snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group);
      read_small(path, max, sizeof(max));
      if (sscanf(max, "%lld %lld", &quota, &period) == 2) cpus = MIN(cpus, cpus_of(quota, period));
    }
  }
  char q[64], p[64];
  read_small("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", q, sizeof(q));
  read_small("/sys/fs/cgroup/cpu/cpu.cfs_period_us", p, sizeof(p));
  if (sscanf(q, "%lld", &quota) == 1 && sscanf(p, "%lld", &period) == 1)
    cpus = MIN(cpus, cpus_of(quota, period));
  return cpus;
}

int machine_threads(void) { return MAX(1, MIN(affinity_cpus(), cgroup_cpus())); }
