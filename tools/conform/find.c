// find.c -- finds the tests below a folder, and unpacks archives of them.
#include "conform/conform.h"

#include "base/platform.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_DEPTH = 16 };

static bool is_file(const char *path) {
  struct stat s;
  return !stat(path, &s) && S_ISREG(s.st_mode);
}
static bool is_folder(const char *path) {
  struct stat s;
  return !stat(path, &s) && S_ISDIR(s.st_mode);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef VEC(const char *) Names;
static tenon_status list_folder(Arena *a, const char *path, Diag *d, Names *out) {
  *out = (Names){0};
  DIR *dir = opendir(path);
  if (!dir)
    return fail(d, TENON_EIO, (Where){.file = path}, "cannot read the folder: %s", strerror(errno));
  for (struct dirent *e; (e = readdir(dir));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
      vec_push(a, out, (const char *)str_copy(a, str_of(e->d_name)));
  closedir(dir);
  if (out->n) qsort(out->v, (size_t)out->n, sizeof *out->v, by_name);
  return TENON_OK;
}

static const char *last_part(Arena *a, const char *path) {
  int64_t n = (int64_t)strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  int64_t start = n;
  while (start > 0 && path[start - 1] != '/') start--;
  return str_copy(a, (Str){path + start, n - start});
}

static bool has_data_sets(const Names *names) {
  for (int64_t i = 0; i < names->n; i++)
    if (str_starts(str_of(names->v[i]), "test_data_set_")) return true;
  return false;
}

static tenon_status walk(Arena *a, const char *path, int depth, Diag *d, CaseList *out) {
  Names names;
  TRY(list_folder(a, path, d, &names));
  const char *model = str_printf(a, "%s/model.onnx", path);
  if (is_file(model)) {
    // A model without data cannot be tested; folders of models hold those too.
    Case c = {.name = last_part(a, path), .model = model, .folder = path};
    if (has_data_sets(&names)) vec_push(a, out, c);
    return TENON_OK;
  }
  for (int64_t i = 0; i < names.n; i++) {
    const char *full = str_printf(a, "%s/%s", path, names.v[i]);
    int64_t stem = (int64_t)strlen(names.v[i]) - 5;
    if (str_ends(str_of(names.v[i]), ".onnx")) {
      Case c = {.name = str_copy(a, (Str){names.v[i], stem}), .model = full};
      c.output = str_printf(a, "%s/%s_output_0.pb", path, c.name);
      if (is_file(c.output)) vec_push(a, out, c);
    } else if (str_ends(str_of(names.v[i]), ".mlir")) {
      Case c = {.name = str_copy(a, (Str){names.v[i], stem}), .model = full, .program = true};
      vec_push(a, out, c);
    } else if (depth < MAX_DEPTH && is_folder(full)) {
      TRY(walk(a, full, depth + 1, d, out));
    }
  }
  return TENON_OK;
}

tenon_status conform_find(Arena *a, const char *path, Diag *d, CaseList *out) {
  return walk(a, path, 0, d, out);
}

// ---- archives ----
bool conform_is_archive(const char *path) {
  static const char *const endings[] = {".tar", ".tar.xz",  ".tar.gz", ".tgz",
                                        ".txz", ".tar.bz2", ".tar.zst"};
  if (!is_file(path)) return false;
  for (int64_t i = 0; i < ARRAY_LEN(endings); i++)
    if (str_ends(str_of(path), endings[i])) return true;
  return false;
}

tenon_status conform_unpack(Arena *a, const char *archive, Diag *d, const char **out_folder) {
  *out_folder = NULL;
  const char *tmp = getenv("TMPDIR");
  char *folder = str_printf(a, "%s/tenon-conform-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  Where at = {.file = archive};
  if (!mkdtemp(folder))
    return fail(d, TENON_EIO, at, "cannot make a temporary folder: %s", strerror(errno));
  *out_folder = folder;
  pid_t pid = fork();
  if (pid < 0) return fail(d, TENON_EIO, at, "cannot start tar: %s", strerror(errno));
  if (pid == 0) {
    execlp("tar", "tar", "-xf", archive, "-C", folder, "--no-same-owner", (char *)NULL);
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return fail(d, TENON_EIO, at,
                "the program tar is not there (Debian: apt install tar xz-utils)");
  if (!WIFEXITED(status) || WEXITSTATUS(status))
    return fail(d, TENON_EFORMAT, at, "tar could not unpack the archive");
  return TENON_OK;
}

void conform_remove(Arena *a, const char *folder) {
  static Diag ignored;
  Names names;
  diag_init(&ignored);
  if (!list_folder(a, folder, &ignored, &names))
    for (int64_t i = 0; i < names.n; i++) {
      const char *full = str_printf(a, "%s/%s", folder, names.v[i]);
      struct stat s;
      if (!lstat(full, &s) && S_ISDIR(s.st_mode))
        conform_remove(a, full);
      else
        platform->unlink(full);
    }
  rmdir(folder);
}
