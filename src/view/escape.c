// escape.c -- strings of the model in DOT and script, and how wide they are (XML: base/markup.c).
//
// Guarantees: whatever the bytes, the output is well-formed UTF-8 and cannot leave the place it is
//             put in:
// text cannot become markup, a label cannot end its quotes.
#include "view/view.h"

// Graphviz reads character references in labels as HTML does, so & is written as one.
void escape_dot(StrBuf *b, Str s) {
  for (int64_t i = 0; i < s.n;) {
    uint32_t u = markup_next(s, &i);
    if (u == '"' || u == '\\') strbuf_putc(b, '\\');
    if (u == '&')
      strbuf_puts(b, "&amp;");
    else
      markup_put(b, markup_unwanted(u) ? 0xfffd : u);
  }
}

// In JSON these characters occur in strings alone.
void escape_script(StrBuf *b, Str json) {
  int64_t from = 0;
  for (int64_t i = 0; i < json.n; i++) {
    char c = json.p[i];
    if (c != '<' && c != '>' && c != '&') continue;
    strbuf_put(b, (Str){json.p + from, i - from});
    strbuf_printf(b, "\\u%04x", (unsigned)c);
    from = i + 1;
  }
  strbuf_put(b, (Str){json.p + from, json.n - from});
}

static double char_width(uint32_t u) {
  if (u >= 0x1100) return u < 0x2000 || (u >= 0x2e80 && u < 0xfe00) || u > 0xffff ? 1.0 : 0.65;
  if (u >= 0x80) return 0.62;
  if (strchr("ijl.,:;|!'`[]() ftr", (int)u)) return 0.38;
  if (strchr("mwMW@%", (int)u)) return 0.88;
  return u >= 'A' && u <= 'Z' ? 0.7 : 0.62;
}

double view_text_width(const char *s, double size) {
  Str t = str_of(s);
  double w = 0;
  for (int64_t i = 0; i < t.n;) w += char_width(markup_next(t, &i));
  return w * size;
}

static int64_t count_chars(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; n++) markup_next(s, &i);
  return n;
}

const char *view_text_cut(const char *s, int64_t most, Arena *a) {
  Str t = str_of(s);
  int64_t n = count_chars(t);
  if (n <= most) return s;
  // The end of a long name tells more than its beginning.
  int64_t head = (most - 1) / 3, tail = most - 1 - head, k = 0;
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < t.n; k++) {
    uint32_t u = markup_next(t, &i);
    if (k == head) strbuf_puts(&b, "\xe2\x80\xa6");
    if (k < head || k >= n - tail) markup_put(&b, u);
  }
  return strbuf_text(&b);
}
