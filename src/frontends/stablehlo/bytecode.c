// bytecode.c -- MLIR bytecode, versions 0 to 6: the bytes, the sections, and the tables of strings,
// dialects, attributes, types and properties.
//
// Counts and offsets are checked against what is left of the part that they are in, before anything
// is taken for them.  Attributes and types are decoded when they are first asked for; an entry that
// needs itself is a fault.
#include "frontends/stablehlo/bytecode.h"

enum { VERSION_MAX = 6, SECTIONS = 9 };
enum {
  SECTION_STRINGS,
  SECTION_DIALECTS,
  SECTION_ATTRS,
  SECTION_OFFSETS,
  SECTION_IR,
  SECTION_RESOURCES,
  SECTION_RESOURCE_OFFSETS,
  SECTION_DIALECT_VERSIONS,
  SECTION_PROPERTIES
};

// ---- bytes ----

bool bc_bad(const Bytes *b) { return b->file->status != TENON_OK; }

static Where here(const Bytes *b) {
  const uint8_t *start = (const uint8_t *)b->file->bytes.p;
  return (Where){.offset = b->p - start, .has_offset = true};
}

void bc_fail(Bytes *b, const char *fmt, ...) {
  if (bc_bad(b)) return;
  va_list ap;
  va_start(ap, fmt);
  b->file->status = failv(b->file->diag, TENON_EFORMAT, here(b), fmt, ap);
  va_end(ap);
}

void bc_unsupported(Bytes *b, const char *fmt, ...) {
  if (bc_bad(b)) return;
  va_list ap;
  va_start(ap, fmt);
  b->file->status = failv(b->file->diag, TENON_EUNSUPPORTED, here(b), fmt, ap);
  va_end(ap);
}

Str bc_take(Bytes *b, int64_t n) {
  if (bc_bad(b)) return (Str){0};
  if (n < 0 || n > b->end - b->p) {
    bc_fail(b, "%lld bytes are needed, %lld are left of this part", (long long)n,
            (long long)(b->end - b->p));
    return (Str){0};
  }
  Str s = {(const char *)b->p, n};
  b->p += n;
  return s;
}

uint8_t bc_byte(Bytes *b) {
  Str s = bc_take(b, 1);
  return s.n ? (uint8_t)s.p[0] : 0;
}

// The zeros at the low end of the first byte count the bytes behind it.
uint64_t bc_varint(Bytes *b) {
  uint64_t v = bc_byte(b);
  if (bc_bad(b)) return 0;
  int more = v ? __builtin_ctzll(v) : 8;
  Str s = bc_take(b, more);
  if (bc_bad(b)) return 0;
  if (more == 8) {
    memcpy(&v, s.p, 8);
    return v;
  }
  for (int i = 0; i < more; i++) v |= (uint64_t)(uint8_t)s.p[i] << (8 * (i + 1));
  return v >> (more + 1);
}

