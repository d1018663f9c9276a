// platform_limits.c -- how much of the machine is ours: CPUs and memory.
//
// A container sees the whole machine in most places, so the limits of the process's control group
// and of all those above it are read too (version 2, and version 1 where it is still mounted).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // sched_getaffinity's CPU sets
#endif
#include "base/platform.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

// The first bytes of a small file, NUL-terminated; "" when it cannot be read.
void file_small(const char *path, char *out, int64_t cap) {
  int fd;
  int64_t size, got = 0;
  out[0] = 0;
  if (platform_posix.open_read(path, &fd, &size)) return;
  if (platform_posix.read(fd, out, cap - 1, &got)) got = 0;
  out[got] = 0;
  platform_posix.close(fd);
}

// The next word as a number, moving past it; false for "max" and where there is none.
static bool next_number(const char **at, int64_t *out) {
  *at += strspn(*at, " \n");
  Str word = {*at, (int64_t)strcspn(*at, " \n")};
  *at += word.n;
  return str_to_i64(word, out);
}

// Calls `see` with the text of the file `name` in the process's version 2 group and in each one
// above.
static void each_cgroup(const char *name, void (*see)(const char *text, int64_t *least),
                        int64_t *least) {
  char groups[4096], path[4096 + 128], text[64];
  file_small("/proc/self/cgroup", groups, sizeof(groups));
  char *group = strncmp(groups, "0::", 3) ? strstr(groups, "\n0::") : groups - 1;
  if (!group) return;
  group += 4;
  group[strcspn(group, "\n")] = 0;
  for (char *cut = group + strlen(group); cut; cut = strrchr(group, '/')) {
    *cut = 0;
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group, name);
    file_small(path, text, sizeof(text));
    see(text, least);
  }
}

// ---- CPUs ----

int machine_cpus(void) {
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

void thread_pin(int index) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof all, &all))
    return;  // more CPUs than a set holds: left where it is
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all) && seen++ == index) CPU_SET(cpu, &one);
  if (CPU_COUNT(&one)) sched_setaffinity(0, sizeof one, &one);
}

void thread_yield(void) { sched_yield(); }

static void see_quota(int64_t quota, int64_t period, int64_t *least) {
  if (quota > 0 && period > 0) *least = MIN(*least, quota / period + (quota % period != 0));
}

static void see_cpu_max(const char *text, int64_t *least) {
  int64_t quota, period;
  if (next_number(&text, &quota) && next_number(&text, &period)) see_quota(quota, period, least);
}

int machine_threads(void) {
  int64_t cpus = machine_cpus();
  char quota[64], period[64];
  const char *q = quota, *p = period;
  int64_t quota_us, period_us;
  each_cgroup("cpu.max", see_cpu_max, &cpus);
  file_small("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof(quota));
  file_small("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof(period));
  if (next_number(&q, &quota_us) && next_number(&p, &period_us))
    see_quota(quota_us, period_us, &cpus);
  return (int)MAX(1, MIN(cpus, INT_MAX));
}

// ---- memory ----

static void see_bytes(const char *text, int64_t *least) {
  int64_t bytes;
  if (next_number(&text, &bytes) && bytes > 0) *least = MIN(*least, bytes);
}

// Read once: every large allocation asks.
int64_t machine_memory(void) {
  static atomic_int_least64_t known;
  int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
  if (bytes) return bytes;
  struct sysinfo s;
  char text[64];
  bytes = INT64_MAX;
  if (!sysinfo(&s)) {
    int64_t ram, swap, sum;
    if (ck_mul((int64_t)s.totalram, s.mem_unit, &ram) &&
        ck_mul((int64_t)s.totalswap, s.mem_unit, &swap) && ck_add(ram, swap, &sum))
      bytes = sum;
  }
  each_cgroup("memory.max", see_bytes, &bytes);
  file_small("/sys/fs/cgroup/memory/memory.limit_in_bytes", text, sizeof(text));
  see_bytes(text, &bytes);
  atomic_store_explicit(&known, bytes, memory_order_relaxed);
  return bytes;
}

// ---- AMX ----

#if defined(__linux__) && defined(__x86_64__)
bool platform_allow_tiles(void) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
bool platform_allow_tiles(void) { return false; }
#endif
