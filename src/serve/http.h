// http.h -- the HTTP/1.1 server of tenon-serve: requests in, replies and streams out.  HTTP/2 is
// grpc/grpc.h.
//
// To add a route: write a handler, a row of a HttpRoute table, and add the table to http_tables in
// routes.c.
//
//   static void hello(HttpExchange *x) {
//     http_reply(x, 200, "text/plain", STR("hello"));
//   }
//   const HttpRoute hello_routes[] = {
//       {HTTP_GET, "/v2/models/{}/hello", hello, .form = HTTP_FORM_KSERVE},
//       {0}};
//
// A `{}` is one segment of the path, decoded, in x->arg[0], x->arg[1] and so on.  A handler answers
// now with http_reply, or later: it keeps `x`, sets x->on_gone, and whoever has the answer calls
// http_reply, or http_begin, http_write and http_end for a stream.  After http_reply and http_end
// `x` is gone.  When the client goes away first, x->on_gone(x) is called, and `x` is gone after it.
// Everything runs on the thread of the loop.
//
// A handler runs within a Trap: memory that runs out becomes an answer of 503.  What it needs until
// the reply comes from x->arena, which ends with `x`.  Strings of the request hold as long as `x`.
//
// Whatever a client sends is strictly RFC 9112; what readers disagree about is refused and the
// connection closed (http_parse.c).  limits.def has every limit.
#ifndef TENON_SERVE_HTTP_H
#define TENON_SERVE_HTTP_H

#include "base/base.h"
#include "serve/limits.h"
#include "serve/event_loop.h"

typedef struct HttpServer HttpServer;
typedef struct HttpExchange HttpExchange;
struct JsonWriter;
struct Serve;  // what the whole program shares (serve.h)

typedef enum {
  HTTP_GET = 1,  // and HEAD, whose body is left out
  HTTP_POST = 2,
  HTTP_DELETE = 4,
  HTTP_PUT = 8,
  HTTP_OPTIONS = 16
} HttpMethod;

// How errors are written: {"error": {"message", "type", "param", "code"}} or {"error": "text"}.
typedef enum { HTTP_FORM_OPENAI, HTTP_FORM_KSERVE } HttpForm;

typedef struct HttpHeader {
  Str name, value;  // the name in lower case
} HttpHeader;

// A request's head, as http_parse.c reads it.
typedef struct HttpHead {
  HttpMethod method;
  bool head;        // HEAD
  Str path, query;  // as sent, from the first `/`; the query without `?`
  int64_t nheaders;
  HttpHeader header[SERVE_HEADERS];
  int64_t length;                     // of the body; 0: none
  bool chunked, keep_alive, expects;  // expects: 100-continue
  int minor;                          // HTTP/1.x
} HttpHead;

enum { HTTP_ARGS = 4 };
struct HttpExchange {
  struct Serve *serve;
  Arena arena;
  HttpMethod method;
  Str path, query;
  Str body;
  Str arg[HTTP_ARGS];  // what stands for each {} of the route
  const HttpHead *head;
  HttpForm form;
  uint64_t id;    // of the request, in logs
  int64_t began;  // platform->now()
  void *user;     // of the handler
  // Whoever answers in the connection's place, as gRPC does, which has none; `type` NULL: the body
  // is why there is no answer.
  void (*answer)(HttpExchange *x, int status, const char *type, Str body);
  void (*on_gone)(HttpExchange *x);
  uint32_t client;  // whose it is: the same number for the same API key
  // More of the log line, called before `x` is gone; NULL: there is none.
  void (*log)(const HttpExchange *x, struct JsonWriter *w);
  struct HttpConn *conn;
};

typedef struct HttpRoute {
  int methods;  // HttpMethod, or-ed
  const char *path;
  void (*handle)(HttpExchange *x);
  HttpForm form;
  bool open;  // needs no API key
} HttpRoute;

