// conv_chain.h -- what the files of the chain template share.
//
// A chain is a pointwise convolution that widens an image (expand), a depthwise one, and a
// pointwise one that narrows it again (project), each with what is done to its elements.  Expand or
// project may be missing.
#ifndef TENON_LOWER_CPU_CONV_CHAIN_H
#define TENON_LOWER_CPU_CONV_CHAIN_H

#include "lower/contract/contract.h"
#include "lower/element/epilogue.h"

// How a chain is done.  Taps and channels are added in the order of the weights, whatever the
// schedule.
#define CONV_CHAIN_SCHEDULE(I, B, C, T)                                                            \
  I(T, item_lines, 0, 1, 1 << 16, 1, FREE, "lines of the result of a work item")                   \
  I(T, channels, 0, 1, 256, 1, FREE, "channels of the wide image computed together")               \
  I(T, lanes, 0, 1, 64, 0, FREE, "of these, channels of a depthwise register tile")                \
  I(T, expand_pixels, 0, 0, 64, 1, FREE,                                                           \
    "pixels of a register tile of the first convolution; 0: there is none")                        \
  I(T, depth_pixels, 0, 1, 64, 1, FREE, "pixels of a register tile of the depthwise convolution")  \
  I(T, pixels, 0, 0, 64, 1, FREE,                                                                  \
    "pixels of a register tile of the last convolution; 0: there is none")                         \
  I(T, cols, 0, 0, 256, 1, FREE, "channels of a register tile of the last convolution")
SCHEDULE_STRUCT(ConvChain, CONV_CHAIN_SCHEDULE);

typedef struct ConvChainLink {
  const Node *anchor;  // NULL: missing
  const Node *value;   // what the next link reads
  Contraction c;
  int32_t packed;  // argument
  int32_t acc;     // register tile
  bool expensive;  // functions of many instructions stand behind it
} ConvChainLink;

typedef struct ConvChain {
  ElementBuilder e;
  EpilogueWalk walk;  // from the last link to the results
  ConvChainLink expand, depth, project;
  ConvChainSchedule s;
  int64_t groups;  // of the projection: parts of the wide channels, each with results of its own
  int64_t narrow, wide, out;  // channels: of the input, in between, of a group of the result
  int64_t height, width;      // of the wide image
  int64_t out_height, out_width;
  int64_t lines;  // of the wide image that an item's lines are made from, with those outside of it
  int64_t
      lines_inside;  // of these, where an item has all lines of the result: those that are inside
  int64_t chunks;    // of a group
  int64_t pitch;     // elements between pixels of `deep`
  int32_t widened;   // scratch, [line][pixel][chunk]: the wide image, some channels of it; -1: read
                     // in place
  int32_t deep;      // scratch, [line][pixel][wide channels of a group]: behind the depthwise
                     // convolution; -1: that is the result
  int32_t sums;      // scratch: a tile of the result before heavy functions; -1: there are none
  // where the loops stand
  Dim image, top;    // of the item: number, first line of the result
  Dim count;         // lines of the result
  Dim group, chunk;  // numbers; of the chunk in its group
  Dim line;          // of the widened image, of the result: counted from the item's first
  Dim panel, vector;
  // the element that is given
  const ConvChainLink *given;
  const Dim *index;
  const LoopExpr *sum;
} ConvChain;

static inline const ConvChainLink *conv_chain_last(const ConvChain *c) {
  return c->project.anchor ? &c->project : &c->depth;
}
bool conv_chain_emit(
    ConvChain *c);  // conv_chain_loops.c: the loops.  False when an operand has no expression.

#endif
