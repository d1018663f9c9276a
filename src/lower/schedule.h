// schedule.h -- how a template does a kernel, as data: fields that are declared once, and
// everything that reads them.
//
// A template declares the fields of its schedule as a list, which gives a struct and a table:
//   #define GEMM_SCHEDULE(I, B, C, T)
//     I(T, rows,      0, 1, 64, 1, FREE, "rows of the register tile")
//     B(T, stage_lhs, false,       FREE, "copy the rows of lhs into scratch first")
//     C(T, order,     "rows|columns", 0, FREE, "which work items follow one another")
// (each line but the last ends in a backslash), then
//   SCHEDULE_STRUCT(Gemm, GEMM_SCHEDULE);      in the template's header: struct type `GemmSchedule`
//   SCHEDULE_TABLE(Gemm, GEMM_SCHEDULE);       in its file: `Gemm_fields`, for SCHEDULE(Gemm)
//
// I(T, name, default, lowest, highest, step, effect, doc) is an integer: a multiple of `step`, or
// with step 0 a power of two.  B(T, name, default, effect, doc) is true or false; C(T, name, words,
// default, effect, doc) one of the words.  A name for people leaves out fields that have their
// default; all other texts have every field.
//
// Effect.  FREE: no value of the field changes a bit of a result.  ORDER: it may, because sums are
// formed in another order or of other terms.  A tuner that must keep the bits varies the FREE
// fields alone.  tests/lower/schedule_test.c holds the declarations to it.
#ifndef TENON_LOWER_SCHEDULE_H
#define TENON_LOWER_SCHEDULE_H

#include "base/attr.h"
#include "base/json.h"

typedef enum { EFFECT_FREE, EFFECT_ORDER } FieldEffect;

typedef struct ScheduleField {
  AttrDesc attr;         // of kind i64, bool or choice
  int64_t lo, hi, step;  // i64: the range; multiples of step, 0: powers of two
  uint8_t effect;        // FieldEffect
} ScheduleField;

enum { SCHEDULE_FIELDS = 32, SCHEDULE_BYTES = 256, SCHEDULE_TEXT = 1024 };

#define SCHEDULE_I_FIELD_(T, name, dflt, lo, hi, step, effect, doc) int64_t name;
#define SCHEDULE_B_FIELD_(T, name, dflt, effect, doc)               bool name;
#define SCHEDULE_C_FIELD_(T, name, words, dflt, effect, doc)        int name;
#define SCHEDULE_I_DESC_(T, nm, df, low, high, by, ef, dc)                                         \
  {.attr = {.name = #nm,                                                                           \
            .doc = dc,                                                                             \
            .kind = ATTR_i64,                                                                      \
            .offset = (uint16_t)offsetof(T, nm),                                                   \
            .dflt = (double)(df)},                                                                 \
   .lo = low,                                                                                      \
   .hi = high,                                                                                     \
   .step = by,                                                                                     \
   .effect = EFFECT_##ef},
#define SCHEDULE_B_DESC_(T, nm, df, ef, dc)                                                        \
  {.attr = {.name = #nm,                                                                           \
            .doc = dc,                                                                             \
            .kind = ATTR_bool,                                                                     \
            .offset = (uint16_t)offsetof(T, nm),                                                   \
            .dflt = df},                                                                           \
   .effect = EFFECT_##ef},
#define SCHEDULE_C_DESC_(T, nm, words, df, ef, dc)                                                 \
  {.attr = {.name = #nm,                                                                           \
            .doc = dc,                                                                             \
            .choices = words,                                                                      \
            .kind = ATTR_choice,                                                                   \
            .offset = (uint16_t)offsetof(T, nm),                                                   \
            .dflt = df},                                                                           \
   .effect = EFFECT_##ef},
#define SCHEDULE_STRUCT(N, LIST)                                                                   \
  typedef struct N##Schedule {                                                                     \
    LIST(SCHEDULE_I_FIELD_, SCHEDULE_B_FIELD_, SCHEDULE_C_FIELD_, N##Schedule)                     \
  } N##Schedule
#define SCHEDULE_TABLE(N, LIST)                                                                    \
  static const ScheduleField N##_fields[] = {                                                      \
      LIST(SCHEDULE_I_DESC_, SCHEDULE_B_DESC_, SCHEDULE_C_DESC_, N##Schedule)}
#define SCHEDULE(N)                                                                                \
  .field = N##_fields, .nfields = ARRAY_LEN(N##_fields), .bytes = (int)sizeof(N##Schedule)

typedef struct Template Template;

// How a kernel was done.  `fields` is the template's struct; NULL where it has no fields.
typedef struct Schedule {
  const Template *t;  // NULL: not made by a template
  const void *fields;
} Schedule;

// Fields that somebody asked for; a template chooses the others.
typedef struct ScheduleGiven {
  const Template *t;  // that must take the kernel; NULL: nothing is asked for
  uint32_t set;       // by number of the field
  const void *fields;
} ScheduleGiven;

// Overwrites the fields that are given.  `choose` calls it after each decision that later ones
// depend on.
void schedule_keep(const ScheduleGiven *g, void *fields);
bool schedule_is_given(const ScheduleGiven *g, const char *field);

// ---- text ----
// "gemm rows=14 cols=32 ...": every field, in the order of the declaration.
const char *schedule_text(Arena *a, Schedule s);
const char *schedule_name(Arena *a,
                          Schedule s);  // for people: fields that have their default are left out
void schedule_json(JsonWriter *w, Schedule s);  // an object of the fields
// Reads "template field=value ...".  Fields may be missing: *out says which are there.  EINVAL
// names the field and its legal values.
MUST_USE tenon_status schedule_parse(Arena *a, const char *text, Diag *d, ScheduleGiven *out);
// "1..64", "powers of two from 1 to 16", "true, false", "rows, columns".
const char *schedule_legal(Arena *a, const ScheduleField *f);
bool schedule_in_range(const ScheduleField *f, const void *fields);

uint64_t schedule_hash(Schedule s);
bool schedule_equal(Schedule a, Schedule b);

// ---- what the user asks for ----
// "GLOB=template field=value ...": for each kernel that GLOB means (kernel_fit).
typedef struct ScheduleRule {
  const char *text, *glob;
  ScheduleGiven given;
  bool used;  // it fitted a kernel
} ScheduleRule;
MUST_USE tenon_status schedule_rule_parse(Arena *a, const char *text, Diag *d, ScheduleRule *out);
// A schedule that was measured for a workload (tuned.h, workload.h).
typedef struct TunedSchedule {
  const char *key;       // of the workload
  const char *schedule;  // "gemm rows=14 ..."
  double gain;           // the default's time over its own; 0: not known
} TunedSchedule;
typedef struct TunedSchedules {
  const char *name;      // of the file, for messages
  const char *machine;   // "KEY vector=64 ..."
  bool reorder;          // ORDER fields and other templates count, too: results may have other bits
  TunedSchedule *entry;  // [n] sorted by key
  int64_t n;
} TunedSchedules;

// The one of the names that takes fewest changes to become `name`; NULL: there are none.
const char *schedule_nearest(Arena *a, const char *name, const char *const *names, int64_t n);

#endif
