// tool_syntax.c -- the families of tool calls, and which one a chat template is of (tool_calls.h).
#include "text/tool_calls.h"

#define MARKS(...)                                                                                 \
  { __VA_ARGS__ }
#define SYNTAX(id, kind, ...) {.name = #id, .body = (kind), .mark = __VA_ARGS__},
#define REASONING(...)
// clang-format off
static const ToolSyntax syntax[] = {
#include "text/tool_syntax.def"
};
// clang-format on
#undef SYNTAX
#undef REASONING
#define SYNTAX(...)
#define REASONING(...) {__VA_ARGS__},
static const Reasoning reasoning[] = {
#include "text/tool_syntax.def"
};

int64_t tool_syntax_count(void) { return ARRAY_LEN(syntax); }
const ToolSyntax *tool_syntax_at(int64_t i) { return &syntax[i]; }

static bool holds(Str text, const char *z) {
  int64_t n = (int64_t)strlen(z);
  for (int64_t i = 0; i + n <= text.n; i++)
    if (text.p[i] == z[0] && !memcmp(text.p + i, z, (size_t)n)) return true;
  return false;
}

const ToolSyntax *tool_syntax_find(Str source) {
  for (int64_t i = 0; i + 1 < ARRAY_LEN(syntax); i++) {
    bool all = true;
    for (int k = 0; k < TOOL_MARKS && syntax[i].mark[k] && all; k++)
      all = holds(source, syntax[i].mark[k]);
    if (all) return &syntax[i];
  }
  return &syntax[ARRAY_LEN(syntax) - 1];
}

const ToolSyntax *tool_syntax_named(Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(syntax); i++)
    if (str_is(name, syntax[i].name)) return &syntax[i];
  return NULL;
}

const Reasoning *reasoning_find(Str source) {
  for (int64_t i = 0; i < ARRAY_LEN(reasoning); i++)
    if (holds(source, reasoning[i].mark)) return &reasoning[i];
  return NULL;
}

const Reasoning *reasoning_of(Str begin) {
  for (int64_t i = 0; i < ARRAY_LEN(reasoning); i++)
    if (str_is(begin, reasoning[i].begin)) return &reasoning[i];
  return NULL;
}

static Str trimmed(Str s) {
  while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\n')) s.n--;
  return s;
}

bool reasoning_begun(const Reasoning *r, Str prompt) {
  if (!r) return false;
  Str begin = trimmed(str_of(r->begin));
  prompt = trimmed(prompt);
  return prompt.n >= begin.n && !memcmp(prompt.p + prompt.n - begin.n, begin.p, (size_t)begin.n);
}

void tool_markers(const ToolSyntax *s, const Reasoning *r, void (*take)(void *ctx, Str marker),
                  void *ctx) {
  if (s) {
    const char *all[] = {s->section,  s->section_end,  s->call,
                         s->call_end, s->name_end,     s->head_end,
                         s->arg,      s->arg_name_end, s->arg_head_end,
                         s->arg_end,  s->id_mark,      s->body == TOOL_BRACES ? "<|\"|>" : NULL};
    for (int64_t i = 0; i < ARRAY_LEN(all); i++)
      if (all[i]) take(ctx, str_of(all[i]));
    for (int i = 0; i < TOOL_SKIPS; i++)
      if (s->skip[i]) take(ctx, str_of(s->skip[i]));
  }
  if (r) {
    take(ctx, str_of(r->begin));
    take(ctx, str_of(r->end));
  }
}
