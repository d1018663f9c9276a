// zipwrite.c -- writes zip archives through a sink.
//
// An entry's contents are in memory, so checksum and packed size are known before its header goes
// out and nothing is ever patched: the sink may be a pipe.  64-bit records appear where a size
// needs them.  Times are the format's zero (1980-01-01), so that equal contents give equal
// archives.
#include "base/zip.h"

#include <zlib.h>

enum {
  LOCAL_BYTES = 30,
  CENTRAL_BYTES = 46,
  ZIP_ALIGN = 64,
  FLAG_UTF8 = 1 << 11,
  VERSION_PLAIN = 20,
  VERSION_64 = 45,
  EXTRA_ZIP64 = 1,
  EXTRA_ALIGN = 0xd935,  // the id that Android's zipalign uses for padding
  DOS_DATE_1980 = 0x21,
};

// A header under construction.
typedef struct Record {
  char p[256];
  int n;
} Record;
static void put_le(Record *r, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) r->p[r->n++] = (char)(v >> (8 * i));
}

static tenon_status emit(ZipWriter *w, const void *p, int64_t n, Diag *d) {
  if (n) TRY(w->put(w->ctx, p, n, d));
  w->at += n;
  return TENON_OK;
}
static tenon_status emit_record(ZipWriter *w, const Record *r, Diag *d) {
  return emit(w, r->p, r->n, d);
}

tenon_status zip_put_strbuf(void *ctx, const void *p, int64_t n, Diag *d) {
  (void)d;
  strbuf_put(ctx, (Str){p, n});
  return TENON_OK;
}

void zip_begin(ZipWriter *w, Arena *a, ZipPut *put, void *ctx) {
  *w = (ZipWriter){.arena = a, .put = put, .ctx = ctx};
}

static bool is_wide(const ZipWriter *w, int64_t v) { return w->zip64 || v >= 0xffffffff; }
static uint32_t narrow(const ZipWriter *w, int64_t v) {
  return is_wide(w, v) ? 0xffffffff : (uint32_t)v;
}
// Within one header either both sizes are 64-bit or none, which every reader accepts.
static bool sizes_wide(const ZipWriter *w, const ZipEntry *e) {
  return is_wide(w, e->size) || is_wide(w, e->packed);
}

// The fields that local header and directory share, from the version on.
static void put_common(const ZipWriter *w, Record *r, const ZipEntry *e, bool wide) {
  put_le(r, wide ? VERSION_64 : VERSION_PLAIN, 2);
  put_le(r, FLAG_UTF8, 2);
  put_le(r, (uint64_t)e->method, 2);
  put_le(r, 0, 2);
  put_le(r, DOS_DATE_1980, 2);
  put_le(r, e->crc, 4);
  put_le(r, sizes_wide(w, e) ? 0xffffffff : (uint64_t)e->packed, 4);
  put_le(r, sizes_wide(w, e) ? 0xffffffff : (uint64_t)e->size, 4);
  put_le(r, (uint64_t)e->name.n, 2);
}

static tenon_status put_local(ZipWriter *w, const ZipEntry *e, Diag *d) {
  bool wide = sizes_wide(w, e);
  int64_t start = w->at + LOCAL_BYTES + e->name.n + (wide ? 20 : 0);
  int64_t pad = e->method == ZIP_STORED ? (ZIP_ALIGN - start % ZIP_ALIGN) % ZIP_ALIGN : 0;
  if (pad > 0 && pad < 6) pad += ZIP_ALIGN;  // the padding field itself takes 6 bytes
  Record r = {.n = 0};
  put_le(&r, 0x04034b50, 4);
  put_common(w, &r, e, wide);
  put_le(&r, (uint64_t)(pad + (wide ? 20 : 0)), 2);
  TRY(emit_record(w, &r, d));
  TRY(emit(w, e->name.p, e->name.n, d));
  r.n = 0;
  if (wide) {
    put_le(&r, EXTRA_ZIP64, 2);
    put_le(&r, 16, 2);
    put_le(&r, (uint64_t)e->size, 8);
    put_le(&r, (uint64_t)e->packed, 8);
  }
  if (pad) {
    put_le(&r, EXTRA_ALIGN, 2);
    put_le(&r, (uint64_t)(pad - 4), 2);
    put_le(&r, ZIP_ALIGN, 2);
    for (int64_t i = 6; i < pad; i++) put_le(&r, 0, 1);
  }
  return emit_record(w, &r, d);
}

