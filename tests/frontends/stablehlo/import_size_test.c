// import_size_test.c -- StableHLO programs with dynamic shapes, each run at two sizes, interpreted
// and compiled.
#include "test.h"

#include "compiled.h"
#include "frontends/stablehlo/import.h"
#include "targets/target.h"

// A run: rows of the one input, [rows, ...], its elements in order, and those of the results one
// after another.
typedef struct Sized {
  int64_t rows;
  const double *in, *want;
  int64_t nin, nwant;
} Sized;
#define NUMBERS(...)                                                                               \
  (const double[]) { __VA_ARGS__ }
#define COUNT(...) ((int64_t)(sizeof(double[]){__VA_ARGS__} / sizeof(double)))
#define SIZED(rows_, in_, want_)                                                                   \
  { rows_, NUMBERS in_, NUMBERS want_, COUNT in_, COUNT want_ }

static tenon_status import_text(const char *text, IntFixed *fixed, int64_t nfixed, Imported *in,
                                Diag *d) {
  *in = (Imported){.bytes = str_of(text), .fixed = fixed, .nfixed = nfixed};
  TRY(hlo_import_frontend(in, d));
  if (in->empty) return fail(d, TENON_EUNSUPPORTED, NOWHERE, "%s", in->empty);
  return graph_verify(in->graph, d);
}

static tenon_status given(Run *run, const Graph *g, const Sized *s, Value **out) {
  const Type *t = type_of(g->main->param[0]);
  int64_t dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : s->rows;
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  EXPECT_INT_EQ((*out)->n, s->nin);
  for (int64_t i = 0; i < MIN((*out)->n, s->nin); i++) val_put_f64(*out, i, s->in[i]);
  return TENON_OK;
}

static void compare(const Sized *s, Value *const *out, int64_t n) {
  int64_t at = 0;
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = 0; i < out[k]->n; i++, at++)
      if (at < s->nwant && val_f64(out[k], i) != s->want[at])
        FAIL("%lld rows, result %lld, element %lld: %g, must be %g", (long long)s->rows,
             (long long)k, (long long)i, val_f64(out[k], i), s->want[at]);
  EXPECT_INT_EQ(at, s->nwant);
}

static tenon_status run_one(Graph *g, Interp *interp, Session *session, const Sized *s, Diag *d) {
  Run run;
  Value *in[1] = {NULL}, *out[4] = {NULL};
  run_init(&run, NULL, d);
  tenon_status st = given(&run, g, s, in);
  if (!st)
    st = interp ? interp_run(interp, &run, in, out) : session_run(session, &run, in, NULL, out);
  if (!st) compare(s, out, g->main->nresults);
  run_deinit(&run);
  return st;
}

static tenon_status interpreted(const char *text, const Sized *s, Diag *d) {
  Imported in;
  Interp *interp = NULL;
  tenon_status st = import_text(text, NULL, 0, &in, d);
  if (!st) st = interp_create(in.graph, NULL, d, &interp);
  for (int i = 0; i < 2 && !st; i++) st = run_one(in.graph, interp, NULL, &s[i], d);
  interp_free(interp);
  graph_free(in.graph);
  return st;
}

static tenon_status compiled(const char *text, const char *target, const Sized *s, Diag *d) {
  Imported in;
  Arena a;
  Program *p = NULL;
  Session *session = NULL;
  arena_init(&a);
  tenon_status st = import_text(text, NULL, 0, &in, d);
  if (!st) st = compile_for(in.graph, target, &a, d, &p);
  if (!st) st = session_create(p, &(SessionOptions){.threads = 1}, d, &session);
  for (int i = 0; i < 2 && !st; i++) st = run_one(in.graph, NULL, session, &s[i], d);
  session_free(session);
  program_release(p);
  graph_free(in.graph);
  arena_deinit(&a);
  return st;
}

static void holds(const char *text, const Sized *s) {
  static Diag d;
  diag_init(&d);
  if (interpreted(text, s, &d)) FAIL("%s", d.text);
  if (compiled(text, target_available(target_find("cpu")) ? "cpu" : "ref", s, &d))
    FAIL("%s", d.text);
}

