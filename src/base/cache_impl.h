// cache_impl.h -- what the files of the cache share: an entry as bytes.
#ifndef TENON_BASE_CACHE_IMPL_H
#define TENON_BASE_CACHE_IMPL_H

#include "base/cache.h"

enum { CACHE_VERSION = 2 };
extern const char cache_magic[8];

// A file is this, the key and the code, with one CRC32C over all of it.
typedef struct CacheHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of the file, with this field 0
  int64_t key_bytes, code_bytes, entry;
} CacheHeader;
_Static_assert(sizeof(CacheHeader) == 40, "no padding");

typedef struct CacheEntry {
  Str key, code;
  int64_t entry;
} CacheEntry;
typedef enum { ENTRY_WHOLE, ENTRY_DAMAGED, ENTRY_OTHER_VERSION } CacheEntryKind;
CacheEntryKind cache_entry(Str file, CacheEntry *out);  // *out is in `file`

typedef struct CacheName {
  char s[64];
} CacheName;
CacheName cache_name(Str key);  // of its file

#endif
