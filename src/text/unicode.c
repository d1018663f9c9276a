// unicode.c -- categories, lower case, normal forms and UTF-8.
//
// Tables are sorted runs that a binary search reads; text below U+0300, which no normal form by
// canonical equivalence but NFD changes, takes a short cut.  Normalising keeps one run of a starter
// and its combining marks at a time: it is decomposed, sorted by combining class (stable, by
// counting for long runs) and composed.
#include "text/unicode.h"

#include "base/platform.h"

enum { HANGUL = 0xac00, HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11a7 };
enum { HANGUL_NV = 21, HANGUL_NT = 28, HANGUL_COUNT = 11172, HANGUL_NL = 19 };
enum { DECOMPOSED_MAX = 18, DECOMPOSED_DEPTH = 8 };

const char unicode_category_name[UC_COUNT][3] = {
    "Cn", "Cc", "Cf", "Cs", "Co", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
    "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"};

static const uint32_t category_run[] = {
#define CAT(first, category) (uint32_t)(first) << 5 | UC_##category,
#include "text/unicode.def"
};
static const uint32_t combining_run[] = {
#define CCC(first, class) (uint32_t)(first) << 8 | (class),
#include "text/unicode.def"
};
const UnicodeLower unicode_lowers[] = {
#define LOW(first, last, stride, delta) {first, last, stride, delta},
#include "text/unicode.def"
};
const int64_t unicode_nlowers = ARRAY_LEN(unicode_lowers);
const UnicodeRange unicode_han[] = {
#define HAN(first, last) {first, last},
#include "text/unicode.def"
};
const int64_t unicode_nhan = ARRAY_LEN(unicode_han);

typedef struct Newer {
  uint32_t first, last;
  int version;
} Newer;
static const Newer newer[] = {
#define NEW(first, last, version) {first, last, version},
#include "text/unicode.def"
};

typedef struct Decomposition {
  uint32_t code : 21, compat : 1, n : 8;
  uint32_t at;
} Decomposition;
static const Decomposition decomposes[] = {
#define DEC(code, compat, at, n) {code, compat, n, at},
#include "text/unicode.def"
};
static const uint32_t decomposed[] = {
#define DTO(code) code,
#include "text/unicode.def"
};
typedef struct Composition {
  uint32_t first, second, composite;
} Composition;
static const Composition composes[] = {
#define COM(first, second, composite) {first, second, composite},
#include "text/unicode.def"
};

// The last of n sorted runs whose key, above `shift` bits, is at most c.
static int64_t run_of(const uint32_t *run, int64_t n, int shift, uint32_t c) {
  int64_t low = 0, high = n;
  while (high - low > 1) {
    int64_t mid = (low + high) / 2;
    if (run[mid] >> shift <= c)
      low = mid;
    else
      high = mid;
  }
  return low;
}

UnicodeCategory unicode_category(uint32_t c) {
  if (c >= UNICODE_END) return UC_Cn;
  return (UnicodeCategory)(category_run[run_of(category_run, ARRAY_LEN(category_run), 5, c)] & 31);
}
int unicode_combining(uint32_t c) {
  if (c < 0x300 || c >= UNICODE_END) return 0;
  return (int)(combining_run[run_of(combining_run, ARRAY_LEN(combining_run), 8, c)] & 255);
}

int64_t unicode_runs(void) { return ARRAY_LEN(category_run); }
UnicodeRange unicode_run(int64_t i, UnicodeCategory *out) {
  *out = (UnicodeCategory)(category_run[i] & 31);
  return (UnicodeRange){category_run[i] >> 5, i + 1 < ARRAY_LEN(category_run)
                                                  ? (category_run[i + 1] >> 5) - 1
                                                  : UNICODE_END - 1};
}

// The version that brought a character: 9, 10 for later ones, 8 for all others.
static int version_of(uint32_t c) {
  int64_t low = 0, high = ARRAY_LEN(newer);
  while (low < high) {
    int64_t mid = (low + high) / 2;
    if (c < newer[mid].first)
      high = mid;
    else if (c > newer[mid].last)
      low = mid + 1;
    else
      return newer[mid].version;
  }
  return 8;
}

UnicodeCategory unicode_category_in(uint32_t c, int version) {
  if (c < 0x300) return unicode_category(c);
  if (c == 0x166d) return UC_Po;                                   // a symbol since 12.0
  if (version == 8 && (c == 0x1885 || c == 0x1886)) return UC_Lo;  // marks since 9.0
  return version_of(c) > version ? UC_Cn : unicode_category(c);
}

bool unicode_is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

uint32_t unicode_to_lower(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  int64_t low = 0, high = ARRAY_LEN(unicode_lowers);
  while (low < high) {
    int64_t mid = (low + high) / 2;
    const UnicodeLower *r = &unicode_lowers[mid];
    if (c < r->first)
      high = mid;
    else if (c > r->last)
      low = mid + 1;
    else
      return (c - r->first) % (uint32_t)r->stride ? c : (uint32_t)((int64_t)c + r->delta);
  }
  return c;
}

