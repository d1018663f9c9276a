// open.c -- opening models on the command line (open.h).
#include "cli/open.h"

#include "cli/files.h"

static tenon_status add_sources(Cli *c, const Graph *g) {
  for (int64_t i = 0; g && i < g->source.n; i++)
    if (g->source.v[i]->folder) TRY(files_input(c, g->source.v[i]->path, "the model's data in"));
  return TENON_OK;
}

// The trust in a compiled model follows from the command's options alone, by their names.
static void read_trust(const Cli *c, ArtifactTrust *out) {
  for (int i = 0; i < OPT_COUNT; i++) {
    if (cli_option[i].command != c->command || !opt_given(c, i)) continue;
    const char *name = option_name(&cli_option[i]);
    out->said |= !strcmp(name, "compiled");
    out->limited |= !strncmp(name, "max-", 4);
  }
}

// The signature likewise.
static const char *read_signature(const Cli *c) {
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command && !strcmp(cli_option[i].name, "signature"))
      return opt_text(c, i, NULL);
  return NULL;
}

tenon_status cli_open(Cli *c, const char *path, const ModelOptions *o, Diag *d, Model **out) {
  ModelOptions all = o ? *o : (ModelOptions){0};
  read_trust(c, &all.trust);
  all.signature = read_signature(c);
  tenon_status opened = model_open(path, &all, d, out);
  c->misused |= opened == TENON_EINVAL && all.signature && strstr(d->text, "has no signature");
  TRY(opened);
  tenon_status s = add_sources(c, (*out)->graph);
  if (!s && (*out)->attached) s = add_sources(c, (*out)->attached->graph);
  if (!s) return TENON_OK;
  model_free(*out);
  *out = NULL;
  return s;
}
