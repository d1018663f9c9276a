// grpc_infer.c -- ModelInfer and ModelStreamInfer: messages to requests, results to messages.
//
// A stream has up to SERVE_GRPC_AHEAD requests at work; more of it is not read meanwhile.  Its
// answers come in the order of its requests.  A request that fails is answered with the reason, and
// the stream goes on.
#include "serve/kserve/grpc_infer.h"

#include "serve/kserve/infer_message.h"
#include "serve/kserve/model_info.h"

static Model *target_model(GrpcCall *c, const InferTarget *t, int *status, Diag *d) {
  return ks_model(c->x.serve, t->model, t->version, status, d);
}

// ---- one request ----
typedef struct Call {
  GrpcCall *c;
  InferRequest request;
  Infer infer;
} Call;

// Called from an engine's frame, where nobody else catches memory that runs out.
static void done(Infer *r, const InferResult *result) {
  Call *call = r->user;
  GrpcCall *c = call->c;
  Diag d;
  Trap t;
  c->x.on_gone = NULL;
  if (result->status != 200) {
    grpc_finish(c, grpc_code_of(result->status), result->why);
    return;
  }
  Str message = {0};
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0)
    message = infer_message_write(&c->x.arena, &call->request, r->model, result, false);
  trap_leave(&t);
  if (t.status)
    grpc_finish(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  else
    grpc_reply(c, message);
}

static void gone(HttpExchange *x) { infer_cancel(&((Call *)x->user)->infer); }

void grpc_infer(GrpcCall *c) {
  Diag d;
  InferTarget target;
  int status = 400;
  Call *call = arena_new(&c->x.arena, Call);
  call->c = c;
  call->infer = (Infer){.arena = &c->x.arena, .done = done, .user = call};
  diag_init(&d);
  c->x.user = call;
  if (!infer_message_read(&c->x.arena, c->x.body, &target, &call->request, &d)) {
    Model *m = target_model(c, &target, &status, &d);
    call->infer.model = m;
    if (m) status = infer_request_submit(&call->request, c->deadline, &call->infer, &d);
  }
  if (status)
    grpc_finish(c, grpc_code_of(status), d.text);
  else
    c->x.on_gone = gone;
}

// ---- a stream ----
typedef struct Item Item;
struct Item {
  GrpcCall *c;
  Item *next;
  Arena arena;
  HttpBuf body;
  InferRequest request;
  Infer infer;
  bool at_work, answered;
  HttpBuf message;  // the answer, until those before it are sent
};

typedef struct Stream {
  Item *first, *last;  // in the order they came
  int64_t n;
  bool ended;
} Stream;

static void item_free(Item *it) {
  grpc_give_body(it->c, &it->body);
  http_buf_free(&it->message);
  arena_deinit(&it->arena);
  mem_free(it, sizeof *it);
}

static void stream_gone(HttpExchange *x) {
  Stream *s = x->user;
  while (s->first) {
    Item *it = s->first;
    s->first = it->next;
    if (it->at_work) infer_cancel(&it->infer);
    item_free(it);
  }
  s->last = NULL;
  s->n = 0;
}

static Stream *stream_of(GrpcCall *c) {
  if (!c->x.user) {
    c->x.user = arena_new(&c->x.arena, Stream);
    c->x.on_gone = stream_gone;
  }
  return c->x.user;
}

// Answers that are due, in order, as far as the client takes them.
static void send_due(GrpcCall *c) {
  Stream *s = c->x.user;
  while (s->first && s->first->answered && !c->done && grpc_pending(c) < SERVE_STREAM_BYTES) {
    Item *it = s->first;
    s->first = it->next;
    if (!s->first) s->last = NULL;
    s->n--;
    grpc_send(c, (Str){it->message.p, it->message.n});
    item_free(it);
  }
  if (c->done) return;
  if (!s->first && (s->ended || c->x.serve->draining))
    grpc_finish(c, s->ended ? GRPC_OK : GRPC_UNAVAILABLE, "the server is shutting down");
  else if (s->n < SERVE_GRPC_AHEAD)
    grpc_go_on(c);
}

// `result` NULL: `why` is all there is.
static tenon_status write_answer(Item *it, const InferResult *result, const char *why) {
  Str m = result ? infer_message_write(&it->arena, &it->request, it->infer.model, result, true)
                 : infer_message_error(&it->arena, it->request.id, why);
  return http_buf_put(&it->message, m.p, m.n) ? TENON_OK : TENON_ENOMEM;
}

// Where there is no memory for an answer, all of the stream goes.
static void keep_answer(Item *it, const InferResult *result, const char *why) {
  Diag d;
  Trap t;
  diag_init(&d);
  it->at_work = false;
  it->answered = true;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = write_answer(it, result, why);
  trap_leave(&t);
  if (t.status) stream_gone(&it->c->x);
}

static void item_done(Infer *r, const InferResult *result) {
  Item *it = r->user;
  GrpcCall *c = it->c;
  struct H2Conn *k = grpc_enter(c);
  bool fine = result->status == 200;
  keep_answer(it, fine ? result : NULL, result->why);
  Stream *s = c->x.user;
  if (!s->first)
    grpc_finish(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  else
    send_due(c);
  grpc_leave(k);
}

static tenon_status begin_item(Item *it, Diag *d, int *status) {
  InferTarget target;
  Str body = {it->body.p ? it->body.p : "", it->body.n};
  *status = 400;
  TRY(infer_message_read(&it->arena, body, &target, &it->request, d));
  it->infer = (Infer){.arena = &it->arena, .done = item_done, .user = it};
  it->infer.model = target_model(it->c, &target, status, d);
  if (it->infer.model) *status = infer_request_submit(&it->request, it->c->deadline, &it->infer, d);
  return *status ? TENON_EINVAL : TENON_OK;
}

void grpc_stream_infer(GrpcCall *c) {
  Stream *s = stream_of(c);
  Diag d;
  Trap t;
  int status;
  Item *it = mem_alloc(sizeof *it);
  if (!it) {
    stream_gone(&c->x);
    grpc_finish(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  *it = (Item){.c = c};
  arena_init(&it->arena);
  grpc_take_body(c, &it->body);
  *(s->last ? &s->last->next : &s->first) = it;
  s->last = it;
  s->n++;
  if (s->n >= SERVE_GRPC_AHEAD) grpc_hold(c);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = begin_item(it, &d, &status);
  trap_leave(&t);
  it->at_work = !t.status;
  if (!t.status) return;
  keep_answer(it, NULL, d.text);
  if (s->first)
    send_due(c);
  else
    grpc_finish(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

void grpc_stream_finished(GrpcCall *c) {
  stream_of(c)->ended = true;
  send_due(c);
}

void grpc_stream_sent(GrpcCall *c) { send_due(c); }

void grpc_stream_drain(GrpcCall *c) {
  (void)stream_of(c);
  send_due(c);
}
