// weights_test.c -- files of weights: safetensors, GGUF, PyTorch's archives and older files, .npz;
// good ones and bad ones.
//
// The bad inputs are numbered as in docs/reference/formats.md: each must be refused with a message,
// whatever is wrong with it; then every truncation and many byte flips of a sound file of each
// format must end in a status.
#include "api/model.h"
#include "base/npy.h"
#include "base/zip.h"
#include "frontends/gguf/gguf.h"
#include "ir/interpret.h"
#include "test.h"

#include <stdlib.h>
#include <zlib.h>

typedef struct Bytes {
  Arena arena;
  StrBuf b;
} Bytes;

static void bytes_init(Bytes *x) {
  arena_init(&x->arena);
  strbuf_init(&x->b, &x->arena);
}
static void put_number(Bytes *x, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) strbuf_putc(&x->b, (char)(v >> (8 * i)));
}
static void put_str(Bytes *x, const char *s) {
  put_number(x, strlen(s), 8);
  strbuf_puts(&x->b, s);
}

static tenon_status try_open(Str s, Diag *d, Model **out) {
  diag_init(d);
  return model_open_memory(s.p, s.n, NULL, NULL, d, out);
}

static void expect_bad(const char *name, Str s, const char *part) {
  Diag d;
  Model *m = NULL;
  tenon_status got = try_open(s, &d, &m);
  if (got != TENON_EFORMAT && got != TENON_EUNSUPPORTED && got != TENON_EINVAL)
    FAIL("%s: status %s", name, status_name(got));
  else if (!strstr(d.text, part))
    FAIL("%s: '%s' does not say '%s'", name, d.text, part);
  model_free(m);
}

static void every_truncation(Str s) {
  for (int64_t n = 0; n < s.n; n++) {
    Diag d;
    Model *m = NULL;
    char *copy = malloc((size_t)n + 1);  // of exactly this size, for the sanitizer
    memcpy(copy, s.p, (size_t)n);
    if (!try_open((Str){copy, n}, &d, &m))
      FAIL("%lld of %lld bytes are read", (long long)n, (long long)s.n);
    model_free(m);
    free(copy);
  }
}

static void every_flip(Str s) {
  char *copy = malloc((size_t)s.n);
  for (int64_t i = 0; i < s.n; i++)
    for (int bit = 0; bit < 8; bit++) {
      Diag d;
      Model *m = NULL;
      memcpy(copy, s.p, (size_t)s.n);
      copy[i] = (char)(copy[i] ^ 1 << bit);
      if (!try_open((Str){copy, s.n}, &d, &m))
        for (int64_t k = 0; k < m->import.weights.v.n; k++)
          weight_elements(&m->import.weights.v.v[k], &m->arena);
      model_free(m);
    }
  free(copy);
}

// ---- safetensors ----

static Str safe(Bytes *x, const char *header, int64_t data) {
  bytes_init(x);
  put_number(x, strlen(header), 8);
  strbuf_puts(&x->b, header);
  for (int64_t i = 0; i < data; i++) strbuf_putc(&x->b, (char)i);
  return strbuf_str(&x->b);
}

static const char safe_good[] = "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\","
                                "\"shape\":[2,1],\"data_offsets\":[0,8]},"
                                "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";

TEST(safetensors_are_read) {
  Bytes x;
  Diag d;
  Model *m = NULL;
  EXPECT_STATUS(try_open(safe(&x, safe_good, 11), &d, &m), TENON_OK);
  REQUIRE(m != NULL);
  const Weight *a = weights_find(&m->import.weights, STR("a"));
  REQUIRE(a != NULL);
  EXPECT_INT_EQ(a->rank, 2);
  EXPECT_INT_EQ(((const uint8_t *)weight_elements(a, &m->arena))[7], 7);
  EXPECT(weights_find(&m->import.weights, STR("c")) == NULL);
  EXPECT_STR_EQ(m->import.facts.v[0].value, "v");
  EXPECT_STATUS(model_need_supported(m, &d), TENON_EUNSUPPORTED);
  model_free(m);
  every_truncation(strbuf_str(&x.b));
  every_flip(strbuf_str(&x.b));
  arena_deinit(&x.arena);
}