// Packs the parts into `out`, which has room for `cap` bytes; returns the bytes used, -1 without
// memory.
static int64_t deflate_parts(int64_t nparts, const Str *parts, char *out, int64_t cap) {
  z_stream s = {.zalloc = zip_zalloc, .zfree = zip_zfree};
  if (deflateInit2(&s, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return -1;
  int64_t used = 0;
  s.next_out = (Bytef *)out;
  int rc = Z_OK;
  for (int64_t k = 0; k <= nparts && rc == Z_OK; k++) {
    bool last = k == nparts;
    if (!last && !parts[k].n) continue;  // zlib calls a step without input an error
    int64_t left = last ? 0 : parts[k].n;
    s.next_in = last ? (Bytef *)out : (Bytef *)(uintptr_t)parts[k].p;
    do {
      uInt can_in = (uInt)MIN(left, 1 << 30), can_out = (uInt)MIN(cap - used, 1 << 30);
      s.avail_in = can_in;
      s.avail_out = can_out;
      rc = deflate(&s, last ? Z_FINISH : Z_NO_FLUSH);
      left -= can_in - s.avail_in;
      used += can_out - s.avail_out;
    } while (rc == Z_OK && (left || last));
  }
  deflateEnd(&s);
  return rc == Z_STREAM_END ? used : -1;
}

tenon_status zip_add(ZipWriter *w, Str name, int64_t nparts, const Str *parts, bool deflated,
                     Diag *d) {
  if (name.n < 1 || name.n > 0xffff || !str_is_utf8(name))
    return fail(d, TENON_EINVAL, NOWHERE, "zip: an entry name of %lld bytes cannot be written",
                (long long)name.n);
  ZipEntry e = {.name = {str_copy(w->arena, name), name.n}, .header = w->at};
  for (int64_t k = 0; k < nparts; k++) {
    if (!ck_add(e.size, parts[k].n, &e.size))
      return fail(d, TENON_EINVAL, NOWHERE, "zip: '%.*s' is too large", STR_ARG(name));
    e.crc = zip_crc(e.crc, parts[k]);
  }
  e.packed = e.size;
  if (!deflated) {
    TRY(put_local(w, &e, d));
    for (int64_t k = 0; k < nparts; k++) TRY(emit(w, parts[k].p, parts[k].n, d));
    vec_push(w->arena, &w->entry, e);
    return TENON_OK;
  }
  // Deflate never needs more than this for what does not compress.  The block stays in the arena,
  // since the sink may grow something of its own there.
  int64_t cap = e.size + (e.size >> 11) + 1024;
  char *packed = arena_alloc(w->arena, cap);
  e.method = ZIP_DEFLATED;
  e.packed = deflate_parts(nparts, parts, packed, cap);
  if (e.packed < 0)
    return fail(d, TENON_ENOMEM, NOWHERE, "zip: no memory to pack '%.*s'", STR_ARG(name));
  TRY(put_local(w, &e, d));
  vec_push(w->arena, &w->entry, e);
  return emit(w, packed, e.packed, d);
}

static tenon_status put_central(ZipWriter *w, const ZipEntry *e, Diag *d) {
  bool sizes = sizes_wide(w, e), place = is_wide(w, e->header);
  Record r = {.n = 0};
  put_le(&r, 0x02014b50, 4);
  put_le(&r, 3 << 8 | VERSION_64, 2);  // made on Unix, so that the mode below counts
  put_common(w, &r, e, sizes || place);
  int64_t extra = (sizes ? 16 : 0) + (place ? 8 : 0);
  put_le(&r, (uint64_t)(extra ? extra + 4 : 0), 2);
  put_le(&r, 0, 2);
  put_le(&r, 0, 2);
  put_le(&r, 0, 2);
  put_le(&r, (uint64_t)0100644 << 16, 4);
  put_le(&r, narrow(w, e->header), 4);
  TRY(emit_record(w, &r, d));
  TRY(emit(w, e->name.p, e->name.n, d));
  r.n = 0;
  if (extra) {
    put_le(&r, EXTRA_ZIP64, 2);
    put_le(&r, (uint64_t)extra, 2);
  }
  if (sizes) {
    put_le(&r, (uint64_t)e->size, 8);
    put_le(&r, (uint64_t)e->packed, 8);
  }
  if (place) put_le(&r, (uint64_t)e->header, 8);
  return emit_record(w, &r, d);
}

tenon_status zip_end(ZipWriter *w, Diag *d) {
  int64_t start = w->at, n = w->entry.n;
  for (int64_t i = 0; i < n; i++) TRY(put_central(w, &w->entry.v[i], d));
  int64_t bytes = w->at - start, end64 = w->at;
  bool wide = w->zip64 || n >= 0xffff || is_wide(w, start) || is_wide(w, bytes);
  Record r = {.n = 0};
  if (wide) {
    put_le(&r, 0x06064b50, 4);
    put_le(&r, 44, 8);  // bytes of this record after the field
    put_le(&r, 3 << 8 | VERSION_64, 2);
    put_le(&r, VERSION_64, 2);
    put_le(&r, 0, 8);  // both disk numbers
    put_le(&r, (uint64_t)n, 8);
    put_le(&r, (uint64_t)n, 8);
    put_le(&r, (uint64_t)bytes, 8);
    put_le(&r, (uint64_t)start, 8);
    put_le(&r, 0x07064b50, 4);
    put_le(&r, 0, 4);
    put_le(&r, (uint64_t)end64, 8);
    put_le(&r, 1, 4);
  }
  put_le(&r, 0x06054b50, 4);
  put_le(&r, 0, 4);
  put_le(&r, wide ? 0xffff : (uint64_t)n, 2);
  put_le(&r, wide ? 0xffff : (uint64_t)n, 2);
  put_le(&r, wide ? 0xffffffff : (uint64_t)bytes, 4);
  put_le(&r, wide ? 0xffffffff : (uint64_t)start, 4);
  // The archive's comment.
  put_le(&r, sizeof FILE_MARK - 1, 2);
  memcpy(r.p + r.n, FILE_MARK, sizeof FILE_MARK - 1);
  r.n += (int)sizeof FILE_MARK - 1;
  return emit_record(w, &r, d);
}
