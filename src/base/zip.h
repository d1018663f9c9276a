// zip.h -- zip archives: the container of .npz files and of other models.
//
// Reading works over bytes in memory (a mapped file): the central directory is decoded and checked
// as a whole, stored entries are slices of the file, deflated ones are unpacked into an arena.
// Writing streams into a sink, so that a large archive never lies in memory.
#ifndef TENON_BASE_ZIP_H
#define TENON_BASE_ZIP_H

#include "base/base.h"

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

typedef struct ZipEntry {
  Str name;              // UTF-8, without ".." parts; a slice of the file
  int64_t header;        // byte offset of the local header
  int64_t data;          // byte offset of the packed bytes
  int64_t packed, size;  // bytes in the file, bytes unpacked
  uint32_t crc;
  int method;  // ZIP_STORED, ZIP_DEFLATED
} ZipEntry;

// What an archive may unpack to, all entries together: `always` bytes, and beyond that at most
// `ratio` times the archive's own size.
typedef struct ZipLimits {
  int64_t always, ratio;
} ZipLimits;
#define ZIP_LIMITS ((ZipLimits){(int64_t)LIMIT_NPZ_MIB << 20, 200})

typedef struct Zip {
  Str bytes;
  const ZipEntry *entry;
  int64_t n;
  bool mapped;  // of a mapped file: its pages leave memory again as checksums are verified
} Zip;

// Decodes the directory.  Refused: damaged or contradictory headers, encryption, several disks,
// duplicate or overlapping entries, names that climb with "..", sizes beyond the limits.  Folder
// entries are left out.
MUST_USE tenon_status zip_open(Arena *a, Str bytes, ZipLimits limits, Diag *d, Zip *out);
// The unpacked bytes: a slice of the file (stored) or in the arena.  The checksum is verified.
MUST_USE tenon_status zip_extract(Arena *a, const Zip *z, const ZipEntry *e, Diag *d, Str *out);
const ZipEntry *zip_find(const Zip *z, Str name);  // NULL when absent

// The CRC-32 of bytes that follow those whose CRC is `crc`; 0 to begin (zipcrc.c).
uint32_t zip_crc(uint32_t crc, Str s);

// What zlib allocates with here: the platform's memory, so that a test can make it fail.
void *zip_zalloc(void *opaque, unsigned n, unsigned size);
void zip_zfree(void *opaque, void *p);

// ---- writing ----
typedef tenon_status ZipPut(void *ctx, const void *p, int64_t n, Diag *d);
typedef struct ZipWriter {
  Arena *arena;
  ZipPut *put;
  void *ctx;
  int64_t at;  // bytes written so far
  VEC(ZipEntry) entry;
  bool zip64;  // use the 64-bit records even where they are not needed
} ZipWriter;
void zip_begin(ZipWriter *w, Arena *a, ZipPut *put, void *ctx);
// One entry whose contents are the parts in order.  Stored data starts at a multiple of 64 bytes,
// so that a reader can use it in place.  The same input gives the same bytes: times are fixed.
MUST_USE tenon_status zip_add(ZipWriter *w, Str name, int64_t nparts, const Str *parts,
                              bool deflated, Diag *d);
MUST_USE tenon_status zip_end(ZipWriter *w, Diag *d);
ZipPut zip_put_strbuf;  // a sink whose ctx is a StrBuf

#endif
