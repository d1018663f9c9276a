// npy.c -- reads .npy files.
//
// Layout of a .npy: "\x93NUMPY", two version bytes, the header's length (2 bytes in version 1, 4 in
// 2 and 3), a Python dictionary literal padded with spaces, the elements.  The literal is tokenised
// by hand: the keys 'descr' (a string), 'fortran_order' (a bool) and 'shape' (a tuple of integers),
// each once.
//
// Guarantees: shape times element size equals the bytes that are there; at most one copy of the
//             data.
#include "base/npy.h"

static tenon_status bad(Diag *d, int64_t at, const char *what) {
  return fail(d, TENON_EFORMAT, (Where){.offset = at, .has_offset = true}, "npy: %s", what);
}

// ---- the header ----
typedef struct Header {
  Str descr;
  bool fortran;
  int rank;
  int64_t dims[ND_MAX_RANK];
  int64_t data;  // byte offset of the elements
} Header;

typedef struct Cursor {
  Str bytes;
  int64_t at, end;
  Diag *diag;
} Cursor;

static void skip_space(Cursor *c) {
  while (c->at < c->end && strchr(" \t\r\n", c->bytes.p[c->at]) && c->bytes.p[c->at]) c->at++;
}
static bool take(Cursor *c, char ch) {
  skip_space(c);
  if (c->at == c->end || c->bytes.p[c->at] != ch) return false;
  c->at++;
  return true;
}
static bool take_word(Cursor *c, const char *word) {
  skip_space(c);
  int64_t n = (int64_t)strlen(word);
  if (c->end - c->at < n || memcmp(c->bytes.p + c->at, word, (size_t)n)) return false;
  c->at += n;
  return true;
}

// A quoted string without escapes: no key or type needs one.
static tenon_status take_string(Cursor *c, Str *out) {
  skip_space(c);
  char quote = c->at < c->end ? c->bytes.p[c->at] : 0;
  if (quote != '\'' && quote != '"') return bad(c->diag, c->at, "expected a string in the header");
  int64_t first = ++c->at;
  while (c->at < c->end && c->bytes.p[c->at] != quote && c->bytes.p[c->at] != '\\') c->at++;
  if (c->at == c->end || c->bytes.p[c->at] == '\\')
    return bad(c->diag, first, "a string in the header has no end, or escapes");
  *out = (Str){c->bytes.p + first, c->at - first};
  c->at++;
  return TENON_OK;
}

static tenon_status take_shape(Cursor *c, Header *h) {
  if (!take(c, '(')) return bad(c->diag, c->at, "the shape is not a tuple");
  bool comma = true;
  while (!take(c, ')')) {
    int64_t first = c->at;  // take has skipped the spaces
    while (c->at < c->end && c->bytes.p[c->at] >= '0' && c->bytes.p[c->at] <= '9') c->at++;
    int64_t dim;
    if (!comma || !str_to_i64((Str){c->bytes.p + first, c->at - first}, &dim))
      return bad(c->diag, first, "the shape holds something that is not a size");
    if (h->rank == ND_MAX_RANK) return bad(c->diag, first, "an array of over 16 dimensions");
    h->dims[h->rank++] = dim;
    take_word(c, "L");  // Python 2 wrote 3L
    comma = take(c, ',');
  }
  if (h->rank == 1 && !comma) return bad(c->diag, c->at, "the shape is not a tuple");
  return TENON_OK;
}

static tenon_status take_entry(Cursor *c, Header *h, unsigned *seen) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  int64_t at = c->at;
  Str key;
  TRY(take_string(c, &key));
  unsigned k = 0;
  while (k < 3 && !str_is(key, keys[k])) k++;
  if (k == 3)
    return fail(c->diag, TENON_EFORMAT, (Where){.offset = at, .has_offset = true},
                "npy: unknown header key '%.*s'", STR_ARG(key));
  if (*seen & 1u << k) return bad(c->diag, at, "a header key is there twice");
  *seen |= 1u << k;
  if (!take(c, ':')) return bad(c->diag, c->at, "expected ':' in the header");
  skip_space(c);
  if (k == 0 && c->at < c->end && c->bytes.p[c->at] == '[')
    return fail(c->diag, TENON_EUNSUPPORTED, (Where){.offset = c->at, .has_offset = true},
                "npy: a structured array; save its fields as arrays of their own");
  if (k == 0) return take_string(c, &h->descr);
  if (k == 2) return take_shape(c, h);
  h->fortran = take_word(c, "True");
  if (!h->fortran && !take_word(c, "False"))
    return bad(c->diag, c->at, "fortran_order is neither True nor False");
  return TENON_OK;
}