// ---- UTF-8 ----
int utf8_write(uint8_t *p, uint32_t c) {
  if (c < 0x80) return p[0] = (uint8_t)c, 1;
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) p[i] = (uint8_t)(0x80 | (c & 0x3f));
  p[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
  return n;
}

int utf8_check(const uint8_t *p, int64_t n, bool *out_whole, bool *out_cut) {
  *out_whole = *out_cut = false;
  uint8_t c = p[0];
  if (c < 0x80) return *out_whole = true, 1;
  if (c < 0xc2 || c > 0xf4) return 1;
  int need = utf8_bytes(c);
  uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
  uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
  for (int i = 1; i < need; i++, low = 0x80, high = 0xbf) {
    if (i == n) return *out_cut = true, i;
    if (p[i] < low || p[i] > high) return i;
  }
  *out_whole = true;
  return need;
}

int64_t utf8_valid(Str text) {
  const uint8_t *p = (const uint8_t *)text.p;
  int64_t i = 0;
  while (i < text.n) {
    uint64_t eight;
    if (text.n - i >= 8 && (memcpy(&eight, p + i, 8), !(eight & 0x8080808080808080u))) {
      i += 8;
      continue;
    }
    bool whole, cut;
    int n = utf8_check(p + i, text.n - i, &whole, &cut);
    if (!whole) return i;
    i += n;
  }
  return i;
}

void utf8_repair(Str text, Bytes *out) {
  while (text.n) {
    int64_t fine = utf8_valid(text);
    bytes_put(out, text.p, fine);
    text.p += fine;
    text.n -= fine;
    if (!text.n) return;
    bool whole, cut;
    int n = utf8_check((const uint8_t *)text.p, text.n, &whole, &cut);
    bytes_put(out, "\xef\xbf\xbd", 3);
    text.p += n;
    text.n -= n;
  }
}

// ---- growing bytes ----
void bytes_grow(Bytes *b, int64_t more) {
  int64_t need, cap = MAX(b->cap * 2, 256);
  if (!ck_add(b->n, more, &need)) trap_raise(TENON_ENOMEM, "a text is too long");
  cap = MAX(cap, need);
  uint8_t *p = mem_alloc(cap);
  if (!p) trap_raise(TENON_ENOMEM, "out of memory: %lld bytes for a text", (long long)cap);
  if (b->n) memcpy(p, b->p, (size_t)b->n);
  mem_free(b->p, b->cap);
  b->p = p;
  b->cap = cap;
}
void bytes_free(Bytes *b) {
  mem_free(b->p, b->cap);
  *b = (Bytes){0};
}
void bytes_put_char(Bytes *b, uint32_t c) {
  bytes_room(b, 4);
  b->n += utf8_write(b->p + b->n, c);
}

// ---- normal forms ----
// The row of a code point; -1: it decomposes to itself.
static int64_t row_of(uint32_t c) {
  int64_t low = 0, high = ARRAY_LEN(decomposes);
  while (low < high) {
    int64_t mid = (low + high) / 2;
    if (decomposes[mid].code < c)
      low = mid + 1;
    else
      high = mid;
  }
  return low < ARRAY_LEN(decomposes) && decomposes[low].code == c ? low : -1;
}

// Appends what c decomposes to, in full.  Depth is that of Unicode's data, at most four.
static int decompose(uint32_t c, bool compat, uint32_t *out, int n, int depth) {
  if (c >= HANGUL && c < HANGUL + HANGUL_COUNT) {
    uint32_t i = c - HANGUL;
    out[n++] = HANGUL_L + i / (HANGUL_NV * HANGUL_NT);
    out[n++] = HANGUL_V + i / HANGUL_NT % HANGUL_NV;
    if (i % HANGUL_NT) out[n++] = HANGUL_T + i % HANGUL_NT;
    return n;
  }
  int64_t row = c < 0xa0 || depth == DECOMPOSED_DEPTH ? -1 : row_of(c);
  if (row < 0 || (decomposes[row].compat && !compat)) {
    out[n++] = c;
    return n;
  }
  const uint32_t *to = decomposed + decomposes[row].at;
  for (uint32_t i = 0; i < decomposes[row].n; i++) n = decompose(to[i], compat, out, n, depth + 1);
  return n;
}

// What a and b compose to; 0: nothing.
static uint32_t compose(uint32_t a, uint32_t b) {
  if (a - HANGUL_L < HANGUL_NL && b - HANGUL_V < HANGUL_NV)
    return HANGUL + ((a - HANGUL_L) * HANGUL_NV + (b - HANGUL_V)) * HANGUL_NT;
  if (a - HANGUL < HANGUL_COUNT && (a - HANGUL) % HANGUL_NT == 0 &&
      b - HANGUL_T - 1 < HANGUL_NT - 1)
    return a + (b - HANGUL_T);
  int64_t low = 0, high = ARRAY_LEN(composes);
  while (low < high) {
    int64_t mid = (low + high) / 2;
    const Composition *r = &composes[mid];
    if (r->first < a || (r->first == a && r->second < b))
      low = mid + 1;
    else
      high = mid;
  }
  if (low == ARRAY_LEN(composes)) return 0;
  return composes[low].first == a && composes[low].second == b ? composes[low].composite : 0;
}

