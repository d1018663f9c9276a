// artifact_open.c -- loading an artifact from a file, with every evaluation there is.
//
// Apart from the rest, so that a program with its model inside links only the evaluations that the
// model needs.
#include "runtime/artifact.h"

tenon_status artifact_open(const char *path, const ArtifactLoad *o, Diag *d, Program **out) {
  File f;
  *out = NULL;
  TRY(file_open(path, &f, d));
  Where base = d->base;
  d->base.file = path;
  ArtifactLoad all = o ? *o : (ArtifactLoad){0};
  if (!all.find) all.find = eval_find;
  tenon_status s = artifact_load(&f, &all, d, out);
  d->base = base;
  return s;
}
