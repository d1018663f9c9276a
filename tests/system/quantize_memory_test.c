// quantize_memory_test.c -- quantising where memory and disks end: every allocation fails in turn,
// or a share of them; each write, sync and rename fails, and both files stay as they were.
#include "test.h"
#include "base/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <stdatomic.h>

static const char digits[] = TENON_SOURCE_DIR "/examples/digits/digits.onnx";

// ---- memory ----

static atomic_int_least64_t calls, blocks, fail_at = -1;
static bool forever;

static void *test_alloc(int64_t bytes) {
  int64_t k = atomic_fetch_add(&calls, 1), at = atomic_load(&fail_at);
  if (at >= 0 && (forever ? k >= at : k == at)) return NULL;
  void *p = platform_posix.alloc(bytes);
  if (p) atomic_fetch_add(&blocks, 1);
  return p;
}

static void test_free(void *p, int64_t bytes) {
  atomic_fetch_sub(&blocks, 1);
  platform_posix.free(p, bytes);
}

enum { SAMPLES = 12, PIXELS = 64 };
static int next_sample(tenon_tensor *inputs, size_t n, int64_t *label, void *user) {
  static float image[PIXELS];
  int *at = user;
  if (*at == SAMPLES || n != 1) return *at == SAMPLES ? 0 : -1;
  for (int i = 0; i < PIXELS; i++) image[i] = (float)((i * 7 + *at * 13) % 17);
  *label = (*at)++ % 10;
  inputs[0] = (tenon_tensor){.data = image, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {8, 8}};
  return 1;
}

static tenon_error error;

static tenon_status quantize(const tenon_model *m, const char *to, uint64_t *hash) {
  int at = 0;
  tenon_dataset data = {next_sample, &at};
  tenon_quantize_options o = {.struct_size = sizeof o, .to = to, .target = "ref", .threads = 1};
  o.metric = "rms";
  o.allow_slower = 1;
  tenon_quantized *q = NULL;
  tenon_quantized_info info;
  tenon_status s = tenon_quantize(m, &data, &o, &q, &error);
  EXPECT((s == TENON_OK) == (q != NULL));
  if (s) return s;
  tenon_quantized_describe(q, &info);
  *hash = hash_bytes(info.model, (int64_t)info.model_size, 1);
  tenon_quantized_free(q);
  return s;
}

// Without a failure the same model comes out as ever, also behind one.
static void fail_allocations(const char *to, int64_t points) {
  tenon_model *m;
  uint64_t want = 0, got = 0;
  static Platform table;
  REQUIRE(tenon_model_open(digits, &m, &error) == TENON_OK);
  table = platform_posix;
  table.alloc = test_alloc;
  table.free = test_free;
  platform = &table;
  calls = blocks = 0;
  EXPECT_STATUS(quantize(m, to, &want), TENON_OK);
  int64_t all = calls, failed = 0;
  for (int64_t k = 0; k < all; k += 1 + all / points) {
    forever = k & 1;
    calls = 0;
    fail_at = k;
    tenon_status s = quantize(m, to, &got);
    fail_at = -1;
    if (s != TENON_OK && s != TENON_ENOMEM)
      FAIL("%s: allocation %lld: %s", to, (long long)k, error.message);
    if (s) failed++;
    if (!s) EXPECT(got == want);
    if (blocks) FAIL("%s: allocation %lld: %lld blocks leak", to, (long long)k, (long long)blocks);
    blocks = 0;
  }
  EXPECT_STATUS(quantize(m, to, &got), TENON_OK);
  platform = &platform_posix;
  EXPECT(got == want && failed > 0);
  tenon_model_close(m);
}

// QUANTIZE_POINTS: how many allocations of each choice fail; a large number, each in turn.
TEST(quantize_survives_failing_allocations) {
#ifdef UNDER_ASAN
  enum { POINTS = 4 };
#else
  enum { POINTS = 12 };
#endif
  const char *asked = getenv("QUANTIZE_POINTS");
  int64_t points = asked ? strtoll(asked, NULL, 10) : POINTS;
  fail_allocations("int8", points);
  fail_allocations("w4", points);
}

// ---- disks ----

typedef enum { ON_CREATE, ON_WRITE, ON_SYNC, DISK_CALLS } DiskCall;
static int disk_calls, disk_fails, disk_kind;
static bool fails(DiskCall kind) { return (int)kind == disk_kind && disk_calls++ == disk_fails; }

static int full_create(const char *path, int mode, int *fd) {
  return fails(ON_CREATE) ? EDQUOT : platform_posix.create(path, mode, fd);
}
// Half of it is written before the disk is full.
static int full_write(int fd, const void *p, int64_t n, int64_t *done) {
  if (!fails(ON_WRITE)) return platform_posix.write(fd, p, MIN(n, 100), done);
  *done = 0;
  return ENOSPC;
}
static int full_sync(int fd) { return fails(ON_SYNC) ? EIO : platform_posix.sync(fd); }

static void expect_text(const char *path, const char *want) {
  File f;
  Diag d;
  diag_init(&d);
  REQUIRE(file_open(path, &f, &d) == TENON_OK);
  EXPECT(f.size == (int64_t)strlen(want) && !memcmp(f.bytes, want, strlen(want)));
  file_close(&f);
}

TEST(both_files_or_none) {
  char model[64], certificate[80], text[600], more[300];
  Diag d;
  snprintf(model, sizeof model, "/tmp/tenon-both-%llx", (unsigned long long)platform->random_u64());
  snprintf(certificate, sizeof certificate, "%s.json", model);
  const char *const path[] = {model, certificate};
  memset(text, 'm', sizeof text), memset(more, 'c', sizeof more);
  text[599] = more[299] = 0;
  const Str old[] = {STR("old model"), STR("old certificate")},
            now[] = {str_of(text), str_of(more)};
  Platform table = platform_posix;
  table.create = full_create;
  table.write = full_write;
  table.sync = full_sync;
  int failed = 0;
  for (disk_kind = 0; disk_kind < DISK_CALLS; disk_kind++) {
    platform = &platform_posix;
    diag_init(&d);
    REQUIRE(file_write_both(path, old, &d) == TENON_OK);
    platform = &table;
    for (disk_fails = 0;; disk_fails++) {
      disk_calls = 0;
      diag_init(&d);
      if (!file_write_both(path, now, &d)) break;
      failed++;
      EXPECT(d.text[0]);
      expect_text(model, "old model");
      expect_text(certificate, "old certificate");
    }
  }
  platform = &platform_posix;
  EXPECT_INT_EQ(failed, 2 + 9 + 2);
  expect_text(model, text);
  expect_text(certificate, more);
  platform->unlink(model);
  platform->unlink(certificate);
}
