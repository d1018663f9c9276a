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
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  fuzz_begin();
  Arena a;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    Json j, k;
    if (!json_parse(&a, (Str){(const char *)data, (int64_t)size}, &d, &j)) {
      StrBuf b, c;
      JsonWriter w;
      strbuf_init(&b, &a);
      strbuf_init(&c, &a);
      json_init(&w, &b, true);
      write_value(&w, &j);
      if (json_parse(&a, strbuf_str(&b), &d, &k)) __builtin_trap();
      json_init(&w, &c, true);
      write_value(&w, &k);
      if (!str_eq(strbuf_str(&b), strbuf_str(&c))) __builtin_trap();
    }
  }
  trap_leave(&t);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
