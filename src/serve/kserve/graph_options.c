// graph_options.c -- batching and instances of a model: the command line, and its own config.json.
#include "base/platform.h"
#include "serve/kserve/graph_impl.h"

static tenon_status take_int(const Json *j, const char *key, int64_t least, int64_t most,
                             int64_t *io, Diag *d) {
  const Json *v = json_get(j, key);
  if (!v || v->kind == JSON_NULL) return TENON_OK;
  if (v->kind != JSON_INT || v->i < least || v->i > most)
    return fail(d, TENON_EINVAL, NOWHERE, "%s is a whole number from %lld to %lld", key,
                (long long)least, (long long)most);
  *io = v->i;
  return TENON_OK;
}

static tenon_status take_preferred(const Json *list, BatchRules *b, Diag *d) {
  if (!list || list->kind == JSON_NULL) return TENON_OK;
  if (list->kind != JSON_ARRAY || list->n > BATCH_PREFERRED)
    return fail(d, TENON_EINVAL, NOWHERE, "preferred_batch_size is a list of at most %d sizes",
                BATCH_PREFERRED);
  b->npreferred = 0;
  for (int64_t i = 0; i < list->n; i++) {
    int64_t rows = list->item[i].i;
    if (list->item[i].kind != JSON_INT || rows < 1 || rows > b->most ||
        (i && rows <= b->preferred[i - 1]))
      return fail(d, TENON_EINVAL, NOWHERE,
                  "preferred_batch_size holds sizes from 1 to max_batch_size, %lld, ascending",
                  (long long)b->most);
    b->preferred[b->npreferred++] = rows;
  }
  return TENON_OK;
}

static tenon_status take_group(const Json *list, int64_t *instances, Diag *d) {
  if (!list || list->kind != JSON_ARRAY) return TENON_OK;
  int64_t total = 0;
  for (int64_t i = 0; i < list->n; i++) {
    int64_t count = 1;
    TRY(take_int(&list->item[i], "count", 1, GRAPH_INSTANCES, &count, d));
    total += count;
  }
  if (total > GRAPH_INSTANCES)
    return fail(d, TENON_EINVAL, NOWHERE, "instance_group has %lld instances; at most %d",
                (long long)total, GRAPH_INSTANCES);
  if (total) *instances = total;
  return TENON_OK;
}

static tenon_status read_options(Arena *a, Str json, GraphOptions *io, Diag *d) {
  Json j;
  TRY(json_parse(a, json, d, &j));
  if (j.kind != JSON_OBJECT)
    return fail(d, TENON_EINVAL, NOWHERE, "a model's configuration is an object of JSON");
  const Json *dynamic = json_get(&j, "dynamic_batching");
  int64_t delay_us = io->batch.delay / 1000;
  TRY(take_int(&j, "max_batch_size", 0, SERVE_BATCH_ROWS, &io->batch.most, d));
  if (dynamic) TRY(take_int(dynamic, "max_queue_delay_microseconds", 0, 10000000, &delay_us, d));
  io->batch.delay = delay_us * 1000;
  if (dynamic) TRY(take_preferred(json_get(dynamic, "preferred_batch_size"), &io->batch, d));
  return take_group(json_get(&j, "instance_group"), &io->instances, d);
}

tenon_status graph_options_read(Str json, GraphOptions *io, Diag *d) {
  Arena a;
  arena_init_scoped(&a);
  tenon_status s = read_options(&a, json, io, d);
  arena_deinit(&a);
  return s;
}

tenon_status graph_options_of(const Model *m, GraphOptions *out, Diag *d) {
  const ServeConfig *c = &m->serve->config;
  File file;
  Diag quiet;
  *out = (GraphOptions){.batch = {.most = c->max_batch, .delay = c->batch_delay * 1000},
                        .instances = c->instances};
  if (m->config) return graph_options_read(str_of(m->config), out, d);
  if (!m->config_path) return TENON_OK;
  diag_init(&quiet);
  if (file_open(m->config_path, &file, &quiet)) return TENON_OK;  // there is none
  tenon_status s = graph_options_read((Str){(const char *)file.bytes, file.size}, out, d);
  file_close(&file);
  return s;
}
