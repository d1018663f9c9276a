// peak.c -- keeps what was measured of this machine (peak.h): a file for each machine and number of
// threads.
//
// Of each figure the best counts that was ever measured: a measurement under load gives too little,
// never too much.
#include "cli/bench/peak.h"

#include "base/machine.h"
#include "base/platform.h"
#include "base/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIGURES = OPS_MEASURED + 2 * LEVELS };

typedef struct PeakFile {
  char folder[4096], name[64];  // no folder: there is no cache
} PeakFile;

static void find_file(int threads, PeakFile *out) {
  Machine m;
  if (!cache_folder(out->folder, sizeof out->folder)) out->folder[0] = 0;
  machine_host(&m);
  uint64_t h = hash_bytes(m.name, (int64_t)strlen(m.name), machine_hash(&m));
  snprintf(out->name, sizeof out->name, "peaks-%016llx-%d", (unsigned long long)h, threads);
}

static double *figure(Peak *p, int i) {
  if (i < OPS_MEASURED) return &p->ops[i];
  i -= OPS_MEASURED;
  return i < LEVELS ? &p->read[i] : &p->copy[i - LEVELS];
}

static void know_caches(Peak *p) {
  Machine m;
  machine_host(&m);
  p->l2 = m.l2_bytes * p->threads;
  p->l3 = m.l3_bytes;
}

static bool read_peak(const PeakFile *file, int threads, Peak *out) {
  File f;
  char text[512] = {0}, *rest = text;
  *out = (Peak){.threads = threads};
  if (!file->folder[0] || !cache_open(file->folder, file->name, &f)) return false;
  if (f.size) memcpy(text, f.bytes, (size_t)MIN(f.size, (int64_t)sizeof text - 1));
  file_close(&f);
  out->when = strtoll(rest, &rest, 10);
  bool whole = out->when > 0;
  for (int i = 0; i < FIGURES; i++) {
    *figure(out, i) = strtod(rest, &rest);
    whole &= *figure(out, i) > 0;
  }
  know_caches(out);
  return whole;
}

static bool write_peak(Arena *a, const PeakFile *file, Peak *p) {
  StrBuf text;
  strbuf_init(&text, a);
  strbuf_printf(&text, "%lld", (long long)p->when);
  for (int i = 0; i < FIGURES; i++) strbuf_printf(&text, " %.0f", *figure(p, i));
  strbuf_putc(&text, '\n');
  Str whole = strbuf_str(&text);
  return file->folder[0] && cache_write(file->folder, file->name, &whole, 1);
}

tenon_status peak_renew(int threads, Arena *a, Diag *d, Peak *out, const char **out_file) {
  Peak old;
  PeakFile file;
  find_file(threads, &file);
  TRY(peak_measure(threads, d, out));
  out->when = (int64_t)time(NULL);
  if (read_peak(&file, threads, &old))
    for (int i = 0; i < FIGURES; i++) *figure(out, i) = MAX(*figure(out, i), *figure(&old, i));
  bool kept = write_peak(a, &file, out);
  if (out_file) *out_file = kept ? str_printf(a, "%s/%s", file.folder, file.name) : "";
  return TENON_OK;
}

bool peak_kept(int threads, Peak *out) {
  PeakFile file;
  if (threads <= 0) threads = machine_threads();
  find_file(threads, &file);
  return read_peak(&file, threads, out);
}

tenon_status peak_get(int threads, Diag *d, Peak *out) {
  if (threads <= 0) threads = machine_threads();
  Arena a;
  PeakFile file;
  arena_init_scoped(&a);
  find_file(threads, &file);
  tenon_status s = TENON_OK;
  if (!read_peak(&file, threads, out)) s = peak_renew(threads, &a, d, out, NULL);
  arena_deinit(&a);
  return s;
}
