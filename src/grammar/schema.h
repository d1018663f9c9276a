// schema.h -- inside the reading of JSON Schemas: goals, what they say of each type of value.
//
// A goal is a set of schemas that a value must all fit.  `allOf` and `$ref` add to it, `anyOf`,
// `oneOf` and `dependentRequired` make several goals of it, of which one must be met.  What is left
// are schemas whose keywords are about the value itself: a flat goal.  Each goal becomes a rule,
// found again by its set, so schemas may refer to themselves.
#ifndef TENON_GRAMMAR_SCHEMA_H
#define TENON_GRAMMAR_SCHEMA_H

#include "grammar/impl.h"

enum {
  TYPE_NULL = 1,
  TYPE_BOOL = 2,
  TYPE_INTEGER = 4,
  TYPE_FRACTION = 8,  // numbers that are no integers
  TYPE_STRING = 16,
  TYPE_ARRAY = 32,
  TYPE_OBJECT = 64,
  TYPE_ALL = 127
};

// Sorted by address, each once.  `never`: no value fits.
typedef struct Goal {
  const Json **v;
  int64_t n;
  bool never;
} Goal;
typedef VEC(Goal) Goals;

typedef struct Schema {
  Build *b;
  const Json *root;
  StrMap rule;       // bytes of a goal -> rule + 1
  IntMap dependent;  // address of a list of `dependentRequired` -> the schemas it stands for
  VEC(Goal) todo;
  VEC(int32_t) todo_rule;
} Schema;

tenon_status schema_fail(Schema *s, tenon_status code, const Json *at, const char *key,
                         const char *what);
MUST_USE tenon_status goal_add(Schema *s, Goal *g, const Json *schema);   // NULL is nothing
MUST_USE tenon_status goal_expand(Schema *s, const Goal *g, Goals *out);  // flat goals, any of them
const Expr *goal_expr(Schema *s, const Goal *g);
// Whether no value fits both: true only where it is sure.
MUST_USE tenon_status goals_disjoint(Schema *s, const Goal *x, const Goal *y, int depth, bool *out);

// ---- flat goals ----
unsigned flat_types(const Goal *g);
bool flat_has(const Goal *g, const char *key);
// The values that `enum` and `const` leave; false: there is neither.
MUST_USE tenon_status flat_values(Schema *s, const Goal *g, const Json ***out, int64_t *out_n,
                                  bool *out_any);
bool json_same(const Json *x, const Json *y);  // as JSON Schema compares

typedef struct NumberRange {
  double lo, hi;
  bool over, under;  // lo, hi themselves are out
} NumberRange;
NumberRange flat_range(const Goal *g);
MUST_USE tenon_status flat_number(Schema *s, const Goal *g, bool integer, const Expr **out);
// The inside of the quotes, calling no rules; *out is NULL where any string fits.
MUST_USE tenon_status flat_inside(Schema *s, const Goal *g, const Expr **out);
MUST_USE tenon_status flat_string(Schema *s, const Goal *g, const Expr **out);
MUST_USE tenon_status flat_object(Schema *s, const Goal *g, const Expr **out);
MUST_USE tenon_status flat_array(Schema *s, const Goal *g, const Expr **out);
// What a member of this name must fit; *out_named: a schema names it.
MUST_USE tenon_status member_goal(Schema *s, const Goal *g, Str name, Goal *out);
bool flat_requires(const Goal *g, Str name);
// The largest of a keyword of all schemas, or the smallest; -1: none has it.
int64_t flat_count(const Goal *g, const char *key, bool smallest);

#endif
