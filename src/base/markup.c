// markup.c -- characters of untrusted strings, and such strings within markup (markup.h).
#include "base/markup.h"

// The next character of s from *i on; bytes that are not UTF-8 give U+FFFD, one for each.
uint32_t markup_next(Str s, int64_t *i) {
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

void markup_put(StrBuf *b, uint32_t u) {
  char c[4];
  int n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
  if (n == 1) c[0] = (char)u;
  for (int k = n - 1; k > 0; k--, u >>= 6) c[k] = (char)(0x80 | (u & 0x3f));
  if (n > 1) c[0] = (char)((0xf00 >> n) | u);
  strbuf_put(b, (Str){c, n});
}

// Characters that text must not hold as they are: controls, the directional overrides that make
// text read otherwise than it is, and what XML has no way to write.
bool markup_unwanted(uint32_t u) {
  return u < 0x20 || (u >= 0x7f && u < 0xa0) || (u >= 0x202a && u <= 0x202e) ||
         (u >= 0x2066 && u <= 0x2069) || (u & 0xfffe) == 0xfffe;
}

void escape_xml(StrBuf *b, Str s) {
  for (int64_t i = 0; i < s.n;) {
    uint32_t u = markup_next(s, &i);
    switch (u) {
    case '&': strbuf_puts(b, "&amp;"); break;
    case '<': strbuf_puts(b, "&lt;"); break;
    case '>': strbuf_puts(b, "&gt;"); break;
    case '"': strbuf_puts(b, "&quot;"); break;
    case '\'': strbuf_puts(b, "&#39;"); break;
    default: markup_put(b, markup_unwanted(u) ? 0xfffd : u);
    }
  }
}
