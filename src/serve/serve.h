// serve.h -- what the whole front shares: the loop, the server, the options and the models.
#ifndef TENON_SERVE_SERVE_H
#define TENON_SERVE_SERVE_H

#include "serve/serve_config.h"
#include "serve/http.h"
#include "serve/keys.h"
#include "serve/models.h"

enum { SERVE_CLIENTS = 16384 };  // that are told apart for --key-requests
typedef struct Serve {
  Arena arena;  // as long as the program
  ServeConfig config;
  EventLoop loop;
  HttpServer *http;
  struct GrpcServer *grpc;  // NULL: the program was built without
  Keys keys;
  EventTimer room;  // models_wake
  struct Adapter *adapters;
  Model *models;                   // in the order of the command line
  int32_t at_work[SERVE_CLIENTS];  // requests of each client to language models
  bool draining;                   // SIGTERM came: what was accepted is finished
  int64_t began;                   // platform->now()
} Serve;

#endif
