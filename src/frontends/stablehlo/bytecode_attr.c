// bytecode_attr.c -- attributes and types of MLIR bytecode: the tables, and the codes of the
// builtin dialect.
#include "frontends/stablehlo/bytecode.h"

#include <stdio.h>

MlirAttr *bc_new_attr(Bytes *b, MlirAttrKind kind) {
  MlirAttr *a = arena_new(b->file->arena, MlirAttr);
  a->kind = kind;
  return a;
}

MlirType *bc_new_type(Bytes *b, MlirTypeKind kind) {
  MlirType *t = arena_new(b->file->arena, MlirType);
  t->kind = kind;
  return t;
}

const MlirAttr *bc_text_attr(Bytes *b, MlirAttrKind kind, Str s) {
  MlirAttr *a = bc_new_attr(b, kind);
  a->text = str_copy(b->file->arena, s);
  a->ntext = s.n;
  return a;
}

uint64_t bc_apint(Bytes *b, int bits) {
  if (bits <= 8) return bc_byte(b);
  return (uint64_t)bc_signed(b);
}

const MlirAttr *bc_attrs(Bytes *b) {
  MlirAttr *a = bc_new_attr(b, MA_ARRAY);
  int64_t n = bc_count(b);
  const MlirAttr **v = arena_array(b->file->arena, const MlirAttr *, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) v[i] = bc_attr(b);
  a->items = v;
  a->n = n;
  return a;
}

void bc_types(Bytes *b, MlirType *into, bool results) {
  int64_t n = bc_count(b);
  const MlirType **v = arena_array(b->file->arena, const MlirType *, MAX(into->nparts + n, 1));
  for (int64_t i = 0; i < into->nparts; i++) v[i] = into->parts[i];
  for (int64_t i = 0; i < n; i++) v[into->nparts + i] = bc_type(b);
  into->parts = v;
  into->nparts += n;
  if (results) into->nresults = n;
}

const int64_t *bc_signed_list(Bytes *b, int64_t *n) {
  *n = bc_count(b);
  int64_t *v = arena_array(b->file->arena, int64_t, MAX(*n, 1));
  for (int64_t i = 0; i < *n; i++) v[i] = bc_signed(b);
  return v;
}

// ---- builtin ----

static const char *text_of(const MlirAttr *a) { return a->text ? a->text : ""; }

static const MlirAttr *builtin_dict(Bytes *b) {
  MlirAttr *a = bc_new_attr(b, MA_DICT);
  int64_t n = bc_count(b);
  MlirField *f = arena_array(b->file->arena, MlirField, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    f[i].name = text_of(bc_attr(b));
    f[i].value = mlir_plain_attr(b->file->arena, f[i].name, bc_attr(b));
  }
  a->fields = f;
  a->n = n;
  return a;
}

static const MlirAttr *builtin_symbol(Bytes *b, bool nested) {
  Arena *arena = b->file->arena;
  const char *s = text_of(bc_attr(b));
  int64_t n = nested ? bc_count(b) : 0;
  for (int64_t i = 0; i < n && !bc_bad(b); i++)
    s = str_printf(arena, "%.1000s::%.1000s", s, text_of(bc_attr(b)));
  return bc_text_attr(b, MA_SYMBOL, str_of(s));
}

static const MlirAttr *builtin_number(Bytes *b, bool is_float) {
  MlirAttr *a = bc_new_attr(b, is_float ? MA_FLOAT : MA_INT);
  a->type = bc_type(b);
  MlirElem e = a->type->kind == MT_SCALAR ? a->type->elem : ME_NONE;
  if (is_float ? !mlir_elem_is_float(e) || !mlir_elem_dtype(e) : !mlir_elem_is_int(e)) {
    bc_unsupported(b, "a number of type %s", mlir_type_text(b->file->arena, a->type));
    return a;
  }
  uint64_t bits = bc_apint(b, mlir_elem_bits(e));
  if (is_float)
    a->f = get_f64(mlir_elem_dtype(e), &bits, 0);
  else
    a->i = mlir_elem_bits(e) <= 8 && !mlir_elem_is_unsigned(e) && e != ME_BOOL ? (int8_t)bits
                                                                               : (int64_t)bits;
  if (e == ME_BOOL) a->kind = MA_BOOL;
  return a;
}

