// read_bad_test.c -- bad TensorFlow Lite files: each is refused with its place, none does harm.
//
// A small writer makes files of one operator, front to back: a table's fields have 8 bytes each, so
// that a row of the tables below can name a place and put another number there.  Besides, every
// truncation and byte flip of a sound file must end in a status.
#include "api/model.h"
#include "ir/interpret.h"
#include "test.h"

#include <stdlib.h>

enum { MOST_BYTES = 8192, MOST_IN = 5, MOST_FIELDS = 14, MOST_DIMS = 4 };
enum { T_F32 = 0, T_I32 = 2, T_I8 = 9, T_BAD = 99, SIZE_ANY = -1, ABSENT = -2 };

typedef struct Tensor {
  int type, rank;
  int dims[MOST_DIMS];
  int ndata;  // numbers of 4 bytes; 0: no constant
  int data[8];
  float scale;
  bool sparse, variable;
} Tensor;
typedef struct Spec {
  int code, version, nin;
  Tensor in[MOST_IN], out;
  int nopt, opt[8];
  const char *custom;
} Spec;
// Offsets of fields, for damage.
typedef enum {
  P_ROOT,
  P_IDENT,
  P_VERSION,
  P_ROOT_VTABLE,
  P_ROOT_SOFFSET,
  P_ROOT_SIZE,
  P_CODES,
  P_CODES_REF,
  P_BUILTIN,
  P_CODE_VERSION,
  P_SUBS,
  P_TENSORS,
  P_TENSOR_REF,
  P_SHAPE,
  P_SHAPE0,
  P_TYPE,
  P_BUFFER,
  P_NAME,
  P_NAME_END,
  P_SIGNATURE,
  P_OPS,
  P_OPCODE,
  P_IN,
  P_IN0,
  P_OUT0,
  P_SUB_IN0,
  P_SUB_OUT0,
  P_BUFFERS,
  P_BUFFER_OFFSET,
  P_BUFFER_SIZE,
  P_SCALES,
  P_SCALE_AXIS,
  P_ORDER0,
  P_FORMAT,
  P_SEGMENTS,
  P_INDEX0,
  P_DENSE_SIZE,
  NPLACES
} Place;
typedef struct File8 {
  uint8_t p[MOST_BYTES];
  int n, at[NPLACES];
} File8;

static void put(File8 *f, int at, int64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) f->p[at + i] = (uint8_t)((uint64_t)v >> 8 * i);
}
static int room(File8 *f, int bytes, int align, int plus) {
  while ((f->n + plus) % align) f->n++;
  int at = f->n;
  f->n += bytes;
  return at;
}
// A vtable and its table; fields are not there until they are set.
static int table(File8 *f) {
  int v = room(f, 4 + 2 * MOST_FIELDS, 4, 0), t = room(f, 4 + 8 * MOST_FIELDS, 8, 4);
  put(f, v, 4 + 2 * MOST_FIELDS, 2);
  put(f, v + 2, 4 + 8 * MOST_FIELDS, 2);
  put(f, t, t - v, 4);
  return t;
}
static int field(File8 *f, int t, int k, int64_t v, int bytes) {
  int vtable = t - (int)(f->p[t] | f->p[t + 1] << 8), at = t + 4 + 8 * k;
  put(f, vtable + 4 + 2 * k, 4 + 8 * k, 2);
  put(f, at, v, bytes);
  return at;
}
static void refer(File8 *f, int from, int to) { put(f, from, to - from, 4); }
static int vector(File8 *f, int t, int k, int n, int bytes) {
  int slot = field(f, t, k, 0, 4), at = room(f, 4 + n * bytes, 8, 4);
  refer(f, slot, at);
  put(f, at, n, 4);
  return at;
}
static int ints(File8 *f, int t, int k, int n, const int *v) {
  int at = vector(f, t, k, n, 4);
  for (int i = 0; i < n; i++) put(f, at + 4 + 4 * i, v[i], 4);
  return at;
}
static int text(File8 *f, int t, int k, const char *s) {
  int n = (int)strlen(s), at = vector(f, t, k, n + 1, 1);
  put(f, at, n, 4);
  memcpy(f->p + at + 4, s, (size_t)n);
  return at;
}
static int child(File8 *f, int slot) {
  int t = table(f);
  refer(f, slot, t);
  return t;
}

