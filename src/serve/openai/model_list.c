// model_list.c -- GET /v1/models and /v1/models/NAME.
#include "base/json.h"
#include "serve/llm/adapters.h"
#include "serve/llm/llm.h"
#include "serve/routes.h"
#include "serve/serve.h"

static void put_model(JsonWriter *w, const Model *m) {
  const LlmAbout *about = llm_about(m);
  json_begin_object(w);
  json_key(w, "id");
  json_cstr(w, m->name);
  json_key(w, "object");
  json_cstr(w, "model");
  json_key(w, "created");
  json_i64(w, m->since);
  json_key(w, "owned_by");
  json_cstr(w, "tenon");
  json_key(w, "state");
  json_cstr(w, model_state_name(m->state));
  if (about) {
    json_key(w, "max_model_len");
    json_i64(w, about->context);
    json_key(w, "memory_bytes");
    json_i64(w, about->bytes);
    json_key(w, "architecture");
    json_cstr(w, about->architecture);
    json_key(w, "generates");
    json_bool(w, !about->encoder);
    json_key(w, "chat");
    json_bool(w, about->chat);
  }
  json_end_object(w);
}

static void put_adapter(JsonWriter *w, const Adapter *a) {
  json_begin_object(w);
  json_key(w, "id");
  json_cstr(w, a->name);
  json_key(w, "object");
  json_cstr(w, "model");
  json_key(w, "created");
  json_i64(w, a->model->since);
  json_key(w, "owned_by");
  json_cstr(w, "tenon");
  json_key(w, "state");
  json_cstr(w, model_state_name(a->model->state));
  json_key(w, "parent");
  json_cstr(w, a->model->name);
  json_end_object(w);
}

static void list(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "object");
  json_cstr(&w, "list");
  json_key(&w, "data");
  json_begin_array(&w);
  for (const Model *m = x->serve->models; m; m = m->next)
    if (llm_is(m) && models_find(x->serve, str_of(m->name)) == m) put_model(&w, m);
  for (const Adapter *a = x->serve->adapters; a; a = a->next) put_adapter(&w, a);
  json_end_array(&w);
  json_end_object(&w);
  http_reply(x, 200, "application/json", strbuf_str(&b));
}

static void one(HttpExchange *x) {
  StrBuf b;
  JsonWriter w;
  const Model *m = models_find(x->serve, x->arg[0]);
  const Adapter *adapter = adapters_find(x->serve, x->arg[0]);
  if (!adapter && (!m || !llm_is(m))) {
    http_fail_as(x, 404, "model", "model_not_found",
                 str_printf(&x->arena, "the model '%.*s' does not exist", STR_ARG(x->arg[0])));
    return;
  }
  strbuf_init(&b, &x->arena);
  json_init(&w, &b, true);
  if (adapter)
    put_adapter(&w, adapter);
  else
    put_model(&w, m);
  http_reply(x, 200, "application/json", strbuf_str(&b));
}

const HttpRoute model_list_routes[] = {
    {.methods = HTTP_GET, .path = "/v1/models", .handle = list},
    {.methods = HTTP_GET, .path = "/v1/models/{}", .handle = one},
    {0}};