// The name of a location, or its file, line and column; of several the first.
static const MlirAttr *builtin_location(Bytes *b, uint64_t code) {
  enum { CALL_SITE = 10, FILE_LINE, FUSED, FUSED_META, NAME, UNKNOWN };
  const char *s = "";
  if (code == CALL_SITE) {
    s = text_of(bc_attr(b));
    bc_attr(b);
  } else if (code == FILE_LINE) {
    s = text_of(bc_attr(b));
    uint64_t line = bc_varint(b), column = bc_varint(b);
    s = str_printf(b->file->arena, "%.1000s:%llu:%llu", s, (unsigned long long)line,
                   (unsigned long long)column);
  } else if (code == FUSED || code == FUSED_META) {
    const MlirAttr *list = bc_attrs(b);
    if (list->n) s = text_of(list->items[0]);
  } else if (code == NAME) {
    s = text_of(bc_attr(b));
    bc_attr(b);
  }
  return bc_text_attr(b, MA_OTHER, str_of(s));
}

static const MlirAttr *builtin_dense(Bytes *b, bool array) {
  const MlirType *t = bc_type(b);
  const char *why;
  if (array) {
    int64_t *dims = arena_array(b->file->arena, int64_t, 1);
    dims[0] = (int64_t)MIN(bc_varint(b), (uint64_t)INT64_MAX);
    MlirType *list = bc_new_type(b, MT_TENSOR);
    list->elem = t->kind == MT_SCALAR ? t->elem : ME_NONE;
    list->rank = 1;
    list->dims = dims;
    t = list;
  }
  Str raw = bc_blob(b);
  if (bc_bad(b)) return bc_new_attr(b, MA_UNIT);
  MlirAttr *a = mlir_dense_raw(b->file->arena, t, raw, &why);
  if (a) return array ? mlir_plain_attr(b->file->arena, "", a) : a;
  bc_fail(b, "%s", why);
  return bc_new_attr(b, MA_UNIT);
}

static const MlirAttr *builtin_attr(Bytes *b) {
  enum { ARRAY, DICT, STRING, STRING_TYPE, FLAT_SYMBOL, SYMBOL, TYPE, UNIT, INT, FLOAT };
  enum { LOCATIONS = 10, LOCATIONS_END = 15, DENSE_ARRAY = 17, DENSE = 18, FILE_RANGE = 22 };
  uint64_t code = bc_varint(b);
  if (code >= LOCATIONS && code <= LOCATIONS_END) return builtin_location(b, code);
  MlirAttr *a;
  switch (code) {
  case ARRAY: return bc_attrs(b);
  case DICT: return builtin_dict(b);
  case STRING:
  case STRING_TYPE: return bc_text_attr(b, MA_STRING, bc_string(b));
  case FLAT_SYMBOL: return builtin_symbol(b, false);
  case SYMBOL: return builtin_symbol(b, true);
  case TYPE:
    a = bc_new_attr(b, MA_TYPE);
    a->type = bc_type(b);
    return a;
  case UNIT: return bc_new_attr(b, MA_UNIT);
  case INT: return builtin_number(b, false);
  case FLOAT: return builtin_number(b, true);
  case DENSE_ARRAY: return builtin_dense(b, true);
  case DENSE: return builtin_dense(b, false);
  case FILE_RANGE: return bc_text_attr(b, MA_OTHER, str_of(text_of(bc_attr(b))));
  default: break;
  }
  bc_unsupported(b, "attribute %llu of the builtin dialect", (unsigned long long)code);
  return bc_new_attr(b, MA_UNIT);
}

static const MlirType *builtin_int(Bytes *b) {
  uint64_t v = bc_varint(b);
  char name[32];
  MlirType *t = bc_new_type(b, MT_SCALAR);
  snprintf(name, sizeof name, "%si%llu", (v & 3) == 2 ? "u" : "", (unsigned long long)(v >> 2));
  t->elem = mlir_elem_of(str_of(name));
  if (t->elem == ME_NONE) {
    t->elem = ME_OTHER;
    t->text = str_copy(b->file->arena, str_of(name));
  }
  return t;
}

static const MlirType *builtin_tensor(Bytes *b, bool encoding) {
  MlirType *t = bc_new_type(b, MT_TENSOR);
  if (encoding) bc_attr(b);
  t->dims = bc_signed_list(b, &t->rank);
  const MlirType *e = bc_type(b);
  t->elem = e->kind == MT_SCALAR ? e->elem : ME_OTHER;
  t->text = t->elem == ME_OTHER ? mlir_type_text(b->file->arena, e) : NULL;
  int64_t *dims = arena_dup(b->file->arena, t->dims, MAX(t->rank, 1) * (int64_t)sizeof *dims);
  for (int64_t i = 0; i < t->rank; i++)
    if (dims[i] < 0) dims[i] = MLIR_DYNAMIC;
  t->dims = dims;
  return t;
}

