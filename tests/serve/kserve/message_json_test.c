// message_json_test.c -- messages of gRPC to JSON and back, any cut of them, and requests of
// inference.
#include "serve/kserve/message_json.h"

#include "base/platform.h"
#include "serve/kserve/infer_message.h"
#include "test.h"

static Diag diag;

static Str from_json(Arena *a, KsMessage m, const char *text) {
  Proto p;
  Json j;
  diag_init(&diag);
  EXPECT(!json_parse(a, str_of(text), &diag, &j));
  proto_init(&p, a);
  ks_message_from_json(&p, m, &j);
  return strbuf_str(&p.tail);
}

static tenon_status to_json(Arena *a, KsMessage m, Str bytes, Str *out) {
  StrBuf b;
  JsonWriter w;
  diag_init(&diag);
  strbuf_init(&b, a);
  json_init(&w, &b, true);
  TRY(ks_message_to_json(a, m, bytes, &w, &diag));
  *out = strbuf_str(&b);
  return TENON_OK;
}

static const struct {
  KsMessage m;
  const char *json;
} row[] = {
    {KS_ModelMetadataResponse,
     "{\"name\":\"m\",\"versions\":[\"1\",\"2\"],\"inputs\":[{\"name\":\"x\","
     "\"datatype\":\"FP32\",\"shape\":[-1,4]}]}"},
    {KS_RepositoryModelLoadRequest,
     "{\"model_name\":\"m\",\"parameters\":{\"config\":\"{}\",\"a\":true,\"b\":7}}"},
    {KS_LogSettingsRequest,
     "{\"settings\":{\"log_info\":false,\"log_verbose_level\":0,\"log_format\":\"\"}}"},
    {KS_TraceSettingResponse, "{\"settings\":{\"trace_level\":[\"OFF\"],\"trace_rate\":[]}}"},
    {KS_ModelStatisticsResponse,
     "{\"model_stats\":[{\"name\":\"m\",\"inference_count\":3,\"inference_stats\":{\"success\":{"
     "\"count\":3,\"ns\":9223372036854775807}},\"batch_stats\":[{\"batch_size\":1},{}]}]}"},
    {KS_Empty, "{}"},
};

TEST(serve_message_json_round) {
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    Str text = {0};
    arena_init(&a);
    Str bytes = from_json(&a, row[i].m, row[i].json);
    EXPECT(!to_json(&a, row[i].m, bytes, &text));
    EXPECT(i == 3 || str_is(text, row[i].json));  // an empty list is null
    for (int64_t n = 0; n < bytes.n; n++) {
      char *cut = mem_alloc(MAX(n, 1));
      memcpy(cut, bytes.p, (size_t)n);
      (void)to_json(&a, row[i].m, (Str){cut, n}, &text);
      mem_free(cut, MAX(n, 1));
    }
    arena_deinit(&a);
  }
}

TEST(serve_message_json_refuses) {
  static const Str bad[] = {
      {"\x0a\x05m", 3},                                          // a length beyond the message
      {"\x0a\x01\xff", 3},                                       // no UTF-8
      {"\x08\x01", 2},                                           // a number where a text is
      {"\x00\x01", 2},                                           // field 0
      {"\x0f\x01", 2},                                           // no wire type
      {"\x0b\x0a\x01m", 4},                                      // a group without an end
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},  // a number of 11 bytes
  };
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) {
    Arena a;
    Str text;
    arena_init(&a);
    EXPECT(to_json(&a, KS_Named, bad[i], &text));
    arena_deinit(&a);
  }
}

// A request of inference: what is read, and every cut of it.
TEST(serve_infer_message) {
  static const char bytes[] =
      "\x0a\x01m\x1a\x02id"                                                     // model_name, id
      "\x22\x0d\x0a\x07timeout\x12\x02\x10\x05"                                 // parameters
      "\x2a\x14\x0a\x01x\x12\x05INT64\x1a\x01\x03\x2a\x05\x1a\x03\x01\x02\x03"  // inputs
      "\x32\x03\x0a\x01y";                                                      // outputs
  Arena a;
  InferTarget target;
  InferRequest r;
  int64_t n = (int64_t)sizeof bytes - 1, want[] = {1, 2, 3};
  arena_init(&a);
  diag_init(&diag);
  EXPECT(!infer_message_read(&a, (Str){bytes, n}, &target, &r, &diag));
  EXPECT(str_is(target.model, "m") && str_is(r.id, "id") && r.timeout_us == 5);
  EXPECT(r.ninputs == 1 && r.input[0].rank == 1 && r.input[0].data.n == 24);
  EXPECT(!memcmp(r.input[0].data.p, want, 24) && r.noutputs == 1);
  for (int64_t i = 0; i < n; i++) {
    char *cut = mem_alloc(MAX(i, 1));
    memcpy(cut, bytes, (size_t)i);
    diag_init(&diag);
    tenon_status status = infer_message_read(&a, (Str){cut, i}, &target, &r, &diag);
    EXPECT(!status || diag.len);
    mem_free(cut, MAX(i, 1));
  }
  arena_deinit(&a);
}