int64_t bc_signed(Bytes *b) {
  uint64_t v = bc_varint(b);
  return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

int64_t bc_count(Bytes *b) {
  uint64_t n = bc_varint(b);
  if (!bc_bad(b) && n > (uint64_t)(b->end - b->p))
    bc_fail(b, "%llu things in %lld bytes", (unsigned long long)n, (long long)(b->end - b->p));
  return bc_bad(b) ? 0 : (int64_t)n;
}

static int64_t below(Bytes *b, uint64_t i, int64_t n, const char *what) {
  if (!bc_bad(b) && i >= (uint64_t)n)
    bc_fail(b, "%s %llu of %lld", what, (unsigned long long)i, (long long)n);
  return bc_bad(b) ? 0 : (int64_t)i;
}

int64_t bc_index(Bytes *b, int64_t n, const char *what) { return below(b, bc_varint(b), n, what); }

Str bc_blob(Bytes *b) {
  uint64_t n = bc_varint(b);
  if (n > INT64_MAX) bc_fail(b, "a length of more than 63 bits");
  return bc_take(b, (int64_t)n);
}

Str bc_string(Bytes *b) {
  int64_t i = bc_index(b, b->file->nstrings, "string");
  return bc_bad(b) ? (Str){"", 0} : b->file->string[i];
}

int bc_section(Bytes *b, Bytes *out) {
  int id = bc_byte(b);
  uint64_t n = bc_varint(b);
  *out = (Bytes){b->p, b->p, b->file};
  if (id & 0x80) {  // aligned in the file: padding before it
    uint64_t to = bc_varint(b);
    if (!to || to > 1u << 20 || to & (to - 1))
      bc_fail(b, "an alignment of %llu", (unsigned long long)to);
    while (!bc_bad(b) && (uint64_t)(b->p - (const uint8_t *)b->file->bytes.p) % to)
      if (bc_byte(b) != 0xCB) bc_fail(b, "padding that is not 0xCB");
  }
  if (n > INT64_MAX) bc_fail(b, "a section of more than 63 bits");
  Str s = bc_take(b, (int64_t)n);
  if (!bc_bad(b)) *out = (Bytes){(const uint8_t *)s.p, (const uint8_t *)s.p + s.n, b->file};
  return id & 0x7F;
}

// ---- tables ----

// Lengths first, of the last string first; then their bytes, each with a NUL.
static void read_strings(Bytes *b) {
  Bytecode *f = b->file;
  f->nstrings = bc_count(b);
  f->string = arena_array(f->arena, Str, MAX(f->nstrings, 1));
  const uint8_t *end = b->end;
  for (int64_t i = f->nstrings - 1; i >= 0 && !bc_bad(b); i--) {
    uint64_t n = bc_varint(b);
    if (bc_bad(b)) return;
    if (n == 0 || end < b->p || n > (uint64_t)(end - b->p)) {
      bc_fail(b, "string %lld has %llu bytes", (long long)i, (unsigned long long)n);
      return;
    }
    end -= n;
    f->string[i] = (Str){(const char *)end, (int64_t)n - 1};
    if (end[n - 1] != 0) bc_fail(b, "string %lld does not end with NUL", (long long)i);
  }
  if (!bc_bad(b) && f->nstrings && end != b->p)
    bc_fail(b, "bytes between the lengths and the strings");
}

static void read_op_names(Bytes *b) {
  Bytecode *f = b->file;
  if (f->version >= 4) bc_varint(b);  // their number, for whoever wants to make room
  while (!bc_bad(b) && b->p < b->end) {
    int64_t dialect = bc_index(b, f->ndialects, "dialect");
    int64_t n = bc_count(b);
    for (int64_t i = 0; i < n && !bc_bad(b); i++) {
      uint64_t v = bc_varint(b);
      int64_t name = below(b, f->version >= 5 ? v >> 1 : v, f->nstrings, "string");
      if (bc_bad(b)) return;
      OpName op = {f->dialect[dialect], str_copy(f->arena, f->string[name])};
      vec_push(f->arena, &f->op, op);
    }
  }
}

static void read_dialects(Bytes *b) {
  Bytecode *f = b->file;
  f->ndialects = bc_count(b);
  f->dialect = arena_array(f->arena, const char *, MAX(f->ndialects, 1));
  for (int64_t i = 0; i < f->ndialects && !bc_bad(b); i++) {
    uint64_t v = bc_varint(b);
    bool has_version = f->version >= 1 && v & 1;
    int64_t name = below(b, f->version >= 1 ? v >> 1 : v, f->nstrings, "string");
    if (bc_bad(b)) return;
    f->dialect[i] = str_copy(f->arena, f->string[name]);
    Bytes version;
    if (has_version && bc_section(b, &version) != SECTION_DIALECT_VERSIONS)
      bc_fail(b, "a dialect's version is no section of versions");
  }
  read_op_names(b);
}

static void read_entries(Bytes *b, Bytes *data, Entry *e, int64_t n) {
  Bytecode *f = b->file;
  for (int64_t i = 0; i < n && !bc_bad(b);) {
    int64_t dialect = bc_index(b, f->ndialects, "dialect");
    int64_t count = bc_count(b);
    if (!bc_bad(b) && (count == 0 || count > n - i))
      bc_fail(b, "%lld entries of a dialect", (long long)count);
    for (int64_t k = 0; k < count && !bc_bad(b); k++, i++) {
      uint64_t v = bc_varint(b);
      if (v >> 1 > (uint64_t)(data->end - data->p)) {
        bc_fail(b, "an entry of %llu bytes, %lld are left", (unsigned long long)(v >> 1),
                (long long)(data->end - data->p));
        return;
      }
      e[i].custom = v & 1;
      e[i].dialect = f->dialect[dialect];
      e[i].data = bc_take(data, (int64_t)(v >> 1));
    }
  }
}

static void read_offsets(Bytes *b, Bytes *data) {
  Bytecode *f = b->file;
  f->nattrs = bc_count(b);
  f->ntypes = bc_count(b);
  f->attr = arena_array(f->arena, Entry, MAX(f->nattrs, 1));
  f->type = arena_array(f->arena, Entry, MAX(f->ntypes, 1));
  read_entries(b, data, f->attr, f->nattrs);
  read_entries(b, data, f->type, f->ntypes);
  if (!bc_bad(b) && data->p != data->end) bc_fail(data, "bytes behind the last attribute and type");
}

static void read_properties(Bytes *b) {
  Bytecode *f = b->file;
  int64_t n = bc_count(b);
  for (int64_t i = 0; i < n && !bc_bad(b); i++) {
    Str s = bc_blob(b);
    vec_push(f->arena, &f->property, s);
  }
}

// ---- files ----

static tenon_status read_tables(Bytecode *f, Bytes *section, const bool *seen, MlirModule **out) {
  static const int needed[] = {SECTION_STRINGS, SECTION_DIALECTS, SECTION_ATTRS, SECTION_OFFSETS,
                               SECTION_IR};
  for (int i = 0; i < ARRAY_LEN(needed); i++)
    if (!seen[needed[i]])
      return fail(f->diag, TENON_EFORMAT, NOWHERE, "the bytecode has no section %d", needed[i]);
  read_strings(&section[SECTION_STRINGS]);
  read_dialects(&section[SECTION_DIALECTS]);
  read_offsets(&section[SECTION_OFFSETS], &section[SECTION_ATTRS]);
  if (seen[SECTION_PROPERTIES]) read_properties(&section[SECTION_PROPERTIES]);
  return f->status ? f->status : bc_read_ir(&section[SECTION_IR], out);
}

tenon_status mlir_read_bytecode(Arena *a, Str bytes, MlirFile *out, Diag *d) {
  Bytecode *f = arena_new(a, Bytecode);
  MlirModule **modules = arena_array(a, MlirModule *, 1);
  *f = (Bytecode){.arena = a, .diag = d, .bytes = bytes};
  Bytes b = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, f};
  Bytes section[SECTIONS];
  bool seen[SECTIONS] = {0};
  bc_take(&b, 4);  // ML\xEFR
  uint64_t version = bc_varint(&b);
  if (version > VERSION_MAX)
    bc_unsupported(&b, "MLIR bytecode version %llu: versions 0 to %d are read",
                   (unsigned long long)version, VERSION_MAX);
  f->version = (int64_t)version;
  const uint8_t *nul = bc_bad(&b) || b.p == b.end ? NULL : memchr(b.p, 0, (size_t)(b.end - b.p));
  if (!nul) bc_fail(&b, "the producer's name does not end");
  if (f->status) return f->status;
  Str producer = bc_take(&b, nul - b.p);
  bc_byte(&b);
  while (!bc_bad(&b) && b.p < b.end) {
    Bytes one;
    int id = bc_section(&b, &one);
    if (bc_bad(&b)) break;
    if (id >= SECTIONS || seen[id]) {
      bc_fail(&b, id >= SECTIONS ? "section %d is not known" : "a second section %d", id);
      break;
    }
    section[id] = one;
    seen[id] = true;
  }
  if (f->status) return f->status;
  *out = (MlirFile){.form = MLIR_BYTECODE,
                    .version = f->version,
                    .producer = str_copy(a, producer),
                    .modules = modules,
                    .nmodules = 1};
  return read_tables(f, section, seen, &modules[0]);
}
