// message_json.c -- messages of gRPC from and to JSON (message_json.h).
//
// What is read: repeated fields become arrays, in whatever places they stand, and of a single field
// that is written twice the last one counts.  So each field's row looks for its values in the whole
// message; messages here have few rows.  Fields without a row are stepped over.
#include "serve/kserve/message_json.h"

#include "base/wire.h"

enum { ENTRIES_MOST = 1024, NESTED_MOST = 8 };

typedef enum Kind { BOOL, INT, FLOAT, DOUBLE, STRING, BYTES, ENUM, MESSAGE, MAP } Kind;

typedef struct Field {
  KsMessage message;
  uint32_t number;
  Kind kind;
  bool many;
  const char *name;
  KsMessage sub;
} Field;

static const Field field[] = {
#define KS_MESSAGE(name)
#define KS_FIELD(message, number, kind, many, name, sub)                                           \
  {KS_##message, number, kind, many, #name, KS_##sub},
#include "serve/kserve/messages.def"
#undef KS_MESSAGE
#undef KS_FIELD
};

// A message that is its one value in JSON: of a oneof, or the list of a trace setting.
static bool is_union(KsMessage m) {
  return m == KS_ModelRepositoryParameter || m == KS_LogSettingValue || m == KS_TraceSettingValue ||
         m == KS_InferParameter;
}

static const struct {
  const char *name;
  int value;
} enum_row[] = {
    {"TYPE_BOOL", 1},    {"TYPE_UINT8", 2}, {"TYPE_UINT16", 3}, {"TYPE_UINT32", 4},
    {"TYPE_UINT64", 5},  {"TYPE_INT8", 6},  {"TYPE_INT16", 7},  {"TYPE_INT32", 8},
    {"TYPE_INT64", 9},   {"TYPE_FP16", 10}, {"TYPE_FP32", 11},  {"TYPE_FP64", 12},
    {"TYPE_STRING", 13}, {"TYPE_BF16", 14}, {"KIND_AUTO", 0},   {"KIND_GPU", 1},
    {"KIND_CPU", 2},     {"KIND_MODEL", 3},
};

// ---- reading ----
static tenon_status put_message(WireReader *r, KsMessage m, Str bytes, int depth, JsonWriter *w);

static void put_base64(Arena *a, Str s, JsonWriter *w) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < s.n; i += 3) {
    uint32_t v = 0;
    for (int64_t k = 0; k < 3; k++) v = v << 8 | (i + k < s.n ? (uint8_t)s.p[i + k] : 0);
    for (int k = 0; k < 4; k++) strbuf_putc(&b, i + k > s.n ? '=' : digit[v >> (18 - 6 * k) & 63]);
  }
  json_str(w, strbuf_str(&b));
}

static tenon_status wrong_form(const WireReader *r, const Field *f, const WireItem *it) {
  return wire_fail(r, it->start, "'%s' (field %u) is written in another form", f->name, f->number);
}

static tenon_status put_value(WireReader *r, const Field *f, const WireItem *it, int depth,
                              JsonWriter *w) {
  bool bytes = f->kind == STRING || f->kind == BYTES || f->kind == MESSAGE;
  WireType type = bytes ? WT_BYTES : f->kind == DOUBLE ? WT_FIXED64 : WT_VARINT;
  double v;
  if (it->type != type) return wrong_form(r, f, it);
  switch (f->kind) {
  case BOOL: json_bool(w, it->value != 0); break;
  case STRING:
    if (!str_is_utf8(it->body)) return wire_fail(r, it->start, "'%s' is not UTF-8", f->name);
    json_str(w, it->body);
    break;
  case BYTES: put_base64(r->arena, it->body, w); break;
  case DOUBLE:
    memcpy(&v, &it->value, sizeof v);
    json_f64(w, v);
    break;
  case MESSAGE: return put_message(r, f->sub, it->body, depth + 1, w);
  default: json_i64(w, (int64_t)it->value); break;
  }
  return TENON_OK;
}

