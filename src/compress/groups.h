// groups.h -- what can be quantised, and which tensors that makes 8-bit ones.
//
// A group is a contraction with constant weights and what fuses behind it.  Its choice is a row of
// choices.def.  Tensors joined by data movement, pooling by maxima or a concat share their scale
// and zero point, so that their ops work on the integers.
#ifndef TENON_COMPRESS_GROUPS_H
#define TENON_COMPRESS_GROUPS_H

#include "compress/choose.h"
#include "compress/observe.h"
#include "compress/range.h"

typedef enum {
#define CHOICE(id, ...) CHOICE_##id,
#include "compress/choices.def"
  CHOICES
} Choice;
typedef struct ChoiceRow {
  const char *name;
  int weight_bits, activation_bits, zeros;
  bool needs_data, products;
  const char *doc;
} ChoiceRow;
extern const ChoiceRow choice_row[CHOICES];
int choice_find(Str name);  // -1: there is none

// How the elements of a weight belong to output and input channels.
typedef struct WeightShape {
  int axis;                              // of output channels, 0 or 1
  int64_t outputs, inputs, taps, parts;  // inputs: of one part; parts: groups of the convolution
} WeightShape;

typedef struct QuantGroup {
  const Node *node;
  const char *name, *kept;  // kept: why it stays in f32 whatever is asked; NULL: it need not
  WeightShape shape;
  Choice choice;
  const char *migrated;  // what moved scale into its weights (migrate.h); NULL: nothing did
  double share;          // of the whole error, where it was measured; else 0
  double ns[2];          // time as it was and as chosen, where it was measured; else 0
} QuantGroup;
typedef VEC(QuantGroup) GroupList;

// Contractions with constant weights, in order.  `keep`: patterns of names that stay in f32.
void groups_find(Graph *g, const char *const *keep, int64_t nkeep, Arena *a, GroupList *out);
int64_t groups_at(const GroupList *l, const Node *n);  // -1: it is none
// Shares of the operations, and the tensors between groups: what choices between int8 and f32 are
// made by.
void groups_problem(Graph *g, const GroupList *l, Arena *a, ChooseProblem *out);

// Tensors of 8 bits that follow from the choices, by node id.
typedef struct QuantTensors {
  int64_t n;
  bool *wanted;         // its value is quantised for some reader
  bool *by_join;        // of a node: it adds or multiplies 8-bit tensors
  int32_t *set;         // union-find: tensors with the same parameters
  QuantParams *params;  // by set, once ranges are known
} QuantTensors;
void tensors_find(Graph *g, const GroupList *l, Arena *a, QuantTensors *out);
int32_t tensors_set(const QuantTensors *t, const Node *n);
// Whether node n reads operand i as an 8-bit tensor.
bool tensors_reads(const QuantTensors *t, const GroupList *l, const Node *n, uint32_t i);
// All tensors that any choice of groups could need, into the list to observe.
void tensors_observe(Graph *g, const GroupList *l, Arena *a, StatsList *out);
void tensors_ranges(Graph *g, QuantTensors *t, const StatsList *stats, RangeMethod m, Arena *a);

#endif
