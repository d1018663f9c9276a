// graph_hash_test.c -- the hash of a graph: the same for the same model, another for any change
// that the text form shows.
#include "compile/graph_hash.h"

#include "api/model.h"
#include "test.h"

#include <unistd.h>

typedef struct Hashed {
  bool read, hashed;
  uint8_t hash[SHA256_BYTES];
  const char *text;  // of the graph
} Hashed;

static const int64_t most = 64 << 20;

// Without the line of the file that constants lie in, which has all its bytes where it has no name.
static const char *text_of(Graph *g, Arena *a) {
  StrBuf all, kept;
  strbuf_init(&all, a);
  strbuf_init(&kept, a);
  graph_print(g, &all);
  for (const char *at = strbuf_text(&all); *at;) {
    int64_t n = (int64_t)strcspn(at, "\n");
    n += at[n] == '\n';
    if (strncmp(at, "  source ", 9) != 0) strbuf_put(&kept, (Str){at, n});
    at += n;
  }
  return strbuf_text(&kept);
}

static void hash_graph(Graph *g, Arena *a, Hashed *out) {
  out->hashed = graph_hash(g, most, a, out->hash);
  out->text = text_of(g, a);
}

static Hashed hash_model(const void *bytes, int64_t n, const char *path, Arena *a) {
  static Diag d;
  Hashed h = {0};
  Model *m;
  diag_init(&d);
  h.read = path ? !model_open(path, &(ModelOptions){0}, &d, &m)
                : !model_open_memory(bytes, n, NULL, &(ModelOptions){0}, &d, &m);
  if (!h.read) return h;
  hash_graph(m->graph, a, &h);
  model_free(m);
  return h;
}

static bool same(const Hashed *a, const Hashed *b) {
  return a->hashed && b->hashed && !memcmp(a->hash, b->hash, sizeof a->hash);
}

static const char *const models[] = {
    "mlp.onnx",   "conv.onnx",      "branch.onnx",       "loop.onnx",    "scan.onnx",
    "rate.onnx",  "sequence.onnx",  "shapes.onnx",       "strings.onnx", "quant.onnx",
    "kinds.onnx", "functions.onnx", "signatures.tflite", "past.tir",     "text.tir"};

static const char *path_of(const char *name, Arena *a) {
  return str_printf(a, "%s/tests/models/%s", TENON_SOURCE_DIR, name);
}

TEST(graph_hash_is_stable) {
  Arena a;
  arena_init(&a);
  Hashed before = {0};
  for (int i = 0; i < ARRAY_LEN(models); i++) {
    Hashed x = hash_model(NULL, 0, path_of(models[i], &a), &a);
    Hashed y = hash_model(NULL, 0, path_of(models[i], &a), &a);
    if (!same(&x, &y)) FAIL("%s: two readings have two hashes", models[i]);
    if (same(&x, &before)) FAIL("%s: the hash of another model", models[i]);
    before = x;
  }
  arena_deinit(&a);
}

// Each byte of a model, changed: where the graph is another, so is its hash.
TEST(graph_hash_sees_each_byte) {
  static const char *const small[] = {"mlp.onnx", "loop.onnx", "strings.onnx", "scan.onnx"};
  static Diag d;
  int64_t other = 0;
  for (int i = 0; i < ARRAY_LEN(small); i++) {
    Arena all;
    File f;
    arena_init(&all);
    diag_init(&d);
    REQUIRE(!file_open(path_of(small[i], &all), &f, &d));
    uint8_t *bytes = arena_dup(&all, f.bytes, f.size);
    Hashed was = hash_model(bytes, f.size, NULL, &all);
    EXPECT(was.hashed);
    for (int64_t at = 0; at < f.size; at++) {
      if (!test_takes()) continue;
      Arena a;
      arena_init(&a);
      bytes[at] ^= 1;
      Hashed now = hash_model(bytes, f.size, NULL, &a);
      bytes[at] ^= 1;
      bool differs = now.read && strcmp(now.text, was.text) != 0;
      other += differs;
      if (differs && same(&now, &was)) FAIL("%s: byte %lld", small[i], (long long)at);
      arena_deinit(&a);
    }
    file_close(&f);
    arena_deinit(&all);
  }
  EXPECT(other > 20);
}

