// grpc_infer.h -- inference by gRPC: one request, or a stream of them.
#ifndef TENON_SERVE_KSERVE_GRPC_INFER_H
#define TENON_SERVE_KSERVE_GRPC_INFER_H

#include "serve/grpc/grpc.h"
#include "serve/serve.h"

void grpc_infer(GrpcCall *c);            // ModelInfer
void grpc_stream_infer(GrpcCall *c);     // ModelStreamInfer: a message
void grpc_stream_finished(GrpcCall *c);  // ... the last one was
void grpc_stream_sent(GrpcCall *c);      // ... the client took what was sent
void grpc_stream_drain(GrpcCall *c);     // ... the server shuts down

#endif
