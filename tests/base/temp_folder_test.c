// temp_folder_test.c -- a folder for what another program writes: private, removed with its files,
// also after a kill; each call that fails.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // setenv
#endif
#include "base/platform.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char where[400], was[4096];

static void start_afresh(void) {
  char command[900];
  const char *tmp = getenv("TMPDIR");
  snprintf(was, sizeof was, "%s", tmp ? tmp : "");
  snprintf(where, sizeof where, "%s/temp_folder", test_folder());
  snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", where, where);
  EXPECT_INT_EQ(system(command), 0);
  setenv("TMPDIR", where, 1);
}
static void end(void) { was[0] ? setenv("TMPDIR", was, 1) : unsetenv("TMPDIR"); }

static int names_in(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  if (!d) return -1;
  for (struct dirent *e; (e = readdir(d));)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(d);
  return n;
}

static void write_text(const char *path) {
  FILE *f = fopen(path, "w");
  REQUIRE(f != NULL);
  fputs("text", f);
  fclose(f);
}

TEST(temp_folder_is_private_and_goes) {
  TempFolder f;
  Diag d;
  Arena a;
  struct stat st;
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  REQUIRE(!temp_folder_make(&f, &d));
  EXPECT(!stat(f.path, &st) && (st.st_mode & 07777) == 0700);
  const char *one = temp_folder_file(&f, 1, &a), *two = temp_folder_file(&f, 2, &a);
  EXPECT(strcmp(one, two) != 0);
  write_text(one);
  EXPECT_STATUS(file_write(two, "text", 4, &d), TENON_OK);
  EXPECT(!access(one, F_OK));  // a write beside it does not take it for another writer's
  temp_folder_free(&f);
  temp_folder_free(&f);
  EXPECT_INT_EQ(names_in(where), 0);
  arena_deinit(&a);
  end();
}

// One whose owner is gone is removed by the next; one that is in use is not, nor what has another
// name.
TEST(temp_folder_of_the_dead_goes) {
  TempFolder live, dead, next;
  Diag d;
  Arena a;
  char other[5000];
  arena_init(&a);
  diag_init(&d);
  start_afresh();
  REQUIRE(!temp_folder_make(&live, &d));
  REQUIRE(!temp_folder_make(&dead, &d));
  EXPECT_INT_EQ(names_in(where), 2);
  write_text(temp_folder_file(&live, 1, &a));
  write_text(temp_folder_file(&dead, 1, &a));
  platform->close(dead.fd);  // what a kill does
  REQUIRE(!temp_folder_make(&next, &d));
  EXPECT_INT_EQ(names_in(where), 2);
  EXPECT(!access(temp_folder_file(&live, 1, &a), F_OK));
  EXPECT(access(dead.path, F_OK) != 0);
  // A folder of this form that leads elsewhere, and one with a file that is nobody's.
  snprintf(other, sizeof other, "%s/own", where);
  EXPECT(!mkdir(other, 0700));
  snprintf(other, sizeof other, "%s/own/file", where);
  write_text(other);
  snprintf(other, sizeof other, "%s/.tenon-00000000000000aa.tmp", where);
  EXPECT(!symlink("own", other));
  platform->close(next.fd);
  snprintf(other, sizeof other, "%s/notes.txt", next.path);
  write_text(other);
  REQUIRE(!temp_folder_make(&dead, &d));
  EXPECT(!access(other, F_OK));
  snprintf(other, sizeof other, "%s/own/file", where);
  EXPECT(!access(other, F_OK));
  temp_folder_free(&dead);
  temp_folder_free(&live);
  arena_deinit(&a);
  end();
}

// ---- faults ----

static int fault_err, made_faults;
static int fail_folder(const char *path, int mode) {
  (void)path, (void)mode;
  made_faults++;
  return fault_err;
}
static int fail_create(const char *path, int mode, int *fd) {
  (void)path, (void)mode, (void)fd;
  made_faults++;
  return fault_err;
}
static int fail_info(int fd, FileInfo *out) {
  (void)fd, (void)out;
  made_faults++;
  return fault_err;
}
static int fail_lock(int fd) {
  (void)fd;
  made_faults++;
  return fault_err;
}
static int fail_names(const char *folder, NameFn *fn, void *ctx) {
  (void)folder, (void)fn, (void)ctx;
  made_faults++;
  return fault_err;
}

TEST(temp_folder_faults) {
  static const int errors[] = {EACCES, ENOSPC, EROFS, EMFILE, ENOMEM, EEXIST, ENOENT};
  const Platform *old = platform;
  for (int64_t e = 0; e < ARRAY_LEN(errors); e++)
    for (int step = 0; step < 5; step++) {
      Platform p = *old;
      TempFolder f;
      Diag d;
      diag_init(&d);
      start_afresh();
      fault_err = errors[e];
      made_faults = 0;
      if (step == 0) p.make_folder = fail_folder;
      if (step == 1) p.create = fail_create;
      if (step == 2) p.info_of = fail_info;
      if (step == 3) p.lock = fail_lock;    // a file system without locks
      if (step == 4) p.names = fail_names;  // nothing is swept
      platform = &p;
      tenon_status s = temp_folder_make(&f, &d);
      platform = old;
      EXPECT(made_faults > 0);
      EXPECT_STATUS(s, step >= 3 ? TENON_OK : errors[e] == ENOMEM ? TENON_ENOMEM : TENON_EIO);
      if (!s) temp_folder_free(&f);
      // What could not be locked or looked at is left to the next, which has no faults.
      diag_init(&d);
      REQUIRE(!temp_folder_make(&f, &d));
      temp_folder_free(&f);
      EXPECT_INT_EQ(names_in(where), 0);
      end();
    }
}
