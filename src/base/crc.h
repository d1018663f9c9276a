// crc.h -- CRC32C, the checksum of what we write to disk.
#ifndef TENON_BASE_CRC_H
#define TENON_BASE_CRC_H

#include "base/platform.h"

// The CRC of bytes that follow those whose CRC is `crc`; 0 to begin.
uint32_t crc32c(uint32_t crc, const void *p, int64_t n);
// The same by table alone, on every machine: what the instruction is held to.
uint32_t crc32c_table(uint32_t crc, const void *p, int64_t n);
// The CRC32C of the CRC32Cs of all blocks of 64 KiB: as strong as one over everything, and blocks
// can be computed in parallel.
uint32_t crc32c_blocks(const void *p, int64_t n, Pool *pool);

#endif
