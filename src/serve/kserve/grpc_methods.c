// grpc_methods.c -- the methods of inference.GRPCInferenceService, and of gRPC's health service.
//
// All but inference are answered by the handlers of REST: a row says which route, and where the
// message's fields go in its path.  The message is the body as JSON, and the JSON of the answer
// becomes the response (message_json.h).
#include "serve/kserve/grpc_infer.h"
#include "serve/kserve/message_json.h"
#include "serve/routes.h"

struct KsMethod {
  KsMessage request, response;
  const HttpRoute *table;
  HttpMethod method;
  const char *path;          // of the route
  const char *path_unnamed;  // of the route where the field `name` is empty; NULL: the same
  const char *name;          // the field that is the first {} of the path
  const char *body;          // the field that is the body; NULL: all of the message
  const char *wrap;          // the field that the answer is; NULL: all of the response
  const char *yes;  // a field that is true where the answer is 200, and false where it is another
};
typedef struct KsMethod KsMethod;

#define MODEL(part) "/v2/models/{}/versions/{}" part
static const KsMethod live = {.request = KS_Empty,
                              .response = KS_ServerLiveResponse,
                              .table = operation_routes,
                              .method = HTTP_GET,
                              .path = "/v2/health/live",
                              .yes = "live"};
static const KsMethod ready = {.request = KS_Empty,
                               .response = KS_ServerReadyResponse,
                               .table = operation_routes,
                               .method = HTTP_GET,
                               .path = "/v2/health/ready",
                               .yes = "ready"};
static const KsMethod model_ready = {.request = KS_Named,
                                     .response = KS_ModelReadyResponse,
                                     .table = kserve_routes,
                                     .method = HTTP_GET,
                                     .path = MODEL("/ready"),
                                     .name = "name",
                                     .yes = "ready"};
static const KsMethod server_metadata = {.request = KS_Empty,
                                         .response = KS_ServerMetadataResponse,
                                         .table = kserve_routes,
                                         .method = HTTP_GET,
                                         .path = "/v2"};
static const KsMethod model_metadata = {.request = KS_Named,
                                        .response = KS_ModelMetadataResponse,
                                        .table = kserve_routes,
                                        .method = HTTP_GET,
                                        .path = MODEL(""),
                                        .name = "name"};
static const KsMethod model_config = {.request = KS_Named,
                                      .response = KS_ModelConfigResponse,
                                      .table = kserve_routes,
                                      .method = HTTP_GET,
                                      .path = MODEL("/config"),
                                      .name = "name",
                                      .wrap = "config"};
static const KsMethod statistics = {.request = KS_Named,
                                    .response = KS_ModelStatisticsResponse,
                                    .table = kserve_routes,
                                    .method = HTTP_GET,
                                    .path = MODEL("/stats"),
                                    .path_unnamed = "/v2/models/stats",
                                    .name = "name"};
static const KsMethod repository_index = {.request = KS_RepositoryIndexRequest,
                                          .response = KS_RepositoryIndexResponse,
                                          .table = kserve_routes,
                                          .method = HTTP_POST,
                                          .path = "/v2/repository/index",
                                          .wrap = "models"};
static const KsMethod load = {.request = KS_RepositoryModelLoadRequest,
                              .response = KS_Empty,
                              .table = kserve_routes,
                              .method = HTTP_POST,
                              .path = "/v2/repository/models/{}/load",
                              .name = "model_name"};
static const KsMethod unload = {.request = KS_RepositoryModelUnloadRequest,
                                .response = KS_Empty,
                                .table = kserve_routes,
                                .method = HTTP_POST,
                                .path = "/v2/repository/models/{}/unload",
                                .name = "model_name"};
static const KsMethod log_settings = {.request = KS_LogSettingsRequest,
                                      .response = KS_LogSettingsResponse,
                                      .table = kserve_routes,
                                      .method = HTTP_POST,
                                      .path = "/v2/logging",
                                      .body = "settings",
                                      .wrap = "settings"};
