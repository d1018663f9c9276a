// mlir.h -- the module of a StableHLO file, the same for every form that it is written in.
//
// Text (pretty and generic), bytecode (VHLO) and jax.export files all become this: operations under
// their StableHLO names ("stablehlo.add", "func.call", "chlo.erf", "check.expect_eq_const"), with
// the generic form's operands and attribute names.  So the importer sees one form only:
//   - what the pretty form says by position or by word is an attribute of the specification's name:
//     `stablehlo.compare EQ, %a, %b, FLOAT` has comparison_direction = EQ and compare_type = FLOAT;
//   - a structured attribute (#stablehlo.gather<...>, dot, conv, scatter, channel_handle,
//     output_operand_alias ...) is a dictionary with its fields' names; a field that was left out
//     has its default: an empty list;
//   - VHLO's versioned names are the plain ones (vhlo.add_v1 is stablehlo.add, its func is
//     func.func), and its attributes the plain ones;
//   - older spellings are renewed (mhlo.x is stablehlo.x where they mean the same; lists as dense<>
//     are MA_INTS).
// Everything lives in the arena that the reader was given; strings are NUL-terminated copies there,
// the bytes of large constants may be slices of the file.  A value is defined before it is used;
// `verify.c` has checked what mlir_verify promises.
#ifndef TENON_FRONTENDS_STABLEHLO_MLIR_H
#define TENON_FRONTENDS_STABLEHLO_MLIR_H

#include "base/num.h"

typedef struct MlirType MlirType;
typedef struct MlirAttr MlirAttr;
typedef struct MlirOp MlirOp;
typedef struct MlirRegion MlirRegion;

// Element types: enum, MLIR's spelling, bits of one element, the graph's dtype (0: it has none).
// clang-format off
#define MLIR_ELEMS(X)                                  \
  X(BOOL,      "i1",             1, DT_BOOL)           \
  X(I2,        "i2",             2, DT_I2)             \
  X(I4,        "i4",             4, DT_I4)             \
  X(I8,        "i8",             8, DT_I8)             \
  X(I16,       "i16",           16, DT_I16)            \
  X(I32,       "i32",           32, DT_I32)            \
  X(I64,       "i64",           64, DT_I64)            \
  X(U2,        "ui2",            2, DT_U2)             \
  X(U4,        "ui4",            4, DT_U4)             \
  X(U8,        "ui8",            8, DT_U8)             \
  X(U16,       "ui16",          16, DT_U16)            \
  X(U32,       "ui32",          32, DT_U32)            \
  X(U64,       "ui64",          64, DT_U64)            \
  X(F4E2M1,    "f4E2M1FN",       4, DT_F4E2M1)         \
  X(F6E2M3,    "f6E2M3FN",       6, (DType)0)          \
  X(F6E3M2,    "f6E3M2FN",       6, (DType)0)          \
  X(F8E3M4,    "f8E3M4",         8, (DType)0)          \
  X(F8E4M3,    "f8E4M3",         8, (DType)0)          \
  X(F8E4M3FN,  "f8E4M3FN",       8, DT_F8E4M3)         \
  X(F8E4M3Z,   "f8E4M3FNUZ",     8, DT_F8E4M3Z)        \
  X(F8E4M3B11, "f8E4M3B11FNUZ",  8, (DType)0)          \
  X(F8E5M2,    "f8E5M2",         8, DT_F8E5M2)         \
  X(F8E5M2Z,   "f8E5M2FNUZ",     8, DT_F8E5M2Z)        \
  X(F8E8M0,    "f8E8M0FNU",      8, DT_F8E8M0)         \
  X(BF16,      "bf16",          16, DT_BF16)           \
  X(F16,       "f16",           16, DT_F16)            \
  X(F32,       "f32",           32, DT_F32)            \
  X(TF32,      "tf32",          32, (DType)0)          \
  X(F64,       "f64",           64, DT_F64)            \
  X(C64,       "complex<f32>",  64, DT_C64)            \
  X(C128,      "complex<f64>", 128, DT_C128)           \
  X(INDEX,     "index",         64, DT_I64)
// clang-format on
typedef enum {
  ME_NONE,
#define X(e, text, bits, dtype) ME_##e,
  MLIR_ELEMS(X)
#undef X
      ME_QUANT,  // !quant.uniform, in `quant`; `elem` of its storage and expressed type are there
  ME_OTHER       // an integer of another width, none of the above: its spelling is in `text`
} MlirElem;
const char *mlir_elem_name(MlirElem e);
int mlir_elem_bits(MlirElem e);     // 0: none, quantised or other
DType mlir_elem_dtype(MlirElem e);  // 0: the graph has none

