// rest_infer.c -- POST /v2/models/NAME/infer: a body to a request, its result to an answer.
#include "serve/kserve/rest.h"
#include "serve/kserve/rest_json.h"

typedef struct Call {
  HttpExchange *x;
  InferRequest request;
  Infer infer;
} Call;

static void answer(Call *c, const InferResult *r) {
  HttpExchange *x = c->x;
  int64_t json = -1;
  Str body = rest_write(&x->arena, &c->request, c->infer.model, r, &json);
  if (json >= 0)
    http_header(x, "Inference-Header-Content-Length",
                str_printf(&x->arena, "%lld", (long long)json));
  http_reply(x, 200, json >= 0 ? "application/octet-stream" : "application/json", body);
}

static void refuse(HttpExchange *x, int status, const char *why) {
  http_fail(x, status, "%s", why);
}

// Called from an engine's frame, where nobody else catches memory that runs out.
static void done(Infer *r, const InferResult *result) {
  Call *c = r->user;
  HttpExchange *x = c->x;
  Diag d;
  Trap t;
  x->on_gone = NULL;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    if (result->status == 200)
      answer(c, result);
    else
      refuse(x, result->status, result->why);
  }
  trap_leave(&t);
  if (t.status) http_reply(x, 503, "application/json", STR("{\"error\":\"out of memory\"}"));
}

static void gone(HttpExchange *x) { infer_cancel(&((Call *)x->user)->infer); }

// How much of the body is JSON; -1: the header is wrong.
static int64_t json_bytes(const HttpExchange *x) {
  Str v = http_header_of(x, "inference-header-content-length");
  int64_t n;
  if (!v.p) return x->body.n;
  return str_to_i64(v, &n) && n >= 0 && n <= x->body.n ? n : -1;
}

void rest_infer(HttpExchange *x) {
  Diag d;
  int status;
  diag_init(&d);
  Model *m = ks_model(x->serve, x->arg[0], x->arg[1], &status, &d);
  if (!m) {
    rest_fail(x, status, &d);
    return;
  }
  int64_t json = json_bytes(x);
  Call *c = arena_new(&x->arena, Call);
  if (json < 0) {
    http_fail(x, 400, "Inference-Header-Content-Length is not a part of the body's %lld bytes",
              (long long)x->body.n);
    return;
  }
  if (rest_read(&x->arena, x->body, json, &c->request, &d)) {
    rest_fail(x, 400, &d);
    return;
  }
  c->x = x;
  c->infer = (Infer){.model = m, .arena = &x->arena, .done = done, .user = c};
  x->user = c;
  status = infer_request_submit(&c->request, 0, &c->infer, &d);
  if (status)
    rest_fail(x, status, &d);
  else
    x->on_gone = gone;
}
