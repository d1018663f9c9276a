// zip.c -- reads zip archives, ZIP64 included.
//
// The directory at the end of the file is the only index that is believed; each entry's local
// header must then agree with it.  Every offset and size is checked before use, so the rest of the
// code can slice freely.  Memory: one ZipEntry for each 46 bytes of directory at the most, and what
// is extracted.
//
// Guarantees: entries do not overlap each other or the directory; names are unique, valid UTF-8 and
//             do not
// climb with ..; no entry unpacks to more than it declares, and all together to no more than
// allowed.  Does not:   read other methods than stored and deflated, encrypted entries, or split
// archives.
#include "base/zip.h"

#include "base/platform.h"

#include <stdlib.h>
#include <zlib.h>

enum {
  EOCD_BYTES = 22,       // end of central directory
  EOCD64_BYTES = 56,     // its 64-bit form
  LOCATOR64_BYTES = 20,  // says where the 64-bit form is
  CENTRAL_BYTES = 46,
  LOCAL_BYTES = 30,
  EXTRA_ZIP64 = 1,
  DEFLATE_MAX_RATIO = 1040,  // deflate cannot pack tighter than 1032 to 1
};
#define SIG_EOCD      0x06054b50u
#define SIG_EOCD64    0x06064b50u
#define SIG_LOCATOR64 0x07064b50u
#define SIG_CENTRAL   0x02014b50u
#define SIG_LOCAL     0x04034b50u

static uint64_t le(const char *p, int n) {
  uint64_t v = 0;
  for (int i = n - 1; i >= 0; i--) v = v << 8 | (uint8_t)p[i];
  return v;
}
static uint16_t le16(const char *p) { return (uint16_t)le(p, 2); }
static uint32_t le32(const char *p) { return (uint32_t)le(p, 4); }

static Where at_byte(int64_t offset) { return (Where){.offset = offset, .has_offset = true}; }

static tenon_status bad(Diag *d, int64_t offset, const char *what) {
  return fail(d, TENON_EFORMAT, at_byte(offset), "zip: %s", what);
}

// ---- the end record ----
typedef struct Directory {
  int64_t offset, bytes, n;
} Directory;

static tenon_status read_end64(Str z, int64_t end, Diag *d, Directory *out) {
  int64_t loc = end - LOCATOR64_BYTES;
  if (loc < 0 || le32(z.p + loc) != SIG_LOCATOR64)
    return bad(d, end, "64-bit sizes are announced but the 64-bit locator is missing");
  if (le32(z.p + loc + 4) != 0 || le32(z.p + loc + 16) > 1)
    return fail(d, TENON_EUNSUPPORTED, at_byte(loc), "zip: archives in several parts are not read");
  uint64_t pos = le(z.p + loc + 8, 8);
  if (pos > (uint64_t)loc || (int64_t)pos > loc - EOCD64_BYTES || le32(z.p + pos) != SIG_EOCD64)
    return bad(d, loc, "the 64-bit end record is not where the locator says");
  const char *p = z.p + pos;
  if (le32(p + 16) != 0 || le32(p + 20) != 0)
    return fail(d, TENON_EUNSUPPORTED, at_byte((int64_t)pos),
                "zip: archives in several parts are not read");
  uint64_t n = le(p + 32, 8), bytes = le(p + 40, 8), offset = le(p + 48, 8);
  if (le(p + 24, 8) != n) return bad(d, (int64_t)pos, "the end record's entry counts disagree");
  if (offset > pos || bytes != pos - offset)
    return bad(d, (int64_t)pos, "the directory does not end where the end record starts");
  if (n > bytes / CENTRAL_BYTES)
    return bad(d, (int64_t)pos, "more entries than the directory holds");
  *out = (Directory){(int64_t)offset, (int64_t)bytes, (int64_t)n};
  return TENON_OK;
}

static tenon_status find_directory(Str z, Diag *d, Directory *out) {
  if (z.n < EOCD_BYTES) return bad(d, 0, "too short for an archive");
  int64_t first = MAX(0, z.n - EOCD_BYTES - 65535), end = -1;
  for (int64_t i = z.n - EOCD_BYTES; i >= first && end < 0; i--)
    if (z.p[i] == 'P' && le32(z.p + i) == SIG_EOCD && i + EOCD_BYTES + le16(z.p + i + 20) == z.n)
      end = i;
  if (end < 0) return bad(d, z.n, "no central directory at the end of the archive" CUT_OFF);
  const char *p = z.p + end;
  int64_t n = le16(p + 10), bytes = le32(p + 12), offset = le32(p + 16);
  if (n == 0xffff || bytes == 0xffffffff || offset == 0xffffffff) return read_end64(z, end, d, out);
  if (end >= LOCATOR64_BYTES && le32(p - LOCATOR64_BYTES) == SIG_LOCATOR64) {
    Directory wide;
    TRY(read_end64(z, end, d, &wide));
    if (wide.n != n || wide.bytes != bytes || wide.offset != offset)
      return bad(d, end, "the 32-bit and 64-bit end records disagree");
    *out = wide;
    return TENON_OK;
  }
  if (le16(p + 4) != 0 || le16(p + 6) != 0)
    return fail(d, TENON_EUNSUPPORTED, at_byte(end), "zip: archives in several parts are not read");
  if (le16(p + 8) != n) return bad(d, end, "the end record's entry counts disagree");
  if (offset > end || bytes != end - offset)
    return bad(d, end, "the directory does not end where the end record starts");
  if (n > bytes / CENTRAL_BYTES) return bad(d, end, "more entries than the directory holds");
  *out = (Directory){offset, bytes, n};
  return TENON_OK;
}

