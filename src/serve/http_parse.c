// http_parse.c -- HTTP/1.1 messages from bytes (RFC 9112), strictly.
//
// A server behind a proxy must not read a message otherwise than the proxy did.  So whatever
// readers disagree about is refused: bare line feeds, folded lines, a space before a colon, two
// lengths, a length beside chunks, codings besides `chunked`, hosts that are missing or doubled.
#include "serve/http.h"

static bool is_token(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c && strchr("!#$%&'*+-.^_`|~", c));
}
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static bool same_word(Str a, const char *word) {
  if (a.n != (int64_t)strlen(word)) return false;
  for (int64_t i = 0; i < a.n; i++)
    if (lower(a.p[i]) != word[i]) return false;
  return true;
}

// ---- where a head ends ----
int64_t http_head_end(const char *p, int64_t n, int64_t *seen) {
  for (int64_t i = *seen; i < n; i++) {
    if (p[i] != '\n') continue;
    if (!i || p[i - 1] != '\r') return -400;  // a bare line feed
    if (i >= 3 && p[i - 2] == '\n') return i + 1;
    if (i == 1) return -400;  // an empty line where a request should begin
  }
  *seen = n;
  if (n > SERVE_HEAD_BYTES) return memchr(p, '\n', (size_t)n) ? -431 : -414;
  // What cannot become a request line is told before its end: TLS, HTTP/2, noise.
  for (int64_t i = 0; i < MIN(n, SERVE_METHOD_BYTES) && p[i] != ' '; i++)
    if (!is_token((unsigned char)p[i]) && p[i] != '\r') return -400;
  return 0;
}

// ---- the request line ----
static int method_of(Str word, HttpHead *h) {
  static const struct {
    const char *name;
    HttpMethod method;
  } row[] = {{"GET", HTTP_GET},       {"HEAD", HTTP_GET}, {"POST", HTTP_POST},
             {"DELETE", HTTP_DELETE}, {"PUT", HTTP_PUT},  {"OPTIONS", HTTP_OPTIONS}};
  if (!word.n || word.n > SERVE_METHOD_BYTES) return 400;
  for (int64_t i = 0; i < word.n; i++)
    if (!is_token((unsigned char)word.p[i])) return 400;
  h->head = str_is(word, "HEAD");
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (str_is(word, row[i].name)) {
      h->method = row[i].method;
      return 0;
    }
  return 501;
}

static int version_of(Str word, HttpHead *h) {
  if (word.n != 8 || memcmp(word.p, "HTTP/", 5) || word.p[6] != '.') return 400;
  if (word.p[5] < '0' || word.p[5] > '9' || word.p[7] < '0' || word.p[7] > '9') return 400;
  if (word.p[5] != '1' || word.p[7] > '1') return 505;
  h->minor = word.p[7] - '0';
  return 0;
}

static int target_of(Str t, HttpHead *h, const char **why) {
  if (t.n > SERVE_TARGET_BYTES) return 414;
  for (int64_t i = 0; i < t.n; i++)
    if ((unsigned char)t.p[i] <= ' ' || (unsigned char)t.p[i] >= 0x7f || t.p[i] == '#') {
      *why = "the path has a character that must be encoded";
      return 400;
    }
  if (str_is(t, "*") && h->method == HTTP_OPTIONS) {
    h->path = t;
    return 0;
  }
  if (t.n > 7 && same_word((Str){t.p, 7}, "http://")) {
    const char *slash = memchr(t.p + 7, '/', (size_t)(t.n - 7));
    if (!slash || slash == t.p + 7) return 400;
    t = (Str){slash, t.p + t.n - slash};
  }
  if (!t.n || t.p[0] != '/') return 400;
  const char *mark = memchr(t.p, '?', (size_t)t.n);
  h->path = (Str){t.p, mark ? mark - t.p : t.n};
  if (mark) h->query = (Str){mark + 1, t.p + t.n - mark - 1};
  return 0;
}

