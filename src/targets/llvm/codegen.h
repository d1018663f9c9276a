// codegen.h -- code for kernels, made by the program tenon-codegen in processes of its own.
//
// The library never links LLVM: it sends a kernel's text through a pipe and gets bytes back, so
// that a failure there is an error here and nothing more.
#ifndef TENON_TARGETS_LLVM_CODEGEN_H
#define TENON_TARGETS_LLVM_CODEGEN_H

#include "base/cache.h"
#include "base/machine.h"
#include "base/watch.h"
#include "loop/loop.h"
#include "targets/llvm/protocol.h"

typedef struct Codegen Codegen;  // a pool of processes; any number of callers

typedef struct Code {
  const uint8_t *bytes;  // in the caller's arena
  int64_t n;
  int64_t entry;  // CODE_IMAGE
  bool cached;
  bool quick;  // made with CodeCall.quick
  double ms;   // spent on it, by the wall's clock
  // CodeCall.go_on: why there is none; NULL: there is.  Whether a limit was reached, and not a
  // fault met.
  const char *failed;
  bool limit;
} Code;

typedef struct CodegenOptions {
  const char *program;  // where tenon-codegen lies; NULL: beside the running program or library,
                        // then on the path
  int nprocesses;       // 0: as many as there are threads
  int64_t deadline_ns;  // of one kernel; 0: two minutes
  const char *cache;    // folder; NULL: none
  // Its processes have a lower priority, and begin no kernel while the shared pool has a user.  As
  // those of the shared pool, they share half of what the caller may still take.
  bool background;
} CodegenOptions;
// `o` may be NULL.
MUST_USE tenon_status codegen_create(const CodegenOptions *o, Diag *d, Codegen **out);
// What the cache keeps machine code for this machine under (cache_import).
CacheMaker codegen_maker(const Codegen *c, Arena *a);
void codegen_release(Codegen *c);
// From any thread: ends the processes of a pool of one's own at once.  Who makes code there gets
// ECANCELLED, and so does everybody after that.
void codegen_cancel(Codegen *c);
// A background pool waits for the shared one no longer.
void codegen_hurry(Codegen *c);
// The pool that this process has, with the user's cache: made for its first user, its processes
// ended with the last.  Who compiles many models keeps a reference all the while, as starting a
// process takes longer than making code for a small kernel.
MUST_USE tenon_status codegen_shared(int nprocesses, Diag *d, Codegen **out);
// For a parent that forks: starts processes 0 to n - 1 ahead; in a child, codegen_adopt leaves the
// child process i and no other, and the pool; codegen_restart replaces it when the child may have
// left it dead or in the middle of a kernel.
MUST_USE tenon_status codegen_start(Codegen *c, int n, Diag *d);
void codegen_adopt(Codegen *c, int i);
void codegen_restart(Codegen *c, int i);
// Whether the cache has the code of a kernel, which was therefore verified.  `key`: as in CodeCall.
bool codegen_has(Codegen *c, const Machine *m, CodeKind kind, const char *key, Str text);
// Makes code for n kernels, given as text, in parallel.
MUST_USE tenon_status codegen_build(Codegen *c, const Machine *m, CodeKind kind, const Str *text,
                                    int64_t n, Arena *a, Code *out, Diag *d);
typedef struct CodeCall {
  const Watch *watch;  // told of each kernel, one call at a time, on any thread; may be NULL
  bool no_cache;
  // What the cache does not have is made quickly, and not kept; the bits that it computes are the
  // same.  A kernel that fails so is made in full.
  bool quick;
  const char *key;          // what else the code follows from, for the cache; NULL or "": nothing
  const char *const *node;  // by kernel: the node that it computes, for messages; may be NULL
  bool *none;               // set where the program makes no code at all; may be NULL
  bool go_on;  // a kernel that has no code fails alone (Code.failed); a program that makes none
               // fails all
} CodeCall;
MUST_USE tenon_status codegen_build_with(Codegen *c, const Machine *m, CodeKind kind,
                                         const Str *text, int64_t n, const CodeCall *call, Arena *a,
                                         Code *out, Diag *d);

#endif
