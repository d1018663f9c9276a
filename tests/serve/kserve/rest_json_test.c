// rest_json_test.c -- bodies of inference: what they say, what is refused, and any cut of them.
#include "serve/kserve/rest_json.h"

#include "test.h"

static Diag diag;

static tenon_status read_text(Arena *a, const char *text, InferRequest *out) {
  diag_init(&diag);
  return rest_read(a, str_of(text), (int64_t)strlen(text), out, &diag);
}

TEST(serve_rest_json_reads) {
  Arena a;
  InferRequest r;
  arena_init(&a);
  // The data stand before what they are, are nested, and a string holds brackets and quotes.
  EXPECT(!read_text(&a,
                    "{\"id\":\"]\\\"[\",\"inputs\":[{\"data\":[[1,2],[3,-4e0]],\"name\":\"x\","
                    "\"shape\":[2,2],\"datatype\":\"FP64\"},{\"name\":\"s\",\"datatype\":"
                    "\"BYTES\",\"shape\":[2],\"data\":[\"a]\\\"\",\"\\u00e4\"]}]}",
                    &r));
  double want[] = {1, 2, 3, -4};
  EXPECT(r.ninputs == 2 && r.input[0].data.n == 32 && !memcmp(r.input[0].data.p, want, 32));
  EXPECT(str_eq(r.input[1].data, STR("\3\0\0\0a]\"\2\0\0\0\xc3\xa4")));
  EXPECT(str_is(r.id, "]\"["));
  arena_deinit(&a);
}

// Decimals are the doubles that strtod gives, whether short or long.
TEST(serve_rest_json_numbers) {
  static const char *const text[] = {"0.1",
                                     "-0.3",
                                     "123456789012345",
                                     "1234567890123456",
                                     "1e-5",
                                     "0.30000000000000004",
                                     "-0",
                                     "9007199254740993"};
  for (int64_t i = 0; i < ARRAY_LEN(text); i++) {
    Arena a;
    arena_init(&a);
    Diag d;
    diag_init(&d);
    KsTensor t = {.name = STR("x"), .type = ks_type(DT_F64), .rank = 1, .shape = {1}, .count = 1};
    const char *list = str_printf(&a, " [ %s ] ", text[i]);
    double want;
    EXPECT(!ks_read_json(&a, str_of(list), &t, &d));
    Json j;
    EXPECT(!json_parse(&a, str_of(text[i]), &d, &j));
    want = j.f;
    EXPECT(!memcmp(t.data.p, &want, 8) || (want == 0 && get_f64(DT_F64, t.data.p, 0) == 0));
    arena_deinit(&a);
  }
}

// Every beginning of a body is refused, and nothing behind its end is read.
TEST(serve_rest_json_cut) {
  static const char text[] =
      "{\"inputs\":[{\"name\":\"x\",\"shape\":[3],\"datatype\":\"BYTES\",\"data\":[\"a\",\"\\n\","
      "\"\"]}],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":true}}]}";
  for (int64_t n = 0; n <= (int64_t)sizeof text - 1; n++) {
    Arena a;
    InferRequest r;
    arena_init(&a);
    diag_init(&diag);
    char *copy = arena_alloc(&a, n ? n : 1);
    memcpy(copy, text, (size_t)n);
    tenon_status s = rest_read(&a, (Str){copy, n}, n, &r, &diag);
    EXPECT((n == (int64_t)sizeof text - 1) == !s);
    arena_deinit(&a);
  }
}
