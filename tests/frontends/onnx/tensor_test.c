// tensor_test.c -- onnx_tensor_bytes: every way a tensor's data can be written, right and wrong.
#include "test.h"
#include "frontends/onnx/onnx.h"

static Diag diag;
static Arena arena;
typedef struct Got {
  tenon_status status;
  const void *bytes;
  int64_t nbytes, n;
  bool in_file;
} Got;

// Reads a TensorProto and its elements.
static Got tensor_of(const char *p, int64_t n) {
  Got g = {0};
  OnnxTensor t;
  Trap trap;
  diag_init(&diag);
  trap_enter(&trap, &diag);
  if (setjmp(trap.env) == 0) {
    trap.status = onnx_read_tensor(&arena, (Str){p, n}, &diag, &t);
    if (!trap.status)
      trap.status =
          onnx_tensor_bytes(&arena, &t, NOWHERE, &diag, &g.bytes, &g.nbytes, &g.n, &g.in_file);
  }
  trap_leave(&trap);
  g.status = trap.status;
  return g;
}
#define TENSOR(literal) tensor_of((literal), (int64_t)sizeof(literal) - 1)

static void expect_bytes(const char *file, int line, Got g, int64_t n, bool in_file,
                         const char *want, int64_t nwant) {
  if (!test_status(file, line, "tensor", g.status, TENON_OK)) {
    printf("  %s\n", diag.text);
    return;
  }
  test_int_eq(file, line, "elements", g.n, n);
  test_int_eq(file, line, "bytes", g.nbytes, nwant);
  test_int_eq(file, line, "in the file", g.in_file, in_file);
  if (g.nbytes == nwant && memcmp(g.bytes, want, (size_t)nwant))
    test_failed(file, line, "other bytes");
}
#define GIVES(literal, n, in_file, want)                                                           \
  expect_bytes(__FILE__, __LINE__, TENSOR(literal), n, in_file, want, (int64_t)sizeof(want) - 1)
#define FAULT(literal, code, part)                                                                 \
  do {                                                                                             \
    EXPECT_STATUS(TENSOR(literal).status, code);                                                   \
    EXPECT_CONTAINS(diag.text, part);                                                              \
  } while (0)

// Fields of TensorProto: \x08 dims, \x10 data_type, \x22 float_data, \x2a int32_data, \x32
// string_data, \x3a int64_data, \x4a raw_data, \x52 double_data, \x5a uint64_data.

TEST(onnx_tensor_raw) {
  arena_init(&arena);
  GIVES("\x08\x02\x10\x01\x4a\x08\0\0\x80\x3f\0\0\0\x40", 2, true, "\0\0\x80\x3f\0\0\0\x40");
  GIVES("\x10\x01\x4a\x04\0\0\x80\x3f", 1, true, "\0\0\x80\x3f");  // no dims: one element
  GIVES("\x08\x00\x10\x01\x4a\x00", 0, true, "");                  // a dim of 0: none
  GIVES("\x08\x00\x10\x01", 0, false, "");                         // none needs no data
  GIVES("\x08\x03\x10\x16\x4a\x02\x21\x03", 3, true, "\x21\x03");  // i4: two to a byte
  GIVES("\x08\x05\x10\x19\x4a\x02\xe4\x01", 5, true, "\xe4\x01");  // u2: four to a byte
  GIVES("\x08\x03\x10\x09\x4a\x03\0\1\1", 3, true, "\0\1\1");      // bool
  GIVES("\x08\x03\x10\x09\x4a\x03\0\xff\2", 3, false, "\0\1\1");   // bool, made clean
  FAULT("\x08\x02\x10\x01\x4a\x04\0\0\0\0", TENON_EFORMAT, "f32[2] is 8 bytes, but raw_data has 4");
  FAULT("\x08\x03\x10\x15\x4a\x01\0", TENON_EFORMAT, "u4[3] is 2 bytes, but raw_data has 1");
  FAULT("\x08\x01\x10\x08\x4a\x01\0", TENON_EFORMAT, "strings cannot be in raw_data");
  FAULT("\x08\x01\x10\x01\x4a\x04\0\0\0\0\x22\x04\0\0\0\0", TENON_EFORMAT, "data is given twice");
  arena_deinit(&arena);
}

