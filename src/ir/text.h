// text.h -- what the printer and the parser of the text form share (docs/reference/text.md).
#ifndef TENON_IR_TEXT_H
#define TENON_IR_TEXT_H

#include "ir/internal.h"
#include "ir/textnum.h"

enum {
  TEXT_DEPTH_MAX = LIMIT_TEXT_DEPTH,  // bodies within bodies, types within types
  TEXT_INLINE_MAX = 64,               // elements of a constant that are written out; beyond: hex
  TEXT_COMMENT_MAX = 16  // elements of a constant in a file that are shown in a comment
};

// ---- tokens (lex.c) ----
typedef enum {
  TOK_END,
  TOK_WORD,    // add, f32, true
  TOK_NUMBER,  // 12, 0.5, 1e-5, 0.1f, 0x7fc0: checked by whoever reads it
  TOK_STRING,  // "...": text is what lies between the quotes, escapes and all
  TOK_SYMBOL,  // '...': a dimension's name, read by ie_parse
  TOK_VALUE,   // %name, %3, %"name": text is the name, quoted says which
  TOK_ARROW,   // ->
  TOK_PUNCT,   // any other single character
  TOK_BAD      // text is what is wrong
} TokKind;
typedef struct Token {
  TokKind kind;
  bool quoted;  // TOK_VALUE
  char c;       // TOK_PUNCT
  Str text;
  const char *start;
  int line, column;
} Token;
typedef struct Lexer {
  const char *at, *end, *line_start;
  int line;
  Token tok;  // the one to be read next
} Lexer;
void lex_init(Lexer *l, Str text);  // reads the first token
void lex_next(Lexer *l);
void lex_seek(Lexer *l, const char *at);  // forward, within the line of the current token
bool text_is_identifier(Str s);           // can be written as a bare word
bool text_is_value_name(Str s);           // can be written after % without quotes
void text_put_quoted(StrBuf *b, Str s);
bool text_unescape(Arena *a, Str raw, Str *out);  // NUL-terminated; false: a bad escape

// ---- dimensions between pools (dimmap.c) ---- Writes expressions of one pool in another.  Named
// symbols keep name and range; a fresh symbol becomes what it was bound to.
typedef struct DimMap {
  IntPool *to;
  IntMap done;  // id in the first pool -> Dim of the other
  Arena *arena;
} DimMap;
typedef VEC(Dim) DimVec;
void dimmap_init(DimMap *m, IntPool *to, Arena *a);
void dimmap_bind(DimMap *m, Dim from, Dim to);
bool dimmap_has(const DimMap *m, Dim from);
Dim dimmap_apply(DimMap *m, Dim d);  // poison when a fresh symbol is not bound
// Appends the symbols of d that are not in `seen` yet, by the order of their making.
void dim_symbols(Dim d, IntMap *seen, Arena *a, DimVec *out);
Str fresh_hint(Dim fresh);  // "nonzero" of ?nonzero_3

// ---- printing (print.c: bodies and lines; print_value.c: what stands in them) ----
typedef struct Scope {
  struct Scope *outer;
  const Body *body;
  IntMap name;      // node id -> what it is called here: a string in the arena, with % and quotes
  StrMap taken;     // name -> how many ask for it
  int64_t unnamed;  // values numbered so far
  int depth;
} Scope;
typedef struct Printer {
  Graph *g;
  Arena *arena;
  StrBuf *out;
  IntPool dims;     // fresh symbols renamed
  DimMap to_text;   // the graph's pool -> dims
  IntMap seen_dim;  // expressions whose symbols were noted
  DimVec ranged;    // named symbols with a range of their own
  int64_t nfresh;
  VEC(Source *) source;  // in order of first use
  IntMap source_index;
  IntMap proj_name;  // node id << 16 | result -> name of the projection, where it differs
  uint32_t *rank;    // by node id: when the parser will make the node; 0 = not printed yet
  uint32_t *stamp;   // by node id: the last body that was found to reach it
  bool *fixed;       // by node id: depends on no parameter
  uint32_t nranks, nbodies;
  int64_t nnodes;
  Diag *quiet;  // of files that could not be opened for a comment
} Printer;
void print_type(Printer *p, const Type *t);
void print_attrs(Printer *p, Scope *s, const Node *n);
void print_known(Printer *p,
                 const Node *n);  // " = ..." behind a parameter whose contents are known
void print_const(Printer *p, const Node *n);
void print_const_comment(Printer *p, const Node *n);  // what a small constant in a file holds
void print_source(Printer *p, int64_t i);
void print_body(Printer *p, Scope *outer, const Body *b);  // "{ (params) ... return ... }"

// ---- parsing (parse.c: bodies and lines; parse_value.c: what stands in them) ----
typedef struct TextParser {
  Lexer lex;
  Graph *g;
  Diag *d;
  Arena arena;
  const char *path;  // of the text; NULL: not from a file
  const char *folder, *real_folder;
  IntPool dims;              // as written
  DimMap to_graph, to_text;  // between dims and the graph's pool
  VEC(Source *) source;      // by number
  StrMap ops;                // name -> op code + 1
  int depth;
} TextParser;
// A message about the token to be read next, or one kept from before.
tenon_status text_fail(TextParser *p, const char *fmt, ...) PRINTF(2, 3);
tenon_status text_fail_at(TextParser *p, const Token *t, const char *fmt, ...) PRINTF(3, 4);
tenon_status text_expected(TextParser *p, const char *what);  // "expected ..., found ..."
void text_locate(TextParser *p, const Token *t);              // where messages of node_new point
bool text_is(const TextParser *p, char c);
bool text_is_word(const TextParser *p, const char *word);
bool text_take(TextParser *p, char c);
MUST_USE tenon_status text_need(TextParser *p, char c);
MUST_USE tenon_status text_string(TextParser *p, Str *out);  // a quoted string
MUST_USE tenon_status text_name(TextParser *p,
                                const char **out);  // likewise, without NUL; interned
MUST_USE tenon_status text_i64(TextParser *p, int64_t *out);
// A type as written: its dims are in p->dims and it is not interned.
MUST_USE tenon_status parse_type(TextParser *p, const Type **out);
MUST_USE tenon_status skip_type(TextParser *p);
const Type *type_to_graph(TextParser *p,
                          const Type *written);  // makes fresh symbols not seen before
// Ties fresh symbols seen for the first time to each other; false when the types differ.
bool type_matches(TextParser *p, const Type *written, const Type *inferred);
MUST_USE tenon_status parse_known(TextParser *p, Node *n);     // behind a parameter's '='
MUST_USE tenon_status parse_const(TextParser *p, Node **out);  // behind the word const
MUST_USE tenon_status parse_source(TextParser *p);             // behind the word source
MUST_USE tenon_status parse_attrs(TextParser *p, const OpInfo *op, void *attrs);
MUST_USE tenon_status parse_body(TextParser *p, const Body **out);

#endif
