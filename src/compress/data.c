// data.c -- reading samples, checking them against the model's inputs, and the split (data.h).
#include "compress/data.h"

#include <math.h>
#include <stdlib.h>

const char *const split_part_name[PARTS] = {"calibrate", "search", "certify"};
const int split_percent[PARTS] = {40, 30, 30};

HashText hash_text(const Hash *h) {
  static const char digits[] = "0123456789abcdef";
  HashText t = {.s = "sha256:"};
  char *at = t.s + 7;
  for (int i = 0; i < SHA256_BYTES; i++) {
    *at++ = digits[h->b[i] >> 4];
    *at++ = digits[h->b[i] & 15];
  }
  *at = 0;
  return t;
}

Hash hash_of_bytes(Str s) {
  Hash h;
  Sha256 sum;
  sha256_init(&sum);
  sha256_put(&sum, s.p, s.n);
  sha256_end(&sum, h.b);
  return h;
}

// ---- what the model takes ----

static const Node *input_of(const Dataset *s, int64_t i) { return s->graph->main->param[i]; }

static Where at_set(const SampleSet *set, const char *input) {
  return (Where){.file = set->path, .node = input, .op = "input"};
}

// An array's shape without its sample axis, as the model's input takes it: the model's own batch
// axis is a leading 1.
static bool dims_fit(const Type *t, const NdArray *v, bool rows, bool *out_lead) {
  int from = rows ? 1 : 0, rank = v->rank - from;
  if (rank < 0 || (rank != t->rank && rank + 1 != t->rank)) return false;
  *out_lead = rank + 1 == t->rank;
  for (int k = 0; k < t->rank; k++) {
    Dim want = t->dims[k];
    int64_t have = *out_lead ? (k ? v->dims[from + k - 1] : 1) : v->dims[from + k];
    if (ie_is_const(want) && want->value != have) return false;
  }
  return true;
}

static tenon_status wrong_shape(const SampleSet *set, const Node *p, const NdArray *v, Diag *d,
                                Arena *a) {
  StrBuf want;
  strbuf_init(&want, a);
  type_print(&want, type_of(p));
  return fail(d, TENON_EINVAL, at_set(set, p->name),
              "sample 0 is of an array %s%s%s, and the model takes %s%s", dtype_name(v->dtype),
              shape_text(v->rank, v->dims).s, set->n < 0 ? "" : " with a leading sample axis",
              strbuf_text(&want), set->n < 0 ? "" : " for each sample");
}

// A row is one sample: of shape [1, ...] where the model has a batch axis of its own.
static tenon_status take_input(Dataset *s, SampleSet *set, int64_t i, const NdArray *v, Diag *d) {
  const Node *p = input_of(s, i);
  const Type *t = type_of(p);
  bool rows = set->n >= 0;
  if (t->kind != TK_TENSOR || t->dtype == DT_STRING || dtype_bits(t->dtype) < 8)
    return fail(d, TENON_EUNSUPPORTED, at_set(set, p->name),
                "samples are tensors of numbers of whole bytes, and this input is none");
  if (v->dtype != t->dtype)
    return fail(d, TENON_EINVAL, at_set(set, p->name), "sample 0 has type %s, the model takes %s",
                v->dtype ? dtype_name(v->dtype) : "opaque bytes", dtype_name(t->dtype));
  if (t->rank < 0 || v->rank >= MAX_RANK || !dims_fit(t, v, rows, &set->lead[i]))
    return wrong_shape(set, p, v, d, s->arena);
  if (rows && set->n != v->dims[0])
    return fail(d, TENON_EINVAL, at_set(set, p->name), "%lld samples, another array has %lld",
                (long long)v->dims[0], (long long)set->n);
  ((NdArray *)(uintptr_t)set->input)[i] = *v;
  return TENON_OK;
}

static tenon_status unknown_array(const Dataset *s, const SampleSet *set, Str name, Diag *d) {
  const char **names = arena_array(s->arena, const char *, s->ninputs + 1);
  for (int64_t i = 0; i < s->ninputs; i++) names[i] = input_of(s, i)->name;
  fail(d, TENON_EINVAL, at_set(set, NULL), "the samples have '%.*s', which is no input%s",
       STR_ARG(name), did_you_mean(name, names, s->ninputs).s);
  for (int64_t i = 0; i < s->ninputs && i < 20; i++) diag_note(d, "input %s", names[i]);
  return TENON_EINVAL;
}

