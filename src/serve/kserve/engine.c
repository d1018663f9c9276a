// engine.c -- the process that holds a model (engine.h): opens it, and answers the front's frames.
//
// The model is opened through the public interface alone.  Answers are collected and written when
// no further frame waits, so that small requests share system calls.
#include "serve/kserve/engine.h"

#include "base/budget.h"
#include "base/platform.h"
#include "serve/http_conn.h"
#include "serve/worker.h"

enum { COLLECTED_BYTES = 1 << 18 };

// ---- opening ----
static bool is_program(const char *path) { return str_ends(str_of(path), ".tenon"); }

static PRINTF(3, 4) tenon_status wrong(tenon_error *err, tenon_status s, const char *fmt, ...) {
  Diag d;
  va_list ap;
  diag_init(&d);
  va_start(ap, fmt);
  (void)failv(&d, s, NOWHERE, fmt, ap);
  va_end(ap);
  err->status = s;
  memcpy(err->message, d.text, sizeof err->message);
  return s;
}

static tenon_status compile(const EngineOptions *o, tenon_program **out, tenon_error *err) {
  tenon_open_options open = {.struct_size = sizeof open, .threads = (int32_t)o->threads};
  tenon_options options = {.struct_size = sizeof options,
                           .target = o->target,
                           .threads = (int32_t)o->threads,
                           .batch_invariant = o->batch,
                           .last_use = 1};
  tenon_model *m;
  TRY(tenon_model_open_with(o->path, &open, &m, err));
  tenon_status s = TENON_OK;
  tenon_unsupported u;
  if (!tenon_model_unsupported(m, 0, &u))
    s = wrong(err, TENON_EUNSUPPORTED, "%s: operator %s of node '%s': %s", o->path, u.op, u.node,
              u.why);
  if (!s) s = tenon_compile(m, &options, out, err);
  tenon_model_close(m);
  return s;
}

static tenon_status take_value(Engine *e, const tenon_value_info *v, const char *what, KsValue *out,
                               tenon_error *err) {
  const KsType *type = v->kind == TENON_KIND_TENSOR ? ks_type(v->dtype) : NULL;
  if (!type)
    return wrong(err, TENON_EUNSUPPORTED, "%s '%s' is %s, which KServe's protocol has no type for",
                 what, v->name, v->type);
  *out = (KsValue){.name = str_copy(&e->arena, str_of(v->name)), .type = type, .rank = v->rank};
  for (int k = 0; k < v->rank; k++) out->shape[k] = v->shape[k];
  return TENON_OK;
}

static tenon_status take_signature(Engine *e, tenon_error *err) {
  KsSignature *s = &e->signature;
  tenon_value_info v;
  tenon_program_info info;
  s->ninputs = (int64_t)tenon_program_input_count(e->program);
  s->noutputs = e->noutputs = (int64_t)tenon_program_output_count(e->program);
  s->input = arena_array(&e->arena, KsValue, s->ninputs + 1);
  s->output = arena_array(&e->arena, KsValue, s->noutputs + 1);
  for (int64_t i = 0; i < s->ninputs; i++) {
    TRY(tenon_program_input(e->program, (size_t)i, &v));
    TRY(take_value(e, &v, "input", &s->input[i], err));
  }
  for (int64_t i = 0; i < s->noutputs; i++) {
    TRY(tenon_program_output(e->program, (size_t)i, &v));
    TRY(take_value(e, &v, "output", &s->output[i], err));
  }
  tenon_program_describe(e->program, &info);
  s->target = str_copy(&e->arena, str_of(info.target));
  s->why_not = "";
  return TENON_OK;
}

// What the process has in memory now.
static int64_t resident_bytes(void) {
  char text[128];
  int fd;
  int64_t size, got = 0, pages = 0;
  if (platform->open_read("/proc/self/statm", &fd, &size)) return mem_used();
  if (platform->read(fd, text, sizeof text - 1, &got)) got = 0;
  (void)platform->close(fd);
  text[MAX(got, 0)] = 0;
  const char *p = strchr(text, ' ');
  for (p = p ? p + 1 : ""; *p >= '0' && *p <= '9'; p++) pages = pages * 10 + (*p - '0');
  return pages ? pages * PAGE : mem_used();
}

tenon_status engine_open(Engine *e, const EngineOptions *o, tenon_error *err) {
  tenon_session_options so = {
      .struct_size = sizeof so, .threads = (int32_t)o->threads, .memory_limit = o->memory_limit};
  tenon_load_options lo = {.struct_size = sizeof lo, .target = o->target, .by_name = 1};
  *e = (Engine){0};
  arena_init(&e->arena);
  TRY(is_program(o->path) ? tenon_program_load(o->path, &lo, &e->program, err)
                          : compile(o, &e->program, err));
  TRY(take_signature(e, err));
  TRY(tenon_session_create(e->program, &so, &e->session, err));
  if (o->batch) engine_check_rows(e);
  platform->trim();
  e->signature.bytes = resident_bytes();
  return TENON_OK;
}

