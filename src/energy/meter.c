// meter.c -- finds and reads counters of energy (meter.h).
//
// Needs:      Linux; for powercap and perf the right to read them, which many systems give to root
//             alone.
// Guarantees: a counter that starts again between two readings counts on, if it is read at least
//             once a range.  A file that is no number is an error, never 0.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // syscall
#endif
#include "energy/meter.h"

#include "base/platform.h"
#include "base/process.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define METER(name, gpu, doc)                                                                      \
  static bool find_##name(Meter *m, const char *root, char *why, int cap);
#include "energy/meter.def"
#undef METER
#define METER(name, gpu, doc) {#name, doc, find_##name},
static const MeterRow rows[] = {
#include "energy/meter.def"
};
#undef METER
#define METER(name, gpu, doc) gpu,
static const bool is_gpu[] = {
#include "energy/meter.def"
};

// ---- files ----

enum { TEXT_CAP = 128 };

// The first line of a file; an errno value.
static int read_line(const char *path, char *out) {
  int fd;
  int64_t size, got = 0;
  *out = 0;
  int err = platform->open_read(path, &fd, &size);
  if (err) return err;
  err = platform->read(fd, out, TEXT_CAP - 1, &got);
  platform->close(fd);
  out[err ? 0 : got] = 0;
  out[strcspn(out, "\n")] = 0;
  return err;
}

static int read_count(const char *path, uint64_t *out) {
  char text[TEXT_CAP], *end;
  int err = read_line(path, text);
  *out = 0;
  if (err) return err;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (end == text || *end || errno || *text == '-') return EINVAL;
  *out = v;
  return 0;
}

typedef struct Names {
  char name[METER_COUNTERS][64];
  int n;
} Names;

static void add_name(void *ctx, const char *name) {
  Names *all = ctx;
  if (all->n < METER_COUNTERS && strlen(name) < sizeof all->name[0])
    snprintf(all->name[all->n++], sizeof all->name[0], "%s", name);
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static int names_in(const char *folder, Names *out) {
  out->n = 0;
  int err = platform->names(folder, add_name, out);
  qsort(out->name, (size_t)out->n, sizeof out->name[0], by_name);
  return err;
}

static MeterCounter *add_counter(Meter *m, double unit, uint64_t range) {
  if (m->n == METER_COUNTERS) return NULL;
  MeterCounter *c = &m->counter[m->n++];
  *c = (MeterCounter){.fd = -1, .unit = unit, .range = range};
  return c;
}

// ---- powercap ----

static bool add_package(Meter *m, const char *folder, int *err) {
  char path[METER_PATH], text[TEXT_CAP];
  uint64_t range, now;
  snprintf(path, sizeof path, "%s/name", folder);
  if (read_line(path, text) || strncmp(text, "package", 7)) return false;
  snprintf(path, sizeof path, "%s/max_energy_range_uj", folder);
  if ((*err = read_count(path, &range))) return false;
  snprintf(path, sizeof path, "%s/energy_uj", folder);
  if ((*err = read_count(path, &now))) return false;
  MeterCounter *c = add_counter(m, 1e-6, range);
  if (c) memcpy(c->path, path, sizeof path);
  return c != NULL;
}

static bool find_powercap(Meter *m, const char *root, char *why, int cap) {
  char folder[METER_PATH / 2], path[METER_PATH - 64];
  Names all;
  int err = 0;
  snprintf(folder, sizeof folder, "%s/sys/class/powercap", root);
  if (names_in(folder, &all)) all.n = 0;
  for (int i = 0; i < all.n; i++) {
    const char *colon = strchr(all.name[i], ':');
    if (!colon || strchr(colon + 1, ':')) continue;  // a part of a package
    snprintf(path, sizeof path, "%s/%s", folder, all.name[i]);
    add_package(m, path, &err);
  }
  if (!m->n && err)
    snprintf(why, (size_t)cap, "energy_uj below %s cannot be read: %s", folder, error_text(err).s);
  else if (!m->n)
    snprintf(why, (size_t)cap, "there is no package below %s", folder);
  return m->n > 0;
}

// ---- perf ----

static bool find_perf(Meter *m, const char *root, char *why, int cap) {
  char folder[METER_PATH / 2], path[METER_PATH], text[TEXT_CAP], *end;
  uint64_t type;
  unsigned long event = 0;
  snprintf(folder, sizeof folder, "%s/sys/bus/event_source/devices/power", root);
  snprintf(path, sizeof path, "%s/type", folder);
  if (read_count(path, &type)) {
    snprintf(why, (size_t)cap, "there is no %s", path);
    return false;
  }
  snprintf(path, sizeof path, "%s/events/energy-pkg", folder);
  bool is_event = !read_line(path, text) && !strncmp(text, "event=0x", 8);
  if (is_event) event = strtoul(text + 8, &end, 16);
  if (!is_event || *end) {
    snprintf(why, (size_t)cap, "%s has no event energy-pkg", folder);
    return false;
  }
  snprintf(path, sizeof path, "%s/events/energy-pkg.scale", folder);
  double unit = read_line(path, text) ? 0 : strtod(text, &end);
  struct perf_event_attr a = {.type = (uint32_t)type, .size = sizeof a, .config = event};
  int fd = unit > 0 ? (int)syscall(SYS_perf_event_open, &a, -1, 0, -1, PERF_FLAG_FD_CLOEXEC) : -1;
  if (fd < 0) {
    snprintf(why, (size_t)cap, "power/energy-pkg cannot be opened: %s", error_text(errno).s);
    return false;
  }
  MeterCounter *c = add_counter(m, unit, 0);
  c->fd = fd;
  return true;
}

// ---- hwmon ----

static void add_sockets(Meter *m, const char *folder) {
  char path[METER_PATH], text[TEXT_CAP];
  uint64_t now;
  for (int i = 1; i <= METER_COUNTERS; i++) {
    snprintf(path, sizeof path, "%s/energy%d_label", folder, i);
    if (read_line(path, text) || strncmp(text, "Esocket", 7)) continue;
    snprintf(path, sizeof path, "%s/energy%d_input", folder, i);
    if (read_count(path, &now)) continue;
    MeterCounter *c = add_counter(m, 1e-6, 0);
    if (c) memcpy(c->path, path, sizeof path);
  }
}

static bool find_hwmon(Meter *m, const char *root, char *why, int cap) {
  char folder[METER_PATH / 2], path[METER_PATH - 64];
  Names all;
  snprintf(folder, sizeof folder, "%s/sys/class/hwmon", root);
  if (names_in(folder, &all)) all.n = 0;
  for (int i = 0; i < all.n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, all.name[i]);
    add_sockets(m, path);
  }
  if (!m->n) snprintf(why, (size_t)cap, "there is no energy of a socket below %s", folder);
  return m->n > 0;
}

