// attr.h -- attributes: one list gives a struct, its defaults and a reflection table.
//
//   #define POOL_ATTRS(A, C, T)
//     A(T, i64s, kernel_shape, ,            "window size per spatial axis")
//     A(T, bool, ceil_mode,    false,       "round output sizes up")
//     C(T, auto_pad, "NOTSET|SAME_UPPER|SAME_LOWER|VALID", 0, "how pads are found")
// (each line but the last ends in a backslash), then
//   ATTR_STRUCT(pool, POOL_ATTRS);      in an eval/ header:  struct type `pool_attrs`
//   ATTR_TABLE(pool, POOL_ATTRS);       in an ops/ file:     reflection table `pool_attr_desc`
//
// A(T, kind, name, default, doc) is a plain attribute; lists and opt_i64 leave the default empty.
// C(T, name, choices, default, doc) is a choice among words: an int index, spelt as the word in
// text.  A required attribute has the kind's default and is checked by the op's infer.  Field names
// are those of ONNX where ONNX has the attribute, so that importing needs no table.
#ifndef TENON_BASE_ATTR_H
#define TENON_BASE_ATTR_H

#include "base/base.h"
#include "base/num.h"

typedef struct Ints {
  int64_t n;
  const int64_t *v;
} Ints;
typedef struct Floats {
  int64_t n;
  const double *v;
} Floats;
typedef struct Strs {
  int64_t n;
  const Str *v;
} Strs;
// A number that may be absent: no value of the number says so.
typedef struct OptInt {
  bool given;
  int64_t v;  // 0 where it is absent
} OptInt;

// kind     C type of the field
// i64      int64_t          bool    bool            f64   double (f32 attributes of ONNX, exactly)
// opt_i64  OptInt           absent by default
// dtype    DType            str     Str             body  const struct Body * (a sub-graph; ir.h)
// i64s f64s strs            Ints, Floats, Strs
// choice   int              index into the words
typedef enum {
  ATTR_i64,
  ATTR_opt_i64,
  ATTR_bool,
  ATTR_f64,
  ATTR_dtype,
  ATTR_str,
  ATTR_body,
  ATTR_i64s,
  ATTR_f64s,
  ATTR_strs,
  ATTR_choice
} AttrKind;
typedef int64_t AttrType_i64;
typedef OptInt AttrType_opt_i64;
typedef bool AttrType_bool;
typedef double AttrType_f64;
typedef DType AttrType_dtype;
typedef Str AttrType_str;
typedef const struct Body *AttrType_body;
typedef Ints AttrType_i64s;
typedef Floats AttrType_f64s;
typedef Strs AttrType_strs;

typedef struct AttrDesc {
  const char *name, *doc, *choices;
  AttrKind kind;
  uint16_t offset;
  double dflt;           // i64, bool, f64, dtype, choice
  const char *dflt_str;  // str
} AttrDesc;

#define ATTR_FIELD_(T, kind, name, dflt, doc)         AttrType_##kind name;
#define ATTR_CHOICE_FIELD_(T, name, words, dflt, doc) int name;
#define ATTR_DESC_(T, k, nm, df, dc)                                                               \
  {.name = #nm,                                                                                    \
   .doc = dc,                                                                                      \
   .kind = ATTR_##k,                                                                               \
   .offset = (uint16_t)offsetof(T, nm),                                                            \
   ATTR_DFLT_##k(df)},
#define ATTR_CHOICE_DESC_(T, nm, words, df, dc)                                                    \
  {.name = #nm,                                                                                    \
   .doc = dc,                                                                                      \
   .choices = words,                                                                               \
   .kind = ATTR_choice,                                                                            \
   .offset = (uint16_t)offsetof(T, nm),                                                            \
   .dflt = df},
#define ATTR_DFLT_i64(d)     .dflt = (double)(d)
#define ATTR_DFLT_opt_i64(d) .dflt = 0
#define ATTR_DFLT_bool(d)    .dflt = (d)
#define ATTR_DFLT_f64(d)     .dflt = (d)
#define ATTR_DFLT_dtype(d)   .dflt = (d)
#define ATTR_DFLT_str(d)     .dflt_str = (d)
#define ATTR_DFLT_body(d)    .dflt = 0
#define ATTR_DFLT_i64s(d)    .dflt = 0
#define ATTR_DFLT_f64s(d)    .dflt = 0
#define ATTR_DFLT_strs(d)    .dflt = 0

#define ATTR_STRUCT(op, LIST)                                                                      \
  typedef struct op##_attrs {                                                                      \
    LIST(ATTR_FIELD_, ATTR_CHOICE_FIELD_, op##_attrs)                                              \
  } op##_attrs
#define ATTR_TABLE(op, LIST)                                                                       \
  static const AttrDesc op##_attr_desc[] = {LIST(ATTR_DESC_, ATTR_CHOICE_DESC_, op##_attrs)}

void attrs_defaults(const AttrDesc *desc, int n, void *attrs);  // fills a zeroed struct
uint64_t attrs_hash(const AttrDesc *desc, int n, const void *attrs);
bool attrs_equal(const AttrDesc *desc, int n, const void *a, const void *b);
void attrs_copy(Arena *arena, const AttrDesc *desc, int n, const void *from,
                void *to);  // deep, but for bodies
bool attr_is_default(const AttrDesc *d, const void *attrs);
int attr_choice_find(const char *choices, Str word);  // -1 when absent
Str attr_choice_word(const char *choices, int index);

#endif
