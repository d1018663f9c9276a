// text.h -- inside the reader of MLIR text: tokens (lex.c), types (parse_type.c), attributes
// (parse_attr.c), the short forms of ops (parse_form.c), ops, regions and modules (parse.c).
#ifndef TENON_FRONTENDS_STABLEHLO_TEXT_H
#define TENON_FRONTENDS_STABLEHLO_TEXT_H

#include "frontends/stablehlo/internal.h"

typedef enum {
  T_END,
  T_BAD,       // text: why
  T_WORD,      // stablehlo.add, tensor, x
  T_NUMBER,    // 12, 1.5e+3, 0x7F800000; a sign is a token of its own
  T_STRING,    // text: inside of the quotes, escapes as written
  T_VALUE,     // %0, %arg0; text without the %; `#1` of `%0#1` in .number
  T_SYMBOL,    // @main, @"a b"; text without the @ and quotes
  T_HASH,      // #loc1, #stablehlo.dot
  T_BANG,      // !quant.uniform
  T_CARET,     // ^bb0
  T_ARROW,     // ->
  T_COLONS,    // ::
  T_META,      // {-#
  T_META_END,  // #-}
  T_PUNCT      // one character: text
} TokKind;

typedef struct Tok {
  TokKind kind;
  Str text;
  int64_t number;  // of T_VALUE: the result's number; -1: none
  bool quoted, escaped;
  const char *start;
  int line, column;
} Tok;

// A value's name, in the region where it can be seen.
typedef struct Binding {
  MlirValue *const *values;
  int64_t n;
} Binding;
typedef struct Shadow {
  Str name;
  void *before;
} Shadow;
typedef struct Resource {  // dense_resource<key>, to be filled in from the end of the file
  MlirAttr *attr;
  Str key;
  int line, column;
} Resource;

typedef struct Parser {
  Arena *arena;
  Diag *diag;
  const char *at, *end, *line_start;
  int line;
  Tok tok;  // the next one
  int depth;
  int64_t nvalues;
  StrMap *names;       // Binding *, of the function that is being read
  VEC(Shadow) shadow;  // names of the open regions, innermost last
  StrMap attr_alias, type_alias, loc_alias;
  VEC(MlirOp *) located;  // ops whose loc is an alias still
  VEC(Resource) resources;
} Parser;

// ---- lex.c ----
void mt_lex_next(Parser *p);                     // reads the next token into p->tok
void mt_lex_back_to(Parser *p, const char *at);  // reads again from `at`, on the same line
Where mt_tok_where(const Parser *p);
MUST_USE tenon_status mt_expected(Parser *p, const char *what);  // "expected X, found Y"
bool mt_is_punct(const Parser *p, char c);
bool mt_is_word(const Parser *p, const char *word);
bool mt_take_punct(Parser *p, char c);  // takes it if it is next
bool mt_take_word(Parser *p, const char *word);
MUST_USE tenon_status mt_need_punct(Parser *p, char c);
MUST_USE tenon_status mt_need_word(Parser *p, const char *word);
// The text from `start` up to the next token: the inside of <...>, (...), with balanced brackets;
// the opening one is next.
MUST_USE tenon_status mt_take_balanced(Parser *p, Str *out);
// The text of the string or name that is next, escapes resolved; takes it.
MUST_USE tenon_status mt_take_text(Parser *p, const char **out, int64_t *n);
MUST_USE tenon_status mt_take_int(Parser *p, int64_t *out);  // with its sign
MUST_USE tenon_status mt_enter(Parser *p);  // one level deeper; leave by p->depth--

// ---- parse_type.c ----
MUST_USE tenon_status mt_type(Parser *p, const MlirType **out);
MUST_USE tenon_status mt_type_list(Parser *p, const MlirType *const **out, int64_t *n);
bool mt_starts_type(const Parser *p);
const MlirType *mt_scalar_type(Parser *p, MlirElem e);
const MlirType *mt_tensor_of(Parser *p, MlirElem e, int64_t rank, const int64_t *dims);
const MlirType *mt_function_type(Parser *p, const MlirType *const *in, int64_t nin,
                                 const MlirType *const *out, int64_t nout);

// ---- parse_attr.c ----
// bare: a word that is nothing else is one of an enumeration (EQ, HIGHEST).
MUST_USE tenon_status mt_attr(Parser *p, bool bare, const MlirAttr **out);
typedef VEC(MlirField) Fields;
MUST_USE tenon_status mt_dict(Parser *p, Fields *out);      // { a = 1, b }, appended
MUST_USE tenon_status mt_loc(Parser *p, const char **out);  // after `loc`
const MlirAttr *mt_int_attr(Parser *p, int64_t v);
const MlirAttr *mt_ints_attr(Parser *p, const int64_t *v, int64_t n);
const MlirAttr *mt_text_attr(Parser *p, MlirAttrKind kind, const char *text, int64_t n);
const MlirAttr *mt_type_attr(Parser *p, const MlirType *t);
const MlirAttr *mt_dict_attr(Parser *p, const MlirField *f, int64_t n);
MUST_USE tenon_status mt_conv_dims(Parser *p,
                                   const MlirAttr **out);  // [b, 0, f]x[0, i, o]->[b, 0, f]
void mt_add_field(Parser *p, Fields *f, const char *name, const MlirAttr *value);

// ---- parse_dense.c ----
MUST_USE tenon_status mt_dense(Parser *p, const MlirAttr **out);  // after `dense`
MUST_USE tenon_status mt_resources(Parser *p);                    // {-# ... #-}
// The number that is next, with its sign, for an element or attribute of this type.
MUST_USE tenon_status mt_number(Parser *p, MlirElem e, uint64_t *bits);

// ---- parse.c ----
typedef VEC(MlirValue *) Values;
typedef VEC(const MlirType *) Types;
typedef struct OpBuild {  // an op that is being read
  const char *name;
  Values operands;
  Types results;
  Fields attrs;
  VEC(MlirRegion *) regions;
  int line, column;
  const char *start;
} OpBuild;
MUST_USE tenon_status mt_operand(Parser *p, MlirValue **out);
MUST_USE tenon_status mt_operands(Parser *p,
                                  Values *out);  // %a, %b; a comma before something else is taken
MlirValue *mt_new_value(Parser *p, Str name, const MlirType *t);
// A region; `args`: the names and types of its entry block, where the op gives them itself.
MUST_USE tenon_status mt_region(Parser *p, MlirValue *const *args, int64_t nargs, MlirRegion **out);
MUST_USE tenon_status mt_generic_rest(Parser *p, OpBuild *b);  // from the operands' ( on
MlirOp *mt_make_op(Parser *p, OpBuild *b);
MUST_USE tenon_status mt_signature(Parser *p, OpBuild *b, const MlirType *t);

// ---- parse_form.c ----
MUST_USE tenon_status mt_form(Parser *p,
                              OpBuild *b);  // after the name of an op in its short form

#endif