static const MlirType *builtin_type(Bytes *b) {
  enum {
    INT,
    INDEX,
    FUNCTION,
    BF16,
    F16,
    F32,
    F64,
    COMPLEX = 9,
    NONE = 12,
    TENSOR,
    TENSOR_ENC,
    TUPLE
  };
  static const MlirElem floats[] = {ME_BF16, ME_F16, ME_F32, ME_F64};
  uint64_t code = bc_varint(b);
  MlirType *t = bc_new_type(b, MT_SCALAR);
  if (code >= BF16 && code <= F64) {
    t->elem = floats[code - BF16];
    return t;
  }
  switch (code) {
  case INT: return builtin_int(b);
  case INDEX: t->elem = ME_INDEX; return t;
  case FUNCTION:
    t->kind = MT_FUNCTION;
    bc_types(b, t, false);
    bc_types(b, t, true);
    return t;
  case COMPLEX: {
    const MlirType *part = bc_type(b);
    t->elem = part->elem == ME_F32 ? ME_C64 : ME_C128;
    if (part->elem != ME_F32 && part->elem != ME_F64) bc_fail(b, "complex of another type");
    return t;
  }
  case NONE: t->kind = MT_NONE; return t;
  case TENSOR:
  case TENSOR_ENC: return builtin_tensor(b, code == TENSOR_ENC);
  case TUPLE:
    t->kind = MT_TUPLE;
    bc_types(b, t, false);
    return t;
  default: break;
  }
  bc_unsupported(b, "type %llu of the builtin dialect", (unsigned long long)code);
  return t;
}

// ---- tables ----

static bool begin_entry(Bytes *b, Entry *e, Bytes *part) {
  Bytecode *f = b->file;
  if (e->busy || f->depth >= MLIR_DEPTH_MAX) {
    bc_fail(b, e->busy ? "an attribute or type that contains itself"
                       : "attributes and types nested too deeply");
    return false;
  }
  e->busy = true;
  f->depth++;
  *part = (Bytes){(const uint8_t *)e->data.p, (const uint8_t *)e->data.p + e->data.n, f};
  return true;
}

static void end_entry(Entry *e, const void *value, Bytecode *f) {
  e->value = value;
  e->done = true;
  e->busy = false;
  f->depth--;
}

static Str entry_text(const Entry *e) {
  const char *nul = e->data.n ? memchr(e->data.p, 0, (size_t)e->data.n) : NULL;
  return (Str){e->data.p, nul ? nul - e->data.p : e->data.n};
}

const MlirAttr *bc_attr_at(Bytes *b, int64_t i) {
  Entry *e = &b->file->attr[i];
  Bytes part;
  if (bc_bad(b)) return bc_new_attr(b, MA_UNIT);
  if (e->done) return e->value;
  if (!begin_entry(b, e, &part)) return bc_new_attr(b, MA_UNIT);
  const MlirAttr *a;
  if (!e->custom)
    a = bc_text_attr(b, MA_OTHER, entry_text(e));
  else if (!strcmp(e->dialect, "builtin"))
    a = builtin_attr(&part);
  else if (!strcmp(e->dialect, "vhlo"))
    a = vhlo_attr(&part);
  else
    a = bc_text_attr(b, MA_OTHER, str_of(e->dialect));  // refused by whoever needs it
  end_entry(e, a, b->file);
  return a;
}

const MlirType *bc_type_at(Bytes *b, int64_t i) {
  Entry *e = &b->file->type[i];
  Bytes part;
  if (bc_bad(b)) return bc_new_type(b, MT_NONE);
  if (e->done) return e->value;
  if (!begin_entry(b, e, &part)) return bc_new_type(b, MT_NONE);
  const MlirType *t;
  if (e->custom && !strcmp(e->dialect, "builtin")) {
    t = builtin_type(&part);
  } else if (e->custom && !strcmp(e->dialect, "vhlo")) {
    t = vhlo_type(&part);
  } else {
    MlirType *other = bc_new_type(b, MT_OTHER);
    other->text = str_copy(b->file->arena, e->custom ? str_of(e->dialect) : entry_text(e));
    if (e->custom)
      bc_unsupported(b, "types of the dialect '%s' in bytecode: write the portable form (VHLO)",
                     e->dialect);
    t = other;
  }
  end_entry(e, t, b->file);
  return t;
}

const MlirAttr *bc_attr(Bytes *b) {
  int64_t i = bc_index(b, b->file->nattrs, "attribute");
  return bc_bad(b) ? bc_new_attr(b, MA_UNIT) : bc_attr_at(b, i);
}

const MlirType *bc_type(Bytes *b) {
  int64_t i = bc_index(b, b->file->ntypes, "type");
  return bc_bad(b) ? bc_new_type(b, MT_NONE) : bc_type_at(b, i);
}