// Rows by number, which are kept where they are.
TEST(stablehlo_sizes_gather) {
  holds("func.func @main(%i: tensor<?xi32>) -> tensor<?x2xf32> {\n"
        "  %t = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>\n"
        "  %n = stablehlo.get_dimension_size %i, dim = 0 : (tensor<?xi32>) -> tensor<i32>\n"
        "  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "  %one = stablehlo.constant dense<1> : tensor<1xi32>\n"
        "  %s = stablehlo.concatenate %n1, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
        "tensor<2xi32>\n"
        "  %j = stablehlo.dynamic_reshape %i, %s : (tensor<?xi32>, tensor<2xi32>) -> "
        "tensor<?x1xi32>\n"
        "  %r = \"stablehlo.gather\"(%t, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = "
        "[1], "
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = "
        "array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<?x1xi32>) -> tensor<?x2xf32>\n"
        "  return %r : tensor<?x2xf32>\n}\n",
        (const Sized[]){SIZED(2, (2, 0), (5, 6, 1, 2)), SIZED(3, (1, 9, -4), (3, 4, 5, 6, 1, 2))});
}

// x[1:], as jax writes it: the size of the slice is computed.
TEST(stablehlo_sizes_dynamic_gather) {
  holds(
      "func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {\n"
      "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
      "  %m = stablehlo.constant dense<-1> : tensor<i32>\n"
      "  %k = stablehlo.add %n, %m : tensor<i32>\n"
      "  %k1 = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>\n"
      "  %two = stablehlo.constant dense<2> : tensor<1xi32>\n"
      "  %s = stablehlo.concatenate %k1, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
      "tensor<2xi32>\n"
      "  %i = stablehlo.constant dense<1> : tensor<1xi32>\n"
      "  %r = \"stablehlo.dynamic_gather\"(%x, %i, %s) <{dimension_numbers = "
      "#stablehlo.gather<offset_dims = [0, 1], start_index_map = [0]>}> : (tensor<?x2xf32>, "
      "tensor<1xi32>, tensor<2xi32>) -> tensor<?x2xf32>\n"
      "  return %r : tensor<?x2xf32>\n}\n",
      (const Sized[]){SIZED(2, (1, 2, 3, 4), (3, 4)), SIZED(3, (1, 2, 3, 4, 5, 6), (3, 4, 5, 6))});
}

// A slice and an update that are moved to where they fit, along an open axis; then one that is
// whole along it.
TEST(stablehlo_sizes_slices_and_updates) {
  holds("func.func @main(%x: tensor<?x2xf32>) -> (tensor<1x2xf32>, tensor<?x2xf32>, "
        "tensor<?x2xf32>) {\n"
        "  %z = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %i = stablehlo.constant dense<2> : tensor<i32>\n"
        "  %s = stablehlo.dynamic_slice %x, %i, %z, sizes = [1, 2] : (tensor<?x2xf32>, "
        "tensor<i32>, tensor<i32>) -> tensor<1x2xf32>\n"
        "  %u = stablehlo.constant dense<9.0> : tensor<1x1xf32>\n"
        "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
        "  %a = stablehlo.dynamic_update_slice %x, %u, %i, %one : (tensor<?x2xf32>, "
        "tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> tensor<?x2xf32>\n"
        "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
        "  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "  %one1 = stablehlo.constant dense<1> : tensor<1xi32>\n"
        "  %shape = stablehlo.concatenate %n1, %one1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
        "tensor<2xi32>\n"
        "  %seven = stablehlo.constant dense<7.0> : tensor<f32>\n"
        "  %column = stablehlo.dynamic_broadcast_in_dim %seven, %shape, dims = [] : (tensor<f32>, "
        "tensor<2xi32>) -> tensor<?x1xf32>\n"
        "  %b = stablehlo.dynamic_update_slice %x, %column, %i, %z : (tensor<?x2xf32>, "
        "tensor<?x1xf32>, tensor<i32>, tensor<i32>) -> tensor<?x2xf32>\n"
        "  return %s, %a, %b : tensor<1x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>\n}\n",
        (const Sized[]){SIZED(2, (1, 2, 3, 4), (3, 4, 1, 2, 3, 9, 7, 2, 7, 4)),
                        SIZED(3, (1, 2, 3, 4, 5, 6), (5, 6, 1, 2, 3, 4, 5, 9, 7, 2, 7, 4, 7, 6))});
}