void engine_close(Engine *e) {
  tenon_session_release(e->session);
  tenon_program_release(e->program);
  arena_deinit(&e->arena);
}

// ---- running ----
// Elements behind their lengths, as an array of tenon_string.
static tenon_status take_strings(Arena *a, PacketTensor *t, tenon_error *err) {
  int64_t n = 1, at = 0;
  for (int k = 0; k < t->rank; k++)
    if (!ck_mul(n, t->shape[k], &n)) return wrong(err, TENON_EINVAL, "too many elements");
  if (ks_strings_bytes(t->data, t->bytes, n) != t->bytes)
    return wrong(err, TENON_EINVAL, "elements of BYTES do not fit their shape");
  tenon_string *s = arena_array(a, tenon_string, n + 1);
  for (int64_t i = 0; i < n; i++) {
    uint32_t bytes;
    memcpy(&bytes, t->data + at, 4);
    s[i] = (tenon_string){t->data + at + 4, (int64_t)bytes};
    if (!str_is_utf8((Str){s[i].data, s[i].size}))
      return wrong(err, TENON_EINVAL, "element %lld of BYTES is not UTF-8", (long long)i);
    at += 4 + (int64_t)bytes;
  }
  t->data = (const char *)s;
  t->bytes = n * (int64_t)sizeof(tenon_string);
  return TENON_OK;
}

static tenon_status take_inputs(const Engine *e, Arena *a, const Packet *p, tenon_tensor *in,
                                tenon_error *err) {
  for (int64_t i = 0; i < p->n; i++) {
    PacketTensor t = p->tensor[i];
    if (t.index >= e->signature.ninputs)
      return wrong(err, TENON_EINTERNAL, "there is no input %lld", (long long)t.index);
    if (t.dtype == DT_STRING) TRY(take_strings(a, &t, err));
    tenon_tensor *to = &in[t.index];
    *to = (tenon_tensor){
        .data = (void *)(uintptr_t)t.data, .dtype = t.dtype, .rank = t.rank, .bytes = t.bytes};
    for (int k = 0; k < t.rank; k++) to->shape[k] = t.shape[k];
    if (!to->data || !t.bytes) to->data = arena_alloc(a, 1);
  }
  return TENON_OK;
}

tenon_status engine_run(Engine *e, Arena *a, const Packet *p, tenon_tensor *out, tenon_error *err) {
  int64_t nin = e->signature.ninputs;
  tenon_tensor *in = arena_array(a, tenon_tensor, nin + 1);
  size_t *wanted = arena_array(a, size_t, p->nlist + 1);
  if (p->n != nin) return wrong(err, TENON_EINTERNAL, "not every input is there");
  TRY(take_inputs(e, a, p, in, err));
  for (int64_t i = 0; i < p->nlist; i++) wanted[i] = (size_t)p->list[i];
  tenon_run_options o = {.struct_size = sizeof o};
  if (p->nlist) {
    o.wanted = wanted;
    o.nwanted = (size_t)p->nlist;
  }
  memset(out, 0, (size_t)e->noutputs * sizeof *out);
  return tenon_session_run(e->session, in, (size_t)nin, out, (size_t)e->noutputs, &o, err);
}

void engine_release(const Engine *e, tenon_tensor *out) {
  for (int64_t i = 0; i < e->noutputs; i++) tenon_tensor_release(&out[i]);
}

// ---- the process ----
typedef struct EngineProcess {
  Engine e;
  FrameOut out;
} EngineProcess;

static bool say(EngineProcess *p, int type, uint64_t id, Str text) {
  char *to = frame_reserve(&p->out, type, id, text.n);
  if (to) memcpy(to, text.p, (size_t)text.n);
  return to != NULL;
}

static int64_t output_bytes(const tenon_tensor *t) {
  int64_t bytes = tenon_tensor_size(t->dtype, t->rank, t->shape);
  if (t->dtype != DT_STRING) return bytes;
  const tenon_string *s = t->data;
  int64_t n = bytes / (int64_t)sizeof *s, total = 4 * n;
  for (int64_t i = 0; i < n; i++) total += s[i].size;
  return total;
}

static void put_output(char *to, const tenon_tensor *t, int64_t bytes) {
  const tenon_string *s = t->data;
  if (t->dtype != DT_STRING) {
    if (bytes) memcpy(to, t->data, (size_t)bytes);
    return;
  }
  int64_t n = tenon_tensor_size(t->dtype, t->rank, t->shape) / (int64_t)sizeof *s;
  for (int64_t i = 0; i < n; i++) {
    uint32_t size = (uint32_t)s[i].size;
    memcpy(to, &size, 4);
    memcpy(to + 4, s[i].data, (size_t)size);
    to += 4 + (int64_t)size;
  }
}

static bool is_wanted(const Packet *in, int64_t i) {
  for (int64_t k = 0; k < in->nlist; k++)
    if (in->list[k] == i) return true;
  return !in->nlist;
}

