// read_test.c -- StableHLO files: the forms agree, constants are what was written, bad files are
// refused at their place.
//
// tests/models/stablehlo/net.* are one small program, written by JAX as text (short and generic),
// as portable bytecode of three versions (bytecode versions 0, 4 and 6) and as a jax.export file.
#include "api/model.h"
#include "base/platform.h"
#include "frontends/stablehlo/mlir.h"
#include "test.h"

#include <stdlib.h>

#define NET TENON_SOURCE_DIR "/tests/models/stablehlo/net."

// ---- reading ----

static tenon_status read_module(Arena *a, Str s, MlirFile *f, Diag *d) {
  Trap t;
  diag_init(d);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = mlir_read(a, s, f, d);
  trap_leave(&t);
  return t.status;
}

static const char *graph_text(Arena *a, const char *path) {
  static Diag d;
  Model *m = NULL;
  StrBuf b;
  diag_init(&d);
  strbuf_init(&b, a);
  if (model_open(path, NULL, &d, &m)) {
    FAIL("%s: %s", path, d.text);
    return "";
  }
  graph_print(m->import.graph, &b);
  model_free(m);
  return strbuf_text(&b);
}

TEST(stablehlo_forms_agree) {
  static const char *const others[] = {"generic.mlir", "0.9.0.mlirbc", "0.14.0.mlirbc",
                                       "1.8.0.mlirbc", "jax_export"};
  Arena a;
  arena_init(&a);
  const char *want = graph_text(&a, NET "mlir");
  EXPECT(strstr(want, "conv(") != NULL);
  for (int i = 0; i < ARRAY_LEN(others); i++)
    if (strcmp(graph_text(&a, str_printf(&a, "%s%s", NET, others[i])), want))
      FAIL("net.%s is another graph than net.mlir", others[i]);
  arena_deinit(&a);
}

// ---- constants ----

static void expect_bytes(const char *literal, const char *hex, bool splat) {
  Arena a;
  Diag d;
  MlirFile f;
  arena_init(&a);
  const char *text =
      str_printf(&a, "func.func @main() {\n %%0 = stablehlo.constant %s\n return\n}", literal);
  if (read_module(&a, str_of(text), &f, &d)) {
    FAIL("%s: %s", literal, d.text);
  } else {
    const MlirAttr *v = mlir_attr(f.modules[0]->funcs[0]->body->ops[0], "value");
    StrBuf b;
    strbuf_init(&b, &a);
    for (int64_t i = 0; i < v->ndata; i++) strbuf_printf(&b, "%02x", v->data[i]);
    EXPECT_STR_EQ(strbuf_text(&b), hex);
    EXPECT_INT_EQ(v->splat, splat);
  }
  arena_deinit(&a);
}

TEST(stablehlo_constants) {
  expect_bytes("dense<[1.0, -2.5]> : tensor<2xf32>", "0000803f000020c0", false);
  expect_bytes("dense<0x7F800000> : tensor<f32>", "0000807f", true);
  expect_bytes("dense<0xFF80> : tensor<4xbf16>", "80ff", true);
  expect_bytes("dense<[[1, 2], [3, -1]]> : tensor<2x2xi8>", "010203ff", false);
  expect_bytes("dense<[1, 2, -1]> : tensor<3xi4>", "210f", false);
  expect_bytes("dense<[1, 2, 3, 0, 1]> : tensor<5xui2>", "3901", false);
  expect_bytes("dense<[true, false, true]> : tensor<3xi1>", "010001", false);
  expect_bytes("dense<true> : tensor<100xi1>", "01", true);
  expect_bytes("dense<\"0x05\"> : tensor<3xi1>", "010001", false);
  expect_bytes("dense<\"0x010001\"> : tensor<3xi1>", "010001", false);
  expect_bytes("dense<\"0xFF\"> : tensor<20xi1>", "01", true);
  expect_bytes("dense<\"0x0102\"> : tensor<2xi4>", "21", false);
  expect_bytes("dense<\"0x0000803F\"> : tensor<5xf32>", "0000803f", true);
  expect_bytes("dense<(1.0,-1.0)> : tensor<complex<f32>>", "0000803f000080bf", true);
  expect_bytes("dense<[18446744073709551615]> : tensor<1xui64>", "ffffffffffffffff", false);
  expect_bytes("dense<-9223372036854775808> : tensor<i64>", "0000000000000080", true);
  expect_bytes("dense<> : tensor<0x3xf32>", "", false);
  expect_bytes("dense<[1.0, 240.0, 1.0e9, 0.001953125]> : tensor<4xf8E4M3>", "38777801", false);
  expect_bytes("dense<[1.0, 1.0e9, -0.0, 0.0009765625]> : tensor<4xf8E3M4>", "30708000", false);
  expect_bytes("dense<[1.0, -0.0]> : tensor<2xf8E4M3B11FNUZ>", "5800", false);
  expect_bytes("dense<[1.0, 7.5]> : tensor<2xf6E2M3FN>", "081f", false);
}

