// json.h -- JSON: a writer for --json and reports, and a reader for small documents.
//
// The writer appends to a StrBuf and keeps the commas; it writes what every reader takes: NaN and
// infinities become null, bytes that are not UTF-8 become U+FFFD, numbers round-trip.  The reader
// builds a tree in an arena.  It takes RFC 8259 and nothing else, and refuses what readers disagree
// about: duplicate keys, lone surrogates, numbers out of range, more than 64 levels.
#ifndef TENON_BASE_JSON_H
#define TENON_BASE_JSON_H

#include "base/base.h"

enum { JSON_DEPTH = LIMIT_JSON_DEPTH };

// ---- writing ----
typedef struct JsonWriter {
  StrBuf *out;
  bool compact;    // one line, no spaces
  bool after_key;  // the next value belongs to the key just written
  int depth;
  uint8_t filled[JSON_DEPTH + 1];  // whether the level has an item already
  uint8_t flat[JSON_DEPTH + 1];    // whether the level is kept on one line
} JsonWriter;
void json_init(JsonWriter *w, StrBuf *out, bool compact);
void json_begin_object(JsonWriter *w);
void json_begin_array(JsonWriter *w);
void json_begin_flat_object(JsonWriter *w);
void json_begin_flat_array(JsonWriter *w);  // on one line, for shapes and numbers
void json_end_object(JsonWriter *w);
void json_end_array(JsonWriter *w);
void json_key(JsonWriter *w, const char *key);
void json_key_str(JsonWriter *w, Str key);
void json_str(JsonWriter *w, Str s);
void json_cstr(JsonWriter *w, const char *z);  // NULL is null
void json_i64(JsonWriter *w, int64_t v);
void json_u64(JsonWriter *w, uint64_t v);
void json_f64(JsonWriter *w, double v);  // shortest form that reads back the same double
void json_f32(JsonWriter *w, float v);   // ... the same float
void json_key_f64(JsonWriter *w, const char *key, double v);
void json_bool(JsonWriter *w, bool v);
void json_null(JsonWriter *w);
// The text of a finite number as the writer spells it; `cap` of 32 is always enough.  Returns its
// length.
int json_number(double v, bool single, char *out, int cap);

// ---- reading ----
typedef enum {
  JSON_NULL,
  JSON_BOOL,
  JSON_INT,    // no fraction, no exponent, fits int64
  JSON_FLOAT,  // any other number
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
} JsonKind;
typedef struct Json Json;
struct Json {
  JsonKind kind;
  bool b;
  int64_t i;
  double f;  // JSON_INT too
  Str s;
  int64_t n;         // items
  const Json *item;  // [n] of an array or object
  const Str *key;    // [n] of an object
};
MUST_USE tenon_status json_parse(Arena *a, Str text, Diag *d, Json *out);
// Writes what was read.  EINVAL: that would be nested deeper than a reader takes; what was written
// is then of no use.
MUST_USE tenon_status json_put(JsonWriter *w, const Json *v, Diag *d);
bool json_is_nothing(const Json *v);  // null, false, 0, or empty: what a key that is off may have
const Json *json_get(const Json *object, const char *key);  // NULL when absent or not an object

#endif
