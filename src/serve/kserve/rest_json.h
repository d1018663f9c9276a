// rest_json.h -- requests and answers of inference as KServe's REST writes them.
#ifndef TENON_SERVE_KSERVE_REST_JSON_H
#define TENON_SERVE_KSERVE_REST_JSON_H

#include "serve/kserve/infer_request.h"

// Reads a body whose first `json` bytes are JSON and whose rest is the data of binary inputs.
// Everything points into the body or into `a`.  EINVAL, EFORMAT: what is wrong with it.
MUST_USE tenon_status rest_read(Arena *a, Str body, int64_t json, InferRequest *out, Diag *d);

// The answer: JSON, and behind it the data of binary outputs.  *json_bytes is where they begin; -1:
// there are none.
Str rest_write(Arena *a, const InferRequest *r, const Model *m, const InferResult *result,
               int64_t *json_bytes);

#endif
