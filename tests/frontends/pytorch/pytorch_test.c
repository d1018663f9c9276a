// pytorch_test.c -- PyTorch programs: torch.export and TorchScript against the outputs that PyTorch
// stored, and bad ones.
//
// tests/models/torch has small programs that use what readers get wrong (loops and conditions that
// inputs decide, lists, state, tied and strided weights, symbolic sizes, the older layout); their
// .npz has inputs and outputs.
#include "api/model.h"
#include "base/npy.h"
#include "base/zip.h"
#include "compile/compile.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 8 };

typedef struct Stored {
  File file[2 * MOST];
  int nfiles;
  Arena arena;
  NdArray in[MOST], out[MOST];
  int nin, nout;
} Stored;

static bool read_array(Stored *s, const char *path, NdArray *out) {
  Diag d;
  diag_init(&d);
  File *f = &s->file[s->nfiles];
  if (file_open(path, f, &d)) return false;
  s->nfiles++;
  return !npy_read(&s->arena, (Str){(const char *)f->bytes, f->size}, &d, out);
}

static void stored_free(Stored *s) {
  arena_deinit(&s->arena);
  for (int i = 0; i < s->nfiles; i++) file_close(&s->file[i]);
}

// input_N.npy and output_N.npy of a folder.
static bool stored_folder(Stored *s, const char *folder) {
  char path[600];
  memset(s, 0, sizeof *s);
  arena_init(&s->arena);
  for (; s->nin < MOST; s->nin++) {
    snprintf(path, sizeof path, "%s/input_%d.npy", folder, s->nin);
    if (!read_array(s, path, &s->in[s->nin])) break;
    s->in[s->nin].name = str_of(str_printf(&s->arena, "%d", s->nin));
  }
  for (; s->nout < MOST; s->nout++) {
    snprintf(path, sizeof path, "%s/output_%d.npy", folder, s->nout);
    if (!read_array(s, path, &s->out[s->nout])) break;
  }
  return s->nin && s->nout;
}

// in_NAME and out_N of an archive.
static bool stored_archive(Stored *s, const char *path) {
  Diag d;
  NdArrayList l;
  memset(s, 0, sizeof *s);
  arena_init(&s->arena);
  diag_init(&d);
  if (file_open(path, &s->file[0], &d)) return false;
  s->nfiles = 1;
  if (npz_read(&s->arena, (Str){(const char *)s->file[0].bytes, s->file[0].size}, &d, &l))
    return false;
  for (int64_t i = 0; i < l.n; i++) {
    NdArray v = l.v[i];
    bool in = str_starts(v.name, "in_");
    v.name = (Str){v.name.p + 3, v.name.n - 3};
    if (in)
      s->in[s->nin++] = v;
    else
      s->out[s->nout++] = v;
  }
  return s->nin && s->nout;
}

static tenon_status open_typed(const char *path, const Stored *s, bool known, Diag *d,
                               Model **out) {
  static InputType types[MOST];
  memset(types, 0, sizeof types);
  for (int i = 0; i < s->nin; i++) {
    types[i] = (InputType){.name = s->in[i].name, .dtype = s->in[i].dtype, .rank = s->in[i].rank};
    for (int k = 0; k < s->in[i].rank; k++) types[i].dim[k].size = s->in[i].dims[k];
    types[i].known = types[i].fixed = known && !s->in[i].rank;
    if (types[i].known) types[i].value = get_f64(s->in[i].dtype, s->in[i].data, 0);
  }
  diag_init(d);
  return model_open(path, &(ModelOptions){.types = types, .ntypes = s->nin}, d, out);
}

static void compare(const char *what, int i, const Value *got, const NdArray *want) {
  if (got->dtype != want->dtype || got->rank != want->rank || got->n != want->n) {
    FAIL("%s: output %d is %s%s", what, i, dtype_name(got->dtype),
         shape_text(got->rank, got->dims).s);
    return;
  }
  for (int64_t k = 0; k < got->n; k++) {
    double a = val_f64(got, k), b = get_f64(want->dtype, want->data, k);
    if (!(fabs(a - b) <= 1e-5 * (1 + fabs(b)))) {
      FAIL("%s: output %d, element %lld: %g, not %g", what, i, (long long)k, a, b);
      return;
    }
  }
}

