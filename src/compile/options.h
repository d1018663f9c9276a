// options.h -- the options of a compilation, from the rows of options.def and fields.def.
//
// One row gives the field of CompileOptions and its line of `compile_option`, by which the value is
// set from text, written to text and compared with the default.  Who adds an option adds a row
// here, and reads the field where it is used.
#ifndef TENON_COMPILE_OPTIONS_H
#define TENON_COMPILE_OPTIONS_H

#include "base/machine.h"
#include "ir/pass.h"
#include "targets/target.h"

// What OPTION_FILE reads; path NULL: nothing is given.
typedef struct OptionFile {
  const char *path, *hash;  // "sha256:..."
  Str text;
} OptionFile;
typedef struct TextList {
  const char *const *v;
  int64_t n;
} TextList;

// The optimiser under a caller's eyes: `guard` calls optimise_run(r), and may look at the graph
// when that fails or never returns.
typedef struct OptimiseRun {
  Graph *g;
  const OptOptions *o;
  OptReport *report;
  Arena *arena;
  Diag *diag;
} OptimiseRun;
typedef tenon_status OptimiseGuard(void *ctx, const OptimiseRun *r);

// compile_defaults fills it in; a caller then sets what it wants.  Everything it points to is the
// caller's.
typedef struct CompileOptions {
#define OPTION_FLAG(id, ...)   bool id;
#define OPTION_INT(id, ...)    int64_t id;
#define OPTION_BYTES(id, ...)  int64_t id;
#define OPTION_CHOICE(id, ...) int id;
#define OPTION_TEXT(id, ...)   const char *id;
#define OPTION_LIST(id, ...)   TextList id;
#define OPTION_FILE(id, ...)   OptionFile id;
#include "compile/options.def"
#define FIELD(mark, declaration, name) declaration;
#include "compile/fields.def"
} CompileOptions;

// Words of `precision`, in the row's order.
enum { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISION_F16 };

typedef enum {
  OPTION_KIND_FLAG,
  OPTION_KIND_INT,
  OPTION_KIND_BYTES,
  OPTION_KIND_CHOICE,
  OPTION_KIND_TEXT,
  OPTION_KIND_LIST,
  OPTION_KIND_FILE
} CompileOptionKind;
enum {  // marks
  OPTION_RECORD = 1,
  OPTION_KEY = 2,
  OPTION_EXPERT = 4,
  OPTION_FRESH = 8,
  OPTION_SAME = 16
};
enum CompileOptionId {
#define OPTION_FLAG(id, ...)   COMPILE_OPTION_##id,
#define OPTION_INT(id, ...)    COMPILE_OPTION_##id,
#define OPTION_BYTES(id, ...)  COMPILE_OPTION_##id,
#define OPTION_CHOICE(id, ...) COMPILE_OPTION_##id,
#define OPTION_TEXT(id, ...)   COMPILE_OPTION_##id,
#define OPTION_LIST(id, ...)   COMPILE_OPTION_##id,
#define OPTION_FILE(id, ...)   COMPILE_OPTION_##id,
#include "compile/options.def"
  COMPILE_OPTIONS
};
typedef struct CompileOptionRow {
  const char *name;  // the field's
  CompileOptionKind kind;
  uint32_t marks, offset;
  int64_t dflt, least, most;
  const char *words;  // OPTION_KIND_CHOICE: separated by spaces
  const char *value;  // what stands for it in help; NULL of a flag
  const char *help;
} CompileOptionRow;
extern const CompileOptionRow compile_option[COMPILE_OPTIONS];
extern const char *const compile_option_kind_name[];  // by CompileOptionKind: "flag", "int", ...

void compile_defaults(CompileOptions *o);  // -O3, for no target
// Sets an option by its name, with _ or -, as text: a flag takes 1, 0, true or false; a list gets
// one more value.  What is kept of the text is in `a`.  EINVAL: there is no such option, or it
// takes no such value.
MUST_USE tenon_status compile_option_set(CompileOptions *o, const char *name, const char *value,
                                         Arena *a, Diag *d);
// Of row `id`, which the text is checked against.
MUST_USE tenon_status compile_option_put(CompileOptions *o, int id, const char *value, Arena *a,
                                         Diag *d);
// Options exclude one another: EINVAL.
MUST_USE tenon_status compile_options_check(const CompileOptions *o, Diag *d);
// "name=value" of every option with one of these marks that is not at its default, in the order of
// the rows.
TextList compile_options_list(const CompileOptions *o, unsigned marks, Arena *a);
// The same with OPTION_KEY as one text for the key of the cache of kernels; "" where there are
// none.
const char *compile_options_key(const CompileOptions *o, Arena *a);
// Whether a program of the cache does as well as a new one: nothing with the mark FRESH is given.
bool compile_options_kept(const CompileOptions *o);
// The whole number of a text with K, M, G or T behind it for powers of `k`, or without; false: it
// is none.
bool parse_scaled(const char *text, int64_t k, int64_t *out);

#endif
