// engine.h -- the process that holds a model: `tenon-serve --engine=model PATH OPTIONS`.
#ifndef TENON_SERVE_KSERVE_ENGINE_H
#define TENON_SERVE_KSERVE_ENGINE_H

#include "serve/kserve/packet.h"

typedef struct Engine {
  Arena arena;  // as long as the engine
  tenon_program *program;
  tenon_session *session;
  KsSignature signature;
  const char *rows_symbol;  // of dimension 0, when it is the same of every input and output
  int64_t noutputs;
} Engine;

typedef struct EngineOptions {
  const char *path, *target;
  int64_t threads, memory_limit;
  bool batch;  // requests may run together, if their rows are apart
} EngineOptions;

MUST_USE tenon_status engine_open(Engine *e, const EngineOptions *o, tenon_error *err);
void engine_close(Engine *e);
// Runs a packet of ENGINE_RUN.  On success `out` has an entry for each output, those that were not
// wanted without data; engine_release frees them.
MUST_USE tenon_status engine_run(Engine *e, Arena *a, const Packet *in, tenon_tensor *out,
                                 tenon_error *err);
void engine_release(const Engine *e, tenon_tensor *out);
// Whether rows of dimension 0 are apart: runs random rows alone and together and compares bits.
void engine_check_rows(Engine *e);

int engine_work(int argc, char **argv);  // the process

#endif