static void sparsity(File8 *f,
                     int tensor) {  // [2, 2]: rows dense, columns compressed, one value each
  int s = child(f, field(f, tensor, 6, 0, 4)), order[] = {0, 1}, segments[] = {0, 1, 2},
      index[] = {1, 0};
  f->at[P_ORDER0] = ints(f, s, 0, 2, order) + 4;
  int levels = vector(f, s, 2, 2, 4), l = child(f, levels + 4);
  f->at[P_DENSE_SIZE] = field(f, l, 1, 2, 4);
  l = child(f, levels + 8);
  f->at[P_FORMAT] = field(f, l, 0, 1, 1);
  field(f, l, 2, 1, 1);
  f->at[P_SEGMENTS] = ints(f, child(f, field(f, l, 3, 0, 4)), 0, 3, segments);
  field(f, l, 4, 1, 1);
  f->at[P_INDEX0] = ints(f, child(f, field(f, l, 5, 0, 4)), 0, 2, index) + 4;
}

static void tensor(File8 *f, int slot, const Tensor *s, int buffer, bool first) {
  int t = child(f, slot), shape = ints(f, t, 0, s->rank, s->dims);
  int type = field(f, t, 1, s->type, 1), to = field(f, t, 2, buffer, 4);
  int name = text(f, t, 3, first ? "x" : "t");
  if (first) {
    f->at[P_TENSOR_REF] = slot;
    f->at[P_SHAPE] = shape;
    f->at[P_SHAPE0] = shape + 4;
    f->at[P_TYPE] = type;
    f->at[P_BUFFER] = to;
    f->at[P_NAME] = name;
    f->at[P_NAME_END] = name + 5;
    f->at[P_SIGNATURE] = ints(f, t, 7, s->rank, s->dims);
  }
  if (s->variable) field(f, t, 5, 1, 1);
  if (s->scale != 0) {
    int q = child(f, field(f, t, 4, 0, 4)), scales = vector(f, q, 2, 1, 4),
        axis = field(f, q, 6, 0, 4);
    memcpy(f->p + scales + 4, &s->scale, 4);
    vector(f, q, 3, 1, 8);
    if (first) {
      f->at[P_SCALES] = scales;
      f->at[P_SCALE_AXIS] = axis;
    }
  }
  if (s->sparse) sparsity(f, t);
}

static void subgraph(File8 *f, int slot, const Spec *s) {
  int sub = child(f, slot), tensors = vector(f, sub, 0, s->nin + 1, 4), index[MOST_IN + 1],
      free[MOST_IN], nfree = 0;
  f->at[P_TENSORS] = tensors;
  for (int i = 0; i <= s->nin; i++) {
    const Tensor *t = i < s->nin ? &s->in[i] : &s->out;
    index[i] = i;
    tensor(f, tensors + 4 + 4 * i, t, t->ndata ? i + 1 : 0, i == 0);
    if (i < s->nin && !t->ndata && !t->variable) free[nfree++] = i;
  }
  f->at[P_SUB_IN0] = ints(f, sub, 1, nfree, free) + 4;
  f->at[P_SUB_OUT0] = ints(f, sub, 2, 1, &s->nin) + 4;
  f->at[P_OPS] = vector(f, sub, 3, 1, 4);
  int op = child(f, f->at[P_OPS] + 4);
  f->at[P_OPCODE] = field(f, op, 0, 0, 4);
  f->at[P_IN] = ints(f, op, 1, s->nin, index);
  f->at[P_IN0] = f->at[P_IN] + 4;
  f->at[P_OUT0] = ints(f, op, 2, 1, &s->nin) + 4;
  if (s->nopt) {
    field(f, op, 3, 1, 1);
    int o = child(f, field(f, op, 4, 0, 4));
    for (int i = 0; i < s->nopt; i++) field(f, o, i, s->opt[i], 4);
  }
}

static void build(File8 *f, const Spec *s) {
  memset(f, 0, sizeof *f);
  f->n = 8;
  memcpy(f->p + 4, "TFL3", 4);
  f->at[P_IDENT] = 4;
  int root = child(f, 0);
  f->at[P_ROOT_SOFFSET] = root;
  f->at[P_ROOT_VTABLE] = root - (f->p[root] | f->p[root + 1] << 8);
  f->at[P_ROOT_SIZE] = f->at[P_ROOT_VTABLE] + 2;
  f->at[P_VERSION] = field(f, root, 0, 3, 4);
  f->at[P_CODES] = vector(f, root, 1, 1, 4);
  f->at[P_CODES_REF] = root + 4 + 8;
  int code = child(f, f->at[P_CODES] + 4);
  f->at[P_BUILTIN] = field(f, code, 3, s->code, 4);
  f->at[P_CODE_VERSION] = field(f, code, 2, s->version ? s->version : 1, 4);
  if (s->custom) text(f, code, 1, s->custom);
  f->at[P_SUBS] = vector(f, root, 2, 1, 4);
  subgraph(f, f->at[P_SUBS] + 4, s);
  f->at[P_BUFFERS] = vector(f, root, 4, s->nin + 1, 4);
  for (int i = 0; i <= s->nin; i++) {
    int b = child(f, f->at[P_BUFFERS] + 4 + 4 * i);
    const Tensor *t = i ? &s->in[i - 1] : NULL;
    if (t && t->ndata) ints(f, b, 0, t->ndata, t->data);
    if (t && t->ndata) put(f, f->n - 4 * t->ndata - 4, 4 * t->ndata, 4);  // a vector of bytes
    if (!i) {
      f->at[P_BUFFER_OFFSET] = field(f, b, 1, 0, 8);
      f->at[P_BUFFER_SIZE] = field(f, b, 2, 0, 8);
    }
  }
  room(f, 8, 8, 0);
}