TEST(stablehlo_resources_and_names) {
  static const char text[] =
      "#loc1 = loc(\"net.py\":3:4)\n!row = tensor<2xf32>\n#map = #stablehlo.gather<offset_dims = "
      "[1], start_index_map = [0]>\n"
      "module @m attributes {a.b = \"c\\22\\n\"} {\n"
      "  func.func private @main(%x: !row {jax.arg = 1 : i32}) -> (!row {k}) {\n"
      "    %0 = stablehlo.constant dense_resource<w> : tensor<2xf32> loc(#loc1)\n"
      "    %1 = stablehlo.add %x, %0 : !row loc(\"sum\"(#loc1))\n    return %1 : !row\n  }\n}\n"
      "{-#\n  dialect_resources: {\n    builtin: {\n      w: \"0x040000000000803F00000040\"\n    "
      "}\n  }\n#-}\n";
  Arena a;
  Diag d;
  MlirFile f;
  arena_init(&a);
  EXPECT_STATUS(read_module(&a, STR(text), &f, &d), TENON_OK);
  const MlirFunc *main = f.modules[0]->funcs[0];
  EXPECT_STR_EQ(f.modules[0]->name, "m");
  EXPECT_STR_EQ(f.modules[0]->attrs[1].value->text, "c\"\n");
  EXPECT(main->is_private);
  EXPECT_INT_EQ(mlir_int(mlir_field(main->arg_attrs[0], "jax.arg"), 0), 1);
  EXPECT_STR_EQ(main->body->ops[0]->loc, "net.py:3:4");
  EXPECT_STR_EQ(main->body->ops[1]->loc, "sum");
  EXPECT_F64_EQ(mlir_float(mlir_attr(main->body->ops[0], "value"), 0), 1.0);
  arena_deinit(&a);
}

// ---- bad text ----

#define IN_MAIN(body)                                                                              \
  "func.func @main(%a: tensor<2x3xf32>, %i: tensor<2xi32>) -> tensor<2x3xf32> {\n  " body          \
  "\n  return %a : tensor<2x3xf32>\n}\n"
#define F                              "tensor<2x3xf32>"
#define GENERIC(op, args, attrs, type) "%0 = \"stablehlo." op "\"(" args ") {" attrs "} : " type

