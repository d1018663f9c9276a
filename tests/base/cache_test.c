// cache_test.c -- code of kernels on disk: found again, never wrong, never more than its bound; and
// what becomes of kernels whose process dies, hangs, runs out of memory or talks nonsense.
#include "base/platform.h"
#include "codegen.h"
#include "base/cache.h"
#include "base/notice.h"
#include "targets/llvm/codegen.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// Paths in this process's scratch folder.
static char root[480], folder[500], script[500];

// Names the paths, and removes what an earlier test left there.
static void start_afresh(void) {
  char command[500];
  snprintf(root, sizeof root, "%s/cache_test", test_folder());
  snprintf(folder, sizeof folder, "%s/deep/er", root);
  snprintf(script, sizeof script, "%s/broken-codegen.sh", test_folder());
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  EXPECT_INT_EQ(system(command), 0);
}

static bool find(const char *key, char *out, int64_t *entry) {
  File f;
  Str code;
  bool found = cache_find(folder, str_of(key), &f, &code, entry);
  if (!found) return false;
  snprintf(out, 64, "%.*s", (int)code.n, code.p);
  file_close(&f);
  return true;
}

static CacheList list_all(Arena *a, bool check) {
  static Diag d;
  CacheList l;
  diag_init(&d);
  EXPECT_STATUS(cache_list(folder, check, a, &d, &l), TENON_OK);
  return l;
}

static void path_of(const CacheFile *f, char *out) { snprintf(out, 600, "%s/%s", folder, f->name); }

TEST(cache_keeps_and_finds) {
  Arena a;
  char code[64];
  int64_t entry = -1;
  arena_init(&a);
  start_afresh();
  EXPECT_INT_EQ(list_all(&a, true).n, 0);
  EXPECT(!find("one", code, &entry));
  EXPECT(cache_store(folder, STR("one"), STR("code of one"), 3));
  EXPECT(cache_store(folder, STR("two"), STR("code of two"), 0));
  EXPECT(find("one", code, &entry));
  EXPECT_STR_EQ(code, "code of one");
  EXPECT_INT_EQ(entry, 3);
  EXPECT(!find("thr", code, &entry));
  EXPECT(cache_store(folder, STR("one"), STR("again"), 1));
  EXPECT(find("one", code, &entry));
  EXPECT_STR_EQ(code, "again");
  EXPECT_INT_EQ(list_all(&a, true).n, 2);
  arena_deinit(&a);
}

static tenon_status damage(const char *path, const char *bytes, int64_t n, Diag *d) {
  return file_write_as(path, &(Str){bytes, n}, 1, WRITE_PRIVATE | WRITE_CACHED, d);
}

// Every changed bit, and every cut, makes the file absent; so does a file that is another key's.
TEST(cache_takes_damage_for_absence) {
  Arena a;
  static Diag d;
  char path[600], code[64];
  int64_t entry;
  File f;
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  EXPECT(cache_store(folder, STR("key"), STR("some code"), 2));
  CacheList l = list_all(&a, true);
  REQUIRE(l.n == 1);
  path_of(&l.file[0], path);
  EXPECT_STATUS(file_open(path, &f, &d), TENON_OK);
  int64_t n = f.size;
  char *bytes = arena_dup(&a, f.bytes, n);
  file_close(&f);
  for (int64_t i = 0; i < n * 8; i++) {
    bytes[i / 8] ^= (char)(1 << i % 8);
    EXPECT_STATUS(damage(path, bytes, n, &d), TENON_OK);
    if (find("key", code, &entry)) FAIL("bit %lld goes unnoticed", (long long)i);
    bytes[i / 8] ^= (char)(1 << i % 8);
  }
  for (int64_t cut = 0; cut < n; cut++) {
    EXPECT_STATUS(damage(path, bytes, cut, &d), TENON_OK);
    if (find("key", code, &entry)) FAIL("a cut to %lld goes unnoticed", (long long)cut);
  }
  EXPECT_INT_EQ(list_all(&a, true).file[0].whole, false);
  EXPECT(cache_store(folder, STR("key"), STR("some code"), 2));
  EXPECT(find("key", code, &entry));
  // As if the two had one hash.
  EXPECT(cache_store(folder, STR("other"), STR("other code"), 0));
  l = list_all(&a, true);
  REQUIRE(l.n == 2);
  char first[600], second[600];
  path_of(&l.file[0], first);
  path_of(&l.file[1], second);
  EXPECT_INT_EQ(rename(first, second), 0);
  EXPECT(!find("key", code, &entry) || !find("other", code, &entry));
  EXPECT_INT_EQ(list_all(&a, true).n, 1);
  arena_deinit(&a);
}