static tenon_status take_labels(const Dataset *s, SampleSet *set, const NdArray *v, Diag *d) {
  if (!dtype_is_int(v->dtype))
    return fail(d, TENON_EINVAL, at_set(set, NULL), "labels are integers, not %s",
                v->dtype ? dtype_name(v->dtype) : "opaque bytes");
  if (v->n != (set->n < 0 ? 1 : set->n))
    return fail(d, TENON_EINVAL, at_set(set, NULL), "%lld labels for %lld samples", (long long)v->n,
                (long long)(set->n < 0 ? 1 : set->n));
  NdArray *own = arena_dup(s->arena, v, (int64_t)sizeof *v);
  own->data = arena_dup(s->arena, v->data, v->bytes);
  set->label = own;
  return TENON_OK;
}

static int64_t find_input(const Dataset *s, Str name) {
  for (int64_t i = 0; i < s->ninputs; i++)
    if (str_is(name, input_of(s, i)->name)) return i;
  return -1;
}

static tenon_status take_arrays(Dataset *s, const NdArrayList *l, const char *labels, bool rows,
                                const char *path, Diag *d) {
  SampleSet set = {.n = -1, .path = path};
  NdArray *input = arena_array(s->arena, NdArray, MAX(s->ninputs, 1));
  bool *given = arena_array(s->arena, bool, MAX(s->ninputs, 1));
  set.input = input;
  set.lead = arena_array(s->arena, bool, MAX(s->ninputs, 1));
  const NdArray *label = labels ? nd_find(l, str_of(labels)) : NULL;
  if (labels && !label)
    return fail(d, TENON_EINVAL, at_set(&set, NULL), "there is no array '%s' of labels", labels);
  if (rows && !l->n) return fail(d, TENON_EINVAL, at_set(&set, NULL), "the archive has no arrays");
  if (rows && !l->v[0].rank)
    return fail(d, TENON_EINVAL, at_set(&set, NULL), "'%.*s' has no sample axis",
                STR_ARG(l->v[0].name));
  if (rows) set.n = l->v[0].dims[0];
  for (int64_t k = 0; k < l->n; k++) {
    if (&l->v[k] == label) continue;
    int64_t i = find_input(s, l->v[k].name);
    if (i < 0 && l->n == 1 && s->ninputs == 1 && !l->v[k].name.n) i = 0;
    if (i < 0) return unknown_array(s, &set, l->v[k].name, d);
    TRY(take_input(s, &set, i, &l->v[k], d));
    given[i] = true;
  }
  for (int64_t i = 0; i < s->ninputs; i++)
    if (!given[i])
      return fail(d, TENON_EINVAL, at_set(&set, input_of(s, i)->name),
                  "the samples have no such array");
  if (label) TRY(take_labels(s, &set, label, d));
  vec_push(s->arena, &s->set, set);
  return TENON_OK;
}

// ---- files ----

static tenon_status read_file(Dataset *s, const char *path, const char *labels, bool rows,
                              Diag *d) {
  File f;
  NdArrayList list;
  TRY(file_open(path, &f, d));
  vec_push(s->arena, &s->file, f);
  Where base = d->base;
  d->base = (Where){.file = path};
  Str bytes = {(const char *)f.bytes, f.size};
  tenon_status st =
      f.mapped ? nd_read_mapped(s->arena, bytes, d, &list) : nd_read(s->arena, bytes, d, &list);
  d->base = base;
  TRY(st);
  return take_arrays(s, &list, labels, rows, path, d);
}

typedef struct FolderList {
  Arena *arena;
  VEC(const char *) name;
} FolderList;

static void add_name(void *ctx, const char *name, int64_t bytes, int64_t seconds) {
  FolderList *l = ctx;
  (void)bytes, (void)seconds;
  if (str_ends(str_of(name), ".npz"))
    vec_push(l->arena, &l->name, str_copy(l->arena, str_of(name)));
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tenon_status read_folder(Dataset *s, const char *path, const char *labels, Diag *d) {
  FolderList l = {.arena = s->arena};
  int err = platform->list(path, add_name, &l);
  if (err)
    return fail(d, TENON_EIO, (Where){.file = path}, "cannot list it: %s", error_text(err).s);
  if (!l.name.n)
    return fail(d, TENON_EINVAL, (Where){.file = path}, "the folder has no .npz files");
  qsort(l.name.v, (size_t)l.name.n, sizeof *l.name.v, by_name);
  for (int64_t i = 0; i < l.name.n; i++)
    TRY(read_file(s, str_printf(s->arena, "%s/%s", path, l.name.v[i]), labels, false, d));
  return TENON_OK;
}

// ---- samples ----

// The bytes of a sample's part of an array.
static Str row_bytes(const SampleSet *set, const NdArray *v, int64_t row) {
  if (set->n < 0) return (Str){v->data, v->bytes};
  int64_t one = set->n ? v->bytes / set->n : 0;
  return (Str){(const char *)v->data + row * one, one};
}

// The same, where they are aligned.
static const void *row_values(const SampleSet *set, const NdArray *v, int64_t row, Arena *a) {
  enum { ALIGNED = 8 };
  Str bytes = row_bytes(set, v, row);
  return (uintptr_t)bytes.p % ALIGNED ? arena_dup(a, bytes.p, bytes.n) : bytes.p;
}

static bool floats_finite(const float *x, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float rest = x[i] - x[i];  // 0, or NaN for what is not finite
    uint32_t bits;
    memcpy(&bits, &rest, sizeof bits);
    bad |= bits;
  }
  return !bad;
}

