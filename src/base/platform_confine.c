// platform_confine.c -- rlimits, seccomp and Landlock by system calls of our own, without a
// library.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // O_PATH, prlimit
#endif
#include "base/confine.h"

#include "base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A sanitizer maps terabytes, opens files of /proc and stops threads, in our name.
#if defined(UNDER_ASAN) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif

const char *const layer_name[LAYERS] = {"no_new_privs", "rlimits", "Landlock", "seccomp"};

void set_layer(Layer *l, bool active, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  l->active = active;
  vsnprintf(l->text, sizeof l->text, fmt, ap);
  va_end(ap);
}

// Valgrind answers a sequence of instructions that does nothing on a processor (valgrind.h,
// RUNNING_ON_VALGRIND).
static bool under_valgrind(void) {
  uint64_t request[6] = {0x1001}, answer = 0;
#if defined(__x86_64__)
  __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                   "xchgq %%rbx, %%rbx"
                   : "=d"(answer)
                   : "a"(request), "0"(answer)
                   : "cc", "memory");
#elif defined(__aarch64__)
  register uint64_t in __asm__("x4") = (uint64_t)(uintptr_t)request;
  register uint64_t out __asm__("x3") = answer;
  __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\t"
                   "ror x12, x12, #61\n\torr x10, x10, x10"
                   : "+r"(out)
                   : "r"(in)
                   : "cc", "memory", "x12");
  answer = out;
#else
  (void)request;
#endif
  return answer != 0;
}

// What a compiler links into a program that counts its own branches, and that writes files when the
// program ends.
extern char __gcov_init[] __attribute__((weak));
extern char llvm_gcov_init[] __attribute__((weak));
extern char __llvm_profile_write_file[] __attribute__((weak));

const char *confine_watched(void) {
  if (under_valgrind()) return "run by valgrind";
  if (__gcov_init || llvm_gcov_init || __llvm_profile_write_file) return "built for coverage";
#ifdef UNDER_SANITIZER
  return "built with a sanitizer";
#else
  return NULL;
#endif
}

void confine_no_new_privs(Layer *out) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    set_layer(out, false, "%s", error_text(errno).s);
  else
    set_layer(out, true, "setuid programs and file capabilities have no effect");
}

// ---- rlimits ----

// At most `want`, and never more than is allowed already.
static int lower(int resource, int64_t want) {
  struct rlimit l;
  if (want == NO_LIMIT) return 0;
  if (getrlimit((__rlimit_resource_t)resource, &l)) return errno;
  l.rlim_max = MIN(l.rlim_max, (rlim_t)want);
  l.rlim_cur = MIN(l.rlim_cur, l.rlim_max);
  return setrlimit((__rlimit_resource_t)resource, &l) ? errno : 0;
}

int64_t mapped_bytes(void) {
  enum { UNKNOWN = 512 << 20 };
  char text[64] = "";
  int fd;
  int64_t size, got = 0, pages = 0;
  if (platform_posix.open_read("/proc/self/statm", &fd, &size)) return UNKNOWN;
  if (platform_posix.read(fd, text, sizeof text - 1, &got)) got = 0;
  platform_posix.close(fd);
  Str word = {text, (int64_t)strcspn(text, " ")};
  return got && str_to_i64(word, &pages) ? pages * sysconf(_SC_PAGESIZE) : UNKNOWN;
}

// A log is a regular file, and what LLVM says at its end belongs there.
static int64_t file_size_for(int64_t limit) {
  struct stat s;
  for (int fd = 1; limit != NO_LIMIT && fd <= 2; fd++)
    if (!fstat(fd, &s) && S_ISREG(s.st_mode)) limit = MAX(limit, (int64_t)s.st_size + (1 << 20));
  return limit;
}

