// program_cache.h -- finished programs in the cache of kernels, so that a model which was compiled
// before is neither optimised nor lowered again.
//
// A program is found by all that it follows from: the graph as it was read (graph_hash.h), the
// options (the marks of options.def and fields.def), the machine, the code generator and Tenon's
// own sources.  What is found is an artifact, loaded by the checks of artifacts, with the warnings
// of its compilation.  Damage, another key, another owner: it counts as absent.
//
// Only full code is kept.  A thread writes the program, after its quick code was replaced if it had
// some, so that no run waits for it; releasing the program waits for the thread.  A program that is
// not written is no error.
#ifndef TENON_COMPILE_PROGRAM_CACHE_H
#define TENON_COMPILE_PROGRAM_CACHE_H

#include "compile/compile.h"

typedef struct ProgramKey {
  const char *folder;  // NULL: no program of the cache does, and none is kept
  Str text;
  const char *name;  // of the model, for people
} ProgramKey;

// Before the graph is changed.  `path` names the model, and may be NULL.  Needs a Trap.
ProgramKey program_key(Graph *g, const CompileOptions *o, const char *path, Arena *a);
// Sets r->program, r->warning, r->found and r->done; what it gives is in `a`.
bool program_find(const ProgramKey *k, Arena *a, CompileReport *r);
// After compile_graph gave r->program.
void program_keep(const ProgramKey *k, const CompileOptions *o, const CompileReport *r);

void program_wait_kept(Program *p);  // until it is written, or will not be

// compile_graph up to COMPILE_BUILD, or the program of the cache.
MUST_USE tenon_status compile_program(Graph *g, const CompileOptions *o, const char *path, Arena *a,
                                      Diag *d, CompileReport *r);

// What programs are made by, for CacheMaker.compiler.
Str program_compiler(void);
// The model's name in an entry of the cache (a file's bytes, which were checked); empty: it is
// none.
Str program_entry_name(Str file);

#endif