// Running sums along a known axis, and windows of two along the open one: none, where it has one
// element.
TEST(stablehlo_sizes_reduce_window) {
  holds("func.func @main(%x: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {\n"
        "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %r = \"stablehlo.reduce_window\"(%x, %z) <{window_dimensions = array<i64: 1, 3>, "
        "padding = "
        "dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %c = stablehlo.add %a, %b : tensor<f32>\n"
        "    stablehlo.return %c : tensor<f32>\n"
        "  }) : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>\n"
        "  %q = \"stablehlo.reduce_window\"(%x, %z) <{window_dimensions = array<i64: 2, 1>}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %c = stablehlo.add %a, %b : tensor<f32>\n"
        "    stablehlo.return %c : tensor<f32>\n"
        "  }) : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>\n"
        "  return %r, %q : tensor<?x3xf32>, tensor<?x3xf32>\n}\n",
        (const Sized[]){SIZED(1, (1, 2, 3), (1, 3, 6)),
                        SIZED(3, (1, 2, 3, 4, 5, 6, 7, 8, 9),
                              (1, 3, 6, 4, 9, 15, 7, 15, 24, 5, 7, 9, 11, 13, 15))});
}

TEST(stablehlo_sizes_max_pool) {
  holds("func.func @main(%x: tensor<?x2x2x1xf32>) -> tensor<?x1x1x1xf32> {\n"
        "  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "  %r = \"stablehlo.reduce_window\"(%x, %z) <{window_dimensions = array<i64: 1, 2, 2, 1>, "
        "window_strides = array<i64: 1, 2, 2, 1>}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %c = stablehlo.maximum %a, %b : tensor<f32>\n"
        "    stablehlo.return %c : tensor<f32>\n"
        "  }) : (tensor<?x2x2x1xf32>, tensor<f32>) -> tensor<?x1x1x1xf32>\n"
        "  return %r : tensor<?x1x1x1xf32>\n}\n",
        (const Sized[]){SIZED(1, (1, 4, 3, 2), (4)),
                        SIZED(2, (1, 4, 3, 2, -8, -7, -5, -6), (4, -5))});
}

// The place of the largest, along a known axis and along the open one.
#define ARGMAX(x, axis, from, to)                                                                  \
  "\"stablehlo.reduce\"(" x ", %z, %k) <{dimensions = array<i64: " axis ">}> ({\n"                 \
  "  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):\n"                  \
  "    %g = stablehlo.compare GE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"             \
  "    %v = stablehlo.select %g, %a, %c : tensor<i1>, tensor<f32>\n"                               \
  "    %w = stablehlo.select %g, %b, %d : tensor<i1>, tensor<i32>\n"                               \
  "    stablehlo.return %v, %w : tensor<f32>, tensor<i32>\n"                                       \
  "  }) : (tensor<?x3xf32>, tensor<?x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<" to             \
  "xf32>, tensor<" to "xi32>)\n"
#define IOTA(axis)                                                                                 \
  "stablehlo.dynamic_iota %s, dim = " axis " : (tensor<2xi32>) -> tensor<?x3xi32>\n"
TEST(stablehlo_sizes_argmax) {
  holds("func.func @main(%x: tensor<?x3xf32>) -> (tensor<?xi32>, tensor<3xi32>) {\n"
        "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>\n"
        "  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "  %three = stablehlo.constant dense<3> : tensor<1xi32>\n"
        "  %s = stablehlo.concatenate %n1, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
        "tensor<2xi32>\n"
        "  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "  %k = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %i = " IOTA("1") "  %j = " IOTA("0") "  %r:2 = " ARGMAX(
            "%x, %i", "1", "?x3",
            "?") "  %q:2 = " ARGMAX("%x, %j", "0", "?x3",
                                    "3") "  return %r#1, %q#1 : tensor<?xi32>, tensor<3xi32>\n}\n",
        (const Sized[]){SIZED(1, (1, 3, 2), (1, 0, 0, 0)),
                        SIZED(4, (1, 3, 2, 7, 0, 0, 2, 4, 9, 1, 1, 1), (1, 0, 2, 0, 1, 2, 2))});
}

