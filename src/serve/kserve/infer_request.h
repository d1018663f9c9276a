// infer_request.h -- a request of inference as its client wrote it, by REST or by gRPC.
//
// Both fronts read their form into an InferRequest by the same rules, submit it in the same way,
// and write the outputs that infer_outputs gives them.
#ifndef TENON_SERVE_KSERVE_INFER_REQUEST_H
#define TENON_SERVE_KSERVE_INFER_REQUEST_H

#include "serve/kserve/graph.h"

typedef struct InferOutput {
  Str name;
  int binary;     // of REST: -1: as the whole request says
  int64_t class;  // so many of the largest elements, as text; 0: the tensor
} InferOutput;

typedef struct InferRequest {
  Str id;
  bool binary;         // of REST: outputs are bytes behind the JSON
  int64_t timeout_us;  // 0: none
  int64_t ninputs, noutputs;
  KsTensor *input;
  InferOutput *output;
} InferRequest;

// ---- rules of reading: EINVAL with the reason ----
// Input `i` has this name and element type.
MUST_USE tenon_status infer_read_input(KsTensor *t, int64_t i, Str name, Str type, Diag *d);
MUST_USE tenon_status infer_read_rank(KsTensor *t, int64_t rank, Diag *d);
MUST_USE tenon_status infer_read_output(InferOutput *o, int64_t i, Str name, int64_t class,
                                        Diag *d);
MUST_USE tenon_status infer_read_timeout(InferRequest *r, int64_t us, Diag *d);
// `where` asks for a region of shared memory.
tenon_status infer_shared_memory(const char *where, Diag *d);

// ---- submitting and answering ----
// Fills io from the request, with the model, the arena, `done` and `user` set, and submits it
// (infer_submit).  `deadline` is the client's own, of platform->now(); 0: none.
int infer_request_submit(const InferRequest *r, int64_t deadline, Infer *io, Diag *d);
// The outputs of the answer in the order that was asked for, classified where that was.
KsTensor *infer_outputs(Arena *a, const InferRequest *r, const InferResult *result, int64_t *count);

#endif
