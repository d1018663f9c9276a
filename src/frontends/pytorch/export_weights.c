// export_weights.c -- the tensors of a torch.export archive, by their names in the program.
#include "frontends/pytorch/export.h"

static int64_t number_of(const Json *j) {
  const Json *v = json_get(j, "as_int");
  return v && v->kind == JSON_INT ? v->i : -1;
}

static tenon_status bad(ExportProgram *p, Str name, const char *why) {
  return fail(p->diag, TENON_EFORMAT, NOWHERE, "the tensor '%.*s' %s", STR_ARG(name), why);
}

// A view as the configuration describes it, over the bytes of an entry.
static tenon_status raw_tensor(ExportProgram *p, Str name, const Json *meta, Str bytes) {
  const Json *code = json_get(meta, "dtype"), *sizes = json_get(meta, "sizes");
  const Json *strides = json_get(meta, "strides");
  Pickled *storage = arena_new(&p->g->arena, Pickled), *t = arena_new(&p->g->arena, Pickled);
  if (!code || code->kind != JSON_INT || !export_dtype(code->i, &t->dtype))
    return bad(p, name, "has a dtype that is not known");
  if (!sizes || sizes->kind != JSON_ARRAY || sizes->n > MAX_RANK || !strides ||
      strides->kind != JSON_ARRAY || strides->n != sizes->n)
    return bad(p, name, "has no sizes or strides");
  t->rank = (int)sizes->n;
  for (int i = 0; i < t->rank; i++) {
    t->dims[i] = number_of(&sizes->item[i]);
    t->strides[i] = number_of(&strides->item[i]);
    if (t->dims[i] < 0 || t->strides[i] < 0) return bad(p, name, "has a negative size or stride");
  }
  t->offset = MAX(number_of(json_get(meta, "storage_offset")), 0);
  if (!shape_count(t->rank, t->dims, &t->n)) return bad(p, name, "has too many elements");
  storage->data = (const uint8_t *)bytes.p;
  storage->bytes = bytes.n;
  t->state = storage;
  Weight w;
  TRY(torch_weight(p->in, t, str_copy(&p->g->arena, name), NOWHERE, p->diag, &w));
  return weights_add(&p->in->weights, &p->g->arena, &w) ? TENON_OK : bad(p, name, "is there twice");
}

// Saved by torch.save: an archive within the archive.
static tenon_status pickled_tensor(ExportProgram *p, Str name, Str bytes) {
  TorchArchive *inner = arena_new(&p->g->arena, TorchArchive);
  TRY(torch_open(p->in, bytes, p->diag, inner));
  Pickled *v;
  TRY(torch_read_object(inner, false, &v));
  if (v->kind != PK_TENSOR) return bad(p, name, "is none in its file");
  Weight w;
  TRY(torch_weight(p->in, v, str_copy(&p->g->arena, name), NOWHERE, p->diag, &w));
  return weights_add(&p->in->weights, &p->g->arena, &w) ? TENON_OK : bad(p, name, "is there twice");
}

static tenon_status read_config(ExportProgram *p, const char *file, const char *folder) {
  if (!torch_find(p->t, file)) return TENON_OK;
  Str text;
  Json root;
  TRY(torch_bytes(p->t, file, &text));
  TRY(json_parse(&p->g->arena, text, p->diag, &root));
  const Json *config = json_get(&root, "config");
  if (!config || config->kind != JSON_OBJECT)
    return fail(p->diag, TENON_EFORMAT, NOWHERE, "'%s' has no config", file);
  for (int64_t i = 0; i < config->n; i++) {
    const Json *c = &config->item[i], *path = json_get(c, "path_name");
    const Json *pickled = json_get(c, "use_pickle");
    if (!path || path->kind != JSON_STRING) return bad(p, config->key[i], "has no file");
    if (str_starts(path->s, "custom_obj")) continue;  // refused where the program uses one
    Str bytes;
    TRY(torch_bytes(p->t, str_printf(&p->g->arena, "%s/%.*s", folder, STR_ARG(path->s)), &bytes));
    if (pickled && pickled->b)
      TRY(pickled_tensor(p, config->key[i], bytes));
    else
      TRY(raw_tensor(p, config->key[i], json_get(c, "tensor_meta"), bytes));
  }
  return TENON_OK;
}

tenon_status export_weights(ExportProgram *p, const char *model) {
  Arena *a = &p->g->arena;
  TRY(read_config(p, str_printf(a, "data/weights/%s_weights_config.json", model), "data/weights"));
  return read_config(p, str_printf(a, "data/constants/%s_constants_config.json", model),
                     "data/constants");
}

// Files of PyTorch up to 2.7: state_dict and constants as archives within the archive.
tenon_status export_old_weights(ExportProgram *p) {
  static const char *const file[] = {"serialized_state_dict.pt", "serialized_state_dict.json",
                                     "serialized_constants.pt", "serialized_constants.json"};
  for (int64_t i = 0; i < ARRAY_LEN(file); i++) {
    Str bytes;
    if (!torch_find(p->t, file[i])) continue;
    TRY(torch_bytes(p->t, file[i], &bytes));
    if (bytes.n < 4 || memcmp(bytes.p, "PK", 2)) continue;  // nothing was saved
    TorchArchive *inner = arena_new(&p->g->arena, TorchArchive);
    TRY(torch_open(p->in, bytes, p->diag, inner));
    Pickled *v;
    TRY(torch_read_object(inner, false, &v));
    TRY(torch_collect(p->in, v, p->diag));
  }
  return TENON_OK;
}
