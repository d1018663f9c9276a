// pattern.h -- regular expressions of pre-tokenizers, matched in linear time.
//
// A pattern becomes a deterministic automaton over classes of code points, so nothing backtracks.
// Alternatives have the priorities of Perl: the first that matches wins, and greedy repetitions
// take as much as they can.  A set followed by a lookahead is decided when the next character is
// known.
//
// Supported: literals, `.`, sets with ranges, negation, nesting and `&&`, \d \s \w \h and their
// complements, \p{...} of general categories, Han and White_Space, escapes, groups, (?i:...),
// greedy and lazy repetitions, possessive ones of single characters, lookahead at one character,
// `$` and \z at the end of the text.
// Refused by name: backreferences, lookbehind, atomic groups, longer lookahead, `^`, \b, other
// properties.
#ifndef TENON_TEXT_PATTERN_H
#define TENON_TEXT_PATTERN_H

#include "base/base.h"

typedef struct Pattern Pattern;  // immutable; in the arena

MUST_USE tenon_status pattern_compile(Str pattern, Arena *a, Diag *d, const Pattern **out);
// The length of the match that begins at text.p + at; -1: none.  The text is well-formed UTF-8.
// *work grows by the bytes that were looked at.
int64_t pattern_match(const Pattern *r, Str text, int64_t at, int64_t *work);
// The leftmost match at `from` or later; false: none.  Empty matches are passed over.
bool pattern_find(const Pattern *r, Str text, int64_t from, int64_t *work, int64_t *out_start,
                  int64_t *out_end);
int64_t pattern_states(const Pattern *r);  // of the automaton, for tests

// ---- between pattern.c and pattern_dfa.c ----
typedef struct PatternRange {
  uint32_t first, last;
} PatternRange;
typedef VEC(PatternRange) PatternSet;  // sorted, apart from one another
typedef enum {
  RX_SET,    // takes a character of set `x`
  RX_SPLIT,  // goes on at x, then at y
  RX_JUMP,   // x
  RX_LOOK,   // the next character is in set `x` or, with y == 1, is not: the end is in no set
  RX_MATCH
} PatternOp;
typedef struct PatternInst {
  PatternOp op;
  int32_t x, y;
} PatternInst;
typedef VEC(PatternInst) PatternProgram;
typedef VEC(PatternSet) PatternSets;
MUST_USE tenon_status pattern_build(const PatternProgram *program, const PatternSets *sets,
                                    Str pattern, Arena *a, Diag *d, const Pattern **out);

#endif
