// escape.c -- strings of the model in XML, DOT and script, and how wide they are.
//
// Guarantees: whatever the bytes, the output is well-formed UTF-8 and cannot leave the place it is
//             put in:
// text cannot become markup, a label cannot end its quotes.
#include "view/view.h"

// The next character of s from *i on; bytes that are not UTF-8 give U+FFFD, one for each.
static uint32_t next_char(Str s, int64_t *i) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  uint8_t c = (uint8_t)s.p[(*i)++];
  if (c < 0x80) return c;
  int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
  if (c < 0xc2 || c > 0xf4 || *i + more > s.n) return 0xfffd;
  uint32_t u = c & (0x3fu >> more);
  for (int k = 0; k < more; k++) {
    uint8_t d = (uint8_t)s.p[*i + k];
    if ((d & 0xc0) != 0x80) return 0xfffd;
    u = u << 6 | (d & 0x3f);
  }
  if (u < least[more] || u > 0x10ffff || (u >= 0xd800 && u <= 0xdfff)) return 0xfffd;
  *i += more;
  return u;
}

static void put_char(StrBuf *b, uint32_t u) {
  char c[4];
  int n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
  if (n == 1) c[0] = (char)u;
  for (int k = n - 1; k > 0; k--, u >>= 6) c[k] = (char)(0x80 | (u & 0x3f));
  if (n > 1) c[0] = (char)((0xf00 >> n) | u);
  strbuf_put(b, (Str){c, n});
}

// Characters that text must not hold as they are: controls, the directional overrides that make
// text read otherwise than it is, and what XML has no way to write.
static bool is_unwanted(uint32_t u) {
  return u < 0x20 || (u >= 0x7f && u < 0xa0) || (u >= 0x202a && u <= 0x202e) ||
         (u >= 0x2066 && u <= 0x2069) || (u & 0xfffe) == 0xfffe;
}

void escape_xml(StrBuf *b, Str s) {
  for (int64_t i = 0; i < s.n;) {
    uint32_t u = next_char(s, &i);
    switch (u) {
    case '&': strbuf_puts(b, "&amp;"); break;
    case '<': strbuf_puts(b, "&lt;"); break;
    case '>': strbuf_puts(b, "&gt;"); break;
    case '"': strbuf_puts(b, "&quot;"); break;
    case '\'': strbuf_puts(b, "&#39;"); break;
    default: put_char(b, is_unwanted(u) ? 0xfffd : u);
    }
  }
}

// Graphviz reads character references in labels as HTML does, so & is written as one.
void escape_dot(StrBuf *b, Str s) {
  for (int64_t i = 0; i < s.n;) {
    uint32_t u = next_char(s, &i);
    if (u == '"' || u == '\\') strbuf_putc(b, '\\');
    if (u == '&')
      strbuf_puts(b, "&amp;");
    else
      put_char(b, is_unwanted(u) ? 0xfffd : u);
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
  for (int64_t i = 0; i < t.n;) w += char_width(next_char(t, &i));
  return w * size;
}

static int64_t count_chars(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; n++) next_char(s, &i);
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
    uint32_t u = next_char(t, &i);
    if (k == head) strbuf_puts(&b, "\xe2\x80\xa6");
    if (k < head || k >= n - tail) put_char(&b, u);
  }
  return strbuf_text(&b);
}