static const KsMethod trace_setting = {.request = KS_TraceSettingRequest,
                                       .response = KS_TraceSettingResponse,
                                       .table = kserve_routes,
                                       .method = HTTP_POST,
                                       .path = "/v2/models/{}/trace/setting",
                                       .path_unnamed = "/v2/trace/setting",
                                       .name = "model_name",
                                       .body = "settings",
                                       .wrap = "settings"};

// ---- the answer of a route to a response ----
static tenon_status put_field(JsonWriter *w, const KsMethod *m, const Json *answer, bool yes,
                              Diag *d) {
  json_begin_object(w);
  json_key(w, m->yes ? m->yes : m->wrap);
  if (m->yes)
    json_bool(w, yes);
  else
    TRY(json_put(w, answer, d));
  json_end_object(w);
  return TENON_OK;
}

static tenon_status respond(GrpcCall *c, int status, Str body, Diag *d) {
  const KsMethod *m = c->method->how;
  Arena *a = &c->x.arena;
  Proto p;
  Json j;
  StrBuf text, out;
  JsonWriter w;
  strbuf_init(&text, a);
  strbuf_init(&out, a);
  if (!m->yes) TRY(json_parse(a, body, d, &j));
  if (m->yes || m->wrap) {
    json_init(&w, &text, true);
    TRY(put_field(&w, m, &j, status == 200, d));
    TRY(json_parse(a, strbuf_str(&text), d, &j));
  }
  proto_init(&p, a);
  ks_message_from_json(&p, m->response, &j);
  proto_flush(&p);
  for (int64_t i = 0; i < p.part.n; i++) strbuf_put(&out, p.part.v[i]);
  grpc_reply(c, strbuf_str(&out));
  return TENON_OK;
}

// Called by a handler, or later by a timer, where nobody else catches memory that runs out.
static void answered(HttpExchange *x, int status, const char *type, Str body) {
  GrpcCall *c = grpc_call(x);
  Diag d;
  Trap t;
  x->on_gone = NULL;
  if (!type && !c->method->how->yes) {
    grpc_finish(c, grpc_code_of(status), body.p);
    return;
  }
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = respond(c, status, body, &d);
  trap_leave(&t);
  if (t.status)
    grpc_finish(c, t.status == TENON_ENOMEM ? GRPC_RESOURCE_EXHAUSTED : GRPC_INTERNAL, d.text);
}

// ---- a message to a route ----
static const HttpRoute *route_of(const KsMethod *m, bool named) {
  const char *path = !named && m->path_unnamed ? m->path_unnamed : m->path;
  for (const HttpRoute *r = m->table; r->path; r++)
    if (!strcmp(r->path, path) && (r->methods & (int)m->method)) return r;
  CHECK(false, "%s is no route", path);
  return NULL;
}

static Str text_field(const Json *j, const char *name) {
  const Json *v = name ? json_get(j, name) : NULL;
  return v && v->kind == JSON_STRING ? v->s : STR("");
}

static tenon_status read_message(GrpcCall *c, Diag *d) {
  const KsMethod *m = c->method->how;
  HttpExchange *x = &c->x;
  StrBuf text, part;
  JsonWriter w;
  Json j;
  strbuf_init(&text, &x->arena);
  json_init(&w, &text, true);
  TRY(ks_message_to_json(&x->arena, m->request, x->body, &w, d));
  TRY(json_parse(&x->arena, strbuf_str(&text), d, &j));
  x->arg[0] = text_field(&j, m->name);
  x->arg[1] = text_field(&j, "version");
  x->body = strbuf_str(&text);
  if (!m->body) return TENON_OK;
  const Json *body = json_get(&j, m->body);
  strbuf_init(&part, &x->arena);
  json_init(&w, &part, true);
  if (body) TRY(json_put(&w, body, d));
  x->body = body ? strbuf_str(&part) : STR("{}");
  return TENON_OK;
}

