// device.c -- compiles a program for one device: opens it, lowers for it, attaches its code.
//
// device_begin opens the driver's device and fills LowerOptions.device[1] from its properties.
// While the graph is lowered, Target.takes writes each kernel's text.  device_finish copies the
// text of all kernels into the program.
//
// Needs:      a Target with a driver; the caller calls device_release on every path.
// Guarantees: a split program whose kernels all went to the host gets no device.  The program owns
//             its copy of the code and of the device's name.
#include "targets/device.h"

static tenon_status takes(void *ctx, int device, const LoopKernel *k, const char **why) {
  const DeviceTarget *t = ctx;
  (void)device;
  return t->target->takes(t->text, k, why);
}

tenon_status device_begin(DeviceTarget *t, const Target *target, const TargetOptions *o, Arena *a,
                          Diag *d, LowerOptions *lo) {
  int index;
  t->target = target;
  t->options = o;
  t->driver = device_driver(target->driver);
  if (!t->driver)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "there is no driver '%s'", target->driver);
  TRY(t->driver->find(o->device, d, &index));
  TRY(t->driver->open(index, d, &t->device));
  const DeviceInfo *info = t->driver->info(t->device);
  lo->ndevices = 2;
  target->describe_device(info, &lo->device[1]);
  lo->takes = takes;
  lo->device_ctx = t;
  t->text = target->begin(info, o, a);
  return TENON_OK;
}

tenon_status device_finish(DeviceTarget *t, const Compiled *c, Diag *d) {
  Program *p = c->program;
  const DeviceInfo *info = t->driver->info(t->device);
  Str code;
  bool used = !t->assignment;
  for (int32_t i = 0; i < p->nkernels; i++) used |= p->kernel[i].device > 0;
  // Work that is shared may all be the host's: then it is a program of the host.
  if (!used) return TENON_OK;
  p->target = t->target->name;
  p->ndevices = 2;
  p->device = arena_array(&p->arena, ProgDevice, p->ndevices);
  TRY(t->target->finish(t->text, d, &code));
  p->device[1] = (ProgDevice){.driver = t->target->driver,
                              .made_for = str_copy(&p->arena, str_of(info->name)),
                              .code = {arena_dup(&p->arena, code.p, code.n), code.n},
                              .pick = str_copy(&p->arena, str_of(info->pick)),
                              .no_cache = t->options->no_cache};
  program_use_devices(p);
  return TENON_OK;
}

void device_release(DeviceTarget *t) {
  if (t->device) t->driver->close(t->device);
  t->device = NULL;
}
