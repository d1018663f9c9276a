// import_test.c -- StableHLO programs through the importer and the interpreter: each checks itself.
#include "test.h"

#include "frontends/stablehlo/import.h"
#include "ir/interpret.h"

// Runs the first function; the message of the first failure, "" when its checks hold.
static void judge(const HloTest *h, Value *const *out, char *message, size_t cap) {
  for (int64_t i = 0; i < h->check.n; i++) {
    int64_t parts = h->check.v[i].complex ? 2 : 1, first = h->check.v[i].first;
    for (int64_t p = 0; p < parts; p++) {
      const Value *got = out[first + p], *want = out[first + parts + p];
      EXPECT_INT_EQ(got->dtype, want->dtype);
      EXPECT_INT_EQ(got->n, want->n);
      for (int64_t k = 0; k < MIN(got->n, want->n); k++)
        if (val_f64(got, k) != val_f64(want, k))
          snprintf(message, cap, "line %d, element %lld: %g, must be %g", h->check.v[i].line,
                   (long long)k, val_f64(got, k), val_f64(want, k));
    }
  }
}

static tenon_status interpret(Imported *in, const HloTest *h, Diag *d, char *message, size_t cap) {
  Interp *interp = NULL;
  Value *given[16] = {NULL}, *out[64] = {NULL};
  Run run;
  TRY(graph_verify(in->graph, d));
  TRY(interp_create(in->graph, NULL, d, &interp));
  run_init(&run, NULL, d);
  tenon_status s = h->given.n <= 16 && h->outputs.n <= 64 ? TENON_OK : TENON_EINVAL;
  for (int64_t i = 0; i < h->given.n && !s; i++) {
    const HloGiven *v = &h->given.v[i];
    s = value_borrow(&run, v->dtype, v->rank, v->dims, v->data, &given[i]);
  }
  if (!s) s = interp_run(interp, &run, given, out);
  if (!s) judge(h, out, message, cap);
  run_deinit(&run);
  interp_free(interp);
  return s;
}

static tenon_status run_program(const char *text, char *message, size_t cap) {
  Arena a;
  static Diag diag;
  MlirFile file;
  HloTest test = {0};
  Imported in = {.bytes = str_of(text)};
  arena_init(&a);
  diag_init(&diag);
  message[0] = 0;
  tenon_status s = mlir_read(&a, str_of(text), &file, &diag);
  if (!s) s = import_stablehlo_test(&in, file.modules[0], file.modules[0]->funcs[0], &test, &diag);
  if (!s) s = interpret(&in, &test, &diag, message, cap);
  if (s) snprintf(message, cap, "%.400s", diag.text);
  graph_free(in.graph);
  arena_deinit(&a);
  return s;
}

static void holds(const char *text) {
  char message[512];
  EXPECT_STATUS(run_program(text, message, sizeof message), TENON_OK);
  EXPECT_STR_EQ(message, "");
}
static void refused(const char *text, tenon_status want, const char *part) {
  char message[512];
  EXPECT_STATUS(run_program(text, message, sizeof message), want);
  EXPECT_CONTAINS(message, part);
}

#define MAIN(body) "func.func @main() {\n" body "  func.return\n}\n"

// A body that no reduction of the graph has: the largest of both magnitudes, with its sign.
TEST(stablehlo_reduces_by_any_body) {
  holds(MAIN(
      "  %x = stablehlo.constant dense<[[1.0, -5.0, 4.0], [2.0, 3.0, -2.5]]> : tensor<2x3xf32>\n"
      "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %r = \"stablehlo.reduce\"(%x, %z) <{dimensions = array<i64: 1>}> ({\n"
      "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "    %aa = stablehlo.abs %a : tensor<f32>\n"
      "    %bb = stablehlo.abs %b : tensor<f32>\n"
      "    %c = stablehlo.compare GE, %aa, %bb, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
      "    %s = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>\n"
      "    stablehlo.return %s : tensor<f32>\n"
      "  }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
      "  check.expect_eq_const %r, dense<[-5.0, 3.0]> : tensor<2xf32>\n"));
}

// Updates that meet in one place, joined by a body that the graph's scatter has not got: complex
// products.
TEST(stablehlo_scatters_one_after_another) {
  holds(MAIN(
      "  %x = stablehlo.constant dense<[(1.0, 0.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>\n"
      "  %i = stablehlo.constant dense<[[1], [1], [5]]> : tensor<3x1xi32>\n"
      "  %u = stablehlo.constant dense<[(0.0, 1.0), (0.0, 3.0), (9.0, 9.0)]> : "
      "tensor<3xcomplex<f32>>\n"
      "  %r = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = "
      "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
      "index_vector_dim = 1>}> ({\n"
      "  ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):\n"
      "    %m = stablehlo.multiply %a, %b : tensor<complex<f32>>\n"
      "    stablehlo.return %m : tensor<complex<f32>>\n"
      "  }) : (tensor<2xcomplex<f32>>, tensor<3x1xi32>, tensor<3xcomplex<f32>>) -> "
      "tensor<2xcomplex<f32>>\n"
      "  check.expect_eq_const %r, dense<[(1.0, 0.0), (-6.0, 0.0)]> : tensor<2xcomplex<f32>>\n"));
}

