// artifact.h -- a compiled model in a file: model.tenon.
//
// A header of one page, then three sections, each at a page's start and filled up with zeros: the plan (every table of
// the Program), the constants, the code.  The header has the length and the CRC32C of each section and its own, so that
// no bit can change unnoticed.  Where a model is linked into a program, the constants may be a file of their own (exactly
// that section), which the header's CRC binds to it.  The file is mapped: constants and code are used where they lie, and shared by all
// processes that run the model.
//
// The checks find damage, not malice: an artifact is a program, and runs with the rights of whoever runs it.
#ifndef TENON_RUNTIME_ARTIFACT_H
#define TENON_RUNTIME_ARTIFACT_H

#include "eval/table.h"
#include "runtime/program.h"

enum { ARTIFACT_VERSION = 5, ARTIFACT_PAGE = 4096, ARTIFACT_PARTS = 6 };
typedef enum { SECTION_PLAN, SECTION_CONSTANTS, SECTION_CODE, SECTION_COUNT } ArtifactSection;
extern const char *const artifact_section_name[SECTION_COUNT];

typedef struct ArtifactInfo {
  uint32_t version;
  const char *maker;  // version of Tenon that wrote it
  int64_t file_bytes, section_bytes[SECTION_COUNT];
} ArtifactInfo;

// Whether a file begins as an artifact does.
bool artifact_is(const void *bytes, int64_t n);

// The file's bytes in order: header, plan, padding, constants, padding, code with its padding.  The constants are the
// program's own; the rest lies in `a`.  `beside`: for constants in a file of their own, whose part is empty.  EUNSUPPORTED
// for a program without code of its own.
MUST_USE tenon_status artifact_parts(const Program *p, bool beside, Arena *a, Diag *d,
                                     Str out[ARTIFACT_PARTS]);
// Replaces the file at once, or leaves the old one.
MUST_USE tenon_status artifact_write(const Program *p, const char *path, Diag *d);

// How host steps find their evaluations: eval_find, or a list of what one program needs.
typedef const EvalOp *EvalFind(const char *name);
// `file` is the program's from here on, also on failure.
MUST_USE tenon_status artifact_load(File *file, EvalFind *find, Diag *d, Program **out);
// The bytes, at a multiple of 64, stay the caller's and must outlive the program.  `weights`: the file of its constants,
// NULL where they are among the bytes.
MUST_USE tenon_status artifact_load_memory(const void *bytes, int64_t n, const char *weights,
                                           EvalFind *find, Diag *d, Program **out);
MUST_USE tenon_status artifact_open(const char *path, Diag *d, Program **out);
// What the header says; the program must come from artifact_load.
void artifact_info(const Program *p, ArtifactInfo *out);

// ---- the plan as bytes (artifact_plan.c) ----
MUST_USE tenon_status plan_encode(const Program *p, StrBuf *out, Diag *d);
// Fills p's tables from the bytes, in its arena; constants and code are given their place by the caller.
MUST_USE tenon_status plan_decode(Program *p, Str bytes, EvalFind *find, Diag *d);

#endif
