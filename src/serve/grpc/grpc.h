// grpc.h -- the gRPC server of tenon-serve: calls in, messages and statuses out.
//
// A call is an HttpExchange as REST has it, so that the same handlers answer both.  When a message
// of the client's is whole, the method's `message` is called: x.body is the message.  It answers
// now or later, by grpc_send and grpc_finish; after grpc_finish the call is gone.  When the client
// goes away first, its time is over, or what it sends cannot be read, x.on_gone(x) is called; so it
// is by grpc_finish.  Who has nothing at work any more sets it to NULL.  All runs on the thread of
// the loop.
//
// A method whose `finished` is not NULL takes a stream of messages: each has its own buffer, which
// grpc_take_body hands over, and `finished` is called behind the last one.  grpc_hold stops reading
// until grpc_go_on; so a client cannot send more than is worked off.
//
// HTTP/2 is nghttp2's (h2_session.c).  Without it at build time the server says so (grpc_none.c).
#ifndef TENON_SERVE_GRPC_GRPC_H
#define TENON_SERVE_GRPC_GRPC_H

#include "serve/grpc/frames.h"
#include "serve/grpc/status.h"
#include "serve/http.h"

typedef struct GrpcServer GrpcServer;
typedef struct GrpcCall GrpcCall;
struct H2Conn;

typedef struct GrpcMethod {
  const char *path;  // "/inference.GRPCInferenceService/ModelInfer"
  void (*message)(GrpcCall *c);
  void (*finished)(GrpcCall *c);
  void (*sent)(GrpcCall *c);   // of a stream: the client took all that was sent so far
  void (*drain)(GrpcCall *c);  // of a stream: the server shuts down
  bool open;                   // needs no API key
  const struct KsMethod *how;  // of methods that REST answers (kserve/grpc_methods.c)
} GrpcMethod;
extern const GrpcMethod grpc_methods[];  // ended by a row of zeros

// Headers of a call that count; others are read and left.
typedef enum GrpcHeader {
  GRPC_PATH,
  GRPC_METHOD,
  GRPC_CONTENT_TYPE,
  GRPC_AUTHORIZATION,
  GRPC_TIMEOUT,
  GRPC_ENCODING,
  GRPC_HEADERS
} GrpcHeader;

struct GrpcCall {
  HttpExchange x;  // the first member
  GrpcServer *server;
  struct H2Conn *conn;
  int32_t stream;
  GrpcCall *prev, *next;  // of the connection
  // ---- the head ----
  HttpBuf head;  // the values one behind the other
  int64_t value_at[GRPC_HEADERS], value_n[GRPC_HEADERS];
  bool has[GRPC_HEADERS], headed;
  int64_t nheaders, head_bytes;
  const GrpcMethod *method;
  int64_t deadline;  // of grpc-timeout, by platform->now(); 0: none
  // ---- what the client sends ----
  GrpcReader in;
  HttpBuf held;        // came, but is not read yet
  HttpBuf body;        // x.body
  int64_t taken;       // bytes that grpc_take_body handed over
  int64_t counted;     // bytes of all these that count for the limit of all bodies
  int64_t body_until;  // a message that has begun is whole by then; 0: none has
  int64_t messages;
  bool ended, hold, ready, drained, told;  // told: `finished` was called
  // ---- the answer ----
  HttpBuf out;
  bool begun, done, closed;  // closed: the last frame went out
  int refused;               // a status of HTTP: this is no call of gRPC
  GrpcCode code;
  char text[GRPC_TEXT_BYTES];  // as grpc-message
  int64_t ntext, sent, stalled_since;
};

// ---- for methods ----
static inline GrpcCall *grpc_call(HttpExchange *x) { return (GrpcCall *)(void *)x; }
void grpc_send(GrpcCall *c, Str message);
void grpc_finish(GrpcCall *c, GrpcCode code, const char *text);
void grpc_reply(GrpcCall *c, Str message);  // the one message, and GRPC_OK
// A call answers between these where it does so more than once: it is not gone before grpc_leave.
struct H2Conn *grpc_enter(GrpcCall *c);
void grpc_leave(struct H2Conn *k);
void grpc_take_body(GrpcCall *c, HttpBuf *out);  // x.body is empty then
void grpc_give_body(GrpcCall *c, HttpBuf *b);    // frees what was taken
void grpc_hold(GrpcCall *c);
void grpc_go_on(GrpcCall *c);
int64_t grpc_pending(const GrpcCall *c);  // bytes of answers that the client has not taken

// ---- the server ----
typedef struct GrpcOptions {
  int64_t max_body, head_seconds, idle_seconds, ping_seconds, body_seconds, write_seconds;
  const struct Keys *keys;
} GrpcOptions;
// Connections are those of `http`, which hands them over and counts them: those of its second
// socket, and those that begin as HTTP/2 does.  0 or an errno value.
int grpc_open(EventLoop *l, const GrpcOptions *o, struct Serve *serve, HttpServer *http, int fd,
              GrpcServer **out);
// Takes over a connection whose first bytes are `first`.  False: it could not, and the descriptor
// is still the caller's.
bool grpc_connect(GrpcServer *s, int fd, Str first);
void grpc_drain(GrpcServer *s);               // no further call is begun
int64_t grpc_active(const GrpcServer *s);     // calls, and connections with bytes to send
uint64_t grpc_requests(const GrpcServer *s);  // since the start
void grpc_close(GrpcServer *s);
bool grpc_is_built(void);

#endif
