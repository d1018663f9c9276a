// certificate.c -- fuzz target: certificates of quantised models.
#include "compress/certificate.h"
#include "fuzz.h"

// What reads prints a text that reads, and prints the same again.
static void round_trip(const QuantCertificate *c, Arena *a, Diag *d) {
  StrBuf first, second;
  QuantCertificate again;
  strbuf_init(&first, a);
  strbuf_init(&second, a);
  quant_certificate_print(c, &first);
  if (quant_certificate_parse(strbuf_str(&first), a, d, &again)) __builtin_trap();
  quant_certificate_print(&again, &second);
  if (!str_eq(strbuf_str(&first), strbuf_str(&second))) __builtin_trap();
}

static void read_certificate(Str text, Arena *a, Diag *d) {
  QuantCertificate c;
  if (!quant_certificate_parse(text, a, d, &c)) round_trip(&c, a, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_certificate);
}