// ---- entries ----
// Fills the fields that are all ones from the 64-bit extra field, in the order the format fixes.
static tenon_status read_extra64(Str extra, int64_t pos, int nfields, int64_t *const *field,
                                 Diag *d) {
  int64_t i = 0, missing = 0;
  for (int k = 0; k < nfields; k++) missing += *field[k] == 0xffffffff;
  if (!missing) return TENON_OK;
  while (extra.n - i >= 4) {
    int64_t id = le16(extra.p + i), len = le16(extra.p + i + 2);
    if (len > extra.n - i - 4) return bad(d, pos, "an extra field runs past its end");
    if (id == EXTRA_ZIP64) {
      if (len < 8 * missing) return bad(d, pos, "the 64-bit extra field is too short");
      const char *p = extra.p + i + 4;
      for (int k = 0; k < nfields; k++) {
        if (*field[k] != 0xffffffff) continue;
        uint64_t v = le(p, 8);
        if (v > INT64_MAX) return bad(d, pos, "a 64-bit size or offset is out of range");
        *field[k] = (int64_t)v;
        p += 8;
      }
      return TENON_OK;
    }
    i += 4 + len;
  }
  return bad(d, pos, "a 64-bit size is announced but its extra field is missing");
}

// Nothing here is unpacked into a folder, so a leading '/' is just a character (exporters' value
// names start so); parts that climb and control characters have no honest use.
static bool name_is_safe(Str s) {
  int64_t start = 0;
  for (int64_t i = 0; i <= s.n; i++) {
    if (i < s.n && ((uint8_t)s.p[i] < 0x20 || s.p[i] == 0x7f)) return false;
    if (i < s.n && s.p[i] != '/' && s.p[i] != '\\') continue;
    if (str_is((Str){s.p + start, i - start}, "..")) return false;
    start = i + 1;
  }
  return s.n > 0;
}

static tenon_status check_name(Str name, int64_t pos, Diag *d) {
  if (!str_is_utf8(name)) return bad(d, pos, "an entry's name is not valid UTF-8");
  if (!name_is_safe(name))
    return fail(d, TENON_EFORMAT, at_byte(pos),
                "zip: the entry name '%.*s' has control characters or climbs out of its folder",
                STR_ARG(name));
  return TENON_OK;
}

// The local header must say what the directory says, and leaves the place of the data.
static tenon_status check_local(Str z, int64_t limit, ZipEntry *e, Diag *d) {
  if (e->header > limit - LOCAL_BYTES || le32(z.p + e->header) != SIG_LOCAL)
    return fail(d, TENON_EFORMAT, at_byte(e->header), "zip: '%.*s' has no local header",
                STR_ARG(e->name));
  const char *p = z.p + e->header;
  int64_t name = le16(p + 26), extra = le16(p + 28);
  e->data = e->header + LOCAL_BYTES + name + extra;
  int64_t end;
  if (!ck_add(e->data, e->packed, &end) || end > limit)
    return fail(d, TENON_EFORMAT, at_byte(e->header),
                "zip: '%.*s' needs %lld bytes, past the directory", STR_ARG(e->name),
                (long long)e->packed);
  if (!str_eq((Str){p + LOCAL_BYTES, name}, e->name) || le16(p + 8) != e->method)
    return fail(d, TENON_EFORMAT, at_byte(e->header),
                "zip: the local header of '%.*s' differs from the directory", STR_ARG(e->name));
  if (le16(p + 6) & 8)
    return TENON_OK;  // sizes and checksum follow the data; the directory has them
  int64_t packed = le32(p + 18), size = le32(p + 22);
  TRY(read_extra64((Str){p + LOCAL_BYTES + name, extra}, e->header, 2,
                   (int64_t *[]){&size, &packed}, d));
  if (packed != e->packed || size != e->size || le32(p + 14) != e->crc)
    return fail(d, TENON_EFORMAT, at_byte(e->header),
                "zip: the local header of '%.*s' differs from the directory", STR_ARG(e->name));
  return TENON_OK;
}

