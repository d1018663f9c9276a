// impl.h -- inside src/grammar: expressions, the automaton, and places in it.
//
//   schema.c  regex.c  gbnf.c  tools.c     text -> expressions in rules (Build)
//   nfa.c  dfa.c                           the expression of a rule -> a deterministic part of
//                                          the automaton over bytes, control tokens and calls
//   finish.c                               what cannot end is cut off; costs of ending
//   place.c                                places: sets of threads, and steps by a symbol
//   mask.c                                 walks over the vocabulary's trie, masks
//   state.c                                how far an answer is
//
// Symbols.  0 to 255 are bytes; SYMBOL_TOKEN + i is the i-th control token that the grammar names.
//
// Calls.  A state may call a rule: the rule's language, then the state `ret`.  A call of rule
// RULE_EMPTY is a way on that takes nothing.  A call after which nothing follows pushes nothing,
// so recursion to the right needs no stack.
//
// Height.  A thread is kept only where its stack and State.height are within Grammar.depth_most: so
// the way that its cost promises is never cut off by the limit.
//
// Cost.  State.cost is a number of tokens that surely lead from the state to its rule's end, each
// step of them to a state whose cost is at least one lower: so a thread that has as many tokens
// left as it and its stack cost can always end.
#ifndef TENON_GRAMMAR_IMPL_H
#define TENON_GRAMMAR_IMPL_H

#include "base/json.h"
#include "base/platform.h"
#include "grammar/grammar.h"
#include "text/unicode.h"

enum {
#define LIMIT(name, value, unit, what, beyond) LIMIT_GRAMMAR_##name = (value),
#include "grammar/limits.def"
#undef LIMIT
};

enum {
  SYMBOL_TOKEN = 256,
  SYMBOL_BEGIN = SYMBOL_TOKEN,    // within regular expressions, which have no control tokens:
  SYMBOL_END = SYMBOL_TOKEN + 1,  // the text's two ends
  SYMBOL_MOST = SYMBOL_TOKEN + LIMIT_GRAMMAR_TAGS * 2,
  RULE_EMPTY = 0,
  COST_NEVER = 1 << 28,
  PLAIN_MOST = 16,  // characters of tokens in the vocabulary's sets of plain text
  TOKEN_BYTES = 255
};

// ---- the vocabulary ----
// Nodes in the order of their bytes, parents before children: what is behind a node up to skip is
// below it.  A node's token is -1 where none ends.
typedef struct Trie {
  int64_t n;
  uint8_t *byte, *depth;  // depth from 1
  int32_t *skip, *token;
} Trie;

typedef struct VocabName {
  Str text;
  int32_t id;
} VocabName;

struct GrammarVocab {
  Arena arena;
  int64_t size, words;
  Str *piece;      // [size]; empty: in no mask by its bytes
  int32_t *again;  // [size] the next token with the same bytes; -1: none
  // `all` has every token.  `rest` has those that are in no set of plain text.
  Trie all, rest;
  // [k], k from 1: tokens of 1 to k whole characters that stand for themselves in a JSON string.
  uint32_t *plain[PLAIN_MOST + 1];
  bool single[256];  // there is a token of this byte alone
  int32_t *end;      // tokens that end a generation
  int64_t nend;
  VocabName *control;  // control tokens, in order of their texts
  int64_t ncontrol;
};
int32_t vocab_control(const GrammarVocab *v, Str text);  // -1: none

// ---- expressions ----
typedef enum {
  E_EMPTY,
  E_NEVER,
  E_BYTES,
  E_SET,     // a character of `range`, as UTF-8
  E_SYMBOL,  // `symbol`
  E_SEQ,
  E_ALT,
  E_REPEAT,  // of[0], `least` to `most` times; most -1: no bound
  E_RULE,
  E_AND,    // both of of[0] and of[1], which call no rules
  E_NOT,    // what of[0] is not, of all byte strings; calls no rules
  E_BOUND,  // of[0], within SYMBOL_BEGIN and SYMBOL_END, without them
  E_GRAPH   // from node 0 to node 1 by arcs
} ExprKind;
typedef struct Expr Expr;
typedef struct GraphArc {
  int32_t from, to;
  const Expr *by;
} GraphArc;
struct Expr {
  ExprKind kind;
  Str bytes;
  const UnicodeRange *range;
  int64_t n;  // of ranges, parts or arcs
  const Expr **of;
  const GraphArc *arc;
  int32_t least, most, rule, symbol, nodes;
  bool json;  // of a set: as the inside of a JSON string spells the character
};

typedef struct Rule {
  Str name;
  const Expr *body;  // NULL: not given yet
  bool alone;        // never written into its callers
  int32_t start;     // state
  // While the automaton is built:
  int64_t size;
  uint8_t mark;  // 1: being measured, 2: measured
  bool recursive;
} Rule;

