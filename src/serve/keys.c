// keys.c -- API keys (keys.h).
//
// Keys are kept and compared as SHA-256 digests, all of them each time, so that neither a key's
// length nor its first different byte shows in the time.
#include "serve/keys.h"

#include "base/platform.h"

enum { KEYS_MOST = 10000, KEY_BYTES = 512 };

static void digest_of(Str text, uint8_t out[SHA256_BYTES]) {
  Sha256 h;
  sha256_init(&h);
  sha256_put(&h, text.p, text.n);
  sha256_end(&h, out);
}

static Str trim(Str s) {
  while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) s = (Str){s.p + 1, s.n - 1};
  while (s.n && strchr(" \t\r", s.p[s.n - 1])) s.n--;
  return s;
}

static tenon_status add_lines(Arena *a, const char *path, Str text, Diag *d, Keys *out) {
  for (int64_t line = 1; text.n; line++) {
    const char *end = memchr(text.p, '\n', (size_t)text.n);
    int64_t n = end ? end - text.p : text.n;
    Str key = trim((Str){text.p, n});
    text = (Str){text.p + MIN(n + 1, text.n), text.n - MIN(n + 1, text.n)};
    if (!key.n || key.p[0] == '#') continue;
    if (key.n > KEY_BYTES)
      return fail(d, TENON_EINVAL, NOWHERE, "%s:%lld: an API key has %lld bytes; at most %d", path,
                  (long long)line, (long long)key.n, KEY_BYTES);
    if (out->n == KEYS_MOST)
      return fail(d, TENON_EINVAL, NOWHERE, "%s: more than %d API keys", path, KEYS_MOST);
    if (!out->digest) out->digest = arena_alloc_array(a, KEYS_MOST, SHA256_BYTES);
    digest_of(key, out->digest[out->n++]);
  }
  if (!out->n) return fail(d, TENON_EINVAL, NOWHERE, "%s: there is no API key in this file", path);
  return TENON_OK;
}

tenon_status keys_read(Arena *a, const char *path, Diag *d, Keys *out) {
  File file;
  *out = (Keys){0};
  TRY(file_open(path, &file, d));
  tenon_status s = add_lines(a, path, (Str){(const char *)file.bytes, file.size}, d, out);
  file_close(&file);
  return s;
}

uint32_t keys_client(const Keys *k, Str header) {
  if (!k) return (uint32_t)hash_bytes(header.p, header.n, 0) | 1;
  bool bearer = header.n > 7 && (header.p[0] | 32) == 'b' && !memcmp(header.p + 1, "earer ", 6);
  uint8_t given[SHA256_BYTES];
  digest_of(bearer ? trim((Str){header.p + 7, header.n - 7}) : (Str){"", 0}, given);
  uint32_t found = 0;
  for (int64_t i = 0; i < k->n; i++) {
    unsigned differ = 0;
    for (int j = 0; j < SHA256_BYTES; j++) differ |= (unsigned)(k->digest[i][j] ^ given[j]);
    found |= (uint32_t)(i + 1) & (0u - (uint32_t)!differ);
  }
  return bearer ? found : 0;
}
