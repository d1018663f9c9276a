// model_info.h -- what KServe's REST and gRPC both tell of models, and what they do with them.
#ifndef TENON_SERVE_KSERVE_MODEL_INFO_H
#define TENON_SERVE_KSERVE_MODEL_INFO_H

#include "serve/kserve/graph.h"
#include "serve/serve.h"

// The compiled model of a request.  NULL: a status in *out_status, and the reason.
Model *ks_model(Serve *s, Str name, Str version, int *out_status, Diag *d);
// The same, with its signature known.
Model *ks_loaded(Serve *s, Str name, Str version, int *out_status, Diag *d);
bool ks_is_ready(const Serve *s, const Model *m);
const char *ks_platform(Arena *a, const Model *m);  // "tenon_cpu"
const char *ks_state(const Model *m);               // READY, LOADING, UNAVAILABLE

// Someone waits for a model to be loaded or unloaded.
typedef struct KsWaiter KsWaiter;
struct KsWaiter {
  Model *model;
  bool load;  // else unload
  void (*done)(KsWaiter *w, int status, const char *why);
  void *user;
  EventTimer timer;
};
// Begins to load or unload: 0, and `done` is called once, later; or a status with the reason.
int ks_load(Serve *s, Str name, Str config, KsWaiter *w, Diag *d);
int ks_unload(Serve *s, Str name, KsWaiter *w, Diag *d);
void ks_waiter_stop(KsWaiter *w);

// A setting of the log, as Triton names them: false: it cannot be changed to `value`.
bool ks_set_log(Str name, int64_t value);
bool ks_is_trace_setting(Str name);

extern const char *const ks_extensions[];  // ended by NULL

#endif
