// validate.h -- whether a JSON text is what a JSON Schema (2020-12) allows.
//
// A judge of answers, which shares nothing with the automaton of grammar.h but the JSON reader.
#ifndef TENON_GRAMMAR_VALIDATE_H
#define TENON_GRAMMAR_VALIDATE_H

#include "base/json.h"

// TENON_OK: `text` is JSON that the schema allows.  TENON_EINVAL: it is not; the message has the
// JSON pointers into both.  TENON_EUNSUPPORTED: the schema has a keyword that it does not know.
MUST_USE tenon_status schema_validate(Str schema, Str text, Diag *d);

#endif
