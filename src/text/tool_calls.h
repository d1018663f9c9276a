// tool_calls.h -- tool calls and reasoning in the answers of language models.
//
// Each family of chat templates has its own form of a tool call.  The forms are rows of
// tool_syntax.def; tool_syntax_find chooses one by the texts that the template has.  A ToolParser
// takes an answer as it is generated, in pieces of any size, and tells content, reasoning and calls
// apart.  What it tells does not depend on where the pieces end: text that may be the beginning of
// a marker is held back.
//
// Nothing is lost.  What looked like a call and is none becomes content; what is wrong behind a
// call's name becomes part of its arguments, which need not be JSON then.
#ifndef TENON_TEXT_TOOL_CALLS_H
#define TENON_TEXT_TOOL_CALLS_H

#include "base/base.h"
#include "base/json.h"

// What stands between a call's markers.
typedef enum ToolBody {
  TOOL_OBJECT,  // {"name": ..., "arguments": {...}}, one behind the other
  TOOL_LIST,    // the same in a JSON list
  TOOL_MAP,     // [{"the name": {...}}]
  TOOL_ARGS,    // the name, a marker, the arguments as JSON
  TOOL_PARAMS,  // the name, then each argument between markers of its own
  TOOL_PYTHON,  // [name(key='text', other=1)]
  TOOL_BRACES   // name{key:<|"|>text<|"|>,other:1}
} ToolBody;

enum { TOOL_MARKS = 3, TOOL_SKIPS = 5 };

// A family.  Markers are NULL where it has none.
typedef struct ToolSyntax {
  const char *name;
  ToolBody body;
  const char *mark[TOOL_MARKS];       // texts that its templates have, all of them
  const char *section, *section_end;  // around all calls
  const char *call, *call_end;        // around each; call NULL: an answer that begins as one is one
  const char *name_end;               // between the name and what follows
  const char *head_end;               // of attributes behind the name
  const char *arg, *arg_name_end, *arg_head_end, *arg_end;  // TOOL_PARAMS
  const char *name_key, *args_key;  // TOOL_OBJECT and TOOL_LIST, as the family writes them
  const char *id_mark;              // TOOL_ARGS: between the name and an identifier
  bool id_first;                    // ... which comes before the name
  bool id_whole;                    // the whole of name and number is the identifier
  bool lines;                       // TOOL_PARAMS: a value stands between line ends
  const char *text_attribute;       // TOOL_PARAMS: behind the name of a text
  const char *json_attribute;       // ... of what is JSON
  const char *plain;                // a name that means content
  bool free;                     // its calls have other markers around: no grammar is made of them
  const char *skip[TOOL_SKIPS];  // texts that are no part of the content
} ToolSyntax;

typedef struct Reasoning {
  const char *mark;  // a text that templates have
  const char *begin, *end;
} Reasoning;

// The family of a template's text; never NULL: an unknown one writes its calls as JSON.
const ToolSyntax *tool_syntax_find(Str source);
const ToolSyntax *tool_syntax_named(Str name);  // NULL: there is none
int64_t tool_syntax_count(void);
const ToolSyntax *tool_syntax_at(int64_t i);
// NULL: the template knows no reasoning.
const Reasoning *reasoning_find(Str source);
const Reasoning *reasoning_of(Str begin);  // by its marker; NULL: there is none
// Whether an answer to this prompt begins within reasoning.
bool reasoning_begun(const Reasoning *r, Str prompt);
// Calls `take` with each marker that answers of these can have.
void tool_markers(const ToolSyntax *s, const Reasoning *r, void (*take)(void *ctx, Str marker),
                  void *ctx);

// ---- parsing ----
typedef struct ToolSink {
  void (*content)(void *ctx, Str text);
  void (*reasoning)(void *ctx, Str text);
  // A call begins; its arguments follow in pieces that together are JSON.  `id` is empty where the
  // model gives none.
  void (*call)(void *ctx, int64_t index, Str name, Str id);
  void (*arguments)(void *ctx, int64_t index, Str piece);
  void *ctx;
} ToolSink;

typedef struct ToolParse {
  const ToolSyntax *syntax;    // NULL: no calls
  const Reasoning *reasoning;  // NULL: none
  bool inside;                 // the answer begins within reasoning
  bool open;                   // the prompt ends with the syntax's call marker
  const Json *tools;           // OpenAI's list, whose schemas say what is text; NULL: none
  int64_t most;                // calls; further ones are dropped.  0: any number
} ToolParse;

typedef struct ToolParser ToolParser;
// In memory of the arena, which grows with the longest part that is held back.
ToolParser *tool_parser_create(Arena *a, const ToolParse *what, const ToolSink *sink);
void tool_parser_take(ToolParser *p, Str text);
void tool_parser_end(ToolParser *p);  // the answer is whole: what is held back is told
int64_t tool_parser_calls(const ToolParser *p);

// ---- values (tool_values.c) ----
// A JSON value that comes in pieces, of which only the end is of interest.
typedef struct ToolScan {
  int depth;
  bool begun, scalar, text, escaped;
} ToolScan;
int64_t tool_scan(ToolScan *v, Str s);  // its end within `s`; -1: it goes on
// Calls and arguments in notations of their own, as JSON.  False: they are none.
bool tool_python_calls(Str text, Arena *a, Str **name, Str **args, int64_t *n);
bool tool_braces(Str text, Arena *a, Str *args);
// Whether an argument of the schema is a text that stands between its markers as it is; else it is
// written as JSON.  Grammars and parsers ask this one.
bool tool_param_is_text(const Json *schema);
// An argument's text as JSON: `schema` (or NULL) says whether it is a text.  `attributes` is what
// stood behind its name.
void tool_param_put(StrBuf *out, Str text, Str attributes, const Json *schema);
// The schema of an argument of a tool; NULL: there is none.
const Json *tool_param_schema(const Json *tools, Str tool, Str name);
const Json *tool_find(const Json *tools, Str name);  // the function's object; NULL

#endif