static void check_program(const char *path, const Stored *s, bool known) {
  Diag d;
  Model *m = NULL;
  tenon_status st = open_typed(path, s, known, &d, &m);
  if (st) {
    FAIL("%s: %s", path, d.text);
    return;
  }
  EXPECT_STATUS(graph_verify(m->graph, &d), TENON_OK);
  Run run;
  run_init(&run, NULL, &d);
  Value *in[MOST] = {0}, *out[MOST] = {0};
  int n = 0;
  for (int i = 0; i < s->nin; i++)
    if (!(known && !s->in[i].rank))
      EXPECT_STATUS(
          value_borrow(&run, s->in[i].dtype, s->in[i].rank, s->in[i].dims, s->in[i].data, &in[n++]),
          TENON_OK);
  EXPECT_INT_EQ(model_ninputs(m), n);
  EXPECT_INT_EQ(model_noutputs(m), s->nout);
  if (model_ninputs(m) == n && model_noutputs(m) == s->nout) {
    st = model_run(m, &run, in, out);
    if (st) FAIL("%s: %s", path, d.text);
    for (int i = 0; !st && i < s->nout; i++) compare(path, i, out[i], &s->out[i]);
  }
  run_deinit(&run);
  model_free(m);
}

#define FOLDER TENON_SOURCE_DIR "/tests/models/torch/"

TEST(torch_programs_compute_what_pytorch_did) {
  Stored s;
  REQUIRE(stored_archive(&s, FOLDER "loop.npz"));
  check_program(FOLDER "loop.pt", &s, false);
  check_program(FOLDER "loop.pt", &s, true);  // the loop's length is known: unrolled
  stored_free(&s);
  REQUIRE(stored_archive(&s, FOLDER "dynamic.npz"));
  check_program(FOLDER "dynamic.pt2", &s, false);
  check_program(FOLDER "older.pt2", &s, false);
  stored_free(&s);
}

static int64_t count_op(Graph *g, int op, Arena *a) {
  NodeList l = body_order(g, g->main, a);
  int64_t n = 0;
  for (int64_t i = 0; i < l.n; i++) n += l.v[i]->op == op;
  return n;
}

// quantized_decomposed as PT2E's convert leaves it, and fake quantisation: what PyTorch computes,
// and a convolution and a product of integers.
TEST(torch_quantized_programs_are_integers) {
  Stored s;
  Diag d;
  Model *m = NULL;
  CompileOptions o;
  CompileReport made = {0};
  REQUIRE(stored_archive(&s, FOLDER "quantized.npz"));
  check_program(FOLDER "quantized.pt2", &s, false);
  diag_init(&d);
  compile_defaults(&o);
  o.stop_after = "simplify-graph";
  EXPECT_STATUS(model_open(FOLDER "quantized.pt2", NULL, &d, &m), TENON_OK);
  EXPECT_STATUS(compile_graph(m->graph, &o, COMPILE_OPTIMISE, &s.arena, &d, &made), TENON_OK);
  EXPECT_INT_EQ(count_op(m->graph, OP_conv, &s.arena), 0);
  EXPECT_INT_EQ(count_op(m->graph, OP_mat_mul, &s.arena) + count_op(m->graph, OP_gemm, &s.arena),
                0);
  EXPECT_INT_EQ(count_op(m->graph, OP_conv_integer, &s.arena), 1);
  EXPECT_INT_EQ(count_op(m->graph, OP_mat_mul_integer, &s.arena), 1);
  model_free(m);
  stored_free(&s);
}

