// archive.c -- PyTorch's archives: entries by name, storages, tensors as weights (pytorch.h).
//
// Storages are slices of the mapped file.  Their checksums are verified as far as CHECKED bytes in
// all go, so that opening a large model does not read it.
#include "frontends/pytorch/aten.h"
#include "frontends/pytorch/pytorch.h"

#include <stdio.h>

static const int64_t CHECKED = (int64_t)32 << 20;
enum { DEEPEST = 100, PATH_MAX_BYTES = 4096 };
static const int64_t MOST_VISITS = 4000000;

static bool is_zip(Str s) { return s.n >= 4 && !memcmp(s.p, "PK\003\004", 4); }

static const char legacy_magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

static bool is_legacy(Str s) {
  return s.n >= (int64_t)sizeof legacy_magic - 1 &&
         !memcmp(s.p, legacy_magic, sizeof legacy_magic - 1);
}

// A program of torch.export without its archive: JSON, whose first key is the schema's first field.
static bool is_program(Str s) {
  static const char key[] = "\"graph_module\"";
  int64_t at = 1, n = (int64_t)sizeof key - 1;
  if (!s.n || s.p[0] != '{') return false;
  while (at < s.n && (s.p[at] == ' ' || s.p[at] == '\n')) at++;
  return s.n - at > n && !memcmp(s.p + at, key, (size_t)n);
}

static bool holds(Str s, const char *mark) {
  int64_t n = (int64_t)strlen(mark);
  const char *at = s.p, *end = s.p + s.n;
  while (end - at >= n && (at = memchr(at, mark[0], (size_t)(end - at - n + 1))) != NULL)
    if (!memcmp(at++, mark, (size_t)n)) return true;
  return false;
}

// A zip archive with one of the entries that PyTorch writes, by a look at the names in its
// directory; others are left to other readers.
static bool is_pytorch(Str s) {
  if (is_legacy(s) || is_program(s)) return true;
  if (!is_zip(s)) return false;
  static const char *const marks[] = {"/data.pkl", "/constants.pkl", "/archive_format",
                                      "serialized_exported_program.json"};
  int64_t from = MAX(0, s.n - ((int64_t)4 << 20));  // the directory is at the end
  for (int k = 0; k < 2; k++) {
    Str part = k ? (Str){s.p + from, s.n - from} : (Str){s.p, MIN(s.n, 4096)};
    for (int64_t i = 0; i < ARRAY_LEN(marks); i++)
      if (holds(part, marks[i])) return true;
  }
  return false;
}

tenon_status torch_open(Imported *in, Str bytes, Diag *d, TorchArchive *out) {
  Arena *a = &in->graph->arena;
  *out = (TorchArchive){.in = in, .diag = d};
  TRY(zip_open(a, bytes, ZIP_LIMITS, d, &out->zip));
  strmap_init(&out->entries, a);
  // Written by PyTorch all entries are in one folder; repacked by others they may be in none.
  bool foldered = out->zip.n > 0;
  for (int64_t i = 0; i < out->zip.n; i++) {
    Str name = out->zip.entry[i].name;
    const char *slash = name.n ? memchr(name.p, '/', (size_t)name.n) : NULL;
    Str folder = {name.p, slash ? slash - name.p + 1 : 0};
    if (i == 0) out->folder = folder;
    if (!folder.n || !str_eq(folder, out->folder)) foldered = false;
  }
  if (!foldered) out->folder = (Str){"", 0};
  for (int64_t i = 0; i < out->zip.n; i++) {
    Str name = out->zip.entry[i].name;
    Str rest = {name.p + out->folder.n, name.n - out->folder.n};
    strmap_put(&out->entries, rest, (void *)(uintptr_t)&out->zip.entry[i]);
  }
  return TENON_OK;
}

const ZipEntry *torch_find(const TorchArchive *t, const char *name) {
  return strmap_get(&t->entries, str_of(name));
}

