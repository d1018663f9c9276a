// cache_archive_test.c -- archives of kernels: what is taken, what is skipped, and that damage
// imports nothing; folders that are only read.
#include "base/cache.h"
#include "base/notice.h"
#include "base/platform.h"
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[400], from[450], to[450], archive[450];
static const CacheMaker here = {
    .maker = {"tenon-codegen 12", 16}, .machine = {"x86 zen", 7}, .compiler = {"tenon 1 ab", 10}};

static void start_afresh(void) {
  char command[900];
  snprintf(root, sizeof root, "%s/cache_archive_test", test_folder());
  snprintf(from, sizeof from, "%s/from", root);
  snprintf(to, sizeof to, "%s/to", root);
  snprintf(archive, sizeof archive, "%s/a.kernels", root);
  snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", root, root);
  EXPECT_INT_EQ(system(command), 0);
}

static bool has(const char *folder, const char *key) {
  File f;
  Str code;
  int64_t entry;
  if (!cache_find(folder, str_of(key), &f, &code, &entry)) return false;
  bool same = str_eq(code, STR("code")) && entry == 2;
  file_close(&f);
  return same;
}

// Two for here, one of each kind that is not, and one of a device.
static const char *const keys[] = {
    "tenon-codegen 12\nx86 zen\none", "tenon-codegen 12\nx86 zen\ntwo",
    "tenon-codegen 11\nx86 zen\none", "tenon-codegen 12\nx86 skylake\none",
    "nvrtc 13.0\nsm_90a\none",        "no lines",
};
static void fill(const char *folder, int first, int last) {
  for (int i = first; i <= last; i++) EXPECT(cache_store(folder, str_of(keys[i]), STR("code"), 2));
}

TEST(cache_archives_keep_what_fits_here) {
  Arena a;
  Diag d;
  CacheMoved m;
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  fill(from, 0, 5);
  EXPECT_STATUS(cache_export(from, archive, &a, &d, &m), TENON_OK);
  EXPECT_INT_EQ(m.n, 6);
  fill(to, 1, 1);
  EXPECT_STATUS(cache_import(archive, to, &here, &a, &d, &m), TENON_OK);
  EXPECT_INT_EQ(m.n, 3);
  EXPECT_INT_EQ(m.there, 1);
  EXPECT_INT_EQ(m.other_version, 1);
  EXPECT_INT_EQ(m.other_machine, 1);
  static const bool taken[] = {true, true, false, false, true, true};
  for (int i = 0; i < 6; i++)
    if (has(to, keys[i]) != taken[i]) FAIL("%s", keys[i]);
  arena_deinit(&a);
}

static Str read_all(const char *path, Arena *a) {
  Diag d;
  File f;
  diag_init(&d);
  if (file_open(path, &f, &d)) {
    FAIL("%s", d.text);
    return (Str){0};
  }
  Str s = {arena_dup(a, f.bytes, f.size), f.size};
  file_close(&f);
  return s;
}

// Merging is union: in any order, with whatever is twice, the same bytes.
TEST(cache_archives_merge_to_the_same_bytes) {
  Arena a;
  Diag d;
  CacheMoved m;
  char part[2][500], both[2][500];
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  for (int i = 0; i < 2; i++) {
    char folder[500];
    snprintf(folder, sizeof folder, "%s/f%d", root, i);
    snprintf(part[i], sizeof part[i], "%s/part%d", root, i);
    snprintf(both[i], sizeof both[i], "%s/both%d", root, i);
    fill(folder, i ? 2 : 0, i ? 5 : 3);
    fill(from, i ? 4 : 0, i ? 5 : 3);
    EXPECT_STATUS(cache_export(folder, part[i], &a, &d, &m), TENON_OK);
  }
  EXPECT_STATUS(cache_merge((const char *[]){part[0], part[1]}, 2, both[0], &a, &d, &m), TENON_OK);
  EXPECT_INT_EQ(m.n, 6);
  EXPECT_INT_EQ(m.there, 2);
  EXPECT_STATUS(cache_merge((const char *[]){part[1], part[0]}, 2, both[1], &a, &d, &m), TENON_OK);
  EXPECT_STATUS(cache_export(from, archive, &a, &d, &m), TENON_OK);
  EXPECT(str_eq(read_all(both[0], &a), read_all(both[1], &a)));
  EXPECT(str_eq(read_all(both[0], &a), read_all(archive, &a)));
  arena_deinit(&a);
}

static int64_t count(const char *folder, Arena *a) {
  CacheList l;
  Diag d;
  diag_init(&d);
  EXPECT_STATUS(cache_list(folder, false, a, &d, &l), TENON_OK);
  return l.n;
}

// Every changed byte and every cut: refused, and nothing is stored.
TEST(cache_archives_that_are_damaged_import_nothing) {
  Arena a;
  Diag d;
  CacheMoved m;
  int64_t wrong = 0;
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  fill(from, 0, 1);
  EXPECT_STATUS(cache_export(from, archive, &a, &d, &m), TENON_OK);
  Str whole = read_all(archive, &a);
  for (int64_t i = 0; i < 2 * whole.n; i++) {
    char *bytes = arena_dup(&a, whole.p, whole.n);
    int64_t n = i < whole.n ? i : whole.n;
    if (i >= whole.n) bytes[i - whole.n] ^= 0x21;
    diag_init(&d);
    EXPECT_STATUS(file_write(archive, bytes, n, &d), TENON_OK);
    wrong += !cache_import(archive, to, &here, &a, &d, &m) || m.n;
  }
  EXPECT_INT_EQ(wrong, 0);
  EXPECT_INT_EQ(count(to, &a), 0);
  arena_deinit(&a);
}

static int64_t other_user(void) { return platform_posix.user() + 1; }

// The folders of TENON_CACHE_PATH are read in order, and stay as they are.
TEST(cache_path_is_read_only) {
  Arena a;
  char path[1000];
  arena_init(&a);
  start_afresh();
  fill(from, 0, 1);
  snprintf(path, sizeof path, "%s/absent::%s", root, from);
  setenv("TENON_CACHE_PATH", path, 1);
  EXPECT(has(to, keys[0]) && !has(to, keys[2]));
  EXPECT_INT_EQ(count(to, &a), 0);
  EXPECT(cache_store(to, str_of(keys[2]), STR("code"), 2));
  EXPECT_INT_EQ(count(from, &a), 2);
  // Others may write to it: not used.
  EXPECT_INT_EQ(chmod(from, 0777), 0);
  EXPECT(!has(to, keys[0]));
  EXPECT_INT_EQ(chmod(from, 0755), 0);
  EXPECT(has(to, keys[0]));
  // It belongs to neither us nor root.
  Platform p = platform_posix;
  p.user = other_user;
  platform = &p;
  EXPECT(has(to, keys[0]) == !platform_posix.user());
  platform = &platform_posix;
  unsetenv("TENON_CACHE_PATH");
  EXPECT(!has(to, keys[0]));
  arena_deinit(&a);
}