// Pages of the files leave memory every so often, so that it does not grow with the samples.
static void touch(const Dataset *s, int64_t bytes) {
  enum { MOST = 8 << 20 };
  *s->touched += bytes;
  if (*s->touched < MOST) return;
  *s->touched = 0;
  for (int64_t i = 0; i < s->file.n; i++)
    if (s->file.v[i].mapped && s->file.v[i].size)
      platform->forget(s->file.v[i].bytes, s->file.v[i].size);
}

static tenon_status check_finite(const SampleSet *set, const Node *p, const NdArray *v,
                                 const void *values, int64_t row, Diag *d) {
  if (!dtype_is_float(v->dtype)) return TENON_OK;
  int64_t n = set->n > 0 ? v->n / set->n : v->n;
  if (v->dtype == DT_F32 && floats_finite(values, n)) return TENON_OK;
  for (int64_t i = 0; i < n; i++) {
    double x = get_f64(v->dtype, values, i);
    if (!isfinite(x))
      return fail(d, TENON_EINVAL, at_set(set, p->name), "sample %lld has %s at element %lld",
                  (long long)row, isnan(x) ? "NaN" : "an infinity", (long long)i);
  }
  return TENON_OK;
}

// Of an input's value in one run.
static int sample_dims(const SampleSet *set, int64_t i, int64_t *dims) {
  const NdArray *v = &set->input[i];
  int rank = 0;
  if (set->lead[i]) dims[rank++] = 1;
  for (int k = set->n >= 0 ? 1 : 0; k < v->rank; k++) dims[rank++] = v->dims[k];
  return rank;
}

static void hash_shape(Sha256 *sum, const Node *p, const SampleSet *set, int64_t i) {
  int64_t head[2 + MAX_RANK + 1] = {set->input[i].dtype};
  head[1] = sample_dims(set, i, head + 2);
  sha256_put(sum, p->name, (int64_t)strlen(p->name) + 1);
  sha256_put(sum, head, (int64_t)sizeof head);
}

static uint64_t split_key(const Hash *h, uint64_t seed) {
  Hash mixed;
  Sha256 sum;
  uint64_t key = 0;
  sha256_init(&sum);
  sha256_put(&sum, &seed, (int64_t)sizeof seed);
  sha256_put(&sum, h->b, SHA256_BYTES);
  sha256_end(&sum, mixed.b);
  for (int i = 0; i < 8; i++) key = key << 8 | mixed.b[i];
  return key;
}

static tenon_status add_sample(Dataset *s, int64_t set_at, int64_t row, Diag *d) {
  const SampleSet *set = &s->set.v[set_at];
  Sample x = {.set = set_at, .row = row, .label = -1};
  Sha256 sum;
  sha256_init(&sum);
  for (int64_t i = 0; i < s->ninputs; i++) {
    const NdArray *v = &set->input[i];
    ArenaMark mark = arena_mark(s->arena);
    tenon_status st =
        check_finite(set, input_of(s, i), v, row_values(set, v, row, s->arena), row, d);
    arena_reset(s->arena, mark);
    TRY(st);
    Str bytes = row_bytes(set, v, row);
    hash_shape(&sum, input_of(s, i), set, i);
    sha256_put(&sum, bytes.p, bytes.n);
    touch(s, bytes.n);
  }
  if (set->label) x.label = get_i64(set->label->dtype, set->label->data, row);
  sha256_put(&sum, &x.label, (int64_t)sizeof x.label);
  sha256_end(&sum, x.hash.b);
  x.key = split_key(&x.hash, s->seed);
  vec_push(s->arena, &s->sample, x);
  return TENON_OK;
}

static int by_key(const void *a, const void *b) {
  const Sample *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return memcmp(x->hash.b, y->hash.b, SHA256_BYTES);
}

static void split(Dataset *s) {
  int64_t n = 0, sum = 0;
  if (s->sample.n) qsort(s->sample.v, (size_t)s->sample.n, sizeof *s->sample.v, by_key);
  for (int64_t i = 0; i < s->sample.n; i++) {
    if (n && !memcmp(s->sample.v[i].hash.b, s->sample.v[n - 1].hash.b, SHA256_BYTES)) continue;
    s->sample.v[n++] = s->sample.v[i];
  }
  s->duplicates = s->sample.n - n;
  s->sample.n = n;
  for (int k = 0; k + 1 < PARTS; k++) sum += s->of[k] = n * split_percent[k] / 100;
  s->of[PARTS - 1] = n - sum;
}

