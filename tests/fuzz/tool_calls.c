// tool_calls.c -- fuzz target: answers with tool calls.  The first byte chooses the family, the
// second how the answer is cut; behind them is the answer.
//
// Wherever it is cut, the same is told.  What a parser tells is no longer than what JSON makes of
// the answer: nothing is told twice.
#include "text/tool_calls.h"
#include "fuzz.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},"
    "\"m\":{\"type\":[\"string\",\"null\"]}}}}}]";

typedef struct Told {
  StrBuf all;
  char last;
} Told;

// Each kind of text begins with its letter, once.
static void tell(Told *t, char kind, Str s) {
  if (t->last != kind) strbuf_putc(&t->all, kind);
  t->last = kind;
  strbuf_put(&t->all, s);
}
static void on_content(void *ctx, Str s) { tell(ctx, '\1', s); }
static void on_reasoning(void *ctx, Str s) { tell(ctx, '\2', s); }
static void on_call(void *ctx, int64_t index, Str name, Str id) {
  (void)index;
  ((Told *)ctx)->last = 0;
  tell(ctx, '\3', name);
  tell(ctx, '\4', id);
}
static void on_args(void *ctx, int64_t index, Str s) {
  (void)index;
  tell(ctx, '\5', s);
}

static Str parse(Arena *a, const ToolParse *what, Str text, int64_t piece) {
  Told *t = arena_new(a, Told);
  strbuf_init(&t->all, a);
  strbuf_puts(&t->all, "");
  ToolSink sink = {on_content, on_reasoning, on_call, on_args, t};
  ToolParser *p = tool_parser_create(a, what, &sink);
  for (int64_t at = 0; at < text.n; at += piece)
    tool_parser_take(p, (Str){text.p + at, MIN(piece, text.n - at)});
  tool_parser_end(p);
  return strbuf_str(&t->all);
}

static void check(Arena *a, const uint8_t *data, int64_t size, Diag *d) {
  Json tools;
  if (size < 2 || json_parse(a, str_of(tools_text), d, &tools)) return;
  int64_t n = tool_syntax_count();
  ToolParse what = {.syntax = tool_syntax_at(data[0] % n),
                    .reasoning = reasoning_of(STR("<think>")),
                    .inside = data[1] & 1,
                    .tools = data[1] & 2 ? &tools : NULL,
                    .most = data[1] & 4 ? 1 : 0};
  Str text = {(const char *)data + 2, size - 2};
  Str whole = parse(a, &what, text, MAX(text.n, 1));
  if (!str_eq(whole, parse(a, &what, text, 1 + (data[1] >> 3)))) __builtin_trap();
  if (whole.n > 16 * text.n + 64) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  fuzz_begin();
  Arena a;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) check(&a, data, (int64_t)size, &d);
  trap_leave(&t);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