TEST(stablehlo_sizes_reverse) {
  holds(
      "func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {\n"
      "  %r = stablehlo.reverse %x, dims = [0, 1] : tensor<?x2xf32>\n"
      "  return %r : tensor<?x2xf32>\n}\n",
      (const Sized[]){SIZED(1, (1, 2), (2, 1)), SIZED(3, (1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1))});
}

// By a comparator that is no single comparison, along the known axis and the open one; then the
// open one by `<`.
TEST(stablehlo_sizes_sort) {
  holds("func.func @main(%x: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>, "
        "tensor<?x2xf32>) {\n"
        "  %r = \"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %c = stablehlo.negate %a : tensor<f32>\n"
        "    %d = stablehlo.negate %b : tensor<f32>\n"
        "    %l = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    stablehlo.return %l : tensor<i1>\n"
        "  }) : (tensor<?x2xf32>) -> tensor<?x2xf32>\n"
        "  %q = \"stablehlo.sort\"(%x) <{dimension = 0 : i64, is_stable = true}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %c = stablehlo.negate %a : tensor<f32>\n"
        "    %d = stablehlo.negate %b : tensor<f32>\n"
        "    %l = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    stablehlo.return %l : tensor<i1>\n"
        "  }) : (tensor<?x2xf32>) -> tensor<?x2xf32>\n"
        "  %p = \"stablehlo.sort\"(%x) <{dimension = 0 : i64, is_stable = true}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    stablehlo.return %l : tensor<i1>\n"
        "  }) : (tensor<?x2xf32>) -> tensor<?x2xf32>\n"
        "  return %r, %q, %p : tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>\n}\n",
        (const Sized[]){
            SIZED(1, (1, 2), (2, 1, 1, 2, 1, 2)),
            SIZED(3, (1, 6, 5, 4, 3, 2), (6, 1, 5, 4, 3, 2, 5, 6, 3, 4, 1, 2, 1, 2, 3, 4, 5, 6))});
}

// NaNs, here roots of negative numbers, are elements like others: none is lost, whatever holds for
// them.
TEST(stablehlo_sort_keeps_nans) {
  holds("func.func @main(%x: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {\n"
        "  %zero = stablehlo.subtract %x, %x : tensor<?x2xf32>\n"
        "  %root = stablehlo.sqrt %x : tensor<?x2xf32>\n"
        "  %y = stablehlo.abs %root : tensor<?x2xf32>\n"
        "  %s = \"stablehlo.sort\"(%y) <{dimension = 1 : i64, is_stable = true}> ({\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "    %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    stablehlo.return %l : tensor<i1>\n"
        "  }) : (tensor<?x2xf32>) -> tensor<?x2xf32>\n"
        "  %is = stablehlo.is_finite %s : (tensor<?x2xf32>) -> tensor<?x2xi1>\n"
        "  %n = stablehlo.convert %is : (tensor<?x2xi1>) -> tensor<?x2xf32>\n"
        "  %r = stablehlo.select %is, %s, %zero : tensor<?x2xi1>, tensor<?x2xf32>\n"
        "  return %r, %n : tensor<?x2xf32>, tensor<?x2xf32>\n}\n",
        (const Sized[]){SIZED(1, (-1, 4), (2, 0, 1, 0)),
                        SIZED(3, (9, -1, 16, 4, -1, -4), (3, 0, 2, 4, 0, 0, 1, 0, 1, 1, 0, 0))});
}

