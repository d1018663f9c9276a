// platform_library.c -- shared libraries that are made while a program runs.
#include "base/process.h"

#include <dlfcn.h>

void *library_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

void *library_symbol(void *library, const char *name) { return dlsym(library, name); }

void library_close(void *library) {
  if (library) dlclose(library);
}
