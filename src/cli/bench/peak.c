// peak.c -- keeps what was measured of this machine (peak.h): a file for each machine and number of threads.
//
// Of each figure the best counts that was ever measured: a measurement under load gives too little, never too much.
#include "cli/bench/peak.h"

#include "base/machine.h"
#include "base/platform.h"
#include "base/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIGURES = OPS_KINDS + 2 * LEVELS };

static const char *cache_file(Arena *a, int threads) {
  Machine m;
  char folder[4096];
  if (!cache_folder(folder, sizeof folder)) return NULL;
  machine_host(&m);
  uint64_t h = hash_bytes(m.name, (int64_t)strlen(m.name), machine_hash(&m));
  return str_printf(a, "%s/peaks-%016llx-%d", folder, (unsigned long long)h, threads);
}

static double *figure(Peak *p, int i) {
  if (i < OPS_KINDS) return &p->ops[i];
  i -= OPS_KINDS;
  return i < LEVELS ? &p->read[i] : &p->copy[i - LEVELS];
}

static void know_caches(Peak *p) {
  Machine m;
  machine_host(&m);
  p->l2 = m.l2_bytes * p->threads;
  p->l3 = m.l3_bytes;
}

static bool read_peak(const char *path, int threads, Peak *out) {
  File f;
  Diag quiet;
  char text[512] = {0}, *rest = text;
  diag_init(&quiet);
  *out = (Peak){.threads = threads};
  if (!path || file_open(path, &f, &quiet)) return false;
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

static bool write_peak(Arena *a, const char *path, Peak *p) {
  char folder[4096];
  StrBuf text;
  Diag quiet;
  diag_init(&quiet);
  strbuf_init(&text, a);
  strbuf_printf(&text, "%lld", (long long)p->when);
  for (int i = 0; i < FIGURES; i++) strbuf_printf(&text, " %.0f", *figure(p, i));
  strbuf_putc(&text, '\n');
  if (cache_folder(folder, sizeof folder)) cache_make(folder);
  return path && !file_write(path, text.p, text.n, &quiet);
}

tenon_status peak_renew(int threads, Arena *a, Diag *d, Peak *out, const char **out_file) {
  Peak old;
  const char *file = cache_file(a, threads);
  TRY(peak_measure(threads, d, out));
  out->when = (int64_t)time(NULL);
  if (read_peak(file, threads, &old))
    for (int i = 0; i < FIGURES; i++) *figure(out, i) = MAX(*figure(out, i), *figure(&old, i));
  bool kept = write_peak(a, file, out);
  if (out_file) *out_file = kept ? file : "";
  return TENON_OK;
}

tenon_status peak_get(int threads, Diag *d, Peak *out) {
  if (threads <= 0) threads = machine_threads();
  Arena a;
  arena_init_scoped(&a);
  tenon_status s = TENON_OK;
  if (!read_peak(cache_file(&a, threads), threads, out)) s = peak_renew(threads, &a, d, out, NULL);
  arena_deinit(&a);
  return s;
}
