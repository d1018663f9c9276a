// text_test.c -- the text form: what is printed reads back as the same text, the same graph and the
// same bits.
#include "api/model.h"
#include "base/platform.h"
#include "ir/internal.h"
#include "test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

// A graph under test, with what it takes to build, print and free it.
typedef struct Fix {
  Diag d;
  Arena arena;
  Graph *g, *again;
} Fix;

static Fix *fix_new(void) {
  Fix *f = calloc(1, sizeof *f);
  diag_init(&f->d);
  arena_init(&f->arena);
  return f;
}

static void fix_free(Fix *f) {
  graph_free(f->g);
  graph_free(f->again);
  arena_deinit(&f->arena);
  free(f);
}

static Fix *fix_graph(void) {
  Fix *f = fix_new();
  if (graph_create(&f->d, &f->g)) FAIL("%s", f->d.text);
  return f;
}

// Runs `work` under a trap, as an API entry does.
static tenon_status guarded(Fix *f, tenon_status (*work)(Fix *f, void *arg), void *arg) {
  Trap t;
  trap_enter(&t, &f->d);
  if (setjmp(t.env) == 0) t.status = work(f, arg);
  trap_leave(&t);
  return t.status;
}

static const char *print(Fix *f, Graph *g) {
  StrBuf b;
  strbuf_init(&b, &f->arena);
  graph_print(g, &b);
  return strbuf_text(&b);
}

static Body *set_main(Graph *g, int64_t nparams, Node *const *params, int64_t nresults,
                      Node *const *results) {
  g->main = body_new(g, "main", nparams, params, nresults, results);
  g->body.n--;
  return g->main;
}

// Prints, reads, prints: the texts must be equal and both graphs sound.  Gives the text.
static const char *round_trip(Fix *f, const char *path) {
  EXPECT_STATUS(graph_status(f->g), TENON_OK);
  EXPECT_STATUS(graph_verify(f->g, &f->d), TENON_OK);
  const char *one = print(f, f->g);
  if (graph_parse(str_of(one), path, &f->d, &f->again)) {
    FAIL("%s\n%s", f->d.text, one);
    return one;
  }
  EXPECT_STR_EQ(print(f, f->again), one);
  EXPECT_STATUS(graph_verify(f->again, &f->d), TENON_OK);
  if (f->d.len) FAIL("%s", f->d.text);
  return one;
}

// ---- golden files ----

static void golden(const char *path) {
  Fix *f = fix_new();
  File file;
  if (file_open(path, &file, &f->d)) {
    FAIL("%s", f->d.text);
    fix_free(f);
    return;
  }
  Str text = {(const char *)file.bytes, file.size};
  const char *want = str_copy(&f->arena, text);
  if (graph_parse(text, path, &f->d, &f->g))
    FAIL("%s", f->d.text);
  else
    EXPECT_STR_EQ(round_trip(f, path), want);
  file_close(&file);
  fix_free(f);
}

TEST(golden_files_print_as_they_are) {
  const char *folder = TENON_SOURCE_DIR "/tests/golden";
  DIR *dir = opendir(folder);
  REQUIRE(dir != NULL);
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    if (!str_ends(str_of(e->d_name), ".tir")) continue;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    golden(path);
    n++;
  }
  closedir(dir);
  EXPECT(n >= 3);
}

// ---- graphs built by hand ----

static const Type *vector(Graph *g, const char *sym) {
  Dim d = ie_sym(&g->dims, str_of(sym), 0, INT64_MAX);
  return type_tensor(g, DT_F32, 1, &d);
}

TEST(operands_of_commutative_ops_keep_one_order) {
  Fix *f = fix_graph();
  Graph *g = f->g;
  Node *x = node_param(g, vector(g, "n"), "x");
  Node *early = N(g, neg, x);
  Node *late = node_param(g, vector(g, "n"), "late");  // as a capture is made
  Node *sum = N(g, add, early, late);
  EXPECT(sum->src[0] == early);
  set_main(g, 2, (Node *[]){x, late}, 1, &sum);
  EXPECT_CONTAINS(round_trip(f, NULL), "add(%late, %0)");
  fix_free(f);
}