tenon_status torch_bytes(TorchArchive *t, const char *name, Str *out) {
  const ZipEntry *e = torch_find(t, name);
  if (!e)
    return fail(t->diag, TENON_EFORMAT, NOWHERE, "the archive has no entry '%.*s%s'",
                STR_ARG(t->folder), name);
  int64_t total;
  if (!ck_add(t->checked, e->size, &total)) total = INT64_MAX;
  if (e->method == ZIP_STORED && total > CHECKED) {
    *out = (Str){t->zip.bytes.p + e->data, e->size};
    return TENON_OK;
  }
  t->checked = total;
  return zip_extract(&t->in->graph->arena, &t->zip, e, t->diag, out);
}

bool torch_is_little_endian(TorchArchive *t) {
  Str order;
  if (!torch_find(t, "byteorder")) return true;
  return !torch_bytes(t, "byteorder", &order) && str_starts(order, "little");
}

// ---- storages ----

typedef struct Walk {
  TorchArchive *t;
  Imported *in;
  Diag *diag;
  const char *folder;
  int depth;
  int64_t visits;
  char path[PATH_MAX_BYTES];
  int64_t path_n;
} Walk;

static tenon_status too_deep(Walk *w) {
  return fail(w->diag, TENON_EFORMAT, NOWHERE, "the saved object is nested too deep, or too large");
}

static tenon_status find_storage(Walk *w, Pickled *s) {
  if (s->data || s->visited) return TENON_OK;
  s->visited = true;
  char name[256];
  if (s->s.n > 128) return fail(w->diag, TENON_EFORMAT, NOWHERE, "a storage's key is too long");
  snprintf(name, sizeof name, "%s/%.*s", w->folder, (int)s->s.n, s->s.p);
  Str bytes;
  TRY(torch_bytes(w->t, name, &bytes));
  int64_t need;
  if (!dtype_bytes(s->dtype, s->i, &need) || need > bytes.n)
    return fail(w->diag, TENON_EFORMAT, (Where){.node = name},
                "a storage of %lld elements of %s does not fit its %lld bytes", (long long)s->i,
                dtype_name(s->dtype), (long long)bytes.n);
  s->data = (const uint8_t *)bytes.p;
  s->bytes = need;
  return TENON_OK;
}

static tenon_status walk_storages(Walk *w, Pickled *v) {
  if (v->visited) return TENON_OK;
  if (v->kind == PK_STORAGE) return find_storage(w, v);
  v->visited = true;
  if (w->depth++ > DEEPEST) return too_deep(w);
  if (v->state) TRY(walk_storages(w, v->state));
  for (int64_t i = 0; i < v->items.n; i++) TRY(walk_storages(w, v->items.v[i]));
  w->depth--;
  return TENON_OK;
}

tenon_status torch_storages(TorchArchive *t, const char *folder, Pickled *v) {
  if (!torch_is_little_endian(t))
    return fail(t->diag, TENON_EUNSUPPORTED, NOWHERE, "the archive is big-endian");
  Walk *w = arena_new(&t->in->graph->arena, Walk);
  w->t = t;
  w->diag = t->diag;
  w->folder = folder;
  return walk_storages(w, v);
}

static bool is_contiguous(const Pickled *t) {
  int64_t want = 1;
  for (int i = t->rank; i-- > 0;) {
    if (t->dims[i] != 1 && t->strides[i] != want) return false;
    want *= t->dims[i];
  }
  return true;
}

