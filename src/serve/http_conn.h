// http_conn.h -- a connection, between http_conn.c and http_reply.c.
#ifndef TENON_SERVE_HTTP_CONN_H
#define TENON_SERVE_HTTP_CONN_H

#include "serve/http.h"

typedef enum {
  CONN_HEAD,    // waits for a request
  CONN_BODY,    // reads its body
  CONN_ACTIVE,  // a handler has it
  CONN_FLUSH,   // the rest of an answer goes out, then it closes
  CONN_LINGER   // closed for writing; what the client still sends is thrown away
} ConnState;

typedef struct HttpBuf {
  char *p;
  int64_t at, n, cap;  // p[at..n) is full
} HttpBuf;

typedef struct HttpConn HttpConn;
struct HttpConn {
  HttpServer *server;
  HttpConn *prev, *next;
  EventWatch watch;
  ConnState state;
  HttpBuf in, out, body;
  int64_t seen;      // of `in`, for the end of a head
  int64_t deadline;  // of platform->now(); 0: none
  HttpExchange *x;
  void (*handle)(HttpExchange *x);  // of the route
  HttpChunks chunks;
  int64_t budgeted;  // bytes of `body` that count for the server's limit
  bool keep, stream, blank, running, dead, stalled;
  bool served;   // it had a request already
  bool h2;       // it begins as HTTP/2 does
  bool shares;   // `in` is the server's buffer
  int status;    // of the reply
  int64_t sent;  // bytes of its body
  char *more;    // further headers, in x->arena
};

// A listening socket.
typedef struct HttpListen {
  HttpServer *server;
  EventWatch watch;
  bool open, h2;
} HttpListen;

enum { HTTP_LISTENS = 2 };
struct HttpServer {
  EventLoop *loop;
  struct Serve *serve;
  HttpOptions o;
  HttpListen listen[HTTP_LISTENS];
  EventTimer sweep;
  bool paused;    // no descriptor or connection is left: accepts again once one closes, or soon
  bool draining;  // shutting down: none is accepted, and none kept behind its answer
  bool (*take_h2)(void *arg, int fd, Str first);
  void *take_arg;
  HttpConn *conns;
  char *input;          // what is read while a connection waits for a request
  HttpExchange *spare;  // linked by `user`
  int64_t nspare;
  int64_t date_of;  // in seconds since 1970
  char date[64];    // the same as text
  int64_t nconns, nactive;
  int64_t bodies;  // bytes of all bodies
  uint64_t requests, next_id;
};

bool http_buf_put(HttpBuf *b, const void *p, int64_t n);  // false: out of memory
bool http_buf_room(HttpBuf *b, int64_t n);                // room for n bytes behind b->n
void http_buf_free(HttpBuf *b);
static inline int64_t http_buf_full(const HttpBuf *b) { return b->n - b->at; }

void conn_flush(HttpConn *c);             // writes what the socket takes
void conn_finished(HttpConn *c);          // the exchange was answered
bool conn_sends_more(const HttpConn *c);  // bytes of a further request are there
void conn_lost(HttpConn *c);              // the client is gone, or is sent away
void exchange_log(const HttpExchange *x, int status, int64_t bytes);

#endif