TEST(constants_are_printed_where_they_are_used) {
  Fix *f = fix_graph();
  Graph *g = f->g;
  Node *c = node_scalar(g, DT_F32, 0.5), *e = N(g, exp, c);  // both depend on no parameter
  Node *x = node_param(g, vector(g, "n"), "x"), *p = node_param(g, vector(g, "n"), "p");
  Node *cond = node_param(g, type_scalar(g, DT_BOOL), "cond");
  Node *first = N(g, mul, N(g, neg, p), e);
  Node *inner = N(g, add, first, c);
  Body *body = body_new(g, "b", 1, &p, 1, &inner);
  int at = op_find(STR("if"));
  REQUIRE(at >= 0);
  Node *q = node_param(g, vector(g, "n"), "q");
  Body *other = body_new(g, NULL, 1, &q, 1, &q);
  struct {
    int64_t then_captures;
    const Body *then_branch, *else_branch;
  } attrs = {1, body, other};
  REQUIRE(op_info(at)->attrs_size == sizeof attrs);
  Node *r = node_new(g, at, 3, (Node *[]){cond, x, x}, &attrs, 1, "r");
  Node *y = N(g, mul, r, e);
  set_main(g, 2, (Node *[]){cond, x}, 2, (Node *[]){y, c});
  const char *text = round_trip(f, NULL);
  EXPECT_CONTAINS(text, "exp(");
  fix_free(f);
}

TEST(names_are_made_unique_and_survive) {
  Fix *f = fix_graph();
  Graph *g = f->g;
  Node *x = node_param(g, vector(g, "n"), "x");
  Node *v = x, *named[4];
  const char *name[4] = {"a b", "a b", "7", ""};
  for (int i = 0; i < 4; i++) v = named[i] = node_new(g, OP_neg, 1, &v, NULL, 0, name[i]);
  set_main(g, 1, &x, 1, &v);
  const char *text = round_trip(f, NULL);
  EXPECT_CONTAINS(text, "%\"a b_1\" = neg(%\"a b\") @\"a b\"");
  EXPECT_CONTAINS(text, "%\"7\" = neg(");
  const Node *n = f->again->main->result[0];
  for (int i = 3; i >= 0; i--, n = n->src[0]) EXPECT_STR_EQ(n->name, name[i]);
  fix_free(f);
}

TEST(fresh_dims_are_numbered_as_they_appear) {
  Fix *f = fix_graph();
  Graph *g = f->g;
  for (int i = 0; i < 11; i++) ie_fresh(&g->dims, "d");  // of nodes that nobody uses
  Dim d[2] = {ie_fresh(&g->dims, "d"), ie_fresh(&g->dims, "seq")};
  Dim both[1] = {ie_add(&g->dims, ie_mulc(&g->dims, d[1], 2), d[0])};
  Node *x = node_param(g, type_tensor(g, DT_F32, 1, both), "x");
  Node *y = node_param(g, type_tensor(g, DT_F32, 2, d), "y");
  Node *r[2] = {N(g, neg, x), N(g, neg, y)};
  set_main(g, 2, (Node *[]){x, y}, 2, r);
  EXPECT_CONTAINS(round_trip(f, NULL), "(%x: f32[?d_0 + 2*?seq_1], %y: f32[?d_0, ?seq_1])");
  fix_free(f);
}

static void check_number(double x, const char *want) {
  Fix *f = fix_graph();
  StrBuf b;
  strbuf_init(&b, &f->arena);
  Node *c = node_scalar(f->g, DT_F64, x);
  set_main(f->g, 0, NULL, 1, &c);
  EXPECT_CONTAINS(round_trip(f, NULL), want);
  const double *p = f->again ? f->again->main->result[0]->data->mem : NULL;
  EXPECT(p && !memcmp(p, &x, sizeof x));
  fix_free(f);
}

