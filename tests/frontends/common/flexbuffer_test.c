// flexbuffer_test.c -- numbers of a FlexBuffer's map, and bytes that are none: every cut and every
// changed byte stays inside of the buffer, which the sanitizers see.
#include "base/platform.h"
#include "frontends/common/flexbuffer.h"
#include "test.h"

#include <string.h>

// As the library writes {"a": -3, "flag": true, "half": 0.5, "big": 70000 (indirect), "s": "x"}:
// keys, then what offsets lead to, the vector of keys, and the map with values of 4 bytes.
typedef struct Made {
  uint8_t p[160];
  int64_t n;
} Made;

static void put(Made *m, uint64_t v, int size) {
  for (int i = 0; i < size; i++) m->p[m->n++] = (uint8_t)(v >> 8 * i);
}

static Made make(int size) {
  static const char *const names[] = {"a", "big", "flag", "half", "s"};
  static const uint8_t types[] = {1 << 2 | 2, 6 << 2 | 2, 26 << 2, 3 << 2 | 2, 5 << 2};
  int64_t key[5];
  Made m = {.n = 0};
  for (int i = 0; i < 5; i++) {
    key[i] = m.n;
    memcpy(m.p + m.n, names[i], strlen(names[i]) + 1);
    m.n += (int64_t)strlen(names[i]) + 1;
  }
  int64_t big = m.n;
  put(&m, 70000, 4);
  put(&m, 1, 1);
  int64_t text = m.n;
  put(&m, 'x', 2);
  put(&m, 5, 1);
  int64_t keys = m.n;
  for (int i = 0; i < 5; i++) put(&m, (uint64_t)(m.n - key[i]), 1);
  put(&m, (uint64_t)(m.n - keys), size);
  put(&m, 1, size);
  put(&m, 5, size);
  int64_t values = m.n;
  put(&m, (uint64_t)-3, size);
  put(&m, (uint64_t)(m.n - big), size);
  put(&m, 1, size);
  put(&m, size == 4 ? 0x3f000000u : 0x3fe0000000000000u, size);
  put(&m, (uint64_t)(m.n - text), size);
  for (int i = 0; i < 5; i++) put(&m, types[i], 1);
  put(&m, (uint64_t)(m.n - values), 1);
  put(&m, 9 << 2 | (size == 4 ? 2 : 3), 1);
  put(&m, 1, 1);
  return m;
}

TEST(flexbuffer_numbers) {
  for (int size = 4; size <= 8; size += 4) {
    Made made = make(size);
    FlexMap m;
    double v = 0;
    EXPECT(flex_map((Str){(char *)made.p, made.n}, &m));
    EXPECT(m.n == 5);
    EXPECT(flex_number(&m, "a", &v) && v == -3);
    EXPECT(flex_number(&m, "big", &v) && v == 70000);
    EXPECT(flex_number(&m, "flag", &v) && v == 1);
    EXPECT(flex_number(&m, "half", &v) && v == 0.5);
    EXPECT(!flex_number(&m, "s", &v));
    EXPECT(!flex_number(&m, "fla", &v));
    EXPECT(!flex_number(&m, "flags", &v));
  }
}

static void read_all(const uint8_t *p, int64_t n) {
  FlexMap m;
  double v;
  if (!flex_map((Str){(const char *)p, n}, &m)) return;
  flex_number(&m, "a", &v);
  flex_number(&m, "big", &v);
  flex_number(&m, "half", &v);
  flex_number(&m, "no such key", &v);
}

TEST(flexbuffer_damaged) {
  for (int size = 4; size <= 8; size += 4) {
    Made made = make(size);
    for (int64_t n = 0; n <= made.n; n++) {  // a block of its own, so that a read beyond it is seen
      uint8_t *p = mem_alloc(MAX(n, 1));
      memcpy(p, made.p + (made.n - n), (size_t)n);
      read_all(p, n);
      memcpy(p, made.p, (size_t)n);
      read_all(p, n);
      mem_free(p, MAX(n, 1));
    }
    uint8_t *p = mem_alloc(made.n);
    for (int64_t i = 0; i < made.n; i++)
      for (int v = 0; v < 256; v++) {
        memcpy(p, made.p, (size_t)made.n);
        p[i] = (uint8_t)v;
        read_all(p, made.n);
      }
    mem_free(p, made.n);
  }
}