TEST(cache_stays_in_bounds) {
  Arena a;
  static Diag d;
  char key[16], code[1000], text[64];
  int64_t entry;
  CachePruned pruned;
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  memset(code, 'x', sizeof code);
  for (int i = 0; i < 20; i++) {
    snprintf(key, sizeof key, "key%d", i);
    EXPECT(cache_store(folder, str_of(key), (Str){code, sizeof code}, 0));
  }
  // All but the first three were used long ago.
  CacheList l = list_all(&a, false);
  for (int64_t i = 3; i < l.n; i++) {
    char path[600];
    path_of(&l.file[i], path);
    struct timespec t[2] = {{.tv_sec = 1000000 - i}, {.tv_sec = 1000000 - i}};
    EXPECT_INT_EQ(utimensat(AT_FDCWD, path, t, 0), 0);
  }
  EXPECT_STATUS(cache_prune(folder, 5 * (l.file[0].bytes + 1), &a, &d, &pruned), TENON_OK);
  EXPECT_INT_EQ(pruned.n, 15);
  CacheList left = list_all(&a, true);
  EXPECT_INT_EQ(left.n, 5);
  for (int64_t i = 0; i < 3; i++) EXPECT_STR_EQ(left.file[i].name, l.file[i].name);
  EXPECT_STR_EQ(left.file[3].name, l.file[3].name);
  // What a killed process leaves goes, what is not ours never.
  char stray[600], foreign[600];
  snprintf(stray, sizeof stray, "%s/.tenon-0123456789abcdef.tmp", folder);
  snprintf(foreign, sizeof foreign, "%s/notes.txt", folder);
  EXPECT_STATUS(file_write(foreign, "x", 1, &d), TENON_OK);
  EXPECT_STATUS(file_write(stray, "x", 1, &d), TENON_OK);
  EXPECT_INT_EQ(list_all(&a, false).nstray, 1);
  EXPECT_STATUS(cache_prune(folder, 1 << 20, &a, &d, &pruned), TENON_OK);
  EXPECT_INT_EQ(pruned.n, 1);
  EXPECT(access(stray, F_OK) && !access(foreign, F_OK));
  EXPECT_STATUS(cache_prune(folder, 0, &a, &d, &pruned), TENON_OK);
  EXPECT_INT_EQ(list_all(&a, false).n, 0);
  EXPECT(!find("key0", text, &entry));
  start_afresh();
  arena_deinit(&a);
}

// ---- whose it is ----

static bool noticed(const char *part, const char *remedy) {
  char text[1024];
  bool found = false;
  while (notice_take(text, sizeof text)) found |= strstr(text, part) && strstr(text, remedy);
  return found;
}