TEST(safetensors_bad) {
#define ONE(type, shape, range)                                                                    \
  "{\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" range "}}"
  static const struct {
    const char *name, *header;
    int64_t data;
    const char *part;
  } rows[] = {
      {"S5a", "[1]", 0, ""},
      {"S5b", "{} x", 0, ""},
      {"S6",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\","
       "\"shape\":[1],\"data_offsets\":[0,1]}}",
       1, "a"},
      {"S7", ONE("U8", "[1]", "[1,0]"), 1, "range"},
      {"S8",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
       "\"shape\":[2],\"data_offsets\":[1,3]}}",
       3, "overlaps"},
      {"S9", ONE("U8", "[1]", "[1,2]"), 2, "unused"},
      {"S10", ONE("U8", "[1]", "[0,1]"), 2, "follow"},
      {"S11", ONE("F32", "[1]", "[0,3]"), 3, "does not take"},
      {"S12", ONE("F32", "[4294967296,4294967296]", "[0,4]"), 4, "overflows"},
      {"S13a", ONE("U8", "[-1]", "[0,1]"), 1, "no size"},
      {"S13b", ONE("U8", "[1.5]", "[0,1]"), 1, "no size"},
      {"S13c", ONE("U8", "[1e400]", "[0,1]"), 1, ""},
      {"S13d", ONE("U8", "[18446744073709551616]", "[0,1]"), 1, ""},
      {"S14a", ONE("F7", "[1]", "[0,1]"), 1, "F7"},
      {"S14b", ONE("F4", "[3]", "[0,2]"), 2, "does not take"},
      {"S17a", "{\"__metadata__\":{\"k\":1}}", 0, "no string"},
      {"S17b", "{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, ""},
      {"S-no-range", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets"},
      {"S-no-dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype"},
      {"S-rank", ONE("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "rank"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    Bytes x;
    expect_bad(rows[i].name, safe(&x, rows[i].header, rows[i].data), rows[i].part);
    arena_deinit(&x.arena);
  }
  Bytes x;
  bytes_init(&x);  // S2: a header that is longer than the file
  put_number(&x, 1000, 8);
  strbuf_puts(&x.b, "{}");
  expect_bad("S2", strbuf_str(&x.b), "header");
  arena_deinit(&x.arena);
  bytes_init(&x);  // S16
  put_number(&x, 100000, 8);
  strbuf_putc(&x.b, '{');
  for (int i = 1; i < 100000; i++) strbuf_putc(&x.b, '[');
  expect_bad("S16", strbuf_str(&x.b), "");
  arena_deinit(&x.arena);
  expect_bad("S18a", STR("{\"weight_map\":{\"a\":\"../x\"}}"), "climbs");
  expect_bad("S18b", STR("{\"weight_map\":{\"a\":\"x.safetensors\"}}"), "x.safetensors");
  expect_bad("S18c", STR("{\"weight_map\":[1]}"), "weight_map");
}

static void write_file(const char *path, Str s) {
  Diag d;
  diag_init(&d);
  EXPECT_STATUS(file_write(path, s.p, s.n, &d), TENON_OK);
}

TEST(safetensors_in_several_files) {
  char folder[] = "/tmp/tenon-weights-XXXXXX", path[128];
  REQUIRE(mkdtemp(folder) != NULL);
  static const char *const name[3] = {"m-1.safetensors", "m-2.safetensors", "m.json"};
  Bytes x;
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    if (i < 2)
      write_file(path, safe(&x,
                            i ? ONE("U8", "[2]", "[0,2]")
                              : "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                            i + 1));
    else
      write_file(path, STR("{\"metadata\":{},\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-1."
                           "safetensors\"}}"));
    if (i < 2) arena_deinit(&x.arena);
  }
  Diag d;
  diag_init(&d);
  Model *m = NULL;
  EXPECT_STATUS(model_open(path, NULL, &d, &m), TENON_OK);
  if (m) EXPECT_INT_EQ(m->import.weights.v.n, 2);
  model_free(m);
  write_file(path, STR("{\"weight_map\":{\"c\":\"m-2.safetensors\"}}"));
  EXPECT_STATUS(model_open(path, NULL, &d, &m), TENON_EFORMAT);
  write_file(path, STR("{\"weight_map\":{\"c\":\"m-3.safetensors\"}}"));
  EXPECT_STATUS(model_open(path, NULL, &d, &m), TENON_EIO);
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    remove(path);
  }
  remove(folder);
}
#undef ONE

// ---- GGUF ----

typedef struct GgufSpec {
  uint32_t version;
  uint64_t ntensors, nkv;
  const char *name;
  uint32_t ndims;
  uint64_t dim[5];
  uint32_t type;
  uint64_t offset;
  int64_t data;
} GgufSpec;
static const GgufSpec gguf_good = {3, 1, 2, "w", 2, {32, 3}, 2, 0, 54};

static Str gguf_bytes(Bytes *x, const GgufSpec *s, void (*more)(Bytes *)) {
  bytes_init(x);
  strbuf_puts(&x->b, "GGUF");
  put_number(x, s->version, 4);
  put_number(x, s->ntensors, 8);
  put_number(x, s->nkv, 8);
  put_str(x, "general.architecture");
  put_number(x, GV_STRING, 4);
  put_str(x, "llama");
  if (more) {
    more(x);
  } else {
    put_str(x, "tokens");
    put_number(x, GV_ARRAY, 4);
    put_number(x, GV_STRING, 4);
    put_number(x, 2, 8);
    put_str(x, "<s>");
    put_str(x, "a");
  }
  put_str(x, s->name);
  put_number(x, s->ndims, 4);
  for (uint32_t i = 0; i < MIN(s->ndims, 5); i++) put_number(x, s->dim[i], 8);
  put_number(x, s->type, 4);
  put_number(x, s->offset, 8);
  while (x->b.n % 32) strbuf_putc(&x->b, 0);
  for (int64_t i = 0; i < s->data; i++) strbuf_putc(&x->b, (char)(i * 7));
  return strbuf_str(&x->b);
}

TEST(gguf_is_read) {
  Bytes x;
  Diag d;
  Model *m = NULL;
  EXPECT_STATUS(try_open(gguf_bytes(&x, &gguf_good, NULL), &d, &m), TENON_OK);
  REQUIRE(m != NULL);
  const Weight *w = weights_find(&m->import.weights, STR("w"));
  REQUIRE(w != NULL);
  EXPECT_INT_EQ(w->dims[0], 3);
  EXPECT_INT_EQ(w->dims[1], 32);
  EXPECT_STR_EQ(w->kind, "Q4_0");
  EXPECT_STR_EQ(m->import.facts.v[1].value, "2 string: '<s>' 'a'");
  model_free(m);
  every_truncation(strbuf_str(&x.b));
  every_flip(strbuf_str(&x.b));
  arena_deinit(&x.arena);
}

static void kv_type(Bytes *x) { put_str(x, "k"), put_number(x, 13, 4), put_number(x, 0, 8); }
static void kv_empty(Bytes *x) { put_str(x, ""), put_number(x, GV_U8, 4), put_number(x, 0, 1); }
static void kv_bool(Bytes *x) { put_str(x, "k"), put_number(x, GV_BOOL, 4), put_number(x, 2, 1); }
static void kv_long(Bytes *x) {
  put_str(x, "k"), put_number(x, GV_STRING, 4), put_number(x, (uint64_t)1 << 62, 8);
}
static void kv_longkey(Bytes *x) { put_number(x, (uint64_t)1 << 63, 8); }
static void kv_array(Bytes *x) {
  put_str(x, "k"), put_number(x, GV_ARRAY, 4), put_number(x, GV_F64, 4);
  put_number(x, (uint64_t)1 << 61, 8);
}
static void kv_nested(Bytes *x) {
  put_str(x, "k"), put_number(x, GV_ARRAY, 4), put_number(x, GV_ARRAY, 4), put_number(x, 1, 8);
}
static void kv_twice(Bytes *x) {
  put_str(x, "general.architecture"), put_number(x, GV_U8, 4), put_number(x, 0, 1);
}
static void kv_align(Bytes *x) {
  put_str(x, "general.alignment"), put_number(x, GV_U32, 4), put_number(x, 3, 4);
}
static void kv_align0(Bytes *x) {
  put_str(x, "general.alignment"), put_number(x, GV_U32, 4), put_number(x, 0, 4);
}
static void kv_align_type(Bytes *x) {
  put_str(x, "general.alignment"), put_number(x, GV_U64, 4), put_number(x, 32, 8);
}

TEST(gguf_bad) {
#define WITH(...)                                                                                  \
  { __VA_ARGS__ }
  static const struct {
    const char *name;
    GgufSpec spec;
    void (*more)(Bytes *);
    const char *part;
  } rows[] = {
      {"G2", WITH(0, 1, 2, "w", 1, {32}, 2, 0, 18), NULL, "version 0"},
      {"G3", WITH(1, 1, 2, "w", 1, {32}, 2, 0, 18), NULL, "version 1"},
      {"G4", WITH(4, 1, 2, "w", 1, {32}, 2, 0, 18), NULL, "version 4"},
      {"G5", WITH(0x03000000, 1, 2, "w", 1, {32}, 2, 0, 18), NULL, "big-endian"},
      {"G6", WITH(3, (uint64_t)1 << 61, 2, "w", 1, {32}, 2, 0, 18), NULL, "do not fit"},
      {"G7", WITH(3, 1, (uint64_t)1 << 61, "w", 1, {32}, 2, 0, 18), NULL, "do not fit"},
      {"G8", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_longkey, "string"},
      {"G9", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_empty, "key"},
      {"G10", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_type, "type 13"},
      {"G11", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_long, "string"},
      {"G12a", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_array, "array"},
      {"G12b", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_nested, "array of arrays"},
      {"G13", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_bool, "bool"},
      {"G14", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_twice, "twice"},
      {"G15a", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_align, "alignment"},
      {"G15b", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_align0, "alignment"},
      {"G15c", WITH(3, 1, 2, "w", 1, {32}, 2, 0, 18), kv_align_type, "alignment"},
      {"G16",
       WITH(3, 1, 2, "0123456789012345678901234567890123456789012345678901234567890123", 1, {32}, 2,
            0, 18),
       NULL, "name"},
      {"G17", WITH(3, 1, 2, "w", 5, {32, 1, 1, 1, 1}, 2, 0, 18), NULL, "dimensions"},
      {"G18", WITH(3, 1, 2, "w", 1, {(uint64_t)-32}, 2, 0, 18), NULL, "negative"},
      {"G19", WITH(3, 1, 2, "w", 2, {(uint64_t)1 << 40, (uint64_t)1 << 40}, 0, 0, 18), NULL,
       "overflows"},
      {"G20", WITH(3, 1, 2, "w", 1, {(uint64_t)1 << 62}, 27, 0, 18), NULL, "overflow"},
      {"G21a", WITH(3, 1, 2, "w", 1, {32}, 4, 0, 18), NULL, "type 4"},
      {"G21b", WITH(3, 1, 2, "w", 1, {32}, 0xffffffff, 0, 18), NULL, "type"},
      {"G22", WITH(3, 1, 2, "w", 1, {33}, 2, 0, 18), NULL, "blocks"},
      {"G23a", WITH(3, 1, 2, "w", 1, {32}, 2, 1, 18), NULL, "multiple"},
      {"G23b", WITH(3, 1, 2, "w", 1, {32}, 2, 4096, 18), NULL, "past the end"},
      {"G24", WITH(3, 1, 2, "w", 1, {32}, 2, (uint64_t)INT64_MAX - 31, 18), NULL, ""},
      {"G25", WITH(3, 1, 2, "w", 1, {64}, 2, 0, 35), NULL, "past the end"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    Bytes x;
    expect_bad(rows[i].name, gguf_bytes(&x, &rows[i].spec, rows[i].more), rows[i].part);
    arena_deinit(&x.arena);
  }
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// What a graph has of four blocks, as a matrix of two rows: the same bits, unpacked where the graph
// is run.
static void check_attached(const GgmlType *t, const uint8_t *blocks, const float *want) {
  Bytes x;
  Diag d;
  Model *m = NULL;
  Graph *g = NULL;
  Interp *in = NULL;
  Run run;
  Value *got = NULL;
  GgufSpec spec = {3, 1, 2, "w", 2, {2 * (uint64_t)t->block, 2}, (uint32_t)(t - ggml_type), 0, 0};
  gguf_bytes(&x, &spec, NULL);
  strbuf_put(&x.b, (Str){(const char *)blocks, 4 * t->bytes});
  REQUIRE(!try_open(strbuf_str(&x.b), &d, &m));
  REQUIRE(!graph_create(&d, &g));
  Node *w = weights_attach(g, &m->import.weights, STR("w"), DT_F32, 2, (int64_t[]){2, 2 * t->block},
                           NOWHERE);
  REQUIRE(w && !g->status);
  EXPECT((w->op == OP_unpack_n_bits) == (t->split != NULL));
  g->main = body_new(g, "w", 0, NULL, 1, &w);
  g->body.n--;
  g->main->result_name[0] = "w";
  run_init(&run, NULL, &d);
  EXPECT_STATUS(interp_create(g, NULL, &d, &in), TENON_OK);
  EXPECT_STATUS(interp_run(in, &run, NULL, &got), TENON_OK);
  if (got && memcmp(got->data, want, 4 * (size_t)t->block * sizeof *want))
    FAIL("%s: other elements in a graph", t->name);
  run_deinit(&run);
  interp_free(in);
  graph_free(g);
  model_free(m);
  arena_deinit(&x.arena);
}

// Four blocks of each type, with the checksum of what the format's reference implementation makes
// of them.
TEST(gguf_blocks_are_exact) {
  FILE *f = fopen(TENON_SOURCE_DIR "/tests/golden/gguf_blocks.txt", "r");
  REQUIRE(f != NULL);
  static char line[8192];
  int types = 0;
  while (fgets(line, sizeof line, f)) {
    if (line[0] == '#') continue;
    char *hex = strchr(line, ' '), *sum = hex ? strrchr(line, ' ') : NULL;
    REQUIRE(hex && sum > hex);
    *hex++ = 0;
    int code = 0;
    while (code < GGML_NTYPES && !(ggml_type[code].name && !strcmp(ggml_type[code].name, line)))
      code++;
    REQUIRE(code < GGML_NTYPES);
    const GgmlType *t = &ggml_type[code];
    static float out[4 * GGML_BLOCK];
    static uint8_t block[4 * 512];
    for (int i = 0; i < 4 * t->bytes; i++, hex += 2)
      block[i] = (uint8_t)(hex_digit(hex[0]) << 4 | hex_digit(hex[1]));
    for (int k = 0; k < 4; k++) ggml_unpack(t, block + k * t->bytes, out + k * t->block);
    EXPECT(hex == sum);
    check_attached(t, block, out);
    for (int i = 0; i < 4 * t->block; i++) out[i] += 0.0f;
    unsigned long crc = crc32(0, (const Bytef *)out, (uInt)(4 * (size_t)t->block * sizeof *out));
    if (crc != strtoul(sum, NULL, 16)) FAIL("%s: other elements than the reference", line);
    types++;
  }
  fclose(f);
  EXPECT_INT_EQ(types, 26);
}

// ---- PyTorch ----

static void archive_add(ZipWriter *w, const char *name, Str s, bool deflated) {
  Diag d;
  diag_init(&d);
  EXPECT_STATUS(zip_add(w, str_of(name), 1, &s, deflated, &d), TENON_OK);
}

static Str archive(Bytes *x, Str pickle, bool deflated, bool zip64) {
  Diag d;
  ZipWriter w;
  bytes_init(x);
  diag_init(&d);
  zip_begin(&w, &x->arena, zip_put_strbuf, &x->b);
  w.zip64 = zip64;
  archive_add(&w, "m/data.pkl", pickle, deflated);
  archive_add(&w, "m/data/0", STR("\0\0\200?\0\0\0@\0\0@@\0\0\200@"), deflated);
  archive_add(&w, "m/version", STR("3\n"), false);
  EXPECT_STATUS(zip_end(&w, &d), TENON_OK);
  return strbuf_str(&x->b);
}

// {'w': tensor(storage 0 of N floats, offset O, size (2, 2), stride (A, B))}
#define TENSOR(n, o, a, b)                                                                         \
  "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"           \
  "0X\3\0\0\0cpuK" n "tQK" o "K\2K\2\206K" a "K" b "\206\211ccollections\nOrderedDict\n)RtR"
#define DICT(value) "\200\2}X\1\0\0\0w" value "s."

TEST(pytorch_tensors_are_read) {
  for (int k = 0; k < 4; k++) {
    Bytes x;
    Diag d;
    Model *m = NULL;
    Str s = archive(&x, STR(DICT(TENSOR("\4", "\0", "\1", "\2"))), k & 1, k & 2);
    EXPECT_STATUS(try_open(s, &d, &m), TENON_OK);
    REQUIRE(m != NULL);
    const Weight *w = weights_find(&m->import.weights, STR("w"));
    REQUIRE(w != NULL);
    const float *v = weight_elements(w, &m->arena);
    EXPECT(v[0] == 1 && v[1] == 3 && v[2] == 2 && v[3] == 4);  // a transposed view
    model_free(m);
    if (k < 2) every_truncation(s);
    if (!k) every_flip(s);
    arena_deinit(&x.arena);
  }
}

TEST(pytorch_bad) {
  static const struct {
    const char *name;
    Str pickle;
    const char *part;
  } rows[] = {
      {"P6", STR("\200\2cos\nsystem\nX\2\0\0\0ls\205R."), "os.system"},
      {"P7a", STR("\200\2c__builtin__\neval\nX\1\0\0\0001\205R."), "eval"},
      {"P7b", STR("\200\4\214\5posix\214\6system\223\214\2ls\205R."), "posix.system"},
      {"P7c", STR("\200\2(ios\nsystem\n."), "opcode"},
      {"P7d", STR("\200\2(cos\nsystem\no."), "os.system"},
      {"P7e", STR("\200\2}}b."), ""},
      {"P8a", STR("\200\2X\377\0\0\0a"), "string"},
      {"P8b", STR("\200\2a."), "empty"},
      {"P8c", STR("\200\2h\5."), "number 5"},
      {"P8d", STR("\200\6N."), "protocol"},
      {"P8e", STR("\200\2N"), "no end"},
      {"P8f", STR("\200\2t."), "mark"},
      {"P8g", STR("\200\2\213\377\377\377\377."), "string"},
      {"P8h", STR("\200\2)R."), ""},
      {"P10a", STR(DICT(TENSOR("\5", "\0", "\1", "\2"))), "fit"},
      {"P10b", STR(DICT(TENSOR("\4", "\1", "\1", "\2"))), "outside"},
      {"P10c", STR(DICT(TENSOR("\4", "\0", "\1", "\3"))), "outside"},
      {"P10d",
       STR("\200\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(("
           "X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
           "0X\3\0\0\0cpuK\4tQJ\377\377\377\377K\2\205K\1\205\211ccollections\nOrderedDict\n)"
           "RtRs."),
       "tensor"},
      {"P10e", STR("\200\2(X\7\0\0\0storageNX\1\0\0\0000X\3\0\0\0cpuK\4tQ."), "storage"},
      {"P-quantised", STR("\200\2ctorch._utils\n_rebuild_qtensor\n)R."), "quantised"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    Bytes x;
    Diag d;
    Model *m = NULL;
    Str s = archive(&x, rows[i].pickle, false, false);
    if (!strcmp(rows[i].name, "P7e"))
      EXPECT_STATUS(try_open(s, &d, &m), TENON_OK);  // attributes of a dictionary mean nothing
    else
      expect_bad(rows[i].name, s, rows[i].part);
    model_free(m);
    arena_deinit(&x.arena);
  }
}

TEST(pytorch_nests_too_deep_and_into_itself) {
  Bytes p, x;
  Diag d;
  Model *m = NULL;
  bytes_init(&p);
  strbuf_puts(&p.b, "\200\2N");
  for (int i = 0; i < 100000; i++) strbuf_putc(&p.b, '\205');
  strbuf_putc(&p.b, '.');
  expect_bad("P9a", archive(&x, strbuf_str(&p.b), false, false), "deep");
  arena_deinit(&x.arena);
  arena_deinit(&p.arena);
  EXPECT(try_open(archive(&x, STR("\200\2]q\0h\0a."), false, false), &d, &m) != TENON_OK);  // P9b
  model_free(m);
  arena_deinit(&x.arena);
  // Each list twice in the next: few bytes, 2^60 paths.
  bytes_init(&p);
  strbuf_put(&p.b, STR("\200\2]q\0"));
  for (int i = 0; i < 60; i++) {
    char more[] = {']', 'q', (char)(i + 1), '(', 'h', (char)i, 'h', (char)i, 'e'};
    strbuf_put(&p.b, (Str){more, sizeof more});
  }
  strbuf_putc(&p.b, '.');
  // what the stack holds below is left over: a full stack at the end
  expect_bad("P9c", archive(&x, strbuf_str(&p.b), false, false), "stack");
  arena_deinit(&x.arena);
  arena_deinit(&p.arena);
}

// One network in three files, each trained on its own: the others' weights go into the graph by
// name, every one of them.
TEST(weights_of_every_format_fit_the_graph) {
  static const char *const other[] = {"mnist.pt", "mnist.safetensors"};
  char model[600], path[600];
  Diag d;
  if (!test_data_dir()) SKIP("no data folder");
  snprintf(model, sizeof model, "%s/models/burn_mnist/mnist.onnx", test_data_dir());
  for (int k = 0; k < 2; k++) {
    Model *weights = NULL, *m = NULL;
    int found = 0;
    diag_init(&d);
    snprintf(path, sizeof path, "%s/models/burn_mnist/%s", test_data_dir(), other[k]);
    REQUIRE(model_open(path, NULL, &d, &weights) == TENON_OK);
    REQUIRE(model_open(model, &(ModelOptions){.weights = path}, &d, &m) == TENON_OK);
    Graph *g = m->graph;
    NodeList order = body_order(g, g->main, &g->arena);
    for (int64_t i = 0; i < order.n; i++) {
      const Node *n = order.v[i];
      const void *bytes;
      if (n->op != OP_const || !n->name) continue;
      const Weight *w = weights_find(&weights->import.weights, str_of(n->name));
      if (!w || const_bytes(g, n, &bytes, &d)) continue;
      found += !memcmp(weight_elements(w, &g->arena), bytes, (size_t)w->n * 4);
    }
    EXPECT_INT_EQ(found, 18);
    model_free(m);
    model_free(weights);
  }
}

TEST(formats_are_told_apart_by_content) {
  Bytes x;
  EXPECT_STR_EQ(frontend_of(gguf_bytes(&x, &gguf_good, NULL))->name, "gguf");
  arena_deinit(&x.arena);
  EXPECT_STR_EQ(frontend_of(safe(&x, safe_good, 11))->name, "safetensors");
  arena_deinit(&x.arena);
  EXPECT_STR_EQ(frontend_of(archive(&x, STR(DICT("N")), false, false))->name, "pytorch");
  arena_deinit(&x.arena);
  EXPECT_STR_EQ(frontend_of(STR("graph @main () {"))->name, "text");
  EXPECT_STR_EQ(frontend_of(STR("\10\7"))->name, "onnx");
  expect_bad("an empty file", (Str){NULL, 0}, "empty");
  EXPECT(frontend_find("gguf") == &frontend_gguf && !frontend_find("word"));
  InputType t;
  EXPECT(input_type_parse(STR("x=f32[batch, 3,224x224]"), &t) && t.rank == 4 &&
         t.dim[3].size == 224);
  EXPECT(str_is(t.dim[0].symbol, "batch") && t.dtype == DT_F32);
  EXPECT(input_type_parse(STR("n=i64"), &t) && t.rank == 0);
  EXPECT(!input_type_parse(STR("x=f32[2"), &t) && !input_type_parse(STR("=f32"), &t));
  EXPECT(!input_type_parse(STR("x=f99[2]"), &t) && !input_type_parse(STR("x=f32[-2]"), &t));
}
