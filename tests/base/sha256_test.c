// sha256_test.c -- SHA-256 against the vectors of FIPS 180-4, by instructions and in C.
#include "base/sha256.h"

#include "test.h"

static void hex_of(const uint8_t *hash, char out[2 * SHA256_BYTES + 1]) {
  for (int i = 0; i < SHA256_BYTES; i++) snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

static void expect_hash(const void *p, int64_t n, bool portable, int64_t step, const char *want) {
  uint8_t hash[SHA256_BYTES];
  char text[2 * SHA256_BYTES + 1];
  Sha256 s;
  if (portable)
    sha256_init_portable(&s);
  else
    sha256_init(&s);
  sha256_put(&s, NULL, 0);
  for (int64_t at = 0; at < n; at += step) sha256_put(&s, (const char *)p + at, MIN(step, n - at));
  sha256_end(&s, hash);
  hex_of(hash, text);
  EXPECT_STR_EQ(text, want);
}

TEST(sha256_vectors) {
  static const struct {
    const char *text, *hash;
  } known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
       "opqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
  for (int i = 0; i < ARRAY_LEN(known); i++)
    for (int portable = 0; portable < 2; portable++) {
      int64_t n = (int64_t)strlen(known[i].text);
      expect_hash(known[i].text, n, portable, 1000, known[i].hash);
      expect_hash(known[i].text, n, portable, 7, known[i].hash);
    }
}

TEST(sha256_million) {
  enum { N = 1000000 };
  static char text[N];
  memset(text, 'a', N);
  const char *want = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  for (int portable = 0; portable < 2; portable++) {
    expect_hash(text, N, portable, N, want);
    expect_hash(text, N, portable, 1021, want);
  }
}

// Both forms agree at every length around a block, and pieces are hashes of their own.
TEST(sha256_forms_and_pieces) {
  enum { N = 200 };
  uint8_t text[N], soft[SHA256_BYTES];
  Sha256Piece piece[N];
  for (int i = 0; i < N; i++) text[i] = (uint8_t)(i * 37 + 11);
  for (int i = 0; i < N; i++) piece[i] = (Sha256Piece){.p = text, .n = i};
  Pool *pool = pool_create(3);
  sha256_pieces(piece, N, pool);
  pool_release(pool);
  for (int i = 0; i < N; i++) {
    Sha256 s;
    sha256_init_portable(&s);
    sha256_put(&s, text, i);
    sha256_end(&s, soft);
    EXPECT(!memcmp(soft, piece[i].hash, sizeof soft));
  }
}
