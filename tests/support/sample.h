// sample.h -- an op's sample as the text of a graph.
//
// A sample is "(operands) attributes [-> results]": operands are types, for which values are made,
// constants such as i64[2]{0, 1}, or _ for an absent one; `-> 3` asks for three results where the
// usual number is not meant.
#ifndef TENON_TESTS_SUPPORT_SAMPLE_H
#define TENON_TESTS_SUPPORT_SAMPLE_H

#include "ir/opinfo.h"

typedef struct Sample {
  const OpInfo *op;
  const char *text;
} Sample;
const char *sample_graph(Arena *a, const Sample *s);  // NULL: cannot be read

// Values for a sample's operands, the same after each seeding.
void sample_seed(void);
MUST_USE tenon_status sample_value(Run *run, const Type *t, Value **out);
// The same bits, or within a few roundings of every step between.
bool sample_close(const Value *a, const Value *b, bool exact);

#endif