// The value of a header, by its name in lower case; p NULL: not there.
Str http_header_of(const HttpExchange *x, const char *name);
// The value of `name` in the query, decoded in x->arena; p NULL: not there, or badly encoded.
Str http_query_of(HttpExchange *x, const char *name);
// %XX decoded; p NULL: badly encoded, or a NUL.
Str http_decode(Arena *a, Str text, bool plus_is_space);

// ---- answering ----
void http_header(HttpExchange *x, const char *name, const char *value);  // of the reply to come
void http_reply(HttpExchange *x, int status, const char *type, Str body);
// The error in the form of the route.  `type`, `param` and `code` are OpenAI's, and may be NULL.
void http_fail(HttpExchange *x, int status, const char *fmt, ...) PRINTF(3, 4);
void http_fail_as(HttpExchange *x, int status, const char *param, const char *code,
                  const char *message);
// {"error": ...} in that form, for streams.
Str http_error_json(Arena *a, HttpForm form, int status, const char *param, const char *code,
                    const char *message);
void http_begin(HttpExchange *x, int status, const char *type);  // a stream of unknown length
void http_write(HttpExchange *x, Str bytes);  // empty ones are left out.  May call on_gone
void http_end(HttpExchange *x);
bool http_begun(const HttpExchange *x);
int64_t http_pending(const HttpExchange *x);  // bytes that the client has not taken
const char *http_reason(int status);

// ---- parsing (http_parse.c), without a connection ----
// Where the head ends behind p[0..n), or 0: not yet, or -status where it is wrong or too long.
// `seen` is what was looked at before; http_head_end moves it.
int64_t http_head_end(const char *p, int64_t n, int64_t *seen);
// Reads a whole head, names made lower case in place: 0, or a status with the reason.
int http_parse_head(char *p, int64_t n, HttpHead *out, const char **why);
// The body within chunks: the state between calls.
typedef struct HttpChunks {
  int state;
  int64_t left, line, trailer;
  int digits;
} HttpChunks;
// Reads from p[0..n), writes what is body to the front of it.  *used is how much was read, *got how
// much of it is body.  0: goes on, 1: the body is whole, else a status with the reason.
int http_chunks(HttpChunks *c, char *p, int64_t n, int64_t *used, int64_t *got, const char **why);

// ---- the server (http_conn.c) ----
typedef struct HttpOptions {
  int64_t max_body, connections;
  int64_t head_seconds, idle_seconds, body_seconds, write_seconds;
  const struct Keys *keys;   // NULL: any key, or none
  const char *allow_origin;  // of pages elsewhere; NULL: none
} HttpOptions;
// Takes over a listening socket.  Routes are those of http_tables.  0 or an errno value.
int http_open(EventLoop *l, int fd, const HttpOptions *o, struct Serve *serve, HttpServer **out);
void http_stop_listening(HttpServer *s);
// HTTP/2: `take` gets connections that begin as HTTP/2 does, with the bytes that came, and all of a
// second listening socket (-1: there is none).  It calls http_h2_closed when it has closed one.
// False: it did not take it.  0 or an errno value.
int http_open_h2(HttpServer *s, int fd, bool (*take)(void *arg, int fd, Str first), void *arg);
void http_h2_closed(HttpServer *s);
// Bytes of bodies beside those of http_conn.c, for the limit of all.  False: there is no room.
bool http_take_body(HttpServer *s, int64_t n);
void http_give_body(HttpServer *s, int64_t n);
// Shutting down: no connection is accepted, those without a request are closed, and the others once
// what they sent is answered and taken.
void http_drain(HttpServer *s);
bool http_drained(const HttpServer *s);    // no connection is left
int64_t http_active(const HttpServer *s);  // exchanges that are not answered
int64_t http_connections(const HttpServer *s);
uint64_t http_requests(const HttpServer *s);  // since the start
void http_close(HttpServer *s);

// ---- routes (routes.c) ----
extern const HttpRoute *const http_tables[];  // ended by NULL
// The route of a request, x->arg filled in.  NULL: none; *out_methods are those of the path.
const HttpRoute *http_route(HttpExchange *x, Str path, HttpMethod method, int *out_methods);

#endif
