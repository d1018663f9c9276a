// serve_config.h -- the options of serve_config.def as fields, read from the command line.
#ifndef TENON_SERVE_SERVE_CONFIG_H
#define TENON_SERVE_SERVE_CONFIG_H

#include "base/base.h"
#include "serve/limits.h"

typedef struct ServeConfig {
#define CONFIG_TEXT(name, dflt)             const char *name;
#define CONFIG_INT(name, least, most, dflt) int64_t name;
#include "serve/serve_config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
  int64_t nmodels;
  const char *const *model;  // NAME=PATH, or a path
  int64_t nadapters;
  const char *const *adapter;  // NAME=MODEL:PATH, each of an option --lora
} ServeConfig;

MUST_USE tenon_status serve_config_read(Arena *a, int argc, char **argv, Diag *d, ServeConfig *out);

#endif
