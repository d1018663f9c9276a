// log.c -- structured logs (log.h).
#include "serve/log.h"

#include "base/platform.h"

enum { FLUSH_BYTES = 32768 };

static struct {
  Arena arena;
  StrBuf lines;
  JsonWriter w;
  int64_t from;  // where the line that was begun starts
  LogLevel most;
  bool begun;
} log_state = {.most = LOG_INFO};

void log_level(LogLevel most) { log_state.most = most; }
LogLevel log_level_now(void) { return log_state.most; }

JsonWriter *log_begin(LogLevel level, const char *event) {
  static const char *const name[] = {"info", "error", "warning", "info", "info"};
  if (level > log_state.most) return NULL;
  if (!log_state.lines.arena) {
    arena_init(&log_state.arena);
    strbuf_init(&log_state.lines, &log_state.arena);
  }
  JsonWriter *w = &log_state.w;
  log_state.from = log_state.lines.n;
  json_init(w, &log_state.lines, true);
  json_begin_object(w);
  json_key(w, "time");
  json_i64(w, platform->file_time());
  json_key(w, "level");
  json_cstr(w, name[level]);
  json_key(w, "event");
  json_cstr(w, event);
  log_state.begun = true;
  return w;
}

void log_end(void) {
  if (!log_state.begun) return;
  log_state.begun = false;
  json_end_object(&log_state.w);
  strbuf_putc(&log_state.lines, '\n');
  if (log_state.lines.n > FLUSH_BYTES) log_flush();
}

void log_guarded(void (*write)(void *arg), void *arg) {
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) write(arg);
  trap_leave(&t);
  if (t.status) log_state.lines.n = log_state.from;
  if (t.status) log_state.begun = false;
}

// A log that cannot be written is no reason to stop serving.
void log_flush(void) {
  if (!log_state.lines.n) return;
  (void)fd_write(2, log_state.lines.p, log_state.lines.n);
  log_state.lines.n = 0;
}

void log_close(void) {
  log_flush();
  if (!log_state.lines.arena) return;
  arena_deinit(&log_state.arena);
  log_state.lines = (StrBuf){0};
}

typedef struct LogText {
  LogLevel level;
  const char *event, *text;
} LogText;

static void write_text(void *arg) {
  const LogText *l = arg;
  JsonWriter *w = log_begin(l->level, l->event);
  if (!w) return;
  json_key(w, "text");
  json_cstr(w, l->text);
  log_end();
}

void log_text(LogLevel level, const char *event, const char *text) {
  LogText l = {level, event, text};
  log_guarded(write_text, &l);
}
