// infer_message.h -- requests and answers of inference as messages of gRPC.
#ifndef TENON_SERVE_KSERVE_INFER_MESSAGE_H
#define TENON_SERVE_KSERVE_INFER_MESSAGE_H

#include "serve/kserve/infer_request.h"

typedef struct InferTarget {
  Str model, version;  // an empty version: the latest
} InferTarget;

// Reads a ModelInferRequest.  Everything points into `bytes` or into `a`.  `r` has the id even
// where the rest cannot be read.  EINVAL, EFORMAT: what is wrong with it.
MUST_USE tenon_status infer_message_read(Arena *a, Str bytes, InferTarget *target, InferRequest *r,
                                         Diag *d);

// A ModelInferResponse, all outputs as raw bytes.  `stream`: as a ModelStreamInferResponse, which
// says that it is the last one to its request.
Str infer_message_write(Arena *a, const InferRequest *r, const Model *m, const InferResult *result,
                        bool stream);
// A ModelStreamInferResponse that tells why there is no other.
Str infer_message_error(Arena *a, Str id, const char *why);

#endif