// The values of a repeated field in one item: a run of varints, or one value.
static tenon_status put_item(WireReader *r, const Field *f, const WireItem *it, int depth,
                             JsonWriter *w) {
  bool packed = it->type == WT_BYTES && (f->kind == INT || f->kind == BOOL || f->kind == ENUM);
  if (!packed) return put_value(r, f, it, depth, w);
  const uint8_t *at = (const uint8_t *)it->body.p, *end = at + it->body.n;
  while (at < end) {
    WireItem one = {.start = at, .type = WT_VARINT};
    const char *why = wire_varint(&at, end, &one.value);
    if (why) return wire_fail(r, one.start, "'%s': %s", f->name, why);
    TRY(put_value(r, f, &one, depth, w));
  }
  return TENON_OK;
}

static tenon_status find_last(const WireReader *r, Str bytes, uint32_t number, WireItem *out,
                              int64_t *count) {
  const uint8_t *p = (const uint8_t *)bytes.p;
  *count = 0;
  if (!bytes.n) return TENON_OK;
  WireCursor c = {p, p + bytes.n};
  while (c.at < c.end) {
    WireItem it;
    TRY(wire_next(r, &c, &it));
    if (it.number != number) continue;
    *out = it;
    ++*count;
  }
  return TENON_OK;
}

// An entry of a map is a message of a key and a value.
static tenon_status put_entry(WireReader *r, const Field *f, const WireItem *it, int depth,
                              JsonWriter *w) {
  WireItem key = {0}, value = {0};
  int64_t n;
  if (it->type != WT_BYTES) return wrong_form(r, f, it);
  TRY(find_last(r, it->body, 1, &key, &n));
  if (n && (key.type != WT_BYTES || !str_is_utf8(key.body)))
    return wire_fail(r, it->start, "a key of '%s' is not UTF-8", f->name);
  TRY(find_last(r, it->body, 2, &value, &n));
  if (n && value.type != WT_BYTES) return wrong_form(r, f, it);
  json_key_str(w, key.body.p ? key.body : STR(""));
  return put_message(r, f->sub, value.body.p ? value.body : STR(""), depth + 1, w);
}

// All values of a field that may have many.
static tenon_status put_all(WireReader *r, const Field *f, Str bytes, int depth, JsonWriter *w) {
  const uint8_t *p = (const uint8_t *)bytes.p;
  if (!bytes.n) return TENON_OK;
  WireCursor c = {p, p + bytes.n};
  int64_t n = 0;
  while (c.at < c.end) {
    WireItem it;
    TRY(wire_next(r, &c, &it));
    if (it.number != f->number) continue;
    if (++n > ENTRIES_MOST)
      return wire_fail(r, it.start, "more than %d of '%s'", ENTRIES_MOST, f->name);
    TRY(f->kind == MAP ? put_entry(r, f, &it, depth, w) : put_item(r, f, &it, depth, w));
  }
  return TENON_OK;
}

static tenon_status put_field(WireReader *r, const Field *f, Str bytes, int depth, JsonWriter *w) {
  WireItem it;
  int64_t n;
  TRY(find_last(r, bytes, f->number, &it, &n));
  if (!n) return TENON_OK;
  json_key(w, f->name);
  if (f->kind == MAP) {
    json_begin_object(w);
    TRY(put_all(r, f, bytes, depth, w));
    json_end_object(w);
  } else if (f->many) {
    json_begin_array(w);
    TRY(put_all(r, f, bytes, depth, w));
    json_end_array(w);
  } else {
    TRY(put_value(r, f, &it, depth, w));
  }
  return TENON_OK;
}

// The value that was written last; null where there is none.
static tenon_status put_union(WireReader *r, KsMessage m, Str bytes, int depth, JsonWriter *w) {
  const Field *last = NULL;
  WireItem best = {0};
  for (int64_t i = 0; i < ARRAY_LEN(field); i++) {
    WireItem it;
    int64_t n;
    if (field[i].message != m) continue;
    TRY(find_last(r, bytes, field[i].number, &it, &n));
    if (!n || (last && it.start < best.start)) continue;
    last = &field[i];
    best = it;
  }
  if (!last) {
    json_null(w);
  } else if (last->many) {
    json_begin_array(w);
    TRY(put_all(r, last, bytes, depth, w));
    json_end_array(w);
  } else {
    TRY(put_value(r, last, &best, depth, w));
  }
  return TENON_OK;
}

