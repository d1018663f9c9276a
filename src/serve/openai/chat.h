// chat.h -- conversations of a request as the engine's chat template reads them.
#ifndef TENON_SERVE_OPENAI_CHAT_H
#define TENON_SERVE_OPENAI_CHAT_H

#include "serve/openai/answers.h"

// The conversation in `messages` (and `chat_template_kwargs`), as members of an ask without the
// brace in front.  Roles and contents are checked; parts of text become one text, and arguments of
// tool calls objects, which is what templates expect.
Str chat_member(Fields *f);
Str chat_member_of(Fields *f, const Json *messages, const Json *extra);  // extra NULL: none
void chat_refuse_part(Fields *f, const char *param, Str type);

#endif
