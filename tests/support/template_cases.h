// template_cases.h -- graphs whose one kernel a template makes: at least one for each row of
// templates.def.
//
// With target ref; thread blocks by TENON_BLOCK_THREADS, tensor cores by TENON_MMA.
#ifndef TENON_TESTS_SUPPORT_TEMPLATE_CASES_H
#define TENON_TESTS_SUPPORT_TEMPLATE_CASES_H

#include "eval/eval.h"

typedef struct TemplateCase {
  const char *name;  // of the template
  const char *text;  // a line "!w f32[3, 4]" is a constant with random numbers; with ~ pruned ones
  const char *base;  // fields that all variants have; NULL: those that are chosen
  const char *groups, *tiles;
  double tolerance;  // 0: 2e-5
} TemplateCase;
#define G(args, body) "graph @\"g\"(" args ") {\n" body "}\n"
#define MATMUL(m, k, n, more)                                                                      \
  G("%x: f32[" m ", " k "]", "!w f32[" k ", " n "]\n  %p = mat_mul(%x, %w)\n" more)
extern const TemplateCase template_cases[];
extern const int template_ncases;

// The text with its constants written out.
const char *template_case_text(Arena *a, const char *text);
void template_case_fill(Value *v);  // an input

#endif
