// ask.c -- asks with one answer each (ask.h).
#include "serve/openai/ask.h"

static void cancel_rest(Asks *a) {
  for (int64_t i = 0; i < a->n; i++)
    if (!a->one[i].ended) llm_call_cancel(&a->one[i].call);
}

static void fail_all(Asks *a, int status, const char *why) {
  HttpExchange *x = a->x;
  cancel_rest(a);
  x->on_gone = NULL;
  generate_leave(x, &a->entered);
  http_fail(x, status, "%s", why);
}

static void take_vector(Asks *a, AskOne *o, const LlmEvent *e) {
  o->tokens = e->position;
  o->n = e->nvector;
  o->vector = arena_array(&a->x->arena, float, e->nvector + 1);
  llm_vector_copy(e, o->vector);
}

static void take(Asks *a, AskOne *o, const LlmAnswer *r) {
  if (r->last) {
    o->ended = true;
    a->ended++;
  }
  if (r->kind == LLM_IS_ERROR) {
    fail_all(a, r->status, r->why);
    return;
  }
  if (r->kind == LLM_IS_RESULT) {
    char *copy = arena_dup(&a->x->arena, r->bytes.p, r->bytes.n);
    o->text = (Str){copy, r->bytes.n};
  }
  if (r->kind == LLM_IS_EVENT && r->event->kind == TENON_LLM_VECTOR) take_vector(a, o, r->event);
  if (r->last && a->ended == a->n) {
    a->x->on_gone = NULL;
    generate_leave(a->x, &a->entered);
    a->done(a);
  }
}

static void on_answer(LlmCall *call, const LlmAnswer *r) {
  AskOne *o = call->user;
  Asks *a = o->asks;
  HttpExchange *x = a->x;
  Diag d;
  Trap t;
  bool last = r->last;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) take(a, o, r);
  trap_leave(&t);
  if (!t.status) return;
  o->ended |= last;
  cancel_rest(a);
  x->on_gone = NULL;
  generate_leave(x, &a->entered);
  http_reply(x, 503, "application/json", STR("{\"error\":{\"message\":\"out of memory\"}}"));
}

static void on_gone(HttpExchange *x) {
  Asks *a = x->user;
  cancel_rest(a);
  generate_leave(x, &a->entered);
}

void asks_begin(Asks *a, const Str *ask) {
  HttpExchange *x = a->x;
  Diag d;
  diag_init(&d);
  a->one = arena_array(&x->arena, AskOne, a->n);
  if (!generate_enter(x, &a->entered)) return;
  x->user = a;
  for (int64_t i = 0; i < a->n; i++) {
    a->one[i].asks = a;
    a->one[i].call = (LlmCall){.model = a->model,
                               .ask = ask[i],
                               .client = x->client,
                               .answer = on_answer,
                               .user = &a->one[i]};
  }
  for (int64_t i = 0; i < a->n; i++) {
    int status = llm_call(&a->one[i].call, &d);
    if (!status) continue;
    while (i--) llm_call_cancel(&a->one[i].call);
    generate_leave(x, &a->entered);
    http_fail(x, status, "%s", d.text);
    return;
  }
  x->on_gone = on_gone;
}
