// llm_engine.c -- a language model in a process of its own: frames in, steps, events out.
//
// Between two steps it takes all frames that are there, so a cancelled request computes at most one
// more step.  Events of a step go out together.
#include "serve/llm/llm_engine.h"

#include "base/num.h"
#include "base/platform.h"

enum {
  COUNTS_NS = 100000000,
  STEP_FAILURES = 3  // one after the other, before the process ends and is started again
};

// ---- events ----
static LlmPiece piece_of(const LlmEngine *e, int32_t token, float logprob) {
  tenon_llm_token t;
  tenon_error err;
  if (token < 0 || tenon_llm_piece(e->llm, token, &t, &err)) t = (tenon_llm_token){.bytes = ""};
  return (LlmPiece){token, logprob, {t.bytes, (int64_t)t.size}};
}

static bool send_event(LlmEngine *e, const tenon_llm_event *from) {
  static LlmEvent to;
  LlmJob *job = from->user;
  to.kind = (int32_t)from->kind;
  to.finish = (int32_t)from->finish;
  to.position = from->position;
  to.text = (Str){from->text_size ? from->text : "", (int64_t)from->text_size};
  to.vector = from->vector;
  to.nvector = (int64_t)from->nvector;
  to.npieces = 0;
  if (job->pieces && from->token >= 0) {
    to.piece[to.npieces++] = piece_of(e, from->token, from->logprob);
    for (size_t i = 0; i < from->ntop && i < LLM_TOP; i++)
      to.piece[to.npieces++] = piece_of(e, from->top[i].token, from->top[i].logprob);
  }
  char *p = frame_reserve(&e->out, LLM_EVENT, job->frame, llm_event_bytes(&to));
  if (!p) return false;
  llm_event_write(p, &to);
  if (from->finish) {
    llm_form_leave(e, job->form, job->state);
    *job = (LlmJob){0};
  }
  return true;
}

static bool send_counts(LlmEngine *e, bool now) {
  tenon_llm_counts c;
  int64_t at = platform->now();
  if (!now && at - e->counted < COUNTS_NS) return true;
  tenon_llm_stats(e->llm, &c);
  if (!memcmp(&c, &e->counts, sizeof c)) return true;
  e->counts = c;
  e->counted = at;
  return frame_put(&e->out, LLM_COUNTS, 0, (Str){(const char *)&c, sizeof c});
}

static bool step(LlmEngine *e, int *failures) {
  const tenon_llm_event *event;
  size_t n;
  tenon_error err;
  if (tenon_llm_step(e->llm, &event, &n, &err)) {
    (void)fd_write(2, err.message, (int64_t)strlen(err.message));
    (void)fd_write(2, "\n", 1);
    return ++*failures < STEP_FAILURES;
  }
  *failures = 0;
  for (size_t i = 0; i < n; i++)
    if (!send_event(e, &event[i])) return false;
  return true;
}

// ---- frames ----
static bool say_error(LlmEngine *e, uint64_t frame, const Diag *d) {
  char *to = frame_reserve(&e->out, LLM_ERROR, frame, 1 + d->len);
  if (!to) return false;
  to[0] = (char)d->status;
  memcpy(to + 1, d->text, (size_t)d->len);
  return true;
}

static bool take_ask(LlmEngine *e, uint64_t frame, Str payload) {
  Arena a;
  Diag d;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = llm_ask(e, frame, payload, &a, &d);
  trap_leave(&t);
  arena_deinit(&a);
  return !t.status || say_error(e, frame, &d);
}

static void cancel(LlmEngine *e, uint64_t frame) {
  tenon_error err;
  for (int64_t i = 0; i < e->njobs; i++)
    if (e->job[i].frame == frame) (void)tenon_llm_cancel(e->llm, e->job[i].id, &err);
}

static bool take_frame(LlmEngine *e, const Frame *f, Str payload) {
  if (f->type == LLM_ASK) return take_ask(e, f->id, payload);
  if (f->type != LLM_CANCEL) return false;
  cancel(e, f->id);
  return true;
}

static void serve_frames(LlmEngine *e) {
  FrameIn in = {0};
  Frame f;
  Str payload;
  int failures = 0;
  for (;;) {
    int busy = tenon_llm_busy(e->llm), r;
    while ((r = frame_next(&in, busy || frame_waiting(&e->out) ? 0 : -1, &f, &payload)) > 0) {
      if (!take_frame(e, &f, payload)) return;
      busy = tenon_llm_busy(e->llm);
    }
    if (r < 0 || (busy && !step(e, &failures)) || !send_counts(e, !tenon_llm_busy(e->llm)) ||
        !frame_flush(&e->out))
      return;
  }
}

