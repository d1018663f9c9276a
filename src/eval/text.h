// text.h -- attributes and evaluation of the text ops, and what they share about UTF-8.
#ifndef TENON_EVAL_TEXT_H
#define TENON_EVAL_TEXT_H

#include "eval/eval.h"

// clang-format off
#define STRING_SPLIT_ATTRS(A, C, T)                                                                \
  A(T, str, delimiter, "", "what separates; empty: runs of white space")                           \
  A(T, i64, maxsplit, -1, "most splits of one string, from the left; negative: no limit")
ATTR_STRUCT(string_split, STRING_SPLIT_ATTRS);
#define STRING_NORMALIZER_ATTRS(A, C, T)                                                           \
  C(T, case_change_action, "NONE|LOWER|UPPER", 0, "change of case")                                \
  A(T, bool, is_case_sensitive, false, "stop words must match in case")                            \
  A(T, str, locale, "", "accepted and ignored: case follows Unicode")                              \
  A(T, strs, stopwords, , "elements to drop")
ATTR_STRUCT(string_normalizer, STRING_NORMALIZER_ATTRS);
enum { CASE_NONE, CASE_LOWER, CASE_UPPER };
#define REGEX_FULL_MATCH_ATTRS(A, C, T) A(T, str, pattern, "", "regular expression, RE2 syntax")
ATTR_STRUCT(regex_full_match, REGEX_FULL_MATCH_ATTRS);
#define TF_IDF_VECTORIZER_ATTRS(A, C, T)                                                           \
  A(T, i64, max_gram_length, 1, "longest n-gram counted")                                          \
  A(T, i64, max_skip_count, 0, "most tokens skipped between those of an n-gram")                   \
  A(T, i64, min_gram_length, 1, "shortest n-gram counted")                                         \
  C(T, mode, "TF|IDF|TFIDF", 0, "counts, weights of what occurs, or counts times weights")         \
  A(T, i64s, ngram_counts, , "where the 1-grams, 2-grams... begin in the pool")                    \
  A(T, i64s, ngram_indexes, , "column of each n-gram")                                             \
  A(T, i64s, pool_int64s, , "n-grams of integers, one after the other")                            \
  A(T, strs, pool_strings, , "n-grams of strings, one after the other")                            \
  A(T, f64s, weights, , "weight of each column")
ATTR_STRUCT(tf_idf_vectorizer, TF_IDF_VECTORIZER_ATTRS);
enum { TFIDF_TF, TFIDF_IDF, TFIDF_BOTH };
#define TOKENIZER_ATTRS(A, C, T)                                                                   \
  A(T, bool, mark, false, "put the characters 2 and 3 around the tokens of a string")              \
  A(T, i64, mincharnum, 1, "least characters of a token")                                          \
  A(T, str, pad_value, "", "what short rows end with")                                             \
  A(T, strs, separators, , "expressions that split; one empty string: every character is a token") \
  A(T, str, tokenexp, "", "expression of a token; . is every character")
ATTR_STRUCT(tokenizer, TOKENIZER_ATTRS);
// clang-format on

// The code point at p (p < end) and its length; a byte that is not UTF-8 gives U+FFFD and length 1.
uint32_t utf8_decode(const char *p, const char *end, int *len);
int utf8_encode(uint32_t c, char out[4]);
// Simple case mapping: one code point to one code point.
uint32_t unicode_lower(uint32_t c);
uint32_t unicode_upper(uint32_t c);
// Rows of the tables behind them: code points lo, lo + step, ..., hi map to themselves plus delta.
typedef struct CaseRow {
  uint32_t lo, hi;
  int step;
  int32_t delta;
} CaseRow;
extern const CaseRow unicode_lower_rows[], unicode_upper_rows[];
extern const int unicode_nlower_rows, unicode_nupper_rows;
Str text_change_case(Arena *a, Str s, int action);

// Regular expressions (text_regex.c): compiled once, matched in time linear in the text.
typedef struct Regex Regex;
// NULL: the pattern is wrong; the message says why and where.
const Regex *regex_compile(Arena *a, Str pattern, const char **message);
bool regex_full_match(const Regex *re, Str text);
// The leftmost match at or after byte `start`, the longest there: bytes [*begin, *end).  Adds the
// operations that it took to *work.
bool regex_find(const Regex *re, Str text, int64_t start, int64_t *begin, int64_t *end,
                int64_t *work);
int64_t regex_size(const Regex *re);  // instructions: the most operations that a character takes

// Columns of a tf_idf_vectorizer's result; -1 when the attributes are wrong, with the reason.
int64_t tf_idf_columns(const tf_idf_vectorizer_attrs *at, const char **why);

EvalFn eval_string_concat, eval_string_split, eval_string_normalizer, eval_regex_full_match,
    eval_tf_idf_vectorizer, eval_tokenizer;

#endif
