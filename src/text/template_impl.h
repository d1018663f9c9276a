// template_impl.h -- what the files of the template engine share: tokens, syntax tree, values.
//
// Errors leave by a trap: tpl_fail records what and where, and jumps to the entry of template_parse
// or template_render.  All objects are in the arena of the call, so nothing is left to release.
#ifndef TENON_TEXT_TEMPLATE_IMPL_H
#define TENON_TEXT_TEMPLATE_IMPL_H

#include "text/template.h"

// ---- values ----
typedef enum {
  V_MISSING,  // no value at all: an argument that was not given, a slot that was not set
  V_UNDEF,
  V_NONE,
  V_BOOL,
  V_INT,
  V_FLOAT,
  V_STR,
  V_LIST,
  V_TUPLE,
  V_DICT,
  V_RANGE,
  V_VIEW,  // keys(), values(), items()
  V_ITER,  // an iterator: it is consumed
  V_NS,    // namespace()
  V_LOOP,  // the variable `loop`
  V_MACRO,
  V_FUNC,    // range, dict, ...
  V_METHOD,  // bound to a value
  V_CYCLER,
  V_JOINER
} ValueKind;

typedef struct Text Text;
typedef struct Items Items;
typedef struct Dict Dict;
typedef struct Iter Iter;
typedef struct Undef Undef;
typedef struct Macro Macro;
typedef struct Method Method;
typedef struct LoopVar LoopVar;
typedef struct FnRow FnRow;
typedef struct Cycler Cycler;
typedef struct Range {
  int64_t start, stop, step, n;
} Range;
typedef struct View {
  const Dict *of;
  char what;  // k, v, i
} View;
typedef struct Value {
  uint8_t kind;
  bool safe;  // V_STR: HTML that is not to be escaped (Markup)
  union {
    bool b;
    int64_t i;
    double f;
    const Text *s;
    const Items *l;
    Dict *d;  // V_DICT: not changed once it is built; V_NS: changed by set
    const Range *r;
    const View *view;
    Iter *it;
    const Undef *u;
    const Macro *macro;
    const FnRow *fn;
    const Method *method;
    LoopVar *loop;
    Cycler *cycler;
  };
} Value;

// Text is UTF-8.  Bytes behind the end may belong to the same block: who appends to the value that
// reaches `*end` writes there, so that a text grown step by step costs linear time.
struct Text {
  const char *p;
  int64_t n, chars;  // chars -1: not counted yet
  struct TextRoom *room;
};
typedef struct TextRoom {
  char *p;
  int64_t used, cap;
} TextRoom;
struct Items {
  Value *v;
  int64_t n;
  int depth;   // 1 + that of the deepest item
  bool named;  // of groupby: .grouper and .list
  struct ItemsRoom *room;
};
typedef struct ItemsRoom {
  Value *v;
  int64_t used, cap;
} ItemsRoom;
struct Dict {
  Value *key, *val;
  int64_t n, cap;
  int32_t *index;  // open addressing, of nindex entries; NULL while there are few
  int64_t nindex;
  int depth;
};
struct Undef {
  const char *hint;  // else: name, of obj
  Value obj, name;
};
struct Method {
  Value self;
  const FnRow *row;
};
struct Cycler {
  const Items *items;
  int64_t pos;  // V_JOINER: whether it was used
};

// ---- the syntax tree ----
typedef enum {
  // expressions
  N_CONST,
  N_NAME,
  N_NSREF,
  N_TUPLE,
  N_LIST,
  N_DICT,
  N_ATTR,
  N_ITEM,
  N_SLICE,
  N_CALL,
  N_FILTER,
  N_TEST,
  N_KEYWORD,
  N_NOT,
  N_NEG,
  N_POS,
  N_BINARY,
  N_AND,
  N_OR,
  N_CONCAT,
  N_COMPARE,
  N_OPERAND,
  N_COND,
  // statements
  N_OUTPUT,
  N_FOR,
  N_IF,
  N_SET,
  N_SETBLOCK,
  N_MACRO,
  N_CALLBLOCK,
  N_FILTERBLOCK,
  N_WITH,
  N_BREAK,
  N_CONTINUE
} NodeKind;
typedef enum {
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_DIV,
  OP_FLOORDIV,
  OP_MOD,
  OP_POW,
  OP_EQ,
  OP_NE,
  OP_LT,
  OP_LE,
  OP_GT,
  OP_GE,
  OP_IN,
  OP_NOTIN
} TplOp;
typedef enum { CTX_LOAD, CTX_STORE, CTX_PARAM } NameCtx;