// Every format of every model of the shared data.
TEST(torch_models_in_every_format) {
  static const char *const model[] = {"mlp", "cnn", "transformer", "rnn", "branchy"};
  static const char *const file[] = {"script.pt", "trace.pt", "frozen.pt", "model.pt2",
                                     "model.onnx"};
  const char *data = test_data_dir();
  if (!data) SKIP("no data folder");
  int checked = 0;
  for (int64_t i = 0; i < ARRAY_LEN(model); i++) {
    char folder[512], path[600];
    Stored s;
    snprintf(folder, sizeof folder, "%s/models/torch/%s", data, model[i]);
    if (!stored_folder(&s, folder)) FAIL("%s: no arrays", folder);
    for (int64_t k = 0; k < ARRAY_LEN(file); k++) {
      File f;
      Diag d;
      diag_init(&d);
      snprintf(path, sizeof path, "%s/%s", folder, file[k]);
      if (file_open(path, &f, &d)) continue;
      file_close(&f);
      check_program(path, &s, false);
      checked++;
    }
    stored_free(&s);
  }
  EXPECT_INT_EQ(checked, 20);
}

TEST(torch_export_has_symbols_ranges_and_state) {
  Diag d;
  Model *m = NULL;
  diag_init(&d);
  Str given[] = {STR("count")};
  EXPECT_STATUS(model_open(FOLDER "dynamic.pt2", &(ModelOptions){.given = {1, given}}, &d, &m),
                TENON_OK);
  REQUIRE(m != NULL);
  EXPECT_INT_EQ(model_ninputs(m), 3);  // the buffer, which the program changes, too
  EXPECT_STR_EQ(model_input(m, 0)->name, "count");
  EXPECT_STR_EQ(model_output_name(m, 3), "count");
  Dim batch = type_of(model_input(m, 1))->dims[0];
  EXPECT(batch->kind == IE_SYM && batch == type_of(model_input(m, 2))->dims[0]);
  EXPECT(batch->lo == 2 && batch->hi == 32);
  model_free(m);
}

TEST(torch_script_needs_types) {
  Diag d;
  Model *m = NULL;
  diag_init(&d);
  EXPECT_STATUS(model_open(FOLDER "loop.pt", NULL, &d, &m), TENON_OK);
  REQUIRE(m != NULL);
  EXPECT(m->import.wants_types);
  EXPECT(weights_find(&m->import.weights, STR("sub.w")) != NULL);
  EXPECT_STATUS(model_need_supported(m, &d), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "--type");
  model_free(m);
}

TEST(torch_older_file_of_tensors) {
  Diag d;
  Model *m = NULL;
  diag_init(&d);
  EXPECT_STATUS(model_open(FOLDER "legacy.pth", NULL, &d, &m), TENON_OK);
  REQUIRE(m != NULL);
  const Weight *w = weights_find(&m->import.weights, STR("a.w"));
  REQUIRE(w != NULL);
  const float *v = weight_elements(w, &m->arena);
  EXPECT(w->dims[0] == 3 && v[0] == 0 && v[1] == 3 && v[2] == 1 && v[5] == 5);
  model_free(m);
}

// An index of two files, one of each format.
TEST(torch_weights_in_several_files) {
  Diag d;
  Model *m = NULL;
  diag_init(&d);
  EXPECT_STATUS(model_open(FOLDER "parts.bin.index.json", NULL, &d, &m), TENON_OK);
  REQUIRE(m != NULL);
  EXPECT_STR_EQ(m->import.about, "pytorch in 2 files");
  const Weight *w = weights_find(&m->import.weights, STR("b.w"));
  REQUIRE(w != NULL && weights_find(&m->import.weights, STR("a.w")) != NULL);
  const float *v = weight_elements(w, &m->arena);
  EXPECT(w->rank == 1 && w->dims[0] == 2 && v[0] == 1.5f && v[1] == -2);
  model_free(m);
}

// ---- bad programs ----

// Where the third line of code was written: line 8 of model.py.
static const char origins[] =
    "\200\002X\030\000\000\000FORMAT_WITH_STRING_TABLEq\000(X\000\000\000\000q\001X\026"
    "\000\000\000def forward(self, x):\012q\002X\013\000\000\000  return y\012q\003X\010"
    "\000\000\000model.pyq\004tq\005K\000]q\006K\000K\000\207q\007K\000K\000\207q\010K"
    "\000\207q\011KL]q\012(K\001K\002eK\003K\007\207q\013K\030K\036\207q\014K\001\207q"
    "\015\206q\016\207q\017.";