static tenon_status try_bytes(const void *p, int64_t n, Diag *d, Model **m) {
  ModelOptions o = {.memory_limit = 64 << 20};
  diag_init(d);
  *m = NULL;
  return model_open_memory(p, n, NULL, &o, d, m);
}
static void refused(const char *name, const File8 *f, const char *part) {
  Diag d;
  Model *m;
  uint8_t *exact = malloc((size_t)f->n);  // so that the sanitizer sees a byte too far
  memcpy(exact, f->p, (size_t)f->n);
  tenon_status st = try_bytes(exact, f->n, &d, &m);
  bool unsupported = !st && m->import.unsupported.n > 0;
  const char *said = unsupported ? m->import.unsupported.v[0].op : d.text;
  if ((!st && !unsupported) || st == TENON_EINTERNAL)
    FAIL("%s: %s %s", name, status_name(st), d.text);
  else if (!strstr(said, part))
    FAIL("%s: '%s' has no '%s'", name, said, part);
  model_free(m);
  free(exact);
}

#define X                                                                                          \
  { T_F32, 1, {2}, 0, {0}, 0, false, false }
#define F(...)                                                                                     \
  { T_F32, PP_NARG(__VA_ARGS__), {__VA_ARGS__}, 0, {0}, 0, false, false }
static const Spec relu = {19, 1, 1, {X}, X, 0, {0}, NULL};
static const Spec sparse_add = {
    0, 1, 2, {F(2, 2), {T_F32, 2, {2, 2}, 2, {1, 2}, 0, true, false}}, F(2, 2), 0, {0}, NULL};
static const Spec scaled = {22,
                            1,
                            1,
                            {{T_I8, 1, {2}, 0, {0}, 0.5f, false, false}},
                            {T_I8, 1, {2}, 0, {0}, 0.5f, false, false},
                            0,
                            {0},
                            NULL};

TEST(tflite_writer_is_sound) {
  const Spec *const all[] = {&relu, &sparse_add};
  for (int64_t i = 0; i < ARRAY_LEN(all); i++) {
    File8 f;
    Diag d;
    Model *m;
    build(&f, all[i]);
    tenon_status st = try_bytes(f.p, f.n, &d, &m);
    if (st || m->import.unsupported.n) FAIL("%lld: %s", (long long)i, d.text);
    model_free(m);
  }
}

// ---- damage to a place ----