TEST(graph_hash_reads_external_data) {
  static Diag d;
  Arena a;
  File f;
  arena_init(&a);
  diag_init(&d);
  const char *folder = test_folder();
  const char *model = str_printf(&a, "%s/external.onnx", folder);
  const char *data = str_printf(&a, "%s/external.bin", folder);
  REQUIRE(!file_open(path_of("external.onnx", &a), &f, &d));
  REQUIRE(!file_write(model, f.bytes, f.size, &d));
  file_close(&f);
  REQUIRE(!file_open(path_of("external.bin", &a), &f, &d));
  uint8_t *bytes = arena_dup(&a, f.bytes, f.size);
  int64_t n = f.size;
  file_close(&f);
  REQUIRE(!file_write(data, bytes, n, &d));
  Hashed was = hash_model(NULL, 0, model, &a);
  EXPECT(was.hashed);
  bytes[n / 2] ^= 1;
  REQUIRE(!file_write(data, bytes, n, &d));
  Hashed now = hash_model(NULL, 0, model, &a);
  EXPECT(now.hashed && !same(&now, &was));
  unlink(data);
  EXPECT(!hash_model(NULL, 0, model, &a).hashed);  // whoever needs it says so
  arena_deinit(&a);
}

static Hashed hash_text(const char *text, Arena *a) {
  static Diag d;
  Hashed h = {0};
  Graph *g;
  diag_init(&d);
  h.read = !graph_parse(str_of(text), NULL, &d, &g);
  if (!h.read) return h;
  hash_graph(g, a, &h);
  graph_free(g);
  return h;
}

// Names of nodes, inputs and sizes, ranges, attributes, operands, order: each counts.
TEST(graph_hash_sees_each_part) {
  static const char *const text[] = {
      "graph @\"g\"(%x: f32[n, 4]) {\n  %y = softmax(%x) axis=1\n  return y = %y\n}\n",
      "graph @\"h\"(%x: f32[n, 4]) {\n  %y = softmax(%x) axis=1\n  return y = %y\n}\n",
      "graph @\"g\"(%z: f32[n, 4]) {\n  %y = softmax(%z) axis=1\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[m, 4]) {\n  %y = softmax(%x) axis=1\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 5]) {\n  %y = softmax(%x) axis=1\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f16[n, 4]) {\n  %y = softmax(%x) axis=1\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %y = softmax(%x) axis=0\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %w = softmax(%x) axis=1\n  return y = %w\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %y = softmax(%x) axis=1\n  return z = %y\n}\n",
      "dim n [1, 8]\ngraph @\"g\"(%x: f32[n, 4]) {\n  %y = softmax(%x) axis=1\n  return y = "
      "%y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %y = relu(%x)\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %a = relu(%x)\n  %y = sub(%a, %x)\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %a = relu(%x)\n  %y = sub(%x, %a)\n  return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %a = relu(%x)\n  return a = %a, x = %x\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %a = relu(%x)\n  return x = %x, a = %a\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %c = const f32[4] {1, 2, 3, 4}\n  %y = add(%x, %c)\n  "
      "return y = %y\n}\n",
      "graph @\"g\"(%x: f32[n, 4]) {\n  %c = const f32[4] {1, 2, 3, 5}\n  %y = add(%x, %c)\n  "
      "return y = %y\n}\n",
  };
  enum { N = ARRAY_LEN(text) };
  Hashed h[N];
  Arena a;
  arena_init(&a);
  for (int i = 0; i < N; i++) {
    h[i] = hash_text(text[i], &a);
    if (!h[i].hashed) FAIL("%s", text[i]);
    for (int k = 0; k < i; k++)
      if (same(&h[i], &h[k])) FAIL("one hash:\n%s%s", text[i], text[k]);
  }
  arena_deinit(&a);
}

TEST(graph_hash_has_a_bound) {
  static Diag d;
  Graph *g;
  Arena a;
  uint8_t hash[SHA256_BYTES];
  arena_init(&a);
  diag_init(&d);
  REQUIRE(!graph_parse(STR("graph @\"g\"(%x: f32[4]) {\n  %c = const f32[4] {1, 2, 3, 4}\n  %y = "
                           "add(%x, %c)\n  return y = %y\n}\n"),
                       NULL, &d, &g));
  EXPECT(graph_hash(g, 16, &a, hash));
  EXPECT(!graph_hash(g, 15, &a, hash));
  graph_free(g);
  arena_deinit(&a);
}
