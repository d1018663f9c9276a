// grpc_none.c -- in the place of grpc/ where nghttp2 was not found: there is no gRPC.
#include "serve/grpc/grpc.h"

#include <errno.h>

bool grpc_is_built(void) { return false; }

int grpc_open(EventLoop *l, const GrpcOptions *o, struct Serve *serve, HttpServer *http, int fd,
              GrpcServer **out) {
  (void)l, (void)o, (void)serve, (void)http, (void)fd, (void)out;
  return ENOSYS;
}

void grpc_drain(GrpcServer *s) { (void)s; }
int64_t grpc_active(const GrpcServer *s) { return s ? 1 : 0; }
uint64_t grpc_requests(const GrpcServer *s) { return s ? 1 : 0; }
void grpc_close(GrpcServer *s) { (void)s; }