static int mode_of(const char *path) {
  struct stat st;
  return lstat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

// A cache with one kernel, whose path goes to `path`.
static void store_one(char *path) {
  Arena a;
  arena_init(&a);
  start_afresh();
  noticed("", "");
  EXPECT(cache_store(folder, STR("key"), STR("code"), 0));
  CacheList l = list_all(&a, false);
  if (l.n == 1) path_of(&l.file[0], path);
  EXPECT_INT_EQ(l.n, 1);
  arena_deinit(&a);
}

TEST(cache_is_made_private) {
  char path[600], above[500], code[64];
  int64_t entry;
  mode_t was = umask(0);
  store_one(path);
  EXPECT_INT_EQ(mode_of(path), 0600);
  EXPECT_INT_EQ(mode_of(folder), 0700);
  snprintf(above, sizeof above, "%s/deep", root);
  EXPECT_INT_EQ(mode_of(above), 0700);
  umask(was);
  EXPECT(find("key", code, &entry));
  EXPECT(!noticed("", ""));
}

// Each mode of the folder and of the file: those by which others may write are not used, and are
// mended by the remedy.
TEST(cache_that_others_may_write_to) {
  static const int modes[] = {0700, 0755, 0750, 0500, 0770, 0702, 0777, 0720};
  char path[600], code[64];
  int64_t entry;
  for (int i = 0; i < ARRAY_LEN(modes); i++) {
    bool open = modes[i] & 022;
    store_one(path);
    EXPECT_INT_EQ(chmod(folder, (mode_t)modes[i]), 0);
    if (find("key", code, &entry) == open) FAIL("a folder of mode %04o", modes[i]);
    EXPECT_INT_EQ(cache_usable(folder), !open);
    if (open) EXPECT(!cache_store(folder, STR("other"), STR("code"), 0));
    EXPECT_INT_EQ(chmod(folder, 0700), 0);
    EXPECT(find("key", code, &entry));
    EXPECT_INT_EQ(chmod(path, (mode_t)modes[i] | 0400), 0);
    if (find("key", code, &entry) == open) FAIL("a file of mode %04o", modes[i]);
    // Storing replaces it.
    EXPECT(cache_store(folder, STR("key"), STR("code"), 0));
    EXPECT(find("key", code, &entry));
    EXPECT_INT_EQ(mode_of(path), 0600);
  }
}

TEST(cache_says_once_what_it_does_not_use) {
  char path[600], code[64];
  int64_t entry;
  store_one(path);
  // A name of its own: what was said of another test's folder is not said again.
  char before[500];
  memcpy(before, folder, sizeof before);
  snprintf(folder, sizeof folder, "%s/said-once", root);
  EXPECT_INT_EQ(rename(before, folder), 0);
  EXPECT_INT_EQ(chmod(folder, 0777), 0);
  for (int i = 0; i < 3; i++) EXPECT(!find("key", code, &entry));
  EXPECT(noticed("mode 0777", "chmod go-w"));
  for (int i = 0; i < 3; i++) EXPECT(!find("key", code, &entry));
  EXPECT(!noticed("", ""));
}

static int64_t other_user(void) { return platform_posix.user() + 1; }

// As another user, without the rights to become one.
TEST(cache_of_another_user) {
  char path[600], code[64];
  int64_t entry;
  store_one(path);
  Platform p = platform_posix;
  p.user = other_user;
  platform = &p;
  EXPECT(!find("key", code, &entry));
  EXPECT(!cache_store(folder, STR("key"), STR("mine"), 0));
  EXPECT(!cache_usable(folder));
  platform = &platform_posix;
  EXPECT(noticed("belongs to user", "TENON_CACHE"));
  EXPECT(find("key", code, &entry));
  EXPECT_STR_EQ(code, "code");
}

// Nothing of it is removed either, whatever the rights, and the message says what to do.
TEST(cache_of_another_user_is_not_cleared) {
  static Diag d;
  char path[600], code[64];
  int64_t entry;
  CachePruned pruned;
  Arena a;
  Platform p = platform_posix;
  p.user = other_user;
  arena_init(&a);
  store_one(path);
  diag_init(&d);
  platform = &p;
  EXPECT_STATUS(cache_prune(folder, 0, &a, &d, &pruned), TENON_EINVAL);
  platform = &platform_posix;
  EXPECT_INT_EQ(pruned.n, 0);
  EXPECT_CONTAINS(d.text, "nothing is removed");
  EXPECT_CONTAINS(d.text, "TENON_CACHE");
  EXPECT(find("key", code, &entry));
  EXPECT_STATUS(cache_prune(folder, 0, &a, &d, &pruned), TENON_OK);
  EXPECT_INT_EQ(pruned.n, 1);
  arena_deinit(&a);
}

TEST(cache_of_another_user_for_root) {
  char path[600], code[64];
  int64_t entry;
  if (geteuid()) SKIP("only root can give files away");
  store_one(path);
  EXPECT_INT_EQ(chown(path, 12345, 12345), 0);
  EXPECT(!find("key", code, &entry));
  EXPECT_INT_EQ(chown(path, 0, 0), 0);
  EXPECT(find("key", code, &entry));
  EXPECT_INT_EQ(chown(folder, 12345, 12345), 0);
  EXPECT(!find("key", code, &entry));
  EXPECT(!cache_store(folder, STR("other"), STR("code"), 0));
  static Diag d;
  CachePruned pruned;
  Arena a;
  arena_init(&a);
  diag_init(&d);
  EXPECT_STATUS(cache_prune(folder, 0, &a, &d, &pruned), TENON_EINVAL);
  EXPECT_INT_EQ(access(path, F_OK), 0);
  // What others put into a folder of ours goes: it is the remedy that the notice names.
  EXPECT_INT_EQ(chown(folder, 0, 0), 0);
  EXPECT_INT_EQ(chown(path, 12345, 12345), 0);
  EXPECT_STATUS(cache_prune(folder, 0, &a, &d, &pruned), TENON_OK);
  EXPECT_INT_EQ(pruned.n, 1);
  arena_deinit(&a);
}

TEST(cache_follows_links_to_folders_alone) {
  char path[600], code[64], elsewhere[600], link[600];
  int64_t entry;
  store_one(path);
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
  EXPECT_INT_EQ(rename(path, elsewhere), 0);
  EXPECT_INT_EQ(symlink(elsewhere, path), 0);
  EXPECT(!find("key", code, &entry));
  EXPECT_INT_EQ(unlink(path), 0);
  EXPECT_INT_EQ(mkfifo(path, 0600), 0);
  EXPECT(!find("key", code, &entry));
  EXPECT_INT_EQ(unlink(path), 0);
  EXPECT_INT_EQ(rename(elsewhere, path), 0);
  // A link to the folder is fine: the folder that it leads to is looked at.
  snprintf(link, sizeof link, "%s/link", root);
  EXPECT_INT_EQ(symlink(folder, link), 0);
  File f;
  Str found;
  EXPECT(cache_find(link, STR("key"), &f, &found, &entry));
  file_close(&f);
  EXPECT_INT_EQ(chmod(folder, 0777), 0);
  EXPECT(!cache_find(link, STR("key"), &f, &found, &entry));
}

TEST(cache_folder_by_environment) {
  char was[3][4096] = {""}, got[4096];
  static const char *const names[] = {"TENON_CACHE", "XDG_CACHE_HOME", "HOME"};
  for (int i = 0; i < 3; i++)
    if (getenv(names[i])) snprintf(was[i], sizeof was[i], "%s", getenv(names[i]));
  setenv("TENON_CACHE", "/x/y", 1);
  EXPECT(cache_folder(got, sizeof got));
  EXPECT_STR_EQ(got, "/x/y");
  unsetenv("TENON_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT(cache_folder(got, sizeof got));
  EXPECT_STR_EQ(got, "/xdg/tenon");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/u", 1);
  EXPECT(cache_folder(got, sizeof got));
  EXPECT_STR_EQ(got, "/home/u/.cache/tenon");
  unsetenv("HOME");
  EXPECT(!cache_folder(got, sizeof got));
  for (int i = 0; i < 3; i++)
    if (was[i][0])
      setenv(names[i], was[i], 1);
    else
      unsetenv(names[i]);
}

// ---- processes that fail ----

static const char program[] = TENON_BINARY_DIR "/tenon-codegen";

static const char kernel_text[] = "kernel @k dims(n) (%x: f32[n], out %y: f32[n]) {\n"
                                  "  parallel i < n {\n"
                                  "    store %y[i] = exp(%x[i])\n"
                                  "  }\n"
                                  "}\n";

static const char *more_key;  // what else code follows from

static tenon_status build(const char *with, int64_t deadline_ms, const char *cache, Str text,
                          Diag *d, bool *cached) {
  Arena a;
  Machine m;
  Codegen *c;
  Code code[2];
  CodegenOptions o = {
      .program = with, .nprocesses = 2, .deadline_ns = deadline_ms * 1000000, .cache = cache};
  machine_host(&m);
  diag_init(d);
  TRY(codegen_create(&o, d, &c));
  arena_init(&a);
  Str both[2] = {text, text};
  tenon_status s =
      codegen_build_with(c, &m, CODE_IMAGE, both, 2, &(CodeCall){.key = more_key}, &a, code, d);
  if (!s && cached) *cached = code[0].cached && code[1].cached;
  codegen_release(c);
  arena_deinit(&a);
  return s;
}

static void write_script(const char *body) {
  static Diag d;
  char text[2000];
  diag_init(&d);
  int n = snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
  EXPECT_STATUS(file_write(script, text, n, &d), TENON_OK);
  chmod(script, 0755);
}

// One way to break, at a point that the random number chooses.
static void break_somewhere(int way, uint64_t r, int64_t *deadline_ms) {
  char body[1000];
  *deadline_ms = 20000;
  switch (way) {
  case 0:  // killed after some milliseconds
    snprintf(body, sizeof body,
             "( sleep 0.0%02d; kill -9 $$ ) >/dev/null 2>&1 </dev/null &\nexec %s", (int)(r % 60),
             program);
    break;
  case 1:  // its answer ends in the middle
    snprintf(body, sizeof body, "%s | head -c %d 2>/dev/null", program, (int)(r % 700));
    *deadline_ms = 400;
    break;
  case 2:  // its answer stops in the middle, and nothing follows
    snprintf(body, sizeof body, "%s | head -c %d 2>/dev/null\nexec sleep 100", program,
             (int)(r % 700));
    *deadline_ms = 150;
    break;
  case 3:  // little memory; a sanitizer that cannot start with it has nothing to report
    snprintf(body, sizeof body,
             "unset ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS\nulimit -v %d\nexec %s 2>/dev/null",
             4000 + (int)(r % 400000), program);
    break;
  case 4:  // nonsense
    snprintf(body, sizeof body, "head -c %d /dev/urandom 2>/dev/null", 64 + (int)(r % 1000));
    break;
  default:  // it takes nothing in
    snprintf(body, sizeof body, "exec sleep 100");
    *deadline_ms = 20 + (int64_t)(r % 60);
  }
  write_script(body);
}

TEST(codegen_that_breaks_is_an_error) {
  static Diag d;
  const char *asked = getenv("TENON_BREAKS");
  int n = asked ? atoi(asked) : 18;
  int64_t nerrors = 0;
  Str text = STR(kernel_text);
  if (!codegen_there()) SKIP("no tenon-codegen");
  start_afresh();
  tenon_status s = build(program, 60000, NULL, text, &d, NULL);
  if (s) FAIL("%s", d.text);
  for (int i = 0; i < n; i++) {
    int64_t deadline_ms;
    uint64_t r = hash_u64((uint64_t)i + 12345);
    break_somewhere(i % 6, r, &deadline_ms);
    s = build(script, deadline_ms, NULL, text, &d, NULL);
    nerrors += s != TENON_OK;
    if (s && !d.len) FAIL("break %d: status %d without a message", i, s);
    if (s && s != TENON_EINTERNAL && s != TENON_EIO && s != TENON_ENOMEM)
      FAIL("break %d: status %d: %s", i, s, d.text);
    if (i % 6 == 5 && build(program, 60000, NULL, text, &d, NULL))
      FAIL("after break %d: %s", i, d.text);
  }
  EXPECT(nerrors > n / 2);
  unlink(script);
}

// An option that code follows from (compile/options.def, KEY) makes another entry.
TEST(codegen_keys_its_cache_by_options) {
  static Diag d;
  bool cached = true;
  Str text = STR(kernel_text);
  char kept[520];
  if (!codegen_there()) SKIP("no tenon-codegen");
  snprintf(kept, sizeof kept, "%s/cache_key_test", test_folder());
  EXPECT_STATUS(build(program, 0, kept, text, &d, &cached), TENON_OK);
  more_key = "7:align=4";
  EXPECT_STATUS(build(program, 0, kept, text, &d, &cached), TENON_OK);
  EXPECT(!cached);
  EXPECT_STATUS(build(program, 0, kept, text, &d, &cached), TENON_OK);
  EXPECT(cached);
  more_key = NULL;
  EXPECT_STATUS(build(program, 0, kept, text, &d, &cached), TENON_OK);
  EXPECT(cached);
}

TEST(codegen_uses_its_cache) {
  static Diag d;
  bool cached = true;
  Str text = STR(kernel_text);
  if (!codegen_there()) SKIP("no tenon-codegen");
  start_afresh();
  EXPECT_STATUS(build(program, 0, root, text, &d, &cached), TENON_OK);
  EXPECT(!cached || !d.len);
  EXPECT_STATUS(build(program, 0, root, text, &d, &cached), TENON_OK);
  EXPECT(cached);
  // Another program that makes code has another key.
  write_script("exec " TENON_BINARY_DIR "/tenon-codegen");
  EXPECT_STATUS(build(script, 0, root, text, &d, &cached), TENON_OK);
  Arena a;
  CacheList l;
  arena_init(&a);
  EXPECT_STATUS(cache_list(root, true, &a, &d, &l), TENON_OK);
  EXPECT_INT_EQ(l.n, 2);
  arena_deinit(&a);
  // Found without the process: this one cannot make code.
  write_script("exit 1");
  EXPECT_STATUS(build(script, 0, root, text, &d, &cached), TENON_EINTERNAL);
  unlink(script);
}
