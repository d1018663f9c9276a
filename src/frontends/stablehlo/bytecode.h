// bytecode.h -- inside the reader of MLIR bytecode: bytes and tables (bytecode.c), attributes and
// types (bytecode_attr.c), what VHLO's codes and ops mean (vhlo.c), the IR (bytecode_ir.c).
#ifndef TENON_FRONTENDS_STABLEHLO_BYTECODE_H
#define TENON_FRONTENDS_STABLEHLO_BYTECODE_H

#include "frontends/stablehlo/internal.h"

// A part of the file that is being read.  The first fault is kept in the file's diagnostics:
// reading gives zeros from then on, and whoever reads asks `bad`.
typedef struct Bytes {
  const uint8_t *p, *end;
  struct Bytecode *file;
} Bytes;

// An attribute or type of the file's tables, decoded when it is first asked for.
typedef struct Entry {
  Str data;
  bool custom;      // the dialect's own encoding, else text
  bool busy, done;  // busy: being decoded, to find cycles
  const char *dialect;
  const void *value;  // MlirAttr or MlirType
} Entry;

typedef struct OpName {
  const char *dialect, *name;
} OpName;

typedef struct Bytecode {
  Arena *arena;
  Diag *diag;
  Str bytes;
  tenon_status status;  // of the first fault
  int64_t version;
  int depth;
  Str *string;
  int64_t nstrings;
  const char **dialect;
  int64_t ndialects;
  VEC(OpName) op;
  Entry *attr, *type;
  int64_t nattrs, ntypes;
  VEC(Str) property;
  int64_t nvalues;
} Bytecode;

// ---- bytecode.c ----
bool bc_bad(const Bytes *b);
void bc_fail(Bytes *b, const char *fmt, ...) PRINTF(2, 3);         // not what bytecode is
void bc_unsupported(Bytes *b, const char *fmt, ...) PRINTF(2, 3);  // sound, but beyond what is read
uint8_t bc_byte(Bytes *b);
uint64_t bc_varint(Bytes *b);
int64_t bc_signed(Bytes *b);  // zigzag
// A count of things that take a byte each, at least, in what is left: never more than that.
int64_t bc_count(Bytes *b);
int64_t bc_index(Bytes *b, int64_t n, const char *what);  // below n; 0 when bad
Str bc_take(Bytes *b, int64_t n);
Str bc_string(Bytes *b);  // by its index
Str bc_blob(Bytes *b);    // length and bytes
// A section: its number, and its bytes.
int bc_section(Bytes *b, Bytes *out);

// ---- bytecode_attr.c ----
// By index; never NULL: an empty one when bad.
const MlirAttr *bc_attr(Bytes *b);
const MlirType *bc_type(Bytes *b);
const MlirAttr *bc_attr_at(Bytes *b, int64_t i);
const MlirType *bc_type_at(Bytes *b, int64_t i);
MlirAttr *bc_new_attr(Bytes *b, MlirAttrKind kind);
MlirType *bc_new_type(Bytes *b, MlirTypeKind kind);
const MlirAttr *bc_attrs(Bytes *b);                     // a list of attributes: MA_ARRAY
void bc_types(Bytes *b, MlirType *into, bool results);  // a list of types: parts
const int64_t *bc_signed_list(Bytes *b, int64_t *n);
uint64_t bc_apint(Bytes *b, int bits);
const MlirAttr *bc_text_attr(Bytes *b, MlirAttrKind kind, Str s);

// ---- vhlo.c ----
const MlirAttr *vhlo_attr(Bytes *b);
const MlirType *vhlo_type(Bytes *b);
// Names of the attributes of a VHLO op, in the order of its properties: words between spaces; NULL:
// not known.
const char *vhlo_attrs(const char *op);
// The plain op: its name without a version, its attributes as the text's generic form has them.
void vhlo_plain(Bytecode *f, MlirOp *op, bool in_function);

// ---- bytecode_ir.c ----
MUST_USE tenon_status bc_read_ir(Bytes *ir, MlirModule **out);

#endif
