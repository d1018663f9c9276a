// conform.h -- the parts of `tenon conform`: finding tests, running one, and the numbers between
// them.
#ifndef TENON_TOOLS_CONFORM_CONFORM_H
#define TENON_TOOLS_CONFORM_CONFORM_H

#include "base/base.h"
#include "ir/ir.h"

typedef enum { CASE_PASSED, CASE_WRONG, CASE_UNSUPPORTED, CASE_CRASHED, CASE_VERDICTS } Verdict;
extern const char *const verdict_name[CASE_VERDICTS];

typedef struct Case {
  const char *name;      // the folder's name, or NAME of a light test
  const char *model;     // the .onnx file
  const char *archive;   // it came out of this one, else NULL
  const char *unpacked;  // into this temporary folder
  const char *folder;    // with the test_data_set_* folders; NULL for a light test
  const char *output;    // a light test's expected output
  bool program;          // `model` is a StableHLO program that checks itself
  Verdict verdict;
  const char *reason;  // why not passed; or, for a passed test, a remark (a tolerance exception);
                       // may be NULL
  double seconds;
} Case;
typedef VEC(Case) CaseList;

// Appends every test below `path`, in the order of their names.  EIO when the path cannot be read.
MUST_USE tenon_status conform_find(Arena *a, const char *path, Diag *d, CaseList *out);
bool conform_is_archive(const char *path);
// Unpacks into a new temporary folder with the system's tar; *out_folder is set as soon as it
// exists.
MUST_USE tenon_status conform_unpack(Arena *a, const char *archive, Diag *d,
                                     const char **out_folder);
void conform_remove(Arena *a, const char *folder);  // a folder and all in it

typedef struct CaseOptions {
  bool expand;    // composites by their expansion
  bool text;      // through the text form and back
  bool artifact;  // compiled programs through a file and back
  bool resident;  // of a GPU: also with tensors in its memory
  int threads;
  bool plan;                             // in the planned order and memory
  const struct Target *target;           // compiled for it; NULL: interpreted
  const struct CompileOptions *compile;  // NULL: the graph as it is
} CaseOptions;
typedef struct ConformBuilt {
  struct MemPlan *plan;     // with CaseOptions.plan
  struct Program *program;  // with CaseOptions.target; the caller releases it
  struct Session *session;  // likewise
} ConformBuilt;
// With CaseOptions.compile: the graph as it is then run.
MUST_USE tenon_status conform_compile(const Case *c, const CaseOptions *o, Graph *g, Arena *a,
                                      Diag *d, ConformBuilt *out);
// Runs one test in this process.
Verdict conform_run(const Case *c, const CaseOptions *o, Arena *a, const char **out_reason);
// Of a StableHLO program (program.c).
Verdict conform_run_program(const Case *c, const CaseOptions *o, Arena *a, const char **out_reason);
// Of a test whose stored outputs the specification contradicts: the sentence that decides, and
// whether `got` is what it asks for; NULL: of no such test (decided.c).
const char *conform_decided(const Case *c, const Value *got, bool *out_right);
// A message on one line, without the model's path in front.
const char *conform_one_line(Arena *a, const char *text, const char *model);

#endif