// x[:, 0] = 8, and x[1] += x's first row.
TEST(stablehlo_sizes_scatter) {
  holds(
      "func.func @main(%x: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {\n"
      "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
      "  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
      "  %v = stablehlo.constant dense<8.0> : tensor<f32>\n"
      "  %u = stablehlo.dynamic_broadcast_in_dim %v, %n1, dims = [] : (tensor<f32>, tensor<1xi32>) "
      "-> tensor<?xf32>\n"
      "  %i = stablehlo.constant dense<0> : tensor<1xi32>\n"
      "  %r = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<"
      "update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, "
      "unique_indices = true}> ({\n"
      "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "    stablehlo.return %b : tensor<f32>\n"
      "  }) : (tensor<?x2xf32>, tensor<1xi32>, tensor<?xf32>) -> tensor<?x2xf32>\n"
      "  %j = stablehlo.constant dense<[[1], [1], [5]]> : tensor<3x1xi32>\n"
      "  %w = stablehlo.constant dense<[[10.0, 20.0], [1.0, 2.0], [7.0, 7.0]]> : tensor<3x2xf32>\n"
      "  %q = \"stablehlo.scatter\"(%x, %j, %w) <{scatter_dimension_numbers = #stablehlo.scatter<"
      "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
      "index_vector_dim = 1>}> ({\n"
      "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "    %c = stablehlo.add %a, %b : tensor<f32>\n"
      "    stablehlo.return %c : tensor<f32>\n"
      "  }) : (tensor<?x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<?x2xf32>\n"
      "  return %r, %q : tensor<?x2xf32>, tensor<?x2xf32>\n}\n",
      (const Sized[]){SIZED(1, (1, 2), (8, 2, 1, 2)),
                      SIZED(2, (1, 2, 3, 4), (8, 2, 8, 4, 1, 2, 14, 26))});
}

// The rows of x one after another, as a scan does.
TEST(stablehlo_sizes_while) {
  holds(
      "func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {\n"
      "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
      "  %z = stablehlo.constant dense<0> : tensor<i32>\n"
      "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
      "  %s = stablehlo.constant dense<0.0> : tensor<1x2xf32>\n"
      "  %r:3 = \"stablehlo.while\"(%z, %s, %x) ({\n"
      "  ^bb0(%i: tensor<i32>, %a: tensor<1x2xf32>, %y: tensor<?x2xf32>):\n"
      "    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "    stablehlo.return %c : tensor<i1>\n"
      "  }, {\n"
      "  ^bb0(%i: tensor<i32>, %a: tensor<1x2xf32>, %y: tensor<?x2xf32>):\n"
      "    %row = stablehlo.dynamic_slice %x, %i, %z, sizes = [1, 2] : (tensor<?x2xf32>, "
      "tensor<i32>, tensor<i32>) -> tensor<1x2xf32>\n"
      "    %b = stablehlo.add %a, %row : tensor<1x2xf32>\n"
      "    %w = stablehlo.dynamic_update_slice %y, %b, %i, %z : (tensor<?x2xf32>, tensor<1x2xf32>, "
      "tensor<i32>, tensor<i32>) -> tensor<?x2xf32>\n"
      "    %j = stablehlo.add %i, %one : tensor<i32>\n"
      "    stablehlo.return %j, %b, %w : tensor<i32>, tensor<1x2xf32>, tensor<?x2xf32>\n"
      "  }) : (tensor<i32>, tensor<1x2xf32>, tensor<?x2xf32>) -> (tensor<i32>, tensor<1x2xf32>, "
      "tensor<?x2xf32>)\n"
      "  return %r#2 : tensor<?x2xf32>\n}\n",
      (const Sized[]){SIZED(1, (1, 2), (1, 2)), SIZED(3, (1, 2, 3, 4, 5, 6), (1, 2, 4, 6, 9, 12))});
}

TEST(stablehlo_sizes_top_k) {
  holds("func.func @main(%x: tensor<?x3xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>) {\n"
        "  %v, %i = \"chlo.top_k\"(%x) <{k = 2 : i64}> : (tensor<?x3xf32>) -> (tensor<?x2xf32>, "
        "tensor<?x2xi32>)\n"
        "  return %v, %i : tensor<?x2xf32>, tensor<?x2xi32>\n}\n",
        (const Sized[]){SIZED(1, (1, 3, 2), (3, 2, 1, 2)),
                        SIZED(2, (1, 3, 2, 9, 7, 8), (3, 2, 9, 8, 1, 2, 0, 2))});
}

