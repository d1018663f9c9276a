// write.h -- what the files of the StableHLO writer share.
//
// The text is in MLIR's generic form, one operation a line: name, operands, attributes, types.
#ifndef TENON_EXPORTERS_STABLEHLO_WRITE_H
#define TENON_EXPORTERS_STABLEHLO_WRITE_H

#include "exporters/export.h"

typedef struct HloOut {
  Graph *g;
  Arena *arena;
  Diag *diag;
  StrBuf text;
  int indent;
  int64_t next;  // number of the next value
  IntMap name;   // node -> const char *
  RefusedList refused;
} HloOut;

// A value of the text: what it is called and what it is.
typedef struct HloValue {
  const char *name;
  const Type *type;
} HloValue;

typedef HloValue HloFn(HloOut *o, const Node *n, const char *word);
typedef struct HloRow {
  int op;
  HloFn *fn;
  const char *word;  // what the operation is called, or what of it differs
} HloRow;
const HloRow *hlo_out_row(int op);  // NULL: it has none
extern const RewriteRow hlo_out_rewrites[];
extern const int64_t hlo_out_nrewrites;

HloValue hlo_out_source(HloOut *o, const Node *n, uint32_t i);  // an operand
bool hlo_out_has_dtype(DType t);
HloValue hlo_out_refuse(HloOut *o, const Node *n, const char *why);

// One operation of one result.  `attrs` may be NULL.
HloValue hlo_out_op(HloOut *o, const char *op, int n, const HloValue *in, const char *attrs,
                    const Type *t);
// The same with a region that joins two scalars: reductions.
HloValue hlo_out_joining(HloOut *o, const char *op, int n, const HloValue *in, const char *attrs,
                         const char *join, const Type *t);
HloValue hlo_out_scalar(HloOut *o, DType t, double v);
HloValue hlo_out_spread(HloOut *o, HloValue x, const Type *t);  // broadcast as numpy does
HloValue hlo_out_reshape(HloOut *o, HloValue x, const Type *t);
const char *hlo_out_ints(HloOut *o, const char *name, int64_t n,
                         const int64_t *v);  // name = array<i64: 1, 2>
void hlo_out_type(StrBuf *b, const Type *t);

// Families in other files.
HloFn hlo_out_convolution, hlo_out_conv_integer, hlo_out_pool, hlo_out_gather,
    hlo_out_gather_elements, hlo_out_range, hlo_out_arg;

#endif
