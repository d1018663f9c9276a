// packet.c -- the payloads of frames between the front and an engine of a model (packet.h).
#include "serve/kserve/packet.h"

enum { ALIGN = 16, WORD = 8, TENSOR_WORDS = 4 };

static int64_t round_up(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static int64_t head_bytes(const Packet *p) {
  int64_t words = 3 + p->nlist;
  for (int64_t i = 0; i < p->n; i++) words += TENSOR_WORDS + p->tensor[i].rank;
  return round_up(words * WORD);
}

int64_t packet_bytes(const Packet *p) {
  int64_t total = head_bytes(p);
  for (int64_t i = 0; i < p->n; i++)
    if (!ck_add(total, p->tensor[i].bytes + ALIGN - 1, &total))
      return -1;
    else
      total = total / ALIGN * ALIGN;
  return total;
}

static void put(char **at, int64_t v) {
  memcpy(*at, &v, WORD);
  *at += WORD;
}

void packet_write(char *out, const Packet *p, char **data) {
  char *at = out;
  int64_t from = head_bytes(p);
  put(&at, p->ns);
  put(&at, p->nlist);
  put(&at, p->n);
  for (int64_t i = 0; i < p->nlist; i++) put(&at, p->list[i]);
  for (int64_t i = 0; i < p->n; i++) {
    const PacketTensor *t = &p->tensor[i];
    put(&at, t->index);
    put(&at, (int64_t)t->dtype);
    put(&at, t->rank);
    put(&at, t->bytes);
    for (int k = 0; k < t->rank; k++) put(&at, t->shape[k]);
    data[i] = out + from;
    memset(out + from + t->bytes, 0, (size_t)(round_up(t->bytes) - t->bytes));
    from += round_up(t->bytes);
  }
  memset(at, 0, (size_t)(out + head_bytes(p) - at));
}

typedef struct Words {
  const char *at, *end;
} Words;

static bool get(Words *w, int64_t *out) {
  if (w->end - w->at < WORD) return false;
  memcpy(out, w->at, WORD);
  w->at += WORD;
  return true;
}

static bool read_tensor(Words *w, PacketTensor *t) {
  int64_t dtype, rank;
  if (!get(w, &t->index) || !get(w, &dtype) || !get(w, &rank) || !get(w, &t->bytes)) return false;
  if (t->index < 0 || t->bytes < 0 || rank < 0 || rank > TENON_MAX_RANK || !dtype_valid(dtype))
    return false;
  t->dtype = (DType)dtype;
  t->rank = (int)rank;
  for (int k = 0; k < t->rank; k++)
    if (!get(w, &t->shape[k]) || t->shape[k] < 0) return false;
  return true;
}

static bool read_all(Arena *a, Str payload, Packet *out) {
  Words w = {payload.p, payload.p + payload.n};
  if (!get(&w, &out->ns) || !get(&w, &out->nlist) || !get(&w, &out->n)) return false;
  int64_t most = payload.n / WORD;
  if (out->nlist < 0 || out->nlist > most || out->n < 0 || out->n > most) return false;
  int64_t *list = arena_array(a, int64_t, out->nlist + 1);
  for (int64_t i = 0; i < out->nlist; i++)
    if (!get(&w, &list[i])) return false;
  out->list = list;
  out->tensor = arena_array(a, PacketTensor, out->n + 1);
  for (int64_t i = 0; i < out->n; i++)
    if (!read_tensor(&w, &out->tensor[i])) return false;
  int64_t from = head_bytes(out);
  for (int64_t i = 0; i < out->n; i++) {
    PacketTensor *t = &out->tensor[i];
    if (from > payload.n || t->bytes > payload.n - from) return false;
    t->data = payload.p + from;
    from += round_up(t->bytes);
  }
  return true;
}

tenon_status packet_read(Arena *a, Str payload, Packet *out, Diag *d) {
  *out = (Packet){0};
  return read_all(a, payload, out) ? TENON_OK
                                   : fail(d, TENON_EFORMAT, NOWHERE, "an engine's frame is cut");
}

// ---- signatures ----
static void write_values(JsonWriter *w, const char *key, const KsValue *v, int64_t n) {
  json_key(w, key);
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, v[i].name);
    json_key(w, "datatype");
    json_cstr(w, v[i].type->name);
    json_key(w, "shape");
    if (v[i].rank < 0) {
      json_null(w);
    } else {
      json_begin_array(w);
      for (int k = 0; k < v[i].rank; k++) json_i64(w, v[i].shape[k]);
      json_end_array(w);
    }
    json_end_object(w);
  }
  json_end_array(w);
}

void ks_signature_write(JsonWriter *w, const KsSignature *s) {
  json_begin_object(w);
  write_values(w, "inputs", s->input, s->ninputs);
  write_values(w, "outputs", s->output, s->noutputs);
  json_key(w, "rows");
  json_bool(w, s->rows);
  json_key(w, "why_not");
  json_cstr(w, s->why_not);
  json_key(w, "target");
  json_cstr(w, s->target);
  json_key(w, "bytes");
  json_i64(w, s->bytes);
  json_end_object(w);
}

static bool read_value(Arena *a, const Json *j, KsValue *out) {
  const Json *name = json_get(j, "name"), *type = json_get(j, "datatype"),
             *shape = json_get(j, "shape");
  if (!name || name->kind != JSON_STRING || !type || type->kind != JSON_STRING || !shape ||
      (shape->kind != JSON_ARRAY && shape->kind != JSON_NULL) || shape->n > TENON_MAX_RANK)
    return false;
  out->name = str_copy(a, name->s);
  out->type = ks_type_named(type->s);
  out->rank = shape->kind == JSON_NULL ? -1 : (int)shape->n;
  for (int64_t k = 0; k < shape->n; k++) out->shape[k] = shape->item[k].i;
  return out->type != NULL;
}

static bool read_values(Arena *a, const Json *list, int64_t *n, KsValue **out) {
  if (!list || list->kind != JSON_ARRAY) return false;
  *n = list->n;
  *out = arena_array(a, KsValue, list->n + 1);
  for (int64_t i = 0; i < list->n; i++)
    if (!read_value(a, &list->item[i], &(*out)[i])) return false;
  return true;
}

tenon_status ks_signature_read(Arena *a, Str text, KsSignature *out, Diag *d) {
  Json j;
  *out = (KsSignature){.why_not = ""};
  TRY(json_parse(a, text, d, &j));
  const Json *rows = json_get(&j, "rows"), *why = json_get(&j, "why_not"),
             *target = json_get(&j, "target"), *bytes = json_get(&j, "bytes");
  if (!read_values(a, json_get(&j, "inputs"), &out->ninputs, &out->input) ||
      !read_values(a, json_get(&j, "outputs"), &out->noutputs, &out->output) || !rows || !why ||
      !target || !bytes)
    return fail(d, TENON_EFORMAT, NOWHERE, "an engine's signature is cut");
  out->rows = rows->b;
  out->why_not = str_copy(a, why->s);
  out->target = str_copy(a, target->s);
  out->bytes = bytes->i;
  return TENON_OK;
}
