// file.c -- whole files, mapped for reading.  file_write.c writes them.
#include "base/platform.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

ErrorText error_text(int err) {
  ErrorText t;
  if (strerror_r(err, t.s, sizeof(t.s))) snprintf(t.s, sizeof(t.s), "error %d", err);
  return t;
}

static tenon_status io_fail(Diag *d, const char *path, const char *what, int err) {
  if (err == ENOMEM) return fail(d, TENON_ENOMEM, (Where){.file = path}, "%s: out of memory", what);
  return fail(d, TENON_EIO, (Where){.file = path}, "%s: %s", what, error_text(err).s);
}

// Standard input, to its end, in a block that doubles.
static tenon_status read_stdin(File *out, Diag *d) {
  int64_t cap = 1 << 16, n = 0, got;
  uint8_t *p = mem_alloc(cap);
  int err = p ? 0 : ENOMEM;
  while (!err) {
    if (n == cap) {
      int64_t more;
      uint8_t *q = ck_mul(cap, 2, &more) ? mem_alloc(more) : NULL;
      if (!q) {
        err = ENOMEM;
        break;
      }
      memcpy(q, p, (size_t)n);
      mem_free(p, cap);
      p = q;
      cap = more;
    }
    err = platform->read(STDIN_FILENO, p + n, cap - n, &got);
    if (err || got <= 0) break;
    n += got;
  }
  // The size given back with the block must be the size that was asked for.
  uint8_t *exact = err || !n ? NULL : mem_alloc(n);
  if (exact) memcpy(exact, p, (size_t)n);
  if (!err && n && !exact) err = ENOMEM;
  mem_free(p, cap);
  if (err) return io_fail(d, "-", "cannot read standard input", err);
  *out = (File){.bytes = exact, .size = n};
  return TENON_OK;
}

tenon_status file_map(int fd, int64_t size, const char *path, File *out, Diag *d) {
  const void *p = NULL;
  int err = size > 0 ? platform->map(fd, size, &p) : 0;
  if (err) return io_fail(d, path, "cannot map", err);
  *out = (File){.bytes = p, .size = MAX(size, 0), .mapped = size > 0};
  return TENON_OK;
}

tenon_status file_open(const char *path, File *out, Diag *d) {
  *out = (File){0};
  if (!strcmp(path, "-")) return read_stdin(out, d);
  int fd;
  int64_t size;
  int err = platform->open_read(path, &fd, &size);
  if (err == EINVAL) return fail(d, TENON_EIO, (Where){.file = path}, "not a regular file");
  if (err) return io_fail(d, path, "cannot open", err);
  tenon_status s = file_map(fd, size, path, out, d);
  platform->close(fd);
  return s;
}

void file_close(File *f) {
  if (f->mapped)
    platform->unmap(f->bytes, f->size);
  else
    mem_free((void *)f->bytes, f->size);
  *f = (File){0};
}
