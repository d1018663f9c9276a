// log.h -- lines of JSON on standard error: what happened, never what was asked or answered.
//
//   JsonWriter *w = log_begin(LOG_INFO, "model loaded");
//   if (w) json_key(w, "model"), json_cstr(w, name);
//   log_end();
#ifndef TENON_SERVE_LOG_H
#define TENON_SERVE_LOG_H

#include "base/json.h"

// LOG_ALWAYS: information that is written at any level.
typedef enum { LOG_ALWAYS, LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_REQUESTS } LogLevel;
void log_level(LogLevel most);
LogLevel log_level_now(void);
// NULL: this level is not written.  `event` names what happened.
JsonWriter *log_begin(LogLevel level, const char *event);
void log_end(void);
// Calls what writes a line; where memory runs out the line is left out.
void log_guarded(void (*write)(void *arg), void *arg);
void log_flush(void);  // lines are written together
void log_close(void);  // at the end: frees what lines need
void log_text(LogLevel level, const char *event, const char *text);

#endif
