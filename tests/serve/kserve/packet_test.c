// packet_test.c -- frames between front and engine: written and read, and every cut of them.
#include "serve/kserve/packet.h"

#include "test.h"

static Diag diag;

TEST(serve_packet_round_trip) {
  Arena a;
  Packet out;
  int64_t list[] = {2, 0};
  PacketTensor t[] = {{.index = 0, .dtype = DT_F32, .rank = 2, .shape = {2, 3}, .bytes = 24},
                      {.index = 1, .dtype = DT_U8, .rank = 0, .bytes = 1},
                      {.index = 2, .dtype = DT_I64, .rank = 1, .shape = {0}, .bytes = 0}};
  Packet in = {.ns = 7, .nlist = 2, .list = list, .n = 3, .tensor = t};
  char *data[3];
  arena_init(&a);
  int64_t bytes = packet_bytes(&in);
  EXPECT(bytes % 16 == 0);
  char *p = arena_alloc(&a, bytes);
  packet_write(p, &in, data);
  for (int i = 0; i < 3; i++) memset(data[i], 'a' + i, (size_t)t[i].bytes);
  for (int64_t n = 0; n < bytes; n++) {
    diag_init(&diag);
    char *cut = arena_dup(&a, p, n ? n : 1);
    EXPECT(packet_read(&a, (Str){cut, n}, &out, &diag) || n > bytes - 16);
  }
  diag_init(&diag);
  EXPECT(!packet_read(&a, (Str){p, bytes}, &out, &diag));
  EXPECT(out.ns == 7 && out.nlist == 2 && out.list[0] == 2 && out.n == 3);
  EXPECT(out.tensor[0].shape[1] == 3 && out.tensor[0].data[23] == 'a');
  EXPECT(out.tensor[1].data[0] == 'b' && out.tensor[2].bytes == 0);
  arena_deinit(&a);
}

TEST(serve_signature_round_trip) {
  Arena a;
  StrBuf b;
  JsonWriter w;
  KsSignature s, in = {.ninputs = 1, .noutputs = 1, .rows = true, .why_not = "", .target = "cpu"};
  in.input = &(KsValue){"x", ks_type(DT_F16), 2, {-1, 3}};
  in.output = &(KsValue){"y", ks_type(DT_STRING), -1, {0}};
  arena_init(&a);
  strbuf_init(&b, &a);
  json_init(&w, &b, true);
  ks_signature_write(&w, &in);
  diag_init(&diag);
  EXPECT(!ks_signature_read(&a, strbuf_str(&b), &s, &diag));
  EXPECT(s.rows && s.input[0].type == ks_type(DT_F16) && s.input[0].shape[0] == -1);
  EXPECT(s.output[0].rank == -1 && !strcmp(s.output[0].name, "y"));
  arena_deinit(&a);
}