static uint32_t class_of(uint32_t x) { return x >> 24; }

// Stable order by class of n code points that all have one, by counting.
static void order(uint32_t *v, int64_t n, Bytes *scratch) {
  if (n < 32) {
    for (int64_t i = 1; i < n; i++)
      for (int64_t k = i; k > 0 && class_of(v[k - 1]) > class_of(v[k]); k--) {
        uint32_t x = v[k];
        v[k] = v[k - 1];
        v[k - 1] = x;
      }
    return;
  }
  int64_t at[257] = {0};
  scratch->n = 0;
  bytes_room(scratch, n * 4);
  for (int64_t i = 0; i < n; i++) at[class_of(v[i]) + 1]++;
  for (int i = 0; i < 256; i++) at[i + 1] += at[i];
  uint32_t *to = (uint32_t *)(void *)scratch->p;
  for (int64_t i = 0; i < n; i++) to[at[class_of(v[i])]++] = v[i];
  memcpy(v, to, (size_t)n * 4);
}

// Composes in place; returns how many are left.
static int64_t compose_all(uint32_t *v, int64_t n, bool old) {
  int64_t starter = -1, to = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t x = v[i], class = class_of(x);
    // Blocked: something of the same or a higher class, or a starter, is between them.
    bool blocked = starter < 0 || (to > starter + 1 && (class_of(v[to - 1]) >= class));
    uint32_t joined = blocked ? 0 : compose(v[starter] & 0xffffff, x & 0xffffff);
    if (joined && !(old && version_of(joined) > 9)) {
      v[starter] = joined;
      continue;
    }
    if (!class) starter = to;
    v[to++] = x;
  }
  return to;
}

static void flush(UnicodeScratch *part, bool join, bool old, Bytes *out) {
  uint32_t *v = (uint32_t *)(void *)part->code.p;
  int64_t n = part->code.n / 4;
  for (int64_t i = 0; i < n;) {
    int64_t end = i;
    while (end < n && class_of(v[end])) end++;
    if (end - i > 1) order(v + i, end - i, &part->sort);
    i = end + 1;
  }
  if (join) n = compose_all(v, n, old);
  bytes_room(out, n * 4);
  for (int64_t i = 0; i < n; i++) out->n += utf8_write(out->p + out->n, v[i] & 0xffffff);
  part->code.n = 0;
}

// A starter that never is the second of a composition, nor begins with one.
static bool begins_part(uint32_t c) {
  return c < 0x300 ||
         (c >= 0x2e80 && c < 0xa66f && c != 0x3099 && c != 0x309a && !(c >= 0x302a && c <= 0x302f));
}

static void add(UnicodeScratch *part, uint32_t c, bool compat, bool old) {
  uint32_t to[DECOMPOSED_MAX * 2] = {c};
  bool fixed = old && c >= 0x300 && version_of(c) > 9;
  int n = fixed ? 1 : decompose(c, compat, to, 0, 0);
  bytes_room(&part->code, n * 4);
  for (int i = 0; i < n; i++) {
    uint32_t x = to[i] | (fixed ? 0 : (uint32_t)unicode_combining(to[i]) << 24);
    memcpy(part->code.p + part->code.n, &x, 4);
    part->code.n += 4;
  }
}

void unicode_normalise(UnicodeForm form, bool old, Str text, UnicodeScratch *part, Bytes *out) {
  bool join = form == UNICODE_NFC || form == UNICODE_NFKC;
  bool compat = form == UNICODE_NFKC || form == UNICODE_NFKD;
  const uint8_t *p = (const uint8_t *)text.p;
  part->code.n = 0;
  uint32_t plain = form == UNICODE_NFC ? 0x300 : 0x80;  // below: itself, unless a mark follows
  for (int64_t i = 0; i < text.n;) {
    // A run of plain characters, but the last one: what follows may join it.
    int64_t end = i, last = i;
    int n = 0;
    uint32_t c = 0;
    while (end < text.n && (c = utf8_get(p + end, &n)) < plain) last = end, end += n;
    if (end > i) {
      flush(part, join, old, out);
      if (end < text.n) end = last;
      bytes_put(out, p + i, end - i);
      i = end;
      if (i == text.n) break;
      add(part, utf8_get(p + i, &n), compat, old);
      i += n;
      continue;
    }
    if (begins_part(c)) flush(part, join, old, out);
    add(part, c, compat, old);
    i += n;
  }
  flush(part, join, old, out);
}