TEST(decimals_are_short_and_exact) {
  check_number(0, "{0}");
  check_number(-0.0, "{-0}");
  check_number(1e-5, "{0.00001}");
  check_number(1e-6, "{1e-6}");
  check_number(1.5e-300, "{1.5e-300}");
  check_number(123456789012.0, "{123456789012}");
  check_number(1e22, "{1e22}");
  check_number(0.1, "{0.1}");
  check_number(1.0 / 3, "{0.3333333333333333}");
  check_number(5e-324, "{5e-324}");
  check_number(1.7976931348623157e308, "{1.7976931348623157e308}");
}

TEST(every_half_reads_back) {
  Fix *f = fix_graph();
  uint16_t v[64];
  int64_t n = 64;
  Node **r = arena_array(&f->arena, Node *, 1024);
  for (int i = 0; i < 1024; i++) {
    for (int k = 0; k < 64; k++) v[k] = (uint16_t)(i * 64 + k);
    r[i] = node_const(f->g, DT_F16, 1, &n, v, NULL);
  }
  set_main(f->g, 0, NULL, 1024, r);
  round_trip(f, NULL);
  for (int i = 0; f->again && i < 1024; i++)
    EXPECT(!memcmp(f->again->main->result[i]->data->mem, r[i]->data->mem, 128));
  fix_free(f);
}

TEST(every_small_float_reads_back) {
  static const DType types[] = {DT_F8E4M3, DT_F8E4M3Z, DT_F8E5M2, DT_F8E5M2Z, DT_F8E8M0};
  for (int t = 0; t < ARRAY_LEN(types); t++) {
    Fix *f = fix_graph();
    uint8_t v[64];
    int64_t n = 64;
    Node *r[4];
    for (int i = 0; i < 256; i++) {
      v[i % 64] = (uint8_t)i;
      if (i % 64 == 63) r[i / 64] = node_const(f->g, types[t], 1, &n, v, NULL);
    }
    set_main(f->g, 0, NULL, 4, r);
    round_trip(f, NULL);
    for (int i = 0; f->again && i < 4; i++)
      EXPECT(!memcmp(f->again->main->result[i]->data->mem, r[i]->data->mem, 64));
    fix_free(f);
  }
}

TEST(bits_beyond_the_elements_are_kept) {
  Fix *f = fix_graph();
  int64_t three = 3, one = 1;
  uint8_t nibbles[2] = {0x21, 0xf3}, odd = 2;
  Node *r[2] = {node_const(f->g, DT_U4, 1, &three, nibbles, "padded"),
                node_const(f->g, DT_BOOL, 1, &one, &odd, "two")};
  set_main(f->g, 0, NULL, 2, r);
  const char *text = round_trip(f, NULL);
  EXPECT_CONTAINS(text, "hex\"21f3\"");
  EXPECT_CONTAINS(text, "hex\"02\"");
  fix_free(f);
}

// ---- sources ----

static tenon_status parse_into(Fix *f, void *text) {
  return graph_parse(str_of(text), NULL, &f->d, &f->g);
}

TEST(bytes_without_a_file_are_written_out) {
  Fix *f = fix_new();
  char text[] = "graph() -> (i32[1], i32[1]) { source @0 hex\"0001000000\""
                " %a = const i32[1] @0+1 %b = const i32[1] @0+0 return %a, %b }";
  REQUIRE(guarded(f, parse_into, text) == TENON_OK);
  const char *out = round_trip(f, NULL);
  EXPECT_CONTAINS(out, "source @0 hex\"0001000000\"");
  EXPECT_CONTAINS(out, "const i32[1] @0+1  // {1}");
  fix_free(f);
}