tenon_status torch_weight(Imported *in, const Pickled *t, const char *name, Where at, Diag *d,
                          Weight *out) {
  const Pickled *s = t->state;
  int64_t each = MAX(dtype_bits(t->dtype) / 8, 1), last = t->offset, elements = s->bytes / each;
  bool fine = s->data || !s->bytes;
  for (int i = 0; i < t->rank && fine && t->n; i++) {
    int64_t reach;
    fine = ck_mul(t->dims[i] - 1, t->strides[i], &reach) && ck_add(last, reach, &last);
  }
  if (!fine || (t->n && last >= elements) || (!t->n && t->offset > elements))
    return fail(d, TENON_EFORMAT, at, "the tensor '%s' lies outside of its storage", name);
  *out = (Weight){.name = name, .dtype = t->dtype, .rank = t->rank, .n = t->n};
  memcpy(out->dims, t->dims, sizeof out->dims);
  out->data = s->data ? s->data + t->offset * each : (const uint8_t *)"";
  int64_t bytes;
  if (!dtype_bytes(t->dtype, t->n, &bytes))
    return fail(d, TENON_EFORMAT, at, "the bytes of tensor '%s' overflow", name);
  bool dense = is_contiguous(t);
  // A view that repeats elements may be larger than any file.
  if (!dense && bytes > ((int64_t)1 << 24) && bytes / 64 > s->bytes)
    return fail(d, TENON_EUNSUPPORTED, at, "the tensor '%s' repeats a few elements %lld times",
                name, (long long)(t->n / MAX(elements, 1)));
  out->bytes = dense ? bytes : 0;
  if (!dense) out->strides = arena_dup(&in->graph->arena, t->strides, (int64_t)sizeof t->strides);
  return TENON_OK;
}

// ---- tensors by their path ----

static tenon_status collect(Walk *w, Pickled *v);

static tenon_status collect_at(Walk *w, Str key, Pickled *v) {
  int64_t n = w->path_n;
  if (n + key.n + 2 >= PATH_MAX_BYTES) return too_deep(w);
  if (n) w->path[w->path_n++] = '.';
  memcpy(w->path + w->path_n, key.p, (size_t)key.n);
  w->path_n += key.n;
  TRY(collect(w, v));
  w->path_n = n;
  return TENON_OK;
}

static tenon_status collect_tensor(Walk *w, const Pickled *v) {
  Weight one;
  Arena *a = &w->in->graph->arena;
  const char *name = str_copy(a, (Str){w->path, w->path_n});
  TRY(torch_weight(w->in, v, name, NOWHERE, w->diag, &one));
  weights_add(&w->in->weights, a, &one);  // the first of two keys that spell the same path
  return TENON_OK;
}

static tenon_status collect(Walk *w, Pickled *v) {
  if (!v->path.p) v->path = str_of(str_copy(&w->in->graph->arena, (Str){w->path, w->path_n}));
  if (w->visits++ > MOST_VISITS) return too_deep(w);
  if (v->kind == PK_TENSOR) return collect_tensor(w, v);
  if (v->kind == PK_OBJECT) v = v->state;
  if (!v || (v->kind != PK_DICT && v->kind != PK_LIST && v->kind != PK_TUPLE)) return TENON_OK;
  if (w->depth++ > DEEPEST) return too_deep(w);
  bool dict = v->kind == PK_DICT;
  for (int64_t i = 0; i < v->items.n; i += dict ? 2 : 1) {
    char number[24];
    Str key = {number, snprintf(number, sizeof number, "%lld", (long long)i)};
    if (dict && v->items.v[i]->kind == PK_STR) key = v->items.v[i]->s;
    if (dict && v->items.v[i]->kind == PK_INT)
      key.n = snprintf(number, sizeof number, "%lld", (long long)v->items.v[i]->i);
    TRY(collect_at(w, key, v->items.v[dict ? i + 1 : i]));
  }
  w->depth--;
  return TENON_OK;
}

tenon_status torch_collect(Imported *in, Pickled *v, Diag *d) {
  Walk *w = arena_new(&in->graph->arena, Walk);
  w->in = in;
  w->diag = d;
  static const char *const wrappers[] = {"state_dict", "model_state_dict", "model"};
  for (int64_t i = 0; i < ARRAY_LEN(wrappers); i++) {  // a checkpoint around a state_dict
    const Pickled *inner = pickle_get(v, wrappers[i]);
    if (inner && v->kind == PK_DICT && inner->kind == PK_DICT) {
      v = (Pickled *)(uintptr_t)inner;
      break;
    }
  }
  return collect(w, v);
}

