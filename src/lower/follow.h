// follow.h -- from an element of a kernel's anchor to where it goes: the nodes behind the anchor, forwards.
#ifndef TENON_LOWER_FOLLOW_H
#define TENON_LOWER_FOLLOW_H

#include "lower/elem.h"

typedef struct Follow {
  Elem *e;
  const Node *anchor;
  NodeList all;     // of the body, operands first
  IntMap above;     // nodes that a value of the anchor's goes into
  const Node *own;  // the value at hand: the anchor, or the projection that it is
} Follow;

// Finds the nodes behind `anchor`.  e->body is set.
void follow_begin(Follow *f, Elem *e, const Node *anchor);
// The value that is the anchor's result i, or NULL: nothing reads it.
const Node *follow_value(const Follow *f, int i);
bool follow_reads(const Follow *f, const Node *n);  // n is made from the value at hand
// Blocks of channels and of pixels: they can be followed, but their index not turned back into the same expression, so that
// the value behind one has to be given.
bool follow_moves_blocks(const Node *n);
// Where the element `index` of the value at hand stands in n; false: not once, or not to be told.
bool follow_to(Follow *f, const Node *n, const Dim *index, Dim *out);
// Stores every result of the kernel that is made from the value at hand, which was given, under the guards of e.
bool follow_store(Follow *f, const Dim *index);

#endif
