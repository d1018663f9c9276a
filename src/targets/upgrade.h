// upgrade.h -- full code for a program that runs on quick code.
//
// A program whose kernels were made quickly (CodeCall.quick) is used at once.  A thread of its own
// has the same kernels made in full, by processes of a lower priority.  When the last one is there,
// all are published together (Program.swapped), and each session takes them at the start of its
// next run.  Both forms compute the same bits.
#ifndef TENON_TARGETS_UPGRADE_H
#define TENON_TARGETS_UPGRADE_H

#include "runtime/program.h"
#include "targets/llvm/codegen.h"

// The host's kernels of a program, with the code that it has now.  Everything is copied.
typedef struct UpgradeKernels {
  const Machine *machine;
  const char *key;  // as in CodeCall
  bool no_cache;
  int threads;            // processes; 0: as many as there are threads
  int64_t n, most_bytes;  // of one kernel's code
  const int64_t *kernel;  // its number in the program
  const Str *text;
  const Code *code;
} UpgradeKernels;

// Sets Program.upgrade and Program.settle.  Without memory or a thread the program keeps its quick
// code, which is no error.
void upgrade_start(Program *p, const UpgradeKernels *k);
// Waits until the thread is done, without having it hurry; whether all code of the program is full.
bool upgrade_wait(const Program *p);
// Ends the work early, so that who waits goes on.
void upgrade_cancel(const Program *p);
// Before the program's memory goes: ends the thread and its processes, and frees the code that it
// made.
void upgrade_stop(Program *p);

// All images in one block, each at a multiple of a cache line; of a page on AArch64, whose code
// finds its constants by pages.  `entry` is by kernel of the program.
Str join_code(const Code *code, const int64_t *kernel, int64_t n, const Machine *m, Arena *a,
              int64_t *entry);

#endif
