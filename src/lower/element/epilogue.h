// epilogue.h -- from an element of a kernel's anchor to where it goes: the nodes behind the anchor,
// forwards.
#ifndef TENON_LOWER_ELEMENT_EPILOGUE_H
#define TENON_LOWER_ELEMENT_EPILOGUE_H

#include "lower/element/element.h"

typedef struct EpilogueWalk {
  ElementBuilder *e;
  const Node *anchor;
  NodeList all;     // of the body, operands first
  IntMap above;     // nodes that a value of the anchor's goes into
  const Node *own;  // the value at hand: the anchor, or the projection that it is
} EpilogueWalk;

// Finds the nodes behind `anchor`.  e->body is set.
void epilogue_begin(EpilogueWalk *f, ElementBuilder *e, const Node *anchor);
// The value that is the anchor's result i, or NULL: nothing reads it.
const Node *epilogue_value(const EpilogueWalk *f, int i);
bool epilogue_reads(const EpilogueWalk *f, const Node *n);  // n is made from the value at hand
// Blocks of channels and of pixels: they can be followed, but their index not turned back into the
// same expression, so that the value behind one has to be given.
bool epilogue_moves_blocks(const Node *n);
// Where the element `index` of the value at hand stands in n; false: not once, or not to be told.
bool epilogue_index(EpilogueWalk *f, const Node *n, const Dim *index, Dim *out);
// Stores every result of the kernel that is made from the value at hand, which was given, under the
// guards of e.
bool epilogue_store(EpilogueWalk *f, const Dim *index);

#endif