TEST(sources_lie_below_the_text) {
  char folder[] = "/tmp/tenon-text-XXXXXX", path[64], data[64];
  REQUIRE(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/g.tir", folder);
  snprintf(data, sizeof data, "%s/w.bin", folder);
  const char text[] = "graph() -> (f32[2]) {\n  source @0 \"w.bin\"\n"
                      "  %w = const f32[2] @0+4  // {1, -2}\n  return %w\n}\n";
  const float values[3] = {0, 1, -2};
  Fix *f = fix_new();
  EXPECT_STATUS(file_write(path, text, (int64_t)sizeof text - 1, &f->d), TENON_OK);
  EXPECT_STATUS(file_write(data, values, sizeof values, &f->d), TENON_OK);
  EXPECT_STATUS(graph_parse(str_of(text), path, &f->d, &f->g), TENON_OK);
  if (f->g) EXPECT_STR_EQ(round_trip(f, path), text);
  fix_free(f);

  f = fix_new();
  char out[] = "graph() -> (f32[1]) { source @0 \"../passwd\" %w = const f32[1] @0+0 return %w }";
  const void *bytes;
  EXPECT_STATUS(graph_parse(str_of(out), path, &f->d, &f->g), TENON_OK);
  if (f->g) EXPECT(const_bytes(f->g, f->g->main->result[0], &bytes, &f->d) != TENON_OK);
  fix_free(f);
  unlink(path);
  unlink(data);
  rmdir(folder);
}

// ---- what is refused ----

static void refused(const char *text, const char *message) {
  Fix *f = fix_new();
  char *copy = malloc(strlen(text) + 1);  // exactly as long, so that reading beyond is seen
  memcpy(copy, text, strlen(text));
  Graph *g = NULL;
  tenon_status s = graph_parse((Str){copy, (int64_t)strlen(text)}, "g.tir", &f->d, &g);
  EXPECT(s != TENON_OK && !g);
  EXPECT_CONTAINS(f->d.text, message);
  EXPECT(f->d.base.line == 0 && !f->d.base.file);
  graph_free(g);
  free(copy);
  fix_free(f);
}

TEST(errors_name_the_place) {
  refused("", "g.tir:1:1: expected graph, found the end of the text");
  refused("graph", "1:6: expected '('");
  refused("graph(%x: f32[2]) = {", "1:19: expected '->', found '='");
  refused("graph(%x f32[2]) -> () { return }", "1:10: expected ':', found 'f32'");
  refused("graph(%x: f33[2]) -> () { return }", "1:11: 'f33' is no element type");
  refused("graph(%x: f32[2,]) -> () { return }", "1:17: expected a dimension");
  refused("graph(%x: f32[-1]) -> () { return }", "1:15: the dimension is negative");
  refused("graph(%x: f32[99999999999999999999]) -> () { return }", "expected a dimension");
  refused("graph(%x: f32[9223372036854775807, 3]) -> () { return }", "more elements than");
  refused("graph(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) -> () { return }", "at most 16");
  refused("graph(%x: f32[2], %x: f32[2]) -> () { return }", "1:19: %x is defined twice");
  refused("graph(%x: f32[2]) -> (f32[3]) { return %x }",
          "1:23: result 0 is written as f32[3], but it is f32[2]");
  refused("graph(%x: f32[2]) -> () { return %x }", "1 results are returned, 0 are declared");
  refused("graph(%x: f32[2]) -> (f32[2], f32[2]) { return %x }", "1:31: 1 results are returned");
  refused("graph() -> () {\n  %y = ad()\n  return\n}", "2:8: there is no op 'ad'; did you mean");
  refused("graph() -> () {\n  %y = neg(%z)\n  return }", "2:12: there is no value %z");
  refused("graph(%x: f32[2]) -> () { %y = neg(%x, %x) return }",
          "g.tir:1:32: node 'y' (neg): 2 operands, must be 1");
  refused("graph(%x: f32[2]) -> () { %y = neg(%x) : f32[n] return }",
          "1:42: result 0 is written as f32[n], but it is f32[2]");
  refused("graph(%x: f32[2]) -> () { %y = neg(%x.0) return }", "%x has 1 result: it is used");
  refused("graph() -> () { %y:2 = foreign() op=\"a\" : any[*], any[*] %z = neg(%y) return }",
          "1:67: %y has 2 results: pick one");
  refused("graph() -> () { %y:3 = foreign() op=\"a\" : any[*], any[*] return }",
          "2 types for 3 results");
  refused("graph() -> () { %y:60000 = foreign() op=\"a\" return }", "expected ':'");
  refused("graph() -> () { %y = foreign() oops=\"a\" return }", "foreign has no attribute 'oops'");
  refused("graph() -> () { %y = foreign() op=\"a\" op=\"b\" return }", "'op' is given twice");
  refused("graph() -> () { %y = foreign() op=a return }", "1:35: expected a string");
  refused("graph() -> () { %y = foreign() op=\"\\q\" return }", "a bad escape");
  refused("graph() -> () { %y = foreign() op=\"a return }", "without its closing quote");
  refused("graph() -> () { %y = param() return }", "param is not an operation");
  refused("graph() -> () { %1x = neg(%x) return }", "must be in quotes");
  refused("graph() -> () { %\"\\x00\" = neg(%x) return }", "a NUL character in a name");
  refused("graph() -> () { return } x", "1:26: expected the end of the text, found 'x'");
  refused("graph() -> () { \x01 }", "a character that belongs in quotes");
  refused("graph(%a: f32[], %b @\"a\": f32[]) -> () { return }", "two inputs are called 'a'");
}

TEST(bad_constants_are_refused) {
  refused("graph() -> () { %c = const f32[2] {1} return }", "1:37: expected ','");
  refused("graph() -> () { %c = const f32[1] {1, 2} return }", "the type says 1 elements");
  refused("graph() -> () { %c = const f32[1000000000000] {1} return }", "more than the text has");
  refused("graph() -> () { %c = const f32[n] {1} return }", "dimensions must be numbers");
  refused("graph() -> () { %c = const any[1] {1} return }", "known type and shape");
  refused("graph() -> () { %c = const i8[1] {128} return }", "'128' is no value of type i8");
  refused("graph() -> () { %c = const u8[1] {-1} return }", "'-1' is no value of type u8");
  refused("graph() -> () { %c = const u4[1] {16} return }", "'16' is no value of type u4");
  refused("graph() -> () { %c = const f16[1] {0x10000} return }", "does not fit in 16 bits");
  refused("graph() -> () { %c = const f32[1] {1.2.3} return }", "expected a number");
  refused("graph() -> () { %c = const f32[1] {1e} return }", "expected a number");
  refused("graph() -> () { %c = const bool[1] {1} return }", "expected true or false");
  refused("graph() -> () { %c = const f32[1] hex\"00\" return }", "2 hex digits");
  refused("graph() -> () { %c = const f32[1] hex\"0000000g\" return }", "not a hex digit");
  refused("graph() -> () { %c = const f32[1] @0+0 return }", "there is no source @0");
  refused("graph(%x: i64[1] = {1}) -> () { return }", "1:18: expected ','");
  refused("graph() -> () { %y = if() then_branch={ (%x: f32[1] = [n]) ", "only integers are known");
  refused("graph() -> () { %y = if() then_branch={ (%x: i64[n] = [n]) ", "known type and shape");
  refused("graph() -> () { %y = if() then_branch={ (%x: i64[2] = [n]) ", "expected ','");
  refused("graph() -> () { %y = if() then_branch={ (%x: i64[5000] = [n]) ", "up to 1024 elements");
  refused("graph() -> () { source @1 \"a\" return }", "sources are numbered in order");
  refused("graph() -> () { source @0 \"/etc/passwd\" return }", "below the text's folder");
  refused("graph() -> () { source @0 hex\"00\" %c = const f32[1] @0+9223372036854775807 return }",
          "the offset is too large");
}

TEST(nesting_is_limited) {
  StrBuf b;
  Fix *f = fix_new();
  strbuf_init(&b, &f->arena);
  strbuf_puts(&b, "graph(%c: bool[]) -> () { ");
  for (int i = 0; i < 70; i++) strbuf_puts(&b, "%y = if(%c) then_branch={ (%c: bool[]) ");
  refused(strbuf_text(&b), "bodies are nested more than 64 deep");
  strbuf_init(&b, &f->arena);
  strbuf_puts(&b, "graph(%c: ");
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "seq(");
  refused(strbuf_text(&b), "types are nested more than 64 deep");
  strbuf_init(&b, &f->arena);
  strbuf_puts(&b, "graph(%c: f32[");
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "(");
  refused(strbuf_text(&b), "expected a dimension");
  fix_free(f);
}

