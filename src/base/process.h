// process.h -- another program, with pipes to its standard input and output.
#ifndef TENON_BASE_PROCESS_H
#define TENON_BASE_PROCESS_H

#include "base/base.h"

typedef struct Process {
  int64_t pid;
  int in, out;  // to its standard input (-1: closed), from its standard output
} Process;

// 0 or an errno value.  The child gets no other file of ours but standard error.
int process_start(const char *path, const char *const *argv, Process *out);
// All of it, or an errno value: EPIPE when the other end is gone, ETIMEDOUT when it takes longer
// than the deadline (of platform->now()).
int process_write(Process *p, const void *bytes, int64_t n, int64_t deadline);
int process_read(Process *p, void *bytes, int64_t n, int64_t deadline);
// Closes the pipes and waits; with `kill`, does not let it finish.  What it ended by: its exit
// status, or a signal's number below 0.
int process_end(Process *p, bool kill);
// Ends a process that another thread reads from, which sees the end of its output and reaps it.
void process_stop(int64_t pid);
int64_t thread_time(void);  // processor time of the calling thread, in nanoseconds
int64_t
process_time(const Process *p);  // processor time that it has taken, in nanoseconds; 0: not known
// Runs a program to its end, found on the path, with our standard files.  0 or an errno value;
// *out_status is its exit status, -1 where it was ended by a signal.
int process_run(const char *const *argv, int *out_status);
// Runs the program at `path` to its end, without standard input, and appends its standard output to
// `out`: at most `cap` bytes, E2BIG for more.  It ends with the calling thread, however that ends.
// 0 or an errno value; *out_status as process_end's.
int process_collect(const char *path, const char *const *argv, int64_t cap, StrBuf *out,
                    int *out_status);
// Where a program lies: beside the running executable, beside this library, or on the path.  False
// when nowhere.
bool process_find(const char *name, char *out, int64_t cap);
// Whether the system shows a machine besides the CPU, such as a GPU: cheaper to know than what
// drivers say.
bool system_has_accelerator(void);

// ---- memory that code runs in ----
// A copy of the bytes, executable and read-only.  NULL when the system refuses.
void *code_map(const void *bytes, int64_t n);
void code_unmap(void *p, int64_t n);
// Makes mapped bytes executable in place; false when the system refuses, or they do not begin at a
// page.
bool code_allow(void *p, int64_t n);

// ---- shared libraries (platform_library.c) ----
void *library_open(const char *path);  // NULL when it cannot be
void *library_symbol(void *library, const char *name);
void library_close(void *library);  // NULL is fine

#endif
