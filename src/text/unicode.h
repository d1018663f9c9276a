// unicode.h -- what tokenizers need of Unicode 16.0: categories, lower case, normal forms, UTF-8.
//
// All functions are pure and take any code point up to UNICODE_END; what is not assigned has the
// category Cn.  The tables are generated (tools/unicode.py).
#ifndef TENON_TEXT_UNICODE_H
#define TENON_TEXT_UNICODE_H

#include "text/bytes.h"

enum { UNICODE_END = 0x110000 };

typedef enum {
  UC_Cn,
  UC_Cc,
  UC_Cf,
  UC_Cs,
  UC_Co,
  UC_Lu,
  UC_Ll,
  UC_Lt,
  UC_Lm,
  UC_Lo,
  UC_Mn,
  UC_Mc,
  UC_Me,
  UC_Nd,
  UC_Nl,
  UC_No,
  UC_Pc,
  UC_Pd,
  UC_Ps,
  UC_Pe,
  UC_Pi,
  UC_Pf,
  UC_Po,
  UC_Sm,
  UC_Sc,
  UC_Sk,
  UC_So,
  UC_Zs,
  UC_Zl,
  UC_Zp,
  UC_COUNT
} UnicodeCategory;
extern const char unicode_category_name[UC_COUNT][3];  // "Lu"
// Sets of categories, as bits.
#define UC_BIT(c) (1u << UC_##c)
#define UC_L      (UC_BIT(Lu) | UC_BIT(Ll) | UC_BIT(Lt) | UC_BIT(Lm) | UC_BIT(Lo))
#define UC_M      (UC_BIT(Mn) | UC_BIT(Mc) | UC_BIT(Me))
#define UC_N      (UC_BIT(Nd) | UC_BIT(Nl) | UC_BIT(No))
#define UC_P                                                                                       \
  (UC_BIT(Pc) | UC_BIT(Pd) | UC_BIT(Ps) | UC_BIT(Pe) | UC_BIT(Pi) | UC_BIT(Pf) | UC_BIT(Po))
#define UC_S (UC_BIT(Sm) | UC_BIT(Sc) | UC_BIT(Sk) | UC_BIT(So))
#define UC_Z (UC_BIT(Zs) | UC_BIT(Zl) | UC_BIT(Zp))
#define UC_C (UC_BIT(Cn) | UC_BIT(Cc) | UC_BIT(Cf) | UC_BIT(Cs) | UC_BIT(Co))

UnicodeCategory unicode_category(uint32_t c);
static inline bool unicode_is(uint32_t c, uint32_t categories) {
  return categories >> unicode_category(c) & 1;
}
// The same in Unicode 8.0 or 9.0, for marks, punctuation and format characters.
UnicodeCategory unicode_category_in(uint32_t c, int version);
bool unicode_is_space(uint32_t c);      // White_Space
uint32_t unicode_to_lower(uint32_t c);  // of one code point; U+0130 aside, the whole lower case
int unicode_combining(uint32_t c);      // canonical combining class

// Ranges of code points: of a category's runs, and of the script Han.
typedef struct UnicodeRange {
  uint32_t first, last;
} UnicodeRange;
int64_t unicode_runs(void);
UnicodeRange unicode_run(int64_t i, UnicodeCategory *out);  // ascending, all code points
extern const UnicodeRange unicode_han[];
extern const int64_t unicode_nhan;
// The i-th range of lower-case mappings: first, first + stride ... last map to themselves + delta.
typedef struct UnicodeLower {
  uint32_t first, last;
  int stride, delta;
} UnicodeLower;
extern const UnicodeLower unicode_lowers[];
extern const int64_t unicode_nlowers;

typedef enum { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } UnicodeForm;
// A part of the text that no character outside it composes or changes places with.
typedef struct UnicodeScratch {
  Bytes code;  // uint32_t each: combining class << 24 | code point
  Bytes sort;
} UnicodeScratch;
// Appends the normal form of well-formed UTF-8.  With `old`, characters newer than Unicode 9.0 are
// starters that do not decompose, as in Hugging Face's tokenizers.
void unicode_normalise(UnicodeForm form, bool old, Str text, UnicodeScratch *scratch, Bytes *out);

// ---- UTF-8 ----
// The code point at p of well-formed UTF-8.
static inline uint32_t utf8_get(const uint8_t *p, int *out_bytes) {
  if (p[0] < 0x80) return *out_bytes = 1, p[0];
  if (p[0] < 0xe0) return *out_bytes = 2, (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
  if (p[0] < 0xf0)
    return *out_bytes = 3,
           (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
  return *out_bytes = 4, (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
                             (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}
// Bytes of the character whose first byte this is.
static inline int utf8_bytes(uint8_t first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}
// The code point that ends before p, which is not the text's first byte.
static inline uint32_t utf8_before(const uint8_t *p, int *out_bytes) {
  int n = 1;
  while (n < 4 && (p[-n] & 0xc0) == 0x80) n++;
  int all;
  uint32_t c = utf8_get(p - n, &all);
  *out_bytes = n;
  return c;
}
int utf8_write(uint8_t *p, uint32_t c);  // returns the bytes written, at most 4
// How many bytes at p, of n > 0, begin a character: of a whole one its length, with *out_whole set;
// else the length of the maximal part that U+FFFD stands for.  *out_cut: n ended it, nothing else.
int utf8_check(const uint8_t *p, int64_t n, bool *out_whole, bool *out_cut);
// Appends text with U+FFFD for each maximal part that is not UTF-8.
void utf8_repair(Str text, Bytes *out);
// The end of the well-formed beginning of `text`.
int64_t utf8_valid(Str text);

#endif