static Str program(Arena *a, StrBuf *b, const char *code) {
  Diag d;
  ZipWriter w;
  diag_init(&d);
  strbuf_init(b, a);
  zip_begin(&w, a, zip_put_strbuf, b);
  Str part[] = {STR("\200\2c__torch__\nM\n)\201}X\1\0\0\0kK\2sb."),
                STR("\200\2)."),
                str_of(code),
                {origins, (int64_t)sizeof origins - 1}};
  static const char *const name[] = {"m/data.pkl", "m/constants.pkl", "m/code/__torch__.py",
                                     "m/code/__torch__.py.debug_pkl"};
  for (int i = 0; i < ARRAY_LEN(part); i++)
    EXPECT_STATUS(zip_add(&w, str_of(name[i]), 1, &part[i], false, &d), TENON_OK);
  EXPECT_STATUS(zip_end(&w, &d), TENON_OK);
  return strbuf_str(b);
}

#define HEAD "class M(Module):\n  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n"

// Runs a program of one input and compares what it gives of 1, 2, 3, 4.
static void expect_result(const char *code, Model *m, const float *want) {
  static const float x[4] = {1, 2, 3, 4};
  Run run;
  Diag d;
  Value *in = NULL, *out = NULL;
  diag_init(&d);
  run_init(&run, NULL, &d);
  EXPECT_STATUS(value_borrow(&run, DT_F32, 1, (int64_t[]){4}, x, &in), TENON_OK);
  if (model_run(m, &run, &in, &out)) FAIL("%s\n%s", code, d.text);
  for (int64_t i = 0; out && i < 4; i++)
    if (out->n != 4 || val_f64(out, i) != (double)want[i])
      FAIL("%s\nelement %d is %g", code, (int)i, out->n > i ? val_f64(out, i) : NAN);
  run_deinit(&run);
}

// `want` NULL: it is only read.
static tenon_status try_program(const char *code, const float *want, Diag *d, Model **out) {
  static const InputType type[1] = {
      {.name = {"x", 1}, .dtype = DT_F32, .rank = 1, .dim = {{.size = 4}}}};
  Arena *a = mem_alloc(sizeof *a);
  StrBuf b;
  arena_init(a);
  Str s = program(a, &b, code);
  diag_init(d);
  char *copy = malloc((size_t)s.n);
  memcpy(copy, s.p, (size_t)s.n);
  tenon_status st =
      model_open_memory(copy, s.n, NULL, &(ModelOptions){.types = type, .ntypes = 1}, d, out);
  if (!st) {
    Diag again;
    diag_init(&again);
    st = model_need_supported(*out, &again);
    if (st) *d = again;
    if (!st && want) expect_result(code, *out, want);
  }
  model_free(*out);
  *out = NULL;
  free(copy);
  arena_deinit(a);
  mem_free(a, sizeof *a);
  return st;
}

