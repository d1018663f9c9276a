// graph_impl.h -- between graph.c (engines), graph_queue.c (requests) and graph_check.c.
#ifndef TENON_SERVE_KSERVE_GRAPH_IMPL_H
#define TENON_SERVE_KSERVE_GRAPH_IMPL_H

#include "base/platform.h"
#include "serve/kserve/graph.h"
#include "serve/serve.h"

// What an engine was sent and has not answered.
struct GraphJob {
  GraphJob *next;
  uint64_t id;
  int64_t n, rows, began;
  Infer **request;  // [n]; NULL: cancelled
  int64_t *row;     // [n]
};

typedef struct GraphEngine {
  GraphModel *g;
  Worker *worker;  // NULL: none
  bool ready;
  GraphJob *jobs;  // in the order they were sent
  int64_t njobs;
  int deaths;          // one after the other, without an answer between
  EventTimer restart;  // set: it died, and is started again then
} GraphEngine;

struct GraphModel {
  Model *model;
  Arena arena;  // of the signature
  GraphOptions options;
  KsSignature signature;
  bool known;    // the signature
  bool closing;  // unload when nothing is left
  int64_t nengines;
  GraphEngine engine[GRAPH_INSTANCES];
  Infer *first, *last;  // that wait
  int64_t waiting, nwatched, sent;
  uint64_t next_job;
  int64_t run_ns;  // of a job, about
  EventTimer tick;
  GraphStats stats;
};

static inline GraphModel *graph_of(const Model *m) { return m->of_kind; }

// ---- graph_queue.c ----
void graph_wake(GraphModel *g);  // looks at the queue soon
void graph_tick(void *arg);
void graph_answer(GraphEngine *e, const Frame *f, Str payload);  // ENGINE_DONE, ENGINE_ERROR
void graph_fail_jobs(GraphEngine *e, int status, const char *why);
void graph_fail_waiting(GraphModel *g, int status, const char *why);
// ---- graph.c ----
GraphModel *graph_get(Model *m);  // makes it where there is none
void graph_idle(GraphModel *g);   // a request is gone: unloads where that is due
// ---- graph_check.c ----
// Puts the inputs into the model's order and checks names, types and shapes.
MUST_USE tenon_status infer_check(Infer *r, const KsSignature *s, Diag *d);
bool infer_together(const Infer *a, const Infer *b);  // they have the same form but for their rows

#endif