TEST(tflite_bad_places) {
  static const struct {
    const char *name;
    const Spec *of;
    Place at;
    int plus, bytes;
    int64_t value;
    const char *part;
  } rows[] = {
      {"root past the end", &relu, P_ROOT, 0, 4, 1 << 20, "past the end"},
      {"root at the very end", &relu, P_ROOT, 0, 4, 8188, "past the end"},
      {"root far past the end", &relu, P_ROOT, 0, 4, 0xfffffff0, "past the end"},
      {"root not aligned", &relu, P_ROOT, 0, 4, 45, "aligned"},
      {"vtable before the file", &relu, P_ROOT_SOFFSET, 0, 4, 0x7fffffff, "vtable"},
      {"vtable behind the file", &relu, P_ROOT_SOFFSET, 0, 4, -100000, "vtable"},
      {"vtable not aligned", &relu, P_ROOT_SOFFSET, 0, 4, 31, "vtable"},
      {"vtable of 2 bytes", &relu, P_ROOT_VTABLE, 0, 2, 2, "a vtable of 2"},
      {"vtable of odd length", &relu, P_ROOT_VTABLE, 0, 2, 9, "a vtable of 9"},
      {"vtable past the end", &relu, P_ROOT_VTABLE, 0, 2, 0xfffe, "past the end"},
      {"table past the end", &relu, P_ROOT_SIZE, 0, 2, 0xffff, "past the end"},
      {"table without bytes", &relu, P_ROOT_SIZE, 0, 2, 0, "a table of 0"},
      {"field outside of its table", &relu, P_ROOT_SIZE, 0, 2, 6, "field 0 lies outside"},
      {"field in the table's head", &relu, P_ROOT_VTABLE, 4, 2, 2, "field 0 lies outside"},
      {"scalar not aligned", &relu, P_ROOT_VTABLE, 4, 2, 5, "not aligned"},
      {"version 2", &relu, P_VERSION, 0, 4, 2, "schema version 2"},
      {"version 4", &relu, P_VERSION, 0, 4, 4, "schema version 4"},
      {"codes past the end", &relu, P_CODES, 0, 4, 0x3fffffff, "past the end"},
      {"codes whose bytes overflow", &relu, P_CODES, 0, 4, 0xffffffff, "past the end"},
      {"codes elsewhere", &relu, P_CODES_REF, 0, 4, 0x7ffffffc, "past the end"},
      {"codes not aligned", &relu, P_CODES_REF, 0, 4, 9, "aligned"},
      {"no codes", &relu, P_CODES, 0, 4, 0, "operator code 0 of 0"},
      {"unknown operator", &relu, P_BUILTIN, 0, 4, 5000, "builtin operator 5000"},
      {"negative operator", &relu, P_BUILTIN, 0, 4, 127, "builtin operator 127"},
      {"version too new", &relu, P_CODE_VERSION, 0, 4, 99, "RELU version 99"},
      {"no sub-graph", &relu, P_SUBS, 0, 4, 0, "no sub-graph"},
      {"sub-graphs past the end", &relu, P_SUBS, 0, 4, 1 << 24, "past the end"},
      {"tensors past the end", &relu, P_TENSORS, 0, 4, 1 << 24, "past the end"},
      {"no tensors", &relu, P_TENSORS, 0, 4, 0, "refers to tensor"},
      {"tensor elsewhere", &relu, P_TENSOR_REF, 0, 4, 1 << 28, "past the end"},
      {"rank 2000", &relu, P_SHAPE, 0, 4, 2000, "past the end"},
      {"negative size", &relu, P_SHAPE0, 0, 4, -7, "size -7"},
      {"shape and signature differ", &relu, P_SHAPE0, 0, 4, 3, "shape_signature"},
      {"signature of another rank", &relu, P_SIGNATURE, 0, 4, 2, "rank 1 and 2"},
      {"signature of -5", &relu, P_SIGNATURE, 4, 4, -5, "shape_signature"},
      {"unknown type", &relu, P_TYPE, 0, 1, 77, "type 77"},
      {"negative type", &relu, P_TYPE, 0, 1, -1, "type -1"},
      {"buffer out of range", &relu, P_BUFFER, 0, 4, 55, "buffer 55"},
      {"buffer far out of range", &relu, P_BUFFER, 0, 4, 0xffffffff, "buffer 4294967295"},
      {"name past the end", &relu, P_NAME, 0, 4, 1 << 20, "past the end"},
      {"name without an end", &relu, P_NAME_END, 0, 1, 'y', "no zero ends"},
      {"no operators", &relu, P_OPS, 0, 4, 0, "nothing computes"},
      {"operators past the end", &relu, P_OPS, 0, 4, 1 << 20, "past the end"},
      {"operator code 9", &relu, P_OPCODE, 0, 4, 9, "operator code 9"},
      {"operand -2", &relu, P_IN0, 0, 4, -2, "refers to tensor -2"},
      {"operand 9", &relu, P_IN0, 0, 4, 9, "refers to tensor 9"},
      {"operand absent", &relu, P_IN0, 0, 4, -1, "input 0 is missing"},
      {"operand is its own result", &relu, P_IN0, 0, 4, 1, "nothing computes"},
      {"operands gone", &relu, P_IN, 0, 4, 0, "is missing"},
      {"result -1", &relu, P_OUT0, 0, 4, -1, "refers to tensor -1"},
      {"result is the input", &relu, P_OUT0, 0, 4, 0, "computed twice"},
      {"input 7", &relu, P_SUB_IN0, 0, 4, 7, "refers to tensor 7"},
      {"input is the result", &relu, P_SUB_IN0, 0, 4, 1, ""},
      {"output 7", &relu, P_SUB_OUT0, 0, 4, 7, "refers to tensor 7"},
      {"output -1", &relu, P_SUB_OUT0, 0, 4, -1, "refers to tensor -1"},
      {"buffers past the end", &relu, P_BUFFERS, 0, 4, 1 << 20, "past the end"},
      {"data behind the file", &relu, P_BUFFER_OFFSET, 0, 8, 1 << 20, "buffer 0"},
      {"data before the file", &relu, P_BUFFER_OFFSET, 0, 8, INT64_MIN, "buffer 0"},
      {"scales past the end", &scaled, P_SCALES, 0, 4, 1 << 20, "past the end"},
      {"two scales, one zero point", &scaled, P_SCALES, 0, 4, 2, ""},
      {"no such order", &sparse_add, P_ORDER0, 0, 4, 5, "traversal order"},
      {"an axis twice", &sparse_add, P_ORDER0, 0, 4, 1, "traversal order"},
      {"dense size 3", &sparse_add, P_DENSE_SIZE, 0, 4, 3, "another size"},
      {"columns dense", &sparse_add, P_FORMAT, 0, 1, 0, "another size"},
      {"one segment", &sparse_add, P_SEGMENTS, 0, 4, 1, "too few segments"},
      {"segments past the end", &sparse_add, P_SEGMENTS, 0, 4, 1 << 20, "past the end"},
      {"segments descend", &sparse_add, P_SEGMENTS, 8, 4, -1, "segment"},
      {"segments too far", &sparse_add, P_SEGMENTS, 12, 4, 9, "segment"},
      {"segments end early", &sparse_add, P_SEGMENTS, 12, 4, 1, "fewer elements"},
      {"index outside", &sparse_add, P_INDEX0, 0, 4, 2, "index outside"},
      {"index negative", &sparse_add, P_INDEX0, 0, 4, -1, "index outside"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    File8 f;
    build(&f, rows[i].of);
    put(&f, f.at[rows[i].at] + rows[i].plus, rows[i].value, rows[i].bytes);
    refused(rows[i].name, &f, rows[i].part);
  }
}

// ---- operators that get what they cannot have ----

#define I(n, ...)                                                                                  \
  { T_I32, 1, {n}, n, {__VA_ARGS__}, 0, false, false }
#define I0(v)                                                                                      \
  { T_I32, 0, {0}, 1, {v}, 0, false, false }
#define II(r, ...)                                                                                 \
  { T_I32, 2, {r, 2}, 2 * (r), {__VA_ARGS__}, 0, false, false }
#define ANY                                                                                        \
  { T_F32, 0, {0}, 0, {0}, 0, false, false }
#define ANY_I32                                                                                    \
  { T_I32, 0, {0}, 0, {0}, 0, false, false }
#define Q(s)                                                                                       \
  { T_I8, 1, {2}, 0, {0}, s, false, false }
#define ONE(c, out, nopt, ...)                                                                     \
  { c, 1, 1, {F(1, 4, 4, 2)}, out, nopt, {__VA_ARGS__}, NULL }

TEST(tflite_bad_operators) {
  static const struct {
    const char *name;
    Spec spec;
    const char *part;
  } rows[] = {
      {"space_to_depth by 0", ONE(26, ANY, 1, 0), "blocks of 1"},
      {"space_to_depth by -2", ONE(26, ANY, 1, -2), "blocks of 1"},
      {"depth_to_space by 0", ONE(5, ANY, 1, 0), "blocks of 1"},
      {"depth_to_space by 3", ONE(5, ANY, 1, 3), ""},
      {"pool with stride 0", ONE(17, ANY, 5, 0, 0, 1, 2, 2), "stride"},
      {"pool with stride -1", ONE(17, ANY, 5, 0, -1, 1, 2, 2), "stride"},
      {"pool of 0", ONE(1, ANY, 5, 0, 1, 1, 0, 2), "size"},
      {"pool with padding 7", ONE(1, ANY, 5, 7, 1, 1, 2, 2), "padding 7"},
      {"pool with activation 9", ONE(1, ANY, 6, 0, 1, 1, 2, 2, 9), "activation 9"},
      {"pool of rank 1", {17, 1, 1, {X}, ANY, 5, {0, 1, 1, 2, 2}, NULL}, "rank 4"},
      {"conv with stride 0",
       {3, 1, 2, {F(1, 4, 4, 2), F(3, 1, 1, 2)}, ANY, 3, {0, 0, 1}, NULL},
       "stride"},
      {"conv with dilation 0",
       {3, 1, 2, {F(1, 4, 4, 2), F(3, 1, 1, 2)}, ANY, 6, {0, 1, 1, 0, 0, 1}, NULL},
       "dilation"},
      {"conv of other channels",
       {3, 1, 2, {F(1, 4, 4, 2), F(3, 1, 1, 5)}, ANY, 3, {0, 1, 1}, NULL},
       "channels"},
      {"conv without taps", {3, 1, 2, {F(1, 4, 4, 2), F(3, 0, 1, 2)}, ANY, 3, {0, 1, 1}, NULL}, ""},
      {"conv with no bias elements",
       {3,
        1,
        3,
        {F(1, 4, 4, 2), F(3, 1, 1, 2), {T_F32, 1, {0}, 0, {0}, 0, false, false}},
        ANY,
        3,
        {0, 1, 1},
        NULL},
       ""},
      {"conv of rank 2", {3, 1, 2, {F(1, 4), F(3, 4)}, ANY, 3, {0, 1, 1}, NULL}, "rank 4"},
      {"depthwise of other channels",
       {4, 1, 2, {F(1, 4, 4, 2), F(1, 1, 1, 3)}, ANY, 3, {0, 1, 1}, NULL},
       ""},
      {"fully connected without columns",
       {9, 1, 2, {F(2, 0), F(3, 0)}, ANY, 1, {0}, NULL},
       "columns"},
      {"fully connected of other depth", {9, 1, 2, {F(2, 5), F(3, 4)}, ANY, 1, {0}, NULL}, ""},
      {"fully connected by rank 1", {9, 1, 2, {F(2, 5), F(5)}, ANY, 1, {0}, NULL}, "rank 1"},
      {"shuffled weights", {9, 1, 2, {F(2, 5), F(3, 5)}, ANY, 2, {0, 1}, NULL}, "shuffled"},
      {"stride that never ends",
       {45, 1, 4, {X, I(1, 0), I(1, 2), I(1, 0)}, ANY, 1, {0}, NULL},
       "never ends"},
      {"slice of too many axes",
       {45, 1, 4, {X, I(2, 0, 0), I(2, 2, 2), I(2, 1, 1)}, ANY, 1, {0}, NULL},
       "entries"},
      {"slice of other lengths",
       {45, 1, 4, {X, I(2, 0, 0), I(1, 2), I(1, 1)}, ANY, 1, {0}, NULL},
       "one length"},
      {"two ellipses",
       {45, 1, 4, {X, I(2, 0, 0), I(2, 2, 2), I(2, 1, 1)}, ANY, 3, {0, 0, 3}, NULL},
       "ellipsis"},
      {"slice past the end",
       {45, 1, 4, {X, I(1, 5), I(1, 6), I(1, 1)}, ANY, 5, {0, 0, 0, 0, 1}, NULL},
       ""},
      {"slice of other rank", {65, 1, 3, {X, I(2, 0, 0), I(2, 1, 1)}, ANY, 0, {0}, NULL}, ""},
      {"negative segment", {125, 1, 2, {X, I(2, -1, 0)}, ANY, 0, {0}, NULL}, "segment ids"},
      {"segments that descend", {125, 1, 2, {X, I(2, 1, 0)}, ANY, 0, {0}, NULL}, "segment ids"},
      {"axis 5", {40, 1, 2, {X, I(1, 5)}, ANY, 1, {0}, NULL}, "axis 5"},
      {"axis -2", {56, 1, 2, {X, I(1, -2)}, ANY_I32, 1, {0}, NULL}, "axis -2"},
      {"no axis",
       {56, 1, 2, {X, {T_I32, 1, {0}, 0, {0}, 0, false, false}}, ANY_I32, 1, {0}, NULL},
       ""},
      {"concat of other sizes", {2, 1, 2, {F(2, 3), F(2, 4)}, ANY, 1, {0}, NULL}, ""},
      {"concat along 7", {2, 1, 2, {X, X}, ANY, 1, {7}, NULL}, "axis 7"},
      {"concat of nothing", {2, 1, 0, {X}, ANY, 1, {0}, NULL}, "nothing to join"},
      {"pack of other shapes", {83, 1, 2, {F(2), F(3)}, ANY, 2, {2, 0}, NULL}, ""},
      {"split into 2 of 3", {49, 1, 2, {I0(0), F(3, 2)}, ANY, 1, {2}, NULL}, ""},
      {"split by negative sizes",
       {102, 1, 3, {X, I(1, -3), I0(0)}, ANY, 0, {0}, NULL},
       "part of -3"},
      {"split into more than there is",
       {102, 1, 3, {X, I(2, 5, -1), I0(0)}, ANY, 0, {0}, NULL},
       ""},
      {"unpack another number", {88, 1, 1, {X}, ANY, 2, {1, 0}, NULL}, "outputs"},
      {"reshape to another size", {22, 1, 2, {X, I(2, 2, 2)}, ANY, 0, {0}, NULL}, ""},
      {"reshape to -3", {22, 1, 2, {X, I(1, -3)}, ANY, 0, {0}, NULL}, ""},
      {"transpose by an axis twice", {39, 1, 2, {F(2, 3), I(2, 1, 1)}, ANY, 0, {0}, NULL}, ""},
      {"transpose by too few axes", {39, 1, 2, {F(2, 3), I(1, 0)}, ANY, 0, {0}, NULL}, "1 axes"},
      {"pad by negative borders", {34, 1, 2, {X, II(1, -3, -3)}, ANY, 0, {0}, NULL}, ""},
      {"pad of another rank", {34, 1, 2, {X, II(2, 0, 0, 0, 0)}, ANY, 0, {0}, NULL}, ""},
      {"pad by a vector", {34, 1, 2, {X, I(2, 1, 1)}, ANY, 0, {0}, NULL}, "rank 2"},
      {"mirror wider than the image", {100, 1, 2, {X, II(1, 5, 5)}, ANY, 1, {1}, NULL}, "border"},
      {"space to batch by 0",
       {38, 1, 3, {F(1, 4, 4, 2), I(2, 0, 2), II(2, 0, 0, 0, 0)}, ANY, 0, {0}, NULL},
       "blocks of 0"},
      {"space to batch that does not divide",
       {38, 1, 3, {F(1, 4, 4, 2), I(2, 3, 2), II(2, 0, 0, 0, 0)}, ANY, 0, {0}, NULL},
       "divide"},
      {"batch to space by 0",
       {37, 1, 3, {F(4, 4, 4, 2), I(2, 0, 2), II(2, 0, 0, 0, 0)}, ANY, 0, {0}, NULL},
       "blocks of 0"},
      {"batch to space by more than there is",
       {37, 1, 3, {F(3, 2, 2, 2), I(2, 2, 2), II(2, 0, 0, 0, 0)}, ANY, 0, {0}, NULL},
       "divide"},
      {"gather along 4", {36, 1, 2, {X, I(1, 0)}, ANY, 1, {4}, NULL}, "axis 4"},
      {"gather with 3 batch axes", {36, 1, 2, {X, I(1, 0)}, ANY, 2, {0, 3}, NULL}, "batch"},
      {"gather by floats", {36, 1, 2, {X, X}, ANY, 1, {0}, NULL}, ""},
      {"resize to nothing", {23, 1, 2, {F(1, 4, 4, 2), I(2, 0, -1)}, ANY, 0, {0}, NULL}, ""},
      {"resize of rank 1", {23, 1, 2, {X, I(2, 3, 3)}, ANY, 0, {0}, NULL}, "rank 4"},
      {"transposed conv of other sizes",
       {67, 1, 3, {I(4, 1, 90, 4, 2), F(2, 1, 1, 2), F(1, 4, 4, 2)}, ANY, 3, {1, 1, 1}, NULL},
       "a result of 90"},
      {"transposed conv of negative sizes",
       {67, 1, 3, {I(4, 1, -4, 4, 2), F(2, 1, 1, 2), F(1, 4, 4, 2)}, ANY, 3, {1, 1, 1}, NULL},
       "a result of -4"},
      {"transposed conv with stride 0",
       {67, 1, 3, {I(4, 1, 4, 4, 2), F(2, 1, 1, 2), F(1, 4, 4, 2)}, ANY, 3, {1, 0, 0}, NULL},
       "stride"},
      {"a result of another type", {0, 1, 2, {X, X}, ANY_I32, 0, {0}, NULL}, "declared i32"},
      {"sum of two types", {0, 1, 2, {X, I(2, 1, 2)}, ANY, 0, {0}, NULL}, ""},
      {"bits that do not exist", {80, 1, 1, {X}, ANY, 3, {0, 0x3f800000, 99}, NULL}, "99 bits"},
      {"an if that calls itself",
       {118, 1, 1, {{6, 0, {0}, 0, {0}, 0, false, false}}, ANY, 2, {0, 0}, NULL},
       "calls itself"},
      {"a while that calls itself", {119, 1, 1, {X}, ANY, 2, {0, 0}, NULL}, "calls itself"},
      {"call_once that calls itself", {129, 1, 0, {X}, ANY, 1, {0}, NULL}, "calls itself"},
      {"a call of sub-graph 8", {31, 1, 1, {X}, ANY, 1, {8}, NULL}, "sub-graph 8"},
      {"a call of sub-graph -1",
       {118, 1, 1, {{6, 0, {0}, 0, {0}, 0, false, false}}, ANY, 2, {-1, -1}, NULL},
       "sub-graph -1"},
      {"a condition of floats", {118, 1, 1, {X}, ANY, 2, {5, 5}, NULL}, ""},
      {"a custom operator", {32, 1, 1, {X}, ANY, 0, {0}, "Frobnicate"}, "Frobnicate"},
      {"a variable that nothing set",
       {143, 1, 1, {{13, 0, {0}, 0, {0}, 0, false, false}}, ANY, 0, {0}, NULL},
       ""},
      {"dequantised without a scale",
       {6, 1, 1, {{T_I8, 1, {2}, 0, {0}, 0, false, false}}, ANY, 0, {0}, NULL},
       ""},
      {"bytes added without a scale",
       {0, 1, 2, {Q(0), Q(0)}, Q(0), 1, {0}, NULL},
       "without quantisation"},
      {"bytes multiplied without a scale",
       {9,
        1,
        2,
        {{T_I8, 2, {2, 4}, 0, {0}, 0, false, false}, {T_I8, 2, {3, 4}, 0, {0}, 0, false, false}},
        {T_I8, 2, {2, 3}, 0, {0}, 0, false, false},
        1,
        {0},
        NULL},
       "without quantisation"},
      {"quantised only on one side", {0, 1, 2, {Q(0.5f), X}, Q(0.5f), 1, {0}, NULL}, ""},
      {"joined with other scales",
       {83,
        1,
        2,
        {Q(0.5f), Q(0.25f)},
        {T_I8, 2, {2, 2}, 0, {0}, 0.5f, false, false},
        2,
        {2, 0},
        NULL},
       ""},
      {"cosine of quantised values", {108, 1, 1, {Q(0.5f)}, Q(0.5f), 0, {0}, NULL}, ""},
      {"constant with too few bytes",
       {0, 1, 2, {F(4), {T_F32, 1, {4}, 3, {0}, 0, false, false}}, ANY, 0, {0}, NULL},
       "12 bytes of data"},
      {"constant with too many bytes",
       {0, 1, 2, {F(4), {T_F32, 1, {4}, 5, {0}, 0, false, false}}, ANY, 0, {0}, NULL},
       "20 bytes of data"},
      {"more elements than fit",
       {19,
        1,
        1,
        {{T_F32, 4, {2147483647, 2147483647, 2147483647, 4}, 0, {0}, 0, false, false}},
        ANY,
        0,
        {0},
        NULL},
       "too many elements"},
      {"one_hot along -5",
       {85, 1, 4, {I(2, 0, 1), I0(3), ANY, ANY}, ANY, 1, {-5}, NULL},
       "axis -5"},
      {"an update that is larger",
       {151, 1, 3, {F(2), F(3), I(1, 0)}, ANY, 0, {0}, NULL},
       "update of 3"},
      {"reverse along 3", {105, 1, 2, {X, I(1, 3)}, ANY, 0, {0}, NULL}, "axis 3"},
      {"batch and time are one",
       {112, 1, 2, {F(2, 2), I(2, 1, 1)}, ANY, 2, {0, 0}, NULL},
       "one axis"},
      {"distances of 0", {203, 1, 3, {X, I(1, 0), ANY}, ANY, 0, {0}, NULL}, "distance of 0"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    File8 f;
    build(&f, &rows[i].spec);
    refused(rows[i].name, &f, rows[i].part);
  }
}

// Integers divided by a constant 0: sound as a file, an error where it is run (or folded).
TEST(tflite_division_by_zero_is_an_error) {
  static const Spec divide = {42,
                              1,
                              2,
                              {{T_I32, 1, {2}, 0, {0}, 0, false, false}, I(2, 0, 0)},
                              {T_I32, 1, {2}, 0, {0}, 0, false, false},
                              1,
                              {0},
                              NULL};
  File8 f;
  Diag d;
  Model *m;
  build(&f, &divide);
  EXPECT_STATUS(try_bytes(f.p, f.n, &d, &m), TENON_OK);
  Interp *in;
  Run run;
  Value *x, *out = NULL;
  int64_t two = 2;
  EXPECT_STATUS(interp_create(m->graph, &(InterpOptions){0}, &d, &in), TENON_OK);
  run_init(&run, NULL, &d);
  EXPECT_STATUS(value_tensor(&run, NOWHERE, DT_I32, 1, &two, &x), TENON_OK);
  EXPECT(interp_run(in, &run, &x, &out) != TENON_OK);
  run_deinit(&run);
  interp_free(in);
  model_free(m);
}

// ---- damage anywhere ----

static void damage_everywhere(const File8 *f) {
  Diag d;
  Model *m;
  for (int i = 0; i < f->n - 8; i++) {  // the last bytes are padding
    uint8_t *cut = malloc((size_t)i + 1);
    memcpy(cut, f->p, (size_t)i);
    tenon_status st = try_bytes(cut, i, &d, &m);
    if (st == TENON_EINTERNAL) FAIL("%d bytes: %s", i, d.text);
    model_free(m);
    free(cut);
  }
  for (int i = 0; i < f->n; i++)
    for (int bit = 0; bit < 8; bit++) {
      uint8_t *copy = malloc((size_t)f->n);
      memcpy(copy, f->p, (size_t)f->n);
      copy[i] = (uint8_t)(copy[i] ^ 1 << bit);
      tenon_status st = try_bytes(copy, f->n, &d, &m);
      if (st == TENON_EINTERNAL) FAIL("byte %d: %s", i, d.text);
      model_free(m);
      free(copy);
    }
}
TEST(tflite_damaged_anywhere) {
  File8 f;
  build(&f, &relu);
  damage_everywhere(&f);
  build(&f, &sparse_add);
  damage_everywhere(&f);
}

TEST(tflite_truncated_anywhere_is_refused) {
  File8 f;
  Diag d;
  Model *m;
  build(&f, &relu);
  for (int i = 0; i < f.n - 16; i++) {
    char *cut = malloc((size_t)i + 1);
    memcpy(cut, f.p, (size_t)i);
    if (!try_bytes(cut, i, &d, &m)) FAIL("%d of %d bytes are read", i, f.n);
    model_free(m);
    free(cut);
  }
}