// Two keys, the second from the largest; equal ones stay in order.
TEST(stablehlo_sorts_by_any_comparator) {
  holds(MAIN("  %k = stablehlo.constant dense<[2, 1, 2, 1]> : tensor<4xi32>\n"
             "  %v = stablehlo.constant dense<[5, 6, 7, 8]> : tensor<4xi32>\n"
             "  %r:2 = \"stablehlo.sort\"(%k, %v) <{dimension = 0 : i64, is_stable = true}> ({\n"
             "  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):\n"
             "    %l = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
             "    %e = stablehlo.compare EQ, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
             "    %g = stablehlo.compare GT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
             "    %t = stablehlo.and %e, %g : tensor<i1>\n"
             "    %o = stablehlo.or %l, %t : tensor<i1>\n"
             "    stablehlo.return %o : tensor<i1>\n"
             "  }) : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)\n"
             "  check.expect_eq_const %r#0, dense<[1, 1, 2, 2]> : tensor<4xi32>\n"
             "  check.expect_eq_const %r#1, dense<[8, 6, 7, 5]> : tensor<4xi32>\n"));
}

TEST(stablehlo_loops_and_branches) {
  holds(MAIN("  %n = stablehlo.constant dense<[5, 3]> : tensor<2xi64>\n"
             "  %i = stablehlo.constant dense<0> : tensor<i64>\n"
             "  %one = stablehlo.constant dense<1> : tensor<i64>\n"
             "  %end = stablehlo.constant dense<4> : tensor<i64>\n"
             "  %r:2 = \"stablehlo.while\"(%i, %n) ({\n"
             "  ^bb0(%a: tensor<i64>, %b: tensor<2xi64>):\n"
             "    %c = stablehlo.compare LT, %a, %end : (tensor<i64>, tensor<i64>) -> tensor<i1>\n"
             "    stablehlo.return %c : tensor<i1>\n"
             "  }, {\n"
             "  ^bb0(%a: tensor<i64>, %b: tensor<2xi64>):\n"
             "    %next = stablehlo.add %a, %one : tensor<i64>\n"
             "    %sum = stablehlo.add %b, %n : tensor<2xi64>\n"
             "    stablehlo.return %next, %sum : tensor<i64>, tensor<2xi64>\n"
             "  }) : (tensor<i64>, tensor<2xi64>) -> (tensor<i64>, tensor<2xi64>)\n"
             "  check.expect_eq_const %r#1, dense<[25, 15]> : tensor<2xi64>\n"
             "  %k = stablehlo.constant dense<7> : tensor<i32>\n"
             "  %s = \"stablehlo.case\"(%k) ({\n"
             "    stablehlo.return %n : tensor<2xi64>\n"
             "  }, {\n"
             "    %twice = stablehlo.add %n, %n : tensor<2xi64>\n"
             "    stablehlo.return %twice : tensor<2xi64>\n"
             "  }, {\n"
             "    %neg = stablehlo.negate %n : tensor<2xi64>\n"
             "    stablehlo.return %neg : tensor<2xi64>\n"
             "  }) : (tensor<i32>) -> tensor<2xi64>\n"
             "  check.expect_eq_const %s, dense<[-5, -3]> : tensor<2xi64>\n"));
}

TEST(stablehlo_refuses_by_name) {
  refused(MAIN("  %x = stablehlo.constant dense<1.0> : tensor<f8E3M4>\n"
               "  check.expect_eq_const %x, dense<1.0> : tensor<f8E3M4>\n"),
          TENON_EUNSUPPORTED, "f8E3M4");
  refused(MAIN("  %x = stablehlo.constant dense<1.0> : tensor<f32>\n"
               "  %y = stablehlo.custom_call @somebody(%x) : (tensor<f32>) -> tensor<f32>\n"
               "  check.expect_eq %y, %x : tensor<f32>\n"),
          TENON_EUNSUPPORTED, "@somebody");
}

#define RAGGED(lb, rb, lc, rc, axis, group, types)                                                 \
  "  %r = \"chlo.ragged_dot\"(%a, %b, %n) {ragged_dot_dimension_numbers = #chlo.ragged_dot<"       \
  "lhs_batching_dimensions = [" lb "], rhs_batching_dimensions = [" rb "], "                       \
  "lhs_contracting_dimensions = [" lc "], rhs_contracting_dimensions = [" rc "], "                 \
  "lhs_ragged_dimensions = [" axis "], rhs_group_dimensions = [" group "]>} : " types "\n"

