// peak_device.c -- what a GPU can do at most, by its clocks (peak.h).
//
// Operations a clock of a multiprocessor are those of NVIDIA's architecture papers, of dense
// operands with sums in f32; L2 gives 64 bytes a clock to each multiprocessor.  A launch is timed
// as the steps of a profile are: between two marks of an idle queue.
#include "cli/bench/peak.h"

#include "runtime/device.h"

enum { L2_BYTES_A_CLOCK = 64, LAUNCHES = 20, WORD = 4 };

static const struct {
  int arch;
  int ops[OPS_KINDS];  // f32, bf16, int8, tf32
} chips[] = {
    {75, {128, 0, 2048, 0}},       {80, {128, 2048, 4096, 1024}},   {86, {256, 512, 2048, 256}},
    {90, {256, 4096, 8192, 2048}}, {100, {256, 8192, 16384, 4096}}, {120, {256, 512, 2048, 256}},
};

static const int *ops_a_clock(int arch) {
  const int *found = NULL;
  for (int i = 0; i < ARRAY_LEN(chips) && chips[i].arch <= arch; i++) found = chips[i].ops;
  return found;
}

static tenon_status time_launch(const DeviceDriver *driver, Device *dev, DeviceQueue *q,
                                DeviceBuffer *word, Diag *d, double *out_ms) {
  double ns = 0;
  (void)dev;
  for (int i = 0; i < LAUNCHES; i++) {
    TRY(driver->mark(q, 0, d));
    TRY(driver->fill(q, (DevicePlace){word, 0}, WORD, d));
    TRY(driver->mark(q, 1, d));
    TRY(driver->finish(q, d));
    TRY(driver->between(q, 0, 1, &ns, d));
    if (!i || ns < *out_ms * 1e6) *out_ms = ns / 1e6;
  }
  return TENON_OK;
}

static tenon_status measure_launch(const DeviceDriver *driver, Device *dev, Diag *d,
                                   double *out_ms) {
  DeviceQueue *q;
  DeviceBuffer *word;
  if (!driver->mark || !driver->between) return TENON_OK;
  TRY(driver->queue(dev, d, &q));
  tenon_status s = driver->buffer(dev, WORD, d, &word);
  if (!s) {
    s = time_launch(driver, dev, q, word, d, out_ms);
    driver->buffer_free(dev, word);
  }
  driver->queue_free(q);
  return s;
}

static void fill_peak(const DeviceInfo *i, const int *ops, Arena *a, Peak *out) {
  double clocks = i->clock_hz * i->compute_units;
  for (int k = 0; k < OPS_KINDS; k++) out->ops[k] = clocks * ops[k];
  for (int l = 0; l < LEVELS; l++)
    out->read[l] = out->copy[l] = l == LEVEL_MEMORY ? i->memory_rate : clocks * L2_BYTES_A_CLOCK;
  out->l2 = out->l3 = i->l2_bytes;
  out->device = str_copy(a, str_of(i->name));
}

tenon_status peak_of_device(const Program *p, Arena *a, Diag *d, Peak *out) {
  *out = (Peak){.fresh = true};
  for (int32_t i = 1; i < p->ndevices; i++) {
    const DeviceDriver *driver = device_driver(p->device[i].driver);
    Device *dev;
    int index;
    if (!driver) continue;
    TRY(driver->find(p->device[i].pick, d, &index));
    TRY(driver->open(index, d, &dev));
    const DeviceInfo *info = driver->info(dev);
    const int *ops = ops_a_clock(info->arch);
    tenon_status s = TENON_OK;
    if (ops && info->clock_hz > 0 && info->memory_rate > 0) {
      fill_peak(info, ops, a, out);
      s = measure_launch(driver, dev, d, &out->launch_ms);
    }
    driver->close(dev);
    return s;
  }
  return TENON_OK;
}
