// tensors.h -- values on their way in and out of a command: array files, ONNX test data,
// comparison.
#ifndef TENON_CLI_TENSORS_H
#define TENON_CLI_TENSORS_H

#include "base/npy.h"
#include "cli/cli.h"
#include "frontends/onnx/onnx.h"

// Borrows the array's data.
MUST_USE tenon_status value_of_array(Run *r, const NdArray *v, Value **out);
// Borrows the tensor's data; EUNSUPPORTED for what an array file cannot hold.
MUST_USE tenon_status array_of_value(const Value *v, const char *name, Diag *d, NdArray *out);
// One .pb file of a conformance test, read as what the model's file declares; `type` fills in the
// element types of what is empty.
MUST_USE tenon_status value_of_pb(Run *r, Arena *a, OnnxTypeKind kind, const Type *type, Str bytes,
                                  Value **out);
// f32[2, 3], seq(...), as the text form spells types
const char *value_text(Arena *a, const Value *v);
const char *type_text(Arena *a, const Type *t);

// ---- comparison: |got - want| <= atol + rtol * |want| ----
typedef struct Tolerance {
  double rtol, atol;
} Tolerance;
Tolerance tolerance_of(DType t);  // the default; 0 and 0 is exact
// What the options --rtol and --atol of a command say, by their rows; NULL: nothing.
const Tolerance *tolerance_given(Cli *c, int rtol, int atol);
// The same for a tensor that was computed in two ways: atol grows with its largest element.
Tolerance tolerance_scaled(const Value *want);
typedef struct Comparison {
  const Tolerance *given;  // NULL: by element type
  Arena *arena;            // for the text
  // Of two ways to compute one thing: roundings go with the largest numbers that were added up, so
  // the bound does too.
  bool scaled;
  double factor;      // by which a scaled tolerance grows, and elements that are no floats and may
                      // differ (sensitivity.h); 0: none
  double max_abs;     // largest difference of finite elements seen, over all calls
  int64_t nwrong, n;  // elements outside the tolerance, and all
  const char *why;  // the first difference in words, the worst element named; NULL while all match
} Comparison;
// NaN equals NaN; infinities and shapes must be equal.  False: c->why says how they differ.
bool values_match(Comparison *c, const Value *got, const Value *want);

// Elements as people read them: "0.5", "inf", "true", "'text'", "1+2i".
void print_element(StrBuf *b, const Value *v, int64_t i);

#endif