static void by_route(GrpcCall *c) {
  Diag d;
  diag_init(&d);
  if (read_message(c, &d)) {
    grpc_finish(c, GRPC_INVALID_ARGUMENT, d.text);
    return;
  }
  c->x.answer = answered;
  c->x.method = c->method->how->method;
  route_of(c->method->how, c->x.arg[0].n > 0)->handle(&c->x);
}

// ---- gRPC's health service, which probes ask ----
static void health(GrpcCall *c) {
  enum { SERVING = 1, NOT_SERVING = 2 };
  Diag d;
  StrBuf text;
  JsonWriter w;
  Json j;
  Proto p;
  diag_init(&d);
  strbuf_init(&text, &c->x.arena);
  json_init(&w, &text, true);
  if (ks_message_to_json(&c->x.arena, KS_HealthCheckRequest, c->x.body, &w, &d) ||
      json_parse(&c->x.arena, strbuf_str(&text), &d, &j)) {
    grpc_finish(c, GRPC_INVALID_ARGUMENT, d.text);
    return;
  }
  Str service = text_field(&j, "service");
  if (service.n && !str_is(service, "inference.GRPCInferenceService")) {
    grpc_finish(c, GRPC_NOT_FOUND, "there is no such service");
    return;
  }
  bool serving = !c->x.serve->draining && models_ready(c->x.serve);
  proto_init(&p, &c->x.arena);
  proto_int(&p, KS_HealthCheckResponse_status, serving ? SERVING : NOT_SERVING);
  grpc_reply(c, strbuf_str(&p.tail));
}

// ---- shared memory, which this server does not read: there is none, and none can be made ----
static void nothing(GrpcCall *c) { grpc_reply(c, (Str){"", 0}); }

static void no_shared_memory(GrpcCall *c) {
  grpc_finish(c, GRPC_UNIMPLEMENTED, "this server reads no shared memory");
}

#define SERVICE "/inference.GRPCInferenceService/"
const GrpcMethod grpc_methods[] = {
    {.path = SERVICE "ModelInfer", .message = grpc_infer},
    {.path = SERVICE "ModelStreamInfer",
     .message = grpc_stream_infer,
     .finished = grpc_stream_finished,
     .sent = grpc_stream_sent,
     .drain = grpc_stream_drain},
    {.path = SERVICE "ServerLive", .message = by_route, .how = &live, .open = true},
    {.path = SERVICE "ServerReady", .message = by_route, .how = &ready, .open = true},
    {.path = SERVICE "ModelReady", .message = by_route, .how = &model_ready},
    {.path = SERVICE "ServerMetadata", .message = by_route, .how = &server_metadata},
    {.path = SERVICE "ModelMetadata", .message = by_route, .how = &model_metadata},
    {.path = SERVICE "ModelConfig", .message = by_route, .how = &model_config},
    {.path = SERVICE "ModelStatistics", .message = by_route, .how = &statistics},
    {.path = SERVICE "RepositoryIndex", .message = by_route, .how = &repository_index},
    {.path = SERVICE "RepositoryModelLoad", .message = by_route, .how = &load},
    {.path = SERVICE "RepositoryModelUnload", .message = by_route, .how = &unload},
    {.path = SERVICE "LogSettings", .message = by_route, .how = &log_settings},
    {.path = SERVICE "TraceSetting", .message = by_route, .how = &trace_setting},
    {.path = SERVICE "SystemSharedMemoryStatus", .message = nothing},
    {.path = SERVICE "SystemSharedMemoryRegister", .message = no_shared_memory},
    {.path = SERVICE "SystemSharedMemoryUnregister", .message = nothing},
    {.path = SERVICE "CudaSharedMemoryStatus", .message = nothing},
    {.path = SERVICE "CudaSharedMemoryRegister", .message = no_shared_memory},
    {.path = SERVICE "CudaSharedMemoryUnregister", .message = nothing},
    {.path = "/grpc.health.v1.Health/Check", .message = health, .open = true},
    {0}};
