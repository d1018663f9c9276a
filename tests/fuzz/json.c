// json.c -- fuzz target: the JSON reader, and the writer on what it read.
#include "base/json.h"
#include "fuzz.h"

static void write_value(JsonWriter *w, const Json *j) {
  switch (j->kind) {
  case JSON_NULL: json_null(w); break;
  case JSON_BOOL: json_bool(w, j->b); break;
  case JSON_INT: json_i64(w, j->i); break;
  case JSON_FLOAT: json_f64(w, j->f); break;
  case JSON_STRING: json_str(w, j->s); break;
  case JSON_ARRAY:
    json_begin_array(w);
    for (int64_t i = 0; i < j->n; i++) write_value(w, &j->item[i]);
    json_end_array(w);
    break;
  case JSON_OBJECT:
    json_begin_object(w);
    for (int64_t i = 0; i < j->n; i++) {
      json_key_str(w, j->key[i]);
      write_value(w, &j->item[i]);
    }
    json_end_object(w);
    break;
  }
}

// Written and read again, the text must stay the same: the first writing is a fixed point.
static void read_json(Str text, Arena *a, Diag *d) {
  Json j, k;
  StrBuf b, c;
  JsonWriter w;
  if (json_parse(a, text, d, &j)) return;
  strbuf_init(&b, a);
  strbuf_init(&c, a);
  json_init(&w, &b, true);
  write_value(&w, &j);
  if (json_parse(a, strbuf_str(&b), d, &k)) __builtin_trap();
  json_init(&w, &c, true);
  write_value(&w, &k);
  if (!str_eq(strbuf_str(&b), strbuf_str(&c))) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_json);
}
