// frame.c -- writes and reads the frames of workers (frame.h).
//
// Needs:      tasks and times within the limits of frame.h.
// Guarantees: what is written is read as the same frame, and writing that gives the same bytes.
//             Of what is read every number is in its range, every index in its table, and a
//             PackSpec reaches no element outside its tensor.
#include "tune/frame.h"

#include "base/crc.h"
#include "base/json.h"

static const char magic[4] = {'T', 'N', 'W', 'K'};
enum { CACHE_MIN = 1 << 10, CACHE_MAX = 1 << 30, MILLISECONDS_MAX = 600 * 1000 };

int64_t frame_most(int kind) {
  return kind == FRAME_HELLO   ? 1 << 14
         : kind == FRAME_TASK  ? 1 << 24
         : kind == FRAME_TIMES ? 1 << 18
                               : 0;
}

// ---- headers ----

static void put_u32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t get_u32(const uint8_t *p) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) v |= (uint32_t)p[i] << 8 * i;
  return v;
}

void frame_seal(int kind, Str object, StrBuf *out) {
  uint8_t h[FRAME_HEADER] = {0};
  memcpy(h, magic, sizeof magic);
  h[4] = FRAME_VERSION;
  h[5] = (uint8_t)kind;
  put_u32(h + 8, (uint32_t)object.n);
  put_u32(h + 12, crc32c(0, object.p, object.n));
  strbuf_put(out, (Str){(const char *)h, sizeof h});
  strbuf_put(out, object);
}

bool frame_header(const uint8_t in[FRAME_HEADER], int *kind, int64_t *bytes, uint32_t *crc) {
  if (memcmp(in, magic, sizeof magic) || in[4] != FRAME_VERSION || in[6] || in[7]) return false;
  *kind = in[5];
  *bytes = get_u32(in + 8);
  *crc = get_u32(in + 12);
  return *bytes <= frame_most(*kind) && *bytes > 0;
}

// ---- writing ----

static void begin(JsonWriter *w, StrBuf *b) {
  json_init(w, b, true);
  json_begin_object(w);
}

static void put_int(JsonWriter *w, const char *key, int64_t v) {
  json_key(w, key);
  json_i64(w, v);
}

static void put_bool(JsonWriter *w, const char *key, bool v) {
  json_key(w, key);
  json_bool(w, v);
}

static void put_text(JsonWriter *w, const char *key, const char *text) {
  json_key(w, key);
  json_cstr(w, text);
}

static void put_ints(JsonWriter *w, const char *key, const int64_t *v, int64_t n) {
  if (key) json_key(w, key);
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) json_i64(w, v[i]);
  json_end_array(w);
}

void frame_put_hello(const FrameHello *h, StrBuf *out) {
  JsonWriter w;
  const Machine *m = &h->machine;
  begin(&w, out);
  put_text(&w, "tool", h->tool);
  put_text(&w, "triple", m->triple);
  put_text(&w, "cpu", m->cpu);
  put_text(&w, "features", m->features);
  put_int(&w, "l1", m->l1_bytes);
  put_int(&w, "l2", m->l2_bytes);
  put_int(&w, "l3", m->l3_bytes);
  json_end_object(&w);
}

static void put_hex(JsonWriter *w, Str bytes) {
  static const char digit[] = "0123456789abcdef";
  char text[2 * FRAME_GIVEN];
  for (int64_t i = 0; i < bytes.n; i++) {
    text[2 * i] = digit[(uint8_t)bytes.p[i] >> 4];
    text[2 * i + 1] = digit[(uint8_t)bytes.p[i] & 15];
  }
  json_key(w, "bytes");
  json_str(w, (Str){text, 2 * bytes.n});
}