typedef struct Build {
  Arena *a;  // gone when the grammar is made
  Diag *d;
  const GrammarVocab *vocab;
  const GrammarSpec *spec;
  VEC(Rule) rule;
  VEC(int32_t) token;  // control tokens by symbol
  int64_t fuel;        // steps of compilation that are left
  int32_t root;
  int32_t depth_most;  // of stacks
  // JSON, made when first used; -1 before.
  int32_t space, character, string, number, integer, value, object, array;
} Build;

void build_fuel(Build *b, int64_t steps);  // raises TENON_EUNSUPPORTED when it ends
int32_t build_rule(Build *b, Str name);    // without a body
void build_body(Build *b, int32_t rule, const Expr *body);
int32_t build_control(Build *b, int32_t id);  // the symbol of a control token

Expr *expr_new(Build *b, ExprKind kind);
const Expr *expr_bytes(Build *b, Str s);
const Expr *expr_set(Build *b, const UnicodeRange *range, int64_t n, bool json);
const Expr *expr_not_set(Build *b, const UnicodeRange *range, int64_t n, bool json);
const Expr *expr_list(Build *b, ExprKind kind, const Expr **of, int64_t n);  // SEQ or ALT; copied
// Alternatives of sequences, as a reader meets them.
typedef struct {
  VEC(const Expr *) alternative, part;
} ExprChoices;

void choices_part(Build *b, ExprChoices *c, const Expr *part);
void choices_next(Build *b, ExprChoices *c);  // the parts so far are an alternative
const Expr *choices_expr(Build *b, const ExprChoices *c);
const Expr *expr_pair(Build *b, ExprKind kind, const Expr *x, const Expr *y);
const Expr *expr_repeat(Build *b, const Expr *x, int64_t least, int64_t most);
const Expr *expr_rule(Build *b, int32_t rule);
const Expr *expr_symbol(Build *b, int32_t symbol);
const Expr *expr_any(Build *b, bool json);  // any character
#define expr_seq(b, ...)                                                                           \
  expr_list((b), E_SEQ, (const Expr *[]){__VA_ARGS__},                                             \
            (int64_t)(sizeof((const Expr *[]){__VA_ARGS__}) / sizeof(const Expr *)))
#define expr_alt(b, ...)                                                                           \
  expr_list((b), E_ALT, (const Expr *[]){__VA_ARGS__},                                             \
            (int64_t)(sizeof((const Expr *[]){__VA_ARGS__}) / sizeof(const Expr *)))
#define expr_z(b, z) expr_bytes((b), STR(z))

// Sets of code points: sorted ranges that do not touch.
typedef VEC(UnicodeRange) CodeSet;
void code_add(Build *b, CodeSet *s, uint32_t first, uint32_t last);
void code_order(CodeSet *s);
void code_not(Build *b, CodeSet *s);  // of an ordered one

// ---- JSON ----
void form_begin(Build *b);
const Expr *form_space(Build *b);
const Expr *form_character(Build *b);                                     // of a string
const Expr *form_string(Build *b);                                        // any
const Expr *form_list(Build *b, const char *brackets, const Expr *item);  // any number of items
const Expr *form_number(Build *b);
const Expr *form_integer(Build *b);
const Expr *form_value(Build *b);
const Expr *form_object(Build *b);
const Expr *form_array(Build *b);
const Expr *form_quoted(Build *b, const Expr *inside);
// `"name" : value` with `key` inside the quotes.
const Expr *form_member(Build *b, const Expr *key, const Expr *value);
// The text of a value, white space allowed between its tokens.
const Expr *form_literal(Build *b, const Json *v);

// ---- what reads text ----
enum {
  REGEX_SEARCH = 1,  // anywhere in the text; else all of it
  REGEX_JSON = 2,    // characters as inside a JSON string
  REGEX_NARROW = 4   // what ECMA-262 and Python both take for \d, \w, \s and their complements
};
MUST_USE tenon_status regex_read(Build *b, Str text, int flags, const Expr **out);
MUST_USE tenon_status gbnf_read(Build *b, Str text, const Expr **out);
MUST_USE tenon_status schema_read(Build *b, Str text, int32_t *out_rule);
MUST_USE tenon_status tools_read(Build *b, const Expr **out);
const Expr *tools_thought(Build *b);  // reasoning in front of the answer

// ---- the automaton ----
typedef struct Edge {
  int16_t lo, hi;  // symbols
  int32_t to;
} Edge;
typedef struct Call {
  int32_t rule, ret;  // ret -1: nothing follows, so nothing is pushed
} Call;
typedef struct State {
  int32_t edge, nedge;  // in order of symbols, apart
  int32_t call, ncall;
  int32_t cost;
  int32_t height;  // stack that such a way to the end takes
  bool final;
} State;

