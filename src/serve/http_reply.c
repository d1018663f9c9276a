// http_reply.c -- answers: heads, bodies, streams, and errors in two forms.
#include "base/json.h"
#include "base/platform.h"
#include "serve/http_conn.h"

#include <stdio.h>
#include <time.h>

const char *http_reason(int status) {
  static const struct {
    int status;
    const char *text;
  } row[] = {{200, "OK"},
             {204, "No Content"},
             {400, "Bad Request"},
             {401, "Unauthorized"},
             {403, "Forbidden"},
             {404, "Not Found"},
             {405, "Method Not Allowed"},
             {408, "Request Timeout"},
             {409, "Conflict"},
             {413, "Content Too Large"},
             {414, "URI Too Long"},
             {415, "Unsupported Media Type"},
             {417, "Expectation Failed"},
             {422, "Unprocessable Content"},
             {429, "Too Many Requests"},
             {431, "Request Header Fields Too Large"},
             {499, "Client Closed Request"},
             {500, "Internal Server Error"},
             {501, "Not Implemented"},
             {503, "Service Unavailable"},
             {505, "HTTP Version Not Supported"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (row[i].status == status) return row[i].text;
  return "Error";
}

// ---- buffers ----
bool http_buf_room(HttpBuf *b, int64_t n) {
  if (b->at == b->n) b->at = b->n = 0;
  if (b->n + n <= b->cap) return true;
  int64_t full = b->n - b->at, want;
  if (!ck_add(full, n, &want)) return false;
  if (want <= b->cap && b->at >= b->cap / 2) {
    memmove(b->p, b->p + b->at, (size_t)full);
    b->at = 0;
    b->n = full;
    return true;
  }
  int64_t cap = MAX(want, MIN(2 * want, want + (4 << 20)));
  char *p = mem_alloc(cap);
  if (!p) return false;
  if (full) memcpy(p, b->p + b->at, (size_t)full);
  mem_free(b->p, b->cap);
  *b = (HttpBuf){.p = p, .n = full, .cap = cap};
  return true;
}

bool http_buf_put(HttpBuf *b, const void *p, int64_t n) {
  if (!n) return true;
  if (!http_buf_room(b, n)) return false;
  memcpy(b->p + b->n, p, (size_t)n);
  b->n += n;
  return true;
}

void http_buf_free(HttpBuf *b) {
  mem_free(b->p, b->cap);
  *b = (HttpBuf){0};
}

// ---- heads ----
void http_header(HttpExchange *x, const char *name, const char *value) {
  HttpConn *c = x->conn;
  if (!c) return;
  c->more = str_printf(&x->arena, "%s%s: %s\r\n", c->more ? c->more : "", name, value);
}

static const char *date_text(HttpServer *s) {
  time_t now = (time_t)platform->file_time();
  struct tm t;
  if (s->date[0] && now == s->date_of) return s->date;
  s->date_of = now;
  if (!gmtime_r(&now, &t) || !strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &t))
    s->date[0] = 0;
  return s->date;
}

// False: the connection is lost.
static bool put_head(HttpExchange *x, int status, const char *type, int64_t length) {
  HttpConn *c = x->conn;
  char text[512], size[48] = "";
  bool chunked = length < 0 && x->head && x->head->minor;
  if (c->server->draining && !conn_sends_more(c)) c->keep = false;
  if (length < 0 && !chunked) c->keep = false;
  if (length >= 0) snprintf(size, sizeof size, "Content-Length: %lld\r\n", (long long)length);
  int n =
      snprintf(text, sizeof text,
               "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %.100s\r\n%sX-Request-Id: %016llx\r\n"
               "%s",
               status, http_reason(status), date_text(c->server), type,
               chunked ? "Transfer-Encoding: chunked\r\n" : size, (unsigned long long)x->id,
               c->keep ? "" : "Connection: close\r\n");
  c->status = status;
  c->sent = 0;
  return http_buf_put(&c->out, text, MIN(n, (int)sizeof text - 1)) &&
         (!c->more || http_buf_put(&c->out, c->more, (int64_t)strlen(c->more))) &&
         http_buf_put(&c->out, "\r\n", 2);
}

// ---- replies ----
void http_reply(HttpExchange *x, int status, const char *type, Str body) {
  HttpConn *c = x->conn;
  if (x->answer) {
    x->answer(x, status, type, body);
    return;
  }
  bool bare = x->head && x->head->head;
  bool ok = put_head(x, status, type, body.n) && (bare || http_buf_put(&c->out, body.p, body.n));
  c->sent = body.n;
  exchange_log(x, status, body.n);
  if (!ok) c->dead = true;
  conn_finished(c);
}

Str http_error_json(Arena *a, HttpForm form, int status, const char *param, const char *code,
                    const char *message) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, a);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "error");
  if (form == HTTP_FORM_KSERVE) {
    json_cstr(&w, message);
  } else {
    json_begin_object(&w);
    json_key(&w, "message");
    json_cstr(&w, message);
    json_key(&w, "type");
    json_cstr(&w, status == 401   ? "authentication_error"
                  : status == 403 ? "permission_error"
                  : status == 404 ? "not_found_error"
                  : status == 429 ? "rate_limit_error"
                  : status == 503 ? "service_unavailable_error"
                  : status >= 500 ? "server_error"
                                  : "invalid_request_error");
    json_key(&w, "param");
    json_cstr(&w, param);
    json_key(&w, "code");
    json_cstr(&w, code);
    json_end_object(&w);
  }
  json_end_object(&w);
  return strbuf_str(&b);
}

void http_fail_as(HttpExchange *x, int status, const char *param, const char *code,
                  const char *message) {
  if (x->answer) {
    x->answer(x, status, NULL, str_of(message));
    return;
  }
  if (status == 429 || status == 503) http_header(x, "Retry-After", "1");
  if (status == 401) http_header(x, "WWW-Authenticate", "Bearer");
  http_reply(x, status, "application/json",
             http_error_json(&x->arena, x->form, status, param, code, message));
}

void http_fail(HttpExchange *x, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(&x->arena, fmt, ap);
  va_end(ap);
  http_fail_as(x, status, NULL, NULL, text);
}

// ---- streams ----
void http_begin(HttpExchange *x, int status, const char *type) {
  HttpConn *c = x->conn;
  c->stream = true;
  if (!put_head(x, status, type, -1)) c->dead = true;
  conn_flush(c);
}

bool http_begun(const HttpExchange *x) { return x->conn->stream; }
int64_t http_pending(const HttpExchange *x) { return http_buf_full(&x->conn->out); }

void http_write(HttpExchange *x, Str bytes) {
  HttpConn *c = x->conn;
  if (!bytes.n || x->head->head) return;
  char size[24];
  int n = snprintf(size, sizeof size, "%llx\r\n", (unsigned long long)bytes.n);
  bool chunked = x->head->minor > 0;
  if ((chunked && !http_buf_put(&c->out, size, n)) || !http_buf_put(&c->out, bytes.p, bytes.n) ||
      (chunked && !http_buf_put(&c->out, "\r\n", 2)))
    c->dead = true;
  c->sent += bytes.n;
  conn_flush(c);
}

void http_end(HttpExchange *x) {
  HttpConn *c = x->conn;
  if (x->head->minor && !x->head->head && !http_buf_put(&c->out, "0\r\n\r\n", 5)) c->dead = true;
  exchange_log(x, c->status, c->sent);
  conn_finished(c);
}