typedef struct TplNode TplNode;
typedef struct NodeList {
  TplNode **v;
  int64_t n, cap;
} NodeList;
// What a frame does on entry: slot `to` of its function gets a value.
typedef enum { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEF } LoadKind;
typedef struct Load {
  LoadKind kind;
  int to;
  int from, up;  // LOAD_ALIAS
  Str name;      // LOAD_RESOLVE
} Load;
typedef struct Scope {
  Load *load;
  int64_t n;
} Scope;
// A node's meaning of the lists and operands:
//   kind          a          b           c            v       w         u
//   ATTR, ITEM    object     index
//   SLICE         start      stop        step
//   CALL          callee     *args       **kwargs     args    keywords
//   FILTER, TEST  value      *args       **kwargs     args    keywords
//   COND          condition  value       otherwise
//   FOR           target     iterable    filter       body    else
//   IF            condition                           body    else      elif
//   SET           target     value
//   SETBLOCK      target     filter                   body
//   MACRO         -                                   body    params    defaults
//   CALLBLOCK     call                                body    params    defaults
//   FILTERBLOCK   filter                              body
//   WITH                                              body    targets   values
struct TplNode {
  uint8_t kind, op, ctx;
  bool flag;  // NAME stored at top level: exported; FOR: `loop` is used; FILTER, TEST: not there
  int line, height;
  TplNode *a, *b, *c;
  TplNode *d;  // FOR: the target once more, in the filter's frame
  NodeList v, w, u;
  Str name, attr;
  Value value;
  const FnRow *fn;               // FILTER, TEST
  int slot, up;                  // NAME, NSREF; MACRO: where it is stored; FOR: slot of `loop`
  Scope scope, other;            // of the body; FOR: of the else part
  Scope filter;                  // FOR: of the filter, a function of its own
  int nslots, nfilter;           // MACRO, CALLBLOCK; FOR: of the filter
  bool caller, kwargs, varargs;  // MACRO, CALLBLOCK: used by the body
  int caller_slot, kwargs_slot, varargs_slot;
};
struct ChatTemplate {
  const char *name;
  NodeList body;
  Scope scope;
  int nslots;
};

// ---- tokens ----
typedef enum {
  T_EOF,
  T_DATA,
  T_BLOCK_BEGIN,
  T_BLOCK_END,
  T_VAR_BEGIN,
  T_VAR_END,
  T_NAME,
  T_STRING,
  T_INT,
  T_FLOAT,
  T_OP
} TokenKind;
typedef struct Token {
  uint8_t kind;
  char op[3];
  int line;
  Str text;
  int64_t i;
  double f;
} Token;
typedef VEC(Token) Tokens;

// ---- the state of a call ----
typedef struct Act Act;
// A Python function's variables.
struct Act {
  Value *slot;
  Act *outer;
};
typedef struct Buf {
  char *p;
  int64_t n, cap;
} Buf;
typedef struct Tpl {
  Arena *arena;
  const char *name;
  Diag *diag;
  int64_t steps, memory, most_output;  // what is left; bytes of one buffer
  int depth;
  int line;
  int64_t now;
  Buf *out;
  Dict *exported, *given;
  // how it ended
  TemplateEnd end;
  tenon_status status;
  const char *message;
} Tpl;
NORETURN void tpl_fail(Tpl *x, const char *fmt, ...) PRINTF(2, 3);
NORETURN void tpl_fail_as(Tpl *x, tenon_status code, TemplateEnd end, const char *fmt, ...)
    PRINTF(4, 5);
NORETURN void tpl_unsupported(Tpl *x, const char *fmt, ...) PRINTF(2, 3);
NORETURN void tpl_limit(Tpl *x, const char *what);
static inline void tpl_spend(Tpl *x, int64_t steps) {
  x->steps -= steps;
  if (__builtin_expect(x->steps < 0, 0)) tpl_limit(x, "steps");
}
static inline void tpl_enter(Tpl *x) {
  if (++x->depth > LIMIT_TEMPLATE_NESTING) tpl_limit(x, "nesting");
  tpl_spend(x, 1);
}
static inline void tpl_leave(Tpl *x) { x->depth--; }
void *tpl_alloc(Tpl *x, int64_t bytes);
#define tpl_new(x, T)      ((T *)tpl_alloc((x), (int64_t)sizeof(T)))
#define tpl_array(x, T, n) ((T *)tpl_alloc_array((x), (n), (int64_t)sizeof(T)))
void *tpl_alloc_array(Tpl *x, int64_t n, int64_t bytes);