void confine_resources(const ResourceLimits *l, Layer *out) {
  const struct {
    int resource;
    int64_t limit;
    const char *name;
  } row[] = {{RLIMIT_AS, l->memory, "memory"},
             {RLIMIT_NPROC, l->processes, "processes"},
             {RLIMIT_NOFILE, l->files, "open files"},
             {RLIMIT_FSIZE, file_size_for(l->file_size), "file size"},
             {RLIMIT_CORE, l->core, "core dumps"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    int err = lower(row[i].resource, row[i].limit);
    if (!err) continue;
    set_layer(out, false, "%s: %s", row[i].name, error_text(err).s);
    return;
  }
  set_layer(out, true, "memory, processes, open files, file size, core dumps");
}

void confine_cpu(int64_t seconds) {
  struct timespec used = {0};
  struct rlimit l;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  if (getrlimit(RLIMIT_CPU, &l)) return;
  // The second that has begun is not counted against the caller.
  l.rlim_cur = MIN((rlim_t)(used.tv_sec + 1 + seconds), l.rlim_max);
  (void)setrlimit(RLIMIT_CPU, &l);
}

void confine_close_files(void) {
  enum { FIRST = 3, TRIED = 4096 };
#ifdef SYS_close_range
  if (!syscall(SYS_close_range, FIRST, ~0U, 0)) return;
#endif
  for (int fd = FIRST; fd < TRIED; fd++) close(fd);
}

// ---- Landlock ---- The numbers are the same on every architecture.  The interface is declared
// here, as the system's headers may be older than the kernel.
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD = 445, LANDLOCK_RESTRICT = 446 };
enum { LANDLOCK_VERSION = 1, LANDLOCK_BENEATH = 1 };
enum {
  FS_EXECUTE = 1 << 0,
  FS_WRITE_FILE = 1 << 1,
  FS_READ_FILE = 1 << 2,
  FS_READ_DIR = 1 << 3,
  FS_REMOVE_DIR = 1 << 4,
  FS_REMOVE_FILE = 1 << 5,
  FS_MAKE_DIR = 1 << 7,
  FS_MAKE_REG = 1 << 8,
  FS_MAKE_ALL = 0x7f << 6,  // devices, folders, files, sockets, pipes, links
  FS_REFER = 1 << 13,       // since version 2
  FS_TRUNCATE = 1 << 14,    // 3
  NET_TCP = 3,              // 4: bind and connect
  SCOPE_ALL = 3,            // 6: abstract sockets and signals
};
typedef struct Ruleset {
  uint64_t files, net, scoped;
} Ruleset;
typedef struct __attribute__((packed)) Beneath {
  uint64_t allowed;
  int32_t folder;
} Beneath;

int landlock_abi(void) {
  long abi = syscall(LANDLOCK_CREATE, NULL, (size_t)0, LANDLOCK_VERSION);
  return abi > 0 ? (int)abi : 0;
}

static uint64_t handled(const FileRules *r, int abi) {
  uint64_t files = 0;
  if (r->read) files |= FS_READ_FILE | FS_READ_DIR;
  if (r->execute) files |= FS_EXECUTE;
  if (r->write) files |= FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_ALL;
  if (r->write && abi >= 2) files |= FS_REFER;
  if (r->write && abi >= 3) files |= FS_TRUNCATE;
  return files;
}

static int allow_path(int ruleset, const PathRule *p, uint64_t all) {
  struct stat s;
  int fd = open(p->path, O_PATH | O_CLOEXEC);
  if (fd < 0) return 0;
  uint64_t may = p->may & MAY_EXECUTE ? FS_EXECUTE : 0;
  if (p->may & MAY_WRITE) may |= FS_WRITE_FILE | FS_TRUNCATE;
  if (p->may & MAY_WRITE && !fstat(fd, &s) && S_ISDIR(s.st_mode))
    may |= FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_REFER;
  Beneath b = {may & all, fd};
  int err = 0;
  if (b.allowed && syscall(LANDLOCK_ADD, ruleset, LANDLOCK_BENEATH, &b, 0)) err = errno;
  close(fd);
  return err;
}

