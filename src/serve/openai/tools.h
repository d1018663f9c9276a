// tools.h -- the tools of a request, and the calls of its answers.
#ifndef TENON_SERVE_OPENAI_TOOLS_H
#define TENON_SERVE_OPENAI_TOOLS_H

#include "serve/openai/answers.h"

// `tools`, `tool_choice` and `parallel_tool_calls`, checked.  `flat`: as /v1/responses has them,
// where the function is no object of its own.
typedef struct ToolsAsk {
  const Json *list;    // of /v1/chat/completions' form; NULL: no tool may be called
  Str text;            // the list as JSON
  const char *choice;  // "none", "auto", "required" or "named"
  Str named;
  bool parallel, strict;
} ToolsAsk;
void tools_ask_read(Fields *f, ToolsAsk *out, bool flat);
// Members of the engine's ask.  A form of the answer and tools exclude one another.
void tools_ask_add(Fields *f, Answers *a, const ToolsAsk *t);
// Behind LLM_ACCEPTED: how the choice's answer is to be read.
void tools_begin(Answers *a, Choice *c, const Json *accepted);
void tools_text(Choice *c, Str text);
void tools_end(Choice *c);

#endif
