// compiled.h -- graphs compiled for a target, for tests.
#ifndef TENON_TESTS_COMPILED_H
#define TENON_TESTS_COMPILED_H

#include "ir/ir.h"
#include "runtime/program.h"

// Optimises, plans and compiles the graph; what the program needs lives in `a`.
MUST_USE tenon_status compile_graph(Graph *g, const char *target, Arena *a, Diag *d, Program **out);
// The same of a graph's text.
MUST_USE tenon_status compile_text(const char *text, const char *target, Arena *a, Diag *d,
                                   Program **out);
// Bytes of the artifact, in `a`, at a multiple of 64.
MUST_USE tenon_status artifact_bytes(const Program *p, Arena *a, Diag *d, Str *out);

#endif
