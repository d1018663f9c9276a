// emit.h -- a program on its way to C; inside targets/c alone.
#ifndef TENON_TARGETS_C_EMIT_H
#define TENON_TARGETS_C_EMIT_H

#include "targets/c/c.h"
#include "targets/cstyle/cstyle.h"

typedef struct CModel {
  const Compiled *c;
  const Program *p;
  const CSourceOptions *o;
  Arena *arena;
  Diag *d;
  const char **kernel;   // names
  int32_t *kernel_base;  // the code of its first check
  bool *const_used;
  const int32_t *
      *whole;  // by constant: what its scales are as whole numbers; NULL: they stay as they are
  const bool **touched;  // by kernel: which arguments it looks at; NULL: all are passed
  const char **sym;      // names of the symbols
  int64_t
      *function_base;  // where each function's part of the arena begins, where sizes are numbers
  int64_t arena_bytes, scratch_bytes, weights_bytes, stack_bytes;
  bool symbolic;
  int64_t nrefused;
  StrMap refused;
  const char *elements;  // text of functions of single elements; NULL: none is used
  StrBuf out;            // functions
} CModel;

// Says once for each op that there is no C for it, and goes on.
void c_refuse(CModel *m, const ProgStep *st, const char *why);
// The text of a size: a number, or C over the symbols.
const char *c_expr(CModel *m, int32_t expr);
bool c_takes_scratch(const CModel *m, int32_t kernel);
bool c_number(const CModel *m, int32_t expr, int64_t *out);
const char *c_count(CModel *m, const ProgValue *v);  // elements
const char *c_bytes(CModel *m, const ProgValue *v);
// Why C cannot hold the value; NULL: it can.
const char *c_not_held(const CModel *m, const ProgValue *v);
// Where a value lies, as text; what a constant is from then on needed for.
const char *c_address(CModel *m, const ProgFunction *f, int32_t v, const char **value);
void c_functions(CModel *m);
// host.c: one step that the host does.  `value` are the addresses of the function's values.
void c_host_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value);
// header.c
tenon_status c_header(CModel *m, StrBuf *declarations, StrBuf *wrapper);
// whole.c: before the kernels are written
void c_whole(CModel *m);
// weights.c
void c_weights(CModel *m, StrBuf *out, StrBuf *external);

#endif
