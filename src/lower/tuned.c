// tuned.c -- reads and writes files of tuned schedules (tuned.h).
//
// Needs:      entries of one machine, each workload once.
// Guarantees: what tuned_print writes tuned_parse reads as the same entries, and printing those
//             gives the same bytes.  A file with any other byte changed is refused with the place.
#include "lower/tuned.h"

#include "base/sha256.h"
#include "lower/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char first_line[] = "tenon-schedules 1";
enum { GAIN_TEXT = 32 };

// ---- the machine ----

const char *tuned_machine(const LowerTarget *t, Arena *a) {
  const char *text = str_printf(
      a,
      "vector=%d registers=%d l1=%lld l2=%lld fma=%d bf16=%d block=%d shared=%lld shuffle=%d "
      "tile=%lld gpu=%d mma=%d dtypes=%u warp=%d sms=%d",
      t->vector_bytes, t->vector_registers, (long long)t->l1, (long long)t->l2, t->fma, t->bf16,
      t->block_threads, (long long)t->shared_bytes, t->has_shuffle, (long long)t->tile_bytes,
      t->traits.gpu, t->traits.mma, (unsigned)t->traits.mma_dtypes, t->traits.warp_size,
      t->traits.sm_count);
  return str_printf(a, "%.*s %s", MACHINE_KEY, workload_key(str_of(text), a), text);
}

// ---- hashes ----

void tuned_seal(StrBuf *b) {
  Sha256 s;
  uint8_t hash[SHA256_BYTES];
  sha256_init(&s);
  sha256_put(&s, b->p, b->n);
  sha256_end(&s, hash);
  strbuf_puts(b, "sha256 ");
  for (int i = 0; i < SHA256_BYTES; i++) strbuf_printf(b, "%02x", hash[i]);
  strbuf_putc(b, '\n');
}

static bool is_hex(Str s, int64_t digits) {
  if (s.n != digits) return false;
  for (int64_t i = 0; i < s.n; i++)
    if (!memchr("0123456789abcdef", s.p[i], 16)) return false;
  return true;
}

// ---- reading ----

typedef struct Reader {
  Str text;
  int64_t at, line;  // of the next line
  const char *name;
  Arena *a;
  Diag *d;
} Reader;

static tenon_status damaged(const Reader *r, int64_t at, const char *why) {
  return fail(r->d, TENON_EFORMAT, NOWHERE, "%s: line %lld, byte %lld: %s", r->name,
              (long long)r->line, (long long)at, why);
}

// The next line without its end; false: there is no whole one.
static bool next_line(Reader *r, Str *out) {
  const char *p = r->text.p + r->at;
  const char *end = r->at < r->text.n ? memchr(p, '\n', (size_t)(r->text.n - r->at)) : NULL;
  r->line++;
  if (!end) return false;
  *out = (Str){p, end - p};
  r->at += out->n + 1;
  return true;
}

static bool is_printable(Str s) {
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] < ' ' || s.p[i] > '~') return false;
  return true;
}

static bool starts(Str s, const char *with) {
  int64_t n = (int64_t)strlen(with);
  return s.n >= n && !memcmp(s.p, with, (size_t)n);
}

bool tuned_is(Str text) { return starts(text, "tenon-schedules "); }

// The last line is checked first, so that what is read after it is whole.
static tenon_status check_hash(Reader *r) {
  enum { LAST = 7 + 2 * SHA256_BYTES + 1 };
  StrBuf want;
  int64_t at = r->text.n - LAST;
  strbuf_init(&want, r->a);
  if (at < 0 || memcmp(r->text.p + at, "sha256 ", 7))
    return fail(r->d, TENON_EFORMAT, NOWHERE,
                "%s: byte %lld: the last line is no 'sha256 HASH'; the file is cut off, or no file "
                "of tuned schedules",
                r->name, (long long)MAX(at, 0));
  strbuf_put(&want, (Str){r->text.p, at});
  tuned_seal(&want);
  if (memcmp(strbuf_text(&want) + at, r->text.p + at, LAST))
    return fail(r->d, TENON_EFORMAT, NOWHERE,
                "%s: byte %lld: the hash of the bytes before it is another: the file was changed "
                "after `tenon tune` wrote it",
                r->name, (long long)at);
  r->text.n = at;
  return TENON_OK;
}

static tenon_status read_machine(Reader *r, TunedSchedules *out) {
  Str line;
  int64_t at = r->at;
  if (!next_line(r, &line) || !starts(line, "machine ") || line.n < 8 + MACHINE_KEY + 1 ||
      !is_hex((Str){line.p + 8, MACHINE_KEY}, MACHINE_KEY) || !is_printable(line))
    return damaged(r, at, "the second line is no 'machine KEY TRAITS'");
  out->machine = str_copy(r->a, (Str){line.p + 8, line.n - 8});
  return TENON_OK;
}

