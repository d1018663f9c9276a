// import.c -- graphs in Tenon's own text form, as a row of the table of readers.
#include "frontends/common/frontend.h"

static bool is_text(Str s) {
  int64_t i = 0;
  while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\n' || s.p[i] == '\t' || s.p[i] == '\r')) i++;
  Str rest = {s.p + i, s.n - i};
  return str_starts(rest, "graph ") || str_starts(rest, "graph@") || str_starts(rest, "graph(") ||
         str_starts(rest, "dim ") || str_starts(rest, "//");
}

static tenon_status import_text(Imported *in, Diag *d) {
  ParseOptions po = {.custom = in->custom,
                     .memory_limit = in->memory_limit,
                     .fixed = in->fixed,
                     .nfixed = in->nfixed};
  in->about = "text form";
  return graph_parse_with(in->bytes, in->path, &po, d, &in->graph);
}

const Frontend frontend_text = {.name = "text",
                                .doc = "Tenon's own text of a graph (.tir)",
                                .is = is_text,
                                .import = import_text};
