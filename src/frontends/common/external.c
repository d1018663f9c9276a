// external.c -- register the further files that a model names.
//
// Every tensor of a model, wherever it stands (initializer, sparse, attribute, sub-graph,
// function), comes through here when its data is in another file.  The location is checked as text;
// nothing is opened until the data is needed, and then by source_open, which checks where the path
// really leads.
//
// Guarantees: one Source for a file, however many tensors are in it.
#include "frontends/common/frontend.h"

// Sources are found by comparing pointers, one after the other; so their number has a limit.
enum {
  SOURCES_MAX = LIMIT_EXTERNAL_FILES,
  LOCATION_MAX = LIMIT_EXTERNAL_LOCATION,
  PATH_CAP = 4096
};

// NULL, or what is wrong with a location.  On every system alike: a model that names a Windows path
// is refused on Linux too.
static const char *location_fault(Str s) {
  if (s.n == 0) return "is empty";
  if (s.n > LOCATION_MAX) return "is too long";
  if (memchr(s.p, 0, (size_t)s.n)) return "holds a NUL character";
  if (memchr(s.p, '\\', (size_t)s.n)) return "holds a backslash: folders are separated by '/'";
  if (s.p[0] == '/') return "is an absolute path: it must lie below the model's folder";
  if (s.n > 1 && s.p[1] == ':') return "names a drive: it must lie below the model's folder";
  int64_t depth = 0;
  for (int64_t i = 0, start = 0; i <= s.n; i++) {
    if (i < s.n && s.p[i] != '/') continue;
    Str part = {s.p + start, i - start};
    start = i + 1;
    if (part.n == 0 || str_is(part, ".")) continue;
    depth += str_is(part, "..") ? -1 : 1;
    if (depth < 0) return "climbs out of the model's folder";
  }
  return depth == 0 ? "names a folder, not a file" : NULL;
}

// The folder part of a path, as a path: "." for a bare name, "/" for one in the root.
static const char *folder_of(Graph *g, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return ".";
  return intern(&g->names, (Str){path, MAX(slash - path, 1)});
}

static tenon_status real_path(Graph *g, const char *path, Where at, const char **out) {
  char real[PATH_CAP];
  int err = platform->real_path(path, real, (int64_t)sizeof real);
  if (err)
    return fail(g->diag, TENON_EIO, at, "cannot find the folder of '%s': %s", path,
                error_text(err).s);
  *out = intern(&g->names, str_of(real));
  return TENON_OK;
}

tenon_status external_open(Graph *g, const char *model_path, Str location, Where at, Source **out) {
  *out = NULL;
  const char *fault = location_fault(location);
  if (fault)
    return fail(g->diag, TENON_EINVAL, at, "the location of external data, '%.*s', %s",
                STR_ARG(location), fault);
  if (!model_path || !strcmp(model_path, "-"))
    return fail(
        g->diag, TENON_EINVAL, at,
        "the model keeps data in the file '%.*s', but it was not opened from a file itself, "
        "so there is no folder to look in",
        STR_ARG(location));
  const char *label = intern(&g->names, location);
  for (int64_t i = 0; i < g->source.n; i++) {
    Source *s = g->source.v[i];
    if (s->label != label || !s->folder) continue;  // a graph comes from one model
    *out = s;
    return TENON_OK;
  }
  if (g->source.n >= SOURCES_MAX)
    return fail(g->diag, TENON_EUNSUPPORTED, at, "the model keeps its data in more than %d files",
                SOURCES_MAX);
  const char *folder, *model_real;
  TRY(real_path(g, folder_of(g, model_path), at, &folder));
  TRY(real_path(g, model_path, at, &model_real));
  Source *s = arena_new(&g->arena, Source);
  *s = (Source){.path = str_printf(&g->arena, "%s/%s", folder, label),
                .label = label,
                .folder = folder,
                .real_folder = folder_of(g, model_real)};
  vec_push(&g->arena, &g->source, s);
  *out = s;
  return TENON_OK;
}