// The one text of a gain; false: it has none that says more than 0.
static bool gain_text(double gain, char text[GAIN_TEXT]) {
  return isfinite(gain) && snprintf(text, GAIN_TEXT, "%.3f", gain) < GAIN_TEXT &&
         strtod(text, NULL) > 0;
}

// "# 1.234" behind the schedule, which it leaves.  Only the text that tuned_print writes is a gain:
// printing other forms (1e-9, 0x1p3) would lose what was read.
static bool read_gain(Str *schedule, double *gain) {
  char text[GAIN_TEXT], again[GAIN_TEXT], *end;
  const char *mark = memchr(schedule->p, '#', (size_t)schedule->n);
  *gain = 0;
  if (!mark) return true;
  int64_t n = schedule->p + schedule->n - mark - 2;
  if (n < 1 || n >= GAIN_TEXT || mark[1] != ' ' || mark == schedule->p || mark[-1] != ' ')
    return false;
  memcpy(text, mark + 2, (size_t)n);
  text[n] = 0;
  *gain = strtod(text, &end);
  schedule->n = mark - 1 - schedule->p;
  return !*end && gain_text(*gain, again) && !strcmp(text, again);
}

static tenon_status read_entry(Reader *r, Str line, int64_t at, TunedSchedules *out) {
  Str key = {line.p, MIN(line.n, WORKLOAD_KEY)};
  Str schedule = {line.p + key.n + 1, line.n - key.n - 1};
  TunedSchedule e = {0};
  if (!is_hex(key, WORKLOAD_KEY) || schedule.n < 1 || line.p[WORKLOAD_KEY] != ' ')
    return damaged(r, at, "it is no 'WORKLOAD-KEY template field=value ...'");
  if (!is_printable(line) || schedule.n > SCHEDULE_TEXT)
    return damaged(r, at, "the schedule is too long, or is not ASCII");
  if (!read_gain(&schedule, &e.gain))
    return damaged(r, at, "what follows # is no number above 0 with three decimals");
  e.key = str_copy(r->a, key);
  e.schedule = str_copy(r->a, schedule);
  if (out->n && strcmp(out->entry[out->n - 1].key, e.key) >= 0)
    return damaged(r, at, "the entries are not sorted by key, or one is there twice");
  out->entry[out->n++] = e;
  return TENON_OK;
}

static int64_t count_lines(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) n += s.p[i] == '\n';
  return n;
}

tenon_status tuned_parse(Str text, const char *name, Arena *a, Diag *d, TunedSchedules *out) {
  Reader r = {.text = text, .name = name, .a = a, .d = d};
  Str line;
  *out = (TunedSchedules){.name = name};
  TRY(check_hash(&r));
  if (!next_line(&r, &line) || !str_is(line, first_line))
    return damaged(&r, 0, "the first line is not 'tenon-schedules 1'");
  TRY(read_machine(&r, out));
  out->entry = arena_array(a, TunedSchedule, count_lines(r.text));
  while (r.at < r.text.n) {
    int64_t at = r.at;
    if (!next_line(&r, &line)) return damaged(&r, at, "the line has no end");
    if (str_is(line, "reorder") && r.line == 3)
      out->reorder = true;
    else
      TRY(read_entry(&r, line, at, out));
  }
  return TENON_OK;
}

// ---- writing ----

static int by_key(const void *a, const void *b) {
  return strcmp(((const TunedSchedule *)a)->key, ((const TunedSchedule *)b)->key);
}

const char *tuned_print(TunedSchedules *s, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  if (s->n) qsort(s->entry, (size_t)s->n, sizeof *s->entry, by_key);
  strbuf_printf(&b, "%s\nmachine %s\n%s", first_line, s->machine, s->reorder ? "reorder\n" : "");
  for (int64_t i = 0; i < s->n; i++) {
    const TunedSchedule *e = &s->entry[i];
    strbuf_printf(&b, "%s %s", e->key, e->schedule);
    char gain[GAIN_TEXT];
    if (gain_text(e->gain, gain)) strbuf_printf(&b, " # %s", gain);
    strbuf_putc(&b, '\n');
  }
  tuned_seal(&b);
  return strbuf_text(&b);
}

const TunedSchedule *tuned_find(const TunedSchedules *s, const char *key) {
  TunedSchedule want = {.key = key};
  return s->n ? bsearch(&want, s->entry, (size_t)s->n, sizeof want, by_key) : NULL;
}