// !quant.uniform<storage<min:max>:expressed[:axis | :{axis:block, ...}], {scale:zero_point, ...}>
typedef struct MlirQuant {
  MlirElem storage, expressed;
  int64_t min, max;  // of the storage; as given, else those of its type
  int64_t axis;      // of per-axis scales; -1: one scale for all
  int64_t naxes;     // of sub-channel quantisation; 0: it is none
  const int64_t *axes, *blocks;
  int64_t nscales;  // 1, or one an index of the axis, or the product of the blocks' counts
  const double *scales;
  const int64_t *zero_points;  // one a scale
} MlirQuant;

typedef enum {
  MT_NONE,      // `none`
  MT_SCALAR,    // a bare element type, as attributes have: f32, i64, index
  MT_TENSOR,    // tensor<2x?xf32>; vector and memref are MT_OTHER
  MT_TOKEN,     // !stablehlo.token
  MT_TUPLE,     // tuple<parts>
  MT_FUNCTION,  // (parts[0 .. nparts-nresults)) -> (the last nresults)
  MT_OTHER      // known by its text alone
} MlirTypeKind;
#define MLIR_DYNAMIC ((int64_t)-1)
struct MlirType {
  MlirTypeKind kind;
  MlirElem elem;           // of tensors and scalars
  const MlirQuant *quant;  // when elem is ME_QUANT
  bool unranked;           // tensor<*xf32>
  int64_t rank;
  const int64_t *dims;           // MLIR_DYNAMIC: `?`
  const int64_t *bounds;         // #stablehlo.bounds<...>: NULL, or one a dim, MLIR_DYNAMIC: none
  const MlirType *const *parts;  // of tuples and functions
  int64_t nparts, nresults;
  const char *text;  // MT_OTHER and ME_OTHER: as the file spells it
};
// Same type?  Bounds and signs of integers count.
bool mlir_type_eq(const MlirType *a, const MlirType *b);
const char *mlir_type_text(Arena *a, const MlirType *t);  // as MLIR spells it, for messages
// Elements of a tensor of static shape; false: dynamic, or more than int64 counts.
bool mlir_type_count(const MlirType *t, int64_t *out);

typedef enum {
  MA_UNIT,    // present, without a value
  MA_BOOL,    // .i: 0 or 1
  MA_INT,     // .i, .type (MT_SCALAR)
  MA_FLOAT,   // .f, .type
  MA_STRING,  // .text, .ntext
  MA_SYMBOL,  // @name, .text without the @; nested ones joined by "::"
  MA_ENUM,    // a word of the specification, .text: EQ, HIGHEST, ADJOINT, ...
  MA_TYPE,    // .type
  MA_ARRAY,   // .items, .n: [a, b]
  MA_INTS,  // .ints, .n: array<i64: ...>, also of i1, i8, i16, i32; also a 1-D dense<> of integers
            // that is a list
  MA_FLOATS,  // .floats, .n: array<f32: ...>
  MA_DENSE,   // .type (tensor), .data, .ndata, .splat
  MA_DICT,    // .fields, .n
  MA_OTHER    // .text: as the file spells it, e.g. #sdy.sharding<...>
} MlirAttrKind;
typedef struct MlirField {
  const char *name;
  const MlirAttr *value;
} MlirField;
struct MlirAttr {
  MlirAttrKind kind;
  int64_t i, n;
  double f;
  const MlirType *type;
  const char *text;
  int64_t ntext;
  const MlirAttr *const *items;
  const int64_t *ints;
  const double *floats;
  const MlirField *fields;  // in the file's order
  // MA_DENSE: little-endian elements as the graph's dtypes lie: i1 one byte each (0, 1), sub-byte
  // types packed from the low bits, complex as (re, im); types that the graph has not got: one
  // element a byte (f8, f6), low bits.  splat: one element stands for all.  Checked: ndata is what
  // the type and splat need.
  const uint8_t *data;
  int64_t ndata;
  bool splat;
};

typedef struct MlirValue {
  const char *name;  // "%0", "%0#1", "%arg0"; bytecode: by number
  const MlirType *type;
  MlirOp *op;     // that makes it; NULL: a block's argument
  int64_t index;  // among its op's results or its block's arguments
  int64_t id;     // 0 .. module->nvalues-1, each value another
} MlirValue;