static int request_line(Str line, HttpHead *h, const char **why) {
  const char *end = line.p + line.n;
  const char *a = memchr(line.p, ' ', (size_t)line.n);
  const char *b = a ? memchr(a + 1, ' ', (size_t)(end - a - 1)) : NULL;
  *why = "the request line is not `METHOD path HTTP/1.1`";
  if (!a || !b) return 400;
  int status = version_of((Str){b + 1, end - b - 1}, h);
  if (status) {
    if (status == 505) *why = "only HTTP/1.0 and HTTP/1.1 are served";
    return status;
  }
  status = method_of((Str){line.p, a - line.p}, h);
  if (status) {
    *why = "the method is not known";
    return status;
  }
  *why = "the path is malformed, or too long";
  return target_of((Str){a + 1, b - a - 1}, h, why);
}

// ---- headers ----
static int header_line(char *p, int64_t n, HttpHead *h, const char **why) {
  char *colon = memchr(p, ':', (size_t)n);
  *why = "a header is not `Name: value`";
  if (!colon || colon == p) return 400;
  for (char *c = p; c < colon; c++) {
    if (!is_token((unsigned char)*c)) return 400;
    *c = lower(*c);
  }
  const char *v = colon + 1, *end = p + n;
  while (v < end && (*v == ' ' || *v == '\t')) v++;
  while (end > v && (end[-1] == ' ' || end[-1] == '\t')) end--;
  for (const char *c = v; c < end; c++)
    if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
      *why = "a header holds a control character";
      return 400;
    }
  if (h->nheaders == SERVE_HEADERS) {
    *why = "too many headers";
    return 431;
  }
  h->header[h->nheaders++] = (HttpHeader){{p, colon - p}, {v, end - v}};
  return 0;
}

// What a comma-separated value holds, such as `close` in Connection.
static bool has_word(Str value, const char *word) {
  for (int64_t i = 0; i < value.n;) {
    int64_t end = i;
    while (end < value.n && value.p[end] != ',') end++;
    int64_t a = i, b = end;
    while (a < b && (value.p[a] == ' ' || value.p[a] == '\t')) a++;
    while (b > a && (value.p[b - 1] == ' ' || value.p[b - 1] == '\t')) b--;
    if (same_word((Str){value.p + a, b - a}, word)) return true;
    i = end + 1;
  }
  return false;
}

static bool is_host(Str v) {
  for (int64_t i = 0; i < v.n; i++) {
    char c = lower(v.p[i]);
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(".-_:[]%~", c))) return false;
  }
  return true;
}

static int length_of(Str v, HttpHead *h, const char **why) {
  *why = "Content-Length is not a number";
  if (!v.n) return 400;
  for (int64_t i = 0; i < v.n; i++)
    if (v.p[i] < '0' || v.p[i] > '9') return 400;
  if (!str_to_i64(v, &h->length)) {
    *why = "Content-Length is too large";
    return 413;
  }
  return 0;
}

typedef struct Seen {
  int host, length, coding;
} Seen;

static int one_header(const HttpHeader *f, HttpHead *h, Seen *seen, const char **why) {
  if (str_is(f->name, "host")) {
    *why = "Host is malformed, or given twice";
    return seen->host++ || !is_host(f->value) ? 400 : 0;
  }
  if (str_is(f->name, "content-length")) {
    *why = "Content-Length is given twice";
    return seen->length++ ? 400 : length_of(f->value, h, why);
  }
  if (str_is(f->name, "transfer-encoding")) {
    *why = "Transfer-Encoding is given twice";
    if (seen->coding++) return 400;
    *why = "only the transfer coding `chunked` is known";
    h->chunked = same_word(f->value, "chunked");
    return h->chunked ? 0 : has_word(f->value, "chunked") ? 400 : 501;
  }
  if (str_is(f->name, "connection")) {
    if (has_word(f->value, "close")) h->keep_alive = false;
    if (!h->minor && has_word(f->value, "keep-alive")) h->keep_alive = true;
  }
  if (str_is(f->name, "expect")) {
    *why = "only the expectation `100-continue` is known";
    h->expects = same_word(f->value, "100-continue");
    return h->expects ? 0 : 417;
  }
  *why = "the body is encoded; send it as it is";
  return str_is(f->name, "content-encoding") && !same_word(f->value, "identity") ? 415 : 0;
}

