// glibc_compat.c -- functions of glibc 2.29 and later that Debian's archives of LLVM 19, libstdc++
// and libgcc call, for glibc 2.28.
//
// Linked into tenon-codegen alone, when TENON_GLIBC_STUBS is set (cmake/glibc.cmake).  Each has the
// interface of glibc's manual and uses what glibc 2.28 has.  Where a newer glibc is loaded these
// are used all the same, so each must be right there too.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);
int _dl_find_object(void *address, void *result);
extern char __libc_single_threaded;

// libstdc++ leaves out atomic instructions where this is not 0.
char __libc_single_threaded = 0;

// libgcc's unwinder then searches with dl_iterate_phdr, as it does on older systems.
int _dl_find_object(void *address, void *result) {
  (void)address, (void)result;
  return -1;
}

// Names of temporary files.
uint32_t arc4random(void) {
  uint32_t value;
  ssize_t got;
  do got = getrandom(&value, sizeof value, 0);
  while (got < 0 && errno == EINTR);
  if (got != sizeof value) abort();
  return value;
}

// LLVM's statistics.  mallinfo counts in int: more than 2 GiB wraps around.
struct mallinfo2 mallinfo2(void) {
  struct mallinfo m = mallinfo();
  return (struct mallinfo2){
      .arena = (unsigned)m.arena,
      .ordblks = (unsigned)m.ordblks,
      .smblks = (unsigned)m.smblks,
      .hblks = (unsigned)m.hblks,
      .hblkhd = (unsigned)m.hblkhd,
      .usmblks = (unsigned)m.usmblks,
      .fsmblks = (unsigned)m.fsmblks,
      .uordblks = (unsigned)m.uordblks,
      .fordblks = (unsigned)m.fordblks,
      .keepcost = (unsigned)m.keepcost,
  };
}
