// other.c -- names files that no reader takes (other.h).
//
// How:        rows of magic numbers; the fields on the top level of protobuf, which has no magic
// number; words in text.
// Guarantees: looks at no more than the first bytes, the top level of protobuf, and the directory
//             of a zip archive.
#include "frontends/common/other.h"

#include "base/platform.h"
#include "base/zip.h"

#include <stdio.h>

#define TF2ONNX "convert it: python -m tf2onnx.convert"
#define PADDLE                                                                                     \
  "convert it: paddle2onnx --model_dir FOLDER --model_filename FILE --params_filename PARAMS "     \
  "--save_file model.onnx"
#define XGBOOST "convert it in Python: onnxmltools.convert_xgboost"
#define KERAS                                                                                      \
  "convert it in Python: keras.saving.load_model(FILE).export(\"model.onnx\", format=\"onnx\")"
#define SKLEARN                                                                                    \
  "convert it in Python where it is trusted: joblib.load or pickle.load, then "                    \
  "skl2onnx.to_onnx(model, X[:1])"
#define ORIGINAL "give the model that it was made from"

typedef struct OtherFormat {
  const char *is, *todo;
  bool model;  // a model or an archive of one: sound, but not read
} OtherFormat;

static tenon_status refuse(const OtherFormat *f, Diag *d) {
  if (f->model)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "this is %s, which Tenon does not read; %s", f->is,
                f->todo);
  return fail(d, TENON_EFORMAT, NOWHERE, "not an ONNX model (it looks like %s); %s", f->is,
              f->todo);
}

// "300", "10 k", "3.2 M": a number of bytes, as people say it.
typedef struct About {
  char s[24];
} About;
static About about(int64_t n) {
  static const char unit[] = " kMGT";
  About a;
  double x = (double)n;
  int k = 0;
  for (; x >= 1000 && unit[k + 1]; k++) x /= 1000;
  if (k)
    snprintf(a.s, sizeof a.s, x < 9.95 ? "%.1f %c" : "%.0f %c", x, unit[k]);
  else
    snprintf(a.s, sizeof a.s, "%d", (int)n);
  return a;
}

// ---- magic numbers ----

static const struct {
  int at;
  Str bytes;
  OtherFormat format;
} magic[] = {
#define MAGIC(at, bytes, is, todo, model)                                                          \
  {at, {bytes, (int64_t)sizeof bytes - 1}, {is, todo, model}},
#define TEXT(begin, word, is, todo, model)
#include "frontends/common/other.def"
};

static bool find_magic(Str b, OtherFormat *out) {
  for (int64_t i = 0; i < ARRAY_LEN(magic); i++) {
    int64_t at = magic[i].at, n = magic[i].bytes.n;
    if (b.n < at + n || memcmp(b.p + at, magic[i].bytes.p, (size_t)n)) continue;
    *out = magic[i].format;
    return true;
  }
  return false;
}

// ---- protobuf ----

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5, SMALL = 32, SCANNED = 1 << 16 };
typedef struct Proto {
  bool wrong;          // a tag that protobuf does not have
  int64_t cut_at;      // where the field begins that reaches past the end; -1: none does
  int64_t need;        // bytes that the file then has at least; 0: not known
  int8_t type[SMALL];  // of the fields with small numbers; -1: not there
  bool large;          // there is a field from 200 to 3999
  int64_t n;           // fields
  Str first;           // contents of the first field that is bytes
} Proto;