// ---- NVML ----

static bool find_nvml(Meter *m, const char *root, char *why, int cap) {
  (void)root;
  snprintf(why, (size_t)cap, "libnvidia-ml.so.1 is not there, or has no counter of energy");
  if (!(m->library = library_open("libnvidia-ml.so.1"))) return false;
  int (*init)(void), (*count)(unsigned *), (*device)(unsigned, void **);
  *(void **)&init = library_symbol(m->library, "nvmlInit_v2");
  *(void **)&count = library_symbol(m->library, "nvmlDeviceGetCount_v2");
  *(void **)&device = library_symbol(m->library, "nvmlDeviceGetHandleByIndex_v2");
  *(void **)&m->nvml_energy = library_symbol(m->library, "nvmlDeviceGetTotalEnergyConsumption");
  unsigned n = 0;
  if (!init || !count || !device || !m->nvml_energy || init() || count(&n)) return false;
  for (unsigned i = 0; i < n; i++) {
    void *handle;
    unsigned long long mj;
    if (device(i, &handle) || m->nvml_energy(handle, &mj)) continue;
    MeterCounter *c = add_counter(m, 1e-3, 0);
    if (c) c->device = handle;
  }
  return m->n > 0;
}

// ---- all of them ----

static int read_counter(const Meter *m, const MeterCounter *c, uint64_t *out) {
  unsigned long long mj;
  if (c->device) {
    int failed = m->nvml_energy(c->device, &mj);
    *out = failed ? 0 : mj;
    return failed ? EIO : 0;
  }
  if (c->fd < 0) return read_count(c->path, out);
  return read(c->fd, out, sizeof *out) == (ssize_t)sizeof *out ? 0 : EIO;
}

static tenon_status say_failed(const Meter *m, const MeterCounter *c, int err, Diag *d) {
  return fail(d, TENON_EIO, NOWHERE, "the meter %s cannot be read%s%s: %s", m->row->name,
              *c->path ? ": " : "", c->path, error_text(err).s);
}

tenon_status meter_open(Meter *m, const char *root, bool gpu, Diag *d) {
  char why[ARRAY_LEN(rows)][METER_PATH];
  for (int i = 0; i < ARRAY_LEN(rows); i++) {
    why[i][0] = 0;
    if (is_gpu[i] != gpu) continue;
    *m = (Meter){.row = &rows[i]};
    if (rows[i].find(m, root, why[i], METER_PATH)) {
      for (int k = 0; k < m->n; k++) {
        int err = read_counter(m, &m->counter[k], &m->counter[k].last);
        if (err) return say_failed(m, &m->counter[k], err, d);
      }
      return TENON_OK;
    }
    meter_close(m);
  }
  fail(d, TENON_EUNSUPPORTED, NOWHERE, "this machine has no meter of energy that can be read");
  for (int i = 0; i < ARRAY_LEN(rows); i++)
    if (why[i][0]) diag_note(d, "%s: %s", rows[i].name, why[i]);
  return TENON_EUNSUPPORTED;
}

tenon_status meter_read(Meter *m, Diag *d, double *out_joules) {
  *out_joules = 0;
  for (int i = 0; i < m->n; i++) {
    MeterCounter *c = &m->counter[i];
    uint64_t now, more;
    int err = read_counter(m, c, &now);
    if (err) return say_failed(m, c, err, d);
    if (now < c->last && c->range < c->last) return say_failed(m, c, ERANGE, d);
    more = now >= c->last ? now - c->last : c->range - c->last + now;
    m->joules += (double)more * c->unit;
    c->last = now;
  }
  *out_joules = m->joules;
  return TENON_OK;
}

void meter_close(Meter *m) {
  for (int i = 0; i < m->n; i++)
    if (m->counter[i].fd >= 0) close(m->counter[i].fd);
  library_close(m->library);
  *m = (Meter){.row = m->row};
}