static tenon_status read_header(Str bytes, Diag *d, Header *h) {
  *h = (Header){0};
  if (bytes.n < 8 || memcmp(bytes.p, "\x93NUMPY", 6)) return bad(d, 0, "not an .npy file");
  int major = (uint8_t)bytes.p[6], minor = (uint8_t)bytes.p[7];
  if (major < 1 || major > 3 || minor != 0)
    return fail(d, TENON_EUNSUPPORTED, (Where){.offset = 6, .has_offset = true},
                "npy: format version %d.%d; 1.0 to 3.0 are read", major, minor);
  int width = major == 1 ? 2 : 4;
  if (bytes.n < 8 + width) return bad(d, 8, "the file ends inside its header" CUT_OFF);
  int64_t length = 0;
  for (int i = width - 1; i >= 0; i--) length = length << 8 | (uint8_t)bytes.p[8 + i];
  if (length > bytes.n - 8 - width) return bad(d, 8, "the header is longer than the file" CUT_OFF);
  Cursor c = {bytes, 8 + width, 8 + width + length, d};
  h->data = c.end;
  unsigned seen = 0;
  if (!take(&c, '{')) return bad(d, c.at, "the header is not a plain dictionary");
  while (!take(&c, '}')) {
    TRY(take_entry(&c, h, &seen));
    skip_space(&c);
    bool comma = take(&c, ',');
    if (!comma && (c.at == c.end || bytes.p[c.at] != '}'))
      return bad(d, c.at, "the header is not a plain dictionary");
  }
  skip_space(&c);
  if (c.at != c.end) return bad(d, c.at, "text after the header's dictionary");
  if (seen != 7) return bad(d, 8 + width, "the header lacks descr, fortran_order or shape");
  return TENON_OK;
}

// ---- element types ----
typedef struct Elem {
  DType dtype;  // DT_NONE: opaque
  int64_t bytes;
  bool swap;  // big-endian
  char text;  // 'U' or 'S', else 0
} Elem;

// Names that ml_dtypes gives its types; some writers use them in place of a code.
static const struct {
  const char *name;
  DType dtype;
} named_types[] = {
    {"bfloat16", DT_BF16},      {"float8_e4m3fn", DT_F8E4M3},    {"float8_e4m3fnuz", DT_F8E4M3Z},
    {"float8_e5m2", DT_F8E5M2}, {"float8_e5m2fnuz", DT_F8E5M2Z}, {"float8_e8m0fnu", DT_F8E8M0},
};
static const struct {
  char kind;
  int bytes;
  DType dtype;
} coded_types[] = {
    {'f', 2, DT_F16}, {'f', 4, DT_F32},  {'f', 8, DT_F64}, {'i', 1, DT_I8},    {'i', 2, DT_I16},
    {'i', 4, DT_I32}, {'i', 8, DT_I64},  {'u', 1, DT_U8},  {'u', 2, DT_U16},   {'u', 4, DT_U32},
    {'u', 8, DT_U64}, {'b', 1, DT_BOOL}, {'c', 8, DT_C64}, {'c', 16, DT_C128},
};

static tenon_status refuse_type(Str descr, Diag *d) {
  Where at = {.offset = 8, .has_offset = true};
  if (str_ends(descr, "O") || str_is(descr, "object"))
    return fail(
        d, TENON_EUNSUPPORTED, at,
        "npy: an object array holds a Python pickle, which is never run; save a plain array");
  return fail(d, TENON_EUNSUPPORTED, at, "npy: element type '%.*s' is not known", STR_ARG(descr));
}

