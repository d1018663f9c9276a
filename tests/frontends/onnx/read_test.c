// read_test.c -- the ONNX reader: form errors byte by byte, memory bounds, and real models.
//
// Messages are built by hand with a few writers (put_*), so that a test can also build what no
// library would write.
#include "test.h"
#include "base/platform.h"
#include "base/wire.h"
#include "frontends/onnx/onnx.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

// ---- building ----
typedef struct Bytes {
  char *p;
  int64_t n, cap;
} Bytes;

static void put(Bytes *b, const void *p, int64_t n) {
  if (b->n + n > b->cap) {
    b->cap = 2 * (b->n + n) + 64;
    b->p = realloc(b->p, (size_t)b->cap);
  }
  if (n) memcpy(b->p + b->n, p, (size_t)n);
  b->n += n;
}
static void put_varint(Bytes *b, uint64_t v) {
  for (; v >= 0x80; v >>= 7) put(b, &(char){(char)(v | 0x80)}, 1);
  put(b, &(char){(char)v}, 1);
}
static void put_int(Bytes *b, int field, int64_t v) {
  put_varint(b, (uint64_t)field << 3);
  put_varint(b, (uint64_t)v);
}
static void put_bytes(Bytes *b, int field, const void *p, int64_t n) {
  put_varint(b, (uint64_t)field << 3 | 2);
  put_varint(b, (uint64_t)n);
  put(b, p, n);
}
static void put_text(Bytes *b, int field, const char *z) {
  put_bytes(b, field, z, (int64_t)strlen(z));
}
static void put_f32(Bytes *b, int field, float f) {
  put_varint(b, (uint64_t)field << 3 | 5);
  put(b, &f, 4);
}
static void put_msg(Bytes *b, int field, Bytes *sub) {  // frees sub
  put_bytes(b, field, sub->p, sub->n);
  free(sub->p);
  *sub = (Bytes){0};
}

// A model around a graph: frees the graph.
static Bytes model_of(Bytes *graph) {
  Bytes m = {0}, opset = {0};
  put_int(&m, 1, 8);
  put_msg(&m, 7, graph);
  put_int(&opset, 2, 17);
  put_msg(&m, 8, &opset);
  return m;
}

static Bytes node_of(const char *op, const char *name) {
  Bytes n = {0};
  put_text(&n, 1, "x");
  put_text(&n, 1, "");
  put_text(&n, 2, "y");
  put_text(&n, 3, name);
  put_text(&n, 4, op);
  return n;
}

static Bytes value_of(const char *name) {
  Bytes v = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};
  put_text(&dim, 2, "batch");
  put_msg(&shape, 1, &dim);
  put_int(&dim, 1, 784);
  put_msg(&shape, 1, &dim);
  put_msg(&shape, 1, &dim);
  put_int(&tensor, 1, 1);
  put_msg(&tensor, 2, &shape);
  put_msg(&type, 1, &tensor);
  put_text(&v, 1, name);
  put_msg(&v, 2, &type);
  return v;
}

// A model with something of everything.
static Bytes small_model(void) {
  Bytes g = {0}, n = node_of("Gemm", "fc"), a = {0}, t = {0}, v;
  put_text(&a, 1, "alpha");
  put_f32(&a, 2, 0.5f);
  put_int(&a, 20, OA_FLOAT);
  put_msg(&n, 5, &a);
  put_text(&a, 1, "axes");
  put_int(&a, 8, -1);
  put_bytes(&a, 8, "\1\2\3", 3);
  put_msg(&n, 5, &a);
  put_msg(&g, 1, &n);
  put_text(&g, 2, "net");
  put_int(&t, 1, 2);
  put_int(&t, 2, 1);
  put_bytes(&t, 9, "\0\0\x80\x3f\0\0\0\x40", 8);
  put_text(&t, 8, "w");
  put_msg(&g, 5, &t);
  v = value_of("x");
  put_msg(&g, 11, &v);
  v = value_of("y");
  put_msg(&g, 12, &v);
  return model_of(&g);
}

