// fields.h -- the JSON of a request: each field by its name, its kind and its range.
//
// Ranges of numbers are the rows SERVE_FIELD of limits.def.  The first thing that is wrong is kept;
// fields_end answers with it, and with 400 where a field is left that nobody has read: what a
// client asks for is done or refused by name.
#ifndef TENON_SERVE_OPENAI_FIELDS_H
#define TENON_SERVE_OPENAI_FIELDS_H

#include "base/json.h"
#include "serve/http.h"

typedef struct Fields {
  HttpExchange *x;
  Json root;
  bool *read;               // [root.n]
  const char *param, *why;  // of the first error; NULL: none
  const char *adapter;      // of the model that was asked for; NULL: none
  Str missing;              // a model that there is not; p NULL: none
} Fields;

// Parses the body.  False: it was no JSON object, and the exchange is answered.
bool fields_begin(Fields *f, HttpExchange *x);
// False: something was wrong, and the exchange is answered.
bool fields_end(Fields *f);
void field_wrong(Fields *f, const char *param, const char *fmt, ...) PRINTF(3, 4);

// The value, where it is there and not null; NULL else.
const Json *field(Fields *f, const char *name);
const Json *field_of(Fields *f, const char *name, JsonKind kind, const char *what);
// True: it is there and in its range.
bool field_int(Fields *f, const char *name, int64_t *out);
bool field_real(Fields *f, const char *name, double *out);
bool field_bool(Fields *f, const char *name);  // false where it is not there
Str field_text(Fields *f, const char *name);   // p NULL where it is not there
// Read and left alone: what changes nothing here.
void fields_ignore(Fields *f, const char *const *names);

#endif