TEST(torch_script_bad) {
  static const struct {
    const char *name, *code, *part;
  } rows[] = {
      {"P11", HEAD "    return torch.frobnicate(x, torch.frob2())\n", "torch.frobnicate"},
      {"all of them", HEAD "    y = torch.frob1(x)\n    return torch.frob2(y)\n", "frob2"},
      {"no name", HEAD "    return y\n", "code/__torch__.py:3:1: the name 'y' has no value"},
      {"where it was written", HEAD "    return y\n", "written in model.py:8"},
      {"no attribute", HEAD "    return self.w\n", "no attribute 'w'"},
      {"no method", HEAD "    return (self).fn(x, )\n", "no method 'fn'"},
      {"no class", "def f(x: Tensor) -> Tensor:\n  return x\n", "no forward"},
      {"calls itself", HEAD "    return (self).forward(x, )\n", "too deep"},
      {"no end", HEAD "    while True:\n      y = 1\n    return x\n", "too much"},
      {"2^62 times", HEAD "    for i in range(4611686018427387904):\n      pass\n    return x\n",
       "too much"},
      {"bracket", HEAD "    return torch.add(x, 1\n", "code/__torch__.py"},
      {"string", HEAD "    return \"abc\n", "string"},
      {"indentation", HEAD "return x\n", "indented"},
      {"arguments", HEAD "    return torch.relu(x, x, x)\n", "fit none"},
      {"names", HEAD "    a, b, c = (x, x)\n    return a\n", "2 values for 3 names"},
      {"item", HEAD "    return ([x])[3]\n", "item 3 of 1"},
      {"division", HEAD "    y = torch.floordiv(1, 0)\n    return x\n", "no value"},
      {"overflow", HEAD "    y = torch.mul(9223372036854775807, 2)\n    return x\n", "no value"},
      {"raises", HEAD "    ops.prim.RaiseException(\"no\")\n    return x\n",
       "the model raises: no"},
      {"shape", HEAD "    return torch.reshape(x, [3, 3])\n", ""},
      {"axis", HEAD "    return torch.sum(x, [7])\n", "axis 7"},
      {"list under a condition",
       HEAD "    a = annotate(List[Tensor], [])\n    if bool(torch.gt(torch.sum(x), 0)):\n      _0 "
            "= torch.append(a, x)\n"
            "    else:\n      pass\n    return x\n",
       "a list is changed"},
      {"random", HEAD "    return torch.randn_like(x)\n", "generator"},
      {"change of what may be a view",
       HEAD "    y = torch.reshape(torch.slice(x, 0, 0, 2), [2])\n    _0 = torch.add_(x, 1)\n    "
            "return x\n",
       "may share its elements or not"},
      {"type changes",
       HEAD "    y = x\n    for i in range(int(torch.sum(x))):\n      y = "
            "torch.unsqueeze(torch.to(y, 4), 0)\n    return y\n",
       ""},
  };
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    Diag d;
    Model *m = NULL;
    tenon_status st = try_program(rows[i].code, NULL, &d, &m);
    if (!st || st == TENON_EINTERNAL)
      FAIL("%s: %s", rows[i].name, status_name(st));
    else if (!strstr(d.text, rows[i].part))
      FAIL("%s: '%s'", rows[i].name, d.text);
  }
  Diag d;
  Model *m = NULL;
  EXPECT_STATUS(try_program(HEAD "    k = self.k\n    return torch.mul(x, k)\n", NULL, &d, &m),
                TENON_OK);
}

typedef struct Scripted {
  const char *code;
  float want[4];
} Scripted;
static void expect_programs(const Scripted *row, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    Diag d;
    Model *m = NULL;
    if (try_program(row[i].code, row[i].want, &d, &m)) FAIL("%s\n%s", row[i].code, d.text);
  }
}

// What is written into a view is in its tensor, and what is written into a tensor in its views;
// copies stay as they were.
TEST(torch_script_views) {
  static const Scripted rows[] = {
      {HEAD
       "    y = torch.clone(x)\n    _0 = torch.add_(torch.slice(y, 0, 0, 2), 10)\n    return y\n",
       {11, 12, 3, 4}},
      {HEAD "    y = torch.clone(x)\n    _0 = torch.mul_(torch.select(torch.view(y, [2, 2]), 1, "
            "0), 2)\n    return y\n",
       {2, 2, 6, 4}},
      {HEAD "    y = torch.clone(x)\n    z = torch.slice(y, 0, 2, 4)\n    _0 = torch.add_(y, 1)\n  "
            "  return torch.cat([z, z])\n",
       {4, 5, 4, 5}},
      {HEAD "    y = torch.clone(x)\n    z = torch.chunk(y, 2)\n    _0 = torch.add_(z[1], 100)\n   "
            " return y\n",
       {1, 2, 103, 104}},
      {HEAD "    y = torch.clone(x)\n    v = torch.view(y, [2, 2])\n    _0 = "
            "torch.copy_(torch.select(v, 0, 1), torch.select(v, 0, 0))\n    return "
            "torch.reshape(v, [4])\n",
       {1, 2, 1, 2}},
      {HEAD "    y = torch.clone(x)\n    z = torch.to(y, 7)\n    _0 = torch.add_(y, 1)\n    return "
            "torch.to(z, 6)\n",
       {1, 2, 3, 4}},
      {HEAD "    y = torch.clone(x)\n    t = torch.contiguous(torch.transpose(torch.view(y, [2, "
            "2]), 0, 1))\n    _0 = torch.add_(y, 1)\n    return torch.reshape(t, [4])\n",
       {1, 3, 2, 4}},
  };
  expect_programs(rows, ARRAY_LEN(rows));
}

