// artifact.h -- a compiled model in a file: model.tenon.
//
// A file holds one or several variants of a model, each compiled for one target (or for several
// machines together), over one set of constants.  A header of one page, then sections, each at a
// page's start and filled up with zeros: the constants of the first variant, those that only others
// have, and of each variant the plan (every table of the Program) and the code.  The header has the
// length and the CRC32C of each section and its own, so that no bit can change unnoticed.  Where a
// model is linked into a program, the constants may be a file of their own (exactly that section),
// which the header's CRC binds to it.  The file is mapped: constants and code are used in place,
// and shared by all processes that run the model.
//
// Loading takes the fastest variant that this machine can run: its CPU has what the code needs, its
// drivers are there.
//
// The checks find damage, not malice: an artifact is a program, and runs with the rights of whoever
// runs it.  So whoever opens models by path states on what grounds a file may be run
// (ArtifactTrust).
#ifndef TENON_RUNTIME_ARTIFACT_H
#define TENON_RUNTIME_ARTIFACT_H

#include "eval/table.h"
#include "runtime/program.h"

enum { ARTIFACT_VERSION = 7, ARTIFACT_PAGE = 4096, ARTIFACT_VARIANTS = 8 };
enum { ARTIFACT_PARTS = 5 + 4 * ARTIFACT_VARIANTS };

// What a program was compiled for: "cpu", "host", "opencl", or several machines "cpu,opencl"; may
// lie in `a`.
const char *program_target(const Program *p, Arena *a);

// Whether a file begins as an artifact does.
bool artifact_is(const void *bytes, int64_t n);

// ---- writing ----

// The file's bytes in order: header, then each section and what fills its last page; empty where
// there are fewer.  The constants and the code are the programs' own; the rest lies in `a`.
// `external_weights`: for constants in a file of their own, of one program.  EUNSUPPORTED for a
// program without code of its own; EINVAL for two of one target.
MUST_USE tenon_status artifact_parts(const Program *const *variant, int n, bool external_weights,
                                     Arena *a, Diag *d, Str out[ARTIFACT_PARTS]);
// Replaces the file at once, or leaves the old one.
MUST_USE tenon_status artifact_write(const Program *p, const char *path, Diag *d);
MUST_USE tenon_status artifact_write_all(const Program *const *variant, int n, const char *path,
                                         Diag *d);

// ---- loading ----

// How host steps find their evaluations: eval_find, or a list of what one program needs.
typedef const EvalOp *EvalFind(const char *name);
// How fast a driver's devices are here, in operations a second; 0 and a reason when there are
// none.  NULL: no driver is asked.
typedef double DriverSpeed(const char *driver, const char **why);
#define SHARED_SPEED                                                                               \
  2.0  // of a device that is the host's own cores: it runs, but slower than these by themselves
// Why a file that a user named as a model may be run as a program.  It is run if its name ends in
// .tenon, or if the user said that it is compiled; never under limits, which machine code does not
// keep.
typedef struct ArtifactTrust {
  const char *name;  // as the user gave it, links unresolved; NULL: bytes; `-`: standard input
  bool said;         // that it is compiled: `--compiled`, `compiled=True`
  bool limited;      // a limit of memory, iterations or operations is set
} ArtifactTrust;
typedef struct ArtifactLoad {
  EvalFind *find;
  DriverSpeed *speed;
  bool ask_late;       // drivers only where no variant for the CPU runs: no other machine is seen
  const char *target;  // this variant and no other; NULL: the fastest that runs here
  const ArtifactTrust *trust;  // NULL: the caller asked for a program, not for a model
  bool listed;                 // to be looked at: its code stays data, and no session takes it
  int64_t at;                  // where it begins in the file, a multiple of 64
  bool checked;  // its sections are whole: a checksum of the file says so, and theirs are not asked
} ArtifactLoad;
// `file` is the program's from here on, also on failure.
MUST_USE tenon_status artifact_load(File *file, const ArtifactLoad *o, Diag *d, Program **out);
// The bytes, at a multiple of 64, stay the caller's and must outlive the program.  `weights`: the
// file of its constants, NULL where they are among the bytes.
MUST_USE tenon_status artifact_load_memory(const void *bytes, int64_t n, const char *weights,
                                           const ArtifactLoad *o, Diag *d, Program **out);
// With every evaluation there is, where none is said; `o` may be NULL.
MUST_USE tenon_status artifact_open(const char *path, const ArtifactLoad *o, Diag *d,
                                    Program **out);

typedef struct ArtifactVariant {
  const char *target;
  int64_t plan_bytes, code_bytes;
  const char *why_not;  // this variant was not taken; NULL: it was
} ArtifactVariant;
typedef struct ArtifactInfo {
  uint32_t version;
  const char *maker;  // version of Tenon that wrote it
  int64_t file_bytes, constants_bytes;
  int nvariants, chosen;
  ArtifactVariant variant[ARTIFACT_VARIANTS];
} ArtifactInfo;
// What the header says, and what loading made of it; the program must come from artifact_load.
void artifact_info(const Program *p, ArtifactInfo *out);

// ---- the plan as bytes (artifact_plan.c) ----
MUST_USE tenon_status plan_encode(const Program *p, StrBuf *out, Diag *d);
// Fills p's tables from the bytes, in its arena; constants and code are given their place by the
// caller.
MUST_USE tenon_status plan_decode(Program *p, Str bytes, EvalFind *find, Diag *d);

#endif