typedef struct MlirBlock {
  const char *label;  // "^bb0"; NULL: not named
  MlirValue *const *args;
  int64_t nargs;
  MlirOp *const *ops;  // the last one is the terminator where the op needs one
  int64_t nops;
} MlirBlock;
struct MlirRegion {
  MlirBlock *const *blocks;
  int64_t nblocks;  // 0: an empty region; StableHLO itself has never more than 1
};

struct MlirOp {
  const char *name;
  MlirValue *const *operands;
  int64_t noperands;
  MlirValue *const *results;
  int64_t nresults;
  const MlirField *attrs;
  int64_t nattrs;
  MlirRegion *const *regions;
  int64_t nregions;
  int line, column;  // text: from 1; bytecode: 0
  int64_t offset;    // in the file
  const char *loc;   // of its location: a name, or file:line:col; NULL: none
};

typedef struct MlirFunc {
  const char *name;  // without the @
  bool is_private;
  MlirOp *op;             // "func.func": attributes sym_name, function_type, ...
  const MlirBlock *body;  // its arguments are the function's; NULL: a declaration
  const MlirType *const *args, *const *results;  // types
  int64_t nargs, nresults;
  const MlirAttr *const *arg_attrs, *const *result_attrs;  // MA_DICT or NULL each
} MlirFunc;

typedef struct MlirModule {
  const char *name;  // "" where it has none
  const MlirField *attrs;
  int64_t nattrs;
  MlirFunc *const *funcs;
  int64_t nfuncs;
  MlirOp *const *others;  // of the module's body that are no functions: sdy.mesh, globals
  int64_t nothers;
  struct MlirModule *const *modules;  // nested ones
  int64_t nmodules;
  int64_t nvalues;  // of all functions, nested modules included
  int line;
} MlirModule;

// What a jax.export file says about its program.
typedef struct JaxExport {
  const char *name, *platforms;
  int64_t calling_convention;
} JaxExport;

typedef enum { MLIR_TEXT, MLIR_BYTECODE, MLIR_JAX_EXPORT } MlirForm;
// A file: one module, or in text several parts between lines `// -----`, each a module of its own.
typedef struct MlirFile {
  MlirForm form;
  MlirModule *const *modules;
  int64_t nmodules;
  int64_t version;       // of the bytecode
  const char *producer;  // "StableHLO_v1.8.5", "MLIR20.0.0git"; "" for text
  const JaxExport *jax;  // of a jax.export file; else NULL
} MlirFile;

// Recognises a file by its content; looks at its beginning only.
bool mlir_is(Str bytes);
// Reads any of the three forms and verifies it.  `bytes` must outlive the file.  Messages name line
// and column, or the byte.
MUST_USE tenon_status mlir_read(Arena *a, Str bytes, MlirFile *out, Diag *d);
// The parts of mlir_read, for tests.
MUST_USE tenon_status mlir_read_text(Arena *a, Str bytes, MlirFile *out, Diag *d);
MUST_USE tenon_status mlir_read_bytecode(Arena *a, Str bytes, MlirFile *out, Diag *d);
MUST_USE tenon_status mlir_read_jax(Arena *a, Str bytes, MlirFile *out, Diag *d);
// What the importer may rely on (verify.c): operand, result and region counts of known ops, the
// attributes that an op must have and their kinds, types of operands and results against one
// another, terminators, calls' signatures.  Ops that are not known pass: the importer refuses them
// by name.
MUST_USE tenon_status mlir_verify(Arena *a, const MlirFile *f, Diag *d);

// ---- for the importer ----
const MlirFunc *mlir_func(const MlirModule *m, Str name);  // NULL: there is none
const MlirFunc *
mlir_main(const MlirModule *m);  // @main, else the only public one, else the first; or NULL
const MlirAttr *mlir_attr(const MlirOp *op, const char *name);  // NULL: absent
const MlirAttr *mlir_field(const MlirAttr *dict,
                           const char *name);  // of MA_DICT; NULL: absent or no dictionary
int64_t mlir_int(const MlirAttr *a, int64_t otherwise);  // MA_INT, MA_BOOL, 0-D MA_DENSE
double mlir_float(const MlirAttr *a, double otherwise);
bool mlir_bool(const MlirAttr *a, bool otherwise);
// Integers of MA_INTS, MA_ARRAY of MA_INT, or an integer MA_DENSE of any rank (flattened, splat
// written out).  false: absent or none of these, *n = 0.
bool mlir_ints(Arena *a, const MlirAttr *attr, const int64_t **out, int64_t *n);
const char *mlir_word(const MlirAttr *a,
                      const char *otherwise);  // of MA_ENUM, MA_STRING, MA_SYMBOL
Where mlir_where(const MlirOp *op);

#endif