static tenon_status put_message(WireReader *r, KsMessage m, Str bytes, int depth, JsonWriter *w) {
  if (depth > NESTED_MOST) return wire_fail(r, bytes.p, "messages nest too deep");
  if (is_union(m)) return put_union(r, m, bytes, depth, w);
  json_begin_object(w);
  for (int64_t i = 0; i < ARRAY_LEN(field); i++)
    if (field[i].message == m) TRY(put_field(r, &field[i], bytes, depth, w));
  json_end_object(w);
  return TENON_OK;
}

tenon_status ks_message_to_json(Arena *a, KsMessage m, Str bytes, JsonWriter *w, Diag *d) {
  WireReader r;
  WireItem it;
  int64_t n;
  wire_init(&r, a, d, bytes);
  TRY(find_last(&r, bytes, 0, &it, &n));  // all of it is sound, also where there is no row
  return put_message(&r, m, bytes, 0, w);
}

// ---- writing ----
static int64_t enum_value(Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(enum_row); i++)
    if (str_is(name, enum_row[i].name)) return enum_row[i].value;
  return 0;
}

static void write_sub(Proto *p, int number, KsMessage sub, const Json *v) {
  Proto m;
  proto_init(&m, p->arena);
  ks_message_from_json(&m, sub, v);
  proto_message(p, number, &m);
}

// Values of 0 and empty ones are left out, but not where a place counts: in lists and in a oneof.
static void write_value(Proto *p, const Field *f, const Json *v, bool always) {
  int number = (int)f->number;
  int64_t i = v->kind == JSON_BOOL     ? v->b
              : v->kind == JSON_STRING ? enum_value(v->s)
              : v->kind == JSON_INT    ? v->i
                                       : 0;
  switch (f->kind) {
  case BOOL:
  case INT:
  case ENUM:
    if (i || always) proto_int(p, number, i);
    break;
  case STRING:
    if (v->kind == JSON_STRING && (v->s.n || always)) proto_bytes(p, number, v->s);
    break;
  case MESSAGE:
    if (v->kind != JSON_NULL) write_sub(p, number, f->sub, v);
    break;
  default: CHECK(false, "'%s' is not written from JSON", f->name);
  }
}

static void write_entry(Proto *p, const Field *f, Str key, const Json *v) {
  Proto m;
  proto_init(&m, p->arena);
  proto_bytes(&m, 1, key);
  write_sub(&m, 2, f->sub, v);
  proto_message(p, (int)f->number, &m);
}

static void write_union(Proto *p, KsMessage m, const Json *v) {
  for (int64_t i = 0; i < ARRAY_LEN(field); i++) {
    const Field *f = &field[i];
    if (f->message != m) continue;
    if (f->many) {
      for (int64_t k = 0; k < (v->kind == JSON_ARRAY ? v->n : v->kind == JSON_STRING); k++)
        write_value(p, f, v->kind == JSON_ARRAY ? &v->item[k] : v, true);
    } else if ((f->kind == BOOL && v->kind == JSON_BOOL) ||
               (f->kind == INT && v->kind == JSON_INT) ||
               (f->kind == STRING && v->kind == JSON_STRING)) {
      write_value(p, f, v, true);
    }
  }
}

void ks_message_from_json(Proto *p, KsMessage m, const Json *object) {
  if (is_union(m)) {
    write_union(p, m, object);
    return;
  }
  for (int64_t i = 0; i < ARRAY_LEN(field); i++) {
    const Field *f = &field[i];
    const Json *v = f->message == m ? json_get(object, f->name) : NULL;
    if (!v) continue;
    if (f->kind == MAP)
      for (int64_t k = 0; k < (v->kind == JSON_OBJECT ? v->n : 0); k++)
        write_entry(p, f, v->key[k], &v->item[k]);
    else if (f->many)
      for (int64_t k = 0; k < (v->kind == JSON_ARRAY ? v->n : 0); k++)
        write_value(p, f, &v->item[k], true);
    else
      write_value(p, f, v, false);
  }
}
