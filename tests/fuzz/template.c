// template.c -- fuzz target: chat templates.  An input is a template, and behind a NUL the JSON of
// its variables.
#include "text/template.h"
#include "fuzz.h"

static const char some[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi <b>\"}, {\"role\": \"tool\", \"n\": "
    "2.5}],"
    " \"s\": \"a \\u00e9\", \"n\": 3, \"l\": [1, \"x\", null], \"d\": {\"a\": 1, \"b\": [true]}}";

static void render(Arena *a, Str source, Str vars, Diag *d) {
  ChatTemplate *t;
  Json extra;
  TemplateResult first, second;
  TemplateInput in = {
      .limits = {.steps = 300000, .output_bytes = 1 << 20, .memory_bytes = 32 << 20}};
  if (template_parse(a, source, NULL, d, &t)) return;
  if (json_parse(a, vars, d, &extra) || extra.kind != JSON_OBJECT) return;
  in.extra = &extra;
  // Rendering changes nothing in the template: the second time gives the same.
  tenon_status s = template_render(t, &in, a, d, &first);
  if (template_render(t, &in, a, d, &second) != s || first.end != second.end) __builtin_trap();
  if (!str_eq(first.text, second.text) || !str_eq(first.message, second.message)) __builtin_trap();
  if (s == TENON_EINTERNAL) __builtin_trap();
  if (first.end == TEMPLATE_DONE && !str_is_utf8(first.text)) __builtin_trap();
}

static void read_template(Str text, Arena *a, Diag *d) {
  Str vars = str_of(some);
  const char *nul = text.n ? memchr(text.p, 0, (size_t)text.n) : NULL;
  if (nul) {
    vars = (Str){nul + 1, text.p + text.n - nul - 1};
    text.n = nul - text.p;
  }
  render(a, text, vars, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_template);
}