static bool answer(EngineProcess *p, Arena *a, uint64_t id, const Packet *in, tenon_tensor *out,
                   int64_t ns) {
  Packet r = {.ns = ns, .tensor = arena_array(a, PacketTensor, p->e.noutputs + 1)};
  char **data = arena_array(a, char *, p->e.noutputs + 1);
  for (int64_t i = 0; i < p->e.noutputs; i++) {
    PacketTensor *t = &r.tensor[r.n];
    if (!is_wanted(in, i)) continue;
    *t = (PacketTensor){.index = i, .dtype = out[i].dtype, .rank = out[i].rank};
    for (int k = 0; k < t->rank; k++) t->shape[k] = out[i].shape[k];
    t->bytes = output_bytes(&out[i]);
    r.n++;
  }
  char *to = frame_reserve(&p->out, ENGINE_DONE, id, packet_bytes(&r));
  if (!to) return false;
  packet_write(to, &r, data);
  for (int64_t i = 0; i < r.n; i++) put_output(data[i], &out[r.tensor[i].index], r.tensor[i].bytes);
  return true;
}

static tenon_status run_frame(EngineProcess *p, Arena *a, uint64_t id, Str payload, Diag *d) {
  Packet in;
  tenon_error err = {0};
  TRY(packet_read(a, payload, &in, d));
  tenon_tensor *out = arena_array(a, tenon_tensor, p->e.noutputs + 1);
  int64_t began = platform->now();
  tenon_status s = engine_run(&p->e, a, &in, out, &err);
  // Some errors of a device end its context, and no run of this process goes well any more. Whether
  // it was one of them, the same run tells; if so, the process ends and is started again.
  if (s == TENON_EDEVICE) s = engine_run(&p->e, a, &in, out, &err);
  if (s) return fail(d, s, NOWHERE, "%s", err.message);
  bool ok = answer(p, a, id, &in, out, platform->now() - began);
  engine_release(&p->e, out);
  return ok ? TENON_OK
            : fail(d, TENON_ENOMEM, NOWHERE,
                   "the outputs are too large, or there is no memory for them");
}

// A status as the first byte, so that the front tells whose fault it was.
static bool say_error(EngineProcess *p, uint64_t id, const Diag *d) {
  char *to = frame_reserve(&p->out, ENGINE_ERROR, id, 1 + d->len);
  if (!to) return false;
  to[0] = (char)d->status;
  memcpy(to + 1, d->text, (size_t)d->len);
  return true;
}

// False: the process is to end.
static bool serve_frame(EngineProcess *p, uint64_t id, Str payload) {
  Arena a;
  Diag d;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = run_frame(p, &a, id, payload, &d);
  trap_leave(&t);
  arena_deinit(&a);
  if (!t.status) return true;
  if (t.status != TENON_EDEVICE) return say_error(p, id, &d);
  if (say_error(p, id, &d)) (void)frame_flush(&p->out);
  return false;
}

static void serve_frames(EngineProcess *p) {
  FrameIn in = {0};
  Frame f;
  Str payload;
  for (;;) {
    int r = frame_next(&in, frame_waiting(&p->out) ? 0 : -1, &f, &payload);
    if (r < 0) return;
    if (r && (f.type != ENGINE_RUN || !serve_frame(p, f.id, payload))) return;
    if ((!r || frame_waiting(&p->out) > COLLECTED_BYTES) && !frame_flush(&p->out)) return;
  }
}

static bool option(const char *arg, const char *name, const char **value) {
  size_t n = strlen(name);
  if (strncmp(arg, name, n)) return false;
  *value = arg + n;
  return true;
}

static EngineOptions read_options(int argc, char **argv) {
  EngineOptions o = {.path = argc ? argv[0] : ""};
  const char *v;
  for (int i = 1; i < argc; i++) {
    if (option(argv[i], "--target=", &v)) o.target = *v ? v : NULL;
    if (option(argv[i], "--threads=", &v)) (void)str_to_i64(str_of(v), &o.threads);
    if (option(argv[i], "--memory-limit=", &v)) (void)str_to_i64(str_of(v), &o.memory_limit);
    if (option(argv[i], "--batch=", &v)) o.batch = *v == '1';
  }
  return o;
}

static tenon_status open_and_say(EngineProcess *p, const EngineOptions *o) {
  static tenon_error err;
  StrBuf text;
  JsonWriter w;
  tenon_status s = engine_open(&p->e, o, &err);
  if (s) {
    (void)say(p, ENGINE_FAILED, 0, str_of(err.message));
    return s;
  }
  strbuf_init(&text, &p->e.arena);
  json_init(&w, &text, true);
  ks_signature_write(&w, &p->e.signature);
  return say(p, ENGINE_READY, 0, strbuf_str(&text)) ? TENON_OK : TENON_ENOMEM;
}

int engine_work(int argc, char **argv) {
  static EngineProcess p;
  EngineOptions o = read_options(argc, argv);
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = open_and_say(&p, &o);
  trap_leave(&t);
  if (t.status && d.len) (void)say(&p, ENGINE_FAILED, 0, (Str){d.text, d.len});
  if (frame_flush(&p.out) && !t.status) serve_frames(&p);
  engine_close(&p.e);
  return t.status ? 1 : 0;
}
