// fuse_kernels.h -- what the files of the fusion pass share: classes of nodes, groups, and the
// state of a pass over a body.
//
// Positions: nodes are numbered by their place in body_order, so that an operand's number is below
// its user's.  A group is named by the position of one of its nodes (its root, found through
// `parent`).
#ifndef TENON_PASSES_FUSE_KERNELS_FUSE_KERNELS_H
#define TENON_PASSES_FUSE_KERNELS_FUSE_KERNELS_H

#include "eval/fuse.h"
#include "passes/passes.h"

// By op and attributes alone; FC_HOST for what kernels cannot hold.
FuseOp fuse_op(const Node *n);
// A product whose right operand is written out transposed (passes/transpose_operands.c).
bool fuse_reads_packed(const Node *n);

enum {
  NO_GROUP = -1,
  FUSE_MEMBERS = 96,
  FUSE_WEIGHT = 32,
  FUSE_LEAVES = 64,
  FUSE_LOOK = 256,
  FUSE_MOVED = 32
};

typedef struct FuseNode {
  Node *node;
  FuseOp op;
  uint16_t weight, leaves;  // FC_INDEX_MAP: nodes copied with it, values it reads
  int32_t parent;           // union-find; NO_GROUP: in no group
  int32_t next;             // in the list of its group's members
  uint64_t order;           // how its elements lie, relative to the group's other values
  int64_t uses;             // reads by nodes that are not lazy, and results
  Dim numel;                // cached
  bool out;                 // read outside its group
  bool joined;              // a concatenation whose parts are made in its buffer
  bool part;                // is one of those
  bool head;    // the first convolution of a chain, perhaps: it reads memory, through no index map
  bool needed;  // something computes with it: what only known values are made of is not
  // while building
  int32_t stamp;
  int32_t projs;  // its projections, linked by `next`
  Node *clone, *main;
} FuseNode;

typedef struct FuseDep {
  int32_t value, next;
} FuseDep;
typedef struct FuseGroup {  // at the root's position
  int32_t head, tail, size;
  // All groups stand in a list in which each comes after those that it reads; labels ascend along
  // it.
  int32_t before, after;
  uint64_t label;
  int32_t deps;  // what it reads, of its own values too
  int32_t deps_tail;
  int32_t anchor;  // position, or NO_GROUP
  int64_t uses;    // reads of its values from outside
  bool host;
  bool stored;    // has a value of FF_STORED: complete, and in no other kernel
  uint8_t state;  // while ordering
  int32_t stamp;
} FuseGroup;

// Where a symbol's size can be read.
typedef struct SymSource {
  Node *param;
  int dim;
} SymSource;

typedef struct Fuser {
  Graph *g;
  Arena *arena;
  const Body *body;
  NodeList order;
  int32_t *pos;  // by node id
  FuseNode *n;   // by position
  FuseGroup *group;
  VEC(FuseDep) dep;
  VEC(int32_t) leaf;          // values that the node at hand reads
  VEC(int32_t) stack, found;  // for searches
  int32_t last;               // group in the list
  int32_t stamp;
  SymSource *sym;  // by slot
  int32_t nsyms;
  IntMap *bodies;  // Body -> its fused form, over all bodies
  bool alone;      // a kernel for each node: nothing is joined
  PassCtx *c;
} Fuser;

static inline FuseNode *fuse_at(Fuser *f, const Node *n) { return &f->n[f->pos[n->id]]; }
// The node that computes a value: the value itself, or what it projects.
static inline int32_t fuse_work(Fuser *f, int32_t value) {
  const Node *n = f->n[value].node;
  return n->op == OP_proj ? f->pos[n->src[0]->id] : value;
}
int32_t fuse_find(Fuser *f, int32_t i);
static inline int32_t fuse_group_of(Fuser *f, int32_t value) {
  return fuse_find(f, fuse_work(f, value));
}
Dim fuse_numel(Fuser *f, const Node *n);  // of its result
// Appends the values of groups that `o` is read from, through index maps.
void fuse_leaves(Fuser *f, const Node *o);
// The value that `o` is a rearrangement of, with the layout that it then has; NO_GROUP when it is
// none.
int32_t fuse_rearranged(Fuser *f, const Node *o, uint64_t *out_order);
bool fuse_is_view(Fuser *f, const Node *o);  // index maps down to that value that keep the order

// shape.c: contents that follow from the sizes of the body's parameters.
void fuse_find_symbols(Fuser *f);
bool fuse_is_shape(Fuser *f, const Node *n);
bool fuse_is_sized(Fuser *f, const Type *t);  // its sizes are known before anything runs
Node *fuse_shape_node(Fuser *f, const Node *n);

// lay_out.c: which operands of the node are written for its kernel.
void fuse_lay_out(Fuser *f, const Node *n);
bool fuse_is_packed_dot(const Node *n);  // multiplies several narrow elements at once
bool fuse_fetches_pixels(const Fuser *f, const Node *n);  // an MMA tile fetches its windows

// conv_chain.c: the group of the convolution that the one at position i takes into its kernel;
// NO_GROUP: none.
int32_t fuse_conv_chain(Fuser *f, int32_t i);
void fuse_mark_heads(Fuser *f);  // before anything is joined

// repeat.c: whether the node at position i would compute what is in a group so often that a kernel
// of its own costs less.
bool fuse_repeats(Fuser *f, int32_t i, int32_t group);

// build.c: the body with its groups as kernels.
MUST_USE tenon_status fuse_build(Fuser *f, Body **out);
MUST_USE tenon_status fuse_body(PassCtx *c, IntMap *bodies, const Body *b, Body **out);

#endif