TEST(onnx_tensor_typed) {
  arena_init(&arena);
  // Packed floats in one piece are not copied; in pieces, they are.
  GIVES("\x08\x02\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\x40", 2, true, "\0\0\x80\x3f\0\0\0\x40");
  GIVES("\x08\x02\x10\x01\x25\0\0\x80\x3f\x25\0\0\0\x40", 2, false, "\0\0\x80\x3f\0\0\0\x40");
  GIVES("\x08\x01\x10\x0e\x22\x08\0\0\x80\x3f\0\0\0\x40", 1, true, "\0\0\x80\x3f\0\0\0\x40");
  GIVES("\x08\x01\x10\x0b\x52\x08\0\0\0\0\0\0\xf0\x3f", 1, true, "\0\0\0\0\0\0\xf0\x3f");
  // int32_data: -1 in ten bytes or in five, for every narrow type.
  GIVES("\x08\x01\x10\x06\x2a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, false,
        "\xff\xff\xff\xff");
  GIVES("\x08\x01\x10\x03\x2a\x05\xff\xff\xff\xff\x0f", 1, false, "\xff");
  GIVES("\x08\x02\x10\x02\x28\xff\x01\x28\x07", 2, false, "\xff\x07");
  GIVES("\x08\x01\x10\x0a\x2a\x02\x80\x78", 1, false, "\x00\x3c");
  GIVES("\x08\x01\x10\x10\x2a\x03\x80\x80\x02", 1, false, "\x00\x80");
  GIVES("\x08\x02\x10\x09\x2a\x02\x00\x07", 2, false, "\0\1");
  GIVES("\x08\x03\x10\x15\x2a\x03\xa1\x01\x03", 3, false, "\xa1\x03");  // two elements an entry
  GIVES("\x08\x04\x10\x1a\x2a\x02\xe4\x01", 4, false, "\xe4");          // four
  GIVES("\x08\x01\x10\x07\x3a\x0a\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, false,
        "\xfe\xff\xff\xff\xff\xff\xff\xff");
  GIVES("\x08\x01\x10\x0c\x5a\x05\xff\xff\xff\xff\x0f", 1, false, "\xff\xff\xff\xff");
  GIVES("\x08\x01\x10\x0d\x5a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, false,
        "\xff\xff\xff\xff\xff\xff\xff\xff");
  arena_deinit(&arena);
}

TEST(onnx_tensor_strings) {
  arena_init(&arena);
  Got g = TENSOR("\x08\x02\x10\x08\x32\x01z\x32\x00");
  EXPECT_STATUS(g.status, TENON_OK);
  EXPECT_INT_EQ(g.n, 2);
  const Str *s = g.bytes;
  EXPECT(g.nbytes == 2 * (int64_t)sizeof(Str) && str_is(s[0], "z") && s[1].n == 0);
  FAULT("\x08\x03\x10\x08\x32\x01z\x32\x00", TENON_EFORMAT, "needs 3 entries in string_data");
  arena_deinit(&arena);
}