// ---- template_lex.c, template_parse.c, template_expr.c, template_scope.c ----
typedef struct TplParser {
  Tpl *x;
  Tokens t;
  int64_t at;
  int loops;  // that `break` would leave
  int nesting;
} TplParser;
void tpl_lex(Tpl *x, Str source, Tokens *out);
TplNode *tpl_node(TplParser *p, NodeKind kind, int line);
void tpl_list_add(TplParser *p, NodeList *l, TplNode *n);
void tpl_height(TplParser *p, TplNode *n, const TplNode *child);
static inline const Token *tpl_token(const TplParser *p) { return &p->t.v[p->at]; }
const Token *tpl_look(const TplParser *p);  // the one behind the current
bool tpl_is_op(const TplParser *p, const char *op);
bool tpl_is_name(const TplParser *p, const char *name);
bool tpl_skip_op(TplParser *p, const char *op);
bool tpl_skip_name(TplParser *p, const char *name);
void tpl_expect_op(TplParser *p, const char *op);
Str tpl_expect_name(TplParser *p);
NORETURN void tpl_unexpected(TplParser *p, const char *wanted);
TplNode *tpl_parse_expression(TplParser *p, bool with_cond);
typedef struct TupleRule {
  bool simple, no_cond, parens, namespaces;
  const char *end;  // a name that ends it
} TupleRule;
TplNode *tpl_parse_tuple(TplParser *p, TupleRule rule);
TplNode *tpl_parse_filter(TplParser *p, TplNode *of, bool inside);
TplNode *tpl_parse_target(TplParser *p, TupleRule rule);
TplNode *tpl_parse_target_name(TplParser *p);
void tpl_parse_body(TplParser *p, NodeList *out);
void tpl_resolve(Tpl *x, ChatTemplate *t);

// ---- functions: filters, tests, methods, globals ----
typedef struct Args {
  const Value *pos;
  int64_t npos;
  const Str *name;  // keywords
  const Value *kw;
  int64_t nkw;
} Args;
enum { MOST_PARAMS = 6 };
// `params`: names separated by spaces, the first `least` of them required; "/" in front: positional
// only; "*": the function takes Args by itself (`raw`).  NULL: in Python, but not here.
struct FnRow {
  const char *name, *params;
  int least;
  Value (*fn)(Tpl *x, Value self, const Value *arg);
  Value (*raw)(Tpl *x, Value self, const Args *args);
};
const FnRow *fn_find(const FnRow *row, int64_t n, Str name);
Value fn_call(Tpl *x, const FnRow *row, Value self, const Args *args);
Value tpl_call(Tpl *x, Value callee, const Args *args);
Value macro_call(Tpl *x, const Macro *m, const Args *args);
const FnRow *filter_find(Str name);
const FnRow *test_find(Str name);
const FnRow *filter_list_find(Str name);
const FnRow *str_method_find(Str name);
Value fn_global(Str name);
Value loop_attr(Tpl *x, LoopVar *loop, Str name);  // V_MISSING: none
int64_t loop_length(Tpl *x, LoopVar *loop);