static tenon_status check_sizes(const ZipEntry *e, int64_t pos, Diag *d) {
  if (e->method == ZIP_STORED && e->packed != e->size)
    return fail(d, TENON_EFORMAT, at_byte(pos), "zip: '%.*s' is stored but its two sizes differ",
                STR_ARG(e->name));
  if (e->method == ZIP_DEFLATED && e->size / DEFLATE_MAX_RATIO > e->packed)
    return fail(d, TENON_EFORMAT, at_byte(pos), "zip: '%.*s' claims %lld bytes out of %lld",
                STR_ARG(e->name), (long long)e->size, (long long)e->packed);
  return TENON_OK;
}

// Decodes one directory record at *pos and advances it.
static tenon_status read_central(Str z, int64_t *pos, int64_t end, Diag *d, ZipEntry *e) {
  if (end - *pos < CENTRAL_BYTES || le32(z.p + *pos) != SIG_CENTRAL)
    return bad(d, *pos, "a directory record is damaged");
  const char *p = z.p + *pos;
  int64_t name = le16(p + 28), extra = le16(p + 30), comment = le16(p + 32);
  if (end - *pos - CENTRAL_BYTES < name + extra + comment)
    return bad(d, *pos, "a directory record runs past the directory");
  *e = (ZipEntry){.name = {p + CENTRAL_BYTES, name},
                  .header = le32(p + 42),
                  .packed = le32(p + 20),
                  .size = le32(p + 24),
                  .crc = le32(p + 16),
                  .method = le16(p + 10)};
  TRY(check_name(e->name, *pos, d));
  if (le16(p + 8) & 1)
    return fail(d, TENON_EUNSUPPORTED, at_byte(*pos), "zip: '%.*s' is encrypted", STR_ARG(e->name));
  if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
    return fail(d, TENON_EUNSUPPORTED, at_byte(*pos),
                "zip: '%.*s' uses compression method %d; only stored and deflated are read",
                STR_ARG(e->name), e->method);
  TRY(read_extra64((Str){p + CENTRAL_BYTES + name, extra}, *pos, 3,
                   (int64_t *[]){&e->size, &e->packed, &e->header}, d));
  TRY(check_sizes(e, *pos, d));
  *pos += CENTRAL_BYTES + name + extra + comment;
  return TENON_OK;
}

static int by_header(const void *a, const void *b) {
  const ZipEntry *x = *(ZipEntry *const *)a, *y = *(ZipEntry *const *)b;
  return (x->header > y->header) - (x->header < y->header);
}

static tenon_status check_overlap(Arena *a, ZipEntry *entry, int64_t n, Diag *d) {
  ArenaMark mark = arena_mark(a);
  ZipEntry **order = arena_array(a, ZipEntry *, n);
  for (int64_t i = 0; i < n; i++) order[i] = &entry[i];
  if (n > 1) qsort(order, (size_t)n, sizeof *order, by_header);
  tenon_status s = TENON_OK;
  for (int64_t i = 1; i < n && !s; i++)
    if (order[i]->header < order[i - 1]->data + order[i - 1]->packed)
      s = fail(d, TENON_EFORMAT, at_byte(order[i]->header), "zip: '%.*s' and '%.*s' overlap",
               STR_ARG(order[i - 1]->name), STR_ARG(order[i]->name));
  arena_reset(a, mark);
  return s;
}

static tenon_status check_duplicates(Arena *a, const ZipEntry *entry, int64_t n, Diag *d) {
  ArenaMark mark = arena_mark(a);
  StrMap seen;
  strmap_init(&seen, a);
  tenon_status s = TENON_OK;
  for (int64_t i = 0; i < n && !s; i++) {
    if (strmap_has(&seen, entry[i].name))
      s = fail(d, TENON_EFORMAT, at_byte(entry[i].header), "zip: '%.*s' is there twice",
               STR_ARG(entry[i].name));
    strmap_put(&seen, entry[i].name, (void *)&entry[i]);
  }
  arena_reset(a, mark);
  return s;
}

