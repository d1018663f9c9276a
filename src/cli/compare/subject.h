// subject.h -- a model in a runtime, run and measured in a process of its own.
//
// Two subjects never share a process: each has its own threads, its own memory, and its peak of
// memory is its own.  Tenon's is this program, by the commands `run` and `bench`; ONNX Runtime's is
// a Python program that prints the same figures (onnxruntime.py).
#ifndef TENON_CLI_COMPARE_SUBJECT_H
#define TENON_CLI_COMPARE_SUBJECT_H

#include "cli/cli.h"

typedef struct Subject {
  const char *label;   // for messages: "A (model.onnx)"
  const char *model;   // the file
  const char *python;  // of ONNX Runtime; NULL: Tenon
  const char *threads;
  const char *const
      *option;  // [noptions] more of the command line of `tenon run` and `tenon bench`
  int64_t noptions;
  bool measured_only;  // never run for its outputs: options of `tenon bench` alone fit, too
} Subject;

typedef struct Figures {
  double load_ms, compile_ms;  // compile: 0 for a compiled model and for ONNX Runtime
  double median_ms, min_ms, p99_ms;
  double flops, gflops, peak_share;  // 0: not known
  int64_t runs, threads, arena_bytes, peak_rss_bytes;
  const char *version;       // of ONNX Runtime, else NULL
  const char *const *other;  // [nothers] outputs that arrays cannot hold
  int64_t nothers;
} Figures;

// "onnxruntime", "onnxruntime:FILE": *out_model is FILE, NULL where none is named.
bool subject_is_onnxruntime(const char *text, const char **out_model);
// The options of this command that `tenon run` and `tenon bench` have, too.
void subject_share(Cli *c, Subject *s);
// NAME=VALUE as options of `tenon run` and `tenon bench`.  CLI_USAGE where one is no option of both
// that changes how a model runs.
int subject_options(Cli *c, const char *from, const OptionValue *pairs, Subject *s);
// One run with the inputs of an archive; the outputs go to another archive.  *out may have
// `version` and `other`.
MUST_USE tenon_status subject_run(Cli *c, const Subject *s, const char *inputs, const char *outputs,
                                  Figures *out);
// Repeated runs for some seconds.  Without `inputs` (Tenon only) they are random.
MUST_USE tenon_status subject_bench(Cli *c, const Subject *s, const char *inputs, double seconds,
                                    Figures *out);

#endif
