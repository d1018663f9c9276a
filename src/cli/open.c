// open.c -- opening models on the command line (open.h).
#include "cli/open.h"

#include "cli/files.h"

static tenon_status add_sources(Cli *c, const Graph *g) {
  for (int64_t i = 0; g && i < g->source.n; i++)
    if (g->source.v[i]->folder) TRY(files_input(c, g->source.v[i]->path, "the model's data in"));
  return TENON_OK;
}

tenon_status cli_open(Cli *c, const char *path, const ModelOptions *o, Diag *d, Model **out) {
  TRY(model_open(path, o, d, out));
  tenon_status s = add_sources(c, (*out)->graph);
  if (!s && (*out)->attached) s = add_sources(c, (*out)->attached->graph);
  if (!s) return TENON_OK;
  model_free(*out);
  *out = NULL;
  return s;
}