static const struct {
  const char *text, *message;  // the message begins with the place
} bad_text[] = {
    {"module {", "1:9: expected '}', but the text ends"},
    {"module {\n  func.func @f() {\n    return\n  }\n}}", "5:2: expected an operation"},
    {"func.func @f(%x: tensor<2xf32) { return }", "1:30: expected '>'"},
    {"func.func @f() {\n  return\n}\nfunc.func @f() { return }",
     "4:1: func.func: a second function @f"},
    {"func.func @f() -> tensor<f32> { return }", "returns 0 values, @f has 1 results"},
    {"func.func @f() { }", "expected a body that returns"},
    {"func.func @f(%x: tensor<99999999999999999999xf32>) { return }", "dimensions of 64 bits"},
    {"func.func @f(%x: !quant.uniform<i8:f32, 0.1, 0.2>) { return }", "1:44: expected '>'"},
    {"func.func @f(%x: tensor<4x!quant.uniform<i8:f32:1, {0.1}>>) { return }",
     "1 scales along axis 1"},
    {"func.func @f(%x: !nothing) { return }", "the type !nothing is not defined"},
    {"#a = #b\nmodule {}", "the attribute #b is not defined"},
    {"module attributes {a = 1, a = 2} {}", "1:32: expected 'a' once only"},
    {"module attributes {a = \"x} {}", "1:24: a string that does not end on its line"},
    {"module attributes {a = \"\\q\"} {}", "an escape that no string has"},
    {"module @\x01 {}", "1:8: a sign without a name"},
    {"module {} \x80", "1:11: a byte that no MLIR text has"},
    {IN_MAIN("%0 = stablehlo.add %a, %b : " F), "2:26: %b is not defined"},
    {IN_MAIN("%a = stablehlo.add %a, %a : " F), "3:3: %a is defined a second time"},
    {IN_MAIN("%0 = stablehlo.add %a, %a#1 : " F), "2:26: %a has 1 results"},
    {IN_MAIN("%0:2 = stablehlo.add %a, %a : " F), "2:3: stablehlo.add: has 1 results, 2 are named"},
    {IN_MAIN("%0 = stablehlo.add %a, %i : " F), "operand %i of stablehlo.add is tensor<2xi32>"},
    {IN_MAIN("%0 = stablehlo.add %a, %a"), "3:3: expected ':'"},
    {IN_MAIN(GENERIC("add", "%a", "", "(" F ") -> " F)),
     "2:3: stablehlo.add: has 1 operands, not 2"},
    {IN_MAIN(GENERIC("add", "%a, %a", "", "(" F ", " F ") -> tensor<3x2xf32>")),
     "operand %a is " F ", the result tensor<3x2xf32>"},
    {IN_MAIN("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>"),
     "2 elements are no constant of type tensor<3xf32>"},
    {IN_MAIN("%0 = stablehlo.constant dense<[[1.0], [2.0, 3.0]]> : tensor<2x1xf32>"),
     "2:50: expected lists of one length"},
    {IN_MAIN("%0 = stablehlo.constant dense<[1.0, [2.0]]> : tensor<2xf32>"),
     "expected lists of one depth"},
    {IN_MAIN("%0 = stablehlo.constant dense<300> : tensor<i8>"), "expected a number that fits i8"},
    {IN_MAIN("%0 = stablehlo.constant dense<-1> : tensor<ui8>"), "expected a number that fits ui8"},
    {IN_MAIN("%0 = stablehlo.constant dense<0x1FF80> : tensor<bf16>"),
     "as many bits as the float type has"},
    {IN_MAIN("%0 = stablehlo.constant dense<\"0x0000\"> : tensor<f32>"),
     "neither those of its type nor one element's"},
    {IN_MAIN("%0 = stablehlo.constant dense<\"0x0G\"> : tensor<i8>"), "a string of hex digits"},
    {IN_MAIN("%0 = stablehlo.constant dense<1.0> : tensor<?xf32>"), "expected a static shape"},
    {IN_MAIN("%0 = stablehlo.constant dense_resource<w> : tensor<2xf32>"),
     "2:42: the bytes of resource w are not in the file"},
    {IN_MAIN("%0 = stablehlo.transpose %a, dims = [0, 0] : (" F ") -> tensor<2x3xf32>"),
     "permutation: dimension 0 twice"},
    {IN_MAIN("%0 = stablehlo.transpose %a, dims = [1, 0] : (" F ") -> tensor<2x3xf32>"),
     "stablehlo.transpose: the result is"},
    {IN_MAIN("%0 = stablehlo.broadcast_in_dim %a, dims = [0, 5] : (" F ") -> tensor<2x3x4xf32>"),
     "there is no dimension 5 of 3"},
    {IN_MAIN("%0 = stablehlo.reshape %a : (" F ") -> tensor<7xf32>"),
     F " cannot become tensor<7xf32>"},
    {IN_MAIN("%0 = stablehlo.slice %a [0:2, 0:4] : (" F ") -> tensor<2x4xf32>"),
     "dimension 1: 0:4:1"},
    {IN_MAIN("%0 = stablehlo.slice %a [0:2, 0:3:0] : (" F ") -> tensor<2x4xf32>"),
     "dimension 1: 0:3:0"},
    {IN_MAIN("%0 = stablehlo.concatenate %a, %a, dim = 2 : (" F ", " F ") -> tensor<4x3xf32>"),
     "there is no dimension 2"},
    {IN_MAIN("%0 = stablehlo.concatenate %a, %a, dim = 0 : (" F ", " F ") -> tensor<5x3xf32>"),
     "sums to 4, the result has 5"},
    {IN_MAIN("%0 = stablehlo.iota dim = 1 : tensor<4xi32>"),
     "iota_dimension: there is no dimension 1"},
    {IN_MAIN("%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (" F ", " F
             ") -> tensor<2x3xf32>"),
     "dimension 1 of " F " meets dimension 0"},
    {IN_MAIN("%0 = stablehlo.compare EQ, %a, %a : (" F ", " F ") -> " F),
     "the result is not of i1"},
    {IN_MAIN("%0 = stablehlo.reduce_precision %a, format = e5x1 : " F),
     "expected a format such as e5m10"},
    {IN_MAIN(GENERIC("iota", "", "iota_dimension = \"x\"", "() -> tensor<4xi32>")),
     "attribute iota_dimension is of another kind"},
    {IN_MAIN(GENERIC("iota", "", "", "() -> tensor<4xi32>")), "has no attribute iota_dimension"},
    {IN_MAIN("%0 = call @nothing(%a) : (" F ") -> " F), "there is no function @nothing"},
    {IN_MAIN("%0 = call @main(%a) : (" F ") -> " F), "@main has 2 arguments"},
    {IN_MAIN("%0 = \"stablehlo.sort\"(%a) ({\n  ^bb0(%x: tensor<f32>):\n  \"stablehlo.return\"(%x) "
             ": (tensor<f32>) -> ()\n}) {dimension = 0 : i64} : (" F ") -> " F),
     "region 0 takes 1 arguments, not 2"},
    {IN_MAIN("%0 = \"stablehlo.sort\"(%a) ({\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n}) "
             "{dimension = 0 : i64} : (" F ") -> " F),
     "a region that does not end by returning"},
    {IN_MAIN("\"cf.br\"(%a)[^bb1] : (" F ") -> ()"), "branches to other blocks"},
    {IN_MAIN("return %a : " F "\n^bb1:"), "several blocks"},
    {IN_MAIN("%0 = foo.bar %a -> 3"), "in foo.bar at line 2"},
};

