// cache_impl.h -- what the files of the cache share: an entry as bytes.
#ifndef TENON_BASE_CACHE_IMPL_H
#define TENON_BASE_CACHE_IMPL_H

#include "base/cache.h"

enum { CACHE_VERSION = 2 };
typedef enum { CACHE_KERNEL, CACHE_PROGRAM, CACHE_KINDS } CacheKind;

// A file is this, the key and the code, with one CRC32C over all of it.  The magic tells the kind.
typedef struct CacheHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of the file, with this field 0
  int64_t key_bytes, code_bytes, entry;
} CacheHeader;
_Static_assert(sizeof(CacheHeader) == 40, "no padding");

typedef struct CacheEntry {
  CacheKind kind;
  Str key, code;
  int64_t entry;
} CacheEntry;
typedef enum { ENTRY_WHOLE, ENTRY_DAMAGED, ENTRY_OTHER_VERSION } CacheEntryKind;
CacheEntryKind cache_entry(Str file, CacheEntry *out);  // *out is in `file`

typedef struct CacheName {
  char s[64];
} CacheName;
CacheName cache_name(CacheKind kind, Str key);  // of its file
bool cache_find_entry(const char *folder, CacheKind kind, Str key, File *file, CacheEntry *out);
bool cache_store_entry(const char *folder, const CacheEntry *e);

#endif
