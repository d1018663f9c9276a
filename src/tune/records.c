// records.c -- reads and writes JSON Lines of runs (records.h).
//
// Needs:      trials and runs that record_check accepts.
// Guarantees: what is written is read as the same records, and writing those gives the same bytes.
//             Every number and text that is read is in its range, every workload a trial names is
//             there, and its text has its key.
#include "tune/records.h"

#include "base/json.h"
#include "lower/workload.h"

enum { LINE_MAX_BYTES = RECORD_TEXT_MAX * 2, KEYS_MAX = 1 << 19 };

// ---- checks ----

static bool is_key(const char *s) {
  return strlen(s) == WORKLOAD_KEY && strspn(s, "0123456789abcdef") == WORKLOAD_KEY;
}

static bool is_text(const char *s, int64_t most) {
  int64_t n = 0;
  for (; s[n]; n++)
    if (s[n] < ' ' || s[n] > '~' || n >= most) return false;
  return n > 0;
}

static bool are_keys(const char *s) {
  for (;;) {
    size_t n = strspn(s, "0123456789abcdef");
    if (n != WORKLOAD_KEY) return false;
    s += n;
    if (!*s) return true;
    if (*s++ != ' ') return false;
  }
}

// '#' would end a schedule in a file of schedules.
static bool is_schedule(const char *s) { return is_text(s, SCHEDULE_TEXT) && !strchr(s, '#'); }

bool record_check(const Trial *t) {
  if (t->n < 0 || t->n > TRIAL_SAMPLES || t->code_bytes < 0) return false;
  for (int i = 0; i < t->n; i++)
    if (t->ns[i] <= 0 || t->anchor_ns[i] <= 0) return false;
  if (t->phase == TRIAL_MODEL)
    return !*t->schedule && !*t->dflt &&
           (!*t->key || (strlen(t->key) < KEYS_MAX && are_keys(t->key)));
  return is_key(t->key) && is_schedule(t->schedule) && is_schedule(t->dflt);
}

bool record_check_run(const RunRecord *r) {
  return is_key(r->uid) && is_text(r->machine, SCHEDULE_TEXT) && is_text(r->model, RECORD_MODEL) &&
         is_text(r->tool, RECORD_MODEL) && r->seed >= 0 && r->started >= 0;
}

const char *record_clean(const char *name, Arena *a) {
  char *s = str_copy(a, (Str){name, MIN((int64_t)strlen(name), RECORD_MODEL - 1)});
  for (char *p = s; *p; p++)
    if (*p < ' ' || *p > '~') *p = '?';
  return *s ? s : "model";
}

// ---- writing ----

static void begin(JsonWriter *w, StrBuf *b) {
  json_init(w, b, true);
  json_begin_object(w);
}

static void end(JsonWriter *w) {
  json_end_object(w);
  strbuf_putc(w->out, '\n');
}

static void put_text(JsonWriter *w, const char *key, const char *text) {
  json_key(w, key);
  json_cstr(w, text);
}

static void put_int(JsonWriter *w, const char *key, int64_t v) {
  json_key(w, key);
  json_i64(w, v);
}

static void put_samples(JsonWriter *w, const char *key, const int64_t *v, int n) {
  json_key(w, key);
  json_begin_array(w);
  for (int i = 0; i < n; i++) json_i64(w, v[i]);
  json_end_array(w);
}

void record_put_workload(StrBuf *b, const char *key, Str text) {
  JsonWriter w;
  begin(&w, b);
  put_text(&w, "workload", key);
  json_key(&w, "text");
  json_str(&w, text);
  end(&w);
}

void record_put_run(StrBuf *b, const RunRecord *r) {
  JsonWriter w;
  begin(&w, b);
  put_text(&w, "run", r->uid);
  put_text(&w, "machine", r->machine);
  put_text(&w, "model", r->model);
  put_text(&w, "tool", r->tool);
  put_int(&w, "seed", r->seed);
  put_int(&w, "started", r->started);
  json_key(&w, "reorder");
  json_bool(&w, r->reorder);
  json_key(&w, "finished");
  json_bool(&w, r->finished);
  end(&w);
}

void record_put_trial(StrBuf *b, int64_t seq, const Trial *t) {
  JsonWriter w;
  begin(&w, b);
  put_int(&w, "trial", seq);
  put_text(&w, "phase", trial_phase_name[t->phase]);
  put_text(&w, "status", trial_status_name[t->status]);
  put_text(&w, t->phase == TRIAL_MODEL ? "reverted" : "workload", t->key);
  if (t->phase != TRIAL_MODEL) {
    put_text(&w, "schedule", t->schedule);
    put_text(&w, "default", t->dflt);
  }
  put_int(&w, "code_bytes", t->code_bytes);
  put_samples(&w, "ns", t->ns, t->n);
  put_samples(&w, "default_ns", t->anchor_ns, t->n);
  end(&w);
}

void record_put_head(StrBuf *b) {
  JsonWriter w;
  begin(&w, b);
  put_int(&w, "tenon-records", RECORDS_VERSION);
  put_text(&w, "generator", FILE_MARK " " TENON_VERSION);
  end(&w);
}

// ---- reading ----

typedef struct Reader {
  const char *name;
  int64_t line;
  Arena *a;
  Diag *d;
  VEC(RunRecord) run;
  VEC(TrialLog) log;
  Records *out;
} Reader;

static tenon_status damaged(const Reader *r, const char *why) {
  return fail(r->d, TENON_EFORMAT, NOWHERE, "%s: line %lld: %s", r->name, (long long)r->line, why);
}

// Text without a NUL, so that it is a C string; NULL: there is none.
static const char *get_text(const Reader *r, const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  if (!v || v->kind != JSON_STRING || v->s.n > RECORD_TEXT_MAX) return NULL;
  return v->s.n && memchr(v->s.p, 0, (size_t)v->s.n) ? NULL : str_copy(r->a, v->s);
}

