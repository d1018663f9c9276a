// serve_config.c -- the command line of tenon-serve (serve_config.h).
#include "serve/serve_config.h"

typedef struct Row {
  const char *name;
  bool is_int;
  int64_t least, most, at;
} Row;

static const Row row[] = {
#define CONFIG_TEXT(name, dflt)             {#name, false, 0, 0, offsetof(ServeConfig, name)},
#define CONFIG_INT(name, least, most, dflt) {#name, true, least, most, offsetof(ServeConfig, name)},
#include "serve/serve_config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
};

// Whether `word` is the row's name with - for _.
static bool named(const Row *r, Str word) {
  if (word.n != (int64_t)strlen(r->name)) return false;
  for (int64_t i = 0; i < word.n; i++)
    if (word.p[i] != (r->name[i] == '_' ? '-' : r->name[i])) return false;
  return true;
}

static tenon_status take(const char *arg, ServeConfig *c, Diag *d) {
  const char *mark = strchr(arg, '=');
  const Row *r = NULL;
  for (int64_t i = 0; mark && i < ARRAY_LEN(row); i++)
    if (named(&row[i], (Str){arg + 2, mark - arg - 2})) r = &row[i];
  if (!r)
    return fail(d, TENON_EINVAL, NOWHERE, "%s is no option; `tenon serve --help` lists them", arg);
  char *field = (char *)c + r->at;
  if (!r->is_int) {
    *(const char **)(void *)field = mark + 1;
    return TENON_OK;
  }
  int64_t v;
  if (!str_to_i64(str_of(mark + 1), &v) || v < r->least || v > r->most)
    return fail(d, TENON_EINVAL, NOWHERE, "%s: a number from %lld to %lld is needed", arg,
                (long long)r->least, (long long)r->most);
  *(int64_t *)(void *)field = v;
  return TENON_OK;
}

tenon_status serve_config_read(Arena *a, int argc, char **argv, Diag *d, ServeConfig *out) {
  *out = (ServeConfig){
#define CONFIG_TEXT(name, dflt)             .name = dflt,
#define CONFIG_INT(name, least, most, dflt) .name = dflt,
#include "serve/serve_config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
  };
  const char **model = arena_array(a, const char *, argc + 1);
  const char **adapter = arena_array(a, const char *, argc + 1);
  for (int i = 1; i < argc; i++)
    if (!strncmp(argv[i], "--lora=", 7))
      adapter[out->nadapters++] = argv[i] + 7;
    else if (!strncmp(argv[i], "--", 2))
      TRY(take(argv[i], out, d));
    else
      model[out->nmodels++] = argv[i];
  out->model = model;
  out->adapter = adapter;
  return TENON_OK;
}
