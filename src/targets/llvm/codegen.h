// codegen.h -- code for kernels, made by the program tenon-codegen in processes of its own.
//
// The library never links LLVM: it sends a kernel's text through a pipe and gets bytes back, so that a failure there is
// an error here and nothing more.
#ifndef TENON_TARGETS_LLVM_CODEGEN_H
#define TENON_TARGETS_LLVM_CODEGEN_H

#include "base/machine.h"
#include "base/watch.h"
#include "loop/loop.h"
#include "targets/llvm/protocol.h"

// A cache, and processes: those of the whole process, which all share, unless a program is named.  They are started when needed
// and ended with the last user; whoever compiles many models holds one all the while, as starting a process takes longer than
// making code for a small kernel.
typedef struct Codegen Codegen;

typedef struct Code {
  const uint8_t *bytes;  // in the caller's arena
  int64_t n;
  int64_t entry;  // CODE_IMAGE
  bool cached;
  double ms;  // spent on it, by the wall's clock
} Code;

typedef struct CodegenOptions {
  const char *
      program;  // where tenon-codegen lies; NULL: beside the running program or library, then on the path
  int nprocesses;       // 0: as many as there are threads
  int64_t deadline_ns;  // of one kernel; 0: two minutes
  const char *cache;    // folder; NULL: none
  // Called for each kernel that is done, by one thread at a time.
  void (*progress)(void *ctx, int64_t done, int64_t total);
  void *ctx;
  const Watch *watch;  // told before each kernel, likewise; may be NULL
} CodegenOptions;
// `o` may be NULL.
MUST_USE tenon_status codegen_create(const CodegenOptions *o, Diag *d, Codegen **out);
void codegen_release(Codegen *c);
// For a parent that forks: starts processes 0 to n - 1 ahead; in a child, codegen_adopt leaves the child process i and no other;
// codegen_restart replaces it when the child may have left it in the middle of a kernel.
MUST_USE tenon_status codegen_start(Codegen *c, int n, Diag *d);
void codegen_adopt(Codegen *c, int i);
void codegen_restart(Codegen *c, int i);
// Makes code for n kernels, given as text, side by side.
MUST_USE tenon_status codegen_build(Codegen *c, const Machine *m, CodeKind kind, const Str *text,
                                    int64_t n, Arena *a, Code *out, Diag *d);

#endif
