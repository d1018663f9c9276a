// graph.h -- models that map tensors to tensors, in the front: their engines, and who waits.
//
// A request is an Infer that belongs to whoever made it (a route of REST, a method of gRPC), in an
// arena that lives until `done` was called or infer_cancel was.  It waits in the model's queue;
// when an engine is free, requests of the same form are sent to it together (batch.h), and the
// outputs are cut into rows again.
//
//   infer_submit: 0, and `done` is called once, later; or a status with the reason, and it is not
//   infer_cancel: the client is gone; what an engine is at work on is dropped when it is ready
//
// An engine that dies fails the requests that it had with 503, and another one is started.
#ifndef TENON_SERVE_KSERVE_GRAPH_H
#define TENON_SERVE_KSERVE_GRAPH_H

#include "serve/kserve/batch.h"
#include "serve/kserve/packet.h"
#include "serve/models.h"
#include "serve/worker.h"

typedef struct Infer Infer;
typedef struct GraphModel GraphModel;
typedef struct GraphJob GraphJob;

typedef struct InferResult {
  int status;       // of HTTP; 200: there are outputs
  const char *why;  // of another status
  int64_t n;
  const KsTensor *output;  // in the model's order; they hold during the call
} InferResult;

struct Infer {
  // ---- filled in by whoever makes it ----
  Model *model;
  int64_t ninputs;
  KsTensor *input;  // in any order; infer_check puts them into the model's
  int64_t nwanted;  // 0: all outputs
  Str *wanted;
  int64_t deadline;  // of platform->now(); 0: none
  Arena *arena;
  void (*done)(Infer *r, const InferResult *result);
  void *user;
  // ---- the model's ----
  int64_t rows;           // of dimension 0; 0: the model has no rows
  int64_t *wanted_index;  // [nwanted]
  bool checked, watched;  // watched: it has a deadline, or is to be checked
  bool alone;             // a batch with it failed
  int64_t came, sent;     // platform->now()
  GraphJob *job;          // NULL: it waits
  int64_t job_at;
  Infer *prev, *next;
};

int infer_submit(Infer *r, Diag *d);
void infer_cancel(Infer *r);

// ---- options of a model: the command line's, and those of its configuration ----
typedef struct GraphOptions {
  BatchRules batch;
  int64_t instances;
} GraphOptions;
enum { GRAPH_INSTANCES = 16 };
// What a configuration of Triton's form says: max_batch_size, dynamic_batching, instance_group.
// Other keys are not looked at.
MUST_USE tenon_status graph_options_read(Str json, GraphOptions *io, Diag *d);
MUST_USE tenon_status graph_options_of(const Model *m, GraphOptions *out, Diag *d);

typedef struct GraphStats {
  uint64_t inferences, executions, failed, cancelled;
  int64_t last_ms;  // since 1970
  int64_t queue_ns, compute_ns, request_ns, failed_ns;
  uint64_t batch_runs[64];  // of 1 row, 2 rows, ...; the last: of as many or more
  int64_t batch_ns[64];
} GraphStats;

// What a model takes and gives; NULL while that is not known.
const KsSignature *graph_signature(const Model *m);
const GraphStats *graph_stats(const Model *m);  // NULL: it was never loaded
const GraphOptions *graph_options(const Model *m);
bool graph_is(const Model *m);  // of this kind
extern const ModelKind graph_kind;

#endif