// As many zeros before x as it has rows.
TEST(stablehlo_sizes_pad) {
  holds("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n"
        "  %low = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
        "  %high = stablehlo.constant dense<-1> : tensor<1xi32>\n"
        "  %none = stablehlo.constant dense<0> : tensor<1xi32>\n"
        "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %r = stablehlo.dynamic_pad %x, %z, %low, %high, %none : (tensor<?xf32>, tensor<f32>, "
        "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>\n"
        "  return %r : tensor<?xf32>\n}\n",
        (const Sized[]){SIZED(2, (1, 2), (0, 0, 1)), SIZED(3, (1, 2, 3), (0, 0, 0, 1, 2))});
}

// Padding that is computed, around an axis that is open: n - 2 before and 1 after.
TEST(stablehlo_sizes_convolution) {
  holds("func.func @main(%x: tensor<1x?x1xf32>) -> tensor<1x?x1xf32> {\n"
        "  %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<1x?x1xf32>) -> tensor<i32>\n"
        "  %m = stablehlo.constant dense<-2> : tensor<i32>\n"
        "  %k = stablehlo.add %n, %m : tensor<i32>\n"
        "  %low = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>\n"
        "  %high = stablehlo.constant dense<1> : tensor<1xi32>\n"
        "  %c = stablehlo.concatenate %low, %high, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
        "tensor<2xi32>\n"
        "  %p = stablehlo.reshape %c : (tensor<2xi32>) -> tensor<1x2xi32>\n"
        "  %w = stablehlo.constant dense<[[[1.0]], [[10.0]]]> : tensor<2x1x1xf32>\n"
        "  %r = \"stablehlo.dynamic_conv\"(%x, %w, %p) <{batch_group_count = 1 : i64, "
        "dimension_numbers = "
        "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64}> : "
        "(tensor<1x?x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>\n"
        "  return %r : tensor<1x?x1xf32>\n}\n",
        (const Sized[]){SIZED(2, (1, 2), (21, 2)), SIZED(3, (1, 2, 3), (10, 21, 32, 3))});
}

// Sums from the beginning and products from the end, as jax writes cumsum and cumprod of an open
// axis.
static const char running[] =
    "func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {\n"
    "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n"
    "  %w = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
    "  %m = stablehlo.constant dense<-1> : tensor<1xi32>\n"
    "  %k = stablehlo.add %w, %m : tensor<1xi32>\n"
    "  %none = stablehlo.constant dense<0> : tensor<1xi32>\n"
    "  %one = stablehlo.constant dense<1> : tensor<1xi32>\n"
    "  %c = stablehlo.concatenate %k, %none, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
    "tensor<2xi32>\n"
    "  %p = stablehlo.reshape %c : (tensor<2xi32>) -> tensor<1x2xi32>\n"
    "  %d = stablehlo.concatenate %none, %k, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> "
    "tensor<2xi32>\n"
    "  %q = stablehlo.reshape %d : (tensor<2xi32>) -> tensor<1x2xi32>\n"
    "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %e = stablehlo.constant dense<1.0> : tensor<f32>\n"
    "  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %w, %one, %one, %one, "
    "%p) "
    "{api_version = 2 : i32, called_computations = [@sum]} : (tensor<?xf32>, tensor<f32>, "
    "tensor<1xi32>, "
    "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>\n"
    "  %s = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %e, %w, %one, %one, %one, "
    "%q) "
    "{api_version = 2 : i32, called_computations = [@product]} : (tensor<?xf32>, tensor<f32>, "
    "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> "
    "tensor<?xf32>\n"
    "  return %r, %s : tensor<?xf32>, tensor<?xf32>\n}\n"
    "func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
    "  %c = stablehlo.add %a, %b : tensor<f32>\n"
    "  return %c : tensor<f32>\n}\n"
    "func.func private @product(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
    "  %c = stablehlo.multiply %a, %b : tensor<f32>\n"
    "  return %c : tensor<f32>\n}\n";

TEST(stablehlo_sizes_running) {
  holds(running, (const Sized[]){SIZED(1, (5), (5, 5)),
                                 SIZED(4, (1, 2, 3, 4), (1, 3, 6, 10, 24, 24, 12, 4))});
}

