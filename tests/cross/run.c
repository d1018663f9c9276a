// run.c -- runs one kernel of a job file; for AArch64 and RISC-V, under qemu, without a C library.
//
// Maps the file shared, the image again as code, calls the kernel for all items and leaves the
// results in the file.
#include "run.h"

static long call(long nr, long a, long b, long c, long d, long f, long g) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                   x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d, x4 __asm__("x4") = f, x5 __asm__("x5") = g;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#else
  register long a7 __asm__("a7") = nr, a0 __asm__("a0") = a, a1 __asm__("a1") = b,
                   a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d, a4 __asm__("a4") = f, a5 __asm__("a5") = g;
  __asm__ volatile("ecall"
                   : "+r"(a0)
                   : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "memory");
  return a0;
#endif
}

// Numbers that both architectures share.
enum { SYS_OPENAT = 56, SYS_EXIT = 93, SYS_MMAP = 222, SYS_MPROTECT = 226 };
enum {
  READ_WRITE = 3,
  READ_EXEC = 5,
  SHARED = 1,
  PRIVATE = 2,
  ANONYMOUS = 32,
  O_READ_WRITE = 2,
  HERE = -100
};

static void run(const char *path) {
  long fd = call(SYS_OPENAT, HERE, (long)path, O_READ_WRITE, 0, 0, 0);
  if (fd < 0) return;
  CrossJob *j = (CrossJob *)call(SYS_MMAP, 0, CROSS_PAGE, READ_WRITE, SHARED, fd, 0);
  char *all = (char *)call(SYS_MMAP, 0, j->total, READ_WRITE, SHARED, fd, 0);
  char *code = (char *)call(SYS_MMAP, 0, j->image_bytes, READ_WRITE, PRIVATE | ANONYMOUS, -1, 0);
  for (int64_t i = 0; i < j->image_bytes; i++) ((volatile char *)code)[i] = all[j->image + i];
  call(SYS_MPROTECT, (long)code, j->image_bytes, READ_EXEC, 0, 0, 0);
  void *args[CROSS_ARGS];
  for (int64_t i = 0; i < j->nargs; i++) args[i] = all + j->arg[i];
  int32_t (*fn)(void *const *, const int64_t *, int64_t, int64_t, void *) =
      (int32_t(*)(void *const *, const int64_t *, int64_t, int64_t, void *))(code + j->entry);
  j->result = fn(args, j->dims, 0, j->items, all + j->scratch);
}

__attribute__((used)) void start(long *stack) {
  if (stack[0] == 2) run((const char *)stack[2]);
  call(SYS_EXIT, 0, 0, 0, 0, 0, 0);
}

#if defined(__aarch64__)
__asm__(".globl _start\n_start:\n mov x0, sp\n bl start\n");
#else
__asm__(".globl _start\n_start:\n mv a0, sp\n call start\n");
#endif