TEST(every_truncation_is_refused) {
  Fix *f = fix_new();
  File file;
  REQUIRE(!file_open(TENON_SOURCE_DIR "/tests/golden/control.tir", &file, &f->d));
  for (int64_t n = 0; n < file.size - 2; n++) {
    char *copy = malloc(n ? (size_t)n : 1);
    memcpy(copy, file.bytes, (size_t)n);
    Graph *g = NULL;
    diag_init(&f->d);
    EXPECT(graph_parse((Str){copy, n}, NULL, &f->d, &g) != TENON_OK);
    EXPECT(f->d.len > 0);
    graph_free(g);
    free(copy);
  }
  file_close(&file);
  fix_free(f);
}

// ---- a failing allocator ----

static int64_t until_failure;
static void *alloc_some(int64_t bytes) {
  return until_failure-- > 0 ? platform_posix.alloc(bytes) : NULL;
}

TEST(no_memory_is_an_error) {
  Fix *f = fix_new();
  File file;
  REQUIRE(!file_open(TENON_SOURCE_DIR "/tests/golden/control.tir", &file, &f->d));
  Str text = {(const char *)file.bytes, file.size};
  Platform some = platform_posix;
  some.alloc = alloc_some;
  tenon_status s = TENON_ENOMEM;
  for (int64_t n = 0; s == TENON_ENOMEM && n < 1000; n++) {
    Graph *g = NULL;
    until_failure = n;
    diag_init(&f->d);
    platform = &some;
    s = graph_parse(text, NULL, &f->d, &g);
    platform = &platform_posix;
    EXPECT((s == TENON_OK) == (g != NULL));
    graph_free(g);
  }
  EXPECT_STATUS(s, TENON_OK);
  file_close(&file);
  fix_free(f);
}

