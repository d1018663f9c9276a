// certificate_test.c -- certificates, written, read and damaged.
#include "compress/certificate.h"

#include "test.h"

static void sample(QuantCertificate *c, Arena *a) {
  CertifiedLayer l = {.node = "conv \"1\"",
                      .choice = "int8",
                      .migrated = "smooth",
                      .share = 0.25,
                      .ns = {100, 40}},
                 m = {.node = "fc", .choice = "f32", .kept = "by --keep"};
  *c = (QuantCertificate){.source = "m.onnx",
                          .split = {4, 3, 3},
                          .seed = 7,
                          .metric = METRIC_AGREEMENT,
                          .value = 1.0 / 3,
                          .bound = 0.1,
                          .confidence = 0.95,
                          .budget = "agreement>=10%",
                          .looks = 2,
                          .target = "cpu",
                          .options = "--to int8"};
  memset(c->model.b, 0xab, sizeof c->model.b);
  memset(c->samples.b, 0xcd, sizeof c->samples.b);
  c->has_samples = true;
  vec_push(a, &c->exact_on, "cpu");
  vec_push(a, &c->layer, l);
  vec_push(a, &c->layer, m);
}

static void print(QuantCertificate *c, Arena *a, StrBuf *b) {
  strbuf_init(b, a);
  quant_certificate_print(c, b);
}

TEST(certificate_reads_what_it_wrote) {
  Arena a;
  Diag d;
  StrBuf b, again;
  QuantCertificate c, back;
  arena_init(&a);
  diag_init(&d);
  sample(&c, &a);
  print(&c, &a, &b);
  EXPECT_STATUS(quant_certificate_parse(strbuf_str(&b), &a, &d, &back), TENON_OK);
  print(&back, &a, &again);
  EXPECT_STR_EQ(strbuf_text(&again), strbuf_text(&b));
  EXPECT_F64_EQ(back.value, 1.0 / 3);
  arena_deinit(&a);
}

// Cut off anywhere, or with any byte changed, it is refused or is another sound certificate.
TEST(certificate_damaged) {
  Arena a;
  StrBuf b;
  QuantCertificate c;
  arena_init(&a);
  sample(&c, &a);
  print(&c, &a, &b);
  int refused = 0;
  for (int64_t i = 0; i < b.n; i++) {
    ArenaMark m = arena_mark(&a);
    Diag d;
    QuantCertificate back;
    char *copy = arena_dup(&a, b.p, b.n);
    diag_init(&d);
    copy[i] ^= 1;
    refused += quant_certificate_parse((Str){copy, b.n}, &a, &d, &back) != TENON_OK;
    diag_init(&d);
    if (i < b.n - 2) EXPECT(quant_certificate_parse((Str){b.p, i}, &a, &d, &back) != TENON_OK);
    arena_reset(&a, m);
  }
  EXPECT(refused > b.n / 2);
  arena_deinit(&a);
}

TEST(certificate_says_what_is_missing) {
  static const char *const keys[] = {"tenon-certificate",
                                     "model",
                                     "from",
                                     "split",
                                     "seed",
                                     "data",
                                     "metric",
                                     "value",
                                     "bound",
                                     "confidence",
                                     "looks",
                                     "exact-on",
                                     "target",
                                     "options",
                                     "layers"};
  Arena a;
  StrBuf b;
  QuantCertificate c, back;
  arena_init(&a);
  sample(&c, &a);
  print(&c, &a, &b);
  for (int i = 0; i < ARRAY_LEN(keys); i++) {
    Diag d;
    char *copy = str_copy(&a, strbuf_str(&b)), *at;
    diag_init(&d);
    at = strstr(copy, str_printf(&a, "\"%s\"", keys[i]));
    REQUIRE(at);
    at[1] = 'X';
    EXPECT_STATUS(quant_certificate_parse((Str){copy, b.n}, &a, &d, &back), TENON_EFORMAT);
    EXPECT_CONTAINS(d.text, keys[i]);
  }
  arena_deinit(&a);
}