static int meaning(HttpHead *h, const char **why) {
  Seen seen = {0};
  h->keep_alive = h->minor > 0;
  for (int64_t i = 0; i < h->nheaders; i++) {
    int status = one_header(&h->header[i], h, &seen, why);
    if (status) return status;
  }
  if (h->minor && !seen.host) {
    *why = "the header Host is missing";
    return 400;
  }
  if (seen.coding && (seen.length || !h->minor)) {
    *why = seen.length ? "Content-Length stands beside Transfer-Encoding"
                       : "HTTP/1.0 has no Transfer-Encoding";
    return 400;
  }
  return 0;
}

int http_parse_head(char *p, int64_t n, HttpHead *h, const char **why) {
  char *end = p + n - 2;  // without the empty line
  char *line = p;
  *h = (HttpHead){0};
  for (bool first = true; line < end; first = false) {
    char *stop = memchr(line, '\r', (size_t)(end - line));
    *why = "a line holds a carriage return";
    if (!stop || stop[1] != '\n') return 400;
    int status = first ? request_line((Str){line, stop - line}, h, why)
                       : header_line(line, stop - line, h, why);
    if (status) return status;
    line = stop + 2;
  }
  return meaning(h, why);
}

// ---- chunks ----
enum { SIZE, EXTENSION, SIZE_END, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF, FINISHED };

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// A character of the line with a chunk's size.
static int size_char(HttpChunks *c, char ch) {
  if (++c->line > SERVE_CHUNK_LINE) return 400;
  if (c->state == SIZE_END) {
    if (ch != '\n') return 400;
    c->state = c->left ? DATA : TRAILER;
    c->line = c->trailer = 0;
    return 0;
  }
  int digit = c->state == SIZE ? hex_digit(ch) : -1;
  if (digit >= 0) {
    if (++c->digits > 15) return 413;
    c->left = c->left * 16 + digit;
  } else if (!c->digits) {
    return 400;
  } else if (ch == '\r') {
    c->state = SIZE_END;
  } else if (c->state == SIZE && ch != ';') {
    return 400;
  } else if ((unsigned char)ch < ' ' && ch != '\t') {
    return 400;
  } else {
    c->state = EXTENSION;
  }
  return 0;
}

// A character behind the last chunk: trailers are checked for their form and dropped.
static int trailer_char(HttpChunks *c, char ch) {
  if (++c->trailer > SERVE_TRAILER_BYTES) return 431;
  if (c->state == TRAILER_LF) {
    if (ch != '\n') return 400;
    c->state = c->line ? TRAILER : FINISHED;
    c->line = 0;
  } else if (ch == '\r') {
    c->state = TRAILER_LF;
  } else if ((unsigned char)ch < ' ' && ch != '\t') {
    return 400;
  } else if (!c->line && (ch == ' ' || ch == '\t')) {
    return 400;  // a folded line
  } else {
    c->line++;
  }
  return 0;
}

int http_chunks(HttpChunks *c, char *p, int64_t n, int64_t *used, int64_t *got, const char **why) {
  int64_t i = 0, out = 0;
  int status = 0;
  *why = "a chunk is malformed";
  while (i < n && !status && c->state != FINISHED) {
    if (c->state == DATA) {
      int64_t take = MIN(c->left, n - i);
      memmove(p + out, p + i, (size_t)take);
      out += take;
      i += take;
      c->left -= take;
      if (!c->left) c->state = DATA_CR;
      continue;
    }
    char ch = p[i++];
    if (c->state <= SIZE_END) {
      status = size_char(c, ch);
    } else if (c->state >= TRAILER) {
      status = trailer_char(c, ch);
    } else if (c->state == DATA_CR) {
      if (ch != '\r') status = 400;
      c->state = DATA_LF;
    } else {
      if (ch != '\n') status = 400;
      c->state = SIZE;
      c->digits = 0;
    }
  }
  *used = i;
  *got = out;
  return status ? status : c->state == FINISHED;
}

// ---- encoded text ----
Str http_decode(Arena *a, Str text, bool plus_is_space) {
  char *out = arena_alloc(a, text.n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < text.n; i++) {
    char c = text.p[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      bool whole = i + 2 < text.n;
      int high = whole ? hex_digit(text.p[i + 1]) : -1, low = whole ? hex_digit(text.p[i + 2]) : -1;
      if (high < 0 || low < 0) return (Str){0};
      c = (char)(high * 16 + low);
      i += 2;
      if (!c) return (Str){0};
    }
    out[n++] = c;
  }
  return (Str){out, n};
}