// With fewer a part of the split would have none.
enum { LEAST_SAMPLES = 4 };

static tenon_status take_samples(Dataset *s, Diag *d) {
  for (int64_t i = 0; i < s->set.n; i++)
    for (int64_t row = 0; row < (s->set.v[i].n < 0 ? 1 : s->set.v[i].n); row++)
      TRY(add_sample(s, i, row, d));
  split(s);
  if (s->sample.n < LEAST_SAMPLES)
    return fail(d, TENON_EINVAL, NOWHERE,
                "%lld different samples: at least %d are needed, to calibrate, search and certify",
                (long long)s->sample.n, LEAST_SAMPLES);
  return TENON_OK;
}

static void begin(const Graph *g, uint64_t seed, Arena *a, Dataset *out) {
  *out = (Dataset){.arena = a, .graph = g, .seed = seed, .ninputs = g->main->nparams};
  out->touched = arena_new(a, int64_t);
}

tenon_status dataset_read(const Graph *g, const char *path, const char *labels, uint64_t seed,
                          Arena *a, Diag *d, Dataset *out) {
  FileInfo info;
  begin(g, seed, a, out);
  int err = platform->info(path, &info);
  if (err) return fail(d, TENON_EIO, (Where){.file = path}, "cannot open: %s", error_text(err).s);
  TRY(info.folder ? read_folder(out, path, labels, d) : read_file(out, path, labels, true, d));
  out->labels = labels != NULL;
  return take_samples(out, d);
}

tenon_status dataset_of_arrays(const Graph *g, const NdArrayList *arrays, const char *labels,
                               uint64_t seed, Arena *a, Diag *d, Dataset *out) {
  begin(g, seed, a, out);
  NdArrayList kept = {arena_dup(a, arrays->v, arrays->n * (int64_t)sizeof *arrays->v), arrays->n};
  TRY(take_arrays(out, &kept, labels, true, NULL, d));
  out->labels = labels != NULL;
  return take_samples(out, d);
}

tenon_status dataset_of_samples(const Graph *g, const SampleArrays *from, uint64_t seed, Arena *a,
                                Diag *d, Dataset *out) {
  begin(g, seed, a, out);
  for (int64_t k = 0; k < from->sample.n; k++) {
    NdArrayList list = {arena_dup(a, from->sample.v[k], out->ninputs * (int64_t)sizeof(NdArray)),
                        out->ninputs};
    for (int64_t i = 0; i < list.n; i++) list.v[i].name = str_of(input_of(out, i)->name);
    tenon_status s = take_arrays(out, &list, NULL, false, NULL, d);
    if (s) diag_note(d, "of the samples given, this is number %lld", (long long)k);
    TRY(s);
    NdArray *label = arena_new(a, NdArray);
    *label = (NdArray){.dtype = DT_I64, .n = 1, .bytes = 8, .data = &from->label.v[k]};
    if (from->labels) out->set.v[k].label = label;
  }
  out->labels = from->labels;
  return take_samples(out, d);
}

void dataset_close(Dataset *s) {
  for (int64_t i = 0; i < s->file.n; i++) file_close(&s->file.v[i]);
  s->file.n = 0;
}

int64_t dataset_begin(const Dataset *s, SplitPart part) {
  int64_t at = 0;
  for (int k = 0; k < (int)part; k++) at += s->of[k];
  return at;
}

tenon_status dataset_values(const Dataset *s, int64_t sample, Run *run, Value **in) {
  const Sample *x = &s->sample.v[sample];
  const SampleSet *set = &s->set.v[x->set];
  for (int64_t i = 0; i < s->ninputs; i++) {
    const NdArray *v = &set->input[i];
    int64_t dims[MAX_RANK + 1];
    int rank = sample_dims(set, i, dims);
    const void *values = row_values(set, v, x->row, &run->scratch);
    touch(s, row_bytes(set, v, x->row).n);
    TRY(value_borrow(run, v->dtype, rank, dims, values, &in[i]));
  }
  return TENON_OK;
}

Hash dataset_hash(const Dataset *s, SplitPart part) {
  Hash h;
  Sha256 sum;
  bool all = part == PARTS;
  int64_t from = all ? 0 : dataset_begin(s, part), n = all ? s->sample.n : s->of[part];
  sha256_init(&sum);
  for (int64_t i = 0; i < n; i++) sha256_put(&sum, s->sample.v[from + i].hash.b, SHA256_BYTES);
  sha256_end(&sum, h.b);
  return h;
}