static bool take_varint(Str b, int64_t *at, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 64 && *at < b.n; shift += 7) {
    uint8_t byte = (uint8_t)b.p[(*at)++];
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static void note_field(Proto *p, uint64_t number, int type) {
  p->n++;
  p->large |= number >= 200 && number < 4000;
  if (number >= SMALL) return;
  // Two forms of one field are none.
  p->wrong |= p->type[number] >= 0 && p->type[number] != type;
  p->type[number] = (int8_t)type;
}

static void scan_field(Proto *p, Str b, int64_t *at) {
  int64_t start = *at;
  uint64_t tag, value = 0;
  bool whole = take_varint(b, at, &tag);
  int type = (int)(tag & 7);
  if (whole && (!(tag >> 3) || tag >> 32 ||
                (type != VARINT && type != FIXED64 && type != BYTES && type != FIXED32))) {
    p->wrong = true;
    return;
  }
  if (whole) note_field(p, tag >> 3, type);
  if (whole && (type == VARINT || type == BYTES)) whole = take_varint(b, at, &value);
  uint64_t size = type == BYTES ? value : type == FIXED64 ? 8 : type == FIXED32 ? 4 : 0;
  uint64_t left = (uint64_t)(b.n - *at);
  if (!whole || size > left) {
    p->cut_at = start;
    p->need = whole && size < (uint64_t)INT64_MAX / 2 ? *at + (int64_t)size : 0;
    return;
  }
  if (type == BYTES && !p->first.p) p->first = (Str){b.p + *at, (int64_t)size};
  *at += (int64_t)size;
}

static Proto scan(Str b) {
  Proto p = {.cut_at = -1};
  memset(p.type, -1, sizeof p.type);
  for (int64_t at = 0; at < b.n && !p.wrong && p.cut_at < 0 && p.n < SCANNED;)
    scan_field(&p, b, &at);
  return p;
}

// Fields of ModelProto, and how they are written.
static bool is_onnx_form(const Proto *p) {
  static const int8_t want[SMALL] = {
      [1] = VARINT + 1, [2] = BYTES + 1,  [3] = BYTES + 1,  [4] = BYTES + 1,
      [5] = VARINT + 1, [6] = BYTES + 1,  [7] = BYTES + 1,  [8] = BYTES + 1,
      [14] = BYTES + 1, [20] = BYTES + 1, [25] = BYTES + 1, [26] = BYTES + 1};
  for (int i = 0; i < SMALL; i++)
    if (p->type[i] >= 0 && want[i] && want[i] != p->type[i] + 1) return false;
  return !p->wrong && (p->type[1] >= 0 || p->type[7] >= 0 || p->type[2] >= 0);
}

static tenon_status refuse_cut(Str b, const Proto *p, Diag *d) {
  if (p->need)
    fail(d, TENON_EFORMAT, NOWHERE,
         "the file ends early (%s of about %s bytes): was the download cut off?", about(b.n).s,
         about(p->need).s);
  else
    fail(d, TENON_EFORMAT, NOWHERE,
         "the file ends early (after %s bytes): was the download cut off?", about(b.n).s);
  diag_note(d, "byte %lld: a field reaches past the end of the file", (long long)p->cut_at);
  return TENON_EFORMAT;
}

static bool begins_with(Str s, uint8_t byte) { return s.n && (uint8_t)s.p[0] == byte; }

// Another message than ModelProto, by its top level.
static bool find_proto(const Proto *p, OtherFormat *out) {
  if (p->wrong || !p->n || p->cut_at >= 0) return false;
  bool versioned = p->type[1] == VARINT && p->type[2] == BYTES && p->type[7] < 0;
  if (versioned && p->large)
    *out = (OtherFormat){"a Core ML model (.mlmodel)", ORIGINAL, true};
  else if (versioned && p->type[3] < 0 && p->type[8] < 0 && begins_with(p->first, 0x0a))
    *out = (OtherFormat){"the graph of a TensorFlow SavedModel",
                         TF2ONNX " --saved-model FOLDER --output model.onnx", true};
  else if (p->type[1] == BYTES && p->type[7] < 0 && begins_with(p->first, 0x08))
    *out = (OtherFormat){"a Paddle model", PADDLE, true};
  else if (p->type[1] == BYTES && p->type[7] < 0 && begins_with(p->first, 0x0a))
    *out = (OtherFormat){"a TensorFlow graph (GraphDef)",
                         TF2ONNX " --graphdef FILE --inputs X:0 --outputs Y:0 --output model.onnx",
                         true};
  else if (p->type[7] < 0)
    *out = (OtherFormat){"protobuf of another kind", "it holds no graph of ONNX", false};
  else
    return false;
  return true;
}

// ---- text ----

static bool has_word(Str s, const char *word) {
  int64_t n = (int64_t)strlen(word);
  for (int64_t i = 0; i + n <= s.n; i++)
    if (s.p[i] == *word && !memcmp(s.p + i, word, (size_t)n)) return true;
  return false;
}

static bool is_text(Str s) {
  int64_t n = MIN(s.n, 4096);
  for (int64_t i = 0; i < n; i++) {
    uint8_t c = (uint8_t)s.p[i];
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f') return false;
  }
  while (n && n < s.n && ((uint8_t)s.p[n] & 0xc0) == 0x80) n--;  // no half of a character
  return s.n && str_is_utf8((Str){s.p, n});
}

static bool find_text(Str b, OtherFormat *out) {
  static const struct {
    const char *begin, *word;  // NULL: anything
    OtherFormat format;
  } row[] = {
#define MAGIC(at, bytes, is, todo, model)
#define TEXT(begin, word, is, todo, model) {begin, word, {is, todo, model}},
#include "frontends/common/other.def"
  };
  Str head = {b.p, MIN(b.n, 4096)};
  if (!is_text(b)) return false;
  while (head.n && strchr(" \t\r\n", head.p[0])) head = (Str){head.p + 1, head.n - 1};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    if (!str_starts(head, row[i].begin) || (row[i].word && !has_word(head, row[i].word))) continue;
    *out = row[i].format;
    return true;
  }
  return false;
}

tenon_status other_refuse(Str b, Diag *d) {
  OtherFormat f = {"binary data of an unknown format",
                   "`tenon ops --frontend list` names the formats that are read", false};
  if (!b.n)
    return fail(d, TENON_EFORMAT, NOWHERE, "the file is empty (0 bytes): it holds no graph");
  Proto p = scan(b);
  bool onnx = is_onnx_form(&p);
  if (onnx && p.type[7] >= 0 && p.cut_at < 0) return TENON_OK;
  if (find_magic(b, &f) || find_text(b, &f)) return refuse(&f, d);
  if (onnx && p.cut_at >= 0) return refuse_cut(b, &p, d);
  (void)find_proto(&p, &f);
  return refuse(&f, d);
}