// ---- reading under a trap ----
static Diag diag;
static tenon_status read_model(Arena *a, Str bytes, OnnxModel *out) {
  Trap t;
  diag_init(&diag);
  trap_enter(&t, &diag);
  if (setjmp(t.env) == 0) t.status = onnx_read_model(a, bytes, &diag, out);
  trap_leave(&t);
  return t.status;
}

// Reads bytes that must fail, with `part` in the message; frees them.
static void expect_fault(const char *file, int line, Bytes *b, const char *part) {
  Arena a;
  OnnxModel m;
  arena_init(&a);
  tenon_status s = read_model(&a, (Str){b->p, b->n}, &m);
  test_status(file, line, "onnx_read_model", s, TENON_EFORMAT);
  test_contains(file, line, "message", diag.text, part);
  arena_deinit(&a);
  free(b->p);
  *b = (Bytes){0};
}
#define FAULT(bytes, part) expect_fault(__FILE__, __LINE__, (bytes), (part))

static Bytes raw(const char *p, int64_t n) {
  Bytes b = {0};
  put(&b, p, n);
  return b;
}
#define RAW(literal) raw((literal), (int64_t)sizeof(literal) - 1)

TEST(onnx_read_small) {
  Bytes b = small_model();
  Arena a;
  OnnxModel m;
  arena_init(&a);
  REQUIRE(EXPECT_STATUS(read_model(&a, (Str){b.p, b.n}, &m), TENON_OK));
  EXPECT_INT_EQ(m.ir_version, 8);
  EXPECT_INT_EQ(m.opsets.n, 1);
  EXPECT_INT_EQ(m.opsets.v[0].version, 17);
  EXPECT(str_is(m.graph.name, "net"));
  REQUIRE(m.graph.nodes.n == 1);
  const OnnxNode *n = &m.graph.nodes.v[0];
  EXPECT(str_is(n->op_type, "Gemm"));
  EXPECT(str_is(n->name, "fc"));
  EXPECT_INT_EQ(n->inputs.n, 2);
  EXPECT_INT_EQ(n->inputs.v[1].n, 0);
  REQUIRE(n->nattrs == 2);
  EXPECT_F64_EQ(n->attrs[0].f, 0.5);
  EXPECT_INT_EQ(n->attrs[1].type, OA_INTS);  // not given: from the field
  EXPECT_INT_EQ(n->attrs[1].ints.n, 4);      // single and packed
  EXPECT_INT_EQ(n->attrs[1].ints.v[0], -1);
  EXPECT_INT_EQ(n->attrs[1].ints.v[3], 3);
  const OnnxType *x = &m.graph.inputs.v[0].type;
  EXPECT_INT_EQ(x->kind, OT_TENSOR);
  EXPECT_INT_EQ(x->ndims, 3);
  EXPECT(x->has_shape && x->dims[0].has_param && str_is(x->dims[0].param, "batch"));
  EXPECT(x->dims[1].has_value && x->dims[1].value == 784);
  EXPECT(!x->dims[2].has_value && !x->dims[2].has_param);
  const OnnxTensor *w = &m.graph.initializers.v[0];
  EXPECT(w->raw.p >= b.p && w->raw.p < b.p + b.n);  // not copied
  EXPECT(w->has_raw && w->dims.n == 1 && w->dims.v[0] == 2);
  arena_deinit(&a);
  free(b.p);
}