// Lists and dictionaries that are changed; a loop that is left where the data says so.
TEST(torch_script_lists_and_breaks) {
  static const Scripted rows[] = {
      {HEAD "    a = [x, torch.add(x, 1), torch.add(x, 2)]\n    b = torch.pop(a, 0)\n    "
            "torch.reverse(a)\n    return torch.sub(a[0], b)\n",
       {2, 2, 2, 2}},
      {HEAD "    a = [x]\n    torch.insert(a, 0, torch.neg(x))\n    c = torch.pop(a)\n    return "
            "torch.add(a[0], torch.mul(c, torch.len(a)))\n",
       {0, 0, 0, 0}},
      {HEAD "    n = torch.sum([1, 2, 3])\n    p = __torch__.Pair(x, n)\n    a, b = p\n"
            "    return torch.mul(a, b)\nclass Pair(NamedTuple):\n  a : Tensor\n  b : int\n",
       {6, 12, 18, 24}},
      {HEAD "    d = {\"p\": x, \"q\": torch.mul(x, 2)}\n    y = torch.pop(d, \"q\")\n    return "
            "torch.mul(y, torch.len(d))\n",
       {2, 4, 6, 8}},
      {HEAD "    t0 = torch.zeros_like(x)\n    i = 0\n    go = True\n    while go:\n      t1 = "
            "torch.add(t0, x)\n      i1 = torch.add(i, 1)\n"
            "      big = bool(torch.gt(torch.sum(t1), 25))\n      go, t0, i = "
            "torch.__and__(torch.lt(i1, 100), torch.__not__(big)), t1, i1\n    return t0\n",
       {3, 6, 9, 12}},
  };
  expect_programs(rows, ARRAY_LEN(rows));
}

TEST(torch_script_nests_too_deep) {
  Diag d;
  Model *m = NULL;
  size_t n = 50000;
  char *code = malloc(2 * n + 200);
  strcpy(code, HEAD "    return ");
  char *at = code + strlen(code);
  memset(at, '(', n);
  at[n] = 'x';
  memset(at + n + 1, ')', n);
  strcpy(at + 2 * n + 1, "\n");
  EXPECT(try_program(code, NULL, &d, &m) == TENON_EFORMAT);
  EXPECT_CONTAINS(d.text, "too deep");
  free(code);
}

// ---- torch.export ----

// The archive with one text in the place of another, in every member; the find must be there.
static Str edited(Arena *a, StrBuf *b, Str bytes, const char *find, const char *put) {
  Diag d;
  Zip z;
  ZipWriter w;
  bool found = false;
  diag_init(&d);
  strbuf_init(b, a);
  EXPECT_STATUS(zip_open(a, bytes, ZIP_LIMITS, &d, &z), TENON_OK);
  zip_begin(&w, a, zip_put_strbuf, b);
  for (int64_t i = 0; i < z.n; i++) {
    Str part;
    EXPECT_STATUS(zip_extract(a, &z, &z.entry[i], &d, &part), TENON_OK);
    const char *text = str_copy(a, part), *at = strstr(text, find);
    if (at && (int64_t)strlen(text) == part.n) {
      found = true;
      part = str_of(str_printf(a, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find)));
    }
    EXPECT_STATUS(zip_add(&w, z.entry[i].name, 1, &part, false, &d), TENON_OK);
  }
  EXPECT_STATUS(zip_end(&w, &d), TENON_OK);
  EXPECT(found);
  return strbuf_str(b);
}