// ---- the process ----
static bool option(const char *arg, const char *name, int32_t *out) {
  int64_t v, n = (int64_t)strlen(name);
  if (strncmp(arg, name, (size_t)n) || !str_to_i64(str_of(arg + n), &v)) return false;
  *out = (int32_t)MIN(v, INT32_MAX);
  return true;
}

static tenon_llm_options read_options(int argc, char **argv) {
  tenon_llm_options o = {.struct_size = sizeof o, .embed = 1};
  for (int i = 1; i < argc; i++) {
    (void)(option(argv[i], "--threads=", &o.threads) || option(argv[i], "--context=", &o.context) ||
           option(argv[i], "--sequences=", &o.sequences) ||
           option(argv[i], "--adapters=", &o.adapters) ||
           option(argv[i], "--adapter-rank=", &o.adapter_rank));
    if (!strncmp(argv[i], "--target=", 9) && argv[i][9]) o.target = argv[i] + 9;
    if (!strncmp(argv[i], "--memory=", 9)) (void)str_to_i64(str_of(argv[i] + 9), &o.memory_limit);
    if (!strcmp(argv[i], "--kv=f16")) o.kv_dtype = DT_F16;
    if (!strcmp(argv[i], "--kv=bf16")) o.kv_dtype = DT_BF16;
  }
  if (!o.sequences) o.sequences = 8;
  // A request that a stop text ended keeps its place for one more step: twice as many places.
  o.requests = 4 * o.sequences;
  return o;
}

static LlmAbout about(const LlmEngine *e, const tenon_llm_options *o) {
  tenon_llm_bytes bytes;
  tenon_llm_memory(e->llm, &bytes);
  return (LlmAbout){.architecture = e->info.architecture,
                    .fingerprint = tenon_version(),
                    .context = e->info.context,
                    .vocabulary = e->info.vocabulary,
                    .sequences = o->sequences,
                    .requests = o->requests / 2,
                    .embedding = e->info.embedding,
                    .scores = e->info.scores,
                    .bytes = bytes.total + bytes.weights,
                    .layers = e->info.layers,
                    .chat = e->info.has_chat != 0,
                    .encoder = e->info.is_encoder != 0};
}

// --adapter=NAME=PATH
static tenon_status load_adapters(LlmEngine *e, int argc, char **argv, Arena *a, tenon_error *err) {
  for (int i = 1; i < argc; i++) {
    const char *mark = strncmp(argv[i], "--adapter=", 10) ? NULL : strchr(argv[i] + 10, '=');
    if (!mark) continue;
    const char *name = str_copy(a, (Str){argv[i] + 10, mark - argv[i] - 10});
    TRY(tenon_llm_load_adapter(e->llm, name, mark + 1, 0, err));
  }
  return TENON_OK;
}

static tenon_status open_and_say(LlmEngine *e, int argc, char **argv, const tenon_llm_options *o,
                                 Arena *a) {
  tenon_error err = {0};
  StrBuf text;
  JsonWriter w;
  tenon_status s = tenon_llm_open(argc ? argv[0] : "", o, &e->llm, &err);
  if (!s) s = load_adapters(e, argc, argv, a, &err);
  if (s) {
    (void)frame_put(&e->out, LLM_FAILED, 0, str_of(err.message));
    return s;
  }
  tenon_llm_describe(e->llm, &e->info);
  e->njobs = o->requests;
  e->job = arena_array(a, LlmJob, e->njobs);
  LlmAbout m = about(e, o);
  strbuf_init(&text, a);
  json_init(&w, &text, true);
  llm_about_write(&w, &m);
  return frame_put(&e->out, LLM_READY, 0, strbuf_str(&text)) ? TENON_OK : TENON_ENOMEM;
}

int llm_engine_work(int argc, char **argv) {
  static LlmEngine e;
  tenon_llm_options o = read_options(argc, argv);
  Arena a;
  Diag d;
  Trap t;
  arena_init(&a);
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = open_and_say(&e, argc, argv, &o, &a);
  trap_leave(&t);
  if (t.status && d.len) (void)frame_put(&e.out, LLM_FAILED, 0, (Str){d.text, d.len});
  if (frame_flush(&e.out) && !t.status) serve_frames(&e);
  tenon_llm_close(e.llm);
  llm_forms_free(&e);
  arena_deinit(&a);
  return t.status ? 1 : 0;
}