TEST(onnx_tensor_faults) {
  arena_init(&arena);
  FAULT("\x08\x02\x10\x01\x22\x04\0\0\0\0", TENON_EFORMAT,
        "f32[2] needs 2 entries in float_data, but it has 1");
  FAULT("\x08\x02\x10\x01\x42\x01w", TENON_EFORMAT, "tensor 'w': f32[2] has no data");
  FAULT("\x08\x01\x10\x01\x2a\x01\x01", TENON_EFORMAT,
        "elements of type f32 belong in float_data, but there is data in int32_data");
  FAULT("\x08\x01\x10\x02\x2a\x02\x80\x02", TENON_EFORMAT,
        "entry 0 of int32_data is 256, which u8 cannot hold");
  FAULT("\x08\x01\x10\x0c\x5a\x05\x80\x80\x80\x80\x10", TENON_EFORMAT, "which u32 cannot hold");
  FAULT("\x08\x01\x10\x06\x2a\x02\x01\x80", TENON_EFORMAT,
        "entry 1 of int32_data: the message ends");
  FAULT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", TENON_EFORMAT,
        "dimension 0 is negative: -1");
  FAULT("\x0a\x0c\x80\x80\x80\x80\x80\x80\x01\x80\x80\x80\x80\x10\x10\x01", TENON_EFORMAT,
        "dims [4398046511104, 4294967296] have more than 2^63 elements");
  FAULT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01", TENON_EFORMAT, "more than 2^63 bytes");
  FAULT("\x08\x01", TENON_EFORMAT, "the element type is not given");
  FAULT("\x08\x01\x10\xff\x01", TENON_EFORMAT, "element type 255 is none of ONNX's");
  FAULT("\x08\x01\x10\x1b", TENON_EUNSUPPORTED, "6-bit floats");
  FAULT("\x08\x01\x10\x01\x1a\x00", TENON_EFORMAT, "segments");
  arena_deinit(&arena);
}

TEST(onnx_tensor_zero_size_of_huge_dims) {
  arena_init(&arena);
  GIVES("\x0a\x0d\x80\x80\x80\x80\x80\x80\x01\x80\x80\x80\x80\x10\x00\x10\x01", 0, false, "");
  arena_deinit(&arena);
}

// SequenceProto: \x10 elem_type, \x1a tensors, \x2a sequences, \x32 maps, \x3a optionals.
static tenon_status items_of(bool optional, const char *p, int64_t n, OnnxSequence *out) {
  Trap trap;
  diag_init(&diag);
  trap_enter(&trap, &diag);
  if (setjmp(trap.env) == 0)
    trap.status = optional ? onnx_read_optional(&arena, (Str){p, n}, &diag, out)
                           : onnx_read_sequence(&arena, (Str){p, n}, &diag, out);
  trap_leave(&trap);
  return trap.status;
}
#define ITEMS(optional, literal) items_of(optional, literal, (int64_t)sizeof(literal) - 1, &s)

TEST(onnx_tensor_sequences) {
  OnnxSequence s;
  arena_init(&arena);
  EXPECT_STATUS(ITEMS(false, "\x10\x01\x1a\x02\x10\x01\x1a\x02\x10\x07"), TENON_OK);
  EXPECT(s.elem == OT_TENSOR && s.tensors.n == 2 && s.tensors.v[1].dtype == 7);
  EXPECT_STATUS(ITEMS(false, "\x10\x03\x2a\x02\x10\x01\x2a\x00"), TENON_OK);
  EXPECT(s.elem == OT_SEQUENCE && s.sequences.n == 2 && s.sequences.v[0].elem == OT_TENSOR);
  EXPECT_STATUS(ITEMS(false, "\x10\x01"), TENON_OK);
  EXPECT(s.elem == OT_TENSOR && s.tensors.n == 0);
  EXPECT_STATUS(ITEMS(true, ""), TENON_OK);
  EXPECT(s.elem == OT_NONE);
  EXPECT_STATUS(ITEMS(true, "\x10\x01"), TENON_OK);
  EXPECT(s.elem == OT_NONE);
  EXPECT_STATUS(ITEMS(true, "\x10\x01\x1a\x02\x10\x01"), TENON_OK);
  EXPECT(s.elem == OT_TENSOR && s.tensors.n == 1);
  EXPECT_STATUS(ITEMS(true, "\x1a\x02\x10\x01\x1a\x02\x10\x01"), TENON_EFORMAT);
  EXPECT_CONTAINS(diag.text, "an optional that holds 2 values");
  EXPECT_STATUS(ITEMS(false, "\x10\x03\x1a\x02\x10\x01"), TENON_EFORMAT);
  EXPECT_CONTAINS(diag.text, "elem_type 3, but the values are in field 3");
  EXPECT_STATUS(ITEMS(false, "\x10\x04\x32\x00"), TENON_EUNSUPPORTED);
  arena_deinit(&arena);
}
