// template.h -- chat templates: the Jinja that Hugging Face transformers allows, byte for byte.
//
// A template turns a list of messages into the text that a language model reads.  It comes with the
// model, so it is not trusted: it reaches nothing but the values it is given, and every rendering
// has limits on steps, output, memory and nesting (base/limits.def).
//
// The judge is Python's jinja2 with the settings of transformers: ImmutableSandboxedEnvironment,
// trim_blocks, lstrip_blocks, loop controls, `generation` blocks, `tojson` without HTML escapes,
// `raise_exception` and `strftime_now`.  docs/reference/chat-templates.md lists what is supported.
#ifndef TENON_TEXT_TEMPLATE_H
#define TENON_TEXT_TEMPLATE_H

#include "base/base.h"
#include "base/json.h"

typedef struct ChatTemplate ChatTemplate;

// Parses `source`; `name` is for messages.  The template lives as long as the arena and may be
// rendered by several threads at once.  TENON_EFORMAT: not a template.  TENON_EUNSUPPORTED: one
// that uses what is refused; the message names it.  TENON_ENOMEM: beyond a limit.
MUST_USE tenon_status template_parse(Arena *a, Str source, const char *name, Diag *d,
                                     ChatTemplate **out);

// Limits of one rendering; 0 is the default of limits.def.
typedef struct TemplateLimits {
  int64_t steps, output_bytes, memory_bytes;
} TemplateLimits;

typedef struct TemplateInput {
  const Json *messages;  // NULL: not defined
  const Json *tools;     // NULL: none
  const Json *extra;     // an object of further variables, which replace those above; NULL: none
  int64_t now;           // local time for strftime_now: seconds since 1970 as if it were UTC
  TemplateLimits limits;
} TemplateInput;

typedef enum {
  TEMPLATE_DONE,
  TEMPLATE_BROKEN,   // an error in the template, or values that it does not expect
  TEMPLATE_REFUSED,  // it called raise_exception: it refuses these messages
  TEMPLATE_LIMIT     // beyond a limit
} TemplateEnd;
typedef struct TemplateResult {
  TemplateEnd end;
  Str text;     // TEMPLATE_DONE
  Str message;  // else: what is wrong, or the argument of raise_exception
  int line;     // of the template
} TemplateResult;

// Renders into memory of the arena, which must not be shared between threads.  Any end but
// TEMPLATE_DONE is a status too: TENON_EINVAL, TENON_EUNSUPPORTED or TENON_ENOMEM.
MUST_USE tenon_status template_render(const ChatTemplate *t, const TemplateInput *in, Arena *a,
                                      Diag *d, TemplateResult *out);

#endif
