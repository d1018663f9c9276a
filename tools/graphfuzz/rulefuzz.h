// rulefuzz.h -- one rule on random instances of its example.
//
// An instance is the example with something changed: other element types, sizes as numbers or left
// as symbols, other constants, inputs as constants, a further user of an inner value, axes put in
// front, a node of another op, operand or attribute.  The rule alone is applied to it; where it
// fires, both graphs are run on random values and must agree: bit for bit where the rule needs no
// fast-math flag, else within what the instance makes of a few roundings.  An instance on which it
// does not fire says nothing and is not counted.
#ifndef TENON_TESTS_RULEFUZZ_H
#define TENON_TESTS_RULEFUZZ_H

#include "ir/rule.h"

typedef struct RuleTally {
  int64_t tried, fired, compared,
      varied;  // compared: ran, with a bound where it needs a fast-math flag; varied: not the
               // example itself
} RuleTally;

// Until the rule has fired `times` times, or too seldom for that: false, with a message, when it
// changes a result, when it does not fire on its example, or when it fires too seldom.
bool rule_fuzz(const Rule *r, int64_t times, uint64_t first_seed, RuleTally *out, Diag *d);

#endif