static tenon_status parse_descr(Str descr, Diag *d, Elem *out) {
  *out = (Elem){0};
  for (int64_t i = 0; i < ARRAY_LEN(named_types); i++)
    if (str_is(descr, named_types[i].name)) {
      *out = (Elem){.dtype = named_types[i].dtype, .bytes = dtype_bits(named_types[i].dtype) / 8};
      return TENON_OK;
    }
  int64_t width;
  if (descr.n < 3 || !strchr("<>|=", descr.p[0]) || !descr.p[0] || descr.p[2] == '-' ||
      descr.p[2] == '+' || !str_to_i64((Str){descr.p + 2, descr.n - 2}, &width))
    return refuse_type(descr, d);
  char kind = descr.p[1];
  out->swap = descr.p[0] == '>';
  out->bytes = width;
  for (int64_t i = 0; i < ARRAY_LEN(coded_types); i++)
    if (coded_types[i].kind == kind && coded_types[i].bytes == width) {
      out->dtype = coded_types[i].dtype;
      return TENON_OK;
    }
  if (kind == 'V' && (width == 1 || width == 2)) return TENON_OK;
  if ((kind == 'U' || kind == 'S') && width < 1 << 28) {
    out->dtype = DT_STRING;
    out->text = kind;
    out->bytes = kind == 'U' ? 4 * width : width;
    return TENON_OK;
  }
  return refuse_type(descr, d);
}

// ---- the elements ----
// Fixed sizes, so that the compiler can make single moves of them.
static void copy_elem(char *dst, const char *src, int64_t elem) {
  switch (elem) {
  case 1: *dst = *src; break;
  case 2: memcpy(dst, src, 2); break;
  case 4: memcpy(dst, src, 4); break;
  case 8: memcpy(dst, src, 8); break;
  default: memcpy(dst, src, (size_t)elem);
  }
}

// Row-major copy of column-major data: walks the result in order and the source with its strides.
static void transpose(char *dst, const char *src, const NdArray *v, int64_t elem) {
  int64_t stride[ND_MAX_RANK], index[ND_MAX_RANK] = {0}, step = elem, at = 0;
  for (int i = 0; i < v->rank; i++) {
    stride[i] = step;
    step *= v->dims[i];
  }
  for (int64_t i = 0; i < v->n; i++) {
    copy_elem(dst + i * elem, src + at, elem);
    for (int k = v->rank - 1; k >= 0; k--) {
      at += stride[k];
      if (++index[k] < v->dims[k]) break;
      at -= stride[k] * v->dims[k];
      index[k] = 0;
    }
  }
}

static void swap_bytes(char *p, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; i++, p += width)
    for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
      char t = p[a];
      p[a] = p[b];
      p[b] = t;
    }
}

static bool aligned(const void *p, int64_t n) { return n <= 1 || (uintptr_t)p % (uintptr_t)n == 0; }

static bool bools_clean(const char *p, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if ((uint8_t)p[i] > 1) return false;
  return true;
}

// One fixed-width string without its trailing zeros, at *to, which advances.  UCS-4 becomes UTF-8,
// which is never longer; bytes stay where they are.
static tenon_status decode_text(const char *p, const Elem *e, int64_t at, Diag *d, uint8_t **to,
                                Str *out) {
  if (e->text == 'S') {
    int64_t n = e->bytes;
    while (n > 0 && !p[n - 1]) n--;
    *out = (Str){p, n};
    return TENON_OK;
  }
  int64_t n = e->bytes / 4, len = 0;
  while (n > 0 && !(p[4 * n - 4] | p[4 * n - 3] | p[4 * n - 2] | p[4 * n - 1])) n--;
  for (int64_t i = 0; i < n; i++) {
    uint32_t c = 0;
    for (int k = 0; k < 4; k++) c |= (uint32_t)(uint8_t)p[4 * i + (e->swap ? 3 - k : k)] << (8 * k);
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
      return bad(d, at + 4 * i, "text holds something that is not a Unicode character");
    int w = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int k = w - 1; k > 0; k--, c >>= 6) (*to)[len + k] = (uint8_t)(0x80 | (c & 0x3f));
    (*to)[len] = (uint8_t)(w == 1 ? c : (0xf00u >> w & 0xff) | c);
    len += w;
  }
  *out = (Str){(char *)*to, len};
  *to += len;
  return TENON_OK;
}