static void put_pack(JsonWriter *w, const PackSpec *p) {
  json_key(w, "pack");
  json_begin_object(w);
  put_ints(w, "extent", p->extent, p->nloops);
  put_ints(w, "limit", p->limit, p->ncoords);
  put_ints(w, "stride", p->stride, p->ncoords);
  json_key(w, "coef");
  json_begin_array(w);
  for (int i = 0; i < p->ncoords; i++) put_ints(w, NULL, p->coef[i], p->nloops);
  json_end_array(w);
  put_int(w, "words", p->words);
  put_int(w, "flip", p->flip);
  json_key(w, "transform");
  json_begin_array(w);
  for (int i = 0; i < p->points; i++)
    for (int k = 0; k < PACK_TAPS; k++) json_f64(w, p->transform[i][k]);
  json_end_array(w);
  json_end_object(w);
}

static void put_kernel(JsonWriter *w, const FrameKernel *k) {
  json_begin_object(w);
  json_key(w, "text");
  json_str(w, k->text);
  put_ints(w, "dims", k->dim, k->ndims);
  json_key(w, "args");
  json_begin_array(w);
  for (int64_t i = 0; i < k->nargs; i++) {
    const FrameArg *x = &k->arg[i];
    json_begin_object(w);
    put_int(w, x->result ? "result" : "tensor", x->index);
    if (x->packed) put_pack(w, &x->pack);
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

void frame_put_task(const FrameTask *t, StrBuf *out) {
  JsonWriter w;
  begin(&w, out);
  put_int(&w, "task", t->seq);
  put_bool(&w, "quick", t->quick);
  put_bool(&w, "drop", t->drop);
  put_int(&w, "rounds", t->rounds);
  put_int(&w, "milliseconds", t->milliseconds);
  put_int(&w, "cold", t->cold_bytes);
  json_key(&w, "tensors");
  json_begin_array(&w);
  for (int64_t i = 0; i < t->ntensors; i++) {
    const FrameTensor *x = &t->tensor[i];
    json_begin_object(&w);
    put_text(&w, "dtype", dtype_name(x->dtype));
    put_int(&w, "n", x->n);
    put_bool(&w, "weight", x->weight);
    if (x->bytes.n) put_hex(&w, x->bytes);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "kernels");
  json_begin_array(&w);
  for (int64_t i = 0; i < t->nkernels; i++) put_kernel(&w, &t->kernel[i]);
  json_end_array(&w);
  json_end_object(&w);
}

void frame_put_times(const FrameTimes *t, StrBuf *out) {
  JsonWriter w;
  begin(&w, out);
  put_int(&w, "task", t->seq);
  json_key(&w, "kernels");
  json_begin_array(&w);
  for (int64_t i = 0; i < t->n; i++) {
    const FrameTime *x = &t->time[i];
    json_begin_object(&w);
    put_text(&w, "status", trial_status_name[x->status]);
    put_text(&w, "why", x->why);
    put_text(&w, "hash", x->hash);
    put_int(&w, "code_bytes", x->code_bytes);
    put_ints(&w, "ns", x->ns, x->n);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
}

// ---- reading ----

static tenon_status wrong(Diag *d, const char *what) {
  return fail(d, TENON_EFORMAT, NOWHERE, "a frame with a wrong %s", what);
}

static bool get_int(const Json *j, const char *key, int64_t lo, int64_t hi, int64_t *out) {
  const Json *v = json_get(j, key);
  *out = v && v->kind == JSON_INT ? v->i : 0;
  return v && v->kind == JSON_INT && v->i >= lo && v->i <= hi;
}

static bool get_bool(const Json *j, const char *key, bool *out) {
  const Json *v = json_get(j, key);
  *out = v && v->b;
  return v && v->kind == JSON_BOOL;
}

// Printable characters, so that it is a C string and a message may have it.
static bool get_text(const Json *j, const char *key, int64_t most, Arena *a, const char **out) {
  const Json *v = json_get(j, key);
  *out = "";
  if (!v || v->kind != JSON_STRING || v->s.n >= most) return false;
  for (int64_t i = 0; i < v->s.n; i++)
    if (v->s.p[i] < ' ' || v->s.p[i] > '~') return false;
  *out = str_copy(a, v->s);
  return true;
}

static const Json *get_array(const Json *j, const char *key, int64_t most) {
  const Json *v = json_get(j, key);
  return v && v->kind == JSON_ARRAY && v->n <= most ? v : NULL;
}

static bool read_ints(const Json *v, int64_t n, int64_t *out) {
  if (!v || v->kind != JSON_ARRAY || v->n != n) return false;
  for (int64_t i = 0; i < n; i++) {
    if (v->item[i].kind != JSON_INT) return false;
    out[i] = v->item[i].i;
  }
  return true;
}

tenon_status frame_get_hello(Str object, Arena *a, Diag *d, FrameHello *out) {
  Json j;
  const char *triple, *cpu, *features;
  int64_t l1, l2, l3;
  TRY(json_parse(a, object, d, &j));
  if (!get_text(&j, "tool", FRAME_WORD, a, &out->tool)) return wrong(d, "tool");
  if (!get_text(&j, "triple", FRAME_WORD, a, &triple) ||
      !get_text(&j, "cpu", FRAME_WORD, a, &cpu) ||
      !get_text(&j, "features", FRAME_WORD, a, &features) ||
      !get_int(&j, "l1", CACHE_MIN, CACHE_MAX, &l1) ||
      !get_int(&j, "l2", CACHE_MIN, CACHE_MAX, &l2) || !get_int(&j, "l3", 0, INT64_MAX, &l3))
    return wrong(d, "machine");
  TRY(machine_make(str_of(triple), str_of(cpu), str_of(features), &out->machine, d));
  out->machine.l1_bytes = l1;
  out->machine.l2_bytes = l2;
  out->machine.l3_bytes = l3;
  return TENON_OK;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const Json *v, int64_t bytes, Arena *a, Str *out) {
  if (v->kind != JSON_STRING || bytes > FRAME_GIVEN || v->s.n != 2 * bytes) return false;
  char *p = arena_array(a, char, bytes + 1);
  for (int64_t i = 0; i < bytes; i++) {
    int hi = hex_digit(v->s.p[2 * i]), lo = hex_digit(v->s.p[2 * i + 1]);
    if (hi < 0 || lo < 0) return false;
    p[i] = (char)(hi << 4 | lo);
  }
  *out = (Str){p, bytes};
  return true;
}

static bool is_real(DType t) { return dtype_is_float(t) || dtype_is_int(t) || t == DT_BOOL; }

static bool read_tensor(const Json *j, Arena *a, FrameTensor *t) {
  const char *name;
  int64_t bytes;
  if (!get_text(j, "dtype", FRAME_WORD, a, &name) || !dtype_parse(str_of(name), &t->dtype) ||
      !is_real(t->dtype) || !get_int(j, "n", 0, FRAME_TENSOR_MAX, &t->n) ||
      !get_bool(j, "weight", &t->weight) || !dtype_bytes(t->dtype, t->n, &bytes) ||
      bytes > FRAME_TENSOR_MAX)
    return false;
  const Json *given = json_get(j, "bytes");
  return !given || (bytes > 0 && read_hex(given, bytes, a, &t->bytes));
}

// Coordinates stay so small that no sum of products with strides leaves 64 bits.
static bool coordinate_is_small(const PackSpec *p, int j) {
  const int64_t most = 1 << 27;
  int64_t span = 0, part;
  for (int k = 0; k < p->nloops; k++) {
    int64_t coef = p->coef[j][k];
    if (coef < -most || coef > most || !ck_mul(coef < 0 ? -coef : coef, p->extent[k], &part) ||
        !ck_add(span, part, &span))
      return false;
  }
  return span <= 2 * most;
}

// Whether the constant has at most FRAME_TENSOR_MAX elements and every coordinate that is inside
// its limit is an element of a tensor of n.
static bool pack_is_inside(const PackSpec *p, int64_t n) {
  int64_t count = 1, last = 0, part;
  for (int i = 0; i < p->nloops; i++)
    if (p->extent[i] < 1 || !ck_mul(count, p->extent[i], &count) || count > FRAME_TENSOR_MAX)
      return false;
  for (int i = 0; i < p->ncoords; i++)
    if (p->limit[i] < 1 || p->stride[i] < 0 || p->stride[i] > FRAME_TENSOR_MAX ||
        !ck_mul(p->limit[i] - 1, p->stride[i], &part) || !ck_add(last, part, &last) || last >= n ||
        !coordinate_is_small(p, i))
      return false;
  return last < n;
}

static bool read_transform(const Json *v, PackSpec *p) {
  if (!v || v->kind != JSON_ARRAY || v->n % PACK_TAPS || v->n > PACK_POINTS * PACK_TAPS)
    return false;
  p->points = (int)(v->n / PACK_TAPS);
  for (int64_t i = 0; i < v->n; i++) {
    if (v->item[i].kind != JSON_INT && v->item[i].kind != JSON_FLOAT) return false;
    p->transform[i / PACK_TAPS][i % PACK_TAPS] = v->item[i].f;
  }
  return true;
}

// A transform takes the first two coordinates for taps and loops 1 and 2 for points (lower.h): it
// walks along neither.
static bool transform_fits(const PackSpec *p, DType t) {
  if (!p->points) return true;
  bool fits = t == DT_F32 && p->ncoords >= 2 && p->nloops >= 4 && p->extent[1] == p->points &&
              p->extent[2] == p->points && p->limit[0] == PACK_TAPS && p->limit[1] == PACK_TAPS &&
              !p->words && !p->flip;
  for (int j = 0; j < p->ncoords; j++) {
    fits = fits && !p->coef[j][1] && !p->coef[j][2];
    for (int k = 0; j < 2 && k < p->nloops; k++) fits = fits && !p->coef[j][k];
  }
  return fits;
}

static bool read_pack(const Json *j, const FrameTensor *t, PackSpec *p) {
  const Json *extent = get_array(j, "extent", PACK_LOOPS),
             *coef = get_array(j, "coef", PACK_COORDS);
  int64_t words, flip;
  memset(p, 0, sizeof *p);
  if (!extent || !extent->n || !coef || !get_int(j, "words", 0, 1, &words) ||
      !get_int(j, "flip", 0, 255, &flip) || !read_transform(json_get(j, "transform"), p))
    return false;
  p->nloops = (int)extent->n;
  p->ncoords = (int)coef->n;
  p->words = (int)words;
  p->flip = (uint8_t)flip;
  if (!read_ints(extent, p->nloops, p->extent) ||
      !read_ints(json_get(j, "limit"), p->ncoords, p->limit) ||
      !read_ints(json_get(j, "stride"), p->ncoords, p->stride))
    return false;
  for (int i = 0; i < p->ncoords; i++)
    if (!read_ints(&coef->item[i], p->nloops, p->coef[i])) return false;
  // Elements narrower than a byte are never packed, and words hold whole elements.
  int64_t width = elem_bytes(t->dtype), row;
  if (width < 1 || (words && (!ck_mul(p->extent[p->nloops - 1], width, &row) || row != 4)))
    return false;
  return pack_is_inside(p, t->n) && transform_fits(p, t->dtype);
}

static bool read_arg(const Json *j, const FrameTask *t, FrameArg *x) {
  int64_t at;
  x->result = json_get(j, "result") != NULL;
  if (!get_int(j, x->result ? "result" : "tensor", 0, x->result ? FRAME_ARGS : t->ntensors - 1,
               &at))
    return false;
  x->index = (int32_t)at;
  const Json *pack = json_get(j, "pack");
  x->packed = pack != NULL;
  return !pack || (!x->result && read_pack(pack, &t->tensor[at], &x->pack));
}

static bool read_kernel(const Json *j, const FrameTask *t, Arena *a, FrameKernel *k) {
  const Json *text = json_get(j, "text"), *dims = get_array(j, "dims", FRAME_DIMS),
             *args = get_array(j, "args", FRAME_ARGS);
  if (!text || text->kind != JSON_STRING || !dims || !args) return false;
  k->text = text->s;
  k->ndims = dims->n;
  k->nargs = args->n;
  k->dim = arena_array(a, int64_t, k->ndims + 1);
  k->arg = arena_array(a, FrameArg, k->nargs + 1);
  for (int64_t i = 0; i < args->n; i++)
    if (!read_arg(&args->item[i], t, &k->arg[i])) return false;
  return read_ints(dims, k->ndims, k->dim);
}

tenon_status frame_get_task(Str object, Arena *a, Diag *d, FrameTask *out) {
  Json j;
  *out = (FrameTask){0};
  TRY(json_parse(a, object, d, &j));
  const Json *tensors = get_array(&j, "tensors", FRAME_TENSORS),
             *kernels = get_array(&j, "kernels", FRAME_KERNELS);
  if (!get_int(&j, "task", 0, INT64_MAX, &out->seq) || !get_bool(&j, "quick", &out->quick) ||
      !get_bool(&j, "drop", &out->drop) || !get_int(&j, "rounds", 0, TRIAL_SAMPLES, &out->rounds) ||
      !get_int(&j, "milliseconds", 0, MILLISECONDS_MAX, &out->milliseconds) ||
      !get_int(&j, "cold", 0, 2 * (int64_t)CACHE_MAX, &out->cold_bytes))
    return wrong(d, "number");
  if (!tensors || !kernels || !kernels->n) return wrong(d, "list");
  out->tensor = arena_array(a, FrameTensor, tensors->n + 1);
  out->kernel = arena_array(a, FrameKernel, kernels->n);
  for (; out->ntensors < tensors->n; out->ntensors++)
    if (!read_tensor(&tensors->item[out->ntensors], a, &out->tensor[out->ntensors]))
      return wrong(d, "tensor");
  for (; out->nkernels < kernels->n; out->nkernels++)
    if (!read_kernel(&kernels->item[out->nkernels], out, a, &out->kernel[out->nkernels]))
      return wrong(d, "kernel");
  return TENON_OK;
}

static bool is_hash(const char *s) {
  return !*s || (strlen(s) == FRAME_HASH && strspn(s, "0123456789abcdef") == FRAME_HASH);
}

static bool read_time(const Json *j, Arena *a, FrameTime *t) {
  const char *status;
  const Json *ns = get_array(j, "ns", TRIAL_SAMPLES);
  if (!get_text(j, "status", FRAME_WORD, a, &status) ||
      !get_text(j, "why", FRAME_WORD, a, &t->why) ||
      !get_text(j, "hash", FRAME_WORD, a, &t->hash) || !is_hash(t->hash) ||
      !get_int(j, "code_bytes", 0, INT32_MAX, &t->code_bytes) || !ns ||
      !read_ints(ns, ns->n, t->ns))
    return false;
  t->n = (int)ns->n;
  for (int i = 0; i < t->n; i++)
    if (t->ns[i] <= 0) return false;
  for (int i = 0; i < TRIAL_STATUSES; i++)
    if (!strcmp(status, trial_status_name[i])) {
      t->status = (uint8_t)i;
      return i == TRIAL_FAILED || *t->hash;
    }
  return false;
}

tenon_status frame_get_times(Str object, Arena *a, Diag *d, FrameTimes *out) {
  Json j;
  *out = (FrameTimes){0};
  TRY(json_parse(a, object, d, &j));
  const Json *kernels = get_array(&j, "kernels", FRAME_KERNELS);
  if (!get_int(&j, "task", 0, INT64_MAX, &out->seq)) return wrong(d, "number");
  if (!kernels) return wrong(d, "list");
  out->time = arena_array(a, FrameTime, kernels->n + 1);
  for (; out->n < kernels->n; out->n++)
    if (!read_time(&kernels->item[out->n], a, &out->time[out->n])) return wrong(d, "time");
  return TENON_OK;
}