tenon_status zip_open(Arena *a, Str bytes, ZipLimits limits, Diag *d, Zip *out) {
  *out = (Zip){.bytes = bytes};
  Directory dir;
  TRY(find_directory(bytes, d, &dir));
  ZipEntry *entry = arena_array(a, ZipEntry, dir.n);
  int64_t n = 0, total = 0, pos = dir.offset, allowed;
  if (!ck_mul(bytes.n, limits.ratio, &allowed)) allowed = INT64_MAX;
  allowed = MAX(allowed, limits.always);
  for (int64_t i = 0; i < dir.n; i++) {
    ZipEntry *e = &entry[n];
    int64_t record = pos;
    TRY(read_central(bytes, &pos, dir.offset + dir.bytes, d, e));
    TRY(check_local(bytes, dir.offset, e, d));
    if (!ck_add(total, e->size, &total) || total > allowed)
      return fail(d, TENON_ENOMEM, at_byte(record),
                  "zip: the archive unpacks to more than %lld bytes, the limit for its size",
                  (long long)allowed);
    if (str_ends(e->name, "/")) {
      if (e->size) return bad(d, record, "a folder entry holds data");
      continue;
    }
    n++;
  }
  if (pos != dir.offset + dir.bytes) return bad(d, pos, "bytes left over in the directory");
  TRY(check_overlap(a, entry, n, d));
  TRY(check_duplicates(a, entry, n, d));
  out->entry = entry;
  out->n = n;
  return TENON_OK;
}

const ZipEntry *zip_find(const Zip *z, Str name) {
  for (int64_t i = 0; i < z->n; i++)
    if (str_eq(z->entry[i].name, name)) return &z->entry[i];
  return NULL;
}

// ---- contents ----
// zlib's blocks carry their size in front, since the platform's free wants it.
void *zip_zalloc(void *opaque, unsigned n, unsigned size) {
  (void)opaque;
  int64_t bytes;
  if (!ck_mul(n, size, &bytes) || !ck_add(bytes, 16, &bytes)) return Z_NULL;
  char *p = mem_alloc(bytes);
  if (!p) return Z_NULL;
  memcpy(p, &bytes, sizeof bytes);
  return p + 16;
}
void zip_zfree(void *opaque, void *p) {
  (void)opaque;
  int64_t bytes;
  memcpy(&bytes, (char *)p - 16, sizeof bytes);
  mem_free((char *)p - 16, bytes);
}

// Inflates all of `in` into exactly out_bytes at `out`; zlib counts in 32 bits, hence the pieces.
static int inflate_all(Str in, char *out, int64_t out_bytes) {
  z_stream s = {.zalloc = zip_zalloc, .zfree = zip_zfree};
  int rc = inflateInit2(&s, -15);
  if (rc != Z_OK) return rc;
  char spare;  // an empty entry still needs a place to point to
  int64_t in_left = in.n, out_left = out_bytes;
  s.next_in = (Bytef *)(uintptr_t)in.p;
  s.next_out = (Bytef *)(out_bytes ? out : &spare);
  while (rc == Z_OK) {
    uInt can_in = (uInt)MIN(in_left, 1 << 30), can_out = (uInt)MIN(out_left, 1 << 30);
    s.avail_in = can_in;
    s.avail_out = can_out;
    rc = inflate(&s, Z_NO_FLUSH);
    in_left -= can_in - s.avail_in;
    out_left -= can_out - s.avail_out;
  }
  inflateEnd(&s);
  if (rc == Z_STREAM_END && (in_left || out_left)) return Z_DATA_ERROR;
  return rc;
}

static uint32_t crc_of(const Zip *z, Str s) {
  enum { PIECE = 16 << 20 };
  bool stored = s.p >= z->bytes.p && s.p < z->bytes.p + z->bytes.n;
  if (!z->mapped || !stored) return zip_crc(0, s);
  uint32_t crc = 0;
  for (int64_t at = 0; at < s.n; at += PIECE) {
    crc = zip_crc(crc, (Str){s.p + at, MIN(s.n - at, PIECE)});
    platform->forget(z->bytes.p, z->bytes.n);
  }
  return crc;
}

tenon_status zip_extract(Arena *a, const Zip *z, const ZipEntry *e, Diag *d, Str *out) {
  *out = (Str){z->bytes.p + e->data, e->packed};
  if (e->method == ZIP_DEFLATED) {
    char *p = arena_alloc(a, MAX(e->size, 1));
    int rc = inflate_all(*out, p, e->size);
    if (rc == Z_MEM_ERROR)
      return fail(d, TENON_ENOMEM, at_byte(e->data), "zip: no memory to unpack '%.*s'",
                  STR_ARG(e->name));
    if (rc != Z_STREAM_END)
      return fail(d, TENON_EFORMAT, at_byte(e->data),
                  "zip: '%.*s' does not unpack to its %lld bytes", STR_ARG(e->name),
                  (long long)e->size);
    *out = (Str){p, e->size};
  }
  uint32_t crc = crc_of(z, *out);
  if (crc != e->crc)
    return fail(d, TENON_EFORMAT, at_byte(e->data),
                "zip: '%.*s' is damaged: checksum %08x, expected %08x", STR_ARG(e->name), crc,
                e->crc);
  return TENON_OK;
}
