// parse.h -- what the files of the parser share.
#ifndef TENON_LOOP_PARSE_H
#define TENON_LOOP_PARSE_H

#include "loop/impl.h"

typedef struct Parser {
  LoopKernel *k;
  LoopBuilder b;
  Arena *arena;
  IntPool *pool, names;  // names: where the names of new symbols are read
  const char *at, *begin, *end, *path;
  Diag *d;
  StrMap buffer;                 // name -> index + 1
  IntMap defined;                // slot of a symbol -> its guard, or 1
  VEC(DType) var;                // NONE: not defined yet
  VEC(const LoopExpr *) shared;  // of the statement; NULL while it is read
  int depth, nesting;
  bool in_tile, reserved;  // in a tile statement; numbers of all variables of the text are
} Parser;

tenon_status parser_fail(Parser *p, const char *at, const char *fmt, ...) PRINTF(3, 4);
tenon_status parser_expected(Parser *p, const char *what);
void parser_skip(Parser *p);  // spaces and comments
bool parser_take(Parser *p, char c);
tenon_status parser_need(Parser *p, char c);
Str parser_word(Parser *p);  // that comes next; it stays
bool parser_take_word(Parser *p, const char *word);
tenon_status parser_need_word(Parser *p, const char *word);
tenon_status parser_i64(Parser *p, int64_t *out);
tenon_status parser_dim(Parser *p, Dim *out);
tenon_status parser_loop_sym(Parser *p, Dim *sym, Dim *extent);  // `i < n`
tenon_status parser_guard(Parser *p, LoopBound *g);              // `row = i < n`
tenon_status parser_buffer(Parser *p, int32_t *out);             // `%x`
tenon_status parser_var(Parser *p, int32_t *var);                // `%v3: f32`, which it defines
tenon_status parser_value(Parser *p, const LoopExpr **out);
tenon_status parser_block(Parser *p);  // statements up to `}`, `yield` or `score`

// ---- tile statements (parse_tile.c) ----
tenon_status parser_mma(Parser *p);
tenon_status parser_attention(Parser *p);

#endif