// ---- the verifier ----

typedef void Spoil(Graph *g, Node *neg, Node *split);

static void spoiled(Spoil *spoil, const char *message) {
  Fix *f = fix_new();
  char text[] = "graph(%x: f32[4]) -> (y: f32[4], z: f32[2]) { %c = const f32[4] {1, 2, 3, 4}"
                " %a = neg(%x) %b = add(%a, %c)"
                " %s:2 = foreign(%b) op=\"S\" : f32[2], f32[2] return %b, %s.1 }";
  if (guarded(f, parse_into, text)) {
    FAIL("%s", f->d.text);
    fix_free(f);
    return;
  }
  Node *sum = f->g->main->result[0];
  EXPECT_STATUS(graph_verify(f->g, &f->d), TENON_OK);
  spoil(f->g, sum->src[0], f->g->main->result[1]->src[0]);
  EXPECT(graph_verify(f->g, &f->d) != TENON_OK);
  EXPECT_CONTAINS(f->d.text, message);
  fix_free(f);
}

static void spoil_type(Graph *g, Node *n, Node *s) {
  (void)s;
  ((const Type **)(uintptr_t)n->type)[0] = type_scalar(g, DT_F32);
}
static void spoil_no_type(Graph *g, Node *n, Node *s) {
  (void)g, (void)s;
  ((const Type **)(uintptr_t)n->type)[0] = NULL;
}
static void spoil_order(Graph *g, Node *n, Node *s) {
  (void)g;
  ((Node **)(uintptr_t)n->src)[0] = s;
}
static void spoil_count(Graph *g, Node *n, Node *s) {
  (void)g, (void)s;
  n->nsrc = 0;
}
static void spoil_results(Graph *g, Node *n, Node *s) {
  (void)n;
  g->main->result[0] = s;
}
static void spoil_param(Graph *g, Node *n, Node *s) {
  (void)n, (void)s;
  g->main->nparams = 0;
}
static void spoil_id(Graph *g, Node *n, Node *s) {
  (void)g, (void)s;
  n->id++;
}
static void spoil_poison(Graph *g, Node *n, Node *s) {
  (void)s;
  ((Node **)(uintptr_t)n->src)[0] = g->poison;
}
static void spoil_dim(Graph *g, Node *n, Node *s) {
  (void)s;
  Dim d = g->dims.poison;
  ((const Type **)(uintptr_t)n->type)[0] = type_tensor(g, DT_F32, 1, &d);
}
static void spoil_names(Graph *g, Node *n, Node *s) {
  (void)n, (void)s;
  g->main->result_name[1] = g->main->result_name[0];
}
static void spoil_const(Graph *g, Node *n, Node *s) {
  (void)n, (void)s;
  for (int64_t i = 0; i < g->node.n; i++)
    if (g->node.v[i]->op == OP_const) ((ConstData *)(uintptr_t)g->node.v[i]->data)->bytes--;
}
static void spoil_proj(Graph *g, Node *n, Node *s) {
  (void)n, (void)s;
  ((proj_attrs *)(uintptr_t)g->main->result[1]->attrs)->index = 2;
}
static void spoil_main(Graph *g, Node *n, Node *s) {
  (void)n, (void)s;
  g->main = NULL;
}

