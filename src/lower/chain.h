// chain.h -- what the files of the chain template share.
//
// A chain is a pointwise convolution that widens an image (expand), a depthwise one, and a pointwise one that narrows it
// again (project), each with what is done to its elements.  Expand or project may be missing.
#ifndef TENON_LOWER_CHAIN_H
#define TENON_LOWER_CHAIN_H

#include "lower/contract.h"
#include "lower/follow.h"

// How a chain is done.  Chosen by shapes and the target alone; printed as a kernel's name, and read back.
typedef struct ChainSchedule {
  int64_t rows;    // lines of the result of a work item
  int64_t chunk;   // wide channels at a time
  int64_t expand;  // pixels of a tile that is widened; 0: there is no such part
  int64_t depth;   // pixels of a tile of the depthwise convolution
  int64_t mr, nr;  // pixels and channels of a tile of the result; 0: the wide image is the result
} ChainSchedule;
const char *chain_schedule_print(Arena *a, const ChainSchedule *s);
bool chain_schedule_parse(const char *text, ChainSchedule *out);

typedef struct ChainLink {
  const Node *anchor;  // NULL: missing
  const Node *value;   // what the next link reads
  Contraction c;
  int32_t packed;  // argument
  int32_t acc;     // register tile
  bool heavy;      // functions of many instructions stand behind it
} ChainLink;

typedef struct ConvChain {
  Elem e;
  Follow follow;  // from the last link to the results
  ChainLink expand, depth, project;
  ChainSchedule s;
  int64_t lanes;   // of a vector
  int64_t groups;  // of the projection: parts of the wide channels, each with results of its own
  int64_t narrow, wide, out;  // channels: of the input, in between, of a group of the result
  int64_t height, width;      // of the wide image
  int64_t out_height, out_width;
  int64_t lines;  // of the wide image that an item's lines are made from, with those outside of it
  int64_t
      lines_inside;  // of these, where an item has all lines of the result: those that are inside
  int64_t chunks;    // of a group
  int64_t pitch;     // elements between pixels of `deep`
  int32_t
      widened;  // scratch, [line][pixel][chunk]: the wide image, some channels of it; -1: read where it lies
  int32_t
      deep;  // scratch, [line][pixel][wide channels of a group]: behind the depthwise convolution; -1: that is the result
  int32_t sums;  // scratch: a tile of the result before heavy functions; -1: there are none
  // where the loops stand
  Dim image, top;    // of the item: number, first line of the result
  Dim count;         // lines of the result
  Dim group, chunk;  // numbers; of the chunk in its group
  Dim line;          // of the widened image, of the result: counted from the item's first
  Dim panel, vector;
  // the element that is given
  const ChainLink *given;
  const Dim *index;
  const LoopExpr *sum;
} ConvChain;

static inline const ChainLink *chain_last(const ConvChain *c) {
  return c->project.anchor ? &c->project : &c->depth;
}
void chain_choose(ConvChain *c, const LowerTarget *t);
bool chain_emit(
    ConvChain *c);  // chain_tile.c: the loops.  False when an operand has no expression.

#endif
