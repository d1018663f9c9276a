// term.c -- what commands share for output: terminal, progress bar, numbers as people read them.
#include "cli/cli.h"

#include "base/platform.h"

#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

bool term_color(FILE *f) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  if ((no && *no) || (term && !strcmp(term, "dumb"))) return false;
  return isatty(fileno(f)) == 1;
}

int term_width(void) {
  struct winsize w;
  if (isatty(1) && !ioctl(1, TIOCGWINSZ, &w) && w.ws_col >= 40) return MIN(w.ws_col, 120);
  return 80;
}

void progress_start(Progress *p, int64_t total) {
  *p = (Progress){.total = total, .shown = isatty(2) == 1 && total > 1};
}

static void draw_bar(Progress *p, const char *what, bool whole_line) {
  int width = 30, full = (int)(p->done * width / MAX(p->total, 1));
  char name[61];
  snprintf(name, sizeof name, "%s", what);
  text_clean(name, (int64_t)strlen(name));
  fprintf(stderr, "%s[%.*s%.*s] %lld/%lld %s%s", whole_line ? "" : "\r\033[K", full,
          "##############################", width - full, "..............................",
          (long long)p->done, (long long)p->total, name, whole_line ? "\n" : "");
  fflush(stderr);
}

void progress_step(Progress *p, const char *what) {
  p->done++;
  int64_t now = platform->now();
  // Ten drawings a second are enough for the eye and cost nothing.
  if (!p->shown || (p->done < p->total && now - p->drawn_at < 100000000)) return;
  p->drawn_at = now;
  draw_bar(p, what, false);
}

static bool watch_compilation(void *ctx, const char *stage, const char *what, int64_t done,
                              int64_t total) {
  enum { BEFORE = 1000000000, BETWEEN = 100000000 };
  Progress *p = ctx;
  const char *asked = getenv("TENON_PROGRESS");
  bool always = asked && !strcmp(asked, "1"), terminal = isatty(2) == 1;
  int64_t now = platform->now();
  char text[128];
  p->done = done;
  p->total = total;
  if (!p->began) p->began = now;
  if (!always && (!terminal || now - p->began < BEFORE || now - p->drawn_at < BETWEEN)) return true;
  p->drawn_at = now;
  p->shown = terminal;
  snprintf(text, sizeof text, "%s%s%s", stage, *what ? ": " : "", what);
  draw_bar(p, text, !terminal);
  return true;
}

Watch progress_watch(Progress *p) {
  *p = (Progress){0};
  return (Watch){watch_compilation, p};
}

void progress_end(Progress *p) {
  if (p->shown) fprintf(stderr, "\r\033[K");
  p->shown = false;
}

const char *text_count(NumText *b, int64_t n) {
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
  for (int i = 0; i < len; i++) {
    b->s[at++] = digits[i];
    int left = len - 1 - i;
    if (left && left % 3 == 0 && digits[i] != '-') b->s[at++] = ',';
  }
  b->s[at] = 0;
  return b->s;
}

static const char *scaled(NumText *b, double x, double step, const char *const *unit, int nunits) {
  int u = 0;
  while (fabs(x) >= step && u + 1 < nunits) {
    x /= step;
    u++;
  }
  int digits = u == 0 ? 0 : fabs(x) < 10 ? 2 : fabs(x) < 100 ? 1 : 0;
  snprintf(b->s, sizeof b->s, "%.*f%s%s", digits, x, *unit[u] ? " " : "", unit[u]);
  return b->s;
}
const char *text_si(NumText *b, double x) {
  static const char *const unit[] = {"", "k", "M", "G", "T", "P"};
  return scaled(b, x, 1000, unit, (int)ARRAY_LEN(unit));
}
const char *text_bytes(NumText *b, int64_t n) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(b, (double)n, 1024, unit, (int)ARRAY_LEN(unit));
}

void say(Cli *c, const char *fmt, ...) {
  ArenaMark m = arena_mark(&c->arena);
  int64_t before = (int64_t)strspn(fmt, "\n"), after = 0, len = (int64_t)strlen(fmt);
  while (after < len - before && fmt[len - 1 - after] == '\n') after++;
  va_list ap;
  va_start(ap, fmt);
  char *text = str_vprintf(&c->arena, fmt, ap);
  va_end(ap);
  int64_t n = (int64_t)strlen(text);
  text_clean(text + before, n - before - after);
  fwrite(text, 1, (size_t)n, stdout);
  arena_reset(&c->arena, m);
}

const char *clean_text(Arena *a, const char *text) {
  char *copy = str_copy(a, str_of(text ? text : ""));
  text_clean(copy, (int64_t)strlen(copy));
  return copy;
}

int cli_print(const StrBuf *b) {
  fwrite(strbuf_text(b), 1, (size_t)b->n, stdout);
  fputc('\n', stdout);
  return CLI_OK;
}

const char *text_day(NumText *b, int64_t seconds) {
  time_t when = (time_t)seconds;
  struct tm tm;
  if (!gmtime_r(&when, &tm) || !strftime(b->s, sizeof b->s, "%Y-%m-%d", &tm)) b->s[0] = 0;
  return b->s;
}
