// npy.h -- NumPy's array files: .npy (one array) and .npz (a zip of them).
//
// Numbers come back in memory order and row-major, whatever the file's order; text becomes UTF-8.
// A header is a plain dictionary of three literals and is parsed as such: nothing in a file is ever
// evaluated, and object arrays (pickles) are refused.
//
// Types that NumPy lacks.  bf16 and the 8-bit floats are written as '<V2' and '|V1', which is what
// the ml_dtypes package writes; 4- and 2-bit types are written one element to a byte, as i1 or u1
// (f4e2m1 as '|V1').  Such an array is read as its carrier; nd_convert turns it into the type that
// is wanted.
#ifndef TENON_BASE_NPY_H
#define TENON_BASE_NPY_H

#include "base/num.h"

enum { ND_MAX_RANK = LIMIT_RANK, ND_MAX_STRINGS = LIMIT_NPY_STRINGS };

typedef struct NdArray {
  Str name;     // of an .npz member, without ".npy"; "" else
  DType dtype;  // DT_NONE (0): opaque elements of void_bytes each
  int rank;
  int64_t dims[ND_MAX_RANK];
  const void *data;  // DT_STRING: array of Str; sub-byte types packed; aligned for the dtype
  int64_t n, bytes;
  int void_bytes;
} NdArray;
typedef struct NdArrayList {
  NdArray *v;
  int64_t n;
} NdArrayList;

// The data lies in `bytes` where it can be used as it is, else in the arena.  Messages give byte
// offsets.
MUST_USE tenon_status npy_read(Arena *a, Str bytes, Diag *d, NdArray *out);
// `loose`: numbers may lie where they are not aligned for their type.
MUST_USE tenon_status npy_read_where(Arena *a, Str bytes, bool loose, Diag *d, NdArray *out);
// Members in the archive's order; those that do not end in .npy are an error.
MUST_USE tenon_status npz_read(Arena *a, Str bytes, Diag *d, NdArrayList *out);
// Either format, told apart by the first bytes.  An .npy becomes one array without a name.
MUST_USE tenon_status nd_read(Arena *a, Str bytes, Diag *d, NdArrayList *out);
// The same of a mapped file, which may be larger than memory: its pages leave memory as they are
// read, and numbers may lie where they are not aligned for their type.
MUST_USE tenon_status nd_read_mapped(Arena *a, Str bytes, Diag *d, NdArrayList *out);
const NdArray *nd_find(const NdArrayList *l, Str name);  // NULL when absent
// Turns a carrier into the wanted type: opaque bytes of its width, or integers that all fit a
// sub-byte type.  An array that has the type already stays as it is; all else is an error: no value
// is converted.
MUST_USE tenon_status nd_convert(Arena *a, NdArray *v, DType want, Diag *d);
bool nd_converts(const NdArray *v, DType want);  // whether it can, but for the range of elements
const char *numpy_name(DType t);                 // "float32"; what NumPy lacks has Tenon's name

// The two parts of an .npy file; a payload that needs no change is the array's own.
MUST_USE tenon_status npy_parts(Arena *a, const NdArray *v, Str *out_header, Str *out_payload,
                                Diag *d);
// Whether npy_parts made the header: it has more spaces behind it than NumPy writes, where the
// format has room for nothing else.
bool npy_is_ours(Str bytes);
// A whole .npy file, appended to `out`.
MUST_USE tenon_status npy_format(Arena *scratch, const NdArray *v, StrBuf *out, Diag *d);
// Through file_write: the old file stays when something fails; "-" is standard output.  `deflated`
// compresses each member.
MUST_USE tenon_status npy_write(const char *path, const NdArray *v, Diag *d);
MUST_USE tenon_status npz_write(const char *path, const NdArray *v, int64_t n, bool deflated,
                                Diag *d);

#endif
