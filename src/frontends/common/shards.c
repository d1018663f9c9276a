// shards.c -- the index of weights that are split over several files, of whatever format has a
// reader for parts.
//
// An index is JSON; its weight_map names the file of each tensor.  Those files must lie below the
// index's folder.
#include "base/json.h"
#include "frontends/common/frontend.h"

static bool is_index(Str s) {
  int64_t i = 0;
  while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\n' || s.p[i] == '\r' || s.p[i] == '\t')) i++;
  if (i == s.n || s.p[i] != '{') return false;
  static const char word[] = "\"weight_map\"";
  int64_t n = (int64_t)sizeof word - 1;
  for (; i + n <= s.n; i++)
    if (s.p[i] == '"' && !memcmp(s.p + i, word, (size_t)n)) return true;
  return false;
}

static tenon_status read_part(Imported *in, Str name, const char **kind, Diag *d) {
  Source *s;
  TRY(external_open(in->graph, in->path, name, (Where){.op = "weight_map"}, &s));
  if (s->opened) return TENON_OK;  // read already
  TRY(source_open(s, d));
  Str bytes = {(const char *)s->file.bytes, s->file.size};
  const Frontend *f = frontend_of(bytes);
  if (!f->part)
    return fail(d, TENON_EFORMAT, (Where){.file = s->label},
                "an index names files of weights, and this is none");
  *kind = f->name;
  return f->part(in, bytes, s->label, d);
}

static tenon_status import_index(Imported *in, Diag *d) {
  Json root;
  const char *kind = "weights";
  TRY(frontend_begin(in, d));
  TRY(json_parse(&in->graph->arena, in->bytes, d, &root));
  const Json *map = json_get(&root, "weight_map");
  if (!map || map->kind != JSON_OBJECT)
    return fail(d, TENON_EFORMAT, NOWHERE, "weight_map is no object");
  for (int64_t i = 0; i < map->n; i++) {
    if (map->item[i].kind != JSON_STRING)
      return fail(d, TENON_EFORMAT, NOWHERE, "weight_map '%.*s' is no file", STR_ARG(map->key[i]));
    TRY(read_part(in, map->item[i].s, &kind, d));
  }
  for (int64_t i = 0; i < map->n; i++)
    if (!weights_find(&in->weights, map->key[i]))
      return fail(d, TENON_EFORMAT, NOWHERE, "the tensor '%.*s' is not in '%.*s'",
                  STR_ARG(map->key[i]), STR_ARG(map->item[i].s));
  in->about =
      str_printf(&in->graph->arena, "%s in %lld files", kind, (long long)in->graph->source.n - 1);
  frontend_no_graph(in, "an index holds weights and no graph; give it as --weights to a model");
  return TENON_OK;
}

const Frontend frontend_index = {
    .name = "index",
    .doc = "the index of weights in several files, safetensors or PyTorch",
    .is = is_index,
    .import = import_index};
