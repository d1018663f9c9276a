// tool_forms.h -- the grammar of an answer that calls tools, as a family of templates writes it.
#ifndef TENON_GRAMMAR_TOOL_FORMS_H
#define TENON_GRAMMAR_TOOL_FORMS_H

#include "grammar/grammar.h"
#include "text/tool_calls.h"

typedef struct ToolForm {
  const ToolSyntax *syntax;
  const Reasoning *reasoning;  // NULL: none
  bool inside;                 // the answer begins within reasoning
  const Json *tools;           // OpenAI's list, checked
  Str named;                   // the only tool that may be called; empty: any
  bool required;               // the answer is calls; else text, and calls where it begins one
  bool parallel;               // more than one call
} ToolForm;

// Whether answers of the family can be held to calls in its own form.  Where they cannot, an answer
// that must call is a JSON list: the syntax `json`.
bool tool_form_fits(const ToolSyntax *s, bool required);
// In memory of the arena.  EUNSUPPORTED: what a schema asks for and cannot be written so, by name.
MUST_USE tenon_status tool_form_spec(const ToolForm *f, Arena *a, Diag *d, GrammarSpec *out);

#endif
