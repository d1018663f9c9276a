// h2.h -- a connection of HTTP/2, between its session (h2_session.c) and its socket (h2_conn.c).
#ifndef TENON_SERVE_GRPC_H2_H
#define TENON_SERVE_GRPC_H2_H

#include "serve/grpc/call.h"

#include <nghttp2/nghttp2.h>

typedef struct H2Conn H2Conn;
struct H2Conn {
  GrpcServer *server;
  H2Conn *prev, *next;
  EventWatch watch;  // fd -1: there is no socket, for tests
  nghttp2_session *session;
  struct H2Block *blocks;  // of memory that the session has
  HttpBuf out;             // frames for the socket
  GrpcCall *calls;
  int64_t ncalls;
  int64_t credit, credit_at;  // for frames that carry nothing (spend)
  int64_t active_at;          // when a call was last at work
  int64_t heard_at;           // when anything came
  int64_t deadline;           // of the client's reading, of lingering; 0: none
  bool running;               // within the session or a handler: h2_pump is for later
  bool greeted;               // its settings came
  bool stalled, ending, pinged, lingers, dead;
};

// ---- h2_session.c ----
bool h2_session_open(H2Conn *k);  // false: out of memory
void h2_session_close(H2Conn *k);
void h2_feed(H2Conn *k, const char *p, int64_t n);  // bytes from the client
void h2_fill(H2Conn *k);                            // frames to k->out
void h2_goaway(H2Conn *k, bool final);              // no further call
bool h2_is_over(const H2Conn *k);                   // nothing is to be read or written
// ---- h2_conn.c ----
void h2_pump(H2Conn *k);  // frames to the socket, as many as it takes

#endif