// A deterministic automaton over symbols and calls; state 0 is where it begins.
typedef struct Dfa {
  VEC(State) state;
  VEC(Edge) edge;
  VEC(Call) call;
} Dfa;
void dfa_of_expr(Build *b, const Expr *x, Dfa *out);
void dfa_and(Build *b, const Dfa *x, const Dfa *y, Dfa *out);
void dfa_not(Build *b, const Dfa *x, Dfa *out);
void dfa_bound(Build *b, const Dfa *x, Dfa *out);
bool dfa_takes(const Dfa *x, Str text);  // of one that calls nothing
bool dfa_is_empty(Build *b, const Dfa *x);
// All rules' automata in one, then finish.c.
void build_automaton(Build *b, Dfa *out);
MUST_USE tenon_status finish_automaton(Build *b, Dfa *m);

// ---- places ----
// A thread is a state and a stack of states to go on at: an index into Grammar.stack, 0 the bottom.
typedef struct Thread {
  int32_t state, stack;
} Thread;
typedef struct Stack {
  int32_t ret, below;
  int32_t cost;   // of all states on it
  int32_t depth;  // of the bottom 0
} Stack;
typedef struct Place {
  int32_t n;
  bool exit;  // a thread has come to the end of the bottom
  int32_t cost;
  int32_t deep;    // stack and height of the deepest thread, those beyond the limit too
  Thread *thread;  // [n] those whose states take symbols, sorted
  // The threads that the others come from by calls: what these allow is all that the place allows.
  Thread *kernel;  // [nkernel]
  int32_t nkernel;
  // [classes] by class of symbols: a place; 0 nowhere, -1 not known.  Most places are only come to,
  // so it is Grammar.unknown until a step is taken.
  int32_t *next;
} Place;

// Tokens: a bit for each of the vocabulary, or where they are few their numbers.
typedef struct TokenSet {
  uint32_t *bits;  // [words], or NULL: `token`
  int32_t *token;  // [n]
  int64_t n;
} TokenSet;
// Tokens behind which ending takes `cost` tokens.
typedef struct Level {
  int32_t cost;
  TokenSet set;
} Level;

// What one state allows, whatever is below it on the stack.
typedef struct Local {
  TokenSet all;
  int32_t most;  // no token of `all` costs more
  Level *level;  // [nlevel] by cost: the parts of `all`, but for plain text
  int64_t nlevel;
  int run;         // tokens of up to so many plain characters are in `all`
  int32_t *plain;  // [run + 1] what ending takes behind k of them
  int32_t *exit;   // [nexit] nodes of tries at which the state's rule ends: see mask.c
  int64_t nexit;
  int32_t deep;  // as in Place
} Local;

struct Grammar {
  Arena arena;  // automaton
  const GrammarVocab *vocab;
  const State *state;
  const Edge *edge;
  const Call *call;
  const int32_t *start;  // of each rule
  int64_t nstate;
  int32_t root;
  const int32_t *token;  // control tokens by symbol
  int64_t ntoken;
  uint16_t class_of[SYMBOL_MOST];
  int64_t classes;
  int16_t class_symbol[SYMBOL_MOST];  // one of each class
  int64_t least;
  int32_t depth_most;
  GrammarState *states;  // those that live

  // Remembered while masks are made; forgotten when it grows over LIMIT_GRAMMAR_CACHE_MIB.
  Arena cache;
  VEC(Place *) place;  // place 0 is nowhere
  int32_t *unknown;    // [classes] -1
  VEC(Stack) stack;
  int32_t *place_slot, *stack_slot;  // hash tables of indices, 0 empty
  int64_t place_cap, stack_cap;
  Local **local;       // [nstate] NULL: not made yet
  Thread *work;        // of the step at work
  int32_t *work_base;  // the depth of the stack at which a thread's kernel began; -1: a kernel
  int32_t *work_slot;
  int64_t work_cap;
  Thread *kernel;
  int64_t kernel_cap;
  int64_t looked;  // nodes of tries that walks looked at
  bool cut;        // threads beyond LIMIT_GRAMMAR_THREADS were left out
  struct MaskWork *scratch;
};

void place_begin(Grammar *g);                                           // an empty cache
int32_t place_make(Grammar *g, const Thread *t, int64_t n, bool exit);  // sorts; for state.c
int32_t place_of_state(Grammar *g, int32_t state, int32_t stack);       // with what it calls
int32_t place_step(Grammar *g, int32_t place, int cls);
int32_t stack_push(Grammar *g, int32_t ret, int32_t below);
static inline int32_t place_next(Grammar *g, int32_t place, int cls) {
  int32_t to = g->place.v[place]->next[cls];
  return to >= 0 ? to : place_step(g, place, cls);
}
void mask_place(Grammar *g, int32_t place, int64_t left, uint32_t *allowed);
void mask_prepare(Grammar *g, int64_t work);  // masks of states that allow much, beforehand

struct GrammarState {
  Grammar *g;
  GrammarState *next, **prev;
  int32_t place;
  int64_t taken;
  int32_t to;  // of the step at work
  bool ended;  // by a token that ends a generation
  const char *wrong;
  Diag diag;
};

#endif