// ---- values: template_value.c ----
static inline Value v_missing(void) { return (Value){.kind = V_MISSING}; }
static inline Value v_none(void) { return (Value){.kind = V_NONE}; }
static inline Value v_bool(bool b) { return (Value){.kind = V_BOOL, .b = b}; }
static inline Value v_int(int64_t i) { return (Value){.kind = V_INT, .i = i}; }
static inline Value v_float(double f) { return (Value){.kind = V_FLOAT, .f = f}; }
static inline bool is_str(Value v) { return v.kind == V_STR; }
static inline bool is_int(Value v) { return v.kind == V_INT || v.kind == V_BOOL; }
static inline bool is_number(Value v) { return is_int(v) || v.kind == V_FLOAT; }
static inline bool is_items(Value v) { return v.kind == V_LIST || v.kind == V_TUPLE; }
static inline int64_t int_of(Value v) { return v.kind == V_BOOL ? v.b : v.i; }
static inline double float_of(Value v) { return v.kind == V_FLOAT ? v.f : (double)int_of(v); }
static inline Str str_of_value(Value v) { return (Str){v.s->p, v.s->n}; }
Value v_str(Tpl *x, Str s);   // borrows the bytes
Value v_text(Tpl *x, Str s);  // copies them
Value v_cstr(Tpl *x, const char *z);
Value v_like(Value like, Value s);  // s, safe where `like` is
Value v_undef(Tpl *x, const char *hint);
Value v_undef_name(Tpl *x, Value obj, Value name);
Value v_items(Tpl *x, ValueKind kind, Value *v, int64_t n);  // takes v
Value v_iter(Iter *it);
Value v_from_json(Tpl *x, const Json *j);
int64_t text_chars(Tpl *x, const Text *t);
int64_t text_find(Tpl *x, Str s, Str what, int64_t from);  // a byte position; -1: none
Value text_join(Tpl *x, Value a, Value b);                 // both V_STR; the result is not safe
Value items_join(Tpl *x, Value a, Value b);                // of one kind
const char *kind_name(Value v);                            // Python's name of the type
bool v_true(Tpl *x, Value v);
bool v_equal(Tpl *x, Value a, Value b);
bool v_same(Value a, Value b);          // Python's `is`
int v_order(Tpl *x, Value a, Value b);  // <0, 0, >0; fails where Python does
bool v_less(Tpl *x, Value a, Value b);
bool v_hash(Tpl *x, Value v, uint64_t *out);  // false: not hashable
uint64_t need_hash(Tpl *x, Value v);
int64_t v_len(Tpl *x, Value v);  // -1: it has none
bool v_in(Tpl *x, Value v, Value in);
int v_depth(Value v);
Dict *dict_new(Tpl *x);
void dict_put(Tpl *x, Dict *d, Value key, Value val);  // replaces
Value *dict_get(Tpl *x, const Dict *d, Value key);     // NULL: absent; the key must be hashable
Value *dict_get_str(Tpl *x, const Dict *d, Str key);
Value v_dict(Dict *d);
NORETURN void fail_undef(Tpl *x, Value u);
static inline void need_defined(Tpl *x, Value v) {
  if (v.kind == V_UNDEF) fail_undef(x, v);
}

// ---- UTF-8 and Python's classes of characters: template_unicode.c ----
enum {
  UC_ALPHA = 1,
  UC_DECIMAL = 2,
  UC_DIGIT = 4,
  UC_NUMERIC = 8,
  UC_SPACE = 16,
  UC_PRINTABLE = 32,
  UC_LOWER = 64,
  UC_UPPER = 128,
  UC_TITLE = 256,
  UC_CASED = 512,
  UC_IGNORABLE = 1024,
  UC_ALNUM = UC_ALPHA | UC_DECIMAL | UC_DIGIT | UC_NUMERIC
};
int uc_flags(uint32_t c);
int uc_digit(uint32_t c);  // of a UC_DECIMAL
static inline bool uc_is_space(uint32_t c) { return (uc_flags(c) & UC_SPACE) != 0; }
typedef enum { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_FOLD } CaseKind;
int uc_case(CaseKind kind, uint32_t c, uint32_t out[3]);  // how many
uint32_t utf8_next(const char **p);                       // of valid UTF-8
uint32_t utf8_last(const char *start, const char **end);  // moves *end back by one
int utf8_put(char *p, uint32_t c);
int64_t utf8_count(const char *p, int64_t n);
const char *utf8_at(Tpl *x, const Text *t, int64_t index);  // of a character

// ---- text of values: template_repr.c, template_json.c, template_number.c ----
void buf_put(Tpl *x, Buf *b, Str s);
void buf_puts(Tpl *x, Buf *b, const char *z);
void buf_putc(Tpl *x, Buf *b, char c);
void buf_char(Tpl *x, Buf *b, uint32_t c);
void buf_fill(Tpl *x, Buf *b, uint32_t c, int64_t n);
Value buf_value(Tpl *x, const Buf *b);
void put_str(Tpl *x, Buf *b, Value v);   // str(v)
void put_repr(Tpl *x, Buf *b, Value v);  // repr(v)
Value to_str(Tpl *x, Value v);           // str(v), never safe
Value soft_str(Tpl *x, Value v);         // a V_STR as it is
Value v_escape(Tpl *x, Value v);         // HTML
void put_json(Tpl *x, Buf *b, Value v, const Value arg[4]);
int float_repr(double v, char out[40]);  // Python's; the length
bool float_parse(Str s, double *out);    // digits, point, exponent; no spaces, no words
bool str_to_float(Str s, double *out);   // Python's float(s)
typedef enum { INT_OK, INT_BAD, INT_BIG } IntEnd;
IntEnd str_to_int(Str s, int64_t base, int64_t *out);  // Python's int(s, base)

