// call.h -- a call, between call.c and HTTP/2 (h2_session.c).
#ifndef TENON_SERVE_GRPC_CALL_H
#define TENON_SERVE_GRPC_CALL_H

#include "serve/grpc/grpc.h"

struct GrpcServer {
  EventLoop *loop;
  struct Serve *serve;
  HttpServer *http;
  GrpcOptions o;
  struct H2Conn *conns;
  EventTimer sweep;
  bool draining;
  uint64_t requests, next_id;
};

// ---- what HTTP/2 tells a call.  None of these calls a handler; call_run does ----
GrpcCall *call_new(GrpcServer *s, struct H2Conn *conn, int32_t stream);  // NULL: out of memory
bool call_header(GrpcCall *c, Str name, Str value);  // false: far too many, the connection ends
void call_headed(GrpcCall *c);                       // the head is whole
// Bytes of a message.  Returns how many of them the client may send anew.
int64_t call_data(GrpcCall *c, const char *p, int64_t n);
void call_ended(GrpcCall *c);  // the client sends no more
void call_free(GrpcCall *c);   // the stream is closed
// Whole messages to the handlers.  Returns how many bytes that were held the client may send anew.
int64_t call_run(GrpcCall *c);
// The time is over, or the message takes too long.
void call_tick(GrpcCall *c, int64_t now);
void call_drain(GrpcCall *c);

// ---- what a call tells HTTP/2 ----
void h2_wake(GrpcCall *c);   // there is something to send
void h2_ready(GrpcCall *c);  // call_run is due

#endif
