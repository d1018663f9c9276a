// jax.c -- jax.export files: a FlatBuffer around portable bytecode.
//
// Of the table only what describes the program is read: its name, the platforms it was exported for, the version of the
// calling convention, the bytecode.  How arguments are nested in Python's containers stays there: the module's function
// takes them flat, in order.
#include "frontends/stablehlo/internal.h"

enum { FIELD_NAME = 1, FIELD_PLATFORMS = 9, FIELD_MODULE = 13, FIELD_CALLING = 14 };

// A view of the bytes; every read says whether it was inside.
static bool get(Str s, int64_t at, int bytes, int64_t *out) {
  uint64_t v = 0;
  if (at < 0 || bytes > s.n || at > s.n - bytes) return false;
  memcpy(&v, s.p + at, (size_t)bytes);
  *out = (int64_t)v;
  return true;
}

// Where the root table's field lies; 0: it has none.
static int64_t field_at(Str s, int field) {
  int64_t root, back, vtable, size, offset;
  if (!get(s, 0, 4, &root) || !get(s, root, 4, &back)) return 0;
  vtable = root - (int32_t)back;
  if (!get(s, vtable, 2, &size) || 4 + 2 * field + 2 > size) return 0;
  if (!get(s, vtable + 4 + 2 * field, 2, &offset) || !offset) return 0;
  return root + offset;
}

// A string, or a vector of bytes.
static bool bytes_at(Str s, int64_t at, Str *out) {
  int64_t jump, n;
  if (!at || !get(s, at, 4, &jump) || !get(s, at + jump, 4, &n)) return false;
  at += jump + 4;
  if (n > s.n - at) return false;
  *out = (Str){s.p + at, n};
  return true;
}

bool mlir_is_jax(Str s) {
  Str module;
  return bytes_at(s, field_at(s, FIELD_MODULE), &module) && module.n >= 4 &&
         !memcmp(module.p, "ML\xEFR", 4);
}

static const char *platforms(Arena *a, Str s) {
  enum { SHOWN = 8 };
  StrBuf b;
  int64_t at = field_at(s, FIELD_PLATFORMS), jump, n;
  strbuf_init(&b, a);
  if (!at || !get(s, at, 4, &jump) || !get(s, at + jump, 4, &n)) return "";
  for (int64_t i = 0; i < MIN(n, SHOWN); i++) {
    Str name;
    if (!bytes_at(s, at + jump + 4 + 4 * i, &name)) break;
    strbuf_printf(&b, "%s%.*s", i ? ", " : "", STR_ARG(name));
  }
  return strbuf_text(&b);
}

tenon_status mlir_read_jax(Arena *a, Str bytes, MlirFile *out, Diag *d) {
  Str module, name = {"", 0};
  int64_t calling = 0;
  if (!bytes_at(bytes, field_at(bytes, FIELD_MODULE), &module))
    return fail(d, TENON_EFORMAT, NOWHERE, "a jax.export file without its module");
  // the name is what the file ends with: where it is whole, so is the rest
  if (!bytes_at(bytes, field_at(bytes, FIELD_NAME), &name) || bytes.n % 4 ||
      name.p + name.n >= bytes.p + bytes.n)
    return fail(d, TENON_EFORMAT, (Where){.offset = bytes.n, .has_offset = true},
                "a jax.export file that is cut off");
  tenon_status s = mlir_read_bytecode(a, module, out, d);
  if (s) {
    diag_note(d, "in the module of a jax.export file, which begins at byte %lld",
              (long long)(module.p - bytes.p));
    return s;
  }
  JaxExport *jax = arena_new(a, JaxExport);
  if (field_at(bytes, FIELD_CALLING)) get(bytes, field_at(bytes, FIELD_CALLING), 2, &calling);
  *jax = (JaxExport){str_copy(a, name), platforms(a, bytes), calling};
  out->jax = jax;
  out->form = MLIR_JAX_EXPORT;
  return TENON_OK;
}