TEST(stablehlo_ragged_products) {
  // Groups of a contracted axis: one product each.
  holds(MAIN(
      "  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>\n"
      "  %b = stablehlo.constant dense<[[1, 0], [0, 1], [1, 1]]> : tensor<3x2xi32>\n"
      "  %n = stablehlo.constant dense<[1, 2]> : tensor<2xi64>\n" RAGGED(
          "", "", "1", "0", "1", "",
          "(tensor<2x3xi32>, tensor<3x2xi32>, tensor<2xi64>) -> tensor<2x2x2xi32>") "  "
                                                                                    "check.expect_"
                                                                                    "eq_const %r, "
                                                                                    "dense<[[[1, "
                                                                                    "0], [4, 0]], "
                                                                                    "[[3, 5], [6, "
                                                                                    "11]]]> : "
                                                                                    "tensor<"
                                                                                    "2x2x2xi32>"
                                                                                    "\n"));
  // Sizes of their own for each batch, an empty group, and a row in none; what is in other groups
  // does not count.
  holds(MAIN(
      "  %a = stablehlo.constant dense<[[[1.0], [2.0]], [[3.0], [4.0]]]> : tensor<2x2x1xf32>\n"
      "  %b = stablehlo.constant dense<[[[[10.0]], [[0x7F800000]]], [[[100.0]], [[1000.0]]]]> : "
      "tensor<2x2x1x1xf32>\n"
      "  %n = stablehlo.constant dense<[[1, 1], [0, 1]]> : tensor<2x2xi32>\n" RAGGED(
          "0", "1", "2", "2", "1", "0",
          "(tensor<2x2x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi32>) -> tensor<2x2x1xf32>") "  "
                                                                                            "check."
                                                                                            "expect"
                                                                                            "_eq_"
                                                                                            "const "
                                                                                            "%r, "
                                                                                            "dense<"
                                                                                            "[[[10."
                                                                                            "0], "
                                                                                            "[200."
                                                                                            "0]], "
                                                                                            "[["
                                                                                            "3000."
                                                                                            "0], "
                                                                                            "[0.0]]"
                                                                                            "]> : "
                                                                                            "tensor"
                                                                                            "<2x2x1"
                                                                                            "xf32>"
                                                                                            "\n"));
  // Groups of whole products are products.
  holds(MAIN(
      "  %a = stablehlo.constant dense<[[[1, 2]], [[3, 4]]]> : tensor<2x1x2xi32>\n"
      "  %b = stablehlo.constant dense<[[[1], [2]], [[3], [4]]]> : tensor<2x2x1xi32>\n"
      "  %n = stablehlo.constant dense<[1, 1]> : tensor<2xi64>\n" RAGGED(
          "0", "0", "2", "1", "0", "",
          "(tensor<2x1x2xi32>, tensor<2x2x1xi32>, tensor<2xi64>) -> tensor<2x1x1xi32>") "  "
                                                                                        "check."
                                                                                        "expect_eq_"
                                                                                        "const %r, "
                                                                                        "dense<[[["
                                                                                        "5]], "
                                                                                        "[[25]]]> "
                                                                                        ": "
                                                                                        "tensor<"
                                                                                        "2x1x1xi32>"
                                                                                        "\n"));
  refused(
      MAIN(
          "  %a = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi32>\n"
          "  %b = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>\n"
          "  %n = stablehlo.constant dense<[1]> : tensor<1xi64>\n" RAGGED(
              "", "", "1", "7", "1", "",
              "(tensor<1x2xi32>, tensor<2x1xi32>, tensor<1xi64>) -> tensor<1x1x1xi32>") "  "
                                                                                        "check."
                                                                                        "expect_eq_"
                                                                                        "const %r, "
                                                                                        "dense<[[["
                                                                                        "5]]]> : "
                                                                                        "tensor<"
                                                                                        "1x1x1xi32>"
                                                                                        "\n"),
      TENON_EINVAL, "dimension numbers");
}

// One output, two carries (one of them complex), a value from outside, from the end.
TEST(stablehlo_scans) {
  holds(
      MAIN("  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>\n"
           "  %k = stablehlo.constant dense<10> : tensor<2xi32>\n"
           "  %s = stablehlo.constant dense<0> : tensor<2xi32>\n"
           "  %c = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>\n"
           "  %i = stablehlo.constant dense<(0.0, 1.0)> : tensor<complex<f32>>\n"
           "  %r:3 = chlo.scan(%x) inits(%s, %c) dimension=1 attributes {is_reverse = true} {\n"
           "  ^bb0(%row: tensor<2xi32>, %sum: tensor<2xi32>, %turn: tensor<complex<f32>>):\n"
           "    %1 = stablehlo.add %row, %sum : tensor<2xi32>\n"
           "    %2 = stablehlo.multiply %1, %k : tensor<2xi32>\n"
           "    %3 = stablehlo.multiply %turn, %i : tensor<complex<f32>>\n"
           "    stablehlo.return %2, %1, %3 : tensor<2xi32>, tensor<2xi32>, tensor<complex<f32>>\n"
           "  } : (tensor<2x3xi32>, tensor<2xi32>, tensor<complex<f32>>) -> (tensor<2x3xi32>, "
           "tensor<2xi32>, tensor<complex<f32>>)\n"
           "  check.expect_eq_const %r#0, dense<[[60, 50, 30], [150, 110, 60]]> : tensor<2x3xi32>\n"
           "  check.expect_eq_const %r#1, dense<[6, 15]> : tensor<2xi32>\n"
           "  check.expect_eq_const %r#2, dense<(0.0, -1.0)> : tensor<complex<f32>>\n"));
}