// ---- a saved object ----

static const char no_graph[] = "the file holds weights and no graph: give it as --weights to a "
                               "model, or export the model with "
                               "torch.export or torch.jit";

tenon_status torch_read_object(TorchArchive *t, bool code, Pickled **out) {
  Str bytes;
  TRY(torch_bytes(t, "data.pkl", &bytes));
  Pickle p = {
      .arena = &t->in->graph->arena, .diag = t->diag, .at = {.node = "data.pkl"}, .code = code};
  TRY(pickle_read(&p, bytes, NULL, out));
  return torch_storages(t, "data", *out);
}

tenon_status torch_import_state(TorchArchive *t) {
  Pickled *root;
  TRY(torch_read_object(t, false, &root));
  TRY(torch_collect(t->in, root, t->diag));
  t->in->about = "PyTorch archive of tensors";
  frontend_no_graph(t->in, no_graph);
  return TENON_OK;
}

// ---- files from before the archives: pickles one after the other, storages at the end ----

typedef struct Stored {
  VEC(Pickled *) all;
  StrMap by_key;  // the first of each key
} Stored;

static tenon_status list_storages(Walk *w, Pickled *v, Stored *out) {
  if (v->visited) return TENON_OK;
  v->visited = true;
  if (w->depth++ > DEEPEST) return too_deep(w);
  if (v->kind == PK_STORAGE) {
    vec_push(&w->in->graph->arena, &out->all, v);
    if (!strmap_has(&out->by_key, v->s)) strmap_put(&out->by_key, v->s, v);
  }
  if (v->state) TRY(list_storages(w, v->state, out));
  for (int64_t i = 0; i < v->items.n; i++) TRY(list_storages(w, v->items.v[i], out));
  w->depth--;
  return TENON_OK;
}

// Each storage is its number of elements and its bytes, in the order of the list of keys.
static tenon_status read_storages(Str file, const Stored *stored, const Pickled *keys, int64_t at,
                                  Diag *d) {
  const uint8_t *p = (const uint8_t *)file.p;
  if (keys->kind != PK_LIST) return fail(d, TENON_EFORMAT, NOWHERE, "the list of storages is none");
  for (int64_t i = 0; i < keys->items.n; i++) {
    const Pickled *key = keys->items.v[i];
    Pickled *s = key->kind == PK_STR ? strmap_get(&stored->by_key, key->s) : NULL;
    Where here = {.has_offset = true, .offset = at};
    if (!s) return fail(d, TENON_EFORMAT, here, "a storage that no tensor has");
    int64_t n = 0, bytes = 0;
    if (file.n - at >= 8) memcpy(&n, p + at, 8);
    if (file.n - at < 8 || n < 0 || !dtype_bytes(s->dtype, n, &bytes) || bytes > file.n - at - 8)
      return fail(d, TENON_EFORMAT, here, "a storage of %lld elements does not fit the file",
                  (long long)n);
    s->data = p + at + 8;
    s->bytes = bytes;
    at += 8 + bytes;
  }
  for (int64_t i = 0; i < stored->all.n; i++) {
    Pickled *s = stored->all.v[i];
    const Pickled *first = strmap_get(&stored->by_key, s->s);
    if (!first->data || first->dtype != s->dtype)
      return fail(d, TENON_EFORMAT, NOWHERE, "the storage '%.*s' is not in the file",
                  STR_ARG(s->s));
    s->data = first->data;
    s->bytes = first->bytes;
  }
  return TENON_OK;
}