static void expect_bad(Str s, const char *message) {
  Arena a;
  static Diag d;
  MlirFile f;
  arena_init(&a);
  if (!read_module(&a, s, &f, &d))
    FAIL("read, though it should say: %s", message);
  else if (!strstr(d.text, message))
    FAIL("'%s' does not say '%s'", d.text, message);
  arena_deinit(&a);
}

TEST(stablehlo_bad_text) {
  for (int i = 0; i < ARRAY_LEN(bad_text); i++)
    expect_bad(str_of(bad_text[i].text), bad_text[i].message);
}

TEST(stablehlo_nesting_is_bounded) {
  Arena a;
  StrBuf b;
  arena_init(&a);
  strbuf_init(&b, &a);
  strbuf_puts(&b, "module attributes {a = ");
  for (int i = 0; i < 100000; i++) strbuf_putc(&b, '[');
  expect_bad(strbuf_str(&b), "nested more than 100 deep");
  strbuf_init(&b, &a);
  strbuf_puts(&b, "func.func @f(%x: ");
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "tuple<");
  expect_bad(strbuf_str(&b), "nested more than 100 deep");
  strbuf_init(&b, &a);
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "module {");
  expect_bad(strbuf_str(&b), "nested more than 100 deep");
  arena_deinit(&a);
}

// ---- bad bytes ----

static Str file_bytes(Arena *a, const char *ending) {
  Diag d;
  File f;
  diag_init(&d);
  if (file_open(str_printf(a, "%s%s", NET, ending), &f, &d)) {
    FAIL("%s: %s", ending, d.text);
    return (Str){"", 0};
  }
  Str s = {str_copy(a, (Str){(const char *)f.bytes, f.size}), f.size};
  file_close(&f);
  return s;
}

