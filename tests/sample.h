// sample.h -- an op's sample as the text of a graph.
//
// A sample is "(operands) attributes [-> results]": operands are types, for which values are made,
// constants such as i64[2]{0, 1}, or _ for an absent one; `-> 3` asks for three results where the usual
// number is not meant.
#ifndef TENON_TESTS_SAMPLE_H
#define TENON_TESTS_SAMPLE_H

#include "ir/opinfo.h"

typedef struct Sample {
  const OpInfo *op;
  const char *text;
} Sample;
const char *sample_graph(Arena *a, const Sample *s);  // NULL: cannot be read

#endif