TEST(onnx_read_wire_faults) {
  Bytes b;
  b = RAW("");
  FAULT(&b, "no graph");
  b = RAW("\x08\x07");
  FAULT(&b, "no graph");
  b = RAW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  FAULT(&b, "byte 1: field 1: number of more than 10 bytes");
  b = RAW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  FAULT(&b, "more than 64 bits");
  b = RAW("\x08\xff");
  FAULT(&b, "byte 1: field 1: the message ends inside a number");
  b = RAW("\x08\x01\xff");
  FAULT(&b, "byte 2: field tag");
  b = RAW("\x3a\x7f\x0a");
  FAULT(&b, "byte 1: field 7: length 127 runs past the end of the message (1 bytes left)");
  b = RAW("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  FAULT(&b, "length 18446744073709551615 runs past the end");
  b = RAW("\x00\x01");
  FAULT(&b, "byte 0: field number 0");
  b = RAW("\x0e\x01");
  FAULT(&b, "field 1 has wire type 6");
  b = RAW("\x0f\x01");
  FAULT(&b, "field 1 has wire type 7");
  b = RAW("\xf8\xff\xff\xff\xff\xff\x01\x01");
  FAULT(&b, "beyond protobuf's largest");
  b = RAW("\x9d\x06\x01\x02");
  FAULT(&b, "byte 0: field 99: 4 bytes run past the end of the message (2 left)");
  b = RAW("\x99\x06\x01\x02");
  FAULT(&b, "8 bytes run past");
  b = RAW("\x0d\x01\x02\x03\x04");
  FAULT(&b, "ir_version (field 1) is written as 4 bytes, not as a varint");
  b = RAW("\x3a\x00\x3a\x00");
  FAULT(&b, "byte 2: graph is given twice");
}

TEST(onnx_read_groups) {
  Arena a;
  OnnxModel m;
  arena_init(&a);
  Bytes g = {0}, b;
  // Field 99 as a group with a group, a number and bytes inside; then the graph.
  b = RAW("\x9b\x06\x08\x01\x13\x14\x1a\x02zz\x9c\x06");
  put_msg(&b, 7, &g);
  EXPECT_STATUS(read_model(&a, (Str){b.p, b.n}, &m), TENON_OK);
  free(b.p);
  arena_deinit(&a);
  b = RAW("\x9b\x06\x08\x01");
  FAULT(&b, "byte 0: group 99 is never ended");
  b = RAW("\x9b\x06\x0c");
  FAULT(&b, "group 1 ends inside group 99");
  b = RAW("\x9c\x06");
  FAULT(&b, "group 99 ends, but was never started");
  for (int i = 0; i < 10000; i++) put(&b, "\x9b\x06", 2);
  FAULT(&b, "groups nest more than 64 deep");
}

// Faults inside a node: the message says which.
TEST(onnx_read_says_where) {
  Bytes g = {0}, n = node_of("Relu", "first"), b;
  put_msg(&g, 1, &n);
  n = node_of("Relu", "second");
  put(&n, "\x2a\xbf\x84\x3d", 4);  // attribute of 999999 bytes
  put_msg(&g, 1, &n);
  put_text(&g, 2, "g");
  b = model_of(&g);
  FAULT(&b, "node 1 'second' of graph 'g': field 5: length 999999 runs past the end of the message "
            "(0 bytes left)");
  n = node_of("Relu", "first");
  Bytes a = {0};
  put_text(&a, 1, "axis");
  put_int(&a, 20, OA_TENSOR);
  put_msg(&n, 5, &a);
  put_msg(&g, 1, &n);
  b = model_of(&g);
  FAULT(&b, "attribute 0 'axis' of node 0 'first' of graph: the attribute says it is TENSOR, but "
            "holds none");
}

TEST(onnx_read_names) {
  Bytes g = {0}, n = {0}, b;
  put_text(&n, 4, "Re\xfflu");
  put_msg(&g, 1, &n);
  b = model_of(&g);
  FAULT(&b, "op_type is not UTF-8");
  put_bytes(&n, 4, "Re\0lu", 5);
  put_msg(&g, 1, &n);
  b = model_of(&g);
  FAULT(&b, "op_type holds a NUL character");
  put_text(&n, 4, "Relu");
  put_text(&n, 1, "\xc0\x80");
  put_msg(&g, 1, &n);
  b = model_of(&g);
  FAULT(&b, "input name is not UTF-8");
  put_text(&n, 1, "xxxxxx");
  put_msg(&g, 1, &n);
  b = model_of(&g);
  FAULT(&b, "the node has no op_type");
  put_msg(&g, 1, &n);
  b = model_of(&g);
  FAULT(&b, "node 0 has 0 bytes, too few for any NodeProto");
}

static void attr_fault(const char *file, int line, Bytes *attr, const char *part) {
  Bytes g = {0}, n = node_of("Relu", "r"), b;
  put_msg(&n, 5, attr);
  put_msg(&g, 1, &n);
  b = model_of(&g);
  expect_fault(file, line, &b, part);
}
#define ATTR_FAULT(attr, part) attr_fault(__FILE__, __LINE__, (attr), (part))

TEST(onnx_read_attributes) {
  Bytes a = {0}, sub = {0};
  put_int(&a, 3, 1000);
  put_int(&a, 20, OA_INT);
  ATTR_FAULT(&a, "the attribute has no name");
  put_text(&a, 1, "k");
  put_int(&a, 20, 15);
  ATTR_FAULT(&a, "attribute type 15 is none of ONNX's");
  put_text(&a, 1, "k");
  put_int(&a, 20, INT64_MIN);
  ATTR_FAULT(&a, "none of its values");
  put_text(&a, 1, "k");
  put_int(&a, 3, 1);
  put_int(&a, 20, OA_INTS);
  ATTR_FAULT(&a, "says it is INTS, but holds INT");
  put_text(&a, 1, "k");
  put_int(&a, 3, 1);
  put_f32(&a, 2, 1);
  ATTR_FAULT(&a, "several values and no type");
  put_text(&a, 1, "k");
  put_bytes(&a, 8, "\1\x80", 2);
  ATTR_FAULT(&a, "ints: the list ends inside a number");
  put_text(&a, 1, "k");
  put_bytes(&a, 7, "\1\2\3\4\5", 5);
  ATTR_FAULT(&a, "floats: 5 bytes are not a whole number of 4-byte values");
  put_text(&a, 1, "k");
  put_bytes(&a, 8, "\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
  ATTR_FAULT(&a, "more than 10 bytes");
  put_text(&a, 1, "k");
  put_msg(&a, 6, &sub);
  ATTR_FAULT(&a, "too few for any GraphProto");
}

TEST(onnx_read_types) {
  Bytes g = {0}, v = {0}, type = {0}, part = {0}, shape = {0}, dim = {0}, b;
  put_int(&dim, 1, 3);
  put_text(&dim, 2, "n");
  put_msg(&shape, 1, &dim);
  put_msg(&part, 2, &shape);
  put_msg(&type, 1, &part);
  put_msg(&v, 2, &type);
  put_msg(&g, 11, &v);
  b = model_of(&g);
  FAULT(&b, "both a size (3) and a name ('n')");
  put_msg(&type, 1, &part);
  put_msg(&type, 4, &part);
  put_msg(&v, 2, &type);
  put_msg(&g, 11, &v);
  b = model_of(&g);
  FAULT(&b, "two kinds of type at once");
  put_msg(&type, 4, &part);
  put_msg(&v, 2, &type);
  put_msg(&g, 11, &v);
  b = model_of(&g);
  FAULT(&b, "without the type of what it holds");
}

// If within If, 10,000 deep, is refused; some 60 deep is read.
static Bytes nested(int depth) {
  Bytes g = {0};
  put_text(&g, 2, "leaf");
  for (int i = 0; i < depth; i++) {
    Bytes n = node_of("If", ""), a = {0};
    put_text(&a, 1, "then_branch");
    put_msg(&a, 6, &g);
    put_int(&a, 20, OA_GRAPH);
    put_msg(&n, 5, &a);
    put_msg(&g, 1, &n);
  }
  return model_of(&g);
}

TEST(onnx_read_nesting) {
  Bytes b = nested(60);
  Arena a;
  OnnxModel m;
  arena_init(&a);
  EXPECT_STATUS(read_model(&a, (Str){b.p, b.n}, &m), TENON_OK);
  arena_deinit(&a);
  free(b.p);
  b = nested(1000);
  FAULT(&b, "messages nest more than 200 deep");
  Bytes type = {0}, seq = {0}, v = {0}, g = {0};
  for (int i = 0; i < 1000; i++) {
    put_msg(&seq, 1, &type);
    put_msg(&type, 4, &seq);
  }
  put_msg(&v, 2, &type);
  put_msg(&g, 11, &v);
  b = model_of(&g);
  FAULT(&b, "messages nest more than 200 deep");
}

// The structs of a file stay within WIRE_GROWTH times its size, whatever it is full of.
TEST(onnx_read_memory_bound) {
  static const struct {
    int field;
    const char *body;
    int64_t n;
  } filler[] = {
      {1, "\x22\x01g", 3},                  // nodes
      {5, "\x10\x01", 2},                   // initializers
      {11, "", 0},                          // inputs
      {15, "\x0a\x02\x10\x01\x18\x01", 6},  // sparse initializers
  };
  for (int64_t k = 0; k < ARRAY_LEN(filler); k++) {
    Bytes g = {0};
    for (int i = 0; i < 200000; i++) put_bytes(&g, filler[k].field, filler[k].body, filler[k].n);
    Bytes b = model_of(&g);
    Arena a;
    OnnxModel m;
    arena_init(&a);
    EXPECT_STATUS(read_model(&a, (Str){b.p, b.n}, &m), TENON_OK);
    EXPECT(a.total <= WIRE_GROWTH * b.n + (1 << 20));
    arena_deinit(&a);
    free(b.p);
  }
}

TEST(onnx_read_many_small_fields) {
  Bytes g = {0}, n = node_of("Concat", "c"), a = {0};
  for (int i = 0; i < 1000000; i++) put_text(&n, 1, "i");
  put_text(&a, 1, "k");
  for (int i = 0; i < 1000000; i++) put_int(&a, 8, i & 63);
  put_msg(&n, 5, &a);
  put_msg(&g, 1, &n);
  Bytes b = model_of(&g);
  Arena arena;
  OnnxModel m;
  arena_init(&arena);
  REQUIRE(EXPECT_STATUS(read_model(&arena, (Str){b.p, b.n}, &m), TENON_OK));
  EXPECT_INT_EQ(m.graph.nodes.v[0].inputs.n, 1000002);
  EXPECT_INT_EQ(m.graph.nodes.v[0].attrs[0].ints.n, 1000000);
  EXPECT_INT_EQ(m.graph.nodes.v[0].attrs[0].ints.v[999999], 999999 & 63);
  arena_deinit(&arena);
  free(b.p);
}

// Every cut and every changed byte of a small model: an answer, whichever, and no access outside
// (each copy lies in a block of exactly its size, where the sanitizers watch).
TEST(onnx_read_damaged) {
  static const uint8_t change[] = {0x00, 0xff, 0x80, 0x01, 0x7f};
  Bytes b = small_model();
  for (int64_t i = 0; i < b.n; i++) {
    for (int64_t k = 0; k <= ARRAY_LEN(change); k++) {
      int64_t n = k ? b.n : i;
      char *copy = malloc((size_t)MAX(n, 1));
      memcpy(copy, b.p, (size_t)n);
      if (k) copy[i] ^= (char)change[k - 1];
      Arena a;
      OnnxModel m;
      arena_init(&a);
      tenon_status s = read_model(&a, (Str){copy, n}, &m);
      EXPECT(s == TENON_OK || (s == TENON_EFORMAT && diag.len > 0));
      arena_deinit(&a);
      free(copy);
    }
  }
  free(b.p);
}

static void external_fault(const char *file, int line, const char *key, const char *value,
                           const char *part) {
  Bytes g = {0}, t = {0}, e = {0}, b;
  put_int(&t, 2, 1);
  put_int(&t, 14, 1);
  put_text(&e, 1, "location");
  put_text(&e, 2, "w.bin");
  put_msg(&t, 13, &e);
  put_text(&e, 1, key);
  put_text(&e, 2, value);
  put_msg(&t, 13, &e);
  put_msg(&g, 5, &t);
  b = model_of(&g);
  expect_fault(file, line, &b, part);
}

TEST(onnx_read_external) {
  external_fault(__FILE__, __LINE__, "offset", "-1", "offset is '-1', not a number");
  external_fault(__FILE__, __LINE__, "offset", "abc", "offset is 'abc'");
  external_fault(__FILE__, __LINE__, "length", "9223372036854775808", "not a number from 0");
  external_fault(__FILE__, __LINE__, "location", "v.bin", "two of 'location'");
  Bytes g = {0}, t = {0}, e = {0}, b;
  put_int(&t, 2, 1);
  put_int(&t, 14, 1);
  put_msg(&g, 5, &t);
  b = model_of(&g);
  FAULT(&b, "without a location");
  put_int(&t, 2, 1);
  put_int(&t, 14, 2);
  put_msg(&g, 5, &t);
  b = model_of(&g);
  FAULT(&b, "data_location is 2");
  put_int(&t, 2, 1);
  put_int(&t, 14, 1);
  put_bytes(&t, 9, "abcd", 4);
  put_msg(&g, 5, &t);
  b = model_of(&g);
  FAULT(&b, "in an external file and here too");
  static const char *const pairs[] = {"location", "w.bin", "offset",    "4096",
                                      "length",   "64",    "__class__", "x"};
  put_int(&t, 2, 1);
  put_int(&t, 14, 1);
  for (int i = 0; i < 8; i += 2) {
    put_text(&e, 1, pairs[i]);
    put_text(&e, 2, pairs[i + 1]);
    put_msg(&t, 13, &e);
  }
  put_msg(&g, 5, &t);
  b = model_of(&g);
  Arena a;
  OnnxModel m;
  arena_init(&a);
  REQUIRE(EXPECT_STATUS(read_model(&a, (Str){b.p, b.n}, &m), TENON_OK));
  const OnnxTensor *x = &m.graph.initializers.v[0];
  EXPECT(x->external && str_is(x->ext_location, "w.bin"));
  EXPECT_INT_EQ(x->ext_offset, 4096);
  EXPECT_INT_EQ(x->ext_length, 64);
  EXPECT(str_is(x->ext_unknown_key, "__class__"));
  arena_deinit(&a);
  free(b.p);
}

// ---- real files ----
static void read_file(const char *path, int64_t *count) {
  File f;
  diag_init(&diag);
  REQUIRE(EXPECT_STATUS(file_open(path, &f, &diag), TENON_OK));
  Arena a;
  OnnxModel m;
  arena_init(&a);
  tenon_status s = read_model(&a, (Str){(const char *)f.bytes, f.size}, &m);
  if (s) FAIL("%s: %s", path, diag.text);
  arena_deinit(&a);
  file_close(&f);
  ++*count;
}

static void read_folder(const char *dir, int depth, int64_t *count) {
  DIR *d = opendir(dir);
  if (!d || depth > 6) return;
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (stat(path, &st)) continue;
    if (S_ISDIR(st.st_mode))
      read_folder(path, depth + 1, count);
    else if (str_ends(str_of(path), ".onnx"))
      read_file(path, count);
  }
  closedir(d);
}

TEST(onnx_read_real_models) {
  const char *dir = test_data_dir();
  if (!dir) SKIP("no data folder");
  int64_t count = 0;
  read_folder(dir, 0, &count);
  EXPECT(count > 0);
}