// Every truncation is refused, and every changed byte ends in a status.
static void cut_and_flip(const char *ending, Str whole) {
  static Diag d;
  for (int64_t n = 0; n < whole.n; n++) {
    Arena inner;
    MlirFile f;
    char *copy = malloc((size_t)n + 1);  // of exactly this size, for the sanitizer
    memcpy(copy, whole.p, (size_t)n);
    arena_init(&inner);
    bool blank =
        strspn(whole.p + n, " \n") >= (size_t)(whole.n - n);  // white space alone is missing
    if (!read_module(&inner, (Str){copy, n}, &f, &d) && n && !blank)
      FAIL("%s: %lld of %lld bytes are read", ending, (long long)n, (long long)whole.n);
    arena_deinit(&inner);
    arena_init(&inner);
    char *flipped = malloc((size_t)whole.n);
    memcpy(flipped, whole.p, (size_t)whole.n);
    flipped[n] = (char)(flipped[n] ^ (1 << (n % 8)));
    inner.limit = 64 << 20;
    tenon_status s = read_module(&inner, (Str){flipped, whole.n}, &f, &d);
    if (s == TENON_EINTERNAL) FAIL("%s: byte %lld: %s", ending, (long long)n, d.text);
    arena_deinit(&inner);
    free(flipped);
    free(copy);
  }
}

static void cut_file(const char *ending) {
  Arena a;
  arena_init(&a);
  cut_and_flip(ending, file_bytes(&a, ending));
  arena_deinit(&a);
}

TEST(stablehlo_cut_text) { cut_file("mlir"); }
TEST(stablehlo_cut_generic) {
  static const char text[] =
      "\"builtin.module\"() <{sym_name = \"m\"}> ({\n"
      "  \"func.func\"() <{function_type = (tensor<4xf32>) -> tensor<f32>, sym_name = \"main\"}> "
      "({\n"
      "  ^bb0(%x: tensor<4xf32>):\n"
      "    %0 = \"stablehlo.constant\"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>\n"
      "    %1 = \"stablehlo.reduce\"(%x, %0) <{dimensions = array<i64: 0>}> ({\n"
      "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "      %2 = \"stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
      "      \"stablehlo.return\"(%2) : (tensor<f32>) -> ()\n"
      "    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
      "    \"func.return\"(%1) : (tensor<f32>) -> ()\n"
      "  }) : () -> ()\n"
      "}) : () -> ()\n";
  cut_and_flip("generic text", STR(text));
}
TEST(stablehlo_cut_bytecode) {
  cut_file("0.9.0.mlirbc");
  cut_file("1.8.0.mlirbc");
}
TEST(stablehlo_cut_jax) { cut_file("jax_export"); }

TEST(stablehlo_bad_bytecode) {
  static const struct {
    const char *bytes;
    int64_t n;
    const char *message;
  } bad[] = {
      {"ML\xEFR", 4, "byte 4: 1 bytes are needed, 0 are left"},
      {"ML\xEFR\x0F", 5, "MLIR bytecode version 7"},
      {"ML\xEFR\x0Dname", 9, "the producer's name does not end"},
      {"ML\xEFR\x0D\0", 6, "the bytecode has no section 0"},
      {"ML\xEFR\x0D\0\x00\x07\x01\x00", 10, "byte 8: 3 bytes are needed, 2 are left"},
      {"ML\xEFR\x0D\0\x09\x01", 8, "section 9 is not known"},
      {"ML\xEFR\x0D\0\x00\x03\x01\x00\x03\x01", 12, "a second section 0"},
      {"ML\xEFR\x0D\0\x80\x03\x07\x01", 10, "an alignment of 3"},
  };
  for (int i = 0; i < ARRAY_LEN(bad); i++)
    expect_bad((Str){bad[i].bytes, bad[i].n}, bad[i].message);
}

TEST(stablehlo_is_recognised) {
  static const struct {
    const char *text;
    bool is;
  } files[] = {{"module {}", true},
               {"// RUN: x\n\nmodule @a {}", true},
               {"func.func @f() { return }", true},
               {"#loc = loc(unknown)\n", true},
               {"!t = f32\n", true},
               {"\"builtin.module\"() ({}) : () -> ()", true},
               {"ML\xEFR", true},
               {"graph @\"m\"() -> () {", false},
               {"// a graph\ngraph @\"m\"() -> () {", false},
               {"#!/bin/sh", false},
               {"modules", false},
               {"", false}};
  for (int i = 0; i < ARRAY_LEN(files); i++)
    if (mlir_is(str_of(files[i].text)) != files[i].is)
      FAIL("'%s' is taken for something else", files[i].text);
}
