// serve_faults.c -- tenon-serve with faults that tests/security/serve_faults_test.py plants.
//
// SERVE_FAULTS names a file of eight int64, which both map: for the front, then for engines, what
// fails (Fault), how many calls go well before it, and how many have been planted.  So a fault can
// be planted in a server that runs, for one call or for each N-th.  With SERVE_FAULTS_CUDA engines
// find a CUDA driver that needs no GPU (cuda_fake.h), whose calls can be made to fail, too.
#define _GNU_SOURCE
#include "base/platform.h"

#include "cuda_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int serve_main(int argc, char **argv);  // src/serve/main.c

typedef enum {
  NONE,
  ALLOC,        // no memory
  SHORT_READ,   // one byte of a socket or pipe
  SHORT_WRITE,  // one byte
  READ_AGAIN,   // interrupted by a signal
  WRITE_AGAIN,
  READ_RESET,  // the client is gone
  WRITE_RESET,
  ACCEPT,  // no descriptor is left
  CUDA     // + i: a call of the CUDA driver fails with cuda_fake_codes[i]
} Fault;

typedef struct Plan {
  atomic_int_least64_t fault, left, every, planted;
} Plan;
static Plan none, *plan = &none;

// Whether this call is the one: `left` calls of its kind go well first, then each `every`-th fails;
// 0: none further.
static bool fails(int64_t f) {
  if (atomic_load(&plan->fault) != f) return false;
  if (atomic_fetch_sub(&plan->left, 1) > 0) return false;
  int64_t every = atomic_load(&plan->every);
  if (every > 0)
    atomic_store(&plan->left, every - 1);
  else
    atomic_store(&plan->fault, NONE);
  atomic_fetch_add(&plan->planted, 1);
  return true;
}

static void *faulty_alloc(int64_t bytes) {
  return fails(ALLOC) ? NULL : platform_posix.alloc(bytes);
}

static ssize_t failed(int err) {
  errno = err;
  return -1;
}

// Of the front's sockets and the pipes of both.
ssize_t recv(int fd, void *p, size_t n, int flags) {
  if (fails(READ_AGAIN)) return failed(EINTR);
  if (fails(READ_RESET)) return failed(ECONNRESET);
  if (fails(SHORT_READ)) n = MIN(n, 1);
  return syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);
}

ssize_t send(int fd, const void *p, size_t n, int flags) {
  if (fails(WRITE_AGAIN)) return failed(EINTR);
  if (fails(WRITE_RESET)) return failed(ECONNRESET);
  if (fails(SHORT_WRITE)) n = MIN(n, 1);
  return syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

ssize_t read(int fd, void *p, size_t n) {
  if (fails(READ_AGAIN)) return failed(EINTR);
  if (fails(SHORT_READ)) n = MIN(n, 1);
  return syscall(SYS_read, fd, p, n);
}

ssize_t write(int fd, const void *p, size_t n) {
  if (fd != 2 && fails(WRITE_AGAIN)) return failed(EINTR);
  if (fd != 2 && fails(SHORT_WRITE)) n = MIN(n, 1);
  return syscall(SYS_write, fd, p, n);
}

int accept4(int fd, struct sockaddr *restrict at, socklen_t *restrict size, int flags) {
  if (fails(ACCEPT)) return (int)failed(EMFILE);
  return (int)syscall(SYS_accept4, fd, at, size, flags);
}

static CudaResult cuda_fails(void) {
  int64_t i = atomic_load(&plan->fault) - CUDA;
  return i >= 0 && i < CUDA_FAKE_CODES && fails(CUDA + i) ? cuda_fake_codes[i] : 0;
}

int main(int argc, char **argv) {
  static Platform faulty;
  const char *path = getenv("SERVE_FAULTS");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  Plan *p =
      fd < 0 ? MAP_FAILED : mmap(NULL, 2 * sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  bool engine = argc > 1 && !strncmp(argv[1], "--engine=", 9);
  if (p != MAP_FAILED) plan = &p[engine];
  faulty = platform_posix;
  faulty.alloc = faulty_alloc;
  platform = &faulty;
  if (engine && getenv("SERVE_FAULTS_CUDA")) {
    cuda_fake_begin();
    cuda_fake.fails = cuda_fails;
  }
  return serve_main(argc, argv);
}
