// file_write_test.c -- the one writer of files: every step made to fail, every kind of target, many
// writers, dead ones.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // flock
#endif
#include "test.h"
#include "base/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- a folder of this test ----

static char folder[400];

static void start_afresh(void) {
  char command[900];
  snprintf(folder, sizeof folder, "%s/file_write", test_folder());
  snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", folder, folder);
  EXPECT_INT_EQ(system(command), 0);
}

static const char *in_folder(const char *name) {
  static char path[4][800];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static int count_names(const char *in, bool temporary) {
  int n = 0;
  DIR *d = opendir(in);
  if (!d) return -1;
  for (struct dirent *e; (e = readdir(d));)
    n += e->d_name[0] == '.' && (!e->d_name[1] || !strcmp(e->d_name, "..")) ? 0
         : temporary ? file_is_temporary(e->d_name)
                     : 1;
  closedir(d);
  return n;
}

static bool holds(const char *path, const char *text) {
  static Diag d;
  File f;
  diag_init(&d);
  if (file_open(path, &f, &d)) return false;
  bool same = f.size == (int64_t)strlen(text) && !memcmp(f.bytes, text, (size_t)f.size);
  file_close(&f);
  return same;
}

static int mode_of(const char *path) {
  struct stat st;
  return stat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

static tenon_status save(const char *path, const char *text) {
  static _Thread_local Diag d;
  diag_init(&d);
  return file_write(path, text, (int64_t)strlen(text), &d);
}

static void plant(const char *name, const char *text) {
  FILE *f = fopen(in_folder(name), "w");
  REQUIRE(f);
  fputs(text, f);
  fclose(f);
}

// ---- faults ----

typedef enum {
  AT_INFO,
  AT_INFO_OF,
  AT_CREATE,
  AT_LOCK,
  AT_WRITE,
  AT_SET_MODE,
  AT_SET_OWNER,
  AT_SYNC,
  AT_SYNC_FOLDER,
  AT_RENAME,
  AT_READ_LINK,
  AT_NAMES,
  AT_UNLINK,
  AT_CLOSE,
  AT_OPEN_WRITE,
  STEPS
} Step;
static const char *const step_name[STEPS] = {
    "info",        "info_of", "create",    "lock",  "write",  "set_mode", "set_owner", "sync",
    "sync_folder", "rename",  "read_link", "names", "unlink", "close",    "open_write"};

static Step fail_step;
static int fail_at, fail_errno;  // the fail_at-th call of the step gives fail_errno
static int calls[STEPS], open_files;
static bool renamed;

static bool fails(Step s) { return ++calls[s] == fail_at && s == fail_step; }

static int fault_info(const char *path, FileInfo *out) {
  return fails(AT_INFO) ? fail_errno : platform_posix.info(path, out);
}
static int fault_info_of(int fd, FileInfo *out) {
  return fails(AT_INFO_OF) ? fail_errno : platform_posix.info_of(fd, out);
}
static int fault_create(const char *path, int mode, int *out_fd) {
  if (fails(AT_CREATE)) return fail_errno;
  int err = platform_posix.create(path, mode, out_fd);
  open_files += !err;
  return err;
}
static int fault_open_write(const char *path, bool follow, int *out_fd) {
  if (fails(AT_OPEN_WRITE)) return fail_errno;
  int err = platform_posix.open_write(path, follow, out_fd);
  open_files += !err;
  return err;
}
static int fault_open_read(const char *path, int *out_fd, int64_t *out_size) {
  int err = platform_posix.open_read(path, out_fd, out_size);
  open_files += !err;
  return err;
}
static int fault_lock(int fd) { return fails(AT_LOCK) ? fail_errno : platform_posix.lock(fd); }
// A disk that is full takes a part first; other writes take a few bytes.
static int fault_write(int fd, const void *p, int64_t bytes, int64_t *out_done) {
  if (fails(AT_WRITE)) return fail_errno;
  return platform_posix.write(fd, p, MIN(bytes, 7), out_done);
}
static int fault_set_mode(int fd, int mode) {
  return fails(AT_SET_MODE) ? fail_errno : platform_posix.set_mode(fd, mode);
}
static int fault_set_owner(int fd, int64_t owner, int64_t group) {
  return fails(AT_SET_OWNER) ? fail_errno : platform_posix.set_owner(fd, owner, group);
}
// Nothing waits for the disk here: there are too many saves.
static int fault_sync(int fd) {
  (void)fd;
  return fails(AT_SYNC) ? fail_errno : 0;
}
static int fault_sync_folder(const char *path) {
  (void)path;
  return fails(AT_SYNC_FOLDER) ? fail_errno : 0;
}
static int fault_rename(const char *from, const char *to) {
  if (fails(AT_RENAME)) return fail_errno;
  int err = platform_posix.rename(from, to);
  renamed |= !err;
  return err;
}
static int fault_read_link(const char *path, char *out, int64_t cap) {
  return fails(AT_READ_LINK) ? fail_errno : platform_posix.read_link(path, out, cap);
}
static int fault_names(const char *in, NameFn *fn, void *ctx) {
  return fails(AT_NAMES) ? fail_errno : platform_posix.names(in, fn, ctx);
}
static int fault_unlink(const char *path) {
  return fails(AT_UNLINK) ? fail_errno : platform_posix.unlink(path);
}
static int fault_close(int fd) {
  open_files--;
  int err = platform_posix.close(fd);
  return fails(AT_CLOSE) ? fail_errno : err;
}

static Platform with_faults(void) {
  Platform p = platform_posix;
  p.info = fault_info;
  p.info_of = fault_info_of;
  p.create = fault_create;
  p.open_read = fault_open_read;
  p.open_write = fault_open_write;
  p.lock = fault_lock;
  p.write = fault_write;
  p.set_mode = fault_set_mode;
  p.set_owner = fault_set_owner;
  p.sync = fault_sync;
  p.sync_folder = fault_sync_folder;
  p.rename = fault_rename;
  p.read_link = fault_read_link;
  p.names = fault_names;
  p.unlink = fault_unlink;
  p.close = fault_close;
  return p;
}

// One save with a fault, beside a temporary file of a killed writer.  False: the step has no such
// call.
static bool save_with_fault(bool there, Step step, int k, int err) {
  static const char old_text[] = "the old text", new_text[] = "another text, and a longer one";
  Platform p = with_faults();
  const char *path = in_folder("target");
  unlink(path);
  fail_at = 0;
  platform = &p;
  if (there) EXPECT_STATUS(save(path, old_text), TENON_OK);
  plant(".tenon-00000000000000aa.tmp", "dead");
  memset(calls, 0, sizeof calls);
  fail_step = step;
  fail_at = k;
  fail_errno = err;
  renamed = false;
  open_files = 0;
  tenon_status s = save(path, new_text);
  bool reached = calls[step] >= k, was_renamed = renamed;
  int still_open = open_files;
  fail_at = 0;
  if (s ? was_renamed && step != AT_SYNC_FOLDER : !was_renamed)
    FAIL("%s %d, errno %d: says %s", step_name[step], k, err, status_name(s));
  if (!holds(path, was_renamed ? new_text : old_text) && (there || was_renamed))
    FAIL("%s %d, errno %d: torn", step_name[step], k, err);
  if (!there && !was_renamed && !access(path, F_OK))
    FAIL("%s %d, errno %d: half a file", step_name[step], k, err);
  if (err == EINTR && s && step != AT_NAMES)
    FAIL("%s %d: an interrupted call ends the write", step_name[step], k);
  if (still_open) FAIL("%s %d, errno %d: a file stays open", step_name[step], k, err);
  if (!reached && s) FAIL("%s without a fault: %s", step_name[step], status_name(s));
  EXPECT_STATUS(save(path, "again"), TENON_OK);
  EXPECT(holds(path, "again"));
  if (count_names(folder, false) != 1)
    FAIL("%s %d, errno %d: left behind", step_name[step], k, err);
  platform = &platform_posix;
  return reached;
}

TEST(file_write_with_every_fault) {
  static const int errors[] = {EIO, ENOSPC, EINTR, EDQUOT, EACCES, ENOMEM};
  int tried = 0;
  start_afresh();
  for (int there = 0; there < 2; there++)
    for (int step = 0; step < STEPS; step++)
      for (int i = 0; i < ARRAY_LEN(errors); i++)
        for (int k = 1; save_with_fault(there, (Step)step, k, errors[i]); k++) tried++;
  EXPECT(tried > 150);
}

static int take_nothing(int fd, const void *p, int64_t bytes, int64_t *out_done) {
  (void)fd, (void)p, (void)bytes;
  *out_done = 0;
  return 0;
}

TEST(file_write_that_takes_nothing_ends) {
  Platform p = platform_posix;
  start_afresh();
  EXPECT_STATUS(save(in_folder("a"), "old"), TENON_OK);
  p.write = take_nothing;
  platform = &p;
  EXPECT_STATUS(save(in_folder("a"), "new"), TENON_EIO);
  platform = &platform_posix;
  EXPECT(holds(in_folder("a"), "old"));
  EXPECT_INT_EQ(count_names(folder, false), 1);
}

// ---- targets ----

TEST(file_write_keeps_modes) {
  static const int modes[] = {0644, 0600, 0640, 0444, 0755, 0666, 0200};
  start_afresh();
  mode_t was = umask(027);
  EXPECT_STATUS(save(in_folder("new"), "x"), TENON_OK);
  EXPECT_INT_EQ(mode_of(in_folder("new")), 0640);
  static Diag d;
  diag_init(&d);
  Str text = STR("#!");
  EXPECT_STATUS(file_write_as(in_folder("program"), &text, 1, WRITE_EXECUTABLE, &d), TENON_OK);
  EXPECT_INT_EQ(mode_of(in_folder("program")), 0750);
  for (int i = 0; i < ARRAY_LEN(modes); i++) {
    EXPECT_STATUS(save(in_folder("a"), "x"), TENON_OK);
    EXPECT_INT_EQ(chmod(in_folder("a"), (mode_t)modes[i]), 0);
    EXPECT_STATUS(save(in_folder("a"), "y"), TENON_OK);
    EXPECT_INT_EQ(mode_of(in_folder("a")), modes[i]);
  }
  EXPECT_STATUS(file_write_as(in_folder("a"), &text, 1, WRITE_PRIVATE, &d), TENON_OK);
  EXPECT_INT_EQ(mode_of(in_folder("a")), 0600);
  if (geteuid() == 0) {
    struct stat st;
    EXPECT_INT_EQ(chown(in_folder("a"), 12345, 23456), 0);
    EXPECT_STATUS(save(in_folder("a"), "z"), TENON_OK);
    EXPECT(!stat(in_folder("a"), &st) && st.st_uid == 12345 && st.st_gid == 23456);
    EXPECT_INT_EQ(mode_of(in_folder("a")), 0600);
  }
  umask(was);
}

TEST(file_write_follows_links) {
  struct stat st;
  start_afresh();
  EXPECT_INT_EQ(mkdir(in_folder("sub"), 0700), 0);
  EXPECT_INT_EQ(mkdir(in_folder("other"), 0700), 0);
  EXPECT_INT_EQ(symlink("../other/target", in_folder("sub/link")), 0);
  EXPECT_INT_EQ(symlink("sub/link", in_folder("second")), 0);
  EXPECT_INT_EQ(symlink("loop", in_folder("loop")), 0);
  // To a file that is not there, then to one that is.
  for (int i = 0; i < 2; i++) {
    EXPECT_STATUS(save(in_folder("second"), i ? "22" : "1"), TENON_OK);
    EXPECT(!lstat(in_folder("second"), &st) && S_ISLNK(st.st_mode));
    EXPECT(!lstat(in_folder("sub/link"), &st) && S_ISLNK(st.st_mode));
    EXPECT(!lstat(in_folder("other/target"), &st) && S_ISREG(st.st_mode) && st.st_size == i + 1);
  }
  EXPECT_STATUS(save(in_folder("loop"), "x"), TENON_EIO);
  EXPECT_STATUS(save(in_folder("sub"), "x"), TENON_EIO);
  EXPECT_STATUS(save(in_folder("nowhere/a"), "x"), TENON_EIO);
  EXPECT_STATUS(save(in_folder("other/target/a"), "x"), TENON_EIO);
  EXPECT_STATUS(save("", "x"), TENON_EIO);
  EXPECT_INT_EQ(count_names(folder, true), 0);
  EXPECT_INT_EQ(count_names(in_folder("other"), false), 1);
}

TEST(file_write_in_long_names) {
  char name[256];
  start_afresh();
  memset(name, 'n', 255);
  name[255] = 0;
  EXPECT_STATUS(save(in_folder(name), "x"), TENON_OK);
  EXPECT(holds(in_folder(name), "x"));
}

static void *read_fifo(void *path) {
  static char got[16];
  FILE *f = fopen(path, "r");
  if (f && !fgets(got, sizeof got, f)) got[0] = 0;
  if (f) fclose(f);
  return got;
}

TEST(file_write_in_place) {
  struct stat st;
  char path[64];
  pthread_t t;
  void *got = NULL;
  start_afresh();
  EXPECT_STATUS(save("/dev/null", "x"), TENON_OK);
  EXPECT(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
  if (!access("/dev/full", W_OK)) EXPECT_STATUS(save("/dev/full", "x"), TENON_EIO);
  EXPECT_INT_EQ(mkfifo(in_folder("fifo"), 0600), 0);
  pthread_create(&t, NULL, read_fifo, (void *)(uintptr_t)in_folder("fifo"));
  EXPECT_STATUS(save(in_folder("fifo"), "through"), TENON_OK);
  pthread_join(t, &got);
  EXPECT_STR_EQ((char *)got, "through");
  EXPECT(!lstat(in_folder("fifo"), &st) && S_ISFIFO(st.st_mode));
  // What is open already goes on where it is, even when it is a file.
  int fd = open(in_folder("redirected"), O_WRONLY | O_CREAT, 0600);
  REQUIRE(fd >= 0 && write(fd, "before ", 7) == 7);
  static const char *const forms[] = {"/dev/fd/%d", "/proc/self/fd/%d"};
  for (int i = 0; i < ARRAY_LEN(forms); i++) {
    snprintf(path, sizeof path, i ? forms[1] : forms[0], fd);
    EXPECT_STATUS(save(path, i ? "2" : "1"), TENON_OK);
  }
  close(fd);
  EXPECT(holds(in_folder("redirected"), "before 12"));
}

// ---- writers that die, and writers that live ----

TEST(file_write_removes_what_a_kill_left) {
  static const char *const kept[] = {".tenon-00000000000000a.tmp", ".tenon-00000000000000ag.tmp",
                                     "tenon-00000000000000aa.tmp", ".tenon-00000000000000aa.tmp~"};
  start_afresh();
  for (int i = 0; i < ARRAY_LEN(kept); i++) plant(kept[i], "not ours");
  plant(".tenon-00000000000000a1.tmp", "dead");
  plant(".tenon-00000000000000a2.tmp", "dead, with a read-only mode");
  EXPECT_INT_EQ(chmod(in_folder(".tenon-00000000000000a2.tmp"), 0400), 0);
  plant(".tenon-00000000000000a3.tmp", "alive");
  EXPECT_INT_EQ(symlink("kept", in_folder(".tenon-00000000000000a4.tmp")), 0);
  plant("kept", "a file that a link leads to");
  int fd = open(in_folder(".tenon-00000000000000a3.tmp"), O_RDWR);
  REQUIRE(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
  EXPECT_STATUS(save(in_folder("target"), "x"), TENON_OK);
  EXPECT(access(in_folder(".tenon-00000000000000a1.tmp"), F_OK));
  EXPECT(access(in_folder(".tenon-00000000000000a2.tmp"), F_OK));
  EXPECT(holds(in_folder(".tenon-00000000000000a3.tmp"), "alive"));
  for (int i = 0; i < ARRAY_LEN(kept); i++) EXPECT(holds(in_folder(kept[i]), "not ours"));
  EXPECT(holds(in_folder("kept"), "a file that a link leads to"));
  close(fd);
  FileSwept s = file_sweep(folder);
  EXPECT(s.n == 1 && s.bytes == 5);
}

static int no_locks(int fd) {
  (void)fd;
  return ENOLCK;
}

// Without locks nobody knows whether a writer lives: nothing is removed, and writing goes on.
TEST(file_write_where_there_are_no_locks) {
  Platform p = platform_posix;
  start_afresh();
  plant(".tenon-00000000000000a1.tmp", "alive on another machine");
  p.lock = no_locks;
  platform = &p;
  EXPECT_STATUS(save(in_folder("a"), "x"), TENON_OK);
  platform = &platform_posix;
  EXPECT(holds(in_folder("a"), "x"));
  EXPECT_INT_EQ(count_names(folder, false), 2);
}

static int sabotage;  // how many more times
static char last_created[800];
static int create_and_tell(const char *path, int mode, int *out_fd) {
  snprintf(last_created, sizeof last_created, "%s", path);
  return platform_posix.create(path, mode, out_fd);
}
// As if another writer had come between a file's creation and its lock: it removes the file, or
// still holds it.
static int lock_late(int fd) {
  if (sabotage > 0 && sabotage-- % 2) return unlink(last_created), platform_posix.lock(fd);
  return sabotage > 0 ? unlink(last_created), EWOULDBLOCK : platform_posix.lock(fd);
}
// As if a writer on another machine had taken the file for a dead one.
static int rename_lost(const char *from, const char *to) {
  if (sabotage-- > 0) unlink(from);
  return platform_posix.rename(from, to);
}
static uint64_t same_number(void) { return sabotage-- > 0 ? 0xaa : platform_posix.random_u64(); }

TEST(file_write_takes_another_name) {
  start_afresh();
  for (int i = 0; i < 3; i++) {
    Platform p = platform_posix;
    p.create = create_and_tell;
    if (i == 0) p.lock = lock_late;
    if (i == 1) p.rename = rename_lost;
    if (i == 2) p.random_u64 = same_number;
    sabotage = 4;
    int fd = i == 2 ? open(in_folder(".tenon-00000000000000aa.tmp"), O_RDWR | O_CREAT, 0600) : -1;
    if (fd >= 0) flock(fd, LOCK_EX);
    platform = &p;
    EXPECT_STATUS(save(in_folder("a"), "whole"), TENON_OK);
    platform = &platform_posix;
    EXPECT(sabotage <= 0);
    EXPECT(holds(in_folder("a"), "whole"));
    if (fd >= 0) close(fd);
    file_sweep(folder);
    EXPECT_INT_EQ(count_names(folder, false), 1);
  }
}

// A file that another writer replaces while it is looked at has no name for a moment: it is not to
// be written in place.
static int nameless;
static int info_nameless(const char *path, FileInfo *out) {
  int err = platform_posix.info(path, out);
  if (!err && nameless-- > 0) out->links = 0;
  return err;
}

TEST(file_write_replaces_what_was_just_replaced) {
  static Diag d;
  File old;
  Platform p = platform_posix;
  start_afresh();
  diag_init(&d);
  EXPECT_STATUS(save(in_folder("a"), "old"), TENON_OK);
  REQUIRE(!file_open(in_folder("a"), &old, &d));
  p.info = info_nameless;
  nameless = 1;
  platform = &p;
  EXPECT_STATUS(save(in_folder("a"), "new"), TENON_OK);
  platform = &platform_posix;
  EXPECT(nameless < 1);
  EXPECT(holds(in_folder("a"), "new"));
  EXPECT(old.size == 3 && !memcmp(old.bytes, "old", 3));
  file_close(&old);
}

enum { WRITERS = 8, LENGTH = 20000 };
static atomic_int failed, torn, writing;
static char shared[800];

// Every file has one letter and a length of its own.
static void *save_often(void *number) {
  char text[LENGTH + 64];
  int id = (int)(intptr_t)number;
  for (int i = 0; i < 25; i++) {
    int n = LENGTH + id;
    memset(text, 'a' + id, (size_t)n);
    text[n] = 0;
    failed += save(shared, text) != TENON_OK;
  }
  writing--;
  return NULL;
}

static bool is_whole(const File *f) {
  if (f->size < LENGTH || f->size >= LENGTH + WRITERS) return false;
  for (int64_t i = 0; i < f->size; i++)
    if (f->bytes[i] != 'a' + f->size - LENGTH) return false;
  return true;
}

TEST(file_write_by_threads) {
  static Diag d;
  pthread_t t[WRITERS];
  File f;
  int reads = 0;
  start_afresh();
  diag_init(&d);
  failed = torn = 0;
  writing = WRITERS;
  snprintf(shared, sizeof shared, "%s", in_folder("shared"));
  for (int i = 0; i < WRITERS; i++) pthread_create(&t[i], NULL, save_often, (void *)(intptr_t)i);
  while (writing) {
    diag_init(&d);
    if (file_open(shared, &f, &d)) continue;  // not there yet
    torn += !is_whole(&f);
    reads++;
    file_close(&f);
  }
  for (int i = 0; i < WRITERS; i++) pthread_join(t[i], NULL);
  EXPECT_INT_EQ(failed, 0);
  EXPECT_INT_EQ(torn, 0);
  EXPECT(reads > 0);
  EXPECT_INT_EQ(count_names(folder, false), 1);
}
