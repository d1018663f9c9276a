// findings.h -- the static analysis on the command line.
#ifndef TENON_CLI_VERIFY_FINDINGS_H
#define TENON_CLI_VERIFY_FINDINGS_H

#include "api/model.h"
#include "cli/cli.h"
#include "analyse/analyse.h"

// Of the model as it was read, with what its file holds beyond the graph.
void findings_collect(Model *m, bool weights, Arena *a, Analysis *out);
// One line each, with a hint at the first of a code; `all`: every one, else the first few of each
// code.
typedef bool FindingFilter(const Finding *f);
void findings_print(const Analysis *an, FindingFilter *wanted, bool all);
bool finding_is_dead(const Finding *f);  // of something unused
void findings_count(StrBuf *b,
                    const Analysis *an);  // "1 error, 2 warnings", "" when there are none
void findings_json(JsonWriter *w, const Analysis *an);
// Every code.
void codes_print(void);
void codes_markdown(void);
void codes_json(Cli *c);

#endif
