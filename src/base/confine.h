// confine.h -- layers that take rights away from the calling process: for programs, before they
// read what they do not trust.
//
// Each layer is asked of the kernel by itself and reports whether it holds, so that a kernel, a
// container or an emulator that lacks one costs that one alone.  Nothing here can be undone, and
// children inherit it.  The library never calls it for its caller's process: tenon and
// tenon-codegen call it for their own.
#ifndef TENON_BASE_CONFINE_H
#define TENON_BASE_CONFINE_H

#include "base/base.h"

typedef struct Layer {
  bool active;
  char text[120];  // what it holds, or why it is missing
} Layer;

typedef enum { LAYER_NO_NEW_PRIVS, LAYER_RLIMITS, LAYER_LANDLOCK, LAYER_SECCOMP, LAYERS } LayerId;
extern const char *const layer_name[LAYERS];
typedef struct Layers {
  Layer layer[LAYERS];
} Layers;

void PRINTF(3, 4) set_layer(Layer *l, bool active, const char *fmt, ...);
// Why layers would break the tool that watches this process: its own calls would be judged as
// ours.  NULL: nothing watches.
const char *confine_watched(void);

// Neither this process nor a child gains rights by executing a program (setuid, file capabilities).
void confine_no_new_privs(Layer *out);

// ---- rlimits ----
enum { NO_LIMIT = -1 };
typedef struct ResourceLimits {
  int64_t memory;     // bytes of address space
  int64_t processes;  // of this user, threads included; root is not bound by it
  int64_t files;      // highest number of a file descriptor, plus 1
  int64_t file_size;  // a regular file that is standard output or error now may grow by 1 MiB
                      // nevertheless
  int64_t core;       // bytes of a core dump
} ResourceLimits;
int64_t mapped_bytes(void);  // of address space, now
void confine_resources(const ResourceLimits *l, Layer *out);
// From now on so many seconds of processor time, then SIGXCPU.  A later call starts again.
void confine_cpu(int64_t seconds);
// Closes every file but standard input, output and error.
void confine_close_files(void);

// ---- Landlock: files by path ----
enum {
  MAY_WRITE =
      1,  // files: write and truncate; folders: also create, remove and rename what is in them
  MAY_EXECUTE = 2,  // a program, or those in a folder
};
typedef struct PathRule {
  const char *path;  // one that is not there is left out
  int may;
} PathRule;
typedef struct FileRules {
  bool read, write, execute;  // what is forbidden, but for the paths below
  bool tcp, outside;          // also TCP; abstract sockets and signals to other processes
  const PathRule *path;
  int64_t npaths;
} FileRules;
int landlock_abi(void);  // 0: the kernel has none
void confine_files(const FileRules *r, Layer *out);

// ---- seccomp: system calls by number ----
typedef enum {
  CALL_ALLOW,
  CALL_REFUSE,   // fails with EPERM
  CALL_VIOLATE,  // SIGSYS
} CallAction;
typedef struct CallRule {
  int number;         // SYS_...
  CallAction action;  // when it fits
  int argument;       // 0 to 5: only where its low 32 bits under `mask` are `value`; -1: always
  uint32_t mask, value;
  bool differ;  // only where they are not
} CallRule;
// The first rule that fits decides, else `otherwise`.  Calls of another architecture's interface
// are violations.  Holds for all threads.
void confine_calls(const CallRule *rule, int64_t n, CallAction otherwise, Layer *out);

#endif