static tenon_status read_text(Arena *a, const Header *h, const Elem *e, const char *src, Diag *d,
                              NdArray *out) {
  if (out->n > ND_MAX_STRINGS)
    return fail(d, TENON_ENOMEM, (Where){.offset = h->data, .has_offset = true},
                "npy: an array of %lld strings; %d are read", (long long)out->n, ND_MAX_STRINGS);
  Str *v = arena_array(a, Str, out->n);
  uint8_t *to = e->text == 'U' ? arena_alloc(a, out->bytes + 1) : NULL;
  for (int64_t i = 0; i < out->n; i++)
    TRY(decode_text(src + i * e->bytes, e, h->data + i * e->bytes, d, &to, &v[i]));
  out->data = v;
  if (h->fortran && out->rank > 1) {
    Str *transposed = arena_array(a, Str, out->n);
    transpose((char *)transposed, (const char *)v, out, (int64_t)sizeof(Str));
    out->data = transposed;
  }
  out->bytes = out->n * (int64_t)sizeof(Str);
  return TENON_OK;
}

static void read_numbers(Arena *a, const Header *h, const Elem *e, const char *src, bool loose,
                         NdArray *out) {
  bool complex = out->dtype == DT_C64 || out->dtype == DT_C128;
  int64_t unit = complex ? e->bytes / 2 : e->bytes;  // what swaps and aligns
  bool swap = e->swap && unit > 1, turn = h->fortran && out->rank > 1;
  bool clean = out->dtype != DT_BOOL || bools_clean(src, out->n);
  out->data = src;
  if (!swap && !turn && clean && (loose || aligned(src, unit))) return;
  char *copy = arena_alloc(a, MAX(out->bytes, 1));
  if (turn)
    transpose(copy, src, out, e->bytes);
  else
    memcpy(copy, src, (size_t)out->bytes);
  if (swap) swap_bytes(copy, out->bytes / unit, unit);
  if (!clean)
    for (int64_t i = 0; i < out->n; i++) copy[i] = copy[i] != 0;
  out->data = copy;
}

tenon_status npy_read(Arena *a, Str bytes, Diag *d, NdArray *out) {
  return npy_read_where(a, bytes, false, d, out);
}

tenon_status npy_read_where(Arena *a, Str bytes, bool loose, Diag *d, NdArray *out) {
  *out = (NdArray){.name = STR("")};
  Header h;
  Elem e;
  TRY(read_header(bytes, d, &h));
  TRY(parse_descr(h.descr, d, &e));
  out->dtype = e.dtype;
  out->void_bytes = e.dtype ? 0 : (int)e.bytes;
  out->rank = h.rank;
  out->n = 1;
  bool empty = false;
  for (int i = 0; i < h.rank; i++) {
    out->dims[i] = h.dims[i];
    empty |= h.dims[i] == 0;
    if (!ck_mul(out->n, MAX(h.dims[i], 1), &out->n))
      return bad(d, 8, "the shape's product overflows");
  }
  if (empty) out->n = 0;
  int64_t have = bytes.n - h.data;
  if (!ck_mul(out->n, e.bytes, &out->bytes) || out->bytes > have)
    return fail(
        d, TENON_EFORMAT, (Where){.offset = h.data, .has_offset = true},
        "npy: the shape asks for %lld elements of %lld bytes, the file has %lld bytes" CUT_OFF,
        (long long)out->n, (long long)e.bytes, (long long)have);
  if (out->bytes < have) return bad(d, h.data + out->bytes, "bytes after the last element");
  if (e.text) return read_text(a, &h, &e, bytes.p + h.data, d, out);
  read_numbers(a, &h, &e, bytes.p + h.data, loose, out);
  return TENON_OK;
}