static bool get_int(const Json *j, const char *key, int64_t *out) {
  const Json *v = json_get(j, key);
  *out = v ? v->i : 0;
  return v && v->kind == JSON_INT;
}

static bool get_bool(const Json *j, const char *key, bool *out) {
  const Json *v = json_get(j, key);
  *out = v && v->b;
  return v && v->kind == JSON_BOOL;
}

static bool get_samples(const Json *j, const char *key, int64_t *out, int *n) {
  const Json *v = json_get(j, key);
  if (!v || v->kind != JSON_ARRAY || v->n > TRIAL_SAMPLES) return false;
  for (int64_t i = 0; i < v->n; i++) {
    if (v->item[i].kind != JSON_INT) return false;
    out[i] = v->item[i].i;
  }
  *n = (int)v->n;
  return true;
}

static bool get_word(const Reader *r, const Json *j, const char *key, const char *const *words,
                     int n, uint8_t *out) {
  const char *text = get_text(r, j, key);
  for (int i = 0; text && i < n; i++)
    if (!strcmp(text, words[i])) {
      *out = (uint8_t)i;
      return true;
    }
  return false;
}

static tenon_status read_workload(Reader *r, const Json *j) {
  const char *key = get_text(r, j, "workload"), *text = get_text(r, j, "text");
  if (!key || !text || !is_key(key)) return damaged(r, "it is no workload");
  if (strcmp(workload_key(str_of(text), r->a), key))
    return damaged(r, "the workload's text has another key");
  strmap_put(&r->out->workload, str_of(key), (void *)(uintptr_t)text);
  return TENON_OK;
}

static tenon_status read_run(Reader *r, const Json *j) {
  RunRecord x = {.uid = get_text(r, j, "run"),
                 .machine = get_text(r, j, "machine"),
                 .model = get_text(r, j, "model"),
                 .tool = get_text(r, j, "tool")};
  TrialLog none = {.arena = r->a};
  if (!x.uid || !x.machine || !x.model || !x.tool || !get_int(j, "seed", &x.seed) ||
      !get_int(j, "started", &x.started) || !get_bool(j, "reorder", &x.reorder) ||
      !get_bool(j, "finished", &x.finished) || !record_check_run(&x))
    return damaged(r, "it is no run");
  for (int64_t i = 0; i < r->run.n; i++)
    if (!strcmp(r->run.v[i].uid, x.uid)) return damaged(r, "the run is there twice");
  vec_push(r->a, &r->run, x);
  vec_push(r->a, &r->log, none);
  return TENON_OK;
}

static tenon_status read_trial(Reader *r, const Json *j) {
  Trial t = {.schedule = "", .dflt = ""};
  int64_t seq;
  int n;
  if (!r->run.n) return damaged(r, "a trial before the first run");
  TrialLog *log = &r->log.v[r->log.n - 1];
  if (!get_int(j, "trial", &seq) || seq != log->n)
    return damaged(r, "the trials of a run are not numbered from 0");
  bool ok = get_word(r, j, "phase", trial_phase_name, TRIAL_PHASES, &t.phase) &&
            get_word(r, j, "status", trial_status_name, TRIAL_STATUSES, &t.status) &&
            get_int(j, "code_bytes", &t.code_bytes) && get_samples(j, "ns", t.ns, &t.n) &&
            get_samples(j, "default_ns", t.anchor_ns, &n) && n == t.n;
  bool model = t.phase == TRIAL_MODEL;
  t.key = get_text(r, j, model ? "reverted" : "workload");
  if (!model) {
    t.schedule = get_text(r, j, "schedule");
    t.dflt = get_text(r, j, "default");
  }
  if (!ok || !t.key || !t.schedule || !t.dflt || !record_check(&t))
    return damaged(r, "it is no trial");
  if (!model && !strmap_has(&r->out->workload, str_of(t.key)))
    return damaged(r, "the trial's workload is not above it");
  trial_log_add(log, &t);
  return TENON_OK;
}

static tenon_status read_line(Reader *r, Str line) {
  Diag *quiet = diag_unread();
  Json j;
  if (line.n > LINE_MAX_BYTES) return damaged(r, "the line is too long");
  if (json_parse(r->a, line, quiet, &j)) return damaged(r, "it is no JSON object on one line");
  if (r->line == 1) {
    int64_t version;
    return get_int(&j, "tenon-records", &version) && version == RECORDS_VERSION
               ? TENON_OK
               : damaged(r, "the first line is no {\"tenon-records\": 1}");
  }
  if (json_get(&j, "trial")) return read_trial(r, &j);
  if (json_get(&j, "run")) return read_run(r, &j);
  return read_workload(r, &j);
}

tenon_status records_parse(Str text, const char *name, Arena *a, Diag *d, Records *out) {
  Reader r = {.name = name, .a = a, .d = d, .out = out};
  *out = (Records){0};
  strmap_init(&out->workload, a);
  while (text.n > 0) {
    const char *stop = memchr(text.p, '\n', (size_t)text.n);
    r.line++;
    if (!stop) return damaged(&r, "the line has no end" CUT_OFF);
    TRY(read_line(&r, (Str){text.p, stop - text.p}));
    text.n -= stop + 1 - text.p;
    text.p = stop + 1;
  }
  if (!r.line) return damaged(&r, "the file is empty");
  out->run = r.run.v;
  out->log = r.log.v;
  out->nruns = r.run.n;
  return TENON_OK;
}

Str records_workload(const Records *r, const char *key) {
  const char *text = strmap_get(&r->workload, str_of(key));
  return text ? str_of(text) : (Str){0};
}