// ---- archives ----

tenon_status other_refuse_cut_zip(Str b, Diag *d) {
  enum { COMMENT = 65535 + 22 };
  if (b.n < 4 || memcmp(b.p, "PK\3\4", 4)) return TENON_OK;
  for (int64_t i = b.n - 22; i >= MAX(0, b.n - COMMENT); i--)
    if (b.p[i] == 'P' && !memcmp(b.p + i, "PK\5\6", 4)) return TENON_OK;
  return fail(d, TENON_EFORMAT, NOWHERE,
              "the file ends early (after %s bytes): the archive has no directory at its end; was "
              "the download cut off?",
              about(b.n).s);
}

static bool has_ending(Str name) {
  static const char *const ending[] = {".onnx", ".tflite",      ".pt2",  ".pt", ".pth",
                                       ".mlir", ".safetensors", ".gguf", ".tir"};
  for (int64_t i = 0; i < ARRAY_LEN(ending); i++)
    if (str_ends(name, ending[i])) return true;
  return false;
}

static tenon_status read_names(Arena *a, Str b, Zip *out) {
  Diag *quiet = arena_new(a, Diag);
  diag_init(quiet);
  return zip_open(a, b, ZIP_LIMITS, quiet, out);
}

static tenon_status refuse_names(Arena *a, Str b, Diag *d) {
  Zip z;
  Str model = {0};
  bool arrays = false, weights = false, core = false;
  if (read_names(a, b, &z)) return TENON_OK;  // the reader of archives says what is wrong
  for (int64_t i = 0; i < z.n; i++) {
    Str name = z.entry[i].name;
    arrays |= str_ends(name, ".npy");
    weights |= str_ends(name, "model.weights.h5");
    core |= str_ends(name, "com.apple.CoreML/model.mlmodel");
    if (!model.n && has_ending(name)) model = name;
  }
  if (arrays || !z.n) return TENON_OK;
  OtherFormat keras = {"a Keras model", KERAS, true},
              package = {"a Core ML package", ORIGINAL, true},
              archive = {"a zip archive", "unpack it and give the model in it", true};
  if (model.n)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "this is a zip archive, which Tenon does not read; unpack it and give '%.*s'",
                STR_ARG(model));
  return refuse(weights ? &keras : core ? &package : &archive, d);
}

tenon_status other_refuse_zip(Str b, Diag *d) {
  Arena a;
  Trap t;
  arena_init(&a);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = refuse_names(&a, b, d);
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}

// ---- folders ----

typedef struct Folder {
  char model[256];  // the first name, by the alphabet, that a reader may take; "": none
  bool saved, package, compiled, paddle, vino, ncnn, config, weights, tfjs;
} Folder;

static void note_name(void *ctx, const char *text) {
  Folder *f = ctx;
  Str name = str_of(text);
  bool weights = str_ends(name, ".safetensors") || str_starts(name, "pytorch_model");
  f->saved |= str_is(name, "saved_model.pb");
  f->package |= str_is(name, "Manifest.json");
  f->compiled |= str_is(name, "coremldata.bin");
  f->paddle |=
      str_ends(name, ".pdmodel") || str_ends(name, ".pdiparams") || str_is(name, "__model__");
  f->vino |= str_ends(name, ".xml");
  f->ncnn |= str_ends(name, ".param");
  f->tfjs |= str_is(name, "model.json");
  f->config |= str_is(name, "config.json");
  f->weights |= weights;
  if (has_ending(name) && !weights && name.n < (int64_t)sizeof f->model &&
      (!*f->model || strcmp(text, f->model) < 0))
    memcpy(f->model, text, (size_t)name.n + 1);
}

tenon_status other_refuse_folder(const char *path, Diag *d) {
  Folder f = {.model = ""};
  if (!strcmp(path, "-") || platform->names(path, note_name, &f)) return TENON_OK;
  Where base = d->base;
  d->base.file = path;
  OtherFormat is =
      f.saved                   ? (OtherFormat){"a TensorFlow SavedModel",
                                                TF2ONNX " --saved-model FOLDER --output model.onnx", true}
      : f.package || f.compiled ? (OtherFormat){"a Core ML model", ORIGINAL, true}
      : f.paddle                ? (OtherFormat){"a Paddle model", PADDLE, true}
      : f.config && f.weights
          ? (OtherFormat){"a checkpoint of Hugging Face's form",
                          "export it: optimum-cli export onnx --model FOLDER OUT", true}
      : f.vino ? (OtherFormat){"an OpenVINO model (IR)", ORIGINAL, true}
      : f.ncnn ? (OtherFormat){"an ncnn model", ORIGINAL, true}
      : f.tfjs ? (OtherFormat){"a TensorFlow.js model",
                               TF2ONNX " --tfjs FOLDER/model.json --output model.onnx", true}
               : (OtherFormat){"a folder", "give the file of the model", true};
  tenon_status s = !*f.model ? refuse(&is, d)
                             : fail(d, TENON_EUNSUPPORTED, NOWHERE,
                                    "this is a folder; give the file '%s' in it", f.model);
  d->base = base;
  return s;
}
