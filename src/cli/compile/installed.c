// installed.c -- finds what a C program needs, from this program's own place (installed.h).
//
// A build has all in one folder, with the headers in the source tree above it; an installation has
// bin, lib and include together.  So a tree that was moved still finds its own files.
#include "cli/compile/installed.h"

#include "base/platform.h"

#include <unistd.h>

static const char *const folders[] = {"", "../lib/", "../lib64/", "../lib/x86_64-linux-gnu/",
                                      "../lib/aarch64-linux-gnu/"};
static const char *const includes[] = {"../include/", "../../include/"};

// The first of the folders, seen from `self`, that has the file; its path without links.
static const char *find(Cli *c, const char *self, const char *const *in, int n, const char *name) {
  char real[4096];
  for (int i = 0; i < n; i++) {
    const char *path = str_printf(&c->arena, "%s/%s%s", self, in[i], name);
    if (!access(path, R_OK) && !platform->real_path(path, real, sizeof real))
      return str_copy(&c->arena, str_of(real));
  }
  return NULL;
}

static const char *without(Cli *c, const char *path, int parts) {
  if (!path) return NULL;
  char *s = str_copy(&c->arena, str_of(path));
  for (int i = 0; i < parts; i++) {
    char *slash = strrchr(s, '/');
    if (slash) *slash = 0;
  }
  return s;
}

Installed installed_find(Cli *c) {
  char self[4096];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len <= 0) return (Installed){0};
  self[len] = 0;
  const char *here = without(c, self, 1);
  return (Installed){
      .include = without(c, find(c, here, includes, ARRAY_LEN(includes), "tenon/tenon.h"), 2),
      .lib_folder = without(c, find(c, here, folders, ARRAY_LEN(folders), "libtenon.so"), 1),
      .runtime = find(c, here, folders, ARRAY_LEN(folders), "libtenon_runtime.a"),
  };
}