// ---- operators: template_ops.c; attributes: template_attr.c ----
Value v_binary(Tpl *x, TplOp op, Value a, Value b);
bool v_compare(Tpl *x, TplOp op, Value a, Value b);
Value v_negate(Tpl *x, Value v, bool minus);
Value v_attr(Tpl *x, Value obj, Str name);
Value v_own_attr(Tpl *x, Value obj, Str name);  // Python's getattr; V_MISSING: none
Value v_item(Tpl *x, Value obj, Value index);
Value v_slice(Tpl *x, Value obj, Value start, Value stop, Value step);
int64_t need_int(Tpl *x, Value v, const char *what);
int64_t opt_int_arg(Tpl *x, Value v, int64_t dflt, const char *what);  // V_MISSING: dflt
bool opt_true(Tpl *x, Value v, bool dflt);

// ---- iterators: template_iter.c ----
Iter *iter_of(Tpl *x, Value v);  // fails where v is not iterable
bool is_iterable(Value v);
bool iter_next(Tpl *x, Iter *it, Value *out);
Iter *iter_reversed(Tpl *x, Value v);  // NULL: not reversible
Iter *iter_array(Tpl *x, const Value *v, int64_t n);
Value v_list_of(Tpl *x, Value v);   // list(v)
Value iter_rest(Tpl *x, Iter *it);  // what is left, as a list
typedef struct AttrPath AttrPath;
Value attr_path_get(Tpl *x, const AttrPath *p, Value v);
// `attribute` of map, sort, ...: V_MISSING or none: the value itself.
AttrPath *attr_path(Tpl *x, Value attribute, bool many, bool fold, Value dflt);
typedef enum {
  ITER_ITEMS,  // of an array
  ITER_CHARS,
  ITER_RANGE,
  ITER_MAP,     // path or fn
  ITER_SELECT,  // fn, path
  ITER_BATCH,
  ITER_UNIQUE,
  ITER_SLICES,
  ITER_DICT_ITEMS,
  ITER_LOOP_FILTER
} IterKind;
struct Iter {
  IterKind kind;
  bool started, done, negate, by_attr;
  const Value *v;  // ITER_ITEMS
  int64_t n, pos;
  const char *p, *end;  // ITER_CHARS
  bool safe;
  Value source;  // of what is computed: asked at the first step
  Iter *from;
  const FnRow *fn;
  bool raw_true;  // ITER_SELECT: the value itself decides
  Args args;
  AttrPath *path;
  Value fill;
  int64_t count;
  Dict *seen;
  // ITER_LOOP_FILTER
  const TplNode *loop;
  Act *act;
};
void iter_prepare(Tpl *x, Iter *it);
bool loop_filter_next(Tpl *x, Iter *it, Value *out);

// ---- formatting: template_format.c ----
Value format_percent(Tpl *x, Value s, Value args);
Value format_method(Tpl *x, Value s, const Args *args);
void put_format(Tpl *x, Buf *b, Value v, Str spec);  // format(v, spec)

// ---- running: template_run.c, template_eval.c ----
struct Macro {
  const TplNode *node;
  Act *outer;
};
struct LoopVar {
  Iter *it;
  Value iterable;
  int64_t index0, length;  // length -1: not known
  Value before, current, after;
  const Items *last_changed;
};
Value tpl_eval(Tpl *x, Act *act, const TplNode *n);
typedef enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } Flow;
Flow tpl_exec(Tpl *x, Act *act, const NodeList *body);
void tpl_load(Tpl *x, Act *act, const Scope *s);
void tpl_store(Tpl *x, Act *act, const TplNode *target, Value v);
Value tpl_filter(Tpl *x, Act *act, const TplNode *n, Value v);
Value tpl_call_node(Tpl *x, Act *act, const TplNode *n, const Value *caller);
static inline Value *tpl_slot(Act *act, int slot, int up) {
  while (up-- > 0) act = act->outer;
  return &act->slot[slot];
}

#endif
