// kv_append.h -- what the templates of kv_append share.
#ifndef TENON_LOWER_CPU_KV_APPEND_H
#define TENON_LOWER_CPU_KV_APPEND_H

#include "lower/element/element.h"
#include "lower/template.h"

typedef struct Append {
  ElementBuilder e;
  const Node *node;
  Dim shape[4];  // of the cache
  Dim rows;
} Append;

Append *append_begin(Lowering *lo, const Node *fused);  // NULL: it puts no rows into a cache
// A head of all rows goes where it belongs, in the order of the rows: element `d` of it, or where
// that is NULL all of them, in vectors.  False: an operand has no expression.
bool append_rows(Append *a, Dim head, Dim d);
// The pages' own elements likewise, where the cache is not changed in place.
bool append_pages(Append *a, Dim head, Dim d);

#endif