const NdArray *nd_find(const NdArrayList *l, Str name) {
  for (int64_t i = 0; i < l->n; i++)
    if (str_eq(l->v[i].name, name)) return &l->v[i];
  return NULL;
}

// ---- carriers ----
// One element to a byte becomes packed; -1 when all fit, else the first that does not.
static int64_t pack(const NdArray *v, DType want, uint8_t *to) {
  int bits = dtype_bits(want), mask = (1 << bits) - 1;
  bool is_signed = dtype_class(want) == DC_INT;
  const uint8_t *from = v->data;
  for (int64_t i = 0; i < v->n; i++) {
    int x = v->dtype == DT_I8 ? (int8_t)from[i] : from[i];
    int low = is_signed ? -(1 << (bits - 1)) : 0, high = low + mask;
    // ml_dtypes leaves the upper bits of an opaque byte open.
    if (v->dtype && (x < low || x > high)) return i;
    to[i * bits / 8] |= (uint8_t)((x & mask) << (i * bits % 8));
  }
  return -1;
}

static bool is_opaque(const NdArray *v, DType want) {
  bool number = dtype_class(want) != DC_STRING && dtype_class(want) != DC_NONE;
  return !v->dtype && number && dtype_bits(want) >= 8 && dtype_bits(want) == 8 * v->void_bytes;
}

// Of values of fewer than 8 bits: one to a byte.
static bool is_carrier(const NdArray *v, DType want) {
  bool number = dtype_class(want) != DC_STRING && dtype_class(want) != DC_NONE;
  bool bytes = v->dtype == DT_I8 || v->dtype == DT_U8 || (!v->dtype && v->void_bytes == 1);
  return number && dtype_bits(want) < 8 && bytes;
}

bool nd_converts(const NdArray *v, DType want) {
  return v->dtype == want || is_opaque(v, want) || is_carrier(v, want);
}

const char *numpy_name(DType t) {
  static const char *const name[] = {
      [DT_F32] = "float32", [DT_U8] = "uint8",      [DT_I8] = "int8",        [DT_U16] = "uint16",
      [DT_I16] = "int16",   [DT_I32] = "int32",     [DT_I64] = "int64",      [DT_STRING] = "str",
      [DT_BOOL] = "bool",   [DT_F16] = "float16",   [DT_F64] = "float64",    [DT_U32] = "uint32",
      [DT_U64] = "uint64",  [DT_C64] = "complex64", [DT_C128] = "complex128"};
  const char *found = (size_t)t < ARRAY_LEN(name) ? name[t] : NULL;
  return found ? found : dtype_name(t);
}

tenon_status nd_convert(Arena *a, NdArray *v, DType want, Diag *d) {
  if (v->dtype == want) return TENON_OK;
  if (is_opaque(v, want)) {
    if (!aligned(v->data, v->void_bytes)) v->data = arena_dup(a, v->data, v->bytes);
    v->dtype = want;
    v->void_bytes = 0;
    return TENON_OK;
  }
  if (!is_carrier(v, want))
    return fail(d, TENON_EINVAL, NOWHERE, "array '%.*s' has elements of type %s, %s is needed",
                STR_ARG(v->name), v->dtype ? dtype_name(v->dtype) : "void", dtype_name(want));
  int64_t bytes;
  CHECK(dtype_bytes(want, v->n, &bytes), "smaller than what was read");
  uint8_t *to = arena_alloc(a, MAX(bytes, 1));
  int64_t wrong = pack(v, want, to);
  if (wrong >= 0)
    return fail(d, TENON_EINVAL, NOWHERE, "array '%.*s': element %lld is %d, out of range for %s",
                STR_ARG(v->name), (long long)wrong, (int)get_i64(v->dtype, v->data, wrong),
                dtype_name(want));
  v->data = to;
  v->bytes = bytes;
  v->dtype = want;
  v->void_bytes = 0;
  return TENON_OK;
}