TEST(verifier_finds_what_is_broken) {
  spoiled(spoil_type, "node 'a' (neg): result 0 is f32[], but inference says f32[4]");
  spoiled(spoil_no_type, "node 'a' (neg): result 0 has no type");
  spoiled(spoil_order, "node 'a' (neg): operand 0 was not made before the node");
  spoiled(spoil_count, "0 operands, must be 1");
  spoiled(spoil_results, "result 0 of a body has no projection");
  spoiled(spoil_param, "uses a parameter that is not its own");
  spoiled(spoil_id, "stands at place");
  spoiled(spoil_poison, "operand 0 is poison");
  spoiled(spoil_dim, "dimension 0 of result 0 is no number");
  spoiled(spoil_names, "two outputs are called 'y'");
  spoiled(spoil_const, "node 'c' (const): 4 elements in 15 bytes");
  spoiled(spoil_proj, "projects result 2 of 2");
  spoiled(spoil_main, "no main body");
}

// ---- real models ----

static void model_round_trip(const char *path, int *count) {
  Fix *f = fix_new();
  Model *m = NULL;
  if (!model_open(path, NULL, &f->d, &m)) {
    f->g = m->graph;
    round_trip(f, path);
    f->g = NULL;
    ++*count;
  } else {
    FAIL("%s", f->d.text);
  }
  model_free(m);
  fix_free(f);
}

TEST(real_models_read_back) {
  static const char *const files[] = {
      "models/mobilenet_v2_qdq_onnx/model.onnx",
      "models/silero_vad/silero_vad.onnx",
      "models/silero_vad/silero_vad_op18_ifless.onnx",
      "models/dtln/model_1.onnx",
      "models/dtln/model_2.onnx",
      "models/ultra_light_face/version-RFB-320_simplified.onnx",
      "models/torch/rnn/model.onnx",
      "models/mnist_onnx2c/model.onnx",
      "nets/bert_base.dyn.onnx",
      "nets/resnet50.dyn.onnx",
      "nets/gpt2.new.onnx",
      "nets/lstm.dyn.onnx",
  };
  const char *data = test_data_dir();
  if (!data) SKIP("no model data on this machine");
  int count = 0;
  for (int i = 0; i < ARRAY_LEN(files); i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", data, files[i]);
    if (!access(path, R_OK)) model_round_trip(path, &count);
  }
  EXPECT(count > 0);
}
