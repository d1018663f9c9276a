// requests.c -- fuzz target: the JSON of requests, of OpenAI's routes and KServe's.
//
// The first byte is the route, the second how much of the body is JSON where tensors may follow as
// bytes; the rest is the body.  It is answered with 200 or 4xx (503 and 504: no engine, too late),
// or it waits for an engine.
#include "fuzz_serve.h"

#define MODEL "/v2/models/m"
static const char *const route[] = {"/v1/completions",
                                    "/v1/chat/completions",
                                    "/v1/responses",
                                    "/v1/embeddings",
                                    "/v1/rerank",
                                    "/tokenize",
                                    "/detokenize",
                                    "/apply-template",
                                    MODEL "/infer",
                                    MODEL "/versions/1/infer",
                                    "/v2/repository/index",
                                    "/v2/repository/models/m/load",
                                    "/v2/repository/models/m/unload",
                                    "/v2/logging",
                                    "/v2/trace/setting",
                                    MODEL "/trace/setting"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FuzzFront f;
  static FuzzAnswer a;
  static uint8_t request[1 << 18];
  char length[64] = "";
  if (size < 2 || size > sizeof request / 2) return 0;
  const char *path = route[data[0] % ARRAY_LEN(route)];
  int64_t n = (int64_t)size - 2;
  if (data[1])
    snprintf(length, sizeof length, "Inference-Header-Content-Length: %lld\r\n",
             (long long)MIN(n, (int64_t)data[1] * 2));
  int head = snprintf((char *)request, 512,
                      "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %lld\r\n%s\r\n", path,
                      (long long)n, length);
  memcpy(request + head, data + 2, (size_t)n);
  fuzz_begin();
  front_open(&f);
  front_ask(&f, request, head + n, 0, &a);
  front_close(&f);
  fuzz_end();
  if (!a.n) return 0;
  int status = (int)strtol(a.bytes + 9, NULL, 10);
  if (a.n < 12 || memcmp(a.bytes, "HTTP/1.1 ", 9) ||
      (status != 200 && status != 503 && status != 504 && (status < 400 || status > 499)))
    finding("status", path);
  return 0;
}