TEST(torch_export_bad) {
  static const struct {
    const char *name, *find, *put;
  } rows[] = {
      {"no JSON", "{\"graph_module\"", "[\"graph_module\""},
      {"no graph", "\"graph\":", "\"grape\":"},
      {"no signature", "\"signature\":", "\"signatore\":"},
      {"nodes are no list", "\"nodes\": [", "\"nodes\": {}, \"other\": ["},
      {"node is no object", "{\"target\": \"torch.ops.aten.sym_size.int\"",
       "3, {\"target\": \"x\""},
      {"no such operator", "torch.ops.aten.mean.dim", "torch.ops.aten.frobnicate.dim"},
      {"no such overload", "torch.ops.aten.mean.dim", "torch.ops.aten.mean.frob"},
      {"no such value", "{\"as_tensor\": {\"name\": \"mean\"}}, \"kind\"",
       "{\"as_tensor\": {\"name\": \"absent\"}}, \"kind\""},
      {"argument of another kind", "{\"as_ints\": [1]}", "{\"as_string\": \"1\"}"},
      {"axis out of range", "{\"as_ints\": [1]}", "{\"as_ints\": [77]}"},
      {"number past int64", "{\"as_ints\": [1]}", "{\"as_ints\": [99999999999999999999]}"},
      {"fraction for a number", "{\"as_ints\": [1]}", "{\"as_ints\": [1.5]}"},
      {"no such weight", "weight_1", "weight_9"},
      {"weight climbs", "weight_1", "../weight_1"},
      {"deep", "{\"as_ints\": [1]}",
       "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
       "[[[[[[["
       "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
       "[[[["},
      {"half a string", "\"outputs\"", "\"outputs"},
      {"half an escape", "\"outputs\"", "\"out\\u12\""},
  };
  Diag d;
  File f;
  diag_init(&d);
  REQUIRE(!file_open(FOLDER "dynamic.pt2", &f, &d));
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    Arena a;
    StrBuf b;
    Model *m = NULL;
    arena_init(&a);
    diag_init(&d);
    Str s = edited(&a, &b, (Str){(const char *)f.bytes, f.size}, rows[i].find, rows[i].put);
    tenon_status st = model_open_memory(s.p, s.n, NULL, NULL, &d, &m);
    if (!st) st = model_need_supported(m, &d);
    if (!st || st == TENON_EINTERNAL || !d.len) FAIL("%s: %s", rows[i].name, status_name(st));
    model_free(m);
    arena_deinit(&a);
  }
  file_close(&f);
}

// ---- damage ----

static void damage(const char *path, int64_t step) {
  Diag d;
  File f;
  Stored s;
  diag_init(&d);
  REQUIRE(stored_archive(&s, FOLDER "loop.npz"));
  REQUIRE(!file_open(path, &f, &d));
  InputType types[2] = {
      {.name = {"0", 1}, .dtype = DT_F32, .rank = 2, .dim = {{.size = 3}, {.size = 4}}},
      {.name = {"1", 1}, .dtype = DT_I64}};
  ModelOptions o = {.types = types, .ntypes = 2, .memory_limit = 64 << 20};
  char *copy = malloc((size_t)f.size);
  for (int64_t i = 0; i < f.size; i += step) {
    Model *m = NULL;
    memcpy(copy, f.bytes, (size_t)f.size);
    copy[i] = (char)(copy[i] ^ 1 << (i % 8));
    diag_init(&d);
    tenon_status st = model_open_memory(copy, f.size, NULL, &o, &d, &m);
    if (st == TENON_EINTERNAL) FAIL("%s: byte %lld: %s", path, (long long)i, d.text);
    model_free(m);
    char *cut = malloc((size_t)i + 1);
    memcpy(cut, f.bytes, (size_t)i);
    m = NULL;
    if (!model_open_memory(cut, i, NULL, &o, &d, &m))
      FAIL("%s: %lld bytes are read", path, (long long)i);
    model_free(m);
    free(cut);
  }
  free(copy);
  file_close(&f);
  stored_free(&s);
}
TEST(torch_damaged_files) {
  damage(FOLDER "loop.pt", 1);
  damage(FOLDER "legacy.pth", 1);
  damage(FOLDER "dynamic.pt2", 7);
}
