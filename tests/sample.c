// sample.c -- an op's sample as the text of a graph (sample.h).
#include "sample.h"

#include <stdlib.h>

static const char *skip(const char *p) {
  while (*p == ' ') p++;
  return p;
}

// End of an operand: the next comma or parenthesis outside brackets.
static const char *operand_end(const char *p) {
  int depth = 0;
  for (; *p; p++) {
    if (*p == '"')
      for (p++; *p && *p != '"'; p++) p += *p == '\\';
    if (depth == 0 && (*p == ',' || *p == ')')) return p;
    depth += *p == '[' || *p == '{' || *p == '(';
    depth -= *p == ']' || *p == '}' || *p == ')';
  }
  return p;
}

const char *sample_graph(Arena *a, const Sample *s) {
  StrBuf params, consts, args, out;
  strbuf_init(&params, a);
  strbuf_init(&consts, a);
  strbuf_init(&args, a);
  strbuf_init(&out, a);
  const char *p = skip(s->text);
  if (*p != '(') return NULL;
  int nparams = 0, nconsts = 0;
  for (p = skip(p + 1); *p != ')'; p = skip(*p == ',' ? p + 1 : p)) {
    const char *end = operand_end(p);
    Str t = {p, end - p};
    const char *comma = args.n ? ", " : "";
    if (str_is(t, "_")) {
      strbuf_printf(&args, "%s_", comma);
    } else if (memchr(t.p, '{', (size_t)t.n)) {
      const char *brace = memchr(t.p, '{', (size_t)t.n);
      strbuf_printf(&consts, "  %%c%d = const %.*s %.*s\n", nconsts, (int)(brace - t.p), t.p,
                    (int)(end - brace), brace);
      strbuf_printf(&args, "%s%%c%d", comma, nconsts++);
    } else {
      strbuf_printf(&params, "%s%%p%d: %.*s", nparams ? ", " : "", nparams, (int)t.n, t.p);
      strbuf_printf(&args, "%s%%p%d", comma, nparams++);
    }
    p = end;
    if (!*p) return NULL;
  }
  const char *attrs = skip(p + 1),
             *arrow = strncmp(attrs, "-> ", 3) ? strstr(attrs, " -> ") : attrs;
  int nres = arrow ? atoi(strchr(arrow, '>') + 1) : MAX(s->op->nres, 1);
  int nattrs = arrow ? (int)(arrow - attrs) : (int)strlen(attrs);
  strbuf_printf(&out, "graph @\"sample\"(%s) {\n%s  %%r", strbuf_text(&params),
                strbuf_text(&consts));
  if (nres > 1) strbuf_printf(&out, ":%d", nres);
  strbuf_printf(&out, " = %s(%s) %.*s\n  return ", s->op->name, strbuf_text(&args), nattrs, attrs);
  for (int i = 0; i < nres; i++)
    strbuf_printf(&out, nres > 1 ? "%s%%r.%d" : "%s%%r", i ? ", " : "", i);
  strbuf_puts(&out, "\n}\n");
  return strbuf_text(&out);
}
