// routes.h -- the tables of routes, each ended by a row of zeros.
#ifndef TENON_SERVE_ROUTES_H
#define TENON_SERVE_ROUTES_H

#include "serve/http.h"

extern const HttpRoute operation_routes[];   // operation.c
extern const HttpRoute kserve_routes[];      // kserve/rest.c
extern const HttpRoute metrics_routes[];     // metrics.c
extern const HttpRoute page_routes[];        // page.c
extern const HttpRoute chat_routes[];        // openai/chat.c
extern const HttpRoute completion_routes[];  // openai/completions.c
extern const HttpRoute model_list_routes[];  // openai/model_list.c
extern const HttpRoute response_routes[];    // openai/responses.c
extern const HttpRoute text_routes[];        // openai/texts.c
extern const HttpRoute vector_routes[];      // openai/vectors.c

#endif
