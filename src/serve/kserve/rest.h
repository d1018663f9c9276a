// rest.h -- between rest.c and rest_infer.c.
#ifndef TENON_SERVE_KSERVE_REST_H
#define TENON_SERVE_KSERVE_REST_H

#include "serve/http.h"
#include "serve/kserve/model_info.h"

void rest_infer(HttpExchange *x);
void rest_fail(HttpExchange *x, int status, const Diag *d);

#endif
