// diag.c -- messages in the caller's fixed buffer.
//
// Lines are separated by a newline, with none at the end.  Names out of a model are data: whatever
// is not printable UTF-8 becomes '?', so that a message cannot drive a terminal.  What does not fit
// is cut, at a character's boundary.
//
// Guarantees: text is NUL-terminated UTF-8; status is that of the first failure; nothing allocates.
#include "base/base.h"
#include "base/budget.h"

#include <stdio.h>

void diag_init(Diag *d) {
  d->status = TENON_OK;
  d->base = NOWHERE;
  d->len = 0;
  d->text[0] = 0;
}

Diag *diag_unread(void) {
  static _Thread_local Diag unread;
  diag_init(&unread);
  return &unread;
}

const char *status_name(tenon_status s) {
  switch (s) {
  case TENON_OK: return "ok";
  case TENON_EINVAL: return "invalid";
  case TENON_EFORMAT: return "malformed";
  case TENON_EUNSUPPORTED: return "unsupported";
  case TENON_EIO: return "io";
  case TENON_ENOMEM: return "out of memory";
  case TENON_EDEVICE: return "device";
  case TENON_EINTERNAL: return "internal";
  case TENON_ECANCELLED: return "cancelled";
  }
  return "?";
}

static void putv(Diag *d, const char *fmt, va_list ap) {
  int64_t room = TENON_ERROR_CAPACITY - d->len;  // the NUL included, so at least 1
  int n = vsnprintf(d->text + d->len, (size_t)room, fmt, ap);
  if (n > 0) d->len += MIN(n, room - 1);
}

static void PRINTF(2, 3) put(Diag *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  putv(d, fmt, ap);
  va_end(ap);
}

static int64_t char_bytes(char c) {
  uint8_t u = (uint8_t)c;
  return u < 0xC0 ? 1 : u < 0xE0 ? 2 : u < 0xF0 ? 3 : 4;
}

void text_clean(char *p, int64_t n) {
  for (int64_t i = 0; i < n;) {
    uint8_t c = (uint8_t)p[i];
    int64_t len = char_bytes(p[i]);
    bool ok = i + len <= n && str_is_utf8((Str){p + i, len});
    bool control = c < 0x20 || c == 0x7F || (ok && c == 0xC2 && (uint8_t)p[i + 1] < 0xA0);
    if (ok && !control)
      i += len;
    else
      p[i++] = '?';
  }
}

// Makes the text from `from` on printable.  Where the buffer's end cut a character, the rest of it
// goes.
static void clean(Diag *d, int64_t from) {
  int64_t last = d->len - 1;
  while (last > from && last > d->len - 4 && ((uint8_t)d->text[last] & 0xC0) == 0x80) last--;
  if (d->len == TENON_ERROR_CAPACITY - 1 && last >= from && (uint8_t)d->text[last] >= 0xC0 &&
      last + char_bytes(d->text[last]) > d->len)
    d->text[d->len = last] = 0;
  text_clean(d->text + from, d->len - from);
}

static bool set(const char *z) { return z && *z; }

static void put_where(Diag *d, Where at) {
  if (!set(at.file)) at.file = d->base.file;
  if (!set(at.node) && !set(at.op)) at.op = d->base.op;
  if (!set(at.node)) at.node = d->base.node;
  if (!at.has_offset) at.has_offset = d->base.has_offset, at.offset = d->base.offset;
  if (!at.line) at.line = d->base.line, at.column = d->base.column;
  if (set(at.file)) put(d, "%.1000s:", at.file);
  if (at.line) put(d, set(at.file) ? "%d:" : "line %d:", at.line);
  if (at.line && at.column) put(d, "%d:", at.column);
  if (set(at.file) || at.line) put(d, " ");
  if (at.has_offset) put(d, "byte %lld: ", (long long)at.offset);
  if (set(at.node)) {
    put(d, "node '%.1000s'", at.node);
    if (set(at.op)) put(d, " (%.1000s)", at.op);
    put(d, ": ");
  } else if (set(at.op)) {
    put(d, "%.1000s: ", at.op);
  }
}

// ---- at work ----

static _Thread_local AtWork work = {.index = -1};

AtWork at_work(void) { return work; }
void at_work_set(AtWork w) { work = w; }
const char *at_work_name(void) { return work.step ? work.step : work.node; }

void at_work_part(const char *doing, const char *what, int64_t index) {
  work.doing = doing;
  work.what = what;
  work.index = index;
  at_work_node(NULL);
}

void at_work_node(const char *name) {
  size_t n = name ? strnlen(name, sizeof work.node - 1) : 0;
  while (n && name[n] && ((uint8_t)name[n] & 0xC0) == 0x80) n--;  // no part of a character
  if (n) memcpy(work.node, name, n);
  work.node[n] = 0;
  work.step = NULL;
}

void at_work_step(const char *name) {
  work.step = name;
  work.node[0] = 0;
}

static void put_part(Diag *d) {
  if (!work.doing) return;
  put(d, "%s", work.doing);
  if (set(work.what)) put(d, " %.1000s", work.what);
  if (work.index >= 0) put(d, " %lld", (long long)work.index);
  put(d, ": ");
}

// ---- messages ----

tenon_status failv(Diag *d, tenon_status code, Where at, const char *fmt, va_list ap) {
  if (!d) return code;
  if (!d->status) d->status = code;
  if (d->len) put(d, "\n");
  int64_t from = d->len;
  bool ended = code == TENON_ENOMEM;  // by memory or by a limit, wherever that was
  bool named = set(at.node) || set(d->base.node);
  if (ended && !named) at.node = at_work_name();
  put_where(d, at);
  if (ended && !named && !set(at.node)) put_part(d);
  putv(d, fmt, ap);
  int64_t limit = ended ? budget_refused() : 0;
  if (limit)
    put(d, " within the memory limit of %lld %s (--max-memory sets another)",
        (long long)(limit >> 20 ? limit >> 20 : limit >> 10), limit >> 20 ? "MiB" : "KiB");
  clean(d, from);
  return code;
}

tenon_status diag_again(Diag *d, tenon_status code, const char *text) {
  if (!d) return code;
  int64_t n = (int64_t)strlen(text);
  if (!d->status) d->status = code;
  if (d->len >= n && !memcmp(d->text + d->len - n, text, (size_t)n)) return code;
  put(d, "%s%s", d->len ? "\n" : "", text);
  return code;
}

tenon_status fail(Diag *d, tenon_status code, Where at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  failv(d, code, at, fmt, ap);
  va_end(ap);
  return code;
}

void diag_note(Diag *d, const char *fmt, ...) {
  if (!d) return;
  if (d->len) put(d, "\n");
  int64_t from = d->len;
  va_list ap;
  va_start(ap, fmt);
  put(d, "  ");
  putv(d, fmt, ap);
  va_end(ap);
  clean(d, from);
}
