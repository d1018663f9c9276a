// source.c -- open the file behind a constant, on first use.
//
// The one place that opens what a model names.  A source with a folder is external data: its real
// path (every link followed) must lie under that folder or under the folder of the model's real
// file, since model caches keep links in one folder and the files in another.  The path that was
// checked is the path that is opened, so a link put there afterwards is not followed from its old
// place.
//
// Guarantees: only regular files, only there; a failed open leaves the source as it was.
// Does not:   lock.  Two threads must not open one source at the same time.
#include "ir/ir.h"

#include <errno.h>

enum { PATH_CAP = 4096 };

static bool is_under(const char *path, const char *folder) {
  if (!folder) return false;
  size_t n = strlen(folder);
  while (n > 0 && folder[n - 1] == '/') n--;
  return !strncmp(path, folder, n) && path[n] == '/';
}

static tenon_status check_place(const Source *s, char *real, Diag *d) {
  Where at = {.file = s->path};
  int err = platform->real_path(s->path, real, PATH_CAP);
  if (err == ENOENT || err == ENOTDIR)
    return fail(d, TENON_EIO, at, "the model keeps data in '%s', which is not there", s->label);
  if (err == ENOMEM) return fail(d, TENON_ENOMEM, at, "out of memory");
  if (err) return fail(d, TENON_EIO, at, "cannot find the model's data: %s", error_text(err).s);
  if (is_under(real, s->folder) || is_under(real, s->real_folder)) return TENON_OK;
  return fail(d, TENON_EINVAL, at,
              "the model's data '%s' leads out of the model's folder, to '%s'; only files below "
              "'%s' are opened",
              s->label, real, s->folder);
}

tenon_status source_open(Source *s, Diag *d) {
  if (s->opened) return TENON_OK;
  CHECK(s->path, "a source without a path is always open");
  if (s->folder) {
    char real[PATH_CAP];
    TRY(check_place(s, real, d));
    TRY(file_open(real, &s->file, d));
  } else {
    TRY(file_open(s->path, &s->file, d));
  }
  s->opened = true;
  return TENON_OK;
}

// A constant's own source, also where its bytes are those of another, moved.
static Source *source_of(const Node *n) {
  while (n->op == OP_const && n->data->moved) n = n->data->moved;
  return n->op == OP_const ? n->data->source : NULL;
}

tenon_status graph_open_sources(Graph *g, Diag *d) {
  Arena a;
  arena_init_scoped(&a);
  NodeList l = body_order(g, g->main, &a);
  tenon_status status = TENON_OK;
  for (int64_t i = 0; i < l.n && !status; i++) {
    Source *s = source_of(l.v[i]);
    if (!s || s->opened) continue;
    status = source_open(s, d);
    int64_t users = 0;
    for (int64_t k = i; status && k < l.n; k++) users += source_of(l.v[k]) == s;
    if (status)
      diag_note(d, "%lld constant%s of the model %s in it", (long long)users, users == 1 ? "" : "s",
                users == 1 ? "is" : "are");
  }
  arena_deinit(&a);
  return status;
}