// With its size fixed, the windows are numbers, and any body can be taken.
TEST(stablehlo_sizes_fixed) {
  static Diag d;
  Imported in;
  Interp *interp = NULL;
  Sized s = SIZED(4, (1, 2, 3, 4), (1, 3, 6, 10, 24, 24, 12, 4));
  IntFixed fixed = {.name = str_of("d0_0"), .value = 4};
  diag_init(&d);
  if (import_text(running, &fixed, 1, &in, &d)) FAIL("%s", d.text);
  EXPECT(fixed.used);
  EXPECT(ie_is(type_of(in.graph->main->result[1])->dims[0], 4));
  if (interp_create(in.graph, NULL, &d, &interp) || run_one(in.graph, interp, NULL, &s, &d))
    FAIL("%s", d.text);
  interp_free(interp);
  graph_free(in.graph);
}

// A function that is its own body has no end.
TEST(stablehlo_sizes_refuse_a_body_in_itself) {
  static Diag d;
  Imported in;
  diag_init(&d);
  tenon_status s = import_text(
      "func.func @main(%x: tensor<4xf32>) -> tensor<3xf32> {\n"
      "  %w = stablehlo.constant dense<2> : tensor<1xi32>\n"
      "  %one = stablehlo.constant dense<1> : tensor<1xi32>\n"
      "  %p = stablehlo.constant dense<0> : tensor<1x2xi32>\n"
      "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %w, %one, %one, %one, "
      "%p) "
      "{api_version = 2 : i32, called_computations = [@f]} : (tensor<4xf32>, tensor<f32>, "
      "tensor<1xi32>, "
      "tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<3xf32>\n"
      "  return %r : tensor<3xf32>\n}\n"
      "func.func private @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
      "  %w = stablehlo.constant dense<1> : tensor<0xi32>\n"
      "  %p = stablehlo.constant dense<0> : tensor<0x2xi32>\n"
      "  %c = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%a, %b, %w, %w, %w, %w, %p) "
      "{api_version = 2 : i32, called_computations = [@f]} : (tensor<f32>, tensor<f32>, "
      "tensor<0xi32>, "
      "tensor<0xi32>, tensor<0xi32>, tensor<0xi32>, tensor<0x2xi32>) -> tensor<f32>\n"
      "  return %c : tensor<f32>\n}\n",
      NULL, 0, &in, &d);
  EXPECT_STATUS(s, TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "within a body");
  graph_free(in.graph);
}

// ---- names ----
static const char named[] =
    "func.func public @main(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {\n"
    "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
    "  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
    "  %e = stablehlo.compare EQ, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "  stablehlo.custom_call @shape_assertion(%e, %m, %n) {api_version = 2 : i32, has_side_effect "
    "= "
    "true} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()\n"
    "  %r = call @inner(%n, %x, %y) : (tensor<i32>, tensor<?x2xf32>, tensor<?x2xf32>) -> "
    "tensor<?x2xf32>\n"
    "  return %r : tensor<?x2xf32>\n}\n"
    "func.func private @inner(%n: tensor<i32> {jax.global_constant = \"batch\"}, %x: "
    "tensor<?x2xf32>, "
    "%y: tensor<?x2xf32>) -> tensor<?x2xf32> {\n"
    "  %r = stablehlo.add %x, %y : tensor<?x2xf32>\n"
    "  return %r : tensor<?x2xf32>\n}\n";

// A size has the name that jax gave it, in every argument that must have it; by that name it can be
// fixed.
TEST(stablehlo_sizes_keep_their_names) {
  static Diag d;
  Imported in;
  diag_init(&d);
  if (import_text(named, NULL, 0, &in, &d)) FAIL("%s", d.text);
  Dim x = type_of(in.graph->main->param[0])->dims[0],
      y = type_of(in.graph->main->param[1])->dims[0];
  EXPECT_INT_EQ(x->kind, IE_SYM);
  EXPECT_STR_EQ(x->name, "batch");
  EXPECT(x == y);
  graph_free(in.graph);
  IntFixed fixed = {.name = str_of("batch"), .value = 4};
  if (import_text(named, &fixed, 1, &in, &d)) FAIL("%s", d.text);
  EXPECT(fixed.used);
  EXPECT(ie_is(type_of(in.graph->main->param[1])->dims[0], 4));
  EXPECT(ie_is(type_of(in.graph->main->result[0])->dims[0], 4));
  graph_free(in.graph);
}