static tenon_status read_legacy(Imported *in, Str bytes, Diag *d) {
  Arena *a = &in->graph->arena;
  Pickle p = {.arena = a, .diag = d};
  int64_t at = (int64_t)sizeof legacy_magic - 1, used;
  Pickled *part[4];  // protocol, the writer's system, the object, the keys
  for (int i = 0; i < 4; i++) {
    TRY(pickle_read(&p, (Str){bytes.p + at, bytes.n - at}, &used, &part[i]));
    at += used;
  }
  const Pickled *little = pickle_get(part[1], "little_endian");
  if (part[0]->kind != PK_INT || part[0]->i != 1001 || (little && !little->i))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "a protocol or byte order that is not known");
  Stored stored = {0};
  strmap_init(&stored.by_key, a);
  Walk *w = arena_new(a, Walk);
  w->in = in;
  w->diag = d;
  TRY(list_storages(w, part[2], &stored));
  TRY(read_storages(bytes, &stored, part[3], at, d));
  return torch_collect(in, part[2], d);
}

static tenon_status import_legacy(Imported *in, Diag *d) {
  TRY(read_legacy(in, in->bytes, d));
  in->about = "PyTorch file of tensors (older format)";
  frontend_no_graph(in, no_graph);
  return TENON_OK;
}

// ---- the row of the table ----

static bool is_export(const TorchArchive *t) {
  if (torch_find(t, "serialized_exported_program.json") || torch_find(t, "archive_format"))
    return true;
  return false;
}

// A program that cannot be read for every value of its numbers is read for those that are given.
static tenon_status read_again(Imported *in, Diag *d) {
  Imported fresh = {.bytes = in->bytes,
                    .path = in->path,
                    .custom = in->custom,
                    .memory_limit = in->memory_limit,
                    .given = in->given,
                    .fixed = in->fixed,
                    .nfixed = in->nfixed,
                    .types = in->types,
                    .ntypes = in->ntypes,
                    .attach = in->attach,
                    .specialise = true};
  Where base = d->base;
  graph_free(in->graph);
  *in = fresh;
  diag_init(d);
  d->base = base;
  return frontend_pytorch.import(in, d);
}

static tenon_status import_script(TorchArchive *t) {
  Imported *in = t->in;
  bool numbers = false;
  tenon_status s = torch_import_script(t);
  for (int64_t i = 0; i < in->ntypes; i++) numbers = numbers || in->types[i].known;
  if (s != TENON_EUNSUPPORTED && s != TENON_EINVAL) return s;
  return numbers && !in->specialise ? read_again(in, t->diag) : s;
}

static tenon_status import_pytorch(Imported *in, Diag *d) {
  TRY(frontend_begin(in, d));
  if (is_legacy(in->bytes)) return import_legacy(in, d);
  if (is_program(in->bytes)) return torch_import_json(in, d);
  TorchArchive *t = arena_new(&in->graph->arena, TorchArchive);
  TRY(torch_open(in, in->bytes, d, t));
  if (is_export(t)) return torch_import_export(t);
  if (torch_find(t, "constants.pkl")) return import_script(t);
  return torch_import_state(t);
}

static tenon_status import_part(Imported *in, Str bytes, const char *file, Diag *d) {
  Where base = d->base;
  d->base.file = file;
  if (is_legacy(bytes)) {
    TRY(read_legacy(in, bytes, d));
  } else {
    TorchArchive *t = arena_new(&in->graph->arena, TorchArchive);
    Pickled *root;
    TRY(torch_open(in, bytes, d, t));
    TRY(torch_read_object(t, false, &root));
    TRY(torch_collect(in, root, d));
  }
  d->base = base;
  return TENON_OK;
}

const Frontend frontend_pytorch = {.name = "pytorch",
                                   .doc = "PyTorch: torch.export (.pt2), TorchScript, state_dicts",
                                   .is = is_pytorch,
                                   .import = import_pytorch,
                                   .ops = aten_list,
                                   .part = import_part};
