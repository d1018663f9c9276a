// artifact_layout.h -- the bytes of an artifact's first page, which its writer and its reader
// share.
//
// Sections follow in the order of their numbers: the constants, more constants, and of each variant
// its plan and its code.
#ifndef TENON_RUNTIME_ARTIFACT_LAYOUT_H
#define TENON_RUNTIME_ARTIFACT_LAYOUT_H

#include "runtime/artifact.h"

#define ARTIFACT_MAGIC "\x89TENON\n\x1a"
enum { BYTE_ORDER = 0x01020304, TARGET_CAP = 32 };
typedef struct Section {
  int64_t bytes;  // without what fills its last page
  uint32_t crc;   // crc32c_blocks
  uint32_t unused;
} Section;
typedef struct VariantHeader {
  char target[TARGET_CAP];  // what it was compiled for: "cpu", "opencl", "cpu,opencl"
  Section plan, code;
} VariantHeader;
typedef struct Header {
  char magic[8];
  uint32_t version, byte_order;
  int64_t file_bytes;
  Section constants;  // of the first variant; others use them, too
  Section more;       // what other variants need besides
  char maker[32];
  uint32_t external_weights;  // 1: the constants are a file of their own
  uint32_t nvariants;
  VariantHeader variant[ARTIFACT_VARIANTS];
  uint32_t crc;  // of the page, with this field 0
  uint32_t unused;
} Header;
_Static_assert(sizeof(Header) == 96 + ARTIFACT_VARIANTS * 64 + 8, "no padding");

enum { SECTION_CONSTANTS, SECTION_MORE, SECTION_VARIANTS };
static inline int artifact_nsections(const Header *h) {
  return SECTION_VARIANTS + 2 * (int)h->nvariants;
}
static inline Section *artifact_section(Header *h, int i) {
  if (i == SECTION_CONSTANTS) return &h->constants;
  if (i == SECTION_MORE) return &h->more;
  VariantHeader *v = &h->variant[(i - SECTION_VARIANTS) / 2];
  return (i - SECTION_VARIANTS) % 2 ? &v->code : &v->plan;
}

static inline int64_t whole_pages(int64_t n) {
  return (n + ARTIFACT_PAGE - 1) / ARTIFACT_PAGE * ARTIFACT_PAGE;
}
// What a section takes in the artifact itself.
static inline int64_t pages_here(const Header *h, int section) {
  const Section *s = artifact_section((Header *)(uintptr_t)h, section);
  return h->external_weights && section == SECTION_CONSTANTS ? 0 : whole_pages(s->bytes);
}

uint32_t artifact_header_crc(const char *page);

#endif
