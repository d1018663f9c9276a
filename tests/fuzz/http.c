// http.c -- fuzz target: the bytes of a connection, through the whole front.
//
// The first two bytes say where they are cut: a connection that arrives in two parts must have the
// statuses of the same one in one piece, or a proxy in front and we would disagree about where a
// request ends.
#include "fuzz_serve.h"

// What is no request is refused with the status of what was seen first, which the cut may change.
static int kind_of(int status) {
  return status == 400 || status == 414 || status == 431 || status == 501 || status == 505 ? 400
                                                                                           : status;
}

static int statuses(const FuzzAnswer *a, int *out, int most) {
  int n = 0;
  for (int64_t i = 0; i + 12 < a->n && n < most; i++) {
    if (memcmp(a->bytes + i, "HTTP/1.1 ", 9) || a->bytes[i + 9] < '1' || a->bytes[i + 9] > '5')
      continue;  // the words stand in a message, too
    int status = (int)strtol(a->bytes + i + 9, NULL, 10);
    if (status != 100) out[n++] = kind_of(status);  // sent where the body is not there yet
  }
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FuzzFront f;
  static FuzzAnswer whole, cut;
  int a[64], b[64];
  if (size < 2) return 0;
  int64_t n = (int64_t)size - 2, at = n ? (data[0] | data[1] << 8) % n : 0;
  fuzz_begin();
  front_open(&f);
  front_ask(&f, data + 2, n, 0, &whole);
  front_close(&f);
  front_open(&f);
  front_ask(&f, data + 2, n, at, &cut);
  front_close(&f);
  int na = statuses(&whole, a, 64), nb = statuses(&cut, b, 64);
  if (na != nb || memcmp(a, b, (size_t)na * sizeof *a))
    finding("cut", "two parts are answered otherwise than one piece");
  if (whole.n && (whole.n < 12 || memcmp(whole.bytes, "HTTP/1.1 ", 9)))
    finding("answer", "what is sent is no answer");
  fuzz_end();
  return 0;
}
