// text.h -- tests as text: .tir files that say how to optimise a graph and what must come out.
//
// Each file tests/text/FOLDER/NAME.tir is the test tir_FOLDER.NAME.  CONTRIBUTING.md describes the
// format.  A file is read (file.c), each section is optimised and compared with the interpreter
// (opt.c, compare.c), its output is checked (check.c), and generated checks are rewritten when
// --update asks for it (update.c).
#ifndef TENON_TESTS_TEXT_TEXT_H
#define TENON_TESTS_TEXT_TEXT_H

#include "ir/interpret.h"
#include "ir/pass.h"

// ---- checks (check.c) ----
typedef enum {
  CHECK_FIND,   // PREFIX:          a line from here on contains the pattern
  CHECK_NEXT,   // PREFIX-NEXT:     the next line contains it
  CHECK_NOT,    // PREFIX-NOT:      no line contains it, from here to the next line that is found
  CHECK_COUNT,  // PREFIX-COUNT-n:  exactly n lines from here to the end contain it
} CheckKind;
typedef struct CheckLine {
  CheckKind kind;
  Str prefix, pattern;
  int64_t count;   // CHECK_COUNT
  int line;        // in the file, from 1
  bool generated;  // below a GENERATED line: a line of the graph, character by character
} CheckLine;
typedef VEC(CheckLine) CheckLines;

// What an output is checked against: lines of one prefix, generated ones left out.
// True when all hold; else *out_line is the line of the check that failed and `why` says how.
bool check_output(const CheckLines *c, Str prefix, Str output, Arena *a, int *out_line,
                  StrBuf *why);
// The generated lines of a prefix against the whole text of the graph; the difference goes to
// `why`.
bool check_generated(const CheckLines *c, Str prefix, Str graph, Arena *a, int *out_line,
                     StrBuf *why);

// ---- test files (file.c) ----
typedef struct TextRun {
  int line;
  const char *prefix;  // of the checks that its output must pass
  OptOptions opt;
  int64_t level;
  bool exact, fast;
  double tolerance;   // of floats, relative to 1 + |x|, 1e-2 at least for 16 bits; 0: the same bits
  const char *stats;  // names of figures to print, separated by commas; NULL: none
  bool again;         // optimising again must change nothing
  bool no_more_bytes;  // kernels move no more bytes than the nodes would, each alone
} TextRun;
typedef struct TextSize {
  Str name;
  int64_t value;
} TextSize;
typedef struct TextGenerated {  // a GENERATED line: the checks below it are --update's
  int line;
  Str prefix;
} TextGenerated;
typedef struct TextSection {
  Str text;   // with its comments
  int first;  // number of its first line
  VEC(TextRun) run;
  VEC(TextSize) size;  // of symbols, in random inputs
  CheckLines check;
  VEC(TextGenerated) generated;
} TextSection;
typedef struct TextFile {
  const char *path;
  Str text;
  VEC(TextSection) section;
} TextFile;
// False: `why` says what is wrong and *out_line where.
bool text_file_read(const char *path, Str text, Arena *a, TextFile *out, int *out_line,
                    StrBuf *why);

// ---- one run of a section (opt.c) ----
typedef struct TextOutput {
  Str all;    // figures, then the graph
  Str graph;  // its text after the passes, long constants shortened
} TextOutput;
// Optimises the section's graph, compares its results with those of the graph as written, and
// checks its kernels.  False: `why` says what went wrong.
bool text_section_run(const TextFile *f, const TextSection *s, const TextRun *r, Arena *a,
                      TextOutput *out, StrBuf *why);

// ---- --update (update.c) ----
// The file with its generated blocks as the outputs have them; output[i][k]: of run k of section i.
void text_file_update(const TextFile *f, TextOutput *const *output, StrBuf *out);

// ---- results (compare.c) ----
// Runs both graphs in the interpreter on the same random inputs and compares all results.
bool text_compare(Graph *before, Graph *after, const TextSection *s, const TextRun *r, Diag *d,
                  StrBuf *why);

// ---- kernels (kernels.c) ----
// Each kernel has at most one anchor and no node that the host runs.
bool kernels_are_sound(Graph *g, StrBuf *why);
int64_t kernels_bytes_moved(Graph *g);  // symbolic sizes: 3

#endif