void confine_files(const FileRules *r, Layer *out) {
  int abi = landlock_abi(), err = 0;
  if (!abi) {
    set_layer(out, false, "the kernel has no Landlock, or has it switched off");
    return;
  }
  Ruleset rules = {.files = handled(r, abi)};
  if (r->tcp && abi >= 4) rules.net = NET_TCP;
  if (r->outside && abi >= 6) rules.scoped = SCOPE_ALL;
  size_t size = abi < 4 ? 8 : abi < 6 ? 16 : 24;
  int fd = (int)syscall(LANDLOCK_CREATE, &rules, size, 0);
  if (fd < 0) err = errno;
  for (int64_t i = 0; !err && i < r->npaths; i++) err = allow_path(fd, &r->path[i], rules.files);
  if (!err && syscall(LANDLOCK_RESTRICT, fd, 0)) err = errno;
  if (fd >= 0) close(fd);
  if (err)
    set_layer(out, false, "%s", error_text(err).s);
  else
    set_layer(out, true, "ABI %d", abi);
}

// ---- seccomp ----

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64 && defined(AUDIT_ARCH_RISCV64)
#define OUR_ARCH AUDIT_ARCH_RISCV64
#endif

#ifdef OUR_ARCH
enum { FILTER_CAP = 512 };
typedef struct Filter {
  struct sock_filter code[FILTER_CAP];
  int n;
} Filter;

static void put(Filter *f, struct sock_filter i) {
  if (f->n < FILTER_CAP) f->code[f->n] = i;
  f->n++;
}

static void put_load(Filter *f, size_t offset) {
  put(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void put_return(Filter *f, CallAction a) {
  uint32_t value = a == CALL_ALLOW    ? SECCOMP_RET_ALLOW
                   : a == CALL_REFUSE ? SECCOMP_RET_ERRNO | EPERM
                                      : SECCOMP_RET_TRAP;
  put(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value));
}

// The accumulator holds the call's number before and after.
static void put_rule(Filter *f, const CallRule *r) {
  enum { NUMBER = offsetof(struct seccomp_data, nr) };
  bool always = r->argument < 0;
  put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->number, 0,
                                      (uint8_t)(always ? 1 : 5)));
  if (!always) {
    put_load(f, offsetof(struct seccomp_data, args) + 8 * (size_t)r->argument);  // little endian
    put(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask));
    put(f,
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, r->differ, !r->differ));
  }
  put_return(f, r->action);
  if (!always) put_load(f, NUMBER);
}

static void make_filter(Filter *f, const CallRule *rule, int64_t n, CallAction otherwise) {
  f->n = 0;
  put_load(f, offsetof(struct seccomp_data, arch));
  put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0));
  put_return(f, CALL_VIOLATE);
  put_load(f, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
  enum { X32 = 0x40000000 };  // the same calls by other numbers
  put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1));
  put_return(f, CALL_VIOLATE);
#endif
  for (int64_t i = 0; i < n; i++) put_rule(f, &rule[i]);
  put_return(f, otherwise);
}

void confine_calls(const CallRule *rule, int64_t n, CallAction otherwise, Layer *out) {
  Filter f;
  make_filter(&f, rule, n, otherwise);
  CHECK(f.n <= FILTER_CAP, "a filter of %d instructions", f.n);
  struct sock_fprog program = {.len = (unsigned short)f.n, .filter = f.code};
  long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (failed)
    set_layer(out, false, "%s",
              failed > 0 ? "a thread has a filter of its own" : error_text(errno).s);
  else
    set_layer(out, true, "%lld rules", (long long)n);
}
#else
void confine_calls(const CallRule *rule, int64_t n, CallAction otherwise, Layer *out) {
  (void)rule, (void)n, (void)otherwise;
  set_layer(out, false, "no filter is written for this architecture");
}
#endif
